//! The code of trampolines: what is done at a site of code without compiled-in hooks, while it is
//! on.

use crate::discovery::unmodified::{Entry, Exit, Moved, Spot, Way};
use crate::runtime::functions::Id;
use crate::runtime::layout::{RECORDS, Record};
use crate::runtime::stub;
use callpatch::SlotPair;
use callpatch::x86::{self, Form, RET, keeping};
use std::mem::offset_of;
use wordpatch::CodeAddr;

/// Code while it is written, instruction by instruction; `None` where a slot or a target is out of
/// reach.
struct Draft {
    at: CodeAddr,
    bytes: Vec<u8>,
}

impl Draft {
    fn new(at: CodeAddr) -> Self {
        Self { at, bytes: Vec::new() }
    }

    /// Where the next instruction lies.
    fn here(&self) -> CodeAddr {
        self.at.offset(self.bytes.len() as isize)
    }

    /// Goes past a counter, which is in line, or into it.
    fn counter(&mut self, id: Id) {
        let field = |offset: usize| (RECORDS + id.record() as usize + offset) as i32;
        self.bytes.extend_from_slice(&Form::Jump.bytes(keeping::COUNTER as i32));
        self.bytes.extend_from_slice(&keeping::counter(
            stub::thread_offset(),
            field(offset_of!(Record, address)),
            field(offset_of!(Record, count)),
        ));
    }

    fn hook(&mut self, number: u32, depth: u32, slots: SlotPair) -> Option<()> {
        let (slot, cell) = (slots.first().address(), slots.second().address());
        let hook = keeping::hook(self.here(), number, depth, slot, cell)?;
        self.bytes.extend_from_slice(&hook);
        Some(())
    }

    fn jump(&mut self, to: CodeAddr) -> Option<()> {
        let jump = x86::jump(self.here(), to)?;
        self.bytes.extend_from_slice(&jump);
        Some(())
    }

    fn moved(&mut self, moved: &Moved<'_>) -> Option<()> {
        let to = self.here();
        moved.movable?.write(moved.at, to, &mut self.bytes).then_some(())
    }

    /// What leaves a function: a hook before the last of these, or before a `ret`.
    fn leave(&mut self, moved: &[Moved<'_>], number: u32, slots: SlotPair) -> Option<()> {
        let (last, before) = moved.split_last().map_or((None, moved), |(l, b)| (Some(l), b));
        before.iter().try_for_each(|moved| self.moved(moved))?;
        self.hook(number, 0, slots)?;
        match last {
            Some(last) => self.moved(last),
            None => {
                self.bytes.push(RET);
                Some(())
            }
        }
    }
}

/// Of an entry; `counted` there in line, if that is said; with the function's `exit`, if that is
/// displaced, too.
pub(super) fn entry_code(
    at: CodeAddr,
    entry: &Entry<'_>,
    number: u32,
    counted: Option<Id>,
    slots: SlotPair,
    exit: Option<SlotPair>,
) -> Option<Vec<u8>> {
    let mut draft = Draft::new(at);
    if let Some(id) = counted {
        draft.counter(id);
    }
    // A call has put its own return address on top.
    let called = if entry.way.is_call() { 8 } else { 0 };
    draft.hook(number, entry.depth + called, slots)?;
    match (&entry.way, exit) {
        (Way::Call(..), _) => draft.bytes.push(RET),
        (Way::Turn(turn), Some(slots)) => {
            draft.hook(number, 0, slots)?;
            draft.jump(turn.to)?;
        }
        (Way::Own(turn), _) => draft.jump(turn.to)?,
        (way, None) => {
            way.moved().iter().try_for_each(|moved| draft.moved(moved))?;
            draft.jump(way.displaced().end)?;
        }
        (way, Some(slots)) => draft.leave(way.moved(), number, slots)?,
    }
    Some(draft.bytes)
}

/// Of an exit.
pub(super) fn exit_code(
    at: CodeAddr,
    exit: &Exit<'_>,
    number: u32,
    slots: SlotPair,
) -> Option<Vec<u8>> {
    let mut draft = Draft::new(at);
    let to = match exit {
        Exit::Padded(_) | Exit::Fall(_) => {
            return draft.leave(&[], number, slots).map(|()| draft.bytes);
        }
        Exit::Pun(pun) => {
            return draft.leave(&pun.moved, number, slots).map(|()| draft.bytes);
        }
        Exit::Room(room) => room.end(),
        Exit::Turn(turn) => turn.to,
    };
    draft.hook(number, 0, slots)?;
    draft.jump(to)?;
    Some(draft.bytes)
}

/// Of a point, which may be the end of a pair. Nothing is known of the stack there.
pub(super) fn point_code(
    at: CodeAddr,
    spot: &Spot<'_>,
    number: u32,
    slots: SlotPair,
    end: Option<SlotPair>,
) -> Option<Vec<u8>> {
    let mut draft = Draft::new(at);
    if let Some(end) = end {
        draft.hook(number, 0, end)?;
    }
    draft.hook(number, 0, slots)?;
    spot.moved().iter().try_for_each(|moved| draft.moved(moved))?;
    match spot {
        Spot::Pun(pun) => draft.jump(pun.moved.last()?.end())?,
        Spot::Turn(turn) => draft.jump(turn.to)?,
        Spot::Padded(_) => draft.bytes.push(RET),
    }
    Some(draft.bytes)
}

/// How long an instruction is elsewhere.
pub(super) fn len_of(moved: &Moved<'_>) -> usize {
    moved.movable.map_or(0, |movable| movable.len())
}

/// Code of that length, whatever became of it.
pub(super) fn filled(code: Option<Vec<u8>>, len: usize) -> Vec<u8> {
    const INT3: u8 = 0xcc;
    let mut code = code.unwrap_or_default();
    code.resize(len, INT3);
    code
}
