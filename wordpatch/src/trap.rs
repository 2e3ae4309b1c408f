//! The handling of a thread that runs into one of our traps.
//!
//! ```text
//!   INT3 ── is there a flight whose front holds this address? ──────────────── no ──→ was the byte a trap that is gone? run it
//!                │ yes                                                                 else it is foreign: the handler before us
//!                ├── the old word's instruction here can be carried out ──→ done, behind it
//!                └── it cannot ──→ finish the flight, or let whoever is finishing it go on; then run what is there
//! ```
//!
//! So a thread never waits for a patcher that was stopped or killed: either it needs no other
//! thread, or it does the rest itself. The old instruction is the one that is carried out for as
//! long as the front is trapped; what a thread sees of a patch is therefore old, old, …, new, new,
//! and never old again.
//!
//! The kernel delivers `SIGTRAP` for INT3 with the instruction pointer after it. Between the trap
//! and the handler the flight may end. The ledger keeps its place forever, so the handler
//! recognises the trap as ours and runs the instruction that is there now.
//!
//! # Safety
//!
//! This module exists because a signal handler gets its thread's registers by pointer. It keeps to
//! what a handler may do: no allocation, no lock that the interrupted code could hold, `errno` as
//! it was.
#![allow(unsafe_code)]

use crate::addr::CodeAddr;
use crate::barrier;
use crate::effect;
use crate::error::TrapError;
use crate::flight::{self, Flight, Pace};
use crate::ledger::{Phase, Whose};
use crate::live;
use crate::os::{
    self, clocks, cpu,
    signals::{self, LetIn},
    spare_stacks::{self, Onward},
    stacks,
    threads::{self, Tid},
};
use crate::protocol::TRAP;
use crate::sync::{AtomicU64, Ordering};
use crate::ticks::Ticks;
use std::arch::naked_asm;
use std::time::{Duration, Instant};

pub(crate) mod chain;
#[cfg(test)]
mod tests;
mod thread;

use thread::Interrupted;

/// Installs the trap handler in front of the program's own. Done by the first adoption that needs
/// it; to be called again if the program replaced the handler since.
pub fn install_trap_handler() -> Result<(), TrapError> {
    install()
}

pub(crate) fn install() -> Result<(), TrapError> {
    refuse_tracer()?;
    crate::fork::prepare();
    spare_stacks::prepare();
    chain::install(on_trap)
}

fn refuse_tracer() -> Result<(), TrapError> {
    match threads::tracer()? {
        Some(tracer) => Err(TrapError::Traced { tracer }),
        None => Ok(()),
    }
}

/// Refuses if a handler blocks SIGTRAP: it is killed if it runs into a trap.
fn refuse_masks() -> Result<(), TrapError> {
    signals::handler_that_blocks(libc::SIGTRAP)
        .map_or(Ok(()), |signal| Err(TrapError::BlockedInHandler { signal }))
}

/// How long a check of the tracer and of handlers' masks stays valid: about ten milliseconds.
const FRESH: Ticks = Ticks(1 << 25);

/// When the latest successful check was made.
static LOOKED: AtomicU64 = AtomicU64::new(0);

/// Whether traps still work. Every call checks that our handler is installed; the tracer and the
/// masks of handlers are checked again every few milliseconds only, since that costs as much as a
/// barrier. %%
pub(crate) fn check() -> Result<(), TrapError> {
    if !chain::is_installed(on_trap)? {
        return Err(TrapError::HandlerReplaced);
    }
    let now = Ticks::now();
    if now.since(Ticks(LOOKED.load(Ordering::Relaxed))) < FRESH {
        return Ok(());
    }
    refuse_tracer()?;
    refuse_masks()?;
    LOOKED.store(now.0, Ordering::Relaxed);
    Ok(())
}

/// How often and how long apart a thread is looked at before it counts as blocking SIGTRAP: a
/// thread that starts another one blocks everything for a moment.
const LOOKS: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);
/// A thread that waits for a processor in that moment is given so much of one, and no longer than
/// this to get it: on a busy machine, or under a quota, its moment lasts for tens of milliseconds.
const MOMENT: Duration = Duration::from_millis(1);
const STARVED: Duration = Duration::from_secs(5);

/// Refuses if a thread blocks SIGTRAP, or a handler does: the kernel kills a process whose thread
/// traps with the signal blocked.
pub(crate) fn require_unblocked() -> Result<(), TrapError> {
    refuse_masks()?;
    let mut blocking = Vec::new();
    threads::each(|thread| {
        if threads::blocks(thread, libc::SIGTRAP) == Some(true) {
            blocking.push((thread, clocks::of_thread(thread).unwrap_or_default()));
        }
    })?;
    let (end, mut looks) = (Instant::now() + STARVED, 0);
    while !blocking.is_empty() && looks < LOOKS {
        std::thread::sleep(BETWEEN_LOOKS);
        blocking.retain(|&(thread, _)| threads::blocks(thread, libc::SIGTRAP) == Some(true));
        let is_starved = blocking.iter().all(|&(thread, before)| is_starved(thread, before));
        looks += u32::from(!is_starved || Instant::now() > end);
    }
    blocking.first().map_or(Ok(()), |&(thread, _)| Err(TrapError::Blocked { thread }))
}

