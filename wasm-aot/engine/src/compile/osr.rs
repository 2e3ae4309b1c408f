//! On-stack replacement: emits OSR exits and OSR entries, by which a thread leaves one variant of a
//! function for another in the middle of an activation.
//!
//! Each loop header has an OSR exit. While it is off, the code passes it. On, it jumps to a cold
//! block of the same function, which stores the live state in the instance's OSR buffer and
//! tail-calls the OSR entry that a table has for this loop:
//!
//! ```text
//!    header:  A9 ........   off: nothing            cold:   buffer ← locals, operands
//!             E9 ........   on: jmp cold                    return_call table[loop](vmctx, buffer)
//!    body                                                             │
//!                                       another variant's entry of the loop: locals, operands ← buffer; header, body, and what follows
//! ```
//!
//! An *entry* of a loop is the function compiled once more from the loop's header on, as a function
//! of its own. It does not contain the loops around it and after it: when it reaches one of them,
//! it exits again, into that loop's entry. So every loop keeps a single entry edge, and is compiled
//! as well as in the function itself; and the code of all entries grows with the depth of loops,
//! not with their number.
//!
//! Cold blocks share code. One block stores a value for all loops that have it as live state; as
//! each local of the function has its own place in the buffer, nested loops share most of their
//! stores.
//!
//! ```text
//!    loop a:  own values ─┐
//!    loop b:  own values ─┴─ values of both ─┐
//!    loop c:  own values ────────────────────┴─ values of all; return_call
//! ```
//!
//! The frame is released before the other one begins, so a thread may change variants for ever
//! without its stack growing.

use super::control::{FrameKind, arguments};
use super::function::Translator;
use crate::error::CompileError;
use crate::module::{Body, ModuleInfo};
use crate::vm::at;
use cranelift_codegen::ir::{
    AbiParam, ArgumentPurpose, Block, Function, InstBuilder, InstructionData, MemFlagsData,
    Signature, SourceLoc, Type, Value, condcodes::IntCC, types,
};
use cranelift_codegen::isa::CallConv;
use rayon::prelude::*;
use std::cmp::Reverse;
use std::collections::HashMap;
use wasm_aot_body::{Graph, Loop, Loops, Way};
use wasmparser::{FuncValidator, Operator, OperatorsReader, ValidatorResources};

/// Marks source locations of OSR exits, which are not instructions of Wasm. Modules of this size
/// have no OSR exits.
pub(super) const MARK: u32 = 0x4000_0000;
/// The largest module that has OSR exits.
const LARGEST: usize = MARK as usize - 1;

/// The index of the loop to whose OSR exit a marked instruction belongs.
pub(super) fn marked(location: u32) -> Option<u32> {
    (location >> 30 == 1).then_some(location & !MARK)
}

/// The first number that OSR exits compare with, and how many follow it: numbers of one byte that
/// programs seldom compare with.
const UNCOMMON: i64 = -128;
const NUMBERS: i64 = 96;

/// The most operands and exceptions that are live state: where there are more, a thread stays in
/// its variant.
const OPERANDS: usize = 8192;

/// The loops of a module that may have OSR exits: those of each function, and the number of its
/// first one.
#[derive(Debug, Default)]
pub struct OsrLoops {
    functions: Vec<Loops>,
    first: Vec<u32>,
}

