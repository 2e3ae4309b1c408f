//! The reports of profiled programs, and when they are written.

mod host;

use host::Running;
use whamm_profile::{Clock, Error, Options, profile};

const PROGRAM: &str = r#"(module $app
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (import "wasi_snapshot_preview1" "fd_write"
        (func $fd_write (param i32 i32 i32 i32) (result i32)))
    (import "host" "work" (func $work (param i32)))
    (import "host" "tell" (func $tell (param i32)))
    (memory (export "memory") 1) (data (i32.const 0) "\11\22\33\44\55\66\77\88")
    (table funcref (elem $half)) (type $unary (func (param i32) (result i32)))
    (func $half (type $unary) (i32.shr_u (local.get 0) (i32.const 1)))
    (func $deep (param $n i32)
        (if (local.get $n) (then
            (call $work (i32.const 10000))
            (call $deep (call_indirect (type $unary) (local.get $n) (i32.const 0))))))
    (func $run (call $deep (i32.const 8)) (call $work (i32.const 500000)))
    (func (export "_start") (call $run) (call $tell (i32.load (i32.const 0))))
    (func (export "leaves") (call $run) (call $exit (i32.const 3)))
    (func (export "traps") (call $run) (unreachable))
    (func (export "again") (call $run)))"#;

fn valid(module: &[u8]) {
    wasmparser::Validator::new_with_features(wasmparser::WasmFeatures::all())
        .validate_all(module)
        .unwrap_or_else(|e| panic!("{e}"));
}

fn profiled(text: &str, options: &Options) -> Vec<u8> {
    let module = wat::parse_str(text).unwrap_or_else(|e| panic!("{e}"));
    let module = profile(&module, options).unwrap_or_else(|e| panic!("{e}")).module;
    valid(&module);
    module
}

fn refused(text: &str, options: &Options) -> String {
    let module = wat::parse_str(text).unwrap_or_else(|e| panic!("{e}"));
    let error: Error = profile(&module, options).expect_err("it is refused");
    error.to_string()
}

fn written(running: &Running) -> String {
    String::from_utf8(running.store.data().written.clone()).expect("text")
}

