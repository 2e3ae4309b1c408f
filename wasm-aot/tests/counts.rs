//! Counts are exact: for every instruction of a program they say what the program says itself when counting is spelled out in it.

#[path = "counts/spelled.rs"]
mod spelled;

use std::cell::Cell;
use wasm_aot::{Caller, Config, Engine, Extern, Instance, Linker, Module, Store, Val};

fn engine(counts: bool, optimize: wasm_aot::Optimize) -> Engine {
    let mut config = Config::new();
    config.counts(counts).call_targets(counts).optimize(optimize);
    Engine::new(&config).expect("an engine")
}

/// A module in a store, with whatever it imports: functions that give what they are given, or zeroes.
fn instantiate(engine: &Engine, bytes: &[u8]) -> (Store<()>, Module, Option<Instance>) {
    let module = Module::new(engine, bytes).unwrap_or_else(|error| panic!("{error}"));
    let mut store = Store::new(engine, ());
    let mut linker = Linker::new(engine);
    for import in module.imports() {
        let wasm_aot::ExternType::Func(ty) = import.ty else { panic!("only functions are offered") };
        let (of, exits) = (ty.clone(), import.name == "exit");
        let body = move |_: Caller<'_, ()>, args: &[Val], results: &mut [Val]| {
            if exits {
                return Err(wasm_aot::Error::Exit(7));
            }
            for (result, ty) in results.iter_mut().zip(of.results()) {
                let given = of.params().iter().position(|param| param == ty).map(|at| args[at].clone());
                *result = given.or_else(|| Val::default_for(*ty)).expect("a value");
            }
            Ok(())
        };
        linker.allow_shadowing(true).func_new(import.module, import.name, ty, body).expect("shadowing is allowed");
    }
    let instance = linker.instantiate(&mut store, &module).ok();
    (store, module, instance)
}

/// Calls functions by name, with zeroes and ones; how they end does not matter here.
fn call_all(store: &mut Store<()>, instance: Instance, names: &[&str]) {
    for name in names {
        let function = instance.get_func(&mut *store, name).expect("exported");
        let ty = function.ty(&mut *store).expect("of this store");
        for number in [0u8, 1, 3] {
            let argument = |ty: &wasm_aot::ValType| match Val::default_for(*ty).expect("nullable") {
                Val::I32(_) => Val::I32(number.into()),
                Val::I64(_) => Val::I64(number.into()),
                other => other,
            };
            let args: Vec<Val> = ty.params().iter().map(argument).collect();
            let _ = function.call(&mut *store, &args);
        }
    }
}

/// What the program counts itself, by defined function and offset.
fn spelled_out(bytes: &[u8], names: &[&str]) -> Option<Vec<((usize, u32), u64)>> {
    let spelled = spelled::spell(bytes);
    let (mut store, _, instance) = instantiate(&engine(false, wasm_aot::Optimize::Speed), &spelled.bytes);
    let instance = instance?;
    call_all(&mut store, instance, names);
    let count = |(counter, place): (usize, &(usize, u32))| {
        let Some(Extern::Global(global)) = instance.get_export(&mut store, &spelled::name(counter)) else { panic!("exported") };
        let Val::I64(count) = global.get(&mut store).expect("of this store") else { panic!("a number") };
        (*place, count as u64)
    };
    Some(spelled.instructions.iter().enumerate().map(count).collect())
}

/// What the engine counts.
fn counted(bytes: &[u8], names: &[&str], optimize: wasm_aot::Optimize) -> Option<Vec<((usize, u32), u64)>> {
    let (mut store, module, instance) = instantiate(&engine(true, optimize), bytes);
    call_all(&mut store, instance?, names);
    let counts = module.counts().expect("the engine counts");
    let functions = counts.functions().enumerate();
    let each = functions.flat_map(|(defined, function)| {
        function.instructions().into_iter().map(move |i| ((defined, i.offset), i.count)).collect::<Vec<_>>()
    });
    Some(each.collect())
}