impl OsrLoops {
    /// Finds all of them.
    pub(super) fn of(info: &ModuleInfo, bodies: &[Body<'_>], bytes: usize) -> Self {
        if bytes > LARGEST {
            return Self::default();
        }
        let each = |body: &Body<'_>| loops(info, body).unwrap_or_default();
        let functions: Vec<Loops> = bodies.par_iter().map(each).collect();
        let first = functions
            .iter()
            .scan(0, |next, loops| Some(std::mem::replace(next, *next + loops.count() as u32)));
        Self { first: first.collect(), functions }
    }

    /// The loops of a defined function, and the number of the first.
    pub(super) fn of_function(&self, defined: usize) -> (&Loops, u32) {
        static NONE: Loops = Loops::none();
        self.functions.get(defined).map_or((&NONE, 0), |loops| (loops, self.first[defined]))
    }

    /// How many loops a defined function has.
    pub(crate) fn loops_of(&self, defined: usize) -> u32 {
        self.of_function(defined).0.count() as u32
    }

    /// How many loops there are.
    pub(crate) fn len(&self) -> u32 {
        self.functions
            .last()
            .map_or(0, |loops| self.first[self.functions.len() - 1] + loops.count() as u32)
    }
}

fn loops(info: &ModuleInfo, body: &Body<'_>) -> Option<Loops> {
    let graph = Graph::of(&body.body)?;
    let declared = body
        .body
        .get_locals_reader()
        .ok()?
        .into_iter()
        .map(|locals| locals.map_or(0, |(count, _)| count as usize));
    let locals = info.function_type(body.index).params().len() + declared.sum::<usize>();
    Some(Loops::of(&body.body, &graph, locals))
}

/// The signature of a loop's OSR entry: the instance, and the address of the values.
pub(super) fn entry_signature(function: &Signature) -> Signature {
    let mut signature = Signature::new(CallConv::Tail);
    signature.params.push(AbiParam::special(types::I64, ArgumentPurpose::VMContext));
    signature.params.push(AbiParam::new(types::I64));
    signature.returns.clone_from(&function.returns);
    signature
}

/// The place of the next value in the buffer. The word of the vmctx points into the buffer's
/// middle, so that most displacements have one byte.
#[derive(Clone, Copy, Debug)]
struct BufferPlace(i32);

/// How far into the buffer the word of the vmctx points.
pub(crate) const MIDDLE: usize = 128;
/// The size of a buffer: for the most locals that a function, and the most operands that a loop,
/// may have as live state.
pub(crate) const BUFFER: usize = 16 * (wasm_aot_body::OSR_LOCALS + OPERANDS);

impl BufferPlace {
    fn first() -> Self {
        Self(-(MIDDLE as i32))
    }

    fn next(&mut self, ty: Type) -> i32 {
        let size = ty.bytes() as i32;
        // The size is a power of two.
        let here = (self.0 + size - 1) & -size;
        self.0 = here + size;
        here
    }
}

/// Where the locals of a function are in the buffer, the same for all of its loops, and where
/// operands begin.
#[derive(Debug)]
pub(super) struct OsrBufferLayout {
    locals: HashMap<u32, i32>,
    operands: BufferPlace,
}

/// A store to the OSR buffer: value and place, ordered by how many OSR exits of the function share
/// it.
type OsrStore = (Reverse<u32>, i32, Value);

/// An OSR exit whose code is still to be emitted: the block that it begins with, its loop, and the
/// values that it stores to the buffer.
#[derive(Debug)]
pub(super) struct PendingOsrExit {
    block: Block,
    index: usize,
    stores: Vec<OsrStore>,
}

impl Translator<'_> {
    /// Flags of the words of a buffer, which no other code writes meanwhile.
    fn buffered(&self) -> MemFlagsData {
        MemFlagsData::trusted().with_alias_region(Some(self.regions.buffer))
    }

    /// An OSR exit at the header of the loop that has just begun.
    pub(super) fn osr_point(&mut self) {
        let Some(index) = self.osr_loop_here().filter(|_| self.has_osr_exits) else { return };
        let (integer_in_register, stores) = (self.integer_in_register(index), self.stores(index));
        let (cold, on) = (self.builder.create_block(), self.builder.create_block());
        self.builder.set_cold_block(cold);
        self.cold.push(cold);
        self.builder.set_srcloc(SourceLoc::new(MARK | index as u32));
        // These instructions reserve the bytes of the exit. Nested loops have different numbers, so
        // that their comparisons are not merged.
        let condition = self.builder.ins().icmp_imm_s(
            IntCC::Equal,
            integer_in_register,
            UNCOMMON + index as i64 % NUMBERS,
        );
        self.builder.ins().brif(condition, cold, &[], on, &[]);
        self.builder.set_srcloc(SourceLoc::new(self.offset as u32));
        self.builder.seal_block(cold);
        self.pending.push(PendingOsrExit { block: cold, index, stores });
        self.builder.seal_block(on);
        self.builder.switch_to_block(on);
    }

    /// The loop that begins here, if it has an OSR exit.
    fn osr_loop_here(&self) -> Option<usize> {
        if self.is_nested() {
            return None;
        }
        self.loops.find(self.offset).filter(|_| self.stack.len() + self.caught().len() <= OPERANDS)
    }

    /// An integer that is in a register at the loop's header anyway.
    fn integer_in_register(&mut self, index: usize) -> Value {
        let changed = self.loops.get(index).written.iter().map(|local| self.variable(*local).0);
        let candidates: Vec<_> = changed.collect();
        for variable in candidates {
            let value = self.builder.use_var(variable);
            if self.builder.func.dfg.value_type(value).is_int() {
                return value;
            }
        }
        self.vmctx
    }

