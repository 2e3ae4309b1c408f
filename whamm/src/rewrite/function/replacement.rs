//! Instructions and blocks that a probe's code stands in for.

use super::*;

impl<'a> Walker<'_, 'a> {
    /// Writes probes instead of an instruction. Where a predicate is left to be tested, the instruction is the other arm.
    pub(super) fn replace(&mut self, i: usize, alts: &[Action<'a>], saved: &[(u32, ValType)]) -> Result<(), wasmparser::Error> {
        let operator = self.ops[i].operator.clone();
        let span = alts[0].probe.span;
        if alts.len() > 1 {
            self.r.support.refused.push((
                span,
                "two probes replace the same instruction".into(),
                "make their predicates exclude each other, or write one probe".into(),
            ));
        }
        let action = &alts[0];
        let results = {
            let mut list = self.result_types(i);
            list.reverse();
            list.into_iter().map(|t| self.val(t)).collect::<Vec<_>>()
        };
        let held: Vec<u32> = results.iter().map(|&t| self.locals.take(t)).collect();
        let callees = (0..u32::try_from(self.r.app.functions.len()).unwrap_or(0))
            .map(|f| {
                let (p, r) = self.r.app.shape(f);
                (self.r.remap.function(f), p.iter().map(|&t| val(t)).collect(), r.iter().map(|&t| val(t)).collect())
            })
            .collect();
        let mut names: HashMap<String, u32> = (0..).zip(&self.r.app.imports).map(|(n, i)| (i.name.to_string(), n)).collect();
        names.extend(
            self.r.app.exports.iter().filter(|e| e.kind == wasmparser::ExternalKind::Func).map(|e| (e.name.to_string(), e.index)),
        );
        names.extend(self.r.app.names.iter().map(|(&n, name)| (name.to_string(), n)));
        let operands: Vec<(u32, ValType)> = saved.iter().rev().copied().collect();
        let more = Scope { operands: operands.clone(), callees, results: held.clone(), callee_names: names, ..Scope::default() };
        let (drops, calls) = replaces(&action.probe.body.stmts);
        if let Some(predicate) = &action.predicate {
            let site_code = self.condition(action, i, saved, predicate);
            self.out.extend(site_code);
            let ty = match results[..] {
                [] => BlockType::Empty,
                [one] => BlockType::Result(one),
                _ => BlockType::FunctionType(self.r.support.ty(&(vec![], results.clone()))),
            };
            self.put().if_(ty);
        }
        self.action(action, i, saved, &[], true, Some(more));
        if calls {
            for local in &held {
                self.put().local_get(*local);
            }
        } else if !drops {
            for (local, _) in &operands {
                self.put().local_get(*local);
            }
        }
        let left = if calls {
            results.len()
        } else if drops {
            0
        } else {
            operands.len()
        };
        if left != results.len() && !never_returns(&operator) {
            let message = format!("the instruction gives {} values, and its replacement leaves {left}", results.len());
            let help = "use `drop_args()` if it gives none, or `alt_call_by_name(...)` to call a function of the same type";
            self.r.support.refused.push((span, message, help.into()));
        }
        self.moved.push((self.ops[i].offset, self.out.len()));
        if action.predicate.is_some() {
            self.put().else_();
            for (local, _) in &operands {
                self.put().local_get(*local);
            }
            let labels =
                !walk::interrupts(&operator) || matches!(operator, O::Call { .. } | O::CallIndirect { .. } | O::CallRef { .. });
            if !labels {
                let message = "a branch cannot be replaced under a condition that is known only at run time";
                self.r.support.refused.push((span, message.into(), "put the condition into the body of a `before` probe".into()));
            }
            self.write_op(i);
            self.put().end();
        }
        self.validator.op(self.ops[i].offset, &operator)
    }

    pub(super) fn condition(&mut self, action: &Action<'a>, i: usize, saved: &[(u32, ValType)], predicate: &Expr) -> Vec<u8> {
        let scope = self.scope(action, i, saved, &[]);
        let (pc, index, last) = self.site(i, false);
        let site = Site { facts: &self.r.facts, fid: self.fid, op: Some(&self.ops[i]), pc, index, last };
        let mut emitter = Emitter::new(&mut self.r.support, &mut self.locals, &scope, &site, self.r.program, self.r.libraries);
        emitter.expr(predicate);
        std::mem::take(&mut emitter.out)
    }

    /// A probe that replaces the whole block which begins here.
    pub(super) fn block_replacement(&mut self, i: usize) -> Option<Action<'a>> {
        let probes = self.probes(i, &[Mode::BlockAlt]);
        let args = if probes.is_empty() { vec![] } else { self.stack(self.takes(i)) };
        let mut actions = self.match_all(&probes, i, &args, &[]);
        (!actions.is_empty()).then(|| actions.remove(0))
    }

    pub(super) fn replace_block(&mut self, i: usize, action: &Action<'a>) -> Result<usize, wasmparser::Error> {
        let span = action.probe.span;
        let mut end = self.ops[i].partner;
        if self.ops[i].nesting == Nesting::Else {
            end = self.ops[self.ops[i].partner].partner;
        }
        let takes = self.ops[i].operator.operator_arity(&self.validator).map_or(0, |a| a.0);
        let condition = u32::from(self.ops[i].nesting == Nesting::If);
        let gives = self.block_results(i);
        if action.predicate.is_some() || takes != condition || gives != 0 || self.ops[i].nesting == Nesting::Else {
            let message = "this block cannot be replaced: its condition is known only at run time, or it takes or gives values";
            self.r.support.refused.push((
                span,
                message.into(),
                "replace the instructions in it, or match a block without parameters and results".into(),
            ));
        }
        let mark = self.locals.mark();
        if condition == 1 {
            self.put().drop();
        }
        self.action(action, i, &[], &[], true, None);
        for k in i..=end {
            self.moved.push((self.ops[k].offset, self.out.len()));
            let operator = self.ops[k].operator.clone();
            self.validator.op(self.ops[k].offset, &operator)?;
        }
        self.locals.release(mark);
        Ok(end + 1)
    }

    pub(super) fn block_results(&self, i: usize) -> usize {
        let ty = match &self.ops[i].operator {
            O::Block { blockty } | O::Loop { blockty } | O::If { blockty } => *blockty,
            O::TryTable { try_table } => try_table.ty,
            _ => return 0,
        };
        match ty {
            wasmparser::BlockType::Empty => 0,
            wasmparser::BlockType::Type(_) => 1,
            wasmparser::BlockType::FuncType(n) => {
                self.r.app.types.get(n as usize).and_then(Option::as_ref).map_or(0, |t| t.1.len())
            }
        }
    }
}
