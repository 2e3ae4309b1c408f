//! The code that is executed in the process: by the bootstrap thread, which the C library does not
//! know, and by a thread that the bootstrap thread creates through the C library.
//!
//! ```text
//!   a thread of the program:  clone ─▶ goes on where it was
//!   bootstrap thread:         mprotect, pthread_create, exit                      some 100 microseconds
//!   a thread of the process:    dlopen, dlsym ─▶ the library's entry point        the profiler's thread from then on
//! ```
//!
//! Why not `pthread_create` or `dlopen` on the program's thread: it may have been stopped inside
//! malloc or the loader, whose locks it then holds and whose state is half changed. The bootstrap
//! thread waits for a lock as every thread does. It has its own thread data, so the C library's
//! per-thread caches are new as well.
//!
//! # Safety
//!
//! This module exists to define which instructions another process executes. Here they are data.
#![allow(unsafe_code)]

use fastinst::attachment::{Functions, LOADED, LOADING, NO_ENTRY, NO_THREAD, NOT_LOADED, Request};
use std::arch::global_asm;
use std::mem::offset_of;

global_asm!(
    ".pushsection .rodata.fastinst_bootstrap,\"a\",@progbits",
    // The compiler may put this and `code` into different objects.
    ".globl fastinst_bootstrap_begin, fastinst_bootstrap_end",
    ".hidden fastinst_bootstrap_begin, fastinst_bootstrap_end",
    ".balign 16",
    "fastinst_bootstrap_begin:",
    // The stopped thread makes this call; rbx is the request, for both.
    "syscall",
    "test rax, rax",
    "jz 4f",
    // If its tracer has ended, it goes on here: a single one once the library is loaded, or after
    // about a second.
    "mov r12d, 10000",
    "2:",
    "cmp dword ptr [rbx + {is_single}], 0",
    "je 3f",
    "cmp dword ptr [rbx + {state}], {loading}",
    "ja 3f",
    // ppoll(null, 0, time, null, 0). Not nanosleep, which would make the kernel forget where an
    // interrupted sleep of the program goes on.
    "xor edi, edi",
    "xor esi, esi",
    "lea rdx, [rip + 5f]",
    "xor r10d, r10d",
    "xor r8d, r8d",
    "mov eax, 271",
    "syscall",
    "dec r12d",
    "jnz 2b",
    // The way back.
    "3:",
    "jmp fastinst_bootstrap_end",
    ".balign 8",
    "5:",
    ".quad 0, 50000",
    // The new thread.
    "4:",
    "mov rdi, rbx",
    "mov rsi, [rbx + {written}]",
    "mov edx, 3",
    "mov eax, 10",
    "syscall",
    "test rax, rax",
    "jnz 9f",
    "mov eax, 186",
    "syscall",
    "mov rcx, [rbx + {bootstrap}]",
    "mov [rcx], eax",
    "lea rdi, [rbx + {attributes}]",
    "call [rbx + {functions} + {attr_init}]",
    "lea rdi, [rbx + {attributes}]",
    "mov rsi, [rbx + {stack}]",
    "call [rbx + {functions} + {attr_setstacksize}]",
    "lea rdi, [rbx + {attributes}]",
    "mov esi, 1",
    "call [rbx + {functions} + {attr_setdetachstate}]",
    "lea rdi, [rbx + {thread}]",
    "lea rsi, [rbx + {attributes}]",
    "lea rdx, [rip + 20f]",
    "mov rcx, rbx",
    "call [rbx + {functions} + {create}]",
    "test eax, eax",
    "jz 9f",
    "mov [rbx + {error}], eax",
    "mov dword ptr [rbx + {state}], {no_thread}",
    "9:",
    "xor edi, edi",
    "mov eax, 60",
    "syscall",
    "ud2",
    // The thread that the C library has created: rdi is the request.
    "20:",
    "push rbx",
    "mov rbx, rdi",
    "mov dword ptr [rbx + {state}], {loading}",
    "lea rdi, [rbx + {library}]",
    "mov esi, 2",
    "call [rbx + {functions} + {dlopen}]",
    "test rax, rax",
    "jz 30f",
    "mov rdi, rax",
    "lea rsi, [rbx + {entry}]",
    "call [rbx + {functions} + {dlsym}]",
    "test rax, rax",
    "jz 31f",
    "mov dword ptr [rbx + {state}], {loaded}",
    "mov rdi, rbx",
    "pop rbx",
    "jmp rax",
    "30:",
    "mov r11d, {not_loaded}",
    "jmp 32f",
    "31:",
    "mov r11d, {no_entry}",
    "32:",
    "push r11",
    "push r11",
    "call [rbx + {functions} + {dlerror}]",
    "pop r11",
    "pop r11",
    "test rax, rax",
    "jz 35f",
    "xor ecx, ecx",
    "34:",
    "mov dl, [rax + rcx]",
    "mov [rbx + rcx + {answer}], dl",
    "inc ecx",
    "test dl, dl",
    "jz 35f",
    "cmp ecx, {answer_len} - 1",
    "jb 34b",
    "35:",
    "mov [rbx + {state}], r11d",
    // Until the command has read it, or for five seconds.
    "push 1000000",
    "push 0",
    "mov r11d, 5000",
    "36:",
    "cmp dword ptr [rbx + {acknowledged}], 0",
    "jne 37f",
    "push r11",
    "lea rdi, [rsp + 8]",
    "xor esi, esi",
    "mov eax, 35",
    "syscall",
    "pop r11",
    "dec r11d",
    "jnz 36b",
    // The command was killed: a thread may be on its way back here, so this is not unmapped.
    "pop rax",
    "pop rax",
    "pop rbx",
    "ret",
    "37:",
    "pop rax",
    "pop rax",
    // The bootstrap thread has its stack here.
    "mov rcx, [rbx + {bootstrap}]",
    "38:",
    "pause",
    "cmp dword ptr [rcx], 0",
    "jne 38b",
    "mov rdi, [rbx + {mapping}]",
    "mov rsi, [rbx + {len}]",
    "mov rax, [rbx + {functions} + {munmap}]",
    "pop rbx",
    "jmp rax",
    ".balign 16",
    "fastinst_bootstrap_end:",
    ".popsection",
    mapping = const offset_of!(Request, mapping),
    len = const offset_of!(Request, len),
    written = const offset_of!(Request, written),
    bootstrap = const offset_of!(Request, bootstrap),
    stack = const offset_of!(Request, stack),
    is_single = const offset_of!(Request, is_single),
    state = const offset_of!(Request, state),
    error = const offset_of!(Request, error),
    acknowledged = const offset_of!(Request, acknowledged),
    attributes = const offset_of!(Request, attributes),
    thread = const offset_of!(Request, thread),
    entry = const offset_of!(Request, entry),
    library = const offset_of!(Request, library),
    answer = const offset_of!(Request, answer),
    answer_len = const ANSWER,
    functions = const offset_of!(Request, functions),
    attr_init = const offset_of!(Functions, attr_init),
    attr_setstacksize = const offset_of!(Functions, attr_setstacksize),
    attr_setdetachstate = const offset_of!(Functions, attr_setdetachstate),
    create = const offset_of!(Functions, create),
    dlopen = const offset_of!(Functions, dlopen),
    dlsym = const offset_of!(Functions, dlsym),
    dlerror = const offset_of!(Functions, dlerror),
    munmap = const offset_of!(Functions, munmap),
    no_thread = const NO_THREAD,
    loading = const LOADING,
    loaded = const LOADED,
    not_loaded = const NOT_LOADED,
    no_entry = const NO_ENTRY,
);

const ANSWER: usize = offset_of!(Request, is_single) - offset_of!(Request, answer);

unsafe extern "C" {
    static fastinst_bootstrap_begin: u8;
    static fastinst_bootstrap_end: u8;
}

/// The instructions. The first is a `syscall`, for the stopped thread, whose way back must follow.
pub(super) fn code() -> &'static [u8] {
    // SAFETY: (1) labels of the section above, in this order.
    unsafe {
        let (begin, end) = (&raw const fastinst_bootstrap_begin, &raw const fastinst_bootstrap_end);
        std::slice::from_raw_parts(begin, end.addr() - begin.addr())
    }
}
