//! At which calls the usual case is written out, and not left to what stands for their callees:
//! as many as there is room for, those in loops first, then those of small functions, of which a
//! call is a larger part. A call that names its callee alone is always written out.

use crate::Error;
use crate::app::is_call;
use crate::shape::Shapes;
use wasmparser::Operator;
use whamm_rewrite::Program;

/// What a call adds to the code, about: written out, and by what stands for its callee.
const WRITTEN_OUT: usize = 48;
const BY_STAND_IN: usize = 14;
/// What may be added to the code of a small program, though that is more than a quarter of it.
const ROOM: usize = 1 << 10;

/// At which calls of a body the usual case is written out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inlining {
    pub(crate) in_loops: bool,
    pub(crate) elsewhere: bool,
}

/// For each body of a program: this adds about a quarter to the code at most.
pub(crate) fn inlining(program: &Program<'_>, shapes: &Shapes) -> Result<Vec<Inlining>, Error> {
    let mut calls = Vec::new();
    let mut room = (program.code_len() as usize / 4).max(ROOM);
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
                Operator::Call { function_index } if shapes.is_called_once(function_index) => {}
                ref operator if is_call(operator) && blocks.contains(&true) => in_loops += 1,
                ref operator if is_call(operator) => elsewhere += 1,
                _ => {}
            }
        }
        room = room.saturating_sub((in_loops + elsewhere) * BY_STAND_IN);
        calls.push((false, instructions.len(), at, in_loops));
        calls.push((true, instructions.len(), at, elsewhere));
    }
    calls.sort_unstable();
    let mut all = vec![Inlining::default(); program.bodies.len()];
    for (is_elsewhere, _, at, calls) in calls {
        let Some(rest) = room.checked_sub(calls * (WRITTEN_OUT - BY_STAND_IN)) else { continue };
        room = rest;
        if is_elsewhere {
            all[at].elsewhere = true;
        } else {
            all[at].in_loops = true;
        }
    }
    Ok(all)
}
