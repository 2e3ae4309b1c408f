//! The engine target: a module that an engine attaches to programs.
//!
//! The names of exports describe a monitor to an engine: the event at which a function is called,
//! the condition that is evaluated when a site is matched, and the function's parameters. Before a
//! site's first event, the engine calls a function that creates the site's record: its variables,
//! and its description in the report. All records are in one memory and are chained in the order of
//! matching.
//!
//! A module uses only features that every engine of this family has, unless the script needs more:
//! results, other modes than `before`, unwinding, variables of frames. Then the module imports a
//! function `v1` of `wasm-aot:ext`, which is never called: an engine that does not have it refuses
//! the module instead of running it wrongly.

mod elements;
mod frames;
mod group;
mod late;
mod module;
mod name;
mod record;
mod replacement;
mod split;

use crate::check::{CORE, DYNINSTR_MODULE};
use crate::diagnostic::{Diagnostics, Kind};
use crate::emit::cells::SiteRow;
use crate::emit::code::{Emitter, Scope};
use crate::emit::core::{self, Target, Used};
use crate::emit::locals::Locals;
use crate::emit::memories::{Access, ENGINE};
use crate::emit::report::{self};
use crate::emit::storage::Storage;
use crate::emit::support::{Layout, Outlet, Shape, Support};
use crate::events::Bound;
use crate::fold::Nothing;
use crate::hir::{Builtin, Expr, ExprKind, Program, Stmt};
use crate::library::Library;
use crate::rewrite::region::added_only;
use crate::rewrite::{Link, Options, needed, prints, wide_of_libraries};
use crate::types::Ty;
use elements::Element;
use group::Group;
use name::{Helper, Leaves, Name};
use std::collections::{BTreeMap, BTreeSet};
use wasm_aot_body::report::Declaration;
use wasm_encoder::{Function, ValType};

/// The import that only engines with these extensions provide.
pub(crate) const EXTENSION: (&str, &str) = (ENGINE, "v1");

/// The size of a record before its variables.
const RECORD: u32 = 32;

/// The state of a monitor's compilation.
struct Maker<'a> {
    program: &'a Program,
    libraries: &'a [Library],
    options: &'a Options,
    support: Support,
    /// Imported functions, by module and name.
    imports: Vec<(String, String)>,
    /// Libraries with imported memories.
    memories: Vec<u32>,
    globals: Vec<Storage>,
    /// The types of rows of sites and frames, in the order of the report.
    types: Vec<(u32, String)>,
    /// Elements of maps that globals replace; these follow those of the program.
    elements: Vec<Element>,
    frames: Vec<Storage>,
    /// Bits of frames' slots that are flipped, so that zero means a variable's initial value.
    flipped: BTreeMap<u32, i64>,
    /// The first and the last record of sites.
    chain: Option<(u32, u32)>,
    /// The first of the rows of cells after records.
    rows: Option<u32>,
    /// Records with sums that are added to maps before the report.
    settled: Vec<Chain>,
    /// The first record of functions.
    frame_chain: Option<u32>,
    /// Functions under the names of their exports, in the order of creation.
    exports: Vec<(String, Vec<(u32, Shape)>)>,
    helpers: BTreeSet<u32>,
}

/// Records for which a function is called: the global that holds the first, the offset of the next
/// one in each, and the function.
#[derive(Clone, Copy, Debug)]
struct Chain {
    first: u32,
    at: u32,
    settle: u32,
}

/// Compiles a program to a monitor's module.
pub(crate) fn compile(
    program: &Program,
    libraries: &[Library],
    options: &Options,
    declaration: &Declaration,
    said: &mut Diagnostics,
) -> Result<Vec<u8>, Diagnostics> {
    let (beginning, endings) = (frames::beginning(program), frames::endings(program));
    let mut groups: Vec<Group<'_>> = beginning.iter().filter_map(group::of).collect();
    groups.extend(group::collect(program, said));
    let hears = program.probes.iter().any(|p| p.matched.event.provider() == "engine");
    let extended = hears
        || !program.frames.is_empty()
        || !Access::needed(program).is_empty()
        || groups.iter().any(Group::is_extended);
    let elements = elements::replace(program, &mut groups);
    let mut maker = Maker::new(program, libraries, options, extended);
    maker.keep(elements);
    for group in &mut groups {
        replacement::check(group, said);
        maker.group(group, said);
    }
    let endings: Vec<Group<'_>> = endings.iter().filter_map(group::of).collect();
    maker.sums(&endings, said);
    maker.reactions();
    let module = maker.module(declaration, said);
    for (span, message, help) in maker.support.refused.drain(..) {
        said.push_help(Kind::WeiError, Some(span), message, help);
    }
    if said.has_errors() {
        return Err(std::mem::take(said));
    }
    wasmparser::Validator::new_with_features(wasmparser::WasmFeatures::all())
        .validate_all(&module)
        .map_err(|e| {
            Diagnostics::general(
                Kind::InvalidModule,
                format!("the monitor would not be valid: {}", crate::library::first_line(&e)),
            )
        })?;
    Ok(module)
}

