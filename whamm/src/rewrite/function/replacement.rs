//! Instructions and blocks that a probe's code replaces.
//!
//! The replacement has to leave what the instruction would: the values that the body returns, or
//! the results of a function that it calls, on top of the operands that stay. As in version 2.0.1,
//! an operand stays if the probe neither reads nor drops it, and a predicate reads all. If the
//! returned values are all results of the instruction, or it has no results, the operands are
//! dropped, whether they are read or not.

use super::*;
use crate::emit::replacement::{Callee, Callees, Calls, Deeds, Replacement, always_gives};
use std::rc::Rc;
use wasm_aot_body::replacement::{FallThrough, Misfit, Substitute, never_falls_through, passing};

type Replaced = wasm_aot_body::replacement::Replaced<ValType>;
type Remains = wasm_aot_body::replacement::Remains<ValType>;

impl<'a> Walker<'_, 'a> {
    /// Writes probes instead of an instruction. If a predicate has to be tested at run time, the
    /// instruction is the other arm.
    pub(super) fn replace(
        &mut self,
        i: usize,
        alts: &[Action<'a>],
        saved: &[(u32, ValType)],
        [exits, targets]: [&[Action<'a>]; 2],
    ) -> Result<(), wasmparser::Error> {
        let operator = self.ops[i].operator.clone();
        self.only_one(alts);
        let action = &alts[0];
        let condition =
            action.predicate.as_ref().map(|predicate| self.condition(action, i, saved, predicate));
        let operands: Vec<ValType> = saved.iter().rev().map(|s| s.1).collect();
        let passing = passing(&operator, operands.len());
        let results = match never_falls_through(&operator) {
            true => None,
            false => Some(self.results_of(i)?),
        };
        let replaced = Replaced { passing, operands, results };
        let (remains, replacement) = self.replacement(action, i, &replaced);
        if replaced.results.is_none() {
            self.fall_through(i, replaced.operands.len() - remains.kept, &remains.given)?;
        }
        if let Some(condition) = condition {
            self.plan.code.extend(condition);
            let left = [&replaced.operands[..remains.kept], &remains.given].concat();
            let ty = self.r.support.block(&left);
            self.put().if_(ty);
        }
        self.stand_in(action, i, saved, &remains, replacement);
        self.plan.leave_out(self.ops[i].place());
        if action.predicate.is_some() {
            self.put().else_();
            self.emit(exits, i, saved, &[], false);
            self.emit_targets(targets, i, saved);
            self.leave(i);
            for (local, _) in saved.iter().rev() {
                self.put().local_get(*local);
            }
            self.write_deeper(i);
            self.put().end();
        }
        Ok(())
    }

    /// The types of an instruction's results; the validator advances past it.
    fn results_of(&mut self, i: usize) -> Result<Vec<ValType>, wasmparser::Error> {
        let operator = self.ops[i].operator.clone();
        let gives = operator.operator_arity(&self.validator).map_or(0, |arity| arity.1 as usize);
        self.validator.op(self.ops[i].offset.into(), &operator)?;
        self.forget_origins(gives);
        let mut results: Vec<ValType> = self.stack(gives).iter().map(|&t| self.val(t)).collect();
        results.reverse();
        Ok(results)
    }

    /// Makes control continue after an instruction that never falls through by itself, and the
    /// validator with it, if that is valid. If it is not, the whole program is invalid.
    fn fall_through(
        &mut self,
        i: usize,
        dropped: usize,
        given: &[ValType],
    ) -> Result<(), wasmparser::Error> {
        let number = |ty: &ValType| match ty {
            ValType::I32 => Some(W::I32),
            ValType::I64 => Some(W::I64),
            ValType::F32 => Some(W::F32),
            ValType::F64 => Some(W::F64),
            ValType::V128 => Some(W::V128),
            ValType::Ref(_) => None,
        };
        let offset = self.ops[i].offset.into();
        match given.iter().map(number).collect() {
            Some(given) => {
                FallThrough { dropped, given }.validate(&mut self.validator, offset)?;
                self.falls_through = true;
            }
            None => self.validator.op(offset, &self.ops[i].operator.clone())?,
        }
        self.forget_origins(given.len());
        Ok(())
    }

    fn only_one(&mut self, alts: &[Action<'a>]) {
        if alts.len() > 1 {
            self.r.support.refused.push((
                alts[0].probe.span,
                "two probes replace the same instruction".into(),
                "make their predicates exclude each other, or write one probe".into(),
            ));
        }
    }

    /// The operands that remain where a probe replaces something, and where it puts its values.
    fn replacement(
        &mut self,
        action: &Action<'a>,
        i: usize,
        replaced: &Replaced,
    ) -> (Remains, Replacement) {
        let span = action.probe.span;
        let (pc, index, last) = self.site(i, false);
        let site =
            Site { facts: &self.r.facts, fid: self.fid, op: Some(&self.ops[i]), pc, index, last };
        let stmts = action.rest.as_ref().unwrap_or(&action.probe.body.stmts);
        let deeds = Deeds::of(stmts);
        let fold = |e: &Expr| fold::fold(e.clone(), &site);
        let always = always_gives(stmts, &fold);
        let which = deeds.calls.first().map(|which| fold(which));
        let callees = if deeds.calls.is_empty() { Rc::default() } else { self.callees() };
        let own = replaced.own();
        let looked_at = traps::looked_at(&self.ops[i].operator);
        let asked = asked_for(action.probe, looked_at).map_or(own, |asked| asked.min(own));
        let called = which.and_then(|which| callees.find(&which).cloned());
        let mut fits = true;
        let returned = deeds.returns.first().map(|e| e.ty.slots());
        let by = Substitute {
            asked,
            drops: deeds.drops,
            calls: !deeds.calls.is_empty(),
            called: called.as_ref().map(|callee| &callee.results[..]),
            returned: returned.as_deref(),
        };
        let remains = replaced.remains(&by).unwrap_or_else(|Misfit { message, help }| {
            self.r.support.refused.push((span, message, help.into()));
            fits = false;
            Remains { kept: 0, given: returned.clone().unwrap_or_default() }
        });
        if fits && !remains.given.is_empty() && !always {
            let help = "end every way through the body with `return`, or call a function";
            let message =
                "the body may end without the value that it is to give instead of the instruction";
            self.r.support.refused.push((span, message.into(), help.into()));
        }
        let results = remains.given.iter().map(|&ty| (self.locals.take(ty), ty)).collect();
        let returned = returned.map_or(0, |slots| slots.len()).min(remains.given.len());
        let left = if deeds.drops && asked < own { asked } else { 0 };
        (remains, Replacement { calls: Calls::Here { callees, left }, results, returned })
    }

    /// Writes the replacement, and the values that it leaves.
    fn stand_in(
        &mut self,
        action: &Action<'a>,
        i: usize,
        saved: &[(u32, ValType)],
        remains: &Remains,
        replacement: Replacement,
    ) {
        let given = replacement.results.clone();
        self.action(action, i, saved, &[], true, Some(replacement));
        for (local, _) in saved.iter().rev().take(remains.kept).chain(&given) {
            self.put().local_get(*local);
        }
    }

    /// The functions of the program, for those that call one instead of an instruction.
    fn callees(&mut self) -> Rc<Callees> {
        if let Some(known) = &self.r.callees {
            return known.clone();
        }
        let app = self.r.app;
        let types = |list: &[W]| list.iter().map(|&t| val(t)).collect();
        let functions = (0..u32::try_from(app.functions.len()).unwrap_or(0)).map(|f| {
            let (params, results) = app.shape(f);
            Callee {
                index: self.r.indices.function(f),
                params: types(params),
                results: types(results),
            }
        });
        let functions = functions.collect();
        let mut names: HashMap<String, u32> =
            (0..).zip(&app.imports).map(|(n, i)| (i.name.to_string(), n)).collect();
        let exported = app.exports.iter().filter(|e| e.kind == wasmparser::ExternalKind::Func);
        names.extend(exported.map(|e| (e.name.to_string(), e.index)));
        names.extend(app.names.iter().map(|(&n, name)| (name.to_string(), n)));
        let found = Rc::new(Callees { functions, names });
        self.r.callees = Some(found.clone());
        found
    }

    /// Marks the origins of an instruction's replaced results as unknown.
    fn forget_origins(&mut self, gives: usize) {
        let height = self.validator.operand_stack_height() as usize;
        self.origins.stack.truncate(height.saturating_sub(gives));
        if self.origins.followed {
            self.origins.stack.resize(height, None);
        }
        self.got = None;
    }

    /// An instruction in an arm, which has a label of its own.
    fn write_deeper(&mut self, i: usize) {
        match self.relabelled(i, 1) {
            Some(code) => self.plan.code.extend(code),
            None => self.write_op(i),
        }
    }

    pub(super) fn condition(
        &mut self,
        action: &Action<'a>,
        i: usize,
        saved: &[(u32, ValType)],
        predicate: &Expr,
    ) -> Vec<u8> {
        let scope = self.scope(action, i, saved, &[]);
        let (pc, index, last) = self.site(i, false);
        let site =
            Site { facts: &self.r.facts, fid: self.fid, op: Some(&self.ops[i]), pc, index, last };
        let mut emitter = Emitter::new(
            &mut self.r.support,
            &mut self.locals,
            &scope,
            &site,
            self.r.program,
            self.r.libraries,
        );
        emitter.expr(predicate);
        std::mem::take(&mut emitter.out)
    }

    /// The probe that replaces the whole block that begins here.
    pub(super) fn block_replacement(&mut self, i: usize) -> Option<Action<'a>> {
        let probes = self.probes(i, &[Mode::BlockAlt]);
        if probes.is_empty() || !self.reachable() && self.ops[i].nesting != Nesting::Else {
            return None;
        }
        let args = self.stack(self.takes(i));
        let mut actions = self.match_all(&probes, i, &args, &[]);
        self.only_one(&actions);
        (!actions.is_empty()).then(|| actions.remove(0))
    }

    /// Writes a probe instead of a block: returns the number of the next instruction. Probes in the
    /// block or after it are removed with it. Probes before a loop run after its replacement: an
    /// engine, too, executes them in the loop.
    pub(super) fn replaced_block(
        &mut self,
        i: usize,
        alt: &Action<'a>,
        reachable: bool,
        mark: usize,
    ) -> Result<usize, wasmparser::Error> {
        self.make_calls();
        let args = if reachable { self.stack(self.takes(i)) } else { vec![] };
        let mut first = self.first(i, &args, reachable);
        if reachable && self.ops[i].nesting != Nesting::Loop {
            let wants: Vec<&Action<'_>> = first.iter().collect();
            let saved = self.save(&wants, i, &args, false);
            self.emit(&first, i, &saved, &[], false);
            self.restore(&wants, &saved, true);
            first.clear();
        }
        self.locals.release(mark);
        if self.ops[i].nesting == Nesting::Else {
            // Its end is also the end of the `if`, and stays.
            let probes = self.probes(i, &[Mode::SemanticAfter]);
            let after = self.match_all(&probes, i, &[], &[]);
            self.wait_for_end(i, after);
            first.clear();
        }
        self.replace_block(i, alt, &first)
    }

    /// Writes a probe instead of a block, or instead of the `else` arm of an `if`: returns the
    /// number of the next instruction.
    pub(super) fn replace_block(
        &mut self,
        i: usize,
        action: &Action<'a>,
        before: &[Action<'a>],
    ) -> Result<usize, wasmparser::Error> {
        let is_arm = self.ops[i].nesting == Nesting::Else;
        let end = self.end_of(i);
        let mark = self.locals.mark();
        if is_arm {
            self.write_op(i);
            self.validated(i)?;
            self.end_region();
            self.begin_region();
        }
        let (saved, replaced) = self.saved_block(i);
        let (remains, replacement) = self.replacement(action, i, &replaced);
        self.stand_in(action, i, &saved, &remains, replacement);
        self.emit(before, i, &saved, &[], false);
        let rest = if is_arm { i + 1..end } else { i..end + 1 };
        let next = rest.end;
        for k in rest {
            self.plan.leave_out(self.ops[k].place());
            let operator = self.ops[k].operator.clone();
            self.validator.op(self.ops[k].offset.into(), &operator)?;
        }
        self.forget_origins(replaced.results.map_or(0, |r| r.len()));
        self.locals.release(mark);
        Ok(next)
    }

    /// Writes a probe that replaces a block under a condition that is tested at run time. The block
    /// is the other arm, which is written next.
    pub(super) fn replace_block_if(
        &mut self,
        i: usize,
        action: &Action<'a>,
        before: &[Action<'a>],
    ) {
        self.make_calls();
        self.end_region();
        let (saved, replaced) = self.saved_block(i);
        self.test(action, i, &saved);
        let ty = self.r.support.block(replaced.results.as_deref().unwrap_or_default());
        self.put().if_(ty);
        let (remains, replacement) = self.replacement(action, i, &replaced);
        self.stand_in(action, i, &saved, &remains, replacement);
        self.emit(before, i, &saved, &[], false);
        self.make_calls();
        self.put().else_();
        for (local, _) in saved.iter().rev() {
            self.put().local_get(*local);
        }
        self.enter_arm(i);
        self.begin_region();
    }

    /// The same for the `else` arm of an `if`, which has just begun. The replacement continues at
    /// the end of the `if`.
    pub(super) fn replace_arm_if(&mut self, i: usize, action: &Action<'a>) {
        let (saved, replaced) = self.saved_block(i);
        self.test(action, i, &saved);
        self.put().if_(BlockType::Empty);
        let (remains, replacement) = self.replacement(action, i, &replaced);
        self.stand_in(action, i, &saved, &remains, replacement);
        self.put().br(1).end();
        for (local, _) in saved.iter().rev() {
            self.put().local_get(*local);
        }
    }

    /// Pushes whether a probe replaces something.
    fn test(&mut self, action: &Action<'a>, i: usize, saved: &[(u32, ValType)]) {
        if let Some(predicate) = &action.predicate {
            let condition = self.condition(action, i, saved, predicate);
            self.plan.code.extend(condition);
        }
    }

    /// Saves the operands of a block to be replaced, or of the `else` arm that has just begun.
    fn saved_block(&mut self, i: usize) -> (Saved, Replaced) {
        let is_arm = self.ops[i].nesting == Nesting::Else;
        let opener = if is_arm { self.ops[i].partner } else { i };
        let (mut operands, results) = self.block_types(opener);
        if self.ops[i].nesting == Nesting::If {
            operands.push(ValType::I32);
        }
        let saved: Saved = operands.iter().rev().map(|&ty| (self.locals.take(ty), ty)).collect();
        for &(local, _) in &saved {
            self.put().local_set(local);
        }
        (saved, Replaced { operands, passing: 0, results: Some(results) })
    }

    /// The types of a block's parameters and results, the lowest first.
    fn block_types(&self, i: usize) -> (Vec<ValType>, Vec<ValType>) {
        let ty = match &self.ops[i].operator {
            O::Block { blockty } | O::Loop { blockty } | O::If { blockty } | O::Try { blockty } => {
                *blockty
            }
            O::TryTable { try_table } => try_table.ty,
            _ => return (vec![], vec![]),
        };
        let all = |list: &[W]| list.iter().map(|&t| self.val(t)).collect();
        match ty {
            wasmparser::BlockType::Empty => (vec![], vec![]),
            wasmparser::BlockType::Type(one) => (vec![], vec![self.val(one)]),
            wasmparser::BlockType::FuncType(n) => {
                let shape = self.r.app.types.get(n as usize).and_then(Option::as_ref);
                shape.map_or_else(Default::default, |t| (all(&t.0), all(&t.1)))
            }
        }
    }
}
