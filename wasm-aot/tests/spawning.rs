//! Programs that start threads, as the command runs them.

#[path = "command/place.rs"]
#[allow(dead_code, reason = "not every test needs all of it")]
mod place;

use place::{Place, errors};
use std::process::Output;

/// A program whose memory has any name. Word 0 counts threads that have come, word 4 is never
/// changed, from 64 on is what threads leave.
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
    // Each leaves its number where its argument says, and counts in a global that nobody else sees.
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

/// Three threads that never end by themselves, and one that does something when they have come.
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
    // Whose time is over is told once.
    let done = run(&place, &["--timeout", "300ms"], &format!("{FOUR} (call $sleep)"), &others(""));
    assert_eq!(done.status.code(), Some(134), "{}", errors(&done));
    assert_eq!(errors(&done).matches("interrupted").count(), 1, "{}", errors(&done));
}

#[test]
fn a_thread_that_cannot_be_started_is_a_negative_number() {
    let place = Place::new("spawning-fails");
    // Each instance reserves eight gigabytes for a memory of its own, and the process has no room
    // for three.
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
fn a_monitor_that_is_called_is_named_when_a_thread_would_need_one_of_its_own() {
    let place = Place::new("spawning-monitor");
    let monitor = r#"(module (import "wizeng" "puti" (func $print (param i32)))
        (func (export "wasm:opcode:i32.atomic.rmw.add (pc)") (param i32) (call $print (local.get 0))))"#;
    let monitor = place.file("calling.wat", monitor);
    let done = run(
        &place,
        &["--monitor", &monitor],
        "(drop (call $spawn (i32.const 0))) (call $wait_for (i32.const 1))",
        "(call $come)",
    );
    assert!(
        !done.status.success() && errors(&done).contains("monitor calling"),
        "{}",
        errors(&done)
    );
    let adds = r#"(module (import "wizeng" "puti" (func $print (param i32))) (global $n (mut i32) (i32.const 0))
        (func (export "wasm:opcode:i32.atomic.rmw.add") (global.set $n (i32.add (global.get $n) (i32.const 1))))
        (func (export "wasm:exit") (call $print (global.get $n))))"#;
    let adds = place.file("adds.wat", adds);
    let main = format!("{FOUR} (call $wait_for (i32.const 4))");
    let done = run(&place, &["--monitor", &adds], &main, "(call $come)");
    assert_eq!(
        (done.status.code(), String::from_utf8_lossy(&done.stdout).as_ref()),
        (Some(0), "4"),
        "{}",
        errors(&done)
    );
}
