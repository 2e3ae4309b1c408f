//! Placements: where modules lie that come and go, and when. Libraries are unloaded and code is
//! unregistered while the program runs, and others may lie there then.

use super::{ModuleEntry, ModuleRegistry};
use crate::runtime::functions::Id;
use std::collections::HashMap;
use std::ops::Range;
use wordpatch::CodeAddr;
use wordpatch::os::clocks;

/// The addresses of a module, and when they were its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::runtime) struct Placement {
    /// The number of its entry in the registry.
    pub(in crate::runtime) entry: usize,
    pub(in crate::runtime) has_file: bool,
    pub(in crate::runtime) span: Range<usize>,
    /// In nanoseconds of the monotonic clock.
    pub(in crate::runtime) lifetime: Range<u64>,
}

impl ModuleEntry {
    /// Marks it as unloaded, or unregistered.
    pub(in crate::runtime) fn end(&mut self) {
        self.gone = true;
        self.lifetime.end = clocks::monotonic();
    }
}

impl ModuleRegistry {
    /// Where modules lie that may go, and where those lay that have gone after that instant of the
    /// monotonic clock.
    pub(in crate::runtime) fn placements(&self, since: u64) -> Vec<Placement> {
        let all = self.entries.iter().enumerate();
        let passing = all.filter(|(_, entry)| entry.transient || !entry.has_file());
        let recent = passing.filter(|(_, entry)| entry.lifetime.end >= since);
        let placement = |(number, entry): (usize, &ModuleEntry)| {
            let span = &entry.module.span;
            Placement {
                entry: number,
                has_file: entry.has_file(),
                span: span.start.get()..span.end.get(),
                lifetime: entry.lifetime.clone(),
            }
        };
        recent.map(placement).collect()
    }

    /// Since when no other module has lain in a span: its code may have run before it was found.
    pub(in crate::runtime) fn free_since(&self, span: &Range<CodeAddr>) -> u64 {
        let gone = self.entries.iter().filter(|entry| entry.gone);
        let there = gone.filter(|entry| {
            entry.module.span.start < span.end && span.start < entry.module.span.end
        });
        there.map(|entry| entry.lifetime.end).max().unwrap_or(0)
    }

    /// The modules of functions whose modules have gone.
    pub(in crate::runtime) fn former_modules(&self) -> HashMap<Id, usize> {
        let gone = self.entries.iter().enumerate().filter(|(_, entry)| entry.gone);
        gone.flat_map(|(number, entry)| entry.functions.iter().map(move |&id| (id, number)))
            .collect()
    }
}
