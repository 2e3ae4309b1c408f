//! Frequent switching leaks no memory. The tests run in their own process, one after the other,
//! since they count the process's mappings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use test_support::{mappings, resident};
use wasm_aot::monitor::MonitorSet;
use wasm_aot::{Config, Engine, Linker, Module, Store};

static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[test]
fn a_million_times_on_and_off_leaves_no_trace() {
    let _alone = ALONE.lock();
    let engine = Engine::new(&Config::new()).expect("an engine");
    let text = "(module (func $f (export \"f\") (param i32) (result i32) (local i32)
        (loop $again (br_if $again (i32.lt_u (local.tee 1 (i32.add (local.get 1) (i32.const 1))) (i32.const 3))))
        (if (result i32) (local.get 0) (then (call $f (i32.sub (local.get 0) (i32.const 1)))) (else (i32.const 7)))))";
    let module = Module::new(&engine, text).expect("a module");
    let mut store = Store::new(&engine, ());
    let instance = Linker::new(&engine).instantiate(&mut store, &module).expect("an instance");
    let function = instance.get_typed_func::<i32, i32>(&mut store, "f").expect("exported");
    module.attach_counts().expect("attached");
    assert_eq!(function.call(&mut store, 10).expect("no trap"), 7);
    // Attach and detach once: all code that this compiles is kept.
    module.detach_counts();
    module.attach_counts().expect("attached");
    let before = mappings();
    for _ in 0..1_000_000 {
        module.detach_counts();
        module.attach_counts().expect("attached");
    }
    assert_eq!(mappings(), before);
    assert_eq!(function.call(&mut store, 10).expect("no trap"), 7);
    assert_eq!(
        module.counts().expect("attached").functions().next().map(|function| function.calls()),
        Some(22)
    );
}

/// A program that runs until the host ends it.
const PROGRAM: &str = r#"(module (import "host" "over" (func $over (result i32))) (memory 1)
    (func $leaf (param i32) (result i32) (i32.store (i32.const 8) (local.get 0)) (i32.add (local.get 0) (i32.const 1)))
    (func (export "f") (result i32) (local $n i32)
        (loop $again
            (local.set $n (call $leaf (local.get $n)))
            (br_if $again (i32.or (i32.and (local.get $n) (i32.const 1023)) (i32.eqz (call $over)))))
        (local.get $n)))"#;

#[test]
fn monitors_that_come_and_go_a_million_times_beside_two_threads_leave_no_trace() {
    let _alone = ALONE.lock();
    const MONITORS: [&str; 3] = ["hotness", "memory", "functions"];
    let engine = Engine::default();
    let module = Module::new(&engine, PROGRAM).expect("a module");
    let live = MonitorSet::of(&module);
    let over = Arc::new(AtomicBool::new(false));
    let thread = || {
        let (engine, module, over) = (engine.clone(), module.clone(), Arc::clone(&over));
        std::thread::spawn(move || {
            let mut linker = Linker::new(&engine);
            linker
                .func_wrap("host", "over", move || i32::from(over.load(Relaxed)))
                .expect("the only one");
            let mut store = Store::new(&engine, ());
            let instance = linker.instantiate(&mut store, &module).expect("an instance");
            let function = instance.get_typed_func::<(), i32>(&mut store, "f").expect("exported");
            assert!(function.call(&mut store, ()).expect("no trap") > 0);
        })
    };
    let threads = [thread(), thread()];
    // Every set of monitors once: all code that is compiled for them is kept.
    let turn = |turn: usize| {
        let name = MONITORS[turn % 3];
        match turn / 3 % 2 {
            0 => assert_eq!(live.attach(name).expect("sites"), name),
            _ => assert!(live.detach(name).expect("sites")),
        }
    };
    (0..60).for_each(turn);
    let before = (mappings(), resident());
    (0..1_000_000).for_each(turn);
    let after = (mappings(), resident());
    over.store(true, Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    assert!(after.0 <= before.0 + 8, "mappings: {before:?}, {after:?}");
    assert!(after.1 < before.1 + 4_096, "kilobytes: {before:?}, {after:?}");
}
