//! Divisions of constants that have no value: by zero, or of the least number by -1.
//!
//! Where control comes to one it traps, and takes the program with it; so it is an error, unless it
//! stands on a side that is never computed. Something else divided by a constant zero is left as it
//! is written, with a warning.

use super::Checker;
use crate::diagnostic::Kind;
use crate::fold;
use crate::hir::{Body, Expr, ExprKind, Stmt};
use crate::source::Span;
use crate::syntax::ast::BinOp;

/// What is found in a body.
#[derive(Default)]
struct Search {
    /// Sides that are never computed.
    dead: Vec<Span>,
    /// Where there is no value; and whether that is sure.
    found: Vec<(Span, bool)>,
}

impl Search {
    /// Looks at one expression; those that it is a part of came before.
    fn look(&mut self, e: &Expr) {
        if self.dead.iter().any(|dead| dead.start <= e.span.start && e.span.end <= dead.end) {
            return;
        }
        let known = |e: &Expr| {
            if let ExprKind::Bool(b) = fold::pure(e.clone()).kind { Some(b) } else { None }
        };
        match &e.kind {
            ExprKind::Binary(op @ (BinOp::And | BinOp::Or), a, b)
                if known(a) == Some(*op == BinOp::Or) =>
            {
                self.dead.push(b.span);
            }
            ExprKind::Choice(three) => {
                if let Some(yes) = known(&three[0]) {
                    self.dead.push(three[if yes { 2 } else { 1 }].span);
                }
            }
            ExprKind::Binary(BinOp::Div | BinOp::Rem, a, b) if e.ty.is_int() => {
                let (a, b) = (fold::pure((**a).clone()), fold::pure((**b).clone()));
                let constants = fold::is_constant(&a) && fold::is_constant(&b);
                if constants && !fold::is_constant(&fold::pure(e.clone()))
                    || b.kind == ExprKind::Int(0)
                {
                    self.found.push((e.span, constants));
                }
            }
            _ => {}
        }
    }
}

/// Where statements divide what they update by zero.
fn updates(stmts: &[Stmt]) -> Vec<(Span, bool)> {
    let mut found = Vec::new();
    stmts.iter().for_each(|stmt| {
        stmt.visit(&mut |stmt| {
            if let Stmt::Update(place, BinOp::Div | BinOp::Rem, value) = stmt
                && place.ty().is_int()
                && fold::pure(value.clone()).kind == ExprKind::Int(0)
            {
                found.push((value.span, false));
            }
        });
    });
    found
}

impl Checker<'_> {
    /// Says which divisions in a body have no value.
    pub(super) fn divisions_of(&mut self, body: &Body) {
        let mut search = Search::default();
        body.walk(&mut |e| search.look(e));
        search.found.extend(updates(&body.stmts));
        self.say_divisions(search);
    }

    /// Says which divisions in statements have no value.
    pub(super) fn divisions_in(&mut self, stmts: &[Stmt]) {
        let mut search = Search::default();
        stmts.iter().for_each(|stmt| stmt.walk(&mut |e| search.look(e)));
        search.found.extend(updates(stmts));
        self.say_divisions(search);
    }

    fn say_divisions(&mut self, search: Search) {
        for (span, sure) in search.found {
            let help = "divide where the divisor is not zero, as in `n != 0 && x / n > 1`";
            let (kind, message) = if sure {
                (Kind::ArithmeticError, "this division has no value")
            } else {
                (
                    Kind::TypeCheckWarning,
                    "this divides by zero: the program traps where it is reached",
                )
            };
            self.said.push_help(kind, Some(span), message, help);
        }
    }
}
