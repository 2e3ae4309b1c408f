//! How a module reaches the hooks.

use super::image::{Image, Named};
use crate::probe::Kind;
use callpatch::{Destination, x86};
use wordpatch::CodeAddr;

/// The names of the hooks.
pub(crate) fn kind_of(name: &str) -> Option<Kind> {
    match name {
        "__cyg_profile_func_enter" => Some(Kind::Enter),
        "__cyg_profile_func_exit" => Some(Kind::Exit),
        _ => None,
    }
}

/// The ways from a module to the hooks.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    /// Slots that hold a hook's address.
    slots: Ways,
    /// Linkage stubs that jump through such a slot; and hooks in the module itself.
    code: Ways,
    /// Hooks in the module itself.
    own: Ways,
}

/// A few places, each of a hook: there are two or four, and they are looked up once for every call
/// of the module.
#[derive(Clone, Debug, Default)]
struct Ways(Vec<(CodeAddr, Kind)>);

impl Ways {
    fn insert(&mut self, at: CodeAddr, kind: Kind) {
        if self.get(at).is_none() {
            self.0.push((at, kind));
        }
    }

    #[inline]
    fn get(&self, at: CodeAddr) -> Option<Kind> {
        self.0.iter().find(|(known, _)| *known == at).map(|(_, kind)| *kind)
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Hooks {
    /// Of a module; `with_own` also the hooks that it has itself, which a library in the same
    /// process leaves alone.
    pub(super) fn of(image: &Image<'_>, bias: usize, with_own: bool) -> Self {
        Self::among(image.slots(), image, bias, with_own, kind_of)
    }

    /// The same, for functions by whatever names `kind_of` knows, of these slots of the module.
    pub(super) fn among<'b>(
        slots: impl Iterator<Item = Named<'b>>,
        image: &Image<'b>,
        bias: usize,
        with_own: bool,
        kind_of: fn(&str) -> Option<Kind>,
    ) -> Self {
        let at = |address: u64| CodeAddr::new(bias.wrapping_add(address as usize));
        let mut hooks = Self::default();
        for named in slots {
            if let Some(kind) = kind_of(named.name) {
                hooks.slots.insert(at(named.slot), kind);
            }
        }
        for code in image.linkage() {
            hooks.find_stubs(code.bytes, at(code.address));
        }
        if hooks.slots.is_empty() && with_own {
            // Without a way out, the module may still have hooks of its own.
            for (name, address, _) in image.functions() {
                if let Some(kind) = kind_of(name) {
                    hooks.code.insert(at(address), kind);
                    hooks.own.insert(at(address), kind);
                }
            }
        }
        hooks
    }

    /// Finds linkage stubs: the jumps in the linkage table through the slots of the hooks.
    fn find_stubs(&mut self, code: &[u8], base: CodeAddr) {
        if self.slots.is_empty() {
            return;
        }
        for at in memchr::memchr_iter(0xff, code) {
            if code.get(at + 1) != Some(&0x25) {
                continue;
            }
            // The stub may begin with `endbr64` and `bnd`.
            for before in [0, 1, 4, 5] {
                let Some(start) = at.checked_sub(before) else { break };
                let address = base.offset(start as isize);
                let slot = x86::stub_slot(address, &code[start..]);
                let is_whole =
                    before == 0 || code[start] == 0xf3 || (before == 1 && code[start] == 0xf2);
                if let Some(kind) = slot.filter(|_| is_whole).and_then(|slot| self.slots.get(slot))
                {
                    self.code.insert(address, kind);
                }
            }
        }
    }

    /// Whether the module reaches no hook.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.code.is_empty()
    }

    /// Which hook lies there.
    pub fn kind_of(&self, to: Destination) -> Option<Kind> {
        match to {
            Destination::Code(code) => self.code.get(code),
            Destination::Slot(slot) => self.slots.get(slot),
        }
    }

    /// Whether what lies there is the module's own.
    pub fn is_own(&self, to: Destination) -> bool {
        self.own.get(to.address()).is_some()
    }
}
