//! The code of a replay: the host's actions as instructions.
//!
//! An import finds its context by the number of its calls so far, in a tree of comparisons whose
//! leaves are runs. If a function would become too large, a branch of its tree, or a part of a
//! context's actions, is outlined: engines compile many small functions faster than a huge one.

use super::Wrong;
use crate::declared::Declared;
use crate::error::Error;
use crate::event::End;
use crate::replay::{Action, Context, ContextId, Replay};
use crate::value::Value;
use std::collections::HashMap;
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{
    BlockType, Catch, Encode as _, Ieee32, Ieee64, InstructionSink, MemArg, MemArgTarget,
};
use wasmparser::{FuncType, ValType};

/// The maximum size of a function's code, before parts of it are outlined.
const LARGE: usize = 16 << 10;
/// The maximum size of a context that is copied into several runs.
const SMALL: usize = 48;

/// A type of an added function.
type Signature = (Vec<ValType>, Vec<ValType>);

/// Writes the code.
pub(super) struct Coder<'a> {
    declared: &'a Declared,
    replay: &'a Replay,
    is_checked: bool,
    /// The index of the first added global: whether the program has exited. The counters of imports
    /// follow.
    exited: u32,
    types: Vec<Signature>,
    known: HashMap<Signature, u32>,
    helpers: Vec<(u32, Vec<u8>)>,
    /// Contexts that were outlined.
    shared: HashMap<ContextId, Vec<u8>>,
    /// The number of runs of each context.
    uses: Vec<u32>,
}

/// Pushes a constant. A host object is a reference to the first added function, see `objects.rs`.
pub(super) fn constant(
    sink: &mut InstructionSink<'_>,
    value: Value,
    ty: ValType,
    declared: &Declared,
) -> Result<(), Error> {
    match value {
        Value::I32(bits) => sink.i32_const(bits.cast_signed()),
        Value::I64(bits) => sink.i64_const(bits.cast_signed()),
        Value::F32(bits) => sink.f32_const(Ieee32::new(bits)),
        Value::F64(bits) => sink.f64_const(Ieee64::new(bits)),
        Value::V128(bits) => sink.v128_const(bits.cast_signed()),
        Value::Func(Some(index)) => sink.ref_func(index),
        Value::Func(None) | Value::Extern(None) => {
            let ValType::Ref(ty) = ty else { unreachable!("a reference's type") };
            sink.ref_null(RoundtripReencoder.heap_type(ty.heap_type())?)
        }
        Value::Extern(Some(_)) | Value::Object => sink.ref_func(declared.functions()),
    };
    Ok(())
}

/// Pushes the initial values of locals, or traps if a type has no such value.
fn zeros(sink: &mut InstructionSink<'_>, types: &[ValType]) {
    for ty in types {
        let null = |ty: &wasmparser::RefType| RoundtripReencoder.heap_type(ty.heap_type()).ok();
        match ty {
            ValType::I32 => sink.i32_const(0),
            ValType::I64 => sink.i64_const(0),
            ValType::F32 => sink.f32_const(Ieee32::new(0)),
            ValType::F64 => sink.f64_const(Ieee64::new(0)),
            ValType::V128 => sink.v128_const(0),
            ValType::Ref(ty) => match null(ty).filter(|_| ty.is_nullable()) {
                Some(heap) => sink.ref_null(heap),
                None => sink.unreachable(),
            },
        };
    }
}

/// Emits code after a call of the program, which returns if the program has exited.
pub(super) fn leave_if_exited(code: &mut Vec<u8>, exited: u32, results: &[ValType]) {
    let sink = &mut InstructionSink::new(code);
    sink.global_get(exited).if_(BlockType::Empty);
    zeros(sink, results);
    sink.return_().end();
}

