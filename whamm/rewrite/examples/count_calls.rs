//! Counts how often each function of a program is called, and from where: no script, no report,
//! only globals that are exported.
//!
//! `cargo run -p whamm-rewrite --example count_calls -- PROGRAM.wasm OUTPUT.wasm`. Each exported
//! global `calls:CALLER:CALLEE` holds how often a direct call was executed, `calls:indirect:CALLER`
//! the same of all others.

use std::collections::BTreeMap;
use wasm_encoder::{ConstExpr, ExportKind, GlobalType, ValType};
use wasmparser::Operator;
use whamm_rewrite::{BodyPlan, Error, Plan, Program, emit};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, output] = &arguments[..] else {
        return Err("count_calls: expected a program and where the output goes".into());
    };
    std::fs::write(output, counting(&std::fs::read(program)?)?)?;
    Ok(())
}

/// The program with a counter for each pair of caller and callee.
pub(crate) fn counting(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let program = Program::decode(bytes)?;
    let mut plan = Plan::new(&program);
    let mut counters: BTreeMap<String, u32> = BTreeMap::new();
    for body in &program.bodies {
        let mut own = BodyPlan::empty(body)?;
        for instruction in body.instructions()? {
            if let Some(callee) = callee(&instruction.operator) {
                let next = program.globals + counters.len() as u32;
                let name = match callee {
                    Some(callee) => format!("calls:{}:{callee}", body.function),
                    None => format!("calls:indirect:{}", body.function),
                };
                let counter = *counters.entry(name).or_insert(next);
                own.put().global_get(counter).i64_const(1).i64_add().global_set(counter);
            }
            own.keep(instruction.place);
        }
        plan.bodies.push(own);
    }
    for (name, counter) in counters {
        let ty = GlobalType { val_type: ValType::I64, mutable: true, shared: false };
        plan.globals.push((ty, ConstExpr::i64_const(0)));
        plan.exports.push((name, ExportKind::Global, counter));
    }
    Ok(emit(&program, &plan)?.module)
}

/// Whether an instruction is a call, and of which function if it names one.
fn callee(operator: &Operator<'_>) -> Option<Option<u32>> {
    match operator {
        Operator::Call { function_index } | Operator::ReturnCall { function_index } => {
            Some(Some(*function_index))
        }
        Operator::CallIndirect { .. }
        | Operator::CallRef { .. }
        | Operator::ReturnCallIndirect { .. }
        | Operator::ReturnCallRef { .. } => Some(None),
        _ => None,
    }
}
