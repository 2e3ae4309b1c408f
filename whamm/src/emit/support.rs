//! The items that a module needs in addition to the program's own code.
//!
//! The source of the run-time support is text in this repository (`runtime/support.wat`). It is
//! assembled once; a module gets only the functions that its code calls, and their callees.
//! Function indices are assigned on first use, so that code can be written in one pass: all imports
//! are known before.

use super::cells::Cells;
use super::core::{self, Pair};
use super::counters::Words;
use super::guest::Guest;
use crate::hir::Program;
use crate::types::Ty;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::rc::Rc;
use std::sync::OnceLock;
use wasm_encoder::reencode::Reencode;
use wasm_encoder::{BlockType, ConstExpr, Function, GlobalType, MemoryType, ValType};
use wasmparser::{CompositeInnerType, FunctionBody, Parser, Payload, TypeRef};

/// The address of texts and tables: the run-time support uses the addresses below itself.
const DATA: u32 = 5632;

/// The types of a function's variables.
type Variables = Vec<ValType>;

/// A function's type.
pub(crate) type Shape = (Vec<ValType>, Vec<ValType>);

struct Template {
    bytes: Vec<u8>,
    shapes: Vec<Shape>,
    /// Imports first: their modules and names.
    imports: Vec<(String, String)>,
    bodies: Vec<Range<usize>>,
    globals: Vec<(ValType, i32)>,
    names: HashMap<String, u32>,
    /// The names of all functions, including those that are not exported.
    called: HashMap<u32, String>,
}

pub(super) fn shape(params: &[wasmparser::ValType], results: &[wasmparser::ValType]) -> Shape {
    (params.iter().map(|&t| val(t)).collect(), results.iter().map(|&t| val(t)).collect())
}

/// Converts a type from one library to the other.
pub(crate) fn val(t: wasmparser::ValType) -> ValType {
    wasm_encoder::reencode::RoundtripReencoder.val_type(t).unwrap_or(ValType::I32)
}

impl Template {
    fn get() -> &'static Self {
        static TEMPLATE: OnceLock<Template> = OnceLock::new();
        TEMPLATE.get_or_init(|| {
            Self::read()
                .expect("the run-time support is part of this crate, and its tests assemble it")
        })
    }

    fn text() -> String {
        let folders = ["own", "app"].map(whamm_rewrite::folder::below).concat();
        include_str!("../runtime/support.wat").replace("{folders}\n", &folders)
    }

    fn read() -> Result<Self, Box<dyn std::error::Error>> {
        let bytes = wat::parse_str(Self::text())?;
        let mut t = Self {
            bytes: vec![],
            shapes: vec![],
            imports: vec![],
            bodies: vec![],
            globals: vec![],
            names: HashMap::new(),
            called: HashMap::new(),
        };
        let mut types = Vec::new();
        for payload in Parser::new(0).parse_all(&bytes) {
            match payload? {
                Payload::TypeSection(s) => {
                    for group in s {
                        for ty in group?.into_types() {
                            if let CompositeInnerType::Func(f) = ty.composite_type.inner {
                                types.push(shape(f.params(), f.results()));
                            }
                        }
                    }
                }
                Payload::ImportSection(s) => {
                    for import in s.into_imports() {
                        let import = import?;
                        if let TypeRef::Func(ty) = import.ty {
                            t.imports.push((import.module.into(), import.name.into()));
                            t.shapes.push(types[ty as usize].clone());
                        }
                    }
                }
                Payload::FunctionSection(s) => {
                    for ty in s {
                        t.shapes.push(types[ty? as usize].clone());
                    }
                }
                Payload::GlobalSection(s) => {
                    for global in s {
                        let global = global?;
                        let mut reader = global.init_expr.get_operators_reader();
                        let init =
                            if let wasmparser::Operator::I32Const { value } = reader.read()? {
                                value
                            } else {
                                0
                            };
                        t.globals.push((val(global.ty.content_type), init));
                    }
                }
                Payload::ExportSection(s) => {
                    for export in s {
                        let export = export?;
                        t.names.insert(export.name.into(), export.index);
                    }
                }
                Payload::CustomSection(custom) => {
                    let wasmparser::KnownCustom::Name(names) = custom.as_known() else { continue };
                    for part in names {
                        let wasmparser::Name::Function(map) = part? else { continue };
                        for naming in map {
                            let naming = naming?;
                            t.called.insert(naming.index, naming.name.into());
                        }
                    }
                }
                Payload::CodeSectionEntry(body) => {
                    let range = body.range();
                    t.bodies.push(usize::try_from(range.start)?..usize::try_from(range.end)?);
                }
                _ => {}
            }
        }
        t.bytes = bytes;
        Ok(t)
    }
}

