//! Spare stacks: for our functions that run where the program has left little stack.
//!
//! Threads set aside small stacks for signals: `SIGSTKSZ` names eight kilobytes, and the smallest
//! that the kernel accepts has room for one of its frames and hardly more. Our functions that are
//! called there take less than [`MOST`] bytes of it, and continue on a spare stack:
//!
//! ```text
//!   the program's signal stack     ... | frame of the signal | [handler of the program |] ours, assembly only
//!   a spare stack                  for signals that cannot be held off | ours, in Rust ... |
//! ```
//!
//! | thread | how it comes here | what is held off meanwhile |
//! |---|---|---|
//! | a handler of ours | [`handle`], from the kernel | what the handler was installed with: all signals from outside ([`signals::install`]) |
//! | a function that the program calls, perhaps in a handler of its own | [`call`] | the same, and the barrier's signal comes to the lower half of the spare stack |
//!
//! Both are needed because the kernel starts at the top of a signal stack when the thread is not on
//! it, and then the next signal's frame would overwrite the first one's. On stacks other than the
//! signal stack nothing is changed: there the program's handlers may run at any time, and expect
//! the thread's own stack.
//!
//! A stack is taken by one instruction and used by one thread. If all are taken, or there is no
//! memory, functions run on the stack on which they were called. A spare stack that is left by
//! `siglongjmp`, out of a handler for a fault of an emulated instruction, stays taken.
//!
//! # Safety
//!
//! This module exists because no compiler switches stacks, or reports how much stack a function
//! takes.
#![allow(unsafe_code)]

use super::pages::{self, PAGE};
use super::signals;
use std::arch::naked_asm;
use std::mem::offset_of;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// The bytes of one stack, as a power of two.
const BITS: u32 = 16;
const SIZE: usize = 1 << BITS;

/// Its lower half, for signals that come while it is used: two frames of a processor with tile
/// registers, and ours.
const FOR_SIGNALS: usize = SIZE / 2;

/// The most that handlers of ours take of a signal stack beyond the kernel's frame.
pub const MOST: usize = 256;

/// How many there are: one for each bit of a word.
const COUNT: usize = 64;

/// Words that the assembly code uses.
#[repr(C)]
struct Spares {
    /// Where they lie; zero until they are reserved.
    base: AtomicUsize,
    /// A bit for each that is used.
    taken: AtomicU64,
    /// A bit for each that has memory.
    ready: AtomicU64,
    /// The signals that are held off in [`call`], as the kernel has sets.
    held_off: AtomicU64,
}

static SPARES: Spares = Spares {
    base: AtomicUsize::new(0),
    taken: AtomicU64::new(0),
    ready: AtomicU64::new(0),
    held_off: AtomicU64::new(signals::FROM_OUTSIDE),
};

/// Reserves address space for them, once, if there is some. Memory is given to each when it is used
/// first.
pub fn prepare() {
    if SPARES.base.load(Acquire) != 0 {
        return;
    }
    let Ok(base) = pages::reserve(COUNT * SIZE) else { return };
    if SPARES.base.compare_exchange(0, base.get(), AcqRel, Relaxed).is_err() {
        // SAFETY: (1) reserved above, and not known to any other code.
        let _ = unsafe { pages::unmap(base, COUNT * SIZE) };
    }
}

/// This signal is not held off from now on: its sender waits for an answer.
pub(crate) fn let_in(signal: i32) {
    SPARES.held_off.fetch_and(!signals::bit(signal), Relaxed);
}

/// In a forked child: the threads that used stacks do not exist here.
pub(crate) fn forget() {
    SPARES.taken.store(0, Relaxed);
}

/// A handler to call when the current one has left its spare stack, and its mask.
#[derive(Debug)]
#[repr(C)]
pub struct Onward {
    /// A function of the form of a [`signals::Handler`].
    pub handler: usize,
    /// The signals to block, as the kernel has sets.
    pub mask: u64,
}

/// What [`handle`] calls: with what the kernel gave, and the stack pointer of the stack that the
/// signal came to, below which memory of the program may be touched: a fault there is delivered as
/// if the handler had never left it. Returns whether to go [`Onward`].
pub type OnSpareStack =
    extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void, &mut Onward, usize) -> bool;

/// The bytes between what a signal handler returns to, which is the beginning of the kernel's
/// frame, and the context.
const CONTEXT: usize = 8;

