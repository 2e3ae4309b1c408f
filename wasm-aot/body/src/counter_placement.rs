//! Counter placement: the edges that are counted are those outside of a spanning tree of the graph,
//! which contains the edges that are executed most often (Knuth and Stevenson, *Optimal measurement
//! points for program frequency counts*, BIT 13, 1973; Ball and Larus, *Optimally profiling and
//! tracing programs*, TOPLAS 16, 1994).
//!
//! An edge from a block to itself is not in any tree. To count it, extra code would be needed on
//! the edge, in the smallest of loops: instead the block is counted, at the beginning of the loop;
//! the edge's count is the block's count less those of all other edges into it.

use crate::graph::{Edge, Graph, OUTSIDE, Way};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Identifies an edge for the compiler: the instruction, and the way by which control leaves it.
pub(crate) type Key = (u32, Way);

/// The edges of a function that are counted, and the number of each counter.
#[derive(Clone, Debug, Default)]
pub struct CounterPlacement {
    counters: HashMap<Key, u32>,
    /// Blocks that are counted instead of edges to themselves, by their beginnings: the edge, and
    /// the counter.
    turns: HashMap<u32, (usize, u32)>,
    /// The other edges that are counted, with their counters.
    edges: Vec<(usize, u32)>,
    /// Each loop has a counter of OSR entries from another variant of the code, which is given
    /// here, and behind it one of OSR exits.
    loops: BTreeMap<u32, u32>,
    len: u32,
}

impl CounterPlacement {
    /// Chooses the edges of a graph to be counted. Their counters are numbered from 0 in the order
    /// of edges; those of loops follow.
    pub fn of(graph: &Graph) -> Self {
        Self::default().extended(&Graph::default(), graph)
    }

    /// The placement for the graph of the same function if more of its instructions may be
    /// replaced, where this is the placement for `before`.
    ///
    /// Code with either placement may run, one after the other, and add to the same counters: these
    /// keep their numbers and meanings. So no edge is counted that code with this placement
    /// executes without counting it; edges that only the other code has are counted as necessary.
    #[must_use]
    pub fn extended(&self, before: &Graph, graph: &Graph) -> Self {
        let known: HashSet<Key> = before.edges.iter().map(key).collect();
        let mut all = Self { edges: Vec::new(), ..self.clone() };
        let turned: HashMap<Key, u32> = self
            .turns
            .iter()
            .map(|(start, (edge, _))| (key(&before.edges[*edge]), *start))
            .collect();
        for (index, edge) in graph.edges.iter().enumerate() {
            if let Some(turn) = turned.get(&key(edge)).and_then(|start| all.turns.get_mut(start)) {
                turn.0 = index;
            }
        }
        for edge in all.chosen(graph, &known) {
            let Edge { from, to, .. } = graph.edges[edge];
            let start = graph.blocks[to as usize].start;
            let counter = all.next(1);
            match from == to
                && graph.loops.binary_search(&start).is_ok()
                && !all.turns.contains_key(&start)
            {
                true => drop(all.turns.insert(start, (edge, counter))),
                false => drop(all.counters.insert(key(&graph.edges[edge]), counter)),
            }
        }
        for at in &graph.loops {
            if !all.loops.contains_key(at) {
                let counter = all.next(2);
                all.loops.insert(*at, counter);
            }
        }
        let counted = |(index, edge): (usize, &Edge)| Some((index, *all.counters.get(&key(edge))?));
        all.edges = graph.edges.iter().enumerate().filter_map(counted).collect();
        all
    }

    /// The number of the next counter, of as many.
    fn next(&mut self, count: u32) -> u32 {
        self.len += count;
        self.len - count
    }