/// The line of a report with a given end, split at blanks.
fn line(report: &str, end: &str) -> Vec<String> {
    let line = report.lines().find(|line| line.ends_with(end));
    let line = line.unwrap_or_else(|| panic!("no line ends with {end}: {report}"));
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_program_prints_its_profile_when_it_returns_exits_or_traps() {
    let module = profiled(PROGRAM, &Options { time_all: true, ..Options::default() });
    for (entry, returns) in [("_start", true), ("leaves", false), ("traps", false)] {
        let mut running = Running::new(&module, 25);
        assert_eq!(running.call(entry), returns);
        let report = written(&running);
        assert!(report.starts_with("fastinst profile: "), "{entry}: {report}");
        // 5 activations of deep: 540 microseconds of work, and no other time.
        let flat = line(&report, " work");
        assert_eq!(flat, ["100.00", "0.540", "0.540", "108.000", "108.000", "5", "work"]);
        assert_eq!(line(&report, " deep")[2..], ["0.040", "0.000", "8.000", "5", "deep"]);
        assert!(report.contains("0.040") && report.contains("4/5      deep ["), "{report}");
        assert!(report.contains("1/1      <spontaneous>"), "{report}");
    }
}

#[test]
fn the_program_does_what_it_did() {
    let module = profiled(PROGRAM, &Options::default());
    let mut running = Running::new(&module, 25);
    assert!(running.call("_start"));
    // The memory that was lent to WASI's clock and to the report is restored.
    assert_eq!(running.store.data().told, [0x4433_2211]);
    let memory = running.instance.get_memory(&running.store, "memory").expect("exported");
    assert_eq!(memory.data(&running.store)[..8], [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
    assert!(memory.data(&running.store)[8..].iter().all(|byte| *byte == 0));
}

#[test]
fn other_entries_are_told_only_if_that_is_asked_for() {
    let mut running = Running::new(&profiled(PROGRAM, &Options::default()), 25);
    assert!(running.call("again") && running.call("again"));
    assert_eq!(written(&running), "");
    assert_eq!(line(&running.report(), " again")[5], "2");
    let options = Options { force_print: true, ..Options::default() };
    let mut running = Running::new(&profiled(PROGRAM, &options), 25);
    assert!(running.call("again") && running.call("again"));
    assert_eq!(written(&running).matches("fastinst profile: ").count(), 2);
}

#[test]
fn what_is_short_is_counted_and_its_time_is_its_callers() {
    // Reading the clock takes a microsecond: calls below a hundred are not timed.
    let text = PROGRAM.replace("(i32.const 8))", "(i32.const -1))").replace("10000", "100");
    let mut running = Running::new(&profiled(&text, &Options::default()), 1000);
    for _ in 0..50 {
        assert!(running.call("again"));
    }
    let profile = running.profile();
    let named = |name: &str| {
        let found = profile.functions.iter().find(|function| function.label.name == name);
        found.unwrap_or_else(|| panic!("{name} was called"))
    };
    assert_eq!(named("half").calls.value, 50.0 * 32.0);
    assert_eq!((named("half").own, named("half").total), (None, None));
    let own = |name: &str| named(name).own.map_or(0.0, |own| own.value);
    let all: f64 = profile.functions.iter().filter_map(|f| f.own).map(|own| own.value).sum();
    assert_eq!(all, 50.0 * (32.0 * 100.0 + 500_000.0));
    // Contexts are timed until eight calls have shown that they are short.
    assert!(own("run") + own("deep") + own("work") == all && own("again") == 0.0);
    assert!(own("work") > 50.0 * 500_000.0 - 1.0);
}

#[test]
fn it_is_told_that_no_call_is_timed_without_a_clock() {
    let none = Options { clock: Some(Clock::None), time_all: true, ..Options::default() };
    let module = wat::parse_str(PROGRAM).unwrap_or_else(|e| panic!("{e}"));
    let notes = profile(&module, &none).unwrap_or_else(|e| panic!("{e}")).notes;
    assert_eq!(notes, ["no call is timed, --time-all or not: there is no clock"]);
}

/// Functions that tail-call one another, directly and through the table, until a number is 0.
const TAIL_CALLS: &str = r#"(module
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (import "host" "work" (func $work (param i32)))
    (memory (export "memory") 1)
    (type $unary (func (param i32))) (type $counts (func (param i32 i32) (result i32)))
    (table funcref (elem $direct $indirect $work $exit))
    (func $direct (type $counts)
        (if (result i32) (i32.eqz (local.get 0)) (then (local.get 1)) (else
            (return_call $indirect (i32.sub (local.get 0) (i32.const 1))
                (i32.add (local.get 1) (i32.const 1))))))
    (func $indirect (type $counts)
        (if (result i32) (i32.eqz (local.get 0)) (then (local.get 1)) (else
            (return_call_indirect (type $counts) (i32.sub (local.get 0) (i32.const 1))
                (i32.add (local.get 1) (i32.const 1))
                (i32.and (local.get 0) (i32.const 1))))))
    (func (export "many")
        (if (i32.ne (call $direct (i32.const 100000) (i32.const 0)) (i32.const 100000))
            (then (unreachable))))
    (func $short (return_call $work (i32.const 100)))
    (func $far (return_call_indirect (type $unary) (i32.const 100) (i32.const 2)))
    (func (export "again") (call $short) (call $far))
    (func (export "_start") (call $short) (return_call $exit (i32.const 3)))
    (func (export "main") (call $far)
        (return_call_indirect (type $unary) (i32.const 3) (i32.const 3))))"#;

#[test]
fn an_unbounded_loop_of_tail_calls_needs_no_stack() {
    for clock in [Clock::None, Clock::Wasi] {
        let options = Options { clock: Some(clock), ..Options::default() };
        let mut running = Running::new(&profiled(TAIL_CALLS, &options), 25);
        assert!(running.call("many") && running.call("many"));
        let profile = running.profile();
        let calls = |name: &str| {
            let of = profile.functions.iter().find(|function| function.label.name == name);
            of.map(|function| (function.calls.value, function.arcs.len()))
        };
        // All are called by `many`, since each ends its caller.
        assert_eq!(calls("direct").zip(calls("indirect")).map(|(a, b)| a.0 + b.0), Some(200_002.0));
        assert_eq!((calls("direct").unwrap().1, calls("indirect").unwrap().1), (1, 1));
    }
}

#[test]
fn short_functions_that_end_by_tail_calls_are_timed_eight_times() {
    let mut running = Running::new(&profiled(TAIL_CALLS, &Options::default()), 1000);
    for _ in 0..50 {
        assert!(running.call("again"));
    }
    let report = running.report();
    // `again`, `short`, `far`, and `work`, which `again` seems to call.
    assert!(report.contains("\n32 calls were timed"), "{report}");
}

#[test]
fn a_program_that_exits_by_a_tail_call_prints_its_profile() {
    for entry in ["_start", "main"] {
        let options = Options { force_print: true, ..Options::default() };
        let mut running = Running::new(&profiled(TAIL_CALLS, &options), 25);
        assert!(!running.call(entry));
        let report = written(&running);
        assert_eq!(report.matches("fastinst profile: ").count(), 1, "{entry}: {report}");
        assert_eq!(line(&report, " work")[5], "1", "{entry}: {report}");
    }
}

#[test]
fn a_clock_that_becomes_slower_is_subtracted_as_it_is() {
    let text = r#"(module (memory (export "memory") 1)
        (func $short)
        (func (export "once") (call $short))
        (func (export "many") (local $left i32) (local.set $left (i32.const 100000))
            (loop (call $short)
                (br_if 0 (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))))"#;
    let options = Options { clock: Some(Clock::Wasi), time_all: true, ..Options::default() };
    let mut running = Running::new(&profiled(text, &options), 10);
    assert!(running.call("once"));
    running.store.data_mut().reading = 40;
    assert!(running.call("many"));
    let profile = running.profile();
    let own: f64 =
        profile.functions.iter().filter_map(|function| function.own).map(|own| own.value).sum();
    // The functions take no time, and 200,000 readings take 8 ms, of which 6 were not foreseen.
    assert!((1.0..1.5e6).contains(&own), "{own}");
}

#[test]
fn a_file_goes_into_the_first_folder_that_takes_it() {
    let options = Options { file: Some("app.profile".into()), ..Options::default() };
    for text in [PROGRAM, WITHOUT_MEMORY] {
        let module = profiled(text, &options);
        let mut running = Running::new(&module, 25);
        running.store.data_mut().has_folder = true;
        running.call("_start");
        assert_eq!(written(&running), "");
        let (name, file) = running.store.data().file.clone().expect("it was opened");
        assert_eq!(name, "app.profile");
        let profile = profiler::Profile::from_file(&file).unwrap_or_else(|e| panic!("{e}"));
        assert!(profile.functions.iter().any(|function| function.label.name == "work"));
        assert!(profile.gprof().contains("<spontaneous>"), "{}", profile.gprof());
        // A reader rejects a truncated file.
        assert!(profiler::Profile::from_file(&file[..file.len() / 2]).is_err());

        let mut running = Running::new(&module, 25);
        running.call("_start");
        let report = written(&running);
        assert!(
            report.starts_with("fastinst: no folder") && report.contains("(--dir)"),
            "{report}"
        );
        assert!(report.contains("Flat profile"), "{report}");
    }
    let text = refused("(module (memory 1))", &options);
    assert!(text.contains("`memory`"), "{text}");
}

#[test]
fn a_path_from_the_root_is_below_the_folder_of_that_name() {
    for text in [PROGRAM, WITHOUT_MEMORY] {
        for path in ["/srv/data/sub/app.profile", "/srv/data///sub/app.profile"] {
            let options = Options { file: Some(path.into()), ..Options::default() };
            let mut running = Running::new(&profiled(text, &options), 25);
            running.store.data_mut().has_folder = true;
            running.call("_start");
            assert_eq!(written(&running), "");
            let (name, file) = running.store.data().file.clone().expect("it was opened");
            assert_eq!(name, "sub/app.profile");
            assert!(calls(&file, "work") > 0.0);
        }
        for path in ["/srv/dat/app.profile", "/srv/data", "/app.profile"] {
            let options = Options { file: Some(path.into()), ..Options::default() };
            let mut running = Running::new(&profiled(text, &options), 25);
            running.store.data_mut().has_folder = true;
            running.call("_start");
            assert_eq!(running.store.data().file, None, "{path}");
            assert!(written(&running).starts_with("fastinst: no folder"), "{path}");
        }
    }
}

#[test]
fn a_file_that_there_is_no_room_for_does_not_get_its_name_and_the_report_is_printed() {
    let options = Options { file: Some("app.profile".into()), ..Options::default() };
    for (text, room) in [(PROGRAM, 0), (PROGRAM, 1000), (WITHOUT_MEMORY, 0)] {
        let mut running = Running::new(&profiled(text, &options), 25);
        (running.store.data_mut().has_folder, running.store.data_mut().room) = (true, Some(room));
        running.call("_start");
        let (name, _) = running.store.data().file.clone().expect("it was opened");
        assert_eq!(name, "app.profile.part");
        let report = written(&running);
        assert!(report.contains("with room for it\n"), "{report}");
        assert!(report.contains("Flat profile"), "{report}");
    }
}

const WITHOUT_MEMORY: &str = r#"(module (import "host" "work" (func $work (param i32)))
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (func (export "_start") (call $work (i32.const 7000)) (call $exit (i32.const 0))))"#;

/// Works for three seconds, most of it in long calls, and then accesses memory out of bounds.
const OUT_OF_BOUNDS: &str = r#"(module
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (import "host" "work" (func $work (param i32)))
    (memory (export "memory") 1) (data (i32.const 0) "\11\22\33\44")
    (func $step (call $work (i32.const 300000000)))
    (func (export "_start") (local $n i32)
        (loop $next (call $step)
            (br_if $next (i32.lt_u
                (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 10))))
        (drop (i32.load (i32.const 0x7fffffff)))))"#;

