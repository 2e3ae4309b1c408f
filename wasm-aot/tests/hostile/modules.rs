//! Modules that are damaged, hostile or enormous.

use super::{Numbers, instance, one_line, quick, trap, try_instance};
use std::fmt::Write as _;
use std::time::Duration;
use wasm_aot::{CompileError, Error, Limits, Linker, Module, Store, Trap, Val};

/// A module with a bit of everything.
const VARIED: &str = r#"(module $varied
    (type $pair (func (param i32 i64) (result i64 i32)))
    (import "host" "f" (func $f (param i32)))
    (memory (export "memory") 1 4)
    (memory $wide i64 1)
    (table $t (export "table") 4 8 funcref)
    (global $g (export "global") (mut i32) (i32.add (i32.const 40) (i32.const 2)))
    (tag $e (param i32))
    (elem (table $t) (i32.const 1) func $swap $run)
    (elem $passive func $run)
    (data (i32.const 8) "\01\02\03\04")
    (data $late "later")
    (func $swap (type $pair) (local.get 1) (local.get 0))
    (func $run (export "run") (param i32) (result i32) (local v128 f64)
        (block $caught (result i32)
            (try_table (catch $e $caught) (throw $e (local.get 0)))
            (i32.const 7))
        (call $f)
        (drop (call_indirect $t (type $pair) (i32.const 4) (i64.const 3) (i32.const 1)))
        (drop)
        (loop $again (br_if $again (i32.eqz (i32.const 1))))
        (memory.init $late (i32.const 0) (i32.const 0) (i32.const 5))
        (i64.store $wide (i64.const 8) (i64.load32_s (i32.const 1)))
        (v128.store (i32.const 16) (i32x4.splat (i32.const 9)))
        (global.get $g))
    (func $start)
    (start $start))"#;

fn varied() -> Vec<u8> {
    wat::parse_str(VARIED).expect("a module")
}

/// Compiles the bytes, and if that works runs all functions briefly.
fn take(engine: &wasm_aot::Engine, bytes: &[u8]) {
    let module = match Module::new(engine, bytes) {
        Ok(module) => module,
        Err(error) => return drop(one_line(&error)),
    };
    let mut store = Store::new(engine, ());
    store.set_limits(Limits { memory: 16 << 20, table: 1 << 16, ..Limits::default() });
    store.set_deadline(Some(Duration::from_millis(100)));
    let mut linker = Linker::new(engine);
    linker.func_wrap("host", "f", |_: i32| ()).expect("a new name");
    let instance = match linker.instantiate(&mut store, &module) {
        Ok(instance) => instance,
        Err(Error::Trap(_)) => return,
        Err(error) => return drop(one_line(&error)),
    };
    for (_, item) in instance.exports(&mut store) {
        let Some(function) = item.into_func() else { continue };
        let ty = function.ty(&mut store).expect("of this store");
        let args: Option<Vec<Val>> = ty.params().iter().map(|ty| Val::default_for(*ty)).collect();
        if let Some(args) = args {
            store.set_deadline(Some(Duration::from_millis(100)));
            let _ = function.call(&mut store, &args);
        }
    }
}

#[test]
fn every_prefix_of_a_module_is_refused_in_one_line() {
    let (engine, bytes) = (quick(), varied());
    Module::new(&engine, &bytes).expect("the whole is a module");
    for len in 0..bytes.len() {
        if let Err(error) = Module::validate(&engine, &bytes[..len]) {
            one_line(&error);
        }
        if len % 16 == 0 {
            take(&engine, &bytes[..len]);
        }
    }
}

#[test]
fn mutated_modules_are_refused_or_run() {
    let (engine, bytes) = (quick(), varied());
    let mut numbers = Numbers(0x5eed);
    for _ in 0..150 {
        let mut mutated = bytes.clone();
        for _ in 0..1 + numbers.below(3) {
            let at = 8 + numbers.below(mutated.len() - 8);
            mutated[at] = numbers.next() as u8;
        }
        take(&engine, &mutated);
    }
}