impl<'a> Coder<'a> {
    pub(super) fn new(
        declared: &'a Declared,
        replay: &'a Replay,
        is_checked: bool,
        exited: u32,
    ) -> Self {
        let mut uses = vec![0; replay.contexts.len()];
        let runs = replay.imports.iter().flat_map(|import| &import.runs);
        runs.for_each(|(_, context)| uses[*context as usize] += 1);
        Self {
            declared,
            replay,
            is_checked,
            exited,
            types: Vec::new(),
            known: HashMap::new(),
            helpers: Vec::new(),
            shared: HashMap::new(),
            uses,
        }
    }

    /// The types of added functions, which follow the program's.
    pub(super) fn types(&self) -> &[Signature] {
        &self.types
    }

    /// The functions that follow the program's: their types and bodies.
    pub(super) fn helpers(self) -> Vec<(u32, Vec<u8>)> {
        self.helpers
    }

    fn signature(&mut self, signature: Signature) -> u32 {
        let first = self.declared.types();
        let types = &mut self.types;
        *self.known.entry(signature).or_insert_with_key(|signature| {
            types.push(signature.clone());
            first + types.len() as u32 - 1
        })
    }

    /// Adds a function, and returns its index.
    fn helper(&mut self, signature: Signature, code: &[u8]) -> u32 {
        let ty = self.signature(signature);
        self.helpers.push((ty, body(&[], code)));
        self.declared.functions() + self.helpers.len() as u32 - 1
    }

    fn counter(&self, import: u32) -> u32 {
        self.exited + 1 + import
    }

    fn event(&self) -> u32 {
        self.exited + 1 + self.replay.imports.len() as u32
    }

    /// Emits code that reports a difference, and traps.
    fn fail(&self, sink: &mut InstructionSink<'_>, wrong: Wrong) {
        sink.i32_const(wrong as i32).global_set(self.event() + 1).unreachable();
    }

    /// Emits code that fails if the top of the stack is not zero.
    fn fail_if(&self, sink: &mut InstructionSink<'_>, wrong: Wrong) {
        sink.if_(BlockType::Empty);
        self.fail(sink, wrong);
        sink.end();
    }

    /// Emits code that fails unless this number of events has passed.
    fn expect_event(&self, sink: &mut InstructionSink<'_>, number: u64) {
        sink.global_get(self.event()).i64_const(number.cast_signed()).i64_ne();
        self.fail_if(sink, Wrong::Order);
    }

    /// Emits code that records that the event of that number has passed.
    fn pass_event(&self, sink: &mut InstructionSink<'_>, number: u64) {
        sink.i64_const(number.cast_signed().wrapping_add(1)).global_set(self.event());
    }

    /// Emits code that reads a local, and fails if it differs from the expected value. NaNs are
    /// equal, since engines choose their bits; of references, only whether they are null is
    /// compared.
    fn compare(&self, sink: &mut InstructionSink<'_>, local: u32, value: Value, wrong: Wrong) {
        sink.local_get(local);
        match value {
            Value::I32(bits) => sink.i32_const(bits.cast_signed()).i32_ne(),
            Value::I64(bits) => sink.i64_const(bits.cast_signed()).i64_ne(),
            Value::F32(bits) if f32::from_bits(bits).is_nan() => sink.local_get(local).f32_eq(),
            Value::F64(bits) if f64::from_bits(bits).is_nan() => sink.local_get(local).f64_eq(),
            Value::F32(bits) => sink.i32_reinterpret_f32().i32_const(bits.cast_signed()).i32_ne(),
            Value::F64(bits) => sink.i64_reinterpret_f64().i64_const(bits.cast_signed()).i64_ne(),
            Value::V128(bits) => sink.v128_const(bits.cast_signed()).v128_xor().v128_any_true(),
            Value::Func(None) | Value::Extern(None) => sink.ref_is_null().i32_eqz(),
            Value::Func(Some(_)) | Value::Extern(Some(_)) | Value::Object => sink.ref_is_null(),
        };
        self.fail_if(sink, wrong);
    }

