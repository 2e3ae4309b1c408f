//! The state of a store when a trap has ended its program, as other tools read it: the [core
//! dumps](https://github.com/WebAssembly/tool-conventions/blob/main/Coredump.md) of Wasm.
//!
//! Frames are copied before they are unwound, by the code that unwinds them; memories and globals
//! stay as they are until a dump is made.
//!
//! # Safety
//!
//! This module exists to read stacks, and memories that code may write to.
#![allow(unsafe_code)]

use super::activation::Fault;
use super::backtrace;
use super::instance::InstanceData;
use super::module::ModuleInner;
use super::store::{AsContextMut, Store, StoreCore};
use crate::compile;
use crate::types::{HeapType, ValType};
use std::collections::BTreeMap;
use wasm_encoder::{
    ConstExpr, CoreDumpInstancesSection, CoreDumpModulesSection, CoreDumpSection,
    CoreDumpStackSection, CoreDumpValue, DataSection, GlobalSection, GlobalType, MemorySection,
    MemoryType, RefType,
};

/// The values that a frame keeps, as [`compile`] places them: its instance's vmctx, and its locals.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    vmctx: usize,
    locals: Vec<u64>,
}

/// A frame that a trap has unwound.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    /// Its instance, by its place among the store's.
    instance: Option<usize>,
    function: u32,
    /// Where it was, from the beginning of the function's body.
    offset: u32,
    locals: Vec<CoreDumpValue>,
}

/// Reads the frame of code that is at `pc`, if it can be read. Usable in a signal handler that has
/// interrupted machine code.
///
/// # Safety
/// `frame` is the frame pointer of machine code that is at `pc`, or calls from there.
pub(super) unsafe fn read(store: &StoreCore, pc: usize, frame: usize) -> Option<Kept> {
    let (module, code, offset) = store.module_at(pc)?;
    if code.has_not_begun(offset) {
        return None;
    }
    let at = frame - code.frame_at(offset)?;
    let count = compile::kept(module.locals(code.function_at(offset)?).len());
    // SAFETY: (1) the caller, see # Safety: what the frame keeps begins there, with the vmctx and
    // as many locals.
    unsafe {
        let locals = std::slice::from_raw_parts((at + 8) as *const u64, count).to_vec();
        Some(Kept { vmctx: *(at as *const usize), locals })
    }
}

/// Records the frames that a trap has unwound, and those that are left outside of its activation.
/// If the budget did not suffice for an instruction, the innermost frame was there.
pub(super) fn remember_fault(store: &StoreCore, fault: &Fault, unaffordable: Option<u32>) {
    if !store.reads_frames {
        return;
    }
    let nothing = std::iter::repeat(&None);
    let gone = fault.frames.iter().zip(fault.kept.iter().chain(nothing)).enumerate();
    // Return addresses are after the call that they belong to.
    let gone = gone.filter_map(|(i, (pc, kept))| {
        store.taken(if i == 0 { *pc } else { pc - 1 }, kept.as_ref())
    });
    let mut frames: Vec<Taken> = gone.collect();
    frames.extend(waiting(store));
    if let (Some(at), Some(innermost), Some(pc)) =
        (unaffordable, frames.first_mut(), fault.frames.first())
        && let Some((module, ..)) = store.module_at(*pc)
    {
        innermost.offset = at - module.info.body(innermost.function).start;
    }
    *store.trapped.lock() = frames;
}

/// Records the frames that a host function was called from that has failed.
pub(super) fn remember_failure(store: &StoreCore) {
    if store.reads_frames {
        *store.trapped.lock() = waiting(store);
    }
}

/// The frames that wait for the host.
fn waiting(store: &StoreCore) -> Vec<Taken> {
    let taken = |(pc, frame): (usize, usize)| {
        // SAFETY: (1) the frame waits for the host.
        let kept = unsafe { read(store, pc - 1, frame) };
        store.taken(pc - 1, kept.as_ref())
    };
    backtrace::outside(store).into_iter().filter_map(taken).collect()
}

impl ModuleInner {
    /// The types of a defined function's locals, its parameters first.
    fn locals(&self, defined: usize) -> Vec<ValType> {
        let index = self.info.imported.functions + defined as u32;
        let mut locals = self.info.function_type(index).params().to_vec();
        for declared in self.body(defined).get_locals_reader().into_iter().flatten() {
            let Some((count, ty)) = declared
                .ok()
                .and_then(|(count, ty)| Some((count, crate::module::value_type(ty, 0).ok()?)))
            else {
                break;
            };
            locals.extend(std::iter::repeat_n(ty, count as usize));
        }
        locals
    }
}

