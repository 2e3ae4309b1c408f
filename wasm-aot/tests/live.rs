//! Monitors that are attached and detached, in any combination, while the program runs.

#[path = "switching/ticking.rs"]
mod ticking;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use wasm_aot::monitor::{AttachError, Choices, MonitorSet};
use wasm_aot::observer::Observation;
use wasm_aot::recording::Requests;
use wasm_aot::session::Session;
use wasm_aot::steering::Steering;
use wasm_aot::{Config, Engine, Instance, Linker, Module, Store, Val};

/// Loops, calls, accesses and tail calls; the program calls `tick` in every turn.
const PROGRAM: &str = r#"(module (import "host" "tick" (func $tick)) (memory 2)
    (func $leaf (param i32) (result i32)
        (i32.store (i32.shl (local.get 0) (i32.const 2)) (local.get 0))
        (i32.add (i32.load offset=65536 (local.get 0)) (i32.const 1)))
    (func $middle (param i32) (result i32) (return_call $leaf (i32.add (local.get 0) (i32.const 1))))
    (func (export "f") (param $n i32) (result i32) (local $i i32) (local $s i32)
        (loop $again
            (call $tick)
            (local.set $s (i32.add (local.get $s) (call $leaf (local.get $i))))
            (local.set $s (i32.xor (local.get $s) (call $middle (local.get $i))))
            (br_if $again (i32.lt_u
                (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
        (local.get $s)))"#;

fn call(store: &mut Store<()>, instance: Instance, n: i32) -> i32 {
    let results = instance
        .get_func(&mut *store, "f")
        .expect("exported")
        .call(&mut *store, &[Val::I32(n)])
        .expect("no trap");
    match results[..] {
        [Val::I32(result)] => result,
        _ => panic!("{results:?}"),
    }
}

/// The monitors that can be attached to running programs.
const MONITORS: [&str; 12] = [
    "memory",
    "functions",
    "profile",
    "latency",
    "const",
    "alloc",
    "hotness",
    "branches",
    "calls",
    "coverage",
    "icount",
    "profile,depth=2",
];

#[test]
fn whatever_comes_and_goes_in_the_middle_of_a_loop_the_result_is_the_same() {
    let (mut store, _, quiet) = ticking::instance(PROGRAM, |_| {});
    let expected = call(&mut store, quiet, 300);
    static TURN: AtomicU64 = AtomicU64::new(0);
    static LIVE: OnceLock<MonitorSet> = OnceLock::new();
    let (mut store, module, instance) = ticking::instance(PROGRAM, |module| {
        let live = LIVE.get_or_init(|| MonitorSet::of(module));
        let turn = TURN.fetch_add(1, Relaxed) as usize;
        let monitor = MONITORS[turn / 2 % MONITORS.len()];
        match turn % 3 {
            0 => assert!(monitor.starts_with(live.attach(monitor).expect("attached"))),
            1 => live.switch(turn.is_multiple_of(2)).expect("switched"),
            _ => {
                live.detach(MONITORS[turn * 7 % MONITORS.len()]).expect("detached");
            }
        }
    });
    for _ in 0..3 {
        assert_eq!(call(&mut store, instance, 300), expected);
    }
    let live = LIVE.get().expect("made by the first turn");
    live.switch(true).expect("switched");
    for monitor in MONITORS {
        live.attach(monitor).expect("attached");
        assert_eq!(live.reports(None).len(), live.attached().len());
    }
    assert_eq!(call(&mut store, instance, 300), expected);
    live.detach_all().expect("detached");
    assert!(!live.is_on() && !module.is_counting());
}

#[test]
fn what_is_attached_between_two_turns_sees_exactly_what_follows() {
    static TURN: AtomicU64 = AtomicU64::new(0);
    static LIVE: OnceLock<MonitorSet> = OnceLock::new();
    let (mut store, _, instance) = ticking::instance(PROGRAM, |module| {
        let live = LIVE.get_or_init(|| MonitorSet::of(module));
        match TURN.fetch_add(1, Relaxed) {
            10 => {
                for monitor in ["memory", "icount"] {
                    assert_eq!(live.attach(monitor).expect("attached"), monitor);
                }
            }
            60 => assert!(live.detach("memory").expect("detached")),
            _ => {}
        }
    });
    call(&mut store, instance, 100);
    let live = LIVE.get().expect("made by the first turn");
    live.attach("memory").expect("known");
    let memory = live.reports(Some("memory")).remove(0).csv();
    // From turn 11 on calls enter the new variant; in each turn both functions store once and load
    // once. The calls of turn 60 have ended when it begins.
    let numbers: Vec<u64> = memory
        .lines()
        .skip(1)
        .flat_map(|line| line.split(',').filter_map(|cell| cell.parse().ok()))
        .collect();
    assert!(numbers.contains(&100), "50 turns with two stores each: {memory}");
}

#[test]
fn monitors_that_come_and_go_in_another_thread_change_nothing() {
    let (mut store, module, instance) = ticking::instance(PROGRAM, |_| {});
    let expected = call(&mut store, instance, 100);
    let live = MonitorSet::of(&module);
    let (stop, turns) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                let turn = turns.fetch_add(1, Relaxed) as usize;
                live.attach(MONITORS[turn * 5 % 4]).expect("attached");
                live.detach(MONITORS[turn * 3 % 4]).expect("detached");
            }
        });
        let mut rounds = 0;
        while rounds < 2_000 || turns.load(Relaxed) < 50 {
            assert_eq!(call(&mut store, instance, 100), expected);
            rounds += 1;
        }
        stop.store(true, Relaxed);
    });
}

