//! `trap` predicts traps exactly: every instruction here is run unchanged, and with a probe that
//! counts the predictions.

mod engine;

use whamm::{Options, Source};

/// A module whose entry executes a body, with memories, tables and segments of known sizes.
fn program(body: &str, wide: bool) -> Vec<u8> {
    let index = if wide { "i64" } else { "" };
    let text = format!(
        r#"(module
            (type $none (func)) (type $one (func (param i32) (result i32))) (type $same (func (param i32) (result i32)))
            (memory $m {index} 1) (memory $n 2)
            (table $t {index} 10 20 funcref) (table $u 4 funcref)
            (elem (table $t) ({offset}.const 1) func $f $g) (elem $p func $f $g $f) (elem declare func $h)
            (data $d "0123456789") (data (memory $m) ({offset}.const 0) "there")
            (func $f) (func $g (param i32) (result i32) local.get 0) (func $h (param i32) (result i32) local.get 0)
            (func (export "main") {body}))"#,
        offset = if wide { "i64" } else { "i32" },
    );
    wat::parse_str(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn foretold(program: &[u8]) -> (u32, bool) {
    let script = Source::new(
        "trap.mm",
        "report var foretold: u32; wasm:opcode:*:before / trap / { foretold++; }",
    );
    let output = whamm::instrument(
        &[script],
        &[],
        program,
        &Options { exact_traps: true, ..Options::default() },
    )
    .unwrap_or_else(|e| panic!("{e}"));
    let outcome = engine::run(&output.module, &[]);
    let row = outcome
        .kept
        .lines()
        .find(|l| l.contains("foretold"))
        .unwrap_or_else(|| panic!("{outcome:?}"));
    (row.rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a number"), outcome.trapped)
}

fn check(body: &str, wide: bool) -> bool {
    let program = program(body, wide);
    let plain = engine::run(&program, &[]).trapped;
    let (count, trapped) = foretold(&program);
    assert_eq!(plain, trapped, "the probe changes nothing: {body}");
    assert_eq!(count, u32::from(trapped), "{body}");
    trapped
}

#[test]
fn entries_of_tables_trap_when_they_are_not_there_or_are_of_another_type() {
    let mut traps = Vec::new();
    for entry in [0, 2, 3, 5, 9, 10] {
        for (ty, args) in [("none", ""), ("one", "(i32.const 5)"), ("same", "(i32.const 5)")] {
            let drop = if ty == "none" { "" } else { "drop" };
            traps.push(check(
                &format!("(call_indirect $t (type ${ty}) {args} (i32.const {entry})) {drop}"),
                false,
            ));
        }
        for change in [
            "(table.set $t (i32.const 3) (ref.func $h))",
            "(table.set $t (i32.const 3) (table.get $t (i32.const 2)))",
            "(table.set $t (i32.const 1) (ref.null func))",
            "(drop (table.grow $t (ref.func $g) (i32.const 5)))",
            "(table.fill $t (i32.const 4) (ref.func $h) (i32.const 3))",
            "(table.init $t $p (i32.const 2) (i32.const 1) (i32.const 2)) (elem.drop $p)",
            "(table.init $u $p (i32.const 0) (i32.const 0) (i32.const 3)) (table.copy $t $u (i32.const 5) (i32.const 0) (i32.const 4))",
            "(table.copy $t $t (i32.const 2) (i32.const 1) (i32.const 3)) (table.copy $t $t (i32.const 0) (i32.const 2) (i32.const 3))",
        ] {
            let call =
                format!("(drop (call_indirect $t (type $one) (i32.const 5) (i32.const {entry})))");
            traps.push(check(&format!("{change} {call}"), false));
        }
    }
    assert!(traps.contains(&true) && traps.contains(&false));
}

#[test]
fn whole_stretches_trap_where_they_reach_beyond_an_end() {
    let mut traps = Vec::new();
    for (to, from, count) in
        [(0, 0, 0), (7, 0, 4), (10, 0, 0), (11, 0, 0), (0, 5, 0), (0, 1, 4), (2, -1, 1)]
    {
        let operands = format!("(i32.const {to}) (i32.const {from}) (i32.const {count})");
        let far = format!("(i32.const {}) (i32.const {from}) (i32.const {count})", to + 65530);
        for body in [
            format!("(table.copy $t $u {operands})"),
            format!("(table.init $t $p {operands})"),
            format!("(elem.drop $p) (table.init $t $p {operands})"),
            format!("(table.fill $t (i32.const {to}) (ref.null func) (i32.const {count}))"),
            format!("(memory.init $d {far})"),
            format!("(data.drop $d) (memory.init $d {far})"),
            format!("(memory.copy $m $n {far})"),
            format!("(memory.copy $n $m {far})"),
            format!("(memory.fill (i32.const {}) (i32.const 1) (i32.const {count}))", to + 65530),
            format!("(memory.fill (i32.const -1) (i32.const 1) (i32.const {count}))"),
            format!("(drop (table.get $t (i32.const {to})))"),
            format!("(table.set $t (i32.const {to}) (ref.null func))"),
        ] {
            traps.push(check(&body, false));
        }
    }
    assert!(traps.contains(&true) && traps.contains(&false));
}

#[test]
fn sixty_four_bits_of_an_address_count() {
    let mut traps = Vec::new();
    for at in ["8", "65529", "65533", "4294967296", "-1", "-8"] {
        for body in [
            format!("(drop (i64.load (i64.const {at})))"),
            format!("(i32.store offset=3 (i64.const {at}) (i32.const 1))"),
            format!("(memory.fill (i64.const {at}) (i32.const 1) (i64.const 4))"),
            format!("(memory.fill (i64.const 4) (i32.const 1) (i64.const {at}))"),
            format!("(memory.copy $m $n (i64.const {at}) (i32.const 0) (i32.const 7))"),
            format!("(memory.init $d (i64.const {at}) (i32.const 3) (i32.const 7))"),
            format!("(drop (call_indirect $t (type $one) (i32.const 5) (i64.const {at})))"),
            format!("(drop (table.get $t (i64.const {at})))"),
        ] {
            traps.push(check(&body, true));
        }
    }
    assert!(traps.contains(&true) && traps.contains(&false));
}

#[test]
fn numbers_trap_where_they_have_no_result() {
    let mut traps = Vec::new();
    for (a, b) in [("1", "0"), ("-2147483648", "-1"), ("7", "2"), ("-9223372036854775808", "-1")] {
        for op in ["div_s", "div_u", "rem_s", "rem_u"] {
            traps.push(check(&format!("(drop (i64.{op} (i64.const {a}) (i64.const {b})))"), false));
            if a.len() < 15 {
                traps.push(check(
                    &format!("(drop (i32.{op} (i32.const {a}) (i32.const {b})))"),
                    false,
                ));
            }
        }
    }
    for x in
        ["nan", "-1.5", "-0.5", "2147483647.5", "4294967296", "-2147483649", "9.3e18", "1.9e19"]
    {
        for from in ["f32", "f64"] {
            for to in ["i32", "i64"] {
                for sign in ["s", "u"] {
                    traps.push(check(
                        &format!("(drop ({to}.trunc_{from}_{sign} ({from}.const {x})))"),
                        false,
                    ));
                }
            }
        }
    }
    traps.push(check("unreachable", false));
    assert!(traps.contains(&true) && traps.contains(&false));
}

/// The report of a program that recurses to a depth before it traps, whether or not the
/// interpreter's stack overflows; the host requests it.
fn report_from_the_depth(module: &wasmi::Module, depth: i32) -> String {
    let mut store = wasmi::Store::new(module.engine(), ());
    let instance = wasmi::Linker::new(module.engine())
        .instantiate_and_start(&mut store, module)
        .expect("it imports nothing");
    let dive = instance.get_typed_func::<i32, ()>(&store, "dive").expect("exported");
    dive.call(&mut store, depth).expect_err("it traps");
    let flush = instance.get_typed_func::<(), ()>(&store, "whamm:flush").expect("exported");
    flush.call(&mut store, ()).unwrap_or_else(|e| panic!("no report from {depth}: {e}"));
    let kept = instance.get_typed_func::<(), (i32, i32)>(&store, "whamm:report").expect("exported");
    let (at, len) = kept.call(&mut store, ()).expect("two numbers");
    let memory = instance.get_memory(&store, "whamm:memory").expect("exported");
    String::from_utf8_lossy(&memory.data(&store)[at as usize..][..len as usize]).into_owned()
}

#[test]
fn a_stack_that_runs_out_within_the_report_or_a_map_leaves_both_whole() {
    let program = br#"(module (func $dive (export "dive") (param i32)
        (if (i32.eqz (local.get 0)) (then (unreachable)))
        (call $dive (i32.sub (local.get 0) (i32.const 1)))))"#;
    let script = "report var seen: map<u32, u32>; report var nested: map<u32, map<u32, u32>>;
        wasm:opcode:i32.eqz:before { var key: u32 = arg0 as u32; nested[key % 7][key]++; seen[key]++; }";
    let output = whamm::instrument(
        &[Source::new("deep.mm", script)],
        &[],
        program,
        &Options { exact_traps: true, ..Options::default() },
    )
    .unwrap_or_else(|e| panic!("{e}"));
    let mut config = wasmi::Config::default();
    config.wasm_multi_memory(true);
    let module = wasmi::Module::new(&wasmi::Engine::new(&config), &output.module).expect("valid");
    let mut ran_out = 0;
    for depth in (930..1010).chain([2_000]) {
        let report = report_from_the_depth(&module, depth);
        let last = report.rsplit("\nid, ").next().unwrap_or_default();
        let row = last.lines().find(|row| row.contains(", seen, ")).expect("a row");
        let mut keys: Vec<i32> = row
            .rsplit(", ")
            .next()
            .unwrap_or_default()
            .split(';')
            .map(|pair| {
                let (key, count) = pair.split_once("->").unwrap_or_else(|| panic!("{row}"));
                assert_eq!(count, "1", "{depth}: {row}");
                key.parse().expect("a number")
            })
            .collect();
        keys.sort_unstable();
        let least = keys[0];
        ran_out += u32::from(least > 0);
        assert!(keys.iter().copied().eq(least..=depth), "{depth}: {least}, {}", keys.len());
    }
    assert!(ran_out > 5, "the stack was to run out: {ran_out}");
}
