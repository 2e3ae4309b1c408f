//! Functions with Rust types.
//!
//! # Safety
//!
//! This module exists to pass values by their types alone; types are compared when a [`TypedFunc`]
//! or a host function is made.
#![allow(unsafe_code)]

use super::function::{Caller, Func};
use super::instance::{Instance, InstanceData};
use super::store::{AsContextMut, StoreContextMut, StoreCore};
use super::value::Val;
use crate::error::Error;
use crate::types::{FuncType, ValType};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

/// A Rust type that is a Wasm type.
pub trait WasmTy: Sized + 'static {
    /// Which.
    const TYPE: ValType;
    /// The value in the form that machine code takes.
    #[doc(hidden)]
    fn into_raw(self, store: &mut StoreAccess<'_>) -> Result<u128, Error>;
    /// Converts a value that machine code has returned.
    #[doc(hidden)]
    fn from_raw(raw: u128, store: &StoreAccess<'_>) -> Self;
}

/// The part of a store that conversions may use.
#[doc(hidden)]
#[derive(Debug)]
pub struct StoreAccess<'a>(pub(crate) &'a mut StoreCore);

macro_rules! plain {
    ($($rust:ty = $ty:ident, $value:ident => $into:expr, $raw:ident => $from:expr;)*) => {
        $(impl WasmTy for $rust {
            const TYPE: ValType = ValType::$ty;
            fn into_raw(self, _: &mut StoreAccess<'_>) -> Result<u128, Error> {
                let $value = self;
                Ok($into)
            }
            fn from_raw($raw: u128, _: &StoreAccess<'_>) -> Self {
                $from
            }
        })*
    };
}

plain! {
    i32 = I32, value => u128::from(value as u32), raw => raw as i32;
    u32 = I32, value => u128::from(value), raw => raw as u32;
    i64 = I64, value => u128::from(value as u64), raw => raw as i64;
    u64 = I64, value => u128::from(value), raw => raw as u64;
    f32 = F32, value => u128::from(value.to_bits()), raw => f32::from_bits(raw as u32);
    f64 = F64, value => u128::from(value.to_bits()), raw => f64::from_bits(raw as u64);
    u128 = V128, value => value, raw => raw;
}

macro_rules! reference {
    ($($rust:ty = $ty:expr, $variant:ident;)*) => {
        $(impl WasmTy for Option<$rust> {
            const TYPE: ValType = $ty;
            fn into_raw(self, store: &mut StoreAccess<'_>) -> Result<u128, Error> {
                Val::$variant(self).into_raw(Self::TYPE, store.0)
            }
            fn from_raw(raw: u128, store: &StoreAccess<'_>) -> Self {
                // SAFETY: (1) machine code gives values of the function's type.
                match unsafe { Val::from_raw(raw, Self::TYPE, store.0) } {
                    Val::$variant(value) => value,
                    _ => unreachable!("of that type"),
                }
            }
        })*
    };
}

reference! {
    Func = ValType::FUNCREF, FuncRef;
    super::heap::ExternRef = ValType::EXTERNREF, ExternRef;
}

/// Arguments of a function.
pub trait Params {
    /// Their types.
    fn types() -> Vec<ValType>;
    #[doc(hidden)]
    fn store(self, values: &mut [u128], store: &mut StoreAccess<'_>) -> Result<(), Error>;
    #[doc(hidden)]
    fn load(values: &[u128], store: &StoreAccess<'_>) -> Self;
    #[doc(hidden)]
    const COUNT: usize;
}

/// Results of a function.
pub trait Results: Params {}

macro_rules! tuples {
    ($(($($ty:ident $index:tt),*))*) => {
        $(
            #[allow(unused_variables, clippy::unused_unit)]
            impl<$($ty: WasmTy),*> Params for ($($ty,)*) {
                const COUNT: usize = 0 $(+ { let _ = $index; 1 })*;
                fn types() -> Vec<ValType> {
                    vec![$($ty::TYPE),*]
                }
                fn store(self, values: &mut [u128], store: &mut StoreAccess<'_>) -> Result<(), Error> {
                    $(values[$index] = self.$index.into_raw(store)?;)*
                    Ok(())
                }
                fn load(values: &[u128], store: &StoreAccess<'_>) -> Self {
                    ($($ty::from_raw(values[$index], store),)*)
                }
            }
            impl<$($ty: WasmTy),*> Results for ($($ty,)*) {}
        )*
    };
}

tuples! {
    ()
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9)
}

impl<A: WasmTy> Params for A {
    const COUNT: usize = 1;
    fn types() -> Vec<ValType> {
        vec![A::TYPE]
    }
    fn store(self, values: &mut [u128], store: &mut StoreAccess<'_>) -> Result<(), Error> {
        values[0] = self.into_raw(store)?;
        Ok(())
    }
    fn load(values: &[u128], store: &StoreAccess<'_>) -> Self {
        A::from_raw(values[0], store)
    }
}

impl<A: WasmTy> Results for A {}

/// A function whose type is known.
#[derive(Debug)]
pub struct TypedFunc<P, R> {
    function: Func,
    _type: PhantomData<fn(P) -> R>,
}

impl<P, R> Clone for TypedFunc<P, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P, R> Copy for TypedFunc<P, R> {}

/// The most arguments or results that are supported.
const MOST: usize = 10;

impl<P: Params, R: Results> TypedFunc<P, R> {
    pub(crate) fn new(function: Func) -> Self {
        Self { function, _type: PhantomData }
    }

