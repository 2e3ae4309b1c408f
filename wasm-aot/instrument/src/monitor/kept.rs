//! Writes a tree of calling contexts as a profile for `fastinst report`: functions with calls and
//! times, arcs, and stacks.
//!
//! The monitors `latency`, `functions` and `calls` write their data in the same form
//! ([`ProfileFile`]).
//!
//! A function's total is that of its outermost activations. Of a function that was only counted no
//! times are known; of one that was in some contexts, times are bounds. Times are wall-clock times;
//! where they exceed the CPU time, the profile is reconciled with the CPU time, as those of native
//! programs are.

use super::context_table::Table;
use super::flame::DEEPEST;
use profiler::{
    Arc, ClockEvidence, Figure, FuncId, Function, Header, How, Label, Module, Packing, Policy,
    Profile, Spent, Stack, Timed,
};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::time::{Duration, Instant};
use wordpatch::os::clocks;
use wordpatch::os::replace::overwrite;

/// The description of a run, in a profile.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// The program's name.
    pub(super) program: String,
    /// The CPU time.
    pub(super) processor: Duration,
}

/// The observed program and time: the program's name, if it was given, and when observation began.
#[derive(Clone, Debug)]
pub(super) struct ObservedSpan {
    program: Option<std::sync::Arc<str>>,
    begun: Instant,
    worked: Duration,
}

impl ObservedSpan {
    /// Begins now.
    pub(super) fn begin(program: Option<std::sync::Arc<str>>) -> Self {
        Self { program, begun: Instant::now(), worked: clocks::of_process() }
    }

    /// Completes the header and the modules of a profile that has its functions. If the program's
    /// name was not given, the module's name is used.
    pub(super) fn complete(&self, module: Option<&str>, mut profile: Profile) -> Profile {
        let program = self.program.as_deref().or(module).unwrap_or(NAMELESS).to_owned();
        let processor = clocks::of_process().saturating_sub(self.worked);
        let seconds = self.begun.elapsed().as_secs_f64();
        let Profile { header, modules, .. } = &mut profile;
        header.command = vec![program.clone()];
        header.process = std::process::id() as i32;
        header.processes = 1;
        header.machine = MACHINE.to_owned();
        header.seconds = if header.seconds > 0.0 { header.seconds } else { seconds };
        header.processor = processor.as_secs_f64();
        *modules = vec![Module { path: program, build_id: String::new() }];
        profile
    }
}

/// The file that a monitor's profile is written to.
#[derive(Clone, Debug)]
pub(super) struct ProfileFile {
    file: std::sync::Arc<File>,
    observed_span: ObservedSpan,
}

impl ProfileFile {
    /// A file that was opened just now.
    pub(super) fn new(file: File, observed_span: ObservedSpan) -> Self {
        Self { file: file.into(), observed_span }
    }

    /// Writes a profile that has its functions.
    pub(super) fn write(&self, module: Option<&str>, profile: Profile) -> std::io::Result<()> {
        self.write_whole(&self.observed_span.complete(module, profile))
    }

    /// Writes a profile with its header.
    pub(super) fn write_whole(&self, profile: &Profile) -> std::io::Result<()> {
        overwrite(&self.file, &profile.to_bytes(Packing::Deflated))
    }
}

/// The machine that a profile names.
const MACHINE: &str = "wasm-aot";
/// The name of a program without a name.
pub(super) const NAMELESS: &str = "wasm";

/// A function of the module, which is the profile's first: its number is its index and one.
pub(super) fn label_of(name: String, index: u32, source: &str) -> Label {
    let place = source
        .rsplit_once(':')
        .and_then(|(file, line)| Some((file.to_owned(), line.parse().ok()?)));
    let (file, line) = place.unzip();
    Label { name, module: Some(0), offset: u64::from(index) + 1, file, line }
}

/// What is known of a function: calls, ticks of its own, and in all of its outermost activations,
/// and whether calls were only counted.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    calls: u64,
    own: u64,
    total: u64,
    is_counted: bool,
}

/// Sums of functions, and of pairs of caller and callee; 0 is outside, others are a function's
/// index and one.
#[derive(Debug, Default)]
struct Graph {
    functions: BTreeMap<u32, Sums>,
    /// By callee, then by caller.
    arcs: BTreeMap<u32, BTreeMap<u32, Sums>>,
}

impl Table {
    /// The file of the profile.
    pub(super) fn kept(&self, run: &Run) -> Vec<u8> {
        self.profile(run).to_bytes(Packing::Deflated)
    }