    /// The edges of a graph that have to be counted in addition, in order. The code that exists
    /// executes the `known` edges, and more where a block was split.
    fn chosen(&self, graph: &Graph, known: &HashSet<Key>) -> Vec<usize> {
        let mut sets = Sets((0..graph.blocks.len() as u32).collect());
        let is_executed = executed(graph, known);
        let mut rest = Vec::new();
        for (index, edge) in graph.edges.iter().enumerate() {
            if self.counters.contains_key(&key(edge)) {
                continue;
            }
            match is_executed[index] {
                true => drop(sets.join(edge.from, edge.to)),
                false => rest.push(index),
            }
        }
        rest.sort_by_key(|index| (std::cmp::Reverse(worth(graph, *index)), *index));
        rest.retain(|index| {
            let edge = &graph.edges[*index];
            // Only these edges record entries into the middle from outside, and exits by throwing.
            matches!(edge.way, Way::Catch(_) | Way::Thrown) || !sets.join(edge.from, edge.to)
        });
        rest.sort_unstable();
        rest
    }

    /// The counter of the block that begins with the loop at `at`, if it is counted instead of an
    /// edge.
    pub fn turn(&self, at: u32) -> Option<u32> {
        self.turns.get(&at).map(|(_, counter)| *counter)
    }

    /// The blocks that are counted, each by an edge to it, with their counters.
    pub(crate) fn turns(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.turns.values().copied()
    }

    /// The counter of OSR entries from another variant at the loop at `at`.
    pub fn coming(&self, at: u32) -> Option<u32> {
        self.loops.get(&at).copied()
    }

    /// The counter of OSR exits to another variant.
    pub fn going(&self, at: u32) -> Option<u32> {
        self.coming(at).map(|counter| counter + 1)
    }

    /// The OSR entries and exits of each loop, from the counters of the function.
    pub(crate) fn crossed<'a>(
        &'a self,
        counters: &'a [u64],
    ) -> impl Iterator<Item = (u32, u64, u64)> + 'a {
        self.loops.iter().filter_map(|(at, coming)| {
            let pair = counters.get(*coming as usize..)?.first_chunk()?;
            let [came, went] = *pair;
            Some((*at, came, went))
        })
    }

    /// The counter of an edge, if it is counted.
    pub fn counter(&self, at: u32, way: Way) -> Option<u32> {
        self.counters.get(&(at, way)).copied()
    }

    /// The approximate number of additions to counters.
    pub fn cost(&self, graph: &Graph) -> u64 {
        let edges = self.edges.iter().copied().chain(self.turns());
        edges.map(|(edge, _)| often(graph.edges[edge].depth)).sum()
    }

    /// How many counters there are.
    pub fn counters(&self) -> u32 {
        self.len
    }

    /// The counted edges with their counters, without those instead of which a block is counted.
    pub(crate) fn edges(&self) -> &[(usize, u32)] {
        &self.edges
    }
}

const fn key(edge: &Edge) -> Key {
    (edge.at, edge.way)
}

/// Whether each edge of a graph is executed by code that was made for another graph of the same
/// function, which had the `known` edges and in which fewer instructions were replaced. Where that
/// had one block, there may be several now, with edges between them.
fn executed(graph: &Graph, known: &HashSet<Key>) -> Vec<bool> {
    let mut executed: Vec<bool> =
        graph.edges.iter().map(|edge| known.contains(&key(edge))).collect();
    let mut reached = vec![false; graph.blocks.len()];
    let mut continues = true;
    while std::mem::take(&mut continues) {
        for (edge, is_executed) in graph.edges.iter().zip(&mut executed) {
            let is_new = matches!(edge.way, Way::Around | Way::Catch(_));
            *is_executed |= !is_new && reached[edge.from as usize];
            if *is_executed {
                for block in [edge.from, edge.to].map(|block| block as usize) {
                    continues |= block != OUTSIDE as usize && !reached[block];
                    reached[block] = block != OUTSIDE as usize;
                }
            }
        }
    }
    executed
}

/// The approximate number of executions of code in `depth` nested loops, for each execution of the
/// function.
pub fn often(depth: u32) -> u64 {
    8u64.pow(depth.min(16))
}

/// The gain of not counting an edge.
fn worth(graph: &Graph, index: usize) -> (bool, u32, bool) {
    let edge = &graph.edges[index];
    // A tail call may trap after its counter: exits are never counted. (They all lead to one block,
    // so they do not close a cycle.)
    let exit = edge.way == Way::Exit;
    // A branch that is counted needs extra code on the edge.
    let jumps = matches!(edge.way, Way::Taken | Way::Case(_));
    (exit, edge.depth, jumps)
}

