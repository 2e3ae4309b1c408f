//! Tables of references.
//!
//! # Safety
//!
//! This module exists to keep what machine code reads in step with the vector that owns it.
#![allow(unsafe_code)]

use super::bulk;
use super::definition::define;
use super::store::{Demand, Demanded};
use crate::error::Error;
use crate::types::TableType;
use crate::vm;

/// A table, and where machine code finds it.
#[derive(Debug)]
pub(crate) struct Elements {
    pub(crate) ty: TableType,
    /// The definition that machine code reads: in the vmctx of the instance that defines it, or in
    /// a box.
    pub(crate) definition: *mut vm::Table,
    items: Vec<usize>,
    _definition: Option<Box<vm::Table>>,
}

impl Elements {
    /// A table full of `item`. Machine code finds it in `place`, or in a box.
    ///
    /// # Safety
    /// `place` is valid for as long as the table is.
    pub(crate) unsafe fn new(
        ty: TableType,
        item: usize,
        limit: usize,
        place: Option<*mut vm::Table>,
    ) -> Result<Self, Error> {
        let mut items = Vec::new();
        let len = usize::try_from(ty.minimum).ok().filter(|len| *len <= limit);
        let room = len.and_then(|len| items.try_reserve_exact(len).ok().map(|()| len));
        let Some(len) = room else {
            return Err(Error::Resource(format!(
                "no memory for a table of {} elements (the limit is {limit})",
                ty.minimum
            )));
        };
        items.resize(len, item);
        let value = vm::Table { base: items.as_mut_ptr(), len };
        // SAFETY: (1) the caller, see # Safety.
        let (definition, kept) = unsafe { define(value, place) };
        Ok(Self { ty, definition, items, _definition: kept })
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// The elements, which both machine code and the runtime write to.
    fn items(&mut self) -> &mut [usize] {
        // Through the pointer that machine code was given, so that nothing is assumed to be
        // unchanged. SAFETY: (1) the vector's own memory, which is only moved in `grow`; (2)
        // machine code of this store does not run meanwhile.
        unsafe { std::slice::from_raw_parts_mut((*self.definition).base, (*self.definition).len) }
    }

    pub(crate) fn get(&mut self, index: u64) -> Option<usize> {
        self.items().get(usize::try_from(index).ok()?).copied()
    }

    pub(crate) fn set(&mut self, index: u64, item: usize) -> Option<()> {
        let at = usize::try_from(index).ok()?;
        *self.items().get_mut(at)? = item;
        Some(())
    }

    /// The elements `[at, at + count)`, if there are that many.
    pub(crate) fn range(&mut self, at: u64, count: u64) -> Option<&mut [usize]> {
        let (start, end) =
            (usize::try_from(at).ok()?, usize::try_from(at.checked_add(count)?).ok()?);
        self.items().get_mut(start..end)
    }

    /// The demand for a growth.
    pub(crate) fn demand(&self, more: u64) -> Demand {
        let current = self.len() as u64;
        Demand {
            of: Demanded::Elements,
            current,
            wanted: current.saturating_add(more),
            maximum: self.ty.maximum,
        }
    }

    /// Grows it, and returns how many elements it had; nothing if it cannot grow by that much, or
    /// if `is_stopped`, which is called now and then, returns true.
    pub(crate) fn grow(
        &mut self,
        more: u64,
        item: usize,
        limit: usize,
        is_stopped: impl Fn() -> bool,
    ) -> Option<u64> {
        let before = self.len();
        let most = self.ty.maximum.unwrap_or(u64::MAX).min(if self.ty.wide {
            u64::MAX
        } else {
            u64::from(u32::MAX)
        });
        let len = (before as u64).checked_add(more).filter(|len| *len <= most)?;
        let len = usize::try_from(len).ok().filter(|len| *len <= limit)?;
        self.items.try_reserve(len - before).ok()?;
        let grown = bulk::in_pieces::<usize>(len - before, false, is_stopped, |_, more| {
            self.items.resize(self.items.len() + more, item);
        });
        // SAFETY: (1) the definition lives as long as the table.
        unsafe {
            self.definition
                .write(vm::Table { base: self.items.as_mut_ptr(), len: self.items.len() });
        };
        (grown == vm::Bulk::Done).then_some(before as u64)
    }
}
