//! `profile`: the tree of calling contexts, with how often each was entered and how long it took.
//!
//! At its entry, a function searches for its node in the node of its caller: two loads and a
//! comparison, see [`tree`](super::tree). Time is charged to nodes as [`meter`](super::meter) says,
//! so that recursion, exceptions and tail calls need no special treatment: a tail call ends its
//! caller first.
//!
//! Two readings of the clock take longer than most calls. So a node whose calls turn out to be
//! short, callees included, is only counted from then on: its machine code finds the node, counts,
//! and makes it the current one, and at the end returns to the node before. Calls from outside of
//! all functions are always timed, since no caller could have their time. Functions of few
//! instructions that call nothing are counted without becoming current. Where all their calls are
//! known, their callers count them, so that their own code does not change; as far as possible in
//! the caller's node ([`counted_callees`](super::counted_callees)). `time-all` times them all.
//!
//! An activation keeps its caller's node, with the lowest bit set if its end needs no clock, also
//! where its function changes variants. It keeps 0 if it has entered no node: there was none, or it
//! began in a variant without these hooks.

use super::context_table::{Labels, Table};
use super::counted_callees::CountedCallees;
use super::flame;
use super::hooked::{HookedMonitor, fingerprint};
use super::kept::{NAMELESS, Run};
use super::meter::{Meter, Span, Speed, put_spans, shown};
use super::outline::Outline;
use super::report::LateProfile;
use super::tree::{NODES, Trees};
use super::{Choice, MonitorError, Report};
use cranelift_codegen::ir::{InstBuilder, Value, condcodes::IntCC, types};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::fs::File;
use std::mem::offset_of;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use wasm_aot_body::report::several;
use wasm_aot_engine::CompileError;
use wasm_aot_engine::instrument::compile::{
    Action, Call, Carried, Draft, Emitter, Firing, Inline, InstanceSlots, Mode, Receiver, Sequence,
};
use wasm_aot_engine::instrument::runtime::Module;
use wasm_aot_engine::instrument::vm::Builtin;
use wasm_aot_engine::instrument::vm::context::{ContextNode, PLACES};
use wordpatch::os::replace::overwrite;

/// Functions of fewer instructions that call nothing, and have no loop, are only counted.
const BRIEF: usize = 100;
/// Calls that take less than this many readings of the clock are only counted: two readings would
/// be more than a fiftieth of them.
const LEAST: u64 = 100;

/// The monitor.
#[derive(Debug)]
pub(super) struct Profile {
    choice: Choice,
    speed: Speed,
    meter: OnceLock<Meter>,
    /// The cost of a reading of the clock, in ticks.
    reading: u64,
    trees: Mutex<Trees>,
    /// The CPU time at the beginning of the first instance.
    worked: OnceLock<Duration>,
    /// The files of drawings.
    files: Vec<(flame::Form, File)>,
}

/// The option by which short calls are timed, too.
const TIME_ALL: &str = "time-all";

/// Makes the monitor.
pub(super) fn profile_monitor(choice: &Choice) -> Result<Arc<dyn HookedMonitor>, MonitorError> {
    let mut files = Vec::new();
    for form in flame::Form::ALL {
        files.extend(choice.file(form.option())?.map(|file| (form, file)));
    }
    let (meter, worked) = Default::default();
    let (speed, reading) = (Speed::since_now(), super::meter::reading());
    let most = choice.number("contexts").map_or(NODES, |most| most as usize);
    let trees = Mutex::new(Trees::new(most, choice.has(TIME_ALL)));
    Ok(Arc::new(Profile { choice: choice.clone(), speed, meter, reading, trees, worked, files }))
}

impl HookedMonitor for Profile {
    fn plan(self: Arc<Self>, outline: &Outline<'_>, draft: &mut Draft) {
        let meter = *self.meter.get_or_init(|| Meter::new(draft));
        draft.add_receiver(Arc::<Self>::clone(&self));
        let enter = |function: u32, is_brief: bool| {
            let number = u64::from(function) << 1 | u64::from(is_brief);
            let receiver = Arc::<Self>::clone(&self);
            let make = Call { receiver, number, captures: Vec::new(), writes: false };
            Action::Inline(Sequence(Arc::new(Enter { meter, function, is_brief, make })))
        };
        let mut by_callers = HashSet::new();
        for function in outline.chosen(&self.choice) {
            let is_brief = !self.choice.has(TIME_ALL) && function.is_brief(BRIEF);
            if is_brief && outline.is_called_by_name(function.index) {
                by_callers.insert(function.index);
            } else if is_brief {
                draft.hook_function(function.index, Mode::Entry, enter(function.index, true));
            } else {
                put_spans(draft, outline, function, |span| match span {
                    Span::Begin(function) => enter(function, false),
                    Span::End => Action::Inline(Sequence(Arc::new(Leave(meter)))),
                });
            }
        }
        let chosen: HashSet<u32> = outline.chosen(&self.choice).map(|f| f.index).collect();
        let is_counted = |callee: u32| by_callers.contains(&callee);
        let counted = CountedCallees::new(outline, |f| chosen.contains(&f), is_counted);
        for (caller, at, callee) in outline.direct_calls().filter(|(_, _, f)| is_counted(*f)) {
            let action = match counted.word(caller, callee) {
                Some(word) => Action::Inline(Sequence(Arc::new(Count { meter, word }))),
                None => enter(callee, true),
            };
            draft.hook(caller, at, Mode::Before, action);
        }
        self.trees.lock().count_callees(counted);
    }

