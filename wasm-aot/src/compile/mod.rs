//! From a module's bytes to machine code, on one screen.
//!
//! Bodies are validated and compiled function by function on all processors; what each thread makes depends on its function alone, so that the
//! same bytes give the same code.

mod atomic;
mod call;
mod control;
mod exception;
mod function;
mod global;
mod memory;
mod numeric;
mod operator;
mod reference;
mod simd;
mod table;
mod target;
mod text;
mod trampoline;

pub(crate) use target::Target;
pub use target::{Optimize, Options};
pub(crate) use text::{AddressMap, Handler, Span, Text, TrapSite};
pub(crate) use trampoline::TrampolineKind;

use crate::error::CompileError;
use crate::module::{self, ModuleInfo};
use crate::types::{FuncType, ValType};
use crate::vm::Layout;
use function::{Compiled, Compiler};
use rayon::prelude::*;

/// Whether functions of both types are called in the same way.
pub(crate) fn same_signature(one: &FuncType, other: &FuncType) -> bool {
    let same = |one: &[ValType], other: &[ValType]| {
        one.len() == other.len()
            && one.iter().zip(other).all(|(one, other)| function::machine_type(*one) == function::machine_type(*other))
    };
    same(one.params(), other.params()) && same(one.results(), other.results())
}

/// The code by which functions of a type are entered, and by which host functions of it are called.
pub(crate) fn bridge(ty: &FuncType, target: &Target) -> Result<[Vec<u8>; 2], CompileError> {
    Ok(trampoline::pair(ty, target)?.map(|compiled| compiled.code))
}

/// A compiled module.
#[derive(Debug)]
pub(crate) struct Compilation {
    pub(crate) info: ModuleInfo,
    pub(crate) text: Text,
}

/// Compiles a module.
pub(crate) fn compile(bytes: &[u8], target: &Target) -> Result<Compilation, CompileError> {
    let module::Reading { info, bodies } = module::read(bytes, target.options.features)?;
    let layout = Layout::new(&info);
    let functions = bodies
        .into_par_iter()
        .map_init(Compiler::default, |compiler, body| {
            let index = body.index;
            compiler.function(&info, &layout, target, body).map_err(|error| error.within(index, info.function_name(index)))
        })
        .collect::<Vec<Result<Compiled, CompileError>>>();
    // The first error by position, whichever thread was the first to meet one.
    let functions = functions.into_iter().collect::<Result<Vec<_>, _>>()?;
    let trampolines = trampoline::all(&info, target)?;
    let text = Text::link(&info, functions, trampolines);
    Ok(Compilation { info, text })
}
