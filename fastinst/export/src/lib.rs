//! Profiles for fleets: one table of many processes and machines, as a Parquet file for DuckDB,
//! ClickHouse, Spark or DataFusion, metrics for Prometheus, and requests to OpenTelemetry
//! collectors, Pyroscope and Parca.
//!
//! The crate reads nothing and merges nothing: each profile has rows of its own.
#![forbid(unsafe_code)]

mod native;
mod openmetrics;
mod otlp;
mod parquet;
mod push;
mod rows;

pub use native::native;
pub use openmetrics::openmetrics;
pub use otlp::otlp;
pub use parquet::parquet;
pub use push::{parca, pyroscope};
pub use rows::Source;
