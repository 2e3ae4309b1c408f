//! The types of a program's functions, by which references to them are told from those to functions
//! of the host.
//!
//! WebAssembly cannot compare references to functions, but it can test their types. So if the host
//! may give the program references to functions, the program's own functions get *private* types
//! instead (`gateway/private.rs`), and references have no types (`erasure.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use wasmparser::{
    BlockType, CompositeInnerType, FieldType, FuncType, HeapType, Operator, RecGroup, StorageType,
    SubType, ValType,
};

/// The types of a program.
#[derive(Debug, Default)]
pub(crate) struct Types {
    all: Vec<Declaration>,
    /// By the contents of groups: the index of the first such group.
    groups: BTreeMap<String, u32>,
    /// The types that are named where values have types, and by instructions.
    named: BTreeSet<u32>,
    /// Whether functions have types in a group with objects, or are fields of objects, or shared,
    /// or continuations, or references have exact types: then references cannot lose their types.
    is_entangled: bool,
}

/// A type.
#[derive(Debug)]
struct Declaration {
    /// Parameters and results, if it is one of functions.
    function: Option<FuncType>,
    /// The first type that is equal.
    first: u32,
    supertype: Option<u32>,
    /// Whether it may have subtypes.
    is_open: bool,
    /// Whether it is neither open nor in a group of several, and has no supertype.
    is_single: bool,
}

impl Types {
    /// Reads a group of types.
    pub(crate) fn group(&mut self, group: RecGroup) {
        let begin = self.all.len() as u32;
        let types: Vec<SubType> = group.into_types().collect();
        let end = begin + types.len() as u32;
        let mut key = String::new();
        types.iter().for_each(|ty| self.spell(ty, begin..end, &mut key));
        let first = *self.groups.entry(key).or_insert(begin);
        let is_function = |ty: &SubType| {
            let inner = &ty.composite_type.inner;
            matches!(inner, CompositeInnerType::Func(_)) && !ty.composite_type.shared
        };
        let functions = types.iter().filter(|ty| is_function(ty)).count();
        self.is_entangled |= functions != 0 && functions != types.len();
        for (ty, first) in types.into_iter().zip(first..) {
            let supertype = ty.supertype_idxs.first().and_then(|ty| ty.unpack().as_module_index());
            let is_open = !ty.is_final;
            let is_single = end - begin == 1 && ty.is_final && supertype.is_none();
            let function = match ty.composite_type.inner {
                CompositeInnerType::Func(function) => {
                    self.is_entangled |= ty.composite_type.shared;
                    Some(function)
                }
                CompositeInnerType::Array(array) => {
                    self.stores(array.0);
                    None
                }
                CompositeInnerType::Struct(object) => {
                    object.fields.iter().for_each(|field| self.stores(*field));
                    None
                }
                CompositeInnerType::Cont(_) => {
                    self.is_entangled = true;
                    None
                }
            };
            self.all.push(Declaration { function, first, supertype, is_open, is_single });
        }
    }

    fn stores(&mut self, field: FieldType) {
        if let StorageType::Val(ty) = field.element_type
            && let Some(ty) = index(ty)
        {
            self.named.insert(ty);
            // A type of functions that comes later is in the same group.
            self.is_entangled |= self.is_function(ty);
        }
    }

    /// Spells a type so that equal types of equal groups are spelled alike.
    fn spell(&self, ty: &SubType, group: std::ops::Range<u32>, key: &mut String) {
        let one = |index: u32| match group.contains(&index) {
            true => format!("own {}", index - group.start),
            false => self.first_equal(index).to_string(),
        };
        let value = |ty: ValType| match (ty, index(ty)) {
            (ValType::Ref(ty), Some(index)) => {
                let is_exact = matches!(ty.heap_type(), HeapType::Exact(_));
                format!("{} {is_exact} {}", ty.is_nullable(), one(index))
            }
            _ => format!("{ty:?}"),
        };
        let supertypes = ty.supertype_idxs.iter().filter_map(|ty| ty.unpack().as_module_index());
        let supertypes: Vec<String> = supertypes.map(one).collect();
        let _ = write!(key, "{} {supertypes:?} {} ", ty.is_final, ty.composite_type.shared);
        let field = |field: &FieldType| match field.element_type {
            StorageType::Val(ty) => format!("{} {}", field.mutable, value(ty)),
            packed => format!("{} {packed:?}", field.mutable),
        };
        let parts: [Vec<String>; 2] = match &ty.composite_type.inner {
            CompositeInnerType::Func(own) => {
                [own.params(), own.results()].map(|all| all.iter().map(|ty| value(*ty)).collect())
            }
            CompositeInnerType::Array(own) => [vec!["array".into()], vec![field(&own.0)]],
            CompositeInnerType::Struct(own) => {
                [vec!["struct".into()], own.fields.iter().map(field).collect()]
            }
            CompositeInnerType::Cont(own) => {
                [vec!["cont".into()], own.0.as_module_index().map(one).into_iter().collect()]
            }
        };
        let _ = write!(key, "{parts:?};");
    }

