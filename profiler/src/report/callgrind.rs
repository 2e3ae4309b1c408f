//! Callgrind's format, for KCachegrind, callgrind_annotate and other readers: functions with their
//! self times, and calls with their time in the callee.
//!
//! Costs are nanoseconds of CPU time. Each name is written once; later occurrences are numbers.

use super::call_graph::Graph;
use super::human::printable;
use crate::profile::{Label, Profile};
use std::collections::HashMap;
use std::fmt::Write;

impl Profile {
    /// The profile in callgrind's format.
    pub fn callgrind(&self) -> String {
        let graph = Graph::of(self);
        let mut names = Names::default();
        let whole: f64 = graph.nodes.iter().map(|node| node.own.round()).sum();
        let mut text = format!(
            "# callgrind format\nversion: 1\ncreator: fastinst\npid: {}\ncmd: {}\npositions: line\n\
             event: ns : {} time in ns\nevents: ns\nsummary: {whole:.0}\n",
            self.header.process,
            self.header.command.join(" ").replace('\n', " "),
            self.header.kind_of_time(),
        );
        for (at, node) in graph.nodes.iter().enumerate() {
            let line = self.position(at, &node.name, "", &mut names, &mut text);
            let _ = writeln!(text, "{line} {:.0}", node.own);
            if node.recursive > 0 {
                let _ = self.position(at, &node.name, "c", &mut names, &mut text);
                let _ = writeln!(text, "calls={} {line}\n{line} 0", node.recursive);
            }
            for &callee in &node.callees {
                let called = &graph.nodes[callee];
                let arc = called.parents.iter().find(|(parent, ..)| *parent == at);
                let Some(&(_, calls, share)) = arc.filter(|(_, calls, _)| *calls > 0) else {
                    continue;
                };
                let to = self.position(callee, &called.name, "c", &mut names, &mut text);
                let time = share * (called.own + called.children);
                let _ = writeln!(text, "calls={calls} {to}\n{line} {time:.0}");
            }
        }
        text
    }

    /// Writes which function the next lines belong to, or, with `c` in front, which function is
    /// called; returns its line.
    fn position(
        &self,
        at: usize,
        name: &str,
        side: &str,
        names: &mut Names,
        text: &mut String,
    ) -> u32 {
        let nowhere = Label::default();
        let label = self.functions.get(at).map_or(&nowhere, |function| &function.label);
        let module = label.module.and_then(|module| self.modules.get(module as usize));
        let object = printable(module.map_or("???", |module| &module.path));
        let file = label.file.as_deref().unwrap_or("???");
        let file_key = if side.is_empty() { "fl" } else { "cfi" };
        let _ = writeln!(text, "\n{side}ob={}", names.of("ob", &object, None));
        let _ = writeln!(text, "{file_key}={}", names.of("fl", file, None));
        let _ = writeln!(text, "{side}fn={}", names.of("fn", name, Some(at)));
        label.line.unwrap_or(0)
    }
}

/// The numbers of names that were written before. Functions with the same name are different.
#[derive(Debug, Default)]
struct Names(HashMap<(&'static str, String, Option<usize>), usize>);

impl Names {
    fn of(&mut self, kind: &'static str, name: &str, which: Option<usize>) -> String {
        let (next, key) = (self.0.len() + 1, (kind, name.to_owned(), which));
        match self.0.get(&key) {
            Some(number) => format!("({number})"),
            None => {
                self.0.insert(key, next);
                format!("({next}) {}", name.replace('\n', " "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::report::made_up::program;

    #[test]
    fn costs_sum_to_the_cpu_time_and_a_call_has_what_it_took() {
        let text = program().callgrind();
        assert!(text.contains("summary: 1000000000\n"), "{text}");
        let call = "calls=3000000 0\n0 300000000\n";
        let names = text.matches(" hash\n").count();
        assert!(text.contains(call) && names == 1, "{text}");
    }
}
