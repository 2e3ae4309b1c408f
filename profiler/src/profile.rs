//! A profile: plain data about a program's functions.

use crate::account::{Account, Changes};
use crate::arguments::Arguments;
use crate::exemplars::{Inner, Slow};
use crate::figure::{Figure, Mark};
use crate::histogram::Histogram;
use crate::reconcile::quotient;
use crate::report::human::printable;
use crate::{Clock, ClockEvidence, ClockSource, Costs, FuncId, Policy, Ticks, Timed};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Data about a program's functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The circumstances of its recording.
    pub header: Header,
    /// Its modules.
    pub modules: Vec<Module>,
    /// Its called functions, in the order of their IDs.
    pub functions: Vec<Function>,
    /// The stacks sampled by the clock.
    #[serde(default)]
    pub stacks: Vec<Stack>,
}

/// A stack sampled by the clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stack {
    /// Positions in [`Profile::functions`], the outermost first.
    pub frames: Vec<u32>,
    /// CPU time, in nanoseconds.
    pub time: f64,
    /// Number of samples.
    pub samples: u64,
}

/// The circumstances of a profile's recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The process ID, and that of its parent.
    pub process: i32,
    /// See `process`.
    pub parent: i32,
    /// The number of processes in this sum.
    pub processes: u32,
    /// The start of the process, in nanoseconds since 1970.
    pub started: u64,
    /// The observed duration, in seconds.
    pub seconds: f64,
    /// The recorded spans, if not everything was recorded: then all figures cover these spans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Recorded>,
    /// The number of observed threads; 0 if unknown.
    #[serde(default)]
    pub threads: u32,
    /// Its CPU time, in seconds.
    pub processor: f64,
    /// Of this, time in the kernel that no function is charged for: the row `[system]`.
    #[serde(default)]
    pub system: f64,
    /// Of this, time of unknown functions: the row `[unknown]`.
    #[serde(default)]
    pub unknown: f64,
    /// Whether all times are wall-clock times, because CPU time is unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wall: bool,
    /// The source of the shares of CPU time.
    #[serde(default)]
    pub clock: ClockSource,
    /// The clock's samples with an address.
    #[serde(default)]
    pub clock_samples: u64,
    /// The sampling policy.
    pub policy: String,
    /// Ticks per second; the clock's step in ticks.
    pub hz: f64,
    /// See `hz`.
    pub step: u64,
    /// The time that measuring adds to a call, and to the enclosing one, in ticks.
    pub bias: f64,
    /// See `bias`.
    pub pair: f64,
    /// The measured duration of an empty call where calls are sampled, in ticks; or half of the
    /// excess that one reading in ten exceeds, if that is more; 0 if unknown.
    #[serde(default)]
    pub null: f64,
    /// Sampled percentiles below this are mostly the cost of measuring, in nanoseconds: they are
    /// shown as `< floor`.
    #[serde(default)]
    pub floor: f64,
    /// The machine.
    pub machine: String,
    /// The cost of measuring.
    pub spent: Spent,
    /// Notes on missing data, one line each.
    pub notes: Vec<String>,
    /// The number of processes for which each note holds; a note without a number holds for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub noted: Vec<u32>,
    /// Arguments of functions, if requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<Arguments>,
}

impl Header {
    /// The name of its times: `CPU`, or `wall`.
    pub(crate) fn kind_of_time(&self) -> &'static str {
        if self.wall { "wall" } else { "CPU" }
    }
}

/// The spans in which a program was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// Their number.
    pub spans: u64,
    /// The first of them; empty if several processes were added up.
    pub first: Vec<Span>,
}

/// Start and end, in seconds since the observation of the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Start.
    pub from: f64,
    /// End.
    pub to: f64,
}

/// The cost of measuring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// The number of probes.
    pub probes: u64,
    /// The number of probes that were switched.
    pub toggles: u64,
    /// The number of timed calls.
    pub samples: u64,
    /// The time of counting entries, in seconds, assuming no overlap with other work.
    #[serde(default)]
    pub counting: f64,
    /// The time of switching, in seconds.
    pub switching: f64,
    /// The time of the agent, which adds up, decides and switches, in seconds.
    pub agent: f64,
    /// Timed calls that never ended, or were lost for lack of space.
    pub lost: u64,
}

/// A program or library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Module {
    /// Its file.
    pub path: String,
    /// Its build ID, in hexadecimal digits; empty if it has none.
    pub build_id: String,
}

