//! Interruption: how a host stops a guest that waits inside a call.
//!
//! A flag alone is not enough: it may be raised just after a call looked at it and just before the call goes to sleep, and a signal
//! that is sent then is lost as well. So an [`Interruption`] is a flag and a descriptor that becomes readable with it; whoever
//! waits, waits for that too. Only what the kernel offers no waiting for (opening a pipe that nobody writes to, flushing to disk)
//! depends on the host sending a signal besides.

use super::outcome::{Answer, Outcome};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Stops guests that wait inside calls. Copies are the same interruption.
#[derive(Clone, Debug)]
pub struct Interruption(Arc<Bell>);

#[derive(Debug)]
struct Bell {
    /// Released by [`Interruption::raise`] before the bell rings; acquired by those who woke or are about to sleep.
    raised: AtomicBool,
    rings: OwnedFd,
}

impl Interruption {
    /// One that is not raised.
    ///
    /// # Errors
    ///
    /// The process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let rings = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(Bell { raised: AtomicBool::new(false), rings })))
    }

    /// Ends the call in which a guest waits, and every one in which it would wait from now on. May be called by any thread, and by
    /// signal handlers.
    pub fn raise(&self) {
        self.0.raised.store(true, Ordering::Release);
        // It fails only where it rings already.
        let _ = rustix::io::write(&self.0.rings, &1u64.to_ne_bytes());
    }

    /// Lets guests wait again. A raise that comes meanwhile is kept: the flag is looked at before each wait.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.0.rings, &mut [0u8; 8]);
        self.0.raised.store(false, Ordering::Release);
    }

    /// Whether it was raised and not cleared since.
    pub fn is_raised(&self) -> bool {
        self.0.raised.load(Ordering::Acquire)
    }
}

/// How calls wait: until what they wait for happens, or the host loses patience.
#[derive(Debug, Default)]
pub(crate) struct Patience(pub(crate) Option<Interruption>);

impl Patience {
    pub(crate) fn interrupted(&self) -> bool {
        self.0.as_ref().is_some_and(Interruption::is_raised)
    }

    /// Makes a system call again when a signal came that was none of ours.
    pub(crate) fn retry<T>(&self, mut call: impl FnMut() -> rustix::io::Result<T>) -> Answer<T> {
        loop {
            match call() {
                Err(rustix::io::Errno::INTR) if self.interrupted() => return Err(Outcome::Interrupted),
                Err(rustix::io::Errno::INTR) => {}
                done => return Ok(done?),
            }
        }
    }

    /// Waits until one of the descriptors is ready, or the time has come; tells whether one is.
    pub(crate) fn wait(&self, fds: &mut Vec<PollFd<'_>>, timeout: Option<Duration>) -> Answer<bool> {
        let asked = fds.len();
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let bell = self.0.as_ref().map(|interruption| interruption.clone().0);
        if let Some(bell) = &bell {
            // Its life is ours: it is taken off again below.
            return with_bell(fds, bell.rings.as_fd(), |fds| self.wait_until(fds, asked, deadline));
        }
        self.wait_until(fds, asked, deadline)
    }

    fn wait_until(&self, fds: &mut [PollFd<'_>], asked: usize, deadline: Option<Instant>) -> Answer<bool> {
        loop {
            if self.interrupted() {
                return Err(Outcome::Interrupted);
            }
            let rest = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let rest = rest.map(|rest| Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() });
            match poll(fds, rest.as_ref()) {
                Ok(0) if deadline.is_some_and(|deadline| deadline <= Instant::now()) => return Ok(false),
                Ok(_) if fds[..asked].iter().any(|fd| !fd.revents().is_empty()) => return Ok(true),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Waits until one descriptor is ready.
    pub(crate) fn wait_for(&self, fd: BorrowedFd<'_>, what: PollFlags) -> Answer {
        self.wait(&mut vec![PollFd::from_borrowed_fd(fd, what)], None).map(|_| ())
    }
}

/// Adds the bell for the time of a closure.
fn with_bell<'a, T>(fds: &mut Vec<PollFd<'a>>, bell: BorrowedFd<'_>, then: impl FnOnce(&mut [PollFd<'_>]) -> T) -> T {
    let mut all: Vec<PollFd<'_>> = fds.clone();
    all.push(PollFd::from_borrowed_fd(bell, PollFlags::IN));
    let told = then(&mut all);
    for (fd, seen) in fds.iter_mut().zip(&all) {
        *fd = seen.clone();
    }
    told
}
