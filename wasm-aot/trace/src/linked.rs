//! Links modules that import from each other into one, so that a run of all of them is a run of one
//! program: calls between them are internal, and not in a trace.
//!
//! ```text
//!     functions   imported from the host │ the first module's │ … │ the last one's │ instantiate
//! ```
//!
//! An import that an earlier module exports is resolved to that export; an import from the host
//! occurs once. In each index space the modules follow one another. Segments that instantiation
//! copies become passive: for each module a function copies them and calls its start function, so
//! that a host that acts between two instantiations finds the state that it would have found. Those
//! of data become one segment for each module, since engines accept 100,000 of them, as many as one
//! of the modules may have. Instructions that name them find it empty afterwards, as they should.

use crate::error::Error;
use std::collections::HashMap;
use wasm_aot_body::data;
use wasm_encoder::reencode::{Error as Unwritten, Reencode, utils};
use wasm_encoder::{
    CodeSection, DataCountSection, DataSection, ElementSection, ExportKind, ExportSection,
    Function, FunctionSection, GlobalSection, ImportSection, Instruction, MemorySection, Module,
    NameMap, NameSection, TableSection, TagSection, TypeSection,
};
use wasmparser::{
    DataKind, DataSectionReader, ElementItems, ElementKind, ExportSectionReader, ExternalKind,
    ImportSectionReader, KnownCustom, Name, Parser, Payload, TypeRef, Validator, WasmFeatures,
};

/// The most data segments of linked modules: one less than engines accept, since a replay adds one.
const DATA_SEGMENTS: u32 = data::MOST as u32 - 1;

/// A module, and the name by which others import from it.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Its name in imports.
    pub name: &'a str,
    /// The module, in binary.
    pub module: &'a [u8],
}

/// Modules that were linked into one.
#[derive(Clone, Debug, Default)]
pub struct Linked {
    /// The module.
    pub module: Vec<u8>,
    /// For each part the indices of its items.
    pub parts: Vec<PartIndices>,
}

/// The indices in the linked module of a part's items, by their own indices.
#[derive(Clone, Debug, Default)]
pub struct PartIndices {
    /// Functions.
    pub functions: Vec<u32>,
    /// Memories.
    pub memories: Vec<u32>,
    /// Tables.
    pub tables: Vec<u32>,
    /// Globals.
    pub globals: Vec<u32>,
    /// Tags.
    pub tags: Vec<u32>,
    /// The function with the effects of instantiation, if there are any.
    pub instantiate: Option<u32>,
    /// Whether it has a start function, which that function calls.
    pub has_start: bool,
    /// Its imports from the host that no earlier part imports: space and own index.
    pub first: Vec<(ExternalKind, u32)>,
    types: u32,
    /// Data segments: those that instantiation copies are one.
    data: Vec<u32>,
    elements: u32,
}

impl PartIndices {
    fn space(&mut self, kind: ExternalKind) -> &mut Vec<u32> {
        match kind {
            ExternalKind::Func | ExternalKind::FuncExact => &mut self.functions,
            ExternalKind::Memory => &mut self.memories,
            ExternalKind::Table => &mut self.tables,
            ExternalKind::Global => &mut self.globals,
            ExternalKind::Tag => &mut self.tags,
        }
    }
}

fn kind_of(ty: &TypeRef) -> ExternalKind {
    match ty {
        TypeRef::Func(_) | TypeRef::FuncExact(_) => ExternalKind::Func,
        TypeRef::Memory(_) => ExternalKind::Memory,
        TypeRef::Table(_) => ExternalKind::Table,
        TypeRef::Global(_) => ExternalKind::Global,
        TypeRef::Tag(_) => ExternalKind::Tag,
    }
}

