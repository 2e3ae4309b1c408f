//! Attaches, detaches and leaves out the layers that observe a module whose instances may be
//! running.

use super::attached_plan::AttachedPlan;
use super::barrier;
use super::code::Code;
use super::compile_events::CompileEvents;
use super::context::WORDS;
use super::counts::{Counts, Reading};
use super::late::{self, Due};
use super::module::{Module, ModuleInner};
use super::points::Points;
use super::stubs::Stubs;
use super::variant::{Counted, Current, Observed, ObservedLayer, Origin, TakesEffect, Variants};
use crate::compile::{self, HookId, OFF, ON, Plan, Wanted, Word};
use crate::error::Error;
use std::sync::Weak;
use std::sync::atomic::Ordering::Relaxed;

impl Module {
    /// Counts everything that is executed from now on, in all instances, whether they are
    /// running or not: a thread begins to count with its next call of a function, and with the next
    /// iteration of the loop that it is in if the module has sites at loops. May be called from any
    /// thread; the first time compiles the module once more.
    ///
    /// # Errors
    /// If the module was compiled without sites ([`Config::sites`](crate::Config::sites)), or no
    /// memory for code is available near its code.
    pub fn attach_counts(&self) -> Result<(), Error> {
        self.want_counts(Some(ObservedLayer::Counts(match self.inner.options.targets {
            true => Counted::Targets,
            false => Counted::Edges,
        })))
    }

    /// Whether executed code is counted at the moment.
    pub fn is_counting(&self) -> bool {
        self.inner.is_counting()
    }

    /// How often counting has begun, if nothing counts at the moment: until it begins again,
    /// counters only count for threads that have not yet left the counting code.
    pub(crate) fn idle_since(&self) -> Option<u64> {
        let variants = self.inner.variants.lock();
        (!self.inner.options.counts && !variants.observed.counts.is_on())
            .then_some(variants.count_turns)
    }

    /// Assigns words in all instances to a plan, so that it can be [observed](Self::observe). They
    /// are never freed.
    pub fn add_plan(&self, plan: Plan) -> Result<usize, Error> {
        self.add_plan_of(plan, None)
    }

    /// The same, with a [`Due`] that decides which functions need the plan when they are called for
    /// the first time: its hooks in other functions are [left out](Self::leave_out).
    pub fn add_plan_of(&self, plan: Plan, due: Option<Weak<dyn Due>>) -> Result<usize, Error> {
        let module = &self.inner;
        let mut variants = module.variants.lock();
        module.prepare(&mut variants)?;
        let base = variants.words;
        let mut detours = module.detours.read().clone();
        let imported = module.info.imported.functions;
        let body = |function: u32| module.body((function - imported) as usize);
        let next = detours.add([module.code.plan(), &plan], body, base + plan.words());
        if 8 * next as usize > WORDS {
            return Err(Error::Attach("instances have no room for what the monitors keep".into()));
        }
        variants.words = next;
        *module.detours.write() = detours;
        variants.plans.push(plan.clone());
        variants.imported = imported;
        let plan = AttachedPlan::new(plan, base, due);
        // An instance that begins meanwhile is found here, or finds the plan; or both, and
        // receivers are notified of it once.
        let mut plans = module.plans.write();
        module.counted.each(|vmctx| plan.begin(module, vmctx));
        plans.push(plan);
        Ok(plans.len() - 1)
    }

    /// The sum of a word of a plan over all living instances.
    pub fn plan_word(&self, plan: usize, word: Word) -> u64 {
        let (module, mut sum) = (&self.inner, 0);
        let plans = module.plans.read();
        module
            .counted
            .each(|vmctx| sum += plans[plan].slots(module, vmctx).word(word).load(Relaxed));
        sum
    }

    /// Which functions are compiled for other variants of the code from now on, and how many bytes
    /// of code each has there.
    pub fn compile_events(&self) -> CompileEvents {
        self.inner.readers.subscribe()
    }

    /// Observes these layers from now on, in addition to others. It takes effect for each thread
    /// with the next iteration of the loop that it is in.
    pub fn observe(&self, layers: &[ObservedLayer]) -> Result<(), Error> {
        self.inner.observe(&mut self.inner.variants.lock(), layers, &[], TakesEffect::NextIteration)
    }

    /// The same; if nothing was executed so far, each function is compiled for them when it is
    /// called for the first time.
    pub fn observe_when_called(&self, layers: &[ObservedLayer]) -> Result<(), Error> {
        self.inner.observe(&mut self.inner.variants.lock(), layers, &[], TakesEffect::FirstCall)
    }

    /// Stops observing these layers.
    pub fn observe_no_more(&self, layers: &[ObservedLayer]) -> Result<(), Error> {
        self.observe_instead(&[], layers)
    }

