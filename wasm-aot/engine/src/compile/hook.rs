//! Emits the hooks of a function: where they fire, and which values they can use there.
//!
//! The translator calls this file at every [`Mode`] of an instruction. A hook's code is part of the
//! function's, uses operands and locals as SSA values, and is optimised together with the function.
//! Where nothing is planned, nothing is emitted.

use super::access::Access;
use super::control::arguments;
use super::function::{Translator, machine_type};
use super::pending_event::PendingEvent;
use super::plan::{Action, Call, Capture, Hook, Mode, Plan, Word};
use crate::error::CompileError;
use crate::trap::Trap;
use crate::types::ValType;
use crate::vm::Builtin;
use cranelift_codegen::ir::{
    Block, InstBuilder, MemFlagsData, StackSlot, StackSlotData, StackSlotKind, Value, types,
};
use cranelift_frontend::{FunctionBuilder, Variable};
use std::collections::HashMap;
use wasm_aot_body::Way;
use wasm_aot_body::replacement::{FallThrough, invalid_behind, never_falls_through};
use wasmparser::{BinaryReaderError, BlockType, FuncValidator, Operator, ValidatorResources};

/// The most operands whose types are known at a hook: more than any instruction has.
const OPERANDS: usize = 1024;

/// What the translator of a function knows of its hooks.
#[derive(Default)]
pub(super) struct Hooking<'a> {
    /// All of the function's.
    hooks: &'a [Hook],
    /// The number of the instance's first word that is assigned to hooks.
    first_word: u32,
    /// The types of the function's locals.
    locals: Vec<ValType>,
    /// The types of operands in the present mode, from the top of the stack.
    operands: Vec<ValType>,
    /// How many of them may be replaced: those below belong to frames outside, which other edges
    /// enter, too.
    writable: usize,
    /// The access of the present instruction.
    access: Option<Access>,
    /// The operands that it has taken, once it has begun: values and types from the top.
    taken: Vec<(Value, ValType)>,
    /// Variables of hooks, by the base of the hook's plan and by number.
    variables: HashMap<(u32, u64), Variable>,
    /// While a replacement of an instruction is emitted: the block of the instruction itself, and
    /// the block where control continues with results.
    replacing: Option<(Block, Block)>,
    /// Whether control has continued after an instruction that never falls through by itself.
    falls_through: bool,
    /// Replaced blocks, from the outermost one that has not ended.
    over: Vec<Over>,
    /// The block for exceptions that leave the function, if that is hooked.
    pub(super) unwinding: Option<Block>,
    /// The slot in which captured values are passed to receivers.
    slot: Option<StackSlot>,
    /// Whether the places of unwound frames are recorded.
    pub(super) notes_partial_exits: bool,
    /// Why a hook's code could not be emitted.
    pub(super) failure: Option<CompileError>,
}

/// A block of the program that is replaced.
#[derive(Debug)]
struct Over {
    /// The number of open frames inside of it, including its own.
    depth: usize,
    /// The block in which control continues after all hooks at its end.
    block: Block,
    /// How many operands are below its parameters.
    height: usize,
}

impl<'a> Hooking<'a> {
    /// The hooks of a function.
    pub(super) fn new(plan: &'a Plan, function: u32, first_word: u32) -> Self {
        Self {
            hooks: plan.of(function),
            first_word,
            notes_partial_exits: plan.notes_partial_exits(),
            ..Self::default()
        }
    }

    /// Whether an instruction has any hook.
    pub(super) fn has_any_at(&self, offset: u32) -> bool {
        !self.at(offset, None).is_empty()
    }

    /// The hooks at an instruction, or those of them in one mode.
    fn at(&self, offset: u32, mode: Option<Mode>) -> &'a [Hook] {
        let hooks = self.hooks;
        let within = |hook: &Hook, after: bool| match (hook.offset == offset, mode) {
            (true, Some(mode)) => hook.mode < mode || (after && hook.mode == mode),
            (true, None) => after,
            (false, _) => hook.offset < offset,
        };
        let from = hooks.partition_point(|hook| within(hook, false));
        let len = hooks[from..].partition_point(|hook| within(hook, true));
        &hooks[from..from + len]
    }
}

