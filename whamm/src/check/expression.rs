//! Checks the types of expressions.
//!
//! Types are inferred bottom-up, except for literals, which take the expected type: of the assigned
//! place, or else of the other operand. Nothing else is converted without `as`.

use super::Checker;
use super::scope::{Context, Meaning};
use crate::diagnostic::Kind;
use crate::events::Bound;
use crate::hir::{Expr, ExprKind, Var};
use crate::source::Span;
use crate::syntax;
use crate::syntax::ast::{self, BinOp, UnOp, When};
use crate::types::Ty;

/// Whether an expression takes the type that is expected.
fn is_literal(e: &ast::Expr) -> bool {
    match &e.kind {
        ast::ExprKind::Int(_) | ast::ExprKind::Bits(_) | ast::ExprKind::Float(..) => true,
        ast::ExprKind::Unary(UnOp::Neg | UnOp::Flip, a) => is_literal(a),
        ast::ExprKind::Binary(op, a, b) => {
            !op.compares() && !op.is_logic() && is_literal(a) && is_literal(b)
        }
        ast::ExprKind::Choice(three) => is_literal(&three[1]) && is_literal(&three[2]),
        _ => false,
    }
}

impl Checker<'_> {
    /// Checks that an expression has exactly this type.
    pub(super) fn expr_of(&mut self, e: &ast::Expr, ty: &Ty) -> Option<Expr> {
        let found = self.expr(e, Some(ty))?;
        if found.ty == *ty {
            return Some(found);
        }
        // Scripts of version 2.0.1 also keep the opcode in an i16.
        if matches!(found.kind, ExprKind::Bound(Bound::Bytecode)) && *ty == Ty::I16 {
            return Some(Expr { span: e.span, ty: Ty::I16, kind: ExprKind::Cast(Box::new(found)) });
        }
        let help = if found.ty.is_numeric() && ty.is_numeric() {
            format!("write `... as {ty}`")
        } else if found.ty.is_numeric() && *ty == Ty::Bool {
            "compare it, as in `x != 0`; truths are `true` and `false`".into()
        } else {
            format!("{} is needed here", ty.with_article())
        };
        self.error_help(e.span, format!("expected {ty}, found {}", found.ty), help);
        None
    }

    pub(super) fn expr(&mut self, e: &ast::Expr, expected: Option<&Ty>) -> Option<Expr> {
        let span = e.span;
        let (kind, ty) = match &e.kind {
            ast::ExprKind::Int(n) => self.int(*n, false, expected, span)?,
            ast::ExprKind::Bits(n) => self.int(*n, true, expected, span)?,
            ast::ExprKind::Float(x, short) => {
                let ty = expected.filter(|t| t.is_float()).cloned().unwrap_or(if *short {
                    Ty::F32
                } else {
                    Ty::F64
                });
                (ExprKind::Float(*x), ty)
            }
            ast::ExprKind::Bool(b) => (ExprKind::Bool(*b), Ty::Bool),
            ast::ExprKind::Str(s) => (ExprKind::Str(s.as_str().into()), Ty::Str),
            ast::ExprKind::Name(name) => return self.named(name, span),
            ast::ExprKind::Field(inner, n) => {
                let inner = self.expr(inner, None)?;
                let ty = self.part(&inner.ty, *n, span)?;
                (ExprKind::Field(Box::new(inner), *n), ty)
            }
            ast::ExprKind::Index(map, key) => {
                let (map, key, v) = self.element(map, key, span)?;
                (ExprKind::Index(Box::new(map), Box::new(key)), v)
            }
            ast::ExprKind::Tuple(parts) => self.tuple(parts, expected)?,
            ast::ExprKind::Unary(op, inner) => return self.unary(*op, inner, expected, span),
            ast::ExprKind::Binary(op, a, b) => return self.binary(*op, a, b, expected, span),
            ast::ExprKind::Cast(inner, ty) => return self.cast(inner, ty, span),
            ast::ExprKind::Choice(three) => {
                let cond = self.expr_of(&three[0], &Ty::Bool);
                let (yes, no) = self.pair(&three[1], &three[2], expected)?;
                let ty = yes.ty.clone();
                (ExprKind::Choice(Box::new([cond?, yes, no])), ty)
            }
            ast::ExprKind::Call(name, args) => return self.call(name, args, span),
            ast::ExprKind::Method(receiver, name, args, when) => {
                return self.method(receiver, name, args, *when, span);
            }
        };
        Some(Expr { kind, ty, span })
    }

    /// Checks an integer. A hexadecimal or binary literal represents the bits of its type; a
    /// decimal one that does so causes a warning.
    fn int(
        &mut self,
        n: i128,
        written_as_bits: bool,
        expected: Option<&Ty>,
        span: Span,
    ) -> Option<(ExprKind, Ty)> {
        if let Some(ty) = expected.filter(|t| t.is_float()) {
            #[expect(
                clippy::cast_precision_loss,
                reason = "the nearest fraction is what was asked for"
            )]
            return Some((ExprKind::Float(n as f64), ty.clone()));
        }
        let fits = |ty: &Ty| ty.range().is_some_and(|(low, high)| (low..=high).contains(&n));
        if let Some(ty) = expected.filter(|t| t.is_int()) {
            if fits(ty) {
                return Some((ExprKind::Int(n), ty.clone()));
            }
            // A literal that fills the width of the type represents its bits, with or without sign.
            let (bits, _) = ty.bits()?;
            if (-(1i128 << (bits - 1))..1i128 << bits).contains(&n) {
                let value = ty.wrap(n);
                if !written_as_bits {
                    let message = format!("{n} is {value} as {}", ty.with_article());
                    let pattern = n & ((1i128 << bits) - 1);
                    let help = format!("write {value}, or `{pattern:#x}`");
                    self.said.push_help(Kind::TypeCheckWarning, Some(span), message, help);
                }
                return Some((ExprKind::Int(value), ty.clone()));
            }
            let (low, high) = ty.range()?;
            let help = format!("{} is between {low} and {high}", ty.with_article());
            self.error_help(span, format!("{n} overflows for the type {ty}"), help);
            return None;
        }
        match [Ty::I32, Ty::I64, Ty::U64].into_iter().find(fits) {
            Some(ty) => Some((ExprKind::Int(n), ty)),
            None => {
                self.error(span, format!("{n} overflows for every type"));
                None
            }
        }
    }

    fn named(&mut self, name: &str, span: Span) -> Option<Expr> {
        match self.resolve(name, span)? {
            Meaning::Var(var, ty) => Some(Expr { kind: ExprKind::Var(var), ty, span }),
            Meaning::Event(found) => self.event_variable(name, found.bound, &found.ty, span),
            Meaning::Library(_) => {
                self.error_help(
                    span,
                    format!("`{name}` is a library"),
                    format!("call one of its functions: `{name}.function(...)`"),
                );
                None
            }
        }
    }

    fn event_variable(&mut self, name: &str, bound: Bound, ty: &Ty, span: Span) -> Option<Expr> {
        if let Bound::Formula(text) = bound {
            let formula = with_span(syntax::expression(text)?, span);
            return self.expr_of(&formula, ty);
        }
        let ty = self.closed(ty);
        if ty.is_open() {
            if let Context::Probe(site) = &mut self.context {
                let message = format!("the type of `{name}` is not known before a site is matched");
                let help = format!(
                    "bind it in the rule, as in `{}({name}: i32)`",
                    site.matched.event.names().1
                );
                site.unavailable.push((span, message, help));
            }
            return None;
        }
        if !bound.is_static() {
            self.body.bounds.entry(bound).or_insert_with(|| ty.clone());
        }
        Some(Expr { kind: ExprKind::Bound(bound), ty, span })
    }

    /// Replaces type parameters in a type.
    pub(super) fn closed(&self, ty: &Ty) -> Ty {
        let Some(params) = self.context.params() else { return ty.clone() };
        match ty {
            Ty::Param(name) => params.get(name).cloned().unwrap_or_else(|| ty.clone()),
            Ty::Tuple(parts) => Ty::Tuple(parts.iter().map(|p| self.closed(p)).collect()),
            Ty::Map(kv) => Ty::Map((self.closed(&kv.0), self.closed(&kv.1)).into()),
            other => other.clone(),
        }
    }

    pub(super) fn part(&mut self, ty: &Ty, n: u32, span: Span) -> Option<Ty> {
        if let Ty::Tuple(parts) = ty
            && let Some(part) = parts.get(n as usize)
        {
            return Some(part.clone());
        }
        self.error(span, format!("{ty} has no part {n}"));
        None
    }

    /// Checks an element: returns the map, the key, and the element's type.
    pub(super) fn element(
        &mut self,
        map: &ast::Expr,
        key: &ast::Expr,
        span: Span,
    ) -> Option<(Expr, Expr, Ty)> {
        let map = self.expr(map, None);
        let types = map.as_ref().and_then(|map| self.map_types(&map.ty, span));
        let Some((k, v)) = types else {
            self.look_over([key]);
            return None;
        };
        Some((map?, self.expr_of(key, &k)?, v))
    }

    /// Reports errors in expressions without an expected type, because the construct that uses them
    /// is wrong.
    pub(super) fn look_over<'e>(&mut self, list: impl IntoIterator<Item = &'e ast::Expr>) {
        for e in list {
            let library = |name: &str| self.uses.contains_key(name);
            if !matches!(&e.kind, ast::ExprKind::Name(name) if library(name)) {
                let _ = self.expr(e, None);
            }
        }
    }

    pub(super) fn map_types(&mut self, ty: &Ty, span: Span) -> Option<(Ty, Ty)> {
        if let Ty::Map(kv) = ty {
            return Some((kv.0.clone(), kv.1.clone()));
        }
        self.error(span, format!("only a map is indexed, and this is {ty}"));
        None
    }

    fn tuple(&mut self, parts: &[ast::Expr], expected: Option<&Ty>) -> Option<(ExprKind, Ty)> {
        let wanted = match expected {
            Some(Ty::Tuple(wanted)) if wanted.len() == parts.len() => Some(wanted.clone()),
            _ => None,
        };
        let parts: Vec<_> = parts
            .iter()
            .enumerate()
            .map(|(i, p)| self.expr(p, wanted.as_ref().map(|w| &w[i])))
            .collect();
        let parts = parts.into_iter().collect::<Option<Vec<_>>>()?;
        let ty = Ty::Tuple(parts.iter().map(|p| p.ty.clone()).collect());
        Some((ExprKind::Tuple(parts), ty))
    }

    fn unary(
        &mut self,
        op: UnOp,
        inner: &ast::Expr,
        expected: Option<&Ty>,
        span: Span,
    ) -> Option<Expr> {
        let value = self.expr(inner, expected.filter(|_| is_literal(inner)))?;
        let fits = match op {
            UnOp::Not => value.ty == Ty::Bool,
            UnOp::Flip => value.ty.is_int(),
            UnOp::Neg => value.ty.is_numeric(),
        };
        if !fits {
            let (symbol, wanted) = match op {
                UnOp::Not => ("!", "a bool"),
                UnOp::Flip => ("~", "a whole number"),
                UnOp::Neg => ("-", "a number"),
            };
            self.error(span, format!("`{symbol}` needs {wanted}, found {}", value.ty));
            return None;
        }
        let ty = value.ty.clone();
        Some(Expr { kind: ExprKind::Unary(op, Box::new(value)), ty, span })
    }

    /// Checks two expressions of one type, which either of them may determine.
    fn pair(
        &mut self,
        a: &ast::Expr,
        b: &ast::Expr,
        expected: Option<&Ty>,
    ) -> Option<(Expr, Expr)> {
        if is_literal(a) && !is_literal(b) {
            let b = self.expr(b, expected)?;
            return Some((self.expr_of(a, &b.ty.clone())?, b));
        }
        let Some(a) = self.expr(a, expected) else {
            self.look_over([b]);
            return None;
        };
        let b = self.expr_of(b, &a.ty.clone())?;
        Some((a, b))
    }

    fn binary(
        &mut self,
        op: BinOp,
        a: &ast::Expr,
        b: &ast::Expr,
        expected: Option<&Ty>,
        span: Span,
    ) -> Option<Expr> {
        if op == BinOp::Add && [a, b].iter().any(|e| matches!(e.kind, ast::ExprKind::Str(_))) {
            self.error_help(
                span,
                "texts are not joined",
                "`print` takes texts and values: `print(\"{} calls\", n)`",
            );
            return None;
        }
        let (a, b) = if op.is_logic() {
            let (a, b) = (self.expr_of(a, &Ty::Bool), self.expr_of(b, &Ty::Bool));
            (a?, b?)
        } else {
            let both = is_literal(a) && is_literal(b);
            self.pair(a, b, expected.filter(|t| both && !op.compares() && t.is_numeric()))?
        };
        let operands = a.ty.clone();
        if !self.operator_fits(op, &operands) {
            self.error_help(
                span,
                format!("`{}` does not apply to {operands}", op.symbol()),
                match op {
                    BinOp::Shl | BinOp::Shr | BinOp::BitAnd | BinOp::BitOr | BinOp::BitXor => {
                        "only whole numbers are taken as bits"
                    }
                    _ => "numbers are compared and computed with, texts and truths compared for equality",
                },
            );
            return None;
        }
        if matches!(
            (op, operands.bits(), &b.kind),
            (BinOp::Lt | BinOp::Ge, Some((_, false)), ExprKind::Int(0))
        ) {
            let always = if op == BinOp::Lt { "never" } else { "always" };
            let help =
                "convert to a type with a sign before subtracting, as in `(x as i32 - 1) < 0`";
            self.said.push_help(
                Kind::TypeCheckWarning,
                Some(span),
                format!("this is {always} so: {} has no sign", operands.with_article()),
                help,
            );
        }
        let ty = if op.compares() || op.is_logic() { Ty::Bool } else { operands };
        Some(Expr { kind: ExprKind::Binary(op, Box::new(a), Box::new(b)), ty, span })
    }

    pub(super) fn operator_fits(&self, op: BinOp, ty: &Ty) -> bool {
        match op {
            BinOp::And | BinOp::Or => *ty == Ty::Bool,
            BinOp::Eq | BinOp::Ne => ty.is_numeric() || matches!(ty, Ty::Bool | Ty::Str),
            BinOp::Ge
            | BinOp::Gt
            | BinOp::Le
            | BinOp::Lt
            | BinOp::Add
            | BinOp::Sub
            | BinOp::Mul
            | BinOp::Div
            | BinOp::Rem => ty.is_numeric(),
            BinOp::BitOr | BinOp::BitXor | BinOp::BitAnd | BinOp::Shl | BinOp::Shr => ty.is_int(),
        }
    }

    fn cast(&mut self, inner: &ast::Expr, to: &Ty, span: Span) -> Option<Expr> {
        let to = self.closed(to);
        // A literal that the type can represent simply has that type.
        let hint =
            matches!(inner.kind, ast::ExprKind::Float(..)).then_some(&to).filter(|t| t.is_float());
        let value = self.expr(inner, hint)?;
        if let Ty::Param(name) = &to {
            self.undeclared(name, span);
            return None;
        }
        let scalar = |t: &Ty| t.is_numeric() || *t == Ty::Bool;
        if !scalar(&value.ty) || !scalar(&to) {
            self.error_help(
                span,
                format!("{} cannot become {to}", value.ty),
                "`as` converts between numbers and truths",
            );
            return None;
        }
        if value.ty == to {
            return Some(value);
        }
        Some(Expr { kind: ExprKind::Cast(Box::new(value)), ty: to, span })
    }

    /// Replaces a text of the site whose initial value is constant by that constant, while the
    /// site's other variables are initialised.
    pub(super) fn with_first_texts(&self, e: Expr) -> Expr {
        let Expr { kind, ty, span } = e;
        let kind = match kind {
            ExprKind::Builtin(b, args) => {
                let first = |a: Expr| match (&a.kind, &a.ty) {
                    (ExprKind::Var(Var::Site(n)), Ty::Str) => {
                        let init = self.body.sites.get(*n as usize).and_then(|s| s.init.clone());
                        init.filter(crate::fold::is_constant).unwrap_or(a)
                    }
                    _ => self.with_first_texts(a),
                };
                ExprKind::Builtin(b, args.into_iter().map(first).collect())
            }
            other => other,
        };
        Expr { kind, ty, span }
    }

    /// Whether an expression can be computed before the program starts, for one site.
    pub(super) fn before_start(&mut self, e: &Expr) -> bool {
        let mut culprit = None;
        e.walk(&mut |inner| match &inner.kind {
            ExprKind::Var(Var::Local(_) | Var::Site(_) | Var::Frame(_)) | ExprKind::Call(..) => {
                culprit = Some((inner.span, "probe-local state"));
            }
            ExprKind::Bound(b) if !b.is_static() => {
                culprit = Some((inner.span, "what is known only when the site is reached"));
            }
            _ => {}
        });
        let Some((span, what)) = culprit else { return true };
        self.error_help(
            span,
            format!("cannot use {what} to initialize a variable that outlives this execution"),
            "declare it without a value, and assign to it",
        );
        false
    }

    pub(super) fn when_fits(&mut self, when: When, args: &[Expr], span: Span) -> bool {
        let fits = when == When::Now || args.iter().all(Expr::is_static);
        if !fits {
            self.error_help(
                span,
                "cannot use dynamic data in a static library call",
                "its arguments are constants and what is known when a site is matched",
            );
        }
        fits
    }
}

fn with_span(mut e: ast::Expr, span: Span) -> ast::Expr {
    use ast::ExprKind as K;
    e.span = span;
    e.kind = match e.kind {
        K::Unary(op, a) => K::Unary(op, Box::new(with_span(*a, span))),
        K::Binary(op, a, b) => {
            K::Binary(op, Box::new(with_span(*a, span)), Box::new(with_span(*b, span)))
        }
        K::Cast(a, ty) => K::Cast(Box::new(with_span(*a, span)), ty),
        K::Choice(three) => K::Choice(Box::new(three.map(|e| with_span(e, span)))),
        other => other,
    };
    e
}
