//! Carrying out a plan: the flight of a word from its trap to its end.
//!
//! Three kinds of threads take a flight forward, always by seizing its phase first: the one that
//! started it, the completion thread, and a thread that ran into the trap on an instruction that
//! the trap handler cannot carry out. Where such a thread could have interrupted, by a signal, the
//! very step that it would wait for, signals are blocked during the step.
//!
//! # Safety
//!
//! This module exists to write prepared words into live code. Every word it writes was given to an
//! unsafe function of [`PatchSite`](crate::PatchSite) or [`Batch`](crate::Batch), whose callers
//! answer for it; every address was checked by [`Survey::adopt`](crate::Survey::adopt).
#![allow(unsafe_code)]

use crate::access::{Access, Refusal, Window};
use crate::addr::CodeAddr;
use crate::atlas::Atlas;
use crate::barrier::{Barrier, BarrierError};
use crate::claim::{Claim, Quad};
use crate::effect;
use crate::error::PatchError;
use crate::gate::{self, Inside};
use crate::granule::Granule;
use crate::ledger::{self, Front, Phase};
use crate::live::{self, Width};
use crate::os::{cpu, pages::PAGE, signals::Blocked};
use crate::protocol::{Layout, Plan, Step, TRAP, Whole};
use crate::sync::Ordering;
use crate::ticks::Ticks;
use crate::word::Word;
use std::ops::Range;

/// How a flight is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manner {
    pub(crate) plan: Plan,
    pub(crate) layout: Layout,
    pub(crate) granule: Granule,
    pub(crate) barrier: Barrier,
    pub(crate) access: Access,
}

pub(crate) type Flight = ledger::Flight<Manner>;

/// The bytes in flight in this process.
static QUADS: Atlas<Quad> = Atlas::new();

/// Where traps were planted in this process.
static FRONTS: Atlas<Front<Manner>> = Atlas::new();

/// The flights whose traps may lie at `address`, if there ever were any. Usable in a signal
/// handler.
pub(crate) fn front_at(address: CodeAddr) -> Option<&'static Front<Manner>> {
    FRONTS.find(address.align_down(8).get())
}

/// The claim on the bytes of `word`.
pub(crate) fn claim_of(word: &Range<CodeAddr>) -> Claim {
    Claim::new(word, |address| QUADS.enter(address.align_down(8).get()))
}

/// Ends every flight in `range`, whose code is about to be unmapped: nothing is stored, and the
/// bytes are free for later mappings.
pub(crate) fn abandon(range: &Range<CodeAddr>) {
    for flight in
        FRONTS.iter().flat_map(Front::flights).filter(|flight| range.contains(&flight.word.start))
    {
        while flight.phase() != Phase::Idle {
            if [Phase::Trapped, Phase::Backed].into_iter().any(|phase| flight.seize(phase)) {
                flight.land();
            }
        }
    }
}

/// In a forked child, which is alone: finishes every flight whose traps are planted, and frees all
/// bytes. Those that are `foreign` are its parent's to finish, and held for ever.
pub(crate) fn land_all(foreign: impl Fn(CodeAddr) -> bool) {
    for flight in FRONTS.iter().flat_map(Front::flights) {
        // The queue stayed with the parent's thread.
        flight.queued.store(std::ptr::null_mut(), Ordering::Relaxed);
        if flight.phase() != Phase::Idle && !foreign(flight.word.start) {
            flight.land_alone();
        }
    }
    for quad in QUADS.iter() {
        if foreign(quad.address()) { quad.hold_all() } else { quad.free_all() }
    }
}

/// How far to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As far as is possible without spinning until a wait is over.
    Poll,
    /// To the end.
    Finish,
}

