//! The way from the stubs to the rules ([`event`]), and to functions that the user has attached;
//! and the hooks that compilers call.
//!
//! # Safety
//!
//! This module calls functions on a stack that may be the signal stack.
#![allow(unsafe_code)]

use crate::runtime::event;
use crate::runtime::layout::{CLEARS, Clear, Header};
use std::arch::naked_asm;
use std::mem::offset_of;
use wordpatch::os::pages::PAGE;

/// To [`event::enter`]: the function, the place it was called from, the stack pointer, the site.
#[unsafe(naked)]
pub(in crate::runtime) extern "C" fn slow_enter() {
    naked_asm!("mov rdx, rsp", "mov ecx, r10d", "lea rax, [rip + {}]", "jmp {}", sym event::enter, sym slowly)
}

/// The same, where a site leads there: entering its function does more than to begin a call.
#[unsafe(naked)]
pub(crate) extern "C" fn slow() {
    naked_asm!("endbr64", "jmp {}", sym slow_enter)
}

/// To [`event::exit`], likewise.
#[unsafe(naked)]
pub(in crate::runtime) extern "C" fn slow_exit() {
    naked_asm!("mov rdx, rsp", "mov ecx, r10d", "lea rax, [rip + {}]", "jmp {}", sym event::exit, sym slowly)
}

/// To [`event::enter_inside`], likewise.
#[unsafe(naked)]
pub(super) extern "C" fn inside_slow_enter() {
    naked_asm!(
        "mov rdx, rsp",
        "mov ecx, r10d",
        "lea rax, [rip + {}]",
        "jmp {}",
        sym event::enter_inside,
        sym slowly
    )
}

/// To [`event::exit_inside`], likewise.
#[unsafe(naked)]
pub(super) extern "C" fn inside_slow_exit() {
    naked_asm!(
        "mov rdx, rsp",
        "mov ecx, r10d",
        "lea rax, [rip + {}]",
        "jmp {}",
        sym event::exit_inside,
        sym slowly
    )
}

/// To [`event::enough`]: the offset of the function's record.
#[unsafe(naked)]
pub(super) extern "C" fn enough() {
    naked_asm!("mov edi, r11d", "lea rax, [rip + {}]", "jmp {}", sym event::enough, sym slowly)
}

/// Instructions that jump to a label where the calling thread is none that the C library has made:
/// thread data would lie anywhere. The C library's threads have their own address in the first
/// word and in the third (glibc, tcbhead_t). Sandboxes make children that share the memory and have
/// a block of zeros instead, and end by `_exit`.
macro_rules! jump_if_foreign {
    ($register:literal, $label:literal) => {
        concat!(
            "mov ",
            $register,
            ", qword ptr fs:[0]\n",
            "test ",
            $register,
            ", ",
            $register,
            "\n",
            "jz ",
            $label,
            "\n",
            "cmp ",
            $register,
            ", qword ptr fs:[16]\n",
            "jne ",
            $label,
        )
    };
}
pub(in crate::runtime) use jump_if_foreign;

/// Jumps to the function that rax holds, on a stack with room for it: the one for signals may have
/// hardly any. Its fifth argument is the kernel's answer about that stack. Where the page is known
/// not to be part of it, this is an earlier answer
/// ([`signal_stack`](crate::runtime::signal_stack)). Where the profiler is not running, no system
/// call is made, and the argument is null. It returns at once if the C library has not made the
/// thread.
#[unsafe(naked)]
pub(in crate::runtime) extern "C" fn slowly() {
    naked_asm!(
        jump_if_foreign!("r9", "3f"),
        "cmp byte ptr [rip + {running}], 0",
        "je 2f",
        "mov r8, qword ptr [rip + fastinst_thread@GOTTPOFF]",
        "mov r8, qword ptr fs:[r8]",
        "test r8, r8",
        "jz {call}",
        "mov r9, rsp",
        "shr r9, {page}",
        "mov r10d, r9d",
        "or r9, qword ptr [r8 + {term}]",
        "and r10d, {clears} - 1",
        "shl r10d, 5",
        "lea r8, [r8 + r10 + {clear}]",
        "cmp r9, qword ptr [r8 + {key}]",
        "jne {call}",
        "add r8, {stack}",
        "jmp rax",
        "2:",
        "xor r8d, r8d",
        "jmp rax",
        "3:",
        "ret",
        running = sym crate::runtime::target::RUNNING,
        page = const PAGE.trailing_zeros(),
        term = const offset_of!(Header, stack_term),
        clear = const offset_of!(Header, clear),
        clears = const CLEARS,
        key = const offset_of!(Clear, key),
        stack = const offset_of!(Clear, start),
        call = sym wordpatch::os::spare_stacks::call,
    )
}

/// Calls the function that the user has attached to the site: with its number, the function and the
/// place it was called from. Not if this thread is in such a call already: the attached function
/// may itself pass probes.
#[unsafe(naked)]
pub(crate) extern "C" fn user() {
    naked_asm!(
        "endbr64",
        "mov rax, qword ptr [rip + fastinst_inside@GOTTPOFF]",
        "cmp qword ptr fs:[rax], 0",
        "jne 3f",
        "mov qword ptr fs:[rax], 1",
        // Where a function was inlined, the trampoline has put its own call site in rdx.
        "test rsi, rsi",
        "cmovns rdx, rsi",
        "mov rsi, rdi",
        "mov edi, r10d",
        "mov r11, r10",
        "mov r10, qword ptr [rip + {callbacks}]",
        "sub rsp, 8",
        "call qword ptr [r10 + r11*8]",
        "add rsp, 8",
        "mov rax, qword ptr [rip + fastinst_inside@GOTTPOFF]",
        "mov qword ptr fs:[rax], 0",
        "3: ret",
        callbacks = sym crate::runtime::sites::CALLBACKS,
    )
}

/// No site: the hook was called through the linkage table.
pub(crate) const NO_SITE: u32 = u32::MAX;
