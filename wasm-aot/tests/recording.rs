//! The actions of embedders are recorded and repeated: in the engine, where a second recording
//! yields the same trace, and by a module without imports, here and in other engines.

#[path = "recording/embedders.rs"]
mod embedders;
#[path = "../trace/tests/replays/micro.rs"]
mod micro;
#[path = "recording/quiet.rs"]
mod quiet;
#[path = "recording/relaxed.rs"]
mod relaxed;

use embedders::{EMBEDDERS, Embedder};
use std::fs;
use std::path::Path;
use std::process::Command;
use test_support::{Folder, is_there, require, succeed};
use wasm_aot::recording::Recorder;
use wasm_aot::replaying::{Divergence, replay};
use wasm_aot::trace::{
    Error as TraceError, Event, Generation, Linked, Part, Placed, Program, Reader, generate,
    javascript,
};
use wasm_aot::{
    Caller, Engine, Error, Func, Global, GlobalType, Instance, Limits, Linker, Memory, MemoryType,
    Module, Store, Val, ValType,
};

fn events(trace: &[u8]) -> Vec<Event> {
    let reader = Reader::new(trace).expect("a trace");
    reader.map(|event| event.expect("whole")).collect()
}

/// Records the actions in a store; returns the trace, and how it has ended.
fn recorded<R>(
    store: &mut Store<()>,
    module: &Module,
    act: impl FnOnce(&mut Store<()>) -> R,
) -> (Vec<u8>, R) {
    let program = Program::new(module.inner().bytes.to_vec(), "app.wasm");
    let recorder = Recorder::new(store, module, &program, Vec::new()).expect("it can be recorded");
    let done = act(store);
    let recorded = recorder.finish(store);
    assert!(recorded.failure.is_none(), "{:?}", recorded.failure);
    (recorded.sink, done)
}

fn run(embedder: &Embedder, engine: &Engine) -> (Module, Vec<u8>, Result<(), String>) {
    let module = Module::new(engine, embedder.module).expect(embedder.name);
    let mut store = Store::new(engine, ());
    let (trace, done) = recorded(&mut store, &module, |store| {
        let mut linker = Linker::new(engine);
        (embedder.define)(&mut linker, store)?;
        let instance = linker.instantiate(&mut *store, &module)?;
        (embedder.drive)(store, instance)
    });
    (module, trace, done.map_err(|error| first_line(&error)))
}

