//! `run --monitor FILE`: modules and scripts, as people use them.

#[path = "command/place.rs"]
#[allow(dead_code, reason = "not every test needs all of it")]
mod place;

use place::{Place, errors};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

/// Counts instructions, and prints how many there were.
const COUNTING: &str = r#"(module (import "wizeng" "puti" (func $print (param i32))) (global $n (mut i32) (i32.const 0))
    (func (export "wasm:opcode:*") (global.set $n (i32.add (global.get $n) (i32.const 1))))
    (func (export "wasm:exit") (call $print (global.get $n))))"#;

const NOTHING: &str = r#"(module (func (export "_start") nop))"#;

fn run(place: &Place, arguments: &[&str], monitors: &[&str], program: &str) -> Output {
    let mut command = place.command();
    command.arg("run");
    for monitor in monitors {
        command.arg("--monitor").arg(monitor);
    }
    command.args(arguments).arg(program).output().expect("the command starts")
}

fn output_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn whamm(path: &str) -> String {
    format!("{}/../whamm/{path}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_report_comes_out_however_the_program_ends() {
    let place = Place::new("modules-ends");
    let counting = place.file("counting.wat", COUNTING);
    for (program, code, printed) in [
        (NOTHING, 0, "2"),
        (r#"(module (func (export "_start") nop unreachable))"#, 134, "2"),
        (
            r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32))) (memory (export "memory") 1)
                (func (export "_start") (call $exit (i32.const 7))))"#,
            7,
            "2",
        ),
        (r#"(module (func $start nop) (start $start) (func (export "_start")))"#, 0, "3"),
    ] {
        let program = place.file("program.wat", program);
        let done = run(&place, &[], &[&counting], &program);
        assert_eq!(
            (done.status.code(), output_of(&done).as_str()),
            (Some(code), printed),
            "{}",
            errors(&done)
        );
    }
    let spinning = place.file("spin.wat", r#"(module (func (export "_start") (loop (br 0))))"#);
    let done = run(&place, &["--timeout", "200ms"], &[&counting], &spinning);
    assert_eq!(done.status.code(), Some(134));
    assert!(output_of(&done).parse::<i64>().is_ok_and(|count| count != 0), "{}", errors(&done));
}

#[test]
fn a_script_is_compiled_on_the_way_and_several_monitors_look_at_once() {
    let place = Place::new("modules-script");
    let counting = place.file("counting.wat", COUNTING);
    let script =
        place.file("calls.mm", "report var calls: u32; wasm:opcode:call:before { calls++; }");
    let done = run(
        &place,
        &["--invoke", "main"],
        &[&counting, &script, "icount"],
        &whamm("tests/apps/fac.wat"),
    );
    assert!(done.status.success(), "{}", errors(&done));
    let printed = output_of(&done);
    assert!(
        printed.contains(", calls, u32, i32, script0, , , , , 6") && printed.contains("\n204"),
        "{printed}"
    );
    assert!(errors(&done).contains("icount"), "{}", errors(&done));
}

#[test]
fn what_modules_say_is_in_the_document_that_programs_read() {
    let place = Place::new("modules-json");
    let (counting, program) =
        (place.file("counting.wat", COUNTING), place.file("program.wat", NOTHING));
    let done = run(&place, &["--json"], &[&counting], &program);
    assert_eq!((done.status.code(), output_of(&done).as_str()), (Some(0), ""), "{}", errors(&done));
    let told: serde_json::Value = serde_json::from_slice(&done.stderr).expect("an object");
    assert_eq!(told, serde_json::json!({"counting": "2"}));
    let report = place.0.join("report.json").display().to_string();
    let done = run(&place, &["--json", "--report", &report], &[&counting, "icount"], &program);
    assert!(done.status.success() && errors(&done).is_empty(), "{}", errors(&done));
    let told: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&report).expect("written")).expect("an object");
    assert_eq!(
        (&told["counting"], &told["icount"]["totals"]["dynamic"]),
        (&serde_json::json!("2"), &serde_json::json!(2))
    );
}

#[test]
fn a_monitor_is_told_where_the_program_was_read() {
    let place = Place::new("modules-path");
    let monitor = r#"(module (import "wizeng" "puts" (func $print (param i32 i32)))
        (import "whamm:reflect" "read_module_path" (func $path (param i32 i32) (result i32))) (memory (export "memory") 1)
        (func (export "wasm:exit") (call $print (i32.const 0) (call $path (i32.const 0) (i32.const 4096)))))"#;
    let program = place.file("program.wat", NOTHING);
    let done = run(&place, &[], &[&place.file("path.wat", monitor)], &program);
    assert_eq!((done.status.code(), output_of(&done)), (Some(0), program), "{}", errors(&done));
}

#[test]
fn libraries_stand_behind_a_plus_and_are_linked_by_their_names() {
    let place = Place::new("modules-library");
    let lines = std::fs::read_to_string(whamm("tests/apps/cache_lines.wat")).expect("it is there");
    let library = place.file("cache.wat", &lines);
    let monitor = format!("{}+{library}", whamm("monitors/cache_sim.mm"));
    let done = run(&place, &["--invoke", "main"], &[&monitor], &whamm("tests/apps/sieve.wat"));
    assert!(done.status.success(), "{}", errors(&done));
    assert!(
        output_of(&done).contains(", hits, u64, i64, script0, , , , , "),
        "{}",
        output_of(&done)
    );
}

