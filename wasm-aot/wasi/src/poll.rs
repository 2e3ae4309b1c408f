//! Waiting for several things at once: clocks, and descriptors that can be read or written.

use super::WasiCtx;
use super::clock::Clock;
use super::descriptor::Descriptor;
use super::errno::Errno;
use super::guest::Guest;
use super::outcome::Answer;
use super::types::{Awaited, ClockFlags, Event, Filetype, Rights, Subscription};
use rustix::event::PollFlags;
use rustix::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// The maximum number of subscriptions: the guest must not choose how much memory the host uses for
/// them.
const MOST: u32 = 1 << 16;

impl WasiCtx {
    /// Waits until at least one of the subscribed events has happened, and returns those that have.
    pub fn poll_oneoff(
        &mut self,
        memory: &Guest<'_>,
        subscriptions: u32,
        events: u32,
        len: u32,
        happened: u32,
    ) -> Answer {
        if len == 0 || len > MOST {
            return Err(Errno::INVAL.into());
        }
        memory.expect(happened, 4)?;
        memory.expect(events, len * Event::SIZE)?;
        memory.expect(subscriptions, len * Subscription::SIZE)?;
        // All are read before any event is written: the two lists may overlap.
        let read =
            |at| Subscription::from_bytes(&memory.array(subscriptions + at * Subscription::SIZE)?);
        let awaited = (0..len).map(read).collect::<Result<Vec<_>, Errno>>()?;
        let told = self.happened(&awaited)?;
        for (event, at) in told.iter().zip(0..) {
            memory.write(events + at * Event::SIZE, &event.to_bytes())?;
        }
        Ok(memory.write_u32(happened, told.len() as u32)?)
    }

    fn happened(&self, subscriptions: &[Subscription]) -> Answer<Vec<Event>> {
        let states =
            subscriptions.iter().map(|one| self.state(one)).collect::<Result<Vec<_>, Errno>>()?;
        let waiting: Vec<_> = states.iter().filter_map(State::waiting).collect();
        let soonest = states.iter().filter_map(State::due).min();
        // If an event has happened already, the call does not wait for the others, but polls them.
        let timeout =
            if states.iter().any(State::settled) { Some(Duration::ZERO) } else { soonest };
        let ready = match (&self.clock, timeout) {
            (Clock::Manual(manual), Some(timeout)) => {
                let ready = self.patience.wait(&waiting, Some(Duration::ZERO))?;
                if ready.iter().all(PollFlags::is_empty) {
                    manual.advance(timeout);
                }
                ready
            }
            _ => self.patience.wait(&waiting, timeout)?,
        };
        let elapsed = ready.iter().all(PollFlags::is_empty).then_some(timeout).flatten();
        let mut ready = ready.into_iter();
        let event = |(subscription, state): (&Subscription, State<'_>)| {
            state.event(subscription, &mut ready, elapsed)
        };
        Ok(subscriptions.iter().zip(states).filter_map(event).collect())
    }

    /// The state of a subscription before a thread waits.
    fn state(&self, subscription: &Subscription) -> Result<State<'_>, Errno> {
        match subscription.awaited {
            Awaited::Clock { id, timeout, flags } => {
                let absolute = ClockFlags::from_raw(flags.into())?.contains(ClockFlags::ABSTIME);
                Ok(State::Due(self.clock.until(id, timeout, absolute)?))
            }
            Awaited::Readable(fd) => Ok(self.descriptor(fd, Rights::FD_READ, PollFlags::IN)),
            Awaited::Writable(fd) => Ok(self.descriptor(fd, Rights::FD_WRITE, PollFlags::OUT)),
        }
    }

    fn descriptor(&self, fd: u32, right: Rights, flags: PollFlags) -> State<'_> {
        match self
            .table
            .allowing(fd, right.or(Rights::POLL_FD_READWRITE))
            .map(|entry| &entry.descriptor)
        {
            Err(errno) => State::Failed(errno),
            Ok(Descriptor::File(file)) if file.waits => State::Waiting(file.as_fd(), flags),
            Ok(descriptor) if right == Rights::FD_READ => State::Ready(available(descriptor)),
            Ok(_) => State::Ready(0),
        }
    }
}

