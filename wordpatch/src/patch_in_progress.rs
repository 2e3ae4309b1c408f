//! Patches in progress, from the trap to the end.
//!
//! Three kinds of threads advance a patch in progress, and each seizes its phase first: the thread
//! that started it, the completion thread, and a thread that hit the trap on an instruction that
//! the trap handler cannot emulate. A signal handler could hit the trap in the middle of a step on
//! its own thread, and then wait for that step. Where that is possible, signals are blocked during
//! the step.
//!
//! # Safety
//!
//! This module exists to write prepared words into live code. The caller of an unsafe function of
//! [`PatchSite`](crate::PatchSite) or [`Batch`](crate::Batch) is responsible for every word;
//! [`Survey::adopt`](crate::Survey::adopt) has checked every address.
#![allow(unsafe_code)]

use crate::access::{Access, Refusal, Window};
use crate::addr::CodeAddr;
use crate::address_map::AddressMap;
use crate::barrier::{Barrier, BarrierError};
use crate::effect;
use crate::error::PatchError;
use crate::gate::{self, Inside};
use crate::granule::Granule;
use crate::ledger::{self, Holder, Phase, TrapWindow};
use crate::live::{self, Width};
use crate::os::{cpu, pages::PAGE, signals::Blocked};
use crate::protocol::{Layout, Plan, Step, TRAP, Whole};
use crate::range_lock::{Quad, RangeLock};
use crate::sync::Ordering;
use crate::ticks::Ticks;
use crate::word::Word;
use std::ops::Range;

/// The parameters of a patch in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PatchParameters {
    pub(crate) plan: Plan,
    pub(crate) layout: Layout,
    pub(crate) granule: Granule,
    pub(crate) barrier: Barrier,
    pub(crate) access: Access,
}

pub(crate) type PatchInProgress = ledger::PatchInProgress<PatchParameters>;

/// The byte-range locks of this process.
static QUADS: AddressMap<Quad> = AddressMap::new();

/// The places in this process where traps were stored.
static TRAP_WINDOWS: AddressMap<TrapWindow<PatchParameters>> = AddressMap::new();

/// The trap window that contains `address`, with the patches whose traps may lie there, if there
/// ever were any. Usable in a signal handler.
pub(crate) fn trap_window_at(address: CodeAddr) -> Option<&'static TrapWindow<PatchParameters>> {
    TRAP_WINDOWS.find(address.align_down(8).get())
}

/// The lock on the bytes of `word`.
pub(crate) fn range_lock_of(word: &Range<CodeAddr>) -> RangeLock {
    RangeLock::new(word, |address| QUADS.enter(address.align_down(8).get()))
}

/// Ends every patch in progress in `range`, whose code is about to be unmapped: nothing is stored,
/// and later mappings can use the addresses.
pub(crate) fn abandon(range: &Range<CodeAddr>) {
    for patch in TRAP_WINDOWS
        .iter()
        .flat_map(TrapWindow::patches)
        .filter(|patch| range.contains(&patch.word.start))
    {
        while patch.phase() != Phase::Idle {
            if [Phase::Trapped, Phase::Backed].into_iter().any(|phase| patch.seize(phase)) {
                patch.end_patch();
            }
        }
    }
}

/// In a forked child, whose only thread is the caller: finishes every patch whose traps are
/// stored, and releases all bytes. The parent finishes those that are `foreign`; their bytes stay
/// locked.
pub(crate) fn finish_all(foreign: impl Fn(CodeAddr) -> bool) {
    for patch in TRAP_WINDOWS.iter().flat_map(TrapWindow::patches) {
        // The queue belongs to the parent's completion thread.
        patch.queued.store(std::ptr::null_mut(), Ordering::Relaxed);
        if patch.phase() != Phase::Idle && !foreign(patch.word.start) {
            patch.finish_alone();
        }
    }
    for quad in QUADS.iter() {
        if foreign(quad.address()) { quad.hold_all() } else { quad.free_all() }
    }
}

/// How far a patch in progress is advanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As far as is possible without spinning until a wait is over.
    Poll,
    /// To the end.
    Finish,
}

