//! From the counters of some edges, and what has left in the middle, to how often each block and each edge was gone.

use super::graph::{Graph, OUTSIDE};
use super::places::counted;
use std::collections::BTreeMap;

/// How many frames were taken away while they were at an instruction.
pub(crate) type Departures = BTreeMap<u32, u64>;

/// How often everything of a function was executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    /// How often each block was entered.
    pub(crate) blocks: Vec<u64>,
    /// How often each edge was gone.
    pub(crate) edges: Vec<u64>,
    /// What has left in the middle.
    departures: Departures,
}

/// Derives everything from the counters, which are in the order of the counted edges.
pub(crate) fn solve(graph: &Graph, counters: &[u64], departures: &Departures) -> Flow {
    let mut edges: Vec<Option<u64>> = vec![None; graph.edges.len()];
    for (edge, counter) in counted(graph).into_iter().zip(counters) {
        edges[edge] = Some(*counter);
    }
    let mut incident = vec![Vec::new(); graph.blocks.len()];
    for (index, edge) in graph.edges.iter().enumerate() {
        incident[edge.from as usize].push(index);
        incident[edge.to as usize].push(index);
    }
    // What is not counted is a forest: some block has a single such edge, which follows from the others, and so on.
    let unknown = |edges: &[Option<u64>], block: usize| {
        let mut unknown = incident[block].iter().filter(|index| edges[**index].is_none());
        let first = unknown.next().copied();
        first.filter(|_| unknown.next().is_none())
    };
    let mut leaves: Vec<usize> = (1..graph.blocks.len()).filter(|block| unknown(&edges, *block).is_some()).collect();
    while let Some(block) = leaves.pop() {
        let Some(index) = unknown(&edges, block) else { continue };
        let surplus = surplus(graph, &incident[block], &edges, block, departures);
        let edge = &graph.edges[index];
        // Snapshots of what runs may be off by what is on its way; nothing was executed less than never.
        let value = if edge.from as usize == block { surplus } else { -surplus };
        edges[index] = Some(u64::try_from(value).unwrap_or(0));
        let other = if edge.from as usize == block { edge.to } else { edge.from };
        if other != OUTSIDE {
            leaves.push(other as usize);
        }
    }
    let edges: Vec<u64> = edges.into_iter().map(Option::unwrap_or_default).collect();
    let mut blocks = vec![0; graph.blocks.len()];
    for (edge, count) in graph.edges.iter().zip(&edges) {
        blocks[edge.to as usize] += count;
    }
    Flow { blocks, edges, departures: departures.clone() }
}

/// What is known to come into a block, less what is known to leave it.
fn surplus(graph: &Graph, incident: &[usize], edges: &[Option<u64>], block: usize, departures: &Departures) -> i128 {
    let mut surplus = 0;
    for index in incident {
        let Some(count) = edges[*index] else { continue };
        let edge = &graph.edges[*index];
        if edge.to as usize == block && edge.from as usize != block {
            surplus += i128::from(count);
        } else if edge.from as usize == block && edge.to as usize != block {
            surplus -= i128::from(count);
        }
    }
    let range = graph.blocks[block];
    if range.start < range.end {
        surplus -= departures.range(range.start..range.end).map(|(_, count)| i128::from(*count)).sum::<i128>();
    }
    surplus
}

impl Flow {
    /// How often the instruction at `at`, which is in `block`, was begun.
    pub(crate) fn executed(&self, graph: &Graph, block: usize, at: u32) -> u64 {
        let left: u64 = self.departures.range(graph.blocks[block].start..at).map(|(_, count)| count).sum();
        self.blocks[block].saturating_sub(left)
    }
}
