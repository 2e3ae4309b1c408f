//! Libraries that become part of the module.
//!
//! A library that asks nothing of the world, and has nothing but functions, globals and a memory with its first contents, needs no module
//! of its own: its functions are added as far as they are called, its memory stands behind ours. Where a probe is run again and again, a
//! short function is written out in the place of its call.

use super::code::{Emitter, written};
use super::support::{Shape, Support, index, shape, val};
use std::collections::HashMap;
use std::ops::Range;
use wasm_encoder::reencode::{Error, Reencode};
use wasm_encoder::{BlockType, Encode, Function, Instruction, MemoryType, ValType};
use wasmparser::{BinaryReader, CompositeInnerType, DataKind, ExternalKind, FunctionBody, Operator as O, Parser, Payload};

/// How many bytes of code a function may have that is written out in the place of a call.
const SHORT: usize = 160;

/// A library that can become part of a module.
#[derive(Debug, Default)]
pub struct Guest {
    bytes: Vec<u8>,
    types: Vec<Shape>,
    functions: Vec<u32>,
    bodies: Vec<Range<usize>>,
    globals: Vec<(ValType, i64)>,
    /// Its memory: how many pages at first, and at most.
    memory: Option<(u64, Option<u64>)>,
    data: Vec<(i32, Range<usize>)>,
    exports: HashMap<String, u32>,
    /// The index of its memory in the module.
    pub(super) place: u32,
    linked: HashMap<u32, u32>,
    linked_globals: HashMap<u32, u32>,
}

fn constant(init: &wasmparser::ConstExpr<'_>) -> Option<i64> {
    let mut ops = init.get_operators_reader();
    let value = match ops.read().ok()? {
        O::I32Const { value } => value.into(),
        O::I64Const { value } => value,
        O::F32Const { value } => value.bits().into(),
        O::F64Const { value } => value.bits().cast_signed(),
        _ => return None,
    };
    matches!(ops.read().ok()?, O::End).then_some(value)
}

fn range(range: &Range<u64>) -> Option<Range<usize>> {
    Some(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
}

impl Guest {
    /// Reads a library; none if it needs more than a guest has.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut guest = Self { bytes: bytes.to_vec(), ..Self::default() };
        for payload in Parser::new(0).parse_all(bytes) {
            guest.section(payload.ok()?)?;
        }
        Some(guest)
    }

    fn section(&mut self, payload: Payload<'_>) -> Option<()> {
        match payload {
            Payload::TypeSection(section) => {
                for group in section {
                    for ty in group.ok()?.into_types() {
                        let CompositeInnerType::Func(f) = ty.composite_type.inner else { return None };
                        self.types.push(shape(f.params(), f.results()));
                    }
                }
            }
            Payload::FunctionSection(section) => self.functions = section.into_iter().collect::<Result<_, _>>().ok()?,
            Payload::MemorySection(section) => {
                for memory in section {
                    let memory = memory.ok()?;
                    let plain = !memory.memory64 && !memory.shared && memory.page_size_log2.is_none();
                    (plain && self.memory.is_none()).then_some(())?;
                    self.memory = Some((memory.initial, memory.maximum));
                }
            }
            Payload::GlobalSection(section) => {
                for global in section {
                    let global = global.ok()?;
                    self.globals.push((val(global.ty.content_type), constant(&global.init_expr)?));
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export.ok()?;
                    if export.kind == ExternalKind::Func {
                        self.exports.insert(export.name.into(), export.index);
                    }
                }
            }
            Payload::CodeSectionEntry(body) => self.bodies.push(range(&body.range())?),
            Payload::DataSection(section) => {
                for data in section {
                    let data = data.ok()?;
                    let DataKind::Active { offset_expr, .. } = &data.kind else { return None };
                    let end = range(&data.range)?.end;
                    self.data.push((i32::try_from(constant(offset_expr)?).ok()?, end - data.data.len()..end));
                }
            }
            Payload::ImportSection(section) if section.count() > 0 => return None,
            Payload::TableSection(_)
            | Payload::ElementSection(_)
            | Payload::TagSection(_)
            | Payload::StartSection { .. }
            | Payload::DataCountSection { .. } => return None,
            _ => {}
        }
        Some(())
    }

    /// Its memory and what is in it at first.
    pub(super) fn memory(&self) -> Option<MemoryType> {
        let (minimum, maximum) = self.memory?;
        Some(MemoryType { minimum, maximum, memory64: false, shared: false, page_size_log2: None })
    }

    /// Where in its memory there is what at first.
    pub(super) fn data(&self) -> impl Iterator<Item = (i32, &[u8])> {
        self.data.iter().map(|(at, range)| (*at, &self.bytes[range.clone()]))
    }
}

