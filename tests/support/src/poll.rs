//! Waiting for something that another thread or process does.

use std::time::{Duration, Instant};

/// Nothing in a test takes as long, unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// How long a poll rests.
pub(crate) const REST: Duration = Duration::from_millis(2);

/// Whether it is so before the time is over: asks again and again.
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

/// Waits until it is so.
///
/// # Panics
/// If it is not so after [`PATIENCE`].
#[track_caller]
pub fn eventually(what: &str, is_so: impl FnMut() -> bool) {
    assert!(within(PATIENCE, is_so), "not after {PATIENCE:?}: {what}");
}
