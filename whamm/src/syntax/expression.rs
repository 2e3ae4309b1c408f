//! Parses expressions by the precedence of operators.
//!
//! `&&` and `||` have the same precedence, and group to the left: scripts rely on it. A mixture
//! without parentheses causes a warning.

use super::ast::{BinOp, Expr, ExprKind, Name, UnOp, When};
use super::cursor::{Cursor, DEEPEST, Read, is_word};
use crate::diagnostic::Kind;
use crate::types::Ty;

/// Words that cannot be names.
const RESERVED: [&str; 5] = ["return", "if", "while", "else", "map"];

/// Names of types in other languages.
const OTHER_TYPES: [(&str, &str); 13] = [
    ("int", "i32"),
    ("uint", "u32"),
    ("usize", "u32"),
    ("isize", "i32"),
    ("long", "i64"),
    ("ulong", "u64"),
    ("short", "i16"),
    ("char", "u8"),
    ("byte", "u8"),
    ("float", "f32"),
    ("double", "f64"),
    ("string", "str"),
    ("boolean", "bool"),
];

/// Joins the operands of a chain of `&&` or of `||`, from the left: both are associative, so a long
/// chain becomes a flat tree.
fn balanced(op: BinOp, mut operands: Vec<Expr>) -> Expr {
    let right = operands.split_off(operands.len().div_ceil(2));
    let left = if operands.len() == 1 { operands.remove(0) } else { balanced(op, operands) };
    if right.is_empty() {
        return left;
    }
    let right = balanced(op, right);
    let span = left.span.to(right.span);
    Expr { kind: ExprKind::Binary(op, Box::new(left), Box::new(right)), span }
}