fn first_line(error: &Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_run_that_is_replayed_and_recorded_again_gives_the_same_trace() {
    let engine = Engine::default();
    for embedder in EMBEDDERS {
        let (module, trace, done) = run(embedder, &engine);
        let events_of_run = events(&trace);
        assert!(events_of_run.len() >= 2, "{}", embedder.name);
        let mut store = Store::new(&engine, ());
        let (again, replayed) = recorded(&mut store, &module, |store| {
            replay(store, &module, events_of_run.clone().into_iter().map(Ok), None)
        });
        assert_eq!(replayed.map_err(|error| first_line(&error)), done, "{}", embedder.name);
        assert_eq!(events(&again), events_of_run, "{}", embedder.name);
    }
}

/// The events, each at the position of the host's action.
fn placed(events: Vec<Event>) -> Vec<Event> {
    Placed::new(events.into_iter().map(Ok)).map(|event| event.expect("it is there")).collect()
}

#[test]
fn every_way_across_the_boundary_is_recorded_as_it_is_written_down() {
    let engine = Engine::default();
    let mut wrong = Vec::new();
    for program in micro::programs() {
        let name = &program.name;
        let module = Module::new(&engine, &program.module).expect(name);
        let written = placed(program.events);
        let mut store = Store::new(&engine, ());
        let (trace, _) = recorded(&mut store, &module, |store| {
            replay(store, &module, written.clone().into_iter().map(Ok), None)
        });
        let found = events(&trace);
        if found != written {
            let at = found.iter().zip(&written).take_while(|(a, b)| a == b).count();
            let shown =
                |events: &[Event]| events.get(at).map_or("nothing".to_owned(), ToString::to_string);
            let (found, written) = (shown(&found), shown(&written));
            wrong.push(format!("{name}: event {at}: {found}, and not {written}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Replays that check themselves, and the number of events that each passes: -1 if it ends by a
/// trap.
fn checked() -> Vec<(String, Vec<u8>, i64)> {
    let engine = Engine::default();
    let mut all = Vec::new();
    for program in micro::programs() {
        let count = if program.traps() { -1 } else { placed(program.events.clone()).len() as i64 };
        let events = program.events.into_iter().map(Ok);
        let made = generate(&program.module, events, Generation { is_checked: true });
        all.push((program.name, made.expect("a module can do it"), count));
    }
    let (whole, trace) = linked_run(&engine);
    let (count, trace) = (trace.len() as i64, trace.into_iter().map(Ok));
    let made = generate(&whole, trace, Generation { is_checked: true });
    all.push(("linked instances".to_owned(), made.expect("a module can do it"), count));
    let (module, trace) = quiet::run(&engine);
    let (count, trace) = (trace.len() as i64, trace.into_iter().map(Ok));
    let made = generate(&module.inner().bytes, trace, Generation { is_checked: true });
    all.push(("from a quiet point".to_owned(), made.expect("a module can do it"), count));
    for embedder in EMBEDDERS {
        let (module, trace, done) = run(embedder, &engine);
        let list = events(&trace);
        let count = if done.is_err() { -1 } else { list.len() as i64 };
        let generation = Generation { is_checked: true };
        let made = generate(&module.inner().bytes, list.into_iter().map(Ok), generation);
        match made {
            Ok(made) => all.push((embedder.name.to_owned(), made, count)),
            Err(error) => assert!(!embedder.stands_alone, "{}: {error}", embedder.name),
        }
    }
    all
}

#[test]
fn a_module_without_imports_repeats_the_run_and_checks_itself() {
    let engine = Engine::default();
    for (name, made, events) in checked() {
        let module = Module::new(&engine, &made).expect(&name);
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &module, &[]).expect(&name);
        let start = instance.get_func(&mut store, "_start").expect("a start");
        let done = start.call(&mut store, &[]);
        let global = |store: &mut Store<()>, name| {
            instance.get_global(&mut *store, name).expect(name).get(store).expect("a value")
        };
        let event = global(&mut store, "replay:event").i64();
        let wrong = global(&mut store, "replay:wrong").i32();
        assert_eq!((done.is_err(), wrong), (events < 0, Some(0)), "{name}: event {event:?}");
        assert!(events < 0 || event == Some(events), "{name}: {event:?} of {events}");
    }
}

/// Writes the replays to a folder: the arguments of the scripts beside this file.
fn written(folder: &Folder) -> Vec<String> {
    let mut args = Vec::new();
    for (i, (_, made, events)) in checked().iter().enumerate() {
        let path = folder.join(format!("{i}.wasm"));
        fs::write(&path, made).expect("room");
        args.extend([path.display().to_string(), events.to_string()]);
    }
    args
}

fn script(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recording").join(name)
}

#[test]
fn wasmtime_repeats_all_runs() {
    let found = Command::new("python3").args(["-c", "import wasmtime"]).output();
    if !require(found.is_ok_and(|output| output.status.success()), "Wasmtime") {
        return;
    }
    let folder = Folder::new("wasm-aot-replays");
    succeed(Command::new("python3").arg(script("engines.py")).args(written(&folder)));
}

/// Whether a node is installed that supports all features of the programs.
fn has_node() -> bool {
    if !is_there("node") {
        return false;
    }
    let knows = Command::new("node")
        .args(["-e", "process.exit(parseInt(process.versions.node) < 24 ? 1 : 0)"])
        .status()
        .is_ok_and(|status| status.success());
    require(knows, "a node of version 24 or later, which knows exceptions and memories of 64 bits")
}

#[test]
fn node_repeats_all_runs() {
    if !has_node() {
        return;
    }
    let folder = Folder::new("wasm-aot-replays");
    succeed(Command::new("node").arg(script("engines.js")).args(written(&folder)));
}

/// JavaScript does not keep the bits of a NaN.
const NAN_BITS: &str = "nans-keep-their-bits-through-memory";

/// Scripts that check themselves, for all runs except those that pass vectors.
fn scripts() -> Vec<(String, String, i64)> {
    let engine = Engine::default();
    let mut runs = Vec::new();
    for program in micro::programs().into_iter().filter(|program| program.name != NAN_BITS) {
        runs.push((program.name, program.module, placed(program.events)));
    }
    for embedder in EMBEDDERS {
        let (module, trace, _) = run(embedder, &engine);
        let bytes = module.inner().bytes.to_vec();
        runs.push((embedder.name.to_owned(), bytes, events(&trace)));
    }
    let (module, trace) = quiet::run(&engine);
    runs.push(("from a quiet point".to_owned(), module.inner().bytes.to_vec(), trace));
    let mut all = Vec::new();
    for (name, module, events) in runs {
        let count = events.len() as i64;
        let made = javascript(&module, events.into_iter().map(Ok), Generation { is_checked: true });
        match made {
            Ok(script) => all.push((name, script, count)),
            Err(error) => assert!(error.to_string().contains("a vector"), "{name}: {error}"),
        }
    }
    all
}

#[test]
fn scripts_repeat_all_runs_in_node() {
    if !has_node() {
        return;
    }
    let folder = Folder::new("wasm-aot-scripts");
    let mut args = Vec::new();
    // Two runs may have the same name.
    for (number, (name, script, events)) in scripts().into_iter().enumerate() {
        let path = folder.join(format!("{number}-{}.js", name.replace([' ', ','], "-")));
        fs::write(&path, script).expect("room");
        args.extend([path.display().to_string(), events.to_string()]);
    }
    succeed(Command::new("node").arg(script("scripts.js")).args(args));
}

#[test]
fn the_first_difference_is_told_by_event_and_values() {
    let engine = Engine::default();
    let (module, trace, _) = run(&EMBEDDERS[2], &engine);
    let diverging = |change: &dyn Fn(&mut Vec<Event>)| {
        let mut events = events(&trace);
        change(&mut events);
        let mut store = Store::new(&engine, ());
        let error = replay(&mut store, &module, events.into_iter().map(Ok), None);
        let Err(Error::Host(error)) = error else { panic!("{error:?}") };
        *error.downcast::<Divergence>().expect("a divergence")
    };
    let first = diverging(&|events| {
        if let Event::Call { args, .. } = &mut events[1] {
            args[0] = wasm_aot::trace::Value::I32(77);
        }
    });
    assert_eq!((first.event, &*first.expected, &*first.found), (1, "i32:77", "i32:3"));
    assert!(first.about.contains("\"h\" \"f\"") && first.about.contains("argument 0"), "{first}");
    let last = diverging(&|events| {
        let end = events.len() - 1;
        events[end] = Event::Leave(wasm_aot::trace::End::Trap("unreachable".into()));
    });
    assert!(last.expected.contains("trap") && last.found == "it returns", "{last}");
    let order = diverging(&|events| {
        events.remove(1);
    });
    assert_eq!(order.about, "which comes next");
}

#[test]
fn a_forged_trace_is_refused_by_event_and_what_is_wrong() {
    let engine = Engine::default();
    let module = r#"(module (import "h" "f" (func $f (param i32) (result i32)))
        (memory (export "m") 1 1) (func $other)
        (func (export "run") (param i32) (result i32) (call $f (local.get 0))))"#;
    let module = Module::new(&engine, module).expect("a module");
    let right = "enter 2 export \"run\" i32:1\ncall 0 i32:1\nreturn i32:2\nleave i32:2\n";
    let refused = |trace: &str| {
        let events = micro::events(&module.inner().bytes, trace).into_iter().map(Ok);
        let mut store = Store::new(&engine, ());
        let done = replay(&mut store, &module, events, None);
        first_line(&done.expect_err(trace))
    };
    let with = |from: &str, to: &str| refused(&right.replacen(from, to, 1));
    let told =
        |event: u32, rest: &str| format!("the replay leaves the trace at event {event}, {rest}");
    assert_eq!(
        with("return i32:2", "return"),
        told(2, "the results of a call of the program's: expected 0, found 1")
    );
    assert_eq!(
        with("return i32:2", "grow 0 2\nreturn i32:2"),
        told(2, "a change by the host: expected grow 0 2, found the memory cannot grow by 2 pages")
    );
    assert_eq!(
        with("return i32:2", "write 0 65535 0102\nreturn i32:2"),
        told(
            2,
            "a change by the host: expected write 0 65535 0102, \
             found 2 bytes at 65535 are outside of a memory of 65536 bytes"
        )
    );
    assert_eq!(
        with("enter 2", "enter 1"),
        told(0, "the export \"run\": expected function 1, found function 2")
    );
    assert_eq!(
        with("\"run\"", "\"runs\""),
        told(0, "the export \"runs\": expected function 2, found nothing")
    );
    let start = format!("enter 1 start\nleave\n{right}");
    assert_eq!(refused(&start), told(0, "the start function: expected function 1, found none"));
    let behind = format!("{right}return i32:2\n");
    let unasked = "which comes next: expected return i32:2, found control is the host's";
    assert_eq!(refused(&behind), told(4, unasked));
}

#[test]
fn a_program_that_cannot_be_instantiated_differs_from_a_trace_that_goes_on() {
    let engine = Engine::default();
    let module = r#"(module (import "h" "m" (memory 1)) (data (i32.const 65536) "\07")
        (func (export "run")))"#;
    let module = Module::new(&engine, module).expect("a module");
    let ended = |trace: &str| {
        let events = micro::events(&module.inner().bytes, trace).into_iter().map(Ok);
        let done = replay(&mut Store::new(&engine, ()), &module, events, None);
        done.map_err(|error| first_line(&error))
    };
    assert_eq!(ended("grow 0 1\nenter 0 export \"run\"\nleave\n"), Ok(()));
    let differs = "the replay leaves the trace at event 0, the program's instantiation: \
                   expected enter 0 export \"run\", found ";
    let told = ended("enter 0 export \"run\"\nleave\n").expect_err("its segment does not fit");
    assert!(told.starts_with(differs) && told.contains("out of bounds"), "{told}");
    // A recorded program that was never there has no events.
    let told = ended("").expect_err("its segment does not fit");
    assert!(told.contains("out of bounds") && !told.contains("leaves the trace"), "{told}");
}

/// Throws one of two exceptions; runs of it, and the kind of difference.
const THROWS: &str = r#"(module (tag $t (export "t") (param i32 f64)) (tag $u (export "u"))
    (func (export "run") (param i32)
        (if (local.get 0) (then (throw $t (local.get 0) (f64.const 0.5)))) (throw $u)))"#;
const THROWN: [(u32, &str, i32); 5] = [
    (3, "0 i32:3 f64:0x3fe0000000000000", 0),
    (3, "0 i32:4 f64:0x3fe0000000000000", 2),
    (3, "0 i32:3 f64:0x3ff0000000000000", 2),
    (3, "1", 5),
    (0, "1", 0),
];

fn thrown(
    module: &[u8],
    arg: u32,
    thrown: &str,
) -> impl Iterator<Item = Result<Event, TraceError>> {
    let trace = format!("enter 0 export \"run\" i32:{arg}\nleave exception {thrown}\n");
    micro::events(module, &trace).into_iter().map(Ok)
}

#[test]
fn a_replay_that_checks_itself_compares_what_is_thrown() {
    let engine = Engine::default();
    let module = wat::parse_str(THROWS).expect("a module");
    for (arg, values, wrong) in THROWN {
        let events = thrown(&module, arg, values);
        let made = generate(&module, events, Generation { is_checked: true }).expect("a replay");
        let made = Module::new(&engine, &made).expect("valid");
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &made, &[]).expect("an instance");
        let start = instance.get_func(&mut store, "_start").expect("a start");
        let is_done = start.call(&mut store, &[]).is_ok();
        let found = instance.get_global(&mut store, "replay:wrong").expect("it checks itself");
        let found = found.get(&mut store).expect("a value").i32();
        assert_eq!((is_done, found), (wrong == 0, Some(wrong)), "{arg}: {values}");
    }
}

#[test]
fn a_script_that_checks_itself_compares_what_is_thrown() {
    if !has_node() {
        return;
    }
    let module = wat::parse_str(THROWS).expect("a module");
    let folder = Folder::new("wasm-aot-thrown");
    for (arg, values, wrong) in THROWN {
        let events = thrown(&module, arg, values);
        let made = javascript(&module, events, Generation { is_checked: true }).expect("a script");
        let path = folder.join("thrown.js");
        fs::write(&path, made + "console.log(replay.wrong);").expect("room");
        let output = Command::new("node").arg(&path).output().expect("node");
        let found = String::from_utf8_lossy(&output.stdout);
        assert_eq!(found.trim(), wrong.to_string(), "{arg}: {values}: {output:?}");
    }
}

#[test]
fn a_script_says_where_its_trace_ends_before_the_program_as_a_module_does() {
    if !has_node() {
        return;
    }
    let engine = Engine::default();
    let (module, trace, _) = run(&EMBEDDERS[2], &engine);
    let (module, events) = (module.inner().bytes.to_vec(), events(&trace));
    let folder = Folder::new("wasm-aot-cut-scripts");
    for count in 1..events.len() {
        let cut = || events[..count].iter().cloned().map(Ok);
        let made = generate(&module, cut(), Generation { is_checked: true }).expect("a replay");
        let made = Module::new(&engine, &made).expect("valid");
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &made, &[]).expect("an instance");
        let start = instance.get_func(&mut store, "_start").expect("a start");
        let ends = start.call(&mut store, &[]).is_ok();
        let wrong = instance.get_global(&mut store, "replay:wrong").expect("it checks itself");
        let wrong = wrong.get(&mut store).expect("a value").i32().expect("a number");
        let made = javascript(&module, cut(), Generation { is_checked: true }).expect("a script");
        let path = folder.join("cut.js");
        fs::write(&path, made + "console.log(replay.wrong);").expect("room");
        let output = Command::new("node").arg(&path).output().expect("node");
        let found = String::from_utf8_lossy(&output.stdout);
        assert_eq!(found.trim(), wrong.to_string(), "{count} events: {output:?}");
        assert_eq!(output.status.success(), ends, "{count} events: {output:?}");
        assert_eq!(output.stderr.is_empty(), ends, "{count} events: {output:?}");
    }
}

