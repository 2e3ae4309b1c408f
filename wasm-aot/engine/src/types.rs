//! Types of values, functions, imports and exports.
//!
//! A concrete function type is named by a number. Inside a
//! [`ModuleInfo`](crate::module::ModuleInfo) it is the module's own index; everywhere else, the
//! public interface included, it is the engine's [`TypeId`](crate::registry::TypeId), by which
//! equal types of different modules are one.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ValType {
    /// 32-bit integer.
    I32,
    /// 64-bit integer.
    I64,
    /// 32-bit float.
    F32,
    /// 64-bit float.
    F64,
    /// 128-bit vector.
    V128,
    /// A reference.
    Ref(RefType),
}

/// The type of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RefType {
    /// Whether it may be null.
    pub nullable: bool,
    /// The type that it refers to.
    pub heap: HeapType,
}

/// The types that a reference can refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HeapType {
    /// Any function.
    Func,
    /// A function of one type.
    Concrete(u32),
    /// No function: only the null reference.
    NoFunc,
    /// Any host value.
    Extern,
    /// No host value: only the null reference.
    NoExtern,
    /// An exception.
    Exn,
    /// No exception: only the null reference.
    NoExn,
    /// Any garbage-collected object. This engine has no objects: null is the only value of this
    /// type and of the following ones.
    Any,
    /// Any object that can be compared.
    Eq,
    /// A small integer.
    I31,
    /// Any structure.
    Struct,
    /// Any array.
    Array,
    /// No object.
    None,
}

impl RefType {
    /// `funcref`.
    pub const FUNCREF: Self = Self { nullable: true, heap: HeapType::Func };
    /// `externref`.
    pub const EXTERNREF: Self = Self { nullable: true, heap: HeapType::Extern };
    /// `exnref`.
    pub const EXNREF: Self = Self { nullable: true, heap: HeapType::Exn };

    /// Whether every value of `self` is one of `other`.
    pub fn matches(self, other: Self) -> bool {
        (other.nullable || !self.nullable) && self.heap.matches(other.heap)
    }
}

impl HeapType {
    /// Whether everything that `self` can refer to can be referred to by `other` as well.
    pub fn matches(self, other: Self) -> bool {
        self == other
            || matches!(
                (self, other),
                (Self::Concrete(_) | Self::NoFunc, Self::Func)
                    | (Self::NoFunc, Self::Concrete(_))
                    | (Self::NoExtern, Self::Extern)
                    | (Self::NoExn, Self::Exn)
                    | (Self::None | Self::Eq | Self::I31 | Self::Struct | Self::Array, Self::Any)
                    | (Self::None | Self::I31 | Self::Struct | Self::Array, Self::Eq)
                    | (Self::None, Self::I31 | Self::Struct | Self::Array)
            )
    }

    /// The top type of its hierarchy.
    pub fn top(self) -> Self {
        match self {
            Self::Func | Self::Concrete(_) | Self::NoFunc => Self::Func,
            Self::Extern | Self::NoExtern => Self::Extern,
            Self::Exn | Self::NoExn => Self::Exn,
            Self::Any | Self::Eq | Self::I31 | Self::Struct | Self::Array | Self::None => Self::Any,
        }
    }
}

impl ValType {
    /// `funcref`.
    pub const FUNCREF: Self = Self::Ref(RefType::FUNCREF);
    /// `externref`.
    pub const EXTERNREF: Self = Self::Ref(RefType::EXTERNREF);

    /// Whether every value of `self` is one of `other`.
    pub fn matches(self, other: Self) -> bool {
        match (self, other) {
            (Self::Ref(this), Self::Ref(other)) => this.matches(other),
            _ => self == other,
        }
    }

    /// The same, with every concrete type renamed.
    #[must_use]
    pub fn renamed(self, rename: &impl Fn(u32) -> u32) -> Self {
        match self {
            Self::Ref(reference) => Self::Ref(reference.renamed(rename)),
            other => other,
        }
    }
}

impl RefType {
    /// The same, with its concrete type renamed.
    #[must_use]
    pub fn renamed(self, rename: &impl Fn(u32) -> u32) -> Self {
        match self.heap {
            HeapType::Concrete(index) => Self { heap: HeapType::Concrete(rename(index)), ..self },
            _ => self,
        }
    }
}

/// The type of a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FuncType {
    params: Box<[ValType]>,
    results: Box<[ValType]>,
}

