//! The value types of scripts, and how their values are passed to Wasm functions.
//!
//! A value is a sequence of slots: one for a number, a map (its handle) or a reference, two for a
//! string (address and length), and the parts of a tuple one after the other. Everything that
//! stores, passes or compares values works on slots.

use std::fmt;
use std::rc::Rc;
use wasm_encoder::ValType;

/// A type of the language.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ty {
    /// Unsigned, 8 bits.
    U8,
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 16 bits.
    I16,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits.
    I64,
    /// Floating point, 32 bits.
    F32,
    /// Floating point, 64 bits.
    F64,
    /// Boolean.
    Bool,
    /// Text.
    Str,
    /// A reference to a function.
    FuncRef,
    /// Several values.
    Tuple(Rc<[Ty]>),
    /// Values by keys.
    Map(Rc<(Ty, Ty)>),
    /// Not known before a site is matched: a bound is needed to use it.
    Any,
    /// A parameter of a generic probe.
    Param(Rc<str>),
    /// The name of a library.
    Lib,
}

impl Ty {
    /// The scalar type with this name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "u8" => Self::U8,
            "i8" => Self::I8,
            "u16" => Self::U16,
            "i16" => Self::I16,
            "u32" => Self::U32,
            "i32" => Self::I32,
            "u64" => Self::U64,
            "i64" => Self::I64,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "bool" => Self::Bool,
            "str" => Self::Str,
            "funcref" => Self::FuncRef,
            "any" => Self::Any,
            _ => return None,
        })
    }

    /// Parses a type, such as `map<(u32,str),u64>`.
    pub fn parse(text: &str) -> Option<Self> {
        let (ty, rest) = Self::begins(text)?;
        rest.is_empty().then_some(ty)
    }

    /// Reads the type at the beginning of a text; also returns the rest.
    fn begins(text: &str) -> Option<(Self, &str)> {
        if let Some(inner) = text.strip_prefix("map<") {
            let (key, rest) = Self::begins(inner)?;
            let (value, rest) = Self::begins(rest.strip_prefix(',')?)?;
            return Some((Self::Map(Rc::new((key, value))), rest.strip_prefix('>')?));
        }
        if let Some(mut rest) = text.strip_prefix('(') {
            let mut parts = Vec::new();
            while !rest.starts_with(')') {
                if !parts.is_empty() {
                    rest = rest.strip_prefix(',')?;
                }
                let (part, behind) = Self::begins(rest)?;
                parts.push(part);
                rest = behind;
            }
            return Some((Self::Tuple(parts.into()), &rest[1..]));
        }
        let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
        Some((Self::named(&text[..end])?, &text[end..]))
    }

    /// Its name with the article: `an i32`, `a u32`.
    pub fn with_article(&self) -> String {
        let name = self.to_string();
        let article = if name.starts_with(['i', 'a']) || matches!(self, Self::F32 | Self::F64) {
            "an"
        } else {
            "a"
        };
        format!("{article} {name}")
    }

    /// A tuple without parts: the result of a function without one.
    pub fn unit() -> Self {
        Self::Tuple(Rc::from([]))
    }

    /// Whether this is a tuple without parts.
    pub fn is_unit(&self) -> bool {
        matches!(self, Self::Tuple(parts) if parts.is_empty())
    }

    /// Whether arithmetic on whole numbers applies.
    pub fn is_int(&self) -> bool {
        self.bits().is_some()
    }

    /// Whether arithmetic on fractions applies.
    pub fn is_float(&self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    /// Whether arithmetic applies.
    pub fn is_numeric(&self) -> bool {
        self.is_int() || self.is_float()
    }

    /// Width and signedness of a whole number.
    pub fn bits(&self) -> Option<(u32, bool)> {
        Some(match self {
            Self::U8 => (8, false),
            Self::I8 => (8, true),
            Self::U16 => (16, false),
            Self::I16 => (16, true),
            Self::U32 => (32, false),
            Self::I32 => (32, true),
            Self::U64 => (64, false),
            Self::I64 => (64, true),
            _ => return None,
        })
    }

    /// Whether a whole number is signed.
    pub fn signed(&self) -> bool {
        self.bits().is_some_and(|b| b.1)
    }

    /// Whether a whole number is held as an i64.
    pub fn wide(&self) -> bool {
        self.bits().is_some_and(|b| b.0 == 64)
    }

    /// The least and the greatest value of a whole number.
    pub fn range(&self) -> Option<(i128, i128)> {
        let (bits, signed) = self.bits()?;
        Some(if signed {
            (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        } else {
            (0, (1 << bits) - 1)
        })
    }

    /// A number wrapped to the range of this type.
    pub fn wrap(&self, n: i128) -> i128 {
        let Some((bits, signed)) = self.bits() else { return n };
        let low = n & ((1i128 << bits) - 1);
        if signed && low >> (bits - 1) & 1 == 1 { low - (1i128 << bits) } else { low }
    }

    /// The Wasm types that hold a value, in order.
    pub fn slots(&self) -> Vec<ValType> {
        match self {
            Self::U64 | Self::I64 => vec![ValType::I64],
            Self::F32 => vec![ValType::F32],
            Self::F64 => vec![ValType::F64],
            Self::Str => vec![ValType::I32, ValType::I32],
            Self::FuncRef => vec![ValType::FUNCREF],
            Self::Tuple(parts) => parts.iter().flat_map(Self::slots).collect(),
            _ => vec![ValType::I32],
        }
    }

    /// The name in reports of the Wasm type for this type.
    pub fn wasm_name(&self) -> String {
        let one = |v: &ValType| match *v {
            ValType::I64 => "i64",
            ValType::F32 => "f32",
            ValType::F64 => "f64",
            ValType::I32 => "i32",
            _ => "funcref",
        };
        let slots = self.slots();
        if slots.len() == 1 {
            one(&slots[0]).into()
        } else {
            format!("({})", slots.iter().map(one).collect::<Vec<_>>().join("; "))
        }
    }

    /// The rank that orders rows of a report.
    pub fn rank(&self) -> u32 {
        match self {
            Self::U8 => 0,
            Self::I8 => 1,
            Self::U16 => 2,
            Self::I16 => 3,
            Self::U32 => 4,
            Self::I32 => 5,
            Self::F32 => 6,
            Self::U64 => 7,
            Self::I64 => 8,
            Self::F64 => 9,
            Self::Bool => 10,
            Self::Str => 11,
            Self::Tuple(_) => 12,
            Self::Map(_) => 13,
            _ => 14,
        }
    }

    /// Whether this may be the key of a map: a number, a Boolean, a text, or a tuple of such.
    pub fn is_key(&self) -> bool {
        match self {
            Self::Tuple(parts) => !parts.is_empty() && parts.iter().all(Self::is_key),
            Self::Str | Self::Bool => true,
            other => other.is_numeric(),
        }
    }

    /// Whether this can be stored in memory: all types except for references and unknown ones.
    pub fn is_storable(&self) -> bool {
        match self {
            Self::Tuple(parts) => {
                !parts.is_empty()
                    && parts.iter().all(|p| p.is_storable() && !matches!(p, Self::Map(_)))
            }
            Self::Map(kv) => kv.0.is_key() && kv.1.is_storable(),
            Self::FuncRef | Self::Any | Self::Param(_) | Self::Lib => false,
            _ => true,
        }
    }

    /// Whether a type parameter occurs anywhere in it.
    pub fn is_open(&self) -> bool {
        match self {
            Self::Any | Self::Param(_) => true,
            Self::Tuple(parts) => parts.iter().any(Self::is_open),
            Self::Map(kv) => kv.0.is_open() || kv.1.is_open(),
            _ => false,
        }
    }

    /// Whether an operand of this Wasm type can be bound with this type.
    pub fn accepts(&self, wasm: wasmparser::ValType) -> bool {
        use wasmparser::ValType as W;
        match self {
            Self::FuncRef => {
                matches!(wasm, W::Ref(r) if r.is_func_ref() || matches!(r.heap_type(), wasmparser::HeapType::Concrete(_)))
            }
            Self::Str | Self::Tuple(_) | Self::Map(_) | Self::Lib => false,
            Self::Any | Self::Param(_) => true,
            number => matches!(
                (number.slots()[0], wasm),
                (ValType::I32, W::I32)
                    | (ValType::I64, W::I64)
                    | (ValType::F32, W::F32)
                    | (ValType::F64, W::F64)
            ),
        }
    }

    /// The type of the language for a Wasm type, if none is specified.
    pub fn natural(wasm: wasmparser::ValType) -> Option<Self> {
        Some(match wasm {
            wasmparser::ValType::I32 => Self::I32,
            wasmparser::ValType::I64 => Self::I64,
            wasmparser::ValType::F32 => Self::F32,
            wasmparser::ValType::F64 => Self::F64,
            _ => return None,
        })
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Bool => "bool",
            Self::Str => "str",
            Self::FuncRef => "funcref",
            Self::Any => "any",
            Self::Lib => "lib",
            Self::Param(name) => name,
            Self::Map(kv) => return write!(f, "map<{},{}>", kv.0, kv.1),
            Self::Tuple(parts) => {
                let parts: Vec<_> = parts.iter().map(Self::to_string).collect();
                return write!(f, "({})", parts.join(","));
            }
        })
    }
}
