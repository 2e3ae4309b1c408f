//! The types of a program's functions, by which references to them are told from those to functions
//! of the host.
//!
//! WebAssembly cannot compare references to functions, but it can test their types. So if the host
//! may give the program references to functions, the program's own functions get *private* types
//! instead (`gateway/private.rs`). This is only possible for a *plain* program, which does not name
//! types of functions but in calls: `(ref $type)` would be another type then.

use std::collections::BTreeSet;
use wasmparser::{
    BlockType, CompositeInnerType, FuncType, HeapType, Operator, RecGroup, StorageType, ValType,
};

/// The types of a program, and whether they are plain.
#[derive(Debug, Default)]
pub(crate) struct Types {
    /// The types of functions, by index.
    all: Vec<Option<FuncType>>,
    /// Whether a type of functions is in a group of several, open, or has a supertype, or has a
    /// parameter or result whose type has an index: such types are not compared here.
    has_special: bool,
    /// The types that are named where values have types.
    named: BTreeSet<u32>,
}

impl Types {
    /// Reads a group of types.
    pub(crate) fn group(&mut self, group: RecGroup) {
        let count = group.types().len();
        for ty in group.into_types() {
            let is_single = count == 1 && ty.is_final && ty.supertype_idxs.is_empty();
            match ty.composite_type.inner {
                CompositeInnerType::Func(function) => {
                    let all = function.params().iter().chain(function.results());
                    self.has_special |= !is_single || all.copied().any(|ty| index(ty).is_some());
                    self.all.push(Some(function));
                    continue;
                }
                CompositeInnerType::Array(array) => self.stores(array.0.element_type),
                CompositeInnerType::Struct(object) => {
                    object.fields.iter().for_each(|field| self.stores(field.element_type));
                }
                CompositeInnerType::Cont(_) => self.has_special = true,
            }
            self.all.push(None);
        }
    }

    fn stores(&mut self, ty: StorageType) {
        if let StorageType::Val(ty) = ty {
            self.name(ty);
        }
    }

    /// A local, a global, a table or a segment has this type.
    pub(crate) fn name(&mut self, ty: ValType) {
        self.named.extend(index(ty));
    }

    /// Reads an instruction.
    pub(crate) fn operator(&mut self, operator: &Operator<'_>) {
        let mut heap = |ty: HeapType| self.named.extend(index_of(ty));
        match operator {
            Operator::CallRef { type_index } | Operator::ReturnCallRef { type_index } => {
                self.named.insert(*type_index);
            }
            Operator::RefNull { hty }
            | Operator::RefTestNonNull { hty }
            | Operator::RefTestNullable { hty }
            | Operator::RefCastNonNull { hty }
            | Operator::RefCastNullable { hty } => heap(*hty),
            Operator::BrOnCast { from_ref_type, to_ref_type, .. }
            | Operator::BrOnCastFail { from_ref_type, to_ref_type, .. } => {
                heap(from_ref_type.heap_type());
                heap(to_ref_type.heap_type());
            }
            Operator::TypedSelect { ty } => self.name(*ty),
            Operator::TypedSelectMulti { tys } => tys.iter().for_each(|ty| self.name(*ty)),
            Operator::Block { blockty }
            | Operator::Loop { blockty }
            | Operator::If { blockty }
            | Operator::Try { blockty } => self.block(*blockty),
            Operator::TryTable { try_table } => self.block(try_table.ty),
            _ => {}
        }
    }

    fn block(&mut self, ty: BlockType) {
        if let BlockType::Type(ty) = ty {
            self.name(ty);
        }
    }

    /// Whether the program's functions can have private types.
    pub(crate) fn are_plain(&self) -> bool {
        let is_function = |ty: &u32| self.all.get(*ty as usize).is_none_or(Option::is_some);
        !self.has_special && !self.named.iter().any(is_function)
    }

    /// The first of all types that are equal to this one, if the program is plain.
    pub(crate) fn first_equal(&self, ty: u32) -> u32 {
        let found = &self.all[ty as usize];
        self.all.iter().position(|own| own == found).map_or(ty, |first| first as u32)
    }

    /// The type of functions with an index.
    pub(crate) fn get(&self, ty: u32) -> &FuncType {
        self.all[ty as usize].as_ref().expect("a valid module")
    }

    /// A type that is none of the program's: its functions cannot be called by the program.
    pub(crate) fn other(&self) -> FuncType {
        let candidates = (0..).map(|count| FuncType::new(vec![ValType::I32; count], []));
        let is_free = |ty: &FuncType| !self.all.contains(&Some(ty.clone()));
        candidates.into_iter().find(is_free).expect("the program has fewer types")
    }
}

/// The index that a type has, if it is a reference to objects of such a type.
fn index(ty: ValType) -> Option<u32> {
    match ty {
        ValType::Ref(ty) => index_of(ty.heap_type()),
        _ => None,
    }
}

fn index_of(ty: HeapType) -> Option<u32> {
    match ty {
        HeapType::Concrete(index) | HeapType::Exact(index) => index.as_module_index(),
        HeapType::Abstract { .. } => None,
    }
}

/// The bytes of a *function* event, if a trace can describe functions of this type.
pub(crate) fn described(ty: &FuncType) -> Option<Vec<u8>> {
    let mut bytes = vec![0x05];
    for types in [ty.params(), ty.results()] {
        wasm_encoder::Encode::encode(&u32::try_from(types.len()).ok()?, &mut bytes);
        for ty in types {
            bytes.push(match ty {
                ValType::I32 => 0x7f,
                ValType::I64 => 0x7e,
                ValType::F32 => 0x7d,
                ValType::F64 => 0x7c,
                ValType::V128 => 0x7b,
                ValType::Ref(wasmparser::RefType::FUNCREF) => 0x70,
                ValType::Ref(wasmparser::RefType::EXTERNREF) => 0x6f,
                ValType::Ref(_) => return None,
            });
        }
    }
    Some(bytes)
}
