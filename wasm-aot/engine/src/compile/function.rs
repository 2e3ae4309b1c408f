//! Validates, translates and compiles one function.

use super::budget::BudgetRow;
use super::control::Frame;
use super::counting::Counting;
use super::frames;
use super::hook::Hooking;
use super::nested::Guests;
use super::one_shot::{self, OneShotSite};
use super::osr::{self, OsrBufferLayout, OsrLoops, PendingOsrExit};
use super::osr_exit::{self, OsrExit};
use super::patchable_site::{self, PatchableSite, SharedSites};
use super::placement::{self, Loop};
use super::plan::Plan;
use super::target::Target;
use super::text::Handler;
use crate::error::{CompileError, Place};
use crate::module::{self, Body, ModuleInfo};
use crate::offsets::{NOTHING, OffsetEntry};
use crate::trap::Trap;
use crate::types::{FuncType, ValType};
use crate::vm::{Layout, at};
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{
    AbiParam, AliasRegion, AliasRegionData, ArgumentPurpose, Block, ExternalName, FuncRef,
    Function, GlobalValue, GlobalValueData, InstBuilder, MemFlagsData, SigRef, Signature,
    SourceLoc, StackSlot, Type, UserFuncName, Value, types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_codegen::{
    CodegenError, Context, FinalizedMachExceptionHandler, FinalizedRelocTarget, MachBufferFinalized,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable};
use std::collections::HashMap;
use wasm_aot_body::{Loops, Way};
use wasmparser::{FuncValidator, FuncValidatorAllocations, ValidatorResources};

/// The name space of functions in CLIF.
pub(super) const FUNCTIONS: u32 = 0;
/// The name space of functions that every module may have once.
pub(super) const SINGLES: u32 = 1;

/// The most values of one function while it is translated: many times those that registers can be
/// allocated for.
const VALUES: usize = 1 << 23;

/// The target of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee {
    /// The function with that index.
    Function(u32),
    /// The trampoline that throws.
    Throw,
}

/// Four bytes of code that hold the distance to a callee.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallAt {
    pub(crate) at: u32,
    pub(crate) target: Callee,
}

/// The code of a function, and what is known about its addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Compiled {
    pub(crate) code: Vec<u8>,
    pub(crate) calls: Vec<CallAt>,
    /// Instructions that trap, and why.
    pub(crate) traps: Vec<OffsetEntry>,
    /// Where the code of instructions of Wasm begins, and where they are in the module.
    pub(crate) addresses: Vec<OffsetEntry>,
    pub(crate) handlers: Vec<Handler>,
    /// Its short loops.
    pub(crate) loops: Vec<Loop>,
    /// Where threads can change the variant (OSR exits).
    pub(crate) osr_exits: Vec<OsrExit>,
    pub(crate) patchable_sites: Vec<PatchableSite>,
    /// Sites of one-shot probes, in order.
    pub(crate) one_shot_sites: Vec<OneShotSite>,
    /// How far below their frame pointers its frames keep their readable values; 0 if they keep
    /// none.
    pub(crate) frame: u32,
}

/// What all functions of a module are compiled with.
#[derive(Clone, Copy)]
pub(super) struct Setting<'a> {
    pub(super) info: &'a ModuleInfo,
    pub(super) layout: &'a Layout,
    pub(super) target: &'a Target,
    pub(super) counting: &'a Counting,
    pub(super) osr_loops: &'a OsrLoops,
    pub(super) plan: &'a Plan,
    /// The number of the first word of an instance that the plan's hooks use.
    pub(super) first_word: u32,
}

impl<'a> Setting<'a> {
    /// The loops of a function, and the number of the first. A function in which hooks make control
    /// fall through after branches has none: other locals are live there than the program's code
    /// implies, and other variants do not pass them.
    fn loops_of(&self, index: u32) -> (&'a Loops, u32) {
        static NONE: Loops = Loops::none();
        if self.plan.falls_through(index) {
            return (&NONE, 0);
        }
        self.osr_loops.of_function((index - self.info.imported.functions) as usize)
    }
}

