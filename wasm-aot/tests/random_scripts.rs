//! Some seeds of comparing what scripts say on both targets, and in an interpreter; `cargo run
//! --release -p wasm-aot --example scripts` goes through others for days.

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

/// Programs and scripts that targets did not agree about once.
const ONCE: &[(&str, &str)] = &[
    // What is known of a place before anything runs, where a monitor is asked for it: an alignment
    // is not its exponent.
    (
        r#"(module (memory 1) (memory 1)
            (func (export "f") (result i64) (i64.add (i64.load 1 (i32.const 0)) (i64.load align=2 (i32.const 8)))))"#,
        "wasm:opcode:i64.load:before / align == 8 || align < 2 / { report var n: u32; n++; report var of: u32 = align; }",
    ),
    // Operands where control never comes: of a type that is known, of the instruction's own, and
    // none at all.
    (
        r#"(module (memory 1)
            (func (export "f") (result i32) (return (i32.const 1)) (i32.load16_u (i32.const 0)) (i32.extend8_s))
            (func (export "g") (result i32) (i32.const 1) (br 0) (i32.load16_u) (i32.extend8_s)))"#,
        "wasm:opcode:i32.extend8_s:before / arg0 > 1 / { report var n: u32; n++; }
         wasm:opcode:i32.extend8_s:after / res0 > 1 / { report var m: u32; m++; }
         wasm:opcode:i32.load16_u:before { report var k: u32; k = arg0; }",
    ),
    // A basic block that ends with a function whose end nothing comes to.
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
    // What lies below a block is not the block's; a constant takes nothing; where control never
    // comes, a call's operands are of their types.
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
    // An instruction that other engines have no name for, and the lane of an access, which engines
    // number behind where it goes.
    (
        r#"(module (memory 1)
            (func (export "f") (result f64 v128)
                (select (result f64) (f64.const 1) (f64.const 2) (i32.const 0)) (v128.load32_lane 2 (i32.const 0) (v128.const i32x4 1 2 3 4))))"#,
        "wasm:opcode:*:after { report var n: u32; n += category_id as u32; }
         wasm:opcode:v128.load32_lane:before / imm0 == 2 / { report var m: u32; m += imm0; }",
    ),
    // An operand that is asked for at other events only, where control never comes.
    (
        r#"(module (func (export "f") (i32.const 1) (block (unreachable) (i64.reinterpret_f64) (drop) (i64.reinterpret_f64) (drop)) (drop))
            (func (export "g") (unreachable) (i32.reinterpret_f32) (drop)))"#,
        "wasm:opcode:i64.reinterpret_f64|f64.neg:before {
            report var n: u32; n++; if (category_id == 99 && arg0 >= 1.5) { n++; } }
         wasm:opcode:i32.reinterpret_f32:before { report var m: u32; if (arg0 >= 1.5) { m++; } }",
    ),
    // An address that is not asked for after all: there is one probe for 32 bits, and not one for
    // 64 beside it.
    (
        r#"(module (memory 1) (func (export "f") (result i32) (drop (memory.size)) (i32.load8_u (i32.const 3))))"#,
        "wasm:opcode:i32.load8_u:before { report var n: u32; if (!is_write) { n++; } else { n += addr & 3; } }
         wasm:opcode:memory.size:after { report var m: u32; if (!trap) { m++; } else { m += res0 as u32; } }",
    ),
    // The operand of a branch that is never come to.
    (
        r#"(module (func (export "f") (loop (return) (i32.trunc_f64_u (f64.const 1)) (br_if 0)))
            (func (export "g") (block (block (return) (br_table 0 1)))))"#,
        "wasm:opcode:br_if:at_target / (arg0 >= 34) || (arg0 != 16) / { report var n: u32; n++; }
         wasm:opcode:br_table:at_target / arg0 != 16 / { report var m: u32; m++; }",
    ),
    // What lies below an instruction's results is none of them.
    (
        r#"(module (func $g) (func $h (result i32 f64) (i32.const 1) (f64.const 2))
            (func (export "f") (f64.const 1) (call $g) (drop (call $h)) (drop) (drop)))"#,
        "wasm:opcode:call(res0: f64):after { report var n: u32; n++; report var s: f64; s += res0; }
         wasm:opcode:call(res1: i32):after { report var m: u32; m++; }",
    ),
    // Where control never comes, what lies below the block is not an instruction's operand, and
    // operands that are not there are of its own types.
    (
        r#"(module (memory 1)
            (func (export "f") (i64.const 1) (loop (result f64) (return) (i64.load32_u) (drop) (f64.convert_i64_s) (f64.add)) (drop) (drop)))"#,
        "wasm:opcode:i64.load32_u:before / (memory >= 29) || (effective_addr % 5 >= 4) / { report var n: u32; n++; }
         wasm:opcode:f64.add:before / (arg1 < 1.5) || (pc != 16) / { report var m: u32; m++; }
         wasm:opcode:f64.add:before { report var k: f64; k += arg1; }",
    ),
    // Functions that have no end that anything comes to.
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
