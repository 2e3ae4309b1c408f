//! `latency`: how long calls take, from a sample that costs a given share of CPU time.
//!
//! It works like the native profiler: the same sampling controller ([`Controller`]) decides what is
//! timed, and when. Every observed function has two words in the instance: how often it was called,
//! and which call is to be timed next. So a call that is not timed costs an addition and a
//! comparison. A timed call asks the host for the time at its beginning and at its end, and keeps
//! the first in a variable of the activation. A function that is called too often even for that
//! loses its hooks between its sampling windows. Then it runs at full speed, and the number of its
//! calls is estimated. Its code without hooks is kept, so this takes a few stores.
//!
//! Compiling functions with hooks costs as much as compiling the program did, and most functions
//! are not called, or take no time. So the policy with a budget spends the same share again on
//! compiling. A function that is called for the first time has its hooks at once if the budget
//! allows it. All others run without hooks until they are seen to be executed, and get theirs in
//! turn, those first that are executed most for their size.
//!
//! Landing pads for exceptions cost every call in a function its registers. So functions have one
//! only where the module may catch what leaves them. A timed call that ended by a trap, or by
//! another exception, is detected by its frame when another one begins above, and is discarded.
//!
//! Only machine code adds to counts, and only the host writes limits: neither is lost.

use super::hooked::{HookedMonitor, ask_where, fingerprint};
use super::kept::{self, ObservedSpan, ProfileFile};
use super::meter::Speed;
use super::outline::{Function, Outline};
use super::{Cell, Choice, MonitorError, Report};
use cranelift_codegen::ir::{InstBuilder, condcodes::IntCC, types};
use parking_lot::Mutex;
use profiler::{
    ClockEvidence, Controller, Costs, Draw, Figure, FuncId, How, Label, Mode, Policy, Probes, Rest,
    Sample, Skip, TableOptions, Ticks,
};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use wasm_aot_body::report::several;
use wasm_aot_engine::CompileError;
use wasm_aot_engine::instrument::compile::{
    self, Action, Call, Draft, Emitter, Firing, HookId, Inline, InstanceSlots, Receiver, Sequence,
    Word,
};
use wasm_aot_engine::instrument::runtime::{Due, Module, ModuleInner, Origin, Places, TakesEffect};

/// The calls of functions with fewer instructions, without calls and loops, end before a clock has
/// advanced.
const SHORT: usize = 40;
/// The approximate cost of counting a call, and of compiling a byte of Wasm, in ticks.
const COUNT: f64 = 8.0;
const BYTE: f64 = 3_500.0;
/// Compiling a function with its hooks takes as long as compiling this many more bytes, however
/// small it is: the hooks themselves are code.
const FUNCTION: u64 = 350;
/// How many bytes of Wasm are compiled whatever the budget is: enough that small programs are
/// observed as a whole.
const ALLOWANCE: f64 = 8192.0;
/// The interval at which the program's place is sampled while functions wait for their turn, in
/// seconds.
const LOOK: f64 = 0.005;
/// No call has this number.
const NEVER: u64 = i64::MAX as u64;
/// The most timed calls that are open at once in an instance; calls nested deeper are not timed.
const OPEN: usize = 1024;

/// The monitor.
#[derive(Debug)]
pub(super) struct Latency {
    choice: Choice,
    speed: Speed,
    /// The words of functions: two each.
    words: OnceLock<Word>,
    /// The functions that are observed, with their hooks, and how many are too short.
    functions: OnceLock<(Vec<TimedFunction>, usize)>,
    /// The code that its hooks are in.
    code: OnceLock<(Weak<ModuleInner>, Origin)>,
    state: Mutex<LatencyState>,
    policy: Policy,
    /// Itself, for the thread that queries the controller.
    this: Weak<Latency>,
    /// The file of its profile.
    file: Option<ProfileFile>,
    observed_span: ObservedSpan,
}

/// A function that is observed, and its hooks.
#[derive(Debug)]
struct TimedFunction {
    index: u32,
    hooks: Vec<HookId>,
    /// How many bytes of Wasm it has.
    bytes: u32,
}

