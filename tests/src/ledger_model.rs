//! Scenarios for the model checker. Each runs once for every interleaving, and asserts properties
//! that hold in all of them.

use crate::addr::CodeAddr;
use crate::address_map::{self, Entry};
use crate::ledger::{PatchInProgress, Phase, TrapWindow, Whose};
use crate::range_lock::{Quad, RangeLock};
use crate::sync::{AtomicU32, Ordering};
use loom::thread;

/// A byte that is a trap.
const TRAP: u32 = 0xcc;

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// The quads of the first few quadwords.
fn quads() -> &'static [Quad] {
    Box::leak((0..4).map(|_| Quad::vacant()).collect())
}

fn range_lock(quads: &'static [Quad], start: usize, end: usize) -> RangeLock {
    RangeLock::new(&(CodeAddr::new(start)..CodeAddr::new(end)), |address| &quads[address.get() / 8])
}

/// Every thread locks a word that overlaps the one before: `[6, 12)`, `[10, 18)`, … At least one
/// thread succeeds, and no two with overlapping words do.
pub fn contenders_for_overlapping_words(threads: usize) {
    let quads = quads();
    let takers: Vec<_> = (0..threads)
        .map(|i| range_lock(quads, 6 + 6 * i, 14 + 6 * i))
        .map(|range_lock| thread::spawn(move || range_lock.take()))
        .collect();
    let taken: Vec<bool> = takers.into_iter().map(|taker| taker.join().unwrap()).collect();
    assert!(taken.iter().any(|&taken| taken), "nobody got a word");
    assert!(taken.windows(2).all(|pair| pair != [true, true]), "overlapping words were both taken");
}

/// Words that share a quadword and no byte are both taken.
pub fn neighbours() {
    let quads = quads();
    let (low, high) = (range_lock(quads, 1, 4), range_lock(quads, 4, 9));
    let other = thread::spawn(move || low.take());
    assert!(high.take());
    assert!(other.join().unwrap());
}

/// Two threads enter the same key and one more key each, into a segment in which all three keys
/// have the same places.
pub fn entering_an_address_map() {
    let segment: &'static [Quad] = quads();
    let enter = move |own| {
        let shared = address_map::enter(segment, 8).unwrap();
        (
            std::ptr::from_ref(shared) as usize,
            std::ptr::from_ref(address_map::enter(segment, own).unwrap()) as usize,
        )
    };
    let other = thread::spawn(move || enter(16));
    let here = enter(24);
    let there = other.join().unwrap();
    assert_eq!(here.0, there.0, "one key, two entries");
    assert!(here.1 != there.1 && here.1 != here.0 && there.1 != here.0, "two keys, one entry");
}

fn patch(
    window: &TrapWindow<u32>,
    range_lock: RangeLock,
    parameters: u32,
) -> &'static PatchInProgress<u32> {
    PatchInProgress::find_or_add(
        window,
        CodeAddr::new(6)..CodeAddr::new(11),
        2,
        range_lock,
        parameters,
    )
}

/// A thread that finds a patch in progress finds it complete, and one that is entered at the same
/// time never displaces it.
pub fn entering_patches() {
    let (window, quads) = (leak(TrapWindow::vacant()), quads());
    let enter = move |parameters| patch(window, range_lock(quads, 6, 11), parameters);
    let other = thread::spawn(move || std::ptr::from_ref(enter(1)) as usize);
    let here = std::ptr::from_ref(enter(2)) as usize;
    assert!(window.patches().all(|patch| patch.front == 2 && patch.traps(CodeAddr::new(7))));
    let there = other.join().unwrap();
    let found: Vec<usize> =
        window.patches().map(|patch| std::ptr::from_ref(patch) as usize).collect();
    assert!(found.contains(&here) && found.contains(&there), "a patch was lost");
}

