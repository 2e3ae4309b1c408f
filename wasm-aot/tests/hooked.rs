//! Monitors with hooks say what an interpreter says that shares no code with us: there the program
//! tells by itself what it does.
//!
//! Programs are texts with notes in braces. For us the notes are left out; for the interpreter they
//! are calls of a function that writes down:
//!
//! ```text
//!     {+name}            function `name` begins
//!     {-}                it ends
//!     {r 4 8 INDEX}      INDEX, at which 4 bytes are read with offset 8; {w …} of writing
//! ```

use std::collections::BTreeMap;
use wasm_aot::monitor::{Cell, Choices, MonitorSet, Report};
use wasm_aot::{Config, Engine, Linker, Module, Store, Val};

/// What an interpreter writes down.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Note {
    Begin(String),
    End,
    Access { writes: bool, size: u32, address: u64 },
}

/// The text of a program, with its notes as calls, and the names of its functions; or without.
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

/// What the interpreter writes down while it calls `f` with each argument.
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

/// What programs may import: a function of another module that throws.
const RAISING: &str = r#"(module (tag $e) (func (export "raise") (throw $e)))"#;

/// What monitors report when `f` was called with each argument.
fn observed(template: &str, args: &[i32], monitors: &[&str]) -> Vec<Report> {
    let monitors =
        MonitorSet::new(Choices::new(monitors.iter().copied()).expect("known")).expect("ready");
    let engine = Engine::new(monitors.configure(&mut Config::new())).expect("an engine");
    let module = monitors
        .compile(&engine, text(template, false).0)
        .unwrap_or_else(|error| panic!("{error}"));
    let raising = Module::new(&engine, RAISING).expect("a module");
    // What an instance has seen is not lost when it ends.
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

/// Loads and stores of all sizes, within pages and across them, and some that trap.
const ACCESSES: &str = r#"(module {imports} (memory (export "memory") 3)
    (func (export "f") (param i32) (result i32) (local i32 i32 i64 f64)
        (loop $l
            (local.set 2 (i32.load8_u offset=65533 {r 1 65533 (local.get 1)}))
            (i32.store offset=8 {w 4 8 (local.get 1)} (local.get 2))
            (local.set 3 (i64.load32_s {r 4 0 (local.get 0)}))
            (i64.store16 {w 2 0 (i32.mul (local.get 1) (i32.const 3))} (local.get 3))
            (local.set 4 (f64.load {r 8 0 (local.get 1)}))
            (f64.store offset=65530 {w 8 65530 (local.get 1)} (local.get 4))
            (drop (f32.load offset=4 {r 4 4 (local.get 0)}))
            (local.set 1 (i32.add (local.get 1) (i32.const 1021)))
            (br_if $l (i32.lt_u (local.get 1) (local.get 0))))
        (i32.load16_s {r 2 0 (i32.mul (local.get 0) (i32.const 7))})))"#;

#[test]
fn memory_says_what_each_page_sees() {
    let args = [0, 1, 5_000, 20_000, 64_000, 70_000, 100_000, -1];
    let mut expected: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
    for note in noted(ACCESSES, &args) {
        let Note::Access { writes, address, .. } = note else { continue };
        expected.entry(address >> 16).or_default()[usize::from(writes)] += 1;
    }
    let report = &observed(ACCESSES, &args, &["memory"])[0];
    let pages = words(report, "from")
        .into_iter()
        .map(|from| u64::from_str_radix(&from, 16).expect("an address") >> 16);
    let found = counts(report, "reads")
        .into_iter()
        .zip(counts(report, "writes"))
        .map(|(reads, writes)| [reads, writes]);
    assert_eq!(pages.zip(found).collect::<BTreeMap<_, _>>(), expected);
}

#[test]
fn a_trace_of_memory_has_every_access_in_order() {
    let args = [3_000, 70_000, -1];
    let path = std::env::temp_dir().join(format!("wasm-aot-accesses-{}", std::process::id()));
    observed(ACCESSES, &args, &[&format!("memory,trace={}", path.display())]);
    let trace = std::fs::read_to_string(&path).expect("written");
    std::fs::remove_file(&path).expect("there");
    let found = trace.lines().map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let [_, _, kind, "0", address, size, value] = fields[..] else { panic!("{line}") };
        let size: u32 = size.parse().expect("a number");
        assert_eq!(value.len() as u32, 2 * size, "{line}");
        let address =
            u64::from_str_radix(address.trim_start_matches("0x"), 16).expect("an address");
        Note::Access { writes: kind == "store", size, address }
    });
    let (found, expected): (Vec<Note>, _) = (found.collect(), noted(ACCESSES, &args));
    assert!(
        found == expected,
        "{:?}",
        found.iter().zip(&expected).find(|(found, expected)| found != expected)
    );
}