/// How a report leaves the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outlet {
    /// Through WASI, which uses the support's memory.
    Own,
    /// Through WASI, which uses the program's memory with this index.
    Lent(u32),
    /// Kept for the host to fetch.
    Kept,
    /// Through the core library, whose memory has this index.
    Core(u32),
}

/// Indices at which additions begin, and the imports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    /// The number of existing types.
    pub types: u32,
    /// The number of existing functions, imports included.
    pub functions: u32,
    /// The number of existing globals.
    pub globals: u32,
    /// The index of the support's memory.
    pub memory: u32,
    /// Added imports of functions, by module and name.
    pub imports: HashMap<(String, String), u32>,
    /// Memories of libraries, by the number of the library.
    pub library_memories: HashMap<u32, u32>,
    /// The memories that the program defines or imports, by its own numbers for them.
    pub app_memories: Vec<u32>,
    /// Memories with addresses of 64 bits.
    pub wide_memories: BTreeSet<u32>,
    /// Whether the module is a monitor, which reaches the program's memories through the engine.
    pub apart: bool,
    /// The maximum number of globals, if it is not the usual one.
    pub most_globals: Option<u32>,
}

/// The items that are added to a module.
#[derive(Debug)]
pub(crate) struct Support {
    pub(super) layout: Layout,
    /// Libraries that are part of the module, by number.
    pub(super) guests: BTreeMap<u32, Guest>,
    /// Functions by their types, their variables and their code.
    bodies: HashMap<(Shape, Variables, Vec<u8>), u32>,
    outlet: Outlet,
    types: Vec<Shape>,
    known_types: HashMap<Shape, u32>,
    functions: Vec<Option<(u32, Function)>>,
    names: Vec<(u32, String)>,
    /// Functions of the run-time support that are never called, and the functions linked instead.
    spared: Vec<(&'static str, &'static str)>,
    globals: Vec<(ValType, i64)>,
    data: Vec<u8>,
    texts: HashMap<Rc<str>, u32>,
    linked: HashMap<u32, u32>,
    linked_globals: BTreeMap<u32, u32>,
    /// Maps that the core library holds from the start: how each is created, in the order of their
    /// numbers.
    pub core_maps: Vec<&'static Pair>,
    /// Types of maps that only the run-time support can hold.
    own_maps: Option<BTreeSet<Ty>>,
    called: BTreeMap<u32, u32>,
    /// Cells of scalar-replaced map entries.
    pub(super) cells: Cells,
    /// Counters that are not globals.
    pub(super) words: Words,
    /// Constructs that cannot be expressed, found while writing code.
    pub refused: Vec<(crate::source::Span, String, String)>,
}