#[test]
fn random_bytes_are_refused_in_one_line() {
    let engine = quick();
    let mut numbers = Numbers(7);
    for round in 0..2_000 {
        let mut bytes: Vec<u8> = (0..numbers.below(200)).map(|_| numbers.next() as u8).collect();
        if round % 2 == 0 {
            bytes.splice(0..0, *b"\0asm\x01\0\0\0");
        }
        if let Err(error) = Module::validate(&engine, &bytes) {
            one_line(&error);
        }
    }
    let component = one_line(
        &Module::new(&engine, b"\0asm\x0d\0\x01\0").expect_err("a component is no module"),
    );
    assert!(component.contains("offset"), "{component}");
}

#[test]
fn text_that_is_no_module_is_refused_with_line_and_column() {
    let engine = quick();
    let error = one_line(
        &Module::new(&engine, "(module\n  (func (i32.frob)))").expect_err("no instruction"),
    );
    assert!(error.starts_with("line 2, column "), "{error}");
    let error = one_line(&Module::new(&engine, [0xff, 0xfe, 0x00]).expect_err("no text"));
    assert!(error.contains("\\0asm"), "{error}");
}

#[test]
fn names_cannot_command_a_terminal() {
    let engine = quick();
    let text = "(module (func (@name \"\\1b[2J\\0a\\e2\\80\\ae\") (result i32)))";
    let error = one_line(&Module::new(&engine, text).expect_err("no result"));
    assert!(!error.chars().any(|c| c.is_control() || c == '\u{202e}'), "{error:?}");
    assert!(error.contains("function 0 (") && error.contains("offset 0x"), "{error}");
    let module =
        Module::new(&engine, "(module (import \"a\\0ab\" \"\\1b\" (func)))").expect("a module");
    let error = Linker::new(&engine)
        .instantiate(Store::new(&engine, ()), &module)
        .expect_err("a missing import");
    assert!(!one_line(&error).contains('\x1b'));
}

/// A module of functions without parameters, all with this body.
fn functions(count: u32, body: &[u8]) -> Vec<u8> {
    fn leb(mut value: u32, out: &mut Vec<u8>) {
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }
    fn section(id: u8, contents: &[u8], out: &mut Vec<u8>) {
        out.push(id);
        leb(contents.len() as u32, out);
        out.extend_from_slice(contents);
    }
    let mut bytes = b"\0asm\x01\0\0\0".to_vec();
    section(1, &[1, 0x60, 0, 0], &mut bytes);
    let mut declarations = Vec::new();
    leb(count, &mut declarations);
    declarations.resize(declarations.len() + count as usize, 0);
    section(3, &declarations, &mut bytes);
    let mut code = Vec::new();
    leb(count, &mut code);
    for _ in 0..count {
        leb(body.len() as u32, &mut code);
        code.extend_from_slice(body);
    }
    section(10, &code, &mut bytes);
    bytes
}

#[test]
fn a_million_functions_are_taken_and_one_more_is_not() {
    let engine = quick();
    Module::validate(&engine, functions(1_000_000, &[0, 0x0b])).expect("a million is not too much");
    one_line(
        &Module::validate(&engine, functions(1_000_001, &[0, 0x0b])).expect_err("that is too much"),
    );
    Module::new(&engine, functions(10_000, &[0, 0x0b])).expect("compiled");
}

#[test]
fn fifty_thousand_locals_are_taken_and_one_more_is_not() {
    let engine = quick();
    let mut store = Store::new(&engine, ());
    let text = |count: usize| {
        let locals = "i64 ".repeat(count);
        let last = count - 1;
        format!(
            "(module (func (export \"f\") (result i64) (local {locals}) (local.set {last} (i64.const 5)) (loop (br_if 0 (i32.const 0)) (local.set 7 (i64.add (local.get {last}) (local.get 9)))) (local.get 7)))"
        )
    };
    let instance = instance(&mut store, &text(50_000));
    let function = instance.get_typed_func::<(), i64>(&mut store, "f").expect("exported");
    assert_eq!(function.call(&mut store, ()).expect("a result"), 5);
    one_line(&try_instance(&mut store, &text(50_001)).expect_err("that is too much"));
}

