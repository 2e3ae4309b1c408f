//! Where variables are, and code that reads and writes them: locals of the function, globals of the
//! module, or words of memory.

use super::code::{Emitter, written};
use super::counters::is_word;
use crate::hir::{Expr, Place, Var};
use crate::syntax::ast::BinOp;
use crate::types::Ty;
use wasm_encoder::{InstructionSink, MemArg, MemArgTarget, ValType};

/// The size of a slot in memory: always a word.
pub(crate) const WORD: u32 = 8;

/// The location of a variable's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Storage {
    /// Locals from this one on.
    Locals(u32),
    /// Globals from this one on.
    Globals(u32),
    /// Words of memory: at the address in a local, if there is one, plus an offset.
    Memory(Option<u32>, u32),
    /// Slots of the activation, which the engine manages, from this one on.
    Frame(u32),
    /// A map with a constant handle.
    Constant(u32),
}

impl Emitter<'_> {
    /// The location of a variable.
    pub(super) fn storage(&self, var: Var) -> Storage {
        let of = |list: &[Storage], n: u32| {
            list.get(n as usize).copied().unwrap_or(Storage::Constant(0))
        };
        match var {
            Var::Local(n) => Storage::Locals(self.own.get(n as usize).copied().unwrap_or(0)),
            Var::Site(n) => of(&self.scope.sites, n),
            Var::Global(n) => of(&self.scope.globals, n),
            Var::Frame(n) => of(&self.scope.frames, n),
        }
    }

    /// Location and type of a place that is not an element of a map.
    fn fixed(&self, place: &Place) -> Option<(Storage, Ty)> {
        match place {
            Place::Var(var, ty) => Some((self.storage(*var), ty.clone())),
            Place::Bound(b, ty) => Some((*self.scope.bounds.get(b)?, ty.clone())),
            Place::Field(inner, n) => {
                let (storage, ty) = self.fixed(inner)?;
                Some(part(storage, &ty, *n))
            }
            Place::Element(..) => None,
        }
    }

    /// Stores the address of an element, which is created if it does not exist, in a local; returns
    /// the location of the place in it.
    fn element(&mut self, place: &Place) -> Option<(Storage, Ty)> {
        match place {
            Place::Element(map, key) => {
                let map = self.fold(map);
                self.search(&map, key);
                let get = self.support.runtime("map_get");
                let at = self.locals.take(ValType::I32);
                self.put().call(get).local_set(at);
                Some((Storage::Memory(Some(at), 0), place.ty()))
            }
            Place::Field(inner, n) => {
                let (storage, ty) = self.element(inner)?;
                Some(part(storage, &ty, *n))
            }
            _ => None,
        }
    }

    /// Assigns the value on the stack to a place.
    pub(super) fn assign(&mut self, place: &Place) {
        let ty = place.ty();
        if let Some((storage, _)) = self.fixed(place) {
            return self.store(storage, &ty);
        }
        if let Place::Element(map, key) = place
            && let Some(pair) = self.support.core_pair(&map.ty)
        {
            return self.core_insert(map, key, pair, None);
        }
        let held: Vec<_> = ty.slots().iter().map(|&s| (self.locals.take(s), s)).collect();
        for &(local, _) in held.iter().rev() {
            self.put().local_set(local);
        }
        if let Some((storage, _)) = self.element(place) {
            for &(local, _) in &held {
                self.put().local_get(local);
            }
            self.store(storage, &ty);
        }
    }

    pub(super) fn update(&mut self, place: &Place, op: BinOp, value: &Expr) {
        if self.add_to_cell(place, op, value) {
            return;
        }
        let ty = place.ty();
        let Some((storage, _)) = self.fixed(place) else {
            self.expr(value);
            if let Place::Element(map, key) = place
                && let Some(pair) = self.support.core_pair(&map.ty)
            {
                return self.core_insert(map, key, pair, Some((op, &ty)));
            }
            let held = self.locals.take(ty.slots()[0]);
            self.put().local_set(held);
            if let Some((storage, _)) = self.element(place) {
                self.address(storage);
                self.load(storage, &ty);
                self.put().local_get(held);
                self.operator(op, &ty);
                self.store_at(storage, &ty);
            }
            return;
        };
        self.address(storage);
        self.load(storage, &ty);
        self.expr(value);
        self.operator(op, &ty);
        self.store_at(storage, &ty);
    }

    fn address(&mut self, storage: Storage) {
        if let Storage::Memory(base, _) = storage {
            match base {
                Some(local) => written(self.put().local_get(local)),
                None => written(self.put().i32_const(0)),
            };
        }
    }

    /// Stores one slot; if it is in memory, the address is below it on the stack.
    fn store_at(&mut self, storage: Storage, ty: &Ty) {
        match storage {
            Storage::Memory(_, offset) => self.store_word(offset, ty.slots()[0]),
            other => self.store(other, ty),
        }
    }

    pub(super) fn memory(&self) -> u32 {
        self.support.layout().memory
    }

    fn store_word(&mut self, offset: u32, slot: ValType) {
        let arg = word(offset, self.memory());
        keep(&mut self.put(), slot, arg);
    }

    /// Pushes the slots of a variable.
    pub(crate) fn load(&mut self, storage: Storage, ty: &Ty) {
        for (i, slot) in (0..).zip(ty.slots()) {
            match storage {
                Storage::Locals(first) => written(self.put().local_get(first + i)),
                Storage::Globals(first) => {
                    let reach = self.support.reach();
                    reach.get(&mut self.put(), first + i, slot);
                }
                Storage::Constant(value) => written(self.put().i32_const(value.cast_signed())),
                Storage::Frame(first) => self.frame("get", first + i, slot),
                Storage::Memory(_, offset) => {
                    self.address(storage);
                    let arg = word(offset + i * WORD, self.memory());
                    fetch(&mut self.put(), slot, arg);
                }
            };
        }
    }

    /// Pops the slots of a variable.
    pub(crate) fn store(&mut self, storage: Storage, ty: &Ty) {
        for (i, slot) in (0u32..).zip(ty.slots()).collect::<Vec<_>>().into_iter().rev() {
            match storage {
                Storage::Locals(first) => {
                    self.put().local_set(first + i);
                }
                Storage::Globals(first) if is_word(first) => {
                    let (held, reach) = (self.locals.take(slot), self.support.reach());
                    self.put().local_set(held);
                    reach.ready(&mut self.put(), first + i);
                    self.put().local_get(held);
                    reach.set(&mut self.put(), first + i, slot);
                }
                Storage::Globals(first) => {
                    self.put().global_set(first + i);
                }
                Storage::Memory(_, offset) => {
                    let held = self.locals.take(slot);
                    self.put().local_set(held);
                    self.address(storage);
                    self.put().local_get(held);
                    self.store_word(offset + i * WORD, slot);
                }
                Storage::Frame(first) => {
                    let held = self.locals.take(slot);
                    self.put().local_set(held).i32_const((first + i).cast_signed()).local_get(held);
                    self.frame("set", first + i, slot);
                }
                Storage::Constant(_) => {
                    self.put().drop();
                }
            }
        }
    }

    /// Reads or writes a slot of the activation through the engine. A float with flipped bits is
    /// stored as an integer.
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are what an i32 keeps")]
    fn frame(&mut self, what: &str, number: u32, slot: ValType) {
        let flipped = self.scope.flipped.get(&number).copied();
        let held = match (slot, flipped) {
            (ValType::F32, Some(_)) => "i32",
            (ValType::F64, Some(_)) | (ValType::I64, _) => "i64",
            (ValType::F32, None) => "f32",
            (ValType::F64, None) => "f64",
            _ => "i32",
        };
        let callee =
            self.support.imported("wasm-aot:ext", &format!("frame_{what}_{held}")).unwrap_or(0);
        let mut put = self.put();
        if what == "get" {
            put.i32_const(number.cast_signed()).call(callee);
        }
        match (slot, what, flipped) {
            (ValType::F32, "set", Some(_)) => written(put.i32_reinterpret_f32()),
            (ValType::F64, "set", Some(_)) => written(put.i64_reinterpret_f64()),
            _ => {}
        }
        match flipped {
            Some(bits) if held == "i64" => written(put.i64_const(bits).i64_xor()),
            Some(bits) => written(put.i32_const(bits as i32).i32_xor()),
            None => {}
        }
        match (slot, what, flipped) {
            (ValType::F32, "get", Some(_)) => written(put.f32_reinterpret_i32()),
            (ValType::F64, "get", Some(_)) => written(put.f64_reinterpret_i64()),
            (_, "set", _) => written(put.call(callee)),
            _ => {}
        }
    }

    /// Pushes zeros.
    pub(crate) fn zero(&mut self, ty: &Ty) {
        if let Some(pair) = self.support.core_pair(ty) {
            return self.core_call(&pair.create());
        }
        if let Ty::Map(_) = ty {
            let model = self.support.map(ty);
            let like = self.support.runtime("map_like");
            self.put().i32_const(model.cast_signed()).call(like);
            return;
        }
        for slot in ty.slots() {
            match slot {
                ValType::I64 => written(self.put().i64_const(0)),
                ValType::F32 => written(self.put().f32_const(0.0.into())),
                ValType::F64 => written(self.put().f64_const(0.0.into())),
                ValType::Ref(_) => written(self.put().ref_null(wasm_encoder::HeapType::FUNC)),
                _ => written(self.put().i32_const(0)),
            };
        }
    }
}