pub(crate) fn index(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl Support {
    /// No additions yet.
    pub(crate) fn new(layout: Layout, outlet: Outlet) -> Self {
        Self {
            layout,
            guests: BTreeMap::new(),
            bodies: HashMap::new(),
            outlet,
            types: vec![],
            known_types: HashMap::new(),
            functions: vec![],
            names: vec![],
            spared: vec![],
            globals: vec![],
            data: vec![],
            texts: HashMap::new(),
            linked: HashMap::new(),
            linked_globals: BTreeMap::new(),
            core_maps: vec![],
            own_maps: None,
            called: BTreeMap::new(),
            cells: Cells::default(),
            words: Words::default(),
            refused: vec![],
        }
    }

    /// The indices of items.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The outlet of the report.
    pub(crate) fn outlet(&self) -> &Outlet {
        &self.outlet
    }

    /// The index of a function type.
    pub(crate) fn ty(&mut self, shape: &Shape) -> u32 {
        if let Some(&found) = self.known_types.get(shape) {
            return found;
        }
        let number = self.layout.types + index(self.types.len());
        self.types.push(shape.clone());
        self.known_types.insert(shape.clone(), number);
        number
    }

    /// Reserves the index of a function that is written later.
    pub(crate) fn reserve(&mut self, name: &str) -> u32 {
        let number = self.layout.functions + index(self.functions.len());
        self.functions.push(None);
        if !name.is_empty() {
            self.names.push((number, name.into()));
        }
        number
    }

    /// Defines the function at a reserved index.
    pub(crate) fn define(&mut self, number: u32, shape: &Shape, function: Function) {
        let ty = self.ty(shape);
        self.functions[(number - self.layout.functions) as usize] = Some((ty, function));
    }

    /// A function that is called from several places; equal bodies share one function.
    pub(crate) fn shared_body(
        &mut self,
        name: &str,
        shape: Shape,
        locals: &[ValType],
        code: &[u8],
    ) -> u32 {
        let key = (shape, locals.to_vec(), code.to_vec());
        if let Some(&found) = self.bodies.get(&key) {
            return found;
        }
        let number = self.reserve(name);
        let mut body = Function::new(locals.iter().map(|&t| (1, t)));
        body.raw(code.iter().copied());
        body.instructions().end();
        self.define(number, &key.0, body);
        self.bodies.insert(key, number);
        number
    }

    /// The type of a block with these results.
    pub(crate) fn block(&mut self, results: &[ValType]) -> BlockType {
        match results {
            [] => BlockType::Empty,
            [one] => BlockType::Result(*one),
            _ => BlockType::FunctionType(self.ty(&(vec![], results.to_vec()))),
        }
    }

    /// A new mutable global.
    pub(crate) fn global(&mut self, ty: ValType, init: i64) -> u32 {
        self.globals.push((ty, init));
        self.layout.globals + index(self.globals.len() - 1)
    }

    /// New consecutive mutable globals.
    pub(crate) fn globals(&mut self, slots: &[(ValType, i64)]) -> u32 {
        let all: Vec<u32> = slots.iter().map(|&(ty, init)| self.global(ty, init)).collect();
        all.first().copied().unwrap_or(0)
    }

    /// How many globals there are.
    pub(crate) fn global_count(&self) -> usize {
        self.globals.len()
    }

    /// The address of some bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8], align: usize) -> u32 {
        while !(DATA as usize + self.data.len()).is_multiple_of(align) {
            self.data.push(0);
        }
        let at = DATA + index(self.data.len());
        self.data.extend_from_slice(bytes);
        at
    }

    /// The address of a text.
    pub(crate) fn text(&mut self, text: &str) -> u32 {
        if let Some(&at) = self.texts.get(text) {
            return at;
        }
        let at = self.bytes(text.as_bytes(), 1);
        self.texts.insert(text.into(), at);
        at
    }

    /// Address and length of a text, as eight bytes.
    pub(crate) fn pair(&mut self, text: &str) -> [u8; 8] {
        let (at, len) = (self.text(text), index(text.len()));
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&at.to_le_bytes());
        bytes[4..].copy_from_slice(&len.to_le_bytes());
        bytes
    }

    /// The descriptor of a type, as the run-time support reads it.
    pub(crate) fn descriptor(&mut self, ty: &Ty) -> Vec<u8> {
        match ty {
            Ty::U8 | Ty::U16 | Ty::U32 => b"u".to_vec(),
            Ty::I8 | Ty::I16 | Ty::I32 => b"i".to_vec(),
            Ty::U64 => b"U".to_vec(),
            Ty::I64 => b"I".to_vec(),
            Ty::F32 => b"f".to_vec(),
            Ty::F64 => b"d".to_vec(),
            Ty::Bool => b"b".to_vec(),
            Ty::Str => b"s".to_vec(),
            Ty::Tuple(parts) => {
                let mut all = b"(".to_vec();
                for part in parts.iter() {
                    all.extend(self.descriptor(part));
                }
                all.push(b')');
                all
            }
            Ty::Map(_) if self.core_pair(ty).is_some() => b"M".to_vec(),
            Ty::Map(_) => {
                let model = self.map(ty);
                let mut all = b"m".to_vec();
                all.extend(model.to_le_bytes());
                all
            }
            Ty::FuncRef | Ty::Any | Ty::Param(_) | Ty::Lib => Vec::new(),
        }
    }

    /// The address of a descriptor with its end.
    pub(crate) fn descriptor_at(&mut self, ty: &Ty) -> u32 {
        let mut bytes = self.descriptor(ty);
        bytes.push(0);
        let key: Rc<str> = format!("\u{1}descriptor of {ty}").into();
        if let Some(&at) = self.texts.get(&key) {
            return at;
        }
        let at = self.bytes(&bytes, 1);
        self.texts.insert(key, at);
        at
    }

    /// Leaves out functions that print values of types that do not occur.
    pub(crate) fn spare(&mut self, fractions: bool, maps: bool) {
        self.spared.extend(
            (!fractions)
                .then_some([("put_f32", "no_f32"), ("put_f64", "no_f64")])
                .into_iter()
                .flatten(),
        );
        self.spared.extend((!maps).then_some(("put_map", "no_map")));
    }

    /// Makes the core library hold maps, except for those of some types.
    pub(crate) fn share_maps(&mut self, own: BTreeSet<Ty>) {
        self.own_maps = Some(own);
    }

    /// The core library's names for a map of this type, if it holds such maps here.
    pub(crate) fn core_pair(&self, ty: &Ty) -> Option<&'static Pair> {
        if self.own_maps.as_ref()?.contains(ty) { None } else { core::pair(ty) }
    }

    /// A new empty map: its address, or its number in the core library.
    pub(crate) fn map(&mut self, ty: &Ty) -> u32 {
        let Ty::Map(kv) = ty else { return 0 };
        if let Some(pair) = self.core_pair(ty) {
            self.core_maps.push(pair);
            return index(self.core_maps.len() - 1);
        }
        let (key, value) = (self.descriptor_at(&kv.0), self.descriptor_at(&kv.1));
        let mut header = [0u32; 10];
        (header[4], header[5], header[6], header[7]) =
            (index(kv.0.slots().len()), index(kv.1.slots().len()), key, value);
        let bytes: Vec<u8> = header.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.bytes(&bytes, 8)
    }

    /// The index of a function of the run-time support.
    pub(crate) fn runtime(&mut self, name: &str) -> u32 {
        let number = *Template::get()
            .names
            .get(name)
            .expect("only names of the run-time support are asked for, and tests ask for each");
        self.link(number)
    }

    fn link(&mut self, number: u32) -> u32 {
        let template = Template::get();
        if let Some(&found) = self.linked.get(&number) {
            return found;
        }
        let spared = self
            .spared
            .iter()
            .find(|(name, _)| template.names.get(*name) == Some(&number))
            .map(|spared| spared.1);
        if let Some(instead) = spared {
            return self.runtime(instead);
        }
        if let Some(import) = template.imports.get(number as usize) {
            let target = match (import.0.as_str(), import.1.as_str(), &self.outlet) {
                ("target", "write", Outlet::Own) => "write_own",
                ("target", "write", Outlet::Lent(_)) => "write_lent",
                ("target", "write", Outlet::Kept) => "write_kept",
                ("target", "write", Outlet::Core(_)) => "write_core",
                ("target", _, _) if self.imported(core::MODULE, "print_map").is_some() => {
                    "core_map"
                }
                ("target", _, _) => "no_map",
                _ => return self.layout.imports.get(import).copied().unwrap_or(0),
            };
            return self.runtime(target);
        }
        let reserved = self.reserve(
            &template.called.get(&number).map_or_else(String::new, |name| format!("whamm.{name}")),
        );
        self.linked.insert(number, reserved);
        let body = template.bodies[number as usize - template.imports.len()].clone();
        let reader = wasmparser::BinaryReader::new(&template.bytes[body], 0);
        let function = Relink(self).body(&FunctionBody::new(reader));
        let shape = template.shapes[number as usize].clone();
        self.define(reserved, &shape, function);
        reserved
    }

    /// The index of a global of the run-time support, by its place in the text.
    fn linked_global(&mut self, number: u32) -> u32 {
        if let Some(&found) = self.linked_globals.get(&number) {
            return found;
        }
        let (ty, init) = Template::get().globals[number as usize];
        let global = self.global(ty, init.into());
        self.linked_globals.insert(number, global);
        global
    }

    fn preset(&mut self, number: u32, value: u32) {
        let global = self.linked_global(number) - self.layout.globals;
        self.globals[global as usize].1 = value.into();
    }

    /// Selects JSON for rows.
    pub(crate) fn preset_json(&mut self) {
        self.preset(2, 1);
    }

    /// Sets the file of the report.
    pub(crate) fn preset_path(&mut self, path: &str) {
        let at = self.text(path);
        self.preset(8, at);
        self.preset(9, index(path.len()));
    }

    /// The index of a function of a script, which has to be written later.
    pub(crate) fn script_function(&mut self, number: u32, program: &Program) -> u32 {
        if let Some(&found) = self.called.get(&number) {
            return found;
        }
        let name = format!("whamm.fn.{}", program.functions[number as usize].name);
        let reserved = self.reserve(&name);
        self.called.insert(number, reserved);
        reserved
    }

    /// A function of a script that was requested but is not written yet.
    pub(crate) fn unwritten(&self) -> Option<(u32, u32)> {
        let missing = |f: &u32| self.functions[(f - self.layout.functions) as usize].is_none();
        self.called.iter().find(|(_, f)| missing(f)).map(|(&n, &f)| (n, f))
    }

    /// The index of an imported function of a library.
    pub(crate) fn imported(&self, module: &str, name: &str) -> Option<u32> {
        self.layout.imports.get(&(module.to_string(), name.to_string())).copied()
    }

    /// Whether a memory is needed at all.
    pub(crate) fn needs_memory(&self) -> bool {
        !self.data.is_empty()
            || !self.linked.is_empty()
            || !self.guests.is_empty()
            || self.words.size() > 0
    }

    /// Names of the functions that were added.
    pub(crate) fn names(&self) -> &[(u32, String)] {
        &self.names
    }

    /// Returns all items, once no more are added.
    pub(crate) fn finish(&mut self) -> Added {
        let words = (DATA + index(self.data.len()) + 7) & !7;
        if let Some(base) = self.words.base() {
            self.globals[(base - self.layout.globals) as usize].1 = words.into();
        }
        let end = words + self.words.size();
        self.preset(0, end);
        let plain = |minimum: u64| MemoryType {
            minimum,
            maximum: None,
            memory64: false,
            shared: false,
            page_size_log2: None,
        };
        let own = self.needs_memory().then(|| plain(u64::from(end.div_ceil(65536))));
        let guests = self.guests.values().map(|guest| guest.memory().unwrap_or(plain(0)));
        let data = pieces(&self.data).into_iter().map(|piece| {
            let at = DATA + index(piece.start);
            (self.layout.memory, at.cast_signed(), self.data[piece].to_vec())
        });
        let of_guests = self
            .guests
            .values()
            .flat_map(|guest| guest.data().map(|(at, bytes)| (guest.place, at, bytes.to_vec())));
        Added {
            types: self.types.clone(),
            functions: self.functions.iter().flatten().cloned().collect(),
            memories: own.into_iter().chain(guests).collect(),
            globals: self.globals.iter().map(|&(ty, init)| global(ty, init)).collect(),
            data: data.chain(of_guests).collect(),
        }
    }
}

