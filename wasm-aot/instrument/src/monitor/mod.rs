//! The built-in monitors: their table, and what each needs to observe.
//!
//! A monitor is chosen by its name, followed by options: `hotness,function=parse*,top=20`. It
//! declares the data that it needs, and the engine compiles code that collects them; at the end, or
//! on request, the monitor makes a [`Report`] of them. Monitors do not know of each other: two that
//! need the same data share them. Counts are made for all monitors together; a monitor that needs
//! values or time puts hooks of its own into the code (`HookedMonitor`).

mod alloc;
mod built_in;
mod constant;
mod context_table;
mod counted;
mod counted_callees;
mod coverage;
mod flame;
mod functions;
mod hooked;
mod kept;
mod latency;
mod listing;
mod loop_traces;
mod memory;
mod meter;
mod native;
mod one_shot;
mod options;
mod outline;
mod output;
mod paths;
mod profile;
mod report;
mod set;
mod sums;
mod trace;
mod tree;

pub(crate) use one_shot::OneShotProbes;
pub use options::{Choice, Choices, MonitorError, TOP};
pub use report::{CallPath, Cell, LateProfile, Report};
pub(crate) use report::{field, table};
pub use set::{AttachError, MonitorSet};

use hooked::HookedMonitor;
use std::sync::Arc;
use wasm_aot_engine::instrument::runtime::Counts;

/// A kind of monitor.
#[derive(Clone, Copy, Debug)]
pub struct MonitorKind {
    /// Its name.
    pub name: &'static str,
    /// What it reports.
    pub about: &'static str,
    /// The options that it has in addition to `function=GLOB` and `top=N`, as they are written:
    /// `zero`, `depth=N`, `dot[=FILE]`.
    pub options: &'static [(&'static str, &'static str)],
    source: Source,
}

/// What a monitor's reports are made of.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// Counts of edges, which all monitors that are made of them share.
    Counts {
        /// Whether it needs the targets of calls, see
        /// [`Config::call_targets`](wasm_aot_engine::Config::call_targets).
        call_targets: bool,
        report: fn(&Choice, &Counts) -> Report,
    },
    /// Hooks of its own.
    Hooks(fn(&Choice) -> Result<Arc<dyn HookedMonitor>, MonitorError>),
}

