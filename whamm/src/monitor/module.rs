//! Assembles the module of a monitor: its code before the program starts and after it has ended,
//! and its sections.

use super::elements::Element;
use super::late::{self, Part};
use super::name::{self, Name};
use super::{Chain, Maker, frames};
use crate::check::{CORE, DYNINSTR_MODULE};
use crate::diagnostic::Diagnostics;
use crate::emit::code::Emitter;
use crate::emit::core;
use crate::emit::destination;
use crate::emit::memories::Access;
use crate::emit::report;
use crate::emit::storage::word;
use crate::emit::support::Shape;
use crate::events::{Bound, Event, Occurrence};
use crate::fold::Nothing;
use crate::hir::{ExprKind, Probe, Stmt};
use crate::library::Library;
use crate::types::Ty;
use std::collections::BTreeMap;
use wasm_aot_body::report::Declaration;
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, CustomSection, DataSection, EntityType, ExportKind,
    ExportSection, Function, FunctionSection, GlobalSection, GlobalType, ImportSection,
    MemorySection, MemoryType, Module, NameMap, NameSection, StartSection, TypeSection, ValType,
};

/// How many bytes of names an engine passes at once; and of names together with labels of tables.
const BUFFER: usize = 1024;
const LABELS: usize = 1 << 16;

