//! Parses and validates a module: declarations and bodies.
//!
//! Bodies are returned unvalidated together with a validator for each, so that several threads can
//! validate and compile them.

use super::{
    DataSegment, ElementSegment, Elements, Export, Import, ModuleInfo, Names, SegmentMode, Space,
    constant,
};
use crate::array::Array;
use crate::error::{CompileError, Place};
use crate::features::Features;
use crate::types::{FuncType, GlobalType, HeapType, MemoryType, RefType, TableType, ValType};
use std::collections::BTreeSet;
use std::ops::Range;
use wasmparser::{
    BinaryReader, CompositeInnerType, FieldType, FromReader, FuncToValidate, FunctionBody,
    KnownCustom, Payload, SectionLimited, StorageType, TypeRef, UnpackedIndex, ValidPayload,
    Validator, ValidatorResources,
};

/// The body of a function that is not validated yet.
pub struct Body<'a> {
    /// The function's index.
    pub index: u32,
    /// Its validator.
    pub validate: FuncToValidate<ValidatorResources>,
    /// Where it is.
    pub body: FunctionBody<'a>,
}

impl std::fmt::Debug for Body<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Body").field("index", &self.index).finish_non_exhaustive()
    }
}

impl Body<'_> {
    /// Another copy of the same body.
    pub(crate) fn again(&self) -> Self {
        let FuncToValidate { resources, index, ty, features } = &self.validate;
        let validate = FuncToValidate {
            resources: resources.clone(),
            index: *index,
            ty: *ty,
            features: *features,
        };
        Self { index: self.index, validate, body: self.body.clone() }
    }

    /// The same without the module's bytes.
    pub(crate) fn apart(self) -> Apart {
        let Range { start, end } = self.body.range();
        Apart { index: self.index, validate: self.validate, range: start as usize..end as usize }
    }
}

/// The body of a function, without the module's bytes.
pub(crate) struct Apart {
    index: u32,
    validate: FuncToValidate<ValidatorResources>,
    range: Range<usize>,
}

impl Apart {
    /// Joins it with the module's bytes again.
    pub(crate) fn within<'a>(&self, bytes: &'a [u8]) -> Body<'a> {
        let FuncToValidate { resources, index, ty, features } = &self.validate;
        let (index, ty, features) = (*index, *ty, *features);
        let validate = FuncToValidate { resources: resources.clone(), index, ty, features };
        let Range { start, end } = self.range;
        let reader = BinaryReader::new_features(&bytes[start..end], start as u64, features);
        Body { index: self.index, validate, body: FunctionBody::new(reader) }
    }
}

/// A module that has been read.
#[derive(Debug)]
pub struct Reading<'a> {
    /// Its declarations.
    pub info: ModuleInfo,
    /// Its functions.
    pub bodies: Vec<Body<'a>>,
}

/// Reads a module and validates everything but the bodies of its functions.
pub fn read(bytes: &[u8], features: Features) -> Result<Reading<'_>, CompileError> {
    let mut validator = Validator::new_with_features(features.flags());
    let mut parser = wasmparser::Parser::new(0);
    parser.set_features(features.flags());
    let mut reading = Reading { info: ModuleInfo::default(), bodies: Vec::new() };
    let mut referenced = BTreeSet::new();
    for payload in parser.parse_all(bytes) {
        let payload = payload?;
        if let ValidPayload::Func(validate, body) = validator.payload(&payload)? {
            let index = reading.info.imported.functions + reading.bodies.len() as u32;
            let range = body.range();
            reading.info.bodies.push(range.start as u32..range.end as u32);
            reading.bodies.push(Body { index, validate, body });
            continue;
        }
        reading.info.section(payload, &mut referenced)?;
    }
    reading.info.referenced = referenced.into_iter().collect();
    if let Some(section) = reading.info.names_section() {
        reading.info.names =
            Names::new(Array::Owned(bytes[section.start as usize..section.end as usize].to_vec()));
    }
    Ok(reading)
}

