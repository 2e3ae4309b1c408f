//! The extremes: the smallest program, and a module of ten megabytes.
//!
//! Both are measured like the experiment's programs, and as whole processes of the product's
//! command, from the command line to its end, which is the time that users wait.

use super::peer::{Peer, Subject};
use super::tools::Tools;
use super::{Series, large, program};
use crate::corpus::{Corpus, CorpusError, child};
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use std::process::Command;

const ROWS: [&str; 5] = ["start", "start_cpu", "memory", "compile", "compile_wall"];

/// The subjects that are `wanted` by name.
pub(super) fn measure(
    corpus: &Corpus,
    tools: &Tools,
    quick: bool,
    wanted: impl Fn(&str) -> bool,
    report: &mut Report,
) -> Result<(), CorpusError> {
    let hello = program::hello();
    let mut small = Series::new(hello.kind, hello.subject(corpus, tools)?);
    let module = large::module(tools.folder())?;
    let mut large = Series::new(hello.kind, Subject::new(large::NAME, module));
    let (starts, compilations) = if quick { (15, 3) } else { (61, 7) };
    for (series, compilations) in [(&mut small, starts), (&mut large, compilations)] {
        if !wanted(series.subject.name) {
            continue;
        }
        eprintln!("engine: starting {}", series.subject.name);
        for _ in 0..compilations {
            series.compile(tools, &PEERS)?;
        }
        for _ in 0..starts {
            series.run(tools, &PEERS)?;
        }
        series.rows(report, &ROWS)?;
        compiling_memory(series, report);
        process(tools, series, starts, report)?;
    }
    Ok(())
}

/// The engines that start from files of machine code.
const PEERS: [Peer; 2] = [Peer::Wasmtime, Peer::WasmAot];

/// The growth of a process that compiles.
fn compiling_memory(series: &Series, report: &mut Report) {
    let memory =
        |peer| Blocks::of(series.compiled.get(&peer).into_iter().flatten().map(|made| made.memory));
    if let Some(ratio) = Ratio::of(&memory(Peer::WasmAot), &memory(Peer::Wasmtime), 0.0) {
        report.rows.push(Row::compared(
            format!("{}/compile_memory", series.subject.name),
            "kB",
            &super::thousandths(&ratio),
        ));
    }
}

/// The time of the command, from its start to its end.
fn process(
    tools: &Tools,
    series: &Series,
    rounds: usize,
    report: &mut Report,
) -> Result<(), CorpusError> {
    let Some(command) = tools.command() else {
        report
            .notes
            .push("wasm-aot is not beside this program: no rows of whole processes (cargo build --release -p wasm-aot).".into());
        return Ok(());
    };
    let compiled = series.subject.module.with_extension("aot");
    let what = || format!("{} in {}", series.subject.name, command.display());
    let run = |command: &mut Command| {
        let outcome = child::run(command).map_err(CorpusError::io(what()))?;
        if outcome.success {
            Ok(outcome)
        } else {
            Err(CorpusError::Failed { what: what(), said: outcome.said() })
        }
    };
    run(Command::new(&command)
        .arg("compile")
        .arg(&series.subject.module)
        .arg("-o")
        .arg(&compiled))?;
    let [mut wall, mut cpu] = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let outcome = run(Command::new(&command).arg("run").arg(&compiled))?;
        wall.push(outcome.wall.as_nanos() as u64);
        cpu.push(outcome.cpu.as_nanos() as u64);
    }
    for (row, values) in [("process", wall), ("process_cpu", cpu)] {
        let row = format!("{}/{row}", series.subject.name);
        report.rows.push(Row::plain(
            row,
            Blocks::of(values).median(0.0) / 1e3,
            "us",
            rounds as u64,
        ));
    }
    Ok(())
}
