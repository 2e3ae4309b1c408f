//! Programs, the calls of their functions, and the execution counts of their instructions that they
//! count themselves.

#[path = "spelled.rs"]
mod spelled;

use wasm_aot::{Caller, Engine, Extern, Instance, Linker, Module, Store, Val};

/// A module in a store, with all of its imports: functions that return their arguments, or zeroes.
pub(crate) fn instantiate(engine: &Engine, module: &Module) -> (Store<()>, Option<Instance>) {
    let mut store = Store::new(engine, ());
    let mut linker = Linker::new(engine);
    for import in module.imports() {
        let wasm_aot::ExternType::Func(ty) = import.ty else {
            panic!("only functions are offered")
        };
        let (of, exits) = (ty.clone(), import.name == "exit");
        let body = move |_: Caller<'_, ()>, args: &[Val], results: &mut [Val]| {
            if exits {
                return Err(wasm_aot::Error::Exit(7));
            }
            for (result, ty) in results.iter_mut().zip(of.results()) {
                let given =
                    of.params().iter().position(|param| param == ty).map(|at| args[at].clone());
                *result = given.or_else(|| Val::default_for(*ty)).expect("a value");
            }
            Ok(())
        };
        linker
            .allow_shadowing(true)
            .func_new(import.module, import.name, ty, body)
            .expect("shadowing is allowed");
    }
    let instance = linker.instantiate(&mut store, module).ok();
    (store, instance)
}

/// Calls functions by name, with zeroes and ones; their results do not matter here.
pub(crate) fn call_all(store: &mut Store<()>, instance: Instance, names: &[&str]) {
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

/// The program's own counts, by defined function and offset.
pub(crate) fn spelled_out(bytes: &[u8], names: &[&str]) -> Option<Vec<((usize, u32), u64)>> {
    let spelled = spelled::spell(bytes);
    let engine = Engine::default();
    let module = Module::new(&engine, &spelled.bytes).unwrap_or_else(|error| panic!("{error}"));
    let (mut store, instance) = instantiate(&engine, &module);
    let instance = instance?;
    call_all(&mut store, instance, names);
    let count = |(counter, place): (usize, &(usize, u32))| {
        let Some(Extern::Global(global)) = instance.get_export(&mut store, &spelled::name(counter))
        else {
            panic!("exported")
        };
        let Val::I64(count) = global.get(&mut store).expect("of this store") else {
            panic!("a number")
        };
        (*place, count as u64)
    };
    Some(spelled.instructions.iter().enumerate().map(count).collect())
}

/// Programs with all kinds of control flow.
pub(crate) const PROGRAMS: &[(&str, &str)] = &[
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

/// Any program that terminates, and its exports.
fn arbitrary(
    u: &mut arbtest::arbitrary::Unstructured<'_>,
) -> arbtest::arbitrary::Result<Option<Vec<u8>>> {
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
    Ok(module.ensure_termination(500).is_ok().then(|| module.to_bytes()))
}

/// Checks arbitrary programs for some time; `check` returns whether any instruction was executed.
pub(crate) fn check_arbitrary(largest: u32, check: impl Fn(&[u8]) -> bool) {
    let compared = std::cell::Cell::new(0);
    let property = |u: &mut arbtest::arbitrary::Unstructured<'_>| {
        if let Some(bytes) = arbitrary(u)? {
            compared.set(compared.get() + u32::from(check(&bytes)));
        }
        Ok(())
    };
    arbtest::arbtest(property).size_min(1 << 9).size_max(largest).budget_ms(2_000).run();
    assert!(compared.get() > 0, "no program was compared");
}
