//! Names of exports, as engines read them: `EVENT PREDICATE (PARAMETERS)`.

use crate::events::Bound;
use crate::hir::{Expr, ExprKind, Stmt};
use crate::types::Ty;
use std::collections::BTreeMap;
use std::fmt;

/// A helper that is called when a site is matched, and what it is given.
pub(super) type Helper = (u32, BTreeMap<Bound, Ty>);

/// A name.
pub(super) struct Name<'a> {
    pub(super) event: &'a Event,
    pub(super) predicate: Option<&'a Helper>,
    pub(super) record: Option<&'a Helper>,
    pub(super) given: &'a BTreeMap<Bound, Ty>,
}

/// An event as an engine spells it, and whether it numbers the immediates of `br_table` from the labels' count.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
    pub(super) text: String,
    pub(super) counted: bool,
}

/// How an engine calls a variable of an event.
fn spelled(bound: Bound, counted: bool) -> String {
    match bound {
        Bound::Imm(n) if counted => format!("imm{}", u32::from(n) + 1),
        Bound::Memory => "imm1".into(),
        Bound::Align => "imm0".into(),
        other => other.name(),
    }
}

fn list(given: &BTreeMap<Bound, Ty>, counted: bool) -> Vec<String> {
    given.keys().map(|b| spelled(*b, counted)).collect()
}

fn call(helper: &Helper, counted: bool) -> String {
    format!("${}({})", helper.0, list(&helper.1, counted).join(", "))
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = self.event.counted;
        let predicate = self.predicate.map(|p| format!("/ {} /", call(p, counted))).unwrap_or_default();
        let mut params: Vec<String> = self.record.iter().map(|r| call(r, counted)).collect();
        params.extend(list(self.given, counted));
        write!(f, "{} {predicate} ({})", self.event.text, params.join(", "))
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
pub(super) fn given_body(residue: Option<&Expr>, stmts: &[Stmt], bounds: &BTreeMap<Bound, Ty>) -> BTreeMap<Bound, Ty> {
    let mut all = bounds.clone();
    if let Some(e) = residue {
        e.walk(&mut |e| note(e, &mut all));
    }
    for stmt in stmts {
        stmt.walk(&mut |e| note(e, &mut all));
    }
    all
}
