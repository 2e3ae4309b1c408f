//! Stopping code that runs away: by a deadline, or by the holder of a handle.
//!
//! Machine code has no checks for it. The thread that runs it receives a signal; if it is in
//! machine code at that moment, the handler ends the activation, as for a trap. If it is in the
//! host, the signal is sent again a moment later, and host calls check for the request when they
//! return.

use super::signals::INTERRUPT;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use wordpatch::os::signals;
use wordpatch::os::threads::{self, Tid};

/// Whether a store's code is requested to stop, and which thread runs it.
#[derive(Debug, Default)]
pub struct Interruption {
    requested: AtomicBool,
    /// The thread that is in machine code of the store, or 0.
    ///
    /// | value | changed by |
    /// |---|---|
    /// | 0 → thread | that thread, when its outermost activation begins |
    /// | thread → 0 | that thread, when its outermost activation has ended |
    thread: AtomicI32,
    /// How often the holder of a handle has requested a stop.
    asked: AtomicU32,
    deadline: Mutex<Option<Instant>>,
    /// Where the thread was at the last query: return addresses, the innermost first, up to a zero;
    /// and how often it has answered.
    seen: [AtomicUsize; SEEN],
    looks: AtomicU32,
}

/// How many return addresses are recorded.
const SEEN: usize = 16;
/// How long to wait for a thread that is queried for its place.
const A_MOMENT: Duration = Duration::from_micros(50);

/// Stops code from another thread. Copies are cheap.
#[derive(Clone, Debug)]
pub struct InterruptHandle {
    of: Weak<Interruption>,
}

impl InterruptHandle {
    /// Has the store's code trap with [`Trap::Interrupted`](crate::Trap::Interrupted): the code
    /// that runs now, or that is called next.
    pub fn interrupt(&self) {
        if let Some(interruption) = self.of.upgrade() {
            interruption.asked.fetch_add(1, SeqCst);
            interruption.insist();
        }
    }
}

/// The saved requests and deadline of code that an interlude has suspended.
#[derive(Clone, Copy, Debug)]
pub struct Interlude {
    deadline: Option<Instant>,
    asked: u32,
    requested: bool,
}

impl Interruption {
    pub(crate) fn handle(self: &Arc<Self>) -> InterruptHandle {
        InterruptHandle { of: Arc::downgrade(self) }
    }

    /// Replaces the deadline at which it is interrupted.
    pub(crate) fn set_deadline(self: &Arc<Self>, deadline: Option<Instant>) {
        *self.deadline.lock() = deadline;
        if let Some(at) = deadline {
            watch(Wait { at, who: Arc::downgrade(self), is_deadline: true });
        }
    }

    /// Has it stop: the code that runs now, or that is called next.
    pub fn insist(self: &Arc<Self>) {
        self.requested.store(true, SeqCst);
        self.ask();
        watch(Wait { at: Instant::now() + AGAIN, who: Arc::downgrade(self), is_deadline: false });
    }

    /// Begins an interlude: other code is executed, which may have deadlines of its own.
    pub fn begin_interlude(&self) -> Interlude {
        Interlude {
            deadline: *self.deadline.lock(),
            asked: self.asked.load(SeqCst),
            requested: self.is_requested(),
        }
    }

    /// Ends an interlude: the deadline is restored, and requests that were made meanwhile apply to
    /// the code that continues.
    pub fn end_interlude(self: &Arc<Self>, interlude: Interlude) {
        let is_asked = interlude.requested || self.asked.load(SeqCst) != interlude.asked;
        if is_asked != self.is_requested() {
            // A deadline of the interlude may have passed just when it was over.
            self.take();
            is_asked.then(|| self.insist());
        }
        if *self.deadline.lock() != interlude.deadline {
            self.set_deadline(interlude.deadline);
        }
    }

    pub(crate) fn enter(&self) {
        if self.thread.load(SeqCst) == 0 {
            self.thread.store(super::signals::this_thread().0, SeqCst);
        }
    }

    pub(crate) fn leave(&self) {
        self.thread.store(0, SeqCst);
    }

    /// Whether a thread executes machine code of the store, or has left it for the host.
    pub(super) fn is_entered(&self) -> bool {
        self.thread.load(SeqCst) != 0
    }

    /// Whether code is requested to stop.
    pub(crate) fn is_requested(&self) -> bool {
        self.requested.load(SeqCst)
    }

