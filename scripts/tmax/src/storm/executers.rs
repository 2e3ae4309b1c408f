//! Executers: threads that execute targets in a tight loop and count the outcomes.
//!
//! The patching thread is pinned to the first processor of the process, executing threads to the
//! others in turn. An executing thread publishes its counts after every round, so that the patching
//! thread can detect whether a thread was executing between two toggles.

use super::execution::{self, OnTrap, Registers};
use super::shape::{Face, Outcome};
use super::target::Target;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use wordpatch::os::{
    OsError,
    affinity::{self, Cpu},
    threads::{self, Tid},
};

/// The assignment of threads to processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The patching thread's processor.
    pub patcher: Cpu,
    /// The processors of the executing threads, taken in turn.
    pub executers: Vec<Cpu>,
    /// All processors that the process may use.
    pub all: Vec<Cpu>,
}

/// There is only one processor: no thread executes while another stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssignmentError {
    /// There is no second processor.
    #[error(
        "only processor {0} may be used: two threads must run at once; give this process two processors (taskset -c 0,1 …)"
    )]
    Alone(Cpu),
    /// A system call failed.
    #[error(transparent)]
    Os(#[from] OsError),
}

impl Assignment {
    /// Puts the patching thread on the first processor, all others on the rest.
    pub fn new() -> Result<Self, AssignmentError> {
        let all = affinity::allowed()?;
        match all.as_slice() {
            [] => Err(OsError { call: "sched_getaffinity", errno: libc::ESRCH }.into()),
            [only] => Err(AssignmentError::Alone(*only)),
            [patcher, executers @ ..] => {
                Ok(Self { patcher: *patcher, executers: executers.to_vec(), all: all.clone() })
            }
        }
    }

    /// Pins the calling thread to the patching thread's processor until the result is dropped.
    pub fn pin_patcher(&self) -> Result<Pinned<'_>, OsError> {
        affinity::keep_to(&[self.patcher])?;
        Ok(Pinned(self))
    }
}

/// The patching thread's processor, occupied.
#[must_use = "the thread is kept on its processor only while this lives"]
#[derive(Debug)]
pub struct Pinned<'a>(&'a Assignment);

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        // This was allowed before; if it fails now, the thread stays on a processor that it may
        // use.
        let _ = affinity::keep_to(&self.0.all);
    }
}

/// The number of stray outcomes that each executing thread keeps.
const STRAYS: usize = 8;

/// The number of classes of outcomes.
const CLASSES: usize = 6;

fn class(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Old => 0,
        Outcome::New => 1,
        Outcome::Off => 2,
        Outcome::Between => 3,
        Outcome::Torn { .. } => 4,
        Outcome::Stray => 5,
    }
}

/// The counts that one executing thread publishes, on separate lines.
///
/// | field | meaning | changed by |
/// |---|---|---|
/// | `thread` | its ID, zero before it has begun | the executing thread |
/// | `rounds` | how often it has executed all targets | the executing thread |
/// | `wrong` | how many outcomes were torn or stray | the executing thread |
#[derive(Debug, Default)]
#[repr(align(128))]
struct Published {
    thread: AtomicI32,
    rounds: AtomicU64,
    wrong: AtomicU64,
}

/// The executing threads.
#[derive(Debug)]
pub struct Executers {
    published: Vec<Published>,
    over: AtomicBool,
    /// Whether the latest toggle leads to the new face; changed by the patching thread before its
    /// first store.
    to_new: AtomicBool,
}

/// The outcomes of the executing threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    classes: [u64; CLASSES],
    /// Torn outcomes: the target, a mask of the bytes from its new face, and the number.
    pub torn: BTreeMap<(usize, u8), u64>,
    /// The directions of the tears.
    pub directions: Directions,
    /// The registers after the first stray outcomes, by target, for the analysis of impossible
    /// results.
    pub strays: Vec<(usize, Registers)>,
}

/// The directions of tears, relative to the toggle in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directions {
    /// An old front, and new bytes in the back: bytes that were fetched before the wait survived
    /// it.
    pub stale_front: u64,
    /// A new front, and old bytes in the back.
    pub stale_back: u64,
    /// A mixed front.
    pub scattered: u64,
}

impl Directions {
    fn note(&mut self, target: &Target, from_new: u8, to: Face) {
        let differing = target.shape().differing();
        let front = differing & ((1u16 << target.front()) - 1) as u8;
        let after = if to == Face::New { from_new } else { differing & !from_new };
        // The back may take several stores; the executed front decides.
        match after & front {
            0 => self.stale_front += 1,
            seen if seen == front => self.stale_back += 1,
            _ => self.scattered += 1,
        }
    }

    fn merge(&mut self, other: Self) {
        self.stale_front += other.stale_front;
        self.stale_back += other.stale_back;
        self.scattered += other.scattered;
    }
}

