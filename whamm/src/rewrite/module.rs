//! Plans the whole program: its bodies, and the items added after them.

use super::function::Unplanned;
use super::known::Nowhere;
use super::rows::Source;
use super::{Link, Rewriter, WASI, function, hot, region};
use crate::app::App;
use crate::check::CORE;
use crate::diagnostic::{Diagnostics, Kind};
use crate::emit::code::{Emitter, Scope};
use crate::emit::locals::Locals;
use crate::emit::report::global_order;
use crate::emit::storage::{Storage, WORD, keep, word};
use crate::emit::support::{Outlet, index, val};
use crate::emit::{core, destination};
use crate::events::{Event, by_code, code_of};
use crate::fold::Nothing;
use crate::hir::{Probe, Stmt, Variable};
use crate::library::first_line;
use crate::types::Ty;
use wasm_encoder::{BlockType, EntityType, ExportKind, Function, MemoryType, ValType};
use whamm_rewrite::{BodyPlan, Plan, Program as Decoded};

/// How many words one function collects: engines prefer functions that are not too large.
const COLLECTED: usize = 2000;

/// How many words of a type one call stores.
const TOGETHER: usize = 8;

pub(super) fn wrong(e: impl std::fmt::Display) -> Diagnostics {
    Diagnostics::general(
        Kind::InvalidModule,
        format!("the program cannot be rewritten: {}", first_line(&e)),
    )
}

/// The error in a function of the program: which function, and at which instruction.
fn invalid(
    app: &App<'_>,
    function: u32,
    body: std::ops::Range<u64>,
    Unplanned { falls_through, error: wrong }: &Unplanned,
) -> Diagnostics {
    let at = wrong.offset();
    let exported = app
        .exports
        .iter()
        .find(|export| export.kind == wasmparser::ExternalKind::Func && export.index == function);
    let name = match (app.name(function), exported) {
        ("", Some(export)) => export.name,
        (name, _) => name,
    };
    let name = if name.is_empty() { String::new() } else { format!(" ({name})") };
    let bytes = usize::try_from(at).ok().filter(|_| body.contains(&at));
    let instruction = bytes.and_then(|at| by_code(code_of(app.bytes.get(at..)?)?));
    let instruction =
        instruction.map_or_else(String::new, |known| format!("{} at ", known.opname()));
    let what = match falls_through {
        true => {
            "control goes on behind something that is replaced, where the instrumented program \
                 would not be valid"
        }
        false => "the program is not a valid module",
    };
    Diagnostics::general(
        Kind::InvalidModule,
        format!(
            "{what}: {} (function {function}{name}, {instruction}offset \
             {at:#x})",
            wrong.message()
        ),
    )
}

/// The code of a call.
fn call(function: u32) -> Vec<u8> {
    let mut code = Vec::new();
    wasm_encoder::InstructionSink::new(&mut code).call(function);
    code
}

impl<'a> Rewriter<'a> {
    /// Plans the new program.
    pub(super) fn plan(&mut self, decoded: &Decoded<'_>) -> Result<Plan, Diagnostics> {
        let entry = self.wire();
        if self.program.probes.iter().any(|probe| function::is_shared(&probe.body)) {
            let in_tables = self
                .app
                .element_segments
                .iter()
                .flat_map(|segment| segment.items.iter().flatten().copied());
            self.hot = hot::hot(self.app.functions(), in_tables).map_err(wrong)?;
        }
        let bodies = self.bodies()?;
        self.write_flush();
        let start = self.write_start(entry);
        crate::emit::function::write_called(
            &mut self.support,
            &self.globals,
            &Nowhere(&self.facts),
            self.program,
            self.libraries,
        );
        let imports = self.imports();
        let exports = self.exports();
        let rerouted = entry.and_then(|e| Some((e.name?.to_owned(), e.wrapper)));
        let rerouted = rerouted.into_iter().collect();
        let names = self.support.names().to_vec();
        let own = self.support.finish();
        let indices = self.indices.clone();
        let mut plan = Plan {
            indices,
            imports,
            exports,
            rerouted,
            start,
            names,
            bodies,
            source_map: self.options.source_map.clone(),
            ..Plan::new(decoded)
        };
        (plan.types, plan.functions) = (own.types, own.functions);
        (plan.memories, plan.globals, plan.data) = (own.memories, own.globals, own.data);
        Ok(plan)
    }