/// A function's location and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Label {
    /// Its demangled name.
    pub name: String,
    /// The number of its module; `None` if its code belongs to none.
    pub module: Option<u32>,
    /// Its offset in its module.
    pub offset: u64,
    /// Its source file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// Data about a function. Times are in nanoseconds, callees included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// Its ID in the process.
    pub id: FuncId,
    /// Its name and location.
    pub label: Label,
    /// Its number of calls.
    pub calls: Figure,
    /// Its number of timed calls.
    pub samples: u64,
    /// The shortest timed call.
    pub min: Option<f64>,
    /// The mean wall-clock time of a call; or its CPU time, if probes cannot measure it because
    /// calls are short or a single one dominates. See [`Function::cpu_mean`].
    pub mean: Option<Figure>,
    /// The longest timed call.
    pub max: Option<f64>,
    /// CPU time of all calls, callees included, counted once in recursion; reconciled. `None`
    /// without evidence.
    pub total: Option<Figure>,
    /// CPU time without callees, reconciled.
    #[serde(rename = "self")]
    pub own: Option<Figure>,
    /// CPU time with it on the stack, from the clock alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Figure>,
    /// Wall-clock time of all outermost calls; see [`Function::is_wall_a_bound`].
    #[serde(default)]
    pub wall: Option<Figure>,
    /// Whether the clock cannot see it: it was inlined, or it is not completely timed while frames
    /// of timed calls are the clock.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unseen: bool,
    /// Whether a runtime reports its calls through the library's functions, which takes longer than
    /// a probe's hooks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_runtime: bool,
    /// The evidence of probes about its time.
    #[serde(default, skip_serializing_if = "Timed::is_empty")]
    pub timed: Timed,
    /// Timed calls that never ended.
    #[serde(default)]
    pub lost: u64,
    /// Durations of calls in measured ticks; each bucket with the number of calls that it
    /// represents.
    #[serde(default, skip_serializing_if = "Histogram::is_empty")]
    pub histogram: Histogram,
    /// Its callers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arcs: Vec<Arc>,
    /// Its slowest timed calls, slowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exemplars: Vec<Exemplar>,
}

/// One slow call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exemplar {
    /// Its duration, in nanoseconds.
    pub time: f64,
    /// Its thread.
    pub thread: i32,
    /// When it ended, in nanoseconds since the observation began.
    pub at: f64,
    /// The timed calls inside it that took longest, longest first.
    pub inside: Vec<Callee>,
}

impl Exemplar {
    /// Converts from ticks; an empty call has `bias` ticks.
    fn of(slow: &Slow, bias: f64, ns: f64) -> Self {
        let inside = slow.inside.iter();
        let callee = |inner: &Inner| Callee {
            function: inner.function,
            calls: inner.calls,
            time: inner.ticks as f64 * ns,
        };
        Self {
            time: (slow.ticks as f64 - bias).max(0.0) * ns,
            thread: slow.thread,
            at: slow.at.0 as f64 * ns,
            inside: inside.map(callee).collect(),
        }
    }
}

/// Timed calls of one function inside a slow call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Callee {
    /// The function.
    pub function: FuncId,
    /// Their number.
    pub calls: u64,
    /// Their total duration, in nanoseconds.
    pub time: f64,
}

/// A call site with this mark is no return address, since its function was inlined there: it is the
/// address at which the function ends.
pub const INLINED: u64 = 1 << 63;

/// A caller of a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arc {
    /// The return address, or the end of a function that was inlined; 0 for all callers that are
    /// not distinguished.
    pub site: u64,
    /// Timed calls from there.
    pub samples: u64,
    /// Their share of the time of all timed calls.
    pub share: f64,
    /// The caller.
    pub caller: Option<Label>,
}

impl Function {
    /// Whether it has timed calls, all shorter than this, in nanoseconds.
    pub fn is_shorter_than(&self, time: f64) -> bool {
        self.max.is_some_and(|max| max < time)
    }
}

/// A percentile is shown if this many calls were timed.
const ENOUGH: [(f64, u64); 4] = [(0.5, 5), (0.9, 30), (0.99, 300), (0.999, 3000)];

impl Profile {
    /// Removes slow calls shorter than this, in nanoseconds.
    pub fn keep_calls_of(&mut self, time: f64) {
        for function in &mut self.functions {
            function.exemplars.retain(|call| call.time >= time);
        }
    }

    pub(crate) fn of(
        policy: &Policy,
        clock: Clock,
        costs: Costs,
        watched: Ticks,
        lost: u64,
        changes: &Changes,
        accounts: impl Iterator<Item = (FuncId, Account)>,
    ) -> Self {
        let mut entries = 0;
        let functions = accounts.map(|(id, account)| {
            entries += account.entries;
            let calls = match policy {
                Policy::Paper { .. } => account.calls_without_windows(),
                Policy::Adaptive { .. } | Policy::Exact | Policy::Count => account.calls(changes),
            };
            Function::of(id, account, calls, policy, &clock, &costs)
        });
        let functions = functions.collect();
        let counting = entries as f64 * costs.count / clock.hz;
        let header = Header {
            processes: 1,
            policy: policy.to_string(),
            seconds: watched.0 as f64 / clock.hz,
            hz: clock.hz,
            step: clock.step,
            bias: costs.bias,
            pair: costs.pair,
            clock: ClockSource::None { why: String::new() },
            spent: Spent { lost, counting, ..Spent::default() },
            ..Header::default()
        };
        Self { header, modules: Vec::new(), functions, stacks: Vec::new() }
    }

