//! Constant folding: computes values that are known while compiling.
//!
//! The same rules apply here as in the emitted code: integers wrap in the width of their type,
//! shift counts are taken modulo the width, and an operand of `&&` or `||` that is not needed is
//! not evaluated. A computation without a value is left for run time; the checker reports such
//! constants.

use crate::events::{Bound, CATEGORIES, Event};
use crate::hir::{Body, Builtin, Expr, ExprKind, Place, Stmt, Translate};
use crate::syntax::ast::{BinOp, UnOp};
use crate::types::Ty;

/// Facts about a site.
pub(crate) trait Known {
    /// The value of a variable of the event.
    fn bound(&self, bound: Bound, ty: &Ty) -> Option<ExprKind>;

    /// The value of a function of the language with constant arguments, if it depends on facts
    /// about the site.
    fn builtin(&self, _builtin: &Builtin, _args: &[Expr]) -> Option<ExprKind> {
        None
    }

    /// The value of a call of a library that is evaluated while compiling.
    fn library(&self, _call: &crate::hir::LibraryCall, _args: &[Expr]) -> Option<ExprKind> {
        None
    }
}

/// No facts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nothing;

impl Known for Nothing {
    fn bound(&self, _: Bound, _: &Ty) -> Option<ExprKind> {
        None
    }
}

/// Facts about an event, which hold at every site.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfEvent(pub(crate) Event);

impl Known for OfEvent {
    fn bound(&self, bound: Bound, _: &Ty) -> Option<ExprKind> {
        let Event::Opcode(op) = self.0 else { return None };
        let int = |n: u32| ExprKind::Int(n.into());
        Some(match bound {
            Bound::Opname => ExprKind::Str(op.opname().into()),
            Bound::CategoryId => int(op.category.into()),
            Bound::CategoryName => ExprKind::Str(CATEGORIES[usize::from(op.category)].into()),
            Bound::Bytecode => int(op.code),
            Bound::DataSize => int(op.accessed()?.0),
            Bound::IsWrite => ExprKind::Bool(op.accessed()?.1),
            _ => return None,
        })
    }
}

/// Whether a body still reads a variable after folding with the facts about its event.
pub(crate) fn asks(body: &Body, event: OfEvent, bound: Bound) -> bool {
    let in_expr = |e: &Expr| {
        let mut found = false;
        fold(e.clone(), &event).walk(&mut |e| found |= e.kind == ExprKind::Bound(bound));
        found
    };
    let first = body.sites.iter().filter_map(|site| site.init.as_ref());
    body.predicate.iter().chain(&body.inits).chain(first).any(in_expr)
        || body.stmts.iter().any(|stmt| asks_in(stmt, event, &in_expr))
}

fn asks_in(stmt: &Stmt, event: OfEvent, in_expr: &dyn Fn(&Expr) -> bool) -> bool {
    let any = |list: &[Stmt]| list.iter().any(|stmt| asks_in(stmt, event, in_expr));
    match stmt {
        Stmt::If(c, a, b) => match fold(c.clone(), &event).kind {
            ExprKind::Bool(true) => any(a),
            ExprKind::Bool(false) => any(b),
            _ => in_expr(c) || any(a) || any(b),
        },
        Stmt::Count(_, a, b, list) => in_expr(a) || in_expr(b) || any(list),
        Stmt::Each(_, _, e, list) | Stmt::While(e, _, list) => in_expr(e) || any(list),
        Stmt::Declare(_, Some(e)) | Stmt::Do(e) | Stmt::Return(Some(e)) => in_expr(e),
        Stmt::Assign(place, e) | Stmt::Update(place, _, e) => asks_at(place, in_expr) || in_expr(e),
        _ => false,
    }
}

fn asks_at(place: &Place, in_expr: &dyn Fn(&Expr) -> bool) -> bool {
    match place {
        Place::Element(map, key) => in_expr(map) || in_expr(key),
        Place::Field(inner, _) => asks_at(inner, in_expr),
        Place::Var(..) | Place::Bound(..) => false,
    }
}

/// Folds without facts about a site.
pub(crate) fn pure(e: Expr) -> Expr {
    fold(e, &Nothing)
}

/// Whether an expression is a value.
pub(crate) fn is_constant(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) | ExprKind::Str(_) => true,
        ExprKind::Tuple(parts) => parts.iter().all(is_constant),
        _ => false,
    }
}

/// Folds statements, so that what is known is computed once for all that is made of them.
pub(crate) struct Folded<'a>(pub(crate) &'a dyn Known);

