//! Gives references their types where the host demands a `(ref $type)`, and disguises functions
//! that the host may have to return as such: see `erasure.rs`.
//!
//! If the private type of a function is no subtype of that type, the host gets an *outer* function
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
    /// Takes a reference without a type, and returns it, or that to the outer function, if one is
    /// disguised.
    disguise: Option<u32>,
}

impl Maker<'_, '_> {
    /// Declares these functions, whose bodies follow once the gateways are known: each may refer to
    /// all others.
    pub(super) fn typed(&mut self) -> Result<(), Error> {
        if !self.app.takes_functions {
            return Ok(());
        }
        let mut missing = self.demanded();
        for function in self.disguised() {
            missing.extend(self.declare_outer(function));
        }
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
                if !self.app.has_private_subtype(function, ty) {
                    missing.extend(self.declare_outer(function));
                }
            }
        }
        self.disguise();
        Ok(())
    }

    /// The functions that are disguised.
    fn disguised(&self) -> Vec<u32> {
        let all = self.private.keys().copied();
        all.filter(|function| self.app.is_disguised(*function)).collect()
    }

    /// Declares an outer function; returns the types of its results that are new.
    fn declare_outer(&mut self, function: u32) -> Vec<u32> {
        if self.typed.outer.contains_key(&function) {
            return Vec::new();
        }
        let own = self.app.declared.type_of(function).expect("a valid module");
        let outer = self.add(own, &format!("outer.{function}"), Function::new([]));
        self.typed.outer.insert(function, outer);
        self.plan.declared.push(outer);
        self.types_of_functions(self.app.types.get(own).results())
    }

    fn disguise(&mut self) {
        let disguised = self.disguised();
        if disguised.is_empty() {
            return;
        }
        let mut code = Function::new([]);
        let sink = &mut code.instructions();
        for function in disguised {
            self.outer_if(sink, function);
        }
        sink.local_get(0).end();
        let any = ValType::Ref(RefType::FUNCREF);
        let signature = self.signature(&[any], &[any]);
        self.typed.disguise = Some(self.add(signature, "disguise", code));
    }

    /// If the first local is a reference to a function's gateway, returns one to its outer
    /// function.
    fn outer_if(&self, sink: &mut InstructionSink<'_>, function: u32) {
        sink.local_get(0).ref_test_non_null(HeapType::Concrete(self.private[&function]));
        sink.if_(BlockType::Empty).ref_func(self.typed.outer[&function]).return_().end();
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
        for (function, _) in self.private_of(ty) {
            if self.typed.outer.contains_key(&function) {
                self.outer_if(sink, function);
            }
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
            let is_function = self.app.declared.is_of_functions(*ty);
            if let Some(cast) = cast.or(self.typed.disguise.filter(|_| is_function)) {
                sink.call(cast);
            }
            if ty.as_reference_type().is_some_and(|ty| !ty.is_nullable()) {
                sink.ref_as_non_null();
            }
        }
    }

    /// Pushes results for the host, which are in locals.
    pub(super) fn results_for_the_host(
        &self,
        sink: &mut InstructionSink<'_>,
        first: u32,
        types: &[wasmparser::ValType],
    ) {
        for (at, ty) in types.iter().enumerate() {
            let is_function = self.app.declared.is_of_functions(*ty);
            self.results(sink, first + at as u32, &types[at..=at]);
            if let Some(disguise) = self.typed.disguise.filter(|_| is_function) {
                sink.call(disguise);
                if ty.as_reference_type().is_some_and(|ty| !ty.is_nullable()) {
                    sink.ref_as_non_null();
                }
            }
        }
    }

    /// The function that is exported instead of one of the program's, if it is disguised.
    pub(super) fn disguise_of(&self, function: u32) -> Option<u32> {
        self.typed.outer.get(&function).copied().filter(|_| self.app.is_disguised(function))
    }
}