#[test]
fn what_cannot_be_attached_is_told_and_leaves_the_others_alone() {
    let (mut store, module, instance) = ticking::instance(PROGRAM, |_| {});
    let live = MonitorSet::of(&module);
    live.attach("icount").expect("attached");
    assert!(matches!(live.attach("hotnes"), Err(AttachError::Monitor(_))));
    assert!(matches!(live.attach("memory,colour=red"), Err(AttachError::Monitor(_))));
    assert!(matches!(
        live.attach("loop-traces"),
        Err(AttachError::FromTheBeginning("loop-traces"))
    ));
    assert!(!live.detach("hotness").expect("nothing to do"));
    call(&mut store, instance, 3);
    let reports = live.reports(None);
    assert_eq!(reports.iter().map(|report| report.monitor).collect::<Vec<_>>(), ["icount"]);
    assert!(reports[0].csv().lines().count() > 1);
}

/// The report of `memory` if it is compiled in and `tick` is called with every turn.
#[test]
fn an_embedder_with_a_session_answers_what_running_programs_answer() {
    let engine = Engine::default();
    let text = r#"(module (func (export "f") (call $g) (call $g)) (func $g))"#;
    let module = Module::new(&engine, text).expect("a module");
    let monitors = MonitorSet::new(Choices::new([]).expect("none")).expect("none");
    let session = Arc::new(Session::new(Arc::new(Observation::of(&module)), Arc::new(monitors)));
    let mut store = Store::new(&engine, ());
    let instance = Linker::new(&engine).instantiate(&mut store, &module).expect("an instance");
    let f = instance.get_func(&mut store, "f").expect("exported");
    let requests = Requests::steered(Steering::new("server.wasm", session)).expect("a socket");
    let process = std::process::id().to_string();
    let ctl = |args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_wasm-aot"));
        let output = command.args(["ctl", &process]).args(args).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), text + &String::from_utf8_lossy(&output.stderr))
    };
    let good = |args: &[&str]| match ctl(args) {
        (Some(0), text) => text,
        (code, text) => panic!("{args:?}: {code:?} {text}"),
    };
    assert!(good(&["status"]).starts_with("program   server.wasm\n"));
    assert!(good(&["attach", "icount"]).starts_with("icount is attached: takes effect"));
    f.call(&mut store, &[]).expect("no trap");
    assert!(good(&["report", "--csv"]).contains("icount,g,2,"));
    let json = good(&["report", "--json"]);
    assert!(json.starts_with("{\"icount\":{") && json.contains("\"function\":\"g\""), "{json}");
    assert!(good(&["explain"]).starts_with("icount: "));
    for (args, why) in [
        (&["attach", "nothing"][..], "no monitor is called nothing"),
        (&["snapshot"], "no monitor that measures times is attached"),
        (&["report", "--report-format", "whamm"], "use table, json or csv"),
        (&["burst", "1s"], "attach, detach, report or explain"),
        (&["record", "--end"], "it has come to no quiet point for 5 seconds"),
    ] {
        let (code, text) = ctl(args);
        assert!(code == Some(1) && text.contains(why), "{args:?}: {text}");
    }
    good(&["attach", "latency"]);
    f.call(&mut store, &[]).expect("no trap");
    assert!(good(&["snapshot"]).contains("function"));
    assert_eq!(good(&["stop"]), "all attached monitors are detached\n");
    assert!(good(&["status"]).contains("observing off"));
    drop(requests);
    assert!(ctl(&["status"]).1.contains("is not a program of `wasm-aot run`"));
}

