//! An event: all the rules, for everything that the stubs leave out.
//!
//! Nothing here allocates, takes a lock, or waits: a thread whose ring is full empties it itself.
//! An event may run in a signal handler that has interrupted a stub, or this very module on the
//! same thread: then the entry is counted in the function's common counter, and nothing else is
//! done. A handler's stubs do not check whether they interrupt this module: so whatever they
//! increment is incremented here by one instruction, too. The program's `errno` is preserved. The
//! time of an event is not attributed to the calls around it: the thread's own clock stands still.
//!
//! # Safety
//!
//! This module is called from assembly.
#![allow(unsafe_code)]

pub(super) mod points;

use super::functions::{self, Id};
use super::layout::{FRAME, Frame, Function, Header, OUTERMOST, Record, lap};
use super::signal_stack::SignalStack;
use super::sites::{self, Owners};
use super::stub::{BIAS, MULTIPLIER, NO_SITE, PAIR};
use super::threads::{self, Caller};
use super::{drain, load_handshake, modes, scope, spans, target, thread_sums};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::compiler_fence;
use wordpatch::Ticks;
use wordpatch::os;

/// Frames of other stacks (of a signal handler, of coroutines) are recognised by their distance: no
/// thread's stack is larger.
const ANOTHER_STACK: u64 = 64 << 20;

/// How many entries beyond its quota a function may have open or skipped before it retires although
/// calls are open: they may never return.
const OVERRUN: i32 = -64;

/// An enter hook was called.
pub(super) extern "C" fn enter(
    address: u64,
    _call_site: u64,
    sp: u64,
    site: u32,
    signals: *const libc::stack_t,
) {
    entered(address, sp, site, signals, false);
}

/// The same, for a call that was found to be inside of a scope.
pub(super) extern "C" fn enter_inside(
    address: u64,
    _call_site: u64,
    sp: u64,
    site: u32,
    signals: *const libc::stack_t,
) {
    entered(address, sp, site, signals, true);
}

#[inline(always)]
fn entered(address: u64, sp: u64, site: u32, signals: *const libc::stack_t, is_inside: bool) {
    if !target::is_running() && !target::enter_from_hook() {
        return;
    }
    let now = Ticks::now().0;
    let errno = os::errno();
    if let Some(id) = identify(address, site) {
        let late = || {
            if is_inside || !scope::is_used() {
                count_late(id);
            }
        };
        match threads::caller() {
            Caller::Ours => {}
            Caller::Passing => {
                spans::entered(id);
                late();
            }
            Caller::Observed(block) => {
                spans::entered(id);
                let signals = &SignalStack::as_reported(block, signals);
                guarded(block, (sp, signals), now, late, || match is_point(site) {
                    true => points::begin_on(block, id, now),
                    false if is_inside || scope::enters(block, id, (sp, signals)) => {
                        enter_on(block, id, (sp, signals), sp, now);
                    }
                    false => {}
                });
            }
        }
    }
    os::set_errno(errno);
}

/// An exit hook was called.
pub(super) extern "C" fn exit(
    address: u64,
    call_site: u64,
    sp: u64,
    site: u32,
    signals: *const libc::stack_t,
) {
    left(address, call_site, sp, site, signals, scope::leaves);
}

/// The same, for a call that its scope has lost already.
pub(super) extern "C" fn exit_inside(
    address: u64,
    call_site: u64,
    sp: u64,
    site: u32,
    signals: *const libc::stack_t,
) {
    left(address, call_site, sp, site, signals, |_, _| ());
}

#[inline(always)]
fn left(
    address: u64,
    call_site: u64,
    sp: u64,
    site: u32,
    signals: *const libc::stack_t,
    leaves: impl FnOnce(&Header, Id),
) {
    if !target::is_running() {
        return;
    }
    let now = Ticks::now().0;
    let errno = os::errno();
    if let Some(id) = identify(address, site)
        && let Caller::Observed(block) = threads::caller()
    {
        guarded(
            block,
            (sp, &SignalStack::as_reported(block, signals)),
            now,
            || (),
            || {
                leaves(block, id);
                exit_on(block, id, call_site, now);
            },
        );
    }
    os::set_errno(errno);
}

