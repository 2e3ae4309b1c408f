//! Merging: the profiles of several processes, added up function by function.

use crate::figure::Figure;
use crate::profile::{Function, Label, Module, Profile};
use std::collections::BTreeMap;

impl Profile {
    /// The sum of some profiles. Functions are the same that have the same name at the same place of the same file.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn merge(profiles: &[Self]) -> Self {
        let [first, rest @ ..] = profiles else { panic!("there is at least one profile to merge") };
        let mut merged = first.clone();
        for other in rest {
            merged.add(other);
        }
        for (number, function) in merged.functions.iter_mut().enumerate() {
            function.id = crate::FuncId(number as u32 + 1);
        }
        merged
    }

    fn add(&mut self, other: &Self) {
        let renumbered: Vec<u32> = other.modules.iter().map(|module| self.number_of(module)).collect();
        let relabel = |label: &Label| Label {
            module: label.module.and_then(|module| renumbered.get(module as usize).copied()),
            ..label.clone()
        };
        let mut known: BTreeMap<Label, usize> =
            self.functions.iter().enumerate().map(|(at, function)| (place(&function.label), at)).collect();
        for function in &other.functions {
            let mut function = function.clone();
            function.label = relabel(&function.label);
            for arc in &mut function.arcs {
                arc.caller = arc.caller.as_ref().map(relabel);
            }
            match known.get(&place(&function.label)) {
                Some(&at) => self.functions[at].add(&function),
                None => {
                    known.insert(place(&function.label), self.functions.len());
                    self.functions.push(function);
                }
            }
        }
        let (mine, theirs) = (&mut self.header, &other.header);
        mine.processes += theirs.processes;
        mine.processor += theirs.processor;
        mine.seconds = mine.seconds.max(theirs.seconds);
        mine.started = mine.started.min(theirs.started);
        mine.spent.probes = mine.spent.probes.max(theirs.spent.probes);
        mine.spent.toggles += theirs.spent.toggles;
        mine.spent.samples += theirs.spent.samples;
        mine.spent.switching += theirs.spent.switching;
        mine.spent.agent += theirs.spent.agent;
        mine.spent.lost += theirs.spent.lost;
        for note in &theirs.notes {
            if !mine.notes.contains(note) {
                mine.notes.push(note.clone());
            }
        }
    }

    fn number_of(&mut self, module: &Module) -> u32 {
        let at = self.modules.iter().position(|known| known == module).unwrap_or_else(|| {
            self.modules.push(module.clone());
            self.modules.len() - 1
        });
        at as u32
    }
}

/// What a function is the same by.
fn place(label: &Label) -> Label {
    Label { file: None, line: None, ..label.clone() }
}

impl Function {
    fn add(&mut self, other: &Self) {
        self.calls = self.calls.plus(&other.calls);
        self.samples += other.samples;
        self.lost += other.lost;
        self.min = least(self.min, other.min, f64::min);
        self.max = least(self.max, other.max, f64::max);
        self.total = sum(self.total, other.total);
        self.own = sum(self.own, other.own);
        let calls = self.calls.value;
        self.mean = self.total.filter(|_| calls > 0.0).map(|total| total.scaled(1.0 / calls));
        self.histogram.merge(&other.histogram);
        let (mine, theirs) = (self.samples as f64 - other.samples as f64, other.samples as f64);
        let all = (mine + theirs).max(1.0);
        self.arcs.iter_mut().for_each(|arc| arc.share *= mine / all);
        for arc in &other.arcs {
            let share = arc.share * theirs / all;
            match self.arcs.iter_mut().find(|known| known.site == arc.site && known.caller == arc.caller) {
                Some(known) => {
                    known.samples += arc.samples;
                    known.share += share;
                }
                None => self.arcs.push(crate::Arc { share, ..arc.clone() }),
            }
        }
        self.arcs.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.site.cmp(&b.site)));
    }
}

fn sum(a: Option<Figure>, b: Option<Figure>) -> Option<Figure> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.plus(&b)),
        (one, other) => one.or(other),
    }
}

fn least(a: Option<f64>, b: Option<f64>, choose: fn(f64, f64) -> f64) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(choose(a, b)),
        (one, other) => one.or(other),
    }
}
