//! Compiles missing variants of functions, a chunk at a time, and switches to each chunk while the
//! rest is still being compiled.

use super::attached_plan::any_partial_exits;
use super::barrier;
use super::code::Code;
use super::module::ModuleInner;
use super::targets::Words;
use super::variant::{Counted, Current, Observed, Origin, TakesEffect, Variants};
use crate::compile::{
    self, Callee, HookId, OneShotClient, Options, Plan, Recompilation, Target, Wanted,
};
use crate::error::Error;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// How many bytes of Wasm are compiled at a time: little at first, so that the first functions are
/// switched soon.
const FIRST: usize = 16 << 10;
const LARGEST: usize = 1 << 20;

/// Functions that are compiled with one plan.
struct Job {
    /// Functions, and their variants.
    functions: Vec<(usize, usize)>,
    /// Whether the functions are compiled, or only entries of their loops.
    begins: bool,
    when: TakesEffect,
    observed: Observed,
    left_out: HashSet<(Origin, HookId)>,
}

/// What happens to late functions, which are compiled at their first call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Late {
    /// All functions without a variant become late.
    Begins,
    /// Late functions stay late.
    Stays,
    /// Late functions are compiled now.
    Ends,
}

impl Variants {
    /// Whether a function is or becomes late.
    fn waits(&self, function: usize, late: Late) -> bool {
        match late {
            Late::Begins => true,
            Late::Stays => self.current[function] == Current::Late,
            Late::Ends => false,
        }
    }
}

impl ModuleInner {
    /// Whether frames of the code at `pc` are recorded when they are unwound. Usable in a signal
    /// handler.
    pub(crate) fn notes_exits_at(&self, pc: usize) -> bool {
        match self.code.range().contains(&pc) {
            true => self.options.counts || self.code.plan().notes_partial_exits(),
            false => self
                .chunks
                .at(pc)
                .is_some_and(|chunk| chunk.counts || chunk.code.plan().notes_partial_exits()),
        }
    }

    /// Whether frames of any of its code are. Usable in a signal handler.
    pub(crate) fn may_exit_partially(&self) -> bool {
        self.options.counts
            || self.counting.get().is_some()
            || self.code.plan().notes_partial_exits()
            || any_partial_exits()
    }

    /// The code at `pc`, if it is the module's. Usable in a signal handler.
    pub(crate) fn code_at(&self, pc: usize) -> Option<&Code> {
        if self.code.range().contains(&pc) {
            return Some(&self.code);
        }
        self.chunks.at(pc).map(|chunk| &chunk.code)
    }

    /// The numbers of a client's one-shot probes that have fired so far, in all variants of a
    /// defined function, or of all.
    pub fn fired_one_shots(
        &self,
        client: OneShotClient,
        function: Option<usize>,
    ) -> impl Iterator<Item = u32> {
        let codes = std::iter::once(&self.code).chain(self.chunks.iter().map(|chunk| &chunk.code));
        codes
            .flat_map(move |code| code.fired_one_shots(function))
            .filter(move |probe| probe.client == client)
            .map(|probe| probe.number)
    }

    /// The words that instances count with at the moment.
    pub(super) fn words(&self) -> Words {
        match self.counting.get() {
            Some(counters) => {
                let places = self.counting_calls.get().copied().unwrap_or_default();
                Words { first: self.own_words(), counters: *counters, places }
            }
            None => Words { first: 0, counters: self.counters, places: self.calls },
        }
    }

    /// Switches functions to the variants that the observed layers ask for. Missing variants are
    /// compiled, with OSR entries if they are to take effect with the next iteration.
    pub(super) fn follow(
        &self,
        variants: &mut Variants,
        functions: &[usize],
        when: TakesEffect,
    ) -> Result<(), Error> {
        if when == TakesEffect::NextCall || !self.counted.are_idle() {
            let when =
                if when == TakesEffect::FirstCall { TakesEffect::NextIteration } else { when };
            return self.follow_until(variants, functions, when, Late::Stays);
        }
        // No thread is in a loop, so OSR entries can be compiled later, and functions when they are
        // called; unless an instance has begun meanwhile.
        let late = if when == TakesEffect::FirstCall { Late::Begins } else { Late::Stays };
        self.follow_until(variants, functions, TakesEffect::NextCall, late)?;
        match self.counted.are_idle() {
            true => Ok(()),
            false => self.follow_until(variants, functions, TakesEffect::NextIteration, Late::Ends),
        }
    }