    fn observes(&self, on: bool) {
        let (Some(meter), trees) = (self.meter.get(), self.trees.lock()) else { return };
        trees.each_instance(|slots| {
            if on {
                return meter.resume(slots);
            }
            trees.charge_due(*meter, slots);
            meter.rest(slots);
        });
    }

    fn events(&self, _module: &Module) -> u64 {
        let (sum, _) = self.trees.lock().sum(self.meter.get().copied());
        sum.contexts.iter().map(|context| context.calls).sum()
    }

    fn report(&self, module: &Module) -> Report {
        let (mut sum, without) = self.trees.lock().sum(self.meter.get().copied());
        if let Some(depth) = self.choice.number("depth") {
            sum = sum.cut(depth as u32);
        }
        let labels = Arc::new(Labels::of(module, &sum));
        let table = Arc::new(Table::new(sum, self.speed.hz(), self.reading, labels));
        let processor = self.worked.get().map_or(Duration::ZERO, |before| {
            wordpatch::os::clocks::of_process().saturating_sub(*before)
        });
        let mut report = table.report();
        report.total([("cpu nanoseconds", processor.as_nanos() as u64)]);
        let program = self.choice.program().or(module.name()).unwrap_or(NAMELESS).to_owned();
        let run = Run { program, processor };
        let (kept, its_run) = (Arc::clone(&table), run.clone());
        report.profile = Some(LateProfile::new(move || kept.profile(&its_run)));
        let worked = shown(processor.as_secs_f64());
        report.notes.push(format!("by the wall clock; CPU time of the process: {worked}"));
        if without > 0 {
            report.notes.push(format!(
                "there was no memory left for further contexts (contexts=N): {} below \
                 [contexts beyond memory], whose time is their callers'",
                several(without, "call")
            ));
        }
        let instead = |form: &flame::Form| {
            self.choice.has(form.option()) && self.choice.value(form.option()).is_none()
        };
        report.drawing = Some(match flame::Form::ALL.into_iter().find(instead) {
            Some(form) => String::from_utf8_lossy(&table.drawn(form, &run)).into_owned(),
            None => table.text(&report, self.choice.top()),
        });
        for (form, file) in &self.files {
            if let Err(error) = overwrite(file, &table.drawn(*form, &run)) {
                report.remark(format!("{}: {error}", form.option()));
            }
        }
        report
    }
}

impl Receiver for Profile {
    fn fire(&self, firing: &mut Firing<'_>) {
        // The word is the node that is left; on return, it is the one to enter, or 0.
        let [value, _] = &mut firing.values[0];
        let (function, is_brief) = ((firing.number >> 1) as u32, firing.number & 1 != 0);
        let mut trees = self.trees.lock();
        let child = trees.child(firing.vmctx, *value as usize, function, is_brief);
        *value = child.unwrap_or_default() as u64;
    }

    fn begin(&self, slots: InstanceSlots) {
        self.worked.get_or_init(wordpatch::os::clocks::of_process);
        if let Some(meter) = self.meter.get() {
            let least = if self.choice.has(TIME_ALL) { 0 } else { LEAST * self.reading };
            meter.begin(slots, self.trees.lock().begin(slots), least);
        }
    }

    fn paused(&self, slots: InstanceSlots, ticks: u64) {
        if let Some(meter) = self.meter.get() {
            meter.paused(slots, ticks);
        }
    }

    fn cut_off(&self, slots: InstanceSlots) {
        if let Some(meter) = self.meter.get() {
            self.trees.lock().charge_due(*meter, slots);
        }
    }

    fn end(&self, slots: InstanceSlots) {
        self.trees.lock().end(slots.vmctx);
    }
}

/// The code that enters a node.
#[derive(Debug)]
struct Enter {
    meter: Meter,
    function: u32,
    /// Whether it is only counted: then it is not left either.
    is_brief: bool,
    /// Makes the node.
    make: Call,
}

impl Inline for Enter {
    fn fingerprint(&self) -> u64 {
        let Self { meter, function, is_brief, make } = self;
        fingerprint("profile: enter", &(meter, function, is_brief, make))
    }

