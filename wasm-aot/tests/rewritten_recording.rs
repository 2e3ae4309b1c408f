//! Programs that record themselves on any engine: their traces equal those that this engine records
//! at the boundary.

#[path = "rewritten_recording/host_functions.rs"]
mod host_functions;
#[path = "../trace/tests/replays/micro.rs"]
mod micro;
#[path = "rewritten_recording/subtypes.rs"]
mod subtypes;
#[path = "rewritten_recording/typed_references.rs"]
mod typed_references;

use std::collections::BTreeSet;
use test_support::Folder;
use wasm_aot::replaying::{replay, replay_rewritten};
use wasm_aot::trace::{
    Declared, End, Ending, Event, Generation, Placed, Reader, Reduced, generate,
};
use wasm_aot::wasi::{self, Permissions, WasiCtx};
use wasm_aot::{Engine, Error, Instance, Linker, Module, Store, Val};
use whamm_record::{Options, record};

/// Programs that cannot be recorded this way, or not to their end.
const NOT_TOLD: &[&str] = &["the-host-goes-on-after-an-exit"];

fn placed(events: Vec<Event>) -> Vec<Event> {
    Placed::new(events.into_iter().map(Ok)).map(|event| event.expect("it is there")).collect()
}

/// The trace of a rewritten program, fetched by its host.
fn fetched(store: &mut Store<()>, instance: Instance) -> Vec<u8> {
    let call = |store: &mut Store<()>, name: &str| {
        instance.get_func(&mut *store, name).expect(name).call(store, &[]).expect(name)
    };
    call(store, "record:finish");
    let [Val::I32(at), Val::I32(len)] = call(store, "record:fetch")[..] else { panic!("two") };
    let memory = instance.get_memory(&mut *store, "record:memory").expect("a memory");
    let mut bytes = vec![0; len as usize];
    memory.read(store, at as usize, &mut bytes).expect("it is there");
    bytes
}

/// Calls in both directions, without the host's changes, without the reasons of traps, since not
/// every trap is recorded, and without the numbers of host objects, which a program cannot compare.
/// Functions of the host are those of a type, if a program can call such functions.
fn calls(events: &[Event], functions: u32, callable: &BTreeSet<String>) -> Vec<String> {
    let mut types = Vec::new();
    let mut found = Vec::new();
    for event in events {
        let told = match event {
            Event::Host(_) | Event::Found(_) => continue,
            Event::Function(_) => {
                types.push(event.to_string());
                continue;
            }
            Event::Leave(End::Trap(_)) => "leave trap".to_owned(),
            Event::Return(End::Trap(_)) => "return trap".to_owned(),
            event => event.to_string(),
        };
        let any_function = |number: &str| {
            let own = number.parse::<u32>().ok()?.checked_sub(functions)?;
            let ty = types.get(own as usize)?;
            Some(if callable.contains(ty) { format!("({ty})") } else { "other".to_owned() })
        };
        let mut is_call = false;
        let words = told.split(' ').map(|word| {
            let number = word.strip_prefix("func:").unwrap_or(if is_call { word } else { "" });
            is_call = word == "call";
            any_function(number).unwrap_or_else(|| any_object(word).to_owned())
        });
        found.push(words.collect::<Vec<_>>().join(" "));
    }
    found
}

/// The types of functions of the host in both recordings.
fn in_both(one: &[Event], other: &[Event]) -> BTreeSet<String> {
    let types = |events: &[Event]| {
        let all = events.iter().filter_map(|event| match event {
            Event::Function(_) => Some(event.to_string()),
            _ => None,
        });
        all.collect::<BTreeSet<_>>()
    };
    types(one).intersection(&types(other)).cloned().collect()
}

fn any_object(word: &str) -> &str {
    let is_object = word.starts_with("extern:") && word != "extern:null";
    if is_object { "extern:some" } else { word }
}