impl Linked {
    /// Links modules, in the order in which they are instantiated. The exports of the last one keep
    /// their names; those of others are named `PART.NAME`, and the function that instantiates a
    /// part `PART.instantiate`.
    pub fn new(parts: &[Part<'_>]) -> Result<Self, Error> {
        for part in parts {
            Validator::new_with_features(WasmFeatures::all()).validate_all(part.module)?;
        }
        let mut layout = Layout::default();
        for (at, part) in parts.iter().enumerate() {
            layout.import(at, part)?;
        }
        let mut linking = Linking { layout, ..Linking::default() };
        for (at, part) in parts.iter().enumerate() {
            linking.own(at, part)?;
        }
        for (at, part) in parts.iter().enumerate() {
            let is_last = at + 1 == parts.len();
            linking.write(at, part, is_last)?;
        }
        linking.instantiations(parts)?;
        if linking.data.len() > DATA_SEGMENTS {
            let count = linking.data.len();
            let why =
                format!("they need {count} data segments, and a replay may have {DATA_SEGMENTS}");
            return Err(Error::Unlinked(why));
        }
        Ok(linking.finish())
    }

    /// Returns the place in the linked module of a call instruction in a part's function. The
    /// instruction is given by its place in the part.
    pub fn call(&self, part: usize, module: &[u8], function: u32, offset: u32) -> Option<u32> {
        let linked = *self.parts.get(part)?.functions.get(function as usize)?;
        let at = starts(module, function)?.iter().position(|start| *start == offset)?;
        starts(&self.module, linked)?.get(at).copied()
    }
}

/// The offsets of the instructions of a function.
fn starts(module: &[u8], function: u32) -> Option<Vec<u32>> {
    let mut at = 0;
    for payload in Parser::new(0).parse_all(module) {
        match payload.ok()? {
            Payload::ImportSection(section) => {
                let all = section.into_imports().filter_map(Result::ok);
                at += all.filter(|import| kind_of(&import.ty) == ExternalKind::Func).count() as u32;
            }
            Payload::CodeSectionEntry(body) => {
                if at == function {
                    let operators = body.get_operators_reader().ok()?.into_iter_with_offsets();
                    let each = operators.map(|each| u32::try_from(each.ok()?.1).ok());
                    return each.collect();
                }
                at += 1;
            }
            _ => {}
        }
    }
    None
}

/// The resolution of the modules' imports and exports.
#[derive(Default)]
struct Layout {
    parts: Vec<PartIndices>,
    exports: Vec<HashMap<String, (ExternalKind, u32)>>,
    /// The resolution of each import of a part: `None` for one from the host.
    resolved: Vec<Vec<Option<(usize, u32)>>>,
    names: Vec<String>,
    /// Imports from the host, by kind and names: their indices.
    host: HashMap<(ExternalKindKey, String, String), u32>,
    counts: HashMap<ExternalKindKey, u32>,
    /// Whether an import of a part is the first one of its item.
    kept: Vec<Vec<bool>>,
}

/// The kind of an import, as part of a key.
type ExternalKindKey = u8;

impl Layout {
    /// Resolves the imports of a part; afterwards, imports from the host have their indices.
    fn import(&mut self, at: usize, part: &Part<'_>) -> Result<(), Error> {
        let (mut own, mut resolved, mut kept) = (PartIndices::default(), Vec::new(), Vec::new());
        let mut exports = HashMap::new();
        for payload in Parser::new(0).parse_all(part.module) {
            match payload? {
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        let import = import?;
                        let kind = kind_of(&import.ty);
                        let library = self.names.iter().rposition(|name| name == import.module);
                        let index = own.space(kind).len() as u32;
                        let found = match library {
                            Some(library) => {
                                let there = self.exports[library].get(import.name).copied();
                                let there = there.filter(|(found, _)| *found == kind);
                                let missing = || {
                                    let what = "exports nothing of that name and kind";
                                    let (from, name) = (import.module, import.name);
                                    Error::Unlinked(format!("\"{from}\" \"{name}\": {from} {what}"))
                                };
                                let (_, there) = there.ok_or_else(missing)?;
                                Some((library, there))
                            }
                            None => None,
                        };
                        let key = (kind as u8, import.module.to_owned(), import.name.to_owned());
                        let is_new = found.is_none() && !self.host.contains_key(&key);
                        if is_new {
                            let count = self.counts.entry(key.0).or_default();
                            self.host.insert(key.clone(), *count);
                            *count += 1;
                            own.first.push((kind, index));
                        }
                        // The index of another part's export is not known yet.
                        let place = if found.is_some() { u32::MAX } else { self.host[&key] };
                        own.space(kind).push(place);
                        resolved.push(found);
                        kept.push(is_new);
                    }
                }
                Payload::ExportSection(section) => {
                    for export in section {
                        let export = export?;
                        let kind = match export.kind {
                            ExternalKind::FuncExact => ExternalKind::Func,
                            kind => kind,
                        };
                        exports.insert(export.name.to_owned(), (kind, export.index));
                    }
                }
                _ => {}
            }
        }
        debug_assert_eq!(at, self.parts.len());
        self.parts.push(own);
        self.resolved.push(resolved);
        self.kept.push(kept);
        self.exports.push(exports);
        self.names.push(part.name.to_owned());
        Ok(())
    }
}

