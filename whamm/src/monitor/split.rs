//! Splits a predicate into the part that is known when a site is matched and the rest.
//!
//! The largest parts that are known then are taken as letters. For each assignment of truth values
//! to the letters the predicate is folded; the rest has to be tested each time. Assignments with
//! the same rest make one case, and those with the rest `false` make none.

use crate::fold;
use crate::hir::{Expr, ExprKind};
use crate::syntax::ast::{BinOp, UnOp};
use crate::types::Ty;

/// With more letters than this, the table would be too large, and everything is tested each time.
const MOST: usize = 4;

/// Sites of one kind.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Case {
    /// The condition on its sites: none means all.
    pub(super) condition: Option<Expr>,
    /// The rest, which is tested each time.
    pub(super) residue: Option<Expr>,
}

fn letters(e: &Expr, list: &mut Vec<Expr>) {
    if e.ty == Ty::Bool && e.is_static() && !fold::is_constant(e) {
        if !list.contains(e) {
            list.push(e.clone());
        }
        return;
    }
    match &e.kind {
        ExprKind::Binary(op, a, b) if op.is_logic() => {
            letters(a, list);
            letters(b, list);
        }
        ExprKind::Unary(UnOp::Not, a) => letters(a, list),
        ExprKind::Choice(three) => three.iter().for_each(|e| letters(e, list)),
        _ => {}
    }
}

fn assigned(e: &Expr, list: &[Expr], truths: usize) -> Expr {
    if let Some(n) = list.iter().position(|l| l == e) {
        return Expr { kind: ExprKind::Bool(truths >> n & 1 == 1), ..e.clone() };
    }
    let sub = |e: &Expr| assigned(e, list, truths);
    let kind = match &e.kind {
        ExprKind::Binary(op, a, b) => ExprKind::Binary(*op, Box::new(sub(a)), Box::new(sub(b))),
        ExprKind::Unary(op, a) => ExprKind::Unary(*op, Box::new(sub(a))),
        ExprKind::Choice(three) => {
            ExprKind::Choice(Box::new([sub(&three[0]), sub(&three[1]), sub(&three[2])]))
        }
        other => other.clone(),
    };
    Expr { kind, ..e.clone() }
}

fn join(op: BinOp, a: Option<Expr>, b: Expr) -> Expr {
    match a {
        None => b,
        Some(a) => Expr {
            ty: Ty::Bool,
            span: a.span,
            kind: ExprKind::Binary(op, Box::new(a), Box::new(b)),
        },
    }
}

/// The conjunction of the letters of an assignment.
fn minterm(list: &[Expr], truths: usize) -> Expr {
    let mut all = None;
    for (n, letter) in list.iter().enumerate() {
        let literal = if truths >> n & 1 == 1 {
            letter.clone()
        } else {
            Expr {
                ty: Ty::Bool,
                span: letter.span,
                kind: ExprKind::Unary(UnOp::Not, Box::new(letter.clone())),
            }
        };
        all = Some(join(BinOp::And, all, literal));
    }
    all.unwrap_or(Expr {
        kind: ExprKind::Bool(true),
        ty: Ty::Bool,
        span: crate::source::Span::default(),
    })
}

/// The cases of a predicate.
pub(super) fn cases(predicate: Option<&Expr>) -> Vec<Case> {
    let Some(predicate) = predicate else { return vec![Case { condition: None, residue: None }] };
    let mut list = Vec::new();
    letters(predicate, &mut list);
    if list.is_empty() || list.len() > MOST {
        return vec![Case { condition: None, residue: Some(predicate.clone()) }];
    }
    // A predicate that is known as a whole is tested unchanged.
    if list[..] == [predicate.clone()] {
        return vec![Case { condition: Some(predicate.clone()), residue: None }];
    }
    let mut found: Vec<(Option<Expr>, Vec<usize>)> = Vec::new();
    for truths in 0..1usize << list.len() {
        let residue = fold::pure(assigned(predicate, &list, truths));
        let residue = match residue.kind {
            ExprKind::Bool(false) => continue,
            ExprKind::Bool(true) => None,
            _ => Some(residue),
        };
        match found.iter_mut().find(|f| f.0 == residue) {
            Some(case) => case.1.push(truths),
            None => found.push((residue, vec![truths])),
        }
    }
    let all = 1usize << list.len();
    let case = |(residue, truths): (Option<Expr>, Vec<usize>)| {
        let mut condition = None;
        for t in truths.iter().filter(|_| truths.len() < all) {
            condition = Some(join(BinOp::Or, condition, minterm(&list, *t)));
        }
        Case { condition: condition.map(|c| shorter(c, &list, &truths)), residue }
    };
    found.into_iter().map(case).collect()
}

/// A condition that depends on one letter only is replaced by that letter, or its negation.
fn shorter(condition: Expr, list: &[Expr], truths: &[usize]) -> Expr {
    for (n, letter) in list.iter().enumerate() {
        for wanted in [1, 0] {
            let exactly =
                (0..1usize << list.len()).all(|t| truths.contains(&t) == ((t >> n & 1) == wanted));
            if exactly && wanted == 1 {
                return letter.clone();
            }
            if exactly {
                return Expr {
                    ty: Ty::Bool,
                    span: letter.span,
                    kind: ExprKind::Unary(UnOp::Not, Box::new(letter.clone())),
                };
            }
        }
    }
    condition
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Bound;
    use crate::source::Span;

    fn equals(bound: Bound, n: i128) -> Expr {
        let side = |kind| Box::new(Expr { kind, ty: Ty::I32, span: Span::default() });
        Expr {
            kind: ExprKind::Binary(BinOp::Eq, side(ExprKind::Bound(bound)), side(ExprKind::Int(n))),
            ty: Ty::Bool,
            span: Span::default(),
        }
    }

    fn both(op: BinOp, a: Expr, b: Expr) -> Expr {
        Expr {
            kind: ExprKind::Binary(op, Box::new(a), Box::new(b)),
            ty: Ty::Bool,
            span: Span::default(),
        }
    }

    #[test]
    fn a_mixed_predicate_becomes_a_case_for_each_residue() {
        let (known, dynamic) = (equals(Bound::Fid, 1), equals(Bound::Arg(0), 2));
        let either = cases(Some(&both(BinOp::Or, known.clone(), dynamic.clone())));
        assert_eq!(either.len(), 2);
        assert!(either.contains(&Case { condition: Some(known.clone()), residue: None }));
        assert!(either.iter().any(|c| c.residue == Some(dynamic.clone())));
        let and = cases(Some(&both(BinOp::And, known.clone(), dynamic.clone())));
        assert_eq!(and, vec![Case { condition: Some(known), residue: Some(dynamic) }]);
    }
}
