//! The way back of a stopped thread, which does not need the command.
//!
//! The command may be killed at any moment, and a thread whose tracer ends goes on with the
//! registers that it has. So a thread is only ever given registers that lead to a `syscall` which
//! the *way back* follows: instructions that restore its signal mask and its registers, and
//! restart the system call that the stop has interrupted. As long as the command lives, it stops
//! the thread at the end of the call, and has the kernel do all this.
//!
//! ```text
//!   registers of the program ─▶ syscall │ way back
//!              ▲                            │
//!              └────────────────────────────┘
//! ```
//!
//! The first such call makes a mapping. Until there is one, the instructions are in a
//! [gap](super::gap).
//!
//! # Safety
//!
//! This module exists to define which instructions another process executes. Here they are data.
#![allow(unsafe_code)]

use std::arch::global_asm;
use std::mem::offset_of;
use wordpatch::os::tracing::{Continuation, Stopped};

/// What the instructions restore.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Values {
    mask: u64,
    /// In the order of [`Continuation::general`].
    general: [u64; 15],
    /// The arithmetic flags: in the lowest byte 7f if that of signed overflow is set, in the next
    /// one the others, as `sahf` takes them.
    arithmetic: u64,
    /// Whether string instructions go backwards.
    backwards: u64,
    instruction: u64,
    owner: Owner,
}

/// The thread whose way back it is: its ID in the view of the command, and its thread pointer.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) thread: u64,
    pub(super) pointer: u64,
}

global_asm!(
    ".pushsection .rodata.fastinst_way_back,\"a\",@progbits",
    ".globl fastinst_way_back_begin, fastinst_way_back_values",
    ".hidden fastinst_way_back_begin, fastinst_way_back_values",
    ".balign 16",
    "fastinst_way_back_begin:",
    "syscall",
    // rt_sigprocmask(SIG_SETMASK, mask, null, 8)
    "mov eax, 14",
    "mov edi, 2",
    "lea rsi, [rip + fastinst_way_back_values + {mask}]",
    "xor edx, edx",
    "mov r10d, 8",
    "syscall",
    // No stack is used: a handler may run here, on the program's. The other flags were not changed.
    "cmp qword ptr [rip + fastinst_way_back_values + {backwards}], 0",
    "je 2f",
    "std",
    "2:",
    "mov eax, [rip + fastinst_way_back_values + {arithmetic}]",
    "add al, 1",
    "sahf",
    "mov rbx, [rip + fastinst_way_back_values + {general} + 8]",
    "mov rcx, [rip + fastinst_way_back_values + {general} + 16]",
    "mov rdx, [rip + fastinst_way_back_values + {general} + 24]",
    "mov rsi, [rip + fastinst_way_back_values + {general} + 32]",
    "mov rdi, [rip + fastinst_way_back_values + {general} + 40]",
    "mov rbp, [rip + fastinst_way_back_values + {general} + 48]",
    "mov r8, [rip + fastinst_way_back_values + {general} + 56]",
    "mov r9, [rip + fastinst_way_back_values + {general} + 64]",
    "mov r10, [rip + fastinst_way_back_values + {general} + 72]",
    "mov r11, [rip + fastinst_way_back_values + {general} + 80]",
    "mov r12, [rip + fastinst_way_back_values + {general} + 88]",
    "mov r13, [rip + fastinst_way_back_values + {general} + 96]",
    "mov r14, [rip + fastinst_way_back_values + {general} + 104]",
    "mov r15, [rip + fastinst_way_back_values + {general} + 112]",
    "mov rax, [rip + fastinst_way_back_values + {general}]",
    "jmp [rip + fastinst_way_back_values + {instruction}]",
    ".balign 8",
    "fastinst_way_back_values:",
    ".popsection",
    mask = const offset_of!(Values, mask),
    general = const offset_of!(Values, general),
    arithmetic = const offset_of!(Values, arithmetic),
    backwards = const offset_of!(Values, backwards),
    instruction = const offset_of!(Values, instruction),
);

unsafe extern "C" {
    static fastinst_way_back_begin: u8;
    static fastinst_way_back_values: u8;
}

/// The instructions for a stopped thread: a `syscall`, and the way back.
pub(super) fn code(thread: &Stopped) -> Vec<u8> {
    let pointer = thread.registers().thread_pointer();
    code_to(&thread.continuation(), Owner { thread: thread.number() as u64, pointer })
}

fn code_to(continuation: &Continuation, owner: Owner) -> Vec<u8> {
    const CARRY_TO_SIGN: u64 = 0xff;
    const OVERFLOW: u64 = 1 << 11;
    const DIRECTION: u64 = 1 << 10;
    let Continuation { mask, general, flags, instruction } = *continuation;
    let overflow = if flags & OVERFLOW != 0 { 0x7f } else { 0 };
    let values = Values {
        mask,
        general,
        arithmetic: (flags & CARRY_TO_SIGN) << 8 | overflow,
        backwards: flags & DIRECTION,
        instruction,
        owner,
    };
    // SAFETY: (1) numbers without gaps.
    let values = unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(&values).cast::<u8>(), size_of::<Values>())
    };
    [instructions(), values].concat()
}

