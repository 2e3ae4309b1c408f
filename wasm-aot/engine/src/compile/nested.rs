//! Calls or inlines functions of another module in the code of a function.
//!
//! A monitor that is a module ([`Guest`]) has an instance of its own, whose addresses are known:
//! its vmctx and the bases of its memories are constants. Inlining translates the monitor's
//! function in place of the call, with operands, frames and locals of its own; meanwhile the
//! translator uses the other module's declarations. Constant arguments are folded, with the
//! branches that depend on them.
//!
//! Inlined instructions carry the place of the instruction at which they are inserted, with a bit
//! that marks them as inlined ([`ASIDE`]).

use super::activation_slots::{ActivationSlots, SlotName};
use super::control::Frame;
use super::control::FrameKind;
use super::counting::Counting;
use super::emitter::Emitter;
use super::function::{Regions, Translator, machine_type};
use super::hook::Hooking;
use super::plan::Word;
use crate::error::CompileError;
use crate::module::ModuleInfo;
use crate::offsets::ASIDE;
use crate::types::{FuncType, ValType};
use crate::vm::{Builtin, Layout, at};
use cranelift_codegen::ir::{
    AliasRegionData, FuncRef, InstBuilder, InstructionData, Opcode, SigRef, SourceLoc, Type, Value,
    ValueDef, types,
};
use cranelift_frontend::Variable;
use std::collections::HashMap;
use std::sync::Arc;

/// The largest body that is inlined at a program's instruction, in bytes.
const PROBE: usize = 160;
/// The largest body that is inlined in another inlined body.
const CALLEE: usize = 80;
/// How deep bodies are inlined in one another.
const DEPTH: u32 = 6;
/// How many bytes are inlined in one function.
const ALL: usize = 1 << 20;

/// How functions of guests are called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Calls {
    /// By a call each time.
    Direct,
    /// Inlined if they are small.
    #[default]
    Inlined,
}

/// A module whose code is in memory: its functions can be inlined from their bodies, or called.
pub trait Linked: std::fmt::Debug + Send + Sync {
    /// What it declares.
    fn info(&self) -> &ModuleInfo;
    /// The module as it was given.
    fn bytes(&self) -> &[u8];
    /// The layout of the vmctx of its instances.
    fn layout(&self) -> &Layout;
    /// The address of the code of a function that it defines.
    fn function_code(&self, index: u32) -> *const u8;
}

/// An instance whose functions may be called from another module's code.
#[derive(Debug)]
pub struct Guest {
    /// Its module.
    pub module: Arc<dyn Linked>,
    /// The address of its vmctx. Nothing if each thread has an instance of its own: then the caller
    /// supplies it.
    pub(crate) vmctx: Option<usize>,
    /// The addresses of its memories, as far as they never move.
    pub(crate) bases: Vec<Option<usize>>,
    /// What its imported functions are.
    pub imports: Vec<Import>,
    /// How its functions are called.
    pub calls: Calls,
    /// Which of its functions use slots of activations, themselves or through others: these are
    /// always inlined.
    pub(crate) framed: Vec<bool>,
    /// The number that distinguishes its slots of activations from other monitors'.
    pub(crate) number: u32,
}

/// A function that a guest imports.
#[derive(Clone, Debug)]
pub enum Import {
    /// A function of another guest.
    Guest(Arc<Guest>, u32),
    /// Reads a slot of the activation.
    ReadSlot,
    /// Writes a slot of the activation.
    WriteSlot,
    /// Anything else.
    Other,
}

impl Guest {
    /// What its module declares.
    pub fn info(&self) -> &ModuleInfo {
        self.module.info()
    }

    fn size(&self, function: u32) -> Option<usize> {
        let body = self
            .info()
            .bodies
            .get(function.checked_sub(self.info().imported.functions)? as usize)?;
        Some((body.end - body.start) as usize)
    }

    /// Whether a function is small enough to be inlined where a probe calls it.
    pub fn is_small(&self, function: u32) -> bool {
        self.is_framed(function) || self.size(function).is_some_and(|size| size <= PROBE)
    }

    /// Whether it uses slots of activations.
    pub fn is_framed(&self, function: u32) -> bool {
        self.framed.get(function as usize).copied().unwrap_or_default()
    }
}

