//! Measures how this machine handles code that is modified while it runs: the calibration command
//! `tmax`, and the test range that it and the storm tests use.
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
//! - [`storm`] has storms: targets, executing threads, adversaries, protocols, counts.
//! - [`measure`] holds the five measurements; a [`Plan`] sets the time of each, a [`Watch`] stops
//!   them.
//! - [`Report`] combines them: JSON, a calibration; [`Summary`] shows it as tables, [`figure`] as a
//!   drawing.
//! - [`Args`] is the command line.
//!
//! The crate does not patch programs: `wordpatch` does, whose correct protocols are compared here
//! with wrong ones. Its results are no proof: a failure that was not observed is only rarer than
//! three in the reported number of toggles.

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
