//! What monitors say, and when.

use super::place::{Place, errors};
use super::{COUNTING, NOTHING, output_of, run, whamm};

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
