//! `run --monitor FILE`: modules and scripts, as people use them.

#[path = "command/place.rs"]
#[allow(dead_code, reason = "not every test needs all of it")]
mod place;

use place::{Place, errors};
use std::process::{Output, Stdio};
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
        assert_eq!((done.status.code(), output_of(&done).as_str()), (Some(code), printed), "{}", errors(&done));
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
    let script = place.file("calls.mm", "report var calls: u32; wasm:opcode:call:before { calls++; }");
    let done = run(&place, &["--invoke", "main"], &[&counting, &script, "icount"], &whamm("tests/apps/fac.wat"));
    assert!(done.status.success(), "{}", errors(&done));
    let printed = output_of(&done);
    assert!(printed.contains(", calls, u32, i32, script0, , , , , 6") && printed.contains("\n204"), "{printed}");
    assert!(errors(&done).contains("icount"), "{}", errors(&done));
}

#[test]
fn libraries_stand_behind_a_plus_and_are_linked_by_their_names() {
    let place = Place::new("modules-library");
    let lines = std::fs::read_to_string(whamm("tests/apps/cache_lines.wat")).expect("it is there");
    let library = place.file("cache.wat", &lines);
    let monitor = format!("{}+{library}", whamm("monitors/cache_sim.mm"));
    let done = run(&place, &["--invoke", "main"], &[&monitor], &whamm("tests/apps/sieve.wat"));
    assert!(done.status.success(), "{}", errors(&done));
    assert!(output_of(&done).contains(", hits, u64, i64, script0, , , , , "), "{}", output_of(&done));
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
    refused(&place.file("name.wat", r#"(module (func (export "wasm:opcode:nopp")))"#), "did you mean nop?");
    refused(&place.file("sort.mm", "wasm:opcode:nop:befor { }"), "sort.mm");
    refused(&place.file("lib.mm", "use lib; wasm:opcode:nop:before { lib.f(); }"), "the library `lib` was not given");
    let linked = place.file("linked.wat", r#"(module (import "lib" "f" (func)) (func (export "wasm:opcode:nop")))"#);
    refused(&linked, r#"monitor linked: unknown import: "lib" "f""#);
    let endless = place.file("start.wat", "(module (func $spin (loop (br 0))) (start $spin))");
    let mut command = place.command();
    let begun = Instant::now();
    let done =
        command.args(["run", "--no-cache", "--monitor-patience", "300ms", "--monitor"]).arg(endless).arg(&program).output();
    assert_eq!(done.expect("it starts").status.code(), Some(1));
    assert!(begun.elapsed() < Duration::from_secs(20));
    let done = run(&place, &[], &[&place.file("idle.wat", r#"(module (func (export "wasm:opcode:i32.add")))"#)], &program);
    assert!(done.status.success() && errors(&done).contains("monitor idle: nothing in"), "{}", errors(&done));
}

#[test]
fn a_monitor_stays_inside_of_its_memory_and_cannot_end_the_program() {
    let place = Place::new("modules-inside");
    let program = place.file("program.wat", NOTHING);
    let greedy = r#"(module (import "wizeng" "puti" (func $print (param i32))) (memory 1)
        (func (export "wasm:opcode:nop") (loop (br_if 0 (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))))
        (func (export "wasm:exit") (call $print (memory.size))))"#;
    let done = run(&place, &["--max-monitor-memory", "1048576"], &[&place.file("greedy.wat", greedy)], &program);
    assert_eq!((done.status.code(), output_of(&done).as_str()), (Some(0), "16"), "{}", errors(&done));
    let ending = r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (func (export "wasm:opcode:nop") (call $exit (i32.const 0))))"#;
    let done = run(&place, &[], &[&place.file("ending.wat", ending)], &program);
    assert_eq!(done.status.code(), Some(1));
    assert!(errors(&done).contains("a monitor does not end the program"), "{}", errors(&done));
    let trapping = r#"(module (func (export "wasm:opcode:nop (pc)") (param i32) (unreachable)))"#;
    let done = run(&place, &[], &[&place.file("trapping.wat", trapping)], &program);
    assert_eq!(done.status.code(), Some(134));
    assert!(errors(&done).contains("monitor trapping: wasm:opcode:nop (pc), at function 0"), "{}", errors(&done));
}

#[test]
fn a_monitor_is_switched_while_the_program_runs() {
    let place = Place::new("modules-toggle");
    let rounds = r#"(module (import "wizeng" "puti" (func $print (param i32))) (global $n (mut i32) (i32.const 0))
        (func (export "wasm:opcode:loop") (global.set $n (i32.or (global.get $n) (i32.const 1))))
        (func (export "wasm:exit") (call $print (global.get $n))))"#;
    let monitor = format!("{},toggle", place.file("rounds.wat", rounds));
    let program = place.file("spin.wat", r#"(module (func (export "_start") (loop (br 0))))"#);
    let mut command = place.command();
    command.env("XDG_RUNTIME_DIR", &place.0).args(["run", "--monitor", &monitor]).arg(program);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let ask = |request: &[&str]| {
        let mut command = place.command();
        command.env("XDG_RUNTIME_DIR", &place.0).args(["ctl", &child.id().to_string()]).args(request).output().expect("it starts")
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while !ask(&["status"]).status.success() {
        assert!(Instant::now() < deadline, "the program answers");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(output_of(&ask(&["off", "rounds"])), "rounds is off: 0 probes are called\n");
    assert_eq!(output_of(&ask(&["on", "rounds"])), "rounds is on: 1 probes are called\n");
    assert!(errors(&ask(&["off", "round"])).contains("there are rounds"));
    let pid = child.id().to_string();
    std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill is there");
    let done = child.wait_with_output().expect("it ends");
    assert_eq!((done.status.code(), output_of(&done).as_str()), (Some(130), "1"));
}
