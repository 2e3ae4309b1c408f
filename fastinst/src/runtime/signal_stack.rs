//! Where a thread's signal stack lies, and pages that are known not to be part of it.
//!
//! An event that continues in Rust first asks the kernel whether the thread is on its signal stack,
//! where there may be hardly any room ([`spare_stacks`]). Each function of a program gets there
//! twice or more often, and a system call each time is most of the cost. So a thread keeps the
//! kernel's answer for the few pages on which it was last found: an entry holds as long as the
//! kernel would answer the same.
//!
//! ```text
//!   entry:  page of the stack pointer │ term      the signal stack, as the kernel told it in that term
//! ```
//!
//! - **The key is the page on which the stack pointer lies**, and no byte of the signal stack lies
//!   on it. A thread that switches to another stack (a coroutine's, a handler's) has another page
//!   there, and the kernel is queried; how the thread switched does not matter.
//! - **A term ends with every call of `sigaltstack`**, which is interposed: before the call and
//!   after it, so no entry is used across the change. If a handler changes the stack while an entry
//!   is being made, that ends the entry's term.
//! - **An entry is made of an answer of its own**: the term is read, then the kernel is queried,
//!   then the key is stored. A handler that runs meanwhile finds the entry occupied, and leaves it.
//! - **A stack that disarms itself** (`SS_AUTODISARM`) changes without a call, and one that is
//!   changed by `syscall` may be such a one: from then on no entry is made in this process.
//!
//! A change by a bare `syscall` instruction is not seen. It matters only where a page that the same
//! thread has used as a stack becomes part of its signal stack: then an event that continues in
//! Rust there takes a kilobyte of it, as on any other stack, and not a few words.
//!
//! # Safety
//!
//! This module reads what assembly points to, and interposes a function of the C library.
#![allow(unsafe_code)]
#![allow(unreachable_pub, reason = "the loader reaches it, by name")]

use super::layout::{Clear, Header};
use super::{interposed, threads};
use std::ffi::c_int;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize, compiler_fence};
use wordpatch::os::pages::PAGE;
use wordpatch::os::{signals, spare_stacks};

/// The bits of a key that are the page's number; the others are the term's.
pub(super) const PAGE_BITS: u32 = 44;
/// A key that no page has.
const OCCUPIED: u64 = u64::MAX;

/// `SS_AUTODISARM` (linux/signal.h).
const AUTODISARM: c_int = 1 << 31;
/// Whether signal stacks may change unseen: then the kernel is queried each time.
static ARE_UNKNOWN: AtomicBool = AtomicBool::new(false);

/// Where a thread's signal stack lies, if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SignalStack(pub(super) Range<u64>);

impl SignalStack {
    /// As the kernel has reported it, if it was queried: just now, or when an entry of the block
    /// was made.
    pub(super) fn as_reported(block: &Header, by_kernel: *const libc::stack_t) -> Self {
        // SAFETY: (1) null, an entry's, or what the stub's caller has on its stack.
        let Some(stack) = (unsafe { by_kernel.as_ref() }) else { return Self(0..0) };
        let here = std::ptr::from_ref(block).addr();
        if stack.ss_flags & libc::SS_ONSTACK == 0
            && !(here..here + size_of::<Header>()).contains(&by_kernel.addr())
        {
            learn(block, spare_stacks::called_at(by_kernel));
        }
        Self::of(stack)
    }

    fn of(stack: &libc::stack_t) -> Self {
        if stack.ss_flags & libc::SS_DISABLE != 0 {
            return Self(0..0);
        }
        let start = stack.ss_sp.addr() as u64;
        Self(start..start + stack.ss_size as u64)
    }

    pub(super) fn holds(&self, sp: u64) -> bool {
        self.0.contains(&sp)
    }

    fn meets(&self, page: u64) -> bool {
        self.0.start < page + PAGE as u64 && page < self.0.end
    }
}

/// The entry of a page.
fn entry(block: &Header, page: u64) -> &Clear {
    &block.clear[page as usize % block.clear.len()]
}

