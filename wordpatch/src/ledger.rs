//! The ledger: where traps were planted, and what is being replaced there.
//!
//! A *flight* is the replacement of one word, from its trap to its end; a *front* is an aligned
//! quadword of code and leads to the flights whose traps lie in it. Both are entered once and never
//! removed: the trap handler walks them without a lock, and a thread may stand between the trap and
//! the handler for as long as the scheduler likes. What remains of a flight that is over is its
//! grace entry: it shows the handler that a trap at this address was ours.
//!
//! ```text
//!   front of 0x…40 → flight of [0x…45, 0x…4a) → flight of [0x…46, 0x…4b)
//! ```
//!
//! There is no unsafe code here, and nothing but atomics: the loom models compile this very file.

use crate::addr::CodeAddr;
use crate::atlas::Entry;
use crate::claim::Claim;
use crate::sync::{AtomicIsize, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::ops::Range;

/// An aligned quadword of code in which the fronts of words begin.
#[derive(Debug)]
pub(crate) struct Front<X: 'static> {
    /// Its address; zero while the entry is vacant. Set once.
    key: AtomicUsize,
    /// The flights whose front lies here, newest first. Only ever grows.
    flights: AtomicPtr<Flight<X>>,
}

impl<X> Entry for Front<X> {
    fn vacant() -> Self {
        Self { key: AtomicUsize::new(0), flights: AtomicPtr::new(std::ptr::null_mut()) }
    }

    fn key(&self) -> &AtomicUsize {
        &self.key
    }
}

impl<X: PartialEq> Front<X> {
    /// The flights whose front lies here.
    pub(crate) fn flights(&self) -> impl Iterator<Item = &'static Flight<X>> {
        let mut next = follow(&self.flights);
        std::iter::from_fn(move || {
            let flight = next?;
            next = follow(&flight.sibling);
            Some(flight)
        })
    }

    /// Enters a new flight, for ever. A word that two threads enter at once gets two flights:
    /// harmless, since its bytes still have one holder.
    fn add(&self, flight: Flight<X>) -> &'static Flight<X> {
        let flight: &'static Flight<X> = Box::leak(Box::new(flight));
        let mut first = self.flights.load(Ordering::Relaxed);
        loop {
            flight.sibling.store(first, Ordering::Relaxed);
            // Release pairs with the Acquire in `follow`: the flight is complete before it can be
            // seen.
            let entered = std::ptr::from_ref(flight).cast_mut();
            match self.flights.compare_exchange_weak(
                first,
                entered,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return flight,
                Err(found) => first = found,
            }
        }
    }
}

/// Whose a trap is that a thread has run into.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whose<X: 'static> {
    /// No patch's any more: what is there now is to be run.
    Gone,
    /// This flight's, which was under way just now.
    Flight(&'static Flight<X>),
    /// The code's own.
    Foreign,
}

impl<X: PartialEq> Front<X> {
    /// Finds out whose the trap at `address` is; `is_trap` looks whether there is one now.
    ///
    /// A flight may end, and another begin, between any two looks. A trap that is there after no
    /// flight was found, while no flight began since before the search, was there all the time and
    /// belongs to none.
    pub(crate) fn whose(&self, address: CodeAddr, is_trap: impl Fn() -> bool) -> Whose<X> {
        loop {
            let before = self.flights_so_far();
            if !is_trap() {
                return Whose::Gone;
            }
            if let Some(flight) =
                self.flights().find(|flight| flight.traps(address) && flight.phase() != Phase::Idle)
            {
                return Whose::Flight(flight);
            }
            if is_trap() && self.flights_so_far() == before {
                return Whose::Foreign;
            }
        }
    }

    /// How many flights began here.
    fn flights_so_far(&self) -> u64 {
        self.flights().map(Flight::number).sum()
    }
}

/// The flight that a link leads to.
#[allow(unsafe_code)]
fn follow<X>(link: &AtomicPtr<Flight<X>>) -> Option<&'static Flight<X>> {
    // SAFETY: (1) links hold null or what `Box::leak` returned in `Front::add`, which lives for
    // ever; (2) Acquire pairs with the Release that published it.
    unsafe { link.load(Ordering::Acquire).as_ref() }
}

/// Where a flight stands.
///
/// | phase | meaning | changed by |
/// |---|---|---|
/// | `Idle` | not under way; the word is whole | the thread that has taken its bytes: to `Busy` |
/// | `Busy` | a thread applies a step | that thread |
/// | `Trapped` | traps lie over the front | any thread, by exchange to `Busy` |
/// | `Backed` | and the back is new | any thread, by exchange to `Busy` |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Phase {
    /// Not under way: the word is whole.
    Idle = 0,
    /// A thread is applying a step.
    Busy = 1,
    /// Traps lie over the front; executers get the old instruction from the trap handler.
    Trapped = 2,
    /// And the back is new.
    Backed = 3,
}

