//! Monitors that are switched, attached and queried while the program runs.

use super::existing::PROGRAM;
use super::output_of;
use super::place::{Place, errors};
use super::running::{CALLING, Running, SPIN, TURNS};
use std::io::Read as _;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use test_support::eventually;

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
    running.goes_on();
    assert_eq!(running.number(&["report"]), seen, "it rests");
    // On for a number of events, and off for some time, repeatedly.
    running.good(&["burst", "1000", "1ms"]);
    running.await_status("observing on, in bursts\n");
    eventually("more is counted", || running.number(&["report"]) > seen);
    running.good(&["burst", "none"]);
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
            eventually("it goes on", || running.number(&["report", "turns"]) != first);
            assert!(errors(&running.ask(&["report", "turn"])).contains("turn is not attached"));
            let done = running.end();
            assert_eq!(done.status.code(), Some(130), "{}", errors(&done));
            // A report that was sent to a client is not printed.
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
            "--monitor-timeout",
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
fn a_report_comes_again_and_again_until_the_program_ends() {
    let place = Place::new("modules-every");
    let turns = place.file("turns.wat", TURNS);
    let running = Running::start(&place, &[&turns], &place.file("program.wat", CALLING));
    let pid = running.child.as_ref().expect("it runs").id().to_string();
    let mut command = place.command();
    command.env("XDG_RUNTIME_DIR", &place.0).args(["ctl", &pid, "report", "--every", "20ms"]);
    let told = place.0.join("told");
    let file = std::fs::File::create(&told).expect("a file");
    let asking = command.stdout(file).stderr(Stdio::piped()).spawn().expect("it starts");
    // A monitor's output need not end with a newline.
    let len = || std::fs::metadata(&told).expect("a file").len();
    eventually("it is told", || len() > 0);
    let once = len();
    eventually("it is told again", || len() > once);
    running.end();
    let asked = asking.wait_with_output().expect("it ends");
    assert!(asked.status.success(), "{}", errors(&asked));
}

#[test]
fn scripts_and_modules_are_attached_to_a_program_that_runs_and_detached() {
    let place = Place::new("modules-attach");
    let turns = place.file("turns.wat", TURNS);
    let script = place.file("ways.mm", "wasm:opcode:br:before { report var gone: u64; gone++; }");
    for program in [SPIN, CALLING] {
        let running = Running::start(&place, &[], &place.file("program.wat", program));
        assert!(running.good(&["attach", &turns]).starts_with("turns is attached"));
        eventually("it counts", || running.number(&["report", "turns"]) != 0);
        running.good(&["attach", &script]);
        eventually("the script has rows", || {
            running.good(&["report", "ways"]).contains("  opcode:br ")
        });
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
        let unfit = place.file("unfit.mm", "wasm:opcode:loop:alt { return 1; }");
        let refused = errors(&running.ask(&["attach", &unfit]));
        let why = "unfit: nothing in the program matches any of its exports: wasm:opcode:loop";
        assert!(refused.contains(why) && refused.contains("and returns 1"), "{refused}");
        assert!(!running.good(&["status"]).contains("unfit"));
        let done = running.end();
        assert!(errors(&done).contains("== ways ==\nfunction  pc "), "{}", errors(&done));
    }
}

#[test]
fn a_monitor_that_ends_the_program_is_named_and_none_that_was_detached() {
    let place = Place::new("modules-blame");
    let turns = place.file("turns.wat", TURNS);
    let failing = r#"(module (func (export "wasm:opcode:loop") unreachable))"#;
    let failing = place.file("failing.wat", failing);
    let mut running = Running::start(&place, &[], &place.file("program.wat", SPIN));
    running.good(&["attach", &turns]);
    running.good(&["detach", "turns"]);
    // The program may end before it has answered.
    running.ask(&["attach", &failing]);
    let done = running.child.take().expect("it runs").wait_with_output().expect("it ends");
    let told = errors(&done);
    assert_eq!(done.status.code(), Some(134), "{told}");
    assert!(
        told.contains("monitor failing: wasm:opcode:loop, at ") && !told.contains("turns"),
        "{told}"
    );
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
    // Which of the three advance from one check to the next.
    let expect = |wanted: [bool; 3]| {
        eventually(&format!("they go on: {wanted:?}"), || {
            let before = report();
            report().iter().zip(before).map(|(now, before)| *now != before).eq(wanted)
        });
    };
    expect([true, true, true]);
    assert_eq!(
        running.good(&["off", "counts:opcode:call"]),
        "counts:opcode:call is off: 3 of 4 probes are called\n"
    );
    expect([false, true, true]);
    running.good(&["off", "counts:opcode:local.*@_start"]);
    expect([false, true, false]);
    running.good(&["off", "counts@work+1"]);
    expect([false, false, false]);
    running.good(&["on", "counts@1+5"]);
    assert_eq!(
        running.good(&["on", "counts:opcode:call@1"]),
        "counts:opcode:call@1 is on: 2 of 4 probes are called\n"
    );
    expect([true, true, false]);
    running.good(&["on", "counts"]);
    expect([true, true, true]);
    running.good(&["off"]);
    expect([false, false, false]);
    // What is switched off while all is off does not switch on anything.
    assert_eq!(
        running.good(&["off", "counts:opcode:call"]),
        "counts:opcode:call is off: 0 of 4 probes are called\n"
    );
    expect([false, false, false]);
    running.good(&["on"]);
    expect([false, true, true]);
    running.good(&["on", "counts"]);
    expect([true, true, true]);
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
    running.goes_on();
    assert_eq!(running.number(&["report"]), first);
    assert_ne!(first, 0);
    drop(running);
    let running = Running::start(&place, &[&format!("{turns},off")], &program);
    running.goes_on();
    assert_eq!(running.number(&["report"]), 0);
    running.good(&["on", "turns"]);
    eventually("it counts", || running.number(&["report"]) != 0);
}

