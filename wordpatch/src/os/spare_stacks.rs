//! Spare stacks: for functions of the library that run where the program has left little stack.
//!
//! Threads set aside small stacks for signals: `SIGSTKSZ` names eight kilobytes, and the smallest
//! that the kernel accepts has space for little more than one of its frames. Functions of the
//! library that are called there use less than [`MOST`] bytes of it, and continue on a spare stack:
//!
//! ```text
//!   the program's signal stack     ... | frame of the signal | [handler of the program |] ours, assembly only
//!   a spare stack                  for signals that cannot be held off | ours, in Rust ... |
//! ```
//!
//! | function | caller | signals that are blocked meanwhile |
//! |---|---|---|
//! | a handler of the library | the kernel, by [`handle`] | all asynchronous ones ([`signals::install`]) |
//! | another function | the program, by [`call`], perhaps in a handler of its own | the same |
//!
//! In [`call`] the barrier's signal uses the lower half of the spare stack.
//!
//! A spare stack and blocked signals are both needed: the kernel starts at the top of a signal
//! stack when the thread is not on it, and then the next signal's frame would overwrite the first
//! one's. On stacks other than the signal stack nothing changes: there the program's handlers may
//! run at any time, and expect the thread's own stack.
//!
//! One instruction takes a stack, and one thread uses it. If all are taken, or there is no memory,
//! functions run on the stack on which they were called. If a handler for a fault of an emulated
//! instruction leaves a spare stack by `siglongjmp`, the stack stays taken.
//!
//! # Safety
//!
//! This module exists because no compiler switches stacks, or reports how much stack a function
//! uses.
#![allow(unsafe_code)]

use super::pages::{self, PAGE};
use super::signals;
use std::arch::naked_asm;
use std::mem::offset_of;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU64, AtomicUsize};

/// The size of one stack, as a power of two.
const BITS: u32 = 16;
const SIZE: usize = 1 << BITS;

/// Its lower half, for signals that arrive while it is in use: two kernel frames with tile
/// registers, and the handler's own frames.
const FOR_SIGNALS: usize = SIZE / 2;

/// The most that the library's handlers use of a signal stack beyond the kernel's frame.
pub const MOST: usize = 256;

/// The number of stacks: one for each bit of a word.
const COUNT: usize = 64;

/// Words that the assembly code uses.
#[repr(C)]
struct Spares {
    /// Their base address; zero until they are reserved.
    base: AtomicUsize,
    /// A bit for each stack that is in use.
    taken: AtomicU64,
    /// A bit for each stack that has memory.
    ready: AtomicU64,
    /// The signals that are blocked in [`call`], in the kernel's representation.
    held_off: AtomicU64,
}

static SPARES: Spares = Spares {
    base: AtomicUsize::new(0),
    taken: AtomicU64::new(0),
    ready: AtomicU64::new(0),
    held_off: AtomicU64::new(signals::FROM_OUTSIDE),
};

/// Reserves address space for them, once, if there is any. Each gets memory at its first use.
pub fn prepare() {
    if SPARES.base.load(Acquire) != 0 {
        return;
    }
    let Ok(base) = pages::reserve(COUNT * SIZE) else { return };
    if SPARES.base.compare_exchange(0, base.get(), AcqRel, Relaxed).is_err() {
        // SAFETY: (1) reserved above, and no other code has the address.
        let _ = unsafe { pages::unmap(base, COUNT * SIZE) };
    }
}

/// Excludes a signal from the blocked ones: its sender waits for an answer.
pub(crate) fn let_in(signal: i32) {
    SPARES.held_off.fetch_and(!signals::bit(signal), Relaxed);
}

/// In a forked child: the threads that used stacks do not exist here.
pub(crate) fn forget() {
    SPARES.taken.store(0, Relaxed);
}

/// A handler to call after the current one has left its spare stack, and its mask.
#[derive(Debug)]
#[repr(C)]
pub struct Onward {
    /// A function of the form of a [`signals::Handler`].
    pub handler: usize,
    /// The signals to block, in the kernel's representation.
    pub mask: u64,
}

/// The function that [`handle`] calls. It gets the kernel's arguments, and the stack pointer of the
/// interrupted signal stack. With that stack pointer the function may touch the program's memory: a
/// fault is then delivered as if the handler had never left that stack. Returns whether to continue
/// with [`Onward`].
pub type OnSpareStack =
    extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void, &mut Onward, usize) -> bool;

/// The offset of the context in the kernel's frame, which begins with the return address of the
/// signal handler.
const CONTEXT: usize = 8;

/// Takes a stack: rax is its end, or zero. Changes only registers that a system call changes, and
/// r8 and rdx.
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
        // Gives it memory. The kernel changes rcx.
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

/// Releases the stack that ends at rdi. Changes rdi only.
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

/// Target of a jump from a handler that the kernel has called: continues on a spare stack, in the
/// function in rax (an [`OnSpareStack`]).
///
/// If another handler called the handler, that one has chosen stack and mask. Then this continues
/// on the same stack, in the function in r11 (a [`signals::Handler`]).
#[unsafe(naked)]
pub extern "C" fn handle() {
    naked_asm!(
        "lea rcx, [rsp + {context}]",
        "cmp rcx, rdx",
        "jne 9f",
        // The kernel restores all registers.
        "mov rbp, rsp",
        "mov ebx, edi",
        "mov r12, rsi",
        "mov r13, rdx",
        "mov r14, qword ptr [rdx + {link}]",
        "mov r15, rax",
        // An `Onward`, followed by the spare stack's end.
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
    /// The kernel's record of the signal stack.
    signals: libc::stack_t,
    /// The mask before.
    mask: u64,
    arguments: [u64; 4],
}

/// Calls the function in rax with four arguments, as C passes them, and the kernel's record of the
/// thread's signal stack (a `const stack_t *`) as the fifth. It runs on a spare stack if the thread
/// is on its signal stack, otherwise on the current one. Returns its result.
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
        // Is the thread on its signal stack?
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
        // No spare stack: call on the current one.
        "mov edi, {set_mask}",
        "lea rsi, [rsp + {mask}]",
        "xor edx, edx",
        "mov r10d, 8",
        "mov eax, {sigprocmask}",
        "syscall",
        "jmp 4f",
        // A `stack_t` for signals that arrive meanwhile: the kernel accepts it from a thread that
        // is not on its signal stack.
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

/// The stack pointer at the call of [`call`], which has passed `signals`.
pub fn called_at(signals: *const libc::stack_t) -> usize {
    // Above the saved values lie two registers and the caller's base pointer.
    signals.addr() + size_of::<Saved>() + 3 * size_of::<usize>()
}

const _: () = assert!(size_of::<Saved>().is_multiple_of(16) && offset_of!(Saved, signals) == 0);
const _: () = assert!(SIZE.is_multiple_of(PAGE) && COUNT == u64::BITS as usize);
