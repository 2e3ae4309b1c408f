//! Monitors at work on a module.

use super::hooked::{self, Hooked};
use super::outline::Outline;
use super::working::Working;
use super::{Choices, MonitorError, Report};
use crate::lower::Census;
use crate::lower::{self, Capabilities, Facts, Lowering, Time};
use std::sync::{Arc, OnceLock};
use wasm_aot_engine::Config;
use wasm_aot_engine::Engine;
use wasm_aot_engine::Error;
use wasm_aot_engine::instrument::compile::Draft;
use wasm_aot_engine::instrument::runtime::{Module, Origin, binary};

/// Monitors at work on a module: what was chosen, and what they keep.
///
/// ```
/// use wasm_aot_instrument::monitor::{Choices, Watch};
/// use wasm_aot_engine::{Config, Engine, Linker, Store};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let watch = Watch::new(Choices::new(["memory", "icount"])?)?;
/// let engine = Engine::new(watch.configure(&mut Config::new()))?;
/// let module = watch.compile(&engine, r#"(module (func (export "f") (call $g) (call $g)) (func $g))"#)?;
/// let mut store = Store::new(&engine, ());
/// let instance = Linker::new(&engine).instantiate(&mut store, &module)?;
/// instance.get_func(&mut store, "f").expect("exported").call(&mut store, &[])?;
/// let reports = watch.reports(&module);
/// assert_eq!(reports.iter().map(|report| report.monitor).collect::<Vec<_>>(), ["memory", "icount"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Watch {
    all: Vec<Watching>,
    /// What the program is called, if that was said.
    program: Option<Arc<str>>,
}

/// A monitor, and which kinds of probes it has.
#[derive(Debug)]
struct Watching(Working, OnceLock<Census>);

impl Watch {
    /// Makes monitors ready. The files that they write to are there afterwards.
    pub fn new(choices: Choices) -> Result<Self, MonitorError> {
        let begin = |choice| Ok(Watching(Working::begin(choice)?, OnceLock::new()));
        let program = choices.program();
        let all = choices.into_iter().map(begin).collect::<Result<_, _>>()?;
        Ok(Self { all, program })
    }

    /// Refuses monitors that are to look at functions of which the program has none.
    pub fn require_functions(&self, module: &Module) -> Result<(), MonitorError> {
        self.all.iter().try_for_each(|one| one.0.choice.fits(module))
    }

    /// What the program is called, if that was said.
    pub(crate) fn program(&self) -> Option<Arc<str>> {
        self.program.clone()
    }

