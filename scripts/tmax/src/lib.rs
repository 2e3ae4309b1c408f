//! draft
pub mod measure;
mod plan;
pub mod statistics;
mod stopwatch;
pub mod storm;
mod watch;
pub use plan::Plan;
pub use watch::{Failure, Watch};
