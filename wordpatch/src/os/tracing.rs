//! Stops one thread of another process for a short time, and makes it execute system calls
//! (ptrace(2)).
//!
//! ```text
//!   seize, interrupt ─▶ stopped ─▶ system calls, without signals ─▶ as it was ─▶ detached
//! ```
//!
//! - **Seized, never attached**: no SIGSTOP that the process or its parent would see.
//! - **A pending signal** at the time of the stop is delivered before anything else.
//! - **No handler runs meanwhile**: all signals are blocked for system calls, and the mask is
//!   restored.
//! - **The tracer may be killed at any moment.** The thread then goes on with the registers that
//!   it has, so these always lead back: each `syscall` that it executes is followed by instructions
//!   that restore its [`Continuation`]. The mask is changed after the registers, and restored
//!   before them. A thread is never single-stepped: without a tracer, the step would end it by
//!   SIGTRAP, while stops at system calls end with their tracer.
//! - **A restartable sequence** (rseq) in which the thread was stopped is aborted, as whenever the
//!   thread loses its CPU; the kernel forgets it when the thread executes anything else.
//! - **A system call that the stop has interrupted continues.** The kernel restarts most of them by
//!   itself; those that it ends with `EINTR` although no signal was delivered (epoll_wait,
//!   sigtimedwait, semop, sockets with a timeout) are restarted, too.
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
/// Results of system calls that are restarted: if no handler runs, or it was registered with
/// SA_RESTART; always; if no handler runs; by another system call, which continues it
/// (include/linux/errno.h).
const RESTART: i64 = -512;
const RESTART_UNLESS_HANDLED: i64 = -513;
const RESTART_WITHOUT_HANDLER: i64 = -514;
const RESTART_BY_BLOCK: i64 = -516;
/// How a stop at a system call is told from a signal (PTRACE_O_TRACESYSGOOD).
const AT_CALL: i32 = libc::SIGTRAP | 0x80;
/// The length of a `syscall` instruction.
const SYSCALL: u64 = 2;

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
    fn as_if_never_stopped(mut self) -> Self {
        let in_call = self.0.orig_rax as i64 >= 0;
        if in_call && self.0.rax as i64 == -i64::from(libc::EINTR) {
            self.0.rax = RESTART_WITHOUT_HANDLER as u64;
        }
        self
    }

    /// The same registers, as the kernel changes them when a thread continues: a system call that
    /// was interrupted is restarted.
    fn restarted(self) -> Self {
        let mut restarted = self.as_if_never_stopped();
        let regs = &mut restarted.0;
        let again = match regs.rax as i64 {
            _ if (regs.orig_rax as i64) < 0 => return restarted,
            RESTART | RESTART_UNLESS_HANDLED | RESTART_WITHOUT_HANDLER => regs.orig_rax,
            RESTART_BY_BLOCK => libc::SYS_restart_syscall as u64,
            _ => return restarted,
        };
        (regs.rax, regs.rip) = (again, regs.rip - SYSCALL);
        restarted
    }
}

/// How a stopped thread continues, by instructions and without the kernel's help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The signals that it blocks.
    pub mask: u64,
    /// `rax`, `rbx`, `rcx`, `rdx`, `rsi`, `rdi`, `rbp`, and `r8` to `r15`. Its stack pointer does
    /// not change.
    pub general: [u64; 15],
    /// Its flags.
    pub flags: u64,
    /// Its instruction pointer.
    pub instruction: u64,
}

