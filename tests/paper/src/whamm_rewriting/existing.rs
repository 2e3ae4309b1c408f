//! The existing compiler, if it is installed: its command, and the module that its output imports.

use crate::corpus::{CorpusError, child};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The only accepted version, since later ones may behave differently.
const VERSION: &str = "2.0.1";

/// The paths of the existing compiler.
#[derive(Debug)]
pub(crate) struct Existing {
    command: PathBuf,
    /// Its core library.
    pub(crate) core: PathBuf,
}

impl Existing {
    /// Searches its own folder below `folder`, where it is installed on request, and the search
    /// path; the error is the reason why it is missing.
    pub(crate) fn find(folder: &Path, install: bool) -> Result<Self, String> {
        let own = folder.join("existing");
        let candidates = [own.join("bin/whamm"), PathBuf::from("whamm")];
        let is_it = |command: &&PathBuf| {
            let output = Command::new(command).arg("--version").output();
            output.is_ok_and(|said| {
                String::from_utf8_lossy(&said.stdout).trim() == format!("whamm {VERSION}")
            })
        };
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        if install && !candidates.iter().any(|command| is_it(&command)) {
            eprintln!("whamm-rewriting: installing whamm {VERSION}");
            let mut command = Command::new(cargo);
            let _ = command
                .args(["install", "-q", "whamm", "--version", VERSION, "--locked", "--root"])
                .arg(&own)
                .output();
        }
        let Some(command) = candidates.iter().find(is_it) else {
            return Err(format!("no command whamm {VERSION} (--peers installs it)"));
        };
        let core = core().ok_or(
            "the sources of its package, which have the core library, are not in cargo's registry",
        )?;
        Ok(Self { command: command.clone(), core })
    }

    /// Compiles a script to a monitor module.
    pub(crate) fn monitor(&self, script: &Path, made: &Path) -> Result<(), String> {
        let outcome = child::run(
            Command::new(&self.command)
                .arg("instr")
                .arg("--wei")
                .arg("-s")
                .arg(script)
                .arg("-o")
                .arg(made),
        );
        match outcome {
            Ok(outcome) if outcome.success && made.exists() => Ok(()),
            Ok(outcome) => Err(outcome.said()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Instruments a program; returns the CPU time.
    pub(super) fn instrument(
        &self,
        script: &Path,
        program: &Path,
        library: Option<&Path>,
        made: &Path,
    ) -> Result<u64, CorpusError> {
        let mut command = Command::new(&self.command);
        command.arg("instr").arg("-s").arg(script).arg("-a").arg(program).arg("-o").arg(made);
        if let Some(library) = library {
            command.arg("-u").arg(format!("cache={}", library.display()));
        }
        let what =
            || format!("{} with {} by the existing compiler", program.display(), script.display());
        let outcome = child::run(&mut command).map_err(CorpusError::io(what()))?;
        if outcome.success && made.exists() {
            return Ok(outcome.cpu.as_nanos() as u64);
        }
        Err(CorpusError::Failed { what: what(), said: outcome.said() })
    }
}

/// The core library is part of the package that cargo has unpacked to build the command.
fn core() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    let registries = std::fs::read_dir(home.join("registry/src")).ok()?;
    let file = format!("whamm-{VERSION}/embedded/release/whamm_core.wasm");
    registries
        .filter_map(|registry| Some(registry.ok()?.path().join(&file)))
        .find(|path| path.exists())
}
