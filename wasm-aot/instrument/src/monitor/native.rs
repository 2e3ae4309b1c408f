//! Enters the functions of modules in the native profile of the process, where `libfastinst.so` is
//! preloaded.
//!
//! ```text
//!   first instance ── introduce ──▶ Library::find ── register ──▶ numbers of probes
//!                                                   set(which) ◀── the library's agent
//!   FunctionSwitches: a word for each function in every instance: off, count or time
//!      │ changes                                     ▲
//!      ▼                                             │ load
//! thread ── leave_out ──▶ variants        entry: count? ─▶ another word, which the agent asks for
//! time? ── enter ──▶ the library exit:  timed? ── leave ─▶
//! ```
//!
//! The library's sampling controller decides what is counted and timed, and when, for this code and
//! native code alike. Its agent stores words, and puts back hooks that are compiled already. A
//! thread of the monitor leaves out the hooks of functions that are off, so that their entries lead
//! to the code that the module was compiled to; a function that is off when it is called for the
//! first time is not compiled with hooks. Without the library, this monitor does nothing.
//!
//! # Safety
//!
//! This module exists to register for notifications of modules before `main`, and to show the
//! library where frames of machine code lie.
#![allow(unsafe_code)]

use super::hooked::{Weight, ask_where, fingerprint, only_if};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, types};
use fastinst_code::{Function, Library, Refused, Registration, State};
use parking_lot::Mutex;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock, Weak};
use wasm_aot_engine::instrument::compile::{
    Action, Budget, Call, Draft, Emitter, Firing, HookId, Inline, InstanceSlots, Mode, Receiver,
    Sequence, Word,
};
use wasm_aot_engine::instrument::runtime::{
    Due, Module, ModuleInner, ObservedLayer, Origin, Places, TakesEffect, introduce_all_to,
};
use wasm_aot_engine::{CompileError, Error};

/// Registers for the introduction of modules, in every program that this crate is linked into.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

extern "C" fn at_start() {
    introduce_all_to(meet);
}

/// The values of functions' words.
const OFF: u8 = 0;
const COUNT: u8 = 1;
const TIME: u8 = 2;

/// The state of a function's hooks: in its code; left out; not compiled yet.
const THERE: u8 = 0;
const OUT: u8 = 1;
const NOWHERE: u8 = 2;

/// The distance of a function's return address from its frame pointer.
const RETURN_ADDRESS: usize = 8;

/// Called before a module gets its first instance.
fn meet(module: &Module) {
    let Some(library) = Library::find() else { return };
    // A monitor module is not a program.
    if module.is_patchable() && module.inner().options.budget != Budget::Exempt {
        let done = Native::begin(library, module);
        if let Err(why) = done {
            eprintln!("wasm-aot: {} is not in fastinst's profile: {why}", module.title());
        }
    }
}

/// Why a module is not in the profile.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Attach(#[from] Error),
    #[error(transparent)]
    Register(#[from] Refused),
}

/// The receiver of the module's hooks: it lives as long as the module.
#[derive(Debug)]
struct Native {
    library: &'static Library,
    switches: Arc<FunctionSwitches>,
    registered: OnceLock<(Registration, Vec<u32>)>,
}

/// The state of each function, and where it is stored. Functions are identified by their places
/// among the defined ones.
#[derive(Debug)]
struct FunctionSwitches {
    imported: u32,
    states: Vec<AtomicU8>,
    /// Whether its hooks are left out.
    out: Vec<AtomicU8>,
    words: Word,
    /// How often each was entered while it was counted.
    counts: Word,
    /// The living instances.
    all_slots: Mutex<Vec<InstanceSlots>>,
    /// The counts of instances that have ended.
    ended: Vec<AtomicU64>,
    /// The code that the hooks are in.
    attached: OnceLock<(Weak<ModuleInner>, Origin, FunctionHooks)>,
    /// Wakes the thread that leaves hooks out, and has it drop a module.
    changes: Sender<Option<Arc<ModuleInner>>>,
}

/// A function's hooks, by its place.
type FunctionHooks = Vec<Vec<HookId>>;