    /// Sets a better known frequency of the clock. All times that were measured by that clock are
    /// rescaled; CPU time is not. Call this before the profile is reconciled with the evidence of
    /// another clock.
    pub fn set_hz(&mut self, hz: f64) {
        let by = self.header.hz / hz;
        if !(by.is_finite() && by > 0.0) {
            return;
        }
        self.header.hz = hz;
        self.header.seconds *= by;
        self.header.floor *= by;
        for function in &mut self.functions {
            function.rescale(by);
        }
        self.refresh();
    }

    /// Reconciles the probes' figures again, if there is no other evidence.
    fn refresh(&mut self) {
        if self.header.clock == ClockSource::Probes {
            self.reconcile(&ClockEvidence::default());
        }
    }

    /// Sets the names of the functions.
    pub fn label(&mut self, mut name: impl FnMut(FuncId) -> Label) {
        for function in &mut self.functions {
            function.label = name(function.id);
        }
    }

    /// Renames everything by a function of the current name.
    pub fn rename(&mut self, rename: impl Fn(&str) -> String) {
        let mut known = std::collections::HashMap::<String, String>::new();
        let callers = |function: &mut Function| {
            let labels = function.arcs.iter_mut().filter_map(|arc| arc.caller.as_mut());
            labels.chain([&mut function.label]).for_each(|label| {
                let name = std::mem::take(&mut label.name);
                label.name = match known.get(&name) {
                    Some(renamed) => renamed.clone(),
                    None => known.entry(name).or_insert_with_key(|name| rename(name)).clone(),
                };
            });
        };
        self.functions.iter_mut().for_each(callers);
        for arguments in &mut self.header.arguments {
            arguments.function = rename(&arguments.function);
        }
    }

    /// Replaces control characters in its texts. The paths of modules stay as they are: files are
    /// found by them.
    pub(crate) fn make_printable(&mut self) {
        let print = |text: &mut String| {
            if let Cow::Owned(printable) = printable(text) {
                *text = printable;
            }
        };
        let Header { command, policy, machine, notes, arguments, .. } = &mut self.header;
        command.iter_mut().chain(notes).chain([policy, machine]).for_each(print);
        arguments.iter_mut().for_each(|arguments| print(&mut arguments.function));
        let labels = self.functions.iter_mut().flat_map(|function| {
            let callers = function.arcs.iter_mut().filter_map(|arc| arc.caller.as_mut());
            callers.chain([&mut function.label])
        });
        labels.for_each(|label| label.file.iter_mut().chain([&mut label.name]).for_each(print));
    }

    /// Sets the names of the callers of each function, from the places of their calls, which may be
    /// marked as [`INLINED`].
    pub fn label_callers(&mut self, mut name: impl FnMut(FuncId, u64) -> Option<Label>) {
        for function in &mut self.functions {
            for arc in function.arcs.iter_mut().filter(|arc| arc.site != 0) {
                arc.caller = name(function.id, arc.site);
                arc.site &= !INLINED;
            }
        }
        self.refresh();
    }

    /// The observed time of all threads together, in nanoseconds; infinite if unknown.
    pub(crate) fn watched(&self) -> f64 {
        match self.header.threads {
            0 => f64::INFINITY,
            threads => f64::from(threads) * self.header.seconds * 1e9,
        }
    }
}

impl Function {
    fn of(
        id: FuncId,
        account: Account,
        calls: Figure,
        policy: &Policy,
        clock: &Clock,
        costs: &Costs,
    ) -> Self {
        let ns = 1e9 / clock.hz;
        let extremes = account.extremes(costs);
        Self {
            calls,
            samples: account.samples,
            min: extremes.map(|(min, _)| min.max(0.0) * ns),
            max: extremes.map(|(_, max)| max.max(0.0) * ns),
            timed: Timed::of(&account, &calls, policy, costs).scaled(ns),
            lost: account.lost,
            arcs: arcs(&account),
            exemplars: account
                .slowest
                .calls()
                .iter()
                .map(|slow| Exemplar::of(slow, costs.bias, ns))
                .collect(),
            histogram: account.into_histogram(),
            ..Self::uncalled(id)
        }
    }

    /// A function without any known call.
    pub(crate) fn uncalled(id: FuncId) -> Self {
        Self::counted(id, Label::default(), 0)
    }

