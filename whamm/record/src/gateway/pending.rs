//! Calls through tables in which the host may put functions, in a program whose own functions keep
//! their types: it only calls through these tables, so that no reference to a function of the host
//! gets anywhere else.
//!
//! A gateway knows that it is called, and a function of the host does not tell. So before such a
//! call, all that its event needs is kept in variables, and the call is *pending*:
//!
//! ```text
//!     call_indirect T ─▶ through T ─┬─▶ gateway of type T, same arguments: not pending any more
//!                                   └─▶ function of the host ─┬─▶ another gateway: it is recorded
//!                                                             └─▶ returns: it is recorded
//! ```
//!
//! A function of the host may pass its arguments to a function of the program that has its own
//! type, before it does anything else. If it then passes the results on, too, the program cannot
//! see that it was not called directly, and this is what is recorded. Otherwise the trace ends.
//!
//! Private types (`private.rs`) would tell these functions apart. But other modules, such as
//! libraries that are linked at run time, call the program's functions through the same tables by
//! their types; and each such call would cost more.

use super::{Callee, Maker, Way};
use crate::Error;
use crate::runtime::{Why, variable};
use crate::trap::Reason;
use std::collections::BTreeMap;
use std::ops::Range;
use wasm_encoder::{BlockType, Function, InstructionSink, ValType};

/// The variables of pending calls.
#[derive(Debug)]
pub(super) struct Pending {
    /// The type of the call, plus 1; or 0, if no trace describes functions of that type.
    ty: u32,
    /// Whether a gateway has returned directly, and the program does not run yet.
    returned: u32,
    /// By type: its arguments, and the results with which a gateway has returned.
    args: BTreeMap<u32, Vec<u32>>,
    results: BTreeMap<u32, Vec<u32>>,
    /// Records the call, unless it has trapped.
    commit: u32,
}

/// Compares the bits of two values, if they are numbers.
fn differ(sink: &mut InstructionSink<'_>, ty: ValType, local: u32, global: u32) {
    let both = |sink: &mut InstructionSink<'_>, bits: &dyn Fn(&mut InstructionSink<'_>)| {
        sink.local_get(local);
        bits(sink);
        sink.global_get(global);
        bits(sink);
    };
    match ty {
        ValType::I32 => both(sink, &|_| {}),
        ValType::I64 => both(sink, &|_| {}),
        ValType::F32 => both(sink, &|sink| {
            sink.i32_reinterpret_f32();
        }),
        ValType::F64 => both(sink, &|sink| {
            sink.i64_reinterpret_f64();
        }),
        ValType::V128 => {
            both(sink, &|_| {});
            sink.v128_xor().v128_any_true();
            return;
        }
        ValType::Ref(_) => {
            sink.i32_const(0);
            return;
        }
    }
    match ty {
        ValType::I32 | ValType::F32 => sink.i32_ne(),
        _ => sink.i64_ne(),
    };
}

impl Maker<'_, '_> {
    /// Parameters and results of a type of functions.
    pub(super) fn shape(&self, ty: u32) -> Result<[Vec<ValType>; 2], Error> {
        let own = self.app.types.get(ty);
        Ok([self.app.val_types(own.params())?, self.app.val_types(own.results())?])
    }

    /// Defines the variables of pending calls, and the function that records one.
    pub(super) fn pending(&mut self) -> Result<(), Error> {
        let calls = self.app.pending_calls();
        if calls.is_empty() {
            return Ok(());
        }
        let mut pending = Pending {
            ty: variable(self.plan, self.program, ValType::I32),
            returned: variable(self.plan, self.program, ValType::I32),
            args: BTreeMap::new(),
            results: BTreeMap::new(),
            commit: 0,
        };
        let types: std::collections::BTreeSet<u32> =
            calls.iter().map(|(ty, _)| self.app.types.first_equal(*ty)).collect();
        for ty in &types {
            let shape = self.shape(*ty)?;
            let [args, results] = shape.map(|types| {
                types.iter().map(|ty| variable(self.plan, self.program, *ty)).collect()
            });
            pending.args.insert(*ty, args);
            pending.results.insert(*ty, results);
        }
        let mut commits = Vec::new();
        for ty in types {
            commits.push((ty, self.commit_of(ty, &pending)?));
        }
        pending.commit = self.commit(&commits, &pending);
        self.made.pending_ty = Some(pending.ty);
        self.made.finish = Some(self.finish(&pending));
        self.pending = Some(pending);
        for (ty, table) in calls {
            let through = self.through(ty, table)?;
            self.made.dispatch.insert((ty, table), through);
        }
        Ok(())
    }