#[derive(Debug, Default)]
struct LatencyState {
    controller: Option<Controller>,
    /// The state of each observed function, by its place.
    parts: Vec<Activity>,
    instances: Vec<TimedInstance>,
    /// How often each was called, seen by the controller or not.
    called: Vec<u64>,
    random: u64,
    samples: u64,
    /// When it began, and when the program's place was last sampled.
    began: Ticks,
    looked: Ticks,
    /// How many bytes of Wasm were compiled with hooks at calls of functions, including the
    /// additional cost for each function.
    compiled: u64,
}

/// The state of an observed function.
#[derive(Clone, Copy, Debug)]
struct Activity {
    mode: Mode,
    left: u32,
    armed: Ticks,
    /// Whether its hooks are left out now, and whether they ever were after it had them.
    is_out: bool,
    was_out: bool,
    /// How often it was seen being executed since its first call, while it waits for its hooks; and
    /// when it got them, if it had to wait.
    waits: Option<u32>,
    late: Option<Ticks>,
}

impl Activity {
    /// Whether its hooks are needed.
    fn is_wanted(&self) -> bool {
        match self.mode {
            Mode::Off => false,
            Mode::Sample(Draw { then: Rest::Off, .. }) => self.left > 0,
            Mode::Sample(_) | Mode::Count => true,
        }
    }
}

#[derive(Debug)]
struct TimedInstance {
    slots: InstanceSlots,
    /// How many calls of each function were reported to the controller.
    told: Vec<u64>,
    /// Timed calls that have not ended.
    open: Vec<OpenCall>,
}

#[derive(Clone, Copy, Debug)]
struct OpenCall {
    place: usize,
    frame: usize,
    begun: u64,
    nested: u32,
    children: u64,
    /// For how long the program was not executed meanwhile.
    paused: u64,
}

/// Makes the monitor.
pub(super) fn latency_monitor(choice: &Choice) -> Result<Arc<dyn HookedMonitor>, MonitorError> {
    let refused = |option: &str, why: String| MonitorError::Value {
        option: option.into(),
        value: choice.value(option).unwrap_or_default().into(),
        why,
    };
    let mut policy: Policy = match choice.value("policy") {
        Some(name) => name
            .parse()
            .map_err(|error: profiler::NoPolicy| refused("policy", error.to_string()))?,
        None => Policy::default(),
    };
    if let Some(percent) = choice.value("budget") {
        let share = percent
            .trim_end_matches('%')
            .parse::<f64>()
            .ok()
            .filter(|percent| *percent > 0.0 && *percent <= 100.0);
        let share =
            share.ok_or_else(|| refused("budget", "give a share such as 1% or 0.01".into()))?;
        match &mut policy {
            Policy::Adaptive { budget } => *budget = share / 100.0,
            _ => return Err(refused("budget", "only the policy adaptive has one".into())),
        }
    }
    let file = choice.profile_file()?;
    Ok(Arc::new_cyclic(|this| {
        let (words, functions, code, state) = Default::default();
        Latency {
            choice: choice.clone(),
            speed: Speed::since_now(),
            words,
            functions,
            code,
            state,
            this: this.clone(),
            policy,
            file,
            observed_span: choice.observed_span(),
        }
    }))
}

