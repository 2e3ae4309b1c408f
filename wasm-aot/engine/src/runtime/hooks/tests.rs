#[path = "../../../../tests/counts/programs.rs"]
mod programs;

use super::*;
use crate::compile::{
    Action, Capture, Draft, Emitter, HookId, Inline, Mode, Plan, Receiver, Sequence, Word,
};
use crate::error::CompileError;
use crate::runtime::{Counted, Due, ObservedLayer, Origin, TakesEffect};
use crate::{Config, Engine, Instance, Module, Optimize, Store, Val};
use parking_lot::Mutex;
use programs::{PROGRAMS, call_all, check_arbitrary, spelled_out};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use wasmparser::Operator;

/// Records the events that it receives.
#[derive(Debug, Default)]
struct Notes {
    all_slots: Mutex<Vec<InstanceSlots>>,
    fired: Mutex<BTreeMap<u64, u64>>,
    values: Mutex<Vec<Vec<u64>>>,
    failures: Mutex<Vec<String>>,
}

impl Receiver for Notes {
    fn fire(&self, firing: &mut Firing<'_>) {
        *self.fired.lock().entry(firing.number).or_default() += 1;
        self.values.lock().push(firing.values.iter().map(|value| value[0]).collect());
        match firing.number {
            // Doubles what it may write.
            1_000_000.. => {
                firing.values.iter_mut().for_each(|value| value[0] = value[0].wrapping_mul(2));
            }
            999_999 => panic!("this one never works"),
            _ => {}
        }
    }

    fn begin(&self, slots: InstanceSlots) {
        self.all_slots.lock().push(slots);
    }

    fn failed(&self, why: &str) {
        self.failures.lock().push(why.to_owned());
    }
}

/// Adds one to a word of the instance.
#[derive(Debug)]
struct Counter(Word);

impl Inline for Counter {
    fn fingerprint(&self) -> u64 {
        u64::from(self.0.0)
    }

    fn emit<'a>(&'a self, at: &mut Emitter<'_, 'a>) -> Result<(), CompileError> {
        at.count(self.0);
        Ok(())
    }
}

fn count(word: Word) -> Action {
    Action::Inline(Sequence(Arc::new(Counter(word))))
}

/// Every instruction: the function among the defined ones, its index, and the place in the body and
/// in the module.
fn instructions(bytes: &[u8]) -> Vec<(usize, u32, u32, u32)> {
    let info =
        crate::module::read(bytes, crate::features::Features::default()).expect("valid").info;
    let mut all = Vec::new();
    for (defined, range) in info.bodies.iter().enumerate() {
        let body = wasmparser::FunctionBody::new(wasmparser::BinaryReader::new(
            &bytes[range.start as usize..range.end as usize],
            range.start.into(),
        ));
        let mut reader = body.get_operators_reader().expect("a body");
        while !reader.eof() {
            let (_, at) = reader.read_with_offset().expect("an instruction");
            let at = at as u32;
            all.push((defined, info.imported.functions + defined as u32, at - range.start, at));
        }
    }
    all
}

fn engine(optimize: Optimize, counts: bool) -> Engine {
    Engine::new(Config::new().optimize(optimize).counts(counts)).expect("an engine")
}

fn exported(module: &Module) -> Vec<String> {
    let functions =
        module.exports().filter(|export| matches!(export.ty, crate::ExternType::Func(_)));
    functions.map(|export| export.name.to_owned()).collect()
}

/// Runs a program with a plan; none if it is not instantiated.
fn run(engine: &Engine, bytes: &[u8], plan: &Plan) -> Option<(Module, Store<()>, Instance)> {
    let module = Module::with_plan(engine, bytes, plan).unwrap_or_else(|error| panic!("{error}"));
    let (mut store, instance) = programs::instantiate(engine, &module);
    let instance = instance?;
    let names = exported(&module);
    call_all(&mut store, instance, &names.iter().map(String::as_str).collect::<Vec<_>>());
    Some((module, store, instance))
}

/// How often each instruction of each function was executed.
type Executed = Vec<((usize, u32), u64)>;

