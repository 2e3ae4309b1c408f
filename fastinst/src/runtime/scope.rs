//! Scopes: calls are recorded by their position on their thread: inside of a call of a function
//! that the user names (`--under`), or only to a certain depth (`--depth`).
//!
//! A thread keeps a stack of the open calls that matter: of the functions that are named, or, where
//! depth matters, of all. It is separate from the frames of calls that are being timed, which begin
//! and end with terms. An entry is the stack pointer of an enter hook and the function's record:
//!
//! ```text
//!   base ─▶ wall │ serve 0x7fe0 │ parse 0x7fa0 │ ◀─ top       depth: 2
//! ```
//!
//! | function | its enter sites | its exit sites |
//! |---|---|---|
//! | named, or any one where depth matters | push; continue if it is not too deep | pop; continue |
//! | another one | continue if such a call is open, and it is not too deep | as without a scope |
//!
//! They continue to the stub that they would lead to without a scope: [`stubs`] has both in
//! assembly, this module has all the rules. Programs without a scope execute none of this.
//!
//! - **Exits pair with the latest open call of their function**; entries above it were left without
//!   an exit, by an exception or `longjmp`.
//! - **Entries below an entering stack pointer are dead**, as frames are. `longjmp` is interposed
//!   where a scope is used: it shows how far the stack is left, so that a call that follows at the
//!   same place is not taken for one inside.
//! - **Functions whose ends have no probes are not followed**: they may be inside of a scope, and
//!   open none.
//!
//! # Safety
//!
//! This module hands out references into mappings that are never unmapped, and interposes functions
//! of the C library.
#![allow(unsafe_code)]
#![allow(unreachable_pub, reason = "the loader reaches them, by name")]

pub(super) mod stubs;

use super::functions::{self, Id};
use super::layout::{FOLLOWED, FRAME_COUNT, Followed, Header};
use super::stub::Stub;
use super::{event, interposed, sites, spans, target, threads};
use crate::config::{Config, Provider};
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, compiler_fence};
use wordpatch::os::pages::{self, Place, Protection};

static IS_USED: AtomicBool = AtomicBool::new(false);
/// How many calls have to be open, and how many may be, as bytes of entries; read by the stubs.
pub(super) static LEAST: AtomicU64 = AtomicU64::new(0);
pub(super) static MOST: AtomicU64 = AtomicU64::new(u64::MAX);
/// No bound.
pub(super) static ANY: AtomicU64 = AtomicU64::new(u64::MAX);
/// Whether all functions are followed.
static FOLLOWS_ALL: AtomicBool = AtomicBool::new(false);
/// Calls that found no room on their thread's stack.
static UNFOLLOWED: AtomicU64 = AtomicU64::new(0);

/// By the number of a function.
static ROLES: [AtomicU8; functions::MOST] = [const { AtomicU8::new(0) }; functions::MOST];
/// The function opens a scope.
const OPENS: u8 = 1;
/// The function's ends are not seen.
const ENDLESS: u8 = 2;

/// Whether scopes are used.
#[inline]
pub(super) fn is_used() -> bool {
    IS_USED.load(Relaxed)
}

/// Begins as the settings say. Blocks that threads have already get stacks.
pub(super) fn apply_settings(config: &Config) -> Result<(), String> {
    let is_used = !config.under.is_empty() || config.depth.is_some();
    if is_used && config.provider == Provider::Points {
        return Err("--under and --depth need functions, and --provider usdt has none".to_owned());
    }
    if is_used && !config.arguments.is_empty() {
        return Err("-A reads arguments of all calls: leave out --under and --depth".to_owned());
    }
    ROLES.iter().take(functions::count() as usize).for_each(|role| role.store(0, Relaxed));
    let bytes = |entries: u32| u64::from(entries) * FOLLOWED as u64;
    LEAST.store(bytes((!config.under.is_empty()).into()), Relaxed);
    MOST.store(config.depth.map_or(u64::MAX, bytes), Relaxed);
    FOLLOWS_ALL.store(config.depth.is_some(), Relaxed);
    UNFOLLOWED.store(0, Relaxed);
    if is_used && !threads::all().all(prepare) {
        return Err("no memory to follow calls (--under, --depth)".to_owned());
    }
    IS_USED.store(is_used, Relaxed);
    Ok(())
}

