//! The cost of probes that were rewritten into a program (`whamm-rewriting`), beside the existing
//! compiler and a rewrite by hand.
//!
//! Each round runs every program once in each engine as it is and with each monitor, one after the
//! other, each in a process of its own; a ratio compares two runs of the same round by CPU time,
//! and includes writing the report. The program must have the same output as without probes, and
//! the report must be the same in both engines.
//!
//! | row | what is compared |
//! |---|---|
//! | `P/MONITOR/TARGET@ENGINE` | the run of the program with probes, and without |
//! | `P/MONITOR/advantage@ENGINE` | the run with the product's probes, and with those of the existing compiler |
//! | `P/MONITOR/TARGET/size` | added bytes, and those of the program |
//! | `P/MONITOR/smaller` | added bytes, the product's and the existing compiler's |
//! | `P/MONITOR/TARGET/instrument` | the CPU time of instrumenting |
//! | `P/MONITOR/quicker` | the same, the product's and the existing compiler's |
//! | `geomean/…`, `worst/…` | over the programs: the means of each round, and the program whose median is worst |
//!
//! The existing compiler's output is measured in shorter runs of the programs, beside shorter runs
//! of the product's: its imix would otherwise need hours. Targets are `rewriting` (the product's,
//! which is one module), `existing` and `handwritten`, a counter for each basic block without any
//! report.

pub(crate) mod existing;
mod handwritten;
mod monitor;
mod summary;
mod variant;

use crate::corpus::{Corpus, CorpusError};
use crate::engine::peer::{self, Peer, Subject};
use crate::engine::program;
use crate::engine::tools::Tools;
use crate::report::Report;
use existing::Existing;
use monitor::{Cache, Monitor};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use variant::{Length, Runs, Target, Variant};

/// A program, and its amount of work beside the existing compiler.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    name: &'static str,
    /// A run of some dozens of milliseconds: the existing compiler's hotness takes ten times as
    /// long as the program.
    brief: &'static str,
    /// A run of about a millisecond, if the program supports that: the existing compiler's imix
    /// takes thousands of times as long.
    least: Option<&'static str>,
}

const fn chosen(name: &'static str, brief: &'static str, least: Option<&'static str>) -> Chosen {
    Chosen { name, brief, least }
}

/// Kernels, programs that mostly call, and applications.
const PROGRAMS: [Chosen; 12] = [
    chosen("nbody", "600000", Some("2000")),
    chosen("fannkuch", "9", Some("6")),
    chosen("sha256", "5", None),
    chosen("quicksort", "1", None),
    chosen("sieve", "4", None),
    chosen("spectral", "8", None),
    chosen("recursion", "5", None),
    chosen("dispatch", "1000", Some("4")),
    chosen("bzip2", "1", None),
    chosen("json", "1000", Some("2")),
    chosen("lz4", "1", None),
    chosen("lua", "1", None),
];

/// The number of programs if there is little time.
const QUICK: usize = 10;

/// The engines that run the programs.
const ENGINES: [Peer; 2] = [Peer::Wasmtime, Peer::WasmAot];

/// One program, as it is and with probes.
#[derive(Debug)]
struct Series {
    plain: Subject,
    chosen: Chosen,
    expected: BTreeMap<Length, Vec<u8>>,
    variants: Vec<Variant>,
}

/// The numbers of repetitions.
#[derive(Clone, Copy, Debug)]
struct Plan {
    rounds: usize,
    /// The number of runs beside the existing compiler's.
    beside_existing: usize,
    compilations: usize,
}

/// The tools to make variants.
struct Workshop {
    folder: PathBuf,
    tools: Tools,
    cache: Cache,
    existing: Option<Existing>,
}

