//! Counting that begins and ends while the program runs, in other threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use wasm_aot::{Config, Engine, Error, Instance, Linker, Module, Sites, Store, Val};

const PROGRAM: &str = r#"(module
    (import "host" "step" (func $step))
    (table funcref (elem $leaf))
    (func $leaf (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
    (func $fib (export "fib") (param i32) (result i32)
        (if (result i32) (i32.lt_u (local.get 0) (i32.const 2)) (then (local.get 0))
            (else (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1))) (call $fib (i32.sub (local.get 0) (i32.const 2)))))))
    (func (export "steps") (param i32) (result i32) (local i32)
        (loop $again
            (call $step)
            (local.set 1 (call_indirect (param i32) (result i32) (local.get 1) (i32.const 0)))
            (br_if $again (i32.lt_u (local.get 1) (local.get 0))))
        (local.get 1)))"#;

fn setting(
    config: &Config,
    step: impl Fn(&Module) + Send + Sync + 'static,
) -> (Store<()>, Module, Instance) {
    let engine = Engine::new(config).expect("an engine");
    let module = Module::new(&engine, PROGRAM).expect("a module");
    let mut store = Store::new(&engine, ());
    let mut linker = Linker::new(&engine);
    let own = module.clone();
    linker.func_wrap("host", "step", move || step(&own)).expect("the only one");
    let instance = linker.instantiate(&mut store, &module).expect("an instance");
    (store, module, instance)
}

fn call(store: &mut Store<()>, instance: Instance, name: &str, arg: i32) -> i32 {
    let function = instance.get_typed_func::<i32, i32>(&mut *store, name).expect("exported");
    function.call(&mut *store, arg).expect("no trap")
}

/// The calls of each defined function while it was counted.
fn calls(module: &Module) -> Vec<u64> {
    module.counts().expect("attached once").functions().map(|function| function.calls()).collect()
}

fn fib(n: u32) -> u64 {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).0
}

#[test]
fn what_is_attached_between_two_calls_counts_all_of_the_second_and_nothing_of_the_third() {
    let (mut store, module, instance) = setting(&Config::new(), |_| {});
    assert_eq!(call(&mut store, instance, "fib", 10), 55);
    assert!(module.counts().is_none());
    module.attach_counts().expect("attached");
    assert_eq!(call(&mut store, instance, "fib", 10), 55);
    module.detach_counts();
    assert_eq!(call(&mut store, instance, "fib", 12), 144);
    // Calls of fib(n) are 2 fib(n + 1) - 1.
    assert_eq!(calls(&module), [0, 2 * fib(11) - 1, 0]);
    module.attach_counts().expect("attached");
    assert_eq!(call(&mut store, instance, "fib", 5), 5);
    assert_eq!(calls(&module)[1], 2 * fib(11) - 1 + 2 * fib(6) - 1);
}

#[test]
fn what_a_host_function_attaches_holds_from_the_next_call_on() {
    use std::sync::atomic::AtomicU32;
    static TURN: AtomicU32 = AtomicU32::new(0);
    let (mut store, module, instance) =
        setting(&Config::new(), |module| match TURN.fetch_add(1, Ordering::Relaxed) {
            10 => module.attach_counts().expect("attached"),
            30 => module.detach_counts(),
            _ => {}
        });
    assert_eq!(call(&mut store, instance, "steps", 100), 100);
    // The calls through the table count, too. The loop itself has switched by OSR in its middle.
    assert_eq!(calls(&module), [20, 0, 0]);
}

