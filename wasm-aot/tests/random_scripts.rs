//! Compares the reports of random scripts on both targets and in an interpreter, for some seeds;
//! `cargo run --release -p wasm-aot --example scripts` tries others for days.

#[path = "random_scripts/body.rs"]
mod body;
#[path = "differential/seeds.rs"]
#[allow(dead_code, reason = "examples are given seeds")]
mod seeds;

use body::Compared;

#[test]
fn scripts_say_the_same_on_both_targets_and_in_an_interpreter() {
    let compared =
        |seed: u64| body::compare(&mut arbtest::arbitrary::Unstructured::new(&seeds::bytes(seed)));
    let everywhere = (1..=40).filter(|seed| compared(*seed) == Ok(Compared::Everywhere)).count();
    assert!(everywhere > 20, "only {everywhere} scripts were compared on both targets");
}

/// Programs and scripts about which targets once disagreed.
const ONCE: &[(&str, &str)] = &[
    // Static values of a place that a monitor uses: an alignment is not its exponent.
    (
        r#"(module (memory 1) (memory 1)
            (func (export "f") (result i64) (i64.add (i64.load 1 (i32.const 0)) (i64.load align=2 (i32.const 8)))))"#,
        "wasm:opcode:i64.load:before / align == 8 || align < 2 / { report var n: u32; n++; report var of: u32 = align; }",
    ),
    // Operands in unreachable code: with a known type, with the instruction's own type, and none at
    // all.
    (
        r#"(module (memory 1)
            (func (export "f") (result i32) (return (i32.const 1)) (i32.load16_u (i32.const 0)) (i32.extend8_s))
            (func (export "g") (result i32) (i32.const 1) (br 0) (i32.load16_u) (i32.extend8_s)))"#,
        "wasm:opcode:i32.extend8_s:before / arg0 > 1 / { report var n: u32; n++; }
         wasm:opcode:i32.extend8_s:after / res0 > 1 / { report var m: u32; m++; }
         wasm:opcode:i32.load16_u:before { report var k: u32; k = arg0; }",
    ),
    // A basic block at the end of a function whose end is unreachable.
    (
        r#"(module (func (export "f") (i32.const 1) (unreachable) (drop) (drop)) (func (export "g") (block (return)) (nop)))"#,
        "wasm:block:* { report var n: u32; n++; }",
    ),
    // What a function's last end does comes before the function's account is closed.
    (
        r#"(module (func $g (result i32) (block (result i32) (i32.const 2))) (func (export "f") (result i32) (call $g)))"#,
        "report frame var inside: u32; report var last: i64;
         wasm:opcode:end:after { inside += 3; last = last * 3 + 1; } wasm:func:exit { inside += 1; last = last * 3 + 2; }",
    ),
    // Operands below a block do not belong to the block; a constant takes none; in unreachable code
    // a call's operands have the parameter types.
    (
        r#"(module (func $g (param f64) (result f64) (local.get 0))
            (func (export "f") (result i32) (local $i i32)
                (i32.const 7) (i32.const 5)
                (loop (param i32) (result i32) (br_if 0 (i32.const 0)) (i32.const 1) (drop)) (loop (nop)) (i32.const 3) (drop) (i32.add))
            (func (export "h") (f64.const 1) (unreachable) (call $g (f64.const 2)) (drop)))"#,
        "wasm:opcode:loop(arg0: i32):entry { report var n: u32; n++; report var s: i64; s += arg0 as i64; }
         wasm:opcode:loop(arg0: i32):before { report var m: u32; m++; }
         wasm:opcode:call(arg0: f64):before { report var k: u32; k++; }",
    ),
    // An instruction without a name in other engines, and the lane of an access, which is encoded
    // after its address.
    (
        r#"(module (memory 1)
            (func (export "f") (result f64 v128)
                (select (result f64) (f64.const 1) (f64.const 2) (i32.const 0)) (v128.load32_lane 2 (i32.const 0) (v128.const i32x4 1 2 3 4))))"#,
        "wasm:opcode:*:after { report var n: u32; n += category_id as u32; }
         wasm:opcode:v128.load32_lane:before / imm0 == 2 / { report var m: u32; m += imm0; }",
    ),
    // An operand in unreachable code that is used at other events only.
    (
        r#"(module (func (export "f") (i32.const 1) (block (unreachable) (i64.reinterpret_f64) (drop) (i64.reinterpret_f64) (drop)) (drop))
            (func (export "g") (unreachable) (i32.reinterpret_f32) (drop)))"#,
        "wasm:opcode:i64.reinterpret_f64|f64.neg:before {
            report var n: u32; n++; if (category_id == 99 && arg0 >= 1.5) { n++; } }
         wasm:opcode:i32.reinterpret_f32:before { report var m: u32; if (arg0 >= 1.5) { m++; } }",
    ),
    // An address that turns out unused: there is one probe for 32 bits, and no second one for 64.
    (
        r#"(module (memory 1) (func (export "f") (result i32) (drop (memory.size)) (i32.load8_u (i32.const 3))))"#,
        "wasm:opcode:i32.load8_u:before { report var n: u32; if (!is_write) { n++; } else { n += addr & 3; } }
         wasm:opcode:memory.size:after { report var m: u32; if (!trap) { m++; } else { m += res0 as u32; } }",
    ),
    // The operand of an unreachable branch.
    (
        r#"(module (func (export "f") (loop (return) (i32.trunc_f64_u (f64.const 1)) (br_if 0)))
            (func (export "g") (block (block (return) (br_table 0 1)))))"#,
        "wasm:opcode:br_if:at_target / (arg0 >= 34) || (arg0 != 16) / { report var n: u32; n++; }
         wasm:opcode:br_table:at_target / arg0 != 16 / { report var m: u32; m++; }",
    ),
    // A value below an instruction's results is not one of them.
    (
        r#"(module (func $g) (func $h (result i32 f64) (i32.const 1) (f64.const 2))
            (func (export "f") (f64.const 1) (call $g) (drop (call $h)) (drop) (drop)))"#,
        "wasm:opcode:call(res0: f64):after { report var n: u32; n++; report var s: f64; s += res0; }
         wasm:opcode:call(res1: i32):after { report var m: u32; m++; }",
    ),
    // In unreachable code, values below the block are not an instruction's operands, and missing
    // operands have the instruction's own types.
    (
        r#"(module (memory 1)
            (func (export "f") (i64.const 1) (loop (result f64) (return) (i64.load32_u) (drop) (f64.convert_i64_s) (f64.add)) (drop) (drop)))"#,
        "wasm:opcode:i64.load32_u:before / (memory >= 29) || (effective_addr % 5 >= 4) / { report var n: u32; n++; }
         wasm:opcode:f64.add:before / (arg1 < 1.5) || (pc != 16) / { report var m: u32; m++; }
         wasm:opcode:f64.add:before { report var k: f64; k += arg1; }",
    ),
    // Functions whose ends are unreachable.
    (
        r#"(module (func (export "f") (unreachable)) (func (export "g") (block (return)) (unreachable)) (func (export "h") (nop)))"#,
        "report frame var inside: u32; wasm:opcode:nop:before { inside++; }",
    ),
];

#[test]
fn what_once_differed_agrees() {
    for (program, script) in ONCE {
        let program = wat::parse_str(program).expect("a module");
        assert_eq!(
            body::compare_without_arguments(&program, script),
            Compared::Everywhere,
            "{script}"
        );
    }
}