fn check(bytes: &[u8]) -> bool {
    let module = Module::new(&engine(false, wasm_aot::Optimize::None), bytes).unwrap_or_else(|error| panic!("{error}"));
    let functions = module.exports().filter(|export| matches!(export.ty, wasm_aot::ExternType::Func(_)));
    let names: Vec<&str> = functions.map(|export| export.name).collect();
    let expected = spelled_out(bytes, &names);
    for optimize in [wasm_aot::Optimize::Speed, wasm_aot::Optimize::None] {
        let found = counted(bytes, &names, optimize);
        if found != expected {
            let path = std::env::temp_dir().join(format!("wasm-aot-counts-{}.wasm", std::process::id()));
            let kept = std::fs::write(&path, bytes).is_ok();
            let (Some(found), Some(expected)) = (&found, &expected) else { panic!("one of them is not instantiated") };
            let differing = found.iter().zip(expected).find(|(found, expected)| found != expected);
            panic!("{optimize:?}: found and expected {differing:?}; the module is {} ({kept})", path.display());
        }
    }
    expected.is_some_and(|counts| counts.iter().any(|(_, count)| *count > 0))
}

/// Everything that makes control go somewhere else.
const PROGRAMS: &[(&str, &str)] = &[
    ("straight", r#"(module (func (export "f") (nop) (nop)))"#),
    (
        "a loop",
        r#"(module (func (export "f") (param i32) (local i32)
        (loop $l (local.set 1 (i32.add (local.get 1) (i32.const 1)))
            (br_if $l (i32.lt_u (local.get 1) (local.get 0))))))"#,
    ),
    (
        "a trap in the middle",
        r#"(module (memory 1) (func $g (param i32) (drop (i32.div_u (i32.const 1) (local.get 0))) (nop))
        (func (export "f") (param i32) (nop) (block (call $g (local.get 0)) (nop) (br_if 0 (local.get 0)) (nop)) (nop)))"#,
    ),
    (
        "an access outside",
        r#"(module (memory 1) (func (export "f") (param i32) (local i32)
        (loop $l (i32.store (i32.mul (local.get 1) (i32.const 4096)) (local.get 1))
            (local.set 1 (i32.add (local.get 1) (i32.const 1))) (br_if $l (local.get 0)) (nop)) (nop)))"#,
    ),
    (
        "an exit inside of a loop",
        r#"(module (import "host" "exit" (func $exit))
        (func $g (param i32) (if (i32.eq (local.get 0) (i32.const 3)) (then (call $exit) (nop))) (nop))
        (func (export "f") (param i32) (local i32)
            (loop $l (call $g (local.get 1)) (local.set 1 (i32.add (local.get 1) (i32.const 1))) (br_if $l (local.get 0)))))"#,
    ),
    (
        "sides and tables",
        r#"(module (func (export "f") (param i32) (result i32)
        (if (local.get 0) (then (nop)) (else (nop) (nop))) (if (local.get 0) (then (nop)))
        (block $d (block $c (block $b (block $a (br_table $a $b $c $d (local.get 0))) (return (i32.const 10)))
            (return (i32.const 20))) (br $d)) (i32.const 40)))"#,
    ),
    (
        "a table with an operand",
        r#"(module (func (export "f") (param i32) (result i32)
        (block $b (result i32) (block $a (result i32) (br_table $a $b $a (i32.const 7) (local.get 0))) (i32.const 1) (i32.add))))"#,
    ),
    (
        "a branch to the function",
        r#"(module (func (export "f") (param i32) (result i32)
        (br_if 0 (i32.const 5) (local.get 0)) (drop) (i32.const 6)))"#,
    ),
    (
        "calls in place of the caller",
        r#"(module (table funcref (elem $even)) (type $t (func (param i32) (result i32)))
        (func $even (type $t) (if (i32.eqz (local.get 0)) (then (return (i32.const 1))))
            (return_call $odd (i32.sub (local.get 0) (i32.const 1))))
        (func $odd (type $t) (if (i32.eqz (local.get 0)) (then (return (i32.const 0))))
            (return_call_indirect (type $t) (i32.sub (local.get 0) (i32.const 1)) (i32.and (local.get 0) (i32.const 2))))
        (func (export "f") (type $t) (call $even (local.get 0))))"#,
    ),
    (
        "exceptions",
        r#"(module (tag $e (param i32)) (tag $x) (import "host" "number" (func $n (param i32) (result i32)))
        (func $thrower (param i32) (nop) (if (local.get 0) (then (throw $e (local.get 0)))) (nop))
        (func $between (param i32) (call $thrower (local.get 0)) (nop))
        (func $other (block $h (try_table (catch $x $h) (call $between (i32.const 1)) (nop)) (nop)) (nop))
        (func (export "f") (param i32) (result i32)
            (block $outer (result i32)
                (block $h (result i32)
                    (try_table (catch $e $h) (call $between (local.get 0)) (nop) (call $other)) (return (i32.const 8)))
                (br_if $outer (i32.const 3)) (nop)))
        (func (export "local") (block $h (try_table (catch_all $h) (throw $x)) (nop)) (nop))
        (func (export "rethrow") (block $h (result exnref)
            (try_table (catch_all_ref $h) (call $between (i32.const 2))) (return)) (throw_ref)))"#,
    ),
    (
        "exceptions as they were",
        r#"(module (tag $e (param i32)) (tag $x)
        (func $thrower (param i32) (if (local.get 0) (then (throw $e (local.get 0)))) (nop))
        (func (export "f") (param i32) (result i32)
            try (result i32) local.get 0 call $thrower i32.const 1
            catch $x nop i32.const 2
            catch $e nop
            catch_all nop i32.const 3
            end)
        (func (export "g") (param i32)
            try
                try local.get 0 call $thrower
                catch $e drop rethrow 0
                end
            catch_all nop
            end
            try
                try local.get 0 call $thrower nop
                delegate 0
                nop
            catch_all nop
            end))"#,
    ),
    (
        "never reached",
        r#"(module (func (export "f") (param i32)
        (block (br 0) (nop) (if (local.get 0) (then (nop)) (else (nop))) (loop (br 0))) (nop) (return) (nop))
        (func (export "g") (unreachable) (nop)))"#,
    ),
];

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
    let (mut store, module, instance) =
        instantiate(&engine(true, wasm_aot::Optimize::Speed), &wat::parse_str(text).expect("a module"));
    let instance = instance.expect("an instance");
    instance.get_func(&mut store, "f").expect("exported").call(&mut store, &[]).expect("no trap");
    instance.get_func(&mut store, "wrong").expect("exported").call(&mut store, &[]).expect_err("another type");
    // What instances have seen is not lost when they end.
    for ended in [false, true] {
        let counts = module.counts().expect("the engine counts");
        let made = counts.functions().flat_map(|function| function.calls_made()).map(|call| (call.kind, call.callee, call.count));
        let expected = [
            ("indirect", "two", 10),
            ("indirect", "one", 4),
            ("indirect", "(host)", 3),
            ("indirect", "two", 3),
            ("indirect", "two", 10),
            ("direct", "tail", 10),
            ("imported", "host", 10),
        ];
        let expected: Vec<_> = expected.map(|(kind, callee, count)| (kind, callee.to_owned(), count)).into();
        assert_eq!(made.collect::<Vec<_>>(), expected, "ended: {ended}");
        if !ended {
            store = Store::new(&Engine::default(), ());
        }
    }
    drop(store);
}

