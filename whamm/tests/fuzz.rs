//! Runs each fuzz body for a short time; `tests/fuzz` has targets for long runs.

#[path = "fuzz/body.rs"]
mod body;

use arbtest::arbtest;
use whamm::Source;

#[test]
fn any_text_is_a_script_or_is_told_why_not() {
    arbtest(body::text).budget_ms(2000);
}

#[test]
fn deep_and_long_scripts_are_refused_or_read() {
    for text in [
        "(".repeat(100_000),
        "!".repeat(100_000),
        "{".repeat(100_000),
        "1+".repeat(100_000),
        "if (x) { ".repeat(50_000),
        "/*".repeat(50_000),
        "map<i32,".repeat(50_000),
    ] {
        for before in [
            "wasm:opcode:call:before { var x: i32; x = ",
            "wasm:opcode:call:before { ",
            "var x: ",
            "",
        ] {
            let said = whamm::check_scripts(&[Source::new("deep", format!("{before}{text}"))], &[]);
            assert!(said.has_errors() && !said.to_string().is_empty());
        }
    }
    let long = "wasm:opcode:call:before { n = n + 1; }\n".repeat(20_000);
    assert!(
        whamm::check_scripts(&[Source::new("long", format!("var n: i32;\n{long}"))], &[])
            .is_empty()
    );
}

#[test]
fn any_module_is_rewritten_to_a_valid_one() {
    arbtest(body::module).size_min(1 << 13).size_max(1 << 16).budget_ms(4000);
}

#[test]
fn any_bytes_are_refused_or_rewritten() {
    arbtest(body::bytes).budget_ms(500);
}
