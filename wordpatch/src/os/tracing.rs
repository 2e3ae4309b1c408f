//! Stops one thread of another process for a short time, and makes it execute system calls
//! (ptrace(2)).
//!
//! ```text
//!   seize, interrupt ─▶ stopped ─▶ its signals blocked ─▶ system calls, one step each ─▶ registers as they were ─▶ detached
//! ```
//!
//! - **Seized, never attached**: no SIGSTOP that the process or its parent would see.
//! - **A pending signal** at the time of the stop is delivered before anything else.
//! - **No handler runs meanwhile**: all signals are blocked, and the mask is restored.
//! - **A system call that the stop has interrupted continues.** The kernel restarts most of them by
//!   itself; those that it ends with `EINTR` although no signal was delivered (epoll_wait,
//!   sigtimedwait, semop, sockets with a timeout) are restarted, too:
//!   [`Registers::as_if_never_stopped`].
//!
//! The kernel ties a traced thread to the thread that seized it, not to that thread's process: a
//! thread that ends detaches from the threads that it traces. There is no other way to detach from
//! a thread that does not stop in time (it sleeps uninterruptibly), so the caller is a separate
//! thread.
//!
//! # Safety
//!
//! This module exists to change the registers and the memory of other processes.
#![allow(unsafe_code)]

use super::threads::Tid;
use super::{OsError, check};
use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Why a thread could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A system call of this process failed.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The thread has ended.
    #[error("it has ended")]
    Ended,
    /// The thread has not stopped in time: it sleeps uninterruptibly.
    #[error("it does not stop: it sleeps uninterruptibly")]
    Sleeps,
    /// The thread was already stopped, by a signal of job control.
    #[error("it is stopped")]
    Halted,
    /// A thread of a 32-bit program.
    #[error("it executes 32-bit code")]
    Narrow,
    /// The thread did not make a system call, in spite of several attempts.
    #[error("it makes no system call")]
    Stubborn,
}

/// The general registers of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Registers(libc::user_regs_struct);

/// The trap flag: single-stepping.
const TF: u64 = 1 << 8;
/// The direction flag.
const DF: u64 = 1 << 10;
/// A system call that is restarted if no signal was delivered (include/linux/errno.h).
const RESTART_WITHOUT_HANDLER: i64 = -514;

impl Registers {
    /// Its instruction pointer.
    pub fn instruction(&self) -> u64 {
        self.0.rip
    }

    /// Its stack pointer.
    pub fn stack(&self) -> u64 {
        self.0.rsp
    }

    /// Its frame pointer, if it uses one.
    pub fn frame(&self) -> u64 {
        self.0.rbp
    }

    /// The address of its thread data.
    pub fn thread_pointer(&self) -> u64 {
        self.0.fs_base
    }

    /// The same registers, changed so that a system call that only the stop has ended is restarted.
    pub fn as_if_never_stopped(mut self) -> Self {
        let in_call = self.0.orig_rax as i64 >= 0;
        if in_call && self.0.rax as i64 == -i64::from(libc::EINTR) {
            self.0.rax = RESTART_WITHOUT_HANDLER as u64;
        }
        self
    }
}

/// A system call that another thread makes: its number and arguments, the address of a `syscall`
/// instruction, and a value for `rbx`, which the kernel preserves, even in the child of a clone.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemoteCall {
    /// Its number.
    pub number: i64,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// The address of a `syscall` instruction (`0f 05`).
    pub instruction: u64,
    /// The value of `rbx`.
    pub beside: u64,
}

/// The memory of another process.
#[derive(Debug)]
pub struct Memory(File);

impl Memory {
    /// The memory of a process that this process may trace.
    pub fn of(process: i32) -> std::io::Result<Self> {
        let path = format!("/proc/{process}/mem");
        File::options().read(true).write(true).open(path).map(Self)
    }

    /// Takes an exclusive lock on it, until it is dropped; `false` if another process has the lock.
    pub fn take(&self) -> bool {
        self.0.try_lock().is_ok()
    }

