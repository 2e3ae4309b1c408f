//! The validation program of the thesis' appendix B: `f_main_1` to `f_main_4` make the same number
//! of calls of `add` in different ways, so a profile has to report the same time for all of them,
//! half of it for `f_half`, and a quarter for `f_quarter`.
//!
//! | row | what is compared |
//! |---|---|
//! | `validation/add/calls/HOW@ENGINE` | reported calls of `add`, and its actual calls |
//! | `validation/FUNCTION/HOW@ENGINE` | the time of a call of it, and of one of `f_main_1` in the same run |
//! | `validation/call/HOW@ENGINE` | the additional time of a call, and the time of two readings of the clock |
//!
//! HOW is `timed` or `untimed`, by whether calls of `add` are timed; `monitor` is the engine's
//! monitor.

use super::{failed, profiled};
use crate::corpus::CorpusError;
use crate::engine::peer::{self, Peer, Subject};
use crate::engine::tools::Tools;
use crate::engine::{exactly, thousandths};
use crate::journal::Journal;
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use profiler::Profile;
use std::collections::BTreeMap;
use std::process::Command;
use whamm_profile::Options;

/// The functions that are compared with `f_main_1`.
const FUNCTIONS: [&str; 6] =
    ["f_main_2", "f_main_3", "f_main_4", "f_half_2", "f_half", "f_quarter"];

/// The profile of a run by name: calls, and time in nanoseconds.
type Told = BTreeMap<String, (u64, f64)>;

pub(super) fn measure(
    tools: &Tools,
    engines: &[Peer],
    clocks: &BTreeMap<&'static str, f64>,
    journal: &Journal,
    quick: bool,
    report: &mut Report,
) -> Result<(), CorpusError> {
    let calls: u64 = if quick { 1_000_000 } else { 10_000_000 };
    let text = [("MAIN", calls), ("HALF", calls / 2), ("QUARTER", calls / 4)]
        .iter()
        .fold(include_str!("../../corpus/validation.wat").to_owned(), |text, (name, value)| {
            text.replace(&format!("const {name})"), &format!("const {value})"))
        });
    let bytes = wat::parse_str(&text).map_err(|error| failed("validation.wat", &error))?;
    let module = tools.folder().join("validation.wasm");
    std::fs::write(&module, bytes).map_err(CorpusError::io("validation.wasm"))?;
    let plain = Subject::new("validation", module);
    peer::compile(tools, Peer::Wasmtime, &plain)?;
    let options = |time_all| Options { time_all, ..Options::default() };
    let ways = [("untimed", options(false)), ("timed", options(true))];
    let mut subjects = Vec::new();
    for (how, options) in ways {
        let subject = profiled(&plain, &options, &format!("{how}.wasm"))?;
        peer::compile(tools, Peer::Wasmtime, &subject)?;
        subjects.push((how, subject));
    }
    let mut runs: BTreeMap<String, Vec<Told>> = BTreeMap::new();
    let mut more: BTreeMap<(&str, &str), Vec<u64>> = BTreeMap::new();
    let rounds = if quick { 3 } else { 20 };
    for round in 0..rounds {
        for engine in engines {
            let name = format!("validation-{}-{round}", engine.name());
            let without: u64 =
                journal.kept(&name, || Ok(peer::run(tools, *engine, &plain)?.0.cpu))?;
            for (how, subject) in &subjects {
                let name = format!("validation-{how}-{}-{round}", engine.name());
                let (with, told): (u64, Told) = journal.kept(&name, || {
                    let (figures, text) = peer::run_told(tools, *engine, subject)?;
                    Ok((figures.cpu, read(&text)))
                })?;
                runs.entry(format!("{how}@{}", engine.name())).or_default().push(told);
                more.entry((*how, engine.name())).or_default().push(with.saturating_sub(without));
            }
        }
        if let Some(command) = tools.command() {
            let name = format!("validation-monitor-{round}");
            let told = journal.kept(&name, || monitored(&command, tools, &plain))?;
            runs.entry("monitor@wasm-aot".to_owned()).or_default().push(told);
        }
        eprintln!("wasmprof: validation, round {} of {rounds}", round + 1);
    }
    let calls = calls / 4 * 21;
    for (how, told) in &runs {
        rows(how, told, calls, report)?;
    }
    for ((how, engine), times) in more {
        let name = format!("validation/call/{how}@{engine}");
        let (each, pairs) = (Blocks::of(times.iter().copied()).median(0.0), times.len() as u64);
        let baseline = clocks.get(engine).map(|clock| 2.0 * clock);
        let row = Row::plain(name, each / calls as f64, "ns", pairs);
        report.rows.push(Row { baseline, ..row });
    }
    Ok(())
}

/// Parses the output of a profiled program: its flat profile.
fn read(text: &str) -> Told {
    let line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, _, total, _, _, calls, name, ..] = fields[..] else { return None };
        Some((name.to_owned(), (calls.parse().ok()?, total.parse::<f64>().ok()? * 1e6)))
    };
    let flat = text.split("Call graph").next().unwrap_or_default();
    flat.lines().filter_map(line).collect()
}

/// The same for the engine's monitor.
fn monitored(
    command: &std::path::Path,
    tools: &Tools,
    plain: &Subject,
) -> Result<Told, CorpusError> {
    let file = tools.folder().join("validation.profile");
    let what = "the monitor's profile of validation";
    let monitor = format!("profile,file={}", file.display());
    let output =
        Command::new(command).args(["run", "--monitor", &monitor]).arg(&plain.module).output();
    let output = output.map_err(CorpusError::io(what))?;
    if !output.status.success() {
        return Err(failed(what, &String::from_utf8_lossy(&output.stderr)));
    }
    let bytes = std::fs::read(&file).map_err(CorpusError::io(what))?;
    let profile = Profile::from_file(&bytes).map_err(|error| failed(what, &error))?;
    let told = profile.functions.iter().map(|function| {
        let time = function.total.map_or(0.0, |total| total.value);
        (function.label.name.clone(), (function.calls.value as u64, time))
    });
    Ok(told.collect())
}

fn rows(how: &str, runs: &[Told], calls: u64, report: &mut Report) -> Result<(), CorpusError> {
    let each = |name: &str| {
        runs.iter()
            .map(|told| told.get(name).copied())
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| failed(&format!("validation by {how}"), &format!("it has no {name}")))
    };
    for (counted, _) in each("add")? {
        if counted != calls {
            let said = format!("{counted} calls of add, and not {calls}");
            return Err(failed(&format!("validation by {how}"), &said));
        }
    }
    let name = format!("validation/add/calls/{how}");
    report.rows.push(Row::compared(name, "k", &exactly([calls, calls])));
    let times = |name: &str| {
        Ok(Blocks::of(each(name)?.into_iter().map(|(calls, time)| time as u64 / calls.max(1))))
    };
    let main = times("f_main_1")?;
    for function in FUNCTIONS {
        if let Some(ratio) = Ratio::of(&times(function)?, &main, 0.0) {
            let name = format!("validation/{function}/{how}");
            report.rows.push(Row::compared(name, "us", &thousandths(&ratio)));
        }
    }
    Ok(())
}