/// How often hooks before all instructions fire: by words that they count in, and by a receiver
/// that they call.
fn fired(bytes: &[u8], optimize: Optimize, counts: bool) -> Option<[Executed; 2]> {
    let notes = Arc::new(Notes::default());
    let mut draft = Draft::default();
    draft.add_receiver(notes.clone());
    let all = instructions(bytes);
    let words = draft.words(all.len() as u32);
    for (i, (_, function, _, at)) in all.iter().enumerate() {
        draft.hook(*function, *at, Mode::Before, count(words.plus(i as u32)));
        let call = Call {
            receiver: notes.clone(),
            number: i as u64,
            captures: vec![Capture::Operand(0)],
            writes: true,
        };
        draft.hook(*function, *at, Mode::Before, Action::Call(call));
    }
    let (module, _store, _) = run(&engine(optimize, counts), bytes, &draft.finish())?;
    let slots = notes.all_slots.lock()[0];
    let counted = |i: usize| slots.word(words.plus(i as u32)).load(Relaxed);
    let called = |i: usize| notes.fired.lock().get(&(i as u64)).copied().unwrap_or_default();
    let place = |i: usize| (all[i].0, all[i].2);
    if counts {
        let counts = module.counts().expect("the engine counts");
        let each = counts
            .functions()
            .flat_map(|function| function.instructions())
            .map(|instruction| instruction.count);
        assert_eq!(
            each.collect::<Vec<_>>(),
            (0..all.len()).map(counted).collect::<Vec<_>>(),
            "counted beside the hooks"
        );
    }
    let by = |of: &dyn Fn(usize) -> u64| (0..all.len()).map(|i| (place(i), of(i))).collect();
    Some([by(&counted), by(&called)])
}

fn check(what: &str, bytes: &[u8]) -> bool {
    let module = Module::new(&Engine::default(), bytes).unwrap_or_else(|error| panic!("{error}"));
    let names = exported(&module);
    let expected = spelled_out(bytes, &names.iter().map(String::as_str).collect::<Vec<_>>());
    for (optimize, counts) in
        [(Optimize::Speed, false), (Optimize::Speed, true), (Optimize::None, false)]
    {
        let found = fired(bytes, optimize, counts);
        assert_eq!(found.is_some(), expected.is_some(), "{what}: instantiated");
        for found in found.into_iter().flatten() {
            let expected = expected.as_ref().expect("compared above");
            let differing = found.iter().zip(expected).find(|(found, expected)| found != expected);
            assert!(differing.is_none(), "{what}, {optimize:?}: found and expected {differing:?}");
        }
    }
    expected.is_some_and(|counts| counts.iter().any(|(_, count)| *count > 0))
}

#[test]
fn a_hook_before_an_instruction_fires_as_often_as_the_instruction_begins() {
    for (what, text) in PROGRAMS {
        let bytes = wat::parse_str(text).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(check(what, &bytes), "{what}: nothing was executed");
    }
}

#[test]
fn hooks_of_arbitrary_programs_fire_as_often_as_their_instructions_begin() {
    check_arbitrary(1 << 12, |bytes| check("arbitrary", bytes));
}

/// How often each mode fires in each function.
fn by_mode(text: &str, modes: &[Mode], function: &str, args: &[Val]) -> Vec<Vec<u64>> {
    let bytes = wat::parse_str(text).expect("text");
    let notes = Arc::new(Notes::default());
    let mut draft = Draft::default();
    draft.add_receiver(notes.clone());
    let info =
        crate::module::read(&bytes, crate::features::Features::default()).expect("valid").info;
    let defined = info.imported.functions..info.functions.len() as u32;
    let words: Vec<Vec<Word>> = defined
        .map(|index| {
            let hook = |mode: &Mode| {
                let word = draft.words(1);
                draft.hook_function(index, *mode, count(word));
                word
            };
            modes.iter().map(hook).collect()
        })
        .collect();
    let engine = Engine::default();
    let module = Module::with_plan(&engine, &bytes, &draft.finish()).expect("a module");
    let (mut store, instance) = programs::instantiate(&engine, &module);
    let _ = instance
        .expect("an instance")
        .get_func(&mut store, function)
        .expect("exported")
        .call(&mut store, args);
    let slots = notes.all_slots.lock()[0];
    words
        .iter()
        .map(|words| words.iter().map(|word| slots.word(*word).load(Relaxed)).collect())
        .collect()
}

