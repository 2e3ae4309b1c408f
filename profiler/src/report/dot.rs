//! The call graph for Graphviz: boxes are functions with their shares of CPU time, self and total;
//! arrows are calls.

use super::call_graph::Graph;
use super::human;
use crate::profile::Profile;
use std::fmt::Write;

/// Functions and arrows with a smaller share of all time are left out.
const FAINTEST: f64 = 0.005;

impl Profile {
    /// The call graph in Graphviz's format.
    pub fn dot(&self) -> String {
        let graph = Graph::of(self);
        let whole = graph.whole.max(1.0);
        let total = |at: usize| graph.nodes[at].own + graph.nodes[at].children;
        let is_drawn = |at: usize| total(at) / whole >= FAINTEST;
        let kind = self.header.kind_of_time();
        let title =
            format!("{}, {kind} time {}", self.header.command.join(" "), human::time(whole));
        let mut text = format!(
            "digraph profile {{\n  label=\"{}\"; labelloc=t; fontname=\"sans-serif\";\n  \
             node [shape=box, style=filled, fontname=\"sans-serif\"];\n  \
             edge [fontname=\"sans-serif\"];\n",
            escaped(&title)
        );
        for (at, node) in graph.nodes.iter().enumerate().filter(|(at, _)| is_drawn(*at)) {
            let (own, all) = (node.own / whole, (total(at) / whole).min(1.0));
            let calls = node.calls + node.recursive;
            let calls = if calls == 0 {
                String::new()
            } else {
                format!("\\n{}×", human::count(calls as f64))
            };
            // From white to red by self time.
            let _ = writeln!(
                text,
                "  f{at} [label=\"{}\\n{} self, {} total{calls}\", fillcolor=\"0.0 {:.3} 1.0\"];",
                escaped(&node.name),
                human::percent(own),
                human::percent(all),
                own.clamp(0.0, 1.0).sqrt() * 0.8
            );
            if node.recursive > 0 {
                let _ = writeln!(
                    text,
                    "  f{at} -> f{at} [label=\"{}×\"];",
                    human::count(node.recursive as f64)
                );
            }
            for &(parent, calls, share) in &node.parents {
                let part = share * total(at) / whole;
                if is_drawn(parent) && part >= FAINTEST / 5.0 {
                    let _ = writeln!(
                        text,
                        "  f{parent} -> f{at} [label=\"{}\\n{}×\", penwidth={:.2}];",
                        human::percent(part.min(1.0)),
                        human::count(calls as f64),
                        0.5 + 4.0 * part.clamp(0.0, 1.0)
                    );
                }
            }
        }
        text + "}\n"
    }
}

/// Escapes text for quotes.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use crate::report::made_up::program;

    #[test]
    fn boxes_have_shares_and_arrows_have_calls() {
        let mut profile = program();
        profile.rename(|name| name.replace("parse", "parse(\"\\\")"));
        let text = profile.dot();
        let parse = "f1 [label=\"parse(\\\"\\\\\\\")\\n20.0% self, 50.0% total\\n100×\"";
        assert!(text.contains(parse), "{text}");
        assert!(text.contains("f1 -> f3 [label=\"30.0%\\n3.00M×\""), "{text}");
    }
}