#[test]
fn a_monitor_observes_in_the_place_of_one_that_rested() {
    let module = Module::new(&Engine::default(), "(module (func))").expect("compiles");
    let (monitors, observation) = (MonitorSet::new(Choices::default()), Observation::of(&module));
    let session = Session::new(Arc::new(observation), Arc::new(monitors.expect("no files")));
    session.attach("memory").expect("sites");
    session.set("memory", false).expect("attached");
    assert!(!session.clients()[0].is_on);
    session.attach("memory,top=3").expect("sites");
    assert!(session.clients()[0].is_on && session.is_on());
}

#[test]
fn one_monitor_is_switched_while_all_are_off() {
    let module = Module::new(&Engine::default(), "(module (func))").expect("compiles");
    let (monitors, observation) = (MonitorSet::new(Choices::default()), Observation::of(&module));
    let session = Session::new(Arc::new(observation), Arc::new(monitors.expect("no files")));
    session.attach("memory").expect("sites");
    session.attach("functions").expect("sites");
    let on = || session.clients().iter().map(|client| client.is_on).collect::<Vec<_>>();
    session.set_all(false).expect("attached");
    session.set("memory", false).expect("attached");
    assert_eq!(on(), [false, false]);
    session.set("functions", true).expect("attached");
    assert_eq!(on(), [false, true]);
    // What was switched off by its name stays off.
    session.set_all(true).expect("attached");
    assert_eq!(on(), [false, true]);
    session.set_all(false).expect("attached");
    session.attach("icount").expect("sites");
    assert_eq!(on(), [false, false, false]);
    session.set("icount", true).expect("attached");
    assert_eq!(on(), [false, false, true]);
}