/// Gives a block its stack. Returns whether it has memory for it.
pub(super) fn prepare(block: &Header) -> bool {
    if block.scope_base.load(Relaxed).is_null() {
        // SAFETY: (1) a new mapping; its pages are made when they are used.
        let mapped = unsafe {
            pages::map_private(Place::Anywhere, FRAME_COUNT * FOLLOWED, Protection::ReadWrite)
        };
        let Ok(at) = mapped else { return false };
        let base: *mut Followed = std::ptr::with_exposed_provenance_mut(at.get());
        // SAFETY: (1) mapped for the life of the process; (2) zeroes are an entry.
        let wall = unsafe { &*base };
        wall.sp.store(u64::MAX, Relaxed);
        wall.record.store(u32::MAX, Relaxed);
        block.scope_base.store(base, Relaxed);
        block.scope_limit.store(base.wrapping_add(FRAME_COUNT - 1), Relaxed);
    }
    clear(block);
    true
}

/// Removes all open calls.
fn clear(block: &Header) {
    let base = block.scope_base.load(Relaxed);
    block.scope_top.store(base.wrapping_add(1), Relaxed);
}

/// In a forked child: copies the open calls of the thread that has forked to its new block.
pub(super) fn inherit(block: &Header, parents: &Header) {
    let (from, to) = (parents.scope_base.load(Relaxed), block.scope_base.load(Relaxed));
    if from.is_null() || to.is_null() {
        return;
    }
    let count = open(parents) as usize;
    for at in 1..=count {
        let (was, is) = (entry(from.wrapping_add(at)), entry(to.wrapping_add(at)));
        is.sp.store(was.sp.load(Relaxed), Relaxed);
        is.record.store(was.record.load(Relaxed), Relaxed);
    }
    block.scope_top.store(to.wrapping_add(count + 1), Relaxed);
}

/// Recording begins: calls that were open when it ended may have ended since.
pub(super) fn clear_all() {
    if is_used() {
        threads::all().for_each(clear);
    }
}

/// Sets a function's role: whether it opens a scope, and whether its ends are seen. By the agent,
/// which has its sites switched then.
pub(super) fn set_role(id: Id, opens: bool, is_untimed: bool) {
    let list = id.function().site_list();
    let enters = list.map_or(&[][..], |list| list.enters());
    let is_pun = enters.iter().filter_map(|&number| sites::get(number)).any(sites::Site::is_pun);
    let is_whole = is_pun && list.is_some_and(|list| list.exits().is_empty());
    let is_registered = list.is_some_and(|list| list.registration().is_some());
    let is_endless = is_untimed || is_whole || is_registered;
    let role = if opens { OPENS } else { 0 } | if is_endless { ENDLESS } else { 0 };
    ROLES[id.0 as usize].store(role, Relaxed);
}

/// How a function's calls are followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Following {
    /// Always: they open a scope.
    Always,
    /// Where a scope is open: they make it deeper.
    Within,
    /// Never.
    Never,
}

fn following(id: Id) -> Following {
    let role = ROLES[id.0 as usize].load(Relaxed);
    let needs_scope = LEAST.load(Relaxed) > 0;
    match (role & ENDLESS != 0, role & OPENS != 0, FOLLOWS_ALL.load(Relaxed)) {
        (true, ..) | (false, false, false) => Following::Never,
        (false, true, _) => Following::Always,
        (false, false, true) if needs_scope => Following::Within,
        (false, false, true) => Following::Always,
    }
}

/// Whether a function's calls are followed even if the user has excluded it.
pub(super) fn opens_in_any_case(id: Id) -> bool {
    is_used() && ROLES[id.0 as usize].load(Relaxed) == OPENS
}

/// The stubs that follow calls, in place of those that a function's sites lead to without a scope.
pub(super) fn gated(
    id: Id,
    (enter, exit): (Option<Stub>, Option<Stub>),
) -> (Option<Stub>, Option<Stub>) {
    use Stub::{
        Count, Follow, FollowAndCount, FollowAndTime, FollowWithin, FollowWithinAndCount,
        FollowWithinAndTime, TimeEnter, TimeExit, Unfollow, UnfollowAndTime, WithinCount,
        WithinTime,
    };
    let enter = match (following(id), enter) {
        (Following::Always, None) => Some(Follow),
        (Following::Always, Some(Count)) => Some(FollowAndCount),
        (Following::Always, Some(TimeEnter)) => Some(FollowAndTime),
        (Following::Within, None) => Some(FollowWithin),
        (Following::Within, Some(Count)) => Some(FollowWithinAndCount),
        (Following::Within, Some(TimeEnter)) => Some(FollowWithinAndTime),
        (Following::Never, Some(Count)) => Some(WithinCount),
        (Following::Never, Some(TimeEnter)) => Some(WithinTime),
        (_, other) => other,
    };
    let exit = match (following(id), exit) {
        (Following::Never, exit) => exit,
        (_, Some(TimeExit)) => Some(UnfollowAndTime),
        (_, _) => Some(Unfollow),
    };
    (enter, exit)
}

