//! Throws exceptions: unwinds to the landing pad of the call that a frame waits in, or to the next
//! frame outside.
//!
//! # Safety
//!
//! This module exists to take frames off the stack. Frames of machine code own nothing.
#![allow(unsafe_code)]

use super::activation::{self, Failure};
use super::backtrace;
use super::store::StoreCore;
use std::sync::atomic::Ordering::Relaxed;

/// Transfers control to the handler that catches, searching from the call that returns to `pc` in
/// `frame`. If that frame is the one that `throws`, it has counted that partial exit itself.
///
/// # Safety
/// `frame` is a frame of machine code of this store, below which nothing owns anything.
pub(crate) unsafe fn throw(
    store: &mut StoreCore,
    exception: usize,
    frame: usize,
    pc: usize,
    throws: bool,
) -> ! {
    let (mut at, mut return_address) = (frame, pc);
    while let Some((code, offset)) = store.code_at(return_address) {
        if !(throws && at == frame) {
            store.exit_partially(return_address - 1);
        }
        if let Some(handler) = code.handler_at(offset) {
            let target = code.at(handler.target) as usize;
            // SAFETY: (1) the compiler has said that this call has that landing, and how large the
            // frame is; (2) the caller.
            unsafe { activation::resume(target, at, at - handler.frame as usize, exception) }
        }
        // SAFETY: (1) a frame of machine code holds its caller's frame pointer and its return
        // address.
        (at, return_address) = unsafe { (*(at as *const usize), *((at + 8) as *const usize)) };
    }
    let cell = store.cell();
    cell.exit_frame.store(frame, Relaxed);
    cell.exit_pc.store(pc, Relaxed);
    store.thrown_at = backtrace::here(store);
    // SAFETY: (1) the caller: nothing below owns anything.
    unsafe { activation::fail(Failure::Exception(exception)) }
}
