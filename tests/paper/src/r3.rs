//! Recording, reducing and replaying (`r3`), beside the figures of Wasm-R3 (Baek and others, OOPSLA
//! 2024): what recording costs, how much is kept, how long a replay is made and runs, and whether
//! it does the same.
//!
//! Each round runs every program once as it is, once recorded by the engine, once as it records
//! itself, and once as its replay, one after the other, each in a process of its own; a ratio is
//! that of two runs of the same round, by the processors' time.
//!
//! | row | what it is |
//! |---|---|
//! | `P/record@wasm-aot`, `P/rewriting@wasm-aot` | recorded by the engine, and by rewriting, beside the program as it is |
//! | `P/replay@wasm-aot` | the replay, beside the program |
//! | `P/events` | events that are kept; beside them what recording every load, call, entry, return, table and global access would write |
//! | `P/events@rewriting` | events that are kept by rewriting, beside those that the engine keeps |
//! | `P/generation` | the processors' time of making the replay, a kept event |
//! | `P/same` | 1 if record, replay, record gives the same trace, and both replays check themselves |
//! | `P/engines` | in how many of the engines that are there the replay passes all events; beside how many there are |
//! | `geomean/…`, `worst/…` | over the programs |

use crate::corpus::{Corpus, CorpusError, child, is_there};
use crate::engine::peer::Subject;
use crate::engine::program;
use crate::engine::tools::Tools;
use crate::report::{Report, Row};
use crate::selection::Selection;
use crate::wizard::{Runs, rows};
use std::error::Error;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a replay that checks itself: its file, and how many events it has to pass.
const SCRIPTS: [(&str, &str); 2] = [
    ("r3.py", include_str!("../../../wasm-aot/tests/recording/engines.py")),
    ("r3.js", include_str!("../../../wasm-aot/tests/recording/engines.js")),
];

/// What was published: events that remain of all, recording at worst, and a kept event's
/// generation.
const PUBLISHED: &str = "Published of Wasm-R3: 0.1 % of all events remain (mean over 17 \
    applications 8.5 %); recording costs up to 6x on interactive sites; generation takes 0.7 to \
    378 us a kept event; 17 of 17 replays run on eight engines, and 17 of 17 traces are the same \
    after a replay.";

/// The commands that are measured.
struct Commands {
    wasm_aot: PathBuf,
    whamm: PathBuf,
    folder: PathBuf,
    /// Engines that run replays: a name, a program, and its script.
    engines: Vec<(&'static str, PathBuf, PathBuf)>,
}

/// A program in its forms.
struct Recorded {
    subject: Subject,
    trace: PathBuf,
    itself: PathBuf,
    bench: PathBuf,
    runs: Runs,
}

pub(crate) fn measure(quick: bool, only: &[String]) -> Result<Report, Box<dyn Error>> {
    let candidates = program::candidates();
    let selection = Selection::new(only, candidates.iter().map(program::Candidate::name))?;
    let corpus = Corpus::prepare()?;
    let tools = Tools::prepare(&corpus, false)?;
    let commands = Commands::prepare(&corpus, &tools)?;
    let mut report = Report::new("r3");
    let mut all = Vec::new();
    for candidate in candidates.iter().filter(|candidate| selection.holds(candidate.name())) {
        let subject = candidate.subject(&corpus, &tools)?;
        eprintln!("r3: recording {}", subject.name);
        all.push(commands.recorded(subject, &mut report)?);
    }
    let rounds = if quick { 3 } else { 15 };
    for round in 0..rounds {
        for recorded in &mut all {
            commands.run(recorded)?;
        }
        eprintln!("r3: round {} of {rounds}", round + 1);
    }
    let all: Vec<Runs> = all.into_iter().map(|recorded| recorded.runs).collect();
    rows(&all, &mut report);
    report.notes.push(PUBLISHED.into());
    Ok(report)
}

impl Commands {
    fn prepare(corpus: &Corpus, tools: &Tools) -> Result<Self, Box<dyn Error>> {
        let this = std::env::current_exe()?;
        let command = |name: &'static str| {
            let path = this.with_file_name(name);
            match path.exists() {
                true => Ok(path),
                false => Err(CorpusError::Missing(format!(
                    "{name} (cargo build --release -p wasm-aot -p whamm)"
                ))),
            }
        };
        let folder = corpus.folder().join("r3");
        std::fs::create_dir_all(&folder)?;
        for (name, text) in SCRIPTS {
            std::fs::write(folder.join(name), text)?;
        }
        let mut engines = vec![("wasmtime", tools.python(), folder.join("r3.py"))];
        if is_there("node") {
            engines.push(("node", "node".into(), folder.join("r3.js")));
        }
        Ok(Self { wasm_aot: command("wasm-aot")?, whamm: command("whamm")?, folder, engines })
    }

