//! Shadows of tables: which function each entry holds, as far as it is known.
//!
//! WebAssembly code cannot find out which function a reference refers to. So the rewritten program
//! records in its own memory what instructions put into tables: the functions of element segments,
//! and references that are created directly before they are stored. An entry is unknown if its
//! reference came from elsewhere, such as a parameter or a local variable, or if a host or another
//! module stored it in a shared table. Shadows are kept only if a probe needs them, and are updated
//! only if the program changes tables.

use super::Rewriter;
use super::function::Segment;
use crate::app::App;
use std::collections::HashMap;
use wasmparser::Operator as O;

/// What is known of a reference where it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reference {
    /// This function.
    Function(u32),
    /// The null reference.
    Null,
    /// The entry of a table: a local holds what is known of it.
    Entry(u32),
    /// An unknown reference.
    Unknown,
}

/// The shadows of a program's tables.
#[derive(Debug, Default)]
pub(super) struct Shadows {
    /// Whether instructions change tables.
    pub(super) changing: bool,
    /// Whether all references that instructions put into tables are known.
    pub(super) complete: bool,
    /// Whether the program drops segments.
    pub(super) dropping: bool,
    /// Where the shadows are described: address and length, by table.
    described: HashMap<u32, u32>,
    /// Functions of segments, and where they are.
    segments: HashMap<u32, (u32, u32)>,
}

/// Facts about a program's tables, computed on demand.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Which functions they hold.
    pub(super) shadows: Shadows,
    /// The contents of tables that never change: address and length.
    pub(super) fixed: HashMap<u32, (u32, u32)>,
    /// Where the types of entries are, if they are known.
    pub(super) entry_types: HashMap<u32, Option<u32>>,
    /// Globals with the lengths of segments that the program drops.
    pub(super) segments: HashMap<Segment, u32>,
}

/// Encodes a function in a shadow: zero if it is not known.
fn entry(function: Option<u32>) -> [u8; 4] {
    function.map_or(0, |f| f.wrapping_add(1)).to_le_bytes()
}

/// Whether an instruction only pushes a value.
fn pushes(op: &O<'_>) -> bool {
    matches!(op, O::I32Const { .. } | O::I64Const { .. } | O::LocalGet { .. } | O::GlobalGet { .. })
}

/// What is known of the reference that an instruction uses, from the instructions directly before
/// it, the last first.
pub(super) fn reference<'o>(op: &O<'_>, before: impl Iterator<Item = &'o O<'o>>) -> Reference {
    let mut before = before.peekable();
    if matches!(op, O::TableGrow { .. } | O::TableFill { .. })
        && before.next_if(|b| pushes(b)).is_none()
    {
        return Reference::Unknown;
    }
    match before.next() {
        Some(O::RefFunc { function_index }) => Reference::Function(*function_index),
        Some(O::RefNull { .. }) => Reference::Null,
        _ => Reference::Unknown,
    }
}

impl Shadows {
    /// Searches a program for instructions that change its tables.
    pub(super) fn of(app: &App<'_>) -> Self {
        let (mut changing, mut complete, mut dropping) = (false, true, false);
        for (_, body) in app.bodies().flatten() {
            let Ok(reader) = body.get_operators_reader() else { continue };
            let mut last: Vec<O<'_>> = Vec::new();
            for op in reader.into_iter().flatten() {
                let puts =
                    matches!(op, O::TableSet { .. } | O::TableGrow { .. } | O::TableFill { .. });
                changing |= puts || matches!(op, O::TableCopy { .. } | O::TableInit { .. });
                dropping |= matches!(op, O::DataDrop { .. } | O::ElemDrop { .. });
                if puts {
                    let copied = matches!(
                        (&op, last.last()),
                        (O::TableSet { .. }, Some(O::TableGet { .. }))
                    );
                    complete &= copied || reference(&op, last.iter().rev()) != Reference::Unknown;
                }
                if last.len() == 2 {
                    last.remove(0);
                }
                last.push(op);
            }
        }
        Self { changing, complete, dropping, ..Self::default() }
    }
}

impl Rewriter<'_> {
    /// The address where a table's shadow is described: its address and its length.
    pub(super) fn shadow(&mut self, table: u32) -> u32 {
        if let Some(&found) = self.tables.shadows.described.get(&table) {
            return found;
        }
        let (at, len) = self.first_entries(table);
        let described = self.support.bytes(&[at.to_le_bytes(), len.to_le_bytes()].concat(), 4);
        self.tables.shadows.described.insert(table, described);
        described
    }

    /// The initial contents of a table, as segments define them.
    pub(super) fn first_entries(&mut self, table: u32) -> (u32, u32) {
        let known = self.app.tables.get(table as usize).is_some_and(|t| t.known);
        let segments = self.app.elements.get(&table).filter(|_| known);
        let mut entries: Vec<Option<u32>> = Vec::new();
        for (at, list) in segments.into_iter().flatten() {
            // A table that is larger than this is shadowed only up to here.
            let end = (*at as usize + list.len()).min(1 << 22);
            if entries.len() < end {
                entries.resize(end, None);
            }
            for (i, function) in list.iter().enumerate() {
                if let Some(entry) = entries.get_mut(*at as usize + i) {
                    *entry = *function;
                }
            }
        }
        let bytes: Vec<u8> = entries.iter().flat_map(|f| entry(*f)).collect();
        (self.support.bytes(&bytes, 4), u32::try_from(entries.len()).unwrap_or(0))
    }

    /// The functions of a segment: address and length.
    pub(super) fn segment_entries(&mut self, segment: u32) -> (u32, u32) {
        if let Some(&found) = self.tables.shadows.segments.get(&segment) {
            return found;
        }
        let list: Vec<Option<u32>> = self
            .app
            .element_segments
            .get(segment as usize)
            .map(|s| s.items.clone())
            .unwrap_or_default();
        let bytes: Vec<u8> = list.iter().flat_map(|f| entry(*f)).collect();
        let found = (self.support.bytes(&bytes, 4), u32::try_from(list.len()).unwrap_or(0));
        self.tables.shadows.segments.insert(segment, found);
        found
    }

    /// The type of each function, as a number that equal types share; zero means no function.
    /// `None` if types are not simple, or if the contents of the table are not all known.
    pub(super) fn types_of_entries(&mut self, table: u32) -> Option<u32> {
        let app = self.app;
        let private = app.tables.get(table as usize).is_some_and(|t| t.known)
            && table >= app.imported_tables
            && !app.exports.iter().any(|e| e.kind == wasmparser::ExternalKind::Table);
        let items_known = app.element_segments.iter().all(|s| s.known);
        if !(private && items_known && self.tables.shadows.complete && app.simple_types) {
            return None;
        }
        let numbers: Vec<u32> = app.functions.iter().map(|&ty| self.number_of_type(ty)).collect();
        let bytes: Vec<u8> = [0].into_iter().chain(numbers).flat_map(u32::to_le_bytes).collect();
        Some(self.support.bytes(&bytes, 4))
    }

    /// A number that equal types share.
    pub(super) fn number_of_type(&self, ty: u32) -> u32 {
        let own = self.app.types.get(ty as usize);
        let first = self.app.types.iter().position(|t| Some(t) == own);
        u32::try_from(first.unwrap_or(0)).unwrap_or(0) + 1
    }
}