#[test]
fn what_cannot_be_recorded_is_named_and_the_program_goes_on() {
    let engine = Engine::default();
    let shared = Module::new(&engine, "(module (memory 1 1 shared))").expect("a module");
    let mut store = Store::new(&engine, ());
    let program = Program::new(shared.inner().bytes.to_vec(), "app.wasm");
    let refused = Recorder::new(&mut store, &shared, &program, Vec::new());
    assert!(refused.expect_err("it is refused").to_string().contains("memory that threads share"));

    // Calls by another instance are not recorded, unless it is recorded as a part of the program.
    let library =
        Module::new(&engine, r#"(module (func (export "f") (result i32) (i32.const 5)))"#)
            .expect("a module");
    let linked = r#"(module (import "l" "f" (func $f (result i32)))
        (func (export "run") (result i32) (call $f)))"#;
    let linked = Module::new(&engine, linked).expect("a module");
    let mut store = Store::new(&engine, ());
    let program = Program::new(linked.inner().bytes.to_vec(), "app.wasm");
    let recorder = Recorder::new(&mut store, &linked, &program, Vec::new()).expect("a recorder");
    let mut linker = Linker::new(&engine);
    let library = linker.instantiate(&mut store, &library).expect("an instance");
    linker.instance(&mut store, "l", library).expect("it is linked");
    let instance = linker.instantiate(&mut store, &linked).expect("an instance");
    let run = instance.get_typed_func::<(), i32>(&mut store, "run").expect("run");
    assert_eq!(run.call(&mut store, ()).expect("it runs"), 5);
    let why = recorder.finish(&mut store).failure.expect("it says so").to_string();
    assert!(why.contains("\"l\" \"f\" is a function of another instance"), "{why}");

    // The same through a table.
    let calls = r#"(module (table (export "t") 1 funcref)
        (func (export "run") (result i32) (call_indirect (result i32) (i32.const 0))))"#;
    let calls = Module::new(&engine, calls).expect("a module");
    let program = Program::new(calls.inner().bytes.to_vec(), "app.wasm");
    let recorder = Recorder::new(&mut store, &calls, &program, Vec::new()).expect("a recorder");
    let instance = Instance::new(&mut store, &calls, &[]).expect("an instance");
    let table = instance.get_table(&mut store, "t").expect("a table");
    let other = library.get_func(&mut store, "f").expect("f");
    table.set(&mut store, 0, Val::FuncRef(Some(other))).expect("it fits");
    let run = instance.get_typed_func::<(), i32>(&mut store, "run").expect("run");
    assert_eq!(run.call(&mut store, ()).expect("it runs"), 5);
    let why = recorder.finish(&mut store).failure.expect("it says so").to_string();
    assert!(why.contains("a function of an instance that is not recorded"), "{why}");
}

