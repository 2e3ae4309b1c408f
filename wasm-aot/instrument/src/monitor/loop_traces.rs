//! `loop-traces`: which paths the iterations of each loop took, and how often.
//!
//! An activation has a variable for each loop: the number of the present iteration's
//! [path](super::paths). At the end of an iteration, its number is compared with that of the one
//! before, whose repetitions are counted in the instance; only a different number is reported to
//! the host.

use super::hooked::{HookedMonitor, Weight, fingerprint, only_if};
use super::outline::Outline;
use super::paths::{Act, Condition, Decision, Paths, TOO_LONG};
use super::sums::InstanceSums;
use super::{Cell, Choice, MonitorError, Report};
use crate::lower::{Facts, Hooks};
use cranelift_codegen::ir::{InstBuilder, Value, condcodes::IntCC, types};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use wasm_aot_engine::CompileError;
use wasm_aot_engine::instrument::compile::{
    Action, Call, Draft, Emitter, Firing, Inline, InstanceSlots, Mode, Receiver, Sequence, Word,
};
use wasm_aot_engine::instrument::runtime::{Module, Places};

/// The monitor.
#[derive(Debug)]
pub(super) struct LoopTraces {
    choice: Choice,
    functions: OnceLock<Vec<Traced>>,
    /// How often each number of each loop has occurred.
    sums: Mutex<InstanceSums<PathCounts>>,
}

/// How often each path was taken, by function, loop and number.
type PathCounts = HashMap<(usize, usize, u64), u64>;

/// A function with loops.
#[derive(Debug)]
struct Traced {
    index: u32,
    paths: Paths,
    /// The offsets of its instructions in the module.
    places: Vec<u32>,
    /// The words of its loops, two each: the latest number, and how often it has occurred since the
    /// last other one.
    words: Word,
}

/// Makes the monitor.
pub(super) fn loop_traces_monitor(choice: &Choice) -> Result<Arc<dyn HookedMonitor>, MonitorError> {
    let (functions, sums) = Default::default();
    Ok(Arc::new(LoopTraces { choice: choice.clone(), functions, sums }))
}

impl HookedMonitor for LoopTraces {
    fn plan(self: Arc<Self>, outline: &Outline<'_>, draft: &mut Draft) {
        draft.add_receiver(Arc::<Self>::clone(&self));
        let mut functions = Vec::new();
        for function in outline.chosen(&self.choice) {
            let paths = Paths::of(function);
            if paths.loops.is_empty() {
                continue;
            }
            let places: Vec<u32> =
                function.instructions.iter().map(|instruction| instruction.at).collect();
            let words = draft.words(2 * paths.loops.len() as u32);
            for (number, of) in paths.loops.iter().enumerate() {
                let begin = Action::Inline(Sequence(Arc::new(Begin { words, of: number })));
                draft.hook(function.index, places[of.start], Mode::Before, begin);
            }
            for step in &paths.steps {
                let over = |of: usize| {
                    let (receiver, number) =
                        (Arc::<Self>::clone(&self), (functions.len() as u64) << 32 | of as u64);
                    Call { receiver, number, captures: Vec::new(), writes: false }
                };
                let calls = (0..paths.loops.len()).map(over).collect();
                let step = Go {
                    words,
                    decision: step.decision,
                    ways: step.ways.clone(),
                    calls,
                    place: step.place,
                };
                let place = places[step.place];
                draft.hook(
                    function.index,
                    place,
                    Mode::Before,
                    Action::Inline(Sequence(Arc::new(step))),
                );
            }
            functions.push(Traced { index: function.index, paths, places, words });
        }
        // Planned once.
        let _ = self.functions.set(functions);
    }

    /// The path of an iteration is known only if all of it was seen.
    fn facts(&self) -> Facts {
        Facts::Hooks(Hooks { is_early: true, ..Hooks::default() })
    }

