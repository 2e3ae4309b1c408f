//! The rewriting target: inserts probes into a program's code.
//!
//! The program's instructions are copied byte by byte; the code of probes is written between them.
//! Everything that is added follows the existing items: functions, globals, one memory. Only
//! functions that the rewriter imports precede the program's own, whose indices then move. The
//! program's memory is used only to pass bytes to the system, and restored afterwards.

mod findings;
mod function;
mod hot;
mod known;
mod ledger;
mod module;
mod probes;
pub(crate) mod region;
mod removal;
mod rows;
mod shadow;
mod walk;

use crate::app::App;
use crate::check::CORE;
use crate::diagnostic::{Diagnostics, Kind};
use crate::emit::core::{self, Target, Used};
use crate::emit::guest::Guest;
use crate::emit::replacement::Callees;
use crate::emit::report::{self, Format};
use crate::emit::storage::Storage;
use crate::emit::support::{Layout, Outlet, Support};
use crate::events::Bound;
use crate::hir::{Builtin, Expr, ExprKind, Program, Stmt, Var};
use crate::library::{Library, Oracle};
use crate::types::Ty;
use findings::Findings;
pub(crate) use function::asked_for;
use known::Facts;
use ledger::Ledger;
use probes::Probes;
use shadow::{Shadows, Tables};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use whamm_rewrite::{Emitted, Indices, Lines, Program as Decoded, SourceMap, emit};

/// Choices about the output.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The format of the report.
    pub format: Format,
    /// The destination of the report.
    pub destination: Destination,
    /// Whether counts have to be exact even after an instruction that traps.
    pub exact_traps: bool,
    /// Where the run-time support is.
    pub link: Link,
    /// How many globals the output may have at most; 900,000 by default. Further counters are in
    /// memory.
    pub most_globals: Option<u32>,
    /// Whether the output exports a function `__whamm_get_NAME` for each global variable of a
    /// script, which returns its value while the program runs.
    pub testing: bool,
    /// The program's source map, which is updated.
    pub source_map: Option<SourceMap>,
}

/// Where the run-time support is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// In the module, as far as it is used.
    #[default]
    Merged,
    /// In the core library of version 2.0.1, a module beside it.
    Imported,
}

/// The destination of the report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Destination {
    /// To the console if the program uses WASI; otherwise kept for the host.
    #[default]
    Auto,
    /// To the console, through WASI.
    Console,
    /// To a file, through WASI; it is created or appended to.
    File(String),
    /// As the environment says when the program runs: to the console if `TO_CONSOLE` is `true`,
    /// otherwise to the file `WHAMM_OUTFILE` in the folder `WHAMM_OUTDIR`.
    Environment,
    /// Kept in memory: the host calls `whamm:report`.
    Host,
}

/// The state of a program's rewriting.
pub(crate) struct Rewriter<'a> {
    pub(crate) program: &'a Program,
    pub(crate) libraries: &'a [Library],
    pub(crate) app: &'a App<'a>,
    pub(crate) options: &'a Options,
    pub(crate) facts: Facts<'a>,
    pub(crate) support: Support,
    /// How indices of the program move.
    pub(crate) indices: Indices,
    /// Libraries whose memories the output imports.
    pub(crate) memories_added: Vec<u32>,
    pub(crate) globals: Vec<Storage>,
    pub(crate) probes: Probes<'a>,
    pub(crate) ledger: Ledger,
    pub(crate) findings: Findings,
    tables: Tables,
    /// Exports that return values of variables: names and functions.
    pub(crate) getters: Vec<(String, u32)>,
    /// The functions that can be called instead of instructions, computed when a probe needs them.
    pub(crate) callees: Option<Rc<Callees>>,
    /// Functions that are hot as a whole, if they do not have more sites than this.
    pub(crate) hot: HashMap<u32, usize>,
    /// The function that writes the report, if there is one.
    pub(crate) flush: Option<u32>,
    /// The function by which the host fetches the report, if it is kept.
    fetch: Option<u32>,
}

