//! Waits for conditions that other threads or processes cause.

use std::time::{Duration, Instant};

/// No step of a test takes this long, unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// The interval between polls.
pub(crate) const REST: Duration = Duration::from_millis(2);

/// Polls a condition; returns whether it holds before the time is over.
pub fn within(time: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + time;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(REST);
    }
}

/// Waits until a condition holds.
///
/// # Panics
/// If it does not hold after [`PATIENCE`].
#[track_caller]
pub fn eventually(what: &str, is_so: impl FnMut() -> bool) {
    assert!(within(PATIENCE, is_so), "not after {PATIENCE:?}: {what}");
}