/// The types of the variables that have rows for sites or frames, in the order of the report.
fn reported_types(program: &Program) -> Vec<(u32, String)> {
    let sites = program.probes.iter().flat_map(|probe| &probe.body.sites);
    let reported = sites.chain(&program.frames).filter(|variable| variable.report);
    let types: BTreeSet<_> = reported.map(|variable| report::type_order(&variable.ty)).collect();
    types.into_iter().collect()
}

impl<'a> Maker<'a> {
    fn new(
        program: &'a Program,
        libraries: &'a [Library],
        options: &'a Options,
        extended: bool,
    ) -> Self {
        let core = (options.link == Link::Imported)
            .then(|| Used::by(program, prints(program), options.format, Target::Monitor));
        let imports = imports(program, libraries, options, core.as_ref(), extended);
        let mut memories: Vec<u32> = needed(program).1.into_iter().collect();
        memories.extend(core.iter().filter(|c| c.memory).map(|_| CORE));
        let mut layout = Layout {
            apart: true,
            imports: imports.iter().cloned().zip(0..).collect(),
            functions: u32::try_from(imports.len()).unwrap_or(0),
            library_memories: memories.iter().copied().zip(0..).collect(),
            memory: u32::try_from(memories.len()).unwrap_or(0),
            ..Layout::default()
        };
        layout.wide_memories = wide_of_libraries(&layout, libraries).into_iter().collect();
        let outlet = match &core {
            Some(_) => Outlet::Core(layout.library_memories.get(&CORE).copied().unwrap_or(0)),
            None => Outlet::Own,
        };
        let mut support = Support::new(layout, outlet);
        if let Some(core) = core {
            support.share_maps(core.own_maps);
        }
        if options.format == report::Format::Json {
            support.preset_json();
        }
        let globals: Vec<Storage> = report::places(&mut support, &program.globals);
        support.defer_all(program, &globals, &added_only(program));
        let (frames, flipped) =
            frames::storage(program, &mut |e| report::constants(&mut support, e));
        Self {
            program,
            libraries,
            options,
            support,
            imports,
            memories,
            globals,
            types: reported_types(program),
            elements: Vec::new(),
            frames,
            flipped,
            chain: None,
            rows: None,
            settled: Vec::new(),
            frame_chain: None,
            exports: vec![],
            helpers: BTreeSet::new(),
        }
    }

    /// Allocates globals for elements.
    fn keep(&mut self, elements: Vec<Element>) {
        for element in &elements {
            let slot = element.ty.slots().first().copied().unwrap_or(ValType::I32);
            self.globals.push(Storage::Globals(self.support.global(slot, 0)));
        }
        self.elements = elements;
    }

    fn scope(&self) -> Scope {
        Scope {
            globals: self.globals.clone(),
            frames: self.frames.clone(),
            flipped: self.flipped.clone(),
            ..Scope::default()
        }
    }

