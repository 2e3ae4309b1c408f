//! Emits the hooks of a function: where they fire, and which values they can use there.
//!
//! The translator calls this file at every [`Mode`] of an instruction. A hook's code is part of the
//! function's, uses operands and locals as SSA values, and is optimised together with the function.
//! Where nothing is planned, nothing is emitted.

use super::access::Access;
use super::control::arguments;
use super::emitter::Emitter;
use super::function::Translator;
use super::pending_event::PendingEvent;
use super::plan::{Action, Carried, Hook, Mode, Plan, Word};
use super::replacing::Over;
use crate::error::CompileError;
use crate::types::ValType;
use cranelift_codegen::ir::{Block, InstBuilder, MemFlagsData, StackSlot, Value, types};
use cranelift_frontend::Variable;
use std::collections::HashMap;
use wasm_aot_body::Way;
use wasm_aot_body::replacement::invalid_behind;
use wasmparser::{BinaryReaderError, FuncValidator, Operator, ValidatorResources};

/// The most operands whose types are known at a hook: more than any instruction has.
const OPERANDS: usize = 1024;

/// What the translator of a function knows of its hooks.
#[derive(Default)]
pub(super) struct Hooking<'a> {
    /// All of the function's.
    pub(super) hooks: &'a [Hook],
    /// The number of the instance's first word that is assigned to hooks.
    pub(super) first_word: u32,
    /// The types of the function's locals.
    pub(super) locals: Vec<ValType>,
    /// The types of operands in the present mode, from the top of the stack.
    pub(super) operands: Vec<ValType>,
    /// How many of them may be replaced: those below belong to frames outside, which other edges
    /// enter, too.
    pub(super) writable: usize,
    /// The access of the present instruction.
    pub(super) access: Option<Access>,
    /// The operands that it has taken, once it has begun: values and types from the top.
    pub(super) taken: Vec<(Value, ValType)>,
    /// Variables of hooks, by the base of the hook's plan and by number.
    pub(super) variables: HashMap<(u32, u64), Variable>,
    /// While a replacement of an instruction is emitted: the block of the instruction itself, and
    /// the block where control continues with results.
    pub(super) replacing: Option<(Block, Block)>,
    /// Whether control has continued after an instruction that never falls through by itself.
    pub(super) falls_through: bool,
    /// Replaced blocks, from the outermost one that has not ended.
    pub(super) over: Vec<Over>,
    /// The block for exceptions that leave the function, if that is hooked.
    pub(super) unwinding: Option<Block>,
    /// The slot in which captured values are passed to receivers.
    pub(super) slot: Option<StackSlot>,
    /// Whether the places of unwound frames are recorded.
    pub(super) notes_partial_exits: bool,
    /// Why a hook's code could not be emitted.
    pub(super) failure: Option<CompileError>,
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
    pub(super) fn at(&self, offset: u32, mode: Option<Mode>) -> &'a [Hook] {
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

    /// A variable of the hooks of a plan.
    pub(super) fn hook_variable(&mut self, base: u32, number: u64) -> Variable {
        let builder = &mut self.builder;
        let variables = self.hooking.variables.entry((base, number));
        *variables.or_insert_with(|| builder.declare_var(types::I64))
    }

    /// The variables of hooks that a thread takes along when it changes variants, and where their
    /// words, those of their accounts, and those of the open accounts are in the vmctx.
    fn carried(&mut self) -> Vec<(Variable, [i32; 3])> {
        let carried = |hook: &Hook| match &hook.action {
            Action::Inline(sequence) => Some((hook.base, sequence.0.carried()?)),
            Action::Call(_) | Action::OneShot(_) => None,
        };
        let at_exit = self.hooking.hooks.iter().filter(|hook| hook.mode == Mode::Exit);
        let all: Vec<_> = at_exit.filter_map(carried).collect();
        let place = |(base, Carried { variable, account, word }): (u32, Carried)| {
            let words = [word, word.plus(1), account].map(|word| self.hook_word(word.plus(base)));
            (self.hook_variable(base, variable), words)
        };
        all.into_iter().map(place).collect()
    }

    /// Stores the variables that the next variant loads, and closes the accounts.
    pub(super) fn store_carried(&mut self) {
        for (variable, [word, own, account]) in self.carried() {
            let value = self.builder.use_var(variable);
            self.store_carried_word(value, word);
            let open = self.load_carried_word(account);
            self.store_carried_word(open, own);
            let before = self.builder.ins().band_imm_s(value, -2);
            let open = self.builder.ins().select(value, before, open);
            self.store_carried_word(open, account);
        }
    }

    /// Loads the variables that the variant before has stored, and opens the accounts again. The
    /// words are cleared: a variant that does not have the variables stores nothing.
    pub(super) fn load_carried(&mut self) {
        for (variable, [word, own, account]) in self.carried() {
            let value = self.load_carried_word(word);
            let nothing = self.builder.ins().iconst(types::I64, 0);
            self.store_carried_word(nothing, word);
            self.builder.def_var(variable, value);
            let (own, open) = (self.load_carried_word(own), self.load_carried_word(account));
            let open = self.builder.ins().select(value, own, open);
            self.store_carried_word(open, account);
        }
    }

    fn load_carried_word(&mut self, at: i32) -> Value {
        let flags = MemFlagsData::trusted().with_alias_region(Some(self.regions.counters));
        self.builder.ins().load(types::I64, flags, self.vmctx, at)
    }

    fn store_carried_word(&mut self, value: Value, at: i32) {
        let flags = MemFlagsData::trusted().with_alias_region(Some(self.regions.counters));
        self.builder.ins().store(flags, value, self.vmctx, at);
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

    pub(super) fn know_operands(&mut self, validator: &FuncValidator<ValidatorResources>) {
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

    pub(super) fn topmost(&self, place: u32) -> Option<Value> {
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

    pub(super) fn hook_word(&self, word: Word) -> i32 {
        self.layout.counter(self.hooking.first_word.wrapping_add(word.0))
    }
}
