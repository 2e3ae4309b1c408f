//! The environment of storms: threads that run a program, and one that changes its probes, at
//! random and as fast as possible.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wasm_aot::probe::{Place, ProbeId, Probes, probe};
use wasm_aot::{Config, Engine, Error, Instance, Linker, Module, Store, Val};

/// The number of threads that run the program, and the duration.
const THREADS: usize = 2;
const LENGTH: Duration = Duration::from_millis(250);

/// The least number of changes for a storm to be evidence.
const TURNS: u64 = 20;

/// Pseudo-random numbers.
pub(crate) struct Dice(u64);

impl Dice {
    /// A number below `sides`.
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

/// A program, and its probes.
pub(crate) struct Setting {
    engine: Engine,
    pub(crate) module: Module,
    pub(crate) probes: Probes,
    /// All instructions, by name.
    instructions: Vec<(&'static str, Place)>,
    /// The number of rounds that each thread has begun; very large after the thread has ended.
    rounds: [AtomicU64; THREADS],
}

impl Setting {
    pub(crate) fn new(text: &str) -> Self {
        let engine = Engine::new(&Config::new()).expect("an engine");
        let module = Module::new(&engine, text).unwrap_or_else(|error| panic!("{error}"));
        Self::of(engine, module)
    }

    pub(crate) fn of(engine: Engine, module: Module) -> Self {
        module.attach_counts().expect("sites");
        let counts = module.counts().expect("attached");
        let each = counts.functions().flat_map(|function| {
            let at = |offset| Place::before(function.index(), offset);
            function
                .instructions()
                .into_iter()
                .map(move |i| (i.mnemonic, at(i.offset)))
                .collect::<Vec<_>>()
        });
        let (instructions, probes) = (each.collect(), Probes::new(&module));
        Self { engine, module, probes, instructions, rounds: Default::default() }
    }

    /// The place before the `n`th instruction with that name.
    pub(crate) fn before(&self, mnemonic: &str, n: usize) -> Place {
        self.instructions.iter().filter(|(name, _)| *name == mnemonic).nth(n).expect("as many").1
    }

    /// Runs `round` repeatedly, in several threads with one instance each, while `disturb` runs.
    /// Returns the number of rounds.
    pub(crate) fn storm(
        &self,
        mut disturb: impl FnMut(&mut Dice),
        round: impl Fn(&mut Store<()>, Instance) + Sync,
    ) -> u64 {
        let (running, turns, all) =
            (AtomicUsize::new(THREADS), AtomicU64::new(0), AtomicU64::new(0));
        self.rounds.iter().for_each(|rounds| rounds.store(0, Relaxed));
        std::thread::scope(|scope| {
            for rounds in &self.rounds {
                let (running, turns, all, round) = (&running, &turns, &all, &round);
                scope.spawn(move || {
                    let _leaves = Leaving(running, rounds);
                    let (mut store, instance) = self.instance();
                    let begun = Instant::now();
                    while begun.elapsed() < LENGTH
                        || turns.load(Relaxed) < TURNS && begun.elapsed() < 100 * LENGTH
                    {
                        rounds.fetch_add(1, Relaxed);
                        round(&mut store, instance);
                        all.fetch_add(1, Relaxed);
                    }
                });
            }
            let mut dice = Dice(7);
            while running.load(Relaxed) > 0 {
                disturb(&mut dice);
                turns.fetch_add(1, Relaxed);
            }
        });
        assert!(turns.load(Relaxed) >= TURNS, "the weather was fine: {turns:?}");
        all.load(Relaxed)
    }

    /// Waits until each thread has begun its next round, and the one after it. Returns whether any
    /// thread still runs.
    pub(crate) fn pass(&self) -> bool {
        let (begun, rounds) =
            (Instant::now(), || self.rounds.each_ref().map(|rounds| rounds.load(Relaxed)));
        let before = rounds();
        while rounds().iter().zip(before).any(|(now, before)| *now < GONE.min(before + 2)) {
            assert!(begun.elapsed() < Duration::from_secs(30), "nobody comes by");
            std::thread::yield_now();
        }
        rounds().iter().any(|rounds| *rounds < GONE)
    }

    /// An instance in its own store; `exit` ends the program.
    pub(crate) fn instance(&self) -> (Store<()>, Instance) {
        let mut store = Store::new(&self.engine, ());
        let mut linker = Linker::new(&self.engine);
        linker.func_wrap("host", "exit", || Err::<(), _>(Error::Exit(3))).expect("the only one");
        let instance = linker.instantiate(&mut store, &self.module).expect("an instance");
        (store, instance)
    }
}

/// The number of rounds for a thread that has ended.
const GONE: u64 = 1 << 62;

/// Records the end of a thread, even if it panics.
struct Leaving<'a>(&'a AtomicUsize, &'a AtomicU64);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.1.fetch_add(GONE, Relaxed);
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Probes of all kinds that are inserted, removed, and switched off and on, and counts that are
/// attached and detached.
#[derive(Default)]
pub(crate) struct Company(Vec<ProbeId>);

impl Company {
    pub(crate) fn turn(&mut self, setting: &Setting, dice: &mut Dice) {
        let Setting { probes, module, instructions, .. } = setting;
        let place = instructions[dice.roll(instructions.len())].1;
        let nothing = || probe("nothing", |_| Ok(()));
        let comes = match dice.roll(10) {
            0 => probes.count(place),
            1 => probes.flag(place),
            2 => probes.measure(place),
            3 => probes.insert_everywhere(nothing()),
            4 => probes.insert(Place::after(place.function, place.offset), nothing()),
            5 | 6 => probes.insert(place, nothing()),
            7 if !self.0.is_empty() => {
                return probes.switch(&self.0[dice.roll(self.0.len())..], dice.roll(2) == 1);
            }
            8 if !self.0.is_empty() => {
                return assert!(probes.remove(self.0.swap_remove(dice.roll(self.0.len()))));
            }
            _ if module.is_counting() => return module.detach_counts(),
            _ => return module.attach_counts().expect("sites"),
        };
        self.0.push(comes.expect("a place"));
        if self.0.len() > 6 {
            assert!(probes.remove(self.0.swap_remove(dice.roll(6))));
        }
    }
}

/// Calls `f`.
pub(crate) fn call(store: &mut Store<()>, instance: Instance, arg: i32) -> Result<i32, Error> {
    let function = instance.get_typed_func::<i32, i32>(&mut *store, "f").expect("exported");
    function.call(store, arg)
}

/// The sum of a column over the rows of a report.
pub(crate) fn sum(report: &wasm_aot::monitor::Report, column: &str) -> u64 {
    let at = report
        .columns
        .iter()
        .position(|name| *name == column)
        .unwrap_or_else(|| panic!("{column}: {:?}", report.columns));
    let count = |row: &Vec<wasm_aot::monitor::Cell>| match row[at] {
        wasm_aot::monitor::Cell::Count(count) => count,
        ref other => panic!("{other:?}"),
    };
    report.rows.iter().map(count).sum()
}

/// A number from a program's result.
pub(crate) fn number(value: Option<Val>) -> i32 {
    match value {
        Some(Val::I32(number)) => number,
        other => panic!("{other:?}"),
    }
}
