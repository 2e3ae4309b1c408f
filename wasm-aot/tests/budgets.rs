//! A program executes exactly as many instructions as its store's budget allows, and the next one
//! has no effect.

#[path = "counts/programs.rs"]
mod programs;

use programs::{PROGRAMS, call_all, check_arbitrary, instantiate, spelled_out};
use std::sync::Mutex;
use wasm_aot::probe::{Place, Probes};
use wasm_aot::{
    AsContextMut, Caller, Config, Engine, Error, ExternType, Instance, Linker, Module, Optimize,
    Store, Trap, Val,
};

/// More than any of these programs executes.
const PLENTY: u64 = 1 << 40;

fn engine(optimize: Optimize, counts: bool) -> Engine {
    Engine::new(Config::new().instruction_budgets(true).counts(counts).optimize(optimize))
        .expect("an engine")
}

/// A module's only instance, in a store with a budget.
fn limited(text: &str, budget: u64) -> (Store<()>, Instance) {
    let engine = engine(Optimize::Speed, false);
    let module = Module::new(&engine, text).expect("a module");
    let mut store = Store::new(&engine, ());
    store.set_instruction_budget(Some(budget)).expect("the engine's code has budgets");
    let instance = Linker::new(&engine).instantiate(&mut store, &module).expect("an instance");
    (store, instance)
}

/// The end of a call: the trap, and its offset in the module.
fn trapped(result: Result<Vec<Val>, Error>) -> (Trap, u32) {
    let Err(Error::Trap(report)) = result else { panic!("no trap: {result:?}") };
    (report.trap, report.backtrace.frames[0].offset.expect("it is known"))
}

/// The part of a budget that a module's functions use.
fn spent(engine: &Engine, bytes: &[u8], names: &[&str]) -> Option<u64> {
    let module = Module::new(engine, bytes).unwrap_or_else(|error| panic!("{error}"));
    let (mut store, instance) = instantiate(engine, &module);

    store.set_instruction_budget(Some(PLENTY)).expect("the engine's code has budgets");
    call_all(&mut store, instance?, names);
    Some(PLENTY - store.instruction_budget().expect("there is one"))
}

/// Compares the used budget with the program's own count; returns whether any instruction was
/// executed.
fn check(bytes: &[u8]) -> bool {
    let module = Module::new(&engine(Optimize::None, false), bytes)
        .unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<&str> = module
        .exports()
        .filter(|export| matches!(export.ty, ExternType::Func(_)))
        .map(|export| export.name)
        .collect();
    if module.has_start() {
        return false;
    }
    let expected =
        spelled_out(bytes, &names).map(|counts| counts.iter().map(|(_, count)| count).sum::<u64>());
    for (optimize, counts) in
        [(Optimize::Speed, false), (Optimize::None, false), (Optimize::Speed, true)]
    {
        let found = spent(&engine(optimize, counts), bytes, &names);
        if found != expected {
            let path =
                std::env::temp_dir().join(format!("wasm-aot-budgets-{}.wasm", std::process::id()));
            let kept = std::fs::write(&path, bytes).is_ok();
            panic!(
                "{optimize:?}: spent {found:?}, and executed {expected:?}; the module is {} ({kept})",
                path.display()
            );
        }
    }
    expected.is_some_and(|sum| sum > 0)
}

#[test]
fn what_is_spent_is_what_a_program_counts_itself() {
    for (what, text) in PROGRAMS {
        let bytes = wat::parse_str(text).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(check(&bytes), "{what}: nothing was executed");
    }
}

#[test]
fn arbitrary_programs_spend_what_they_execute() {
    check_arbitrary(1 << 12, check);
}

#[test]
fn nothing_is_seen_of_the_instruction_behind_the_last() {
    // Each store is the sixth instruction of its row, and the function has nineteen.
    let adds = "(i32.store8 (i32.const 0) (i32.add (i32.load8_u (i32.const 0)) (i32.const 1)))";
    let text =
        format!("(module (memory (export \"m\") 1) (func (export \"f\") {adds} {adds} {adds}))");
    for budget in 0..19 {
        let (mut store, instance) = limited(&text, budget);
        let function = instance.get_func(&mut store, "f").expect("exported");
        assert_eq!(trapped(function.call(&mut store, &[])).0, Trap::Budget);
        let memory = instance.get_memory(&mut store, "m").expect("exported");
        let mut byte = [0];
        memory.read(&mut store, 0, &mut byte).expect("inside");
        assert_eq!(u64::from(byte[0]), budget / 6, "with a budget of {budget}");
        assert_eq!(store.instruction_budget(), Some(0));
    }
    let (mut store, instance) = limited(&text, 20);
    assert!(instance.get_func(&mut store, "f").expect("exported").call(&mut store, &[]).is_ok());
    assert_eq!(store.instruction_budget(), Some(1));
}

