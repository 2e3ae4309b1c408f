//! The way back of a stopped thread, which does not need the command.
//!
//! The command may be killed at any moment, and a thread whose tracer ends goes on with the
//! registers that it has. So a thread is only ever given registers that lead to a `syscall` which
//! the *way back* follows: instructions that restore its signal mask and its registers, and restart
//! the system call that the stop has interrupted, as the kernel does when the command restores them.
//!
//! ```text
//!   registers of the program ─▶ syscall │ way back        while the command lives, it stops the thread here
//!              ▲                            │             by a single step, and restores the registers itself
//!              └────────────────────────────┘
//! ```
//!
//! The first such call makes a mapping; until there is one, the instructions are in a *gap*: zeroes
//! at the end of a mapping that is executable, behind all code. A command that is killed meanwhile
//! leaves them there.
//!
//! # Safety
//!
//! This module exists to define which instructions another process executes. Here they are data.
#![allow(unsafe_code)]

use std::arch::global_asm;
use std::mem::offset_of;
use wordpatch::os::maps::Mapping;
use wordpatch::os::tracing::{Continuation, Memory};

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

/// The instructions: a `syscall`, and the way back to `continuation`.
pub(super) fn code(continuation: &Continuation) -> Vec<u8> {
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
    };
    // SAFETY: (1) labels of the section above, in this order; (2) numbers without gaps.
    let (code, values) = unsafe {
        let (begin, end) =
            (&raw const fastinst_way_back_begin, &raw const fastinst_way_back_values);
        let values = std::ptr::from_ref(&values).cast::<u8>();
        (
            std::slice::from_raw_parts(begin, end.addr() - begin.addr()),
            std::slice::from_raw_parts(values, size_of::<Values>()),
        )
    };
    [code, values].concat()
}

/// The way back alone, which follows another `syscall`.
pub(super) fn after_call(continuation: &Continuation) -> Vec<u8> {
    const SYSCALL: usize = 2;
    // A pair of `nop`s instead keeps the distances.
    let mut code = code(continuation);
    code[..SYSCALL].fill(0x90);
    code
}

/// How much room [`code`] needs.
pub(super) fn room() -> usize {
    (&raw const fastinst_way_back_values).addr() - (&raw const fastinst_way_back_begin).addr()
        + size_of::<Values>()
}

/// Zeroes at the end of an executable mapping, with room for the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) at: u64,
}

/// All gaps of a process, at best in the kernel's own code, else in that of a file.
pub(super) fn gaps(memory: &Memory, mappings: &[Mapping]) -> Vec<Gap> {
    const VDSO: &str = "[vdso]";
    let is_code = |mapping: &&Mapping| mapping.execute && mapping.read && !mapping.write;
    let (kernel, files): (Vec<&Mapping>, Vec<&Mapping>) = mappings
        .iter()
        .filter(is_code)
        .filter(|mapping| mapping.path == VDSO || mapping.path.starts_with('/'))
        .partition(|mapping| mapping.path == VDSO);
    let all = kernel.into_iter().chain(files);
    all.filter_map(|mapping| Gap::in_mapping(memory, mapping)).collect()
}

impl Gap {
    fn in_mapping(memory: &Memory, mapping: &Mapping) -> Option<Self> {
        const PAGE: usize = 4096;
        let last = (mapping.end.get() - PAGE) as u64;
        let mut page = [0; PAGE];
        memory.read(last, &mut page).ok()?;
        Some(Self { at: last + gap(&page, room())? as u64 })
    }

    /// Fills it. Fails where the kernel does not allow it.
    pub(super) fn fill(self, memory: &Memory, code: &[u8]) -> std::io::Result<()> {
        // SAFETY: (1) bytes behind all code of their mapping, which is private.
        unsafe { memory.write(self.at, code) }
    }

    /// Makes it what it was.
    pub(super) fn clear(self, memory: &Memory) {
        let zeroes = vec![0; room()];
        // If that fails, instructions remain that nothing executes.
        // SAFETY: (1) as above.
        let _ = unsafe { memory.write(self.at, &zeroes) };
    }
}

/// Where a gap of `room` bytes begins in a page, if there is one. The first zeroes may belong to the
/// last instruction, or to instructions that a killed command has left: a thread may still execute
/// those.
fn gap(page: &[u8], room: usize) -> Option<usize> {
    const OF_INSTRUCTION: usize = 16;
    let used = page.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let at = (used + OF_INSTRUCTION).next_multiple_of(16);
    (at + room <= page.len()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_behind_the_last_instruction_whole() {
        let mut page = [0; 4096];
        page[100] = 0xc3;
        assert_eq!(gap(&page, 290), Some(128));
        page[3775] = 0xc3;
        assert_eq!((gap(&page, 304), gap(&page, 305)), (Some(3792), None));
        page[4095] = 0xc3;
        assert_eq!(gap(&page, 16), None);
    }

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
        let general = std::array::from_fn(|at| 0x1234_5678_9abc_def1 * (at as u64 + 1));
        let instruction = landing as *const () as u64;
        for flags in [0, 0xd5, 0x800, 0x441, 0xcd5, 0x810] {
            let wanted = Continuation { mask: before ^ USER1, general, flags, instruction };
            let bytes = code(&wanted);
            assert_eq!(bytes.len(), room());
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
