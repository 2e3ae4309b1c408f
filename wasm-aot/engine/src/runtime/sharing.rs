//! Versions have functions in common: code depends on the plans that concern its function, and on
//! no others.

use super::module::ModuleInner;
use super::version::{Current, Observed, Versions};

impl Observed {
    /// The plans that concern a function, in order.
    fn here<'a>(&'a self, versions: &'a Versions, index: u32) -> impl Iterator<Item = usize> + 'a {
        self.parts.iter().copied().filter(move |part| versions.plans[*part].concerns(index))
    }

    /// What of it concerns a function, among all.
    pub(super) fn in_function(&self, versions: &Versions, index: u32) -> Self {
        Self { counts: self.counts, parts: self.here(versions, index).collect() }
    }
}

impl ModuleInner {
    /// Gives a version of all functions what others have of these that is the same.
    pub(super) fn share(&self, versions: &mut Versions, whole: Current, functions: &[usize]) {
        let Current::Version(version) = whole else { return };
        for function in functions {
            let index = self.info.imported.functions + *function as u32;
            let observed = &versions.others[version].observed;
            let is_same = |other: &Observed| {
                other.counts == observed.counts
                    && other.here(versions, index).eq(observed.here(versions, index))
            };
            if versions.others[version].made[*function] {
                continue;
            }
            let known = versions
                .others
                .iter()
                .position(|other| other.made[*function] && is_same(&other.observed));
            let Some(known) = known else { continue };
            if let Ok([of, to]) = versions.others.get_disjoint_mut([known, version]) {
                to.sides.share(&of.sides, *function);
                to.made[*function] = true;
                to.entered[*function] = of.entered[*function];
                to.shares = true;
            }
        }
    }
}
