//! Filters of system calls (seccomp(2)): what a filter that the program is about to install would
//! do with the profiler's calls.
//!
//! A filter may apply to all threads, the agent's among them, and may kill for a call that it does
//! not know. An installed filter cannot be queried. So the program's filter is executed here,
//! before it is installed, for every call that draining and writing a profile take. A filter that
//! refuses calls is tolerated, unless it refuses memory; one that kills ends the profile.
//!
//! Instructions are those of classic BPF that the kernel accepts in such filters
//! (`seccomp_check_filter`, kernel/seccomp.c).

/// An instruction (`struct sock_filter`, linux/filter.h).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    code: u16,
    then: u8,
    otherwise: u8,
    k: u32,
}

/// The longest filter that the kernel takes (BPF_MAXINSNS).
pub(super) const LONGEST: usize = 4096;

/// A call: its number, and the arguments that it is made with. Addresses are arbitrary.
type Call = (libc::c_long, [u64; 6]);

const AT: u64 = 0x7f00_0000_1000;
const PAGES: u64 = 1 << 16;
const READ_WRITE: u64 = (libc::PROT_READ | libc::PROT_WRITE) as u64;
const PRIVATE: u64 = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
const CREATE: u64 =
    (libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY | libc::O_CLOEXEC | libc::O_NOFOLLOW) as u64;
const HERE: u64 = libc::AT_FDCWD as u64;
const NOWHERE: u64 = u32::MAX as u64;
const WAIT: u64 = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as u64;
const WAKE: u64 = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as u64;

/// The calls that are made between one look and the next, and when the profile is written.
const CALLS: &[Call] = &[
    (libc::SYS_clock_gettime, [libc::CLOCK_THREAD_CPUTIME_ID as u64, AT, 0, 0, 0, 0]),
    (libc::SYS_clock_gettime, [libc::CLOCK_MONOTONIC as u64, AT, 0, 0, 0, 0]),
    (libc::SYS_clock_nanosleep, [libc::CLOCK_MONOTONIC as u64, 0, AT, AT, 0, 0]),
    (libc::SYS_close, [3, 0, 0, 0, 0, 0]),
    (libc::SYS_exit, [0; 6]),
    (libc::SYS_fcntl, [3, libc::F_GETFD as u64, 0, 0, 0, 0]),
    (libc::SYS_fstat, [3, AT, 0, 0, 0, 0]),
    (libc::SYS_fsync, [3, 0, 0, 0, 0, 0]),
    (libc::SYS_futex, [AT, WAIT, 0, AT, 0, 0]),
    (libc::SYS_futex, [AT, WAKE, 1, 0, 0, 0]),
    (libc::SYS_getpid, [0; 6]),
    (libc::SYS_getppid, [0; 6]),
    (libc::SYS_getrlimit, [libc::RLIMIT_FSIZE as u64, AT, 0, 0, 0, 0]),
    (libc::SYS_gettid, [0; 6]),
    (libc::SYS_lseek, [3, 0, 0, 0, 0, 0]),
    (libc::SYS_lstat, [AT, AT, 0, 0, 0, 0]),
    (libc::SYS_madvise, [AT, PAGES, libc::MADV_DONTNEED as u64, 0, 0, 0]),
    (libc::SYS_mmap, [0, PAGES, READ_WRITE, PRIVATE, NOWHERE, 0]),
    (libc::SYS_munmap, [AT, PAGES, 0, 0, 0, 0]),
    (libc::SYS_nanosleep, [AT, 0, 0, 0, 0, 0]),
    (libc::SYS_open, [AT, libc::O_RDONLY as u64, 0, 0, 0, 0]),
    (libc::SYS_open, [AT, CREATE, 0o600, 0, 0, 0]),
    (libc::SYS_openat, [HERE, AT, CREATE, 0o600, 0, 0]),
    (libc::SYS_read, [3, AT, PAGES, 0, 0, 0]),
    (libc::SYS_readlink, [AT, AT, PAGES, 0, 0, 0]),
    (libc::SYS_rename, [AT, AT, 0, 0, 0, 0]),
    (libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as u64, AT, 0, 8, 0, 0]),
    (libc::SYS_rt_sigprocmask, [libc::SIG_BLOCK as u64, AT, AT, 8, 0, 0]),
    (libc::SYS_sched_yield, [0; 6]),
    (libc::SYS_sigaltstack, [0, AT, 0, 0, 0, 0]),
    (libc::SYS_stat, [AT, AT, 0, 0, 0, 0]),
    (libc::SYS_statx, [HERE, AT, 0, 0xfff, AT, 0]),
    (libc::SYS_unlink, [AT, 0, 0, 0, 0, 0]),
    (libc::SYS_write, [3, AT, PAGES, 0, 0, 0]),
];