/// Recursion, a tail call, every way out, and a trap deep inside.
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

/// Ways to functions and how often they were gone, by what was written down.
fn ways(notes: &[Note], args: usize) -> BTreeMap<String, u64> {
    let (mut stack, mut ways, mut calls) = (Vec::<&str>::new(), BTreeMap::new(), 0);
    for note in notes {
        match note {
            // After a trap the host begins anew.
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

#[test]
fn the_tree_of_contexts_is_what_the_program_says_itself_also_after_traps() {
    let args = [5, 9, 10, 0, 7, 12, 9];
    let expected = ways(&noted(CALLS, &args), args.len());
    assert!(expected.len() > 10, "{expected:?}");
    let report = &observed(CALLS, &args, &["profile"])[0];
    // The imported function is called by its own name here.
    let found: BTreeMap<String, u64> =
        words(report, "way").into_iter().zip(counts(report, "calls")).collect();
    assert_eq!(found, expected);
}

#[test]
fn flat_profiles_have_the_calls_of_the_tree_and_monitors_do_not_know_of_each_other() {
    let args = [5, 9, 10, 7];
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for (way, calls) in ways(&noted(CALLS, &args), args.len()) {
        *expected.entry(way.rsplit(';').next().expect("a name").to_owned()).or_default() += calls;
    }
    let reports = observed(
        CALLS,
        &args,
        &["functions", "profile,depth=2", "hotness", "memory", "calls,graph"],
    );
    let found: BTreeMap<String, u64> =
        words(&reports[0], "function").into_iter().zip(counts(&reports[0], "calls")).collect();
    assert_eq!(found, expected);
    assert!(counts(&reports[1], "depth").iter().all(|depth| *depth <= 2));
    let alone = observed(CALLS, &args, &["hotness"]);
    assert_eq!(alone[0], reports[2]);
}

#[test]
fn time_is_charged_once_and_belongs_to_who_has_spent_it() {
    let text = r#"(module (func $work (param i32) (loop $l (br_if $l (local.tee 0 (i32.sub (local.get 0) (i32.const 1))))))
        (func $idle) (func $calls (call $work (i32.const 3000000)) (call $idle))
        (func (export "f") (param i32) (result i32) (call $calls) (i32.const 1)))"#;
    let reports = observed(text, &[1, 1], &["functions", "profile,time-all"]);
    let time = |name: &str| {
        let at =
            words(&reports[0], "function").iter().position(|other| other == name).expect("called");
        counts(&reports[0], "nanoseconds")[at]
    };
    assert!(time("work") > 10 * (time("idle") + time("calls")), "{:?}", reports[0]);
    let (own, nested) = (counts(&reports[1], "self ns"), counts(&reports[1], "nested ns"));
    // The outermost has the time of all.
    let all: u64 = own.iter().sum();
    assert!(nested[0].abs_diff(all) <= own.len() as u64, "{nested:?} {own:?}");
}

/// A recursion of short calls, leaves below it, and at the end a trap if that is asked for.
const SHORT_CALLS: &str = r#"(module
    (func $leaf (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
    (func $fib (param i32) (result i32)
        (if (result i32) (i32.lt_s (local.get 0) (i32.const 2))
            (then (call $leaf (local.get 0)))
            (else (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1)))
                           (call $fib (i32.sub (local.get 0) (i32.const 2)))))))
    (func (export "f") (param i32) (result i32)
        (drop (call $fib (i32.const 18)))
        (if (result i32) (local.get 0) (then (unreachable)) (else (call $fib (i32.const 18))))))"#;

#[test]
fn short_calls_are_counted_and_their_time_is_their_callers() {
    let [report, all] = ["profile", "profile,time-all"]
        .map(|monitor| observed(SHORT_CALLS, &[0, 0], &[monitor]).remove(0));
    let (report, all) = (&report, &all);
    let calls = |report: &Report| -> BTreeMap<String, u64> {
        words(report, "way").into_iter().zip(counts(report, "calls")).collect()
    };
    assert_eq!(calls(report), calls(all));
    let of = |name: &str| -> u64 {
        let named = words(report, "function").into_iter().zip(counts(report, "calls"));
        named.filter(|(function, _)| function == name).map(|(_, calls)| calls).sum()
    };
    // fib(18) makes 8361 calls, of which 4181 come to an end.
    assert_eq!((of("fib"), of("leaf")), (4 * 8361, 4 * 4181));
    // What was counted only has no time; all others' is the total.
    let own = |report: &Report| -> Vec<Option<u64>> {
        words(report, "self ns").iter().map(|own| own.parse().ok()).collect()
    };
    assert!(own(report).contains(&None) && !own(all).contains(&None), "{report:?}");
    let sum: u64 = own(report).into_iter().flatten().sum();
    let nested: u64 = words(report, "nested ns")[0].parse().expect("a time");
    assert!(sum.abs_diff(nested) <= own(report).len() as u64, "{report:?}");
    let notes = report.notes.join("\n");
    assert!(notes.contains("* counted and not timed") && notes.contains("CPU time"), "{notes}");
    assert!(all.notes.iter().all(|note| !note.contains('*')), "{all:?}");
}