const ALL: &[Mode] = &[Mode::Entry, Mode::Exit, Mode::Unwind];

#[test]
fn every_way_out_of_a_function_is_an_exit_or_unwinds_unless_it_is_a_trap() {
    let text = r#"(module (tag $e) (table funcref (elem $even $odd))
        (type $t (func (param i32) (result i32)))
        (func $even (type $t) (if (i32.eqz (local.get 0)) (then (return (i32.const 1))))
            (return_call $odd (i32.sub (local.get 0) (i32.const 1))))
        (func $odd (type $t) (if (i32.eqz (local.get 0)) (then (i32.const 0) (br 1)))
            (return_call_indirect (type $t) (i32.sub (local.get 0) (i32.const 1)) (i32.const 0)))
        (func $thrower (param i32) (if (local.get 0) (then (throw $e))))
        (func $between (param i32) (call $thrower (local.get 0)))
        (func $catcher (param i32) (block $h (try_table (catch $e $h) (call $between (local.get 0)))))
        (func $traps (param i32) (drop (i32.div_u (i32.const 1) (local.get 0))))
        (func $table (param i32) (br_table 0 0 0 (local.get 0)))
        (func (export "f") (result i32)
            (drop (call $even (i32.const 7)))
            (call $catcher (i32.const 0)) (call $catcher (i32.const 1)) (call $catcher (i32.const 1))
            (call $table (i32.const 1)) (call $table (i32.const 9))
            (call $traps (i32.const 1)) (call $traps (i32.const 0)) (i32.const 3)))"#;
    let expected: [&[u64]; 8] = [
        &[4, 4, 0],
        &[4, 4, 0],
        &[3, 1, 2],
        &[3, 1, 2],
        &[3, 3, 0],
        &[2, 1, 0],
        &[2, 2, 0],
        &[1, 0, 0],
    ];
    assert_eq!(by_mode(text, ALL, "f", &[]), expected);
}

#[test]
fn an_exit_comes_after_the_checks_of_a_tail_call() {
    let text =
        r#"(module (table 1 funcref) (func (export "f") (return_call_indirect (i32.const 0))))"#;
    assert_eq!(by_mode(text, ALL, "f", &[]), [[1, 0, 0]]);
}

/// Runs a program in which hooks of one mode call a receiver, where `pick` says so.
fn told(
    text: &str,
    pick: impl Fn(&Operator<'_>) -> bool,
    mode: Mode,
    number: u64,
    captures: &[Capture],
    arg: i32,
) -> (Option<i32>, Arc<Notes>) {
    let bytes = wat::parse_str(text).expect("text");
    let notes = Arc::new(Notes::default());
    let mut draft = Draft::default();
    for (_, function, _, at) in instructions(&bytes) {
        let mut reader = wasmparser::BinaryReader::new(&bytes[at as usize..], at.into());
        reader.set_features(wasmparser::WasmFeatures::all());
        let op = wasmparser::OperatorsReader::new(reader).read().expect("an instruction");
        if pick(&op) {
            let call =
                Call { receiver: notes.clone(), number, captures: captures.to_vec(), writes: true };
            draft.hook(function, at, mode, Action::Call(call));
        }
    }
    let engine = Engine::default();
    let module = Module::with_plan(&engine, &bytes, &draft.finish()).expect("a module");
    let (mut store, instance) = programs::instantiate(&engine, &module);
    let function = instance.expect("an instance").get_func(&mut store, "f").expect("exported");
    let result =
        function.call(&mut store, &[Val::I32(arg)]).ok().and_then(|results| match results[..] {
            [Val::I32(result)] => Some(result),
            _ => None,
        });
    (result, notes)
}

const LOOP: &str = r#"(module (memory 1) (func (export "f") (param i32) (result i32) (local i32)
    (loop $l
        (i32.store8 offset=5 (local.get 1) (local.get 0))
        (local.set 1 (i32.add (local.get 1) (i32.const 1)))
        (br_if $l (i32.lt_u (local.get 1) (local.get 0))))
    (local.get 1)))"#;