impl HookedMonitor for Latency {
    fn plan(self: Arc<Self>, outline: &Outline<'_>, draft: &mut Draft) {
        let all: Vec<&Function<'_>> = outline.chosen(&self.choice).collect();
        let (short, observed): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|function| !self.choice.names() && function.is_brief(SHORT));
        let words = draft.words(2 * observed.len() as u32);
        draft.add_receiver(Arc::<Self>::clone(&self));
        let mut functions = Vec::new();
        for (place, function) in (0..).zip(&observed) {
            let call = |number: u64| {
                let receiver = Arc::<Self>::clone(&self);
                Call { receiver, number, captures: Vec::new(), writes: false }
            };
            let probe = |call: Call, begins: bool| {
                Action::Inline(Sequence(Arc::new(LatencyProbe {
                    count: words.plus(2 * place),
                    call,
                    begins,
                })))
            };
            let mut modes = vec![(compile::Mode::Entry, true), (compile::Mode::Exit, false)];
            if outline.may_be_caught_from(function.index) {
                modes.push((compile::Mode::Unwind, false));
            }
            let hooks = modes.into_iter().map(|(mode, begins)| {
                let number = u64::from(place) << 1 | u64::from(!begins);
                draft.hook_function(function.index, mode, probe(call(number), begins))
            });
            let body = outline.info.body(function.index);
            functions.push(TimedFunction {
                index: function.index,
                hooks: hooks.collect(),
                bytes: body.end - body.start,
            });
        }
        let count = functions.len();
        // Planned once.
        let _ = (self.words.set(words), self.functions.set((functions, short.len())));
        self.start(count);
    }

    fn due(self: Arc<Self>) -> Option<Weak<dyn Due>> {
        let is_thrifty = matches!(self.policy, Policy::Adaptive { .. });
        is_thrifty.then(|| self.this.clone() as Weak<dyn Due>)
    }

    fn compiled(self: Arc<Self>, module: &Module, origin: Origin) {
        // Compiled once.
        let _ = self.code.set((Arc::downgrade(module.inner()), origin));
    }

    fn report(&self, module: &Module) -> Report {
        let columns = [
            "function", "calls", "samples", "mean ns", "p50 ns", "p90 ns", "p99 ns", "max ns",
            "total ns", "source",
        ];
        let mut report = Report::new("latency", &columns);
        let Some((functions, short)) = self.functions.get() else { return report };
        let mut state = self.state.lock();
        state.report_calls(self);
        let Some(controller) = &state.controller else { return report };
        let places = Places::of(module);
        let mut profile = controller.profile(now());
        profile.set_hz(self.speed.hz());
        profile.label(|id| Label {
            name: module.inner().label(functions[id.0 as usize - 1].index),
            ..Label::default()
        });
        state.correct_calls(&mut profile);
        // A different count changes the figures. The probes are the only clock.
        profile.reconcile(&ClockEvidence::default());
        profile.header.spent.samples = state.samples;
        let total = |function: &profiler::Function| function.total.map_or(0.0, |total| total.value);
        profile.functions.sort_by(|a, b| total(b).total_cmp(&total(a)));
        let time = |value: Option<f64>| {
            value.map_or_else(|| Cell::from(""), |value| Cell::Count(value.max(0.0).round() as u64))
        };
        for function in &profile.functions {
            let percentile = |share| time(function.percentile(share, &profile.header));
            let index = functions[function.id.0 as usize - 1].index;
            report.row([
                Cell::Function { name: function.label.name.clone(), index },
                Cell::Count(function.calls.value.round() as u64),
                function.samples.into(),
                time(function.mean.map(|mean| mean.value)),
                percentile(0.5),
                percentile(0.9),
                percentile(0.99),
                time(function.max),
                time(function.total.map(|total| total.value)),
                places.of_function(index).into(),
            ]);
        }
        report.total_of(["calls", "samples", "total ns"]);
        report.notes = state.notes(&profile.header.policy, *short);
        let rows = self.choice.top().unwrap_or(0);
        let by_total = TableOptions { sort: profiler::Sort::Total, ..TableOptions::default() };
        let table =
            profile.table(&TableOptions { rows, all_rows: "top=all shows them", ..by_total });
        // The table contains the first note already.
        report.drawing = Some(format!("== latency ==\n{table}{}\n", report.notes[1..].join("\n")));
        profile.label(|id| {
            let index = functions[id.0 as usize - 1].index;
            let source = places.of_function(index);
            kept::label_of(module.inner().label(index), index, &source)
        });
        let profile = self.observed_span.complete(module.name(), profile);
        if let Some(Err(error)) = self.file.as_ref().map(|file| file.write_whole(&profile)) {
            report.remark(format!("file: {error}"));
        }
        report.profile = Some(Box::new(profile));
        report
    }
}

fn now() -> Ticks {
    Ticks(wordpatch::Ticks::now().0)
}

