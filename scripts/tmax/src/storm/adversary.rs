//! Adversaries: what makes a wrong protocol show.

use super::crew::Crew;
use super::target::Target;
use std::sync::atomic::{AtomicBool, Ordering};
use wordpatch::Ticks;
use wordpatch::os::{OsError, cpu, signals, threads::Tid};

/// What else happens while a target is toggled. The site that crosses a page is a
/// [`Placement`](super::Placement).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Adversary {
    /// Nothing: both lines stay hot.
    None,
    /// The patcher writes a neighbouring byte of the back line shortly before.
    DirtyBack,
    /// The patcher throws the back line out of all caches, at a random moment of the 900 ticks
    /// before.
    FlushBack,
    /// The same with both lines.
    FlushBoth,
    /// More threads spin than there are processors.
    Preemption,
    /// Executers are interrupted by harmless signals, one after the other.
    Signals,
}

/// How long before a toggle the latest flush may happen.
const FLUSH_WITHIN: u64 = 900;

/// The signal that interrupts: ignored by processes that do not ask for it.
const NUISANCE: i32 = libc::SIGURG;

impl Adversary {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::None,
        Self::DirtyBack,
        Self::FlushBack,
        Self::FlushBoth,
        Self::Preemption,
        Self::Signals,
    ];

    /// Whether this processor can play it.
    pub fn is_possible(self) -> bool {
        match self {
            Self::FlushBack | Self::FlushBoth => cpu::has_clflushopt(),
            Self::None | Self::DirtyBack | Self::Preemption | Self::Signals => true,
        }
    }

    /// What the patcher does right before a toggle.
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

    /// Does beforehand what may fail.
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

    /// How many threads it needs besides the crew.
    pub(super) fn threads(self, cpus: usize) -> usize {
        match self {
            Self::Preemption => cpus + 1,
            Self::Signals => 1,
            Self::None | Self::DirtyBack | Self::FlushBack | Self::FlushBoth => 0,
        }
    }

    /// What such a thread does until the storm is over.
    pub(super) fn disturb(self, crew: &Crew, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            match self {
                Self::Signals => crew.threads().for_each(interrupt),
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

/// Numbers without a pattern (xorshift64*, Marsaglia and Vigna).
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

    /// One of the numbers below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }
}
