//! Scenarios for the model checker. Each runs once for every interleaving, and asserts properties
//! that hold in all of them.

use crate::addr::CodeAddr;
use crate::address_map::{self, Entry};
use crate::ledger::{Holder, PatchInProgress, Phase, TrapWindow, Whose};
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

/// One thread ends a patch in progress, by `end`, while another begins the next one as soon as it
/// finds that the first is over.
fn ending_beside_a_beginning(
    end: impl Fn(&'static PatchInProgress<u32>, RangeLock) + Send + 'static,
) {
    let range_lock = range_lock(quads(), 6, 11);
    let patch = patch(leak(TrapWindow::vacant()), range_lock, 0);
    assert_eq!(patch.claim(), Ok(()));
    patch.begin_patch(1, 2);
    let ending = thread::spawn(move || end(patch, range_lock));
    let over = patch.phase() == Phase::Idle;
    let claimed = patch.claim();
    if claimed.is_ok() {
        patch.begin_patch(2, 3);
    }
    ending.join().unwrap();
    let expected = if claimed.is_ok() { Phase::Busy } else { Phase::Idle };
    assert_eq!(patch.phase(), expected, "the end of one patch ended the next");
    let rightly_refused = claimed == Err(Holder::SameWord) && !over;
    assert!(claimed.is_ok() || rightly_refused, "wrongly refused: {claimed:?}, over: {over}");
}

/// As `wordpatch` ends it.
pub fn ending() {
    ending_beside_a_beginning(|patch, _| patch.end_patch());
}

/// In the wrong order: the phase is set before the bytes are released. The model has to detect the
/// fault.
pub fn ending_before_the_release() {
    ending_beside_a_beginning(|patch, range_lock| {
        patch.set_phase(Phase::Idle);
        range_lock.give_back();
    });
}

/// Two threads patch one word at the same time: the one that is refused learns that the word is
/// being patched, and not that an overlapping one is.
pub fn beginning_beside_a_beginning() {
    let patch = patch(leak(TrapWindow::vacant()), range_lock(quads(), 6, 11), 0);
    let once = move || {
        let claimed = patch.claim();
        if claimed.is_ok() {
            patch.begin_patch(1, 2);
            patch.end_patch();
        }
        claimed
    };
    let other = thread::spawn(once);
    let both = [once(), other.join().unwrap()];
    assert!(both.contains(&Ok(())), "both threads were refused");
    assert!(!both.contains(&Err(Holder::Overlapping)), "one word overlaps itself");
}

/// A thread that continues what another has begun never gets the number of an earlier patch, whose
/// end it would be told.
pub fn continuing_beside_a_beginning() {
    let patch = patch(leak(TrapWindow::vacant()), range_lock(quads(), 6, 11), 0);
    let patcher = thread::spawn(move || {
        assert_eq!(patch.claim(), Ok(()));
        patch.begin_patch(1, 2);
        patch.set_phase(Phase::Trapped);
    });
    assert_ne!(patch.begun(), Some(0), "no patch has that number");
    patcher.join().unwrap();
    assert_eq!(patch.begun(), Some(1));
}

/// A patch whose traps are gone ends, by `end`, while a patch of an overlapping word stores its
/// traps, and a thread hits one of those.
fn ending_beside_an_overlapping_patch(
    end: impl Fn(&'static PatchInProgress<u32>, RangeLock) + Send + 'static,
) {
    let (window, quads) = (leak(TrapWindow::vacant()), quads());
    let byte = leak(AtomicU32::new(0));
    let second_word = CodeAddr::new(7)..CodeAddr::new(12);
    let second = PatchInProgress::find_or_add(window, second_word, 1, range_lock(quads, 7, 12), 0);
    // Entered last, it is the one that the search looks at first.
    let first_lock = range_lock(quads, 6, 11);
    let first = patch(window, first_lock, 0);
    assert_eq!(first.claim(), Ok(()));
    first.begin_patch(1, 2);
    let ending = thread::spawn(move || end(first, first_lock));
    let next = thread::spawn(move || {
        if second.claim().is_ok() {
            second.begin_patch(3, 4);
            byte.store(TRAP, Ordering::Release);
            second.set_phase(Phase::Trapped);
        }
    });
    if is_trap(byte)
        && let Whose::Patch(patch) = window.whose(CodeAddr::new(7), || is_trap(byte))
    {
        assert!(std::ptr::eq(patch, second), "a trap of the second patch was given to the first");
    }
    ending.join().unwrap();
    next.join().unwrap();
}

/// As `wordpatch` ends it.
pub fn ending_with_a_neighbour() {
    ending_beside_an_overlapping_patch(|patch, _| patch.end_patch());
}

/// The phase is left as it is until the bytes are released. The model has to detect the fault.
pub fn releasing_before_the_end() {
    ending_beside_an_overlapping_patch(|patch, range_lock| {
        range_lock.give_back();
        patch.set_phase(Phase::Idle);
    });
}
