//! The expected throughput if toggling had no cost.
//!
//! A pass that sees the site on may take longer than one that sees it off. So neither the passes
//! per second nor the share of them that saw it on can be compared with the time that it was on
//! alone: both are compared with the paces of a site that is not toggled.

/// Passes per millisecond while the site is not toggled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Paces {
    pub(super) on: f64,
    pub(super) off: f64,
}

impl Paces {
    /// Whether threads executed in both states; otherwise there is no expected value.
    pub(super) fn are_known(self) -> bool {
        self.on > 0.0 && self.off > 0.0
    }

    /// The expected pace of passes of which `on` out of `all` saw the site on. It is based on the
    /// passes, not on the time for which the site was on: while the toggling thread waits for a
    /// processor, the site keeps its state, and more executing threads have a processor.
    pub(super) fn due(self, [on, all]: [u64; 2]) -> f64 {
        if all == 0 {
            // There were no passes.
            return self.on.min(self.off);
        }
        // A pass in progress may be counted in `on` and not yet in `all`.
        all as f64 / (on as f64 / self.on + all.saturating_sub(on) as f64 / self.off)
    }

    /// The expected share of passes that see it on, if it is on for that share of the time.
    pub(super) fn share(self, time_on: f64) -> f64 {
        let [on, off] = [time_on * self.on, (1.0 - time_on) * self.off];
        if on > 0.0 { on / (on + off) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_that_stays_has_the_pace_of_its_state() {
        let paces = Paces { on: 100.0, off: 300.0 };
        assert_eq!([[0, 50], [50, 50]].map(|seen| paces.due(seen)), [300.0, 100.0]);
        assert_eq!([0.0, 1.0].map(|time_on| paces.share(time_on)), [0.0, 1.0]);
    }

    #[test]
    fn half_of_the_time_in_each_state_is_due_the_mean_of_the_paces() {
        let paces = Paces { on: 100.0, off: 300.0 };
        assert_eq!(paces.share(0.5), 0.25);
        assert_eq!(paces.due([25, 100]), 200.0);
        assert_eq!(Paces { on: 200.0, off: 200.0 }.share(0.3), 0.3);
    }

    #[test]
    fn where_nobody_ran_nothing_is_known_and_where_nobody_passed_something_is_due() {
        assert!(!Paces { on: 0.0, off: 300.0 }.are_known());
        assert_eq!(Paces { on: 0.0, off: 0.0 }.share(0.5), 0.0);
        assert_eq!(Paces { on: 100.0, off: 300.0 }.due([0, 0]), 100.0);
    }
}
