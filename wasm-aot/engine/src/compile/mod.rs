//! The compiler: from a module's bytes to machine code, every phase on one screen.
//!
//! Bodies are validated and compiled function by function on all CPUs. The code of a function
//! depends on the function alone, so that the same bytes give the same code.

mod access;
mod activation_slots;
mod atomic;
mod budget;
mod call;
mod control;
mod counting;
mod detours;
mod emitter;
mod exception;
mod frames;
mod function;
mod global;
mod hook;
mod memory;
mod nested;
mod numeric;
mod one_shot;
mod operator;
mod osr;
mod osr_exit;
mod patchable_site;
mod pending_event;
mod placement;
mod plan;
mod recompilation;
mod reference;
mod replacing;
mod simd;
mod table;
mod tables;
mod target;
mod text;
mod trampoline;
mod worker_stacks;

pub use access::Access;
pub(crate) use activation_slots::{ENTRY_WORDS, owner_and_type};
pub use budget::Budget;
pub(crate) use budget::BudgetRow;
pub use detours::Detours;
pub use emitter::Emitter;
pub(crate) use frames::kept;
pub use function::Callee;
pub(crate) use nested::Linked;
pub use nested::{Calls, Guest, Import};
pub(crate) use one_shot::OneShotSite;
pub use one_shot::{OneShotClient, OneShotProbe};
pub use osr::OsrLoops;
pub(crate) use osr::{BUFFER, MIDDLE};
pub(crate) use osr_exit::{OFF, ON, OsrExit};
pub(crate) use patchable_site::{CALL, LENGTH, PatchableSite};
pub(crate) use plan::Hook;
pub use plan::{
    Action, Call, Capture, Carried, Draft, Firing, HookId, Inline, InstanceSlots, Mode, Plan,
    Receiver, Sequence, Word,
};
pub(crate) use recompilation::CodeChunk;
pub use recompilation::{Recompilation, Wanted};
pub(crate) use tables::Tables;
pub use target::Target;
pub use target::{Cpu, Optimize, Options, Sites};
pub(crate) use text::Handler;
pub use text::{Span, Text};
pub(crate) use trampoline::TrampolineKind;

use crate::error::{CompileError, Place};
use crate::module::{self, ModuleInfo};
use crate::types::{FuncType, ValType};
use crate::vm::Layout;
use counting::Counting;
use cranelift_codegen::ir::Type;
use function::{Compiled, Compiler, Setting};
use rayon::prelude::*;

/// How functions of a type are called: equal for types that machine code does not distinguish.
pub(crate) fn shape(ty: &FuncType) -> (Vec<Type>, Vec<Type>) {
    let all = |types: &[ValType]| types.iter().map(|ty| function::machine_type(*ty)).collect();
    (all(ty.params()), all(ty.results()))
}

/// The trampolines that enter functions of a type, and that call host functions of it.
pub(crate) fn bridge(ty: &FuncType, target: &Target) -> Result<[Vec<u8>; 2], CompileError> {
    Ok(worker_stacks::with_enough_stack(|| trampoline::pair(ty, target))?
        .map(|compiled| compiled.code))
}

/// A compiled module.
#[derive(Debug)]
pub struct Compilation {
    pub info: ModuleInfo,
    pub text: Text,
    /// How many counters its instances have.
    pub(crate) counters: u32,
    /// How many calls through tables and references are counted by target.
    pub(crate) calls: u32,
    /// How many loops there are at which threads can change the variant (OSR exits).
    pub(crate) loops: u32,
}

/// Compiles a module, and the hooks of a plan into it.
pub fn compile(bytes: &[u8], target: &Target, plan: &Plan) -> Result<Compilation, CompileError> {
    worker_stacks::with_threads(|| compile_here(bytes, target, plan))
}

fn compile_here(bytes: &[u8], target: &Target, plan: &Plan) -> Result<Compilation, CompileError> {
    too_large(bytes.len(), u32::MAX as usize, "the module")?;
    let module::Reading { info, bodies } = module::read(bytes, target.options.features)?;
    let counting = if target.options.counts {
        Counting::of(&bodies, target.options.targets, plan, &Detours::default())?
    } else {
        Counting::default()
    };
    let loops = target.options.sites.contains(Sites::LOOPS);
    let osr_loops =
        if loops { OsrLoops::of(&info, &bodies, bytes.len()) } else { OsrLoops::default() };
    let first_word = counting.len() + 2 * counting.calls();
    too_large(
        first_word as usize + plan.words() as usize,
        counting::COUNTERS,
        "what is observed of the module",
    )?;
    let layout = Layout::new(&info, first_word + plan.words());
    let setting = Setting {
        info: &info,
        layout: &layout,
        target,
        counting: &counting,
        osr_loops: &osr_loops,
        plan,
        first_word,
    };
    let functions = bodies
        .into_par_iter()
        .map_init(Compiler::default, |compiler, body| {
            let index = body.index;
            compiler
                .function(setting, &body)
                .map_err(|error| error.within(index, info.function_name(index)))
        })
        .collect::<Vec<Result<Compiled, CompileError>>>();
    // The first error by position, whichever thread found one first.
    let functions = functions.into_iter().collect::<Result<Vec<_>, _>>()?;
    let trampolines = trampoline::all(&info, target)?;
    let code: usize = functions.iter().map(|compiled| compiled.code.len() + placement::MOST).sum();
    // Calls reach two gigabytes; trampolines are small beside what is left below that.
    too_large(code, 0x7000_0000, "the module's code")?;
    let mut text = Text::link(&info, &functions, &trampolines, target.options.sites);
    text.plan = plan.clone();
    Ok(Compilation {
        info,
        text,
        counters: counting.len(),
        calls: counting.calls(),
        loops: osr_loops.len(),
    })
}

fn too_large(bytes: usize, most: usize, what: &str) -> Result<(), CompileError> {
    match bytes <= most {
        true => Ok(()),
        false => {
            let what = format!("{what} has {bytes} bytes, and {most} are the most");
            Err(CompileError::TooLarge { what, place: Place::default() })
        }
    }
}
