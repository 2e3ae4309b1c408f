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

mod budget;
mod calls;

use super::hooked::{HookedMonitor, ask_where, fingerprint};
use super::kept::{self, ObservedSpan, ProfileFile};
use super::meter::Speed;
use super::outline::{Function, Outline};
use super::report::LateProfile;
use super::{Cell, Choice, MonitorError, Report};
use calls::{LatencyProbe, TimedInstance};
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
/// No call has this number.
const NEVER: u64 = i64::MAX as u64;
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
    /// How many there were at once, at most.
    most: usize,
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
        state.bound_times(&mut profile);
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
        report.profile = Some(LateProfile::new(move || profile.clone()));
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

/// The modes that the controller has chosen.
#[derive(Default)]
struct Modes(Vec<(FuncId, Mode)>);

impl Probes for Modes {
    fn set(&mut self, function: FuncId, mode: Mode) {
        self.0.push((function, mode));
    }
}

impl LatencyState {
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

    /// No function can have taken longer than the time that has passed, in each of the instances
    /// that there were at once. An estimate from few calls does not know that.
    fn bound_times(&self, profile: &mut profiler::Profile) {
        let most = profile.header.seconds * 1e9 * self.most.max(1) as f64;
        for function in &mut profile.functions {
            let times = [&mut function.own, &mut function.total, &mut function.wall];
            times.into_iter().flatten().for_each(|time| *time = at_most(*time, most));
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
}

/// A figure that is no larger than a bound, and neither is its interval.
fn at_most(figure: Figure, most: f64) -> Figure {
    let how = match figure.how {
        How::Exact => How::Exact,
        How::Estimated { lo, hi } => How::Estimated { lo: lo.min(most), hi: hi.min(most) },
    };
    Figure { value: figure.value.min(most), how }
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
