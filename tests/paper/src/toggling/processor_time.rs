//! The CPU time of the executing threads.
//!
//! If there are more threads than processors, or other processes use the machine, passes per second
//! show which threads had a CPU. Passes per second of the executing threads' own CPU time show the
//! cost of toggling.
//!
//! # Safety
//!
//! This module exists to read two clocks of the system.
#![allow(unsafe_code)]

use std::io;

/// The CPU time so far, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    /// Of the calling thread.
    pub(super) own: u64,
    /// Of all other threads of this process.
    pub(super) others: u64,
}

pub(super) fn spent() -> io::Result<Spent> {
    // The own clock is read first: CPU time in between is then added to the others at most.
    let own = clock(libc::CLOCK_THREAD_CPUTIME_ID)?;
    Ok(Spent { own, others: clock(libc::CLOCK_PROCESS_CPUTIME_ID)?.saturating_sub(own) })
}

fn clock(which: libc::clockid_t) -> io::Result<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: (1) the system writes one `timespec` to a valid place.
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
