//! Gateways: functions that the host and references call in place of the program's.
//!
//! A call that does not name its callee cannot find its node, and the host knows no nodes. So every
//! function that is exported or referred to is replaced by a gateway: it determines the origin of
//! the call, enters the node of its function, and leaves it. If it was reached by a tail call, it
//! tail-calls the function, so that a program whose tail calls are a loop needs no more stack: the
//! caller of the first one leaves the last. Direct calls bypass it.

use crate::Options;
use crate::app::App;
use crate::body::Sink;
use crate::runtime::{ROW, Runtime};
use crate::shape::Shapes;
use std::collections::{BTreeMap, BTreeSet};
use wasm_encoder::{BlockType, ExportKind, Function, InstructionSink, ValType};
use whamm_rewrite::{Plan, Program};

/// The export that the host interface `prof` calls to get all arcs.
pub(crate) const EXPORT_DATA: &str = "exportData";

/// The approximate size of a gateway's fast path; and how much all of these may add beyond an
/// eighth of the program's code.
const QUICK: u64 = 75;
const ROOM: u64 = 4 << 10;

/// Whether the host calls this export to run the program, or a thread of it.
fn is_entry(app: &App, name: &str) -> bool {
    let is_main = name == "main" && !app.exported.contains("_start");
    is_main || matches!(name, "_start" | "wasi_thread_start")
}

/// Creates the gateways, and has exports and references refer to them.
pub(crate) fn make(
    plan: &mut Plan,
    program: &Program<'_>,
    app: &App,
    shapes: &Shapes,
    runtime: &Runtime,
    options: &Options,
) {
    let own = |function: &u32| *function >= app.imported();
    let tells_always = options.tells_always();
    let exported: BTreeSet<u32> = app.exports.iter().map(|export| export.1).filter(own).collect();
    let entries: BTreeSet<u32> = app
        .exports
        .iter()
        .filter(|export| tells_always || is_entry(app, &export.0))
        .map(|export| export.1)
        .collect();
    let mut gateways = BTreeMap::new();
    let makes = Maker { app, shapes, runtime };
    let has_room = app.referred.len() as u64 * QUICK <= program.code_len() / 8 + ROOM;
    for function in exported.union(&app.referred).copied() {
        let ends = runtime.tells_ends && entries.contains(&function);
        let is_quick = has_room && app.referred.contains(&function) && !runtime.ends(app, function);
        let index = makes.add(plan, function, is_quick, ends);
        gateways.insert(function, index);
        if app.referred.contains(&function) {
            plan.indices.refer(function, index);
        }
    }
    for (name, function) in &app.exports {
        if let Some(gateway) = gateways.get(function).filter(|_| own(function)) {
            plan.rerouted.insert(name.clone(), *gateway);
        }
    }
    if let Some(start) = program.start {
        let is_quiet = app.starts_quietly();
        let first = start_function(plan, program, &makes, start, is_quiet);
        plan.start = Some(first);
    }
}

/// The index of the next function that is added to the plan.
pub(crate) fn next_index(plan: &Plan) -> u32 {
    plan.indices.functions() + plan.functions.len() as u32
}

/// The data that gateways are created from.
struct Maker<'a> {
    app: &'a App,
    shapes: &'a Shapes,
    runtime: &'a Runtime,
}

