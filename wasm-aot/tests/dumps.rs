//! A core dump of a program that a trap has ended contains the program's state.

use wasm_aot::{Caller, Config, Engine, Instance, Linker, Module, Store, Trap, Val};
use wasmparser::{CoreDumpValue, KnownCustom, Parser, Payload};

fn engine() -> Engine {
    Engine::new(Config::new().readable_frames(true).instruction_budgets(true)).expect("an engine")
}

/// A module's only instance.
fn instantiate(engine: &Engine, store: &mut Store<()>, text: &str) -> (Module, Instance) {
    let module = Module::new(engine, text).expect("a module");
    let instance = Linker::new(engine).instantiate(store, &module).expect("an instance");
    (module, instance)
}

/// A frame of a dump: instance, function, offset in it, and locals as text.
#[derive(Debug, PartialEq)]
struct Frame(u32, u32, u32, Vec<String>);

/// A module's number, and those of an instance's memories and globals.
type OfInstance = (u32, Vec<u32>, Vec<u32>);

fn shown(value: &CoreDumpValue) -> String {
    match value {
        CoreDumpValue::Missing => "missing".into(),
        CoreDumpValue::I32(value) => value.to_string(),
        CoreDumpValue::I64(value) => value.to_string(),
        CoreDumpValue::F32(value) => f32::from_bits(value.bits()).to_string(),
        CoreDumpValue::F64(value) => f64::from_bits(value.bits()).to_string(),
    }
}

/// The program's name, the modules' names, the instances' memories and globals, and the frames, as
/// an independent reader finds them.
fn read(dump: &[u8]) -> (String, Vec<String>, Vec<OfInstance>, Vec<Frame>) {
    let (mut program, mut modules, mut instances, mut frames) =
        (String::new(), Vec::new(), Vec::new(), Vec::new());
    for payload in Parser::new(0).parse_all(dump) {
        let Payload::CustomSection(section) = payload.expect("a module") else { continue };
        match section.as_known() {
            KnownCustom::CoreDump(core) => program = core.name.to_owned(),
            KnownCustom::CoreDumpModules(all) => {
                modules.extend(all.modules.iter().map(|name| (*name).to_owned()));
            }
            KnownCustom::CoreDumpInstances(all) => {
                instances.extend(
                    all.instances
                        .into_iter()
                        .map(|one| (one.module_index, one.memories, one.globals)),
                );
            }
            KnownCustom::CoreDumpStack(stack) => {
                assert_eq!(stack.name, "main");
                let all = stack.frames.iter();
                frames.extend(all.map(|frame| {
                    let locals = frame.locals.iter().map(shown).collect();
                    Frame(frame.instanceidx, frame.funcidx, frame.codeoffset, locals)
                }));
            }
            _ => panic!("a section {}", section.name()),
        }
    }
    wasmparser::validate(dump).expect("a valid module");
    (program, modules, instances, frames)
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}

const PROGRAM: &str = r#"(module $tower
    (memory 2 5) (data (i32.const 70000) "here") (global (mut i64) (i64.const 1)) (global f32 (f32.const 1.5))
    (global externref (ref.null extern))
    (func $low (param i32) (local i64 f32 f64 v128 funcref i32)
        (local.set 1 (i64.const -5)) (local.set 2 (f32.const 0.25)) (local.set 3 (f64.const -2))
        (global.set 0 (i64.extend_i32_u (local.get 0)))
        (i32.store8 (i32.const 70001) (i32.const 79))
        (local.set 6 (i32.div_u (i32.const 9) (local.get 0))))
    (func (export "f") (param i32 i64) (result i32) (local i32)
        (local.set 2 (i32.add (local.get 0) (i32.const 7)))
        (local.set 0 (i32.const 40))
        (call $low (i32.wrap_i64 (local.get 1)))
        (i32.add (local.get 0) (local.get 2))))"#;

