//! Modules in the profile of the process that runs them: `libfastinst.so` is preloaded, and its
//! report contains Wasm functions like native ones.

#[path = "command/place.rs"]
#[allow(dead_code, reason = "not every test needs all of it")]
mod place;

use place::{Place, errors};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use wasm_aot::{Engine, Linker, Module, Store};

/// Recursion, indirect and tail calls, exceptions through frames, many short calls.
const APP: &str = r#"(module
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (memory (export "memory") 1)
    (tag $thrown (param i32))
    (table funcref (elem $pointed))
    (global $sum (mut i32) (i32.const 0))
    (func $fib (param $n i32) (result i32)
        (if (i32.lt_s (local.get $n) (i32.const 2)) (then (return (local.get $n))))
        (i32.add (call $fib (i32.sub (local.get $n) (i32.const 1)))
                 (call $fib (i32.sub (local.get $n) (i32.const 2)))))
    (func $leaf (global.set $sum (i32.add (global.get $sum) (i32.const 3))))
    (func $work (param $n i32)
        (loop $l (call $leaf)
            (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
    (func $pointed (param i32) (result i32) (i32.mul (local.get 0) (i32.const 5)))
    (func $tail (param i32) (result i32) (return_call $pointed (local.get 0)))
    (func $thrower (param i32) (throw $thrown (local.get 0)))
    (func $between (param i32) (call $thrower (local.get 0)))
    (func $catcher (param i32) (result i32)
        (block $caught (result i32)
            (try_table (catch $thrown $caught) (call $between (local.get 0)))
            (i32.const 0)))
    (func $all (param $n i32)
        (local $i i32)
        (call $work (i32.const 300))
        (loop $l
            (global.set $sum (i32.add (global.get $sum) (call $catcher (local.get $i))))
            (global.set $sum (i32.add (global.get $sum) (call $tail (local.get $i))))
            (global.set $sum (i32.add (global.get $sum)
                (call_indirect (param i32) (result i32) (local.get $i) (i32.const 0))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $l (i32.lt_s (local.get $i) (local.get $n)))))
    (func (export "_start")
        (global.set $sum (call $fib (i32.const 12)))
        (call $all (i32.const 50))
        (call $exit (i32.and (global.get $sum) (i32.const 63)))))"#;

/// The preload library, which is built with the tests.
fn library() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_wasm-aot"));
    let library = beside.with_file_name("deps").join("libfastinst.so");
    assert!(library.is_file(), "{} is not there", library.display());
    library
}

/// Makes a command write a profile of itself.
fn profiled<'c>(command: &'c mut Command, policy: &str, file: &Path) -> &'c mut Command {
    for (key, _) in std::env::vars_os() {
        if key.to_string_lossy().starts_with("FASTINST_") {
            command.env_remove(key);
        }
    }
    command
        .env_remove("LD_LIBRARY_PATH")
        .env("LD_PRELOAD", library())
        .env("FASTINST_POLICY", policy)
        // No probes in the engine's own functions.
        .env("FASTINST_PROVIDER", "hooks")
        .env("FASTINST_FORMAT", "json")
        .env("FASTINST_OUTPUT", file)
}

fn read(file: &Path) -> Value {
    let text = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_slice(&text).expect("a profile")
}

fn row<'p>(profile: &'p Value, name: &str) -> &'p Value {
    let mut rows = profile["functions"].as_array().expect("rows").iter();
    rows.find(|row| row["name"] == name).unwrap_or_else(|| panic!("{name}: {profile}"))
}

fn callers(profile: &Value, name: &str) -> BTreeSet<String> {
    let arcs = row(profile, name)["callers"].as_array().expect("callers").iter();
    arcs.filter_map(|arc| arc["caller"]["name"].as_str().map(str::to_owned)).collect()
}

/// The calls of each function, as counted by a monitor of the engine.
fn counted(place: &Place, program: &str) -> (Output, BTreeMap<String, u64>) {
    let output =
        place.run(&["run", "--monitor", "functions", "--json", "--report", "counts", program]);
    let report: Value = serde_json::from_slice(
        &std::fs::read(place.0.join("counts"))
            .unwrap_or_else(|error| panic!("{error}: {output:?}")),
    )
    .expect("an object");
    let rows = report["functions"]["rows"].as_array().expect("rows").iter();
    let called = rows.filter_map(|row| {
        let (name, calls) = (row["function"].as_str()?, row["calls"].as_u64()?);
        // Imported functions belong to the host.
        (calls > 0 && name != "exit").then(|| (name.to_owned(), calls))
    });
    (output, called.collect())
}

