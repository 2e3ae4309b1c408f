//! Both forms of traces: traces that were written can be read, and all other bytes are refused.

#[path = "fuzz/body.rs"]
mod body;

use arbtest::arbitrary::{Result, Unstructured};
use wasm_aot_trace::{
    Change, Declared, Door, End, Ending, Error, Event, Frame, MAGIC, Program, R3Writer, Reader,
    Signature, Sink, TextReader, Value, Writer, heading,
};
use wasmparser::{FuncType, ValType};

fn value(u: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match u.int_in_range(0..=6)? {
        0 => Value::I32(u.arbitrary()?),
        1 => Value::I64(u.arbitrary()?),
        2 => Value::F32(u.arbitrary()?),
        3 => Value::F64(u.arbitrary()?),
        4 => Value::V128(u.arbitrary()?),
        5 => Value::Func(u.arbitrary()?),
        _ => Value::Extern(u.arbitrary()?),
    })
}

fn values(u: &mut Unstructured<'_>) -> Result<Vec<Value>> {
    (0..u.int_in_range(0..=3)?).map(|_| value(u)).collect()
}

fn end(u: &mut Unstructured<'_>) -> Result<End> {
    Ok(match u.int_in_range(0..=3)? {
        0 => End::Values(values(u)?),
        1 => {
            let count = u.int_in_range(0..=2)?;
            let frame = |u: &mut Unstructured<'_>| {
                Ok(Frame { function: u.arbitrary()?, offset: u.arbitrary()? })
            };
            let frames = (0..count).map(|_| frame(u)).collect::<Result<_>>()?;
            End::Exit { code: u.arbitrary()?, frames }
        }
        2 => End::Trap(u.arbitrary()?),
        _ => End::Exception { tag: u.arbitrary()?, values: values(u)? },
    })
}

fn change(u: &mut Unstructured<'_>) -> Result<Change> {
    Ok(match u.int_in_range(0..=4)? {
        0 => {
            let bytes = u.arbitrary::<Vec<u8>>()?;
            Change::Write { memory: u.arbitrary()?, address: u.arbitrary()?, bytes }
        }
        1 => Change::Grow { memory: u.arbitrary()?, pages: u.arbitrary()? },
        2 => Change::Global { global: u.arbitrary()?, value: value(u)? },
        3 => Change::Element { table: u.arbitrary()?, index: u.arbitrary()?, value: value(u)? },
        _ => Change::GrowTable { table: u.arbitrary()?, count: u.arbitrary()?, value: value(u)? },
    })
}

fn signature(u: &mut Unstructured<'_>) -> Result<Signature> {
    let all = [
        ValType::I32,
        ValType::I64,
        ValType::F32,
        ValType::F64,
        ValType::V128,
        ValType::FUNCREF,
        ValType::EXTERNREF,
    ];
    let mut types = || -> Result<Vec<ValType>> {
        (0..u.int_in_range(0..=3)?).map(|_| u.choose(&all).copied()).collect()
    };
    Ok(Signature::new(FuncType::new(types()?, types()?)).expect("all are such types"))
}

fn event(u: &mut Unstructured<'_>) -> Result<Event> {
    Ok(match u.int_in_range(0..=10)? {
        0 => {
            let door = match u.int_in_range(0..=2)? {
                0 => Door::Export(u.arbitrary()?),
                1 => Door::Start,
                _ => Door::Reference,
            };
            Event::Enter { function: u.arbitrary()?, door, args: values(u)? }
        }
        1 => Event::Leave(end(u)?),
        2 => Event::Call { function: u.arbitrary()?, args: values(u)? },
        3 => Event::Return(end(u)?),
        4 => Event::Host(change(u)?),
        5 => Event::Seen(change(u)?),
        6 => Event::Own(change(u)?),
        7 => Event::Begin { function: u.arbitrary()? },
        8 => Event::Done,
        9 => Event::Function(signature(u)?),
        _ => Event::Found(change(u)?),
    })
}

fn program() -> Program {
    let module = b"\0asm\x01\0\0\0".to_vec();
    let args = vec![b"app.wasm".to_vec(), b"caf\xe9 \"\\\n".to_vec()];
    Program { args, ..Program::new(module, "an \"odd\" name\u{202e}\n") }
}

fn written(events: &[Event]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &program()).expect("memory has room");
    events.iter().for_each(|event| writer.push(event));
    let (count, trace, failure) = writer.finish();
    assert!(failure.is_none() && count == events.len() as u64);
    trace
}

fn some_events(count: u32) -> Vec<Event> {
    let call = |i| Event::Call { function: i, args: vec![Value::I64(u64::from(i) << 40)] };
    (0..count).map(call).collect()
}