/// The loop of `f` calls `work`, whose loop calls `tick`, directly and through another function.
const NESTED: &str = r#"(module (import "host" "tick" (func $tick))
    (func $work (local $i i32) (loop $again
        (call $tick)
        (br_if $again (i32.lt_u
            (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 4)))))
    (func $between (call $work))
    (func (export "f") (param $n i32) (result i32) (local $i i32)
        (loop $again
            (call $work)
            (call $between)
            (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
        (local.get $i)))"#;

/// The CSV of a monitor that is switched off and on, detached and attached in the middle of `work`,
/// and how long the program was executed while it was on, at most.
fn interrupted(monitor: &'static str) -> (String, Duration) {
    let (turn, pause) = (AtomicU64::new(0), Duration::from_millis(20));
    let name = monitor.split(',').next().expect("a name");
    let monitors: Arc<OnceLock<MonitorSet>> = Arc::default();
    let set = Arc::clone(&monitors);
    let (mut store, _, instance) = ticking::instance(NESTED, move |module| {
        let live = set.get_or_init(|| MonitorSet::of(module));
        match turn.fetch_add(1, Relaxed) {
            2 => _ = live.attach(monitor).expect("sites"),
            9 => live.switch(false).expect("switched"),
            // Nothing is waited for: this time passes while the monitor is off. A longer sleep
            // only raises the bound.
            17 | 41 => std::thread::sleep(pause),
            26 => live.switch(true).expect("switched"),
            33 => assert!(live.detach(name).expect("switched")),
            45 => _ = live.attach(monitor).expect("sites"),
            _ => {}
        }
    });
    let begun = Instant::now();
    call(&mut store, instance, 10);
    let on = begun.elapsed() - 2 * pause;
    (monitors.get().expect("it has ticked").reports(None).remove(0).csv(), on)
}

#[test]
fn a_monitor_that_was_off_in_the_middle_of_a_call_invents_no_recursion() {
    let (csv, _) = interrupted("profile");
    let mut lines = csv.lines();
    let at = lines.next().and_then(|names| names.split(',').position(|name| name == "way"));
    let at = at.unwrap_or_else(|| panic!("{csv}"));
    let ways: Vec<&str> = lines.filter_map(|line| line.split(',').nth(at)).collect();
    assert!(ways.contains(&"between;work"), "{csv}");
    for way in ways {
        let mut functions: Vec<&str> = way.split(';').collect();
        functions.sort_unstable();
        functions.dedup();
        assert_eq!(functions.len(), way.split(';').count(), "{csv}");
    }
}

#[test]
fn the_time_while_a_monitor_is_off_is_charged_to_no_function() {
    for (monitor, column) in [("functions", "nanoseconds"), ("profile,time-all", "self ns")] {
        let (csv, on) = interrupted(monitor);
        let most = on.as_nanos() as u64;
        let mut lines = csv.lines();
        let at = lines.next().and_then(|names| names.split(',').position(|name| name == column));
        let at = at.unwrap_or_else(|| panic!("{csv}"));
        let times = lines.filter_map(|line| line.split(',').nth(at)?.parse::<u64>().ok());
        let all: u64 = times.sum();
        assert!(all <= most, "{all} of {most}: {csv}");
    }
}

fn memory_compiled_in(tick: impl Fn(&Module) + Send + Sync + 'static) -> String {
    let engine = Engine::new(&Config::new()).expect("an engine");
    let monitors = MonitorSet::new(Choices::new(["memory"]).expect("a monitor")).expect("ready");
    let module = monitors.compile(&engine, PROGRAM).expect("a module");
    let mut store = Store::new(&engine, ());
    let mut linker = Linker::new(&engine);
    let own = module.clone();
    linker.func_wrap("host", "tick", move || tick(&own)).expect("the only one");
    let instance = linker.instantiate(&mut store, &module).expect("an instance");
    call(&mut store, instance, 100);
    monitors.reports(None).remove(0).csv()
}

#[test]
fn what_is_compiled_in_goes_on_while_others_come_and_go() {
    static TURN: AtomicU64 = AtomicU64::new(0);
    static LIVE: OnceLock<MonitorSet> = OnceLock::new();
    let restless = memory_compiled_in(|module| {
        let live = LIVE.get_or_init(|| MonitorSet::of(module));
        match TURN.fetch_add(1, Relaxed) % 10 {
            3 => assert_eq!(live.attach("icount").expect("attached"), "icount"),
            5 => assert_eq!(live.attach("functions").expect("attached"), "functions"),
            8 => live.detach_all().expect("detached"),
            _ => {}
        }
    });
    assert!(restless.lines().count() > 2);
    assert_eq!(restless, memory_compiled_in(|_| {}));
}

#[test]
fn code_that_counts_from_the_beginning_goes_on_to_count_while_monitors_come_and_go() {
    let counted = |restless: bool| {
        let engine = Engine::new(Config::new().counts(true).call_targets(true)).expect("an engine");
        let module = Module::new(&engine, PROGRAM).expect("a module");
        let (live, turn) = (MonitorSet::of(&module), AtomicU64::new(0));
        let mut store = Store::new(&engine, ());
        let mut linker = Linker::new(&engine);
        let tick = move || match turn.fetch_add(1, Relaxed) % 10 {
            2 if restless => assert_eq!(live.attach("memory").expect("attached"), "memory"),
            5 if restless => assert_eq!(live.attach("hotness").expect("attached"), "hotness"),
            7 if restless => live.detach_all().expect("detached"),
            _ => {}
        };
        linker.func_wrap("host", "tick", tick).expect("the only one");
        let instance = linker.instantiate(&mut store, &module).expect("an instance");
        call(&mut store, instance, 100);
        let counts = module.counts().expect("it counts");
        counts
            .functions()
            .map(|function| {
                (function.instructions().iter().map(|i| i.count).collect(), function.calls_made())
            })
            .collect::<Vec<(Vec<u64>, _)>>()
    };
    let quiet = counted(false);
    assert!(quiet.iter().all(|(instructions, _)| instructions.iter().any(|count| *count >= 100)));
    assert_eq!(counted(true), quiet);
}

#[test]
fn instances_that_end_while_monitors_come_are_forgotten_by_them() {
    let engine = Engine::new(&Config::new()).expect("an engine");
    let (over, expected) = (AtomicBool::new(false), OnceLock::new());
    // Monitors with their own threads read instances at any time.
    for _ in 0..12 {
        let module = Module::new(&engine, PROGRAM).expect("a module");
        let live = MonitorSet::of(&module);
        over.store(false, Relaxed);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    let mut store = Store::new(&engine, ());
                    let mut linker = Linker::new(&engine);
                    linker.func_wrap("host", "tick", || {}).expect("the only one");
                    let instance = linker.instantiate(&mut store, &module).expect("an instance");
                    let result = call(&mut store, instance, 30);
                    assert_eq!(result, *expected.get_or_init(|| result));
                }
            });
            for monitor in ["latency,function=*", "coverage", "memory", "functions", "profile"] {
                live.attach(monitor).expect("sites");
                std::thread::sleep(Duration::from_millis(4));
            }
            over.store(true, Relaxed);
        });
        assert_eq!(live.reports(None).len(), 5);
    }
}

