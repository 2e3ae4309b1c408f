//! The passes from outside: what stays, what moves, and what is counted.

#[path = "../examples/count_calls.rs"]
#[allow(dead_code, reason = "an example has an entry of its own")]
mod count_calls;

use std::collections::BTreeMap;
use wasm_encoder::{CustomSection, EntityType, ExportKind};
use whamm_rewrite::{BodyPlan, Plan, Program, SourceMap, emit};

const PROGRAM: &str = r#"(module $named
    (import "host" "seen" (func $seen (param i32)))
    (type $unary (func (param i32) (result i32)))
    (memory (export "memory") 1) (table funcref (elem $twice $fac))
    (func $twice (type $unary) (i32.mul (local.get 0) (i32.const 2)))
    (func $fac (export "fac") (param $n i32) (result i32)
        (if (result i32) (i32.eqz (local.get $n))
            (then (i32.const 1))
            (else (i32.mul (local.get $n) (call $fac (i32.sub (local.get $n) (i32.const 1)))))))
    (func (export "main") (param i32) (result i32)
        (call $seen (i32.const 7))
        (i32.store (i32.const 8) (call_indirect (type $unary) (local.get 0) (i32.const 0)))
        (i32.add (i32.load (i32.const 8)) (call $fac (local.get 0)))))"#;

fn program() -> Vec<u8> {
    wat::parse_str(PROGRAM).expect("it is text")
}

fn unchanged(program: &Program<'_>) -> Plan {
    let mut plan = Plan::new(program);
    let bodies = program.bodies.iter().map(|body| BodyPlan::unchanged(body).expect("it is read"));
    plan.bodies = bodies.collect();
    plan
}

fn valid(module: &[u8]) {
    wasmparser::Validator::new().validate_all(module).expect("it is valid");
}

/// The result of `main` for 5, the numbers that the host has received, and the values of exported
/// globals.
fn run(module: &[u8]) -> (i32, Vec<i32>, BTreeMap<String, i64>) {
    let engine = wasmi::Engine::default();
    let module = wasmi::Module::new(&engine, module).expect("it is valid");
    let mut store = wasmi::Store::new(&engine, Vec::new());
    let mut linker = wasmi::Linker::new(&engine);
    for name in ["seen", "also"] {
        linker
            .func_wrap("host", name, |mut caller: wasmi::Caller<'_, Vec<i32>>, number: i32| {
                caller.data_mut().push(number);
            })
            .expect("a new name");
    }
    let instance = linker.instantiate_and_start(&mut store, &module).expect("it starts");
    let main = instance.get_typed_func::<i32, i32>(&store, "main").expect("exported");
    let result = main.call(&mut store, 5).expect("no trap");
    let globals = instance.exports(&store).filter_map(|export| {
        let name = export.name().to_owned();
        Some((name, export.into_global()?))
    });
    let globals: Vec<(String, wasmi::Global)> = globals.collect();
    let held =
        globals.into_iter().filter_map(|(name, global)| Some((name, global.get(&store).i64()?)));
    let held = held.collect();
    (result, store.into_data(), held)
}

#[test]
fn a_plan_without_insertions_gives_the_program() {
    let bytes = program();
    let program = Program::decode(&bytes).expect("a module");
    let plan = unchanged(&program);
    assert!(plan.bodies.iter().all(|body| body.insertions().is_empty()));
    let emitted = emit(&program, &plan).expect("it is carried out");
    valid(&emitted.module);
    assert!(emitted.lost.is_empty());
    // Bodies and all items that refer to them are the same, byte for byte.
    let again = Program::decode(&emitted.module).expect("a module");
    for (before, after) in program.bodies.iter().zip(&again.bodies) {
        let bytes_of = |all: &[u8], body: &whamm_rewrite::Body<'_>| {
            let list = body.instructions().expect("it is read");
            let end = list.last().expect("an end").place.end as usize;
            all[list[0].place.start as usize..end].to_vec()
        };
        assert_eq!(bytes_of(&bytes, before), bytes_of(&emitted.module, after));
    }
    assert_eq!(run(&bytes), run(&emitted.module));
}

#[test]
fn imports_move_what_is_behind_them_and_names_follow() {
    let bytes = program();
    let program = Program::decode(&bytes).expect("a module");
    let mut plan = unchanged(&program);
    let also = plan.indices.import_function("host", "also");
    assert_eq!((also, plan.indices.import_function("host", "also")), (1, 1));
    // Of the type of what the program imports: its second.
    plan.imports.push(("host".into(), "also".into(), EntityType::Function(1)));
    let body = &program.bodies[2];
    let mut own = BodyPlan::empty(body).expect("it is read");
    own.put().i32_const(11).call(also);
    let behind_that = own.here();
    body.instructions().expect("it is read").into_iter().for_each(|i| own.keep(i.place));
    let mut late = Vec::new();
    wasm_encoder::InstructionSink::new(&mut late).i32_const(12).call(also);
    own.insert(behind_that, late);
    let insertions = own.insertions();
    assert_eq!(insertions.len(), 1, "{insertions:?}");
    plan.bodies[2] = own;
    plan.exports.push(("twice".into(), ExportKind::Func, plan.indices.function(1)));
    let module = emit(&program, &plan).expect("it is carried out").module;
    valid(&module);
    assert_eq!(run(&module).1, [11, 12, 7]);
    let text = |name: &str| module.windows(name.len()).any(|bytes| bytes == name.as_bytes());
    assert!(text("named") && text("fac") && text("twice"));
}

