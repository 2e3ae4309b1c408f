//! Translates accesses to linear memory: addresses, and bounds checks.
//!
//! A memory with 32-bit addresses has a reservation of eight gigabytes and a page: an index and an
//! offset, both below four, cannot leave it, and what is beyond the memory's end is not mapped. So
//! no bounds check is needed, and its base never moves. Accesses to any other memory are compared
//! with its length, and its base is loaded each time.

use super::function::Translator;
use crate::trap::Trap;
use crate::vm::{Builtin, Bulk, GROWTH_INTERRUPTED, MemoryAt, at};
use cranelift_codegen::ir::{
    Endianness, InstBuilder, MemFlagsData, Type, Value, condcodes::IntCC, types,
};
use wasmparser::{MemArg, MemArgTarget};

/// Which memory an operator means.
pub(super) fn memory_of(memarg: &MemArg) -> u32 {
    match memarg.target {
        MemArgTarget::Memory(index) => index,
        MemArgTarget::Array(_) => unreachable!("validated without arrays"),
    }
}

/// The address of an access.
pub(super) struct Address {
    pub(super) base: Value,
    pub(super) offset: i32,
    pub(super) flags: MemFlagsData,
}

impl Translator<'_> {
    /// Pops the index of an access of `size` bytes, and ensures that it is inside of the memory.
    pub(super) fn address(&mut self, memarg: &MemArg, size: u32) -> Address {
        let index = self.pop();
        self.address_of(memarg, index, size)
    }

    fn address_of(&mut self, memarg: &MemArg, index: Value, size: u32) -> Address {
        let flags = MemFlagsData::new()
            .with_endianness(Endianness::Little)
            .with_alias_region(Some(self.regions.heap))
            .with_trap_code(Some(self.access_code(false)));
        if self.is_reserved(memory_of(memarg)) {
            let flags = match self.is_in_monitor(memarg, index, size) {
                true => flags.with_trap_code(None),
                false => flags,
            };
            let base = self.memory_base(memory_of(memarg));
            let index = self.builder.ins().uextend(types::I64, index);
            let address = self.builder.ins().iadd(base, index);
            return match i32::try_from(memarg.offset) {
                Ok(offset) => Address { base: address, offset, flags },
                Err(_) => {
                    let base = self.builder.ins().iadd_imm_u(address, memarg.offset as i64);
                    Address { base, offset: 0, flags }
                }
            };
        }
        let base = self.checked_address(memarg, index, size);
        Address { base, offset: 0, flags }
    }

    /// Whether an access of an inlined body is inside of its memory, however small that is: its
    /// index is a constant.
    fn is_in_monitor(&self, memarg: &MemArg, index: Value, size: u32) -> bool {
        let least = self.info.memories[memory_of(memarg) as usize].minimum;
        let index = self.known(index).filter(|_| self.is_nested());
        let index = index.and_then(|index| u32::try_from(index & i64::from(u32::MAX)).ok());
        index.is_some_and(|index| {
            let end = u64::from(index).saturating_add(memarg.offset).saturating_add(size.into());
            end <= least.saturating_mul(1 << 16)
        })
    }

    /// The address of an access to a memory whose length is compared.
    fn checked_address(&mut self, memarg: &MemArg, index: Value, size: u32) -> Value {
        let (index, end) = self.effective(memarg, index, size);
        let len = self.memory_len(memory_of(memarg));
        let outside = self.builder.ins().icmp(IntCC::UnsignedGreaterThan, end, len);
        let base = self.memory_base(memory_of(memarg));
        let address = self.builder.ins().iadd(base, index);
        let address = match memarg.offset {
            0 => address,
            offset => self.builder.ins().iadd_imm_u(address, offset as i64),
        };
        if !self.target.options.spectre {
            self.trap_if(outside, Trap::MemoryOutOfBounds);
            return address;
        }
        // The access itself traps at address 0, and speculation reads only from there.
        let null = self.builder.ins().iconst(types::I64, 0);
        self.builder.ins().select_spectre_guard(outside, null, address)
    }

    /// The index with 64 bits, and the end of the access, which does not overflow.
    fn effective(&mut self, memarg: &MemArg, index: Value, size: u32) -> (Value, Value) {
        let index = self.widened(index);
        let beyond = memarg.offset.saturating_add(size.into());
        let beyond = self.builder.ins().iconst(types::I64, beyond as i64);
        let end = match self.info.memories[memory_of(memarg) as usize].wide {
            true => {
                self.builder.ins().uadd_overflow_trap(index, beyond, Trap::MemoryOutOfBounds.code())
            }
            false => self.builder.ins().iadd(index, beyond),
        };
        (index, end)
    }

    /// Pops the index of an atomic access of `size` bytes, and keeps it inside of the memory and
    /// aligned.
    pub(super) fn atomic_address(&mut self, memarg: &MemArg, size: u32) -> (Value, MemFlagsData) {
        let index = self.pop();
        if size > 1 {
            let wide = self.widened(index);
            let place = self.builder.ins().iadd_imm_u(wide, memarg.offset as i64);
            let low = self.builder.ins().band_imm_u(place, i64::from(size - 1));
            self.trap_if(low, Trap::UnalignedAtomic);
        }
        let address = self.address_of(memarg, index, size);
        let base = match address.offset {
            0 => address.base,
            offset => self.builder.ins().iadd_imm_u(address.base, i64::from(offset)),
        };
        (base, address.flags)
    }

    /// An index or a size with 64 bits.
    pub(super) fn widened(&mut self, value: Value) -> Value {
        match self.builder.func.dfg.value_type(value) {
            types::I64 => value,
            _ => self.builder.ins().uextend(types::I64, value),
        }
    }

    /// A size of 64 bits, in the width in which the memory or table counts.
    pub(super) fn narrowed(&mut self, value: Value, wide: bool) -> Value {
        if wide { value } else { self.builder.ins().ireduce(types::I32, value) }
    }

    /// Whether the memory has its whole address space reserved.
    fn is_reserved(&self, memory: u32) -> bool {
        self.target.options.reservations && !self.info.memories[memory as usize].wide
    }

    /// Where the [`Memory`](crate::vm::Memory) is.
    fn memory_at(&mut self, memory: u32) -> (Value, i32) {
        match self.layout.memory(memory) {
            MemoryAt::Inline(offset) => (self.vmctx, offset as i32),
            MemoryAt::Pointer(offset) => (self.fixed_word(offset as i32), 0),
        }
    }

    fn memory_base(&mut self, memory: u32) -> Value {
        if let Some(base) = self.guest_base(memory) {
            return base;
        }
        // Memories that are reserved or shared stay where they are.
        let stays = self.is_reserved(memory) || self.info.memories[memory as usize].shared;
        let (at, offset) = self.memory_at(memory);
        let flags = if stays { self.fixed() } else { self.changing() };
        self.builder.ins().load(types::I64, flags, at, offset + at::MEMORY_BASE)
    }

    pub(super) fn memory_len(&mut self, memory: u32) -> Value {
        let (at, offset) = self.memory_at(memory);
        let flags = self.changing();
        self.builder.ins().load(types::I64, flags, at, offset + at::MEMORY_LEN)
    }

    pub(super) fn load(&mut self, memarg: &MemArg, ty: Type) {
        let Address { base, offset, flags } = self.address(memarg, ty.bytes());
        let value = self.builder.ins().load(ty, flags, base, offset);
        self.push(value);
    }

    /// Loads `narrow` and extends it to `ty`, in one instruction: of two, the second is often not
    /// merged into the first.
    pub(super) fn load_extended(&mut self, memarg: &MemArg, narrow: Type, ty: Type, signed: bool) {
        let Address { base, offset, flags } = self.address(memarg, narrow.bytes());
        let ins = self.builder.ins();
        let value = match (narrow, signed) {
            (types::I8, false) => ins.uload8(ty, flags, base, offset),
            (types::I8, true) => ins.sload8(ty, flags, base, offset),
            (types::I16, false) => ins.uload16(ty, flags, base, offset),
            (types::I16, true) => ins.sload16(ty, flags, base, offset),
            (_, false) => ins.uload32(flags, base, offset),
            (_, true) => ins.sload32(flags, base, offset),
        };
        self.push(value);
    }

    pub(super) fn store(&mut self, memarg: &MemArg, ty: Type) {
        let value = self.pop();
        let value = match self.builder.func.dfg.value_type(value).bits() > ty.bits() {
            true => self.builder.ins().ireduce(ty, value),
            false => value,
        };
        let Address { base, offset, flags } = self.address(memarg, ty.bytes());
        let can_trap = flags.trap_code().map(|_| self.access_code(true));
        let flags = flags.with_trap_code(can_trap);
        self.builder.ins().store(flags, value, base, offset);
    }

    pub(super) fn memory_size(&mut self, memory: u32) {
        let len = self.memory_len(memory);
        let pages = self.builder.ins().ushr_imm_u(len, 16);
        let pages = self.narrowed(pages, self.info.memories[memory as usize].wide);
        self.push(pages);
    }

    pub(super) fn memory_grow(&mut self, memory: u32) {
        let pages = self.pop();
        let (pages, memory_index) = (self.widened(pages), self.number(memory));
        let before = self.growth(Builtin::MemoryGrow, &[memory_index, pages]);
        let before = self.narrowed(before, self.info.memories[memory as usize].wide);
        self.push(before);
    }

    pub(super) fn memory_fill(&mut self, memory: u32) {
        let (place, byte, count) = self.pop3();
        let (place, count) = (self.widened(place), self.widened(count));
        let to = self.range(memory, place, count);
        let done = self.builtin(Builtin::Fill, &[to, byte, count]).expect("a result");
        self.trap_if_interrupted(done);
    }

    /// The address of a range whose bounds are compared: the whole of it is inside, or this traps.
    fn range(&mut self, memory: u32, place: Value, count: Value) -> Value {
        let end = match self.info.memories[memory as usize].wide {
            true => {
                self.builder.ins().uadd_overflow_trap(place, count, Trap::MemoryOutOfBounds.code())
            }
            false => self.builder.ins().iadd(place, count),
        };
        let len = self.memory_len(memory);
        let outside = self.builder.ins().icmp(IntCC::UnsignedGreaterThan, end, len);
        self.trap_if(outside, Trap::MemoryOutOfBounds);
        let base = self.memory_base(memory);
        self.builder.ins().iadd(base, place)
    }

    pub(super) fn memory_copy(&mut self, to: u32, from: u32) {
        let (place, source, count) = self.pop3();
        let (place, source, count) =
            (self.widened(place), self.widened(source), self.widened(count));
        let from = self.range(from, source, count);
        let to = self.range(to, place, count);
        let done = self.builtin(Builtin::Copy, &[to, from, count]).expect("a result");
        self.trap_if_interrupted(done);
    }

    pub(super) fn memory_init(&mut self, segment: u32, memory: u32) {
        let (place, source, count) = self.pop3();
        let (place, source, count) =
            (self.widened(place), self.widened(source), self.widened(count));
        let (memory, segment) = (self.number(memory), self.number(segment));
        self.checked_builtin(
            Builtin::MemoryInit,
            &[memory, segment, place, source, count],
            Trap::MemoryOutOfBounds,
        );
    }

    pub(super) fn data_drop(&mut self, segment: u32) {
        let segment = self.number(segment);
        self.builtin(Builtin::DataDrop, &[segment]);
    }

    /// An index as an argument of a built-in function.
    pub(super) fn number(&mut self, index: u32) -> Value {
        self.builder.ins().iconst(types::I32, i64::from(index))
    }

    /// Calls a built-in function that returns whether it has succeeded.
    pub(super) fn checked_builtin(&mut self, builtin: Builtin, args: &[Value], trap: Trap) {
        let done = self.builtin(builtin, args).expect("a result");
        self.trap_unless(done, trap);
        self.trap_if_interrupted(done);
    }

    fn trap_if_interrupted(&mut self, done: Value) {
        let interrupted =
            self.builder.ins().icmp_imm_s(IntCC::Equal, done, i64::from(Bulk::Interrupted as u32));
        self.trap_if(interrupted, Trap::Interrupted);
    }

    /// Calls a built-in function that grows a memory or table; returns the size before.
    pub(super) fn growth(&mut self, builtin: Builtin, args: &[Value]) -> Value {
        let before = self.builtin(builtin, args).expect("a result");
        let interrupted = self.builder.ins().icmp_imm_s(IntCC::Equal, before, GROWTH_INTERRUPTED);
        self.trap_if(interrupted, Trap::Interrupted);
        before
    }
}
