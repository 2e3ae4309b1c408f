//! Plans: which hooks are compiled into a variant of a module's code.
//!
//! A plan is a value: variants of a module are equal if their plans are. It is made by a [`Draft`],
//! to which independent monitors add their hooks one after the other. A hook is at an instruction,
//! in a [`Mode`]; several at the same place fire in the order in which they were added.
//!
//! A hook calls a [`Receiver`] with values of the program, emits machine code of its own
//! ([`Inline`]), or is a [`OneShotProbe`]. Its data are words of the instance that it fires in; a
//! draft assigns them.

use super::detours::Detours;
use super::emitter::Emitter;
use super::one_shot::OneShotProbe;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;
use wasm_aot_body::replacement::FallThrough;

/// When a hook fires.
///
/// An instruction is *begun* as often as counts say: a `loop` with every iteration, an `end`
/// whenever control reaches it, also by a branch; `else` and `catch` when the code before falls
/// into them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// The function has been entered; parameters are locals. Stands at no instruction.
    Entry,
    /// The instruction begins. Its operands are on the stack.
    Before,
    /// In place of the instruction: the hook gives its results, or has the instruction executed.
    /// There is at most one.
    Alt,
    /// The instruction itself is executed, because no hook replaces it. Its operands are on the
    /// stack.
    Itself,
    /// Control is after the instruction, having passed through it. Its results are on the stack.
    /// Branches to other places do not fire it.
    After,
    /// The same, after all other hooks there, also if a block that ends there is replaced: control
    /// falls out of the enclosing block.
    Falls,
    /// The call has ended by an exception, which continues from here to its handler.
    Thrown,
    /// The branch goes back to its loop's beginning. The operands that it passes are on the stack.
    BackEdge,
    /// The function is about to be left for its caller, or for a tail call: results, or arguments,
    /// are on the stack. Stands at no instruction.
    Exit,
    /// An exception is about to leave the function. Stands at no instruction.
    Unwind,
    /// A trap, or a failure of the host such as the program's exit, here or in a callee, has
    /// unwound the activation. Its values no longer exist. Stands at no instruction, and no code
    /// fires it.
    Trap,
}

impl Mode {
    /// Whether it is a mode of functions, and not of instructions.
    pub fn is_of_function(self) -> bool {
        matches!(self, Self::Entry | Self::Exit | Self::Unwind | Self::Trap)
    }
}

/// A hook that is compiled in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hook {
    /// The index of the function, among all.
    pub(crate) function: u32,
    /// Where the instruction is in the module; 0 for modes of functions.
    pub offset: u32,
    pub(crate) mode: Mode,
    pub(crate) action: Action,
    /// Its number in the plan that it was made for.
    pub(crate) id: HookId,
    /// How many words come before those of the plan that it was made for: plans may be joined.
    pub(crate) base: u32,
    /// How many hooks of the same place and mode come after it.
    pub(crate) after: u32,
}

/// A hook of a plan, by the order in which hooks were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HookId(pub u32);

/// What a hook does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Calls the host.
    Call(Call),
    /// Executes machine code of its own.
    Inline(Sequence),
    /// Records once that it has fired.
    OneShot(OneShotProbe),
}

/// A word of an instance that a plan has asked for; of several, the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Word(pub u32);

impl Word {
    /// The word `count` places after it.
    pub fn plus(self, count: u32) -> Self {
        // Words of earlier code lie before those that are assigned now.
        Self(self.0.wrapping_add(count))
    }
}

/// A value that a receiver gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Capture {
    /// An operand or a result, counted from the top of the stack.
    Operand(u32),
    /// An operand that the instruction has taken, counted likewise: after it only.
    Taken(u32),
    /// A local.
    Local(u32),
    /// The address of the instruction's access, as an index into its memory.
    Address,
}

/// A call of the host.
#[derive(Clone, Debug)]
pub struct Call {
    /// What is called.
    pub receiver: Arc<dyn Receiver>,
    /// The number by which the receiver identifies the hook.
    pub number: u64,
    /// What it is given.
    pub captures: Vec<Capture>,
    /// Whether the receiver's changes to operands and locals are written back.
    pub writes: bool,
}

impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.receiver, &other.receiver)
            && (self.number, &self.captures, self.writes)
                == (other.number, &other.captures, other.writes)
    }
}

impl Eq for Call {}

impl Hash for Call {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.receiver).cast::<()>().hash(state);
        (self.number, &self.captures, self.writes).hash(state);
    }
}

