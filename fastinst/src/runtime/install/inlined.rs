//! Inlining: which functions end in the code of another.
//!
//! Hooks of an inlined function lie in the code of another, its container, and report the
//! container's return address. A container's own enter hook comes first, and an exit is its own if
//! the hook receives the same function.

use crate::discovery::FoundSite;
use crate::probe::Kind;
use callpatch::Role;
use std::collections::{BTreeMap, BTreeSet};
use wordpatch::CodeAddr;

/// The functions into which others were inlined: where their code begins, and what they pass to
/// hooks. A copy that the compiler has made passes the address of its original.
pub(super) struct Containers(BTreeMap<CodeAddr, CodeAddr>);

/// An exit in a container, at which inlined functions may end.
pub(super) struct InlinedEnd {
    /// Its address.
    pub(super) site: CodeAddr,
    /// What the hook receives if the container ends.
    pub(super) own: CodeAddr,
}

impl Containers {
    /// Of sites that are sorted by address.
    pub(super) fn find(sites: &[FoundSite]) -> Self {
        let mut containers = BTreeMap::new();
        for code in sites.chunk_by(|one, other| one.within == other.within) {
            let Some(within) = code[0].within else { continue };
            let mut entered =
                code.iter().filter(|site| site.kind == Kind::Enter).map(|site| site.function);
            let first = entered.clone().next().flatten();
            let own = if entered.clone().any(|function| function == Some(within)) {
                within
            } else {
                first.unwrap_or(within)
            };
            // It enters itself once, at its beginning.
            if entered.any(|function| function != Some(own)) {
                containers.insert(within, own);
            }
        }
        Self(containers)
    }

    /// Where they begin.
    pub(super) fn addresses(&self) -> BTreeSet<CodeAddr> {
        self.0.keys().copied().collect()
    }

    /// What a site is as an exit at which inlined functions may end.
    pub(super) fn end_of_inlined(&self, site: &FoundSite) -> Option<InlinedEnd> {
        if site.kind != Kind::Exit || site.role != Role::Call {
            return None;
        }
        let own = *self.0.get(&site.within?)?;
        Some(InlinedEnd { site: site.address, own })
    }
}
