//! Monitors at work on a module.

use super::hooked::{self, Hooked};
use super::outline::Outline;
use super::{Choice, Choices, MonitorError, Report, Source};
use std::sync::Arc;
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
/// let engine = Engine::new(Config::new().counts(watch.needs_counts()))?;
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
pub struct Watch(Vec<(Choice, Option<Arc<dyn Hooked>>)>);

impl Watch {
    /// Makes monitors ready. The files that they write to are there afterwards.
    pub fn new(choices: Choices) -> Result<Self, MonitorError> {
        let begin = |choice: Choice| {
            let observer = match choice.kind.source {
                Source::Hooks(begin) => Some(begin(&choice)?),
                Source::Counts { .. } => None,
            };
            Ok((choice, observer))
        };
        choices.into_iter().map(begin).collect::<Result<_, _>>().map(Self)
    }

    /// Whether the engine's code has to count, see [`Config::counts`](wasm_aot_engine::Config::counts).
    pub fn needs_counts(&self) -> bool {
        self.0.iter().any(|(choice, _)| choice.is_counted())
    }

    /// Whether it has to count where calls go, see
    /// [`Config::call_targets`](wasm_aot_engine::Config::call_targets).
    pub fn needs_call_targets(&self) -> bool {
        self.0.iter().any(|(choice, _)| choice.wants_call_targets())
    }

    /// Whether the module has to be compiled by [`compile`](Self::compile).
    pub fn needs_hooks(&self) -> bool {
        self.0.iter().any(|(_, observer)| observer.is_some())
    }

    /// Whether nothing has to be compiled into a module that has sites: what rests most of the time
    /// is attached.
    pub fn rests(&self) -> bool {
        !self.needs_counts() && self.hooked().all(|observer| observer.rests())
    }

    /// Compiles a module, and what the monitors need into it. It is kept in no cache.
    pub fn compile(&self, engine: &Engine, bytes: impl AsRef<[u8]>) -> Result<Module, Error> {
        let bytes = binary(bytes.as_ref())?;
        let plan = self.draft(engine, &bytes).map(Draft::finish)?;
        let module = Module::with_plan(engine, &bytes, &plan)?;
        self.compiled(&module)?;
        Ok(module)
    }

    /// A module was compiled with what was drafted: monitors that rest are attached to it.
    pub(crate) fn compiled(&self, module: &Module) -> Result<(), Error> {
        for observer in self.hooked() {
            match observer.rests() && module.can_attach() {
                true => module.observe_also(hooked::attach(observer, module)?)?,
                false => Arc::clone(observer).compiled(module, Origin::Own),
            }
        }
        Ok(())
    }

    /// Compiles a module that was compiled before, and has it inside; if nothing has to be compiled
    /// into it, its code is used as it is.
    pub fn recompile(&self, engine: &Engine, module: &Module) -> Result<Module, Error> {
        if !self.rests() || !module.can_attach() {
            return self.compile(engine, &*module.inner().bytes);
        }
        self.compiled(module)?;
        Ok(module.clone())
    }

    /// Whether a module that was compiled before will do, as far as what rests has to be attached
    /// to it.
    pub(crate) fn can_rest_on(&self, module: &Module) -> bool {
        module.can_attach() || !self.hooked().any(|observer| observer.rests())
    }

    /// Those that have hooks.
    fn hooked(&self) -> impl Iterator<Item = &Arc<dyn Hooked>> {
        self.0.iter().filter_map(|(_, observer)| observer.as_ref())
    }

    /// The hooks that the monitors need in a module that an engine compiles, to which others may be
    /// added.
    pub(crate) fn draft(&self, engine: &Engine, bytes: &[u8]) -> Result<Draft, Error> {
        let compiled_in = |observer: &&Arc<dyn Hooked>| !(observer.rests() && engine.has_sites());
        let observers: Vec<&Arc<dyn Hooked>> = self.hooked().filter(compiled_in).collect();
        if observers.is_empty() {
            return Ok(Draft::default());
        }
        let mut draft = Draft::default();
        let features = engine.target().options.features;
        Outline::with(bytes, features, |outline| {
            observers.iter().for_each(|observer| Arc::clone(observer).plan(outline, &mut draft));
        })?;
        Ok(draft)
    }

    /// The names of the monitors, in the order in which they were chosen.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(choice, _)| choice.name())
    }

    /// What there is to say of what the module's instances have done so far, in the order in which
    /// monitors were chosen.
    pub fn reports(&self, module: &Module) -> Vec<Report> {
        let each = |(choice, observer): &(Choice, Option<Arc<dyn Hooked>>)| {
            let mut report = match observer {
                Some(observer) => Report { shown: choice.top(), ..observer.report(module) },
                None => choice.report(module)?,
            };
            choice.nobody(module).into_iter().for_each(|nobody| report.remark(nobody));
            Some(report)
        };
        self.0.iter().filter_map(each).collect()
    }
}
