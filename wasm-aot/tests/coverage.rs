//! Coverage agrees with counts about which instructions were executed at all. Dead probes are
//! pruned while the program runs, and no instruction is missing.

#[path = "counts/programs.rs"]
mod programs;

use programs::{PROGRAMS, call_all, check_arbitrary, instantiate, spelled_out};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use wasm_aot::monitor::{Cell, Choices, MonitorSet, Report};
use wasm_aot::{Config, Engine, Linker, Module, Optimize, Store, Val};

fn exported(module: &Module) -> Vec<String> {
    let functions =
        module.exports().filter(|export| matches!(export.ty, wasm_aot::ExternType::Func(_)));
    functions.map(|export| export.name.to_owned()).collect()
}

/// The number of executed instructions of each function, from a program that counts itself.
fn expected(bytes: &[u8], names: &[&str]) -> Option<Vec<[u64; 2]>> {
    let mut functions: BTreeMap<usize, [u64; 2]> = BTreeMap::new();
    for ((function, _), count) in spelled_out(bytes, names)? {
        let [all, covered] = functions.entry(function).or_default();
        *all += 1;
        *covered += u64::from(count > 0);
    }
    Some(functions.into_values().collect())
}

/// The same, from the monitor.
fn rows(report: &Report) -> Vec<[u64; 2]> {
    let count = |cell: &Cell| match cell {
        Cell::Count(count) => *count,
        other => panic!("{other:?}"),
    };
    report.rows.iter().map(|row| [count(&row[1]), count(&row[2])]).collect()
}

/// Compares a program's coverage; returns whether any instruction was executed.
fn check(bytes: &[u8]) -> bool {
    let engine = Engine::new(Config::new().optimize(Optimize::Speed)).expect("an engine");
    let monitors = MonitorSet::new(Choices::new(["coverage"]).expect("a monitor")).expect("ready");
    let Ok(module) = monitors.compile(&engine, bytes) else { return false };
    let names = exported(&module);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (mut store, instance) = instantiate(&engine, &module);
    let found = instance.map(|instance| call_all(&mut store, instance, &names));
    let found = found.map(|()| rows(&monitors.reports(None)[0]));
    let expected = expected(bytes, &names);
    assert_eq!(found, expected, "{}", wat_of(bytes));
    expected.is_some_and(|functions| functions.iter().any(|[_, covered]| *covered > 0))
}

/// The path of a program that failed.
fn wat_of(bytes: &[u8]) -> String {
    let path = std::env::temp_dir().join(format!("wasm-aot-coverage-{}.wasm", std::process::id()));
    let kept = std::fs::write(&path, bytes).is_ok();
    format!("the module is {} ({kept})", path.display())
}

#[test]
fn what_is_covered_is_what_a_program_executes() {
    for (what, text) in PROGRAMS {
        let bytes = wat::parse_str(text).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(check(&bytes), "{what}: nothing was executed");
    }
}

#[test]
fn what_is_covered_of_arbitrary_programs_is_what_they_execute() {
    check_arbitrary(1 << 13, check);
}

/// A program that takes its branches one after the other, each for as long as the host chooses; one
/// of the three is never taken.
const WAYS: &str = r#"(module (import "host" "way" (func $way (result i32)))
    (func $first (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
    (func $second (param i32) (result i32) (if (result i32) (i32.and (local.get 0) (i32.const 1))
        (then (i32.add (local.get 0) (i32.const 3))) (else (i32.sub (local.get 0) (i32.const 1)))))
    (func $third (param i32) (result i32) (i32.mul (local.get 0) (i32.const 7)))
    (func (export "f") (result i32) (local $way i32) (local $n i32) (local $i i32)
        (loop $again
            (local.set $i (i32.const 1000))
            (block $done (block $three (block $two (block $one
                (br_table $one $two $three (local.get $way)))
                (loop $l (local.set $n (call $first (local.get $n)))
                    (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
                (br $done))
                (loop $l (local.set $n (call $second (local.get $n)))
                    (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
                (br $done))
                (loop $l (local.set $n (call $third (local.get $n)))
                    (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1))))))
            (br_if $again (i32.ge_s (local.tee $way (call $way)) (i32.const 0))))
        (local.get $n)))"#;

/// Runs that program for some time; returns the module and the store that keeps its instance.
fn run_ways(
    engine: &Engine,
    module: &Module,
    during: impl Fn() + Send + Sync + 'static,
) -> Store<()> {
    let begun = Instant::now();
    let mut linker = Linker::new(engine);
    let way = move || {
        during();
        // The second branch is taken late, when all probes of the first have been pruned.
        match begun.elapsed() {
            past if past > Duration::from_millis(500) => -1,
            past => i32::from(past > Duration::from_millis(250)),
        }
    };
    linker.func_wrap("host", "way", way).expect("the only one");
    let mut store = Store::new(engine, ());
    let instance = linker.instantiate(&mut store, module).expect("an instance");
    let results = instance
        .get_func(&mut store, "f")
        .expect("exported")
        .call(&mut store, &[])
        .expect("no trap");
    assert!(matches!(results[..], [Val::I32(_)]));
    store
}

/// In the looping function everything is executed except the branch that is never taken.
fn is_all_but_the_third(report: &Report) {
    let rows = rows(report);
    let [first, second, third, all] = rows[..] else { panic!("{rows:?}") };
    assert_eq!(first[0], first[1]);
    assert_eq!(second[0], second[1]);
    assert_eq!(third[1], 0);
    assert_eq!(all[0] - all[1], 11, "the third loop, and the end of the block that leads there");
}

#[test]
fn what_is_executed_late_is_not_missed_when_the_rest_has_been_taken_out() {
    let engine = Engine::default();
    let monitors = MonitorSet::new(Choices::new(["coverage"]).expect("a monitor")).expect("ready");
    let module = monitors.compile(&engine, WAYS).expect("a module");
    let store = run_ways(&engine, &module, || {});
    is_all_but_the_third(&monitors.reports(None)[0]);
    drop(store);
    is_all_but_the_third(&monitors.reports(None)[0]);
}

#[test]
fn coverage_that_comes_and_goes_with_other_monitors_misses_nothing() {
    let engine = Engine::default();
    let module = Module::new(&engine, WAYS).expect("a module");
    let live = std::sync::Arc::new(MonitorSet::of(&module));
    live.attach("coverage").expect("sites");
    let (own, turns) = (std::sync::Arc::clone(&live), std::sync::atomic::AtomicU64::new(0));
    let _store = run_ways(&engine, &module, move || {
        let turn = turns.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if turn % 5_000 == 4_999 {
            match turn / 5_000 % 2 {
                0 => drop(own.attach("hotness").expect("sites")),
                _ => drop(own.detach("hotness").expect("sites")),
            }
        }
    });
    is_all_but_the_third(&live.reports(Some("coverage"))[0]);
}
