//! Which processors a thread may run on.

use super::{OsError, check};
use std::fmt;
use std::mem::MaybeUninit;

/// A processor, by the kernel's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpu(pub usize);

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The processors that the calling thread may run on.
pub fn allowed() -> Result<Vec<Cpu>, OsError> {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: (1) the set is valid for the size given and all-zero is a valid set; (2) thread 0 is
    // the caller.
    let set = unsafe {
        check(
            "sched_getaffinity",
            libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr()).into(),
        )?;
        set.assume_init()
    };
    // SAFETY: (1) every number is below the set's size.
    Ok((0..libc::CPU_SETSIZE as usize)
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .map(Cpu)
        .collect())
}

/// Restricts the calling thread to these processors.
pub fn keep_to(cpus: &[Cpu]) -> Result<(), OsError> {
    // SAFETY: (1) all-zero is a valid, empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in cpus.iter().filter(|cpu| cpu.0 < libc::CPU_SETSIZE as usize) {
        // SAFETY: (1) the number is below the set's size.
        unsafe { libc::CPU_SET(cpu.0, &mut set) };
    }
    // SAFETY: (1) the set is valid for the size given; (2) thread 0 is the caller.
    check(
        "sched_setaffinity",
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) }.into(),
    )
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_it_is_put() {
        std::thread::spawn(|| {
            for cpu in allowed().unwrap() {
                keep_to(&[cpu]).unwrap();
                assert_eq!(allowed().unwrap(), [cpu]);
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn nowhere_is_no_place_to_stay() {
        assert_eq!(keep_to(&[]).unwrap_err().errno, libc::EINVAL);
    }
}
