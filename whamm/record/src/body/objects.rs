//! Instructions on tables that the host may change, whose elements are compared when they are read.

use super::*;
use crate::gateway::Objects;
use std::ops::Range;

impl Writer<'_> {
    /// Writes an instruction that reads or changes such a table; returns whether it is one.
    pub(super) fn objects(&mut self, operator: &Operator<'_>, place: &Range<u64>) -> bool {
        let known = |table: &u32| self.gateways.objects.get(table).copied();
        match operator {
            Operator::TableGet { table } => {
                let Some(objects) = known(table) else { return false };
                self.object_read(*table, objects, place);
            }
            Operator::TableSet { table } => {
                let Some(objects) = known(table) else { return false };
                self.object_written(*table, objects, place);
            }
            Operator::TableGrow { table } => {
                let Some(objects) = known(table) else { return false };
                self.objects_grown(*table, objects, place);
            }
            Operator::TableFill { table } => {
                let Some(objects) = known(table) else { return false };
                let ty = self.index(*table);
                let both = [self.local(ty, 0), self.object(*table)];
                self.objects_written(both, None, Some((objects, ty)), ty, place);
            }
            Operator::TableInit { table, .. } => {
                let Some(objects) = known(table) else { return false };
                let ty = self.index(*table);
                let both = [self.local(ty, 0), self.local(ValType::I32, 1)];
                // Its length is that of a range of the segment, and has 32 bits.
                self.objects_written(both, None, Some((objects, ty)), ValType::I32, place);
            }
            Operator::TableCopy { dst_table, src_table } => {
                let (to, from) = (known(dst_table), known(src_table));
                if to.is_none() && from.is_none() {
                    return false;
                }
                let (to_ty, from_ty) = (self.index(*dst_table), self.index(*src_table));
                let both = [self.local(to_ty, 0), self.local(from_ty, 1)];
                // The length has the shorter type of both indices.
                let len_ty = if to_ty == from_ty { to_ty } else { ValType::I32 };
                let (to, from) = (to.map(|to| (to, to_ty)), from.map(|from| (from, from_ty)));
                self.objects_written(both, from, to, len_ty, place);
            }
            _ => return false,
        }
        true
    }

    fn index(&self, table: u32) -> ValType {
        if self.app.is_wide_table(table) { ValType::I64 } else { ValType::I32 }
    }

    /// A local for elements of a table.
    fn object(&mut self, table: u32) -> u32 {
        let ty = self.app.declared.tables[table as usize].element_type;
        let ty = self.app.val_type(wasmparser::ValType::Ref(ty)).expect("a valid module");
        self.local(ty, 1)
    }

    /// Pushes an index or a length of a table as a number of 32 bits: no engine has larger tables.
    fn narrow(&mut self, local: u32, ty: ValType) {
        let sink = &mut self.put();
        sink.local_get(local);
        if ty == ValType::I64 {
            sink.i32_wrap_i64();
        }
    }

    fn object_read(&mut self, table: u32, objects: Objects, place: &Range<u64>) {
        let ty = self.index(table);
        let (index, object) = (self.local(ty, 0), self.object(table));
        self.put().local_tee(index);
        self.own.keep(place.clone());
        self.put().local_tee(object);
        self.narrow(index, ty);
        let sink = &mut self.put();
        sink.local_get(object);
        objects.known(sink);
        sink.i32_const(0).call(objects.one);
    }

    fn object_written(&mut self, table: u32, objects: Objects, place: &Range<u64>) {
        let ty = self.index(table);
        let (index, object) = (self.local(ty, 0), self.object(table));
        self.put().local_set(object).local_tee(index).local_get(object);
        self.own.keep(place.clone());
        self.narrow(index, ty);
        let sink = &mut self.put();
        sink.local_get(object);
        objects.known(sink);
        sink.i32_const(1).call(objects.one);
    }

    fn objects_grown(&mut self, table: u32, objects: Objects, place: &Range<u64>) {
        let (count, object) = (self.local(self.index(table), 0), self.object(table));
        self.put().local_set(count).local_tee(object).local_get(count);
        self.own.keep(place.clone());
        let sink = &mut self.put();
        sink.local_get(object);
        objects.known(sink);
        sink.call(objects.grown);
    }

    /// An instruction with three operands, of which the first is an index and the last a length;
    /// the second is an index, too, if the instruction reads a table.
    fn objects_written(
        &mut self,
        [index, second]: [u32; 2],
        reads: Option<(Objects, ValType)>,
        writes: Option<(Objects, ValType)>,
        len_ty: ValType,
        place: &Range<u64>,
    ) {
        let len = self.local(len_ty, 2);
        let range = |this: &mut Self, first: u32, (objects, ty): (Objects, ValType), writes| {
            let sink = &mut this.put();
            sink.local_get(first).local_get(len);
            if ty != len_ty {
                sink.i64_extend_i32_u();
            }
            sink.i32_const(writes).call(objects.range);
        };
        self.put().local_set(len).local_set(second).local_set(index);
        if let Some(reads) = reads {
            range(self, second, reads, 0);
        }
        self.put().local_get(index).local_get(second).local_get(len);
        self.own.keep(place.clone());
        if let Some(writes) = writes {
            range(self, index, writes, 1);
        }
    }
}
