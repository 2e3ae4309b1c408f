//! Points, of which two make a pair: the duration of a pass from the one to the other.
//!
//! No frame of the stack lies between them: they may be in functions of their own, and passes of
//! several pairs may overlap. So a thread has a list of its open passes. An end belongs to the last
//! beginning of its pair on the same thread; an end without a beginning is only counted. When the
//! list is full, the oldest open pass is dropped, so passes that never end are dropped first.

use super::{begin_term, draw, finish, in_hook, record_of};
use crate::runtime::functions::Id;
use crate::runtime::layout::{Header, PASSES, Pass, Record};
use crate::runtime::signal_stack::SignalStack;
use crate::runtime::stub::BIAS;
use crate::runtime::{drain, modes};
use std::sync::atomic::Ordering::Relaxed;

/// A point that begins a pair was passed.
pub(in crate::runtime) extern "C" fn begin_pair(
    record: u32,
    _: u64,
    sp: u64,
    _: u32,
    signals: *const libc::stack_t,
) {
    let id = Id::of_record(record);
    in_hook((sp, signals), || super::count_late(id), |block, _, now| begin_on(block, id, now));
}

/// A point that ends a pair was passed, while a pass of the pair is open on this thread.
pub(in crate::runtime) extern "C" fn end_pair(
    record: u32,
    _: u64,
    sp: u64,
    _: u32,
    signals: *const libc::stack_t,
) {
    let id = Id::of_record(record);
    in_hook((sp, signals), || (), |block, _, now| end_on(block, id, now));
}

pub(super) fn begin_on(block: &Header, id: Id, now: u64) {
    let function = id.function();
    let Some(record) = record_of(block, id, function) else { return super::count_late(id) };
    if modes::mode_counts(function) {
        record.count.fetch_add(1, Relaxed);
    }
    if !modes::mode_is_sample(function) {
        return;
    }
    begin_term(block, record, function);
    if record.skip.load(Relaxed) > 0 {
        record.skip.fetch_sub(1, Relaxed);
        block.skipped.fetch_add(1, Relaxed);
    } else if record.left.load(Relaxed) > 0 || function.quota.load(Relaxed) == i32::MAX {
        record.skip.store(draw(block, function), Relaxed);
        record.left.fetch_sub(1, Relaxed);
        push(block, id, record, (0, 0), now);
    } else {
        modes::retire(id, record.term.load(Relaxed));
    }
}

/// Adds an open pass.
fn push(block: &Header, id: Id, record: &Record, (frame, cell): (u64, u32), now: u64) {
    if block.open_passes.load(Relaxed) as usize >= PASSES {
        let oldest = &block.passes[0];
        let belongs = |record: &&Record| record.term.load(Relaxed) == oldest.term.load(Relaxed);
        if let Some(record) = block.record(oldest.record.load(Relaxed)).filter(belongs) {
            record.open.store(record.open.load(Relaxed).saturating_sub(1), Relaxed);
        }
        block.lost.fetch_add(1, Relaxed);
        remove(block, 0);
    }
    let pass = &block.passes[block.open_passes.load(Relaxed) as usize];
    pass.record.store(id.record(), Relaxed);
    pass.term.store(record.term.load(Relaxed), Relaxed);
    pass.frame.store(frame, Relaxed);
    pass.cell.store(cell, Relaxed);
    pass.began_in.store(id.function().term.load(Relaxed), Relaxed);
    pass.time.store(now.wrapping_sub(block.hidden.load(Relaxed)), Relaxed);
    block.open_passes.fetch_add(1, Relaxed);
    record.open.fetch_add(1, Relaxed);
}

/// A call whose arguments are read was entered: where its return address lies, and their cell.
pub(in crate::runtime) fn open(block: &Header, id: Id, call: (u64, u32), now: u64) {
    if let Some(record) = block.record(id.record()) {
        push(block, id, record, call, now);
    }
}

/// Whether its end was not missed: the sites were on ever since it began.
fn is_unbroken(pass: &Pass, id: Id) -> bool {
    id.function().is_unbroken(pass.began_in.load(Relaxed))
}

