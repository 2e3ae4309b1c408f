//! How this machine handles code that is modified while it runs: the calibration command `tmax`,
//! and the test range that it and the storm tests use.
//!
//! ```
//! use tmax::storm::{Face, Outcome, Placement, Shape, Target};
//!
//! // Eight bytes of an immediate, three of them before a 32-byte boundary.
//! let target = Target::new(Shape::Immediate, Placement::Astride { boundary: 32, before: 3 })?;
//! assert_eq!(target.try_out(), Outcome::Old);
//! target.store_whole(Face::New);
//! assert_eq!(target.try_out(), Outcome::New);
//! # Ok::<(), wordpatch::os::OsError>(())
//! ```
//!
//! - [`storm`] is the range: targets, executers, adversaries, recipes, tallies.
//! - [`measure`] holds the five measurements; a [`Plan`] sets the amount of each, a [`Watch`] when
//!   to stop.
//! - [`Report`] combines them: JSON, a calibration; [`Summary`] shows it as tables, [`figure`] as a
//!   drawing.
//! - [`Args`] is the command line.
//!
//! It does not patch programs: that is `wordpatch`'s task, whose correct protocols are compared
//! here with wrong ones. And it proves nothing: a failure that was not observed is only rarer than
//! three in the number of toggles that the report gives.

mod cli;
pub mod command;
pub mod figure;
mod findings;
pub mod interrupt;
pub mod measure;
mod plan;
mod report;
pub mod statistics;
mod stopwatch;
pub mod storm;
mod summary;
mod svg;
pub mod table;
mod watch;

pub use cli::Args;
pub use findings::Finding;
pub use plan::Plan;
pub use report::{Place, Report, Row};
pub use summary::Summary;
pub use watch::{Failure, Watch};