/// The linked module during its construction.
#[derive(Default)]
struct Linking {
    layout: Layout,
    types: TypeSection,
    imports: ImportSection,
    functions: FunctionSection,
    tables: TableSection,
    memories: MemorySection,
    tags: TagSection,
    globals: GlobalSection,
    exports: ExportSection,
    elements: ElementSection,
    code: CodeSection,
    data: DataSection,
    names: Vec<(u32, String)>,
    /// The numbers of functions, memories, tables, globals, tags, types, data and elements.
    next: [u32; 8],
    /// For each part the effects of its instantiation.
    begin: Vec<Function>,
    does: Vec<bool>,
}

const SPACES: [ExternalKind; 5] = [
    ExternalKind::Func,
    ExternalKind::Memory,
    ExternalKind::Table,
    ExternalKind::Global,
    ExternalKind::Tag,
];

impl Linking {
    /// Assigns indices to a part's own items, and to its imports from others.
    fn own(&mut self, at: usize, part: &Part<'_>) -> Result<(), Error> {
        if at == 0 {
            for (next, kind) in self.next.iter_mut().zip(SPACES) {
                *next = self.layout.counts.get(&(kind as u8)).copied().unwrap_or_default();
            }
        }
        let resolved = self.layout.resolved[at].clone();
        let mut seen = HashMap::<ExternalKindKey, usize>::new();
        let mut import = 0;
        for payload in Parser::new(0).parse_all(part.module) {
            let (space, count) = match payload? {
                Payload::TypeSection(section) => {
                    self.layout.parts[at].types = self.next[5];
                    for group in section {
                        self.next[5] += group?.types().len() as u32;
                    }
                    continue;
                }
                Payload::ImportSection(section) => {
                    for each in section.into_imports() {
                        let kind = kind_of(&each?.ty);
                        let index = seen.entry(kind as u8).or_default();
                        if let Some((library, there)) = resolved[import] {
                            let place =
                                self.layout.parts[library].space(kind).get(there as usize).copied();
                            self.layout.parts[at].space(kind)[*index] =
                                place.expect("a valid module exports what it has");
                        }
                        (*index, import) = (*index + 1, import + 1);
                    }
                    continue;
                }
                Payload::FunctionSection(section) => (0, section.count()),
                Payload::MemorySection(section) => (1, section.count()),
                Payload::TableSection(section) => (2, section.count()),
                Payload::GlobalSection(section) => (3, section.count()),
                Payload::TagSection(section) => (4, section.count()),
                Payload::DataSection(section) => {
                    let mut copied = None;
                    for datum in section {
                        let place = match (datum?.kind, copied) {
                            (DataKind::Active { .. }, Some(place)) => place,
                            (kind, _) => {
                                let place = self.next[6];
                                self.next[6] += 1;
                                if matches!(kind, DataKind::Active { .. }) {
                                    copied = Some(place);
                                }
                                place
                            }
                        };
                        self.layout.parts[at].data.push(place);
                    }
                    continue;
                }
                Payload::ElementSection(section) => {
                    self.layout.parts[at].elements = self.next[7];
                    self.next[7] += section.count();
                    continue;
                }
                _ => continue,
            };
            let first = self.next[space];
            self.layout.parts[at].space(SPACES[space]).extend(first..first + count);
            self.next[space] += count;
        }
        Ok(())
    }