#[test]
fn receivers_see_what_the_program_sees() {
    let is_store = |op: &Operator<'_>| matches!(op, Operator::I32Store8 { .. });
    let captures = [
        Capture::Address,
        Capture::Operand(0),
        Capture::Operand(1),
        Capture::Local(1),
        Capture::Operand(9),
    ];
    let (result, notes) = told(LOOP, is_store, Mode::Before, 0, &captures, 3);
    assert_eq!(result, Some(3));
    assert_eq!(*notes.values.lock(), [[5, 3, 0, 0, 0], [6, 3, 1, 1, 0], [7, 3, 2, 2, 0]]);
    // The address is known also when the index is no operand any more.
    let (_, notes) = told(LOOP, is_store, Mode::After, 0, &captures[..1], 3);
    assert_eq!(*notes.values.lock(), [[5], [6], [7]]);
    let is_add = |op: &Operator<'_>| matches!(op, Operator::I32Add);
    let (_, notes) = told(LOOP, is_add, Mode::After, 0, &captures[1..2], 3);
    assert_eq!(*notes.values.lock(), [[1], [2], [3]]);
}

#[test]
fn what_receivers_write_is_what_the_program_goes_on_with() {
    let is_add = |op: &Operator<'_>| matches!(op, Operator::I32Add);
    // 0 + 1 doubled, 2 + 1 doubled, 6 + 1 doubled.
    assert_eq!(told(LOOP, is_add, Mode::After, 1_000_000, &[Capture::Operand(0)], 10).0, Some(14));
    assert_eq!(told(LOOP, is_add, Mode::After, 0, &[Capture::Operand(0)], 10).0, Some(10));
    let is_branch = |op: &Operator<'_>| matches!(op, Operator::BrIf { .. });
    // On the way back only: 1, 2 → 2 + 1, 6 → 7, and there it ends.
    let (result, notes) = told(LOOP, is_branch, Mode::BackEdge, 1_000_000, &[Capture::Local(1)], 7);
    assert_eq!((result, notes.values.lock().clone()), (Some(7), vec![vec![1], vec![3]]));
}

#[test]
fn a_receiver_that_panics_is_told_so_and_the_program_goes_on() {
    let (result, notes) =
        told(LOOP, |op| matches!(op, Operator::BrIf { .. }), Mode::Before, 999_999, &[], 3);
    assert_eq!(result, Some(3));
    assert_eq!(*notes.failures.lock(), ["this one never works"; 3]);
}

#[test]
fn back_edges_are_gone_once_less_than_iterations_are_begun() {
    for branch in [
        "(br_if $l (i32.lt_u (local.get 1) (local.get 0)))",
        "(block (br_table 0 $l 0 (i32.lt_u (local.get 1) (local.get 0))))",
    ] {
        let text = format!(
            "(module (func (export \"f\") (param i32) (result i32) (local i32)
             (loop $l (local.set 1 (i32.add (local.get 1) (i32.const 1))) {branch}) (local.get 1)))"
        );
        let is_branch =
            |op: &Operator<'_>| matches!(op, Operator::BrIf { .. } | Operator::BrTable { .. });
        let (result, notes) = told(&text, is_branch, Mode::BackEdge, 0, &[], 5);
        assert_eq!((result, notes.fired.lock()[&0]), (Some(5), 4), "{branch}");
    }
}

#[test]
fn plans_are_equal_only_if_they_do_the_same() {
    let plan = |word: u32, receiver: &Arc<Notes>| {
        let mut draft = Draft::default();
        draft.words(2);
        draft.hook(0, 9, Mode::Before, count(Word(word)));
        let call = Call { receiver: receiver.clone(), number: 0, captures: vec![], writes: false };
        draft.hook(0, 3, Mode::After, Action::Call(call));
        draft.finish()
    };
    let (one, two) = (Arc::new(Notes::default()), Arc::new(Notes::default()));
    assert_eq!(plan(0, &one), plan(0, &one));
    assert_ne!(plan(0, &one), plan(1, &one));
    assert_ne!(plan(0, &one), plan(0, &two));
    assert_ne!(plan(0, &one), Plan::default());
    assert_eq!(Draft::default().finish(), Plan::default());
}

