//! The process, inspected before anything is changed: whether the library can be loaded there, or
//! why not, in one line.

use crate::command::Failure;
use fastinst::discovery::{ImageError, Module};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wordpatch::os::tracing::Memory;

/// A process that may be attached to, as far as can be determined from outside.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) process: i32,
    /// One of its live threads: the first thread may have ended.
    pub(super) living: i32,
    pub(super) memory: Memory,
    /// Its threads.
    pub(super) threads: Vec<Thread>,
}

/// A thread, as the kernel reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) number: i32,
    pub(super) state: char,
    /// The system call that it is in.
    call: Option<i64>,
}

/// Fields of a status (proc_pid_status(5)).
struct Status(String);

impl Status {
    fn field(&self, name: &str) -> Option<&str> {
        let line = self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::trim)
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.field(name)?.split_whitespace().next()?.parse().ok()
    }
}

fn refused(why: impl Into<String>) -> Failure {
    Failure::Refused(why.into())
}

impl Target {
    /// Inspects a process, and locks it for this command. `force`: filters of system calls are
    /// assumed to refuse calls and not to kill.
    pub(super) fn take(process: i32, force: bool) -> Result<Self, Failure> {
        let target = Self::look(process, force)?;
        match target.memory.take() {
            true => Ok(target),
            false => Err(refused(format!(
                "process {process} is being profiled by another fastinst attach"
            ))),
        }
    }

    /// Inspects a process.
    pub(super) fn look(process: i32, force: bool) -> Result<Self, Failure> {
        let folder = PathBuf::from(format!("/proc/{process}"));
        let status = std::fs::read_to_string(folder.join("status"));
        let status = Status(status.map_err(|_| refused(format!("there is no process {process}")))?);
        require_process(process, &status)?;
        let threads = threads(process);
        let living = threads.iter().find(|thread| !matches!(thread.state, 'Z' | 'X'));
        let Some(living) = living.map(|thread| thread.number) else {
            return Err(refused(format!("process {process} has ended")));
        };
        require_calls(process, &status, force)?;
        // This checks the kernel's permission without stopping anything: the rules are those of
        // tracing.
        let memory = Memory::of(process)
            .map_err(|error| refused(why_not_traced(process, &status, &error)))?;
        require_program(process, living)?;
        let threads = interruptible(process, threads)?;
        Ok(Self { process, living, memory, threads })
    }

    /// Whether it had one thread when it was inspected: then the C library takes no locks.
    pub(super) fn is_single(&self) -> bool {
        self.threads.len() == 1
    }

    /// The best thread to stop: one that is asleep, and not in a call whose time limit would start
    /// again.
    pub(super) fn candidate(&self) -> i32 {
        let worth = |thread: &&Thread| match (thread.state, thread.call) {
            ('S', Some(call)) if !TIMED.contains(&call) => 0,
            ('S', _) => 1,
            ('R', _) => 2,
            _ => 3,
        };
        self.threads.iter().min_by_key(worth).map_or(self.living, |thread| thread.number)
    }

