//! Clocks: the machine's, or one that a test sets.

use super::WasiCtx;
use super::errno::Errno;
use super::guest::Guest;
use super::outcome::Answer;
use super::types::nanoseconds;
use parking_lot::Mutex;
use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const REALTIME: u32 = 0;
pub(crate) const MONOTONIC: u32 = 1;
const PROCESS_CPUTIME: u32 = 2;
const THREAD_CPUTIME: u32 = 3;

/// The source of time.
#[derive(Debug, Default)]
pub(crate) enum Clock {
    #[default]
    System,
    Manual(ManualClock),
}

/// A clock that stands still unless it is read, slept on or advanced: runs of a program that reads
/// it are all the same. Clones share the clock.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<Dial>>);

#[derive(Debug)]
struct Dial {
    realtime: u64,
    monotonic: u64,
    step: u64,
}

impl ManualClock {
    /// Creates a clock whose first reading is this time since 1970, and which advances by `step`
    /// with every reading.
    pub fn new(since_1970: Duration, step: Duration) -> Self {
        // Some programs assume that a clock is broken if monotonic time is zero.
        Self(Arc::new(Mutex::new(Dial {
            realtime: whole(since_1970),
            monotonic: 1,
            step: whole(step),
        })))
    }

    /// Advances all of its times.
    pub fn advance(&self, by: Duration) {
        self.0.lock().advance(whole(by));
    }

    fn read(&self, id: u32) -> u64 {
        let mut dial = self.0.lock();
        let now = if id == REALTIME { dial.realtime } else { dial.monotonic };
        let step = dial.step;
        dial.advance(step);
        now
    }
}

impl Dial {
    fn advance(&mut self, by: u64) {
        self.realtime = self.realtime.saturating_add(by);
        self.monotonic = self.monotonic.saturating_add(by);
    }
}

fn whole(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Clock {
    fn now(&self, id: u32) -> Result<u64, Errno> {
        let clock = system(id)?;
        Ok(match self {
            Self::System => of_timespec(clock_gettime(clock)),
            Self::Manual(manual) => manual.read(id),
        })
    }

    fn resolution(&self, id: u32) -> Result<u64, Errno> {
        let clock = system(id)?;
        Ok(match self {
            Self::System => of_timespec(clock_getres(clock)),
            Self::Manual(manual) => manual.0.lock().step.max(1),
        })
    }

    /// The time until a clock's subscription is due.
    pub(crate) fn until(&self, id: u32, timeout: u64, absolute: bool) -> Result<Duration, Errno> {
        if id != REALTIME && id != MONOTONIC {
            return Err(Errno::INVAL);
        }
        let rest = if absolute { timeout.saturating_sub(self.now(id)?) } else { timeout };
        Ok(Duration::from_nanos(rest))
    }
}

fn system(id: u32) -> Result<ClockId, Errno> {
    match id {
        REALTIME => Ok(ClockId::Realtime),
        MONOTONIC => Ok(ClockId::Monotonic),
        PROCESS_CPUTIME => Ok(ClockId::ProcessCPUTime),
        THREAD_CPUTIME => Ok(ClockId::ThreadCPUTime),
        _ => Err(Errno::INVAL),
    }
}

fn of_timespec(time: Timespec) -> u64 {
    nanoseconds(time.tv_sec, time.tv_nsec)
}

impl WasiCtx {
    /// The smallest step of a clock.
    pub fn clock_res_get(&mut self, memory: &Guest<'_>, id: u32, resolution: u32) -> Answer {
        Ok(memory.write_u64(resolution, self.clock.resolution(id)?)?)
    }

    /// Reads a clock. Every clock is read at its full precision.
    pub fn clock_time_get(
        &mut self,
        memory: &Guest<'_>,
        id: u32,
        _precision: u64,
        time: u32,
    ) -> Answer {
        Ok(memory.write_u64(time, self.clock.now(id)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch::World;
    use super::*;

    #[test]
    fn clocks_of_the_machine_go_forward() {
        let mut world = World::new();
        for id in 0..4 {
            world.call("clock_res_get", &[id, 0]).unwrap();
            assert!((1..1_000_000_000).contains(&world.u64(0)), "clock {id}");
            world.call("clock_time_get", &[id, 0, 0]).unwrap();
            world.call("clock_time_get", &[id, u64::MAX, 8]).unwrap();
            assert!(world.u64(8) >= world.u64(0), "clock {id}");
        }
    }

    #[test]
    fn other_clocks_are_refused() {
        let mut world = World::new();
        assert_eq!(world.call("clock_time_get", &[4, 0, 0]), Err(Errno::INVAL));
        assert_eq!(world.call("clock_res_get", &[u64::from(u32::MAX), 0]), Err(Errno::INVAL));
        assert_eq!(world.call("clock_time_get", &[0, 0, world.size() - 7]), Err(Errno::FAULT));
    }

    #[test]
    fn a_manual_clock_moves_as_it_is_told() {
        let clock = ManualClock::new(Duration::from_secs(1000), Duration::from_nanos(5));
        let mut world = World::with(|builder| builder.clock(clock.clone()));
        world.call("clock_time_get", &[0, 0, 0]).unwrap();
        assert_eq!(world.u64(0), 1_000_000_000_000);
        clock.advance(Duration::from_secs(1));
        world.call("clock_time_get", &[1, 0, 0]).unwrap();
        assert_eq!(world.u64(0), 1 + 5 + 1_000_000_000);
        world.call("clock_res_get", &[1, 0]).unwrap();
        assert_eq!(world.u64(0), 5);
    }
}