/// The host's code that a hook calls; it is also notified of instances whose words it uses.
pub trait Receiver: Debug + Send + Sync {
    /// A hook has fired. Machine code waits.
    fn fire(&self, firing: &mut Firing<'_>);

    /// An instance begins: its words, see [`Draft::words`], are zeroes so far.
    fn begin(&self, _slots: InstanceSlots) {}

    /// The thread of an instance has not executed the program for this many ticks: it had to
    /// compile a function that it has called for the first time.
    fn paused(&self, _slots: InstanceSlots, _ticks: u64) {}

    /// Another variant of a function was compiled, of which this is the code: a whole function, or
    /// the entries of its loops. It is not executed so far.
    fn compiled(&self, _function: u32, _code: Range<usize>) {}

    /// An instance ends: its words are freed.
    fn end(&self, _slots: InstanceSlots) {}

    /// A trap has unwound an activation of a function in code with its hooks; the innermost
    /// activation is reported first.
    fn trapped(&self, _function: u32) {}

    /// Machine code is left by a trap or a failure, while an instance's words are what they were
    /// then: before those are [restored](Draft::restore).
    fn cut_off(&self, _slots: InstanceSlots) {}

    /// The receiver has panicked when a hook fired. The program continues.
    fn failed(&self, _why: &str) {}
}

/// The words of an instance that a plan has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InstanceSlots {
    /// The address of the instance's vmctx, by which instances are distinguished.
    pub vmctx: usize,
    /// The address of the first word.
    pub(crate) words: usize,
}

impl InstanceSlots {
    /// That of an instance which has no such words.
    pub fn of_vmctx(vmctx: usize) -> Self {
        Self { vmctx, words: 0 }
    }

    /// The address of a word.
    pub fn address(self, word: Word) -> usize {
        self.words + 8 * word.0 as usize
    }
}

/// A hook that fires.
#[derive(Debug)]
pub struct Firing<'a> {
    /// The number by which the receiver identifies the hook.
    pub number: u64,
    /// The address of the instance's vmctx.
    pub vmctx: usize,
    /// The frame pointer of the activation: no other one that lives has the same.
    pub frame: usize,
    /// What was captured. Numbers with fewer bits are extended with zeroes; only vectors have a
    /// second word that means something.
    pub values: &'a mut [[u64; 2]],
}

/// What an activation with an account of its own takes along when it changes variants in the middle
/// of a loop. It closes its account when it leaves a variant, and opens it again in the next one,
/// if that has the hooks, too: so no account stays open in a variant that does not close it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The number of the [variable](Emitter::variable) that holds the address of the account before
    /// it, perhaps with the lowest bit set; 0 if the activation has opened none.
    pub variable: u64,
    /// The word with the address of the account that is open.
    pub account: Word,
    /// The first of two words that hold the variable and the account meanwhile.
    pub word: Word,
}

/// Machine code of a hook.
pub trait Inline: Debug + Send + Sync {
    /// Equal only for sequences that emit the same code.
    fn fingerprint(&self) -> u64;

    /// Reads the word that says whether it is called, before any hook of the same mode fires: a
    /// change that one of them makes to another takes effect the next time. The result is available
    /// as [`Emitter::due`].
    fn prepare(&self, _at: &mut Emitter<'_, '_>) -> Option<cranelift_codegen::ir::Value> {
        None
    }

    /// What it leaves in place of an instruction that never falls through by itself.
    fn fall_through(&self) -> Option<&FallThrough> {
        None
    }

    /// What a thread takes along when it changes variants in the middle of a loop. It is asked of
    /// hooks at a function's exit.
    fn carried(&self) -> Option<Carried> {
        None
    }

    /// Whether its code may trap.
    fn may_trap(&self) -> bool {
        false
    }

    /// How many values it [keeps](Self::keep).
    fn keeps(&self) -> usize {
        0
    }

    /// Has the values [kept](Emitter::keep) that [`complete`](Self::complete) is given.
    fn keep(&self, _at: &mut Emitter<'_, '_>) -> Result<(), crate::error::CompileError> {
        Ok(())
    }

    /// A hook before it, at the same place and in the same mode, has trapped: does what its code
    /// would have done. Machine code waits.
    fn complete(&self, _firing: &mut Firing<'_>) {}

    /// Emits the code. It ends where translation is to continue.
    fn emit<'a>(&'a self, at: &mut Emitter<'_, 'a>) -> Result<(), crate::error::CompileError>;
}

/// An [`Inline`], which is compared by its fingerprint.
#[derive(Clone, Debug)]
pub struct Sequence(pub Arc<dyn Inline>);

impl PartialEq for Sequence {
    fn eq(&self, other: &Self) -> bool {
        self.0.fingerprint() == other.0.fingerprint()
    }
}

impl Eq for Sequence {}

impl Hash for Sequence {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.fingerprint().hash(state);
    }
}

/// Which hooks are compiled in. Copies are cheap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Plan(Option<Arc<PlanParts>>);

