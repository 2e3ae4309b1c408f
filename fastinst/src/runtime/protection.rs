//! The interposed `mprotect`: text with probes stays writable, whatever else the program requests
//! for it.
//!
//! Some programs protect their own text: loaders of their own, interpreters that write to it,
//! hardened allocators. The agent or a hook switches probes by a store at any time, so a page with
//! probes that became read-only would kill the program. The pages of such a call are passed on in
//! runs; those with probes are made writable, too. A program that protects its text by a bare
//! `syscall` instruction, by `pkey_mprotect`, or by mapping something over it, is not seen.
//!
//! # Safety
//!
//! This module passes on a call that changes what may be done with memory.
#![allow(unsafe_code)]
#![allow(unreachable_pub, reason = "the loader reaches it, by name")]

use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use wordpatch::os::pages::PAGE;
use wordpatch::{CodeAddr, stays_writable};

pub(super) static MPROTECT: AtomicUsize = AtomicUsize::new(0);

/// A range of pages that get the same protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    start: usize,
    len: usize,
    keeps_writable: bool,
}

/// The runs of `[start, start + len)`, where `keeps` says which pages stay writable.
fn runs(start: usize, len: usize, keeps: impl Fn(usize) -> bool) -> impl Iterator<Item = Run> {
    let end = start + len;
    let mut at = start;
    std::iter::from_fn(move || {
        let start = (at < end).then_some(at)?;
        let keeps_writable = keeps(start);
        while at < end && keeps(at) == keeps_writable {
            at += PAGE;
        }
        Some(Run { start, len: at.min(end) - start, keeps_writable })
    })
}

/// Changes the protection of pages; pages whose probes are switched by stores stay writable.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(start: *mut c_void, len: usize, protection: c_int) -> c_int {
    type Next = unsafe extern "C" fn(*mut c_void, usize, c_int) -> c_int;
    let pass = |start: usize, len: usize, protection: c_int| match MPROTECT.load(Relaxed) {
        // Allocators call this while the loader searches it: the search would call them.
        // SAFETY: (1) the caller.
        0 => unsafe { libc::syscall(libc::SYS_mprotect, start, len, protection) as c_int },
        // SAFETY: (1) the C library's function has this type; (2) the caller.
        next => unsafe {
            std::mem::transmute::<usize, Next>(next)(start as *mut c_void, len, protection)
        },
    };
    let first = start as usize;
    let asks_nothing = protection & libc::PROT_WRITE != 0
        || !first.is_multiple_of(PAGE)
        || first.checked_add(len).is_none();
    let keeps = |page| stays_writable(CodeAddr::new(page));
    if asks_nothing || len == 0 {
        return pass(first, len, protection);
    }
    for run in runs(first, len, keeps) {
        let writable = if run.keeps_writable { libc::PROT_WRITE } else { 0 };
        let result = pass(run.start, run.len, protection | writable);
        if result != 0 {
            return result;
        }
        // The first probe of a module may have been put on a page just now.
        for late in runs(run.start, run.len, keeps)
            .filter(|late| late.keeps_writable && !run.keeps_writable)
        {
            let _ = pass(late.start, late.len, protection | libc::PROT_WRITE);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_as_long_as_pages_are_alike_and_cover_everything() {
        let found: Vec<Run> =
            runs(PAGE * 10, PAGE * 4 + 1, |page| [11, 12].contains(&(page / PAGE))).collect();
        let run = |page, len, keeps_writable| Run { start: PAGE * page, len, keeps_writable };
        assert_eq!(
            found,
            [run(10, PAGE, false), run(11, 2 * PAGE, true), run(13, PAGE + 1, false)]
        );
        assert_eq!(runs(PAGE, 3, |_| true).collect::<Vec<_>>(), [run(1, 3, true)]);
    }
}
