//! Programs that start threads, run by the command.

#[path = "command/place.rs"]
#[allow(dead_code, reason = "not every test needs all of it")]
mod place;

use place::{Place, errors};
use std::process::Output;
use test_support::eventually;

/// A program whose memory has any name. The word at 0 counts arrived threads, the word at 4 never
/// changes, and the results of threads begin at 64.
fn program(main: &str, thread: &str) -> String {
    format!(
        r#"(module
            (import "wasi" "thread-spawn" (func $spawn (param i32) (result i32)))
            (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
            (import "any" "name" (memory 1 4 shared))
            (export "memory" (memory 0))
            (global $own (mut i32) (i32.const 0))
            (func $come (drop (i32.atomic.rmw.add (i32.const 0) (i32.const 1)))
                (drop (memory.atomic.notify (i32.const 0) (i32.const -1))))
            (func $wait_for (param $n i32) (local $seen i32)
                (loop $again
                    (local.set $seen (i32.atomic.load (i32.const 0)))
                    (if (i32.lt_s (local.get $seen) (local.get $n)) (then
                        (drop (memory.atomic.wait32 (i32.const 0) (local.get $seen) (i64.const -1)))
                        (br $again)))))
            (func $wait (call $come) (drop (memory.atomic.wait32 (i32.const 4) (i32.const 0) (i64.const -1))) (unreachable))
            (func $spin (call $come) (loop $l (br $l)))
            ;; A subscription to the monotonic clock, in some years.
            (func $sleep
                (i32.store (i32.const 1040) (i32.const 1)) (i64.store (i32.const 1048) (i64.const 0x0fffffffffffffff))
                (call $come) (drop (call $poll (i32.const 1024) (i32.const 2048) (i32.const 1) (i32.const 3072))) (unreachable))
            (func (export "_start") (local $i i32) {main})
            (func (export "wasi_thread_start") (param $id i32) (param $arg i32) {thread}))"#
    )
}

fn run(place: &Place, arguments: &[&str], main: &str, thread: &str) -> Output {
    let program = place.file("program.wat", program(main, thread));
    let timeout: &[&str] =
        if arguments.contains(&"--timeout") { &[] } else { &["--timeout", "100s"] };
    place.run(&[&["run"], timeout, arguments, &[&program]].concat())
}

#[test]
fn many_threads_have_instances_of_their_own_numbers_and_one_memory() {
    let place = Place::new("spawning-many");
    // Each thread stores its number at the address of its argument, and counts in a global that no
    // other thread sees.
    let main = "(loop $l
            (if (i32.ne (i32.const 0) (i32.lt_s (call $spawn (local.get $i)) (i32.const 1))) (then (call $exit (i32.const 50))))
            (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $l (i32.lt_u (local.get $i) (i32.const 20))))
        (call $wait_for (i32.const 20))
        (local.set $i (i32.const 0))
        (loop $l
            (if (i32.eqz (i32.load (i32.add (i32.const 64) (i32.shl (local.get $i) (i32.const 2))))) (then (call $exit (i32.const 51))))
            (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $l (i32.lt_u (local.get $i) (i32.const 20))))
        (call $exit (i32.add (i32.load (i32.const 0)) (global.get $own)))";
    let thread = "(global.set $own (i32.add (global.get $own) (i32.const 1)))
        (if (i32.ne (global.get $own) (i32.const 1)) (then (unreachable)))
        (i32.store (i32.add (i32.const 64) (i32.shl (local.get $arg) (i32.const 2))) (local.get $id))
        (call $come)";
    let done = run(&place, &[], main, thread);
    assert_eq!(done.status.code(), Some(20), "{}", errors(&done));
    let counted = run(&place, &["--monitor", "icount", "--json"], main, thread);
    let report: serde_json::Value = serde_json::from_slice(&counted.stderr).expect("an object");
    let rows = report["icount"]["rows"].as_array().expect("rows").clone();
    let started =
        rows.iter().find(|row| row["function"] == "wasi_thread_start").expect("it is called");
    assert_eq!(started["calls"], 20);
}

/// Three threads that never end by themselves, and one that acts after they have arrived.
fn others(what: &str) -> String {
    format!(
        "(if (i32.eq (local.get $arg) (i32.const 0)) (then (call $wait)))
        (if (i32.eq (local.get $arg) (i32.const 1)) (then (call $spin)))
        (if (i32.eq (local.get $arg) (i32.const 2)) (then (call $sleep)))
        (call $wait_for (i32.const 3)) {what}"
    )
}