/// Whether a thread has hardly had a processor since its clock said `before`, and waits for one.
fn is_starved(thread: Tid, before: Duration) -> bool {
    let now = clocks::of_thread(thread).unwrap_or_default();
    threads::runs(thread) && now.saturating_sub(before) < MOMENT
}

/// What to do with a thread that trapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It goes on as its registers say: its instruction was carried out, or is to be run again.
    Resume,
    /// The trap is not ours.
    Foreign,
}

/// What the kernel calls: where there is room, and under a handler that passes a trap on to us,
/// where that one is.
#[unsafe(naked)]
extern "C" fn on_trap(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    naked_asm!(
        "endbr64",
        "lea rax, [rip + {on_spare_stack}]",
        "lea r11, [rip + {passed_on}]",
        "jmp {handle}",
        on_spare_stack = sym on_spare_stack,
        passed_on = sym passed_on,
        handle = sym spare_stacks::handle,
    )
}

extern "C" fn on_spare_stack(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
    onward: &mut Onward,
    stack: usize,
) -> bool {
    let errno = os::errno();
    let next = next_handler(signal, info, context, Some(stack));
    if let Some(before) = next {
        *onward = chain::onward(before, context);
    }
    os::set_errno(errno);
    next.is_some()
}

extern "C" fn passed_on(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let errno = os::errno();
    let came_from = chain::mark(context);
    let next = next_handler(signal, info, context, None);
    os::set_errno(errno);
    if let Some(before) = next {
        chain::call(before, signal, info, context);
        chain::set_mark(context, came_from);
    }
}

/// Serves the trap if it is ours. Returns what is to be called if it is not, and something is.
fn next_handler(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
    stack: Option<usize>,
) -> Option<&'static chain::Before> {
    // A signal that a process sent, a hardware breakpoint or a single step may find the thread
    // behind a trap byte by chance. SAFETY: (1) the kernel passes a valid siginfo_t and ucontext_t
    // to a handler installed with SA_SIGINFO; (2) no other code uses them before the handler
    // returns.
    let verdict = unsafe {
        match (*info).si_code {
            libc::SI_KERNEL | libc::TRAP_BRKPT => {
                judge(&mut Interrupted::new(&mut *context.cast(), stack))
            }
            _ => Verdict::Foreign,
        }
    };
    if verdict == Verdict::Foreign { chain::next(signal, info, context) } else { None }
}

/// Finds out whose the trap is, and serves it if it is ours.
fn judge(thread: &mut Interrupted<'_>) -> Verdict {
    let at = thread.trap();
    let Some(front) = flight::front_at(at) else { return Verdict::Foreign };
    // SAFETY: (1) the thread has just fetched this byte; the mapping is the adopter's to keep.
    let is_trap = || unsafe { live::load_byte(at) } == TRAP;
    loop {
        match front.whose(at, is_trap) {
            Whose::Gone => {
                thread.resume_at(at);
                return Verdict::Resume;
            }
            Whose::Foreign => return Verdict::Foreign,
            Whose::Flight(flight) => {
                if let Some(verdict) = serve(flight, at, thread) {
                    return verdict;
                }
            }
        }
    }
}

/// Lets the thread go on behind the old instruction, or helps the flight along. Nothing if it has
/// to be looked at again.
fn serve(flight: &'static Flight, at: CodeAddr, thread: &mut Interrupted<'_>) -> Option<Verdict> {
    let (number, old) = flight.replaced()?;
    let skip = at.distance_from(flight.word.start) as usize;
    if old.to_le_bytes()[skip] == TRAP {
        // The program's own INT3, in a word that is being replaced.
        return Some(Verdict::Foreign);
    }
    let mut code = [0; effect::LONGEST];
    let carried_out = flight.decode(old, skip, &mut code).is_some_and(|instruction| {
        let current = flight.replaced().is_some_and(|(now, _)| now == number);
        current
            && effect::carry_out(instruction, at, thread, cpu::shadow_stack_pointer() != 0).is_ok()
    });
    if carried_out {
        return Some(Verdict::Resume);
    }
    stacks::with_room(|| help(flight));
    None
}

/// Takes the flight to its end, or waits a little for the thread that does. Needs stack: barriers
/// read files, and another signal may arrive.
fn help(flight: &'static Flight) {
    // A thread that waits for others has to answer them.
    let _answering = barrier::reserved_signal().map(LetIn::one);
    // An error leaves the flight to others; the thread looks again, and again, since it cannot go
    // on.
    if !matches!(flight.proceed(Pace::Finish), Ok(Phase::Idle)) {
        threads::give_way();
    }
}