/// The location and type of a part of a tuple.
pub(crate) fn part(storage: Storage, ty: &Ty, n: u32) -> (Storage, Ty) {
    let Ty::Tuple(parts) = ty else { return (storage, ty.clone()) };
    let before: usize = parts.iter().take(n as usize).map(|p| p.slots().len()).sum();
    let before = u32::try_from(before).unwrap_or(0);
    let ty = parts.get(n as usize).cloned().unwrap_or_else(Ty::unit);
    let storage = match storage {
        Storage::Locals(first) => Storage::Locals(first + before),
        Storage::Globals(first) => Storage::Globals(first + before),
        Storage::Memory(base, offset) => Storage::Memory(base, offset + before * WORD),
        Storage::Frame(first) => Storage::Frame(first + before),
        constant @ Storage::Constant(_) => constant,
    };
    (storage, ty)
}

/// Pushes a slot from memory, whose address is on the stack.
pub(crate) fn fetch(put: &mut InstructionSink<'_>, slot: ValType, at: MemArg) {
    match slot {
        ValType::I64 => put.i64_load(at),
        ValType::F32 => put.f32_load(at),
        ValType::F64 => put.f64_load(at),
        _ => put.i32_load(at),
    };
}

/// Pops a slot, and its address from below it.
pub(crate) fn keep(put: &mut InstructionSink<'_>, slot: ValType, at: MemArg) {
    match slot {
        ValType::I64 => put.i64_store(at),
        ValType::F32 => put.f32_store(at),
        ValType::F64 => put.f64_store(at),
        _ => put.i32_store(at),
    };
}

/// A word of the support's memory.
pub(crate) fn word(offset: u32, memory: u32) -> MemArg {
    MemArg { offset: offset.into(), align: 2, target: MemArgTarget::Memory(memory), ordering: None }
}