#[test]
fn programs_tell_every_way_across_the_boundary_themselves() {
    let engine = Engine::default();
    let (mut wrong, mut not, mut trapped) = (Vec::new(), Vec::new(), 0);
    for program in micro::programs() {
        let name = program.name.clone();
        let options = Options { name: "app.wasm".into(), ..Options::default() };
        let recording = match record(&program.module, &options) {
            Ok(recording) => recording,
            Err(error) => {
                not.push(format!("{name}: {error}"));
                continue;
            }
        };
        if let Err(error) =
            wasmparser::Validator::new_with_features(wasmparser::WasmFeatures::all())
                .validate_all(&recording.module)
        {
            wrong.push(format!("{name}: {error}"));
            continue;
        }
        let traps = program.traps();
        let written = placed(program.events);
        let module = Module::new(&engine, &recording.module).expect(&name);
        let mut store = Store::new(&engine, ());
        let events = written.clone().into_iter().map(Ok);
        let functions = Declared::read(&program.module).expect(&name).functions();
        let (instance, done) = replay_rewritten(&mut store, &module, functions, events);
        let Some(instance) = instance else {
            wrong.push(format!("{name}: {done:?}"));
            continue;
        };
        let trace = fetched(&mut store, instance);
        let mut reader = match Reader::new(&trace[..]) {
            Ok(reader) => reader,
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        let found: Result<Vec<Event>, _> = reader.by_ref().collect();
        let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
        let ending = reader.ending().expect("it was read");
        // An event that unwinds all calls is not recorded: the trace ends there, and is marked as
        // cut.
        let both = in_both(&found, &written);
        let (told, all) = (calls(&found, functions, &both), calls(&written, functions, &both));
        let is_cut = done.is_err() && *ending != Ending::Whole && all.starts_with(&told);
        if told != all && !is_cut {
            not.push(format!("{name}: {ending:?}: {told:?} and not {all:?}; {done:?}"));
            continue;
        }
        trapped += u32::from(!is_cut && told.last().is_some_and(|last| last == "leave trap"));
        assert!(found.len() <= 2 * written.len() + 2, "{name}: {found:?}");
        // A replay of the recorded trace behaves the same.
        let count = placed(found.clone()).len() as i64;
        let made =
            generate(&program.module, found.into_iter().map(Ok), Generation { is_checked: true });
        let goes_on = "the host goes on after a trap, which no module can";
        let made = match made {
            Ok(made) => Module::new(&engine, &made).expect(&name),
            Err(error) if error.to_string().contains(goes_on) => continue,
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &made, &[]).expect(&name);
        let start = instance.get_func(&mut store, "_start").expect("a start");
        let done = start.call(&mut store, &[]);
        let mut global = |name: &str| {
            instance.get_global(&mut store, name).expect(name).get(&mut store).expect("a value")
        };
        let (event, is_wrong) = (global("replay:event").i64(), global("replay:wrong").i32());
        // If a trace ends before its program, so does the replay: by an event too many.
        let is_right = is_wrong == Some(0) || (is_cut && is_wrong == Some(3));
        let is_whole = if traps { done.is_err() } else { event == Some(count) && done.is_ok() };
        if !is_right || (!is_cut && !is_whole) {
            wrong.push(format!("{name}: {event:?} of {count}: {is_wrong:?}: {done:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(trapped > 0, "runs that end by traps are told to their end");
    let names: Vec<&str> = not.iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(names, NOT_TOLD, "{}", not.join("\n"));
}

/// The trace of a rewritten program while the engine replays a trace.
fn told(engine: &Engine, program: &micro::Micro, raw: bool) -> Option<Vec<Event>> {
    let options = Options { raw, ..Options::default() };
    let recording = record(&program.module, &options).ok()?;
    let features = wasmparser::WasmFeatures::all();
    let mut validator = wasmparser::Validator::new_with_features(features);
    validator.validate_all(&recording.module).expect(&program.name);
    let module = Module::new(engine, &recording.module).expect(&program.name);
    let mut store = Store::new(engine, ());
    let events = placed(program.events.clone()).into_iter().map(Ok);
    let functions = Declared::read(&program.module).expect(&program.name).functions();
    let (instance, _) = replay_rewritten(&mut store, &module, functions, events);
    let trace = fetched(&mut store, instance?);
    let reader = Reader::new(&trace[..]).expect("a trace");
    Some(reader.map(|event| event.expect("it is whole")).collect())
}

#[test]
fn what_is_reduced_afterwards_is_what_is_reduced_while_it_is_recorded() {
    let engine = Engine::default();
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for program in micro::programs() {
        let both = (told(&engine, &program, false), told(&engine, &program, true));
        let (Some(kept), Some(raw)) = both else { continue };
        let count = raw.len();
        let reduced = Reduced::new(&program.module, raw.into_iter().map(Ok));
        let reduced: Result<Vec<Event>, _> = match reduced {
            Ok(reduced) => reduced.collect(),
            // The place of the data depends on the host.
            Err(error) if error.to_string().contains("whose place the host gives") => continue,
            Err(error) => panic!("{}: {error}", program.name),
        };
        let reduced = reduced.expect("it is whole");
        compared += 1;
        if reduced != kept {
            let shown = |events: &[Event]| {
                events.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            };
            let (reduced, kept) = (shown(&reduced), shown(&kept));
            wrong.push(format!("{}: {count}: {reduced}\n  and not {kept}", program.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared >= 60, "{compared}");
}

#[test]
fn a_memory_that_only_the_machine_does_not_grow_ends_the_trace() {
    let engine = Engine::default();
    let text = r#"(module (memory $m 1) (memory $wide i64 1) (memory (export "reached") 1)
        (memory $limited 1 2)
        (func (export "limited") (result i32) (memory.grow $limited (i32.const 5)))
        (func (export "grows") (result i32) (memory.grow $m (i32.const 2)))
        (func (export "own") (result i32) (memory.grow $m (i32.const 5)))
        (func (export "wide") (result i32) (i32.wrap_i64 (memory.grow $wide (i64.const 5))))
        (func (export "other") (result i32) (memory.grow 2 (i32.const 5))))"#;
    let original = Module::new(&engine, text).expect("a module").inner().bytes.to_vec();
    let recording = record(&original, &Options::default()).expect("it can be recorded");
    let module = Module::new(&engine, &recording.module).expect("a module");
    for (name, is_refused) in
        [("limited", false), ("grows", false), ("own", true), ("wide", true), ("other", true)]
    {
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &module, &[]).expect("an instance");
        store.set_limiter(|demand| demand.wanted < 6);
        let function = instance.get_func(&mut store, name).expect(name);
        let result = function.call(&mut store, &[]).expect(name)[0].i32();
        assert_eq!(result, Some(if name == "grows" { 1 } else { -1 }), "{name}");
        let trace = fetched(&mut store, instance);
        let mut reader = Reader::new(&trace[..]).expect("a trace");
        assert!(reader.by_ref().all(|event| event.is_ok()), "{name}");
        let ending = format!("{:?}", reader.ending());
        assert_eq!(ending.contains("cannot grow a memory"), is_refused, "{name}: {ending}");
    }
}

#[test]
fn functions_that_only_a_table_names_are_told_by_their_index() {
    let engine = Engine::default();
    let text = r#"(module (import "h" "f" (func $f (param i32) (result i32)))
        (table (export "t") 4 funcref) (elem (i32.const 0) $own $f $sum)
        (func $own (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
        (func $sum (param i32) (result i32)
            (i32.add (call_indirect (param i32) (result i32) (local.get 0) (i32.const 0))
                (call_indirect (param i32) (result i32) (local.get 0) (i32.const 1)))))"#;
    let original = Module::new(&engine, text).expect("a module").inner().bytes.to_vec();
    let recording = record(&original, &Options::default()).expect("it can be recorded");
    let module = Module::new(&engine, &recording.module).expect("a module");
    let mut store = Store::new(&engine, ());
    let mut linker = Linker::new(&engine);
    linker.func_wrap("h", "f", |x: i32| x * 10).expect("it is new");
    let instance = linker.instantiate(&mut store, &module).expect("an instance");
    let table = instance.get_table(&mut store, "t").expect("a table");
    let element = |store: &mut Store<()>, index| match table.get(store, index) {
        Ok(Some(Val::FuncRef(Some(function)))) => function,
        other => panic!("{other:?}"),
    };
    let sum = element(&mut store, 2);
    assert_eq!(sum.call(&mut store, &[Val::I32(4)]).expect("it runs")[0].i32(), Some(45));
    // The host replaces the program's function by the import.
    let import = element(&mut store, 1);
    table.set(&mut store, 0, Val::FuncRef(Some(import))).expect("it fits");
    assert_eq!(sum.call(&mut store, &[Val::I32(4)]).expect("it runs")[0].i32(), Some(80));
    let trace = fetched(&mut store, instance);
    let events: Result<Vec<Event>, _> = Reader::new(&trace[..]).expect("a trace").collect();
    let events = events.expect("it is whole");
    let shown: Vec<String> = placed(events).iter().map(ToString::to_string).collect();
    let expected = [
        "enter 2 reference i32:4",
        "call 0 i32:4",
        "return i32:40",
        "leave i32:45",
        "element 0 0 func:0",
        "enter 2 reference i32:4",
        "call 0 i32:4",
        "return i32:40",
        "call 0 i32:4",
        "return i32:40",
        "leave i32:80",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn exceptions_are_told_by_programs_with_the_older_instructions() {
    let engine = Engine::default();
    let text = r#"(module (import "h" "f" (func $f (param i32))) (tag $e (export "e") (param i32 f64))
        (tag $own) (func $throw (throw $e (i32.const 4) (f64.const 0.5)))
        (func (export "caught") try call $throw catch $e drop drop end)
        (func (export "thrown") (param i32) (call $f (local.get 0)) (call $throw))
        (func (export "own") (throw $own)))"#;
    let original = Module::new(&engine, text).expect("a module").inner().bytes.to_vec();
    for raw in [false, true] {
        let recording = record(&original, &Options { raw, ..Options::default() });
        let module = Module::new(&engine, recording.expect("it can be recorded").module);
        let module = module.expect("a module");
        let mut store = Store::new(&engine, ());
        let mut linker = Linker::new(&engine);
        linker.func_wrap("h", "f", |_: i32| {}).expect("it is new");
        let instance = linker.instantiate(&mut store, &module).expect("an instance");
        for (name, args) in
            [("caught", &[][..]), ("thrown", &[Val::I32(7)]), ("own", &[]), ("caught", &[])]
        {
            let function = instance.get_func(&mut store, name).expect(name);
            assert_eq!(function.call(&mut store, args).is_ok(), name == "caught", "{name}");
        }
        let trace = fetched(&mut store, instance);
        let events = Reader::new(&trace[..]).expect("a trace").map(|event| event.expect("whole"));
        let events: Vec<Event> = match raw {
            true => {
                let raw = events.collect::<Vec<_>>().into_iter().map(Ok);
                let reduced = Reduced::new(&original, raw).expect("it can be reduced");
                reduced.map(|event| event.expect("it is known")).collect()
            }
            false => events.collect(),
        };
        let shown: Vec<String> = events.iter().map(ToString::to_string).collect();
        let expected = [
            "enter 2 export \"caught\"",
            "leave",
            "enter 3 export \"thrown\" i32:7",
            "call 0 i32:7",
            "return",
            "leave exception 0 i32:4 f64:0x3fe0000000000000",
            "enter 4 export \"own\"",
            "leave exception 1",
            "enter 2 export \"caught\"",
            "leave",
        ];
        assert_eq!(shown, expected, "raw: {raw}");
        let events = events.into_iter().map(Ok);
        let made = generate(&original, events, Generation { is_checked: true }).expect("a replay");
        let made = Module::new(&engine, &made).expect("valid");
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &made, &[]).expect("an instance");
        let start = instance.get_func(&mut store, "_start").expect("a start");
        start.call(&mut store, &[]).expect("it does the same");
    }
}

/// Instructions for a zero from the host, and the trap, if there is one.
const ENDS: [(&str, &str); 30] = [
    ("unreachable", "(unreachable)"),
    ("integer divide by zero", "(drop (i32.div_s (i32.const 7) (call $zero)))"),
    ("integer divide by zero", "(drop (i32.rem_s (i32.const 7) (call $zero)))"),
    ("integer divide by zero", "(drop (i64.rem_u (i64.const 7) (i64.extend_i32_u (call $zero))))"),
    ("integer divide by zero", "(drop (i32.div_u (call $zero) (i32.const 0)))"),
    (
        "integer overflow",
        "(drop (i32.div_s (i32.const -2147483648) (i32.sub (call $zero) (i32.const 1))))",
    ),
    ("integer overflow", "(drop (i64.div_s (i64.const -9223372036854775808) (i64.const -1)))"),
    ("", "(drop (i32.div_s (i32.const -2147483648) (i32.add (call $zero) (i32.const 2))))"),
    ("", "(drop (i32.rem_s (i32.const -2147483648) (i32.sub (call $zero) (i32.const 1))))"),
    ("integer overflow", "(drop (i32.trunc_f64_s (f64.const 2147483648)))"),
    ("", "(drop (i32.trunc_f64_s (f64.const 2147483647.9)))"),
    ("", "(drop (i32.trunc_f64_s (f64.const -2147483648.9)))"),
    ("integer overflow", "(drop (i64.trunc_f32_s (f32.const 9223372036854775808)))"),
    ("", "(drop (i64.trunc_f32_s (f32.const -9223372036854775808)))"),
    ("integer overflow", "(drop (i32.trunc_f32_u (f32.const -1)))"),
    ("", "(drop (i32.trunc_f32_u (f32.const -0.99)))"),
    ("invalid conversion to integer", "(drop (i64.trunc_f64_u (f64.const nan)))"),
    ("out of bounds memory access", "(drop (i32.load offset=65533 (call $zero)))"),
    ("", "(drop (i32.load offset=65532 (call $zero)))"),
    (
        "out of bounds memory access",
        "(i64.store 1 (i32.sub (call $zero) (i32.const 8)) (i64.const 5))",
    ),
    (
        "out of bounds memory access",
        "(memory.fill (i32.const 65536) (i32.const 1) (i32.add (call $zero) (i32.const 1)))",
    ),
    ("", "(memory.fill (i32.const 65536) (i32.const 1) (call $zero))"),
    (
        "out of bounds memory access",
        "(memory.copy 0 1 (call $zero) (i32.const 65530) (i32.const 7))",
    ),
    (
        "out of bounds memory access",
        "(v128.store 2 offset=65521 (i64.extend_i32_u (call $zero)) (v128.const i64x2 1 2))",
    ),
    (
        "out of bounds memory access",
        "(local.set $at (i32.add (call $zero) (i32.const 65524))) (drop (i32.load (local.get $at)))
            (drop (i64.load offset=5 (local.get $at)))",
    ),
    (
        "",
        "(local.set $at (i32.add (call $zero) (i32.const 65524))) (drop (i32.load (local.get $at)))
            (drop (i64.load offset=4 (local.get $at)))",
    ),
    (
        "out of bounds memory access",
        "(local.set $at (call $zero)) (loop $next (drop (i32.load8_u (local.get $at)))
            (local.set $at (i32.add (local.get $at) (i32.const 1))) (br $next))",
    ),
    ("undefined element", "(call_indirect (i32.add (call $zero) (i32.const 2)))"),
    ("uninitialized element", "(call_indirect (call $zero))"),
    ("", "(call_indirect (i32.add (call $zero) (i32.const 1)))"),
];

/// Runs a program that writes its trace to a file, `trap.r3` in a folder that it knows as
/// `/traces`; returns how it ends, and the trace.
fn told_to_a_file(
    engine: &Engine,
    original: &[u8],
    folder: &Folder,
    path: &str,
) -> (String, Vec<Event>) {
    let options = Options { file: Some(path.into()), ..Options::default() };
    let recording = record(original, &options).expect("it can be recorded");
    let features = wasmparser::WasmFeatures::all();
    let mut validator = wasmparser::Validator::new_with_features(features);
    validator.validate_all(&recording.module).expect("it is valid");
    let module = Module::new(engine, &recording.module).expect("a module");
    let world = WasiCtx::builder().preopened_dir(folder, "/traces", Permissions::ReadWrite);
    let mut store = Store::new(engine, world.build().expect("a world"));
    let mut linker = Linker::new(engine);
    wasi::add_to_linker(&mut linker, |world: &mut WasiCtx| world).expect("the only one");
    let instance = linker.instantiate(&mut store, &module).expect("an instance");
    let start = instance.get_func(&mut store, "_start").expect("a program");
    let ended = match start.call(&mut store, &[]) {
        Ok(_) => String::new(),
        Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
    };
    let written = folder.join("trap.r3");
    let trace = std::fs::read(&written).expect("it was written");
    std::fs::remove_file(written).expect("it is there");
    let mut reader = Reader::new(&trace[..]).expect("a trace");
    let events = reader.by_ref().map(|event| event.expect("it is whole")).collect();
    assert_eq!(reader.ending(), Some(&Ending::Whole), "{ended}");
    (ended, events)
}

#[test]
fn a_trace_may_go_to_a_path_from_the_root_with_and_without_a_memory() {
    let (engine, folder) = (Engine::default(), Folder::new("wasm-aot-traces-from-the-root"));
    for memory in ["", "(memory (export \"memory\") 1)"] {
        let text = format!("(module {memory} (func (export \"_start\")))");
        let original = wat::parse_str(&text).expect("a module");
        let [short, long] = ["trap.r3", "/traces//trap.r3"]
            .map(|path| told_to_a_file(&engine, &original, &folder, path));
        assert_eq!(short, long);
        assert_eq!(short.1.last(), Some(&Event::Leave(End::Values(Vec::new()))));
    }
}

#[test]
fn a_trace_in_a_file_is_whole_however_the_program_traps() {
    let (engine, folder) = (Engine::default(), Folder::new("wasm-aot-traps-in-files"));
    for (why, code) in ENDS {
        let text = format!(
            r#"(module (import "wasi_snapshot_preview1" "random_get"
                    (func $random (param i32 i32) (result i32)))
                (memory (export "memory") 1) (memory 1) (memory i64 1) (table 2 funcref)
                (elem (i32.const 1) $fine) (func $fine)
                (func $zero (result i32) (drop (call $random (i32.const 8) (i32.const 8)))
                    (i32.and (i32.load (i32.const 8)) (i32.wrap_i64 (i64.const 0))))
                (func (export "_start") (local $at i32) (drop (call $zero)) {code}))"#
        );
        let original = wat::parse_str(&text).unwrap_or_else(|error| panic!("{code}: {error}"));
        let (ended, events) = told_to_a_file(&engine, &original, &folder, "trap.r3");
        assert!(
            if why.is_empty() { ended.is_empty() } else { ended.contains(why) },
            "{code}: {ended}"
        );
        let expected = match why {
            "" => End::Values(Vec::new()),
            why => End::Trap(why.to_owned()),
        };
        assert_eq!(events.last(), Some(&Event::Leave(expected)), "{code}");
        assert!(events.iter().any(|event| matches!(event, Event::Found(_))), "{code}: {events:?}");
        // Its replay ends in the same way.
        let module = Module::new(&engine, &original).expect("a module");
        let mut store = Store::new(&engine, ());
        let done = replay(&mut store, &module, placed(events).into_iter().map(Ok), None);
        assert!(done.is_ok() || matches!(done, Err(Error::Trap(_))), "{code}: {done:?}");
        assert_eq!(done.is_ok(), why.is_empty(), "{code}");
    }
}