/// Sets of blocks that are connected.
struct Sets(Vec<u32>);

impl Sets {
    fn root(&mut self, mut block: u32) -> u32 {
        while self.0[block as usize] != block {
            let parent = self.0[block as usize];
            self.0[block as usize] = self.0[parent as usize];
            block = self.0[block as usize];
        }
        block
    }

    /// Connects two blocks; returns whether they were not connected before.
    fn join(&mut self, a: u32, b: u32) -> bool {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a as usize] = b;
        a != b
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replacement::never_falls_through;
    use crate::solution::{ExitPlace, PartialExits, solve};
    use arbtest::arbitrary::{Result, Unstructured};
    use std::borrow::Cow;
    use wasm_encoder::{BlockType, Catch, Function, Instruction};
    use wasmparser::{BinaryReader, FunctionBody, Operator, WasmFeatures};

    /// Adds arbitrary code inside of `depth` labels; validation is of no interest here.
    fn add(u: &mut Unstructured<'_>, code: &mut Function, depth: u32) -> Result<()> {
        for _ in 0..u.int_in_range(0..=4u32)? {
            let label = u.int_in_range(0..=depth)?;
            let plain = match u.int_in_range(0..=9u8)? {
                0 => Instruction::Block(BlockType::Empty),
                1 => Instruction::Loop(BlockType::Empty),
                2 => Instruction::If(BlockType::Empty),
                3 => {
                    let catches = Cow::Owned(vec![Catch::All { label }]);
                    Instruction::TryTable(BlockType::Empty, catches)
                }
                4 => Instruction::Br(label),
                5 => Instruction::BrTable(Cow::Owned(vec![0, label]), depth),
                6 => Instruction::Return,
                7 => Instruction::Unreachable,
                8 => Instruction::BrIf(label),
                _ => Instruction::Nop,
            };
            code.instruction(&plain);
            let (is_if, is_block) = (
                matches!(plain, Instruction::If(_)),
                matches!(plain, Instruction::Block(_) | Instruction::Loop(_))
                    || matches!(plain, Instruction::TryTable(..)),
            );
            if is_if || is_block {
                add(u, code, depth + 1)?;
                if is_if && u.arbitrary()? {
                    code.instruction(&Instruction::Else);
                    add(u, code, depth + 1)?;
                }
                code.instruction(&Instruction::End);
            }
        }
        Ok(())
    }

    /// The instructions of a function that may be replaced and of which its graph knows.
    fn candidates(body: &FunctionBody<'_>) -> Vec<u32> {
        let mut reader = body.get_operators_reader().expect("a body");
        let mut all = Vec::new();
        while !reader.eof() {
            let (operator, at) = reader.read_with_offset().expect("an instruction");
            let is_block = matches!(
                operator,
                Operator::Block { .. }
                    | Operator::Loop { .. }
                    | Operator::If { .. }
                    | Operator::Else
                    | Operator::TryTable { .. }
            );
            if is_block || never_falls_through(&operator) {
                all.push(at as u32);
            }
        }
        all
    }

    /// One of several versions of a function's code.
    struct Version {
        replaced: Vec<u32>,
        graph: Graph,
        placement: CounterPlacement,
    }

