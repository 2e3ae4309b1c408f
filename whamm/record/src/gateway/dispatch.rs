//! Calls through tables whose elements may be functions of the host, in a program whose own
//! functions have private types (`private.rs`): such a call tests the element's type first.
//!
//! ```text
//!     call_indirect T ─▶ dispatch T ─┬─ private type of f ─▶ call_indirect, to the gateway of f
//!                                    ├─ T ─▶ call_ref, recorded as a call of the host
//!                                    └─ null, another type, no element ─▶ call_indirect T, a trap
//! ```

use super::{Callee, Maker};
use crate::Error;
use crate::runtime::Why;
use crate::trap::Reason;
use std::collections::BTreeMap;
use wasm_encoder::{BlockType, Function, HeapType, InstructionSink, RefType, ValType};

impl Maker<'_, '_> {
    /// Defines the functions that replace calls through tables.
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
        let args = |sink: &mut InstructionSink<'_>| {
            (0..count).for_each(|local| {
                sink.local_get(local);
            });
        };
        let mut code = Function::new([(1, ValType::Ref(RefType::FUNCREF))]);
        let sink = &mut code.instructions();
        sink.local_get(index).table_size(table);
        if is_wide {
            sink.i64_lt_u()
        } else {
            sink.i32_lt_u()
        };
        sink.if_(BlockType::Empty).local_get(index).table_get(table).local_set(element);
        let is = |sink: &mut InstructionSink<'_>, ty: u32| {
            sink.local_get(element).ref_test_non_null(HeapType::Concrete(ty));
            sink.if_(BlockType::Empty);
        };
        for (function, private) in &self.private {
            let of = self.app.declared.type_of(*function).expect("a valid module");
            if self.app.types.first_equal(of) == ty {
                is(sink, *private);
                self.via(sink, table, index);
                args(sink);
                sink.local_get(index).call_indirect(table, *private);
                // Its gateway has not been entered: it is another instance's.
                sink.global_get(self.runtime.via).if_(BlockType::Empty);
                sink.call(self.made.foreign).end().return_().end();
            }
        }
        self.finds(sink, table, index, element);
        is(sink, ty);
        match foreign {
            Some(foreign) => {
                args(sink);
                sink.local_get(element).call(foreign).return_();
            }
            None => self.stop(sink, Why::Reference, false),
        }
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
        args(sink);
        sink.local_get(index).call_indirect(table, ty).end();
        let [mut params, results] = self.shape(ty)?;
        params.push(if is_wide { ValType::I64 } else { ValType::I32 });
        let signature = self.signature(&params, &results);
        Ok(self.add(signature, &format!("dispatch.{ty}.{table}"), code))
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