/// The state of a subscription.
enum State<'a> {
    /// It can never happen.
    Failed(Errno),
    /// It has happened: this number of bytes is available.
    Ready(u64),
    /// It happens after this time.
    Due(Duration),
    /// The kernel reports it.
    Waiting(BorrowedFd<'a>, PollFlags),
}

impl<'a> State<'a> {
    fn waiting(&self) -> Option<(BorrowedFd<'a>, PollFlags)> {
        match self {
            Self::Waiting(fd, flags) => Some((*fd, *flags)),
            _ => None,
        }
    }

    fn due(&self) -> Option<Duration> {
        match self {
            Self::Due(after) => Some(*after),
            _ => None,
        }
    }

    fn settled(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Ready(_)) || self.due() == Some(Duration::ZERO)
    }

    /// The event of a subscription, if it has happened after the elapsed time. `ready` is the
    /// kernel's report, in the order of the waiting subscriptions.
    fn event(
        self,
        subscription: &Subscription,
        ready: &mut impl Iterator<Item = PollFlags>,
        elapsed: Option<Duration>,
    ) -> Option<Event> {
        let kind = match subscription.awaited {
            Awaited::Clock { .. } => 0,
            Awaited::Readable(_) => 1,
            Awaited::Writable(_) => 2,
        };
        let event = Event {
            userdata: subscription.userdata,
            errno: Errno::SUCCESS,
            kind,
            bytes: 0,
            hangup: false,
        };
        match self {
            Self::Failed(errno) => Some(Event { errno, ..event }),
            Self::Ready(bytes) => Some(Event { bytes, ..event }),
            Self::Due(after) => (elapsed.is_some_and(|elapsed| after <= elapsed)
                || after.is_zero())
            .then_some(event),
            Self::Waiting(fd, _) => {
                let told = ready.next().filter(|told| !told.is_empty())?;
                let bytes = if kind == 1 { rustix::io::ioctl_fionread(fd).unwrap_or(0) } else { 0 };
                Some(Event { bytes, hangup: told.contains(PollFlags::HUP), ..event })
            }
        }
    }
}

