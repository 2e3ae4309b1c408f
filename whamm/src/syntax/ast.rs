//! The syntax tree: what was written, names unresolved, with places.

use crate::source::Span;
use crate::types::Ty;
use std::collections::HashSet;

/// A whole script.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    /// What it consists of, in order.
    pub items: Vec<Item>,
    /// Names whose declarations could not be read: nothing more has to be said of them.
    pub broken: HashSet<String>,
}

/// A part of a script.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// `use library;`
    Use(Name),
    /// A statement outside of all probes.
    Stmt(Stmt),
    /// A function.
    Fn(FnDef),
    /// A rule and what happens where it matches.
    Probe(ProbeDef),
    /// A block whose head cannot be read: what can be said of it is said all the same.
    Stray(StrayBlock),
}

/// The body of a probe or a function, without a head.
#[derive(Clone, Debug)]
pub(crate) struct StrayBlock {
    /// What happens.
    pub body: Vec<Stmt>,
    /// Whether it is a function's.
    pub function: bool,
}

/// A name and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    /// The name.
    pub text: String,
    /// Where.
    pub span: Span,
}

/// A named and typed thing: a parameter or a type bound.
#[derive(Clone, Debug)]
pub(crate) struct Param {
    /// Its name.
    pub name: Name,
    /// Its type.
    pub ty: Ty,
}

/// A function.
#[derive(Clone, Debug)]
pub(crate) struct FnDef {
    /// What calls it.
    pub name: Name,
    /// What it takes.
    pub params: Vec<Param>,
    /// What it gives; the empty tuple if nothing.
    pub result: Ty,
    /// What it does.
    pub body: Vec<Stmt>,
}

/// A rule and what happens where it matches.
#[derive(Clone, Debug)]
pub(crate) struct ProbeDef {
    /// Where.
    pub rule: Rule,
    /// Under which condition.
    pub predicate: Option<Expr>,
    /// What happens.
    pub body: Vec<Stmt>,
}

/// `provider:package:event:mode`, or fewer parts.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// Two to four parts.
    pub parts: Vec<Part>,
    /// All of it.
    pub span: Span,
}

/// One part of a rule.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// A pattern; empty means anything.
    pub pattern: String,
    /// Where the pattern stands.
    pub span: Span,
    /// Type parameters with their constraints.
    pub generics: Vec<(Name, Option<Constraint>)>,
    /// Type bounds.
    pub bounds: Vec<Param>,
}

/// What a type parameter may stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Constraint {
    /// i32, i64, f32, f64.
    Numeric,
    /// i32, i64.
    Int,
    /// f32, f64.
    Float,
}

/// How long a variable lives, and which code sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Storage {
    /// Printed in the report.
    pub report: bool,
    /// What was said about sharing.
    pub class: Option<Class>,
}

/// What a declaration says about sharing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// One for each site.
    Unshared,
    /// One for all sites of a rule.
    Shared,
    /// One for each activation of a function.
    Frame,
}

/// A statement.
#[derive(Clone, Debug)]
pub(crate) struct Stmt {
    /// What it is.
    pub kind: StmtKind,
    /// Where.
    pub span: Span,
}

/// The kinds of statements.
#[derive(Clone, Debug)]
pub(crate) enum StmtKind {
    /// A variable comes into being.
    Decl {
        /// How it is stored.
        storage: Storage,
        /// Its name.
        name: Name,
        /// Its type.
        ty: Ty,
        /// What it begins with.
        init: Option<Expr>,
    },
    /// A value is put somewhere, or combined with what is there.
    Assign {
        /// Where.
        target: Expr,
        /// Combined how.
        op: Option<BinOp>,
        /// With what.
        value: Expr,
    },
    /// A call for its effect.
    Call(Expr),
    /// The end of a function or a probe.
    Return(Option<Expr>),
    /// Choices, the first whose condition holds is taken.
    If {
        /// Conditions and blocks.
        arms: Vec<(Expr, Vec<Stmt>)>,
        /// What happens if none holds.
        otherwise: Option<Vec<Stmt>>,
    },
    /// `for i in low..high { }`
    Count {
        /// The counter, fresh in every round.
        name: Name,
        /// The first value.
        low: Expr,
        /// The value after the last.
        high: Expr,
        /// What happens.
        body: Vec<Stmt>,
    },
    /// `for k, v in map { }`
    Each {
        /// The key of this round.
        key: Name,
        /// The value of this round.
        value: Option<Name>,
        /// The map.
        map: Expr,
        /// What happens.
        body: Vec<Stmt>,
    },
    /// `while (condition) max N { }`
    While {
        /// Goes on while this holds.
        cond: Expr,
        /// At most so many rounds.
        bound: u32,
        /// What happens.
        body: Vec<Stmt>,
    },
    /// Leaves the loop.
    Break,
    /// Goes on with the next round.
    Continue,
}

