//! Tells the program's functions from the host's, and from each other, by their types.
//!
//! WebAssembly cannot compare references to functions, and a function of the host must not be
//! called in order to identify it. So in a program that gets references from its host, the gateway
//! of each function to which there are references has a type of its own, with the same parameters
//! and results. These *private* types are in one recursion group, with a type whose parameters
//! spell the module's hash: no other module has them. A reference of a private type is to that
//! function; any other one is to a function of the host, whose type is tested as well.
//!
//! Of the host's functions of one type, the trace has one: which of them returned a result does not
//! matter, as results are replayed in the order of the calls.
//!
//! Another instance of the same module has the same types. If the program calls a function of such
//! an instance, its own gateway is not entered, and the trace ends (`dispatch.rs`).

use super::Maker;
use crate::Error;
use crate::runtime::host_name;
use wasm_aot_trace::ModuleHash;
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{BlockType, Function, HeapType, InstructionSink, RefType, ValType};

impl Maker<'_, '_> {
    /// Defines the private types.
    pub(super) fn private_types(&mut self) -> Result<(), Error> {
        if !self.app.takes_functions {
            return Ok(());
        }
        let first = self.plan.types.len();
        for function in &self.app.referred {
            let ty = self.app.declared.function(*function).expect("a valid module");
            let all = |types: &[wasmparser::ValType]| {
                types.iter().map(|ty| RoundtripReencoder.val_type(*ty)).collect::<Result<_, _>>()
            };
            let both = (all(ty.params())?, all(ty.results())?);
            self.private.insert(*function, self.program.types + self.plan.types.len() as u32);
            self.plan.types.push(both);
        }
        self.plan.types.push((mark(&ModuleHash::new(self.program.bytes)), Vec::new()));
        self.plan.groups.push(first..self.plan.types.len());
        Ok(())
    }

    /// The type of a function's gateway.
    pub(super) fn type_of_gateway(&self, function: u32) -> u32 {
        let own = || self.app.declared.type_of(function).expect("a valid module");
        self.private.get(&function).copied().unwrap_or_else(own)
    }

    /// Defines the functions that identify references, in an event and between events: they return
    /// the index plus 1, and 0 if the reference is null.
    pub(super) fn identifying(&mut self) {
        if !self.app.takes_functions {
            return;
        }
        let mut code = Function::new([]);
        let sink = &mut code.instructions();
        sink.local_get(0).ref_is_null().if_(BlockType::Empty).i32_const(0).return_().end();
        let is = |sink: &mut InstructionSink<'_>, ty: u32| {
            sink.local_get(0).ref_test_non_null(HeapType::Concrete(ty)).if_(BlockType::Empty);
        };
        for (function, ty) in &self.private {
            is(sink, *ty);
            sink.i32_const(function.cast_signed() + 1).return_().end();
        }
        for (ty, _) in self.app.host_types() {
            let host = self.own(&format!("host:{}", host_name(ty)));
            match ty {
                Some(ty) => {
                    is(sink, ty);
                    sink.call(host).return_().end();
                }
                None => {
                    sink.call(host).end();
                }
            }
        }
        let ty = self.signature(&[ValType::Ref(RefType::FUNCREF)], &[ValType::I32]);
        let inner = self.add(ty, "identify.inside", code);
        self.identify = Some(inner);
        let mut code = Function::new([]);
        code.instructions().call(self.own("between")).local_get(0).call(inner).end();
        self.made.identify = Some(self.add(ty, "identify", code));
    }
}

/// Parameters that spell the first half of a hash.
fn mark(hash: &ModuleHash) -> Vec<ValType> {
    let digits = hash.0[..16].iter().flat_map(|byte| (0..4).map(move |place| byte >> (2 * place)));
    let kinds = [ValType::I32, ValType::I64, ValType::F32, ValType::F64];
    digits.map(|digit| kinds[usize::from(digit & 3)]).collect()
}
