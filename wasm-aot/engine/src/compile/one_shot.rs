//! One-shot probes: sites that record, once, that they were reached. The first thread that reaches
//! one switches it off, and its first byte is the record.
//!
//! ```text
//!     E8 rel32    call routine       not executed so far
//!     A9 imm32    test eax, imm32    executed
//! ```
//!
//! A probe that has fired is an instruction that does nothing; nothing is compiled for that. The
//! `routine` follows the code that has such sites. It changes no register, no flag and no memory of
//! the program, and finds the site by its return address.
//!
//! For the code generator a one-shot probe is a patchable site.

use super::function::Translator;
use super::{CALL, LENGTH};
use cranelift_codegen::MachBufferFinalized;
use cranelift_codegen::ir::{DebugTag, InstBuilder};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The owner of one-shot probes. No two in the process are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OneShotClient(u32);

impl OneShotClient {
    /// A new client.
    pub fn fresh() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(NEXT.fetch_add(1, Relaxed))
    }
}

/// A one-shot probe: its number among those of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OneShotProbe {
    /// Its owner.
    pub client: OneShotClient,
    /// Its number.
    pub number: u32,
}

/// The site of a one-shot probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneShotSite {
    /// Where the site is in the code.
    pub at: u32,
    pub(crate) probe: OneShotProbe,
}

impl OneShotSite {
    /// The same in code that begins at `start`.
    pub(super) fn moved(self, start: u32) -> Self {
        Self { at: start + self.at, ..self }
    }
}

impl Translator<'_> {
    /// Emits the site of a one-shot probe.
    pub(super) fn one_shot_site(&mut self, probe: OneShotProbe) {
        let callee = self.placeholder_callee();
        let call = self.builder.ins().call(callee, &[]);
        self.builder
            .func
            .debug_tags
            .set(call, [DebugTag::User(probe.client.0), DebugTag::User(probe.number)]);
    }
}

/// Finds the sites in finished code, in order, and switches them on. The distances of their calls
/// are not known yet.
pub(super) fn make_one_shot_sites(
    code: &mut [u8],
    buffer: &MachBufferFinalized<cranelift_codegen::Final>,
) -> Vec<OneShotSite> {
    let mut sites = Vec::new();
    for tags in buffer.debug_tags() {
        let [DebugTag::User(client), DebugTag::User(number)] = *tags.tags else { continue };
        let at = tags.offset - LENGTH;
        code[at as usize] = CALL;
        sites.push(OneShotSite {
            at,
            probe: OneShotProbe { client: OneShotClient(client), number },
        });
    }
    sites.sort_unstable_by_key(|site| site.at);
    sites
}
