//! What Pyroscope and Parca are sent: profiles as pprof has them, compressed, with labels, in the
//! JSON of their services.
//!
//! ```text
//! Pyroscope  /push.v1.PusherService/Push   {"series":[{"labels":[{"name":…}],"samples":[{"rawProfile":…}]}]}
//! Parca      /profiles/writeraw            {"normalized":true,"series":[{"labels":{"labels":[…]},"samples":[…]}]}
//! ```
//!
//! As published: `push/v1/push.proto` of grafana/pyroscope, and
//! `parca/profilestore/v1alpha1/profilestore.proto` of parca-dev/parca.

use crate::rows::Source;
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use std::io::Write;

/// Profiles as Pyroscope's push service takes them.
pub fn pyroscope(sources: &[Source]) -> String {
    let series = sources.iter().map(|source| {
        let labels = labels(source, "service_name");
        json!({ "labels": labels, "samples": [{ "rawProfile": raw(source), "ID": "" }] })
    });
    json!({ "series": series.collect::<Vec<_>>() }).to_string()
}

/// Profiles as Parca's store takes them: functions are named already.
pub fn parca(sources: &[Source]) -> String {
    let series = sources.iter().map(|source| {
        let labels = labels(source, "job");
        json!({ "labels": { "labels": labels }, "samples": [{ "rawProfile": raw(source) }] })
    });
    json!({ "normalized": true, "series": series.collect::<Vec<_>>() }).to_string()
}

/// What a series is told apart by; both call the kind of profile `__name__`.
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
    // Memory is written to without failing.
    base64(&written.unwrap_or_default())
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | u32::from(*group.get(at).unwrap_or(&0)));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn base_64_is_as_the_rfc_has_it() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foobar", "Zm9vYmFy")] {
            assert_eq!(super::base64(bytes.as_bytes()), text);
        }
    }
}
