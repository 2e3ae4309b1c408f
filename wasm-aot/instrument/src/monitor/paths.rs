//! Paths through the bodies of loops, as numbers.
//!
//! An iteration is identified by its decisions: the way that each branch took that lies in the
//! loop, and not in an inner loop; and the exit by which each inner loop was left. Decisions are
//! written as digits of a number, the first one highest, after a leading 1. A reader of the number
//! walks through the loop's body, and takes a digit wherever there is a decision.
//!
//! Places are positions among the function's instructions.

use super::outline::Function;
use wasmparser::{BrTable, Operator};

/// A loop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Loop {
    /// Where its `loop` and its `end` are.
    pub(super) start: usize,
    pub(super) end: usize,
    /// The loop around it.
    parent: Option<usize>,
    /// The targets of control that leaves it, in the order of numbers.
    exits: Vec<usize>,
}

/// The value that a branch depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Decision {
    /// Whether the number on the stack is not zero.
    IsTrue,
    /// Whether the reference on the stack is null, or is not.
    IsNull,
    IsNotNull,
    /// Whether the reference on the stack is of a type, or is not.
    IsOf {
        ty: wasmparser::RefType,
        when: bool,
    },
    /// The number on the stack, or that if it is larger.
    Entry(u32),
}

/// The condition of a way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Condition {
    Always,
    /// If the decision is 1.
    Taken,
    /// If the decision is one of these.
    One(Vec<u32>),
}

/// An effect on the numbers of loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Act {
    /// Appends a digit of this many bits to a loop's number.
    Write { of: usize, bits: u32, digit: u32 },
    /// A loop's iteration is over.
    Over(usize),
}

/// The effect of an instruction on numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) place: usize,
    /// The decision, and the loop to whose number it is appended, with how many bits.
    pub(super) decision: Option<(Decision, Option<(usize, u32)>)>,
    pub(super) ways: Vec<(Condition, Vec<Act>)>,
}

/// The successors of an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Flow {
    Next,
    /// To the other side, if the digit is 0.
    Unless(usize),
    /// There, if the digit is 1.
    If(usize),
    To(usize),
    /// By digit.
    Table(Vec<usize>),
    /// Into a loop.
    Loop(usize),
    Out,
}

/// The loops of a function, and what distinguishes their iterations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Paths {
    pub(super) loops: Vec<Loop>,
    pub(super) steps: Vec<Step>,
    flows: Vec<Flow>,
}

/// A number that has no room for more digits.
pub(super) const TOO_LONG: u64 = u64::MAX;

/// What encloses an instruction.
struct ControlFrame {
    end: usize,
    /// The loop that it is.
    header: Option<usize>,
}

/// A way to another place.
struct Edge {
    when: Condition,
    /// Loops that are left, the outermost first; and the loop around them.
    left: Vec<usize>,
    around: Option<usize>,
    target: usize,
}

impl Paths {
    /// Of a function.
    pub(super) fn of(function: &Function<'_>) -> Self {
        let ops: Vec<&Operator<'_>> =
            function.instructions.iter().map(|instruction| &instruction.op).collect();
        let (ends, elses) = matching(&ops);
        let mut paths = Self::default();
        let mut frames = vec![ControlFrame { end: ops.len() - 1, header: None }];
        let mut found = Vec::new();
        for (place, op) in ops.iter().enumerate() {
            let flow = paths.flow(op, place, &frames, &ends, &elses);
            if let Some((decision, edges)) = paths.edges(op, place, &frames) {
                for edge in &edges {
                    paths.number(edge);
                }
                found.push((place, innermost(&frames), decision, edges));
            }
            paths.flows.push(flow);
            match op {
                Operator::Loop { .. } => {
                    let (start, end) = (place, ends[place]);
                    paths.loops.push(Loop {
                        start,
                        end,
                        parent: innermost(&frames),
                        exits: Vec::new(),
                    });
                    frames.push(ControlFrame { end, header: Some(paths.loops.len() - 1) });
                }
                Operator::Block { .. }
                | Operator::If { .. }
                | Operator::Try { .. }
                | Operator::TryTable { .. } => {
                    frames.push(ControlFrame { end: ends[place], header: None });
                }
                Operator::End | Operator::Delegate { .. } => drop(frames.pop()),
                _ => {}
            }
        }
        let steps = found
            .into_iter()
            .map(|(place, of, decision, edges)| paths.step(place, of, decision, edges));
        paths.steps = steps
            .filter(|step| {
                step.decision.is_some_and(|(_, of)| of.is_some()) || !step.ways.is_empty()
            })
            .collect();
        paths
    }