    /// The folder of a thread in /proc, by its ID in the view of the process, which may be in
    /// another PID namespace.
    pub(super) fn thread_called(&self, number: i32) -> Option<PathBuf> {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.process));
        let is_it = |folder: &PathBuf| {
            let status = Status(std::fs::read_to_string(folder.join("status")).unwrap_or_default());
            let innermost = status.field("NSpid").and_then(|all| all.split_whitespace().last());
            innermost.and_then(|innermost| innermost.parse().ok()) == Some(number)
        };
        let entries = std::fs::read_dir(tasks).ok()?.flatten();
        entries.map(|entry| entry.path()).find(is_it)
    }

    /// A path in the process's view, as this command reaches it.
    pub(super) fn seen(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/task/{}/root", self.process, self.living));
        root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

/// Calls that the kernel ends when a thread is stopped, and whose time limit starts again when they
/// are restarted: epoll_wait, epoll_pwait, rt_sigtimedwait, semtimedop, io_getevents, recvfrom,
/// recvmsg, recvmmsg, io_uring_enter.
const TIMED: [i64; 9] = [232, 281, 128, 220, 208, 45, 47, 299, 426];

/// The threads of a process.
pub(super) fn threads(process: i32) -> Vec<Thread> {
    let folder = PathBuf::from(format!("/proc/{process}/task"));
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let thread = |number: i32| {
        let of = |name: &str| std::fs::read_to_string(folder.join(format!("{number}/{name}")));
        let stat = of("stat").ok()?;
        // The name before the state is in parentheses, and may contain some (proc_pid_stat(5)).
        let state = stat[stat.rfind(')')? + 1..].trim_start().chars().next()?;
        let call = of("syscall").ok().and_then(|text| text.split(' ').next()?.parse().ok());
        Some(Thread { number, state, call })
    };
    let mut threads: Vec<Thread> = numbers.filter_map(thread).collect();
    threads.sort_by_key(|thread| thread.number);
    threads
}

/// Waits until one of the threads is in no uninterruptible sleep: a program that starts others all
/// the time is in one most of the time, each until a child has executed its program.
fn interruptible(process: i32, mut threads: Vec<Thread>) -> Result<Vec<Thread>, Failure> {
    const PATIENCE: Duration = Duration::from_secs(2);
    let end = Instant::now() + PATIENCE;
    while threads.iter().all(|thread| matches!(thread.state, 'D' | 'Z' | 'X')) {
        if Instant::now() > end {
            return Err(refused(format!(
                "every thread of {process} is in an uninterruptible sleep (the parent of a vfork?): try again"
            )));
        }
        std::thread::sleep(Duration::from_micros(100));
        threads = self::threads(process);
    }
    Ok(threads)
}

fn require_process(process: i32, status: &Status) -> Result<(), Failure> {
    if process == std::process::id() as i32 {
        return Err(refused(format!("process {process} is this command")));
    }
    if let Some(group) = status.number("Tgid").filter(|&group| group != i64::from(process)) {
        return Err(refused(format!(
            "{process} is a thread of process {group}: attach to that process"
        )));
    }
    if status.number("Kthread") == Some(1) || status.field("VmSize").is_none() {
        let is_zombie = status.field("State").is_some_and(|state| state.starts_with('Z'));
        let is_led = is_zombie
            && std::fs::read_dir(format!("/proc/{process}/task"))
                .is_ok_and(|threads| threads.count() > 1);
        if is_zombie && !is_led {
            return Err(refused(format!("process {process} has ended (zombie)")));
        }
        if !is_zombie {
            return Err(refused(format!("{process} is a kernel thread")));
        }
    }
    if let Some(tracer) = status.number("TracerPid").filter(|&tracer| tracer != 0) {
        let name = std::fs::read_to_string(format!("/proc/{tracer}/comm")).unwrap_or_default();
        return Err(refused(format!(
            "process {process} is being debugged by {} ({tracer}): detach it first",
            name.trim()
        )));
    }
    if status.field("State").is_some_and(|state| state.starts_with(['T', 't'])) {
        return Err(refused(format!(
            "process {process} is stopped: continue it (kill -CONT {process})"
        )));
    }
    Ok(())
}

/// Refuses a process with a system-call filter, unless `force`: the filter may kill it for a call
/// that it does not expect.
fn require_calls(process: i32, status: &Status, force: bool) -> Result<(), Failure> {
    match status.number("Seccomp") {
        Some(1) => Err(refused(format!(
            "process {process} is in strict seccomp mode: no library can be loaded into it"
        ))),
        Some(2) if !force => Err(refused(format!(
            "process {process} is sandboxed (seccomp): a system call of the profiler might kill it; use --force if its filter only refuses system calls"
        ))),
        _ => Ok(()),
    }
}

fn why_not_traced(process: i32, status: &Status, error: &std::io::Error) -> String {
    if error.kind() == ErrorKind::NotFound {
        return format!("process {process} has ended");
    }
    let ids = |name: &str| -> Vec<u32> {
        let text = status.field(name).unwrap_or_default();
        text.split_whitespace().filter_map(|id| id.parse().ok()).collect()
    };
    // SAFETY: (1) asks for a number.
    #[allow(unsafe_code)]
    let ours = unsafe { libc::geteuid() };
    let other = ids("Uid").into_iter().find(|&id| id != ours).map(control::registry::name_of);
    let yama = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    by_whom(process, other.as_deref(), ours == 0, yama.trim(), error)
}

/// The reason of a refusal: the process belongs to another user, Yama (its `ptrace_scope`), a
/// missing capability, or the process itself.
fn by_whom(
    process: i32,
    other: Option<&str>,
    are_root: bool,
    yama: &str,
    error: &std::io::Error,
) -> String {
    let by_yama = format!("kernel.yama.ptrace_scope = {yama}");
    match other {
        Some(other) if !are_root => format!(
            "process {process} belongs to {other}: run fastinst attach as that user or as root"
        ),
        _ if yama == "3" => format!(
            "this system forbids tracing until it is restarted ({by_yama}): start the program with fastinst run"
        ),
        _ if matches!(yama, "1" | "2") && !are_root => format!(
            "this system allows only parents and root to attach ({by_yama}): use sudo, or sysctl kernel.yama.ptrace_scope=0, or start the program with fastinst run"
        ),
        _ if are_root => format!(
            "the kernel refuses to trace process {process} ({error}): in a container, add the capability SYS_PTRACE"
        ),
        _ => format!("process {process} is not dumpable: attach as root"),
    }
}

/// Checks that the program loads libraries, and is of our architecture.
fn require_program(process: i32, living: i32) -> Result<(), Failure> {
    let file = PathBuf::from(format!("/proc/{process}/task/{living}/exe"));
    let name = std::fs::read_link(&file).unwrap_or_else(|_| PathBuf::from("the program"));
    let name = name.display();
    match Module::of_file(&file) {
        Ok(program) if program.is_static => Err(refused(format!(
            "{name} is statically linked: no library can be loaded into it; link it dynamically, or count calls with uprobes (perf probe)"
        ))),
        Ok(program) if program.interpreter().is_some_and(|loader| loader.contains("ld-musl")) => {
            Err(refused(format!(
                "{name} uses musl: the library needs glibc 2.34 or later; build the program against glibc"
            )))
        }
        Ok(_) => Ok(()),
        Err(fastinst::discovery::DiscoveryError::Image { error: ImageError::Machine, .. }) => {
            Err(refused(format!(
                "{name} is a 32-bit program, or for another architecture: only x86-64 is supported"
            )))
        }
        Err(error) => Err(refused(format!("process {process}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_forbids_tracing_is_named_with_its_remedy() {
        let error = std::io::Error::from_raw_os_error(libc::EPERM);
        let said = |other, are_root, yama| by_whom(7, other, are_root, yama, &error);
        for (found, wanted) in [
            (said(Some("redis"), false, "1"), "belongs to redis: run fastinst attach as that user"),
            (said(None, false, "1"), "ptrace_scope = 1): use sudo"),
            (said(None, false, "2"), "ptrace_scope = 2): use sudo"),
            // Not even root may trace.
            (said(None, true, "3"), "ptrace_scope = 3): start the program with fastinst run"),
            // Root, if Yama is not the reason, lacks the capability.
            (said(Some("redis"), true, "1"), "add the capability SYS_PTRACE"),
            (said(None, true, ""), "add the capability SYS_PTRACE"),
            (said(None, false, "0"), "not dumpable"),
        ] {
            assert!(found.contains(wanted), "{wanted}: {found}");
            assert_eq!(found.lines().count(), 1);
        }
    }

    #[test]
    fn fields_of_a_status_are_found_by_their_whole_name() {
        let status = Status(
            "Name:\tapp\nState:\tS (sleeping)\nSeccomp:\t2\nSeccomp_filters:\t1\n".to_owned(),
        );
        assert_eq!(
            (status.number("Seccomp"), status.field("State")),
            (Some(2), Some("S (sleeping)"))
        );
        assert_eq!(status.field("VmSize"), None);
    }

    #[test]
    fn this_process_has_a_thread_that_lives() {
        let threads = threads(std::process::id() as i32);
        assert!(threads.iter().any(|thread| !matches!(thread.state, 'Z' | 'X')), "{threads:?}");
    }
}
