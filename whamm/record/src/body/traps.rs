//! Checks whether the next instruction will trap: see `trap.rs`.

use super::*;
use crate::gateway::SPAN;
use crate::trap::{Conversion, Division};
use crate::values::Value;

impl Writer<'_> {
    /// Emits code that checks whether the next instruction will trap.
    pub(super) fn before_a_trap(&mut self, at: usize, operator: &Operator<'_>, bytes: &[u8]) {
        match operator {
            // Otherwise the function that replaces the call checks it.
            Operator::CallIndirect { type_index, table_index }
            | Operator::ReturnCallIndirect { type_index, table_index } => {
                if !self.gateways.dispatch.contains_key(&(*type_index, *table_index)) {
                    self.before_a_call(*table_index);
                }
            }
            Operator::MemoryFill { mem } => self.before_a_range(*mem, None, self.address(*mem)),
            // Its length is that of a range of the segment, and has 32 bits.
            Operator::MemoryInit { mem, .. } => self.before_a_range(*mem, None, ValType::I32),
            Operator::MemoryCopy { dst_mem, src_mem } => {
                let len = self.length_of_copy(*dst_mem, *src_mem);
                self.before_a_range(*dst_mem, Some(*src_mem), len);
            }
            _ => {
                let divisor = self.sees.values.below(0).and_then(Value::constant);
                if let Some(division) = Division::read(operator, divisor) {
                    self.before_a_division(division);
                } else if let Some(conversion) = Conversion::read(operator) {
                    self.before_a_conversion(conversion);
                } else if let Some(access) = Access::read(bytes) {
                    self.before_an_access(at, &access);
                }
            }
        }
    }

    /// Reports a trap of the next instruction if the value on the stack is not zero.
    fn traps_if(&mut self, reason: Reason) {
        let traps = self.gateways.traps[&reason];
        self.put().if_(BlockType::Empty).call(traps).end();
    }

    fn before_a_division(&mut self, division: Division) {
        let (number, divisor) = (self.local(division.ty, 0), self.local(division.ty, 1));
        let is_long = division.ty == ValType::I64;
        let sink = &mut self.put();
        sink.local_set(divisor).local_set(number).local_get(divisor);
        if is_long {
            sink.i64_eqz()
        } else {
            sink.i32_eqz()
        };
        self.traps_if(Reason::DivisionByZero);
        if division.overflows {
            let sink = &mut self.put();
            sink.local_get(number);
            if is_long {
                sink.i64_const(i64::MIN).i64_eq().local_get(divisor).i64_const(-1).i64_eq();
            } else {
                sink.i32_const(i32::MIN).i32_eq().local_get(divisor).i32_const(-1).i32_eq();
            }
            sink.i32_and();
            self.traps_if(Reason::Overflow);
        }
        self.put().local_get(number).local_get(divisor);
    }

    fn before_a_conversion(&mut self, conversion: Conversion) {
        let number = self.local(conversion.from, 0);
        self.put().local_set(number);
        conversion.is_nan(&mut self.put(), number);
        self.traps_if(Reason::Conversion);
        conversion.overflows(&mut self.put(), number);
        self.traps_if(Reason::Overflow);
        self.put().local_get(number);
    }

    fn before_an_access(&mut self, at: usize, access: &Access) {
        let (is_wide, bounds) =
            (self.app.is_wide(access.memory), self.gateways.bounds[&access.memory]);
        let mut end = access.end();
        let (memory, values) = (access.memory, &mut self.sees.values);
        if let Some(address) = values.below(access.operands.len()) {
            let first = address.constant().and_then(|constant| constant.checked_add(end));
            let is_least = first.is_some_and(|end| end <= bounds.least);
            if is_least || values.is_inside(memory, address, end) {
                return;
            }
            // The accesses that follow in its run are checked with it.
            end = self.sees.reaches.get(&at).copied().unwrap_or(end).max(end);
            values.are_inside(memory, address, end);
        }
        // The last valid address, if the memory was not grown.
        let latest = bounds.least.checked_sub(end);
        let address = self.spill(access);
        let sink = &mut self.put();
        sink.local_get(address);
        match (end <= SPAN, latest, is_wide) {
            (true, _, false) => sink.global_get(bounds.soft).i32_ge_u(),
            (true, _, true) => sink.global_get(bounds.soft).i64_ge_u(),
            (false, Some(latest), false) => sink.i32_const(latest as u32 as i32).i32_gt_u(),
            (false, Some(latest), true) => sink.i64_const(latest.cast_signed()).i64_gt_u(),
            (false, None, _) => sink.drop().i32_const(1),
        };
        sink.if_(BlockType::Empty).local_get(address).i64_const(end.cast_signed());
        sink.call(bounds.outside);
        self.traps_if(Reason::Memory);
        self.put().end();
        self.unspill(access, address);
    }

    /// The operands are an address, another address or any other value, and a length.
    fn before_a_range(&mut self, to: u32, from: Option<u32>, len_ty: ValType) {
        let target = self.local(self.address(to), 0);
        let other = from.map_or(ValType::I32, |from| self.address(from));
        let (other, len) = (self.local(other, 1), self.local(len_ty, 2));
        self.put().local_set(len).local_set(other).local_set(target).local_get(target);
        self.length(len, len_ty);
        let outside = self.gateways.bounds[&to].outside;
        self.put().call(outside);
        if let Some(from) = from {
            self.put().local_get(other);
            self.length(len, len_ty);
            let outside = self.gateways.bounds[&from].outside;
            self.put().call(outside).i32_or();
        }
        self.traps_if(Reason::Memory);
        self.put().local_get(target).local_get(other).local_get(len);
    }

    fn before_a_call(&mut self, table: u32) {
        let is_wide = self.app.is_wide_table(table);
        let index = self.local(if is_wide { ValType::I64 } else { ValType::I32 }, 0);
        let [outside, null] = [Reason::UndefinedElement, Reason::UninitializedElement]
            .map(|reason| self.gateways.traps[&reason]);
        let sink = &mut self.put();
        sink.local_tee(index).table_size(table);
        if is_wide {
            sink.i64_ge_u()
        } else {
            sink.i32_ge_u()
        };
        sink.if_(BlockType::Empty).call(outside).else_();
        sink.local_get(index).table_get(table).ref_is_null();
        sink.if_(BlockType::Empty).call(null).end().end().local_get(index);
    }
}
