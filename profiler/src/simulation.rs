//! Simulation: replays a complete trace of a program against a policy.
//!
//! The player behaves like probes: it counts, samples, retires, and passes to a [`Controller`] the
//! observations that its agent would have made, at the times at which the agent would have made
//! them. It also keeps the true values. So a policy's error is known call by call, and the effects
//! of measuring on a program do not affect the comparison.
//!
//! A trace is a sequence of records of 16 bytes, in the order of time: the thread, the function
//! with the highest bit set for an exit, and the counter.

use crate::{
    Clock, Controller, Costs, Draw, FuncId, Mode, Policy, Probes, Profile, Rest, Sample, Skip,
    Ticks,
};
use std::collections::{BTreeMap, HashMap};

/// The size of a record.
pub const RECORD: usize = 16;
const EXIT: u32 = 1 << 31;

/// The entry or the exit of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The thread.
    pub thread: u32,
    /// The function, from one on.
    pub function: FuncId,
    /// Whether it is the exit.
    pub is_exit: bool,
    /// The time.
    pub at: Ticks,
}

impl Event {
    /// The bytes of the event in a trace.
    pub fn to_bytes(self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[..4].copy_from_slice(&self.thread.to_le_bytes());
        let function = self.function.0 | if self.is_exit { EXIT } else { 0 };
        bytes[4..8].copy_from_slice(&function.to_le_bytes());
        bytes[8..].copy_from_slice(&self.at.0.to_le_bytes());
        bytes
    }

    /// Reads an event of a trace.
    pub fn from_bytes(bytes: [u8; RECORD]) -> Self {
        let [a, b, c, d, e, f, g, h, at @ ..] = bytes;
        let function = u32::from_le_bytes([e, f, g, h]);
        Self {
            thread: u32::from_le_bytes([a, b, c, d]),
            function: FuncId(function & !EXIT),
            is_exit: function & EXIT != 0,
            at: Ticks(u64::from_le_bytes(at)),
        }
    }
}

/// The true values of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Truth {
    /// The number of its calls.
    pub calls: u64,
    /// The number of these calls that ended.
    pub ended: u64,
    /// Their total duration, in ticks.
    pub ticks: f64,
}

/// The result of a policy.
#[derive(Debug)]
pub struct Outcome {
    /// Its profile.
    pub profile: Profile,
    /// The true values.
    pub truth: BTreeMap<FuncId, Truth>,
    /// The cost of probes and switching, in ticks, from the given costs.
    pub cost: f64,
    /// The length of the trace.
    pub span: Ticks,
    /// The number of mode changes of functions.
    pub switched: u64,
    /// Timed calls.
    pub samples: u64,
}

/// The shortest and the longest interval of the agent, in seconds.
const LOOKS: (f64, f64) = (0.001, 0.25);

/// Plays a trace against a policy.
pub fn play(
    events: impl Iterator<Item = Event>,
    policy: Policy,
    clock: Clock,
    costs: Costs,
    seed: u64,
) -> Outcome {
    let mut events = events.peekable();
    let began = events.peek().map_or(Ticks(0), |event| event.at);
    let controller = Controller::new(policy, clock, costs, seed, began);
    let world = World { probes: Vec::new(), now: began, switched: 0, chance: seed | 1 };
    let mut player = Player {
        controller,
        world,
        costs,
        threads: HashMap::new(),
        truth: Vec::new(),
        seen: Vec::new(),
        cost: 0.0,
        samples: 0,
    };
    let (soonest, latest) = (clock.ticks(LOOKS.0).0, clock.ticks(LOOKS.1).0);
    let mut look = Ticks(began.0 + soonest);
    for event in events {
        while event.at >= look {
            let next = player.look(look);
            look = Ticks(next.0.clamp(look.0 + soonest, look.0 + latest));
        }
        player.event(event);
    }
    let end = player.world.now;
    player.look(end);
    player.outcome(began, end)
}

/// The probes of one function.
#[derive(Clone, Copy, Debug)]
struct Probe {
    mode: Mode,
    /// Its behaviour since it has retired.
    rest: Option<Rest>,
    /// The number of its term (sampling window), and the beginning of that.
    term: u32,
    armed: Ticks,
    /// The number of open calls.
    open: u32,
    known: bool,
}

struct World {
    probes: Vec<Probe>,
    now: Ticks,
    switched: u64,
    chance: u64,
}

impl World {
    fn probe(&mut self, function: FuncId) -> &mut Probe {
        let at = function.0 as usize;
        if at >= self.probes.len() {
            let blank = Probe {
                mode: Mode::Count,
                rest: None,
                term: 0,
                armed: Ticks(0),
                open: 0,
                known: false,
            };
            self.probes.resize(at + 1, blank);
        }
        &mut self.probes[at]
    }

