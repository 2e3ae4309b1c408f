//! `memory.copy`, `memory.fill` and `memory.init` between any memories of a store, for functions of
//! the host: with the bounds, the order of bytes, and the interruption that machine code has.
//!
//! # Safety
//!
//! This module exists to write to linear memories, which instances and threads may write to, too:
//! no slice is made of them, and ranges are compared with the memories' lengths first.
#![allow(unsafe_code)]

use super::bulk;
use super::handle::Memory;
use super::instance::Instance;
use super::module::ModuleInner;
use super::store::{AsContextMut, StoreCore};
use crate::error::Error;
use crate::trap::Trap;
use crate::vm::Bulk;
use std::ops::Range;
use std::sync::Arc;

/// A range of a memory: a place and a number of bytes.
#[derive(Clone, Copy, Debug)]
pub struct MemoryRange {
    /// The memory.
    pub memory: Memory,
    /// Its first address.
    pub at: u64,
    /// How many bytes.
    pub len: u64,
}

/// Some bytes of a data segment.
#[derive(Clone, Debug)]
pub struct SegmentBytes {
    module: Arc<ModuleInner>,
    range: Range<usize>,
}

impl MemoryRange {
    /// Where its bytes are, if the memory has that many.
    fn place(&self, core: &mut StoreCore) -> Result<*mut u8, Error> {
        let (base, len) = self.memory.extent_in(core)?;
        let end = self.at.checked_add(self.len).filter(|end| *end <= len as u64);
        end.ok_or(Trap::MemoryOutOfBounds)?;
        // SAFETY: (1) compared with the length.
        Ok(unsafe { base.add(self.at as usize) })
    }

    /// Copies the bytes of another place of the same store, which may overlap. Nothing is copied if
    /// one of the ranges is not inside of its memory.
    pub fn copy_from(
        &self,
        mut store: impl AsContextMut,
        memory: Memory,
        at: u64,
    ) -> Result<(), Error> {
        let mut context = store.as_context_mut();
        let core = context.core();
        let from = Self { memory, at, len: self.len }.place(core)?;
        let to = self.place(core)?;
        // SAFETY: (1) both ranges are inside of their memories; they may overlap.
        let done = unsafe { bulk::copy(to, from, self.len as usize, || is_stopped(core)) };
        self.announce(context, done)
    }

    /// Fills it with a byte.
    pub fn fill(&self, mut store: impl AsContextMut, byte: u8) -> Result<(), Error> {
        let mut context = store.as_context_mut();
        let core = context.core();
        let to = self.place(core)?;
        // SAFETY: (1) the range is inside of the memory.
        let done = unsafe { bulk::fill(to, byte, self.len as usize, || is_stopped(core)) };
        self.announce(context, done)
    }

    /// Copies bytes of a data segment, which are as many.
    pub fn init(&self, mut store: impl AsContextMut, bytes: &SegmentBytes) -> Result<(), Error> {
        let mut context = store.as_context_mut();
        let core = context.core();
        let from = bytes.module.bytes.get(bytes.range.clone()).unwrap_or_default();
        let to = Self { len: from.len() as u64, ..*self }.place(core)?;
        // SAFETY: (1) the range is inside of the memory, which no slice of ours overlaps.
        let done = unsafe { bulk::copy(to, from.as_ptr(), from.len(), || is_stopped(core)) };
        self.announce(context, done)
    }

    /// Notifies an observer of the boundary of what was written.
    fn announce<T>(
        &self,
        mut context: super::store::StoreContextMut<'_, T>,
        done: Bulk,
    ) -> Result<(), Error> {
        // No slice is made of a memory that other threads write to.
        if self.memory.as_shared(&mut context)?.is_none() {
            context.wrote(self.memory, self.at, self.len);
        }
        match done {
            Bulk::Done => Ok(()),
            Bulk::Outside => Err(Trap::MemoryOutOfBounds.into()),
            Bulk::Interrupted => Err(Trap::Interrupted.into()),
        }
    }
}

/// Whether code of the store is to stop; consumes the request.
fn is_stopped(core: &StoreCore) -> bool {
    let interruption = core.interruption();
    interruption.is_requested() && interruption.take()
}

impl Instance {
    /// The instances of a module in a store.
    pub fn all_of(core: &StoreCore, module: &ModuleInner) -> Vec<Self> {
        let own = core.instances.iter().filter(|data| std::ptr::eq(&*data.module, module));
        own.map(|data| Self::from_data(std::ptr::NonNull::from(&**data))).collect()
    }

    /// One of its memories, by its index in the module.
    pub fn memory(&self, core: &StoreCore, index: u32) -> Option<Memory> {
        let index = *self.data(core)?.memories.get(index as usize)?;
        Some(Memory { index, store: core.id })
    }