impl Translate for Folded<'_> {
    fn expr(&mut self, e: &Expr) -> Expr {
        fold(e.clone(), self.0)
    }
}

/// Folds as far as the facts allow.
pub(crate) fn fold(e: Expr, known: &dyn Known) -> Expr {
    let Expr { kind, ty, span } = e;
    let sub = |e: Box<Expr>| Box::new(fold(*e, known));
    let all = |list: Vec<Expr>| list.into_iter().map(|e| fold(e, known)).collect::<Vec<_>>();
    let kind = match kind {
        ExprKind::Bound(b) => known.bound(b, &ty).unwrap_or(ExprKind::Bound(b)),
        ExprKind::Field(a, n) => match *sub(a) {
            Expr { kind: ExprKind::Tuple(mut parts), .. } if parts.iter().all(is_constant) => {
                parts.swap_remove(n as usize).kind
            }
            a => ExprKind::Field(Box::new(a), n),
        },
        ExprKind::Index(map, key) => index(sub(map), sub(key)),
        ExprKind::Tuple(parts) => ExprKind::Tuple(all(parts)),
        ExprKind::Unary(op, a) => unary(op, sub(a), &ty),
        ExprKind::Binary(op, a, b) if op.is_logic() => logic(op, fold(*a, known), *b, known),
        ExprKind::Binary(op, a, b) => {
            let (a, b) = (sub(a), sub(b));
            binary(op, &a, &b).unwrap_or(ExprKind::Binary(op, a, b))
        }
        ExprKind::Cast(a) => {
            let a = sub(a);
            cast(&a, &ty).unwrap_or(ExprKind::Cast(a))
        }
        ExprKind::Choice(three) => {
            let [cond, yes, no] = *three;
            match fold(cond, known) {
                Expr { kind: ExprKind::Bool(b), .. } => {
                    return fold(if b { yes } else { no }, known);
                }
                cond => ExprKind::Choice(Box::new([cond, fold(yes, known), fold(no, known)])),
            }
        }
        ExprKind::Call(n, args) => ExprKind::Call(n, all(args)),
        ExprKind::Builtin(b, args) => {
            let args = all(args);
            let text = if args.iter().all(is_constant) {
                textual(&b, &args).or_else(|| known.builtin(&b, &args))
            } else {
                None
            };
            text.unwrap_or(ExprKind::Builtin(b, args))
        }
        ExprKind::Library(call, args) => {
            let args = all(args);
            let value = if call.at_match && args.iter().all(is_constant) {
                known.library(&call, &args)
            } else {
                None
            };
            value.unwrap_or(ExprKind::Library(call, args))
        }
        other => other,
    };
    Expr { kind, ty, span }
}

fn index(map: Box<Expr>, key: Box<Expr>) -> ExprKind {
    if let (ExprKind::Table(values), ExprKind::Int(n)) = (&map.kind, &key.kind) {
        let found = usize::try_from(*n).ok().and_then(|n| values.get(n)).copied();
        return ExprKind::Int(found.unwrap_or(0).into());
    }
    ExprKind::Index(map, key)
}

fn unary(op: UnOp, a: Box<Expr>, ty: &Ty) -> ExprKind {
    match (op, &a.kind) {
        (UnOp::Not, ExprKind::Bool(b)) => ExprKind::Bool(!b),
        (UnOp::Flip, ExprKind::Int(n)) => ExprKind::Int(ty.wrap(!n)),
        (UnOp::Neg, ExprKind::Int(n)) => ExprKind::Int(ty.wrap(-n)),
        (UnOp::Neg, ExprKind::Float(x)) => ExprKind::Float(-x),
        _ => ExprKind::Unary(op, a),
    }
}

fn logic(op: BinOp, a: Expr, b: Expr, known: &dyn Known) -> ExprKind {
    let decides = op == BinOp::Or;
    match a.kind {
        ExprKind::Bool(v) if v == decides => ExprKind::Bool(v),
        ExprKind::Bool(_) => fold(b, known).kind,
        _ => {
            let b = fold(b, known);
            match b.kind {
                ExprKind::Bool(v) if v != decides => a.kind,
                // The left operand has no effects unless it contains a call.
                ExprKind::Bool(v) if !calls(&a) => ExprKind::Bool(v),
                _ => ExprKind::Binary(op, Box::new(a), Box::new(b)),
            }
        }
    }
}

