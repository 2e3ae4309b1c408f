//! Records tables whose elements are compared when they are read. Of an object only whether it is
//! null is known, of a function its index.

use super::Maker;
use wasm_encoder::{BlockType, Function, InstructionSink, ValType};

/// The functions that record accesses of such a table. An element is *known* as 0 if it is null,
/// and otherwise as 1, or a function's index plus 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Objects {
    /// Takes an index, as what the element is known, and whether the program has put it there.
    pub(crate) one: u32,
    /// Takes a range, by index and length, and whether the program has written it.
    pub(crate) range: u32,
    /// Takes the result of `table.grow`, which it returns, and as what the new elements are known.
    pub(crate) grown: u32,
    /// The function that returns as what a function is known.
    identify: Option<u32>,
}

impl Objects {
    /// Converts an element to that as which it is known.
    pub(crate) fn known(&self, sink: &mut InstructionSink<'_>) {
        match self.identify {
            Some(identify) => sink.call(identify),
            None => sink.ref_is_null().i32_eqz(),
        };
    }
}

impl Maker<'_, '_> {
    /// Defines these functions.
    pub(super) fn objects(&mut self) {
        for table in self.app.objects.clone() {
            self.compared(table, "object", None);
        }
        if self.made.identify.is_some() {
            for table in self.app.function_tables().collect::<Vec<_>>() {
                self.compared(table, "element", self.made.identify);
            }
        }
    }

    fn compared(&mut self, table: u32, kind: &str, identify: Option<u32>) {
        let one = self.own(&format!("{kind}:{table}"));
        let mut objects = Objects { one, range: 0, grown: 0, identify };
        objects.range = self.range_of_objects(table, objects);
        objects.grown = self.grown_objects(table, objects);
        self.made.objects.insert(table, objects);
    }

    fn range_of_objects(&mut self, table: u32, objects: Objects) -> u32 {
        let is_wide = self.app.is_wide_table(table);
        let address = if is_wide { ValType::I64 } else { ValType::I32 };
        let mut code = Function::new([(1, ValType::I64)]);
        let sink = &mut code.instructions();
        let (first, len, writes, size) = (0, 1, 2, 3);
        let wide = |sink: &mut InstructionSink<'_>, local: u32| {
            sink.local_get(local);
            if !is_wide {
                sink.i64_extend_i32_u();
            }
        };
        // An access outside of the table traps by itself.
        self.elements(sink, table);
        sink.local_set(size);
        wide(sink, len);
        sink.local_get(size).i64_gt_u().if_(BlockType::Empty).return_().end();
        wide(sink, first);
        sink.local_get(size);
        wide(sink, len);
        sink.i64_sub().i64_gt_u().if_(BlockType::Empty).return_().end();
        sink.loop_(BlockType::Empty);
        wide(sink, len);
        sink.i64_eqz().i32_eqz().if_(BlockType::Empty).local_get(first);
        // No engine has tables of 2^32 elements.
        if is_wide {
            sink.i32_wrap_i64();
        }
        sink.local_get(first).table_get(table);
        objects.known(sink);
        sink.local_get(writes).call(objects.one);
        let step = |sink: &mut InstructionSink<'_>, local: u32, by: i64| {
            sink.local_get(local);
            match is_wide {
                true => sink.i64_const(by).i64_add(),
                false => sink.i32_const(by as i32).i32_add(),
            };
            sink.local_set(local);
        };
        step(sink, first, 1);
        step(sink, len, -1);
        sink.br(1).end().end().end();
        let ty = self.signature(&[address, address, ValType::I32], &[]);
        self.add(ty, &format!("objects.{table}"), code)
    }

    fn grown_objects(&mut self, table: u32, objects: Objects) -> u32 {
        let is_wide = self.app.is_wide_table(table);
        let address = if is_wide { ValType::I64 } else { ValType::I32 };
        let mut code = Function::new([]);
        let sink = &mut code.instructions();
        let (result, known) = (0, 1);
        let new = |sink: &mut InstructionSink<'_>| {
            sink.table_size(table).local_get(result);
            if is_wide {
                sink.i64_sub()
            } else {
                sink.i32_sub()
            };
        };
        sink.local_get(result);
        if is_wide {
            sink.i64_const(-1).i64_ne()
        } else {
            sink.i32_const(-1).i32_ne()
        };
        sink.if_(BlockType::Empty);
        if self.is_raw {
            self.begin(sink, 0x44, &[table.into()]);
            new(sink);
            if !is_wide {
                sink.i64_extend_i32_u();
            }
            sink.call(self.own("number")).local_get(known);
            let value = if objects.identify.is_some() { "function" } else { "object" };
            sink.call(self.own(value));
        }
        sink.local_get(known).if_(BlockType::Empty).local_get(result);
        new(sink);
        sink.i32_const(1).call(objects.range).end();
        self.elements(sink, table);
        sink.global_set(self.table_sizes[&table]);
        sink.end().local_get(result).end();
        let ty = self.signature(&[address, ValType::I32], &[address]);
        self.add(ty, &format!("objects.grown.{table}"), code)
    }
}
