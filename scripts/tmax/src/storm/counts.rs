//! The counts of a storm.

use super::executers::Log;
use super::shape::Outcome;

/// The counts of one storm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Toggles between which a thread was observed to execute; only these are evidence.
    pub counted: u64,
    /// Toggles during which no thread was observed to execute.
    pub uncounted: u64,
    /// Toggles during which torn or stray bytes were executed.
    pub torn: u64,
    /// The outcomes.
    pub log: Log,
}

impl Counts {
    /// Adds the counts of another storm.
    pub fn add(&mut self, other: &Self) {
        self.counted += other.counted;
        self.uncounted += other.uncounted;
        self.torn += other.torn;
        self.log.merge(other.log.clone());
    }

    /// The number of outcomes that were neither torn nor whole.
    pub fn stray(&self) -> u64 {
        self.log.count(Outcome::Stray)
    }
}
