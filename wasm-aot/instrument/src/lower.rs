//! Lowering: decides how a monitor is implemented in the program's code. Only this file decides it.
//!
//! ```text
//!   Facts (of the monitor) ──┐
//!                            ├── lower ──▶ Lowering: Action × Gate × Layer, and why it is no cheaper one
//!   Capabilities (of the     ┘
//!   program's code)
//! ```
//!
//! This file neither reads nor changes a program. The cheapest lowering comes first:
//!
//! | [`Action`] | what stands in the code | which monitors |
//! |---|---|---|
//! | `Nothing` | nothing | no place matches |
//! | `Count` | edge counters, which all that count share; effects are computed when they are read | effects are sums, see `observer/effects.rs` |
//! | `OneShot` | one-shot probes, which switch themselves off | effects happen once |
//! | `Hooks` | machine code of the monitor's own, and calls of the host | monitors that are built in |
//! | `Guest` | the module's functions, inlined where they are small, or called | all other modules |
//! | `Host` | calls of the host, which calls the functions | modules whose failures are their own |
//!
//! | [`Gate`] | how one probe is off |
//! |---|---|
//! | `Always` | never by itself: only with its layer |
//! | `Once` | it patches itself out when it is reached |
//! | `Word` | its code looks at a word, which may be a budget of calls; where code can be patched, variants of functions leave it out as well |
//!
//! | [`Layer`] | how all of a monitor's probes are off |
//! |---|---|
//! | `Own` | compiled into the program's own code: never, or by their words |
//! | `Apart` | in variants of functions, which are patched in and out |
//!
//! Only this file makes an action, a gate or a layer ([`Seal`]). Other files match on them and
//! apply them: `observer/{composition,installed}.rs`, `monitor/built_in.rs`.

use std::fmt::{self, Display};
use wasm_aot_engine::instrument::compile::Draft;
use wasm_aot_engine::{Engine, Module};

/// A value that only this file can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal(());

const SEAL: Seal = Seal(());

/// What a monitor's probes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Nothing(Seal),
    Count(Seal),
    /// Besides one-shot probes, some effects may be sums.
    OneShot {
        counts: bool,
        seal: Seal,
    },
    Hooks(Seal),
    Guest {
        is_inlined: bool,
        seal: Seal,
    },
    Host(Seal),
}

/// How a probe is switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Always(Seal),
    Once(Seal),
    Word {
        is_budget: bool,
        /// Whether variants of functions leave out probes that are off.
        is_patched: bool,
        /// Whether the pruner searches for probes that have switched themselves off.
        is_pruned: bool,
        seal: Seal,
    },
}

/// How a monitor's probes are switched together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    Own(Seal),
    Apart(Seal),
}

/// What is known of a monitor before it is lowered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Facts {
    /// Its report is made of edge counts.
    Counts,
    /// Its report is made of what was executed.
    OneShots,
    /// It is built in, and has code of its own.
    Hooks(Hooks),
    /// It is a module, whose functions are to be called.
    Functions(Functions),
}

/// What is known of a built-in monitor with code of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hooks {
    /// Whether it has to see programs from their beginning.
    pub(crate) is_early: bool,
    /// Whether it writes to the program's own streams, without a limit.
    pub(crate) floods: bool,
}

/// What is known of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Functions {
    pub(crate) effects: Effects,
    /// At how many places its functions are to be called.
    pub(crate) places: usize,
    /// Whether its user may switch it, or limits its calls, or keeps its failures from the program.
    pub(crate) is_toggled: bool,
    pub(crate) is_limited: bool,
    pub(crate) is_contained: bool,
    /// Whether it removes probes itself, or inserts some.
    pub(crate) removes: bool,
    pub(crate) inserts: bool,
    /// Whether it reads its cells when a memory grows.
    pub(crate) listens: bool,
    /// Whether its functions replace instructions.
    pub(crate) replaces: bool,
    /// Whether it keeps state in activations of the program's functions.
    pub(crate) keeps_slots: bool,
    /// Whether each thread has an instance of it, and why their reports could not be merged.
    pub(crate) is_threaded: bool,
    pub(crate) unmergeable: Option<String>,
    /// The costs of calling it and of counting, if the program is instantiated once.
    pub(crate) costs: Option<Costs>,
}

/// The effect summary of a module's functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Effects {
    /// No function is called anywhere.
    #[default]
    Nothing,
    /// Constants are added to cells, or cells are set, in whatever order.
    Sums,
    /// The same, by functions that remove their own probe.
    Once,
    /// Some functions have the one kind of effect, some the other.
    SumsAndOnce,
    /// This function has other effects.
    More(String),
    /// Several functions set or add to a cell, so that their order matters.
    Ordered,
}

