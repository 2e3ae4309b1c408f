//! Local variables of a function that is being written: new ones, and released ones.

use std::collections::HashMap;
use wasm_encoder::ValType;

/// The local variables added to a function.
#[derive(Debug, Default)]
pub(crate) struct Locals {
    base: u32,
    types: Vec<ValType>,
    free: HashMap<ValType, Vec<u32>>,
    used: Vec<u32>,
}

impl Locals {
    /// New locals follow the ones that the function has already.
    pub(crate) fn new(base: u32) -> Self {
        Self { base, ..Self::default() }
    }

    /// Allocates one until [`Self::release`].
    pub(crate) fn take(&mut self, ty: ValType) -> u32 {
        let local = self.free.get_mut(&ty).and_then(Vec::pop).unwrap_or_else(|| self.keep(ty));
        self.used.push(local);
        local
    }

    /// Allocates one permanently.
    pub(crate) fn keep(&mut self, ty: ValType) -> u32 {
        self.types.push(ty);
        self.base + u32::try_from(self.types.len() - 1).unwrap_or(u32::MAX)
    }

    /// A mark for [`Self::release`]: locals that are taken from now on.
    pub(crate) fn mark(&self) -> usize {
        self.used.len()
    }

    /// Releases those taken since a mark.
    pub(crate) fn release(&mut self, mark: usize) {
        for local in self.used.drain(mark.min(self.used.len())..) {
            self.free.entry(self.types[(local - self.base) as usize]).or_default().push(local);
        }
    }

    /// The types of all, in order.
    pub(crate) fn types(&self) -> &[ValType] {
        &self.types
    }
}
