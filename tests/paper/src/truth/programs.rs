//! The programs of the judged profiles: the demo, programs with known behaviour, and the corpus.
//!
//! All are built with debug information, so that inlined functions can be distinguished from their
//! callers. The number of calls of each function is the same in every run; a program whose two
//! complete counts differ is not judged by counts.

use crate::corpus::floor::{self, Face};
use crate::corpus::{Corpus, CorpusError, PROGRAMS, Program};
use std::path::PathBuf;
use std::process::Command;

/// A program to judge profiles by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject {
    pub(super) program: Program,
    /// Whether `--quick` includes it.
    pub(super) quick: bool,
    /// Whether it yields enough samples of the kernel's clock, and has functions with known times,
    /// so that means and widths are judged by it.
    pub(super) means: bool,
}

macro_rules! own {
    ($name:literal, $file:literal, $rounds:literal) => {
        Program {
            options: &["-D_GNU_SOURCE"],
            libraries: &["-lpthread"],
            rounds: $rounds,
            ..Program::own($name, ($file, include_str!(concat!("../../corpus/truth/", $file))))
        }
    };
}

const DEMO: Program =
    Program::own("demo", ("words.c", include_str!("../../../../fastinst/samples/words.c")));

const fn quick(program: Program) -> Subject {
    Subject { program, quick: true, means: false }
}

/// All subjects, in the order in which they run.
pub(super) fn subjects() -> Vec<Subject> {
    let burn = Subject { means: true, ..quick(own!("burn", "burn.c", "8000")) };
    let own = [
        quick(DEMO),
        quick(own!("server", "server.c", "200000")),
        quick(own!("recursive", "recursive.c", "240")),
        quick(own!("threads", "threads.c", "300")),
        quick(own!("reads", "reads.c", "100000")),
        burn,
    ];
    let corpus = PROGRAMS.iter().map(|&program| Subject { program, quick: false, means: false });
    own.into_iter().chain(corpus).collect()
}

/// A way to build a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// With probes.
    Probed,
    /// The same file with every site switched off as the product does it: only the profiler's own
    /// work is missing.
    Off,
    /// The same with nops instead: the lower bound for any runtime.
    Floor,
    /// Without probes.
    Plain,
}

impl Subject {
    /// Its name.
    pub(super) const fn name(&self) -> &'static str {
        self.program.name
    }

    /// Whether it belongs to the corpus, which needs packages.
    pub(super) fn is_of_corpus(&self) -> bool {
        PROGRAMS.iter().any(|program| program.name == self.program.name)
    }

    /// The executable, which is built if needed.
    pub(super) fn build(&self, corpus: &Corpus, variant: Variant) -> Result<PathBuf, CorpusError> {
        let (face, ending) = match variant {
            Variant::Probed => return self.compile(corpus, "probed", &["-finstrument-functions"]),
            Variant::Plain => return self.compile(corpus, "plain", &[]),
            Variant::Off => (Face::Off, "off"),
            Variant::Floor => (Face::Nop, "floor"),
        };
        let probed = self.build(corpus, Variant::Probed)?;
        let made = probed.with_file_name(format!(
            "{}-{ending}",
            probed.file_name().unwrap_or_default().display()
        ));
        if !made.exists() {
            floor::overwrite(&probed, &made, face)?;
        }
        Ok(made)
    }

    fn compile(&self, corpus: &Corpus, name: &str, flags: &[&str]) -> Result<PathBuf, CorpusError> {
        let mut command = Command::new(if self.program.is_cpp() { "g++" } else { "gcc" });
        // Lazily bound calls of hooks go through stubs that can be found by name.
        command.args(["-w", "-Wl,-z,lazy", "-O2", "-g"]).args(flags);
        corpus.make(&self.program, command, &format!("truth-{}-{name}", self.name()), "")
    }

    /// The arguments with which an executable of its own runs for the intended time.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &'static str> {
        Some(self.program.rounds).filter(|rounds| !rounds.is_empty()).into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_subject_has_a_name_of_its_own_and_one_is_judged_by_means() {
        let all = subjects();
        let names: BTreeSet<_> = all.iter().map(Subject::name).collect();
        assert_eq!((names.len(), all.len()), (14, 14));
        assert_eq!(all.iter().filter(|subject| subject.means).count(), 1);
    }
}