    /// The profile in the form of `fastinst report`.
    pub(super) fn profile(&self, run: &Run) -> Profile {
        let graph = self.graph();
        let wall = self.total[0] as f64 / self.hz;
        let processor = run.processor.as_secs_f64().min(wall);
        let header = Header {
            command: vec![run.program.clone()],
            process: std::process::id() as i32,
            processes: 1,
            seconds: wall,
            processor,
            policy: Policy::Exact.to_string(),
            hz: self.hz,
            step: 1,
            machine: MACHINE.to_owned(),
            pair: 2.0 * self.reading as f64,
            spent: Spent { samples: self.timed(), ..Spent::default() },
            ..Header::default()
        };
        let functions = graph.functions.iter().map(|(id, sums)| self.function(*id, sums, &graph));
        let positions: HashMap<u32, u32> = graph.functions.keys().copied().zip(0..).collect();
        let mut profile = Profile {
            header,
            modules: vec![Module { path: run.program.clone(), build_id: String::new() }],
            functions: functions.collect(),
            stacks: self.stacks(&positions),
        };
        profile.reconcile(&ClockEvidence::default());
        // Reconciling without evidence on stacks has removed them.
        profile.stacks = self.stacks(&positions);
        profile
    }

    /// Sums by function and by arc. Contexts are visited before those below them.
    fn graph(&self) -> Graph {
        let mut graph = Graph::default();
        let mut way: Vec<u32> = Vec::new();
        let mut active: HashMap<u32, u32> = HashMap::new();
        for &at in &self.order {
            let context = &self.sum.contexts[at];
            while way.len() >= context.depth as usize {
                let left = way.pop().unwrap_or_default();
                *active.entry(left).or_default() -= 1;
            }
            let (caller, id) = (way.last().copied().unwrap_or(0), context.function + 1);
            let is_outermost = active.get(&id).is_none_or(|times| *times == 0);
            let total = if is_outermost { self.total[at] } else { 0 };
            let sums = [
                graph.functions.entry(id).or_default(),
                graph.arcs.entry(id).or_default().entry(caller).or_default(),
            ];
            for sum in sums {
                sum.calls += context.calls;
                sum.own += context.own;
                sum.total += total;
                sum.is_counted |= context.is_counted;
            }
            way.push(id);
            *active.entry(id).or_default() += 1;
        }
        graph
    }

    fn label(&self, id: u32) -> Label {
        label_of(self.labels.name(id - 1).to_owned(), id - 1, self.labels.source(id - 1))
    }

    fn function(&self, id: u32, sums: &Sums, graph: &Graph) -> Function {
        let time = |ticks: u64| ticks as f64 / self.hz * 1e9;
        let all = time(self.total[0]);
        let is_known = !sums.is_counted || sums.total > 0;
        let told = |ticks: u64| {
            let value = time(ticks);
            let how = match sums.is_counted {
                true => How::Estimated { lo: value, hi: all.max(value) },
                false => How::Exact,
            };
            is_known.then_some(Figure { value, how })
        };
        let calls = sums.calls.max(1) as f64;
        let mean = (!sums.is_counted).then(|| Figure::exact(time(sums.total) / calls));
        let timed = match mean {
            Some(_) => {
                Timed { seen: time(sums.total), mean, total: told(sums.total), own: told(sums.own) }
            }
            None => Timed::default(),
        };
        let arcs = graph.arcs.get(&id).into_iter().flatten();
        Function {
            samples: sums.calls,
            mean,
            total: told(sums.total),
            own: told(sums.own),
            wall: told(sums.total),
            timed,
            arcs: arcs
                .map(|(caller, arc)| Arc {
                    site: (*caller).into(),
                    samples: arc.calls,
                    share: match sums.total {
                        0 => arc.calls as f64 / calls,
                        total => arc.total as f64 / total as f64,
                    },
                    caller: (*caller != 0).then(|| self.label(*caller)),
                })
                .collect(),
            ..Function::counted(FuncId(id), self.label(id), sums.calls)
        }
    }

    fn stacks(&self, positions: &HashMap<u32, u32>) -> Vec<Stack> {
        let stack = |at: usize| {
            let context = &self.sum.contexts[at];
            let way = self.sum.way(at, DEEPEST as usize);
            let frames = way.iter().filter_map(|function| positions.get(&(function + 1)));
            Stack {
                frames: frames.copied().collect(),
                time: context.own as f64 / self.hz * 1e9,
                samples: context.calls,
            }
        };
        let timed = self.order.iter().filter(|at| self.sum.contexts[**at].own > 0);
        timed.map(|at| stack(*at)).collect()
    }
}