impl Native {
    fn begin(library: &'static Library, module: &Module) -> Result<(), Failure> {
        let info = &module.inner().info;
        let (imported, count) = (info.imported.functions, info.bodies.len());
        if count == 0 {
            return Ok(());
        }
        let mut draft = Draft::default();
        let (changes, changed) = mpsc::channel();
        let switches = Arc::new(FunctionSwitches {
            imported,
            states: (0..count).map(|_| AtomicU8::new(OFF)).collect(),
            out: (0..count).map(|_| AtomicU8::new(THERE)).collect(),
            words: draft.words(count as u32),
            counts: draft.words(count as u32),
            all_slots: Mutex::default(),
            ended: (0..count).map(|_| AtomicU64::new(0)).collect(),
            attached: OnceLock::new(),
            changes,
        });
        let registered = OnceLock::new();
        let this = Arc::new(Self { library, switches: Arc::clone(&switches), registered });
        let hooks = Arc::clone(&this).plan(!info.tags.is_empty(), &mut draft);
        let due: Weak<dyn Due> = Arc::downgrade(&switches) as Weak<FunctionSwitches>;
        let part = module.add_plan_of(draft.finish(), Some(due))?;
        // No call is reported before the library has set which functions are on.
        let registered = register(library, module, &switches)?;
        let _ = this.registered.set(registered);
        module.observe_when_called(&[ObservedLayer::Plan(part)])?;
        let attached = (Arc::downgrade(module.inner()), Origin::Plan(part), hooks);
        let _ = switches.attached.set(attached);
        let weak = Arc::downgrade(&switches);
        let work = move || {
            while changed.recv().is_ok() {
                while changed.try_recv().is_ok() {}
                let Some(switches) = weak.upgrade() else { return };
                switches.follow();
            }
        };
        // If the thread cannot be started, a function that is off costs a test of its word.
        let _ = std::thread::Builder::new().name("profiled".into()).stack_size(1 << 20).spawn(work);
        Ok(())
    }

    /// Drafts the hooks. Landing pads for exceptions cost every call in a function its registers.
    /// If the module has no exceptions of its own, there are none, and the library detects by their
    /// frames the calls that a foreign exception has ended.
    fn plan(self: Arc<Self>, throws: bool, draft: &mut Draft) -> FunctionHooks {
        draft.add_receiver(Arc::<Self>::clone(&self));
        let FunctionSwitches { imported, states, words, counts, .. } = &*self.switches;
        let modes = [(Mode::Entry, true), (Mode::Exit, false), (Mode::Unwind, false)];
        let modes = &modes[..if throws { 3 } else { 2 }];
        let hooks = |place: u32| {
            let hooks = modes.iter().map(|(mode, enters)| {
                let receiver = Arc::<Self>::clone(&self);
                let number = u64::from(place) << 1 | u64::from(!*enters);
                let call = Call { receiver, number, captures: Vec::new(), writes: false };
                let (word, count) = (words.plus(place), counts.plus(place));
                let probe = NativeProbe { word, count, call, enters: *enters };
                let action = Action::Inline(Sequence(Arc::new(probe)));
                draft.hook_function(imported + place, *mode, action)
            });
            hooks.collect()
        };
        (0..states.len() as u32).map(hooks).collect()
    }
}