impl<'a> Translator<'a> {
    /// Records the type of a local.
    pub(super) fn know_local(&mut self, ty: ValType) {
        if !self.hooking.hooks.is_empty() {
            self.hooking.locals.push(ty);
        }
    }

    /// Whether the present instruction has a hook in this mode.
    pub(super) fn is_hooked(&self, mode: Mode) -> bool {
        !self.hooking.at(self.offset as u32, Some(mode)).is_empty()
    }

    /// Translates an instruction, and its hooks.
    pub(super) fn hooked_operator(
        &mut self,
        op: &Operator<'_>,
        offset: u32,
        validator: &mut FuncValidator<ValidatorResources>,
    ) -> Result<(), CompileError> {
        let depth = self.frames.len();
        let over = match op {
            Operator::End | Operator::Delegate { .. } => {
                self.hooking.over.pop_if(|over| over.depth == depth)
            }
            _ => None,
        };
        self.operator_and_hooks(op, offset, validator)?;
        self.count_beside_replacements(op);
        if let Some(over) = over {
            self.go_on_over(&over);
        }
        if self.reachable {
            self.fire(Mode::Falls);
        }
        Ok(())
    }

    fn operator_and_hooks(
        &mut self,
        op: &Operator<'_>,
        offset: u32,
        validator: &mut FuncValidator<ValidatorResources>,
    ) -> Result<(), CompileError> {
        let is_hooked = self.hooking.has_any_at(offset);
        let is_patchable = self.target.options.sites.have_site_before(op);
        // At a target of branches, control reaches the instruction only after its translation has
        // begun the block.
        let is_landing =
            matches!(op, Operator::Loop { .. } | Operator::End | Operator::Delegate { .. });
        if !is_landing {
            self.pay_for(op);
        }
        if is_patchable && self.reachable && !is_landing {
            self.patchable_site();
        }
        if !is_hooked {
            self.validated(validator, op)?;
            return self.unhooked(op, [is_patchable, is_landing]);
        }
        self.know_operands(validator);
        let fall_through = self.replaced_fall_through(op);
        match fall_through {
            Some(left) => left.validate(validator, offset.into()).map_err(|e| self.stuck(&e))?,
            None => self.validated(validator, op)?,
        }
        self.hooking.access = Access::of(op);
        if self.reachable && !is_landing {
            self.fire(Mode::Before);
            let types = self.hooking.operands.iter().copied();
            self.hooking.taken = self.stack.iter().rev().copied().zip(types).collect();
        }
        match (fall_through, self.is_hooked(Mode::Alt)) {
            (Some(left), _) => self.fall_through_instead(op, left)?,
            (None, true) => self.replaceable(op, validator)?,
            (None, false) => {
                if self.reachable && !is_landing {
                    self.fire(Mode::Itself);
                }
                self.operator(op)?;
            }
        }
        if is_landing {
            self.pay_for(op);
        }
        if self.reachable {
            self.know_operands(validator);
            if is_patchable && is_landing {
                self.patchable_site();
            }
            if is_landing {
                self.fire(Mode::Before);
            }
            self.fire(Mode::After);
        }
        self.hooking.access = None;
        self.hooking.taken.clear();
        Ok(())
    }

    /// Translates an instruction without hooks.
    fn unhooked(
        &mut self,
        op: &Operator<'_>,
        [is_patchable, is_landing]: [bool; 2],
    ) -> Result<(), CompileError> {
        self.operator(op)?;
        if is_landing {
            self.pay_for(op);
        }
        if is_patchable && self.reachable && is_landing {
            self.patchable_site();
        }
        Ok(())
    }

    /// Translates an instruction that may be replaced: the hook gives its results, or has it
    /// executed.
    fn replaceable(
        &mut self,
        op: &Operator<'_>,
        validator: &FuncValidator<ValidatorResources>,
    ) -> Result<(), CompileError> {
        if let Operator::Else = op {
            self.operator(op)?;
            self.know_operands(validator);
            return if self.reachable { self.replaceable_arm() } else { Ok(()) };
        }
        if !self.reachable {
            return self.operator(op);
        }
        match op {
            Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::Try { .. }
            | Operator::TryTable { .. } => {
                let frame = validator.get_control_frame(0).expect("validated: it has opened one");
                self.replaceable_block(op, frame.block_type)
            }
            _ => self.replaceable_plain(op, validator),
        }
    }

