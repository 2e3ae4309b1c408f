//! Generates one module without imports that repeats a run: it contains the program's own
//! functions, and for each import a function that does what the host did.
//!
//! Imported items come first in every index space, and are now defined there; added items come
//! last. So no index of the program changes, and its functions are copied byte by byte. The only
//! change to them: after calls that the program's exit has unwound, code returns if the exit has
//! happened.
//!
//! ```text
//!     functions   what was imported, replayed │ the program's │ others of the host, helpers, _start
//!     globals     what was imported           │ the program's │ exited, counters, (event, wrong)
//!     data        the program's                               │ what the host has written
//! ```

mod code;
mod objects;

use crate::declared::Declared;
use crate::error::Error;
use crate::event::Event;
use crate::exits::calls_that_may_reach;
use crate::placement::Placed;
use crate::replay::{Builder, Replay};
use crate::value::{Signature, Value};
use code::Coder;
use objects::Encoder;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use wasm_aot_body::data::with_room_for_data;
use wasm_encoder::reencode::{Error as Unwritten, Reencode, RoundtripReencoder};
use wasm_encoder::{
    CodeSection, ConstExpr, DataCountSection, DataSection, ElementSection, Elements, ExportKind,
    ExportSection, FunctionSection, GlobalSection, GlobalType, InstructionSink, MemorySection,
    Module, TableSection, TagSection, TypeSection, ValType,
};
use wasmparser::{Operator, Parser, Payload, TypeRef};

/// The kind of replay that is generated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    /// Whether it compares the program's actions with the trace: then it exports `replay:event`,
    /// the number of events that have passed, and `replay:wrong`, the kind of difference (see
    /// [`Wrong`]), and traps where it diverges from the trace.
    pub is_checked: bool,
}

/// The exports of a replay that checks itself.
const EVENT: &str = "replay:event";
const WRONG: &str = "replay:wrong";

/// The kind of difference where a replay that checks itself diverges from the trace: the value of
/// `replay:wrong`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Wrong {
    /// An argument of a call out.
    Argument = 1,
    /// A result of a call in.
    Result = 2,
    /// The program's next event is another one.
    Order = 3,
    /// A memory or table cannot grow to its recorded size, or is too small for what the host puts
    /// into it.
    Value = 4,
    /// A call has ended where it should have trapped, or vice versa.
    Trap = 5,
}

/// Generates a module that repeats a run of `module`.
pub fn generate(
    module: &[u8],
    events: impl Iterator<Item = Result<Event, Error>>,
    generation: Generation,
) -> Result<Vec<u8>, Error> {
    let mut declared = Declared::read(module)?;
    if let Some(what) = declared.refusal() {
        return Err(Error::event(0, format!("the program uses {what}: no replay can be made")));
    }
    let mut builder = Builder::new(&declared, generation.is_checked);
    for event in Placed::new(events) {
        builder.push(event?)?;
    }
    let mut replay = builder.finish()?;
    let own_segments = usize::from(!replay.data.bytes.is_empty());
    let roomy =
        with_room_for_data(module, own_segments).map_err(|why| Error::event(0, why.to_string()))?;
    if let Some(roomy) = &roomy {
        declared = Declared::read(roomy)?;
    }
    let module = roomy.as_deref().unwrap_or(module);
    if !replay.untold_exits.is_empty() {
        let first = declared.imports.len() as u32;
        replay.exits.extend(calls_that_may_reach(module, first, &replay.untold_exits)?);
    }
    declared.give(replay.given.iter().map(Signature::ty));
    if replay.has_objects {
        declared.replace_references(objects::replaced);
        replay.referenced.insert(declared.functions());
    }
    Assembly::new(module, &declared, &replay, generation.is_checked)?.finish()
}

/// Whether a replay has its own export of that name. A program that exports the two others is
/// itself a replay that checks itself.
fn is_replaced(name: &str, is_checked: bool) -> bool {
    name == "_start" || (is_checked && matches!(name, EVENT | WRONG))
}

/// The sections of the generated module.
struct Assembly<'a> {
    module: &'a [u8],
    declared: &'a Declared,
    replay: &'a Replay,
    is_checked: bool,
    types: TypeSection,
    functions: FunctionSection,
    tables: TableSection,
    memories: MemorySection,
    tags: TagSection,
    globals: GlobalSection,
    exports: ExportSection,
    elements: ElementSection,
    code: Vec<Cow<'a, [u8]>>,
    data: DataSection,
    customs: Vec<(&'a str, &'a [u8])>,
    encoder: Encoder,
}

