//! Findings of a rewrite, reported at its end.

use crate::diagnostic::{Diagnostics, Kind};
use crate::events::Event;
use crate::hir::Probe;
use std::collections::{BTreeMap, BTreeSet};

/// The findings.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Rules that matched somewhere.
    pub(crate) matched: BTreeSet<u32>,
    /// How often each instruction occurs in the program, by its index in the table.
    pub(crate) present: BTreeMap<usize, u32>,
    /// Metadata of the program that the rewriter could not keep correct.
    pub(crate) lost: Vec<String>,
}

impl Findings {
    /// Reports lost metadata, and rules that matched nothing.
    pub(crate) fn tell(&mut self, probes: &[Probe], said: &mut Diagnostics) {
        for lost in self.lost.drain(..) {
            said.push(Kind::ProbeWarning, None, lost);
        }
        let mut rules: BTreeMap<u32, Vec<&Probe>> = BTreeMap::new();
        for probe in
            probes.iter().filter(|p| p.matched.event.has_sites() && !self.matched.contains(&p.rule))
        {
            rules.entry(probe.rule).or_default().push(probe);
        }
        for probes in rules.values() {
            let message = "this rule matches nothing in the program";
            said.push_help(
                Kind::ProbeWarning,
                Some(probes[0].span),
                message,
                self.near_misses(probes),
            );
        }
    }

    /// Finds the events of the program that are nearest to rules without matches.
    fn near_misses(&self, probes: &[&Probe]) -> String {
        let mut meant: Vec<_> = probes
            .iter()
            .filter_map(|p| if let Event::Opcode(op) = p.matched.event { Some(op) } else { None })
            .collect();
        meant.dedup_by_key(|op| op.index);
        let count: u32 = meant.iter().filter_map(|op| self.present.get(&op.index)).sum();
        if count > 0 || meant.is_empty() {
            let bounded = probes.iter().any(|p| !p.body.declared.is_empty());
            let what = match (probes.iter().any(|p| p.body.predicate.is_some()), bounded) {
                (true, true) => "the predicate and the type bounds exclude",
                (false, true) => "the type bounds exclude",
                (true, false) => "the predicate excludes",
                (false, false) => "what the body asks for excludes",
            };
            let these = match count {
                0 => "all places".into(),
                1 => "its only such instruction".into(),
                _ => format!("all of its {count} such instructions"),
            };
            return format!("{what} {these}");
        }
        let names = || self.present.keys().map(|&index| crate::events::instructions()[index].name);
        match crate::rule::nearest(meant[0].name, names())[..] {
            [] => "the program has no such instruction".into(),
            ref near => format!("the program has no such instruction; it has {}", near.join(", ")),
        }
    }
}