/// The items that are added to a module: types, functions with the indices of their types,
/// memories, globals, and initial contents of memories.
#[derive(Debug)]
pub(crate) struct Added {
    /// Types, by parameters and results.
    pub types: Vec<Shape>,
    /// Functions, with the indices of their types.
    pub functions: Vec<(u32, Function)>,
    /// Memories.
    pub memories: Vec<MemoryType>,
    /// Globals, and their initial values.
    pub globals: Vec<(GlobalType, ConstExpr)>,
    /// Initial contents of memories: memory, address and bytes.
    pub data: Vec<(u32, i32, Vec<u8>)>,
}

fn global(ty: ValType, init: i64) -> (GlobalType, ConstExpr) {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the low bits are the value"
    )]
    let init = match ty {
        ValType::I64 => ConstExpr::i64_const(init),
        ValType::F32 => ConstExpr::f32_const(f32::from_bits(init as u32).into()),
        ValType::F64 => ConstExpr::f64_const(f64::from_bits(init as u64).into()),
        _ => ConstExpr::i32_const(init as i32),
    };
    (GlobalType { val_type: ty, mutable: true, shared: false }, init)
}

/// The pieces of data between long runs of zeros, which need not be stored.
fn pieces(data: &[u8]) -> Vec<Range<usize>> {
    const LONG: usize = 32;
    let (mut list, mut at): (Vec<Range<usize>>, _) = (Vec::new(), 0);
    while let Some(start) = data[at..].iter().position(|&b| b != 0).map(|n| at + n) {
        let end = data[start..].iter().position(|&b| b == 0).map_or(data.len(), |n| start + n);
        match list.last_mut().filter(|last| start - last.end < LONG) {
            Some(last) => last.end = end,
            None => list.push(start..end),
        }
        at = end;
    }
    list
}

