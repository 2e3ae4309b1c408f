//! Tells the program's functions from the host's, and from each other, by their types.
//!
//! WebAssembly cannot compare references to functions, and a function of the host must not be
//! called in order to identify it. So in a program that gets references from its host, the gateway
//! of each function to which there are references has a type of its own, with the same parameters
//! and results, except that references to functions in them have no types (`erasure.rs`). These
//! *private* types are in one recursion group, with a type whose parameters spell the module's
//! hash: no other module has them. A reference of a private type is to that function; any other one
//! is to a function of the host, whose type is tested as well.
//!
//! ```text
//!     (type $t (sub (func …)))      the program's: open            (type $u (func …))      final
//!     (type $f (sub final $t …))    private, of a function of $t   (type $g (func …))      private
//! ```
//!
//! A private type has a supertype if the function's own type has an open one to which the host
//! gives references: so the host can give the function where it has to give a `(ref $t)`.
//!
//! Of the host's functions of one type, the trace has one: which of them returned a result does not
//! matter, as results are replayed in the order of the calls. A trace only describes final types
//! without supertypes, in groups of their own, whose references have no types. A function of
//! another type that the program can distinguish ends the trace.
//!
//! Another instance of the same module has the same types. If the program calls a function of such
//! an instance, its own gateway is not entered, and the trace ends (`dispatch.rs`).

use super::Maker;
use crate::Error;
use crate::runtime::{Why, host_name};
use wasm_aot_trace::ModuleHash;
use wasm_encoder::{BlockType, Function, HeapType, InstructionSink, RefType, ValType};

impl Maker<'_, '_> {
    /// Defines the private types.
    pub(super) fn private_types(&mut self) -> Result<(), Error> {
        if !self.app.takes_functions {
            return Ok(());
        }
        self.app.erase(self.plan, self.program)?;
        let first = self.plan.types.len();
        for function in &self.app.referred {
            let ty = self.app.declared.function(*function).expect("a valid module");
            let both = (self.app.val_types(ty.params())?, self.app.val_types(ty.results())?);
            if let Some(supertype) = self.app.private_supertype(*function) {
                self.plan.supertypes.insert(self.plan.types.len(), supertype);
            }
            self.private.insert(*function, self.program.types + self.plan.types.len() as u32);
            self.plan.types.push(both);
        }
        self.plan.types.push((mark(&ModuleHash::new(self.program.bytes)), Vec::new()));
        self.plan.groups.push(first..self.plan.types.len());
        Ok(())
    }

    /// The type of a function in the output, if its references have no types.
    pub(super) fn own_type(&self, function: u32) -> u32 {
        let own = self.app.declared.type_of(function).expect("a valid module");
        self.plan.indices.erasure().map_or(own, |erasure| erasure.signature(own))
    }

    /// The type of a function's gateway.
    pub(super) fn type_of_gateway(&self, function: u32) -> u32 {
        self.private.get(&function).copied().unwrap_or_else(|| self.own_type(function))
    }

    /// The functions, with their private types, that have a type or a subtype of it.
    pub(super) fn private_of(&self, ty: u32) -> impl Iterator<Item = (u32, u32)> {
        let all = self.private.iter().map(|(function, private)| (*function, *private));
        all.filter(move |(function, _)| self.app.is_of(*function, ty))
    }

    /// Defines the functions that identify references, in an event and between events: they return
    /// the index plus 1, and 0 if the reference is null, or no trace describes the function's type.
    pub(super) fn identifying(&mut self) {
        if !self.app.takes_functions {
            return;
        }
        let mut code = Function::new([]);
        let sink = &mut code.instructions();
        let is = |sink: &mut InstructionSink<'_>, ty: u32| {
            sink.local_get(0).ref_test_non_null(HeapType::Concrete(ty)).if_(BlockType::Empty);
        };
        for (function, ty) in &self.private {
            is(sink, *ty);
            sink.i32_const(function.cast_signed() + 1).return_().end();
        }
        let of_host = self.app.host_types();
        for ty in self.app.distinguished() {
            is(sink, ty);
            match of_host.iter().any(|own| own.0 == Some(ty)) {
                true => sink.call(self.own(&format!("host:{ty}"))),
                false => sink.i32_const(0),
            };
            sink.return_().end();
        }
        sink.call(self.own(&format!("host:{}", host_name(None)))).end();
        let ty = self.signature(&[ValType::Ref(RefType::FUNCREF)], &[ValType::I32]);
        let inner = self.add(ty, "identify.inside", code);
        self.identify = Some(inner);
        let mut code = Function::new([(1, ValType::I32)]);
        let sink = &mut code.instructions();
        sink.local_get(0).ref_is_null().if_(BlockType::Empty).i32_const(0).return_().end();
        sink.call(self.own("between")).local_get(0).call(inner).local_tee(1);
        sink.i32_eqz().if_(BlockType::Empty);
        self.stop(sink, Why::Reference, false);
        sink.end().local_get(1).end();
        self.made.identify = Some(self.add(ty, "identify", code));
    }
}

/// Parameters that spell the first half of a hash.
fn mark(hash: &ModuleHash) -> Vec<ValType> {
    let digits = hash.0[..16].iter().flat_map(|byte| (0..4).map(move |place| byte >> (2 * place)));
    let kinds = [ValType::I32, ValType::I64, ValType::F32, ValType::F64];
    digits.map(|digit| kinds[usize::from(digit & 3)]).collect()
}
