//! Events that monitors receive, of instructions and of the engine.

use super::place::{Place, errors};
use super::running::{CALLING, Running};
use super::{NOTHING, output_of, run};
use std::path::Path;
use std::process::Output;

/// Reports in the row format of the existing compiler.
const WHAMM: [&str; 2] = ["--report-format", "whamm"];

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
    // Scripts can name them, too: each is executed once, except two nested `try`, and a handler
    // runs if its clause caught.
    let script = "report var tries: u32; report var rethrown: u32; report var ends: u32;
        report var caught: u32; report var caught_all: u32; report var missed: u32;
        wasm:opcode:try:before { tries++; } wasm:opcode:rethrow:before / imm0 == 0 / { rethrown++; }
        wasm:opcode:delegate:before { ends++; } wasm:opcode:catch:after / imm0 == 0 / { caught++; }
        wasm:opcode:catch_all:after { caught_all++; } wasm:opcode:catch*:before { missed++; }";
    let done = run(&place, &WHAMM, &[&place.file("legacy.mm", script)], &program);
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

/// The rows of a report.
fn rows(done: &Output) -> Vec<String> {
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
}

/// The rows of a script that is rewritten into a program.
fn rows_inside(place: &Place, script: &str, program: &str) -> Vec<String> {
    let options =
        whamm::Options { destination: whamm::Destination::Console, ..whamm::Options::default() };
    let scripts = [whamm::Source::new("script.mm", script)];
    let rewritten = whamm::instrument(&scripts, &[], program.as_bytes(), &options).expect("valid");
    let rewritten_place = place.0.join("rewritten.wasm");
    std::fs::write(&rewritten_place, &rewritten.module).expect("it is written");
    rows(&run(place, &[], &[], &rewritten_place.display().to_string()))
}

/// The rows of a script that is attached to a program; rewritten into the program, it must report
/// the same.
pub(super) fn rows_of_both_targets(place: &Place, script: &str, program: &str) -> Vec<String> {
    let monitor = place.file("script.mm", script);
    let attached = rows(&run(place, &WHAMM, &[&monitor], &place.file("program.wat", program)));
    let inside = rows_inside(place, script, program);
    // Replaced code has no rows in a rewritten program.
    let some = |rows: &[String]| -> Vec<String> {
        rows.iter().filter(|row| !row.ends_with(" 0")).cloned().collect()
    };
    assert_eq!(some(&attached), some(&inside));
    attached
}

#[test]
fn the_older_encoding_of_exceptions_is_told_alike_on_both_targets() {
    let place = Place::new("modules-legacy-both");
    let program = r#"(module (tag $t (param i32)) (tag $e) (memory (export "memory") 1)
        (func $throws (param i32)
            (if (i32.eqz (local.get 0)) (then (throw $e)))
            (if (i32.eq (local.get 0) (i32.const 3)) (then (throw $t (local.get 0)))))
        (func $between (param i32) (call $throws (local.get 0)))
        (func $f (param i32) (result i32)
            try (result i32)
                try (result i32)
                    (call $between (local.get 0))
                    (if (i32.eq (local.get 0) (i32.const 5)) (then (return (i32.const 55))))
                    (i32.const 9)
                catch $e
                    rethrow 0
                end
                nop
            catch $t
                i32.const 100
                i32.add
            catch_all
                try try nop (call $between (i32.const 0)) delegate 0 nop catch_all nop end
                i32.const -1
            end
            nop)
        (func (export "_start") (local i32)
            (loop
                (drop (call $f (local.get 0)))
                (local.set 0 (i32.add (local.get 0) (i32.const 1)))
                (br_if 0 (i32.lt_s (local.get 0) (i32.const 7))))))"#;
    // Counters of single instructions, of regions, of blocks, in functions and at their ends.
    let script = "report var total: u64; wasm:opcode:*:before { total++; }
        wasm:opcode:*:before { report var n: u32; n++; }
        wasm:opcode:*:before / fid != 1 / { report var last: i32; last = opidx as i32; }
        wasm:opcode:catch*|delegate|call|end:after { report var behind: u32; behind++; }
        wasm:opcode:try:entry { report var entered: u32; entered++; }
        wasm:opcode:try:exit { report var fell: u32; fell++; }
        wasm:opcode:try:after { report var over: u32; over++; }
        wasm:func:exit { report var returned: u32; returned++; }
        wasm:func:unwind { report var left: u32; left++; }
        report frame var own: u32; wasm:opcode:nop|call:before { own++; }
        wasm:block:start { report var blocks: u32; blocks++; }
        wasm:block:end { report var instructions: u32; instructions = instructions + instr_count; }";
    let told = rows_of_both_targets(&place, script, program);
    // The inner `try` is left by falling through for 1, 2, 4 and 6; for 5 by `return`.
    for row in ["fell f 3 4", "over f 1 6", "left between 5 3", "own between  8"] {
        assert!(told.iter().any(|one| one == row), "{row}: {told:#?}");
    }
}