/// What happens per turn of the program, in arbitrary units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Costs {
    pub(crate) calls: u64,
    pub(crate) counters: u64,
}

/// When a monitor is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// Before the program is compiled.
    Early,
    /// After its code was compiled, but before it is executed.
    Compiled,
    /// While it runs.
    Running,
}

/// What can be done to a program's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capabilities {
    pub(crate) time: Time,
    /// Whether functions can be patched to lead to variants.
    pub(crate) patches: bool,
    /// Whether edges are counted anyway, for another monitor.
    pub(crate) counts: bool,
    /// Whether a module's functions may be inlined, and be left out for counters.
    pub(crate) inlines: bool,
}

impl Capabilities {
    /// Of code that an engine is about to compile.
    pub(crate) fn of_engine(engine: &Engine) -> Self {
        let counts = engine.target().options.counts;
        Self { time: Time::Early, patches: engine.is_patchable(), counts, inlines: true }
    }

    /// Of existing code.
    pub(crate) fn of_module(module: &Module, time: Time) -> Self {
        let counts = module.inner().options.counts;
        Self { time, patches: module.is_patchable(), counts, inlines: true }
    }

    /// Of a file of machine code: its code contains no addresses of a process.
    pub(crate) fn of_file() -> Self {
        Self { time: Time::Early, patches: false, counts: true, inlines: true }
    }
}

/// Why a monitor is not lowered at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It would need one instance for each thread.
    Threads(String),
    /// Its failures cannot be contained: it replaces instructions, or keeps slots.
    Replaces,
    KeepsSlots,
    /// The program's code cannot be changed.
    NoSites,
    /// It has to see programs from their beginning.
    Early,
    /// It would write to the program's streams.
    Floods,
}

/// Why a cheaper action, gate or layer does not suffice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Values,
    Direct,
    Inserts,
    Listens,
    Contained,
    Limited,
    More(String),
    Ordered,
    Cheaper(Costs),
    Switched,
    NoSites,
    Threads,
}

impl Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const COUNTS: &str = "not computed from counts";
        match self {
            Self::Values => {
                write!(f, "{COUNTS}: it observes values, addresses, times or the order of events")
            }
            Self::Direct => write!(f, "{COUNTS}, not inlined: calls were asked for"),
            Self::Inserts => write!(f, "{COUNTS}: it inserts probes while the program runs"),
            Self::Listens => write!(f, "{COUNTS}: it is called when a memory grows"),
            Self::Contained => {
                write!(f, "{COUNTS}, not inlined: on-trap=off keeps its failures from the program")
            }
            Self::Limited => write!(f, "{COUNTS}: calls=N ends its probes one by one"),
            Self::More(function) => write!(
                f,
                "{COUNTS}: {function} does more than adding constants to variables, or setting them"
            ),
            Self::Ordered => {
                write!(f, "{COUNTS}: the order of its functions' calls decides what a variable is")
            }
            Self::Cheaper(Costs { calls, counters }) => write!(
                f,
                "{COUNTS}: its additions cost less than counters in the whole program (about {calls} to {counters})"
            ),
            Self::Switched => {
                write!(f, "no one-shot probes: single probes of it can be switched on again")
            }
            Self::NoSites => {
                write!(f, "looks at words: the program was compiled without sites")
            }
            Self::Threads => {
                write!(f, "not in variants: each thread has an instance of it")
            }
        }
    }
}

/// How a monitor is implemented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lowering {
    pub(crate) action: Action,
    pub(crate) gate: Gate,
    pub(crate) layer: Layer,
    /// Why no cheaper one is possible.
    pub(crate) reasons: Vec<Reason>,
}

impl Display for Lowering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.action {
            Action::Nothing(_) => return f.write_str("nothing, since no place matches"),
            Action::Count(_) => "edge counters, from which its effects are computed",
            Action::OneShot { counts: false, .. } => "one-shot probes",
            Action::OneShot { counts: true, .. } => "one-shot probes and edge counters",
            Action::Hooks(_) => "probes of its own",
            Action::Guest { is_inlined: true, .. } => "its functions, inlined where they are small",
            Action::Guest { is_inlined: false, .. } => "its functions, called",
            Action::Host(_) => "its functions, called through the host",
        })?;
        match self.gate {
            Gate::Always(_) => {}
            Gate::Once(_) => f.write_str(", which patch themselves out")?,
            Gate::Word { is_budget, is_patched, .. } => {
                f.write_str(", each switched by a word")?;
                f.write_str(if is_budget { " that is its budget of calls" } else { "" })?;
                f.write_str(if is_patched { ", and left out while it is off" } else { "" })?;
            }
        }
        f.write_str(match self.layer {
            Layer::Own(_) => "; compiled into the program",
            Layer::Apart(_) => "; in variants of functions, which are patched in and out",
        })
    }
}