impl ModuleInfo {
    fn section(
        &mut self,
        payload: Payload<'_>,
        referenced: &mut BTreeSet<u32>,
    ) -> Result<(), CompileError> {
        match payload {
            Payload::TypeSection(section) => self.types(section)?,
            Payload::ImportSection(section) => self.imports(section)?,
            Payload::FunctionSection(section) => each(section, |index| {
                self.functions.push(index);
                Ok(())
            })?,
            Payload::TableSection(section) => each(section, |table| {
                self.tables.push(table_type(&table.ty)?);
                self.table_inits.push(match table.init {
                    wasmparser::TableInit::RefNull => None,
                    wasmparser::TableInit::Expr(expression) => {
                        Some(self.constant(&expression, referenced)?)
                    }
                });
                Ok(())
            })?,
            Payload::MemorySection(section) => each(section, |ty| {
                self.memories.push(memory_type(&ty)?);
                Ok(())
            })?,
            Payload::TagSection(section) => each(section, |tag| {
                self.tags.push(tag.func_type_idx);
                Ok(())
            })?,
            Payload::GlobalSection(section) => each(section, |global| {
                self.globals.push(global_type(&global.ty)?);
                let init = self.constant(&global.init_expr, referenced)?;
                self.global_inits.push(init);
                Ok(())
            })?,
            Payload::ExportSection(section) => {
                each(section, |export| self.export(&export, referenced))?;
            }
            Payload::StartSection { func, .. } => self.start = Some(func),
            Payload::ElementSection(section) => {
                each(section, |element| self.element(element, referenced))?;
            }
            Payload::CodeSectionStart { unchecked_range, .. } => {
                self.code_start = unchecked_range.start as u32;
            }
            Payload::DataSection(section) => each(section, |data| {
                let end = data.range.end as u32;
                let mode = match data.kind {
                    wasmparser::DataKind::Passive => SegmentMode::Passive,
                    wasmparser::DataKind::Active { memory_index, offset_expr } => {
                        SegmentMode::Active {
                            target: memory_index,
                            offset: self.constant(&offset_expr, referenced)?,
                        }
                    }
                };
                self.data.push(DataSegment { mode, range: end - data.data.len() as u32..end });
                Ok(())
            })?,
            Payload::CustomSection(section) => {
                let end = section.range().end as u32;
                self.custom
                    .push((section.name().to_owned(), end - section.data().len() as u32..end));
                if let KnownCustom::Name(names) = section.as_known() {
                    self.name = self.name.take().or_else(|| module_name(names));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn types(
        &mut self,
        section: SectionLimited<'_, wasmparser::RecGroup>,
    ) -> Result<(), CompileError> {
        for item in section.into_iter_with_offsets() {
            let (offset, group) = item?;
            let start = self.types.len() as u32;
            for ty in group.types() {
                if !ty.supertype_idxs.is_empty() {
                    return Err(CompileError::unsupported(
                        "gc: subtypes",
                        Place::module(offset as usize),
                    ));
                }
                let (declared, kind) = declaration(&ty.composite_type.inner, offset as usize)?;
                self.types.push(declared);
                self.kinds.push(if ty.is_final { kind } else { format!("open {kind}") });
            }
            self.groups.push(start..self.types.len() as u32);
        }
        Ok(())
    }

    fn imports(
        &mut self,
        section: SectionLimited<'_, wasmparser::Imports<'_>>,
    ) -> Result<(), CompileError> {
        for import in section.into_imports() {
            let import = import?;
            let (space, index) = match import.ty {
                TypeRef::Func(ty) | TypeRef::FuncExact(ty) => {
                    self.functions.push(ty);
                    (Space::Func, step(&mut self.imported.functions))
                }
                TypeRef::Table(ty) => {
                    self.tables.push(table_type(&ty)?);
                    (Space::Table, step(&mut self.imported.tables))
                }
                TypeRef::Memory(ty) => {
                    self.memories.push(memory_type(&ty)?);
                    (Space::Memory, step(&mut self.imported.memories))
                }
                TypeRef::Global(ty) => {
                    self.globals.push(global_type(&ty)?);
                    (Space::Global, step(&mut self.imported.globals))
                }
                TypeRef::Tag(tag) => {
                    self.tags.push(tag.func_type_idx);
                    (Space::Tag, step(&mut self.imported.tags))
                }
            };
            self.imports.push(Import {
                module: import.module.to_owned(),
                name: import.name.to_owned(),
                space,
                index,
            });
        }
        Ok(())
    }

    fn export(
        &mut self,
        export: &wasmparser::Export<'_>,
        referenced: &mut BTreeSet<u32>,
    ) -> Result<(), CompileError> {
        let space = match export.kind {
            wasmparser::ExternalKind::Func | wasmparser::ExternalKind::FuncExact => {
                referenced.insert(export.index);
                Space::Func
            }
            wasmparser::ExternalKind::Table => Space::Table,
            wasmparser::ExternalKind::Memory => Space::Memory,
            wasmparser::ExternalKind::Global => Space::Global,
            wasmparser::ExternalKind::Tag => Space::Tag,
        };
        self.exports.push(Export { name: export.name.to_owned(), space, index: export.index });
        Ok(())
    }

    fn element(
        &mut self,
        element: wasmparser::Element<'_>,
        referenced: &mut BTreeSet<u32>,
    ) -> Result<(), CompileError> {
        let offset = element.range.start as usize;
        let mode = match element.kind {
            wasmparser::ElementKind::Passive => SegmentMode::Passive,
            wasmparser::ElementKind::Declared => SegmentMode::Declared,
            wasmparser::ElementKind::Active { table_index, offset_expr } => SegmentMode::Active {
                target: table_index.unwrap_or(0),
                offset: self.constant(&offset_expr, referenced)?,
            },
        };
        let (ty, items) = match element.items {
            wasmparser::ElementItems::Functions(section) => {
                let functions = section.into_iter().collect::<Result<Vec<_>, _>>()?;
                referenced.extend(&functions);
                (RefType { nullable: false, heap: HeapType::Func }, Elements::Functions(functions))
            }
            wasmparser::ElementItems::Expressions(ty, section) => {
                let expressions = section
                    .into_iter()
                    .map(|expression| self.constant(&expression?, referenced))
                    .collect::<Result<Vec<_>, _>>()?;
                (reference_type(ty, offset)?, Elements::Expressions(expressions))
            }
        };
        self.elements.push(ElementSegment { mode, ty, items });
        Ok(())
    }

    fn constant(
        &self,
        expression: &wasmparser::ConstExpr<'_>,
        referenced: &mut BTreeSet<u32>,
    ) -> Result<super::ConstExpr, CompileError> {
        let ops = constant::read(expression)?;
        referenced.extend(ops.iter().filter_map(|op| match op {
            super::ConstOp::Func(index) => Some(*index),
            _ => None,
        }));
        Ok(ops)
    }
}

/// The name of the module itself, if it has one. A module with malformed names is not refused.
fn module_name(names: wasmparser::NameSectionReader<'_>) -> Option<String> {
    names.into_iter().map_while(Result::ok).find_map(|subsection| match subsection {
        wasmparser::Name::Module { name, .. } => Some(name.to_owned()),
        _ => None,
    })
}

/// Takes the next of a counted space.
fn step(count: &mut u32) -> u32 {
    *count += 1;
    *count - 1
}

fn each<'a, T: FromReader<'a>>(
    section: SectionLimited<'a, T>,
    mut take: impl FnMut(T) -> Result<(), CompileError>,
) -> Result<(), CompileError> {
    section.into_iter().try_for_each(|item| take(item?))
}

/// A declared type, and the text that distinguishes it from a function.
fn declaration(ty: &CompositeInnerType, offset: usize) -> Result<(FuncType, String), CompileError> {
    let fields = |kind: &str, fields: &[FieldType]| {
        let mut kind = kind.to_owned();
        let mut types = Vec::new();
        for field in fields {
            kind.push_str(if field.mutable { " mut" } else { " const" });
            types.push(match field.element_type {
                StorageType::Val(ty) => value_type(ty, offset)?,
                StorageType::I8 | StorageType::I16 => {
                    kind.push_str(if field.element_type == StorageType::I8 {
                        " i8"
                    } else {
                        " i16"
                    });
                    ValType::I32
                }
            });
        }
        Ok((FuncType::new(types, []), kind))
    };
    match ty {
        CompositeInnerType::Func(function) => Ok((function_type(function, offset)?, String::new())),
        CompositeInnerType::Struct(structure) => fields("struct", &structure.fields),
        CompositeInnerType::Array(array) => fields("array", &[array.0]),
        CompositeInnerType::Cont(_) => {
            Err(CompileError::unsupported("continuations", Place::module(offset)))
        }
    }
}

/// Converts a function type.
fn function_type(ty: &wasmparser::FuncType, offset: usize) -> Result<FuncType, CompileError> {
    let all = |types: &[wasmparser::ValType]| {
        types.iter().map(|ty| value_type(*ty, offset)).collect::<Result<Vec<_>, _>>()
    };
    Ok(FuncType::new(all(ty.params())?, all(ty.results())?))
}

/// Converts a value type.
pub(crate) fn value_type(ty: wasmparser::ValType, offset: usize) -> Result<ValType, CompileError> {
    Ok(match ty {
        wasmparser::ValType::I32 => ValType::I32,
        wasmparser::ValType::I64 => ValType::I64,
        wasmparser::ValType::F32 => ValType::F32,
        wasmparser::ValType::F64 => ValType::F64,
        wasmparser::ValType::V128 => ValType::V128,
        wasmparser::ValType::Ref(ty) => ValType::Ref(reference_type(ty, offset)?),
    })
}

/// The type of an operand, as the validator represents it. The validator has its own numbers for
/// the module's types: a reference to a function of one of them becomes a reference to any
/// function.
pub fn operand_type(ty: wasmparser::ValType) -> ValType {
    match value_type(ty, 0) {
        Ok(ty) => ty,
        Err(_) => ValType::Ref(RefType {
            nullable: ty.as_reference_type().is_none_or(|ty| ty.is_nullable()),
            heap: HeapType::Func,
        }),
    }
}

fn reference_type(ty: wasmparser::RefType, offset: usize) -> Result<RefType, CompileError> {
    Ok(RefType { nullable: ty.is_nullable(), heap: heap_type(ty.heap_type(), offset)? })
}

/// Converts the type that a reference refers to.
pub(crate) fn heap_type(ty: wasmparser::HeapType, offset: usize) -> Result<HeapType, CompileError> {
    use wasmparser::AbstractHeapType as Abstract;
    let unsupported = || {
        CompileError::unsupported(
            format!("gc: references to {}", heap_name(ty)),
            Place::module(offset),
        )
    };
    match ty {
        wasmparser::HeapType::Abstract { shared: false, ty } => Ok(match ty {
            Abstract::Func => HeapType::Func,
            Abstract::NoFunc => HeapType::NoFunc,
            Abstract::Extern => HeapType::Extern,
            Abstract::NoExtern => HeapType::NoExtern,
            Abstract::Exn => HeapType::Exn,
            Abstract::NoExn => HeapType::NoExn,
            Abstract::Any => HeapType::Any,
            Abstract::Eq => HeapType::Eq,
            Abstract::I31 => HeapType::I31,
            Abstract::Struct => HeapType::Struct,
            Abstract::Array => HeapType::Array,
            Abstract::None => HeapType::None,
            _ => return Err(unsupported()),
        }),
        wasmparser::HeapType::Concrete(UnpackedIndex::Module(index)) => {
            Ok(HeapType::Concrete(index))
        }
        _ => Err(unsupported()),
    }
}

/// The type that a reference refers to, as the text format spells it.
fn heap_name(ty: wasmparser::HeapType) -> String {
    // The text form of a nullable reference contains it.
    let spelled = wasmparser::RefType::new(true, ty)
        .map_or_else(|| "(ref null ?)".to_owned(), |ty| ty.to_string());
    let inner = spelled.strip_prefix("(ref null ").and_then(|rest| rest.strip_suffix(')'));
    inner.or(spelled.strip_suffix("ref")).unwrap_or(&spelled).to_owned()
}

fn table_type(ty: &wasmparser::TableType) -> Result<TableType, CompileError> {
    Ok(TableType {
        element: reference_type(ty.element_type, 0)?,
        minimum: ty.initial,
        maximum: ty.maximum,
        wide: ty.table64,
    })
}

fn memory_type(ty: &wasmparser::MemoryType) -> Result<MemoryType, CompileError> {
    if ty.page_size_log2.is_some_and(|log2| log2 != 16) {
        return Err(CompileError::unsupported("pages that are not of 64 KiB", Place::default()));
    }
    Ok(MemoryType {
        minimum: ty.initial,
        maximum: ty.maximum,
        wide: ty.memory64,
        shared: ty.shared,
    })
}

fn global_type(ty: &wasmparser::GlobalType) -> Result<GlobalType, CompileError> {
    if ty.shared {
        return Err(CompileError::unsupported("shared globals", Place::default()));
    }
    Ok(GlobalType { content: value_type(ty.content_type, 0)?, mutable: ty.mutable })
}