    /// The bodies of the host's functions: of those that are imported, and the others.
    pub(super) fn host_functions(&mut self) -> Result<Vec<Vec<u8>>, Error> {
        let imports = 0..self.declared.imports.len() as u32;
        let functions = imports.chain(self.declared.given()).zip(0..);
        functions.map(|(function, place)| self.host_function(function, place)).collect()
    }

    fn host_function(&mut self, function: u32, import: u32) -> Result<Vec<u8>, Error> {
        let declared = self.declared;
        let ty = declared.function(function).expect("it has a type");
        let (counter, params) = (self.counter(import), ty.params().len() as u32);
        let mut code = Vec::new();
        InstructionSink::new(&mut code)
            .global_get(counter)
            .local_tee(params)
            .i64_const(1)
            .i64_add()
            .global_set(counter);
        let invocations = &self.replay.imports[import as usize];
        let mut runs: Vec<(u64, Option<ContextId>)> =
            invocations.runs.iter().map(|(first, context)| (*first, Some(*context))).collect();
        // It was not called again.
        runs.push((invocations.count, None));
        let block = match ty.results() {
            [] => BlockType::Empty,
            [one] => BlockType::Result(RoundtripReencoder.val_type(*one)?),
            several => BlockType::FunctionType(self.signature((Vec::new(), several.to_vec()))),
        };
        self.tree(&mut code, ty, block, &runs)?;
        Ok(body(&[ValType::I64], &code))
    }

    /// Code that finds the run of the invocation that is in the local after the parameters.
    fn tree(
        &mut self,
        code: &mut Vec<u8>,
        ty: &FuncType,
        block: BlockType,
        runs: &[(u64, Option<ContextId>)],
    ) -> Result<(), Error> {
        if let [(_, context)] = runs {
            return self.leaf(code, ty, *context);
        }
        let begun = code.len();
        let (below, above) = runs.split_at(runs.len() / 2);
        let (first, params) = (above[0].0, ty.params().len() as u32);
        let mut sink = InstructionSink::new(code);
        sink.local_get(params).i64_const(first.cast_signed()).i64_lt_u().if_(block);
        self.tree(code, ty, block, below)?;
        InstructionSink::new(code).else_();
        self.tree(code, ty, block, above)?;
        InstructionSink::new(code).end();
        if code.len() - begun < LARGE {
            return Ok(());
        }
        let types = ty.params().iter().copied().chain([ValType::I64]).collect();
        let function = self.helper((types, ty.results().to_vec()), &code[begun..]);
        code.truncate(begun);
        let mut sink = InstructionSink::new(code);
        (0..=params).for_each(|local| {
            sink.local_get(local);
        });
        sink.call(function);
        Ok(())
    }

    /// Emits a context: its checks, its actions, and its end.
    fn leaf(
        &mut self,
        code: &mut Vec<u8>,
        ty: &FuncType,
        context: Option<ContextId>,
    ) -> Result<(), Error> {
        let sink = &mut InstructionSink::new(code);
        let Some(id) = context else {
            match self.is_checked {
                true => self.fail(sink, Wrong::Order),
                false => {
                    sink.unreachable();
                }
            }
            return Ok(());
        };
        let replay = self.replay;
        let context = &replay.contexts[id as usize];
        if let Some((event, args)) = &context.call {
            self.expect_event(sink, *event);
            for (local, value) in args.iter().enumerate() {
                self.compare(sink, local as u32, *value, Wrong::Argument);
            }
            self.pass_event(sink, *event);
        }
        self.actions_of(code, id, context)?;
        let sink = &mut InstructionSink::new(code);
        if context.call.is_some() {
            self.pass_event(sink, context.ended);
        }
        match &context.end {
            End::Values(values) => {
                for (value, ty) in values.iter().zip(ty.results()) {
                    constant(sink, *value, *ty, self.declared)?;
                }
            }
            End::Exit { .. } => {
                sink.i32_const(1).global_set(self.exited);
                zeros(sink, ty.results());
            }
            End::Trap(_) => {
                sink.unreachable();
            }
            End::Exception { tag, values } => {
                let params = self.declared.tag(*tag).expect("it was looked at").params();
                for (value, ty) in values.iter().zip(params) {
                    constant(sink, *value, *ty, self.declared)?;
                }
                sink.throw(*tag);
            }
        }
        Ok(())
    }

