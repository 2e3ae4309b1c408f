//! The threads of this process, from /proc. Nothing here allocates, since the signal barrier and
//! the trap handler use it, too.

use super::{OsError, check, files};
use std::ffi::CStr;
use std::fmt::{self, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicU32;

/// The kernel's ID of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tid(pub i32);

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The calling thread. Usable in a signal handler.
pub fn current() -> Tid {
    // SAFETY: (1) gettid has no arguments and cannot fail.
    Tid(unsafe { libc::syscall(libc::SYS_gettid) } as i32)
}

/// The process ID.
pub fn process() -> i32 {
    // SAFETY: (1) getpid has no arguments and cannot fail.
    unsafe { libc::getpid() }
}

/// Sleeps for some tens of microseconds. Usable in a signal handler.
pub fn pause() {
    let moment = libc::timespec { tv_sec: 0, tv_nsec: 50_000 };
    // SAFETY: (1) a time to read; the remaining time does not matter.
    unsafe { libc::nanosleep(&raw const moment, std::ptr::null_mut()) };
}

/// Yields the rest of the time slice. Usable in a signal handler.
pub fn give_way() {
    // SAFETY: (1) sched_yield has no arguments and touches no memory.
    unsafe { libc::sched_yield() };
}

/// Sleeps while `word` holds `value`, until [`wake`] is called for it; may return early.
pub fn sleep_while(word: &AtomicU32, value: u32) {
    let no_timeout = std::ptr::null::<libc::timespec>();
    // SAFETY: (1) the word lives across the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            no_timeout,
        )
    };
}

/// As [`sleep_while`], and no longer than `patience`.
pub fn sleep_while_for(word: &AtomicU32, value: u32, patience: std::time::Duration) {
    let timeout = libc::timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    };
    // SAFETY: (1) the word and the time live across the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            &raw const timeout,
        )
    };
}

/// Wakes one thread that sleeps on `word`. Usable in a signal handler.
pub fn wake(word: &AtomicU32) {
    wake_some(word, 1);
}

/// Wakes all threads that sleep on `word`. Usable in a signal handler.
pub fn wake_all(word: &AtomicU32) {
    wake_some(word, i32::MAX);
}

fn wake_some(word: &AtomicU32, most: i32) {
    // SAFETY: (1) the word lives across the call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            most,
        )
    };
}

/// Whether the C library has set up the calling thread; it has not set up a child that shares its
/// parent's memory. The kernel clears the address of the robust-lock list in every child, and the C
/// library sets it again for threads and after a fork. Usable in a signal handler.
pub fn is_set_up() -> bool {
    !matches!(robust_list(0), Some(list) if list.is_null())
}

/// The address of that list for a thread (zero for the calling one), if the kernel reports it.
fn robust_list(thread: i32) -> Option<*const libc::c_void> {
    let (mut head, mut len) = (std::ptr::null::<libc::c_void>(), 0usize);
    // SAFETY: (1) two words to write.
    let result =
        unsafe { libc::syscall(libc::SYS_get_robust_list, thread, &raw mut head, &raw mut len) };
    (result == 0).then_some(head)
}

/// Whether the process's first thread has ended while others live on. Detected without opening a
/// file: the kernel clears the address of an ended thread's robust-lock list (get_robust_list(2)),
/// which the C library sets for every thread.
pub fn first_has_ended() -> bool {
    matches!(robust_list(process()), Some(list) if list.is_null())
}

/// Whether the calling thread is the last one, apart from the process's first, which has ended.
pub fn is_last_but_first() -> bool {
    let (this, first) = (current(), Tid(process()));
    let mut others = 0;
    let listed = each(|thread| others += u32::from(thread != this && thread != first));
    listed.is_ok() && others == 0
}

/// The status with which the process's first thread has ended; `None` if that is hidden, or it has
/// not ended.
pub fn status_of_first() -> Option<i32> {
    let path = Text::new(format_args!("/proc/self/task/{}/stat", process()));
    let mut buffer = [0; 2048];
    let text = files::read_start(path.as_c_str(), &mut buffer).ok()?;
    // The last field (proc_pid_stat(5)), in the format of wait(2).
    let last = text.trim_ascii_end().rsplit(|&byte| byte == b' ').next()?;
    let status: i32 = std::str::from_utf8(last).ok()?.parse().ok()?;
    Some(libc::WEXITSTATUS(status))
}

/// Ends the calling thread at once, without the C library. The last thread's status becomes the
/// process's.
pub fn end(status: i32) -> ! {
    loop {
        // SAFETY: (1) a number; (2) the caller holds nothing that other threads wait for.
        unsafe { libc::syscall(libc::SYS_exit, status) };
    }
}