/// The last open call of a function has ended, and its quota is used up.
pub(super) extern "C" fn enough(record: u32) {
    if !target::is_running() {
        return;
    }
    let now = Ticks::now().0;
    let errno = os::errno();
    if let Caller::Observed(block) = threads::caller()
        && let Some(mine) = block.record(record)
    {
        off_the_clock(block, now, || modes::retire(Id::of_record(record), mine.term.load(Relaxed)));
    }
    os::set_errno(errno);
}

/// Functions that a runtime has made have no signal stack to report.
const NO_SIGNALS: SignalStack = SignalStack(0..0);

/// A function of registered code was entered; its return address lies at `frame`.
pub(crate) fn enter_code(id: Id, frame: u64) {
    if !target::is_running() {
        return;
    }
    match threads::caller() {
        Caller::Ours => {}
        Caller::Passing => {
            spans::entered(id);
            if !scope::is_used() {
                count_late(id);
            }
        }
        Caller::Observed(block) => in_code(block, frame, || {
            spans::entered(id);
            let function = id.function();
            if !scope::holds(block) {
                return;
            }
            if modes::mode_is_sample(function) {
                let (now, errno) = (Ticks::now().0, os::errno());
                let stacks = (here(), &NO_SIGNALS);
                let late = || count_late(id);
                guarded(block, stacks, now, late, || {
                    // No call of made code that is open has the frame of one that begins.
                    heal_code(block, frame + 1);
                    enter_on(block, id, stacks, frame, now);
                });
                os::set_errno(errno);
            } else if modes::mode_counts(function) {
                match record_of(block, id, function) {
                    Some(record) => drop(record.count.fetch_add(1, Relaxed)),
                    None => count_late(id),
                }
            }
        }),
    }
}

/// A function of registered code returns.
pub(crate) fn leave_code(id: Id, frame: u64) {
    if !target::is_running() {
        return;
    }
    let Caller::Observed(block) = threads::caller() else { return };
    let is_open = |record: &Record| record.open.load(Relaxed) != 0;
    if !block.record(id.record()).is_some_and(is_open) {
        return;
    }
    in_code(block, frame, || {
        let (now, errno) = (Ticks::now().0, os::errno());
        let exit = || {
            heal_code(block, frame);
            exit_on(block, id, call_site(frame), now);
        };
        guarded(block, (here(), &NO_SIGNALS), now, || (), exit);
        os::set_errno(errno);
    });
}

/// Approximately the stack pointer.
#[inline(always)]
fn here() -> u64 {
    let here = 0u8;
    std::ptr::from_ref(&here).addr() as u64
}

/// The return address that lies at a frame; zero if the frame is not on this stack, nearby.
fn call_site(frame: u64) -> u64 {
    const NEAR: u64 = 64 << 10;
    let here = here();
    if !frame.is_multiple_of(8) || !(here..here + NEAR).contains(&frame) {
        return 0;
    }
    // SAFETY: (1) a word of the caller's stack, which reaches from here to its frame.
    unsafe { std::ptr::with_exposed_provenance::<u64>(frame as usize).read_volatile() }
}

/// Runs `act`, an event of registered code. An event that a signal's handler has left by `longjmp`
/// is recognised as in [`guarded`].
fn in_code(block: &Header, frame: u64, act: impl FnOnce()) {
    let outer = block.in_code.load(Relaxed);
    block.in_code.store(frame.max(1), Relaxed);
    compiler_fence(std::sync::atomic::Ordering::SeqCst);
    act();
    compiler_fence(std::sync::atomic::Ordering::SeqCst);
    block.in_code.store(if frame < outer { outer } else { 0 }, Relaxed);
}

/// Whether a thread is in such an event.
pub(super) fn is_in_code(block: &Header) -> bool {
    block.in_code.load(Acquire) != 0
}

/// The stack pointer with which a hook was called, and where the thread's signal stack is.
pub(super) type Stacks<'s> = (u64, &'s SignalStack);