    /// The place that a branch leads to.
    fn label(&self, frames: &[ControlFrame], depth: u32) -> usize {
        let frame = &frames[frames.len() - 1 - depth as usize];
        frame.header.map_or(frame.end + 1, |header| self.loops[header].start)
    }

    fn flow(
        &self,
        op: &Operator<'_>,
        place: usize,
        frames: &[ControlFrame],
        ends: &[usize],
        elses: &[Option<usize>],
    ) -> Flow {
        match op {
            Operator::Loop { .. } => Flow::Loop(self.loops.len()),
            Operator::If { .. } => {
                Flow::Unless(elses[place].map_or(ends[place], |other| other + 1))
            }
            Operator::Else | Operator::Catch { .. } | Operator::CatchAll => {
                Flow::To(frames.last().map_or(place + 1, |frame| frame.end))
            }
            Operator::Br { relative_depth } => Flow::To(self.label(frames, *relative_depth)),
            Operator::BrIf { relative_depth }
            | Operator::BrOnNull { relative_depth }
            | Operator::BrOnNonNull { relative_depth }
            | Operator::BrOnCast { relative_depth, .. }
            | Operator::BrOnCastFail { relative_depth, .. } => {
                Flow::If(self.label(frames, *relative_depth))
            }
            Operator::BrTable { targets } => Flow::Table(
                labels(targets).into_iter().map(|depth| self.label(frames, depth)).collect(),
            ),
            op if is_last(op) => Flow::Out,
            _ => Flow::Next,
        }
    }

    /// The decision of an instruction, and its edges.
    fn edges(
        &self,
        op: &Operator<'_>,
        place: usize,
        frames: &[ControlFrame],
    ) -> Option<(Option<Decision>, Vec<Edge>)> {
        let edge = |when, depth: u32| self.edge(when, frames, depth);
        Some(match op {
            Operator::If { .. } => (Some(Decision::IsTrue), Vec::new()),
            Operator::Br { relative_depth } => {
                (None, vec![edge(Condition::Always, *relative_depth)])
            }
            Operator::BrIf { relative_depth } => {
                (Some(Decision::IsTrue), vec![edge(Condition::Taken, *relative_depth)])
            }
            Operator::BrOnNull { relative_depth } => {
                (Some(Decision::IsNull), vec![edge(Condition::Taken, *relative_depth)])
            }
            Operator::BrOnNonNull { relative_depth } => {
                (Some(Decision::IsNotNull), vec![edge(Condition::Taken, *relative_depth)])
            }
            Operator::BrOnCast { relative_depth, to_ref_type, .. } => {
                let decision = Decision::IsOf { ty: *to_ref_type, when: true };
                (Some(decision), vec![edge(Condition::Taken, *relative_depth)])
            }
            Operator::BrOnCastFail { relative_depth, to_ref_type, .. } => {
                let decision = Decision::IsOf { ty: *to_ref_type, when: false };
                (Some(decision), vec![edge(Condition::Taken, *relative_depth)])
            }
            Operator::BrTable { targets } => {
                let labels = labels(targets);
                let mut depths = labels.clone();
                depths.sort_unstable();
                depths.dedup();
                let entries = |depth: u32| {
                    (0..)
                        .zip(&labels)
                        .filter(|(_, other)| **other == depth)
                        .map(|(entry, _)| entry)
                        .collect()
                };
                let edges = depths
                    .iter()
                    .map(|depth| edge(Condition::One(entries(*depth)), *depth))
                    .collect();
                (Some(Decision::Entry(labels.len() as u32 - 1)), edges)
            }
            // What falls out of a loop at its end.
            Operator::End => {
                let header = frames.last()?.header?;
                let around = self.loops[header].parent;
                (
                    None,
                    vec![Edge {
                        when: Condition::Always,
                        left: vec![header],
                        around,
                        target: place + 1,
                    }],
                )
            }
            op if returns(op) => (None, vec![edge(Condition::Always, frames.len() as u32 - 1)]),
            _ => return None,
        })
    }

    fn edge(&self, when: Condition, frames: &[ControlFrame], depth: u32) -> Edge {
        let at = frames.len() - 1 - depth as usize;
        let left = frames[at + 1..].iter().filter_map(|frame| frame.header).collect();
        Edge { when, left, around: innermost(&frames[..=at]), target: self.label(frames, depth) }
    }

    /// Assigns a number in each loop to an edge that leaves it.
    fn number(&mut self, edge: &Edge) {
        for left in &edge.left {
            let exits = &mut self.loops[*left].exits;
            if !exits.contains(&edge.target) {
                exits.push(edge.target);
            }
        }
    }

