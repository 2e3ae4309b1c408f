//! Emits readable frames, for core dumps: each frame keeps its instance and its locals in memory,
//! at known places.
//!
//! ```text
//!    rbp - distance      the address of the instance's vmctx
//!               + 8      local 0, if it is a number
//!              + 16      local 1
//! ```
//!
//! A number of 32 bits takes the lower half of its place. Vectors and references are not kept, nor
//! are locals after the first thousand.

use super::function::Translator;
use cranelift_codegen::CompiledCode;
use cranelift_codegen::ir::{
    InstBuilder, StackSlotData, StackSlotKey, StackSlotKind, Value, types,
};

/// The most locals of a frame that are kept.
const MOST: usize = 1000;
/// The key by which the slot of a frame's locals is found among its other slots.
const KEY: u64 = 1;

impl Translator<'_> {
    /// Makes the slot where the function's frames keep their readable values, if they are to be
    /// readable.
    pub(super) fn keep_frame(&mut self) {
        if !self.target.options.frames {
            return;
        }
        let size = 8 + 8 * kept(self.locals.len()) as u32;
        let slot = StackSlotData::new_with_key(
            StackSlotKind::ExplicitSlot,
            size,
            3,
            StackSlotKey::new(KEY),
        );
        let slot = *self.kept.insert(self.builder.create_sized_stack_slot(slot));
        self.builder.ins().stack_store(types::I64, self.vmctx, slot, 0);
        for index in 0..self.locals.len() as u32 {
            let value = self.local(index);
            self.keep_local(index, value);
        }
    }

    /// Keeps the new value of a local.
    pub(super) fn keep_local(&mut self, index: u32, value: Value) {
        let Some(slot) = self.kept.filter(|_| !self.is_nested() && (index as usize) < MOST) else {
            return;
        };
        if !self.builder.func.dfg.value_type(value).is_vector() {
            self.builder.ins().stack_store(types::I64, value, slot, 8 + 8 * index as i32);
        }
    }
}

/// How far below its frame pointer a frame keeps its readable values; 0 if it keeps none.
pub(super) fn distance(compiled: &CompiledCode) -> u32 {
    let Some(layout) = compiled.buffer.frame_layout() else { return 0 };
    let key = Some(StackSlotKey::new(KEY));
    let kept = layout.stackslots.values().find(|slot| slot.key == key);
    kept.map_or(0, |slot| layout.frame_to_fp_offset - slot.offset)
}

/// How many locals are kept of a function that has `locals` of them.
pub(crate) fn kept(locals: usize) -> usize {
    locals.min(MOST)
}