    /// The actions of a context: inline, or in a function that several runs call.
    fn actions_of(
        &mut self,
        code: &mut Vec<u8>,
        id: ContextId,
        context: &Context,
    ) -> Result<(), Error> {
        let is_shared = self.uses[id as usize] > 1;
        if let Some(call) = self.shared.get(&id).filter(|_| is_shared) {
            code.extend_from_slice(call);
            return Ok(());
        }
        let begun = code.len();
        self.actions(code, &context.actions)?;
        if is_shared && code.len() - begun >= SMALL {
            let call = self.outlined(&code[begun..]);
            code.truncate(begun);
            code.extend_from_slice(&call);
            self.shared.insert(id, call);
        }
        Ok(())
    }

    /// Emits the code of actions; if it is large, calls of functions that each perform some of
    /// them.
    fn actions(&mut self, code: &mut Vec<u8>, actions: &[Action]) -> Result<(), Error> {
        let begun = code.len();
        let mut parts = Vec::new();
        for action in actions {
            self.action(code, action)?;
            if code.len() - begun >= LARGE {
                parts.push(self.outlined(&code[begun..]));
                code.truncate(begun);
            }
        }
        if parts.is_empty() {
            return Ok(());
        }
        parts.push(code.split_off(begun));
        // A million calls of parts would be a large function, too.
        while parts.iter().map(Vec::len).sum::<usize>() >= LARGE {
            let (mut fewer, mut part) = (Vec::new(), Vec::new());
            for own in parts {
                part.extend_from_slice(&own);
                if part.len() >= LARGE {
                    fewer.push(self.outlined(&std::mem::take(&mut part)));
                }
            }
            fewer.push(part);
            parts = fewer;
        }
        parts.iter().for_each(|part| code.extend_from_slice(part));
        Ok(())
    }

    /// Outlines code into a function; returns the call of it.
    fn outlined(&mut self, code: &[u8]) -> Vec<u8> {
        let function = self.helper(Signature::default(), code);
        let mut call = Vec::new();
        InstructionSink::new(&mut call).call(function);
        call
    }

    fn action(&mut self, code: &mut Vec<u8>, action: &Action) -> Result<(), Error> {
        match action {
            Action::Enter { function, args, end, events } => {
                return self.enter(code, *function, args, end, *events);
            }
            Action::Short { memory, address, bytes } => {
                self.has_room(code, *memory, *address + bytes.len() as u64);
                self.short(code, *memory, *address, bytes);
            }
            Action::Long { memory, address, at, len } => {
                self.has_room(code, *memory, *address + u64::from(*len));
                let segment = self.declared.data;
                let sink = &mut InstructionSink::new(code);
                self.address(sink, *memory, *address);
                sink.i32_const(at.cast_signed()).i32_const(len.cast_signed());
                sink.memory_init(*memory, segment);
            }
            Action::Grow { memory, pages } => {
                let sink = &mut InstructionSink::new(code);
                self.address(sink, *memory, *pages);
                sink.memory_grow(*memory);
                let is_wide = self.declared.memories[*memory as usize].memory64;
                self.grown(sink, is_wide);
            }
            Action::Global { global, value } => {
                let ty = self.declared.globals[*global as usize].content_type;
                let sink = &mut InstructionSink::new(code);
                constant(sink, *value, ty, self.declared)?;
                sink.global_set(*global);
            }
            Action::Element { table, index, value } => {
                let ty = self.declared.tables[*table as usize];
                let sink = &mut InstructionSink::new(code);
                // Tables and memories never shrink.
                if self.is_checked && *index >= ty.initial {
                    sink.table_size(*table);
                    self.is_below(sink, index.saturating_add(1), ty.table64);
                }
                number(sink, *index, ty.table64);
                constant(sink, *value, ValType::Ref(ty.element_type), self.declared)?;
                sink.table_set(*table);
            }
            Action::GrowTable { table, count, value } => {
                let ty = self.declared.tables[*table as usize];
                let sink = &mut InstructionSink::new(code);
                constant(sink, *value, ValType::Ref(ty.element_type), self.declared)?;
                number(sink, *count, ty.table64);
                sink.table_grow(*table);
                self.grown(sink, ty.table64);
            }
        }
        Ok(())
    }

