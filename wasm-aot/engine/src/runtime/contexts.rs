//! What machine code calls to charge accounts, and to enter and leave contexts: see
//! [`vm::context`](crate::vm::context).
//!
//! # Safety
//!
//! This module exists to read the clock and to write to accounts without changing any register, so
//! that a call from machine code costs what it does and no more.
#![allow(unsafe_code)]

use crate::vm::context::{AccountClock, ContextNode, ENOUGH, MOST, NO_FUNCTION, PLACES};
use std::mem::offset_of;

std::arch::global_asm!(
    // The time that has passed is charged, but for what reading the clock takes.
    // rdi: a clock, rcx: the account that is charged; leaves the time in rax, changes rdx
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
    // rdi: a clock, rsi: a function. The present context stays if it knows none of that function.
    "fastinst_wasm_enter_context:",
    "push rax",
    "push rcx",
    "push rdx",
    "push r8",
    "mov rcx, [rdi]",
    "mov eax, esi",
    "and eax, {mask}",
    "mov r8, [rcx + rax * 8 + {places}]",
    "2:",
    "mov eax, [r8 + {function}]",
    "cmp eax, esi",
    "je 3f",
    "cmp eax, {none}",
    "je 5f",
    "mov r8, [r8 + {next}]",
    "jmp 2b",
    "3:",
    "add qword ptr [r8 + {calls}], 1",
    "cmp dword ptr [r8 + {timed}], 0",
    "je 4f",
    "fastinst_wasm_read_clock",
    "mov [r8 + {entered}], rax",
    "4:",
    "mov [rdi], r8",
    "5:",
    "pop r8",
    "pop rdx",
    "pop rcx",
    "pop rax",
    "ret",
    ".globl fastinst_wasm_leave_context",
    ".type fastinst_wasm_leave_context,@function",
    // rdi: a clock, rsi: the context that the present one was entered from
    "fastinst_wasm_leave_context:",
    "push rax",
    "push rcx",
    "push rdx",
    "mov rcx, [rdi]",
    "cmp dword ptr [rcx + {timed}], 0",
    "je 3f",
    "fastinst_wasm_read_clock",
    "sub rax, [rcx + {entered}]",
    // It may have waited for a processor for most of that.
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
);

const _: () =
    assert!(offset_of!(AccountClock, current) == 0 && offset_of!(ContextNode, ticks) == 0);

unsafe extern "C" {
    /// Charges the present account, and from now on another one. Changes no register.
    pub(super) fn fastinst_wasm_charge(clock: *mut AccountClock, account: *mut u64);
    /// Enters the context of a function that was called from the present one, if that is known.
    /// Changes no register.
    pub(super) fn fastinst_wasm_enter_context(clock: *mut AccountClock, function: u64);
    /// Leaves the present context for the one that it was entered from. Changes no register.
    pub(super) fn fastinst_wasm_leave_context(clock: *mut AccountClock, before: *mut ContextNode);
}