/// A system call that another thread makes: its number and arguments, the address of a `syscall`
/// instruction, which the way back to the thread's [`Continuation`] follows, and a value for `rbx`,
/// which the kernel preserves, even in the child of a clone.
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
    is_masked: bool,
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
        let options = libc::PTRACE_O_TRACESYSGOOD as u64;
        ptrace("ptrace(PTRACE_SEIZE)", libc::PTRACE_SEIZE, thread, 0, options)?;
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
        // From here on, it restarts its system call even if this tracer is killed.
        set_registers(thread, &registers.as_if_never_stopped()).map_err(leave)?;
        let mut mask = 0u64;
        masks(libc::PTRACE_GETSIGMASK, thread, &mut mask).map_err(leave)?;
        Ok(Self { thread, registers, mask, since, is_masked: false })
    }

    /// Its ID.
    pub fn number(&self) -> i32 {
        self.thread.0
    }

    /// Its registers at the stop.
    pub fn registers(&self) -> &Registers {
        &self.registers
    }

    /// How it continues.
    pub fn continuation(&self) -> Continuation {
        let regs = self.registers.restarted().0;
        let general = [
            regs.rax, regs.rbx, regs.rcx, regs.rdx, regs.rsi, regs.rdi, regs.rbp, regs.r8, regs.r9,
            regs.r10, regs.r11, regs.r12, regs.r13, regs.r14, regs.r15,
        ];
        Continuation { mask: self.mask, general, flags: regs.eflags, instruction: regs.rip }
    }

    /// Has it continue where its restartable sequence is aborted, if it was stopped in one.
    pub fn abort_sequence(&mut self, memory: &Memory) -> Result<(), TraceError> {
        // SAFETY: (1) numbers.
        let mut found: libc::ptrace_rseq_configuration = unsafe { std::mem::zeroed() };
        let len = size_of_val(&found) as u64;
        let to = (&raw mut found) as u64;
        let request = libc::PTRACE_GET_RSEQ_CONFIGURATION;
        // Kernels before 5.13 do not know the request.
        if ptrace("ptrace", request, self.thread, len, to).is_err() || found.rseq_abi_pointer == 0 {
            return Ok(());
        }
        let sequence = Sequence::of(memory, found.rseq_abi_pointer);
        if let Some(sequence) = sequence.filter(|it| it.contains(self.registers.0.rip)) {
            self.registers.0.rip = sequence.abort;
            // Not in a system call.
            self.registers.0.orig_rax = !0;
        }
        Ok(())
    }

    /// How long it has been stopped.
    pub fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Makes it execute a system call. Returns the kernel's result.
    ///
    /// # Safety
    /// The caller may make that call in the process's name; at `instruction`, there are a `syscall`
    /// and the way back.
    pub unsafe fn call(&mut self, call: &RemoteCall) -> Result<i64, TraceError> {
        const TRIES: usize = 20;
        const PATIENCE: Duration = Duration::from_secs(5);
        let mut changed = self.registers;
        let [rdi, rsi, rdx, r10, r8, r9] = call.arguments;
        let regs = &mut changed.0;
        (regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9) = (rdi, rsi, rdx, r10, r8, r9);
        (regs.rip, regs.rax, regs.rbx) = (call.instruction, call.number as u64, call.beside);
        // Not in a call that the kernel would restart.
        regs.orig_rax = !0;
        regs.eflags &= !(TF | DF);
        set_registers(self.thread, &changed)?;
        let mut all = !0u64;
        masks(libc::PTRACE_SETSIGMASK, self.thread, &mut all)?;
        self.is_masked = true;
        let (mut is_begun, mut signal) = (false, 0);
        for _ in 0..TRIES {
            ptrace("ptrace(PTRACE_SYSCALL)", libc::PTRACE_SYSCALL, self.thread, 0, signal)?;
            let status = wait(self.thread, Instant::now() + PATIENCE)?;
            let (stop, event) = (status >> 8 & 0xff, status >> 16);
            match (stop, event) {
                (AT_CALL, 0) if is_begun => return Ok(registers(self.thread)?.0.rax as i64),
                (AT_CALL, 0) => (is_begun, signal) = (true, 0),
                // A signal that cannot be blocked, or the stop that it has led to.
                (_, 0) => signal = stop as u64,
                _ => signal = 0,
            }
        }
        Err(TraceError::Stubborn)
    }

    /// Gives the thread its registers and its mask back. It stays stopped.
    pub fn restore(&mut self) -> Result<(), TraceError> {
        if self.is_masked {
            masks(libc::PTRACE_SETSIGMASK, self.thread, &mut self.mask)?;
            self.is_masked = false;
        }
        set_registers(self.thread, &self.registers.as_if_never_stopped())
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.restore();
        detach(self.thread);
    }
}

/// Reads or writes the signals that a thread blocks.
fn masks(request: libc::c_uint, thread: Tid, mask: &mut u64) -> Result<(), TraceError> {
    ptrace("ptrace", request, thread, size_of::<u64>() as u64, std::ptr::from_mut(mask) as u64)
}

/// A restartable sequence: instructions that a thread executes without losing its CPU, or from the
/// abort handler on (struct rseq_cs of include/uapi/linux/rseq.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sequence {
    start: u64,
    len: u64,
    abort: u64,
}

impl Sequence {
    /// The one that a thread has announced in its registered area.
    fn of(memory: &Memory, area: u64) -> Option<Self> {
        const ANNOUNCED: u64 = 8;
        let sequence = memory.word(area + ANNOUNCED).ok().filter(|at| *at != 0)?;
        // After its version and flags.
        let [start, len, abort] = [8, 16, 24].map(|field| memory.word(sequence + field).ok());
        Some(Self { start: start?, len: len?, abort: abort? })
    }

    fn contains(&self, instruction: u64) -> bool {
        instruction.wrapping_sub(self.start) < self.len
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
