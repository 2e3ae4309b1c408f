//! The third pass: converts a program and a plan to a module, section by section.

use crate::decode::{self, Program};
use crate::indices::Indices;
use crate::plan::{BodyPlan, Part, Plan};
use crate::{Error, debug, moves, names, source_map};
use std::collections::BTreeSet;
use wasm_aot_body::data::with_room_for_data;
use wasm_encoder::reencode::{Reencode, utils};
use wasm_encoder::{
    CodeSection, CompositeInnerType, CompositeType, ConstExpr, CustomSection, DataCountSection,
    DataSection, ElementSection, Elements, ExportSection, FuncType, Function, FunctionSection,
    GlobalSection, ImportSection, MemorySection, Module, StartSection, SubType, TableSection,
    TagSection, TypeSection,
};
use wasmparser::{ExternalKind, Operator, Parser, Payload};

/// A module, and a list of information that it lost.
#[derive(Clone, Debug)]
pub struct Emitted {
    /// The module.
    pub module: Vec<u8>,
    /// The metadata that had to be left out or is not correct any more, a sentence each.
    pub lost: Vec<String>,
    /// Its source map.
    pub source_map: Option<String>,
}

/// The sections of the output.
#[derive(Default)]
struct Sections {
    types: TypeSection,
    imports: ImportSection,
    functions: FunctionSection,
    tables: TableSection,
    memories: MemorySection,
    tags: TagSection,
    globals: GlobalSection,
    exports: ExportSection,
    elements: ElementSection,
    /// The program's functions that others are exported instead of.
    rerouted: BTreeSet<u32>,
    counts_data: bool,
    code: CodeSection,
    data: DataSection,
    names: Option<Vec<u8>>,
    customs: Vec<(String, Vec<u8>)>,
    lost: Vec<String>,
}

/// Applies a plan.
pub fn emit(program: &Program<'_>, plan: &Plan) -> Result<Emitted, Error> {
    let mut indices = plan.indices.clone();
    let mut sections = Sections::default();
    let roomy = with_room_for_data(program.bytes, plan.data.len())?;
    sections.copy(roomy.as_deref().unwrap_or(program.bytes), plan, &mut indices)?;
    let moved = sections.bodies(program, plan, &mut indices)?;
    sections.declare_rerouted(program, &mut indices)?;
    sections.add(plan);
    Ok(sections.assemble(program, plan, &moved))
}

impl Sections {
    /// Copies the program's own sections, except for its code, with indices that moved.
    fn copy(&mut self, bytes: &[u8], plan: &Plan, indices: &mut Indices) -> Result<(), Error> {
        let mut typed = indices.with_types();
        for payload in Parser::new(0).parse_all(bytes) {
            match payload? {
                Payload::TypeSection(s) => {
                    utils::parse_type_section(&mut typed, &mut self.types, s)?;
                }
                Payload::ImportSection(s) => {
                    utils::parse_import_section(&mut typed, &mut self.imports, s)?;
                }
                Payload::FunctionSection(s) => {
                    utils::parse_function_section(indices, &mut self.functions, s)?;
                }
                Payload::TableSection(s) => {
                    utils::parse_table_section(indices, &mut self.tables, s)?;
                }
                Payload::MemorySection(s) => {
                    utils::parse_memory_section(indices, &mut self.memories, s)?;
                }
                Payload::TagSection(s) => utils::parse_tag_section(indices, &mut self.tags, s)?,
                Payload::GlobalSection(s) => {
                    utils::parse_global_section(indices, &mut self.globals, s)?;
                }
                Payload::ExportSection(s) => {
                    for export in s {
                        self.export(&export?, plan, indices)?;
                    }
                }
                Payload::ElementSection(s) => {
                    utils::parse_element_section(indices, &mut self.elements, s)?;
                }
                Payload::DataCountSection { .. } => self.counts_data = true,
                Payload::DataSection(s) => utils::parse_data_section(indices, &mut self.data, s)?,
                Payload::CustomSection(custom) => self.custom(custom.name(), custom.data()),
                _ => {}
            }
        }
        Ok(())
    }

