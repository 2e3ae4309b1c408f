//! Programs with typed references to functions, whose hosts demand such references, pass wrong
//! ones, or have functions of types that no trace describes.

use super::host_functions::{call, rewritten, told};
use super::told_to_a_file;
use std::sync::{Arc, Mutex};
use test_support::Folder;
use wasm_aot::replaying::replay;
use wasm_aot::trace::{End, Event, Generation, Reader, generate};
use wasm_aot::{Engine, Func, FuncType, Instance, Linker, Module, Store, Val, ValType};
use whamm_record::{Options, record};

/// The host demands a reference of a final type, and gives one without a type.
const DEMANDED: &str = r#"(module (type $t (func (param i32) (result i32)))
    (import "h" "f" (func $f (param (ref null $t)) (result funcref))) (elem declare func $own)
    (func $own (type $t) (i32.mul (local.get 0) (i32.const 2)))
    (func (export "run") (param i32) (result i32)
        (call_ref $t (local.get 0) (ref.cast (ref $t) (call $f (ref.func $own)))))
    (func (export "null") (drop (call $f (ref.null $t))))
    (func (export "take") (param (ref $t)) (result i32)
        (call_ref $t (i32.const 3) (local.get 0))))"#;

/// An instance of it, whose host returns what it gets.
fn demanding(store: &mut Store<()>, module: &Module, engine: &Engine) -> Instance {
    let wasm_aot::ExternType::Func(ty) = module.imports().next().expect("one").ty else {
        panic!("a function")
    };
    let mut linker = Linker::new(engine);
    let same = Func::new(&mut *store, ty, |_, args, results| {
        results[0] = args[0].clone();
        Ok(())
    });
    linker.define("h", "f", same).expect("it is new");
    linker.instantiate(store, module).expect("an instance")
}

#[test]
fn a_host_that_demands_a_type_gets_a_function_that_has_it() {
    let engine = Engine::default();
    let module = rewritten(&engine, DEMANDED);
    let mut store = Store::new(&engine, ());
    let instance = demanding(&mut store, &module, &engine);
    let found = call(&mut store, instance, "run", &[Val::I32(5)]);
    assert_eq!(found[0].i32(), Some(10));
    call(&mut store, instance, "null", &[]);
    let (events, ending) = told(&mut store, instance);
    let expected = "enter 2 export \"run\" i32:5; call 0 func:1; function i32 -> i32; \
        return func:5; call 5 i32:5; enter 1 reference i32:5; leave i32:10; return i32:10; \
        leave i32:10; enter 3 export \"null\"; call 0 func:null; return func:null; leave";
    assert_eq!(events.join("; "), expected, "{ending}");
}

/// The host may have to return one of the program's own functions as one of a final type.
const RETURNED: &str = r#"(module (type $t (func (param i32) (result i32)))
    (import "h" "f" (func $f (param funcref) (result (ref $t)))) (elem declare func $own)
    (func $own (export "own") (type $t) (i32.mul (local.get 0) (i32.const 2)))
    (func (export "give") (result (ref $t)) (ref.func $own))
    (func (export "run") (param i32) (result i32)
        (call_ref $t (call_ref $t (local.get 0) (ref.func $own)) (call $f (ref.func $own)))))"#;

#[test]
fn a_host_can_return_functions_of_the_program_as_those_of_a_final_type() {
    let engine = Engine::default();
    let module = rewritten(&engine, RETURNED);
    let mut store = Store::new(&engine, ());
    let given = Arc::new(Mutex::new(None));
    let wasm_aot::ExternType::Func(ty) = module.imports().next().expect("one").ty else {
        panic!("a function")
    };
    let mut linker = Linker::new(&engine);
    let returned = Arc::clone(&given);
    let gives = Func::new(&mut store, ty, move |_, args, results| {
        results[0] = returned.lock().expect("one thread").clone().unwrap_or(args[0].clone());
        Ok(())
    });
    linker.define("h", "f", gives).expect("it is new");
    let instance = linker.instantiate(&mut store, &module).expect("an instance");
    let exported = instance.get_func(&mut store, "own").expect("exported");
    let result = call(&mut store, instance, "give", &[])[0].clone();
    // The argument; an export; a result.
    for own in [None, Some(Val::FuncRef(Some(exported))), Some(result)] {
        *given.lock().expect("one thread") = own;
        let found = call(&mut store, instance, "run", &[Val::I32(5)]);
        assert_eq!(found[0].i32(), Some(20));
    }
    let (events, ending) = told(&mut store, instance);
    let run = "enter 3 export \"run\" i32:5; call 0 func:1; return func:4; call 4 i32:10; \
        enter 1 export \"own\" i32:10; leave i32:20; return i32:20; leave i32:20";
    let first = run.replace("return func:4", "function i32 -> i32; return func:4");
    let expected = format!("enter 2 export \"give\"; leave func:1; {first}; {run}; {run}");
    assert_eq!(events.join("; "), expected, "{ending}");
}

