//! The emitter: what the code of a hook is written with. It knows the program's values at the
//! hook's place, words of the instance and variables of the activation, and calls receivers.

use super::access::Access;
use super::control::arguments;
use super::function::{Translator, machine_type};
use super::plan::{Call, Capture, Hook, Word};
use crate::error::CompileError;
use crate::trap::Trap;
use crate::types::ValType;
use crate::vm::Builtin;
use cranelift_codegen::ir::{
    Block, InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind, Value, types,
};
use cranelift_frontend::{FunctionBuilder, Variable};
use wasmparser::Operator;

/// Emits the code of a hook.
pub struct Emitter<'t, 'a> {
    pub(super) translator: &'t mut Translator<'a>,
    pub(super) hook: &'a Hook,
    pub(super) due: Option<Value>,
    /// Where the hook's values are kept, if they are, in case that a hook before it traps.
    pub(super) slot: Option<(StackSlot, i32)>,
}

impl std::fmt::Debug for Emitter<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emitter").field("hook", self.hook).finish_non_exhaustive()
    }
}

impl<'a> Emitter<'_, 'a> {
    /// The builder of machine code. The function continues in the block that is current at the end.
    pub fn builder(&mut self) -> &mut FunctionBuilder<'a> {
        &mut self.translator.builder
    }

    /// The hook that is emitted.
    pub fn hook(&self) -> &'a Hook {
        self.hook
    }

    /// The value that it has read before any hook fired in this mode.
    pub fn due(&self) -> Option<Value> {
        self.due
    }

    /// The address of the instance.
    pub fn vmctx(&self) -> Value {
        self.translator.vmctx
    }

    // --- the program's values

    /// How many operands can be seen.
    pub fn operands(&self) -> u32 {
        self.translator.hooking.operands.len() as u32
    }

    /// An operand, counted from the top of the stack, and its type. Vectors have the type that they
    /// are passed on with.
    pub fn operand(&mut self, place: u32) -> Option<(Value, ValType)> {
        let ty = *self.translator.hooking.operands.get(place as usize)?;
        let value = self.translator.topmost(place)?;
        Some((self.translator.plain(value), ty))
    }

    /// An operand that the instruction has taken, and its type: after it only.
    pub fn taken(&mut self, place: u32) -> Option<(Value, ValType)> {
        let (value, ty) = *self.translator.hooking.taken.get(place as usize)?;
        Some((self.translator.plain(value), ty))
    }

    /// Replaces an operand by another one of the same type. Returns whether it belongs to the
    /// innermost frame: no others are changed.
    pub fn set_operand(&mut self, place: u32, value: Value) -> bool {
        let is_ours = (place as usize) < self.translator.hooking.writable;
        if is_ours {
            let at = self.translator.stack.len() - 1 - place as usize;
            self.translator.stack[at] = value;
        }
        is_ours
    }

    /// A local and its type.
    pub fn local(&mut self, index: u32) -> Option<(Value, ValType)> {
        let ty = *self.translator.hooking.locals.get(index as usize)?;
        Some((self.translator.local(index), ty))
    }

    /// Gives a local another value, of the same type.
    pub(crate) fn set_local(&mut self, index: u32, value: Value) {
        self.translator.set_local(index, value);
    }

    /// The access to memory that the instruction makes.
    pub(crate) fn access(&self) -> Option<Access> {
        self.translator.hooking.access
    }

    /// The address of the access, as an index into its memory, with 64 bits.
    pub fn address(&mut self) -> Option<Value> {
        let access = self.access()?;
        // After the instruction, its index is no longer an operand.
        let (index, _) = self.taken(access.index).or_else(|| self.operand(access.index))?;
        let index = self.translator.widened(index);
        Some(match access.offset {
            0 => index,
            offset => self.builder().ins().iadd_imm_s(index, offset as i64),
        })
    }

    /// The block of the instruction that the hook replaces.
    pub fn replaced(&self) -> Option<Block> {
        self.translator.hooking.replacing.map(|(itself, _)| itself)
    }

    /// Continues after the instruction with these results.
    pub fn replace(&mut self, results: &[Value]) {
        let (_, behind) =
            self.translator.hooking.replacing.expect("it stands in an instruction's place");
        let results: Vec<Value> =
            results.iter().map(|value| self.translator.plain(*value)).collect();
        self.builder().ins().jump(behind, &arguments(&results));
    }

    /// Calls a function of the program, as an instruction of the program does.
    pub fn call_function(
        &mut self,
        function: u32,
        args: &[Value],
    ) -> Result<Vec<Value>, CompileError> {
        let height = self.translator.stack.len();
        self.translator.stack.extend(args);
        self.translator.operator(&Operator::Call { function_index: function })?;
        let results = self.translator.stack.split_off(height);
        Ok(results.into_iter().map(|value| self.translator.plain(value)).collect())
    }

    // --- words of the instance, and of the activation

    /// A variable of 64 bits of the activation, for hooks alone, by any number; it is zero at
    /// first.
    pub fn variable(&mut self, number: u64) -> Variable {
        self.translator.hook_variable(self.hook.base, number)
    }

    /// Where a word is in the vmctx.
    pub fn word(&self, word: Word) -> i32 {
        self.translator.hook_word(word.plus(self.hook.base))
    }

    /// How words are accessed: they do not alias data of the program.
    pub fn flags(&self) -> MemFlagsData {
        MemFlagsData::trusted().with_alias_region(Some(self.translator.regions.counters))
    }

    /// Reads a word.
    pub fn load_word(&mut self, word: Word) -> Value {
        let (flags, at, vmctx) = (self.flags(), self.word(word), self.vmctx());
        self.builder().ins().load(types::I64, flags, vmctx, at)
    }

    /// Reads a word that never changes while machine code of the instance runs.
    pub(crate) fn load_fixed_word(&mut self, word: Word) -> Value {
        let (flags, at, vmctx) =
            (self.flags().with_readonly().with_can_move(), self.word(word), self.vmctx());
        self.builder().ins().load(types::I64, flags, vmctx, at)
    }

    /// Writes a word.
    pub fn store_word(&mut self, word: Word, value: Value) {
        let (flags, at, vmctx) = (self.flags(), self.word(word), self.vmctx());
        self.builder().ins().store(flags, value, vmctx, at);
    }

    /// Adds one to a word.
    pub fn count(&mut self, word: Word) {
        let at = self.word(word);
        self.translator.add_to_counter(at);
    }

    /// Adds one to the word at an address.
    pub fn count_at(&mut self, base: Value, offset: i32) {
        let flags = self.flags();
        let count = self.builder().ins().load(types::I64, flags, base, offset);
        let count = self.builder().ins().iadd_imm_s(count, 1);
        self.builder().ins().store(flags, count, base, offset);
    }

    // --- leaving

    /// Stops the program if the value is not zero.
    pub fn trap_if(&mut self, condition: Value, trap: Trap) {
        self.translator.trap_if(condition, trap);
    }

    /// Calls a function of the runtime, with the instance if it takes one.
    pub fn builtin(&mut self, builtin: Builtin, args: &[Value]) -> Option<Value> {
        match builtin.takes_vmctx() {
            true => self.translator.builtin(builtin, args),
            false => self.translator.plain_builtin(builtin, args),
        }
    }

    /// Calls a receiver with the captured values.
    pub fn receive(&mut self, call: &'a Call) {
        let captured: Vec<Option<Value>> =
            call.captures.iter().map(|capture| self.captured(*capture)).collect();
        let slot = self.slot(captured.len());
        for (i, value) in captured.iter().enumerate() {
            let value = match value {
                Some(value) => self.widened(*value),
                None => self.zero(),
            };
            self.builder().ins().stack_store(types::I64, value, slot, 16 * i as i32);
        }
        self.call_receiver(call, slot);
        if call.writes {
            for (i, capture) in
                call.captures.iter().enumerate().filter(|(i, _)| captured[*i].is_some())
            {
                self.write_back(*capture, slot, 16 * i as i32);
            }
        }
    }

    /// The first word of the value that was captured at that place, as the receiver has just left
    /// it.
    pub fn received(&mut self, place: usize) -> Value {
        let slot = self.slot(place + 1);
        self.builder().ins().stack_load(types::I64, types::I64, slot, 16 * place as i32)
    }

    /// Passes a single word to a receiver, and returns the word as the receiver has left it.
    pub fn exchange(&mut self, call: &'a Call, word: Value) -> Value {
        debug_assert!(call.captures.is_empty(), "nothing of the program's");
        let slot = self.slot(1);
        self.builder().ins().stack_store(types::I64, word, slot, 0);
        self.call_receiver(call, slot);
        self.builder().ins().stack_load(types::I64, types::I64, slot, 0)
    }

    /// Passes values of the hook's code to a receiver, as many as the call captures.
    pub fn hand_over(&mut self, call: &'a Call, values: &[Value]) {
        debug_assert_eq!(call.captures.len(), values.len(), "as many as the receiver expects");
        let slot = self.slot(values.len());
        for (i, value) in values.iter().enumerate() {
            let value = self.widened(*value);
            self.builder().ins().stack_store(types::I64, value, slot, 16 * i as i32);
        }
        self.call_receiver(call, slot);
    }

    fn call_receiver(&mut self, call: &'a Call, slot: StackSlot) {
        // The plan is kept together with its code.
        let call_at = self.builder().ins().iconst(types::I64, std::ptr::from_ref(call) as i64);
        let frame = self.builder().ins().get_frame_pointer(types::I64);
        let values = self.builder().ins().stack_addr(types::I64, slot, 0);
        let is_to_stop = self.builtin(Builtin::Hook, &[call_at, frame, values]).expect("a result");
        self.trap_if(is_to_stop, Trap::Interrupted);
    }

    pub(super) fn zero(&mut self) -> Value {
        self.builder().ins().iconst(types::I64, 0)
    }

    pub(super) fn captured(&mut self, capture: Capture) -> Option<Value> {
        match capture {
            Capture::Operand(place) => self.operand(place).map(|(value, _)| value),
            Capture::Taken(place) => self.taken(place).map(|(value, _)| value),
            Capture::Local(index) => self.local(index).map(|(value, _)| value),
            Capture::Address => self.address(),
        }
    }

    /// A value as a whole word, or a vector.
    pub(super) fn widened(&mut self, value: Value) -> Value {
        let ty = self.builder().func.dfg.value_type(value);
        let bits = match ty {
            types::F32 => self.builder().ins().bitcast(types::I32, MemFlagsData::new(), value),
            types::F64 => self.builder().ins().bitcast(types::I64, MemFlagsData::new(), value),
            _ => value,
        };
        match self.builder().func.dfg.value_type(bits) {
            types::I32 => self.builder().ins().uextend(types::I64, bits),
            _ => bits,
        }
    }

    fn write_back(&mut self, capture: Capture, slot: StackSlot, at: i32) {
        let ty = match capture {
            Capture::Operand(place) => self.operand(place).map(|(_, ty)| ty),
            Capture::Local(index) => self.local(index).map(|(_, ty)| ty),
            Capture::Taken(_) | Capture::Address => None,
        };
        let Some(ty) = ty else { return };
        let value = self.builder().ins().stack_load(types::I64, machine_type(ty), slot, at);
        match capture {
            Capture::Operand(place) => {
                self.set_operand(place, value);
            }
            Capture::Local(index) => self.set_local(index, value),
            Capture::Taken(_) | Capture::Address => {}
        }
    }

    /// The place of the function's frame where values are captured, large enough.
    fn slot(&mut self, values: usize) -> StackSlot {
        let size = 16 * values.max(1) as u32;
        let slot = match self.translator.hooking.slot {
            Some(slot) => slot,
            None => {
                let data = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 4);
                *self
                    .translator
                    .hooking
                    .slot
                    .insert(self.translator.builder.create_sized_stack_slot(data))
            }
        };
        let data = &mut self.translator.builder.func.sized_stack_slots[slot];
        data.size = data.size.max(size);
        slot
    }
}