/// Takes a stack: rax is its end, or zero. All that a system call may change is changed, r8 and rdx
/// as well, and nothing else.
#[unsafe(naked)]
extern "C" fn take() {
    naked_asm!(
        "lea r8, [rip + {spares}]",
        "mov r9, qword ptr [r8 + {base}]",
        "test r9, r9",
        "jz 8f",
        "2:",
        "mov rcx, qword ptr [r8 + {taken}]",
        "not rcx",
        "test rcx, rcx",
        "jz 8f",
        "bsf rcx, rcx",
        "lock bts qword ptr [r8 + {taken}], rcx",
        "jc 2b",
        "mov rdi, rcx",
        "shl rdi, {bits}",
        "add rdi, r9",
        "bt qword ptr [r8 + {ready}], rcx",
        "jc 5f",
        // Memory for it. The kernel changes rcx.
        "mov r9, rcx",
        "mov esi, {size}",
        "mov edx, {read_write}",
        "mov eax, {mprotect}",
        "syscall",
        "mov rcx, r9",
        "test eax, eax",
        "jnz 7f",
        "lock bts qword ptr [r8 + {ready}], rcx",
        "5:",
        "lea rax, [rdi + {size}]",
        "ret",
        "7:",
        "lock btr qword ptr [r8 + {taken}], rcx",
        "8:",
        "xor eax, eax",
        "ret",
        spares = sym SPARES,
        base = const offset_of!(Spares, base),
        taken = const offset_of!(Spares, taken),
        ready = const offset_of!(Spares, ready),
        bits = const BITS,
        size = const SIZE,
        read_write = const libc::PROT_READ | libc::PROT_WRITE,
        mprotect = const libc::SYS_mprotect,
    )
}

/// Gives the stack that ends at rdi back. Changes rdi only.
#[unsafe(naked)]
extern "C" fn give_back() {
    naked_asm!(
        "sub rdi, qword ptr [rip + {spares} + {base}]",
        "shr rdi, {bits}",
        "dec rdi",
        "lock btr qword ptr [rip + {spares} + {taken}], rdi",
        "ret",
        spares = sym SPARES,
        base = const offset_of!(Spares, base),
        taken = const offset_of!(Spares, taken),
        bits = const BITS,
    )
}

/// Where a handler jumps to that the kernel has called: goes on in the function that rax holds (an
/// [`OnSpareStack`]), on a spare stack.
///
/// A handler that was called by another one, which has its own idea of stack and mask, goes on in
/// the function that r11 holds (a [`signals::Handler`]), on the same stack.
#[unsafe(naked)]
pub extern "C" fn handle() {
    naked_asm!(
        "lea rcx, [rsp + {context}]",
        "cmp rcx, rdx",
        "jne 9f",
        // The kernel gives all registers back.
        "mov rbp, rsp",
        "mov ebx, edi",
        "mov r12, rsi",
        "mov r13, rdx",
        "mov r14, qword ptr [rdx + {link}]",
        "mov r15, rax",
        // An `Onward`, and behind it the spare stack's end.
        "sub rsp, 24",
        "call {take}",
        "mov qword ptr [rbp - 8], rax",
        "mov edi, ebx",
        "mov rsi, r12",
        "mov rdx, r13",
        "lea rcx, [rbp - 24]",
        "mov r8, rsp",
        "test rax, rax",
        "cmovnz rsp, rax",
        "call r15",
        "lea rsp, [rbp - 24]",
        "movzx r15d, al",
        "mov rdi, qword ptr [rbp - 8]",
        "test rdi, rdi",
        "jz 2f",
        "call {give_back}",
        "2:",
        "test r15d, r15d",
        "jz 3f",
        "mov edi, {set_mask}",
        "lea rsi, [rbp - 24 + {mask}]",
        "xor edx, edx",
        "mov r10d, 8",
        "mov eax, {sigprocmask}",
        "syscall",
        "mov edi, ebx",
        "mov rsi, r12",
        "mov rdx, r13",
        "call qword ptr [rbp - 24 + {handler}]",
        // The field that records which handler has passed a signal on.
        "mov qword ptr [r13 + {link}], r14",
        "3:",
        "mov rsp, rbp",
        "ret",
        "9:",
        "jmp r11",
        context = const CONTEXT,
        link = const offset_of!(libc::ucontext_t, uc_link),
        take = sym take,
        give_back = sym give_back,
        set_mask = const libc::SIG_SETMASK,
        sigprocmask = const libc::SYS_rt_sigprocmask,
        mask = const offset_of!(Onward, mask),
        handler = const offset_of!(Onward, handler),
    )
}

const _: () = assert!(size_of::<Onward>() == 16);

/// The values that [`call`] saves on the caller's stack.
#[repr(C)]
struct Saved {
    /// What the kernel says of the signal stack.
    signals: libc::stack_t,
    /// The mask before.
    mask: u64,
    arguments: [u64; 4],
}

