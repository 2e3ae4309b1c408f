//! Names of exports, as engines read them: `EVENT PREDICATE (PARAMETERS)`.

use crate::events::Bound;
use crate::hir::{Expr, ExprKind, Stmt};
use crate::types::Ty;
use std::collections::BTreeMap;
use std::fmt;

/// A helper that is called when a site is matched, and its parameters.
pub(super) type Helper = (u32, BTreeMap<Bound, Ty>);

/// A name.
pub(super) struct Name<'a> {
    pub(super) event: &'a Event,
    pub(super) predicate: Option<&'a Helper>,
    pub(super) record: Option<&'a Helper>,
    pub(super) given: &'a BTreeMap<Bound, Ty>,
    /// The values that it leaves in place of an instruction.
    pub(super) leaves: Option<&'a Leaves>,
}

/// The values that a function leaves in place of an instruction, as engines read them.
#[derive(Clone, Debug)]
pub(super) struct Leaves {
    /// How many operands it reads; `None` if all.
    pub(super) asks: Option<usize>,
    pub(super) drops: bool,
    /// Whether its last result is the decision.
    pub(super) decides: bool,
    /// The functions that the engine calls instead.
    pub(super) calls: Vec<Callee>,
}

/// A function that the engine calls instead of an instruction.
#[derive(Clone, Debug)]
pub(super) struct Callee {
    /// Its index or name, as the script computes it.
    pub(super) which: Expr,
    /// The helper that computes it when a site is matched, unless it is a constant.
    pub(super) helper: Option<Helper>,
}

impl Callee {
    fn spelled(&self, skipped: u32) -> String {
        match (&self.helper, &self.which.kind) {
            (Some(helper), _) => call(helper, skipped),
            (None, ExprKind::Str(name)) => {
                format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
            }
            (None, ExprKind::Int(index)) => index.to_string(),
            _ => unreachable!("what is no constant has a helper"),
        }
    }
}

impl Leaves {
    fn spelled(&self, skipped: u32) -> String {
        let mut parts: Vec<String> = self.asks.iter().map(|asks| format!("asks {asks}")).collect();
        parts.extend(self.drops.then(|| "drops".into()));
        parts.extend(self.decides.then(|| "decides".into()));
        parts.extend(self.calls.iter().map(|callee| callee.spelled(skipped)));
        format!("{{{}}}", parts.join(", "))
    }
}

/// An event as an engine spells it, and how many immediates it numbers there before those that
/// scripts number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
    pub(super) text: String,
    pub(super) skipped: u32,
}

/// The engine's name for a variable of an event.
fn spelled(bound: Bound, skipped: u32) -> String {
    match bound {
        Bound::Imm(n) => format!("imm{}", u32::from(n) + skipped),
        Bound::Memory => "imm1".into(),
        Bound::Align => "imm0".into(),
        other => other.name(),
    }
}

fn list(given: &BTreeMap<Bound, Ty>, skipped: u32) -> Vec<String> {
    given.keys().map(|b| spelled(*b, skipped)).collect()
}

fn call(helper: &Helper, skipped: u32) -> String {
    format!("${}({})", helper.0, list(&helper.1, skipped).join(", "))
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped = self.event.skipped;
        let predicate =
            self.predicate.map(|p| format!("/ {} /", call(p, skipped))).unwrap_or_default();
        let mut params: Vec<String> = self.record.iter().map(|r| call(r, skipped)).collect();
        params.extend(list(self.given, skipped));
        write!(f, "{} {predicate} ({})", self.event.text, params.join(", "))?;
        self.leaves.map_or(Ok(()), |leaves| write!(f, " {}", leaves.spelled(skipped)))
    }
}

/// Variables of the event that are used, with their types, and some more.
pub(super) fn given(exprs: &[&Expr], more: &[(Bound, Ty)]) -> BTreeMap<Bound, Ty> {
    let mut all: BTreeMap<Bound, Ty> = more.iter().cloned().collect();
    for e in exprs {
        e.walk(&mut |e| note(e, &mut all));
    }
    all
}

fn note(e: &Expr, all: &mut BTreeMap<Bound, Ty>) {
    if let ExprKind::Bound(b) = e.kind {
        all.insert(b, e.ty.clone());
    }
}

/// Variables of the event that a body uses, or whose types it bounds.
pub(super) fn given_body(
    residue: Option<&Expr>,
    stmts: &[Stmt],
    bounds: &BTreeMap<Bound, Ty>,
) -> BTreeMap<Bound, Ty> {
    let mut all = bounds.clone();
    if let Some(e) = residue {
        e.walk(&mut |e| note(e, &mut all));
    }
    for stmt in stmts {
        stmt.walk(&mut |e| note(e, &mut all));
    }
    all
}
