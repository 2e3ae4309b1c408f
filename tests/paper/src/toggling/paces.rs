//! What is due to executers that toggling costs nothing.
//!
//! A pass that sees the site on takes longer, or not, than one that sees it off. So neither the
//! passes of a second nor the part of them that saw it on can be held against the time that it was
//! on alone: both have to be held against the paces of a site that stays.

/// Passes in a millisecond while the site stays as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Paces {
    pub(super) on: f64,
    pub(super) off: f64,
}

impl Paces {
    /// Whether executers ran at all in both states; else nothing can be held against them.
    pub(super) fn are_known(self) -> bool {
        self.on > 0.0 && self.off > 0.0
    }

    /// The pace of passes of which so many saw it on, and so many there were. It rests on what was
    /// seen, not on how long the site was on: a toggler that has to wait for a processor leaves it
    /// as it is, and meanwhile more executers have one.
    pub(super) fn due(self, [on, all]: [u64; 2]) -> f64 {
        if all == 0 {
            // Whatever was due, nothing came.
            return self.on.min(self.off);
        }
        // A pass that is under way may have been counted as one of them and not yet as one of all.
        all as f64 / (on as f64 / self.on + all.saturating_sub(on) as f64 / self.off)
    }

    /// The part of the passes that see it on, if it is on for that part of the time.
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