    /// Leaves this function through the OSR exit of a loop.
    fn jump_to_osr_exit(&mut self, index: usize) {
        let stores = self.stores(index);
        let block = self.builder.create_block();
        self.builder.set_cold_block(block);
        self.builder.ins().jump(block, &[]);
        self.builder.seal_block(block);
        self.pending.push(PendingOsrExit { block, index, stores });
    }

    /// The live values at a loop's header, and their places in the buffer.
    fn stores(&mut self, index: usize) -> Vec<OsrStore> {
        let live = self.loops.get(index).live.clone();
        let values: Vec<Value> = live.iter().map(|local| self.local(*local)).collect();
        let mut place = self.osr_buffer_layout().operands;
        let mut stores: Vec<OsrStore> = live
            .iter()
            .zip(values)
            .map(|(local, value)| (Reverse(0), self.osr_buffer_layout().locals[local], value))
            .collect();
        for value in self.stack.iter().copied().chain(self.caught()) {
            let to = place.next(self.builder.func.dfg.value_type(value));
            stores.push((Reverse(0), to, value));
        }
        stores
    }

    /// The places of locals in the buffer: those that are live at the most loops come first.
    fn osr_buffer_layout(&mut self) -> &OsrBufferLayout {
        if self.osr_buffer_layout.is_none() {
            let (mut place, mut locals) = (BufferPlace::first(), HashMap::new());
            for local in self.loops.osr_locals() {
                locals.insert(*local, place.next(self.variable(*local).1));
            }
            self.osr_buffer_layout = Some(OsrBufferLayout { locals, operands: place });
        }
        self.osr_buffer_layout.as_ref().expect("known by now")
    }

    /// Emits the cold blocks of all OSR exits. Exits that store equal values at equal places share
    /// the block that stores them: as loops are nested, most of their stores are common. All share
    /// the block that releases the frame.
    pub(super) fn finish_osr_exits(&mut self) {
        let mut all = std::mem::take(&mut self.pending);
        if all.is_empty() {
            return;
        }
        let mut users = HashMap::new();
        for (_, place, value) in all.iter_mut().flat_map(|pending| &mut pending.stores) {
            *value = self.builder.func.dfg.resolve_aliases(*value);
            *users.entry((*place, *value)).or_insert(0) += 1;
        }
        for pending in &mut all {
            pending
                .stores
                .iter_mut()
                .for_each(|(common, place, value)| *common = Reverse(users[&(*place, *value)]));
            pending.stores.sort_unstable();
        }
        all.sort_unstable_by(|one, other| one.stores.cmp(&other.stores));
        let leaving = self.shared_block();
        self.write_shared_blocks(&all, 0, leaving);
        let [buffer, number] = self.begin_shared_block(leaving);
        self.store_carried();
        let flags = self.changing();
        let entries = self.builder.ins().load(types::I64, flags, self.vmctx, at::ENTRIES);
        let distance = self.builder.ins().ishl_imm_u(number, 3);
        let place = self.builder.ins().iadd(entries, distance);
        let entry = self.builder.ins().load(types::I64, MemFlagsData::trusted(), place, 0);
        let signature = entry_signature(&self.builder.func.signature);
        let signature = self.builder.import_signature(signature);
        self.builder.ins().return_call_indirect(signature, entry, &[self.vmctx, buffer]);
    }

    /// Emits OSR exits whose first `done` stores are equal; the block `behind` does those.
    fn write_shared_blocks(&mut self, all: &[PendingOsrExit], done: usize, behind: Block) {
        let share_next_store = |one: &PendingOsrExit, next: &PendingOsrExit| {
            one.stores.get(done).is_some_and(|store| next.stores.get(done) == Some(store))
        };
        for some in all.chunk_by(share_next_store) {
            let (first, last) = (&some[0], &some[some.len() - 1]);
            if some.len() == 1 {
                self.write_osr_exit(first, done, behind);
                continue;
            }
            // They are sorted: all have the stores that the first and the last have in common.
            let common = first
                .stores
                .iter()
                .zip(&last.stores)
                .take_while(|(one, other)| one == other)
                .count();
            let block = self.shared_block();
            self.write_shared_blocks(some, common, block);
            let [buffer, number] = self.begin_shared_block(block);
            self.write_stores(&first.stores[done..common], buffer);
            self.builder.ins().jump(behind, &arguments(&[buffer, number]));
        }
    }