    /// Fills `bytes` from `at`.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        self.0.read_exact_at(bytes, at)
    }

    /// Reads a word.
    pub fn word(&self, at: u64) -> std::io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads a zero-terminated string, of at most this length.
    pub fn text(&self, at: u64, most: usize) -> std::io::Result<Vec<u8>> {
        const PIECE: usize = 64;
        let mut text = Vec::new();
        while text.len() < most {
            let from = at + text.len() as u64;
            let mut piece = [0; PIECE];
            // Not past the page: the next one may not be mapped.
            let len = PIECE.min(super::pages::PAGE - from as usize % super::pages::PAGE);
            self.read(from, &mut piece[..len])?;
            match piece[..len].iter().position(|&byte| byte == 0) {
                Some(end) => {
                    text.extend_from_slice(&piece[..end]);
                    return Ok(text);
                }
                None => text.extend_from_slice(&piece[..len]),
            }
        }
        Ok(text)
    }

    /// Writes, regardless of the protection of the pages.
    ///
    /// # Safety
    /// The caller may change these bytes of the process.
    pub unsafe fn write(&self, at: u64, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write_all_at(bytes, at)
    }
}

/// A stopped thread. When this is dropped, it continues where it was, as if it had not been
/// stopped.
#[derive(Debug)]
pub struct Stopped {
    thread: Tid,
    registers: Registers,
    mask: u64,
    since: Instant,
    is_restored: bool,
}

fn ptrace(
    call: &'static str,
    request: libc::c_uint,
    thread: Tid,
    address: u64,
    data: u64,
) -> Result<(), TraceError> {
    // SAFETY: (1) requests of this file that read or write memory here get buffers that live across
    // the call.
    let result = unsafe {
        libc::syscall(libc::SYS_ptrace, libc::c_ulong::from(request), thread.0, address, data)
    };
    match check(call, result) {
        Ok(_) => Ok(()),
        Err(error) if error.errno == libc::ESRCH => Err(TraceError::Ended),
        Err(error) => Err(error.into()),
    }
}

impl Stopped {
    /// Stops a thread of another process. The calling thread becomes its tracer, and has to end if
    /// this fails with [`TraceError::Sleeps`].
    pub fn stop(thread: Tid, patience: Duration) -> Result<Self, TraceError> {
        ptrace("ptrace(PTRACE_SEIZE)", libc::PTRACE_SEIZE, thread, 0, 0)?;
        ptrace("ptrace(PTRACE_INTERRUPT)", libc::PTRACE_INTERRUPT, thread, 0, 0)?;
        let end = Instant::now() + patience;
        loop {
            let status = wait(thread, end)?;
            let (signal, event) = (status >> 8 & 0xff, status >> 16);
            if event == libc::PTRACE_EVENT_STOP {
                if signal != libc::SIGTRAP {
                    detach(thread);
                    return Err(TraceError::Halted);
                }
                break;
            }
            // A signal for the program.
            ptrace("ptrace(PTRACE_CONT)", libc::PTRACE_CONT, thread, 0, signal as u64)?;
        }
        let since = Instant::now();
        let leave = |error| {
            detach(thread);
            error
        };
        let registers = registers(thread).map_err(leave)?;
        let mut mask = 0u64;
        let len = size_of::<u64>() as u64;
        let masks = |request, mask: *mut u64| ptrace("ptrace", request, thread, len, mask as u64);
        masks(libc::PTRACE_GETSIGMASK, &raw mut mask).map_err(leave)?;
        let mut all = !0u64;
        masks(libc::PTRACE_SETSIGMASK, &raw mut all).map_err(leave)?;
        Ok(Self { thread, registers, mask, since, is_restored: false })
    }

    /// Its registers at the stop.
    pub fn registers(&self) -> &Registers {
        &self.registers
    }

