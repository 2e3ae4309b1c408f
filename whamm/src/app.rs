//! The program that is instrumented: the facts that are needed before its code is read.

use crate::diagnostic::{Diagnostics, Kind};
use crate::library::first_line;
use std::collections::HashMap;
use wasm_aot_body::segments::constant_offset;
use wasmparser::types::CoreTypeId;
use wasmparser::{
    CompositeInnerType, DataKind, ElementItems, ElementKind, Export, ExternalKind, FuncToValidate,
    FunctionBody, HeapType, KnownCustom, Name, Operator, Parser, Payload, TypeRef, UnpackedIndex,
    ValType, ValidPayload, Validator, ValidatorResources, WasmFeatures,
};

/// An imported function.
#[derive(Clone, Debug)]
pub(crate) struct Import<'a> {
    /// The module it comes from.
    pub module: &'a str,
    /// Its name there.
    pub name: &'a str,
}

/// A memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// Whether it has addresses of 64 bits.
    pub wide: bool,
    /// The size of its pages, as a power of two.
    pub page: u32,
    /// Whether threads share it.
    pub shared: bool,
}

/// A table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    /// Whether it has indices of 64 bits.
    pub wide: bool,
    /// Whether segments define all of its entries when the program starts.
    pub known: bool,
}

/// Functions that a segment puts into a table when the program starts, from an entry on; `None` is
/// an entry without a function.
pub(crate) type Placed = (u32, Vec<Option<u32>>);

/// A segment of references.
#[derive(Clone, Debug)]
pub(crate) struct ElementSegment {
    /// Its length once the program runs: segments that are put into a table at the start are empty
    /// then.
    pub len: usize,
    /// The functions in it.
    pub items: Vec<Option<u32>>,
    /// Whether the other items are null.
    pub known: bool,
}

/// A module, and the facts about it.
pub(crate) struct App<'a> {
    /// The whole module.
    pub bytes: &'a [u8],
    /// Parameters and results of the types that are functions.
    pub types: Vec<Option<(Vec<ValType>, Vec<ValType>)>>,
    /// Imported functions.
    pub imports: Vec<Import<'a>>,
    /// The types of all functions, imports first.
    pub functions: Vec<u32>,
    /// The memories, imported ones first.
    pub memories: Vec<Memory>,
    /// The tables, imported ones first.
    pub tables: Vec<Table>,
    /// How many of the tables are imported.
    pub imported_tables: u32,
    /// How many globals there are.
    pub globals: u32,
    /// Whether exceptions occur.
    pub exceptions: bool,
    /// Whether they are caught in the older encoding.
    pub legacy: bool,
    /// What is exported.
    pub exports: Vec<Export<'a>>,
    /// The function that runs at instantiation.
    pub start: Option<u32>,
    /// Names of functions.
    pub names: HashMap<u32, &'a str>,
    /// Where the code section begins.
    pub code_start: u64,
    type_ids: HashMap<CoreTypeId, u32>,
    bodies: Vec<(u32, u32, ValidatorResources, FunctionBody<'a>)>,
    /// Functions in tables, by table and entry, as active segments define them.
    pub elements: HashMap<u32, Vec<Placed>>,
    /// Segments of references.
    pub element_segments: Vec<ElementSegment>,
    /// The lengths of data segments once the program runs.
    pub data_segments: Vec<usize>,
    /// Whether any declaration has a reference to a concrete type.
    pub typed_references: bool,
    /// Whether types are equal exactly if they have the same structure.
    pub simple_types: bool,
    /// The places of active data: memory, address, length.
    pub data: Vec<(u32, i64, usize)>,
}

impl std::fmt::Debug for App<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("functions", &self.functions.len()).finish_non_exhaustive()
    }
}

/// The features that the rewriter preserves exactly: WebAssembly 3.0, the older encoding of
/// exceptions, threads, wide arithmetic, and memories with small pages.
fn features() -> WasmFeatures {
    WasmFeatures::WASM3
        | WasmFeatures::THREADS
        | WasmFeatures::RELAXED_SIMD
        | WasmFeatures::CUSTOM_PAGE_SIZES
        | WasmFeatures::WIDE_ARITHMETIC
        | WasmFeatures::LEGACY_EXCEPTIONS
}

/// Whether a body has a `try` of the older encoding of exceptions.
fn catches_by_clauses(body: &FunctionBody<'_>) -> Result<bool, wasmparser::Error> {
    let mut reader = body.get_operators_reader()?;
    while !reader.eof() {
        if matches!(reader.read()?, Operator::Try { .. }) {
            return Ok(true);
        }
    }
    Ok(false)
}

impl<'a> App<'a> {
    /// Whether a memory or a table has addresses of 64 bits.
    pub(crate) fn is_wide(&self) -> bool {
        self.memories.iter().any(|m| m.wide) || self.tables.iter().any(|t| t.wide)
    }

