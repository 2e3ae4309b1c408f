//! The hot path, in assembly.
//!
//! A hook is an external function, so that all registers which a call may change are free: rdi
//! holds the function, rsi the place it was called from (both by the compiler's hand; at the end of
//! an inlined function rsi is that place, by the trampoline's hand), r11 the offset of the
//! function's record and r10 the number of the site (both by the trampoline's). Nothing is saved
//! and the stack is not touched.
//!
//! A stub takes the path on which nothing is unusual, and checks first: whatever it finds unusual
//! is passed to [`event`](super::event), which has all the rules, before anything was changed. The
//! rules in short:
//!
//! - rdi must be the function whose record this is: compilers merge sites of several functions, and
//!   what discovery believes may be wrong;
//! - a term must have begun on this thread: a new one draws its first skip;
//! - the topmost frame must not lie below the stack pointer: such a frame is dead;
//! - while a frame of the function is open, every enter leaves one, so that exits pair last in,
//!   first out.
//!
//! A timed call costs two readings of the time stamp counter; everything else overlaps with them.
//! The first need not wait for anything. The second waits until everything before it is done
//! (`rdtscp`), or it would be taken while a short function still runs.
//!
//! # Safety
//!
//! This module exists because no compiler makes functions that are this careful with nothing.
#![allow(unsafe_code)]
#![allow(unreachable_pub, reason = "the loader reaches them, by name")]

use super::layout::{
    ENTRY, EPOCH, Entry, FRAME, Frame, Function, Header, LAPS, OUTERMOST, RECORDS, RING,
    RING_COUNT, RING_ROOM, Record,
};
use super::scope::{self, stubs as follow};
use super::{drain, keeping, skip};
use std::arch::naked_asm;
use std::mem::offset_of;
use std::sync::atomic::AtomicU64;
use wordpatch::CodeAddr;

mod slow_path;
mod thread_block;

pub(crate) use slow_path::{NO_SITE, slow, user};
use slow_path::{enough, inside_slow_enter, inside_slow_exit};
pub(super) use slow_path::{jump_if_foreign, slow_enter, slow_exit, slowly};
pub(crate) use thread_block::{set_thread, thread, thread_offset};

/// What a site leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stub {
    /// Counts an entry.
    Count,
    /// Begins to time a call, when its turn has come.
    TimeEnter,
    /// Ends a timed call.
    TimeExit,
    /// The same, where several functions end.
    SharedExit,
    /// Counts a pass of a point, at which one of a pair begins, when its turn has come.
    BeginPoint,
    /// Ends a timed pass of a pair, if one is open.
    EndPoint,
    /// Counts an entry, and reads its arguments.
    EnterCapture,
    /// Ends a call whose arguments were read.
    ExitCapture,
    /// Where a [scope](super::scope) follows calls: pushes this one, and does nothing more, or
    /// counts, or begins to time.
    Follow,
    /// See `Follow`.
    FollowAndCount,
    /// See `Follow`.
    FollowAndTime,
    /// The same while a scope is open.
    FollowWithin,
    /// See `FollowWithin`.
    FollowWithinAndCount,
    /// See `FollowWithin`.
    FollowWithinAndTime,
    /// Counts, or begins to time, while a scope is open.
    WithinCount,
    /// See `WithinCount`.
    WithinTime,
    /// Pops, and does nothing more, or ends a timed call.
    Unfollow,
    /// See `Unfollow`.
    UnfollowAndTime,
    /// To the rules of an entry, in any case.
    Slow,
    /// Calls what the user has attached.
    User,
}

