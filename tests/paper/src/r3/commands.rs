//! The measured commands, each in a process of its own, and the engines that run replays.

use super::kinds::Kinds;
use super::subject::Subject;
use crate::corpus::{Corpus, CorpusError, child, is_there};
use crate::engine::tools::Tools;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

/// Scripts that run a replay which checks itself, with its file and its number of events as
/// arguments.
const SCRIPTS: [(&str, &str); 3] = [
    ("r3.py", include_str!("../../../../wasm-aot/tests/recording/engines.py")),
    ("r3.js", include_str!("../../../../wasm-aot/tests/recording/engines.js")),
    ("scripts.js", include_str!("../../../../wasm-aot/tests/recording/scripts.js")),
];

/// `wasm-aot` and `whamm`, and their working folder.
#[derive(Debug)]
pub(super) struct Commands {
    pub(super) wasm_aot: PathBuf,
    pub(super) whamm: PathBuf,
    pub(super) folder: PathBuf,
    engines: Vec<Runner>,
}

/// An engine that runs replays.
#[derive(Debug)]
struct Runner {
    name: &'static str,
    program: PathBuf,
    /// The script that runs a replay there and checks its exports; an engine without a script shows
    /// by its exit code whether the replay has trapped.
    script: Option<PathBuf>,
    /// Whether it runs the replay that is a script.
    is_for_scripts: bool,
}

/// The findings about a program, made once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Findings {
    /// The numbers of all events, of those that the engine keeps, and of those that the program
    /// itself keeps.
    pub(super) raw: Kinds,
    pub(super) kept: Kinds,
    pub(super) itself: Kinds,
    /// Milliseconds of the wall clock from the program to its replay.
    pub(super) pipeline: f64,
    /// Whether record, replay, record yields the same trace, and both replays check themselves.
    pub(super) is_same: bool,
    /// The reason why a replay does not pass all events, by the engine's name; `None` if it does.
    pub(super) engines: BTreeMap<String, Option<String>>,
}

/// Nanoseconds of CPU time: as it is, recorded by the engine, recorded by itself, the replay, and
/// the generation of the replay.
pub(super) type Round = [u64; 5];

