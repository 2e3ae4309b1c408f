//! The moves of instructions, which debug information and source maps follow.

/// The moves of a body's instructions: from places in the program to places in the body's code.
pub(crate) type Places = Vec<(u64, usize)>;

/// The place of a body in the section's contents, and the moves of its instructions.
pub(crate) type Moved = (usize, Places);

/// The moves of instructions, counted from the beginning of the code section.
pub(crate) struct Addresses(Vec<(u64, u64)>);

impl Addresses {
    /// `moved` has, for each body, its place in the section's contents and the moves of its
    /// instructions.
    pub(crate) fn new(start: u64, functions: u32, moved: &[Moved]) -> Self {
        // The number of bodies precedes the first one.
        let mut prefix = Vec::new();
        wasm_encoder::Encode::encode(&functions, &mut prefix);
        let mut all = Vec::new();
        for (offset, instructions) in moved {
            let place =
                |(old, new): &(u64, usize)| (old - start, (prefix.len() + offset + new) as u64);
            all.extend(instructions.iter().map(place));
        }
        Self(all)
    }
}

impl Moves for Addresses {
    fn begin(&self, address: u64) -> Option<u64> {
        self.0.get(self.0.partition_point(|p| p.0 < address)).map(|p| p.1)
    }

    fn end(&self, address: u64) -> Option<u64> {
        let (old, new) = *self.0.get(self.0.partition_point(|p| p.0 < address).checked_sub(1)?)?;
        Some(new + (address - old))
    }
}

/// Maps addresses: of an instruction's first byte, and of the byte after an instruction.
pub(crate) trait Moves {
    /// The new beginning of a range that begins at an address.
    fn begin(&self, address: u64) -> Option<u64>;
    /// The new end of a range that ends at an address.
    fn end(&self, address: u64) -> Option<u64>;
}
