//! Calls through tables and by references, which may be to functions of the host, in a program
//! whose own functions have private types (`private.rs`): such a call tests the type first.
//!
//! ```text
//!     call_indirect T ─▶ dispatch T ─┬─ private type of f ─▶ call_indirect, to the gateway of f
//!                                    ├─ T ─▶ call_ref, recorded as a call of the host
//!                                    └─ null, another type, no element ─▶ call_indirect T, a trap
//!     call_ref T ─────▶ dispatch T, the same with call_ref
//! ```
//!
//! The functions f are those that the program declares with the type T or a subtype of it.

use super::{Callee, Maker};
use crate::Error;
use crate::runtime::Why;
use crate::trap::Reason;
use std::collections::BTreeMap;
use wasm_encoder::{BlockType, Function, HeapType, InstructionSink, RefType, ValType};

/// Pushes the first locals.
fn args(sink: &mut InstructionSink<'_>, count: u32) {
    (0..count).for_each(|local| {
        sink.local_get(local);
    });
}

impl Maker<'_, '_> {
    /// Defines the functions that replace calls through tables and by references.
    pub(super) fn dispatch(&mut self) -> Result<(), Error> {
        if !self.app.takes_functions {
            return Ok(());
        }
        let mut foreign = BTreeMap::new();
        for ty in self.app.host_types().into_iter().filter_map(|(ty, _)| ty) {
            foreign.insert(ty, self.foreign(ty)?);
        }
        for (ty, table) in self.app.indirect.clone() {
            let first = self.app.types.first_equal(ty);
            let dispatch = self.dispatch_by(first, table, foreign.get(&first).copied())?;
            self.made.dispatch.insert((ty, table), dispatch);
        }
        for ty in self.app.referenced.clone() {
            let first = self.app.types.first_equal(ty);
            let dispatch = self.dispatch_reference(first, foreign.get(&first).copied())?;
            self.made.calls.insert(ty, dispatch);
        }
        Ok(())
    }

    /// Defines the function that calls a function of the host by a reference, its last argument.
    fn foreign(&mut self, ty: u32) -> Result<u32, Error> {
        let own = self.app.types.get(ty).clone();
        let [mut params, results] = self.shape(ty)?;
        params.push(ValType::Ref(RefType::FUNCREF));
        let signature = self.signature(&params, &results);
        let mut locals: Vec<(u32, ValType)> = results.into_iter().map(|ty| (1, ty)).collect();
        locals.push((1, ValType::I32));
        let mut code = Function::new(locals);
        let host = self.own(&format!("host:{ty}"));
        let sink = &mut code.instructions();
        self.calls_out(sink, &own, Callee::Reference(ty), |sink| {
            sink.call(host).i32_const(1).i32_sub().i64_extend_i32_u();
        });
        Ok(self.add(signature, &format!("foreign.{ty}"), code))
    }

    /// Defines the function that calls an element of a table, by its index, the last argument.
    fn dispatch_by(&mut self, ty: u32, table: u32, foreign: Option<u32>) -> Result<u32, Error> {
        let count = self.app.types.get(ty).params().len() as u32;
        let is_wide = self.app.is_wide_table(table);
        let (index, element) = (count, count + 1);
        let mut code = Function::new([(1, ValType::Ref(RefType::FUNCREF))]);
        let sink = &mut code.instructions();
        sink.local_get(index).table_size(table);
        if is_wide {
            sink.i64_lt_u()
        } else {
            sink.i32_lt_u()
        };
        sink.if_(BlockType::Empty).local_get(index).table_get(table).local_set(element);
        self.dispatch_own(sink, ty, element, |this, sink, private| {
            this.via(sink, table, index);
            args(sink, count);
            sink.local_get(index);
            match this.app.has_tail_calls {
                true => sink.return_call_indirect(table, private),
                false => sink.call_indirect(table, private),
            };
        });
        self.finds(sink, table, index, element);
        self.dispatch_foreign(sink, ty, element, foreign);
        sink.else_();
        self.traps_if_file(sink, Reason::Mismatch, |sink| {
            sink.local_get(element).ref_is_null().i32_eqz();
        });
        self.traps_if_file(sink, Reason::UninitializedElement, |sink| {
            sink.local_get(element).ref_is_null();
        });
        sink.end().else_();
        self.traps_if_file(sink, Reason::UndefinedElement, |sink| {
            sink.i32_const(1);
        });
        sink.end();
        self.typed_args(sink, self.app.types.get(ty).params());
        sink.local_get(index).call_indirect(table, ty).end();
        let [mut params, results] = self.shape(ty)?;
        params.push(if is_wide { ValType::I64 } else { ValType::I32 });
        let signature = self.signature(&params, &results);
        Ok(self.add(signature, &format!("dispatch.{ty}.{table}"), code))
    }

