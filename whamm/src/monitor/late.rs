//! What a script does before the program starts, and cannot do when the monitor is instantiated:
//! the program's memories exist only when the program is instantiated, after sites were matched.
//!
//! From the first statement on that accesses a memory, everything runs then, in order.

use crate::diagnostic::{Diagnostics, Kind};
use crate::emit::memories;
use crate::hir::{Expr, ExprKind, Place, Program, Stmt, Var};
use crate::types::Ty;
use std::collections::HashSet;

/// A predicate, statements, and the types of their local variables.
pub(super) type Part = (Option<Expr>, Vec<Stmt>, Vec<Ty>);

/// What runs when the monitor is instantiated, and what runs when the program is.
pub(super) fn divided(program: &Program, begins: Vec<Part>) -> (Vec<Part>, Vec<Part>) {
    let is_late = |stmt: &Stmt| memories::access(std::slice::from_ref(stmt), program);
    let first = program.start.iter().position(is_late);
    let at = match first {
        // Local variables belong to one function.
        Some(_) if !program.start_locals.is_empty() => 0,
        Some(first) => first,
        None => program.start.len(),
    };
    let (early, late) = program.start.split_at(at);
    let part = |stmts: &[Stmt]| (None, stmts.to_vec(), program.start_locals.clone());
    let (mut before, mut after) = (vec![part(early)], Vec::new());
    if first.is_some() {
        after.push(part(late));
    }
    for begin in begins {
        let accesses = accesses(&begin, program);
        if accesses || !after.is_empty() { after.push(begin) } else { before.push(begin) }
    }
    (before, after)
}

fn accesses((predicate, stmts, _): &Part, program: &Program) -> bool {
    let condition = predicate.iter().map(|condition| Stmt::Do(condition.clone()));
    memories::access(stmts, program) || memories::access(&condition.collect::<Vec<_>>(), program)
}

/// Reports initial values that are computed when a site is matched, and depend on what comes later.
pub(super) fn check(program: &Program, late: &[Part], said: &mut Diagnostics) {
    let mut set = HashSet::new();
    let assigned = late.iter().flat_map(|part| &part.1);
    assigned.for_each(|stmt| {
        stmt.visit(&mut |stmt| {
            if let Stmt::Assign(place, _) | Stmt::Update(place, ..) = stmt {
                set.extend(global(place));
            }
        });
    });
    let mut look = |e: &Expr| {
        if let ExprKind::Var(Var::Global(number)) = e.kind
            && set.contains(&number)
        {
            let message = "this variable gets its value from the program's memory, which does not \
                           exist yet when a site is matched";
            let help = "assign the value in the body";
            said.push_help(Kind::WeiError, Some(e.span), message, help);
        }
    };
    for probe in &program.probes {
        let inits = probe.body.sites.iter().filter_map(|site| site.init.as_ref());
        inits.chain(&probe.body.inits).for_each(|e| e.walk(&mut look));
    }
}

/// The global variable that a place belongs to.
fn global(place: &Place) -> Option<u32> {
    let of_expr = |map: &Expr| {
        let mut found = None;
        map.walk(&mut |e| {
            if let ExprKind::Var(Var::Global(number)) = e.kind {
                found = found.or(Some(number));
            }
        });
        found
    };
    match place {
        Place::Var(Var::Global(number), ..) => Some(*number),
        Place::Field(inner, _) => global(inner),
        Place::Element(map, _) => of_expr(map),
        _ => None,
    }
}