#[test]
fn what_nests_ten_thousand_deep_is_compiled_and_runs() {
    let engine = quick();
    let deep = 10_000;
    let frames = ["block", "loop", "try_table", "if"];
    for frame in frames {
        let mut body = String::new();
        for _ in 0..deep {
            let condition = if frame == "if" { "local.get 0 " } else { "" };
            let _ = write!(body, "{condition}{frame} ");
        }
        body.push_str("local.get 0 i32.const 1 i32.add local.set 0 ");
        body.push_str(&"end ".repeat(deep));
        let text =
            format!("(module (func (export \"f\") (param i32) (result i32) {body} local.get 0))");
        let mut store = Store::new(&engine, ());
        let instance = instance(&mut store, &text);
        let function = instance.get_typed_func::<i32, i32>(&mut store, "f").expect("exported");
        assert_eq!(function.call(&mut store, 41).expect("a result"), 42, "{frame}");
    }
}

#[test]
fn a_sum_of_fifty_thousand_is_compiled_and_runs_at_every_effort() {
    let body = format!("{}{}", "local.get 0 ".repeat(50_000), "i32.add ".repeat(49_999));
    let text = format!("(module (func (export \"f\") (param i32) (result i32) {body}))");
    for engine in [quick(), wasm_aot::Engine::default()] {
        let mut store = Store::new(&engine, ());
        let instance = instance(&mut store, &text);
        let function = instance.get_typed_func::<i32, i32>(&mut store, "f").expect("exported");
        assert_eq!(function.call(&mut store, 2).expect("a result"), 100_000);
    }
}

#[test]
fn folded_text_that_nests_deeply_does_not_exhaust_the_stack() {
    let deep = 100_000;
    let text = format!(
        "(module (func (result i32) {} i32.const 1 {}))",
        "(i32.eqz ".repeat(deep),
        ")".repeat(deep)
    );
    if let Err(error) = Module::validate(&quick(), text) {
        one_line(&error);
    }
}

#[test]
fn a_table_of_a_hundred_thousand_branches_is_compiled_and_runs() {
    let engine = quick();
    let targets: String = (0..100_000).map(|i| if i % 2 == 0 { "0 " } else { "1 " }).collect();
    let text = format!(
        "(module (func (export \"f\") (param i32) (result i32)
            (block (block (br_table {targets} 1 (local.get 0))) (return (i32.const 10))) (i32.const 11)))"
    );
    let mut store = Store::new(&engine, ());
    let instance = instance(&mut store, &text);
    let function = instance.get_typed_func::<i32, i32>(&mut store, "f").expect("exported");
    for (index, result) in [(0, 10), (1, 11), (99_998, 10), (99_999, 11), (100_000, 11), (-1, 11)] {
        assert_eq!(function.call(&mut store, index).expect("a result"), result, "{index}");
    }
}