    fn address(&self, sink: &mut InstructionSink<'_>, memory: u32, address: u64) {
        number(sink, address, self.declared.memories[memory as usize].memory64);
    }

    /// Consumes the result of growing.
    fn grown(&self, sink: &mut InstructionSink<'_>, is_wide: bool) {
        if !self.is_checked {
            sink.drop();
            return;
        }
        match is_wide {
            true => sink.i64_const(-1).i64_eq(),
            false => sink.i32_const(-1).i32_eq(),
        };
        self.fail_if(sink, Wrong::Value);
    }

    /// Emits a check that a memory has bytes up to an address, if that is not known.
    fn has_room(&self, code: &mut Vec<u8>, memory: u32, end: u64) {
        let ty = self.declared.memories[memory as usize];
        let page = 1 << ty.page_size_log2.unwrap_or(16);
        if self.is_checked && end > ty.initial.saturating_mul(page) {
            let sink = &mut InstructionSink::new(code);
            sink.memory_size(memory);
            self.is_below(sink, end.div_ceil(page), ty.memory64);
        }
    }

    /// Consumes a size; the replay is wrong if it is below the least one.
    fn is_below(&self, sink: &mut InstructionSink<'_>, least: u64, is_wide: bool) {
        number(sink, least, is_wide);
        match is_wide {
            true => sink.i64_lt_u(),
            false => sink.i32_lt_u(),
        };
        self.fail_if(sink, Wrong::Value);
    }

    /// Emits stores of a few bytes.
    fn short(&self, code: &mut Vec<u8>, memory: u32, mut address: u64, mut bytes: &[u8]) {
        let sink = &mut InstructionSink::new(code);
        let arg =
            MemArg { offset: 0, align: 0, target: MemArgTarget::Memory(memory), ordering: None };
        while !bytes.is_empty() {
            let width = [8, 4, 2, 1].into_iter().find(|width| *width <= bytes.len());
            let width = width.expect("there is a byte");
            let (now, later) = bytes.split_at(width);
            let mut wide = [0; 8];
            wide[..width].copy_from_slice(now);
            let value = i64::from_le_bytes(wide);
            self.address(sink, memory, address);
            match width {
                8 => sink.i64_const(value).i64_store(arg),
                4 => sink.i32_const(value as i32).i32_store(arg),
                2 => sink.i32_const(value as i32).i32_store16(arg),
                _ => sink.i32_const(value as i32).i32_store8(arg),
            };
            (address, bytes) = (address + width as u64, later);
        }
    }

