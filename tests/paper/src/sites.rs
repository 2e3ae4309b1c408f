//! The cost of sites for probes that are off, and of exact counts (`sites`), beside the product's
//! code without either.
//!
//! | row | what is compared |
//! |---|---|
//! | `P/functions`, `P/loops` | the CPU time of the program with sites at functions, and with those at loops, too |
//! | `P/calls+branches`, `P/all` | with those and patchable sites before calls and branches, and before every instruction |
//! | `P/hotness/builtin@wasm-aot` | the same with code that counts every instruction exactly: the cost of all counting monitors, alone or together |
//! | `P/size`, `P/compile` | bytes of machine code, and the CPU time of compiling, with sites at functions and loops |
//! | `geomean/…`, `worst/…` | over the programs |

use crate::corpus::{Corpus, CorpusError};
use crate::engine::peer::{self, Peer, Subject};
use crate::engine::tools::Tools;
use crate::engine::{Figures, exactly, program, thousandths};
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use crate::selection::Selection;
use std::error::Error;

/// The compared configurations, in turn; the first is the baseline.
const PEERS: [Peer; 6] = [
    Peer::NoSites,
    Peer::FunctionSites,
    Peer::WasmAot,
    Peer::Counting,
    Peer::BranchSites,
    Peer::AllSites,
];
/// The rows of running: their names, and the indices of their configurations.
const ROWS: [(&str, usize); 5] = [
    ("functions", 1),
    ("loops", 2),
    ("calls+branches", 4),
    ("all", 5),
    ("hotness/builtin@wasm-aot", 3),
];

/// One program's runs, by configuration and round.
struct Series {
    subject: Subject,
    compiled: [Vec<Figures>; PEERS.len()],
    run: [Vec<Figures>; PEERS.len()],
    expected: Option<Vec<u8>>,
}

pub(crate) fn measure(quick: bool, only: &[String]) -> Result<Report, Box<dyn Error>> {
    let candidates = program::candidates();
    let selection = Selection::new(only, candidates.iter().map(program::Candidate::name))?;
    let corpus = Corpus::prepare()?;
    let tools = Tools::prepare(&corpus, false)?;
    let mut all = Vec::new();
    for candidate in candidates.iter().filter(|candidate| selection.holds(candidate.name())) {
        let subject = candidate.subject(&corpus, &tools)?;
        all.push(Series {
            subject,
            compiled: Default::default(),
            run: Default::default(),
            expected: None,
        });
    }
    let rounds = if quick { 5 } else { 31 };
    for round in 0..rounds {
        all.iter_mut().try_for_each(|series| series.round(&tools))?;
        eprintln!("sites: round {} of {rounds}", round + 1);
    }
    let mut report = Report::new("sites");
    for series in &all {
        series.rows(&mut report)?;
    }
    for (row, peer) in ROWS {
        summary(&all, row, peer, &mut report);
    }
    Ok(report)
}

impl Series {
    fn round(&mut self, tools: &Tools) -> Result<(), CorpusError> {
        for (i, peer) in PEERS.into_iter().enumerate() {
            self.compiled[i].push(peer::compile(tools, peer, &self.subject)?);
            let (figures, said) = peer::run(tools, peer, &self.subject)?;
            if *self.expected.get_or_insert_with(|| said.clone()) != said {
                return Err(CorpusError::Differs {
                    program: self.subject.name,
                    build: peer.name(),
                });
            }
            self.run[i].push(figures);
        }
        Ok(())
    }

    fn ratio(rounds: &[Vec<Figures>; PEERS.len()], peer: usize) -> Option<Ratio> {
        let of = |peer: usize| Blocks::of(rounds[peer].iter().map(|figures| figures.cpu));
        Ratio::of(&of(peer), &of(0), 0.0).map(|ratio| thousandths(&ratio))
    }

    fn rows(&self, report: &mut Report) -> Result<(), CorpusError> {
        let name = self.subject.name;
        for (row, peer) in ROWS {
            report.rows.extend(
                Self::ratio(&self.run, peer)
                    .map(|ratio| Row::compared(format!("{name}/{row}"), "us", &ratio)),
            );
        }
        let compiled = Self::ratio(&self.compiled, 2);
        report
            .rows
            .extend(compiled.map(|ratio| Row::compared(format!("{name}/compile"), "us", &ratio)));
        let size = |peer| peer::code_size(&self.subject.compiled(peer));
        let sizes = exactly([size(Peer::WasmAot)?, size(Peer::NoSites)?]);
        report.rows.push(Row::compared(format!("{name}/size"), "kB", &sizes));
        Ok(())
    }
}

/// Over all programs: the geometric mean of each round, and the program whose median is worst.
fn summary(all: &[Series], row: &str, peer: usize, report: &mut Report) {
    let cpu =
        |figures: &Vec<Figures>| figures.iter().map(|figures| figures.cpu).collect::<Vec<u64>>();
    let pairs: Vec<_> =
        all.iter().map(|series| [cpu(&series.run[peer]), cpu(&series.run[0])]).collect();
    if let Some(ratio) = Ratio::geometric(&pairs) {
        report.rows.push(Row::compared(format!("geomean/{row}"), "ppm", &ratio));
    }
    let each = all.iter().filter_map(|series| Some((series, Series::ratio(&series.run, peer)?)));
    if let Some((series, worst)) = each.max_by(|a, b| a.1.median.total_cmp(&b.1.median)) {
        report.rows.push(Row::compared(format!("worst/{row}"), "us", &worst));
        report.notes.push(format!("worst/{row} is {}.", series.subject.name));
    }
}