/// Whether evaluating an expression can have effects.
pub(crate) fn calls(e: &Expr) -> bool {
    let mut found = false;
    e.walk(&mut |e| {
        let division = match &e.kind {
            ExprKind::Binary(BinOp::Div | BinOp::Rem, _, by) if e.ty.is_int() => {
                !matches!(by.kind, ExprKind::Int(by) if by != 0 && by != -1)
            }
            _ => false,
        };
        found |= division
            || matches!(e.kind, ExprKind::Call(..) | ExprKind::Builtin(..) | ExprKind::Library(..));
    });
    found
}

fn binary(op: BinOp, a: &Expr, b: &Expr) -> Option<ExprKind> {
    let ty = &a.ty;
    Some(match (&a.kind, &b.kind) {
        (ExprKind::Int(x), ExprKind::Int(y)) => return int(op, *x, *y, ty),
        (ExprKind::Float(x), ExprKind::Float(y)) => return Some(float(op, *x, *y, ty)),
        (ExprKind::Bool(x), ExprKind::Bool(y)) if op.compares() => {
            ExprKind::Bool((x == y) == (op == BinOp::Eq))
        }
        (ExprKind::Str(x), ExprKind::Str(y)) if op.compares() => {
            ExprKind::Bool((x == y) == (op == BinOp::Eq))
        }
        (x, ExprKind::Int(0)) | (ExprKind::Int(0), x) if op == BinOp::Add => x.clone(),
        _ => return None,
    })
}

fn int(op: BinOp, x: i128, y: i128, ty: &Ty) -> Option<ExprKind> {
    let (bits, _) = ty.bits()?;
    let shift = u32::try_from(y.rem_euclid(i128::from(bits.max(32)))).ok()?;
    let value = match op {
        BinOp::Add => x + y,
        BinOp::Sub => x - y,
        BinOp::Mul => x.wrapping_mul(y),
        BinOp::Div if y == 0 || (y == -1 && Some(x) == ty.range().map(|r| r.0) && bits >= 32) => {
            return None;
        }
        BinOp::Div => x / y,
        BinOp::Rem if y == 0 => return None,
        BinOp::Rem => x % y,
        BinOp::BitAnd => x & y,
        BinOp::BitOr => x | y,
        BinOp::BitXor => x ^ y,
        BinOp::Shl => x.checked_shl(shift)?,
        BinOp::Shr => x >> shift,
        BinOp::Eq => return Some(ExprKind::Bool(x == y)),
        BinOp::Ne => return Some(ExprKind::Bool(x != y)),
        BinOp::Ge => return Some(ExprKind::Bool(x >= y)),
        BinOp::Gt => return Some(ExprKind::Bool(x > y)),
        BinOp::Le => return Some(ExprKind::Bool(x <= y)),
        BinOp::Lt => return Some(ExprKind::Bool(x < y)),
        BinOp::And | BinOp::Or => return None,
    };
    Some(ExprKind::Int(ty.wrap(value)))
}

#[expect(clippy::cast_possible_truncation, reason = "f32 rounds as the program would")]
fn round(x: f64, ty: &Ty) -> f64 {
    if *ty == Ty::F32 { f64::from(x as f32) } else { x }
}

#[expect(clippy::float_cmp, reason = "the language compares so")]
fn float(op: BinOp, x: f64, y: f64, ty: &Ty) -> ExprKind {
    let value = match op {
        BinOp::Add => x + y,
        BinOp::Sub => x - y,
        BinOp::Mul => x * y,
        BinOp::Div => x / y,
        BinOp::Rem => {
            return ExprKind::Float(
                round(x - round((round(x / y, ty)).trunc() * y, ty), ty).copysign(x),
            );
        }
        BinOp::Eq => return ExprKind::Bool(x == y),
        BinOp::Ne => return ExprKind::Bool(x != y),
        BinOp::Ge => return ExprKind::Bool(x >= y),
        BinOp::Gt => return ExprKind::Bool(x > y),
        BinOp::Le => return ExprKind::Bool(x <= y),
        _ => return ExprKind::Bool(x < y),
    };
    ExprKind::Float(round(value, ty))
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "conversions lose what the type cannot hold"
)]
fn cast(a: &Expr, to: &Ty) -> Option<ExprKind> {
    Some(match (&a.kind, to) {
        (ExprKind::Int(n), Ty::Bool) => ExprKind::Bool(*n != 0),
        (ExprKind::Int(n), Ty::F32) => ExprKind::Float(f64::from(*n as f32)),
        (ExprKind::Int(n), Ty::F64) => ExprKind::Float(*n as f64),
        (ExprKind::Int(n), _) => ExprKind::Int(to.wrap(*n)),
        (ExprKind::Bool(b), Ty::F32 | Ty::F64) => ExprKind::Float(f64::from(u8::from(*b))),
        (ExprKind::Bool(b), _) => ExprKind::Int((*b).into()),
        (ExprKind::Float(x), Ty::Bool) => ExprKind::Bool(*x != 0.0),
        (ExprKind::Float(x), Ty::F32 | Ty::F64) => ExprKind::Float(round(*x, to)),
        (ExprKind::Float(x), _) => {
            // Saturates in the width in which the value is held, then wraps to the type.
            let held = if to.wide() {
                if to.signed() { Ty::I64 } else { Ty::U64 }
            } else if to.signed() {
                Ty::I32
            } else {
                Ty::U32
            };
            let (low, high) = held.range()?;
            ExprKind::Int(to.wrap((*x as i128).clamp(low, high)))
        }
        _ => return None,
    })
}

