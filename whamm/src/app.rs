//! The program that is instrumented: what of it has to be known before its code is read.

use crate::diagnostic::{Diagnostics, Kind};
use crate::library::first_line;
use std::collections::HashMap;
use wasmparser::{
    CompositeInnerType, DataKind, ElementItems, ElementKind, Export, ExternalKind, FuncToValidate, FunctionBody, KnownCustom,
    Name, Operator, Parser, Payload, TypeRef, ValType, ValidPayload, Validator, ValidatorResources, WasmFeatures,
};

/// An imported function.
#[derive(Clone, Debug)]
pub struct Import<'a> {
    /// The module it comes from.
    pub module: &'a str,
    /// Its name there.
    pub name: &'a str,
}

/// A memory.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Whether it has addresses of 64 bits.
    pub wide: bool,
    /// The size of its pages, as a power of two.
    pub page: u32,
    /// Whether threads share it.
    pub shared: bool,
}

/// A module, and what is known of it.
pub struct App<'a> {
    /// All of it.
    pub bytes: &'a [u8],
    /// Parameters and results of the types that are functions.
    pub types: Vec<Option<(Vec<ValType>, Vec<ValType>)>>,
    /// Imported functions.
    pub imports: Vec<Import<'a>>,
    /// The types of all functions, imports first.
    pub functions: Vec<u32>,
    /// The memories, imported ones first.
    pub memories: Vec<Memory>,
    /// How many of the memories are imported.
    pub imported_memories: u32,
    /// How many tables there are.
    pub tables: u32,
    /// How many of the tables are imported.
    pub imported_tables: u32,
    /// How many globals there are.
    pub globals: u32,
    /// Whether exceptions occur.
    pub exceptions: bool,
    /// What is exported.
    pub exports: Vec<Export<'a>>,
    /// The function that runs at instantiation.
    pub start: Option<u32>,
    /// Names of functions.
    pub names: HashMap<u32, &'a str>,
    /// Where the code section begins.
    pub code_start: u64,
    bodies: Vec<(u32, u32, ValidatorResources, FunctionBody<'a>)>,
    /// Functions in tables, by table and entry, as active segments put them.
    pub elements: HashMap<u32, Vec<(u32, Vec<u32>)>>,
    /// Where active data lie: memory, address, length.
    pub data: Vec<(u32, i64, usize)>,
}

impl std::fmt::Debug for App<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").field("functions", &self.functions.len()).finish_non_exhaustive()
    }
}

/// What the rewriter keeps exact: everything of WebAssembly 3.0, and memories with small pages.
fn features() -> WasmFeatures {
    WasmFeatures::WASM3 | WasmFeatures::THREADS | WasmFeatures::RELAXED_SIMD | WasmFeatures::CUSTOM_PAGE_SIZES
}

