//! Replays of runs that are specified here: the module is generated, and an interpreter executes
//! it. Each replay checks itself, so that it detects different arguments or another order.

#[path = "replays/micro.rs"]
mod micro;

use wasm_aot_trace::{Error, Event, Generation, Linked, Part, generate};
use wasmi::{Engine, Linker, Module, Store, Val};

fn made(wat: &str, trace: &str, is_checked: bool) -> Result<Vec<u8>, Error> {
    let module = wat::parse_str(wat).expect("a module");
    generated(&module, micro::events(&module, trace), is_checked)
}

fn generated(module: &[u8], events: Vec<Event>, is_checked: bool) -> Result<Vec<u8>, Error> {
    let made = generate(module, events.into_iter().map(Ok), Generation { is_checked })?;
    let validated = wasmparser::Validator::new_with_features(wasmparser::WasmFeatures::all())
        .validate_all(&made);
    if let Err(error) = validated {
        panic!("{error}");
    }
    Ok(made)
}

/// How a replay has ended.
#[derive(Debug, PartialEq, Eq)]
struct Ended {
    trapped: bool,
    event: i64,
    wrong: i32,
}

/// Runs a replay that checks itself.
fn run(module: &[u8]) -> Ended {
    let engine = Engine::default();
    let module = Module::new(&engine, module).expect("valid");
    let mut store = Store::new(&engine, ());
    let instance = Linker::new(&engine).instantiate_and_start(&mut store, &module);
    let instance = instance.expect("it imports nothing");
    let start = instance.get_typed_func::<(), ()>(&store, "_start").expect("a start");
    let trapped = start.call(&mut store, ()).is_err();
    let global = |name: &str| instance.get_global(&store, name).expect(name).get(&store);
    let (Val::I64(event), Val::I32(wrong)) = (global("replay:event"), global("replay:wrong"))
    else {
        panic!("of other types")
    };
    Ended { trapped, event, wrong }
}

/// The event at which a replay that checks itself ends, and the kind of difference.
fn divergence(wat: &str, trace: &str) -> (i64, i32) {
    let ended = run(&made(wat, trace, true).expect("a replay"));
    assert!(ended.trapped, "{ended:?}");
    (ended.event, ended.wrong)
}