#[test]
fn time_until_a_trap_is_told() {
    let reports = observed(SHORT_CALLS, &[1, 1], &["profile", "functions"]);
    let words = words(&reports[0], "nested ns");
    let nested: u64 = words[0].parse().expect("the outermost is timed");
    // Four thousand calls take more than a nanosecond each.
    assert!(nested > 2 * 8361, "{words:?}");
    assert!(counts(&reports[1], "nanoseconds").iter().sum::<u64>() > 2 * 8361);
}

#[test]
fn contexts_beyond_memory_are_counted_by_function() {
    let report = &observed(SHORT_CALLS, &[0, 0], &["profile,contexts=4"])[0];
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    for (function, count) in words(report, "function").into_iter().zip(counts(report, "calls")) {
        *calls.entry(function).or_default() += count;
    }
    assert_eq!((calls["fib"], calls["leaf"]), (4 * 8361, 4 * 4181), "{report:?}");
    assert!(calls.contains_key("[contexts beyond memory]"));
    let notes = report.notes.join("\n");
    assert!(notes.contains("no memory left for further contexts (contexts=N)"), "{notes}");
}

#[test]
fn exceptions_end_what_they_leave() {
    let text = r#"(module (tag $e)
        (func $throws (param i32) (if (local.get 0) (then (throw $e))))
        (func $between (param i32) (call $throws (local.get 0)))
        (func $after)
        (func $f (export "f") (param i32) (result i32)
            (block $h (try_table (catch $e $h) (call $between (local.get 0))))
            (call $after) (i32.const 1)))"#;
    let report = &observed(text, &[1, 0, 1, 1], &["profile"])[0];
    let found: BTreeMap<String, u64> =
        words(report, "way").into_iter().zip(counts(report, "calls")).collect();
    let expected = [("f", 4), ("f;after", 4), ("f;between", 4), ("f;between;throws", 4)];
    assert_eq!(found, expected.map(|(way, calls)| (way.to_owned(), calls)).into());
}

#[test]
fn an_exception_of_an_imported_function_ends_its_call_where_it_is_caught() {
    let text = r#"(module (import "other" "raise" (func $raise)) (func $after)
        (func $passes (call $raise))
        (func $f (export "f") (param i32) (result i32)
            (block $h (try_table (catch_all $h) (call $raise)))
            (call $after)
            (block $h (try_table (catch_all $h) (call $passes)))
            (call $after) (i32.const 1)))"#;
    // So often that calls of each context are timed at first, and only counted later.
    for monitor in ["profile", "profile,time-all"] {
        let report = &observed(text, &[1; 40], &[monitor])[0];
        let found: BTreeMap<String, u64> =
            words(report, "way").into_iter().zip(counts(report, "calls")).collect();
        let expected =
            [("f", 40), ("f;after", 80), ("f;passes", 40), ("f;passes;raise", 40), ("f;raise", 40)];
        assert_eq!(found, expected.map(|(way, calls)| (way.to_owned(), calls)).into());
    }
}

