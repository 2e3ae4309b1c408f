//! Events by kind: those of a trace, and those of a complete recording.

use crate::corpus::CorpusError;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::BufReader;
use std::ops::AddAssign;
use std::path::Path;
use wasm_aot::trace::{Change, Event, Reader};

/// The kinds that the literature distinguishes, and the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kinds {
    /// Loads; in a trace, the host's writes.
    pub(super) loads: u64,
    /// Calls, and returns from imports.
    pub(super) calls: u64,
    /// Entries of functions, and their returns; in a trace, those by the host.
    pub(super) entries: u64,
    /// Reads of globals and tables; in a trace, the host's changes of them, and growth.
    pub(super) others: u64,
}

impl Kinds {
    /// The events of the trace in a file.
    pub(super) fn of_trace(path: &Path) -> Result<Self, CorpusError> {
        let shown = || path.display().to_string();
        let failed = |error: wasm_aot::trace::Error| CorpusError::Failed {
            what: shown(),
            said: error.to_string(),
        };
        let file = File::open(path).map_err(CorpusError::io(shown()))?;
        let mut kinds = Self::default();
        for event in Reader::new(BufReader::new(file)).map_err(failed)? {
            match event.map_err(failed)? {
                Event::Enter { .. } | Event::Leave(_) => kinds.entries += 1,
                Event::Call { .. } | Event::Return(_) => kinds.calls += 1,
                Event::Host(Change::Write { .. }) | Event::Found(Change::Write { .. }) => {
                    kinds.loads += 1;
                }
                _ => kinds.others += 1,
            }
        }
        Ok(kinds)
    }

    /// The events of a complete recording, from the counts of instructions that the monitor
    /// `opcodes` reports, and from a trace of the same run.
    pub(super) fn of_counts(report: &str, kept: &Self) -> Self {
        let mut kinds = Self::default();
        let mut calls = 0;
        for line in report.lines() {
            // The instruction, its number of occurrences, its number of executions.
            let mut words = line.split_whitespace();
            let (Some(opcode), Some(count)) = (words.next(), words.nth(1)) else { continue };
            let Ok(count) = count.parse::<u64>() else { continue };
            match opcode {
                call if call.starts_with("call") || call.starts_with("return_call") => {
                    calls += count;
                    // The callee is read from a table.
                    kinds.others += if call.ends_with("indirect") { count } else { 0 };
                }
                "global.get" | "table.get" => kinds.others += count,
                load if load.contains(".load") || load == "memory.copy" => kinds.loads += count,
                _ => {}
            }
        }
        // The trace contains the end of each call of the host and of each call by the host.
        let (out, within) = (kept.calls / 2, kept.entries / 2);
        kinds.calls = calls + out;
        kinds.entries = 2 * (calls.saturating_sub(out) + within);
        kinds
    }

    pub(super) fn all(&self) -> u64 {
        self.each().into_iter().map(|(_, count)| count).sum()
    }

    /// The kinds by name.
    pub(super) fn each(&self) -> [(&'static str, u64); 4] {
        let Self { loads, calls, entries, others } = *self;
        [("loads", loads), ("calls", calls), ("entries", entries), ("others", others)]
    }
}

impl AddAssign for Kinds {
    fn add_assign(&mut self, other: Self) {
        self.loads += other.loads;
        self.calls += other.calls;
        self.entries += other.entries;
        self.others += other.others;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_an_event_its_callee_s_entry_and_return_two() {
        let report = "opcode places executed\ncall 3 100\ncall_indirect 1 10\ni32.load8_u 2 7\n\
                      global.get 1 5\ni32.store 1 9\n";
        // Twenty of the calls are of imports; the host calls once.
        let kept = Kinds { calls: 40, entries: 2, ..Kinds::default() };
        let raw = Kinds::of_counts(report, &kept);
        assert_eq!(raw, Kinds { loads: 7, calls: 130, entries: 182, others: 15 });
        assert_eq!(raw.all(), 334);
    }
}
