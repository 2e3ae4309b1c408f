//! `fastinst report --follow`: a profile is printed again whenever its file has been replaced.
//!
//! `fastinst run --interval` and the preload library replace the file as a whole, so a reader
//! always gets a whole file. The file's inode and time are cheap enough to be read five times a
//! second.

use super::Failure;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The interval at which the file is checked.
const PAUSE: Duration = Duration::from_millis(200);

/// The identity of a version of a file.
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
                // It may have been replaced between the two checks, or not be whole yet.
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
