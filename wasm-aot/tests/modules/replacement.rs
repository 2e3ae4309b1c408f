//! Scripts that replace instructions and blocks, as monitors and in rewritten programs.

use super::events::rows_of_both_targets;
use super::replaced_programs::{BLOCKS, JUMPS};
use super::*;
use crate::place::errors;

/// Calls, loads and conversions, whose values are recorded in an order that matters.
const VALUES: &str = r#"(module (memory (export "memory") 1)
    (func $note (param i64))
    (func $add (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
    (func $mul (param i32 i32) (result i32) (i32.mul (local.get 0) (local.get 1)))
    (func $more (param i32) (result i32) (i32.add (local.get 0) (i32.const 1000)))
    (func $two (param i32) (result i32 i64) (i32.const 8) (i64.const 9))
    (func $double (param f64) (result f64) (f64.mul (local.get 0) (f64.const 2)))
    (func $half (param f64) (result f64) (f64.mul (local.get 0) (f64.const 0.5)))
    (func $"a\"b\\c" (param i32) (result i32) (i32.const 4))
    (func $start (export "_start") (local $i i32)
        (loop
            (call $note (i64.extend_i32_u (call $add (local.get $i) (i32.const 3))))
            (call $two (local.get $i)) (call $note) (call $note (i64.extend_i32_u))
            (call $note
                (i64.trunc_f64_s (call $double (f64.convert_i32_u (local.get $i)))))
            (call $note
                (i64.extend_i32_u (i32.load (i32.shl (local.get $i) (i32.const 2)))))
            (call $note
                (i64.extend_i32_u (call_indirect (param i32) (result i32)
                    (local.get $i) (i32.const 0))))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if 0 (i32.lt_u (local.get $i) (i32.const 10)))))
    (table funcref (elem $more)))"#;

/// Counts what is executed around replaced instructions.
const COUNTERS: &str = "wasm:opcode:*.const|local.*|call:before { report var b: u32; b++; }
    wasm:opcode:i32.add(arg1: i32):before { report var l: i32; l = arg1; }
    wasm:block:start { report var s: u32; s++; } wasm:block:end { report var e: u32; e++; }
    wasm:opcode:end:before { report var ends: u32; ends++; }
    wasm:func:exit { report var x: u32; x++; }
    wasm:opcode:br*:at_target { report var t: u32; t++; }";

/// The program's records, as one number.
const NOTED: &str = "report var noted: i64;
    wasm:opcode:call(arg0: i64):before / imm0 == 0 / { noted = noted * 31 + arg0; }\n";

/// The final number of a program under a script, on both targets.
fn noted(name: &str, program: &str, script: &str) -> i64 {
    let place = Place::new(&format!("modules-replacement-{name}"));
    let rows = rows_of_both_targets(&place, &(NOTED.to_owned() + script), program);
    let noted = rows.iter().find_map(|row| row.strip_prefix("noted   "));
    noted.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name}: {rows:#?}"))
}

/// The number for a program whose steps record these values.
fn sum(steps: u32, each: impl Fn(i64) -> Vec<i64>) -> i64 {
    let all = (0..i64::from(steps)).flat_map(each);
    all.fold(0i64, |sum, value| sum.wrapping_mul(31).wrapping_add(value))
}

#[test]
fn what_an_alt_returns_is_given_on_both_targets() {
    let values = |i: i64| [i + 3, 9, 8, 2 * i, 0, i + 1000];
    for (name, script, given) in [
        ("plain", "", &values as &dyn Fn(i64) -> [i64; 6]),
        ("literal", "wasm:opcode:call:alt / imm0 == 1 / { return 7; }", &|i| {
            [7, 9, 8, 2 * i, 0, i + 1000]
        }),
        ("several", "wasm:opcode:call:alt / imm0 == 4 / { return (1, 5); }", &|i| {
            [i + 3, 5, 1, 2 * i, 0, i + 1000]
        }),
        ("fraction", "wasm:opcode:call:alt / imm0 == 5 / { return 4; }", &|i| {
            [i + 3, 9, 8, 4, 0, i + 1000]
        }),
        ("address", "wasm:opcode:i32.load:alt { report var n: u32; n++; }", &|i| {
            [i + 3, 9, 8, 2 * i, 4 * i, i + 1000]
        }),
        ("operands", "wasm:opcode:i32.shl:alt { return arg1 * 4 + arg0; }", &|i| {
            [i + 3, 9, 8, 2 * i, 0, i + 1000]
        }),
        (
            "condition",
            "report var n: u32;
            wasm:opcode:i32.load:alt / arg0 > 8 && n < 5 / { n++; return n * 11; }",
            &|i| [i + 3, 9, 8, 2 * i, 11 * if (3..8).contains(&i) { i - 2 } else { 0 }, i + 1000],
        ),
        (
            "indirect",
            "wasm:opcode:call_indirect(arg1: i32):alt / arg1 % 2 == 0 / { return 5; }",
            &|i| [i + 3, 9, 8, 2 * i, 0, if i % 2 == 0 { 5 } else { i + 1000 }],
        ),
    ] {
        assert_eq!(noted(name, VALUES, script), sum(10, |i| given(i).to_vec()), "{name}");
    }
}

