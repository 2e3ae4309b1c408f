//! The engines that run a module: the product's and the peers that it is compared with. Each run
//! has a process of its own.
//!
//! | peer | what it is | what is measured |
//! |---|---|---|
//! | `wasmtime` | the Python package, of the same generation of Cranelift | everything, from within the process |
//! | `node` | its optimising compiler alone, for the whole module before it starts | running |
//! | `wasm2c` | the module as C, by gcc -O2, with its own host (`wasi.c`) | running, by the process's own figures |

use super::tools::Tools;
use super::wasm_aot::Figures;
use crate::corpus::{CorpusError, child};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An engine, and the mode in which it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    WasmAot,
    /// The product, without mitigations of speculation past bounds checks.
    NoSpectre,
    /// The product, without sites where probes can be switched on.
    NoSites,
    /// The product, with sites at functions only.
    FunctionSites,
    /// The product, with sites before calls and branches, too.
    BranchSites,
    /// The product, with sites before every instruction.
    AllSites,
    /// The product, with code that counts every execution.
    Counting,
    Wasmtime,
    Node,
    Wasm2c,
}

impl Peer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::WasmAot => "wasm-aot",
            Self::NoSpectre => "no-spectre",
            Self::NoSites => "no-sites",
            Self::FunctionSites => "function-sites",
            Self::BranchSites => "branch-sites",
            Self::AllSites => "all-sites",
            Self::Counting => "counting",
            Self::Wasmtime => "wasmtime",
            Self::Node => "node",
            Self::Wasm2c => "wasm2c",
        }
    }

    /// Whether it is optional for a program: if it cannot run a program, the others are still
    /// measured.
    pub(super) fn is_optional(self) -> bool {
        matches!(self, Self::Node | Self::Wasm2c)
    }

    /// Whether it compiles to files of machine code that are loaded for each run.
    pub(super) fn is_ahead_of_time(self) -> bool {
        !self.is_optional()
    }
}

/// A module, and its compiled files.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    pub(crate) module: PathBuf,
    pub(crate) arguments: Vec<String>,
    /// The variables of its environment.
    pub(crate) environment: Vec<(&'static str, &'static str)>,
    /// Modules that it imports from, under their names; for engines with compiled files.
    pub(crate) beside: Vec<Subject>,
    /// The monitor that observes it, if there is one; for the product.
    pub(crate) observed: Option<Observed>,
    /// Whether it counts its own steps, which must then be the same in all engines.
    pub(crate) counts: bool,
}

impl Subject {
    pub(crate) fn new(name: &'static str, module: PathBuf) -> Self {
        Self {
            name,
            module,
            arguments: Vec::new(),
            environment: Vec::new(),
            beside: Vec::new(),
            observed: None,
            counts: false,
        }
    }

    /// The file that a peer runs.
    pub(crate) fn compiled(&self, peer: Peer) -> PathBuf {
        match peer {
            Peer::Node => self.module.clone(),
            _ => self.module.with_extension(peer.name()),
        }
    }
}

/// A monitor that is a module.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    pub(crate) monitor: PathBuf,
    pub(crate) library: Option<PathBuf>,
    pub(crate) manner: Manner,
}

/// The way in which its functions are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Not called: they are inlined.
    WrittenOut,
    /// By calls.
    Called,
    /// Through the host, as for monitors whose failures must not affect the program.
    Hosted,
}

/// Compiles a module as a peer does, for [`run`] to run.
pub(crate) fn compile(
    tools: &Tools,
    peer: Peer,
    subject: &Subject,
) -> Result<Figures, CorpusError> {
    let compiled = subject.compiled(peer);
    if peer == Peer::Wasm2c {
        return tools.wasm2c(&subject.module, &compiled).map(|()| Figures::default());
    }
    let mut command = command(tools, peer, "compile");
    command.arg(tools.figures()).arg(&subject.module).arg(compiled);
    Ok(measure(tools, peer, subject, &mut command)?.0)
}

/// Runs it on the product with built-in monitors, and returns its output.
pub(crate) fn run_monitored(
    tools: &Tools,
    subject: &Subject,
    monitors: &[&str],
) -> Result<(Figures, Vec<u8>), CorpusError> {
    let peer = Peer::WasmAot;
    let mut command = command(tools, peer, "run");
    command.args(monitors.iter().flat_map(|monitor| ["--builtin", monitor]));
    run_with(tools, peer, subject, command)
}

