//! Files that are no profiles, and yet are given as profiles: mostly what `fastinst report` has
//! written for other tools. The error says what the file is, so that a user sees which file was
//! meant.

use serde::de::IgnoredAny;
use std::collections::BTreeMap;

/// How other files begin, and what they are.
const BEGINNINGS: [(&[u8], &str); 22] = [
    (b"\x7fELF", "a program or library: `fastinst run` profiles it"),
    (b"\0asm", "a WebAssembly module"),
    (b"fi-trace", "a recorded run of `wasm-aot record`"),
    (b"PERFILE2", "a recording of perf"),
    (b"gmon", "a profile for gprof"),
    (b"\x1f\x8b", "compressed: gunzip it first, or it is a profile for pprof"),
    (b"\x28\xb5\x2f\xfd", "compressed: unzstd it first"),
    (b"PAR1", "Parquet (fastinst export)"),
    (b"# TYPE ", "OpenMetrics (fastinst export)"),
    // The first sample type, of an entry in the table of strings.
    (b"\x0a\x04\x08", "a profile for pprof (--format pprof)"),
    (b"\x0a\x02\x08", "a profile for pprof (--format pprof)"),
    (b"function,module,", "CSV (--format csv)"),
    (b"Flat profile:", "text in gprof's format (--format gprof)"),
    (b"# callgrind format", "in callgrind's format (--format callgrind)"),
    (b"digraph ", "a graph for Graphviz (--format dot)"),
    (b"<!DOCTYPE html", "an HTML page (--format html)"),
    (b"<html", "an HTML page"),
    (b"<svg", "a picture (--format svg)"),
    (b"<?xml", "XML"),
    (b"self %", "a table (--format table)"),
    (b"#!", "a script"),
    (b"(module", "a WebAssembly module as text"),
];

/// The keys by which JSON files differ.
const KEYS: [(&str, &str); 6] = [
    ("traceEvents", "a timeline for Perfetto (--format trace)"),
    ("$schema", "a profile for speedscope (--format speedscope)"),
    ("threads", "a profile for the Firefox Profiler (--format firefox)"),
    ("elsewhere", "its JSON form (--format json), which cannot be read back"),
    ("compared", "a comparison by `fastinst diff --json`"),
    ("findings", "the findings of `fastinst doctor --json`"),
];

/// What a file is that is no profile.
pub(super) fn kind(bytes: &[u8]) -> &'static str {
    let text = bytes.trim_ascii_start();
    let begins = |beginning: &[u8]| bytes.starts_with(beginning) || text.starts_with(beginning);
    if text.is_empty() {
        return "an empty file";
    }
    if let Some((_, kind)) = BEGINNINGS.iter().find(|(beginning, _)| begins(beginning)) {
        return kind;
    }
    match text[0] {
        b'{' => of_json(bytes).unwrap_or("text"),
        _ if bytes.contains(&0) || std::str::from_utf8(bytes).is_err() => "in an unknown format",
        _ if is_folded(text) => "folded stacks (--format folded)",
        _ => "text",
    }
}

/// What a JSON object is, by its keys; `None` if it is no JSON.
fn of_json(bytes: &[u8]) -> Option<&'static str> {
    let object: BTreeMap<String, IgnoredAny> = serde_json::from_slice(bytes).ok()?;
    let known = KEYS.iter().find(|(key, _)| object.contains_key(*key));
    Some(known.map_or("other JSON", |(_, kind)| kind))
}

/// Whether the first line is a stack and a number.
fn is_folded(text: &[u8]) -> bool {
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let number = line.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    number.len() < line.len() && !number.is_empty() && number.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_as_what_it_is() {
        for (bytes, named) in [
            (&b""[..], "an empty file"),
            (b" \n", "an empty file"),
            (b"hello\n", "text"),
            (b"{\"a\": 1", "text"),
            (b"{\"a\": 1}", "other JSON"),
            (b"{\"traceEvents\": []}", "Perfetto"),
            (b"main;work 12\nmain 3\n", "folded stacks"),
            (b"\n <svg xmlns=", "a picture"),
            (b"\xff\xfe\0", "unknown format"),
            (b"[[[[", "text"),
        ] {
            assert!(kind(bytes).contains(named), "{bytes:?}: {}", kind(bytes));
        }
    }
}