impl Support {
    /// Makes a library a part of the module.
    pub fn host(&mut self, library: u32, mut guest: Guest) {
        guest.place = self.layout.memory + 1 + index(self.guests.len());
        self.layout.library_memories.insert(library, guest.place);
        self.guests.insert(library, guest);
    }

    fn link_guest(&mut self, library: u32, number: u32) -> u32 {
        if let Some(&found) = self.guests[&library].linked.get(&number) {
            return found;
        }
        let names = &self.guests[&library].exports;
        let name = names.iter().find(|n| *n.1 == number).map_or_else(|| format!("whamm.library_{number}"), |n| n.0.clone());
        let reserved = self.reserve(&name);
        self.guest(library).linked.insert(number, reserved);
        let (shape, body) = self.guest_body(library, number);
        let mut relink = Relink { support: self, library };
        let body = FunctionBody::new(BinaryReader::new(&body, 0));
        let locals: Vec<_> = body.get_locals_reader().into_iter().flatten().flatten().map(|(n, t)| (n, val(t))).collect();
        let mut function = Function::new(locals);
        for op in body.get_operators_reader().into_iter().flatten().flatten() {
            if let Ok(instruction) = relink.instruction(op) {
                function.instruction(&instruction);
            }
        }
        self.define(reserved, &shape, function);
        reserved
    }

    fn guest(&mut self, library: u32) -> &mut Guest {
        self.guests.get_mut(&library).expect("only libraries that are part of the module are asked for")
    }

    fn guest_body(&self, library: u32, number: u32) -> (Shape, Vec<u8>) {
        let guest = &self.guests[&library];
        let shape = guest.types[guest.functions[number as usize] as usize].clone();
        (shape, guest.bytes[guest.bodies[number as usize].clone()].to_vec())
    }

    fn guest_global(&mut self, library: u32, number: u32) -> u32 {
        if let Some(&found) = self.guests[&library].linked_globals.get(&number) {
            return found;
        }
        let (ty, init) = self.guests[&library].globals[number as usize];
        let global = self.global(ty, init);
        self.guest(library).linked_globals.insert(number, global);
        global
    }
}

/// Gives the code of a library the indices of the module that it is part of.
struct Relink<'a> {
    support: &'a mut Support,
    library: u32,
}

impl Reencode for Relink<'_> {
    type Error = std::convert::Infallible;

    fn function_index(&mut self, func: u32) -> Result<u32, Error> {
        Ok(self.support.link_guest(self.library, func))
    }

    fn global_index(&mut self, global: u32) -> Result<u32, Error> {
        Ok(self.support.guest_global(self.library, global))
    }

    fn memory_index(&mut self, _: u32) -> Result<u32, Error> {
        Ok(self.support.guests[&self.library].place)
    }

    fn type_index(&mut self, ty: u32) -> Result<u32, Error> {
        let shape = self.support.guests[&self.library].types[ty as usize].clone();
        Ok(self.support.ty(&shape))
    }
}

/// What is to be known of a function that is written out in the place of a call.
struct Inline<'a> {
    ops: Vec<O<'a>>,
    declared: Vec<ValType>,
    /// Whether something leaves it before its end.
    leaves: bool,
    /// Which of its variables are read before they are set, as far as can be seen.
    read_first: Vec<bool>,
}