impl Maker<'_> {
    /// Adds a gateway for a function.
    fn add(&self, plan: &mut Plan, function: u32, is_quick: bool, ends: bool) -> u32 {
        let (app, runtime) = (self.app, self.runtime);
        let from = app.parameters(function);
        let at = from + 1;
        let id = (function + 1).cast_signed();
        let callee = plan.indices.function(function);
        let mut body = Function::new([(2, ValType::I32)]);
        if is_quick {
            self.quick(&mut body, (function, callee), (from, at));
        }
        if app.tails_indirectly && app.referred.contains(&function) {
            self.after_tail_call(&mut body, (function, callee));
        }
        body.instructions().call(runtime.origin).local_tee(from).i32_const(id);
        body.instructions().call(runtime.enter_gate).local_set(at);
        self.before_exit(&mut body, function);
        self.put_arguments(&mut body, function).call(callee);
        body.instructions().local_get(from).local_get(at).call(runtime.leave);
        if ends {
            body.instructions().local_get(from).call(runtime.ended);
        }
        body.instructions().end();
        let index = next_index(plan);
        plan.functions.push((app.functions[function as usize], body));
        plan.names.push((index, format!("fastinst.gateway.{function}")));
        index
    }

    /// Puts the function's arguments, which are the gateway's, on the stack.
    fn put_arguments<'b>(&self, body: &'b mut Function, function: u32) -> InstructionSink<'b> {
        let mut to = body.instructions();
        (0..self.app.parameters(function)).for_each(|parameter| {
            to.local_get(parameter);
        });
        to
    }

    /// Writes the path for tail calls.
    fn after_tail_call(&self, body: &mut Function, (function, callee): (u32, u32)) {
        let runtime = self.runtime;
        let id = (function + 1).cast_signed();
        body.instructions().global_get(runtime.via).i32_const(1).i32_and().if_(BlockType::Empty);
        body.instructions().i32_const(id).call(runtime.tail_gate);
        self.before_exit(body, function);
        self.put_arguments(body, function).return_call(callee);
        body.instructions().end();
    }

    /// Reports the profile if the function ends the program.
    fn before_exit(&self, body: &mut Function, function: u32) {
        if self.runtime.ends(self.app, function) {
            body.instructions().call(self.runtime.exiting);
        }
    }

    /// Writes the fast path, for calls that come from the same node as the previous one, and are
    /// not timed.
    fn quick(&self, body: &mut Function, (function, callee): (u32, u32), (from, at): (u32, u32)) {
        let runtime = self.runtime;
        let how = self.shapes.callee(self.app, function);
        let row = u64::from(runtime.rows + ROW * (function + 1));
        let mut sink = Sink { runtime, to: body.instructions() };
        sink.to.global_get(runtime.via).local_tee(from).i32_const(1).i32_xor().i32_const(0);
        sink.word(row + 16).to.i32_eq().if_(BlockType::Empty);
        sink.to.i32_const(0).global_set(runtime.via).i32_const(0);
        sink.word(row + 20).to.local_set(at);
        sink.begin(at, how);
        self.put_arguments(body, function).call(callee);
        Sink { runtime, to: body.instructions() }.end(from, at, how);
        body.instructions().return_().end();
    }
}

/// Defines the start function, which calls the program's own. That call is timed only if the host
/// can call nothing else.
fn start_function(
    plan: &mut Plan,
    program: &Program<'_>,
    makes: &Maker<'_>,
    start: u32,
    is_quiet: bool,
) -> u32 {
    let runtime = makes.runtime;
    let gateway = makes.add(plan, start, false, !is_quiet && runtime.tells_ends);
    if !is_quiet {
        return gateway;
    }
    let mut body = Function::new([]);
    body.instructions()
        .i32_const(1)
        .call(runtime.starting)
        .call(gateway)
        .i32_const(0)
        .call(runtime.starting)
        .end();
    let index = next_index(plan);
    let ty = program.types + plan.types.len() as u32;
    plan.types.push((Vec::new(), Vec::new()));
    plan.functions.push((ty, body));
    plan.names.push((index, "fastinst.start".to_owned()));
    index
}

/// Exports the functions with which the host fetches profiles.
pub(crate) fn export(plan: &mut Plan, app: &App, runtime: &Runtime, is_wasi_memory: bool) {
    let functions = [
        ("fastinst:profile", runtime.profile),
        ("fastinst:report", runtime.report),
        ("fastinst:end", runtime.end),
    ];
    for (name, index) in functions {
        plan.exports.push((name.to_owned(), ExportKind::Func, index));
    }
    if let Some(index) = runtime.export_data {
        plan.exports.push((EXPORT_DATA.to_owned(), ExportKind::Func, index));
    }
    plan.exports.push(("fastinst:memory".to_owned(), ExportKind::Memory, runtime.memory));
    if is_wasi_memory && !app.exported.contains("memory") {
        plan.exports.push(("memory".to_owned(), ExportKind::Memory, runtime.memory));
    }
}