/// A body that is being inlined.
pub(super) struct Inlining<'a> {
    guest: &'a Guest,
    depth: u32,
    /// The instruction of the program at which it is inlined.
    place: u32,
}

/// What a function keeps of its guests.
#[derive(Default)]
pub(super) struct Guests<'a> {
    /// The body that is being inlined, if any.
    pub(super) inlining: Option<Inlining<'a>>,
    regions: Option<Regions>,
    pub(super) slots: ActivationSlots,
    written: usize,
}

impl<'a> Emitter<'_, 'a> {
    /// Calls a function of another instance, or inlines it here, for the instruction at `place`. If
    /// the other instance is not the same in all threads, a word of the program's instance holds
    /// its address.
    pub fn call_guest(
        &mut self,
        (guest, instance_pointer): (&'a Guest, Option<Word>),
        function: u32,
        args: &[Value],
        place: u32,
    ) -> Result<Vec<Value>, CompileError> {
        let vmctx = match instance_pointer {
            Some(word) => self.load_fixed_word(word),
            None => self.translator.instance_pointer_of(guest),
        };
        self.translator.call_guest((guest, vmctx), function, args, place)
    }

    /// The size of a memory in bytes.
    pub fn memory_bytes(&mut self, memory: u32) -> Value {
        self.translator.memory_len(memory)
    }

    /// 1 if a reference is of a type; nothing for types that have no values in this engine.
    pub fn is_of(&mut self, reference: Value, ty: wasmparser::RefType) -> Option<Value> {
        self.translator.is_of(reference, ty.heap_type(), ty.is_nullable()).ok()
    }

    /// The index of a function, or -1: of the element of a table at `place`, or of the function
    /// that `place` refers to.
    pub fn resolved(&mut self, table: Option<u32>, place: Value) -> Value {
        let place = self.translator.widened(place);
        let table = self.translator.number(table.unwrap_or(u32::MAX));
        self.translator.builtin(Builtin::Resolve, &[table, place]).expect("a result")
    }
}

/// The state of the function that is translated.
struct Surroundings<'a> {
    info: &'a ModuleInfo,
    layout: &'a Layout,
    counting: &'a Counting,
    hooking: Hooking<'a>,
    index: u32,
    vmctx: Value,
    regions: Regions,
    stack: Vec<Value>,
    frames: Vec<Frame>,
    reachable: bool,
    locals: Vec<(Variable, Type)>,
    signatures: HashMap<u32, SigRef>,
    functions: HashMap<u32, FuncRef>,
    offset: usize,
    inlining: Option<Inlining<'a>>,
}

static UNCOUNTED: Counting = Counting::NONE;

impl<'a> Translator<'a> {
    /// Whether a body is being inlined in the function.
    pub(super) fn is_nested(&self) -> bool {
        self.guests.inlining.is_some()
    }

    /// The address of a memory of the guest whose body is inlined, if it never moves.
    pub(super) fn guest_base(&mut self, memory: u32) -> Option<Value> {
        let base =
            self.guests.inlining.as_ref()?.guest.bases.get(memory as usize).copied().flatten()?;
        Some(self.builder.ins().iconst(types::I64, base as i64))
    }

    /// The vmctx of a guest whose address is constant.
    fn instance_pointer_of(&mut self, guest: &Guest) -> Value {
        let vmctx =
            guest.vmctx.expect("a guest that moves is called by those who know where it is");
        self.builder.ins().iconst(types::I64, vmctx as i64)
    }

