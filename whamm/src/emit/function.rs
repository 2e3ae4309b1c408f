//! Functions of scripts.

use super::code::{Emitter, Scope};
use super::locals::Locals;
use super::storage::Storage;
use super::support::{Shape, Support};
use crate::fold::Known;
use crate::hir::{Function, Program};
use crate::library::Library;
use crate::types::Ty;

/// Writes the functions of scripts that are called, and their callees. `known` are facts that hold
/// at no particular site.
pub(crate) fn write_called(
    support: &mut Support,
    globals: &[Storage],
    known: &dyn Known,
    program: &Program,
    libraries: &[Library],
) {
    while let Some((number, index)) = support.unwritten() {
        let function = &program.functions[number as usize];
        let (shape, body) = write(support, function, (globals, known), program, libraries);
        support.define(index, &shape, body);
    }
}

/// Writes a function: its type and its code.
fn write(
    support: &mut Support,
    function: &Function,
    (globals, known): (&[Storage], &dyn Known),
    program: &Program,
    libraries: &[Library],
) -> (Shape, wasm_encoder::Function) {
    let params: Vec<_> = function.locals[..function.params].iter().flat_map(Ty::slots).collect();
    let results = function.result.slots();
    let mut locals = Locals::new(u32::try_from(params.len()).unwrap_or(0));
    let scope = Scope { globals: globals.to_vec(), ..Scope::default() };
    let mut emitter = Emitter::new(support, &mut locals, &scope, known, program, libraries);
    emitter.enter_function(&function.locals, function.params);
    emitter.function_body(&function.stmts);
    let code = std::mem::take(&mut emitter.out);
    let mut body = wasm_encoder::Function::new(locals.types().iter().map(|&t| (1, t)));
    body.raw(code);
    if !results.is_empty() {
        // Every path returns: the checker has verified it.
        body.instructions().unreachable();
    }
    body.instructions().end();
    ((params, results), body)
}
