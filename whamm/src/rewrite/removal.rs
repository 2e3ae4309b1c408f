//! Self-removing probes.
//!
//! An engine removes such a probe from its site; in a rewritten program, a flag of the site records
//! that it is removed. If a probe only sets its own variables to constants, it needs no flag:
//! running it again changes nothing.

use crate::events::Bound;
use crate::fold;
use crate::hir::{Body, Builtin, Expr, ExprKind, Place, Program, Stmt, Var, Variable};
use crate::syntax::ast::{BinOp, UnOp};
use crate::types::Ty;
use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

/// Whether a statement removes its own probe.
fn is_removal(stmt: &Stmt) -> bool {
    let Stmt::Do(Expr { kind: ExprKind::Builtin(Builtin::RemoveProbe, args), .. }) = stmt else {
        return false;
    };
    args[0].kind == ExprKind::Bound(Bound::ProbeId)
}

fn removes(body: &Body) -> bool {
    let mut found = false;
    body.stmts.iter().for_each(|s| s.visit(&mut |s| found |= is_removal(s)));
    found
}

/// Whether running it again changes nothing.
fn is_done_once(body: &Body) -> bool {
    body.stmts.iter().all(|s| {
        is_removal(s)
            || matches!(s, Stmt::Assign(Place::Var(Var::Site(_), _), e) if fold::is_constant(e))
    })
}

fn replaced(stmts: &[Stmt], by: Option<&Stmt>) -> Vec<Stmt> {
    let one = |stmt: &Stmt| {
        let inner = |list: &[Stmt]| replaced(list, by);
        Some(match stmt {
            stmt if is_removal(stmt) => by?.clone(),
            Stmt::If(c, a, b) => Stmt::If(c.clone(), inner(a), inner(b)),
            Stmt::Count(n, a, b, body) => Stmt::Count(*n, a.clone(), b.clone(), inner(body)),
            Stmt::Each(k, v, map, body) => Stmt::Each(*k, *v, map.clone(), inner(body)),
            Stmt::While(c, n, body) => Stmt::While(c.clone(), *n, inner(body)),
            other => other.clone(),
        })
    };
    stmts.iter().filter_map(one).collect()
}

/// A body whose site has a flag, if it needs one.
fn remembering(body: &Body, script: u16) -> Body {
    let mut body = body.clone();
    if is_done_once(&body) {
        body.stmts = replaced(&body.stmts, None);
        return body;
    }
    let span =
        body.stmts.iter().find(|s| is_removal(s)).map_or_else(Default::default, |s| match s {
            Stmt::Do(e) => e.span,
            _ => Default::default(),
        });
    let gone = Var::Site(u32::try_from(body.sites.len()).unwrap_or(u32::MAX));
    let truth = |kind| Expr { kind, ty: Ty::Bool, span };
    body.sites.push(Variable {
        name: "".into(),
        ty: Ty::Bool,
        report: false,
        init: None,
        script,
        span,
    });
    body.stmts = replaced(
        &body.stmts,
        Some(&Stmt::Assign(Place::Var(gone, Ty::Bool), truth(ExprKind::Bool(true)))),
    );
    let there = truth(ExprKind::Unary(UnOp::Not, Box::new(truth(ExprKind::Var(gone)))));
    body.predicate = Some(match body.predicate {
        Some(p) => truth(ExprKind::Binary(BinOp::And, Box::new(there), Box::new(p))),
        None => there,
    });
    body
}

/// A program in which no probe relies on an engine to remove it.
pub(super) fn without(program: &Program) -> Cow<'_, Program> {
    if !program.probes.iter().any(|p| removes(&p.body)) {
        return Cow::Borrowed(program);
    }
    let mut program = program.clone();
    let mut done: HashMap<*const Body, Rc<Body>> = HashMap::new();
    for probe in program.probes.iter_mut().filter(|p| removes(&p.body)) {
        let body = done
            .entry(Rc::as_ptr(&probe.body))
            .or_insert_with(|| Rc::new(remembering(&probe.body, probe.script)));
        probe.body = body.clone();
    }
    Cow::Owned(program)
}
