//! The checked program: names are resolved, and expressions have types.
//!
//! The list has one probe for each event and mode that its rule matches, but bodies are shared by
//! all events at which the variables they use have the same meaning.

use crate::events::{Bound, Function as EventFunction};
use crate::rule::Match;
use crate::source::Span;
use crate::syntax::ast::{BinOp, UnOp};
use crate::types::Ty;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Identifies a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Var {
    /// Of this execution of a probe or function.
    Local(u32),
    /// Of the site, by its number in the probe.
    Site(u32),
    /// Of the program: global, or shared by the sites of a rule.
    Global(u32),
    /// Of the activation of the function.
    Frame(u32),
}

/// An expression with its type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expr {
    /// Its kind.
    pub kind: ExprKind,
    /// Its type.
    pub ty: Ty,
    /// Its place in the script.
    pub span: Span,
}

/// The kinds of expressions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExprKind {
    /// An integer.
    Int(i128),
    /// A float.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A text.
    Str(Rc<str>),
    /// A map with known contents: the targets of a branch.
    Table(Rc<[u32]>),
    /// A variable of the event.
    Bound(Bound),
    /// A variable of the script.
    Var(Var),
    /// A part of a tuple.
    Field(Box<Expr>, u32),
    /// The value of a key in a map.
    Index(Box<Expr>, Box<Expr>),
    /// Several values.
    Tuple(Vec<Expr>),
    /// An operator with one operand.
    Unary(UnOp, Box<Expr>),
    /// An operator with two operands.
    Binary(BinOp, Box<Expr>, Box<Expr>),
    /// A conversion to the type of this expression.
    Cast(Box<Expr>),
    /// A conditional expression.
    Choice(Box<[Expr; 3]>),
    /// A call of a function of the script.
    Call(u32, Vec<Expr>),
    /// A call of a function of the language.
    Builtin(Builtin, Vec<Expr>),
    /// A call of a function of a library.
    Library(LibraryCall, Vec<Expr>),
}

/// A library's function, and the time of the call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LibraryCall {
    /// The number of the library.
    pub library: u32,
    /// The name of the function.
    pub function: Rc<str>,
    /// Whether it is evaluated once, when a site is matched.
    pub at_match: bool,
}

/// Functions of the language.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Builtin {
    /// Address and length, text: returns whether they are equal.
    StrCmp,
    /// Address and length, text: returns whether the one contains the other.
    StrContains,
    /// Text, text.
    Contains,
    /// Text, text.
    StartsWith,
    /// Text, text.
    EndsWith,
    /// Text.
    StrAddr,
    /// Text.
    StrLen,
    /// Text of numbers separated by commas, index: returns the number there, or 0.
    StrNumber,
    /// Memory of a library.
    MemId(u32),
    /// Memory, address, memory, address, length.
    MemCpy,
    /// Memory.
    MemSize,
    /// Memory.
    PageSize,
    /// Memory.
    ActiveDataStart,
    /// Memory.
    ActiveDataLen,
    /// Memory, address, text.
    WriteStr,
    /// Memory, address, length.
    ReadStr,
    /// Map, key.
    MapContains,
    /// Map, key.
    MapDelete,
    /// Map.
    MapSize,
    /// Prints texts and values to the report's destination: the pieces of text between the
    /// arguments, and whether each argument is printed in hexadecimal.
    Print(Rc<[(Rc<str>, bool)]>),
    /// The character with a code.
    PutC,
    /// Address and length of a text in the memory of the core library.
    PutS,
    /// A map as in a report.
    PrintMap,
    /// A map row by row, under its number.
    PrintMapCsv(u32),
    /// Allocates in the monitor's memory.
    MemAlloc,
    /// Frees it.
    MemFree,
    /// Removes a probe from its site: its identity is the argument.
    RemoveProbe,
    /// A function that exists only at some events.
    Event(EventFunction),
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stmt {
    /// Initialises a local variable.
    Declare(u32, Option<Expr>),
    /// Assigns a value to a place.
    Assign(Place, Expr),
    /// Combines a place with a value.
    Update(Place, BinOp, Expr),
    /// Evaluates an expression, and discards its value.
    Do(Expr),
    /// Ends the probe or function.
    Return(Option<Expr>),
    /// A conditional statement.
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// Counts a local variable from the first value to before the second.
    Count(u32, Expr, Expr, Vec<Stmt>),
    /// Iterates over a map: key, value, the map.
    Each(u32, Option<u32>, Expr, Vec<Stmt>),
    /// Repeats while a condition holds, up to a maximum number of iterations.
    While(Expr, u32, Vec<Stmt>),
    /// Leaves the loop.
    Break,
    /// Continues with the next iteration.
    Continue,
}

/// A place that can be assigned.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Place {
    /// A variable.
    Var(Var, Ty),
    /// A variable of the event: an operand, a result, a local.
    Bound(Bound, Ty),
    /// The value of a key in a map.
    Element(Box<Expr>, Box<Expr>),
    /// A part of a tuple.
    Field(Box<Place>, u32),
}