#[test]
fn its_replay_checks_itself() {
    let engine = Engine::default();
    let original = wat::parse_str(DEMANDED).expect("it is text");
    let module = rewritten(&engine, DEMANDED);
    let mut store = Store::new(&engine, ());
    let instance = demanding(&mut store, &module, &engine);
    call(&mut store, instance, "run", &[Val::I32(5)]);
    let trace = super::fetched(&mut store, instance);
    let events: Vec<_> = Reader::new(&trace[..]).expect("a trace").collect();
    let count = events.len() as i64;
    let again: Vec<Event> =
        events.iter().map(|event| event.as_ref().expect("whole").clone()).collect();
    let program = Module::new(&engine, &original).expect("a module");
    let done = replay(&mut Store::new(&engine, ()), &program, again.into_iter().map(Ok), None);
    done.expect("the engine follows the trace");
    let made = generate(&original, events.into_iter(), Generation { is_checked: true });
    let made = Module::new(&engine, made.expect("a replay")).expect("valid");
    let mut store = Store::new(&engine, ());
    let instance = Instance::new(&mut store, &made, &[]).expect("an instance");
    call(&mut store, instance, "_start", &[]);
    let event = instance.get_global(&mut store, "replay:event").expect("it checks itself");
    assert_eq!(event.get(&mut store).expect("a value").i64(), Some(count));
}

#[test]
fn a_function_of_another_type_does_not_get_in() {
    let engine = Engine::default();
    let module = rewritten(&engine, DEMANDED);
    let mut store = Store::new(&engine, ());
    let instance = demanding(&mut store, &module, &engine);
    let take = instance.get_func(&mut store, "take").expect("exported");
    let other = Func::new(&mut store, FuncType::new([], []), |_, _, _| Ok(()));
    let own = instance.get_func(&mut store, "null").expect("exported");
    for wrong in [other, own] {
        assert!(take.call(&mut store, &[Val::FuncRef(Some(wrong))]).is_err());
    }
    let right = FuncType::new([ValType::I32], [ValType::I32]);
    let right = Func::new(&mut store, right, |_, args, results| {
        results[0] = args[0].clone();
        Ok(())
    });
    let found = call(&mut store, instance, "take", &[Val::FuncRef(Some(right))]);
    assert_eq!(found[0].i32(), Some(3));
    let (events, ending) = told(&mut store, instance);
    let expected = "function i32 -> i32; enter 4 export \"take\" func:5; call 5 i32:3; \
        return i32:3; leave i32:3";
    assert_eq!(events.join("; "), expected, "{ending}");
}

