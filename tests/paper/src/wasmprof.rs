//! Exact call profiles that rewritten programs keep (`wasmprof`): the tables of a thesis of 2019,
//! and the accuracy of the profiles.
//!
//! Each round runs every program as it is and profiled, one after the other, each in a process of
//! its own; a ratio compares two runs of the same round by CPU time. Compilation is not part of a
//! run.
//!
//! | row | what is compared |
//! |---|---|
//! | `table6.1/P` | the bytes of code of the profiled module and of the program |
//! | `table6.2/P@wasmtime` | compiling both |
//! | `table6.3/P@ENGINE` | running both; short calls are counted |
//! | `table6.3/P/time-all@ENGINE` | the same with every call timed, for some programs that mostly call |
//! | `table6.3/P/monitor@wasm-aot` | running the program under the engine's monitor, and without it |
//! | `table6.3/P/monitor+compiling@wasm-aot` | the same, compiling included |
//! | `peer/cpu-prof/P@node` | running the program under node's sampling profiler, and without it |
//! | `outputs` | programs with the same output in all ways and engines, and their number |
//! | `clock@ENGINE` | one reading of the clock by a program |
//! | `geomean/…`, `worst/…` | over programs: `calls` mostly call, `rest` are the others |
//! | `validation/…` | see `validation` |

mod clock;
mod published;
mod validation;

use crate::corpus::{Corpus, CorpusError, Program};
use crate::engine::peer::{self, Peer, Subject};
use crate::engine::tools::Tools;
use crate::engine::{exactly, program, thousandths};
use crate::journal::Journal;
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use crate::selection::Selection;
use published::Published;
use std::collections::BTreeMap;
use std::error::Error;
use whamm_profile::Options;

/// The programs that mostly call, whose profiles may cost more.
const CALLS: [&str; 6] =
    ["recursion", "quicksort", "quicksort-int", "quicksort-double", "game", "dispatch"];

/// Programs whose every call is timed, too, with the amount of work for that.
const TIMED: [(&str, &str); 4] =
    [("recursion", "1"), ("quicksort", "1"), ("quicksort-int", "1"), ("game", "1")];

const fn kernel(
    name: &'static str,
    options: &'static [&'static str],
    rounds: &'static str,
) -> Program {
    let driver = ("calls.c", include_str!("../corpus/calls.c"));
    Program { options, rounds, ..Program::own(name, driver) }
}

/// Programs of the kinds that the thesis measures.
const KERNELS: [Program; 8] = [
    kernel("multiply-int", &["-DMULTIPLY", "-DTYPE=int"], "40"),
    kernel("multiply-double", &["-DMULTIPLY", "-DTYPE=double"], "20"),
    kernel("sum-int", &["-DSUM", "-DTYPE=int"], "60"),
    kernel("sum-double", &["-DSUM", "-DTYPE=double"], "30"),
    kernel("quicksort-int", &["-DQUICKSORT", "-DTYPE=int"], "20"),
    kernel("quicksort-double", &["-DQUICKSORT", "-DTYPE=double"], "20"),
    kernel("image", &["-DIMAGE", "-DTYPE=int"], "10"),
    kernel("game", &["-DGAME", "-DTYPE=int"], "30"),
];

/// The times with a profiler, and without.
type Pair = [Vec<u64>; 2];

/// A round of a program's runs: the times of the runs, those of compiling, and whether the outputs
/// equal the program's.
#[derive(serde::Serialize, serde::Deserialize)]
struct Round {
    runs: BTreeMap<String, [u64; 2]>,
    compiled: Option<[u64; 2]>,
    differs: Option<String>,
}

/// A program, as it is and profiled, on an engine or under its monitor.
struct Series {
    name: String,
    plain: Subject,
    profiled: Subject,
    engines: Vec<Peer>,
    /// Whether the engine's monitor and node's profiler are run, too.
    is_default: bool,
    /// The times by the kind of run: with a profiler, and without.
    runs: BTreeMap<String, Pair>,
    compiled: Pair,
    /// The run whose output differs from the program's, if there is one.
    differs: Option<String>,
}