    /// Reads and validates a module; its function bodies are validated when they are walked.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, Diagnostics> {
        let mut app = Self {
            bytes,
            types: vec![],
            imports: vec![],
            functions: vec![],
            memories: vec![],
            tables: vec![],
            imported_tables: 0,
            globals: 0,
            exceptions: false,
            legacy: false,
            exports: vec![],
            start: None,
            names: HashMap::new(),
            code_start: 0,
            type_ids: HashMap::new(),
            bodies: vec![],
            elements: HashMap::new(),
            element_segments: vec![],
            data_segments: vec![],
            typed_references: false,
            simple_types: true,
            data: vec![],
        };
        let wrong = |e: wasmparser::Error| {
            Diagnostics::general(
                Kind::InvalidModule,
                format!("the program is not a valid module: {}", first_line(&e)),
            )
        };
        let mut validator = Validator::new_with_features(features());
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload.map_err(wrong)?;
            match validator.payload(&payload).map_err(wrong)? {
                ValidPayload::Func(function, body) => {
                    app.bodies.push((function.index, function.ty, function.resources, body));
                }
                ValidPayload::End(types) => {
                    let types = types.as_ref();
                    for index in (0..types.core_type_count_in_module()).rev() {
                        app.type_ids.insert(types.core_type_at_in_module(index), index);
                    }
                }
                _ => {}
            }
            if matches!(payload, Payload::ComponentSection { .. })
                || (matches!(
                    payload,
                    Payload::Version { encoding: wasmparser::Encoding::Component, .. }
                ))
            {
                return Err(Diagnostics::general(
                    Kind::InvalidModule,
                    "the program is a component: extract its core module first, components are not rewritten",
                ));
            }
            app.payload(payload).map_err(wrong)?;
        }
        if app.exceptions {
            for (.., body) in &app.bodies {
                app.legacy = app.legacy || catches_by_clauses(body).map_err(wrong)?;
            }
        }
        Ok(app)
    }

    fn payload(&mut self, payload: Payload<'a>) -> Result<(), wasmparser::Error> {
        match payload {
            Payload::TypeSection(s) => {
                for group in s {
                    self.group(group?);
                }
            }
            Payload::ImportSection(s) => {
                for import in s.into_imports() {
                    self.import(&import?);
                }
            }
            Payload::FunctionSection(s) => {
                for ty in s {
                    self.functions.push(ty?);
                }
            }
            Payload::TableSection(s) => {
                for table in s {
                    let table = table?;
                    let known = matches!(table.init, wasmparser::TableInit::RefNull);
                    self.typed_references |= table.ty.element_type.type_index().is_some();
                    self.tables.push(Table { wide: table.ty.table64, known });
                }
            }
            Payload::TagSection(_) => self.exceptions = true,
            Payload::MemorySection(s) => {
                for memory in s {
                    self.memory(memory?);
                }
            }
            Payload::GlobalSection(s) => {
                self.globals += s.count();
                for global in s {
                    self.typed_references |= is_typed(&global?.ty.content_type);
                }
            }
            Payload::ExportSection(s) => {
                for export in s {
                    self.exports.push(export?);
                }
            }
            Payload::StartSection { func, .. } => self.start = Some(func),
            Payload::ElementSection(s) => {
                for element in s {
                    self.element(&element?)?;
                }
            }
            Payload::CodeSectionStart { unchecked_range, .. } => {
                self.code_start = unchecked_range.start;
            }
            Payload::DataSection(s) => {
                for data in s {
                    self.data(&data?)?;
                }
            }
            Payload::CustomSection(custom) => {
                if let KnownCustom::Name(names) = custom.as_known() {
                    for name in names {
                        // A damaged name section does not make the program invalid.
                        let Ok(Name::Function(map)) = name else { continue };
                        self.names.extend(map.into_iter().flatten().map(|n| (n.index, n.name)));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn group(&mut self, group: wasmparser::RecGroup) {
        let group: Vec<_> = group.into_types().collect();
        self.simple_types &=
            group.len() == 1 && group.iter().all(|t| t.is_final && t.supertype_idxs.is_empty());
        for ty in group {
            let CompositeInnerType::Func(f) = ty.composite_type.inner else {
                self.typed_references = true;
                self.types.push(None);
                continue;
            };
            let typed = f.params().iter().chain(f.results()).any(is_typed);
            self.simple_types &= !typed;
            self.typed_references |= typed;
            self.types.push(Some((f.params().to_vec(), f.results().to_vec())));
        }
    }

    fn import(&mut self, import: &wasmparser::Import<'a>) {
        match import.ty {
            TypeRef::Func(ty) | TypeRef::FuncExact(ty) => {
                self.imports.push(Import { module: import.module, name: import.name });
                self.functions.push(ty);
            }
            TypeRef::Memory(m) => {
                self.memory(m);
            }
            TypeRef::Table(table) => {
                self.typed_references |= table.element_type.type_index().is_some();
                self.tables.push(Table { wide: table.table64, known: false });
                self.imported_tables += 1;
            }
            TypeRef::Global(global) => {
                self.globals += 1;
                self.typed_references |= is_typed(&global.content_type);
            }
            TypeRef::Tag(_) => self.exceptions = true,
        }
    }

    fn data(&mut self, data: &wasmparser::Data<'a>) -> Result<(), wasmparser::Error> {
        let passive = matches!(data.kind, DataKind::Passive);
        self.data_segments.push(if passive { data.data.len() } else { 0 });
        if let DataKind::Active { memory_index, offset_expr } = &data.kind
            && let Some(at) = constant_offset(offset_expr)?
        {
            self.data.push((*memory_index, at, data.data.len()));
        }
        Ok(())
    }

    fn memory(&mut self, memory: wasmparser::MemoryType) {
        let page = memory.page_size_log2.unwrap_or(16);
        self.memories.push(Memory { wide: memory.memory64, page, shared: memory.shared });
    }

    fn element(&mut self, element: &wasmparser::Element<'a>) -> Result<(), wasmparser::Error> {
        let (mut list, mut known) = (Vec::new(), true);
        match &element.items {
            ElementItems::Functions(items) => {
                for function in items.clone() {
                    list.push(Some(function?));
                }
            }
            ElementItems::Expressions(_, items) => {
                for e in items.clone() {
                    let first = e?.get_operators_reader().read()?;
                    known &= matches!(first, Operator::RefFunc { .. } | Operator::RefNull { .. });
                    list.push(if let Operator::RefFunc { function_index } = first {
                        Some(function_index)
                    } else {
                        None
                    });
                }
            }
        }
        let len = if matches!(element.kind, ElementKind::Passive) { list.len() } else { 0 };
        if let ElementKind::Active { table_index, offset_expr } = &element.kind {
            let table = table_index.unwrap_or(0);
            match constant_offset(offset_expr)?.and_then(|n| u32::try_from(n).ok()) {
                Some(at) => self.elements.entry(table).or_default().push((at, list.clone())),
                None => {
                    if let Some(table) = self.tables.get_mut(table as usize) {
                        table.known = false;
                    }
                }
            }
        }
        self.element_segments.push(ElementSegment { len, items: list, known });
        Ok(())
    }

    /// Bodies of functions, with their validators.
    pub(crate) fn bodies(
        &self,
    ) -> impl Iterator<
        Item = Result<(FuncToValidate<ValidatorResources>, FunctionBody<'a>), wasmparser::Error>,
    > {
        self.bodies.iter().map(|(index, ty, resources, body)| {
            Ok((
                FuncToValidate {
                    resources: resources.clone(),
                    index: *index,
                    ty: *ty,
                    features: features(),
                },
                body.clone(),
            ))
        })
    }

    /// Functions that the program defines, with their bodies.
    pub(crate) fn functions(&self) -> impl Iterator<Item = (u32, &FunctionBody<'a>)> {
        (self.imported_functions()..).zip(self.bodies.iter().map(|body| &body.3))
    }

    /// Converts a type of the validator, with the index that the program gives it. A reference to a
    /// function needs no concrete type, unless the program itself has such references: then it runs
    /// on engines that support them.
    pub(crate) fn val(&self, ty: ValType, typed: bool) -> wasm_encoder::ValType {
        if !typed && is_typed(&ty) {
            return wasm_encoder::ValType::FUNCREF;
        }
        if let ValType::Ref(reference) = ty
            && let HeapType::Concrete(UnpackedIndex::Id(id))
            | HeapType::Exact(UnpackedIndex::Id(id)) = reference.heap_type()
            && let Some(&index) = self.type_ids.get(&id)
        {
            let heap_type = wasm_encoder::HeapType::Concrete(index);
            return wasm_encoder::ValType::Ref(wasm_encoder::RefType {
                nullable: reference.is_nullable(),
                heap_type,
            });
        }
        crate::emit::support::val(ty)
    }

    /// Parameters and results of a function.
    pub(crate) fn shape(&self, function: u32) -> (&[ValType], &[ValType]) {
        let ty = self
            .functions
            .get(function as usize)
            .and_then(|&t| self.types.get(t as usize))
            .and_then(Option::as_ref);
        ty.map_or((&[], &[]), |t| (&t.0, &t.1))
    }

    /// How many functions are imported.
    pub(crate) fn imported_functions(&self) -> u32 {
        u32::try_from(self.imports.len()).unwrap_or(u32::MAX)
    }

    /// The function that is exported under a name.
    pub(crate) fn exported(&self, name: &str) -> Option<u32> {
        self.exports
            .iter()
            .find(|e| e.kind == ExternalKind::Func && e.name == name)
            .map(|e| e.index)
    }

    /// The name of a function, from the name section.
    pub(crate) fn name(&self, function: u32) -> &'a str {
        self.names.get(&function).copied().unwrap_or("")
    }
}

/// Whether a type is a reference to a concrete type.
pub(crate) fn is_typed(ty: &ValType) -> bool {
    matches!(ty, ValType::Ref(reference) if reference.type_index().is_some())
}
