//! What a storm has seen.

use super::crew::Log;
use super::shape::Outcome;

/// The counts of one storm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Toggles between which an executer was seen to execute: those that can show something.
    pub counted: u64,
    /// Toggles that no executer was seen to execute beside.
    pub uncounted: u64,
    /// Toggles during which something torn or stray was executed.
    pub torn: u64,
    /// What was executed.
    pub log: Log,
}

impl Tally {
    /// Adds what another storm has seen.
    pub fn add(&mut self, other: &Self) {
        self.counted += other.counted;
        self.uncounted += other.uncounted;
        self.torn += other.torn;
        self.log.merge(other.log.clone());
    }

    /// How many outcomes were neither torn nor whole.
    pub fn stray(&self) -> u64 {
        self.log.count(Outcome::Stray)
    }
}