#[test]
fn a_program_with_as_many_data_segments_as_may_be_gets_others() {
    let segments = (0..100_000).map(|at| format!("(data (i32.const {}) \"ab\")", 64 + at * 9));
    let segments: Vec<String> = segments.collect();
    let text =
        PROGRAM.replace("\"memory\") 1)", &format!("\"memory\") 16) {}", segments.join(" ")));
    let bytes = wat::parse_str(text).expect("it is text");
    let program = Program::decode(&bytes).expect("it is read");
    let mut plan = unchanged(&program);
    plan.data = vec![(0, 8, vec![1, 0, 0, 0]), (0, 950_000, vec![7])];
    let more = emit(&program, &plan).expect("it is written").module;
    valid(&more);
    assert_eq!(run(&more).0, run(&bytes).0);
}

#[test]
fn an_instruction_that_is_left_out_is_gone() {
    let bytes = program();
    let program = Program::decode(&bytes).expect("a module");
    let mut plan = unchanged(&program);
    let body = &program.bodies[2];
    let mut own = BodyPlan::empty(body).expect("it is read");
    for instruction in body.instructions().expect("it is read") {
        match instruction.operator {
            wasmparser::Operator::Call { function_index: 0 } => {
                own.leave_out(instruction.place);
                own.put().drop();
            }
            _ => own.keep(instruction.place),
        }
    }
    plan.bodies[2] = own;
    let module = emit(&program, &plan).expect("it is carried out").module;
    valid(&module);
    assert_eq!((run(&module).0, run(&module).1), (130, vec![]));
}

#[test]
fn calls_are_counted_without_a_script() {
    let counting = count_calls::counting(&program()).expect("it is rewritten");
    valid(&counting);
    let (result, seen, counts) = run(&counting);
    assert_eq!((result, seen), (130, vec![7]));
    let expected = [("calls:2:2", 5), ("calls:3:0", 1), ("calls:3:2", 1), ("calls:indirect:3", 1)];
    assert_eq!(counts, expected.map(|(name, count)| (name.to_owned(), count)).into());
}

#[test]
fn references_and_exports_are_led_elsewhere_and_calls_are_not() {
    let bytes = program();
    let program = Program::decode(&bytes).expect("a module");
    let mut plan = unchanged(&program);
    // A function that triples where `twice` doubles, and an entry that calls nothing.
    let index = plan.indices.functions();
    let mut thrice = wasm_encoder::Function::new([]);
    thrice.instructions().local_get(0).i32_const(3).i32_mul().end();
    plan.functions.push((0, thrice));
    plan.indices.refer(1, index);
    plan.rerouted.insert("fac".into(), index);
    plan.customs.push(("own".into(), b"said".to_vec()));
    let module = emit(&program, &plan).expect("it is carried out").module;
    valid(&module);
    // 5 through the table becomes 15; the factorial is still called directly.
    assert_eq!(run(&module).0, 135);
    let engine = wasmi::Engine::default();
    let module = wasmi::Module::new(&engine, &module).expect("it is valid");
    assert_eq!(
        module.custom_sections().find(|c| c.name() == "own").map(|c| c.data().to_vec()),
        Some(b"said".to_vec())
    );
}

#[test]
fn a_module_that_is_linked_in_has_indices_of_its_own() {
    let bytes = program();
    let program = Program::decode(&bytes).expect("a module");
    let mut plan = unchanged(&program);
    let support = wat::parse_str(
        r#"(module (import "program" "seen" (func $seen (param i32)))
            (import "program" "memory" (memory $theirs 1))
            (memory $own (export "own") 1) (global $next (export "next") (mut i32) (i32.const 4))
            (data (memory $own) (i32.const 4) "\15")
            (func $load (result i32) (i32.load $own (global.get $next)))
            (func (export "tell")
                (call $seen (call $load))
                (i32.store $theirs (i32.const 0) (i32.const 1))))"#,
    )
    .expect("it is text");
    let memory = |module: &str, name: &str| match (module, name) {
        ("program", "seen" | "memory") => Some(0),
        _ => None,
    };
    let linked = plan.link(&program, &support, &memory).expect("it is linked");
    assert_eq!((linked.memories["own"], linked.globals["next"]), (1, 0));
    let mut own = BodyPlan::empty(&program.bodies[2]).expect("it is read");
    own.put().call(linked.functions["tell"]);
    let body = program.bodies[2].instructions().expect("it is read");
    body.into_iter().for_each(|instruction| own.keep(instruction.place));
    plan.bodies[2] = own;
    let module = emit(&program, &plan).expect("it is carried out").module;
    valid(&module);
    assert_eq!(run(&module).1, [0x15, 7]);

    let unbound = Plan::new(&program).link(&program, &support, &|_, _| None);
    assert!(unbound.expect_err("nothing is given").to_string().contains("program seen"));
    let table = wat::parse_str("(module (table 1 funcref))").expect("it is text");
    assert!(Plan::new(&program).link(&program, &table, &|_, _| None).is_err());
}

