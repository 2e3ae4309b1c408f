//! Adversaries: disturbances that make the faults of a wrong protocol show.

use super::executers::Executers;
use super::target::Target;
use std::sync::atomic::{AtomicBool, Ordering};
use wordpatch::Ticks;
use wordpatch::os::{OsError, cpu, signals, threads::Tid};

/// A disturbance while a target is toggled. Another one, the site that crosses a page, is a
/// [`Placement`](super::Placement).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Adversary {
    /// No disturbance: both lines stay hot.
    None,
    /// The patching thread writes a neighbouring byte of the back line shortly before.
    DirtyBack,
    /// The patching thread flushes the back line from all caches, at a random time in the 900 ticks
    /// before.
    FlushBack,
    /// The same with both lines.
    FlushBoth,
    /// More threads spin than there are processors.
    Preemption,
    /// Harmless signals interrupt the executing threads, one after the other.
    Signals,
}

/// The longest time from a flush to the toggle.
const FLUSH_WITHIN: u64 = 900;

/// The signal that interrupts; processes that do not handle it ignore it.
const NUISANCE: i32 = libc::SIGURG;

impl Adversary {
    /// All adversaries.
    pub const ALL: [Self; 6] = [
        Self::None,
        Self::DirtyBack,
        Self::FlushBack,
        Self::FlushBoth,
        Self::Preemption,
        Self::Signals,
    ];

    /// Whether this processor supports it.
    pub fn is_possible(self) -> bool {
        match self {
            Self::FlushBack | Self::FlushBoth => cpu::has_clflushopt(),
            Self::None | Self::DirtyBack | Self::Preemption | Self::Signals => true,
        }
    }

    /// The patching thread's action right before a toggle.
    #[inline]
    pub(super) fn provoke(self, target: &Target, chance: &mut Chance) {
        match self {
            Self::None | Self::Preemption | Self::Signals => {}
            Self::DirtyBack => target.dirty_back_line(chance.below(256) as u8),
            Self::FlushBack | Self::FlushBoth => {
                target.flush_back_line();
                if self == Self::FlushBoth {
                    target.flush_front_line();
                }
                Ticks::spin(Ticks(chance.below(FLUSH_WITHIN)));
            }
        }
    }

    /// Prepares everything that may fail.
    pub(super) fn prepare(self) -> Result<(), OsError> {
        if self == Self::Signals {
            // SAFETY: (1) the handler does nothing.
            #[allow(unsafe_code)]
            unsafe {
                signals::install(NUISANCE, nothing, libc::SA_RESTART)?;
            }
        }
        Ok(())
    }

    /// The number of threads that it needs besides the executers.
    pub(super) fn threads(self, cpus: usize) -> usize {
        match self {
            Self::Preemption => cpus + 1,
            Self::Signals => 1,
            Self::None | Self::DirtyBack | Self::FlushBack | Self::FlushBoth => 0,
        }
    }

    /// The loop of such a thread until the end of the storm.
    pub(super) fn disturb(self, executers: &Executers, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            match self {
                Self::Signals => executers.threads().for_each(interrupt),
                _ => std::hint::spin_loop(),
            }
        }
    }
}

fn interrupt(thread: Tid) {
    // A thread that has ended meanwhile needs no signal.
    let _ = signals::send(thread, NUISANCE);
    Ticks::spin(Ticks(5_000));
}

extern "C" fn nothing(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

/// Pseudorandom numbers (xorshift64*, Marsaglia and Vigna).
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }
}
