//! Numbers that an instance keeps, by where machine code finds them.

/// A number that an instance keeps: a global, or a word of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Cell {
    Global {
        index: u32,
        wide: bool,
    },
    Memory {
        memory: u32,
        address: u64,
        /// Whether it has 64 bits.
        wide: bool,
    },
}