/// The plan that tests attach first, and counts.
const PLAN: ObservedLayer = ObservedLayer::Plan(0);
const COUNTS: ObservedLayer = ObservedLayer::Counts(Counted::Edges);

/// Runs a loop of a hundred turns in which two hooks count; `tick` is called with every turn. Gives
/// what they have counted.
fn in_turns(
    origin: Origin,
    tick: impl Fn(&Module, &[(u32, HookId); 2], i32) + Send + Sync + 'static,
) -> [u64; 2] {
    in_turns_from(origin, |module| module.observe(&[PLAN]).expect("memory"), tick)
}

/// The same; a plan that is attached is observed as `begin` says.
fn in_turns_from(
    origin: Origin,
    begin: impl Fn(&Module),
    tick: impl Fn(&Module, &[(u32, HookId); 2], i32) + Send + Sync + 'static,
) -> [u64; 2] {
    let text = r#"(module (import "host" "tick" (func $tick (param i32))) (func (export "f") (result i32) (local i32)
        (loop $l
            (call $tick (local.get 0))
            (local.set 0 (i32.add (local.get 0) (i32.const 1)))
            (br_if $l (i32.lt_u (local.get 0) (i32.const 100))))
        (local.get 0)))"#;
    let bytes = wat::parse_str(text).expect("text");
    let notes = Arc::new(Notes::default());
    let mut draft = Draft::default();
    draft.add_receiver(notes.clone());
    let words = draft.words(2);
    let mut place = 0;
    let hooks = instructions(&bytes)
        .into_iter()
        .filter(|(.., at)| matches!(bytes[*at as usize], 0x6A | 0x0D))
        .map(|(_, f, _, at)| {
            place += 1;
            (f, draft.hook(f, at, Mode::Before, count(words.plus(place - 1))))
        });
    let hooks: [(u32, HookId); 2] =
        hooks.collect::<Vec<_>>().try_into().expect("an addition and a branch");
    let plan = draft.finish();
    let engine = engine(Optimize::Speed, false);
    let module = match origin {
        Origin::Own => Module::with_plan(&engine, &bytes, &plan).expect("a module"),
        Origin::Plan(_) => {
            let module = Module::with_plan(&engine, &bytes, &Plan::default()).expect("a module");
            assert_eq!(module.add_plan(plan).expect("room"), 0);
            begin(&module);
            module
        }
    };
    let mut linker = crate::Linker::new(&engine);
    let own = module.clone();
    linker
        .func_wrap("host", "tick", move |turn: i32| tick(&own, &hooks, turn))
        .expect("the only one");
    let mut store = Store::new(&engine, ());
    let instance = linker.instantiate(&mut store, &module).expect("an instance");
    let results = instance
        .get_func(&mut store, "f")
        .expect("exported")
        .call(&mut store, &[])
        .expect("no trap");
    assert!(matches!(results[..], [Val::I32(100)]));
    let slots = notes.all_slots.lock()[0];
    [0, 1].map(|place| slots.word(words.plus(place)).load(Relaxed))
}

#[test]
fn hooks_that_are_left_out_are_silent_from_the_next_turn_on_until_they_are_put_back() {
    for origin in [Origin::Own, Origin::Plan(0)] {
        let counted = in_turns(origin, move |module, hooks, turn| {
            let change = |hooks: &[_], out| {
                module.leave_out(origin, hooks, out, TakesEffect::NextIteration).expect("memory")
            };
            match turn {
                9 => assert!(change(&hooks[..1], true)),
                19 => assert!(change(&hooks[1..], true) && !change(&hooks[..1], true)),
                29 => assert!(change(&hooks[..1], false)),
                39 => assert!(change(&hooks[1..], false)),
                _ => {}
            }
        });
        // With a turn's call the turn goes on in the old code.
        assert_eq!(counted, [100 - 20, 100 - 20], "{origin:?}");
    }
}

