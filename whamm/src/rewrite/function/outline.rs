//! Bodies that call libraries stand in functions of their own, which the sites share; only in tight loops they are written
//! out in place.

use super::*;
use crate::hir::{Body, Builtin};
use crate::types::Ty;

/// What is known of a site but for the distance from its operand's address, which is handed over.
struct WithoutOffset<'s>(&'s Site<'s>);

impl Known for WithoutOffset<'_> {
    fn bound(&self, bound: Bound, ty: &Ty) -> Option<ExprKind> {
        if bound == Bound::Offset { None } else { self.0.bound(bound, ty) }
    }

    fn builtin(&self, builtin: &Builtin, args: &[Expr]) -> Option<ExprKind> {
        self.0.builtin(builtin, args)
    }

    fn library(&self, call: &crate::hir::LibraryCall, args: &[Expr]) -> Option<ExprKind> {
        self.0.library(call, args)
    }
}

/// What a body asks for that it can be handed over: operands, and whether also the offset; none if it asks for more, or calls nothing.
fn handed_over(body: &Body) -> Option<(BTreeSet<u8>, bool)> {
    let (mut operands, mut offset, mut calls, mut more) = (BTreeSet::new(), false, false, false);
    body.walk(&mut |e| match &e.kind {
        ExprKind::Bound(Bound::Arg(n)) => {
            operands.insert(*n);
        }
        ExprKind::Bound(Bound::Offset) => offset = true,
        ExprKind::Bound(b) => more |= !b.is_static(),
        ExprKind::Var(Var::Global(_)) => {}
        ExprKind::Var(_) | ExprKind::Builtin(..) | ExprKind::Call(..) => more = true,
        ExprKind::Library(call, _) => calls |= !call.at_match,
        _ => {}
    });
    more |= !(body.sites.is_empty() && body.locals.is_empty() && body.assigned.is_empty() && body.inits.is_empty());
    (calls && !more).then_some((operands, offset))
}

impl<'a> Walker<'_, 'a> {
    /// Writes a call of a function with the body of an action, if it can be one and is not better written out in place.
    pub(super) fn call_body(&mut self, action: &Action<'a>, i: usize, args: &[(u32, ValType)], at_entry: bool) -> bool {
        if at_entry || self.tight[i] {
            return false;
        }
        let Some((operands, offset)) = handed_over(&action.probe.body) else { return false };
        let Some(operands) = operands.iter().map(|&n| Some((n, *args.get(usize::from(n))?))).collect::<Option<Vec<_>>>() else {
            return false;
        };
        let mut shape: Vec<ValType> = operands.iter().map(|o| o.1.1).collect();
        let mut scope = Scope { globals: self.r.globals.clone(), repeated: true, ..Scope::default() };
        for (local, (n, _)) in (0..).zip(&operands) {
            scope.bounds.insert(Bound::Arg(*n), Storage::Locals(local));
        }
        let (pc, index, last) = self.site(i, false);
        let site = Site { facts: &self.r.facts, fid: self.fid, op: Some(&self.ops[i]), pc, index, last };
        let far = if offset { site.bound(Bound::Offset, &Ty::U64) } else { None };
        if let Some(ExprKind::Int(_)) = far {
            scope.bounds.insert(Bound::Offset, Storage::Locals(u32::try_from(shape.len()).unwrap_or(0)));
            shape.push(ValType::I64);
        }
        let mut locals = Locals::new(u32::try_from(shape.len()).unwrap_or(0));
        let known = WithoutOffset(&site);
        let mut emitter = Emitter::new(&mut self.r.support, &mut locals, &scope, &known, self.r.program, self.r.libraries);
        let body = &action.probe.body;
        emitter.body(action.predicate.as_ref(), action.rest.as_ref().unwrap_or(&body.stmts));
        let code = std::mem::take(&mut emitter.out);
        let callee = self.r.support.shared_body(shape, locals.types(), &code);
        for (_, (local, _)) in operands {
            self.put().local_get(local);
        }
        if let Some(ExprKind::Int(far)) = far {
            self.put().i64_const(i64::try_from(far).unwrap_or(0));
        }
        self.put().call(callee);
        true
    }
}