/// All monitors, in the order of their names.
pub const KINDS: &[MonitorKind] = &[
    MonitorKind {
        name: "alloc",
        about: "allocations by call site, and which of them are still live",
        options: &[("depth=N", "callers that make up a site (default 4)")],
        source: Source::Hooks(alloc::alloc_monitor),
    },
    MonitorKind {
        name: "blocks",
        about: "execution count of each basic block",
        options: &[("zero", "include blocks that were never executed")],
        source: Source::Counts { call_targets: false, report: counted::blocks },
    },
    MonitorKind {
        name: "branches",
        about: "how often each branch was taken / not taken",
        options: &[("zero", "include those that were never reached")],
        source: Source::Counts { call_targets: false, report: counted::branches },
    },
    MonitorKind {
        name: "calls",
        about: "calls by caller, call site and callee, also through tables and references",
        options: &[
            ("graph", "one row for each pair of caller and callee"),
            ("file=FILE", "a profile for `fastinst report`, `diff` and `merge`"),
        ],
        source: Source::Counts { call_targets: true, report: counted::calls },
    },
    MonitorKind {
        name: "const",
        about: "function arguments that are always the same",
        options: &[],
        source: Source::Hooks(constant::constant_monitor),
    },
    MonitorKind {
        name: "control-flow",
        about: "execution count of each CFG edge",
        options: &[("dot", "graphs in Graphviz format")],
        source: Source::Counts { call_targets: false, report: counted::edges },
    },
    MonitorKind {
        name: "coverage",
        about: "executed instructions and blocks of each function",
        options: &[("missed", "ranges that were not executed")],
        source: Source::Hooks(coverage::coverage_monitor),
    },
    MonitorKind {
        name: "functions",
        about: "calls and self time of each function",
        options: &[("file=FILE", "a profile for `fastinst report`, `diff` and `merge`")],
        source: Source::Hooks(functions::functions_monitor),
    },
    MonitorKind {
        name: "globals",
        about: "reads and writes of each global",
        options: &[],
        source: Source::Counts { call_targets: false, report: counted::globals },
    },
    MonitorKind {
        name: "hotness",
        about: "execution count of each instruction",
        options: &[
            ("code", "in code order, including instructions that were never executed"),
            ("listing", "the text of each called function with counts"),
        ],
        source: Source::Counts { call_targets: false, report: counted::hotness },
    },
    MonitorKind {
        name: "icount",
        about: "number of instructions and of executed instructions of each function",
        options: &[],
        source: Source::Counts { call_targets: false, report: counted::icount },
    },
    MonitorKind {
        name: "latency",
        about: "durations of calls with percentiles, sampled within a budget of CPU time",
        options: &[
            ("budget=PERCENT", "share of CPU time (default 1%)"),
            ("policy=NAME", "adaptive (the default), periodic, exact or count"),
            ("file=FILE", "a profile for `fastinst report`, `diff` and `merge`"),
        ],
        source: Source::Hooks(latency::latency_monitor),
    },
    MonitorKind {
        name: "loop-traces",
        about: "paths taken by the iterations of each loop",
        options: &[],
        source: Source::Hooks(loop_traces::loop_traces_monitor),
    },
    MonitorKind {
        name: "loops",
        about: "entries and iterations of each loop",
        options: &[("zero", "include those that were never reached")],
        source: Source::Counts { call_targets: false, report: counted::loops },
    },
    MonitorKind {
        name: "memory",
        about: "reads and writes of each page of memory",
        options: &[(
            "trace=FILE",
            "every access: function, offset, kind, memory, address, size, contents",
        )],
        source: Source::Hooks(memory::memory_monitor),
    },
    MonitorKind {
        name: "opcodes",
        about: "execution count of each opcode",
        options: &[],
        source: Source::Counts { call_targets: false, report: counted::opcodes },
    },
    MonitorKind {
        name: "profile",
        about: "calling context tree with counts and times",
        options: &[
            ("depth=N", "deeper frames are folded into their caller"),
            ("folded[=FILE]", "folded stacks with nanoseconds, for flame graph tools"),
            ("svg[=FILE]", "a flame graph"),
            ("pprof=FILE", "a profile in pprof format"),
            ("dot[=FILE]", "a graph in Graphviz format"),
            ("file=FILE", "a profile for `fastinst report`, `diff` and `merge`"),
            ("time-all", "time short calls, too"),
            ("contexts=N", "maximum number of contexts"),
        ],
        source: Source::Hooks(profile::profile_monitor),
    },
    MonitorKind {
        name: "trace",
        about: "every instruction with its operands, in order",
        options: &[
            ("calls", "calls and returns only, with arguments and results"),
            ("file=FILE", "output file, instead of stderr"),
            ("form=FORM", "text, csv or json: one line per event"),
        ],
        source: Source::Hooks(trace::trace_monitor),
    },
];

impl Choice {
    /// The report on some counts of a monitor that is made of counts.
    pub(crate) fn report_of(&self, counts: &Counts) -> Option<Report> {
        let Source::Counts { report, .. } = self.kind.source else { return None };
        let mut report = report(self, counts);
        report.shown = self.top();
        Some(report)
    }

    /// Whether it is made of counts, which can be attached to a program that runs.
    pub fn is_counted(&self) -> bool {
        matches!(self.kind.source, Source::Counts { .. })
    }

    /// Whether it needs the targets of calls, see
    /// [`Config::call_targets`](wasm_aot_engine::Config::call_targets).
    pub fn wants_call_targets(&self) -> bool {
        matches!(self.kind.source, Source::Counts { call_targets: true, .. })
    }
}
