//! Interruption: how a host stops a guest that waits inside a call.
//!
//! A flag alone is not enough: it may be raised after a call has checked it and before the call
//! sleeps, and a signal that is sent at that point is lost as well. So an [`Interruption`] is a
//! flag and a descriptor that becomes readable with it; a waiting thread waits for that descriptor,
//! too. Only operations without a way to poll (opening a pipe that no process writes to, flushing
//! to disk) require that the host also sends a signal.

use super::outcome::{Answer, Outcome};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Stops guests that wait inside calls. Clones share the interruption.
#[derive(Clone, Debug)]
pub struct Interruption(Arc<Bell>);

#[derive(Debug)]
struct Bell {
    /// Released by [`Interruption::raise`] before the bell rings; acquired by threads that woke up
    /// or are about to sleep.
    raised: AtomicBool,
    /// Released by [`Interruption::wake`] before the bell rings; cleared by the call that ends
    /// because of it.
    is_woken: AtomicBool,
    rings: OwnedFd,
}

impl Interruption {
    /// Creates an interruption that is not raised.
    ///
    /// # Errors
    ///
    /// If the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let rings = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(Bell {
            raised: AtomicBool::new(false),
            is_woken: AtomicBool::new(false),
            rings,
        })))
    }

    /// Ends the call in which a guest waits, and every later call in which it would wait. May be
    /// called by any thread, and by signal handlers.
    pub fn raise(&self) {
        self.0.raised.store(true, Ordering::Release);
        // It fails only if the bell rings already.
        let _ = rustix::io::write(&self.0.rings, &1u64.to_ne_bytes());
    }

    /// Lets guests wait again. The host must know that no call waits now: if another thread raises
    /// it meanwhile, later calls notice this, but calls that sleep already do not.
    pub fn clear(&self) {
        self.0.raised.store(false, Ordering::Release);
        let _ = rustix::io::read(&self.0.rings, &mut [0u8; 8]);
    }

    /// Makes the call in which a guest waits, or the next one in which it would wait, end with
    /// [`Outcome::Knocked`], once. The host repeats the call.
    pub fn wake(&self) {
        self.0.is_woken.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.0.rings, &1u64.to_ne_bytes());
    }

    /// Takes a wake-up, if there was one.
    fn take_wake_up(&self) -> bool {
        if !self.0.is_woken.swap(false, Ordering::AcqRel) {
            return false;
        }
        // A thread that raises it at this moment has set the flag before the bell rang.
        let _ = rustix::io::read(&self.0.rings, &mut [0u8; 8]);
        true
    }

    /// Whether it was raised and not cleared since.
    pub fn is_raised(&self) -> bool {
        self.0.raised.load(Ordering::Acquire)
    }
}

/// How calls wait: until the event that they wait for, or until the host interrupts them.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    interruption: Option<Interruption>,
    /// The end of the waiting of a call that has ended for a wake-up, and is now repeated.
    left: Cell<Option<Instant>>,
    /// Whether the caller waits instead, and the events to wait for.
    is_outside: bool,
    waits: RefCell<Option<Waits>>,
}

/// The events that an unfinished call waits for.
#[derive(Debug)]
pub(crate) struct Waits {
    fds: Vec<(OwnedFd, PollFlags)>,
    until: Option<Instant>,
}

impl Waits {
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Waits until one of them has happened, or until the time-out.
    pub(crate) fn happen(&self, interruption: Option<&Interruption>) -> Answer {
        let patience = Patience::new(interruption.cloned());
        let fds: Vec<_> = self.fds.iter().map(|(fd, flags)| (fd.as_fd(), *flags)).collect();
        patience.go_on(self.until);
        // A time-out that has expired already counts as an event.
        let rest = self.until.map(|until| {
            until.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1))
        });
        patience.wait(&fds, rest).map(drop)
    }
}

impl Patience {
    pub(crate) fn new(interruption: Option<Interruption>) -> Self {
        Self { interruption, ..Self::default() }
    }

    /// Makes calls that would have to wait return unfinished; returns the interruption that ends
    /// waiting.
    pub(crate) fn wait_outside(&mut self) -> Option<Interruption> {
        self.is_outside = true;
        self.interruption.clone()
    }

    /// Announces that the next call repeats an unfinished one, and waits until then.
    pub(crate) fn go_on(&self, until: Option<Instant>) {
        self.left.set(until);
    }

    /// The events that the unfinished call waits for.
    pub(crate) fn waits(&self) -> Option<Waits> {
        self.waits.take()
    }

    pub(crate) fn interrupted(&self) -> bool {
        self.interruption.as_ref().is_some_and(Interruption::is_raised)
    }

    /// Repeats a system call that a signal of another purpose has interrupted.
    pub(crate) fn retry<T>(&self, mut call: impl FnMut() -> rustix::io::Result<T>) -> Answer<T> {
        loop {
            match call() {
                Err(rustix::io::Errno::INTR) if self.interrupted() => {
                    return Err(Outcome::Interrupted);
                }
                Err(rustix::io::Errno::INTR) => {}
                done => return Ok(done?),
            }
        }
    }

