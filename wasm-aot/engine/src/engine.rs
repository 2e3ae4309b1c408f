//! The engine: what modules are compiled for, and with which options.

use crate::compile::{Budget, Cpu, Optimize, Options, Sites, Target};
use crate::error::Error;
use crate::features::{Features, Proposal, Specification};
use std::sync::Arc;

/// How an [`Engine`] works.
#[derive(Clone, Debug, Default)]
pub struct Config {
    options: Options,
}

impl Config {
    /// The defaults: fast code, with mitigations.
    pub fn new() -> Self {
        Self::default()
    }

    /// How hard the compiler tries.
    pub fn optimize(&mut self, optimize: Optimize) -> &mut Self {
        self.options.optimize = optimize;
        self
    }

    /// Which processors code is for. A module whose code this one cannot execute is compiled, and
    /// not instantiated.
    pub fn cpu(&mut self, cpu: Cpu) -> &mut Self {
        self.options.cpu = cpu;
        self
    }

    /// Which modules are valid.
    pub fn specification(&mut self, specification: Specification) -> &mut Self {
        self.options.features = Features::of(specification);
        self
    }

    /// Whether modules may use a proposal.
    pub fn proposal(&mut self, proposal: Proposal, on: bool) -> &mut Self {
        self.options.features.set(proposal, on);
        self
    }

    /// Whether code keeps the processor from speculating past bounds checks.
    pub fn spectre(&mut self, on: bool) -> &mut Self {
        self.options.spectre = on;
        self
    }

    /// Where probes can be switched on while programs run.
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

    /// Whether code that counts also counts which functions calls through tables and references go
    /// to. Where they go to another one each time, that takes its time.
    pub fn call_targets(&mut self, on: bool) -> &mut Self {
        self.options.targets = on;
        self
    }

    /// Whether code pays for each instruction from its store's budget, see
    /// [`Store::set_instruction_budget`](crate::Store::set_instruction_budget).
    pub fn instruction_budgets(&mut self, on: bool) -> &mut Self {
        self.options.budget = if on { Budget::Pays } else { Budget::Unknown };
        self
    }

    /// Whether frames keep their locals where they can be read when a trap takes them away, see
    /// [`Store::core_dump`](crate::Store::core_dump). Code of such modules is in no file.
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

/// Compiles modules. Copies are cheap and share everything.
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

    /// The same, for modules that are not the program's, as monitors: what they execute is not paid
    /// for.
    pub fn exempt(&self) -> Result<Self, Error> {
        let options = Options { budget: Budget::Exempt, ..self.target.options };
        Ok(Self { target: Arc::new(Target::new(options)?) })
    }

    /// Whether all of its code counts, see [`Config::counts`].
    pub fn counts(&self) -> bool {
        self.target.options.counts
    }

    /// Whether accesses to memories with 32-bit addresses go unchecked, see
    /// [`Config::reservations`].
    pub fn has_reservations(&self) -> bool {
        self.target.options.reservations
    }

    /// Whether something can be switched on while programs run that are compiled by it.
    pub fn is_patchable(&self) -> bool {
        self.target.options.sites != Sites::NONE && self.target.options.reservations
    }

    /// What it compiles for.
    pub fn target(&self) -> &Target {
        &self.target
    }
}

impl Default for Engine {
    /// # Panics
    /// On processors that machine code cannot be generated for.
    fn default() -> Self {
        Self::new(&Config::default()).expect("a processor with SSE4.1")
    }
}
