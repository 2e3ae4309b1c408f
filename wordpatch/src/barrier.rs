//! The barrier: after it, no core runs bytes that it fetched before it (assumption A2).

use crate::live;
use crate::os::{OsError, membarrier, threads};
use crate::ticks::Ticks;
use std::fmt;

mod roll_call;

pub use roll_call::Silent;
pub(crate) use roll_call::{RESERVING, forget_call, signal as reserved_signal};

/// The way in which other cores are synchronised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// `membarrier(2)` with SYNC_CORE: the kernel makes every running thread of the process
    /// serialise. The default.
    Membarrier,
    /// A signal to every thread: its handler returns through `iret`, which serialises. For kernels
    /// and sandboxes without the former. Interrupts sleeping system calls, as any signal does.
    Signal,
    /// The literature's wait of T_max ticks. No safe length is known; for comparison only.
    Wait(Ticks),
}

impl Barrier {
    /// The best barrier that this kernel and this sandbox allow: [`Barrier::Membarrier`], otherwise
    /// [`Barrier::Signal`].
    pub fn best() -> Result<Self, BarrierError> {
        let best =
            [Self::Membarrier, Self::Signal].into_iter().find(|barrier| barrier.prepare().is_ok());
        match best {
            Some(barrier) => Ok(barrier),
            None => Self::Signal.prepare().map(|()| Self::Signal),
        }
    }

    /// Prepares the first [`pass`](Self::pass), and checks whether the barrier works at all.
    pub fn prepare(self) -> Result<(), BarrierError> {
        match self {
            Self::Membarrier => match membarrier::offered() {
                Ok(true) => membarrier::register().map_err(BarrierError::Membarrier),
                Ok(false) => Err(BarrierError::Membarrier(OsError {
                    call: "membarrier",
                    errno: libc::ENOSYS,
                })),
                Err(error) => Err(BarrierError::Membarrier(error)),
            },
            Self::Signal => roll_call::prepare().map(drop),
            Self::Wait(_) => Ok(()),
        }
    }

    /// Waits until the barrier holds. Usable in a signal handler after preparation.
    pub fn pass(self) -> Result<(), BarrierError> {
        match self {
            Self::Membarrier => membarrier::sync_core().map_err(BarrierError::Membarrier),
            Self::Signal => roll_call::pass(),
            Self::Wait(span) => {
                // A wait begins when the stores are visible to all cores, as after the literature's
                // compare-and-swap.
                live::fence();
                Ticks::spin(span);
                Ok(())
            }
        }
    }
}

impl fmt::Display for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Membarrier => f.write_str("membarrier"),
            Self::Signal => f.write_str("signal"),
            Self::Wait(span) => write!(f, "wait of {span}"),
        }
    }
}

/// Why a barrier failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BarrierError {
    /// The kernel is older than 4.16, or a sandbox refuses the call.
    #[error("{0}; use the signal barrier (kernel older than 4.16, or refused by a sandbox)")]
    Membarrier(OsError),
    /// No real-time signal is free.
    #[error("no real-time signal is free for the signal barrier: the program handles all of them")]
    NoSignalFree,
    /// A system call that the signal barrier needs failed.
    #[error("signal barrier: {0}")]
    Signal(OsError),
    /// There are more threads than the signal barrier can wait for.
    #[error("signal barrier: more than {limit} threads; use membarrier")]
    TooManyThreads {
        /// The limit.
        limit: usize,
    },
    /// A child between `vfork` and `exec` runs in this address space and cannot be signalled.
    #[error(
        "signal barrier: child {pid} of vfork shares this memory and cannot answer; try again after its exec"
    )]
    VforkChild {
        /// The child's process.
        pid: i32,
    },
    /// Threads did not answer in time.
    #[error("signal barrier: no answer from {0}; they block signal {signal} or are stopped", signal = .0.signal())]
    Silent(Silent),
}

impl From<OsError> for BarrierError {
    fn from(error: OsError) -> Self {
        Self::Signal(error)
    }
}

/// An error if a child of `vfork` is running.
fn refuse_vfork_child() -> Result<(), BarrierError> {
    match threads::vfork_child()? {
        Some(pid) => Err(BarrierError::VforkChild { pid }),
        None => Ok(()),
    }
}