/// Whether anything is ever printed.
pub(crate) fn prints(program: &Program) -> bool {
    let reports = program.globals.iter().chain(&program.frames).any(|v| v.report)
        || program.probes.iter().any(|p| p.body.sites.iter().any(|s| s.report));
    let mut found = reports || program.probes.iter().any(|p| !p.matched.event.has_sites());
    each_expr(program, &mut |e| {
        found |= matches!(
            e.kind,
            ExprKind::Builtin(
                Builtin::Print(_)
                    | Builtin::PutC
                    | Builtin::PutS
                    | Builtin::PrintMap
                    | Builtin::PrintMapCsv(_),
                _
            )
        );
    });
    found
}

/// Whether floats occur in a program, and whether maps do.
fn kinds(program: &Program) -> (bool, bool) {
    fn look(ty: &Ty, found: &mut (bool, bool)) {
        match ty {
            Ty::F32 | Ty::F64 => found.0 = true,
            Ty::Tuple(parts) => parts.iter().for_each(|part| look(part, found)),
            Ty::Map(kv) => {
                found.1 = true;
                look(&kv.0, found);
                look(&kv.1, found);
            }
            _ => {}
        }
    }
    let mut found = (false, false);
    let sites = program.probes.iter().flat_map(|p| &p.body.sites);
    program
        .globals
        .iter()
        .chain(&program.frames)
        .chain(sites)
        .for_each(|variable| look(&variable.ty, &mut found));
    each_expr(program, &mut |e| look(&e.ty, &mut found));
    found
}

/// Visits every expression of a program.
pub(crate) fn each_expr(program: &Program, look: &mut dyn FnMut(&Expr)) {
    for probe in &program.probes {
        probe.body.walk(look);
    }
    for stmt in program.functions.iter().flat_map(|f| &f.stmts).chain(&program.start) {
        stmt.walk(look);
    }
}

/// Functions and memories of libraries that are needed when the program runs.
pub(crate) fn needed(program: &Program) -> (BTreeSet<(u32, String)>, BTreeSet<u32>) {
    let (mut functions, mut memories) = (BTreeSet::new(), BTreeSet::new());
    each_expr(program, &mut |e| match &e.kind {
        ExprKind::Library(call, _) if !call.at_match => {
            functions.insert((call.library, call.function.to_string()));
        }
        ExprKind::Builtin(Builtin::MemId(library), _) if *library != CORE => {
            memories.insert(*library);
        }
        _ => {}
    });
    (functions, memories)
}

/// Libraries that become part of the program: the program does not import them, and they have no
/// imports themselves.
fn guests(used: BTreeSet<u32>, libraries: &[Library], app: &App<'_>) -> BTreeMap<u32, Guest> {
    let found = used.into_iter().filter_map(|number| {
        let library = libraries.get(number as usize)?;
        let shared = app.imports.iter().any(|import| import.module == library.module);
        Some((number, library.guest().filter(|_| !shared)?))
    });
    found.collect()
}

const WASI: &str = "wasi_snapshot_preview1";

fn outlet(app: &App<'_>, options: &Options) -> Outlet {
    let wasi = app.imports.iter().any(|i| i.module == WASI) || app.exported("_start").is_some();
    let through_wasi = match options.destination {
        Destination::Auto => wasi,
        Destination::Host => false,
        _ => true,
    };
    let exported = app
        .exports
        .iter()
        .find(|e| e.kind == wasmparser::ExternalKind::Memory && e.name == "memory")
        .map(|e| e.index);
    match exported {
        _ if !through_wasi => Outlet::Kept,
        None => Outlet::Own,
        // A memory is not lent if other threads may use it, or if its first kilobyte may not exist.
        Some(n)
            if app.memories.get(n as usize).is_none_or(|m| m.wide || m.shared || m.page != 16) =>
        {
            Outlet::Kept
        }
        Some(n) => Outlet::Lent(n),
    }
}

