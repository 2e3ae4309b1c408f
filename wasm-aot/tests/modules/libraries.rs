//! Libraries of monitors.

use super::place::{Place, errors};
use super::{NOTHING, output_of, run, whamm};

#[test]
fn libraries_stand_behind_a_plus_and_are_linked_by_their_names() {
    let place = Place::new("modules-library");
    let lines = std::fs::read_to_string(whamm("tests/apps/cache_lines.wat")).expect("it is there");
    let library = place.file("cache.wat", &lines);
    let monitor = format!("{}+{library}", whamm("monitors/cache_sim.mm"));
    let done = run(&place, &["--invoke", "main"], &[&monitor], &whamm("tests/apps/sieve.wat"));
    assert!(done.status.success(), "{}", errors(&done));
    assert!(errors(&done).contains("== cache_sim ==\n"), "{}", errors(&done));
    assert!(errors(&done).contains("\nhits "), "{}", errors(&done));
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
