//! Monitors with hooks report the same as an interpreter that shares no code with the engine; in
//! the interpreter the program itself reports its events.
//!
//! Programs are texts with notes in braces. For the engine the notes are left out; for the
//! interpreter they are calls of a function that records them:
//!
//! ```text
//!     {+name}            function `name` begins
//!     {-}                it ends
//!     {r 4 8 INDEX}      INDEX, at which 4 bytes are read with offset 8; {w …} of writing
//! ```

#[path = "hooked/choices.rs"]
mod choices;
#[path = "hooked/contexts.rs"]
mod contexts;
#[path = "hooked/exceptions.rs"]
mod exceptions;
#[path = "hooked/files.rs"]
mod files;
#[path = "hooked/latency.rs"]
mod latency;
#[path = "hooked/loops.rs"]
mod loops;
#[path = "hooked/memory.rs"]
mod memory;
#[path = "hooked/traces.rs"]
mod traces;
#[path = "hooked/values.rs"]
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wasm_aot::monitor::{Cell, Choices, MonitorSet, Report};
use wasm_aot::{Config, Engine, Linker, Module, Store, Val};

/// A recorded event.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Note {
    Begin(String),
    End,
    Access { writes: bool, size: u32, address: u64 },
}

/// The text of a program, with or without its notes as calls, and the names of its functions.
fn text(template: &str, with_notes: bool) -> (String, Vec<String>) {
    let mut out = String::new();
    let mut names: Vec<String> = Vec::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once('{') {
        let (note, behind) = behind.split_once('}').expect("a note ends");
        out.push_str(before);
        rest = behind;
        let words: Vec<&str> = note.splitn(4, ' ').collect();
        match words[..] {
            ["imports"] if with_notes => out.push_str(
                "(import \"note\" \"begin\" (func $begin (param i32))) (import \"note\" \"end\" (func $end))
                 (import \"note\" \"access\" (func $access (param i32 i32 i32 i32) (result i32)))",
            ),
            [kind @ ("r" | "w"), size, offset, index] if with_notes => out.push_str(&format!(
                "(call $access (i32.const {}) (i32.const {size}) (i32.const {offset}) {index})",
                u32::from(kind == "w")
            )),
            ["r" | "w", _, _, index] => out.push_str(index),
            ["-"] if with_notes => out.push_str("(call $end)"),
            [name] if with_notes && name.starts_with('+') => {
                out.push_str(&format!("(call $begin (i32.const {}))", names.len()));
                names.push(name[1..].to_owned());
            }
            _ => {}
        }
    }
    out.push_str(rest);
    (out, names)
}

/// The interpreter's records while it calls `f` with each argument.
fn noted(template: &str, args: &[i32]) -> Vec<Note> {
    let (text, names) = text(template, true);
    let mut config = wasmi::Config::default();
    config.wasm_tail_call(true);
    let engine = wasmi::Engine::new(&config);
    let module =
        wasmi::Module::new(&engine, wat::parse_str(&text).unwrap_or_else(|e| panic!("{e}")))
            .expect("valid");
    let mut store = wasmi::Store::new(&engine, Vec::new());
    let mut linker = wasmi::Linker::new(&engine);
    type Caller<'a> = wasmi::Caller<'a, Vec<Note>>;
    let begin = move |mut caller: Caller<'_>, name: i32| {
        caller.data_mut().push(Note::Begin(names[name as usize].clone()));
    };
    linker.func_wrap("note", "begin", begin).expect("new");
    linker
        .func_wrap("note", "end", |mut caller: Caller<'_>| caller.data_mut().push(Note::End))
        .expect("new");
    let access = |mut caller: Caller<'_>, writes: i32, size: i32, offset: i32, index: i32| {
        let address = u64::from(index as u32) + u64::from(offset as u32);
        let memory =
            caller.get_export("memory").and_then(wasmi::Extern::into_memory).expect("a memory");
        if address + size as u64 <= memory.data_size(&caller) as u64 {
            caller.data_mut().push(Note::Access {
                writes: writes != 0,
                size: size as u32,
                address,
            });
        }
        index
    };
    linker.func_wrap("note", "access", access).expect("new");
    linker.func_wrap("host", "twice", |x: i32| x * 2).expect("new");
    let instance = linker.instantiate_and_start(&mut store, &module).expect("an instance");
    let function = instance.get_typed_func::<i32, i32>(&store, "f").expect("exported");
    for arg in args {
        let _ = function.call(&mut store, *arg);
    }
    store.into_data()
}

/// A module that programs may import: a function that throws.
const RAISING: &str = r#"(module (tag $e) (func (export "raise") (throw $e)))"#;