#[test]
fn a_function_of_a_type_that_no_trace_describes_ends_the_trace_and_the_program_goes_on() {
    let engine = Engine::default();
    let library = r#"(module (type $open (sub (func (result i32)))) (type $t (func (result i32)))
        (type $takes (func (param (ref $t)) (result i32)))
        (func (export "open") (type $open) (i32.const 7))
        (func (export "takes") (type $takes)
            (i32.add (call_ref $t (local.get 0)) (i32.const 1))))"#;
    let program = r#"(module (type $open (sub (func (result i32)))) (type $t (func (result i32)))
        (type $takes (func (param (ref $t)) (result i32))) (elem declare func $own)
        (func $own (type $t) (i32.const 30))
        (func $takes (param (ref $takes)) (result i32)
            (call_ref $takes (ref.func $own) (local.get 0)))
        (func (export "run") (param funcref) (result i32)
            (block $open (result (ref $open))
                (br_on_cast $open funcref (ref $open) (local.get 0))
                (return (call $takes (ref.cast (ref $takes)))))
            (return_call_ref $open))
        (func (export "more") (result i32) (call_ref $t (ref.func $own))))"#;
    let library = Module::new(&engine, library).expect("a module");
    let module = rewritten(&engine, program);
    for (name, result) in [("open", 7), ("takes", 31)] {
        let mut store = Store::new(&engine, ());
        let library = Instance::new(&mut store, &library, &[]).expect("an instance");
        let instance = Instance::new(&mut store, &module, &[]).expect("an instance");
        assert_eq!(call(&mut store, instance, "more", &[])[0].i32(), Some(30));
        let given = library.get_func(&mut store, name).expect(name);
        let found = call(&mut store, instance, "run", &[Val::FuncRef(Some(given))]);
        assert_eq!(found[0].i32(), Some(result), "{name}");
        assert_eq!(call(&mut store, instance, "more", &[])[0].i32(), Some(30));
        let (events, ending) = told(&mut store, instance);
        assert_eq!(events, ["enter 3 export \"more\"", "leave i32:30"], "{name}");
        assert!(ending.contains("a reference to a function"), "{name}: {ending}");
    }
}

#[test]
fn a_call_by_a_reference_to_another_instance_of_the_program_ends_the_trace() {
    let engine = Engine::default();
    let text = r#"(module (type $t (func (result i32))) (elem declare func $own)
        (global $count (mut i32) (i32.const 0))
        (func $own (type $t) (global.set $count (i32.add (global.get $count) (i32.const 1)))
            (global.get $count))
        (func (export "give") (result (ref $t)) (ref.func $own))
        (func (export "run") (param funcref) (result i32)
            (call_ref $t (ref.cast (ref $t) (local.get 0)))))"#;
    let module = rewritten(&engine, text);
    let mut store = Store::new(&engine, ());
    let [one, other] =
        [(); 2].map(|()| Instance::new(&mut store, &module, &[]).expect("an instance"));
    for (giver, result) in [(one, 1), (other, 1), (one, 2)] {
        let given = call(&mut store, giver, "give", &[]);
        assert_eq!(call(&mut store, one, "run", &given)[0].i32(), Some(result));
    }
    let (events, ending) = told(&mut store, one);
    assert!(ending.contains("not the program's"), "{ending}: {events:?}");
    assert_eq!(
        events[..4].join("; "),
        "enter 1 export \"give\"; leave func:0; \
        enter 2 export \"run\" func:0; leave i32:1"
    );
}

/// Counts down by tail calls, by references and through a table.
const TAILS: &str = r#"(module (type $t (func (param i32) (result i32))) TAKES
    (table $t (export "t") 2 funcref) (elem (i32.const 0) $by_table $by_reference)
    (func $by_table (type $t)
        (if (i32.eqz (local.get 0)) (then (return (i32.const 1))))
        (return_call_indirect $t (type $t) (i32.sub (local.get 0) (i32.const 1)) (i32.const 1)))
    (func $by_reference (type $t)
        (if (i32.eqz (local.get 0)) (then (return (i32.const 2))))
        (return_call_ref $t (i32.sub (local.get 0) (i32.const 1)) (ref.func $by_table)))
    (func (export "run") (param i32) (result i32)
        (return_call_ref $t (local.get 0) (ref.func $by_table))))"#;

