//! Figures: values with their certainty.

// The C library's function has a symbol version that is newer than the oldest supported C library.
use libm::hypot;
use serde::{Deserialize, Serialize};

/// A value and its certainty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The value.
    pub value: f64,
    /// Its certainty.
    #[serde(flatten)]
    pub how: How,
}

/// The certainty of a value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "lowercase")]
pub enum How {
    /// Exact: everything was observed.
    Exact,
    /// Estimated from a part: a 95 % confidence interval.
    Estimated {
        /// The lower end.
        lo: f64,
        /// The upper end.
        hi: f64,
    },
}

/// The mark of a figure for readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// None: it is exact.
    Exact,
    /// `~`: the interval is not wider than the value.
    About,
    /// `?`: it is wider.
    Unsure,
    /// `≤`: it may be zero, and is at most the interval's end.
    AtMost,
    /// `≥`: it is a lower bound.
    AtLeast,
}

/// The relative width of an interval up to which a value counts as well known.
const NARROW: f64 = 1.0;

impl Figure {
    /// An observed value.
    pub const fn exact(value: f64) -> Self {
        Self { value, how: How::Exact }
    }

    /// A value with a standard error; never below `least`.
    pub fn estimated(value: f64, half_width: f64, least: f64) -> Self {
        let half_width = if half_width.is_finite() { half_width } else { value.abs() };
        Self {
            value,
            how: How::Estimated {
                lo: (value - half_width).max(least.min(value)),
                hi: value + half_width,
            },
        }
    }

    /// The same figure with an interval extended upwards by this much.
    pub(crate) fn with_more_above(self, more: f64) -> Self {
        match self.how {
            How::Exact => self,
            How::Estimated { lo, hi } => Self { how: How::Estimated { lo, hi: hi + more }, ..self },
        }
    }

    /// The same figure, no longer exact: the true value may be larger by this much.
    pub(crate) fn widened(self, more: f64) -> Self {
        let (lo, hi) = self.interval();
        Self { value: self.value, how: How::Estimated { lo, hi: hi + more } }
    }

    /// Whether it is exact.
    pub fn is_exact(&self) -> bool {
        self.how == How::Exact
    }

    /// The interval; of zero width if the value is exact.
    pub fn interval(&self) -> (f64, f64) {
        match self.how {
            How::Exact => (self.value, self.value),
            How::Estimated { lo, hi } => (lo, hi),
        }
    }

    /// Half of the interval's width.
    pub fn half_width(&self) -> f64 {
        let (lo, hi) = self.interval();
        (hi - lo) / 2.0
    }

    /// The same figure within bounds. A value outside of them is clipped and no longer exact, and
    /// the interval contains it.
    #[must_use]
    pub(crate) fn clipped(self, least: f64, most: f64) -> Self {
        let value = self.value.clamp(least, most.max(least));
        if self.is_exact() && value == self.value {
            return self;
        }
        let (lo, hi) = self.interval();
        Self {
            value,
            how: How::Estimated { lo: lo.max(least).min(value), hi: hi.min(most).max(value) },
        }
    }

    /// Its mark for readers.
    pub fn mark(&self) -> Mark {
        let (lo, hi) = self.interval();
        match self.how {
            How::Exact => Mark::Exact,
            _ if lo <= 0.0 && hi > 0.0 => Mark::AtMost,
            _ if lo >= self.value && hi > self.value => Mark::AtLeast,
            _ if hi - lo <= NARROW * self.value => Mark::About,
            _ => Mark::Unsure,
        }
    }

    /// The value by which it is ranked: the lower end of its interval if the interval is wide.
    pub fn rank(&self) -> f64 {
        match self.mark() {
            Mark::Exact | Mark::About | Mark::AtLeast => self.value,
            Mark::Unsure | Mark::AtMost => self.interval().0,
        }
    }

