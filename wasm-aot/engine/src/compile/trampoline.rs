//! Generates trampolines between the host's calling convention and Wasm's.
//!
//! ```text
//!   enter  host → Wasm   fn(vmctx, code, values)            one for each type: loads the arguments, calls, stores the results
//!   leave  Wasm → host   a function of that type            one for each type: notes where it was, stores the arguments, calls the host
//!   throw  Wasm → runtime                                   one: reports the frame that throws
//! ```
//!
//! Values cross in an array of 16 bytes each.

use super::call::builtin_signature;
use super::function::{Compiled, FUNCTIONS, SINGLES, finish, machine_type, signature};
use super::patchable_site::SharedSites;
use super::target::Target;
use crate::error::CompileError;
use crate::module::{ModuleInfo, Space};
use crate::types::{FuncType, ValType};
use crate::vm::{Builtin, at};
use cranelift_codegen::Context;
use cranelift_codegen::ir::{
    AbiParam, Function, InstBuilder, MemFlagsData, Signature, StackSlotData, StackSlotKind,
    UserFuncName, Value, types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};

/// Which trampoline. Types are the module's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TrampolineKind {
    /// Into a function of that type.
    Enter(u32),
    /// Out of Wasm, to a host function of that type.
    Leave(u32),
    /// To the handler that catches.
    Throw,
}

/// A trampoline, compiled.
pub(crate) struct Trampoline {
    pub(crate) kind: TrampolineKind,
    pub(crate) compiled: Compiled,
}

/// The trampolines that a module needs: into all functions that the host may get a reference to,
/// and out to all functions that it imports.
pub(super) fn all(info: &ModuleInfo, target: &Target) -> Result<Vec<Trampoline>, CompileError> {
    let mut kinds = Vec::new();
    let canonical = canonical(info);
    let of = |index: u32| canonical[info.functions[index as usize] as usize];
    let entered: BTreeSet<u32> =
        info.referenced.iter().copied().chain(info.start).map(of).collect();
    kinds.extend(entered.into_iter().map(TrampolineKind::Enter));
    let imports = info.imports.iter().filter(|import| import.space == Space::Func);
    let left: BTreeSet<u32> = imports.map(|import| of(import.index)).collect();
    kinds.extend(left.into_iter().map(TrampolineKind::Leave));
    kinds.push(TrampolineKind::Throw);
    kinds
        .into_iter()
        .map(|kind| {
            let compiled = match kind {
                TrampolineKind::Enter(ty) => enter(&info.types[ty as usize], target)?,
                TrampolineKind::Leave(ty) => leave(&info.types[ty as usize], target)?,
                TrampolineKind::Throw => throw(target)?,
            };
            Ok(Trampoline { kind, compiled })
        })
        .collect()
}

/// For each type, the first that is represented in the same way.
fn canonical(info: &ModuleInfo) -> Vec<u32> {
    let mut first = HashMap::new();
    info.types
        .iter()
        .zip(0..)
        .map(|(ty, index)| *first.entry(super::shape(ty)).or_insert(index))
        .collect()
}

/// Both trampolines of a type, for functions that no module declares.
pub(crate) fn pair(ty: &FuncType, target: &Target) -> Result<[Compiled; 2], CompileError> {
    Ok([enter(ty, target)?, leave(ty, target)?])
}

