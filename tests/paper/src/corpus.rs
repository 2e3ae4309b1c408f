//! The corpus: real programs from published packages, built with and without probes, and the tools
//! to compare their runs.
//!
//! The sources come from packages that are fetched by name; the drivers are part of this crate.
//! Builds are kept in `target/paper`, by a hash of all inputs.

pub(crate) mod child;
pub(crate) mod floor;
mod source;

use child::Outcome;
use floor::Face;
use source::Sources;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// A way to build a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Build {
    /// gcc, -O2.
    Base,
    /// The same with `-finstrument-functions`.
    Probed,
    /// The probed program with every hook call overwritten by a nop, every tail jump to a hook by a
    /// return: the lower bound for any runtime.
    Floor,
    /// The probed program with every site switched off as the product does it.
    Latent,
    /// gcc, -O2, at a fixed address.
    Fixed,
    /// The same with calls of a profiler that are nops.
    Fentry,
    /// gcc, -O2, with reserved bytes at each function's beginning.
    Patchable,
    /// clang, -O2, with sleds of XRay in all functions.
    Xray,
    /// clang, -O2.
    ClangBase,
    /// The same with `-finstrument-functions-after-inlining`.
    ClangProbed,
}

impl Build {
    fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Probed => "probed",
            Self::Floor => "floor",
            Self::Latent => "latent",
            Self::Fixed => "fixed",
            Self::Fentry => "fentry",
            Self::Patchable => "patchable",
            Self::Xray => "xray",
            Self::ClangBase => "clang-base",
            Self::ClangProbed => "clang-probed",
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Base | Self::ClangBase => &["-O2"],
            Self::Probed | Self::Floor | Self::Latent => &["-O2", "-finstrument-functions"],
            Self::Fixed => &["-O2", "-no-pie", "-fno-pie"],
            Self::Fentry => &[
                "-O2",
                "-no-pie",
                "-fno-pie",
                "-pg",
                "-mfentry",
                "-mnop-mcount",
                "-mrecord-mcount",
            ],
            Self::Patchable => &["-O2", "-fpatchable-function-entry=5"],
            Self::Xray => &["-O2", "-fxray-instrument", "-fxray-instruction-threshold=1"],
            Self::ClangProbed => &["-O2", "-finstrument-functions-after-inlining"],
        }
    }

    pub(crate) fn is_clang(self) -> bool {
        matches!(self, Self::ClangBase | Self::ClangProbed | Self::Xray)
    }
}

/// A program of the corpus.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    /// The file name and the text of its driver.
    pub(crate) driver: (&'static str, &'static str),
    /// Its package, and the folders of the package that are searched for headers.
    pub(crate) package: &'static str,
    pub(crate) includes: &'static [&'static str],
    /// Files of the package, by folder; `*` for all that end in `.c`.
    pub(crate) sources: &'static [(&'static str, &'static [&'static str])],
    pub(crate) options: &'static [&'static str],
    pub(crate) libraries: &'static [&'static str],
    /// The amount of work for about a second.
    pub(crate) rounds: &'static str,
}

impl Program {
    /// A program of one file of this crate, without options and with a fixed amount of work.
    pub(crate) const fn own(name: &'static str, driver: (&'static str, &'static str)) -> Self {
        Self {
            name,
            driver,
            package: "",
            includes: &[],
            sources: &[],
            options: &[],
            libraries: &[],
            rounds: "",
        }
    }
}

macro_rules! driver {
    ($file:literal) => {
        ($file, include_str!(concat!("../corpus/", $file)))
    };
}