/// Whether a filter ends the process, or the thread, or hands over to a supervisor, for one of the
/// profiler's calls; or refuses memory.
pub(super) fn kills(filter: &[Instruction]) -> bool {
    CALLS.iter().any(|call| is_deadly(call, verdict(filter, call)))
}

fn is_deadly(call: &Call, verdict: u32) -> bool {
    const ACTION: u32 = 0xffff_0000;
    if call.0 == libc::SYS_mmap && verdict & ACTION == libc::SECCOMP_RET_ERRNO {
        return true;
    }
    // A trap's signal is blocked on the agent's thread, so the kernel kills the process for it.
    const LIVED_WITH: [u32; 4] = [
        libc::SECCOMP_RET_ALLOW,
        libc::SECCOMP_RET_ERRNO,
        libc::SECCOMP_RET_LOG,
        libc::SECCOMP_RET_TRACE,
    ];
    !LIVED_WITH.contains(&(verdict & ACTION))
}

/// A filter's answer to a call; killing, if the filter is invalid.
fn verdict(filter: &[Instruction], call: &Call) -> u32 {
    run(filter, &described(call)).unwrap_or(libc::SECCOMP_RET_KILL_PROCESS)
}

/// The words that a filter reads (`struct seccomp_data`, linux/seccomp.h).
fn described(&(number, arguments): &Call) -> [u32; 16] {
    const X86_64: u32 = 0xc000_003e;
    let mut words = [0; 16];
    // The address that it is made from is arbitrary.
    [words[0], words[1], words[2], words[3]] =
        [number as u32, X86_64, AT as u32, (AT >> 32) as u32];
    for (at, argument) in arguments.into_iter().enumerate() {
        [words[4 + 2 * at], words[5 + 2 * at]] = [argument as u32, (argument >> 32) as u32];
    }
    words
}

fn run(filter: &[Instruction], data: &[u32; 16]) -> Option<u32> {
    let (mut a, mut x, mut memory, mut at) = (0u32, 0u32, [0u32; 16], 0usize);
    loop {
        let Instruction { code, then, otherwise, k } = *filter.get(at)?;
        at += 1;
        let (class, operand) = (code & 0x07, if code & 0x08 == 0 { k } else { x });
        match class {
            // LD, LDX: of the data, of a number, of the length of the data, of the scratch memory.
            0 | 1 => {
                let value = match code & 0xe0 {
                    0x00 => k,
                    0x20 => *data.get(k as usize / 4)?,
                    0x60 => *memory.get(k as usize)?,
                    0x80 => size_of_val(data) as u32,
                    _ => return None,
                };
                *(if class == 0 { &mut a } else { &mut x }) = value;
            }
            // ST, STX.
            2 | 3 => *memory.get_mut(k as usize)? = if class == 2 { a } else { x },
            4 => a = calculated(code & 0xf0, a, operand)?,
            // JMP: always, if equal, greater, no less, if a bit is set.
            5 => {
                let holds = match code & 0xf0 {
                    0x00 => {
                        at = at.checked_add(k as usize)?;
                        continue;
                    }
                    0x10 => a == operand,
                    0x20 => a > operand,
                    0x30 => a >= operand,
                    0x40 => a & operand != 0,
                    _ => return None,
                };
                at += usize::from(if holds { then } else { otherwise });
            }
            // RET: a number, or A.
            6 => return Some(if code & 0x18 == 0x10 { a } else { k }),
            // MISC: A to X, X to A.
            _ => {
                if code & 0xf8 == 0x80 {
                    a = x;
                } else {
                    x = a;
                }
            }
        }
    }
}