impl PatchInProgress {
    /// The patch of `word` with these parameters, whose first `front` bytes get traps; entered if
    /// it is new.
    pub(crate) fn enter(
        word: Range<CodeAddr>,
        front: usize,
        range_lock: RangeLock,
        parameters: PatchParameters,
    ) -> &'static Self {
        let window = TRAP_WINDOWS.enter(word.start.align_down(8).get());
        Self::find_or_add(window, word, front, range_lock, parameters)
    }

    fn len(&self) -> usize {
        self.word.end.distance_from(self.word.start) as usize
    }

    fn start(&self) -> CodeAddr {
        self.word.start
    }

    /// Locks the bytes, or returns the patch that holds them as an error. [`end_patch`] releases
    /// them.
    ///
    /// [`end_patch`]: Self::end_patch
    pub(crate) fn lock_range(&self) -> Result<(), PatchError> {
        let (address, len) = (self.start(), self.len());
        self.claim().map_err(|holder| match holder {
            Holder::SameWord => PatchError::Contended { address },
            Holder::Overlapping => PatchError::Overlap { address, len },
        })
    }

    /// Starts the patch, whose bytes are locked: does all that can be done before the trap.
    /// Returns the patch's number.
    pub(crate) fn prepare(&self, alias: isize, new: Word) -> u64 {
        // SAFETY: (1) the word was mapped and readable when it was adopted, and its adopter keeps
        // it so; so is its alias.
        let old = unsafe { live::load(self.start().offset(alias), self.len()) };
        self.alias.store(alias, Ordering::Relaxed);
        self.begin_patch(old, new.to_u64())
    }

    /// Whether the old word is already known to be emulable. This does not read the code, which may
    /// be unmapped if the patch is over.
    fn is_known_answerable(&self) -> bool {
        self.words().0 == self.answerable.load(Ordering::Relaxed)
    }

    /// Whether the trap handler can emulate the old word wherever a thread may hit the traps, so
    /// that no thread ever waits for this patch.
    fn is_answerable(&self) -> bool {
        if self.is_known_answerable() {
            return true;
        }
        let (old, _) = self.words();
        let mut at = 0;
        while at < self.front {
            let mut code = [0; effect::LONGEST];
            let Some(instruction) = self.decode(old, at, &mut code) else { return false };
            if self.parameters.layout == Layout::One {
                break;
            }
            at += instruction.len();
        }
        self.answerable.store(old, Ordering::Relaxed);
        true
    }

    /// Blocks signals if a handler on this thread might have to wait for a step that it
    /// interrupted, because the trap handler cannot emulate an instruction there. For the thread
    /// that performs the step, while the code is mapped.
    pub(crate) fn undisturbed(&self) -> Option<Blocked> {
        self.is_answerable();
        self.undisturbed_as_known()
    }

    /// The same for any thread, which may be too late to read the code: it uses the result of the
    /// thread that started the patch.
    pub(crate) fn undisturbed_as_known(&self) -> Option<Blocked> {
        let no_thread_waits = self.is_known_answerable() && cpu::shadow_stack_pointer() == 0;
        (!no_thread_waits).then(Blocked::all)
    }

    /// The instruction of `word` that begins at offset `at`; bytes after the word are read from
    /// memory. Usable in a signal handler.
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

    /// Stores the traps. Between `prepare` and `set_phase`.
    pub(crate) fn trap(&self, window: &Window, _no_fork_between: &Inside) -> Result<(), Refusal> {
        self.write(window, Step::Trap, u64::from_le_bytes([TRAP; 8]))?;
        self.begin_wait();
        Ok(())
    }

    /// Makes the stores of one step, from the bytes of `word`.
    pub(crate) fn write(&self, window: &Window, step: Step, word: u64) -> Result<(), Refusal> {
        let alias = self.alias.load(Ordering::Relaxed);
        let Some(pieces) = self.parameters.plan.pieces(step) else {
            return self.write_at_once(window, step, word);
        };
        for (at, width) in pieces {
            let to = self.start().offset(at as isize);
            // SAFETY: (1) the bytes are this patch's, writable through `window` by the adopter's
            // access; (2) they are locked; (3) executing threads see only states that the
            // protocol's model allows.
            unsafe { window.store(to, alias, width, word >> (8 * at))? };
        }
        Ok(())
    }

    fn write_at_once(&self, window: &Window, step: Step, word: u64) -> Result<(), Refusal> {
        let range = self.parameters.plan.range(step);
        let at = self.start().offset(range.start as isize);
        let alias = self.alias.load(Ordering::Relaxed);
        let Some(new) = Word::from_u64(word >> (8 * range.start), range.len()) else {
            return Ok(());
        };
        // SAFETY: as in `write`; (4) the plan puts the range inside one granule.
        unsafe {
            store_at_once(at, alias, self.parameters.granule, new, |to, width, value| {
                window.store(to, alias, width, value)
            })
        }
        .map(drop)
    }

    /// Records the time for a barrier that is a wait.
    fn begin_wait(&self) {
        if let Barrier::Wait(_) = self.parameters.barrier {
            self.stamp.store(Ticks::now().0, Ordering::Relaxed);
        }
    }

    /// Whether the next barrier, if it is a wait, has elapsed.
    fn is_due(&self) -> bool {
        match self.parameters.barrier {
            Barrier::Wait(span) => {
                Ticks::now().since(Ticks(self.stamp.load(Ordering::Relaxed))) >= span
            }
            Barrier::Membarrier | Barrier::Signal => true,
        }
    }

    fn pass_barrier(&self) -> Result<(), BarrierError> {
        match self.parameters.barrier {
            Barrier::Wait(span) => {
                let waited = Ticks::now().since(Ticks(self.stamp.load(Ordering::Relaxed)));
                Barrier::Wait(Ticks(span.0.saturating_sub(waited.0))).pass()
            }
            barrier => barrier.pass(),
        }
    }

    /// Advances the patch, unless another thread is doing so. Returns its phase. Usable in a
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
                // Another patch of the word may have started since, with an instruction that makes
                // threads wait.
                let _undisturbed = undisturbed.or_else(|| self.undisturbed_as_known());
                self.advance_phase(phase)?;
            }
        }
    }

    /// Advances from one barrier to the next, or to the end. This thread holds `Busy`.
    fn advance_phase(&self, phase: Phase) -> Result<(), PatchError> {
        if let Err(error) = self.pass_barrier() {
            self.retreat(phase);
            return Err(error.into());
        }
        self.advance_after_barrier(phase)
    }

    /// The steps after the barrier. This thread holds `Busy`.
    pub(crate) fn advance_after_barrier(&self, phase: Phase) -> Result<(), PatchError> {
        let window = match Window::open(self.parameters.access, std::iter::once(self.word.clone()))
        {
            Ok(window) => window,
            Err(refusal) => {
                self.set_phase(phase);
                return Err(PatchError::Refused(refusal));
            }
        };
        if self.store_phase(phase, &window, &gate::enter())? {
            self.end_patch();
        }
        Ok(())
    }

    /// The stores between two barriers. This thread holds `Busy`, and keeps it if the word is now
    /// complete, for which the result is `true`; it leaves `Busy` if another barrier has to follow.
    /// A thread that stores for many patches ends them afterwards: the release of bytes waits until
    /// all earlier stores are visible.
    pub(crate) fn store_phase(
        &self,
        phase: Phase,
        window: &Window,
        _no_fork_between: &Inside,
    ) -> Result<bool, PatchError> {
        let (_, new) = self.words();
        let steps = self.parameters.plan.steps_from_barrier(usize::from(phase == Phase::Backed));
        for &step in steps.iter().filter(|&&step| step != Step::Barrier) {
            let foreign = if step == Step::Front { self.foreign_front() } else { None };
            let written = foreign
                .map_or_else(|| self.write(window, step, new).map_err(PatchError::Refused), Err);
            if let Err(error) = written {
                // If other code has changed the bytes, the patch ends there; if they cannot be
                // written, it stays in its phase.
                if matches!(error, PatchError::Foreign { .. }) {
                    self.end_patch();
                } else {
                    self.set_phase(phase);
                }
                return Err(error);
            }
        }
        let whole = steps.last() == Some(&Step::Front);
        if !whole {
            self.begin_wait();
            self.set_phase(Phase::Backed);
        }
        Ok(whole)
    }

    /// An error with the bytes of the front, if they are no longer the traps.
    fn foreign_front(&self) -> Option<PatchError> {
        // SAFETY: (1) the adopter keeps the word mapped and readable.
        let found = Word::from_u64(unsafe { live::load(self.start(), self.front) }, self.front)?;
        let expected = Word::from_u64(u64::from_le_bytes([TRAP; 8]), self.front)?;
        (found != expected).then_some(PatchError::Foreign {
            address: self.start(),
            expected,
            found,
        })
    }

    /// Called after a barrier failed. Before the back is written, the old front can simply be
    /// restored: no reader saw anything else. After that only a barrier helps, and the traps stay
    /// for the next thread that tries. This thread holds `Busy`.
    pub(crate) fn retreat(&self, phase: Phase) {
        if phase == Phase::Trapped && self.restore_front().is_ok() {
            self.taken_back.store(self.number(), Ordering::Relaxed);
            self.end_patch();
        } else {
            self.set_phase(phase);
        }
    }

    /// Finishes the patch from any step, where no other thread exists.
    fn finish_alone(&self) {
        // Traps are stored upwards and the front downwards: if the first byte is no trap, the word
        // is complete. SAFETY: (1) mapped and readable, as the adopter keeps it.
        let trapped = self.is_under_way() && unsafe { live::load_byte(self.start()) } == TRAP;
        let window = Window::open(self.parameters.access, std::iter::once(self.word.clone()));
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
        let window = Window::open(self.parameters.access, std::iter::once(self.word.clone()))?;
        let _no_fork_between = gate::enter();
        self.write(&window, Step::Front, self.words().0)
    }
}

/// Replaces the bytes at `at` by `new` with one store, made by `store`. `false` if a boundary cuts
/// the bytes that change.
///
/// # Safety
/// (1) The bytes are mapped, readable, and writable by `store`, or through `alias` where no single
/// store fits; (2) the caller may change them; (3) the new word may replace the old one as code.
#[inline(always)]
pub(crate) unsafe fn store_at_once<E>(
    at: CodeAddr,
    alias: isize,
    granule: Granule,
    new: Word,
    store: impl FnOnce(CodeAddr, Width, u64) -> Result<(), E>,
) -> Result<bool, E> {
    // Read at the writable address: a load through another address of bytes that were just stored
    // waits for the store. SAFETY: (1) of the caller; a mapping that is written is readable too.
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

/// Stores the bytes of `word`, which begins at `at`, that lie in the eight bytes from `at + from`,
/// and leaves the other bytes there unchanged.
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
        // SAFETY: (1) the caller; (2) neighbours are written back only if they have not changed.
        match unsafe {
            live::compare_exchange(window.offset(alias), expected, expected & !mask | bytes)
        } {
            Ok(()) => return,
            Err(found) => expected = found,
        }
    }
}
