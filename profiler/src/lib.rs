//! Profiles functions whose probes switch themselves off: samples, histograms, policies and
//! reports.
//!
//! The crate is pure: it uses no clock, thread or file. The owner of the probes passes observations
//! to a [`Controller`] (the sampling controller), which sets the probes' modes through a small
//! trait, [`Probes`]. At any time it returns a [`Profile`], plain data from which reports are made.
//!
//! ```
//! use profiler::{Clock, Controller, Costs, FuncId, Label, Mode, Policy, Probes, Sample, TableOptions, Ticks};
//!
//! struct Switches(Vec<(FuncId, Mode)>);
//! impl Probes for Switches {
//!     fn set(&mut self, function: FuncId, mode: Mode) {
//!         self.0.push((function, mode));
//!     }
//! }
//!
//! let clock = Clock { hz: 1e9, step: 1 };
//! let costs = Costs { pair: 18.0, bias: 9.0, count: 1.0, toggle: 180.0, skip: 2.0 };
//! let mut controller = Controller::new(Policy::Exact, clock, costs, 1, Ticks(0));
//! let mut switches = Switches(Vec::new());
//! controller.discovered(FuncId(1), 2);
//! controller.first(&mut switches);
//! assert!(matches!(switches.0[..], [(FuncId(1), Mode::Sample(_))]));
//!
//! controller.entered(FuncId(1), 3);
//! for ticks in [109, 209, 309] {
//!     controller.sample(&Sample { function: FuncId(1), call_site: 0, ticks, nested: 0, children: 0, outermost: true });
//! }
//! controller.tick(Ticks(1_000_000), &mut switches);
//! let mut profile = controller.profile(Ticks(2_000_000));
//! profile.label(|_| Label { name: "parse".to_owned(), ..Label::default() });
//! let function = &profile.functions[0];
//! assert_eq!((function.calls.value, function.mean.unwrap().value), (3.0, 200.0));
//! assert!(profile.table(&TableOptions::default()).contains("parse"));
//! ```
//!
//! - [`Policy`] selects which calls are timed; [`Mode`] is the behaviour of a function's probes.
//! - [`Histogram`] has buckets less than two per cent wide; [`Figure`] is a value that is either
//!   exact or has an interval.
//! - [`Profile::reconcile`] combines the evidence of probes and of a sampling clock into consistent
//!   figures; [`Profile::impossible`] checks them.
//! - [`simulation`] replays recorded traces against policies.
//! - Reports: a table, an HTML page, drawings, JSON, CSV, and other tools' formats; and
//!   [`Comparison`], of two sets of runs.
//!
//! The crate does not find or switch probes, and does not look up functions' names: its caller
//! passes them.

mod account;
mod arguments;
mod clock_evidence;
mod compare;
mod controller;
mod exemplars;
mod figure;
mod file;
mod histogram;
mod impossible;
mod merge;
mod mode;
mod notes;
mod null;
mod policy;
mod profile;
pub mod protobuf;
mod reconcile;
mod report;
pub mod simulation;
mod student;
mod timed;
mod unit;

pub use arguments::{ArgumentValue, Arguments};
pub use clock_evidence::{ClockEvidence, ClockFunction, ClockSource, ClockStack};
pub use compare::{Change, Compared, Comparison, Verdict};
pub use controller::{Controller, Counting, Sample, SummedCalls};
pub use exemplars::{Inner, Nesting, Slow};
pub use figure::{Figure, How, Mark};
pub use file::{FileError, Packing};
pub use histogram::{Histogram, LAST_BUCKET, bounds, bucket};
pub use impossible::{Contradiction, Impossible};
pub use mode::{Draw, Mode, Probes, Rest, Skip};
pub use policy::{NoPolicy, Policy};
pub use profile::{
    Arc, Callee, Exemplar, Function, Header, INLINED, Label, Module, Profile, Recorded, Span,
    Spent, Stack,
};
pub use report::human;
pub use report::{
    Grid, GridColumn, GridRow, HistogramOptions, NoFunction, Sort, StackFrame, StackSample,
    TableOptions, base64, width_of,
};
pub use timed::Timed;
pub use unit::{Clock, Costs, FuncId, Ticks};