impl Flight {
    /// The flight of `word`, `front` bytes of which are to lie under traps, in this manner; entered
    /// if it is new.
    pub(crate) fn enter(
        word: Range<CodeAddr>,
        front: usize,
        claim: Claim,
        manner: Manner,
    ) -> &'static Self {
        let place = FRONTS.enter(word.start.align_down(8).get());
        Self::of(place, word, front, claim, manner)
    }

    fn len(&self) -> usize {
        self.word.end.distance_from(self.word.start) as usize
    }

    fn start(&self) -> CodeAddr {
        self.word.start
    }

    /// Takes the bytes, or says which patch has them.
    pub(crate) fn claim(&self) -> Result<(), PatchError> {
        if self.claim.take() { Ok(()) } else { Err(self.holder()) }
    }

    /// The patch that holds bytes of this word: another patch of it, or an overlapping one.
    #[cold]
    pub(crate) fn holder(&self) -> PatchError {
        let (address, len) = (self.start(), self.len());
        match self.phase() {
            Phase::Idle => PatchError::Overlap { address, len },
            Phase::Busy | Phase::Trapped | Phase::Backed => PatchError::Contended { address },
        }
    }

    /// Takes off with the bytes claimed: everything that can be done before the trap. Returns the
    /// flight's number.
    pub(crate) fn prepare(&self, alias: isize, new: Word) -> u64 {
        // SAFETY: (1) the word was mapped and readable when it was adopted, and its adopter keeps
        // it so; so is its alias.
        let old = unsafe { live::load(self.start().offset(alias), self.len()) };
        self.alias.store(alias, Ordering::Relaxed);
        self.take_off(old, new.to_u64())
    }

    /// Whether the old word is known to be so: this does not read the code, which may be unmapped
    /// if the flight is over.
    fn is_known_answerable(&self) -> bool {
        self.words().0 == self.answerable.load(Ordering::Relaxed)
    }

    /// Whether the trap handler can carry out the old word wherever a thread may run into the
    /// traps, so that no thread ever has to wait for this flight.
    fn is_answerable(&self) -> bool {
        if self.is_known_answerable() {
            return true;
        }
        let (old, _) = self.words();
        let mut at = 0;
        while at < self.front {
            let mut code = [0; effect::LONGEST];
            let Some(instruction) = self.decode(old, at, &mut code) else { return false };
            if self.manner.layout == Layout::One {
                break;
            }
            at += instruction.len();
        }
        self.answerable.store(old, Ordering::Relaxed);
        true
    }

    /// Signals blocked, if a handler on this thread could have to wait for a step that it
    /// interrupted, because the trap handler cannot carry out an instruction there. For the thread
    /// that carries out the step, while the code stays.
    pub(crate) fn undisturbed(&self) -> Option<Blocked> {
        self.is_answerable();
        self.undisturbed_as_known()
    }

    /// The same for any thread, which may be too late to read the code: it uses the result of the
    /// thread that took off.
    pub(crate) fn undisturbed_as_known(&self) -> Option<Blocked> {
        let nobody_waits = self.is_known_answerable() && cpu::shadow_stack_pointer() == 0;
        (!nobody_waits).then(Blocked::all)
    }

    /// The instruction of `word` that begins `at` bytes behind the word's start; what follows the
    /// word is read from memory. Usable in a signal handler.
    pub(crate) fn decode(
        &self,
        word: u64,
        at: usize,
        code: &mut [u8; effect::LONGEST],
    ) -> Option<effect::Instruction> {
        let begin = self.start().offset(at as isize);
        let own = self.len() - at;
        code[..own].copy_from_slice(&word.to_le_bytes()[at..self.len()]);
        if let Some(instruction) = effect::decode(begin, &code[..own]) {
            return Some(instruction);
        }
        // The rest of the page is mapped because the word's last byte is.
        let last = self.word.end.offset(-1);
        let more = (PAGE - 1 - last.within(PAGE)).min(code.len() - own);
        for (i, byte) in code[own..own + more].iter_mut().enumerate() {
            // SAFETY: (1) on the page of the word's last byte, which its adopter keeps mapped and
            // readable.
            *byte = unsafe { live::load_byte(self.word.end.offset(i as isize)) };
        }
        effect::decode(begin, &code[..own + more])
    }

    /// Plants the traps. Between `prepare` and `set_phase`.
    pub(crate) fn trap(&self, window: &Window, _no_fork_between: &Inside) -> Result<(), Refusal> {
        self.write(window, Step::Trap, u64::from_le_bytes([TRAP; 8]))?;
        self.begin_wait();
        Ok(())
    }

    /// Carries out the stores of one step, towards `word`.
    pub(crate) fn write(&self, window: &Window, step: Step, word: u64) -> Result<(), Refusal> {
        let alias = self.alias.load(Ordering::Relaxed);
        let Some(pieces) = self.manner.plan.pieces(step) else {
            return self.write_at_once(window, step, word);
        };
        for (at, width) in pieces {
            let to = self.start().offset(at as isize);
            // SAFETY: (1) the bytes are this flight's, writable through `window` by the adopter's
            // access; (2) they are claimed; (3) executers see what the protocol's model shows that
            // they may.
            unsafe { window.store(to, alias, width, word >> (8 * at))? };
        }
        Ok(())
    }

    fn write_at_once(&self, window: &Window, step: Step, word: u64) -> Result<(), Refusal> {
        let range = self.manner.plan.range(step);
        let at = self.start().offset(range.start as isize);
        let alias = self.alias.load(Ordering::Relaxed);
        let Some(new) = Word::from_u64(word >> (8 * range.start), range.len()) else {
            return Ok(());
        };
        // SAFETY: as in `write`; (4) the plan puts the range inside one granule.
        unsafe {
            store_at_once(at, alias, self.manner.granule, new, |to, width, value| {
                window.store(to, alias, width, value)
            })
        }
        .map(drop)
    }

    /// Records the time for a barrier that is a wait.
    fn begin_wait(&self) {
        if let Barrier::Wait(_) = self.manner.barrier {
            self.stamp.store(Ticks::now().0, Ordering::Relaxed);
        }
    }

    /// Whether the next barrier, if it is a wait, is over.
    fn is_due(&self) -> bool {
        match self.manner.barrier {
            Barrier::Wait(span) => {
                Ticks::now().since(Ticks(self.stamp.load(Ordering::Relaxed))) >= span
            }
            Barrier::Membarrier | Barrier::Signal => true,
        }
    }

    fn pass_barrier(&self) -> Result<(), BarrierError> {
        match self.manner.barrier {
            Barrier::Wait(span) => {
                let waited = Ticks::now().since(Ticks(self.stamp.load(Ordering::Relaxed)));
                Barrier::Wait(Ticks(span.0.saturating_sub(waited.0))).pass()
            }
            barrier => barrier.pass(),
        }
    }

    /// Takes the flight forward, unless another thread is about to. Returns its phase. Usable in a
    /// signal handler.
    pub(crate) fn proceed(&self, pace: Pace) -> Result<Phase, PatchError> {
        loop {
            let phase = self.phase();
            let waiting = pace == Pace::Poll && !self.is_due();
            if matches!(phase, Phase::Idle | Phase::Busy) || waiting {
                return Ok(phase);
            }
            let undisturbed = self.undisturbed_as_known();
            if self.seize(phase) {
                // Another patch of the word may have taken off since, with an instruction that
                // makes threads wait.
                let _undisturbed = undisturbed.or_else(|| self.undisturbed_as_known());
                self.fly_leg(phase)?;
            }
        }
    }

    /// From one barrier up to the next, or to the end. `Busy` is this thread's.
    fn fly_leg(&self, phase: Phase) -> Result<(), PatchError> {
        if let Err(error) = self.pass_barrier() {
            self.retreat(phase);
            return Err(error.into());
        }
        self.fly_after_barrier(phase)
    }

    /// What follows the barrier. `Busy` is this thread's.
    pub(crate) fn fly_after_barrier(&self, phase: Phase) -> Result<(), PatchError> {
        let window = match Window::open(self.manner.access, std::iter::once(self.word.clone())) {
            Ok(window) => window,
            Err(refusal) => {
                self.set_phase(phase);
                return Err(PatchError::Refused(refusal));
            }
        };
        if self.store_leg(phase, &window, &gate::enter())? {
            self.land();
        }
        Ok(())
    }

    /// The stores between two barriers. `Busy` is this thread's; it stays so if the word is whole
    /// now, which `true` means, and is left where another barrier has to follow. A thread that
    /// stores for many flights lands them afterwards: giving bytes back waits until everything
    /// stored before has arrived.
    pub(crate) fn store_leg(
        &self,
        phase: Phase,
        window: &Window,
        _no_fork_between: &Inside,
    ) -> Result<bool, PatchError> {
        let (_, new) = self.words();
        let leg = self.manner.plan.leg(usize::from(phase == Phase::Backed));
        for &step in leg.iter().filter(|&&step| step != Step::Barrier) {
            let foreign = if step == Step::Front { self.foreign_front() } else { None };
            let written = foreign
                .map_or_else(|| self.write(window, step, new).map_err(PatchError::Refused), Err);
            if let Err(error) = written {
                // Foreign bytes end the flight as they are; bytes that cannot be written leave it
                // where it was.
                if matches!(error, PatchError::Foreign { .. }) {
                    self.land();
                } else {
                    self.set_phase(phase);
                }
                return Err(error);
            }
        }
        let whole = leg.last() == Some(&Step::Front);
        if !whole {
            self.begin_wait();
            self.set_phase(Phase::Backed);
        }
        Ok(whole)
    }

    /// The bytes over the front, if they are no longer our traps.
    fn foreign_front(&self) -> Option<PatchError> {
        // SAFETY: (1) the word is mapped and readable as long as its adopter keeps it so.
        let found = Word::from_u64(unsafe { live::load(self.start(), self.front) }, self.front)?;
        let expected = Word::from_u64(u64::from_le_bytes([TRAP; 8]), self.front)?;
        (found != expected).then_some(PatchError::Foreign {
            address: self.start(),
            expected,
            found,
        })
    }

    /// After a barrier that failed. Before the back is new, the front can simply become old again:
    /// no reader saw anything else. After that only the barrier leads on, and the traps stay for
    /// the next thread that tries. `Busy` is this thread's.
    pub(crate) fn retreat(&self, phase: Phase) {
        if phase == Phase::Trapped && self.restore_front().is_ok() {
            self.taken_back.store(self.number(), Ordering::Relaxed);
            self.land();
        } else {
            self.set_phase(phase);
        }
    }

    /// Finishes the flight where no other thread exists, whatever step it was in.
    fn land_alone(&self) {
        // Traps go upwards and the front goes downwards: where the first byte is no trap, the word
        // is whole. SAFETY: (1) mapped and readable, as the adopter keeps it.
        let trapped = unsafe { live::load_byte(self.start()) } == TRAP;
        let window = Window::open(self.manner.access, std::iter::once(self.word.clone()));
        if let (true, Ok(window)) = (trapped, window) {
            let (_, new) = self.words();
            let written = self
                .write(&window, Step::Back, new)
                .and_then(|()| self.write(&window, Step::Front, new));
            if written.is_err() {
                self.set_phase(Phase::Trapped);
                return;
            }
        }
        self.set_phase(Phase::Idle);
    }

    fn restore_front(&self) -> Result<(), Refusal> {
        let window = Window::open(self.manner.access, std::iter::once(self.word.clone()))?;
        let _no_fork_between = gate::enter();
        self.write(&window, Step::Front, self.words().0)
    }
}