/// Whether exits that the function shares with others have to be on because of it.
pub(super) fn needs_exits(id: Id) -> bool {
    is_used() && spans::is_recording() && following(id) != Following::Never
}

fn entry<'b>(at: *mut Followed) -> &'b Followed {
    // SAFETY: (1) between the wall and the limit of a mapping that stays.
    unsafe { &*at }
}

/// How many calls are open.
fn open(block: &Header) -> u64 {
    let (base, top) = (block.scope_base.load(Relaxed), block.scope_top.load(Relaxed));
    ((top.addr() - base.addr()) / FOLLOWED) as u64 - 1
}

fn top(block: &Header) -> &Followed {
    entry(block.scope_top.load(Relaxed).wrapping_sub(1))
}

fn pop(block: &Header) {
    let top = block.scope_top.load(Relaxed);
    block.scope_top.store(top.wrapping_sub(1), Relaxed);
}

/// A function is entered. Returns whether the call is recorded. By the thread.
pub(super) fn enters(block: &Header, id: Id, stacks: event::Stacks<'_>) -> bool {
    if !is_used() {
        return true;
    }
    if !spans::is_recording() {
        return false;
    }
    while open(block) > 0 && event::is_left(top(block).sp.load(Relaxed), stacks) {
        pop(block);
    }
    let already = open(block) * FOLLOWED as u64;
    let is_within = already >= LEAST.load(Relaxed);
    let follows = match following(id) {
        Following::Always => true,
        Following::Within => is_within,
        Following::Never => false,
    };
    if follows && !push(block, id, stacks.0) {
        UNFOLLOWED.fetch_add(1, Relaxed);
        return false;
    }
    (is_within || follows) && already < MOST.load(Relaxed)
}

fn push(block: &Header, id: Id, sp: u64) -> bool {
    let at = block.scope_top.load(Relaxed);
    if at >= block.scope_limit.load(Relaxed) {
        return false;
    }
    // As in the stub: taken, then filled.
    entry(at).sp.store(sp, Relaxed);
    compiler_fence(std::sync::atomic::Ordering::SeqCst);
    block.scope_top.store(at.wrapping_add(1), Relaxed);
    compiler_fence(std::sync::atomic::Ordering::SeqCst);
    entry(at).sp.store(sp, Relaxed);
    entry(at).record.store(id.record(), Relaxed);
    true
}

/// A function is left: removes its latest open call, and the entries above. By the thread.
pub(super) fn leaves(block: &Header, id: Id) {
    if !is_used() {
        return;
    }
    let top = block.scope_top.load(Relaxed);
    let mut all = (1..=open(block) as usize).map(|below| top.wrapping_sub(below));
    if let Some(mine) = all.find(|&at| entry(at).record.load(Relaxed) == id.record()) {
        block.scope_top.store(mine, Relaxed);
    }
}

/// Whether a call that opens no scope is recorded. By the thread.
pub(super) fn holds(block: &Header) -> bool {
    let open = || open(block) * FOLLOWED as u64;
    !is_used() || (LEAST.load(Relaxed)..MOST.load(Relaxed)).contains(&open())
}

/// The stack is left down to this stack pointer, without an exit: it is that of a function which
/// continues. By the thread.
fn jumps(to: u64) {
    let Some(block) = threads::observed().filter(|_| is_used()) else { return };
    let here = 0u8;
    let here = std::ptr::from_ref(&here).addr() as u64;
    // A handler's stack may lie above the stack that it jumps to.
    let between = |sp: u64, to: u64| match here <= to {
        true => (here..to).contains(&sp),
        false => sp >= here || sp < to,
    };
    let is_left = |entry: &Followed| {
        let sp = entry.sp.load(Relaxed);
        let list = Id::of_record(entry.record.load(Relaxed)).function().site_list();
        let enters = list.map_or(&[][..], |list| list.enters());
        let is_pun =
            enters.iter().filter_map(|&number| sites::get(number)).any(sites::Site::is_pun);
        // A compiled-in hook is called by the function that continues, too: a return address lower.
        between(sp, to.saturating_sub(if is_pun { 0 } else { 8 }))
    };
    while open(block) > 0 && is_left(top(block)) {
        pop(block);
    }
}