impl<'a> Maker<'a> {
    fn probes_of(&self, event: Event) -> Vec<&'a Probe> {
        self.program.probes.iter().filter(|p| p.matched.event == event).collect()
    }

    fn run_probes(&mut self, event: Event, e: &mut Vec<Part>) {
        for probe in self.probes_of(event) {
            e.push((
                probe.body.predicate.clone(),
                probe.body.stmts.clone(),
                probe.body.locals.clone(),
            ));
        }
    }

    /// Defines the function that writes the report after the program has ended.
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
        let types = i32::try_from(self.types.len()).unwrap_or(i32::MAX);
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
                    e.put().i32_const(types).call(records);
                }
                for (variable, storage, number) in report::global_order(&program.globals, &globals)
                {
                    e.global_row(variable, storage, number, format);
                }
            }
            e.finish_report();
        });
        Some(index)
    }

    /// Defines the functions that run before the program starts: one that runs when the monitor is
    /// instantiated, and one for what accesses the program's memories and comes after that. It runs
    /// when they exist, before the program's first instruction.
    fn write_start(&mut self, said: &mut Diagnostics) -> Option<u32> {
        let program = self.program;
        let mut begins = Vec::new();
        self.run_probes(Event::Begin, &mut begins);
        let (mut early, late) = late::divided(program, begins);
        if !late.is_empty() {
            late::check(program, &late, said);
            self.write_late(&late);
        }
        early.retain(|part| part.0.is_some() || !part.1.is_empty());
        if early.is_empty() && self.support.core_maps.is_empty() {
            return None;
        }
        let (index, _) = self.function("start", false, &BTreeMap::new(), vec![], |e, _| {
            e.core_maps();
            e.all_parts(&early);
        });
        Some(index)
    }

    /// Defines what is left for when the program's memories exist. If a program has several
    /// instances, it runs once.
    fn write_late(&mut self, parts: &[Part]) {
        let done = self.support.global(ValType::I32, 0);
        let function = self.function("begin", false, &BTreeMap::new(), vec![], |e, _| {
            e.put().global_get(done).if_(BlockType::Empty).return_().end();
            e.put().i32_const(1).global_set(done);
            e.all_parts(parts);
        });
        let event = Event::Engine(Occurrence::Instantiated);
        let text = format!("{}:{}", event.provider(), event.path());
        let event = name::Event { text, skipped: 0 };
        let given = BTreeMap::new();
        let name =
            Name { event: &event, predicate: None, record: None, given: &given, leaves: None };
        let text = name.to_string();
        // A script's own probes of the event come after it.
        match self.exports.iter_mut().find(|export| export.0 == text) {
            Some(export) => export.1.insert(0, function),
            None => self.exports.push((text, vec![function])),
        }
    }

    /// If several functions have the same event and the same parameters, defines one that calls
    /// them in order.
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

    /// Encodes the module.
    pub(super) fn module(&mut self, declaration: &Declaration, said: &mut Diagnostics) -> Vec<u8> {
        let (exit, start) = (self.write_exit(), self.write_start(said));
        let probes: Vec<(String, u32)> = std::mem::take(&mut self.exports)
            .into_iter()
            .map(|(name, list)| (name, self.merged(&list)))
            .collect();
        crate::emit::function::write_called(
            &mut self.support,
            &self.globals,
            &Nothing,
            self.program,
            self.libraries,
        );
        let buffer = self.buffer();
        let mut imports = ImportSection::new();
        self.write_imports(&mut imports);
        let mut exports = self.export_section(&probes, exit);
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
        show_buffer(buffer, &mut exports, &mut globals);
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
        module.section(&code).section(&data).section(&self.name_section());
        if !declaration.is_empty() {
            let data = declaration.to_string().into_bytes().into();
            module.section(&CustomSection { name: wasm_aot_body::report::SECTION.into(), data });
        }
        module.finish()
    }

    /// The address and size of the buffer in which an engine stores texts.
    fn buffer(&mut self) -> (u32, usize) {
        let mut size = BUFFER;
        crate::rewrite::each_expr(self.program, &mut |e| {
            if e.kind == ExprKind::Bound(Bound::Targets) {
                size = LABELS;
            }
        });
        (self.support.bytes(&vec![0; size], 8), size)
    }

    /// The exports that an engine calls, and those in which it stores data.
    fn export_section(&self, probes: &[(String, u32)], exit: Option<u32>) -> ExportSection {
        let mut exports = ExportSection::new();
        for (name, index) in probes {
            exports.export(name, ExportKind::Func, *index);
        }
        for helper in &self.helpers {
            exports.export(&format!("${helper}"), ExportKind::Func, *helper);
        }
        if let Some(exit) = exit {
            exports.export("wasm:exit", ExportKind::Func, exit);
        }
        let memory = self.support.layout().memory;
        exports.export("memory", ExportKind::Memory, memory);
        exports.export("whamm_buffer", ExportKind::Memory, memory);
        exports
    }

    fn name_section(&self) -> NameSection {
        let mut names = NameMap::new();
        self.support.names().iter().for_each(|(n, name)| names.append(*n, name));
        let mut section = NameSection::new();
        section.functions(&names);
        section
    }

    fn write_imports(&mut self, section: &mut ImportSection) {
        for (module, name) in std::mem::take(&mut self.imports) {
            let shape = shape_of(&module, &name, self.libraries);
            let ty = self.support.ty(&shape);
            section.import(&module, &name, EntityType::Function(ty));
        }
        let memory = |memory64: bool| {
            EntityType::Memory(MemoryType {
                minimum: 0,
                maximum: None,
                memory64,
                shared: false,
                page_size_log2: None,
            })
        };
        for &number in &self.memories {
            if number == CORE {
                section.import(core::MODULE, "memory", memory(false));
                continue;
            }
            let library = &self.libraries[number as usize];
            if let Some((name, memory64)) = &library.memory {
                section.import(&library.module, name, memory(*memory64));
            }
        }
    }
}

/// The globals by which an engine finds the buffer.
fn show_buffer((at, size): (u32, usize), exports: &mut ExportSection, globals: &mut GlobalSection) {
    let size = u32::try_from(size).unwrap_or(0);
    for (name, value) in [("whamm_buffer:start", at), ("whamm_buffer:max", size)] {
        exports.export(name, ExportKind::Global, globals.len());
        globals.global(
            GlobalType { val_type: ValType::I32, mutable: false, shared: false },
            &ConstExpr::i32_const(value.cast_signed()),
        );
    }
}

fn shape_of(module: &str, name: &str, libraries: &[Library]) -> Shape {
    if let Some(shape) = Access::shape(module, name) {
        return shape;
    }
    if module == super::EXTENSION.0 {
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
    /// Writes bodies one after the other.
    fn all_parts(&mut self, parts: &[Part]) {
        for (predicate, stmts, locals) in parts {
            self.own_locals(locals);
            self.body(predicate.as_ref(), stmts);
        }
    }

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
}
