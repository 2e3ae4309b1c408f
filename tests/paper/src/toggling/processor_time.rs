//! How long the executers have worked.
//!
//! Where there are more threads than processors, and where others use the machine, passes in a second tell who was given a processor.
//! Passes in a second of the executers' own processor time tell what toggling costs them.
//!
//! # Safety
//!
//! This module exists to ask the system for two of its clocks.
#![allow(unsafe_code)]

use std::io;

/// Nanoseconds that all threads of this process but the calling one have worked so far.
pub(super) fn of_others() -> io::Result<u64> {
    // The own clock first: what is spent in between is then at most added to the others.
    let own = clock(libc::CLOCK_THREAD_CPUTIME_ID)?;
    Ok(clock(libc::CLOCK_PROCESS_CPUTIME_ID)?.saturating_sub(own))
}

fn clock(which: libc::clockid_t) -> io::Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: (1) the system writes one `timespec`, to where one is.
    match unsafe { libc::clock_gettime(which, &raw mut time) } {
        0 => Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_work_of_others_counts_and_ones_own_does_not() {
        let before = of_others().unwrap();
        let worked = std::thread::spawn(|| {
            let start = clock(libc::CLOCK_THREAD_CPUTIME_ID).unwrap();
            let long = Duration::from_millis(20).as_nanos() as u64;
            while clock(libc::CLOCK_THREAD_CPUTIME_ID).unwrap() - start < long {}
            long
        });
        let long = worked.join().unwrap();
        assert!(of_others().unwrap() - before >= long);
    }
}