#[test]
fn switching_as_fast_as_it_goes_changes_no_result_and_loses_no_count() {
    let (mut store, module, instance) = setting(&Config::new(), |_| {});
    module.attach_counts().expect("attached");
    let (stop, switches) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut rounds = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                module.detach_counts();
                module.attach_counts().expect("attached");
                switches.fetch_add(2, Ordering::Relaxed);
            }
        });
        let other = scope.spawn(|| {
            let engine = Engine::new(&Config::new()).expect("an engine");
            let mut store = Store::new(&engine, ());
            let mut linker = Linker::new(&engine);
            linker.func_wrap("host", "step", || {}).expect("the only one");
            let instance =
                linker.instantiate(&mut store, &module).expect("an instance of the same module");
            for _ in 0..30 {
                assert_eq!(call(&mut store, instance, "fib", 20), 6765);
            }
        });
        while rounds < 30 || switches.load(Ordering::Relaxed) < 100 {
            assert_eq!(call(&mut store, instance, "fib", 20), 6765);
            assert_eq!(call(&mut store, instance, "steps", 1000), 1000);
            rounds += 1;
        }
        other.join().expect("no panic");
        stop.store(true, Ordering::Relaxed);
    });
    let counted = calls(&module);
    let most = (30 + rounds) * (2 * fib(21) - 1);
    assert!(counted[1] > 0 && counted[1] <= most, "{counted:?} of {most}");
    // Every activation was in one variant from its beginning to its end: it has as many entries as
    // exits.
    let counts = module.counts().expect("attached");
    let fib = counts.functions().nth(1).expect("fib");
    let instructions = fib.instructions();
    assert_eq!(instructions.first().map(|i| i.count), instructions.last().map(|i| i.count));
}

#[test]
fn code_from_a_file_is_switched_without_changing_the_file() {
    let engine = Engine::new(&Config::new()).expect("an engine");
    let path = std::env::temp_dir().join(format!("wasm-aot-attaching-{}.aot", std::process::id()));
    let compiled = Module::precompile(&engine, PROGRAM).expect("compiled");
    std::fs::write(&path, &compiled).expect("a file");
    let module = Module::from_file(&engine, &path).expect("loaded");
    let mut store = Store::new(&engine, ());
    let mut linker = Linker::new(&engine);
    let own = module.clone();
    // A function that the loop calls attaches the counts for the first time; the loop's code is
    // replaced while it runs.
    linker
        .func_wrap("host", "step", move || own.attach_counts().expect("attached"))
        .expect("the only one");
    let instance = linker.instantiate(&mut store, &module).expect("an instance");
    assert_eq!(call(&mut store, instance, "steps", 50), 50);
    assert_eq!(calls(&module), [50, 0, 0]);
    assert_eq!(std::fs::read(&path).expect("the file"), compiled);
    std::fs::remove_file(&path).expect("removed");
}

#[test]
fn traps_in_the_version_that_counts_are_reported_and_counted() {
    let engine = Engine::new(&Config::new()).expect("an engine");
    let text = r#"(module (memory 1) (func $inner (param i32) (result i32) (nop) (i32.load (local.get 0)))
        (func (export "f") (param i32) (result i32) (call $inner (local.get 0)) (nop)))"#;
    let module = Module::new(&engine, text).expect("a module");
    let mut store = Store::new(&engine, ());
    let instance = Linker::new(&engine).instantiate(&mut store, &module).expect("an instance");
    module.attach_counts().expect("attached");
    let function = instance.get_func(&mut store, "f").expect("exported");
    let error = function.call(&mut store, &[Val::I32(-1)]).expect_err("outside");
    assert!(error.to_string().contains("inner"), "{error}");
    let counts = module.counts().expect("attached");
    let all: Vec<Vec<u64>> = counts
        .functions()
        .map(|function| function.instructions().iter().map(|i| i.count).collect())
        .collect();
    assert_eq!(all, [vec![1, 1, 1, 0], vec![1, 1, 0, 0]]);
}

#[test]
fn modules_without_sites_say_so() {
    let (_, module, _) = setting(Config::new().sites(Sites::NONE), |_| {});
    let error = module.attach_counts().expect_err("no sites");
    assert!(matches!(&error, Error::Attach(why) if why.contains("without sites")), "{error}");
    let (_, module, _) = setting(Config::new().reservations(false), |_| {});
    let error = module.attach_counts().expect_err("no room");
    assert!(
        matches!(&error, Error::Attach(why) if why.contains("no room for counters")),
        "{error}"
    );
}
