//! The control-flow graph of a function: basic blocks and the edges between them, as the compiler
//! sees them. Unreachable code is in no block.
//!
//! A block begins at the function's beginning, at a loop, at an `end` that is the target of a
//! branch, and after every instruction that may branch. A branch to a block lands on its `end`; a
//! branch to a loop lands on the `loop`.
//!
//! Instructions that may be *replaced*, by a monitor's function in their place, have further edges:
//! around a block to what follows its `end`, and from a branch, a return or a trap to what follows
//! it.
//!
//! Bodies are read before they are validated. An invalid body results in some graph, or none, and
//! is refused by the validator afterwards.

use wasmparser::{BrTable, Catch, FunctionBody, Operator};

/// The block that represents everything outside the function: the source of its first edges, and
/// the target of its last ones.
pub const OUTSIDE: u32 = 0;

/// The maximum size of a branch table whose entries are distinguished; entries of larger ones are
/// counted by their labels.
const CASES: usize = 1024;

/// A sequence of instructions that are executed one after the other, unless one traps or throws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The offset of the first instruction in the module.
    pub start: u32,
    /// The offset of the end of the last one.
    pub end: u32,
}

/// The way by which control leaves an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// Into the function.
    Entry,
    /// To the next instruction.
    Next,
    /// To its label, or to the other arm of an `if`.
    Taken,
    /// By an entry of its table; the last one is the default. See [`Ways`].
    Case(u32),
    /// Out of the function, to the caller.
    Exit,
    /// By throwing, or by a trap if the instruction always traps.
    Thrown,
    /// By an exception, to a clause.
    Catch(u32),
    /// Around a block that is replaced, or past a branch that is.
    Around,
    /// Into a block that may be replaced, and is not.
    Inside,
    /// Out of the end of a block that may be replaced.
    Past,
}

impl Way {
    /// A word for this kind of way.
    pub fn name(self) -> &'static str {
        match self {
            Self::Entry => "call",
            Self::Next => "next",
            Self::Taken => "branch",
            Self::Case(_) => "case",
            Self::Exit => "return",
            Self::Thrown => "throw",
            Self::Catch(_) => "catch",
            Self::Around => "around",
            Self::Inside => "inside",
            Self::Past => "past",
        }
    }
}

/// An edge from block to block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The block that it leaves.
    pub from: u32,
    /// The block that it enters.
    pub to: u32,
    /// The offset in the module of the instruction that it leaves; 0 for the entry.
    pub at: u32,
    /// The way by which control leaves that instruction.
    pub way: Way,
    /// The number of loops that contain it.
    pub depth: u32,
}

/// The blocks of a function. The first is [`OUTSIDE`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The blocks, in order.
    pub blocks: Vec<Block>,
    /// The edges between them.
    pub edges: Vec<Edge>,
    /// Calls through tables and references, in order.
    pub calls: Vec<u32>,
    /// Loops, in order.
    pub loops: Vec<u32>,
}

impl Graph {
    /// The beginnings of reachable blocks, in order, and the number of loops that contain each.
    pub fn depths(&self) -> Vec<(u32, u32)> {
        let mut depths: Vec<(u32, u32)> =
            self.blocks.iter().map(|block| (block.start, 0)).collect();
        for edge in &self.edges {
            for block in [edge.from, edge.to] {
                let depth = &mut depths[block as usize].1;
                *depth = edge.depth.max(*depth);
            }
        }
        // The first is [`OUTSIDE`].
        let mut depths: Vec<(u32, u32)> = depths.into_iter().skip(1).collect();
        depths.sort_unstable();
        depths
    }
}

/// A construct that encloses an instruction.
struct Frame {
    kind: NodeKind,
    /// The target block of branches, once it exists.
    join: Option<u32>,
    /// The number of loops that contain it.
    depth: u32,
    /// The block that leads around it, and the instruction there, if it may be replaced.
    detour: Option<(u32, u32)>,
}

#[derive(Clone, Copy)]
enum NodeKind {
    /// In unreachable code.
    Dead,
    Block,
    /// The target block of branches to it.
    Loop(u32),
    /// An `if` without an `else` so far: the block that ends with it, and its place.
    If(u32, u32),
}