const FOUR: &str = "(loop $l (drop (call $spawn (local.get $i)))
    (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $l (i32.lt_u (local.get $i) (i32.const 4))))";

#[test]
fn exit_and_trap_in_a_thread_end_all_that_wait_sleep_and_spin() {
    let place = Place::new("spawning-ends");
    for main in ["(call $wait)", "(call $spin)", "(call $sleep)"] {
        let done =
            run(&place, &[], &format!("{FOUR} {main}"), &others("(call $exit (i32.const 7))"));
        assert_eq!((done.status.code(), errors(&done).as_str()), (Some(7), ""), "{main}");
        let done = run(&place, &[], &format!("{FOUR} {main}"), &others("(unreachable)"));
        assert_eq!(done.status.code(), Some(134), "{main}: {}", errors(&done));
        assert!(errors(&done).contains("wasm trap: unreachable"), "{}", errors(&done));
        assert!(!errors(&done).contains("interrupted"), "{}", errors(&done));
    }
}

#[test]
fn the_start_s_return_ends_all_threads_and_a_thread_s_return_only_itself() {
    let place = Place::new("spawning-returns");
    let done = run(
        &place,
        &[],
        &format!("{FOUR} (call $wait_for (i32.const 4))"),
        &others("(call $come)"),
    );
    assert_eq!((done.status.code(), errors(&done).as_str()), (Some(0), ""));
    // The end of the time limit is reported once.
    let done = run(&place, &["--timeout", "300ms"], &format!("{FOUR} (call $sleep)"), &others(""));
    assert_eq!(done.status.code(), Some(134), "{}", errors(&done));
    assert_eq!(errors(&done).matches("interrupted").count(), 1, "{}", errors(&done));
}

#[test]
fn each_thread_s_monitor_reads_the_memory_that_they_share() {
    let place = Place::new("spawning-memory");
    // Each thread grows the memory once; the second growth is the last that succeeds.
    let main = format!(
        "(i32.store (i32.const 200) (i32.const 0x6968)) {FOUR} (call $wait_for (i32.const 4)) (nop)"
    );
    let thread = "(nop) (drop (memory.grow (i32.const 1))) (call $come)";
    let script = place.file(
        "reading.mm",
        "var begun: u32 = mem_size(APP_MEMID);
        report var read: u32; report var sizes: u32; report var begins: u32;
        wasm:opcode:nop:before {
            if (read_str(APP_MEMID, 200, 2).contains(\"hi\")) { read++; }
            if (mem_size(APP_MEMID) >= 1 && mem_size(APP_MEMID) <= 4) { sizes++; }
            if (begun > 0) { begins++; }
        }",
    );
    let done = run(&place, &["--monitor", &script, "--report-format", "whamm"], &main, thread);
    assert!(done.status.success(), "{}", errors(&done));
    let report = String::from_utf8_lossy(&done.stdout).into_owned();
    for name in ["read", "sizes", "begins"] {
        let row = report.lines().find(|line| line.contains(&format!(", {name}, "))).expect(&report);
        assert!(row.ends_with(", 5"), "{report}");
    }
}

#[test]
fn each_thread_s_monitor_is_given_texts_in_its_own_buffer() {
    let place = Place::new("spawning-texts");
    let monitor = r#"(module (import "wizeng" "puts" (func $print (param i32 i32)))
        (memory (export "whamm_buffer") 1 1)
        (global (export "whamm_buffer:start") i32 (i32.const 8))
        (global (export "whamm_buffer:max") i32 (i32.const 9))
        (func (export "wasm:opcode:nop (opname)") (param i32 i32)
            (call $print (local.get 0) (local.get 1))))"#;
    let monitor = place.file("texts.wat", monitor);
    let main = format!("{FOUR} (call $wait_for (i32.const 4)) (nop)");
    let done = run(&place, &["--monitor", &monitor], &main, "(nop) (call $come)");
    assert_eq!(String::from_utf8_lossy(&done.stdout), "nop".repeat(5), "{}", errors(&done));
}

#[test]
fn a_thread_that_cannot_be_started_is_a_negative_number() {
    let place = Place::new("spawning-fails");
    // Each instance reserves eight gigabytes for its own memory, and the process has no address
    // space for three.
    let text = r#"(module
        (import "wasi" "thread-spawn" (func $spawn (param i32) (result i32)))
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (import "env" "memory" (memory 1 4 shared))
        (memory 1)
        (export "memory" (memory 0))
        (func (export "_start") (call $exit (i32.add (i32.const 3) (i32.lt_s (call $spawn (i32.const 0)) (i32.const 0)))))
        (func (export "wasi_thread_start") (param i32 i32) (unreachable)))"#;
    let program = place.file("program.wat", text);
    let mut limited = std::process::Command::new("sh");
    let command =
        format!("ulimit -v 21000000 && exec \"$0\" run --no-control --no-cache {program}");
    let done = limited
        .env("HOME", &place.0)
        .args(["-c", &command, env!("CARGO_BIN_EXE_wasm-aot")])
        .output()
        .expect("it starts");
    assert_eq!(done.status.code(), Some(4), "{}", errors(&done));
    let lacks = place.file("lacks.wat", text.replace("wasi_thread_start", "start_thread"));
    let done = place.run(&["run", "--timeout", "100s", &lacks]);
    assert!(
        done.status.code() == Some(1) && errors(&done).contains("exports no wasi_thread_start"),
        "{}",
        errors(&done)
    );
}