pub(crate) const PROGRAMS: [Program; 8] = [
    Program {
        name: "sqlite",
        driver: driver!("sqlite.c"),
        package: "libsqlite3-sys",
        includes: &["sqlite3"],
        sources: &[("sqlite3", &["sqlite3.c"])],
        options: &[],
        libraries: &["-lpthread", "-ldl", "-lm"],
        rounds: "300000",
    },
    Program {
        name: "lua",
        driver: driver!("lua.c"),
        package: "lua-src",
        includes: &["lua-5.4.9"],
        sources: &[("lua-5.4.9", &["*"])],
        options: &["-DLUA_USE_POSIX"],
        libraries: &["-lm"],
        rounds: "450",
    },
    Program {
        name: "zstd",
        driver: driver!("zstd.c"),
        package: "zstd-sys",
        includes: &["zstd/lib"],
        sources: &[
            ("zstd/lib/common", &["*"]),
            ("zstd/lib/compress", &["*"]),
            ("zstd/lib/decompress", &["*"]),
        ],
        options: &["-DZSTD_DISABLE_ASM"],
        libraries: &["-lpthread"],
        rounds: "18",
    },
    Program {
        name: "bzip2",
        driver: driver!("bzip2.c"),
        package: "bzip2-sys",
        includes: &["bzip2-1.0.8"],
        sources: &[(
            "bzip2-1.0.8",
            &[
                "blocksort.c",
                "huffman.c",
                "crctable.c",
                "randtable.c",
                "compress.c",
                "decompress.c",
                "bzlib.c",
            ],
        )],
        options: &["-DBZ_NO_STDIO"],
        libraries: &[],
        rounds: "6",
    },
    Program {
        name: "lz4",
        driver: driver!("lz4.c"),
        package: "lz4-sys",
        includes: &["liblz4/lib"],
        sources: &[("liblz4/lib", &["lz4.c", "lz4hc.c"])],
        options: &[],
        libraries: &[],
        rounds: "6",
    },
    Program {
        name: "json",
        driver: driver!("json.cc"),
        package: "",
        includes: &[],
        sources: &[],
        options: &["-std=c++17"],
        libraries: &[],
        rounds: "20000",
    },
    Program {
        name: "zlib-threads",
        driver: driver!("zlib.c"),
        package: "libz-sys",
        includes: &["src/zlib"],
        sources: &[(
            "src/zlib",
            &[
                "adler32.c",
                "compress.c",
                "crc32.c",
                "deflate.c",
                "inffast.c",
                "inflate.c",
                "inftrees.c",
                "trees.c",
                "uncompr.c",
                "zutil.c",
            ],
        )],
        options: &["-DHAVE_UNISTD_H"],
        libraries: &["-lpthread"],
        rounds: "12",
    },
    Program {
        name: "workers",
        driver: driver!("workers.c"),
        package: "tree-sitter",
        includes: &["include", "src"],
        sources: &[("src", &["lib.c"]), ("../tree-sitter-json/src", &["parser.c"])],
        options: &["-D_DEFAULT_SOURCE", "-std=c11"],
        libraries: &[],
        rounds: "160",
    },
];

/// The reason why the corpus cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CorpusError {
    #[error("{0} is missing: install it")]
    Missing(String),
    #[error("{what}: {error}")]
    Io { what: String, error: std::io::Error },
    #[error("{what} failed: {said}")]
    Failed { what: String, said: String },
    #[error("{program} as {build} answers otherwise than it should")]
    Differs { program: &'static str, build: &'static str },
}

impl CorpusError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        |error| Self::Io { what, error }
    }
}

/// The tools and folders to build and run the programs.
#[derive(Debug)]
pub(crate) struct Corpus {
    folder: PathBuf,
    sources: Sources,
    /// Whether clang is installed.
    pub(crate) clang: bool,
}

impl Corpus {
    /// Fetches missing packages.
    pub(crate) fn prepare() -> Result<Self, CorpusError> {
        let tools = Self::prepare_tools()?;
        if !Path::new("/usr/include/nlohmann/json.hpp").exists() {
            return Err(CorpusError::Missing(
                "the header nlohmann/json.hpp (Debian: nlohmann-json3-dev)".into(),
            ));
        }
        let sources = Sources::fetch(&tools.folder.join("manifest"))?;
        Ok(Self { sources, ..tools })
    }