#[test]
fn what_depends_on_the_machine_ends_the_trace_and_the_program_goes_on() {
    let engine = Engine::default();
    let text = r#"(module (memory 1) (memory 1 2) (table $t 1 funcref) (table $u 1 2 funcref)
        (func (export "beyond") (result i32) (i32.and (memory.grow 1 (i32.const 5))
            (table.grow $u (ref.null func) (i32.const 5))))
        (func (export "memory") (result i32) (memory.grow 0 (i32.const 5)))
        (func (export "table") (result i32) (table.grow $t (ref.null func) (i32.const 500)))
        (func $deep (export "deep") (result i32) (i32.add (call $deep) (i32.const 1))))"#;
    let module = Module::new(&engine, text).expect("a module");
    for (name, reason) in [
        ("beyond", None),
        ("memory", Some("cannot grow a memory to 6 pages, which its type allows")),
        ("table", Some("cannot grow a table to 501 elements, which its type allows")),
        ("deep", Some("exhausts its stack")),
    ] {
        let mut store = Store::new(&engine, ());
        store.set_limits(Limits { memory: 4 << 16, table: 100, ..Limits::default() });
        let (trace, done) = {
            let program = Program::new(module.inner().bytes.to_vec(), "app.wasm");
            let recorder = Recorder::new(&mut store, &module, &program, Vec::new());
            let recorder = recorder.expect("it can be recorded");
            let instance = Instance::new(&mut store, &module, &[]).expect("an instance");
            let function = instance.get_typed_func::<(), i32>(&mut store, name).expect(name);
            let done = function.call(&mut store, ());
            (recorder.finish(&mut store), done)
        };
        assert_eq!(done.ok(), (name != "deep").then_some(-1), "{name}");
        let why = trace.failure.map(|why| why.to_string());
        match reason {
            None => assert_eq!(why, None, "{name}"),
            Some(reason) => {
                assert!(why.as_deref().is_some_and(|why| why.contains(reason)), "{why:?}");
            }
        }
    }
}

