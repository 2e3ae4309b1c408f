//! Numbers that an instance keeps, by their places in memory.

/// A number that an instance keeps: a global, or a word of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cell {
    /// A global.
    Global {
        /// Which.
        index: u32,
        /// Whether it has 64 bits.
        wide: bool,
    },
    /// A word of a memory.
    Memory {
        /// Which memory.
        memory: u32,
        /// Where in it.
        address: u64,
        /// Whether it has 64 bits.
        wide: bool,
    },
}
