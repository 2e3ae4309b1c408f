//! Shares of CPU time: a column that adds up to 100 %.
//!
//! The whole is the sum of self times, time in the kernel that no function is charged for, and time
//! whose function is not known. If the sum is less than the CPU time of the program, the rest is
//! unknown as well. If it is more, since calls were timed by the wall clock, the sum is the whole.

use crate::figure::Figure;
use crate::profile::{Function, Profile};

/// The row of time in the kernel.
pub(crate) const SYSTEM: &str = "[system]";
/// The row of time whose function is not known.
pub(crate) const UNKNOWN: &str = "[unknown]";

/// The whole that shares are relative to, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shares {
    pub(crate) whole: f64,
    pub(crate) system: f64,
    pub(crate) unknown: f64,
}

impl Shares {
    /// `None` if no function's self time is known.
    pub(crate) fn of(profile: &Profile) -> Option<Self> {
        let header = &profile.header;
        let sound = |seconds: f64| if seconds.is_finite() { seconds.max(0.0) * 1e9 } else { 0.0 };
        if profile.functions.iter().all(|function| function.own.is_none()) {
            return None;
        }
        let own: f64 = profile.functions.iter().map(own_time).sum();
        let system = sound(header.system);
        let whole = (own + system + sound(header.unknown)).max(sound(header.processor));
        (whole > 0.0).then(|| Self { whole, system, unknown: (whole - own - system).max(0.0) })
    }

    /// A function's share.
    pub(crate) fn share(&self, function: &Function) -> Option<Figure> {
        function.own.filter(Figure::is_sound).map(|own| own.scaled(1.0 / self.whole))
    }

    /// The rows that are not functions, with their times.
    pub(crate) fn others(&self) -> impl Iterator<Item = (&'static str, f64)> {
        // Less than a nanosecond is a rounding error.
        [(SYSTEM, self.system), (UNKNOWN, self.unknown)]
            .into_iter()
            .filter(|(_, time)| *time >= 1.0)
    }
}

/// A function's self time; 0 if unknown.
pub(crate) fn own_time(function: &Function) -> f64 {
    function.own.filter(Figure::is_sound).map_or(0.0, |own| own.value.max(0.0))
}

/// The share of its calls' time in which a function waited: wall-clock time without CPU time.
/// Without self times no CPU time was measured, and the share is unknown, too.
pub(crate) fn waiting(function: &Function) -> Option<Figure> {
    let (wall, total) = (function.wall?, function.total?);
    // If both are the same figure, no evidence distinguishes them.
    if wall.value <= 0.0 || wall == total || function.is_wall_a_bound() {
        return None;
    }
    let part =
        |total: f64, wall: f64| if wall > 0.0 { (1.0 - total / wall).clamp(0.0, 1.0) } else { 0.0 };
    let value = part(total.value, wall.value);
    if wall.is_exact() && total.is_exact() {
        return Some(Figure::exact(value));
    }
    let ((least, most), (wall_lo, wall_hi)) = (total.interval(), wall.interval());
    Some(Figure {
        value,
        how: crate::How::Estimated {
            lo: part(most, wall_lo).min(value),
            hi: part(least, wall_hi).max(value),
        },
    })
}
