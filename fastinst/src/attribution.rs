//! Attribution: which functions the CPU time of a process is charged to, from the samples of a
//! clock.
//!
//! ```text
//!   samples with an address, by thread ──► time by place ──┬─ code with probes ───────────────► innermost
//!   (a thread's share its own processor time)              └─ code without ─┐
//!   samples with a stack ──► stacks by the place they end in ──────────────► divided among callers: innermost, elsewhere
//!                                                          └───────────────► stacks, on the stack
//! ```
//!
//! Addresses show how much time a place took; they are many and cheap. Stacks show for which
//! callers: the time of a place is divided among the stacks that end there, in proportion. So
//! stacks and functions always have the same sum, and a function is never on the stack for less
//! time than it is innermost. This is post-stratification (Cochran, Sampling Techniques, 1977,
//! chapter 5A): the stratum is the place a stack ends in, its size is known from the addresses.
//!
//! A thread's samples share that thread's own CPU time. So lost samples introduce no bias, and
//! neither do threads that are too short to be sampled as often as they should be: the first sample
//! is taken a whole period after a thread's beginning. Those that end before are sampled in bursts,
//! if they are many; their samples share the time of all threads that no other sample is of.
//!
//! Time in hooks, their stubs and trampolines is not the program's: it is kept apart, and neither
//! charged to a function nor part of the CPU time.
//!
//! Everything here is pure: a [`Code`] is queried for the owner of a place.

mod division;
mod strands;

pub(crate) use strands::{Brief, Ended, Strand};

use division::Division;
use profiler::{ClockFunction, ClockStack, FuncId};
use std::collections::HashMap;
use std::rc::Rc;

/// A place in code: a number of a mapping, and the distance from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) mapping: u32,
    pub(crate) offset: u32,
}

impl Place {
    /// Where no file is mapped, or the place is not known.
    pub(crate) const NOWHERE: Self = Self { mapping: u32::MAX, offset: 0 };
}

/// The owner of the code at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The functions with probes that contain the place: those that were inlined, innermost first,
    /// and the one that they were inlined into. Empty where the code has no probes.
    pub(crate) functions: Rc<[FuncId]>,
    /// Where the code's function begins.
    pub(crate) code: Place,
    /// Whether the place is just after an instruction that enters the kernel. A clock that does not
    /// sample the kernel finds a thread there if the interrupt arrived while the kernel had
    /// interrupts disabled: this is the kernel's time.
    pub(crate) is_kernel_exit: bool,
    /// Whether it is our own code, which probes lead to.
    pub(crate) is_hook: bool,
}

/// Finds the owners of code.
pub(crate) trait Code {
    /// The owner of a place.
    fn owner(&mut self, place: Place) -> Owner;
}

/// A stack: its places, innermost first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Stack {
    pub(crate) places: Box<[Place]>,
    /// Whether it reaches the thread's beginning.
    pub(crate) is_whole: bool,
}

/// The observations of a clock.
#[derive(Debug)]
pub(crate) struct Observed<'o> {
    /// Live threads.
    pub(crate) live: Vec<&'o Strand>,
    /// Threads that have ended.
    pub(crate) ended: &'o Ended,
    /// CPU time of threads that had ended before it could be read.
    pub(crate) residue: f64,
    /// CPU time of threads without a sample.
    pub(crate) unsampled: f64,
    /// What it was spent on, as far as that is known.
    pub(crate) brief: Option<Brief>,
    pub(crate) stacks: &'o HashMap<Stack, u64>,
    pub(crate) user: UserTime,
}

/// How much of the threads' time is user time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum UserTime {
    /// All time is charged to functions: the kernel's time has the address from which the kernel
    /// was entered.
    AndSystem,
    /// The clock sees user time only, and a sample stands for a period, in nanoseconds.
    Sampled { period: f64 },
    /// The same, but samples were lost: this share of the CPU time.
    Share(f64),
}

/// The result: the time of functions and stacks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Attributed {
    pub(crate) processor: f64,
    pub(crate) system: f64,
    pub(crate) unknown: f64,
    /// Of that, time that may be any function's.
    pub(crate) unplaced: f64,
    pub(crate) samples: u64,
    pub(crate) stack_samples: u64,
    pub(crate) functions: Vec<ClockFunction>,
    pub(crate) stacks: Vec<ClockStack>,
}

/// Time, and the samples from which it was computed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Amount {
    pub(crate) time: f64,
    pub(crate) samples: f64,
}

impl Amount {
    fn add(&mut self, other: Self) {
        self.time += other.time;
        self.samples += other.samples;
    }

    fn times(self, share: f64) -> Self {
        Self { time: self.time * share, samples: self.samples * share }
    }
}

/// Charges the CPU time to functions.
pub(crate) fn attribute(observed: &Observed<'_>, code: &mut impl Code) -> Attributed {
    let mut known = HashMap::<Place, Owner>::new();
    let mut owner = |place: Place| known.entry(place).or_insert_with(|| code.owner(place)).clone();
    let places = strands::by_place(observed, &mut owner);
    let mut division = Division::of(observed.stacks, &mut owner);
    for (&place, &amount) in &places.of {
        division.charge(&owner(place), amount);
    }
    let mut attributed = division.finish();
    attributed.unknown += places.unsampled;
    attributed.unplaced += places.unsampled;
    attributed.processor = places.processor;
    attributed.system = places.system;
    attributed.samples = places.samples;
    attributed.stack_samples = observed.stacks.values().sum();
    attributed
}

#[cfg(test)]
mod tests;