    /// Has an engine's code count what the monitors report, see
    /// [`Config::counts`](wasm_aot_engine::Config::counts).
    pub fn configure<'c>(&self, config: &'c mut Config) -> &'c mut Config {
        let counts = self.all.iter().any(|one| one.0.choice.is_counted());
        let call_targets = self.all.iter().any(|one| one.0.choice.wants_call_targets());
        config.counts(counts).call_targets(call_targets)
    }

    /// Whether some of the monitors need code of their own: a module has to be compiled by
    /// [`compile`](Self::compile), or attached to by [`recompile`](Self::recompile).
    pub fn needs_hooks(&self) -> bool {
        self.hooked().next().is_some()
    }

    /// What becomes of each monitor in code that can do so much.
    fn lowered(&self, code: &Capabilities) -> Vec<Lowering> {
        let all: Vec<Facts> = self.all.iter().map(|one| one.0.facts()).collect();
        lower::lower(&all, code)
    }

    /// Those that have hooks, apart from the code, or in the code itself.
    fn hooked_at(
        &self,
        code: &Capabilities,
        apart: bool,
    ) -> Vec<(&Arc<dyn Hooked>, &OnceLock<Census>)> {
        let lowered = self.lowered(code).into_iter();
        let at = lowered.zip(&self.all).filter(|(lowering, _)| lowering.is_apart() == apart);
        at.filter_map(|(_, one)| Some((one.0.hooked.as_ref()?, &one.1))).collect()
    }

    /// Whether an engine's code needs nothing for the monitors: all of them are attached to it.
    pub fn leaves_code_alone(&self, engine: &Engine) -> bool {
        let lowered = self.lowered(&Capabilities::of_engine(engine));
        lowered.iter().all(Lowering::is_apart)
    }

    /// Compiles a module, and what the monitors need into it. It is kept in no cache.
    pub fn compile(&self, engine: &Engine, bytes: impl AsRef<[u8]>) -> Result<Module, Error> {
        let bytes = binary(bytes.as_ref())?;
        let plan = self.draft(engine, &bytes).map(Draft::finish)?;
        let module = Module::with_plan(engine, &bytes, &plan)?;
        self.compiled(&module)?;
        Ok(module)
    }

    /// A module was compiled with what was drafted: what is apart from its code is attached to it,
    /// function by function when they are called.
    pub(crate) fn compiled(&self, module: &Module) -> Result<(), Error> {
        let code = Capabilities::of_module(module, Time::Early);
        for (observer, known) in self.hooked_at(&code, true) {
            let (part, census) = hooked::attach(observer, module, false)?;
            module.observe_when_called(part)?;
            let _ = known.set(census);
        }
        for (observer, _) in self.hooked_at(&code, false) {
            Arc::clone(observer).compiled(module, Origin::Own);
        }
        Ok(())
    }

    /// Compiles a module that was compiled before, and has it inside; if nothing has to be compiled
    /// into it, its code is used as it is.
    pub fn recompile(&self, engine: &Engine, module: &Module) -> Result<Module, Error> {
        let lowered = self.lowered(&Capabilities::of_module(module, Time::Early));
        if !lowered.iter().all(Lowering::is_apart) {
            return self.compile(engine, &*module.inner().bytes);
        }
        self.compiled(module)?;
        Ok(module.clone())
    }

    /// Whether a module that was compiled before will do: nothing has to be in its own code.
    pub(crate) fn fits(&self, module: &Module) -> bool {
        self.hooked_at(&Capabilities::of_module(module, Time::Early), false).is_empty()
    }

    /// Those that have hooks.
    fn hooked(&self) -> impl Iterator<Item = &Arc<dyn Hooked>> {
        self.all.iter().filter_map(|one| one.0.hooked.as_ref())
    }

    /// The hooks that the monitors need in a module that an engine compiles, to which others may be
    /// added.
    pub(crate) fn draft(&self, engine: &Engine, bytes: &[u8]) -> Result<Draft, Error> {
        let observers = self.hooked_at(&Capabilities::of_engine(engine), false);
        if observers.is_empty() {
            return Ok(Draft::default());
        }
        let mut draft = Draft::default();
        let features = engine.target().options.features;
        Outline::with(bytes, features, false, |outline| {
            for (observer, known) in observers {
                let before = Census::of(&draft);
                Arc::clone(observer).plan(outline, &mut draft);
                let _ = known.set(Census::of(&draft).since(before));
            }
        })?;
        Ok(draft)
    }

    /// The names of the monitors, in the order in which they were chosen.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.all.iter().map(|one| one.0.choice.name())
    }

    /// What became of each in a module's code.
    pub(crate) fn explain(&self, module: &Module) -> Vec<(Lowering, Census)> {
        let lowered = self.lowered(&Capabilities::of_module(module, Time::Early)).into_iter();
        let census = |one: &Watching| one.1.get().copied().unwrap_or_default();
        lowered.zip(&self.all).map(|(lowering, one)| (lowering, census(one))).collect()
    }

    /// What there is to say of what the module's instances have done so far, in the order in which
    /// monitors were chosen.
    pub fn reports(&self, module: &Module) -> Vec<Report> {
        let unmade = module.unmade();
        let each = |Watching(working, _): &Watching| {
            let mut report = working.report(module, || module.counts())?;
            if let (Some(_), Some((function, why))) = (&working.hooked, unmade.first()) {
                let (count, name) = (unmade.len(), module.inner().label(*function));
                report.remark(format!("{count} functions are not observed, as {name}: {why}"));
            }
            Some(report)
        };
        self.all.iter().filter_map(each).collect()
    }
}
