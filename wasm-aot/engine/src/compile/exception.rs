//! Translates exceptions, in the standard's encoding and in the older one.
//!
//! A try region has a *landing*: a block that receives the exception, whichever call of the region
//! has thrown it. There the clauses are compared one after the other; an exception that none of
//! them takes continues to the landing outside, or out of the function. The runtime therefore knows
//! only which calls have a landing, and nothing of tags.

use super::control::{Frame, FrameKind, arguments};
use super::function::{SINGLES, Translator, machine_type};
use crate::error::CompileError;
use crate::trap::Trap;
use crate::types::FuncType;
use crate::vm::{Builtin, at};
use cranelift_codegen::ir::{
    AbiParam, Block, ExtFuncData, ExternalName, InstBuilder, MemFlagsData, Signature,
    UserExternalName, Value, condcodes::IntCC, types,
};
use cranelift_codegen::isa::CallConv;
use wasm_aot_body::Way;
use wasmparser::{BlockType, Catch, TryTable};

/// A try region.
pub(super) struct Try {
    /// The block that receives its exceptions.
    landing: Block,
    /// The block in which the exception is compared next, once the landing has begun.
    next: Option<Block>,
    /// The exception, once the landing has begun.
    exception: Option<Value>,
    /// Whether the body has ended: exceptions that are thrown now go outside.
    caught: bool,
    /// Whether all exceptions are caught.
    exhaustive: bool,
    /// The clauses at the beginning, in the standard's encoding.
    clauses: Vec<Catch>,
    /// Where it begins.
    at: usize,
}

impl FrameKind {
    /// The exception that the clause has taken, if it is a clause.
    pub(super) fn caught(&self) -> Option<Value> {
        match self {
            Self::Try(attempt) if attempt.caught => attempt.exception,
            _ => None,
        }
    }

    /// Sets the exception that the clause has taken.
    pub(super) fn catch_again(&mut self, exception: Value) {
        if let Self::Try(attempt) = self {
            attempt.exception = Some(exception);
        }
    }

    /// Ends the body; a clause follows, with an exception that is not known yet.
    pub(super) fn go_on(&mut self, placeholder: Value) {
        if let Self::Try(attempt) = self {
            (attempt.caught, attempt.exception) = (true, Some(placeholder));
        }
    }
}