#[test]
fn an_exception_that_passes_a_module_which_catches_none_leaves_its_contexts() {
    let monitors = MonitorSet::new(Choices::new(["profile"]).expect("known")).expect("ready");
    let engine = Engine::new(monitors.configure(&mut Config::new())).expect("an engine");
    let passing = r#"(module (import "other" "raise" (func $raise))
        (func $deep (call $raise))
        (func $between (call $deep))
        (func $throws (export "throws") (call $between))
        (func $leaf)
        (func $after (export "after") (call $leaf)))"#;
    let catching = r#"(module
        (import "passing" "throws" (func $throws)) (import "passing" "after" (func $after))
        (func (export "f") (param $left i32)
            (loop $again
                (block $h (try_table (catch_all $h) (call $throws)))
                (call $after)
                (br_if $again (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))))"#;
    let module = monitors.compile(&engine, passing).expect("a module");
    let mut store = Store::new(&engine, ());
    let mut linker = Linker::new(&engine);
    for (name, module) in [
        ("other", Module::new(&engine, RAISING).expect("a module")),
        ("passing", module.clone()),
        ("catching", Module::new(&engine, catching).expect("a module")),
    ] {
        let instance = linker.instantiate(&mut store, &module).expect("an instance");
        linker.instance(&mut store, name, instance).expect("new");
        if name == "catching" {
            let function = instance.get_func(&mut store, "f").expect("exported");
            function.call(&mut store, &[Val::I32(40)]).expect("all is caught");
        }
    }
    let report = &monitors.reports(None)[0];
    let found: BTreeMap<String, u64> =
        words(report, "way").into_iter().zip(counts(report, "calls")).collect();
    let expected = [
        "after",
        "after;leaf",
        "throws",
        "throws;between",
        "throws;between;deep",
        "throws;between;deep;raise",
    ];
    assert_eq!(found, expected.map(|way| (way.to_owned(), 40)).into());
}

#[test]
fn making_contexts_changes_nothing_that_the_program_computes() {
    // The first call of each function finds no context; here all that a call may pass is in use.
    let text = r#"(module
        (func $all (param i64 i32 f64 f64 f64 f64 f64 f64 f64 f64 i64 i64 v128) (result f64)
            (f64.add (f64.add (f64.add (local.get 2) (local.get 3))
                              (f64.add (local.get 4) (local.get 5)))
                (f64.add (f64.add (f64.add (local.get 6) (local.get 7))
                                  (f64.add (local.get 8) (local.get 9)))
                    (f64.add (f64.convert_i64_s (i64.add (local.get 0)
                                 (i64.add (i64.extend_i32_s (local.get 1))
                                     (i64.add (local.get 10) (local.get 11)))))
                        (f64x2.extract_lane 1 (local.get 12))))))
        (func $passed (param i64 i32 f64 f64 f64 f64 f64 f64 f64 f64 i64 i64 v128) (result f64)
            (call $all (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4)
                (local.get 5) (local.get 6) (local.get 7) (local.get 8) (local.get 9)
                (local.get 10) (local.get 11) (local.get 12)))
        (func (export "f") (result f64)
            (call $passed (i64.const 1) (i32.const 2) (f64.const 4) (f64.const 8) (f64.const 16)
                (f64.const 32) (f64.const 64) (f64.const 128) (f64.const 256) (f64.const 512)
                (i64.const 1024) (i64.const 2048) (v128.const f64x2 0 4096))))"#;
    for monitor in ["profile", "profile,time-all", "profile,contexts=1"] {
        let monitors = MonitorSet::new(Choices::new([monitor]).expect("known")).expect("ready");
        let engine = Engine::new(monitors.configure(&mut Config::new())).expect("an engine");
        let module = monitors.compile(&engine, text).expect("a module");
        let mut store = Store::new(&engine, ());
        let instance = Linker::new(&engine).instantiate(&mut store, &module).expect("an instance");
        let function = instance.get_func(&mut store, "f").expect("exported");
        for _ in 0..12 {
            let results = function.call(&mut store, &[]).expect("it returns");
            assert!(matches!(results[..], [Val::F64(bits)] if f64::from_bits(bits) == 8191.0));
        }
    }
}

#[test]
fn profiles_are_drawn_in_the_forms_of_other_tools() {
    let text =
        |form: &str| observed(CALLS, &[6, 10], &[&format!("profile,time-all,{form}")])[0].text();
    assert!(
        text("folded").lines().any(|line| line.starts_with("f;fib;fib ")),
        "{}",
        text("folded")
    );
    let svg = text("svg");
    // What it is of, in which unit, and what its root stands for.
    for part in ["<svg", "<title>wasm</title>", "widths are CPU time", ">fib", "all CPU time"] {
        assert!(svg.contains(part), "{part}: {svg}");
    }
    let dot = text("dot");
    assert!(
        dot.starts_with("digraph profile {") && dot.contains("-> n") && dot.ends_with("}\n"),
        "{dot}"
    );
    let path = std::env::temp_dir().join(format!("wasm-aot-pprof-{}", std::process::id()));
    text(&format!("pprof={}", path.display()));
    let pprof = std::fs::read(&path).expect("written");
    std::fs::remove_file(&path).expect("there");
    assert!(pprof.windows(3).any(|window| window == b"fib") && pprof[0] == 0x0a);
}