/// Maps the indices in the run-time support's code to those of the module it is linked into.
struct Relink<'a>(&'a mut Support);

impl Reencode for Relink<'_> {
    type Error = std::convert::Infallible;

    fn function_index(&mut self, func: u32) -> Result<u32, wasm_encoder::reencode::Error> {
        Ok(self.0.link(func))
    }

    fn global_index(&mut self, global: u32) -> Result<u32, wasm_encoder::reencode::Error> {
        Ok(self.0.linked_global(global))
    }

    fn memory_index(&mut self, memory: u32) -> Result<u32, wasm_encoder::reencode::Error> {
        Ok(match (memory, &self.0.outlet) {
            (0, _) => self.0.layout.memory,
            (1, Outlet::Lent(app)) => *app,
            (2, Outlet::Core(core)) => *core,
            _ => self.0.layout.memory,
        })
    }

    fn type_index(&mut self, ty: u32) -> Result<u32, wasm_encoder::reencode::Error> {
        Ok(ty)
    }
}

impl Relink<'_> {
    fn body(&mut self, body: &FunctionBody<'_>) -> Function {
        let mut locals = Vec::new();
        if let Ok(reader) = body.get_locals_reader() {
            locals.extend(reader.into_iter().flatten().map(|(n, t)| (n, val(t))));
        }
        let mut function = Function::new(locals);
        if let Ok(reader) = body.get_operators_reader() {
            for op in reader.into_iter().flatten() {
                if let Ok(instruction) = self.instruction(op) {
                    function.instruction(&instruction);
                }
            }
        }
        function
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_rows_of_zeros_are_left_out() {
        let mut data = vec![0; 200];
        (data[40], data[60], data[150]) = (1, 1, 1);
        assert_eq!(pieces(&data), [40..61, 150..151]);
        assert!(
            pieces(&[]).is_empty()
                && pieces(&[0; 9]).is_empty()
                && pieces(&[7; 3]).first() == Some(&(0..3))
        );
    }

    #[test]
    fn the_support_assembles_and_every_function_of_it_can_be_linked() {
        let template = Template::read().expect("it is valid");
        wasmparser::Validator::new_with_features(wasmparser::WasmFeatures::all())
            .validate_all(&template.bytes)
            .expect("it is valid");
        let mut support = Support::new(Layout::default(), Outlet::Lent(1));
        for name in template.names.keys() {
            support.runtime(name);
        }
        assert!(support.functions.iter().all(Option::is_some));
    }
}
