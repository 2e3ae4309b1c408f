//! Emits the calls of monitors' functions in the program's code.

use super::binding::{Argument, Binding, Sees};
use super::switches::Word;
use super::texts::{BufferMemories, TextWriter};
use cranelift_codegen::ir::{Block, InstBuilder, MemFlagsData, Value, condcodes::IntCC, types};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wasm_aot_body::replacement::FallThrough;
use wasm_aot_engine::instrument::compile::{
    self, Action, Call, Draft, Emitter, Firing, Guest, HookId, Inline,
};
use wasm_aot_engine::instrument::runtime;
use wasm_aot_engine::{CompileError, Trap};

/// A call of a monitor's function.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    pub(crate) guest: Arc<Guest>,
    /// The per-thread pointer to the monitor's instance, if each thread has one.
    pub(crate) instance_pointer: Option<compile::Word>,
    pub(crate) binding: Binding,
    /// What writes the texts that it is given, if it is.
    pub(crate) texts: Option<Call>,
    /// What says whether it is to be called, if that may change.
    pub(crate) word: Option<Word>,
    /// Whether it is called only so often as the word says.
    pub(crate) is_limited: bool,
    /// Where its calls are counted, if they are.
    pub(crate) counter: Option<compile::Word>,
    /// What it is called through, if its failures are its monitor's own.
    pub(crate) contained: Option<Call>,
    pub(super) fingerprint: u64,
}

/// A call's code is equal to itself only: it knows addresses of this process.
fn fingerprint() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Relaxed)
}

impl Sequence {
    /// A call that is always made.
    pub(super) fn new(
        (guest, instance_pointer): (&Arc<Guest>, Option<compile::Word>),
        buffer_memories: &BufferMemories,
        binding: Binding,
    ) -> Self {
        let (word, is_limited, counter, contained) = Default::default();
        let texts = TextWriter::new(buffer_memories, &binding.texts).map(TextWriter::into_call);
        Self {
            guest: Arc::clone(guest),
            instance_pointer,
            binding,
            texts,
            word,
            is_limited,
            counter,
            contained,
            fingerprint: fingerprint(),
        }
    }

    /// The same code once more, which counts its calls.
    pub(super) fn counted(&self, counter: compile::Word) -> Self {
        Self { counter: Some(counter), fingerprint: fingerprint(), ..self.clone() }
    }

    /// Puts it into a plan.
    pub(super) fn put(self: Arc<Self>, function: u32, draft: &mut Draft) -> HookId {
        let (offset, mode) = (self.binding.offset, self.binding.bound_mode.mode);
        draft.hook(function, offset, mode, Action::Inline(compile::Sequence(self)))
    }
}

impl Inline for Sequence {
    fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    fn prepare(&self, at: &mut Emitter<'_, '_>) -> Option<Value> {
        self.word.as_ref().map(|word| left(word, at))
    }

    fn may_trap(&self) -> bool {
        self.contained.is_none()
    }

    fn keeps(&self) -> usize {
        self.conditions()
            + usize::from(self.instance_pointer.is_some())
            + usize::from(self.uses_slots())
            + self.binding.arguments.len()
    }

    fn keep(&self, at: &mut Emitter<'_, '_>) -> Result<(), CompileError> {
        let mut kept = Vec::with_capacity(self.keeps());
        if let Some(word) = &self.word {
            kept.push(at.due().unwrap_or_else(|| left(word, at)));
        }
        if self.looks_ahead() {
            let always = |at: &mut Emitter<'_, '_>| at.builder().ins().iconst(types::I32, 1);
            kept.push(at.operand(0).map_or_else(|| always(at), |(taken, _)| taken));
        }
        kept.extend(self.instance_pointer.map(|word| at.load_word(word)));
        if self.uses_slots() {
            kept.push(at.activation_slots());
        }
        for argument in &self.binding.arguments {
            kept.push(self.argument(*argument, at)?);
        }
        at.keep(0, &kept);
        Ok(())
    }

