//! The strategy of a switchable monitor that has probes in the program's code: which of them are
//! compiled into which functions at the moment.
//!
//! Each probe has a word that decides whether it is called, see `switches`. The rest saves time: a
//! probe that is off need not be in the code, and then costs nothing.
//!
//! - A monitor that is off as a whole is not in the code: its plan is not observed, or all of
//!   its hooks are left out.
//! - Probes that a user has switched off are left out of their functions, and put back when
//!   they are switched on.
//! - Probes that have switched themselves off are pruned from functions that are being executed; in
//!   other functions this is not worth the cost.
//!
//! Probes that are on are always in the code: they are put back before the request to switch them
//! on is answered.

use super::binding::Binding;
use super::contained::Contained;
use super::sequence::Sequence;
use super::strategy::{Strategy, SwitchableProbe};
use super::switches::Switches;
use super::texts::BufferMemories;
use crate::lower::{Gate, Layer, Lowering};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Weak};
use wasm_aot_engine::Error;
use wasm_aot_engine::instrument::compile::{Draft, Guest, HookId, Word};
use wasm_aot_engine::instrument::runtime::{Module, ObservedLayer, Origin, Prunes, TakesEffect};

/// A probe in a function.
#[derive(Debug)]
pub(super) struct InstalledProbe {
    function: u32,
    /// Its hook in the plan that contains it. A probe without one will be in a plan of its own, in
    /// order.
    hook: HookId,
    sequence: Arc<Sequence>,
}

/// The probes that a monitor has in a program.
#[derive(Debug)]
pub(super) struct Installed {
    module: Module,
    switches: Switches,
    /// By functions, in the order in which they are called.
    probes: Vec<InstalledProbe>,
    functions: BTreeMap<u32, Range<usize>>,
    /// Whether its probes keep state in activations, which would be lost in another variant.
    is_framed: bool,
    /// Whether variants leave out probes that are off, and whether dead probes are pruned.
    is_patched: bool,
    is_pruned: bool,
    state: Mutex<InstalledState>,
}

#[derive(Debug, Default)]
struct InstalledState {
    /// The plan that the hooks belong to, once there is one.
    origin: Option<Origin>,
    /// The counter of calls, if they are counted.
    counter: Option<Word>,
    /// Whether it is to observe, and whether its plan is observed.
    is_wanted: bool,
    is_observed: bool,
    /// Hooks that are left out.
    left_out: BTreeSet<HookId>,
    /// The sets of a function's hooks that were left out together.
    variants: BTreeMap<u32, BTreeSet<Vec<HookId>>>,
}

/// Hooks, with their functions.
type HookList = Vec<(u32, HookId)>;

/// At most this many subsets of a function's probes are left out. After that, probes are switched
/// off by their words alone.
const VARIANTS: usize = 32;

impl InstalledProbe {
    /// A monitor's probes, by functions, as they were lowered.
    pub(super) fn all(
        guest: (&Arc<Guest>, Option<Word>),
        list: Vec<(u32, Binding)>,
        (switches, buffer_memories): (&Switches, &BufferMemories),
        lowering: &Lowering,
        contained: Option<&Arc<Contained>>,
    ) -> Vec<Self> {
        let is_limited = matches!(lowering.gate, Gate::Word { is_budget: true, .. });
        let probe = |(number, (function, binding)): (u32, (u32, Binding))| {
            let word = switches.word(binding.id);
            let contained = contained.map(|contained| {
                contained.call(binding.rule, binding.offset, binding.arguments.len())
            });
            let plain = Sequence::new(guest, buffer_memories, binding);
            let sequence = Arc::new(Sequence { word, is_limited, contained, ..plain });
            Self { function, hook: HookId(number), sequence }
        };
        (0..).zip(list).map(probe).collect()
    }

    fn is_on(&self) -> bool {
        self.sequence.word.as_ref().is_some_and(super::switches::Word::is_on)
    }

    /// Puts it into a plan that other probes share.
    pub(super) fn put(&mut self, draft: &mut Draft) {
        self.hook = Arc::clone(&self.sequence).put(self.function, draft);
    }
}