    pub(super) fn follow_until(
        &self,
        variants: &mut Variants,
        functions: &[usize],
        when: TakesEffect,
        late: Late,
    ) -> Result<(), Error> {
        let row = variants.row();
        let (mut goals, mut lacking) = (Vec::with_capacity(functions.len()), Vec::new());
        for function in functions.iter().copied() {
            let variant = variants.goal(row, function);
            let is_there = variants.points.of(variant).is_some();
            let waits = variants.waits(function, late);
            let is_late = waits && !is_there;
            goals.push((function, if is_late { Current::Late } else { Current::Variant(variant) }));
            let is_whole = variants.is_baseline(variant)
                || is_there
                    && (when != TakesEffect::NextIteration
                        || variants.entered[variant]
                        || !self.has_osr_entries(variants, function, variant));
            // A late function is compiled when it is called; no thread is in its loops.
            if !is_whole && !waits {
                lacking.push((function, variant));
            }
        }
        if !lacking.is_empty() {
            let now = |(function, _): &(usize, usize)| (*function, variants.current[*function]);
            let before: Vec<(usize, Current)> = lacking.iter().map(now).collect();
            let jobs = jobs(variants, lacking, when);
            if let Err(error) = jobs.iter().try_for_each(|job| self.compile(variants, job)) {
                // Functions that were switched already are switched back.
                before
                    .into_iter()
                    .for_each(|(function, before)| variants.switch(self, function, before));
                return Err(error);
            }
        }
        match when {
            TakesEffect::NextIteration => self.enter_baselines(variants, &goals)?,
            TakesEffect::NextCall | TakesEffect::FirstCall => variants.recall(&goals),
        }
        goals.into_iter().for_each(|(function, goal)| variants.switch(self, function, goal));
        Ok(())
    }

    /// The functions that threads are in, the innermost first, as far as known.
    pub(super) fn running(&self) -> Vec<usize> {
        let mut functions = Vec::new();
        for pc in self.counted.stacks().into_iter().flatten() {
            let found =
                self.code_at(pc).and_then(|code| code.function_at((pc - code.base()) as u32));
            functions.extend(found.filter(|function| !functions.contains(function)));
        }
        functions
    }

    /// The function that each thread is in, and which code of it.
    pub(super) fn innermost(&self) -> Vec<(usize, &Code)> {
        let find = |stack: Vec<usize>| {
            let pc = *stack.first()?;
            let code = self.code_at(pc)?;
            Some((code.function_at((pc - code.base()) as u32)?, code))
        };
        self.counted.stacks().into_iter().filter_map(find).collect()
    }

    /// How many loops of a function have OSR exits.
    pub(super) fn loops_of(&self, function: usize) -> u32 {
        self.osr_loops.get().map_or(0, |osr_loops| osr_loops.loops_of(function))
    }

    /// Compiles OSR entries of baselines that functions are switched back to.
    fn enter_baselines(
        &self,
        variants: &mut Variants,
        goals: &[(usize, Current)],
    ) -> Result<(), Error> {
        let mut wanted = variants.to_enter(goals);
        wanted.retain(|function| self.has_osr_entries(variants, *function, *function));
        if wanted.is_empty() {
            return Ok(());
        }
        let functions = wanted.iter().map(|function| (*function, *function)).collect();
        let (begins, when) = (false, TakesEffect::NextIteration);
        let (observed, left_out) = (Observed::default(), HashSet::new());
        self.compile(variants, &Job { functions, begins, when, observed, left_out })?;
        wanted.into_iter().for_each(|function| variants.enter_recalled(self, function));
        Ok(())
    }

    /// Whether a variant of a function has OSR entries, once they are compiled. Where hooks make
    /// control fall through after branches it has none, and threads in loops of other variants stay
    /// there until they call the function again.
    pub(super) fn has_osr_entries(
        &self,
        variants: &Variants,
        function: usize,
        variant: usize,
    ) -> bool {
        let index = self.info.imported.functions + function as u32;
        let left_out = variants.left_out_in(function, variant);
        let falls_through = |origin: Origin, plan: &Plan| {
            plan.falls_through_without(index, |hook| left_out.contains(&(origin, hook)))
        };
        let attached = variants.plans_in(function, variant);
        !falls_through(Origin::Own, self.code.plan())
            && attached.iter().all(|it| !falls_through(Origin::Plan(*it), &variants.plans[*it]))
    }