impl<'a> App<'a> {
    /// Reads and validates a module; its function bodies are validated when they are walked.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Diagnostics> {
        let mut app = Self {
            bytes,
            types: vec![],
            imports: vec![],
            functions: vec![],
            memories: vec![],
            imported_memories: 0,
            tables: 0,
            imported_tables: 0,
            globals: 0,
            exceptions: false,
            exports: vec![],
            start: None,
            names: HashMap::new(),
            code_start: 0,
            bodies: vec![],
            elements: HashMap::new(),
            data: vec![],
        };
        let wrong = |e: wasmparser::Error| {
            Diagnostics::general(Kind::InvalidModule, format!("the program is not a valid module: {}", first_line(&e)))
        };
        let mut validator = Validator::new_with_features(features());
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload.map_err(wrong)?;
            if let ValidPayload::Func(function, body) = validator.payload(&payload).map_err(wrong)? {
                app.bodies.push((function.index, function.ty, function.resources, body));
            }
            if matches!(payload, Payload::ComponentSection { .. })
                || (matches!(payload, Payload::Version { encoding: wasmparser::Encoding::Component, .. }))
            {
                return Err(Diagnostics::general(
                    Kind::InvalidModule,
                    "the program is a component: extract its core module first, components are not rewritten",
                ));
            }
            app.payload(payload).map_err(wrong)?;
        }
        Ok(app)
    }

    fn payload(&mut self, payload: Payload<'a>) -> Result<(), wasmparser::Error> {
        match payload {
            Payload::TypeSection(s) => {
                for group in s {
                    self.types.extend(group?.into_types().map(|t| match t.composite_type.inner {
                        CompositeInnerType::Func(f) => Some((f.params().to_vec(), f.results().to_vec())),
                        _ => None,
                    }));
                }
            }
            Payload::ImportSection(s) => {
                for import in s.into_imports() {
                    let import = import?;
                    match import.ty {
                        TypeRef::Func(ty) | TypeRef::FuncExact(ty) => {
                            self.imports.push(Import { module: import.module, name: import.name });
                            self.functions.push(ty);
                        }
                        TypeRef::Memory(m) => {
                            self.memory(m);
                            self.imported_memories += 1;
                        }
                        TypeRef::Table(_) => {
                            self.tables += 1;
                            self.imported_tables += 1;
                        }
                        TypeRef::Global(_) => self.globals += 1,
                        TypeRef::Tag(_) => self.exceptions = true,
                    }
                }
            }
            Payload::FunctionSection(s) => {
                for ty in s {
                    self.functions.push(ty?);
                }
            }
            Payload::TableSection(s) => self.tables += s.count(),
            Payload::TagSection(_) => self.exceptions = true,
            Payload::MemorySection(s) => {
                for memory in s {
                    self.memory(memory?);
                }
            }
            Payload::GlobalSection(s) => self.globals += s.count(),
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
            Payload::CodeSectionStart { unchecked_range, .. } => self.code_start = unchecked_range.start,
            Payload::DataSection(s) => {
                for data in s {
                    let data = data?;
                    if let DataKind::Active { memory_index, offset_expr } = data.kind
                        && let Some(at) = constant(&offset_expr)?
                    {
                        self.data.push((memory_index, at, data.data.len()));
                    }
                }
            }
            Payload::CustomSection(custom) => {
                if let KnownCustom::Name(names) = custom.as_known() {
                    for name in names {
                        // A damaged name section is the program's own affair.
                        let Ok(Name::Function(map)) = name else { continue };
                        self.names.extend(map.into_iter().flatten().map(|n| (n.index, n.name)));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn memory(&mut self, memory: wasmparser::MemoryType) {
        let page = memory.page_size_log2.unwrap_or(16);
        self.memories.push(Memory { wide: memory.memory64, page, shared: memory.shared });
    }

    fn element(&mut self, element: &wasmparser::Element<'a>) -> Result<(), wasmparser::Error> {
        let ElementKind::Active { table_index, offset_expr } = &element.kind else { return Ok(()) };
        let Some(at) = constant(offset_expr)?.and_then(|n| u32::try_from(n).ok()) else { return Ok(()) };
        let mut list = Vec::new();
        match &element.items {
            ElementItems::Functions(items) => {
                for function in items.clone() {
                    list.push(function?);
                }
            }
            ElementItems::Expressions(_, items) => {
                for e in items.clone() {
                    let mut reader = e?.get_operators_reader();
                    list.push(if let Operator::RefFunc { function_index } = reader.read()? { function_index } else { u32::MAX });
                }
            }
        }
        self.elements.entry(table_index.unwrap_or(0)).or_default().push((at, list));
        Ok(())
    }

    /// Bodies of functions, with what validates them.
    pub fn bodies(
        &self,
    ) -> impl Iterator<Item = Result<(FuncToValidate<ValidatorResources>, FunctionBody<'a>), wasmparser::Error>> {
        self.bodies.iter().map(|(index, ty, resources, body)| {
            Ok((FuncToValidate { resources: resources.clone(), index: *index, ty: *ty, features: features() }, body.clone()))
        })
    }

    /// Parameters and results of a function.
    pub fn shape(&self, function: u32) -> (&[ValType], &[ValType]) {
        let ty = self.functions.get(function as usize).and_then(|&t| self.types.get(t as usize)).and_then(Option::as_ref);
        ty.map_or((&[], &[]), |t| (&t.0, &t.1))
    }

    /// How many functions are imported.
    pub fn imported_functions(&self) -> u32 {
        u32::try_from(self.imports.len()).unwrap_or(u32::MAX)
    }

    /// The function that is exported under a name.
    pub fn exported(&self, name: &str) -> Option<u32> {
        self.exports.iter().find(|e| e.kind == ExternalKind::Func && e.name == name).map(|e| e.index)
    }

    /// The name of a function: of the name section.
    pub fn name(&self, function: u32) -> &'a str {
        self.names.get(&function).copied().unwrap_or("")
    }
}

fn constant(e: &wasmparser::ConstExpr<'_>) -> Result<Option<i64>, wasmparser::Error> {
    let mut reader = e.get_operators_reader();
    Ok(match reader.read()? {
        Operator::I32Const { value } => Some(value.cast_unsigned().into()),
        Operator::I64Const { value } => Some(value),
        _ => None,
    })
}