/// Calls a function in its table, and a callback that it was given before.
const CALLING: &str = r#"(module (type $t (func (param i32) (result i32)))
    (table (export "t") 2 funcref) (global $last (export "last") (mut funcref) (ref.null func))
    (func (export "keep") (param funcref) (global.set $last (local.get 0)))
    (func (export "run") (param i32) (result i32)
        (table.set 0 (i32.const 1) (global.get $last))
        (i32.add (call_indirect (type $t) (local.get 0) (i32.const 0))
            (call_indirect (type $t) (local.get 0) (i32.const 1)))))"#;

#[test]
fn functions_of_the_host_are_recorded_where_the_program_has_references_to_them() {
    let engine = Engine::default();
    let calling = Module::new(&engine, CALLING).expect("a module");
    for begins_late in [false, true] {
        let mut store = Store::new(&engine, ());
        let program = Program::new(calling.inner().bytes.to_vec(), "app.wasm");
        let ten = Func::wrap(&mut store, |x: i32| x * 10);
        // The host calls this one itself, too: such calls are not the program's.
        let hundred = Func::wrap(&mut store, move |mut caller: Caller<'_, ()>, x: i32| {
            let ten = ten.call(&mut caller, &[Val::I32(x)]).expect("it multiplies");
            ten[0].i32().expect("a number") * 10
        });
        let early = (!begins_late).then(|| {
            Recorder::new(&mut store, &calling, &program, Vec::new()).expect("a recorder")
        });
        let instance = Instance::new(&mut store, &calling, &[]).expect("an instance");
        let table = instance.get_table(&mut store, "t").expect("a table");
        table.set(&mut store, 0, Val::FuncRef(Some(ten))).expect("it fits");
        let keep = instance.get_func(&mut store, "keep").expect("keep");
        keep.call(&mut store, &[Val::FuncRef(Some(hundred))]).expect("it keeps it");
        let recorder = early.unwrap_or_else(|| {
            Recorder::at_quiet_point(&mut store, &calling, instance, &program, Vec::new())
                .expect("a recorder")
        });
        let run = instance.get_typed_func::<i32, i32>(&mut store, "run").expect("run");
        assert_eq!(hundred.call(&mut store, &[Val::I32(3)]).expect("it does")[0].i32(), Some(300));
        assert_eq!(run.call(&mut store, 2).expect("it runs"), 220);
        let recorded = recorder.finish(&mut store);
        assert!(recorded.failure.is_none(), "{:?}", recorded.failure);
        let found = events(&recorded.sink);
        let count = |kind: &str| found.iter().filter(|event| event.kind() == kind).count();
        assert_eq!((count("function"), count("call"), count("return")), (2, 2, 2), "{found:?}");

        let mut store = Store::new(&engine, ());
        replay(&mut store, &calling, found.clone().into_iter().map(Ok), None).expect("the same");
        let checked = Generation { is_checked: true };
        let made = generate(&calling.inner().bytes, found.clone().into_iter().map(Ok), checked);
        let made = Module::new(&engine, made.expect("a replay")).expect("a module");
        let mut store = Store::new(&engine, ());
        let replayed = Instance::new(&mut store, &made, &[]).expect("an instance");
        let start = replayed.get_func(&mut store, "_start").expect("a start");
        start.call(&mut store, &[]).expect("the replay stays on the trace");
        let wrong = replayed.get_global(&mut store, "replay:wrong").expect("it checks itself");
        assert_eq!(wrong.get(&mut store).expect("a value").i32(), Some(0));
    }
}