/// Makes an entry for the page on which `sp` lies. By the block's thread, which is not on its
/// signal stack.
#[cold]
fn learn(block: &Header, sp: usize) {
    let page = (sp / PAGE) as u64;
    let entry = entry(block, page);
    if ARE_UNKNOWN.load(Relaxed) || entry.key.load(Relaxed) == OCCUPIED {
        return;
    }
    entry.key.store(OCCUPIED, Relaxed);
    compiler_fence(std::sync::atomic::Ordering::SeqCst);
    let term = block.stack_term.load(Relaxed);
    let found = signals::stack();
    let is_apart = |stack: &libc::stack_t| {
        stack.ss_flags & (libc::SS_ONSTACK | AUTODISARM) == 0
            && !SignalStack::of(stack).meets(page * PAGE as u64)
    };
    let key = match found.ok().filter(is_apart) {
        Some(stack) => {
            entry.start.store(stack.ss_sp.addr(), Relaxed);
            entry.flags.store(stack.ss_flags as u32, Relaxed);
            entry.size.store(stack.ss_size, Relaxed);
            page | term
        }
        None => 0,
    };
    compiler_fence(std::sync::atomic::Ordering::SeqCst);
    entry.key.store(key, Relaxed);
}

/// From here on no entry of a block holds: its thread's signal stack changes, or the block is
/// another thread's.
pub(super) fn forget(block: &Header) {
    let next = block.stack_term.load(Relaxed).wrapping_add(1 << PAGE_BITS);
    block.stack_term.store(next, Relaxed);
    // Term numbers wrap around, so entries of earlier terms are cleared. An entry that is being
    // made by the code that this handler has interrupted is left: its key ends with the term.
    for entry in block.clear.iter().filter(|entry| entry.key.load(Relaxed) != OCCUPIED) {
        entry.key.store(0, Relaxed);
    }
}

/// The same, for a block that no thread has: entries that were left half made are cleared, too.
pub(super) fn clear_block(block: &Header) {
    block.clear.iter().for_each(|entry| entry.key.store(0, Relaxed));
    forget(block);
}

pub(super) static SIGALTSTACK: AtomicUsize = AtomicUsize::new(0);

/// Changes the calling thread's signal stack.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int {
    type Next = unsafe extern "C" fn(*const libc::stack_t, *mut libc::stack_t) -> c_int;
    // SAFETY: (1) the C library's function has this type.
    let next: Next = unsafe { std::mem::transmute(interposed::next(&SIGALTSTACK, c"sigaltstack")) };
    if new.is_null() {
        // SAFETY: (1) the caller.
        return unsafe { next(new, old) };
    }
    // SAFETY: (1) the caller.
    if unsafe { (*new).ss_flags } & AUTODISARM != 0 {
        ARE_UNKNOWN.store(true, Relaxed);
    }
    changes();
    // SAFETY: (1) the caller.
    let result = unsafe { next(new, old) };
    changes();
    result
}

/// The calling thread's signal stack is about to change; from here on any may change unseen.
pub(super) fn know_nothing() {
    ARE_UNKNOWN.store(true, Relaxed);
    changes();
}

/// The calling thread's signal stack is about to change, or has changed.
fn changes() {
    threads::observed().into_iter().for_each(forget);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::target;
    use crate::runtime::threads::Caller;

    #[test]
    fn what_is_known_of_a_page_holds_until_the_signal_stack_changes() {
        target::prepare_tables().unwrap();
        let test = || {
            let Caller::Observed(block) = threads::caller() else { unreachable!("a new thread") };
            let by_kernel = signals::stack().unwrap();
            let page = (spare_stacks::called_at(&raw const by_kernel) / PAGE) as u64;
            let is_known =
                || entry(block, page).key.load(Relaxed) == page | block.stack_term.load(Relaxed);
            assert!(!is_known());
            let told = SignalStack::as_reported(block, &raw const by_kernel);
            assert!(is_known() && told == SignalStack::of(&by_kernel));
            // As a stub passes it on.
            let kept = std::ptr::from_ref(&entry(block, page).start).cast();
            assert_eq!(SignalStack::as_reported(block, kept), told);
            // SAFETY: (1) the stack that there is.
            assert_eq!(unsafe { sigaltstack(&raw const by_kernel, std::ptr::null_mut()) }, 0);
            assert!(!is_known());
            SignalStack::as_reported(block, &raw const by_kernel);
            assert!(is_known());
            clear_block(block);
            assert!(!is_known());
        };
        std::thread::scope(|scope| scope.spawn(test).join().unwrap());
    }
}
