//! Where a listing stands: what the kernel calls the places of a directory.

/// Where the kernel is after so many entries, as far as they were listed.
#[derive(Debug, Default)]
pub(crate) struct Positions(Vec<u64>);

impl Positions {
    /// The last known number of entries that is not beyond a cookie. To begin anew forgets what was
    /// known.
    pub(crate) fn begin(&mut self, cookie: u64) -> usize {
        if cookie == 0 {
            self.0.clear();
        }
        usize::try_from(cookie).map_or(self.0.len(), |cookie| cookie.min(self.0.len()))
    }

    /// Where the kernel is after so many.
    pub(crate) fn of(&self, number: usize) -> u64 {
        if number == 0 { 0 } else { self.0[number - 1] }
    }

    /// `number` is at most one more than what is known. What was known beyond it holds only if
    /// nothing has changed up to it.
    pub(crate) fn learn(&mut self, number: usize, position: u64) {
        if self.0.get(number - 1) != Some(&position) {
            self.0.truncate(number - 1);
            self.0.push(position);
        }
    }
}
