//! The signal barrier: it sends every thread a reserved real-time signal, and the thread answers
//! from its handler.
//!
//! A call sends its number and the index of a seat; the handler writes the number into the seat. A
//! seat belongs to one thread during one call. A thread that has not answered still has the signal
//! pending. Later calls do not send it another one, since signals would pile up. Its late answer
//! counts for the call that is in progress then, in the thread's seat of that call.
//!
//! | seat | meaning | changed by |
//! |---|---|---|
//! | a thread and the number of the current call | this thread has passed | the caller, by the next call |
//! | a thread and the number before | not yet | that thread's handler: to the current number; the caller |
//! | zero | never used | the caller |

use super::{BarrierError, refuse_vfork_child};
use crate::fork;
use crate::lock::Lock;
use crate::os::{
    OsError, signals, spare_stacks,
    threads::{self, Tid},
};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The most threads that a call can wait for.
const SEATS: usize = 4096;

/// How long a call waits for them. A runnable thread answers in its next time slice, which may come
/// late on a busy machine.
const PATIENCE: Duration = Duration::from_secs(3);

/// A thread and its latest answer, in one word: a late handler must not answer for the thread that
/// has the seat now.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seat {
    thread: Tid,
    answer: u32,
}

impl Seat {
    fn word(self) -> u64 {
        u64::from(self.thread.0 as u32) << 32 | u64::from(self.answer)
    }

    fn of(word: u64) -> Self {
        Self { thread: Tid((word >> 32) as i32), answer: word as u32 }
    }

    fn load(seat: &AtomicU64) -> Self {
        // Acquire pairs with the Release in `answer`, and with that in `invite`.
        Self::of(seat.load(Ordering::Acquire))
    }
}

static ROOM: [AtomicU64; SEATS] = [const { AtomicU64::new(0) }; SEATS];

/// The number of the current or the latest call.
static CALL: AtomicU32 = AtomicU32::new(0);

/// Whether a call is in progress; set by the thread that makes it.
static BUSY: AtomicBool = AtomicBool::new(false);

/// The reserved signal; zero before the first call.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// The reserved signal, if there is one.
pub(crate) fn signal() -> Option<i32> {
    Some(SIGNAL.load(Ordering::Acquire)).filter(|&signal| signal != 0)
}

/// Held while a thread reserves a signal.
pub(crate) static RESERVING: Lock<()> = Lock::new(());

/// Reserves a real-time signal that the program does not use. The reservation survives `fork`, as
/// handlers do.
pub(super) fn prepare() -> Result<i32, BarrierError> {
    fork::prepare();
    let _one_at_a_time = RESERVING.lock();
    if let Some(signal) = signal() {
        return Ok(signal);
    }
    for signal in (libc::SIGRTMIN()..libc::SIGRTMAX()).rev() {
        if signals::action(signal)?.sa_sigaction == libc::SIG_DFL {
            // SAFETY: (1) `answer` stores one number and nothing else.
            #[allow(unsafe_code)]
            unsafe {
                signals::install(signal, answer, libc::SA_RESTART)?;
            }
            SIGNAL.store(signal, Ordering::Release);
            spare_stacks::let_in(signal);
            return Ok(signal);
        }
    }
    Err(BarrierError::NoSignalFree)
}

/// The handler of a called thread. The return from it serialises the thread.
extern "C" fn answer(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: (1) the kernel passes a valid siginfo_t to a handler installed with SA_SIGINFO.
    #[allow(unsafe_code)]
    let (code, value) = unsafe { ((*info).si_code, (*info).si_value().sival_ptr as usize) };
    if code != libc::SI_QUEUE {
        return;
    }
    let (call, seat) = ((value >> 32) as u32, value & 0xffff_ffff);
    let (latest, this) = (CALL.load(Ordering::Acquire), threads::current());
    let sit = |seat: &AtomicU64| {
        let [before, after] =
            [latest.wrapping_sub(1), latest].map(|answer| Seat { thread: this, answer }.word());
        // Release pairs with the Acquire in `load`: the thread's earlier actions come before the
        // barrier.
        let _ = seat.compare_exchange(before, after, Ordering::Release, Ordering::Relaxed);
    };
    if call == latest {
        ROOM.get(seat).into_iter().for_each(sit);
    } else {
        // A seat of an earlier call may have the same value, so all are tried.
        ROOM.iter().take_while(|seat| seat.load(Ordering::Relaxed) != 0).for_each(sit);
    }
}

/// Threads that have not answered an earlier call and still have its signal pending; zero in a free
/// entry. The signals of threads beyond these pile up.
static OWING: [AtomicI32; 64] = [const { AtomicI32::new(0) }; 64];

