//! Gateways: what the host and references call in the place of a function.
//!
//! A call that does not name its callee cannot find its node, and the host knows no nodes at all.
//! So whatever is exported or referred to is a gateway: it asks where the call comes from, enters
//! the node of the function that it stands for, and leaves it. Direct calls go past it.

use crate::Error;
use crate::app::App;
use crate::runtime::Runtime;
use std::collections::{BTreeMap, BTreeSet};
use wasm_encoder::{ExportKind, Function, ValType};
use whamm_rewrite::{Plan, Program};

/// The export by which the host interface `prof` asks for all arcs.
pub(crate) const EXPORT_DATA: &str = "exportData";

/// What the host calls to run the program, or a thread of it.
fn is_entry(app: &App, name: &str) -> bool {
    let is_main = name == "main" && !app.exported.contains("_start");
    is_main || matches!(name, "_start" | "wasi_thread_start")
}

/// Makes the gateways: which one stands for which function.
pub(crate) fn make(
    plan: &mut Plan,
    program: &Program<'_>,
    app: &App,
    runtime: &Runtime,
    tells_always: bool,
) -> Result<BTreeMap<u32, u32>, Error> {
    let own = |function: &u32| *function >= app.imported();
    let exported: BTreeSet<u32> = app.exports.iter().map(|export| export.1).filter(own).collect();
    let entries: BTreeSet<u32> = app
        .exports
        .iter()
        .filter(|export| tells_always || is_entry(app, &export.0))
        .map(|export| export.1)
        .collect();
    let mut stand_for = exported.clone();
    stand_for.extend(app.referred.iter().copied());
    stand_for.extend(app.tail_called.iter().copied());
    let mut gateways = BTreeMap::new();
    for function in stand_for {
        let ends = runtime.tells_ends && entries.contains(&function);
        let index = add(plan, app, runtime, function, ends);
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
        let is_all = app.exports.is_empty();
        let first = start_function(plan, program, app, runtime, start, is_all);
        plan.start = Some(first);
    }
    Ok(gateways)
}

fn next_index(plan: &Plan) -> u32 {
    plan.indices.functions() + plan.functions.len() as u32
}

/// A gateway for a function.
fn add(plan: &mut Plan, app: &App, runtime: &Runtime, function: u32, ends: bool) -> u32 {
    let parameters = app.parameters(function);
    let mut body = Function::new([(1, ValType::I32)]);
    body.instructions()
        .call(runtime.origin)
        .local_tee(parameters)
        .i32_const((function + 1).cast_signed())
        .call(runtime.enter_child);
    (0..parameters).for_each(|parameter| {
        body.instructions().local_get(parameter);
    });
    body.instructions()
        .call(plan.indices.function(function))
        .local_get(parameters)
        .call(runtime.leave);
    if ends {
        body.instructions().local_get(parameters).call(runtime.ended);
    }
    body.instructions().end();
    let index = next_index(plan);
    plan.functions.push((app.functions[function as usize], body));
    plan.names.push((index, format!("fastinst.gateway.{function}")));
    index
}

/// What runs when the module is instantiated: the program's start function, which is timed only if
/// the host can call nothing else.
fn start_function(
    plan: &mut Plan,
    program: &Program<'_>,
    app: &App,
    runtime: &Runtime,
    start: u32,
    is_all: bool,
) -> u32 {
    let gateway = add(plan, app, runtime, start, is_all && runtime.tells_ends);
    if is_all {
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

/// What the host fetches profiles by.
pub(crate) fn export(plan: &mut Plan, app: &App, runtime: &Runtime, is_wasi_memory: bool) {
    let functions = [("fastinst:profile", runtime.profile), ("fastinst:report", runtime.report)];
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
