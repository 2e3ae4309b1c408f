//! The engine target: a module that an engine attaches to programs.
//!
//! What an engine has to know is in the names of exports, which say for which event a function is
//! called, under which condition that is known when a site is matched, and what it is given. Before
//! a site's first event a function is called that makes the site's record: its variables, and what
//! the report says of it. All records lie in one memory and are chained in the order of matching.
//!
//! Only what every engine of this family knows is used, unless the script needs more: results,
//! other modes than `before`, what is unwound, variables of frames. Then the module imports a
//! function `v1` of `wasm-aot:ext`, which is never called: an engine that does not have it refuses
//! the module instead of running it wrongly.

mod elements;
mod frames;
mod group;
mod name;
mod replacement;
mod split;

use crate::check::{CORE, DYNINSTR_MODULE};
use crate::diagnostic::{Diagnostics, Kind};
use crate::emit::cells::SiteRow;
use crate::emit::code::{Emitter, Scope, written};
use crate::emit::core::{self, Target, Used};
use crate::emit::destination;
use crate::emit::locals::Locals;
use crate::emit::report::{self, Owner};
use crate::emit::storage::{Storage, WORD, word};
use crate::emit::support::{Layout, Outlet, Shape, Support};
use crate::events::{Bound, Event};
use crate::fold::Nothing;
use crate::hir::{Builtin, Expr, ExprKind, Probe, Program, Stmt, Variable};
use crate::library::Library;
use crate::rewrite::region::added_only;
use crate::rewrite::{Link, Options, needed, prints};
use crate::types::Ty;
use elements::Element;
use group::Group;
use name::{Helper, Leaves, Name};
use std::collections::{BTreeMap, BTreeSet};
use wasm_aot_body::report::Declaration;
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, CustomSection, DataSection, EntityType, ExportKind,
    ExportSection, Function, FunctionSection, GlobalSection, GlobalType, ImportSection,
    MemorySection, MemoryType, Module, NameMap, NameSection, StartSection, TypeSection, ValType,
};

/// The module that an engine must have which runs what others do not know.
pub(crate) const EXTENSION: (&str, &str) = ("wasm-aot:ext", "v1");

/// How many bytes of names an engine hands over at once; of names and labels of tables.
const BUFFER: usize = 1024;
const LABELS: usize = 1 << 16;

/// A record before its variables.
const RECORD: u32 = 32;

/// What a monitor is made with.
struct Maker<'a> {
    program: &'a Program,
    libraries: &'a [Library],
    options: &'a Options,
    support: Support,
    /// Functions that are imported, by module and name.
    imports: Vec<(String, String)>,
    /// Libraries whose memories are imported.
    memories: Vec<u32>,
    globals: Vec<Storage>,
    /// Elements of maps that globals stand for, behind those of the program.
    elements: Vec<Element>,
    frames: Vec<Storage>,
    /// Bits of frames' slots that are flipped, so that zero is what a variable begins with.
    flipped: BTreeMap<u32, i64>,
    /// The first and the last record of sites.
    chain: Option<(u32, u32)>,
    /// The first of the rows of cells behind records.
    rows: Option<u32>,
    /// Records whose variables are added to maps before the report.
    settled: Vec<Chain>,
    /// The first record of functions.
    frame_chain: Option<u32>,
    /// Functions under the names of their exports, in the order in which these came up.
    exports: Vec<(String, Vec<(u32, Shape)>)>,
    helpers: BTreeSet<u32>,
}

/// Records for which a function is to be called: the global that holds the first, where in each the
/// next one is, the function.
#[derive(Clone, Copy, Debug)]
struct Chain {
    first: u32,
    at: u32,
    settle: u32,
}

