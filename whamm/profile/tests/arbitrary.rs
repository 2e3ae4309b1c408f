//! Arbitrary programs: their profiles are equal to the results of an interpreter of their scripts,
//! which knows neither bytecode nor nodes, and executes them with its own stack.

mod host;

use arbtest::arbitrary::{self, Unstructured};
use host::Running;
use profiler::Profile;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use whamm_profile::{Clock, Options, profile};

/// The statements of a function.
#[derive(Clone, Debug)]
enum Step {
    /// Calls a function by its number.
    Call(usize),
    /// Calls the function in the table.
    Indirect(usize),
    /// Stores a reference in the table, and calls it there.
    Reference(usize),
    /// Makes the host call a function back.
    Back(usize),
    /// Calls the host's `work` from the table with a duration.
    WorkIndirect(u8),
    /// Calls the host's `work`.
    Work(u8),
    /// Repeats steps.
    Repeat(u8, Vec<Step>),
    /// Tail-calls another function.
    Tail(usize),
    TailIndirect(usize),
    TailReference(usize),
    TailWork(u8),
    Return,
    Trap,
}

/// Functions, and those that the host calls.
#[derive(Clone, Debug)]
struct Script {
    functions: Vec<Vec<Step>>,
    calls: Vec<usize>,
    /// The number of calls that execute steps; later calls return at once.
    fuel: u32,
}

impl Script {
    fn new(u: &mut Unstructured<'_>) -> arbitrary::Result<Self> {
        let count = u.int_in_range(1..=8)?;
        let functions = (0..count).map(|_| steps(u, count, 2)).collect::<Result<_, _>>()?;
        let calls = (0..u.int_in_range(1..=4)?).map(|_| u.choose_index(count));
        Ok(Self {
            functions,
            calls: calls.collect::<Result<_, _>>()?,
            fuel: u.int_in_range(1..=60)?,
        })
    }