#[test]
fn bad_monitors_are_refused_with_a_line_that_says_why() {
    let place = Place::new("modules-bad");
    let program = place.file("program.wat", NOTHING);
    let bytes = wat::parse_str(COUNTING).expect("it is text");
    let truncated = place.0.join("truncated.wasm");
    std::fs::write(&truncated, &bytes[..bytes.len() - 5]).expect("written");
    let refused = |monitor: &str, said: &str| {
        let done = run(&place, &[], &[monitor], &program);
        assert_eq!(done.status.code(), Some(1), "{}", errors(&done));
        assert!(errors(&done).contains(said), "{}", errors(&done));
        assert!(!errors(&done).contains("panicked"), "{}", errors(&done));
    };
    refused(&truncated.display().to_string(), "truncated.wasm");
    refused("./absent.wasm", "absent.wasm");
    refused(
        &place.file("name.wat", r#"(module (func (export "wasm:opcode:nopp")))"#),
        "did you mean nop?",
    );
    refused(&place.file("sort.mm", "wasm:opcode:nop:befor { }"), "sort.mm");
    refused(
        &place.file("lib.mm", "use lib; wasm:opcode:nop:before { lib.f(); }"),
        "the library `lib` was not given",
    );
    let linked = place.file(
        "linked.wat",
        r#"(module (import "lib" "f" (func)) (func (export "wasm:opcode:nop")))"#,
    );
    refused(&linked, r#"monitor linked: unknown import: "lib" "f""#);
    let endless = place.file("start.wat", "(module (func $spin (loop (br 0))) (start $spin))");
    let mut command = place.command();
    let begun = Instant::now();
    let done = command
        .args(["run", "--no-cache", "--monitor-patience", "300ms", "--monitor"])
        .arg(endless)
        .arg(&program)
        .output();
    assert_eq!(done.expect("it starts").status.code(), Some(1));
    assert!(begun.elapsed() < Duration::from_secs(20));
    refused(
        &place.file("end.wat", r#"(module (func (export "wasm:exit") (param i32)))"#),
        "is given nothing",
    );
    let told = |monitor: &str, arguments: &[&str], code: i32, said: &[&str]| {
        let done = run(&place, arguments, &[monitor], &program);
        assert_eq!(done.status.code(), Some(code), "{}", errors(&done));
        said.iter().for_each(|said| assert!(errors(&done).contains(said), "{}", errors(&done)));
    };
    let misfit = place
        .file("misfit.wat", r#"(module (func (export "wasm:opcode:nop (local0)") (param f64)))"#);
    told(
        &misfit,
        &[],
        0,
        &[
            "monitor misfit: nothing in",
            "wasm:opcode:nop (local0): at function 0",
            "local0 of type f64",
        ],
    );
    let late = place.file("late.wat", r#"(module (func (export "wasm:exit") (loop (br 0))))"#);
    told(&late, &["--monitor-patience", "300ms"], 0, &["monitor late: wasm:exit: it does not end"]);
    let spinning = place.file(
        "spinning.wat",
        r#"(module (func (export "wasm:opcode:nop (pc)") (param i32) (loop (br 0))))"#,
    );
    told(
        &spinning,
        &["--timeout", "300ms"],
        134,
        &["monitor spinning: wasm:opcode:nop (pc), at function 0", "was being called"],
    );
    let deep = place.file("deep.wat", r#"(module (func $f (export "wasm:opcode:nop") (call $f)))"#);
    told(
        &deep,
        &[],
        134,
        &[
            "monitor deep: wasm:opcode:nop, at function 0",
            "call stack exhausted; the program was stopped",
        ],
    );
    let done = run(
        &place,
        &[],
        &[&place.file("idle.wat", r#"(module (func (export "wasm:opcode:i32.add")))"#)],
        &program,
    );
    assert!(
        done.status.success() && errors(&done).contains("monitor idle: nothing in"),
        "{}",
        errors(&done)
    );
}

#[test]
fn an_export_that_fits_nowhere_is_told_beside_those_that_fit_and_is_an_error_if_that_is_wanted() {
    let place = Place::new("modules-unbound");
    let program = place.file("program.wat", NOTHING);
    let monitor = r#"(module (import "wizeng" "puti" (func $print (param i32)))
        (func (export "wasm:opcode:nop (local0)") (param f64))
        (func (export "wasm:opcode:nop (pc)") (param i32) (call $print (local.get 0))))"#;
    let monitor = place.file("half.wat", monitor);
    let done = run(&place, &[], &[&monitor], &program);
    assert!(done.status.success() && !output_of(&done).is_empty(), "{}", errors(&done));
    let told = "monitor half: note: this export is called nowhere: wasm:opcode:nop (local0): at function 0";
    assert!(errors(&done).contains(told), "{}", errors(&done));
    let done = run(&place, &["--strict"], &[&monitor], &program);
    assert_eq!((done.status.code(), output_of(&done).as_str()), (Some(1), ""), "{}", errors(&done));
    assert!(errors(&done).contains("wasm:opcode:nop (local0): at function 0"), "{}", errors(&done));
    // Something that only some places have means those that have it.
    let some = r#"(module (func (export "wasm:opcode:* (arg0)") (param i32)))"#;
    let done = run(
        &place,
        &["--strict"],
        &[&place.file("some.wat", some)],
        &place.file("drop.wat", DROPS),
    );
    assert!(done.status.success() && errors(&done).is_empty(), "{}", errors(&done));
}

const DROPS: &str = r#"(module (func (export "_start") (drop (i32.const 1))))"#;

#[test]
fn an_instruction_that_is_not_known_is_a_note_in_what_others_have_made() {
    let place = Place::new("modules-unknown");
    let program = place.file("program.wat", NOTHING);
    let monitor = |more: &str| {
        format!(
            r#"(module {more} (import "wizeng" "puti" (func $print (param i32)))
                (func (export "wasm:opcode:frob.nicate (pc)") (param i32))
                (func (export "wasm:opcode:nop (pc)") (param i32) (call $print (local.get 0))))"#
        )
    };
    let done = run(&place, &[], &[&place.file("foreign.wat", monitor(""))], &program);
    assert!(done.status.success() && !output_of(&done).is_empty(), "{}", errors(&done));
    assert!(
        errors(&done).contains("note") && errors(&done).contains("frob.nicate"),
        "{}",
        errors(&done)
    );
    let ours = monitor(r#"(import "wasm-aot:ext" "v1" (func))"#);
    let done = run(&place, &[], &[&place.file("ours.wat", &ours)], &program);
    assert!(
        done.status.code() == Some(1) && errors(&done).contains("no such instruction"),
        "{}",
        errors(&done)
    );
}

#[test]
fn libraries_are_linked_in_either_order_and_to_their_monitor() {
    let place = Place::new("modules-linking");
    let program = place.file("program.wat", NOTHING);
    let monitor = place.file(
        "mon.wat",
        r#"(module (import "wizeng" "puti" (func $print (param i32)))
            (import "inner" "twice" (func $twice (param i32) (result i32)))
            (import "outer" "visit" (func $visit)) (global $n (mut i32) (i32.const 3))
            (func (export "bump") (param i32) (global.set $n (i32.add (global.get $n) (local.get 0))))
            (func (export "wasm:opcode:nop") (call $visit))
            (func (export "wasm:exit") (call $print (call $twice (global.get $n)))))"#,
    );
    let inner = r#"(module (func (export "twice") (param i32) (result i32) (i32.mul (i32.const 2) (local.get 0))))"#;
    let outer = r#"(module (import "inner" "twice" (func $twice (param i32) (result i32)))
        (import "mon" "bump" (func $bump (param i32)))
        (func (export "visit") (call $bump (call $twice (i32.const 10)))))"#;
    let (inner, outer) = (place.file("inner.wat", inner), place.file("outer.wat", outer));
    for libraries in [format!("{inner}+{outer}"), format!("{outer}+{inner}")] {
        let done = run(&place, &[], &[&format!("{monitor}+{libraries}")], &program);
        assert_eq!(
            (done.status.code(), output_of(&done).as_str()),
            (Some(0), "46"),
            "{}",
            errors(&done)
        );
    }
    for (import, why) in [
        (r#"(import "mon" "bump" (func (param i64)))"#, "which is of another type there"),
        (r#"(import "mon" "bumps" (func))"#, "which is no function that is exported there"),
        (r#"(import "mon" "memory" (memory 1))"#, r#"unknown import: "mon" "memory""#),
    ] {
        let wrong = place.file("wrong.wat", format!("(module {import})"));
        let done = run(&place, &[], &[&format!("{monitor}+{inner}+{outer}+{wrong}")], &program);
        assert!(done.status.code() == Some(1) && errors(&done).contains(why), "{}", errors(&done));
    }
}

#[test]
fn an_imported_function_that_is_exported_again_is_called() {
    let place = Place::new("modules-imported");
    let program = place.file("program.wat", NOTHING);
    let host = r#"(module (import "wizeng" "puti" (func $print (param i32))) (export "wasm:opcode:nop (pc)" (func $print)))"#;
    let library = r#"(module (import "wizeng" "puti" (func $print (param i32)))
        (func (export "told") (param i32) (call $print (i32.add (local.get 0) (i32.const 10)))))"#;
    let linked = r#"(module (import "lib" "told" (func $told (param i32))) (export "wasm:opcode:nop (pc)" (func $told)))"#;
    let host = place.file("host.wat", host);
    let linked = format!("{}+{}", place.file("linked.wat", linked), place.file("lib.wat", library));
    for (monitor, printed) in [(&host, "1"), (&linked, "11")] {
        for how in ["inlined", "direct"] {
            let done = run(&place, &["--monitor-calls", how], &[monitor], &program);
            assert_eq!(
                (done.status.code(), output_of(&done).as_str()),
                (Some(0), printed),
                "{}",
                errors(&done)
            );
        }
    }
    let compiled = place.0.join("program.aot").display().to_string();
    let made = place
        .command()
        .args(["compile", "--monitor", &host, "-o", &compiled, &program])
        .output()
        .expect("it starts");
    assert!(made.status.success(), "{}", errors(&made));
    let done = run(&place, &[], &[], &compiled);
    assert_eq!(
        (done.status.code(), output_of(&done).as_str()),
        (Some(0), "1"),
        "{}",
        errors(&done)
    );
}

#[test]
fn instructions_of_the_older_encoding_of_exceptions_have_names() {
    let place = Place::new("modules-legacy");
    let program = r#"(module (tag $e) (func (export "_start")
        try try throw $e catch $e rethrow 0 end catch_all end
        try try nop delegate 0 catch $e end))"#;
    let program = place.file("program.wat", program);
    let done = run(&place, &[], &["hotness,top=all", "opcodes,top=all"], &program);
    assert!(done.status.success(), "{}", errors(&done));
    let told = errors(&done);
    for name in ["try", "catch", "rethrow", "delegate", "catch_all"] {
        let has = |line: &str| line.split_whitespace().any(|word| word == name);
        assert!(told.lines().any(has), "{name} in {told}");
    }
    assert!(!told.lines().any(|line| line.split_whitespace().any(|word| word == "?")), "{told}");
    // Scripts name them, too: each is executed once, but for two `try` that stand in others, and a
    // handler runs where its clause caught.
    let script = "report var tries: u32; report var rethrown: u32; report var ends: u32;
        report var caught: u32; report var caught_all: u32; report var missed: u32;
        wasm:opcode:try:before { tries++; } wasm:opcode:rethrow:before / imm0 == 0 / { rethrown++; }
        wasm:opcode:delegate:before { ends++; } wasm:opcode:catch:after / imm0 == 0 / { caught++; }
        wasm:opcode:catch_all:after { caught_all++; } wasm:opcode:catch*:before { missed++; }";
    let done = run(&place, &[], &[&place.file("legacy.mm", script)], &program);
    let told = output_of(&done) + &errors(&done);
    for (name, count) in [
        ("tries", 4),
        ("rethrown", 1),
        ("ends", 1),
        ("caught", 1),
        ("caught_all", 1),
        ("missed", 1),
    ] {
        let row = told.lines().find(|line| line.contains(&format!(", {name}, ")));
        assert!(row.is_some_and(|row| row.ends_with(&format!(", {count}"))), "{name}: {told}");
    }
}

#[test]
fn activations_that_exceptions_leave_are_told_alike_on_both_targets() {
    let place = Place::new("modules-unwinding");
    let program = r#"(module (tag $e (param i32)) (memory (export "memory") 1)
        (func $throws (param $n i32) (result i32)
            (if (i32.eq (local.get $n) (i32.const 3)) (then (throw $e (i32.const 42))))
            (local.get $n))
        (func $between (param $n i32) (result i32) (call $throws (local.get $n)))
        (func $catches (param $n i32) (result i32)
            (block $caught (result i32)
                (try_table (result i32) (catch $e $caught) (call $between (local.get $n)))
                (return))
            (i32.add (i32.const 100)))
        (func (export "_start") (local $n i32)
            (loop $again
                (drop (call $catches (local.get $n)))
                (br_if $again (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 5))))))"#;
    let script = "report frame var own: u32; report frame var began: f64 = 1.5;
        wasm:func:unwind { report var left: u32; left++; report var at: u32 = pc; }
        wasm:opcode:local.get:before { own++; }
        wasm:opcode:throw:before { began += 1.0; }
        wasm:opcode:call:after { report var back: u32; back++; }";
    let options =
        whamm::Options { destination: whamm::Destination::Console, ..whamm::Options::default() };
    let scripts = [whamm::Source::new("unwinding.mm", script)];
    let rewritten = whamm::instrument(&scripts, &[], program.as_bytes(), &options).expect("valid");
    let rewritten_place = place.0.join("rewritten.wasm");
    std::fs::write(&rewritten_place, &rewritten.module).expect("it is written");
    let rows = |done: &Output| {
        assert!(done.status.success(), "{}", errors(done));
        let told = output_of(done) + &errors(done);
        let row = |line: &str| {
            let columns: Vec<&str> = line.split(", ").collect();
            let [_, _, name, _, _, _, function, _, pc, _, value] = columns[..] else { return None };
            (name != "name").then(|| format!("{name} {function} {pc} {value}"))
        };
        let mut rows: Vec<String> = told.lines().filter_map(row).collect();
        rows.sort();
        rows
    };
    let attached = rows(&run(
        &place,
        &[],
        &[&place.file("unwinding.mm", script)],
        &place.file("program.wat", program),
    ));
    let inside = rows(&run(&place, &[], &[], &rewritten_place.display().to_string()));
    assert_eq!(attached, inside);
    for row in ["own throws  9", "own between  5", "own catches  5", "began throws  +8.5e0"] {
        assert!(attached.iter().any(|told| told == row), "{row}: {attached:#?}");
    }
}

#[test]
fn instructions_of_wide_arithmetic_are_events() {
    let place = Place::new("modules-wide");
    let program = r#"(module (func (export "_start")
        (i64.mul_wide_u (i64.const -1) (i64.const 2)) (i64.add128 (i64.const 1) (i64.const 2)) drop drop))"#;
    let program = place.file("program.wat", program);
    let script = "report var high: u64; report var low: i64;
        wasm:opcode:i64.mul_wide_u:after { high = res0 as u64; }
        wasm:opcode:i64.add128:before { low = arg3; }";
    let done = run(&place, &[], &[&place.file("wide.mm", script)], &program);
    let told = output_of(&done) + &errors(&done);
    let says = |name: &str, value: &str| {
        told.lines().any(|line| line.contains(name) && line.ends_with(value))
    };
    assert!(says(", high, ", ", 1") && says(", low, ", ", -2"), "{told}");
}

#[test]
fn monitors_know_whether_a_branch_on_a_cast_is_taken() {
    let place = Place::new("modules-casts");
    let program = r#"(module (type $a (func)) (table $t funcref (elem $one $two))
        (func $one (type $a)) (func $two (result i32) (i32.const 1))
        (func (export "_start") (local $i i32)
            (loop $next
                (block $of (result funcref)
                    (br_on_cast $of funcref (ref $a) (table.get $t (i32.and (local.get $i) (i32.const 1)))))
                (drop)
                (block $not (result funcref)
                    (br_on_cast_fail $not funcref (ref null $a) (table.get $t (i32.const 0))))
                (drop)
                (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 5))))))"#;
    let program = place.file("program.wat", program);
    let script = "wasm:opcode:br_on_cast|br_on_cast_fail:before {
        report var n: u32; if (taken) { n++; } report var m: u32; m++; }";
    let monitors = [place.file("casts.mm", script), "loop-traces".into()];
    let done = run(&place, &[], &[&monitors[0], &monitors[1]], &program);
    let told = output_of(&done) + &errors(&done);
    let mut rows: Vec<&str> = told
        .lines()
        .filter(|line| line.contains("br_on_cast"))
        .filter_map(|line| line.rsplit(", ").next())
        .collect();
    rows.sort_unstable();
    assert_eq!((done.status.code(), rows.join(" ").as_str()), (Some(0), "0 3 5 5"), "{told}");
}