pub(crate) fn measure(
    quick: bool,
    only: &[String],
    peers: bool,
    rounds: Option<usize>,
) -> Result<Report, Box<dyn Error>> {
    let corpus = Corpus::prepare()?;
    let tools = Tools::prepare(&corpus, false)?;
    let folder = corpus.folder().join("whamm");
    std::fs::create_dir_all(&folder).map_err(CorpusError::io(folder.display().to_string()))?;
    let existing = Existing::find(&folder, peers);
    let mut report = Report::new("whamm-rewriting");
    if let Err(why) = &existing {
        report.notes.push(format!("No rows of the existing compiler: {why}."));
    }
    let workshop =
        Workshop { cache: Cache::build(&folder)?, folder, tools, existing: existing.ok() };
    let plan = if quick {
        Plan { rounds: rounds.unwrap_or(1), beside_existing: rounds.unwrap_or(1), compilations: 3 }
    } else {
        Plan { rounds: rounds.unwrap_or(31), beside_existing: 7, compilations: 15 }
    };
    let names = PROGRAMS.map(|chosen| chosen.name);
    if let Some(unknown) = only.iter().find(|only| !names.contains(&only.as_str())) {
        return Err(format!("there is no program {unknown}; there are {}", names.join(", ")).into());
    }
    let usual = if quick && only.is_empty() { &PROGRAMS[..QUICK] } else { &PROGRAMS[..] };
    let mut all = Vec::new();
    let candidates = program::candidates();
    for chosen in
        usual.iter().filter(|chosen| only.is_empty() || only.iter().any(|only| only == chosen.name))
    {
        eprintln!("whamm-rewriting: instrumenting {}", chosen.name);
        let candidate = candidates
            .iter()
            .find(|candidate| candidate.name() == chosen.name)
            .ok_or("a program of the engine's")?;
        let plain = Subject { counts: true, ..candidate.subject(&corpus, &workshop.tools)? };
        all.push(Series::prepare(&workshop, plain, *chosen, plan)?);
    }
    for round in 0..plan.rounds {
        for series in &mut all {
            series.run(&workshop.tools, Length::Full)?;
            if workshop.existing.is_some() && round < plan.beside_existing {
                series.run(&workshop.tools, Length::Brief)?;
                series.run(&workshop.tools, Length::Least)?;
            }
        }
        eprintln!("whamm-rewriting: round {} of {}", round + 1, plan.rounds);
    }
    summary::rows(&all, &mut report);
    Ok(report)
}

impl Series {
    /// All variants of a program, instrumented and compiled.
    fn prepare(
        workshop: &Workshop,
        plain: Subject,
        chosen: Chosen,
        plan: Plan,
    ) -> Result<Self, CorpusError> {
        let tools = &workshop.tools;
        let mut variants = Vec::new();
        for engine in ENGINES {
            peer::compile(tools, engine, &plain)?;
        }
        for monitor in Monitor::ALL {
            for target in Target::ALL {
                variants.extend(Variant::make(
                    workshop,
                    &plain,
                    monitor,
                    target,
                    plan.compilations,
                )?);
            }
        }
        for variant in &mut variants {
            variant.compile(tools)?;
        }
        Ok(Self { plain, chosen, expected: BTreeMap::new(), variants })
    }

    /// One round of a length, if the program has it.
    fn run(&mut self, tools: &Tools, length: Length) -> Result<(), CorpusError> {
        let arguments = match length {
            Length::Full => self.plain.arguments.clone(),
            Length::Brief => vec![self.chosen.brief.into()],
            Length::Least => self.chosen.least.into_iter().map(String::from).collect(),
        };
        if arguments.is_empty() {
            return Ok(());
        }
        for engine in ENGINES {
            let (plain, said) = peer::run(
                tools,
                engine,
                &Subject { arguments: arguments.clone(), ..self.plain.clone() },
            )?;
            let expected = self.expected.entry(length).or_insert_with(|| said.clone());
            if *expected != said {
                return Err(CorpusError::Differs {
                    program: self.plain.name,
                    build: engine.name(),
                });
            }
            for variant in self.variants.iter_mut().filter(|variant| length.is_for(variant)) {
                variant.run(tools, engine, length, &arguments, expected, plain.cpu)?;
            }
        }
        Ok(())
    }

    fn variant(&self, monitor: Monitor, target: Target) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.monitor == monitor && variant.target == target)
    }

    /// The runs of a variant in an engine.
    fn runs(
        &self,
        monitor: Monitor,
        target: Target,
        engine: Peer,
        length: Length,
    ) -> Option<&Runs> {
        self.variant(monitor, target)?.runs.get(&(engine, length))
    }
}