/// Replaces what is at `at` by `new` with one store, which `store` does. `false` if a boundary cuts
/// the bytes that change.
///
/// # Safety
/// (1) The bytes are mapped, readable, and writable by `store`, or through `alias` where several
/// stores' worth of them change; (2) they are the caller's to change; (3) the new word is code that
/// may stand in place of the old one.
#[inline(always)]
pub(crate) unsafe fn store_at_once<E>(
    at: CodeAddr,
    alias: isize,
    granule: Granule,
    new: Word,
    store: impl FnOnce(CodeAddr, Width, u64) -> Result<(), E>,
) -> Result<bool, E> {
    // Read where they are written: a load from another address of bytes just stored waits for the
    // store. SAFETY: (1) of the caller; a mapping that is written is readable too.
    let old = unsafe { live::load(at.offset(alias), new.len()) };
    let Some(old) = Word::from_u64(old, new.len()) else { return Ok(true) };
    match Whole::new(at, granule, old, new) {
        None => return Ok(false),
        Some(Whole::Nothing) => {}
        Some(Whole::Store(from, width)) => {
            store(at.offset(from as isize), width, new.to_u64() >> (8 * from))?;
        }
        // SAFETY: (1) to (3) of the caller; (4) the eight bytes lie in one granule and therefore on
        // one page and in one line.
        Some(Whole::Exchange(from)) => unsafe { exchange(at, alias, from, new) },
    }
    Ok(true)
}

/// Puts what of `word`, which begins at `at`, lies in the eight bytes from `at + from` into these,
/// and leaves its neighbours there as they are.
///
/// # Safety
/// As for [`store_at_once`]; the eight bytes lie in one granule.
unsafe fn exchange(at: CodeAddr, alias: isize, from: isize, word: Word) {
    let bits = 8 * from.unsigned_abs() as u32;
    let place = |bytes: u64| if from < 0 { bytes << bits } else { bytes >> bits };
    let (mask, bytes) = (place(u64::MAX >> (64 - 8 * word.len())), place(word.to_u64()));
    let window = at.offset(from);
    // SAFETY: (1) the caller.
    let mut expected = unsafe { live::load(window, Width::Eight.bytes()) };
    loop {
        // SAFETY: (1) the caller; (2) neighbours are written back only if they are what they were.
        match unsafe {
            live::compare_exchange(window.offset(alias), expected, expected & !mask | bytes)
        } {
            Ok(()) => return,
            Err(found) => expected = found,
        }
    }
}