/// The state that a thread compiles with, and keeps from function to function. A translation that
/// fails leaves its blocks and variables in the frontend, so that the next function begins with a
/// new one.
pub(super) struct Compiler {
    context: Context,
    frontend: FunctionBuilderContext,
    allocations: FuncValidatorAllocations,
}

impl Default for Compiler {
    fn default() -> Self {
        let (frontend, allocations) =
            (FunctionBuilderContext::new(), FuncValidatorAllocations::default());
        Self { context: Context::new(), frontend, allocations }
    }
}

impl Compiler {
    /// Compiles one function of a module.
    pub(super) fn function(
        &mut self,
        setting: Setting<'_>,
        body: &Body<'_>,
    ) -> Result<Compiled, CompileError> {
        let compiled = self.code(setting, body, None)?;
        Ok(compiled.expect("every function has a beginning"))
    }

    /// Compiles a function from its beginning, or from the header of one of its loops. `None` if
    /// the loop has no entry because more operands are on the stack there than the OSR buffer
    /// holds.
    pub(super) fn code(
        &mut self,
        setting: Setting<'_>,
        body: &Body<'_>,
        osr_entry: Option<usize>,
    ) -> Result<Option<Compiled>, CompileError> {
        // Without OSR exits, no branch can have an unexpected shape.
        for has_osr_exits in [true, false] {
            match self.attempt(setting, body.again(), osr_entry, has_osr_exits)? {
                Attempt::Done(compiled) => return Ok(compiled.map(|compiled| *compiled)),
                Attempt::Unexpected => {}
            }
        }
        Err(CompileError::Target("code generation makes branches that are not expected".into()))
    }

    fn attempt(
        &mut self,
        setting: Setting<'_>,
        body: Body<'_>,
        osr_entry: Option<usize>,
        has_osr_exits: bool,
    ) -> Result<Attempt, CompileError> {
        let Body { index, validate, body } = body;
        if osr_entry.is_some() && setting.plan.falls_through(index) {
            return Ok(Attempt::Done(None));
        }
        let mut validator = validate.into_validator(std::mem::take(&mut self.allocations));
        self.context.clear();
        let signature = signature(setting.info.function_type(index));
        let signature =
            if osr_entry.is_some() { osr::entry_signature(&signature) } else { signature };
        self.context.func =
            Function::with_name_signature(UserFuncName::user(FUNCTIONS, index), signature);
        let builder = FunctionBuilder::new(&mut self.context.func, &mut self.frontend);
        let (loops, first) = setting.loops_of(index);
        let mut translator = Translator::new(builder, setting, index, osr_entry);
        translator.has_osr_exits = has_osr_exits;
        let translated = translator.translate(&mut validator, &body);
        if !matches!(translated, Ok(Some(_))) {
            self.frontend = FunctionBuilderContext::new();
        }
        let translated = translated?;
        self.allocations = validator.into_allocations();
        let Some((cold, shared_sites)) = translated else { return Ok(Attempt::Done(None)) };
        let compiled = finish(&mut self.context, setting.target, (loops, first), &shared_sites)?;
        // A comparison of values that are known to be equal is folded: the OSR exit would always be
        // taken.
        let compiled = compiled.filter(|_| !osr::jumps_to(&self.context.func, &cold));
        Ok(compiled.map_or(Attempt::Unexpected, |compiled| Attempt::Done(Some(Box::new(compiled)))))
    }
}

/// How an attempt at a function's code has ended.
enum Attempt {
    /// With code, or none for a loop that has no entry.
    Done(Option<Box<Compiled>>),
    /// With branches that cannot be made OSR exits.
    Unexpected,
}

