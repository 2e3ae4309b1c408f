//! Backtraces: walks frames of machine code from frame pointer to frame pointer.
//!
//! # Safety
//!
//! This module exists to read stacks. Machine code keeps frame pointers in every function.
#![allow(unsafe_code)]

use super::activation::{self, Fault};
use super::source::Sources;
use super::store::StoreCore;
use crate::error::{Backtrace, Error, FrameInfo, ProbeReport, TrapReport};
use crate::trap::Trap;

/// Calls `visit` with the return addresses of machine code from `frame` outwards, until it returns
/// false.
///
/// # Safety
/// `frame` is the frame pointer of machine code of this store.
pub(crate) unsafe fn walk(store: &StoreCore, frame: usize, mut visit: impl FnMut(usize) -> bool) {
    // SAFETY: (1) the caller, see # Safety.
    unsafe { walk_frames(store, frame, |pc, _| visit(pc)) };
}

/// The same, with the frame pointer of each.
///
/// # Safety
/// As above.
pub(crate) unsafe fn walk_frames(
    store: &StoreCore,
    mut frame: usize,
    mut visit: impl FnMut(usize, usize) -> bool,
) {
    while frame != 0 {
        // SAFETY: (1) the caller, for the first; a frame of machine code holds its caller's frame
        // pointer and its return address; (2) the entry's own frame is the host's, whose code is
        // not in the store.
        let (next, pc) = unsafe { (*(frame as *const usize), *((frame + 8) as *const usize)) };
        if store.code_at(pc).is_none() || !visit(pc, next) {
            return;
        }
        frame = next;
    }
}

/// The report of a trap, once the store is in the state before the activation that has trapped.
pub(crate) fn report(store: &StoreCore, fault: &Fault) -> Error {
    let mut frames = describe(store, &fault.frames, true);
    let unaffordable = fault.frames.first().and_then(|pc| store.settle_budget(fault.trap, *pc));
    if let (Some(at), Some(frame)) = (unaffordable, frames.first_mut()) {
        frame.offset = Some(at);
    }
    frames.extend(here(store).frames);
    super::dump::remember_fault(store, fault, unaffordable);
    let backtrace = Backtrace { frames };
    let trap = if unaffordable.is_some() { Trap::Budget } else { fault.trap };
    match super::hooks::probe_failure().filter(|_| trap == Trap::Probe) {
        Some(why) => Error::Probe(ProbeReport { why, backtrace }),
        None => Error::Trap(TrapReport { trap, backtrace }),
    }
}

/// The frames that a host function, or the runtime, was called from.
pub(crate) fn here(store: &StoreCore) -> Backtrace {
    let addresses: Vec<usize> = outside(store).into_iter().map(|(pc, _)| pc).collect();
    Backtrace { frames: describe(store, &addresses, false) }
}

/// Return addresses and frame pointers of the frames that a host function, or the runtime, was
/// called from.
pub(super) fn outside(store: &StoreCore) -> Vec<(usize, usize)> {
    let (frame, pc) = store.exit();
    let mut frames = of_exit(store, frame, pc);
    frames.extend(outside_of_activation(store));
    frames
}

/// The frames of machine code that wait for the host, of all activations of the store, as addresses
/// inside of their instructions.
pub fn waiting(store: &StoreCore) -> Vec<usize> {
    let mut all = Vec::new();
    let mut add = |(frame, pc): (usize, usize)| {
        if pc != 0 {
            all.push(pc - 1);
            // SAFETY: (1) trampolines note the frame pointer of the machine code that called them,
            // and it waits for the host.
            unsafe { walk(store, frame, |pc| (all.push(pc - 1), true).1) };
        }
    };
    add(store.exit());
    let mut at = activation::current().cast_const();
    while !at.is_null() {
        // SAFETY: (1) activations are on this thread's stack, innermost first, and live.
        let activation = unsafe { &*at };
        if std::ptr::eq(activation.store, store) {
            add(activation.outer_exit);
        }
        at = activation.outer;
    }
    all
}

fn of_exit(store: &StoreCore, frame: usize, pc: usize) -> Vec<(usize, usize)> {
    if pc == 0 {
        return Vec::new();
    }
    let mut frames = vec![(pc, frame)];
    // SAFETY: (1) trampolines note the frame pointer of the machine code that called them, and it
    // waits for the host.
    unsafe {
        walk_frames(store, frame, |pc, frame| (frames.push((pc, frame)), frames.len() < 128).1);
    };
    frames
}

/// Return addresses of the frames of the current activation that wait for the host, however many.
pub(super) fn activation(store: &StoreCore) -> Vec<usize> {
    let (frame, pc) = store.exit();
    if pc == 0 {
        return Vec::new();
    }
    let mut frames = vec![pc];
    // SAFETY: (1) as in `of_exit`.
    unsafe { walk(store, frame, |pc| (frames.push(pc), true).1) };
    // A recursion has few call instructions and many frames.
    frames.sort_unstable();
    frames.dedup();
    frames
}

/// The frames outside of the current activation.
fn outside_of_activation(store: &StoreCore) -> Vec<(usize, usize)> {
    let mut frames = Vec::new();
    let mut at = activation::current().cast_const();
    while !at.is_null() {
        // SAFETY: (1) activations are on this thread's stack, innermost first, and live.
        let activation = unsafe { &*at };
        // SAFETY: (1) a store outlives its activations.
        let owner = unsafe { &*activation.store };
        if std::ptr::eq(owner, store) {
            frames.extend(of_exit(owner, activation.outer_exit.0, activation.outer_exit.1));
        }
        at = activation.outer;
    }
    frames
}

/// Describes addresses. Return addresses are after the call that they belong to; the first may be
/// the instruction itself.
fn describe(store: &StoreCore, addresses: &[usize], first_is_exact: bool) -> Vec<FrameInfo> {
    let mut sources = Sources::default();
    let each = |(i, pc): (usize, &usize)| {
        let pc = if i == 0 && first_is_exact { *pc } else { pc - 1 };
        store.frame_info(pc, &mut sources)
    };
    addresses.iter().enumerate().filter_map(each).collect()
}
