//! Requests to Pyroscope and Parca: profiles in pprof's format, compressed, with labels, in the
//! JSON of their services.
//!
//! ```text
//! Pyroscope  /push.v1.PusherService/Push
//!     {"series":[{"labels":[{"name":…}],"samples":[{"rawProfile":…}]}]}
//! Parca      /profiles/writeraw
//!     {"normalized":true,"series":[{"labels":{"labels":[…]},"samples":[{"rawProfile":…}]}]}
//! ```
//!
//! The formats: `push/v1/push.proto` of grafana/pyroscope, and
//! `parca/profilestore/v1alpha1/profilestore.proto` of parca-dev/parca.

use crate::rows::Source;
use flate2::{Compression, write::GzEncoder};
use profiler::base64;
use serde_json::{Value, json};
use std::io::Write;

/// Profiles as Pyroscope's push service accepts them.
pub fn pyroscope(sources: &[Source]) -> String {
    let series = sources.iter().map(|source| {
        let labels = labels(source, "service_name");
        json!({ "labels": labels, "samples": [{ "rawProfile": raw(source), "ID": "" }] })
    });
    json!({ "series": series.collect::<Vec<_>>() }).to_string()
}

/// Profiles as Parca's store accepts them: with the functions' names.
pub fn parca(sources: &[Source]) -> String {
    let series = sources.iter().map(|source| {
        let labels = labels(source, "job");
        json!({ "labels": { "labels": labels }, "samples": [{ "rawProfile": raw(source) }] })
    });
    json!({ "normalized": true, "series": series.collect::<Vec<_>>() }).to_string()
}

/// The labels of a series; both servers call the kind of profile `__name__`.
fn labels(source: &Source, program: &str) -> Vec<Value> {
    let process = source.profile.header.process.to_string();
    let labels = [
        ("__name__", "process_cpu"),
        (program, source.program()),
        ("host", &source.host),
        ("process", &process),
    ];
    labels.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

/// The profile for pprof, compressed, in base 64.
fn raw(source: &Source) -> String {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    let written = gzip.write_all(&source.profile.pprof()).and_then(|()| gzip.finish());
    // Writes to memory do not fail.
    base64(&written.unwrap_or_default())
}