    fn write(&mut self, at: usize, part: &Part<'_>, is_last: bool) -> Result<(), Error> {
        let mut indices = self.layout.parts[at].clone();
        let indices = &mut indices;
        let (mut begin, mut does, mut start) = (Function::new([]), false, None);
        let kept = std::mem::take(&mut self.layout.kept[at]);
        for payload in Parser::new(0).parse_all(part.module) {
            match payload? {
                Payload::TypeSection(s) => utils::parse_type_section(indices, &mut self.types, s)?,
                Payload::ImportSection(section) => self.write_imports(section, &kept, indices)?,
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
                Payload::ExportSection(section) => {
                    let prefix = if is_last { None } else { Some(part.name) };
                    self.write_exports(section, prefix, indices)?;
                }
                Payload::ElementSection(section) => {
                    for (segment, element) in (indices.elements..).zip(section) {
                        does |= self.element(indices, segment, element?, &mut begin)?;
                    }
                }
                Payload::CodeSectionEntry(body) => {
                    indices.parse_function_body(&mut self.code, body)?;
                }
                Payload::DataSection(section) => {
                    does |= self.write_data(indices, section, &mut begin)?;
                }
                Payload::StartSection { func, .. } => {
                    start = Some(indices.function_index(func)?);
                }
                Payload::CustomSection(custom) => {
                    if let KnownCustom::Name(reader) = custom.as_known() {
                        let prefix = if is_last { "" } else { part.name };
                        self.functions_named(reader, indices, prefix);
                    }
                }
                _ => {}
            }
        }
        // It is called last, wherever it is declared.
        if let Some(start) = start {
            begin.instruction(&Instruction::Call(start));
        }
        begin.instruction(&Instruction::End);
        self.begin.push(begin);
        self.does.push(does || start.is_some());
        self.layout.parts[at].has_start = start.is_some();
        Ok(())
    }

    /// Writes the imports of a part that no other part provides.
    fn write_imports(
        &mut self,
        section: ImportSectionReader<'_>,
        kept: &[bool],
        indices: &mut PartIndices,
    ) -> Result<(), Error> {
        for (import, is_kept) in section.into_imports().zip(kept) {
            let import = import?;
            if *is_kept {
                let ty = indices.entity_type(import.ty)?;
                self.imports.import(import.module, import.name, ty);
            }
        }
        Ok(())
    }

    /// Writes the exports of a part, prefixed by its name except for the last part.
    fn write_exports(
        &mut self,
        section: ExportSectionReader<'_>,
        prefix: Option<&str>,
        indices: &mut PartIndices,
    ) -> Result<(), Error> {
        for export in section {
            let export = export?;
            let index = indices.external_index(export.kind, export.index)?;
            let kind = indices.export_kind(export.kind)?;
            match prefix {
                None => self.exports.export(export.name, kind, index),
                Some(prefix) => {
                    self.exports.export(&format!("{prefix}.{}", export.name), kind, index)
                }
            };
        }
        Ok(())
    }

    /// Writes the data segments of a part; returns whether instantiation has to act on them.
    fn write_data(
        &mut self,
        indices: &mut PartIndices,
        section: DataSectionReader<'_>,
        begin: &mut Function,
    ) -> Result<bool, Error> {
        let (mut copied, mut bytes) = (None, Vec::new());
        let mut segments = Vec::new();
        for (own, datum) in section.into_iter().enumerate() {
            let datum = datum?;
            let place = indices.data[own];
            let DataKind::Active { memory_index, offset_expr } = datum.kind else {
                segments.push(Some(datum.data));
                continue;
            };
            if copied.is_none() {
                segments.push(None);
                copied = Some(place);
            }
            offset(indices, &offset_expr, begin)?;
            let [from, len] = [bytes.len(), datum.data.len()].map(|count| count as i32);
            begin
                .instruction(&Instruction::I32Const(from))
                .instruction(&Instruction::I32Const(len))
                .instruction(&Instruction::MemoryInit {
                    mem: indices.memory_index(memory_index)?,
                    data_index: place,
                });
            bytes.extend(datum.data);
        }
        for segment in segments {
            self.data.passive(segment.unwrap_or(&bytes).iter().copied());
        }
        if let Some(place) = copied {
            begin.instruction(&Instruction::DataDrop(place));
        }
        Ok(copied.is_some())
    }

