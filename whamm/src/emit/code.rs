//! Emits statements as instructions.
//!
//! Facts about a site are folded first, so that branches which cannot be taken produce no code.

use super::cells::SiteRow;
use super::locals::Locals;
use super::memories::Bulk;
use super::replacement::Replacement;
use super::storage::{Storage, WORD, word};
use super::support::Support;
use crate::events::{Bound, Function as EventFunction};
use crate::fold::{self, Known};
use crate::hir::{Expr, ExprKind, Program, Stmt};
use crate::library::Library;
use crate::syntax::ast::BinOp;
use crate::types::Ty;
use std::collections::{BTreeMap, HashMap};
use wasm_encoder::{BlockType, InstructionSink, ValType};

/// Where the items are that a body refers to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    /// Variables of the site.
    pub sites: Vec<Storage>,
    /// Global and shared variables.
    pub globals: Vec<Storage>,
    /// Variables of the activation.
    pub frames: Vec<Storage>,
    /// Bits of the activation's slots that are flipped.
    pub flipped: BTreeMap<u32, i64>,
    /// Variables of the event whose values are known only when the site is reached.
    pub bounds: HashMap<Bound, Storage>,
    /// Whether this code runs while the program runs, so that elements of maps may have cells until
    /// the report.
    pub running: bool,
    /// The row of cells after the site's record, if it has one.
    pub row: Option<SiteRow>,
    /// Whether this code is likely to run often: then calls of short functions are inlined.
    pub repeated: bool,
    /// The operation that is executed again where a bulk operation is repeated.
    pub bulk: Option<Bulk>,
    /// The saved operands of the instruction, the last pushed last.
    pub operands: Vec<(u32, ValType)>,
    /// Where the body stores the values that it leaves instead of an instruction.
    pub replacement: Option<Replacement>,
}

/// Writes instructions.
pub(crate) struct Emitter<'a> {
    /// The instructions written so far.
    pub out: Vec<u8>,
    /// The rest of the module.
    pub support: &'a mut Support,
    /// Local variables.
    pub locals: &'a mut Locals,
    /// Where items are.
    pub scope: &'a Scope,
    /// Facts about the site.
    pub known: &'a dyn Known,
    /// The program.
    pub program: &'a Program,
    /// The libraries it uses.
    pub libraries: &'a [Library],
    /// The first slot of each local variable of the body.
    pub own: Vec<u32>,
    types: Vec<Ty>,
    depth: u32,
    leave: Option<u32>,
    function: bool,
    loops: Vec<(u32, u32)>,
}

impl std::fmt::Debug for Emitter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emitter").field("out", &self.out.len()).finish_non_exhaustive()
    }
}