impl Place {
    /// The type of its value.
    pub(crate) fn ty(&self) -> Ty {
        match self {
            Self::Var(_, ty) | Self::Bound(_, ty) => ty.clone(),
            Self::Element(map, _) => match &map.ty {
                Ty::Map(kv) => kv.1.clone(),
                other => other.clone(),
            },
            Self::Field(place, n) => match place.ty() {
                Ty::Tuple(parts) => parts.get(*n as usize).cloned().unwrap_or_else(Ty::unit),
                other => other,
            },
        }
    }
}

/// A variable that persists after an execution.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    /// Its name.
    pub name: Rc<str>,
    /// Its type.
    pub ty: Ty,
    /// Printed in the report.
    pub report: bool,
    /// Its initial value; for globals a statement sets it instead.
    pub init: Option<Expr>,
    /// The number of its script.
    pub script: u16,
    /// Where it was declared.
    pub span: Span,
}

/// The maps among global variables in the order of their numbers: by script, then by name, as rows
/// of the report have them.
pub(crate) fn numbered_maps(globals: &[Variable]) -> Vec<usize> {
    let mut maps: Vec<usize> =
        (0..globals.len()).filter(|i| matches!(globals[*i].ty, Ty::Map(_))).collect();
    maps.sort_by_key(|i| (globals[*i].script, globals[*i].name.clone()));
    maps
}

/// The body of a probe.
#[derive(Clone, Debug, Default)]
pub(crate) struct Body {
    /// The condition under which it runs.
    pub predicate: Option<Expr>,
    /// Its statements.
    pub stmts: Vec<Stmt>,
    /// The types of the local variables.
    pub locals: Vec<Ty>,
    /// Variables with one instance for each site.
    pub sites: Vec<Variable>,
    /// Calls of libraries that are made once for each site before the program starts.
    pub inits: Vec<Expr>,
    /// Types at which variables of the site are used; a site with other types does not match.
    pub bounds: BTreeMap<Bound, Ty>,
    /// Those of them whose types the rule itself restricts.
    pub declared: Vec<Bound>,
    /// Operands, results or locals that are assigned.
    pub assigned: Vec<Bound>,
}

/// A probe for one event in one mode.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    /// The number of its script.
    pub script: u16,
    /// Its number in the script, which begins its identity in a report.
    pub number: u32,
    /// Its rule, counted over all scripts.
    pub rule: u32,
    /// Its event and mode.
    pub matched: Match,
    /// Its body.
    pub body: Rc<Body>,
    /// Where its rule was written.
    pub span: Span,
    /// Whether it is the variant for programs with 64-bit addresses; another one exists for all
    /// others.
    pub alternative: bool,
}

impl Probe {
    /// Its identity in a report.
    pub(crate) fn id(&self) -> String {
        format!("{}_{}", self.number, self.matched.path())
    }
}

/// A function of a script.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    /// Its name.
    pub name: Rc<str>,
    /// How many of the locals are parameters.
    pub params: usize,
    /// Its result.
    pub result: Ty,
    /// The types of its local variables, parameters first.
    pub locals: Vec<Ty>,
    /// Its statements.
    pub stmts: Vec<Stmt>,
}

/// The checked scripts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    /// Variables with one instance: globals of the scripts, and those that the sites of a rule
    /// share.
    pub globals: Vec<Variable>,
    /// Variables with one instance for each activation of a function.
    pub frames: Vec<Variable>,
    /// Statements that run before the program starts.
    pub start: Vec<Stmt>,
    /// The types of the local variables of the start.
    pub start_locals: Vec<Ty>,
    /// Functions of all scripts.
    pub functions: Vec<Function>,
    /// Probes of all scripts.
    pub probes: Vec<Probe>,
    /// Rules that are wrong for 64-bit addresses.
    pub narrow: Vec<Span>,
}

impl Expr {
    /// Whether its value is known when a site is matched: all its bound variables are known then,
    /// and nothing else can change the value.
    pub(crate) fn is_static(&self) -> bool {
        match &self.kind {
            ExprKind::Bound(b) => b.is_static(),
            ExprKind::Var(_) | ExprKind::Call(..) => false,
            ExprKind::Library(call, args) => call.at_match && args.iter().all(Self::is_static),
            ExprKind::Builtin(b, args) => {
                let pure = matches!(
                    b,
                    Builtin::Contains
                        | Builtin::StartsWith
                        | Builtin::EndsWith
                        | Builtin::StrLen
                        | Builtin::StrNumber
                        | Builtin::MemId(_)
                        | Builtin::PageSize
                        | Builtin::ActiveDataStart
                        | Builtin::ActiveDataLen
                );
                pure && args.iter().all(Self::is_static)
            }
            _ => self.children().iter().all(|e| e.is_static()),
        }
    }

    /// Whether two expressions compute the same, regardless of their places.
    pub(crate) fn same(&self, other: &Self) -> bool {
        let kinds = match (&self.kind, &other.kind) {
            (ExprKind::Unary(op, a), ExprKind::Unary(of, b)) => op == of && a.same(b),
            (ExprKind::Cast(a), ExprKind::Cast(b)) => a.same(b),
            (ExprKind::Binary(op, a, c), ExprKind::Binary(of, b, d)) => {
                op == of && a.same(b) && c.same(d)
            }
            (a, b) => a == b,
        };
        kinds && self.ty == other.ty
    }

