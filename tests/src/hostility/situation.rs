//! A row of the table: a program, the shell line that starts it, and the expected result.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The requirement of a situation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Only a compiler.
    Nothing,
    /// The privileges of the super-user.
    Root,
    /// A tool with that name.
    Tool(&'static str),
    /// Both.
    RootAnd(&'static str),
}

/// The expected output of the library; the program's behaviour must never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A profile with the program's calls, or one line with the reason why there is none.
    ProfileOrReason,
    /// A profile. A line may report that it ends early.
    Profile,
    /// One line.
    Reason,
    /// Several processes, each of which may report why it has no profile.
    Each,
    /// Neither: the loader does not load the library, so it cannot report anything.
    NotLoaded,
    /// The kernel or a mount option decides whether the library is loaded.
    Undecided,
}

impl Expected {
    /// The fault, given the number of profiles, whether one of them contains the program's calls,
    /// and the number of lines.
    pub(super) fn harm(self, profiles: usize, counted: bool, lines: usize) -> Option<String> {
        let found = format!("leaves {profiles} profiles and {lines} lines");
        let right = match self {
            Self::ProfileOrReason => lines <= 1 && if profiles > 0 { counted } else { lines == 1 },
            Self::Profile => lines <= 1 && profiles > 0 && counted,
            Self::Reason => lines == 1 && profiles == 0,
            Self::Each => lines + profiles > 0,
            Self::NotLoaded => lines == 0 && profiles == 0,
            Self::Undecided => lines <= 1,
        };
        (!right).then(|| {
            if profiles > 0 && !counted {
                format!("{found}, without the program's calls")
            } else {
                found
            }
        })
    }
}

/// A file beside the running program: its name, its source, its compiler options.
pub(super) type Helper = (&'static str, &'static str, &'static [&'static str]);

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// Its topic and, after a slash, its behaviour.
    pub name: &'static str,
    /// The program's source.
    pub source: &'static str,
    /// The compiler's options.
    pub flags: &'static [&'static str],
    /// The shell's command line; `$0` is the program.
    pub line: &'static str,
    /// The files beside it.
    pub(super) helpers: &'static [Helper],
    /// Its requirement.
    pub need: Need,
    /// The expected output of the library.
    pub expected: Expected,
}

/// The compiler options of programs with probes.
pub(super) const PROBED: &[&str] = &["-O2", "-finstrument-functions"];

impl Situation {
    /// A program with probes, which must yield a profile or a reason.
    pub(super) const fn new(name: &'static str, source: &'static str, line: &'static str) -> Self {
        let expected = Expected::ProfileOrReason;
        Self { name, source, flags: PROBED, line, helpers: &[], need: Need::Nothing, expected }
    }

    pub(super) const fn built(self, flags: &'static [&'static str]) -> Self {
        Self { flags, ..self }
    }

    pub(super) const fn beside(self, helpers: &'static [Helper]) -> Self {
        Self { helpers, ..self }
    }

    pub(super) const fn needing(self, need: Need) -> Self {
        Self { need, ..self }
    }

    pub(super) const fn leaving(self, expected: Expected) -> Self {
        Self { expected, ..self }
    }

    /// Whether the program calls `leaf`.
    pub(super) fn works(&self) -> bool {
        !matches!(self.source, "functions.c" | "bare.c" | "masked.c")
    }

    /// The missing requirement, if there is one.
    pub(super) fn missing(&self) -> Option<String> {
        let root = || std::fs::metadata("/proc/self").is_ok_and(|data| data.uid() == 0);
        let tool = |name: &str| Command::new(name).arg("--version").output().is_ok();
        if !tool("gcc") {
            return Some("gcc is missing".to_owned());
        }
        match self.need {
            Need::Root | Need::RootAnd(_) if !root() => {
                Some("only the super-user may do this".to_owned())
            }
            Need::Tool(name) | Need::RootAnd(name) if !tool(name) => {
                Some(format!("{name} is missing"))
            }
            _ => None,
        }
    }

    /// Compiles the program; the compiler's message is the error.
    pub(super) fn compile(&self, to: &Path) -> Result<PathBuf, String> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (hostile, known) = (here.join("c/hostility"), here.join("../fastinst/tests/programs"));
        let source = [&hostile, &known]
            .map(|folder| folder.join(self.source))
            .into_iter()
            .find(|path| path.is_file());
        let source = source.ok_or_else(|| format!("{} is nowhere", self.source))?;
        let mut command = Command::new("gcc");
        command.arg("-I").arg(known).arg(source).arg("-o").arg(to).args(self.flags);
        if !self.flags.contains(&"-nostdlib") {
            command.args(["-pthread", "-ldl"]);
        }
        let output = command.output().map_err(|error| format!("gcc: {error}"))?;
        match output.status.success() {
            true => Ok(to.to_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr)
                .lines()
                .next()
                .unwrap_or("gcc failed")
                .to_owned()),
        }
    }
}