impl Stub {
    /// Its address; the variant for puns preserves all registers.
    pub(crate) fn address(self, is_pun: bool) -> CodeAddr {
        let stub: extern "C" fn() = match (self, is_pun) {
            (Self::Count, false) => count,
            (Self::TimeEnter, false) => time_enter,
            (Self::TimeExit, false) => time_exit,
            (Self::Slow, false) => slow,
            (Self::User, false) => user,
            // Puns are never shared.
            (Self::SharedExit, _) if scope::is_used() => shared_unfollow,
            (Self::SharedExit, _) => shared_exit,
            (Self::BeginPoint, _) => keeping::begin_point,
            (Self::EndPoint, _) => keeping::end_point,
            (Self::EnterCapture, _) => keeping::enter_capture,
            (Self::ExitCapture, _) => keeping::exit_capture,
            (Self::Follow, false) => follow::follow,
            (Self::FollowAndCount, false) => follow::follow_and_count,
            (Self::FollowAndTime, false) => follow::follow_and_time,
            (Self::FollowWithin, false) => follow::follow_within,
            (Self::FollowWithinAndCount, false) => follow::follow_within_and_count,
            (Self::FollowWithinAndTime, false) => follow::follow_within_and_time,
            (Self::WithinCount, false) => follow::within_count,
            (Self::WithinTime, false) => follow::within_time,
            (Self::Unfollow, false) => follow::unfollow,
            (Self::UnfollowAndTime, false) => follow::unfollow_and_time,
            (Self::Follow, true) => keeping::follow,
            (Self::FollowAndCount, true) => keeping::follow_and_count,
            (Self::FollowAndTime, true) => keeping::follow_and_time,
            (Self::FollowWithin, true) => keeping::follow_within,
            (Self::FollowWithinAndCount, true) => keeping::follow_within_and_count,
            (Self::FollowWithinAndTime, true) => keeping::follow_within_and_time,
            (Self::WithinCount, true) => keeping::within_count,
            (Self::WithinTime, true) => keeping::within_time,
            (Self::Unfollow, true) => keeping::unfollow,
            (Self::UnfollowAndTime, true) => keeping::unfollow_and_time,
            (Self::Count, true) => keeping::count,
            (Self::TimeEnter, true) => keeping::time_enter,
            (Self::TimeExit, true) => keeping::time_exit,
            (Self::Slow, true) => keeping::slow,
            (Self::User, true) => keeping::user,
        };
        CodeAddr::new(stub as usize)
    }
}

/// Where the table of functions lies; set before any trampoline leads here.
pub(crate) static FUNCTIONS: AtomicU64 = AtomicU64::new(0);
/// What a timed call adds to the time of the one that it is inside of, in ticks: its thread's own
/// clock stands still for so long. Zero until it is measured.
pub(crate) static PAIR: AtomicU64 = AtomicU64::new(0);
/// The time that is measured for a call that does nothing, in ticks. Zero until it is measured.
pub(crate) static BIAS: AtomicU64 = AtomicU64::new(0);
/// The factor of the random generator (Knuth's MMIX).
pub(crate) const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const RECORD_ADDRESS: usize = RECORDS + offset_of!(Record, address);
const RECORD_COUNT: usize = RECORDS + offset_of!(Record, count);
const RECORD_SKIP: usize = RECORDS + offset_of!(Record, skip);
const RECORD_LEFT: usize = RECORDS + offset_of!(Record, left);
const RECORD_TERM: usize = RECORDS + offset_of!(Record, term);
const RECORD_OPEN: usize = RECORDS + offset_of!(Record, open);

/// The thread's block in r9, and whether it has the record whose offset is in r11: what every stub
/// begins with. The operand `capacity` is the block's field. rax is lost.
macro_rules! own_block {
    ($without_block:literal, $without_record:literal) => {
        concat!(
            "mov rax, qword ptr [rip + fastinst_thread@GOTTPOFF]\n",
            "mov r9, qword ptr fs:[rax]\n",
            "test r9, r9\n",
            "jz ",
            $without_block,
            "\n",
            "cmp r11, qword ptr [r9 + {capacity}]\n",
            "jae ",
            $without_record
        )
    };
}

pub(super) use own_block;