#[test]
fn any_events_are_read_as_they_were_written() {
    arbtest::arbtest(|u| {
        let events = (0..u.int_in_range(0..=20)?).map(|_| event(u)).collect::<Result<Vec<_>>>()?;
        let trace = written(&events);
        let mut reader = Reader::new(&trace[..]).expect("a trace");
        assert_eq!(reader.program(), &program());
        let found: Vec<Event> = reader.by_ref().map(|event| event.expect("whole")).collect();
        assert_eq!((found, reader.ending()), (events, Some(&Ending::Whole)));
        Ok(())
    });
}

#[test]
fn any_events_are_read_from_text_as_they_were_printed() {
    arbtest::arbtest(|u| {
        let events = (0..u.int_in_range(0..=20)?).map(|_| event(u)).collect::<Result<Vec<_>>>()?;
        let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
        let text = heading(&program()) + "# a remark\n\n" + &lines;
        let mut reader = TextReader::new(text.as_bytes()).expect("a trace");
        let found: Vec<Event> = reader.by_ref().map(|event| event.expect("an event")).collect();
        assert_eq!(found, events, "{text}");
        assert_eq!(reader.program(), &Program { module: None, ..program() });
        Ok(())
    });
}

#[test]
fn any_bytes_are_refused_or_read() {
    arbtest::arbtest(body::any_bytes);
}

#[test]
fn any_line_is_refused_or_is_an_event() {
    arbtest::arbtest(|u| {
        let words = [
            "enter",
            "leave",
            "call",
            "return",
            "found",
            "write",
            "grow",
            "global",
            "element",
            "grow-table",
            "exit",
            "trap",
            "exception",
            "export",
            "start",
            "reference",
            "1",
            "-1",
            "i32:5",
            "i32:",
            "f64:0x0",
            "func:null",
            "\"a\\x41\"",
            "\"\\x",
            "0a",
            "0",
            "3@4",
            "é",
        ];
        let mut line = String::new();
        for _ in 0..u.int_in_range(0..=6)? {
            line = line + u.choose(&words)? + " ";
        }
        let text = heading(&program()) + &line;
        let events: Vec<_> = TextReader::new(text.as_bytes()).expect("a trace").collect();
        if let [Ok(event)] = &events[..] {
            let again = heading(&program()) + &event.to_string();
            let again = TextReader::new(again.as_bytes()).expect("a trace").next();
            assert_eq!(again.expect("a line").expect("an event"), *event);
        }
        Ok(())
    });
}

#[test]
fn a_trace_that_is_cut_off_is_read_up_to_its_last_whole_block() {
    let events = some_events(30_000);
    let trace = written(&events);
    let mut longest = 0;
    for len in (0..trace.len()).step_by(997) {
        let Ok(mut reader) = Reader::new(&trace[..len]) else {
            assert!(len < 400, "the program is in the first blocks");
            continue;
        };
        let found: Vec<Event> = reader.by_ref().map(|event| event.expect("whole")).collect();
        assert_eq!(found, events[..found.len()]);
        assert!(found.len() >= longest);
        assert_eq!(reader.ending(), Some(&Ending::Cut));
        longest = found.len();
    }
    assert!(longest > 20_000, "there are several blocks");
}

#[test]
fn damage_and_other_versions_are_told_by_name() {
    let trace = written(&some_events(3));
    let mut damaged = trace.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let error = Reader::new(&damaged[..]).expect("its beginning is whole").last();
    let error = error.expect("it says so").expect_err("it is damaged").to_string();
    assert!(error.starts_with("damaged at byte "), "{error}");
    let mut newer = trace.clone();
    newer[MAGIC.len()] = 2;
    assert!(matches!(Reader::new(&newer[..]), Err(Error::Version(2))));
    let text = heading(&program()).replacen("text 1", "text 2", 1);
    assert!(matches!(TextReader::new(text.as_bytes()), Err(Error::Version(2))));
    assert!(matches!(TextReader::new(&b"fi-trace text x\n"[..]), Err(Error::NotATrace)));
    assert!(matches!(Reader::new(&b"fi-tra"[..]), Err(Error::NotATrace)));
    assert!(matches!(Reader::new(&b"\0asm\x01\0\0\0 and more"[..]), Err(Error::NotATrace)));
    let other = program().module_or(Some(b"another")).expect_err("another module").to_string();
    assert!(other.starts_with("another module than was recorded"), "{other}");
}

/// A disk with this much space.
struct Disk(Vec<u8>, usize);

impl Sink for Disk {
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let room = self.1.saturating_sub(self.0.len());
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
        match bytes.len() <= room {
            true => Ok(()),
            false => Err(std::io::ErrorKind::StorageFull.into()),
        }
    }

    fn cut(&mut self, len: u64) -> std::io::Result<()> {
        self.0.truncate(len as usize);
        Ok(())
    }
}

