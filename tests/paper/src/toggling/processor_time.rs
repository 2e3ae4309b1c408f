//! How long the executers have worked.
//!
//! Where there are more threads than processors, and where others use the machine, passes in a
//! second show which thread was given a CPU. Passes in a second of the executers' own CPU time show
//! what toggling costs them.
//!
//! # Safety
//!
//! This module exists to ask the system for two of its clocks.
#![allow(unsafe_code)]

use std::io;

/// Nanoseconds of processor time so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    /// By the calling thread.
    pub(super) own: u64,
    /// By all other threads of this process.
    pub(super) others: u64,
}

pub(super) fn spent() -> io::Result<Spent> {
    // The own clock first: what is spent in between is then at most added to the others.
    let own = clock(libc::CLOCK_THREAD_CPUTIME_ID)?;
    Ok(Spent { own, others: clock(libc::CLOCK_PROCESS_CPUTIME_ID)?.saturating_sub(own) })
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

    fn work(long: Duration) {
        let start = clock(libc::CLOCK_THREAD_CPUTIME_ID).unwrap();
        while u128::from(clock(libc::CLOCK_THREAD_CPUTIME_ID).unwrap() - start) < long.as_nanos() {}
    }

    #[test]
    fn ones_own_work_and_the_work_of_others_are_told_apart() {
        let long = Duration::from_millis(20);
        let before = spent().unwrap();
        std::thread::spawn(move || work(long)).join().unwrap();
        let between = spent().unwrap();
        assert!(u128::from(between.others - before.others) >= long.as_nanos());
        work(long);
        assert!(u128::from(spent().unwrap().own - between.own) >= long.as_nanos());
    }
}
