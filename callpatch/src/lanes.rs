//! Lanes: a module's stubs, laid out so that the calls which lead to them can be nops when off.
//!
//! ```text
//!   module   ──────[ call a ]────[ call b ]──[ call c ]──────
//!                      │             │           └──────────────┐
//!   lane 1   ──────[ stub a ──]──[ stub b ──────]───            │   displacement 1F 44 k0 k1, of all of its calls
//!   lane 2   ───────────────────────────────────────────[ stub c ──]   displacement 1F 44 m0 m1
//! ```
//!
//! All displacements with which a call can be a nop when it is off differ by multiples of 64 kB. So
//! the stubs of a module are laid out as its calls are: a lane is the module moved by such a
//! displacement. A stub that would overlap the one before it is put into another lane. Only those
//! pages of a lane are touched that hold stubs.

use crate::error::IslandError;
use crate::reach::{Grid, Reach};
use crate::x86::{Form, NOP_DISPLACEMENT, NOP_STEP};
use std::ops::Range;
use wordpatch::os::pages::{PAGE, round_up, untouched_is_free};
use wordpatch::{CodeAddr, CodeMemory};

/// The most lanes. A stub that fits into none of them is placed elsewhere, and its call is not a
/// nop when off.
const MOST: usize = 6;
/// The longest lane: a module of this size has more code than calls of hooks.
const LONGEST: usize = 256 << 20;
/// The longest stub that fits in a lane.
pub(crate) const ROOM: usize = 64;

/// The lanes of a module.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// The range of the calls.
    calls: Range<CodeAddr>,
    /// The number of bytes of stubs still to come.
    expected: usize,
    lanes: Vec<Lane>,
    /// No further lane can be mapped.
    are_all: bool,
}

#[derive(Debug)]
struct Lane {
    memory: CodeMemory,
    displacement: i32,
    /// The end of its used part.
    used: CodeAddr,
}

impl Lanes {
    /// Lanes for the calls in that range, and for stubs of that many bytes in all. Nothing is
    /// mapped yet.
    pub(crate) fn of(calls: Range<CodeAddr>, expected: usize) -> Self {
        // A lane is as long as the code, and mostly untouched.
        let are_all = calls.is_empty() || length(&calls) > LONGEST || !untouched_is_free();
        Self { calls, expected, lanes: Vec::new(), are_all }
    }

    /// A place for a stub of at most `len` bytes for the call of that form at `call`, if a lane has
    /// one. Calls come in the order of their addresses.
    pub(crate) fn place(
        &mut self,
        reach: &Reach,
        (call, form): (CodeAddr, Form),
        len: usize,
    ) -> Result<Option<CodeAddr>, IslandError> {
        if !self.calls.contains(&call) || len > ROOM {
            return Ok(None);
        }
        let Some(lane) = self.lane_for(reach, call, form)? else { return Ok(None) };
        let stub = form.destination(call, lane.displacement);
        lane.used = stub.offset(len as isize);
        Ok(Some(stub))
    }

    /// Writes a stub of at most `len` bytes to its place.
    pub(crate) fn write(&mut self, place: CodeAddr, len: usize, code: &[u8]) {
        assert!(code.len() <= len, "a stub of {} bytes in the room of {len}", code.len());
        let lane = self.lanes.iter_mut().find(|lane| holds(&lane.memory, place));
        let Some(lane) = lane else { unreachable!("places lie in lanes") };
        lane.memory.write(place.distance_from(lane.memory.base()) as usize, code);
    }

    /// The first lane that is free at the place of that call's stub.
    fn lane_for(
        &mut self,
        reach: &Reach,
        call: CodeAddr,
        form: Form,
    ) -> Result<Option<&mut Lane>, IslandError> {
        let is_free = |lane: &Lane| form.destination(call, lane.displacement) >= lane.used;
        let at = match self.lanes.iter().position(is_free) {
            Some(at) => at,
            None if self.are_all || self.lanes.len() == MOST => return Ok(None),
            None => match self.lane(reach)? {
                Some(lane) => {
                    self.lanes.push(lane);
                    self.lanes.len() - 1
                }
                None => {
                    self.are_all = true;
                    return Ok(None);
                }
            },
        };
        Ok(self.lanes.get_mut(at))
    }

    /// Maps one more lane, as near as possible.
    fn lane(&self, reach: &Reach) -> Result<Option<Lane>, IslandError> {
        // The place of the first call's stub, with the first of the displacements.
        let first = Form::Call.destination(self.calls.start, NOP_DISPLACEMENT);
        let len = length(&self.calls) + ROOM + PAGE;
        let origin = first.align_down(PAGE);
        let mapped = reach.map_sparse(round_up(len), Grid { origin, step: NOP_STEP });
        let os = |error| IslandError::Os { module: self.calls.clone(), error };
        let Some(memory) = mapped.map_err(os)? else { return Ok(None) };
        let steps = memory.base().distance_from(origin) as i32;
        if self.expected * 4 > memory.len() {
            memory.populate(memory.len());
        }
        let used = memory.base();
        Ok(Some(Lane { memory, displacement: NOP_DISPLACEMENT + steps, used }))
    }

    /// The code memory that contains an address.
    pub(crate) fn memory_of(&self, at: CodeAddr) -> Option<&CodeMemory> {
        self.lanes.iter().map(|lane| &lane.memory).find(|memory| holds(memory, at))
    }

    /// The total size of their code memory in bytes, touched or not.
    pub(crate) fn len(&self) -> usize {
        self.lanes.iter().map(|lane| lane.memory.len()).sum()
    }
}

fn length(range: &Range<CodeAddr>) -> usize {
    range.end.distance_from(range.start) as usize
}

fn holds(memory: &CodeMemory, at: CodeAddr) -> bool {
    (0..memory.len() as isize).contains(&at.distance_from(memory.base()))
}
