//! Estimates where a program is likely to spend its time.
//!
//! That is in loops, in recursive functions, and in small functions that are called from there.
//! Following calls any further is not better: it leads to the loops of libraries that print
//! numbers.

use super::walk::{Nesting, Op};
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use std::collections::{HashMap, HashSet};
use wasmparser::{FunctionBody, Operator};

/// How many call sites in hot code make a function popular, and how many sites a popular function
/// may have to be hot as a whole.
const POPULAR: u32 = 3;
const LITTLE: usize = 60;

/// How many sites a function may have that is hot because it may be called through a table.
const TINY: usize = 16;

/// A call, and whether it is in a loop.
struct Call {
    caller: u32,
    callee: u32,
    looping: bool,
}

/// The estimates for each instruction of a function.
pub(crate) struct Heat {
    /// Whether the program is likely to spend its time there.
    pub(crate) hot: Vec<bool>,
    /// Whether it is in a loop so tight that a call would cost more than the callee.
    pub(crate) tight: Vec<bool>,
}

impl Heat {
    /// For a function that may be hot as a whole.
    pub(crate) fn of(ops: &[Op<'_>], all: bool) -> Self {
        let hot = if all { vec![true; ops.len()] } else { looping(ops) };
        Self { hot, tight: tight(ops) }
    }
}

/// Functions that are hot as a whole, if they do not have more sites than this.
pub(crate) fn hot<'a>(
    bodies: impl Iterator<Item = (u32, &'a FunctionBody<'a>)>,
    in_tables: impl Iterator<Item = u32>,
) -> Result<HashMap<u32, usize>, wasmparser::Error> {
    let (mut calls, mut through_tables) = (Vec::new(), false);
    for (caller, body) in bodies {
        through_tables |= find_calls(caller, body, &mut calls)?;
    }
    let recursive = recursive(&calls);
    let mut times = HashMap::<u32, u32>::new();
    for call in calls.iter().filter(|call| call.looping || recursive.contains(&call.caller)) {
        *times.entry(call.callee).or_default() += 1;
    }
    let mut hot: HashMap<u32, usize> =
        in_tables.filter(|_| through_tables).map(|function| (function, TINY)).collect();
    hot.extend(times.into_iter().filter(|call| call.1 >= POPULAR).map(|call| (call.0, LITTLE)));
    hot.extend(recursive.into_iter().map(|function| (function, LITTLE)));
    Ok(hot)
}

/// Adds the calls of a function; returns whether a loop has a call through a table.
fn find_calls(
    caller: u32,
    body: &FunctionBody<'_>,
    calls: &mut Vec<Call>,
) -> Result<bool, wasmparser::Error> {
    let (mut open, mut through_table) = (vec![false], false);
    let mut reader = body.get_operators_reader()?;
    while !reader.eof() {
        let looping = open.last() == Some(&true);
        match reader.read()? {
            Operator::Loop { .. } => open.push(true),
            Operator::Block { .. }
            | Operator::If { .. }
            | Operator::TryTable { .. }
            | Operator::Try { .. } => {
                open.push(looping);
            }
            Operator::End | Operator::Delegate { .. } => drop(open.pop()),
            Operator::Call { function_index: callee }
            | Operator::ReturnCall { function_index: callee } => {
                calls.push(Call { caller, callee, looping });
            }
            Operator::CallIndirect { .. } | Operator::CallRef { .. } => through_table |= looping,
            _ => {}
        }
    }
    Ok(through_table)
}

/// Functions that call themselves, directly or through others.
fn recursive(calls: &[Call]) -> HashSet<u32> {
    let graph =
        DiGraph::<(), (), u32>::from_edges(calls.iter().map(|call| (call.caller, call.callee)));
    let circles = kosaraju_scc(&graph).into_iter().filter(|group| group.len() > 1).flatten();
    let number = |node: NodeIndex<u32>| node.index() as u32;
    circles
        .map(number)
        .chain(calls.iter().filter(|call| call.caller == call.callee).map(|call| call.caller))
        .collect()
}

/// Whether each instruction is in a loop.
fn looping(ops: &[Op<'_>]) -> Vec<bool> {
    let mut end = 0;
    let looping = |(i, op): (usize, &Op<'_>)| {
        if op.nesting == Nesting::Loop {
            end = end.max(op.partner);
        }
        i < end
    };
    ops.iter().enumerate().map(looping).collect()
}

/// How many instructions a tight loop has at most, and how many if it computes with floats: a call
/// would force it to spill its floating-point registers.
const TIGHT: usize = 16;
const TIGHT_FRACTIONS: usize = 48;

/// Whether each instruction is in a loop that is short, without calls and without inner loops.
fn tight(ops: &[Op<'_>]) -> Vec<bool> {
    let mut tight = vec![false; ops.len()];
    let mut inner = ops.len();
    for (i, op) in ops.iter().enumerate().rev().filter(|(_, op)| op.nesting == Nesting::Loop) {
        // Loops that begin later were visited before.
        let body = &ops[i..=op.partner];
        let fractions = body.iter().any(|op| op.event.is_some_and(|e| e.name.starts_with('f')));
        let most = if fractions { TIGHT_FRACTIONS } else { TIGHT };
        let calls = body
            .iter()
            .any(|op| matches!(op.operator, Operator::Call { .. } | Operator::CallIndirect { .. }));
        if inner > op.partner && body.len() <= most && !calls {
            tight[i..=op.partner].fill(true);
        }
        inner = i;
    }
    tight
}