    /// A function of which only the exact number of calls is known so far.
    pub fn counted(id: FuncId, label: Label, calls: u64) -> Self {
        Self {
            id,
            label,
            calls: Figure::exact(calls as f64),
            samples: 0,
            min: None,
            mean: None,
            max: None,
            total: None,
            own: None,
            cpu: None,
            wall: None,
            unseen: false,
            by_runtime: false,
            timed: Timed::default(),
            lost: 0,
            histogram: Histogram::default(),
            arcs: Vec::new(),
            exemplars: Vec::new(),
        }
    }

    /// Sets the exact number of its calls, which the timed ones represent. The total is that of so
    /// many calls, without recursive ones in the same proportion as before.
    pub fn set_calls(&mut self, calls: u64) {
        let all = self.timed.mean.map(|mean| mean.value * self.calls.value);
        let outermost = match (self.timed.total, all) {
            (Some(total), Some(all)) if all > 0.0 => (total.value / all).clamp(0.0, 1.0),
            _ => 1.0,
        };
        self.calls = Figure::exact(calls as f64);
        self.timed.total = self.timed.mean.map(|mean| mean.scaled(outermost * calls as f64));
    }

    /// Whether every call of it was timed, and the sum is a valid time.
    pub fn is_timed_completely(&self) -> bool {
        let total = self.timed.total();
        total.is_some_and(|total| total.is_exact() || self.is_complete())
    }

    /// Mean CPU time of a call: its total ÷ its calls.
    pub fn cpu_mean(&self) -> Option<Figure> {
        quotient(&self.total?, &self.calls)
    }

    /// Whether its wall-clock time is only a lower bound: a single call dominates the samples.
    pub fn is_wall_a_bound(&self) -> bool {
        self.wall.is_some_and(|wall| wall.mark() == Mark::AtLeast)
    }

    /// The share of its wall-clock time in which it did not run; `None` if unknown.
    pub fn waiting(&self) -> Option<f64> {
        let (wall, total) =
            (self.wall.filter(|_| !self.is_wall_a_bound())?.value, self.total?.value);
        (wall > 0.0).then(|| ((wall - total) / wall).max(0.0))
    }

    /// Changes the length of a tick, and so the times that were measured in ticks.
    fn rescale(&mut self, by: f64) {
        self.timed = self.timed.scaled(by);
        for figure in [&mut self.mean, &mut self.wall].into_iter().flatten() {
            *figure = figure.scaled(by);
        }
        if let (Some(wall), Some(total)) = (&mut self.wall, self.total) {
            *wall = wall.clipped(total.value, f64::INFINITY);
        }
        let exemplars = self.exemplars.iter_mut();
        let times = exemplars.flat_map(|one| {
            one.inside.iter_mut().map(|inside| &mut inside.time).chain([&mut one.time, &mut one.at])
        });
        times
            .chain([&mut self.min, &mut self.max].into_iter().flatten())
            .for_each(|value| *value *= by);
    }

    /// The percentile of its durations at this share, in nanoseconds; `None` if too few calls were
    /// timed.
    pub fn percentile(&self, share: f64, header: &Header) -> Option<f64> {
        let enough =
            ENOUGH.iter().find(|(of, _)| share <= *of).map_or(u64::MAX, |(_, enough)| *enough);
        let all = self.calls.is_exact() && self.samples as f64 >= self.calls.value;
        if self.samples == 0 || !(all || self.samples >= enough) {
            return None;
        }
        let ticks = self.histogram.quantile(share)? - header.bias;
        // A bucket may be wider than the range of the calls in it.
        let (least, most) = (self.min.unwrap_or(0.0).max(0.0), self.max.unwrap_or(f64::INFINITY));
        Some((ticks / header.hz * 1e9).max(least).min(most))
    }

    /// Whether its mean is too short for the clock, also at the end of its interval.
    pub fn is_below_resolution(&self, header: &Header) -> bool {
        let step = header.step as f64 / header.hz * 1e9;
        self.mean.is_some_and(|mean| mean.interval().1 < step / 4.0)
    }
}

fn arcs(account: &Account) -> Vec<Arc> {
    let whole: f64 =
        account.arcs.iter().map(|arc| arc.2 as f64).sum::<f64>() + account.other_arcs.1 as f64;
    let rest =
        (account.other_arcs.0 > 0).then_some((0, account.other_arcs.0, account.other_arcs.1));
    let all = account.arcs.iter().copied().chain(rest);
    // Most functions have one caller, and there are many functions.
    let mut arcs = Vec::with_capacity(account.arcs.len() + usize::from(rest.is_some()));
    arcs.extend(all.map(|(site, samples, ticks)| Arc {
        site,
        samples,
        share: if whole > 0.0 { ticks as f64 / whole } else { 0.0 },
        caller: None,
    }));
    arcs.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.site.cmp(&b.site)));
    arcs
}
