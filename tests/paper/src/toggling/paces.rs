//! What is due to executers that toggling costs nothing.
//!
//! A pass that sees the site on takes longer, or not, than one that sees it off. So neither the passes of a second nor the part of them
//! that saw it on can be held against the time that it was on alone: both have to be held against what the paces of a site that stays
//! as it is would make in that time.

/// Passes in a millisecond while the site stays as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Paces {
    pub(super) on: f64,
    pub(super) off: f64,
}

impl Paces {
    /// The pace of a site that is on for that part of the time.
    pub(super) fn due(self, time_on: f64) -> f64 {
        time_on * self.on + (1.0 - time_on) * self.off
    }

    /// The part of the passes that see it on then; none if there are none.
    pub(super) fn share(self, time_on: f64) -> f64 {
        let due = self.due(time_on);
        if due > 0.0 { time_on * self.on / due } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_that_stays_has_the_pace_of_its_state() {
        let paces = Paces { on: 100.0, off: 300.0 };
        assert_eq!([0.0, 1.0, 0.5].map(|time_on| paces.due(time_on)), [300.0, 100.0, 200.0]);
        assert_eq!([0.0, 1.0].map(|time_on| paces.share(time_on)), [0.0, 1.0]);
    }

    #[test]
    fn the_slower_state_is_seen_by_fewer_passes_than_its_time() {
        assert_eq!(Paces { on: 100.0, off: 300.0 }.share(0.5), 0.25);
        assert_eq!(Paces { on: 200.0, off: 200.0 }.share(0.3), 0.3);
    }

    #[test]
    fn where_nobody_ran_nothing_is_due() {
        assert_eq!(Paces { on: 0.0, off: 0.0 }.share(0.5), 0.0);
    }
}
