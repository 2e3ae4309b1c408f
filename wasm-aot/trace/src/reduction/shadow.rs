//! The state of a program's memories, globals and tables that it can know without its host.

use super::constant::constant;
use super::{NULL, is_same};
use crate::declared::Declared;
use crate::error::Error;
use crate::event::Change;
use crate::value::Value;
use std::collections::HashMap;
use wasmparser::{DataKind, ElementItems, ElementKind, Parser, Payload, TableInit};

/// The size of the parts in which bytes are stored; parts of zeros are not stored.
const PART: usize = 1 << 12;

/// The known state.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    bytes: HashMap<(u32, u64), Box<[u8; PART]>>,
    globals: HashMap<u32, Value>,
    elements: HashMap<(u32, u64), Value>,
    /// By table: how many elements it has at first, which all have this value.
    filled: HashMap<u32, (u64, Value)>,
    /// The segments of memories that are the module's own: which are copied before the program
    /// begins.
    segments: Vec<(u32, u64, Vec<u8>)>,
}

impl Shadow {
    pub(super) fn new(module: &[u8], declared: &Declared) -> Result<Self, Error> {
        let mut this = Self::default();
        let mut next = declared.imported.globals;
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::GlobalSection(section) => {
                    for global in section {
                        if let Some(value) = constant(&global?.init_expr, &this.globals) {
                            this.globals.insert(next, value);
                        }
                        next += 1;
                    }
                }
                Payload::TableSection(section) => {
                    for (table, own) in (declared.imported.tables..).zip(section) {
                        this.filled_table(table, &own?);
                    }
                }
                Payload::ElementSection(section) => {
                    for element in section {
                        this.segment_of_elements(element?)?;
                    }
                }
                Payload::DataSection(section) => {
                    for datum in section {
                        let datum = datum?;
                        let DataKind::Active { memory_index, offset_expr } = datum.kind else {
                            continue;
                        };
                        // Imported memories are recorded with their contents.
                        if memory_index < declared.imported.memories {
                            continue;
                        }
                        let place = match constant(&offset_expr, &this.globals) {
                            Some(Value::I32(at)) => u64::from(at),
                            Some(Value::I64(at)) => at,
                            _ => {
                                let what = "data whose place the host gives: record the program \
                                            without --raw";
                                return Err(Error::event(0, what));
                            }
                        };
                        this.segments.push((memory_index, place, datum.data.to_vec()));
                    }
                }
                _ => {}
            }
        }
        Ok(this)
    }

    /// All elements of a table are the same at first.
    fn filled_table(&mut self, table: u32, own: &wasmparser::Table<'_>) {
        let TableInit::Expr(value) = &own.init else { return };
        if let Some(value) = constant(value, &self.globals) {
            self.filled.insert(table, (own.ty.initial, value));
        }
    }

    fn segment_of_elements(&mut self, element: wasmparser::Element<'_>) -> Result<(), Error> {
        let ElementKind::Active { table_index, offset_expr } = element.kind else { return Ok(()) };
        let place = match constant(&offset_expr, &self.globals) {
            Some(Value::I32(at)) => u64::from(at),
            Some(Value::I64(at)) => at,
            _ => return Ok(()),
        };
        let mut values = Vec::new();
        match element.items {
            ElementItems::Functions(section) => {
                for function in section {
                    values.push(Value::Func(Some(function?)));
                }
            }
            ElementItems::Expressions(_, section) => {
                for expression in section {
                    values.push(constant(&expression?, &self.globals).unwrap_or(NULL));
                }
            }
        }
        let table = table_index.unwrap_or(0);
        self.elements.extend((place..).zip(values).map(|(at, value)| ((table, at), value)));
        Ok(())
    }

    /// Called when the program begins.
    pub(super) fn begin(&mut self) {
        for (memory, place, bytes) in std::mem::take(&mut self.segments) {
            self.store(memory, place, &bytes);
        }
    }

    /// Applies a change, by either side.
    pub(super) fn change(&mut self, change: &Change) {
        match change {
            Change::Write { memory, address, bytes } => self.store(*memory, *address, bytes),
            Change::Global { global, value } => {
                self.globals.insert(*global, *value);
            }
            Change::Element { table, index, value } => {
                self.elements.insert((*table, *index), *value);
            }
            Change::Grow { .. } | Change::GrowTable { .. } => {}
        }
    }

    /// Splits a range of addresses into parts: each part's key, and the range in it.
    fn parts(address: u64, len: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            if at >= len {
                return None;
            }
            let here = address.wrapping_add(at as u64);
            let (part, start) = (here / PART as u64, (here % PART as u64) as usize);
            let end = PART.min(start + len - at);
            at += end - start;
            Some((part, start..end))
        })
    }

    fn store(&mut self, memory: u32, address: u64, mut bytes: &[u8]) {
        for (part, range) in Self::parts(address, bytes.len()) {
            let (now, later) = bytes.split_at(range.len());
            bytes = later;
            if now.iter().all(|byte| *byte == 0) && !self.bytes.contains_key(&(memory, part)) {
                continue;
            }
            let own = self.bytes.entry((memory, part)).or_insert_with(|| Box::new([0; PART]));
            own[range].copy_from_slice(now);
        }
    }

    /// Returns the range of bytes that differ from the known ones: the first, and how many up to
    /// the last.
    pub(super) fn differs(
        &self,
        memory: u32,
        address: u64,
        bytes: &[u8],
    ) -> Option<(usize, usize)> {
        let (mut at, mut first, mut last) = (0, None, 0);
        for (part, range) in Self::parts(address, bytes.len()) {
            let own = self.bytes.get(&(memory, part));
            for place in range {
                if own.map_or(0, |own| own[place]) != bytes[at] {
                    first.get_or_insert(at);
                    last = at;
                }
                at += 1;
            }
        }
        first.map(|first| (first, last - first + 1))
    }

    /// Handles a read of a global: returns whether its value differs from the known one.
    pub(super) fn learns(&mut self, global: u32, value: Value) -> bool {
        // A value that cannot be computed here is the one that is read first.
        !is_same(*self.globals.entry(global).or_insert(value), value)
    }

    /// Returns an element of a table.
    pub(super) fn element(&self, table: u32, index: u64) -> Value {
        let filled = self.filled.get(&table).filter(|(len, _)| index < *len);
        let first = filled.map_or(NULL, |(_, value)| *value);
        self.elements.get(&(table, index)).copied().unwrap_or(first)
    }
}
