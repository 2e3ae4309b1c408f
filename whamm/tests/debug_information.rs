//! Debug information of a real program stays correct.

use test_support::rustc_for_wasi;
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
    rustc_for_wasi("whamm-program", PROGRAM, &["-g"])
}

/// The recorded file and line of every multiplication in `square`.
fn multiplications(bytes: &[u8]) -> Vec<(String, u32)> {
    let lines = whamm_rewrite::Lines::read(bytes);
    let mut start = 0;
    let mut found = Vec::new();
    for payload in wasmparser::Parser::new(0).parse_all(bytes) {
        match payload.expect("it is valid") {
            wasmparser::Payload::CodeSectionStart { unchecked_range, .. } => {
                start = unchecked_range.start;
            }
            wasmparser::Payload::CodeSectionEntry(body) => {
                let mut reader = body.get_operators_reader().expect("it is valid");
                while !reader.eof() {
                    let at = reader.original_position();
                    if matches!(
                        reader.read().expect("it is valid"),
                        wasmparser::Operator::I32Mul | wasmparser::Operator::I64Mul
                    ) {
                        found.extend(
                            lines.find(at - start).map(|(file, line)| (file.to_string(), line)),
                        );
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
    let output = whamm::instrument(&[script], &[], &program, &Options::default())
        .unwrap_or_else(|e| panic!("{e}"));
    let (before, after) = (multiplications(&program), multiplications(&output.module));
    assert!(before.iter().any(|(file, line)| file.ends_with(".rs") && *line == 3), "{before:?}");
    assert_eq!(before, after);
}

/// The names of functions in the name section.
fn names(bytes: &[u8]) -> std::collections::HashMap<u32, String> {
    let sections =
        wasmparser::Parser::new(0).parse_all(bytes).map(|payload| payload.expect("it is valid"));
    let mut found = std::collections::HashMap::new();
    for section in sections {
        let wasmparser::Payload::CustomSection(custom) = section else { continue };
        let wasmparser::KnownCustom::Name(reader) = custom.as_known() else { continue };
        for part in reader {
            if let wasmparser::Name::Function(map) = part.expect("it is valid") {
                found.extend(
                    map.into_iter()
                        .map(|n| n.expect("it is valid"))
                        .map(|n| (n.index, n.name.to_string())),
                );
            }
        }
    }
    found
}

#[test]
fn functions_keep_their_names_and_those_that_are_added_have_some() {
    let program = wat::parse_str(
        r#"(module (import "env" "log" (func $log (param i32)))
            (func $work (param i32) (result i32) (local i32)
                (loop $l (local.set 1 (i32.load (i32.add (local.get 0) (local.get 1)))) (br_if $l (local.get 1)))
                (local.get 1))
            (memory (export "memory") 1) (func (export "_start") (call $log (call $work (i32.const 4)))))"#,
    )
    .expect("it is text");
    let text = "report var seen: map<str, u32>; report var sum: f64; wasm:opcode:*load*:before { seen[fname]++; sum += 0.5; }
        fn twice(n: u32) -> u32 { return n * 2; } wasm:opcode:call:before { println(\"{} {}\", fname, twice(pc)); }
        wasm:opcode:*:before { report var n: u32; n++; } wasm:func:entry { report frame var depth: u64; depth++; }";
    let options = Options { testing: true, ..Options::default() };
    let output = whamm::instrument(&[Source::new("names", text)], &[], &program, &options)
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(output.diagnostics.is_empty(), "{}", output.diagnostics);
    let names = names(&output.module);
    for name in ["log", "work", "whamm.flush"] {
        assert!(names.values().any(|n| n == name), "{name}: {names:?}");
    }
    let (mut imported, mut defined) = (0, 0);
    for payload in wasmparser::Parser::new(0).parse_all(&output.module) {
        match payload.expect("it is valid") {
            wasmparser::Payload::ImportSection(reader) => {
                let all = reader.into_imports().map(|import| import.expect("it is valid"));
                imported =
                    all.filter(|import| matches!(import.ty, wasmparser::TypeRef::Func(_))).count();
            }
            wasmparser::Payload::FunctionSection(reader) => defined = reader.count() as usize,
            _ => {}
        }
    }
    // The program's own entry never had a name.
    let unnamed: Vec<usize> =
        (0..imported + defined).filter(|&n| !names.contains_key(&(n as u32))).collect();
    assert_eq!(unnamed, [imported + 1], "of {imported} and {defined}: {names:?}");
}

#[test]
fn what_cannot_be_kept_true_is_told() {
    let program = |custom: &str| {
        wat::parse_str(format!("(module {custom} (func (export \"main\") (nop)))"))
            .expect("it is text")
    };
    for (custom, message) in [
        (
            r#"(@custom ".debug_info" "\10\00\00\00\04\00\ff\ff\ff\ff") (@custom ".debug_abbrev" "\01")"#,
            "debug information cannot be kept",
        ),
        (r#"(@custom "sourceMappingURL" "\03x.m")"#, "source map speaks of the program as it was"),
        (
            r#"(@custom "external_debug_info" "\03x.d")"#,
            "in another file speaks of the program as it was",
        ),
        (r#"(@custom "linking" "\02")"#, "instrument the linked program"),
        (r#"(@custom "producers" "\00")"#, ""),
    ] {
        let script = Source::new("nop", "wasm:opcode:nop:before { report var n: u32; n++; }");
        let output = whamm::instrument(&[script], &[], &program(custom), &Options::default())
            .unwrap_or_else(|e| panic!("{custom}: {e}"));
        let said = output.diagnostics.to_string();
        assert!(
            said.contains(message) && said.is_empty() == message.is_empty(),
            "{custom}: {said}"
        );
    }
}