/// Registers the module's functions with the code that it was compiled to. Returns the numbers of
/// their probes, too.
fn register(
    library: &'static Library,
    module: &Module,
    switches: &Arc<FunctionSwitches>,
) -> Result<(Registration, Vec<u32>), Refused> {
    let (inner, places) = (module.inner(), Places::of(module));
    let base = inner.code.range().start;
    let named =
        (switches.imported..).zip(inner.code.tables.functions.iter()).map(|(index, span)| {
            let place = places.of_function(index);
            let (file, line) = match place.rsplit_once(':') {
                Some((file, line)) => (Some(file.to_owned()), line.parse().unwrap_or(0)),
                None => (None, 0),
            };
            (inner.label(index), file, line, base + span.start as usize..base + span.end as usize)
        });
    let named: Vec<_> = named.collect();
    let functions: Vec<Function<'_>> = named
        .iter()
        .map(|(name, file, line, code)| Function {
            name,
            file: file.as_deref(),
            line: *line,
            code: code.start as *const u8,
            length: code.len(),
        })
        .collect();
    let [told, asked] = [Arc::clone(switches), Arc::clone(switches)];
    let switch = move |which: &[u32], state: State| told.set(which, state);
    let counts = move |which: &[u32], entries: &mut [u64]| asked.counts(which, entries);
    let registration =
        library.register(module.title(), &functions, switch, Some(Box::new(counts)))?;
    let probe = |place: usize| registration.probe(place as u32).unwrap_or(u32::MAX);
    let probes = (0..functions.len()).map(probe).collect();
    Ok((registration, probes))
}

impl FunctionSwitches {
    /// Called by the library's agent, which waits: nothing is compiled here.
    fn set(&self, which: &[u32], state: State) -> bool {
        let state = match state {
            State::Off => OFF,
            State::Count => COUNT,
            State::Time => TIME,
        };
        let all_slots = self.all_slots.lock();
        for place in which {
            let Some(known) = self.states.get(*place as usize) else { return false };
            known.store(state, SeqCst);
            let word = self.words.plus(*place);
            all_slots.iter().for_each(|slots| slots.word(word).store(state.into(), Relaxed));
        }
        drop(all_slots);
        // A function is on when this returns: its calls are counted for a time. The module is
        // passed to the thread, so that the agent, which must not free code here, never drops the
        // last reference.
        let module = (state != OFF).then(|| self.put_back(which)).flatten();
        if let Err(mpsc::SendError(Some(module))) = self.changes.send(module) {
            std::mem::forget(module);
        }
        true
    }

    /// How often functions were entered while they were counted, in all instances.
    fn counts(&self, which: &[u32], entries: &mut [u64]) {
        let all_slots = self.all_slots.lock();
        for (place, entries) in which.iter().zip(entries) {
            let Some(ended) = self.ended.get(*place as usize) else { continue };
            let word = self.counts.plus(*place);
            let live: u64 = all_slots.iter().map(|slots| slots.word(word).load(Relaxed)).sum();
            *entries = ended.load(Relaxed) + live;
        }
    }

    fn is_off(&self, place: usize) -> bool {
        self.states[place].load(SeqCst) == OFF
    }

    /// Puts back hooks that need no compilation. Returns the module, if there are any.
    fn put_back(&self, which: &[u32]) -> Option<Arc<ModuleInner>> {
        let places = which.iter().map(|place| *place as usize);
        let places: Vec<usize> =
            places.filter(|place| self.out[*place].load(SeqCst) == OUT).collect();
        let (inner, of, _) = self.attached.get().filter(|_| !places.is_empty())?;
        let inner = inner.upgrade()?;
        let module = Module::of(Arc::clone(&inner));
        if module.is_attached_alone(*of) {
            self.leave_out(&module, &places, false);
        }
        Some(inner)
    }

    /// Called by the thread: puts back the hooks of functions that are on, and leaves out those of
    /// functions that are off, if that needs no compilation.
    fn follow(&self) {
        let Some((inner, of, _)) = self.attached.get() else { return };
        let Some(module) = inner.upgrade().map(Module::of) else { return };
        for out in [false, true] {
            if out && !module.is_attached_alone(*of) {
                return;
            }
            let differs = |place: &usize| {
                self.is_off(*place) == out && (self.out[*place].load(SeqCst) != THERE) != out
            };
            let places: Vec<usize> = (0..self.states.len()).filter(differs).collect();
            self.leave_out(&module, &places, out);
        }
    }

    fn leave_out(&self, module: &Module, places: &[usize], out: bool) {
        let Some((_, of, hooks)) = self.attached.get() else { return };
        let all = places.iter().flat_map(|place| {
            hooks[*place].iter().map(|hook| (self.imported + *place as u32, *hook))
        });
        let all: Vec<_> = all.collect();
        if !all.is_empty() && module.leave_out(*of, &all, out, TakesEffect::NextCall).is_ok() {
            let now = if out { OUT } else { THERE };
            places.iter().for_each(|place| self.out[*place].store(now, SeqCst));
        }
    }
}