    /// Emits the stores that an OSR exit shares with no other.
    fn write_osr_exit(&mut self, pending: &PendingOsrExit, done: usize, behind: Block) {
        self.builder.switch_to_block(pending.block);
        let at = self.loops.get(pending.index).at;
        self.builder.set_srcloc(SourceLoc::new(at));
        self.count_osr(at as usize, false);
        let flags = self.changing();
        let buffer = self.builder.ins().load(types::I64, flags, self.vmctx, at::BUFFER);
        self.write_stores(&pending.stores[done..], buffer);
        let number = self.first_loop + pending.index as u32;
        let number = self.builder.ins().iconst(types::I64, i64::from(number));
        self.builder.ins().jump(behind, &arguments(&[buffer, number]));
    }

    /// A block that OSR exits share: its parameters are the buffer, and the number of the loop.
    fn shared_block(&mut self) -> Block {
        let block = self.builder.create_block();
        self.builder.append_block_param(block, types::I64);
        self.builder.append_block_param(block, types::I64);
        self.builder.set_cold_block(block);
        block
    }

    /// Begins to emit such a block; all jumps to it are there.
    fn begin_shared_block(&mut self, block: Block) -> [Value; 2] {
        self.builder.seal_block(block);
        self.builder.switch_to_block(block);
        let params = self.builder.block_params(block);
        [params[0], params[1]]
    }

    fn write_stores(&mut self, stores: &[OsrStore], buffer: Value) {
        let flags = self.buffered();
        for (_, to, value) in stores {
            let value = self.plain(*value);
            self.builder.ins().store(flags, value, buffer, *to);
        }
    }

    fn take(&mut self, ty: Type, buffer: Value, place: &mut BufferPlace) -> Value {
        let from = place.next(ty);
        let flags = self.buffered();
        self.builder.ins().load(ty, flags, buffer, from)
    }

    /// Exceptions that clauses around this place have taken, and may throw again.
    fn caught(&self) -> Vec<Value> {
        self.frames.iter().filter_map(|frame| frame.kind.caught()).collect()
    }

    /// Whether a loop that begins here is outside of the one that this code is the entry of: then
    /// this code exits at it.
    pub(super) fn leaves_through_osr_exit(&mut self) -> bool {
        let Some(osr_entry) = self.osr_entry else { return false };
        let Some(index) = self.osr_loop_here() else { return false };
        if index == osr_entry || self.loops.get(osr_entry).contains(self.offset as u32) {
            return false;
        }
        self.count(Way::Next);
        self.jump_to_osr_exit(index);
        self.push_dead();
        self.reachable = false;
        true
    }

    /// The header of a loop around the one that this code is the entry of: a branch there leaves
    /// through that loop's exit.
    pub(super) fn end_outer_loop(&mut self, start: Block, at: usize, below: Vec<Value>) {
        let Some(index) = self.loops.find(at) else { return };
        self.builder.seal_block(start);
        self.builder.switch_to_block(start);
        let operands = std::mem::replace(&mut self.stack, below);
        self.stack.extend_from_slice(self.builder.block_params(start));
        self.jump_to_osr_exit(index);
        self.stack = operands;
    }

    /// Skips the instructions before the loop that this code is the entry of, and begins with the
    /// loop. Returns whether the loop has an entry.
    pub(super) fn skip_to_osr_entry(
        &mut self,
        validator: &mut FuncValidator<ValidatorResources>,
        reader: &mut OperatorsReader<'_>,
        osr_entry: usize,
        buffer: Value,
    ) -> Result<bool, CompileError> {
        let own = self.loops.get(osr_entry);
        loop {
            let (operator, offset) = reader.read_with_offset()?;
            let at = offset as usize;
            self.arrive(at);
            if at == own.at as usize {
                let operands = operands(validator);
                validator.op(offset, &operator)?;
                if operands.len() + self.caught().len() > OPERANDS {
                    return Ok(false);
                }
                self.load_osr_entry(&operator, osr_entry, buffer, operands)?;
                self.fire_landing(&operator, validator);
                return Ok(true);
            }
            let height = validator.operand_stack_height();
            validator.op(offset, &operator)?;
            self.skip_before_osr_entry(&operator, own, height)?;
        }
    }

    /// Handles an instruction before the loop that this code is the entry of: it emits nothing, but
    /// records the frames around the loop.
    fn skip_before_osr_entry(
        &mut self,
        op: &Operator<'_>,
        osr_entry: &Loop,
        height: u32,
    ) -> Result<(), CompileError> {
        let encloses = osr_entry.around.binary_search(&(self.offset as u32)).is_ok();
        match op {
            Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::Try { .. }
            | Operator::TryTable { .. }
                if !encloses =>
            {
                self.skipped_frames += 1;
            }
            Operator::End | Operator::Delegate { .. } => self.skipped_frames -= 1,
            _ if self.skipped_frames > 0 => {}
            _ if encloses => return self.open_enclosing_frame(op, height),
            Operator::Else | Operator::Catch { .. } | Operator::CatchAll => {
                self.frames.last_mut().expect("a frame").kind.go_on(self.vmctx);
            }
            _ => {}
        }
        Ok(())
    }

