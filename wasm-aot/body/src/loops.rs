//! The loops of a function at which threads can change the variant of its code (on-stack
//! replacement): their places, the blocks around them, and the locals that are live at their
//! headers.
//!
//! A local is *live* at a loop if its value there is read before it is written again, on any path
//! from there. Other locals are not part of the live state. Paths through exceptions are not edges
//! between blocks: a local that a clause of the function reads is live everywhere.

use crate::graph::{Graph, OUTSIDE, Way};
use std::cmp::Reverse;
use std::collections::HashMap;
use wasmparser::{FunctionBody, Operator};

/// The maximum number of locals in the live state, and of words of all sets of locals of a
/// function. If there are more, a thread stays in its variant.
const LIVE: usize = 1000;
/// The maximum number of live locals of all loops of a function together.
pub const OSR_LOCALS: usize = 8192;
const WORDS: usize = 1 << 22;
/// The maximum number of loops of a function with OSR points.
const LOOPS: usize = 4096;

/// A loop that a branch leads back to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loop {
    /// Its offset in the module.
    pub at: u32,
    /// The offset of its end.
    pub end: u32,
    /// The offsets of the blocks around it, outermost first.
    pub around: Vec<u32>,
    /// Locals that are live at its beginning, in order.
    pub live: Vec<u32>,
    /// The locals among them that are written inside.
    pub written: Vec<u32>,
}

impl Loop {
    /// Whether the instruction at `at` is inside.
    pub fn contains(&self, at: u32) -> bool {
        self.at < at && at < self.end
    }
}

/// All such loops of a function, in order, and the locals that are live at any of them, those that
/// are live at the most loops first.
#[derive(Clone, Debug, Default)]
pub struct Loops {
    all: Vec<Loop>,
    osr_locals: Vec<u32>,
}

impl Loops {
    /// The loops of a function without any.
    pub const fn none() -> Self {
        Self { all: Vec::new(), osr_locals: Vec::new() }
    }

    /// Finds the loops. A body that cannot be read has none; the validator refuses it afterwards.
    pub fn of(body: &FunctionBody<'_>, graph: &Graph, locals: usize) -> Self {
        let Some(mut loops) = repeated(body, graph) else { return Self::default() };
        let words = locals.div_ceil(64);
        if loops.is_empty() || loops.len() > LOOPS || words * graph.blocks.len() * 2 > WORDS {
            return Self::default();
        }
        let Some(accesses) = Accesses::of(body, graph, words) else { return Self::default() };
        let live = accesses.live(graph);
        for (header, here) in &mut loops {
            here.live = live.of(*header).filter(|local| (*local as usize) < locals).collect();
            let written = accesses
                .written
                .iter()
                .filter(|(at, local)| here.contains(*at) && live.has(*header, *local));
            here.written = written.map(|(_, local)| *local).collect();
            here.written.sort_unstable();
            here.written.dedup();
        }
        Self::carrying(
            loops
                .into_iter()
                .map(|(_, here)| here)
                .filter(|here| here.live.len() <= LIVE)
                .collect(),
        )
    }

    fn carrying(all: Vec<Loop>) -> Self {
        let mut users = HashMap::new();
        all.iter()
            .flat_map(|here| &here.live)
            .for_each(|local| *users.entry(*local).or_insert(0) += 1);
        let mut osr_locals: Vec<u32> = users.keys().copied().collect();
        osr_locals.sort_unstable_by_key(|local| (Reverse(users[local]), *local));
        match osr_locals.len() <= OSR_LOCALS {
            true => Self { all, osr_locals },
            false => Self::default(),
        }
    }

    /// Locals that are live at any of them, in a fixed order.
    pub fn osr_locals(&self) -> &[u32] {
        &self.osr_locals
    }

    /// The number of loops.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Returns a loop.
    pub fn get(&self, index: usize) -> &Loop {
        &self.all[index]
    }

    /// The index of the loop that begins at `at`.
    pub fn find(&self, at: usize) -> Option<usize> {
        self.all.binary_search_by_key(&(at as u32), |here| here.at).ok()
    }
}

