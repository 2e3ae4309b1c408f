//! Gaps: unused bytes of executable pages, in which a stopped thread makes its first system call.
//!
//! They are zeroes at the end of a mapping, behind all code of a module that is never unloaded. A
//! command that is killed while a thread needs its [way back](super::way_back) leaves it in the
//! gap; the next command clears it once that thread has left it.
//!
//! # Safety
//!
//! This module exists to write into the code of other processes, where no instructions are.
#![allow(unsafe_code)]

use super::loaded::Loaded;
use super::way_back::{self, Owner, room};
use std::time::Duration;
use wordpatch::os::maps::Mapping;
use wordpatch::os::threads::Tid;
use wordpatch::os::tracing::{Memory, Stopped};

const PAGE: usize = 4096;

/// The pages of a process that may have gaps.
#[derive(Debug)]
pub(super) struct Gaps(Vec<u64>);

/// Zeroes at the end of an executable mapping, with room for the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) at: u64,
}

impl Gaps {
    /// Those of the kernel's own code, and of `modules`, which are never unloaded.
    pub(super) fn of(mappings: &[Mapping], modules: &[&Loaded]) -> Self {
        let is_code = |mapping: &&Mapping| mapping.execute && mapping.read && !mapping.write;
        let code: Vec<&Mapping> = mappings.iter().filter(is_code).collect();
        let is_of = |mapping: &Mapping, module: &Loaded| {
            mapping.path.starts_with('/') && module.span().contains(&(mapping.start.get() as u64))
        };
        let kernel = code.iter().filter(|mapping| mapping.path == "[vdso]");
        let files = modules.iter().flat_map(|module| code.iter().filter(|it| is_of(it, module)));
        Self(kernel.chain(files).map(|mapping| (mapping.end.get() - PAGE) as u64).collect())
    }

    /// Fills the first one that the kernel allows to be written. `thread` is about to use it.
    pub(super) fn fill(&self, memory: &Memory, thread: &Stopped) -> Result<Gap, String> {
        let code = way_back::code(thread);
        let mut why =
            "it has no unused bytes left in its code, too many commands were killed".to_owned();
        for page in &self.0 {
            let Some(at) = read(memory, *page).and_then(|page| gap(&page, room())) else {
                continue;
            };
            let gap = Gap { at: page + at as u64 };
            // SAFETY: (1) bytes behind all code of their mapping, which is private.
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
            let Some(bytes) = read(memory, *page) else { continue };
            let mut from = 0;
            while let Some((at, owner)) = way_back::find(&bytes[from..]) {
                left.push((Gap { at: page + (from + at) as u64 }, owner));
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
        const STACK: u64 = 64 << 10;
        let thread = owner.thread;
        if !std::path::Path::new(&format!("/proc/{process}/task/{thread}")).exists() {
            return false;
        }
        let Ok(stopped) = Stopped::stop(Tid(thread as i32), PATIENCE) else { return false };
        let registers = stopped.registers();
        let range = self.at..self.at + room() as u64;
        let stack = (registers.stack()..registers.stack() + STACK).step_by(8);
        let mut words = stack.map_while(|at| memory.word(at).ok());
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

/// Where a gap of `room` bytes begins in a page, if there is one. The first zeroes may belong to the
/// last instruction, or to what a killed command has left.
fn gap(page: &[u8], room: usize) -> Option<usize> {
    const OF_INSTRUCTION: usize = 16;
    let used = page.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let at = (used + OF_INSTRUCTION).next_multiple_of(16);
    (at + room <= page.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_behind_the_last_instruction_whole() {
        let mut page = [0; 4096];
        page[100] = 0xc3;
        assert_eq!(gap(&page, 290), Some(128));
        page[3775] = 0xc3;
        assert_eq!((gap(&page, 304), gap(&page, 305)), (Some(3792), None));
        page[4095] = 0xc3;
        assert_eq!(gap(&page, 16), None);
    }
}