#[test]
fn monitors_of_calls_and_times_write_files_like_those_of_native_programs() {
    let report = &observed(CALLS, &[6, 10], &["functions"])[0];
    let mut each = words(report, "function").into_iter().zip(counts(report, "calls"));
    let expected = each.find(|(name, _)| name == "fib").expect("it is there").1;
    for monitor in ["latency,policy=exact,function=*", "functions", "calls"] {
        let path = std::env::temp_dir().join(format!("wasm-aot-kept-{}", std::process::id()));
        observed(CALLS, &[6, 10], &[&format!("{monitor},file={}", path.display())]);
        let profile = profiler::Profile::from_file(&std::fs::read(&path).expect("written"));
        std::fs::remove_file(&path).expect("there");
        let profile = profile.unwrap_or_else(|error| panic!("{monitor}: {error}"));
        assert!(profile.impossible().is_empty(), "{monitor}: {:?}", profile.impossible());
        let named = |name: &str| {
            let mut functions = profile.functions.iter();
            functions.find(|function| function.label.name == name).expect("it is there").clone()
        };
        let fib = named("fib");
        assert_eq!(fib.calls, profiler::Figure::exact(expected as f64), "{monitor}");
        assert!(fib.own.is_some() || monitor == "calls", "{monitor}");
        assert!(profile.table(&profiler::TableOptions::default()).contains("fib"), "{monitor}");
        if monitor == "calls" {
            let by = |name: &str| {
                let mut arcs = fib.arcs.iter();
                let is_it = |arc: &&profiler::Arc| {
                    arc.caller.as_ref().is_some_and(|caller| caller.name == name)
                };
                arcs.by_ref().filter(is_it).map(|arc| arc.samples).sum::<u64>()
            };
            let arcs: u64 = fib.arcs.iter().map(|arc| arc.samples).sum();
            assert!(by("f") >= 2 && by("fib") > by("f") && arcs == expected, "{:?}", fib.arcs);
        }
    }
    let text = "calls,file=/nowhere/at/all";
    let error =
        MonitorSet::new(Choices::new([text]).expect("known")).expect_err("refused").to_string();
    assert!(error.contains("file=/nowhere/at/all"), "{error}");
}

#[test]
fn a_profile_is_a_file_like_those_of_native_programs() {
    let path = std::env::temp_dir().join(format!("wasm-aot-profile-{}", std::process::id()));
    let monitor = format!("profile,file={}", path.display());
    let report = &observed(CALLS, &[6, 10], &[&monitor])[0];
    let profile = profiler::Profile::from_file(&std::fs::read(&path).expect("written"));
    std::fs::remove_file(&path).expect("there");
    let profile = profile.unwrap_or_else(|e| panic!("{e}"));
    assert!(profile.impossible().is_empty(), "{:?}", profile.impossible());
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    for (way, count) in words(report, "way").iter().zip(counts(report, "calls")) {
        let function = way.rsplit(';').next().expect("a function");
        *calls.entry(function.to_owned()).or_default() += count;
    }
    let told = profile.functions.iter();
    let told = told.map(|function| (function.label.name.clone(), function.calls.value as u64));
    assert_eq!(told.collect::<BTreeMap<_, _>>(), calls);
    // Every call has a caller, and the file is one for all reports.
    for function in &profile.functions {
        let arcs: u64 = function.arcs.iter().map(|arc| arc.samples).sum();
        assert_eq!(arcs as f64, function.calls.value, "{}", function.label.name);
    }
    assert!(profile.gprof().contains("fib <cycle") || profile.gprof().contains("fib ["));
}

/// What a monitor has written to a file that its option names.
fn written(template: &str, args: &[i32], monitor: &str, option: &str) -> String {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path =
        std::env::temp_dir().join(format!("wasm-aot-hooked-{}-{number}", std::process::id()));
    observed(template, args, &[&format!("{monitor},{option}={}", path.display())]);
    let text = std::fs::read_to_string(&path).expect("written");
    std::fs::remove_file(&path).expect("there");
    text
}