/// What a reader of the profile has to know about scopes.
pub(crate) fn notes() -> Vec<String> {
    let mut notes = Vec::new();
    if !is_used() {
        return notes;
    }
    let config = target::config();
    let under = match config.under.as_slice() {
        [] => String::new(),
        patterns => format!(" inside of calls of {}", patterns.join(", ")),
    };
    let between = if under.is_empty() { " " } else { ", " };
    let deep = |depth| format!("{between}at most {depth} deep");
    let depth = config.depth.map_or_else(String::new, deep);
    notes.push(format!("only calls{under}{depth} are recorded"));
    let roles = || ROLES.iter().take(functions::count() as usize).map(|role| role.load(Relaxed));
    let endless = roles().filter(|role| *role == OPENS | ENDLESS).count();
    if endless > 0 {
        notes.push(format!(
            "{endless} of the functions that --under names lack a probe at an exit: calls inside them are not recorded"
        ));
    }
    if !config.under.is_empty() && !roles().any(|role| role == OPENS) {
        notes.push(
            "no function that --under names has probes at its entry and all exits".to_owned(),
        );
    }
    match UNFOLLOWED.load(Relaxed) {
        0 => {}
        lost => notes.push(format!("{lost} calls were too deep to be followed")),
    }
    notes
}

static LONGJMP: AtomicUsize = AtomicUsize::new(0);
static PLAIN_LONGJMP: AtomicUsize = AtomicUsize::new(0);
static SIGLONGJMP: AtomicUsize = AtomicUsize::new(0);
static CHECKED_LONGJMP: AtomicUsize = AtomicUsize::new(0);
/// Where the interposed functions continue.
pub(super) static INTERPOSED: [(&AtomicUsize, &CStr); 4] = [
    (&LONGJMP, c"longjmp"),
    (&PLAIN_LONGJMP, c"_longjmp"),
    (&SIGLONGJMP, c"siglongjmp"),
    (&CHECKED_LONGJMP, c"__longjmp_chk"),
];

/// The stack pointer that a jump leads to: the seventh word of its buffer, mangled (glibc,
/// sysdeps/unix/sysv/linux/x86_64/pointer_guard.h).
///
/// # Safety
/// A buffer that `setjmp` has filled.
unsafe fn stack_pointer_of(buffer: *const c_void) -> u64 {
    const STACK_POINTER: usize = 6;
    let guard: u64;
    // SAFETY: (1) the C library has its guard there.
    unsafe {
        std::arch::asm!("mov {}, qword ptr fs:[0x30]", out(reg) guard,
            options(nostack, readonly, preserves_flags));
    }
    // SAFETY: (1) the caller.
    let mangled = unsafe { buffer.cast::<u64>().add(STACK_POINTER).read() };
    mangled.rotate_right(17) ^ guard
}

type Jump = unsafe extern "C" fn(*const c_void, c_int) -> !;

macro_rules! jump {
    ($name:ident, $next:ident, $text:literal) => {
        #[doc = concat!("Leaves calls without an exit, as `", stringify!($name), "` does.")]
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(buffer: *const c_void, value: c_int) -> ! {
            if is_used() {
                // SAFETY: (1) the caller.
                jumps(unsafe { stack_pointer_of(buffer) });
            }
            let next = interposed::next(&$next, $text);
            // SAFETY: (1) the C library's function has this type.
            let next: Jump = unsafe { std::mem::transmute(next) };
            // SAFETY: (1) the caller.
            unsafe { next(buffer, value) }
        }
    };
}

jump!(longjmp, LONGJMP, c"longjmp");
jump!(_longjmp, PLAIN_LONGJMP, c"_longjmp");
jump!(siglongjmp, SIGLONGJMP, c"siglongjmp");
jump!(__longjmp_chk, CHECKED_LONGJMP, c"__longjmp_chk");

const _: () = assert!(FOLLOWED == 16);
