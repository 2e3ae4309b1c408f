//! The interface of built-in monitors that have hooks, and helpers to emit their code.

use super::outline::Outline;
use super::report::Report;
use crate::lower::Census;
use crate::lower::{Facts, Hooks};
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Weak};
use wasm_aot_engine::Error;
use wasm_aot_engine::instrument::compile::{Call, Draft, Emitter};
use wasm_aot_engine::instrument::runtime::{Due, Module, Origin};

/// A built-in monitor that is made of hooks: it plans them, keeps their data, and reports.
/// Monitors are independent: none knows of another's hooks.
pub(super) trait HookedMonitor: Debug + Send + Sync {
    /// Adds its hooks to a draft.
    fn plan(self: Arc<Self>, outline: &Outline<'_>, draft: &mut Draft);

    /// Its facts, for its lowering.
    fn facts(&self) -> Facts {
        Facts::Hooks(Hooks::default())
    }

    /// Called when its hooks are in a module's code, or will be when it is observed: in the
    /// module's own plan, or in an attached one.
    fn compiled(self: Arc<Self>, _module: &Module, _origin: Origin) {}

    /// Called before its layer is switched into the code, or out of it, while the program runs.
    fn observes(&self, _on: bool) {}

    /// The object that decides whether functions are compiled with its hooks when they are called
    /// for the first time, if not all are.
    fn due(self: Arc<Self>) -> Option<Weak<dyn Due>> {
        None
    }

    /// The columns of its report that count events.
    fn counting(&self) -> &'static [&'static str] {
        &["calls"]
    }

    /// How many events it has seen so far.
    fn events(&self, module: &Module) -> u64 {
        let Report { columns, rows, .. } = self.report(module);
        let places: Vec<usize> =
            (0..columns.len()).filter(|place| self.counting().contains(&columns[*place])).collect();
        rows.iter().flat_map(|row| places.iter().map(|place| row[*place].sum())).sum()
    }

    /// Its report on what the module's instances have done so far.
    fn report(&self, module: &Module) -> Report;
}

/// Adds a monitor's hooks to a module, whose instances may be running or not. Returns the number of
/// its plan, by which it can be observed, and which kinds of probes it has there.
pub(super) fn attach(
    monitor: &Arc<dyn HookedMonitor>,
    module: &Module,
    runs: bool,
) -> Result<(usize, Census), Error> {
    let inner = &module.inner();
    let mut draft = inner.draft();
    Outline::with(&inner.bytes, inner.options.features, runs, |outline| {
        Arc::clone(monitor).plan(outline, &mut draft);
    })?;
    let census = Census::of(&draft);
    let part = module.add_plan_of(draft.finish(), Arc::clone(monitor).due())?;
    Arc::clone(monitor).compiled(module, Origin::Plan(part));
    Ok((part, census))
}

/// The fingerprint by which a monitor's code is compared.
pub(super) fn fingerprint(monitor: &str, what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    (monitor, what).hash(&mut hasher);
    hasher.finish()
}

/// Passes a word to a receiver where a condition holds, in a cold block; the receiver's result is
/// kept in a variable, if one is given.
pub(super) fn ask_where<'a>(
    at: &mut Emitter<'_, 'a>,
    condition: Value,
    (call, word): (&'a Call, Value),
    kept: Option<Variable>,
) {
    only_if(at, condition, Weight::Seldom, |at| {
        let answer = at.exchange(call, word);
        if let Some(kept) = kept {
            at.builder().def_var(kept, answer);
        }
    });
}

/// How often a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    Often,
    /// The code for it is cold.
    Seldom,
}

/// Emits code that is executed where a condition holds.
pub(super) fn only_if<'a>(
    at: &mut Emitter<'_, 'a>,
    condition: Value,
    weight: Weight,
    write: impl FnOnce(&mut Emitter<'_, 'a>),
) {
    let (inside, next) = (at.builder().create_block(), at.builder().create_block());
    if weight == Weight::Seldom {
        at.builder().set_cold_block(inside);
    }
    at.builder().ins().brif(condition, inside, &[], next, &[]);
    at.builder().seal_block(inside);
    at.builder().switch_to_block(inside);
    write(at);
    at.builder().ins().jump(next, &[]);
    at.builder().seal_block(next);
    at.builder().switch_to_block(next);
}
