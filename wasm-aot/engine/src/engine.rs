//! The engine: the target and the options that modules are compiled with.

use crate::compile::{Budget, Cpu, Optimize, Options, Sites, Target};
use crate::error::Error;
use crate::features::{Features, Proposal, Specification};
use std::sync::Arc;

/// The configuration of an [`Engine`].
#[derive(Clone, Debug, Default)]
pub struct Config {
    options: Options,
}

impl Config {
    /// The defaults: fast code, with mitigations.
    pub fn new() -> Self {
        Self::default()
    }

    /// The optimisation level.
    pub fn optimize(&mut self, optimize: Optimize) -> &mut Self {
        self.options.optimize = optimize;
        self
    }

    /// The processors that code is for. A module whose code this processor cannot execute is
    /// compiled, but cannot be instantiated.
    pub fn cpu(&mut self, cpu: Cpu) -> &mut Self {
        self.options.cpu = cpu;
        self
    }

    /// The specification that modules have to conform to.
    pub fn specification(&mut self, specification: Specification) -> &mut Self {
        self.options.features = Features::of(specification);
        self
    }

    /// Whether modules may use the proposal.
    pub fn proposal(&mut self, proposal: Proposal, on: bool) -> &mut Self {
        self.options.features.set(proposal, on);
        self
    }

    /// Whether code prevents the processor from speculating past bounds checks.
    pub fn spectre(&mut self, on: bool) -> &mut Self {
        self.options.spectre = on;
        self
    }

    /// The places at which probes can be switched on while programs run.
    pub fn sites(&mut self, sites: Sites) -> &mut Self {
        self.options.sites = sites;
        self
    }

    /// Whether all code counts how often everything is executed, see
    /// [`Module::counts`](crate::Module::counts).
    pub fn counts(&mut self, on: bool) -> &mut Self {
        self.options.counts = on;
        self
    }

    /// Whether code that counts also counts the callees of calls through tables and references.
    /// This is slow where the callee changes from call to call.
    pub fn call_targets(&mut self, on: bool) -> &mut Self {
        self.options.targets = on;
        self
    }

    /// Whether code deducts each instruction from its store's budget, see
    /// [`Store::set_instruction_budget`](crate::Store::set_instruction_budget).
    pub fn instruction_budgets(&mut self, on: bool) -> &mut Self {
        self.options.budget = if on { Budget::Pays } else { Budget::Unknown };
        self
    }

    /// Whether frames keep their locals where they can be read when a trap unwinds them, see
    /// [`Store::core_dump`](crate::Store::core_dump). Code of such modules is never stored in a
    /// file.
    pub fn readable_frames(&mut self, on: bool) -> &mut Self {
        self.options.frames = on;
        self
    }

    /// Whether memories with 32-bit addresses reserve all of their address space, so that no access
    /// is checked. Where the process may not reserve that much, [`Engine::new`] turns it off.
    pub fn reservations(&mut self, on: bool) -> &mut Self {
        self.options.reservations = on;
        self
    }
}

/// Compiles modules. Clones are cheap and share everything.
#[derive(Clone, Debug)]
pub struct Engine {
    target: Arc<Target>,
}

impl Engine {
    /// An engine for this processor.
    pub fn new(config: &Config) -> Result<Self, Error> {
        let mut options = config.options;
        options.reservations = options.reservations && crate::vm::reservations_are_possible();
        Ok(Self { target: Arc::new(Target::new(options)?) })
    }

    /// The same, with code that counts.
    pub fn counting(&self) -> Result<Self, Error> {
        let options = Options { counts: true, ..self.target.options };
        Ok(Self { target: Arc::new(Target::new(options)?) })
    }

    /// The same, for modules that are not the program's, such as monitors: their instructions are
    /// not deducted from a budget.
    pub fn exempt(&self) -> Result<Self, Error> {
        let options = Options { budget: Budget::Exempt, ..self.target.options };
        Ok(Self { target: Arc::new(Target::new(options)?) })
    }

    /// Whether all of its code counts executions, see [`Config::counts`].
    pub fn counts(&self) -> bool {
        self.target.options.counts
    }

    /// Whether accesses to memories with 32-bit addresses are unchecked, see
    /// [`Config::reservations`].
    pub fn has_reservations(&self) -> bool {
        self.target.options.reservations
    }

    /// Whether probes or other hooks can be switched on in its modules while programs run.
    pub fn is_patchable(&self) -> bool {
        self.target.options.sites != Sites::NONE && self.target.options.reservations
    }

    /// The target of its code.
    pub fn target(&self) -> &Target {
        &self.target
    }
}

impl Default for Engine {
    /// # Panics
    fn default() -> Self {
        Self::new(&Config::default()).expect("a processor with SSE4.1")
    }
}