fn agrees(profile: &Value, expected: &BTreeMap<String, u64>, must_be_exact: bool) {
    for (name, calls) in expected {
        let found = &row(profile, name)["calls"];
        if must_be_exact || found["how"] == "exact" {
            assert_eq!(found["how"], "exact", "{name}: {profile}");
            assert_eq!(found["value"].as_f64(), Some(*calls as f64), "{name}: {profile}");
        }
        assert!(found["value"].as_f64() > Some(0.0), "{name}: {profile}");
    }
}

#[test]
fn wasm_functions_have_the_counts_that_a_monitor_tells_and_callers() {
    let place = Place::new("native-counts");
    let program = place.file("app.wat", APP);
    let (plain, expected) = counted(&place, &program);
    assert_eq!((expected["fib"], expected["leaf"], expected["thrower"]), (465, 300, 50));
    for policy in ["count", "exact", "adaptive"] {
        let file = place.0.join(policy);
        let output = profiled(&mut place.command(), policy, &file).args(["run", &program]).output();
        let output = output.expect("the command starts");
        assert_eq!(output.status.code(), plain.status.code(), "{}", errors(&output));
        assert!(output.stdout.is_empty() && !errors(&output).contains("wasm-aot:"), "{output:?}");
        let profile = read(&file);
        agrees(&profile, &expected, policy != "adaptive");
        if policy == "exact" {
            for name in ["fib", "leaf", "pointed", "catcher", "between"] {
                let row = row(&profile, name);
                assert_eq!(row["samples"].as_f64(), row["calls"]["value"].as_f64(), "{row}");
            }
            let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let found: [BTreeSet<String>; 3] =
                ["leaf", "thrower", "catcher"].map(|name| callers(&profile, name));
            assert_eq!(found, [names(&["work"]), names(&["between"]), names(&["all"])]);
            assert!(callers(&profile, "fib").contains("fib"), "{profile}");
        }
    }
}

#[test]
fn what_is_not_selected_has_no_hooks_and_other_monitors_see_the_program_as_ever() {
    let place = Place::new("native-others");
    let program = place.file("app.wat", APP);
    let (plain, expected) = counted(&place, &program);
    let file = place.0.join("profile");
    let mut command = place.command();
    profiled(&mut command, "count", &file).env("FASTINST_INCLUDE", "@app.wat");
    command.env("FASTINST_EXCLUDE", "leaf");
    command.args(["run", "--monitor", "functions", "--monitor", "coverage"]);
    let output = command.args(["--json", &program]).output().expect("the command starts");
    assert_eq!(output.status.code(), plain.status.code(), "{}", errors(&output));
    let profile = read(&file);
    let names = profile["functions"].as_array().expect("rows").iter();
    let names: BTreeSet<&str> = names.filter_map(|row| row["name"].as_str()).collect();
    assert!(!names.contains("leaf") && names.contains("work"), "{names:?}");
    let selected = expected.iter().filter(|(name, _)| *name != "leaf");
    agrees(&profile, &selected.map(|(name, calls)| (name.clone(), *calls)).collect(), true);
    let said = errors(&output);
    let at = said.find('{').unwrap_or_else(|| panic!("{said}"));
    let report = serde_json::Deserializer::from_str(&said[at..]).into_iter::<Value>().next();
    let report = report.expect("an object").expect("JSON");
    let rows = report["functions"]["rows"].as_array().expect("rows");
    let leaf = rows.iter().find(|row| row["function"] == "leaf").expect("a row");
    assert_eq!(leaf["calls"].as_u64(), Some(300), "{report}");
}

#[test]
fn a_trap_takes_frames_away_and_nothing_else() {
    let place = Place::new("native-traps");
    let program = place.file(
        "trap.wat",
        r#"(module
            (func $before)
            (func $down (param i32)
                (call $before)
                (if (i32.eqz (local.get 0)) (then (unreachable)))
                (call $down (i32.sub (local.get 0) (i32.const 1))))
            (func (export "_start") (call $down (i32.const 9))))"#,
    );
    let plain = place.run(&["run", &program]);
    let file = place.0.join("profile");
    let output = profiled(&mut place.command(), "exact", &file).args(["run", &program]).output();
    let output = output.expect("the command starts");
    assert_eq!((output.status.code(), &output.stdout), (plain.status.code(), &plain.stdout));
    assert!(errors(&output).contains("unreachable"), "{}", errors(&output));
    let profile = read(&file);
    let expected = [("before", 10), ("down", 10)].map(|(name, calls)| (name.to_owned(), calls));
    agrees(&profile, &BTreeMap::from(expected), true);
    assert_eq!(row(&profile, "before")["samples"].as_f64(), Some(10.0), "{profile}");
}