/// Ends a chain of instructions whose value is not used.
pub(crate) fn written(_: &mut InstructionSink<'_>) {}

impl<'a> Emitter<'a> {
    /// An emitter without instructions yet.
    pub(crate) fn new(
        support: &'a mut Support,
        locals: &'a mut Locals,
        scope: &'a Scope,
        known: &'a dyn Known,
        program: &'a Program,
        libraries: &'a [Library],
    ) -> Self {
        Self {
            out: vec![],
            support,
            locals,
            scope,
            known,
            program,
            libraries,
            own: vec![],
            types: vec![],
            depth: 0,
            leave: None,
            function: false,
            loops: vec![],
        }
    }

    /// The writer of single instructions.
    pub(crate) fn put(&mut self) -> InstructionSink<'_> {
        InstructionSink::new(&mut self.out)
    }

    /// Allocates the local variables of a body.
    pub(crate) fn enter(&mut self, locals: &[Ty]) {
        for ty in locals {
            let slots = ty.slots();
            let first = slots.first().map_or(0, |_| self.row(&slots));
            self.own.push(first);
            self.types.push(ty.clone());
        }
    }

    /// Allocates the local variables of another body in the same function.
    pub(crate) fn own_locals(&mut self, locals: &[Ty]) {
        self.own.clear();
        self.types.clear();
        self.enter(locals);
    }

    /// Allocates the local variables of a function, whose parameters exist already.
    pub(crate) fn enter_function(&mut self, locals: &[Ty], params: usize) {
        let mut next = 0;
        for ty in &locals[..params] {
            self.own.push(next);
            self.types.push(ty.clone());
            next += u32::try_from(ty.slots().len()).unwrap_or(0);
        }
        self.enter(&locals[params..]);
    }

    /// Consecutive locals, one for each slot.
    fn row(&mut self, slots: &[ValType]) -> u32 {
        match slots {
            [one] => self.locals.take(*one),
            _ => {
                let all: Vec<u32> = slots.iter().map(|&s| self.locals.keep(s)).collect();
                all.first().copied().unwrap_or(0)
            }
        }
    }

    /// Writes a whole body: a condition that has to be tested, then statements.
    pub(crate) fn body(&mut self, condition: Option<&Expr>, stmts: &[Stmt]) {
        let condition = condition.map(|c| self.fold(c));
        match condition.as_ref().map(|c| &c.kind) {
            Some(ExprKind::Bool(false)) => (),
            Some(ExprKind::Bool(true)) | None => self.statements(stmts),
            Some(_) => {
                if let Some(c) = &condition {
                    self.value(c);
                }
                self.open_if(BlockType::Empty);
                self.statements(stmts);
                self.close();
            }
        }
    }

    /// Writes statements, which a `return` among them may end.
    fn statements(&mut self, stmts: &[Stmt]) {
        let mut returns = false;
        for stmt in stmts {
            stmt.visit(&mut |s| returns |= matches!(s, Stmt::Return(_)));
        }
        if returns {
            self.open(BlockType::Empty);
            self.leave = Some(self.depth);
            self.block(stmts);
            self.close();
            self.leave = None;
        } else {
            self.block(stmts);
        }
    }

    /// Writes the statements of a function, which leaves by `return`.
    pub(crate) fn function_body(&mut self, stmts: &[Stmt]) {
        self.function = true;
        self.block(stmts);
    }

    pub(super) fn fold(&self, e: &Expr) -> Expr {
        fold::fold(e.clone(), self.known)
    }

    pub(super) fn open(&mut self, ty: BlockType) {
        self.put().block(ty);
        self.depth += 1;
    }

    pub(super) fn open_if(&mut self, ty: BlockType) {
        self.put().if_(ty);
        self.depth += 1;
    }

    pub(super) fn close(&mut self) {
        self.put().end();
        self.depth -= 1;
    }

    fn block(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        let mark = self.locals.mark();
        match stmt {
            Stmt::Declare(local, init) => {
                let ty = self.local_type(*local);
                let storage = Storage::Locals(self.own[*local as usize]);
                match init {
                    Some(e) => self.expr(e),
                    None => self.zero(&ty),
                }
                self.store(storage, &ty);
            }
            Stmt::Assign(place, value) => {
                self.expr(value);
                self.assign(place);
            }
            Stmt::Update(place, op, value) => self.update(place, *op, value),
            Stmt::Do(e) => {
                self.expr(e);
                for _ in e.ty.slots() {
                    self.put().drop();
                }
            }
            Stmt::Return(value) => self.give_back(value.as_ref()),
            Stmt::If(cond, yes, no) => self.choose(cond, yes, no),
            Stmt::Count(counter, low, high, body) => self.count(*counter, low, high, body),
            Stmt::Each(key, value, map, body) => self.each(*key, *value, map, body),
            Stmt::While(cond, bound, body) => self.repeat(cond, *bound, body),
            Stmt::Break => {
                let target = self.loops.last().map_or(0, |l| self.depth - l.0);
                self.put().br(target);
            }
            Stmt::Continue => {
                let target = self.loops.last().map_or(0, |l| self.depth - l.1);
                self.put().br(target);
            }
        }
        self.locals.release(mark);
    }

    pub(super) fn local_type(&self, local: u32) -> Ty {
        self.types.get(local as usize).cloned().unwrap_or(Ty::I32)
    }

    fn give_back(&mut self, value: Option<&Expr>) {
        let scope = self.scope;
        match (value, &scope.replacement) {
            (Some(e), Some(replacement)) if !self.function => self.give_instead(replacement, e),
            (Some(e), _) => self.expr(e),
            (None, _) => {}
        }
        match self.leave {
            Some(depth) if !self.function => {
                let target = self.depth - depth;
                self.put().br(target);
            }
            _ => {
                self.put().return_();
            }
        }
    }

    fn choose(&mut self, cond: &Expr, yes: &[Stmt], no: &[Stmt]) {
        let cond = self.fold(cond);
        if let ExprKind::Bool(b) = cond.kind {
            return self.block(if b { yes } else { no });
        }
        self.value(&cond);
        if yes.is_empty() {
            self.put().i32_eqz().if_(BlockType::Empty);
            self.depth += 1;
            self.block(no);
            self.close();
            return;
        }
        self.open_if(BlockType::Empty);
        self.block(yes);
        if !no.is_empty() {
            self.put().else_();
            self.block(no);
        }
        self.close();
    }

    /// Writes a loop around a body: the outer label ends it, the inner label continues it.
    fn looped(
        &mut self,
        head: impl FnOnce(&mut Self),
        body: &[Stmt],
        tail: impl FnOnce(&mut Self),
    ) {
        self.open(BlockType::Empty);
        let end = self.depth;
        self.put().loop_(BlockType::Empty);
        self.depth += 1;
        head(self);
        self.open(BlockType::Empty);
        self.loops.push((end, self.depth));
        self.block(body);
        self.loops.pop();
        self.close();
        tail(self);
        self.put().br(0);
        self.close();
        self.close();
    }

    fn count(&mut self, counter: u32, low: &Expr, high: &Expr, body: &[Stmt]) {
        let ty = low.ty.clone();
        let slot = ty.slots()[0];
        let (own, end, next) =
            (self.own[counter as usize], self.locals.keep(slot), self.locals.keep(slot));
        self.expr(low);
        self.put().local_set(next);
        self.expr(high);
        self.put().local_set(end);
        let head = |this: &mut Self| {
            this.put().local_get(next).local_tee(own).local_get(end);
            this.operator(BinOp::Ge, &ty);
            this.put().br_if(1);
        };
        let tail = |this: &mut Self| {
            this.put().local_get(own);
            if slot == ValType::I64 {
                written(this.put().i64_const(1).i64_add());
            } else {
                written(this.put().i32_const(1).i32_add());
            }
            this.put().local_set(next);
        };
        self.looped(head, body, tail);
    }

    fn each(&mut self, key: u32, value: Option<u32>, map: &Expr, body: &[Stmt]) {
        let Ty::Map(kv) = map.ty.clone() else { return };
        let [handle, at, left] = [(); 3].map(|()| self.locals.keep(ValType::I32));
        self.expr(map);
        let size = word(0, self.memory());
        self.put().local_tee(handle).i32_load(size).local_set(left);
        let (sorted, memory) = (self.support.runtime("map_sorted"), self.memory());
        self.put()
            .local_get(left)
            .if_(BlockType::Empty)
            .local_get(handle)
            .call(sorted)
            .local_set(at)
            .end();
        let entry = self.locals.keep(ValType::I32);
        let width = u32::try_from(kv.0.slots().len()).unwrap_or(0) * WORD;
        let head = |this: &mut Self| {
            this.put().local_get(left).i32_eqz().br_if(1);
            this.put().local_get(left).i32_const(1).i32_sub().local_set(left);
            this.put().local_get(at).i32_load(word(0, memory)).local_set(entry);
            this.put().local_get(at).i32_const(4).i32_add().local_set(at);
            this.load(Storage::Memory(Some(entry), 0), &kv.0);
            this.store(Storage::Locals(this.own[key as usize]), &kv.0);
            if let Some(value) = value {
                this.load(Storage::Memory(Some(entry), width), &kv.1);
                this.store(Storage::Locals(this.own[value as usize]), &kv.1);
            }
        };
        self.looped(head, body, |_| {});
    }

    fn repeat(&mut self, cond: &Expr, bound: u32, body: &[Stmt]) {
        let left = self.locals.keep(ValType::I32);
        self.put().i32_const(bound.cast_signed()).local_set(left);
        let head = |this: &mut Self| {
            this.put().local_get(left).i32_eqz().br_if(1);
            this.put().local_get(left).i32_const(1).i32_sub().local_set(left);
            this.expr(cond);
            this.put().i32_eqz().br_if(1);
        };
        self.looped(head, body, |_| {});
    }

    /// Writes a function that exists only at some events.
    pub(super) fn event_function(
        &mut self,
        function: EventFunction,
        args: &[Expr],
        span: crate::source::Span,
    ) {
        let refuse = |this: &mut Self, message: &str, help: &str| {
            this.support.refused.push((span, message.into(), help.into()));
        };
        let scope = self.scope;
        match function {
            EventFunction::DropArgs => {}
            EventFunction::AltCallById | EventFunction::AltCallByName => match &scope.replacement {
                Some(replacement) => self.call_instead(replacement, &args[0], span),
                None => refuse(
                    self,
                    "there is nothing here to be replaced",
                    "use it in the body of an `alt`",
                ),
            },
            EventFunction::DupAt => self.dup_at(args, span),
        }
    }
}