/// The number of bytes that can be read at once from a descriptor that never makes its readers
/// wait.
fn available(descriptor: &Descriptor) -> u64 {
    match descriptor {
        Descriptor::Input(input) => input.rest().len() as u64,
        Descriptor::File(file) if file.filetype == Filetype::RegularFile => {
            let size =
                rustix::fs::fstat(file).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
            size.saturating_sub(rustix::fs::tell(file).unwrap_or(0))
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::beneath::Lookup;
    use super::super::clock::{MONOTONIC, ManualClock, REALTIME};
    use super::super::scratch::{BUFFER, CREAT, RESULT, ROOT, World};
    use super::super::{Interruption, Outcome, Sink, Source};
    use super::*;
    use std::io::Write;
    use std::thread;
    use std::time::Instant;

    const LIST: u64 = 0x8000;

    fn clock(id: u32, timeout: u64, flags: u16) -> Awaited {
        Awaited::Clock { id, timeout, flags }
    }

    fn lay_out(world: &mut World, awaited: &[Awaited]) {
        for (awaited, at) in awaited.iter().zip(0u64..) {
            let mut bytes = [0; 48];
            bytes[..8].copy_from_slice(&(100 + at).to_le_bytes());
            match *awaited {
                Awaited::Clock { id, timeout, flags } => {
                    bytes[16..20].copy_from_slice(&id.to_le_bytes());
                    bytes[24..32].copy_from_slice(&timeout.to_le_bytes());
                    bytes[40..42].copy_from_slice(&flags.to_le_bytes());
                }
                Awaited::Readable(fd) | Awaited::Writable(fd) => {
                    bytes[8] = if matches!(awaited, Awaited::Readable(_)) { 1 } else { 2 };
                    bytes[16..20].copy_from_slice(&fd.to_le_bytes());
                }
            }
            world.put(LIST + at * 48, &bytes);
        }
    }

    /// Returns those that happened (by userdata), with what error, how many bytes, and whether the
    /// other end is closed.
    fn poll(world: &mut World, awaited: &[Awaited]) -> Result<Vec<(u64, u16, u64, bool)>, Errno> {
        lay_out(world, awaited);
        world.call("poll_oneoff", &[LIST, BUFFER, awaited.len() as u64, RESULT])?;
        let event = |at| {
            let at = BUFFER + u64::from(at) * 32;
            (
                world.u64(at),
                world.u32(at + 8) as u16,
                world.u64(at + 16),
                world.u32(at + 24) as u16 == 1,
            )
        };
        Ok((0..world.u32(RESULT)).map(event).collect())
    }

    #[test]
    fn clocks_ring_after_their_time() {
        let mut world = World::new();
        for id in [REALTIME, MONOTONIC] {
            let before = Instant::now();
            assert_eq!(poll(&mut world, &[clock(id, 20_000_000, 0)]), Ok(vec![(100, 0, 0, false)]));
            assert!(before.elapsed() >= Duration::from_millis(20));
        }
    }

    #[test]
    fn absolute_times_are_waited_for_and_past_ones_are_not() {
        let mut world = World::new();
        for id in [REALTIME, MONOTONIC] {
            world.call("clock_time_get", &[id.into(), 0, RESULT]).unwrap();
            let now = world.u64(RESULT);
            let before = Instant::now();
            assert_eq!(poll(&mut world, &[clock(id, now + 20_000_000, 1)]).unwrap().len(), 1);
            assert!(before.elapsed() >= Duration::from_millis(10));
            assert_eq!(poll(&mut world, &[clock(id, now, 1)]).unwrap().len(), 1);
            assert_eq!(poll(&mut world, &[clock(id, 0, 1)]).unwrap().len(), 1);
        }
    }

    #[test]
    fn only_the_soonest_of_several_clocks_rings() {
        let mut world = World::new();
        let far = clock(MONOTONIC, u64::MAX, 0);
        assert_eq!(
            poll(&mut world, &[far, clock(MONOTONIC, 1000, 0), far]),
            Ok(vec![(101, 0, 0, false)])
        );
    }

    #[test]
    fn manual_clocks_do_not_keep_anybody_waiting() {
        let manual = ManualClock::new(Duration::ZERO, Duration::ZERO);
        let mut world = World::with(|builder| builder.clock(manual));
        poll(&mut world, &[clock(MONOTONIC, 1_000_000_000_000_000, 0)]).unwrap();
        world.call("clock_time_get", &[1, 0, RESULT]).unwrap();
        assert_eq!(world.u64(RESULT), 1_000_000_000_000_001);
    }

    #[test]
    fn pipes_are_ready_when_something_is_in_them() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut world = World::with(|builder| builder.stdin(Source::Descriptor(reader.into())));
        let awaited = [Awaited::Readable(0), clock(MONOTONIC, 5_000_000, 0)];
        assert_eq!(poll(&mut world, &awaited), Ok(vec![(101, 0, 0, false)]));
        writer.write_all(b"abc").unwrap();
        assert_eq!(poll(&mut world, &awaited), Ok(vec![(100, 0, 3, false)]));
        drop(writer);
        assert_eq!(poll(&mut world, &awaited), Ok(vec![(100, 0, 3, true)]));
        assert_eq!(world.read(0, 10).unwrap(), b"abc");
        assert_eq!(poll(&mut world, &awaited), Ok(vec![(100, 0, 0, true)]));
    }

    #[test]
    fn a_wait_ends_when_another_thread_writes() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut world = World::with(|builder| builder.stdin(Source::Descriptor(reader.into())));
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(10));
            writer.write_all(b"x").unwrap();
            writer
        });
        assert_eq!(poll(&mut world, &[Awaited::Readable(0)]), Ok(vec![(100, 0, 1, false)]));
        drop(other.join().unwrap());
    }

    #[test]
    fn full_pipes_are_not_ready_to_be_written() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut world = World::with(|builder| builder.stdout(Sink::Descriptor(writer.into())));
        let awaited = [Awaited::Writable(1), Awaited::Writable(2), clock(MONOTONIC, 1, 0)];
        let ready = poll(&mut world, &awaited).unwrap();
        assert_eq!(ready.iter().map(|event| event.0).collect::<Vec<_>>(), [100, 101]);
        world.call("fd_fdstat_set_flags", &[1, 4]).unwrap();
        while world.write(1, &[0; 4096]).is_ok() {}
        assert_eq!(
            poll(&mut world, &[Awaited::Writable(1), clock(MONOTONIC, 1, 0)]),
            Ok(vec![(101, 0, 0, false)])
        );
        drop(reader);
    }

    #[test]
    fn files_and_buffers_are_always_ready() {
        let mut world = World::rooted(Lookup::Kernel);
        let fd = world.open("file", CREAT).unwrap();
        world.write(fd, b"0123456789").unwrap();
        world.seek(fd, 4, 0).unwrap();
        let awaited =
            [Awaited::Readable(fd as u32), Awaited::Writable(fd as u32), Awaited::Readable(0)];
        assert_eq!(
            poll(&mut world, &awaited),
            Ok(vec![(100, 0, 6, false), (101, 0, 0, false), (102, 0, 0, false)])
        );
    }

    #[test]
    fn what_cannot_happen_is_an_event_with_an_error() {
        let mut world = World::rooted(Lookup::Kernel);
        let bad = Errno::BADF.number();
        let awaited = [
            Awaited::Readable(99),
            Awaited::Readable(ROOT as u32),
            Awaited::Readable(1),
            clock(MONOTONIC, 1 << 60, 0),
        ];
        assert_eq!(
            poll(&mut world, &awaited),
            Ok(vec![(100, bad, 0, false), (101, bad, 0, false), (102, bad, 0, false)])
        );
    }

    #[test]
    fn waiting_for_nothing_or_for_nonsense_is_refused() {
        let mut world = World::new();
        assert_eq!(poll(&mut world, &[]), Err(Errno::INVAL));
        assert_eq!(poll(&mut world, &[clock(2, 0, 0)]), Err(Errno::INVAL));
        assert_eq!(poll(&mut world, &[clock(9, 0, 0)]), Err(Errno::INVAL));
        assert_eq!(poll(&mut world, &[clock(MONOTONIC, 0, 2)]), Err(Errno::INVAL));
        world.put(LIST + 8, &[3]);
        assert_eq!(world.call("poll_oneoff", &[LIST, BUFFER, 1, RESULT]), Err(Errno::INVAL));
        for len in [2000, u64::from(u32::MAX), 1 << 27] {
            let told = world.call("poll_oneoff", &[LIST, BUFFER, len, RESULT]);
            assert!(matches!(told, Err(Errno::FAULT | Errno::INVAL)), "{len}: {told:?}");
        }
    }

    #[test]
    fn sleepers_can_be_interrupted() {
        let interruption = Interruption::new().unwrap();
        let mut world = World::with(|builder| builder.interruption(interruption.clone()));
        let raiser = thread::spawn(move || {
            thread::sleep(Duration::from_millis(10));
            interruption.raise();
        });
        lay_out(&mut world, &[clock(MONOTONIC, u64::MAX, 0)]);
        assert_eq!(world.outcome("poll_oneoff", &[LIST, BUFFER, 1, RESULT]), Outcome::Interrupted);
        raiser.join().unwrap();
    }
}
