//! The functions that replace the host's where the program calls them.

use super::*;

impl Maker<'_, '_> {
    /// Defines the gateway of an import.
    pub(super) fn import(&mut self, import: u32) -> Result<u32, Error> {
        let (mut code, ..) = self.locals(import)?;
        let ty = self.app.declared.function(import).expect("a valid module").clone();
        let sink = &mut code.instructions();
        self.calls_out(sink, &ty, Callee::Import(import), |sink| {
            sink.i64_const(import.into());
        });
        let own = self.own_type(import);
        Ok(self.add(own, &format!("import.{import}"), code))
    }

    /// The rest of a function that calls the host: records the call, and returns its results.
    /// `number` pushes the host's function. The locals behind the parameters are those of
    /// [`Self::locals`].
    pub(super) fn calls_out(
        &self,
        sink: &mut InstructionSink<'_>,
        ty: &wasmparser::FuncType,
        callee: Callee,
        number: impl Fn(&mut InstructionSink<'_>),
    ) {
        let (inside, depth) = (self.runtime.inside, self.runtime.depth);
        let args = ty.params().len() as u32;
        let results = args + u32::from(matches!(callee, Callee::Reference(_)));
        let saved = results + ty.results().len() as u32;
        let import = if let Callee::Import(import) = callee { Some(import) } else { None };
        sink.global_get(inside).i32_eqz().if_(BlockType::Empty);
        self.stop(sink, Why::Thrown, false);
        sink.end();
        self.after_tail_calls(sink);
        self.begin(sink, 3, &[]);
        number(sink);
        sink.call(self.own("number"));
        self.values(sink, 0, ty.params(), Way::Out);
        if import.is_some_and(|import| self.app.is_exit(import)) {
            sink.local_get(0).call(self.own("exits"));
        }
        sink.i32_const(0).global_set(inside).global_get(depth).local_set(saved);
        let unwind = self.own("unwind");
        self.call(sink, callee, args, results..saved, |sink| {
            sink.local_get(saved).call(unwind);
            sink.i32_const(1).global_set(inside).i32_const(4);
        });
        // The host has continued after calls that have not returned.
        sink.global_get(depth).local_get(saved).i32_ne().if_(BlockType::Empty);
        sink.local_get(saved).call(self.own("unwind")).end();
        sink.i32_const(1).global_set(inside);
        self.begin(sink, 4, &[]);
        sink.i32_const(0).call(self.own("byte"));
        self.values(sink, results, ty.results(), Way::In);
        sink.call(self.made.sizes);
        if let Some(filled) = import.and_then(|import| self.filled(import)) {
            sink.local_get(results).i32_eqz().if_(BlockType::Empty);
            sink.local_get(1).local_get(2).call(filled).end();
        }
        self.results(sink, results, ty.results());
        sink.end();
    }

    /// The function that reads the buffers filled by an import, if it is one of WASI's and has
    /// WASI's type.
    fn filled(&self, import: u32) -> Option<u32> {
        use wasmparser::ValType::{I32, I64};
        let ty = self.app.declared.function(import)?;
        let is_typed = matches!(ty.params(), [I32, I32, I32, I32] | [I32, I32, I32, I64, I32])
            && ty.results() == [I32];
        let memory = self.app.wasi_memory().filter(|_| is_typed && self.app.fills_buffers(import));
        self.runtime.functions.get(&format!("filled:{}", memory?)).copied()
    }

    /// Defines the function that replaces an import in references. If the host calls it, it calls
    /// the import directly: the host calls itself.
    pub(super) fn import_reference(&mut self, import: u32, stand_in: u32) -> Result<u32, Error> {
        let (mut code, params, saved) = self.locals(import)?;
        let sink = &mut code.instructions();
        let all = |sink: &mut InstructionSink<'_>| {
            (0..params).for_each(|local| {
                sink.local_get(local);
            });
        };
        self.answer(sink, import)?;
        if self.pending.is_some() {
            self.pending_entry(sink, import, params..saved, |sink| {
                all(sink);
                sink.call(stand_in);
            })?;
        } else {
            sink.global_get(self.runtime.inside).if_(BlockType::Empty);
            self.by_reference(sink, import);
            all(sink);
            sink.call(stand_in).return_().end();
        }
        let ty = self.app.declared.function(import).expect("a valid module");
        self.typed_args(sink, ty.params());
        sink.call(self.plan.indices.function(import)).end();
        let own = self.type_of_gateway(import);
        Ok(self.add(own, &format!("import.reference.{import}"), code))
    }
}