    /// A local, a global, a table or a segment has this type.
    pub(crate) fn name(&mut self, ty: ValType) {
        if let ValType::Ref(ty) = ty {
            self.name_heap(ty.heap_type());
        }
    }

    fn name_heap(&mut self, ty: HeapType) {
        self.named.extend(index_of(ty));
        self.is_entangled |= matches!(ty, HeapType::Exact(_));
    }

    /// Reads an instruction.
    pub(crate) fn operator(&mut self, operator: &Operator<'_>) {
        let mut heap = |ty: HeapType| self.name_heap(ty);
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

    /// Whether references to functions cannot lose their types.
    pub(crate) fn are_entangled(&self) -> bool {
        self.is_entangled
    }

    /// Whether a type is one of functions.
    pub(crate) fn is_function(&self, ty: u32) -> bool {
        self.all.get(ty as usize).is_some_and(|own| own.function.is_some())
    }

    /// All types of functions.
    pub(crate) fn functions(&self) -> impl Iterator<Item = u32> {
        (0..self.all.len() as u32).filter(|ty| self.is_function(*ty))
    }

    /// The first of all types that are equal to this one.
    pub(crate) fn first_equal(&self, ty: u32) -> u32 {
        self.all.get(ty as usize).map_or(ty, |own| own.first)
    }

    /// The type of functions with an index.
    pub(crate) fn get(&self, ty: u32) -> &FuncType {
        self.all[ty as usize].function.as_ref().expect("a valid module")
    }

    /// Whether a type is another one, or a subtype of it.
    pub(crate) fn is_subtype(&self, ty: u32, of: u32) -> bool {
        let of = self.first_equal(of);
        self.supertypes(ty).any(|own| self.first_equal(own) == of)
    }

    /// A type, its supertype, and so on.
    fn supertypes(&self, ty: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(ty), |ty| self.all[*ty as usize].supertype)
    }

    /// The type that a private type of a function of this type can have as its supertype: it is
    /// open, and its results keep their types.
    pub(crate) fn private_supertype(&self, ty: u32) -> Option<u32> {
        let is_typed = |ty: &ValType| self.of_functions(*ty).is_some();
        self.supertypes(ty).find(|ty| {
            self.all[*ty as usize].is_open && !self.get(*ty).results().iter().any(is_typed)
        })
    }

    /// The type of the functions to which references of a type are, if it has an index.
    pub(crate) fn of_functions(&self, ty: ValType) -> Option<u32> {
        index(ty).filter(|ty| self.is_function(*ty))
    }

    /// The types, by the first index of each, that the program distinguishes by more than calls
    /// through tables.
    pub(crate) fn distinguished(&self) -> BTreeSet<u32> {
        let functions = self.functions().map(|ty| self.get(ty));
        let in_functions = functions.flat_map(|ty| ty.params().iter().chain(ty.results()));
        let in_functions = in_functions.filter_map(|ty| self.of_functions(*ty));
        let named = self.named.iter().copied().filter(|ty| self.is_function(*ty));
        named.chain(in_functions).map(|ty| self.first_equal(ty)).collect()
    }

    /// The bytes of a *function* event, if a trace can describe functions of this type.
    pub(crate) fn event(&self, ty: u32) -> Option<Vec<u8>> {
        self.all[ty as usize].is_single.then(|| described(self.get(ty)))?
    }

    /// A type that is none of the program's: its functions cannot be called by the program.
    pub(crate) fn other(&self) -> FuncType {
        let candidates = (0..).map(|count| FuncType::new(vec![ValType::I32; count], []));
        let is_free = |ty: &FuncType| !self.all.iter().any(|own| own.function.as_ref() == Some(ty));
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

/// The same for that to which references are.
pub(crate) fn index_of(ty: HeapType) -> Option<u32> {
    match ty {
        HeapType::Concrete(index) | HeapType::Exact(index) => index.as_module_index(),
        HeapType::Abstract { .. } => None,
    }
}

/// The bytes of a *function* event, if a trace can describe functions with these parameters and
/// results.
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