impl Latency {
    /// Starts the thread that queries the controller, for as long as the monitor exists.
    fn start(&self, functions: usize) {
        let hz = self.speed.hz();
        let mut controller = Controller::new(
            self.policy.clone(),
            profiler::Clock { hz, step: 1 },
            measured(),
            now().0,
            now(),
        );
        (1..=functions as u32).for_each(|id| controller.discovered(FuncId(id), 2));
        let part = Activity {
            mode: Mode::Count,
            left: 0,
            armed: now(),
            is_out: false,
            was_out: false,
            waits: None,
            late: None,
        };
        let mut state = self.state.lock();
        (state.began, state.looked) = (now(), now());
        (state.parts, state.called) = (vec![part; functions], vec![0; functions]);
        (state.random, state.controller) = (now().0 | 1, Some(controller));
        state.attend(self, Controller::first);
        let this = self.this.clone();
        let work = move || {
            while let Some(monitor) = this.upgrade() {
                // A thread that switches variants waits for the state, and not the other way
                // round.
                let is_free = monitor.leaves_out_for_free();
                let seen = monitor.seen();
                let mut state = monitor.state.lock();
                let due = state.due(&monitor, &seen);
                state.report_calls(&monitor);
                let mut next = now();
                state.attend(&monitor, |controller, modes| next = controller.tick(now(), modes));
                let [mut back, out] = monitor.changes(&state, is_free);
                drop(state);
                back.extend(due);
                monitor.leave_out([back, out]);
                drop(monitor);
                let pause = Duration::from_secs_f64(next.since(now()).0 as f64 / hz);
                std::thread::sleep(
                    pause.clamp(Duration::from_millis(1), Duration::from_millis(50)),
                );
            }
        };
        // If the thread cannot be started, every function keeps its first mode.
        let _ = std::thread::Builder::new().name("latency".into()).stack_size(1 << 20).spawn(work);
    }
}

impl Latency {
    /// Whether leaving hooks out of a function requires no compilation.
    fn leaves_out_for_free(&self) -> bool {
        let Some((module, origin)) = self.code.get() else { return false };
        module.upgrade().is_some_and(|inner| Module::of(inner).is_attached_alone(*origin))
    }

    /// The functions whose hooks are to be put back, and those whose hooks are to be left out. If
    /// leaving out requires compilation, it is done for the first time when counting has cost as
    /// much as compiling will.
    fn changes(&self, state: &LatencyState, is_free: bool) -> [Vec<usize>; 2] {
        let Some((functions, _)) = self.functions.get() else { return Default::default() };
        let is_paid = |place: usize| {
            is_free
                || state.called[place] as f64 * COUNT >= f64::from(functions[place].bytes) * BYTE
        };
        let changed = |out: bool| {
            let parts = state
                .parts
                .iter()
                .enumerate()
                .filter(|(_, part)| part.is_out != out && part.is_wanted() != out)
                .filter(|(_, part)| part.waits.is_none());
            parts
                .map(|(place, _)| place)
                .filter(|place| state.parts[*place].was_out || is_paid(*place))
                .collect()
        };
        [changed(false), changed(true)]
    }

    /// Leaves out or puts back the hooks of functions, by their places. Threads that are in one of
    /// them finish their call.
    fn leave_out(&self, changes: [Vec<usize>; 2]) {
        let (Some((functions, _)), Some((module, origin))) =
            (self.functions.get(), self.code.get())
        else {
            return;
        };
        let Some(module) = module.upgrade().map(Module::of) else { return };
        for (places, out) in changes.into_iter().zip([false, true]) {
            let hooks = places.iter().flat_map(|place| {
                let TimedFunction { index, hooks, .. } = &functions[*place];
                hooks.iter().map(|hook| (*index, *hook))
            });
            let hooks: Vec<_> = hooks.collect();
            // If code cannot be changed, functions are set to time no calls, as before.
            if !hooks.is_empty()
                && module.leave_out(*origin, &hooks, out, TakesEffect::NextCall).is_ok()
            {
                let mut state = self.state.lock();
                for place in places {
                    let part = &mut state.parts[place];
                    (part.is_out, part.was_out) = (out, part.was_out || out);
                    if part.waits.take().is_some() {
                        part.late = Some(now());
                    }
                }
            }
        }
    }
}

/// The modes that the controller has chosen.
#[derive(Default)]
struct Modes(Vec<(FuncId, Mode)>);

impl Probes for Modes {
    fn set(&mut self, function: FuncId, mode: Mode) {
        self.0.push((function, mode));
    }
}

impl Due for Latency {
    fn is_due(&self, function: u32) -> bool {
        let Some((functions, _)) = self.functions.get() else { return true };
        let Ok(place) = functions.binary_search_by_key(&function, |one| one.index) else {
            return true;
        };
        let mut state = self.state.lock();
        let is_due = state.pays_for(self, functions[place].bytes);
        if !is_due {
            let part = &mut state.parts[place];
            (part.is_out, part.waits) = (true, Some(0));
        }
        is_due
    }
}