/// The stubs, by where they continue in the slow path, and by how far the stack pointer lies below
/// that of the site, or of the hook where a compiler has put one: it shows which frames are dead.
macro_rules! stubs {
    (
        $count:ident, $time_enter:ident, $time_exit:ident, $drop:expr;
        $slow_enter:path, $slow_exit:path, $enough:path
    ) => {
        /// Counts an entry. The thread, its record, an addition.
        #[unsafe(naked)]
        pub(crate) extern "C" fn $count() {
            naked_asm!(
                "endbr64",
                own_block!("{slow}", "{slow}"),
                "add r9, r11",
                "cmp rdi, qword ptr [r9 + {address}]",
                "jne {slow}",
                "inc qword ptr [r9 + {count}]",
                "ret",
                capacity = const offset_of!(Header, capacity),
                address = const RECORD_ADDRESS,
                count = const RECORD_COUNT,
                slow = sym $slow_enter,
            )
        }

        /// Counts an entry and, when its turn has come, begins to time the call.
        #[unsafe(naked)]
        pub(crate) extern "C" fn $time_enter() {
            naked_asm!(
                "endbr64",
                own_block!("{slow}", "{slow}"),
                "lea r8, [r9 + r11]",
                "cmp rdi, qword ptr [r8 + {address}]",
                "jne {slow}",
                "mov rcx, qword ptr [rip + {functions}]",
                "lea rcx, [rcx + r11*2]",
                "mov edi, dword ptr [rcx + {f_term}]",
                "cmp edi, dword ptr [r8 + {term}]",
                "jne 7f",
                "mov rdx, qword ptr [r9 + {top}]",
                "cmp rdx, qword ptr [r9 + {limit}]",
                "jae 7f",
                "lea rax, [rsp + {drop}]",
                "cmp qword ptr [rdx - {frame} + {sp}], rax",
                "jb 7f",
                // Its turn?
                "cmp dword ptr [r8 + {skip}], 0",
                "jg 4f",
                "cmp dword ptr [r8 + {left}], 0",
                "jle 7f",
                "mov rax, {multiplier}",
                "imul rax, qword ptr [r9 + {random}]",
                "inc rax",
                "mov qword ptr [r9 + {random}], rax",
                "shr rax, 56",
                "mov rcx, qword ptr [rcx + {skips}]",
                "movzx eax, word ptr [rcx + rax*2]",
                "mov dword ptr [r8 + {skip}], eax",
                "dec dword ptr [r8 + {left}]",
                "inc qword ptr [r8 + {count}]",
                // A frame: taken, then filled; the time last.
                "lea rax, [rsp + {drop}]",
                "mov qword ptr [rdx + {sp}], rax",
                "add qword ptr [r9 + {top}], {frame}",
                "mov qword ptr [rdx + {sp}], rax",
                "mov qword ptr [rdx + {time}], 0",
                "mov dword ptr [rdx + {f_record}], r11d",
                "mov dword ptr [rdx + {frame_term}], edi",
                "mov qword ptr [rdx + {children}], 0",
                "inc dword ptr [r8 + {open}]",
                "movzx edi, word ptr [rcx + {null_at}]",
                "mov rcx, rdx",
                "rdtsc",
                "shl rdx, 32",
                "or rax, rdx",
                "sub rax, qword ptr [r9 + {hidden}]",
                "mov qword ptr [rcx + {time}], rax",
                "cmp edi, dword ptr [r8 + {left}]",
                "je 6f",
                "ret",
                // A null: nothing is called, and timed.
                "6:",
                "mov rdi, qword ptr [r8 + {address}]",
                "mov esi, {null_site}",
                "jmp {time_exit}",
                // Left out.
                "4:",
                "dec dword ptr [r8 + {skip}]",
                "inc qword ptr [r8 + {count}]",
                "inc qword ptr [r9 + {skipped}]",
                "cmp dword ptr [r8 + {open}], 0",
                "jne 5f",
                "ret",
                // Left out, while a call of the same function is open: a frame without a time.
                "5:",
                "lea rax, [rsp + {drop}]",
                "mov qword ptr [rdx + {sp}], rax",
                "add qword ptr [r9 + {top}], {frame}",
                "mov qword ptr [rdx + {sp}], rax",
                "mov qword ptr [rdx + {time}], 0",
                "mov dword ptr [rdx + {f_record}], r11d",
                "mov dword ptr [rdx + {frame_term}], edi",
                "inc dword ptr [r8 + {open}]",
                "ret",
                // rdi held the function.
                "7:",
                "mov rdi, qword ptr [r8 + {address}]",
                "jmp {slow}",
                functions = sym FUNCTIONS,
                capacity = const offset_of!(Header, capacity),
                top = const offset_of!(Header, top),
                limit = const offset_of!(Header, limit),
                random = const offset_of!(Header, random),
                hidden = const offset_of!(Header, hidden),
                skipped = const offset_of!(Header, skipped),
                address = const RECORD_ADDRESS,
                count = const RECORD_COUNT,
                skip = const RECORD_SKIP,
                left = const RECORD_LEFT,
                term = const RECORD_TERM,
                open = const RECORD_OPEN,
                f_term = const offset_of!(Function, term),
                skips = const offset_of!(Function, skips),
                frame = const FRAME,
                sp = const offset_of!(Frame, sp),
                time = const offset_of!(Frame, time),
                f_record = const offset_of!(Frame, record),
                frame_term = const offset_of!(Frame, term),
                children = const offset_of!(Frame, children),
                multiplier = const MULTIPLIER,
                null_at = const 2 * skip::DRAWS,
                null_site = const drain::NULL_SITE,
                time_exit = sym $time_exit,
                drop = const $drop,
                slow = sym $slow_enter,
            )
        }

        /// Ends a timed call, if one is open.
        #[unsafe(naked)]
        pub(crate) extern "C" fn $time_exit() {
            naked_asm!(
                "endbr64",
                own_block!("3f", "{slow}"),
                "lea r8, [r9 + r11]",
                "cmp rdi, qword ptr [r8 + {address}]",
                "jne {slow}",
                "cmp dword ptr [r8 + {open}], 0",
                "je 3f",
                // rdi is the record's address from here on, and free.
                "mov rdi, qword ptr [r9 + {top}]",
                "cmp dword ptr [rdi - {frame} + {f_record}], r11d",
                "jne 7f",
                "mov eax, dword ptr [rdi - {frame} + {frame_term}]",
                "cmp eax, dword ptr [r8 + {term}]",
                "jne 7f",
                // Were exits on ever since?
                "mov rcx, qword ptr [rip + {functions}]",
                "xor eax, dword ptr [rcx + r11*2 + {f_term}]",
                "cmp eax, {epoch}",
                "jae 7f",
                "cmp qword ptr [rdi - {frame} + {time}], 0",
                "je 4f",
                // Waits for all that comes before it: a plain reading is taken while the function's body
                // still runs.
                "rdtscp",
                "shl rdx, 32",
                "or rax, rdx",
                "mov rcx, qword ptr [r9 + {head}]",
                "sub rcx, qword ptr [r9 + {tail}]",
                "cmp rcx, {ring_room}",
                "jae 7f",
                "sub rax, qword ptr [r9 + {hidden}]",
                "sub rax, qword ptr [rdi - {frame} + {time}]",
                // A place in the ring. From here on r10 is the entry, and rcx the lap.
                "mov ecx, 1",
                "xadd qword ptr [r9 + {head}], rcx",
                "mov edx, ecx",
                "and edx, {ring_mask}",
                "shl edx, 5",
                "lea r10, [r9 + rdx + {ring}]",
                // The other core may have read those that come next: they are fetched while there is time.
                "prefetchw byte ptr [r10 + {ahead}]",
                "shr rcx, {ring_bits}",
                "and ecx, {laps}",
                // It took no less than what it called, and the bias.
                "mov rdx, qword ptr [rdi - {frame} + {children}]",
                "mov qword ptr [r10 + {e_children}], rdx",
                "add rdx, qword ptr [rip + {bias}]",
                "cmp rax, rdx",
                "cmovl rax, rdx",
                "mov qword ptr [r10 + {ticks}], rax",
                "sub rax, qword ptr [rip + {bias}]",
                "add qword ptr [rdi - 2*{frame} + {children}], rax",
                "mov qword ptr [r10 + {call_site}], rsi",
                "mov rax, qword ptr [rip + {pair}]",
                "add qword ptr [r9 + {hidden}], rax",
                // Outermost if this frame of the function is the only one.
                "cmp dword ptr [r8 + {open}], 2",
                "sbb eax, eax",
                "and eax, {outermost}",
                "or eax, r11d",
                "or eax, ecx",
                "mov dword ptr [r10 + {ready}], eax",
                "sub qword ptr [r9 + {top}], {frame}",
                "dec dword ptr [r8 + {open}]",
                "jz 5f",
                "3: ret",
                "4:",
                "sub qword ptr [r9 + {top}], {frame}",
                "dec dword ptr [r8 + {open}]",
                "jnz 3b",
                // The last open call of the function: has it had enough?
                "5:",
                "cmp dword ptr [r8 + {left}], 0",
                "jg 3b",
                "jmp {enough}",
                "7:",
                "mov rdi, qword ptr [r8 + {address}]",
                "jmp {slow}",
                functions = sym FUNCTIONS,
                f_term = const offset_of!(Function, term),
                epoch = const EPOCH,
                capacity = const offset_of!(Header, capacity),
                top = const offset_of!(Header, top),
                head = const offset_of!(Header, head),
                tail = const offset_of!(Header, drained.tail),
                hidden = const offset_of!(Header, hidden),
                address = const RECORD_ADDRESS,
                left = const RECORD_LEFT,
                term = const RECORD_TERM,
                open = const RECORD_OPEN,
                frame = const FRAME,
                time = const offset_of!(Frame, time),
                f_record = const offset_of!(Frame, record),
                frame_term = const offset_of!(Frame, term),
                children = const offset_of!(Frame, children),
                ring = const RING,
                ring_room = const RING_ROOM,
                ahead = const 16 * ENTRY,
                ring_mask = const RING_COUNT - 1,
                ring_bits = const RING_COUNT.trailing_zeros(),
                laps = const LAPS,
                outermost = const OUTERMOST,
                pair = sym PAIR,
                bias = sym BIAS,
                ready = const offset_of!(Entry, ready),
                ticks = const offset_of!(Entry, ticks),
                e_children = const offset_of!(Entry, children),
                call_site = const offset_of!(Entry, call_site),
                slow = sym $slow_exit,
                enough = sym $enough,
            )
        }
    };
}