#[test]
fn tail_calls_leave_no_frames_behind() {
    let engine = Engine::default();
    // The host may pass functions, or cannot.
    for takes in [r#"(func (export "take") (param funcref))"#, ""] {
        let text = TAILS.replace("TAKES", takes);
        let text = if takes.is_empty() { text.replace(r#"(export "t")"#, "") } else { text };
        let module = rewritten(&engine, &text);
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &module, &[]).expect("an instance");
        for (count, result) in [(1_000_000, 1), (1_000_001, 2)] {
            let found = call(&mut store, instance, "run", &[Val::I32(count)]);
            assert_eq!(found[0].i32(), Some(result), "{takes}");
        }
        let (events, ending) = told(&mut store, instance);
        assert_eq!(events.len(), 4, "{ending}: {events:?}");
    }
}

#[test]
fn a_tail_call_to_another_instance_of_the_program_ends_the_trace() {
    let engine = Engine::default();
    let text = r#"(module (type $t (func (result i32))) (elem declare func $own)
        (import "h" "f" (func $f)) (func $own (type $t) (i32.const 4))
        (func (export "give") (result (ref $t)) (ref.func $own))
        (func $tail (param funcref) (result i32)
            (return_call_ref $t (ref.cast (ref $t) (local.get 0))))
        (func (export "run") (param funcref) (result i32) (call $tail (local.get 0)) (call $f)))"#;
    let module = rewritten(&engine, text);
    let mut store = Store::new(&engine, ());
    let mut linker = Linker::new(&engine);
    linker.func_wrap("h", "f", || ()).expect("it is new");
    let [one, other] =
        [(); 2].map(|()| linker.instantiate(&mut store, &module).expect("an instance"));
    let given = call(&mut store, other, "give", &[]);
    assert_eq!(call(&mut store, one, "run", &given)[0].i32(), Some(4));
    let (events, ending) = told(&mut store, one);
    assert!(ending.contains("not the program's"), "{ending}");
    assert_eq!(events, ["enter 4 export \"run\" func:1"]);
}

#[test]
fn a_trace_in_a_file_is_whole_where_a_typed_reference_traps() {
    let (engine, folder) = (Engine::default(), Folder::new("wasm-aot-typed-traps-in-files"));
    for (why, code) in [
        ("null function reference", "(call_ref $t (ref.null $t))"),
        ("cast failure", "(drop (ref.cast (ref $t) (table.get $t (i32.const 1))))"),
        ("cast failure", "(drop (ref.cast (ref $t) (table.get $t (i32.const 2))))"),
        ("cast failure", "(drop (ref.cast (ref null $t) (table.get $t (i32.const 1))))"),
        ("", "(drop (ref.cast (ref null $t) (table.get $t (i32.const 2))))"),
        ("", "(call_ref $t (ref.cast (ref $t) (table.get $t (i32.const 0))))"),
    ] {
        let text = format!(
            r#"(module (type $t (func)) (type $other (func (result i32)))
                (memory (export "memory") 1) (table $t (export "t") 4 funcref)
                (elem (i32.const 0) $fine $other)
                (func $fine (type $t)) (func $other (type $other) (i32.const 1))
                (func (export "take") (param funcref)) (func (export "_start") {code}))"#
        );
        let original = wat::parse_str(&text).expect("it is text");
        let (ended, events) = told_to_a_file(&engine, &original, &folder, "trap.r3");
        let expected = match why {
            "" => End::Values(Vec::new()),
            why => End::Trap(why.to_owned()),
        };
        assert!(why.is_empty() == ended.is_empty() && ended.contains(why), "{code}: {ended}");
        assert_eq!(events.last(), Some(&Event::Leave(expected)), "{code}: {events:?}");
    }
}

#[test]
fn programs_whose_references_need_their_types_are_refused_by_name() {
    for (what, text) in [
        (
            "beside those of objects",
            r#"(module (type $t (func)) (type (struct (field (ref $t))))
                (global (export "g") (mut funcref) (ref.null func)))"#,
        ),
        (
            "in exceptions that the host knows",
            r#"(module (type $t (func)) (tag (export "e") (param (ref $t)))
                (global (export "g") (mut funcref) (ref.null func)))"#,
        ),
        (
            "an imported table of typed references",
            r#"(module (type $t (func)) (import "h" "t" (table 1 (ref null $t)))
                (func (table.set (i32.const 0) (ref.null $t))))"#,
        ),
        (
            "of a final type which its own functions have, too",
            r#"(module (type $t (func)) (import "h" "f" (func $f (result (ref $t))))
                (global (export "g") (mut funcref) (ref.func $own)) (func $own (type $t)))"#,
        ),
    ] {
        let original = wat::parse_str(text).expect("it is text");
        let error = record(&original, &Options::default()).expect_err(what).to_string();
        assert!(error.contains(what), "{what}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}