    /// Makes the program write its report when it ends: replaces its entry, and the exit function
    /// of WASI.
    fn wire(&mut self) -> Option<Entry> {
        let flush = self.flush?;
        if let Some(exit) =
            self.app.imports.iter().position(|i| i.module == WASI && i.name == "proc_exit")
        {
            let exit = u32::try_from(exit).unwrap_or(0);
            let shim = self.support.reserve("whamm.proc_exit");
            let mut body = Function::new([]);
            body.instructions().call(flush).local_get(0).call(self.indices.original(exit)).end();
            self.support.define(shim, &(vec![ValType::I32], vec![]), body);
            self.indices.replace(exit, shim);
        }
        let (name, function) =
            match (self.app.exported("_start"), self.app.start, self.app.exported("main")) {
                (Some(f), _, _) => (Some("_start"), f),
                (_, Some(f), _) => (None, f),
                (_, _, Some(f)) => (Some("main"), f),
                _ => return None,
            };
        let (params, results) = self.app.shape(function);
        let shape = (
            params.iter().map(|&t| val(t)).collect::<Vec<_>>(),
            results.iter().map(|&t| val(t)).collect::<Vec<_>>(),
        );
        let wrapper = self.support.reserve("whamm.entry");
        let mut body = Function::new([]);
        for n in 0..u32::try_from(params.len()).unwrap_or(0) {
            body.instructions().local_get(n);
        }
        body.instructions().call(self.indices.function(function)).call(flush).end();
        self.support.define(wrapper, &shape, body);
        Some(Entry { name, wrapper })
    }

    /// Plans every function.
    fn bodies(&mut self) -> Result<Vec<BodyPlan>, Diagnostics> {
        let mut list = Vec::new();
        let mut allocations = wasmparser::FuncValidatorAllocations::default();
        let first = self.app.imported_functions();
        let app = self.app;
        for (n, body) in (first..).zip(app.bodies()) {
            let (to_validate, body) = body.map_err(wrong)?;
            let range = body.range();
            let done = function::plan(self, n, to_validate, &body, allocations)
                .map_err(|e| invalid(app, n, range, &e))?;
            allocations = done.1;
            list.push(done.0);
        }
        Ok(list)
    }

