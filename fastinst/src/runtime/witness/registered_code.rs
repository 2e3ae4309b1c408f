//! Registered code, as samples find it: by address and by time, since a runtime may register other
//! code where code lay that it has unregistered, before the agent has read the samples of the
//! former.

use crate::runtime::registered::Placement;

/// What is registered, and what was unregistered after the oldest sample that was not read yet.
#[derive(Debug, Default)]
pub(super) struct RegisteredCode {
    /// By address; none overlaps another.
    present: Vec<Numbered>,
    /// A few: those of one period between two readings of the rings.
    past: Vec<Numbered>,
}

/// A module of it, and the number of its mapping, which it gets with its first sample.
#[derive(Debug)]
pub(super) struct Numbered {
    pub(super) placement: Placement,
    pub(super) mapping: Option<u32>,
}

impl RegisteredCode {
    /// Replaces the placements. Modules keep their numbers as long as they begin where they began.
    pub(super) fn set(&mut self, placements: Vec<Placement>) {
        let mut old = std::mem::take(&mut self.present);
        old.append(&mut self.past);
        let number = |new: &Placement| {
            let is_same = |old: &&Numbered| {
                let old = &old.placement;
                (old.entry, old.span.start) == (new.entry, new.span.start)
            };
            old.iter().find(is_same).and_then(|old| old.mapping)
        };
        let numbered = placements
            .into_iter()
            .map(|placement| Numbered { mapping: number(&placement), placement });
        (self.past, self.present) =
            numbered.partition(|code| code.placement.lifetime.end != u64::MAX);
        self.present.sort_by_key(|code| code.placement.span.start);
    }

    /// The module that lay there at that time.
    pub(super) fn at(&mut self, address: usize, when: u64) -> Option<&mut Numbered> {
        let holds = |code: &Numbered| {
            code.placement.span.contains(&address) && code.placement.lifetime.contains(&when)
        };
        let behind = self.present.partition_point(|code| code.placement.span.start <= address);
        let present = behind.checked_sub(1).filter(|&at| holds(&self.present[at]));
        match present {
            Some(at) => self.present.get_mut(at),
            None => self.past.iter_mut().find(|code| holds(code)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(entry: usize, start: usize, lifetime: std::ops::Range<u64>) -> Placement {
        Placement { entry, span: start..start + 100, lifetime }
    }

    fn entry(code: &mut RegisteredCode, address: usize, when: u64) -> Option<usize> {
        code.at(address, when).map(|code| code.placement.entry)
    }

    #[test]
    fn a_sample_is_in_the_code_that_lay_there_then() {
        let mut code = RegisteredCode::default();
        code.set(vec![
            placement(1, 1000, 5..10),
            placement(2, 1000, 20..30),
            placement(3, 1050, 40..u64::MAX),
            placement(4, 500, 0..u64::MAX),
        ]);
        let found = [7, 10, 25, 45].map(|when| entry(&mut code, 1060, when));
        assert_eq!(found, [Some(1), None, Some(2), Some(3)]);
        assert_eq!(entry(&mut code, 1010, 45), None);
        assert_eq!([599, 600].map(|at| entry(&mut code, at, 45)), [Some(4), None]);
    }

    #[test]
    fn a_module_keeps_its_number_when_it_is_unregistered() {
        let mut code = RegisteredCode::default();
        code.set(vec![placement(1, 1000, 5..u64::MAX)]);
        code.at(1000, 6).unwrap().mapping = Some(17);
        code.set(vec![placement(2, 1000, 20..u64::MAX), placement(1, 1000, 5..10)]);
        let numbers = [6, 20].map(|when| code.at(1000, when).unwrap().mapping);
        assert_eq!(numbers, [Some(17), None]);
    }
}
