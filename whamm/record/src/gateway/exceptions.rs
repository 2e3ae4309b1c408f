//! Records the exceptions that leave calls, by their tags and what is thrown with them.

use super::*;
use std::ops::Range;
use wasm_encoder::HeapType;

impl Maker<'_, '_> {
    /// Calls a function with the first locals, and keeps its results in locals. An exception is
    /// recorded and rethrown; `left` pushes the event's kind, or 0 if it is not recorded.
    pub(super) fn call(
        &self,
        sink: &mut InstructionSink<'_>,
        callee: Callee,
        args: u32,
        results: Range<u32>,
        left: impl Fn(&mut InstructionSink<'_>),
    ) {
        let call = |sink: &mut InstructionSink<'_>| {
            match callee {
                Callee::Import(import) => {
                    let ty = self.app.declared.function(import).expect("a valid module");
                    self.typed_args(sink, ty.params());
                }
                Callee::Reference(ty) => self.typed_args(sink, self.app.types.get(ty).params()),
                _ => (0..args).for_each(|local| {
                    sink.local_get(local);
                }),
            }
            match callee {
                Callee::Own(function) | Callee::Import(function) => {
                    sink.call(self.plan.indices.function(function))
                }
                Callee::Through(ty, table) => sink.local_get(args).call_indirect(table, ty),
                Callee::Reference(ty) => {
                    let concrete = HeapType::Concrete(ty);
                    sink.local_get(args).ref_cast_non_null(concrete).call_ref(ty)
                }
            };
            results.clone().rev().for_each(|local| {
                sink.local_set(local);
            });
        };
        if self.made.thrown.is_none() && self.made.thrown_with.is_none() {
            return call(sink);
        }
        if let Some(thrown) = self.made.thrown {
            sink.block(BlockType::Empty)
                .block(BlockType::Result(ValType::Ref(RefType::EXNREF)))
                .try_table(BlockType::Empty, [Catch::AllRef { label: 0 }]);
            call(sink);
            sink.end().br(1).end();
            left(sink);
            sink.call(thrown).throw_ref().end();
        }
        if let Some((tags, other)) = &self.made.thrown_with {
            sink.try_(BlockType::Empty);
            call(sink);
            for (tag, thrown) in (0..).zip(tags) {
                sink.catch(tag);
                left(sink);
                sink.call(*thrown).rethrow(0);
            }
            sink.catch_all();
            left(sink);
            sink.call(*other).rethrow(0).end();
        }
    }

    /// Defines the functions that record an exception by what is thrown, for each tag.
    pub(super) fn thrown_with(&mut self) -> Result<(), Error> {
        let mut tags = Vec::new();
        for (tag, ty) in (0..).map_while(|tag| Some((tag, self.app.declared.tag(tag)?))) {
            let mut params = self.app.val_types(ty.params())?;
            params.push(ValType::I32);
            let kind = ty.params().len() as u32;
            let mut code = Function::new([]);
            let sink = &mut code.instructions();
            sink.local_get(kind).i32_eqz().if_(BlockType::Empty).return_().end();
            sink.local_get(kind).call(self.own("begin"));
            sink.i32_const(3).call(self.own("byte"));
            sink.i64_const(tag.into()).call(self.own("number"));
            self.values(sink, 0, ty.params(), Way::In);
            sink.end();
            let ty = self.signature(&params, &[]);
            tags.push(self.add(ty, &format!("thrown.{tag}"), code));
        }
        let mut code = Function::new([]);
        let sink = &mut code.instructions();
        sink.local_get(0).i32_eqz().if_(BlockType::Empty).return_().end();
        sink.local_get(0).call(self.own("begin"));
        self.stop(sink, Why::Thrown, true);
        sink.end();
        let ty = self.signature(&[ValType::I32], &[]);
        self.made.thrown_with = Some((tags, self.add(ty, "thrown", code)));
        Ok(())
    }

    /// Defines the function that records an exception by its tag: it takes the exception and the
    /// event's kind, and returns the exception.
    pub(super) fn thrown(&mut self) -> Result<(), Error> {
        let exception = ValType::Ref(RefType::EXNREF);
        let tags: Vec<_> = (0..)
            .map_while(|tag| self.app.declared.tag(tag))
            .map(wasmparser::FuncType::params)
            .collect();
        let mut locals = Vec::new();
        for ty in tags.iter().copied().flatten() {
            locals.push((1, self.app.val_type(*ty)?));
        }
        let mut blocks = Vec::new();
        for tag in &tags {
            let all = self.app.val_types(tag)?;
            blocks.push(match all[..] {
                [] => BlockType::Empty,
                [one] => BlockType::Result(one),
                _ => BlockType::FunctionType(self.signature(&[], &all)),
            });
        }
        let mut code = Function::new(locals);
        let sink = &mut code.instructions();
        sink.local_get(1).i32_eqz().if_(BlockType::Empty).local_get(0).return_().end();
        sink.local_get(1).call(self.own("begin")).block(BlockType::Empty);
        let mut first = 2;
        for ((tag, types), block) in (0..).zip(&tags).zip(blocks) {
            let catches = [Catch::One { tag, label: 0 }, Catch::All { label: 1 }];
            sink.block(BlockType::Empty).block(block).try_table(BlockType::Empty, catches);
            sink.local_get(0).throw_ref().end().unreachable().end();
            let end = first + types.len() as u32;
            (first..end).rev().for_each(|local| {
                sink.local_set(local);
            });
            sink.i32_const(3).call(self.own("byte"));
            sink.i64_const(tag.into()).call(self.own("number"));
            self.values(sink, first, types, Way::In);
            sink.br(1).end();
            first = end;
        }
        self.stop(sink, Why::Thrown, true);
        sink.end().local_get(0).end();
        let ty = self.signature(&[exception, ValType::I32], &[exception]);
        self.made.thrown = Some(self.add(ty, "thrown", code));
        Ok(())
    }
}