/// Rewrites a program, and its source map.
pub(crate) fn rewrite(
    program: &Program,
    libraries: &[Library],
    bytes: &[u8],
    options: &Options,
    said: &mut Diagnostics,
) -> Result<(Vec<u8>, Option<String>), Diagnostics> {
    let app = App::read(bytes)?;
    if app.memories.iter().any(|m| m.shared) {
        let message = "the program shares a memory with threads: each counts for itself, and the \
                       report is of the one that runs the entry";
        said.push_help(
            Kind::ProbeWarning,
            None,
            message,
            "it is kept for the host, which calls `whamm:report` in each thread's instance",
        );
    }
    let program = removal::without(program);
    let decoded = Decoded::decode(bytes).map_err(module::wrong)?;
    let mut rewriter = Rewriter::new(&program, libraries, &app, &decoded, options);
    let plan = rewriter.plan(&decoded)?;
    let Emitted { module: output, lost, source_map } =
        emit(&decoded, &plan).map_err(module::wrong)?;
    rewriter.findings.lost.extend(lost);
    rewriter.complain(said);
    if said.has_errors() {
        return Err(std::mem::take(said));
    }
    wasmparser::Validator::new_with_features(wasmparser::WasmFeatures::all()).validate_all(&output).map_err(|e| {
        let why = crate::library::first_line(&e);
        Diagnostics::general(
            Kind::InvalidModule,
            format!("the instrumented program would not be valid: {why}; does a probe leave other values than the instruction?"),
        )
    })?;
    Ok((output, source_map))
}

/// The memories of libraries that have addresses of 64 bits.
pub(crate) fn wide_of_libraries(layout: &Layout, libraries: &[Library]) -> Vec<u32> {
    let is_wide = |library: &u32| {
        let found = libraries.get(*library as usize).and_then(|library| library.memory.as_ref());
        found.is_some_and(|memory| memory.1)
    };
    let all = layout.library_memories.iter();
    all.filter(|(library, _)| is_wide(library)).map(|(_, memory)| *memory).collect()
}

/// The support of a program, after its imports and the outlet of its report are known.
fn linked(
    program: &Program,
    libraries: &[Library],
    app: &App<'_>,
    options: &Options,
    indices: &mut Indices,
) -> (Support, Vec<u32>) {
    let printing = prints(program);
    let mut outlet = outlet(app, options);
    let core = (options.link == Link::Imported)
        .then(|| Used::by(program, printing, options.format, Target::Program));
    let (functions, memories) = needed(program);
    let used = functions.iter().map(|f| f.0).chain(memories.iter().copied());
    let guests = if options.link == Link::Merged {
        guests(used.collect(), libraries, app)
    } else {
        BTreeMap::new()
    };
    let mut layout = Layout {
        types: u32::try_from(app.types.len()).unwrap_or(0),
        globals: app.globals,
        most_globals: options.most_globals,
        ..Layout::default()
    };
    let mut wanted: Vec<(String, String)> = functions
        .iter()
        .filter(|f| !guests.contains_key(&f.0))
        .map(|(l, f)| (libraries[*l as usize].module.clone(), f.clone()))
        .collect();
    let memories = memories.into_iter().filter(|library| !guests.contains_key(library));
    if printing && outlet != Outlet::Kept && core.is_none() {
        wanted.push((WASI.into(), "fd_write".into()));
        wanted
            .extend(options.destination.imports().iter().map(|name| (WASI.into(), (*name).into())));
    }
    if let Some(core) = &core {
        wanted.extend(core.functions.iter().map(|name| (core::MODULE.into(), name.clone())));
    }
    for (module, name) in wanted {
        let existing = app.imports.iter().position(|i| i.module == module && i.name == name);
        let index = existing.map_or_else(
            || indices.import_function(&module, &name),
            |n| u32::try_from(n).unwrap_or(0),
        );
        layout.imports.insert((module, name), index);
    }
    let mut added = Vec::new();
    for library in memories.chain(core.iter().filter(|c| c.memory).map(|_| CORE)) {
        layout.library_memories.insert(library, indices.import_memory());
        added.push(library);
    }
    layout.functions = indices.functions();
    layout.memory = indices.memories();
    layout.app_memories = (0..).zip(&app.memories).map(|(n, _)| indices.memory(n)).collect();
    let of_program = (0..).zip(&app.memories).filter(|(_, memory)| memory.wide);
    layout.wide_memories = of_program.map(|(memory, _)| indices.memory(memory)).collect();
    layout.wide_memories.extend(wide_of_libraries(&layout, libraries));
    match &mut outlet {
        _ if core.is_some() => {
            outlet = Outlet::Core(layout.library_memories.get(&CORE).copied().unwrap_or(0));
        }
        Outlet::Lent(memory) => *memory = indices.memory(*memory),
        _ => {}
    }
    let mut support = Support::new(layout, outlet);
    let (fractions, maps) = kinds(program);
    support.spare(fractions, maps);
    for (library, guest) in guests {
        support.host(library, guest);
    }
    if let Some(core) = core {
        support.share_maps(core.own_maps);
    }
    if options.format == Format::Json {
        support.preset_json();
    }
    (support, added)
}