    /// The function without its type.
    pub fn func(&self) -> Func {
        self.function
    }

    /// Calls it.
    pub fn call(&self, mut store: impl AsContextMut, params: P) -> Result<R, Error> {
        let mut context = store.as_context_mut();
        let core = context.core();
        core.make_room();
        let mut values = [0u128; MOST];
        params.store(&mut values, &mut StoreAccess(core))?;
        // SAFETY: (1) the type was compared when `self` was made; (2) there is room for the most
        // results.
        unsafe { self.function.call_raw(core, values.as_mut_ptr())? };
        Ok(R::load(&values, &StoreAccess(core)))
    }
}

/// What a host function returns: results, or results that may fail.
pub trait HostResult {
    /// The results.
    type Values: Results;
    #[doc(hidden)]
    fn outcome(self) -> Result<Self::Values, Error>;
}

impl<R: Results> HostResult for R {
    type Values = R;
    fn outcome(self) -> Result<R, Error> {
        Ok(self)
    }
}

impl<R: Results> HostResult for Result<R, Error> {
    type Values = R;
    fn outcome(self) -> Self {
        self
    }
}

/// Closures that can be host functions. With or without a [`Caller`] in front.
pub trait IntoFunc<T, P, R> {
    #[doc(hidden)]
    fn into_raw(self) -> (FuncType, RawFunc);
}

/// A host function without its type.
#[doc(hidden)]
#[derive(Clone)]
pub struct RawFunc(pub(crate) Arc<super::function::Body>);

impl std::fmt::Debug for RawFunc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawFunc").finish_non_exhaustive()
    }
}

macro_rules! closures {
    ($(($($ty:ident),*))*) => {
        $(
            #[allow(non_snake_case, unused_variables)]
            impl<T, F, $($ty: WasmTy,)* O> IntoFunc<T, ($($ty,)*), O> for F
            where
                F: Fn($($ty),*) -> O + Send + Sync + 'static,
                O: HostResult,
            {
                fn into_raw(self) -> (FuncType, RawFunc) {
                    let raw = move |store: &mut StoreCore, _: Option<NonNull<InstanceData>>, args: &[u128], results: &mut [u128]| {
                        let ($($ty,)*) = <($($ty,)*) as Params>::load(args, &StoreAccess(store));
                        self($($ty),*).outcome()?.store(results, &mut StoreAccess(store))
                    };
                    (FuncType::new(<($($ty,)*) as Params>::types(), O::Values::types()), RawFunc(Arc::new(raw)))
                }
            }

            #[allow(non_snake_case, unused_variables)]
            impl<T: 'static, F, $($ty: WasmTy,)* O> IntoFunc<T, (Caller<'static, T>, $($ty,)*), O> for F
            where
                F: Fn(Caller<'_, T>, $($ty),*) -> O + Send + Sync + 'static,
                O: HostResult,
            {
                fn into_raw(self) -> (FuncType, RawFunc) {
                    let raw = move |store: &mut StoreCore, caller: Option<NonNull<InstanceData>>, args: &[u128], results: &mut [u128]| {
                        let ($($ty,)*) = <($($ty,)*) as Params>::load(args, &StoreAccess(store));
                        // SAFETY: (1) the function was made in a store with data of this type.
                        let context = unsafe { StoreContextMut::from_core(&mut *store) };
                        let caller = Caller::new(context, caller.map(Instance::from_data));
                        self(caller, $($ty),*).outcome()?.store(results, &mut StoreAccess(store))
                    };
                    (FuncType::new(<($($ty,)*) as Params>::types(), O::Values::types()), RawFunc(Arc::new(raw)))
                }
            }
        )*
    };
}

closures! {
    ()
    (A)
    (A, B)
    (A, B, C)
    (A, B, C, D)
    (A, B, C, D, E)
    (A, B, C, D, E, G)
    (A, B, C, D, E, G, H)
    (A, B, C, D, E, G, H, I)
    (A, B, C, D, E, G, H, I, J)
    (A, B, C, D, E, G, H, I, J, K)
}