    /// Code outside of the program's functions.
    fn free_code(
        &mut self,
        locals: &mut Locals,
        types: &[Ty],
        write: &mut dyn FnMut(&mut Emitter<'_>),
    ) -> Vec<u8> {
        let scope = Scope { globals: self.globals.clone(), ..Scope::default() };
        let known = Nowhere(&self.facts);
        let mut emitter =
            Emitter::new(&mut self.support, locals, &scope, &known, self.program, self.libraries);
        emitter.enter(types);
        write(&mut emitter);
        std::mem::take(&mut emitter.out)
    }

    fn run_probes(&mut self, event: Event, locals: &mut Locals) -> Vec<u8> {
        let probes: Vec<&Probe> = self.probes.of_event(event);
        let mut code = Vec::new();
        for probe in probes {
            self.findings.matched.insert(probe.rule);
            let body = probe.body.clone();
            code.extend(self.free_code(locals, &body.locals, &mut |e| {
                e.body(body.predicate.as_ref(), &body.stmts);
            }));
        }
        code
    }

    fn write_flush(&mut self) {
        let is_kept = self.flush.is_some() && *self.support.outlet() == Outlet::Kept;
        let settle = match self.options.testing {
            true => Some(self.write_getters()),
            false => is_kept.then(|| self.write_settle()),
        };
        let Some(flush) = self.flush else { return };
        let mut locals = Locals::new(0);
        let mut code = Vec::new();
        let destination = &self.options.destination;
        code.extend(self.free_code(&mut locals, &[], &mut |e| e.open_destination(destination)));
        match settle {
            Some(settle) => code.extend(call(settle)),
            None => code.extend(self.settling(&mut locals)),
        }
        code.extend(self.run_probes(Event::End, &mut locals));
        match settle.filter(|_| is_kept) {
            Some(settle) => code.extend(self.write_fetch(flush, settle)),
            None => code.extend(self.whole_report(&mut locals)),
        }
        self.define(flush, vec![], &locals, &code);
    }

    /// Whether the script writes the report itself.
    fn has_own_report(&self) -> bool {
        !self.probes.of_event(Event::Report).is_empty()
    }

    /// The report, written to its destination.
    fn whole_report(&mut self, locals: &mut Locals) -> Vec<u8> {
        let mut code = match self.has_own_report() {
            true => self.run_probes(Event::Report, locals),
            false => self.report(locals),
        };
        code.extend(self.free_code(locals, &[], &mut |e| e.finish_report()));
        code
    }

    /// Defines the function by which the host fetches the report. It flushes if that was not done
    /// before; otherwise it only writes the rows again, as they are now. Returns the code by which
    /// the report is written.
    fn write_fetch(&mut self, flush: u32, settle: u32) -> Vec<u8> {
        let [begin, end, any, kept] =
            ["kept_begin", "kept_end", "kept_any", "kept_report"].map(|n| self.support.runtime(n));
        let is_own = self.has_own_report();
        let mut locals = Locals::new(0);
        let mut code = if is_own { Vec::new() } else { call(begin) };
        code.extend(self.whole_report(&mut locals));
        code.extend(call(end));
        let write = self.support.reserve("whamm.write_report");
        self.define(write, vec![], &locals, &code);
        let mut code = Vec::new();
        let mut put = wasm_encoder::InstructionSink::new(&mut code);
        put.call(any).if_(BlockType::Empty);
        if !is_own {
            put.call(settle).call(write);
        }
        put.else_().call(flush).end().call(kept);
        let fetch = self.support.reserve("whamm.report");
        self.define(fetch, vec![ValType::I32; 2], &Locals::new(0), &code);
        self.fetch = Some(fetch);
        call(write)
    }

    /// Defines a function with the code that was delayed until variables are read.
    fn write_settle(&mut self) -> u32 {
        let settle = self.support.reserve("whamm.settle_all");
        let mut locals = Locals::new(0);
        let code = self.settling(&mut locals);
        self.define(settle, vec![], &locals, &code);
        settle
    }

    /// The code that was delayed until variables are read.
    fn settling(&mut self, locals: &mut Locals) -> Vec<u8> {
        let mut code = self.add_up(locals);
        code.extend(self.merge_elements(locals));
        code.extend(self.free_code(locals, &[], &mut |e| e.settle_cells(None)));
        code
    }

    /// Defines, for each global variable, a function that returns its value, and one that runs the
    /// code that was delayed until then, which is returned.
    fn write_getters(&mut self) -> u32 {
        let settle = self.write_settle();
        for (variable, storage) in self.program.globals.iter().zip(self.globals.clone()) {
            let name = format!("__whamm_get_{}", variable.name);
            if matches!(variable.ty, Ty::Map(_)) || self.getters.iter().any(|g| g.0 == name) {
                continue;
            }
            let (getter, mut locals) = (self.support.reserve(&name), Locals::new(0));
            let mut code = call(settle);
            code.extend(self.free_code(&mut locals, &[], &mut |e| e.load(storage, &variable.ty)));
            self.define(getter, variable.ty.slots(), &locals, &code);
            self.getters.push((name, getter));
        }
        settle
    }

    fn define(&mut self, function: u32, results: Vec<ValType>, locals: &Locals, code: &[u8]) {
        let mut body = Function::new(locals.types().iter().map(|&t| (1, t)));
        body.raw(code.iter().copied());
        body.instructions().end();
        self.support.define(function, &(vec![], results), body);
    }

    /// Adds what the runs of regions have added since the last report to the sums.
    fn add_up(&mut self, locals: &mut Locals) -> Vec<u8> {
        let mut code = Vec::new();
        for ((sum, wide), parts) in std::mem::take(&mut self.ledger.parts) {
            let slot = region::slot(wide);
            let (before, now) = (self.support.counter(slot), locals.take(slot));
            let reach = self.support.reach();
            let totals: Vec<u32> = parts
                .chunks(COLLECTED)
                .map(|chunk| {
                    let index = self.support.reserve("whamm.total");
                    self.support.define(
                        index,
                        &(vec![], vec![slot]),
                        region::total(chunk, wide, reach),
                    );
                    index
                })
                .collect();
            let mut put = wasm_encoder::InstructionSink::new(&mut code);
            let add = |put: &mut wasm_encoder::InstructionSink<'_>| {
                if wide {
                    put.i64_add();
                } else {
                    put.i32_add();
                }
            };
            put.call(totals[0]);
            for total in &totals[1..] {
                put.call(*total);
                add(&mut put);
            }
            put.local_set(now);
            reach.ready(&mut put, sum);
            reach.get(&mut put, sum, slot);
            put.local_get(now);
            reach.get(&mut put, before, slot);
            if wide {
                put.i64_sub();
            } else {
                put.i32_sub();
            }
            add(&mut put);
            reach.set(&mut put, sum, slot);
            reach.ready(&mut put, before);
            put.local_get(now);
            reach.set(&mut put, before, slot);
        }
        code
    }