/// An expression.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where.
    pub span: Span,
}

/// When a library call happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Each time control comes by.
    Now,
    /// `@static`: once, when a site is matched, for its value.
    Static,
    /// `@init`: once for each site, before the program starts.
    Init,
}

/// The kinds of expressions.
#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    /// A whole number in decimal.
    Int(i128),
    /// One in hexadecimal or binary: the bits of its type.
    Bits(i128),
    /// A fraction, and whether f32 holds it.
    Float(f64, bool),
    /// A truth.
    Bool(bool),
    /// A text.
    Str(String),
    /// A variable.
    Name(String),
    /// `a.0`
    Field(Box<Expr>, u32),
    /// `a[b]`
    Index(Box<Expr>, Box<Expr>),
    /// `(a, b)`
    Tuple(Vec<Expr>),
    /// `!a`, `~a`, `-a`
    Unary(UnOp, Box<Expr>),
    /// `a + b`
    Binary(BinOp, Box<Expr>, Box<Expr>),
    /// `a as T`
    Cast(Box<Expr>, Ty),
    /// `a ? b : c`
    Choice(Box<[Expr; 3]>),
    /// `f(a)`
    Call(Name, Vec<Expr>),
    /// `lib.f(a)` or `text.f(a)`
    Method(Box<Expr>, Name, Vec<Expr>, When),
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum UnOp {
    /// Logical.
    Not,
    /// Bit by bit.
    Flip,
    /// Arithmetic.
    Neg,
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BinOp {
    And,
    Or,
    BitOr,
    BitXor,
    BitAnd,
    Eq,
    Ne,
    Ge,
    Gt,
    Le,
    Lt,
    Shl,
    Shr,
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

impl BinOp {
    /// All operators, a longer one before its prefixes, with how tightly each binds.
    pub(crate) const ALL: [(&'static str, Self, u8); 18] = [
        ("&&", Self::And, 1),
        ("||", Self::Or, 1),
        ("==", Self::Eq, 5),
        ("!=", Self::Ne, 5),
        (">=", Self::Ge, 5),
        ("<=", Self::Le, 5),
        ("<<", Self::Shl, 6),
        (">>", Self::Shr, 6),
        ("|", Self::BitOr, 2),
        ("^", Self::BitXor, 3),
        ("&", Self::BitAnd, 4),
        (">", Self::Gt, 5),
        ("<", Self::Lt, 5),
        ("+", Self::Add, 7),
        ("-", Self::Sub, 7),
        ("*", Self::Mul, 8),
        ("/", Self::Div, 8),
        ("%", Self::Rem, 8),
    ];

    /// How it is written.
    pub(crate) fn symbol(self) -> &'static str {
        Self::ALL.iter().find(|o| o.1 == self).map_or("?", |o| o.0)
    }

    /// Whether it gives a truth from two equal types.
    pub(crate) fn compares(self) -> bool {
        matches!(self, Self::Eq | Self::Ne | Self::Ge | Self::Gt | Self::Le | Self::Lt)
    }

    /// Whether it combines truths.
    pub(crate) fn is_logic(self) -> bool {
        matches!(self, Self::And | Self::Or)
    }
}