    /// Bytes of one of its data segments, if there is such a segment: an error if it has fewer, as
    /// it does once it was dropped.
    pub fn segment_bytes(
        &self,
        core: &StoreCore,
        segment: u32,
        from: u64,
        len: u64,
    ) -> Option<Result<SegmentBytes, Trap>> {
        let data = self.data(core)?;
        let whole = data.module.info.data.get(segment as usize)?.range.clone();
        let present = data.data(segment).len() as u64;
        let end = from.checked_add(len).filter(|end| *end <= present);
        let range =
            |end: u64| whole.start as usize + from as usize..whole.start as usize + end as usize;
        let bytes = |end| SegmentBytes { module: Arc::clone(&data.module), range: range(end) };
        Some(end.map(bytes).ok_or(Trap::MemoryOutOfBounds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, Linker, Module, Store};

    const MODULE: &str = r#"(module
        (memory (export "a") 1 2) (memory (export "b") i64 1)
        (data $d "abcdef")
        (func (export "drop") (data.drop $d)))"#;

    fn instance() -> (Store<()>, Instance) {
        let engine = Engine::default();
        let mut store = Store::new(&engine, ());
        let module = Module::new(&engine, MODULE.as_bytes()).expect("valid");
        let instance = Linker::new(&engine).instantiate(&mut store, &module).expect("complete");
        (store, instance)
    }

    fn memory(store: &mut Store<()>, instance: Instance, index: u32) -> Memory {
        instance.memory(store.as_context_mut().core(), index).expect("there are two")
    }

    #[test]
    fn ranges_are_compared_before_a_byte_is_copied() {
        let (mut store, instance) = instance();
        let [a, b] = [0, 1].map(|index| memory(&mut store, instance, index));
        let range = |memory, at, len| MemoryRange { memory, at, len };
        range(a, 0, 65536).fill(&mut store, 7).expect("inside");
        range(b, 65530, 6).copy_from(&mut store, a, 65530).expect("inside");
        let outside = [
            (range(b, 65530, 7), 0),
            (range(b, 0, 7), 65530),
            (range(b, u64::MAX, 2), 0),
            (range(b, 0, 2), u64::MAX),
            (range(b, 65537, 0), 0),
        ];
        for (to, from) in outside {
            let error = to.copy_from(&mut store, a, from).expect_err("outside");
            assert_eq!(error.trap(), Some(Trap::MemoryOutOfBounds), "{to:?} {from}");
        }
        let mut bytes = [0; 7];
        b.read(&mut store, 65529, &mut bytes).expect("inside");
        assert_eq!(bytes, [0, 7, 7, 7, 7, 7, 7]);
        range(b, 65536, 0).copy_from(&mut store, a, 65536).expect("nothing is copied");
        assert!(range(a, 65530, 7).fill(&mut store, 1).is_err());
    }

    #[test]
    fn a_range_may_overlap_the_one_that_it_is_copied_from() {
        let (mut store, instance) = instance();
        let a = memory(&mut store, instance, 0);
        a.write(&mut store, 0, b"abcdef").expect("inside");
        MemoryRange { memory: a, at: 2, len: 4 }.copy_from(&mut store, a, 0).expect("inside");
        let mut bytes = [0; 6];
        a.read(&mut store, 0, &mut bytes).expect("inside");
        assert_eq!(&bytes, b"ababcd");
    }

    #[test]
    fn a_segment_that_was_dropped_has_no_bytes() {
        let (mut store, instance) = instance();
        let b = memory(&mut store, instance, 1);
        let mut take = |from, len| {
            let core = store.as_context_mut();
            instance.segment_bytes({ core }.core(), 0, from, len).expect("there is one")
        };
        let (some, many) = (take(2, 3), take(4, 3));
        assert_eq!(many.expect_err("six"), Trap::MemoryOutOfBounds);
        let range = MemoryRange { memory: b, at: 10, len: 3 };
        range.init(&mut store, &some.expect("six")).expect("inside");
        let mut bytes = [0; 3];
        b.read(&mut store, 10, &mut bytes).expect("inside");
        assert_eq!(&bytes, b"cde");
        let function = instance.get_func(&mut store, "drop").expect("exported");
        function.call(&mut store, &[]).expect("it returns");
        let mut context = store.as_context_mut();
        let core = context.core();
        assert!(instance.segment_bytes(core, 0, 0, 1).is_some_and(|bytes| bytes.is_err()));
        assert!(instance.segment_bytes(core, 0, 0, 0).is_some_and(|bytes| bytes.is_ok()));
        assert!(instance.segment_bytes(core, 1, 0, 0).is_none());
    }
}
