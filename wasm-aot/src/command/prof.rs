//! The host interface `prof`, of programs that were rewritten to report callers and callees, how
//! often and for how long (`whamm profile --host-api prof`).
//!
//! Each instance has its own arcs. Their sums are printed in the form of gprof, when the program
//! requests it, or at its end if it has not.

use super::modules::World;
use parking_lot::Mutex;
use profiler::{Arc as ProfileArc, ClockSource, Figure, FuncId, Function, Header, Label, Profile};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;
use wasm_aot::{Caller, Error, Linker, Module};

/// The module's name.
const PROF: &str = "prof";
/// The section with numbers and names of functions that `whamm profile` writes.
const NAMES: &str = "fastinst:functions";

/// Calls and milliseconds: what was set, and what was added since.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    set: (u64, f64),
    added: (u64, f64),
}

/// Arcs of an instance, by caller and callee: a function's index and one, 0 for the host.
type Arcs = BTreeMap<(u32, u32), Told>;

/// The reports of a program's threads.
#[derive(Debug)]
struct All {
    instances: Vec<Arcs>,
    is_printed: bool,
}

/// The reports of one thread.
#[derive(Clone, Debug)]
pub(crate) struct Prof {
    begun: Instant,
    all: Arc<Mutex<All>>,
    instance: usize,
    /// Names of functions, by their numbers in arcs.
    names: Arc<BTreeMap<u32, String>>,
}

impl Default for Prof {
    fn default() -> Self {
        let all = All { instances: vec![Arcs::new()], is_printed: false };
        Self {
            begun: Instant::now(),
            all: Arc::new(Mutex::new(all)),
            instance: 0,
            names: Arc::default(),
        }
    }
}

impl Prof {
    /// Creates the profile of a program: a section has its functions' names, a line each. Without
    /// the section the numbers are the rewriter's, so that no name would be certain.
    pub(crate) fn new(module: &Module) -> Self {
        let inner = module.inner();
        let section = inner.info.custom_section(&inner.bytes, NAMES).unwrap_or_default();
        let text = String::from_utf8_lossy(section);
        let named = |line: &str| {
            let (number, name) = line.split_once(' ')?;
            Some((number.parse().ok()?, name.to_owned()))
        };
        Self { names: Arc::new(text.lines().filter_map(named).collect()), ..Self::default() }
    }

    /// Creates a profile for another instance of the program.
    pub(crate) fn for_thread(&self) -> Self {
        let mut all = self.all.lock();
        all.instances.push(Arcs::new());
        Self { instance: all.instances.len() - 1, ..self.clone() }
    }

    fn with_arcs(&self, change: impl FnOnce(&mut Arcs)) {
        change(&mut self.all.lock().instances[self.instance]);
    }

    /// Prints what has been reported, unless the program has done so.
    pub(crate) fn end(&self) {
        let is_new = {
            let all = self.all.lock();
            !all.is_printed && all.instances.iter().any(|arcs| !arcs.is_empty())
        };
        if is_new {
            say(&self.report());
        }
    }

    fn report(&self) -> String {
        let mut sums: BTreeMap<(u32, u32), (u64, f64)> = BTreeMap::new();
        let mut all = self.all.lock();
        all.is_printed = true;
        for (arc, told) in all.instances.iter().flatten() {
            let sum = sums.entry(*arc).or_default();
            sum.0 += told.set.0 + told.added.0;
            sum.1 += time(told.set.1) + time(told.added.1);
        }
        drop(all);
        // No arcs to the host are reported.
        sums.retain(|(_, callee), (calls, _)| *calls > 0 && *callee != 0);
        self.profile(&sums).gprof()
    }

    fn label(&self, id: u32) -> Label {
        let name = self.names.get(&id).cloned();
        let name = name.unwrap_or_else(|| format!("function {}", id - 1));
        Label { name, module: None, offset: id.into(), file: None, line: None }
    }

    /// A function's own time is the sum of its incoming arcs less that of its outgoing arcs.
    fn profile(&self, sums: &BTreeMap<(u32, u32), (u64, f64)>) -> Profile {
        let ids: BTreeSet<u32> = sums.keys().map(|(_, callee)| *callee).collect();
        let whole: f64 =
            sums.iter().filter(|((from, _), _)| *from == 0).map(|(_, arc)| arc.1).sum();
        let functions = ids.into_iter().map(|id| {
            let into = || sums.iter().filter(move |((_, callee), _)| *callee == id);
            let out: f64 =
                sums.iter().filter(|((from, _), _)| *from == id).map(|(_, arc)| arc.1).sum();
            let calls: u64 = into().map(|(_, arc)| arc.0).sum();
            let all: f64 = into().map(|(_, arc)| arc.1).sum();
            // The time of recursive calls is included in the outermost call already.
            let total = into().filter(|((from, _), _)| *from != id).map(|(_, arc)| arc.1).sum();
            let arcs = into().map(|((caller, _), arc)| ProfileArc {
                site: (*caller).into(),
                samples: arc.0,
                share: if all > 0.0 { arc.1 / all } else { 0.0 },
                caller: (*caller != 0).then(|| self.label(*caller)),
            });
            Function {
                samples: calls,
                total: Some(Figure::exact(f64::min(total, whole))),
                own: Some(Figure::exact((all - out).max(0.0))),
                arcs: arcs.collect(),
                ..Function::counted(FuncId(id), self.label(id), calls)
            }
        });
        let (clock, hz) = (ClockSource::Probes, 1e9);
        let header = Header { clock, hz, wall: true, ..Header::default() };
        Profile { header, modules: Vec::new(), functions: functions.collect(), stacks: Vec::new() }
    }
}

/// Prints to stderr, if there is one.
fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Converts the program's milliseconds to nanoseconds.
fn time(milliseconds: f64) -> f64 {
    if milliseconds.is_finite() { milliseconds.max(0.0) * 1e6 } else { 0.0 }
}

/// Defines the module.
pub(crate) fn add_to_linker(linker: &mut Linker<World>) -> Result<(), Error> {
    type Host<'a> = Caller<'a, World>;
    let now = |caller: Host<'_>| caller.data().prof.begun.elapsed().as_secs_f64() * 1e3;
    let clear = |caller: Host<'_>| caller.data().prof.with_arcs(Arcs::clear);
    let set = |caller: Host<'_>, from: i32, to: i32, calls: i32, time: f64| {
        let key = (from.cast_unsigned(), to.cast_unsigned());
        let told = (calls.cast_unsigned().into(), time);
        caller.data().prof.with_arcs(|arcs| arcs.entry(key).or_default().set = told);
    };
    let add = |caller: Host<'_>, from: i32, to: i32, calls: i32, time: f64| {
        let key = (from.cast_unsigned(), to.cast_unsigned());
        caller.data().prof.with_arcs(|arcs| {
            let added = &mut arcs.entry(key).or_default().added;
            added.0 += u64::from(calls.cast_unsigned());
            added.1 += time;
        });
    };
    let print = |caller: Host<'_>| say(&caller.data().prof.report());
    linker.func_wrap(PROF, "getTime", now)?;
    linker.func_wrap(PROF, "clearResults", clear)?;
    linker.func_wrap(PROF, "setArcData", set)?;
    linker.func_wrap(PROF, "addArcData", add)?;
    linker.func_wrap(PROF, "printResults", print)?;
    linker.func_wrap(PROF, "printInt", |_: Host<'_>, number: i32| say(&format!("{number}\n")))?;
    Ok(())
}
