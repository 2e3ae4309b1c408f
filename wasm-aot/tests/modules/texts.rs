//! Texts that monitors pass to the engine's functions.

use super::place::{Place, errors};
use super::{NOTHING, output_of, run};

#[test]
fn texts_that_a_monitor_passes_are_in_its_first_memory() {
    let place = Place::new("modules-texts");
    let program = place.file("program.wat", NOTHING);
    let monitor = |exports: &str| {
        format!(
            r#"(module (import "wizeng" "puts" (func $print (param i32 i32)))
            (import "whamm:reflect" "read_function_name"
                (func $name (param i32 i32 i32) (result i32)))
            (memory $first 1) (memory $second 1) {exports}
            (data (memory $first) (i32.const 0) "first ")
            (data (memory $second) (i32.const 0) "second ")
            (func (export "wasm:opcode:nop")
                (call $print (i32.const 0) (i32.const 6))
                (call $print (i32.const 8)
                    (call $name (i32.const 0) (i32.const 8) (i32.const 9)))))"#
        )
    };
    let named = place.file("named.wat", r#"(module (func $begin (export "_start") nop))"#);
    let exports = r#"(export "b" (memory $second)) (export "a" (memory $first))"#;
    for exports in [exports, r#"(export "memory" (memory $second))"#, ""] {
        let done = run(&place, &[], &[&place.file("texts.wat", monitor(exports))], &named);
        assert_eq!((errors(&done).as_str(), output_of(&done).as_str()), ("", "first begin"));
    }
    let without = r#"(module (import "wizeng" "puts" (func $print (param i32 i32)))
        (func (export "wasm:opcode:nop") (call $print (i32.const 0) (i32.const 0))))"#;
    let done = run(&place, &[], &[&place.file("without.wat", without)], &program);
    assert!(errors(&done).contains("has a memory, and this one has none"), "{}", errors(&done));
}