struct Builder<'r> {
    graph: Graph,
    /// Instructions that may be replaced, in order.
    replaced: &'r [u32],
    frames: Vec<Frame>,
    /// The current block, if the place is reachable.
    current: Option<u32>,
    depth: u32,
    /// The number of loops that contain each block.
    depths: Vec<u32>,
}

/// A place that is not known yet.
const UNKNOWN: u32 = u32::MAX;

impl Graph {
    /// Builds the graph of a function; `None` if its body cannot be read.
    pub fn of(body: &FunctionBody<'_>) -> Option<Self> {
        Self::replaceable(body, &[])
    }

    /// The same if some instructions may be replaced, of which these are the offsets, in order.
    pub fn replaceable(body: &FunctionBody<'_>, replaced: &[u32]) -> Option<Self> {
        let mut reader = body.get_operators_reader().ok()?;
        let mut builder = Builder {
            graph: Self {
                blocks: vec![Block { start: 0, end: 0 }],
                edges: Vec::new(),
                calls: Vec::new(),
                loops: Vec::new(),
            },
            replaced,
            frames: vec![Frame { kind: NodeKind::Block, join: None, depth: 0, detour: None }],
            current: None,
            depth: 0,
            depths: vec![0],
        };
        let entry = builder.block();
        builder.edge(OUTSIDE, entry, 0, Way::Entry);
        builder.current = Some(entry);
        while !reader.eof() {
            let (operator, at) = reader.read_with_offset().ok()?;
            builder.operator(&operator, at as u32, reader.original_position() as u32)?;
        }
        builder.frames.is_empty().then_some(builder.graph)
    }
}