#[test]
fn functions_are_called_instead_on_both_targets() {
    for (name, script, given) in [
        (
            "by-name",
            "wasm:opcode:call:alt / target_fn_name == \"add\" / { alt_call_by_name(\"mul\"); }",
            &(|i: i64| [3 * i, 9, 8, 2 * i, 0, i + 1000]) as &dyn Fn(i64) -> [i64; 6],
        ),
        ("by-id", "wasm:opcode:call(arg0: f64):alt / arg0 > 2.5 / { alt_call_by_id(6); }", &|i| {
            [i + 3, 9, 8, if i > 2 { i / 2 } else { 2 * i }, 0, i + 1000]
        }),
        (
            "choice",
            "report var n: u32;
            wasm:opcode:call:alt / imm0 == 1 / {
                n++;
                if (n % 3 == 0) { alt_call_by_name(\"mul\"); return; }
                elif (n % 3 == 1) { alt_call_by_id(1); } else { return 9; }
            }",
            &|i| [[i + 3, 9, 3 * i][i as usize % 3], 9, 8, 2 * i, 0, i + 1000],
        ),
        (
            "dropped",
            "wasm:opcode:call(arg0: i32):alt / imm0 == 1 / {
                report var last: i32; last = arg0; drop_args(); alt_call_by_name(\"mul\"); }",
            &|i| [3 * i, 9, 8, 2 * i, 0, i + 1000],
        ),
        ("odd-name", r#"wasm:opcode:call_indirect:alt { alt_call_by_name("a\"b\\c"); }"#, &|i| {
            [i + 3, 9, 8, 2 * i, 0, 4]
        }),
        ("of-indirect", "wasm:opcode:call_indirect:alt { alt_call_by_id(7); }", &|i| {
            [i + 3, 9, 8, 2 * i, 0, 4]
        }),
        ("itself", "wasm:opcode:call:alt / imm0 != 0 / { alt_call_by_id(imm0); }", &|i| {
            [i + 3, 9, 8, 2 * i, 0, i + 1000]
        }),
        (
            "at-the-site",
            "wasm:opcode:call:alt / imm0 == 1 || imm0 == 5 / {
                var next: u32 = imm0 + 1; alt_call_by_id(next); }",
            &|i| [3 * i, 9, 8, i / 2, 0, i + 1000],
        ),
        (
            "site-or-constant",
            "report var n: u32;
            wasm:opcode:call:alt / imm0 == 1 / {
                n++;
                if (n % 2 == 0) { alt_call_by_id(fid - 6); } else { alt_call_by_id(1); }
            }",
            &|i| [[i + 3, 3 * i][i as usize % 2], 9, 8, 2 * i, 0, i + 1000],
        ),
        (
            "name-at-the-site",
            "wasm:opcode:call:alt / imm0 == 1 || imm0 == 6 || imm0 == 5 / {
                alt_call_by_name(target_fn_name == \"add\" ? \"mul\" : target_fn_name); }",
            &|i| [3 * i, 9, 8, 2 * i, 0, i + 1000],
        ),
        ("and-more", "wasm:opcode:call:alt / imm0 == 4 / { alt_call_by_id(3); return 6; }", &|i| {
            [i + 3, 6, i + 1000, 2 * i, 0, i + 1000]
        }),
    ] {
        assert_eq!(noted(name, VALUES, script), sum(10, |i| given(i).to_vec()), "{name}");
    }
}

#[test]
fn a_function_that_does_not_fit_a_site_is_reported_on_both_targets() {
    let place = Place::new("modules-replacement-missing");
    for (script, missing) in [
        ("wasm:opcode:call:alt / imm0 == 1 / { alt_call_by_id(imm0 + 99); }", "no "),
        ("wasm:opcode:call:alt / imm0 == 1 / { alt_call_by_id(imm0 + 4); }", "another type"),
    ] {
        let program_file = place.file("program.wat", VALUES);
        let done = run(&place, &[], &[&place.file("script.mm", script)], &program_file);
        let bytes = wat::parse_str(VALUES).expect("text");
        let options = whamm::Options::default();
        let inside =
            whamm::instrument(&[whamm::Source::new("x.mm", script)], &[], &bytes, &options);
        let inside = inside.expect_err("no such function").to_string();
        for message in [errors(&done), inside] {
            assert!(message.contains(missing), "{script}: {message}");
        }
    }
}

#[test]
fn the_labels_of_a_table_are_told_on_both_targets() {
    let place = Place::new("modules-labels");
    let arms: String = (0..600).map(|n| format!(" {}", n * 7 % 5)).collect();
    let program = format!(
        r#"(module (memory (export "memory") 1)
            (func $small (param i32)
                (block (block (block (br_table 2 0 1 (local.get 0))) nop) nop))
            (func $large (param i32)
                (block (block (block (block (block (br_table{arms} 4 (local.get 0))))))))
            (func (export "_start") (local $i i32)
                (loop
                    (call $small (local.get $i)) (call $large (local.get $i))
                    (local.set $i (i32.add (local.get $i) (i32.const 1)))
                    (br_if 0 (i32.lt_u (local.get $i) (i32.const 640))))))"#
    );
    let script = "report var sum: u64; report var m: map<u32, u32>;
        wasm:opcode:br_table:before { report var first: u32; first = targets[0] * 10 + targets[1];
            report var far: u32; far = targets[599]; sum = sum * 3 + (targets[arg0] as u64);
            m[targets[arg0]]++; }
        wasm:opcode:br_table:before / targets[2] == 4 / { report var n: u32; n++; }
        wasm:opcode:br_table:before / targets[arg0] == 2 / { report var two: u32; two++; }";
    let told = rows_of_both_targets(&place, script, &program);
    for row in ["first small 9 20", "first large 13 2", "far large 13 3", "n large 13 640"] {
        assert!(told.iter().any(|one| one == row), "{row}: {told:#?}");
    }
}

#[test]
fn blocks_are_replaced_on_both_targets() {
    let values = |i: i64| {
        let block = if i == 0 { 6 } else { 5 };
        let last = if i == 0 { vec![3, 4] } else { vec![4] };
        (vec![block], vec![1, i], vec![if i == 0 { 2 } else { 1 }], last)
    };
    type Parts = (Vec<i64>, Vec<i64>, Vec<i64>, Vec<i64>);
    let around = "wasm:opcode:block|loop|if|else|try_table:before { report var b: u32; b++; }
        wasm:opcode:block|loop|if|else|try_table:after { report var a: u32; a++; }
        wasm:opcode:block|loop|if|else|try_table:exit { report var x: u32; x++; }
        wasm:opcode:end:before { report var ends: u32; ends++; }
        wasm:opcode:end:after { report var behind: u32; behind++; }";
    for (name, script, change) in [
        ("none", "", &(|parts, _| parts) as &dyn Fn(Parts, i64) -> Parts),
        ("block", "wasm:opcode:block:alt / fname == \"block\" / { return 7; }", &|parts, _| {
            (vec![7], parts.1, parts.2, parts.3)
        }),
        (
            "loop",
            "wasm:opcode:loop(arg0: i32):alt / fname == \"loop\" / { return (arg0 + 1, 2.5); }",
            &|parts, i| (parts.0, vec![2, i + 1], parts.2, parts.3),
        ),
        ("if", "wasm:opcode:if:alt / fname == \"if\" / { return arg0 + 3; }", &|parts, i| {
            (parts.0, parts.1, vec![i + 3], parts.3)
        }),
        ("else", "wasm:opcode:else:alt / fname == \"if\" / { return 70; }", &|parts, i| {
            (parts.0, parts.1, vec![if i == 0 { 70 } else { 1 }], parts.3)
        }),
        (
            "called",
            "wasm:opcode:if:alt / fname == \"if\" / { alt_call_by_name(\"named\"); }",
            &|parts, i| (parts.0, parts.1, vec![55 * i], parts.3),
        ),
        ("try", "wasm:opcode:try_table:alt { report var n: u32; n++; }", &|parts, _| {
            (parts.0, parts.1, parts.2, vec![4])
        }),
        (
            "block-sometimes",
            "report var n: u32; wasm:opcode:block:before / fname == \"block\" / { n++; }
            wasm:opcode:block:alt / fname == \"block\" && n % 2 == 1 / { return 7; }",
            &|parts, i| (vec![if i == 1 { 5 } else { 7 }], parts.1, parts.2, parts.3),
        ),
        (
            "loop-sometimes",
            "wasm:opcode:loop(arg0: i32):alt / fname == \"loop\" && arg0 == 1 / {
                return (arg0 + 1, 2.5); }",
            &|parts, i| (parts.0, if i == 1 { vec![2, 2] } else { parts.1 }, parts.2, parts.3),
        ),
        (
            "if-sometimes",
            "wasm:opcode:if:alt / fname == \"if\" && arg0 == 2 / { return arg0 + 3; }",
            &|parts, i| (parts.0, parts.1, if i == 2 { vec![5] } else { parts.2 }, parts.3),
        ),
        (
            "else-sometimes",
            "report var n: u32;
            wasm:opcode:call:before / target_fn_name == \"if\" / { n++; }
            wasm:opcode:else:alt / fname == \"if\" && n > 0 / { n = n + 5; return 70; }",
            &|parts, i| (parts.0, parts.1, vec![if i == 0 { 70 } else { 1 }], parts.3),
        ),
        (
            "try-sometimes",
            "report var n: u32;
            wasm:opcode:call:before / target_fn_name == \"try\" / { n++; }
            wasm:opcode:try_table:alt / n == 1 / { n = n + 5; }",
            &|parts, _| (parts.0, parts.1, parts.2, vec![4]),
        ),
        (
            "branch",
            "wasm:opcode:br_if:alt / fname == \"block\" / { drop_args(); }
            wasm:opcode:br_if:at_target { report var t: u32; t++; }",
            &|parts, _| (vec![6], parts.1, parts.2, parts.3),
        ),
        (
            "sometimes",
            "wasm:opcode:br_if:alt / fname == \"block\" && arg0 == 1 / { drop_args(); }",
            &|parts, i| (vec![if i == 2 { 5 } else { 6 }], parts.1, parts.2, parts.3),
        ),
    ] {
        let told = sum(3, |i| {
            let (block, looped, choice, last) = change(values(i), i);
            [block, looped, choice, last].concat()
        });
        let name = format!("blocks-{name}");
        assert_eq!(noted(&name, BLOCKS, &format!("{script}\n{around}")), told, "{name}");
    }
}

