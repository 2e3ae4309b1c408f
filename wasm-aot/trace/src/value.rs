//! Values that cross between a program and its host, to the last bit.

use std::fmt;
use wasmparser::{FuncType, RefType, ValType};

/// A value. Floating-point numbers are their bits, so that no NaN is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// 32 bits.
    I32(u32),
    /// 64 bits.
    I64(u64),
    /// The bits of a number of 32 bits.
    F32(u32),
    /// The bits of a number of 64 bits.
    F64(u64),
    /// A vector.
    V128(u128),
    /// A function of the module, by its index, or null.
    Func(Option<u32>),
    /// A host value, by the order in which the trace first names it, or null.
    Extern(Option<u32>),
    /// A host value that is not null. The recorder cannot tell which one: WebAssembly cannot
    /// compare them.
    Object,
}

impl Value {
    /// The initial value of locals of a type.
    pub fn zero(ty: ValType) -> Option<Self> {
        Some(match ty {
            ValType::I32 => Self::I32(0),
            ValType::I64 => Self::I64(0),
            ValType::F32 => Self::F32(0),
            ValType::F64 => Self::F64(0),
            ValType::V128 => Self::V128(0),
            ValType::Ref(RefType::FUNCREF) => Self::Func(None),
            ValType::Ref(RefType::EXTERNREF) => Self::Extern(None),
            ValType::Ref(_) => return None,
        })
    }

    /// Whether a parameter, result or variable of that type can have it.
    pub fn is_of(&self, ty: ValType) -> bool {
        match (self, ty) {
            (Self::I32(_), ValType::I32)
            | (Self::I64(_), ValType::I64)
            | (Self::F32(_), ValType::F32)
            | (Self::F64(_), ValType::F64)
            | (Self::V128(_), ValType::V128) => true,
            (Self::Func(index), ValType::Ref(ty)) => {
                !ty.is_extern_ref() && (ty.is_nullable() || index.is_some())
            }
            (Self::Extern(number), ValType::Ref(ty)) => {
                ty.is_extern_ref() && (ty.is_nullable() || number.is_some())
            }
            (Self::Object, ValType::Ref(ty)) => ty.is_extern_ref(),
            _ => false,
        }
    }
}

/// The type of a host function: of values that a trace can contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature(FuncType);

/// The types in a signature: their names, their bytes in WebAssembly.
const TYPES: [(&str, u8, ValType); 7] = [
    ("i32", 0x7f, ValType::I32),
    ("i64", 0x7e, ValType::I64),
    ("f32", 0x7d, ValType::F32),
    ("f64", 0x7c, ValType::F64),
    ("v128", 0x7b, ValType::V128),
    ("func", 0x70, ValType::FUNCREF),
    ("extern", 0x6f, ValType::EXTERNREF),
];

impl Signature {
    /// A type, unless it contains one of which a trace has no values.
    pub fn new(ty: FuncType) -> Option<Self> {
        let mut all = ty.params().iter().chain(ty.results());
        all.all(|own| Self::row(*own).is_some()).then_some(Self(ty))
    }

    /// It as the type of a function.
    pub fn ty(&self) -> &FuncType {
        &self.0
    }

    fn row(ty: ValType) -> Option<&'static (&'static str, u8, ValType)> {
        TYPES.iter().find(|(.., own)| *own == ty)
    }

    /// The name and the byte of a type in it.
    pub(crate) fn spelled(ty: ValType) -> (&'static str, u8) {
        let (name, byte, _) = Self::row(ty).expect("`new` has looked");
        (name, *byte)
    }

    pub(crate) fn type_named(name: &str) -> Option<ValType> {
        TYPES.iter().find(|(own, ..)| *own == name).map(|(.., ty)| *ty)
    }

    pub(crate) fn type_of_byte(byte: u8) -> Option<ValType> {
        TYPES.iter().find(|(_, own, _)| *own == byte).map(|(.., ty)| *ty)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::I32(value) => write!(f, "i32:{}", value.cast_signed()),
            Self::I64(value) => write!(f, "i64:{}", value.cast_signed()),
            Self::F32(bits) => write!(f, "f32:{bits:#010x}"),
            Self::F64(bits) => write!(f, "f64:{bits:#018x}"),
            Self::V128(bits) => write!(f, "v128:{bits:#034x}"),
            Self::Func(Some(index)) => write!(f, "func:{index}"),
            Self::Func(None) => f.write_str("func:null"),
            Self::Extern(Some(number)) => write!(f, "extern:{number}"),
            Self::Extern(None) => f.write_str("extern:null"),
            Self::Object => f.write_str("extern:some"),
        }
    }
}
