//! The table of functions: numbered in the order in which they were found, and found again by address.
//!
//! A hook that is told an address which nobody knows adds it, so that the table takes no lock and never grows in place: its
//! address space is reserved once. Number 0 is a function of our own, on which costs are measured.
//!
//! # Safety
//!
//! This module exists to hand out references into a mapping that lives as long as the process.
#![allow(unsafe_code)]

use super::layout::{FUNCTION, Function, RECORD};
use super::sites::Switchboard;
use super::{modes, stub};
use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use wordpatch::CodeAddr;
use wordpatch::os::OsError;
use wordpatch::os::pages::{self, Place, Protection};

/// How many functions there can be. Their table takes address space only, until they are there.
pub(crate) const MOST: usize = 1 << 18;

/// Cells of the index: twice as many, so that looking up is short.
const CELLS: usize = MOST * 2;

static INDEX: AtomicU64 = AtomicU64::new(0);
static COUNT: AtomicU32 = AtomicU32::new(0);
/// Functions that found no place in the table.
pub(crate) static REFUSED: AtomicU32 = AtomicU32::new(0);

/// The number of a function, from one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(pub(crate) u32);

impl Id {
    /// The offset of its record in a thread's block.
    pub(crate) fn record(self) -> u32 {
        self.0 * RECORD as u32
    }

    pub(crate) fn of_record(offset: u32) -> Self {
        Self(offset / RECORD as u32)
    }

    pub(crate) fn function<'f>(self) -> &'f Function {
        debug_assert!(self.0 < count(), "function {}", self.0);
        let base = stub::FUNCTIONS.load(Relaxed) as usize;
        // SAFETY: (1) mapped by `prepare` for the life of the process; (2) only numbers below `MOST` are handed out.
        unsafe { &*std::ptr::with_exposed_provenance(base + self.0 as usize * FUNCTION) }
    }
}

impl Function {
    /// Its sites, if there are any.
    pub(crate) fn switchboard(&self) -> Option<&Switchboard> {
        // SAFETY: (1) null, or a switchboard that is never freed.
        unsafe { self.sites.load(Acquire).as_ref() }
    }
}

/// Reserves the tables. Once, before any hook looks.
pub(crate) fn prepare() -> Result<(), OsError> {
    // SAFETY: (1) new mappings.
    let index = unsafe { pages::map_private(Place::Anywhere, CELLS * 16, Protection::ReadWrite)? };
    // SAFETY: as above.
    let functions = unsafe { pages::map_private(Place::Anywhere, MOST * FUNCTION, Protection::ReadWrite)? };
    stub::FUNCTIONS.store(functions.get() as u64, Release);
    INDEX.store(index.get() as u64, Release);
    // The function that costs are measured on: an address that no function has.
    add(1);
    Ok(())
}

/// How many there are, number 0 included.
pub(crate) fn count() -> u32 {
    COUNT.load(Acquire).min(MOST as u32)
}

/// All but number 0.
pub(crate) fn all() -> impl Iterator<Item = Id> {
    (1..count()).map(Id)
}

/// A cell: the address, and the number plus one, stored behind it.
fn cell<'c>(at: usize) -> &'c (AtomicU64, AtomicU64) {
    let base = INDEX.load(Relaxed) as usize;
    // SAFETY: (1) as for functions; (2) `at` is below `CELLS`.
    unsafe { &*std::ptr::with_exposed_provenance(base + (at % CELLS) * 16) }
}

/// The function at `address`, if it is known.
pub(crate) fn find(address: u64) -> Option<Id> {
    let mut at = place(address);
    loop {
        let (key, number) = cell(at);
        match key.load(Acquire) {
            0 => return None,
            found if found == address => {
                // Its finder is between two stores.
                let number = loop {
                    match number.load(Acquire) {
                        0 => std::hint::spin_loop(),
                        number => break number - 1,
                    }
                };
                return (number < MOST as u64).then_some(Id(number as u32));
            }
            _ => at += 1,
        }
    }
}

/// The function at `address`, added if it is new; `None` if the table is full. Usable in a signal handler, except that one which
/// interrupts this very function for the same address would wait: hooks are guarded against that.
pub(crate) fn add(address: u64) -> Option<Id> {
    if address == 0 || COUNT.load(Relaxed) >= MOST as u32 {
        let known = if address == 0 { None } else { find(address) };
        if known.is_none() {
            REFUSED.fetch_add(1, Relaxed);
        }
        return known;
    }
    let mut at = place(address);
    loop {
        let (key, number) = cell(at);
        match key.compare_exchange(0, address, AcqRel, Acquire) {
            Ok(_) => {
                let id = COUNT.fetch_add(1, AcqRel);
                if id < MOST as u32 {
                    modes::begin(Id(id), address);
                } else {
                    REFUSED.fetch_add(1, Relaxed);
                }
                number.store(u64::from(id) + 1, Release);
                return (id < MOST as u32).then_some(Id(id));
            }
            Err(found) if found == address => return find(address),
            Err(_) => at += 1,
        }
    }
}

/// Where to look first: functions that lie near each other have cells near each other, so that few pages are touched.
fn place(address: u64) -> usize {
    (address >> 5) as usize % CELLS
}

/// Forgets the addresses in `span`: other functions may come to lie there. Numbers stay what they were.
pub(crate) fn forget(span: &Range<CodeAddr>) {
    for at in 0..CELLS {
        let (key, _) = cell(at);
        let address = key.load(Acquire);
        if span.contains(&CodeAddr::new(address as usize)) {
            key.store(BURIED, Release);
        }
    }
}

/// The key of a cell that is not used again, so that those behind it are still found.
const BURIED: u64 = u64::MAX;