/// What a hook of a known probe does: `act` on the thread's block, or `late` if the thread has
/// none, or is in the middle of another hook.
pub(super) fn in_hook(
    (sp, signals): (u64, *const libc::stack_t),
    late: impl Fn(),
    act: impl FnOnce(&Header, Stacks<'_>, u64),
) {
    if !target::is_running() {
        return;
    }
    let (now, errno) = (Ticks::now().0, os::errno());
    match threads::caller() {
        Caller::Ours => {}
        Caller::Passing => late(),
        Caller::Observed(block) => {
            let stacks = (sp, &SignalStack::as_reported(block, signals));
            guarded(block, stacks, now, &late, || act(block, stacks, now));
        }
    }
    os::set_errno(errno);
}

/// Runs `act` unless this thread is in the middle of another event, which a signal has interrupted.
/// An event that was left by `longjmp` out of the signal's handler is recognised by its stack
/// pointer: it lies below ours.
pub(super) fn guarded(
    block: &Header,
    (sp, signals): Stacks<'_>,
    now: u64,
    otherwise: impl FnOnce(),
    act: impl FnOnce(),
) {
    let busy = block.busy.load(Relaxed);
    if busy != 0 && (sp < busy || signals.holds(sp)) {
        return otherwise();
    }
    block.busy.store(sp, Relaxed);
    compiler_fence(std::sync::atomic::Ordering::SeqCst);
    off_the_clock(block, now, act);
    compiler_fence(std::sync::atomic::Ordering::SeqCst);
    block.busy.store(0, Relaxed);
}

/// Events take less than this, in ticks: some tens of microseconds on any machine. If an event
/// takes longer, the thread was waiting for the rest.
pub(super) const LONGEST: u64 = 1 << 16;

/// The thread's own clock stands still from `now` until `act` is over. What handlers have hidden
/// meanwhile lies within that.
fn off_the_clock(block: &Header, now: u64, act: impl FnOnce()) {
    let (hidden, waited) = (block.hidden.load(Relaxed), block.waited.load(Relaxed));
    act();
    let took = Ticks::now().since(Ticks(now)).0;
    block.hidden.store(hidden.wrapping_add(took), Relaxed);
    block.waited.store(waited.wrapping_add(took.saturating_sub(LONGEST)), Relaxed);
}

pub(super) fn count_late(id: Id) {
    if modes::mode_counts(id.function()) {
        id.function().late.fetch_add(1, Relaxed);
    }
}

/// The function that a hook has received. If the site was believed to belong to another one,
/// notifies the agent.
fn identify(address: u64, site: u32) -> Option<Id> {
    if site != NO_SITE
        && let number = site
        && let Some(site) = sites::get(number)
    {
        if let Some(owner) = site.owner()
            && owner.function().address.load(Relaxed) == address
        {
            if !site.verified.load(Relaxed) {
                modes::verify(owner, site);
            }
            return Some(owner);
        }
        let id = known(address)?;
        let is_news = if site.shared.load(Relaxed) {
            let owners = Owners::of_cell(site.cell().target().get());
            owners.is_some_and(|owners| owners.has_room() && !owners.has(address))
        } else {
            true
        };
        if is_news && sites::teach(number, id) {
            target::saw_lesson();
        }
        return Some(id);
    }
    load_handshake::saw_call_without_site(address);
    known(address)
}

/// Whether a site is a point: it has no frame.
fn is_point(site: u32) -> bool {
    site != NO_SITE && sites::get(site).is_some_and(sites::Site::is_point)
}

fn known(address: u64) -> Option<Id> {
    functions::find(address).or_else(|| {
        let id = functions::add(address)?;
        target::saw_new_function();
        Some(id)
    })
}

/// The call's frame is the stack pointer of its hook, or that of its function.
fn enter_on(block: &Header, id: Id, stacks: Stacks<'_>, frame: u64, now: u64) {
    let function = id.function();
    let Some(record) = record_of(block, id, function) else { return count_late(id) };
    let counts = modes::mode_counts(function);
    if counts {
        record.count.fetch_add(1, Relaxed);
    }
    if modes::mode_is_sample(function) {
        begin_term(block, record, function);
        heal(block, stacks);
        let timed = record.skip.load(Relaxed) <= 0;
        if timed && record.left.load(Relaxed) > 0 {
            record.skip.store(draw(block, function), Relaxed);
            record.left.fetch_sub(1, Relaxed);
            push(block, id, record, frame, Some(now));
        } else if timed {
            beyond_quota(block, id, record, function, [frame, now]);
        } else {
            record.skip.fetch_sub(1, Relaxed);
            block.skipped.fetch_add(1, Relaxed);
            if record.open.load(Relaxed) != 0 {
                push(block, id, record, frame, None);
            }
        }
    }
}

/// A call that would be timed, after the quota.
fn beyond_quota(block: &Header, id: Id, record: &Record, function: &Function, [sp, now]: [u64; 2]) {
    let left = record.left.load(Relaxed);
    if function.quota.load(Relaxed) == i32::MAX {
        record.left.store(i32::MAX, Relaxed);
        return push(block, id, record, sp, Some(now));
    }
    record.left.store(left - 1, Relaxed);
    if record.open.load(Relaxed) == 0 || left < OVERRUN {
        modes::retire(id, record.term.load(Relaxed));
    } else {
        push(block, id, record, sp, None);
    }
}

/// The thread's record of a function, which stubs find from now on.
pub(super) fn record_of<'b>(block: &Header, id: Id, function: &Function) -> Option<&'b Record> {
    let record = block.record(id.record())?;
    if record.address.load(Relaxed) == 0 {
        record.term.store(function.term.load(Acquire).wrapping_sub(1), Relaxed);
        record.address.store(function.address.load(Relaxed), Relaxed);
    }
    Some(record)
}

/// The first event of a term on this thread.
fn begin_term(block: &Header, record: &Record, function: &Function) {
    let term = function.term.load(Acquire);
    if record.term.load(Relaxed) != term {
        record.left.store(function.quota.load(Relaxed), Relaxed);
        record.open.store(0, Relaxed);
        record.skip.store(draw(block, function), Relaxed);
        record.term.store(term, Relaxed);
    }
}

/// A number of calls to leave out.
fn draw(block: &Header, function: &Function) -> i32 {
    let random = block.random.load(Relaxed).wrapping_mul(MULTIPLIER).wrapping_add(1);
    block.random.store(random, Relaxed);
    // SAFETY: (1) null, or one of the static tables.
    let table = unsafe { function.skips.load(Relaxed).as_ref() };
    table.map_or(0, |table| i32::from(table[(random >> 56) as usize]))
}

fn depth(block: &Header) -> usize {
    (block.top.load(Relaxed).addr() - std::ptr::from_ref(block.frame(0)).addr()) / FRAME
}

fn set_depth(block: &Header, depth: usize) {
    block.top.store(std::ptr::from_ref::<Frame>(block.frame(depth)).cast_mut(), Relaxed);
}

/// Drops frames of registered code that lie below `frame`: its calls were left without an exit.
/// What such code calls before it reports its own entry has a lower frame, and is open.
fn heal_code(block: &Header, frame: u64) {
    let is_registered = |record: u32| {
        let function = Id::of_record(record).function();
        function.site_list().is_some_and(|list| list.registration().is_some())
    };
    while depth(block) > 1
        && let top = depth(block) - 1
        && block.frame(top).sp.load(Relaxed) < frame
        && is_registered(block.frame(top).record.load(Relaxed))
    {
        drop_frame(block, top);
        set_depth(block, top);
    }
}

/// Drops frames of calls that were left without an exit: they lie below the stack pointer, on the
/// same stack, or on the signal stack when the thread is not on it.
fn heal(block: &Header, stacks: Stacks<'_>) {
    let top = block.frame(depth(block) - 1).sp.load(Relaxed);
    if top >= stacks.0 {
        return;
    }
    while depth(block) > 1 && is_left(block.frame(depth(block) - 1).sp.load(Relaxed), stacks) {
        let dead = depth(block) - 1;
        drop_frame(block, dead);
        set_depth(block, dead);
    }
}

/// Whether a call with this stack pointer was left without an exit, when one with `sp` is entered.
pub(super) fn is_left(frame: u64, (sp, signals): Stacks<'_>) -> bool {
    match (signals.holds(sp), signals.holds(frame)) {
        (true, true) => frame < sp,
        // The frame is of the interrupted code.
        (true, false) => false,
        (false, true) => true,
        (false, false) => frame < sp && sp - frame < ANOTHER_STACK,
    }
}

fn drop_frame(block: &Header, index: usize) {
    let frame = block.frame(index);
    if let Some(record) = block.record(frame.record.load(Relaxed))
        && record.term.load(Relaxed) == frame.term.load(Relaxed)
        && record.open.load(Relaxed) > 0
    {
        record.open.fetch_sub(1, Relaxed);
    }
    if frame.time.load(Relaxed) != 0 {
        block.lost.fetch_add(1, Relaxed);
        // What the dropped call has called counts as called by the frame below.
        block.frame(index - 1).children.fetch_add(frame.children.load(Relaxed), Relaxed);
    }
}

/// A frame, of a call that is timed from `now` on, if at all.
fn push(block: &Header, id: Id, record: &Record, sp: u64, now: Option<u64>) {
    let at = depth(block);
    if std::ptr::from_ref(block.frame(at)).addr() >= block.limit.load(Relaxed).addr()
        && !threads::grow(block)
    {
        block.lost.fetch_add(u32::from(now.is_some()), Relaxed);
        return;
    }
    let frame = block.frame(at);
    frame.sp.store(sp, Relaxed);
    compiler_fence(std::sync::atomic::Ordering::SeqCst);
    set_depth(block, at + 1);
    compiler_fence(std::sync::atomic::Ordering::SeqCst);
    frame.sp.store(sp, Relaxed);
    frame.time.store(0, Relaxed);
    frame.record.store(id.record(), Relaxed);
    frame.term.store(record.term.load(Relaxed), Relaxed);
    frame.children.store(0, Relaxed);
    record.open.fetch_add(1, Relaxed);
    if let Some(now) = now {
        frame.time.store(now.wrapping_sub(block.hidden.load(Relaxed)), Relaxed);
    }
}

fn exit_on(block: &Header, id: Id, call_site: u64, now: u64) {
    let function = id.function();
    let Some(record) = record_of(block, id, function) else { return };
    if record.open.load(Relaxed) == 0 {
        return;
    }
    let term = record.term.load(Relaxed);
    let is_mine = |frame: &Frame| {
        frame.record.load(Relaxed) == id.record() && frame.term.load(Relaxed) == term
    };
    let mine = (1..depth(block)).rev().find(|&at| is_mine(block.frame(at)));
    let Some(at) = mine.filter(|_| function.is_unbroken(term)) else {
        record.open.store(0, Relaxed);
        return;
    };
    for dead in (at + 1..depth(block)).rev() {
        drop_frame(block, dead);
    }
    let frame = block.frame(at);
    let started = frame.time.load(Relaxed);
    if started != 0 {
        let children = frame.children.load(Relaxed);
        let (measured, bias) = (
            now.wrapping_sub(block.hidden.load(Relaxed)).wrapping_sub(started),
            BIAS.load(Relaxed),
        );
        // It took no less than what it called, and the bias. Counters of two cores may differ, too.
        let ticks = (measured as i64).max((children + bias) as i64) as u64;
        let outermost = record.open.load(Relaxed) == 1;
        block.frame(at - 1).children.fetch_add(ticks - bias, Relaxed);
        block.hidden.fetch_add(PAIR.load(Relaxed), Relaxed);
        finish(block, &drain::Done { record: id.record(), outermost, ticks, children, call_site });
    }
    set_depth(block, at);
    if record.open.fetch_sub(1, Relaxed) == 1 && record.left.load(Relaxed) <= 0 {
        modes::retire(id, term);
    }
}

/// A timed call is done: into the ring with it, which is emptied first if it is full.
fn finish(block: &Header, done: &drain::Done) {
    if !drain::has_room(block) {
        // What handlers time meanwhile is as good as any other: they may come in, and empty the
        // ring in their turn.
        let busy = block.busy.swap(0, Relaxed);
        drain::drain_own(block);
        block.busy.store(busy, Relaxed);
    }
    if !drain::has_room(block) {
        // A handler, whose thread is in the middle of filling the oldest entry.
        return thread_sums::folding(block, || thread_sums::fold(block, done));
    }
    let head = block.head.fetch_add(1, Relaxed);
    let entry = block.entry(head);
    entry.ticks.store(done.ticks, Relaxed);
    entry.children.store(done.children, Relaxed);
    entry.call_site.store(done.call_site, Relaxed);
    let outermost = if done.outermost { OUTERMOST } else { 0 };
    entry.ready.store(done.record | outermost | lap(head), Release);
}

#[cfg(test)]
mod tests;
