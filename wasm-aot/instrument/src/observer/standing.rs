//! What of a monitor stands in the code of a program that runs, if its probes can be switched.
//!
//! Each probe has a word that says whether it is called, see `switches`. What is beyond that is
//! thrift: code need not have probes that are off, and then costs what it costs where nobody ever
//! was.
//!
//! - A monitor that is off altogether is not in the code at all: its plan is not observed, or all
//!   of its hooks are left out.
//! - Probes that somebody has switched off are left out of their functions, and put back when they
//!   are switched on.
//! - Probes that have gone by themselves are left out of functions in which the program is seen:
//!   elsewhere it is not worth it.
//!
//! Probes that are on are always in the code: they are put back before anybody hears that they are
//! on.

use super::binding::{Binding, Moment};
use super::contained::Contained;
use super::sequence::Sequence;
use super::switches::Switches;
use crate::lower::{Gate, Layer, Lowering};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use wasm_aot_engine::Error;
use wasm_aot_engine::instrument::compile::{self, Action, Draft, Guest, HookId, Word};
use wasm_aot_engine::instrument::runtime::{Module, Origin, Prunes, When};

/// A probe in a function.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) function: u32,
    pub(super) rule: u16,
    pub(super) id: u32,
    /// Where the instruction is in the module.
    pub(super) offset: u32,
    moment: compile::Moment,
    /// Its hook in the plan that it is in; without one, it will be in one of its own, in order.
    hook: HookId,
    sequence: Arc<Sequence>,
}

/// What a monitor has in a program.
#[derive(Debug)]
pub(super) struct Standing {
    module: Module,
    pub(super) switches: Switches,
    /// By functions, in the order in which they are called.
    probes: Vec<Probe>,
    functions: BTreeMap<u32, Range<usize>>,
    /// Whether its probes keep something in activations, which would be lost in other code.
    is_framed: bool,
    /// Whether code leaves out what is off, and whether it is pruned.
    is_patched: bool,
    is_pruned: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whose hooks the probes are, once they are anybody's.
    origin: Option<Origin>,
    /// Where calls are counted, if they are.
    counter: Option<Word>,
    /// Whether it is to observe, and whether its plan is observed.
    is_wanted: bool,
    is_observed: bool,
    /// Hooks that are left out.
    left_out: BTreeSet<HookId>,
    /// Which of a function's hooks were left out together.
    variants: BTreeMap<u32, BTreeSet<Vec<HookId>>>,
}

/// Hooks, with their functions.
type Hooks = Vec<(u32, HookId)>;

/// In so many ways parts of a function's probes are left out: afterwards their words alone say that
/// they are off.
const VARIANTS: usize = 32;

/// A probe's code is equal to itself only: it knows addresses of this process.
pub(super) fn fingerprint() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Relaxed)
}

/// Where a hook stands.
pub(super) fn standing(binding: &Binding) -> (u32, compile::Moment) {
    match binding.moment {
        Moment::Entry => (0, compile::Moment::Entry),
        Moment::Before | Moment::Taken | Moment::Landed => {
            (binding.offset, compile::Moment::Before)
        }
        Moment::Instead => (binding.offset, compile::Moment::Instead),
        Moment::Inside | Moment::Behind => (binding.offset, compile::Moment::After),
        Moment::Unwind => (0, compile::Moment::Unwind),
    }
}

impl Probe {
    /// The `number`th of a monitor.
    pub(super) fn new(
        (guest, home): (&Arc<Guest>, Option<Word>),
        (number, function, binding): (u32, u32, Binding),
        (switches, gate): (&Switches, Gate),
        contained: Option<&Arc<Contained>>,
    ) -> Self {
        let (_, moment) = standing(&binding);
        let (rule, id, offset) = (binding.rule, binding.id, binding.offset);
        let is_limited = matches!(gate, Gate::Word { is_budget: true, .. });
        let word = switches.word(id);
        let contained =
            contained.map(|contained| contained.call(rule, offset, binding.arguments.len()));
        let (guest, fingerprint) = (Arc::clone(guest), fingerprint());
        let sequence = Sequence {
            guest,
            home,
            binding,
            word,
            is_limited,
            counter: None,
            contained,
            fingerprint,
        };
        Self {
            function,
            rule,
            id,
            offset,
            moment,
            hook: HookId(number),
            sequence: Arc::new(sequence),
        }
    }

    fn is_on(&self) -> bool {
        self.sequence.word.as_ref().is_some_and(super::switches::Word::is_on)
    }

