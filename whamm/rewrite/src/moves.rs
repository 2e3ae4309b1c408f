//! Where instructions went. Debug information and source maps follow them.

/// Where instructions of a body went: their places in the program, and in the body's code.
pub(crate) type Places = Vec<(u64, usize)>;

/// Where a body begins in the contents of the section, and where its instructions went.
pub(crate) type Moved = (usize, Places);

/// Where instructions went, counted from the beginning of the code section.
pub(crate) struct Addresses(Vec<(u64, u64)>);

impl Addresses {
    /// Of each body: where it begins in the contents of the section, and where in it instructions
    /// of the program went.
    pub(crate) fn new(start: u64, functions: u32, moved: &[Moved]) -> Self {
        // Before the first body stands how many there are.
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

/// Where an address went: the first byte of an instruction, and the byte behind one.
pub(crate) trait Moves {
    /// Where what begins at an address begins now.
    fn begin(&self, address: u64) -> Option<u64>;
    /// Where what ends at an address ends now.
    fn end(&self, address: u64) -> Option<u64>;
}
