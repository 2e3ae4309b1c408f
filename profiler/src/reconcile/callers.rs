//! Callers: the functions that call a function, if all of them are known.
//!
//! Return addresses of timed calls show them, and reconciliation adds those in the clock's stacks.
//! A call from code without probes, a thread's outermost function, or callers that are not
//! distinguished make the set open: such a function may have any time. Recursive calls are not
//! evidence of the callers that a function's time belongs to.

use crate::profile::Profile;

/// Timed calls that show where a function is called from. Calls are timed at random, so a caller
/// that none of them has is rare.
const MANY: u64 = 20;

/// The locations of functions, in order, and the functions' positions.
pub(super) struct Places(Vec<(Place, usize)>);

type Place = (Option<u32>, u64);

impl Places {
    pub(super) fn of(profile: &Profile) -> Self {
        let functions = profile.functions.iter().enumerate();
        let mut known: Vec<_> =
            functions.map(|(at, function)| (Self::place(&function.label), at)).collect();
        known.sort_unstable();
        Self(known)
    }

    fn place(label: &crate::Label) -> Place {
        (label.module, label.offset)
    }

    /// The position of the function with this label: if several have the same location, as
    /// functions outside of modules may, the last of them.
    pub(super) fn find(&self, label: &crate::Label) -> Option<usize> {
        let place = Self::place(label);
        let behind = self.0.partition_point(|(known, _)| *known <= place);
        self.0[..behind].last().filter(|(known, _)| *known == place).map(|(_, at)| *at)
    }
}

/// For each function, the positions of its callers in order, itself left out; `None` if not all are
/// known.
#[derive(Debug)]
pub(crate) struct Callers(Vec<Option<Vec<usize>>>);

impl Callers {
    pub(crate) fn of(profile: &Profile) -> Self {
        let places = Places::of(profile);
        let all = profile.functions.iter().map(|function| {
            let caller =
                |arc: &crate::Arc| arc.caller.as_ref().and_then(|label| places.find(label));
            // Where the probes know the caller of every call, the clock's stacks are no evidence.
            // Where they know those of many calls, a stack without a caller has ended early.
            let timed: u64 = function.arcs.iter().map(|arc| arc.samples).sum();
            let is_whole = function.calls.is_exact() && timed as f64 >= function.calls.value;
            let is_evidence = |arc: &&crate::Arc| {
                arc.samples > 0 || !is_whole && (arc.caller.is_some() || timed < MANY)
            };
            let arcs = function.arcs.iter().filter(is_evidence);
            let mut all: Vec<usize> = arcs.map(caller).collect::<Option<_>>()?;
            all.sort_unstable();
            all.dedup();
            Some(all)
        });
        Self::closed(all.collect())
    }

    /// Makes the table from lists of callers. A function that calls only itself may be called by
    /// any function.
    pub(super) fn closed(mut all: Vec<Option<Vec<usize>>>) -> Self {
        for (at, slot) in all.iter_mut().enumerate() {
            *slot = slot.take().map(|mut callers| {
                callers.retain(|caller| *caller != at);
                callers
            });
            *slot = slot.take().filter(|callers| !callers.is_empty());
        }
        Self(all)
    }

    /// The same table, in which a function is open if one of its callers is not `known`.
    pub(super) fn among(&self, known: impl Fn(usize) -> bool) -> Self {
        let kept = |(at, callers): (usize, &Option<Vec<usize>>)| {
            callers
                .clone()
                .filter(|callers| known(at) && callers.iter().all(|caller| known(*caller)))
        };
        Self(self.0.iter().enumerate().map(kept).collect())
    }

    /// The functions that call it, if all are known.
    pub(crate) fn get(&self, function: usize) -> Option<&[usize]> {
        self.0[function].as_deref()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// For each function, those that it calls and whose callers are all known.
    pub(super) fn callees(&self) -> Vec<Vec<usize>> {
        let mut callees = vec![Vec::new(); self.0.len()];
        for (at, callers) in self.0.iter().enumerate() {
            for &caller in callers.iter().flatten() {
                callees[caller].push(at);
            }
        }
        callees
    }
}