    /// Puts it into a plan that others are in, too.
    pub(super) fn put(&mut self, draft: &mut Draft) {
        self.hook = self.hook(draft);
    }

    fn hook(&self, draft: &mut Draft) -> HookId {
        self.hook_of(&self.sequence, draft)
    }

    fn hook_of(&self, sequence: &Arc<Sequence>, draft: &mut Draft) -> HookId {
        let at = match self.moment {
            compile::Moment::Entry | compile::Moment::Unwind => 0,
            _ => self.offset,
        };
        let sequence = compile::Sequence(Arc::<Sequence>::clone(sequence));
        draft.hook(self.function, at, self.moment, Action::Inline(sequence))
    }

    /// The same, with its calls counted.
    fn hook_counted(&self, counter: Word, draft: &mut Draft) {
        let Sequence { guest, home, binding, word, is_limited, contained, .. } = &*self.sequence;
        let (guest, binding, contained) = (Arc::clone(guest), binding.clone(), contained.clone());
        let (word, counter, fingerprint) = (word.clone(), Some(counter), fingerprint());
        let counted = Sequence {
            guest,
            home: *home,
            binding,
            word,
            is_limited: *is_limited,
            counter,
            contained,
            fingerprint,
        };
        self.hook_of(&Arc::new(counted), draft);
    }
}

impl Standing {
    /// A monitor's probes, by functions, whose words are there. They are in the module's own code
    /// and numbered there, or in a layer of which nothing is in the code so far.
    pub(super) fn new(
        module: &Module,
        probes: Vec<Probe>,
        switches: Switches,
        lowering: &Lowering,
    ) -> Self {
        let is_framed = probes
            .iter()
            .any(|probe| probe.sequence.guest.is_framed(probe.sequence.binding.function));
        let mut functions = BTreeMap::new();
        for (at, probe) in probes.iter().enumerate() {
            let range = functions.entry(probe.function).or_insert(at..at);
            range.end = at + 1;
        }
        let origin = matches!(lowering.layer, Layer::Own(_)).then_some(Origin::Own);
        let (is_patched, is_pruned) = match lowering.gate {
            Gate::Word { is_patched, is_pruned, .. } => (is_patched, is_pruned),
            Gate::Always(_) | Gate::Once(_) => (false, false),
        };
        let state = State { origin, is_observed: origin.is_some(), ..State::default() };
        Self {
            module: module.clone(),
            switches,
            probes,
            functions,
            is_framed,
            is_patched,
            is_pruned,
            state: Mutex::new(state),
        }
    }

    /// Visits each probe.
    pub(super) fn each(&self, visit: impl FnMut(&Probe)) {
        self.probes.iter().for_each(visit);
    }

    /// Whether it observes.
    pub(super) fn is_wanted(&self) -> bool {
        self.state.lock().is_wanted
    }

    /// Says whether it is to observe; that is so once it has [settled](Self::settle).
    pub(super) fn want(&self, on: bool) {
        self.state.lock().is_wanted = on;
    }

    /// Has the code be as probes were switched.
    pub(super) fn settle(&self) -> Result<(), Error> {
        let mut state = self.state.lock();
        let is_due = state.is_wanted && self.switches.on() > 0;
        match state.origin {
            // Where nothing can be switched, words say everything.
            Some(Origin::Own) if !self.is_patched => return Ok(()),
            // It is in the code wherever it is not left out.
            Some(Origin::Own) => return self.become_so(&mut state, !is_due),
            _ => {}
        }
        if is_due {
            self.plan(&mut state)?;
            self.become_so(&mut state, false)?;
        }
        let Some(Origin::Part(part)) = state.origin.filter(|_| state.is_observed != is_due) else {
            return Ok(());
        };
        match is_due {
            true => self.module.observe_also(part)?,
            false => self.module.observe_no_more(part)?,
        }
        state.is_observed = is_due;
        Ok(())
    }

    /// Has hooks left out as probes are off, or all of them, and others put back.
    fn become_so(&self, state: &mut State, without: bool) -> Result<(), Error> {
        let (out, back) = self.differences(state, without);
        self.leave_out(state, &back, false, When::NextTurn)?;
        self.leave_out(state, &out, true, When::NextTurn)
    }