#[test]
fn a_monitor_stays_inside_of_its_memory_and_cannot_end_the_program() {
    let place = Place::new("modules-inside");
    let program = place.file("program.wat", NOTHING);
    let greedy = r#"(module (import "wizeng" "puti" (func $print (param i32))) (memory 1)
        (func (export "wasm:opcode:nop") (loop (br_if 0 (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))))
        (func (export "wasm:exit") (call $print (memory.size))))"#;
    let done = run(
        &place,
        &["--max-monitor-memory", "1048576"],
        &[&place.file("greedy.wat", greedy)],
        &program,
    );
    assert_eq!(
        (done.status.code(), output_of(&done).as_str()),
        (Some(0), "16"),
        "{}",
        errors(&done)
    );
    let ending = r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (func (export "wasm:opcode:nop") (call $exit (i32.const 0))))"#;
    let done = run(&place, &[], &[&place.file("ending.wat", ending)], &program);
    assert_eq!(done.status.code(), Some(1));
    assert!(errors(&done).contains("a monitor does not end the program"), "{}", errors(&done));
    let trapping = r#"(module (func (export "wasm:opcode:nop (pc)") (param i32) (unreachable)))"#;
    let done = run(&place, &[], &[&place.file("trapping.wat", trapping)], &program);
    assert_eq!(done.status.code(), Some(134));
    assert!(
        errors(&done).contains("monitor trapping: wasm:opcode:nop (pc), at function 0"),
        "{}",
        errors(&done)
    );
}

