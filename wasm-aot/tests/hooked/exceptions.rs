//! `profile` where exceptions leave functions.

use super::*;

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
    // Enough calls that those of each context are timed at first, and only counted later.
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