impl FuncType {
    /// A function from `params` to `results`.
    pub fn new(
        params: impl IntoIterator<Item = ValType>,
        results: impl IntoIterator<Item = ValType>,
    ) -> Self {
        Self { params: params.into_iter().collect(), results: results.into_iter().collect() }
    }

    /// The types of its parameters.
    pub fn params(&self) -> &[ValType] {
        &self.params
    }

    /// The types of its results.
    pub fn results(&self) -> &[ValType] {
        &self.results
    }

    /// The same, with every concrete type renamed.
    #[must_use]
    pub fn renamed(&self, rename: &impl Fn(u32) -> u32) -> Self {
        let all = |types: &[ValType]| types.iter().map(|ty| ty.renamed(rename)).collect();
        Self { params: all(&self.params), results: all(&self.results) }
    }
}

/// The type of a global.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GlobalType {
    /// The type of its value.
    pub content: ValType,
    /// Whether it may change.
    pub mutable: bool,
}

/// The type of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TableType {
    /// The type of its elements.
    pub element: RefType,
    /// How many elements it has at first.
    pub minimum: u64,
    /// How many it may ever have.
    pub maximum: Option<u64>,
    /// Whether its indices have 64 bits.
    pub wide: bool,
}

/// The type of a linear memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemoryType {
    /// How many pages of 64 KiB it has at first.
    pub minimum: u64,
    /// How many it may ever have.
    pub maximum: Option<u64>,
    /// Whether its addresses have 64 bits.
    pub wide: bool,
    /// Whether threads share it.
    pub shared: bool,
}

/// The type of an import or export.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ExternType {
    /// A function.
    Func(FuncType),
    /// A table.
    Table(TableType),
    /// A linear memory.
    Memory(MemoryType),
    /// A global.
    Global(GlobalType),
    /// A tag of exceptions, with the types of their values.
    Tag(FuncType),
}

impl fmt::Display for ValType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::I32 => f.write_str("i32"),
            Self::I64 => f.write_str("i64"),
            Self::F32 => f.write_str("f32"),
            Self::F64 => f.write_str("f64"),
            Self::V128 => f.write_str("v128"),
            Self::Ref(reference) => reference.fmt(f),
        }
    }
}

impl fmt::Display for RefType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.heap {
            HeapType::Func => "func",
            HeapType::Concrete(index) => {
                return write!(f, "(ref {}{index})", if self.nullable { "null " } else { "" });
            }
            HeapType::NoFunc => "nofunc",
            HeapType::Extern => "extern",
            HeapType::NoExtern => "noextern",
            HeapType::Exn => "exn",
            HeapType::NoExn => "noexn",
            HeapType::Any => "any",
            HeapType::Eq => "eq",
            HeapType::I31 => "i31",
            HeapType::Struct => "struct",
            HeapType::Array => "array",
            HeapType::None => "none",
        };
        match (self.nullable, self.heap) {
            (true, HeapType::Func | HeapType::Extern | HeapType::Exn) => write!(f, "{name}ref"),
            (nullable, _) => write!(f, "(ref {}{name})", if nullable { "null " } else { "" }),
        }
    }
}

/// `[i32 i32]`
struct List<'a>(&'a [ValType]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, ty) in self.0.iter().enumerate() {
            write!(f, "{}{ty}", if i == 0 { "" } else { " " })?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for FuncType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", List(&self.params), List(&self.results))
    }
}

/// `1..` or `1..=5`
struct SpelledLimits(u64, Option<u64>);

impl fmt::Display for SpelledLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(maximum) => write!(f, "{}..={maximum}", self.0),
            None => write!(f, "{}..", self.0),
        }
    }
}

impl fmt::Display for ExternType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Func(ty) => write!(f, "func {ty}"),
            Self::Table(ty) => {
                write!(
                    f,
                    "table {}{} {}",
                    if ty.wide { "i64 " } else { "" },
                    SpelledLimits(ty.minimum, ty.maximum),
                    ty.element
                )
            }
            Self::Memory(ty) => {
                let (wide, shared) =
                    (if ty.wide { "i64 " } else { "" }, if ty.shared { " shared" } else { "" });
                write!(f, "memory {wide}{}{shared}", SpelledLimits(ty.minimum, ty.maximum))
            }
            Self::Global(ty) => {
                write!(f, "global {}{}", if ty.mutable { "mut " } else { "" }, ty.content)
            }
            Self::Tag(ty) => write!(f, "tag {ty}"),
        }
    }
}