    /// The script as a module, in text.
    fn text(&self) -> String {
        let mut text = String::from(
            "(module (type $f (func)) (type $w (func (param i32)))
            (import \"host\" \"back\" (func $back (param i32)))
            (import \"host\" \"work\" (func $work (type $w)))
            (memory (export \"memory\") 1) (global $fuel (mut i32) (i32.const ",
        );
        let _ = write!(text, "{}))\n(table funcref (elem", self.fuel);
        (0..self.functions.len()).for_each(|f| text += &format!(" $f{f}"));
        text += " $work $work))\n";
        for (f, steps) in self.functions.iter().enumerate() {
            let _ = write!(
                text,
                "(func $f{f} (export \"f{f}\")
                (if (i32.eqz (global.get $fuel)) (then (return)))
                (global.set $fuel (i32.sub (global.get $fuel) (i32.const 1)))\n"
            );
            self.write(steps, &mut text);
            text += ")\n";
        }
        text + ")"
    }

    fn write(&self, steps: &[Step], text: &mut String) {
        let table = self.functions.len();
        let other = table + 1;
        for step in steps {
            let _ = match step {
                Step::Call(f) => writeln!(text, "(call $f{f})"),
                Step::Indirect(f) => writeln!(text, "(call_indirect (type $f) (i32.const {f}))"),
                Step::Reference(f) => writeln!(
                    text,
                    "(table.set (i32.const {other}) (ref.func $f{f}))
                    (call_indirect (type $f) (i32.const {other}))"
                ),
                Step::Back(f) => writeln!(text, "(call $back (i32.const {f}))"),
                Step::Work(n) => writeln!(text, "(call $work (i32.const {n}))"),
                Step::WorkIndirect(n) => {
                    writeln!(text, "(call_indirect (type $w) (i32.const {n}) (i32.const {table}))")
                }
                Step::Repeat(n, steps) => {
                    for _ in 0..*n {
                        self.write(steps, text);
                    }
                    Ok(())
                }
                Step::Tail(f) => writeln!(text, "(return_call $f{f})"),
                Step::TailIndirect(f) => {
                    writeln!(text, "(return_call_indirect (type $f) (i32.const {f}))")
                }
                Step::TailReference(f) => writeln!(
                    text,
                    "(table.set (i32.const {other}) (ref.func $f{f}))
                    (return_call_indirect (type $f) (i32.const {other}))"
                ),
                Step::TailWork(n) => writeln!(text, "(return_call $work (i32.const {n}))"),
                Step::Return => writeln!(text, "(return)"),
                Step::Trap => writeln!(text, "(unreachable)"),
            };
        }
    }
}

fn steps(u: &mut Unstructured<'_>, functions: usize, depth: u8) -> arbitrary::Result<Vec<Step>> {
    let count = u.int_in_range(0..=4)?;
    (0..count).map(|_| step(u, functions, depth)).collect()
}

fn step(u: &mut Unstructured<'_>, functions: usize, depth: u8) -> arbitrary::Result<Step> {
    let f = u.choose_index(functions)?;
    let n = u.int_in_range(0..=100)?;
    Ok(match u.int_in_range(0..=15)? {
        0..=2 => Step::Call(f),
        3 => Step::Indirect(f),
        4 => Step::Reference(f),
        5 => Step::Back(f),
        6 => Step::WorkIndirect(n),
        7..=8 => Step::Work(n),
        9 if depth > 0 => Step::Repeat(n % 4, steps(u, functions, depth - 1)?),
        9..=10 => Step::Tail(f),
        11 => Step::TailIndirect(f),
        12 => Step::TailReference(f),
        13 => Step::TailWork(n),
        14 => Step::Return,
        _ => Step::Trap,
    })
}

/// Names of the host's functions.
const BACK: usize = 1000;
const WORK: usize = 1001;

/// The way in which a function ends.
enum Left {
    Normally,
    Returned,
    By(usize),
    ByWork(u8),
    Trapped,
}

/// The results of an interpreter of scripts: calls and own time of each context.
#[derive(Debug, Default)]
struct Seen {
    fuel: u32,
    contexts: BTreeMap<Vec<usize>, (u64, u64)>,
}

impl Seen {
    fn of(script: &Script) -> Self {
        let mut seen = Self { fuel: script.fuel, ..Self::default() };
        for function in &script.calls {
            seen.call(script, &[], *function);
        }
        seen
    }

    fn enter(&mut self, way: &[usize], function: usize) -> Vec<usize> {
        let way: Vec<usize> = way.iter().copied().chain([function]).collect();
        self.contexts.entry(way.clone()).or_default().0 += 1;
        way
    }

    fn work(&mut self, way: &[usize], time: u8) {
        let way = self.enter(way, WORK);
        self.contexts.get_mut(&way).expect("it was entered").1 += u64::from(time);
    }

    /// Executes a call; returns whether the function returned.
    fn call(&mut self, script: &Script, way: &[usize], mut function: usize) -> bool {
        loop {
            let own = self.enter(way, function);
            if self.fuel == 0 {
                return true;
            }
            self.fuel -= 1;
            match self.follow(script, &own, &script.functions[function]) {
                Left::Normally | Left::Returned => return true,
                Left::Trapped => return false,
                Left::By(next) => function = next,
                Left::ByWork(time) => {
                    self.work(way, time);
                    return true;
                }
            }
        }
    }

    fn follow(&mut self, script: &Script, way: &[usize], steps: &[Step]) -> Left {
        for step in steps {
            let goes_on = match step {
                Step::Call(f) | Step::Indirect(f) | Step::Reference(f) => {
                    self.call(script, way, *f)
                }
                Step::Back(f) => {
                    let way = self.enter(way, BACK);
                    self.call(script, &way, *f)
                }
                Step::Work(n) | Step::WorkIndirect(n) => {
                    self.work(way, *n);
                    true
                }
                Step::Repeat(n, steps) => {
                    for _ in 0..*n {
                        match self.follow(script, way, steps) {
                            Left::Normally => {}
                            left => return left,
                        }
                    }
                    true
                }
                Step::Tail(f) | Step::TailIndirect(f) | Step::TailReference(f) => {
                    return Left::By(*f);
                }
                Step::TailWork(n) => return Left::ByWork(*n),
                Step::Return => return Left::Returned,
                Step::Trap => false,
            };
            if !goes_on {
                return Left::Trapped;
            }
        }
        Left::Normally
    }
}

fn name(function: usize) -> String {
    match function {
        BACK => "back".to_owned(),
        WORK => "work".to_owned(),
        function => format!("f{function}"),
    }
}

type Counts = BTreeMap<(String, String), u64>;
type Times = BTreeMap<String, (f64, f64)>;

/// Calls by caller and callee, and own and total times of functions.
fn expected(seen: &Seen) -> (Counts, Times) {
    let (mut counts, mut times) = (Counts::new(), Times::new());
    for (way, (calls, own)) in &seen.contexts {
        let [.., function] = way[..] else { continue };
        let caller = way.iter().rev().nth(1).map_or_else(String::new, |caller| name(*caller));
        *counts.entry((caller, name(function))).or_default() += calls;
        times.entry(name(function)).or_default().0 += *own as f64;
        for function in way.iter().collect::<BTreeSet<_>>() {
            times.entry(name(*function)).or_default().1 += *own as f64;
        }
    }
    (counts, times)
}

fn told(profile: &Profile) -> Counts {
    let mut counts = Counts::new();
    for function in &profile.functions {
        let mut all = 0;
        for arc in &function.arcs {
            let caller = arc.caller.as_ref().map_or_else(String::new, |label| label.name.clone());
            *counts.entry((caller, function.label.name.clone())).or_default() += arc.samples;
            all += arc.samples;
        }
        assert_eq!(function.calls.value, all as f64, "{}", function.label.name);
    }
    counts
}

fn run(script: &Script, options: &Options, reading: i64) -> Running {
    let text = script.text();
    let module = wat::parse_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let profiled = profile(&module, options).unwrap_or_else(|e| panic!("{e}: {text}")).module;
    wasmparser::Validator::new_with_features(wasmparser::WasmFeatures::all())
        .validate_all(&profiled)
        .unwrap_or_else(|e| panic!("{e}: {text}"));
    let mut running = Running::new(&profiled, reading);
    for function in &script.calls {
        running.call(&format!("f{function}"));
    }
    running
}

#[test]
fn counts_are_those_of_an_interpreter_of_the_program() {
    arbtest::arbtest(|u| {
        let script = Script::new(u)?;
        let seen = Seen::of(&script);
        let options = Options { clock: Some(Clock::None), ..Options::default() };
        let mut running = run(&script, &options, 0);
        let profile = running.profile();
        assert_eq!(told(&profile), expected(&seen).0, "{}", script.text());
        let contexts = format!("in {} contexts", seen.contexts.len());
        let report = running.report();
        assert!(report.contains(&contexts), "{contexts}: {report}");
        Ok(())
    })
    .budget_ms(1000);
}

#[test]
fn times_are_those_of_an_interpreter_of_the_program() {
    arbtest::arbtest(|u| {
        let script = Script::new(u)?;
        let seen = Seen::of(&script);
        let clock = Some(Clock::Wasi);
        let options = Options { clock, time_all: true, ..Options::default() };
        let reading = u.int_in_range(0..=50)?;
        let mut running = run(&script, &options, reading);
        let profile = running.profile();
        let (counts, times) = expected(&seen);
        assert_eq!(told(&profile), counts, "{}", script.text());
        for function in &profile.functions {
            let figure = |figure: Option<profiler::Figure>| figure.map_or(0.0, |f| f.value);
            let told = (figure(function.own), figure(function.total));
            let name = &function.label.name;
            assert_eq!(told, times[name], "{name}: {}", script.text());
        }
        assert!(profile.impossible().is_empty(), "{:?}", profile.impossible());
        Ok(())
    })
    .budget_ms(400);
}

#[test]
fn what_is_not_timed_keeps_counts_and_the_sum_of_times() {
    arbtest::arbtest(|u| {
        let script = Script::new(u)?;
        let seen = Seen::of(&script);
        let clock = Some(Clock::Wasi);
        let exclude = ["f[0-3]".parse().expect("a pattern")].into();
        let mut running = run(&script, &Options { clock, exclude, ..Options::default() }, 7);
        let profile = running.profile();
        assert_eq!(told(&profile), expected(&seen).0, "{}", script.text());
        let own = |function: &profiler::Function| function.own.map_or(0.0, |own| own.value);
        let all: f64 = profile.functions.iter().map(own).sum();
        assert!((all - profile.header.seconds * 1e9).abs() < 1.0);
        assert!(profile.functions.iter().all(|function| own(function) >= 0.0));
        Ok(())
    })
    .budget_ms(400);
}
