//! Stand-ins: functions that direct calls call instead of their callee, where the code around the
//! call is not inlined. So the program has this code once for each function, and not once for each
//! call, which engines compile in less time.
//!
//! A stand-in has the parameters of its function; two globals hold the caller's node and the slot
//! of the function's node in it. Its code is the same as at an inlined call: see `body.rs`.

use crate::app::App;
use crate::body::Sink;
use crate::gateway::next_index;
use crate::runtime::Runtime;
use crate::shape::Shapes;
use std::collections::BTreeMap;
use wasm_encoder::{BlockType, Function, ValType};
use whamm_rewrite::Plan;

/// Creates them; returns them by the function that they replace.
pub(crate) fn make(
    plan: &mut Plan,
    app: &App,
    shapes: &Shapes,
    runtime: &Runtime,
) -> BTreeMap<u32, u32> {
    let mut stand_ins = BTreeMap::new();
    for function in shapes.callees() {
        let index = next_index(plan);
        let body = body(plan.indices.function(function), function, app, shapes, runtime);
        plan.functions.push((app.functions[function as usize], body));
        plan.names.push((index, format!("fastinst.call.{function}")));
        stand_ins.insert(function, index);
    }
    stand_ins
}

fn body(callee: u32, function: u32, app: &App, shapes: &Shapes, runtime: &Runtime) -> Function {
    let node = app.parameters(function);
    let at = node + 1;
    let id = (function + 1).cast_signed();
    let how = shapes.callee(app, function);
    let mut body = Function::new([(2, ValType::I32)]);
    let call = |body: &mut Function| {
        (0..node).for_each(|parameter| {
            body.instructions().local_get(parameter);
        });
        body.instructions().call(callee);
    };
    let mut sink = Sink { runtime, to: body.instructions() };
    sink.to.global_get(runtime.from).local_tee(node).global_get(runtime.slot).i32_add();
    sink.word(0).to.local_tee(at).if_(BlockType::Empty);
    sink.begin(at, how);
    call(&mut body);
    let mut sink = Sink { runtime, to: body.instructions() };
    sink.end(node, at, how);
    if how.is_host {
        sink.to.local_get(node).global_set(runtime.cur);
    }
    sink.to.return_().end();
    sink.to.local_get(node).global_get(runtime.slot).i32_const(id);
    sink.to.call(runtime.enter).local_set(at);
    call(&mut body);
    body.instructions().local_get(node).local_get(at).call(runtime.leave).end();
    body
}

#[cfg(test)]
mod tests {
    /// The functions of a module that have stand-ins.
    fn stand_ins(text: &str) -> Vec<u32> {
        let module = wat::parse_str(text).expect("a module");
        let made = crate::profile(&module, &crate::Options::default()).expect("it is rewritten");
        wasmparser::Validator::new_with_features(wasmparser::WasmFeatures::all())
            .validate_all(&made.module)
            .expect("valid");
        let has = |function: &u32| {
            let name = format!("fastinst.call.{function}");
            made.module.windows(name.len()).any(|window| window == name.as_bytes())
        };
        (0..8).filter(has).collect()
    }

    #[test]
    fn a_function_that_few_calls_name_has_no_stand_in() {
        let text = r#"(module
            (func $leaf)
            (func $once (param i64) (result f32) (call $leaf) (f32.const 1))
            (func $often (param i32) (result i32) (call $leaf) (local.get 0))
            (func (export "_start")
                (drop (call $once (i64.const 1)))
                (drop (call $often (call $often (call $often (i32.const 2)))))))"#;
        assert_eq!(stand_ins(text), [2]);
    }
}