#[test]
fn every_way_across_the_boundary_is_repeated() {
    let programs = micro::programs();
    assert!(programs.len() >= 63);
    let mut wrong = Vec::new();
    for program in &programs {
        let name = &program.name;
        let made = |is_checked| {
            generated(&program.module, program.events.clone(), is_checked).expect(name)
        };
        let plain = made(false);
        assert!(!String::from_utf8_lossy(&plain).contains("replay:"), "{name}");
        let checked = made(true);
        // The interpreter supports neither exceptions nor typed references and atomics.
        if Module::new(&Engine::default(), &program.module).is_err() {
            continue;
        }
        let ended = run(&checked);
        // A trap is the last event, and none follows.
        let passed = if program.traps() { ended.event } else { program.events.len() as i64 };
        let whole = Ended { trapped: program.traps(), event: passed, wrong: 0 };
        if ended != whole {
            wrong.push(format!("{name}: {ended:?}, and not {whole:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const ADDING: &str = r#"(module (import "h" "f" (func $f (param i32) (result i32)))
    (func (export "run") (param i32) (result i32)
        (i32.add (call $f (local.get 0)) (call $f (i32.const 7)))))"#;

#[test]
fn where_a_replay_leaves_the_trace_it_says_how() {
    let right = "enter 1 export \"run\" i32:1\ncall 0 i32:1\nreturn i32:2\ncall 0 i32:7\n\
                 return i32:3\nleave i32:5\n";
    let with = |from: &str, to: &str| divergence(ADDING, &right.replace(from, to));
    assert_eq!(with("call 0 i32:7", "call 0 i32:8"), (3, 1), "argument");
    assert_eq!(with("leave i32:5", "leave i32:6"), (5, 2), "result");
    assert_eq!(with("call 0 i32:7\nreturn i32:3\n", ""), (3, 3), "it calls once more");
    assert_eq!(with("leave i32:5", "leave trap \"unreachable\""), (5, 5), "it does not trap");
    let more = "return i32:3\ncall 0 i32:7\nreturn i32:0\nleave";
    assert_eq!(with("return i32:3\nleave", more), (5, 3), "it calls once less");
    let growing = r#"(module (memory (export "m") 1 1) (func (export "run")))"#;
    assert_eq!(divergence(growing, "grow 0 1\nenter 0 export \"run\"\nleave\n").1, 4, "value");
    let many = format!("write 0 65500 {}\n", "05".repeat(100));
    for (what, wrong) in [
        ("write 0 65534 0102\n", 0),
        ("write 0 65535 0102\n", 4),
        (&many, 4),
        ("element 0 1 func:0\n", 0),
        ("element 0 2 func:0\n", 4),
        ("grow 1 1\nwrite 1 131071 01\ngrow-table 1 1 func:null\nelement 1 2 func:0\n", 0),
        ("grow 1 1\nwrite 1 131072 01\n", 4),
        ("grow-table 1 1 func:null\nelement 1 3 func:0\n", 4),
    ] {
        let module = r#"(module (memory (export "m") 1 1) (memory (export "n") 1)
            (table (export "t") 2 2 funcref) (table (export "u") i64 2 funcref)
            (func (export "run")))"#;
        let trace = format!("{what}enter 0 export \"run\"\nleave\n");
        let ended = run(&made(module, &trace, true).expect("a replay"));
        assert_eq!((ended.trapped, ended.wrong), (wrong != 0, wrong), "{what}");
    }
}

#[test]
fn an_exit_takes_calls_away_that_the_trace_does_not_tell() {
    let module = r#"(module (import "h" "exit" (func $exit (param i32)))
        (import "h" "back" (func $back)) (table funcref (elem $inner $tail))
        (func $inner (param i32) (result i64) (call $exit (local.get 0)) (unreachable))
        (func $tail (param i32) (result i64) (return_call $inner (local.get 0)))
        (func $harmless (result i32) (i32.const 1))
        (func (export "again") (drop (call_indirect (param i32) (result i64) (i32.const 3) (i32.const 1)))
            (unreachable))
        (func (export "_start") (drop (call $harmless)) (call $back) (unreachable)))"#;
    let trace = "enter 6 export \"_start\"\ncall 1\nenter 5 export \"again\"\ncall 0 i32:3\n\
        return exit 3\nleave exit 3\nreturn exit 3\nleave exit 3\n";
    let ended = run(&made(module, trace, true).expect("a replay"));
    assert_eq!(ended, Ended { trapped: false, event: 8, wrong: 0 });
}

#[test]
fn what_cannot_be_is_refused_by_event_and_reason() {
    let refused =
        |wat: &str, trace: &str| made(wat, trace, false).expect_err("it cannot be").to_string();
    let adding = |trace: &str| refused(ADDING, trace);
    assert_eq!(adding("leave\n"), "event 0: leave, where control is elsewhere");
    assert_eq!(adding("call 0 i32:1\n"), "event 0: call, where control is elsewhere");
    assert_eq!(adding("enter 5 reference\n"), "event 0: there is no function 5");
    assert_eq!(adding("enter 1 reference i64:1\n"), "event 0: i64:1 is no i32");
    assert_eq!(adding("enter 1 reference\n"), "event 0: 0 values, and there should be 1");
    assert_eq!(
        adding("enter 1 export \"runs\" i32:1\n"),
        "event 0: function 1 is not exported under that name"
    );
    assert_eq!(adding("write 0 0 00\n"), "event 0: there is no memory 0");
    let table = r#"(module (table (export "t") 1 funcref))"#;
    for change in ["element 0 4294967296 func:null\n", "grow-table 0 4294967296 func:null\n"] {
        assert_eq!(refused(table, change), "event 0: more elements than a table has");
    }
    let begun = "enter 1 reference i32:1\n";
    assert_eq!(
        adding(&format!("{begun}enter 1 reference i32:1\n")),
        "event 1: enter, where control is elsewhere"
    );
    assert_eq!(adding(&format!("{begun}call 1 i32:1\n")), "event 1: function 1 is not imported");
    let exit = format!("{begun}call 0 i32:1\nreturn exit 0 1@3\nleave exit 0\n");
    assert_eq!(adding(&exit), "event 0: function 1 has no call at byte 3");
    let caught = format!("{begun}call 0 i32:1\nreturn trap \"no\"\nleave trap \"no\"\n{begun}");
    assert!(adding(&caught).starts_with("event 4: the host goes on after a trap"));
    let after = |end: &str| adding(&format!("{begun}call 0 i32:1\nreturn {end}\ncall 0 i32:1\n"));
    assert_eq!(after("trap \"no\""), "event 3: call after the host's trap");
    assert_eq!(after("exit 0"), "event 3: call after the host's exit");
    assert_eq!(
        adding(&format!("{begun}call 0 i32:1\nreturn exit 3\nleave exit 4\n")),
        "event 3: the program exits with code 4, and the host with 3"
    );
    let shared = r#"(module (memory 1 1 shared))"#;
    assert!(refused(shared, "").contains("a memory that threads share"));
}

#[test]
fn a_replay_that_checked_itself_is_recorded_and_checks_itself_again() {
    let trace = "enter 1 export \"run\" i32:1\ncall 0 i32:1\nreturn i32:2\ncall 0 i32:7\n\
                 return i32:3\nleave i32:5\n";
    let first = made(ADDING, trace, true).expect("a replay");
    let start = wasmparser::Parser::new(0).parse_all(&first).find_map(|payload| {
        let wasmparser::Payload::ExportSection(exports) = payload.expect("valid") else {
            return None;
        };
        exports.into_iter().flatten().find(|export| export.name == "_start")
    });
    let start = start.expect("a start").index;
    let events = micro::events(&first, &format!("enter {start} export \"_start\"\nleave\n"));
    let again = generated(&first, events.clone(), true).expect("a replay");
    assert_eq!(run(&again), Ended { trapped: false, event: 2, wrong: 0 });
    // One that does not check itself has those of the program.
    let plain = generated(&first, events, false).expect("a replay");
    assert_eq!(run(&plain), Ended { trapped: false, event: 6, wrong: 0 });
}

#[test]
fn what_is_alike_is_made_once_and_what_is_large_is_divided() {
    let counting = r#"(module (import "h" "f" (func $f (result i32))) (memory 1)
        (func (export "run") (param $n i32) (result i32) (local $s i32)
            (loop $l (local.set $s (i32.add (local.get $s) (call $f)))
                (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
            (local.get $s)))"#;
    let trace = |values: &dyn Fn(u32) -> u32| {
        let mut text = String::from("enter 1 export \"run\" i32:20000\n");
        let mut sum = 0u32;
        for i in 0..20_000 {
            sum = sum.wrapping_add(values(i));
            text += &format!("call 0\nwrite 0 64 {:08x}\nreturn i32:{}\n", values(i), values(i));
        }
        text + &format!("leave i32:{sum}\n")
    };
    let same = made(counting, &trace(&|_| 5), false).expect("a replay");
    assert!(same.len() < 400, "{} bytes for what is always the same", same.len());
    let different = made(counting, &trace(&|i| i), false).expect("a replay");
    let per_call = different.len() / 20_000;
    assert!(per_call < 40, "{per_call} bytes a call");
    let largest = wasmparser::Parser::new(0).parse_all(&different).filter_map(|payload| {
        match payload.expect("valid") {
            wasmparser::Payload::CodeSectionEntry(body) => {
                Some(body.range().end - body.range().start)
            }
            _ => None,
        }
    });
    assert!(largest.max() < Some(40_000));
    let checked = run(&made(counting, &trace(&|i| i), true).expect("a replay"));
    assert_eq!(checked, Ended { trapped: false, event: 60_002, wrong: 0 });
}

#[test]
fn a_program_with_as_many_data_segments_as_may_be_has_a_replay() {
    let segments = (0..100_000).map(|at| format!("(data (i32.const {}) \"ab\")", 64 + at * 9));
    let module = format!(
        "(module (memory 16) {} (func (export \"run\")))",
        segments.collect::<Vec<_>>().join("\n")
    );
    let trace = format!("write 0 950000 {}\nenter 0 export \"run\"\nleave\n", "05".repeat(500));
    let replay = made(&module, &trace, true).expect("a replay");
    assert_eq!(run(&replay), Ended { trapped: false, event: 3, wrong: 0 });
    // Segments that have numbers cannot be joined, and need not be if the host writes nothing.
    let numbered = module.replace("(func (export", "(func (data.drop 3)) (func (export");
    let idle = "enter 1 export \"run\"\nleave\n";
    let replay = made(&numbered, idle, true).expect("a replay");
    assert_eq!(run(&replay), Ended { trapped: false, event: 2, wrong: 0 });
    let refused = made(&numbered, &trace.replace("enter 0", "enter 1"), true).unwrap_err();
    assert!(refused.to_string().contains("100000 data segments"), "{refused}");
}

#[test]
fn linked_modules_with_more_data_segments_than_one_may_have_are_one_with_the_same_memory() {
    let segments = |first: u32, text: &str| -> String {
        let place = |at: u32| format!("(data (i32.const {}) \"{text}\")", first + at * 9);
        (0..60_000).map(place).collect()
    };
    // What is copied may be named, and is empty then.
    let app = format!(
        r#"(module (import "l" "memory" (memory 16)) {} (data $late "xyz")
            (func (export "run") (result i32) (local $sum i32) (local $at i32)
                (memory.init 3 (i32.const 0) (i32.const 0) (i32.const 0)) (data.drop 3)
                (memory.init $late (i32.const 960000) (i32.const 0) (i32.const 3))
                (loop $l
                    (local.set $sum (i32.add (local.get $sum) (i32.load8_u (local.get $at))))
                    (br_if $l (i32.lt_u (local.tee $at (i32.add (local.get $at) (i32.const 1)))
                                        (i32.const 1048576))))
                (local.get $sum)))"#,
        segments(65, "c")
    );
    let library = format!(r#"(module (memory (export "memory") 16) {})"#, segments(64, "ab"));
    let [library, app] = [library, app].map(|text| wat::parse_str(text).expect("a module"));
    let parts = [Part { name: "l", module: &library }, Part { name: "app", module: &app }];
    let linked = Linked::new(&parts).expect("they fit");
    let [first, second] = [0, 1].map(|part| linked.parts[part].instantiate.expect("it copies"));
    let sum = 60_000 * (97 + 99) + 500 * 5 + 120 + 121 + 122;
    let trace = format!(
        "enter {first} export \"l.instantiate\"\nleave\n\
         enter {second} export \"app.instantiate\"\nleave\n\
         write 0 950000 {}\nenter {} export \"run\"\nleave i32:{sum}\n",
        "05".repeat(500),
        linked.parts[1].functions[0],
    );
    let events = micro::events(&linked.module, &trace);
    let replay = generated(&linked.module, events, true).expect("a replay");
    assert_eq!(run(&replay), Ended { trapped: false, event: 7, wrong: 0 });
    // Those that the program itself copies stay as they are.
    let passive = format!("(module {})", r#"(data "a")"#.repeat(50_000));
    let passive = wat::parse_str(passive).expect("a module");
    let refused = Linked::new(&["l", "app"].map(|name| Part { name, module: &passive }));
    let refused = refused.expect_err("too many").to_string();
    assert!(refused.contains("100000 data segments"), "{refused}");
}

#[test]
fn a_trace_that_is_cut_off_gives_the_replay_of_its_beginning() {
    let module = r#"(module (import "h" "f" (func $f (param i32) (result i32)))
        (global $last (export "last") (mut i32) (i32.const 0))
        (func (export "run") (loop $l (global.set $last (call $f (global.get $last))) (br $l))))"#;
    let trace = "enter 1 export \"run\"\ncall 0 i32:0\nreturn i32:5\ncall 0 i32:5\n";
    for (count, event) in [(1, 1), (2, 2), (3, 3), (4, 4)] {
        let lines: String = trace.lines().take(count).map(|line| format!("{line}\n")).collect();
        let ended = run(&made(module, &lines, true).expect("a replay"));
        assert!(ended.trapped && ended.event >= event - 1, "{count}: {ended:?}");
    }
}

#[test]
fn any_row_of_events_is_refused_or_gives_a_valid_module() {
    let module = r#"(module (import "h" "f" (func $f (param i32) (result i32)))
        (import "h" "g" (func $g (param f64 funcref)))
        (import "h" "m" (memory 1)) (import "h" "i" (global i32)) (import "h" "j" (global (mut i64)))
        (table (export "t") 4 funcref) (memory (export "n") 1)
        (func (export "run") (param i32) (result i32)
            (call $g (f64.const 1) (ref.null func)) (call $f (local.get 0)))
        (func (export "_start"))
        (data (i32.const 0) "some") (data (offset (global.get 0)) "more")
        (elem declare func $f))"#;
    let lines = [
        "enter 2 export \"run\" i32:1",
        "enter 3 export \"_start\"",
        "leave i32:0",
        "leave",
        "call 0 i32:3",
        "call 1 f64:0x7ff8000000000001 func:null",
        "return i32:4",
        "return",
        "write 0 0 0102",
        "write 1 100 00112233445566778899aabbccddeeff0011223344",
        "grow 1 1",
        "found write 0 1 05",
        "global 1 i64:9",
        "global 0 i32:16",
        "element 0 2 func:2",
        "grow-table 0 1 func:null",
        "return exit 3",
        "leave exit 3",
        "leave trap \"x\"",
        "return trap \"x\"",
        "found grow 0 1",
    ];
    let rows = std::cell::Cell::new(0);
    arbtest::arbtest(|u| {
        let mut trace = String::new();
        for _ in 0..u.int_in_range(0..=12)? {
            trace = trace + u.choose(&lines)? + "\n";
        }
        for is_checked in [false, true] {
            rows.set(rows.get() + usize::from(made(module, &trace, is_checked).is_ok()));
        }
        Ok(())
    });
    assert!(rows.get() > 10, "some are those of a run");
}
