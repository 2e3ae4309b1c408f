//! Functions of the host that do more than those of a trace: they call the program themselves.

use super::{fetched, placed, told_to_a_file};
use test_support::Folder;
use wasm_aot::trace::{End, Event, Reader};
use wasm_aot::{Engine, Func, FuncType, Instance, Linker, Module, Store, Table, Val, ValType};
use whamm_record::{Options, record};

/// A program that records itself.
pub(super) fn rewritten(engine: &Engine, text: &str) -> Module {
    let original = wat::parse_str(text).expect("it is text");
    let recording = record(&original, &Options::default()).expect("it can be recorded");
    Module::new(engine, &recording.module).expect("a module")
}

fn unary() -> FuncType {
    FuncType::new([ValType::I32], [ValType::I32])
}

/// A function of the host that calls another one: what it adds to the argument and to the result.
fn around(store: &mut Store<()>, inner: Func, before: i32, after: i32) -> Func {
    Func::new(store, unary(), move |mut caller, args, results| {
        let arg = args[0].i32().expect("a number") + before;
        let result = inner.call(&mut caller, &[Val::I32(arg)])?[0].i32().expect("a number");
        results[0] = Val::I32(result + after);
        Ok(())
    })
}

fn element(store: &mut Store<()>, table: &Table, index: u64) -> Func {
    match table.get(store, index) {
        Ok(Some(Val::FuncRef(Some(function)))) => function,
        other => panic!("{other:?}"),
    }
}

/// The events of a program's trace, and how it ends.
pub(super) fn told(store: &mut Store<()>, instance: Instance) -> (Vec<String>, String) {
    let trace = fetched(store, instance);
    let mut reader = Reader::new(&trace[..]).expect("a trace");
    let events: Result<Vec<Event>, _> = reader.by_ref().collect();
    let events = placed(events.expect("it is whole"));
    (events.iter().map(ToString::to_string).collect(), format!("{:?}", reader.ending()))
}

/// Calls through a table only.
const CALLS: &str = r#"(module (type $t (func (param i32) (result i32)))
    (table (export "t") 2 funcref) (elem (i32.const 0) $own)
    (func $own (type $t) (i32.mul (local.get 0) (i32.const 2)))
    (func (export "run") (param i32) (result i32)
        (call_indirect (type $t) (local.get 0) (i32.const 1))))"#;

#[test]
fn a_function_around_one_of_the_program_s_is_recorded_or_ends_the_trace() {
    let engine = Engine::default();
    let module = rewritten(&engine, CALLS);
    for (before, after, result) in [(1, 0, 12), (1, 1, 13), (0, 1, 11), (0, 0, 10)] {
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &module, &[]).expect("an instance");
        let table = instance.get_table(&mut store, "t").expect("a table");
        let own = element(&mut store, &table, 0);
        let outer = around(&mut store, own, before, after);
        table.set(&mut store, 1, Val::FuncRef(Some(outer))).expect("it fits");
        let run = instance.get_func(&mut store, "run").expect("exported");
        let found = run.call(&mut store, &[Val::I32(5)]).expect("it runs")[0].i32();
        assert_eq!(found, Some(result), "the program does what it did");
        let (events, ending) = told(&mut store, instance);
        let call = "call 2 i32:5";
        match (before, after) {
            (1, _) => {
                let expected = [
                    "function i32 -> i32",
                    "element 0 1 func:2",
                    "enter 1 export \"run\" i32:5",
                    call,
                    "enter 0 reference i32:6",
                    "leave i32:12",
                    &format!("return i32:{result}"),
                    &format!("leave i32:{result}"),
                ];
                assert_eq!(events, expected);
            }
            (_, 1) => assert!(ending.contains("not the program's"), "{ending}: {events:?}"),
            // It cannot be told from the program's own.
            _ => assert_eq!(
                events,
                ["element 0 1 func:0", "enter 1 export \"run\" i32:5", "leave i32:10"]
            ),
        }
    }
}

/// Gets references to functions, keeps one, and gives it back.
const TAKES: &str = r#"(module (type $t (func (param i32) (result i32)))
    (import "h" "f" (func $f (param funcref))) (table $kept 1 funcref) (elem declare func $own)
    (func $own (type $t) (i32.mul (local.get 0) (i32.const 2)))
    (func (export "alone") (type $t) (i32.mul (local.get 0) (i32.const 3)))
    (func (export "give") (result funcref) (ref.func $own))
    (func (export "take") (param funcref)
        (table.set $kept (i32.const 0) (local.get 0)) (call $f (local.get 0)))
    (func (export "run") (param i32) (result i32)
        (call_indirect $kept (type $t) (local.get 0) (i32.const 0))))"#;