fn calls(file: &[u8], name: &str) -> f64 {
    let profile = profiler::Profile::from_file(file).unwrap_or_else(|e| panic!("{e}"));
    let found = profile.functions.iter().find(|function| function.label.name == name);
    found.map_or(0.0, |function| function.calls.value)
}

#[test]
fn of_a_trap_the_newest_whole_profile_is_left_and_the_host_may_have_the_last_one() {
    let options = Options { file: Some("app.profile".into()), ..Options::default() };
    let without_memory = OUT_OF_BOUNDS
        .replace("(memory (export \"memory\") 1) (data (i32.const 0) \"\\11\\22\\33\\44\")", "")
        .replace(
            "(drop (i32.load (i32.const 0x7fffffff)))",
            "(drop (i32.div_u (i32.const 1) (i32.const 0)))",
        );
    assert!(!without_memory.contains("(memory"), "{without_memory}");
    for text in [OUT_OF_BOUNDS, &without_memory] {
        let mut running = Running::new(&profiled(text, &options), 25);
        running.store.data_mut().has_folder = true;
        assert!(!running.call("_start"));
        // Written every second: the last time in the tenth of ten steps of 0.3 seconds.
        let (name, file) = running.store.data().file.clone().expect("it was saved");
        assert_eq!((&name[..], calls(&file, "step")), ("app.profile", 8.0));
        let text = String::from_utf8(file).expect("text");
        assert!(text.contains("written while the program was running"), "{text}");
        assert!(running.call("fastinst:end"));
        let (name, file) = running.store.data().file.clone().expect("it was written");
        assert_eq!((&name[..], calls(&file, "step")), ("app.profile", 10.0));
        assert!(!String::from_utf8(file).expect("text").contains("while the program was"));
        // No profile is reported twice.
        running.store.data_mut().file = None;
        assert!(running.call("fastinst:end"));
        assert_eq!(running.store.data().file, None);
    }
}

