//! The declarations of a module that its runs depend on.

use crate::error::Error;
use wasmparser::{
    CompositeInnerType, ExternalKind, FuncType, GlobalType, MemoryType, Parser, Payload, RefType,
    TableType, TypeRef, ValType, Validator, WasmFeatures,
};

/// The declarations of a valid module. Every item is in its index space: imports come first.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    types: Vec<Option<FuncType>>,
    /// The types of functions, by their indices.
    functions: Vec<u32>,
    /// How many of the functions, at the end, were added by `give`.
    given: u32,
    tags: Vec<u32>,
    /// The imports of functions: module and name.
    pub imports: Vec<(String, String)>,
    /// Memories.
    pub memories: Vec<MemoryType>,
    /// Tables.
    pub tables: Vec<TableType>,
    /// Globals.
    pub globals: Vec<GlobalType>,
    /// How many of the memories, tables, globals and tags are imported.
    pub imported: Imported,
    /// How many data segments there are.
    pub(crate) data: u32,
    /// The exports.
    pub exports: Vec<(String, ExternalKind, u32)>,
    /// The function that instantiation calls.
    pub start: Option<u32>,
}

/// The numbers of imported items.
#[derive(Clone, Copy, Debug, Default)]
pub struct Imported {
    /// Memories.
    pub memories: u32,
    /// Tables.
    pub tables: u32,
    /// Globals.
    pub globals: u32,
    /// Tags.
    pub tags: u32,
}

impl Declared {
    /// Validates a module and reads its declarations.
    pub fn read(module: &[u8]) -> Result<Self, Error> {
        Validator::new_with_features(WasmFeatures::all()).validate_all(module)?;
        let mut this = Self::default();
        for payload in Parser::new(0).parse_all(module) {
            this.section(payload?)?;
        }
        Ok(this)
    }

    fn section(&mut self, payload: Payload<'_>) -> Result<(), Error> {
        match payload {
            Payload::TypeSection(section) => {
                for group in section {
                    for ty in group?.into_types() {
                        self.types.push(match ty.composite_type.inner {
                            CompositeInnerType::Func(ty) => Some(ty),
                            _ => None,
                        });
                    }
                }
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import?;
                    match import.ty {
                        TypeRef::Func(ty) | TypeRef::FuncExact(ty) => {
                            self.imports.push((import.module.to_owned(), import.name.to_owned()));
                            self.functions.push(ty);
                        }
                        TypeRef::Memory(ty) => self.memories.push(ty),
                        TypeRef::Table(ty) => self.tables.push(ty),
                        TypeRef::Global(ty) => self.globals.push(ty),
                        TypeRef::Tag(ty) => self.tags.push(ty.func_type_idx),
                    }
                }
                self.imported = Imported {
                    memories: self.memories.len() as u32,
                    tables: self.tables.len() as u32,
                    globals: self.globals.len() as u32,
                    tags: self.tags.len() as u32,
                };
            }
            Payload::FunctionSection(section) => {
                self.functions.extend(section.into_iter().collect::<Result<Vec<_>, _>>()?);
            }
            Payload::MemorySection(section) => {
                self.memories.extend(section.into_iter().collect::<Result<Vec<_>, _>>()?);
            }
            Payload::TableSection(section) => {
                for table in section {
                    self.tables.push(table?.ty);
                }
            }
            Payload::GlobalSection(section) => {
                for global in section {
                    self.globals.push(global?.ty);
                }
            }
            Payload::TagSection(section) => {
                for tag in section {
                    self.tags.push(tag?.func_type_idx);
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export?;
                    self.exports.push((export.name.to_owned(), export.kind, export.index));
                }
            }
            Payload::DataSection(section) => self.data = section.count(),
            Payload::StartSection { func, .. } => self.start = Some(func),
            _ => {}
        }
        Ok(())
    }

    /// Replaces the types of references.
    pub(crate) fn replace_references(&mut self, with: impl Fn(RefType) -> RefType) {
        let of = |ty| match ty {
            ValType::Ref(own) => ValType::Ref(with(own)),
            number => number,
        };
        for ty in self.types.iter_mut().flatten() {
            let all = |types: &[ValType]| types.iter().map(|ty| of(*ty)).collect::<Vec<_>>();
            *ty = FuncType::new(all(ty.params()), all(ty.results()));
        }
        for table in &mut self.tables {
            table.element_type = with(table.element_type);
        }
        for global in &mut self.globals {
            global.content_type = of(global.content_type);
        }
    }

    /// Adds functions of the host that the module does not import, behind all others, and their
    /// types.
    pub(crate) fn give<'t>(&mut self, types: impl Iterator<Item = &'t FuncType>) {
        for ty in types {
            self.functions.push(self.types.len() as u32);
            self.types.push(Some(ty.clone()));
            self.given += 1;
        }
    }

    /// The indices of the functions that were added.
    pub(crate) fn given(&self) -> std::ops::Range<u32> {
        self.functions() - self.given..self.functions()
    }

    /// How many types there are.
    pub fn types(&self) -> u32 {
        self.types.len() as u32
    }

    /// How many functions there are.
    pub fn functions(&self) -> u32 {
        self.functions.len() as u32
    }

    /// The number of a function's type.
    pub fn type_of(&self, function: u32) -> Option<u32> {
        self.functions.get(function as usize).copied()
    }

    /// The type of a function.
    pub fn function(&self, function: u32) -> Option<&FuncType> {
        self.types.get(self.type_of(function)? as usize)?.as_ref()
    }

    /// Whether values of a type are references to functions.
    pub fn is_of_functions(&self, ty: ValType) -> bool {
        let ValType::Ref(ty) = ty else { return false };
        match ty.type_index().and_then(|index| index.as_module_index()) {
            Some(index) => self.types.get(index as usize).is_some_and(Option::is_some),
            None => ty.is_func_ref(),
        }
    }

    /// The function type of a tag: its parameters are the values of the exceptions.
    pub fn tag(&self, tag: u32) -> Option<&FuncType> {
        self.types.get(*self.tags.get(tag as usize)? as usize)?.as_ref()
    }

    /// A name under which a function is exported.
    pub fn exported_function(&self, function: u32) -> Option<&str> {
        let own = self.exports.iter().find(|(_, kind, index)| {
            *index == function && matches!(kind, ExternalKind::Func | ExternalKind::FuncExact)
        });
        own.map(|(name, ..)| &**name)
    }

    /// The function that is exported under a name.
    pub fn function_named(&self, name: &str) -> Option<u32> {
        let own = self.exports.iter().find(|(own, kind, _)| {
            own == name && matches!(kind, ExternalKind::Func | ExternalKind::FuncExact)
        });
        own.map(|(.., index)| *index)
    }

    /// Returns what other threads can change while the program executes, if the module has such a
    /// thing: then a sequence of events does not determine the run.
    pub fn refusal(&self) -> Option<&'static str> {
        self.memories.iter().any(|memory| memory.shared).then_some("a memory that threads share")
    }
}
