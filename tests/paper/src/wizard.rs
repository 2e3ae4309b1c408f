//! What the built-in monitors cost (`wizard`): each beside the same program alone, and what a probe of an embedder's costs each time that it fires.
//!
//! Each round runs every program once as it is and once with each monitor, one after the other, each in a process of its own, which compiles the program for
//! what is observed. A ratio is that of two runs of the same round, by the processors' time of running and reporting.
//!
//! | row | what is compared |
//! |---|---|
//! | `P/MONITOR/builtin@wasm-aot` | the run with a monitor, or several joined by `+`, and without |
//! | `geomean/…`, `worst/…` | over the programs |
//! | `probe/off`, `probe/counter`, `probe/local`, `probe/global` | nanoseconds of a turn of a loop of seven instructions: inspected, with a counter or a probe at one of them, with one everywhere |

use crate::corpus::{Corpus, CorpusError};
use crate::engine::peer::{self, Peer, Subject};
use crate::engine::tools::Tools;
use crate::engine::{program, thousandths};
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use crate::selection::Selection;
use std::error::Error;
use std::time::Instant;
use wasm_aot::probe::{Place, Probes, probe};
use wasm_aot::{Engine, Linker, Module, Store};

/// Programs of `engine`: kernels, what does little but call, and applications, three of them with over half a megabyte of code.
const PROGRAMS: [&str; 10] =
    ["nbody", "sha256", "quicksort", "spectral", "recursion", "dispatch", "json", "lua", "sqlite", "zstd"];

/// What is attached, in turn.
const MONITORS: [&[&str]; 11] = [
    &["hotness"],
    &["branches"],
    &["icount"],
    &["opcodes"],
    &["blocks"],
    &["coverage"],
    &["memory"],
    &["functions"],
    &["profile"],
    &["latency"],
    &["hotness", "opcodes"],
];

/// Of each monitor's runs, and of the program's own, which come last.
type Times = [Vec<u64>; MONITORS.len() + 1];

pub(crate) fn measure(quick: bool, only: &[String]) -> Result<Report, Box<dyn Error>> {
    let candidates = program::candidates();
    let selection = Selection::new(only, candidates.iter().map(program::Candidate::name))?;
    let chosen = |name: &str| if only.is_empty() { PROGRAMS.contains(&name) } else { selection.holds(name) };
    let corpus = Corpus::prepare()?;
    let tools = Tools::prepare(&corpus, false)?;
    let mut all: Vec<(Subject, Times)> = Vec::new();
    for candidate in candidates.iter().filter(|candidate| chosen(candidate.name())) {
        let subject = candidate.subject(&corpus, &tools)?;
        peer::compile(&tools, Peer::WasmAot, &subject)?;
        all.push((subject, Times::default()));
    }
    let rounds = if quick { 3 } else { 31 };
    for round in 0..rounds {
        for (subject, times) in &mut all {
            run_all(&tools, subject, times)?;
        }
        eprintln!("wizard: round {} of {rounds}", round + 1);
    }
    let mut report = Report::new("wizard");
    rows(&all, &mut report);
    probes(quick, &mut report)?;
    report.notes.push("peer/wizard and peer/wasabi skipped: no package of either is published for this machine.".into());
    Ok(report)
}

fn run_all(tools: &Tools, subject: &Subject, times: &mut Times) -> Result<(), CorpusError> {
    let (figures, expected) = peer::run(tools, Peer::WasmAot, subject)?;
    times[MONITORS.len()].push(figures.cpu);
    for (monitors, times) in MONITORS.iter().zip(times) {
        let (figures, said) = peer::run_monitored(tools, subject, monitors)?;
        if said != expected {
            return Err(CorpusError::Differs { program: subject.name, build: "monitored" });
        }
        times.push(figures.cpu);
    }
    Ok(())
}

fn rows(all: &[(Subject, Times)], report: &mut Report) {
    for (i, monitors) in MONITORS.iter().enumerate() {
        let name = monitors.join("+");
        let ratio = |times: &Times| {
            Ratio::of(&Blocks::of(times[i].iter().copied()), &Blocks::of(times[MONITORS.len()].iter().copied()), 0.0)
        };
        let each: Vec<_> = all.iter().filter_map(|(subject, times)| Some((subject.name, thousandths(&ratio(times)?)))).collect();
        for (program, ratio) in &each {
            report.rows.push(Row::compared(format!("{program}/{name}/builtin@wasm-aot"), "us", ratio));
        }
        let pairs: Vec<_> = all.iter().map(|(_, times)| [times[i].clone(), times[MONITORS.len()].clone()]).collect();
        if let Some(mean) = Ratio::geometric(&pairs) {
            report.rows.push(Row::compared(format!("geomean/{name}/builtin@wasm-aot"), "ppm", &mean));
        }
        if let Some((program, worst)) = each.iter().max_by(|a, b| a.1.median.total_cmp(&b.1.median)) {
            report.rows.push(Row::compared(format!("worst/{name}/builtin@wasm-aot"), "us", worst));
            report.notes.push(format!("worst/{name} is {program}."));
        }
    }
}

/// What a turn of a loop costs, with nothing, a counter, or probes in it.
fn probes(quick: bool, report: &mut Report) -> Result<(), Box<dyn Error>> {
    const TURNS: i32 = 200_000;
    let engine = Engine::default();
    let module = Module::new(
        &engine,
        "(module (func (export \"f\") (param i32) (local i32)
            (loop $again (br_if $again (i32.lt_u (local.tee 1 (i32.add (local.get 1) (i32.const 1))) (local.get 0))))))",
    )?;
    let mut store = Store::new(&engine, ());
    let instance = Linker::new(&engine).instantiate(&mut store, &module)?;
    let run = instance.get_typed_func::<i32, ()>(&mut store, "f")?;
    module.attach_counts()?;
    module.detach_counts();
    let counts = module.counts().ok_or("it was counted")?;
    let function = counts.functions().next().ok_or("there is a function")?;
    let add = function.instructions().iter().find(|i| i.mnemonic == "i32.add").ok_or("there is an addition")?.offset;
    let probes = Probes::new(&module);
    let place = Place::before(0, add);
    let nothing = || probe("nothing", |_| Ok(()));
    // Whatever comes and goes, the function stays inspected.
    probes.remove(probes.insert(place, nothing())?);
    let rounds = if quick { 11 } else { 101 };
    for (name, kind) in [("off", 0), ("counter", 1), ("local", 2), ("global", 3)] {
        let id = match kind {
            0 => None,
            1 => Some(probes.count(place)?),
            2 => Some(probes.insert(place, nothing())?),
            _ => Some(probes.insert_everywhere(nothing())?),
        };
        let mut turns = Vec::new();
        for _ in 0..rounds {
            let begun = Instant::now();
            run.call(&mut store, TURNS)?;
            turns.push(begun.elapsed().as_nanos() as f64 / f64::from(TURNS));
        }
        if let Some(id) = id {
            probes.remove(id);
        }
        turns.sort_by(f64::total_cmp);
        report.rows.push(Row::plain(format!("probe/{name}"), turns[turns.len() / 2], "ns", turns.len() as u64));
    }
    Ok(())
}