/// Compiles what is in `context`: a function that has these loops, the first of which has that
/// number, and sites of these instructions.
pub(super) fn finish(
    context: &mut Context,
    target: &Target,
    (own, first): (&Loops, u32),
    shared_sites: &SharedSites,
) -> Result<Option<Compiled>, CompileError> {
    context
        .compile(&*target.isa, &mut ControlPlane::default())
        .map_err(|error| refused(error.inner))?;
    let compiled = context.compiled_code().expect("compiled above");
    let (buffer, frame) = (&compiled.buffer, frames::distance(compiled));
    let loops = placement::loops(buffer.data());
    let mut code = buffer.data().to_vec();
    let (patchable_sites, one_shot_sites) = (
        patchable_site::make_patchable_sites(&mut code, buffer, shared_sites),
        one_shot::make_one_shot_sites(&mut code, buffer),
    );
    let number = |bits| osr::marked(bits).map(|index| first + index);
    let ranges: Vec<_> = buffer
        .get_srclocs_sorted()
        .iter()
        .map(|range| (range.start..range.end, number(range.loc.bits())))
        .collect();
    let Some(osr_exits) = (if own.count() > 0 {
        osr_exit::make_osr_exits(&mut code, &ranges)
    } else {
        Some(Vec::new())
    }) else {
        return Ok(None);
    };
    let located =
        |number: u32| osr::marked(number).map_or(number, |index| own.get(index as usize).at);
    let traps = buffer
        .traps()
        .iter()
        .map(|t| OffsetEntry { offset: t.offset, number: t.code.as_raw().get().into() })
        .collect();
    let addresses = buffer
        .get_srclocs_sorted()
        .iter()
        .map(|range| OffsetEntry { offset: range.start, number: located(range.loc.bits()) });
    // Instructions that simplification has made have no location: they are attributed to the
    // instruction before them. The prologue has none before it.
    let mut is_prologue = true;
    let belongs = |entry: &OffsetEntry| {
        is_prologue &= entry.number == NOTHING;
        is_prologue || entry.number != NOTHING
    };
    let addresses = addresses.filter(belongs).collect();
    // Sites have no callee yet.
    let relocs = buffer.relocs().iter().filter(|reloc| !is_of_site(&reloc.target, &context.func));
    let calls = relocs.map(|reloc| call_at(reloc.offset, reloc.kind, &reloc.target, &context.func));
    let calls = calls.collect::<Result<_, _>>()?;
    Ok(Some(Compiled {
        code,
        calls,
        traps,
        addresses,
        handlers: handlers(buffer),
        loops,
        osr_exits,
        patchable_sites,
        one_shot_sites,
        frame,
    }))
}

/// Why Cranelift has not compiled a function.
fn refused(error: CodegenError) -> CompileError {
    match error {
        CodegenError::CodeTooLarge => {
            CompileError::TooLarge { what: "the function's code".into(), place: Place::default() }
        }
        CodegenError::ImplLimitExceeded => CompileError::TooLarge {
            what: "the function has more values than can be numbered".into(),
            place: Place::default(),
        },
        CodegenError::Verifier(errors) => CompileError::unsupported(
            format!("code generation: {}", errors.to_string().trim_end()),
            Place::default(),
        ),
        other => CompileError::unsupported(format!("code generation: {other}"), Place::default()),
    }
}

/// The landing pads of the calls in code.
fn handlers(buffer: &MachBufferFinalized<cranelift_codegen::Final>) -> Vec<Handler> {
    let mut handlers = Vec::new();
    for site in buffer.call_sites() {
        for handler in site.exception_handlers {
            let FinalizedMachExceptionHandler::Default(target) = handler else { continue };
            let frame = site.frame_offset.expect("x86-64 tells the size of frames");
            handlers.push(Handler { offset: site.ret_addr, target: *target, frame });
        }
    }
    handlers
}