#[test]
fn after_a_trap_the_host_may_have_the_report_printed() {
    let mut running = Running::new(&profiled(OUT_OF_BOUNDS, &Options::default()), 25);
    assert!(!running.call("_start"));
    assert_eq!(written(&running), "");
    assert!(running.call("fastinst:end"));
    assert_eq!(line(&written(&running), " step")[5], "10");
    let memory = running.instance.get_memory(&running.store, "memory").expect("exported");
    assert_eq!(memory.data(&running.store)[..8], [0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0]);
}

#[test]
fn a_program_without_memory_lends_ours_to_wasi() {
    let mut running = Running::new(
        &profiled(WITHOUT_MEMORY, &Options { time_all: true, ..Options::default() }),
        5,
    );
    assert!(!running.call("_start"));
    assert_eq!(line(&written(&running), " work")[1], "0.007");
}

#[test]
fn what_starts_a_module_is_counted() {
    let text = r#"(module (import "host" "work" (func $work (param i32)))
        (memory (export "memory") 1)
        (func $begin (call $work (i32.const 9)) (call $work (i32.const 9))) (start $begin)
        (func (export "f1")))"#;
    let options = Options { clock: Some(Clock::Wasi), time_all: true, ..Options::default() };
    let mut running = Running::new(&profiled(text, &options), 5);
    assert!(running.call("f1"));
    let report = running.report();
    assert_eq!(line(&report, " work")[5], "2");
    assert_eq!(line(&report, " begin")[5], "1");
    assert_eq!(line(&report, " f1")[5], "1");
}

