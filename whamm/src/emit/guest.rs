//! Libraries that become part of the module.
//!
//! A library without imports, which has only functions, globals and a memory with initial contents,
//! needs no module of its own: the functions that are called are added to the module, and its
//! memory follows the support's. Where a probe runs often, calls of short functions are inlined.

use super::code::{Emitter, written};
use super::storage::Storage;
use super::support::{Shape, Support, index, shape, val};
use crate::hir::{Expr, ExprKind};
use std::collections::HashMap;
use std::ops::Range;
use wasm_encoder::reencode::{Error, Reencode};
use wasm_encoder::{BlockType, Encode, Function, Instruction, MemoryType, ValType};
use wasmparser::{
    BinaryReader, CompositeInnerType, DataKind, ExternalKind, FunctionBody, Operator as O, Parser,
    Payload,
};

/// The maximum code size in bytes of a function that is inlined.
const SHORT: usize = 160;

/// A library that can become part of a module.
#[derive(Debug, Default)]
pub(crate) struct Guest {
    bytes: Vec<u8>,
    types: Vec<Shape>,
    functions: Vec<u32>,
    bodies: Vec<Range<usize>>,
    globals: Vec<(ValType, i64)>,
    /// Its memory: the initial and the maximum number of pages.
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
    /// Reads a library; `None` if it needs more than a guest may have.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
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
                        let CompositeInnerType::Func(f) = ty.composite_type.inner else {
                            return None;
                        };
                        self.types.push(shape(f.params(), f.results()));
                    }
                }
            }
            Payload::FunctionSection(section) => {
                self.functions = section.into_iter().collect::<Result<_, _>>().ok()?;
            }
            Payload::MemorySection(section) => {
                for memory in section {
                    let memory = memory.ok()?;
                    let plain =
                        !memory.memory64 && !memory.shared && memory.page_size_log2.is_none();
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
                    self.data.push((
                        i32::try_from(constant(offset_expr)?).ok()?,
                        end - data.data.len()..end,
                    ));
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

    /// Its memory's type.
    pub(super) fn memory(&self) -> Option<MemoryType> {
        let (minimum, maximum) = self.memory?;
        Some(MemoryType { minimum, maximum, memory64: false, shared: false, page_size_log2: None })
    }

    /// The initial contents of its memory.
    pub(super) fn data(&self) -> impl Iterator<Item = (i32, &[u8])> {
        self.data.iter().map(|(at, range)| (*at, &self.bytes[range.clone()]))
    }
}

impl Support {
    /// Adds a library to the module.
    pub(crate) fn host(&mut self, library: u32, mut guest: Guest) {
        guest.place = self.layout.memory + 1 + index(self.guests.len());
        self.layout.library_memories.insert(library, guest.place);
        self.guests.insert(library, guest);
    }

    /// Whether a library is a part of the module.
    pub(crate) fn is_guest(&self, library: u32) -> bool {
        self.guests.contains_key(&library)
    }

    /// Whether a function of a library that is part of the module is pure: it changes nothing,
    /// never traps, and terminates.
    pub(crate) fn only_asks(&self, library: u32, name: &str) -> bool {
        let Some((guest, &number)) =
            self.guests.get(&library).and_then(|guest| Some((guest, guest.exports.get(name)?)))
        else {
            return false;
        };
        let room = guest.memory.map_or(0, |memory| memory.0 << 16);
        let (_, body) = self.guest_body(library, number);
        let body = FunctionBody::new(BinaryReader::new(&body, 0));
        let ops: Vec<O<'_>> =
            body.get_operators_reader().into_iter().flatten().map_while(Result::ok).collect();
        (0..ops.len()).all(|n| asks(&ops[..=n], room))
    }

    fn link_guest(&mut self, library: u32, number: u32) -> u32 {
        if let Some(&found) = self.guests[&library].linked.get(&number) {
            return found;
        }
        let names = &self.guests[&library].exports;
        let name = names
            .iter()
            .find(|n| *n.1 == number)
            .map_or_else(|| format!("whamm.library_{number}"), |n| n.0.clone());
        let reserved = self.reserve(&name);
        self.guest(library).linked.insert(number, reserved);
        let (shape, body) = self.guest_body(library, number);
        let mut relink = Relink { support: self, library };
        let body = FunctionBody::new(BinaryReader::new(&body, 0));
        let locals: Vec<_> = body
            .get_locals_reader()
            .into_iter()
            .flatten()
            .flatten()
            .map(|(n, t)| (n, val(t)))
            .collect();
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
        self.guests
            .get_mut(&library)
            .expect("only libraries that are part of the module are asked for")
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

/// Whether the last instruction changes nothing and cannot trap, in a memory of `room` bytes.
fn asks(ops: &[O<'_>], room: u64) -> bool {
    let inside = |offset: u64, size: u64| {
        let most = match ops {
            [.., O::I32Const { value }, O::I32And, _] if *value >= 0 => value.unsigned_abs(),
            [.., O::I32Const { value }, _] => value.cast_unsigned(),
            _ => return false,
        };
        u64::from(most) + offset + size <= room
    };
    match ops.last() {
        Some(O::I32Load { memarg }) => inside(memarg.offset, 4),
        Some(O::I32Load8U { memarg } | O::I32Load8S { memarg }) => inside(memarg.offset, 1),
        Some(O::I32Load16U { memarg } | O::I32Load16S { memarg }) => inside(memarg.offset, 2),
        Some(O::I64Load { memarg }) => inside(memarg.offset, 8),
        Some(
            O::LocalGet { .. }
            | O::LocalSet { .. }
            | O::LocalTee { .. }
            | O::GlobalGet { .. }
            | O::Drop
            | O::Select
            | O::End
            | O::I32Const { .. }
            | O::I32Add
            | O::I32Sub
            | O::I32Mul
            | O::I32And
            | O::I32Or
            | O::I32Xor
            | O::I32Shl
            | O::I32ShrU
            | O::I32ShrS
            | O::I32Rotl
            | O::I32Rotr
            | O::I32Eqz
            | O::I32Eq
            | O::I32Ne
            | O::I32LtU
            | O::I32LtS
            | O::I32GtU
            | O::I32GtS
            | O::I32LeU
            | O::I32LeS
            | O::I32GeU
            | O::I32GeS
            | O::I64Const { .. }
            | O::I64Add
            | O::I64Sub
            | O::I64Mul
            | O::I64And
            | O::I64Or
            | O::I64Xor
            | O::I64Shl
            | O::I64ShrU
            | O::I64ShrS
            | O::I64Eqz
            | O::I64Eq
            | O::I64Ne
            | O::I32WrapI64
            | O::I64ExtendI32U
            | O::I64ExtendI32S,
        ) => true,
        _ => false,
    }
}

/// Maps the indices in a library's code to those of the module that it is part of.
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

/// The location of a variable of an inlined function.
#[derive(Clone, Copy, Debug)]
enum Given {
    Local(u32),
    /// A constant.
    Constant(i32),
}

/// The facts about a function that is inlined.
struct Inline<'a> {
    ops: Vec<O<'a>>,
    declared: Vec<ValType>,
    /// Whether it may leave before its end.
    leaves: bool,
    /// Which of its variables may be read before they are set.
    read_first: Vec<bool>,
    /// Which of them are set at all.
    set: Vec<bool>,
}

impl<'a> Inline<'a> {
    fn of(body: &'a [u8], params: usize) -> Option<Self> {
        let body = FunctionBody::new(BinaryReader::new(body, 0));
        let locals =
            body.get_locals_reader().ok()?.into_iter().collect::<Result<Vec<_>, _>>().ok()?;
        let declared: Vec<ValType> =
            locals.into_iter().flat_map(|(n, t)| (0..n).map(move |_| val(t))).collect();
        let ops =
            body.get_operators_reader().ok()?.into_iter().collect::<Result<Vec<_>, _>>().ok()?;
        let count = params + declared.len();
        let mut inline = Self {
            leaves: false,
            read_first: vec![true; count],
            set: vec![false; count],
            declared,
            ops: vec![],
        };
        let (mut depth, mut seen) = (0u32, vec![false; inline.read_first.len()]);
        for op in &ops {
            match op {
                O::Block { .. } | O::Loop { .. } | O::If { .. } => depth += 1,
                O::End => depth = depth.saturating_sub(1),
                O::Br { relative_depth } | O::BrIf { relative_depth } => {
                    inline.leaves |= *relative_depth == depth;
                }
                O::Return => inline.leaves = true,
                // These are rare, so such functions are not inlined.
                O::BrTable { .. } | O::TryTable { .. } | O::ReturnCall { .. } | O::Call { .. } => {
                    return None;
                }
                O::LocalGet { local_index } => seen[*local_index as usize] = true,
                O::LocalSet { local_index } | O::LocalTee { local_index } => {
                    let n = *local_index as usize;
                    inline.read_first[n] &= seen[n] || depth > 0;
                    seen[n] = true;
                    inline.set[n] = true;
                }
                _ => {}
            }
        }
        inline.ops = ops;
        Some(inline)
    }
}

impl Emitter<'_> {
    /// Calls a function of a library that is part of the module.
    pub(super) fn call_guest(&mut self, library: u32, name: &str, args: &[Expr]) -> bool {
        let Some(&number) =
            self.support.guests.get(&library).and_then(|guest| guest.exports.get(name))
        else {
            return false;
        };
        if !self.scope.repeated || !self.write_out(library, number, args) {
            args.iter().for_each(|a| self.value(a));
            let callee = self.support.link_guest(library, number);
            self.put().call(callee);
        }
        true
    }

    /// Inlines a function, if it is short and simple.
    fn write_out(&mut self, library: u32, number: u32, args: &[Expr]) -> bool {
        let ((params, results), body) = self.support.guest_body(library, number);
        if body.len() > SHORT || results.len() > 1 || params.len() != args.len() {
            return false;
        }
        let Some(inline) = Inline::of(&body, params.len()) else { return false };
        let mut given: Vec<Given> = args
            .iter()
            .zip(&params)
            .zip(&inline.set)
            .map(|((a, &ty), &set)| self.given(a, ty, set))
            .collect();
        for (n, &ty) in (params.len()..).zip(&inline.declared) {
            let local = self.locals.take(ty);
            given.push(Given::Local(local));
            if inline.read_first[n] {
                self.clear(local, ty);
            }
        }
        let result = results.first().map_or(BlockType::Empty, |&ty| BlockType::Result(ty));
        if inline.leaves {
            self.put().block(result);
        }
        self.copy(library, &inline, &given);
        if inline.leaves {
            self.put().end();
        }
        true
    }

    /// The location of an argument: a constant, or a value that is in a local already, is not
    /// copied, unless the function changes it.
    fn given(&mut self, arg: &Expr, ty: ValType, set: bool) -> Given {
        match (&arg.kind, set) {
            (ExprKind::Int(n), false) if ty == ValType::I32 => {
                if let Ok(n) =
                    i32::try_from(*n).or_else(|_| u32::try_from(*n).map(u32::cast_signed))
                {
                    return Given::Constant(n);
                }
            }
            (ExprKind::Bound(b), false) => {
                if let Some(Storage::Locals(local)) = self.scope.bounds.get(b) {
                    return Given::Local(*local);
                }
            }
            _ => {}
        }
        self.value(arg);
        let local = self.locals.take(ty);
        self.put().local_set(local);
        Given::Local(local)
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

    /// Copies all instructions except for the last end.
    fn copy(&mut self, library: u32, inline: &Inline<'_>, given: &[Given]) {
        let (mut depth, mut n) = (0, 0);
        while n + 1 < inline.ops.len() {
            let place =
                |local: u32| if let Given::Local(at) = given[local as usize] { at } else { 0 };
            let instruction = match inline.ops[n] {
                O::LocalGet { local_index } => {
                    match (given[local_index as usize], &inline.ops[n + 1..]) {
                        (Given::Local(local), _) => Instruction::LocalGet(local),
                        // Two constants that are added are folded.
                        (Given::Constant(a), [O::I32Add, O::I32Const { value }, O::I32Add, ..]) => {
                            n += 2;
                            Instruction::I32Const(a.wrapping_add(*value))
                        }
                        (Given::Constant(a), _) => Instruction::I32Const(a),
                    }
                }
                O::LocalSet { local_index } => Instruction::LocalSet(place(local_index)),
                O::LocalTee { local_index } => Instruction::LocalTee(place(local_index)),
                O::Return => Instruction::Br(depth),
                ref op => {
                    match op {
                        O::Block { .. } | O::Loop { .. } | O::If { .. } => depth += 1,
                        O::End => depth -= 1,
                        _ => {}
                    }
                    let mut relink = Relink { support: self.support, library };
                    let Ok(instruction) = relink.instruction(op.clone()) else {
                        n += 1;
                        continue;
                    };
                    instruction
                }
            };
            instruction.encode(&mut self.out);
            n += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emit::support::{Layout, Outlet};

    /// Whether a function with these instructions is pure.
    fn asks_only(body: &str) -> bool {
        let text = format!(
            r#"(module (memory 1) (global $g (mut i32) (i32.const 0)) (func (export "f") (param i32) (result i32) {body}))"#
        );
        let guest = Guest::read(&wat::parse_str(text).expect("it is a module"))
            .expect("it can be a part of another");
        let mut support = Support::new(Layout::default(), Outlet::Kept);
        support.host(0, guest);
        support.only_asks(0, "f")
    }

    #[test]
    fn a_function_only_asks_if_it_changes_nothing_and_every_load_is_inside_of_the_memory() {
        assert!(asks_only("local.get 0 i32.const 1020 i32.and i32.load offset=64512"));
        assert!(asks_only("local.get 0 global.get $g i32.xor"));
        assert!(!asks_only("local.get 0 i32.const 1020 i32.and i32.load offset=64513"));
        assert!(!asks_only("local.get 0 i32.load"));
        assert!(!asks_only("local.get 0 global.set $g local.get 0"));
        assert!(!asks_only("i32.const 0 local.get 0 i32.store local.get 0"));
        assert!(!asks_only("i32.const 1 local.get 0 i32.div_u"));
        assert!(!asks_only("(loop br 0) local.get 0"));
    }
}