    fn complete(&self, firing: &mut Firing<'_>) {
        let (vmctx, frame) = (firing.vmctx, firing.frame);
        let (conditions, given) = firing.values.split_at_mut(self.conditions());
        // Only the first word of a number means something.
        if conditions.iter().any(|[word, _]| *word == 0) {
            return;
        }
        self.word.iter().filter(|_| self.is_limited).for_each(Word::take_one);
        if let Some(Call { receiver, number, .. }) = &self.texts {
            receiver.fire(&mut Firing { number: *number, vmctx, frame, values: &mut [] });
        }
        if let Some(Call { receiver, number, .. }) = &self.contained {
            receiver.fire(&mut Firing { number: *number, vmctx, frame, values: given });
            return;
        }
        let (pointer, arguments) = given.split_at(usize::from(self.instance_pointer.is_some()));
        let guest = (&*self.guest, pointer.first().map(|[word, _]| *word as usize));
        // The failure that ends the program is the first one.
        let _ = runtime::call_guest(vmctx, guest, self.binding.function, arguments);
    }

    fn fall_through(&self) -> Option<&FallThrough> {
        self.binding.replacement.fall_through.as_ref()
    }

    fn emit<'a>(&'a self, at: &mut Emitter<'_, 'a>) -> Result<(), CompileError> {
        // In place of an instruction: what is not called has the instruction executed.
        let replaced = at.replaced();
        let behind = replaced.unwrap_or_else(|| at.builder().create_block());
        let (mut is_conditional, mut counted) = (false, None);
        if let Some(word) = &self.word {
            let due = at.due().unwrap_or_else(|| left(word, at));
            unless(at, due, behind);
            is_conditional = true;
            counted = self.is_limited.then_some(word);
        }
        if self.looks_ahead()
            && let Some((taken, _)) = at.operand(0)
        {
            unless(at, taken, behind);
            is_conditional = true;
        }
        if let Some(word) = counted {
            // Another probe of the place may have taken it away meanwhile: then it stays away.
            let left = left(word, at);
            let is_there = at.builder().ins().icmp_imm_u(IntCC::NotEqual, left, 0);
            let one = at.builder().ins().uextend(types::I32, is_there);
            let less = at.builder().ins().isub(left, one);
            let address = at.builder().ins().iconst(types::I64, word.address());
            at.builder().ins().store(MemFlagsData::trusted(), less, address, 0);
        }
        self.counter.into_iter().for_each(|word| at.count(word));
        let mut args = Vec::with_capacity(self.binding.arguments.len());
        for argument in &self.binding.arguments {
            args.push(self.argument(*argument, at)?);
        }
        if let Some(call) = &self.texts {
            at.receive(call);
        }
        let results = match &self.contained {
            Some(call) => {
                at.hand_over(call, &args);
                Vec::new()
            }
            None => at.call_guest(
                (&self.guest, self.instance_pointer),
                self.binding.function,
                &args,
                self.binding.offset,
            )?,
        };
        if let Some(itself) = replaced {
            self.replacement(results, itself, at)?;
        } else if is_conditional {
            at.builder().ins().jump(behind, &[]);
            at.builder().switch_to_block(behind);
            at.builder().seal_block(behind);
        }
        Ok(())
    }
}

/// How often a probe is still called.
fn left(word: &Word, at: &mut Emitter<'_, '_>) -> Value {
    let address = at.builder().ins().iconst(types::I64, word.address());
    at.builder().ins().load(types::I32, MemFlagsData::trusted(), address, 0)
}

/// Goes to `behind` if a value is zero.
fn unless(at: &mut Emitter<'_, '_>, value: Value, behind: Block) {
    let next = at.builder().create_block();
    at.builder().ins().brif(value, next, &[], behind, &[]);
    at.builder().seal_block(next);
    at.builder().switch_to_block(next);
}

impl Sequence {
    /// Whether it is called only if the instruction is going to branch.
    fn looks_ahead(&self) -> bool {
        self.binding.bound_mode.sees == Sees::Branch
    }

    /// Whether its function has variables of activations.
    fn uses_slots(&self) -> bool {
        self.guest.is_framed(self.binding.function)
    }

    /// How many values decide whether it is called.
    fn conditions(&self) -> usize {
        usize::from(self.word.is_some()) + usize::from(self.looks_ahead())
    }

