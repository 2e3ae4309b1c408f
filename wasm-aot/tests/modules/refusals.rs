//! Monitors that are refused, and the notes about them.

use super::place::{Place, errors};
use super::{COUNTING, NOTHING, output_of, run};
use std::time::{Duration, Instant};

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
        .args(["run", "--no-cache", "--monitor-timeout", "300ms", "--monitor"])
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
    told(&late, &["--monitor-timeout", "300ms"], 0, &["monitor late: wasm:exit: it does not end"]);
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
    let idle = place.file("idle.wat", r#"(module (func (export "wasm:opcode:i32.add")))"#);
    for (options, code) in [(&[][..], 0), (&["--strict"], 1)] {
        let done = run(&place, options, &[&idle], &program);
        assert_eq!(done.status.code(), Some(code), "{options:?}: {}", errors(&done));
        let told = errors(&done).contains("monitor idle: nothing in");
        assert!(told, "{options:?}: {}", errors(&done));
    }
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
    let told =
        "monitor half: note: this export is never called: wasm:opcode:nop (local0): at function 0";
    assert!(errors(&done).contains(told), "{}", errors(&done));
    let done = run(&place, &["--strict"], &[&monitor], &program);
    assert_eq!((done.status.code(), output_of(&done).as_str()), (Some(1), ""), "{}", errors(&done));
    assert!(errors(&done).contains("wasm:opcode:nop (local0): at function 0"), "{}", errors(&done));
    // A rule with an operand that only some places have applies to those.
    let some = r#"(module (func (export "wasm:opcode:* (arg0)") (param i32)))"#;
    let done = run(
        &place,
        &["--strict"],
        &[&place.file("some.wat", some)],
        &place.file("drop.wat", DROPS),
    );
    assert!(done.status.success() && errors(&done).is_empty(), "{}", errors(&done));
}

#[test]
fn a_text_that_does_not_fit_is_cut_with_a_note_and_is_an_error_if_that_is_wanted() {
    let place = Place::new("modules-cut");
    let monitor = r#"(module (import "wizeng" "puts" (func $print (param i32 i32)))
        (memory (export "whamm_buffer") 1)
        (global (export "whamm_buffer:start") i32 (i32.const 8))
        (global (export "whamm_buffer:max") i32 (i32.const 4))
        (func (export "$say") (param i32 i32) (result i32)
            (call $print (local.get 0) (local.get 1)) (local.get 1))
        (func (export "wasm:opcode:nop ($say(fname))") (param i32)))"#;
    let monitor = place.file("narrow.wat", monitor);
    let program =
        |name: &str| format!(r#"(module (func $"{name}" (export "_start") nop) (func $b nop))"#);
    // A shortened text ends at a character boundary.
    for (name, kept) in [("café", "caf"), ("main_loop", "main")] {
        let program = place.file("program.wat", program(name));
        let done = run(&place, &[], &[&monitor], &program);
        assert_eq!(output_of(&done), format!("{kept}b"), "{}", errors(&done));
        let told = format!("note: `{name}` does not fit into the 4 bytes");
        assert!(errors(&done).contains(&told), "{}", errors(&done));
        let done = run(&place, &["--strict"], &[&monitor], &program);
        assert!(done.status.code() == Some(1) && errors(&done).contains("does not fit"));
    }
    let done = run(&place, &["--strict"], &[&monitor], &place.file("program.wat", program("fits")));
    assert_eq!((output_of(&done).as_str(), errors(&done).as_str()), ("fitsb", ""));
}

#[test]
fn parameters_that_an_instruction_has_in_no_program_are_refused() {
    let place = Place::new("modules-signatures");
    let program = place.file("program.wat", DROPS);
    let wrong = r#"(module (func (export "wasm:opcode:i32.const (pc, imm1)") (param i32 i32)))"#;
    let done = run(&place, &[], &[&place.file("wrong.wat", wrong)], &program);
    let mark = " ".repeat(29) + "^^^^ i32.const has no imm1";
    let shown = &format!("  wasm:opcode:i32.const (pc, imm1)\n{mark}");
    assert!(errors(&done).contains(shown), "{}", errors(&done));
    assert_eq!(done.status.code(), Some(1));
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
    let shown = "  wasm:opcode:frob.nicate (pc)\n              ^^^^^^^^^^^ no such instruction";
    let told = format!("monitor foreign: note: this export is never called:\n{shown}");
    assert!(errors(&done).contains(&told), "{}", errors(&done));
    let done = run(&place, &["--strict"], &[&place.file("foreign.wat", monitor(""))], &program);
    assert_eq!(done.status.code(), Some(1));
    let told = format!("monitor foreign:\n{shown}");
    assert!(errors(&done).contains(&told), "{}", errors(&done));
    let ours = monitor(r#"(import "wasm-aot:ext" "v1" (func))"#);
    let done = run(&place, &[], &[&place.file("ours.wat", &ours)], &program);
    assert!(
        done.status.code() == Some(1) && errors(&done).contains("no such instruction"),
        "{}",
        errors(&done)
    );
}
