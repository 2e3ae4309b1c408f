//! The reports of monitors, and when they are printed.

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
    assert_eq!(output_of(&done), "175\n204");
    let told = errors(&done);
    assert!(told.contains("== calls ==\nvariable  value\ncalls         6\n"), "{told}");
    assert!(told.contains("== icount =="), "{told}");
}

#[test]
fn variables_of_scripts_are_tables_with_names_sorted_by_what_they_are() {
    let place = Place::new("modules-tables");
    let program = r#"(module
        (func $down (param i32) (result i32)
            (if (result i32) (i32.eqz (local.get 0)) (then (i32.const 0))
                (else (call $down (i32.sub (local.get 0) (i32.const 1))))))
        (func $nothing)
        (func (export "_start")
            (drop (call $down (i32.const 3))) (call $nothing) (call $nothing)))"#;
    let (program, script) = (place.file("p.wat", program), place.file("all.mm", SCRIPT));
    let done = run(&place, &[], &[&script], &program);
    assert_eq!((done.status.code(), output_of(&done).as_str()), (Some(0), ""), "{}", errors(&done));
    assert_eq!(errors(&done), TABLES);
    // The format for programs has one row per key.
    let done = run(&place, &["--json"], &[&script], &program);
    let told: serde_json::Value = serde_json::from_slice(&done.stderr).expect("an object");
    let rows = told["all"]["rows"].as_array().expect("rows");
    let row = |variable: &str| rows.iter().find(|row| row["variable"] == variable);
    let edge = row("edges").expect("an edge");
    assert_eq!(
        (&edge["key"], &edge["key functions"], &edge["value"]),
        (
            &serde_json::json!([0, 0]),
            &serde_json::json!({"fid": "down", "callee": "down"}),
            &serde_json::json!(3)
        )
    );
    let zero = row("zero").expect("a place");
    assert_eq!((&zero["function"], &zero["value"]), (&"down".into(), &1.into()));
    let done = run(&place, &["--csv"], &[&format!("{script},top=1")], &program);
    let csv = errors(&done);
    assert!(
        csv.starts_with("monitor,script,variable,type,function,fid,pc,probe,key,value\n"),
        "{csv}"
    );
    assert!(csv.contains("\nall,0,called,\"map<str,u64>\",,,,,nothing,2\n"), "{csv}");
    // In the existing compiler's format, on stdout, where a rewritten program prints.
    let done = run(&place, &["--report-format", "whamm"], &[&script], &program);
    let printed = output_of(&done);
    assert!(printed.contains("REPORT CSV FLUSH") && errors(&done).is_empty(), "{printed}");
    assert!(printed.contains(", (0,0)->3;(2,0)->1;(2,1)->2\n"), "{printed}");
    let done = run(&place, &[], &[&format!("{script},top=1")], &program);
    assert!(errors(&done).contains("… and 2 more (top=all shows them)"), "{}", errors(&done));
    let file = place.0.join("report").display().to_string();
    let done = run(&place, &["--report", &file], &[&script], &program);
    assert!(errors(&done).is_empty() && done.stdout.is_empty());
    assert_eq!(std::fs::read_to_string(&file).expect("written"), TABLES);
}

const SCRIPT: &str = r"report var edges: map<(u32, u32), u32>;
    report var called: map<str, u64>;
    report var all: i64;
    wasm:opcode:call:before { edges[(fid, imm0)]++; called[target_fn_name]++; all -= 1; }
    wasm:opcode:i32.eqz:before {
        report var zero: u32;
        report var more: u32;
        if (arg0 == 0) { zero++; } else { more++; }
    }
    wasm:opcode:i32.sub:before { report var operands: map<i32, u32>; operands[arg1]++; }";

const TABLES: &str = "== all ==
function  pc   probe           arg1  operands
down      +13  opcode:i32.sub     1         1
down      +13  opcode:i32.sub     2         1
down      +13  opcode:i32.sub     3         1

variable  value
all          -6

target_fn_name  called
down                 4
nothing              2

function  callee   edges
down      down         3
_start    nothing      2
_start    down         1

function  pc  probe           zero  more
down      +3  opcode:i32.eqz     1     3
";

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

#[test]
fn odd_names_of_functions_stay_whole_in_reports_and_harm_no_terminal() {
    let place = Place::new("modules-odd-names");
    let text = r#"(module (func $"a->1;b" nop) (func $"x;y" nop) (func $"q\"," nop) (func $"\1b[31m" nop)
        (func $nameless (@name "") (export "") nop)
        (func (export "_start") (call 0) (call 1) (call 2) (call 3) (call 4)))"#;
    let program = place.file("program.wat", text);
    let script = "report var m: map<str, u32>; report var n: map<u32, str>;
        wasm:func:entry / fid != 5 / { m[fname]++; n[fid] = fname; }";
    let script = place.file("names.mm", script);
    let done = run(&place, &["--json"], &[&script], &program);
    let told: serde_json::Value =
        serde_json::from_str(&errors(&done)).unwrap_or_else(|_| panic!("{}", errors(&done)));
    let rows = told["names"]["rows"].as_array().expect("rows");
    let of = |variable: &str, what: &str| {
        let own = rows.iter().filter(|row| row["variable"] == variable);
        let text = |row: &'_ serde_json::Value| row.pointer(what)?.as_str().map(str::to_owned);
        let mut texts: Vec<String> = own.filter_map(text).collect();
        texts.sort_unstable();
        texts.join("|")
    };
    let names = "|\u{1b}[31m|a->1;b|q\",|x;y";
    assert_eq!((of("m", "/key/0").as_str(), of("n", "/value").as_str()), (names, names), "{told}");
    // The report for people shows a number if there is no name, and no terminal control characters.
    let done = run(&place, &[], &["calls", &script], &program);
    let told = errors(&done);
    assert!(told.contains("function 4 ") && !told.contains('\u{1b}'), "{told}");
    let text = place.file(
        "exports.wat",
        r#"(module (import "a\1bb" "c\0ad" (func)) (func (export "\1b[2J")) (@custom "\1bs" "x"))"#,
    );
    let artifact = place.0.join("exports.aot").display().to_string();
    place.good(&["compile", &text, "-o", &artifact]);
    let told = place.good(&["inspect", &artifact]);
    let lines =
        ["import", "export", "section"].map(|word| told.lines().any(|l| l.starts_with(word)));
    assert!(lines == [true; 3] && !told.contains('\u{1b}'), "{told}");
}