/// Starts a detached thread with that name. It uses only `pthread_create` of the C library, and
/// nothing of the standard library, which would look up functions by name.
///
/// `stack` is enlarged if the program's thread-local data, which is on the stack, too, leaves too
/// little space.
pub fn start(
    name: &'static CStr,
    stack: usize,
    work: impl FnOnce() + Send + 'static,
) -> Result<(), OsError> {
    const LARGEST: usize = 1 << 28;
    let work = Box::into_raw(Box::new(Start { name, work: Box::new(work) }));
    let mut stack = stack;
    let result = loop {
        // SAFETY: (1) attributes that are made, used and destroyed here; (2) `begin` takes the
        // argument that it gets.
        let result = unsafe {
            let mut attributes = std::mem::zeroed();
            let mut thread = std::mem::zeroed();
            libc::pthread_attr_init(&raw mut attributes);
            libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
            libc::pthread_attr_setstacksize(&raw mut attributes, stack);
            let result =
                libc::pthread_create(&raw mut thread, &raw const attributes, begin, work.cast());
            libc::pthread_attr_destroy(&raw mut attributes);
            result
        };
        if result != libc::EINVAL || stack >= LARGEST {
            break result;
        }
        stack *= 2;
    };
    if result == 0 {
        return Ok(());
    }
    // SAFETY: (1) made above, and passed to no other code.
    drop(unsafe { Box::from_raw(work) });
    Err(OsError { call: "pthread_create", errno: result })
}

/// The arguments of a thread.
struct Start {
    name: &'static CStr,
    work: Box<dyn FnOnce() + Send>,
}

extern "C" fn begin(start: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: (1) made by `start`, for this thread alone.
    let Start { name, work } = *unsafe { Box::from_raw(start.cast::<Start>()) };
    // SAFETY: (1) a static string.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
    // A panic is caught: a thread must not unwind into the C library. Threads that wait for its
    // work must notice that themselves.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    std::ptr::null_mut()
}

/// Calls `visit` for every thread of the process. Usable in a signal handler.
pub fn each(mut visit: impl FnMut(Tid)) -> Result<(), OsError> {
    // A linux_dirent64 has 19 bytes and a zero-terminated name (getdents(2)); a page holds over a
    // hundred.
    const NAME: usize = 19;
    #[repr(align(8))]
    struct Entries([u8; 4096]);
    let directory = files::open(c"/proc/self/task")?;
    let mut entries = Entries([0; 4096]);
    loop {
        // SAFETY: (1) the buffer is writable for the length given.
        let n = unsafe {
            libc::syscall(
                libc::SYS_getdents64,
                directory.as_raw_fd(),
                entries.0.as_mut_ptr(),
                entries.0.len(),
            )
        };
        let filled = check("getdents64", n)? as usize;
        if filled == 0 {
            return Ok(());
        }
        let mut at = 0;
        while at + NAME <= filled {
            let length = usize::from(u16::from_le_bytes([entries.0[at + 16], entries.0[at + 17]]));
            if let Some(tid) = number(&entries.0[at + NAME..filled]) {
                visit(Tid(tid as i32));
            }
            at += length;
        }
    }
}

/// The digits at the beginning of `text`.
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit());
    let mut value = None;
    for digit in digits {
        value = Some(value.unwrap_or(0u64).wrapping_mul(10) + u64::from(digit - b'0'));
    }
    value
}

/// A path or a line that is built on the stack.
struct Text {
    bytes: [u8; 64],
    len: usize,
}

impl Text {
    fn new(parts: fmt::Arguments<'_>) -> Self {
        let mut text = Self { bytes: [0; 64], len: 0 };
        // Sixty-four bytes hold every path that this file builds, so the write always fits.
        let _ = text.write_fmt(parts);
        text
    }

    fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

impl Write for Text {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let end = self.len + part.len();
        if end >= self.bytes.len() {
            return Err(fmt::Error);
        }
        self.bytes[self.len..end].copy_from_slice(part.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// The field `name` of a thread's status (proc_pid_status(5)), read in the given base.
fn status_field(thread: Tid, name: &str, hexadecimal: bool) -> Result<Option<u64>, OsError> {
    let path = Text::new(format_args!("/proc/self/task/{thread}/status"));
    let mut buffer = [0; 4096];
    let status = files::read_start(path.as_c_str(), &mut buffer)?;
    let line = status.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(name.as_bytes()));
    let Some(value) = line.map(<[u8]>::trim_ascii_start) else { return Ok(None) };
    if !hexadecimal {
        return Ok(number(value));
    }
    Ok(std::str::from_utf8(value.trim_ascii()).ok().and_then(|v| u64::from_str_radix(v, 16).ok()))
}

/// Whether a thread of this process is running or runnable now, and not waiting in a system call.
pub fn runs(thread: Tid) -> bool {
    let path = Text::new(format_args!("/proc/self/task/{thread}/stat"));
    let mut buffer = [0; 512];
    let Ok(stat) = files::read_start(path.as_c_str(), &mut buffer) else { return false };
    // The name before the state is in parentheses, and may contain parentheses (proc_pid_stat(5)).
    let state = stat.iter().rposition(|&b| b == b')').and_then(|at| stat.get(at + 2));
    state == Some(&b'R')
}

/// The process that traces this one, if any. Usable in a signal handler.
pub fn tracer() -> Result<Option<i32>, OsError> {
    let tracer = status_field(current(), "TracerPid:", false)?;
    Ok(tracer.filter(|&pid| pid != 0).map(|pid| pid as i32))
}

/// Whether `thread` blocks `signal`; `None` if it has ended. Usable in a signal handler.
pub fn blocks(thread: Tid, signal: i32) -> Option<bool> {
    let mask = status_field(thread, "SigBlk:", true).ok()??;
    Some(mask >> (signal - 1) & 1 == 1)
}

/// Whether `signal` was sent to `thread` itself and is still pending. Usable in a signal handler.
pub fn has_pending(thread: Tid, signal: i32) -> bool {
    let pending = status_field(thread, "SigPnd:", true).ok().flatten();
    pending.is_some_and(|set| set >> (signal - 1) & 1 == 1)
}

/// Whether `thread` has not ended yet. Usable in a signal handler.
pub fn lives(thread: Tid) -> bool {
    // SAFETY: (1) signal 0 is never delivered; the call only checks.
    unsafe { libc::syscall(libc::SYS_tgkill, process(), thread.0, 0) == 0 }
}

/// The age of this process, across every exec; up to a hundredth of a second too long.
pub fn process_age() -> Option<std::time::Duration> {
    // After the name, which ends with the last parenthesis and may contain any character
    // (proc_pid_stat(5)). The start is the 22nd field.
    let stat = std::fs::read("/proc/thread-self/stat").ok()?;
    let text =
        std::str::from_utf8(&stat[stat.iter().rposition(|&byte| byte == b')')? + 1..]).ok()?;
    let start: u64 = text.split_ascii_whitespace().nth(19)?.parse().ok()?;
    // SAFETY: (1) reads a number; (2) a time to write to.
    let (hertz, now) = unsafe {
        let mut now: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now);
        (libc::sysconf(libc::_SC_CLK_TCK), now)
    };
    let hertz = u64::try_from(hertz).ok().filter(|&hertz| hertz > 0)?;
    let start = std::time::Duration::from_secs_f64(start as f64 / hertz as f64);
    std::time::Duration::new(now.tv_sec as u64, now.tv_nsec as u32).checked_sub(start)
}

/// A child that runs in this address space, as between vfork(2) and exec, if there is one. Usable
/// in a signal handler.
pub fn vfork_child() -> Result<Option<i32>, OsError> {
    const KCMP_VM: libc::c_int = 1;
    let mut found = None;
    each(|thread| {
        let path = Text::new(format_args!("/proc/self/task/{thread}/children"));
        let mut buffer = [0; 4096];
        // Without CONFIG_PROC_CHILDREN there is no such file; then a running vfork shows because
        // its parent does not answer the barrier.
        let children = files::read_start(path.as_c_str(), &mut buffer).unwrap_or(&[]);
        for child in children.split(|&b| b == b' ').filter_map(number) {
            // SAFETY: (1) the call compares two address spaces and touches no memory.
            let same = unsafe {
                libc::syscall(libc::SYS_kcmp, process(), child as libc::c_int, KCMP_VM, 0, 0)
            };
            if same == 0 {
                found = Some(child as i32);
            }
        }
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn every_thread_is_listed_once() {
        let (ready, done) = (&Barrier::new(4), &Barrier::new(4));
        std::thread::scope(|scope| {
            let spawn = || {
                scope.spawn(|| {
                    ready.wait();
                    let tid = current();
                    done.wait();
                    tid
                })
            };
            let threads = [spawn(), spawn(), spawn()];
            ready.wait();
            let mut seen = Vec::new();
            each(|tid| seen.push(tid)).unwrap();
            done.wait();
            for thread in threads {
                let tid = thread.join().unwrap();
                assert_eq!(seen.iter().filter(|&&t| t == tid).count(), 1);
            }
        });
    }

    #[test]
    fn a_thread_that_ended_no_longer_lives() {
        let gone = std::thread::spawn(current).join().unwrap();
        while lives(gone) {
            give_way();
        }
        assert!(lives(current()));
        assert_eq!(blocks(current(), libc::SIGTRAP), Some(false));
    }

    #[test]
    fn no_process_traces_the_tests_and_no_child_shares_their_memory() {
        assert_eq!(tracer(), Ok(None));
        assert_eq!(vfork_child(), Ok(None));
    }
}
