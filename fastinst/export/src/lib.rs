//! Exports profiles of fleets: one table of many processes and machines, as a Parquet file for
//! DuckDB, ClickHouse, Spark or DataFusion, metrics for Prometheus, and requests to OpenTelemetry
//! collectors, Pyroscope and Parca.
//!
//! The crate reads no files and merges no profiles: each profile has its own rows.
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
