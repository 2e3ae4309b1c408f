//! Records tables of host objects. Of an object only whether it is null is known.

use super::Maker;
use wasm_encoder::{BlockType, Function, InstructionSink, ValType};

/// The functions that record accesses of a table of host objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Objects {
    /// Takes an index, whether there is an object, and whether the program has put it there.
    pub(crate) one: u32,
    /// Takes a range, by index and length, and whether the program has written it.
    pub(crate) range: u32,
    /// Takes the result of `table.grow`, which it returns, and whether the new elements are
    /// objects.
    pub(crate) grown: u32,
}

impl Maker<'_, '_> {
    /// Defines these functions.
    pub(super) fn objects(&mut self) {
        for table in self.app.objects.clone() {
            let one = self.own(&format!("object:{table}"));
            let range = self.range_of_objects(table, one);
            let grown = self.grown_objects(table, range);
            self.made.objects.insert(table, Objects { one, range, grown });
        }
    }

    fn range_of_objects(&mut self, table: u32, one: u32) -> u32 {
        let mut code = Function::new([]);
        let sink = &mut code.instructions();
        let (first, len, writes) = (0, 1, 2);
        // An access outside of the table traps by itself.
        sink.local_get(len).table_size(table).i32_gt_u().if_(BlockType::Empty).return_().end();
        sink.local_get(first).table_size(table).local_get(len).i32_sub().i32_gt_u();
        sink.if_(BlockType::Empty).return_().end();
        sink.loop_(BlockType::Empty).local_get(len).if_(BlockType::Empty).local_get(first);
        sink.local_get(first).table_get(table).ref_is_null().i32_eqz();
        sink.local_get(writes).call(one);
        sink.local_get(first).i32_const(1).i32_add().local_set(first);
        sink.local_get(len).i32_const(1).i32_sub().local_set(len).br(1).end().end().end();
        let ty = self.signature(&[ValType::I32; 3], &[]);
        self.add(ty, &format!("objects.{table}"), code)
    }

    fn grown_objects(&mut self, table: u32, range: u32) -> u32 {
        let mut code = Function::new([]);
        let sink = &mut code.instructions();
        let (result, are_objects) = (0, 1);
        let new = |sink: &mut InstructionSink<'_>| {
            sink.table_size(table).local_get(result).i32_sub();
        };
        sink.local_get(result).i32_const(-1).i32_ne().if_(BlockType::Empty);
        if self.is_raw {
            self.begin(sink, 0x44, &[table.into()]);
            new(sink);
            sink.i64_extend_i32_u().call(self.own("number"));
            sink.local_get(are_objects).call(self.own("object"));
        }
        sink.local_get(are_objects).if_(BlockType::Empty).local_get(result);
        new(sink);
        sink.i32_const(1).call(range).end();
        sink.table_size(table).i64_extend_i32_u().global_set(self.table_sizes[&table]);
        sink.end().local_get(result).end();
        let ty = self.signature(&[ValType::I32; 2], &[ValType::I32]);
        self.add(ty, &format!("objects.grown.{table}"), code)
    }
}
