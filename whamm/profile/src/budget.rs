//! Decides at which calls the usual case is inlined, and not left to functions: at as many as the
//! budget allows, first at calls in loops and recursive calls, then at calls in small functions, of
//! which a call is a larger part.
//!
//! The budget limits compile time: an engine takes as long for an inlined call as for fifty bytes
//! of a program. The run-time support takes its share, which is most of the budget in small
//! programs.

use crate::Error;
use crate::shape::Shapes;
use wasmparser::Operator;
use whamm_rewrite::Program;

/// The approximate number of bytes that inlining adds to a call.
const WRITTEN_OUT: usize = 34;
/// The fraction of the code size that may be added.
const SHARE: (usize, usize) = (3, 16);
/// The share of the run-time support, and the minimum budget.
const SUPPORT: usize = 4 << 10;
const ROOM: usize = 1 << 9;

/// At which calls of a body the usual case is inlined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inlining {
    /// At calls in loops, and at recursive calls.
    pub(crate) in_loops: bool,
    pub(crate) elsewhere: bool,
}

/// Returns the decision for each body of a program.
pub(crate) fn inlining(program: &Program<'_>, shapes: &Shapes) -> Result<Vec<Inlining>, Error> {
    let mut calls = Vec::new();
    let share = program.code_len() as usize * SHARE.0 / SHARE.1;
    let mut room = share.saturating_sub(SUPPORT).max(ROOM);
    for (at, body) in program.bodies.iter().enumerate() {
        let instructions = body.instructions()?;
        let (mut in_loops, mut elsewhere, mut blocks) = (0, 0, Vec::new());
        for instruction in &instructions {
            match instruction.operator {
                Operator::Loop { .. } => blocks.push(true),
                Operator::Block { .. }
                | Operator::If { .. }
                | Operator::Try { .. }
                | Operator::TryTable { .. } => blocks.push(false),
                Operator::End | Operator::Delegate { .. } => {
                    blocks.pop();
                }
                Operator::Call { function_index } if !shapes.is_leaf(function_index) => {
                    let recurs = function_index == body.function;
                    let often = recurs || blocks.contains(&true);
                    *(if often { &mut in_loops } else { &mut elsewhere }) += 1;
                }
                _ => {}
            }
        }
        calls.push((false, instructions.len(), at, in_loops));
        calls.push((true, instructions.len(), at, elsewhere));
    }
    calls.sort_unstable();
    let mut all = vec![Inlining::default(); program.bodies.len()];
    for (is_elsewhere, _, at, calls) in calls {
        let Some(rest) = room.checked_sub(calls * WRITTEN_OUT) else { continue };
        room = rest;
        if is_elsewhere {
            all[at].elsewhere = true;
        } else {
            all[at].in_loops = true;
        }
    }
    Ok(all)
}
