//! Positions of a listing: the kernel's values for places of a directory.

/// The kernel's positions after each number of entries, as far as they were listed.
#[derive(Debug, Default)]
pub(crate) struct Positions(Vec<u64>);

impl Positions {
    /// Returns the last known number of entries that is not beyond a cookie. Cookie 0 discards the
    /// known positions.
    pub(crate) fn begin(&mut self, cookie: u64) -> usize {
        if cookie == 0 {
            self.0.clear();
        }
        usize::try_from(cookie).map_or(self.0.len(), |cookie| cookie.min(self.0.len()))
    }

    /// The kernel's position after `number` entries.
    pub(crate) fn of(&self, number: usize) -> u64 {
        if number == 0 { 0 } else { self.0[number - 1] }
    }

    /// Stores a position; `number` is at most one more than the known ones. Known positions beyond
    /// it stay valid only if this one has not changed.
    pub(crate) fn learn(&mut self, number: usize, position: u64) {
        if self.0.get(number - 1) != Some(&position) {
            self.0.truncate(number - 1);
            self.0.push(position);
        }
    }
}
