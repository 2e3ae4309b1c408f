//! The pointer to the calling thread's block.
//!
//! # Safety
//!
//! This module defines thread data in assembly, which the stubs read.
#![allow(unsafe_code)]

use crate::runtime::layout::Header;
use std::arch::{asm, global_asm};

// The thread's block: one pointer, in the initial-exec model, which costs one load.
global_asm!(
    ".pushsection .tbss.fastinst_thread,\"awT\",@nobits",
    ".globl fastinst_thread",
    ".hidden fastinst_thread",
    ".type fastinst_thread, @object",
    ".size fastinst_thread, 8",
    ".p2align 3",
    "fastinst_thread: .zero 8",
    // Whether the thread is in a function that the user has attached.
    ".globl fastinst_inside",
    ".hidden fastinst_inside",
    ".type fastinst_inside, @object",
    ".size fastinst_inside, 8",
    "fastinst_inside: .zero 8",
    ".popsection",
);

/// The calling thread's block, or null.
#[inline]
pub(crate) fn thread() -> *mut Header {
    let block;
    // SAFETY: (1) reads this thread's own variable.
    unsafe {
        asm!("mov {0}, qword ptr [rip + fastinst_thread@GOTTPOFF]", "mov {0}, qword ptr fs:[{0}]", out(reg) block, options(nostack, preserves_flags, readonly));
    }
    block
}

/// Makes `block` the calling thread's.
pub(crate) fn set_thread(block: *mut Header) {
    // SAFETY: (1) writes this thread's own variable.
    unsafe {
        asm!("mov {0}, qword ptr [rip + fastinst_thread@GOTTPOFF]", "mov qword ptr fs:[{0}], {1}", out(reg) _, in(reg) block, options(nostack, preserves_flags));
    }
}

/// Where the calling thread's variable lies from the thread's base: the same for all threads, by
/// the model.
pub(crate) fn thread_offset() -> i32 {
    let offset: i64;
    // SAFETY: (1) reads what the loader has put there.
    unsafe {
        asm!("mov {0}, qword ptr [rip + fastinst_thread@GOTTPOFF]", out(reg) offset, options(nostack, preserves_flags, readonly));
    }
    i32::try_from(offset).unwrap_or_else(|_| {
        unreachable!("thread variables of the static model lie within two gigabytes")
    })
}