/// A program that runs, with monitors; it is stopped when the test is over.
struct Running<'a> {
    place: &'a Place,
    child: Option<Child>,
}

impl<'a> Running<'a> {
    fn start(place: &'a Place, monitors: &[&str], program: &str) -> Self {
        let mut command = place.command();
        command.env("XDG_RUNTIME_DIR", &place.0).arg("run");
        for monitor in monitors {
            command.arg("--monitor").arg(monitor);
        }
        let child = command
            .arg(program)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let running = Self { place, child: Some(child) };
        let deadline = Instant::now() + Duration::from_secs(30);
        while !running.ask(&["status"]).status.success() {
            assert!(Instant::now() < deadline, "the program answers");
            std::thread::sleep(Duration::from_millis(10));
        }
        running
    }

    fn ask(&self, request: &[&str]) -> Output {
        let pid = self.child.as_ref().expect("it runs").id().to_string();
        let mut command = self.place.command();
        command
            .env("XDG_RUNTIME_DIR", &self.place.0)
            .args(["ctl", &pid])
            .args(request)
            .output()
            .expect("it starts")
    }

    fn good(&self, request: &[&str]) -> String {
        let output = self.ask(request);
        assert!(output.status.success(), "{request:?}: {}", errors(&output));
        output_of(&output)
    }

    fn number(&self, request: &[&str]) -> i64 {
        let text = self.good(request);
        text.trim().parse().unwrap_or_else(|_| panic!("{request:?}: {text}"))
    }

