//! Measures time in machine code: the current account is charged with the time since the clock was
//! last read.
//!
//! An *account* is two words in memory: ticks, and how often it was opened. At each moment one
//! account of an instance is charged. A switch to another one charges the present one with the time
//! that has passed, so that every tick is charged once, except for the cost of reading the clock.
//! The words that hold an instance's current account are an [`AccountClock`].

use super::outline::{Function, Outline};
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Instant;
use wasm_aot_engine::instrument::compile::{
    Action, Carried, Draft, Emitter, InstanceSlots, Mode, Word,
};
use wasm_aot_engine::instrument::vm::Builtin;
use wasm_aot_engine::instrument::vm::context::AccountClock;
use wasmparser::Operator;
use wordpatch::Ticks;

/// The words that hold an instance's current account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Meter {
    /// The first of them: the address of the account that is charged.
    current: Word,
}

/// The word of a meter that is a field of its clock.
macro_rules! word {
    ($meter:expr, $field:ident) => {
        $meter.current.plus((std::mem::offset_of!(AccountClock, $field) / 8) as u32)
    };
}

/// The words of a clock. Behind them, a thread that changes variants keeps a variable and an
/// account.
const CLOCK: u32 = (size_of::<AccountClock>() / 8) as u32;
/// The cost of a reading of the clock of which the time is not charged: less has always passed.
const NEVER: u64 = u64::MAX;
/// The offset, in an account, of how often it was opened.
const COUNT: i32 = 8;

impl Meter {
    /// A meter in every instance. After a trap, the account is charged again that was charged when
    /// machine code was entered.
    pub(super) fn new(draft: &mut Draft) -> Self {
        let current = draft.words(CLOCK + 2);
        draft.restore(current);
        Self { current }
    }

    /// Begins an instance: time is charged to that account. Contexts are only counted if their
    /// calls take less than `least` ticks.
    pub(super) fn begin(self, slots: InstanceSlots, account: usize, least: u64) {
        slots.word(self.current).store(account as u64, Relaxed);
        slots.word(word!(self, reading)).store(reading(), Relaxed);
        slots.word(word!(self, least)).store(least, Relaxed);
        slots.word(word!(self, last)).store(Ticks::now().0, Relaxed);
    }

    /// The address of the current account, and how much it would be charged now.
    pub(super) fn due(self, slots: InstanceSlots) -> (usize, u64) {
        let last = slots.word(word!(self, last));
        let rests = slots.word(word!(self, reading)).load(Relaxed) == NEVER;
        // The instance may be running: then the clock may be read meanwhile.
        loop {
            let began = last.load(Acquire);
            let account = slots.word(self.current).load(Acquire) as usize;
            let passed = if rests { 0 } else { Ticks::now().0.saturating_sub(began) };
            if last.load(Acquire) == began {
                return (account, passed);
            }
        }
    }

    /// Has nothing charged from now on, until it is resumed. What is due was charged before.
    pub(super) fn rest(self, slots: InstanceSlots) {
        slots.word(word!(self, reading)).store(NEVER, Relaxed);
    }

    /// Has accounts charged from now on. Activations that have changed variants meanwhile have
    /// none.
    pub(super) fn resume(self, slots: InstanceSlots) {
        slots.word(self.carried().word).store(0, Relaxed);
        slots.word(word!(self, last)).store(Ticks::now().0, Relaxed);
        slots.word(word!(self, reading)).store(reading(), Relaxed);
    }

    /// Records that the due time was charged.
    pub(super) fn charged(self, slots: InstanceSlots) {
        slots.word(word!(self, last)).store(Ticks::now().0, Relaxed);
    }

    /// Excludes this much of the time that has passed from all accounts. Called by the instance's
    /// own thread.
    pub(super) fn paused(self, slots: InstanceSlots, ticks: u64) {
        let last = slots.word(word!(self, last));
        last.store(resumed(last.load(Relaxed), ticks, Ticks::now().0), Relaxed);
    }

    /// The account that is charged.
    pub(super) fn current(self, at: &mut Emitter<'_, '_>) -> Value {
        at.load_word(self.current)
    }

    /// Charges the present account, and from now on another one.
    pub(super) fn switch(self, at: &mut Emitter<'_, '_>, to: Value) {
        self.builtin(at, Builtin::Charge, &[to]);
    }

    /// Has the runtime do something with the instance's clock.
    pub(super) fn builtin(self, at: &mut Emitter<'_, '_>, builtin: Builtin, with: &[Value]) {
        let (vmctx, words) = (at.vmctx(), at.word(self.current));
        let words = at.builder().ins().iadd_imm_s(vmctx, i64::from(words));
        at.builtin(builtin, &[&[words], with].concat());
    }