    /// Starts to observe some layers and stops observing others, in one switch.
    pub fn observe_instead(
        &self,
        on: &[ObservedLayer],
        off: &[ObservedLayer],
    ) -> Result<(), Error> {
        self.inner.observe(&mut self.inner.variants.lock(), on, off, TakesEffect::NextIteration)
    }

    /// Whether monitors can be attached to it.
    pub fn is_patchable(&self) -> bool {
        self.inner.has_room_for_counters()
    }

    /// Leaves hooks of a plan out of functions' code, or puts them back. A variant that exists
    /// costs a few stores for each function; another one is compiled. Returns whether anything has
    /// changed.
    pub fn leave_out(
        &self,
        of: Origin,
        hooks: &[(u32, HookId)],
        out: bool,
        when: TakesEffect,
    ) -> Result<bool, Error> {
        let (module, mut changed) = (&self.inner, Vec::new());
        let mut variants = module.variants.lock();
        module.prepare(&mut variants)?;
        for (function, hook) in hooks {
            let function = (function - module.info.imported.functions) as usize;
            if variants.leave_out(function, (of, *hook), out) {
                changed.push((function, *hook));
            }
        }
        let mut functions: Vec<usize> = changed.iter().map(|(function, _)| *function).collect();
        functions.sort_unstable();
        functions.dedup();
        module.follow(&mut variants, &functions, when).map(|()| !changed.is_empty()).inspect_err(
            |_| {
                for (function, hook) in &changed {
                    variants.leave_out(*function, (of, *hook), !out);
                }
            },
        )
    }

    /// Whether all hooks of a plan may be left out of functions without compiling anything: no
    /// other layer is attached.
    pub fn is_attached_alone(&self, of: Origin) -> bool {
        let variants = self.inner.variants.lock();
        !variants.observed.counts.is_on()
            && matches!(of, Origin::Plan(plan) if variants.observed.plans == [plan])
    }

    /// Lets threads that are in other variants of these functions enter the current one with the
    /// next iteration of their loop.
    pub(super) fn hurry(&self, functions: &[usize]) -> Result<(), Error> {
        self.inner.follow(&mut self.inner.variants.lock(), functions, TakesEffect::NextIteration)
    }

    /// Stops counting: a thread stops with its next call of a function, or with the next iteration
    /// of its loop. The counts stay.
    pub fn detach_counts(&self) {
        // If compilation fails, counting continues.
        let _ = self.want_counts(None);
    }

    fn want_counts(&self, counts: Option<ObservedLayer>) -> Result<(), Error> {
        let mut variants = self.inner.variants.lock();
        let before = variants.embedder;
        self.inner.observe(
            &mut variants,
            counts.as_slice(),
            before.as_slice(),
            TakesEffect::NextIteration,
        )?;
        variants.embedder = counts;
        Ok(())
    }

    /// The number of places at which code can be switched on while instances run.
    pub fn sites(&self) -> usize {
        match self.inner.options.sites {
            compile::Sites::NONE => 0,
            _ => self.inner.info.bodies.len() + self.loop_sites() + self.patchable_sites(),
        }
    }

    /// How many of them are at loops.
    pub fn loop_sites(&self) -> usize {
        self.inner
            .code
            .tables
            .osr_exits
            .iter()
            .filter(|osr_exit| osr_exit.values() == [OFF, ON])
            .count()
    }

    /// How many of them are before single instructions, or before those that are executed together.
    pub fn patchable_sites(&self) -> usize {
        self.inner.code.tables.patchable_sites.chunk_by(|one, next| one.at == next.at).count()
    }

    /// How many instructions have such a site.
    pub fn patchable_instructions(&self) -> usize {
        self.inner.code.tables.patchable_sites.len()
    }

    /// How many edges between blocks were counted so far. This is fast, and possible from any
    /// thread.
    pub fn counted_events(&self) -> u64 {
        let module = &self.inner;
        module.counted.sums(&module.layout, module.words()).into_iter().sum()
    }

    /// How often everything was executed by the module's instances while it was counted: always, if
    /// the engine's code counts ([`Config::counts`](crate::Config::counts)); otherwise while counts
    /// were [attached](Self::attach_counts). None if they never were.
    ///
    /// The counts are exact if no instance is being executed, if the calling thread executes the
    /// instances and runs a task ([`TaskHandle::run_in_store`](crate::TaskHandle::run_in_store)),
    /// or if the thread that executes them [reads counters for
    /// others](crate::Store::read_counters_of) and reaches a safepoint in time. Otherwise counters
    /// are read one after the other while they change, so that each may lack the instructions that
    /// are executed meanwhile; and a block that a thread is in counts as executed to its end.
    pub fn counts(&self) -> Option<Counts> {
        self.counts_of(&self.reading()?)
    }

    /// The values of the counters at the moment, if there are any; see [`counts`](Self::counts).
    pub(crate) fn reading(&self) -> Option<Reading> {
        self.reading_at(&[])
    }

