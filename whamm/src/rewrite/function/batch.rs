//! Batched calls: calls of libraries are delayed and made together.
//!
//! A library that is part of the module cannot see the program, and the program cannot see the
//! library. So it may be called anywhere in a straight-line region, as long as the order of calls
//! stays the same: the operands wait in locals until an instruction after which control may not
//! continue, or one that another probe reads. Sites with the same statements then share one call.
//!
//! Where the program is likely to spend its time, inline code first checks whether any of them has
//! something to do. The check changes nothing, so one check of all of them is valid if each answers
//! no.

use super::outline::{Shared, bound_to, deepest, rare};
use super::*;
use crate::events;
use crate::fold::Nothing;
use crate::hir::Stmt;
use crate::syntax::ast::BinOp;

/// How many sites may share a call.
const MOST: usize = 4;

/// With at most this many sites, a tight loop has even the rare case inline.
const FEW: usize = 2;

/// A site whose call is delayed.
#[derive(Debug)]
pub(super) struct Waiting {
    shared: Shared,
    values: Vec<Expr>,
    operands: HashMap<Bound, Storage>,
    /// Locals reserved for this site until the call is made.
    held: Vec<(u32, ValType)>,
    hot: bool,
    /// Whether even the rarer case is inline.
    tight: bool,
}

/// Delayed calls.
#[derive(Default)]
pub(super) struct Batch {
    waiting: Vec<Waiting>,
    /// Free locals that held operands before.
    spare: Vec<(u32, ValType)>,
}

