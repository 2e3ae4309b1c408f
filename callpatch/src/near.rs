//! Maps code memory within reach of a module. Another thread may map memory at the same time, and
//! take the place that was found.

use crate::reach::{Grid, Reach};
use wordpatch::os::{OsError, maps};
use wordpatch::{CodeAddr, CodeMemory};

/// The number of searches, if other threads take every place that is found.
const ATTEMPTS: usize = 16;

impl Reach {
    /// Maps `len` bytes, whole pages, as near as possible; `None` if there is no such place.
    pub fn map(&self, len: usize) -> Result<Option<CodeMemory>, OsError> {
        self.map_on(len, Grid::PAGES, CodeMemory::at)
    }

    /// The same for memory that will hardly be touched, on a grid.
    pub(crate) fn map_sparse(&self, len: usize, grid: Grid) -> Result<Option<CodeMemory>, OsError> {
        self.map_on(len, grid, CodeMemory::sparse_at)
    }

    fn map_on(
        &self,
        len: usize,
        grid: Grid,
        map: fn(CodeAddr, usize) -> Result<CodeMemory, OsError>,
    ) -> Result<Option<CodeMemory>, OsError> {
        for _ in 0..ATTEMPTS {
            let mappings = maps::mappings_and_heap()?;
            let mut taken_meanwhile = false;
            for place in self.free_places(len, grid, &mappings, &[]) {
                match map(place, len) {
                    Ok(memory) => return Ok(Some(memory)),
                    // Another thread was faster, or the kernel keeps the place for itself (the
                    // guard of a stack, mmap_min_addr).
                    Err(OsError { errno: libc::EEXIST | libc::EPERM | libc::EINVAL, .. }) => {
                        taken_meanwhile = true;
                    }
                    Err(error) => return Err(error),
                }
            }
            if !taken_meanwhile {
                break;
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use wordpatch::os::pages::PAGE;

    #[test]
    fn there_is_a_place_while_others_map_memory_too() {
        let module = CodeMemory::new(PAGE).unwrap();
        let reach = Reach::of(module.base()..module.base().offset(PAGE as isize)).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_over.load(Relaxed) {
                        drop(CodeMemory::new(4 * PAGE).unwrap());
                    }
                });
            }
            let mapped: Vec<CodeMemory> =
                (0..200).map(|_| reach.map(PAGE).unwrap().expect("a place")).collect();
            is_over.store(true, Relaxed);
            assert!(mapped.iter().all(|memory| reach.range().contains(&memory.base())));
        });
    }
}