/// Runs it in node, under node's profiler.
pub(crate) fn run_sampled(tools: &Tools, subject: &Subject) -> Result<Figures, CorpusError> {
    let samples = tools.folder().join("samples");
    let folder = format!("--cpu-prof-dir={}", samples.display());
    let command = node(tools, &["--cpu-prof", &folder], "run");
    let figures = outcome_with(tools, Peer::Node, subject, command)?.0;
    std::fs::remove_dir_all(&samples).map_err(CorpusError::io(samples.display().to_string()))?;
    Ok(figures)
}

/// Compiles it with or without built-in monitors, runs it on the product, and returns its output.
pub(crate) fn run_from_source(
    tools: &Tools,
    subject: &Subject,
    monitors: &[&str],
) -> Result<(Figures, Vec<u8>), CorpusError> {
    let peer = Peer::WasmAot;
    let mut command = command(tools, peer, "run");
    command.arg("--source").arg(&subject.module);
    command.args(monitors.iter().flat_map(|monitor| ["--builtin", monitor]));
    run_with(tools, peer, subject, command)
}

/// Runs it, and returns its output.
pub(crate) fn run(
    tools: &Tools,
    peer: Peer,
    subject: &Subject,
) -> Result<(Figures, Vec<u8>), CorpusError> {
    let compiled = subject.compiled(peer);
    if peer == Peer::Wasm2c {
        let outcome = succeed(peer, subject, Command::new(&compiled).args(&subject.arguments))?;
        let cpu = outcome.cpu.as_nanos() as u64;
        return Ok((
            Figures { cpu, wall: outcome.wall.as_nanos() as u64, ..Figures::default() },
            outcome.stdout,
        ));
    }
    run_with(tools, peer, subject, command(tools, peer, "run"))
}

/// Runs it, and returns its error output.
pub(crate) fn run_told(
    tools: &Tools,
    peer: Peer,
    subject: &Subject,
) -> Result<(Figures, String), CorpusError> {
    let (figures, outcome) = outcome_with(tools, peer, subject, command(tools, peer, "run"))?;
    Ok((figures, String::from_utf8_lossy(&outcome.stderr).into_owned()))
}

fn run_with(
    tools: &Tools,
    peer: Peer,
    subject: &Subject,
    command: Command,
) -> Result<(Figures, Vec<u8>), CorpusError> {
    outcome_with(tools, peer, subject, command).map(|(figures, outcome)| (figures, outcome.stdout))
}

fn outcome_with(
    tools: &Tools,
    peer: Peer,
    subject: &Subject,
    mut command: Command,
) -> Result<(Figures, child::Outcome), CorpusError> {
    let compiled = subject.compiled(peer);
    command.arg(tools.figures());
    command.args((subject.counts && peer == Peer::WasmAot).then_some("--first-piece"));
    for (name, value) in &subject.environment {
        command.arg("--env").arg(format!("{name}={value}"));
    }
    for module in &subject.beside {
        command.arg("--beside").arg(format!("{}={}", module.name, module.compiled(peer).display()));
    }
    if let Some(observed) = &subject.observed {
        let manner = match observed.manner {
            Manner::WrittenOut => None,
            Manner::Called => Some("--called"),
            Manner::Hosted => Some("--hosted"),
        };
        command.arg("--monitor").arg(&observed.monitor).args(manner);
        if let Some(library) = &observed.library {
            command.arg("--library").arg(library);
        }
    }
    let file = if subject.observed.is_some() { subject.module.clone() } else { compiled };
    command.arg(file).args(&subject.arguments);
    measure(tools, peer, subject, &mut command)
}