    /// Makes the plan of all probes, if it is not there.
    fn plan(&self, state: &mut State) -> Result<(), Error> {
        if state.origin.is_none() {
            let mut draft = Draft::default();
            if state.counter.is_some() {
                state.counter = Some(draft.words(1));
            }
            for probe in &self.probes {
                match state.counter {
                    Some(counter) => probe.hook_counted(counter, &mut draft),
                    None => drop(probe.hook(&mut draft)),
                }
            }
            state.origin = Some(Origin::Part(self.module.add_part(draft.finish())?));
        }
        Ok(())
    }

    /// Has calls of its probes counted, which takes another plan; tells whether they are. Not if
    /// they are in what the module was compiled with.
    pub(super) fn count(&self) -> Result<bool, Error> {
        let mut state = self.state.lock();
        match state.origin {
            _ if state.counter.is_some() => return Ok(true),
            Some(Origin::Own) => return Ok(false),
            Some(Origin::Part(part)) if state.is_observed => self.module.observe_no_more(part)?,
            _ => {}
        }
        let is_wanted = state.is_wanted;
        *state = State { counter: Some(Word(0)), is_wanted, ..State::default() };
        drop(state);
        self.settle().map(|()| true)
    }

    /// How many calls of its probes were counted by instances that live.
    pub(super) fn events(&self) -> u64 {
        let state = self.state.lock();
        match (state.origin, state.counter) {
            (Some(Origin::Part(part)), Some(counter)) => self.module.part_word(part, counter),
            _ => 0,
        }
    }

    /// The hooks of a function whose probes are off, unless their words should be all that says so.
    fn off(&self, function: u32) -> Vec<HookId> {
        let probes = &self.probes[self.functions[&function].clone()];
        let off: Vec<HookId> =
            probes.iter().filter(|probe| !probe.is_on()).map(|probe| probe.hook).collect();
        if self.is_framed && off.len() < probes.len() { Vec::new() } else { off }
    }

    /// What is to be left out that is there, and what is to be there that is left out; or all of it
    /// is to be left out.
    fn differences(&self, state: &mut State, without: bool) -> (Hooks, Hooks) {
        let (mut out, mut back) = (Vec::new(), Vec::new());
        for (function, range) in &self.functions {
            let all = self.probes[range.clone()].iter().map(|probe| probe.hook);
            let off = if without { all.clone().collect() } else { self.off(*function) };
            let missing = all
                .filter(|hook| state.left_out.contains(hook) && off.binary_search(hook).is_err());
            back.extend(missing.map(|hook| (*function, hook)));
            let variants = state.variants.entry(*function).or_default();
            if off.is_empty()
                || !(off.len() == range.len()
                    || variants.contains(&off)
                    || variants.len() < VARIANTS)
            {
                continue;
            }
            out.extend(
                off.iter()
                    .filter(|hook| !state.left_out.contains(hook))
                    .map(|hook| (*function, *hook)),
            );
            variants.insert(off);
        }
        (out, back)
    }

    fn leave_out(
        &self,
        state: &mut State,
        hooks: &[(u32, HookId)],
        out: bool,
        when: When,
    ) -> Result<(), Error> {
        let Some(origin) = state.origin.filter(|_| !hooks.is_empty()) else { return Ok(()) };
        self.module.leave_out(origin, hooks, out, when)?;
        for (_, hook) in hooks {
            if out {
                state.left_out.insert(*hook)
            } else {
                state.left_out.remove(hook)
            };
        }
        Ok(())
    }

    /// Has probes pruned that switch themselves off, if some may.
    pub(super) fn have_pruned(self: &Arc<Self>) {
        if self.is_pruned {
            let client: Weak<dyn Prunes> = Arc::<Self>::downgrade(self);
            self.module.prune(client);
        }
    }

    /// The probes of a function that are off, and in its code.
    fn dead(&self, state: &State, function: u32) -> impl Iterator<Item = (u32, HookId)> {
        let is_there = state.is_observed && self.functions.contains_key(&function);
        let mut off = if is_there { self.off(function) } else { Vec::new() };
        off.retain(|hook| !state.left_out.contains(hook));
        off.into_iter().map(move |hook| (function, hook))
    }
}

impl Prunes for Standing {
    fn has_dead(&self, function: u32) -> bool {
        self.dead(&self.state.lock(), function).next().is_some()
    }

    fn prune(&self, functions: &[u32]) -> Result<(), Error> {
        let mut state = self.state.lock();
        let dead = functions.iter().flat_map(|function| self.dead(&state, *function));
        let dead: Vec<_> = dead.collect();
        self.leave_out(&mut state, &dead, true, When::NextCall)
    }
}