impl StoreCore {
    /// A frame at `pc`, as a dump shows it.
    fn taken(&self, pc: usize, kept: Option<&Kept>) -> Option<Taken> {
        let (module, code, offset) = self.module_at(pc)?;
        let defined = code.function_at(offset)?;
        let function = module.info.imported.functions + defined as u32;
        let start = module.info.body(function).start;
        let at = if code.has_not_begun(offset) { start } else { code.wasm_offset(offset)? };
        let is_of = |instance: &InstanceData| std::ptr::eq(&*instance.module, module);
        let own = kept.and_then(|kept| {
            self.instances.iter().position(|of| is_of(of) && of.base() == kept.vmctx)
        });
        // If a frame has no instance, the words in the place of locals are not its own.
        let words = own.and(kept).map_or(&[][..], |kept| &kept.locals);
        let words = words.iter().map(|word| Some(*word)).chain(std::iter::repeat(None));
        let locals = module
            .locals(defined)
            .into_iter()
            .zip(words)
            .map(|(ty, word)| value(ty, word))
            .collect();
        let instance = own.or_else(|| self.instances.iter().position(|of| is_of(of)));
        Some(Taken { instance, function, offset: at - start, locals })
    }
}

/// A local as dumps show it. They have no vectors and references.
fn value(ty: ValType, word: Option<u64>) -> CoreDumpValue {
    match (ty, word) {
        (ValType::I32, Some(word)) => CoreDumpValue::I32(word as u32 as i32),
        (ValType::I64, Some(word)) => CoreDumpValue::I64(word as i64),
        (ValType::F32, Some(word)) => CoreDumpValue::F32(f32::from_bits(word as u32).into()),
        (ValType::F64, Some(word)) => CoreDumpValue::F64(f64::from_bits(word).into()),
        (ValType::V128 | ValType::Ref(_), _) | (_, None) => CoreDumpValue::Missing,
    }
}

impl<T> Store<T> {
    /// The program's state after a trap, or a failure of a host function, has ended it: a core dump
    /// of Wasm, in which `program` is the program's name. It contains the frames that the last of
    /// these has unwound, with those of their locals that are numbers, and memories and globals as
    /// they are now, of all instances except monitors. None if none has ended code whose frames can
    /// be read, see
    /// [`Config::readable_frames`](crate::Config::readable_frames).
    pub fn core_dump(&mut self, program: &str) -> Option<Vec<u8>> {
        let mut context = self.as_context_mut();
        let core = context.core();
        let frames = core.trapped.lock().clone();
        (!frames.is_empty()).then(|| Dump::of(core).write(core, program, &frames))
    }
}

/// The items in a dump, by their places among the store's; an item's number in the dump is its
/// place here.
#[derive(Debug, Default)]
struct Dump {
    instances: Vec<usize>,
    memories: Vec<usize>,
    globals: Vec<usize>,
}

impl Dump {
    /// The program's items.
    fn of(core: &StoreCore) -> Self {
        let mut dump = Self::default();
        for (i, instance) in
            core.instances.iter().enumerate().filter(|(_, instance)| !instance.looks_on.get())
        {
            dump.instances.push(i);
            dump.memories.extend(&instance.memories);
            dump.globals.extend(&instance.globals);
        }
        for all in [&mut dump.memories, &mut dump.globals] {
            all.sort_unstable();
            all.dedup();
        }
        dump
    }