pub(crate) fn measure(quick: bool, only: &[String]) -> Result<Report, Box<dyn Error>> {
    let candidates = program::candidates();
    let names = candidates.iter().map(program::Candidate::name).chain(KERNELS.map(|it| it.name));
    let selection = Selection::new(only, names.chain(["validation"]))?;
    let validates = selection.holds("validation");
    let corpus = Corpus::prepare()?;
    let tools = Tools::prepare(&corpus, false)?;
    let mut report = Report::new("wasmprof");
    let mut engines = vec![Peer::Wasmtime];
    if tools.knows_memories() {
        engines.push(Peer::Node);
    } else {
        report.notes.push("No rows of node: it has to be of version 22 or later.".into());
    }
    report.notes.push(
        "Wasabi's profiler was not measured: no package of it was found on npm or crates.io."
            .into(),
    );
    report.notes.push(published::NOTE.into());
    let mut all = Vec::new();
    for candidate in candidates.iter().filter(|it| selection.holds(it.name())) {
        let plain = candidate.subject(&corpus, &tools)?;
        Series::prepare(&tools, plain, &engines, &mut all)?;
    }
    for program in KERNELS.iter().filter(|it| selection.holds(it.name)) {
        let name = format!("engine/{}", program.name);
        let module = corpus.make(program, tools.compiler(false), &name, ".wasm")?;
        let arguments = vec![program.rounds.into()];
        let plain = Subject { arguments, ..Subject::new(program.name, module) };
        Series::prepare(&tools, plain, &engines, &mut all)?;
    }
    let rounds = if quick { 3 } else { 20 };
    let open = corpus.folder().join(if quick { "wasmprof/quick" } else { "wasmprof/open" });
    let journal = Journal::open(&open, &[&std::env::current_exe()?])?;
    for round in 0..rounds {
        for series in &mut all {
            let name = format!("{}-{round}", series.name.replace('/', "-"));
            series.take(journal.kept(&name, || series.run(&tools))?);
        }
        eprintln!("wasmprof: round {} of {rounds}", round + 1);
    }
    rows(&all, &mut report)?;
    if validates {
        let on = [&engines[..], &[Peer::WasmAot]].concat();
        let clocks = clock::measure(&tools, &on, &mut report)?;
        validation::measure(&tools, &engines, &clocks, &journal, quick, &mut report)?;
    }
    report.notes.push(format!("The runs are in {}.", journal.close()?.display()));
    Ok(report)
}

fn failed(what: &str, said: &dyn std::fmt::Display) -> CorpusError {
    CorpusError::Failed { what: what.to_owned(), said: said.to_string() }
}

/// The profiled variant of a program.
fn profiled(plain: &Subject, options: &Options, ending: &str) -> Result<Subject, CorpusError> {
    let what = format!("profiling {}", plain.name);
    let bytes = std::fs::read(&plain.module).map_err(CorpusError::io(what.clone()))?;
    let made = whamm_profile::profile(&bytes, options).map_err(|error| failed(&what, &error))?;
    let module = plain.module.with_extension(ending);
    std::fs::write(&module, made.module).map_err(CorpusError::io(what))?;
    Ok(Subject { module, ..plain.clone() })
}

impl Series {
    /// Adds a program: with short calls counted, and, if it mostly calls, with all calls timed.
    fn prepare(
        tools: &Tools,
        plain: Subject,
        engines: &[Peer],
        all: &mut Vec<Self>,
    ) -> Result<(), CorpusError> {
        for engine in [Peer::Wasmtime, Peer::WasmAot] {
            peer::compile(tools, engine, &plain)?;
        }
        let timed = TIMED.iter().find(|(name, _)| *name == plain.name);
        let mut add = |name: String, plain: Subject, profiled: Subject, is_default: bool| {
            peer::compile(tools, Peer::Wasmtime, &profiled)?;
            all.push(Self {
                name,
                plain,
                profiled,
                engines: engines.to_vec(),
                is_default,
                runs: BTreeMap::new(),
                compiled: Default::default(),
                differs: None,
            });
            Ok::<(), CorpusError>(())
        };
        let profile = profiled(&plain, &Options::default(), "profiled.wasm")?;
        add(plain.name.to_owned(), plain.clone(), profile, true)?;
        if let Some((name, arguments)) = timed {
            let plain = Subject { arguments: vec![(*arguments).into()], ..plain };
            let options = Options { time_all: true, ..Options::default() };
            let profile = profiled(&plain, &options, "timed.wasm")?;
            add(format!("{name}/time-all"), plain, profile, false)?;
        }
        Ok(())
    }