    /// Without the sources of packages, for programs of this crate.
    pub(crate) fn prepare_tools() -> Result<Self, CorpusError> {
        if let Some(missing) = ["gcc", "g++", "objdump"].into_iter().find(|tool| !is_there(tool)) {
            return Err(CorpusError::Missing(missing.into()));
        }
        let folder = folder()?;
        be_alone(&folder)?;
        Ok(Self {
            folder,
            sources: Sources::default(),
            clang: is_there("clang") && is_there("clang++"),
        })
    }

    /// The folder for an experiment's own files.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The executable, which is built if needed.
    pub(crate) fn build(&self, program: &Program, build: Build) -> Result<PathBuf, CorpusError> {
        let face = match build {
            Build::Floor => Some(Face::Nop),
            Build::Latent => Some(Face::Off),
            _ => None,
        };
        if let Some(face) = face {
            let probed = self.build(program, Build::Probed)?;
            let made = probed.with_file_name(format!(
                "{}-{}",
                probed.file_name().unwrap_or_default().display(),
                build.name()
            ));
            if !made.exists() {
                floor::overwrite(&probed, &made, face)?;
            }
            return Ok(made);
        }
        let compiler = match (build.is_clang(), program.is_cpp()) {
            (false, false) => "gcc",
            (false, true) => "g++",
            (true, false) => "clang",
            (true, true) => "clang++",
        };
        let mut command = Command::new(compiler);
        // Lazily bound calls of hooks go through stubs that can be found by name.
        command.args(["-w", "-Wl,-z,lazy"]).args(build.flags());
        self.make(program, command, &format!("{}-{}", program.name, build.name()), "")
    }

    /// The output of a compiler, which is made if needed; its file name consists of `name`, a hash
    /// and `ending`.
    pub(crate) fn make(
        &self,
        program: &Program,
        mut command: Command,
        name: &str,
        ending: &str,
    ) -> Result<PathBuf, CorpusError> {
        self.add_sources(program, &mut command)?;
        let mut hash = DefaultHasher::new();
        format!("{command:?}").hash(&mut hash);
        (program.driver.1, include_str!("../corpus/work.h")).hash(&mut hash);
        let made = self.folder.join(format!("{name}-{:08x}{ending}", hash.finish() as u32));
        if !made.exists() {
            let unfinished = made.with_extension("new");
            finish(command.arg("-o").arg(&unfinished), program.name, &unfinished, &made)?;
        }
        Ok(made)
    }

    /// A small program, from its source text.
    pub(crate) fn compile(
        &self,
        name: &str,
        text: &str,
        compiler: &str,
        flags: &[&str],
    ) -> Result<PathBuf, CorpusError> {
        let mut hash = DefaultHasher::new();
        (text, compiler, flags).hash(&mut hash);
        let made =
            self.folder.join(format!("{}-{:08x}", name.replace('.', "-"), hash.finish() as u32));
        if made.exists() {
            return Ok(made);
        }
        let drivers = self.folder.join("drivers");
        std::fs::create_dir_all(&drivers).map_err(CorpusError::io("the drivers' folder"))?;
        let source = drivers.join(name);
        std::fs::write(&source, text).map_err(CorpusError::io(name))?;
        let unfinished = made.with_extension("new");
        let mut command = Command::new(compiler);
        command
            .args(["-O2", "-w", "-Wl,-z,lazy"])
            .arg(&source)
            .arg("-o")
            .arg(&unfinished)
            .args(flags);
        finish(&mut command, name, &unfinished, &made)?;
        Ok(made)
    }