#[test]
fn control_goes_on_behind_branches_returns_and_traps_that_are_replaced_on_both_targets() {
    let plain = |i: i64| {
        let table = if i == 1 { vec![4] } else { vec![3, 4] };
        [vec![i + 1, 20], table, vec![5], vec![i]]
    };
    type Change<'a> = &'a dyn Fn([Vec<i64>; 4], i64) -> [Vec<i64>; 4];
    let cases: [(&str, &str, Change<'_>); 6] = [
        ("none", "", &|parts, _| parts),
        ("kept", "wasm:opcode:br:alt / fname == \"br\" / { report var n: u32; n++; }", &|p, i| {
            [vec![i + 1, 21], p[1].clone(), p[2].clone(), p[3].clone()]
        }),
        ("table", "wasm:opcode:br_table:alt { drop_args(); }", &|p, _| {
            [p[0].clone(), vec![3, 4], p[2].clone(), p[3].clone()]
        }),
        (
            "sometimes",
            "wasm:opcode:br_table:alt / arg0 == 1 / { report var n: u32; n++; }",
            &|p, _| [p[0].clone(), vec![3, 4], p[2].clone(), p[3].clone()],
        ),
        ("return", "wasm:opcode:return:alt { report var n: u32; n++; }", &|p, _| {
            [p[0].clone(), p[1].clone(), vec![6], p[3].clone()]
        }),
        (
            "loop",
            "wasm:opcode:br:alt / fname == \"loop\" && opidx < 12 / { report var n: u32; n++; }",
            &|p, _| [p[0].clone(), p[1].clone(), p[2].clone(), vec![1, 2, 3, 9]],
        ),
    ];
    for (name, script, change) in cases {
        let wanted = sum(3, |i| change(plain(i), i).concat());
        assert_eq!(noted(name, JUMPS, script), wanted, "{name}");
        assert_eq!(noted(name, JUMPS, &(script.to_owned() + COUNTERS)), wanted, "{name}, counted");
    }
}

/// Tail calls, throws and branches on references, followed by code.
const LAST: &str = r#"(module (memory (export "memory") 1)
    (type $one (func (param i32) (result i32)))
    (tag $stop (param i32))
    (table funcref (elem $named))
    (elem declare func $other)
    (func $note (param i64))
    (func $tell (param i32) (call $note (i64.extend_i32_s (local.get 0))))
    (func $named (type $one) (i32.mul (local.get 0) (i32.const 55)))
    (func $other (type $one) (i32.add (local.get 0) (i32.const 1)))
    (func $some (param (ref null $one)) (result (ref $one)) (ref.func $other))
    (func $tail (type $one) (return_call $named (local.get 0)))
    (func $indirect (type $one) (return_call_indirect (type $one) (local.get 0) (i32.const 0)))
    (func $by_reference (type $one) (return_call_ref $one (local.get 0) (ref.func $named)))
    (func $throw (type $one)
        (if (i32.eqz (local.get 0)) (then (throw $stop (i32.const 8)) (local.set 0 (i32.const 2))))
        (local.get 0))
    (func $again (type $one)
        (block $caught (result exnref)
            (try_table (catch_all_ref $caught) (return (call $throw (local.get 0))))
            (unreachable))
        (throw_ref) (i32.const 6))
    (func $caught (type $one)
        (block $caught (result i32)
            (try_table (catch $stop $caught) (return (call $again (local.get 0))))
            (unreachable))
        (i32.add (i32.const 100)))
    (func $null (param (ref null $one) i32) (result i32)
        (block $none
            (return (call_ref $one (local.get 1) (br_on_null $none (local.get 0)))))
        (i32.const 3))
    (func (export "_start") (local $i i32)
        (loop
            (call $tell (call $tail (local.get $i)))
            (call $tell (call $indirect (local.get $i)))
            (call $tell (call $by_reference (local.get $i)))
            (call $tell (call $caught (local.get $i)))
            (call $tell (call $null (ref.null $one) (local.get $i)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if 0 (i32.lt_u (local.get $i) (i32.const 3))))))"#;

#[test]
fn control_goes_on_behind_tail_calls_throws_and_branches_on_references_on_both_targets() {
    let plain = |i: i64| [55 * i, 55 * i, 55 * i, if i == 0 { 108 } else { i }, 3];
    type Change<'a> = &'a dyn Fn([i64; 5], i64) -> [i64; 5];
    let cases: [(&str, &str, Change<'_>); 9] = [
        ("none", "", &|plain, _| plain),
        ("tail", "wasm:opcode:return_call:alt { drop_args(); return 7; }", &|p, _| {
            [7, p[1], p[2], p[3], p[4]]
        }),
        ("tail-called", "wasm:opcode:return_call:alt { alt_call_by_name(\"other\"); }", &|p, i| {
            [i + 1, p[1], p[2], p[3], p[4]]
        }),
        (
            "tail-sometimes",
            "report var n: u32; wasm:opcode:return_call:before { n++; }
            wasm:opcode:return_call:alt / n == 2 / { return 1; }",
            &|p, i| [if i == 1 { 1 } else { p[0] }, p[1], p[2], p[3], p[4]],
        ),
        ("indirect", "wasm:opcode:return_call_indirect:alt { drop_args(); return 9; }", &|p, _| {
            [p[0], 9, p[2], p[3], p[4]]
        }),
        ("reference", "wasm:opcode:return_call_ref:alt { drop_args(); return 4; }", &|p, _| {
            [p[0], p[1], 4, p[3], p[4]]
        }),
        ("throw", "wasm:opcode:throw:alt { drop_args(); }", &|p, i| {
            [p[0], p[1], p[2], if i == 0 { 2 } else { i }, p[4]]
        }),
        ("thrown-again", "wasm:opcode:throw_ref:alt { drop_args(); }", &|p, i| {
            [p[0], p[1], p[2], if i == 0 { 6 } else { i }, p[4]]
        }),
        ("null", "wasm:opcode:br_on_null:alt { alt_call_by_name(\"some\"); }", &|p, i| {
            [p[0], p[1], p[2], p[3], i + 1]
        }),
    ];
    for (name, script, change) in cases {
        let wanted = sum(3, |i| change(plain(i), i).to_vec());
        assert_eq!(noted(name, LAST, script), wanted, "{name}");
        assert_eq!(noted(name, LAST, &(script.to_owned() + COUNTERS)), wanted, "{name}, counted");
    }
}

/// Branches on references to functions; and exceptions that are thrown again by the older
/// instruction, in a module of their own, since a module has one kind of these instructions.
const BRANCHES: &str = r#"(module (memory (export "memory") 1)
    (type $one (func (param i32) (result i32)))
    (elem declare func $named)
    (func $note (param i64))
    (func $tell (param i32) (call $note (i64.extend_i32_s (local.get 0))))
    (func $named (type $one) (i32.mul (local.get 0) (i32.const 55)))
    (func $nothing (param funcref) (result funcref) (ref.null func))
    (func $non_null (param (ref null $one) i32) (result i32)
        (call_ref $one (local.get 1) (block $is (result (ref $one))
            (br_on_non_null $is (local.get 0)) (return (i32.const 3)))))
    (func $cast (param funcref i32) (result i32)
        (call_ref $one (local.get 1) (block $is (result (ref $one))
            (drop (br_on_cast $is funcref (ref $one) (local.get 0))) (return (i32.const 4)))))
    (func $not_cast (param funcref i32) (result i32)
        (block $is_not (result funcref)
            (return (call_ref $one (local.get 1)
                (br_on_cast_fail $is_not funcref (ref $one) (local.get 0)))))
        (drop) (i32.const 5))
    (func (export "_start") (local $i i32)
        (loop
            (call $tell (call $non_null (ref.func $named) (local.get $i)))
            (call $tell (call $cast (ref.func $named) (local.get $i)))
            (call $tell (call $not_cast (ref.null func) (local.get $i)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if 0 (i32.lt_u (local.get $i) (i32.const 3))))))"#;
const OLDER: &str = r#"(module (memory (export "memory") 1) (tag $stop (param i32))
    (func $note (param i64))
    (func (export "_start")
        try (result i32)
            try (result i32) i32.const 8 throw $stop catch $stop drop rethrow 0 i32.const 6 end
        catch $stop i32.const 100 i32.add end
        i64.extend_i32_s call $note))"#;

#[test]
fn control_goes_on_behind_replaced_branches_on_references_and_exceptions_thrown_again() {
    type Change<'a> = &'a dyn Fn([i64; 3]) -> [i64; 3];
    let cases: [(&str, &str, Change<'_>); 4] = [
        ("none", "", &|plain| plain),
        ("non-null", "wasm:opcode:br_on_non_null:alt { drop_args(); }", &|p| [3, p[1], p[2]]),
        ("cast", "wasm:opcode:br_on_cast:alt { alt_call_by_name(\"nothing\"); }", &|p| {
            [p[0], 4, p[2]]
        }),
        (
            "both",
            "wasm:opcode:br_on_cast:alt { alt_call_by_name(\"nothing\"); }
            wasm:opcode:br_on_non_null:alt { drop_args(); }",
            &|p| [3, 4, p[2]],
        ),
    ];
    for (name, script, change) in cases {
        let wanted = sum(3, |i| change([55 * i, 55 * i, 5]).to_vec());
        assert_eq!(noted(name, BRANCHES, script), wanted, "{name}");
        let counted = script.to_owned() + COUNTERS;
        assert_eq!(noted(name, BRANCHES, &counted), wanted, "{name}, counted");
    }
    for (script, value) in [("", 108), ("wasm:opcode:rethrow:alt { }", 6)] {
        let wanted = sum(1, |_| vec![value]);
        assert_eq!(noted("older", OLDER, script), wanted, "{script}");
        assert_eq!(noted("older", OLDER, &(script.to_owned() + COUNTERS)), wanted, "{script}");
    }
}

#[test]
fn a_function_that_gives_a_reference_of_another_type_is_not_called_instead() {
    let place = Place::new("modules-replacement-types");
    let program = r#"(module
        (type $one (func (param i32) (result i32)))
        (func $some (result (ref $one)) (ref.func $named))
        (func $any (result (ref func)) (ref.func $two))
        (func $named (type $one) (local.get 0))
        (func $two (param i64 i64) (result i64) (local.get 0))
        (elem declare func $named $two)
        (func (export "_start") (drop (call_ref $one (i32.const 1) (call $some)))))"#;
    let script = "wasm:opcode:call:alt / imm0 == 0 / { alt_call_by_name(\"any\"); }";
    let program = place.file("program.wat", program);
    let done = run(&place, &[], &[&place.file("script.mm", script)], &program);
    assert!(errors(&done).contains("\"any\" has another type"), "{done:?}");
}

/// A monitor's function that says that it gives all results, and gives no reference.
#[test]
fn a_reference_that_nobody_gives_is_a_trap() {
    let place = Place::new("modules-replacement-no-reference");
    let monitor = r#"(module (import "wasm-aot:ext" "v1" (func))
        (func (export "wasm:opcode:br_on_null:alt () {decides, \"some\"}") (result i32)
            (i32.const 1)))"#;
    let monitor = place.file("monitor.wat", monitor);
    let done = run(&place, &[], &[&monitor], &place.file("program.wat", LAST));
    assert!(!done.status.success() && errors(&done).contains("null reference"), "{done:?}");
}