    /// Waits until it answers so.
    fn await_number(&self, request: &[&str], wanted: i64) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while self.number(request) != wanted {
            assert!(
                Instant::now() < deadline,
                "{request:?}: {}, and not {wanted}",
                self.number(request)
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until it says so of itself.
    fn await_status(&self, wanted: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !self.good(&["status"]).contains(wanted) {
            assert!(Instant::now() < deadline, "{}, and not {wanted}", self.good(&["status"]));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Interrupts it.
    fn end(mut self) -> Output {
        let child = self.child.take().expect("it runs");
        std::process::Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status()
            .expect("kill is there");
        child.wait_with_output().expect("it ends")
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Counts turns of loops, and calls.
const TURNS: &str = r#"(module (import "wizeng" "puti" (func $print (param i32))) (global $n (mut i32) (i32.const 0))
    (func (export "wasm:opcode:loop") (global.set $n (i32.add (global.get $n) (i32.const 1))))
    (func (export "wasm:opcode:call") (global.set $n (i32.add (global.get $n) (i32.const 1))))
    (func (export "wasm:exit") (call $print (i32.and (global.get $n) (i32.const 0x7fffffff)))))"#;

const SPIN: &str = r#"(module (func (export "_start") (local i32)
    (loop (local.set 0 (i32.add (local.get 0) (i32.const 1))) (br 0))))"#;

const CALLING: &str = r#"(module (func $work (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
    (func (export "_start") (local i32) (loop $l (local.set 0 (call $work (local.get 0))) (br $l))))"#;

#[test]
fn a_monitor_is_switched_while_the_program_runs() {
    let place = Place::new("modules-toggle");
    let rounds = r#"(module (import "wizeng" "puti" (func $print (param i32))) (global $n (mut i32) (i32.const 0))
        (func (export "wasm:opcode:loop") (global.set $n (i32.or (global.get $n) (i32.const 1))))
        (func (export "wasm:exit") (call $print (global.get $n))))"#;
    let monitor = format!("{},toggle", place.file("rounds.wat", rounds));
    let running = Running::start(&place, &[&monitor], &place.file("spin.wat", SPIN));
    assert_eq!(running.good(&["off", "rounds"]), "rounds is off: 0 of 1 probes are called\n");
    assert_eq!(running.good(&["on", "rounds"]), "rounds is on: 1 of 1 probes are called\n");
    assert!(errors(&running.ask(&["off", "round"])).contains("there are rounds"));
    running.await_number(&["report"], 1);
    let done = running.end();
    assert_eq!((done.status.code(), output_of(&done).as_str()), (Some(130), "1"));
}

#[test]
fn a_burst_of_so_many_calls_is_over_when_they_were_made() {
    let place = Place::new("modules-burst");
    let turns = format!("{},toggle", place.file("turns.wat", TURNS));
    let running = Running::start(&place, &[&turns], &place.file("program.wat", CALLING));
    running.good(&["burst", "1000"]);
    running.await_status("observing off\n");
    let seen = running.number(&["report"]);
    assert!(seen >= 1000);
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(running.number(&["report"]), seen, "it rests");
    // On for so many, and off for a while, again and again.
    running.good(&["burst", "1000", "1ms"]);
    running.await_status("observing on, in bursts\n");
    std::thread::sleep(Duration::from_millis(30));
    running.good(&["burst", "none"]);
    assert!(running.number(&["report"]) > seen);
    drop(running);
    let limited = format!("{},calls=1000000", place.file("turns.wat", TURNS));
    let running = Running::start(&place, &[&limited], &place.file("program.wat", CALLING));
    assert!(
        errors(&running.ask(&["burst", "1000"]))
            .contains("turns: its calls are not counted: say how long")
    );
}

#[test]
fn a_monitor_reports_while_the_program_runs_wherever_it_is() {
    let place = Place::new("modules-report");
    let turns = place.file("turns.wat", TURNS);
    // With cells that are added up later, and with probes that are called.
    for monitor in [turns.clone(), format!("{turns},toggle")] {
        for program in [SPIN, CALLING] {
            let running = Running::start(&place, &[&monitor], &place.file("program.wat", program));
            let first = running.number(&["report"]);
            std::thread::sleep(Duration::from_millis(20));
            let second = running.number(&["report", "turns"]);
            assert_ne!(first, second);
            assert!(errors(&running.ask(&["report", "turn"])).contains("turn is not attached"));
            let done = running.end();
            assert_eq!(done.status.code(), Some(130), "{}", errors(&done));
            // What was said to somebody else is not printed.
            assert!(output_of(&done).parse::<i64>().is_ok(), "{}", output_of(&done));
        }
    }
}

#[test]
fn a_program_that_waits_is_asked_and_waits_on() {
    let place = Place::new("modules-waiting");
    // Sleeps for a quarter of an hour.
    let program = r#"(module
        (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32))) (memory (export "memory") 1)
        (func (export "_start")
            (i32.store (i32.const 16) (i32.const 1)) (i64.store (i32.const 24) (i64.const 1000000000000))
            (drop (call $poll (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 128)))))"#;
    let program = place.file("program.wat", program);
    let running = Running::start(&place, &[&place.file("turns.wat", TURNS)], &program);
    let begun = Instant::now();
    assert_eq!(running.number(&["report"]), 1);
    let calls = r#"(module (import "wizeng" "puti" (func $print (param i32)))
        (func (export "wasm:func:exit")) (func (export "wasm:exit") (call $print (i32.const 7))))"#;
    running.good(&["attach", &place.file("sevens.wat", calls)]);
    assert_eq!(running.number(&["report", "sevens"]), 7);
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(running.end().status.code(), Some(130));
}

#[test]
fn a_monitor_that_fails_is_switched_off_and_the_program_goes_on() {
    let place = Place::new("modules-contained");
    let program = place.file("program.wat", PROGRAM);
    let run = |monitor: &str, option: &str| {
        let monitor = format!("{},{option}", place.file("failing.wat", monitor));
        let mut command = place.command();
        command.args([
            "run",
            "--invoke",
            "main",
            "--monitor-patience",
            "300ms",
            "--monitor",
            &monitor,
            &program,
            "9",
        ]);
        command.output().expect("it starts")
    };
    let failing = |how: &str| {
        format!(
            r#"(module (import "wizeng" "puti" (func $print (param i32))) (global $n (mut i32) (i32.const 0))
            (func (export "wasm:opcode:call (local0, pc)") (param i32 i32)
                (global.set $n (i32.add (global.get $n) (i32.const 1)))
                (if (i32.eq (local.get 0) (i32.const 6)) (then {how})))
            (func (export "wasm:exit") (call $print (global.get $n))))"#
        )
    };
    for (how, said) in [
        ("(unreachable)", "unreachable"),
        (
            "(drop (i32.div_u (i32.const 1) (i32.sub (local.get 0) (i32.const 6))))",
            "divide by zero",
        ),
        ("(loop (br 0))", "does not end within 300ms"),
    ] {
        let done = run(&failing(how), "on-trap=off");
        // 9, 8, 7 and 6; the program's result is what it always is.
        assert_eq!(
            (done.status.code(), output_of(&done).as_str()),
            (Some(0), "4\n4"),
            "{}",
            errors(&done)
        );
        let line = errors(&done);
        assert!(
            line.contains("monitor failing: wasm:opcode:call (local0, pc), at offset 0x"),
            "{line}"
        );
        assert!(
            line.contains(said) && line.contains("switched off, and the program goes on"),
            "{line}"
        );
    }
    let done = run(&failing("(unreachable)"), "on-trap=fatal");
    assert_eq!(done.status.code(), Some(134));
    assert!(errors(&done).contains("the program was stopped"), "{}", errors(&done));
    assert!(
        errors(&run(&failing("(unreachable)"), "on-trap=perhaps"))
            .contains("expected off or fatal")
    );
    let slots = r#"(module (import "wasm-aot:ext" "v1" (func)) (import "wasm-aot:ext" "frame_set_i32" (func $set (param i32 i32)))
        (func (export "wasm:opcode:call") (call $set (i32.const 0) (i32.const 1))))"#;
    assert!(errors(&run(slots, "on-trap=off")).contains("variables of activations"));
}