/// Calls the function that rax holds with four arguments, as C passes them, and what the kernel
/// says of the thread's signal stack (a `const stack_t *`) as the fifth; on a spare stack if the
/// thread is on its signal stack, and else where it is. Returns what it returns.
#[unsafe(naked)]
pub extern "C" fn call() {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rbx",
        "push r12",
        "sub rsp, {room}",
        "mov qword ptr [rsp + {arguments}], rdi",
        "mov qword ptr [rsp + {arguments} + 8], rsi",
        "mov qword ptr [rsp + {arguments} + 16], rdx",
        "mov qword ptr [rsp + {arguments} + 24], rcx",
        "mov rbx, rax",
        "xor r12d, r12d",
        // Which stack is this?
        "xor edi, edi",
        "mov rsi, rsp",
        "mov eax, {sigaltstack}",
        "syscall",
        "test eax, eax",
        "jz 2f",
        "mov dword ptr [rsp + {flags}], {disabled}",
        "2:",
        "test dword ptr [rsp + {flags}], {on_it}",
        "jz 4f",
        "mov edi, {block}",
        "lea rsi, [rip + {spares} + {held_off}]",
        "lea rdx, [rsp + {mask}]",
        "mov r10d, 8",
        "mov eax, {sigprocmask}",
        "syscall",
        "test eax, eax",
        "jnz 4f",
        "call {take}",
        "mov r12, rax",
        "test rax, rax",
        "jnz 3f",
        // None: here, as it was.
        "mov edi, {set_mask}",
        "lea rsi, [rsp + {mask}]",
        "xor edx, edx",
        "mov r10d, 8",
        "mov eax, {sigprocmask}",
        "syscall",
        "jmp 4f",
        // A `stack_t` for signals that come meanwhile: the kernel takes it from a thread that is
        // not on its signal stack.
        "3:",
        "lea rsp, [rax - {padded}]",
        "lea rdi, [rax - {size}]",
        "mov qword ptr [rsp + {start}], rdi",
        "mov qword ptr [rsp + {flags}], 0",
        "mov qword ptr [rsp + {len}], {for_signals}",
        "mov rdi, rsp",
        "xor esi, esi",
        "mov eax, {sigaltstack}",
        "syscall",
        "4:",
        "lea r8, [rbp - {saved}]",
        "mov rdi, qword ptr [r8 + {arguments}]",
        "mov rsi, qword ptr [r8 + {arguments} + 8]",
        "mov rdx, qword ptr [r8 + {arguments} + 16]",
        "mov rcx, qword ptr [r8 + {arguments} + 24]",
        "call rbx",
        "mov rbx, rax",
        "test r12, r12",
        "jz 5f",
        "lea rdi, [rbp - {saved}]",
        "xor esi, esi",
        "mov eax, {sigaltstack}",
        "syscall",
        "lea rsp, [rbp - {saved}]",
        "mov rdi, r12",
        "call {give_back}",
        "mov edi, {set_mask}",
        "lea rsi, [rsp + {mask}]",
        "xor edx, edx",
        "mov r10d, 8",
        "mov eax, {sigprocmask}",
        "syscall",
        "5:",
        "mov rax, rbx",
        "lea rsp, [rbp - 16]",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        room = const size_of::<Saved>(),
        saved = const size_of::<Saved>() + 16,
        arguments = const offset_of!(Saved, arguments),
        mask = const offset_of!(Saved, mask),
        start = const offset_of!(libc::stack_t, ss_sp),
        flags = const offset_of!(libc::stack_t, ss_flags),
        len = const offset_of!(libc::stack_t, ss_size),
        disabled = const libc::SS_DISABLE,
        on_it = const libc::SS_ONSTACK,
        padded = const size_of::<libc::stack_t>().next_multiple_of(16),
        size = const SIZE,
        for_signals = const FOR_SIGNALS,
        spares = sym SPARES,
        held_off = const offset_of!(Spares, held_off),
        take = sym take,
        give_back = sym give_back,
        block = const libc::SIG_BLOCK,
        set_mask = const libc::SIG_SETMASK,
        sigaltstack = const libc::SYS_sigaltstack,
        sigprocmask = const libc::SYS_rt_sigprocmask,
    )
}

/// The stack pointer with which [`call`] was called, which has passed on `signals`.
pub fn called_at(signals: *const libc::stack_t) -> usize {
    // Behind what it has saved lie two registers and its caller's base pointer.
    signals.addr() + size_of::<Saved>() + 3 * size_of::<usize>()
}

const _: () = assert!(size_of::<Saved>().is_multiple_of(16) && offset_of!(Saved, signals) == 0);
const _: () = assert!(SIZE.is_multiple_of(PAGE) && COUNT == u64::BITS as usize);
