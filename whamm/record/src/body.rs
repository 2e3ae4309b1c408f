//! Rewrites a body: adds code around reads and writes, and replaces calls of the host with recorded
//! ones.

mod objects;
mod references;
mod traps;

use crate::Error;
use crate::access::Access;
use crate::app::App;
use crate::gateway::Gateways;
use crate::runs;
use crate::runtime::Runtime;
use crate::trap::Reason;
use crate::values::Values;
use std::collections::BTreeMap;
use wasm_encoder::{BlockType, Encode, InstructionSink, ValType};
use wasmparser::Operator;
use whamm_rewrite::{Body, BodyPlan, Instruction, Program};

/// Plans a body.
pub(crate) fn plan(
    body: &Body<'_>,
    program: &Program<'_>,
    app: &App,
    runtime: &Runtime,
    gateways: &Gateways,
    is_raw: bool,
) -> Result<BodyPlan, Error> {
    let mut own = BodyPlan::empty(body)?;
    for ((_, local), (_, ty)) in own.locals.iter_mut().zip(body.locals()?) {
        *local = app.val_type(ty)?;
    }
    let ty = app.declared.function(body.function).expect("a valid module");
    let locals: u32 = own.locals.iter().map(|(count, _)| count).sum();
    let next = ty.params().len() as u32 + locals;
    let all = body.instructions()?;
    let sees = Sees { values: Values::of(&all), reaches: runs::reaches(&all, program) };
    let known = Vec::new();
    let mut writer = Writer { own, next, known, sees, app, runtime, gateways, is_raw };
    let last = all.len() - 1;
    if is_raw {
        writer.entered(body.function);
    }
    for (at, instruction) in all.into_iter().enumerate() {
        let place = instruction.place.clone();
        let bytes = &program.bytes[place.start as usize..place.end as usize];
        if is_raw && at == last {
            writer.own.put().end();
            writer.left();
        }
        if gateways.sees_traps {
            writer.before_a_trap(at, &instruction.operator, bytes);
            writer.sees.values.pass(&instruction.operator, bytes);
        }
        writer.instruction(instruction, bytes);
    }
    Ok(writer.own)
}

/// Facts about a body, which save checks of instructions that may trap.
struct Sees {
    /// The values on the stack and in locals at the current instruction.
    values: Values,
    /// How many bytes an access reaches, together with those that follow: see `runs.rs`.
    reaches: BTreeMap<usize, u64>,
}

/// The state of a body's rewriting.
struct Writer<'a> {
    own: BodyPlan,
    /// The next local, and those that were added.
    next: u32,
    known: Vec<(ValType, u32, u32)>,
    sees: Sees,
    app: &'a App,
    runtime: &'a Runtime,
    gateways: &'a Gateways,
    is_raw: bool,
}

