//! Patch points: for each variant of a function, the bytes that a switch stores, and where its OSR
//! entries are.
//!
//! # Safety
//!
//! This module exists to say which bytes of code that may be running are gates of `callpatch`
//! (assumptions A2, A3 and A5 of `wordpatch`): a byte is never torn, and flags are dead there.
//! Distances are stored after a first byte that makes them ineffective, and a barrier precedes the
//! store of the byte that makes them effective.
#![allow(unsafe_code)]

use super::code::Code;
use super::stubs::Stubs;
use crate::compile::{OFF, ON, Sites, Wanted};
use crate::error::Error;
use callpatch::{Gate, Switch};
use std::ops::Range;
use wordpatch::CodeAddr;

/// Switches gates. The calling thread holds the variants' lock.
pub(super) fn switch(gates: &[Gate], to: Switch) {
    gates.iter().for_each(|gate| gate.set(to));
}

/// The patch points of variants, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Points {
    variants: Vec<Ranges>,
    gates: Vec<Gate>,
    entries: Vec<(u32, usize)>,
}

/// Where a variant begins, 0 if it was not compiled so far, and which gates and entries are its
/// own.
#[derive(Clone, Debug, Default)]
struct Ranges {
    start: usize,
    gates: Range<u32>,
    entries: Range<u32>,
}

/// The patch points of one variant.
#[derive(Clone, Copy, Debug)]
pub(super) struct VariantPoints<'a> {
    /// The address where it begins.
    pub(super) start: usize,
    /// The gates that are switched, the one before the function first.
    pub(super) gates: &'a [Gate],
    /// Entries of its loops: their numbers and addresses.
    pub(super) entries: &'a [(u32, usize)],
}

/// Appends to a range of a row. A range that is not at the row's end moves there.
fn extend<T: Copy>(row: &mut Vec<T>, range: &mut Range<u32>, more: impl IntoIterator<Item = T>) {
    if range.end as usize != row.len() {
        let start = row.len() as u32;
        row.extend_from_within(range.start as usize..range.end as usize);
        range.start = start;
    }
    row.extend(more);
    range.end = row.len() as u32;
}

impl Points {
    /// The points of this many variants, none of which is compiled.
    pub(super) fn new(variants: usize) -> Self {
        Self { variants: vec![Ranges::default(); variants], ..Self::default() }
    }

    /// Adds a variant; returns its number.
    pub(super) fn add(&mut self) -> usize {
        self.variants.push(Ranges::default());
        self.variants.len() - 1
    }

    /// The points of a variant, if it was compiled.
    pub(super) fn of(&self, variant: usize) -> Option<VariantPoints<'_>> {
        let Ranges { start, gates, entries } = &self.variants[variant];
        (*start != 0).then(|| VariantPoints {
            start: *start,
            gates: &self.gates[gates.start as usize..gates.end as usize],
            entries: &self.entries[entries.start as usize..entries.end as usize],
        })
    }

    /// Adds the patch points of new code, of functions and OSR entries one after the other, to
    /// those of variants. The distances are stored, so the points lead to the stubs once they are
    /// on.
    pub(super) fn take_in(
        &mut self,
        code: &Code,
        stubs: &Stubs,
        parts: &[Wanted],
        variant: impl Fn(usize) -> usize,
    ) -> Result<(), Error> {
        let writable = code.writable()? as usize;
        // SAFETY: (1) a byte of code that is written there, in memory that its module keeps; (2)
        // both values are right, see `switch_model`; (3) no other code writes it.
        let gate =
            |at: u32, faces| unsafe { Gate::new(CodeAddr::new(writable + at as usize), faces) };
        let mut osr_exits = code.tables.osr_exits.iter().peekable();
        for (part, span) in parts.iter().zip(code.tables.functions.iter()) {
            let ranges = &mut self.variants[variant(part.function)];
            let address = code.at(span.start) as usize;
            let site = match part.osr_entry {
                Some((_, number)) => {
                    extend(&mut self.entries, &mut ranges.entries, [(number, address)]);
                    None
                }
                None => {
                    ranges.start = address;
                    let site = gate(span.start - Sites::FUNCTIONS.prefix(), [OFF, ON]);
                    // A jump's distance counts from its end, where the function begins.
                    let distance = stubs.address(part.function).wrapping_sub(address) as u32;
                    // SAFETY: (1) the five bytes before a function are its site, which is off.
                    unsafe { site.lead(distance) };
                    Some(site)
                }
            };
            let inside =
                std::iter::from_fn(|| osr_exits.next_if(|osr_exit| osr_exit.at < span.end));
            let inside = inside.map(|osr_exit| gate(osr_exit.at, osr_exit.values()));
            extend(&mut self.gates, &mut ranges.gates, site.into_iter().chain(inside));
        }
        Ok(())
    }
}