    /// Merges sums of elements with constant keys into their maps, and resets them.
    fn merge_elements(&mut self, locals: &mut Locals) -> Vec<u8> {
        let elements = std::mem::take(&mut self.ledger.elements);
        let mut code = Vec::new();
        for region::Summed { map, key, sum: (counter, wide) } in elements.into_values() {
            let (reach, slot) = (self.support.reach(), region::slot(wide));
            let Ty::Map(kv) = map.ty.clone() else { continue };
            let held = Storage::Globals(counter);
            let stmt = Stmt::Update(
                crate::hir::Place::Element(Box::new(map.clone()), Box::new(key)),
                crate::syntax::ast::BinOp::Add,
                crate::hir::Expr {
                    kind: crate::hir::ExprKind::Var(crate::hir::Var::Frame(0)),
                    ty: kv.1.clone(),
                    span: map.span,
                },
            );
            let scope =
                Scope { globals: self.globals.clone(), frames: vec![held], ..Scope::default() };
            let mut emitter = Emitter::new(
                &mut self.support,
                locals,
                &scope,
                &Nothing,
                self.program,
                self.libraries,
            );
            reach.get(&mut emitter.put(), counter, slot);
            if wide {
                emitter.put().i64_eqz().i32_eqz();
            }
            emitter.put().if_(BlockType::Empty);
            emitter.body(None, std::slice::from_ref(&stmt));
            reach.ready(&mut emitter.put(), counter);
            if wide {
                emitter.put().i64_const(0);
            } else {
                emitter.put().i32_const(0);
            }
            reach.set(&mut emitter.put(), counter, slot);
            emitter.put().end();
            code.extend(std::mem::take(&mut emitter.out));
        }
        code
    }

    fn frame_rows(&mut self) {
        for ((fid, n), first) in std::mem::take(&mut self.ledger.framed) {
            let variable: &'a Variable = &self.program.frames[n as usize];
            let words: Vec<Source> =
                (first..).zip(variable.ty.slots()).map(|(g, s)| Source::Counter(g, s)).collect();
            self.ledger.rows.add(&mut self.support, variable, None, (fid, 0), &words);
        }
    }

    fn report(&mut self, locals: &mut Locals) -> Vec<u8> {
        let format = self.options.format;
        self.frame_rows();
        let program = self.program;
        if self.ledger.rows.is_empty() && !program.globals.iter().any(|g| g.report) {
            return Vec::new();
        }
        let mut code = self.free_code(locals, &[], &mut |e| e.heading(format));
        if !self.ledger.rows.is_empty() {
            code.extend(self.site_rows(locals));
        }
        for (variable, storage, number) in global_order(&program.globals, &self.globals) {
            code.extend(self.free_code(locals, &[], &mut |e| {
                e.global_row(variable, storage, number, format);
            }));
        }
        code
    }