stubs!(count, time_enter, time_exit, 0; slow_enter, slow_exit, enough);

// Behind puns: what is slow keeps all registers there.
stubs!(
    bare_count,
    bare_time_enter,
    bare_time_exit,
    keeping::DROP;
    keeping::slow_enter,
    keeping::slow_exit,
    keeping::enough
);

/// Counts a pass of a point that begins a pair. One whose turn has come goes on in Rust: see
/// [`event::points`](super::event::points).
#[unsafe(naked)]
pub(super) extern "C" fn bare_begin_point() {
    naked_asm!(
        "endbr64",
        own_block!("{slow}", "{slow}"),
        "lea r8, [r9 + r11]",
        "cmp rdi, qword ptr [r8 + {address}]",
        "jne {slow}",
        "mov rcx, qword ptr [rip + {functions}]",
        "mov ecx, dword ptr [rcx + r11*2 + {f_term}]",
        "cmp ecx, dword ptr [r8 + {term}]",
        "jne {slow}",
        "cmp dword ptr [r8 + {skip}], 0",
        "jle {slow}",
        "dec dword ptr [r8 + {skip}]",
        "inc qword ptr [r8 + {count}]",
        "inc qword ptr [r9 + {skipped}]",
        "ret",
        functions = sym FUNCTIONS,
        capacity = const offset_of!(Header, capacity),
        skipped = const offset_of!(Header, skipped),
        address = const RECORD_ADDRESS,
        count = const RECORD_COUNT,
        skip = const RECORD_SKIP,
        term = const RECORD_TERM,
        f_term = const offset_of!(Function, term),
        slow = sym keeping::slow_begin_point,
    )
}