/// The loops with back edges, and the blocks that they begin with.
fn repeated(body: &FunctionBody<'_>, graph: &Graph) -> Option<Vec<(u32, Loop)>> {
    let mut back = HashMap::new();
    for edge in &graph.edges {
        let header = graph.blocks[edge.to as usize].start;
        // The loop's own instruction is the entry; every other edge is a back edge.
        if edge.to != OUTSIDE && edge.at != header && !matches!(edge.way, Way::Entry) {
            back.insert(header, edge.to);
        }
    }
    let (mut found, mut open, mut around) = (Vec::new(), Vec::new(), Vec::new());
    let mut reader = body.get_operators_reader().ok()?;
    while !reader.eof() {
        let (operator, at) = reader.read_with_offset().ok()?;
        let at = at as u32;
        match operator {
            Operator::Loop { .. } => {
                open.push(back.get(&at).map(|header| {
                    found.push((*header, Loop { at, around: around.clone(), ..Loop::default() }));
                    found.len() - 1
                }));
                around.push(at);
            }
            Operator::Block { .. }
            | Operator::If { .. }
            | Operator::Try { .. }
            | Operator::TryTable { .. } => {
                open.push(None);
                around.push(at);
            }
            Operator::End | Operator::Delegate { .. } => {
                around.pop();
                if let Some(index) = open.pop().flatten() {
                    found[index].1.end = at;
                }
            }
            _ => {}
        }
    }
    // A loop that is not closed at the end of the body is in an invalid function.
    found.iter().all(|(_, here)| here.end != 0).then_some(found)
}

/// Sets of locals, one for each block.
struct Sets {
    words: usize,
    bits: Vec<u64>,
}

impl Sets {
    fn new(blocks: usize, words: usize) -> Self {
        Self { words, bits: vec![0; blocks * words] }
    }

    fn set(&mut self, block: usize) -> &mut [u64] {
        &mut self.bits[block * self.words..][..self.words]
    }

    fn has(&self, block: u32, local: u32) -> bool {
        self.bits[block as usize * self.words + local as usize / 64] >> (local % 64) & 1 != 0
    }

    fn of(&self, block: u32) -> impl Iterator<Item = u32> + '_ {
        (0..self.words as u32 * 64).filter(move |local| self.has(block, *local))
    }
}

/// The accesses of each block to locals.
struct Accesses {
    /// Read before they are written.
    read: Sets,
    /// Written.
    wrote: Sets,
    /// All writes, in order.
    written: Vec<(u32, u32)>,
}

impl Accesses {
    fn of(body: &FunctionBody<'_>, graph: &Graph, words: usize) -> Option<Self> {
        let count = graph.blocks.len();
        let mut accesses = Self {
            read: Sets::new(count, words),
            wrote: Sets::new(count, words),
            written: Vec::new(),
        };
        let mut order: Vec<usize> = (1..count)
            .filter(|block| graph.blocks[*block].start < graph.blocks[*block].end)
            .collect();
        order.sort_unstable_by_key(|block| graph.blocks[*block].start);
        let mut blocks = order.into_iter().peekable();
        let mut reader = body.get_operators_reader().ok()?;
        while !reader.eof() {
            let (operator, at) = reader.read_with_offset().ok()?;
            let at = at as u32;
            while blocks.next_if(|block| graph.blocks[*block].end <= at).is_some() {}
            let Some(block) =
                blocks.peek().copied().filter(|block| graph.blocks[*block].start <= at)
            else {
                continue;
            };
            match operator {
                Operator::LocalGet { local_index } => accesses.read(block, local_index)?,
                Operator::LocalSet { local_index } | Operator::LocalTee { local_index } => {
                    *accesses.wrote.set(block).get_mut(local_index as usize / 64)? |=
                        1 << (local_index % 64);
                    accesses.written.push((at, local_index));
                }
                _ => {}
            }
        }
        Some(accesses)
    }

    fn read(&mut self, block: usize, local: u32) -> Option<()> {
        let (word, bit) = (local as usize / 64, 1u64 << (local % 64));
        if self.wrote.set(block).get(word)? & bit == 0 {
            self.read.set(block)[word] |= bit;
        }
        Some(())
    }

