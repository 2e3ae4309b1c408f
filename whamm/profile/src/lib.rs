//! Exact call profiles of WebAssembly on any engine: which function called which, how often, and
//! for how long.
//!
//! Rewrites a module so that it keeps a tree of its calling contexts in a memory of its own, and
//! reports it when it ends or when the host asks:
//!
//! ```
//! use whamm_profile::{Options, profile};
//!
//! let program = wat::parse_str(r#"(module
//!     (func $add (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
//!     (func (export "run") (result i32) (call $add (i32.const 1) (i32.const 2))))"#)?;
//! let profiled = profile(&program, &Options::default())?;
//! assert!(profiled.module.len() > program.len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - Counts are exact, in every context: calls through tables and references, callbacks from the
//!   host, tail calls, exceptions, traps.
//! - Times are wall-clock times, read where calls begin and end, less the cost of reading the
//!   clock. Calls that are too short to be timed are counted, and their time is part of their
//!   caller's.
//! - The profile is printed, written to a file that `fastinst report` reads, or fetched by the host
//!   (`fastinst:profile`, `fastinst:report`, in `fastinst:memory`).
//!
//! The engine must support several memories, unless the program has none. Programs with
//! garbage-collected objects are refused. Calling context trees are those of Ammons, Ball and Larus
//! (PLDI 1997), without their folding of recursion.
#![forbid(unsafe_code)]

mod app;
mod body;
mod budget;
mod gateway;
mod parts;
mod runtime;
mod shape;
mod stand_in;
mod texts;

use app::App;
use body::Bodies;
use runtime::{Runtime, Way, Ways};
use shape::Shapes;
pub use whamm_rewrite::SourceMap;
use whamm_rewrite::{Plan, Program, emit};

/// What a profile includes, and where it is written.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program's name in its profile.
    pub name: String,
    /// How time is measured; by default, as the program allows.
    pub clock: Option<Clock>,
    /// The file that the profile is written to when the program ends, in a folder that the program
    /// may write to; otherwise the profile is printed.
    pub file: Option<String>,
    /// Whether it is reported whenever a function that the host has called returns.
    pub force_print: bool,
    /// Whether arcs are passed to the host's module `prof` whenever a function that the host has
    /// called returns: nothing is printed then, and times come from `prof.getTime`.
    pub host_api: bool,
    /// Whether short functions are timed, too.
    pub time_all: bool,
    /// Functions with fewer instructions are counted, and not timed.
    pub min_size: Option<u32>,
    /// Functions whose names match are counted, and not timed.
    pub exclude: Vec<Glob>,
    /// The program's source map, which is updated.
    pub source_map: Option<SourceMap>,
    /// How many functions are printed.
    pub top: u32,
    /// The memory limit of the profile, in megabytes. Beyond it, calls in new contexts are counted
    /// without their contexts.
    pub memory: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: "wasm".to_owned(),
            clock: None,
            file: None,
            force_print: false,
            host_api: false,
            time_all: false,
            min_size: None,
            exclude: Vec::new(),
            source_map: None,
            top: 40,
            memory: 256,
        }
    }
}

impl Options {
    fn tells_always(&self) -> bool {
        self.force_print || self.host_api
    }

    fn excludes(&self, name: &str) -> bool {
        self.exclude.iter().any(|glob| glob.0.is_match(name))
    }
}

/// A pattern of names: `*` matches any characters, and `?` matches one.
#[derive(Clone, Debug)]
pub struct Glob(globset::GlobMatcher);

impl std::str::FromStr for Glob {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let glob = globset::Glob::new(text)
            .map_err(|error| Error::Glob(text.to_owned(), error.kind().to_string()))?;
        Ok(Self(glob.compile_matcher()))
    }
}

/// The source of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// WASI's monotonic clock.
    Wasi,
    /// The embedder's `prof.getTime`, in milliseconds.
    Prof,
    /// No clock: calls are only counted.
    None,
}

/// The host interface `prof` for JavaScript: a script that is loaded before a program that was
/// rewritten with [`Options::host_api`].
pub const GLUE: &str = include_str!("glue.js");

/// A profiled program.
#[derive(Clone, Debug)]
pub struct Profiled {
    /// The module.
    pub module: Vec<u8>,
    /// Its source map.
    pub source_map: Option<String>,
    /// Notes about it, a sentence each.
    pub notes: Vec<String>,
}

