//! `wasm-aot replay --summary`: how similar a replay is to the recorded run.
//!
//! The program with the trace as its host executes the recorded run; the replay runs separately,
//! both in code that counts. A function of the program has the same index and the same instructions
//! in both. Only after calls that an exit has unwound does a replay have some additional
//! instructions, which are left out here and counted as the host's.

use super::traces::Events;
use super::{Failure, Making, about};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use wasm_aot::instrument::module::Space;
use wasm_aot::instrument::runtime::{Counts, FunctionCounts};
use wasm_aot::replaying::{Divergence, HostFailed, TraceEnds, replay_instance};
use wasm_aot::trace::{Declared, Event, Generation, generate};
use wasm_aot::{AsContextMut as _, Error, Extern, Instance, Module, Store};
use wasm_aot_body::report::several;
use wasmparser::Operator;

/// The counts of one of the two runs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Executed {
    /// Counts by function and number of the instruction in it.
    instructions: BTreeMap<(u32, u32), u64>,
    opcodes: BTreeMap<&'static str, u64>,
    branches: BTreeMap<(u32, u32), Vec<u64>>,
    /// Instructions that are not the program's.
    host: u64,
    /// Sizes in pages of the program's memories at the end.
    pages: Vec<u64>,
}

/// A run of the program under its trace, and one of its replay.
#[derive(Debug)]
pub(super) struct Summary {
    record: Executed,
    replay: Executed,
    /// How many calls the program has made to its host, and their measured time.
    calls: u64,
    host_time: Option<Duration>,
    /// Bytes of the program, and of the replay.
    sizes: (usize, usize),
}

impl Summary {
    /// Runs both. `open` reads the trace from its beginning.
    pub(super) fn new(
        making: &Making,
        module: &[u8],
        trace: &Path,
        open: impl Fn() -> Result<Events, Failure>,
    ) -> Result<Self, Failure> {
        let failed = |error: wasm_aot::trace::Error| about(trace)(Error::host(error));
        let declared = Declared::read(module).map_err(failed)?;
        let bench = generate(module, open()?, Generation::default()).map_err(failed)?;
        let mut events = open()?;
        let is_call = |event: &Result<Event, _>| matches!(event, Ok(Event::Call { .. }));
        let calls = events.by_ref().filter(is_call).count() as u64;
        let host_time = events.host_time();
        let engine = making.engine()?.counting().map_err(about(trace))?;
        let load = |bytes: &[u8]| Module::new(&engine, bytes).map_err(about(trace));

        let original = load(module)?;
        let mut store = Store::new(&engine, ());
        let (instance, done) = replay_instance(&mut store, &original, open()?, None);
        ends(trace, done)?;
        let record = Executed::of(&declared, &original, &mut store, instance);

        let replayed = load(&bench)?;
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &replayed, &[]).map_err(about(trace))?;
        let start = instance.get_typed_func::<(), ()>(&mut store, "_start");
        let start = start.map_err(about(trace))?;
        // A trap of the program is a trap of the replay.
        match start.call(&mut store, ()) {
            Ok(()) | Err(Error::Trap(_) | Error::Exception(_)) => {}
            Err(error) => return Err(about(trace)(error)),
        }
        let replay = Executed::of(&declared, &replayed, &mut store, Some(instance));
        Ok(Self { record, replay, calls, host_time, sizes: (module.len(), bench.len()) })
    }

    /// Whether both have executed the same.
    pub(super) fn is_equal(&self) -> bool {
        let Self { record, replay, .. } = self;
        record.instructions == replay.instructions
            && record.branches == replay.branches
            && record.pages == replay.pages
    }

    /// Formats the summary.
    pub(super) fn text(&self) -> String {
        let Self { record, replay, .. } = self;
        let mut text = format!("{:<22}{:>16}{:>16}\n", "", "record", "replay");
        let mut line = |name: &str, one: u64, other: u64, differ: usize| {
            let equal = match (one == other, differ) {
                (true, 0) => "equal".to_owned(),
                (_, 0) => "differ".to_owned(),
                (_, differ) => format!("differ in {}", several(differ as u64, "place")),
            };
            let _ = writeln!(text, "{name:<22}{one:>16}{other:>16}  {equal}");
        };
        let sum = |executed: &Executed| executed.opcodes.values().sum();
        line("instructions", sum(record), sum(replay), 0);
        let kinds = |executed: &Executed| executed.opcodes.len() as u64;
        let differ = differences(&record.opcodes, &replay.opcodes);
        line("opcodes", kinds(record), kinds(replay), differ);
        let ways = |executed: &Executed| {
            executed.branches.values().flatten().filter(|count| **count > 0).count() as u64
        };
        let differ = differences(&record.branches, &replay.branches);
        line("ways of branches", ways(record), ways(replay), differ);
        let hot = |executed: &Executed| executed.instructions.len() as u64;
        let differ = differences(&record.instructions, &replay.instructions);
        line("places executed", hot(record), hot(replay), differ);
        for (memory, (one, other)) in record.pages.iter().zip(&replay.pages).enumerate() {
            line(&format!("pages of memory {memory}"), *one, *other, 0);
        }
        let (one, other) = self.sizes;
        let _ = writeln!(text, "{:<22}{one:>16}{other:>16}", "bytes of the module");
        let time = self.host_time.map_or("not measured".to_owned(), |time| format!("{time:.3?}"));
        let whole = sum(replay) + replay.host;
        let share = if whole == 0 { 0.0 } else { replay.host as f64 / whole as f64 * 100.0 };
        let _ = writeln!(
            text,
            "host: {}, {time}; instead the replay executes {}, {share:.3} % of its own",
            several(self.calls, "call"),
            several(replay.host, "instruction")
        );
        text
    }
}