    fn export(
        &mut self,
        export: &wasmparser::Export<'_>,
        plan: &Plan,
        indices: &mut Indices,
    ) -> Result<(), Error> {
        let is_function = export.kind == ExternalKind::Func;
        let index = match plan.rerouted.get(export.name) {
            Some(other) if is_function => {
                self.rerouted.insert(export.index);
                *other
            }
            None if is_function => indices.function(export.index),
            _ => indices.external_index(export.kind, export.index)?,
        };
        self.exports.export(export.name, indices.export_kind(export.kind)?, index);
        Ok(())
    }

    /// Declares functions whose references are taken: their exports did so.
    fn declare_rerouted(
        &mut self,
        program: &Program<'_>,
        indices: &mut Indices,
    ) -> Result<(), Error> {
        let mut referred = BTreeSet::new();
        let may_refer =
            |body: &&decode::Body<'_>| !self.rerouted.is_empty() && body.may_have(REF_FUNC);
        for body in program.bodies.iter().filter(may_refer) {
            referred.extend(body.instructions()?.iter().filter_map(|instruction| {
                match instruction.operator {
                    Operator::RefFunc { function_index } => Some(function_index),
                    _ => None,
                }
            }));
        }
        let lost = self.rerouted.intersection(&referred);
        let lost: Vec<u32> = lost.map(|function| indices.function(*function)).collect();
        if !lost.is_empty() {
            self.elements.declared(Elements::Functions(lost.into()));
        }
        Ok(())
    }

    /// Drops hints and relocations, which refer to old places in the code.
    fn custom(&mut self, name: &str, data: &[u8]) {
        let speaks_of_places =
            ["metadata.code", "reloc."].iter().any(|kind| name.starts_with(kind));
        match name {
            "name" => self.names = Some(data.to_vec()),
            "linking" => {
                let lost = "what a linker needs of an object file is left out: instrument the linked program";
                self.lost.push(lost.into());
            }
            _ if speaks_of_places => {}
            _ => self.customs.push((name.into(), data.to_vec())),
        }
    }

    /// Writes the program's bodies; returns for each where it begins in the section's contents and
    /// where its instructions moved.
    fn bodies(
        &mut self,
        program: &Program<'_>,
        plan: &Plan,
        indices: &mut Indices,
    ) -> Result<Vec<moves::Moved>, Error> {
        let mut all = Vec::with_capacity(plan.bodies.len());
        for planned in &plan.bodies {
            let mut function = Function::new(planned.locals.iter().copied());
            let before = function.byte_len();
            let (code, mut moved) = body(program.bytes, planned, indices)?;
            function.raw(code);
            self.code.function(&function);
            moved.iter_mut().for_each(|place| place.1 += before);
            all.push((self.code.byte_len() - function.byte_len(), moved));
        }
        Ok(all)
    }

    /// Adds the plan's items after the existing ones.
    fn add(&mut self, plan: &Plan) {
        for (module, name, ty) in &plan.imports {
            self.imports.import(module, name, *ty);
        }
        self.add_types(plan);
        if !plan.declared.is_empty() {
            self.elements.declared(Elements::Functions(plan.declared.as_slice().into()));
        }
        for (ty, function) in &plan.functions {
            self.functions.function(*ty);
            self.code.function(function);
        }
        for memory in &plan.memories {
            self.memories.memory(*memory);
        }
        for (ty, init) in &plan.globals {
            self.globals.global(*ty, init);
        }
        for (memory, at, bytes) in &plan.data {
            self.data.active(*memory, &ConstExpr::i32_const(*at), bytes.iter().copied());
        }
        for (name, kind, index) in &plan.exports {
            self.exports.export(name, *kind, *index);
        }
    }