#[test]
fn hooks_are_left_out_while_other_plans_come_and_go() {
    let counted = in_turns(Origin::Plan(0), |module, hooks, turn| match turn {
        9 => drop(
            module
                .leave_out(Origin::Plan(0), &hooks[..1], true, TakesEffect::NextIteration)
                .expect("memory"),
        ),
        19 => module.observe(&[COUNTS]).expect("memory"),
        29 => module.observe_no_more(&[COUNTS, PLAN]).expect("memory"),
        39 => module.observe(&[COUNTS, PLAN]).expect("memory"),
        49 => drop(
            module
                .leave_out(Origin::Plan(0), &hooks[..1], false, TakesEffect::NextIteration)
                .expect("memory"),
        ),
        _ => {}
    });
    assert_eq!(counted, [10 + 50, 100 - 10]);
}

#[test]
fn who_is_in_a_loop_hears_of_what_is_left_out_with_the_next_call_only_until_somebody_hurries() {
    let counted = in_turns(Origin::Own, |module, hooks, turn| match turn {
        9 => assert!(
            module
                .leave_out(Origin::Own, &hooks[..1], true, TakesEffect::NextCall)
                .expect("memory")
        ),
        29 | 69 => module.hurry(&[0]).expect("memory"),
        49 => assert!(
            module
                .leave_out(Origin::Own, &hooks[..1], false, TakesEffect::NextCall)
                .expect("memory")
        ),
        _ => {}
    });
    assert_eq!(counted, [30 + 30, 100]);
}

#[test]
fn who_was_left_behind_in_a_loop_comes_along_with_what_is_observed_next() {
    let counted = in_turns(Origin::Plan(0), |module, hooks, turn| match turn {
        9 => assert!(
            module
                .leave_out(Origin::Plan(0), &hooks[..1], true, TakesEffect::NextCall)
                .expect("memory")
        ),
        29 => module.observe(&[COUNTS]).expect("memory"),
        49 => module.observe_no_more(&[COUNTS, PLAN]).expect("memory"),
        _ => {}
    });
    assert_eq!(counted, [30, 50]);
}

#[test]
fn a_function_of_which_everything_is_left_out_is_plain_again_and_nothing_is_compiled_for_it() {
    let counted = in_turns(Origin::Plan(0), |module, hooks, turn| match turn {
        9 => {
            let pieces = module.inner.chunks.iter().count();
            assert!(
                module.is_attached_alone(Origin::Plan(0)) && !module.is_attached_alone(Origin::Own)
            );
            assert!(
                module
                    .leave_out(Origin::Plan(0), hooks, true, TakesEffect::NextCall)
                    .expect("memory")
            );
            assert_eq!(module.inner.chunks.iter().count(), pieces);
        }
        // Until now the loop has gone on as it was.
        29 => module.hurry(&[0]).expect("memory"),
        49 => assert!(
            module
                .leave_out(Origin::Plan(0), hooks, false, TakesEffect::NextIteration)
                .expect("memory")
        ),
        _ => {}
    });
    assert_eq!(counted, [30 + 50, 30 + 50]);
}

#[test]
fn what_is_observed_of_functions_that_are_called_gets_entries_when_somebody_has_to_come_in() {
    let begin = |module: &Module| module.observe(&[PLAN]).expect("memory");
    let counted = in_turns_from(Origin::Plan(0), begin, |module, hooks, turn| {
        let leave = |out| {
            assert!(
                module
                    .leave_out(Origin::Plan(0), &hooks[..1], out, TakesEffect::NextIteration)
                    .expect("memory")
            );
        };
        match turn {
            9 => leave(true),
            19 => leave(false),
            29 => module.observe_no_more(&[PLAN]).expect("memory"),
            39 => module.observe(&[PLAN]).expect("memory"),
            _ => {}
        }
    });
    assert_eq!(counted, [10 + 10 + 60, 30 + 60]);
}