#[test]
fn the_instruction_is_named_that_there_is_no_budget_for() {
    let text = "(module (global $g (mut i32) (i32.const 0)) (func (export \"f\") (param i32)
        nop nop (global.set $g (local.get 0)) block nop (br_if 0 (local.get 0)) nop end nop))";
    let offsets: Vec<u32> = {
        let bytes = wat::parse_str(text).expect("a module");
        let module = Module::new(&engine(Optimize::Speed, true), &bytes).expect("a module");
        let (mut store, instance) = instantiate(&engine(Optimize::Speed, true), &module);
        call_all(&mut store, instance.expect("an instance"), &["f"]);
        let counts = module.counts().expect("it counts");
        let function = counts.functions().next().expect("one");
        function
            .instructions()
            .iter()
            .map(|instruction| function.start() + instruction.offset)
            .collect()
    };
    let taken: Vec<u32> =
        offsets.iter().enumerate().filter(|(i, _)| *i != 8).map(|(_, offset)| *offset).collect();
    for (argument, path) in [(0, &offsets), (1, &taken)] {
        for (budget, offset) in path.iter().enumerate() {
            let (mut store, instance) = limited(text, budget as u64);
            let function = instance.get_func(&mut store, "f").expect("exported");
            let result = function.call(&mut store, &[Val::I32(argument)]);
            assert_eq!(trapped(result), (Trap::Budget, *offset), "{budget} of {path:?}");
        }
        let (mut store, instance) = limited(text, path.len() as u64);
        let function = instance.get_func(&mut store, "f").expect("exported");
        assert!(function.call(&mut store, &[Val::I32(argument)]).is_ok());
    }
}

/// A function with blocks, branches, loops and stores, and whole rows that only compute.
const ROWS: &str = r#"(module (memory 1) (global $g (mut i32) (i32.const 0)) (func (export "f") (param i32)
    (loop $again
        (block $over
            nop (br_if $over (i32.and (local.get 0) (i32.const 1)))
            (i32.store (i32.add (i32.const 8) (i32.const 8)) (i32.mul (local.get 0) (i32.const 3)))
            nop nop)
        (global.set $g (i32.add (global.get $g) (i32.load (i32.const 16))))
        (local.set 0 (i32.sub (local.get 0) (i32.const 1)))
        (br_if $again (local.get 0)))))"#;

/// Calls it with each budget until one suffices, and compares with how many instructions were seen.
fn seen_with_each_budget<S>(begin: impl Fn(&Module) -> S, seen: impl Fn(&Module, &S) -> u64) {
    let engine = engine(Optimize::Speed, true);
    for budget in 0..1000 {
        let module = Module::new(&engine, ROWS).expect("a module");
        let own = begin(&module);
        let mut store = Store::new(&engine, ());
        store.set_instruction_budget(Some(budget)).expect("the engine's code has budgets");
        let instance = Linker::new(&engine).instantiate(&mut store, &module).expect("an instance");
        let function = instance.get_func(&mut store, "f").expect("exported");
        let is_over = function.call(&mut store, &[Val::I32(4)]).is_ok();
        let left = store.instruction_budget().expect("there is one");
        assert_eq!(seen(&module, &own), budget - left, "with a budget of {budget}");
        if is_over {
            assert!(budget > 50, "it has some turns");
            return;
        }
    }
    panic!("a thousand do not suffice");
}

#[test]
fn counts_are_those_of_the_instructions_that_were_paid_for() {
    let sum = |module: &Module| {
        let counts = module.counts().expect("it counts");
        let all = counts.functions().flat_map(|function| function.instructions());
        all.map(|instruction| instruction.count).sum()
    };
    seen_with_each_budget(|_| (), |module, ()| sum(module));
}

#[test]
fn probes_see_the_instructions_that_were_paid_for() {
    let places = |module: &Module| {
        let counts = module.counts().expect("it counts");
        let function = counts.functions().next().expect("one");
        let all = function.instructions();
        all.iter().map(|one| Place::before(0, one.offset)).collect::<Vec<_>>()
    };
    // At all of them, and at some: the last ones of rows, and others.
    for step in 1..5 {
        let begin = |module: &Module| {
            let probes = Probes::new(module);
            let places: Vec<Place> = places(module).into_iter().step_by(step).collect();
            places.iter().for_each(|place| {
                probes.count(*place).expect("inserted");
            });
            (probes, places)
        };
        let seen = |module: &Module, (probes, own): &(Probes, Vec<Place>)| {
            let counts = module.counts().expect("it counts");
            let function = counts.functions().next().expect("one");
            let all = function.instructions();
            let counted = |offset| probes.counted(Place::before(0, offset));
            for instruction in all.iter().filter(|one| own.iter().any(|at| at.offset == one.offset))
            {
                assert_eq!(counted(instruction.offset), instruction.count, "{instruction:?}");
            }
            all.iter().map(|instruction| instruction.count).sum()
        };
        seen_with_each_budget(begin, seen);
    }
}