    fn step(
        &self,
        place: usize,
        of: Option<usize>,
        decision: Option<Decision>,
        edges: Vec<Edge>,
    ) -> Step {
        let ways = edges.into_iter().map(|edge| {
            // Each loop records the exit by which its inner loop was left.
            let chain: Vec<usize> = edge.around.iter().chain(&edge.left).copied().collect();
            let leave = |pair: &[usize]| {
                let exits = &self.loops[pair[1]].exits;
                let digit =
                    exits.iter().position(|exit| *exit == edge.target).unwrap_or_default() as u32;
                Act::Write { of: pair[0], bits: bits(exits.len()), digit }
            };
            let mut acts: Vec<Act> = chain.windows(2).map(leave).collect();
            acts.extend(edge.left.iter().map(|left| Act::Over(*left)));
            // Back to the beginning.
            acts.extend(
                edge.around
                    .filter(|around| self.loops[*around].start == edge.target)
                    .map(Act::Over),
            );
            (edge.when, acts)
        });
        let ways = ways.filter(|(_, acts)| !acts.is_empty()).collect();
        let decision = decision.map(|decision| (decision, of.map(|of| (of, decision.bits()))));
        Step { place, decision, ways }
    }

    /// The decisions that a loop's number encodes: places, and the way that was taken there.
    pub(super) fn decisions(&self, of: usize, number: u64) -> Option<Vec<(usize, u32)>> {
        let (start, end) = (self.loops[of].start, self.loops[of].end);
        let mut rest = (number != TOO_LONG && number > 0).then(|| 63 - number.leading_zeros())?;
        let mut digit = |bits: u32| {
            rest = rest.checked_sub(bits)?;
            Some((number >> rest) as u32 & ((1 << bits) - 1))
        };
        let (mut at, mut decisions) = (start + 1, Vec::new());
        while at > start && at <= end {
            at = match &self.flows[at] {
                Flow::Next => at + 1,
                Flow::Out => break,
                Flow::To(place) => *place,
                Flow::Unless(place) | Flow::If(place) => {
                    let way = digit(1)?;
                    decisions.push((at, way));
                    let jumps = matches!(self.flows[at], Flow::If(_)) == (way == 1);
                    if jumps { *place } else { at + 1 }
                }
                Flow::Table(places) => {
                    let way = digit(bits(places.len()))?;
                    decisions.push((at, way));
                    *places.get(way as usize)?
                }
                Flow::Loop(inner) => {
                    let exits = &self.loops[*inner].exits;
                    let way = digit(bits(exits.len()))?;
                    if exits.len() > 1 {
                        decisions.push((at, way));
                    }
                    *exits.get(way as usize)?
                }
            };
        }
        Some(decisions)
    }
}

impl Decision {
    fn bits(self) -> u32 {
        match self {
            Self::Entry(last) => bits(last as usize + 1),
            _ => 1,
        }
    }
}

/// The bits of a digit that distinguishes `count` values.
fn bits(count: usize) -> u32 {
    count.max(1).next_power_of_two().trailing_zeros()
}

fn innermost(frames: &[ControlFrame]) -> Option<usize> {
    frames.iter().rev().find_map(|frame| frame.header)
}

/// The labels of a table, the default last.
fn labels(table: &BrTable<'_>) -> Vec<u32> {
    table.targets().map_while(Result::ok).chain([table.default()]).collect()
}

/// Whether an instruction leaves the function for its caller.
fn returns(op: &Operator<'_>) -> bool {
    matches!(
        op,
        Operator::Return
            | Operator::ReturnCall { .. }
            | Operator::ReturnCallIndirect { .. }
            | Operator::ReturnCallRef { .. }
    )
}

/// Whether no other instruction of its loop comes after an instruction: what is thrown ends the
/// iteration without a number.
fn is_last(op: &Operator<'_>) -> bool {
    let throws = matches!(
        op,
        Operator::Unreachable
            | Operator::Throw { .. }
            | Operator::ThrowRef
            | Operator::Rethrow { .. }
    );
    throws || returns(op)
}

/// For each instruction that begins a frame: where that ends, and where its other side is.
fn matching(ops: &[&Operator<'_>]) -> (Vec<usize>, Vec<Option<usize>>) {
    let (mut ends, mut elses) = (vec![0; ops.len()], vec![None; ops.len()]);
    let mut open = Vec::new();
    for (place, op) in ops.iter().enumerate() {
        match op {
            Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::Try { .. }
            | Operator::TryTable { .. } => open.push(place),
            Operator::Else => elses[*open.last().unwrap_or(&0)] = Some(place),
            Operator::End | Operator::Delegate { .. } => {
                if let Some(begin) = open.pop() {
                    ends[begin] = place;
                }
            }
            _ => {}
        }
    }
    (ends, elses)
}
