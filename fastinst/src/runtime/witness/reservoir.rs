//! A reservoir: as many stacks as a profile needs. However many stacks were seen, each is kept with
//! the same probability (algorithm R: Vitter, Random Sampling with a Reservoir, 1985).

use crate::attribution::Stack;
use std::collections::HashMap;

/// With so many, a share of one in a hundred of a program's time is known within a tenth of itself.
const MOST: usize = 16_384;

#[derive(Debug)]
pub(super) struct Reservoir {
    kept: Vec<Stack>,
    seen: u64,
    random: u64,
    most: usize,
}

impl Default for Reservoir {
    fn default() -> Self {
        Self { kept: Vec::new(), seen: 0, random: 0x9e37_79b9_7f4a_7c15, most: MOST }
    }
}

impl Reservoir {
    pub(super) fn add(&mut self, stack: Stack) {
        self.seen += 1;
        if self.kept.len() < self.most {
            self.kept.push(stack);
            return;
        }
        // Knuth's MMIX generator: its upper bits are the better ones.
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let place = ((u128::from(self.random) * u128::from(self.seen)) >> 64) as usize;
        if let Some(kept) = self.kept.get_mut(place) {
            *kept = stack;
        }
    }

    /// The stacks that were kept, each with its number.
    pub(super) fn counts(&self) -> HashMap<Stack, u64> {
        let mut counts = HashMap::new();
        for stack in &self.kept {
            match counts.get_mut(stack) {
                Some(count) => *count += 1,
                None => drop(counts.insert(stack.clone(), 1)),
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::Place;

    fn stack(number: u32) -> Stack {
        Stack { places: [Place { mapping: 0, offset: number }].into(), is_whole: true }
    }

    #[test]
    fn few_are_all_kept() {
        let mut reservoir = Reservoir::default();
        (0..100).for_each(|number| reservoir.add(stack(number % 3)));
        assert_eq!(
            (reservoir.seen, reservoir.counts()[&stack(0)], reservoir.counts()[&stack(2)]),
            (100, 34, 33)
        );
    }

    #[test]
    fn of_many_the_early_and_the_late_are_kept_alike() {
        let mut reservoir = Reservoir { most: 1000, ..Reservoir::default() };
        (0..100_000).for_each(|number| reservoir.add(stack(number / 10_000)));
        let counts = reservoir.counts();
        assert_eq!(counts.values().sum::<u64>(), 1000);
        for tenth in 0..10 {
            let kept = counts[&stack(tenth)];
            assert!((60..140).contains(&kept), "{kept} of tenth {tenth}");
        }
    }
}