/// A trap handler that reads the word in replacement never confuses the words of two patches.
pub fn reading_the_word_that_is_replaced() {
    let patch = patch(leak(TrapWindow::vacant()), range_lock(quads(), 6, 11), 0);
    let patcher = thread::spawn(move || {
        for (old, new) in [(10, 20), (20, 30)] {
            patch.begin_patch(old, new);
            patch.set_phase(Phase::Trapped);
            patch.set_phase(Phase::Idle);
        }
    });
    if let Some((number, old)) = patch.replaced() {
        assert_eq!(old, 10 * number, "the word of another patch");
    }
    patcher.join().unwrap();
}

/// A thread that has hit a trap searches for its owner, by `look`, while the patch ends and the
/// next begins.
fn trapping_while_patches_pass(
    look: impl Fn(&'static TrapWindow<u32>, &'static AtomicU32) -> bool,
) {
    let (window, byte) = (leak(TrapWindow::vacant()), leak(AtomicU32::new(0)));
    let patch = patch(window, range_lock(quads(), 6, 11), 0);
    let trap = move |old| {
        patch.begin_patch(old, old + 1);
        byte.store(TRAP, Ordering::Release);
        patch.set_phase(Phase::Trapped);
    };
    let end_patch = move || {
        byte.store(0, Ordering::Release);
        patch.set_phase(Phase::Idle);
    };
    trap(1);
    let patcher = thread::spawn(move || {
        end_patch();
        trap(2);
        end_patch();
    });
    assert!(!look(window, byte), "a trap of ours was taken for the program's own");
    patcher.join().unwrap();
}

fn is_trap(byte: &AtomicU32) -> bool {
    byte.load(Ordering::Acquire) == TRAP
}

/// With the search of the trap handler.
pub fn finding_the_owner_of_a_trap() {
    trapping_while_patches_pass(|window, byte| {
        matches!(window.whose(CodeAddr::new(6), || is_trap(byte)), Whose::Foreign)
    });
}

/// Without a second check of the byte; the model has to detect the fault.
pub fn finding_the_owner_of_a_trap_at_one_glance() {
    trapping_while_patches_pass(|window, byte| {
        let began = || window.patches().map(PatchInProgress::number).sum::<u64>();
        let before = began();
        let trapped = is_trap(byte);
        trapped && window.patches().all(|patch| patch.phase() == Phase::Idle) && began() == before
    });
}

/// Of two threads that try to perform the next step, one does.
pub fn seizing_a_patch() {
    let patch = patch(leak(TrapWindow::vacant()), range_lock(quads(), 6, 11), 0);
    patch.begin_patch(1, 2);
    patch.set_phase(Phase::Trapped);
    let other = thread::spawn(move || patch.seize(Phase::Trapped));
    let here = patch.seize(Phase::Trapped);
    assert!(here != other.join().unwrap());
    assert_eq!(patch.phase(), Phase::Busy);
}

/// One thread ends a patch in progress, by `end`, while another begins the next one.
fn ending_beside_a_beginning(
    end: impl Fn(&'static PatchInProgress<u32>, RangeLock) + Send + 'static,
) {
    let range_lock = range_lock(quads(), 6, 11);
    let patch = patch(leak(TrapWindow::vacant()), range_lock, 0);
    assert!(range_lock.take());
    patch.begin_patch(1, 2);
    let ending = thread::spawn(move || end(patch, range_lock));
    if range_lock.take() {
        patch.begin_patch(2, 3);
        ending.join().unwrap();
        assert_eq!(patch.phase(), Phase::Busy, "the end of one patch ended the next");
    } else {
        ending.join().unwrap();
    }
}

/// As `wordpatch` ends it.
pub fn landing() {
    ending_beside_a_beginning(|patch, _| patch.end_patch());
}

/// In the wrong order: the bytes are released before the phase is set. The model has to detect the
/// fault.
pub fn landing_in_the_wrong_order() {
    ending_beside_a_beginning(|patch, range_lock| {
        range_lock.give_back();
        patch.set_phase(Phase::Idle);
    });
}