    /// Counts the edges into and out of a block that may be replaced, if they are counted.
    fn count_beside_replacements(&mut self, op: &Operator<'_>) {
        match op {
            _ if !self.reachable => {}
            Operator::Block { .. }
            | Operator::Loop { .. }
            | Operator::Try { .. }
            | Operator::TryTable { .. }
            | Operator::Else => self.count(Way::Inside),
            Operator::End | Operator::Delegate { .. } => self.count(Way::Past),
            _ => {}
        }
    }

    /// Counts are computed from those of edges: the way around what is replaced has to be one.
    fn has_counted_detour(&self) -> Result<(), CompileError> {
        let offset = self.offset as u32;
        match self.counting.counts() && !self.counting.may_be_replaced(self.index, offset) {
            false => Ok(()),
            true => Err(self.unsupported(
                "a block or a branch that is replaced while the program counts, by a monitor that \
                 was not there when it was compiled (start the program with that monitor)",
            )),
        }
    }

    /// The same for an instruction that takes operands, gives results and falls through.
    fn replaceable_plain(
        &mut self,
        op: &Operator<'_>,
        validator: &FuncValidator<ValidatorResources>,
    ) -> Result<(), CompileError> {
        let results = op.operator_arity(validator).map_or(0, |(_, results)| results as usize);
        let types: Vec<ValType> = (0..results)
            .rev()
            .filter_map(|depth| validator.get_operand_type(depth)?.map(crate::module::operand_type))
            .collect();
        let (itself, behind) = (self.block(&[]), self.block(&types));
        // A conditional branch that is replaced is not taken; other branches have a way around.
        let leaves = super::patchable_site::is_branch(op) || never_falls_through(op);
        let ways: &[Way] = if leaves { &[Way::Next, Way::Around] } else { &[] };
        self.fire_instead(itself, behind, ways)?;
        self.fire(Mode::Itself);
        self.operator(op)?;
        let given = self.pop_many(results);
        self.builder.ins().jump(behind, &arguments(&given));
        self.builder.seal_block(behind);
        self.builder.switch_to_block(behind);
        self.stack.extend(self.builder.block_params(behind).to_vec());
        Ok(())
    }

    /// Moves the validator past an instruction.
    fn validated(
        &self,
        validator: &mut FuncValidator<ValidatorResources>,
        op: &Operator<'_>,
    ) -> Result<(), CompileError> {
        let valid = validator.op(self.offset as u64, op);
        valid.map_err(|error| match self.hooking.falls_through {
            true => self.stuck(&error),
            false => error.into(),
        })
    }

    /// The error if code after a branch uses operands that do not exist.
    fn stuck(&self, error: &BinaryReaderError) -> CompileError {
        self.unsupported(invalid_behind(error))
    }

