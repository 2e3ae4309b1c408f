//! Hosts that panic, fail, nest calls, interrupt and drop objects in any order.

use super::{instance, one_line, quick, trap, try_instance};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;
use wasm_aot::{
    AsContextMut, Caller, Engine, Error, ExternRef, Func, Instance, Limits, Linker, Memory,
    MemoryType, Module, SharedMemory, Store, Trap,
};

/// An instance that imports one function of the host as `"host" "f"`.
fn with_host(store: &mut Store<()>, host: Func, text: &str) -> Instance {
    let mut linker = Linker::new(store.engine());
    linker.define("host", "f", host).expect("a new name");
    let module = Module::new(store.engine(), text).expect("a module");
    linker.instantiate(store, &module).expect("an instance")
}

const CALLS: &str = "(module (import \"host\" \"f\" (func $f (param i32) (result i32)))
    (func (export \"run\") (param i32) (result i32) (i32.add (call $f (local.get 0)) (i32.const 1)))
    (func (export \"trap\") (param i32) (result i32) unreachable)
    (func $deep (export \"deep\") (param i32) (result i32) (i32.add (i32.const 1) (call $deep (local.get 0)))))";

#[test]
fn a_panic_of_the_host_goes_through_and_leaves_the_store_in_order() {
    let mut store = Store::new(&quick(), ());
    let host = Func::wrap(
        &mut store,
        |value: i32| if value == 0 { panic!("the host's own") } else { value },
    );
    let instance = with_host(&mut store, host, CALLS);
    let run = instance.get_typed_func::<i32, i32>(&mut store, "run").expect("exported");
    for _ in 0..3 {
        let panic =
            catch_unwind(AssertUnwindSafe(|| run.call(&mut store, 0))).expect_err("a panic");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"the host's own"));
        assert_eq!(run.call(&mut store, 5).expect("a result"), 6);
    }
}

#[test]
fn a_failure_of_the_host_comes_out_as_it_was() {
    #[derive(Debug, thiserror::Error)]
    #[error("number {0}")]
    struct Numbered(i32);
    let mut store = Store::new(&quick(), ());
    let host = Func::wrap(&mut store, |value: i32| Err::<i32, _>(Error::host(Numbered(value))));
    let instance = with_host(&mut store, host, CALLS);
    let run = instance.get_typed_func::<i32, i32>(&mut store, "run").expect("exported");
    let Error::Host(error) = run.call(&mut store, 17).expect_err("a failure") else {
        panic!("another kind")
    };
    assert_eq!(error.downcast_ref::<Numbered>().expect("the same").0, 17);
}

/// A host function that calls an export of its caller.
fn back(name: &'static str) -> impl Fn(Caller<'_, ()>, i32) -> Result<i32, Error> + Send + Sync {
    move |mut caller, value| {
        let inner =
            caller.get_export(name).and_then(wasm_aot::Extern::into_func).expect("exported");
        let inner = inner.typed::<i32, i32>(&mut caller)?;
        inner.call(&mut caller, value)
    }
}

#[test]
fn traps_go_through_hosts_in_between_and_name_every_frame() {
    let mut store = Store::new(&quick(), ());
    let host = Func::wrap(&mut store, back("trap"));
    let instance = with_host(&mut store, host, CALLS);
    let run = instance.get_typed_func::<i32, i32>(&mut store, "run").expect("exported");
    for _ in 0..3 {
        let Error::Trap(report) = run.call(&mut store, 0).expect_err("a trap") else {
            panic!("another kind")
        };
        assert_eq!(report.trap, Trap::Unreachable);
        let functions: Vec<u32> =
            report.backtrace.frames.iter().map(|frame| frame.function).collect();
        assert_eq!(functions, [2, 1]);
    }
}

#[test]
fn frames_name_their_module_only_where_there_are_several() {
    let mut store = Store::new(&quick(), ());
    let mut linker = Linker::new(store.engine());
    let inner = "(module $library (func $fails (export \"fails\") (unreachable)))";
    let outer = "(module $program (import \"library\" \"fails\" (func $fails))
        (func $main (export \"main\") (call $fails)))";
    let mut failure = |name: &str, text: &str, export: &str| {
        let module = Module::new(store.engine(), text).expect("a module");
        let instance = linker.instantiate(&mut store, &module).expect("all is there");
        linker.instance(&mut store, name, instance).expect("new names");
        let run = instance.get_typed_func::<(), ()>(&mut store, export).expect("exported");
        let text = run.call(&mut store, ()).expect_err("a trap").to_string();
        let names = text.lines().skip(1).map(|line| line.rsplit(' ').next().unwrap_or_default());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(failure("library", inner, "fails"), ["fails"]);
    assert_eq!(failure("program", outer, "main"), ["library!fails", "program!main"]);
}

#[test]
fn an_unreachable_is_told_where_it_stands_and_not_at_the_branch_to_it() {
    let text = r#"(module
        (func (export "else") (result i32)
            (if (result i32) (global.get $no) (then (i32.const 5)) (else (unreachable))))
        (func (export "then") (if (i32.eqz (global.get $no)) (then (unreachable))))
        (func (export "branch") (block (br_if 0 (global.get $no)) (unreachable)))
        (func (export "table")
            (block (block (br_table 0 1 (global.get $no))) (unreachable)))
        (global $no (mut i32) (i32.const 0)))"#;
    let bytes = wat::parse_str(text).expect("a module");
    let mut expected = Vec::new();
    for payload in wasmparser::Parser::new(0).parse_all(&bytes) {
        if let wasmparser::Payload::CodeSectionEntry(body) = payload.expect("a module") {
            let operators = body.get_operators_reader().expect("a body").into_iter_with_offsets();
            let all = operators.map(|operator| operator.expect("an instruction"));
            let at = all.filter(|(operator, _)| *operator == wasmparser::Operator::Unreachable);
            expected.extend(at.map(|(_, offset)| Some(offset as u32)));
        }
    }
    let mut store = Store::new(&Engine::default(), ());
    let module = Module::new(store.engine(), &bytes).expect("it is valid");
    let linker = Linker::new(store.engine());
    let instance = linker.instantiate(&mut store, &module).expect("it imports nothing");
    let told: Vec<Option<u32>> = ["else", "then", "branch", "table"]
        .map(|name| {
            let function = instance.get_func(&mut store, name).expect("exported");
            let Err(Error::Trap(report)) = function.call(&mut store, &[]) else {
                panic!("{name} does not trap")
            };
            report.backtrace.frames[0].offset
        })
        .to_vec();
    assert_eq!(told, expected);
}

#[test]
fn hosts_may_swallow_traps_of_what_they_call() {
    let mut store = Store::new(&quick(), ());
    let host = Func::wrap(&mut store, |mut caller: Caller<'_, ()>, value: i32| {
        let name = if value == 0 { "trap" } else { "deep" };
        let inner =
            caller.get_export(name).and_then(wasm_aot::Extern::into_func).expect("exported");
        match inner.call(&mut caller, &[wasm_aot::Val::I32(0)]) {
            Err(error) => {
                error.trap().map_or(0, |trap| if trap == Trap::StackOverflow { 200 } else { 100 })
            }
            Ok(_) => 0,
        }
    });
    let instance = with_host(&mut store, host, CALLS);
    let run = instance.get_typed_func::<i32, i32>(&mut store, "run").expect("exported");
    for _ in 0..20 {
        assert_eq!(run.call(&mut store, 0).expect("a result"), 101);
        assert_eq!(run.call(&mut store, 1).expect("a result"), 201);
    }
}

#[test]
fn recursion_through_the_host_ends_as_a_trap() {
    let mut store = Store::new(&quick(), ());
    let host = Func::wrap(&mut store, back("run"));
    let instance = with_host(&mut store, host, CALLS);
    let run = instance.get_typed_func::<i32, i32>(&mut store, "run").expect("exported");
    for _ in 0..3 {
        assert_eq!(trap(run.call(&mut store, 0)), Trap::StackOverflow);
    }
}

#[test]
fn exceptions_go_through_hosts_to_whoever_catches() {
    let mut store = Store::new(&quick(), ());
    let host = Func::wrap(&mut store, back("throw"));
    let text = "(module (import \"host\" \"f\" (func $f (param i32) (result i32))) (tag $e (param i32))
        (func (export \"throw\") (param i32) (result i32) (throw $e (local.get 0)))
        (func (export \"run\") (param i32) (result i32)
            (block $caught (result i32) (try_table (result i32) (catch $e $caught) (call $f (local.get 0))) (return))
            (i32.mul (i32.const 2)))
        (func (export \"leave\") (param i32) (result i32) (call $f (local.get 0))))";
    let instance = with_host(&mut store, host, text);
    let run = instance.get_typed_func::<i32, i32>(&mut store, "run").expect("exported");
    let leave = instance.get_typed_func::<i32, i32>(&mut store, "leave").expect("exported");
    for _ in 0..3 {
        assert_eq!(run.call(&mut store, 21).expect("caught"), 42);
        let Error::Exception(report) = leave.call(&mut store, 9).expect_err("nobody catches")
        else {
            panic!("another kind")
        };
        let exception = report.exception.expect("an exception");
        assert_eq!(exception.values(&mut store).expect("of this store")[0].i32(), Some(9));
        let mut other = Store::new(&quick(), ());
        one_line(&exception.values(&mut other).expect_err("of another store"));
    }
}

#[test]
fn what_belongs_to_another_store_is_refused() {
    let engine = quick();
    let (mut one, mut other) = (Store::new(&engine, ()), Store::new(&engine, ()));
    let text = "(module (func (export \"f\") (param funcref)) (memory (export \"m\") 1) (table (export \"t\") 1 funcref))";
    let here = instance(&mut one, text);
    let there = instance(&mut other, text);
    let (function, foreign) = (
        here.get_func(&mut one, "f").expect("exported"),
        there.get_func(&mut other, "f").expect("exported"),
    );
    one_line(&function.call(&mut one, &[foreign.into()]).expect_err("a foreign argument"));
    one_line(
        &foreign.call(&mut one, &[wasm_aot::Val::FuncRef(None)]).expect_err("a foreign function"),
    );
    one_line(
        &here
            .get_memory(&mut one, "m")
            .expect("exported")
            .size(&mut other)
            .expect_err("a foreign memory"),
    );
    one_line(
        &here
            .get_table(&mut one, "t")
            .expect("exported")
            .set(&mut one, 0, foreign.into())
            .expect_err("a foreign element"),
    );
    assert!(here.get_func(&mut other, "f").is_none());
    let module = Module::new(&engine, "(module (import \"a\" \"f\" (func (param funcref))))")
        .expect("a module");
    one_line(&Instance::new(&mut one, &module, &[foreign.into()]).expect_err("a foreign import"));
    one_line(&Instance::new(&mut one, &module, &[]).expect_err("too few imports"));
}

#[test]
fn stores_modules_and_what_they_gave_end_in_any_order() {
    let engine = quick();
    let text = "(module (tag $e) (func (export \"f\") (param externref) (result externref) (local.get 0)) (func (export \"t\") (throw $e)))";
    let module = Module::new(&engine, text).expect("a module");
    let mut store = Store::new(&engine, ());
    let linker: Linker<()> = Linker::new(&engine);
    let instance = linker.instantiate(&mut store, &module).expect("an instance");
    drop((linker, engine, module));
    let function = instance
        .get_typed_func::<Option<ExternRef>, Option<ExternRef>>(&mut store, "f")
        .expect("exported");
    let given = ExternRef::new(String::from("kept"));
    let got = function.call(&mut store, Some(given.clone())).expect("a result").expect("not null");
    let thrower = instance.get_func(&mut store, "t").expect("exported");
    let error = thrower.call(&mut store, &[]).expect_err("an exception");
    let handle = store.interrupt_handle();
    drop(store);
    assert!(got.same(&given) && got.data().downcast_ref::<String>().expect("a text") == "kept");
    handle.interrupt();
    drop((error, got, given));
}

#[test]
fn many_threads_with_a_store_each_share_a_module() {
    let engine = Engine::default();
    let text = "(module (func $fib (export \"fib\") (param i32) (result i32)
        (if (result i32) (i32.lt_u (local.get 0) (i32.const 2)) (then (local.get 0))
            (else (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1))) (call $fib (i32.sub (local.get 0) (i32.const 2)))))))
        (func (export \"trap\") (drop (i32.div_u (i32.const 1) (i32.const 0)))))";
    let module = Module::new(&engine, text).expect("a module");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let (engine, module) = (&engine, &module);
            scope.spawn(move || {
                for _ in 0..20 {
                    let mut store = Store::new(engine, ());
                    let instance =
                        Linker::new(engine).instantiate(&mut store, module).expect("an instance");
                    let fib =
                        instance.get_typed_func::<i32, i32>(&mut store, "fib").expect("exported");
                    assert_eq!(fib.call(&mut store, 15).expect("a result"), 610);
                    let traps =
                        instance.get_typed_func::<(), ()>(&mut store, "trap").expect("exported");
                    assert_eq!(trap(traps.call(&mut store, ())), Trap::IntegerDivideByZero);
                }
            });
        }
    });
}

#[test]
fn threads_count_together_in_a_shared_memory_and_wake_each_other() {
    let engine = Engine::default();
    let text = "(module (import \"a\" \"m\" (memory 1 2 shared))
        (func (export \"count\") (param i32) (loop $l (drop (i32.atomic.rmw.add (i32.const 0) (i32.const 1)))
            (br_if $l (local.tee 0 (i32.sub (local.get 0) (i32.const 1))))))
        (func (export \"wait\") (result i32) (memory.atomic.wait32 (i32.const 8) (i32.const 0) (i64.const -1)))
        (func (export \"wake\") (result i32) (i32.atomic.store (i32.const 8) (i32.const 1)) (memory.atomic.notify (i32.const 8) (i32.const -1)))
        (func (export \"sum\") (result i32) (i32.atomic.load (i32.const 0))))";
    let module = Module::new(&engine, text).expect("a module");
    let memory =
        SharedMemory::new(MemoryType { minimum: 1, maximum: Some(2), wide: false, shared: true })
            .expect("a memory");
    let own = || {
        let mut store = Store::new(&engine, ());
        let shared = Memory::shared(&mut store, &memory);
        let instance = Instance::new(&mut store, &module, &[shared.into()]).expect("an instance");
        (store, instance)
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (mut store, instance) = own();
                let count =
                    instance.get_typed_func::<i32, ()>(&mut store, "count").expect("exported");
                count.call(&mut store, 10_000).expect("counted");
                let wait =
                    instance.get_typed_func::<(), i32>(&mut store, "wait").expect("exported");
                assert!(matches!(wait.call(&mut store, ()).expect("woken"), 0 | 1));
            });
        }
        let (mut store, instance) = own();
        let sum = instance.get_typed_func::<(), i32>(&mut store, "sum").expect("exported");
        while sum.call(&mut store, ()).expect("a sum") < 40_000 {
            std::thread::yield_now();
        }
        let wake = instance.get_typed_func::<(), i32>(&mut store, "wake").expect("exported");
        assert!(wake.call(&mut store, ()).expect("a number") <= 4);
    });
    let (mut store, instance) = own();
    let sum = instance.get_typed_func::<(), i32>(&mut store, "sum").expect("exported");
    assert_eq!(sum.call(&mut store, ()).expect("a sum"), 40_000);
}

#[test]
fn a_handle_interrupts_code_host_calls_nested_code_and_waits() {
    let engine = quick();
    let text = "(module (import \"host\" \"f\" (func $f (param i32) (result i32))) (memory 1 1 shared)
        (func (export \"loop\") (param i32) (result i32) (loop $l (br $l)) unreachable)
        (func (export \"host\") (param i32) (result i32) (loop $l (drop (call $f (local.get 0))) (br $l)) unreachable)
        (func (export \"wait\") (param i32) (result i32) (memory.atomic.wait32 (i32.const 0) (i32.const 0) (i64.const -1))))";
    for (export, argument) in [("loop", 0), ("host", 0), ("host", 1), ("wait", 0)] {
        let mut store = Store::new(&engine, ());
        let host = Func::wrap(
            &mut store,
            |mut caller: Caller<'_, ()>, nested: i32| -> Result<i32, Error> {
                if nested == 0 {
                    std::thread::sleep(Duration::from_millis(5));
                    return Ok(0);
                }
                let inner = caller
                    .get_export("loop")
                    .and_then(wasm_aot::Extern::into_func)
                    .expect("exported");
                inner.typed::<i32, i32>(&mut caller)?.call(&mut caller, 0)
            },
        );
        let instance = with_host(&mut store, host, text);
        let run = instance.get_typed_func::<i32, i32>(&mut store, export).expect("exported");
        let handle = store.interrupt_handle();
        let interrupter = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            handle.interrupt();
        });
        assert_eq!(trap(run.call(&mut store, argument)), Trap::Interrupted, "{export} {argument}");
        interrupter.join().expect("it ends");
        store.set_deadline(Some(Duration::from_millis(20)));
        assert_eq!(trap(run.call(&mut store, argument)), Trap::Interrupted, "{export} {argument}");
    }
}

#[test]
fn deadlines_that_no_clock_reaches_are_none() {
    let mut store = Store::new(&quick(), ());
    let instance =
        instance(&mut store, "(module (func (export \"f\") (result i32) (i32.const 3)))");
    let function = instance.get_typed_func::<(), i32>(&mut store, "f").expect("exported");
    for time in [Some(Duration::MAX), Some(Duration::from_secs(u64::MAX / 4)), None] {
        store.set_deadline(time);
        assert_eq!(function.call(&mut store, ()).expect("a result"), 3);
    }
}

#[test]
fn deep_recursion_is_a_trap_on_stacks_of_every_size() {
    let engine = Engine::default();
    let text = "(module (import \"host\" \"f\" (func $f (param i32) (result i32)))
        (func $deep (export \"deep\") (param i32) (result i32) (drop (call $f (i32.const 0))) (i32.add (i32.const 1) (call $deep (local.get 0))))
        (func $large (export \"large\") (param i32) (result i32) (local v128 v128 v128 v128)
            (local.set 1 (i32x4.splat (local.get 0))) (local.set 2 (i32x4.splat (call $large (local.get 0))))
            (i32x4.extract_lane 0 (i32x4.add (local.get 1) (local.get 2)))))";
    for kilobytes in [64, 128, 160, 256, 512, 2048, 16384] {
        let engine = engine.clone();
        let thread = std::thread::Builder::new().stack_size(kilobytes << 10).spawn(move || {
            let mut store = Store::new(&engine, ());
            let host = Func::wrap(&mut store, |value: i32| value);
            let instance = with_host(&mut store, host, text);
            for name in ["deep", "large", "deep"] {
                let function =
                    instance.get_typed_func::<i32, i32>(&mut store, name).expect("exported");
                assert_eq!(
                    trap(function.call(&mut store, 0)),
                    Trap::StackOverflow,
                    "{name} in {kilobytes} kB"
                );
            }
            store.set_limits(Limits { stack: usize::MAX, ..Limits::default() });
            let function =
                instance.get_typed_func::<i32, i32>(&mut store, "deep").expect("exported");
            assert_eq!(
                trap(function.call(&mut store, 0)),
                Trap::StackOverflow,
                "no limit but the stack's own"
            );
        });
        thread.expect("a thread").join().expect("no crash");
    }
}

#[test]
fn host_functions_at_the_end_of_the_stack_can_still_work() {
    let mut store = Store::new(&quick(), ());
    let text = "(module (import \"host\" \"f\" (func $f (param i32) (result i32)))
        (func $deep (export \"deep\") (param i32) (result i32) (i32.add (call $f (local.get 0)) (call $deep (i32.add (local.get 0) (i32.const 1))))))";
    // Each has a type that no module contains, so that a trampoline is compiled.
    let host =
        Func::wrap(&mut store, |mut caller: Caller<'_, ()>, depth: i32| -> Result<i32, Error> {
            if depth % 1_000 == 0 {
                let params = (0..depth / 1_000).map(|_| wasm_aot::ValType::F64);
                let ty = wasm_aot::FuncType::new(
                    params,
                    [wasm_aot::ValType::F64, wasm_aot::ValType::F32],
                );
                let function = Func::new(&mut caller, ty.clone(), |_, _, _| Ok(()));
                let args: Vec<_> = ty.params().iter().map(|_| wasm_aot::Val::F64(0)).collect();
                function.call(&mut caller, &args)?;
            }
            Ok(0)
        });
    let instance = with_host(&mut store, host, text);
    let deep = instance.get_typed_func::<i32, i32>(&mut store, "deep").expect("exported");
    assert_eq!(trap(deep.call(&mut store, 0)), Trap::StackOverflow);
}

/// A value that counts its live copies.
struct Counted(Arc<AtomicI64>);

impl Counted {
    fn one(living: &Arc<AtomicI64>) -> ExternRef {
        living.fetch_add(1, SeqCst);
        ExternRef::new(Self(Arc::clone(living)))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[test]
fn values_of_the_host_live_while_they_are_held_and_not_longer() {
    let mut store = Store::new(&quick(), ());
    let text = "(module (global $g (export \"g\") (mut externref) (ref.null extern)) (table $t (export \"t\") 3 externref)
        (func (export \"f\") (param externref) (result externref) (local.get 0))
        (func (export \"keep\") (param i32 externref) (table.set $t (local.get 0) (local.get 1)))
        (func (export \"kept\") (param i32) (result externref) (table.get $t (local.get 0))))";
    let instance = instance(&mut store, text);
    let living = Arc::new(AtomicI64::new(0));
    let keep = instance
        .get_typed_func::<(i32, Option<ExternRef>), ()>(&mut store, "keep")
        .expect("exported");
    let kept =
        instance.get_typed_func::<i32, Option<ExternRef>>(&mut store, "kept").expect("exported");
    let pass = instance
        .get_typed_func::<Option<ExternRef>, Option<ExternRef>>(&mut store, "f")
        .expect("exported");
    let (global, table) = (
        instance.get_global(&mut store, "g").expect("exported"),
        instance.get_table(&mut store, "t").expect("exported"),
    );
    let held = Counted::one(&living);
    keep.call(&mut store, (1, Some(held.clone()))).expect("kept");
    for _ in 0..60_000 {
        let value = Counted::one(&living);
        assert!(
            pass.call(&mut store, Some(value.clone()))
                .expect("a result")
                .expect("not null")
                .same(&value)
        );
    }
    for _ in 0..30_000 {
        global.set(&mut store, Counted::one(&living).into()).expect("it may change");
        table.set(&mut store, 2, Counted::one(&living).into()).expect("inside");
    }
    let now = living.load(SeqCst);
    assert!(now < 25_000, "{now} values live of which nobody holds more than three");
    assert!(kept.call(&mut store, 1).expect("a result").expect("not null").same(&held));
    drop((store, held));
    assert_eq!(living.load(SeqCst), 0);
}

#[test]
fn what_runs_out_of_stack_while_instantiated_is_a_trap() {
    let mut store = Store::new(&quick(), ());
    assert_eq!(
        trap(try_instance(&mut store, "(module (func $f (call $f)) (start $f))")),
        Trap::StackOverflow
    );
    // The store is usable afterwards.
    let instance =
        instance(&mut store, "(module (func (export \"f\") (result i32) (i32.const 1)))");
    let function =
        instance.get_typed_func::<(), i32>(store.as_context_mut(), "f").expect("exported");
    assert_eq!(function.call(&mut store, ()).expect("a result"), 1);
}

#[test]
fn operations_on_many_bytes_and_elements_are_interrupted() {
    let text = |body: &str| {
        format!(
            "(module (table $t 4000000 funcref) (memory 512) (elem $e func $f $f) (data $d \"data\")
                (func $f (export \"f\") (local $i i32) (loop $l {body}
                    (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $l (i32.lt_u (local.get $i) (i32.const 20000))))))"
        )
    };
    for body in [
        "(table.copy (i32.const 0) (i32.const 1) (i32.const 3999999))",
        "(table.fill (i32.const 0) (ref.func $f) (i32.const 4000000))",
        "(memory.copy (i32.const 1) (i32.const 0) (i32.const 0x1ffffff))",
        "(memory.fill (i32.const 0) (i32.const 1) (i32.const 0x2000000))",
    ] {
        let mut store = Store::new(&quick(), ());
        let instance = instance(&mut store, &text(body));
        let run = instance.get_typed_func::<(), ()>(&mut store, "f").expect("exported");
        store.set_deadline(Some(Duration::from_millis(20)));
        assert_eq!(trap(run.call(&mut store, ())), Trap::Interrupted, "{body}");
        // A request that was answered is not delivered again.
        store.set_deadline(None);
        let again = "(module (memory 1) (func (export \"f\") (memory.fill (i32.const 0) (i32.const 1) (i32.const 9))))";
        let again = try_instance(&mut store, again)
            .expect("an instance")
            .get_typed_func::<(), ()>(&mut store, "f");
        again.expect("exported").call(&mut store, ()).expect("no trap");
    }
    // Short operations are checked at their return, since the program is inside one almost always.
    let short =
        ["(drop (memory.grow (i32.const 0)))", "(drop (table.grow (ref.null func) (i32.const 0)))"];
    for body in
        short.into_iter().chain(["(memory.init $d (i32.const 0) (i32.const 0) (i32.const 4))"])
    {
        let mut store = Store::new(&quick(), ());
        let instance = instance(&mut store, &text(body).replace("20000", "-1"));
        let run = instance.get_typed_func::<(), ()>(&mut store, "f").expect("exported");
        store.set_deadline(Some(Duration::from_millis(20)));
        assert_eq!(trap(run.call(&mut store, ())), Trap::Interrupted, "{body}");
    }
}

#[test]
fn imports_are_looked_up_once_and_missing_ones_are_named_shortly_or_trap() {
    let engine = quick();
    let many: String =
        (0..50).map(|n| format!("(import \"env\" \"f{n}\" (func (param i32)))")).collect();
    let module = Module::new(
        &engine,
        format!("(module {many} (func (export \"f\") (call 7 (i32.const 1))))"),
    )
    .expect("a module");
    let mut linker = Linker::<()>::new(&engine);
    let error = one_line(&linker.prelink(&module).expect_err("nothing is defined"));
    assert!(
        error.contains("\"f0\"") && error.ends_with("and 44 more") && error.len() < 300,
        "{error}"
    );
    // Neither a name nor a type makes a message long.
    let (long, params) = ("x".repeat(100_000), "i64 ".repeat(900));
    let lengthy = format!("(module (import \"{long}\" \"{long}\" (func (param {params}))))");
    let lengthy = Module::new(&engine, lengthy).expect("a module");
    let error = one_line(&linker.prelink(&lengthy).expect_err("nothing is defined"));
    assert!(error.contains("xxx…\" \"xxx") && error.len() < 500, "{error}");
    linker.func_wrap("env", "f0", |_: i32| ()).expect("a new name");
    linker.unknown_imports_as_traps(&module).expect("only functions lack");
    let linked = linker.prelink(&module).expect("all are defined");
    for _ in 0..3 {
        let mut store = Store::new(&engine, ());
        let instance = linked.instantiate(&mut store).expect("an instance");
        let f = instance.get_typed_func::<(), ()>(&mut store, "f").expect("exported");
        let error = f.call(&mut store, ()).expect_err("it is called");
        assert!(
            error.to_string().contains("\"env\" \"f7\"") && matches!(error, Error::Host(_)),
            "{error}"
        );
        let frames: Vec<u32> =
            store.host_failure().frames.iter().map(|frame| frame.function).collect();
        assert_eq!(frames, [50]);
    }
    let table = Module::new(&engine, "(module (import \"env\" \"t\" (table 1 funcref)))")
        .expect("a module");
    linker
        .unknown_imports_as_traps(&table)
        .expect("nothing to define")
        .prelink(&table)
        .expect_err("tables are not made up");
}

#[test]
fn a_failure_of_the_host_is_located_where_it_happened_first() {
    let mut store = Store::new(&quick(), ());
    let host =
        Func::wrap(&mut store, |mut caller: Caller<'_, ()>, nested: i32| -> Result<i32, Error> {
            if nested == 0 {
                return Err(Error::host("no"));
            }
            let inner =
                caller.get_export("inner").and_then(wasm_aot::Extern::into_func).expect("exported");
            inner.typed::<i32, i32>(&mut caller)?.call(&mut caller, nested - 1)
        });
    let text = "(module (import \"host\" \"f\" (func $f (param i32) (result i32)))
        (func (export \"outer\") (param i32) (result i32) (call $f (local.get 0)))
        (func (export \"inner\") (param i32) (result i32) (call $f (local.get 0))))";
    let instance = with_host(&mut store, host, text);
    let outer = instance.get_typed_func::<i32, i32>(&mut store, "outer").expect("exported");
    for (nested, functions) in [(1, &[2, 1][..]), (0, &[1])] {
        outer.call(&mut store, nested).expect_err("the host fails");
        let frames: Vec<u32> =
            store.host_failure().frames.iter().map(|frame| frame.function).collect();
        assert_eq!(frames, functions);
    }
}

#[test]
fn a_limiter_is_asked_for_everything_that_grows() {
    use wasm_aot::{Demand, Demanded};
    let text = "(module (memory 2 9) (table 3 funcref)
        (func (export \"f\") (param i32) (result i32) (memory.grow (local.get 0)))
        (func (export \"t\") (param i32) (result i32) (table.grow (ref.null func) (local.get 0))))";
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (own, mut store) = (Arc::clone(&asked), Store::new(&quick(), ()));
    store.set_limiter(move |demand| {
        own.lock().expect("no panic").push(demand);
        demand.wanted <= 4
    });
    let instance = instance(&mut store, text);
    let mut call = |name: &str, by: i32| {
        let function = instance.get_typed_func::<i32, i32>(&mut store, name).expect("exported");
        function.call(&mut store, by).expect("no trap")
    };
    assert_eq!((call("f", 2), call("f", 1), call("t", 1), call("t", 1)), (2, -1, 3, -1));
    let seen = |of, current, wanted, maximum| Demand { of, current, wanted, maximum };
    let (pages, elements) = (Demanded::Pages, Demanded::Elements);
    let mut all = asked.lock().expect("no panic").clone();
    all[..2].sort_by_key(|demand| demand.wanted);
    let expected = [
        seen(pages, 0, 2, Some(9)),
        seen(elements, 0, 3, None),
        seen(pages, 2, 4, Some(9)),
        seen(pages, 4, 5, Some(9)),
        seen(elements, 3, 4, None),
        seen(elements, 4, 5, None),
    ];
    assert_eq!(all, expected);
    let mut store = Store::new(&quick(), ());
    store.set_limiter(|_| panic!("on purpose"));
    let error = one_line(&try_instance(&mut store, text).expect_err("nothing is allowed"));
    assert!(error.contains("allows no"), "{error}");
}

#[test]
fn the_bytes_of_a_memory_are_a_slice_unless_threads_share_it() {
    let mut store = Store::new(&quick(), ());
    let instance = instance(
        &mut store,
        "(module (memory (export \"m\") 1) (data (i32.const 2) \"abc\") (memory (export \"s\") 1 1 shared)
            (func (export \"f\") (result i32) (i32.load8_u (i32.const 3))))",
    );
    let memory = instance.get_memory(&mut store, "m").expect("exported");
    let bytes = memory.bytes(&mut store).expect("of this store").expect("not shared");
    assert_eq!((bytes.len(), &bytes[..6]), (65536, &b"\0\0abc\0"[..]));
    bytes[3] = 7;
    let f = instance.get_typed_func::<(), i32>(&mut store, "f").expect("exported");
    assert_eq!(f.call(&mut store, ()).expect("no trap"), 7);
    let shared = instance.get_memory(&mut store, "s").expect("exported");
    assert!(shared.bytes(&mut store).expect("of this store").is_none());
}

#[test]
#[allow(unsafe_code, reason = "what was compiled here is executed here")]
fn machine_code_is_loaded_from_memory() {
    let engine = quick();
    let code =
        Module::precompile(&engine, "(module (func (export \"f\") (result i32) (i32.const 41)))")
            .expect("compiled");
    // SAFETY: (1) compiled just now.
    let module = unsafe { Module::from_machine_code(&engine, &code) }.expect("loaded");
    let mut store = Store::new(&engine, ());
    let instance = Linker::new(&engine).instantiate(&mut store, &module).expect("an instance");
    let f = instance.get_typed_func::<(), i32>(&mut store, "f").expect("exported");
    assert_eq!(f.call(&mut store, ()).expect("no trap"), 41);
    let mut damaged = code.clone();
    let module = damaged.windows(4).position(|bytes| bytes == b"\0asm").expect("it is inside");
    damaged[module + 9] ^= 1;
    for bytes in [&damaged[..], &code[..100], &[]] {
        // SAFETY: (1) refused.
        let error = unsafe { Module::from_machine_code(&engine, bytes) }
            .expect_err("not what was compiled");
        assert!(one_line(&error).contains("machine code in memory"), "{error}");
    }
}