impl Lowering {
    fn new(action: Action, gate: Gate, layer: Layer) -> Self {
        Self { action, gate, layer, reasons: Vec::new() }
    }

    fn because(self, reasons: impl IntoIterator<Item = Reason>) -> Self {
        Self { reasons: reasons.into_iter().collect(), ..self }
    }

    /// Whether its probes are in variants of functions.
    pub(crate) fn is_apart(&self) -> bool {
        matches!(self.layer, Layer::Apart(_))
    }
}

/// Whether a monitor is possible at all.
pub(crate) fn admit(facts: &Facts, code: &Capabilities) -> Result<(), Refusal> {
    let is_running = code.time == Time::Running;
    match facts {
        Facts::Counts | Facts::OneShots => Ok(()),
        Facts::Hooks(hooks) if is_running && hooks.floods => Err(Refusal::Floods),
        Facts::Hooks(hooks) if is_running && hooks.is_early => Err(Refusal::Early),
        Facts::Hooks(_) => Ok(()),
        Facts::Functions(monitor) => {
            if monitor.is_threaded {
                let why = if is_running { Some(LATE.into()) } else { why_one_instance(monitor) };
                why.map_or(Ok(()), |why| Err(Refusal::Threads(why)))?;
            }
            match monitor.is_contained {
                true if monitor.replaces => Err(Refusal::Replaces),
                true if monitor.keeps_slots => Err(Refusal::KeepsSlots),
                _ if is_running && !code.patches => Err(Refusal::NoSites),
                _ => Ok(()),
            }
        }
    }
}

/// Why a module that is attached late cannot have an instance for each thread.
const LATE: &str = "instances for several threads are known before the program is compiled: attach one that has none";

/// Why a module cannot have an instance for each thread.
pub(crate) fn why_one_instance(monitor: &Functions) -> Option<String> {
    const INSERTS: &str =
        "the probes that it inserts itself call one instance, whatever the thread";
    const CONTAINED: &str = "its failures cannot be its own there: leave on-trap=off out";
    match monitor {
        Functions { inserts: true, .. } => Some(INSERTS.into()),
        Functions { is_contained: true, .. } => Some(CONTAINED.into()),
        Functions { unmergeable, .. } => unmergeable.clone(),
    }
}

/// Lowers monitors that are attached together. If none of them needs the program counted except for
/// few additions, their functions are called to make these.
pub(crate) fn lower(all: &[Facts], code: &Capabilities) -> Vec<Lowering> {
    let mut lowered: Vec<Lowering> = all.iter().map(|facts| lower_one(facts, code)).collect();
    let is_virtual = |lowering: &Lowering| {
        !lowering.is_apart() && matches!(lowering.action, Action::Count(_) | Action::OneShot { .. })
    };
    let counts = |lowering: &Lowering| {
        matches!(lowering.action, Action::Count(_) | Action::OneShot { counts: true, .. })
    };
    let costs = |facts: &Facts| match facts {
        Facts::Functions(monitor) => monitor.costs,
        _ => None,
    };
    let pays_off = |(facts, lowering): (&Facts, &Lowering)| match costs(facts) {
        Some(Costs { calls, counters }) => calls < counters || !counts(lowering),
        None => !matches!(facts, Facts::Functions(_)) && !counts(lowering),
    };
    let calls =
        !code.counts && all.iter().zip(&lowered).filter(|(_, one)| is_virtual(one)).all(pays_off);
    let own = all.iter().zip(&mut lowered);
    for (facts, lowering) in own.filter(|(_, one)| calls && is_virtual(one) && counts(one)) {
        let action = Action::Guest { is_inlined: true, seal: SEAL };
        let why = Reason::Cheaper(costs(facts).unwrap_or_default());
        *lowering = Lowering::new(action, Gate::Always(SEAL), Layer::Own(SEAL)).because([why]);
    }
    lowered
}

