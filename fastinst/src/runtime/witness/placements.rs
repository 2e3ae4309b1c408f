//! Modules that come and go, as samples find them: by address and by time, since another module may
//! lie where one lay before, when the agent reads the samples of the former.

use crate::runtime::registry::Placement;
use std::collections::HashMap;

/// The modules that are there, and those that have gone after the oldest sample that was not read
/// yet.
#[derive(Debug, Default)]
pub(super) struct Placements {
    /// By address; none overlaps another.
    present: Vec<Placement>,
    /// A few: those of one period between two readings of the rings.
    past: Vec<Placement>,
    /// The numbers of their mappings, by entry and first address. A module that is loaded again at
    /// its former address has the same.
    mappings: HashMap<(usize, usize), Vec<u32>>,
}

impl Placements {
    /// Replaces them. Returns whether they differ from those before.
    pub(super) fn set(&mut self, placements: Vec<Placement>) -> bool {
        let (past, mut present): (Vec<_>, Vec<_>) =
            placements.into_iter().partition(|placement| placement.lifetime.end != u64::MAX);
        present.sort_by_key(|placement| placement.span.start);
        let differs = (&self.past, &self.present) != (&past, &present);
        (self.past, self.present) = (past, present);
        differs
    }

    /// The module that lay there at that time.
    pub(super) fn at(&self, address: usize, when: u64) -> Option<&Placement> {
        let holds = |placement: &&Placement| {
            placement.span.contains(&address) && placement.lifetime.contains(&when)
        };
        let behind = self.present.partition_point(|placement| placement.span.start <= address);
        let present = self.present[..behind].last().filter(holds);
        present.or_else(|| self.past.iter().find(holds))
    }

    /// The numbers of a module's mappings.
    pub(super) fn mappings(&self, placement: &Placement) -> &[u32] {
        let numbers = self.mappings.get(&(placement.entry, placement.span.start));
        numbers.map_or(&[], Vec::as_slice)
    }

    pub(super) fn add_mapping(&mut self, placement: &Placement, number: u32) {
        let key = (placement.entry, placement.span.start);
        self.mappings.entry(key).or_default().push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(entry: usize, start: usize, lifetime: std::ops::Range<u64>) -> Placement {
        Placement { entry, has_file: false, span: start..start + 100, lifetime }
    }

    fn entry(placements: &Placements, address: usize, when: u64) -> Option<usize> {
        placements.at(address, when).map(|placement| placement.entry)
    }

    fn numbers(placements: &Placements, when: u64) -> &[u32] {
        placements.mappings(placements.at(1000, when).unwrap())
    }

    #[test]
    fn a_sample_is_in_the_code_that_lay_there_then() {
        let mut placements = Placements::default();
        placements.set(vec![
            placement(1, 1000, 5..10),
            placement(2, 1000, 20..30),
            placement(3, 1050, 40..u64::MAX),
            placement(4, 500, 0..u64::MAX),
        ]);
        let found = [7, 10, 25, 45].map(|when| entry(&placements, 1060, when));
        assert_eq!(found, [Some(1), None, Some(2), Some(3)]);
        assert_eq!(entry(&placements, 1010, 45), None);
        assert_eq!([599, 600].map(|at| entry(&placements, at, 45)), [Some(4), None]);
    }

    #[test]
    fn a_module_keeps_the_numbers_of_its_mappings() {
        let mut placements = Placements::default();
        assert!(placements.set(vec![placement(1, 1000, 5..u64::MAX)]));
        let placed = placements.at(1000, 6).unwrap().clone();
        placements.add_mapping(&placed, 17);
        let both = || vec![placement(2, 1000, 20..u64::MAX), placement(1, 1000, 5..10)];
        assert!(placements.set(both()) && !placements.set(both()));
        assert_eq!([6, 20].map(|when| numbers(&placements, when)), [&[17][..], &[]]);
        placements.set(Vec::new());
        placements.set(vec![placement(1, 1000, 50..u64::MAX)]);
        assert_eq!(numbers(&placements, 60), [17]);
    }
}