impl Commands {
    pub(super) fn prepare(corpus: &Corpus, tools: &Tools) -> Result<Self, CorpusError> {
        let this = std::env::current_exe().map_err(CorpusError::io("this program's own file"))?;
        let command = |name: &'static str| {
            let path = this.with_file_name(name);
            let missing = || format!("{name} (cargo build --release -p wasm-aot -p whamm)");
            path.exists().then_some(path).ok_or_else(|| CorpusError::Missing(missing()))
        };
        let folder = corpus.folder().join("r3");
        let failed = || CorpusError::io(folder.display().to_string());
        std::fs::create_dir_all(&folder).map_err(failed())?;
        for (name, text) in SCRIPTS {
            std::fs::write(folder.join(name), text).map_err(failed())?;
        }
        let runner = |name, program: PathBuf, script: &str, is_for_scripts| Runner {
            name,
            program,
            script: Some(folder.join(script)),
            is_for_scripts,
        };
        let wasm_aot = command("wasm-aot")?;
        let mut engines = vec![runner("wasmtime", tools.python(), "r3.py", false)];
        if is_there("node") {
            engines.push(runner("node", "node".into(), "r3.js", false));
            engines.push(runner("node-script", "node".into(), "scripts.js", true));
        }
        if is_there("wizeng") {
            let program = "wizeng".into();
            engines.push(Runner { name: "wizard", program, script: None, is_for_scripts: false });
        }
        Ok(Self { wasm_aot, whamm: command("whamm")?, folder, engines })
    }

    /// The names of engines that run replays: the product, and those that are installed.
    pub(super) fn engines(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once("wasm-aot").chain(self.engines.iter().map(|engine| engine.name))
    }

    /// Runs a command that must succeed.
    fn done(
        &self,
        command: impl AsRef<OsStr>,
        args: &[&dyn AsRef<OsStr>],
        more: &[String],
    ) -> Result<child::Outcome, CorpusError> {
        let mut line = Command::new(command);
        line.current_dir(&self.folder);
        args.iter().for_each(|arg| {
            line.arg(arg.as_ref());
        });
        line.args(more);
        let what = format!("{line:?}");
        let outcome = child::run(&mut line).map_err(CorpusError::io(what.clone()))?;
        let failed = |said| CorpusError::Failed { what, said };
        // A replay that diverges from its events reports that on its standard output.
        match (outcome.success, &outcome.stderr[..], &outcome.stdout[..]) {
            (true, ..) => Ok(outcome),
            (false, [], said) => Err(failed(String::from_utf8_lossy(said).trim().to_owned())),
            (false, ..) => Err(failed(outcome.said())),
        }
    }

    pub(super) fn plain(&self, it: &Subject) -> Result<child::Outcome, CorpusError> {
        self.done(&self.wasm_aot, &[&"run", &"--dir", &".", &it.module], &it.arguments)
    }

    fn record(&self, it: &Subject) -> Result<child::Outcome, CorpusError> {
        let trace = it.file("r3");
        let args: [&dyn AsRef<OsStr>; 6] = [&"record", &"--dir", &".", &"-o", &trace, &it.module];
        self.done(&self.wasm_aot, &args, &it.arguments)
    }

    fn record_itself(&self, it: &Subject) -> Result<child::Outcome, CorpusError> {
        let rewritten = it.file("rec.wasm");
        self.done(&self.wasm_aot, &[&"run", &"--dir", &".", &rewritten], &it.arguments)
    }

    fn generate(&self, it: &Subject, bench: &str) -> Result<child::Outcome, CorpusError> {
        let args: [&dyn AsRef<OsStr>; 4] = [&"replay", &it.file("r3"), &"-o", &it.file(bench)];
        self.done(&self.wasm_aot, &args, &[])
    }

    fn replay(&self, it: &Subject) -> Result<child::Outcome, CorpusError> {
        self.done(&self.wasm_aot, &[&"run", &it.file("bench.wasm")], &[])
    }

    /// Records a program in both ways, and makes the findings that do not depend on a round.
    pub(super) fn findings(&self, it: &Subject) -> Result<Findings, CorpusError> {
        let own = it.file("self.r3");
        let rewritten = it.file("rec.wasm");
        self.done(&self.whamm, &[&"record", &it.module, &"-o", &rewritten, &"--to", &own], &[])?;
        // The program is then compiled before it runs, as in every round.
        self.plain(it)?;
        let pipeline = self.record(it)?.wall + self.generate(it, "bench.wasm")?.wall;
        self.replay(it)?;
        self.record_itself(it)?;
        let kept = Kinds::of_trace(&self.folder.join(it.file("r3")))?;
        let itself = Kinds::of_trace(&self.folder.join(&own))?;
        let args: [&dyn AsRef<OsStr>; 6] =
            [&"run", &"--monitor", &"opcodes", &"--dir", &".", &it.module];
        let counts = self.done(&self.wasm_aot, &args, &it.arguments)?;
        let raw = Kinds::of_counts(&String::from_utf8_lossy(&counts.stderr), &kept);
        let pipeline = pipeline.as_secs_f64() * 1e3;
        let (is_same, engines) = (self.is_same(it, &own)?, self.portability(it)?);
        Ok(Findings { raw, kept, itself, pipeline, is_same, engines })
    }

    /// Whether a replay that is recorded again yields the same trace, and both replays check
    /// themselves.
    fn is_same(&self, it: &Subject, own: &str) -> Result<bool, CorpusError> {
        let (trace, again) = (it.file("r3"), it.file("again.r3"));
        let said = |what: &str, error: &CorpusError| eprintln!("r3: {}: {what}: {error}", it.name);
        let holds = |what, outcome: Result<child::Outcome, CorpusError>| match outcome {
            Ok(_) => true,
            Err(error) => {
                said(what, &error);
                false
            }
        };
        let run = |args: &[&dyn AsRef<OsStr>]| self.done(&self.wasm_aot, args, &[]);
        run(&[&"record", &"-o", &again, &trace])?;
        let is_same = holds("recorded again", run(&[&"trace", &"diff", &trace, &again]));
        let checks = holds("checked", run(&[&"replay", &"--check", &trace]));
        let itself = run(&[&"replay", &"--check", &own, &it.module]);
        Ok(is_same && checks && holds("by rewriting", itself))
    }

    /// The engines in which the replay passes all events.
    fn portability(&self, it: &Subject) -> Result<BTreeMap<String, Option<String>>, CorpusError> {
        let (trace, module, script) =
            (it.file("r3"), it.file("checked.wasm"), it.file("checked.js"));
        let run = |args: &[&dyn AsRef<OsStr>]| self.done(&self.wasm_aot, args, &[]);
        run(&[&"replay", &"--check", &trace, &"-o", &module])?;
        run(&[&"replay", &"--check", &"--js", &trace, &"-o", &script])?;
        let events = Kinds::of_trace(&self.folder.join(&trace))?.all().to_string();
        let mut found = BTreeMap::new();
        let mut tell = |name: &str, outcome: Result<child::Outcome, CorpusError>| {
            let why = outcome.err().map(|error| error.to_string());
            if let Some(why) = &why {
                eprintln!("r3: {}: {name}: {why}", it.name);
            }
            found.insert(name.to_owned(), why);
        };
        tell("wasm-aot", run(&[&"run", &module]));
        for engine in &self.engines {
            let replay = self.folder.join(if engine.is_for_scripts { &script } else { &module });
            tell(
                engine.name,
                match &engine.script {
                    Some(with) => self.done(&engine.program, &[with, &replay, &events], &[]),
                    None => self.done(&engine.program, &[&replay], &[]),
                },
            );
        }
        Ok(found)
    }

    /// A round; the output has to be the same in all ways.
    pub(super) fn round(&self, it: &Subject) -> Result<Round, CorpusError> {
        let plain = self.plain(it)?;
        let (recorded, itself) = (self.record(it)?, self.record_itself(it)?);
        // The replay of another run is another module, which would have to be compiled.
        let made = self.generate(it, "made.wasm")?;
        let replay = self.replay(it)?;
        for (outcome, build) in [(&recorded, "recorded"), (&itself, "rewritten")] {
            if outcome.stdout != plain.stdout {
                return Err(CorpusError::Differs { program: it.name, build });
            }
        }
        let nanos = |outcome: &child::Outcome| outcome.cpu.as_nanos() as u64;
        Ok([&plain, &recorded, &itself, &replay, &made].map(nanos))
    }
}