    /// Runs a command of ours to its good end.
    fn done(
        &self,
        command: &Path,
        args: &[&dyn AsRef<OsStr>],
    ) -> Result<child::Outcome, CorpusError> {
        let mut line = Command::new(command);
        line.current_dir(&self.folder);
        args.iter().for_each(|arg| {
            line.arg(arg.as_ref());
        });
        let what = format!("{line:?}");
        let outcome = child::run(&mut line).map_err(CorpusError::io(what.clone()))?;
        match outcome.success {
            true => Ok(outcome),
            false => Err(CorpusError::Failed { what, said: outcome.said() }),
        }
    }

    /// Records a program in both ways, and tells all that is not a matter of time.
    fn recorded(&self, subject: Subject, report: &mut Report) -> Result<Recorded, CorpusError> {
        let name = subject.name;
        let path = |kind: &str| self.folder.join(format!("{name}.{kind}"));
        let [trace, itself, bench] = ["r3", "rec.wasm", "bench.wasm"].map(path);
        let aot = &self.wasm_aot;
        let own = format!("{name}.self.r3");
        self.done(&self.whamm, &[&"record", &subject.module, &"-o", &itself, &"--to", &own])?;
        let runs = ["record", "rewriting", "replay"].map(|way| (way.to_owned(), Vec::new()));
        let runs = Runs { program: name, plain: Vec::new(), observed: runs.into() };
        let recorded = Recorded { subject, trace, itself, bench, runs };
        self.record(&recorded, &recorded.trace)?;
        self.record_itself(&recorded)?;
        let made = self.done(aot, &[&"replay", &recorded.trace, &"-o", &recorded.bench])?;
        let events = self.events(&recorded.trace)?;
        let kept = self.events(&self.folder.join(&own))?;
        let raw = self.raw(&recorded)?;
        let row = |name: String, value: u64, baseline: u64| Row {
            baseline: Some(baseline as f64),
            ratio: Some(value as f64 / baseline.max(1) as f64),
            ..Row::plain(name, value as f64, "", 1)
        };
        report.rows.push(row(format!("{name}/events"), events, raw));
        report.rows.push(row(format!("{name}/events@rewriting"), kept, events));
        let each = made.cpu.as_nanos() as f64 / events.max(1) as f64;
        report.rows.push(Row::plain(format!("{name}/generation"), each, "ns", 1));
        let same = u8::from(self.is_same(&recorded, &own)?);
        report.rows.push(Row::plain(format!("{name}/same"), same.into(), "", 1));
        let (passed, all) = self.engines(&recorded, events)?;
        report.rows.push(row(format!("{name}/engines"), passed, all));
        Ok(recorded)
    }

    fn plain(&self, recorded: &Recorded) -> Result<child::Outcome, CorpusError> {
        let Subject { module, arguments, .. } = &recorded.subject;
        self.done(&self.wasm_aot, &[&"run", module, &arguments[0]])
    }

    fn record(&self, recorded: &Recorded, trace: &Path) -> Result<child::Outcome, CorpusError> {
        let Subject { module, arguments, .. } = &recorded.subject;
        self.done(&self.wasm_aot, &[&"record", &"-o", &trace, module, &arguments[0]])
    }

    fn record_itself(&self, recorded: &Recorded) -> Result<child::Outcome, CorpusError> {
        let argument = &recorded.subject.arguments[0];
        self.done(&self.wasm_aot, &[&"run", &"--dir", &".", &recorded.itself, argument])
    }

