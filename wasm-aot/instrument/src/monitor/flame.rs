//! Profiles in formats of other tools: folded stacks, flame graphs, pprof, Graphviz.

use super::context_table::Table;
use super::kept::Run;
use profiler::protobuf::{Message, Strings};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// The maximal depth of written stacks: deeper frames are folded into their caller.
pub(super) const DEEPEST: u32 = 256;

/// The format of a written profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Folded,
    Svg,
    Pprof,
    Dot,
    File,
}

impl Form {
    pub(super) const ALL: [Self; 5] = [Self::Folded, Self::Svg, Self::Pprof, Self::Dot, Self::File];

    /// The option that asks for it.
    pub(super) fn option(self) -> &'static str {
        match self {
            Self::Folded => "folded",
            Self::Svg => "svg",
            Self::Pprof => "pprof",
            Self::Dot => "dot",
            Self::File => "file",
        }
    }
}

impl Table {
    /// The profile of a run in a form.
    pub(super) fn drawn(&self, form: Form, run: &Run) -> Vec<u8> {
        let sum = self.sum.cut(DEEPEST);
        let table = Table::new(sum, self.hz, self.reading, Arc::clone(&self.labels));
        match form {
            Form::Folded => table.folded().into_bytes(),
            Form::Svg => table.profile(run).svg().into_bytes(),
            Form::Pprof => table.pprof(),
            Form::Dot => table.dot().into_bytes(),
            // Counts of deeper frames are as exact.
            Form::File => self.kept(run),
        }
    }

    /// A line for each context: its frames, and nanoseconds.
    fn folded(&self) -> String {
        let mut out = String::new();
        for &i in &self.order {
            let _ = writeln!(
                out,
                "{} {}",
                self.way(i, usize::MAX),
                self.nanoseconds(self.sum.contexts[i].own)
            );
        }
        out
    }

    fn dot(&self) -> String {
        let mut out = String::from("digraph profile {\n  node [shape=box];\n");
        for &i in &self.order {
            let context = &self.sum.contexts[i];
            let name =
                self.labels.name(context.function).replace('\\', "\\\\").replace('"', "\\\"");
            let share = if self.total[0] == 0 {
                0.0
            } else {
                self.total[i] as f64 / self.total[0] as f64 * 100.0
            };
            let (own, total) = (self.nanoseconds(context.own), self.nanoseconds(self.total[i]));
            let _ = writeln!(
                out,
                "  n{i} [label=\"{name}\\n{total} ns ({share:.1}%), {own} ns itself\"];"
            );
            if context.parent != 0 {
                let _ =
                    writeln!(out, "  n{} -> n{i} [label=\"{}\"];", context.parent, context.calls);
            }
        }
        out.push_str("}\n");
        out
    }

    /// As pprof reads it: calls and nanoseconds of each context.
    fn pprof(&self) -> Vec<u8> {
        let mut names = Strings::default();
        let mut profile = Message::default();
        for (kind, unit) in [("calls", "count"), ("time", "nanoseconds")] {
            let mut value = Message::default();
            value.number(1, names.number(kind));
            value.number(2, names.number(unit));
            profile.message(1, &value);
        }
        let mut functions: HashMap<u32, u64> = HashMap::new();
        for &i in &self.order {
            let context = &self.sum.contexts[i];
            let next = functions.len() as u64 + 1;
            functions.entry(context.function).or_insert(next);
            let mut sample = Message::default();
            // The innermost first. Locations have the numbers of their functions.
            sample.packed(
                1,
                self.sum.way(i, usize::MAX).iter().rev().map(|function| functions[function]),
            );
            sample.packed(2, [context.calls, self.nanoseconds(context.own)]);
            profile.message(2, &sample);
        }
        for (function, id) in &functions {
            let (mut line, mut location, mut named) =
                (Message::default(), Message::default(), Message::default());
            line.number(1, *id);
            location.number(1, *id);
            location.message(4, &line);
            profile.message(4, &location);
            named.number(1, *id);
            named.number(2, names.number(self.labels.name(*function)));
            profile.message(5, &named);
        }
        names.write(6, &mut profile);
        profile.finish()
    }
}