#[test]
fn what_gives_nothing_is_replaced_on_both_targets() {
    let place = Place::new("modules-replaced");
    let program = r#"(module (memory (export "memory") 1)
        (global $g (mut i32) (i32.const 3)) (global $h (mut i64) (i64.const 4))
        (func (export "_start") (local i32)
            nop
            (global.set $g (i32.const 7)) (global.set $h (i64.const 8))
            (local.set 0 (i32.const 5)) (drop (local.get 0))
            (i32.store (i32.const 16) (i32.const 9))
            (drop (i32.load (i32.const 16)))
            (drop (global.get $g)) (drop (global.get $h))))"#;
    let script = "wasm:opcode:nop:alt { report var n: u32; n++; }
        wasm:opcode:global.set:alt / imm0 == 0 / { report var set: u32; set++; drop_args(); }
        wasm:opcode:i32.store:alt { report var stored: i32; stored = arg0; }
        wasm:opcode:i32.load:after { report var loaded: i32; loaded = res0; }
        wasm:opcode:global.get(res0: i32):after { report var g: i32; g = res0; }
        wasm:opcode:global.get(res0: i64):after { report var h: i64; h = res0; }";
    let told = rows_of_both_targets(&place, script, program);
    for row in ["n #0 3 1", "set #0 6 1", "stored #0 23 9", "loaded #0 28 0", "h #0 35 8"] {
        assert!(told.iter().any(|one| one == row), "{row}: {told:#?}");
    }
    assert!(told.iter().any(|one| one.starts_with("g #0 ") && one.ends_with(" 3")), "{told:#?}");
    // Its operand stays.
    let rules = "wasm:opcode:br_on_null:* { report var n: u32; n++; }";
    let program = r#"(module (memory (export "memory") 1)
        (func $f (export "_start") (block (br_on_null 0 (ref.func $f)) drop)))"#;
    let told = rows_of_both_targets(&place, rules, program);
    assert_eq!(told.iter().filter(|row| row.ends_with(" 1")).count(), 3, "{told:#?}");
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
    let attached = rows_of_both_targets(&place, script, program);
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
    let done = run(&place, &WHAMM, &[&place.file("wide.mm", script)], &program);
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
    let done = run(&place, &WHAMM, &[&monitors[0], &monitors[1]], &program);
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
    // Variants that are compiled while the program runs, for a monitor that is attached later.
    let later = r#"(module (import "wasm-aot:ext" "v1" (func)) (import "wizeng" "puti" (func $print (param i32)))
        (global $n (mut i32) (i32.const 0))
        (func (export "engine:function_compiled (bytes)") (param i64)
            (global.set $n (i32.add (global.get $n) (i64.ne (local.get 0) (i64.const 0)))))
        (func (export "wasm:exit") (call $print (global.get $n))))"#;
    let later = place.file("later.wat", later);
    let running = Running::start(&place, &[&later], &place.file("program.wat", CALLING));
    // A request stops the program, which may execute extra code.
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

/// A program with all features in the table of differences.
const VARIOUS: &str = r#"(module (memory (export "memory") 1) (table 4 funcref)
    (global $g (mut i32) (i32.const 1)) (global $h (mut i64) (i64.const 2))
    (func $one (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
    (func $wide (param i64 f64) (result i64)
        (local.set 0 (i64.add (local.get 0) (i64.const 5)))
        (drop (f64.mul (local.get 1) (f64.const 0.5)))
        (local.get 0))
    (func $early (param i32) (result i32)
        (return (i32.div_u (i32.const 40) (i32.add (local.get 0) (i32.const 1)))))
    (func $ways (param i32)
        (block $out
            (block $in
                (br_table $in $out $in (local.get 0)))
            (nop))
        (if (i32.and (local.get 0) (i32.const 1))
            (then (block (br_if 0 (i32.eq (local.get 0) (i32.const 3))) (nop)))
            (else (global.set $g (local.get 0)))))
    (func $elem (result i32) (i32.const 11))
    (elem declare func $elem)
    (func (export "_start") (local $i i32) (local $w i64)
        (table.fill (i32.const 0) (ref.func $elem) (i32.const 4))
        (loop $again
            (drop (call $one (local.get $i)))
            (local.set $w (call $wide (i64.extend_i32_u (local.get $i)) (f64.const 3)))
            (global.set $h (local.get $w))
            (drop (call $early (local.get $i)))
            (call $ways (local.get $i))
            (drop (call_indirect (result i32) (i32.const 2)))
            (i32.store offset=96 (local.get $i) (i32.const 9))
            (drop (i32.load offset=96 (i32.const 4)))
            (drop (select (i32.const 1) (i32.const 2) (local.get $i)))
            (drop (i32x4.extract_lane 1 (i32x4.splat (local.get $i))))
            (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1)))
                (i32.const 6))))
        (nop)))"#;

/// Scripts of the table that report different rows on each target, with the reasons.
const UNLIKE: [(&str, &str); 4] = [
    ("arg0 = 4", "an engine does not change operands"),
    ("opname.addr()", "texts lie in the memory of the monitor, or in one of the program"),
    (
        "memid(whamm_core)",
        "that memory is the only one of the monitor, and a further one of the program",
    ),
    ("wasm:func:entry { report var n", "rows have the place 0, or that of the first instruction"),
];

#[test]
fn scripts_of_the_table_of_differences_have_the_same_rows_on_both_targets() {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("../whamm/doc/differences.md");
    let table = std::fs::read_to_string(table).expect("it can be read");
    let place = Place::new("modules-differences");
    let (mut counted, mut unlike) = (0, 0);
    for row in table.lines().filter(|row| row.starts_with("| ")) {
        let row = row.replace("\\|", "\u{1}");
        let [subject, _, here, script, _] = row.split(" | ").collect::<Vec<_>>()[..] else {
            continue;
        };
        let script = script.trim_matches('`').replace('\u{1}', "|");
        let is_refused = here.starts_with("an error") && !here.contains("except");
        if subject == "| subject" || is_refused {
            continue;
        }
        if UNLIKE.iter().any(|(part, _)| script.contains(part)) {
            unlike += 1;
            continue;
        }
        // Libraries are the subject of `libraries.rs`; here, none is given.
        if script.starts_with("use ") {
            continue;
        }
        println!("{subject}: {script}");
        counted += usize::from(!rows_of_both_targets(&place, &script, VARIOUS).is_empty());
    }
    assert!(counted > 50 && unlike == UNLIKE.len(), "{counted}, {unlike}");
}