    /// The number of calls to skip before the next.
    fn skip(&mut self, draw: &Draw) -> u32 {
        let Skip::Geometric { mean } = draw.skip else { return 0 };
        self.chance =
            self.chance.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let uniform = ((self.chance >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        (uniform.ln() / (mean / (mean + 1.0)).ln()).floor() as u32
    }
}

impl Probes for World {
    fn set(&mut self, function: FuncId, mode: Mode) {
        let now = self.now;
        let probe = self.probe(function);
        *probe = Probe { mode, rest: None, term: probe.term + 1, armed: now, open: 0, known: true };
        self.switched += 1;
    }
}

/// An open call.
#[derive(Clone, Copy, Debug)]
struct Frame {
    function: FuncId,
    entered: Ticks,
    /// The term in which it is timed, and the thread's number of finished timed calls at its
    /// beginning.
    timed: Option<(u32, u32)>,
    children: u64,
}

/// A thread's state for a function: the term, the calls to skip, the calls to time.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    term: u32,
    skip: u32,
    left: u32,
}

#[derive(Debug, Default)]
struct Thread {
    frames: Vec<Frame>,
    records: Vec<Record>,
    /// The number of timed calls that have ended.
    finished: u32,
}

struct Player {
    controller: Controller,
    world: World,
    costs: Costs,
    threads: HashMap<u32, Thread>,
    truth: Vec<Truth>,
    /// Entries that were counted since the agent's latest look.
    seen: Vec<u64>,
    cost: f64,
    samples: u64,
}

impl Player {
    /// Renews each thread's quota of functions whose quota is ample, as the agent does.
    fn refill(&mut self) {
        for (at, probe) in self.world.probes.iter().enumerate() {
            let Mode::Sample(draw) = probe.mode else { continue };
            let records = self.threads.values_mut().filter_map(|thread| thread.records.get_mut(at));
            let used = records.filter(|record| {
                draw.is_refilled() && record.term == probe.term && record.left > 0
            });
            used.for_each(|record| record.left = draw.quota);
        }
    }

    fn look(&mut self, now: Ticks) -> Ticks {
        self.world.now = now;
        for (at, seen) in self.seen.iter_mut().enumerate().filter(|(_, seen)| **seen > 0) {
            self.controller.entered(FuncId(at as u32), std::mem::take(seen));
        }
        self.refill();
        self.controller.tick(now, &mut self.world)
    }

    fn event(&mut self, event: Event) {
        self.world.now = event.at;
        let at = event.function.0 as usize;
        if at >= self.truth.len() {
            self.truth.resize(at + 1, Truth::default());
            self.seen.resize(at + 1, 0);
        }
        if !self.world.probe(event.function).known {
            self.controller.discovered(event.function, 2);
            self.controller.first(&mut self.world);
        }
        let mut thread = self.threads.remove(&event.thread).unwrap_or_default();
        if event.is_exit {
            self.exit(event, &mut thread);
        } else {
            self.enter(event, &mut thread);
        }
        self.threads.insert(event.thread, thread);
    }

    fn enter(&mut self, event: Event, thread: &mut Thread) {
        let at = event.function.0 as usize;
        self.truth[at].calls += 1;
        let probe = *self.world.probe(event.function);
        let counts = probe.rest.map_or(probe.mode != Mode::Off, |rest| rest == Rest::Count);
        self.seen[at] += u64::from(counts);
        let mut timed = None;
        if let (None, Mode::Sample(draw)) = (probe.rest, probe.mode) {
            if at >= thread.records.len() {
                thread.records.resize(at + 1, Record::default());
            }
            if thread.records[at].term != probe.term {
                thread.records[at] =
                    Record { term: probe.term, skip: self.world.skip(&draw), left: draw.quota };
            }
            let record = &mut thread.records[at];
            if record.left == 0 || record.skip > 0 {
                record.skip = record.skip.saturating_sub(1);
                self.cost += self.costs.skip;
            } else {
                if draw.quota != u32::MAX {
                    record.left -= 1;
                }
                record.skip = self.world.skip(&draw);
                self.world.probe(event.function).open += 1;
                self.cost += self.costs.pair;
                timed = Some((probe.term, thread.finished));
            }
        } else if counts {
            self.cost += self.costs.count;
        }
        thread.frames.push(Frame {
            function: event.function,
            entered: event.at,
            timed,
            children: 0,
        });
    }

