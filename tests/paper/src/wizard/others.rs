//! Other tools that count: the product's compiler, which rewrites programs, and foreign tools, if
//! they are installed.

use crate::corpus::{CorpusError, child, is_there};
use crate::engine::peer::{self, Peer, Subject};
use crate::engine::thousandths;
use crate::engine::tools::Tools;
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use std::process::Command;
use whamm::{Destination, Options, Source};

/// Monitors that the product's compiler inserts into programs.
const SCRIPTS: [(&str, &str); 2] = [
    ("hotness", include_str!("../../../../whamm/monitors/hotness.mm")),
    ("branches", include_str!("../../../../whamm/monitors/branches.mm")),
];

/// The CPU times of a program with an inserted monitor.
pub(super) struct Rewritten {
    pub(super) monitor: &'static str,
    pub(super) subject: Subject,
    pub(super) times: Vec<u64>,
}

impl Rewritten {
    pub(super) fn make_all(tools: &Tools, plain: &Subject) -> Result<Vec<Self>, CorpusError> {
        SCRIPTS.iter().map(|(monitor, script)| Self::make(tools, plain, monitor, script)).collect()
    }

    fn make(
        tools: &Tools,
        plain: &Subject,
        monitor: &'static str,
        script: &str,
    ) -> Result<Self, CorpusError> {
        let io = |path: &std::path::Path| CorpusError::io(path.display().to_string());
        let program = std::fs::read(&plain.module).map_err(io(&plain.module))?;
        let options = Options { destination: Destination::Console, ..Options::default() };
        let output = whamm::instrument(
            &[Source::new(format!("{monitor}.mm"), script)],
            &[],
            &program,
            &options,
        );
        let failed = |said: whamm::Diagnostics| CorpusError::Failed {
            what: monitor.into(),
            said: said.to_string(),
        };
        let module = tools.folder().join(format!("{}-wizard-{monitor}.wasm", plain.name));
        std::fs::write(&module, output.map_err(failed)?.module).map_err(io(&module))?;
        let subject = Subject { module, ..plain.clone() };
        peer::compile(tools, Peer::WasmAot, &subject)?;
        Ok(Self { monitor, subject, times: Vec::new() })
    }
}

/// A foreign tool that counts: its name, what it counts, and whether it treats the module as a
/// native program.
struct Tool {
    name: &'static str,
    command: &'static str,
    counts: &'static str,
    options: &'static [&'static str],
    is_native: bool,
}

const TOOLS: [Tool; 3] = [
    Tool {
        name: "perf",
        command: "perf",
        counts: "icount",
        options: &["stat", "-e", "instructions:u", "--"],
        is_native: true,
    },
    Tool {
        name: "valgrind",
        command: "valgrind",
        counts: "icount",
        options: &["-q", "--tool=lackey", "--basic-counts=yes"],
        is_native: true,
    },
    Tool {
        name: "wizard",
        command: "wizeng",
        counts: "hotness",
        options: &["--mode=jit", "--monitors=hotness"],
        is_native: false,
    },
];

/// Amounts of work that are short enough for a tool which takes a hundred times as long.
const BRIEF: [(&str, &str); 6] = [
    ("nbody", "600000"),
    ("sha256", "5"),
    ("quicksort", "1"),
    ("spectral", "8"),
    ("recursion", "5"),
    ("dispatch", "1000"),
];

/// Measures the installed tools.
pub(super) fn measure(
    tools: &Tools,
    subject: &Subject,
    quick: bool,
    report: &mut Report,
) -> Result<(), CorpusError> {
    let Some((_, brief)) = BRIEF.iter().find(|(name, _)| *name == subject.name) else {
        return Ok(());
    };
    let native = is_there("wasm2c");
    if native {
        peer::compile(tools, Peer::Wasm2c, subject)?;
    }
    'tools: for tool in
        TOOLS.iter().filter(|tool| is_there(tool.command) && (native || !tool.is_native))
    {
        let mut plain = match tool.is_native {
            true => Command::new(subject.compiled(Peer::Wasm2c)),
            false => {
                let mut command = Command::new(tool.command);
                command.arg(tool.options[0]).arg(&subject.module);
                command
            }
        };
        plain.arg(brief);
        let mut counting = Command::new(tool.command);
        counting.args(tool.options);
        match tool.is_native {
            true => counting.arg(subject.compiled(Peer::Wasm2c)),
            false => counting.arg(&subject.module),
        };
        counting.arg(brief);
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..if quick { 3 } else { 11 } {
            let [without, with] = [&mut plain, &mut counting].map(child::run);
            let (without, with) = (
                without.map_err(CorpusError::io(subject.name))?,
                with.map_err(CorpusError::io(tool.name))?,
            );
            // Without the processor's counters, nothing was counted.
            if String::from_utf8_lossy(&with.stderr).contains("<not supported>") {
                report.notes.push(format!(
                    "peer/{}/{} skipped: it can count nothing on this machine.",
                    tool.name, subject.name
                ));
                continue 'tools;
            }
            if !with.success || !with.stdout.starts_with(&without.stdout) {
                return Err(CorpusError::Failed {
                    what: format!("{} in {}", subject.name, tool.name),
                    said: with.said(),
                });
            }
            times[0].push(with.cpu.as_nanos() as u64);
            times[1].push(without.cpu.as_nanos() as u64);
        }
        let [with, without] = times.map(Blocks::of);
        let name = format!("peer/{}/{}/{}", tool.name, subject.name, tool.counts);
        report.rows.extend(
            Ratio::of(&with, &without, 0.0)
                .map(|ratio| Row::compared(name, "us", &thousandths(&ratio))),
        );
    }
    Ok(())
}

/// The missing tools, in sentences.
pub(super) fn missing() -> Vec<String> {
    let tools = TOOLS.iter().filter(|tool| !is_there(tool.command));
    let mut notes: Vec<String> = tools
        .map(|tool| format!("peer/{} skipped: {} is not installed.", tool.name, tool.command))
        .collect();
    if !is_there("wasm2c") {
        notes.push(
            "peer/perf and peer/valgrind skipped: wasm2c (wabt), which makes native programs of modules, is not installed."
                .into(),
        );
    }
    notes.push(match is_there("wasabi") {
        true => "peer/wasabi skipped: what it makes needs a host in JavaScript, which programs of WASI do not have here.".into(),
        false => "peer/wasabi skipped: wasabi is not installed.".into(),
    });
    notes
}
