//! `fastinst report --follow`: a profile is printed again whenever its file has been replaced.
//!
//! `fastinst run --interval` and the preload library replace the file as a whole, so that what is
//! read is whole, too. A look at the file's number and time is cheap enough to be taken five times
//! a second.

use super::Failure;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the file is looked at.
const PAUSE: Duration = Duration::from_millis(200);

/// What a file is the same by.
type Version = (u64, u64, i64, i64);

fn version(path: &Path) -> Option<Version> {
    let data = std::fs::metadata(path).ok()?;
    Some((data.dev(), data.ino(), data.mtime(), data.mtime_nsec()))
}

/// Calls `show` for every version of the file that is seen, until the time is over or it fails
/// twice for one version.
pub(crate) fn follow(
    path: &Path,
    limit: Option<Duration>,
    mut show: impl FnMut() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let start = Instant::now();
    let mut shown = None;
    let mut failed: Option<Version> = None;
    if version(path).is_none() {
        let _ = writeln!(std::io::stderr(), "fastinst: waiting for {}", path.display());
    }
    loop {
        let now = version(path);
        if now.is_some() && now != shown {
            match show() {
                Ok(()) => shown = now,
                // It may have been replaced between the two looks, or not be whole yet.
                Err(Failure::Read { .. }) if failed != now => failed = now,
                Err(failure) => return Err(failure),
            }
        }
        let left = limit.map_or(PAUSE, |limit| limit.saturating_sub(start.elapsed()));
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(PAUSE));
    }
}
