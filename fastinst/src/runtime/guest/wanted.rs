//! What the user wants: which functions have probes, and which of them switch recording or open a
//! scope.

use super::{config, guest};
use crate::config::Provider;
use crate::discovery::Module;
use crate::discovery::unmodified::Maker;
use crate::runtime::plant::{self, Garden};
use crate::runtime::unmodified::Unmodified;
use crate::runtime::{agent, arguments, spans};
use crate::symbols::Subject;
use wordpatch::CodeAddr;

/// Whether the function at an address is one that the user wants probed.
pub(in crate::runtime) fn is_selected(garden: &Garden, address: CodeAddr) -> bool {
    guest().selector.as_ref().is_none_or(|selector| match garden.bed_of(address) {
        Some((_, bed)) => selector.accepts(&bed.module, address),
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

/// Whether the user wants a function that is described so.
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
pub(in crate::runtime) fn role_of(garden: &Garden, address: CodeAddr) -> u8 {
    garden.bed_of(address).map_or(0, |(_, bed)| role_in(&bed.module, address))
}

fn opens_in(module: &Module, address: CodeAddr) -> bool {
    guest().under.as_ref().is_some_and(|under| under.accepts(module, address))
}

/// Whether the function at an address opens a scope.
pub(in crate::runtime) fn opens_scope(garden: &Garden, address: CodeAddr) -> bool {
    garden.bed_of(address).is_some_and(|(_, bed)| opens_in(&bed.module, address))
}

/// Gives functions without compiled-in hooks their probes that have them before the program begins:
/// all of them, or those that a compiler has prepared.
pub(super) fn plant_before_the_program() {
    if config().provider == Provider::Points {
        plant::garden().plant_points(&config().pairs);
        return agent::plant_no_more();
    }
    let (plants_any, plants_prepared) =
        (config().plants_before(None), config().plants_before(Some(Maker::Patchable)));
    let mut garden = plant::garden();
    let of = |unmodified: &Unmodified| match (plants_any, plants_prepared) {
        (true, _) => unmodified.all(),
        (false, true) => unmodified.prepared(),
        (false, false) => Vec::new(),
    };
    let mut wanted = garden.unmodified.as_deref().map(of).unwrap_or_default();
    if !plants_any
        && [&guest().starting, &guest().stopping, &guest().under].iter().any(|one| one.is_some())
    {
        // What is waited for may come before it was seen to run.
        let all = garden.unmodified.as_deref().map(Unmodified::all).unwrap_or_default();
        let is_early = |at: CodeAddr| role_of(&garden, at) != 0 || opens_scope(&garden, at);
        wanted.extend(all.into_iter().filter(|&at| is_early(at)));
        wanted.sort_unstable();
        wanted.dedup();
    }
    if arguments::are_asked() {
        let asks = |module: &Module, at| arguments::asked(module, at).is_some();
        wanted.extend(garden.unmodified.as_deref().into_iter().flat_map(|code| code.named(asks)));
        wanted.sort_unstable();
        wanted.dedup();
    }
    garden.plant_unmodified(&wanted);
    let takes_any = garden.unmodified.as_ref().is_some_and(|unmodified| unmodified.takes_any());
    drop(garden);
    if plants_any || (plants_prepared && !takes_any) {
        agent::plant_no_more();
    }
}
