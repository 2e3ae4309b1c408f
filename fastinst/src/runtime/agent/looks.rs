//! Looks at the program's counters, and the pauses between them, in proportion to their cost; and
//! the cost of taking in timed calls.

use std::time::Duration;

/// The share of one CPU that looks may take; and where the controller's next decision is near:
/// until then functions that are called often are counted, which costs more than a look.
const SHARE: u32 = 250;
const SHARE_SOON: u32 = 30;

/// What a look takes.
///
/// This is CPU time, not elapsed time: next to other programs the agent waits for a CPU in every
/// other look, and would pause for the longest allowed time after each. CPU time still includes a
/// hypervisor's interruption, so one look makes the next pause at most twice as long.
#[derive(Debug, Default)]
pub(super) struct Looks {
    usual: Option<Duration>,
}

impl Looks {
    /// A look has taken so much CPU time.
    pub(super) fn took(&mut self, time: Duration) {
        self.usual = Some(self.usual.map_or(time, |usual| time.min(2 * usual)));
    }

    /// How long to wait for the next look.
    pub(super) fn pause(&self, is_soon: bool) -> Duration {
        self.usual.unwrap_or_default() * if is_soon { SHARE_SOON } else { SHARE }
    }
}

/// What taking timed calls out of rings and sums costs, in CPU time of the agent.
#[derive(Debug, Default)]
pub(super) struct Taking {
    time: Duration,
    calls: u64,
}

/// Fewer calls show nothing: looking into empty rings takes time, too.
const TELLING: u64 = 1_000;

impl Taking {
    /// So many calls were taken in so much time.
    pub(super) fn took(&mut self, time: Duration, calls: u64) {
        self.time += time;
        self.calls += calls;
    }

    /// The time for a call; zero if it is not known yet.
    pub(super) fn of_one(&self) -> Duration {
        if self.calls < TELLING {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.time.as_nanos() as u64 / self.calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Duration = Duration::from_micros(3);

    #[test]
    fn an_interrupted_look_is_no_reason_to_be_away() {
        let mut looks = Looks::default();
        looks.took(LOOK);
        looks.took(Duration::from_millis(4));
        assert_eq!(looks.pause(false), 2 * LOOK * SHARE);
        looks.took(LOOK);
        assert_eq!(looks.pause(true), LOOK * SHARE_SOON);
    }

    #[test]
    fn the_cost_of_a_call_is_told_once_enough_were_taken() {
        let mut taking = Taking::default();
        taking.took(Duration::from_micros(50), TELLING - 1);
        assert_eq!(taking.of_one(), Duration::ZERO);
        taking.took(Duration::from_micros(50), TELLING + 1);
        assert_eq!(taking.of_one(), Duration::from_nanos(50));
    }

    #[test]
    fn looks_that_take_longer_from_now_on_come_less_often() {
        let mut looks = Looks::default();
        looks.took(LOOK);
        (0..10).for_each(|_| looks.took(100 * LOOK));
        assert_eq!(looks.pause(false), 100 * LOOK * SHARE);
    }
}