#[test]
fn calls_that_never_return_are_counted_up_to_the_call() {
    let bytes = wat::parse_str(r#"(module (func $f (export "f") (nop) (call $f) (nop)))"#).expect("a module");
    let found = counted(&bytes, &["f"], wasm_aot::Optimize::Speed).expect("an instance");
    let counts: Vec<u64> = found.into_iter().map(|(_, count)| count).collect();
    assert!(counts[0] > 1_000, "{counts:?}");
    assert_eq!(counts, [counts[0], counts[0], 0, 0]);
}

#[test]
fn counts_of_arbitrary_programs_are_what_they_count_themselves() {
    let compared = Cell::new(0);
    let property = |u: &mut arbtest::arbitrary::Unstructured<'_>| {
        let config = wasm_smith::Config {
            available_imports: None,
            export_everything: true,
            exceptions_enabled: true,
            threads_enabled: false,
            relaxed_simd_enabled: false,
            gc_enabled: false,
            compact_imports_enabled: false,
            max_imports: 0,
            max_funcs: 6,
            max_instructions: 200,
            max_memory32_bytes: 4 << 16,
            max_memory64_bytes: 4 << 16,
            max_table_elements: 100,
            memory_max_size_required: true,
            table_max_size_required: true,
            min_funcs: 1,
            ..wasm_smith::Config::default()
        };
        let mut module = wasm_smith::Module::new(config, u)?;
        if module.ensure_termination(500).is_ok() {
            compared.set(compared.get() + u32::from(check(&module.to_bytes())));
        }
        Ok(())
    };
    arbtest::arbtest(property).size_min(1 << 9).size_max(1 << 13).budget_ms(2_000).run();
    assert!(compared.get() > 0, "no program was compared");
}