    fn write(&self, core: &StoreCore, program: &str, frames: &[Taken]) -> Vec<u8> {
        let number = |all: &[usize], one: &usize| {
            all.binary_search(one).expect("all of the program's are there") as u32
        };
        let (mut modules, mut names) = (BTreeMap::new(), CoreDumpModulesSection::new());
        let mut instances = CoreDumpInstancesSection::new();
        for instance in self.instances.iter().map(|at| &core.instances[*at]) {
            let module =
                *modules.entry(std::sync::Arc::as_ptr(&instance.module)).or_insert_with(|| {
                    names.module(instance.module.info.name.as_deref().unwrap_or_default());
                    names.len() - 1
                });
            let numbers = |all: &[usize], own: &[usize]| {
                own.iter().map(|one| number(all, one)).collect::<Vec<u32>>()
            };
            let (memories, globals) = (
                numbers(&self.memories, &instance.memories),
                numbers(&self.globals, &instance.globals),
            );
            instances.instance(module, memories, globals);
        }
        let mut stack = CoreDumpStackSection::new("main");
        for frame in frames {
            // A monitor's frame does not belong to the program.
            let Some(instance) =
                frame.instance.and_then(|at| self.instances.binary_search(&at).ok())
            else {
                continue;
            };
            stack.frame(instance as u32, frame.function, frame.offset, frame.locals.clone(), []);
        }
        let (memories, data) = self.memories(core);
        let mut dump = wasm_encoder::Module::new();
        dump.section(&CoreDumpSection::new(program))
            .section(&memories)
            .section(&self.globals(core))
            .section(&data);
        dump.section(&names).section(&instances).section(&stack);
        dump.finish()
    }

    fn memories(&self, core: &StoreCore) -> (MemorySection, DataSection) {
        let (mut memories, mut data) = (MemorySection::new(), DataSection::new());
        for (number, memory) in self.memories.iter().map(|at| &core.memories[*at]).enumerate() {
            let (ty, (base, len)) = (memory.ty, memory.extent());
            memories.memory(MemoryType {
                minimum: memory.pages(),
                maximum: ty.maximum,
                memory64: ty.wide,
                shared: ty.shared,
                page_size_log2: None,
            });
            // Pieces that are all zeroes are left out; there are no more pieces than readers
            // accept.
            let piece = (len / PIECES).next_multiple_of(LEAST).max(LEAST);
            let mut bytes = vec![0; piece];
            for at in (0..len).step_by(piece) {
                let bytes = &mut bytes[..piece.min(len - at)];
                // SAFETY: (1) inside of the memory; (2) what other threads write meanwhile is
                // copied or not.
                unsafe {
                    std::ptr::copy_nonoverlapping(base.add(at), bytes.as_mut_ptr(), bytes.len());
                };
                if bytes.iter().any(|byte| *byte != 0) {
                    let offset = if ty.wide {
                        ConstExpr::i64_const(at as i64)
                    } else {
                        ConstExpr::i32_const(at as i32)
                    };
                    data.active(number as u32, &offset, bytes.iter().copied());
                }
            }
        }
        (memories, data)
    }

    fn globals(&self, core: &StoreCore) -> GlobalSection {
        let mut globals = GlobalSection::new();
        for global in self.globals.iter().map(|at| &core.globals[*at]) {
            // SAFETY: (1) a global's value lives as long as the store.
            let value = unsafe { global.value.read() };
            let (val_type, value) = match global.ty.content {
                ValType::I32 => (wasm_encoder::ValType::I32, ConstExpr::i32_const(value as i32)),
                ValType::I64 => (wasm_encoder::ValType::I64, ConstExpr::i64_const(value as i64)),
                ValType::F32 => (
                    wasm_encoder::ValType::F32,
                    ConstExpr::f32_const(f32::from_bits(value as u32).into()),
                ),
                ValType::F64 => (
                    wasm_encoder::ValType::F64,
                    ConstExpr::f64_const(f64::from_bits(value as u64).into()),
                ),
                ValType::V128 => {
                    (wasm_encoder::ValType::V128, ConstExpr::v128_const(value as i128))
                }
                // What it refers to is not in the dump.
                ValType::Ref(ty) => {
                    let ty = nullable(ty.heap);
                    (wasm_encoder::ValType::Ref(ty), ConstExpr::ref_null(ty.heap_type))
                }
            };
            globals
                .global(GlobalType { val_type, mutable: global.ty.mutable, shared: false }, &value);
        }
        globals
    }
}

/// The type of null references of a kind.
fn nullable(heap: HeapType) -> RefType {
    match heap {
        HeapType::Func | HeapType::Concrete(_) | HeapType::NoFunc => RefType::FUNCREF,
        HeapType::Extern | HeapType::NoExtern => RefType::EXTERNREF,
        HeapType::Exn | HeapType::NoExn => RefType::EXNREF,
        HeapType::Any
        | HeapType::Eq
        | HeapType::I31
        | HeapType::Struct
        | HeapType::Array
        | HeapType::None => RefType::ANYREF,
    }
}

/// The granularity at which a memory is written or left out, and into how many pieces a memory is
/// divided at most.
const LEAST: usize = 4 << 10;
const PIECES: usize = 50_000;