    fn run(&self, tools: &Tools) -> Result<Round, CorpusError> {
        let mut runs = BTreeMap::new();
        let (mut compiled, mut differs) = (None, None);
        let mut compare = |what: String, said: &[u8], expected: &[u8]| {
            if said != expected {
                differs.get_or_insert(what);
            }
        };
        for engine in &self.engines {
            let (plain, expected) = peer::run(tools, *engine, &self.plain)?;
            let (figures, said) = peer::run(tools, *engine, &self.profiled)?;
            compare(format!("{} profiled, in {}", self.name, engine.name()), &said, &expected);
            let name = format!("table6.3/{}@{}", self.name, engine.name());
            runs.insert(name, [figures.cpu, plain.cpu]);
            if *engine == Peer::Node && self.is_default {
                let sampled = peer::run_sampled(tools, &self.plain)?;
                let name = format!("peer/cpu-prof/{}@node", self.name);
                runs.insert(name, [sampled.cpu, plain.cpu]);
            }
        }
        if self.is_default {
            let (plain, expected) = peer::run(tools, Peer::WasmAot, &self.plain)?;
            let (figures, said) = peer::run_monitored(tools, &self.plain, &["profile"])?;
            compare(format!("{} under the engine's monitor", self.name), &said, &expected);
            let name = format!("table6.3/{}/monitor@wasm-aot", self.name);
            runs.insert(name, [figures.cpu.saturating_sub(figures.compile), plain.cpu]);
            let name = format!("table6.3/{}/monitor+compiling@wasm-aot", self.name);
            runs.insert(name, [figures.cpu, plain.cpu]);
            let compile = |subject| peer::compile(tools, Peer::Wasmtime, subject);
            compiled = Some([compile(&self.profiled)?.cpu, compile(&self.plain)?.cpu]);
        }
        Ok(Round { runs, compiled, differs })
    }

    fn take(&mut self, round: Round) {
        let add = |times: &mut Pair, [with, without]: [u64; 2]| {
            times[0].push(with);
            times[1].push(without);
        };
        for (name, pair) in round.runs {
            add(self.runs.entry(name).or_default(), pair);
        }
        if let Some(pair) = round.compiled {
            add(&mut self.compiled, pair);
        }
        self.differs = self.differs.take().or(round.differs);
    }

    fn does_little_but_call(&self) -> bool {
        CALLS.contains(&self.plain.name)
    }
}

fn ratio([with, without]: &Pair) -> Option<Ratio> {
    let of = |times: &[u64]| Blocks::of(times.iter().copied());
    Ratio::of(&of(with), &of(without), 0.0).map(|ratio| thousandths(&ratio))
}

fn rows(all: &[Series], report: &mut Report) -> Result<(), CorpusError> {
    let mut kinds: BTreeMap<String, Vec<(&str, Pair)>> = BTreeMap::new();
    for series in all {
        let published = series.is_default.then(|| published::of(&series.name)).flatten();
        let beside = |row: Row, of: fn(Published) -> f64| Row { paper: published.map(of), ..row };
        if series.is_default {
            let sizes = [&series.profiled, &series.plain].map(|it| peer::module_size(&it.module));
            let [with, without] = sizes;
            let sizes = exactly([with?, without?]);
            let row = Row::compared(format!("table6.1/{}", series.name), "kB", &sizes);
            report.rows.push(beside(row, |it| it.size));
            if let Some(ratio) = ratio(&series.compiled) {
                let name = format!("table6.2/{}@wasmtime", series.name);
                report.rows.push(beside(Row::compared(name, "us", &ratio), |it| it.compile));
            }
        }
        for (name, times) in &series.runs {
            let Some(ratio) = ratio(times) else { continue };
            let row = Row::compared(name.clone(), "us", &ratio);
            let is_published = name.starts_with("table6.3") && name.ends_with("@node");
            report.rows.push(if is_published { beside(row, |it| it.run) } else { row });
            let kind = if series.does_little_but_call() { "calls" } else { "rest" };
            let kind = name.replace(series.plain.name, kind);
            kinds.entry(kind).or_default().push((series.plain.name, times.clone()));
        }
    }
    let same = all.iter().filter(|series| series.differs.is_none()).count() as u64;
    if !all.is_empty() {
        report.rows.push(Row::counted("outputs", same, all.len() as u64));
    }
    let differ = all.iter().filter_map(|series| series.differs.as_ref());
    report.notes.extend(differ.map(|what| format!("It prints something else: {what}.")));
    for (kind, each) in kinds {
        let pairs: Vec<_> = each.iter().map(|(_, times)| times.clone()).collect();
        if let Some(mean) = Ratio::geometric(&pairs) {
            report.rows.push(Row::compared(format!("geomean/{kind}"), "ppm", &mean));
        }
        let worst = each.iter().filter_map(|(program, times)| Some((program, ratio(times)?)));
        if let Some((program, worst)) = worst.max_by(|a, b| a.1.median.total_cmp(&b.1.median)) {
            report.rows.push(Row::compared(format!("worst/{kind}"), "us", &worst));
            report.notes.push(format!("worst/{kind} is {program}."));
        }
    }
    Ok(())
}
