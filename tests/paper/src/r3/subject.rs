//! The recorded programs: those of `engine` with a non-trivial host, and one that mostly calls its
//! host.

use super::commands::Commands;
use crate::corpus::{Corpus, CorpusError, Program};
use crate::engine::program::Candidate;
use crate::engine::tools::Tools;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

const WORLD: [(&str, &str); 2] = [
    ("world.h", include_str!("../../corpus/world/world.h")),
    ("world.c", include_str!("../../corpus/world/world.c")),
];

const INTERFACE: Program =
    Program::own("interface", ("interface.c", include_str!("../../corpus/interface.c")));

/// The names of `interface` with their call rates: with computation between calls of its host, and
/// without.
pub(super) const RATES: [(&str, Option<u64>); 2] =
    [("interface/100k", Some(100_000)), ("interface/most", None)];

/// The number of its calls.
const CALLS: u64 = 100_000;

/// A module, and its arguments.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) module: PathBuf,
    pub(super) arguments: Vec<String>,
}

impl Subject {
    /// The name of a file of the subject's.
    pub(super) fn file(&self, kind: &str) -> String {
        format!("{}.{kind}", self.name.replace('/', "-"))
    }

    /// A program of `engine`. Those in C and C++ read files, clocks and random numbers before and
    /// after; those in Rust take arguments and random numbers.
    pub(super) fn with_a_world(
        candidate: &Candidate,
        corpus: &Corpus,
        tools: &Tools,
        folder: &Path,
    ) -> Result<Self, CorpusError> {
        let name = candidate.name();
        let Some(program) = candidate.in_c() else {
            let built = candidate.subject(corpus, tools)?;
            return Ok(Self { name, module: built.module, arguments: built.arguments });
        };
        let world = world(corpus)?;
        let mut compiler = tools.compiler(program.is_cpp());
        compiler.arg("-include").arg(world.join("world.h"));
        // The C++ compiler would apply the options to C files, too, and refuse them there.
        let language = if program.is_cpp() { "c++" } else { "c" };
        compiler.args(["-x", language]).arg(world.join("world.c")).args(["-x", "none"]);
        let module = corpus.make(program, compiler, &format!("r3/{name}"), ".wasm")?;
        let arguments = [format!("{name}.amount"), "text".into(), format!("{name}.report")];
        write(&folder.join(&arguments[0]), program.rounds)?;
        write(&folder.join("text"), include_str!("../../corpus/world/world.c"))?;
        Ok(Self { name, module, arguments: arguments.into() })
    }

    /// The programs that call their host at each of the [`RATES`].
    pub(super) fn interfaces(
        corpus: &Corpus,
        tools: &Tools,
        commands: &Commands,
    ) -> Result<Vec<Self>, CorpusError> {
        let module = corpus.make(&INTERFACE, tools.compiler(false), "r3/interface", ".wasm")?;
        let of = |name, calls: u64, turns: u64| Self {
            name,
            module: module.clone(),
            arguments: [calls, turns].map(|number| number.to_string()).into(),
        };
        let mut all = Vec::new();
        for (name, rate) in RATES {
            let turns = match rate {
                Some(rate) => turns(commands, rate, |calls, turns| of(name, calls, turns))?,
                None => 0,
            };
            all.push(of(name, CALLS, turns));
        }
        Ok(all)
    }
}

/// The number of turns of its loop between calls that yields this many calls per second of CPU
/// time.
fn turns(
    commands: &Commands,
    rate: u64,
    of: impl Fn(u64, u64) -> Subject,
) -> Result<u64, CorpusError> {
    // The least of three: disturbances only add to the program's time.
    let time = |calls, turns| {
        let runs = (0..3).map(|_| Ok(commands.plain(&of(calls, turns))?.cpu.as_nanos() as f64));
        Ok(runs.collect::<Result<Vec<_>, CorpusError>>()?.into_iter().fold(f64::MAX, f64::min))
    };
    let (start, calls, turned) = (time(0, 0)?, time(CALLS, 0)?, time(1, 100_000_000)?);
    let (a_call, a_turn) = ((calls - start) / CALLS as f64, (turned - start) / 1e8);
    Ok(((1e9 / rate as f64 - a_call) / a_turn).max(0.0) as u64)
}

/// The folder of the sources for the programs' host, named by a hash of its contents, since other
/// sources yield other programs.
fn world(corpus: &Corpus) -> Result<PathBuf, CorpusError> {
    let mut hash = DefaultHasher::new();
    WORLD.hash(&mut hash);
    let folder = corpus.folder().join(format!("drivers/world-{:08x}", hash.finish() as u32));
    std::fs::create_dir_all(&folder).map_err(CorpusError::io(folder.display().to_string()))?;
    for (name, text) in WORLD {
        write(&folder.join(name), text)?;
    }
    Ok(folder)
}

fn write(path: &Path, text: &str) -> Result<(), CorpusError> {
    std::fs::write(path, text).map_err(CorpusError::io(path.display().to_string()))
}
