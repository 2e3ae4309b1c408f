//! Counters that are read while another thread executes the program are consistent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use test_support::eventually;
use wasm_aot::monitor::MonitorSet;
use wasm_aot::{Config, Engine, Instance, Linker, Module, Store};

/// Functions that are never called, between the counters of two that are called in turn: reading
/// all of them takes as long as some thousand turns.
const PADDING: usize = 2_000;

/// `f` calls `first`, and then `last`, until `goes_on` returns 0; both loop. With `asks_often` it
/// asks in each turn, otherwise seldom.
fn program(asks_often: bool) -> String {
    let padding = "(func (param i32) (result i32) (if (local.get 0) (then (return (i32.const 1)))) (i32.const 2))"
        .repeat(PADDING);
    let mask = if asks_often { 0 } else { 0xF_FFFF };
    format!(
        r#"(module (import "host" "goes_on" (func $goes_on (result i32))) (global $sum (mut i32) (i32.const 0))
        (func $first (param $i i32)
            (local.set $i (i32.and (local.get $i) (i32.const 7)))
            (loop $turns (br_if $turns (i32.ge_s (local.tee $i (i32.sub (local.get $i) (i32.const 1))) (i32.const 0)))))
        {padding}
        (func $last (param $i i32)
            (global.set $sum (i32.add (global.get $sum) (local.get $i)))
            (loop $turns (br_if $turns (i32.ge_s (local.tee $i (i32.sub (local.get $i) (i32.const 3))) (i32.const 0)))))
        (func $f (export "f") (local $i i32)
            (loop $again
                (call $first (local.get $i))
                (call $last (i32.and (local.get $i) (i32.const 15)))
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (if (i32.and (local.get $i) (i32.const {mask})) (then (br $again)))
                (br_if $again (call $goes_on)))))"#
    )
}

/// Lets `observe` read the program's counters while another thread executes it; that thread does
/// the reading.
fn while_it_runs(text: &str, observe: impl FnOnce(&Module)) {
    let engine = Engine::new(&Config::new()).expect("an engine");
    let module = Module::new(&engine, text).expect("a module");
    let (goes_on, turns) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
    module.attach_counts().expect("attached");
    std::thread::scope(|scope| {
        let (begun, of_thread) = (Arc::clone(&turns), Arc::clone(&goes_on));
        let module = &module;
        let engine = &engine;
        let program = scope.spawn(move || {
            let mut store = Store::new(engine, ());
            store.read_counters_of(module, || true);
            let mut linker = Linker::new(engine);
            let goes_on = move || {
                begun.fetch_add(1, Relaxed);
                i32::from(of_thread.load(Relaxed))
            };
            linker.func_wrap("host", "goes_on", goes_on).expect("the only one");
            let instance: Instance = linker.instantiate(&mut store, module).expect("an instance");
            let f = instance.get_typed_func::<(), ()>(&mut store, "f").expect("exported");
            f.call(&mut store, ()).expect("no trap");
        });
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while turns.load(Relaxed) == 0 && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        let observed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| observe(module)));
        goes_on.store(false, Relaxed);
        program.join().expect("no panic");
        observed.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// The calls of `first` and `last`, and the calls of each by `f`.
fn calls(module: &Module) -> [u64; 4] {
    let counts = module.counts().expect("counted");
    let functions: Vec<_> = counts.functions().collect();
    let [first, last, f] = [0, PADDING + 1, PADDING + 2].map(|place| &functions[place]);
    let of_f: Vec<u64> =
        f.instructions().iter().filter(|one| one.mnemonic == "call").map(|one| one.count).collect();
    [first.calls(), of_f[0], last.calls(), of_f[1]]
}

#[test]
fn a_snapshot_of_a_running_program_adds_up() {
    for asks_often in [false, true] {
        while_it_runs(&program(asks_often), |module| {
            let mut before = 0;
            for _ in 0..20 {
                let [first, of_first, last, of_last] = calls(module);
                assert!(first >= before && last > 0, "{first} after {before}");
                assert_eq!(
                    (first, last),
                    (of_first, of_last),
                    "each call has come to its function"
                );
                assert!(first - last <= 1, "{first} calls of the first, {last} of the last");
                before = first;
            }
        });
    }
}

/// The counts of a function's instructions of some kind, in the order of the code.
fn counts_in(csv: &str, function: &str, mnemonic: &str) -> Vec<u64> {
    let rows = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let mut rows = rows.collect::<Vec<_>>().into_iter();
    let header = rows.next().expect("a header");
    let column = |name: &str| header.iter().position(|one| *one == name).expect(name);
    let (count, label, what) = (column("count"), column("function"), column("instruction"));
    let own = rows.filter(|row| row[label] == function && row[what].starts_with(mnemonic));
    own.map(|row| row[count].parse().expect("a count")).collect()
}

#[test]
fn a_monitor_that_comes_and_goes_beside_others_counts_no_call_twice() {
    for asks_often in [false, true] {
        while_it_runs(&program(asks_often), |module| {
            let live = MonitorSet::of(module);
            for _ in 0..25 {
                live.attach("hotness,code,top=all").expect("attached");
                live.detach("hotness").expect("attached before");
            }
            live.attach("hotness,code,top=all").expect("attached");
            // Such a short time may end before the program has made a turn.
            eventually("calls are counted", || {
                let csv = live.reports(Some("hotness")).remove(0).csv();
                let [first, last] = ["first", "last"].map(|name| counts_in(&csv, name, "")[0]);
                assert_eq!(counts_in(&csv, "f", "call")[..2], [first, last]);
                assert!(first.abs_diff(last) <= 30, "each time is off by one at most: {csv}");
                first > 0
            });
        });
    }
}