fn lower_one(facts: &Facts, code: &Capabilities) -> Lowering {
    let layer = |is_apart: bool| if is_apart { Layer::Apart(SEAL) } else { Layer::Own(SEAL) };
    let is_running = code.time == Time::Running;
    match facts {
        Facts::Counts => Lowering::new(Action::Count(SEAL), Gate::Always(SEAL), layer(is_running)),
        Facts::OneShots => {
            let action = Action::OneShot { counts: false, seal: SEAL };
            Lowering::new(action, Gate::Once(SEAL), layer(is_running))
        }
        Facts::Hooks(_) => {
            let is_apart = is_running || code.patches;
            Lowering::new(Action::Hooks(SEAL), Gate::Always(SEAL), layer(is_apart))
                .because([Reason::Values])
        }
        Facts::Functions(monitor) => monitor.lower(code),
    }
}

impl Facts {
    /// Whether it keeps state in activations of the program's functions.
    pub(crate) fn keeps_slots(&self) -> bool {
        matches!(self, Self::Functions(Functions { keeps_slots: true, .. }))
    }
}

impl Functions {
    fn lower(&self, code: &Capabilities) -> Lowering {
        let is_switched = code.time == Time::Running || self.is_switched_by_user();
        match (self.why_called(code), &self.effects) {
            (None, Effects::Nothing) if code.patches || !is_switched => {
                let layer = if is_switched { Layer::Apart(SEAL) } else { Layer::Own(SEAL) };
                Lowering::new(Action::Nothing(SEAL), Gate::Always(SEAL), layer)
            }
            (None, Effects::Sums) if is_switched && code.patches => {
                Lowering::new(Action::Count(SEAL), Gate::Always(SEAL), Layer::Apart(SEAL))
            }
            (None, _) if is_switched && code.patches => self.gated(code, [Reason::Switched]),
            (None, _) if is_switched => self.gated(code, [Reason::NoSites]),
            (None, Effects::Sums) => {
                Lowering::new(Action::Count(SEAL), Gate::Always(SEAL), Layer::Own(SEAL))
            }
            (None, effects) => {
                let counts = *effects == Effects::SumsAndOnce;
                let action = Action::OneShot { counts, seal: SEAL };
                Lowering::new(action, Gate::Once(SEAL), Layer::Own(SEAL))
            }
            (Some(why), _) if is_switched || self.removes || self.inserts => {
                self.gated(code, [why])
            }
            (Some(why), _) => {
                Lowering::new(self.call(code), Gate::Always(SEAL), Layer::Own(SEAL)).because([why])
            }
        }
    }

    /// The lowering by calls of its functions, each probe gated by its word.
    fn gated(&self, code: &Capabilities, why: impl IntoIterator<Item = Reason>) -> Lowering {
        let is_there = code.time != Time::Early;
        let is_wanted = is_there || self.is_toggled && code.patches;
        let layer =
            if is_wanted && !self.is_threaded { Layer::Apart(SEAL) } else { Layer::Own(SEAL) };
        let changes = self.is_limited || self.is_contained || self.removes || self.inserts;
        let gate = Gate::Word {
            is_budget: self.is_limited,
            is_patched: code.patches,
            is_pruned: changes && code.patches,
            seal: SEAL,
        };
        let threads = (is_wanted && self.is_threaded).then_some(Reason::Threads);
        Lowering::new(self.call(code), gate, layer).because(why.into_iter().chain(threads))
    }

    fn call(&self, code: &Capabilities) -> Action {
        match self.is_contained {
            true => Action::Host(SEAL),
            false => Action::Guest { is_inlined: code.inlines, seal: SEAL },
        }
    }

    /// Whether a user may switch its probes, and not only the monitor itself.
    fn is_switched_by_user(&self) -> bool {
        self.is_toggled || self.is_contained || self.is_limited
    }

    /// Why its effects cannot be computed from counts or one-shot probes.
    fn why_called(&self, code: &Capabilities) -> Option<Reason> {
        match &self.effects {
            _ if !code.inlines => Some(Reason::Direct),
            _ if self.inserts => Some(Reason::Inserts),
            _ if self.listens => Some(Reason::Listens),
            _ if self.is_contained => Some(Reason::Contained),
            _ if self.is_limited => Some(Reason::Limited),
            Effects::More(function) => Some(Reason::More(function.clone())),
            Effects::Ordered => Some(Reason::Ordered),
            _ => None,
        }
    }
}

/// How many probes of each kind a monitor has in the program's code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) one_shot: usize,
    pub(crate) inlined: usize,
    pub(crate) called: usize,
}

impl Census {
    /// The census of the draft so far.
    pub(crate) fn of(draft: &Draft) -> Self {
        let [one_shot, inlined, called] = draft.census();
        Self { one_shot, inlined, called }
    }

    /// The probes that were added since then.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            one_shot: self.one_shot - before.one_shot,
            inlined: self.inlined - before.inlined,
            called: self.called - before.called,
        }
    }
}

#[cfg(test)]
mod tests;