#[test]
fn small_modules_that_stand_for_billions_of_values_are_refused_or_compiled() {
    let engine = quick();
    let results = "i64 ".repeat(1_000);
    let values = "i64.const 1 ".repeat(1_000);
    let nested = format!("{}{values}{}", "block (type $t) ".repeat(40_000), "end ".repeat(40_000));
    let called = "call $many ".repeat(40_000);
    let branched =
        format!("block (type $t) {values} local.get 0 br_table {} end", "0 ".repeat(2_000));
    for (body, fits) in [(nested, false), (called, false), (branched, true)] {
        let text = format!(
            "(module (type $t (func (result {results}))) (func $many (type $t) {values})
                (func $f (export \"f\") (param i32) (result {results}) {body} {}))",
            if fits { "" } else { "return" }
        );
        match Module::new(&engine, text) {
            Ok(_) => assert!(fits),
            Err(error) => {
                let text = one_line(&error);
                assert!(
                    !fits
                        && text.contains("too large")
                        && text.contains("function 1 (f), offset 0x"),
                    "{text}"
                );
            }
        }
    }
}

#[test]
fn memories_and_tables_beyond_the_machine_are_refused_in_one_line() {
    let engine = quick();
    let refused = [
        "(module (memory 65537))",
        "(module (memory i64 0x1000000000000))",
        "(module (memory i64 0xffffffffffff))",
        "(module (table 4000000000 funcref))",
        "(module (table i64 0xffffffffffffffff externref))",
        "(module (memory i64 0x100000000 0x100000000 shared))",
    ];
    for text in refused {
        one_line(&try_instance(&mut Store::new(&engine, ()), text).expect_err(text));
    }
    let mut store = Store::new(&engine, ());
    store.set_limits(Limits { memory: 1 << 20, table: 100, ..Limits::default() });
    for text in ["(module (memory 17))", "(module (table 101 funcref))"] {
        let error = one_line(&try_instance(&mut store, text).expect_err(text));
        assert!(error.contains("limit"), "{error}");
    }
    let grown = instance(
        &mut store,
        "(module (memory 16) (table $t 100 funcref) (func (export \"m\") (result i32) (memory.grow (i32.const 1)))
            (func (export \"t\") (result i32) (table.grow $t (ref.null func) (i32.const 1))))",
    );
    for name in ["m", "t"] {
        let grow = grown.get_typed_func::<(), i32>(&mut store, name).expect("exported");
        assert_eq!(grow.call(&mut store, ()).expect("a result"), -1);
    }
}

#[test]
fn the_largest_memory_is_there_or_refused_in_one_line() {
    let engine = quick();
    let mut store = Store::new(&engine, ());
    let text = "(module (memory 65536) (func (export \"f\") (result i32) (i32.store8 (i32.const -1) (i32.const 9)) (i32.load8_u (i32.const -1))))";
    match try_instance(&mut store, text) {
        Ok(instance) => {
            let function = instance.get_typed_func::<(), i32>(&mut store, "f").expect("exported");
            assert_eq!(function.call(&mut store, ()).expect("a result"), 9);
        }
        Err(error) => drop(one_line(&error)),
    }
}

#[test]
fn segments_that_do_not_fit_trap_and_leave_what_came_before() {
    let engine = quick();
    let mut store = Store::new(&engine, ());
    let traps = [
        ("(module (memory 1) (data (i32.const 65535) \"ab\"))", Trap::MemoryOutOfBounds),
        ("(module (memory 1) (data (i32.const -1) \"\"))", Trap::MemoryOutOfBounds),
        ("(module (memory i64 1) (data (i64.const -1) \"a\"))", Trap::MemoryOutOfBounds),
        ("(module (table 1 funcref) (func $f) (elem (i32.const 1) $f))", Trap::TableOutOfBounds),
        (
            "(module (table i64 1 funcref) (func $f) (elem (i64.const -1) func $f))",
            Trap::TableOutOfBounds,
        ),
    ];
    for (text, expected) in traps {
        assert_eq!(trap(try_instance(&mut store, text)), expected, "{text}");
    }
}

#[test]
fn all_missing_imports_are_named_with_their_types() {
    let engine = quick();
    let text = "(module (import \"env\" \"f\" (func (param i32) (result f64))) (import \"env\" \"m\" (memory 1 2))
        (import \"env\" \"t\" (table 3 externref)) (import \"env\" \"g\" (global (mut i64))) (import \"env\" \"e\" (tag (param i32))))";
    let error =
        one_line(&try_instance(&mut Store::new(&engine, ()), text).expect_err("nothing is there"));
    for part in [
        "\"env\" \"f\" (func [i32] -> [f64])",
        "\"m\" (memory 1..=2)",
        "\"t\" (table 3.. externref)",
        "\"g\" (global mut i64)",
        "\"e\" (tag [i32] -> [])",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn imports_of_another_type_are_refused_with_both_types() {
    let engine = quick();
    let mut store = Store::new(&engine, ());
    let given = instance(
        &mut store,
        "(module (func (export \"f\") (param i32)) (memory (export \"m\") 1) (table (export \"t\") 1 funcref)
            (global (export \"g\") i32 (i32.const 1)) (tag (export \"e\")))",
    );
    let mut linker = Linker::new(&engine);
    linker.instance(&mut store, "a", given).expect("new names");
    let wanted = [
        ("f", "(func (param i64))"),
        ("f", "(memory 1)"),
        ("m", "(memory 2)"),
        ("m", "(memory 1 1)"),
        ("m", "(memory i64 1)"),
        ("m", "(memory 1 1 shared)"),
        ("t", "(table 1 externref)"),
        ("t", "(table 2 funcref)"),
        ("g", "(global (mut i32))"),
        ("g", "(global i64)"),
        ("e", "(tag (param i32))"),
        ("e", "(func)"),
    ];
    for (name, ty) in wanted {
        let text = format!("(module (import \"a\" \"{name}\" {ty}))");
        let module = Module::new(&engine, text).expect("a module");
        let error = one_line(&linker.instantiate(&mut store, &module).expect_err(ty));
        assert!(error.contains(&format!("\"a\" \"{name}\" has to be")), "{error}");
    }
}

#[test]
fn a_start_function_that_traps_is_told_with_its_name_and_offset() {
    let engine = quick();
    let error = try_instance(
        &mut Store::new(&engine, ()),
        "(module $m (func $boot unreachable) (start $boot))",
    )
    .expect_err("a trap");
    let Error::Trap(report) = error else { panic!("{error}") };
    let frame = &report.backtrace.frames[0];
    assert_eq!(
        (report.trap, frame.name.as_deref(), frame.module.as_deref()),
        (Trap::Unreachable, Some("boot"), Some("m"))
    );
    assert!(frame.offset.is_some());
}

#[test]
fn what_is_invalid_is_told_with_function_and_offset() {
    let error =
        Module::new(&quick(), "(module (func) (func $wrong (result i32)))").expect_err("no result");
    let Error::Compile(CompileError::Invalid { place, .. }) = error else { panic!("{error}") };
    assert_eq!(place.function, Some((1, Some("wrong".into()))));
    assert!(place.offset.is_some());
}

#[test]
fn debug_information_that_is_damaged_is_no_reason_to_fail() {
    let engine = quick();
    let mut numbers = Numbers(99);
    for round in 0..200 {
        let mut module = wat::parse_str(
            "(module (func (export \"f\") unreachable) (@custom \"name\" \"\\00\\02\\01\\00\"))",
        )
        .expect("a module");
        for name in [".debug_line", ".debug_info", ".debug_abbrev", ".debug_str"] {
            let mut contents = vec![name.len() as u8];
            contents.extend_from_slice(name.as_bytes());
            // A plausible header, so that readers continue.
            contents.extend_from_slice(&[40, 0, 0, 0, 4, 0, 20, 0, 0, 0, 1, 1, 1]);
            contents.extend((0..40).map(|_| {
                if round % 2 == 0 { numbers.next() as u8 } else { numbers.below(16) as u8 }
            }));
            module.push(0);
            module.push(contents.len() as u8);
            module.extend_from_slice(&contents);
        }
        Module::precompile(&engine, &module).expect("compiled");
        let compiled = Module::new(&engine, &module).expect("compiled");
        let mut store = Store::new(&engine, ());
        let instance =
            Linker::new(&engine).instantiate(&mut store, &compiled).expect("an instance");
        let function = instance.get_func(&mut store, "f").expect("exported");
        assert_eq!(trap(function.call(&mut store, &[])), Trap::Unreachable);
    }
}

#[test]
fn thousands_of_types_have_trampolines_each() {
    let mut text = String::from("(module");
    for i in 0..4_000u32 {
        let params: String =
            (0..12).map(|bit| if i >> bit & 1 == 0 { " i32" } else { " i64" }).collect();
        let _ = write!(text, "(func (export \"{i}\") (param{params}))");
    }
    text.push(')');
    assert_eq!(Module::new(&quick(), text).expect("compiled").exports().count(), 4_000);
}

/// Functions of many shapes, each of which calls those before it.
fn crowd() -> Vec<u8> {
    let body = |number: usize| match number % 4 {
        0 => {
            "(loop $l (result i32) (local.set 1 (i32.add (local.get 1) (i32.const 1)))
                (br_if $l (i32.lt_u (local.get 1) (local.get 0))) (local.get 1))"
        }
        1 => {
            "(block $a (block $b (br_table $a $b (local.get 0))) (local.set 1 (i32.load (local.get 0)))) (local.get 1)"
        }
        2 => {
            "(if (result i32) (local.get 0) (then (i32.trunc_sat_f64_s (local.get 2))) (else (i32.const 7)))"
        }
        _ => "(try_table (throw $e (local.get 0))) (local.get 1)",
    };
    let mut text = String::from("(module (memory 1) (tag $e (param i32))");
    for number in 0..24 {
        let before = if number > 0 {
            format!("(drop (call {} (i32.const 1)))", number - 1)
        } else {
            String::new()
        };
        let _ = write!(
            text,
            "(func (param i32) (result i32) (local i32 f64) {before} {})",
            body(number)
        );
    }
    wat::parse_str(text + ")").expect("a module")
}

#[test]
fn a_function_that_does_not_compile_leaves_the_others_as_they_are() {
    let (engine, bytes) = (quick(), crowd());
    Module::new(&engine, &bytes).expect("the whole is a module");
    let mut numbers = Numbers(0xc0de);
    for _ in 0..200 {
        let mut mutated = bytes.clone();
        // The later half: code.
        let at = bytes.len() / 2 + numbers.below(bytes.len() / 2);
        mutated[at] = numbers.next() as u8;
        if let Err(error) = Module::new(&engine, &mutated) {
            one_line(&error);
        }
    }
}

#[test]
fn what_is_not_supported_is_spelled_as_text_is_and_named_with_its_function() {
    let eight = "(func (param i32) (loop $l (br_if $l (local.get 0))))".repeat(8);
    let text = format!(
        "(module (type $s (struct (field i32))) (func $makes (loop (drop (struct.new $s (i32.const 1))))) {eight})"
    );
    for _ in 0..4 {
        let error = one_line(&Module::new(&quick(), &text).expect_err("no objects"));
        assert!(
            error.contains("not supported: struct.new (at function 0 (makes), offset"),
            "{error}"
        );
    }
    let invalid = "(module (func) (func $odd (result i32) (i64.const 1)))";
    let error = one_line(&Module::validate(&quick(), invalid).expect_err("another type"));
    assert!(error.contains("at function 1 (odd)"), "{error}");
}

#[test]
fn a_branch_is_taken_by_the_type_of_a_reference_to_a_function() {
    let text = "(module (type $a (func (result i32))) (type $b (func))
        (table $t funcref (elem $one $two)) (table $nulls 1 funcref)
        (func $one (type $a) (i32.const 40)) (func $two (type $b))
        (func $which (param $f funcref) (result i32)
            (block $null (result (ref null $b))
                (block $of (result (ref $a))
                    (br_on_cast $of funcref (ref $a) (local.get $f))
                    (br_on_cast $null funcref (ref null $b))
                    (return (i32.const -1)))
                (return (call_ref $a)))
            (ref.is_null))
        (func $fails (param $f funcref) (result i32)
            (block $not (result funcref)
                (br_on_cast_fail $not funcref (ref $a) (local.get $f))
                (return (call_ref $a)))
            (drop) (i32.const 7))
        (func (export \"test\") (param i32) (result i32)
            (i32.add (call $which (table.get $t (local.get 0)))
                (i32.mul (i32.const 100) (call $fails (table.get $t (local.get 0))))))
        (func (export \"null\") (result i32) (call $which (table.get $nulls (i32.const 0)))))";
    for engine in [quick(), wasm_aot::Engine::default()] {
        let mut store = Store::new(&engine, ());
        let module = Module::new(&engine, text).expect("a module");
        let instance = Linker::new(&engine).instantiate(&mut store, &module).expect("an instance");
        let mut call = |name: &str, args: &[Val]| {
            let function = instance.get_func(&mut store, name).expect("exported");
            function.call(&mut store, args).expect("no trap")[0].i32().expect("a number")
        };
        assert_eq!(call("test", &[Val::I32(0)]), 4040, "of the type");
        assert_eq!(call("test", &[Val::I32(1)]), 700, "of another");
        assert_eq!(call("null", &[]), 1, "null is of a type with null");
    }
}

#[test]
fn references_to_functions_are_tested_and_cast_by_their_types() {
    let tests = [
        "(ref $a)",
        "(ref null $a)",
        "(ref $b)",
        "(ref $same)",
        "(ref func)",
        "(ref null func)",
        "(ref null nofunc)",
        "(ref nofunc)",
    ];
    let body: String = tests
        .iter()
        .enumerate()
        .map(|(at, ty)| {
            format!(
                "(if (ref.test {ty} (local.get $f)) (then (local.set $seen (i32.or (local.get $seen) (i32.const {})))))",
                1 << at
            )
        })
        .collect();
    let text = format!(
        "(module (type $a (func (param i32) (result i32))) (type $b (func)) (type $same (func (param i32) (result i32)))
            (type $s (struct (field i32))) (type $twice (func (param i32) (result i64)))
            (import \"host\" \"h\" (func $h (type $b)))
            (table $t funcref (elem $one $two $h)) (table $nulls 1 funcref)
            (func $one (type $a) (i32.const 40)) (func $two (type $twice) (i64.const 2))
            (func $which (param $f funcref) (result i32) (local $seen i32) {body} (local.get $seen))
            (func (export \"test\") (param i32) (result i32) (call $which (table.get $t (local.get 0))))
            (func (export \"null\") (result i32) (call $which (table.get $nulls (i32.const 0))))
            (func (export \"cast\") (param i32) (result i32)
                (call_ref $a (i32.const 1) (ref.cast (ref $a) (table.get $t (local.get 0)))))
            (func (export \"cast_null\") (result i32)
                (ref.is_null (ref.cast (ref null $b) (table.get $nulls (i32.const 0)))))
            (func (export \"no_object\") (result i32) (ref.test (ref null $s) (ref.null any)))
            (func (export \"host\") (param externref) (result i32) (ref.test (ref extern) (local.get 0))))"
    );
    for engine in [quick(), wasm_aot::Engine::default()] {
        let mut store = Store::new(&engine, ());
        let mut linker = Linker::new(&engine);
        linker.func_wrap("host", "h", || ()).expect("a new name");
        let module = Module::new(&engine, &text).expect("a module");
        let instance = linker.instantiate(&mut store, &module).expect("an instance");
        let mut call = |name: &str, args: &[Val]| {
            let function = instance.get_func(&mut store, name).expect("exported");
            function.call(&mut store, args).map(|results| results[0].i32().expect("a number"))
        };
        let mut number = |name: &str, args: &[Val]| call(name, args).expect("no trap");
        let (none, of_all) = (0b110_0010, 0b11_0000);
        assert_eq!(number("test", &[Val::I32(0)]), of_all | 0b1011, "of $a");
        assert_eq!(number("test", &[Val::I32(1)]), of_all, "of another type");
        assert_eq!(number("test", &[Val::I32(2)]), of_all | 0b100, "the host's, of $b");
        assert_eq!(number("null", &[]), none, "null");
        assert_eq!(
            (number("cast", &[Val::I32(0)]), number("cast_null", &[]), number("no_object", &[])),
            (40, 1, 1)
        );
        assert_eq!(number("host", &[Val::ExternRef(None)]), 0);
        assert_eq!(trap(call("cast", &[Val::I32(1)])), Trap::CastFailure);
    }
}