    /// Writes an element segment; returns whether instantiation has to act on it.
    fn element(
        &mut self,
        indices: &mut PartIndices,
        segment: u32,
        element: wasmparser::Element<'_>,
        begin: &mut Function,
    ) -> Result<bool, Error> {
        let len = match &element.items {
            ElementItems::Functions(section) => section.count(),
            ElementItems::Expressions(_, section) => section.count(),
        };
        let items = indices.element_items(element.items)?;
        let ElementKind::Active { table_index, offset_expr } = element.kind else {
            match element.kind {
                ElementKind::Declared => self.elements.declared(items),
                _ => self.elements.passive(items),
            };
            return Ok(false);
        };
        self.elements.passive(items);
        offset(indices, &offset_expr, begin)?;
        begin
            .instruction(&Instruction::I32Const(0))
            .instruction(&Instruction::I32Const(len.cast_signed()))
            .instruction(&Instruction::TableInit {
                elem_index: segment,
                table: indices.table_index(table_index.unwrap_or(0))?,
            })
            .instruction(&Instruction::ElemDrop(segment));
        Ok(true)
    }

    fn functions_named(
        &mut self,
        reader: wasmparser::NameSectionReader<'_>,
        indices: &PartIndices,
        prefix: &str,
    ) {
        for part in reader.into_iter().flatten() {
            let Name::Function(map) = part else { continue };
            for naming in map.into_iter().flatten() {
                let Some(place) = indices.functions.get(naming.index as usize) else { continue };
                let name = match prefix {
                    "" => naming.name.to_owned(),
                    prefix => format!("{prefix}.{}", naming.name),
                };
                self.names.push((*place, name));
            }
        }
    }

    /// Adds the functions that instantiate parts after all others.
    fn instantiations(&mut self, parts: &[Part<'_>]) -> Result<(), Error> {
        let begin = std::mem::take(&mut self.begin);
        let does = std::mem::take(&mut self.does);
        for ((at, body), does) in begin.iter().enumerate().zip(does) {
            if !does {
                continue;
            }
            let function = self.next[0];
            self.next[0] += 1;
            self.types.ty().function([], []);
            self.functions.function(self.next[5]);
            self.next[5] += 1;
            self.code.function(body);
            let name = format!("{}.instantiate", parts[at].name);
            self.exports.export(&name, ExportKind::Func, function);
            self.names.push((function, name));
            self.layout.parts[at].instantiate = Some(function);
        }
        Ok(())
    }

    fn finish(mut self) -> Linked {
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
        module.section(&self.globals).section(&self.exports).section(&self.elements);
        if !self.data.is_empty() {
            module.section(&DataCountSection { count: self.data.len() });
        }
        module.section(&self.code).section(&self.data);
        self.names.sort_unstable();
        self.names.dedup_by_key(|(function, _)| *function);
        let mut map = NameMap::new();
        self.names.iter().for_each(|(function, name)| map.append(*function, name));
        let mut names = NameSection::new();
        names.functions(&map);
        module.section(&names);
        Linked { module: module.finish(), parts: self.layout.parts }
    }
}

/// Pushes the offset of a segment.
fn offset(
    indices: &mut PartIndices,
    expression: &wasmparser::ConstExpr<'_>,
    begin: &mut Function,
) -> Result<(), Error> {
    let mut reader = expression.get_operators_reader();
    while !reader.is_end_then_eof() {
        begin.instruction(&indices.instruction(reader.read()?)?);
    }
    Ok(())
}

fn place(list: &[u32], index: u32) -> Result<u32, Unwritten> {
    list.get(index as usize).copied().ok_or(Unwritten::InvalidConstExpr)
}

impl Reencode for PartIndices {
    type Error = std::convert::Infallible;

    fn function_index(&mut self, index: u32) -> Result<u32, Unwritten> {
        place(&self.functions, index)
    }

    fn memory_index(&mut self, index: u32) -> Result<u32, Unwritten> {
        place(&self.memories, index)
    }

    fn table_index(&mut self, index: u32) -> Result<u32, Unwritten> {
        place(&self.tables, index)
    }

    fn global_index(&mut self, index: u32) -> Result<u32, Unwritten> {
        place(&self.globals, index)
    }

    fn tag_index(&mut self, index: u32) -> Result<u32, Unwritten> {
        place(&self.tags, index)
    }

    fn type_index(&mut self, index: u32) -> Result<u32, Unwritten> {
        Ok(self.types + index)
    }

    fn data_index(&mut self, index: u32) -> Result<u32, Unwritten> {
        place(&self.data, index)
    }

    fn element_index(&mut self, index: u32) -> Result<u32, Unwritten> {
        Ok(self.elements + index)
    }
}
