//! The ledger: which bytes are being replaced right now, and by which flight.
//!
//! A *quad* is an aligned quadword of code that a trapped word touches; a *flight* is the replacement of one such word, from its
//! trap to its end. Quads and flights are entered once and never removed: the trap handler walks them without a lock, and a
//! thread may stand between the trap and the handler for as long as the scheduler likes. What remains of a flight that is over is
//! its grace entry: it tells the handler that a trap at this address was ours.
//!
//! ```text
//!   quad ├── held      one bit for each byte in flight
//!        └── flights → flight → flight   those whose front lies in this quad
//! ```
//!
//! Two flights overlap exactly if they want the same bit. A word touches at most two quads and takes the lower first, so of
//! several contenders the one that holds the highest quad has nobody left to lose against: at least one succeeds.
//!
//! There is no unsafe code here, and nothing but atomics: the loom models compile this very file.

use crate::addr::CodeAddr;
use crate::atlas::Entry;
use crate::sync::{AtomicIsize, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::ops::Range;

/// An aligned quadword of code that a trapped word has touched.
#[derive(Debug)]
pub(crate) struct Quad<X: 'static> {
    /// Its address; zero while the slot is free. Set once.
    key: AtomicUsize,
    /// Bit `i`: byte `i` is in flight. Set and cleared by whoever flies.
    held: AtomicU32,
    /// The flights whose front lies here, newest first. Only ever grows.
    flights: AtomicPtr<Flight<X>>,
}

impl<X> Entry for Quad<X> {
    fn vacant() -> Self {
        Self { key: AtomicUsize::new(0), held: AtomicU32::new(0), flights: AtomicPtr::new(std::ptr::null_mut()) }
    }

    fn key(&self) -> &AtomicUsize {
        &self.key
    }
}

impl<X: PartialEq> Quad<X> {
    /// Takes all bytes of `mask`, or none.
    fn take(&self, mask: u32) -> bool {
        let mut held = self.held.load(Ordering::Relaxed);
        loop {
            if held & mask != 0 {
                return false;
            }
            // Acquire pairs with the Release in `give_back`: the flight before left its bytes as they are now.
            match self.held.compare_exchange_weak(held, held | mask, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(found) => held = found,
            }
        }
    }

    fn give_back(&self, mask: u32) {
        self.held.fetch_and(!mask, Ordering::Release);
    }

    /// Frees all bytes. Only where no other thread exists.
    pub(crate) fn free_all(&self) {
        self.held.store(0, Ordering::Relaxed);
    }

    /// Whether any byte of `mask` is in flight.
    pub(crate) fn holds(&self, mask: u32) -> bool {
        self.held.load(Ordering::Acquire) & mask != 0
    }

    /// The flights whose front lies here.
    pub(crate) fn flights(&self) -> impl Iterator<Item = &'static Flight<X>> {
        let mut next = follow(&self.flights);
        std::iter::from_fn(move || {
            let flight = next?;
            next = follow(&flight.sibling);
            Some(flight)
        })
    }

    /// Enters a new flight, for ever. A word that two threads enter at once gets two flights: harmless, since its bytes still
    /// have one holder.
    fn add(&self, flight: Flight<X>) -> &'static Flight<X> {
        let flight: &'static Flight<X> = Box::leak(Box::new(flight));
        let mut first = self.flights.load(Ordering::Relaxed);
        loop {
            flight.sibling.store(first, Ordering::Relaxed);
            // Release pairs with the Acquire in `follow`: the flight is complete before it can be seen.
            let entered = std::ptr::from_ref(flight).cast_mut();
            match self.flights.compare_exchange_weak(first, entered, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return flight,
                Err(found) => first = found,
            }
        }
    }
}

/// The flight that a link leads to.
#[allow(unsafe_code)]
fn follow<X>(link: &AtomicPtr<Flight<X>>) -> Option<&'static Flight<X>> {
    // SAFETY: (1) links hold null or what `Box::leak` returned in `Quad::add`, which lives for ever; (2) Acquire pairs with
    // the Release that published it.
    unsafe { link.load(Ordering::Acquire).as_ref() }
}

