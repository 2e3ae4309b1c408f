//! Numbers that are stored in an instance, with their places.

/// A number that is stored in an instance: a global, or a word of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cell {
    /// A global.
    Global {
        /// Its index.
        index: u32,
        /// Whether it has 64 bits.
        wide: bool,
    },
    /// A word of a memory.
    Memory {
        /// Which memory.
        memory: u32,
        /// The address in it.
        address: u64,
        /// Whether it has 64 bits.
        wide: bool,
    },
}
