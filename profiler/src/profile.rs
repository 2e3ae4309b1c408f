//! A profile: what is known of a program's functions, as plain data.

use crate::account::Account;
use crate::figure::Figure;
use crate::histogram::Histogram;
use crate::{Clock, Costs, FuncId, Policy, Ticks};
use serde::{Deserialize, Serialize};

/// What is known of a program's functions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// How it came about.
    pub header: Header,
    /// Its modules.
    pub modules: Vec<Module>,
    /// Its functions that were called, in the order of their numbers.
    pub functions: Vec<Function>,
}

/// How a profile came about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The process, and its parent.
    pub process: i32,
    /// See `process`.
    pub parent: i32,
    /// How many processes this is the sum of.
    pub processes: u32,
    /// When it began: nanoseconds since 1970.
    pub started: u64,
    /// How long the program was watched, in seconds.
    pub seconds: f64,
    /// Its processor time, in seconds.
    pub processor: f64,
    /// How calls were chosen.
    pub policy: String,
    /// Ticks in a second; the clock's step in ticks.
    pub hz: f64,
    /// See `hz`.
    pub step: u64,
    /// What measuring adds to a call, and to the one around it, in ticks.
    pub bias: f64,
    /// See `bias`.
    pub pair: f64,
    /// The machine.
    pub machine: String,
    /// What measuring has taken.
    pub spent: Spent,
    /// What is missing, one line each.
    pub notes: Vec<String>,
}

/// What measuring has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Probes.
    pub probes: u64,
    /// Probes that were switched.
    pub toggles: u64,
    /// Calls that were timed.
    pub samples: u64,
    /// Seconds of switching.
    pub switching: f64,
    /// Seconds of the agent, which sums up, decides and switches.
    pub agent: f64,
    /// Timed calls that never ended, or found no room.
    pub lost: u64,
}

/// A program or library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Module {
    /// Its file.
    pub path: String,
    /// Its build id, in hexadecimal digits; empty if it has none.
    pub build_id: String,
}

/// Where a function is, and what it is called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Label {
    /// Its name, as people write it.
    pub name: String,
    /// The number of its module; `None` if its code belongs to none.
    pub module: Option<u32>,
    /// Where it begins in its module.
    pub offset: u64,
    /// Its source file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// What is known of a function. Times are in nanoseconds, callees included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// Its number in the process.
    pub id: FuncId,
    /// What it is called.
    pub label: Label,
    /// How often it was called.
    pub calls: Figure,
    /// Calls that were timed.
    pub samples: u64,
    /// The shortest call that was timed.
    pub min: Option<f64>,
    /// The time of a call.
    pub mean: Option<Figure>,
    /// The longest call that was timed.
    pub max: Option<f64>,
    /// All calls together.
    pub total: Option<Figure>,
    /// Without what it calls, where all of that was timed.
    #[serde(rename = "self")]
    pub own: Option<Figure>,
    /// Calls that were timed and never ended.
    pub lost: u64,
    /// How long calls took, in ticks as measured; each bucket with the number of calls that it stands for.
    pub histogram: Histogram,
    /// From where it was called.
    pub arcs: Vec<Arc>,
}

/// From where a function was called.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arc {
    /// The return address; 0 for all that are not told apart.
    pub site: u64,
    /// Timed calls from there.
    pub samples: u64,
    /// Their part of all time of timed calls.
    pub share: f64,
    /// The caller.
    pub caller: Option<Label>,
}

/// A percentile is told if so many calls were timed.
const ENOUGH: [(f64, u64); 3] = [(0.5, 5), (0.9, 30), (0.99, 300)];

impl Profile {
    pub(crate) fn of(
        policy: &Policy,
        clock: Clock,
        costs: Costs,
        watched: Ticks,
        lost: u64,
        accounts: impl Iterator<Item = (FuncId, Account)>,
    ) -> Self {
        let functions = accounts.map(|(id, account)| Function::of(id, &account, policy, &clock, &costs)).collect();
        let header = Header {
            processes: 1,
            policy: policy.to_string(),
            seconds: watched.0 as f64 / clock.hz,
            hz: clock.hz,
            step: clock.step,
            bias: costs.bias,
            pair: costs.pair,
            spent: Spent { lost, ..Spent::default() },
            ..Header::default()
        };
        Self { header, modules: Vec::new(), functions }
    }

    /// A clock that is known better: all times follow.
    pub fn set_hz(&mut self, hz: f64) {
        let by = self.header.hz / hz;
        if !(by.is_finite() && by > 0.0) {
            return;
        }
        self.header.hz = hz;
        self.header.seconds *= by;
        for function in &mut self.functions {
            for figure in [&mut function.mean, &mut function.total, &mut function.own].into_iter().flatten() {
                *figure = figure.scaled(by);
            }
            for value in [&mut function.min, &mut function.max].into_iter().flatten() {
                *value *= by;
            }
        }
    }

