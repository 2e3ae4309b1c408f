//! Profiles for fleets: one table of many processes and machines, as a Parquet file that DuckDB,
//! ClickHouse, Spark or DataFusion query, metrics that Prometheus scrapes, and what OpenTelemetry
//! collectors, Pyroscope and Parca are sent.
//!
//! Nothing is read here, and nothing is merged: each profile stays a set of rows of its own.
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