/// Such a call is over. Returns the cell, and how many ticks it took.
pub(in crate::runtime) fn close(
    block: &Header,
    id: Id,
    frame: u64,
    now: u64,
) -> Option<(u32, u64)> {
    let is_it =
        |pass: &Pass| pass.record.load(Relaxed) == id.record() && pass.frame.load(Relaxed) == frame;
    let count = block.open_passes.load(Relaxed) as usize;
    let at = (0..count).rev().find(|&at| is_it(&block.passes[at]))?;
    let pass = &block.passes[at];
    let (cell, started) = (pass.cell.load(Relaxed), pass.time.load(Relaxed));
    let is_whole = is_unbroken(pass, id);
    forget(block, at);
    if !is_whole {
        return None;
    }
    let took = now.wrapping_sub(block.hidden.load(Relaxed)).wrapping_sub(started) as i64;
    Some((cell, took.max(0) as u64))
}

/// Drops calls that were left without returning: their return addresses lie below, on the same
/// stack, or on the signal stack when `sp` is not on it.
pub(in crate::runtime) fn drop_dead(block: &Header, (sp, signals): (u64, &SignalStack)) {
    let is_dead = |frame: u64| match (signals.holds(sp), signals.holds(frame)) {
        (false, true) => true,
        (true, false) => false,
        (true, true) | (false, false) => frame < sp && sp - frame < super::ANOTHER_STACK,
    };
    for at in (0..block.open_passes.load(Relaxed) as usize).rev() {
        let frame = block.passes[at].frame.load(Relaxed);
        if frame != 0 && is_dead(frame) {
            forget(block, at);
        }
    }
}

/// Removes a pass from the list, and from the account of its row.
fn forget(block: &Header, at: usize) {
    if let Some(record) = block.record(block.passes[at].record.load(Relaxed)) {
        record.open.store(record.open.load(Relaxed).saturating_sub(1), Relaxed);
    }
    remove(block, at);
}

/// Removes a pass from the list: those after it move up.
fn remove(block: &Header, index: usize) {
    let count = block.open_passes.load(Relaxed) as usize;
    for at in index + 1..count {
        let [to, from] = [&block.passes[at - 1], &block.passes[at]];
        to.time.store(from.time.load(Relaxed), Relaxed);
        to.record.store(from.record.load(Relaxed), Relaxed);
        to.term.store(from.term.load(Relaxed), Relaxed);
        to.frame.store(from.frame.load(Relaxed), Relaxed);
        to.cell.store(from.cell.load(Relaxed), Relaxed);
        to.began_in.store(from.began_in.load(Relaxed), Relaxed);
    }
    block.open_passes.store(count as u32 - 1, Relaxed);
}

pub(super) fn end_on(block: &Header, id: Id, now: u64) {
    let Some(record) = block.record(id.record()) else { return };
    let term = record.term.load(Relaxed);
    let of_pair = |pass: &Pass| pass.record.load(Relaxed) == id.record();
    let count = block.open_passes.load(Relaxed) as usize;
    // Passes of an earlier term: their ends may not have been seen.
    let may_end = |pass: &Pass| is_unbroken(pass, id) && pass.term.load(Relaxed) == term;
    for at in (0..count).rev() {
        if of_pair(&block.passes[at]) && !may_end(&block.passes[at]) {
            remove(block, at);
        }
    }
    let count = block.open_passes.load(Relaxed) as usize;
    let Some(at) = (0..count).rev().find(|&at| of_pair(&block.passes[at])) else {
        record.open.store(0, Relaxed);
        return;
    };
    let started = block.passes[at].time.load(Relaxed);
    let measured = now.wrapping_sub(block.hidden.load(Relaxed)).wrapping_sub(started) as i64;
    // The time that is measured for a call that does nothing is subtracted again later.
    let ticks = measured.max(0) as u64 + BIAS.load(Relaxed);
    let outermost = record.open.load(Relaxed) == 1;
    remove(block, at);
    let record_of_pair = id.record();
    let done = drain::Done { record: record_of_pair, outermost, ticks, children: 0, call_site: 0 };
    finish(block, &done);
    if record.open.fetch_sub(1, Relaxed) == 1 && record.left.load(Relaxed) <= 0 {
        modes::retire(id, term);
    }
}