#[test]
fn a_trace_of_calls_has_every_begin_and_end_in_order() {
    let args = [5, 9, 10, 0, 7, 12, 9];
    let trace = written(CALLS, &args, "trace,calls", "file");
    // The imported function is no function of the module.
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

#[test]
fn arguments_are_constant_until_another_one_is_seen() {
    let text = r#"(module (func $same (param i32 f64 v128) (result i32) (local.get 0))
        (func $later (param i64)) (func $never (param i32))
        (func $f (export "f") (param i32) (result i32)
            (call $later (i64.extend_i32_s (i32.ge_s (local.get 0) (i32.const 4))))
            (call $same (i32.const -7) (f64.const 0.5) (v128.const i32x4 1 0 0 2))))"#;
    let rows = |args: &[i32]| {
        let report = &observed(text, args, &["const"])[0];
        words(report, "function")
            .into_iter()
            .zip(words(report, "arguments"))
            .collect::<BTreeMap<_, _>>()
    };
    let same = ("same".to_owned(), "(-7, 0.5, 0x00000002000000000000000000000001)".to_owned());
    let expected = |f: &str, later: &str| {
        BTreeMap::from([same.clone(), ("f".into(), f.into()), ("later".into(), later.into())])
    };
    assert_eq!(rows(&[3]), expected("(3)", "(0)"));
    assert_eq!(rows(&[3, 3]), expected("(3)", "(0)"), "in two instances");
    assert_eq!(rows(&[1, 2, 3, 4]), expected("(?)", "(?)"));
}

#[test]
fn what_is_allocated_is_known_by_who_has_asked_for_it_until_it_is_freed() {
    let text = r#"(module (memory 1) (global $next (mut i32) (i32.const 64))
        (func $inner (param i32) (result i32) (global.get $next) (global.set $next (i32.add (global.get $next) (local.get 0))))
        (func $malloc (export "malloc") (param i32) (result i32) (call $inner (local.get 0)))
        (func $realloc (export "realloc") (param i32 i32) (result i32) (call $malloc (local.get 1)))
        (func $free (export "free") (param i32) (if (i32.eqz (local.get 0)) (then (unreachable))))
        (func $make (param i32) (result i32) (call $malloc (local.get 0)))
        (func $f (export "f") (param i32) (result i32) (local i32)
            (drop (call $make (i32.const 100)))
            (local.set 1 (call $make (i32.const 50)))
            (local.set 1 (call $realloc (local.get 1) (i32.const 70)))
            (call $free (local.get 1)) (call $free (i32.const 9999))
            (drop (call $malloc (local.get 0))) (call $free (i32.const 0)) (i32.const 0)))"#;
    let report = &observed(text, &[5], &["alloc,depth=2"])[0];
    let sites = words(report, "site").into_iter().map(|site| {
        site.split(" < ")
            .map(|place| place.split('+').next().expect("a name").to_owned())
            .collect::<Vec<_>>()
            .join(" < ")
    });
    let rows = sites
        .zip(counts(report, "bytes"))
        .zip(counts(report, "live bytes"))
        .map(|((site, bytes), live)| (site, bytes, live));
    // What realloc calls is realloc's own business.
    let expected = [("make < f", 100, 100), ("f", 70, 0), ("make < f", 50, 0), ("f", 5, 5)];
    assert_eq!(
        rows.collect::<Vec<_>>(),
        expected.map(|(site, bytes, live)| (site.to_owned(), bytes, live))
    );
    assert_eq!(
        report.notes[0],
        "225 bytes in 4 blocks were allocated; 105 bytes in 2 blocks are still there, 170 at most at once"
    );
    assert!(report.notes[1].starts_with("1 times something was freed"), "{:?}", report.notes);
}

#[test]
fn calls_that_are_timed_are_counted_exactly() {
    let args = [5, 9, 10, 0, 7, 12, 9];
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for (way, calls) in ways(&noted(CALLS, &args), args.len()) {
        *expected.entry(way.rsplit(';').next().expect("a name").to_owned()).or_default() += calls;
    }
    expected.remove("twice");
    for policy in ["exact", "adaptive", "paper", "count"] {
        let report = &observed(CALLS, &args, &[&format!("latency,function=*,policy={policy}")])[0];
        let found: BTreeMap<String, u64> =
            words(report, "function").into_iter().zip(counts(report, "calls")).collect();
        if policy == "paper" {
            // What is switched off after its samples is not counted until the next epoch.
            assert!(found.keys().eq(expected.keys()), "{found:?}");
        } else {
            assert_eq!(found, expected, "{policy}");
        }
        let samples: u64 = counts(report, "samples").iter().sum();
        match policy {
            // Three calls of f have trapped, in others that were open.
            "exact" => assert!(
                samples < expected.values().sum() && samples > expected.values().sum::<u64>() - 10
            ),
            "count" => assert_eq!(samples, 0),
            _ => assert!(samples > 0),
        }
    }
    let short = observed(CALLS, &args, &["latency"]).remove(0);
    assert!(words(&short, "function").iter().all(|name| name != "leaf"), "{short:?}");
}

