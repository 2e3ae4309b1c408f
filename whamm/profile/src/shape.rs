//! The layouts of nodes, function by function, and the choice of the functions that are timed.
//!
//! A direct call finds its callee's node in a slot of its caller's node. A short leaf has no node:
//! the caller's node counts its calls, in a few instructions.

use crate::app::{self, App, is_call, is_tail_call};
use crate::{Error, Options};
use std::collections::BTreeMap;
use wasmparser::Operator;
use whamm_rewrite::{Body, Program};

/// Leaves without loops that are shorter take less time than timing them does, on any engine.
const SHORT: u32 = 100;
/// The maximum number of slots in a node: further callees are searched in its list.
const MOST_SLOTS: usize = 4096;
/// A function with at most this many calls has no stand-in, which would be larger than the code at
/// the calls.
const FEW: usize = 2;
/// The size of a node before its leaves and slots, in bytes.
pub(crate) const HEADER: u64 = 80;

/// How calls of a function are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// They have nodes, and are timed where that is worth it.
    Timed,
    /// They have nodes, and are not timed.
    Counted,
    /// They have counters in the nodes of their callers.
    Leaf,
}

/// What a call of a function requires in addition to counting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Callee {
    /// It may call others, so that it has to find its node.
    pub(crate) has_children: bool,
    /// It may end by a tail call.
    pub(crate) tails: bool,
    /// It is the host's: functions that it calls back are below it, and later calls are not.
    pub(crate) is_host: bool,
}

/// The layout of a function's nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    /// Leaves that it calls, in the order of their counters in the node.
    pub(crate) leaves: Vec<u32>,
    /// Other functions that it calls directly, with the numbers of their slots.
    slots: BTreeMap<u32, usize>,
}

impl Shape {
    /// The offset of a leaf's counter in a node.
    pub(crate) fn counter(&self, callee: u32) -> Option<u64> {
        let at = self.leaves.iter().position(|leaf| *leaf == callee)?;
        Some(HEADER + 8 * at as u64)
    }

    /// The offset of a callee's slot in a node.
    pub(crate) fn slot(&self, callee: u32) -> Option<u64> {
        let at = self.slots.get(&callee)?;
        Some(HEADER + 8 * (self.leaves.len() + at) as u64)
    }

    /// The size of a node in bytes.
    pub(crate) fn size(&self) -> u64 {
        HEADER + 8 * (self.leaves.len() + self.slots.len()) as u64
    }
}

/// All functions of a program.
#[derive(Debug)]
pub(crate) struct Shapes {
    /// How calls of each function are reported.
    pub(crate) tellings: Vec<Telling>,
    /// The layout of each function's nodes.
    pub(crate) shapes: Vec<Shape>,
    /// For each of the program's own functions, whether it calls others, and whether it makes tail
    /// calls.
    endings: Vec<(bool, bool)>,
    /// How many calls name each function that has slots.
    calls: BTreeMap<u32, usize>,
}

impl Shapes {
    /// The shapes of a program.
    pub(crate) fn of(
        app: &App,
        program: &Program<'_>,
        options: &Options,
        has_clock: bool,
    ) -> Result<Self, Error> {
        let mut tellings = Vec::with_capacity(app.functions.len());
        for function in 0..app.imported() {
            let is_excluded = options.excludes(&app.name(function));
            tellings.push(if is_excluded { Telling::Counted } else { Telling::Timed });
        }
        let mut endings = Vec::with_capacity(program.bodies.len());
        for body in &program.bodies {
            let (calls, tails) = calls(body)?;
            tellings.push(telling(app, body, options, has_clock, calls)?);
            endings.push((calls, tails));
        }
        let mut shapes = vec![Shape::default(); app.imports.len()];
        let mut calls = BTreeMap::new();
        for body in &program.bodies {
            shapes.push(shape(body, &tellings, &mut calls)?);
        }
        Ok(Self { tellings, shapes, endings, calls })
    }

    /// What calls of a function require.
    pub(crate) fn callee(&self, app: &App, function: u32) -> Callee {
        let own = function.checked_sub(app.imported()).map(|own| self.endings[own as usize]);
        let (has_children, tails) = own.unwrap_or((true, false));
        Callee { has_children, tails, is_host: own.is_none() }
    }

    /// Whether calls of a function are counted by its callers.
    pub(crate) fn is_leaf(&self, function: u32) -> bool {
        self.tellings[function as usize] == Telling::Leaf
    }

    /// Functions that have slots in nodes, and are named by more than a few calls.
    pub(crate) fn callees(&self) -> impl Iterator<Item = u32> {
        let many = self.calls.iter().filter(|(_, calls)| **calls > FEW);
        many.map(|(function, _)| *function)
    }

    /// Whether few calls name a function, so that it has no stand-in.
    pub(crate) fn has_few_calls(&self, function: u32) -> bool {
        self.calls.get(&function).is_some_and(|calls| *calls <= FEW)
    }
}

fn telling(
    app: &App,
    body: &Body<'_>,
    options: &Options,
    has_clock: bool,
    calls: bool,
) -> Result<Telling, Error> {
    let (is_short, instructions) = app::is_leaf(body)?;
    let is_excluded = options.excludes(&app.name(body.function))
        || options.min_size.is_some_and(|least| instructions < least);
    let is_counted = !has_clock || is_excluded;
    let is_short = is_short && instructions < SHORT && !options.time_all;
    Ok(match calls {
        false if is_counted || is_short => Telling::Leaf,
        _ if is_excluded => Telling::Counted,
        _ => Telling::Timed,
    })
}

/// Whether a body calls anything, and whether it makes tail calls.
fn calls(body: &Body<'_>) -> Result<(bool, bool), Error> {
    let (mut calls, mut tails) = (false, false);
    for instruction in body.instructions()? {
        calls |= is_call(&instruction.operator);
        tails |= is_tail_call(&instruction.operator);
    }
    Ok((calls, tails))
}

fn shape(
    body: &Body<'_>,
    tellings: &[Telling],
    calls: &mut BTreeMap<u32, usize>,
) -> Result<Shape, Error> {
    let mut shape = Shape::default();
    for instruction in body.instructions()? {
        let Operator::Call { function_index } = instruction.operator else { continue };
        match tellings.get(function_index as usize) {
            Some(Telling::Leaf) => {
                if !shape.leaves.contains(&function_index) {
                    shape.leaves.push(function_index);
                }
            }
            _ => {
                let next = shape.slots.len();
                if next < MOST_SLOTS {
                    shape.slots.entry(function_index).or_insert(next);
                }
                *calls.entry(function_index).or_default() += 1;
            }
        }
    }
    Ok(shape)
}
