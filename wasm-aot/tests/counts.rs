//! Counts are exact: for every instruction of a program they equal the program's own counts, if it
//! is rewritten to count itself.

#[path = "counts/programs.rs"]
mod programs;

use programs::{PROGRAMS, call_all, check_arbitrary, spelled_out};
use wasm_aot::{Config, Engine, Instance, Module, Store};

fn engine(counts: bool, optimize: wasm_aot::Optimize) -> Engine {
    let mut config = Config::new();
    config.counts(counts).call_targets(counts).optimize(optimize);
    Engine::new(&config).expect("an engine")
}

/// A module in a store, with all of its imports.
fn instantiate(engine: &Engine, bytes: &[u8]) -> (Store<()>, Module, Option<Instance>) {
    let module = Module::new(engine, bytes).unwrap_or_else(|error| panic!("{error}"));
    let (store, instance) = programs::instantiate(engine, &module);
    (store, module, instance)
}

/// The engine's counts.
fn counted(
    bytes: &[u8],
    names: &[&str],
    optimize: wasm_aot::Optimize,
) -> Option<Vec<((usize, u32), u64)>> {
    let (mut store, module, instance) = instantiate(&engine(true, optimize), bytes);
    call_all(&mut store, instance?, names);
    let counts = module.counts().expect("the engine counts");
    let functions = counts.functions().enumerate();
    let each = functions.flat_map(|(defined, function)| {
        function
            .instructions()
            .into_iter()
            .map(move |i| ((defined, i.offset), i.count))
            .collect::<Vec<_>>()
    });
    Some(each.collect())
}

fn check(bytes: &[u8]) -> bool {
    let module = Module::new(&engine(false, wasm_aot::Optimize::None), bytes)
        .unwrap_or_else(|error| panic!("{error}"));
    let functions =
        module.exports().filter(|export| matches!(export.ty, wasm_aot::ExternType::Func(_)));
    let names: Vec<&str> = functions.map(|export| export.name).collect();
    let expected = spelled_out(bytes, &names);
    for optimize in [wasm_aot::Optimize::Speed, wasm_aot::Optimize::None] {
        let found = counted(bytes, &names, optimize);
        if found != expected {
            let path =
                std::env::temp_dir().join(format!("wasm-aot-counts-{}.wasm", std::process::id()));
            let kept = std::fs::write(&path, bytes).is_ok();
            let (Some(found), Some(expected)) = (&found, &expected) else {
                panic!("one of them is not instantiated")
            };
            let differing = found.iter().zip(expected).find(|(found, expected)| found != expected);
            panic!(
                "{optimize:?}: found and expected {differing:?}; the module is {} ({kept})",
                path.display()
            );
        }
    }
    expected.is_some_and(|counts| counts.iter().any(|(_, count)| *count > 0))
}

#[test]
fn counts_are_what_a_program_counts_itself() {
    for (what, text) in PROGRAMS {
        let bytes = wat::parse_str(text).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(check(&bytes), "{what}: nothing was executed");
    }
}

#[test]
fn calls_through_tables_and_references_are_counted_by_where_they_go() {
    let text = r#"(module
        (import "host" "number" (func $host (param i32) (result i32)))
        (type $t (func (param i32) (result i32)))
        (table $table funcref (elem $one $two $host))
        (elem declare func $two)
        (func $one (type $t) (i32.const 1))
        (func $two (type $t) (i32.const 2))
        (func $tail (type $t) (return_call_indirect $table (type $t) (local.get 0) (i32.const 1)))
        (func (export "f") (local i32)
            (loop $l
                (drop (call_indirect $table (type $t) (local.get 0) (i32.rem_u (local.get 0) (i32.const 3))))
                (drop (call_ref $t (i32.const 0) (ref.func $two)))
                (drop (call $tail (i32.const 0)))
                (drop (call $host (i32.const 0)))
                (br_if $l (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const 10)))))
        (func (export "wrong") (drop (call_indirect $table (result i64) (i32.const 0)))))"#;
    let (mut store, module, instance) = instantiate(
        &engine(true, wasm_aot::Optimize::Speed),
        &wat::parse_str(text).expect("a module"),
    );
    let instance = instance.expect("an instance");
    instance.get_func(&mut store, "f").expect("exported").call(&mut store, &[]).expect("no trap");
    instance
        .get_func(&mut store, "wrong")
        .expect("exported")
        .call(&mut store, &[])
        .expect_err("another type");
    // The counts of instances are not lost when the instances end.
    for ended in [false, true] {
        let counts = module.counts().expect("the engine counts");
        let made = counts
            .functions()
            .flat_map(|function| function.calls_made())
            .map(|call| (call.kind, call.callee, call.count));
        let expected = [
            ("indirect", "two", 10),
            ("indirect", "one", 4),
            ("indirect", "(host)", 3),
            ("indirect", "two", 3),
            ("indirect", "two", 10),
            ("direct", "tail", 10),
            ("imported", "host", 10),
        ];
        let expected: Vec<_> =
            expected.map(|(kind, callee, count)| (kind, callee.to_owned(), count)).into();
        assert_eq!(made.collect::<Vec<_>>(), expected, "ended: {ended}");
        if !ended {
            store = Store::new(&Engine::default(), ());
        }
    }
    drop(store);
}

#[test]
fn calls_that_never_return_are_counted_up_to_the_call() {
    let bytes = wat::parse_str(r#"(module (func $f (export "f") (nop) (call $f) (nop)))"#)
        .expect("a module");
    let found = counted(&bytes, &["f"], wasm_aot::Optimize::Speed).expect("an instance");
    let counts: Vec<u64> = found.into_iter().map(|(_, count)| count).collect();
    assert!(counts[0] > 1_000, "{counts:?}");
    assert_eq!(counts, [counts[0], counts[0], 0, 0]);
}

#[test]
fn a_function_that_finds_no_stack_has_executed_nothing() {
    // The last machine code of the function belongs to the loop, or to an instruction in it that
    // traps.
    let loops = r#"(module (func (export "f") (param i32) (result i32) (local i32)
        (local.set 1 (i32.const 2))
        (loop $again (result i32)
            (drop (call 0 (i32.add (local.get 0) (i32.const 1))))
            (br_if $again (local.tee 1 (i32.sub (local.get 1) (i32.const 1))))
            (i32.div_s (i32.const 1) (local.get 0)))))"#;
    for optimize in [wasm_aot::Optimize::Speed, wasm_aot::Optimize::None] {
        let (mut store, module, instance) =
            instantiate(&engine(true, optimize), &wat::parse_str(loops).expect("it is text"));
        let function = instance.expect("an instance").get_func(&mut store, "f").expect("exported");
        let error =
            function.call(&mut store, &[wasm_aot::Val::I32(1)]).expect_err("it does not end");
        assert!(error.to_string().contains("call stack exhausted"), "{error}");
        let counts = module.counts().expect("the engine counts");
        let function = counts.functions().next().expect("there is one");
        let of = |instructions: &[wasm_aot::InstructionCount<'_>]| {
            instructions.iter().map(|i| i.count).collect::<Vec<_>>()
        };
        let instructions = function.instructions();
        let (before, behind) = instructions.split_at(7);
        assert!(
            before[6].text().starts_with("call") && before[6].count > 100,
            "{}",
            before[6].text()
        );
        assert_eq!(
            (of(before), of(behind)),
            (vec![function.calls(); 7], vec![0; behind.len()]),
            "{optimize:?}"
        );
    }
}

#[test]
fn counts_of_arbitrary_programs_are_what_they_count_themselves() {
    check_arbitrary(1 << 13, check);
}
