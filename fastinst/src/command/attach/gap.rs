//! Gaps: unused bytes of executable pages, in which a stopped thread makes its first system call.
//!
//! They are zeroes at the end of a mapping, behind the segment of a module that is never unloaded:
//! bytes that only fill the page. A command that is killed while a thread needs its
//! [way back](super::way_back) leaves it in the gap; the next command clears it once that thread
//! has left it.
//!
//! # Safety
//!
//! This module exists to write into the code of other processes, where no instructions are.
#![allow(unsafe_code)]

use super::loaded::Loaded;
use super::way_back::{self, Owner, room};
use std::ops::Range;
use std::time::Duration;
use wordpatch::os::maps::Mapping;
use wordpatch::os::threads::Tid;
use wordpatch::os::tracing::{Memory, Stopped};

const PAGE: usize = 4096;

/// The pages of a process that may have gaps.
#[derive(Debug)]
pub(super) struct Gaps(Vec<LastPage>);

/// The last page of a mapping, and how much of it the module's segment takes.
#[derive(Clone, Copy, Debug)]
struct LastPage {
    at: u64,
    used: usize,
}

/// Zeroes at the end of an executable mapping, with room for the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) at: u64,
}

impl Gaps {
    /// Those of modules that are never unloaded.
    pub(super) fn of(mappings: &[Mapping], modules: &[&Loaded]) -> Self {
        let is_code = |mapping: &&Mapping| mapping.execute && mapping.read && !mapping.write;
        let code: Vec<&Mapping> = mappings.iter().filter(is_code).collect();
        let last_pages = |module: &&Loaded| {
            let segments: Vec<_> = module.segments().collect();
            let last_page = |mapping: &&Mapping| {
                let [start, end] = [mapping.start, mapping.end].map(|at| at.get() as u64);
                let is_in = |segment: &&Range<u64>| segment.end > start && segment.end <= end;
                let at = end - PAGE as u64;
                let used = segments.iter().find(is_in)?.end.saturating_sub(at) as usize;
                Some(LastPage { at, used })
            };
            code.iter().filter_map(last_page).collect::<Vec<_>>()
        };
        Self(modules.iter().flat_map(last_pages).collect())
    }

    /// Fills the first one that the kernel allows to be written. `thread` is about to use it.
    pub(super) fn fill(&self, memory: &Memory, thread: &Stopped) -> Result<Gap, String> {
        let code = way_back::code(thread);
        let mut why =
            "it has no unused bytes left in its code, too many commands were killed".to_owned();
        for page in &self.0 {
            let gap = read(memory, page.at).and_then(|bytes| gap(&bytes, page.used, room()));
            let Some(at) = gap else { continue };
            let gap = Gap { at: page.at + at as u64 };
            // SAFETY: (1) bytes behind the segment, which the kernel has mapped privately.
            match unsafe { memory.write(gap.at, &code) } {
                Ok(()) => return Ok(gap),
                Err(error) => why = format!("its memory cannot be written ({error})"),
            }
        }
        Err(why)
    }

    /// Clears those that killed commands have left, if the threads that they were for have left
    /// them.
    pub(super) fn clear_left(&self, memory: &Memory, process: i32) {
        for (gap, owner) in self.left(memory) {
            // A thread of its own: see `Stopped::stop`.
            let is_left = std::thread::scope(|scope| {
                scope.spawn(|| gap.is_left(memory, process, owner)).join().unwrap_or(false)
            });
            if is_left {
                gap.clear(memory);
            }
        }
    }

    fn left(&self, memory: &Memory) -> Vec<(Gap, Owner)> {
        let mut left = Vec::new();
        for page in &self.0 {
            let Some(bytes) = read(memory, page.at) else { continue };
            let mut from = 0;
            while let Some((at, owner)) = way_back::find(&bytes[from..]) {
                left.push((Gap { at: page.at + (from + at) as u64 }, owner));
                from += at + room();
            }
        }
        left
    }
}

impl Gap {
    /// Whether its thread executes, and will execute, nothing in it. A thread that cannot be found
    /// or stopped may.
    fn is_left(self, memory: &Memory, process: i32, owner: Owner) -> bool {
        const PATIENCE: Duration = Duration::from_millis(100);
        /// How much of a stack may lie above the frame of a handler that has interrupted it.
        const STACK: usize = 64 << 10;
        let thread = owner.thread;
        if !std::path::Path::new(&format!("/proc/{process}/task/{thread}")).exists() {
            return false;
        }
        let Ok(stopped) = Stopped::stop(Tid(thread as i32), PATIENCE) else { return false };
        let registers = stopped.registers();
        let range = self.at..self.at + room() as u64;
        // The pages from its stack pointer on, up to the end of the stack.
        let from = registers.stack() & !7;
        let first = from & !(PAGE as u64 - 1);
        let pages = (first..first + STACK as u64).step_by(PAGE);
        let stack: Vec<u8> = pages.map_while(|at| read(memory, at)).flatten().collect();
        let words = stack.get((from - first) as usize..).unwrap_or_default().chunks_exact(8);
        let mut words = words.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
        registers.thread_pointer() == owner.pointer
            && !range.contains(&registers.instruction())
            && !words.any(|word| range.contains(&word))
    }

    /// Makes it what it was.
    pub(super) fn clear(self, memory: &Memory) {
        let zeroes = vec![0; room()];
        // If that fails, instructions remain that nothing executes.
        // SAFETY: (1) bytes behind all code, in which no thread is.
        let _ = unsafe { memory.write(self.at, &zeroes) };
    }
}

fn read(memory: &Memory, page: u64) -> Option<[u8; PAGE]> {
    let mut bytes = [0; PAGE];
    memory.read(page, &mut bytes).ok().map(|()| bytes)
}

/// Where a gap of `room` bytes begins in a page of which a segment takes `used`, if there is one.
/// The first zeroes may belong to the last instruction, or to what a killed command has left.
fn gap(page: &[u8], used: usize, room: usize) -> Option<usize> {
    const OF_INSTRUCTION: usize = 16;
    let written = page.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let at = (written.max(used) + OF_INSTRUCTION).next_multiple_of(16);
    (at + room <= page.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_behind_the_segment_and_the_last_instruction() {
        let mut page = [0; PAGE];
        page[100] = 0xc3;
        assert_eq!([90, 101, 200].map(|used| gap(&page, used, 290)), [128, 128, 224].map(Some));
        page[3775] = 0xc3;
        assert_eq!((gap(&page, 0, 304), gap(&page, 0, 305)), (Some(3792), None));
        page[4095] = 0xc3;
        assert_eq!(gap(&page, 0, 16), None);
        assert_eq!(gap(&[0; PAGE], PAGE, 16), None);
    }
}
