//! The stubs of scopes: what comes before the stubs that count and time.
//!
//! As those they look first and change afterwards, and leave whatever is unusual to
//! [`event`](crate::runtime::event), which has all the rules. What they go on to has slow paths of
//! its own, on which the scope was looked after.
//!
//! # Safety
//!
//! This module exists for the reason that [`stub`](crate::runtime::stub) has.
#![allow(unsafe_code)]

use super::{ANY, LEAST, MOST};
use crate::runtime::keeping;
use crate::runtime::layout::{FOLLOWED, Followed, Header, RECORDS, Record};
use crate::runtime::stub::{self, own_block};
use std::arch::naked_asm;
use std::mem::offset_of;

const RECORD_ADDRESS: usize = RECORDS + offset_of!(Record, address);

/// Pushes, and goes on if it is not too deep.
macro_rules! follow {
    ($name:ident, $drop:expr, $slow:path, $next:path) => {
        #[unsafe(naked)]
        pub(crate) extern "C" fn $name() {
            naked_asm!(
                "endbr64",
                own_block!("{slow}", "{slow}"),
                "cmp rdi, qword ptr [r9 + r11 + {address}]",
                "jne {slow}",
                "mov rdx, qword ptr [r9 + {top}]",
                "lea rax, [rsp + {drop}]",
                "cmp qword ptr [rdx - {entry} + {sp}], rax",
                "jb {slow}",
                "cmp rdx, qword ptr [r9 + {limit}]",
                "jae {slow}",
                // An entry: taken, then filled.
                "mov qword ptr [rdx + {sp}], rax",
                "add qword ptr [r9 + {top}], {entry}",
                "mov qword ptr [rdx + {sp}], rax",
                "mov dword ptr [rdx + {record}], r11d",
                "sub rdx, qword ptr [r9 + {base}]",
                "sub rdx, {entry}",
                "cmp rdx, qword ptr [rip + {most}]",
                "jb {next}",
                "ret",
                capacity = const offset_of!(Header, capacity),
                address = const RECORD_ADDRESS,
                top = const offset_of!(Header, scope_top),
                limit = const offset_of!(Header, scope_limit),
                base = const offset_of!(Header, scope_base),
                entry = const FOLLOWED,
                sp = const offset_of!(Followed, sp),
                record = const offset_of!(Followed, record),
                most = sym MOST,
                drop = const $drop,
                slow = sym $slow,
                next = sym $next,
            )
        }
    };
}

/// Goes on if enough calls are open, and not too many.
macro_rules! within {
    ($name:ident, $drop:expr, $slow:path, $most:path, $next:path) => {
        #[unsafe(naked)]
        pub(crate) extern "C" fn $name() {
            naked_asm!(
                "endbr64",
                own_block!("{slow}", "{slow}"),
                "mov rdx, qword ptr [r9 + {top}]",
                "lea rax, [rsp + {drop}]",
                "cmp qword ptr [rdx - {entry} + {sp}], rax",
                "jb {slow}",
                "sub rdx, qword ptr [r9 + {base}]",
                "sub rdx, {entry}",
                "cmp rdx, qword ptr [rip + {least}]",
                "jb 3f",
                "cmp rdx, qword ptr [rip + {most}]",
                "jb {next}",
                "3: ret",
                capacity = const offset_of!(Header, capacity),
                top = const offset_of!(Header, scope_top),
                base = const offset_of!(Header, scope_base),
                entry = const FOLLOWED,
                sp = const offset_of!(Followed, sp),
                least = sym LEAST,
                most = sym $most,
                drop = const $drop,
                slow = sym $slow,
                next = sym $next,
            )
        }
    };
}

/// Pops, and goes on.
macro_rules! unfollow {
    ($name:ident, $slow:path, $next:path) => {
        #[unsafe(naked)]
        pub(crate) extern "C" fn $name() {
            naked_asm!(
                "endbr64",
                own_block!("3f", "{slow}"),
                "cmp rdi, qword ptr [r9 + r11 + {address}]",
                "jne {slow}",
                "mov rdx, qword ptr [r9 + {top}]",
                "cmp dword ptr [rdx - {entry} + {record}], r11d",
                "jne 2f",
                "sub qword ptr [r9 + {top}], {entry}",
                "jmp {next}",
                "2:",
                // None is open, or one above was left without an exit.
                "sub rdx, qword ptr [r9 + {base}]",
                "cmp rdx, {entry}",
                "jne {slow}",
                "jmp {next}",
                "3: ret",
                capacity = const offset_of!(Header, capacity),
                address = const RECORD_ADDRESS,
                top = const offset_of!(Header, scope_top),
                base = const offset_of!(Header, scope_base),
                entry = const FOLLOWED,
                record = const offset_of!(Followed, record),
                slow = sym $slow,
                next = sym $next,
            )
        }
    };
}

/// Nothing more.
#[unsafe(naked)]
extern "C" fn nothing() {
    naked_asm!("ret")
}

follow!(follow, 0, stub::slow_enter, nothing);
follow!(follow_and_count, 0, stub::slow_enter, stub::inside_count);
follow!(follow_and_time, 0, stub::slow_enter, stub::inside_time_enter);
within!(follow_within, 0, stub::slow_enter, ANY, follow);
within!(follow_within_and_count, 0, stub::slow_enter, ANY, follow_and_count);
within!(follow_within_and_time, 0, stub::slow_enter, ANY, follow_and_time);
within!(within_count, 0, stub::slow_enter, MOST, stub::inside_count);
within!(within_time, 0, stub::slow_enter, MOST, stub::inside_time_enter);
unfollow!(unfollow, stub::slow_exit, nothing);
unfollow!(unfollow_and_time, stub::slow_exit, stub::inside_time_exit);

// Behind puns, as there.
const DROP: usize = keeping::DROP;
follow!(bare_follow, DROP, keeping::slow_enter, nothing);
follow!(bare_follow_and_count, DROP, keeping::slow_enter, stub::bare_inside_count);
follow!(bare_follow_and_time, DROP, keeping::slow_enter, stub::bare_inside_time_enter);
within!(bare_follow_within, DROP, keeping::slow_enter, ANY, bare_follow);
within!(bare_follow_within_and_count, DROP, keeping::slow_enter, ANY, bare_follow_and_count);
within!(bare_follow_within_and_time, DROP, keeping::slow_enter, ANY, bare_follow_and_time);
within!(bare_within_count, DROP, keeping::slow_enter, MOST, stub::bare_inside_count);
within!(bare_within_time, DROP, keeping::slow_enter, MOST, stub::bare_inside_time_enter);
unfollow!(bare_unfollow, keeping::slow_exit, nothing);
unfollow!(bare_unfollow_and_time, keeping::slow_exit, stub::bare_inside_time_exit);