    /// Emits a call into the program.
    fn enter(
        &mut self,
        code: &mut Vec<u8>,
        function: u32,
        args: &[Value],
        end: &End,
        events: (u64, u64),
    ) -> Result<(), Error> {
        let declared = self.declared;
        let ty = declared.function(function).expect("it was looked at");
        let mut sink = InstructionSink::new(code);
        if let End::Exception { tag, .. } = end {
            self.begin_catching(&mut sink, *tag);
        }
        for (value, ty) in args.iter().zip(ty.params()) {
            constant(&mut sink, *value, *ty, declared)?;
        }
        if self.is_checked {
            self.pass_event(&mut sink, events.0);
        }
        sink.call(function);
        match (end, self.is_checked) {
            (End::Values(results), true) => {
                let taken = self.results(ty.results(), results, events.1);
                sink.call(taken);
            }
            (End::Exception { .. } | End::Trap(_), true) => self.fail(&mut sink, Wrong::Trap),
            _ => {
                ty.results().iter().for_each(|_| {
                    sink.drop();
                });
            }
        }
        let sink = &mut InstructionSink::new(code);
        if let End::Exception { tag, values } = end {
            self.end_catching(sink, *tag, values, events.1);
        }
        if let End::Exit { .. } = end {
            if self.is_checked {
                sink.global_get(self.exited).i32_eqz();
                self.fail_if(sink, Wrong::Order);
            }
            sink.i32_const(0).global_set(self.exited);
        }
        if self.is_checked {
            match end {
                End::Values(_) => {}
                _ => self.expect_event(sink, events.1),
            }
            self.pass_event(sink, events.1);
        }
        Ok(())
    }

    /// Emits the beginning of blocks that a call leaves by an exception. If the replay checks
    /// itself, exceptions with other tags leave another block.
    fn begin_catching(&mut self, sink: &mut InstructionSink<'_>, tag: u32) {
        sink.block(BlockType::Empty);
        if !self.is_checked {
            sink.try_table(BlockType::Empty, [Catch::All { label: 0 }]);
            return;
        }
        let values = self.thrown(tag).to_vec();
        let ty = self.signature((Vec::new(), values));
        let caught = [Catch::One { tag, label: 0 }, Catch::All { label: 1 }];
        sink.block(BlockType::Empty).block(BlockType::FunctionType(ty));
        sink.try_table(BlockType::Empty, caught);
    }

    /// Emits their end, and a comparison of the values that were thrown.
    fn end_catching(
        &mut self,
        sink: &mut InstructionSink<'_>,
        tag: u32,
        values: &[Value],
        event: u64,
    ) {
        sink.end();
        if self.is_checked {
            let types = self.thrown(tag);
            let taken = self.results(types, values, event);
            sink.unreachable().end().call(taken).br(1).end();
            self.fail(sink, Wrong::Trap);
        }
        sink.end();
    }

    fn thrown(&self, tag: u32) -> &'a [ValType] {
        self.declared.tag(tag).expect("it was looked at").params()
    }

    /// Adds a function that takes results and compares them with the expected values.
    fn results(&mut self, types: &[ValType], values: &[Value], event: u64) -> u32 {
        let mut code = Vec::new();
        let sink = &mut InstructionSink::new(&mut code);
        self.expect_event(sink, event);
        for (local, value) in values.iter().enumerate() {
            self.compare(sink, local as u32, *value, Wrong::Result);
        }
        self.helper((types.to_vec(), Vec::new()), &code)
    }

    /// Adds the function that replays everything; returns its index.
    pub(super) fn start(&mut self) -> Result<u32, Error> {
        let replay = self.replay;
        let mut code = Vec::new();
        self.actions(&mut code, &replay.top)?;
        if self.is_checked && replay.events > 0 {
            self.pass_event(&mut InstructionSink::new(&mut code), replay.events - 1);
        }
        Ok(self.helper(Signature::default(), &code))
    }
}

/// Pushes an address or an index.
fn number(sink: &mut InstructionSink<'_>, value: u64, is_wide: bool) {
    match is_wide {
        true => sink.i64_const(value.cast_signed()),
        false => sink.i32_const(value as i32),
    };
}

/// Encodes a function's body: its locals, one of each type, and its code.
fn body(locals: &[ValType], code: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(code.len() + 4);
    locals.len().encode(&mut bytes);
    for ty in locals {
        1u32.encode(&mut bytes);
        RoundtripReencoder.val_type(*ty).expect("a number's type").encode(&mut bytes);
    }
    bytes.extend_from_slice(code);
    InstructionSink::new(&mut bytes).end();
    bytes
}
