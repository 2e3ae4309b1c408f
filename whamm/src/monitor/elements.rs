//! Scalar replacement of map entries whose keys are known before the program runs.
//!
//! If a map is only added to, at keys that are constant or known when a site is matched, and only
//! the report reads it, each element is replaced by a scalar: a global, or a variable of the site.
//! The engine needs no lookup, and may compute the sums without calling any function. Before the
//! report, the sums are added to the map.

use super::group::Group;
use crate::hir::{Expr, ExprKind, Place, Program, Stmt, Var, Variable};
use crate::syntax::ast::BinOp;
use crate::types::Ty;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// An element, and the number of the variable that replaces it until the report: a global, or one
/// of a site's.
#[derive(Clone, Debug)]
pub(super) struct Element {
    map: Expr,
    key: Expr,
    pub(super) ty: Ty,
    number: u32,
}

/// A statement that adds to an element: the map's number, the key.
fn addition(stmt: &Stmt) -> Option<(u32, &Expr)> {
    let Stmt::Update(Place::Element(map, key), BinOp::Add, value) = stmt else { return None };
    let (ExprKind::Var(Var::Global(map)), ExprKind::Int(by)) = (&map.kind, &value.kind) else {
        return None;
    };
    // An addition creates the element, whatever its value becomes. So only amounts that cannot sum
    // to zero are replaced.
    (value.ty.is_int() && (1..=i32::MAX.into()).contains(by)).then_some((*map, &**key))
}

/// A key that is known when a site is matched, expressed by variables of the site. Missing
/// variables are added, and their values are read then.
fn kept(key: &Expr, sites: &mut Vec<Variable>, script: u16) -> Option<Expr> {
    match key.kind {
        ExprKind::Var(Var::Site(n)) => {
            return is_hidden(sites.get(n as usize)?).then(|| key.clone());
        }
        ExprKind::Bound(bound) if bound.is_static() => {
            return Some(Expr {
                kind: ExprKind::Var(Var::Site(hidden(sites, key, script))),
                ..key.clone()
            });
        }
        _ => {}
    }
    let mut sub = |e: &Expr| kept(e, sites, script).map(Box::new);
    let kind = match &key.kind {
        ExprKind::Int(_) | ExprKind::Bool(_) | ExprKind::Str(_) => key.kind.clone(),
        ExprKind::Cast(a) => ExprKind::Cast(sub(a)?),
        ExprKind::Unary(op, a) => ExprKind::Unary(*op, sub(a)?),
        ExprKind::Binary(
            op @ (BinOp::Add | BinOp::Sub | BinOp::BitAnd | BinOp::BitOr | BinOp::BitXor),
            a,
            b,
        ) => ExprKind::Binary(*op, sub(a)?, sub(b)?),
        ExprKind::Tuple(list) => {
            ExprKind::Tuple(list.iter().map(|e| sub(e).map(|e| *e)).collect::<Option<_>>()?)
        }
        _ => return None,
    };
    Some(Expr { kind, ..key.clone() })
}

/// Whether it is a variable that does not occur in a script, and that keeps its initial value.
fn is_hidden(variable: &Variable) -> bool {
    !variable.report && variable.name.is_empty() && variable.init.is_some()
}

/// A variable of a site that is initialised with a value known then.
fn hidden(sites: &mut Vec<Variable>, init: &Expr, script: u16) -> u32 {
    let known = sites.iter().position(|site| is_hidden(site) && site.init.as_ref() == Some(init));
    let place = known.unwrap_or_else(|| {
        sites.push(nameless(&init.ty, Some(init.clone()), script, init));
        sites.len() - 1
    });
    u32::try_from(place).unwrap_or(u32::MAX)
}

fn nameless(ty: &Ty, init: Option<Expr>, script: u16, at: &Expr) -> Variable {
    Variable { name: Rc::from(""), ty: ty.clone(), report: false, init, script, span: at.span }
}

/// Whether a key is known before the program runs.
fn is_known(key: &Expr, group: &Group<'_>) -> bool {
    kept(key, &mut group.sites.clone(), 0).is_some()
}