    /// The sum of two independent figures.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let value = self.value + other.value;
        if self.is_exact() && other.is_exact() {
            return Self::exact(value);
        }
        // Each side separately: one may be a bound.
        let ((a, b), (c, d)) = (self.interval(), other.interval());
        let (below, above) =
            (hypot(self.value - a, other.value - c), hypot(b - self.value, d - other.value));
        let lo = (value - below).max(value.min(0.0));
        Self { value, how: How::Estimated { lo, hi: value + above } }
    }

    /// The same figure in another unit.
    #[must_use]
    pub fn scaled(&self, by: f64) -> Self {
        let how = match self.how {
            How::Exact => How::Exact,
            How::Estimated { lo, hi } => How::Estimated { lo: lo * by, hi: hi * by },
        };
        Self { value: self.value * by, how }
    }

    /// Whether its numbers are finite.
    pub fn is_sound(&self) -> bool {
        let (lo, hi) = self.interval();
        [self.value, lo, hi].iter().all(|value| value.is_finite())
    }
}

/// Student's factor for 95 %, by degrees of freedom.
pub(crate) fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13,
        2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04,
    ];
    match freedom {
        0 => f64::INFINITY,
        1..=30 => TABLE[freedom - 1],
        _ => 1.96 + 2.4 / freedom as f64,
    }
}

/// The product of two figures that are independent.
pub(crate) fn product(a: &Figure, b: &Figure) -> Figure {
    let value = a.value * b.value;
    if a.is_exact() && b.is_exact() {
        return Figure::exact(value);
    }
    let relative = |figure: &Figure| {
        if figure.value == 0.0 { 0.0 } else { figure.half_width() / figure.value.abs() }
    };
    Figure::estimated(value, value.abs() * hypot(relative(a), relative(b)), 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_stays_above_what_is_possible_and_holds_the_value() {
        let figure = Figure::estimated(5.0, 10.0, 0.0);
        assert_eq!(figure.interval(), (0.0, 15.0));
        assert_eq!(Figure::estimated(-1.0, 2.0, 0.0).interval(), (-1.0, 1.0));
        assert!(Figure::estimated(3.0, f64::INFINITY, 0.0).is_sound());
    }

    #[test]
    fn exact_and_estimated_make_estimated() {
        let sum = Figure::exact(3.0).plus(&Figure::estimated(4.0, 1.0, 0.0));
        assert_eq!((sum.value, sum.interval()), (7.0, (6.0, 8.0)));
        assert!(Figure::exact(1.0).plus(&Figure::exact(2.0)).is_exact());
    }

    #[test]
    fn marks_tell_what_an_interval_says() {
        let figure = |value, lo, hi| Figure { value, how: How::Estimated { lo, hi } };
        let marks = [(10.0, 8.0, 13.0), (10.0, 2.0, 13.0), (2.0, 0.0, 4.0), (10.0, 10.0, 90.0)];
        let marks = marks
            .map(|(value, lo, hi)| (figure(value, lo, hi).mark(), figure(value, lo, hi).rank()));
        assert_eq!(
            marks,
            [(Mark::About, 10.0), (Mark::Unsure, 2.0), (Mark::AtMost, 0.0), (Mark::AtLeast, 10.0)]
        );
        assert_eq!((Figure::exact(0.0).mark(), Figure::exact(0.0).rank()), (Mark::Exact, 0.0));
    }

    #[test]
    fn clipping_keeps_the_value_in_its_interval_and_exact_ones_that_fit() {
        assert_eq!(Figure::exact(5.0).clipped(0.0, 5.0), Figure::exact(5.0));
        assert_eq!(Figure::exact(5.0).clipped(0.0, 4.0).interval(), (4.0, 5.0_f64.min(4.0)));
        assert_eq!(Figure::estimated(-3.0, 5.0, f64::MIN).clipped(0.0, 9.0).interval(), (0.0, 2.0));
    }

    #[test]
    fn students_factor_falls_to_that_of_many() {
        assert!(student(1) > student(2) && student(30) >= student(31) && student(10_000) < 1.961);
    }
}