    /// A frame around the loop that this code is the entry of.
    fn open_enclosing_frame(&mut self, op: &Operator<'_>, height: u32) -> Result<(), CompileError> {
        let condition = u32::from(matches!(op, Operator::If { .. }));
        // Placeholders: where the loop begins, all operands are known.
        self.stack = vec![self.vmctx; (height - condition) as usize];
        match op {
            Operator::Block { blockty } => self.begin_block(*blockty),
            Operator::Loop { blockty } => {
                let ty = self.block_type(*blockty)?;
                let start = self.block(ty.params());
                self.push_frame(
                    FrameKind::Outer { start, at: self.offset, below: Vec::new() },
                    &ty,
                );
                Ok(())
            }
            // The other side can no longer be reached.
            Operator::If { blockty } => {
                let ty = self.block_type(*blockty)?;
                self.push_frame(FrameKind::Else, &ty);
                Ok(())
            }
            Operator::Try { blockty } => self.begin_try(*blockty),
            Operator::TryTable { try_table } => self.begin_try_table(try_table),
            _ => unreachable!("only frames enclose"),
        }
    }

    /// Begins an OSR entry: all live state is loaded from the buffer.
    fn load_osr_entry(
        &mut self,
        op: &Operator<'_>,
        osr_entry: usize,
        buffer: Value,
        operands: Vec<Type>,
    ) -> Result<(), CompileError> {
        let Operator::Loop { blockty } = op else { unreachable!("a loop begins there") };
        for local in self.loops.get(osr_entry).live.clone() {
            let (variable, ty) = self.variable(local);
            let mut place = BufferPlace(self.osr_buffer_layout().locals[&local]);
            let value = self.take(ty, buffer, &mut place);
            self.builder.def_var(variable, value);
            self.keep_local(local, value);
        }
        let mut place = self.osr_buffer_layout().operands;
        self.stack = operands.into_iter().map(|ty| self.take(ty, buffer, &mut place)).collect();
        for frame in 0..self.frames.len() {
            if self.frames[frame].kind.caught().is_some() {
                let exception = self.take(types::I64, buffer, &mut place);
                self.frames[frame].kind.catch_again(exception);
            }
            let height = self.frames[frame].height;
            if let FrameKind::Outer { below, .. } = &mut self.frames[frame].kind {
                *below = self.stack[..height].to_vec();
            }
        }
        self.load_carried();
        self.reachable = true;
        let ty = self.block_type(*blockty)?;
        let start = self.block(ty.params());
        self.push_frame(FrameKind::Loop { start }, &ty);
        let params = self.pop_many(ty.params().len());
        self.count_osr(self.offset, true);
        self.builder.ins().jump(start, &arguments(&params));
        self.go_on_in(start);
        self.osr_point();
        self.count_turn();
        Ok(())
    }
}

/// Whether code jumps to one of the blocks unconditionally.
pub(super) fn jumps_to(func: &Function, blocks: &[Block]) -> bool {
    let jumps = |inst| match func.dfg.insts[inst] {
        InstructionData::Jump { destination, .. } => Some(destination.block(&func.dfg.value_lists)),
        _ => None,
    };
    let ends =
        || func.layout.blocks().filter_map(|block| func.layout.last_inst(block)).filter_map(jumps);
    !blocks.is_empty() && ends().any(|to| blocks.contains(&to))
}

/// How all operands on the stack are represented.
fn operands(validator: &FuncValidator<ValidatorResources>) -> Vec<Type> {
    let height = validator.operand_stack_height() as usize;
    let ty = |depth| match validator.get_operand_type(depth).flatten() {
        Some(wasmparser::ValType::I32) => types::I32,
        Some(wasmparser::ValType::F32) => types::F32,
        Some(wasmparser::ValType::F64) => types::F64,
        Some(wasmparser::ValType::V128) => types::I8X16,
        // No other type is possible: unreachable code has no OSR exit.
        Some(wasmparser::ValType::I64 | wasmparser::ValType::Ref(_)) | None => types::I64,
    };
    (0..height).rev().map(ty).collect()
}
