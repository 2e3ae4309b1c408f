//! Candidates: bytes that read as a call or a jump to a hook.

use super::{Hooks, decode};
use crate::probe::Kind;
use callpatch::Destination;
use callpatch::x86::Transfer;
use wordpatch::CodeAddr;

/// Bytes that may be a site.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) address: CodeAddr,
    pub(super) transfer: Transfer,
    pub(super) kind: Kind,
    pub(super) own: bool,
}

/// Looks at every byte that a transfer can begin with.
pub(super) fn candidates(code: &[u8], base: CodeAddr, hooks: &Hooks, found: &mut Vec<Candidate>) {
    let mut look = |at: usize| {
        let address = base.offset(at as isize);
        let Some(transfer) = decode(address, &code[at..]) else { return };
        let to = match transfer {
            Transfer::Switchable { form, displacement } => {
                Destination::of(form, address, displacement)
            }
            Transfer::Conditional(jump) => Destination::Code(jump.target),
        };
        // A linkage stub itself is a jump through a slot, and not a site.
        let is_stub = hooks.kind_of(Destination::Code(address)).is_some();
        if let Some(kind) = hooks.kind_of(to).filter(|_| !is_stub) {
            found.push(Candidate { address, transfer, kind, own: hooks.is_own(to) });
        }
    };
    for at in memchr::memchr2_iter(0xe8, 0xe9, code) {
        // `67 E8` begins one byte before.
        let prefixed = at > 0 && code[at] == 0xe8 && code[at - 1] == 0x67;
        look(if prefixed { at - 1 } else { at });
    }
    for at in memchr::memchr_iter(0xff, code) {
        if matches!(code.get(at + 1), Some(0x15 | 0x25)) {
            look(at);
        }
    }
    for at in memchr::memchr_iter(0x0f, code) {
        if matches!(code.get(at + 1), Some(0x80..=0x8f)) {
            look(at);
        }
    }
}
