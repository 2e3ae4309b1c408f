//! Scenarios for the model checker. Each runs once for every interleaving, and asserts properties
//! that hold in all of them.

use crate::addr::CodeAddr;
use crate::address_map::{self, Entry};
use crate::ledger::{Flight, Front, Phase, Whose};
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

fn flight(front: &Front<u32>, range_lock: RangeLock, manner: u32) -> &'static Flight<u32> {
    Flight::of(front, CodeAddr::new(6)..CodeAddr::new(11), 2, range_lock, manner)
}

/// A thread that finds a flight finds it complete, and a flight that is entered at the same time
/// never displaces it.
pub fn entering_flights() {
    let (front, quads) = (leak(Front::vacant()), quads());
    let of = move |manner| flight(front, range_lock(quads, 6, 11), manner);
    let other = thread::spawn(move || std::ptr::from_ref(of(1)) as usize);
    let here = std::ptr::from_ref(of(2)) as usize;
    assert!(front.flights().all(|flight| flight.front == 2 && flight.traps(CodeAddr::new(7))));
    let there = other.join().unwrap();
    let found: Vec<usize> =
        front.flights().map(|flight| std::ptr::from_ref(flight) as usize).collect();
    assert!(found.contains(&here) && found.contains(&there), "a flight was lost");
}

/// A trap handler that reads the word in replacement never confuses the words of two flights.
pub fn reading_the_word_that_is_replaced() {
    let flight = flight(leak(Front::vacant()), range_lock(quads(), 6, 11), 0);
    let patcher = thread::spawn(move || {
        for (old, new) in [(10, 20), (20, 30)] {
            flight.take_off(old, new);
            flight.set_phase(Phase::Trapped);
            flight.set_phase(Phase::Idle);
        }
    });
    if let Some((number, old)) = flight.replaced() {
        assert_eq!(old, 10 * number, "the word of another flight");
    }
    patcher.join().unwrap();
}

/// A thread that has hit a trap searches for its owner, by `look`, while the flight ends and the
/// next begins.
fn trapping_while_flights_pass(look: impl Fn(&'static Front<u32>, &'static AtomicU32) -> bool) {
    let (front, byte) = (leak(Front::vacant()), leak(AtomicU32::new(0)));
    let flight = flight(front, range_lock(quads(), 6, 11), 0);
    let trap = move |old| {
        flight.take_off(old, old + 1);
        byte.store(TRAP, Ordering::Release);
        flight.set_phase(Phase::Trapped);
    };
    let land = move || {
        byte.store(0, Ordering::Release);
        flight.set_phase(Phase::Idle);
    };
    trap(1);
    let patcher = thread::spawn(move || {
        land();
        trap(2);
        land();
    });
    assert!(!look(front, byte), "a trap of ours was taken for the program's own");
    patcher.join().unwrap();
}

fn is_trap(byte: &AtomicU32) -> bool {
    byte.load(Ordering::Acquire) == TRAP
}

/// With the search of the trap handler.
pub fn finding_the_owner_of_a_trap() {
    trapping_while_flights_pass(|front, byte| {
        matches!(front.whose(CodeAddr::new(6), || is_trap(byte)), Whose::Foreign)
    });
}

/// Without a second check of the byte; the model has to detect the fault.
pub fn finding_the_owner_of_a_trap_at_one_glance() {
    trapping_while_flights_pass(|front, byte| {
        let began = || front.flights().map(Flight::number).sum::<u64>();
        let before = began();
        let trapped = is_trap(byte);
        trapped && front.flights().all(|flight| flight.phase() == Phase::Idle) && began() == before
    });
}

/// Of two threads that try to perform the next step, one does.
pub fn seizing_a_flight() {
    let flight = flight(leak(Front::vacant()), range_lock(quads(), 6, 11), 0);
    flight.take_off(1, 2);
    flight.set_phase(Phase::Trapped);
    let other = thread::spawn(move || flight.seize(Phase::Trapped));
    let here = flight.seize(Phase::Trapped);
    assert!(here != other.join().unwrap());
    assert_eq!(flight.phase(), Phase::Busy);
}

/// One thread ends a flight, by `end`, while another begins the next one.
fn ending_beside_a_beginning(end: impl Fn(&'static Flight<u32>, RangeLock) + Send + 'static) {
    let range_lock = range_lock(quads(), 6, 11);
    let flight = flight(leak(Front::vacant()), range_lock, 0);
    assert!(range_lock.take());
    flight.take_off(1, 2);
    let ending = thread::spawn(move || end(flight, range_lock));
    if range_lock.take() {
        flight.take_off(2, 3);
        ending.join().unwrap();
        assert_eq!(flight.phase(), Phase::Busy, "the end of one flight ended the next");
    } else {
        ending.join().unwrap();
    }
}

/// As `wordpatch` ends it.
pub fn landing() {
    ending_beside_a_beginning(|flight, _| flight.land());
}

/// In the wrong order: the bytes are released before the phase is set. The model has to detect the
/// fault.
pub fn landing_in_the_wrong_order() {
    ending_beside_a_beginning(|flight, range_lock| {
        range_lock.give_back();
        flight.set_phase(Phase::Idle);
    });
}
