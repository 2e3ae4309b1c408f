//! The time that the host has control in calls of the program, which a replay does not have.

use std::time::{Duration, Instant};

/// Time between the events of a run in which the host has control.
#[derive(Debug, Default)]
pub(super) struct HostTime {
    total: Duration,
    /// How many calls by the host have not ended; before the first, time does not count.
    depth: u64,
    /// Since when the host has control.
    since: Option<Instant>,
}

impl HostTime {
    /// Called when the program calls its host.
    pub(super) fn begin(&mut self) {
        self.depth += 1;
        self.resume();
    }

    /// Called when the host calls the program.
    pub(super) fn pause(&mut self) {
        self.total += self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }

    /// Called when that call has ended.
    pub(super) fn resume(&mut self) {
        self.since = (self.depth > 0).then(Instant::now);
    }

    /// Called when the host's function returns.
    pub(super) fn end(&mut self) {
        self.pause();
        self.depth = self.depth.saturating_sub(1);
    }

    pub(super) fn total(&self) -> Duration {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_time_inside_of_calls_counts_and_not_that_of_the_program_in_them() {
        let mut time = HostTime::default();
        // The host calls the program, which returns: no call to the host is pending.
        time.pause();
        time.resume();
        assert_eq!((time.since, time.total()), (None, Duration::ZERO));
        time.begin();
        assert!(time.since.is_some());
        time.pause();
        assert_eq!((time.since, time.depth), (None, 1));
        time.resume();
        assert!(time.since.is_some());
        time.end();
        time.resume();
        assert_eq!((time.since, time.depth), (None, 0));
    }
}