#[derive(Debug, Default)]
struct PlanParts {
    hooks: Vec<Hook>,
    words: u32,
    restored: Vec<Word>,
    receivers: Vec<Arc<dyn Receiver>>,
    /// Whether unwound frames of its code are recorded.
    notes_partial_exits: bool,
    /// Instructions that may be replaced, with their functions, in order.
    replaceable: BTreeSet<(u32, u32)>,
}

impl PartialEq for PlanParts {
    fn eq(&self, other: &Self) -> bool {
        (&self.hooks, self.words, &self.restored, &self.replaceable)
            == (&other.hooks, other.words, &other.restored, &other.replaceable)
            && self.receivers.len() == other.receivers.len()
            && self.receivers.iter().zip(&other.receivers).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

impl Eq for PlanParts {}

impl PlanParts {
    fn replaceable_in(&self, function: u32) -> impl Iterator<Item = u32> {
        self.replaceable.range((function, 0)..=(function, u32::MAX)).map(|(_, offset)| *offset)
    }
}

impl Hash for PlanParts {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.hooks, self.words, &self.restored).hash(state);
    }
}

impl Plan {
    /// The instructions of a function that may be replaced, in order: those that have a hook in
    /// their place, and those that may get one later.
    pub fn replaceable(&self, function: u32) -> Vec<u32> {
        let all = self.0.iter().flat_map(|parts| parts.replaceable_in(function));
        all.collect()
    }

    /// The functions with such instructions, in order.
    pub(super) fn functions_with_replaceable(&self) -> Vec<u32> {
        let all = self.0.iter().flat_map(|parts| &parts.replaceable);
        let mut functions: Vec<u32> = all.map(|(function, _)| *function).collect();
        functions.dedup();
        functions
    }

    /// How many words of each instance the hooks use.
    pub(crate) fn words(&self) -> u32 {
        self.0.as_ref().map_or(0, |parts| parts.words)
    }

    /// Several plans in one, each with the number of words that come before its own, and with the
    /// hooks of it that are wanted. Receivers and words that are restored stay with the plans.
    pub(crate) fn joined(plans: &[(Self, u32)], is_wanted: impl Fn(usize, HookId) -> bool) -> Self {
        let mut all = PlanParts::default();
        for (number, (plan, base)) in plans.iter().enumerate() {
            let Some(parts) = &plan.0 else { continue };
            all.notes_partial_exits |= parts.notes_partial_exits;
            let wanted = parts.hooks.iter().filter(|hook| is_wanted(number, hook.id));
            all.hooks.extend(wanted.map(|hook| Hook { base: *base, ..hook.clone() }));
        }
        // The hooks of the plan that comes first fire first.
        sort(&mut all.hooks);
        Self((!all.hooks.is_empty() || all.notes_partial_exits).then(|| Arc::new(all)))
    }

    /// Where its hooks are in memory, for as long as the plan or a copy of it is kept.
    pub(crate) fn place(&self) -> Range<usize> {
        self.0.as_ref().map_or(0..0, |parts| {
            let Range { start, end } = parts.hooks.as_ptr_range();
            start as usize..end as usize
        })
    }

    /// Whether frames are recorded that traps and the like unwind.
    pub(crate) fn notes_partial_exits(&self) -> bool {
        self.0.as_ref().is_some_and(|parts| parts.notes_partial_exits)
    }

    /// Whether a function has hooks.
    pub(crate) fn concerns(&self, function: u32) -> bool {
        !self.of(function).is_empty()
    }

    /// Whether an instruction of a function has a hook.
    pub(crate) fn has_hook_at(&self, function: u32, offset: u32) -> bool {
        let own = self.of(function);
        let place = own.partition_point(|hook| hook.offset < offset);
        own.get(place).is_some_and(|hook| hook.offset == offset)
    }

    /// What the hooks of a function are known by.
    pub(crate) fn hooks_of(&self, function: u32) -> impl Iterator<Item = HookId> {
        self.of(function).iter().map(|hook| hook.id)
    }

    /// Words that are restored to their values at the entry of machine code if it is left by a trap
    /// or a failure.
    pub(crate) fn restored(&self) -> &[Word] {
        self.0.as_ref().map_or(&[], |parts| &parts.restored)
    }

    /// The receivers, which are notified of instances.
    pub(crate) fn receivers(&self) -> &[Arc<dyn Receiver>] {
        self.0.as_ref().map_or(&[], |parts| &parts.receivers)
    }

    /// The hooks of a function, in order. Their addresses are stable as long as the plan or a copy
    /// of it is kept.
    pub(super) fn of(&self, function: u32) -> &[Hook] {
        let Some(parts) = &self.0 else { return &[] };
        let from = parts.hooks.partition_point(|hook| hook.function < function);
        let len = parts.hooks[from..].partition_point(|hook| hook.function == function);
        &parts.hooks[from..from + len]
    }