    fn counting(&self) -> &'static [&'static str] {
        &["count"]
    }

    fn report(&self, module: &Module) -> Report {
        let mut report = Report::new("loop-traces", &["count", "function", "pc", "path", "source"]);
        let functions = self.functions.get().map_or(&[][..], Vec::as_slice);
        let counts = self.sums.lock().so_far(|slots, counts| add(functions, slots, counts));
        let names = Places::of(module);
        let mut rows: Vec<_> = counts.into_iter().collect();
        rows.sort_by_key(|((function, of, number), count)| {
            (std::cmp::Reverse(*count), *function, *of, *number)
        });
        let total: u64 = rows.iter().map(|(_, count)| count).sum();
        for ((function, of, number), count) in rows {
            let traced = &functions[function];
            let start = module.inner().info.body(traced.index).start;
            let header = traced.places[traced.paths.loops[of].start];
            let shown =
                |(place, way): (usize, u32)| format!("+{}:{way}", traced.places[place] - start);
            let path = match traced.paths.decisions(of, number) {
                Some(decisions) => decisions.into_iter().map(shown).collect::<Vec<_>>().join(" "),
                None => "(more decisions than there is room for)".into(),
            };
            let source = names.source(header).unwrap_or_default();
            let label =
                Cell::Function { name: module.inner().label(traced.index), index: traced.index };
            report.row([
                count.into(),
                label,
                Cell::place(header - start, start),
                Cell::from(path),
                source.into(),
            ]);
        }
        report.total([("iterations", total)]);
        report.notes.push(format!(
            "{total} iterations; those that a trap or an exception has ended are not among them"
        ));
        report
    }
}

/// Adds the words of an instance.
fn add(functions: &[Traced], slots: InstanceSlots, counts: &mut PathCounts) {
    for (at, function) in functions.iter().enumerate() {
        for of in 0..function.paths.loops.len() {
            let word = function.words.plus(2 * of as u32);
            let [number, count] = [word, word.plus(1)].map(|word| slots.word(word).load(Relaxed));
            // Threads that entered in the middle of an iteration, from another variant, have 0.
            if count > 0 && number > 0 {
                *counts.entry((at, of, number)).or_default() += count;
            }
        }
    }
}

impl Receiver for LoopTraces {
    fn fire(&self, firing: &mut Firing<'_>) {
        let (at, of) = ((firing.number >> 32) as usize, (firing.number & 0xffff_ffff) as usize);
        let Some(function) = self.functions.get().and_then(|functions| functions.get(at)) else {
            return;
        };
        let mut sums = self.sums.lock();
        let Some(slots) = sums.slots(firing.vmctx).filter(|_| firing.values[0][0] != 0) else {
            return;
        };
        let word = function.words.plus(2 * of as u32);
        let (number, count) = (slots.word(word), slots.word(word.plus(1)));
        let before = number.swap(firing.values[0][0], Relaxed);
        let times = count.swap(1, Relaxed);
        if times > 0 {
            *sums.ended.entry((at, of, before)).or_default() += times;
        }
    }

    fn begin(&self, slots: InstanceSlots) {
        self.sums.lock().begin(slots);
    }

    fn end(&self, slots: InstanceSlots) {
        let functions = self.functions.get().map_or(&[][..], Vec::as_slice);
        self.sums.lock().end(slots, |slots, counts| add(functions, slots, counts));
    }
}

/// The variable of a loop's number.
fn variable(words: Word, of: usize) -> u64 {
    u64::from(words.0) << 32 | 1 << 31 | of as u64
}

/// An iteration begins: its number is 1.
#[derive(Debug, Hash)]
struct Begin {
    words: Word,
    of: usize,
}

impl Inline for Begin {
    fn fingerprint(&self) -> u64 {
        fingerprint("loop-traces: begin", self)
    }

    fn emit<'a>(&'a self, at: &mut Emitter<'_, 'a>) -> Result<(), CompileError> {
        let number = at.variable(variable(self.words, self.of));
        let one = at.builder().ins().iconst(types::I64, 1);
        at.builder().def_var(number, one);
        Ok(())
    }
}

/// The effect of an instruction on numbers.
#[derive(Debug)]
struct Go {
    words: Word,
    place: usize,
    decision: Option<(Decision, Option<(usize, u32)>)>,
    ways: Vec<(Condition, Vec<Act>)>,
    /// The calls that report the end of an iteration, by the number of its loop.
    calls: Vec<Call>,
}

impl Inline for Go {
    fn fingerprint(&self) -> u64 {
        fingerprint(
            "loop-traces",
            &(self.words, self.place, &self.decision, &self.ways, &self.calls),
        )
    }

