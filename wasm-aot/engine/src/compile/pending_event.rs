//! Emits what completes an event in which a hook traps.
//!
//! The hooks of one place and mode are called an *event*. A trap of one hook ends the program, but
//! the hooks after it still fire before. So where a hook that can trap has others after it, the
//! code keeps in its frame what those are given, and the store's cell holds the hook that is
//! executed:
//!
//! ```text
//!   slot                  ◀── vmctx, frame pointer; what the last hook is given, … the second
//!   cell.pending_values   ◀── the address of the slot
//!   cell.pending_hook     ◀── the first hook;    its code
//!   cell.pending_hook     ◀── the second hook;   its code
//!   cell.pending_hook     ◀── 0;                 the code of the last hook
//! ```
//!
//! After a trap, `runtime/pending_event.rs` fires the hooks after the one in the cell. Whether code
//! can trap is known once it is emitted; the stores that are not needed are removed then.

use super::emitter::Emitter;
use super::function::Translator;
use super::plan::{Action, Call, Hook};
use crate::vm::at;
use cranelift_codegen::entity::EntityRef;
use cranelift_codegen::ir::{
    Function, Inst, InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind, Value,
    types,
};
use std::ops::Range;

/// The size of one kept value, and of what precedes them.
const VALUE: u32 = 16;

/// The instructions that were added by a piece of code.
type Emitted = Range<usize>;

/// An event whose hooks are being emitted, at least one of which may trap and has others after it.
pub(super) struct PendingEvent<'a> {
    hooks: Vec<&'a Hook>,
    slot: StackSlot,
    /// What serves the event as a whole, and what keeps the values of each hook.
    header: Emitted,
    kept: Vec<Emitted>,
    /// By hooks: what names it in the cell, and whether its code can trap.
    named: Vec<(Emitted, bool)>,
}

impl Action {
    /// How many values are kept for it.
    pub(crate) fn keeps(&self) -> usize {
        match self {
            Self::Call(call) => call.captures.len(),
            Self::Inline(sequence) => sequence.0.keeps(),
            Self::OneShot(_) => 0,
        }
    }

    fn may_trap(&self) -> bool {
        matches!(self, Self::Inline(sequence) if sequence.0.may_trap())
    }
}

