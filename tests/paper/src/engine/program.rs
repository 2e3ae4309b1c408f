//! The programs: kernels of this crate, and programs of published packages, in C, C++ and Rust.

use super::peer::Subject;
use super::rust::Package;
use super::tools::Tools;
use crate::corpus::{Corpus, CorpusError, PROGRAMS, Program};

/// The category of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Kernel,
    /// A kernel that mostly calls.
    Calls,
    Compression,
    Database,
    Interpreter,
    Cpp,
    Rust,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kernel => "numeric kernel",
            Self::Calls => "bound by calls",
            Self::Compression => "compression",
            Self::Database => "database",
            Self::Interpreter => "interpreter",
            Self::Cpp => "application in C++",
            Self::Rust => "application in Rust",
        }
    }
}

/// A program of the experiment.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(super) kind: Kind,
    source: Source,
}

/// The source of a module.
#[derive(Debug)]
enum Source {
    /// A C or C++ compiler.
    C(Program),
    /// cargo, with the amount of work.
    Rust(&'static str, &'static str),
}

impl Candidate {
    pub(crate) fn name(&self) -> &'static str {
        match &self.source {
            Source::C(program) => program.name,
            Source::Rust(name, _) => name,
        }
    }

    /// Its C or C++ sources, if it has any.
    pub(crate) fn in_c(&self) -> Option<&Program> {
        match &self.source {
            Source::C(program) => Some(program),
            Source::Rust(..) => None,
        }
    }

    /// Its module, which is built if needed.
    pub(crate) fn subject(&self, corpus: &Corpus, tools: &Tools) -> Result<Subject, CorpusError> {
        let name = self.name();
        let (module, rounds) = match &self.source {
            Source::C(program) => {
                let compiler = tools.compiler(program.is_cpp());
                (
                    corpus.make(program, compiler, &format!("engine/{name}"), ".wasm")?,
                    program.rounds,
                )
            }
            Source::Rust(name, rounds) => (Package::build(tools.folder())?.module(name), *rounds),
        };
        Ok(Subject { arguments: vec![rounds.into()], ..Subject::new(name, module) })
    }
}

macro_rules! driver {
    ($file:expr) => {
        ($file, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/", $file)))
    };
}

macro_rules! kernel {
    ($kind:ident, $name:literal, $rounds:literal) => {
        Candidate {
            kind: Kind::$kind,
            source: Source::C(Program {
                rounds: $rounds,
                ..Program::own($name, driver!(concat!("kernels/", $name, ".c")))
            }),
        }
    };
}

/// A program of the native corpus, for a world with neither threads nor jumps between functions.
fn packaged(
    kind: Kind,
    name: &str,
    options: &'static [&'static str],
    rounds: &'static str,
) -> Candidate {
    let program =
        PROGRAMS.iter().find(|program| program.name == name).expect("a program of the corpus");
    Candidate { kind, source: Source::C(Program { options, rounds, libraries: &[], ..*program }) }
}

/// Lua uses `longjmp` on errors; none occurs. Its hashes are the same on every run.
const LUA: &[&str] = &[
    "-Dluai_makeseed(L)=42",
    "-DLUAI_THROW(l,c)=abort()",
    "-DLUAI_TRY(l,c,a)={a}",
    "-Dluai_jmpbuf=int",
    "-D_SETJMP_H",
    "-D_WASI_EMULATED_SIGNAL",
    "-D_WASI_EMULATED_PROCESS_CLOCKS",
    "-lwasi-emulated-signal",
    "-lwasi-emulated-process-clocks",
];

const SQLITE: &[&str] =
    &["-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION", "-DSQLITE_TEMP_STORE=3"];

const QUICKJS: Program = Program {
    name: "quickjs",
    driver: driver!("quickjs.c"),
    package: "rquickjs-sys",
    includes: &["quickjs"],
    sources: &[("quickjs", &["quickjs.c", "libregexp.c", "libunicode.c", "dtoa.c"])],
    options: &["-D_GNU_SOURCE", "-D_WASI_EMULATED_SIGNAL", "-D_WASI_EMULATED_PROCESS_CLOCKS"],
    libraries: &[],
    rounds: "80",
};

const MESHES: Program = Program {
    name: "meshes",
    driver: driver!("meshes.cc"),
    package: "meshopt",
    includes: &["vendor/src"],
    sources: &[(
        "vendor/src",
        &[
            "allocator.cpp",
            "overdrawoptimizer.cpp",
            "simplifier.cpp",
            "vcacheoptimizer.cpp",
            "vertexcodec.cpp",
            "vfetchoptimizer.cpp",
        ],
    )],
    options: &["-std=c++17", "-fno-exceptions"],
    libraries: &[],
    rounds: "24",
};

/// The programs; each takes more than half a second.
pub(crate) fn candidates() -> Vec<Candidate> {
    vec![
        kernel!(Kernel, "matmul", "60"),
        kernel!(Kernel, "nbody", "9000000"),
        kernel!(Kernel, "mandelbrot", "1600"),
        kernel!(Kernel, "fannkuch", "11"),
        kernel!(Kernel, "sha256", "150"),
        kernel!(Kernel, "quicksort", "10"),
        kernel!(Kernel, "sieve", "70"),
        kernel!(Kernel, "spectral", "110"),
        kernel!(Calls, "recursion", "60"),
        kernel!(Calls, "dispatch", "15000"),
        packaged(Kind::Compression, "bzip2", &["-DBZ_NO_STDIO"], "3"),
        packaged(Kind::Compression, "lz4", &[], "4"),
        packaged(Kind::Compression, "zstd", &["-DZSTD_DISABLE_ASM"], "9"),
        packaged(Kind::Database, "sqlite", SQLITE, "100000"),
        packaged(Kind::Interpreter, "lua", LUA, "110"),
        Candidate { kind: Kind::Interpreter, source: Source::C(QUICKJS) },
        Candidate { kind: Kind::Interpreter, source: Source::Rust("scripts", "7") },
        packaged(Kind::Cpp, "json", &["-std=c++17", "-fno-exceptions"], "16000"),
        Candidate { kind: Kind::Cpp, source: Source::C(MESHES) },
        Candidate { kind: Kind::Rust, source: Source::Rust("patterns", "60") },
        Candidate { kind: Kind::Rust, source: Source::Rust("syntax", "20") },
    ]
}

/// The smallest program: its run is mostly its start.
pub(super) fn hello() -> Candidate {
    kernel!(Kernel, "hello", "1")
}