fn is_of_site(target: &FinalizedRelocTarget, func: &Function) -> bool {
    let FinalizedRelocTarget::ExternalName(ExternalName::User(name)) = target else { return false };
    func.params.user_named_funcs()[*name].namespace == patchable_site::PLACEHOLDER_CALLEE
}

fn call_at(
    at: u32,
    kind: Reloc,
    target: &FinalizedRelocTarget,
    func: &Function,
) -> Result<CallAt, CompileError> {
    let FinalizedRelocTarget::ExternalName(ExternalName::User(name)) = target else {
        // The CPU has no instructions for rounding and fused multiplication.
        return Err(CompileError::Target(format!(
            "it lacks instructions for what code generation needs ({target:?}): SSE4.1 is the least"
        )));
    };
    assert_eq!(kind, Reloc::X86CallPCRel4, "the only relocation of code without addresses");
    let name = &func.params.user_named_funcs()[*name];
    let target =
        if name.namespace == FUNCTIONS { Callee::Function(name.index) } else { Callee::Throw };
    Ok(CallAt { at, target })
}

/// The signature of a Wasm function in machine code.
pub(super) fn signature(ty: &FuncType) -> Signature {
    let mut signature = Signature::new(CallConv::Tail);
    signature.params.push(AbiParam::special(types::I64, ArgumentPurpose::VMContext));
    signature.params.extend(ty.params().iter().map(|ty| AbiParam::new(machine_type(*ty))));
    signature.returns.extend(ty.results().iter().map(|ty| AbiParam::new(machine_type(*ty))));
    signature
}

/// How a value is represented.
pub(super) fn machine_type(ty: ValType) -> Type {
    match ty {
        ValType::I32 => types::I32,
        ValType::I64 | ValType::Ref(_) => types::I64,
        ValType::F32 => types::F32,
        ValType::F64 => types::F64,
        // Wherever blocks, calls or locals pass a vector on, it has this shape.
        ValType::V128 => types::I8X16,
    }
}

/// Kinds of memory that never overlap.
#[derive(Clone, Copy)]
pub(super) struct Regions {
    pub(super) vmctx: AliasRegion,
    pub(super) heap: AliasRegion,
    pub(super) table: AliasRegion,
    pub(super) counters: AliasRegion,
    pub(super) buffer: AliasRegion,
}

/// The translation of one function.
pub(super) struct Translator<'a> {
    pub(super) builder: FunctionBuilder<'a>,
    pub(super) info: &'a ModuleInfo,
    pub(super) layout: &'a Layout,
    pub(super) counting: &'a Counting,
    pub(super) hooking: Hooking<'a>,
    pub(super) guests: Guests<'a>,
    /// The function's loops, the number of the first, and the one that the code begins in, if it
    /// does not begin with the function.
    pub(super) loops: &'a Loops,
    pub(super) first_loop: u32,
    pub(super) osr_entry: Option<usize>,
    /// How many open frames are before the loop that the code begins in, and not around it.
    pub(super) skipped_frames: u32,
    /// Whether there are OSR exits, and where they lead.
    pub(super) has_osr_exits: bool,
    pub(super) cold: Vec<Block>,
    /// OSR exits whose code is still to be emitted, and where locals are in the OSR buffer.
    pub(super) pending: Vec<PendingOsrExit>,
    pub(super) osr_buffer_layout: Option<OsrBufferLayout>,
    pub(super) target: &'a Target,
    pub(super) index: u32,
    /// The address of the instance.
    pub(super) vmctx: Value,
    pub(super) regions: Regions,
    pub(super) stack: Vec<Value>,
    pub(super) frames: Vec<Frame>,
    /// Whether the code that is translated now can be executed.
    pub(super) reachable: bool,
    pub(super) locals: Vec<(Variable, Type)>,
    pub(super) signatures: HashMap<u32, SigRef>,
    pub(super) functions: HashMap<u32, FuncRef>,
    pub(super) builtins: HashMap<u8, SigRef>,
    /// The placeholder callee of patchable sites, and which instructions have one.
    pub(super) placeholder_callee: Option<FuncRef>,
    pub(super) shared_sites: SharedSites,
    /// The slot where its frames keep their readable values, if they are to be readable.
    pub(super) kept: Option<StackSlot>,
    /// The instructions that are not charged yet, if code charges its instructions.
    pub(super) row: BudgetRow,
    /// Where the operator that is translated is in the module.
    pub(super) offset: usize,
}