impl Phase {
    fn from_number(number: u32) -> Self {
        match number {
            0 => Self::Idle,
            2 => Self::Trapped,
            3 => Self::Backed,
            // Only the four numbers above are ever stored.
            _ => Self::Busy,
        }
    }
}

/// The replacement of one word, under way or over.
#[derive(Debug)]
pub(crate) struct Flight<X: 'static> {
    pub(crate) word: Range<CodeAddr>,
    /// How many of its bytes lie under traps while it is under way.
    pub(crate) front: usize,
    pub(crate) claim: Claim,
    /// How it is carried out.
    pub(crate) manner: X,
    phase: AtomicU32,
    /// Counts the flights of this word; changed while its bytes are held, before `old` and `new`
    /// are.
    number: AtomicU64,
    old: AtomicU64,
    new: AtomicU64,
    /// The distance from where the word is executed to where it is written.
    pub(crate) alias: AtomicIsize,
    /// When the latest step was carried out, for barriers that are waits.
    pub(crate) stamp: AtomicU64,
    /// The number of the latest flight that was taken back instead of finished.
    pub(crate) taken_back: AtomicU64,
    /// The word of which it is known that the trap handler can carry it out from any byte of the
    /// front. Never the word zero.
    pub(crate) answerable: AtomicU64,
    /// The next flight of the same front.
    sibling: AtomicPtr<Self>,
    /// The next flight in the completion queue.
    pub(crate) queued: AtomicPtr<Self>,
}

impl<X: PartialEq> Flight<X> {
    /// The flight of this word in this manner, entered if it is new.
    pub(crate) fn of(
        place: &Front<X>,
        word: Range<CodeAddr>,
        front: usize,
        claim: Claim,
        manner: X,
    ) -> &'static Self {
        let known =
            place.flights().find(|f| f.word == word && f.front == front && f.manner == manner);
        known.unwrap_or_else(|| place.add(Self::new(word, front, claim, manner)))
    }

    fn new(word: Range<CodeAddr>, front: usize, claim: Claim, manner: X) -> Self {
        Self {
            word,
            front,
            claim,
            manner,
            phase: AtomicU32::new(Phase::Idle as u32),
            number: AtomicU64::new(0),
            old: AtomicU64::new(0),
            new: AtomicU64::new(0),
            alias: AtomicIsize::new(0),
            stamp: AtomicU64::new(0),
            taken_back: AtomicU64::new(0),
            answerable: AtomicU64::new(0),
            sibling: AtomicPtr::new(std::ptr::null_mut()),
            queued: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Whether a trap at `address` is, or was, one of this flight's.
    pub(crate) fn traps(&self, address: CodeAddr) -> bool {
        self.word.start <= address && (address.distance_from(self.word.start) as usize) < self.front
    }

    pub(crate) fn phase(&self) -> Phase {
        // Acquire pairs with the Release in `set_phase`: a thread that sees a phase sees the bytes
        // and words that go with it.
        Phase::from_number(self.phase.load(Ordering::Acquire))
    }

    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Takes off. The caller has taken the word's bytes.
    pub(crate) fn take_off(&self, old: u64, new: u64) -> u64 {
        self.phase.store(Phase::Busy as u32, Ordering::Relaxed);
        // A reader that sees one of the words below sees the number too, and knows that what it
        // read before is over.
        let number = self.number.load(Ordering::Relaxed) + 1;
        self.number.store(number, Ordering::Release);
        self.old.store(old, Ordering::Release);
        self.new.store(new, Ordering::Release);
        number
    }

    /// Leaves `Busy`. Only for the thread that entered it.
    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u32, Ordering::Release);
    }

    /// Leaves `Busy` for good: the word is whole and its bytes are free. Only for the thread that
    /// entered it.
    pub(crate) fn land(&self) {
        // In this order: the thread that takes the bytes next sets the phase without looking.
        self.set_phase(Phase::Idle);
        self.claim.give_back();
    }

    /// Becomes the one that carries out the next step, if no thread is.
    pub(crate) fn seize(&self, from: Phase) -> bool {
        self.phase
            .compare_exchange(from as u32, Phase::Busy as u32, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// The word before and the word after. Only for the thread that carries out a step.
    pub(crate) fn words(&self) -> (u64, u64) {
        (self.old.load(Ordering::Relaxed), self.new.load(Ordering::Relaxed))
    }

    /// The number of the flight that is under way and the word it replaces, if one is.
    pub(crate) fn replaced(&self) -> Option<(u64, u64)> {
        let number = self.number();
        let old = self.old.load(Ordering::Acquire);
        let under_way = self.phase() != Phase::Idle && self.number() == number;
        under_way.then_some((number, old))
    }
}