/// Functions that give each other numbers in all kinds of registers and on the stack, and one that
/// is never called.
const STRANGERS: &str = r#"(module
    (func $never (result i32) (i32.const 1))
    (func $all (param i32 i64 f32 f64 v128 i64 i64 i64 i64 i64 i64 f64 f64 f64 f64 f64 f64 f64)
        (result i64 f64)
        (i64.add (i64.extend_i32_u (local.get 0))
            (i64.add (i64.add (local.get 1) (i64.trunc_f32_s (local.get 2)))
                (i64x2.extract_lane 1 (local.get 4))))
        (local.get 5) (local.get 6) (local.get 7) (local.get 8) (local.get 9) (local.get 10)
        (i64.add) (i64.add) (i64.add) (i64.add) (i64.add) (i64.add)
        (local.get 3) (local.get 11) (local.get 12) (local.get 13) (local.get 14) (local.get 15)
        (local.get 16) (local.get 17)
        (f64.add) (f64.add) (f64.add) (f64.add) (f64.add) (f64.add) (f64.add))
    (func $f (export "f") (param i32) (result i32) (local i64)
        (call $all (local.get 0) (i64.const 1) (f32.const 2) (f64.const 3) (v128.const i64x2 0 4)
            (i64.const 5) (i64.const 6) (i64.const 7) (i64.const 8) (i64.const 9) (i64.const 10)
            (f64.const 11) (f64.const 12) (f64.const 13) (f64.const 14) (f64.const 15)
            (f64.const 16) (f64.const 17))
        (i32.trunc_f64_s) (local.set 0) (local.set 1)
        (i32.add (local.get 0) (i32.wrap_i64 (local.get 1)))))"#;
/// What `f` gives, but for its argument.
const SUM: i32 = 1 + 2 + 4 + (5 + 6 + 7 + 8 + 9 + 10) + 3 + (11 + 12 + 13 + 14 + 15 + 16 + 17);

/// A module with a plan that counts how often each function is entered, which is not observed yet;
/// and the functions' hooks.
fn strangers(due: Option<Weak<dyn Due>>) -> (Module, [HookId; 3]) {
    let mut draft = Draft::default();
    let words = draft.words(3);
    let hooks = [0, 1, 2]
        .map(|function| draft.hook_function(function, Mode::Entry, count(words.plus(function))));
    let bytes = wat::parse_str(STRANGERS).expect("text");
    let module = Module::with_plan(&engine(Optimize::Speed, false), &bytes, &Plan::default())
        .expect("a module");
    assert_eq!(module.add_plan_of(draft.finish(), due).expect("room"), 0);
    (module, hooks)
}

fn entered(module: &Module) -> [u64; 3] {
    [0, 1, 2].map(|function| module.plan_word(0, Word(function)))
}

#[test]
fn functions_are_compiled_for_a_plan_when_they_are_called_for_the_first_time() {
    let (module, _) = strangers(None);
    let compile_events = module.compile_events();
    module.observe_when_called(&[PLAN]).expect("memory");
    assert_eq!(compile_events.take(), []);
    let engine = engine(Optimize::Speed, false);
    let mut store = Store::new(&engine, ());
    let instance = Instance::new(&mut store, &module, &[]).expect("an instance");
    let f = instance.get_func(&mut store, "f").expect("exported");
    for turn in 0..3 {
        let results = f.call(&mut store, &[Val::I32(turn)]).expect("no trap");
        assert!(matches!(results[..], [Val::I32(sum)] if sum == SUM + turn), "{results:?}");
    }
    assert_eq!(entered(&module), [0, 3, 3]);
    let compiled: Vec<u32> = compile_events.take().iter().map(|(function, _)| *function).collect();
    assert_eq!(compiled, [2, 1]);
    // What comes and goes meanwhile finds the one that waits, and what is there.
    module.observe(&[COUNTS]).expect("memory");
    f.call(&mut store, &[Val::I32(0)]).expect("no trap");
    module.observe_no_more(&[PLAN]).expect("memory");
    f.call(&mut store, &[Val::I32(0)]).expect("no trap");
    assert_eq!(entered(&module), [0, 4, 4]);
    assert!(module.unmade().is_empty());
}