impl<'a> Assembly<'a> {
    fn new(
        module: &'a [u8],
        declared: &'a Declared,
        replay: &'a Replay,
        is_checked: bool,
    ) -> Result<Self, Error> {
        let mut constants = HashMap::new();
        for (global, value) in &replay.globals {
            let ty = declared.globals[*global as usize];
            if !ty.mutable {
                let mut bytes = Vec::new();
                let sink = &mut InstructionSink::new(&mut bytes);
                code::constant(sink, *value, ty.content_type, declared)?;
                constants.insert(*global, bytes);
            }
        }
        Ok(Self {
            module,
            declared,
            replay,
            is_checked,
            types: TypeSection::new(),
            functions: FunctionSection::new(),
            tables: TableSection::new(),
            memories: MemorySection::new(),
            tags: TagSection::new(),
            globals: GlobalSection::new(),
            exports: ExportSection::new(),
            elements: ElementSection::new(),
            code: Vec::new(),
            data: DataSection::new(),
            customs: Vec::new(),
            encoder: Encoder { constants, has_objects: replay.has_objects },
        })
    }

    fn finish(mut self) -> Result<Vec<u8>, Error> {
        for payload in Parser::new(0).parse_all(self.module) {
            self.section(payload?)?;
        }
        let globals = self.declared.globals.len() as u32;
        let mut coder = Coder::new(self.declared, self.replay, self.is_checked, globals);
        let host = coder.host_functions()?;
        let start = coder.start()?;
        self.own(coder, host, start)?;
        Ok(self.assemble())
    }