#[test]
fn calls_that_an_exception_ends_are_timed_if_it_is_caught() {
    let text = r#"(module (tag $e) (func $throws (throw $e))
        (func $f (export "f") (param i32) (result i32)
            (block $caught (try_table (catch_all $caught) (call $throws)))
            (i32.const 1)))"#;
    let report = observed(text, &[0; 6], &["latency,function=*,policy=exact"]).remove(0);
    let samples: BTreeMap<String, u64> =
        words(&report, "function").into_iter().zip(counts(&report, "samples")).collect();
    assert_eq!(samples, BTreeMap::from([("f".into(), 6), ("throws".into(), 6)]));
}

#[test]
fn calls_are_timed_however_many_were_left_by_traps_and_exceptions_before() {
    for leave in ["unreachable", "(throw $e)"] {
        let text = format!(
            r#"(module (tag $e) (func $f (export "f") (param i32) (result i32)
                (if (i32.eqz (local.get 0)) (then {leave})) (i32.const 1)))"#
        );
        let args = [vec![0; 1_520], vec![0; 1_500], vec![1; 20]].concat();
        let report = observed(&text, &args, &["latency,function=*,policy=exact"]).remove(0);
        assert_eq!(counts(&report, "samples"), [20], "{leave}");
    }
}

#[test]
fn functions_are_timed_as_far_as_compiling_them_for_it_is_within_the_budget() {
    // Much larger than what is compiled whatever the budget is; and called by a small one.
    let large = "(drop (i32.const 1000))".repeat(20_000);
    let text = format!(
        r#"(module (func $large {large}) (func $f (export "f") (param i32) (result i32)
            (call $large) (i32.const 1)))"#
    );
    let report = |monitor: &str| observed(&text, &[1, 1], &[monitor]).remove(0);
    let thrifty = report("latency,function=*,budget=0.001%");
    assert_eq!(
        (words(&thrifty, "function"), counts(&thrifty, "calls")),
        (vec!["f".into()], vec![2])
    );
    let why = "1 functions were called and not timed";
    assert!(thrifty.notes.iter().any(|note| note.starts_with(why)), "{:?}", thrifty.notes);
    let exact = report("latency,function=*,policy=exact");
    assert_eq!(counts(&exact, "calls"), [2, 2]);
    assert!(!exact.notes.iter().any(|note| note.contains("not timed")), "{:?}", exact.notes);
}

#[test]
fn many_small_functions_are_not_taken_for_one_of_their_size() {
    let (small, calls) = ("(func nop)".repeat(200), (0..200).map(|at| format!("(call {at})")));
    let text = format!(
        r#"(module {small} (func $f (export "f") (param i32) (result i32) {} (i32.const 1)))"#,
        calls.collect::<String>()
    );
    let report = observed(&text, &[1], &["latency,function=*,budget=0.001%"]).remove(0);
    let timed = counts(&report, "calls").len();
    assert!((10..40).contains(&timed), "{timed}");
    let why = format!("{} functions were called and not timed", 201 - timed);
    assert!(report.notes.iter().any(|note| note.starts_with(&why)), "{why}: {:?}", report.notes);
}

#[test]
fn listings_and_graphs_have_counts_beside_the_code() {
    let text = r#"(module (func $f (export "f") (param i32) (result i32)
        (loop $l (br_if $l (local.tee 0 (i32.sub (local.get 0) (i32.const 1))))) (i32.const 4))
        (func $never))"#;
    let reports = observed(text, &[3, 5], &["hotness,listing", "control-flow,dot"]);
    let listing = reports[0].text();
    assert!(listing.starts_with("== hotness ==\nf: 2 calls\n"), "{listing}");
    let lines: Vec<Vec<&str>> =
        listing.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(
        lines.iter().any(|line| line[..] == ["8", "14.8%", "+8", "local.tee", "0"]),
        "{listing}"
    );
    assert!(
        listing.contains("  +1  loop\n") && listing.contains("  +3    local.get 0\n"),
        "{listing}"
    );
    assert!(!listing.contains("never"));
    let dot = reports[1].text();
    assert!(dot.contains("f0_1 [label=\"x 8\\n+1 loop\\l+3 local.get 0\\l"), "{dot}");
    assert!(
        dot.contains("f0_1 -> f0_1 [label=\"branch 6\"];") && dot.contains("f0_in -> "),
        "{dot}"
    );
    // Programs read the same rows as ever.
    assert_eq!(reports[0].rows, observed(text, &[3, 5], &["hotness"])[0].rows);
}