#[test]
fn threads_of_a_program_are_counted_together() {
    let place = Place::new("native-threads");
    let program = place.file(
        "threads.wat",
        r#"(module
            (import "wasi" "thread-spawn" (func $spawn (param i32) (result i32)))
            (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (import "any" "name" (memory 1 1 shared))
            (export "memory" (memory 0))
            (func $leaf (drop (i32.atomic.rmw.add (i32.const 8) (i32.const 1))))
            (func $work (local $i i32)
                (loop $l (call $leaf)
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (br_if $l (i32.lt_s (local.get $i) (i32.const 200)))))
            (func $wait (local $seen i32)
                (loop $l
                    (local.set $seen (i32.atomic.load (i32.const 0)))
                    (if (i32.lt_s (local.get $seen) (i32.const 4)) (then
                        (drop (memory.atomic.wait32 (i32.const 0) (local.get $seen) (i64.const -1)))
                        (br $l)))))
            (func (export "wasi_thread_start") (param i32 i32)
                (call $work)
                (drop (i32.atomic.rmw.add (i32.const 0) (i32.const 1)))
                (drop (memory.atomic.notify (i32.const 0) (i32.const -1))))
            (func (export "_start") (local $i i32)
                (loop $l (drop (call $spawn (local.get $i)))
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (br_if $l (i32.lt_s (local.get $i) (i32.const 4))))
                (call $wait)
                (call $exit (i32.shr_u (i32.load (i32.const 8)) (i32.const 4)))))"#,
    );
    for policy in ["count", "exact"] {
        let file = place.0.join(policy);
        let output = profiled(&mut place.command(), policy, &file).args(["run", &program]).output();
        let output = output.expect("the command starts");
        assert_eq!(output.status.code(), Some(50), "{}", errors(&output));
        let expected = [("leaf", 800), ("work", 4), ("wait", 1)];
        let expected = expected.map(|(name, calls)| (name.to_owned(), calls));
        agrees(&read(&file), &BTreeMap::from(expected), true);
    }
}

