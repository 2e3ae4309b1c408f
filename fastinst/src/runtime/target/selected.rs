//! Which functions the user has selected, and which of them switch recording or open a scope.

use super::current;
use crate::discovery::Module;
use crate::runtime::registry::ModuleRegistry;
use crate::runtime::spans;
use crate::symbols::Subject;
use wordpatch::CodeAddr;

/// Whether the function at an address is one that the user wants probed.
pub(crate) fn is_selected(registry: &ModuleRegistry, address: CodeAddr) -> bool {
    current().selector.is_none()
        || registry
            .entry_of(address)
            .is_some_and(|(_, entry)| is_selected_in(&entry.module, address))
}

/// The same, where its module is known.
pub(in crate::runtime) fn is_selected_in(module: &Module, address: CodeAddr) -> bool {
    current().selector.as_ref().is_none_or(|selector| selector.accepts(module, address))
}

/// Whether a function of a module is to have probes: the user wants it, or entering it switches
/// recording, or opens a scope.
pub(in crate::runtime) fn wants(module: &Module, address: CodeAddr) -> bool {
    is_selected_in(module, address) || role_in(module, address) != 0 || opens_in(module, address)
}

/// Whether the user wants a function of this description.
pub(in crate::runtime) fn is_named(subject: &Subject<'_>) -> bool {
    current().selector.as_ref().is_none_or(|selector| selector.names(subject))
}

fn role_in(module: &Module, address: CodeAddr) -> u8 {
    let both = [(&current().starting, spans::START), (&current().stopping, spans::STOP)];
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
    current().under.as_ref().is_some_and(|under| under.accepts(module, address))
}

/// Whether the function at an address opens a scope.
pub(in crate::runtime) fn opens_scope(registry: &ModuleRegistry, address: CodeAddr) -> bool {
    registry.entry_of(address).is_some_and(|(_, entry)| opens_in(&entry.module, address))
}