#[test]
fn a_place_that_is_not_there_and_what_is_no_module_are_errors() {
    let bytes = program();
    let program = Program::decode(&bytes).expect("a module");
    let mut plan = unchanged(&program);
    plan.bodies[0].keep(5..1 << 40);
    let error = emit(&program, &plan).expect_err("nothing is there");
    assert!(error.to_string().contains("there is no instruction at 5"), "{error}");
    assert!(Program::decode(b"no module").is_err());
}

/// The digits of numbers in source maps.
const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn spelled(number: u64) -> String {
    let (mut rest, mut text) = (number << 1, String::new());
    while rest >= 32 {
        text.push(char::from(DIGITS.as_bytes()[(rest & 31 | 32) as usize]));
        rest >>= 5;
    }
    text.push(char::from(DIGITS.as_bytes()[rest as usize]));
    text
}

/// The places of instructions in the file.
fn places(program: &Program<'_>) -> Vec<Vec<u64>> {
    let body = |body: &whamm_rewrite::Body<'_>| {
        let all = body.instructions().expect("it is read");
        all.into_iter().map(|instruction| instruction.place.start).collect()
    };
    program.bodies.iter().map(body).collect()
}

#[test]
fn a_source_map_follows_the_program() {
    let mut bytes = program();
    let mut data = vec![5];
    data.extend(b"a.map");
    let section = CustomSection { name: "sourceMappingURL".into(), data: data.into() };
    bytes.push(wasm_encoder::Section::id(&section));
    wasm_encoder::Encode::encode(&section, &mut bytes);
    assert_eq!(SourceMap::address_in(&bytes).as_deref(), Some("a.map"));
    let program = Program::decode(&bytes).expect("a module");
    let segments = |places: &[u64]| {
        let mut last = 0;
        let segment = |place: &u64| spelled(place - std::mem::replace(&mut last, *place)) + "ACC";
        places.iter().map(segment).collect::<Vec<_>>().join(",")
    };
    let map = |places: &[u64]| {
        let mappings = segments(places);
        format!(r#"{{"mappings":"{mappings}","names":[],"sources":["a.c"],"version":3}}"#)
    };
    let mut plan = Plan::new(&program);
    for body in &program.bodies {
        let mut own = BodyPlan::empty(body).expect("it is read");
        for instruction in body.instructions().expect("it is read") {
            own.put().nop().nop();
            own.keep(instruction.place);
        }
        plan.bodies.push(own);
    }
    let text = map(&places(&program).concat());
    plan.source_map = Some(SourceMap { text, address: "b.map".into() });
    let emitted = emit(&program, &plan).expect("it is written");
    assert!(emitted.lost.is_empty(), "{:?}", emitted.lost);
    assert_eq!(SourceMap::address_in(&emitted.module).as_deref(), Some("b.map"));
    let after = places(&Program::decode(&emitted.module).expect("a module"));
    // Each instruction is the third now, after two added ones.
    let kept = |places: &Vec<u64>| places.chunks(3).map(|three| three[2]).collect::<Vec<_>>();
    let expected = map(&after.iter().flat_map(kept).collect::<Vec<_>>());
    assert_eq!(emitted.source_map, Some(expected));

    for text in ["", "{}", r#"{"mappings":"A;A"}"#, r#"{"mappings":"?"}"#] {
        plan.source_map = Some(SourceMap { text: text.into(), address: "b.map".into() });
        let emitted = emit(&program, &plan).expect("it is written");
        assert_eq!((emitted.source_map, emitted.lost.len()), (None, 1), "{text}");
        assert_eq!(SourceMap::address_in(&emitted.module), None);
    }
}

#[test]
fn added_types_are_groups_where_the_plan_says_so() {
    use wasm_encoder::{Function, ValType};
    let bytes = program();
    let program = Program::decode(&bytes).expect("a module");
    let mut plan = unchanged(&program);
    let unary = || (vec![ValType::I32], vec![ValType::I32]);
    let first = program.types;
    plan.types = vec![unary(), unary(), unary(), (Vec::new(), Vec::new()), unary()];
    plan.groups.push(1..4);
    let mut functions = Vec::new();
    for ty in [0, 1, 2, 4] {
        let mut code = Function::new([]);
        code.instructions().local_get(0).end();
        functions.push(plan.indices.functions() + plan.functions.len() as u32);
        plan.functions.push((first + ty, code));
    }
    let module = emit(&program, &plan).expect("it is emitted").module;
    let types = wasmparser::Validator::new().validate_all(&module).expect("it is valid");
    let of = |function: u32| types.as_ref().core_function_at(function);
    let [alone, inside, next, behind] = functions[..] else { panic!("four") };
    // The second function of the program has this type.
    assert_eq!((of(alone), of(behind)), (of(2), of(2)));
    assert!(of(inside) != of(alone) && of(next) != of(alone) && of(inside) != of(next));
}