    /// Collects the words of all sites in newly allocated memory, and writes the rows. A report
    /// that is kept may be written again for each time that it is fetched: it uses the same memory.
    fn site_rows(&mut self, locals: &mut Locals) -> Vec<u8> {
        let sources = self.ledger.rows.words.clone();
        let (packed, count, descriptions) = self.ledger.rows.pack();
        let functions = self.ledger.rows.functions();
        let mut names = vec![0u8; (functions.last().map_or(0, |f| *f as usize) + 1) * 8];
        for fid in functions {
            let pair = self.support.pair(self.app.name(fid));
            names[fid as usize * 8..][..8].copy_from_slice(&pair);
        }
        let (vars, names, rows) = (
            self.support.bytes(&descriptions, 4),
            self.support.bytes(&names, 4),
            self.support.bytes(&packed, 1),
        );
        let collectors: Vec<u32> = (0..)
            .zip(sources.chunks(COLLECTED))
            .map(|(n, chunk)| self.collector(n, chunk))
            .collect();
        let base = locals.keep(ValType::I32);
        let total = u32::try_from(sources.len()).unwrap_or(0) * WORD;
        let is_kept = *self.support.outlet() == Outlet::Kept;
        let again = is_kept.then(|| self.support.global(ValType::I32, 0));
        self.free_code(locals, &[], &mut |e| {
            let (alloc, write) = (e.support.runtime("alloc"), e.support.runtime("rows"));
            if let Some(again) = again {
                e.put().global_get(again).local_tee(base).i32_eqz().if_(BlockType::Empty);
            }
            e.put().i32_const(total.cast_signed()).call(alloc).local_set(base);
            if let Some(again) = again {
                e.put().local_get(base).global_set(again).end();
            }
            for &collector in &collectors {
                e.put().local_get(base).call(collector);
            }
            let numbers = [rows, count, vars, names].map(u32::cast_signed);
            for n in numbers {
                e.put().i32_const(n);
            }
            e.put().local_get(base).call(write);
        })
    }

    /// Defines a function that stores words from an address on: eight of a type at a time, and the
    /// rest one by one.
    fn collector(&mut self, number: u32, sources: &[Source]) -> u32 {
        let (memory, reach) = (self.support.layout().memory, self.support.reach());
        let reserved = self.support.reserve("whamm.collect");
        let mut body = Function::new([]);
        let first = number * u32::try_from(COLLECTED).unwrap_or(0) * WORD;
        body.instructions().local_get(0).i32_const(first.cast_signed()).i32_add();
        let mut left = sources;
        while let Some(ty) = left.first().map(Source::slot) {
            let same = left.iter().take_while(|source| source.slot() == ty).count();
            let (run, rest) = left.split_at(same);
            let (whole, single) = run.split_at(same - same % TOGETHER);
            for sources in whole.chunks(TOGETHER) {
                sources.iter().for_each(|source| source.push(&mut body.instructions(), reach));
                body.instructions().call(self.keeper(ty));
            }
            if !single.is_empty() {
                body.instructions().local_set(0);
                for (n, source) in (0..).zip(single) {
                    body.instructions().local_get(0);
                    source.push(&mut body.instructions(), reach);
                    keep(&mut body.instructions(), ty, word(n * WORD, memory));
                }
                let next = u32::try_from(single.len()).unwrap_or(0) * WORD;
                body.instructions().local_get(0).i32_const(next.cast_signed()).i32_add();
            }
            left = rest;
        }
        body.instructions().drop().end();
        self.support.define(reserved, &(vec![ValType::I32], vec![]), body);
        reserved
    }

    /// Defines a function that stores several words of a type from an address on, and returns the
    /// address after them.
    fn keeper(&mut self, ty: ValType) -> u32 {
        let memory = self.support.layout().memory;
        let mut code = Vec::new();
        let mut put = wasm_encoder::InstructionSink::new(&mut code);
        for n in 0..index(TOGETHER) {
            put.local_get(0).local_get(n + 1);
            keep(&mut put, ty, word(n * WORD, memory));
        }
        put.local_get(0).i32_const((index(TOGETHER) * WORD).cast_signed()).i32_add();
        let params = std::iter::once(ValType::I32).chain([ty; TOGETHER]).collect();
        self.support.shared_body("whamm.keep", (params, vec![ValType::I32]), &[], &code)
    }