/// Accepts every end of a run that can be recorded.
fn ends(trace: &Path, done: Result<(), Error>) -> Result<(), Failure> {
    match done {
        Ok(()) | Err(Error::Exit(_) | Error::Trap(_) | Error::Exception(_)) => Ok(()),
        Err(Error::Host(error)) if error.is::<HostFailed>() || error.is::<TraceEnds>() => Ok(()),
        Err(Error::Host(error)) if error.is::<Divergence>() => {
            Err(Failure::new(format!("{}: {error}: what differs has no summary", trace.display())))
        }
        Err(error) => Err(about(trace)(error)),
    }
}

/// Counts the places at which two differ.
fn differences<K: Ord, V: PartialEq>(one: &BTreeMap<K, V>, other: &BTreeMap<K, V>) -> usize {
    let gone = one.iter().filter(|(place, count)| other.get(place) != Some(count)).count();
    gone + other.keys().filter(|place| !one.contains_key(place)).count()
}

impl Executed {
    fn of(
        declared: &Declared,
        module: &Module,
        store: &mut Store<()>,
        instance: Option<Instance>,
    ) -> Self {
        let mut this = Self::default();
        if let Some(counts) = module.counts() {
            this.count(declared, &counts);
        }
        for memory in 0..declared.memories.len() as u32 {
            let mut context = store.as_context_mut();
            let item = instance.and_then(|own| own.item_at(context.core(), Space::Memory, memory));
            if let Some(Extern::Memory(memory)) = item {
                this.pages.push(memory.size(&mut context).unwrap_or_default());
            }
        }
        this
    }

    fn count(&mut self, declared: &Declared, counts: &Counts) {
        let own = declared.imports.len() as u32..declared.functions();
        for function in counts.functions() {
            if own.contains(&function.index()) {
                self.add(&function, declared.globals.len() as u32);
            } else {
                self.host += function.instructions().iter().map(|each| each.count).sum::<u64>();
            }
        }
    }

    /// Adds a function of the program. `exited` is a global that the program's module does not
    /// have.
    fn add(&mut self, function: &FunctionCounts<'_>, exited: u32) {
        let index = function.index();
        let mut numbers = BTreeMap::new();
        let (mut number, mut is_ours) = (0, false);
        for instruction in function.instructions() {
            let count = instruction.count;
            // The code of a replay after calls begins with that global, and is one `if`.
            is_ours |= matches!(
                instruction.operator,
                Operator::GlobalGet { global_index } if global_index == exited
            );
            if is_ours {
                self.host += count;
                is_ours = !matches!(instruction.operator, Operator::End);
                continue;
            }
            numbers.insert(instruction.offset, number);
            if count > 0 {
                self.instructions.insert((index, number), count);
                *self.opcodes.entry(instruction.mnemonic).or_default() += count;
            }
            number += 1;
        }
        for branch in function.branches() {
            let Some(number) = numbers.get(&branch.offset) else { continue };
            if branch.count() > 0 {
                self.branches.insert((index, *number), branch.ways);
            }
        }
    }
}
