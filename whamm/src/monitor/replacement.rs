//! Probes that replace instructions: the values that they leave, as engines read them.
//!
//! The operands and results of an instruction are known when a site is matched, so the engine
//! computes which operands stay. Literals that a script returns have the types of the instruction's
//! results: if these depend on the site, there is an export for each type.

use super::Maker;
use super::group::Group;
use super::name::{Callee, Event as EventName, Leaves};
use crate::diagnostic::{Diagnostics, Kind};
use crate::emit::locals::Locals;
use crate::emit::replacement::{
    Calls, Deeds, Replacement, always_gives, goes_on_after_call, is_constant, types_returned,
};
use crate::events::{Event, Mode};
use crate::hir::Expr;
use crate::rewrite::asked_for;
use crate::types::Ty;
use wasm_encoder::ValType;

fn replaces(group: &Group<'_>) -> bool {
    matches!(group.events[0].matched.mode, Mode::Alt | Mode::BlockAlt)
}

impl Maker<'_> {
    /// The values that a group's functions leave, under a condition that is known only when the
    /// site is reached.
    pub(super) fn leaves(&mut self, group: &Group<'_>, residue: Option<&Expr>) -> Option<Leaves> {
        replaces(group).then(|| {
            let deeds = Deeds::of(&group.stmts);
            let mut calls: Vec<Callee> = Vec::new();
            for which in deeds.calls {
                let is_new = calls.iter().all(|callee| !callee.which.same(which));
                if is_new && is_constant(which) {
                    calls.push(Callee { which: which.clone(), helper: None });
                } else if is_new && which.is_static() {
                    let helper = Some(self.at_match("callee", which));
                    calls.push(Callee { which: which.clone(), helper });
                }
            }
            Leaves {
                asks: asked_for(group.events[0], 0),
                drops: deeds.drops,
                decides: residue.is_some() || !calls.is_empty(),
                calls,
            }
        })
    }
}

impl Leaves {
    /// Where a function that returns values of these types stores them.
    pub(super) fn replacement(&self, returned: &[ValType], locals: &mut Locals) -> Replacement {
        Replacement {
            calls: Calls::Engine {
                decision: self.decides.then(|| locals.keep(ValType::I32)),
                list: self.calls.iter().map(|callee| callee.which.clone()).collect(),
            },
            results: returned.iter().map(|&ty| (locals.keep(ty), ty)).collect(),
            returned: returned.len(),
        }
    }
}

/// The events of a group as engines spell them, each with the types of the values returned there.
pub(super) fn names(group: &Group<'_>, said: &mut Diagnostics) -> Vec<(EventName, Vec<ValType>)> {
    let names = group.names(said);
    if !replaces(group) {
        return names.into_iter().map(|name| (name, vec![])).collect();
    }
    let returns = Deeds::of(&group.stmts).returns;
    let own = returns.first().map_or(vec![], |first| first.ty.slots());
    let each = group.events.iter().zip(names).flat_map(|(probe, name)| {
        let natural = |place| match never_falls_through(probe.matched.event) {
            true => own.iter().rev().nth(place).copied(),
            false => natural(probe.matched.event, place),
        };
        types_returned(&returns, natural).into_iter().map(move |types| (name.clone(), types))
    });
    each.collect()
}

/// Whether an instruction never falls through. Control continues after it only if a probe replaces
/// it; a returned value then keeps its own type.
fn never_falls_through(event: Event) -> bool {
    const NAMES: [&str; 7] =
        ["br", "br_table", "return", "unreachable", "throw", "throw_ref", "rethrow"];
    let Event::Opcode(op) = event else { return false };
    NAMES.contains(&op.name) || op.name.starts_with("return_call")
}

/// The type of a result, counted from the top of the stack, if it is the same at every site of the
/// instruction.
fn natural(event: Event, place: usize) -> Option<ValType> {
    const OF_ADDRESSES: [&str; 4] = ["memory.size", "memory.grow", "table.size", "table.grow"];
    let Event::Opcode(op) = event else { return None };
    let found = event.variable(&format!("res{place}"))?;
    match found.ty.slots()[..] {
        [one] if found.ty != Ty::Any && !OF_ADDRESSES.contains(&op.name) => Some(one),
        _ => None,
    }
}

/// Reports errors in replacements of instructions.
pub(super) fn check(group: &Group<'_>, said: &mut Diagnostics) {
    if !replaces(group) {
        return;
    }
    let (deeds, span) = (Deeds::of(&group.stmts), group.events[0].span);
    if !deeds.returns.is_empty() && !always_gives(&group.stmts, &Expr::clone) {
        let message =
            "the body may end without the value that it is to give instead of the instruction";
        let help = "end every way through the body with `return`, or call a function";
        said.push_help(Kind::WeiError, Some(span), message, help);
    }
    if goes_on_after_call(&group.stmts, false) {
        let message = "an engine calls a function instead of an instruction when the probe is over";
        let help = "let the call be the last statement; the rewriting target calls at once: give \
                    the program with `-a`";
        said.push_help(Kind::WeiError, Some(span), message, help);
    }
}
