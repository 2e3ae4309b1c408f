//! How long the host has control in calls of the program's: what a replay has not.

use std::time::{Duration, Instant};

/// Time between the events of a run at which control is the host's.
#[derive(Debug, Default)]
pub(super) struct HostTime {
    total: Duration,
    /// How many calls of the host's have not ended; before the first, time is not the run's.
    depth: u64,
    /// Since when the host has control.
    since: Option<Instant>,
}

impl HostTime {
    /// The program calls its host.
    pub(super) fn begin(&mut self) {
        self.depth += 1;
        self.resume();
    }

    /// The host gives control back, for a call of its own.
    pub(super) fn pause(&mut self) {
        self.total += self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }

    /// That call has ended.
    pub(super) fn resume(&mut self) {
        self.since = (self.depth > 0).then(Instant::now);
    }

    /// The host's call ends.
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
        // The host calls the program, which returns: no call of the host waits.
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