    /// Names the functions.
    pub fn label(&mut self, mut name: impl FnMut(FuncId) -> Label) {
        for function in &mut self.functions {
            function.label = name(function.id);
        }
    }

    /// Gives everything another name, by the one that it has.
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
    }

    /// Names the callers, by the return addresses of their calls; what timed calls have added to the time of their callers' own is
    /// taken away when that is known.
    pub fn label_callers(&mut self, mut name: impl FnMut(u64) -> Option<Label>) {
        let mut direct = std::collections::HashMap::<(Option<u32>, u64), f64>::new();
        for function in &mut self.functions {
            for arc in function.arcs.iter_mut().filter(|arc| arc.site != 0) {
                arc.caller = name(arc.site);
                if let Some(caller) = &arc.caller {
                    *direct.entry((caller.module, caller.offset)).or_default() += arc.samples as f64;
                }
            }
        }
        let added = (self.header.pair - self.header.bias).max(0.0) / self.header.hz * 1e9;
        for function in &mut self.functions {
            let calls = direct.get(&(function.label.module, function.label.offset)).copied().unwrap_or(0.0);
            if let Some(own) = &mut function.own {
                own.value -= calls * added;
            }
        }
    }

    /// The time of all functions' own, or else the longest total: what shares are shares of, in nanoseconds.
    pub(crate) fn whole(&self) -> f64 {
        let own: f64 = self.functions.iter().filter_map(|function| Some(function.own?.value.max(0.0))).sum();
        let longest = self.functions.iter().filter_map(|function| Some(function.total?.value)).fold(0.0, f64::max);
        if own > 0.0 { own } else { longest }
    }
}

impl Function {
    fn of(id: FuncId, account: &Account, policy: &Policy, clock: &Clock, costs: &Costs) -> Self {
        let ns = 1e9 / clock.hz;
        let calls = account.calls();
        let mean = account.mean(costs).map(|mean| mean.scaled(ns));
        let total = mean.map(|mean| product(&calls, &mean));
        let own = (*policy == Policy::Exact && account.is_complete()).then(|| Figure::exact(account.own(costs) * ns));
        let extremes = account.extremes(costs);
        Self {
            id,
            label: Label::default(),
            calls,
            samples: account.samples,
            min: extremes.map(|(min, _)| min.max(0.0) * ns),
            mean,
            max: extremes.map(|(_, max)| max.max(0.0) * ns),
            total,
            own,
            lost: account.lost,
            histogram: account.histogram().clone(),
            arcs: arcs(account),
        }
    }

    /// The time that a share of its calls stays below, in nanoseconds; `None` if too few were timed to tell.
    pub fn percentile(&self, share: f64, header: &Header) -> Option<f64> {
        let enough = ENOUGH.iter().find(|(of, _)| share <= *of).map_or(u64::MAX, |(_, enough)| *enough);
        let all = self.calls.is_exact() && self.samples as f64 >= self.calls.value;
        if self.samples == 0 || !(all || self.samples >= enough) {
            return None;
        }
        let ticks = self.histogram.quantile(share)? - header.bias;
        Some(ticks.max(0.0) / header.hz * 1e9)
    }

    /// Whether its mean is so short that the clock cannot tell it from nothing.
    pub fn is_below_resolution(&self, header: &Header) -> bool {
        let step = header.step as f64 / header.hz * 1e9;
        self.mean.is_some_and(|mean| mean.value < step / 4.0)
    }
}

/// The product of two figures that are independent.
fn product(a: &Figure, b: &Figure) -> Figure {
    let value = a.value * b.value;
    if a.is_exact() && b.is_exact() {
        return Figure::exact(value);
    }
    let relative = |figure: &Figure| if figure.value == 0.0 { 0.0 } else { figure.half_width() / figure.value.abs() };
    Figure::estimated(value, value.abs() * relative(a).hypot(relative(b)), 0.0)
}

fn arcs(account: &Account) -> Vec<Arc> {
    let whole: f64 = account.arcs.iter().map(|arc| arc.2 as f64).sum::<f64>() + account.other_arcs.1 as f64;
    let rest = (account.other_arcs.0 > 0).then_some((0, account.other_arcs.0, account.other_arcs.1));
    let all = account.arcs.iter().copied().chain(rest);
    let mut arcs: Vec<Arc> = all
        .map(|(site, samples, ticks)| Arc {
            site,
            samples,
            share: if whole > 0.0 { ticks as f64 / whole } else { 0.0 },
            caller: None,
        })
        .collect();
    arcs.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.site.cmp(&b.site)));
    arcs
}