impl<'a> Translator<'a> {
    fn new(
        mut builder: FunctionBuilder<'a>,
        setting: Setting<'a>,
        index: u32,
        osr_entry: Option<usize>,
    ) -> Self {
        let Setting { info, layout, target, counting, plan, first_word, .. } = setting;
        let entry = builder.create_block();
        builder.append_block_params_for_function_params(entry);
        builder.switch_to_block(entry);
        builder.seal_block(entry);
        let vmctx = builder.block_params(entry)[0];
        let mut region = |user_id, name: &'static str| {
            builder
                .func
                .dfg
                .alias_regions
                .insert(AliasRegionData { user_id, description: name.into() })
        };
        let regions = Regions {
            vmctx: region(1, "vmctx"),
            heap: region(2, "heap"),
            table: region(3, "table"),
            counters: region(4, "counters"),
            buffer: region(5, "buffer"),
        };
        let (loops, first_loop) = setting.loops_of(index);
        let mut translator = Self {
            builder,
            info,
            layout,
            counting,
            hooking: Hooking::new(plan, index, first_word),
            guests: Guests::default(),
            loops,
            first_loop,
            osr_entry,
            skipped_frames: 0,
            has_osr_exits: true,
            cold: Vec::new(),
            pending: Vec::new(),
            osr_buffer_layout: None,
            target,
            index,
            vmctx,
            regions,
            stack: Vec::new(),
            frames: Vec::new(),
            reachable: true,
            locals: Vec::new(),
            signatures: HashMap::new(),
            functions: HashMap::new(),
            builtins: HashMap::new(),
            placeholder_callee: None,
            shared_sites: SharedSites::default(),
            kept: None,
            row: BudgetRow::new(target.options.frames),
            offset: 0,
        };
        // A thread that enters by OSR has a frame already, which this one replaces.
        if osr_entry.is_none() {
            translator.limit_stack();
        }
        translator
    }

    /// Has the prologue compare the stack pointer with the store's limit.
    fn limit_stack(&mut self) {
        let func = &mut self.builder.func;
        let vmctx = func.create_global_value(GlobalValueData::VMContext);
        let mut load = |base: GlobalValue, offset: i32, readonly: bool| {
            let mut flags = MemFlagsData::trusted();
            if readonly {
                flags = flags.with_readonly().with_can_move();
            }
            let flags = func.dfg.mem_flags.insert_unchecked(flags);
            func.create_global_value(GlobalValueData::Load {
                base,
                offset: offset.into(),
                global_type: types::I64,
                flags,
            })
        };
        let store = load(vmctx, at::STORE, true);
        let limit = load(store, at::STACK_LIMIT, false);
        func.stack_limit = Some(limit);
    }

    fn translate(
        mut self,
        validator: &mut FuncValidator<ValidatorResources>,
        body: &wasmparser::FunctionBody<'_>,
    ) -> Result<Option<(Vec<Block>, SharedSites)>, CompileError> {
        self.declare_locals(validator, body)?;
        let entry = self.builder.current_block().expect("the entry block");
        self.keep_frame();
        self.push_function_frame(entry);
        self.watch_unwinding();
        let mut reader = body.get_operators_reader()?;
        match self.osr_entry {
            None => {
                self.count_at(0, Way::Entry);
                self.fire_entry();
            }
            Some(osr_entry) => {
                let buffer = self.builder.block_params(entry)[1];
                if !self.skip_to_osr_entry(validator, &mut reader, osr_entry, buffer)? {
                    return Ok(None);
                }
            }
        }
        while !reader.eof() {
            let (operator, offset) = reader.read_with_offset()?;
            self.pay_before_joining(&operator);
            self.arrive(offset as usize);
            self.hooked_operator(&operator, offset as u32, validator)?;
            self.limit_values()?;
        }
        reader.finish()?;
        self.finish_unwinding();
        self.builder.seal_all_blocks();
        self.finish_osr_exits();
        self.finish_slot_table(entry);
        if let Some(error) = self.hooking.failure.take() {
            return Err(error);
        }
        let config = self.target.isa.frontend_config();
        self.builder.finalize(config);
        Ok(Some((self.cold, self.shared_sites)))
    }

    /// Begins the translation of the instruction at `offset`.
    pub(super) fn arrive(&mut self, offset: usize) {
        self.offset = offset;
        self.builder.set_srcloc(SourceLoc::new(offset as u32));
    }

    /// A few bytes of Wasm may produce thousands of values: results of calls, operands that blocks
    /// pass. This limit keeps memory from running out before code generation refuses them.
    pub(super) fn limit_values(&self) -> Result<(), CompileError> {
        match self.builder.func.dfg.num_values() <= VALUES {
            true => Ok(()),
            false => {
                let what = format!("the function has more than {VALUES} values");
                Err(CompileError::TooLarge { what, place: Place::module(self.offset) })
            }
        }
    }

    fn declare_locals(
        &mut self,
        validator: &mut FuncValidator<ValidatorResources>,
        body: &wasmparser::FunctionBody<'_>,
    ) -> Result<(), CompileError> {
        let entry = self.builder.current_block().expect("the entry block");
        for (i, ty) in self.info.function_type(self.index).params().iter().enumerate() {
            let value = match self.osr_entry {
                None => self.builder.block_params(entry)[i + 1],
                Some(_) => self.zero(*ty),
            };
            self.declare_local(*ty, value);
        }
        let mut reader = body.get_locals_reader()?;
        for _ in 0..reader.get_count() {
            let offset = reader.original_position();
            let (count, ty) = reader.read()?;
            validator.define_locals(offset, count, ty)?;
            let ty = module::value_type(ty, offset as usize)?;
            let zero = self.zero(ty);
            (0..count).for_each(|_| self.declare_local(ty, zero));
        }
        Ok(())
    }

    pub(super) fn declare_local(&mut self, ty: ValType, value: Value) {
        let represented = machine_type(ty);
        let variable = self.builder.declare_var(represented);
        self.builder.def_var(variable, value);
        self.locals.push((variable, represented));
        self.know_local(ty);
    }

    /// The variable of a local, and how it is represented.
    pub(super) fn variable(&self, index: u32) -> (Variable, Type) {
        self.locals[index as usize]
    }

    /// The initial value of a local.
    pub(super) fn zero(&mut self, ty: ValType) -> Value {
        match ty {
            ValType::I32 => self.builder.ins().iconst(types::I32, 0),
            ValType::I64 | ValType::Ref(_) => self.builder.ins().iconst(types::I64, 0),
            ValType::F32 => self.builder.ins().f32const(0.0),
            ValType::F64 => self.builder.ins().f64const(0.0),
            ValType::V128 => {
                let zero = self.builder.func.dfg.constants.insert([0; 16].to_vec().into());
                self.builder.ins().vconst(types::I8X16, zero)
            }
        }
    }

    pub(super) fn local_get(&mut self, index: u32) {
        let value = self.local(index);
        self.stack.push(value);
    }

    /// The current value of a local.
    pub(super) fn local(&mut self, index: u32) -> Value {
        self.builder.use_var(self.variable(index).0)
    }

    pub(super) fn local_set(&mut self, index: u32) {
        let value = self.pop();
        self.set_local(index, value);
    }

    /// Sets a local.
    pub(super) fn set_local(&mut self, index: u32, value: Value) {
        let value = self.plain(value);
        self.builder.def_var(self.variable(index).0, value);
        self.keep_local(index, value);
    }

    // --- the operand stack

    pub(super) fn push(&mut self, value: Value) {
        self.stack.push(value);
    }

    pub(super) fn pop(&mut self) -> Value {
        self.stack.pop().expect("validated: an operand")
    }

    pub(super) fn pop2(&mut self) -> (Value, Value) {
        let second = self.pop();
        (self.pop(), second)
    }

    pub(super) fn pop3(&mut self) -> (Value, Value, Value) {
        let third = self.pop();
        let (first, second) = self.pop2();
        (first, second, third)
    }

    /// The topmost `count` operands, in order, as they are passed on.
    pub(super) fn pop_many(&mut self, count: usize) -> Vec<Value> {
        let values = self.stack.split_off(self.stack.len() - count);
        values.into_iter().map(|value| self.plain(value)).collect()
    }

    /// The topmost `count` operands, which stay.
    pub(super) fn peek_many(&mut self, count: usize) -> Vec<Value> {
        let from = self.stack.len() - count;
        for i in from..self.stack.len() {
            self.stack[i] = self.plain(self.stack[i]);
        }
        self.stack[from..].to_vec()
    }

    /// A value in the shape in which it is passed on: vectors have many shapes, and one common
    /// shape.
    pub(super) fn plain(&mut self, value: Value) -> Value {
        match self.builder.func.dfg.value_type(value).is_vector() {
            true => self.cast(value, types::I8X16),
            false => value,
        }
    }

    /// The same bits as another shape of vector.
    pub(super) fn cast(&mut self, value: Value, ty: Type) -> Value {
        if self.builder.func.dfg.value_type(value) == ty {
            return value;
        }
        let flags = MemFlagsData::new().with_endianness(cranelift_codegen::ir::Endianness::Little);
        self.builder.ins().bitcast(ty, flags, value)
    }

    // --- the vmctx

    /// Flags of a word of the vmctx that may change.
    pub(super) fn changing(&self) -> MemFlagsData {
        MemFlagsData::trusted().with_alias_region(Some(self.regions.vmctx))
    }

    /// Flags of a word that never changes while the instance lives.
    pub(super) fn fixed(&self) -> MemFlagsData {
        MemFlagsData::trusted().with_readonly().with_can_move()
    }

    /// A word of the vmctx that never changes.
    pub(super) fn fixed_word(&mut self, offset: i32) -> Value {
        let flags = self.fixed();
        self.builder.ins().load(types::I64, flags, self.vmctx, offset)
    }

    // --- traps

    /// An instruction that does nothing but trap. A block of which that is all would become part of
    /// the branch to it, and the trap would be reported there.
    pub(super) fn trap_here(&mut self, trap: Trap) {
        let block = self.builder.current_block().expect("it is reached");
        let layout = &self.builder.func.layout;
        if layout.first_inst(block).is_none()
            && layout.entry_block().is_some_and(|entry| entry != block)
        {
            self.builder.set_cold_block(block);
        }
        self.builder.ins().nop();
        self.trap(trap);
    }

    pub(super) fn trap(&mut self, trap: Trap) {
        self.builder.ins().trap(trap.code());
        self.reachable = false;
    }

    pub(super) fn trap_unless(&mut self, condition: Value, trap: Trap) {
        self.builder.ins().trapz(condition, trap.code());
    }

    pub(super) fn trap_if(&mut self, condition: Value, trap: Trap) {
        self.builder.ins().trapnz(condition, trap.code());
    }

    pub(super) fn unsupported(&self, what: impl Into<String>) -> CompileError {
        CompileError::unsupported(what, Place::module(self.offset))
    }
}
