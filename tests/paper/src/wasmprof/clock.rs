//! The cost of one reading of the clock for a program in an engine, which bounds the cost of timing
//! calls.

use super::failed;
use crate::corpus::CorpusError;
use crate::engine::peer::{self, Peer, Subject};
use crate::engine::tools::Tools;
use crate::report::{Report, Row};
use crate::sample::Blocks;
use std::collections::BTreeMap;

const READINGS: u64 = 1_000_000;

const READS: &str = r#"(module
    (import "wasi_snapshot_preview1" "clock_time_get"
        (func $clock (param i32 i64 i32) (result i32)))
    (memory (export "memory") 1)
    (func (export "_start") (local $left i32)
        (local.set $left (i32.const READINGS))
        (loop $next
            (if (call $clock (i32.const 1) (i64.const 0) (i32.const 16)) (then (unreachable)))
            (br_if $next (local.tee $left (i32.sub (local.get $left) (i32.const 1)))))))"#;

/// The CPU time of a reading in nanoseconds, by engine.
pub(super) fn measure(
    tools: &Tools,
    engines: &[Peer],
    report: &mut Report,
) -> Result<BTreeMap<&'static str, f64>, CorpusError> {
    let bytes = wat::parse_str(READS.replace("READINGS", &READINGS.to_string()))
        .map_err(|error| failed("the program that reads the clock", &error))?;
    let module = tools.folder().join("clock.wasm");
    std::fs::write(&module, bytes).map_err(CorpusError::io("clock.wasm"))?;
    let subject = Subject::new("clock", module);
    let mut all = BTreeMap::new();
    for engine in engines {
        if *engine != Peer::Node {
            peer::compile(tools, *engine, &subject)?;
        }
        let times = (0..5).map(|_| Ok(peer::run(tools, *engine, &subject)?.0.cpu));
        let times = times.collect::<Result<Vec<_>, CorpusError>>()?;
        let each = Blocks::of(times).median(0.0) / READINGS as f64;
        report.rows.push(Row::plain(format!("clock@{}", engine.name()), each, "ns", READINGS));
        all.insert(engine.name(), each);
    }
    Ok(all)
}
