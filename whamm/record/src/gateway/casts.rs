//! Casts and tests of references without types (`erasure.rs`): a function has a type if its private
//! type is that of a function which the program declares with this type, or if it is the host's and
//! has the type itself.

use super::Maker;
use crate::trap::Reason;
use std::collections::BTreeSet;
use wasm_encoder::{BlockType, Function, HeapType, InstructionSink, RefType, ValType};

/// The functions that replace casts to a type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cast {
    /// Takes a reference; returns whether it is to a function of the type. Null is none.
    pub(crate) test: u32,
    /// Takes a reference, and returns it. It traps if a cast does, to a type without and with null.
    pub(crate) non_null: u32,
    pub(crate) nullable: u32,
}

impl Maker<'_, '_> {
    /// Defines these functions, for types in casts and in parameters that the host passes.
    pub(super) fn casts(&mut self) {
        if !self.app.takes_functions {
            return;
        }
        let entered = self.private.keys().filter_map(|own| self.app.declared.function(*own));
        let passed = entered.flat_map(wasmparser::FuncType::params);
        let passed = passed.filter_map(|ty| self.app.types.of_functions(*ty));
        let tested = self.app.tested.iter().copied();
        let tested = tested.filter(|ty| self.app.types.is_function(*ty));
        let all: BTreeSet<u32> = tested.chain(passed).collect();
        for ty in all {
            let test = self.test(ty);
            let non_null = self.cast(ty, test, false);
            let nullable = self.cast(ty, test, true);
            self.made.casts.insert(ty, Cast { test, non_null, nullable });
        }
    }

    fn test(&mut self, ty: u32) -> u32 {
        let mut code = Function::new([]);
        let sink = &mut code.instructions();
        for (function, private) in self.private_of(ty) {
            if !self.app.has_private_subtype(function, ty) {
                sink.local_get(0).ref_test_non_null(HeapType::Concrete(private));
                sink.if_(BlockType::Empty).i32_const(1).return_().end();
            }
        }
        sink.local_get(0).ref_test_non_null(HeapType::Concrete(ty)).end();
        let signature = self.signature(&[ValType::Ref(RefType::FUNCREF)], &[ValType::I32]);
        self.add(signature, &format!("test.{ty}"), code)
    }

    fn cast(&mut self, ty: u32, test: u32, is_nullable: bool) -> u32 {
        let concrete = HeapType::Concrete(ty);
        let mut code = Function::new([]);
        let sink = &mut code.instructions();
        let has = |sink: &mut InstructionSink<'_>| {
            sink.local_get(0).call(test);
            if is_nullable {
                sink.local_get(0).ref_is_null().i32_or();
            }
        };
        has(sink);
        sink.i32_eqz().if_(BlockType::Empty);
        self.traps_if_file(sink, Reason::CastFailure, |sink| {
            sink.i32_const(1);
        });
        sink.local_get(0);
        match is_nullable {
            true => sink.ref_cast_nullable(concrete),
            false => sink.ref_cast_non_null(concrete),
        };
        sink.drop().end().local_get(0);
        if !is_nullable {
            sink.ref_as_non_null();
        }
        sink.end();
        let any = ValType::Ref(RefType::FUNCREF);
        let result = ValType::Ref(RefType { nullable: is_nullable, heap_type: HeapType::FUNC });
        let signature = self.signature(&[any], &[result]);
        let name = if is_nullable { "nullable" } else { "non_null" };
        self.add(signature, &format!("cast.{ty}.{name}"), code)
    }

    /// The host calls a function whose parameters have lost their types: other references than
    /// those of the parameters' types cause a trap before anything is recorded.
    pub(super) fn check_params(&self, sink: &mut InstructionSink<'_>, function: u32) {
        if !self.private.contains_key(&function) {
            return;
        }
        let ty = self.app.declared.function(function).expect("a valid module");
        for (local, ty) in (0..).zip(ty.params()) {
            let cast = self.app.types.of_functions(*ty).map(|ty| self.made.casts[&ty]);
            let Some(cast) = cast else { continue };
            sink.local_get(local).call(cast.test);
            if ty.as_reference_type().is_some_and(|ty| ty.is_nullable()) {
                sink.local_get(local).ref_is_null().i32_or();
            }
            sink.i32_eqz().if_(BlockType::Empty).unreachable().end();
        }
    }
}