    fn emit<'a>(&'a self, at: &mut Emitter<'_, 'a>) -> Result<(), CompileError> {
        let digit = self.decision.and_then(|(decision, _)| digit(at, decision));
        if let (Some(digit), Some((_, Some((of, bits))))) = (digit, self.decision) {
            self.write(at, of, bits, digit);
        }
        for (when, acts) in &self.ways {
            let condition = match (when, digit) {
                (Condition::Always, _) => None,
                (Condition::Taken, Some(digit)) => Some(digit),
                (Condition::One(entries), Some(digit)) => Some(is_one_of(at, digit, entries)),
                (_, None) => continue,
            };
            self.act(at, condition, acts);
        }
        Ok(())
    }
}

/// The decision, as a number.
fn digit(at: &mut Emitter<'_, '_>, decision: Decision) -> Option<Value> {
    let (value, _) = at.operand(0)?;
    Some(match decision {
        Decision::IsTrue | Decision::IsNotNull => {
            let ins = at.builder();
            let is_true = ins.ins().icmp_imm_s(IntCC::NotEqual, value, 0);
            ins.ins().uextend(types::I64, is_true)
        }
        Decision::IsNull => {
            let ins = at.builder();
            let is_null = ins.ins().icmp_imm_s(IntCC::Equal, value, 0);
            ins.ins().uextend(types::I64, is_null)
        }
        Decision::IsOf { ty, when } => {
            let is = at.is_of(value, ty)?;
            let as_wanted = at.builder().ins().icmp_imm_s(IntCC::Equal, is, i64::from(when));
            at.builder().ins().uextend(types::I64, as_wanted)
        }
        Decision::Entry(last) => {
            let ins = at.builder();
            let value = ins.ins().uextend(types::I64, value);
            let last = ins.ins().iconst(types::I64, i64::from(last));
            ins.ins().umin(value, last)
        }
    })
}

fn is_one_of(at: &mut Emitter<'_, '_>, digit: Value, entries: &[u32]) -> Value {
    let ins = at.builder();
    let mut any = ins.ins().iconst(types::I8, 0);
    for entry in entries {
        let equal = ins.ins().icmp_imm_s(IntCC::Equal, digit, i64::from(*entry));
        any = ins.ins().bor(any, equal);
    }
    any
}

impl Go {
    /// Appends a digit to a number, if it fits.
    fn write(&self, at: &mut Emitter<'_, '_>, of: usize, bits: u32, digit: Value) {
        let variable = at.variable(variable(self.words, of));
        let number = at.builder().use_var(variable);
        let ins = at.builder();
        let high = ins.ins().ushr_imm_u(number, i64::from(63 - bits));
        let shifted = ins.ins().ishl_imm_u(number, i64::from(bits));
        let longer = ins.ins().bor(shifted, digit);
        let too_long = ins.ins().iconst(types::I64, TOO_LONG as i64);
        let longer = ins.ins().select(number, longer, number);
        let number = ins.ins().select(high, too_long, longer);
        ins.def_var(variable, number);
    }

    /// Performs the acts of a way, if it is taken.
    fn act<'a>(&'a self, at: &mut Emitter<'_, 'a>, condition: Option<Value>, acts: &[Act]) {
        let act_all = |at: &mut Emitter<'_, 'a>| {
            for act in acts {
                match act {
                    Act::Write { of, bits, digit } => {
                        let digit = at.builder().ins().iconst(types::I64, i64::from(*digit));
                        self.write(at, *of, *bits, digit);
                    }
                    Act::Over(of) => self.over(at, *of),
                }
            }
        };
        match condition {
            Some(condition) => only_if(at, condition, Weight::Often, act_all),
            None => act_all(at),
        }
    }

    /// Counts an iteration that has ended.
    fn over<'a>(&'a self, at: &mut Emitter<'_, 'a>, of: usize) {
        let word = self.words.plus(2 * of as u32);
        let variable = at.variable(variable(self.words, of));
        let number = at.builder().use_var(variable);
        let before = at.load_word(word);
        let same = at.builder().ins().icmp(IntCC::Equal, number, before);
        let blocks = [(); 3].map(|()| at.builder().create_block());
        let [again, other, next] = blocks;
        at.builder().set_cold_block(other);
        at.builder().ins().brif(same, again, &[], other, &[]);
        at.builder().seal_block(again);
        at.builder().seal_block(other);
        at.builder().switch_to_block(again);
        at.count(word.plus(1));
        at.builder().ins().jump(next, &[]);
        at.builder().switch_to_block(other);
        at.exchange(&self.calls[of], number);
        at.builder().ins().jump(next, &[]);
        at.builder().seal_block(next);
        at.builder().switch_to_block(next);
    }
}