/// Makes the module.
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
    let extended = hears || !program.frames.is_empty() || groups.iter().any(Group::is_extended);
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
    let module = maker.module(declaration);
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
        let layout = Layout {
            imports: imports.iter().cloned().zip(0..).collect(),
            functions: u32::try_from(imports.len()).unwrap_or(0),
            library_memories: memories.iter().copied().zip(0..).collect(),
            memory: u32::try_from(memories.len()).unwrap_or(0),
            ..Layout::default()
        };
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
        let globals: Vec<Storage> = program
            .globals
            .iter()
            .map(|g| report::place(&mut support, g, Support::globals))
            .collect();
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

    /// Has globals for elements.
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

    /// A function whose parameters are what it is given: the record if it has one, then these
    /// variables.
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

    /// Functions for what happens in the engine.
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
            match self.exports.iter_mut().find(|e| e.0 == text) {
                Some(found) => found.1.push((index, shape)),
                None => self.exports.push((text, vec![(index, shape)])),
            }
        }
    }

    /// The functions of a group of events, and their exports.
    fn group(&mut self, group: &mut Group<'a>, said: &mut Diagnostics) {
        let link = group.link().map(|link| self.settle(group, link));
        let row = group.row(RECORD, |ty| self.support.core_pair(ty).is_none());
        let record = group.needs_record().then(|| self.record(group, row.as_ref(), link));
        self.probe(group, record.as_ref(), row.as_ref(), said);
    }

    /// The function that adds what has come together in variables of a site to maps; and how the
    /// records are chained for which it is to be called.
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

    /// The functions that are called at a group's events, whose sites may have records.
    fn probe(
        &mut self,
        group: &Group<'a>,
        record: Option<&Helper>,
        row: Option<&SiteRow>,
        said: &mut Diagnostics,
    ) {
        for case in split::cases(group.predicate.as_ref()) {
            let predicate = case.condition.as_ref().map(|condition| {
                let given = name::given(&[condition], &[]);
                let (index, _) =
                    self.function("predicate", false, &given, vec![ValType::I32], |e, _| {
                        e.expr(condition);
                    });
                self.helpers.insert(index);
                (index, given)
            });
            let given = name::given_body(case.residue.as_ref(), &group.stmts, &group.bounds);
            let scope = Scope {
                sites: group.places(RECORD),
                running: true,
                row: row.cloned(),
                ..self.scope()
            };
            let residue = case.residue.as_ref();
            let leaves = replacement::leaves(group, residue);
            let mut written: Vec<(Vec<ValType>, (u32, Shape))> = Vec::new();
            for (event, returned) in replacement::names(group, said) {
                let known = written.iter().find(|(types, _)| *types == returned);
                let (index, shape) = match known {
                    Some((_, known)) => known.clone(),
                    None => {
                        let stands = leaves.as_ref().map(|leaves| (leaves, &returned[..]));
                        let new = self.function_with_sites(
                            ("probe", record.is_some()),
                            &given,
                            scope.clone(),
                            stands,
                            |e| {
                                e.enter(&group.locals);
                                match stands {
                                    Some(_) => e.instead(residue, &group.stmts),
                                    None => e.body(residue, &group.stmts),
                                }
                            },
                        );
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
                let mut text = name.to_string();
                // Names are the same but types are not, or both stand in place of an instruction:
                // blanks make a difference that engines do not see.
                while self
                    .exports
                    .iter()
                    .any(|e| e.0 == text && (e.1[0].1 != shape || leaves.is_some()))
                {
                    text.insert(text.len() - 1, ' ');
                }
                match self.exports.iter_mut().find(|e| e.0 == text) {
                    Some(found) => found.1.push((index, shape)),
                    None => self.exports.push((text, vec![(index, shape)])),
                }
            }
        }
    }

    /// A function whose parameters are the record if it has one, then these variables; `stands` is
    /// what it leaves in place of an instruction, if it stands there.
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

    /// The function that makes the record of a site, and what it is given.
    fn record(
        &mut self,
        group: &Group<'a>,
        row: Option<&SiteRow>,
        settled: Option<Chain>,
    ) -> (u32, BTreeMap<Bound, Ty>) {
        let chain = match self.chain {
            Some(chain) => chain,
            None => *self.chain.insert((
                self.support.global(ValType::I32, 0),
                self.support.global(ValType::I32, 0),
            )),
        };
        let several = group.events.len() > 1;
        let kind = if several {
            let numbers = self.support.bytes(&group.numbers(), 4);
            self.kind(group, "_wasm:opcode:", Owner::Instructions(numbers))
        } else {
            self.kind(group, &group.identity(), Owner::Site)
        };
        let rows = row.map(|row| {
            (row, *self.rows.get_or_insert_with(|| self.support.global(ValType::I32, 0)))
        });
        let inits: Vec<&Expr> =
            group.sites.iter().filter_map(|s| s.init.as_ref()).chain(&group.inits).collect();
        let asked: Vec<&Expr> = inits.iter().copied().chain(row.map(|row| &row.largest)).collect();
        let mut given = name::given(
            &asked,
            &[(Bound::Fname, Ty::Str), (Bound::Fid, Ty::U32), (Bound::Pc, Ty::U32)],
        );
        if several {
            given.insert(Bound::Opname, Ty::Str);
        }
        let size = RECORD + group.words() * WORD;
        let (sites, inits) = (group.sites.clone(), group.inits.clone());
        let places = group.places(RECORD);
        let (index, _) = self.function("record", false, &given, vec![ValType::I32], |e, scope| {
            let record = e.locals.keep(ValType::I32);
            let memory = e.support.layout().memory;
            let (alloc, intern) = (e.support.runtime("alloc"), e.support.runtime("intern"));
            let at = |bound: Bound| {
                if let Some(Storage::Locals(n)) = scope.bounds.get(&bound) { *n } else { 0 }
            };
            match row {
                Some(row) => e.size_with(row),
                None => written(e.put().i32_const(size.cast_signed())),
            }
            e.put()
                .call(alloc)
                .local_tee(record)
                .i32_const(kind.cast_signed())
                .i32_store(word(4, memory));
            // What the engine hands over is overwritten at the next site.
            for bound in [
                Bound::File,
                Bound::Targets,
                Bound::TargetFnName,
                Bound::TargetFnType,
                Bound::TargetImpModule,
            ] {
                if scope.bounds.contains_key(&bound) {
                    let text = at(bound);
                    e.put().local_get(text).local_get(text + 1).call(intern).local_set(text);
                }
            }
            for (bound, offset) in [(Bound::Fname, 8), (Bound::Opname, 24)] {
                if scope.bounds.contains_key(&bound) {
                    let text = at(bound);
                    e.put().local_get(text).local_get(text + 1).call(intern).local_set(text);
                    e.put().local_get(record).local_get(text).i32_store(word(offset, memory));
                    e.put()
                        .local_get(record)
                        .local_get(text + 1)
                        .i32_store(word(offset + 4, memory));
                }
            }
            for (bound, offset) in [(Bound::Fid, 16), (Bound::Pc, 20)] {
                e.put().local_get(record).local_get(at(bound)).i32_store(word(offset, memory));
            }
            for (variable, place) in sites.iter().zip(&places) {
                let place = if let Storage::Memory(_, offset) = place {
                    Storage::Memory(Some(record), *offset)
                } else {
                    *place
                };
                e.begin(variable, place);
            }
            if let Some((row, chain)) = rows
                && let Some(Storage::Memory(_, map)) = places.get(row.variable as usize)
            {
                e.begin_row(row, record, *map, chain);
            }
            for call in &inits {
                e.expr(call);
                call.ty.slots().iter().for_each(|_| {
                    e.put().drop();
                });
            }
            if let Some(Chain { first, at, .. }) = settled {
                e.put().local_get(record).global_get(first).i32_store(word(at, memory));
                e.put().local_get(record).global_set(first);
            }
            frames::append(e, chain, record);
        });
        self.helpers.insert(index);
        (index, given)
    }

    /// What the records of a group have in common: their variables, as the report shows them.
    fn kind(&mut self, group: &Group<'a>, probe: &str, owner: Owner) -> u32 {
        let mut bytes = Vec::new();
        let mut count = 0u32;
        for (variable, place) in group.sites.iter().zip(group.places(RECORD)) {
            let Storage::Memory(_, offset) = place else { continue };
            if variable.report {
                bytes.extend(variable.ty.rank().to_le_bytes());
                bytes.extend(offset.to_le_bytes());
                bytes.extend(report::description(&mut self.support, variable, probe, owner));
                count += 1;
            }
        }
        let all: Vec<u8> = count.to_le_bytes().into_iter().chain(bytes).collect();
        self.support.bytes(&all, 4)
    }

    fn probes_of(&self, event: Event) -> Vec<&'a Probe> {
        self.program.probes.iter().filter(|p| p.matched.event == event).collect()
    }

    fn run_probes(&mut self, event: Event, e: &mut Vec<(Option<Expr>, Vec<Stmt>, Vec<Ty>)>) {
        for probe in self.probes_of(event) {
            e.push((
                probe.body.predicate.clone(),
                probe.body.stmts.clone(),
                probe.body.locals.clone(),
            ));
        }
    }

    /// Writes the report, when the program has ended.
    fn write_exit(&mut self) -> Option<u32> {
        let program = self.program;
        let reported = program.globals.iter().chain(&program.frames).any(|g| g.report)
            || program.probes.iter().any(|p| p.body.sites.iter().any(|s| s.report));
        let (mut ends, mut reports) = (Vec::new(), Vec::new());
        self.run_probes(Event::End, &mut ends);
        self.run_probes(Event::Report, &mut reports);
        if !reported && ends.is_empty() && reports.is_empty() {
            return None;
        }
        let (format, chain, globals) =
            (self.options.format, (self.chain, self.frame_chain), self.globals.clone());
        let rows = self.rows;
        let destination = &self.options.destination;
        let own = reports.is_empty() && reported;
        let settled: Vec<Stmt> = self.elements.iter().map(Element::settle).collect();
        let chains = self.settled.clone();
        let (index, _) = self.function("exit", false, &BTreeMap::new(), vec![], |e, _| {
            e.open_destination(destination);
            e.settle_cells(rows);
            for (predicate, stmts, locals) in ends.iter().chain(&reports) {
                e.own_locals(locals);
                e.body(predicate.as_ref(), stmts);
            }
            if own {
                e.body(None, &settled);
                chains.iter().for_each(|chain| e.call_each(chain));
                e.heading(format);
                if chain != (None, None) {
                    let records = e.support.runtime("records");
                    frames::chained(e, chain.0, chain.1);
                    e.put().call(records);
                }
                global_rows(e, program, &globals, format);
            }
            e.finish_report();
        });
        Some(index)
    }

    /// What happens before the program starts.
    fn write_start(&mut self) -> Option<u32> {
        let mut begins = Vec::new();
        self.run_probes(Event::Begin, &mut begins);
        let program = self.program;
        if begins.is_empty() && program.start.is_empty() && self.support.core_maps.is_empty() {
            return None;
        }
        let (index, _) = self.function("start", false, &BTreeMap::new(), vec![], |e, _| {
            e.core_maps();
            e.own_locals(&program.start_locals);
            e.body(None, &program.start);
            for (predicate, stmts, locals) in &begins {
                e.own_locals(locals);
                e.body(predicate.as_ref(), stmts);
            }
        });
        Some(index)
    }

    /// Where several functions are for the same event with the same parameters, one that calls them
    /// in order.
    fn merged(&mut self, functions: &[(u32, Shape)]) -> u32 {
        if let [(only, _)] = functions {
            return *only;
        }
        let index = self.support.reserve("whamm.several");
        let shape = functions[0].1.clone();
        let mut body = Function::new([]);
        for (function, _) in functions {
            for n in 0..u32::try_from(shape.0.len()).unwrap_or(0) {
                body.instructions().local_get(n);
            }
            body.instructions().call(*function);
        }
        body.instructions().end();
        self.support.define(index, &shape, body);
        index
    }

    fn module(&mut self, declaration: &Declaration) -> Vec<u8> {
        let (exit, start) = (self.write_exit(), self.write_start());
        let probes: Vec<(String, u32)> = std::mem::take(&mut self.exports)
            .into_iter()
            .map(|(name, list)| (name, self.merged(&list)))
            .collect();
        while let Some((number, index)) = self.support.unwritten() {
            let function = &self.program.functions[number as usize];
            let (shape, body) = crate::emit::function::write(
                &mut self.support,
                function,
                &self.globals,
                self.program,
                self.libraries,
            );
            self.support.define(index, &shape, body);
        }
        let mut size = BUFFER;
        crate::rewrite::each_expr(self.program, &mut |e| {
            if e.kind == ExprKind::Bound(Bound::Targets) {
                size = LABELS;
            }
        });
        let buffer = self.support.bytes(&vec![0; size], 8);
        let mut imports = ImportSection::new();
        self.write_imports(&mut imports);
        let mut exports = ExportSection::new();
        for (name, index) in &probes {
            exports.export(name, ExportKind::Func, *index);
        }
        for helper in &self.helpers {
            exports.export(&format!("${helper}"), ExportKind::Func, *helper);
        }
        if let Some(exit) = exit {
            exports.export("wasm:exit", ExportKind::Func, exit);
        }
        let (mut types, mut functions, mut memories) =
            (TypeSection::new(), FunctionSection::new(), MemorySection::new());
        let (mut globals, mut code, mut data) =
            (GlobalSection::new(), CodeSection::new(), DataSection::new());
        let own = self.support.finish();
        for (params, results) in own.types {
            types.ty().function(params, results);
        }
        for (ty, function) in &own.functions {
            functions.function(*ty);
            code.function(function);
        }
        for memory in own.memories {
            memories.memory(memory);
        }
        for (ty, init) in &own.globals {
            globals.global(*ty, init);
        }
        for (memory, at, bytes) in own.data {
            data.active(memory, &ConstExpr::i32_const(at), bytes);
        }
        let memory = self.support.layout().memory;
        exports.export("memory", ExportKind::Memory, memory).export(
            "whamm_buffer",
            ExportKind::Memory,
            memory,
        );
        for (name, value) in
            [("whamm_buffer:start", buffer), ("whamm_buffer:max", u32::try_from(size).unwrap_or(0))]
        {
            exports.export(name, ExportKind::Global, globals.len());
            globals.global(
                GlobalType { val_type: ValType::I32, mutable: false, shared: false },
                &ConstExpr::i32_const(value.cast_signed()),
            );
        }
        let mut names = NameMap::new();
        self.support.names().iter().for_each(|(n, name)| names.append(*n, name));
        let mut section = NameSection::new();
        section.functions(&names);
        let mut module = Module::new();
        module
            .section(&types)
            .section(&imports)
            .section(&functions)
            .section(&memories)
            .section(&globals)
            .section(&exports);
        if let Some(function_index) = start {
            module.section(&StartSection { function_index });
        }
        module.section(&code).section(&data).section(&section);
        if !declaration.is_empty() {
            let data = declaration.to_string().into_bytes().into();
            module.section(&CustomSection { name: wasm_aot_body::report::SECTION.into(), data });
        }
        module.finish()
    }

    fn write_imports(&mut self, section: &mut ImportSection) {
        for (module, name) in std::mem::take(&mut self.imports) {
            let shape = shape_of(&module, &name, self.libraries);
            let ty = self.support.ty(&shape);
            section.import(&module, &name, EntityType::Function(ty));
        }
        for &number in &self.memories {
            if number == CORE {
                let ty = MemoryType {
                    minimum: 0,
                    maximum: None,
                    memory64: false,
                    shared: false,
                    page_size_log2: None,
                };
                section.import(core::MODULE, "memory", EntityType::Memory(ty));
                continue;
            }
            let library = &self.libraries[number as usize];
            if let Some((name, memory64)) = &library.memory {
                let ty = MemoryType {
                    minimum: 0,
                    maximum: None,
                    memory64: *memory64,
                    shared: false,
                    page_size_log2: None,
                };
                section.import(&library.module, name, EntityType::Memory(ty));
            }
        }
    }
}

