//! Storms: code is toggled while other threads execute it, and all outcomes are counted.
//!
//! ```
//! use tmax::storm::{Adversary, Budget, Placement, Protocol, Shape, Storm, Target};
//!
//! let target = Target::new(Shape::Move, Placement::Astride { boundary: 64, before: 2 })?;
//! let prepared = Protocol::unprotected().ready(&target)?;
//! match Storm::new() {
//!     Ok(storm) => {
//!         let storm = storm.adversary(Adversary::FlushBack);
//!         let counts = storm.run(&target, Budget::toggles(1000), |to| {
//!             prepared.toggle(to).unwrap();
//!         })?;
//!         println!("{} of {} toggles were torn", counts.torn, counts.counted);
//!     }
//!     Err(reason) => println!("SKIPPED: {reason}"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - A [`Target`] is a word of a [`Shape`] in which every mixture of old and new bytes has a
//!   distinct [`Outcome`].
//! - [`Executers`] are threads that run it in a tight loop and classify the outcomes.
//! - A [`Storm`] toggles it by a method, which is a closure: a [`Protocol`], a patch site, or
//!   another method under test.
//! - An [`Adversary`] makes lines cold, threads sleep and signals arrive.
//! - [`Counts`] include a toggle only if a thread was observed to execute right before it: a storm
//!   beside sleeping threads is no evidence.

mod adversary;
mod counts;
mod executers;
pub(crate) mod execution;
mod protocol;
mod shape;
mod target;

pub use adversary::Adversary;
pub use counts::Counts;
pub use executers::{Assignment, AssignmentError, Directions, Executers, Log, Pinned};
pub use execution::{Registers, prepare};
pub use protocol::{Action, PreparedProtocol, Protocol};
pub use shape::{Face, Outcome, Shape};
pub use target::{Placement, Target};

pub(crate) use adversary::Chance;
use std::time::{Duration, Instant};
use wordpatch::Ticks;
use wordpatch::os::{OsError, threads};

/// The limits of a storm. Reaching any limit ends it; it ends on the old face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    toggles: u64,
    time: Duration,
    torn: u64,
}

impl Budget {
    /// A limit of counted toggles, with a time limit of a minute; [`within`](Self::within) changes
    /// the time.
    pub fn toggles(toggles: u64) -> Self {
        Self { toggles, time: Duration::from_secs(60), torn: u64::MAX }
    }

    /// A time limit.
    pub fn time(time: Duration) -> Self {
        Self { toggles: u64::MAX, time, torn: u64::MAX }
    }

    /// A time limit in addition.
    #[must_use]
    pub fn within(self, time: Duration) -> Self {
        Self { time, ..self }
    }

    /// A limit of torn toggles in addition.
    #[must_use]
    pub fn until_torn(self, torn: u64) -> Self {
        Self { torn, ..self }
    }
}

/// How often the patching thread polls the executing threads' counters before it yields its time
/// slice.
const PATIENCE: u32 = 4_000;

/// The longest pause between the toggles of a burst, in ticks.
const GAP: u64 = 100;

/// The conditions of a storm.
#[derive(Clone, Debug)]
pub struct Storm {
    assignment: Assignment,
    executers: usize,
    adversary: Adversary,
    burst: u32,
    seed: u64,
}

impl Storm {
    /// One executing thread and no adversary.
    pub fn new() -> Result<Self, AssignmentError> {
        let assignment = Assignment::new()?;
        Ok(Self {
            assignment,
            executers: 1,
            adversary: Adversary::None,
            burst: 1,
            seed: 0x9e37_79b9_7f4a_7c15,
        })
    }

    /// Sets the number of executing threads. If there are more than other processors, they take
    /// turns.
    #[must_use]
    pub fn executers(self, executers: usize) -> Self {
        Self { executers, ..self }
    }

    /// Sets the adversary.
    #[must_use]
    pub fn adversary(self, adversary: Adversary) -> Self {
        Self { adversary, ..self }
    }

    /// Makes a burst of toggles, a few ticks apart, each time that a thread was observed to
    /// execute. Rare outcomes show sooner, but it is less certain to which toggle they belong. The
    /// burst counts if the thread continued to execute meanwhile.
    #[must_use]
    pub fn burst(self, burst: u32) -> Self {
        Self { burst: burst.max(1), ..self }
    }

    /// Sets the seed of the random times.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Toggles `target` by `method` until the budget is used up.
    pub fn run(
        &self,
        target: &Target,
        budget: Budget,
        method: impl FnMut(Face),
    ) -> Result<Counts, OsError> {
        self.run_all(&[target], budget, method)
    }

    /// The same with several targets, which `method` toggles together and the executing threads run
    /// in turn.
    ///
    /// # Panics
    /// If there is no target, or the processor does not support the adversary (see
    /// [`Adversary::is_possible`]).
    pub fn run_all(
        &self,
        targets: &[&Target],
        budget: Budget,
        mut method: impl FnMut(Face),
    ) -> Result<Counts, OsError> {
        self.rage(targets, budget, &mut method)
    }

    /// Not generic, so that it is compiled here, and optimised as this crate is.
    fn rage(
        &self,
        targets: &[&Target],
        budget: Budget,
        method: &mut dyn FnMut(Face),
    ) -> Result<Counts, OsError> {
        assert!(!targets.is_empty(), "a storm needs a target");
        assert!(self.adversary.is_possible(), "this processor cannot play {:?}", self.adversary);
        self.adversary.prepare()?;
        let _pinned = self.assignment.pin_patcher()?;
        let others = self.adversary.threads(self.assignment.all.len());
        let disturb = |executers: &Executers, over: &_| self.adversary.disturb(executers, over);
        let lead = |executers: &Executers| self.lead(executers, targets, budget, method);
        let (counts, log) =
            Executers::with(&self.assignment, targets, self.executers, (others, disturb), lead)?;
        Ok(Counts { log, ..counts })
    }

    /// The loop of the patching thread.
    fn lead(
        &self,
        executers: &Executers,
        targets: &[&Target],
        budget: Budget,
        method: &mut dyn FnMut(Face),
    ) -> Counts {
        let mut chance = Chance::new(self.seed);
        let mut counts = Counts::default();
        let mut to = Face::New;
        let end = Instant::now() + budget.time;
        let mut wrong = 0;
        let (mut visits, mut late) = (0u64, false);
        loop {
            let beside = executers.finishes_round(PATIENCE);
            // The outcomes of earlier toggles were published before a thread was observed to
            // execute.
            let wrong_now = executers.wrong();
            counts.torn += (wrong_now - wrong).min(self.burst.into());
            wrong = wrong_now;
            let spent = counts.counted >= budget.toggles || counts.torn >= budget.torn;
            // Reading the clock takes longer than a toggle. So it is read now and then, but always
            // if no thread was observed to execute, since the time slice that was yielded then may
            // have been long.
            visits += 1;
            late |= (visits % 32 == 0 || !beside) && Instant::now() >= end;
            if to == Face::New && (spent || late) {
                break;
            }
            let rounds = executers.rounds();
            for _ in 0..self.burst {
                targets.iter().for_each(|target| self.adversary.provoke(target, &mut chance));
                executers.announce(to);
                method(to);
                to = to.other();
                if self.burst > 1 {
                    Ticks::spin(Ticks(chance.below(GAP)));
                }
            }
            if beside && (self.burst == 1 || executers.rounds() != rounds) {
                counts.counted += u64::from(self.burst);
            } else {
                counts.uncounted += u64::from(self.burst);
                threads::give_way();
            }
        }
        counts
    }
}
