//! Compares the engine with others (`engine`): compiling, starting, running, memory and code size.
//!
//! Each round runs every program once in every engine, one after the other, each in a process of
//! its own; a ratio compares two runs of the same round. A program's output must be the same in all
//! engines.
//!
//! | row | what is compared |
//! |---|---|
//! | `P/run` | the CPU time of the program, and the same in wasmtime |
//! | `P/run@no-spectre`, `P/run@node`, `P/run@wasm2c` | the engine without mitigations, and other engines, each beside wasmtime |
//! | `P/compile`, `P/compile_wall` | from the module's bytes to those of machine code: by CPU time, and by the wall clock |
//! | `P/start`, `P/start_cpu` | from the compiled file's name to the program's first instruction: by the wall clock, and by CPU time |
//! | `P/memory` | the growth of the process since before the compiled file is loaded |
//! | `P/size`, `P/file` | bytes of machine code, and of the compiled file |
//! | `hello/…`, `large/…` | the same of the smallest program and of a module of ten megabytes |
//! | `geomean/…`, `worst/…` | over the programs: the means of each round, and the program whose median is worst |

mod first_piece;
mod large;
mod observed;
pub(crate) mod peer;
pub(crate) mod program;
mod rust;
mod start;
pub(crate) mod tools;
mod wasm_aot;

pub(crate) use wasm_aot::{Act, Figures, Making, act};

use crate::corpus::{Corpus, CorpusError};
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use crate::selection::Selection;
use peer::{Peer, Subject};
use program::Kind;
use std::collections::BTreeMap;
use std::error::Error;
use tools::Tools;

/// One program's runs.
#[derive(Debug)]
struct Series {
    subject: Subject,
    kind: Kind,
    /// The values, round by round.
    compiled: BTreeMap<Peer, Vec<Figures>>,
    run: BTreeMap<Peer, Vec<Figures>>,
    expected: Option<Vec<u8>>,
    /// The engines that cannot run it, with the reasons.
    unable: BTreeMap<Peer, CorpusError>,
}

type Figure = fn(&Figures) -> u64;

/// The row, the subject, the figure, whether it is a figure of compiling, the unit. The baseline is
/// wasmtime.
const RATIOS: [(&str, Peer, Figure, bool, &str); 9] = [
    ("run", Peer::WasmAot, |run| run.cpu, false, "us"),
    ("run@no-spectre", Peer::NoSpectre, |run| run.cpu, false, "us"),
    ("run@node", Peer::Node, |run| run.cpu, false, "us"),
    ("run@wasm2c", Peer::Wasm2c, |run| run.cpu, false, "us"),
    ("compile", Peer::WasmAot, |made| made.cpu, true, "us"),
    ("compile_wall", Peer::WasmAot, |made| made.wall, true, "us"),
    ("start", Peer::WasmAot, |run| run.start, false, "us"),
    ("start_cpu", Peer::WasmAot, |run| run.start_cpu, false, "us"),
    ("memory", Peer::WasmAot, |run| run.memory, false, "kB"),
];

pub(crate) fn measure(quick: bool, only: &[String], peers: bool) -> Result<Report, Box<dyn Error>> {
    let candidates = program::candidates();
    let beginnings = [program::hello().name(), large::NAME];
    let selection =
        Selection::new(only, candidates.iter().map(program::Candidate::name).chain(beginnings))?;
    let wanted = |name: &str| selection.holds(name);
    let corpus = Corpus::prepare()?;
    let tools = Tools::prepare(&corpus, peers)?;
    let mut report = Report::new("engine");
    let mut all = Vec::new();
    for candidate in candidates {
        if wanted(candidate.name()) {
            all.push(Series::new(candidate.kind, candidate.subject(&corpus, &tools)?));
        }
    }
    let (rounds, compilations) = if quick { (5, 5) } else { (31, 31) };
    for series in &mut all {
        eprintln!("engine: compiling {}", series.subject.name);
        for _ in 0..compilations {
            series.compile(&tools, &tools.peers())?;
        }
    }
    for round in 0..rounds {
        for series in &mut all {
            series.run(&tools, &tools.peers())?;
        }
        eprintln!("engine: round {} of {rounds}", round + 1);
    }
    for series in &all {
        series.rows(&mut report, &RATIOS.map(|ratio| ratio.0))?;
        report.notes.extend(series.unable.values().map(|why| format!("No rows of a peer: {why}.")));
    }
    if !all.is_empty() {
        summary(&all, &mut report)?;
        describe(&all, &mut report)?;
    }
    start::measure(&corpus, &tools, quick, wanted, &mut report)?;
    for missing in tools.missing() {
        report.notes.push(format!("{missing} is missing: no rows of it (--peers installs it)."));
    }
    Ok(report)
}

