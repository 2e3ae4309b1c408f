//! Stores to live code, and loads from it.
//!
//! Every change of an instruction that another core may be executing is made here. Each function is
//! one machine store (or one locked read-modify-write) of a width that the caller chooses, so that
//! instruction fetch can see only the states that the protocol allows for.
//!
//! # Safety
//!
//! This module exists because such a store cannot be expressed with references: the bytes are
//! shared with the instruction fetch of every core. It uses raw addresses, and inline assembly
//! where a Rust atomic would need an alignment that an instruction does not have.
#![allow(unsafe_code)]

use crate::addr::CodeAddr;
use std::arch::asm;

/// The width of one machine store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// One byte.
    One = 1,
    /// Two bytes.
    Two = 2,
    /// Four bytes.
    Four = 4,
    /// Eight bytes.
    Eight = 8,
}

impl Width {
    /// The widest store of at most `len` bytes, `len` at least one.
    pub const fn at_most(len: usize) -> Self {
        match len {
            0 | 1 => Self::One,
            2 | 3 => Self::Two,
            4..=7 => Self::Four,
            _ => Self::Eight,
        }
    }

    /// The narrowest store of at least `len` bytes, `len` at most eight.
    pub const fn at_least(len: usize) -> Self {
        match len {
            0 | 1 => Self::One,
            2 => Self::Two,
            3 | 4 => Self::Four,
            _ => Self::Eight,
        }
    }

    /// Its size in bytes.
    pub const fn bytes(self) -> usize {
        self as usize
    }
}

/// Stores the low `width` bytes of `value` at `at` with one instruction, visible to others after
/// all earlier stores.
///
/// # Safety
/// (1) `[at, at + width)` is mapped and writable; (2) the caller may change those bytes; (3) a
/// thread that executes them meanwhile may see the old or the new bytes, and both are valid.
#[inline]
pub unsafe fn store(at: CodeAddr, width: Width, value: u64) {
    let to = at.get() as *mut u8;
    // SAFETY: (1) to (3) of the caller; (4) x86-64 stores become visible in program order (Intel
    // SDM volume 3, "Memory Ordering"; AMD64 APM volume 2, section 7.2), so a plain `mov` is a
    // release store; the compiler may not move other accesses across a volatile-like `asm!` block
    // without `nomem`.
    unsafe {
        match width {
            Width::One => {
                asm!("mov byte ptr [{}], {}", in(reg) to, in(reg_byte) value as u8, options(nostack, preserves_flags));
            }
            Width::Two => {
                asm!("mov word ptr [{}], {:x}", in(reg) to, in(reg) value as u16, options(nostack, preserves_flags));
            }
            Width::Four => {
                asm!("mov dword ptr [{}], {:e}", in(reg) to, in(reg) value as u32, options(nostack, preserves_flags));
            }
            Width::Eight => {
                asm!("mov qword ptr [{}], {}", in(reg) to, in(reg) value, options(nostack, preserves_flags));
            }
        }
    }
}

/// Prefetches the line of `at` for writing. A hint, without effect where nothing is mapped.
#[inline]
pub fn fetch(at: CodeAddr) {
    // SAFETY: (1) a prefetch changes nothing that a program can see, and never faults.
    unsafe {
        asm!("prefetchw [{}]", in(reg) at.get(), options(nostack, preserves_flags, readonly));
    };
}

/// Loads one byte.
///
/// # Safety
/// `at` is mapped and readable.
#[inline]
pub unsafe fn load_byte(at: CodeAddr) -> u8 {
    // SAFETY: (1) the caller; (2) volatile, because another thread may be changing the byte.
    unsafe { at.as_ptr().read_volatile() }
}

/// Loads `len` bytes, one to eight, as a little-endian number. Exact while no thread changes them.
///
/// # Safety
/// `[at, at + len)` is mapped and readable.
#[inline]
pub unsafe fn load(at: CodeAddr, len: usize) -> u64 {
    // SAFETY: (1) the caller: every read below lies within `len` bytes; (2) the asm blocks of this
    // module are opaque to the compiler, so that a load is not moved across a store.
    unsafe {
        let byte = |i: isize| u64::from(at.offset(i).as_ptr().read_volatile()) << (8 * i);
        let pair =
            |i: isize| u64::from(at.offset(i).as_ptr().cast::<u16>().read_unaligned()) << (8 * i);
        let four =
            |i: isize| u64::from(at.offset(i).as_ptr().cast::<u32>().read_unaligned()) << (8 * i);
        match len {
            1 => byte(0),
            2 => pair(0),
            3 => pair(0) | byte(2),
            4 => four(0),
            5 => four(0) | byte(4),
            6 => four(0) | pair(4),
            7 => four(0) | pair(4) | byte(6),
            _ => at.as_ptr().cast::<u64>().read_unaligned(),
        }
    }
}

/// Replaces `expected` by `new` in the eight bytes at `at`, or returns the bytes found there
/// instead.
///
/// # Safety
/// As for [`store`], for eight bytes; they lie in one cache line, so that no split lock is taken.
#[inline]
pub unsafe fn compare_exchange(at: CodeAddr, expected: u64, new: u64) -> Result<(), u64> {
    let found: u64;
    // SAFETY: (1) the caller; (2) `lock cmpxchg` is atomic at any alignment.
    unsafe {
        asm!(
            "lock cmpxchg qword ptr [{}], {}",
            in(reg) at.get() as *mut u64,
            in(reg) new,
            inout("rax") expected => found,
            options(nostack),
        );
    }
    if found == expected { Ok(()) } else { Err(found) }
}

/// Waits until this core's stores are visible to all others.
#[inline]
pub fn fence() {
    // SAFETY: (1) MFENCE is part of x86-64 and changes no register.
    unsafe { asm!("mfence", options(nostack, preserves_flags)) };
}

/// Flushes the cache line that holds `at` from every cache, so that an adversary in a test finds it
/// cold.
///
/// # Safety
/// `at` is mapped, and the processor has CLFLUSHOPT.
pub unsafe fn flush_line(at: CodeAddr) {
    // SAFETY: (1) the caller; (2) a flush changes no byte.
    unsafe {
        asm!("clflushopt [{}]", in(reg) at.get() as *const u8, options(nostack, preserves_flags));
    };
}
