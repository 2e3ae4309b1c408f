//! What embedders do with a program is recorded, and repeated: in the engine, where recording it
//! again gives the same trace, and by a module without imports, here and in other engines.

#[path = "recording/embedders.rs"]
mod embedders;

use embedders::{EMBEDDERS, Embedder};
use std::fs;
use std::path::Path;
use std::process::Command;
use test_support::{Folder, is_there, require, succeed};
use wasm_aot::recording::Recorder;
use wasm_aot::replaying::{Divergence, replay};
use wasm_aot::trace::{Event, Generation, Program, Reader, generate};
use wasm_aot::{Engine, Error, Instance, Linker, Memory, Module, Store, Val};

fn events(trace: &[u8]) -> Vec<Event> {
    let reader = Reader::new(trace).expect("a trace");
    reader.map(|event| event.expect("whole")).collect()
}

/// Records what is done in a store: the trace, and how it has ended.
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

/// Replays that check themselves, and how many events each passes: -1 if it ends by a trap.
fn checked() -> Vec<(&'static str, Vec<u8>, i64)> {
    let engine = Engine::default();
    let mut all = Vec::new();
    for embedder in EMBEDDERS {
        let (module, trace, done) = run(embedder, &engine);
        let list = events(&trace);
        let count = if done.is_err() { -1 } else { list.len() as i64 };
        let generation = Generation { is_checked: true };
        let made = generate(&module.inner().bytes, list.into_iter().map(Ok), generation);
        match made {
            Ok(made) => all.push((embedder.name, made, count)),
            Err(error) => assert!(!embedder.stands_alone, "{}: {error}", embedder.name),
        }
    }
    all
}

#[test]
fn a_module_without_imports_repeats_the_run_and_checks_itself() {
    let engine = Engine::default();
    for (name, made, events) in checked() {
        let module = Module::new(&engine, &made).expect(name);
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &module, &[]).expect(name);
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

#[test]
fn node_repeats_all_runs() {
    if !is_there("node") {
        return;
    }
    let knows = Command::new("node")
        .args(["-e", "process.exit(parseInt(process.versions.node) < 24 ? 1 : 0)"])
        .status()
        .is_ok_and(|status| status.success());
    if !require(
        knows,
        "a node of version 24 or later, which knows exceptions and memories of 64 bits",
    ) {
        return;
    }
    let folder = Folder::new("wasm-aot-replays");
    succeed(Command::new("node").arg(script("engines.js")).args(written(&folder)));
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
fn what_cannot_be_recorded_is_named_and_the_program_goes_on() {
    let engine = Engine::default();
    let shared = Module::new(&engine, "(module (memory 1 1 shared))").expect("a module");
    let mut store = Store::new(&engine, ());
    let program = Program::new(shared.inner().bytes.to_vec(), "app.wasm");
    let refused = Recorder::new(&mut store, &shared, &program, Vec::new());
    assert!(refused.expect_err("it is refused").to_string().contains("memory that threads share"));

    // Calls of another instance are not seen.
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

    // A function of the host's in a table has no name in a trace.
    let calls = r#"(module (table (export "t") 1 funcref)
        (func (export "run") (result i32) (call_indirect (result i32) (i32.const 0))))"#;
    let calls = Module::new(&engine, calls).expect("a module");
    let mut store = Store::new(&engine, ());
    let program = Program::new(calls.inner().bytes.to_vec(), "app.wasm");
    let recorder = Recorder::new(&mut store, &calls, &program, Vec::new()).expect("a recorder");
    let instance = Instance::new(&mut store, &calls, &[]).expect("an instance");
    let table = instance.get_table(&mut store, "t").expect("a table");
    let own = wasm_aot::Func::wrap(&mut store, || 6i32);
    table.set(&mut store, 0, Val::FuncRef(Some(own))).expect("it fits");
    let run = instance.get_typed_func::<(), i32>(&mut store, "run").expect("run");
    assert_eq!(run.call(&mut store, ()).expect("it runs"), 6);
    let why = recorder.finish(&mut store).failure.expect("it says so").to_string();
    assert!(why.contains("a function that is not the program's"), "{why}");
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