#[test]
fn a_dump_has_frames_locals_globals_and_memories() {
    let engine = engine();
    let mut store = Store::new(&engine, ());
    let (_, instance) = instantiate(&engine, &mut store, PROGRAM);
    let function = instance.get_func(&mut store, "f").expect("exported");
    assert!(function.call(&mut store, &[Val::I32(1), Val::I64(3)]).is_ok());
    assert_eq!(store.core_dump("tower.wasm"), None);
    let error =
        function.call(&mut store, &[Val::I32(-3), Val::I64(0)]).expect_err("a division by zero");
    assert_eq!(error.trap(), Some(Trap::IntegerDivideByZero));
    let dump = store.core_dump("tower.wasm").expect("there is one");
    let (program, modules, instances, frames) = read(&dump);
    assert_eq!((program.as_str(), modules), ("tower.wasm", texts(&["tower"])));
    assert_eq!(instances, [(0, vec![0], vec![0, 1, 2])]);
    let [low, high] = &frames[..] else { panic!("two frames: {frames:?}") };
    assert_eq!(
        (low.0, low.1, &low.3),
        (0, 0, &texts(&["0", "-5", "0.25", "-2", "missing", "missing", "0"]))
    );
    assert_eq!((high.0, high.1, &high.3), (0, 1, &texts(&["40", "0", "4"])));
    // Instances of the dump begin with the contents of the memories and globals.
    let text = Module::new(&engine, &dump).expect("a module");
    let mut other = Store::new(&engine, ());
    Linker::new(&engine).instantiate(&mut other, &text).expect("an instance");
    let mut globals = Vec::new();
    for payload in Parser::new(0).parse_all(&dump) {
        match payload.expect("a module") {
            Payload::GlobalSection(section) => {
                globals.extend(section.into_iter().map(|global| {
                    let global = global.expect("a global");
                    let value = global.init_expr.get_operators_reader().read().expect("a value");
                    (global.ty.mutable, format!("{value:?}"))
                }));
            }
            Payload::MemorySection(section) => {
                let memories: Vec<_> =
                    section.into_iter().map(|memory| memory.expect("a memory")).collect();
                assert_eq!((memories[0].initial, memories[0].maximum), (2, Some(5)));
            }
            Payload::DataSection(section) => {
                let all: Vec<_> =
                    section.into_iter().map(|data| data.expect("a segment").data).collect();
                assert_eq!((all.len(), &all[0][70000 % 4096..][..4]), (1, &b"hOre"[..]));
            }
            _ => {}
        }
    }
    assert_eq!(globals[0], (true, "I64Const { value: 0 }".into()));
    assert!(!globals[1].0 && globals[1].1.starts_with("F32Const"), "{globals:?}");
    assert!(globals[2].1.starts_with("RefNull"), "{globals:?}");
}

#[test]
fn locals_are_kept_by_loops_that_go_over_into_another_version() {
    let engine = engine();
    let text = r#"(module (import "host" "turn" (func $turn (param i32)))
        (func (export "f") (param i32) (result i32) (local i32 i64)
            (local.set 2 (i64.const 11))
            (loop $l (call $turn (local.get 1))
                (local.set 1 (i32.add (local.get 1) (i32.const 1)))
                (local.set 2 (i64.mul (local.get 2) (i64.const 3)))
                (br_if $l (i32.lt_u (local.get 1) (local.get 0))))
            (drop (i64.div_u (local.get 2) (i64.extend_i32_u (i32.sub (local.get 1) (local.get 0)))))
            (local.get 1)))"#;
    let module = Module::new(&engine, text).expect("a module");
    let (mut store, mut linker) = (Store::new(&engine, ()), Linker::new(&engine));
    let attached = module.clone();
    let turn = move |_: Caller<'_, ()>, turn: i32| {
        if turn == 3 {
            attached.attach_counts().expect("attached");
        }
    };
    linker.func_wrap("host", "turn", turn).expect("a new name");
    let instance = linker.instantiate(&mut store, &module).expect("an instance");
    let function = instance.get_func(&mut store, "f").expect("exported");
    assert!(function.call(&mut store, &[Val::I32(6)]).is_err());
    assert!(
        module
            .counts()
            .expect("attached")
            .functions()
            .any(|function| function.instructions().iter().any(|i| i.count > 0))
    );
    let (.., frames) = read(&store.core_dump("").expect("there is one"));
    assert_eq!(frames[0].3, texts(&["6", "6", &(11 * 3i64.pow(6)).to_string()]));
}