#[test]
fn what_happens_in_the_engine_is_told() {
    let place = Place::new("modules-events");
    let monitor = r#"(module
        (import "wasm-aot:ext" "v1" (func)) (import "wizeng" "puti" (func $print (param i32))) (import "wizeng" "putc" (func $put (param i32)))
        (func $say (param $c i32) (param $n i32) (call $put (local.get $c)) (call $print (local.get $n)) (call $put (i32.const 32)))
        (func (export "engine:module_loaded (functions)") (param i32) (call $say (i32.const 109) (local.get 0)))
        (func (export "engine:function_compiled (bytes, fid)") (param i64 i32)
            (if (i64.eqz (local.get 0)) (then (unreachable)))
            (call $say (i32.const 102) (local.get 1)))
        (func (export "engine:thread_start (thread)") (param i32) (call $say (i32.const 98) (local.get 0)))
        (func (export "engine:memory_grown (after, before, memory)") (param i64 i64 i32)
            (call $say (i32.const 103) (i32.wrap_i64 (i64.sub (local.get 0) (local.get 1)))))
        (func (export "engine:trap (code, fid, pc)") (param i32 i32 i32)
            (call $say (i32.const 116) (local.get 0)) (call $print (local.get 1)) (call $say (i32.const 64) (local.get 2)))
        (func (export "engine:thread_end") (call $put (i32.const 101)))
        (func (export "wasm:exit") (call $put (i32.const 46))))"#;
    let monitor = place.file("events.wat", monitor);
    let growing = r#"(module (memory 1) (func $grow (drop (memory.grow (i32.const 2))))
        (func (export "_start") (call $grow) (drop (memory.grow (i32.const 70000))) (call $grow) TRAP))"#;
    for (trap, code, printed) in
        [("", 0, "m2 f0 f1 b0 g2 g2 e."), ("(unreachable)", 134, "m2 f0 f1 b0 g2 g2 t10 1@12 e.")]
    {
        let program = place.file("program.wat", growing.replace("TRAP", trap));
        for option in ["", ",toggle"] {
            let done = run(&place, &[], &[&format!("{monitor}{option}")], &program);
            assert_eq!(
                (done.status.code(), output_of(&done).as_str()),
                (Some(code), printed),
                "{}",
                errors(&done)
            );
        }
    }
    // Versions that are made while the program runs, of what somebody who comes later looks at.
    let later = r#"(module (import "wasm-aot:ext" "v1" (func)) (import "wizeng" "puti" (func $print (param i32)))
        (global $n (mut i32) (i32.const 0))
        (func (export "engine:function_compiled (bytes)") (param i64)
            (global.set $n (i32.add (global.get $n) (i64.ne (local.get 0) (i64.const 0)))))
        (func (export "wasm:exit") (call $print (global.get $n))))"#;
    let later = place.file("later.wat", later);
    let running = Running::start(&place, &[&later], &place.file("program.wat", CALLING));
    // To be asked, the program is stopped, which may take code of its own.
    let asked = running.number(&["report", "later"]).max(running.number(&["report", "later"]));
    assert!(asked >= 2, "{asked}");
    running.good(&[
        "attach",
        &place.file(
            "adding.wat",
            r#"(module (func (export "wasm:opcode:i32.add (arg0)") (param i32)))"#,
        ),
    ]);
    assert!(running.number(&["report", "later"]) > asked);
    drop(running);
    let wrong = place.file(
        "wrong.wat",
        r#"(module (import "wasm-aot:ext" "v1" (func)) (func (export "engine:memory_grow")))"#,
    );
    let done = run(&place, &[], &[&wrong], &place.file("program.wat", NOTHING));
    assert!(errors(&done).contains("did you mean memory_grown?"), "{}", errors(&done));
}

#[test]
fn a_file_of_machine_code_contains_monitors_that_look_at_it_whenever_it_runs() {
    let place = Place::new("modules-inside-files");
    place.file("whamm_core.wat", CORE);
    let library = format!(
        "{}+{}",
        place.file("existing.wat", EXISTING),
        place.0.join("whamm_core.wat").display()
    );
    let script =
        place.file("calls.mm", "report var calls: u32; wasm:opcode:call:before { calls++; }");
    let program = place.file("program.wat", PROGRAM);
    let file = place.0.join("program.aot").display().to_string();
    place.good(&["compile", &program, "-o", &file, "--monitor", &library, "--monitor", &script]);
    place.good(&["verify", &file]);
    // What they were made of is not needed any more.
    for name in ["existing.wat", "whamm_core.wat", "calls.mm"] {
        std::fs::remove_file(place.0.join(name)).expect("it was there");
    }
    let turns = place.file("turns.wat", TURNS);
    for (given, also) in [(&[][..], ""), (&["--monitor", &turns, "--monitor", "icount"], "14")] {
        let mut command = place.command();
        let done = command
            .args(["run", "--invoke", "main"])
            .args(given)
            .args([&file, "7"])
            .output()
            .expect("it starts");
        assert!(done.status.success(), "{}", errors(&done));
        let printed = output_of(&done);
        assert!(printed.starts_with("3\n4 1 7 7 \n4 1 9 3 \n"), "{printed}");
        assert!(
            printed.contains(", calls, u32, i32, script0, , , , , 7") && printed.ends_with(also),
            "{printed}"
        );
    }
    let wrong = place.file("wrong.wat", r#"(module (func (export "wasm:opcode:nopp")))"#);
    assert!(
        place
            .bad(&["compile", &program, "-o", &file, "--monitor", "hotness"])
            .0
            .contains("only modules and scripts")
    );
    let done = place.run(&["compile", &program, "-o", &file, "--monitor", &wrong]);
    assert!(
        !done.status.success() && errors(&done).contains("did you mean nop?"),
        "{}",
        errors(&done)
    );
}

#[test]
fn a_file_has_code_that_counts_if_a_monitor_in_it_only_adds() {
    let place = Place::new("modules-counting-files");
    let program = place.file("program.wat", PROGRAM);
    let adds = "wasm:opcode:if:before { report var even: u32; report var odd: u32; if (arg0 != 0) { even++; } else { odd++; } }";
    let looks = "report var last: i32; wasm:opcode:i32.sub:before { last = arg1; }";
    let goes = "use dyninstr; wasm:opcode:*:before { report var seen: bool; seen = true; dyninstr.remove_probe(probe_id); }";
    let all = [
        ("adds", adds, true, "even, u32"),
        ("looks", looks, false, "last, i32"),
        ("goes", goes, false, "seen, bool"),
    ];
    for (name, text, counts, said) in all {
        let script = place.file(&format!("{name}.mm"), text);
        let file = place.0.join(format!("{name}.aot")).display().to_string();
        place.good(&["compile", &program, "-o", &file, "--monitor", &script]);
        place.good(&["verify", &file]);
        let module =
            wasm_aot::Module::from_file(&wasm_aot::Engine::default(), &file).expect("it is loaded");
        assert_eq!(module.counts().is_some(), counts, "{name}");
        let fresh = place.good(&["run", "--invoke", "main", "--monitor", &script, &program, "7"]);
        let told = place.good(&["run", "--invoke", "main", &file, "7"]);
        assert!(told == fresh && told.contains(said), "{told} and {fresh}");
    }
}

#[test]
fn a_file_without_sites_is_compiled_anew_for_monitors_that_come_and_go() {
    let place = Place::new("modules-without-sites");
    let text = "(module (func $f (export \"main\") (result i32) (i32.const 7)))";
    let (program, file) =
        (place.file("program.wat", text), place.0.join("program.aot").display().to_string());
    place.good(&["compile", "--sites", "none", &program, "-o", &file]);
    // It finds nothing, so that the file's code would do for it.
    let turns = place.file("turns.wat", TURNS);
    let timed = [
        "--monitor",
        "latency,function=*,policy=exact",
        "--monitor",
        &turns,
        "--csv",
        "--report",
        "report.csv",
    ];
    let mut command = place.command();
    let done = command
        .args(["run", "--invoke", "main"])
        .args(timed)
        .arg(&file)
        .output()
        .expect("it starts");
    assert!(done.status.success(), "{}", errors(&done));
    let report = std::fs::read_to_string(place.0.join("report.csv")).expect("a report");
    assert!(report.lines().any(|line| line.starts_with("latency,f,1,1,")), "{report}");
}

#[test]
fn a_report_comes_again_and_again_until_the_program_ends() {
    let place = Place::new("modules-every");
    let turns = place.file("turns.wat", TURNS);
    let running = Running::start(&place, &[&turns], &place.file("program.wat", CALLING));
    let pid = running.child.as_ref().expect("it runs").id().to_string();
    let mut command = place.command();
    command.env("XDG_RUNTIME_DIR", &place.0).args(["ctl", &pid, "report", "--every", "20ms"]);
    let asking = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(400));
    running.end();
    let asked = asking.wait_with_output().expect("it ends");
    assert!(asked.status.success(), "{}", errors(&asked));
    assert!(output_of(&asked).len() > 2, "{}", output_of(&asked));
}

