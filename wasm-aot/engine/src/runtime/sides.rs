//! What is switched of each function in a version of a module's code, one function behind the
//! other: all of them are switched in one go.
//!
//! # Safety
//!
//! This module exists to modify code that may be running (assumptions A2, A3 and A5 of
//! `wordpatch`): a place is switched by storing one byte, a byte is never torn, and flags are dead
//! there. Distances are stored behind a first byte that makes nothing of them, and a barrier comes
//! before the byte that does.
#![allow(unsafe_code)]

use super::code::Code;
use super::stubs::Stubs;
use crate::compile::{OFF, ON, Sites, Wanted};
use crate::error::Error;
use std::ops::Range;
use wordpatch::CodeAddr;
use wordpatch::live::{Width, store};

/// A byte that is switched: where it can be written, what it is while it is off, and while it is
/// on.
type Place = (usize, [u8; 2]);

/// Switches places on or off.
pub(super) fn switch(places: &[Place], on: bool) {
    for (at, values) in places {
        // SAFETY: (1) a place's byte, in memory that can be written and that its version keeps; (2)
        // a thread that switches has the versions' lock; (3) both are right, see `switch_model`.
        unsafe { store(CodeAddr::new(*at), Width::One, values[usize::from(on)].into()) };
    }
}

/// The functions of a version.
#[derive(Debug, Default)]
pub(super) struct Sides {
    functions: Vec<Ranges>,
    places: Vec<Place>,
    entries: Vec<(u32, usize)>,
}

/// Where a function begins, 0 if the version has nothing of it, and which places and entries are
/// its own.
#[derive(Clone, Debug, Default)]
struct Ranges {
    start: usize,
    places: Range<u32>,
    entries: Range<u32>,
}

/// A function in a version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side<'a> {
    /// The address where it begins.
    pub(super) start: usize,
    /// The bytes that are switched, the one before the function first.
    pub(super) places: &'a [Place],
    /// Entries of its loops: their numbers and addresses.
    pub(super) entries: &'a [(u32, usize)],
}

/// Adds more to what a range holds of a row. What is not the row's end moves there.
fn extend<T: Copy>(row: &mut Vec<T>, range: &mut Range<u32>, more: impl IntoIterator<Item = T>) {
    if range.end as usize != row.len() {
        let start = row.len() as u32;
        row.extend_from_within(range.start as usize..range.end as usize);
        range.start = start;
    }
    row.extend(more);
    range.end = row.len() as u32;
}

impl Sides {
    /// Nothing of so many functions.
    pub(super) fn new(functions: usize) -> Self {
        Self { functions: vec![Ranges::default(); functions], ..Self::default() }
    }

    /// Whether there is something of every function.
    pub(super) fn are_all_there(&self) -> bool {
        self.functions.iter().all(|ranges| ranges.start != 0)
    }

    /// Where functions begin.
    pub(super) fn starts(&self) -> impl Iterator<Item = usize> {
        self.functions.iter().map(|ranges| ranges.start)
    }

    /// All bytes that are switched.
    pub(super) fn places(&self) -> &[Place] {
        &self.places
    }

    /// All entries of loops.
    pub(super) fn entries(&self) -> &[(u32, usize)] {
        &self.entries
    }

    /// Room for one more; gives its place.
    pub(super) fn add(&mut self) -> usize {
        self.functions.push(Ranges::default());
        self.functions.len() - 1
    }

    /// Has the same of a function as others have.
    pub(super) fn share(&mut self, others: &Self, function: usize) {
        let Some(Side { start, places, entries }) = others.of(function) else { return };
        let ranges = &mut self.functions[function];
        ranges.start = start;
        extend(&mut self.places, &mut ranges.places, places.iter().copied());
        extend(&mut self.entries, &mut ranges.entries, entries.iter().copied());
    }

    /// A function, by its place, if the version has something of it.
    pub(super) fn of(&self, function: usize) -> Option<Side<'_>> {
        let Ranges { start, places, entries } = &self.functions[function];
        (*start != 0).then(|| Side {
            start: *start,
            places: &self.places[places.start as usize..places.end as usize],
            entries: &self.entries[entries.start as usize..entries.end as usize],
        })
    }

    /// Takes in new code, parts of functions one behind the other, to the functions' places: it
    /// leads to the stubs as soon as it is switched on.
    pub(super) fn take_in(
        &mut self,
        code: &Code,
        stubs: &Stubs,
        parts: &[Wanted],
        place: impl Fn(usize) -> usize,
    ) -> Result<(), Error> {
        let writable = code.writable()? as usize;
        let mut crossings = code.tables.crossings.iter().peekable();
        for (part, span) in parts.iter().zip(code.tables.functions.iter()) {
            let ranges = &mut self.functions[place(part.function)];
            let address = code.at(span.start) as usize;
            let site = match part.entered {
                Some((_, number)) => {
                    extend(&mut self.entries, &mut ranges.entries, [(number, address)]);
                    None
                }
                None => {
                    ranges.start = address;
                    let site = writable + (span.start - Sites::FUNCTIONS.prefix()) as usize;
                    // A jump counts from its end, where the function begins.
                    let distance = stubs.address(part.function).wrapping_sub(address) as u32;
                    // SAFETY: (1) the four bytes before a function are its site's, in writable
                    // memory; (2) a thread that takes code in has the versions' lock; (3) the
                    // site's first byte makes nothing of them.
                    unsafe { store(CodeAddr::new(site + 1), Width::Four, distance.into()) };
                    Some((site, [OFF, ON]))
                }
            };
            let inside =
                std::iter::from_fn(|| crossings.next_if(|crossing| crossing.at < span.end));
            let inside =
                inside.map(|crossing| (writable + crossing.at as usize, crossing.values()));
            extend(&mut self.places, &mut ranges.places, site.into_iter().chain(inside));
        }
        Ok(())
    }
}