/// A library with a memory, a table, a global, a tag, and a start function; and a program that
/// imports all of them, the host's functions, and some of these again.
const LIBRARY: &str = r#"(module (import "h" "log" (func $log (param i32) (result i32)))
    (memory (export "memory") 1) (data (i32.const 16) "library") (table (export "table") 4 funcref)
    (elem (i32.const 1) $twice) (global (export "count") (mut i32) (i32.const 0))
    (global (export "base") i32 (i32.const 64)) (tag (export "tag") (param i32))
    (func $twice (export "twice") (param i32) (result i32)
        (global.set 0 (i32.add (global.get 0) (i32.const 1))) (call $log (i32.mul (local.get 0) (i32.const 2))))
    (func (export "throws") (param i32) (throw 0 (local.get 0)))
    (func $start (drop (call $log (i32.load8_u (i32.const 16))))) (start $start))"#;
const APP: &str = r#"(module (type $t (func (param i32) (result i32)))
    (import "l" "twice" (func $twice (type $t))) (import "h" "exit" (func $exit (param i32)))
    (import "h" "log" (func $log (type $t))) (import "l" "throws" (func $throws (param i32)))
    (import "l" "memory" (memory 1)) (import "l" "table" (table 4 funcref)) (import "h" "m" (memory $m 1))
    (import "l" "count" (global $count (mut i32))) (import "l" "base" (global $base i32))
    (import "l" "tag" (tag $tag (param i32))) (import "h" "c" (global $c i64)) (memory $own (export "own") 1)
    (data (global.get $base) "program") (elem (i32.const 2) $local) (elem declare func $log)
    (func $local (type $t) (i32.sub (call $twice (local.get 0)) (i32.const 1)))
    (func (export "run") (param i32) (result i32 i32 i32 i64 i32)
        (table.set (i32.const 3) (ref.func $log))
        (call_indirect (type $t) (local.get 0) (i32.const 1))
        (call_indirect (type $t) (local.get 0) (i32.const 2))
        (i32.add (i32.load8_u (i32.const 64)) (i32.load $m (i32.const 0))) (global.get $c)
        (block $caught (result i32) (try_table (catch $tag $caught) (call $throws (global.get $count))) (unreachable)))
    (func (export "leave") (call $exit (i32.load8_u $own (i32.const 0))) (unreachable)))"#;