/// How often maps occur at all, and in additions.
fn occurrences(
    program: &Program,
    groups: &[Group<'_>],
) -> (BTreeMap<u32, usize>, BTreeMap<u32, usize>) {
    let (mut all, mut added) = (BTreeMap::new(), BTreeMap::new());
    let mut look = |e: &Expr| {
        if let (ExprKind::Var(Var::Global(n)), Ty::Map(_)) = (&e.kind, &e.ty) {
            *all.entry(*n).or_default() += 1;
        }
    };
    for probe in program.probes.iter().filter(|probe| !probe.matched.event.has_sites()) {
        probe.body.walk(&mut look);
    }
    program
        .functions
        .iter()
        .flat_map(|f| &f.stmts)
        .chain(&program.start)
        .for_each(|stmt| stmt.walk(&mut look));
    for group in groups {
        let first = group.sites.iter().filter_map(|site| site.init.as_ref());
        group.predicate.iter().chain(&group.inits).chain(first).for_each(|e| e.walk(&mut look));
        group.stmts.iter().for_each(|stmt| stmt.walk(&mut look));
    }
    for group in groups {
        let mut look = |stmt: &Stmt| {
            if let Some((map, _)) = addition(stmt).filter(|(_, key)| is_known(key, group)) {
                *added.entry(map).or_default() += 1;
            }
        };
        group.stmts.iter().for_each(|stmt| stmt.visit(&mut look));
    }
    (all, added)
}

/// Replaces elements by scalars where possible: by globals, which are returned, or by variables of
/// sites.
pub(super) fn replace(program: &Program, groups: &mut [Group<'_>]) -> Vec<Element> {
    let (all, added) = occurrences(program, groups);
    let free = |map: &u32| {
        program.globals.get(*map as usize).is_some_and(|global| global.report)
            && all.get(map) == added.get(map)
    };
    let maps: BTreeSet<u32> = added.keys().copied().filter(free).collect();
    let (mut elements, mut known) = (Vec::new(), BTreeMap::new());
    for group in groups {
        let mut stmts = std::mem::take(&mut group.stmts);
        each(&mut stmts, &mut |stmt| {
            let Some((map, key)) = addition(stmt).filter(|(map, _)| maps.contains(map)) else {
                return;
            };
            let Stmt::Update(Place::Element(of, _), op, value) = &*stmt else { return };
            let ty = value.ty.clone();
            let var = match key.kind {
                ExprKind::Int(number) => {
                    Var::Global(*known.entry((map, number)).or_insert_with(|| {
                        let number = u32::try_from(program.globals.len() + elements.len())
                            .unwrap_or(u32::MAX);
                        elements.push(Element {
                            map: (**of).clone(),
                            key: key.clone(),
                            ty: ty.clone(),
                            number,
                        });
                        number
                    }))
                }
                _ => Var::Site(group.element(of, key, &ty)),
            };
            *stmt = Stmt::Update(Place::Var(var, ty), *op, value.clone());
        });
        group.stmts = stmts;
    }
    elements
}

impl Group<'_> {
    /// The variable of a site that replaces an element until the report.
    fn element(&mut self, map: &Expr, key: &Expr, ty: &Ty) -> u32 {
        let script = self.events[0].script;
        let key = kept(key, &mut self.sites, script).expect("it was found to be known");
        let known = self
            .put_off
            .iter()
            .find(|one| one.map.same(map) && one.key.same(&key) && one.ty == *ty);
        known.map(|one| one.number).unwrap_or_else(|| {
            let number = u32::try_from(self.sites.len()).unwrap_or(u32::MAX);
            self.sites.push(nameless(ty, None, script, &key));
            self.put_off.push(Element { map: map.clone(), key, ty: ty.clone(), number });
            number
        })
    }

    /// The variable that chains records of sites with sums to add before the report, if there are
    /// any.
    pub(super) fn link(&mut self) -> Option<u32> {
        let first = self.put_off.first()?;
        self.sites.push(nameless(&Ty::U32, None, self.events[0].script, &first.key));
        u32::try_from(self.sites.len() - 1).ok()
    }
}

fn each(stmts: &mut [Stmt], change: &mut dyn FnMut(&mut Stmt)) {
    for stmt in stmts {
        match stmt {
            Stmt::If(_, a, b) => {
                each(a, change);
                each(b, change);
            }
            Stmt::Count(_, _, _, body) | Stmt::Each(_, _, _, body) | Stmt::While(_, _, body) => {
                each(body, change);
            }
            other => change(other),
        }
    }
}

impl Element {
    /// Adds the sum in a global to its map, if it is not zero.
    pub(super) fn settle(&self) -> Stmt {
        self.settle_from(Var::Global(self.number))
    }

    /// The same for the sum in a variable of a site.
    pub(super) fn settle_site(&self) -> Stmt {
        self.settle_from(Var::Site(self.number))
    }

    fn settle_from(&self, var: Var) -> Stmt {
        let span = self.key.span;
        let sum = Expr { kind: ExprKind::Var(var), ty: self.ty.clone(), span };
        let zero = Expr { kind: ExprKind::Int(0), ty: self.ty.clone(), span };
        let some = ExprKind::Binary(BinOp::Ne, Box::new(sum.clone()), Box::new(zero.clone()));
        let element = Place::Element(Box::new(self.map.clone()), Box::new(self.key.clone()));
        let clear = Stmt::Assign(Place::Var(var, self.ty.clone()), zero);
        let add = vec![Stmt::Update(element, BinOp::Add, sum), clear];
        Stmt::If(Expr { kind: some, ty: Ty::Bool, span }, add, vec![])
    }
}
