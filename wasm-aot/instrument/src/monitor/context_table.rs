//! The contexts that `profile` has counted and timed, as its report shows them.

use super::meter::shown;
use super::report::{CallPath, Cell, Paths, Report};
use super::tree::{BEYOND, Context, Sum};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use wasm_aot_body::report::several;
use wasm_aot_engine::instrument::runtime::{Module, Places};

/// How many functions of a call path are named.
const WAY: usize = 64;

/// The names of functions, and their files and lines where they are known.
#[derive(Debug)]
pub(super) struct Labels(HashMap<u32, (String, String)>);

impl Labels {
    /// Those of the functions in a sum.
    pub(super) fn of(module: &Module, sum: &Sum) -> Self {
        let places = Places::of(module);
        let mut labels = HashMap::new();
        for &Context { function, .. } in &sum.contexts {
            labels.entry(function).or_insert_with(|| match function {
                BEYOND => ("[contexts beyond memory]".to_owned(), String::new()),
                _ => (module.inner().label(function), places.of_function(function)),
            });
        }
        Self(labels)
    }

    pub(super) fn name(&self, function: u32) -> &str {
        self.0.get(&function).map_or("", |(name, _)| name)
    }

    pub(super) fn source(&self, function: u32) -> &str {
        self.0.get(&function).map_or("", |(_, source)| source)
    }
}

/// A sum, and the data for showing it.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) sum: Sum,
    pub(super) total: Vec<u64>,
    /// All contexts except the outside, as they are shown: each followed by its callees.
    pub(super) order: Vec<usize>,
    pub(super) hz: f64,
    /// The cost of a reading of the clock, in ticks; it is subtracted.
    pub(super) reading: u64,
    pub(super) labels: Arc<Labels>,
}

impl Paths for Table {
    fn path(&self, context: usize) -> String {
        self.way(context, WAY)
    }
}

impl Table {
    /// Of a sum.
    pub(super) fn new(sum: Sum, hz: f64, reading: u64, labels: Arc<Labels>) -> Self {
        let mut total = sum.totals();
        let order = sum.in_order(&total);
        // Time outside of all functions belongs to no function.
        total[0] -= sum.contexts[0].own;
        Self { sum, total, order, hz, reading, labels }
    }

    /// Nanoseconds of ticks.
    pub(super) fn nanoseconds(&self, ticks: u64) -> u64 {
        (ticks as f64 / self.hz * 1e9).round() as u64
    }

    /// The functions on the path to a context, the outermost first; of a long path, the last ones.
    pub(super) fn way(&self, context: usize, most: usize) -> String {
        let functions = self.sum.way(context, most);
        let is_whole = functions.len() == self.sum.contexts[context].depth as usize;
        let name = |function| self.labels.name(function).replace(';', ":");
        let names: Vec<String> = functions.into_iter().map(name).collect();
        format!("{}{}", if is_whole { "" } else { "…;" }, names.join(";"))
    }

    /// How many calls were timed.
    pub(super) fn timed(&self) -> u64 {
        self.sum.contexts.iter().map(|context| context.timed).sum()
    }

    /// Whether nothing is known of a context's time.
    fn is_untimed(&self, at: usize) -> bool {
        self.sum.contexts[at].is_counted && self.sum.contexts[at].own == 0
    }

    /// The report, with a row for each context.
    pub(super) fn report(self: &Arc<Self>) -> Report {
        let mut report = Report::new(
            "profile",
            &["depth", "function", "calls", "self ns", "total ns", "share", "way", "source"],
        );
        for &i in &self.order {
            let context = &self.sum.contexts[i];
            let way = CallPath::new(Arc::<Self>::clone(self), i);
            let time = |ticks: u64, is_known: bool| match is_known {
                true => Cell::from(self.nanoseconds(ticks)),
                false => Cell::from(""),
            };
            let (has_own, has_total) = (!self.is_untimed(i), self.has_total(i));
            report.row([
                context.depth.into(),
                Cell::Function {
                    name: self.labels.name(context.function).to_owned(),
                    index: context.function,
                },
                context.calls.into(),
                time(context.own, has_own),
                time(self.total[i], has_total),
                Cell::share(self.total[i], self.total[0]),
                Cell::Path(way),
                self.labels.source(context.function).into(),
            ]);
        }
        let calls: u64 = self.sum.contexts.iter().map(|context| context.calls).sum();
        let contexts = self.sum.contexts.len() - 1;
        report.total([
            ("calls", calls),
            ("contexts", contexts as u64),
            ("nanoseconds", self.nanoseconds(self.total[0])),
        ]);
        report.notes.push(format!(
            "{} in {}, {}",
            several(calls, "call"),
            several(contexts as u64, "context"),
            shown(self.total[0] as f64 / self.hz)
        ));
        let timed = self.timed();
        let (reading, all) = (self.reading as f64 / self.hz, 2.0 * timed as f64);
        report.notes.push(format!(
            "{} timed; reading the clock takes {}, {} in all, which is subtracted",
            several(timed, "call"),
            shown(reading),
            shown(reading * all)
        ));
        if self.sum.contexts.iter().any(|context| context.is_counted) {
            report.notes.push(
                "* counted and not timed, as timing would take too large a part (time-all times \
                 all): its time is its caller's self time"
                    .to_owned(),
            );
        }
        report
    }

    /// Whether the time of a context or of its callees is known.
    fn has_total(&self, at: usize) -> bool {
        !self.is_untimed(at) || self.total[at] > 0
    }

    /// For people: a line for each context, indented below its caller's.
    pub(super) fn text(&self, report: &Report, top: Option<usize>) -> String {
        let order = &self.order;
        let shown_rows = top.unwrap_or(usize::MAX).min(order.len());
        let mut out = format!(
            "== profile ==\n{:>12} {:>12} {:>7} {:>12}  function\n",
            "total", "self", "share", "calls"
        );
        for i in &order[..shown_rows] {
            let context = &self.sum.contexts[*i];
            let time = |ticks: u64, is_known: bool| match is_known {
                true => shown(ticks as f64 / self.hz),
                false => "-".to_owned(),
            };
            let mark = if context.is_counted { " *" } else { "" };
            let share = if self.total[0] == 0 {
                0.0
            } else {
                self.total[*i] as f64 / self.total[0] as f64 * 100.0
            };
            let indent = "  ".repeat((context.depth as usize - 1).min(40));
            let (total, own) =
                (time(self.total[*i], self.has_total(*i)), time(context.own, !self.is_untimed(*i)));
            let (calls, name) = (context.calls, self.labels.name(context.function));
            let _ = writeln!(
                out,
                "{total:>12} {own:>12} {share:>6.1}% {calls:>12}  {indent}{name}{mark}"
            );
        }
        if shown_rows < order.len() {
            let _ = writeln!(out, "… and {} more (top=all shows them)", order.len() - shown_rows);
        }
        report.notes.iter().for_each(|note| out.extend([note, "\n"]));
        out
    }
}