impl<'a> Inline<'a> {
    fn of(body: &'a [u8], params: usize) -> Option<Self> {
        let body = FunctionBody::new(BinaryReader::new(body, 0));
        let locals = body.get_locals_reader().ok()?.into_iter().collect::<Result<Vec<_>, _>>().ok()?;
        let declared: Vec<ValType> = locals.into_iter().flat_map(|(n, t)| (0..n).map(move |_| val(t))).collect();
        let ops = body.get_operators_reader().ok()?.into_iter().collect::<Result<Vec<_>, _>>().ok()?;
        let mut inline = Self { leaves: false, read_first: vec![true; params + declared.len()], declared, ops: vec![] };
        let (mut depth, mut seen) = (0u32, vec![false; inline.read_first.len()]);
        for op in &ops {
            match op {
                O::Block { .. } | O::Loop { .. } | O::If { .. } => depth += 1,
                O::End => depth = depth.saturating_sub(1),
                O::Br { relative_depth } | O::BrIf { relative_depth } => inline.leaves |= *relative_depth == depth,
                O::Return => inline.leaves = true,
                // Rare: such functions are called.
                O::BrTable { .. } | O::TryTable { .. } | O::ReturnCall { .. } | O::Call { .. } => return None,
                O::LocalGet { local_index } => seen[*local_index as usize] = true,
                O::LocalSet { local_index } | O::LocalTee { local_index } => {
                    let n = *local_index as usize;
                    inline.read_first[n] &= seen[n] || depth > 0;
                    seen[n] = true;
                }
                _ => {}
            }
        }
        inline.ops = ops;
        Some(inline)
    }
}

impl Emitter<'_> {
    /// Calls a function of a library that is part of the module, whose arguments are on the stack.
    pub(super) fn call_guest(&mut self, library: u32, name: &str) -> bool {
        let Some(&number) = self.support.guests.get(&library).and_then(|guest| guest.exports.get(name)) else { return false };
        if !self.scope.repeated || !self.write_out(library, number) {
            let callee = self.support.link_guest(library, number);
            self.put().call(callee);
        }
        true
    }

    /// Writes a function out in the place of a call, if it is short and simple.
    fn write_out(&mut self, library: u32, number: u32) -> bool {
        let ((params, results), body) = self.support.guest_body(library, number);
        if body.len() > SHORT || results.len() > 1 {
            return false;
        }
        let Some(inline) = Inline::of(&body, params.len()) else { return false };
        let locals: Vec<u32> = params.iter().chain(&inline.declared).map(|&ty| self.locals.take(ty)).collect();
        for &local in locals[..params.len()].iter().rev() {
            self.put().local_set(local);
        }
        for (n, ty) in (params.len()..).zip(&inline.declared) {
            if inline.read_first[n] {
                self.clear(locals[n], *ty);
            }
        }
        let result = results.first().map_or(BlockType::Empty, |&ty| BlockType::Result(ty));
        if inline.leaves {
            self.put().block(result);
        }
        self.copy(library, &inline, &locals);
        if inline.leaves {
            self.put().end();
        }
        true
    }

    fn clear(&mut self, local: u32, ty: ValType) {
        match ty {
            ValType::I64 => written(self.put().i64_const(0)),
            ValType::F32 => written(self.put().f32_const(0.0.into())),
            ValType::F64 => written(self.put().f64_const(0.0.into())),
            ValType::Ref(r) => written(self.put().ref_null(r.heap_type)),
            ValType::V128 => written(self.put().v128_const(0)),
            ValType::I32 => written(self.put().i32_const(0)),
        }
        self.put().local_set(local);
    }

    /// Everything but the last end.
    fn copy(&mut self, library: u32, inline: &Inline<'_>, locals: &[u32]) {
        let mut depth = 0;
        for op in &inline.ops[..inline.ops.len() - 1] {
            let instruction = match *op {
                O::LocalGet { local_index } => Instruction::LocalGet(locals[local_index as usize]),
                O::LocalSet { local_index } => Instruction::LocalSet(locals[local_index as usize]),
                O::LocalTee { local_index } => Instruction::LocalTee(locals[local_index as usize]),
                O::Return => Instruction::Br(depth),
                ref op => {
                    match op {
                        O::Block { .. } | O::Loop { .. } | O::If { .. } => depth += 1,
                        O::End => depth -= 1,
                        _ => {}
                    }
                    let Ok(instruction) = (Relink { support: self.support, library }).instruction(op.clone()) else { continue };
                    instruction
                }
            };
            instruction.encode(&mut self.out);
        }
    }
}
