//! Gprof's format: a flat profile, and the call graph in gprof's layout, so that tools which read
//! gprof's output can read this.
//!
//! ```text
//! index % time    self  children    called     name
//!                 0.05     0.10    100/100         main [1]         callers, with their part of the function's time
//! [2]     15.0    0.05     0.10    100         serve [2]            the function
//!                 0.10     0.00 1000000/4000000     hash [3]         callees
//! -----------------------------------------------
//! ```
//!
//! Times are seconds of CPU time, from [`Graph`].

use super::call_graph::{Graph, Node};
use crate::ClockSource;
use crate::profile::Profile;
use std::fmt::Write;

impl Profile {
    /// The profile in gprof's format.
    pub fn gprof(&self) -> String {
        let graph = Graph::of(self);
        let mut text = "Flat profile:\n\n".to_owned();
        text += &match self.header.clock {
            ClockSource::Kernel { hz, .. } => {
                format!("Each sample counts as {:.6} seconds.\n", 1.0 / hz)
            }
            _ => "Times are measured by probes.\n".to_owned(),
        };
        graph.flat(&mut text);
        text += "\n\x0c\n\t\t     Call graph\n\n\n";
        let _ = writeln!(text, "granularity: {:.6} seconds in all\n", graph.whole / 1e9);
        let _ = writeln!(text, "index % time    self  children    called     name");
        graph.entries(&mut text);
        text += "\x0c\nIndex by function name\n\n";
        let mut names: Vec<(&str, usize)> =
            graph.nodes.iter().map(|node| (node.name.as_str(), node.index)).collect();
        names.sort_unstable();
        for (name, index) in names {
            let _ = writeln!(text, "{:>6} {name}", format!("[{index}]"));
        }
        text
    }
}

impl Graph {
    fn flat(&self, text: &mut String) {
        let _ = writeln!(text, "  %   cumulative   self              self     total           ");
        let _ = writeln!(text, " time   seconds   seconds    calls  ns/call  ns/call  name    ");
        let mut rows: Vec<&Node> = self.nodes.iter().collect();
        rows.sort_by(|a, b| {
            b.own.total_cmp(&a.own).then(b.calls.cmp(&a.calls)).then(a.name.cmp(&b.name))
        });
        let mut cumulative = 0.0;
        for node in rows {
            cumulative += node.own;
            let share = 100.0 * node.own / self.whole.max(1.0);
            let _ = write!(text, "{share:6.2} {:10.6} {:9.6}", cumulative / 1e9, node.own / 1e9);
            let calls = node.calls + node.recursive;
            let _ = match calls {
                0 => writeln!(text, " {:8} {:8} {:8}  {}", "", "", "", node.name),
                _ => {
                    let each = |time: f64| time / calls as f64;
                    writeln!(
                        text,
                        " {calls:8} {:8.2} {:8.2}  {}",
                        each(node.own),
                        each(node.own + node.children),
                        node.name
                    )
                }
            };
        }
    }

    fn entries(&self, text: &mut String) {
        let mut begun = vec![false; self.cycles.len()];
        for &at in &self.order {
            if let Some(cycle) = self.nodes[at].cycle.filter(|cycle| !begun[cycle - 1]) {
                begun[cycle - 1] = true;
                self.cycle(text, cycle);
            }
            self.entry(text, at);
        }
    }

    fn entry(&self, text: &mut String, at: usize) {
        let node = &self.nodes[at];
        let mut spontaneous = true;
        for &(parent, calls, share) in &node.parents {
            self.arc(text, parent, at, calls, share);
            spontaneous = false;
        }
        if spontaneous {
            let _ =
                writeln!(text, "                                                 <spontaneous>");
        }
        let calls = match (node.calls, node.recursive) {
            (0, 0) => String::new(),
            (calls, 0) => format!("{calls}"),
            (calls, recursive) => format!("{calls}+{recursive}"),
        };
        self.primary(
            text,
            node.index,
            node.own,
            node.children,
            &calls,
            &format!("{} [{}]", self.named(at), node.index),
        );
        for &callee in &node.callees {
            let part = self.nodes[callee].parents.iter().find(|(parent, ..)| *parent == at);
            if let Some(&(_, calls, share)) = part {
                self.arc_line(text, callee, callee, calls, share, self.is_inside(at, callee));
            }
        }
        let _ = writeln!(text, "-----------------------------------------------");
    }

    /// The line of a caller.
    fn arc(&self, text: &mut String, parent: usize, child: usize, calls: u64, share: f64) {
        self.arc_line(text, parent, child, calls, share, self.is_inside(parent, child));
    }

    /// A line for calls of `child`, which names `named`. Inside of a cycle no time is propagated.
    fn arc_line(
        &self,
        text: &mut String,
        named: usize,
        child: usize,
        calls: u64,
        share: f64,
        inside: bool,
    ) {
        let node = &self.nodes[child];
        let (times, called) = if inside {
            (" ".repeat(21), format!("{calls}"))
        } else {
            let times =
                format!("{:>10.6} {:>10.6}", share * node.own / 1e9, share * node.children / 1e9);
            (times, format!("{calls}/{}", node.calls))
        };
        let _ = writeln!(
            text,
            "             {times} {called:>15}     {} [{}]",
            self.named(named),
            self.nodes[named].index
        );
    }

