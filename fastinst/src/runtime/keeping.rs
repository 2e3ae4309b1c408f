//! Stubs for puns, which preserve every register.
//!
//! A compiled-in hook is a call, and everything that a call may change is free. At a pun nothing is
//! free: arguments and results are in registers, and callers in the same file may count on others
//! that their callee is known not to change (`-fipa-ra`). So the stubs of [`stub`] are called with
//! the general registers and flags saved; where they continue in Rust, the vector registers are
//! saved too, by the processor (`xsave`).
//!
//! ```text
//!   trampoline: keeps rsi, r10, r11 ──call──▶ keeping::time_enter: keeps the others, and flags
//!                                                └─call──▶ stub::bare_time_enter ──rarely──▶ keeping::slow_enter: vectors
//! ```
//!
//! # Safety
//!
//! This module exists because no compiler makes functions that are this careful with everything.
#![allow(unsafe_code)]

use super::layout::Function;
use super::scope::stubs as scope;
use super::{arguments, event, stub};
use callpatch::x86;
use std::arch::{asm, naked_asm};
use std::mem::offset_of;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// The states that are saved, as `xsave` takes them; zero where the processor does not have that
/// instruction, and `fxsave` is used.
static STATES: AtomicU32 = AtomicU32::new(0);
/// How much room that takes.
static ROOM: AtomicU32 = AtomicU32::new(FXSAVE);

/// The room of `fxsave`; the header of `xsave` follows it.
const FXSAVE: u32 = 512;
const HEADER: u32 = 64;
/// XMM registers, the upper halves of YMM, and the three states of AVX-512 (Intel SDM, volume 1,
/// 13.1). The profiler's code uses no others.
const VECTORS: u32 = 1 << 1 | 1 << 2 | 7 << 5;

/// By how much the stack pointer in a stub lies below that of the site: seven registers and two
/// return addresses, one of which the trampoline has counted.
pub(super) const DROP: usize = x86::keeping::DROP + 7 * 8 + 8;

/// Queries the processor. Once, before any pun is switched on.
pub(super) fn prepare() {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const OSXSAVE: u32 = 1 << 27;
    if __cpuid(1).ecx & OSXSAVE == 0 {
        return;
    }
    let enabled: u32;
    // SAFETY: (1) the processor has the instruction, and the kernel uses it.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") enabled, out("edx") _, options(nomem, nostack));
    }
    let states = enabled & VECTORS;
    let end = |state: u32| {
        let leaf = __cpuid_count(13, state);
        if states & (1 << state) == 0 || state < 2 { 0 } else { leaf.eax + leaf.ebx }
    };
    let room = (0..8).map(end).max().unwrap_or(0).max(FXSAVE + HEADER);
    ROOM.store(room, Relaxed);
    STATES.store(states, Relaxed);
}

