//! Routines that machine code calls to charge time to accounts, and to enter and leave calling
//! contexts: see [`vm::context`](crate::vm::context).
//!
//! # Safety
//!
//! This module exists to read the clock and to write to accounts without changing any register, so
//! that a call from machine code costs what it does and no more.
#![allow(unsafe_code)]

use crate::compile::Call;
use crate::vm::context::{AccountClock, ContextNode, ENOUGH, MOST, NO_FUNCTION, PLACES};
use std::mem::offset_of;

std::arch::global_asm!(
    // The time that has passed is charged, except for the cost of reading the clock. rdi: a clock,
    // rcx: the account that is charged; leaves the time in rax, changes rdx
    ".macro fastinst_wasm_read_clock",
    "rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "mov rdx, rax",
    "sub rdx, [rdi + {last}]",
    "mov [rdi + {last}], rax",
    "sub rdx, [rdi + {reading}]",
    "jb 8f",
    "add [rcx], rdx",
    "8:",
    ".endm",
    ".globl fastinst_wasm_charge",
    ".type fastinst_wasm_charge,@function",
    // rdi: a clock, rsi: the account that is charged from now on
    "fastinst_wasm_charge:",
    "push rax",
    "push rcx",
    "push rdx",
    "mov rcx, [rdi]",
    "fastinst_wasm_read_clock",
    "mov [rdi], rsi",
    "pop rdx",
    "pop rcx",
    "pop rax",
    "ret",
    ".globl fastinst_wasm_enter_context",
    ".type fastinst_wasm_enter_context,@function",
    // rdi: a clock, rsi: twice a function, and one if it is only counted; rdx: the call that makes
    // its context, rcx: the instance. The present context stays if there is none.
    "fastinst_wasm_enter_context:",
    "push rax",
    "push rcx",
    "push rdx",
    "push r8",
    "mov rcx, [rdi]",
    "mov edx, esi",
    "shr edx, 1",
    "mov eax, edx",
    "and eax, {mask}",
    "mov r8, [rcx + rax * 8 + {places}]",
    "3:",
    "mov eax, [r8 + {function}]",
    "cmp eax, edx",
    "je 4f",
    "cmp eax, {none}",
    "je 7f",
    "mov r8, [r8 + {next}]",
    "jmp 3b",
    "4:",
    "add qword ptr [r8 + {calls}], 1",
    "test esi, 1",
    "jnz 6f",
    "cmp dword ptr [r8 + {timed}], 0",
    "je 5f",
    "fastinst_wasm_read_clock",
    "mov [r8 + {entered}], rax",
    "5:",
    "mov [rdi], r8",
    "6:",
    "pop r8",
    "pop rdx",
    "pop rcx",
    "pop rax",
    "ret",
    // The registers that a function of the host may change, except for rax and r8, which are no
    // longer needed.
    "7:",
    "push rsi",
    "push rdi",
    "push r9",
    "push r10",
    "push r11",
    "sub rsp, 256",
    ".irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    "movups [rsp + 16 * \\number], xmm\\number",
    ".endr",
    "mov rdx, rcx",
    "mov rdi, [rsp + 256 + 5 * 8 + 8]",
    "mov rsi, [rsp + 256 + 5 * 8 + 16]",
    "mov rcx, rbp",
    "call {make}",
    ".irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    "movups xmm\\number, [rsp + 16 * \\number]",
    ".endr",
    "add rsp, 256",
    "pop r11",
    "pop r10",
    "pop r9",
    "pop rdi",
    "pop rsi",
    "mov rcx, [rdi]",
    "mov r8, rax",
    "test rax, rax",
    "jnz 4b",
    "jmp 6b",
    ".globl fastinst_wasm_leave_context",
    ".type fastinst_wasm_leave_context,@function",
    // rdi: a clock, rsi: the context that the present one was entered from, or 0 if none was
    // entered: then the present one stays.
    "fastinst_wasm_leave_context:",
    "push rax",
    "push rcx",
    "push rdx",
    "test rsi, rsi",
    "jz 4f",
    "mov rcx, [rdi]",
    "cmp dword ptr [rcx + {timed}], 0",
    "je 3f",
    "fastinst_wasm_read_clock",
    "sub rax, [rcx + {entered}]",
    // The thread may have waited for a CPU for most of that time.
    "mov rdx, [rdi + {least}]",
    "shl rdx, {most}",
    "cmp rax, rdx",
    "cmova rax, rdx",
    "add rax, [rcx + {spent}]",
    "mov [rcx + {spent}], rax",
    "mov rdx, [rcx + {samples}]",
    "add rdx, 1",
    "mov [rcx + {samples}], rdx",
    "cmp rdx, {enough}",
    "jb 3f",
    "imul rdx, [rdi + {least}]",
    "cmp rax, rdx",
    "jae 3f",
    "mov dword ptr [rcx + {timed}], 0",
    "3:",
    "mov [rdi], rsi",
    "4:",
    "pop rdx",
    "pop rcx",
    "pop rax",
    "ret",
    last = const offset_of!(AccountClock, last),
    reading = const offset_of!(AccountClock, reading),
    least = const offset_of!(AccountClock, least),
    calls = const offset_of!(ContextNode, calls),
    function = const offset_of!(ContextNode, function),
    timed = const offset_of!(ContextNode, timed),
    next = const offset_of!(ContextNode, next),
    entered = const offset_of!(ContextNode, entered),
    spent = const offset_of!(ContextNode, spent),
    samples = const offset_of!(ContextNode, samples),
    places = const offset_of!(ContextNode, places),
    mask = const PLACES - 1,
    none = const NO_FUNCTION.cast_signed(),
    enough = const ENOUGH,
    most = const MOST.ilog2(),
    make = sym make,
);

/// Has a receiver make the context of a function that is called from the present one; returns its
/// address, or 0.
extern "C" fn make(call: *const Call, vmctx: usize, present: u64, frame: usize) -> u64 {
    let mut values = [[present, 0]];
    // SAFETY: (1) machine code is kept together with the plan that it was made from; (2) there is
    // room for a word, and it captures nothing else.
    unsafe { super::hooks::fire(&*call, vmctx, frame, values.as_mut_ptr()) };
    values[0][0]
}

const _: () =
    assert!(offset_of!(AccountClock, current) == 0 && offset_of!(ContextNode, ticks) == 0);

unsafe extern "C" {
    /// Charges the present account, and from now on another one. Changes no register.
    pub(super) fn fastinst_wasm_charge(clock: *mut AccountClock, account: *mut u64);
    /// Enters the context of a function that was called from the present one, if that is known or
    /// can be made. Changes no register.
    pub(super) fn fastinst_wasm_enter_context(
        clock: *mut AccountClock,
        number: u64,
        make: usize,
        vmctx: usize,
    );
    /// Leaves the present context for the one that it was entered from, when a function ends.
    /// Changes no register.
    pub(super) fn fastinst_wasm_leave_context(clock: *mut AccountClock, before: *mut ContextNode);
}