#[test]
fn scripts_and_modules_are_attached_to_a_program_that_runs_and_detached() {
    let place = Place::new("modules-attach");
    let turns = place.file("turns.wat", TURNS);
    let script = place.file("ways.mm", "wasm:opcode:br:before { report var gone: u64; gone++; }");
    for program in [SPIN, CALLING] {
        let running = Running::start(&place, &[], &place.file("program.wat", program));
        assert!(running.good(&["attach", &turns]).starts_with("turns is attached"));
        let deadline = Instant::now() + Duration::from_secs(30);
        while running.number(&["report", "turns"]) == 0 {
            assert!(Instant::now() < deadline, "it counts");
        }
        running.good(&["attach", &script]);
        std::thread::sleep(Duration::from_millis(30));
        let report = running.good(&["report", "ways"]);
        assert!(report.contains(", gone, u64, i64, script0, "), "{report}");
        assert!(running.good(&["status"]).contains("module    ways: 1 of 1 probes are called"));
        running.good(&["detach", "turns"]);
        assert!(errors(&running.ask(&["report", "turns"])).contains("turns is not attached"));
        assert!(errors(&running.ask(&["attach", &script])).contains("already"));
        let absent = running.ask(&["attach", "./absent.wasm"]);
        assert!(
            !absent.status.success() && errors(&absent).contains("absent.wasm"),
            "{}",
            errors(&absent)
        );
        let wrong = place.file("wrong.wat", r#"(module (func (export "wasm:opcode:nopp")))"#);
        assert!(errors(&running.ask(&["attach", &wrong])).contains("did you mean nop?"));
        let done = running.end();
        assert!(output_of(&done).contains(", gone, u64, "), "{}", output_of(&done));
    }
}

#[test]
fn rules_functions_and_single_places_are_switched() {
    let place = Place::new("modules-select");
    let counts = r#"(module (import "wizeng" "puti" (func $print (param i32))) (import "wizeng" "putc" (func $put (param i32)))
        (global $calls (mut i32) (i32.const 0)) (global $gets (mut i32) (i32.const 0)) (global $sets (mut i32) (i32.const 0))
        (func (export "wasm:opcode:call") (global.set $calls (i32.add (global.get $calls) (i32.const 1))))
        (func (export "wasm:opcode:local.get") (global.set $gets (i32.add (global.get $gets) (i32.const 1))))
        (func (export "wasm:opcode:local.set (pc)") (param i32) (global.set $sets (i32.add (global.get $sets) (i32.const 1))))
        (func (export "wasm:exit") (call $print (global.get $calls)) (call $put (i32.const 32))
            (call $print (global.get $gets)) (call $put (i32.const 32)) (call $print (global.get $sets))))"#;
    let monitor = format!("{},toggle", place.file("counts.wat", counts));
    let running = Running::start(&place, &[&monitor], &place.file("program.wat", CALLING));
    let report = || {
        let text = running.good(&["report"]);
        text.split(' ').map(|number| number.parse::<i64>().expect("a number")).collect::<Vec<_>>()
    };
    // Whether each of the three goes on.
    let goes_on = || {
        std::thread::sleep(Duration::from_millis(10));
        let before = report();
        std::thread::sleep(Duration::from_millis(30));
        report().iter().zip(before).map(|(now, before)| *now != before).collect::<Vec<_>>()
    };
    assert_eq!(goes_on(), [true, true, true]);
    assert_eq!(
        running.good(&["off", "counts:opcode:call"]),
        "counts:opcode:call is off: 3 of 4 probes are called\n"
    );
    assert_eq!(goes_on(), [false, true, true]);
    running.good(&["off", "counts:opcode:local.*@_start"]);
    assert_eq!(goes_on(), [false, true, false]);
    running.good(&["off", "counts@work+1"]);
    assert_eq!(goes_on(), [false, false, false]);
    running.good(&["on", "counts@1+5"]);
    assert_eq!(
        running.good(&["on", "counts:opcode:call@1"]),
        "counts:opcode:call@1 is on: 2 of 4 probes are called\n"
    );
    assert_eq!(goes_on(), [true, true, false]);
    running.good(&["on", "counts"]);
    assert_eq!(goes_on(), [true, true, true]);
    running.good(&["off"]);
    assert_eq!(goes_on(), [false, false, false]);
    running.good(&["on"]);
    assert_eq!(goes_on(), [true, true, true]);
    for (which, said) in [
        ("counts:opcode:nop", "no probe is there"),
        ("counts@nobody", "no probe is there"),
        ("counts@", "behind @"),
    ] {
        assert!(errors(&running.ask(&["off", which])).contains(said), "{which}");
    }
}

#[test]
fn a_monitor_ends_by_time_and_by_the_number_of_its_calls() {
    let place = Place::new("modules-ends-by-itself");
    let turns = place.file("turns.wat", TURNS);
    let program = place.file("program.wat", CALLING);
    let running = Running::start(&place, &[&format!("{turns},calls=1000")], &program);
    // A loop and a call.
    running.await_number(&["report"], 2000);
    running.await_status("turns: 0 of 2 probes are called");
    running.good(&["on", "turns:opcode:call"]);
    running.await_number(&["report"], 3000);
    drop(running);
    let running = Running::start(&place, &[&format!("{turns},for=1s")], &program);
    running.await_status("turns: 0 of 2 probes are called");
    let first = running.number(&["report"]);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(running.number(&["report"]), first);
    assert_ne!(first, 0);
    drop(running);
    let running = Running::start(&place, &[&format!("{turns},off")], &program);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(running.number(&["report"]), 0);
    running.good(&["on", "turns"]);
    let deadline = Instant::now() + Duration::from_secs(30);
    while running.number(&["report"]) == 0 {
        assert!(Instant::now() < deadline, "it counts");
    }
}