/// Loops in loops that are left in many ways: to the loop outside, to its middle, by returning, at
/// their end; and tables.
const LOOPS: &str = r#"(module (func $f (export "f") (param i32) (result i32) (local $i i32) (local $j i32)
    (loop $outer
        (local.set $j (i32.const 0))
        (block $middle
            (loop $inner
                (local.set $j (i32.add (local.get $j) (i32.const 1)))
                (if (i32.and (local.get $j) (i32.const 1)) (then (nop)) (else (br_if $middle (i32.eq (local.get $j) (local.get $i)))))
                (drop (br_if 3 (i32.const 9) (i32.gt_u (local.get $i) (i32.const 40))))
                (block $c (block $b (block $a (br_table $a $b $inner $c $middle
                    (i32.rem_u (i32.mul (local.get $i) (local.get $j)) (i32.const 6))))
                    (br $c)) (nop))
                (br_if $inner (i32.lt_u (local.get $j) (local.get 0)))
                (if (i32.eq (local.get $i) (i32.const 30)) (then (return (local.get $j)))))
            (nop))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (loop $short (br_if $short (i32.lt_u (local.tee $j (i32.add (local.get $j) (i32.const 3))) (i32.const 12))))
        (br_if $outer (i32.lt_u (local.get $i) (i32.mul (local.get 0) (i32.const 5)))))
    (local.get $i)))"#;

#[test]
fn paths_through_loops_add_up_to_what_branches_and_loops_have_counted() {
    let args = [0, 1, 2, 5, 7, 9];
    let reports = observed(LOOPS, &args, &["loop-traces", "branches", "loops"]);
    let (paths, times) = (words(&reports[0], "path"), counts(&reports[0], "count"));
    assert!(paths.len() > 20, "{paths:?}");
    let mut iterations: BTreeMap<String, u64> = BTreeMap::new();
    let mut ways: BTreeMap<(String, usize), u64> = BTreeMap::new();
    for ((path, times), header) in paths.iter().zip(&times).zip(words(&reports[0], "pc")) {
        *iterations.entry(header).or_default() += times;
        for decision in path.split_whitespace() {
            let (place, way) = decision.split_once(':').expect("a place and a way");
            *ways.entry((place.to_owned(), way.parse().expect("a number"))).or_default() += times;
        }
    }
    let expected: BTreeMap<String, u64> =
        words(&reports[2], "pc").into_iter().zip(counts(&reports[2], "iterations")).collect();
    assert_eq!(iterations, expected);
    let at = column(&reports[1], "ways");
    let mut compared = 0;
    for (place, row) in words(&reports[1], "pc").into_iter().zip(&reports[1].rows) {
        let Cell::Counts(expected) = &row[at] else { panic!("{row:?}") };
        let found: Vec<u64> = (0..expected.len())
            .map(|way| ways.get(&(place.clone(), way)).copied().unwrap_or_default())
            .collect();
        assert_eq!(found, *expected, "{place}");
        compared += 1;
    }
    assert_eq!(compared, 8, "every branch lies in a loop");
}

#[test]
fn a_path_with_more_decisions_than_there_is_room_for_says_so() {
    let branches = "(if (local.get 0) (then (nop)))".repeat(70);
    let text = format!(
        "(module (func (export \"f\") (param i32) (result i32) (loop {branches}) (i32.const 1)))"
    );
    let report = &observed(&text, &[1, 1], &["loop-traces"])[0];
    assert_eq!(
        (words(report, "path"), counts(report, "count")),
        (vec!["(more decisions than there is room for)".into()], vec![2])
    );
}

#[test]
fn bad_choices_are_refused_by_name() {
    let error = |choice: &str| match Choices::new([choice]) {
        Err(error) => error.to_string(),
        Ok(choices) => MonitorSet::new(choices).expect_err("refused").to_string(),
    };
    assert!(
        error("profile,depth=deep").contains("depth=deep: expected a number from 1 on"),
        "{}",
        error("profile,depth=deep")
    );
    assert!(error("profile,pprof").contains("needs a value"), "{}", error("profile,pprof"));
    assert!(
        error("memory,trace=/no/such/folder/x").contains("trace=/no/such/folder/x: No such file")
    );
    assert!(error("profle").contains("did you mean profile?"));
    assert!(error("imix").contains("did you mean opcodes?") && error("").contains("called \"\""));
    assert!(
        error("hotness,").contains("no option \"\"")
            && error("trace,form=xml").contains("text, csv and json")
    );
    let nobody = &observed(LOOPS, &[1], &["loops,function=nosuch*"])[0];
    assert_eq!(nobody.notes, ["no function is called nosuch*"]);
}