    /// Defines the start function: it sets globals whose values have to be computed, initialises
    /// sites, runs `begin` probes, and then calls the program's own start function.
    fn write_start(&mut self, entry: Option<Entry>) -> Option<u32> {
        let mut locals = Locals::new(0);
        let program = self.program;
        let mut code = self
            .free_code(&mut locals, &program.start_locals, &mut |e| e.body(None, &program.start));
        for (target, value) in std::mem::take(&mut self.ledger.first) {
            code.extend(self.free_code(&mut locals, &[], &mut |e| {
                e.expr(&value);
                match &target {
                    Some((storage, ty)) => e.store(*storage, ty),
                    None => value.ty.slots().iter().for_each(|_| {
                        e.put().drop();
                    }),
                }
            }));
        }
        code.extend(self.run_probes(Event::Begin, &mut locals));
        let original = match entry {
            Some(Entry { name: None, wrapper }) => Some(wrapper),
            _ => self.app.start.map(|s| self.indices.function(s)),
        };
        let maps = self.free_code(&mut locals, &[], &mut |e| e.core_maps());
        code.splice(0..0, maps);
        if code.is_empty() {
            return original;
        }
        let start = self.support.reserve("whamm.start");
        let mut body = Function::new(locals.types().iter().map(|&t| (1, t)));
        body.raw(code);
        if let Some(original) = original {
            body.instructions().call(original);
        }
        body.instructions().end();
        self.support.define(start, &(vec![], vec![]), body);
        Some(start)
    }

    /// The imports that are added.
    fn imports(&mut self) -> Vec<(String, String, EntityType)> {
        let mut list = Vec::new();
        for (module, name) in self.indices.imported().1.to_vec() {
            let shape = match (module.as_str(), name.as_str()) {
                (WASI, name) => destination::shape(name),
                (core::MODULE, name) if self.options.link == Link::Imported => core::shape(name),
                _ => self.library_shape(&module, &name),
            };
            let ty = self.support.ty(&shape);
            list.push((module, name, EntityType::Function(ty)));
        }
        for library in self.memories_added.clone() {
            if library == CORE {
                let ty = MemoryType {
                    minimum: 0,
                    maximum: None,
                    memory64: false,
                    shared: false,
                    page_size_log2: None,
                };
                list.push((core::MODULE.into(), "memory".into(), EntityType::Memory(ty)));
                continue;
            }
            let library = &self.libraries[library as usize];
            if let Some((name, memory64)) = &library.memory {
                let ty = MemoryType {
                    minimum: 0,
                    maximum: None,
                    memory64: *memory64,
                    shared: false,
                    page_size_log2: None,
                };
                list.push((library.module.clone(), name.clone(), EntityType::Memory(ty)));
            }
        }
        list
    }

    fn library_shape(&self, module: &str, name: &str) -> (Vec<ValType>, Vec<ValType>) {
        let library =
            self.libraries.iter().find(|l| l.module == module && l.functions.contains_key(name));
        let signature = library.and_then(|l| l.functions.get(name)).and_then(Option::as_ref);
        signature.map_or_else(Default::default, |s| {
            (
                s.params.iter().flat_map(Ty::slots).collect(),
                s.result.iter().flat_map(Ty::slots).collect(),
            )
        })
    }

    /// The exports that are added to the program's own.
    fn exports(&mut self) -> Vec<(String, ExportKind, u32)> {
        let mut list = Vec::new();
        for (name, getter) in &self.getters {
            if self.app.exports.iter().all(|e| e.name != name) {
                list.push((name.clone(), ExportKind::Func, *getter));
            }
        }
        let Some(flush) = self.flush else { return list };
        // A program may be instrumented again, and then has such exports already.
        let again = (2..)
            .find(|n| self.app.exported(&format!("whamm:flush:{n}")).is_none())
            .filter(|_| self.app.exported("whamm:flush").is_some());
        let own = |name: &str| again.map_or_else(|| name.to_string(), |n| format!("{name}:{n}"));
        list.push((own("whamm:flush"), ExportKind::Func, flush));
        let memory = self.support.layout().memory;
        if let Some(fetch) = self.fetch {
            list.push((own("whamm:report"), ExportKind::Func, fetch));
            list.push((own("whamm:memory"), ExportKind::Memory, memory));
        }
        if *self.support.outlet() == Outlet::Own {
            list.push(("memory".into(), ExportKind::Memory, memory));
        }
        list
    }
}

/// A program's entry, and the function that replaces it.
#[derive(Clone, Copy)]
struct Entry {
    /// The export, unless it is the start function.
    name: Option<&'static str>,
    wrapper: u32,
}