#[test]
fn functions_that_two_versions_have_in_common_go_on_when_one_follows_the_other() {
    let text = r#"(module (import "host" "tick" (func $tick)) (memory 1)
        (func $store (param i32) (i32.store8 (i32.const 0) (local.get 0)))
        (func (export "f") (param $n i32) (result i32) (local $i i32)
            (loop $calls
                (call $tick)
                (call $store (local.get $i))
                (br_if $calls (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
            (loop $turns (br_if $turns (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
            (local.get $n)))"#;
    let (live, turns) = (OnceLock::new(), AtomicU64::new(0));
    let (mut store, _, instance) = ticking::instance(text, move |module| {
        let live: &MonitorSet = live.get_or_init(|| MonitorSet::of(module));
        // The looping function has no code of `memory`: with and without the monitor its code is
        // the same.
        match turns.fetch_add(1, Relaxed) {
            0 => drop(live.attach("hotness").expect("sites")),
            turn if turn < 9 && turn % 2 == 1 => drop(live.attach("memory").expect("sites")),
            turn if turn < 9 => assert!(live.detach("memory").expect("sites")),
            _ => {}
        }
    });
    store.set_deadline(Some(Duration::from_secs(60)));
    assert_eq!(call(&mut store, instance, 1_000), 1_000);
}

#[test]
fn counts_begin_for_each_monitor_when_it_is_attached() {
    let engine = Engine::default();
    let module = Module::new(&engine, "(module (func (export \"f\") nop nop))").expect("a module");
    let mut store = Store::new(&engine, ());
    let instance = Linker::new(&engine).instantiate(&mut store, &module).expect("an instance");
    let function = instance.get_func(&mut store, "f").expect("exported");
    let live = MonitorSet::of(&module);
    let mut executed = |live: &MonitorSet, name: &str| {
        function.call(&mut store, &[]).expect("it runs");
        let reports = live.reports(Some(name));
        let total = reports
            .first()
            .and_then(|report| report.totals.iter().find(|(what, _)| *what == "executions"));
        total.map(|(_, count)| *count)
    };
    live.attach("hotness").expect("attached");
    assert_eq!(executed(&live, "hotness"), Some(3));
    live.attach("icount").expect("attached");
    assert_eq!(executed(&live, "hotness"), Some(6));
    // Counts for another monitor meanwhile do not belong to it; its earlier observations stay.
    live.switch_one("hotness", false).expect("it rests");
    assert_eq!(executed(&live, "hotness"), Some(6));
    live.switch_one("hotness", true).expect("it observes");
    assert_eq!(executed(&live, "hotness"), Some(9));
    live.attach("hotness,top=5").expect("attached");
    assert_eq!(executed(&live, "hotness"), Some(3));
    live.detach("icount").expect("detached");
    live.attach("hotness").expect("attached");
    assert_eq!(executed(&live, "hotness"), Some(12));
}

/// Calls through a table, of three functions in turn; the program calls `tick` in every turn.
const INDIRECT: &str = r#"(module (import "host" "tick" (func $tick))
    (type $t (func (result i32)))
    (table funcref (elem $one $two $three))
    (func $one (result i32) (i32.const 1))
    (func $two (result i32) (i32.const 2))
    (func $three (result i32) (i32.const 3))
    (func (export "f") (param $n i32) (result i32) (local $i i32) (local $s i32)
        (loop $again
            (call $tick)
            (local.set $s (i32.add (local.get $s)
                (call_indirect (type $t) (i32.rem_u (local.get $i) (i32.const 3)))))
            (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
        (local.get $s)))"#;

/// The targets of indirect calls and their counts, from the attached monitor.
fn targets(live: &MonitorSet) -> Vec<(String, u64)> {
    let report = live.reports(Some("calls")).remove(0).json();
    let rows = report["rows"].as_array().expect("rows");
    let indirect = rows.iter().filter(|row| row["kind"] == "indirect");
    let told = |row: &serde_json::Value| {
        let callee = row["callee"].as_str().expect("a name").to_owned();
        (callee, row["count"].as_u64().expect("a count"))
    };
    let mut found: Vec<_> = indirect.map(told).collect();
    found.sort();
    found
}

#[test]
fn calls_that_are_attached_tell_where_indirect_calls_went() {
    let (mut store, module, instance) = ticking::instance(INDIRECT, |_| {});
    let live = MonitorSet::of(&module);
    assert_eq!(call(&mut store, instance, 6), 12);
    // Other monitors had it counted before, and continue.
    live.attach("hotness").expect("attached");
    assert_eq!(call(&mut store, instance, 6), 12);
    for turn in 1..=2 {
        live.attach("calls").expect("attached");
        assert_eq!(call(&mut store, instance, 7), 13);
        let expected = [("one", 3), ("three", 2), ("two", 2)];
        assert_eq!(targets(&live), expected.map(|(name, count)| (name.to_owned(), turn * count)));
        live.detach("calls").expect("detached");
        assert_eq!(call(&mut store, instance, 6), 12);
    }
}