    /// How many events a trace has.
    fn events(&self, trace: &Path) -> Result<u64, CorpusError> {
        let said = self.done(&self.wasm_aot, &[&"trace", &"show", &trace])?.stdout;
        let text = String::from_utf8_lossy(&said);
        let last = text.lines().last().unwrap_or_default();
        let count = last.trim_start_matches("# ").split(' ').next().and_then(|n| n.parse().ok());
        count.ok_or_else(|| CorpusError::Failed { what: "trace show".into(), said: last.into() })
    }

    /// How many events there would be if every load, call, entry, return, table and global access
    /// were one: by our own counters.
    fn raw(&self, recorded: &Recorded) -> Result<u64, CorpusError> {
        let Subject { module, arguments, .. } = &recorded.subject;
        let args: [&dyn AsRef<OsStr>; 5] =
            [&"run", &"--monitor", &"opcodes", module, &arguments[0]];
        let said = self.done(&self.wasm_aot, &args)?.stderr;
        let text = String::from_utf8_lossy(&said);
        let of = |line: &str| {
            // Instruction, how often it is there, how often it was executed.
            let mut words = line.split_whitespace();
            let opcode = words.next()?;
            let count: u64 = words.nth(1)?.parse().ok()?;
            let each = match opcode {
                // The call, the entry and the return.
                call if call.starts_with("call") || call.starts_with("return_call") => 3,
                "global.get" | "table.get" => 1,
                load if load.contains(".load") => 1,
                _ => 0,
            };
            Some(count * each)
        };
        Ok(text.lines().filter_map(of).sum())
    }

    /// Whether a replay that is recorded again gives the same trace, and both check themselves.
    fn is_same(&self, recorded: &Recorded, own: &str) -> Result<bool, CorpusError> {
        let again = self.folder.join(format!("{}.again.r3", recorded.subject.name));
        let aot = &self.wasm_aot;
        self.done(aot, &[&"record", &"-o", &again, &recorded.trace])?;
        let differs = self.done(aot, &[&"trace", &"diff", &recorded.trace, &again]).is_err();
        self.done(aot, &[&"replay", &"--check", &recorded.trace])?;
        self.done(aot, &[&"replay", &"--check", &own, &recorded.subject.module])?;
        Ok(!differs)
    }

    /// In how many engines the replay passes all events, of how many.
    fn engines(&self, recorded: &Recorded, events: u64) -> Result<(u64, u64), CorpusError> {
        let checked = self.folder.join(format!("{}.checked.wasm", recorded.subject.name));
        let aot = &self.wasm_aot;
        self.done(aot, &[&"replay", &"--check", &recorded.trace, &"-o", &checked])?;
        let mut passed = u64::from(self.done(aot, &[&"run", &checked]).is_ok());
        for (name, program, script) in &self.engines {
            match self.done(program, &[script, &checked, &events.to_string()]) {
                Ok(_) => passed += 1,
                Err(error) => eprintln!("r3: {}: {name}: {error}", recorded.subject.name),
            }
        }
        Ok((passed, 1 + self.engines.len() as u64))
    }

    /// A round.
    fn run(&self, recorded: &mut Recorded) -> Result<(), CorpusError> {
        let plain = self.plain(recorded)?;
        let again = self.record(recorded, &recorded.trace)?;
        let itself = self.record_itself(recorded)?;
        let replay = self.done(&self.wasm_aot, &[&"run", &recorded.bench])?;
        for (outcome, build) in [(&again, "recorded"), (&itself, "rewritten")] {
            if outcome.stdout != plain.stdout {
                return Err(CorpusError::Differs { program: recorded.subject.name, build });
            }
        }
        let micros = |outcome: &child::Outcome| outcome.cpu.as_micros() as u64;
        recorded.runs.plain.push(micros(&plain));
        for ((_, times), outcome) in recorded.runs.observed.iter_mut().zip([again, itself, replay])
        {
            times.push(micros(&outcome));
        }
        Ok(())
    }
}