#[test]
fn a_trap_behind_the_last_instruction_does_not_happen() {
    for (body, trap, executed) in [
        ("(drop (i32.div_u (i32.const 1) (i32.const 0)))", Trap::IntegerDivideByZero, 3),
        ("(drop (i32.load (i32.const 65536)))", Trap::MemoryOutOfBounds, 2),
        (
            "nop (drop (i32.load (i32.const 0))) (drop (i64.load (i32.const -1))) nop",
            Trap::MemoryOutOfBounds,
            6,
        ),
        ("nop (i32.store (i32.const 65533) (i32.const 1))", Trap::MemoryOutOfBounds, 4),
        ("nop unreachable", Trap::Unreachable, 2),
    ] {
        let text = format!("(module (memory 1) (func (export \"f\") {body}))");
        for (budget, expected) in
            [(executed - 1, Trap::Budget), (executed, trap), (executed + 1, trap)]
        {
            let (mut store, instance) = limited(&text, budget);
            let function = instance.get_func(&mut store, "f").expect("exported");
            assert_eq!(trapped(function.call(&mut store, &[])).0, expected, "{body} with {budget}");
            assert_eq!(
                store.instruction_budget(),
                Some(budget.saturating_sub(executed)),
                "{body} with {budget}"
            );
        }
    }
}

#[test]
fn a_host_function_sees_what_is_left_and_may_give_more() {
    static SEEN: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    let engine = engine(Optimize::Speed, false);
    let mut store = Store::new(&engine, ());
    let mut linker = Linker::new(&engine);
    let more = |mut caller: Caller<'_, ()>| {
        let mut context = caller.as_context_mut();
        let left = context.instruction_budget().expect("there is one");
        SEEN.lock().expect("whole").push(left);
        let turns = { SEEN.lock().expect("whole").len() };
        context
            .set_instruction_budget(Some(left + 3))
            .and((turns < 100).then_some(()).ok_or(Error::Exit(0)))
    };
    linker.func_wrap("host", "more", more).expect("a new name");
    let text = "(module (import \"host\" \"more\" (func $more)) (func (export \"f\") (loop (call $more) (br 0))))";
    let module = Module::new(&engine, text).expect("a module");
    store.set_instruction_budget(Some(5)).expect("the engine's code has budgets");
    let instance = linker.instantiate(&mut store, &module).expect("an instance");
    let function = instance.get_func(&mut store, "f").expect("exported");
    let call = |store: &mut Store<()>| function.call(store, &[]);
    // A turn takes three, and gives three back: the rest is the same each time, until the budget is
    // too small for a turn.
    assert!(matches!(call(&mut store), Err(Error::Exit(0))));
    assert!(SEEN.lock().expect("whole").iter().all(|left| *left == 3));
    store.set_instruction_budget(Some(1)).expect("as before");
    assert_eq!(call(&mut store).expect_err("no call is paid for").trap(), Some(Trap::Budget));
    store.set_instruction_budget(None).expect("always");
    assert_eq!(store.instruction_budget(), None);
}

#[test]
fn other_versions_of_the_code_pay_too() {
    let text = "(module (func (export \"f\") (param i32) (result i32) (local i32)
        (loop $l (local.set 1 (i32.add (local.get 1) (i32.const 1)))
            (br_if $l (i32.lt_u (local.get 1) (local.get 0)))) (local.get 1)))";
    let engine = engine(Optimize::Speed, false);
    let module = Module::new(&engine, text).expect("a module");
    let mut store = Store::new(&engine, ());
    let instance = Linker::new(&engine).instantiate(&mut store, &module).expect("an instance");
    let function = instance.get_func(&mut store, "f").expect("exported");
    let mut spend = || {
        store.set_instruction_budget(Some(PLENTY)).expect("the engine's code has budgets");
        assert!(matches!(
            function.call(&mut store, &[Val::I32(100)]).expect("enough")[..],
            [Val::I32(100)]
        ));
        PLENTY - store.instruction_budget().expect("there is one")
    };
    let plain = spend();
    assert_eq!(plain, 100 * 9 + 3);
    module.attach_counts().expect("attached");
    assert_eq!(spend(), plain);
    module.detach_counts();
    assert_eq!(spend(), plain);
}

#[test]
fn code_that_keeps_to_no_budget_is_refused_where_there_is_one() {
    let (free, paying) = (Engine::default(), engine(Optimize::Speed, false));
    let module = Module::new(&free, "(module $loose (func))").expect("a module");
    let mut store = Store::new(&paying, ());
    store.set_instruction_budget(Some(7)).expect("nothing is there yet");
    let error = Linker::new(&paying).instantiate(&mut store, &module).expect_err("it is refused");
    assert!(error.to_string().contains("loose") && error.to_string().contains("budget"), "{error}");
    let mut store = Store::new(&free, ());
    Linker::new(&free).instantiate(&mut store, &module).expect("an instance");
    assert!(store.set_instruction_budget(Some(7)).is_err());
    let exempt = Module::new(
        &paying.exempt().expect("an engine"),
        "(module (func (export \"f\") (loop nop)))",
    );
    let mut store = Store::new(&paying, ());
    store.set_instruction_budget(Some(0)).expect("nothing is there yet");
    let instance = Linker::new(&paying)
        .instantiate(&mut store, &exempt.expect("a module"))
        .expect("an instance");
    assert!(instance.get_func(&mut store, "f").expect("exported").call(&mut store, &[]).is_ok());
}
