//! Instructions on tables of host objects that the host may change.

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
                let index = self.local(ValType::I32, 0);
                let object = self.object(*table);
                self.objects_written([index, object], None, Some(objects), place);
            }
            Operator::TableInit { table, .. } => {
                let Some(objects) = known(table) else { return false };
                let both = [0, 1].map(|number| self.local(ValType::I32, number));
                self.objects_written(both, None, Some(objects), place);
            }
            Operator::TableCopy { dst_table, src_table } => {
                let (to, from) = (known(dst_table), known(src_table));
                if to.is_none() && from.is_none() {
                    return false;
                }
                let target = self.local(self.index(*dst_table), 0);
                let source = self.local(self.index(*src_table), 1);
                self.objects_written([target, source], from, to, place);
            }
            _ => return false,
        }
        true
    }

    fn index(&self, table: u32) -> ValType {
        let is_wide = self.app.declared.tables[table as usize].table64;
        if is_wide { ValType::I64 } else { ValType::I32 }
    }

    /// A local for elements of a table.
    fn object(&mut self, table: u32) -> u32 {
        let ty = self.app.declared.tables[table as usize].element_type;
        let ty = RoundtripReencoder.ref_type(ty).expect("a valid module");
        self.local(ValType::Ref(ty), 1)
    }

    fn object_read(&mut self, table: u32, objects: Objects, place: &Range<u64>) {
        let (index, object) = (self.local(ValType::I32, 0), self.object(table));
        self.put().local_tee(index);
        self.own.keep(place.clone());
        let sink = &mut self.put();
        sink.local_tee(object).local_get(index).local_get(object).ref_is_null().i32_eqz();
        sink.i32_const(0).call(objects.one);
    }

    fn object_written(&mut self, table: u32, objects: Objects, place: &Range<u64>) {
        let (index, object) = (self.local(ValType::I32, 0), self.object(table));
        self.put().local_set(object).local_tee(index).local_get(object);
        self.own.keep(place.clone());
        let sink = &mut self.put();
        sink.local_get(index).local_get(object).ref_is_null().i32_eqz();
        sink.i32_const(1).call(objects.one);
    }

    fn objects_grown(&mut self, table: u32, objects: Objects, place: &Range<u64>) {
        let (count, object) = (self.local(ValType::I32, 0), self.object(table));
        self.put().local_set(count).local_tee(object).local_get(count);
        self.own.keep(place.clone());
        let sink = &mut self.put();
        sink.local_get(object).ref_is_null().i32_eqz().call(objects.grown);
    }

    /// An instruction with three operands, of which the first is an index and the last a length;
    /// the second is an index, too, if the instruction reads a table. The length of a copy has the
    /// shorter type of both indices: 32 bits.
    fn objects_written(
        &mut self,
        [index, second]: [u32; 2],
        reads: Option<Objects>,
        writes: Option<Objects>,
        place: &Range<u64>,
    ) {
        let len = self.local(ValType::I32, 2);
        self.put().local_set(len).local_set(second).local_set(index);
        if let Some(objects) = reads {
            let sink = &mut self.put();
            sink.local_get(second).local_get(len).i32_const(0).call(objects.range);
        }
        self.put().local_get(index).local_get(second).local_get(len);
        self.own.keep(place.clone());
        if let Some(objects) = writes {
            let sink = &mut self.put();
            sink.local_get(index).local_get(len).i32_const(1).call(objects.range);
        }
    }
}