    /// Defines the function that records a pending call of a type.
    fn commit_of(&mut self, ty: u32, pending: &Pending) -> Result<u32, Error> {
        let [params, _] = self.shape(ty)?;
        let mut code = Function::new(params.iter().map(|ty| (1, *ty)));
        let sink = &mut code.instructions();
        for (local, global) in (0..).zip(&pending.args[&ty]) {
            sink.global_get(*global).local_set(local);
        }
        match self.runtime.functions.get(&format!("host:{ty}")).copied() {
            Some(host) => {
                self.called_by_table(sink, |sink| {
                    sink.call(host);
                });
                self.begin(sink, 3, &[]);
                sink.call(host).i32_const(1).i32_sub().i64_extend_i32_u().call(self.own("number"));
                self.values(sink, 0, self.app.types.get(ty).params(), Way::Out);
            }
            None => self.stop(sink, Why::Reference, false),
        }
        sink.end();
        let signature = self.signature(&[], &[]);
        Ok(self.add(signature, &format!("commit.{ty}"), code))
    }

    /// Defines the function that records the pending call. If its element is null or outside of the
    /// table, the call has trapped; then it records what the element is, and forgets the call. It
    /// takes whether the call has trapped in any case: then the element has another type.
    fn commit(&mut self, commits: &[(u32, u32)], pending: &Pending) -> u32 {
        let (via, via_index) = (self.runtime.via, self.runtime.via_index);
        let (other, trapped) = (self.own("host:other"), 0);
        let mut code = Function::new([]);
        let sink = &mut code.instructions();
        sink.call(self.own("between")).block(BlockType::Empty);
        for table in self.app.function_tables() {
            let element = self.own(&format!("element:{table}"));
            sink.global_get(via).i32_const(table.cast_signed() + 1).i32_eq().if_(BlockType::Empty);
            sink.global_get(via_index).i64_extend_i32_u();
            self.elements(sink, table);
            sink.i64_ge_u().br_if(1).global_get(via_index);
            if self.app.is_wide_table(table) {
                sink.i64_extend_i32_u();
            }
            // The host may have put it there.
            sink.table_get(table).ref_is_null().if_(BlockType::Empty);
            sink.global_get(via_index).i32_const(0).i32_const(0).call(element).br(2).end();
            sink.local_get(trapped).if_(BlockType::Empty);
            sink.global_get(via_index).call(other).i32_const(0).call(element).br(2).end().end();
        }
        for (ty, commit) in commits {
            sink.global_get(pending.ty).i32_const(ty.cast_signed() + 1).i32_eq();
            sink.if_(BlockType::Empty).call(*commit).end();
        }
        sink.global_get(pending.ty).i32_eqz().if_(BlockType::Empty);
        self.stop(sink, Why::Reference, false);
        sink.end();
        sink.i32_const(0).global_set(self.runtime.inside).end();
        sink.i32_const(0).global_set(via).end();
        let signature = self.signature(&[ValType::I32], &[]);
        self.add(signature, "commit", code)
    }

    /// Defines the function that ends the trace: a pending call has trapped.
    fn finish(&mut self, pending: &Pending) -> u32 {
        let mut code = Function::new([]);
        let sink = &mut code.instructions();
        sink.global_get(self.runtime.inside).global_get(self.runtime.via).i32_const(0).i32_gt_s();
        sink.i32_and().if_(BlockType::Empty).i32_const(1).call(pending.commit).end();
        sink.call(self.own("finish")).end();
        let signature = self.signature(&[], &[]);
        self.add(signature, "finish", code)
    }

    /// Checks whether the call of a local's element traps, if the host does not fetch the trace.
    fn before_a_call(&self, sink: &mut InstructionSink<'_>, table: u32, index: u32) {
        if !self.has_file {
            return;
        }
        let is_wide = self.app.is_wide_table(table);
        let [outside, null] = [Reason::UndefinedElement, Reason::UninitializedElement]
            .map(|reason| self.made.traps[&reason]);
        sink.local_get(index).table_size(table);
        if is_wide {
            sink.i64_ge_u()
        } else {
            sink.i32_ge_u()
        };
        sink.if_(BlockType::Empty).call(outside).else_();
        sink.local_get(index).table_get(table).ref_is_null().if_(BlockType::Empty);
        sink.local_get(index);
        if is_wide {
            sink.i32_wrap_i64();
        }
        sink.i32_const(0).i32_const(0).call(self.own(&format!("element:{table}")));
        sink.call(null).end().end();
    }