/// The host's actions with library and program.
fn drive(store: &mut Store<()>, library: &Module, app: &Module) -> Result<(), Error> {
    let mut linker = Linker::new(store.engine());
    linker.func_wrap("h", "log", |x: i32| x + 1)?;
    linker.func_wrap("h", "exit", |code: i32| Err::<(), _>(Error::Exit(code)))?;
    let ty = MemoryType { minimum: 1, maximum: None, wide: false, shared: false };
    let memory = Memory::new(&mut *store, ty)?;
    memory.write(&mut *store, 0, &[5])?;
    linker.define("h", "m", memory)?;
    let ty = GlobalType { content: ValType::I64, mutable: false };
    linker.define("h", "c", Global::new(&mut *store, ty, Val::I64(-3))?)?;
    let library = linker.instantiate(&mut *store, library)?;
    // Between the two, the host uses the first.
    let twice = library.get_func(&mut *store, "twice").expect("it");
    twice.call(&mut *store, &[Val::I32(4)])?;
    linker.instance(&mut *store, "l", library)?;
    let app = linker.instantiate(&mut *store, app)?;
    let run = app.get_func(&mut *store, "run").expect("it");
    run.call(&mut *store, &[Val::I32(10)])?;
    library.get_memory(&mut *store, "memory").expect("it").write(&mut *store, 64, b"x")?;
    library.get_global(&mut *store, "count").expect("it").set(&mut *store, Val::I32(100))?;
    memory.write(&mut *store, 1, &[1])?;
    let table = library.get_table(&mut *store, "table").expect("it");
    table.set(&mut *store, 1, Val::FuncRef(Some(twice)))?;
    run.call(&mut *store, &[Val::I32(11)])?;
    app.get_memory(&mut *store, "own").expect("it").write(&mut *store, 0, &[9])?;
    let leave = app.get_func(&mut *store, "leave").expect("it");
    assert!(matches!(leave.call(&mut *store, &[]), Err(Error::Exit(9))));
    run.call(&mut *store, &[Val::I32(1)]).map(|_| ())
}