fn textual(builtin: &Builtin, args: &[Expr]) -> Option<ExprKind> {
    let text = |n: usize| match args.get(n).map(|a| &a.kind) {
        Some(ExprKind::Str(s)) => Some(&**s),
        _ => None,
    };
    Some(match builtin {
        Builtin::Contains => ExprKind::Bool(text(0)?.contains(text(1)?)),
        Builtin::StartsWith => ExprKind::Bool(text(0)?.starts_with(text(1)?)),
        Builtin::EndsWith => ExprKind::Bool(text(0)?.ends_with(text(1)?)),
        Builtin::StrLen => ExprKind::Int(i128::try_from(text(0)?.len()).ok()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Span;

    fn expr(kind: ExprKind, ty: Ty) -> Expr {
        Expr { kind, ty, span: Span::default() }
    }

    #[test]
    fn whole_numbers_wrap_in_their_width() {
        let of = |op, x, y, ty: Ty| {
            binary(op, &expr(ExprKind::Int(x), ty.clone()), &expr(ExprKind::Int(y), ty))
        };
        assert_eq!(of(BinOp::Add, 250, 10, Ty::U8), Some(ExprKind::Int(4)));
        assert_eq!(of(BinOp::Add, 127, 1, Ty::I8), Some(ExprKind::Int(-128)));
        assert_eq!(of(BinOp::Shl, 1, 33, Ty::U32), Some(ExprKind::Int(2)));
        assert_eq!(of(BinOp::Shr, -8, 1, Ty::I32), Some(ExprKind::Int(-4)));
        assert_eq!(of(BinOp::Div, 1, 0, Ty::I32), None);
        assert_eq!(
            of(BinOp::Mul, i128::from(u64::MAX), i128::from(u64::MAX), Ty::U64),
            Some(ExprKind::Int(1))
        );
    }

    #[test]
    fn a_side_that_is_not_needed_is_not_computed() {
        let ill = expr(
            ExprKind::Binary(
                BinOp::Eq,
                Box::new(expr(
                    ExprKind::Binary(
                        BinOp::Div,
                        Box::new(expr(ExprKind::Int(1), Ty::I32)),
                        Box::new(expr(ExprKind::Int(0), Ty::I32)),
                    ),
                    Ty::I32,
                )),
                Box::new(expr(ExprKind::Int(0), Ty::I32)),
            ),
            Ty::Bool,
        );
        let no = expr(ExprKind::Bool(false), Ty::Bool);
        let both = expr(ExprKind::Binary(BinOp::And, Box::new(no), Box::new(ill)), Ty::Bool);
        assert_eq!(pure(both).kind, ExprKind::Bool(false));
    }

    #[test]
    fn a_remainder_by_a_constant_need_not_be_evaluated() {
        let kept = |by| {
            let x =
                Expr { kind: ExprKind::Bound(Bound::Arg(0)), ty: Ty::I32, span: Span::default() };
            let by = expr(ExprKind::Int(by), Ty::I32);
            let rest =
                expr(ExprKind::Binary(BinOp::Rem, Box::new(x), Box::new(by.clone())), Ty::I32);
            let is = expr(ExprKind::Binary(BinOp::Eq, Box::new(rest), Box::new(by)), Ty::Bool);
            let no = Box::new(expr(ExprKind::Bool(false), Ty::Bool));
            pure(expr(ExprKind::Binary(BinOp::And, Box::new(is), no), Ty::Bool)).kind
                != ExprKind::Bool(false)
        };
        assert_eq!([6, 0, -1].map(kept), [false, true, true]);
    }
}
