//! Divisions of constants without a value: by zero, or of the least number by -1.
//!
//! Such a division traps and ends the program; so it is an error, unless it is in an operand that
//! is never evaluated. A division of anything else by a constant zero is left unchanged, with a
//! warning.

use super::Checker;
use crate::diagnostic::Kind;
use crate::fold;
use crate::hir::{Body, Expr, ExprKind, Stmt};
use crate::source::Span;
use crate::syntax::ast::BinOp;

/// The findings in a body.
#[derive(Default)]
struct Search {
    /// Operands that are never evaluated.
    dead: Vec<Span>,
    /// Divisions without a value; and whether that is certain.
    found: Vec<(Span, bool)>,
}

impl Search {
    /// Checks one expression; the expressions that contain it were checked before.
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

/// Finds statements that divide a place by zero.
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
    /// Reports divisions without a value in a body.
    pub(super) fn divisions_of(&mut self, body: &Body) {
        let mut search = Search::default();
        body.walk(&mut |e| search.look(e));
        search.found.extend(updates(&body.stmts));
        self.say_divisions(search);
    }

    /// Reports divisions without a value in statements.
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