impl Cursor<'_> {
    pub(super) fn name(&mut self, what: &str) -> Read<Name> {
        let word = self.word();
        if word.is_empty() {
            return self.expected(what);
        }
        let start = self.at;
        self.at += word.len();
        let span = self.span(start);
        if RESERVED.contains(&word) {
            return self.fail(span, format!("`{word}` is a word of the language, not a name"));
        }
        Ok(Name { text: word.into(), span })
    }

    /// Parses any expression, conditional ones included.
    pub(super) fn expr(&mut self) -> Read<Expr> {
        self.nested(|this| {
            let cond = this.binary(0)?;
            if !this.eat("?") {
                return Ok(cond);
            }
            let yes = this.expr()?;
            this.expect(":")?;
            let no = this.expr()?;
            let span = cond.span.to(no.span);
            Ok(Expr { kind: ExprKind::Choice(Box::new([cond, yes, no])), span })
        })
    }

    fn operator(&mut self) -> Option<(&'static str, BinOp, u8)> {
        self.blanks();
        let found = *BinOp::ALL.iter().find(|o| self.rest().starts_with(o.0))?;
        let after = &self.rest()[found.0.len()..];
        // `a += b` and `a++` are statements; `/` before a block ends a predicate.
        let assigns = after.starts_with('=') && !found.1.compares();
        let steps = matches!(found.0, "+" | "-")
            && after.starts_with(found.0)
            && after[1..].trim_start().starts_with([';', ')', '}']);
        let (start, _) = (self.at, self.at += found.0.len());
        self.blanks();
        let closes = found.1 == BinOp::Div && self.rest().starts_with('{');
        self.at = start;
        (!assigns && !steps && !closes).then_some(found)
    }

    fn binary(&mut self, least: u8) -> Read<Expr> {
        let mut left = self.operand()?;
        let mut logic: Option<BinOp> = None;
        let mut links = 0;
        // Operands of a chain of the same `&&` or `||`.
        let mut run: Vec<Expr> = Vec::new();
        while let Some((symbol, op, level)) = self.operator().filter(|o| o.2 > least) {
            let start = self.at;
            self.at += symbol.len();
            let mark = self.span(start);
            links += u32::from(!op.is_logic());
            if links > DEEPEST {
                return self.fail_help(
                    mark,
                    "this chain of operators is too long",
                    format!("at most {DEEPEST}; use variables"),
                );
            }
            let before = logic.filter(|_| op.is_logic());
            if op.is_logic() {
                logic = Some(op);
            }
            if before.is_some_and(|before| before != op) && !self.trying {
                let help =
                    "both bind alike, so the left pair is taken first: write parentheses to say so";
                self.said.push_help(
                    Kind::TypeCheckWarning,
                    Some(mark),
                    "`&&` and `||` are mixed without parentheses",
                    help,
                );
            }
            let right = self.nested(|this| this.binary(level))?;
            if op.is_logic() {
                if let Some(before) = before.filter(|before| *before != op) {
                    run.push(left);
                    left = balanced(before, std::mem::take(&mut run));
                }
                run.push(std::mem::replace(&mut left, right));
                continue;
            }
            let span = left.span.to(right.span);
            left = Expr { kind: ExprKind::Binary(op, Box::new(left), Box::new(right)), span };
        }
        run.push(left);
        Ok(balanced(logic.unwrap_or(BinOp::And), run))
    }

    /// Parses one operand with its prefixes and casts; a cast binds more tightly than a prefix.
    fn operand(&mut self) -> Read<Expr> {
        self.blanks();
        let start = self.at;
        let literal = self.number(true)?;
        if let Some(kind) = literal {
            let value = Expr { kind, span: self.span(start) };
            return self.casts(value);
        }
        for (symbol, op) in [("!", UnOp::Not), ("~", UnOp::Flip), ("-", UnOp::Neg)] {
            if self.eat(symbol) {
                let inner = self.nested(Self::operand)?;
                return Ok(Expr {
                    kind: ExprKind::Unary(op, Box::new(inner)),
                    span: self.span(start),
                });
            }
        }
        let value = self.primary()?;
        let value = self.postfix(value)?;
        self.casts(value)
    }

    fn casts(&mut self, mut value: Expr) -> Read<Expr> {
        let mut links = 0;
        while self.eat_word("as") {
            links += 1;
            let ty = self.ty()?;
            if links > DEEPEST {
                return self.expected("fewer casts");
            }
            let span = self.span(value.span.start as usize);
            value = Expr { kind: ExprKind::Cast(Box::new(value), ty), span };
        }
        Ok(value)
    }

    fn primary(&mut self) -> Read<Expr> {
        self.blanks();
        let start = self.at;
        let kind = match self.peek() {
            Some('"') => ExprKind::Str(self.string()?),
            Some('(') => return self.parenthesis(),
            Some('@') => return self.annotated(),
            Some(c) if is_word(c) => match self.word() {
                "true" => {
                    self.at += 4;
                    ExprKind::Bool(true)
                }
                "false" => {
                    self.at += 5;
                    ExprKind::Bool(false)
                }
                _ => {
                    let name = self.name("an expression")?;
                    if self.eat("(") {
                        ExprKind::Call(name, self.arguments()?)
                    } else {
                        ExprKind::Name(name.text)
                    }
                }
            },
            _ => return self.expected("an expression"),
        };
        Ok(Expr { kind, span: self.span(start) })
    }

    fn annotated(&mut self) -> Read<Expr> {
        let start = self.at;
        self.at += 1;
        let name = self.name("`static` or `init`")?;
        let when = match name.text.as_str() {
            "static" => When::Static,
            "init" => When::Init,
            _ => {
                return self.fail_help(
                    name.span,
                    format!("there is no annotation `@{}`", name.text),
                    "`@static` or `@init`",
                );
            }
        };
        let library = self.name("a library")?;
        let receiver = Expr { kind: ExprKind::Name(library.text), span: library.span };
        self.expect(".")?;
        let function = self.name("a function of the library")?;
        self.expect("(")?;
        let args = self.arguments()?;
        Ok(Expr {
            kind: ExprKind::Method(Box::new(receiver), function, args, when),
            span: self.span(start),
        })
    }

    fn parenthesis(&mut self) -> Read<Expr> {
        let start = self.at;
        self.at += 1;
        let mut parts = self.arguments()?;
        let span = self.span(start);
        if parts.len() == 1 && !self.text[..self.at - 1].trim_end().ends_with(',') {
            let inner = parts.remove(0);
            return Ok(Expr { span, ..inner });
        }
        Ok(Expr { kind: ExprKind::Tuple(parts), span })
    }

    /// Parses expressions up to a closing parenthesis.
    pub(super) fn arguments(&mut self) -> Read<Vec<Expr>> {
        let mut list = Vec::new();
        loop {
            if self.eat(")") {
                return Ok(list);
            }
            list.push(self.expr()?);
            if !self.eat(",") {
                self.expect(")")?;
                return Ok(list);
            }
        }
    }

    pub(super) fn postfix(&mut self, mut value: Expr) -> Read<Expr> {
        let start = value.span.start as usize;
        for _ in 0..DEEPEST {
            if self.eat("[") {
                let key = self.expr()?;
                self.expect("]")?;
                value = Expr {
                    kind: ExprKind::Index(Box::new(value), Box::new(key)),
                    span: self.span(start),
                };
            } else if !self.rest().starts_with("..") && self.eat(".") {
                value = self.member(start, value)?;
            } else {
                return Ok(value);
            }
        }
        self.expected("fewer parts")
    }

    fn member(&mut self, start: usize, value: Expr) -> Read<Expr> {
        let rest = self.rest();
        let digits = &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())];
        let kind = if digits.is_empty() {
            let name = self.name("a function or the number of a part")?;
            self.expect("(")?;
            ExprKind::Method(Box::new(value), name, self.arguments()?, When::Now)
        } else {
            self.at += digits.len();
            match digits.parse() {
                Ok(n) => ExprKind::Field(Box::new(value), n),
                Err(_) => return self.fail(self.span(start), "no tuple has so many parts"),
            }
        };
        Ok(Expr { kind, span: self.span(start) })
    }

    /// Parses a type.
    pub(super) fn ty(&mut self) -> Read<Ty> {
        self.nested(|this| {
            if this.eat("(") {
                let mut parts = Vec::new();
                while !this.eat(")") {
                    parts.push(this.ty()?);
                    if !this.eat(",") {
                        this.expect(")")?;
                        break;
                    }
                }
                return Ok(Ty::Tuple(parts.into()));
            }
            let word = this.word();
            let start = this.at;
            this.at += word.len();
            if word == "map" {
                this.expect("<")?;
                let key = this.ty()?;
                this.expect(",")?;
                let value = this.ty()?;
                this.expect(">")?;
                return Ok(Ty::Map((key, value).into()));
            }
            match Ty::named(word).filter(|t| *t != Ty::Any) {
                Some(ty) => Ok(ty),
                None if word.starts_with(|c: char| c.is_ascii_uppercase()) && word != "String" => Ok(Ty::Param(word.into())),
                None if word.is_empty() => this.expected("a type"),
                None => {
                    let known = OTHER_TYPES.iter().find(|t| t.0.eq_ignore_ascii_case(word));
                    let help = known.map_or_else(
                        || "u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 bool str funcref, (a, b), map<k, v>".into(),
                        |t| format!("did you mean `{}`?", t.1),
                    );
                    this.fail_help(this.span(start), format!("`{word}` is no type"), help)
                }
            }
        })
    }
}
