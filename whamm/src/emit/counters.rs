//! Where counters are: in globals, up to a limit of engines, and further ones in words of the
//! support's memory.
//!
//! Both are identified by numbers. The words follow all other data in memory; their address is
//! known only when everything is written, so code reads it from a global.

use super::storage::{WORD, fetch, keep, word};
use super::support::{Support, index};
use wasm_encoder::{InstructionSink, ValType};

/// Engines allow a million globals; some are reserved for other uses.
const MOST: u32 = 900_000;

/// Numbers from this one on are words in memory.
const WORDS: u32 = 1 << 31;

/// How code accesses words.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reach {
    /// The global with the address of the first word.
    base: u32,
    /// The memory of the words.
    memory: u32,
}

impl Reach {
    /// Prepares for [`set`](Self::set), before the value is pushed.
    pub(crate) fn ready(self, put: &mut InstructionSink<'_>, counter: u32) {
        if is_word(counter) {
            put.global_get(self.base);
        }
    }

    /// Pushes a counter's value.
    pub(crate) fn get(self, put: &mut InstructionSink<'_>, counter: u32, ty: ValType) {
        if !is_word(counter) {
            put.global_get(counter);
            return;
        }
        let at = word((counter - WORDS) * WORD, self.memory);
        put.global_get(self.base);
        fetch(put, ty, at);
    }

    /// Pops a counter's new value.
    pub(crate) fn set(self, put: &mut InstructionSink<'_>, counter: u32, ty: ValType) {
        if !is_word(counter) {
            put.global_set(counter);
            return;
        }
        let at = word((counter - WORDS) * WORD, self.memory);
        keep(put, ty, at);
    }
}

/// Whether a counter is in memory.
pub(crate) fn is_word(counter: u32) -> bool {
    counter >= WORDS
}

/// Counters that are words of memory.
#[derive(Debug, Default)]
pub(super) struct Words {
    count: u32,
    /// The global with the address of the first word.
    base: Option<u32>,
}

impl Words {
    /// Their size in bytes.
    pub(super) fn size(&self) -> u32 {
        self.count * WORD
    }

    pub(super) fn base(&self) -> Option<u32> {
        self.base
    }
}

impl Support {
    /// A new counter, or another number that is zero at first.
    pub(crate) fn counter(&mut self, ty: ValType) -> u32 {
        self.counters(&[(ty, 0)])
    }

    /// New consecutive numbers. Those in memory are all zero at first.
    pub(crate) fn counters(&mut self, slots: &[(ValType, i64)]) -> u32 {
        let most = self.layout.most_globals.unwrap_or(MOST);
        let fits = self.layout.globals as usize + self.global_count() + slots.len() < most as usize;
        if fits || slots.iter().any(|slot| slot.1 != 0) {
            return self.globals(slots);
        }
        if self.words.base.is_none() {
            self.words.base = Some(self.global(ValType::I32, 0));
        }
        let first = WORDS + self.words.count;
        self.words.count += index(slots.len());
        first
    }

    /// How code accesses counters in memory.
    pub(crate) fn reach(&self) -> Reach {
        Reach { base: self.words.base.unwrap_or_default(), memory: self.layout.memory }
    }
}