#[test]
fn functions_of_other_modules_may_call_back() {
    let text = r#"(module (type $f (func)) (import "host" "others" (table 1 funcref))
        (import "host" "work" (func $work (param i32))) (memory (export "memory") 1)
        (func (export "f2") (call $work (i32.const 9)))
        (func $inner (call_indirect (type $f) (i32.const 0)) (call $work (i32.const 3)))
        (func (export "f1") (call $inner)))"#;
    let options = Options { clock: Some(Clock::Wasi), time_all: true, ..Options::default() };
    let mut running = Running::new(&profiled(text, &options), 1);
    assert!(running.call("f1"));
    let profile = running.profile();
    let named = |name: &str| profile.functions.iter().find(|f| f.label.name == name);
    let own = |name: &str| named(name).and_then(|f| f.own).map(|own| own.value);
    assert_eq!(named("f2").map(|f| f.calls.value), Some(2.0));
    // The first callback is the indirect call itself; time after the last one is its caller's.
    assert_eq!((own("inner"), own("work")), (Some(70.0), Some(21.0)));
}

#[test]
fn contexts_beyond_memory_are_folded_and_counts_stay_exact() {
    // Each call goes one of two ways, so that there are as many contexts as calls: more than fit.
    let text = r#"(module (global $n (mut i32) (i32.const 0)) (global $seed (mut i32) (i32.const 1))
        (func $a (param $d i32) (call $both (local.get $d)))
        (func $b (param $d i32) (call $both (local.get $d)))
        (func $both (param $d i32)
            (global.set $n (i32.add (global.get $n) (i32.const 1)))
            (if (local.get $d) (then
                (call $a (i32.sub (local.get $d) (i32.const 1)))
                (call $b (i32.sub (local.get $d) (i32.const 1))))))
        (func (export "f1") (call $both (i32.const 14))))"#;
    let options = Options { clock: Some(Clock::None), memory: 1, ..Options::default() };
    let mut running = Running::new(&profiled(text, &options), 0);
    assert!(running.call("f1"));
    let report = running.report();
    let both = (1 << 15) - 1;
    assert!(report.contains("no memory left for further contexts"), "{report}");
    assert!(line(&report, " both").contains(&both.to_string()), "{report}");
    assert!(line(&report, " a").contains(&((both - 1) / 2).to_string()), "{report}");
}