fn command(tools: &Tools, peer: Peer, act: &str) -> Command {
    match peer {
        Peer::WasmAot
        | Peer::NoSpectre
        | Peer::NoSites
        | Peer::FunctionSites
        | Peer::BranchSites
        | Peer::AllSites
        | Peer::Counting
        | Peer::Wasm2c => {
            let mut command = Command::new(tools.this());
            let option = match peer {
                Peer::NoSpectre => &["--no-spectre"][..],
                Peer::NoSites => &["--sites", "none"],
                Peer::FunctionSites => &["--sites", "functions"],
                Peer::BranchSites => &["--sites", "calls,branches"],
                Peer::AllSites => &["--sites", "all"],
                Peer::Counting => &["--counts"],
                _ => &[],
            };
            command.arg("wasm-aot").args(option).arg(act);
            command
        }
        Peer::Wasmtime => {
            let mut command = Command::new(tools.python());
            command.arg(tools.script("wasmtime_peer.py")).arg(act);
            command
        }
        Peer::Node => node(tools, &[], act),
    }
}

fn node(tools: &Tools, options: &[&str], act: &str) -> Command {
    let mut command = Command::new("node");
    command.args([
        "--no-warnings",
        "--no-liftoff",
        "--no-wasm-lazy-compilation",
        "--no-wasm-dynamic-tiering",
    ]);
    command.args(options).arg(tools.script("node_peer.mjs")).arg(act);
    command
}

/// Runs a process that writes its figures to a file.
fn measure(
    tools: &Tools,
    peer: Peer,
    subject: &Subject,
    command: &mut Command,
) -> Result<(Figures, child::Outcome), CorpusError> {
    let outcome = succeed(peer, subject, command)?;
    let failed = |said: String| CorpusError::Failed { what: what(peer, subject), said };
    let figures = std::fs::read(tools.figures()).map_err(|error| failed(error.to_string()))?;
    let figures = serde_json::from_slice(&figures).map_err(|error| failed(error.to_string()))?;
    Ok((figures, outcome))
}

fn succeed(
    peer: Peer,
    subject: &Subject,
    command: &mut Command,
) -> Result<child::Outcome, CorpusError> {
    let outcome = child::run(command).map_err(CorpusError::io(what(peer, subject)))?;
    match outcome.success {
        true => Ok(outcome),
        false => {
            Err(CorpusError::Failed { what: what(peer, subject), said: complaint(&outcome.stderr) })
        }
    }
}

fn what(peer: Peer, subject: &Subject) -> String {
    format!("{} in {}", subject.name, peer.name())
}

/// The error message of a process: the program's first, and the interpreter's at the end.
fn complaint(stderr: &[u8]) -> String {
    let said = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines[..] {
        [] => "it said nothing".into(),
        [only] => only.into(),
        [first, .., last] => format!("{first} … {last}"),
    }
}

/// The number of bytes of machine code in a compiled file, up to the end of the last function,
/// since sections may be padded to a page.
pub(crate) fn code_size(compiled: &Path) -> Result<u64, CorpusError> {
    let bytes = std::fs::read(compiled).map_err(CorpusError::io(compiled.display().to_string()))?;
    let failed = |said: String| CorpusError::Failed {
        what: format!("reading {}", compiled.display()),
        said,
    };
    let elf = goblin::elf::Elf::parse(&bytes).map_err(|error| failed(error.to_string()))?;
    let text = elf
        .section_headers
        .iter()
        .find(|section| elf.shdr_strtab.get_at(section.sh_name) == Some(".text"));
    let text = text.ok_or_else(|| failed("it has no section .text".into()))?;
    let functions = elf.syms.iter().filter(goblin::elf::Sym::is_function);
    let end = functions.map(|symbol| symbol.st_value + symbol.st_size).max();
    end.and_then(|end| end.checked_sub(text.sh_addr))
        .ok_or_else(|| failed("it has no symbols of functions".into()))
}

/// The number of bytes of code in a module: its section 10.
pub(crate) fn module_size(module: &Path) -> Result<u64, CorpusError> {
    let bytes = std::fs::read(module).map_err(CorpusError::io(module.display().to_string()))?;
    let damaged = || CorpusError::Failed {
        what: format!("reading {}", module.display()),
        said: "it has no section of code".into(),
    };
    let mut rest = bytes.get(8..).ok_or_else(damaged)?;
    while let [section, after @ ..] = rest {
        let (len, read) = leb128(after).ok_or_else(damaged)?;
        if *section == 10 {
            return Ok(len);
        }
        rest = after.get(read + len as usize..).ok_or_else(damaged)?;
    }
    Err(damaged())
}

/// A number, and its length in bytes.
fn leb128(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, byte) in bytes.iter().enumerate().take(5) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}