    /// The fall-through of a hook that replaces an instruction that never falls through by itself.
    fn replaced_fall_through(&mut self, op: &Operator<'_>) -> Option<&'a FallThrough> {
        if !self.reachable || !never_falls_through(op) {
            return None;
        }
        let mut all = self.hooking.at(self.offset as u32, Some(Mode::Alt)).iter();
        let left = all.find_map(Hook::fall_through);
        self.hooking.falls_through |= left.is_some();
        left
    }

    /// Translates a branch, a return or a trap after which control continues with the results of
    /// its replacement.
    fn fall_through_instead(
        &mut self,
        op: &Operator<'_>,
        left: &FallThrough,
    ) -> Result<(), CompileError> {
        self.has_counted_detour()?;
        let stack = self.stack[..self.stack.len() - left.dropped].to_vec();
        let (itself, behind) = (self.block(&[]), self.builder.create_block());
        for ty in &left.given {
            let ty = machine_type(crate::module::operand_type(*ty));
            self.builder.append_block_param(behind, ty);
        }
        self.fire_instead(itself, behind, &[Way::Around])?;
        self.fire(Mode::Itself);
        self.operator(op)?;
        self.stack = stack;
        self.go_on_in(behind);
        self.builder.seal_block(behind);
        Ok(())
    }

    /// The second arm of an `if`, which has been entered: its replacement continues at the end of
    /// the `if`.
    fn replaceable_arm(&mut self) -> Result<(), CompileError> {
        self.has_counted_detour()?;
        let (itself, behind) = (self.block(&[]), self.top().behind);
        self.fire_instead(itself, behind, &[Way::Around])?;
        self.frames.last_mut().expect("validated: a frame").reached = true;
        Ok(())
    }

    /// A block: its replacement continues after its end, and after all hooks there.
    fn replaceable_block(
        &mut self,
        op: &Operator<'_>,
        block: BlockType,
    ) -> Result<(), CompileError> {
        self.has_counted_detour()?;
        let ty = self.block_type(block)?;
        let takes = ty.params().len() + usize::from(matches!(op, Operator::If { .. }));
        let (itself, over) = (self.block(&[]), self.block(ty.results()));
        let height = self.stack.len() - takes;
        if matches!(op, Operator::Loop { .. }) {
            // Control has reached the loop, although it does not enter it.
            self.write_instead(itself, over, &[Way::Next, Way::Around], Some(Mode::Before))?;
            self.go_on_itself(itself);
        } else {
            self.fire_instead(itself, over, &[Way::Around])?;
        }
        self.operator(op)?;
        self.hooking.over.push(Over { depth: self.frames.len(), block: over, height });
        Ok(())
    }

    /// Continues after a replaced block.
    fn go_on_over(&mut self, over: &Over) {
        if self.reachable {
            let results = self.pop_many(self.stack.len() - over.height);
            self.builder.ins().jump(over.block, &arguments(&results));
        }
        self.builder.seal_block(over.block);
        self.builder.switch_to_block(over.block);
        self.stack.truncate(over.height);
        self.stack.extend(self.builder.block_params(over.block).to_vec());
        self.reachable = true;
    }

    /// Emits the replacement of an instruction, which leads to `behind` by these edges. The code that
    /// is emitted next is the instruction itself.
    fn fire_instead(
        &mut self,
        itself: Block,
        behind: Block,
        ways: &[Way],
    ) -> Result<(), CompileError> {
        self.write_instead(itself, behind, ways, None)?;
        self.go_on_itself(itself);
        Ok(())
    }

    /// The same, with the hooks of another mode on the way.
    fn write_instead(
        &mut self,
        itself: Block,
        behind: Block,
        ways: &[Way],
        mode: Option<Mode>,
    ) -> Result<(), CompileError> {
        let mode = mode.filter(|mode| self.is_hooked(*mode));
        let is_direct = mode.is_none() && (ways.is_empty() || !self.counting.counts());
        let given = if is_direct { behind } else { self.builder.create_block() };
        if !is_direct {
            for param in self.builder.block_params(behind).to_vec() {
                let ty = self.builder.func.dfg.value_type(param);
                self.builder.append_block_param(given, ty);
            }
        }
        self.hooking.replacing = Some((itself, given));
        self.fire(Mode::Alt);
        self.hooking.replacing = None;
        if !is_direct {
            self.builder.seal_block(given);
            self.builder.switch_to_block(given);
            mode.into_iter().for_each(|mode| self.fire(mode));
            ways.iter().for_each(|way| self.count(*way));
            let results = self.builder.block_params(given).to_vec();
            self.builder.ins().jump(behind, &arguments(&results));
        }
        self.hooking.failure.take().map_or(Ok(()), Err)
    }

    fn go_on_itself(&mut self, itself: Block) {
        self.builder.seal_block(itself);
        self.builder.switch_to_block(itself);
    }

    /// Fires the hooks of a loop that has just begun because code begins in it.
    pub(super) fn fire_landing(
        &mut self,
        op: &Operator<'_>,
        validator: &FuncValidator<ValidatorResources>,
    ) {
        self.pay_for(op);
        if self.target.options.sites.have_site_before(op) {
            self.patchable_site();
        }
        if self.is_hooked(Mode::Before) || self.is_hooked(Mode::After) {
            self.know_operands(validator);
            self.fire(Mode::Before);
            self.fire(Mode::After);
        }
        self.count(Way::Inside);
    }

    fn know_operands(&mut self, validator: &FuncValidator<ValidatorResources>) {
        self.hooking.operands.clear();
        if !self.reachable {
            return;
        }
        self.hooking.writable =
            self.stack.len() - self.frames.last().map_or(0, |frame| frame.height);
        for depth in 0..self.stack.len().min(OPERANDS) {
            let Some(Some(ty)) = validator.get_operand_type(depth) else { break };
            self.hooking.operands.push(crate::module::operand_type(ty));
        }
    }

    fn topmost(&self, place: u32) -> Option<Value> {
        self.stack.len().checked_sub(1 + place as usize).map(|at| self.stack[at])
    }

    /// Fires the hooks of the function's entry.
    pub(super) fn fire_entry(&mut self) {
        self.hooking.operands.clear();
        self.fire_all(self.hooking.at(0, Some(Mode::Entry)));
    }

    /// Catches exceptions that leave the function, if hooks need that.
    pub(super) fn watch_unwinding(&mut self) {
        let is_meant = |hook: &Hook| matches!(hook.mode, Mode::Unwind | Mode::Thrown);
        if self.hooking.hooks.iter().any(is_meant) {
            let block = self.builder.create_block();
            self.builder.append_block_param(block, types::I64);
            self.hooking.unwinding = Some(block);
        }
    }

    /// Fires the hooks of the function's exit, with values of these types on the stack.
    pub(super) fn fire_exit(&mut self, types: &[ValType]) {
        let hooks = self.hooking.at(0, Some(Mode::Exit));
        if !hooks.is_empty() {
            self.hooking.operands = types.iter().rev().copied().collect();
            self.hooking.writable = types.len();
            self.fire_all(hooks);
        }
    }

    /// Fires the hooks at the function's own end, which is the target of all branches out of it.
    pub(super) fn fire_end(&mut self) {
        self.pay_for_the_end();
        if self.target.options.sites.have_site_before(&Operator::End) {
            self.patchable_site();
        }
        let types = self.info.function_type(self.index).results();
        self.hooking.operands = types.iter().rev().copied().collect();
        self.hooking.writable = types.len();
        self.fire(Mode::Before);
        self.fire(Mode::After);
        self.fire_exit(types);
    }

    /// Emits the code by which exceptions leave the function.
    pub(super) fn finish_unwinding(&mut self) {
        let Some(block) = self.hooking.unwinding.take() else { return };
        self.builder.seal_block(block);
        self.builder.switch_to_block(block);
        self.stack.clear();
        self.hooking.operands.clear();
        self.fire_all(self.hooking.at(0, Some(Mode::Unwind)));
        let exception = self.builder.block_params(block)[0];
        self.throw_exception(exception, None);
    }

    /// The block that exceptions of the present call reach first, if that is hooked.
    pub(super) fn watch_call(&mut self) -> Option<Block> {
        (!self.is_nested() && self.is_hooked(Mode::Thrown)).then(|| {
            let block = self.builder.create_block();
            self.builder.append_block_param(block, types::I64);
            self.builder.set_cold_block(block);
            block
        })
    }

    /// Emits the hooks in that block, and the jump to the landing.
    pub(super) fn fire_thrown(&mut self, block: Block, landing: Block) {
        self.builder.seal_block(block);
        self.builder.switch_to_block(block);
        let operands = std::mem::take(&mut self.hooking.operands);
        let stack = std::mem::take(&mut self.stack);
        self.fire(Mode::Thrown);
        (self.stack, self.hooking.operands) = (stack, operands);
        let exception = self.builder.block_params(block)[0];
        self.builder.ins().jump(landing, &arguments(&[exception]));
    }

    /// Fires the hooks of a mode at the present instruction.
    pub(super) fn fire(&mut self, mode: Mode) {
        self.fire_all(self.hooking.at(self.offset as u32, Some(mode)));
    }

    /// Fires the hooks on the edge back to a loop's beginning. Changes of operands apply to that
    /// edge only: returns the operands that the branch passes.
    pub(super) fn fire_aside(&mut self, arity: usize) -> Vec<Value> {
        let kept = self.stack.clone();
        self.fire(Mode::BackEdge);
        let taken = self.peek_many(arity);
        self.stack = kept;
        taken
    }

    fn fire_all(&mut self, hooks: &'a [Hook]) {
        let prepare = |hook: &'a Hook| match &hook.action {
            Action::Inline(sequence) => {
                sequence.0.prepare(&mut Emitter { translator: self, hook, due: None, slot: None })
            }
            Action::Call(_) | Action::OneShot(_) => None,
        };
        let prepared: Vec<Option<Value>> = hooks.iter().map(prepare).collect();
        let (mut one_shots, mut others) = (Vec::new(), Vec::new());
        for (hook, due) in hooks.iter().zip(prepared) {
            match &hook.action {
                Action::OneShot(probe) => one_shots.push(*probe),
                Action::Call(_) | Action::Inline(_) => others.push((hook, due)),
            }
        }
        // Only a trap of another hook could show when a one-shot probe fires.
        one_shots.into_iter().for_each(|probe| self.one_shot_site(probe));
        match PendingEvent::begin(self, &others) {
            Some(mut event) => {
                for (hook, due) in others {
                    event.emit(self, |it| it.fire_one(hook, due));
                }
                event.end(self);
            }
            None => others.into_iter().for_each(|(hook, due)| self.fire_one(hook, due)),
        }
    }