/// An instance of it.
fn taking(store: &mut Store<()>, module: &Module, engine: &Engine) -> Instance {
    let mut linker = Linker::new(engine);
    let ty = FuncType::new([ValType::FUNCREF], []);
    let takes = Func::new(&mut *store, ty, |_, _, _| Ok(()));
    linker.define("h", "f", takes).expect("it is new");
    linker.instantiate(store, module).expect("an instance")
}

pub(super) fn call(
    store: &mut Store<()>,
    instance: Instance,
    name: &str,
    args: &[Val],
) -> Vec<Val> {
    let function = instance.get_func(&mut *store, name).expect(name);
    function.call(store, args).expect(name)
}

#[test]
fn functions_of_both_sides_are_told_apart_without_calling_any() {
    let engine = Engine::default();
    let module = rewritten(&engine, TAKES);
    let mut store = Store::new(&engine, ());
    let instance = taking(&mut store, &module, &engine);
    let own = call(&mut store, instance, "give", &[])[0].clone();
    let Val::FuncRef(Some(inner)) = own else { panic!("a function") };
    let outer = Val::FuncRef(Some(around(&mut store, inner, 0, 1)));
    let alone = instance.get_func(&mut store, "alone").expect("exported");
    for (function, result) in [(own, 10), (outer, 11), (Val::FuncRef(Some(alone)), 15)] {
        call(&mut store, instance, "take", &[function]);
        let found = call(&mut store, instance, "run", &[Val::I32(5)]);
        assert_eq!(found[0].i32(), Some(result));
    }
    let (events, ending) = told(&mut store, instance);
    let expected = "enter 3 export \"give\"; leave func:1; enter 4 export \"take\" func:1; \
        call 0 func:1; return; leave; enter 5 export \"run\" i32:5; leave i32:10; \
        function i32 -> i32; enter 4 export \"take\" func:6; call 0 func:6; return; leave; \
        enter 5 export \"run\" i32:5; call 6 i32:5; enter 1 reference i32:5; leave i32:10; \
        return i32:11; leave i32:11; \
        enter 4 export \"take\" func:6; call 0 func:6; return; leave; \
        enter 5 export \"run\" i32:5; call 6 i32:5; enter 2 export \"alone\" i32:5; leave i32:15; \
        return i32:15; leave i32:15";
    assert_eq!(events.join("; "), expected, "{ending}");
}

#[test]
fn a_function_of_another_instance_of_the_program_ends_the_trace() {
    let engine = Engine::default();
    let module = rewritten(&engine, TAKES);
    let mut store = Store::new(&engine, ());
    let [one, other] = [(); 2].map(|()| taking(&mut store, &module, &engine));
    let given = call(&mut store, other, "give", &[]);
    call(&mut store, one, "take", &given);
    let found = call(&mut store, one, "run", &[Val::I32(5)]);
    assert_eq!(found[0].i32(), Some(10));
    let (events, ending) = told(&mut store, one);
    assert!(ending.contains("not the program's"), "{ending}: {events:?}");
    let (events, _) = told(&mut store, other);
    let expected = ["enter 3 export \"give\"", "leave func:1"];
    assert_eq!(events[..2], expected, "it was not called in order to identify it");
    assert_eq!(events[2..], ["enter 1 reference i32:5", "leave i32:10"]);
}

#[test]
fn a_trace_in_a_file_is_whole_where_a_call_through_the_host_s_table_traps() {
    let (engine, folder) = (Engine::default(), Folder::new("wasm-aot-traps-of-tables-in-files"));
    let takes = r#"(func (export "take") (param funcref))"#;
    for (why, index, more) in [
        ("undefined element", 4, ""),
        ("uninitialized element", 3, ""),
        ("undefined element", 4, takes),
        ("uninitialized element", 3, takes),
        ("indirect call type mismatch", 1, takes),
    ] {
        let text = format!(
            r#"(module (type $t (func)) (type $other (func (result i32)))
                (memory (export "memory") 1)
                (table (export "t") 4 funcref) (elem (i32.const 0) $fine $other)
                (func $fine (type $t)) (func $other (type $other) (i32.const 1)) {more}
                (func (export "_start") (call_indirect (type $t) (i32.const 0))
                    (call_indirect (type $t) (i32.const {index}))))"#
        );
        let original = wat::parse_str(&text).expect("it is text");
        let (ended, events) = told_to_a_file(&engine, &original, &folder, "trap.r3");
        assert!(ended.contains(why), "{why}: {ended}");
        assert_eq!(events.last(), Some(&Event::Leave(End::Trap(why.to_owned()))), "{events:?}");
        assert_eq!(events.len(), 2, "nothing else happened: {events:?}");
    }
}