#[test]
fn each_thread_has_instances_of_monitors_that_are_called() {
    let place = Place::new("spawning-monitor");
    // It stores the thread of the notification, and prints it when an addition is executed.
    let monitor = r#"(module (import "wizeng" "puti" (func $print (param i32))) (import "wasm-aot:ext" "v1" (func))
        (global $thread (mut i32) (i32.const -1))
        (func (export "engine:thread_start (thread)") (param i32) (global.set $thread (local.get 0)))
        (func (export "wasm:opcode:i32.atomic.rmw.add (arg0)") (param i32) (call $print (global.get $thread)))
        (func (export "engine:thread_end (thread)") (param i32)
            (if (i32.ne (global.get $thread) (local.get 0)) (then (unreachable)))))"#;
    let monitor = place.file("calling.wat", monitor);
    let main = format!("{FOUR} (call $wait_for (i32.const 4))");
    let done = run(&place, &["--monitor", &monitor], &main, "(call $come)");
    assert_eq!((done.status.code(), errors(&done).as_str()), (Some(0), ""));
    let mut threads = done.stdout;
    threads.sort_unstable();
    assert_eq!(String::from_utf8_lossy(&threads), "1234");
    // A monitor that only sums needs one instance.
    let adds = r#"(module (import "wizeng" "puti" (func $print (param i32))) (global $n (mut i32) (i32.const 0))
        (func (export "wasm:opcode:i32.atomic.rmw.add") (global.set $n (i32.add (global.get $n) (i32.const 1))))
        (func (export "wasm:exit") (call $print (global.get $n))))"#;
    let adds = place.file("adds.wat", adds);
    let done = run(&place, &["--monitor", &adds], &main, "(call $come)");
    assert_eq!(
        (done.status.code(), String::from_utf8_lossy(&done.stdout).as_ref()),
        (Some(0), "4"),
        "{}",
        errors(&done)
    );
}

/// The counts of accesses by address, at which threads count their arrival.
const ADDED: &str = "report var seen: map<u32, u32>; report unshared var all: i64;
    wasm:opcode:i32.atomic.rmw.add:before { seen[effective_addr]++; all += arg0 as i64; }";

