//! The words that say which probes of a monitor are called, and how many times more.
//!
//! Machine code reads a probe's word whenever it is reached, and the word decides. Code that is
//! compiled without a probe only saves time where its word is zero (see `installed`).
//!
//! | word | meaning | changed by |
//! |---|---|---|
//! | 0 | not called | the probe's function that takes itself away; `ctl`; machine code that has called it often enough |
//! | n | called n times more | machine code, if the monitor has a number of calls |
//! | [`ALWAYS`] | called | `ctl`; the thread that inserts a probe |

use super::insertion::Insertions;
use parking_lot::{Mutex, RwLock};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use wasm_aot_engine::instrument::runtime::ModuleInner;

/// A probe is called for ever.
pub(super) const ALWAYS: u32 = u32::MAX;

/// A probe's word. Those of one moment lie beside each other.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    row: Arc<[AtomicU32]>,
    at: usize,
}

impl Word {
    /// Where machine code finds it, for as long as it keeps the word.
    pub(crate) fn address(&self) -> i64 {
        self.row[self.at].as_ptr() as i64
    }

    /// The probe is called now: it has one call less, if it has not been taken away meanwhile.
    pub(super) fn take_one(&self) {
        match self.row[self.at].load(Relaxed) {
            0 | ALWAYS => {}
            left => self.row[self.at].store(left - 1, Relaxed),
        }
    }

    /// The probe is called once more, if it is called at all.
    pub(super) fn keep_one(&self) {
        if self.is_on() {
            self.row[self.at].store(1, Relaxed);
        }
    }

    pub(super) fn switch_off(&self) {
        self.row[self.at].store(0, Relaxed);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.row[self.at].load(Relaxed) != 0
    }
}

/// The words of a monitor's probes, by their identities. Copies are the same.
#[derive(Clone, Debug, Default)]
pub struct Switches(Arc<Rows>);

#[derive(Debug, Default)]
struct Rows {
    rows: RwLock<Vec<Row>>,
    /// How often a probe is called at most, or 0.
    calls: AtomicU32,
    /// What the monitor has inserted itself, and whether that rests.
    insertions: Insertions,
    resting: Arc<AtomicBool>,
    /// The compiled program, once there is one. The program's plan keeps the switches.
    observed: Mutex<Weak<ModuleInner>>,
}

#[derive(Debug)]
struct Row {
    first: u32,
    words: Arc<[AtomicU32]>,
}

impl Switches {
    /// Whether both are the same.
    pub(super) fn are(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Has each probe called so often from when it is switched on.
    pub(super) fn limit(&self, calls: u32) {
        self.0.calls.store(calls, Relaxed);
    }

    /// Whether probes are called only so often.
    pub(super) fn are_limited(&self) -> bool {
        self.0.calls.load(Relaxed) != 0
    }

    /// Makes room for probes with identities from `first` on, which are on or off.
    pub(super) fn make(&self, first: u32, count: usize, on: bool) {
        let mut rows = self.0.rows.write();
        let value = if on { self.on_value() } else { 0 };
        rows.push(Row { first, words: (0..count).map(|_| AtomicU32::new(value)).collect() });
        rows.sort_by_key(|row| row.first);
    }

    /// The monitor observes this program from now on.
    pub(super) fn observe(&self, program: &Arc<ModuleInner>) {
        *self.0.observed.lock() = Arc::downgrade(program);
    }

    /// The compiled program that it observes, if there is one.
    pub(super) fn observed(&self) -> Option<Arc<ModuleInner>> {
        self.0.observed.lock().upgrade()
    }

    /// What the monitor has inserted itself.
    pub(super) fn insertions(&self) -> &Insertions {
        &self.0.insertions
    }

    /// Whether what it has inserted itself is not called, for the time being.
    pub(super) fn resting(&self) -> &Arc<AtomicBool> {
        &self.0.resting
    }

    fn on_value(&self) -> u32 {
        match self.0.calls.load(Relaxed) {
            0 => ALWAYS,
            calls => calls,
        }
    }

    /// The word of a probe.
    pub(super) fn word(&self, id: u32) -> Option<Word> {
        let rows = self.0.rows.read();
        let row = &rows[rows.partition_point(|row| row.first <= id).checked_sub(1)?];
        let at = (id - row.first) as usize;
        (at < row.words.len()).then(|| Word { row: Arc::clone(&row.words), at })
    }

    /// Whether a probe is on.
    pub(super) fn is_on(&self, id: u32) -> bool {
        self.word(id).is_some_and(|word| word.is_on())
    }

    /// Switches a probe; nothing happens if there is none, or if it is so already.
    pub(super) fn switch(&self, id: u32, on: bool) {
        let Some(Word { row, at }) = self.word(id) else { return };
        if (row[at].load(Relaxed) != 0) != on {
            row[at].store(if on { self.on_value() } else { 0 }, Relaxed);
        }
    }

    /// Switches all probes.
    pub(super) fn switch_all(&self, on: bool) {
        let value = if on { self.on_value() } else { 0 };
        self.0
            .rows
            .read()
            .iter()
            .flat_map(|row| &*row.words)
            .for_each(|word| word.store(value, Relaxed));
    }

    /// How many probes are on.
    pub fn on(&self) -> usize {
        let rows = self.0.rows.read();
        rows.iter().flat_map(|row| &*row.words).filter(|word| word.load(Relaxed) != 0).count()
    }

    /// How many probes there are.
    pub fn count(&self) -> usize {
        self.0.rows.read().iter().map(|row| row.words.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_keep_their_words_when_others_come() {
        let switches = Switches::default();
        switches.make(0, 3, true);
        let second = switches.word(1).expect("there are three");
        switches.make(100, 2, false);
        assert_eq!((switches.on(), switches.count()), (3, 5));
        switches.switch(1, false);
        switches.switch(3, true);
        switches.switch(101, true);
        switches.switch(102, true);
        assert!(!second.is_on() && switches.on() == 3);
    }

    #[test]
    fn a_limited_probe_has_its_calls_again_when_it_is_switched_on() {
        let switches = Switches::default();
        switches.limit(7);
        switches.make(0, 1, true);
        let word = switches.word(0).expect("there is one");
        word.row[0].store(0, Relaxed);
        switches.switch(0, true);
        assert_eq!(word.row[0].load(Relaxed), 7);
    }
}