impl Installed {
    /// A monitor's probes, by functions, whose words exist already. They are in the module's own
    /// code and numbered there, or in a layer that is not yet in the code.
    pub(super) fn new(
        module: &Module,
        probes: Vec<InstalledProbe>,
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
        let state =
            InstalledState { origin, is_observed: origin.is_some(), ..InstalledState::default() };
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

    /// Leaves out the hooks of probes that are off, or all hooks, and puts the others back.
    fn become_so(&self, state: &mut InstalledState, without: bool) -> Result<(), Error> {
        let (out, back) = self.differences(state, without);
        self.leave_out(state, &back, false, TakesEffect::NextIteration)?;
        self.leave_out(state, &out, true, TakesEffect::NextIteration)
    }

    /// Makes the plan of all probes, if it does not exist.
    fn plan(&self, state: &mut InstalledState) -> Result<(), Error> {
        if state.origin.is_none() {
            let mut draft = Draft::default();
            if state.counter.is_some() {
                state.counter = Some(draft.words(1));
            }
            for InstalledProbe { function, sequence, .. } in &self.probes {
                let sequence = match state.counter {
                    Some(counter) => Arc::new(sequence.counted(counter)),
                    None => Arc::clone(sequence),
                };
                sequence.put(*function, &mut draft);
            }
            state.origin = Some(Origin::Plan(self.module.add_plan(draft.finish())?));
        }
        Ok(())
    }

    /// The hooks of a function whose probes are off, unless they are to be off by their words
    /// alone.
    fn off(&self, function: u32) -> Vec<HookId> {
        let probes = &self.probes[self.functions[&function].clone()];
        let off: Vec<HookId> =
            probes.iter().filter(|probe| !probe.is_on()).map(|probe| probe.hook).collect();
        if self.is_framed && off.len() < probes.len() { Vec::new() } else { off }
    }

    /// The hooks that are in the code and are to be left out, and those that are left out and are
    /// to be put back. If `without`, all are to be left out.
    fn differences(&self, state: &mut InstalledState, without: bool) -> (HookList, HookList) {
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
        state: &mut InstalledState,
        hooks: &[(u32, HookId)],
        out: bool,
        when: TakesEffect,
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

    /// Arranges for probes to be pruned that switch themselves off, if the monitor has such probes.
    pub(super) fn have_pruned(self: &Arc<Self>) {
        if self.is_pruned {
            let client: Weak<dyn Prunes> = Arc::<Self>::downgrade(self);
            self.module.prune(client);
        }
    }

    /// The probes of a function that are off, but still in its code.
    fn dead(&self, state: &InstalledState, function: u32) -> impl Iterator<Item = (u32, HookId)> {
        let is_there = state.is_observed && self.functions.contains_key(&function);
        let mut off = if is_there { self.off(function) } else { Vec::new() };
        off.retain(|hook| !state.left_out.contains(hook));
        off.into_iter().map(move |hook| (function, hook))
    }
}

impl Strategy for Installed {
    fn switches(&self) -> &Switches {
        &self.switches
    }

    fn probes(&self) -> Box<dyn Iterator<Item = SwitchableProbe> + '_> {
        let point =
            |probe: &InstalledProbe| SwitchableProbe::of(probe.function, &probe.sequence.binding);
        Box::new(self.probes.iter().map(point))
    }

    fn is_wanted(&self) -> bool {
        self.state.lock().is_wanted
    }

    fn apply_switches(&self, is_wanted: bool) -> Result<(), Error> {
        let mut state = self.state.lock();
        state.is_wanted = is_wanted;
        let is_due = is_wanted && self.switches.on() > 0;
        match state.origin {
            // Where code cannot be patched, the words alone switch probes.
            Some(Origin::Own) if !self.is_patched => return Ok(()),
            // A probe is in the code unless it is left out.
            Some(Origin::Own) => return self.become_so(&mut state, !is_due),
            _ => {}
        }
        if is_due {
            self.plan(&mut state)?;
            self.become_so(&mut state, false)?;
        }
        let Some(Origin::Plan(plan)) = state.origin.filter(|_| state.is_observed != is_due) else {
            return Ok(());
        };
        match is_due {
            true => self.module.observe(&[ObservedLayer::Plan(plan)])?,
            false => self.module.observe_no_more(&[ObservedLayer::Plan(plan)])?,
        }
        state.is_observed = is_due;
        Ok(())
    }

    /// Uses another plan. Not possible if the probes are in the code that the module was compiled
    /// with.
    fn count(&self) -> Result<bool, Error> {
        let mut state = self.state.lock();
        match state.origin {
            _ if state.counter.is_some() => return Ok(true),
            Some(Origin::Own) => return Ok(false),
            Some(Origin::Plan(plan)) if state.is_observed => {
                self.module.observe_no_more(&[ObservedLayer::Plan(plan)])?;
            }
            _ => {}
        }
        let is_wanted = state.is_wanted;
        *state = InstalledState { counter: Some(Word(0)), ..InstalledState::default() };
        drop(state);
        self.apply_switches(is_wanted).map(|()| true)
    }

    fn events(&self) -> u64 {
        let state = self.state.lock();
        match (state.origin, state.counter) {
            (Some(Origin::Plan(plan)), Some(counter)) => self.module.plan_word(plan, counter),
            _ => 0,
        }
    }
}

impl Prunes for Installed {
    fn has_dead(&self, function: u32) -> bool {
        self.dead(&self.state.lock(), function).next().is_some()
    }

    fn prune(&self, functions: &[u32]) -> Result<(), Error> {
        let mut state = self.state.lock();
        let dead = functions.iter().flat_map(|function| self.dead(&state, *function));
        let dead: Vec<_> = dead.collect();
        self.leave_out(&mut state, &dead, true, TakesEffect::NextCall)
    }
}
