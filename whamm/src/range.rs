//! Range analysis: upper bounds of integers, from their expressions.
//!
//! Types alone give loose bounds. But an index that is limited by a choice, a mask or a remainder
//! is small, and its counters fit into a row.

use crate::hir::{Expr, ExprKind};
use crate::syntax::ast::BinOp;
use crate::types::Ty;

/// The largest value of a folded expression; `None` if it may be negative, or if no bound below
/// that of its type is known.
pub(crate) fn most(e: &Expr) -> Option<u64> {
    if !(e.ty.is_int() || e.ty == Ty::Bool) {
        return None;
    }
    let plain = match &e.kind {
        ExprKind::Int(n) => return u64::try_from(*n).ok(),
        ExprKind::Bool(b) => return Some((*b).into()),
        ExprKind::Binary(op, a, b) if a.ty == e.ty => computed(*op, a, b),
        ExprKind::Choice(three) => chosen(three),
        ExprKind::Cast(a) if a.ty.is_int() || a.ty == Ty::Bool => most(a),
        ExprKind::Index(map, _) => match &map.kind {
            // A key outside of the table has the value zero.
            ExprKind::Table(values) => Some(values.iter().copied().max().unwrap_or(0).into()),
            _ => None,
        },
        _ => None,
    };
    let held = match e.ty {
        Ty::Bool => Some(1),
        Ty::U8 => Some(0xff),
        Ty::U16 => Some(0xffff),
        _ => None,
    };
    // A value that a narrower type cannot hold wraps.
    let largest = e.ty.range().map_or(1, |range| range.1);
    match (plain.filter(|&n| i128::from(n) <= largest), held) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn computed(op: BinOp, a: &Expr, b: &Expr) -> Option<u64> {
    match op {
        // A number that is not negative has at most as many bits as the smaller operand.
        BinOp::BitAnd => [most(a), most(b)].into_iter().flatten().min(),
        BinOp::Rem if !a.ty.signed() || most(a).is_some() => match b.kind {
            ExprKind::Int(n) if n > 0 => u64::try_from(n - 1).ok(),
            _ => None,
        },
        BinOp::Shr => match (a.ty.bits()?, &b.kind) {
            ((bits, false), ExprKind::Int(n)) if (1..i128::from(bits)).contains(n) => {
                Some(most(a).unwrap_or(u64::MAX >> (64 - bits)) >> u32::try_from(*n).ok()?)
            }
            _ => None,
        },
        BinOp::Add => most(a)?.checked_add(most(b)?),
        BinOp::Mul => most(a)?.checked_mul(most(b)?),
        _ => None,
    }
}

/// A choice is at most as large as its larger side; a side that is the number in the condition is
/// smaller than the number it is compared with.
fn chosen([cond, yes, no]: &[Expr; 3]) -> Option<u64> {
    let limit = match &cond.kind {
        ExprKind::Binary(op, number, end) if !number.ty.signed() && number.same(yes) => {
            match (op, &end.kind) {
                (BinOp::Lt, ExprKind::Int(n)) => u64::try_from(n - 1).ok(),
                (BinOp::Le, ExprKind::Int(n)) => u64::try_from(*n).ok(),
                _ => None,
            }
        }
        _ => None,
    };
    Some(limit.or_else(|| most(yes))?.max(most(no)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Bound;
    use crate::source::Span;

    fn expr(kind: ExprKind, ty: Ty) -> Expr {
        Expr { kind, ty, span: Span::default() }
    }

    fn int(n: i128, ty: Ty) -> Expr {
        expr(ExprKind::Int(n), ty)
    }

    fn arg(ty: Ty) -> Expr {
        expr(ExprKind::Bound(Bound::Arg(0)), ty)
    }

    fn binary(op: BinOp, a: Expr, b: Expr, ty: Ty) -> Expr {
        expr(ExprKind::Binary(op, Box::new(a), Box::new(b)), ty)
    }

    #[test]
    fn an_index_that_is_cut_off_is_as_small_as_it_is_cut() {
        let below = |op, ty: Ty| {
            let cond = binary(op, arg(ty.clone()), int(7, ty.clone()), Ty::Bool);
            expr(ExprKind::Choice(Box::new([cond, arg(ty.clone()), int(3, ty.clone())])), ty)
        };
        assert_eq!(most(&below(BinOp::Lt, Ty::U32)), Some(6));
        assert_eq!(most(&below(BinOp::Le, Ty::U32)), Some(7));
        assert_eq!(most(&below(BinOp::Gt, Ty::U32)), None);
        assert_eq!(most(&below(BinOp::Lt, Ty::I32)), None, "it may be negative");
    }

    #[test]
    fn masks_remainders_shifts_and_narrow_types_are_small() {
        assert_eq!(most(&binary(BinOp::BitAnd, arg(Ty::I32), int(15, Ty::I32), Ty::I32)), Some(15));
        assert_eq!(most(&binary(BinOp::BitAnd, arg(Ty::I32), int(-16, Ty::I32), Ty::I32)), None);
        assert_eq!(most(&binary(BinOp::Rem, arg(Ty::U32), int(10, Ty::U32), Ty::U32)), Some(9));
        assert_eq!(most(&binary(BinOp::Rem, arg(Ty::I32), int(10, Ty::I32), Ty::I32)), None);
        assert_eq!(most(&binary(BinOp::Shr, arg(Ty::U32), int(24, Ty::U32), Ty::U32)), Some(255));
        assert_eq!(most(&expr(ExprKind::Cast(Box::new(arg(Ty::U32))), Ty::U8)), Some(255));
        assert_eq!(most(&arg(Ty::Bool)), Some(1));
        assert_eq!(most(&arg(Ty::U32)), None);
        assert_eq!(
            most(&expr(ExprKind::Cast(Box::new(arg(Ty::U8))), Ty::F32)),
            None,
            "it is no whole number"
        );
    }

    #[test]
    fn what_may_wrap_has_no_limit_but_its_type() {
        let byte = || arg(Ty::U8);
        assert_eq!(most(&binary(BinOp::Add, byte(), byte(), Ty::U8)), Some(255));
        assert_eq!(most(&binary(BinOp::Mul, arg(Ty::U16), arg(Ty::U16), Ty::U16)), Some(65535));
        let wide = expr(ExprKind::Cast(Box::new(byte())), Ty::U32);
        assert_eq!(most(&binary(BinOp::Add, wide.clone(), wide, Ty::U32)), Some(510));
    }
}