/// Where a flight stands.
///
/// | phase | meaning | who may change it |
/// |---|---|---|
/// | `Idle` | not under way; the word is whole | whoever has taken its bytes: to `Busy` |
/// | `Busy` | somebody carries out a step | that thread |
/// | `Trapped` | traps lie over the front | anybody, by exchange to `Busy` |
/// | `Backed` | and the back is new | anybody, by exchange to `Busy` |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Phase {
    /// Not under way: the word is whole.
    Idle = 0,
    /// Somebody is carrying out a step.
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
    pub(crate) claim: Claim<X>,
    /// How it is carried out.
    pub(crate) manner: X,
    phase: AtomicU32,
    /// Counts the flights of this word; changed while its bytes are held, before `old` and `new` are.
    number: AtomicU64,
    old: AtomicU64,
    new: AtomicU64,
    /// The distance from where the word is executed to where it is written.
    pub(crate) alias: AtomicIsize,
    /// When the latest step was carried out, for barriers that are waits.
    pub(crate) stamp: AtomicU64,
    /// The number of the latest flight that was taken back instead of finished.
    pub(crate) taken_back: AtomicU64,
    /// The word of which it is known that the trap handler can carry it out from any byte of the front. Never the word zero.
    pub(crate) answerable: AtomicU64,
    /// The next flight whose front lies in the same quad.
    sibling: AtomicPtr<Self>,
    /// The next flight in the completion queue.
    pub(crate) queued: AtomicPtr<Self>,
}

impl<X: PartialEq> Flight<X> {
    /// The flight of this word in this manner, entered if it is new.
    pub(crate) fn of(word: Range<CodeAddr>, front: usize, claim: Claim<X>, manner: X) -> &'static Self {
        let quad = claim.low.0;
        let known = quad.flights().find(|f| f.word == word && f.front == front && f.manner == manner);
        known.unwrap_or_else(|| quad.add(Self::new(word, front, claim, manner)))
    }

    fn new(word: Range<CodeAddr>, front: usize, claim: Claim<X>, manner: X) -> Self {
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
        // Acquire pairs with the Release in `set_phase`: who sees a phase sees the bytes and words that go with it.
        Phase::from_number(self.phase.load(Ordering::Acquire))
    }

    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Takes off. The caller has taken the word's bytes.
    pub(crate) fn take_off(&self, old: u64, new: u64) -> u64 {
        self.phase.store(Phase::Busy as u32, Ordering::Relaxed);
        // A reader that sees one of the words below sees the number too, and knows that what it read before is over.
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

    /// Leaves `Busy` for good: the word is whole and its bytes are free. Only for the thread that entered it.
    pub(crate) fn land(&self) {
        // In this order: who takes the bytes next sets the phase without looking.
        self.set_phase(Phase::Idle);
        self.claim.give_back();
    }

    /// Becomes the one that carries out the next step, if nobody is.
    pub(crate) fn seize(&self, from: Phase) -> bool {
        self.phase.compare_exchange(from as u32, Phase::Busy as u32, Ordering::Acquire, Ordering::Relaxed).is_ok()
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

/// The bytes of one word: the quads they lie in and their bits there.
#[derive(Debug)]
pub(crate) struct Claim<X: 'static> {
    low: (&'static Quad<X>, u32),
    high: Option<(&'static Quad<X>, u32)>,
}

impl<X> Clone for Claim<X> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<X> Copy for Claim<X> {}

impl<X: PartialEq> Claim<X> {
    /// The claim on `[start, end)`, at most eight bytes, with the quads that `quad_of` finds.
    pub(crate) fn new(word: &Range<CodeAddr>, mut quad_of: impl FnMut(CodeAddr) -> &'static Quad<X>) -> Self {
        let len = word.end.distance_from(word.start) as usize;
        let bits = ((1u32 << len) - 1) << word.start.within(8);
        let low = (quad_of(word.start), bits & 0xff);
        let above = bits >> 8;
        let high = (above != 0).then(|| (quad_of(word.end.offset(-1)), above));
        Self { low, high }
    }

    /// Takes the bytes if none of them is held.
    pub(crate) fn take(&self) -> bool {
        let (low, bits) = self.low;
        if !low.take(bits) {
            return false;
        }
        match self.high {
            Some((high, above)) if !high.take(above) => {
                low.give_back(bits);
                false
            }
            _ => true,
        }
    }

    /// Gives the bytes back. Only for who took them.
    pub(crate) fn give_back(&self) {
        if let Some((high, above)) = self.high {
            high.give_back(above);
        }
        let (low, bits) = self.low;
        low.give_back(bits);
    }

    /// Whether somebody holds one of the bytes.
    pub(crate) fn is_held(&self) -> bool {
        self.low.0.holds(self.low.1) || self.high.is_some_and(|(high, above)| high.holds(above))
    }
}
