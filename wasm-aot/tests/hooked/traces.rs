//! `trace`: calls and instructions, in order.

use super::*;

#[test]
fn a_trace_of_calls_has_every_begin_and_end_in_order() {
    let args = [5, 9, 10, 0, 7, 12, 9];
    let trace = written(CALLS, &args, "trace,calls", "file");
    // The imported function is not a function of the module.
    let expected = noted(CALLS, &args);
    let mut imported = 0;
    let ours = expected.iter().filter(|note| match note {
        Note::Begin(name) if name == "twice" => (imported += 1, false).1,
        Note::End if imported > 0 => (imported -= 1, false).1,
        _ => true,
    });
    let shown = |note: &Note| match note {
        Note::Begin(name) => format!("> {name}"),
        _ => "<".to_owned(),
    };
    let expected: Vec<String> = ours.map(shown).collect();
    let found = trace.lines().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words[0] == "<" { "<".to_owned() } else { words[..2].join(" ") }
    });
    let found: Vec<String> = found.collect();
    assert!(
        found == expected,
        "{:?}",
        found.iter().zip(&expected).enumerate().find(|(_, (found, expected))| found != expected)
    );
    assert!(trace.starts_with("> f 5\n  > fib 5\n    > fib 4\n"), "{}", &trace[..60]);
}

#[test]
fn a_trace_has_every_instruction_that_was_begun_with_its_operands() {
    let args = [5, 9, 10, 7];
    let trace = written(CALLS, &args, "trace", "file");
    let instructions =
        trace.lines().filter(|line| line.trim_start().starts_with('+')).count() as u64;
    let all: u64 = counts(&observed(CALLS, &args, &["icount"])[0], "dynamic").iter().sum();
    assert_eq!(instructions, all);
    let text = r#"(module (func $f (export "f") (param i32) (result i32)
        (drop (f64.mul (f64.const 1.5) (f64.const -2)))
        (i32.sub (local.get 0) (i32.const 3))))"#;
    let expected = "> f 9\n  +1 f64.const 1.5\n  +10 f64.const -2\n  +19 f64.mul  1.5 -2\n  +20 drop  -3\n  +21 local.get 0\n  \
                    +23 i32.const 3\n  +25 i32.sub  9 3\n  +26 end  6\n< f 6\n";
    assert_eq!(written(text, &[9], "trace", "file"), expected);
    let csv = written(text, &[9], "trace,form=csv", "file");
    assert!(
        csv.starts_with("depth,event,function,offset,instruction,values\n0,>,\"f\",,,9\n0,+,\"f\",1,f64.const 1.5,\n"),
        "{csv}"
    );
    let json = written(text, &[9], "trace,form=json", "file");
    let lines: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    assert_eq!(
        (lines.len(), &lines[3]["values"][1], &lines[9]["event"]),
        (10, &"-2".into(), &"<".into())
    );
}