#[test]
fn threads_that_call_a_function_at_once_for_the_first_time_all_have_it_observed() {
    const THREADS: usize = 4;
    for _ in 0..10 {
        let (module, _) = strangers(None);
        module.observe_when_called(&[PLAN]).expect("memory");
        // One more: this thread looks when all have called, and before their instances end.
        let all = std::sync::Barrier::new(THREADS + 1);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let engine = engine(Optimize::Speed, false);
                    let mut store = Store::new(&engine, ());
                    let instance = Instance::new(&mut store, &module, &[]).expect("an instance");
                    let f = instance.get_func(&mut store, "f").expect("exported");
                    all.wait();
                    let results = f.call(&mut store, &[Val::I32(0)]);
                    all.wait();
                    all.wait();
                    assert!(matches!(results.as_deref(), Ok([Val::I32(SUM)])), "{results:?}");
                });
            }
            all.wait();
            all.wait();
            let counted = entered(&module);
            all.wait();
            assert_eq!(counted, [0, THREADS as u64, THREADS as u64]);
        });
    }
}

/// Says of all functions that they are not due, and notes which it was asked of.
#[derive(Debug, Default)]
struct Never(Mutex<Vec<u32>>);

impl Due for Never {
    fn is_due(&self, function: u32) -> bool {
        self.0.lock().push(function);
        false
    }
}

#[test]
fn a_function_that_is_not_due_is_executed_as_it_is_until_its_hooks_are_put_back() {
    let never = Arc::new(Never::default());
    let client: Arc<dyn Due> = never.clone();
    let (module, hooks) = strangers(Some(Arc::downgrade(&client)));
    let compile_events = module.compile_events();
    module.observe_when_called(&[PLAN]).expect("memory");
    let engine = engine(Optimize::Speed, false);
    let mut store = Store::new(&engine, ());
    let instance = Instance::new(&mut store, &module, &[]).expect("an instance");
    let f = instance.get_func(&mut store, "f").expect("exported");
    let mut call = || f.call(&mut store, &[Val::I32(0)]).expect("no trap");
    call();
    call();
    assert_eq!((entered(&module), never.0.lock().clone()), ([0; 3], vec![2, 1]));
    assert_eq!(compile_events.take(), []);
    let back = [(1, hooks[1])];
    assert!(
        module.leave_out(Origin::Plan(0), &back, false, TakesEffect::NextCall).expect("memory")
    );
    call();
    assert_eq!(entered(&module), [0, 1, 0]);
}

/// How often the receiver is notified that an exception leaves an activation whose loop was entered
/// without that hook. The hook is switched on, and off again, at these turns.
fn unwound(on: i32, off: Option<i32>) -> u64 {
    let text = r#"(module (import "host" "tick" (func $tick (param i32))) (tag $e)
        (func $throws (local i32)
            (loop $l
                (call $tick (local.get 0))
                (local.set 0 (i32.add (local.get 0) (i32.const 1)))
                (br_if $l (i32.lt_u (local.get 0) (i32.const 100))))
            (throw $e))
        (func (export "f") (result i32)
            (block $caught (try_table (catch_all $caught) (call $throws)) (return (i32.const 0)))
            (i32.const 1)))"#;
    let mut draft = Draft::default();
    let word = draft.words(1);
    draft.hook_function(1, Mode::Unwind, count(word));
    let engine = engine(Optimize::Speed, false);
    let bytes = wat::parse_str(text).expect("text");
    let module = Module::with_plan(&engine, &bytes, &Plan::default()).expect("a module");
    assert_eq!(module.add_plan(draft.finish()).expect("room"), 0);
    let (mut linker, own) = (crate::Linker::new(&engine), module.clone());
    let tick = move |turn: i32| match turn {
        _ if turn == on => own.observe(&[PLAN]).expect("memory"),
        _ if Some(turn) == off => own.observe_no_more(&[PLAN]).expect("memory"),
        _ => {}
    };
    linker.func_wrap("host", "tick", tick).expect("the only one");
    let mut store = Store::new(&engine, ());
    let instance = linker.instantiate(&mut store, &module).expect("an instance");
    let f = instance.get_func(&mut store, "f").expect("exported");
    let results = f.call(&mut store, &[]).expect("it is caught");
    assert!(matches!(results[..], [Val::I32(1)]), "{results:?}");
    module.plan_word(0, word)
}

#[test]
fn an_exception_that_leaves_an_activation_is_told_if_the_hook_came_while_it_was_in_a_loop() {
    assert_eq!([unwound(9, None), unwound(9, Some(19)), unwound(98, None)], [1, 0, 1]);
}