/// Compiles a function that `build` writes.
fn make_trampoline(
    signature: Signature,
    target: &Target,
    build: impl FnOnce(&mut FunctionBuilder<'_>, &[Value]),
) -> Result<Compiled, CompileError> {
    let mut frontend = FunctionBuilderContext::new();
    let mut context = Context::for_function(Function::with_name_signature(
        UserFuncName::user(SINGLES, FUNCTIONS),
        signature,
    ));
    let mut builder = FunctionBuilder::new(&mut context.func, &mut frontend);
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    let params = builder.block_params(entry).to_vec();
    build(&mut builder, &params);
    builder.seal_all_blocks();
    builder.finalize(target.isa.frontend_config());
    finish(&mut context, target, (&wasm_aot_body::Loops::none(), 0), &SharedSites::default())
        .map(|compiled| compiled.expect("no loop, no osr_exit"))
}

fn load(builder: &mut FunctionBuilder<'_>, ty: ValType, values: Value, i: usize) -> Value {
    builder.ins().load(machine_type(ty), MemFlagsData::trusted(), values, 16 * i as i32)
}

fn enter(ty: &FuncType, target: &Target) -> Result<Compiled, CompileError> {
    let mut entry = Signature::new(CallConv::SystemV);
    entry.params.extend([AbiParam::new(types::I64); 3]);
    make_trampoline(entry, target, |builder, params| {
        let &[vmctx, code, values] = params else { unreachable!("three parameters") };
        let mut args = vec![vmctx];
        args.extend(ty.params().iter().enumerate().map(|(i, ty)| load(builder, *ty, values, i)));
        let callee = builder.import_signature(signature(ty));
        let call = builder.ins().call_indirect(callee, code, &args);
        let results = builder.inst_results(call).to_vec();
        for (i, result) in results.into_iter().enumerate() {
            builder.ins().store(MemFlagsData::trusted(), result, values, 16 * i as i32);
        }
        builder.ins().return_(&[]);
    })
}

fn leave(ty: &FuncType, target: &Target) -> Result<Compiled, CompileError> {
    let slots = ty.params().len().max(ty.results().len()) as u32;
    make_trampoline(signature(ty), target, |builder, params| {
        let trusted = MemFlagsData::trusted();
        let host = params[0];
        note_exit(builder, host);
        let slot = builder.create_sized_stack_slot(StackSlotData::new(
            StackSlotKind::ExplicitSlot,
            slots * 16,
            4,
        ));
        let values = builder.ins().stack_addr(types::I64, slot, 0);
        for (i, param) in params[1..].iter().enumerate() {
            builder.ins().store(trusted, *param, values, 16 * i as i32);
        }
        let mut callee = Signature::new(CallConv::SystemV);
        callee.params.extend([AbiParam::new(types::I64); 2]);
        callee.returns.push(AbiParam::new(types::I32));
        let callee = builder.import_signature(callee);
        let code = builder.ins().load(types::I64, trusted, host, at::HOST_CALL);
        let call = builder.ins().call_indirect(callee, code, &[host, values]);
        let failed = builder.inst_results(call)[0];
        let (good, bad) = (builder.create_block(), builder.create_block());
        builder.set_cold_block(bad);
        builder.ins().brif(failed, bad, &[], good, &[]);
        builder.switch_to_block(bad);
        // The failure is in the store; this does not return.
        let mut raise = Signature::new(CallConv::SystemV);
        raise.params.push(AbiParam::new(types::I64));
        let raise = builder.import_signature(raise);
        let code = builder.ins().load(types::I64, trusted, host, at::HOST_RAISE);
        builder.ins().call_indirect(raise, code, &[host]);
        builder.ins().trap(crate::trap::Trap::Unreachable.code());
        builder.switch_to_block(good);
        let results: Vec<Value> =
            ty.results().iter().enumerate().map(|(i, ty)| load(builder, *ty, values, i)).collect();
        builder.ins().return_(&results);
    })
}

/// Records in the store which frame of Wasm code called the host, and where: backtraces begin
/// there.
fn note_exit(builder: &mut FunctionBuilder<'_>, vmctx: Value) {
    let trusted = MemFlagsData::trusted();
    let store = builder.ins().load(types::I64, trusted, vmctx, at::STORE);
    let frame = builder.ins().get_frame_pointer(types::I64);
    let caller = builder.ins().load(types::I64, trusted, frame, 0);
    let pc = builder.ins().get_return_address(types::I64);
    builder.ins().store(trusted, caller, store, at::EXIT_FRAME);
    builder.ins().store(trusted, pc, store, at::EXIT_PC);
}

fn throw(target: &Target) -> Result<Compiled, CompileError> {
    let mut thrower = Signature::new(CallConv::Tail);
    thrower.params.extend([AbiParam::new(types::I64); 2]);
    make_trampoline(thrower, target, |builder, params| {
        let trusted = MemFlagsData::trusted();
        let &[vmctx, exception] = params else { unreachable!("two parameters") };
        let frame = builder.ins().get_frame_pointer(types::I64);
        let caller = builder.ins().load(types::I64, trusted, frame, 0);
        let pc = builder.ins().get_return_address(types::I64);
        let table = builder.ins().load(types::I64, trusted, vmctx, at::BUILTINS);
        let code = builder.ins().load(types::I64, trusted, table, Builtin::Throw.offset());
        let callee = builder.import_signature(builtin_signature(Builtin::Throw));
        builder.ins().call_indirect(callee, code, &[vmctx, exception, caller, pc]);
        builder.ins().trap(crate::trap::Trap::Unreachable.code());
    })
}
