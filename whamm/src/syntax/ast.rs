//! The syntax tree of the source, with places and unresolved names.

use crate::source::Span;
use crate::types::Ty;
use std::collections::HashSet;

/// A whole script.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    /// Its items, in order.
    pub items: Vec<Item>,
    /// Names whose declarations could not be parsed: further errors about them are not reported.
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
    /// A rule and its body.
    Probe(ProbeDef),
    /// A block whose head cannot be parsed; its body is checked as far as possible.
    Stray(StrayBlock),
}

/// The body of a probe or a function, without a head.
#[derive(Clone, Debug)]
pub(crate) struct StrayBlock {
    /// Its statements.
    pub body: Vec<Stmt>,
    /// Whether it is a function's.
    pub function: bool,
}

/// A name and its place.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    /// The name.
    pub text: String,
    /// Its place.
    pub span: Span,
}

/// A name with a type: a parameter or a type bound.
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
    /// Its name.
    pub name: Name,
    /// Its parameters.
    pub params: Vec<Param>,
    /// Its result; the empty tuple if it has none.
    pub result: Ty,
    /// Its body.
    pub body: Vec<Stmt>,
}

/// A rule and its body.
#[derive(Clone, Debug)]
pub(crate) struct ProbeDef {
    /// Where it matches.
    pub rule: Rule,
    /// The condition under which the body runs.
    pub predicate: Option<Expr>,
    /// The body.
    pub body: Vec<Stmt>,
}

/// `provider:package:event:mode`, or fewer parts.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// Two to four parts.
    pub parts: Vec<Part>,
    /// The place of the whole rule.
    pub span: Span,
}

/// One part of a rule.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// A pattern; an empty one matches everything.
    pub pattern: String,
    /// The place of the pattern.
    pub span: Span,
    /// Type parameters with their constraints.
    pub generics: Vec<(Name, Option<Constraint>)>,
    /// Type bounds.
    pub bounds: Vec<Param>,
}

/// The types that a type parameter may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Constraint {
    /// i32, i64, f32, f64.
    Numeric,
    /// i32, i64.
    Int,
    /// f32, f64.
    Float,
}

/// The lifetime and the visibility of a variable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Storage {
    /// Printed in the report.
    pub report: bool,
    /// The declared sharing.
    pub class: Option<Class>,
}

/// The sharing that a declaration specifies.
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
    /// Its kind.
    pub kind: StmtKind,
    /// Its place.
    pub span: Span,
}

/// The kinds of statements.
#[derive(Clone, Debug)]
pub(crate) enum StmtKind {
    /// Declares a variable.
    Decl {
        /// How it is stored.
        storage: Storage,
        /// Its name.
        name: Name,
        /// Its type.
        ty: Ty,
        /// Its initial value.
        init: Option<Expr>,
    },
    /// Assigns a value to a place, or combines the two.
    Assign {
        /// The place.
        target: Expr,
        /// The operator, if they are combined.
        op: Option<BinOp>,
        /// The value.
        value: Expr,
    },
    /// A call for its effect.
    Call(Expr),
    /// Returns from a function or a probe.
    Return(Option<Expr>),
    /// A conditional statement: the first arm whose condition holds is executed.
    If {
        /// Conditions and blocks.
        arms: Vec<(Expr, Vec<Stmt>)>,
        /// The block that is executed if none holds.
        otherwise: Option<Vec<Stmt>>,
    },
    /// `for i in low..high { }`
    Count {
        /// The counter, a new variable in every iteration.
        name: Name,
        /// The first value.
        low: Expr,
        /// The value after the last.
        high: Expr,
        /// The body.
        body: Vec<Stmt>,
    },
    /// `for k, v in map { }`
    Each {
        /// The key of this iteration.
        key: Name,
        /// The value of this iteration.
        value: Option<Name>,
        /// The map.
        map: Expr,
        /// The body.
        body: Vec<Stmt>,
    },
    /// `while (condition) max N { }`
    While {
        /// The condition, tested before each iteration.
        cond: Expr,
        /// The maximum number of iterations.
        bound: u32,
        /// The body.
        body: Vec<Stmt>,
    },
    /// Leaves the loop.
    Break,
    /// Continues with the next iteration.
    Continue,
}

/// An expression.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    /// Its kind.
    pub kind: ExprKind,
    /// Its place.
    pub span: Span,
}

/// The time of a library call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Whenever control reaches it.
    Now,
    /// `@static`: once, when a site is matched, for its value.
    Static,
    /// `@init`: once for each site, before the program starts.
    Init,
}

/// The kinds of expressions.
#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    /// A decimal integer.
    Int(i128),
    /// A hexadecimal or binary integer: the bits of its type.
    Bits(i128),
    /// A float, and whether f32 can represent it.
    Float(f64, bool),
    /// A boolean.
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
    /// Bitwise.
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
    /// All operators, a longer one before its prefixes, with their precedence.
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

    /// Its symbol.
    pub(crate) fn symbol(self) -> &'static str {
        Self::ALL.iter().find(|o| o.1 == self).map_or("?", |o| o.0)
    }

    /// Whether it yields a boolean from two equal types.
    pub(crate) fn compares(self) -> bool {
        matches!(self, Self::Eq | Self::Ne | Self::Ge | Self::Gt | Self::Le | Self::Lt)
    }

    /// Whether it combines booleans.
    pub(crate) fn is_logic(self) -> bool {
        matches!(self, Self::And | Self::Or)
    }
}