    fn add_types(&mut self, plan: &Plan) {
        let mut at = 0;
        let ends = plan.types.len()..plan.types.len();
        for group in plan.groups.iter().chain([&ends]) {
            for (params, results) in &plan.types[at..group.start] {
                self.types.ty().function(params.iter().copied(), results.iter().copied());
            }
            if !group.is_empty() {
                let types = plan.types[group.clone()].iter().zip(group.clone());
                let types = types.map(|((params, results), at)| {
                    let ty = FuncType::new(params.iter().copied(), results.iter().copied());
                    let inner = CompositeInnerType::Func(ty);
                    let plain =
                        CompositeType { inner, shared: false, descriptor: None, describes: None };
                    let supertype_idxs = plan.supertypes.get(&at).copied().into_iter().collect();
                    SubType { is_final: true, supertype_idxs, composite_type: plain }
                });
                self.types.ty().rec(types);
            }
            at = group.end;
        }
    }

    fn assemble(mut self, program: &Program<'_>, plan: &Plan, moved: &[moves::Moved]) -> Emitted {
        let mut module = Module::new();
        module
            .section(&self.types)
            .section(&self.imports)
            .section(&self.functions)
            .section(&self.tables)
            .section(&self.memories);
        if !self.tags.is_empty() {
            module.section(&self.tags);
        }
        module.section(&self.globals).section(&self.exports);
        if let Some(function_index) = plan.start {
            module.section(&StartSection { function_index });
        }
        module.section(&self.elements);
        if self.counts_data {
            module.section(&DataCountSection { count: self.data.len() });
        }
        module.section(&self.code).section(&self.data);
        let places = moves::Addresses::new(program.code_start, self.code.len(), moved);
        let mut lost = self.lost;
        let mut source_map = None;
        if let Some(map) = &plan.source_map {
            self.customs.retain(|(name, _)| name != source_map::SECTION);
            let begins = (program.code_start, code_start(module.as_slice()));
            match map.moved(begins, &places) {
                Ok(text) => {
                    source_map = Some(text);
                    module.section(&CustomSection {
                        name: source_map::SECTION.into(),
                        data: map.section().into(),
                    });
                }
                Err(why) => lost.push(format!("the source map cannot be kept: {why}")),
            }
        }
        let (customs, own) = debug::moved(&self.customs, &places);
        for (name, data) in customs.into_iter().chain(plan.customs.iter().cloned()) {
            module.section(&CustomSection { name: name.into(), data: data.into() });
        }
        module.section(&names::section(plan, self.names.as_deref()));
        lost.extend(own);
        Emitted { module: module.finish(), lost, source_map }
    }
}

/// The offset of the code section's contents.
fn code_start(module: &[u8]) -> u64 {
    let begins = |payload| match payload {
        Payload::CodeSectionStart { unchecked_range, .. } => Some(unchecked_range.start),
        _ => None,
    };
    Parser::new(0).parse_all(module).flatten().find_map(begins).unwrap_or(0)
}

/// The opcode of `ref.func`.
const REF_FUNC: u8 = 0xd2;

/// `else`, `catch`, `end`, `delegate` and `catch_all`: they cannot be decoded without the block
/// that they belong to, and contain no index that moves.
const PARTS_OF_BLOCKS: [u8; 5] = [0x05, 0x07, 0x0b, 0x18, 0x19];

/// The code of a body, and the moves of its instructions: from the place in the program to the
/// place in the code.
fn body(
    bytes: &[u8],
    plan: &BodyPlan,
    indices: &mut Indices,
) -> Result<(Vec<u8>, moves::Places), Error> {
    let (mut code, mut moved) = (Vec::new(), Vec::with_capacity(plan.steps.len()));
    let (moves, mut failure) = (indices.move_any(), None);
    plan.in_order(|part| match part {
        Part::Own(own) => code.extend_from_slice(own),
        Part::Step(step) => {
            moved.push((step.place.start, code.len()));
            if !step.is_kept {
                return;
            }
            let Some(own) = bytes.get(step.place.start as usize..step.place.end as usize) else {
                failure = Some(Error::Place(step.place.clone()));
                return;
            };
            if !moves || own.first().is_some_and(|opcode| PARTS_OF_BLOCKS.contains(opcode)) {
                return code.extend_from_slice(own);
            }
            match decode::operator(own) {
                Ok(operator) => indices.write(operator, own, &mut code),
                Err(error) => failure = Some(error),
            }
        }
    });
    failure.map_or(Ok((code, moved)), Err)
}