impl Builder<'_> {
    fn block(&mut self) -> u32 {
        self.graph.blocks.push(Block { start: UNKNOWN, end: UNKNOWN });
        self.depths.push(self.depth);
        self.graph.blocks.len() as u32 - 1
    }

    fn edge(&mut self, from: u32, to: u32, at: u32, way: Way) {
        let depth = self.depths[from as usize].min(self.depths[to as usize]);
        self.graph.edges.push(Edge { from, to, at, way, depth });
    }

    fn operator(&mut self, op: &Operator<'_>, at: u32, next: u32) -> Option<()> {
        if let Some(current) = self.current {
            let block = &mut self.graph.blocks[current as usize];
            if block.start == UNKNOWN {
                block.start = at;
            }
            // An instruction that begins a new block undoes this.
            block.end = next;
        }
        match op {
            Operator::Block { .. } | Operator::Try { .. } => {
                self.enter(NodeKind::Block);
                self.enter_replaceable(at);
            }
            Operator::TryTable { try_table } => {
                self.enter_region(&try_table.catches, at)?;
                self.enter_replaceable(at);
            }
            Operator::Loop { .. } => {
                self.enter_loop(at, next);
                self.enter_replaceable(at);
            }
            Operator::If { .. } => self.enter_if(at),
            Operator::Else => {
                self.other_side(at)?;
                self.enter_arm(at);
            }
            Operator::Catch { .. } | Operator::CatchAll => self.clause(at)?,
            Operator::End | Operator::Delegate { .. } => self.end(at, next)?,
            _ => {
                if let Some(current) = self.current {
                    self.leave(op, current, at)?;
                }
            }
        }
        Some(())
    }

    /// Handles instructions that transfer control: calls through tables, branches and exits.
    fn leave(&mut self, op: &Operator<'_>, from: u32, at: u32) -> Option<()> {
        if let Operator::CallIndirect { .. }
        | Operator::CallRef { .. }
        | Operator::ReturnCallIndirect { .. }
        | Operator::ReturnCallRef { .. } = op
        {
            self.graph.calls.push(at);
        }
        match op {
            Operator::Br { relative_depth } => {
                let to = self.label(*relative_depth)?;
                self.edge(from, to, at, Way::Taken);
            }
            Operator::BrIf { relative_depth }
            | Operator::BrOnNull { relative_depth }
            | Operator::BrOnNonNull { relative_depth }
            | Operator::BrOnCast { relative_depth, .. }
            | Operator::BrOnCastFail { relative_depth, .. } => {
                let to = self.label(*relative_depth)?;
                self.edge(from, to, at, Way::Taken);
                let behind = self.block();
                self.edge(from, behind, at, Way::Next);
                self.current = Some(behind);
                return Some(());
            }
            Operator::BrTable { targets } => {
                for (label, way) in cases(targets)? {
                    let to = self.label(label)?;
                    self.edge(from, to, at, way);
                }
            }
            Operator::Return
            | Operator::ReturnCall { .. }
            | Operator::ReturnCallIndirect { .. }
            | Operator::ReturnCallRef { .. } => self.edge(from, OUTSIDE, at, Way::Exit),
            Operator::Throw { .. }
            | Operator::ThrowRef
            | Operator::Rethrow { .. }
            | Operator::Unreachable => {
                self.edge(from, OUTSIDE, at, Way::Thrown);
            }
            _ => return Some(()),
        }
        self.current = self.is_replaceable(at).then(|| {
            let behind = self.block();
            self.edge(from, behind, at, Way::Around);
            behind
        });
        Some(())
    }

    fn is_replaceable(&self, at: u32) -> bool {
        self.replaced.binary_search(&at).is_ok()
    }

    /// Leads around the block that was just entered, if it may be replaced.
    fn enter_replaceable(&mut self, at: u32) {
        if let Some(before) = self.current.filter(|_| self.is_replaceable(at)) {
            let inside = self.block();
            self.edge(before, inside, at, Way::Inside);
            self.current = Some(inside);
            self.lead_around(before, at);
        }
    }

    fn lead_around(&mut self, before: u32, at: u32) {
        if let Some(frame) = self.frames.last_mut() {
            frame.detour = Some((before, at));
        }
    }

    /// Leads around the second arm of an `if` to its end, if the arm may be replaced.
    fn enter_arm(&mut self, at: u32) {
        if let Some(before) = self.current.filter(|_| self.is_replaceable(at)) {
            let inside = self.block();
            self.edge(before, inside, at, Way::Inside);
            let join = self.join(self.frames.len() - 1);
            self.edge(before, join, at, Way::Around);
            self.current = Some(inside);
        }
    }

    fn push(&mut self, kind: NodeKind) {
        self.frames.push(Frame { kind, join: None, depth: self.depth, detour: None });
    }

    fn enter(&mut self, kind: NodeKind) {
        let kind = if self.current.is_some() { kind } else { NodeKind::Dead };
        self.push(kind);
    }

    /// A region whose clauses branch to labels around it.
    fn enter_region(&mut self, clauses: &[Catch], at: u32) -> Option<()> {
        if self.current.is_some() {
            for (i, clause) in clauses.iter().enumerate() {
                let (Catch::One { label, .. }
                | Catch::OneRef { label, .. }
                | Catch::All { label }
                | Catch::AllRef { label }) = clause;
                let to = self.label(*label)?;
                self.edge(OUTSIDE, to, at, Way::Catch(i as u32));
            }
        }
        self.enter(NodeKind::Block);
        Some(())
    }

    fn enter_loop(&mut self, at: u32, next: u32) {
        let Some(before) = self.current else { return self.enter(NodeKind::Dead) };
        self.graph.blocks[before as usize].end = at;
        self.graph.loops.push(at);
        let outside = self.depth;
        self.depth += 1;
        let header = self.block();
        self.graph.blocks[header as usize] = Block { start: at, end: next };
        self.edge(before, header, at, Way::Next);
        let kind = NodeKind::Loop(header);
        self.frames.push(Frame { kind, join: None, depth: outside, detour: None });
        self.current = Some(header);
    }

    fn enter_if(&mut self, at: u32) {
        let Some(before) = self.current else { return self.enter(NodeKind::Dead) };
        self.push(NodeKind::If(before, at));
        let then = self.block();
        self.edge(before, then, at, Way::Next);
        self.current = Some(then);
        if self.is_replaceable(at) {
            self.lead_around(before, at);
        }
    }

    /// Returns the target block of a branch.
    fn label(&mut self, label: u32) -> Option<u32> {
        let index = self.frames.len().checked_sub(1 + label as usize)?;
        match self.frames[index].kind {
            NodeKind::Loop(header) => Some(header),
            _ => Some(self.join(index)),
        }
    }

    /// Returns the block that begins at the end of a frame.
    fn join(&mut self, index: usize) -> u32 {
        if let Some(known) = self.frames[index].join {
            return known;
        }
        let inside = std::mem::replace(&mut self.depth, self.frames[index].depth);
        let join = self.block();
        self.depth = inside;
        self.frames[index].join = Some(join);
        join
    }

    /// Adds the edge to the end of the innermost frame.
    fn fall_through(&mut self, at: u32) {
        if let Some(current) = self.current.take() {
            let join = self.join(self.frames.len() - 1);
            self.edge(current, join, at, Way::Next);
        }
    }

    fn other_side(&mut self, at: u32) -> Option<()> {
        let NodeKind::If(before, condition) = self.frames.last()?.kind else { return Some(()) };
        self.fall_through(at);
        self.frames.last_mut()?.kind = NodeKind::Block;
        let otherwise = self.block();
        self.edge(before, otherwise, condition, Way::Taken);
        self.current = Some(otherwise);
        Some(())
    }

    /// Handles a clause after the body of a region.
    fn clause(&mut self, at: u32) -> Option<()> {
        if matches!(self.frames.last()?.kind, NodeKind::Dead) {
            return Some(());
        }
        self.fall_through(at);
        let clause = self.block();
        self.edge(OUTSIDE, clause, at, Way::Catch(0));
        self.current = Some(clause);
        Some(())
    }

    fn end(&mut self, at: u32, next: u32) -> Option<()> {
        let top = self.frames.len().checked_sub(1)?;
        if let NodeKind::If(before, condition) = self.frames[top].kind {
            let join = self.join(top);
            self.edge(before, join, condition, Way::Taken);
        }
        if let Some(join) = self.frames[top].join {
            if let Some(current) = self.current {
                self.graph.blocks[current as usize].end = at;
                self.edge(current, join, at, Way::Next);
            }
            self.graph.blocks[join as usize] = Block { start: at, end: next };
            self.current = Some(join);
        }
        let frame = self.frames.pop()?;
        self.depth = frame.depth;
        if let Some((before, replaced)) = frame.detour {
            let behind = self.block();
            self.edge(before, behind, replaced, Way::Around);
            if let Some(current) = self.current {
                self.edge(current, behind, at, Way::Past);
            }
            self.current = Some(behind);
        }
        if self.frames.is_empty()
            && let Some(current) = self.current.take()
        {
            self.edge(current, OUTSIDE, at, Way::Exit);
        }
        Some(())
    }
}

/// How the ways out of a table of labels are distinguished: by the entry, or, for very large
/// tables, by the label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// By the entry.
    ByEntry,
    /// By the label.
    ByLabel,
}

impl Ways {
    /// Returns how the ways of a table are distinguished.
    pub fn of(targets: &BrTable<'_>) -> Self {
        if (targets.len() as usize) < CASES { Self::ByEntry } else { Self::ByLabel }
    }

    /// Returns the way of an entry.
    pub fn of_entry(self, entry: u32, label: u32) -> Way {
        match self {
            Self::ByEntry => Way::Case(entry),
            Self::ByLabel => Way::Case(label),
        }
    }
}

/// The ways out of a table of labels, each once; the default is the last entry.
fn cases(targets: &BrTable<'_>) -> Option<Vec<(u32, Way)>> {
    let ways = Ways::of(targets);
    let mut labels = targets.targets().collect::<Result<Vec<u32>, _>>().ok()?;
    labels.push(targets.default());
    if ways == Ways::ByLabel {
        labels.sort_unstable();
        labels.dedup();
    }
    Some(
        labels
            .into_iter()
            .enumerate()
            .map(|(i, label)| (label, ways.of_entry(i as u32, label)))
            .collect(),
    )
}