    /// How long it has been stopped.
    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Makes it execute a system call. Returns the kernel's result.
    ///
    /// # Safety
    /// The caller may make that call in the process's name; `instruction` is executable there.
    pub unsafe fn call(&mut self, call: &RemoteCall) -> Result<i64, TraceError> {
        const TRIES: usize = 20;
        const PATIENCE: Duration = Duration::from_secs(5);
        const SYSCALL: u64 = 2;
        let mut changed = self.registers;
        let [rdi, rsi, rdx, r10, r8, r9] = call.arguments;
        let regs = &mut changed.0;
        (regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9) = (rdi, rsi, rdx, r10, r8, r9);
        (regs.rip, regs.rax, regs.rbx) = (call.instruction, call.number as u64, call.beside);
        // Not in a call that the kernel would restart.
        regs.orig_rax = !0;
        regs.eflags &= !(TF | DF);
        set_registers(self.thread, &changed)?;
        for _ in 0..TRIES {
            ptrace("ptrace(PTRACE_SINGLESTEP)", libc::PTRACE_SINGLESTEP, self.thread, 0, 0)?;
            wait(self.thread, Instant::now() + PATIENCE)?;
            let now = registers(self.thread)?;
            if now.0.rip == call.instruction + SYSCALL {
                return Ok(now.0.rax as i64);
            }
            if now.0.rip != call.instruction {
                break;
            }
        }
        Err(TraceError::Stubborn)
    }

    /// Resumes the thread. Returns how long it was stopped.
    pub fn resume(mut self) -> Result<Duration, TraceError> {
        self.restore()?;
        let elapsed = self.since.elapsed();
        // The drop detaches.
        Ok(elapsed)
    }

    fn restore(&mut self) -> Result<(), TraceError> {
        set_registers(self.thread, &self.registers.as_if_never_stopped())?;
        self.is_restored = true;
        Ok(())
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if !self.is_restored {
            let _ = self.restore();
        }
        let len = size_of::<u64>() as u64;
        let mask = (&raw mut self.mask) as u64;
        let _ = ptrace("ptrace", libc::PTRACE_SETSIGMASK, self.thread, len, mask);
        detach(self.thread);
    }
}

fn detach(thread: Tid) {
    let _ = ptrace("ptrace(PTRACE_DETACH)", libc::PTRACE_DETACH, thread, 0, 0);
}

/// Waits for a stop.
fn wait(thread: Tid, end: Instant) -> Result<i32, TraceError> {
    let mut looks = 0;
    loop {
        let mut status = 0;
        // SAFETY: (1) a number to write to.
        let found =
            unsafe { libc::waitpid(thread.0, &raw mut status, libc::__WALL | libc::WNOHANG) };
        match found {
            -1 => match super::errno() {
                libc::EINTR => {}
                libc::ECHILD => return Err(TraceError::Ended),
                errno => return Err(OsError { call: "waitpid", errno }.into()),
            },
            0 if Instant::now() >= end => return Err(TraceError::Sleeps),
            0 => {}
            _ if libc::WIFSTOPPED(status) => return Ok(status),
            _ => return Err(TraceError::Ended),
        }
        looks += 1;
        if looks < 200 {
            super::threads::give_way();
        } else {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

fn vector(registers: &mut Registers) -> libc::iovec {
    libc::iovec { iov_base: (&raw mut registers.0).cast(), iov_len: size_of::<Registers>() }
}

fn registers(thread: Tid) -> Result<Registers, TraceError> {
    // SAFETY: (1) numbers.
    let mut found = Registers(unsafe { std::mem::zeroed() });
    let mut place = vector(&mut found);
    let to = (&raw mut place) as u64;
    ptrace("ptrace(PTRACE_GETREGSET)", libc::PTRACE_GETREGSET, thread, NT_PRSTATUS, to)?;
    // The kernel returns fewer registers of a thread that executes 32-bit code.
    if place.iov_len != size_of::<Registers>() { Err(TraceError::Narrow) } else { Ok(found) }
}

fn set_registers(thread: Tid, to: &Registers) -> Result<(), TraceError> {
    let mut to = *to;
    let mut place = vector(&mut to);
    let from = (&raw mut place) as u64;
    ptrace("ptrace(PTRACE_SETREGSET)", libc::PTRACE_SETREGSET, thread, NT_PRSTATUS, from)
}

const NT_PRSTATUS: u64 = libc::NT_PRSTATUS as u64;
const _: () = assert!(offset_of!(libc::user_regs_struct, orig_rax) == 15 * 8);