#[test]
fn what_is_given_instead_of_a_trap_is_there_behind_it_on_both_targets() {
    let program = r#"(module (memory (export "memory") 1)
        (func $note (param i64))
        (func $tell (param i32) (call $note (i64.extend_i32_s (local.get 0))))
        (func $six (result i32) (i32.const 6))
        (func $stop (param i32) (unreachable) (call $tell) (call $tell (local.get 0)))
        (func (export "_start") (local $i i32)
            (loop
                (call $stop (local.get $i))
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br_if 0 (i32.lt_u (local.get $i) (i32.const 3))))))"#;
    for (name, script, given) in [
        ("trap-given", "wasm:opcode:unreachable:alt { return 8; }", 8),
        ("trap-called", "wasm:opcode:unreachable:alt { alt_call_by_name(\"six\"); }", 6),
        ("trap-number", "wasm:opcode:unreachable:alt { alt_call_by_id(2); }", 6),
    ] {
        assert_eq!(noted(name, program, script), sum(3, |i| vec![given, i]), "{name}");
    }
}

#[test]
fn code_behind_a_branch_that_lacks_operands_is_refused_on_both_targets() {
    let place = Place::new("modules-replacement-lacks");
    let program =
        r#"(module (func (export "_start") (local i32) (block (br 0) (i32.add) (local.set 0))))"#;
    let script = "wasm:opcode:br:alt { report var n: u32; n++; }";
    let program_file = place.file("program.wat", program);
    let done = run(&place, &[], &[&place.file("script.mm", script)], &program_file);
    let bytes = wat::parse_str(program).expect("text");
    let options = whamm::Options::default();
    let inside = whamm::instrument(&[whamm::Source::new("x.mm", script)], &[], &bytes, &options);
    let inside = inside.expect_err("it is not valid").to_string();
    for said in [errors(&done), inside] {
        let lacks = "not be valid: type mismatch: expected i32 but nothing on stack";
        assert!(said.contains("control goes on behind") && said.contains(lacks), "{said}");
    }
}

