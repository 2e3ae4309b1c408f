//! Gives references their types where the host demands a `(ref $type)`: see `erasure.rs`.
//!
//! If the private type of a function is no subtype of that type, the host gets another function
//! that has the type with which the program declares it, and which calls the gateway.

use super::Maker;
use crate::Error;
use std::collections::BTreeMap;
use wasm_encoder::{BlockType, Function, HeapType, InstructionSink, RefType, ValType};

/// The functions for references with types.
#[derive(Debug, Default)]
pub(super) struct Typed {
    /// By type: takes a reference without a type, and returns one with the type.
    casts: BTreeMap<u32, u32>,
    /// By function: one that has its type and calls its gateway.
    outer: BTreeMap<u32, u32>,
}

impl Maker<'_, '_> {
    /// Declares these functions, whose bodies follow once the gateways are known: each may refer to
    /// all others.
    pub(super) fn typed(&mut self) -> Result<(), Error> {
        if !self.app.takes_functions {
            return Ok(());
        }
        let mut missing = self.demanded();
        while let Some(ty) = missing.pop() {
            if self.typed.casts.contains_key(&ty) {
                continue;
            }
            let result = RefType { nullable: true, heap_type: HeapType::Concrete(ty) };
            let any = ValType::Ref(RefType::FUNCREF);
            let signature = self.signature(&[any], &[ValType::Ref(result)]);
            let cast = self.add(signature, &format!("typed.{ty}"), Function::new([]));
            self.typed.casts.insert(ty, cast);
            let functions: Vec<(u32, u32)> = self.private_of(ty).collect();
            for (function, _) in functions {
                let is_known = self.typed.outer.contains_key(&function);
                if is_known || self.app.has_private_subtype(function, ty) {
                    continue;
                }
                let own = self.app.declared.type_of(function).expect("a valid module");
                let outer = self.add(own, &format!("outer.{function}"), Function::new([]));
                self.typed.outer.insert(function, outer);
                self.plan.declared.push(outer);
                missing.extend(self.types_of_functions(self.app.types.get(own).results()));
            }
        }
        Ok(())
    }

    /// The types of functions to which the host demands references: the parameters of imports, and
    /// of those functions of the host that the program may call after the trace has ended.
    fn demanded(&self) -> Vec<u32> {
        let app = self.app;
        let imports = (0..app.imported()).filter_map(|import| app.declared.function(import));
        let called = app.indirect.iter().map(|call| call.0).chain(app.referenced.iter().copied());
        let called = called.map(|ty| app.types.get(ty));
        imports.chain(called).flat_map(|ty| self.types_of_functions(ty.params())).collect()
    }

    fn types_of_functions(&self, types: &[wasmparser::ValType]) -> Vec<u32> {
        types.iter().filter_map(|ty| self.app.types.of_functions(*ty)).collect()
    }

    /// Writes the bodies of these functions.
    pub(super) fn fill_typed(&mut self) -> Result<(), Error> {
        for (ty, function) in self.typed.casts.clone() {
            let code = self.typed_cast(ty);
            self.fill(function, code);
        }
        for (own, function) in self.typed.outer.clone() {
            let code = self.outer(own)?;
            self.fill(function, code);
        }
        Ok(())
    }

    fn fill(&mut self, function: u32, code: Function) {
        let first = self.plan.indices.functions();
        self.plan.functions[(function - first) as usize].1 = code;
    }

    fn typed_cast(&self, ty: u32) -> Function {
        let concrete = HeapType::Concrete(ty);
        let mut code = Function::new([]);
        let sink = &mut code.instructions();
        for (function, private) in self.private_of(ty) {
            if self.app.has_private_subtype(function, ty) {
                continue;
            }
            sink.local_get(0).ref_test_non_null(HeapType::Concrete(private));
            sink.if_(BlockType::Empty).ref_func(self.typed.outer[&function]).return_().end();
        }
        sink.local_get(0).ref_cast_nullable(concrete).end();
        code
    }

    fn outer(&self, function: u32) -> Result<Function, Error> {
        let (mut code, params, end) = self.locals(function)?;
        let ty = self.app.declared.function(function).expect("a valid module");
        let sink = &mut code.instructions();
        (0..params).for_each(|local| {
            sink.local_get(local);
        });
        sink.call(self.plan.indices.reference(function));
        (params..end).rev().for_each(|local| {
            sink.local_set(local);
        });
        self.typed_values(sink, params, ty.results());
        sink.end();
        Ok(code)
    }

    /// Pushes the first locals, with the types of parameters.
    pub(super) fn typed_args(&self, sink: &mut InstructionSink<'_>, types: &[wasmparser::ValType]) {
        self.typed_values(sink, 0, types);
    }

    fn typed_values(
        &self,
        sink: &mut InstructionSink<'_>,
        first: u32,
        types: &[wasmparser::ValType],
    ) {
        for (local, ty) in (first..).zip(types) {
            sink.local_get(local);
            let cast = self.app.types.of_functions(*ty);
            let cast = cast.and_then(|ty| self.typed.casts.get(&ty).copied());
            if let Some(cast) = cast {
                sink.call(cast);
            }
            if ty.as_reference_type().is_some_and(|ty| !ty.is_nullable()) {
                sink.ref_as_non_null();
            }
        }
    }
}
