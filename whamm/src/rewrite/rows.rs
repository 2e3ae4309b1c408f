//! Packed site records: the rows of the report for sites, which the run-time support unpacks.

use super::region::{self, Part};
use crate::emit::counters::Reach;
use crate::emit::report;
use crate::emit::support::Support;
use crate::hir::{Probe, Variable};
use std::collections::HashMap;
use wasm_encoder::{InstructionSink, ValType};

/// A row.
#[derive(Clone, Debug)]
struct Row {
    variable: u32,
    word: u32,
    fid: u32,
    pc: u32,
}

/// The location of a word of a row's value while the program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A counter of this type.
    Counter(u32, ValType),
    /// The total of the parts, as an i32 or an i64.
    Parts(Vec<Part>, bool),
    /// A constant: the handle of a map.
    Constant(u32),
}

impl Source {
    /// Its type.
    pub(crate) fn slot(&self) -> ValType {
        match self {
            Self::Counter(_, ty) => *ty,
            Self::Parts(_, true) => ValType::I64,
            Self::Parts(_, false) | Self::Constant(_) => ValType::I32,
        }
    }

    /// Pushes it.
    pub(crate) fn push(&self, put: &mut InstructionSink<'_>, reach: Reach) {
        match self {
            Self::Constant(value) => {
                put.i32_const(value.cast_signed());
            }
            Self::Counter(counter, ty) => reach.get(put, *counter, *ty),
            Self::Parts(parts, wide) => region::push(put, parts, *wide, reach),
        }
    }
}

/// All rows.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    rows: Vec<Row>,
    descriptions: Vec<Vec<u8>>,
    /// The places of the variables' types in the report.
    types: Vec<(u32, String)>,
    known: HashMap<(usize, Option<usize>), u32>,
    /// The sources of the words of values.
    pub(crate) words: Vec<Source>,
    /// Words of counters, by counter.
    shared: HashMap<u32, u32>,
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl Rows {
    /// Adds the row of a variable at a site, or of frames if there is no probe; its value is in
    /// these words.
    pub(crate) fn add(
        &mut self,
        support: &mut Support,
        variable: &Variable,
        probe: Option<&Probe>,
        (fid, pc): (u32, u32),
        words: &[Source],
    ) {
        let key =
            (std::ptr::from_ref(variable) as usize, probe.map(|p| std::ptr::from_ref(p) as usize));
        let next = count(self.descriptions.len());
        let number = *self.known.entry(key).or_insert(next);
        if number == next {
            let id = probe.map(Probe::id).unwrap_or_default();
            let owner = if probe.is_some() { report::Owner::Site } else { report::Owner::Frame };
            self.descriptions.push(report::description(support, variable, &id, owner));
            self.types.push(report::type_order(&variable.ty));
        }
        let word = match words {
            // Sites whose counts are always equal share a counter, and therefore a word.
            [Source::Counter(counter, _)] => *self.shared.entry(*counter).or_insert_with(|| {
                self.words.push(words[0].clone());
                count(self.words.len() - 1)
            }),
            _ => {
                self.words.extend_from_slice(words);
                count(self.words.len() - words.len())
            }
        };
        self.rows.push(Row { variable: number, word, fid, pc });
    }

    /// Whether there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The functions that rows are about.
    pub(crate) fn functions(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.rows.iter().map(|r| r.fid).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Packs the rows, ordered by type and then by place. Returns them, their number, and the
    /// descriptions of variables.
    pub(crate) fn pack(&mut self) -> (Vec<u8>, u32, Vec<u8>) {
        let types = &self.types;
        self.rows.sort_by(|a, b| types[a.variable as usize].cmp(&types[b.variable as usize]));
        let mut bytes = Vec::new();
        let (mut word, mut fid, mut pc) = (0, 0, 0);
        for row in &self.rows {
            leb(&mut bytes, row.variable);
            delta(&mut bytes, &mut word, row.word);
            delta(&mut bytes, &mut fid, row.fid);
            delta(&mut bytes, &mut pc, row.pc);
        }
        (bytes, count(self.rows.len()), self.descriptions.concat())
    }
}

fn leb(bytes: &mut Vec<u8>, mut n: u32) {
    while n >= 0x80 {
        bytes.push((n & 0x7f) as u8 | 0x80);
        n >>= 7;
    }
    bytes.push((n & 0x7f) as u8);
}

/// A difference, small in either direction.
fn delta(bytes: &mut Vec<u8>, before: &mut u32, now: u32) {
    let d = now.wrapping_sub(*before).cast_signed();
    leb(bytes, ((d << 1) ^ (d >> 31)).cast_unsigned());
    *before = now;
}