    fn fire_one(&mut self, hook: &'a Hook, due: Option<Value>) {
        let mut emitter = Emitter { translator: self, hook, due, slot: None };
        match &hook.action {
            Action::Call(call) => emitter.receive(call),
            Action::Inline(sequence) => {
                if let Err(error) = sequence.0.emit(&mut emitter) {
                    self.hooking.failure.get_or_insert(error);
                }
            }
            Action::OneShot(probe) => self.one_shot_site(*probe),
        }
    }

    fn hook_word(&self, word: Word) -> i32 {
        self.layout.counter(self.hooking.first_word.wrapping_add(word.0))
    }
}

/// Emits the code of a hook.
pub struct Emitter<'t, 'a> {
    pub(super) translator: &'t mut Translator<'a>,
    pub(super) hook: &'a Hook,
    pub(super) due: Option<Value>,
    /// Where the hook's values are kept, if they are, in case that a hook before it traps.
    pub(super) slot: Option<(StackSlot, i32)>,
}

impl std::fmt::Debug for Emitter<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emitter").field("hook", self.hook).finish_non_exhaustive()
    }
}

impl<'a> Emitter<'_, 'a> {
    /// The builder of machine code. The function continues in the block that is current at the end.
    pub fn builder(&mut self) -> &mut FunctionBuilder<'a> {
        &mut self.translator.builder
    }

    /// The hook that is emitted.
    pub fn hook(&self) -> &'a Hook {
        self.hook
    }

    /// The value that it has read before any hook fired in this mode.
    pub fn due(&self) -> Option<Value> {
        self.due
    }

    /// The address of the instance.
    pub fn vmctx(&self) -> Value {
        self.translator.vmctx
    }

    // --- the program's values

    /// How many operands can be seen.
    pub fn operands(&self) -> u32 {
        self.translator.hooking.operands.len() as u32
    }

    /// An operand, counted from the top of the stack, and its type. Vectors have the type that they
    /// are passed on with.
    pub fn operand(&mut self, place: u32) -> Option<(Value, ValType)> {
        let ty = *self.translator.hooking.operands.get(place as usize)?;
        let value = self.translator.topmost(place)?;
        Some((self.translator.plain(value), ty))
    }

    /// An operand that the instruction has taken, and its type: after it only.
    pub fn taken(&mut self, place: u32) -> Option<(Value, ValType)> {
        let (value, ty) = *self.translator.hooking.taken.get(place as usize)?;
        Some((self.translator.plain(value), ty))
    }

    /// Replaces an operand by another one of the same type. Returns whether it belongs to the
    /// innermost frame: no others are changed.
    pub fn set_operand(&mut self, place: u32, value: Value) -> bool {
        let is_ours = (place as usize) < self.translator.hooking.writable;
        if is_ours {
            let at = self.translator.stack.len() - 1 - place as usize;
            self.translator.stack[at] = value;
        }
        is_ours
    }

    /// A local and its type.
    pub fn local(&mut self, index: u32) -> Option<(Value, ValType)> {
        let ty = *self.translator.hooking.locals.get(index as usize)?;
        Some((self.translator.local(index), ty))
    }

    /// Gives a local another value, of the same type.
    pub(crate) fn set_local(&mut self, index: u32, value: Value) {
        self.translator.set_local(index, value);
    }

    /// The access to memory that the instruction makes.
    pub(crate) fn access(&self) -> Option<Access> {
        self.translator.hooking.access
    }

    /// The address of the access, as an index into its memory, with 64 bits.
    pub fn address(&mut self) -> Option<Value> {
        let access = self.access()?;
        // After the instruction, its index is no longer an operand.
        let (index, _) = self.taken(access.index).or_else(|| self.operand(access.index))?;
        let index = self.translator.widened(index);
        Some(match access.offset {
            0 => index,
            offset => self.builder().ins().iadd_imm_s(index, offset as i64),
        })
    }

    /// The block of the instruction that the hook replaces.
    pub fn replaced(&self) -> Option<Block> {
        self.translator.hooking.replacing.map(|(itself, _)| itself)
    }

    /// Continues after the instruction with these results.
    pub fn replace(&mut self, results: &[Value]) {
        let (_, behind) =
            self.translator.hooking.replacing.expect("it stands in an instruction's place");
        let results: Vec<Value> =
            results.iter().map(|value| self.translator.plain(*value)).collect();
        self.builder().ins().jump(behind, &arguments(&results));
    }

    /// Calls a function of the program, as an instruction of the program does.
    pub fn call_function(
        &mut self,
        function: u32,
        args: &[Value],
    ) -> Result<Vec<Value>, CompileError> {
        let height = self.translator.stack.len();
        self.translator.stack.extend(args);
        self.translator.operator(&Operator::Call { function_index: function })?;
        let results = self.translator.stack.split_off(height);
        Ok(results.into_iter().map(|value| self.translator.plain(value)).collect())
    }

    // --- words of the instance, and of the activation

    /// A variable of 64 bits of the activation, for hooks alone, by any number; it is zero at
    /// first.
    pub fn variable(&mut self, number: u64) -> Variable {
        let builder = &mut self.translator.builder;
        *self
            .translator
            .hooking
            .variables
            .entry((self.hook.base, number))
            .or_insert_with(|| builder.declare_var(types::I64))
    }

    /// Where a word is in the vmctx.
    pub fn word(&self, word: Word) -> i32 {
        self.translator.hook_word(word.plus(self.hook.base))
    }

    /// How words are accessed: they do not alias data of the program.
    pub fn flags(&self) -> MemFlagsData {
        MemFlagsData::trusted().with_alias_region(Some(self.translator.regions.counters))
    }

    /// Reads a word.
    pub fn load_word(&mut self, word: Word) -> Value {
        let (flags, at, vmctx) = (self.flags(), self.word(word), self.vmctx());
        self.builder().ins().load(types::I64, flags, vmctx, at)
    }

    /// Reads a word that never changes while machine code of the instance runs.
    pub(crate) fn load_fixed_word(&mut self, word: Word) -> Value {
        let (flags, at, vmctx) =
            (self.flags().with_readonly().with_can_move(), self.word(word), self.vmctx());
        self.builder().ins().load(types::I64, flags, vmctx, at)
    }

    /// Writes a word.
    pub fn store_word(&mut self, word: Word, value: Value) {
        let (flags, at, vmctx) = (self.flags(), self.word(word), self.vmctx());
        self.builder().ins().store(flags, value, vmctx, at);
    }

    /// Adds one to a word.
    pub fn count(&mut self, word: Word) {
        let at = self.word(word);
        self.translator.add_to_counter(at);
    }

    // --- leaving

    /// Stops the program if the value is not zero.
    pub fn trap_if(&mut self, condition: Value, trap: Trap) {
        self.translator.trap_if(condition, trap);
    }

    /// Calls a function of the runtime, with the instance if it takes one.
    pub fn builtin(&mut self, builtin: Builtin, args: &[Value]) -> Option<Value> {
        match builtin.takes_vmctx() {
            true => self.translator.builtin(builtin, args),
            false => self.translator.plain_builtin(builtin, args),
        }
    }

    /// Calls a receiver with the captured values.
    pub fn receive(&mut self, call: &'a Call) {
        let captured: Vec<Option<Value>> =
            call.captures.iter().map(|capture| self.captured(*capture)).collect();
        let slot = self.slot(captured.len());
        for (i, value) in captured.iter().enumerate() {
            let value = match value {
                Some(value) => self.widened(*value),
                None => self.zero(),
            };
            self.builder().ins().stack_store(types::I64, value, slot, 16 * i as i32);
        }
        self.call_receiver(call, slot);
        if call.writes {
            for (i, capture) in
                call.captures.iter().enumerate().filter(|(i, _)| captured[*i].is_some())
            {
                self.write_back(*capture, slot, 16 * i as i32);
            }
        }
    }

    /// The first word of the value that was captured at that place, as the receiver has just left
    /// it.
    pub fn received(&mut self, place: usize) -> Value {
        let slot = self.slot(place + 1);
        self.builder().ins().stack_load(types::I64, types::I64, slot, 16 * place as i32)
    }

    /// Passes a single word to a receiver, and returns the word as the receiver has left it.
    pub fn exchange(&mut self, call: &'a Call, word: Value) -> Value {
        debug_assert!(call.captures.is_empty(), "nothing of the program's");
        let slot = self.slot(1);
        self.builder().ins().stack_store(types::I64, word, slot, 0);
        self.call_receiver(call, slot);
        self.builder().ins().stack_load(types::I64, types::I64, slot, 0)
    }

    /// Passes values of the hook's code to a receiver, as many as the call captures.
    pub fn hand_over(&mut self, call: &'a Call, values: &[Value]) {
        debug_assert_eq!(call.captures.len(), values.len(), "as many as the receiver expects");
        let slot = self.slot(values.len());
        for (i, value) in values.iter().enumerate() {
            let value = self.widened(*value);
            self.builder().ins().stack_store(types::I64, value, slot, 16 * i as i32);
        }
        self.call_receiver(call, slot);
    }

    fn call_receiver(&mut self, call: &'a Call, slot: StackSlot) {
        // The plan is kept together with its code.
        let call_at = self.builder().ins().iconst(types::I64, std::ptr::from_ref(call) as i64);
        let frame = self.builder().ins().get_frame_pointer(types::I64);
        let values = self.builder().ins().stack_addr(types::I64, slot, 0);
        let is_to_stop = self.builtin(Builtin::Hook, &[call_at, frame, values]).expect("a result");
        self.trap_if(is_to_stop, Trap::Interrupted);
    }

    pub(super) fn zero(&mut self) -> Value {
        self.builder().ins().iconst(types::I64, 0)
    }

    pub(super) fn captured(&mut self, capture: Capture) -> Option<Value> {
        match capture {
            Capture::Operand(place) => self.operand(place).map(|(value, _)| value),
            Capture::Taken(place) => self.taken(place).map(|(value, _)| value),
            Capture::Local(index) => self.local(index).map(|(value, _)| value),
            Capture::Address => self.address(),
        }
    }

    /// A value as a whole word, or a vector.
    pub(super) fn widened(&mut self, value: Value) -> Value {
        let ty = self.builder().func.dfg.value_type(value);
        let bits = match ty {
            types::F32 => self.builder().ins().bitcast(types::I32, MemFlagsData::new(), value),
            types::F64 => self.builder().ins().bitcast(types::I64, MemFlagsData::new(), value),
            _ => value,
        };
        match self.builder().func.dfg.value_type(bits) {
            types::I32 => self.builder().ins().uextend(types::I64, bits),
            _ => bits,
        }
    }

    fn write_back(&mut self, capture: Capture, slot: StackSlot, at: i32) {
        let ty = match capture {
            Capture::Operand(place) => self.operand(place).map(|(_, ty)| ty),
            Capture::Local(index) => self.local(index).map(|(_, ty)| ty),
            Capture::Taken(_) | Capture::Address => None,
        };
        let Some(ty) = ty else { return };
        let value = self.builder().ins().stack_load(types::I64, machine_type(ty), slot, at);
        match capture {
            Capture::Operand(place) => {
                self.set_operand(place, value);
            }
            Capture::Local(index) => self.set_local(index, value),
            Capture::Taken(_) | Capture::Address => {}
        }
    }

    /// The place of the function's frame where values are captured, large enough.
    fn slot(&mut self, values: usize) -> StackSlot {
        let size = 16 * values.max(1) as u32;
        let slot = match self.translator.hooking.slot {
            Some(slot) => slot,
            None => {
                let data = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 4);
                *self
                    .translator
                    .hooking
                    .slot
                    .insert(self.translator.builder.create_sized_stack_slot(data))
            }
        };
        let data = &mut self.translator.builder.func.sized_stack_slots[slot];
        data.size = data.size.max(size);
        slot
    }
}