impl Latency {
    /// The functions that are being executed, by their places, if any have to wait for their hooks
    /// and a sample is due.
    fn seen(&self) -> Vec<usize> {
        let (Some((functions, _)), Some((module, _))) = (self.functions.get(), self.code.get())
        else {
            return Vec::new();
        };
        let mut state = self.state.lock();
        let pause = (LOOK * self.speed.hz()) as u64;
        if now().since(state.looked).0 < pause
            || state.parts.iter().all(|part| part.waits.is_none())
        {
            return Vec::new();
        }
        state.looked = now();
        drop(state);
        let seen = module.upgrade().map(|inner| Module::of(inner).innermost_functions());
        let place = |function: u32| functions.binary_search_by_key(&function, |one| one.index).ok();
        seen.into_iter().flatten().filter_map(place).collect()
    }
}

impl LatencyState {
    /// Whether a function of this many bytes can be compiled within the budget; charges its cost if
    /// so.
    fn pays_for(&mut self, monitor: &Latency, bytes: u32) -> bool {
        let Policy::Adaptive { budget } = monitor.policy else { return true };
        let elapsed = now().since(self.began).0 as f64;
        let after = self.compiled + u64::from(bytes) + FUNCTION;
        let is_paid = after as f64 <= ALLOWANCE + budget * elapsed / BYTE;
        if is_paid {
            self.compiled = after;
        }
        is_paid
    }

    /// The functions that get their hooks now, after some were seen: those that are executed most
    /// for their size, as far as the budget allows.
    fn due(&mut self, monitor: &Latency, seen: &[usize]) -> Vec<usize> {
        for place in seen {
            self.parts[*place].waits.iter_mut().for_each(|times| *times += 1);
        }
        let Some((functions, _)) = monitor.functions.get() else { return Vec::new() };
        let worth = |(place, part): (usize, &Activity)| {
            let times = part.waits.filter(|times| *times > 0)?;
            Some((f64::from(times) / f64::from(functions[place].bytes), place))
        };
        let mut waiting: Vec<(f64, usize)> =
            self.parts.iter().enumerate().filter_map(worth).collect();
        waiting.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        let places = waiting.into_iter().map(|(_, place)| place);
        places.take_while(|place| self.pays_for(monitor, functions[*place].bytes)).collect()
    }

    /// An estimate of the calls of a function, `calls` of which were counted since it got its
    /// hooks. It may have been called at the same rate before.
    fn at_least(&self, calls: u64, late: Ticks, now: Ticks) -> Figure {
        let (all, seen) = (now.since(self.began).0 as f64, now.since(late).0.max(1) as f64);
        let value = calls as f64;
        let how = How::Estimated { lo: value, hi: (value * all / seen).max(value + 1.0) };
        Figure { value, how }
    }

    /// Queries the controller, and applies its modes.
    fn attend(&mut self, monitor: &Latency, ask: impl FnOnce(&mut Controller, &mut Modes)) {
        let Some(controller) = &mut self.controller else { return };
        let mut modes = Modes::default();
        ask(controller, &mut modes);
        for (FuncId(id), mode) in modes.0 {
            let place = id as usize - 1;
            let left = if let Mode::Sample(draw) = mode { draw.quota } else { 0 };
            self.parts[place] = Activity { mode, left, armed: now(), ..self.parts[place] };
            for at in 0..self.instances.len() {
                self.limit(monitor, at, place);
            }
        }
    }

    /// Sets which call of a function an instance times next.
    fn limit(&mut self, monitor: &Latency, instance: usize, place: usize) {
        let Some(words) = monitor.words.get() else { return };
        let count = words.plus(2 * place as u32);
        let part = self.parts[place];
        let slots = self.instances[instance].slots;
        let next = match part.mode {
            Mode::Sample(draw) if part.left > 0 => {
                slots.word(count).load(Relaxed) + 1 + self.skipped(&draw)
            }
            _ => NEVER,
        };
        slots.word(count.plus(1)).store(next, Relaxed);
    }