    /// Waits until one of the descriptors is ready, or until the time-out; returns what each is
    /// ready for.
    pub(crate) fn wait(
        &self,
        fds: &[(BorrowedFd<'_>, PollFlags)],
        timeout: Option<Duration>,
    ) -> Answer<Vec<PollFlags>> {
        let deadline = self.left.take().or_else(|| Instant::now().checked_add(timeout?));
        if self.is_outside && timeout != Some(Duration::ZERO) {
            return self.look(fds, deadline);
        }
        let mut polled: Vec<_> =
            fds.iter().map(|(fd, what)| PollFd::from_borrowed_fd(*fd, *what)).collect();
        polled.extend(self.interruption.as_ref().map(|interruption| {
            PollFd::from_borrowed_fd(interruption.0.rings.as_fd(), PollFlags::IN)
        }));
        loop {
            if self.interrupted() {
                return Err(Outcome::Interrupted);
            }
            if timeout != Some(Duration::ZERO)
                && self.interruption.as_ref().is_some_and(Interruption::take_wake_up)
            {
                self.left.set(deadline);
                return Err(Outcome::Knocked);
            }
            let rest = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let rest = rest.map(|rest| Timespec {
                tv_sec: rest.as_secs() as i64,
                tv_nsec: rest.subsec_nanos().into(),
            });
            match poll(&mut polled, rest.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let ready: Vec<_> = polled[..fds.len()].iter().map(PollFd::revents).collect();
            if ready.iter().any(|flags| !flags.is_empty())
                || deadline.is_some_and(|deadline| deadline <= Instant::now())
            {
                return Ok(ready);
            }
        }
    }

    /// Polls the descriptors and the time-out, and ends the call unfinished if it has to wait.
    fn look(
        &self,
        fds: &[(BorrowedFd<'_>, PollFlags)],
        until: Option<Instant>,
    ) -> Answer<Vec<PollFlags>> {
        if self.interrupted() {
            return Err(Outcome::Interrupted);
        }
        let mut polled: Vec<_> =
            fds.iter().map(|(fd, what)| PollFd::from_borrowed_fd(*fd, *what)).collect();
        self.retry(|| poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })))?;
        let ready: Vec<_> = polled.iter().map(PollFd::revents).collect();
        if ready.iter().any(|flags| !flags.is_empty())
            || until.is_some_and(|until| until <= Instant::now())
        {
            return Ok(ready);
        }
        let duplicate = |(fd, flags): &(BorrowedFd<'_>, PollFlags)| {
            Ok((rustix::io::fcntl_dupfd_cloexec(fd, 3)?, *flags))
        };
        let fds = fds.iter().map(duplicate).collect::<rustix::io::Result<_>>()?;
        self.waits.replace(Some(Waits { fds, until }));
        Err(Outcome::Knocked)
    }

    /// Waits until one descriptor is ready.
    pub(crate) fn wait_for(&self, fd: BorrowedFd<'_>, what: PollFlags) -> Answer {
        self.wait(&[(fd, what)], None).map(|_| ())
    }
}

/// Whether a descriptor is ready now.
pub(crate) fn is_ready(fd: BorrowedFd<'_>, what: PollFlags) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(fd, what)], Some(&now)) == Ok(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_raise_ends_a_wait_that_would_last_for_ever() {
        let interruption = Interruption::new().unwrap();
        let patience = Patience::new(Some(interruption.clone()));
        let raiser = thread::spawn(move || interruption.raise());
        assert_eq!(patience.wait(&[], None), Err(Outcome::Interrupted));
        raiser.join().unwrap();
    }

    #[test]
    fn who_waits_after_a_raise_does_not_wait() {
        let interruption = Interruption::new().unwrap();
        interruption.raise();
        interruption.raise();
        let patience = Patience::new(Some(interruption.clone()));
        assert_eq!(patience.wait(&[], None), Err(Outcome::Interrupted));
        interruption.clear();
        assert_eq!(patience.wait(&[], Some(Duration::from_millis(1))), Ok(vec![]));
    }

    #[test]
    fn a_wait_that_is_left_for_a_wake_up_lasts_as_long_as_it_would_have() {
        let interruption = Interruption::new().unwrap();
        let patience = Patience::new(Some(interruption.clone()));
        let (begun, time) = (Instant::now(), Duration::from_millis(60));
        interruption.wake();
        assert_eq!(patience.wait(&[], Some(time)), Err(Outcome::Knocked));
        thread::sleep(Duration::from_millis(40));
        assert_eq!(patience.wait(&[], Some(time)), Ok(vec![]));
        assert!(
            (time..time + Duration::from_millis(35)).contains(&begun.elapsed()),
            "{:?}",
            begun.elapsed()
        );
        interruption.wake();
        interruption.raise();
        assert_eq!(patience.wait(&[], None), Err(Outcome::Interrupted));
    }

    #[test]
    fn signals_that_are_none_of_ours_are_waited_through() {
        let mut calls = 0;
        let done = Patience::default().retry(|| {
            calls += 1;
            if calls < 3 { Err(rustix::io::Errno::INTR) } else { Ok(calls) }
        });
        assert_eq!(done, Ok(3));
    }
}