    /// Charges another account from now on, including the time since the last charge.
    pub(super) fn replace(self, at: &mut Emitter<'_, '_>, account: Value) {
        at.store_word(self.current, account);
    }

    /// Opens an account again, and charges it from now on. The activation saves the account that
    /// was charged before.
    pub(super) fn open(self, at: &mut Emitter<'_, '_>, account: Value, before: Value) {
        at.count_at(account, COUNT);
        let variable = self.before(at);
        at.builder().def_var(variable, before);
        self.switch(at, account);
    }

    /// Charges the account again that was charged before.
    pub(super) fn close(self, at: &mut Emitter<'_, '_>) {
        let variable = self.before(at);
        let before = at.builder().use_var(variable);
        // An activation that has come here from a variant without these hooks has opened no
        // account.
        let present = self.current(at);
        let to = at.builder().ins().select(before, before, present);
        self.switch(at, to);
    }

    /// The variable in which the activation saves the account that was charged before. An account
    /// that is opened at an instruction is closed there; others are closed by the function.
    pub(super) fn before(self, at: &mut Emitter<'_, '_>) -> Variable {
        at.variable(self.before_of_function() | u64::from(at.hook().offset))
    }

    /// The number of that variable for an account that the function opens.
    fn before_of_function(self) -> u64 {
        u64::from(self.current.0) << 32
    }

    /// What stays when its function changes variants.
    pub(super) fn carried(self) -> Carried {
        let (variable, account) = (self.before_of_function(), self.current);
        Carried { variable, account, word: account.plus(CLOCK) }
    }
}

/// The time that is charged next begins here, after a pause of so many ticks. A monitor that was
/// attached during the pause has begun its clock then: the rest of the pause is all that it has
/// to exclude.
fn resumed(last: u64, ticks: u64, now: u64) -> u64 {
    last.saturating_add(ticks).min(now)
}

/// The cost of reading the clock, in ticks: the least of four means.
pub(super) fn reading() -> u64 {
    const READINGS: u64 = 16;
    let mean = || {
        let begin = Ticks::now();
        let last = (0..READINGS).fold(begin, |_, _| std::hint::black_box(Ticks::now()));
        last.since(begin).0 / READINGS
    };
    (0..4).map(|_| mean()).min().unwrap_or_default()
}

/// The event of a hook.
pub(super) enum Span {
    /// A call of a function begins.
    Begin(u32),
    /// It ends, by whichever way.
    End,
}

/// Puts hooks where a function is entered and left, and around its calls of imported functions. A
/// function or a call that has no landing for exceptions may keep values in registers that calls
/// preserve; so there are landings only where they are needed.
pub(super) fn put_spans(
    draft: &mut Draft,
    outline: &Outline<'_>,
    function: &Function<'_>,
    mut action: impl FnMut(Span) -> Action,
) {
    draft.hook_function(function.index, Mode::Entry, action(Span::Begin(function.index)));
    draft.hook_function(function.index, Mode::Exit, action(Span::End));
    if outline.needs_unwinding(function.index) {
        draft.hook_function(function.index, Mode::Unwind, action(Span::End));
    }
    for instruction in &function.instructions {
        if let Operator::Call { function_index } = instruction.op
            && function_index < outline.info.imported.functions
        {
            let mut put = |mode, span| {
                draft.hook(function.index, instruction.at, mode, action(span));
            };
            put(Mode::Before, Span::Begin(function_index));
            put(Mode::After, Span::End);
            if outline.catches() {
                put(Mode::Thrown, Span::End);
            }
        }
    }
}

/// The rate of ticks: they are compared with the system's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed(Ticks, Instant);

impl Speed {
    /// Begins now.
    pub(super) fn since_now() -> Self {
        Self(Ticks::now(), Instant::now())
    }

    /// Ticks in a second.
    pub(super) fn hz(self) -> f64 {
        // So that the time between the readings of the two clocks is negligible.
        while self.1.elapsed().as_millis() < 2 {
            std::hint::spin_loop();
        }
        Ticks::now().since(self.0).0 as f64 / self.1.elapsed().as_secs_f64()
    }
}

/// A time as people read it.
pub(super) fn shown(seconds: f64) -> String {
    profiler::human::time(seconds * 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_began_during_a_pause_charges_nothing_of_it() {
        // The thread paused from 100 to 150.
        assert_eq!(resumed(90, 50, 155), 140);
        assert_eq!(resumed(130, 50, 155), 155);
        // A switch charges the difference, which is never below zero.
        assert_eq!(155 - resumed(149, 50, 155), 0);
    }
}