fn global_rows(
    e: &mut Emitter<'_>,
    program: &Program,
    globals: &[Storage],
    format: report::Format,
) {
    let mut maps = 0;
    for (variable, storage) in program.globals.iter().zip(globals) {
        let number = if let Storage::Globals(first) = storage { *first } else { maps };
        maps += u32::from(matches!(variable.ty, Ty::Map(_)));
        if variable.report {
            e.global_row(variable, *storage, number, format);
        }
    }
}

/// Functions that are imported: of libraries, of the system, of our engine.
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

fn shape_of(module: &str, name: &str, libraries: &[Library]) -> Shape {
    if module == EXTENSION.0 {
        let slot = match name.rsplit('_').next() {
            Some("i64") => ValType::I64,
            Some("f32") => ValType::F32,
            Some("f64") => ValType::F64,
            _ => ValType::I32,
        };
        return match name {
            _ if name.starts_with("frame_get") => (vec![ValType::I32], vec![slot]),
            _ if name.starts_with("frame_set") => (vec![ValType::I32, slot], vec![]),
            _ => (vec![], vec![]),
        };
    }
    let library = libraries.iter().find(|l| l.module == module && l.functions.contains_key(name));
    match library.and_then(|l| l.functions.get(name)).and_then(Option::as_ref) {
        Some(s) => (
            s.params.iter().flat_map(Ty::slots).collect(),
            s.result.iter().flat_map(Ty::slots).collect(),
        ),
        None if module == DYNINSTR_MODULE => (vec![ValType::I32], vec![]),
        None if module == core::MODULE => core::shape(name),
        None => destination::shape(name),
    }
}

impl Emitter<'_> {
    /// Calls a function for each record of a chain.
    fn call_each(&mut self, chain: &Chain) {
        let (memory, record) = (self.support.layout().memory, self.locals.keep(ValType::I32));
        self.put().global_get(chain.first).local_set(record);
        self.put().block(BlockType::Empty).loop_(BlockType::Empty);
        self.put().local_get(record).i32_eqz().br_if(1);
        self.put().local_get(record).call(chain.settle);
        self.put().local_get(record).i32_load(word(chain.at, memory)).local_set(record);
        self.put().br(0).end().end();
    }

    /// The first value of a variable of a new record.
    fn begin(&mut self, variable: &Variable, place: Storage) {
        match &variable.init {
            Some(init) => self.expr(init),
            None if matches!(variable.ty, Ty::Map(_)) => self.zero(&variable.ty),
            None => return,
        }
        self.store(place, &variable.ty);
    }
}
