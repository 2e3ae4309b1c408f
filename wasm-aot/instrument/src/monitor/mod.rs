//! Monitors: what people want to know of a running program, and what has to be observed for it.
//!
//! A monitor is chosen by its name, with options behind it: `hotness,function=parse*,top=20`. It
//! says what it needs, and the engine's code is made so that it is there; at the end, or when
//! somebody asks, it makes a [`Report`] of it. Monitors do not know of each other: two that need
//! the same share it. Counts are made for all monitors together; what needs values or time puts
//! hooks of its own into the code (`Hooked`).

mod alloc;
mod built_in;
mod constant;
mod counted;
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
pub use report::{Cell, Report};
pub(crate) use report::{field, table};
pub use set::{AttachError, MonitorSet};

use hooked::Hooked;
use std::sync::Arc;
use wasm_aot_engine::instrument::runtime::Counts;

/// A kind of monitor.
#[derive(Clone, Copy, Debug)]
pub struct MonitorKind {
    /// Its name.
    pub name: &'static str,
    /// What it tells.
    pub about: &'static str,
    /// The options that it has beside `function=GLOB` and `top=N`, as they are written: `zero`,
    /// `depth=N`, `dot[=FILE]`.
    pub options: &'static [(&'static str, &'static str)],
    source: Source,
}

/// What a monitor's reports are made of.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// Counts of edges, which all that are made of them share.
    Counts {
        /// Whether it wants to know where calls go, see
        /// [`Config::call_targets`](wasm_aot_engine::Config::call_targets).
        call_targets: bool,
        report: fn(&Choice, &Counts) -> Report,
    },
    /// Hooks of its own.
    Hooks(fn(&Choice) -> Result<Arc<dyn Hooked>, MonitorError>),
}

/// All monitors, in the order of their names.
pub const KINDS: &[MonitorKind] = &[
    MonitorKind {
        name: "alloc",
        about: "what is allocated, where, and what of it is still there",
        options: &[("depth=N", "how many callers a site consists of; 4 otherwise")],
        source: Source::Hooks(alloc::begin),
    },
    MonitorKind {
        name: "blocks",
        about: "how often each basic block was executed",
        options: &[("zero", "also those that never were")],
        source: Source::Counts { call_targets: false, report: counted::blocks },
    },
    MonitorKind {
        name: "branches",
        about: "how often each branch was taken / not taken",
        options: &[("zero", "also those that were never reached")],
        source: Source::Counts { call_targets: false, report: counted::branches },
    },
    MonitorKind {
        name: "calls",
        about: "who called whom, from where, how often; also through tables and references",
        options: &[
            ("graph", "one row for each pair of functions"),
            ("file=FILE", "as `fastinst report`, `diff` and `merge` read it"),
        ],
        source: Source::Counts { call_targets: true, report: counted::calls },
    },
    MonitorKind {
        name: "const",
        about: "which arguments of functions are always the same",
        options: &[],
        source: Source::Hooks(constant::begin),
    },
    MonitorKind {
        name: "control-flow",
        about: "execution count of each CFG edge",
        options: &[("dot", "graphs, as Graphviz reads them")],
        source: Source::Counts { call_targets: false, report: counted::edges },
    },
    MonitorKind {
        name: "coverage",
        about: "which instructions and blocks of each function were executed",
        options: &[("missed", "where what was not executed begins and ends")],
        source: Source::Hooks(coverage::begin),
    },
    MonitorKind {
        name: "functions",
        about: "how often each function was called, and how much time it has taken itself",
        options: &[("file=FILE", "as `fastinst report`, `diff` and `merge` read it")],
        source: Source::Hooks(functions::begin),
    },
    MonitorKind {
        name: "globals",
        about: "how often each global was read and written",
        options: &[],
        source: Source::Counts { call_targets: false, report: counted::globals },
    },
    MonitorKind {
        name: "hotness",
        about: "how often each instruction was executed",
        options: &[
            ("code", "in the order of the code, with those that never were"),
            ("listing", "the text of each function that was called, with counts beside it"),
        ],
        source: Source::Counts { call_targets: false, report: counted::hotness },
    },
    MonitorKind {
        name: "icount",
        about: "how many instructions each function has and has executed",
        options: &[],
        source: Source::Counts { call_targets: false, report: counted::icount },
    },
    MonitorKind {
        name: "latency",
        about: "how long calls take, with percentiles: a sample that costs a given share of processor time",
        options: &[
            ("budget=PERCENT", "of processor time; 1% otherwise"),
            ("policy=NAME", "adaptive, paper, exact or count"),
            ("file=FILE", "as `fastinst report`, `diff` and `merge` read it"),
        ],
        source: Source::Hooks(latency::begin),
    },
    MonitorKind {
        name: "loop-traces",
        about: "which paths the iterations of each loop took",
        options: &[],
        source: Source::Hooks(loop_traces::begin),
    },
    MonitorKind {
        name: "loops",
        about: "how often each loop was entered and repeated",
        options: &[("zero", "also those that were never reached")],
        source: Source::Counts { call_targets: false, report: counted::loops },
    },
    MonitorKind {
        name: "memory",
        about: "how often each page of memory was read and written",
        options: &[(
            "trace=FILE",
            "every access: function, offset, kind, memory, address, size, what is there then",
        )],
        source: Source::Hooks(memory::begin),
    },
    MonitorKind {
        name: "opcodes",
        about: "how often each kind of instruction was executed",
        options: &[],
        source: Source::Counts { call_targets: false, report: counted::opcodes },
    },
    MonitorKind {
        name: "profile",
        about: "who called whom, how often, and how long that took: the tree of calling contexts",
        options: &[
            ("depth=N", "deeper frames are folded into their caller"),
            ("folded[=FILE]", "stacks and nanoseconds, as tools for flame graphs read them"),
            ("svg[=FILE]", "a flame graph"),
            ("pprof=FILE", "as pprof reads it"),
            ("dot[=FILE]", "as Graphviz reads it"),
            ("file=FILE", "as `fastinst report`, `diff` and `merge` read it"),
            ("time-all", "short calls are timed, too"),
            ("contexts=N", "how many contexts there is memory for"),
        ],
        source: Source::Hooks(profile::begin),
    },
    MonitorKind {
        name: "trace",
        about: "every instruction with its operands, in order",
        options: &[
            ("calls", "calls and returns only, with arguments and results"),
            ("file=FILE", "where it goes, instead of stderr"),
            ("form=FORM", "text, csv or json: a line for each of them"),
        ],
        source: Source::Hooks(trace::begin),
    },
];

impl Choice {
    /// What a monitor that is made of counts says of some.
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

    /// Whether it wants to know where calls go, see
    /// [`Config::call_targets`](wasm_aot_engine::Config::call_targets).
    pub fn wants_call_targets(&self) -> bool {
        matches!(self.kind.source, Source::Counts { call_targets: true, .. })
    }
}
