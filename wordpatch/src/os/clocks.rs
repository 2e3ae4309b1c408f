//! CPU-time clocks of a thread and of the process, and the monotonic clock. Nothing here allocates.

use super::threads::Tid;
use std::time::Duration;

fn read(clock: libc::clockid_t) -> Option<Duration> {
    // SAFETY: (1) a time to write to. A direct system call: some programs define clock_gettime, to
    // change the time that they see.
    let (result, time) = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        (libc::syscall(libc::SYS_clock_gettime, clock, &raw mut time), time)
    };
    (result == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// The CPU time of a thread of this process; `None` if it has ended. Up to date for threads on
/// other processors, too. Usable in a signal handler. The clock's ID is computed as in
/// pthread_getcpuclockid(3).
pub fn of_thread(thread: Tid) -> Option<Duration> {
    read((!thread.0).wrapping_shl(3) | 6)
}

/// The CPU time of the calling thread.
pub fn of_caller() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or_default()
}

/// The CPU time of all threads, including ended ones. The time of threads that run on other
/// processors may lag by up to a scheduler tick.
pub fn of_process() -> Duration {
    read(libc::CLOCK_PROCESS_CPUTIME_ID).unwrap_or_default()
}

/// The monotonic clock (CLOCK_MONOTONIC), in nanoseconds.
pub fn monotonic() -> u64 {
    read(libc::CLOCK_MONOTONIC).map_or(0, |time| time.as_nanos() as u64)
}

/// User time and system time of the process, or of the calling thread, as sampled by the
/// scheduler's ticks.
pub fn split(caller_only: bool) -> (Duration, Duration) {
    let who = if caller_only { libc::RUSAGE_THREAD } else { libc::RUSAGE_SELF };
    // SAFETY: (1) a record to write to.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        // A direct system call: a program may define the function.
        libc::syscall(libc::SYS_getrusage, who, &raw mut usage);
        usage
    };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    (time(usage.ru_utime), time(usage.ru_stime))
}

/// Whether the calling thread may read the time stamp counter (prctl(2), PR_SET_TSC): if it may
/// not, the instruction faults.
pub fn has_counter() -> bool {
    let mut mode = libc::PR_TSC_ENABLE;
    // SAFETY: (1) a number to write to. A direct system call: some programs define prctl.
    let result =
        unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_TSC, &raw mut mode, 0, 0, 0) };
    result != 0 || mode == libc::PR_TSC_ENABLE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::threads::{current, lives};

    #[test]
    fn another_threads_clock_is_read_until_it_ends() {
        let here = current();
        let seen = std::thread::spawn(move || of_thread(here)).join().unwrap();
        assert!(seen.unwrap() <= of_caller());
        assert!(of_process() > Duration::ZERO);
        let gone = std::thread::spawn(current).join().unwrap();
        while lives(gone) {
            super::super::threads::give_way();
        }
        assert_eq!(of_thread(gone), None);
    }
}
