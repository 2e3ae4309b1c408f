//! Slots of activations: variables that functions of monitors have in each activation of the
//! program's functions.
//!
//! Those functions are inlined, and a slot is a variable of the code: a register. Where an event
//! may have to be completed after a trap (`compile/pending_event.rs`), functions that use slots
//! find them in the frame instead, in a table that describes itself:
//!
//! ```text
//!   number of entries, –
//!   monitor and type, slot's number, value, –          for each slot
//! ```
//!
//! The code writes the table when the activation begins, and a value each time that the slot is
//! written. In functions without such an event these stores are removed again.

use super::emitter::Emitter;
use super::function::{Translator, machine_type};
use crate::types::ValType;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{
    Block, Function, Inst, InstBuilder, StackSlot, StackSlotData, StackSlotKind, Type, Value, types,
};
use cranelift_frontend::Variable;
use std::collections::HashMap;

/// The words of an entry; the table begins with as many.
pub(crate) const ENTRY_WORDS: usize = 4;
const ENTRY: u32 = 8 * ENTRY_WORDS as u32;
const VALUE: i32 = 16;

/// What distinguishes a slot from the others of its function: the monitor, its number, its type.
pub(super) type SlotName = (u32, i32, Type);

/// The slots that the code of one function uses.
#[derive(Default)]
pub(super) struct ActivationSlots {
    variables: HashMap<SlotName, (Variable, u32)>,
    names: Vec<SlotName>,
    table: Option<StackSlot>,
    /// What writes values to the table.
    stores: Vec<Inst>,
    /// Whether an event that may have to be completed needs the table.
    is_needed: bool,
}

/// The first word of an entry: the monitor, and the slots' type.
pub(crate) fn owner_and_type(monitor: u32, ty: ValType) -> u64 {
    owner_and_machine_type(monitor, machine_type(ty))
}

fn owner_and_machine_type(monitor: u32, ty: Type) -> u64 {
    u64::from(monitor) << 32 | u64::from(ty.bits() << 1) | u64::from(ty.is_float())
}

impl ActivationSlots {
    /// Says that an event needs the table, if these instructions pass its address on.
    pub(super) fn note_need(&mut self, func: &Function, mut code: impl Iterator<Item = Inst>) {
        let Some(table) = self.table else { return };
        self.is_needed |= code.any(|inst| func.dfg.insts[inst].stack_slot() == Some(table));
    }
}

impl Translator<'_> {
    /// The variable of a slot. A slot that was never written is zero.
    pub(super) fn activation_slot(&mut self, name: SlotName) -> Variable {
        let slots = &mut self.guests.slots;
        if let Some((variable, _)) = slots.variables.get(&name) {
            return *variable;
        }
        let variable = self.builder.declare_var(name.2);
        slots.variables.insert(name, (variable, slots.names.len() as u32));
        slots.names.push(name);
        variable
    }

    pub(super) fn write_activation_slot(&mut self, name: SlotName, value: Value) {
        let variable = self.activation_slot(name);
        self.builder.def_var(variable, value);
        let (table, place) = (self.slot_table(), self.guests.slots.variables[&name].1);
        let at = (ENTRY * (1 + place)) as i32 + VALUE;
        let store = self.builder.ins().stack_store(types::I64, value, table, at);
        self.guests.slots.stores.push(store);
    }

    fn slot_table(&mut self) -> StackSlot {
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, ENTRY, 3);
        let builder = &mut self.builder;
        let table = &mut self.guests.slots.table;
        *table.get_or_insert_with(|| builder.create_sized_stack_slot(data))
    }

    /// Completes the table of the function, whose code begins with `entry`, or removes it.
    pub(super) fn finish_slot_table(&mut self, entry: Block) {
        let slots = std::mem::take(&mut self.guests.slots);
        let (Some(table), func) = (slots.table, &mut *self.builder.func) else { return };
        if !slots.is_needed {
            slots.stores.into_iter().for_each(|store| {
                func.layout.remove_inst(store);
            });
            func.sized_stack_slots[table].size = 0;
            return;
        }
        func.sized_stack_slots[table].size = ENTRY * (1 + slots.names.len() as u32);
        let mut code = FuncCursor::new(func).at_first_insertion_point(entry);
        let mut put = |word: i64, at: u32| {
            let word = code.ins().iconst(types::I64, word);
            code.ins().stack_store(types::I64, word, table, at as i32);
        };
        put(slots.names.len() as i64, 0);
        for ((monitor, number, ty), at) in slots.names.iter().zip((ENTRY..).step_by(ENTRY as usize))
        {
            put(owner_and_machine_type(*monitor, *ty).cast_signed(), at);
            put(i64::from(*number), at + 8);
            put(0, at + VALUE as u32);
        }
    }
}

impl Emitter<'_, '_> {
    /// The address of the table of the activation's slots, for the completion of an event.
    pub fn activation_slots(&mut self) -> Value {
        let table = self.translator.slot_table();
        self.builder().ins().stack_addr(types::I64, table, 0)
    }
}
