//! What the user wants: which functions have probes, and which of them switch recording or open a
//! scope.

use super::{config, guest};
use crate::config::Provider;
use crate::discovery::Module;
use crate::discovery::unmodified::Maker;
use crate::runtime::functions::Id;
use crate::runtime::registry::ModuleRegistry;
use crate::runtime::{arguments, spans};
use crate::symbols::Subject;
use std::collections::BTreeSet;
use wordpatch::CodeAddr;

/// Whether the function at an address is one that the user wants probed.
pub(in crate::runtime) fn is_selected(registry: &ModuleRegistry, address: CodeAddr) -> bool {
    guest().selector.as_ref().is_none_or(|selector| match registry.entry_of(address) {
        Some((_, entry)) => selector.accepts(&entry.module, address),
        None => false,
    })
}

/// Whether a function of a module is to have probes: the user wants it, or entering it switches
/// recording, or opens a scope.
pub(in crate::runtime) fn wants(module: &Module, address: CodeAddr) -> bool {
    guest().selector.as_ref().is_none_or(|selector| selector.accepts(module, address))
        || role_in(module, address) != 0
        || opens_in(module, address)
}

/// Whether the user wants a function of this description.
pub(in crate::runtime) fn is_named(subject: &Subject<'_>) -> bool {
    guest().selector.as_ref().is_none_or(|selector| selector.names(subject))
}

fn role_in(module: &Module, address: CodeAddr) -> u8 {
    let both = [(&guest().starting, spans::START), (&guest().stopping, spans::STOP)];
    let named = both.into_iter().filter(|(selector, _)| {
        selector.as_ref().is_some_and(|selector| selector.accepts(module, address))
    });
    named.map(|(_, role)| role).fold(0, |all, role| all | role)
}

/// What entering the function at an address does to recording.
pub(in crate::runtime) fn role_of(registry: &ModuleRegistry, address: CodeAddr) -> u8 {
    registry.entry_of(address).map_or(0, |(_, entry)| role_in(&entry.module, address))
}

fn opens_in(module: &Module, address: CodeAddr) -> bool {
    guest().under.as_ref().is_some_and(|under| under.accepts(module, address))
}

/// Whether the function at an address opens a scope.
pub(in crate::runtime) fn opens_scope(registry: &ModuleRegistry, address: CodeAddr) -> bool {
    registry.entry_of(address).is_some_and(|(_, entry)| opens_in(&entry.module, address))
}

/// Gives probes to functions without compiled-in hooks that get them before their code runs, in
/// modules of these numbers: all functions, or those that a compiler has prepared. Returns the
/// functions.
pub(super) fn install_before_run(
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
        && [&guest().starting, &guest().stopping, &guest().under].iter().any(|one| one.is_some())
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