    /// The expressions directly inside.
    pub(crate) fn children(&self) -> Vec<&Self> {
        match &self.kind {
            ExprKind::Field(a, _) | ExprKind::Unary(_, a) | ExprKind::Cast(a) => vec![a],
            ExprKind::Index(a, b) | ExprKind::Binary(_, a, b) => vec![a, b],
            ExprKind::Choice(three) => three.iter().collect(),
            ExprKind::Tuple(list)
            | ExprKind::Call(_, list)
            | ExprKind::Builtin(_, list)
            | ExprKind::Library(_, list) => list.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Visits this expression and all inside.
    pub(crate) fn walk(&self, look: &mut dyn FnMut(&Self)) {
        look(self);
        for child in self.children() {
            child.walk(look);
        }
    }
}

impl Place {
    fn walk(&self, look: &mut dyn FnMut(&Expr)) {
        match self {
            Self::Element(map, key) => {
                map.walk(look);
                key.walk(look);
            }
            Self::Field(inner, _) => inner.walk(look),
            _ => {}
        }
    }
}

impl Stmt {
    /// Visits every statement, from the outside in.
    pub(crate) fn visit(&self, look: &mut dyn FnMut(&Self)) {
        look(self);
        let blocks: [&[Self]; 2] = match self {
            Self::If(_, a, b) => [a, b],
            Self::Count(_, _, _, a) | Self::Each(_, _, _, a) | Self::While(_, _, a) => [a, &[]],
            _ => return,
        };
        for stmt in blocks.into_iter().flatten() {
            stmt.visit(look);
        }
    }

    /// Visits every expression.
    pub(crate) fn walk(&self, look: &mut dyn FnMut(&Expr)) {
        self.visit(&mut |stmt| match stmt {
            Self::Declare(_, Some(e))
            | Self::Do(e)
            | Self::Return(Some(e))
            | Self::If(e, ..)
            | Self::Each(_, _, e, _)
            | Self::While(e, ..) => e.walk(look),
            Self::Assign(place, e) | Self::Update(place, _, e) => {
                place.walk(look);
                e.walk(look);
            }
            Self::Count(_, a, b, _) => {
                a.walk(look);
                b.walk(look);
            }
            _ => {}
        });
    }
}

/// A translation of statements, given that of expressions: choices whose condition becomes known
/// are decided.
pub(crate) trait Translate {
    /// Translates an expression.
    fn expr(&mut self, e: &Expr) -> Expr;

    /// Translates an expression whose value is not needed.
    fn done(&mut self, e: &Expr) -> Expr {
        self.expr(e)
    }

    /// Translates a place.
    fn place(&mut self, place: &Place) -> Place {
        match place {
            Place::Element(map, key) => {
                Place::Element(Box::new(self.expr(map)), Box::new(self.expr(key)))
            }
            Place::Field(inner, n) => Place::Field(Box::new(self.place(inner)), *n),
            other => other.clone(),
        }
    }

    /// Translates statements, in their order.
    fn stmts(&mut self, list: &[Stmt]) -> Vec<Stmt> {
        list.iter().flat_map(|s| self.stmt(s)).collect()
    }

    /// Translates a statement: to several ones if it is a choice that is decided.
    fn stmt(&mut self, stmt: &Stmt) -> Vec<Stmt> {
        vec![match stmt {
            Stmt::Declare(n, e) => Stmt::Declare(*n, e.as_ref().map(|e| self.expr(e))),
            Stmt::Assign(p, e) => Stmt::Assign(self.place(p), self.expr(e)),
            Stmt::Update(p, op, e) => Stmt::Update(self.place(p), *op, self.expr(e)),
            Stmt::Do(e) => Stmt::Do(self.done(e)),
            Stmt::Return(e) => Stmt::Return(e.as_ref().map(|e| self.expr(e))),
            Stmt::If(c, a, b) => {
                let cond = self.expr(c);
                match cond.kind {
                    ExprKind::Bool(true) => return self.stmts(a),
                    ExprKind::Bool(false) => return self.stmts(b),
                    _ => Stmt::If(cond, self.stmts(a), self.stmts(b)),
                }
            }
            Stmt::Count(n, a, b, body) => {
                Stmt::Count(*n, self.expr(a), self.expr(b), self.stmts(body))
            }
            Stmt::Each(k, v, map, body) => Stmt::Each(*k, *v, self.expr(map), self.stmts(body)),
            Stmt::While(c, n, body) => Stmt::While(self.expr(c), *n, self.stmts(body)),
            other => other.clone(),
        }]
    }
}

impl Body {
    /// Visits every expression of the predicate, the statements and the initialisation.
    pub(crate) fn walk(&self, look: &mut dyn FnMut(&Expr)) {
        for e in self
            .predicate
            .iter()
            .chain(&self.inits)
            .chain(self.sites.iter().filter_map(|s| s.init.as_ref()))
        {
            e.walk(look);
        }
        for stmt in &self.stmts {
            stmt.walk(look);
        }
    }
}