impl Writer<'_> {
    /// An added local: the first, second … of its type.
    fn local(&mut self, ty: ValType, number: u32) -> u32 {
        let found = self.known.iter().find(|known| (known.0, known.1) == (ty, number));
        if let Some((.., local)) = found {
            return *local;
        }
        self.own.locals.push((1, ty));
        self.known.push((ty, number, self.next));
        self.next += 1;
        self.next - 1
    }

    fn put(&mut self) -> InstructionSink<'_> {
        self.own.put()
    }

    /// In a raw recording, records the beginning of a function, and begins a block around its body.
    fn entered(&mut self, function: u32) {
        let ty = self.app.declared.function(function).expect("a valid module").results();
        let ty = self.runtime.block_of(self.app, ty);
        let begin = self.runtime.functions["begin"];
        let number = self.runtime.functions["number"];
        self.put().i32_const(0x50).call(begin).i64_const(function.into()).call(number).block(ty);
    }

    fn left(&mut self) {
        let begin = self.runtime.functions["begin"];
        self.put().i32_const(0x51).call(begin);
    }

    fn left_by_tail_call(&mut self) {
        if self.is_raw {
            self.left();
        }
    }

    fn instruction(&mut self, instruction: Instruction<'_>, bytes: &[u8]) {
        let place = instruction.place;
        let dispatch = |ty, table| self.gateways.dispatch.get(&(ty, table)).copied();
        match &instruction.operator {
            Operator::Return if self.is_raw => {
                self.left();
                self.own.keep(place);
            }
            Operator::Unreachable => {
                let traps = self.gateways.traps[&Reason::Unreachable];
                self.put().call(traps);
                self.own.keep(place);
            }
            Operator::Call { function_index } if *function_index < self.app.imported() => {
                let stand_in = self.gateways.imports[*function_index as usize];
                self.put().call(stand_in);
                self.own.leave_out(place);
            }
            Operator::ReturnCall { function_index } if *function_index < self.app.imported() => {
                let stand_in = self.gateways.imports[*function_index as usize];
                self.left_by_tail_call();
                self.put().return_call(stand_in);
                self.own.leave_out(place);
            }
            Operator::ReturnCall { .. } => {
                self.left_by_tail_call();
                self.own.keep(place);
            }
            Operator::CallIndirect { type_index, table_index }
                if let Some(dispatch) = dispatch(*type_index, *table_index) =>
            {
                self.put().call(dispatch);
                self.own.leave_out(place);
            }
            Operator::ReturnCallIndirect { type_index, table_index }
                if let Some(dispatch) = dispatch(*type_index, *table_index) =>
            {
                self.left_by_tail_call();
                self.put().return_call(dispatch);
                self.own.leave_out(place);
            }
            Operator::CallIndirect { table_index, .. } => {
                let is_public = self.by_table(*table_index);
                self.own.keep(place);
                if is_public {
                    let (via, foreign) = (self.runtime.via, self.gateways.foreign);
                    self.put().global_get(via).if_(BlockType::Empty).call(foreign).end();
                }
            }
            Operator::ReturnCallIndirect { table_index, .. } => {
                self.left_by_tail_call();
                self.by_table(*table_index);
                self.own.keep(place);
            }
            Operator::CallRef { .. } | Operator::ReturnCallRef { .. }
                if self.gateways.calls.is_empty() =>
            {
                if matches!(instruction.operator, Operator::ReturnCallRef { .. }) {
                    self.left_by_tail_call();
                }
                let via = self.runtime.via;
                self.put().i32_const(-1).global_set(via);
                self.own.keep(place);
            }
            Operator::GlobalGet { global_index } => {
                self.own.keep(place);
                self.global_read(*global_index);
            }
            Operator::GlobalSet { global_index } => self.global_written(*global_index, place),
            Operator::MemoryGrow { mem } => self.grown(*mem, place),
            Operator::MemoryFill { mem } if self.app.memories.contains(mem) => {
                let len = self.address(*mem);
                self.ranged(*mem, len, place);
            }
            Operator::MemoryInit { mem, .. } if self.app.memories.contains(mem) => {
                // Its length is that of a range of the segment, and has 32 bits.
                self.ranged(*mem, ValType::I32, place);
            }
            Operator::MemoryCopy { dst_mem, src_mem }
                if self.app.memories.contains(dst_mem) || self.app.memories.contains(src_mem) =>
            {
                self.copied(*dst_mem, *src_mem, place);
            }
            operator if self.objects(operator, &place) || self.reference(operator, &place) => {}
            _ => match Access::read(bytes) {
                Some(access) if self.app.memories.contains(&access.memory) => {
                    self.access(&access, place);
                }
                _ => self.own.keep(place),
            },
        }
    }

    /// Before a call through a table, whose index is on the stack: records in `via` that the callee
    /// is not named, with table and index if the host may have changed the table. Returns whether
    /// it may.
    fn by_table(&mut self, table: u32) -> bool {
        let (via, via_index) = (self.runtime.via, self.runtime.via_index);
        if !self.app.tables.contains(&table) {
            self.put().i32_const(-1).global_set(via);
            return false;
        }
        if let Some(ty) = self.gateways.pending_ty {
            self.put().i32_const(0).global_set(ty);
        }
        let is_wide = self.app.is_wide_table(table);
        let index = self.local(if is_wide { ValType::I64 } else { ValType::I32 }, 0);
        let sink = &mut self.put();
        sink.local_tee(index);
        // No engine has tables of 2^32 elements.
        if is_wide {
            sink.i32_wrap_i64();
        }
        sink.global_set(via_index).i32_const(table.cast_signed() + 1).global_set(via);
        sink.local_get(index);
        true
    }

    /// Checks a global's value, which is on the stack.
    fn global_read(&mut self, global: u32) {
        let Some(found) = self.gateways.global_found.get(&global).copied() else { return };
        let ty = self.app.declared.globals[global as usize].content_type;
        let ty = self.app.val_type(ty).expect("a number's type");
        if self.is_raw {
            self.put().call(found);
            return;
        }
        let shadow = self.runtime.global_shadows[&global];
        let value = self.local(ty, 0);
        let identify = self.identify(global);
        let sink = &mut self.put();
        match ty {
            ValType::I32 => sink.local_tee(value).local_get(value).global_get(shadow).i32_ne(),
            ValType::I64 => sink.local_tee(value).local_get(value).global_get(shadow).i64_ne(),
            ValType::F32 => sink
                .local_tee(value)
                .local_get(value)
                .i32_reinterpret_f32()
                .global_get(shadow)
                .i32_reinterpret_f32()
                .i32_ne(),
            ValType::F64 => sink
                .local_tee(value)
                .local_get(value)
                .i64_reinterpret_f64()
                .global_get(shadow)
                .i64_reinterpret_f64()
                .i64_ne(),
            ValType::V128 => {
                sink.local_tee(value).local_get(value).global_get(shadow).v128_xor().v128_any_true()
            }
            ValType::Ref(_) if let Some(identify) = identify => {
                sink.local_tee(value).local_get(value).call(identify).global_get(shadow).i32_ne()
            }
            ValType::Ref(_) => sink
                .local_tee(value)
                .local_get(value)
                .ref_is_null()
                .global_get(shadow)
                .ref_is_null()
                .i32_ne(),
        };
        sink.if_(BlockType::Empty).local_get(value).call(found).drop().end();
    }

    fn global_written(&mut self, global: u32, place: std::ops::Range<u64>) {
        if let Some(written) = self.gateways.global_written.get(&global).copied() {
            self.put().call(written);
        } else if let Some(shadow) = self.runtime.global_shadows.get(&global).copied() {
            let ty = self.app.declared.globals[global as usize].content_type;
            let ty = self.app.val_type(ty).expect("a number's type");
            let value = self.local(ty, 0);
            let identify = self.identify(global);
            let sink = &mut self.put();
            sink.local_tee(value);
            if let Some(identify) = identify {
                sink.call(identify);
            }
            sink.global_set(shadow).local_get(value);
        }
        self.own.keep(place);
    }

    /// The function that converts a global's value to that of its shadow, if it is a function's.
    fn identify(&self, global: u32) -> Option<u32> {
        let ty = self.app.declared.globals[global as usize].content_type;
        self.gateways.identify.filter(|_| self.app.declared.is_of_functions(ty))
    }

    fn address(&self, memory: u32) -> ValType {
        if self.app.is_wide(memory) { ValType::I64 } else { ValType::I32 }
    }

    /// An address with an offset, as a number of 64 bits.
    fn wide(&mut self, memory: u32, local: u32, offset: u64) {
        let is_wide = self.app.is_wide(memory);
        let sink = &mut self.put();
        sink.local_get(local);
        if !is_wide {
            sink.i64_extend_i32_u();
        }
        if offset > 0 {
            sink.i64_const(offset.cast_signed()).i64_add();
        }
    }

    /// Records that bytes are read or have been written.
    fn tell(&mut self, memory: u32, (address, offset): (u32, u64), width: u32, is_write: bool) {
        self.wide(memory, address, offset);
        let own = &self.runtime.memories[&memory];
        let function = if is_write { own.wrote } else { own.read };
        self.put().i64_const(width.into()).call(function);
    }

    fn access(&mut self, access: &Access, place: std::ops::Range<u64>) {
        match access.plain {
            Some(opcode) if !self.is_raw && access.reads => self.load(access, opcode, place),
            Some(opcode) if !self.is_raw => self.store(access, opcode, place),
            _ => {
                let address = self.spill(access);
                // An access that reads and writes has to be recorded before; a load may trap first.
                let (memory, at) = (access.memory, (address, access.offset));
                if access.reads && access.writes {
                    self.tell(memory, at, access.width, false);
                    self.unspill(access, address);
                    self.own.keep(place);
                } else {
                    self.unspill(access, address);
                    self.own.keep(place);
                    if access.reads {
                        self.tell(memory, at, access.width, false);
                    }
                }
                if access.writes {
                    self.tell(memory, at, access.width, true);
                }
            }
        }
    }

    /// Pops the address and the operands; returns the local that holds the address.
    fn spill(&mut self, access: &Access) -> u32 {
        let locals: Vec<u32> =
            (0..).zip(&access.operands).map(|(number, ty)| self.local(*ty, number + 1)).collect();
        let address = self.local(self.address(access.memory), 0);
        locals.iter().rev().for_each(|local| {
            self.put().local_set(*local);
        });
        self.put().local_set(address);
        address
    }

    fn unspill(&mut self, access: &Access, address: u32) {
        self.put().local_get(address);
        for (number, ty) in (0..).zip(&access.operands) {
            let local = self.local(*ty, number + 1);
            self.put().local_get(local);
        }
    }

    /// A plain load: its result is compared with the shadow.
    fn load(&mut self, access: &Access, opcode: u8, place: std::ops::Range<u64>) {
        // Bits are compared: those of a NaN are not equal to themselves as numbers.
        let (opcode, ty) = match opcode {
            0x2a => (0x28, ValType::I32),
            0x2b => (0x29, ValType::I64),
            0x28 | 0x2c..=0x2f => (opcode, ValType::I32),
            _ => (opcode, ValType::I64),
        };
        let is_float = access.plain != Some(opcode);
        let address = self.local(self.address(access.memory), 0);
        let value = self.local(ty, 1);
        let memory = self.runtime.memories[&access.memory].place;
        let shadow = self.runtime.memories[&access.memory].shadow;
        self.put().local_tee(address);
        let code = &mut self.own.code;
        code.push(opcode);
        access.arg(memory).encode(code);
        InstructionSink::new(code).local_tee(value).local_get(address);
        code.push(opcode);
        access.arg(shadow).encode(code);
        let sink = &mut InstructionSink::new(code);
        match ty {
            ValType::I32 => sink.i32_ne(),
            _ => sink.i64_ne(),
        };
        sink.if_(BlockType::Empty);
        self.tell(access.memory, (address, access.offset), access.width, false);
        let sink = &mut self.put();
        sink.end().local_get(value);
        match (is_float, ty) {
            (true, ValType::I32) => sink.f32_reinterpret_i32(),
            (true, _) => sink.f64_reinterpret_i64(),
            _ => sink,
        };
        self.own.leave_out(place);
    }

    /// A plain store: it is repeated in the shadow.
    fn store(&mut self, access: &Access, opcode: u8, place: std::ops::Range<u64>) {
        let address = self.spill(access);
        let shadow = self.runtime.memories[&access.memory].shadow;
        self.unspill(access, address);
        self.own.keep(place);
        self.unspill(access, address);
        let code = &mut self.own.code;
        code.push(opcode);
        access.arg(shadow).encode(code);
    }

    fn grown(&mut self, memory: u32, place: std::ops::Range<u64>) {
        let grown = self.gateways.own_growth[&memory];
        let pages = self.local(self.address(memory), 0);
        self.put().local_tee(pages);
        self.own.keep(place);
        let result = self.local(self.address(memory), 1);
        self.put().local_set(result).local_get(pages).local_get(result).call(grown);
    }

    /// An instruction with three operands, of which the first is an address and the last a length:
    /// afterwards, records that the range was written.
    fn ranged(&mut self, memory: u32, len_ty: ValType, place: std::ops::Range<u64>) {
        let (to, value) = (self.local(self.address(memory), 0), self.local(ValType::I32, 1));
        let len = self.local(len_ty, 2);
        self.put().local_set(len).local_set(value).local_tee(to).local_get(value).local_get(len);
        self.own.keep(place);
        self.wide(memory, to, 0);
        self.length(len, len_ty);
        let wrote = self.runtime.memories[&memory].wrote;
        self.put().call(wrote);
    }

    fn length(&mut self, local: u32, ty: ValType) {
        let sink = &mut self.put();
        sink.local_get(local);
        if ty == ValType::I32 {
            sink.i64_extend_i32_u();
        }
    }

    /// The length of a copy has the shorter type of both addresses.
    fn length_of_copy(&self, to: u32, from: u32) -> ValType {
        let (to, from) = (self.address(to), self.address(from));
        if to == from { to } else { ValType::I32 }
    }

    fn copied(&mut self, to: u32, from: u32, place: std::ops::Range<u64>) {
        let (to_ty, from_ty) = (self.address(to), self.address(from));
        let len_ty = self.length_of_copy(to, from);
        let (target, source) = (self.local(to_ty, 0), self.local(from_ty, 1));
        let len = self.local(len_ty, 2);
        self.put().local_set(len).local_set(source).local_set(target);
        if self.app.memories.contains(&from) {
            self.wide(from, source, 0);
            self.length(len, len_ty);
            let read = self.runtime.memories[&from].read;
            self.put().call(read);
        }
        self.put().local_get(target).local_get(source).local_get(len);
        self.own.keep(place);
        if self.app.memories.contains(&to) {
            self.wide(to, target, 0);
            self.length(len, len_ty);
            let wrote = self.runtime.memories[&to].wrote;
            self.put().call(wrote);
        }
    }
}
