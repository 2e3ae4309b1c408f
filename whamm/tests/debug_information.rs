//! Debug information of a real program stays true.

use std::process::Command;
use whamm::{Options, Source};

const PROGRAM: &str = "
fn square(n: u32) -> u32 {
    n * n + 1
}

fn main() {
    let mut sum = 0;
    for n in 0..10 {
        sum += square(n);
    }
    println!(\"{sum}\");
}
";

fn program() -> Option<Vec<u8>> {
    let place = std::env::temp_dir().join(format!("whamm-program-{}", std::process::id()));
    let (source, output) = (place.with_extension("rs"), place.with_extension("wasm"));
    std::fs::write(&source, PROGRAM).expect("there is room");
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    command.args(["--edition=2024", "--target=wasm32-wasip1", "-g", "-o"]).arg(&output).arg(&source);
    let done = command.output().is_ok_and(|o| o.status.success());
    let bytes = std::fs::read(&output).ok().filter(|_| done);
    let _ = std::fs::remove_file(&source);
    let _ = std::fs::remove_file(&output);
    if bytes.is_none() {
        assert!(std::env::var_os("FASTINST_TEST_REQUIRE").is_none_or(|v| v != "1"), "rustc has no target wasm32-wasip1");
        eprintln!("SKIPPED: no program is compiled: rustc has no target wasm32-wasip1");
    }
    bytes
}

/// Of every multiplication in `square`: which file and line it is said to be of.
fn multiplications(bytes: &[u8]) -> Vec<(String, u32)> {
    let lines = whamm::dwarf::Lines::read(bytes);
    let mut start = 0;
    let mut found = Vec::new();
    for payload in wasmparser::Parser::new(0).parse_all(bytes) {
        match payload.expect("it is valid") {
            wasmparser::Payload::CodeSectionStart { unchecked_range, .. } => start = unchecked_range.start,
            wasmparser::Payload::CodeSectionEntry(body) => {
                let mut reader = body.get_operators_reader().expect("it is valid");
                while !reader.eof() {
                    let at = reader.original_position();
                    if matches!(reader.read().expect("it is valid"), wasmparser::Operator::I32Mul | wasmparser::Operator::I64Mul)
                    {
                        found.extend(lines.find(at - start).map(|(file, line)| (file.to_string(), line)));
                    }
                }
            }
            _ => {}
        }
    }
    found
}

#[test]
fn instructions_are_still_of_the_lines_they_were_of() {
    let Some(program) = program() else { return };
    let script = Source::new(
        "hotness",
        "wasm:opcode:*:before { report var n: u32; n++; } wasm:opcode:i??.mul:before / file != \"\" / { report var l: u32; l = line; }",
    );
    let output = whamm::instrument(&[script], &[], &program, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
    let (before, after) = (multiplications(&program), multiplications(&output.module));
    assert!(before.iter().any(|(file, line)| file.ends_with(".rs") && *line == 3), "{before:?}");
    assert_eq!(before, after);
}
