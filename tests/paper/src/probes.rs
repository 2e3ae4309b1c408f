//! A generated program with twenty thousand probes, the subject of tables 1 and 2.

use crate::corpus::floor::{self, Face};
use crate::corpus::{self, Corpus, CorpusError, child};
use crate::table3::observe;
use std::path::{Path, PathBuf};
use std::process::Command;

const TEXT: &str = include_str!("../corpus/probes.c");

/// The number of its probes, including those of its target.
pub(crate) const PROBES: usize = 20_002;

/// Its builds.
#[derive(Debug)]
pub(crate) struct Probes {
    corpus: Corpus,
    library: PathBuf,
    /// The instrumented build; its hooks come from the preloaded library.
    pub(crate) probed: PathBuf,
    /// The same with nops instead of the calls.
    pub(crate) floor: PathBuf,
}

impl Probes {
    pub(crate) fn build() -> Result<Self, CorpusError> {
        let corpus = Corpus::prepare_tools()?;
        let library = corpus::library()?;
        let probed =
            corpus.compile("probes.c", TEXT, "gcc", &["-finstrument-functions", "-pthread"])?;
        let floor = probed.with_extension("floor");
        if !floor.exists() {
            floor::overwrite(&probed, &floor, Face::Nop)?;
        }
        Ok(Self { corpus, library, probed, floor })
    }

    /// The build that uses the C interface.
    pub(crate) fn toggling(&self) -> Result<PathBuf, CorpusError> {
        let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fastinst/include");
        let folder = self.library.parent().unwrap_or(Path::new(".")).display().to_string();
        let flags = [
            "-DWITH_FASTINST",
            "-finstrument-functions",
            "-pthread",
            &format!("-I{}", header.display()),
            &format!("-L{folder}"),
            "-lfastinst",
            &format!("-Wl,-rpath,{folder}"),
        ];
        self.corpus.compile("probes.c", TEXT, "gcc", &flags)
    }

    /// Profiles a command, and discards the profile.
    pub(crate) fn observe(&self, command: &mut Command, policy: &str) -> Result<(), CorpusError> {
        let profiles = self.corpus.folder().join("probes");
        std::fs::create_dir_all(&profiles).map_err(CorpusError::io("a folder for profiles"))?;
        observe(command, &self.library, &profiles, policy);
        command.env("FASTINST_OUTPUT", profiles.join("profile"));
        Ok(())
    }

    pub(crate) fn corpus(&self) -> &Corpus {
        &self.corpus
    }
}

/// Runs a command that must succeed.
pub(crate) fn run(command: &mut Command) -> Result<child::Outcome, CorpusError> {
    let what = command.get_program().display().to_string();
    let outcome = child::run(command).map_err(CorpusError::io(what.clone()))?;
    if outcome.success {
        Ok(outcome)
    } else {
        Err(CorpusError::Failed { said: outcome.said(), what })
    }
}