    /// Defines the function that calls a function by a reference, the last argument.
    fn dispatch_reference(&mut self, ty: u32, foreign: Option<u32>) -> Result<u32, Error> {
        let reference = self.app.types.get(ty).params().len() as u32;
        let mut code = Function::new([]);
        let sink = &mut code.instructions();
        self.dispatch_own(sink, ty, reference, |this, sink, private| {
            sink.i32_const(-1).global_set(this.runtime.via);
            args(sink, reference);
            let concrete = HeapType::Concrete(private);
            sink.local_get(reference).ref_cast_non_null(concrete);
            match this.app.has_tail_calls {
                true => sink.return_call_ref(private),
                false => sink.call_ref(private),
            };
        });
        self.dispatch_foreign(sink, ty, reference, foreign);
        sink.else_();
        self.traps_if_file(sink, Reason::NullReference, |sink| {
            sink.i32_const(1);
        });
        sink.end();
        self.typed_args(sink, self.app.types.get(ty).params());
        sink.local_get(reference).ref_cast_nullable(HeapType::Concrete(ty)).call_ref(ty).end();
        let [mut params, results] = self.shape(ty)?;
        params.push(ValType::Ref(RefType::FUNCREF));
        let signature = self.signature(&params, &results);
        Ok(self.add(signature, &format!("dispatch.{ty}"), code))
    }

    /// If a reference is to one of the program's functions of a type, calls that and returns.
    /// `call` calls a function of a private type, by a tail call if the program has such calls.
    fn dispatch_own(
        &self,
        sink: &mut InstructionSink<'_>,
        ty: u32,
        reference: u32,
        call: impl Fn(&Self, &mut InstructionSink<'_>, u32),
    ) {
        self.after_tail_calls(sink);
        for (_, private) in self.private_of(ty) {
            sink.local_get(reference).ref_test_non_null(HeapType::Concrete(private));
            sink.if_(BlockType::Empty);
            call(self, sink, private);
            if !self.app.has_tail_calls {
                self.is_foreign(sink);
                sink.return_();
            }
            sink.end();
        }
    }

    /// A call of one of the program's functions has returned. If its gateway has not been entered,
    /// it is another instance's: the trace ends.
    fn is_foreign(&self, sink: &mut InstructionSink<'_>) {
        sink.global_get(self.runtime.via).if_(BlockType::Empty);
        sink.call(self.made.foreign).end();
    }

    /// The same before the next call of any kind, and where the program returns to the host: tail
    /// calls do not return to the code that made them.
    pub(super) fn after_tail_calls(&self, sink: &mut InstructionSink<'_>) {
        if self.app.takes_functions && self.app.has_tail_calls {
            self.is_foreign(sink);
        }
    }

    /// If a reference is to a function of a type, calls that as a function of the host and returns,
    /// or ends the trace. It leaves the block open in which the reference is to none.
    fn dispatch_foreign(
        &self,
        sink: &mut InstructionSink<'_>,
        ty: u32,
        reference: u32,
        foreign: Option<u32>,
    ) {
        sink.local_get(reference).ref_test_non_null(HeapType::Concrete(ty));
        sink.if_(BlockType::Empty);
        match foreign {
            Some(foreign) => {
                args(sink, self.app.types.get(ty).params().len() as u32);
                sink.local_get(reference).call(foreign).return_();
            }
            None => self.stop(sink, Why::Reference, false),
        }
    }

    /// Marks that a function of the program is called next, through a table.
    pub(super) fn via(&self, sink: &mut InstructionSink<'_>, table: u32, index: u32) {
        if !self.app.tables.contains(&table) {
            sink.i32_const(-1).global_set(self.runtime.via);
            return;
        }
        sink.local_get(index);
        if self.app.is_wide_table(table) {
            sink.i32_wrap_i64();
        }
        sink.global_set(self.runtime.via_index);
        sink.i32_const(table.cast_signed() + 1).global_set(self.runtime.via);
    }

    /// The program reads an element, if the host may have changed it.
    fn finds(&self, sink: &mut InstructionSink<'_>, table: u32, index: u32, element: u32) {
        let identify = self.made.identify.filter(|_| self.app.tables.contains(&table));
        let Some(identify) = identify else { return };
        sink.local_get(index);
        if self.app.is_wide_table(table) {
            sink.i32_wrap_i64();
        }
        sink.local_get(element).call(identify).i32_const(0);
        sink.call(self.own(&format!("element:{table}")));
    }

    /// Records a trap, if it happens next and the host does not fetch the trace.
    pub(super) fn traps_if_file(
        &self,
        sink: &mut InstructionSink<'_>,
        reason: Reason,
        happens: impl Fn(&mut InstructionSink<'_>),
    ) {
        if self.has_file {
            happens(sink);
            sink.if_(BlockType::Empty).call(self.made.traps[&reason]).end();
        }
    }
}