/// Calls a function repeatedly, and prints a letter whenever its result changes. Parts of the
/// function can be replaced.
const CHANGES: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1) (data (i32.const 0) "\10\00\00\00\01\00\00\00")
    (func $block (result i32) (block (result i32) (i32.const 65)))
    (func $if (param i32) (result i32)
        (if (result i32) (local.get 0) (then (i32.const 65)) (else (i32.const 90))))
    (func $branch (result i32) (local $k i32)
        (local.set $k (i32.const 65))
        (block (br 0) (local.set $k (i32.const 66)))
        (local.get $k))
    (func $stop (result i32) (return (i32.const 65)) (drop) (i32.const 66))
    (func $loop (result i32) (local $k i32)
        (loop (local.set $k (i32.add (local.get $k) (i32.const 1)))
            (br_if 0 (i32.lt_u (local.get $k) (i32.const 65))))
        (local.get $k))
    (func (export "_start") (local $now i32)
        (loop
            (local.set $now (call $TRIED))
            (if (i32.ne (local.get $now) (i32.load8_u (i32.const 16)))
                (then
                    (i32.store8 (i32.const 16) (local.get $now))
                    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 32)))))
            (br 0))))"#;

#[test]
fn replaced_blocks_and_branches_are_switched_while_the_program_runs() {
    let place = Place::new("modules-replaced");
    for (tried, replaced, script) in [
        ("block", 'B', "wasm:opcode:block:alt / fname == \"block\" / { return 66; }"),
        ("if (i32.const 1)", 'B', "wasm:opcode:if:alt / fname == \"if\" / { return 66; }"),
        ("branch", 'B', "wasm:opcode:br:alt / fname == \"branch\" / { drop_args(); }"),
        ("stop", 'B', "wasm:opcode:return:alt { report var n: u32; n++; }"),
        ("loop", '\u{1}', "wasm:opcode:br_if:alt / fname == \"loop\" / { drop_args(); }"),
    ] {
        let program = place.file("program.wat", CHANGES.replace("TRIED", tried));
        let script = place.file("replaces.mm", script);
        let mut running = Running::start(&place, &[], &program);
        let mut output = running.child.as_mut().expect("it runs").stdout.take().expect("a pipe");
        let (changed, changes) = mpsc::channel();
        let reading = std::thread::spawn(move || {
            let mut letter = [0];
            while output.read(&mut letter).is_ok_and(|len| len == 1) {
                let _ = changed.send(char::from(letter[0]));
            }
        });
        let next = || changes.recv_timeout(Duration::from_secs(60)).ok();
        assert_eq!(next(), Some('A'), "{tried}");
        for request in [
            &["attach", &script][..],
            &["off", "replaces"],
            &["on", "replaces"],
            &["detach", "replaces"],
        ] {
            running.good(request);
            let wanted = if matches!(request[0], "attach" | "on") { replaced } else { 'A' };
            // An activation whose loop is switched between two turns has a result of its own.
            let between = next().filter(|letter| tried != "loop" || *letter == wanted);
            assert_eq!(between.or_else(next), Some(wanted), "{tried}: {request:?}");
        }
        running.goes_on();
        assert!(changes.try_recv().is_err(), "{tried}");
        assert_eq!(running.end().status.code(), Some(130), "{tried}");
        reading.join().expect("it ends");
    }
}
