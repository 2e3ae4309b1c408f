//! Monitors: what people want to know of a running program, and what has to be observed for it.
//!
//! A monitor is chosen by its name, with options behind it: `hotness,function=parse*,top=20`. It says what it needs, and the engine's code is made so
//! that it is there; at the end, or when somebody asks, it makes a [`Report`] of it. Monitors do not know of each other: two that
//! need the same share it.

mod counted;
mod options;
mod report;

pub use options::{Choice, Choices, MonitorError};
pub use report::{Cell, Report};

use crate::runtime::{Counts, Module};

/// A kind of monitor.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// What it tells.
    pub about: &'static str,
    /// The options that it has beside `function=GLOB` and `top=N`.
    pub options: &'static [(&'static str, &'static str)],
    /// Whether it wants to know where calls go, see [`Config::call_targets`](crate::Config::call_targets).
    pub call_targets: bool,
    report: fn(&Choice, &Counts) -> Report,
}

/// All monitors, in the order of their names.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "blocks",
        about: "how often each basic block was executed",
        options: &[("zero", "also those that never were")],
        call_targets: false,
        report: counted::blocks,
    },
    Kind {
        name: "branches",
        about: "how often each way of each branch was gone",
        options: &[("zero", "also those that were never reached")],
        call_targets: false,
        report: counted::branches,
    },
    Kind {
        name: "calls",
        about: "who called whom, from where, how often; also through tables and references",
        options: &[("graph", "one row for each pair of functions")],
        call_targets: true,
        report: counted::calls,
    },
    Kind {
        name: "control-flow",
        about: "how often each edge of each function's graph was gone",
        options: &[],
        call_targets: false,
        report: counted::edges,
    },
    Kind {
        name: "coverage",
        about: "which instructions and blocks of each function were executed",
        options: &[("missed", "where what was not executed begins and ends")],
        call_targets: false,
        report: counted::coverage,
    },
    Kind {
        name: "globals",
        about: "how often each global was read and written",
        options: &[],
        call_targets: false,
        report: counted::globals,
    },
    Kind {
        name: "hotness",
        about: "how often each instruction was executed",
        options: &[("code", "in the order of the code, with those that never were")],
        call_targets: false,
        report: counted::hotness,
    },
    Kind {
        name: "icount",
        about: "how many instructions each function has and has executed",
        options: &[],
        call_targets: false,
        report: counted::icount,
    },
    Kind {
        name: "loops",
        about: "how often each loop was entered and repeated",
        options: &[("zero", "also those that were never reached")],
        call_targets: false,
        report: counted::loops,
    },
    Kind {
        name: "opcodes",
        about: "how often each kind of instruction was executed",
        options: &[],
        call_targets: false,
        report: counted::opcodes,
    },
];

impl Choice {
    /// What there is to say of what the module's instances have done so far. Nothing if nobody counted, see [`Module::counts`].
    pub fn report(&self, module: &Module) -> Option<Report> {
        let counts = module.counts()?;
        let mut report = (self.kind.report)(self, &counts);
        report.shown = self.top();
        Some(report)
    }
}