    /// Set as long as code is requested to stop: for code that only reads it.
    pub fn requested(&self) -> &AtomicBool {
        &self.requested
    }

    /// Takes the request, if there is one. Usable in a signal handler.
    pub fn take(&self) -> bool {
        self.requested.swap(false, SeqCst)
    }

    /// Records where the thread is. Usable in a signal handler.
    pub(crate) fn note(&self, addresses: impl Iterator<Item = usize>) {
        let mut places = self.seen.iter();
        addresses.zip(&mut places).for_each(|(address, place)| place.store(address, SeqCst));
        places.next().into_iter().for_each(|place| place.store(0, SeqCst));
        self.looks.fetch_add(1, SeqCst);
    }

    /// The stack of the thread that executes code of the store, the innermost activation first;
    /// nothing if the thread waits for something, or is in the host.
    pub(crate) fn look(&self) -> Vec<usize> {
        let (thread, before) = (self.thread.load(SeqCst), self.looks.load(SeqCst));
        // A thread that sleeps in a system call is not to be woken.
        if thread == 0 || !threads::runs(Tid(thread)) {
            return Vec::new();
        }
        self.ask();
        for _ in 0..40 {
            if self.looks.load(SeqCst) != before {
                return self
                    .seen
                    .iter()
                    .map(|place| place.load(SeqCst))
                    .take_while(|address| *address != 0)
                    .collect();
            }
            std::thread::sleep(A_MOMENT);
        }
        Vec::new()
    }

    fn ask(&self) {
        let thread = self.thread.load(SeqCst);
        if thread != 0 {
            // A thread that has ended meanwhile needs no signal.
            let _ = signals::send(Tid(thread), INTERRUPT);
        }
    }
}

/// A thread that will be interrupted.
struct Wait {
    at: Instant,
    who: Weak<Interruption>,
    /// Whether the wait is for a deadline, and not for the thread to stop.
    is_deadline: bool,
}

/// The threads that will be interrupted.
struct Deadlines {
    waiting: Mutex<Vec<Wait>>,
    changed: Condvar,
}

static DEADLINES: Deadlines =
    Deadlines { waiting: Mutex::new(Vec::new()), changed: Condvar::new() };
/// How long until a thread that was in the host receives the signal again.
const AGAIN: Duration = Duration::from_millis(2);

fn watch(wait: Wait) {
    static STARTED: AtomicBool = AtomicBool::new(false);
    {
        let mut waiting = DEADLINES.waiting.lock();
        // Deadlines that are set again and again leave no obsolete ones behind.
        waiting.retain(|other| !other.is_replaced_by(&wait));
        waiting.push(wait);
    }
    DEADLINES.changed.notify_one();
    if !STARTED.swap(true, SeqCst)
        && std::thread::Builder::new().name("wasm-deadlines".into()).spawn(serve).is_err()
    {
        STARTED.store(false, SeqCst);
    }
}

fn serve() {
    let _quiet = signals::Blocked::all();
    let mut waiting = DEADLINES.waiting.lock();
    loop {
        let now = Instant::now();
        waiting.retain_mut(|wait| wait.at > now || wait.is_still_due(now));
        match waiting.iter().map(|wait| wait.at).min() {
            Some(next) => drop(DEADLINES.changed.wait_until(&mut waiting, next)),
            None => DEADLINES.changed.wait(&mut waiting),
        }
    }
}

impl Wait {
    /// Whether this one is obsolete once `new` exists.
    fn is_replaced_by(&self, new: &Self) -> bool {
        self.who.strong_count() == 0
            || self.is_deadline && new.is_deadline && self.who.ptr_eq(&new.who)
    }

    /// Sends the signal, and returns whether to do so again later.
    fn is_still_due(&mut self, now: Instant) -> bool {
        let Some(interruption) = self.who.upgrade() else { return false };
        if self.is_deadline {
            let mut deadline = interruption.deadline.lock();
            if *deadline != Some(self.at) {
                return false;
            }
            *deadline = None;
            self.is_deadline = false;
            interruption.requested.store(true, SeqCst);
        }
        // A thread that is not running checks for the request when it begins.
        if !interruption.is_requested() || interruption.thread.load(SeqCst) == 0 {
            return false;
        }
        interruption.ask();
        self.at = now + AGAIN;
        true
    }
}