/// The reports of monitors after `f` was called with each argument.
fn observed(template: &str, args: &[i32], monitors: &[&str]) -> Vec<Report> {
    let monitors =
        MonitorSet::new(Choices::new(monitors.iter().copied()).expect("known")).expect("ready");
    let engine = Engine::new(monitors.configure(&mut Config::new())).expect("an engine");
    let module = monitors
        .compile(&engine, text(template, false).0)
        .unwrap_or_else(|error| panic!("{error}"));
    let raising = Module::new(&engine, RAISING).expect("a module");
    // The observations of an instance are not lost when it ends.
    let (early, late) = args.split_at(args.len() / 2);
    for (args, ends) in [(early, true), (late, false)] {
        let mut store = Store::new(&engine, ());
        let mut linker = Linker::new(&engine);
        linker.func_wrap("host", "twice", |x: i32| x * 2).expect("new");
        let other = linker.instantiate(&mut store, &raising).expect("an instance");
        linker.instance(&mut store, "other", other).expect("new");
        let instance = linker.instantiate(&mut store, &module).expect("an instance");
        let function = instance.get_func(&mut store, "f").expect("exported");
        for arg in args {
            let _ = function.call(&mut store, &[Val::I32(*arg)]);
        }
        if !ends {
            return monitors.reports(None);
        }
    }
    unreachable!("the second half is reported")
}

fn column(report: &Report, name: &str) -> usize {
    report
        .columns
        .iter()
        .position(|column| *column == name)
        .unwrap_or_else(|| panic!("{name}: {:?}", report.columns))
}

fn words(report: &Report, name: &str) -> Vec<String> {
    let at = column(report, name);
    report.rows.iter().map(|row| row[at].shown()).collect()
}

fn counts(report: &Report, name: &str) -> Vec<u64> {
    let at = column(report, name);
    let count = |row: &Vec<Cell>| match row[at] {
        Cell::Count(count) => count,
        ref other => panic!("{other:?}"),
    };
    report.rows.iter().map(count).collect()
}

/// Recursion, a tail call, every kind of exit, and a trap deep inside.
const CALLS: &str = r#"(module {imports} (import "host" "twice" (func $twice (param i32) (result i32)))
    (memory (export "memory") 1) (table funcref (elem $odd $leaf))
    (type $t (func (param i32) (result i32)))
    (func $fib (type $t) {+fib} (if (i32.lt_u (local.get 0) (i32.const 2)) (then {-} (return (local.get 0))))
        (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1))) (call $fib (i32.sub (local.get 0) (i32.const 2)))) {-})
    (func $even (type $t) {+even} (if (i32.eqz (local.get 0)) (then {-} (return (i32.const 1))))
        (call $leaf (local.get 0)) (drop)
        {-} (return_call $odd (i32.sub (local.get 0) (i32.const 1))))
    (func $odd (type $t) {+odd} (block (br_if 0 (local.get 0)) {-} (br 1 (i32.const 0)))
        {-} (return_call_indirect (type $t) (i32.sub (local.get 0) (i32.const 1)) (i32.and (local.get 0) (i32.const 1))))
    (func $leaf (type $t) {+leaf} (i32.div_s (i32.const 100) (i32.sub (local.get 0) (i32.const 9))) {-})
    (func $f (export "f") (type $t) {+f} (drop (call $fib (i32.and (local.get 0) (i32.const 7))))
        {+twice} (drop (call $twice (local.get 0))) {-}
        (drop (call $even (local.get 0))) (call_indirect (type $t) (local.get 0) (i32.const 0)) {-}))"#;

/// The call paths and their numbers of calls, from the records.
fn ways(notes: &[Note], args: usize) -> BTreeMap<String, u64> {
    let (mut stack, mut ways, mut calls) = (Vec::<&str>::new(), BTreeMap::new(), 0);
    for note in notes {
        match note {
            // After a trap the host starts again.
            Note::Begin(name) if name == "f" => (stack, calls) = (vec!["f"], calls + 1),
            Note::Begin(name) => stack.push(name),
            Note::End => drop(stack.pop()),
            Note::Access { .. } => {}
        }
        if let Note::Begin(_) = note {
            *ways.entry(stack.join(";")).or_default() += 1;
        }
    }
    assert_eq!(calls, args);
    ways
}

/// The contents of a file that a monitor's option names.
fn written(template: &str, args: &[i32], monitor: &str, option: &str) -> String {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Relaxed);
    let path =
        std::env::temp_dir().join(format!("wasm-aot-hooked-{}-{number}", std::process::id()));
    observed(template, args, &[&format!("{monitor},{option}={}", path.display())]);
    let text = std::fs::read_to_string(&path).expect("written");
    std::fs::remove_file(&path).expect("there");
    text
}