/// Branches of each kind that leave blocks, which may all be replaced.
const LEAVING: &str = r#"(module (memory (export "memory") 1)
    (func $note (param i64))
    (func $tell (param i32) (call $note (i64.extend_i32_s (local.get 0))))
    (tag $e (param i32))
    (func $thrown (param i32) (result i32)
        (block $caught (result i32)
            (block $inner
                (try_table (catch $e $caught) (catch_all $inner)
                    (block (block
                        (br_table 0 1 2 3 (local.get 0)))
                        (throw $e (local.get 0)))
                    (call $tell (i32.const 2)) (br $inner))
                (call $tell (i32.const 3)))
            (i32.const 77)))
    (func $looped (param i32) (local $k i32)
        (block $out
            (loop $again
                (block $skip
                    (br_if $skip (i32.and (local.get $k) (i32.const 1)))
                    (if (i32.eq (local.get $k) (local.get 0)) (then (br $out))
                        (else (block (br_if $again (i32.eqz (local.tee $k
                            (i32.add (local.get $k) (i32.const 2))))))))
                    (call $tell (local.get $k)))
                (local.set $k (i32.add (local.get $k) (i32.const 1)))
                (br_if $again (i32.lt_u (local.get $k) (i32.const 9)))))
        (call $tell (local.get $k)))
    (func $null (param externref) (result i32)
        (block $no
            (block $yes (result externref)
                (br_on_null $no (local.get 0))
                (br $yes))
            (drop) (return (i32.const 4)))
        (i32.const 5))
    (func (export "_start") (local $i i32)
        (loop
            (call $tell (call $thrown (local.get $i))) (call $looped (local.get $i))
            (call $tell (call $null (ref.null extern)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if 0 (i32.lt_u (local.get $i) (i32.const 5))))))"#;