    /// How many words of instances the module's own code uses.
    fn own_words(&self) -> u32 {
        self.counters + 2 * self.calls + self.code.plan().words()
    }

    /// How many words come before those of attached plans: its own, and all possible counters.
    pub(super) fn attached_words(&self) -> u32 {
        self.own_words() + self.most_counters() as u32
    }

    /// The plan of the module's own code, which is compiled into every variant, and where its words
    /// begin, relative to those of attached plans.
    fn own_plan(&self) -> (Plan, u32) {
        let first = self.counters + 2 * self.calls;
        (self.code.plan().clone(), first.wrapping_sub(self.attached_words()))
    }

    /// The hooks of a variant, the module's own first, without those that are left out.
    fn joined_plan(&self, observed: &Observed, left_out: &HashSet<(Origin, HookId)>) -> Plan {
        let plans = self.plans.read();
        let attached = observed
            .plans
            .iter()
            .map(|plan| (Origin::Plan(*plan), (plans[*plan].plan.clone(), plans[*plan].base)));
        let (origins, plans): (Vec<_>, Vec<_>) =
            std::iter::once((Origin::Own, self.own_plan())).chain(attached).unzip();
        Plan::joined(&plans, |number, hook| !left_out.contains(&(origins[number], hook)))
    }

    /// The compiler of variants with these observed layers. The latest is cached, as functions may
    /// be compiled one by one.
    fn recompilation_of(
        &self,
        variants: &mut Variants,
        observed: &Observed,
    ) -> Result<Arc<Recompilation>, Error> {
        if let Some((known, recompilation)) = &variants.latest
            && known == observed
        {
            return Ok(Arc::clone(recompilation));
        }
        let made = Arc::new(self.recompilation(observed, &HashSet::new())?);
        variants.latest = Some((observed.clone(), Arc::clone(&made)));
        Ok(made)
    }

    /// A compiler of variants with these observed layers, without hooks that are left out.
    fn recompilation(
        &self,
        observed: &Observed,
        left_out: &HashSet<(Origin, HookId)>,
    ) -> Result<Recompilation, Error> {
        let plan = self.joined_plan(observed, left_out);
        // Code that counts from the beginning continues to do so, with its own words.
        let always = self.options.counts;
        let options = Options {
            counts: observed.counts.is_on() || always,
            targets: if always {
                self.options.targets
            } else {
                observed.counts == Counted::Targets
            },
            ..self.options
        };
        let target = Target::new(options)?;
        let before = if always { 0 } else { self.own_words() };
        let recompilation = Recompilation::new(
            &self.bytes,
            &target,
            [self.code.plan(), &plan],
            [before, self.attached_words()],
            &self.osr_loops,
            &self.detours.read(),
        )?;
        let words = recompilation.counters() as usize + 2 * recompilation.calls() as usize;
        if words > self.most_counters() {
            return Err(Error::Attach("instances have no room for so many counters".into()));
        }
        if observed.counts.is_on() {
            self.counting.get_or_init(|| recompilation.counters());
        }
        if observed.counts == Counted::Targets {
            self.counting_calls.get_or_init(|| recompilation.calls());
        }
        Ok(recompilation)
    }