    /// The same, without a request to the thread that executes the instances.
    pub(super) fn reading_of_counters(&self) -> Option<Reading> {
        let module = &self.inner;
        let is_there = module.options.counts || module.counting.get().is_some();
        let counters = || module.counted.sums(&module.layout, module.words());
        is_there.then(|| Reading {
            counters: counters(),
            detours: module.counted.detours(module),
            partial_exits: module.partial_exits.all(),
            targets: module.counted.targets(module),
        })
    }

    /// The same when frames of machine code wait for this thread at these addresses: the
    /// instructions after them in their blocks were not executed yet. A thread that runs a task
    /// itself knows where they wait.
    pub fn reading_at(&self, waiting: &[usize]) -> Option<Reading> {
        let is_known = !waiting.is_empty() || super::activation::is_within();
        let of_thread = self.inner.counter_reader.get().filter(|_| !is_known);
        if let Some(reading) = of_thread.and_then(|reader| reader.read(self)) {
            return reading;
        }
        let own = self.inner.waiting_frames(waiting).into_iter();
        Some(self.reading_of_counters()?.with_partial_exits(own))
    }

    /// How often everything was executed, computed from a reading of the counters, or from the
    /// difference of two.
    pub fn counts_of(&self, reading: &Reading) -> Option<Counts> {
        let module = &self.inner;
        let is_there = module.options.counts || module.counting.get().is_some();
        is_there.then(|| Counts::new(module, reading))
    }
}

impl ModuleInner {
    /// See [`Module::is_counting`].
    pub(super) fn is_counting(&self) -> bool {
        self.options.counts || self.variants.lock().observed.counts.is_on()
    }

    /// Prepares the module's own code for switches: stubs, slots and patch points.
    fn prepare(&self, variants: &mut Variants) -> Result<(), Error> {
        if variants.stubs.is_some() {
            return Ok(());
        }
        if self.options.sites == compile::Sites::NONE {
            return Err(Error::Attach(
                "the module was compiled without sites, so that nothing can be attached".into(),
            ));
        }
        if !self.has_room_for_counters() {
            let why = "the module was compiled without reservations, so that its instances have no room for counters";
            return Err(Error::Attach(why.into()));
        }
        let stubs = Stubs::near(&self.code, self.info.bodies.len())?;
        let functions = self.info.bodies.len();
        let beginnings: Vec<Wanted> =
            (0..functions).map(|function| Wanted { function, osr_entry: None }).collect();
        let mut baselines = Points::new(functions);
        baselines.take_in(&self.code, &stubs, &beginnings, |function| function)?;
        (0..functions)
            .filter_map(|function| Some((function, baselines.of(function)?)))
            .for_each(|(function, baseline)| stubs.set(function, baseline.start));
        barrier::pass()?;
        variants.begin(stubs, baselines, functions);
        Ok(())
    }

    /// The hooks of a function that are not left out already.
    pub fn still_there(&self, of: Origin, index: u32, mut hooks: Vec<HookId>) -> Vec<HookId> {
        let function = (index - self.info.imported.functions) as usize;
        let variants = self.variants.lock();
        if let Some(left_out) = variants.left_out.get(&function) {
            hooks.retain(|hook| !left_out.contains(&(of, *hook)));
        }
        hooks
    }

    /// Whether an activation in this code of a function stays there until the function is called
    /// again, though another variant is current.
    pub(super) fn is_behind(&self, function: usize, code: &Code) -> bool {
        let variants = self.variants.lock();
        let can_follow = match variants.current.get(function) {
            Some(Current::Variant(variant)) => self.has_osr_entries(&variants, function, *variant),
            _ => false,
        };
        can_follow
            && variants.is_to_be_called(function)
            && variants.start(function).is_some_and(|start| !code.range().contains(&start))
    }

    /// Starts to observe some layers and stops observing others; after an error nothing has
    /// changed.
    fn observe(
        &self,
        variants: &mut Variants,
        on: &[ObservedLayer],
        off: &[ObservedLayer],
        when: TakesEffect,
    ) -> Result<(), Error> {
        let mut layers = variants.layers.clone();
        for layer in off {
            layers.iter().position(|other| other == layer).map(|at| layers.remove(at));
        }
        layers.extend(on);
        layers.sort_unstable();
        let mut observed = Observed::of(&layers);
        if self.options.counts {
            observed.counts = Counted::Nothing;
        }
        if variants.observed != observed {
            self.prepare(variants)?;
            if let (TakesEffect::FirstCall, Some(stubs)) = (when, &mut variants.stubs) {
                stubs.prepare_late(self, late::arrived)?;
            }
            let begins = observed.counts.is_on() && !variants.observed.counts.is_on();
            let before = std::mem::replace(&mut variants.observed, observed);
            let all: Vec<usize> = (0..variants.current.len()).collect();
            if let Err(error) = self.follow(variants, &all, when) {
                variants.observed = before;
                return Err(error);
            }
            variants.count_turns += u64::from(begins);
        }
        variants.layers = layers;
        Ok(())
    }
}