    /// How many calls are left out before the next one that is timed.
    fn skipped(&mut self, draw: &Draw) -> u64 {
        let Skip::Geometric { mean } = draw.skip else { return 0 };
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let chance = ((self.random >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
        (chance.ln() / (1.0 - 1.0 / (mean + 1.0)).ln()) as u64
    }

    /// Calls of functions that have always had their hooks are counted; the controller's estimates
    /// stay for the others.
    fn correct_calls(&self, profile: &mut profiler::Profile) {
        for function in &mut profile.functions {
            let place = function.id.0 as usize - 1;
            let part = &self.parts[place];
            match (part.late, part.was_out) {
                (None, false) => function.set_calls(self.called[place]),
                (Some(late), false) => {
                    function.calls = self.at_least(self.called[place], late, now());
                }
                (_, true) => {}
            }
        }
    }

    /// Notes on how the figures were obtained; `short` functions have no hooks.
    fn notes(&self, policy: &str, short: usize) -> Vec<String> {
        let mut notes =
            vec![format!("{} timed, by the policy {policy}", several(self.samples, "call"))];
        let estimated = self.parts.iter().filter(|part| part.was_out).count();
        if estimated > 0 {
            notes.push(format!(
                "called too often to be counted within the budget: {}, whose calls are estimated",
                several(estimated as u64, "function")
            ));
        }
        let waiting = self.parts.iter().filter(|part| part.waits.is_some()).count();
        if waiting > 0 {
            notes.push(format!(
                "called and not timed: {}, since compiling for it was not within the budget \
                 (budget=PERCENT)",
                several(waiting as u64, "function")
            ));
        }
        if short > 0 {
            notes.push(format!(
                "too short to be timed: {} (function=GLOB observes them all the same)",
                several(short as u64, "function")
            ));
        }
        notes
    }

    /// Reports to the controller how often functions were called since the last time.
    fn report_calls(&mut self, monitor: &Latency) {
        for at in 0..self.instances.len() {
            self.report_calls_of_instance(monitor, at);
        }
    }

    fn report_calls_of_instance(&mut self, monitor: &Latency, at: usize) {
        let (Some(controller), Some(words)) = (&mut self.controller, monitor.words.get()) else {
            return;
        };
        let instance = &mut self.instances[at];
        for (place, (told, part)) in instance.told.iter_mut().zip(&self.parts).enumerate() {
            let count = instance.slots.word(words.plus(2 * place as u32)).load(Relaxed);
            let calls = count - std::mem::replace(told, count);
            self.called[place] += calls;
            // Calls of functions that are off are not seen; the controller estimates them.
            if calls > 0 && part.is_wanted() {
                controller.entered(FuncId(place as u32 + 1), calls);
            }
        }
    }

    /// Decides whether a call of a function is timed: returns when it has begun, or 0.
    fn entered(&mut self, monitor: &Latency, vmctx: usize, place: usize, frame: usize) -> u64 {
        let Some(at) = self.instances.iter().position(|instance| instance.slots.vmctx == vmctx)
        else {
            return 0;
        };
        let wanted =
            matches!(self.parts[place].mode, Mode::Sample(_)) && self.parts[place].left > 0;
        let part = &mut self.parts[place];
        if wanted && part.left < u32::MAX {
            part.left -= 1;
        }
        let retires = wanted && part.left == 0;
        let armed = part.armed;
        self.limit(monitor, at, place);
        if retires {
            // The calls until now are reported, because the mode may change.
            self.parts[place].left = 1;
            self.report_calls_of_instance(monitor, at);
            self.parts[place].left = 0;
            if let Some(controller) = &mut self.controller {
                controller.retired(FuncId(place as u32 + 1), armed, now());
            }
        }
        let open = &mut self.instances[at].open;
        // Stacks grow downwards: calls that have begun here or below were left without a report.
        while let Some(gone) = open.pop_if(|open| open.frame <= frame) {
            if let Some(controller) = &mut self.controller {
                controller.lost(FuncId(gone.place as u32 + 1), 1);
            }
        }
        if !wanted || open.len() >= OPEN {
            return 0;
        }
        let begun = now().0;
        open.push(OpenCall { place, frame, begun, nested: 0, children: 0, paused: 0 });
        begun
    }

    /// Records that a timed call has ended.
    fn left(&mut self, vmctx: usize, begun: u64, frame: usize, ended: u64) {
        let Some(instance) =
            self.instances.iter_mut().find(|instance| instance.slots.vmctx == vmctx)
        else {
            return;
        };
        let Some(controller) = &mut self.controller else { return };
        // Calls that were opened later have been left by a trap.
        while let Some(open) = instance.open.pop() {
            let function = FuncId(open.place as u32 + 1);
            if (open.begun, open.frame) != (begun, frame) {
                controller.lost(function, 1);
                continue;
            }
            let ticks = ended.saturating_sub(begun).saturating_sub(open.paused);
            if let Some(outer) = instance.open.last_mut() {
                outer.nested += 1 + open.nested;
                outer.children += ticks;
            }
            self.samples += 1;
            let OpenCall { nested, children, .. } = open;
            controller.sample(&Sample {
                function,
                call_site: 0,
                ticks,
                nested,
                children,
                outermost: true,
            });
            return;
        }
    }
}

/// Measures the cost of timing.
fn measured() -> Costs {
    const ROUNDS: u64 = 2_000;
    let place = Mutex::new((Vec::<u64>::with_capacity(1), Vec::new()));
    let began = now();
    for _ in 0..ROUNDS {
        place.lock().0.push(now().0);
        let ended = now().0;
        let (open, ticks) = &mut *place.lock();
        ticks.push(ended - open.pop().unwrap_or(ended));
    }
    let pair = now().since(began).0 as f64 / ROUNDS as f64;
    let mut ticks = place.into_inner().1;
    ticks.sort_unstable();
    let bias = ticks[ticks.len() / 2] as f64;
    // Counting is an addition and two comparisons of cached words; skipping costs no more.
    // Switching is a look-up of a variant, and a few stores.
    Costs { pair, bias, count: COUNT, toggle: 5_000.0, skip: COUNT }
}

impl Receiver for Latency {
    fn fire(&self, firing: &mut Firing<'_>) {
        let ended = now().0;
        let (place, leaves) = ((firing.number >> 1) as usize, firing.number & 1 == 1);
        let mut state = self.state.lock();
        let [value, _] = &mut firing.values[0];
        match leaves {
            true => state.left(firing.vmctx, *value, firing.frame, ended),
            false => *value = state.entered(self, firing.vmctx, place, firing.frame),
        }
    }

    fn begin(&self, slots: InstanceSlots) {
        let mut state = self.state.lock();
        let told = vec![0; state.parts.len()];
        state.instances.push(TimedInstance { slots, told, open: Vec::new() });
        let at = state.instances.len() - 1;
        (0..state.parts.len()).for_each(|place| state.limit(self, at, place));
    }

    fn paused(&self, slots: InstanceSlots, ticks: u64) {
        let mut state = self.state.lock();
        let instance = state.instances.iter_mut().find(|instance| instance.slots == slots);
        let open = instance.into_iter().flat_map(|instance| &mut instance.open);
        open.for_each(|open| open.paused += ticks);
    }

    fn end(&self, slots: InstanceSlots) {
        let mut state = self.state.lock();
        state.report_calls(self);
        state.instances.retain(|instance| instance.slots != slots);
    }
}

/// At a function's entry: counts the call, and queries whether it is timed. At its exit: reports
/// the call, if it was timed.
#[derive(Debug)]
struct LatencyProbe {
    /// The function's count, followed by its limit.
    count: Word,
    call: Call,
    begins: bool,
}

impl Inline for LatencyProbe {
    fn fingerprint(&self) -> u64 {
        fingerprint("latency", &(self.count, &self.call, self.begins))
    }

    fn emit<'a>(&'a self, at: &mut Emitter<'_, 'a>) -> Result<(), CompileError> {
        let begun = at.variable(u64::from(self.count.0) << 32 | u64::from(u32::MAX));
        let (asks, value) = match self.begins {
            true => {
                let count = at.load_word(self.count);
                let count = at.builder().ins().iadd_imm_s(count, 1);
                at.store_word(self.count, count);
                let limit = at.load_word(self.count.plus(1));
                let zero = at.builder().ins().iconst(types::I64, 0);
                at.builder().def_var(begun, zero);
                (at.builder().ins().icmp(IntCC::SignedGreaterThanOrEqual, count, limit), zero)
            }
            false => {
                let value = at.builder().use_var(begun);
                (value, value)
            }
        };
        let kept = self.begins.then_some(begun);
        ask_where(at, asks, (&self.call, value), kept);
        Ok(())
    }
}