    /// Calls a function of a guest with that vmctx, or inlines it; `place` is the instruction of
    /// the program at which that happens.
    fn call_guest(
        &mut self,
        (guest, vmctx): (&'a Guest, Value),
        function: u32,
        args: &[Value],
        place: u32,
    ) -> Result<Vec<Value>, CompileError> {
        let depth = self.guests.inlining.as_ref().map_or(0, |inlining| inlining.depth + 1);
        let size = guest.size(function);
        let most = if depth == 0 { PROBE } else { CALLEE };
        let is_small = size.is_some_and(|size| size <= most && self.guests.written + size <= ALL);
        let is_wanted = guest.calls == Calls::Inlined && is_small && depth < DEPTH;
        match (size, guest.is_framed(function) || is_wanted) {
            (Some(size), true) if depth < 4 * DEPTH => {
                self.guests.written += size;
                self.write_out((guest, vmctx), function, args, depth, place)
            }
            (Some(_), true) => Err(self.unsupported(
                "functions of a monitor that use an activation's slots and call themselves",
            )),
            _ => Ok(self.call_out((guest, vmctx), function, args, place)),
        }
    }

    /// Calls a function of a guest.
    fn call_out(
        &mut self,
        (guest, vmctx): (&'a Guest, Value),
        function: u32,
        args: &[Value],
        place: u32,
    ) -> Vec<Value> {
        let before = self.builder.srcloc();
        self.builder.set_srcloc(SourceLoc::new(place | ASIDE));
        let signature = self
            .builder
            .import_signature(super::function::signature(guest.info().function_type(function)));
        let (code, vmctx) = match function < guest.info().imported.functions {
            // The address of a function that is imported and exported again is in the guest's own
            // instance.
            true => {
                let (fixed, import) = (self.fixed(), guest.module.layout().function(function));
                let code =
                    self.builder.ins().load(types::I64, fixed, vmctx, import + at::FUNC_CODE);
                (code, self.builder.ins().load(types::I64, fixed, vmctx, import + at::FUNC_VMCTX))
            }
            false => (
                self.builder.ins().iconst(types::I64, guest.module.function_code(function) as i64),
                vmctx,
            ),
        };
        let all: Vec<Value> = [vmctx].into_iter().chain(args.iter().copied()).collect();
        let call = self.builder.ins().call_indirect(signature, code, &all);
        let results = self.builder.inst_results(call).to_vec();
        self.builder.set_srcloc(before);
        results
    }

    /// Inlines a function's body.
    fn write_out(
        &mut self,
        (guest, vmctx): (&'a Guest, Value),
        function: u32,
        args: &[Value],
        depth: u32,
        place: u32,
    ) -> Result<Vec<Value>, CompileError> {
        let before = self.builder.srcloc();
        self.builder.set_srcloc(SourceLoc::new(place | ASIDE));
        let (info, bytes): (&'a ModuleInfo, &'a [u8]) = (guest.info(), guest.module.bytes());
        let body = info.bodies[(function - info.imported.functions) as usize].clone();
        let reader = wasmparser::BinaryReader::new(
            &bytes[body.start as usize..body.end as usize],
            u64::from(body.start),
        );
        let body = wasmparser::FunctionBody::new(reader);
        let ty = info.function_type(function);
        let behind = self.block(ty.results());
        let regions = self.guest_regions();
        let results = ty.results().len();
        let frame = Frame {
            kind: FrameKind::Block,
            behind,
            arity: results,
            results,
            height: 0,
            reached: false,
        };
        let mut other = Surroundings {
            info,
            layout: guest.module.layout(),
            counting: &UNCOUNTED,
            hooking: Hooking::default(),
            index: function,
            vmctx,
            regions,
            stack: Vec::new(),
            frames: vec![frame],
            reachable: true,
            locals: Vec::new(),
            signatures: HashMap::new(),
            functions: HashMap::new(),
            offset: 0,
            inlining: Some(Inlining { guest, depth, place }),
        };
        self.exchange(&mut other);
        let done = self.body(ty, args, &body);
        self.exchange(&mut other);
        done?;
        if !other.reachable {
            // It never returns: the code that follows is translated anyway, and removed.
            let never = self.block(ty.results());
            self.builder.switch_to_block(never);
            self.builder.seal_block(never);
            other.stack = self.builder.block_params(never).to_vec();
        }
        self.builder.set_srcloc(before);
        Ok(other.stack)
    }

    /// Translates the instructions of an inlined body. Its results are left on the stack.
    fn body(
        &mut self,
        ty: &FuncType,
        args: &[Value],
        body: &wasmparser::FunctionBody<'_>,
    ) -> Result<(), CompileError> {
        for (ty, value) in ty.params().iter().zip(args) {
            let value = self.plain(*value);
            self.declare_local(*ty, value);
        }
        for local in body.get_locals_reader()? {
            let (count, ty) = local?;
            let ty = crate::module::value_type(ty, self.offset)?;
            let zero = self.zero(ty);
            (0..count).for_each(|_| self.declare_local(ty, zero));
        }
        let mut reader = body.get_operators_reader()?;
        while !reader.eof() {
            let (operator, offset) = reader.read_with_offset()?;
            self.offset = offset as usize;
            self.operator(&operator)?;
            self.limit_values()?;
        }
        Ok(())
    }

    fn exchange(&mut self, other: &mut Surroundings<'a>) {
        std::mem::swap(&mut self.info, &mut other.info);
        std::mem::swap(&mut self.layout, &mut other.layout);
        std::mem::swap(&mut self.counting, &mut other.counting);
        std::mem::swap(&mut self.hooking, &mut other.hooking);
        std::mem::swap(&mut self.index, &mut other.index);
        std::mem::swap(&mut self.vmctx, &mut other.vmctx);
        std::mem::swap(&mut self.regions, &mut other.regions);
        std::mem::swap(&mut self.stack, &mut other.stack);
        std::mem::swap(&mut self.frames, &mut other.frames);
        std::mem::swap(&mut self.reachable, &mut other.reachable);
        std::mem::swap(&mut self.locals, &mut other.locals);
        std::mem::swap(&mut self.signatures, &mut other.signatures);
        std::mem::swap(&mut self.functions, &mut other.functions);
        std::mem::swap(&mut self.offset, &mut other.offset);
        std::mem::swap(&mut self.guests.inlining, &mut other.inlining);
    }

    /// Memory of guests never overlaps the program's. Guests may import from each other, so that
    /// they share theirs.
    fn guest_regions(&mut self) -> Regions {
        let func = &mut self.builder.func;
        *self.guests.regions.get_or_insert_with(|| {
            let mut region = |user_id, name: &'static str| {
                func.dfg.alias_regions.insert(AliasRegionData { user_id, description: name.into() })
            };
            Regions {
                vmctx: region(6, "guests' vmctx"),
                heap: region(7, "guests' heap"),
                table: region(8, "guests' table"),
                counters: region(9, "guests' counters"),
                buffer: region(10, "guests' buffer"),
            }
        })
    }

    /// Translates a call in an inlined body. Returns whether it did.
    pub(super) fn call_nested(&mut self, index: u32) -> Result<bool, CompileError> {
        let Some(Inlining { guest, place, .. }) = self.guests.inlining else { return Ok(false) };
        let ty = guest.info().function_type(index);
        let (callee, vmctx, function) = match guest.imports.get(index as usize) {
            None => (guest, self.vmctx, index),
            Some(Import::Guest(callee, function)) if callee.vmctx.is_some() => {
                (&**callee, self.instance_pointer_of(callee), *function)
            }
            Some(Import::Guest(callee, function)) => {
                let vmctx = self.fixed_word(guest.module.layout().function(index) + at::FUNC_VMCTX);
                (&**callee, vmctx, *function)
            }
            Some(Import::ReadSlot) => {
                let name = self.slot_name(guest.number, ty.results()[0])?;
                let variable = self.activation_slot(name);
                let value = self.builder.use_var(variable);
                self.push(value);
                return Ok(true);
            }
            Some(Import::WriteSlot) => {
                let value = self.pop();
                let name = self.slot_name(guest.number, ty.params()[1])?;
                self.write_activation_slot(name, value);
                return Ok(true);
            }
            Some(Import::Other) => return Ok(false),
        };
        let args = self.pop_many(ty.params().len());
        let results = self.call_guest((callee, vmctx), function, &args, place)?;
        self.stack.extend(results);
        Ok(true)
    }

    /// A value, if it is a constant.
    pub(super) fn known(&self, value: Value) -> Option<i64> {
        let dfg = &self.builder.func.dfg;
        match dfg.value_def(value) {
            ValueDef::Result(inst, _) => match dfg.insts[inst] {
                InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits()),
                _ => None,
            },
            _ => None,
        }
    }

    /// The slot whose number is on the stack.
    fn slot_name(&mut self, guest: u32, ty: ValType) -> Result<SlotName, CompileError> {
        let number = self.pop();
        match self.known(number) {
            Some(constant) => Ok((guest, constant as i32, machine_type(ty))),
            None => Err(self.unsupported("slots of activations that are not constants")),
        }
    }
}
