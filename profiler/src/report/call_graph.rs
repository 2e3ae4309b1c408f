//! Call graphs: functions with their self times, their callees' times, and their calls from each
//! caller; for the formats that show a call graph.
//!
//! Times are CPU time, in nanoseconds; they are the self and total times of the table. The number
//! of calls from a caller is the number of all calls times the share of the timed calls from there.
//! Shares are those of timed calls, and totals have other evidence, too. So a callee's time is
//! moved from callers that have less of it to others that have room: no call takes more than its
//! caller. Functions that call each other form a cycle, inside of which no time is propagated
//! (Graham, Kessler and McKusick, 1982).

use super::cycles::cycles;
use super::stacks::Caller;
use crate::profile::Profile;

/// A node of the call graph: a function, or time that belongs to no function.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) own: f64,
    pub(super) children: f64,
    /// The number of calls by others, and by itself.
    pub(super) calls: u64,
    pub(super) recursive: u64,
    /// The callers: positions, calls, and the share of its time.
    pub(super) parents: Vec<(usize, u64, f64)>,
    /// The callees.
    pub(super) callees: Vec<usize>,
    pub(super) cycle: Option<usize>,
    pub(super) index: usize,
}

/// The nodes, in the order of the profile; and the order in which they are printed.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    pub(super) order: Vec<usize>,
    /// The index of each cycle.
    pub(super) cycles: Vec<usize>,
    pub(super) whole: f64,
}

impl Graph {
    pub(super) fn of(profile: &Profile) -> Self {
        let callers = profile.callers();
        let (own, others) = profile.distributed(&callers);
        let whole: f64 = own.iter().sum::<f64>() + others.iter().map(|(_, time)| time).sum::<f64>();
        let mut nodes: Vec<Node> =
            (0..own.len()).map(|at| Node::of(profile, at, own[at], whole, &callers[at])).collect();
        let mut callees = vec![Vec::new(); nodes.len()];
        for (at, node) in nodes.iter().enumerate() {
            node.parents.iter().for_each(|(parent, ..)| callees[*parent].push(at));
        }
        let found = cycles(&callees);
        for ((node, callees), cycle) in nodes.iter_mut().zip(callees).zip(&found) {
            (node.callees, node.cycle) = (callees, *cycle);
        }
        balance(&mut nodes);
        nodes.extend(others.into_iter().map(|(name, own)| Node {
            name: name.to_owned(),
            own,
            ..Node::default()
        }));
        let mut graph = Self {
            order: Vec::new(),
            cycles: vec![0; found.into_iter().flatten().max().unwrap_or(0)],
            nodes,
            whole,
        };
        graph.number();
        graph
    }

    /// Numbers the printed nodes: the longest total first, a cycle before its first member.
    fn number(&mut self) {
        let mut order: Vec<usize> = (0..self.nodes.len()).collect();
        let total = |at: usize| self.nodes[at].own + self.nodes[at].children;
        order.sort_by(|&a, &b| {
            total(b).total_cmp(&total(a)).then_with(|| self.nodes[a].name.cmp(&self.nodes[b].name))
        });
        let mut index = 0;
        let mut next = || {
            index += 1;
            index
        };
        for &at in &order {
            if let Some(cycle) = self.nodes[at].cycle.filter(|cycle| self.cycles[cycle - 1] == 0) {
                self.cycles[cycle - 1] = next();
            }
            self.nodes[at].index = next();
        }
        self.order = order;
    }

    pub(super) fn is_inside(&self, parent: usize, child: usize) -> bool {
        self.nodes[child].cycle.is_some() && self.nodes[parent].cycle == self.nodes[child].cycle
    }
}

