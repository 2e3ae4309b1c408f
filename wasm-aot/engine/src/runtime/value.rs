//! Values as the embedder sees them, and as they are passed to machine code: 16 bytes each.
//!
//! # Safety
//!
//! This module exists to read references that machine code has given back: addresses of what the
//! store keeps.
#![allow(unsafe_code)]

use super::function::Func;
use super::heap::ExternRef;
use super::store::StoreCore;
use crate::error::Error;
use crate::exception::ExnRef;
use crate::types::{HeapType, RefType, ValType};
use crate::vm;

/// A value.
#[derive(Clone, Debug)]
pub enum Val {
    /// A 32-bit integer.
    I32(i32),
    /// A 64-bit integer.
    I64(i64),
    /// The bits of a 32-bit float.
    F32(u32),
    /// The bits of a 64-bit float.
    F64(u64),
    /// A vector.
    V128(u128),
    /// A function, or null.
    FuncRef(Option<Func>),
    /// Something of the host's, or null.
    ExternRef(Option<ExternRef>),
    /// An exception, or null.
    ExnRef(Option<ExnRef>),
    /// The null of garbage-collected objects.
    AnyNull,
}

impl Val {
    /// The initial value of a type, if it has one.
    pub fn default_for(ty: ValType) -> Option<Self> {
        Some(match ty {
            ValType::I32 => Self::I32(0),
            ValType::I64 => Self::I64(0),
            ValType::F32 => Self::F32(0),
            ValType::F64 => Self::F64(0),
            ValType::V128 => Self::V128(0),
            ValType::Ref(RefType { nullable: true, heap }) => match heap.top() {
                HeapType::Extern => Self::ExternRef(None),
                HeapType::Exn => Self::ExnRef(None),
                HeapType::Any => Self::AnyNull,
                _ => Self::FuncRef(None),
            },
            ValType::Ref(_) => return None,
        })
    }

    /// The integer, if it is one of 32 bits.
    pub fn i32(&self) -> Option<i32> {
        if let Self::I32(value) = self { Some(*value) } else { None }
    }

    /// The integer, if it is one of 64 bits.
    pub fn i64(&self) -> Option<i64> {
        if let Self::I64(value) = self { Some(*value) } else { None }
    }

    /// The float, if it is one of 32 bits.
    pub fn f32(&self) -> Option<f32> {
        if let Self::F32(bits) = self { Some(f32::from_bits(*bits)) } else { None }
    }

    /// The float, if it is one of 64 bits.
    pub fn f64(&self) -> Option<f64> {
        if let Self::F64(bits) = self { Some(f64::from_bits(*bits)) } else { None }
    }

    /// The value in the form that machine code takes, if it is of that type and store.
    pub(crate) fn into_raw(self, ty: ValType, store: &mut StoreCore) -> Result<u128, Error> {
        let found = self.describe();
        let mismatch = || Error::Type(format!("expected a value of type {ty}, found {found}"));
        Ok(match (self, ty) {
            (Self::I32(value), ValType::I32) => u128::from(value as u32),
            (Self::I64(value), ValType::I64) => u128::from(value as u64),
            (Self::F32(bits), ValType::F32) => u128::from(bits),
            (Self::F64(bits), ValType::F64) => u128::from(bits),
            (Self::V128(value), ValType::V128) => value,
            (Self::FuncRef(None), ValType::Ref(reference))
                if reference.nullable && reference.heap.top() == HeapType::Func =>
            {
                0
            }
            (Self::ExternRef(None), ValType::Ref(reference))
                if reference.nullable && reference.heap.top() == HeapType::Extern =>
            {
                0
            }
            (Self::ExnRef(None), ValType::Ref(reference))
                if reference.nullable && reference.heap.top() == HeapType::Exn =>
            {
                0
            }
            (Self::AnyNull, ValType::Ref(reference))
                if reference.nullable && reference.heap.top() == HeapType::Any =>
            {
                0
            }
            (Self::FuncRef(Some(function)), ValType::Ref(reference)) => {
                let actual = RefType {
                    nullable: false,
                    heap: HeapType::Concrete(function.type_id(store)?.0),
                };
                if !actual.matches(reference) {
                    return Err(mismatch());
                }
                function.raw(store)? as u128
            }
            (
                Self::ExternRef(Some(value)),
                ValType::Ref(RefType { heap: HeapType::Extern, .. }),
            ) => store.heap.extern_in(&value) as u128,
            (Self::ExnRef(Some(value)), ValType::Ref(RefType { heap: HeapType::Exn, .. })) => {
                value.raw(store)? as u128
            }
            _ => return Err(mismatch()),
        })
    }

    fn describe(&self) -> &'static str {
        match self {
            Self::I32(_) => "i32",
            Self::I64(_) => "i64",
            Self::F32(_) => "f32",
            Self::F64(_) => "f64",
            Self::V128(_) => "v128",
            Self::FuncRef(None) => "a null function",
            Self::FuncRef(Some(_)) => "a function",
            Self::ExternRef(None) => "a null of the host's",
            Self::ExternRef(Some(_)) => "a host object",
            Self::AnyNull => "a null object",
            Self::ExnRef(None) => "a null exception",
            Self::ExnRef(Some(_)) => "an exception",
        }
    }

    /// Converts a value that machine code has returned.
    ///
    /// # Safety
    /// `raw` is a value of type `ty` of this store.
    pub(crate) unsafe fn from_raw(raw: u128, ty: ValType, store: &StoreCore) -> Self {
        let address = raw as usize;
        match ty {
            ValType::I32 => Self::I32(raw as i32),
            ValType::I64 => Self::I64(raw as i64),
            ValType::F32 => Self::F32(raw as u32),
            ValType::F64 => Self::F64(raw as u64),
            ValType::V128 => Self::V128(raw),
            ValType::Ref(reference) => match reference.heap.top() {
                // SAFETY: (1) the caller: the address of a reference of this store, or null.
                HeapType::Extern => Self::ExternRef(unsafe { store.heap.extern_out(address) }),
                // SAFETY: as above.
                HeapType::Exn => Self::ExnRef(unsafe { ExnRef::from_raw(address, store) }),
                HeapType::Any => Self::AnyNull,
                _ => Self::FuncRef(Func::from_raw(address as *const vm::FuncRef, store)),
            },
        }
    }
}

macro_rules! from {
    ($($rust:ty => $variant:ident($value:ident => $expr:expr)),* $(,)?) => {
        $(impl From<$rust> for Val {
            fn from($value: $rust) -> Self {
                Self::$variant($expr)
            }
        })*
    };
}

from! {
    i32 => I32(value => value),
    u32 => I32(value => value as i32),
    i64 => I64(value => value),
    u64 => I64(value => value as i64),
    f32 => F32(value => value.to_bits()),
    f64 => F64(value => value.to_bits()),
    u128 => V128(value => value),
    Func => FuncRef(value => Some(value)),
    ExternRef => ExternRef(value => Some(value)),
}