/// A stub that keeps all registers but those that its trampoline keeps.
macro_rules! keeping {
    ($(#[$doc:meta])* $name:ident, $stub:path) => {
        $(#[$doc])*
        #[unsafe(naked)]
        pub(crate) extern "C" fn $name() {
            naked_asm!(
                "endbr64",
                "push rax",
                "lahf",
                "seto al",
                "push rax",
                "push rcx",
                "push rdx",
                "push rdi",
                "push r8",
                "push r9",
                "mov rcx, qword ptr [rip + {functions}]",
                "mov rdi, qword ptr [rcx + r11*2 + {address}]",
                "call {stub}",
                "pop r9",
                "pop r8",
                "pop rdi",
                "pop rdx",
                "pop rcx",
                "pop rax",
                "add al, 127",
                "sahf",
                "pop rax",
                "ret",
                functions = sym stub::FUNCTIONS,
                address = const offset_of!(Function, address),
                stub = sym $stub,
            )
        }
    };
}

keeping!(
    /// Counts an entry.
    count,
    stub::bare_count
);
keeping!(
    /// Counts an entry and, when its turn has come, begins to time the call.
    time_enter,
    stub::bare_time_enter
);
keeping!(
    /// Ends a timed call, if one is open.
    time_exit,
    stub::bare_time_exit
);
keeping!(
    /// Counts a pass of a point, and begins to time one of a pair.
    begin_point,
    stub::bare_begin_point
);
keeping!(
    /// Ends a timed pass of a pair.
    end_point,
    stub::bare_end_point
);
keeping!(
    /// Counts an entry, and reads its arguments.
    enter_capture,
    slow_enter_capture
);
keeping!(
    /// Ends a call whose arguments were read.
    exit_capture,
    stub::bare_exit_capture
);
keeping!(
    /// To the rules of an entry, in any case.
    slow,
    slow_enter
);
// See [`scope`](super::scope).
keeping!(follow, scope::bare_follow);
keeping!(follow_and_count, scope::bare_follow_and_count);
keeping!(follow_and_time, scope::bare_follow_and_time);
keeping!(follow_within, scope::bare_follow_within);
keeping!(follow_within_and_count, scope::bare_follow_within_and_count);
keeping!(follow_within_and_time, scope::bare_follow_within_and_time);
keeping!(within_count, scope::bare_within_count);
keeping!(within_time, scope::bare_within_time);
keeping!(unfollow, scope::bare_unfollow);
keeping!(unfollow_and_time, scope::bare_unfollow_and_time);
keeping!(
    /// Calls what the user has attached.
    user,
    user_with_vectors
);

/// To an event's rules: with the function, the place it was called from, the stack pointer and the
/// site. The vector registers are kept there, on a stack with room: the one for signals may have
/// hardly any.
macro_rules! slow {
    ($name:ident, $event:ident) => {
        #[unsafe(naked)]
        pub(super) extern "C" fn $name() {
            naked_asm!(
                "lea rdx, [rsp + {drop}]",
                "mov ecx, r10d",
                "lea rax, [rip + {event}]",
                "jmp {slowly}",
                drop = const DROP,
                event = sym $event,
                slowly = sym stub::slowly,
            )
        }
    };
}

slow!(slow_enter, enter_with_vectors);
slow!(slow_exit, exit_with_vectors);
slow!(inside_slow_enter, enter_inside_with_vectors);
slow!(inside_slow_exit, exit_inside_with_vectors);

/// The same for points and for arguments, with the offset of the record instead of the function,
/// and where the registers lie that were kept.
macro_rules! slow_point {
    ($name:ident, $event:ident) => {
        #[unsafe(naked)]
        pub(super) extern "C" fn $name() {
            naked_asm!(
                "mov edi, r11d",
                "mov rsi, rsp",
                "mov ecx, r10d",
                "lea rdx, [rsp + {drop}]",
                "lea rax, [rip + {event}]",
                "jmp {slowly}",
                drop = const DROP,
                event = sym $event,
                slowly = sym stub::slowly,
            )
        }
    };
}

slow_point!(slow_begin_point, begin_with_vectors);
slow_point!(slow_end_point, end_with_vectors);
slow_point!(slow_enter_capture, enter_capture_with_vectors);
slow_point!(slow_exit_capture, exit_capture_with_vectors);

/// To [`event::enough`]: the offset of the function's record.
#[unsafe(naked)]
pub(super) extern "C" fn enough() {
    naked_asm!(
        "mov edi, r11d",
        "lea rax, [rip + {event}]",
        "jmp {slowly}",
        event = sym enough_with_vectors,
        slowly = sym stub::slowly,
    )
}

/// Calls a function with its five arguments and r10 as they are, and keeps the vector registers.
macro_rules! with_vectors {
    ($name:ident, $function:path) => {
        #[unsafe(naked)]
        extern "C" fn $name() {
            naked_asm!(
                "push rbp",
                "mov rbp, rsp",
                "mov r9, rdx",
                "mov eax, dword ptr [rip + {room}]",
                "sub rsp, rax",
                "and rsp, -64",
                "mov eax, dword ptr [rip + {states}]",
                "test eax, eax",
                "jz 3f",
                // The header shows what was saved; what is not written there must be zero.
                "xor edx, edx",
                "mov qword ptr [rsp + {header}], rdx",
                "mov qword ptr [rsp + {header} + 8], rdx",
                "mov qword ptr [rsp + {header} + 16], rdx",
                "mov qword ptr [rsp + {header} + 24], rdx",
                "mov qword ptr [rsp + {header} + 32], rdx",
                "mov qword ptr [rsp + {header} + 40], rdx",
                "mov qword ptr [rsp + {header} + 48], rdx",
                "mov qword ptr [rsp + {header} + 56], rdx",
                "xsave64 [rsp]",
                "mov rdx, r9",
                "call {function}",
                "mov eax, dword ptr [rip + {states}]",
                "xor edx, edx",
                "xrstor64 [rsp]",
                "mov rsp, rbp",
                "pop rbp",
                "ret",
                "3:",
                "fxsave64 [rsp]",
                "call {function}",
                "fxrstor64 [rsp]",
                "mov rsp, rbp",
                "pop rbp",
                "ret",
                room = sym ROOM,
                states = sym STATES,
                header = const FXSAVE,
                function = sym $function,
            )
        }
    };
}

with_vectors!(enter_with_vectors, event::enter);
with_vectors!(exit_with_vectors, event::exit);
with_vectors!(begin_with_vectors, event::points::begin_pair);
with_vectors!(end_with_vectors, event::points::end_pair);
with_vectors!(enter_capture_with_vectors, arguments::enter);
with_vectors!(exit_capture_with_vectors, arguments::exit);
with_vectors!(enter_inside_with_vectors, event::enter_inside);
with_vectors!(exit_inside_with_vectors, event::exit_inside);
with_vectors!(enough_with_vectors, event::enough);
with_vectors!(user_with_vectors, stub::user);