    /// Adds the sources and the options of a program to a compiler's command.
    fn add_sources(&self, program: &Program, command: &mut Command) -> Result<(), CorpusError> {
        let drivers = self.folder.join("drivers");
        let driver = drivers.join(program.driver.0);
        for (file, text) in [
            (&driver, program.driver.1),
            (&drivers.join("work.h"), include_str!("../corpus/work.h")),
        ] {
            let folder = file.parent().unwrap_or(&drivers);
            std::fs::create_dir_all(folder)
                .map_err(CorpusError::io(folder.display().to_string()))?;
            std::fs::write(file, text).map_err(CorpusError::io(file.display().to_string()))?;
        }
        command.args(program.options).arg("-I").arg(&drivers);
        for include in program.includes {
            command.arg("-I").arg(self.sources.path(program.package, include)?);
        }
        command.arg(&driver);
        for (folder, files) in program.sources {
            command.args(self.sources.files(program.package, folder, files)?);
        }
        command.args(program.libraries);
        Ok(())
    }
}

impl Program {
    pub(crate) fn is_cpp(&self) -> bool {
        self.driver.0.ends_with(".cc")
    }
}

/// Compiles, and renames the output to its final name when it is complete.
pub(crate) fn finish(
    command: &mut Command,
    name: &str,
    unfinished: &Path,
    made: &Path,
) -> Result<(), CorpusError> {
    let output = command.output().map_err(CorpusError::io(name))?;
    if !output.status.success() {
        let said =
            String::from_utf8_lossy(&output.stderr).lines().take(3).collect::<Vec<_>>().join("; ");
        return Err(CorpusError::Failed { what: format!("building {name}"), said });
    }
    std::fs::rename(unfinished, made).map_err(CorpusError::io(made.display().to_string()))
}

/// The folder of all builds, beside this program's own build.
pub(crate) fn folder() -> Result<PathBuf, CorpusError> {
    let executable = std::env::current_exe().map_err(CorpusError::io("this program's own file"))?;
    let target = executable.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    let folder = target
        .map_or_else(|| std::env::temp_dir().join("fastinst-paper"), |target| target.join("paper"));
    std::fs::create_dir_all(&folder).map_err(CorpusError::io(folder.display().to_string()))?;
    Ok(folder)
}

/// Waits until no other process uses a folder, since each would take the other's files for its own,
/// and measure the other's load. The lock is held until this process ends.
fn be_alone(folder: &Path) -> Result<(), CorpusError> {
    static OURS: Mutex<Option<File>> = Mutex::new(None);
    let mut ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
    if ours.is_none() {
        let path = folder.join("lock");
        let failed = || CorpusError::io(path.display().to_string());
        let file = File::create(&path).map_err(failed())?;
        if file.try_lock().is_err() {
            eprintln!("paper: another experiment has {}: waiting for its end", folder.display());
            file.lock().map_err(failed())?;
        }
        *ours = Some(file);
    }
    Ok(())
}

/// The preload library that was built with this program.
pub(crate) fn library() -> Result<PathBuf, CorpusError> {
    let executable = std::env::current_exe().map_err(CorpusError::io("this program's own file"))?;
    let folder = executable.parent().unwrap_or(Path::new("."));
    [folder.join("deps/libfastinst.so"), folder.join("libfastinst.so")]
        .into_iter()
        .find(|library| library.exists())
        .ok_or_else(|| {
            CorpusError::Missing("libfastinst.so (cargo build --release -p fastinst)".into())
        })
}

pub(crate) fn is_there(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok()
}

/// Runs a program, and compares its output with the expected one.
pub(crate) fn run(
    program: &'static Program,
    build: Build,
    command: &mut Command,
    expected: &mut Option<Vec<u8>>,
) -> Result<Outcome, CorpusError> {
    let outcome = child::run(command).map_err(CorpusError::io(program.name))?;
    if !outcome.success {
        return Err(CorpusError::Failed {
            what: format!("{} as {}", program.name, build.name()),
            said: outcome.said(),
        });
    }
    if *expected.get_or_insert_with(|| outcome.stdout.clone()) != outcome.stdout {
        return Err(CorpusError::Differs { program: program.name, build: build.name() });
    }
    Ok(outcome)
}