fn calculated(operation: u16, a: u32, by: u32) -> Option<u32> {
    Some(match operation {
        0x00 => a.wrapping_add(by),
        0x10 => a.wrapping_sub(by),
        0x20 => a.wrapping_mul(by),
        0x30 => a.checked_div(by)?,
        0x40 => a | by,
        0x50 => a & by,
        0x60 => a.wrapping_shl(by),
        0x70 => a.wrapping_shr(by),
        0x80 => a.wrapping_neg(),
        0xa0 => a ^ by,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(code: u32, k: u32, then: u8, otherwise: u8) -> Instruction {
        Instruction { code: code as u16, then, otherwise, k }
    }

    fn load(word: u32) -> Instruction {
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, word * 4, 0, 0)
    }

    fn is(value: u32, then: u8, otherwise: u8) -> Instruction {
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, then, otherwise)
    }

    fn answer(verdict: u32) -> Instruction {
        step(libc::BPF_RET | libc::BPF_K, verdict, 0, 0)
    }

    #[test]
    fn a_filter_that_kills_for_one_of_our_calls_is_told_from_one_that_refuses_or_kills_for_others()
    {
        let for_one = |number: libc::c_long, verdict| {
            kills(&[
                load(0),
                is(number as u32, 0, 1),
                answer(verdict),
                answer(libc::SECCOMP_RET_ALLOW),
            ])
        };
        for (number, _) in CALLS {
            for deadly in [
                libc::SECCOMP_RET_KILL_PROCESS,
                libc::SECCOMP_RET_KILL_THREAD,
                libc::SECCOMP_RET_TRAP,
            ] {
                assert!(for_one(*number, deadly), "{number}");
            }
            assert_eq!(
                for_one(*number, libc::SECCOMP_RET_ERRNO | 1),
                *number == libc::SYS_mmap,
                "{number}"
            );
        }
        assert!(!for_one(libc::SYS_ptrace, libc::SECCOMP_RET_KILL_PROCESS));
        assert!(
            !kills(&[answer(libc::SECCOMP_RET_ALLOW)])
                && kills(&[answer(libc::SECCOMP_RET_KILL_PROCESS)])
        );
    }

    #[test]
    fn arguments_are_looked_at_too() {
        // Mappings that can be executed die, and opening for writing does.
        let by_argument = |number: libc::c_long, word: u32, bits: libc::c_int| {
            let set = step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, bits as u32, 0, 1);
            kills(&[
                load(0),
                is(number as u32, 0, 3),
                load(word),
                set,
                answer(0),
                answer(libc::SECCOMP_RET_ALLOW),
            ])
        };
        assert!(!by_argument(libc::SYS_mmap, 8, libc::PROT_EXEC));
        assert!(by_argument(libc::SYS_open, 6, libc::O_WRONLY));
    }

    #[test]
    fn the_scratch_memory_the_other_register_and_arithmetic_are_carried_out() {
        let (ld, ldx) = (libc::BPF_LD, libc::BPF_LDX);
        let filter = [
            load(1),
            step(libc::BPF_ST, 3, 0, 0),
            step(ldx | libc::BPF_MEM, 3, 0, 0),
            step(libc::BPF_MISC | libc::BPF_TXA, 0, 0, 0),
            step(libc::BPF_ALU | libc::BPF_SUB | libc::BPF_X, 0, 0, 0),
            step(libc::BPF_ALU | libc::BPF_OR | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
            step(libc::BPF_JMP | libc::BPF_JA, 1, 0, 0),
            answer(0),
            step(libc::BPF_RET | libc::BPF_A, 0, 0, 0),
        ];
        assert!(!kills(&filter));
        assert_eq!(
            run(
                &[
                    step(ld | libc::BPF_W | libc::BPF_LEN, 0, 0, 0),
                    step(libc::BPF_RET | libc::BPF_A, 0, 0, 0)
                ],
                &[0; 16]
            ),
            Some(64)
        );
    }

    #[test]
    fn what_is_no_filter_counts_as_deadly() {
        assert!(
            kills(&[]) && kills(&[load(0)]) && kills(&[load(100), answer(libc::SECCOMP_RET_ALLOW)])
        );
        assert!(kills(&[step(libc::BPF_JMP | libc::BPF_JA, u32::MAX, 0, 0)]));
    }
}