#[test]
fn a_budget_ends_before_anything_is_seen_in_a_dump() {
    let engine = engine();
    let text = "(module (func (export \"f\") (local i32 i32) (local.set 0 (i32.const 4)) (local.set 1 (i32.const 5)) nop))";
    for (budget, locals) in
        [(1, ["0", "0"]), (2, ["4", "0"]), (3, ["4", "0"]), (4, ["4", "5"]), (5, ["4", "5"])]
    {
        let mut store = Store::new(&engine, ());
        let (_, instance) = instantiate(&engine, &mut store, text);
        store.set_instruction_budget(Some(budget)).expect("the engine's code has budgets");
        let function = instance.get_func(&mut store, "f").expect("exported");
        assert_eq!(
            function.call(&mut store, &[]).expect_err("too little").trap(),
            Some(Trap::Budget)
        );
        let (.., frames) = read(&store.core_dump("").expect("there is one"));
        assert_eq!(frames[0].3, texts(&locals), "with a budget of {budget}");
    }
}

#[test]
fn frames_outside_of_the_host_and_of_other_instances_are_there() {
    let engine = engine();
    let mut store = Store::new(&engine, ());
    let mut linker = Linker::new(&engine);
    let back = |mut caller: Caller<'_, ()>, value: i32| {
        let inner =
            caller.get_export("low").and_then(wasm_aot::Extern::into_func).expect("exported");
        inner.call(&mut caller, &[Val::I32(value)]).map(|_| ())
    };
    linker.func_wrap("host", "back", back).expect("a new name");
    let text = r#"(module (import "host" "back" (func $back (param i32))) (memory 1)
        (func (export "low") (param i32) (drop (i32.load (local.get 0))))
        (func (export "high") (param i32) (local i64) (local.set 1 (i64.const 8)) (call $back (local.get 0))))"#;
    let module = Module::new(&engine, text).expect("a module");
    let instances: Vec<Instance> =
        (0..2).map(|_| linker.instantiate(&mut store, &module).expect("an instance")).collect();
    for (number, instance) in (0u32..).zip(&instances) {
        let function = instance.get_func(&mut store, "high").expect("exported");
        let error = function.call(&mut store, &[Val::I32(-1)]).expect_err("out of bounds");
        assert_eq!(error.trap(), Some(Trap::MemoryOutOfBounds));
        let (_, modules, all, frames) = read(&store.core_dump("").expect("there is one"));
        assert_eq!((modules.len(), all), (1, vec![(0, vec![0], vec![]), (0, vec![1], vec![])]));
        let frames: Vec<_> =
            frames.iter().map(|frame| (frame.0, frame.1, frame.3.clone())).collect();
        assert_eq!(frames, [(number, 1, texts(&["-1"])), (number, 2, texts(&["-1", "8"]))]);
    }
}

#[test]
fn nothing_is_dumped_of_code_whose_frames_cannot_be_read() {
    let engine = Engine::default();
    let mut store = Store::new(&engine, ());
    let (_, instance) =
        instantiate(&engine, &mut store, "(module (func (export \"f\") unreachable))");
    assert!(instance.get_func(&mut store, "f").expect("exported").call(&mut store, &[]).is_err());
    assert_eq!(store.core_dump("f"), None);
    assert!(Module::precompile(&self::engine(), "(module)").is_err());
}