impl Log {
    /// The number of outcomes of this class; all torn ones are one class.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.classes[class(outcome)]
    }

    /// The number of executions.
    pub fn executions(&self) -> u64 {
        self.classes.iter().sum()
    }

    /// The number of torn or stray ones.
    pub fn wrong(&self) -> u64 {
        self.classes[4] + self.classes[5]
    }

    fn add(
        &mut self,
        outcome: Outcome,
        registers: Registers,
        (index, target): (usize, &Target),
        to: Face,
    ) {
        self.classes[class(outcome)] += 1;
        if outcome == Outcome::Stray && self.strays.len() < STRAYS {
            self.strays.push((index, registers));
        }
        if let Outcome::Torn { from_new } = outcome {
            *self.torn.entry((index, from_new)).or_default() += 1;
            self.directions.note(target, from_new, to);
        }
    }

    /// Adds the outcomes of another log.
    pub(super) fn merge(&mut self, other: Self) {
        self.directions.merge(other.directions);
        self.strays.extend(other.strays.into_iter().take(STRAYS));
        self.classes.iter_mut().zip(other.classes).for_each(|(sum, n)| *sum += n);
        for (key, n) in other.torn {
            *self.torn.entry(key).or_default() += n;
        }
    }
}

impl Executers {
    fn new(size: usize) -> Self {
        Self {
            published: (0..size).map(|_| Published::default()).collect(),
            over: AtomicBool::new(false),
            to_new: AtomicBool::new(false),
        }
    }

    /// Announces the next toggle, so that executing threads can classify tears.
    #[inline]
    pub(super) fn announce(&self, to: Face) {
        self.to_new.store(to == Face::New, Ordering::Relaxed);
    }

    /// The rounds of all executing threads together.
    #[inline]
    pub fn rounds(&self) -> u64 {
        self.published.iter().map(|published| published.rounds.load(Ordering::Relaxed)).sum()
    }

    /// The wrong outcomes of all executing threads so far.
    #[inline]
    pub fn wrong(&self) -> u64 {
        self.published.iter().map(|published| published.wrong.load(Ordering::Relaxed)).sum()
    }

    /// Waits until an executing thread has begun and finished a round, for `patience` spins at
    /// most. Returns whether one has.
    #[inline]
    pub fn finishes_round(&self, patience: u32) -> bool {
        // One round may be in progress: its bytes were fetched before.
        let enough = self.rounds() + 2;
        for _ in 0..patience {
            if self.rounds() >= enough {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    /// The executing threads that have begun.
    pub fn threads(&self) -> impl Iterator<Item = Tid> {
        self.published
            .iter()
            .map(|published| Tid(published.thread.load(Ordering::Relaxed)))
            .filter(|tid| tid.0 != 0)
    }

    /// Runs `lead` while `size` executing threads, and `others` threads that run `other`, are
    /// running; then stops them.
    pub(crate) fn with<T>(
        assignment: &Assignment,
        targets: &[&Target],
        size: usize,
        (others, other): (usize, impl Fn(&Self, &AtomicBool) + Sync),
        lead: impl FnOnce(&Self) -> T,
    ) -> Result<(T, Log), OsError> {
        let executers = Self::new(size);
        std::thread::scope(|scope| {
            // Stops the threads if `lead` panics, too: the scope waits for its threads.
            struct Over<'a>(&'a AtomicBool);
            impl Drop for Over<'_> {
                fn drop(&mut self) {
                    self.0.store(true, Ordering::Relaxed);
                }
            }
            let over = Over(&executers.over);
            let handles: Vec<_> = executers
                .published
                .iter()
                .zip(assignment.executers.iter().cycle())
                .map(|(published, cpu)| {
                    scope.spawn(|| execute_targets(targets, published, &executers, *cpu))
                })
                .collect();
            for cpu in assignment.all.iter().cycle().take(others) {
                let (executers, other) = (&executers, &other);
                scope.spawn(move || {
                    // If pinning fails, the thread disturbs less on another processor, but it still
                    // does.
                    let _ = affinity::keep_to(&[*cpu]);
                    other(executers, &executers.over);
                });
            }
            while executers.threads().count() < size
                && !handles.iter().any(std::thread::ScopedJoinHandle::is_finished)
            {
                threads::give_way();
            }
            let result = lead(&executers);
            drop(over);
            let mut log = Log::default();
            for executer in handles {
                match executer.join() {
                    Ok(part) => log.merge(part?),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok((result, log))
        })
    }
}

/// The loop of an executing thread.
fn execute_targets(
    targets: &[&Target],
    published: &Published,
    executers: &Executers,
    cpu: Cpu,
) -> Result<Log, OsError> {
    affinity::keep_to(&[cpu])?;
    published.thread.store(threads::current().0, Ordering::Relaxed);
    execution::recoverable(&executers.over, OnTrap::Retry, || {
        let mut log = Log::default();
        let mut rounds = 0;
        while !executers.over.load(Ordering::Relaxed) {
            for (i, target) in targets.iter().enumerate() {
                let registers = target.execute();
                match target.outcome(&registers) {
                    Outcome::Old => log.classes[Face::Old as usize] += 1,
                    Outcome::New => log.classes[Face::New as usize] += 1,
                    _ if registers.ended() => {}
                    outcome => {
                        let to = if executers.to_new.load(Ordering::Relaxed) {
                            Face::New
                        } else {
                            Face::Old
                        };
                        log.add(outcome, registers, (i, target), to);
                        published.wrong.store(log.wrong(), Ordering::Relaxed);
                    }
                }
            }
            rounds += 1;
            published.rounds.store(rounds, Ordering::Relaxed);
        }
        Ok(log)
    })
}