impl<'a> PendingEvent<'a> {
    /// Begins an event, if it may have to be completed. Of each hook, with the value that it has
    /// prepared.
    pub(super) fn begin(
        translator: &mut Translator<'a>,
        hooks: &[(&'a Hook, Option<Value>)],
    ) -> Option<Self> {
        let (_, before) = hooks.split_last()?;
        if !before.iter().any(|(hook, _)| hook.action.may_trap()) {
            return None;
        }
        let mut start = VALUE;
        let places: Vec<u32> = hooks
            .iter()
            .skip(1)
            .rev()
            .map(|(hook, _)| {
                let place = start;
                start += VALUE * hook.action.keeps() as u32;
                place
            })
            .collect();
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, start, 4);
        let slot = translator.builder.create_sized_stack_slot(slot);
        let header = emitted(translator, |it| {
            let (vmctx, frame) = (it.vmctx, it.builder.ins().get_frame_pointer(types::I64));
            it.builder.ins().stack_store(types::I64, vmctx, slot, 0);
            it.builder.ins().stack_store(types::I64, frame, slot, 8);
            let values = it.builder.ins().stack_addr(types::I64, slot, 0);
            it.store_in_cell(values, at::PENDING_VALUES);
        });
        let keep = |((hook, due), place): (&(&'a Hook, Option<Value>), u32)| {
            emitted(translator, |it| {
                let slot = Some((slot, place as i32));
                Emitter { translator: it, hook, due: *due, slot }.keep_what_it_is_given();
            })
        };
        let mut kept: Vec<Emitted> = hooks.iter().skip(1).rev().zip(places).map(keep).collect();
        kept.reverse();
        let hooks = hooks.iter().map(|(hook, _)| *hook).collect();
        Some(Self { hooks, slot, header, kept, named: Vec::new() })
    }

    /// Emits the next hook.
    pub(super) fn emit(
        &mut self,
        translator: &mut Translator<'a>,
        hook: impl FnOnce(&mut Translator<'a>),
    ) {
        let number = self.named.len();
        let name = if number + 1 < self.hooks.len() {
            std::ptr::from_ref(self.hooks[number]) as i64
        } else {
            0
        };
        let named = emitted(translator, |it| {
            let name = it.builder.ins().iconst(types::I64, name);
            it.store_in_cell(name, at::PENDING_HOOK);
        });
        let code = emitted(translator, hook);
        self.named.push((named, can_trap(translator.builder.func, code)));
    }

    /// Removes what is not needed, if no hook can trap that has others after it.
    pub(super) fn end(self, translator: &mut Translator<'a>) {
        let func = &mut translator.builder.func;
        let (last, before) = self.named.split_last().expect("an event has hooks");
        let trapping = before.iter().position(|(_, can_trap)| *can_trap);
        // The values of the second hook are the first that are kept.
        let (not_after, after) = self.kept.split_at(trapping.unwrap_or(self.kept.len()));
        not_after.iter().for_each(|kept| remove_stores(func, kept));
        let needed = after.iter().flat_map(|kept| kept.clone().map(Inst::new));
        translator.guests.slots.note_need(func, needed);
        let harmless = before.iter().filter(|(_, can_trap)| !can_trap);
        harmless.for_each(|(named, _)| remove_stores(func, named));
        if trapping.is_none() {
            remove_stores(func, &self.header);
            remove_stores(func, &last.0);
            func.sized_stack_slots[self.slot].size = 0;
        }
    }
}

impl<'a> Translator<'a> {
    fn store_in_cell(&mut self, value: Value, field: i32) {
        let cell = self.fixed_word(at::STORE);
        self.builder.ins().store(MemFlagsData::trusted(), value, cell, field);
    }
}

impl Emitter<'_, '_> {
    fn keep_what_it_is_given(&mut self) {
        match &self.hook().action {
            Action::Call(call) => self.keep_captured(0, call),
            Action::Inline(sequence) => {
                if let Err(error) = sequence.0.keep(self) {
                    self.translator.hooking.failure.get_or_insert(error);
                }
            }
            Action::OneShot(_) => {}
        }
    }

    /// Keeps what a call captures, see [`keep`](Self::keep).
    pub fn keep_captured(&mut self, first: usize, call: &Call) {
        for (place, capture) in (first..).zip(&call.captures) {
            let value = self.captured(*capture);
            let value = value.unwrap_or_else(|| self.zero());
            self.keep(place, &[value]);
        }
    }

    /// Keeps values of the hook, from the first or a later one on, in case that a hook before it
    /// traps.
    pub fn keep(&mut self, first: usize, values: &[Value]) {
        let (slot, start) = self.slot.expect("only where they are kept");
        for (place, value) in (first..).zip(values) {
            let value = self.widened(*value);
            let at = start + VALUE as i32 * place as i32;
            self.builder().ins().stack_store(types::I64, value, slot, at);
        }
    }
}

fn emitted<'a>(translator: &mut Translator<'a>, code: impl FnOnce(&mut Translator<'a>)) -> Emitted {
    let first = translator.builder.func.dfg.num_insts();
    code(translator);
    first..translator.builder.func.dfg.num_insts()
}

fn can_trap(func: &Function, code: Emitted) -> bool {
    code.map(Inst::new).any(|inst| {
        let data = &func.dfg.insts[inst];
        let traps = match data.memflags_data(&func.dfg) {
            Some(flags) => flags.trap_code().is_some(),
            None => data.opcode().can_trap(),
        };
        traps || data.opcode().is_call()
    })
}

fn remove_stores(func: &mut Function, code: &Emitted) {
    for inst in code.clone().map(Inst::new) {
        if func.dfg.insts[inst].opcode().can_store() && !func.dfg.insts[inst].opcode().is_call() {
            func.layout.remove_inst(inst);
        }
    }
}