impl Due for FunctionSwitches {
    fn is_due(&self, function: u32) -> bool {
        let place = (function - self.imported) as usize;
        if !self.is_off(place) {
            return true;
        }
        self.out[place].store(NOWHERE, SeqCst);
        // The agent may have switched it on meanwhile, and the thread may have found its hooks
        // still in the code.
        if !self.is_off(place) {
            let _ = self.changes.send(None);
        }
        false
    }
}

impl Receiver for Native {
    fn fire(&self, firing: &mut Firing<'_>) {
        let (place, leaves) = ((firing.number >> 1) as usize, firing.number & 1 == 1);
        let Some((_, probes)) = self.registered.get() else { return };
        let (probe, frame) = (probes[place], (firing.frame + RETURN_ADDRESS) as *const c_void);
        let [value, _] = &mut firing.values[0];
        // SAFETY: (1) the registration lives as long as `self`; (2) the activation that fires has
        // its return address there, on this thread's stack.
        unsafe {
            match leaves {
                true => self.library.leave(probe, frame),
                false => {
                    self.library.enter(probe, frame);
                    *value = u64::from(*value == u64::from(TIME));
                }
            }
        }
    }

    fn begin(&self, slots: InstanceSlots) {
        let FunctionSwitches { states, words, counts, all_slots, .. } = &*self.switches;
        let mut all_slots = all_slots.lock();
        all_slots.push(slots);
        for (place, state) in (0..).zip(states) {
            slots.word(words.plus(place)).store(state.load(SeqCst).into(), Relaxed);
            slots.word(counts.plus(place)).store(0, Relaxed);
        }
    }

    fn end(&self, slots: InstanceSlots) {
        let FunctionSwitches { counts, all_slots, ended, .. } = &*self.switches;
        let mut all_slots = all_slots.lock();
        all_slots.retain(|known| *known != slots);
        for (place, ended) in (0..).zip(ended) {
            ended.fetch_add(slots.word(counts.plus(place)).load(Relaxed), Relaxed);
        }
    }

    fn compiled(&self, function: u32, code: Range<usize>) {
        if let Some((registration, _)) = self.registered.get() {
            let place = function - self.switches.imported;
            // If the library refuses it, samples of the clock in this code are charged to no
            // function.
            let _ = registration.also(place, code.start as *const u8, code.len());
        }
    }
}

/// At a function's entry: counts or reports the call, if its word says so. At its exit: reports the
/// call, if it is timed.
#[derive(Debug)]
struct NativeProbe {
    word: Word,
    count: Word,
    call: Call,
    enters: bool,
}

impl Inline for NativeProbe {
    fn fingerprint(&self) -> u64 {
        fingerprint("native", &(self.word, self.count, &self.call, self.enters))
    }

    fn emit<'a>(&'a self, at: &mut Emitter<'_, 'a>) -> Result<(), CompileError> {
        let is_timed = at.variable(u64::from(self.word.0));
        if !self.enters {
            let word = at.builder().use_var(is_timed);
            ask_where(at, word, (&self.call, word), None);
            return Ok(());
        }
        let zero = at.builder().ins().iconst(types::I64, 0);
        at.builder().def_var(is_timed, zero);
        let word = at.load_word(self.word);
        only_if(at, word, Weight::Seldom, |at| {
            // A call is either counted here, which takes a nanosecond, or reported and then counted
            // by the library.
            let timed = at.builder().ins().icmp_imm_s(IntCC::Equal, word, i64::from(TIME));
            let count = at.load_word(self.count);
            let more = at.builder().ins().iadd_imm_s(count, 1);
            let kept = at.builder().ins().select(timed, count, more);
            at.store_word(self.count, kept);
            ask_where(at, timed, (&self.call, word), Some(is_timed));
        });
        Ok(())
    }
}