/// Why a program cannot be profiled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not a module that can be rewritten.
    #[error("{0}")]
    Rewrite(#[from] whamm_rewrite::Error),
    /// It is not valid.
    #[error("the program is not valid: {0}")]
    Invalid(wasmparser::Error),
    /// It was profiled before.
    #[error("the program was already rewritten for a profile (it {0}): use the original")]
    Again(String),
    /// It uses a feature that cannot be profiled.
    #[error("the program uses {0}, which cannot be profiled: compile it without")]
    Unsupported(&'static str),
    /// The requested clock cannot be read.
    #[error("{0}")]
    Clock(&'static str),
    /// The file cannot be written.
    #[error("{0}")]
    File(&'static str),
    /// An invalid pattern.
    #[error("invalid pattern `{0}`: {1}")]
    Glob(String, String),
    /// Tables of all functions would be larger than the memory.
    #[error("tables of the program's functions need {0} MB of memory: allow the profile more")]
    TooLarge(u64),
    /// The run-time support is broken.
    #[error("the run-time support cannot be assembled: {0}")]
    Runtime(String),
}

/// Rewrites a module so that it records its profile.
pub fn profile(bytes: &[u8], options: &Options) -> Result<Profiled, Error> {
    let features = wasmparser::WasmFeatures::all();
    let mut validator = wasmparser::Validator::new_with_features(features);
    validator.validate_all(bytes).map_err(Error::Invalid)?;
    let program = Program::decode(bytes)?;
    let app = App::read(&program)?;
    let mut notes = Vec::new();
    let ways = ways(&app, options, &mut notes)?;
    if options.time_all && ways.clock == Clock::None {
        notes.push("no call is timed, --time-all or not: there is no clock".to_owned());
    }
    let shapes = Shapes::of(&app, &program, options, ways.clock != Clock::None)?;
    let mut plan = Plan::new(&program);
    plan.source_map.clone_from(&options.source_map);
    Runtime::import(&mut plan, &program, &ways, options);
    let runtime = Runtime::link(&mut plan, &program, &app, &shapes, &ways, options)?;
    gateway::make(&mut plan, &program, &app, &shapes, &runtime, options);
    gateway::export(&mut plan, &app, &runtime, ways.wasi == Some(Way::Own));
    if options.host_api {
        plan.customs.push(("fastinst:functions".to_owned(), functions(&app).into_bytes()));
    }
    let stand_ins = &stand_in::make(&mut plan, &app, &shapes, &runtime);
    let inlining = &budget::inlining(&program, &shapes)?;
    let (app, shapes, runtime, indices) = (&app, &shapes, &runtime, &plan.indices.clone());
    let all = Bodies { app, shapes, runtime, stand_ins, indices, inlining };
    let bodies = program.bodies.iter().map(|body| all.plan(body));
    plan.bodies = bodies.collect::<Result<_, Error>>()?;
    let emitted = emit(&program, &plan)?;
    notes.extend(emitted.lost);
    Ok(Profiled { module: emitted.module, source_map: emitted.source_map, notes })
}

/// Chooses how time is measured and where reports are written, as far as the program allows.
fn ways(app: &App, options: &Options, notes: &mut Vec<String>) -> Result<Ways, Error> {
    if options.host_api {
        let clock = match options.clock {
            Some(Clock::Wasi) => {
                return Err(Error::Clock("the host interface has a clock: leave --clock out"));
            }
            clock => clock.unwrap_or(Clock::Prof),
        };
        return match (&options.file, app.exported.contains(gateway::EXPORT_DATA)) {
            (Some(_), _) => Err(Error::File(
                "the profile goes either to the host or to a file: use one of the two options",
            )),
            (None, true) => Err(Error::Again("exports exportData".to_owned())),
            (None, false) => Ok(Ways { clock, wasi: None }),
        };
    }
    let known =
        match app.wasi_memory.and_then(|index| Some((index, app.memories.get(index as usize)?))) {
            Some((_, memory)) if memory.is_shared => {
                Err("the memory that WASI uses is shared between threads")
            }
            Some((_, memory)) if memory.is_64 => {
                Err("the memory that WASI uses has 64-bit addresses, which WASI does not support")
            }
            Some((index, _)) => Ok(Way::Lent(index)),
            None if app.memories.is_empty() && !app.exported.contains("memory") => Ok(Way::Own),
            None => Err("the program exports no memory named `memory`, which WASI needs"),
        };
    let wants_wasi =
        app.uses_wasi() || options.clock == Some(Clock::Wasi) || options.file.is_some();
    let wasi = known.ok().filter(|_| wants_wasi);
    let clock = match (options.clock, known) {
        (Some(Clock::Wasi), Err(why)) => return Err(Error::Clock(why)),
        (Some(clock), _) => clock,
        (None, _) if wasi.is_some() => Clock::Wasi,
        (None, Err(why)) if wants_wasi => {
            notes.push(format!("calls are counted and not timed: {why}; --clock prof has times"));
            Clock::None
        }
        (None, _) => {
            let note = "calls are counted and not timed: the program does not use WASI; \
                        --clock wasi or prof has times";
            notes.push(note.to_owned());
            Clock::None
        }
    };
    if wasi.is_none() {
        if options.file.is_some() {
            return Err(Error::File(known.err().unwrap_or("WASI is not used")));
        }
        let note = "nothing is printed: the host fetches the profile, by `fastinst:report` or \
                    `fastinst:profile`";
        notes.push(note.to_owned());
    }
    if options.file.as_ref().is_some_and(|file| file.len() > 1000) {
        return Err(Error::File("the file name is too long: use less than 1000 bytes"));
    }
    Ok(Ways { clock, wasi })
}

/// Numbers and names of functions, a line each, by which the host identifies arcs.
fn functions(app: &App) -> String {
    (0..app.len()).map(|function| format!("{} {}\n", function + 1, app.name(function))).collect()
}