impl Translator<'_> {
    /// The landing of exceptions that are thrown here.
    pub(super) fn landing(&self) -> Option<Block> {
        self.landing_within(self.frames.len())
    }

    /// The landing of exceptions that are thrown outside of all except the first `count` frames.
    fn landing_within(&self, count: usize) -> Option<Block> {
        let within = self.frames[..count].iter().rev().find_map(|frame| match &frame.kind {
            FrameKind::Try(attempt) if !attempt.caught => Some(attempt.landing),
            _ => None,
        });
        within.or(self.hooking.unwinding)
    }

    fn new_try(&mut self, clauses: Vec<Catch>) -> FrameKind {
        let landing = self.builder.create_block();
        self.builder.append_block_param(landing, types::I64);
        FrameKind::Try(Try {
            landing,
            next: None,
            exception: None,
            caught: false,
            exhaustive: false,
            clauses,
            at: self.offset,
        })
    }

    pub(super) fn begin_try(&mut self, ty: BlockType) -> Result<(), CompileError> {
        let ty = self.block_type(ty)?;
        let kind = self.new_try(Vec::new());
        self.push_frame(kind, &ty);
        Ok(())
    }

    pub(super) fn begin_try_table(&mut self, table: &TryTable) -> Result<(), CompileError> {
        let ty = self.block_type(table.ty)?;
        let kind = self.new_try(table.catches.clone());
        self.push_frame(kind, &ty);
        Ok(())
    }

    /// The innermost frame's region.
    fn attempt(&mut self) -> Option<&mut Try> {
        match &mut self.frames.last_mut()?.kind {
            FrameKind::Try(attempt) => Some(attempt),
            _ => None,
        }
    }

    /// Leaves the body, or the clause before, and begins to compare the exception, unless that has
    /// begun.
    fn begin_clause(&mut self) -> Option<Value> {
        self.fall_through();
        let height = self.frames.last().expect("validated: a frame").height;
        self.stack.truncate(height);
        let attempt = self.attempt()?;
        attempt.caught = true;
        let (landing, next, known) = (attempt.landing, attempt.next.take(), attempt.exception);
        let exception = match (next, known) {
            (Some(next), Some(exception)) => {
                self.builder.switch_to_block(next);
                exception
            }
            _ => {
                self.builder.switch_to_block(landing);
                self.builder.block_params(landing)[0]
            }
        };
        self.attempt()?.exception = Some(exception);
        Some(exception)
    }

    pub(super) fn catch(&mut self, tag: u32) {
        let Some(exception) = self.begin_clause() else { return };
        let (taken, next) = self.compare_tag(exception, tag);
        self.attempt().expect("a try").next = Some(next);
        self.builder.switch_to_block(taken);
        let values = self.payload(exception, tag);
        self.stack.extend(values);
        self.count(Way::Catch(0));
        self.reachable = true;
    }

    pub(super) fn catch_all(&mut self) {
        if self.begin_clause().is_none() {
            return;
        }
        self.attempt().expect("a try").exhaustive = true;
        self.count(Way::Catch(0));
        self.reachable = true;
    }

    pub(super) fn rethrow(&mut self, depth: u32) {
        let index = self.frames.len() - 1 - depth as usize;
        let FrameKind::Try(Try { exception: Some(exception), .. }) = self.frames[index].kind else {
            unreachable!("validated: rethrow names a clause")
        };
        self.count(Way::Thrown);
        self.throw_exception(exception, self.landing());
    }

    /// Ends a try region whose exceptions go to a frame outside.
    pub(super) fn delegate(&mut self, depth: u32) {
        if matches!(self.frames.last().expect("a frame").kind, FrameKind::Dead) {
            return self.end();
        }
        self.fall_through();
        let outside = self.frames.len() - 1 - (depth as usize + 1);
        // Delegated to the frame's own label: to the region that the frame is, or the next one
        // around it.
        let landing = self.landing_within(if outside == 0 { 0 } else { outside + 1 });
        let attempt = self.attempt().expect("validated: delegate ends a try");
        (attempt.caught, attempt.exhaustive) = (true, true);
        let own = attempt.landing;
        self.builder.switch_to_block(own);
        let exception = self.builder.block_params(own)[0];
        self.throw_exception(exception, landing);
        self.end();
    }

    /// Ends a region: an exception that no clause has taken goes outside. The frame is no longer on
    /// the stack of frames.
    pub(super) fn end_try(&mut self, mut attempt: Try, frame: &mut Frame) {
        let (at, exception) = match (attempt.next, attempt.exception) {
            (Some(next), Some(exception)) => (next, exception),
            (None, Some(_)) => return self.seal(&attempt, frame),
            _ => (attempt.landing, self.builder.block_params(attempt.landing)[0]),
        };
        if attempt.exhaustive {
            return self.seal(&attempt, frame);
        }
        self.builder.switch_to_block(at);
        for (i, clause) in std::mem::take(&mut attempt.clauses).into_iter().enumerate() {
            let counter = self.counter(attempt.at, Way::Catch(i as u32));
            if self.clause(clause, exception, counter) {
                return self.seal(&attempt, frame);
            }
        }
        self.throw_exception(exception, self.landing());
        self.seal(&attempt, frame);
    }

    fn seal(&mut self, attempt: &Try, frame: &Frame) {
        self.builder.seal_block(attempt.landing);
        self.stack.truncate(frame.height);
    }

    /// Compares with one clause of the standard's encoding. Returns whether it takes all
    /// exceptions.
    fn clause(&mut self, clause: Catch, exception: Value, counter: Option<i32>) -> bool {
        let height = self.stack.len();
        let (tag, label, with_reference) = match clause {
            Catch::One { tag, label } => (Some(tag), label, false),
            Catch::OneRef { tag, label } => (Some(tag), label, true),
            Catch::All { label } => (None, label, false),
            Catch::AllRef { label } => (None, label, true),
        };
        let next = tag.map(|tag| {
            let (taken, next) = self.compare_tag(exception, tag);
            self.builder.switch_to_block(taken);
            let values = self.payload(exception, tag);
            self.stack.extend(values);
            next
        });
        if with_reference {
            self.push(exception);
        }
        if let Some(counter) = counter {
            self.add_to_counter(counter);
        }
        self.branch(label);
        self.stack.truncate(height);
        match next {
            Some(next) => self.builder.switch_to_block(next),
            None => return true,
        }
        false
    }

    /// Blocks for an exception that has the tag and one that has not.
    fn compare_tag(&mut self, exception: Value, tag: u32) -> (Block, Block) {
        let flags = MemFlagsData::trusted().with_readonly();
        let found = self.builder.ins().load(types::I64, flags, exception, at::EXCEPTION_TAG);
        let expected = self.fixed_word(self.layout.tag(tag));
        let equal = self.builder.ins().icmp(IntCC::Equal, found, expected);
        let (taken, next) = (self.builder.create_block(), self.builder.create_block());
        self.builder.ins().brif(equal, taken, &[], next, &[]);
        self.builder.seal_block(taken);
        self.builder.seal_block(next);
        (taken, next)
    }

    fn tag_type(&self, tag: u32) -> FuncType {
        self.info.types[self.info.tags[tag as usize] as usize].clone()
    }

    /// The values of an exception.
    fn payload(&mut self, exception: Value, tag: u32) -> Vec<Value> {
        let flags = MemFlagsData::trusted().with_readonly();
        let ty = self.tag_type(tag);
        let load = |(i, ty): (usize, &crate::types::ValType)| {
            let offset = at::EXCEPTION_VALUES + 16 * i as i32;
            self.builder.ins().load(machine_type(*ty), flags, exception, offset)
        };
        ty.params().iter().enumerate().map(load).collect()
    }

    pub(super) fn throw(&mut self, tag: u32) {
        let values = {
            let count = self.tag_type(tag).params().len();
            self.pop_many(count)
        };
        let tag = self.fixed_word(self.layout.tag(tag));
        let count = self.number(values.len() as u32);
        let exception = self.builtin(Builtin::ExceptionNew, &[tag, count]).expect("a result");
        for (i, value) in values.into_iter().enumerate() {
            let offset = at::EXCEPTION_VALUES + 16 * i as i32;
            self.builder.ins().store(MemFlagsData::trusted(), value, exception, offset);
        }
        self.count(Way::Thrown);
        self.throw_exception(exception, self.landing());
    }

    pub(super) fn throw_ref(&mut self) {
        let exception = self.pop();
        self.trap_unless(exception, Trap::NullExceptionReference);
        self.count(Way::Thrown);
        self.throw_exception(exception, self.landing());
    }

    /// Jumps to a landing of this function, or leaves it.
    pub(super) fn throw_exception(&mut self, exception: Value, landing: Option<Block>) {
        match landing {
            Some(landing) => {
                self.builder.ins().jump(landing, &arguments(&[exception]));
                self.reachable = false;
            }
            None => {
                let mut signature = Signature::new(CallConv::Tail);
                signature.params.extend([AbiParam::new(types::I64), AbiParam::new(types::I64)]);
                let signature = self.builder.import_signature(signature);
                let name = self
                    .builder
                    .func
                    .declare_imported_user_function(UserExternalName::new(SINGLES, 0));
                let data = ExtFuncData {
                    name: ExternalName::user(name),
                    signature,
                    colocated: true,
                    patchable: false,
                };
                let throw = self.builder.import_function(data);
                self.builder.ins().call(throw, &[self.vmctx, exception]);
                self.trap(Trap::Unreachable);
            }
        }
    }
}
