//! Stacks as a tree, for flame graphs. Callees of one frame are merged; the largest come first.

use super::stacks::{Frame, Stacks};
use std::collections::BTreeMap;

/// A frame in the context of those above it.
#[derive(Debug)]
pub(crate) struct Node {
    /// The root, which represents all time, has none.
    pub(crate) frame: Option<Frame>,
    /// The number of frames above it.
    pub(crate) depth: usize,
    /// Its start: the time of the frames to its left.
    pub(crate) begin: f64,
    /// Its self time and its total time, in nanoseconds.
    pub(crate) own: f64,
    pub(crate) whole: f64,
}

#[derive(Debug, Default)]
struct Branch {
    own: f64,
    whole: f64,
    inside: BTreeMap<Frame, usize>,
}

/// The nodes in the order in which they are drawn: each before its callees. Nodes with less than
/// `faintest` of all time are left out, with their callees.
pub(crate) fn nodes(stacks: &Stacks, faintest: f64) -> Vec<Node> {
    let mut branches = vec![Branch::default()];
    for (frames, time) in stacks {
        let mut at = 0;
        branches[at].whole += time;
        for frame in frames {
            let next = branches.len();
            at = *branches[at].inside.entry(*frame).or_insert(next);
            if at == next {
                branches.push(Branch::default());
            }
            branches[at].whole += time;
        }
        branches[at].own += time;
    }
    let least = branches[0].whole * faintest;
    let mut nodes = Vec::new();
    // An explicit stack instead of recursion: the stacks of a file may have any depth.
    let mut open = vec![(None, 0, 0, 0.0)];
    while let Some((frame, at, depth, begin)) = open.pop() {
        let Branch { own, whole, inside } = &branches[at];
        nodes.push(Node { frame, depth, begin, own: *own, whole: *whole });
        let mut inside: Vec<(Frame, usize)> = inside
            .iter()
            .map(|(frame, at)| (*frame, *at))
            .filter(|(_, at)| branches[*at].whole >= least)
            .collect();
        inside.sort_by(|a, b| branches[b.1].whole.total_cmp(&branches[a.1].whole).then(a.cmp(b)));
        let mut end = begin;
        let placed = inside.into_iter().map(|(frame, at)| {
            let begin = end;
            end += branches[at].whole;
            (Some(frame), at, depth + 1, begin)
        });
        let placed: Vec<_> = placed.collect();
        open.extend(placed.into_iter().rev());
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_merged_the_largest_come_first_and_faint_ones_go() {
        let of = |frames: &[usize]| frames.iter().copied().map(Frame::Function).collect::<Vec<_>>();
        let stacks = Stacks::from([
            (of(&[0]), 10.0),
            (of(&[0, 1]), 20.0),
            (of(&[0, 2]), 60.0),
            (of(&[0, 2, 1]), 9.5),
            (of(&[3]), 0.5),
        ]);
        let drawn = |faintest| -> Vec<(Option<usize>, usize, f64, f64, f64)> {
            let number = |frame| match frame {
                Frame::Function(at) => at,
                Frame::Other(_) => unreachable!("none is made"),
            };
            let all = nodes(&stacks, faintest).into_iter();
            all.map(|node| (node.frame.map(number), node.depth, node.begin, node.own, node.whole))
                .collect()
        };
        let wanted = [
            (None, 0, 0.0, 0.0, 100.0),
            (Some(0), 1, 0.0, 10.0, 99.5),
            (Some(2), 2, 0.0, 60.0, 69.5),
            (Some(1), 3, 0.0, 9.5, 9.5),
            (Some(1), 2, 69.5, 20.0, 20.0),
        ];
        assert_eq!(drawn(0.01), wanted);
        assert_eq!(drawn(0.0).len(), 6);
    }
}