#[test]
fn recursion_goes_as_deep_as_the_stack() {
    let text = r#"(module (func $f (export "f1") (call $f)))"#;
    let options = Options { clock: Some(Clock::None), ..Options::default() };
    let mut running = Running::new(&profiled(text, &options), 0);
    assert!(!running.call("f1"));
    let profile = running.profile();
    assert!(profile.functions[0].calls.value > 100.0);
    assert_eq!(profile.functions.len(), 1);
}

#[test]
fn a_clock_that_goes_back_makes_no_time_negative() {
    let text = r#"(module (import "host" "work" (func $work (param i32)))
        (memory (export "memory") 1)
        (func $back (call $work (i32.const -5000))) (func $on (call $work (i32.const 3000)))
        (func (export "f1") (call $back) (call $on) (call $back)))"#;
    let options = Options { clock: Some(Clock::Wasi), time_all: true, ..Options::default() };
    let mut running = Running::new(&profiled(text, &options), 1);
    assert!(running.call("f1"));
    let profile = running.profile();
    assert!(profile.impossible().is_empty(), "{:?}", profile.impossible());
    let own = profile.functions.iter().filter_map(|function| function.own);
    assert!(own.clone().all(|own| own.value >= 0.0));
    assert_eq!(own.map(|own| own.value).sum::<f64>(), 3000.0);
}

#[test]
fn what_cannot_be_profiled_is_refused_by_name() {
    let options = Options::default();
    let again = refused(r#"(module (import "prof" "getTime" (func (result f64))))"#, &options);
    assert!(
        again.contains("imports prof.getTime") && again.contains("use the original"),
        "{again}"
    );
    let twice = profile(&profiled(PROGRAM, &options), &options).expect_err("it is refused");
    assert!(twice.to_string().contains("fastinst:"), "{twice}");
    let collected = refused("(module (type (struct (field i32))))", &options);
    assert!(collected.contains("garbage-collected objects"), "{collected}");
    let wasi = Options { clock: Some(Clock::Wasi), ..options.clone() };
    let shared = refused(r#"(module (memory (export "memory") 1 1 shared))"#, &wasi);
    assert!(shared.contains("is shared between threads"), "{shared}");
    assert!(matches!(profile(b"\0asm\x01\0\0\0\x01", &options), Err(Error::Invalid(_))));
    assert!("[".parse::<whamm_profile::Glob>().is_err());
}

#[test]
fn modules_without_names_exports_or_entries_are_profiled() {
    for text in [
        "(module)",
        "(module (func))",
        "(module (memory 1) (func (param i32) (result i32) (local.get 0)))",
        "(module (func call 0))",
        r#"(module (import "m" "f" (func)) (export "f" (func 0)) (start 0))"#,
    ] {
        let options = Options { clock: Some(Clock::None), ..Options::default() };
        let module = profiled(text, &options);
        let exports = wasmparser::Parser::new(0).parse_all(&module).flatten();
        let names: Vec<String> = exports
            .filter_map(|payload| match payload {
                wasmparser::Payload::ExportSection(section) => Some(section),
                _ => None,
            })
            .flatten()
            .flatten()
            .map(|export| export.name.to_owned())
            .collect();
        for name in ["fastinst:profile", "fastinst:report", "fastinst:memory"] {
            assert!(names.iter().any(|export| export == name), "{text}");
        }
    }
}

#[test]
fn names_are_demangled_and_numbers_where_there_are_none() {
    let text = r#"(module (func $_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE)
        (func (;1;)) (func $_Z3addii)
        (func (export "f1") (call 0) (call 1) (call 2)))"#;
    let options = Options { clock: Some(Clock::None), ..Options::default() };
    let mut running = Running::new(&profiled(text, &options), 0);
    assert!(running.call("f1"));
    let report = running.report();
    for name in ["core::fmt::Write::write_fmt", "function 1", "add(int, int)"] {
        assert_eq!(line(&report, &format!(" {name}"))[0], "1", "{report}");
    }
}