#[test]
fn what_instances_of_threads_report_is_one_report() {
    let place = Place::new("spawning-reports");
    let script = place.file("added.mm", ADDED);
    // Two arrive twice and end, two wait until the start function has returned.
    let thread = "(call $come)
        (if (i32.lt_u (local.get $arg) (i32.const 2)) (then (call $come) (return)))
        (call $wait)";
    let main = format!("{FOUR} (call $wait_for (i32.const 8))");
    for options in ["", ",toggle", ",calls=1000"] {
        let monitor = format!("{script}{options}");
        let done = run(&place, &["--monitor", &monitor], &main, thread);
        let report = errors(&done);
        assert_eq!((done.status.code(), done.stdout.as_slice()), (Some(0), &b""[..]), "{options}");
        assert!(report.contains("effective_addr  seen\n             0     8\n"), "{report}");
        assert!(report.contains("\nall           8\n"), "{report}");
        assert_eq!(report.matches("== added ==").count(), 1, "{options}: {report}");
    }
    let whamm = ["--monitor", &script, "--report-format", "whamm"];
    let done = run(&place, &whamm, &main, thread);
    let report = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(report.lines().any(|row| row.ends_with(", 0->8")), "{report}");
    assert_eq!(report.matches("id, id_type").count(), 1, "{report}");
    let done = run(&place, &["--monitor", &script, "--json"], &main, thread);
    let said: serde_json::Value = serde_json::from_slice(&done.stderr).expect("an object");
    let rows = said["added"]["rows"].as_array().expect("rows");
    let seen = rows.iter().find(|row| row["variable"] == "seen").expect("a map");
    assert_eq!((&seen["key"], &seen["value"]), (&serde_json::json!([0]), &8.into()), "{said}");
}

#[test]
fn monitors_in_a_file_of_machine_code_look_at_threads() {
    let place = Place::new("spawning-file");
    let script = place.file("added.mm", ADDED);
    // A module whose functions are called: its output is no sum.
    let calling = r#"(module (import "wizeng" "puti" (func $print (param i32)))
        (func (export "wasm:opcode:i32.const (imm0)") (param i32)
            (if (i32.eq (local.get 0) (i32.const 777)) (then (call $print (local.get 0))))))"#;
    let calling = place.file("calling.wat", calling);
    let main = format!("{FOUR} (call $wait_for (i32.const 4))");
    let program = place.file("program.wat", program(&main, "(drop (i32.const 777)) (call $come)"));
    let file = place.0.join("program.aot").display().to_string();
    place.good(&["compile", &program, "-o", &file, "--monitor", &script, "--monitor", &calling]);
    let done = place.run(&["run", "--timeout", "100s", &file]);
    let (said, report) = (String::from_utf8_lossy(&done.stdout).into_owned(), errors(&done));
    assert_eq!((done.status.code(), said.as_str()), (Some(0), "777777777777"), "{report}");
    assert!(report.contains("effective_addr  seen\n             0     4\n"), "{report}");
    assert!(report.contains("\nall           4\n"), "{report}");
}

#[test]
fn a_monitor_that_cannot_have_instances_is_named_before_a_thread_needs_one() {
    let place = Place::new("spawning-unmergeable");
    let script = "report var last: i32; wasm:opcode:i32.atomic.rmw.add:before { last = arg0; }";
    let script = place.file("last.mm", script);
    let note = "monitor last: note: the program ends when it starts a thread: what it reports cannot be merged: last";
    let done = run(&place, &["--monitor", &script], "(call $come)", "(call $come)");
    assert_eq!(done.status.code(), Some(0), "{}", errors(&done));
    assert!(errors(&done).contains(note), "{}", errors(&done));
    assert!(errors(&done).contains("\nlast          1\n"), "{}", errors(&done));
    let done =
        run(&place, &["--monitor", &script], &format!("{FOUR} (call $wait)"), "(call $come)");
    assert_eq!(done.status.code(), Some(1), "{}", errors(&done));
    assert!(errors(&done).contains("monitor last: it does more than add"), "{}", errors(&done));
}

#[test]
fn each_thread_has_a_budget_of_instructions() {
    let place = Place::new("spawning-budget");
    // A thread that computes, and ends the program when its own budget is used up.
    let done = run(
        &place,
        &["--max-instructions", "20000"],
        &format!("{FOUR} (call $wait)"),
        "(call $spin)",
    );
    assert_eq!(done.status.code(), Some(134), "{}", errors(&done));
    assert!(errors(&done).contains("the budget of instructions is used up"), "{}", errors(&done));
    assert!(errors(&done).contains(" - spin\n"), "{}", errors(&done));
    // Four threads together use more than the budget of one.
    let thread = "(local $i i32)
        (loop $l (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $l (i32.lt_u (local.get $i) (i32.const 1000))))
        (call $come)";
    let main = format!("{FOUR} (call $wait_for (i32.const 4))");
    for (budget, code) in [("10000", 0), ("5000", 134)] {
        let done = run(&place, &["--max-instructions", budget], &main, thread);
        assert_eq!(done.status.code(), Some(code), "{}", errors(&done));
    }
}