#[test]
fn a_full_disk_ends_the_trace_cleanly_and_says_so() {
    let events = some_events(60_000);
    let whole = written(&events).len();
    let mut lens = Vec::new();
    for room in (400..whole).step_by(whole / 40) {
        let mut writer = Writer::new(Disk(Vec::new(), room), &program()).expect("room for that");
        events.iter().for_each(|event| writer.push(event));
        let (count, Disk(trace, _), failure) = writer.finish();
        assert!(failure.is_some() && trace.len() <= room);
        let mut reader = Reader::new(&trace[..]).expect("a trace");
        let found: Vec<Event> = reader.by_ref().map(|event| event.expect("whole")).collect();
        assert_eq!((found.len() as u64, &found[..]), (count, &events[..found.len()]));
        assert!(
            matches!(reader.ending(), Some(Ending::Stopped(why)) if why.contains("no storage"))
        );
        lens.push(count);
    }
    assert!(lens.is_sorted() && lens.last() > Some(&0), "{lens:?}");
}

/// What is lost when a trace is written in the format of Wasm-R3, and the error of a writer that
/// loses nothing.
fn lost(declared: &Declared, trace: &str) -> (Vec<(&'static str, u64)>, Option<String>) {
    let text = heading(&Program::new(Vec::new(), "app.wasm")) + trace;
    let events = TextReader::new(text.as_bytes()).expect("a heading");
    let events: Vec<Event> = events.collect::<std::result::Result<_, _>>().expect(trace);
    let mut exact = R3Writer::new(declared, false);
    let refused = events.iter().find_map(|event| exact.push(event).err());
    let mut lossy = R3Writer::new(declared, true);
    events.iter().for_each(|event| drop(lossy.push(event).expect(trace)));
    let losses = lossy.losses().iter().map(|(name, count)| (*name, *count));
    (losses.collect(), refused.map(|error| error.to_string()))
}

#[test]
fn what_wasm_r3_cannot_hold_is_named_with_its_event_or_counted() {
    let module = r#"(module (import "h" "f" (func (param i64) (result i64)))
        (memory (export "m") 1) (memory (export "n") 1) (table (export "t") 1 externref)
        (func (export "f") (param f32)) (func (export "v") (param v128))
        (func (export "r") (param externref)) (func (export "a;b")) (func $s) (start $s))"#;
    let declared = Declared::read(&wat::parse_str(module).expect("a module")).expect("valid");
    let ends = "a call that ends by an exit, a trap or an exception";
    let called = "enter 1 export \"f\" f32:0x3f800000\ncall 0 i64:9007199254740993\n";
    for (trace, number, what) in [
        ("enter 1 export \"f\" f32:0x7fc00001\nleave\n", 0, "the bits of a NaN"),
        ("enter 1 export \"f\" f32:0x7fc00000\nleave\n", 0, "a list of one NaN"),
        ("enter 1 export \"f\" f32:0x80000000\nleave\n", 0, "the sign of a zero"),
        ("enter 2 export \"v\" v128:0x00000000000000000000000000000001\nleave\n", 0, "a vector"),
        ("enter 3 export \"r\" extern:0\nleave\n", 0, "a reference"),
        ("enter 4 export \"a;b\"\nleave\n", 0, "a name with `;` or a line end"),
        ("enter 5 start\nleave\n", 0, "a call of the start function"),
        ("enter 1 reference f32:0x3f800000\nleave\n", 0, "a call by a reference"),
        ("enter 1 export \"f\" f32:0x3f800000\nleave trap \"unreachable\"\n", 1, ends),
        // A change has its own number, although it is written after the call that follows it.
        ("write 1 0 01\nenter 1 export \"f\" f32:0x3f800000\nleave\n", 0, "a second memory"),
        ("grow 1 1\nenter 1 export \"f\" f32:0x3f800000\nleave\n", 0, "a second memory"),
        (
            "element 0 0 extern:null\nenter 1 export \"f\" f32:0x3f800000\nleave\n",
            0,
            "an element that is no function",
        ),
    ] {
        let (losses, refused) = lost(&declared, trace);
        let of_it = losses.iter().find(|(name, _)| *name == what);
        assert_eq!(of_it.map(|(_, count)| *count), Some(1), "{trace}: {losses:?}");
        let told = format!("event {number}: the form of Wasm-R3 cannot hold {what}: --lossy");
        assert!(refused.as_ref().is_some_and(|why| why.starts_with(&told)), "{trace}: {refused:?}");
    }
    let (losses, refused) =
        lost(&declared, &format!("{called}return i64:9007199254740993\nleave\n"));
    assert_eq!(losses, [("an integer of 64 bits beyond 2^53", 1)]);
    assert!(refused.is_some_and(|why| why.starts_with("event 2: ")));
    // Arguments of calls out are not part of the format.
    let most = lost(&declared, &format!("{called}return i64:-9007199254740992\nleave\n"));
    assert_eq!(most, (Vec::new(), None));
}