impl<'a> Rewriter<'a> {
    fn new(
        program: &'a Program,
        libraries: &'a [Library],
        app: &'a App<'a>,
        decoded: &Decoded<'_>,
        options: &'a Options,
    ) -> Self {
        let printing = prints(program);
        let mut indices = Indices::new(decoded);
        let (mut support, memories_added) = linked(program, libraries, app, options, &mut indices);
        let added_only = region::added_only(program);
        let globals: Vec<Storage> = report::places(&mut support, &program.globals);
        support.defer_all(program, &globals, &added_only);
        let mut asks_lines = false;
        each_expr(program, &mut |e| {
            asks_lines |= matches!(e.kind, ExprKind::Bound(Bound::File | Bound::Line));
        });
        let facts = Facts {
            app,
            libraries,
            oracle: RefCell::new(Oracle::default()),
            failures: RefCell::default(),
            lines: asks_lines.then(|| Lines::read(app.bytes)),
        };
        let probes = Probes::of(program);
        let shadows = if probes.ask_functions { Shadows::of(app) } else { Shadows::default() };
        let flush = printing.then(|| support.reserve("whamm.flush"));
        Self {
            program,
            libraries,
            app,
            options,
            facts,
            support,
            indices,
            memories_added,
            globals,
            probes,
            ledger: Ledger { added_only, ..Ledger::default() },
            findings: Findings::default(),
            tables: Tables { shadows, ..Tables::default() },
            getters: vec![],
            callees: None,
            hot: HashMap::new(),
            flush,
            fetch: None,
        }
    }

    /// Reports everything that could not be expressed, and rules that matched nothing.
    fn complain(&mut self, said: &mut Diagnostics) {
        for (span, message, help) in self.support.refused.drain(..) {
            said.push_help(Kind::InstrumentationError, Some(span), message, help);
        }
        for (span, message) in self.facts.failures.borrow().iter() {
            said.push(Kind::GeneralError, Some(*span), message.clone());
        }
        if self.app.is_wide() {
            for span in &self.program.narrow {
                let message = "this rule leaves out what has 64-bit addresses in the program";
                said.push_help(
                    Kind::ProbeWarning,
                    Some(*span),
                    message,
                    "write `... as u64` where it uses addresses, and u64 variables",
                );
            }
        }
        for probe in self.program.probes.iter().filter(|p| p.matched.event.provider() == "engine") {
            let (message, help) = (
                "a program does not hear of what happens in the engine",
                "make a monitor: `--wei`",
            );
            said.push_help(Kind::InstrumentationError, Some(probe.span), message, help);
        }
        self.findings.tell(&self.program.probes, said);
    }

    /// Whether a statement anywhere uses a variable of frames.
    pub(crate) fn uses_frames(&self) -> bool {
        !self.program.frames.is_empty()
    }
}

/// Variables of frames that a body uses.
pub(crate) fn frames_of(stmts: &[Stmt], predicate: Option<&Expr>) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut look = |e: &Expr| {
        if let ExprKind::Var(Var::Frame(n)) = e.kind {
            found.insert(n);
        }
    };
    if let Some(e) = predicate {
        e.walk(&mut look);
    }
    for stmt in stmts {
        stmt.walk(&mut look);
    }
    for stmt in stmts {
        stmt.visit(&mut |s| {
            if let Stmt::Assign(place, _) | Stmt::Update(place, _, _) = s {
                let mut place = place;
                while let crate::hir::Place::Field(inner, _) = place {
                    place = inner;
                }
                if let crate::hir::Place::Var(Var::Frame(n), _) = place {
                    found.insert(*n);
                }
            }
        });
    }
    found
}