/// The way back alone, which follows another `syscall`.
pub(super) fn after_call(thread: &Stopped) -> Vec<u8> {
    const SYSCALL: usize = 2;
    // A pair of `nop`s instead keeps the distances.
    let mut code = code(thread);
    code[..SYSCALL].fill(0x90);
    code
}

/// How much room [`code`] needs.
pub(super) fn room() -> usize {
    instructions().len() + size_of::<Values>()
}

/// The way back of a killed command, in `bytes`: where it begins there, and the thread whose it is.
pub(super) fn find(bytes: &[u8]) -> Option<(usize, Owner)> {
    let code = instructions();
    let at = memchr::memmem::find(bytes, code)?;
    let values = bytes.get(at + code.len()..at + room())?;
    let of = |field: usize| Some(u64::from_le_bytes(*values[field..].first_chunk()?));
    let thread = of(offset_of!(Values, owner) + offset_of!(Owner, thread))?;
    let pointer = of(offset_of!(Values, owner) + offset_of!(Owner, pointer))?;
    Some((at, Owner { thread, pointer }))
}

/// The instructions, without the values.
fn instructions() -> &'static [u8] {
    // SAFETY: (1) labels of the section above, in this order.
    unsafe {
        let (begin, end) =
            (&raw const fastinst_way_back_begin, &raw const fastinst_way_back_values);
        std::slice::from_raw_parts(begin, end.addr() - begin.addr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Executes a copy of the instructions at `code`. They lead to [`landing`].
    #[unsafe(naked)]
    unsafe extern "C" fn enter(code: *const u8, found: *mut [u64; 16]) {
        std::arch::naked_asm!(
            "push rbx",
            "push rbp",
            "push r12",
            "push r13",
            "push r14",
            "push r15",
            "push rsi",
            // getpid()
            "mov eax, 39",
            "jmp rdi",
        )
    }

    /// Stores all registers and the flags, and returns from [`enter`].
    #[unsafe(naked)]
    unsafe extern "C" fn landing() {
        std::arch::naked_asm!(
            "xchg rax, [rsp]",
            "mov [rax + 8], rbx",
            "mov [rax + 16], rcx",
            "mov [rax + 24], rdx",
            "mov [rax + 32], rsi",
            "mov [rax + 40], rdi",
            "mov [rax + 48], rbp",
            "mov [rax + 56], r8",
            "mov [rax + 64], r9",
            "mov [rax + 72], r10",
            "mov [rax + 80], r11",
            "mov [rax + 88], r12",
            "mov [rax + 96], r13",
            "mov [rax + 104], r14",
            "mov [rax + 112], r15",
            "mov rcx, rax",
            "pop rax",
            "mov [rcx], rax",
            "pushfq",
            "pop rax",
            "mov [rcx + 120], rax",
            "cld",
            "pop r15",
            "pop r14",
            "pop r13",
            "pop r12",
            "pop rbp",
            "pop rbx",
            "ret",
        )
    }

    fn mask(set: Option<u64>) -> u64 {
        let mut before = 0u64;
        let set = set.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let how = libc::SIG_SETMASK;
        // SAFETY: (1) masks of this thread.
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, set, &raw mut before, 8) };
        before
    }

    #[test]
    fn the_instructions_restore_every_register_the_flags_and_the_mask() {
        const USER1: u64 = 1 << (libc::SIGUSR1 - 1);
        const ARITHMETIC: u64 = 0x8d5;
        let before = mask(None);
        let general =
            std::array::from_fn(|at| 0x1234_5678_9abc_def1_u64.wrapping_mul(at as u64 + 1));
        let instruction = landing as *const () as u64;
        for flags in [0, 0xd5, 0x800, 0x441, 0xcd5, 0x810] {
            let wanted = Continuation { mask: before ^ USER1, general, flags, instruction };
            let owner = Owner { thread: 4711, pointer: 0x7f00_0000_1000 };
            let bytes = code_to(&wanted, owner);
            assert_eq!(
                (bytes.len(), find(&[&[0; 100], &bytes[..]].concat())),
                (room(), Some((100, owner)))
            );
            let mut found = [0; 16];
            // SAFETY: (1) a mapping of its own; (2) instructions that return here.
            unsafe {
                let page = libc::mmap(
                    std::ptr::null_mut(),
                    4096,
                    libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                );
                assert_ne!(page, libc::MAP_FAILED);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), page.cast(), bytes.len());
                enter(page.cast(), &raw mut found);
                libc::munmap(page, 4096);
            }
            assert_eq!(found[..15], general);
            let flags_of = |flags: u64| flags & (ARITHMETIC | 0x400);
            assert_eq!(flags_of(found[15]), flags_of(flags), "{flags:x}");
            assert_eq!(mask(Some(before)), before ^ USER1);
        }
    }
}