impl Series {
    fn new(kind: Kind, subject: Subject) -> Self {
        Self {
            subject,
            kind,
            compiled: BTreeMap::new(),
            run: BTreeMap::new(),
            expected: None,
            unable: BTreeMap::new(),
        }
    }

    /// Compiles the program in each engine, in turn.
    fn compile(&mut self, tools: &Tools, peers: &[Peer]) -> Result<(), CorpusError> {
        for &peer in peers {
            let made = self.compiled.entry(peer).or_default();
            // Engines without compiled files compile when they run; C is compiled once.
            if !peer.is_ahead_of_time() && (peer != Peer::Wasm2c || !made.is_empty()) {
                continue;
            }
            match peer::compile(tools, peer, &self.subject) {
                Ok(figures) => made.push(figures),
                Err(error) => self.without(peer, error)?,
            }
        }
        Ok(())
    }

    /// Runs the program in each engine, in turn.
    fn run(&mut self, tools: &Tools, peers: &[Peer]) -> Result<(), CorpusError> {
        for &peer in peers {
            if self.unable.contains_key(&peer) {
                continue;
            }
            match peer::run(tools, peer, &self.subject) {
                Ok((figures, said))
                    if *self.expected.get_or_insert_with(|| said.clone()) == said =>
                {
                    self.run.entry(peer).or_default().push(figures);
                }
                Ok(_) => {
                    return Err(CorpusError::Differs {
                        program: self.subject.name,
                        build: peer.name(),
                    });
                }
                Err(error) => self.without(peer, error)?,
            }
        }
        Ok(())
    }

    /// Continues without a peer, if it is optional.
    fn without(&mut self, peer: Peer, error: CorpusError) -> Result<(), CorpusError> {
        if !peer.is_optional() {
            return Err(error);
        }
        self.unable.entry(peer).or_insert(error);
        Ok(())
    }

    /// One figure, round by round.
    fn values(&self, peer: Peer, figure: Figure, is_compiling: bool) -> Vec<u64> {
        let rounds = if is_compiling { &self.compiled } else { &self.run };
        rounds.get(&peer).into_iter().flatten().map(figure).collect()
    }

    fn ratio(&self, peer: Peer, figure: Figure, is_compiling: bool) -> Option<Ratio> {
        let blocks = |peer| Blocks::of(self.values(peer, figure, is_compiling));
        Ratio::of(&blocks(peer), &blocks(Peer::Wasmtime), 0.0).map(|ratio| thousandths(&ratio))
    }

    /// The bytes of machine code, of the engine and of wasmtime.
    fn sizes(&self) -> Result<[u64; 2], CorpusError> {
        let size = |peer| peer::code_size(&self.subject.compiled(peer));
        Ok([size(Peer::WasmAot)?, size(Peer::Wasmtime)?])
    }

    /// The bytes of the compiled files.
    fn files(&self) -> Result<[u64; 2], CorpusError> {
        let len = |peer| {
            let path = self.subject.compiled(peer);
            let metadata = path.metadata().map_err(CorpusError::io(path.display().to_string()))?;
            Ok(metadata.len())
        };
        Ok([len(Peer::WasmAot)?, len(Peer::Wasmtime)?])
    }

