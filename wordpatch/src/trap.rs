//! Handles a thread that hits a trap of this crate.
//!
//! ```text
//!   INT3 ── does a patch in progress have a trap at this address?
//!            ├── no ──→ was the byte a trap that is gone? run it; else it is foreign: the next handler
//!            └── yes: can the old word's instruction here be emulated?
//!                  ├── yes ──→ emulate it, and continue behind it
//!                  └── no ──→ finish the patch, or wait for the thread that does; then run what is there
//! ```
//!
//! So a thread never waits for a patching thread that was stopped or killed: either it needs no
//! other thread, or it finishes the patch itself. While traps cover the front, the handler emulates
//! the old instruction. So a thread sees a patch as old, old, …, new, new, and never old again.
//!
//! The kernel delivers `SIGTRAP` for INT3 with the instruction pointer after it. Between the trap
//! and the handler the patch may end. The ledger keeps its entry permanently, so the handler
//! recognises the trap as one of this crate and runs the instruction that is there now.
//!
//! # Safety
//!
//! This module exists because a signal handler gets its thread's registers by pointer. It does only
//! what a handler may do: no allocation, no lock that the interrupted code could hold, and `errno`
//! is restored.
#![allow(unsafe_code)]

use crate::addr::CodeAddr;
use crate::barrier;
use crate::effect;
use crate::error::TrapError;
use crate::ledger::{Phase, Whose};
use crate::live;
use crate::os::{
    self, clocks, cpu,
    signals::{self, LetIn},
    spare_stacks::{self, Onward},
    stacks,
    threads::{self, Tid},
};
use crate::patch_in_progress::{self, Pace, PatchInProgress};
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

/// Installs the trap handler in front of the program's own. The first adoption that needs it does
/// this; call it again if the program has replaced the handler since.
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

/// Fails if a handler blocks SIGTRAP: its thread would be killed by a trap.
fn refuse_masks() -> Result<(), TrapError> {
    signals::handler_that_blocks(libc::SIGTRAP)
        .map_or(Ok(()), |signal| Err(TrapError::BlockedInHandler { signal }))
}

/// How long a check of the tracer and of handlers' masks stays valid: about ten milliseconds.
const FRESH: Ticks = Ticks(1 << 25);

/// When the latest successful check was made.
static LOOKED: AtomicU64 = AtomicU64::new(0);

/// Checks whether traps still work. Every call checks that the handler is installed; the tracer and
/// the masks of handlers are checked every few milliseconds only, since that costs as much as a
/// barrier.
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

/// How often, and at which interval, a thread is checked before it counts as blocking SIGTRAP: a
/// thread that starts another one blocks all signals for a short time.
const LOOKS: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);
/// A thread that waits for a processor during the checks must get `MOMENT` of CPU time first, for
/// which the checks wait `STARVED` at most: on a busy machine, or under a quota, that may take tens
/// of milliseconds.
const MOMENT: Duration = Duration::from_millis(1);
const STARVED: Duration = Duration::from_secs(5);

/// Fails if a thread or a handler blocks SIGTRAP: the kernel kills a process whose thread traps
/// with the signal blocked.
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

/// Whether a thread has got hardly any CPU time since its clock read `before`, and waits for a
/// processor.
fn is_starved(thread: Tid, before: Duration) -> bool {
    let now = clocks::of_thread(thread).unwrap_or_default();
    threads::runs(thread) && now.saturating_sub(before) < MOMENT
}

/// The decision about a thread that hit a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It continues with its registers: its instruction was emulated, or is executed again.
    Resume,
    /// The trap is not one of this crate.
    Foreign,
}

/// The function that the kernel calls: it continues on a spare stack, or, if another handler passes
/// a trap on to it, on that handler's stack.
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

/// Handles the trap if it is one of this crate. Otherwise returns the handler to call, if there is
/// one.
fn next_handler(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
    stack: Option<usize>,
) -> Option<&'static chain::Before> {
    // A signal that a process sent, a hardware breakpoint or a single step may find the thread
    // after a trap byte by chance. SAFETY: (1) the kernel passes a valid siginfo_t and ucontext_t
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

/// Finds the owner of the trap, and handles the trap if it is one of this crate.
fn judge(thread: &mut Interrupted<'_>) -> Verdict {
    let at = thread.trap();
    let Some(window) = patch_in_progress::trap_window_at(at) else { return Verdict::Foreign };
    // SAFETY: (1) the thread has just fetched this byte; the adopter keeps it mapped.
    let is_trap = || unsafe { live::load_byte(at) } == TRAP;
    loop {
        match window.whose(at, is_trap) {
            Whose::Gone => {
                thread.resume_at(at);
                return Verdict::Resume;
            }
            Whose::Foreign => return Verdict::Foreign,
            Whose::Patch(patch) => {
                if let Some(verdict) = serve(patch, at, thread) {
                    return verdict;
                }
            }
        }
    }
}

/// Emulates the old instruction, or helps to finish the patch. `None` if the trap has to be
/// checked again.
fn serve(
    patch: &'static PatchInProgress,
    at: CodeAddr,
    thread: &mut Interrupted<'_>,
) -> Option<Verdict> {
    let (number, old) = patch.replaced()?;
    let skip = at.distance_from(patch.word.start) as usize;
    if old.to_le_bytes()[skip] == TRAP {
        // The program's own INT3, in a word that is being replaced.
        return Some(Verdict::Foreign);
    }
    let mut code = [0; effect::LONGEST];
    let carried_out = patch.decode(old, skip, &mut code).is_some_and(|instruction| {
        let current = patch.replaced().is_some_and(|(now, _)| now == number);
        current
            && effect::carry_out(instruction, at, thread, cpu::shadow_stack_pointer() != 0).is_ok()
    });
    if carried_out {
        return Some(Verdict::Resume);
    }
    stacks::with_room(|| help(patch));
    None
}

/// Finishes the patch, or waits briefly for the thread that does. Needs stack space: barriers read
/// files, and another signal may arrive.
fn help(patch: &'static PatchInProgress) {
    // A thread that waits for others must be able to answer the signal barrier.
    let _answering = barrier::reserved_signal().map(LetIn::one);
    // On an error other threads must finish the patch; this thread checks repeatedly, since it
    // cannot continue.
    if !matches!(patch.proceed(Pace::Finish), Ok(Phase::Idle)) {
        threads::give_way();
    }
}