    fn section(&mut self, payload: Payload<'a>) -> Result<(), Error> {
        let encoder = &mut self.encoder;
        match payload {
            Payload::TypeSection(section) => {
                encoder.parse_type_section(&mut self.types, section)?;
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    self.imported(import?.ty)?;
                }
            }
            Payload::FunctionSection(section) => {
                encoder.parse_function_section(&mut self.functions, section)?;
            }
            Payload::TableSection(section) => {
                encoder.parse_table_section(&mut self.tables, section)?;
            }
            Payload::MemorySection(section) => {
                encoder.parse_memory_section(&mut self.memories, section)?;
            }
            Payload::TagSection(section) => encoder.parse_tag_section(&mut self.tags, section)?,
            Payload::GlobalSection(section) => {
                encoder.parse_global_section(&mut self.globals, section)?;
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export?;
                    if !is_replaced(export.name, self.is_checked) {
                        let kind = encoder.export_kind(export.kind)?;
                        self.exports.export(export.name, kind, export.index);
                    }
                }
            }
            Payload::ElementSection(section) => {
                encoder.parse_element_section(&mut self.elements, section)?;
            }
            Payload::DataSection(section) => {
                encoder.parse_data_section(&mut self.data, section)?;
            }
            Payload::CodeSectionEntry(body) => {
                let range = body.range();
                let function = self.declared.imports.len() as u32 + self.code.len() as u32;
                let (start, end) = (range.start as usize, range.end as usize);
                let body = self.body(function, start..end)?;
                self.code.push(body);
            }
            // Debug information does not match the code any more.
            Payload::CustomSection(custom)
                if matches!(custom.name(), "name" | "producers" | "target_features") =>
            {
                self.customs.push((custom.name(), custom.data()));
            }
            _ => {}
        }
        Ok(())
    }

    /// Defines an imported item, with its initial size.
    fn imported(&mut self, ty: TypeRef) -> Result<(), Error> {
        let encoder = &mut self.encoder;
        match ty {
            TypeRef::Func(ty) | TypeRef::FuncExact(ty) => {
                self.functions.function(ty);
            }
            TypeRef::Memory(mut ty) => {
                let more = self.replay.pages.get(&self.memories.len()).copied().unwrap_or_default();
                ty.initial = ty.initial.saturating_add(more);
                self.memories.memory(encoder.memory_type(ty)?);
            }
            TypeRef::Table(mut ty) => {
                let more = self.replay.elements.get(&self.tables.len()).copied();
                ty.initial = ty.initial.saturating_add(more.unwrap_or_default());
                self.tables.table(encoder.table_type(ty)?);
            }
            TypeRef::Global(ty) => {
                let index = self.globals.len();
                let value = self.replay.globals.get(&index).copied();
                let own = self.declared.globals[index as usize].content_type;
                let value = value.or_else(|| Value::zero(own)).ok_or_else(|| {
                    Error::event(0, format!("it does not contain the value of global {index}"))
                })?;
                let mut bytes = Vec::new();
                let sink = &mut InstructionSink::new(&mut bytes);
                code::constant(sink, value, own, self.declared)?;
                self.globals.global(encoder.global_type(ty)?, &ConstExpr::raw(bytes));
            }
            TypeRef::Tag(ty) => {
                self.tags.tag(encoder.tag_type(ty)?);
            }
        }
        Ok(())
    }

    /// A body of the program, which returns after calls that the exit has unwound.
    fn body(&mut self, function: u32, range: Range<usize>) -> Result<Cow<'a, [u8]>, Error> {
        use crate::event::Frame;
        let all = Frame { function, offset: 0 }..=Frame { function, offset: u32::MAX };
        let frames = self.replay.exits.range(all);
        let mut exits: BTreeSet<usize> = frames.map(|frame| frame.offset as usize).collect();
        if exits.is_empty() && !self.encoder.has_objects {
            return Ok(Cow::Borrowed(&self.module[range]));
        }
        let body = self.rewritten(function, range, &mut exits)?;
        match exits.first() {
            Some(at) => {
                Err(Error::event(0, format!("function {function} has no call at byte {at}")))
            }
            None => Ok(Cow::Owned(body)),
        }
    }

    /// Adds the items that are not the program's.
    fn own(&mut self, coder: Coder<'a>, mut host: Vec<Vec<u8>>, start: u32) -> Result<(), Error> {
        let declared = self.declared;
        let given = declared.given().map(|own| declared.function(own).expect("it was added"));
        let given = given.map(|ty| (ty.params(), ty.results()));
        let added = coder.types().iter().map(|(params, results)| (&params[..], &results[..]));
        for (params, results) in given.chain(added) {
            let encode = |types: &[wasmparser::ValType]| {
                let each = types.iter().map(|ty| RoundtripReencoder.val_type(*ty));
                each.collect::<Result<Vec<_>, _>>()
            };
            self.types.ty().function(encode(params)?, encode(results)?);
        }
        let variable = |val_type| GlobalType { val_type, mutable: true, shared: false };
        self.globals.global(variable(ValType::I32), &ConstExpr::i32_const(0));
        for _ in &self.replay.imports {
            self.globals.global(variable(ValType::I64), &ConstExpr::i64_const(0));
        }
        if self.is_checked {
            let (event, wrong) = (self.globals.len(), self.globals.len() + 1);
            self.globals.global(variable(ValType::I64), &ConstExpr::i64_const(0));
            self.globals.global(variable(ValType::I32), &ConstExpr::i32_const(0));
            self.exports.export(EVENT, ExportKind::Global, event);
            self.exports.export(WRONG, ExportKind::Global, wrong);
        }
        self.exports.export("_start", ExportKind::Func, start);
        let referenced: Vec<u32> = self.replay.referenced.iter().copied().collect();
        if !referenced.is_empty() {
            self.elements.declared(Elements::Functions(Cow::Borrowed(&referenced)));
        }
        if !self.replay.data.bytes.is_empty() {
            self.data.passive(self.replay.data.bytes.iter().copied());
        }
        let program = std::mem::take(&mut self.code);
        let given = host.split_off(declared.imports.len());
        self.code = host.into_iter().map(Cow::Owned).chain(program).collect();
        for (function, body) in declared.given().zip(given) {
            self.functions.function(declared.type_of(function).expect("it was added"));
            self.code.push(Cow::Owned(body));
        }
        for (ty, body) in coder.helpers() {
            self.functions.function(ty);
            self.code.push(Cow::Owned(body));
        }
        Ok(())
    }

    fn assemble(self) -> Vec<u8> {
        let mut module = Module::new();
        let mut code = CodeSection::new();
        self.code.iter().for_each(|body| {
            code.raw(body);
        });
        let count = DataCountSection { count: self.data.len() };
        module.section(&self.types).section(&self.functions);
        if !self.tables.is_empty() {
            module.section(&self.tables);
        }
        if !self.memories.is_empty() {
            module.section(&self.memories);
        }
        if !self.tags.is_empty() {
            module.section(&self.tags);
        }
        module.section(&self.globals).section(&self.exports);
        if !self.elements.is_empty() {
            module.section(&self.elements);
        }
        if !self.data.is_empty() {
            module.section(&count);
        }
        module.section(&code);
        if !self.data.is_empty() {
            module.section(&self.data);
        }
        for (name, bytes) in self.customs {
            let data = Cow::Borrowed(bytes);
            module.section(&wasm_encoder::CustomSection { name: name.into(), data });
        }
        module.finish()
    }
}