    fn primary(
        &self,
        text: &mut String,
        index: usize,
        own: f64,
        children: f64,
        calls: &str,
        name: &str,
    ) {
        let share = (100.0 * (own + children) / self.whole.max(1.0)).min(100.0);
        let _ = writeln!(
            text,
            "{:<6} {share:5.1} {:>10.6} {:>10.6} {calls:>15} {name}",
            format!("[{index}]"),
            own / 1e9,
            children / 1e9
        );
    }

    /// A cycle as a whole: its members' self times, and what they call outside of it.
    fn cycle(&self, text: &mut String, cycle: usize) {
        let members: Vec<usize> =
            self.order.iter().copied().filter(|&at| self.nodes[at].cycle == Some(cycle)).collect();
        let own: f64 = members.iter().map(|&at| self.nodes[at].own).sum();
        let longest = members
            .iter()
            .map(|&at| self.nodes[at].own + self.nodes[at].children)
            .fold(0.0, f64::max);
        let inner = |at: usize| -> u64 {
            let node = &self.nodes[at];
            let calls = node
                .parents
                .iter()
                .filter(|(parent, ..)| self.is_inside(*parent, at))
                .map(|(_, calls, _)| calls);
            node.recursive + calls.sum::<u64>()
        };
        let within: u64 = members.iter().map(|&at| inner(at)).sum();
        let all: u64 =
            members.iter().map(|&at| self.nodes[at].calls + self.nodes[at].recursive).sum();
        let index = self.cycles[cycle - 1];
        let calls = format!("{}+{within}", all.saturating_sub(within));
        self.primary(
            text,
            index,
            own,
            (longest - own).max(0.0),
            &calls,
            &format!("<cycle {cycle} as a whole> [{index}]"),
        );
        for at in members {
            let node = &self.nodes[at];
            let times = format!("{:>10.6} {:>10.6}", node.own / 1e9, node.children / 1e9);
            let called = format!("{}+{}", node.calls, node.recursive);
            let _ = writeln!(
                text,
                "             {times} {called:>15}     {} [{}]",
                self.named(at),
                node.index
            );
        }
        let _ = writeln!(text, "-----------------------------------------------");
    }

    fn named(&self, at: usize) -> String {
        let node = &self.nodes[at];
        node.cycle
            .map_or_else(|| node.name.clone(), |cycle| format!("{} <cycle {cycle}>", node.name))
    }
}

#[cfg(test)]
mod tests {

    use crate::report::made_up::{called, program};
    use crate::report::share::own_time;

    #[test]
    fn the_flat_profile_has_the_tables_self_times_and_sums_to_the_processor_time() {
        let profile = program();
        let text = profile.gprof();
        let rows: Vec<&str> = text
            .lines()
            .skip_while(|line| !line.contains("seconds   seconds"))
            .skip(1)
            .take(6)
            .collect();
        let cells =
            |row: &str, at: usize| row.split_whitespace().nth(at).unwrap().parse::<f64>().unwrap();
        assert!(
            rows[0].ends_with("hash") && cells(rows[0], 0) == 40.0 && cells(rows[0], 2) == 0.4,
            "{text}"
        );
        assert!((rows.iter().map(|row| cells(row, 0)).sum::<f64>() - 100.0).abs() < 0.05, "{text}");
        assert_eq!(cells(rows[5], 1), 1.0, "{text}");
        for function in &profile.functions {
            let row = rows.iter().find(|row| row.ends_with(&function.label.name)).unwrap();
            assert!((cells(row, 2) * 1e9 - own_time(function)).abs() < 1e3);
        }
    }

    #[test]
    fn callers_stand_above_and_callees_below_with_their_calls() {
        let text = program().gprof();
        let entry = text
            .split("-----------------------------------------------\n")
            .find(|entry| entry.contains("\n[2] "))
            .unwrap();
        let lines: Vec<Vec<&str>> =
            entry.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["0.200000", "0.300000", "100/100", "main", "[1]"]);
        assert_eq!(lines[1], ["[2]", "50.0", "0.200000", "0.300000", "100", "parse", "[2]"]);
        assert_eq!(lines[2], ["0.300000", "0.000000", "3000000/4000000", "hash", "[3]"]);
    }

    #[test]
    fn functions_that_call_each_other_are_a_cycle_and_those_that_call_themselves_are_not() {
        let mut profile = program();
        called(&mut profile, 1, 2, 50, 0.0);
        called(&mut profile, 2, 1, 5, 0.0);
        called(&mut profile, 3, 3, 4_000_000, 0.0);
        let text = profile.gprof();
        assert!(
            text.contains("<cycle 1 as a whole>")
                && text.contains("parse <cycle 1>")
                && text.contains("serve <cycle 1>"),
            "{text}"
        );
        assert!(text.contains("2000000+2000000 hash") && !text.contains("hash <cycle"), "{text}");
    }
}