    /// The rows with these names, and the code's size.
    fn rows(&self, report: &mut Report, rows: &[&str]) -> Result<(), CorpusError> {
        let name = self.subject.name;
        for (row, peer, figure, is_compiling, unit) in RATIOS {
            if !rows.contains(&row) {
                continue;
            }
            if let Some(ratio) = self.ratio(peer, figure, is_compiling) {
                report.rows.push(Row::compared(format!("{name}/{row}"), unit, &ratio));
            }
        }
        report.rows.push(Row::compared(format!("{name}/size"), "kB", &exactly(self.sizes()?)));
        report.rows.push(Row::compared(format!("{name}/file"), "kB", &exactly(self.files()?)));
        Ok(())
    }
}

/// Converts nanoseconds to microseconds, or bytes to kilobytes.
pub(crate) fn thousandths(ratio: &Ratio) -> Ratio {
    Ratio { value: ratio.value / 1e3, baseline: ratio.baseline / 1e3, ..*ratio }
}

/// A ratio of two deterministic values.
pub(crate) fn exactly([value, baseline]: [u64; 2]) -> Ratio {
    let (value, baseline) = (value as f64 / 1e3, baseline as f64 / 1e3);
    let median = value / baseline;
    Ratio { value, baseline, median, lo: median, hi: median, pairs: 1 }
}

/// Describes the programs in the report.
fn describe(all: &[Series], report: &mut Report) -> Result<(), CorpusError> {
    let mut text = String::from(
        "The programs, with bytes of WebAssembly code and the seconds that wasmtime runs them:",
    );
    for series in all {
        let code = peer::module_size(&series.subject.module)? / 1000;
        let run = Blocks::of(series.values(Peer::Wasmtime, |run| run.cpu, false)).median(0.0) / 1e9;
        text +=
            &format!(" {} ({}, {code} kB, {run:.2} s)", series.subject.name, series.kind.name());
    }
    report.notes.push(text + ".");
    Ok(())
}

/// The rows over all programs.
fn summary(all: &[Series], report: &mut Report) -> Result<(), CorpusError> {
    for (row, peer, figure, is_compiling, unit) in RATIOS {
        let values = |series: &Series| {
            [peer, Peer::Wasmtime].map(|peer| series.values(peer, figure, is_compiling))
        };
        let able: Vec<[Vec<u64>; 2]> =
            all.iter().map(values).filter(|[ours, _]| !ours.is_empty()).collect();
        if let Some(ratio) = Ratio::geometric(&able) {
            report.rows.push(Row::compared(format!("geomean/{row}"), "ppm", &ratio));
        }
        let each = all
            .iter()
            .filter_map(|series| Some((series, series.ratio(peer, figure, is_compiling)?)));
        if let Some((series, worst)) = each.max_by(|a, b| a.1.median.total_cmp(&b.1.median)) {
            report.rows.push(Row::compared(format!("worst/{row}"), unit, &worst));
            report.notes.push(format!("worst/{row} is {}.", series.subject.name));
        }
    }
    let sizes: Vec<Ratio> =
        all.iter().map(|series| series.sizes().map(exactly)).collect::<Result<_, _>>()?;
    let mean = (sizes.iter().map(|size| size.median.ln()).sum::<f64>() / sizes.len() as f64).exp();
    report.rows.push(Row::compared(
        "geomean/size",
        "",
        &Ratio { value: mean, baseline: 1.0, median: mean, lo: mean, hi: mean, pairs: 1 },
    ));
    if let Some((series, worst)) =
        all.iter().zip(&sizes).max_by(|a, b| a.1.median.total_cmp(&b.1.median))
    {
        report.rows.push(Row::compared("worst/size", "kB", worst));
        report.notes.push(format!("worst/size is {}.", series.subject.name));
    }
    Ok(())
}
