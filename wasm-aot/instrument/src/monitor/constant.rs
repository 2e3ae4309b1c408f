//! `const`: which arguments of functions are always the same.
//!
//! The first call of a function in an instance keeps its arguments in words of the instance; every
//! later one adds to a second word, for each, the bits that differ. So no code depends on earlier
//! values, and an argument whose second word is zero at the end was constant.

use super::hooked::{HookedMonitor, Weight, fingerprint, only_if};
use super::outline::Outline;
use super::sums::InstanceSums;
use super::trace::shown;
use super::{Cell, Choice, MonitorError, Report};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, condcodes::IntCC, types};
use parking_lot::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use wasm_aot_engine::CompileError;
use wasm_aot_engine::ValType;
use wasm_aot_engine::instrument::compile::{
    Action, Draft, Emitter, Firing, Inline, InstanceSlots, Mode, Receiver, Sequence, Word,
};
use wasm_aot_engine::instrument::runtime::{Module, Places};

/// The monitor.
#[derive(Debug)]
pub(super) struct Constants {
    choice: Choice,
    functions: OnceLock<Vec<ComparedFunction>>,
    /// The observations of each function.
    sums: Mutex<InstanceSums<Vec<Seen>>>,
}

/// A function with parameters, and its words: calls, then for each half of each parameter the first
/// value, and which bits were others.
#[derive(Debug)]
struct ComparedFunction {
    index: u32,
    params: Vec<ValType>,
    words: Word,
}

/// The observed arguments of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    calls: u64,
    /// First values and differing bits, two words each.
    values: Vec<([u64; 2], [u64; 2])>,
}

/// Makes the monitor.
pub(super) fn constant_monitor(choice: &Choice) -> Result<Arc<dyn HookedMonitor>, MonitorError> {
    let (functions, sums) = Default::default();
    Ok(Arc::new(Constants { choice: choice.clone(), functions, sums }))
}

impl HookedMonitor for Constants {
    fn plan(self: Arc<Self>, outline: &Outline<'_>, draft: &mut Draft) {
        draft.add_receiver(Arc::<Self>::clone(&self));
        let mut functions = Vec::new();
        for function in outline.chosen(&self.choice) {
            let params = outline.info.function_type(function.index).params().to_vec();
            if params.is_empty() {
                continue;
            }
            let words = draft.words(1 + 4 * params.len() as u32);
            let compare = Compare { words, params: params.len() as u32 };
            draft.hook_function(
                function.index,
                Mode::Entry,
                Action::Inline(Sequence(Arc::new(compare))),
            );
            functions.push(ComparedFunction { index: function.index, params, words });
        }
        // Planned once.
        let _ = self.functions.set(functions);
    }

    fn report(&self, module: &Module) -> Report {
        let mut report =
            Report::new("const", &["function", "calls", "arguments", "constant", "source"]);
        let functions = self.functions.get().map_or(&[][..], Vec::as_slice);
        let sums = self.sums.lock().so_far(|slots, all| add(functions, slots, all));
        let (places, mut all, mut constant) = (Places::of(module), 0u64, 0u64);
        for (function, seen) in functions.iter().zip(sums).filter(|(_, seen)| seen.calls > 0) {
            let each = seen.values.iter().zip(&function.params);
            let shown: Vec<String> = each
                .map(
                    |((first, others), ty)| {
                        if *others == [0; 2] { shown(*ty, *first) } else { "?".into() }
                    },
                )
                .collect();
            let same = shown.iter().filter(|argument| *argument != "?").count();
            (all, constant) = (all + shown.len() as u64, constant + same as u64);
            let arguments = format!("({})", shown.join(", "));
            let (name, source) =
                (module.inner().label(function.index), places.of_function(function.index));
            let label = Cell::Function { name, index: function.index };
            report.row([label, seen.calls.into(), arguments.into(), same.into(), source.into()]);
        }
        report.rows.sort_by_key(|row| std::cmp::Reverse((row[3].sum() > 0, row[1].sum())));
        report.total_of(["calls"]);
        report.total([("arguments", all), ("constant", constant)]);
        report.notes.push(format!("{constant} of {all} arguments were always the same"));
        report
    }
}

