//! Profiles for fleets: one table of many processes and machines, as a Parquet file that DuckDB,
//! ClickHouse, Spark or DataFusion query, and text that Prometheus scrapes.
//!
//! Nothing is read here, and nothing is merged: each profile stays a set of rows of its own.
#![forbid(unsafe_code)]

mod openmetrics;
mod parquet;
mod rows;

pub use openmetrics::openmetrics;
pub use parquet::parquet;
pub use rows::Source;