    /// Leaves something in place of an instruction: what was given, or what a function of the
    /// program gives, or what the instruction itself does.
    fn replacement(
        &self,
        mut own: Vec<Value>,
        itself: Block,
        at: &mut Emitter<'_, '_>,
    ) -> Result<(), CompileError> {
        let replacement = &self.binding.replacement;
        if replacement.decides {
            let decision = own.pop().expect("compared with the module: its last result");
            unless(at, decision, itself);
            for (number, call) in (2..).zip(&replacement.calls) {
                let (there, next) = (at.builder().create_block(), at.builder().create_block());
                let is_this = at.builder().ins().icmp_imm_s(IntCC::Equal, decision, number);
                at.builder().ins().brif(is_this, there, &[], next, &[]);
                at.builder().seal_block(there);
                at.builder().switch_to_block(there);
                let passed = self.all(&call.passed, at)?;
                let mut given = at.call_function(call.function, &passed)?;
                given.truncate(call.kept);
                given.extend(&own[own.len() - call.returned..]);
                at.replace(&given);
                at.builder().seal_block(next);
                at.builder().switch_to_block(next);
            }
        }
        let mut given = self.all(&replacement.below, at)?;
        given.extend(own);
        at.replace(&given);
        Ok(())
    }

    fn all(
        &self,
        arguments: &[Argument],
        at: &mut Emitter<'_, '_>,
    ) -> Result<Vec<Value>, CompileError> {
        arguments.iter().map(|argument| self.argument(*argument, at)).collect()
    }

    fn argument(
        &self,
        argument: Argument,
        at: &mut Emitter<'_, '_>,
    ) -> Result<Value, CompileError> {
        let lacks = || {
            CompileError::unsupported(
                "an operand that code generation does not know",
                wasm_aot_engine::Place::default(),
            )
        };
        let is_behind = self.binding.bound_mode.sees == Sees::Taken;
        Ok(match argument {
            Argument::I32(value) => {
                at.builder().ins().iconst(types::I32, i64::from(value.cast_unsigned()))
            }
            Argument::I64(value) => at.builder().ins().iconst(types::I64, value),
            Argument::F32(bits) => at.builder().ins().f32const(f32::from_bits(bits)),
            Argument::F64(bits) => at.builder().ins().f64const(f64::from_bits(bits)),
            Argument::V128(bits) => {
                let constant =
                    at.builder().func.dfg.constants.insert(bits.to_le_bytes().to_vec().into());
                at.builder().ins().vconst(types::I8X16, constant)
            }
            Argument::Null => at.builder().ins().iconst(types::I64, 0),
            Argument::NoReference => {
                let always = at.builder().ins().iconst(types::I8, 1);
                at.trap_if(always, Trap::NullReference);
                at.builder().ins().iconst(types::I64, 0)
            }
            Argument::Operand(place) if is_behind => at
                .taken(place)
                .or_else(|| at.operand(place))
                .map(|(value, _)| value)
                .ok_or_else(lacks)?,
            Argument::Operand(place) | Argument::Result(place) => {
                at.operand(place).map(|(value, _)| value).ok_or_else(lacks)?
            }
            Argument::Local(index) => at.local(index).map(|(value, _)| value).ok_or_else(lacks)?,
            Argument::MemoryBytes(memory) => at.memory_bytes(memory),
            Argument::IsNull(null) => {
                let (reference, _) = at.operand(0).ok_or_else(lacks)?;
                let condition = if null { IntCC::Equal } else { IntCC::NotEqual };
                let is = at.builder().ins().icmp_imm_s(condition, reference, 0);
                at.builder().ins().uextend(types::I32, is)
            }
            Argument::IsOf(ty, when) => {
                let (reference, _) = at.operand(0).ok_or_else(lacks)?;
                let is = at.is_of(reference, ty).ok_or_else(lacks)?;
                let as_asked = at.builder().ins().icmp_imm_s(IntCC::Equal, is, i64::from(when));
                at.builder().ins().uextend(types::I32, as_asked)
            }
            Argument::Entry(table) => {
                let (index, _) = at.operand(0).ok_or_else(lacks)?;
                at.resolved(Some(table), index)
            }
            Argument::Reference(place) => {
                let (reference, _) = at.operand(place).ok_or_else(lacks)?;
                at.resolved(None, reference)
            }
        })
    }
}
