//! Inlining: which functions end in the code of another.
//!
//! Hooks of an inlined function lie in the code of another, its container, and report the
//! container's return address. A container's own enter hook comes first.

use crate::discovery::FoundSite;
use crate::probe::Kind;
use callpatch::Role;
use std::collections::{BTreeMap, BTreeSet};
use wordpatch::CodeAddr;

/// The functions into which others were inlined: where their code begins, and what they pass to
/// hooks. A copy that the compiler has made passes the address of its original.
pub(super) struct Containers(BTreeMap<CodeAddr, CodeAddr>);

impl Containers {
    /// Of sites that are sorted by address.
    pub(super) fn find(sites: &[FoundSite]) -> Self {
        let mut containers = BTreeMap::new();
        for code in sites.chunk_by(|one, other| one.within == other.within) {
            let enters = code.iter().filter(|site| site.kind == Kind::Enter);
            let entered = || enters.clone().filter_map(|site| site.function);
            let within = code[0].within;
            let own = entered().find(|&function| Some(function) == within);
            let Some((within, own)) = within.zip(own.or_else(|| entered().next())) else {
                continue;
            };
            if entered().any(|function| function != own) {
                containers.insert(within, own);
            }
        }
        Self(containers)
    }

    /// Where they begin.
    pub(super) fn addresses(&self) -> BTreeSet<CodeAddr> {
        self.0.keys().copied().collect()
    }

    /// The address of a site at which only inlined functions end; these `others` do, too.
    pub(super) fn end_of_inlined(&self, site: &FoundSite, others: &[CodeAddr]) -> Option<CodeAddr> {
        if site.kind != Kind::Exit || site.role != Role::Call {
            return None;
        }
        let own = self.0.get(&site.within?)?;
        let is_inlined = site.function? != *own && !others.contains(own);
        is_inlined.then_some(site.address)
    }
}
