//! Programs, monitors and recorders that an embedder has dropped leave nothing: no mapping of code,
//! no memory. The one test has a process of its own, since it counts the process's mappings.

use std::sync::Arc;
use std::time::Duration;
use test_support::{eventually, mappings, resident};
use wasm_aot::monitor::MonitorSet;
use wasm_aot::observer::{Observation, Observer, ProbeCalls};
use wasm_aot::probe::{Mode, Place, Probes, probe};
use wasm_aot::recording::{Recorder, Requests};
use wasm_aot::session::Session;
use wasm_aot::steering::Steering;
use wasm_aot::trace::Program;
use wasm_aot::{Engine, Instance, Linker, Module, Store, Val};

#[path = "observers/stage.rs"]
#[allow(dead_code, reason = "other tests ask for more")]
mod stage;

const TURNS: i32 = 9;
const PROGRAM: &str = r#"(module (memory 1)
    (func $leaf (param i32) (result i32)
        (i32.store (i32.const 8) (local.get 0)) (i32.add (local.get 0) (i32.const 1)))
    (func (export "f") (result i32) (local $n i32)
        (loop $again
            (local.set $n (call $leaf (local.get $n)))
            (br_if $again (i32.lt_u (local.get $n) (i32.const 9))))
        (local.get $n)))"#;

/// Counts calls, and with a probe that it inserts itself the entries of a function.
const MONITOR: &str = r#"(module
    (import "wasm-aot:ext" "v1" (func))
    (import "whamm:dyninstr" "insert_new_probe" (func $insert (param i32 i32 funcref) (result i32)))
    (global $calls (mut i64) (i64.const 0)) (global $entries (mut i64) (i64.const 0))
    (elem declare func $enter)
    (func $enter (global.set $entries (i64.add (global.get $entries) (i64.const 1))))
    (func $begin (drop (call $insert (i32.const 0) (i32.const 0) (ref.func $enter))))
    (start $begin)
    (func (export "wasm:opcode:call:before")
        (global.set $calls (i64.add (global.get $calls) (i64.const 1)))))"#;

/// Runs the program in a store of its own, after `prepare`, and drops both.
fn alone(prepare: impl FnOnce(&Module, &mut Store<()>)) {
    let engine = Engine::default();
    let module = Module::new(&engine, PROGRAM).expect("a module");
    let mut store = Store::new(&engine, ());
    prepare(&module, &mut store);
    let instance = Linker::new(&engine).instantiate(&mut store, &module).expect("an instance");
    run(instance, &mut store);
}

fn run(instance: Instance, store: &mut Store<()>) {
    let function = instance.get_typed_func::<(), i32>(&mut *store, "f").expect("exported");
    assert_eq!(function.call(store, ()).expect("no trap"), TURNS);
}

/// Runs the program with a monitor module, and drops both.
fn observed(calls: ProbeCalls, ready: impl Fn(&mut Observer)) {
    let monitors = [("m", MONITOR.as_bytes())];
    let run = stage::run_with(&monitors, &[], PROGRAM.as_bytes(), calls, ready);
    let done = run.expect("it is observed").call("f", &[]).expect("no trap");
    assert!(matches!(done[..], [Val::I32(TURNS)]), "{done:?}");
}

fn with_a_probe(module: &Module) {
    let place = Place { function: 0, offset: 0, mode: Mode::Entry };
    Probes::new(module).insert(place, probe("idle", |_| Ok(()))).expect("there is such a place");
}

fn recorded() {
    let engine = Engine::default();
    let module = Module::new(&engine, PROGRAM).expect("a module");
    let mut store = Store::new(&engine, ());
    let program = Program::new(module.inner().bytes.to_vec(), "app.wasm");
    let recorder = Recorder::new(&mut store, &module, &program, Vec::new()).expect("a recorder");
    let instance = Linker::new(&engine).instantiate(&mut store, &module).expect("an instance");
    run(instance, &mut store);
    assert!(recorder.finish(&mut store).failure.is_none());
}

#[test]
fn what_is_dropped_leaves_neither_mappings_nor_memory() {
    // The C library keeps some twenty stacks of threads that have ended, and as many arenas.
    const TIMES: usize = 100;
    /// Code takes two mappings, and a program some hundred kilobytes.
    const KILOBYTES: usize = 40 * TIMES;
    let kinds: [(&str, &dyn Fn()); 12] = [
        ("a program", &|| alone(|_, _| {})),
        ("counts", &|| alone(|module, _| module.attach_counts().expect("attached"))),
        ("monitors", &|| {
            alone(|module, _| {
                let live = MonitorSet::of(module);
                for name in ["hotness", "latency", "functions", "memory", "profile"] {
                    live.attach(name).expect("attached");
                }
            });
        }),
        ("a probe", &|| alone(|module, _| with_a_probe(module))),
        ("a recorder", &recorded),
        ("a session that is asked from outside", &|| {
            alone(|module, _| {
                let observation = Arc::new(Observation::of(module));
                let monitors = Arc::new(MonitorSet::of(module));
                let session = Arc::new(Session::new(observation, monitors));
                session.attach("hotness").expect("attached");
                let steering = Steering::new("app.wasm", session);
                drop(Requests::steered(steering).expect("a socket"));
            });
        }),
        ("requests", &|| drop(Requests::listen("app.wasm").expect("a socket"))),
        ("an inlined monitor module", &|| observed(ProbeCalls::Inlined, |_| {})),
        ("a called one", &|| observed(ProbeCalls::Direct, |_| {})),
        ("a toggled one", &|| {
            observed(ProbeCalls::Inlined, |monitor| monitor.set_toggled(true));
        }),
        ("a limited one", &|| observed(ProbeCalls::Inlined, |monitor| monitor.set_calls(3))),
        ("a contained one", &|| {
            observed(ProbeCalls::Direct, |monitor| monitor.set_contained(Duration::from_secs(5)));
        }),
    ];
    for (name, make) in kinds {
        (0..10).for_each(|_| make());
        let before = (mappings(), resident());
        (0..TIMES).for_each(|_| make());
        // Threads that write traces and watch monitors end a little later.
        eventually(name, || mappings() <= before.0 + TIMES);
        let after = resident();
        assert!(after <= before.1 + KILOBYTES, "{name}: {} to {after} kilobytes", before.1);
    }
}