/// Records that a thread has not answered.
fn note_owing(thread: Tid) {
    let known = OWING.iter().any(|owing| owing.load(Ordering::Relaxed) == thread.0);
    if !known && let Some(free) = OWING.iter().find(|owing| owing.load(Ordering::Relaxed) == 0) {
        free.store(thread.0, Ordering::Relaxed);
    }
}

/// Whether the signal of an earlier call is still pending for a thread. Called by the calling
/// thread after it has given that thread a seat, where the late answer goes.
fn still_owes(thread: Tid, signal: i32) -> bool {
    let Some(owing) = OWING.iter().find(|owing| owing.load(Ordering::Relaxed) == thread.0) else {
        return false;
    };
    let owes = threads::has_pending(thread, signal);
    if !owes {
        owing.store(0, Ordering::Relaxed);
    }
    owes
}

/// Calls every other thread and waits for all answers.
pub(super) fn pass() -> Result<(), BarrierError> {
    let signal = match signal() {
        Some(signal) => signal,
        None => prepare()?,
    };
    refuse_vfork_child()?;
    let turn = Turn::take();
    let mut seated = 0;
    // A listing may miss a thread if others end meanwhile; a second one that finds no new thread
    // has missed none. Threads that start after the first listing have fetched nothing before the
    // call.
    loop {
        let newcomers = invite(seated, signal, turn.number)?;
        if newcomers == seated {
            break;
        }
        seated = newcomers;
    }
    let deadline = Instant::now() + PATIENCE;
    while let Some(first) = waiting(seated, turn.number) {
        if Instant::now() > deadline {
            return Err(BarrierError::Silent(Silent::among(first, seated, signal, turn.number)));
        }
        threads::give_way();
    }
    Ok(())
}

/// The right to make a call; one call at a time.
struct Turn {
    number: u32,
}

impl Turn {
    fn take() -> Self {
        // Acquire pairs with the Release in `drop`: seats are reused only after the previous call
        // has ended.
        while BUSY.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            threads::give_way();
        }
        // Release: a thread that reads the number also sees that the seats of the previous call are
        // unused.
        Self { number: CALL.fetch_add(1, Ordering::AcqRel).wrapping_add(1) }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        BUSY.store(false, Ordering::Release);
    }
}

/// In a forked child: no other thread exists that could be making a call.
pub(crate) fn forget_call() {
    BUSY.store(false, Ordering::Relaxed);
}

/// Gives a seat to every thread that has none, and calls it; returns the number of seats in use.
fn invite(seated: usize, signal: i32, call: u32) -> Result<usize, BarrierError> {
    let this = threads::current();
    let mut count = seated;
    let mut failure = None;
    threads::each(|thread| {
        let known = ROOM[..count].iter().any(|seat| Seat::load(seat).thread == thread);
        if thread == this || known || failure.is_some() {
            return;
        }
        let Some(seat) = ROOM.get(count) else {
            failure = Some(BarrierError::TooManyThreads { limit: SEATS });
            return;
        };
        seat.store(Seat { thread, answer: call.wrapping_sub(1) }.word(), Ordering::Release);
        if still_owes(thread, signal) {
            count += 1;
            return;
        }
        match signals::send_value(thread, signal, count | (call as usize) << 32) {
            Ok(()) => count += 1,
            Err(OsError { errno: libc::ESRCH, .. }) => {}
            Err(error) => failure = Some(error.into()),
        }
    })?;
    failure.map_or(Ok(count), Err)
}

/// The first seat whose thread is alive and has not answered.
fn waiting(seated: usize, call: u32) -> Option<usize> {
    ROOM[..seated]
        .iter()
        .map(Seat::load)
        .position(|seat| seat.answer != call && threads::lives(seat.thread))
}

/// The threads that did not answer: the IDs of the first few, and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silent {
    signal: i32,
    count: usize,
    first: [Tid; 8],
}

impl Silent {
    fn among(start: usize, seated: usize, signal: i32, call: u32) -> Self {
        let mut silent = Self { signal, count: 0, first: [Tid(0); 8] };
        for Seat { thread, answer } in ROOM[start..seated].iter().map(Seat::load) {
            if answer != call && threads::lives(thread) {
                if let Some(place) = silent.first.get_mut(silent.count) {
                    *place = thread;
                }
                silent.count += 1;
                note_owing(thread);
            }
        }
        silent
    }

    /// The signal they did not answer.
    pub fn signal(&self) -> i32 {
        self.signal
    }

    /// Their number.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The IDs of at most the first eight.
    pub fn threads(&self) -> &[Tid] {
        &self.first[..self.count.min(self.first.len())]
    }
}

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.count == 1 { "thread" } else { "threads" })?;
        for thread in self.threads() {
            write!(f, " {thread}")?;
        }
        match self.count - self.threads().len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