    /// Whether control continues in a function after instructions that never fall through by
    /// themselves: its locals have other live ranges then.
    pub(super) fn falls_through(&self, function: u32) -> bool {
        self.falls_through_without(function, |_| false)
    }

    /// The same if some hooks are left out.
    pub(crate) fn falls_through_without(
        &self,
        function: u32,
        is_left_out: impl Fn(HookId) -> bool,
    ) -> bool {
        let mut hooks = self.of(function).iter();
        hooks.any(|hook| hook.fall_through().is_some() && !is_left_out(hook.id))
    }
}

/// Sorts hooks by their events, without a change of their order in an event.
fn sort(hooks: &mut [Hook]) {
    hooks.sort_by_key(Hook::event);
    let events = hooks.chunk_by_mut(|one, other| one.event() == other.event());
    events.for_each(|event| {
        (0..).zip(event.iter_mut().rev()).for_each(|(after, hook)| hook.after = after);
    });
}

impl Hook {
    /// The event at which it fires.
    fn event(&self) -> (u32, u32, Mode) {
        (self.function, self.offset, self.mode)
    }

    /// What it leaves in place of an instruction that never falls through by itself.
    pub(super) fn fall_through(&self) -> Option<&FallThrough> {
        match &self.action {
            Action::Inline(sequence) if self.mode == Mode::Alt => sequence.0.fall_through(),
            _ => None,
        }
    }
}

/// A plan that is being made.
#[derive(Debug, Default)]
pub struct Draft(PlanParts);

impl Draft {
    /// A draft of a plan that is attached to a module with a plan of its own. That plan, and others
    /// that were attached, may replace instructions.
    pub(crate) fn beside(own: &Plan, detours: &Detours) -> Self {
        let own = own.0.iter().flat_map(|parts| parts.replaceable.iter().copied());
        let replaceable = own.chain(detours.replaceable()).collect();
        Self(PlanParts { replaceable, ..PlanParts::default() })
    }

    /// Assigns words of every instance, which are zeroes when it begins.
    pub fn words(&mut self, count: u32) -> Word {
        let first = Word(self.0.words);
        self.0.words += count;
        first
    }

    /// Has a word restored to its value at the entry of machine code if it is left by a trap or a
    /// failure.
    pub fn restore(&mut self, word: Word) {
        self.0.restored.push(word);
    }

    /// Has an instruction considered replaceable: a later plan may put a hook in its place.
    pub fn may_be_replaced(&mut self, function: u32, offset: u32) {
        self.0.replaceable.insert((function, offset));
    }

    /// The instructions of a function that may be replaced, in order.
    pub fn replaceable(&self, function: u32) -> Vec<u32> {
        self.0.replaceable_in(function).collect()
    }

    /// Has frames recorded that traps and the like unwind.
    pub fn note_partial_exits(&mut self) {
        self.0.notes_partial_exits = true;
    }

    /// Adds a receiver that is notified of instances. A receiver that is only called need not be
    /// added.
    pub fn add_receiver(&mut self, receiver: Arc<dyn Receiver>) {
        self.0.receivers.push(receiver);
    }

    /// Adds a hook at an instruction, or, depending on its mode, at none, after the existing ones.
    pub fn hook(&mut self, function: u32, offset: u32, mode: Mode, action: Action) -> HookId {
        let offset = if mode.is_of_function() { 0 } else { offset };
        if mode == Mode::Alt {
            self.may_be_replaced(function, offset);
        }
        let id = HookId(self.0.hooks.len() as u32);
        self.0.hooks.push(Hook { function, offset, mode, action, id, base: 0, after: 0 });
        id
    }

    /// Adds a hook of a mode of functions.
    pub fn hook_function(&mut self, function: u32, mode: Mode, action: Action) -> HookId {
        debug_assert!(mode.is_of_function() && mode != Mode::Trap);
        self.hook(function, 0, mode, action)
    }

    /// How many hooks are one-shot probes, machine code, and calls of the host.
    pub fn census(&self) -> [usize; 3] {
        let count = |is_meant: fn(&Action) -> bool| {
            self.0.hooks.iter().filter(|hook| is_meant(&hook.action)).count()
        };
        [
            count(|action| matches!(action, Action::OneShot(_))),
            count(|action| matches!(action, Action::Inline(_))),
            count(|action| matches!(action, Action::Call(_))),
        ]
    }

    /// The plan.
    pub fn finish(mut self) -> Plan {
        // The hook that was added first fires first.
        sort(&mut self.0.hooks);
        let PlanParts { hooks, words, receivers, replaceable, .. } = &self.0;
        let is_empty = hooks.is_empty() && receivers.is_empty() && replaceable.is_empty();
        Plan((!is_empty || *words > 0).then(|| Arc::new(self.0)))
    }
}