/// The linked module of both, and the trace of the host's actions.
fn linked_run(engine: &Engine) -> (Vec<u8>, Vec<Event>) {
    let [library, app] = [LIBRARY, APP].map(|text| Module::new(engine, text).expect("a module"));
    let (first, second) = (library.inner().bytes.to_vec(), app.inner().bytes.to_vec());
    let parts = [Part { name: "l", module: &first }, Part { name: "app", module: &second }];
    let linked = Linked::new(&parts).expect("they fit");
    let whole = linked.module.clone();
    let program = Program::new(whole.clone(), "app.wasm");
    let mut store = Store::new(engine, ());
    let modules = [&library, &app];
    let recorder = Recorder::linked(&mut store, &modules, linked, &program, Vec::new());
    let recorder = recorder.expect("it can be recorded");
    drive(&mut store, &library, &app).expect("it runs");
    let recorded = recorder.finish(&mut store);
    assert!(recorded.failure.is_none(), "{:?}", recorded.failure);
    (whole, events(&recorded.sink))
}

#[test]
fn linked_instances_are_recorded_as_one_program() {
    let engine = Engine::default();
    let (whole, trace) = linked_run(&engine);
    let shown: Vec<String> = trace.iter().map(ToString::to_string).collect();
    let beginning = [
        "write 0 0 05",
        "global 0 i64:-3",
        "enter 8 export \"l.instantiate\"",
        "call 0 i32:108",
        "return i32:109",
        "leave",
        "enter 2 export \"l.twice\" i32:4",
        "call 0 i32:8",
        "return i32:9",
        "leave i32:9",
    ];
    assert_eq!(shown[..beginning.len()], beginning);
    assert!(shown.iter().any(|event| event.starts_with("return exit 9 ")), "{shown:#?}");
    let module = Module::new(&engine, &whole).expect("a module");
    let mut store = Store::new(&engine, ());
    let (again, replayed) = recorded(&mut store, &module, |store| {
        replay(store, &module, trace.clone().into_iter().map(Ok), None)
    });
    replayed.expect("it does the same");
    let again: Vec<String> = events(&again).iter().map(ToString::to_string).collect();
    assert_eq!(again, shown);
}

#[test]
fn what_is_not_observed_costs_nothing_and_other_instances_are_not_in_a_trace() {
    let engine = Engine::default();
    let text = r#"(module (import "h" "f" (func $f (param i32))) (memory (export "m") 1)
        (func (export "run") (param i32) (call $f (local.get 0))))"#;
    let module = Module::new(&engine, text).expect("a module");
    let mut store = Store::new(&engine, ());
    let (trace, ()) = recorded(&mut store, &module, |store| {
        let mut linker = Linker::new(&engine);
        linker.func_wrap("h", "f", |_: i32| ()).expect("it is new");
        let instances =
            [0, 1].map(|_| linker.instantiate(&mut *store, &module).expect("an instance"));
        for (number, instance) in instances.into_iter().enumerate() {
            let run = instance.get_typed_func::<i32, ()>(&mut *store, "run").expect("run");
            run.call(&mut *store, number as i32).expect("it runs");
            let memory: Memory = instance.get_memory(&mut *store, "m").expect("a memory");
            memory.write(&mut *store, number, &[1]).expect("it fits");
        }
    });
    let text: Vec<String> = events(&trace).iter().map(ToString::to_string).collect();
    let expected =
        ["enter 1 export \"run\" i32:0", "call 0 i32:0", "return", "leave", "write 0 0 01"];
    assert_eq!(text, expected);
}