/// Moves the time of calls among callers, so that the callees of each take no more than they do
/// together. Callers in the callee's cycle are left alone: no time is propagated there.
fn balance(nodes: &mut [Node]) {
    let time = |node: &Node| node.own + node.children;
    let is_inside =
        |parent: &Node, child: &Node| child.cycle.is_some() && parent.cycle == child.cycle;
    let mut calls = vec![0.0; nodes.len()];
    for child in nodes.iter() {
        for &(parent, _, share) in &child.parents {
            if !is_inside(&nodes[parent], child) {
                calls[parent] += time(child) * share;
            }
        }
    }
    let fits = |at: usize| (nodes[at].children / calls[at]).min(1.0);
    let fitting: Vec<f64> =
        (0..nodes.len()).map(|at| if calls[at] > 0.0 { fits(at) } else { 1.0 }).collect();
    let mut room: Vec<f64> = (0..nodes.len())
        .map(|at| (nodes[at].children - calls[at] * fitting[at]).max(0.0))
        .collect();
    for at in 0..nodes.len() {
        let (whole, mut parents) = (time(&nodes[at]), std::mem::take(&mut nodes[at].parents));
        let others =
            parents.iter_mut().filter(|(parent, ..)| !is_inside(&nodes[*parent], &nodes[at]));
        let mut others: Vec<_> = others.collect();
        let mut excess = 0.0;
        for (parent, _, share) in &mut others {
            excess += whole * *share * (1.0 - fitting[*parent]);
            *share *= fitting[*parent];
        }
        for (parent, _, share) in others.into_iter().filter(|_| whole > 0.0) {
            let more = excess.min(room[*parent]);
            (excess, room[*parent]) = (excess - more, room[*parent] - more);
            *share += more / whole;
        }
        nodes[at].parents = parents;
    }
}

impl Node {
    fn of(profile: &Profile, at: usize, own: f64, whole: f64, callers: &[Caller]) -> Self {
        let function = &profile.functions[at];
        let total = function
            .total
            .filter(crate::Figure::is_sound)
            .map_or(own, |total| total.value.clamp(own, whole.max(own)));
        let all = function.calls.value.max(0.0).round();
        let timed: u64 = function.arcs.iter().map(|arc| arc.samples).sum();
        let part =
            |caller: &Caller| (all * caller.samples as f64 / timed.max(1) as f64).round() as u64;
        let recursive = callers
            .iter()
            .filter(|caller| caller.function == at)
            .map(part)
            .sum::<u64>()
            .min(all as u64);
        let calls = all as u64 - recursive;
        let others = callers.iter().filter(|caller| caller.function != at);
        // Time is that of outermost calls, which already contain recursive calls.
        let shares: f64 =
            callers.iter().filter(|caller| caller.function == at).map(|caller| caller.share).sum();
        let outer = |caller: &Caller| {
            if shares < 1.0 { (caller.share / (1.0 - shares)).min(1.0) } else { 0.0 }
        };
        Self {
            name: function.label.name.replace('\n', " "),
            own,
            children: (total - own).max(0.0),
            calls,
            recursive,
            parents: others
                .map(|caller| (caller.function, part(caller).min(calls), outer(caller)))
                .collect(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(own: f64, children: f64, parents: &[(usize, f64)]) -> Node {
        let parents = parents.iter().map(|&(parent, share)| (parent, 1, share)).collect();
        Node { own, children, parents, ..Node::default() }
    }

    #[test]
    fn no_call_takes_more_than_its_caller_and_no_time_is_lost_where_there_is_room() {
        // `short` and `long` make as many calls of the same function, but `short` took 3.
        let mut nodes = vec![
            node(1.0, 19.0, &[]),
            node(1.0, 2.0, &[(0, 1.0)]),
            node(1.0, 15.0, &[(0, 1.0)]),
            node(12.0, 0.0, &[(1, 0.5), (2, 0.5)]),
        ];
        balance(&mut nodes);
        let time = |at: usize, from: usize| {
            let share = nodes[at].parents.iter().find(|(parent, ..)| *parent == from).unwrap().2;
            ((nodes[at].own + nodes[at].children) * share).round()
        };
        assert_eq!((time(3, 1), time(3, 2)), (2.0, 10.0));
        assert_eq!((time(1, 0), time(2, 0)), (3.0, 16.0));
        // Where no caller has room, the rest of the time belongs to no call.
        nodes[2].children = 5.0;
        balance(&mut nodes);
        let from: f64 = nodes[3].parents.iter().map(|(.., share)| share * 12.0).sum();
        assert_eq!(from.round(), 7.0);
    }
}