/// A library of the name that modules of the existing compiler import: prints numbers and words,
/// and has the memory that words are in.
const CORE: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (func $puts (export "puts") (param $at i32) (param $len i32)
        (i32.store (i32.const 0) (local.get $at)) (i32.store (i32.const 4) (local.get $len))
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
    (func $putc (export "putc") (param i32)
        (i32.store8 (i32.const 16) (local.get 0)) (call $puts (i32.const 16) (i32.const 1)))
    (func $putu32 (export "putu32") (param $n i32)
        (if (i32.ge_u (local.get $n) (i32.const 10)) (then (call $putu32 (i32.div_u (local.get $n) (i32.const 10)))))
        (call $putc (i32.add (i32.const 48) (i32.rem_u (local.get $n) (i32.const 10))))))"#;

/// A module as the existing compiler makes them: a record of each site in a memory of its own,
/// chained by distances; names of functions through a buffer; the names of exports with two blanks
/// and a comma too many.
const EXISTING: &str = r#"(module
    (import "whamm_core" "putc" (func $putc (param i32))) (import "whamm_core" "putu32" (func $putu32 (param i32)))
    (import "whamm_core" "memory" (memory $core 1))
    (memory $texts (export "whamm_buffer") 1) (memory $records 1)
    (global $next (mut i32) (i32.const 4)) (global $last (mut i32) (i32.const -1)) (global $first (mut i32) (i32.const -1))
    (global (export "whamm_buffer:start") i32 (i32.const 0)) (global (export "whamm_buffer:max") i32 (i32.const 1024))
    ;; next, length of the name, fid, pc, value
    (func $__whamm_alloc (export "$20") (param $at i32) (param $len i32) (param $fid i32) (param $pc i32) (result i32) (local $new i32)
        (local.set $new (global.get $next))
        (if (i32.eq (global.get $first) (i32.const -1)) (then (global.set $first (local.get $new))))
        (if (i32.ne (global.get $last) (i32.const -1))
            (then (i32.store $records (global.get $last) (i32.sub (local.get $new) (global.get $last)))))
        (i32.store $records (local.get $new) (i32.const -1))
        (i32.store $records offset=4 (local.get $new) (local.get $len))
        (i32.store $records offset=8 (local.get $new) (local.get $fid))
        (i32.store $records offset=12 (local.get $new) (local.get $pc))
        (global.set $last (local.get $new))
        (global.set $next (i32.add (local.get $new) (i32.const 20)))
        (local.get $new))
    (func $__whamm_predicate (export "$70") (param $pc i32) (param $fid i32) (result i32)
        (i32.and (i32.gt_u (local.get $pc) (i32.const 4)) (i32.eq (local.get $fid) (i32.const 1))))
    (func $count (param $at i32)
        (i32.store $records offset=16 (local.get $at) (i32.add (i32.load $records offset=16 (local.get $at)) (i32.const 1))))
    (func (export "wasm:opcode:call / $70(pc, fid) / ($20(fname, fid, pc), )") (param i32) (call $count (local.get 0)))
    (func (export "wasm:opcode:if  ($20(fname, fid, pc), arg0)") (param $at i32) (param $arg i32)
        (if (local.get $arg) (then (call $count (local.get $at)))))
    (func $number (param i32) (call $putu32 (local.get 0)) (call $putc (i32.const 32)))
    (func (export "wasm:exit") (local $at i32)
        (local.set $at (global.get $first))
        (block $done (loop $again
            (br_if $done (i32.eq (local.get $at) (i32.const -1)))
            (call $number (i32.load $records offset=4 (local.get $at)))
            (call $number (i32.load $records offset=8 (local.get $at)))
            (call $number (i32.load $records offset=12 (local.get $at)))
            (call $number (i32.load $records offset=16 (local.get $at)))
            (call $putc (i32.const 10))
            (br_if $done (i32.eq (i32.load $records (local.get $at)) (i32.const -1)))
            (local.set $at (i32.add (local.get $at) (i32.load $records (local.get $at))))
            (br $again)))))"#;

/// Two functions with names, calls and conditions.
const PROGRAM: &str = r#"(module
    (func $even (param $n i32) (result i32) (i32.eqz (i32.and (local.get $n) (i32.const 1))))
    (func $main (export "main") (param $n i32) (result i32) (local $found i32)
        (loop $next
            (if (call $even (local.get $n)) (then (local.set $found (i32.add (local.get $found) (i32.const 1)))))
            (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
        (local.get $found)))"#;

#[test]
fn modules_of_the_existing_compiler_are_recognised_and_run() {
    let place = Place::new("modules-existing");
    place.file("whamm_core.wat", CORE);
    let core = place.0.join("whamm_core.wat").display().to_string();
    let monitor = format!("{}+{core}", place.file("existing.wat", EXISTING));
    let program = place.file("program.wat", PROGRAM);
    let mut command = place.command();
    let done = command
        .args(["run", "--invoke", "main", "--monitor", &monitor, &program, "7"])
        .output()
        .expect("it starts");
    assert!(done.status.success(), "{}", errors(&done));
    assert!(errors(&done).contains("the existing compiler has made it"), "{}", errors(&done));
    // The names' lengths, functions, places, and how often.
    assert_eq!(output_of(&done), "3\n4 1 7 7 \n4 1 9 3 \n");
}

#[test]
fn a_monitor_is_written_in_rust() {
    let library = std::process::Command::new("rustc")
        .args(["--print", "target-libdir", "--target", "wasm32-wasip1"])
        .output();
    let folder = library.expect("rustc").stdout;
    if !std::path::Path::new(String::from_utf8_lossy(&folder).trim()).exists() {
        eprintln!(
            "skipped: the library of Rust for WASI is not there (rustup target add wasm32-wasip1)"
        );
        return;
    }
    let place = Place::new("modules-rust");
    let source = place.file(
        "calls.rs",
        r#"use std::{cell::RefCell, collections::BTreeMap};
        thread_local! { static CALLS: RefCell<BTreeMap<(u32, u32), u64>> = RefCell::default(); }
        #[unsafe(export_name = "wasm:opcode:call (fid, pc)")]
        pub extern "C" fn called(fid: u32, pc: u32) {
            CALLS.with_borrow_mut(|calls| *calls.entry((fid, pc)).or_default() += 1);
        }
        #[unsafe(export_name = "wasm:exit")]
        pub extern "C" fn report() {
            CALLS.with_borrow(|calls| calls.iter().for_each(|((fid, pc), count)| println!("{fid} {pc} {count}")));
        }"#,
    );
    let module = place.0.join("calls.wasm").display().to_string();
    let mut rustc = std::process::Command::new("rustc");
    rustc.args([
        "--edition=2024",
        "--target=wasm32-wasip1",
        "--crate-type=cdylib",
        "-Copt-level=2",
        "-o",
        &module,
        &source,
    ]);
    assert!(rustc.status().expect("rustc starts").success());
    let program = place.file("program.wat", PROGRAM);
    for monitor in [module.clone(), format!("{module},toggle")] {
        let mut command = place.command();
        let done = command
            .args(["run", "--invoke", "main", "--monitor", &monitor, &program, "7"])
            .output()
            .expect("it starts");
        assert!(done.status.success(), "{}", errors(&done));
        assert_eq!(output_of(&done), "3\n1 7 7\n");
    }
}