    /// Defines a function with these parameters: the record if it has one, then these variables.
    fn function(
        &mut self,
        what: &str,
        record: bool,
        given: &BTreeMap<Bound, Ty>,
        results: Vec<ValType>,
        write: impl FnOnce(&mut Emitter<'_>, &Scope),
    ) -> (u32, Shape) {
        let mut params = vec![ValType::I32; usize::from(record)];
        let mut scope = self.scope();
        for (bound, ty) in given {
            scope.bounds.insert(*bound, Storage::Locals(u32::try_from(params.len()).unwrap_or(0)));
            params.extend(ty.slots());
        }
        let index = self.support.reserve(&format!("whamm.{what}"));
        let mut locals = Locals::new(u32::try_from(params.len()).unwrap_or(0));
        let own = scope.clone();
        let mut emitter = Emitter::new(
            &mut self.support,
            &mut locals,
            &scope,
            &Nothing,
            self.program,
            self.libraries,
        );
        write(&mut emitter, &own);
        let code = std::mem::take(&mut emitter.out);
        let mut body = Function::new(locals.types().iter().map(|&t| (1, t)));
        body.raw(code);
        body.instructions().end();
        let shape = (params, results);
        self.support.define(index, &shape, body);
        (index, shape)
    }

    /// Defines functions for events in the engine.
    fn reactions(&mut self) {
        let program = self.program;
        for probe in program.probes.iter().filter(|p| p.matched.event.provider() == "engine") {
            let body = &probe.body;
            let given = name::given_body(body.predicate.as_ref(), &body.stmts, &BTreeMap::new());
            let (index, shape) = self.function("reaction", false, &given, vec![], |e, _| {
                e.enter(&body.locals);
                e.body(body.predicate.as_ref(), &body.stmts);
            });
            let event = name::Event { text: probe.matched.path(), skipped: 0 };
            let text =
                Name { event: &event, predicate: None, record: None, given: &given, leaves: None }
                    .to_string();
            self.export(text, (index, shape));
        }
    }

    /// Exports a function under a name; if several have the same name, all are called, in order.
    fn export(&mut self, text: String, function: (u32, Shape)) {
        match self.exports.iter_mut().find(|e| e.0 == text) {
            Some(found) => found.1.push(function),
            None => self.exports.push((text, vec![function])),
        }
    }

    /// Defines the functions of a group of events, and their exports.
    fn group(&mut self, group: &mut Group<'a>, said: &mut Diagnostics) {
        let link = group.link().map(|link| self.settle(group, link));
        let row = group.row(RECORD, |ty| self.support.core_pair(ty).is_none());
        let record = group.needs_record().then(|| self.record(group, row.as_ref(), link));
        self.probe(group, record.as_ref(), row.as_ref(), said);
    }

    /// Defines the function that adds sums in variables of a site to maps; returns the chain of the
    /// records for which it is called.
    fn settle(&mut self, group: &Group<'a>, link: u32) -> Chain {
        let places = group.places(RECORD);
        let Some(&Storage::Memory(_, at)) = places.get(link as usize) else {
            unreachable!("a site's variables are in its record")
        };
        let stmts: Vec<Stmt> = group.put_off.iter().map(Element::settle_site).collect();
        let scope = Scope { sites: places, ..self.scope() };
        let (settle, _) =
            self.function_with_sites(("settle_site", true), &BTreeMap::new(), scope, None, |e| {
                e.enter(&[]);
                e.body(None, &stmts);
            });
        let chain = Chain { first: self.support.global(ValType::I32, 0), at, settle };
        self.settled.push(chain);
        chain
    }

    /// Defines the functions that are called at a group's events, whose sites may have records.
    fn probe(
        &mut self,
        group: &Group<'a>,
        record: Option<&Helper>,
        row: Option<&SiteRow>,
        said: &mut Diagnostics,
    ) {
        for case in split::cases(group.predicate.as_ref()) {
            let predicate =
                case.condition.as_ref().map(|condition| self.at_match("predicate", condition));
            let residue = case.residue.as_ref();
            let given = group.given(residue);
            let scope = Scope {
                sites: group.places(RECORD),
                running: true,
                bulk: group.repeated(),
                row: row.cloned(),
                ..self.scope()
            };
            let leaves = self.leaves(group, residue);
            let mut written: Vec<(Vec<ValType>, (u32, Shape))> = Vec::new();
            for (event, returned) in replacement::names(group, said) {
                let known = written.iter().find(|(types, _)| *types == returned);
                let function = match known {
                    Some((_, known)) => known.clone(),
                    None => {
                        let stands = leaves.as_ref().map(|leaves| (leaves, &returned[..]));
                        let what = ("probe", record.is_some());
                        let scope = scope.clone();
                        let new = self.function_with_sites(what, &given, scope, stands, |e| {
                            e.enter(&group.locals);
                            match stands {
                                Some(_) => e.instead(residue, &group.stmts),
                                None => e.body(residue, &group.stmts),
                            }
                        });
                        written.push((returned, new.clone()));
                        new
                    }
                };
                let name = Name {
                    event: &event,
                    predicate: predicate.as_ref(),
                    record,
                    given: &given,
                    leaves: leaves.as_ref(),
                };
                let text = self.distinct(name.to_string(), &function.1, leaves.is_some());
                self.export(text, function);
            }
        }
    }

    /// Defines the function that evaluates an expression when a site is matched.
    fn at_match(&mut self, what: &str, value: &Expr) -> Helper {
        let given = name::given(&[value], &[]);
        let (index, _) = self.function(what, false, &given, value.ty.slots(), |e, _| {
            e.expr(value);
        });
        self.helpers.insert(index);
        (index, given)
    }

    /// Adds blanks to an export's name if another function has it whose types differ, or if both
    /// replace an instruction: engines ignore blanks, but they make names distinct.
    fn distinct(&self, mut text: String, shape: &Shape, stands: bool) -> String {
        while self.exports.iter().any(|e| e.0 == text && (e.1[0].1 != *shape || stands)) {
            text.insert(text.len() - 1, ' ');
        }
        text
    }

    /// Defines a function whose parameters are the record if it has one, then these variables;
    /// `stands` lists the values that it leaves if it replaces an instruction.
    fn function_with_sites(
        &mut self,
        (what, record): (&str, bool),
        given: &BTreeMap<Bound, Ty>,
        mut scope: Scope,
        stands: Option<(&Leaves, &[ValType])>,
        write: impl FnOnce(&mut Emitter<'_>),
    ) -> (u32, Shape) {
        let mut params = vec![ValType::I32; usize::from(record)];
        for (bound, ty) in given {
            scope.bounds.insert(*bound, Storage::Locals(u32::try_from(params.len()).unwrap_or(0)));
            params.extend(ty.slots());
        }
        if scope.bulk.is_some() {
            scope.operands = operands(given, &scope);
        }
        let index = self.support.reserve(&format!("whamm.{what}"));
        let mut locals = Locals::new(u32::try_from(params.len()).unwrap_or(0));
        let mut left = Vec::new();
        if let Some((leaves, returned)) = stands {
            let replacement = leaves.replacement(returned, &mut locals);
            left = replacement.left();
            scope.replacement = Some(replacement);
        }
        let mut emitter = Emitter::new(
            &mut self.support,
            &mut locals,
            &scope,
            &Nothing,
            self.program,
            self.libraries,
        );
        write(&mut emitter);
        for (local, _) in &left {
            emitter.put().local_get(*local);
        }
        let code = std::mem::take(&mut emitter.out);
        let mut body = Function::new(locals.types().iter().map(|&t| (1, t)));
        body.raw(code);
        body.instructions().end();
        let shape = (params, left.iter().map(|local| local.1).collect());
        self.support.define(index, &shape, body);
        (index, shape)
    }
}

/// The operands of a bulk operation that are repeated, which are parameters: the source and the
/// length.
fn operands(given: &BTreeMap<Bound, Ty>, scope: &Scope) -> Vec<(u32, ValType)> {
    let operand = |n: u8| {
        let slot = given.get(&Bound::Arg(n))?.slots().first().copied()?;
        match scope.bounds.get(&Bound::Arg(n)) {
            Some(Storage::Locals(local)) => Some((*local, slot)),
            _ => None,
        }
    };
    [1, 0].into_iter().filter_map(operand).collect()
}

/// The functions to import: from libraries, the system and the engine.
fn imports(
    program: &Program,
    libraries: &[Library],
    options: &Options,
    core: Option<&Used>,
    extended: bool,
) -> Vec<(String, String)> {
    let mut list = Vec::new();
    let mut called = BTreeSet::new();
    crate::rewrite::each_expr(program, &mut |e| match &e.kind {
        ExprKind::Library(call, _) => {
            called.insert((
                libraries[call.library as usize].module.clone(),
                call.function.to_string(),
            ));
        }
        ExprKind::Builtin(Builtin::RemoveProbe, _) => {
            called.insert((DYNINSTR_MODULE.into(), "remove_probe".into()));
        }
        _ => {}
    });
    list.extend(called);
    let accesses = Access::needed(program).into_iter().map(Access::import);
    list.extend(accesses.map(|(module, name)| (module.into(), name.into())));
    if let Some(core) = core {
        list.extend(core.functions.iter().map(|name| (core::MODULE.into(), name.clone())));
    } else if prints(program) {
        let destination = options.destination.imports();
        list.extend(
            ["fd_write"]
                .iter()
                .chain(destination)
                .map(|name| ("wasi_snapshot_preview1".into(), (*name).into())),
        );
    }
    if extended {
        list.push((EXTENSION.0.into(), EXTENSION.1.into()));
        if !program.frames.is_empty() {
            for ty in ["i32", "i64", "f32", "f64"] {
                list.push((EXTENSION.0.into(), format!("frame_get_{ty}")));
                list.push((EXTENSION.0.into(), format!("frame_set_{ty}")));
            }
        }
    }
    list
}