    /// The locals that are live at the beginning of each block.
    fn live(&self, graph: &Graph) -> Sets {
        let (count, words) = (graph.blocks.len(), self.read.words);
        let mut before: Vec<Vec<u32>> = vec![Vec::new(); count];
        for edge in graph.edges.iter().filter(|edge| edge.from != OUTSIDE && edge.to != OUTSIDE) {
            before[edge.to as usize].push(edge.from);
        }
        let mut live = Sets { words, bits: self.read.bits.clone() };
        let mut changed: Vec<u32> = (1..count as u32).collect();
        let mut waits = vec![true; count];
        while let Some(block) = changed.pop() {
            waits[block as usize] = false;
            let here = live.set(block as usize).to_vec();
            for from in &before[block as usize] {
                let from_at = *from as usize * words;
                let mut grew = false;
                for (word, bits) in here.iter().enumerate() {
                    let new = bits & !self.wrote.bits[from_at + word] & !live.bits[from_at + word];
                    live.bits[from_at + word] |= new;
                    grew |= new != 0;
                }
                if grew && !std::mem::replace(&mut waits[*from as usize], true) {
                    changed.push(*from);
                }
            }
        }
        let clauses = graph
            .edges
            .iter()
            .filter(|edge| matches!(edge.way, Way::Catch(_)))
            .map(|edge| edge.to as usize);
        let caught = clauses.fold(vec![0; words], |mut all, block| {
            all.iter_mut().zip(&live.bits[block * words..]).for_each(|(all, here)| *all |= here);
            all
        });
        for block in live.bits.chunks_mut(words.max(1)) {
            block.iter_mut().zip(&caught).for_each(|(bits, caught)| *bits |= caught);
        }
        live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loops(text: &str, locals: usize) -> Vec<(Vec<u32>, Vec<u32>, usize)> {
        let module = wat::parse_str(text).expect("text");
        let mut parts =
            wasmparser::Parser::new(0).parse_all(&module).map(|part| part.expect("valid"));
        let body = parts.find_map(|part| match part {
            wasmparser::Payload::CodeSectionEntry(body) => Some(body),
            _ => None,
        });
        let body = body.expect("a function");
        let graph = Graph::of(&body).expect("a graph");
        Loops::of(&body, &graph, locals)
            .all
            .into_iter()
            .map(|here| (here.live, here.written, here.around.len()))
            .collect()
    }

    #[test]
    fn what_is_read_later_is_live_and_what_is_written_first_is_not() {
        let text = "(module (func (param i32 i32 i32) (local i32 i32)
            (loop $again
                (local.set 3 (local.get 0))
                (local.set 0 (i32.sub (local.get 3) (i32.const 1)))
                (br_if $again (local.get 0)))
            (drop (local.get 1))
            (local.set 2 (i32.const 0))
            (drop (local.get 2))))";
        assert_eq!(loops(text, 5), [(vec![0, 1], vec![0], 0)]);
    }

    #[test]
    fn loops_inside_of_others_carry_what_the_outer_ones_read() {
        let text = "(module (func (param i32 i32) (local i32)
            (block $out (loop $a
                (local.set 2 (local.get 1))
                (loop $b (br_if $b (local.tee 2 (i32.sub (local.get 2) (i32.const 1)))))
                (br_if $a (local.tee 0 (i32.sub (local.get 0) (i32.const 1))))
                (br $out)))
            (loop $never)))";
        assert_eq!(loops(text, 3), [(vec![0, 1], vec![0], 1), (vec![0, 1, 2], vec![2], 2)]);
    }

    #[test]
    fn what_a_clause_reads_is_live_everywhere() {
        let text = "(module (tag $t) (func (param i32 i32 i32)
            (block $caught (try_table (catch $t $caught) (call 0 (i32.const 0) (i32.const 0) (i32.const 0))))
            (drop (local.get 1))
            (loop $again (br_if $again (local.get 0)))))";
        assert_eq!(loops(text, 3), [(vec![0, 1], vec![], 0)]);
    }
}