/// The same for the older encoding of exceptions.
const DELEGATING: &str = r#"(module (memory (export "memory") 1)
    (func $note (param i64))
    (func $tell (param i32) (call $note (i64.extend_i32_s (local.get 0))))
    (tag $e (param i32))
    (func $thrown (param i32) (result i32)
        try $outer (result i32)
            try
                block
                    try
                        (br_if 1 (i32.eq (local.get 0) (i32.const 3)))
                        (throw $e (local.get 0))
                    delegate $outer
                end
            catch_all
                (call $tell (i32.const 8))
                rethrow 0
            end
            try
                (throw $e (i32.const 9))
            catch $e
                drop
                block rethrow 1 end
            end
            i32.const 6
        catch $e
        end)
    (func (export "_start") (local $i i32)
        (loop
            (call $tell (call $thrown (local.get $i)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if 0 (i32.lt_u (local.get $i) (i32.const 5))))))"#;

#[test]
fn blocks_are_replaced_at_some_of_their_turns_on_both_targets() {
    let around = "wasm:opcode:block|loop|if|else|try*:after { report var a: u32; a++; }
        wasm:opcode:block|loop|if|else|try*:exit { report var x: u32; x++; }
        wasm:opcode:br*:at_target { report var t: u32; t++; }
        wasm:opcode:end:before { report var ends: u32; ends++; }
        wasm:opcode:*.const|local.*|call:before { report var b: u32; b++; }
        wasm:block:* { report var s: u32; s++; }";
    for (name, program) in [("leaving", LEAVING), ("delegating", DELEGATING)] {
        let mut all = Vec::new();
        for turn in 0..6 {
            // Only blocks without results can be replaced by nothing.
            let script = format!(
                "report var n: u32;
                wasm:opcode:block|loop|if|try*:alt / fname != \"_start\" && n % 6 == {turn}
                    && ((opidx > 0 && fname != \"null\") || (opidx == 0 && fname == \"null\")) / {{
                    n++; }}
                wasm:opcode:*.const|local.get:before {{ n++; }}
                {around}"
            );
            all.push(noted(&format!("{name}-{turn}"), program, &script));
        }
        all.sort_unstable();
        all.dedup();
        assert!(all.len() > 2, "{name}: {all:?}");
    }
}

#[test]
fn branches_on_references_are_replaced_at_some_of_their_turns_on_both_targets() {
    let place = Place::new("modules-replacement-references");
    let program = r#"(module (memory (export "memory") 1)
        (elem declare func $some)
        (func $some (param funcref) (result (ref func)) (ref.func $some))
        (func $f (param funcref) (result i32)
            (block $null
                (block (br_on_null $null (local.get 0)) (drop) (return (i32.const 4))))
            (i32.const 5))
        (func (export "_start") (local $i i32)
            (loop
                (drop (call $f (ref.null func)))
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br_if 0 (i32.lt_u (local.get $i) (i32.const 10))))))"#;
    let script = "report var n: u32; report var none: u32; report var some: u32;
        wasm:opcode:br_on_null:before { n++; }
        wasm:opcode:br_on_null:alt / n % 3 == 0 / { alt_call_by_name(\"some\"); }
        wasm:opcode:i32.const:before / imm0 == 4 / { some++; }
        wasm:opcode:i32.const:before / imm0 == 5 / { none++; }";
    let told = rows_of_both_targets(&place, script, program);
    assert_eq!(told, ["n   10", "none   7", "some   3"]);
}
