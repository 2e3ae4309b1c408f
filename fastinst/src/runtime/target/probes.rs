//! Which functions without compiled-in hooks get probes before their code runs.

use super::selected::{opens_scope, role_of};
use super::{config, current, policy};
use crate::config::Provider;
use crate::discovery::Module;
use crate::discovery::unmodified::Maker;
use crate::runtime::functions::Id;
use crate::runtime::registry::{self, ModuleRegistry};
use crate::runtime::{arguments, loader};
use std::collections::BTreeSet;
use wordpatch::CodeAddr;

/// Installs probes in functions without compiled-in hooks, except where these must be seen running
/// first.
pub(in crate::runtime) fn install_initial_probes() {
    let mut registry = registry::lock_registry();
    let takes_late = registry.unmodified.as_ref().is_some_and(|unmodified| unmodified.takes_late());
    loader::listen_for_all_modules(takes_late);
    install_before_run(&mut registry, |_| true);
}

/// The same, for modules that the loader's listener knows.
pub(in crate::runtime) fn reinstall_initial_probes() {
    install_before_run(&mut registry::lock_registry(), |_| true);
}

/// Modules were loaded, no thread is inside, and the loader reports when they are unloaded: those
/// without compiled-in hooks get their probes as the initial ones did. Returns the functions that
/// have new probes. By the agent.
pub(in crate::runtime) fn install_late(registry: &mut ModuleRegistry) -> BTreeSet<Id> {
    let new = registry.open_late(policy(), config().provider, is_program_s_own);
    install_before_run(registry, |number| new.contains(&number))
}

/// Whether a module is not one of the libraries whose code is left as it is: those that a process
/// or the profiler depends on, and those that read or patch their own code.
pub(super) fn is_program_s_own(module: &Module) -> bool {
    const OTHERS: [&str; 12] = [
        "ld-linux",
        "libc.so",
        "libm.so",
        "libpthread",
        "libdl",
        "librt",
        "libgcc_s",
        "libresolv",
        "libcrypto",
        "libfips",
        "libsoftokn",
        "libfreebl",
    ];
    const TOOLS: [&str; 5] = ["libasan", "libtsan", "libubsan", "liblsan", "libjemalloc"];
    !OTHERS.iter().chain(&TOOLS).any(|name| module.name.starts_with(name))
}

/// Gives probes to functions without compiled-in hooks that get them before their code runs, in
/// modules of these numbers: all functions, or those that a compiler has prepared. Returns the
/// functions.
fn install_before_run(
    registry: &mut ModuleRegistry,
    is_asked: impl Fn(u32) -> bool + Copy,
) -> BTreeSet<Id> {
    if config().provider == Provider::Points {
        return registry.install_points(&config().pairs, is_asked);
    }
    let Some(unmodified) = registry.unmodified.as_deref() else { return BTreeSet::new() };
    let mut wanted = match installs_early() {
        (true, _) => unmodified.all(is_asked),
        (false, true) => unmodified.prepared(is_asked),
        (false, false) => Vec::new(),
    };
    if !installs_early().0
        && [&current().starting, &current().stopping, &current().under]
            .iter()
            .any(|one| one.is_some())
    {
        // A function that switches recording or opens a scope may run before it was seen running.
        let is_early = |at: &CodeAddr| role_of(registry, *at) != 0 || opens_scope(registry, *at);
        wanted.extend(unmodified.all(is_asked).into_iter().filter(is_early));
    }
    if arguments::are_asked() {
        let asks = |module: &Module, at| arguments::asked(module, at).is_some();
        wanted.extend(unmodified.named(is_asked, asks));
    }
    wanted.sort_unstable();
    wanted.dedup();
    registry.install_early(&wanted)
}

/// Whether functions get their probes before their code runs: those that no compiler has prepared,
/// and those that one has.
fn installs_early() -> (bool, bool) {
    (config().installs_before_run(None), config().installs_before_run(Some(Maker::Patchable)))
}

/// Whether functions get probes when they are seen running.
pub(in crate::runtime) fn installs_when_sampled(registry: &ModuleRegistry) -> bool {
    let Some(unmodified) = registry.unmodified.as_deref() else { return false };
    let (for_any, for_prepared) = installs_early();
    let has_all = for_any || (for_prepared && !unmodified.takes_any());
    config().provider != Provider::Points && !has_all
}
