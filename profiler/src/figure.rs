//! Figures: values that say what they are.

use serde::{Deserialize, Serialize};

/// A value, and how it is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The value.
    pub value: f64,
    /// How it is known.
    #[serde(flatten)]
    pub how: How,
}

/// How a value is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "lowercase")]
pub enum How {
    /// Everything was seen.
    Exact,
    /// A part was seen: the interval holds the truth in 95 of 100 cases.
    Estimated {
        /// Where it begins.
        lo: f64,
        /// Where it ends.
        hi: f64,
    },
}

impl Figure {
    /// One that was seen.
    pub const fn exact(value: f64) -> Self {
        Self { value, how: How::Exact }
    }

    /// One whose standard error is known; never below `least`.
    pub fn estimated(value: f64, half_width: f64, least: f64) -> Self {
        let half_width = if half_width.is_finite() { half_width } else { value.abs() };
        Self { value, how: How::Estimated { lo: (value - half_width).max(least.min(value)), hi: value + half_width } }
    }

    /// The same with an interval that ends later by so much.
    pub(crate) fn with_more_above(self, more: f64) -> Self {
        match self.how {
            How::Exact => self,
            How::Estimated { lo, hi } => Self { how: How::Estimated { lo, hi: hi + more }, ..self },
        }
    }

    /// Whether everything was seen.
    pub fn is_exact(&self) -> bool {
        self.how == How::Exact
    }

    /// The interval; of no width where the value is exact.
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

    /// The sum of two that are independent.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let value = self.value + other.value;
        if self.is_exact() && other.is_exact() {
            return Self::exact(value);
        }
        Self::estimated(value, self.half_width().hypot(other.half_width()), 0.0)
    }

    /// The same in another unit.
    #[must_use]
    pub fn scaled(&self, by: f64) -> Self {
        let how = match self.how {
            How::Exact => How::Exact,
            How::Estimated { lo, hi } => How::Estimated { lo: lo * by, hi: hi * by },
        };
        Self { value: self.value * by, how }
    }

    /// Whether its numbers are numbers.
    pub fn is_sound(&self) -> bool {
        let (lo, hi) = self.interval();
        [self.value, lo, hi].iter().all(|value| value.is_finite())
    }
}

/// Student's factor for 95 %, by degrees of freedom.
pub(crate) fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09,
        2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04,
    ];
    match freedom {
        0 => f64::INFINITY,
        1..=30 => TABLE[freedom - 1],
        _ => 1.96 + 2.4 / freedom as f64,
    }
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
    fn students_factor_falls_to_that_of_many() {
        assert!(student(1) > student(2) && student(30) >= student(31) && student(10_000) < 1.961);
    }
}