    fn exit(&mut self, event: Event, thread: &mut Thread) {
        // The frames above it were left by an exception or a jump.
        let Some(found) = thread.frames.iter().rposition(|frame| frame.function == event.function)
        else {
            return;
        };
        thread.frames.drain(found + 1..).for_each(|frame| self.world.abandon(&frame));
        let Some(frame) = thread.frames.pop() else { return };
        let ticks = event.at.since(frame.entered).0;
        let truth = &mut self.truth[event.function.0 as usize];
        truth.ended += 1;
        truth.ticks += ticks as f64;
        let Some((term, finished)) = frame.timed else { return };
        if self.world.probe(event.function).term != term {
            return;
        }
        let nested = thread.finished.wrapping_sub(finished);
        // The duration as it would have been measured.
        let measured =
            ticks + (self.costs.bias + f64::from(nested) * self.costs.pair).round() as u64;
        if let Some(parent) = thread.frames.iter_mut().rfind(|frame| frame.timed.is_some()) {
            parent.children += measured;
        }
        thread.finished = thread.finished.wrapping_add(1);
        self.samples += 1;
        // The simulation has no return addresses, so the caller represents all of its sites.
        let call_site = thread.frames.last().map_or(0, |frame| frame.function.0.into());
        let outermost = !thread
            .frames
            .iter()
            .any(|open| open.function == event.function && open.timed.is_some());
        let (function, children) = (event.function, frame.children);
        self.controller.sample(&Sample {
            function,
            call_site,
            ticks: measured,
            nested,
            children,
            outermost,
        });
        let left = thread.records.get(event.function.0 as usize).map_or(0, |record| record.left);
        let probe = self.world.probe(event.function);
        probe.open -= 1;
        if let (0, 0, Mode::Sample(draw)) = (left, probe.open, probe.mode) {
            probe.rest = Some(draw.then);
            let armed = probe.armed;
            self.controller.retired(event.function, armed, event.at);
        }
    }

    fn outcome(self, began: Ticks, end: Ticks) -> Outcome {
        let truth = self.truth.into_iter().enumerate().filter(|(_, truth)| truth.calls > 0);
        Outcome {
            profile: self.controller.profile(end),
            truth: truth.map(|(at, truth)| (FuncId(at as u32), truth)).collect(),
            cost: self.cost + self.world.switched as f64 * self.costs.toggle / 2.0,
            span: end.since(began),
            switched: self.world.switched,
            samples: self.samples,
        }
    }
}

impl World {
    /// Removes a frame whose call never ended.
    fn abandon(&mut self, frame: &Frame) {
        let probe = self.probe(frame.function);
        if frame.timed.is_some_and(|(term, _)| term == probe.term) {
            probe.open = probe.open.saturating_sub(1);
        }
    }
}

impl std::fmt::Debug for Player {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Player").field("samples", &self.samples).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One thread: f calls g three times, repeatedly.
    fn trace(rounds: u64) -> Vec<Event> {
        let mut events = Vec::new();
        let mut at = 1_000;
        let mut event = |function, is_exit, after: u64| {
            at += after;
            events.push(Event { thread: 7, function: FuncId(function), is_exit, at: Ticks(at) });
        };
        for round in 0..rounds {
            event(1, false, 500);
            for _ in 0..3 {
                event(2, false, 100);
                event(2, true, 200 + round % 3);
            }
            event(1, true, 100);
        }
        events
    }

    const COSTS: Costs = Costs { pair: 50.0, bias: 26.0, count: 3.0, toggle: 500.0, skip: 4.0 };
    const CLOCK: Clock = Clock { hz: 1e9, step: 1 };

    #[test]
    fn a_record_is_what_was_written() {
        for event in trace(2) {
            assert_eq!(Event::from_bytes(event.to_bytes()), event);
        }
    }

    #[test]
    fn a_complete_policy_finds_the_truth() {
        let outcome = play(trace(1000).into_iter(), Policy::Exact, CLOCK, COSTS, 1);
        assert_eq!(outcome.samples, 4000);
        for function in &outcome.profile.functions {
            let truth = outcome.truth[&function.id];
            assert_eq!(function.calls.value, truth.calls as f64);
            let mean = function.mean.unwrap().value;
            assert!((mean - truth.ticks / truth.ended as f64).abs() < 0.5, "{mean} {truth:?}");
        }
    }

    #[test]
    fn the_default_policy_stays_within_its_budget_and_near_the_truth() {
        let outcome = play(trace(400_000).into_iter(), Policy::default(), CLOCK, COSTS, 1);
        assert!(
            outcome.cost < 0.05 * outcome.span.0 as f64,
            "{} of {}",
            outcome.cost,
            outcome.span.0
        );
        for function in &outcome.profile.functions {
            let truth = outcome.truth[&function.id];
            let mean = function.mean.unwrap().value;
            assert!(
                (mean / (truth.ticks / truth.ended as f64) - 1.0).abs() < 0.05,
                "{mean} {truth:?}"
            );
            assert!(
                (function.calls.value / truth.calls as f64 - 1.0).abs() < 0.2,
                "{:?} {truth:?}",
                function.calls
            );
        }
    }

    #[test]
    fn calls_that_are_left_by_a_jump_close_nothing_else() {
        let event = |function, is_exit, at| Event {
            thread: 1,
            function: FuncId(function),
            is_exit,
            at: Ticks(at),
        };
        // 1 calls 2, which calls 3; the exits of 2 and 3 never come.
        let events = [
            event(1, false, 10),
            event(2, false, 20),
            event(3, false, 30),
            event(1, true, 1010),
            event(2, true, 1020),
        ];
        let outcome = play(events.into_iter(), Policy::Exact, CLOCK, COSTS, 1);
        assert_eq!(
            (outcome.samples, outcome.truth[&FuncId(1)].ticks, outcome.truth[&FuncId(2)].ended),
            (1, 1000.0, 0)
        );
    }
}
