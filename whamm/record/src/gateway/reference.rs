//! Identifies the functions of references that are passed to the host.
//!
//! WebAssembly cannot compare references to functions. But if the host gives none, all references
//! that the program has are to its own functions, or to imports that it refers to itself. (If the
//! host may give some, see `private.rs`. Where that is not possible, the trace ends when it does.)
//! The gateways of these functions can be
//! queried: a gateway that is called with zeros while `asked` is -1 stores its index there, does
//! nothing else, and returns.

use super::Maker;
use crate::Error;
use std::collections::BTreeSet;
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{BlockType, Function, HeapType, InstructionSink, RefType, ValType};

/// The query and its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    /// -1 during a query; then the function's index.
    asked: u32,
    /// Takes a reference that is not null; returns the function's index plus 1, or 0 if it is not
    /// known.
    pub(super) ask: u32,
}

/// Pushes zeros of some types.
fn zeros(sink: &mut InstructionSink<'_>, types: &[ValType]) {
    for ty in types {
        match ty {
            ValType::I32 => sink.i32_const(0),
            ValType::I64 => sink.i64_const(0),
            ValType::F32 => sink.f32_const(0.0.into()),
            ValType::F64 => sink.f64_const(0.0.into()),
            ValType::V128 => sink.v128_const(0),
            ValType::Ref(ty) => sink.ref_null(ty.heap_type),
        };
    }
}

impl Maker<'_, '_> {
    /// Parameters and results of a function that can be queried: all of them can be zero.
    fn askable(&self, function: u32) -> Result<Option<[Vec<ValType>; 2]>, Error> {
        let ty = self.app.declared.function(function).expect("a valid module");
        let read = |types: &[wasmparser::ValType]| {
            types.iter().map(|ty| RoundtripReencoder.val_type(*ty)).collect::<Result<Vec<_>, _>>()
        };
        let both = [read(ty.params())?, read(ty.results())?];
        let is_zero = |ty: &ValType| !matches!(ty, ValType::Ref(ty) if !ty.nullable);
        Ok(both.iter().flatten().all(is_zero).then_some(both))
    }

    /// Defines the function that queries references, if parameters or results of the program's
    /// functions include references to functions.
    pub(super) fn asking(&mut self) -> Result<Option<Asking>, Error> {
        let declared = &self.app.declared;
        let types = (0..).map_while(|function| declared.function(function));
        let passes = types.into_iter().any(|ty| {
            ty.params().iter().chain(ty.results()).any(|ty| declared.is_of_functions(*ty))
        });
        if !passes || self.app.takes_functions {
            return Ok(None);
        }
        let asked = super::variable(self.plan, self.program, ValType::I32);
        let mut code = Function::new([]);
        let sink = &mut code.instructions();
        // After the end of the trace, functions are not known.
        sink.global_get(self.runtime.alive).i32_eqz().if_(BlockType::Empty);
        sink.i32_const(0).return_().end();
        sink.i32_const(-1).global_set(asked).block(BlockType::Empty);
        let mut known = BTreeSet::new();
        for function in &self.app.referred {
            let ty = declared.type_of(*function).expect("a valid module");
            let Some([params, results]) = self.askable(*function)? else { continue };
            if !known.insert(ty) {
                continue;
            }
            let concrete = HeapType::Concrete(ty);
            sink.local_get(0).ref_test_non_null(concrete).if_(BlockType::Empty);
            zeros(sink, &params);
            sink.local_get(0).ref_cast_non_null(concrete).call_ref(ty);
            results.iter().for_each(|_| {
                sink.drop();
            });
            sink.br(1).end();
        }
        sink.end();
        // If no function answered, -1 plus 1 is 0.
        sink.global_get(asked).i32_const(0).global_set(asked).i32_const(1).i32_add().end();
        let ty = self.signature(&[ValType::Ref(RefType::FUNCREF)], &[ValType::I32]);
        let ask = self.add(ty, "ask", code);
        Ok(Some(Asking { asked, ask }))
    }

    /// Makes a gateway answer first, if it is queried.
    pub(super) fn answer(
        &self,
        sink: &mut InstructionSink<'_>,
        function: u32,
    ) -> Result<(), Error> {
        let Some(Asking { asked, .. }) = self.asking else { return Ok(()) };
        let Some([_, results]) = self.askable(function)? else { return Ok(()) };
        sink.global_get(asked).i32_const(-1).i32_eq().if_(BlockType::Empty);
        sink.i32_const(function.cast_signed()).global_set(asked);
        zeros(sink, &results);
        sink.return_().end();
        Ok(())
    }
}