/// Adds what an instance has seen of each function.
fn add(functions: &[ComparedFunction], slots: InstanceSlots, all: &mut Vec<Seen>) {
    all.resize_with(functions.len(), Seen::default);
    all.iter_mut().zip(functions).for_each(|(seen, function)| seen.add(function.seen(slots)));
}

impl ComparedFunction {
    /// The observations of an instance.
    fn seen(&self, slots: InstanceSlots) -> Seen {
        let word = |at: u32| slots.word(self.words.plus(at)).load(Relaxed);
        let values = (0..self.params.len() as u32).map(|i| {
            let at = 1 + 4 * i;
            ([word(at), word(at + 1)], [word(at + 2), word(at + 3)])
        });
        Seen { calls: word(0), values: values.collect() }
    }
}

impl Seen {
    /// Adds the observations of another instance: its first values may differ.
    fn add(&mut self, other: Self) {
        if self.calls == 0 {
            *self = other;
            return;
        }
        if other.calls == 0 {
            return;
        }
        self.calls += other.calls;
        for ((first, others), (other_first, other_others)) in
            self.values.iter_mut().zip(other.values)
        {
            for half in 0..2 {
                others[half] |= other_others[half] | (first[half] ^ other_first[half]);
            }
        }
    }
}

impl Receiver for Constants {
    fn fire(&self, _: &mut Firing<'_>) {}

    fn begin(&self, slots: InstanceSlots) {
        self.sums.lock().begin(slots);
    }

    fn end(&self, slots: InstanceSlots) {
        let functions = self.functions.get().map_or(&[][..], Vec::as_slice);
        self.sums.lock().end(slots, |slots, all| add(functions, slots, all));
    }
}

/// The code that compares arguments with the first ones.
#[derive(Debug, Hash)]
struct Compare {
    words: Word,
    params: u32,
}

impl Inline for Compare {
    fn fingerprint(&self) -> u64 {
        fingerprint("const", self)
    }

    fn emit<'a>(&'a self, at: &mut Emitter<'_, 'a>) -> Result<(), CompileError> {
        let halves: Vec<(u32, Value)> =
            (0..self.params).flat_map(|index| halves(at, index)).collect();
        let calls = at.load_word(self.words);
        let more = at.builder().ins().iadd_imm_s(calls, 1);
        at.store_word(self.words, more);
        let is_first = at.builder().ins().icmp_imm_s(IntCC::Equal, calls, 0);
        only_if(at, is_first, Weight::Seldom, |at| {
            halves.iter().for_each(|(word, value)| at.store_word(self.words.plus(*word), *value));
        });
        for (word, value) in halves {
            let first = at.load_word(self.words.plus(word));
            let differs = at.builder().ins().bxor(first, value);
            let before = at.load_word(self.words.plus(word + 2));
            let all = at.builder().ins().bor(before, differs);
            at.store_word(self.words.plus(word + 2), all);
        }
        Ok(())
    }
}

/// A parameter as words: one, or two of a vector; and which word of the function's has the first
/// value.
fn halves(at: &mut Emitter<'_, '_>, index: u32) -> Vec<(u32, Value)> {
    let Some((value, ty)) = at.local(index) else { return Vec::new() };
    let (word, builder) = (1 + 4 * index, at.builder());
    let extended = |value, builder: &mut cranelift_frontend::FunctionBuilder<'_>| {
        builder.ins().uextend(types::I64, value)
    };
    match ty {
        ValType::I32 => vec![(word, extended(value, builder))],
        ValType::F32 => {
            let bits = builder.ins().bitcast(types::I32, MemFlagsData::new(), value);
            vec![(word, extended(bits, builder))]
        }
        ValType::F64 => vec![(word, builder.ins().bitcast(types::I64, MemFlagsData::new(), value))],
        ValType::V128 => {
            let little =
                MemFlagsData::new().with_endianness(cranelift_codegen::ir::Endianness::Little);
            let wide = builder.ins().bitcast(types::I64X2, little, value);
            [0u8, 1]
                .map(|half| (word + u32::from(half), builder.ins().extractlane(wide, half)))
                .to_vec()
        }
        ValType::I64 | ValType::Ref(_) => vec![(word, value)],
    }
}