impl<'a> Walker<'_, 'a> {
    /// Delays the only action at an instruction, if that pays off: its operands are saved, and stay
    /// on the stack.
    pub(super) fn postpone(&mut self, action: &Action<'a>, i: usize, args: &[W]) -> bool {
        if self.r.options.exact_traps || walk::interrupts(&self.ops[i].operator) {
            return false;
        }
        let Some((shared, values)) = self.handed(action, i, true) else { return false };
        let hot = self.is_hot(i);
        let fits =
            self.batch.waiting.last().is_some_and(|last| last.shared == shared && last.hot == hot);
        let worth = if hot { self.asks_first(&shared) } else { fits || self.followed(i) };
        if !worth || !self.only_guests(action) {
            return false;
        }
        if !fits || self.batch.waiting.len() == MOST {
            self.make_calls();
        }
        let Some((operands, held)) = self.put_by(&values, args) else { return false };
        let tight = hot && self.heat.tight[i];
        self.batch.waiting.push(Waiting { shared, values, operands, held, hot, tight });
        true
    }

    /// Whether the body begins with a condition that changes nothing.
    fn asks_first(&self, shared: &Shared) -> bool {
        let Some((unless, _)) = rare(&shared.stmts) else { return false };
        let mut pure = true;
        unless.walk(&mut |e| {
            pure &= match &e.kind {
                ExprKind::Library(call, _) => {
                    self.r.support.only_asks(call.library, &call.function)
                }
                ExprKind::Binary(op, ..) => !matches!(op, BinOp::Div | BinOp::Rem),
                _ => true,
            }
        });
        pure
    }

    fn only_guests(&self, action: &Action<'a>) -> bool {
        let mut only = true;
        action.probe.body.walk(&mut |e| {
            if let ExprKind::Library(call, _) = &e.kind {
                only &= call.at_match || self.r.support.is_guest(call.library);
            }
        });
        only
    }

    /// Whether another site of the same access width follows in the same region.
    fn followed(&self, i: usize) -> bool {
        let width = |op: &Op<'_>| op.event.and_then(events::Instruction::accessed);
        let ahead = self.ops[i + 1..]
            .iter()
            .take_while(|op| !op.is_label() && !walk::interrupts(&op.operator));
        ahead.filter(|op| op.event.is_some_and(|e| self.r.probes.ask_operands(e))).map(width).next()
            == Some(width(&self.ops[i]))
    }

    /// Saves the operands that are read until the call is made.
    #[expect(clippy::type_complexity, reason = "where they are, and what is ours of it")]
    fn put_by(
        &mut self,
        values: &[Expr],
        args: &[W],
    ) -> Option<(HashMap<Bound, Storage>, Vec<(u32, ValType)>)> {
        let Some(deepest) = deepest(values) else { return Some((HashMap::new(), vec![])) };
        let taken: Vec<ValType> =
            args.get(..=usize::from(deepest))?.iter().map(|&t| self.val(t)).collect();
        if let Some(operands) = self.in_locals(values) {
            return Some((operands, vec![]));
        }
        let held: Vec<(u32, ValType)> = taken.into_iter().map(|ty| (self.hold(ty), ty)).collect();
        let own: Vec<u32> = held.iter().map(|h| h.0).collect();
        for (n, &local) in own.iter().enumerate() {
            if n + 1 == own.len() {
                self.put().local_tee(local);
            } else {
                self.put().local_set(local);
            }
        }
        for &local in own.iter().rev().skip(1) {
            self.put().local_get(local);
        }
        Some((bound_to(&own), held))
    }

    /// Where the operands that are read are, if all of them are still values of the program's
    /// locals.
    fn in_locals(&self, values: &[Expr]) -> Option<HashMap<Bound, Storage>> {
        let mut found = Some(HashMap::new());
        let mut look = |e: &Expr| {
            if let ExprKind::Bound(Bound::Arg(n)) = e.kind {
                match (self.origin(n), &mut found) {
                    (Some(local), Some(all)) => {
                        all.insert(Bound::Arg(n), Storage::Locals(local));
                    }
                    _ => found = None,
                }
            }
        };
        values.iter().for_each(|value| value.walk(&mut look));
        found
    }

    fn hold(&mut self, ty: ValType) -> u32 {
        let free = self.batch.spare.iter().position(|s| s.1 == ty);
        free.map_or_else(|| self.locals.keep(ty), |n| self.batch.spare.swap_remove(n).0)
    }

    /// Before an instruction: makes calls that cannot wait until after it.
    pub(super) fn before(&mut self, i: usize) {
        let due = match self.ops[i].operator {
            O::LocalSet { local_index } | O::LocalTee { local_index } => self
                .batch
                .waiting
                .iter()
                .any(|w| w.operands.values().any(|s| *s == Storage::Locals(local_index))),
            ref op => self.ops[i].is_label() || walk::interrupts(op),
        };
        if due {
            self.make_calls();
        }
    }

    /// Makes the delayed calls.
    pub(super) fn make_calls(&mut self) {
        let waiting = std::mem::take(&mut self.batch.waiting);
        let Some(first) = waiting.first() else { return };
        let mark = self.locals.mark();
        if first.hot {
            self.ask_and_call(&waiting);
        } else if let Some(callee) = self.callee(&first.shared, waiting.len(), false) {
            for site in &waiting {
                self.hand_over(&site.values, &site.operands);
            }
            self.put().call(callee);
        }
        self.locals.release(mark);
        self.batch.spare.extend(waiting.into_iter().flat_map(|site| site.held));
    }

    /// Checks inline whether there is anything to do, and calls only then.
    fn ask_and_call(&mut self, waiting: &[Waiting]) {
        let shared = &waiting[0].shared;
        let Some((unless, no)) = rare(&shared.stmts) else { return };
        let (mut own, mut asked) = (Vec::new(), Vec::<(Vec<u8>, Vec<u32>)>::new());
        for site in waiting {
            let start = self.plan.code.len();
            self.hand_over(&site.values, &site.operands);
            let handed = self.plan.code.split_off(start);
            // The same computation has the same result.
            if let Some((_, numbers)) = asked.iter().find(|before| before.0 == handed) {
                own.extend(numbers);
                continue;
            }
            let numbers: Vec<u32> = shared.types.iter().map(|&ty| self.locals.take(ty)).collect();
            self.plan.code.extend(&handed);
            let question = self.question(unless, &numbers);
            self.set_and(&numbers, &question);
            if !asked.is_empty() {
                self.put().i32_or();
            }
            own.extend(&numbers);
            asked.push((handed, numbers));
        }
        self.put().if_(BlockType::Empty);
        match waiting {
            [one] if one.tight => self.do_plainly(no, &own),
            many if many[0].tight && many.len() <= FEW => {
                own.chunks(shared.types.len().max(1))
                    .for_each(|numbers| self.do_plainly(&shared.stmts, numbers));
            }
            [_] => {
                if let Some((callee, numbers)) = self.apart(no) {
                    self.hand_over(&numbers, &bound_to(&own));
                    self.put().call(callee);
                }
            }
            many => {
                for &local in &own {
                    self.put().local_get(local);
                }
                if let Some(callee) = self.callee(shared, many.len(), true) {
                    self.put().call(callee);
                }
            }
        }
        self.put().end();
    }

    /// Writes statements inline, with the numbers in the given locals.
    fn do_plainly(&mut self, stmts: &[Stmt], at: &[u32]) {
        let scope = Scope {
            globals: self.r.globals.clone(),
            bounds: bound_to(at),
            repeated: true,
            ..Scope::default()
        };
        let (program, libraries) = (self.r.program, self.r.libraries);
        let mut emitter = Emitter::new(
            &mut self.r.support,
            &mut self.locals,
            &scope,
            &Nothing,
            program,
            libraries,
        );
        emitter.body(None, stmts);
        let code = std::mem::take(&mut emitter.out);
        self.plan.code.extend(code);
    }

    /// Stores numbers from the stack in locals, and continues with code that may begin by reading
    /// one.
    fn set_and(&mut self, numbers: &[u32], code: &[u8]) {
        let (&[first, ref others @ ..], mut get) = (numbers, Vec::new()) else {
            self.plan.code.extend(code);
            return;
        };
        for &local in others.iter().rev() {
            self.put().local_set(local);
        }
        InstructionSink::new(&mut get).local_get(first);
        match code.strip_prefix(&get[..]) {
            Some(rest) => {
                self.put().local_tee(first);
                self.plan.code.extend(rest);
            }
            None => {
                self.put().local_set(first);
                self.plan.code.extend(code);
            }
        }
    }

    /// The code of the check: it leaves a number that is zero if there is nothing to do.
    fn question(&mut self, unless: &Expr, at: &[u32]) -> Vec<u8> {
        let scope = Scope {
            globals: self.r.globals.clone(),
            bounds: bound_to(at),
            repeated: true,
            ..Scope::default()
        };
        let (program, libraries) = (self.r.program, self.r.libraries);
        let mut emitter = Emitter::new(
            &mut self.r.support,
            &mut self.locals,
            &scope,
            &Nothing,
            program,
            libraries,
        );
        match &unless.kind {
            ExprKind::Binary(BinOp::Eq, a, b)
                if b.kind == ExprKind::Int(0) && a.ty.slots() == [ValType::I32] =>
            {
                emitter.expr(a);
            }
            _ => {
                emitter.expr(unless);
                emitter.put().i32_eqz();
            }
        }
        std::mem::take(&mut emitter.out)
    }
}
