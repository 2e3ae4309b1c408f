//! Whether an instruction is about to trap, where the answer depends on more than its operands: on
//! tables, segments or references.
//!
//! Sizes and operands are compared as 64 bits, so that nothing wraps. Stack overflow and lack of
//! memory cannot be predicted.

use super::*;

/// A kind of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Segment {
    /// Bytes.
    Data(u32),
    /// References.
    Element(u32),
}

/// How many bytes an element of an array has in a data segment.
fn width(ty: &wasmparser::StorageType) -> i64 {
    match ty {
        wasmparser::StorageType::I8 => 1,
        wasmparser::StorageType::I16 => 2,
        wasmparser::StorageType::Val(W::I64 | W::F64) => 8,
        wasmparser::StorageType::Val(W::V128) => 16,
        wasmparser::StorageType::Val(_) => 4,
    }
}

/// How many operands have to be saved to decide whether an instruction traps.
pub(super) fn looked_at(op: &O<'_>) -> u8 {
    match op {
        O::CallIndirect { .. }
        | O::ReturnCallIndirect { .. }
        | O::CallRef { .. }
        | O::ReturnCallRef { .. } => 1,
        _ => 5,
    }
}

type Operand = (u32, ValType);

impl<'a> Walker<'_, 'a> {
    /// Pushes an operand as 64 bits.
    fn wide(&mut self, (local, ty): Operand) {
        self.put().local_get(local);
        if ty != ValType::I64 {
            self.put().i64_extend_i32_u();
        }
    }

    fn table_size(&mut self, table: u32) {
        self.put().table_size(table);
        if !self.r.app.tables.get(table as usize).is_some_and(|t| t.wide) {
            self.put().i64_extend_i32_u();
        }
    }

    fn memory_size(&mut self, memory: u32) {
        let Some(&found) = self.r.app.memories.get(memory as usize) else { return };
        let index = self.r.indices.memory(memory);
        self.put().memory_size(index);
        if !found.wide {
            self.put().i64_extend_i32_u();
        }
        self.put().i64_const(found.page.into()).i64_shl();
    }

    /// The global with the length of a segment that the program drops at some time, or the length
    /// itself.
    fn segment(&mut self, segment: Segment) -> Result<u32, i64> {
        if let Some(&global) = self.r.tables.segments.get(&segment) {
            return Ok(global);
        }
        let app = self.r.app;
        let len = match segment {
            Segment::Data(n) => app.data_segments.get(n as usize).copied().unwrap_or(0),
            Segment::Element(n) => app.element_segments.get(n as usize).map_or(0, |s| s.len),
        };
        let len = i64::try_from(len).unwrap_or(i64::MAX);
        if !self.r.tables.shadows.dropping || len == 0 {
            return Err(len);
        }
        let global = self.r.support.global(ValType::I64, len);
        self.r.tables.segments.insert(segment, global);
        Ok(global)
    }

    fn segment_size(&mut self, segment: Segment) {
        match self.segment(segment) {
            Ok(global) => self.put().global_get(global),
            Err(len) => self.put().i64_const(len),
        };
    }

    /// Sets the length of a dropped segment to zero.
    pub(super) fn dropped(&mut self, i: usize) {
        if !self.r.probes.ask_traps || !self.reachable() {
            return;
        }
        let segment = match self.ops[i].operator {
            O::DataDrop { data_index } => Segment::Data(data_index),
            O::ElemDrop { elem_index } => Segment::Element(elem_index),
            _ => return,
        };
        if let Ok(global) = self.segment(segment) {
            self.put().i64_const(0).global_set(global);
        }
    }

    /// Pushes whether a range, by its first element and its length, exceeds a size.
    fn beyond(
        &mut self,
        from: Operand,
        count: Operand,
        scale: i64,
        size: &mut dyn FnMut(&mut Self),
    ) {
        // Either the length exceeds the size, or the range begins too late.
        self.wide(count);
        self.put().i64_const(scale).i64_mul();
        size(self);
        self.put().i64_gt_u();
        self.wide(from);
        size(self);
        self.wide(count);
        self.put().i64_const(scale).i64_mul().i64_sub().i64_gt_u().i32_or();
    }

    /// Pushes whether a reference is null, or else whether a condition holds.
    fn null_or(&mut self, reference: Operand, otherwise: impl FnOnce(&mut Self)) {
        self.put()
            .local_get(reference.0)
            .ref_is_null()
            .if_(BlockType::Result(ValType::I32))
            .i32_const(1)
            .else_();
        otherwise(self);
        self.put().end();
    }

    fn array_length(&mut self, array: Operand) {
        self.put().local_get(array.0).array_len().i64_extend_i32_u();
    }

    /// Whether the instruction is about to trap.
    pub(super) fn trapping(&mut self, i: usize, args: &[Operand]) -> Option<Storage> {
        let operator = self.ops[i].operator.clone();
        let local = self.locals.take(ValType::I32);
        match operator {
            O::CallIndirect { type_index, table_index }
            | O::ReturnCallIndirect { type_index, table_index } => {
                self.indirect(type_index, table_index, *args.first()?);
            }
            O::TableGet { table } => self.at_least(*args.first()?, table),
            O::TableSet { table } => self.at_least(*args.get(1)?, table),
            O::TableFill { table } => {
                self.beyond(*args.get(2)?, args[0], 1, &mut |t| t.table_size(table));
            }
            O::TableCopy { dst_table, src_table } => {
                self.beyond(*args.get(2)?, args[0], 1, &mut |t| t.table_size(dst_table));
                self.beyond(args[1], args[0], 1, &mut |t| t.table_size(src_table));
                self.put().i32_or();
            }
            O::TableInit { elem_index, table } => {
                self.beyond(*args.get(2)?, args[0], 1, &mut |t| t.table_size(table));
                self.beyond(args[1], args[0], 1, &mut |t| {
                    t.segment_size(Segment::Element(elem_index));
                });
                self.put().i32_or();
            }
            O::MemoryFill { mem } => {
                self.beyond(*args.get(2)?, args[0], 1, &mut |t| t.memory_size(mem));
            }
            O::MemoryCopy { dst_mem, src_mem } => {
                self.beyond(*args.get(2)?, args[0], 1, &mut |t| t.memory_size(dst_mem));
                self.beyond(args[1], args[0], 1, &mut |t| t.memory_size(src_mem));
                self.put().i32_or();
            }
            O::MemoryInit { data_index, mem } => {
                self.beyond(*args.get(2)?, args[0], 1, &mut |t| t.memory_size(mem));
                self.beyond(args[1], args[0], 1, &mut |t| {
                    t.segment_size(Segment::Data(data_index));
                });
                self.put().i32_or();
            }
            O::MemoryAtomicWait32 { .. } | O::MemoryAtomicWait64 { .. } => {
                self.waiting(i, *args.get(2)?)?;
            }
            O::MemoryAtomicNotify { .. } => self.misplaced(i, *args.get(1)?, 4)?,
            other => self.reference_traps(&other, args)?,
        }
        self.put().local_set(local);
        Some(Storage::Locals(local))
    }

    fn at_least(&mut self, index: Operand, table: u32) {
        self.wide(index);
        self.table_size(table);
        self.put().i64_ge_u();
    }

    /// An indirect call: the index is out of bounds, or the entry is null or of another type.
    fn indirect(&mut self, ty: u32, table: u32, index: Operand) {
        self.at_least(index, table);
        self.put().if_(BlockType::Result(ValType::I32)).i32_const(1).else_();
        let known = self
            .r
            .tables
            .entry_types
            .get(&table)
            .copied()
            .unwrap_or_else(|| self.r.types_of_entries(table));
        self.r.tables.entry_types.insert(table, known);
        if let Some(types) = known {
            let (memory, wanted) = (self.r.support.layout().memory, self.r.number_of_type(ty));
            self.entry(table, index);
            self.put().i32_const(1).i32_add().i32_const(2).i32_shl();
            self.put()
                .i32_load(crate::emit::storage::word(types, memory))
                .i32_const(wanted.cast_signed())
                .i32_ne();
        } else {
            // The type of an unknown reference is known to the engine only.
            self.put()
                .local_get(index.0)
                .table_get(table)
                .ref_test_non_null(wasm_encoder::HeapType::Concrete(ty))
                .i32_eqz();
        }
        self.put().end();
    }

    /// A wait traps in a memory that is not shared, and where the access is out of bounds or
    /// misaligned.
    fn waiting(&mut self, i: usize, address: Operand) -> Option<()> {
        let found = self.ops[i].access()?;
        if !self.r.app.memories.get(found.memory as usize)?.shared {
            self.put().i32_const(1);
            return Some(());
        }
        let size = if matches!(self.ops[i].operator, O::MemoryAtomicWait32 { .. }) { 4 } else { 8 };
        self.misplaced(i, address, size)
    }

    /// An access beyond the end, or at an address that is not a multiple of its size.
    fn misplaced(&mut self, i: usize, address: Operand, size: i64) -> Option<()> {
        let found = self.ops[i].access()?;
        let offset = found.offset.cast_signed();
        let end = self.locals.take(ValType::I64);
        // The last valid address of the access; none if the memory is too small for offset and
        // size.
        self.memory_size(found.memory);
        self.put().i64_const(offset).i64_sub().i64_const(size).i64_sub().local_set(end);
        self.wide(address);
        self.put().local_get(end).i64_gt_u();
        self.memory_size(found.memory);
        self.put().i64_const(offset).i64_lt_u().i32_or();
        self.memory_size(found.memory);
        self.put().i64_const(offset).i64_sub().i64_const(size).i64_lt_u().i32_or();
        self.wide(address);
        self.put()
            .i64_const(offset)
            .i64_add()
            .i64_const(size)
            .i64_rem_u()
            .i64_eqz()
            .i32_eqz()
            .i32_or();
        Some(())
    }

    fn reference_traps(&mut self, op: &O<'_>, args: &[Operand]) -> Option<()> {
        let arg = |n: usize| args.get(n).copied();
        match op {
            O::CallRef { .. }
            | O::ReturnCallRef { .. }
            | O::RefAsNonNull
            | O::ThrowRef
            | O::ArrayLen
            | O::I31GetS
            | O::I31GetU
            | O::StructGet { .. }
            | O::StructGetS { .. }
            | O::StructGetU { .. } => {
                self.put().local_get(arg(0)?.0).ref_is_null();
            }
            O::StructSet { .. } => {
                self.put().local_get(arg(1)?.0).ref_is_null();
            }
            O::ArrayGet { .. } | O::ArrayGetS { .. } | O::ArrayGetU { .. } => {
                self.element_traps(arg(1)?, arg(0)?);
            }
            O::ArraySet { .. } => self.element_traps(arg(2)?, arg(1)?),
            O::ArrayFill { .. } => {
                let (array, from, count) = (arg(3)?, arg(2)?, arg(0)?);
                self.null_or(array, |t| t.beyond(from, count, 1, &mut |t| t.array_length(array)));
            }
            O::ArrayCopy { .. } => {
                let (to, at, from, source, count) = (arg(4)?, arg(3)?, arg(2)?, arg(1)?, arg(0)?);
                self.null_or(to, |t| {
                    t.null_or(from, |t| {
                        t.beyond(at, count, 1, &mut |t| t.array_length(to));
                        t.beyond(source, count, 1, &mut |t| t.array_length(from));
                        t.put().i32_or();
                    });
                });
            }
            O::ArrayInitData { array_type_index, array_data_index } => {
                self.array_init(
                    args,
                    self.element_width(*array_type_index)?,
                    Segment::Data(*array_data_index),
                )?;
            }
            O::ArrayInitElem { array_elem_index, .. } => {
                self.array_init(args, 1, Segment::Element(*array_elem_index))?;
            }
            O::ArrayNewData { array_type_index, array_data_index } => {
                let (scale, segment) =
                    (self.element_width(*array_type_index)?, Segment::Data(*array_data_index));
                self.beyond(arg(1)?, arg(0)?, scale, &mut |t| t.segment_size(segment));
            }
            O::ArrayNewElem { array_elem_index, .. } => {
                self.beyond(arg(1)?, arg(0)?, 1, &mut |t| {
                    t.segment_size(Segment::Element(*array_elem_index));
                });
            }
            O::RefCastNonNull { hty } | O::RefCastNullable { hty } => {
                use wasm_encoder::reencode::Reencode;
                let heap = wasm_encoder::reencode::RoundtripReencoder.heap_type(*hty).ok()?;
                self.put().local_get(arg(0)?.0);
                if matches!(op, O::RefCastNullable { .. }) {
                    self.put().ref_test_nullable(heap).i32_eqz();
                } else {
                    self.put().ref_test_non_null(heap).i32_eqz();
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn element_traps(&mut self, array: Operand, index: Operand) {
        self.null_or(array, |t| {
            t.wide(index);
            t.array_length(array);
            t.put().i64_ge_u();
        });
    }

    fn array_init(&mut self, args: &[Operand], scale: i64, segment: Segment) -> Option<()> {
        let (array, at, from, count) = (*args.get(3)?, args[2], args[1], args[0]);
        self.null_or(array, |t| {
            t.beyond(at, count, 1, &mut |t| t.array_length(array));
            t.beyond(from, count, scale, &mut |t| t.segment_size(segment));
            t.put().i32_or();
        });
        Some(())
    }

    fn element_width(&self, ty: u32) -> Option<i64> {
        use wasmparser::WasmModuleResources;
        let found = self.validator.resources().sub_type_at(ty)?;
        match &found.composite_type.inner {
            wasmparser::CompositeInnerType::Array(array) => Some(width(&array.0.element_type)),
            _ => None,
        }
    }
}