#[test]
fn the_clock_charges_code_that_has_hooks_and_code_that_has_none() {
    let place = Place::new("native-clock");
    let program = place.file(
        "clock.wat",
        r#"(module
            (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (memory (export "memory") 1)
            (func $short (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
            (func $burn (local $i i32)
                (loop $l
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (br_if $l (i32.lt_u (local.get $i) (i32.const 1500000000)))))
            (func $often (local $i i32)
                (loop $l
                    (local.set $i (call $short (local.get $i)))
                    (br_if $l (i32.lt_u (local.get $i) (i32.const 3000000)))))
            (func (export "_start") (call $often) (call $burn) (call $exit (i32.const 5))))"#,
    );
    let file = place.0.join("profile");
    let output = profiled(&mut place.command(), "adaptive", &file).args(["run", &program]).output();
    let output = output.expect("the command starts");
    assert_eq!(output.status.code(), Some(5), "{}", errors(&output));
    let profile = read(&file);
    if profile["header"]["clock"]["clock"] == "kernel" {
        let share = row(&profile, "burn")["share"]["value"].as_f64();
        assert!(share > Some(0.2), "{profile}");
    }
}

#[test]
fn counting_a_short_function_does_not_make_its_calls_seem_rarer() {
    let place = Place::new("native-short");
    let program = place.file(
        "short.wat",
        r#"(module
            (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (memory (export "memory") 1)
            (func $fib (param $n i32) (result i32)
                (if (i32.lt_s (local.get $n) (i32.const 2)) (then (return (local.get $n))))
                (i32.add (call $fib (i32.sub (local.get $n) (i32.const 1)))
                         (call $fib (i32.sub (local.get $n) (i32.const 2)))))
            (func (export "_start") (drop (call $fib (i32.const 38))) (call $exit (i32.const 5))))"#,
    );
    let truth = 126_491_971.0;
    // A few windows of a short program are weak evidence, and a call takes two nanoseconds, so
    // there are several runs.
    let calls = [0; 5].map(|_| {
        let file = place.0.join("profile");
        let mut command = place.command();
        let output = profiled(&mut command, "adaptive", &file).args(["run", &program]).output();
        let output = output.expect("the command starts");
        assert_eq!(output.status.code(), Some(5), "{}", errors(&output));
        let profile = read(&file);
        let calls = &row(&profile, "fib")["calls"];
        ["value", "lo", "hi"].map(|key| calls[key].as_f64().unwrap_or(truth))
    });
    let holds = |[_, lo, hi]: &&[f64; 3]| (*lo..=*hi).contains(&truth);
    assert!(calls.iter().filter(holds).count() >= 3, "{calls:?}");
    let mut values = calls.map(|[value, ..]| value);
    values.sort_by(f64::total_cmp);
    assert!((truth / 3.0..truth * 3.0).contains(&values[2]), "{calls:?}");
}

/// The host of the next tests, which only makes modules and calls them. Each module has two
/// instances on two threads; all calls but the last return, and the module is dropped.
#[test]
fn embedded() {
    let number = |key: &str| std::env::var(key).ok().and_then(|text| text.parse::<i32>().ok());
    let Some(turns) = number("NATIVE_HOST_TURNS") else { return };
    let engine = Engine::default();
    for _ in 0..number("NATIVE_HOST_MODULES").expect("a number") {
        let module = Module::new(
            &engine,
            r#"(module $embedded
                (func $inner (param i32) (result i32)
                    (if (i32.lt_s (local.get 0) (i32.const 0)) (then unreachable))
                    (i32.mul (local.get 0) (i32.const 3)))
                (func (export "outer") (param i32) (result i32)
                    (i32.add (call $inner (local.get 0)) (call $inner (i32.const 1)))))"#,
        );
        let module = module.expect("a module");
        let work = || {
            let mut store = Store::new(&engine, ());
            let instance = Linker::new(&engine).instantiate(&mut store, &module);
            let instance = instance.expect("an instance");
            let outer = instance.get_typed_func::<i32, i32>(&mut store, "outer");
            let outer = outer.expect("a function");
            for turn in 1..turns {
                assert_eq!(outer.call(&mut store, turn).expect("a result"), 3 * turn + 3);
            }
            assert!(outer.call(&mut store, -1).is_err());
        };
        std::thread::scope(|scope| {
            scope.spawn(work);
            scope.spawn(work);
        });
    }
}

fn host(place: &Place, policy: &str, modules: u64, turns: u64) -> Value {
    let file = place.0.join(policy);
    let mut host = Command::new(std::env::current_exe().expect("this program"));
    profiled(&mut host, policy, &file)
        .env("NATIVE_HOST_MODULES", modules.to_string())
        .env("NATIVE_HOST_TURNS", turns.to_string());
    let output = host.args(["--exact", "embedded"]).output().expect("the host starts");
    assert!(output.status.success(), "{output:?}");
    read(&file)
}

#[test]
fn a_host_that_only_makes_a_module_has_it_in_its_profile() {
    let place = Place::new("native-host");
    for policy in ["count", "exact"] {
        let profile = host(&place, policy, 1, 100);
        let expected = [("inner", 398), ("outer", 200)];
        let expected = expected.map(|(name, calls)| (name.to_owned(), calls));
        agrees(&profile, &BTreeMap::from(expected), true);
        let module = row(&profile, "inner")["module"].clone();
        assert!(format!("{module} {}", profile["modules"]).contains("embedded"), "{profile}");
    }
}

#[test]
fn modules_come_and_go_while_they_are_switched() {
    let place = Place::new("native-modules");
    const MODULES: u64 = 12;
    const TURNS: u64 = 4000;
    for policy in ["count", "adaptive"] {
        let profile = host(&place, policy, MODULES, TURNS);
        let rows = profile["functions"].as_array().expect("rows").iter();
        let rows: Vec<&Value> = rows.filter(|row| row["name"] == "inner").collect();
        let calls = |row: &&Value| row["calls"]["value"].as_f64().expect("a number");
        let each = (2 * (2 * TURNS - 1)) as f64;
        if policy == "count" {
            assert!(rows.iter().all(|row| calls(row) == each), "{profile}");
        }
        assert_eq!(rows.len() as u64, MODULES, "{profile}");
        assert!(rows.iter().all(|row| calls(row) > 0.0), "{profile}");
        let is_exact = |row: &&&Value| row["calls"]["how"] == "exact";
        assert!(rows.iter().filter(is_exact).all(|row| calls(row) == each), "{profile}");
    }
}
