//! Texts that functions of monitors are given with each call.
//!
//! A text is an address and a length in the monitor's buffer. What the buffer holds between calls
//! is the monitor's business: functions that are called while matching are given texts in it, and
//! each function may overwrite it. So the texts of a probe are written before each of its calls, by
//! the host, whether its function is called or inlined. Probes without texts cost nothing more.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use wasm_aot_engine::Memory;
use wasm_aot_engine::StoreContextMut;
use wasm_aot_engine::instrument::compile::{Call, Firing, Receiver};
use wasm_aot_engine::instrument::runtime::{StoreId, with_store_of};

/// A text as far as it fits into the buffer, and its address there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Text {
    pub(super) address: u32,
    pub(super) text: Arc<str>,
}

impl Text {
    /// Address and length, as functions take them.
    pub(super) fn numbers(&self) -> [i32; 2] {
        [self.address.cast_signed(), self.text.len() as i32]
    }
}

/// The memories that contain a monitor's buffer: one for each thread with an instance of it.
#[derive(Clone, Debug, Default)]
pub(super) struct BufferMemories(Arc<Mutex<HashMap<StoreId, Memory>>>);

impl BufferMemories {
    pub(super) fn insert(&self, store: StoreId, memory: Memory) {
        self.0.lock().insert(store, memory);
    }

    pub(super) fn remove(&self, store: StoreId) {
        self.0.lock().remove(&store);
    }
}

/// Writes the texts of a probe.
#[derive(Debug)]
pub(super) struct TextWriter {
    memories: BufferMemories,
    texts: Vec<Text>,
}

impl TextWriter {
    /// A writer, if there are texts.
    pub(super) fn new(memories: &BufferMemories, texts: &[Text]) -> Option<Self> {
        let writer = || Self { memories: memories.clone(), texts: texts.to_vec() };
        (!texts.is_empty()).then(writer)
    }

    /// The call of the writer that code makes before each call of the probe's function.
    pub(super) fn into_call(self) -> Call {
        Call { receiver: Arc::new(self), number: 0, captures: Vec::new(), writes: false }
    }

    pub(super) fn write(&self, store: &mut StoreContextMut<'_, ()>) {
        let memory = self.memories.0.lock().get(&store.core().id).copied();
        let Some(memory) = memory else { return };
        for Text { address, text } in &self.texts {
            // It fits: that was checked for each instance, and memories do not shrink.
            let _ = memory.write(&mut *store, *address as usize, text.as_bytes());
        }
    }
}

impl Receiver for TextWriter {
    fn fire(&self, firing: &mut Firing<'_>) {
        with_store_of(firing.vmctx, |mut store| self.write(&mut store));
    }
}
