//! Records the growth of memories and tables: by the host when control enters the program, and by
//! the program when it grows a memory.

use super::*;

impl Maker<'_, '_> {
    /// Defines the function that records growth when control enters the program.
    pub(super) fn sizes(&mut self) -> Result<(), Error> {
        let mut code = Function::new([(1, ValType::I64)]);
        for memory in self.app.memories.clone() {
            let known = variable(self.plan, self.program, ValType::I64);
            self.memory_sizes.insert(memory, known);
            let (place, is_wide) = (self.runtime.memories[&memory].place, self.app.is_wide(memory));
            let sink = &mut code.instructions();
            self.pages(sink, place, is_wide);
            sink.local_tee(0).global_get(known).i64_ne().if_(BlockType::Empty);
            self.begin(sink, 0x21, &[memory.into()]);
            sink.local_get(0).global_get(known).i64_sub().call(self.own("number"));
            self.follow(sink, memory);
            sink.end();
        }
        for table in self.app.tables.clone() {
            let known = variable(self.plan, self.program, ValType::I64);
            self.table_sizes.insert(table, known);
            let ty = self.app.declared.tables[table as usize].element_type;
            let kind = if ty.is_extern_ref() { 0x6f } else { 0x70 };
            let sink = &mut code.instructions();
            self.elements(sink, table);
            sink.local_tee(0).global_get(known).i64_ne().if_(BlockType::Empty);
            self.begin(sink, 0x24, &[table.into()]);
            sink.local_get(0).global_get(known).i64_sub().call(self.own("number"));
            sink.i32_const(kind).call(self.own("null"));
            sink.local_get(0).global_set(known).end();
        }
        code.instructions().end();
        let ty = self.signature(&[], &[]);
        self.made.sizes = self.add(ty, "sizes", code);
        self.growth()
    }

    pub(super) fn pages(&self, sink: &mut InstructionSink<'_>, memory: u32, is_wide: bool) {
        sink.memory_size(memory);
        if !is_wide {
            sink.i64_extend_i32_u();
        }
    }

    pub(super) fn elements(&self, sink: &mut InstructionSink<'_>, table: u32) {
        sink.table_size(table);
        if !self.app.is_wide_table(table) {
            sink.i64_extend_i32_u();
        }
    }

    /// Grows the shadow to the number of pages in local 0, and records the size.
    pub(super) fn follow(&self, sink: &mut InstructionSink<'_>, memory: u32) {
        let known = self.memory_sizes[&memory];
        if !self.is_raw {
            sink.local_get(0).global_get(known).i64_sub();
            if !self.app.is_wide(memory) {
                sink.i32_wrap_i64();
            }
            sink.memory_grow(self.runtime.memories[&memory].shadow).drop();
        }
        sink.local_get(0).global_set(known);
    }

    /// Defines the functions that record that the program has grown a memory, or could not.
    pub(super) fn growth(&mut self) -> Result<(), Error> {
        for memory in 0..self.app.declared.memories.len() as u32 {
            let is_wide = self.app.is_wide(memory);
            let ty = if is_wide { ValType::I64 } else { ValType::I32 };
            let mut code = Function::new([(1, ValType::I64)]);
            let sink = &mut code.instructions();
            // Local 0 is the number of pages, local 1 the result, which is returned; the size is in
            // local 2.
            self.pages(sink, self.runtime.places[memory as usize], is_wide);
            sink.local_set(2);
            self.refused(sink, memory);
            if let Some(&known) = self.memory_sizes.get(&memory) {
                sink.local_get(2).global_get(known).i64_ne().if_(BlockType::Empty);
                if self.is_raw {
                    self.begin(sink, 0x41, &[memory.into()]);
                    sink.local_get(2).global_get(known).i64_sub().call(self.own("number"));
                } else {
                    sink.local_get(2).global_get(known).i64_sub();
                    if !is_wide {
                        sink.i32_wrap_i64();
                    }
                    sink.memory_grow(self.runtime.memories[&memory].shadow).drop();
                }
                sink.local_get(2).global_set(known).end();
            }
            sink.local_get(1).end();
            let signature = self.signature(&[ty, ty], &[ty]);
            let function = self.add(signature, &format!("grown.{memory}"), code);
            self.made.own_growth.insert(memory, function);
        }
        Ok(())
    }

    /// Ends the trace if a memory has not grown although its type allows that: because of a limit,
    /// or of what the machine has.
    fn refused(&mut self, sink: &mut InstructionSink<'_>, memory: u32) {
        let ty = self.app.declared.memories[memory as usize];
        let most = if ty.memory64 { 1 << 48 } else { 1 << 16 };
        let most = ty.maximum.unwrap_or(most).min(most);
        if ty.memory64 {
            sink.local_get(1).i64_const(-1).i64_eq().local_get(0);
        } else {
            sink.local_get(1).i32_const(-1).i32_eq().local_get(0).i64_extend_i32_u();
        }
        sink.i64_const(most.cast_signed()).local_get(2).i64_sub().i64_le_u();
        sink.i32_and().if_(BlockType::Empty);
        self.stop(sink, Why::Growth, false);
        sink.end();
    }
}
