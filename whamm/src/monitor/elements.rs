//! Elements of maps whose keys are known when a monitor is compiled.
//!
//! Where a map is only added to, at constant keys, and looked at by nobody but the report, a global is added to instead of each element: the
//! engine need not look anything up, and may find out what is added without calling anybody. Before the report, what has come together is added to the map.

use super::group::Group;
use crate::hir::{Expr, ExprKind, Place, Program, Stmt, Var};
use crate::syntax::ast::BinOp;
use crate::types::Ty;
use std::collections::{BTreeMap, BTreeSet};

/// An element, and the number of the global that stands for it until the report.
#[derive(Clone, Debug)]
pub(super) struct Element {
    map: Expr,
    key: Expr,
    pub(super) ty: Ty,
    number: u32,
}

/// A statement that adds to an element at a constant key: the map's number, the key.
fn addition(stmt: &Stmt) -> Option<(u32, i128)> {
    let Stmt::Update(Place::Element(map, key), BinOp::Add, value) = stmt else { return None };
    let (ExprKind::Var(Var::Global(map)), ExprKind::Int(key), ExprKind::Int(by)) = (&map.kind, &key.kind, &value.kind) else {
        return None;
    };
    // An element that is added to is there, whatever it becomes: only what cannot come to zero again is put off.
    (value.ty.is_int() && (1..=i32::MAX.into()).contains(by)).then_some((*map, *key))
}

/// How often maps are spoken of at all, and in additions.
fn occurrences(program: &Program, groups: &[Group<'_>]) -> (BTreeMap<u32, usize>, BTreeMap<u32, usize>) {
    let (mut all, mut added) = (BTreeMap::new(), BTreeMap::new());
    let mut look = |e: &Expr| {
        if let (ExprKind::Var(Var::Global(n)), Ty::Map(_)) = (&e.kind, &e.ty) {
            *all.entry(*n).or_default() += 1;
        }
    };
    for probe in program.probes.iter().filter(|probe| !probe.matched.event.has_sites()) {
        probe.body.walk(&mut look);
    }
    program.functions.iter().flat_map(|f| &f.stmts).chain(&program.start).for_each(|stmt| stmt.walk(&mut look));
    for group in groups {
        let first = group.sites.iter().filter_map(|site| site.init.as_ref());
        group.predicate.iter().chain(&group.inits).chain(first).for_each(|e| e.walk(&mut look));
        group.stmts.iter().for_each(|stmt| stmt.walk(&mut look));
    }
    for stmt in groups.iter().flat_map(|group| &group.stmts) {
        stmt.visit(&mut |stmt| {
            if let Some((map, _)) = addition(stmt) {
                *added.entry(map).or_default() += 1;
            }
        });
    }
    (all, added)
}

/// Has globals added to instead of elements, where that can be.
pub(super) fn replace(program: &Program, groups: &mut [Group<'_>]) -> Vec<Element> {
    let (all, added) = occurrences(program, groups);
    let free =
        |map: &u32| program.globals.get(*map as usize).is_some_and(|global| global.report) && all.get(map) == added.get(map);
    let maps: BTreeSet<u32> = added.keys().copied().filter(free).collect();
    let (mut elements, mut known) = (Vec::new(), BTreeMap::new());
    for group in groups {
        each(&mut group.stmts, &mut |stmt| {
            let Some(place) = addition(stmt).filter(|(map, _)| maps.contains(map)) else { return };
            let Stmt::Update(Place::Element(map, key), op, value) = &*stmt else { return };
            let ty = value.ty.clone();
            let number = *known.entry(place).or_insert_with(|| {
                let number = u32::try_from(program.globals.len() + elements.len()).unwrap_or(u32::MAX);
                elements.push(Element { map: (**map).clone(), key: (**key).clone(), ty: ty.clone(), number });
                number
            });
            *stmt = Stmt::Update(Place::Var(Var::Global(number), ty), *op, value.clone());
        });
    }
    elements
}

fn each(stmts: &mut [Stmt], change: &mut dyn FnMut(&mut Stmt)) {
    for stmt in stmts {
        match stmt {
            Stmt::If(_, a, b) => {
                each(a, change);
                each(b, change);
            }
            Stmt::Count(_, _, _, body) | Stmt::Each(_, _, _, body) | Stmt::While(_, _, body) => each(body, change),
            other => change(other),
        }
    }
}

impl Element {
    /// Adds what has come together, if anything has.
    pub(super) fn settle(&self) -> Stmt {
        let span = self.key.span;
        let sum = Expr { kind: ExprKind::Var(Var::Global(self.number)), ty: self.ty.clone(), span };
        let zero = Expr { kind: ExprKind::Int(0), ty: self.ty.clone(), span };
        let some = ExprKind::Binary(BinOp::Ne, Box::new(sum.clone()), Box::new(zero.clone()));
        let element = Place::Element(Box::new(self.map.clone()), Box::new(self.key.clone()));
        let clear = Stmt::Assign(Place::Var(Var::Global(self.number), self.ty.clone()), zero);
        let add = vec![Stmt::Update(element, BinOp::Add, sum), clear];
        Stmt::If(Expr { kind: some, ty: Ty::Bool, span }, add, vec![])
    }
}