#[test]
fn the_state_of_a_thread_that_traps_is_dumped() {
    let place = Place::new("spawning-dump");
    let dump = place.0.join("thread.core");
    let dump_option = dump.display().to_string();
    let done = run(
        &place,
        &["--dump", &dump_option],
        &format!("{FOUR} (call $wait)"),
        "(if (i32.eq (local.get $arg) (i32.const 3)) (then (call $wait_for (i32.const 3)) (unreachable))) (call $wait)",
    );
    assert_eq!(done.status.code(), Some(134), "{}", errors(&done));
    let dump = std::fs::read(&dump).expect("it was written");
    let sections = wasmparser::Parser::new(0).parse_all(&dump);
    let names: Vec<String> = sections
        .filter_map(|section| match section.expect("a core dump is a module") {
            wasmparser::Payload::CustomSection(section) => Some(section.name().to_owned()),
            _ => None,
        })
        .collect();
    assert!(
        ["core", "corestack"].iter().all(|name| names.iter().any(|other| other == name)),
        "{names:?}"
    );
}

#[test]
fn arcs_of_all_threads_are_told_together() {
    let place = Place::new("spawning-arcs");
    let main = "(drop (call $spawn (i32.const 0))) (drop (call $spawn (i32.const 0)))
        (call $wait_for (i32.const 2))
        (call $set (i32.const 0) (i32.const 2) (i32.const 1) (f64.const 5)) (call $exit (i32.const 0))";
    // A thread that clears its arcs clears only its own.
    let thread = "(call $set (i32.const 0) (i32.const 9) (i32.const 1) (f64.const 1)) (call $clear)
        (call $set (i32.const 0) (i32.const 1) (i32.const 1) (f64.const 20))
        (call $add (i32.const 1) (i32.const 2) (i32.const 30) (f64.const 10)) (call $come)";
    let host = r#"(module (@custom "fastinst:functions" "1 begin\n2 work\n")
        (import "prof" "clearResults" (func $clear))
        (import "prof" "setArcData" (func $set (param i32 i32 i32 f64)))
        (import "prof" "addArcData" (func $add (param i32 i32 i32 f64)))"#;
    let text = program(main, thread).replacen("(module", host, 1);
    let program = place.file("program.wat", text);
    let done = place.run(&["run", "--timeout", "100s", &program]);
    let said = errors(&done);
    assert_eq!((done.status.code(), said.matches("Flat profile:").count()), (Some(0), 1), "{said}");
    let line = |name: &str| said.lines().find(|line| line.ends_with(name)).unwrap_or("");
    let fields = |name: &str| line(name).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(fields("  begin")[3], "2", "{said}");
    assert_eq!(fields("  work")[3], "61", "{said}");
    assert!(said.contains("60/61"), "{said}");
}

#[test]
fn threads_of_a_profiled_program_hand_over_what_they_have_called() {
    let place = Place::new("spawning-profiled");
    let main = "(drop (call $spawn (i32.const 0))) (drop (call $spawn (i32.const 0)))
        (call $wait_for (i32.const 2)) (call $step) (call $exit (i32.const 0))";
    let thread = "(call $step) (call $step) (call $come)";
    let step = "(func $step (call $deeper)) (func $deeper) (func $come";
    let text = program(main, thread).replacen("(func $come", step, 1);
    let module = wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}"));
    let options = whamm_profile::Options { host_api: true, ..Default::default() };
    let profiled = whamm_profile::profile(&module, &options).unwrap_or_else(|e| panic!("{e}"));
    let program = place.file("program.wasm", profiled.module);
    // A thread that has not returned at the end of the program has not passed on its data yet.
    eventually("both threads have returned", || {
        let done = place.run(&["run", "--timeout", "100s", &program]);
        let said = errors(&done);
        assert_eq!(done.status.code(), Some(0), "{said}");
        let line = |name: &str| said.lines().find(|line| line.ends_with(name)).unwrap_or("");
        let calls = |name: &str| line(name).split_whitespace().nth(3).unwrap_or("").to_owned();
        let found = calls("  step");
        assert!(found == calls("  deeper") && ["1", "3", "5"].contains(&found.as_str()), "{said}");
        found == "5"
    });
}
