//! Finds the function that a probe calls instead of an instruction, if a local variable holds it.
//!
//! The function must be known while compiling. So a variable in the argument of the call is
//! replaced by its value, wherever statements before the call determine that value, as in version
//! 2.0.1.

use crate::events::Function as EventFunction;
use crate::fold;
use crate::hir::{Builtin, Expr, ExprKind, Place, Stmt, Var};
use std::collections::HashMap;

/// Known values of local variables between two statements.
type Values = HashMap<u32, Expr>;

/// Replaces variables by values, in the calls of a body.
pub(super) fn settle(stmts: &mut [Stmt]) {
    block(stmts, &mut Values::new());
}

fn block(stmts: &mut [Stmt], values: &mut Values) {
    for stmt in stmts {
        match stmt {
            Stmt::Declare(local, Some(value)) => set(*local, value, values),
            Stmt::Declare(local, None) => {
                values.remove(local);
            }
            Stmt::Assign(Place::Var(Var::Local(local), _), value) => set(*local, value, values),
            Stmt::Do(Expr {
                kind:
                    ExprKind::Builtin(
                        Builtin::Event(EventFunction::AltCallById | EventFunction::AltCallByName),
                        args,
                    ),
                ..
            }) => {
                for arg in args {
                    *arg = known(arg, values).unwrap_or_else(|| arg.clone());
                }
            }
            Stmt::If(_, yes, no) => {
                let (mut after_yes, mut after_no) = (values.clone(), values.clone());
                block(yes, &mut after_yes);
                block(no, &mut after_no);
                after_yes
                    .retain(|local, value| after_no.get(local).is_some_and(|no| no.same(value)));
                *values = after_yes;
            }
            Stmt::Count(_, _, _, body) | Stmt::Each(_, _, _, body) | Stmt::While(_, _, body) => {
                // The body may have been executed before.
                forget(body, values);
                block(body, &mut values.clone());
            }
            other => forget(std::slice::from_ref(other), values),
        }
    }
}

fn set(local: u32, value: &Expr, values: &mut Values) {
    match known(value, values) {
        Some(value) => values.insert(local, value),
        None => values.remove(&local),
    };
}

/// Forgets the values of variables that statements write.
fn forget(stmts: &[Stmt], values: &mut Values) {
    for stmt in stmts {
        stmt.visit(&mut |stmt| match stmt {
            Stmt::Declare(local, _) | Stmt::Count(local, ..) => {
                values.remove(local);
            }
            Stmt::Each(key, value, ..) => {
                values.remove(key);
                value.iter().for_each(|value| drop(values.remove(value)));
            }
            Stmt::Assign(place, _) | Stmt::Update(place, ..) => {
                if let Some(local) = written(place) {
                    values.remove(&local);
                }
            }
            _ => {}
        });
    }
}

/// The local variable that is written with a place.
fn written(place: &Place) -> Option<u32> {
    match place {
        Place::Var(Var::Local(local), _) => Some(*local),
        Place::Field(inner, _) => written(inner),
        _ => None,
    }
}

/// Replaces variables by values in an expression, if it is known when a site is matched.
fn known(e: &Expr, values: &Values) -> Option<Expr> {
    let again = |inner: &Expr| known(inner, values);
    let kind = match &e.kind {
        ExprKind::Var(Var::Local(local)) => return values.get(local).cloned(),
        ExprKind::Cast(inner) => ExprKind::Cast(again(inner)?.into()),
        ExprKind::Unary(op, inner) => ExprKind::Unary(*op, again(inner)?.into()),
        ExprKind::Binary(op, a, b) => ExprKind::Binary(*op, again(a)?.into(), again(b)?.into()),
        ExprKind::Choice(three) => {
            let [c, a, b] = &**three;
            ExprKind::Choice([again(c)?, again(a)?, again(b)?].into())
        }
        _ if e.is_static() => return Some(e.clone()),
        _ => return None,
    };
    Some(fold::pure(Expr { kind, ..e.clone() }))
}