    /// Defines the function that replaces a call through a table.
    fn through(&mut self, ty: u32, table: u32) -> Result<u32, Error> {
        let first = self.app.types.first_equal(ty);
        let [mut params, results] = self.shape(first)?;
        let (args, all) = (params.len() as u32, results.len() as u32);
        let (index, saved) = (args, args + 1 + all);
        let is_wide = self.app.is_wide_table(table);
        params.push(if is_wide { ValType::I64 } else { ValType::I32 });
        let mut locals: Vec<(u32, ValType)> = results.iter().map(|ty| (1, *ty)).collect();
        locals.push((1, ValType::I32));
        let mut code = Function::new(locals);
        let sink = &mut code.instructions();
        let pending = self.pending.as_ref().expect("there are such calls");
        let (inside, depth, via) = (self.runtime.inside, self.runtime.depth, self.runtime.via);
        self.before_a_call(sink, table, index);
        for (local, global) in (0..).zip(&pending.args[&first]) {
            sink.local_get(local).global_set(*global);
        }
        sink.i32_const(first.cast_signed() + 1).global_set(pending.ty);
        self.via(sink, table, index);
        sink.global_get(depth).local_set(saved);
        let commit = |sink: &mut InstructionSink<'_>| {
            sink.global_get(via).if_(BlockType::Empty).i32_const(0).call(pending.commit).end();
        };
        let unwind = self.own("unwind");
        let end = |sink: &mut InstructionSink<'_>| {
            // The host has continued after calls that have not returned.
            sink.global_get(depth).local_get(saved).i32_ne().if_(BlockType::Empty);
            sink.local_get(saved).call(unwind).end().i32_const(1).global_set(inside);
        };
        self.call(sink, Callee::Through(ty, table), args, args + 1..saved, |sink| {
            commit(sink);
            // An exception of the program's own passes.
            sink.global_get(inside).if_(BlockType::Result(ValType::I32)).i32_const(0).else_();
            end(sink);
            sink.i32_const(4).end();
        });
        commit(sink);
        sink.global_get(inside).if_(BlockType::Empty);
        let known = results.iter().zip(&pending.results[&first]);
        for (local, (ty, global)) in (args + 1..).zip(known) {
            differ(sink, *ty, local, *global);
            sink.if_(BlockType::Empty);
            self.stop(sink, Why::Foreign, false);
            sink.end();
        }
        sink.i32_const(0).global_set(pending.returned).else_();
        end(sink);
        self.begin(sink, 4, &[]);
        sink.i32_const(0).call(self.own("byte"));
        self.values(sink, args + 1, self.app.types.get(first).results(), Way::In);
        sink.call(self.made.sizes).end();
        (args + 1..saved).for_each(|local| {
            sink.local_get(local);
        });
        sink.end();
        let signature = self.signature(&params, &results);
        Ok(self.add(signature, &format!("through.{ty}.{table}"), code))
    }

    /// Pushes whether a gateway of a function that the program refers to is called by the program.
    fn is_direct(&self, sink: &mut InstructionSink<'_>, function: u32) -> Result<(), Error> {
        let pending = self.pending.as_ref().expect("there are such calls");
        let via = self.runtime.via;
        let of = self.app.declared.type_of(function).expect("a valid module");
        let first = self.app.types.first_equal(of);
        sink.global_get(via).i32_const(-1).i32_eq();
        sink.global_get(via).i32_const(0).i32_gt_s();
        let Some(args) = pending.args.get(&first) else {
            sink.global_get(pending.ty).i32_eqz().i32_and().i32_or();
            return Ok(());
        };
        let [params, _] = self.shape(first)?;
        sink.global_get(pending.ty).i32_const(first.cast_signed() + 1).i32_eq().i32_and();
        for (local, (ty, global)) in (0..).zip(params.iter().zip(args)) {
            if !matches!(ty, ValType::Ref(_)) {
                differ(sink, *ty, local, *global);
                sink.i32_eqz().i32_and();
            }
        }
        sink.i32_or();
        Ok(())
    }

    /// The beginning of a gateway, if there are pending calls: if the program calls, `call` calls
    /// the function, whose results are kept in locals. Behind it the host calls.
    pub(super) fn pending_entry(
        &self,
        sink: &mut InstructionSink<'_>,
        function: u32,
        results: Range<u32>,
        call: impl Fn(&mut InstructionSink<'_>),
    ) -> Result<(), Error> {
        let Some(pending) = &self.pending else { return Ok(()) };
        let (inside, via) = (self.runtime.inside, self.runtime.via);
        sink.global_get(inside).if_(BlockType::Empty);
        if self.app.referred.contains(&function) {
            self.is_direct(sink, function)?;
            sink.if_(BlockType::Empty);
            self.by_reference(sink, function);
            call(sink);
            results.clone().rev().for_each(|local| {
                sink.local_set(local);
            });
            let of = self.app.declared.type_of(function).expect("a valid module");
            if let Some(known) = pending.results.get(&self.app.types.first_equal(of)) {
                sink.i32_const(1).global_set(pending.returned);
                for (local, global) in results.clone().zip(known) {
                    sink.local_get(local).global_set(*global);
                }
            }
            let ty = self.app.declared.function(function).expect("a valid module");
            self.results(sink, results.start, ty.results());
            sink.return_().end();
        }
        sink.global_get(via).i32_const(0).i32_gt_s();
        sink.if_(BlockType::Empty).i32_const(0).call(pending.commit).end();
        // Otherwise the host continues after a trap, in the only call that there was, or has called
        // another gateway before.
        sink.global_get(inside).if_(BlockType::Empty).global_get(pending.returned);
        sink.if_(BlockType::Empty);
        self.stop(sink, Why::Foreign, false);
        sink.end().global_get(self.runtime.depth).i32_const(1).i32_ne().if_(BlockType::Empty);
        self.stop(sink, Why::Trapped, false);
        sink.end().i32_const(0).call(self.own("unwind")).end().end();
        Ok(())
    }
}
