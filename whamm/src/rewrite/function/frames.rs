//! Frames: variables of probes that last as long as an activation of the rewritten function, and
//! the function's wrapper.

use super::*;
use crate::hir::Program;

/// Variables of an activation.
#[derive(Default)]
pub(super) struct Frames {
    /// Where each is while the activation lasts.
    pub(super) storage: Vec<Storage>,
    /// Those that the report includes.
    pub(super) reported: BTreeSet<u32>,
}

impl Frames {
    pub(super) fn of(program: &Program) -> Self {
        let reported = (0..).zip(&program.frames).filter(|f| f.1.report).map(|f| f.0).collect();
        Self { storage: vec![], reported }
    }
}

impl<'a> Walker<'_, 'a> {
    pub(super) fn results_type(&mut self) -> BlockType {
        let results: Vec<ValType> = self.r.app.shape(self.fid).1.iter().map(|&t| val(t)).collect();
        match results[..] {
            [] => BlockType::Empty,
            [one] => BlockType::Result(one),
            _ => BlockType::FunctionType(self.r.support.ty(&(vec![], results))),
        }
    }

    pub(super) fn handler_type(&mut self) -> BlockType {
        BlockType::Result(ValType::Ref(wasm_encoder::RefType {
            nullable: true,
            heap_type: wasm_encoder::HeapType::Abstract {
                shared: false,
                ty: wasm_encoder::AbstractHeapType::Exn,
            },
        }))
    }

    /// Declares the variables of this activation as locals, with their initial values.
    pub(super) fn begin_frames(&mut self) {
        if !self.r.uses_frames() {
            return;
        }
        let mut used: BTreeSet<u32> = BTreeSet::new();
        for probe in &self.r.program.probes {
            used.extend(frames_of(&probe.body.stmts, probe.body.predicate.as_ref()));
        }
        for (n, variable) in (0..).zip(&self.r.program.frames) {
            if !used.contains(&n) {
                self.frames.storage.push(Storage::Constant(0));
                self.frames.reported.remove(&n);
                continue;
            }
            let slots: Vec<u32> =
                variable.ty.slots().into_iter().map(|s| self.locals.keep(s)).collect();
            let storage = Storage::Locals(slots.first().copied().unwrap_or(0));
            self.frames.storage.push(storage);
            if let Some(init) = &variable.init {
                let (pc, index, last) = self.site(0, true);
                let site = Site { facts: &self.r.facts, fid: self.fid, op: None, pc, index, last };
                let scope = Scope { globals: self.r.globals.clone(), ..Scope::default() };
                let mut emitter = Emitter::new(
                    &mut self.r.support,
                    &mut self.locals,
                    &scope,
                    &site,
                    self.r.program,
                    self.r.libraries,
                );
                emitter.expr(init);
                emitter.store(storage, &variable.ty);
                let code = std::mem::take(&mut emitter.out);
                self.plan.code.extend(code);
            }
        }
    }

    /// Where a variable of activations is added up for the function; from then on the report has a
    /// row for it.
    pub(super) fn sum_of_frames(&mut self, n: u32) -> u32 {
        let slots = self.r.program.frames[n as usize].ty.slots();
        let support = &mut self.r.support;
        let counters =
            || support.counters(&slots.iter().map(|&slot| (slot, 0)).collect::<Vec<_>>());
        *self.r.ledger.framed.entry((self.fid, n)).or_insert_with(counters)
    }

    /// At every end of an activation, adds the values of its variables to the function's sums.
    pub(super) fn end_frames(&mut self) {
        for n in self.frames.reported.clone() {
            let (variable, first) = (&self.r.program.frames[n as usize], self.sum_of_frames(n));
            let known = fold::Nothing;
            let scope = Scope::default();
            let mut emitter = Emitter::new(
                &mut self.r.support,
                &mut self.locals,
                &scope,
                &known,
                self.r.program,
                self.r.libraries,
            );
            if variable.ty.is_numeric() {
                emitter.load(Storage::Globals(first), &variable.ty);
            }
            emitter.load(self.frames.storage[n as usize], &variable.ty);
            if variable.ty.is_numeric() {
                emitter.operator(crate::syntax::ast::BinOp::Add, &variable.ty);
            }
            emitter.store(Storage::Globals(first), &variable.ty);
            let code = std::mem::take(&mut emitter.out);
            self.plan.code.extend(code);
        }
    }
}