    /// Threads that execute versions of a function, and what they count.
    struct Walk<'a> {
        graph: &'a Graph,
        counters: Vec<u64>,
        gone: Vec<u64>,
        partial_exits: PartialExits,
    }

    impl Walk<'_> {
        /// The thread follows an edge, and executes the beginning of a block.
        fn go(&mut self, version: &Version, edge: usize) -> u32 {
            self.gone[edge] += 1;
            let Edge { at, way, to, .. } = self.graph.edges[edge];
            if let Some(counter) = version.placement.counter(at, way) {
                self.counters[counter as usize] += 1;
            }
            to
        }

        fn begin(&mut self, version: &Version, block: u32) {
            let range = self.graph.blocks[block as usize];
            let turn = version.placement.turn(range.start).filter(|_| range.start < range.end);
            if let Some(counter) = turn {
                self.counters[counter as usize] += 1;
            }
        }

        /// A thread enters the function, or a loop of it, and stays until it leaves it.
        fn thread(&mut self, u: &mut Unstructured<'_>, version: &Version) -> Result<()> {
            let graph = self.graph;
            let is_there = |edge: &Edge| match edge.way {
                Way::Around => version.replaced.binary_search(&edge.at).is_ok(),
                Way::Catch(_) => version.graph.edges.iter().any(|other| key(other) == key(edge)),
                _ => true,
            };
            let mut block = match u.choose(&version.graph.loops) {
                Ok(at) if u.ratio(1, 4)? => {
                    let coming = version.placement.coming(*at).expect("a loop");
                    self.counters[coming as usize] += 1;
                    let is_header =
                        |block: &crate::graph::Block| block.start == *at && block.start < block.end;
                    graph.blocks.iter().position(is_header).expect("its header") as u32
                }
                _ => self.go(version, 0),
            };
            while block != OUTSIDE {
                let range = graph.blocks[block as usize];
                if range.start < range.end {
                    let is_loop = version.graph.loops.contains(&range.start);
                    if is_loop && u.ratio(1, 8)? {
                        let going = version.placement.going(range.start).expect("a loop");
                        self.counters[going as usize] += 1;
                        return Ok(());
                    }
                    self.begin(version, block);
                    if u.is_empty() || u.ratio(1, 12)? {
                        let at = u.int_in_range(range.start..=range.end - 1)?;
                        let place = ExitPlace { at, begun: u.arbitrary()? };
                        *self.partial_exits.entry(place).or_default() += 1;
                        let catches = |edge: &usize| {
                            let edge = &graph.edges[*edge];
                            matches!(edge.way, Way::Catch(_)) && is_there(edge)
                        };
                        let all: Vec<usize> = (0..graph.edges.len()).filter(catches).collect();
                        if u.is_empty() || all.is_empty() || u.arbitrary()? {
                            return Ok(());
                        }
                        block = self.go(version, *u.choose(&all)?);
                        continue;
                    }
                }
                let leaves = |edge: &usize| {
                    let edge = &graph.edges[*edge];
                    edge.from == block && is_there(edge)
                };
                let ways: Vec<usize> = (1..graph.edges.len()).filter(leaves).collect();
                let way = if u.is_empty() { ways[0] } else { *u.choose(&ways)? };
                block = self.go(version, way);
            }
            Ok(())
        }
    }

    #[test]
    fn versions_in_which_more_is_replaced_share_the_counters() {
        arbtest::arbtest(|u| {
            let mut code = Function::new([]);
            add(u, &mut code, 0)?;
            code.instruction(&Instruction::End);
            let bytes = code.into_raw_body();
            let mut reader = BinaryReader::new(&bytes, 0);
            reader.set_features(WasmFeatures::all());
            let body = FunctionBody::new(reader);
            let candidates = candidates(&body);
            let (mut replaced, mut versions) = (Vec::new(), Vec::<Version>::new());
            for step in 0..3 {
                for at in candidates.iter().filter(|_| step > 0) {
                    if !replaced.contains(at) && u.ratio(1, 3)? {
                        replaced.push(*at);
                    }
                }
                replaced.sort_unstable();
                let graph = Graph::replaceable(&body, &replaced).expect("a graph");
                let placement = match versions.last() {
                    Some(before) => before.placement.extended(&before.graph, &graph),
                    None => CounterPlacement::of(&graph),
                };
                versions.push(Version { replaced: replaced.clone(), graph, placement });
            }
            let last = &versions[2];
            let mut walk = Walk {
                graph: &last.graph,
                counters: vec![0; last.placement.counters() as usize],
                gone: vec![0; last.graph.edges.len()],
                partial_exits: PartialExits::new(),
            };
            for _ in 0..u.int_in_range(0..=8u32)? {
                let version = u.choose(&versions)?;
                walk.thread(u, version)?;
            }
            let Walk { counters, gone, partial_exits, .. } = walk;
            let flow = solve(&last.graph, &last.placement, &counters, &partial_exits);
            assert_eq!(flow.edges, gone, "{:?}", last.graph);
            Ok(())
        });
    }
}