/// Ends what is open of a row in Rust, if anything is.
macro_rules! end_if_open {
    ($(#[$doc:meta])* $name:ident, $slow:path) => {
        $(#[$doc])*
        #[unsafe(naked)]
        pub(super) extern "C" fn $name() {
    naked_asm!(
        "endbr64",
        own_block!("2f", "2f"),
        "cmp dword ptr [r9 + r11 + {open}], 0",
        "jne {slow}",
        "2: ret",
        capacity = const offset_of!(Header, capacity),
        open = const RECORD_OPEN,
        slow = sym $slow,
    )
        }
    };
}

end_if_open!(
    /// Ends a timed pass of a pair.
    bare_end_point,
    keeping::slow_end_point
);

end_if_open!(
    /// Ends a call whose arguments were read.
    bare_exit_capture,
    keeping::slow_exit_capture
);

// Where a scope was looked after.
stubs!(
    inside_count,
    inside_time_enter,
    inside_time_exit,
    0;
    inside_slow_enter,
    inside_slow_exit,
    enough
);

stubs!(
    bare_inside_count,
    bare_inside_time_enter,
    bare_inside_time_exit,
    keeping::DROP;
    keeping::inside_slow_enter,
    keeping::inside_slow_exit,
    keeping::enough
);

macro_rules! shared_exit {
    ($(#[$doc:meta])* $name:ident, $time_exit:path) => {
        $(#[$doc])*
        #[unsafe(naked)]
        pub(crate) extern "C" fn $name() {
            naked_asm!(
                "endbr64",
                "mov eax, r11d",
                "sub eax, {cell}",
                "jb {slow}",
                "cmp eax, {bytes}",
                "jae {slow}",
                "lea rcx, [rip + {shared}]",
                "add rcx, rax",
                "cmp rdi, qword ptr [rcx]",
                "je 2f",
                "add rcx, 16",
                "cmp rdi, qword ptr [rcx]",
                "je 2f",
                "add rcx, 16",
                "cmp rdi, qword ptr [rcx]",
                "je 2f",
                "add rcx, 16",
                "cmp rdi, qword ptr [rcx]",
                "jne {slow}",
                "2:",
                "mov r11d, dword ptr [rcx + 8]",
                "jmp {time_exit}",
                cell = const super::sites::SHARED_CELL,
                bytes = const super::sites::SHARED_SITES * super::sites::OWNERS,
                shared = sym super::sites::SHARED,
                slow = sym slow_exit,
                time_exit = sym $time_exit,
            )
        }
    };
}

shared_exit!(
    /// Ends a timed call at a site that several functions share. The site's cell refers to its
    /// owners, in which the function is searched. A thread that has loaded the cell before the site
    /// was shared has the offset of a record, and takes the slow path.
    shared_exit,
    time_exit
);

shared_exit!(
    /// The same where calls are followed.
    shared_unfollow,
    follow::unfollow_and_time
);

const _: () = assert!(ENTRY == 1 << 5 && super::sites::OWNERS == 4 * 16);

macro_rules! compilers_hook {
    ($(#[$doc:meta])* $name:ident, $slowly:path) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// `-finstrument-functions` calls it; no other code has a reason to.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(_function: *const (), _call_site: *const ()) {
            naked_asm!(
                "endbr64",
                "cmp byte ptr [rip + {dormant}], 0",
                "jne 2f",
                "mov r10d, -1",
                "jmp {slowly}",
                "2:",
                "ret",
                dormant = sym super::target::DORMANT,
                slowly = sym $slowly,
            )
        }
    };
}

compilers_hook!(
    /// The hook that compilers call at the beginning of every function.
    __cyg_profile_func_enter,
    slow_enter
);

compilers_hook!(
    /// The hook that compilers call at every end of every function.
    __cyg_profile_func_exit,
    slow_exit
);