    fn emit<'a>(&'a self, at: &mut Emitter<'_, 'a>) -> Result<(), CompileError> {
        let before = self.meter.current(at);
        let (node, is_it) = self.look(at, before);
        let [counted, other, done] = [(); 3].map(|()| at.builder().create_block());
        at.builder().set_cold_block(other);
        at.builder().append_block_param(done, types::I64);
        at.builder().ins().brif(is_it, counted, &[], other, &[]);
        at.builder().seal_block(other);
        at.builder().switch_to_block(other);
        let state = self.with_the_runtime(at, before);
        at.builder().ins().jump(done, &[state.into()]);
        at.builder().seal_block(counted);
        at.builder().switch_to_block(counted);
        let state = self.count(at, node, before);
        at.builder().ins().jump(done, &[state.into()]);
        at.builder().seal_block(done);
        at.builder().switch_to_block(done);
        if !self.is_brief {
            let state = at.builder().block_params(done)[0];
            let variable = self.meter.before(at);
            at.builder().def_var(variable, state);
        }
        Ok(())
    }
}

impl Enter {
    /// The node that comes first in the function's place, and whether it is the function's and not
    /// timed.
    fn look(&self, at: &mut Emitter<'_, '_>, before: Value) -> (Value, Value) {
        let flags = at.flags();
        let place = offset_of!(ContextNode, places) as i32 + 8 * (self.function % PLACES) as i32;
        let node = at.builder().ins().load(types::I64, flags, before, place);
        // The number, followed by whether it is timed.
        let function = offset_of!(ContextNode, function) as i32;
        let function = at.builder().ins().load(types::I64, flags, node, function);
        let is_it = at.builder().ins().icmp_imm_s(IntCC::Equal, function, i64::from(self.function));
        (node, is_it)
    }

    /// Only counts the call; returns the value that the activation keeps.
    fn count(&self, at: &mut Emitter<'_, '_>, node: Value, before: Value) -> Value {
        at.count_at(node, offset_of!(ContextNode, calls) as i32);
        if self.is_brief {
            return before;
        }
        self.meter.replace(at, node);
        at.builder().ins().bor_imm_s(before, 1)
    }

    /// Has the runtime enter the node, or make it; returns the value that the activation keeps. The
    /// runtime changes no register, so that the common path needs to save none.
    fn with_the_runtime(&self, at: &mut Emitter<'_, '_>, before: Value) -> Value {
        let number = at.builder().ins().iconst(types::I64, self.make.number as i64);
        let make = at.builder().ins().iconst(types::I64, std::ptr::from_ref(&self.make) as i64);
        let vmctx = at.vmctx();
        self.meter.builtin(at, Builtin::EnterContext, &[number, make, vmctx]);
        if self.is_brief {
            return before;
        }
        let now = self.meter.current(at);
        let is_unknown = at.builder().ins().icmp(IntCC::Equal, now, before);
        let nothing = at.builder().ins().iconst(types::I64, 0);
        at.builder().ins().select(is_unknown, nothing, before)
    }
}

/// The code that counts a call in its caller's node.
#[derive(Debug, Hash)]
struct Count {
    meter: Meter,
    word: u32,
}

impl Inline for Count {
    fn fingerprint(&self) -> u64 {
        fingerprint("profile: count", self)
    }

    fn emit<'a>(&'a self, at: &mut Emitter<'_, 'a>) -> Result<(), CompileError> {
        let node = self.meter.current(at);
        at.count_at(node, offset_of!(ContextNode, counts) as i32 + 8 * self.word as i32);
        Ok(())
    }
}

/// The code that leaves a node.
#[derive(Debug, Hash)]
struct Leave(Meter);

impl Inline for Leave {
    fn fingerprint(&self) -> u64 {
        fingerprint("profile: leave", self)
    }

    fn emit<'a>(&'a self, at: &mut Emitter<'_, 'a>) -> Result<(), CompileError> {
        let variable = self.0.before(at);
        let state = at.builder().use_var(variable);
        let is_counted = at.builder().ins().band_imm_u(state, 1);
        let [counted, other, done] = [(); 3].map(|()| at.builder().create_block());
        at.builder().set_cold_block(other);
        at.builder().ins().brif(is_counted, counted, &[], other, &[]);
        at.builder().seal_block(other);
        at.builder().switch_to_block(other);
        self.0.builtin(at, Builtin::LeaveContext, &[state]);
        at.builder().ins().jump(done, &[]);
        at.builder().seal_block(counted);
        at.builder().switch_to_block(counted);
        let before = at.builder().ins().iadd_imm_s(state, -1);
        self.0.replace(at, before);
        at.builder().ins().jump(done, &[]);
        at.builder().seal_block(done);
        at.builder().switch_to_block(done);
        Ok(())
    }

    fn carried(&self) -> Option<Carried> {
        Some(self.0.carried())
    }
}