    /// Compiles functions, a chunk at a time. Of baselines, OSR entries are compiled; other
    /// variants are switched to at once.
    fn compile(&self, variants: &mut Variants, job: &Job) -> Result<(), Error> {
        let recompilation = match job.left_out.is_empty() {
            true => self.recompilation_of(variants, &job.observed)?,
            false => Arc::new(self.recompilation(&job.observed, &job.left_out)?),
        };
        let mut functions = job.functions.clone();
        // Functions that are being executed come first, and the rest in order.
        let running = if functions.len() > 1 { self.running() } else { Vec::new() };
        let rank = |function: usize| {
            running.iter().position(|other| *other == function).unwrap_or(usize::MAX)
        };
        functions.sort_by_key(|(function, _)| (rank(*function), *function));
        let (mut rest, mut size) = (&functions[..], FIRST);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(self.reach(rest, size));
            (rest, size) = (later, LARGEST.min(size * 4));
            self.compile_chunk(variants, &recompilation, job, now)?;
            for (function, variant) in now {
                let is_entered = job.when == TakesEffect::NextIteration
                    && self.has_osr_entries(variants, *function, *variant);
                variants.entered[*variant] = is_entered;
                if !variants.is_baseline(*variant) {
                    variants.switch(self, *function, Current::Variant(*variant));
                    if !job.begins && is_entered {
                        variants.enter(self, *function);
                    }
                }
            }
        }
        Ok(())
    }

    /// Compiles one chunk of a job, ready to be switched to.
    fn compile_chunk(
        &self,
        variants: &mut Variants,
        recompilation: &Recompilation,
        job: &Job,
        functions: &[(usize, usize)],
    ) -> Result<(), Error> {
        let osr_loops = self.osr_loops.get().expect("looked for before anything is recompiled");
        let enters = job.when == TakesEffect::NextIteration;
        let parts =
            |(function, _): &(usize, usize)| Wanted::of(osr_loops, *function, job.begins, enters);
        let wanted: Vec<Wanted> = functions.iter().flat_map(parts).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let compile::CodeChunk { text, parts, elsewhere } =
            recompilation.compile_chunk(&self.bytes, osr_loops, &wanted)?;
        let elsewhere: Vec<(u32, usize)> =
            elsewhere.into_iter().map(|(at, callee)| (at, self.address_of(callee))).collect();
        let owners = parts.iter().map(|part| part.function as u32).collect();
        let chunk = self.chunks.add(
            Code::near(&self.code, text, owners, &elsewhere, &mut variants.shelf)?,
            job.observed.counts.is_on() || self.options.counts,
        );
        self.note_compiled(&chunk.code, &parts);
        self.take_in_patchable_sites(&chunk.code)?;
        let Variants { points, stubs: Some(stubs), .. } = variants else { return Ok(()) };
        let variants: HashMap<usize, usize> = functions.iter().copied().collect();
        points.take_in(&chunk.code, stubs, &parts, |function| variants[&function])?;
        barrier::pass()
    }

    /// Reports the functions of a chunk to receivers and to readers of compile events.
    fn note_compiled(&self, code: &Code, parts: &[Wanted]) {
        let receivers = self.attached_receivers();
        for (part, span) in parts.iter().zip(code.tables.functions.iter()) {
            let index = self.info.imported.functions + part.function as u32;
            let lies = code.base() + span.start as usize..code.base() + span.end as usize;
            receivers.iter().for_each(|receiver| receiver.compiled(index, lies.clone()));
        }
        self.readers.publish(|| {
            let mut sizes = BTreeMap::<u32, u32>::new();
            for (part, span) in parts.iter().zip(code.tables.functions.iter()) {
                *sizes.entry(self.info.imported.functions + part.function as u32).or_default() +=
                    span.end - span.start;
            }
            sizes.into_iter().collect()
        });
    }

    /// How many of the functions together have at most this many bytes of Wasm; one at least.
    fn reach(&self, functions: &[(usize, usize)], bytes: usize) -> usize {
        let mut sum = 0;
        let within = functions.iter().take_while(|(function, _)| {
            let body = &self.info.bodies[*function];
            sum += (body.end - body.start) as usize;
            sum <= bytes
        });
        within.count().max(1)
    }

    /// The address of code of this module that other code calls.
    fn address_of(&self, callee: Callee) -> usize {
        match callee {
            Callee::Function(index) => self.function_code(index) as usize,
            Callee::Throw => {
                self.code.throw().expect("a module with exceptions has the trampoline") as usize
            }
        }
    }
}

/// The jobs that compile missing variants: those with hooks left out first.
fn jobs(variants: &Variants, lacking: Vec<(usize, usize)>, when: TakesEffect) -> Vec<Job> {
    let mut jobs: BTreeMap<(bool, bool), Job> = BTreeMap::new();
    for (function, variant) in lacking {
        let left_out = variants.left_out_in(function, variant);
        let begins = variants.points.of(variant).is_none();
        let job = jobs.entry((left_out.is_empty(), !begins)).or_insert_with(|| Job {
            functions: Vec::new(),
            begins,
            when,
            observed: variants.observed.clone(),
            left_out: HashSet::new(),
        });
        job.functions.push((function, variant));
        job.left_out.extend(left_out);
    }
    jobs.into_values().collect()
}
