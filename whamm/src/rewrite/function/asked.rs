//! Operands and results that bodies of probes read, by their numbers.

use super::Action;
use crate::events::{Bound, Function, Mode};
use crate::hir::{Body, Builtin, ExprKind, Probe};
use std::collections::BTreeSet;

/// The numbers of the operands that a body reads.
pub(super) fn operands_asked(body: &Body, looked_at: u8) -> BTreeSet<u8> {
    let mut all = BTreeSet::new();
    body.walk(&mut |e| {
        if let ExprKind::Bound(b) = e.kind {
            match b {
                Bound::RefTaken | Bound::TargetFuncref | Bound::ResolvedFid => drop(all.insert(0)),
                Bound::Trap => all.extend(0..looked_at),
                other => all.extend(argument(other)),
            }
        }
        // A bulk operation is executed a second time with all of its operands.
        if let ExprKind::Builtin(Builtin::Event(Function::DupAt), _) = e.kind {
            all.extend(0..3);
        }
    });
    all.extend(body.assigned.iter().filter_map(|&b| argument(b)));
    all
}

/// How many operands a probe reads, from the top. `None` if all: it skips one, or has a predicate.
pub(crate) fn asked_for(probe: &Probe, looked_at: u8) -> Option<usize> {
    let body = &probe.body;
    if body.predicate.is_some() && probe.matched.mode == Mode::Alt {
        return None;
    }
    let found = operands_asked(body, looked_at);
    let gap = found.iter().zip(0..).any(|(n, i)| *n != i);
    (!gap).then_some(found.len())
}

/// The highest number of the operands or results that bodies read, and whether they change any.
pub(super) fn asked(
    actions: &[&Action<'_>],
    pick: fn(Bound) -> Option<u8>,
    looked_at: u8,
) -> (Option<u8>, bool) {
    let mut most = None;
    let mut changed = false;
    for action in actions {
        action.probe.body.walk(&mut |e| {
            if let ExprKind::Bound(b) = e.kind {
                let implied = match b {
                    Bound::RefTaken | Bound::TargetFuncref | Bound::ResolvedFid => {
                        Some(Bound::Arg(0))
                    }
                    Bound::Trap => Some(Bound::Arg(looked_at - 1)),
                    _ => Some(b),
                };
                most = most.max(implied.and_then(pick));
            }
            // A bulk operation is executed a second time with all of its operands.
            if let ExprKind::Builtin(Builtin::Event(Function::DupAt), _) = e.kind {
                most = most.max(pick(Bound::Arg(2)));
            }
        });
        for b in &action.probe.body.assigned {
            most = most.max(pick(*b));
            changed |= pick(*b).is_some();
        }
    }
    (most, changed)
}

/// The operand that a variable is, if it is one.
pub(super) fn argument(b: Bound) -> Option<u8> {
    if let Bound::Arg(n) = b { Some(n) } else { None }
}

/// The result that a variable is, if it is one.
fn result(b: Bound) -> Option<u8> {
    if let Bound::Res(n) = b { Some(n) } else { None }
}

/// The last result that bodies read, and whether they change any.
pub(super) fn asked_results(actions: &[&Action<'_>]) -> (Option<u8>, bool) {
    asked(actions, result, 1)
}
