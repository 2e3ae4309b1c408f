//! Calls by references, casts and tests, where references to functions have no types: functions
//! replace them (`gateway/dispatch.rs`, `gateway/casts.rs`).

use super::*;
use crate::gateway::Cast;
use crate::types::index_of;
use std::ops::Range;
use wasm_encoder::RefType;

impl Writer<'_> {
    /// Writes such an instruction; returns whether it is one.
    pub(super) fn reference(&mut self, operator: &Operator<'_>, place: &Range<u64>) -> bool {
        let call = |ty: &u32| self.gateways.calls.get(ty).copied();
        let cast = |ty: wasmparser::HeapType| {
            index_of(ty).and_then(|ty| self.gateways.casts.get(&ty).copied())
        };
        match operator {
            Operator::CallRef { type_index } => {
                let Some(call) = call(type_index) else { return false };
                self.put().call(call);
            }
            Operator::ReturnCallRef { type_index } => {
                let Some(call) = call(type_index) else { return false };
                self.left_by_tail_call();
                self.put().return_call(call);
            }
            Operator::RefTestNonNull { hty } => {
                let Some(cast) = cast(*hty) else { return false };
                self.put().call(cast.test);
            }
            Operator::RefTestNullable { hty } => {
                let Some(cast) = cast(*hty) else { return false };
                let local = self.referenced();
                self.push_nullable_test(local, cast);
            }
            Operator::RefCastNonNull { hty } => {
                let Some(cast) = cast(*hty) else { return false };
                self.put().call(cast.non_null);
            }
            Operator::RefCastNullable { hty } => {
                let Some(cast) = cast(*hty) else { return false };
                self.put().call(cast.nullable);
            }
            Operator::BrOnCast { relative_depth, from_ref_type, to_ref_type } => {
                let Some(cast) = cast(to_ref_type.heap_type()) else { return false };
                let is_nullable =
                    [from_ref_type, to_ref_type].map(wasmparser::RefType::is_nullable);
                self.branch_on_cast(cast, *relative_depth, is_nullable);
            }
            Operator::BrOnCastFail { relative_depth, from_ref_type, to_ref_type } => {
                let Some(cast) = cast(to_ref_type.heap_type()) else { return false };
                let is_nullable =
                    [from_ref_type, to_ref_type].map(wasmparser::RefType::is_nullable);
                self.branch_on_failure(cast, *relative_depth, is_nullable);
            }
            _ => return false,
        }
        self.own.leave_out(place.clone());
        true
    }

    /// Moves a reference from the stack to a local.
    fn referenced(&mut self) -> u32 {
        let local = self.local(ValType::Ref(RefType::FUNCREF), 0);
        self.put().local_set(local);
        local
    }

    fn push(&mut self, local: u32, is_nullable: bool) {
        let sink = &mut self.put();
        sink.local_get(local);
        if !is_nullable {
            sink.ref_as_non_null();
        }
    }

    /// Pushes whether the reference has the type, or is null.
    fn push_nullable_test(&mut self, local: u32, cast: Cast) {
        self.put().local_get(local).call(cast.test).local_get(local).ref_is_null().i32_or();
    }

    /// Branches with the reference if it has the type, and has it on the stack otherwise.
    fn branch_on_cast(&mut self, cast: Cast, depth: u32, [from, to]: [bool; 2]) {
        let local = self.referenced();
        if to {
            self.push(local, from);
            // Null is of the type.
            self.push_nullable_test(local, cast);
            self.put().br_if(depth).drop();
            return self.push(local, false);
        }
        self.chosen(local, cast, true);
        self.put().br_on_non_null(depth);
        self.push(local, from);
    }

    /// Branches with the reference if it does not have the type, and has it on the stack otherwise.
    fn branch_on_failure(&mut self, cast: Cast, depth: u32, [from, to]: [bool; 2]) {
        let local = self.referenced();
        if !to {
            self.push(local, from);
            self.put().local_get(local).call(cast.test).i32_eqz().br_if(depth).drop();
            return self.push(local, false);
        }
        self.chosen(local, cast, false);
        self.put().br_on_non_null(depth);
        self.push(local, from);
    }

    /// Pushes the reference if it has the type, or if it does not, and null otherwise.
    fn chosen(&mut self, local: u32, cast: Cast, has: bool) {
        let any = RefType::FUNCREF;
        let sink = &mut self.put();
        match has {
            true => sink.local_get(local).ref_null(any.heap_type),
            false => sink.ref_null(any.heap_type).local_get(local),
        };
        sink.local_get(local).call(cast.test).typed_select(ValType::Ref(any));
    }
}
