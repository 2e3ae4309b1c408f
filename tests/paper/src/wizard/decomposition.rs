//! A decomposition of the costs of probes: the code with places for them, the call of a probe, and
//! the work of the probe.
//!
//! Three kernels run as they are, with inactive places at all of their instructions, and with
//! probes of an embedder. The additional time of each mode is one part of the costs.
//!
//! | row | nanoseconds per turn |
//! |---|---|
//! | `KERNEL/plain` | as it is |
//! | `KERNEL/code` | the additional time of inactive places |
//! | `KERNEL/dispatch` | the additional time of an empty probe at each instruction |
//! | `KERNEL/monitor` | the additional time if the probes count, by place |
//! | `KERNEL/hotness/intrinsic`, `…/local`, `…/global` | with a counter at each instruction, in machine code; with a counting probe at each; with one global probe that counts |
//! | `KERNEL/branches/intrinsic`, `…/local` | with a histogram of each condition; with a probe at each branch that reads it |
//! | `probe/off`, `probe/counter`, `probe/local`, `probe/global` | in the first kernel: inactive places; a counter or a probe at one instruction; one global probe |

use crate::report::{Report, Row};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use wasm_aot::probe::{Frame, Place, Probe, ProbeId, Probes, probe};
use wasm_aot::{Engine, Linker, Module, Store, TypedFunc, Val};

/// Loops with different turns: add, call, and load and store.
const KERNELS: [(&str, &str); 3] = [
    (
        "loop",
        "(module (func (export \"f\") (param i32) (local i32)
            (loop $again (br_if $again (i32.lt_u (local.tee 1 (i32.add (local.get 1) (i32.const 1))) (local.get 0))))))",
    ),
    (
        "call",
        "(module (func $g (param i32) (result i32) (if (result i32) (i32.and (local.get 0) (i32.const 1))
                (then (i32.add (local.get 0) (i32.const 3))) (else (i32.add (local.get 0) (i32.const 1)))))
            (func (export \"f\") (param i32) (local i32)
                (loop $again (br_if $again (i32.lt_u (local.tee 1 (call $g (local.get 1))) (local.get 0))))))",
    ),
    (
        "memory",
        "(module (memory 1) (func (export \"f\") (param i32) (local i32)
            (loop $again
                (i32.store (i32.and (local.get 1) (i32.const 4092))
                    (i32.add (i32.load offset=8192 (i32.and (local.get 1) (i32.const 4092))) (local.get 1)))
                (br_if $again (i32.lt_u (local.tee 1 (i32.add (local.get 1) (i32.const 1))) (local.get 0))))))",
    ),
];

const TURNS: i32 = 50_000;

/// A running kernel, and its probes.
struct Setting {
    store: Store<()>,
    run: TypedFunc<i32, ()>,
    probes: Probes,
    /// All instructions; and those that are conditions.
    places: Vec<Place>,
    branches: Vec<Place>,
    /// An addition.
    addition: Place,
}

impl Setting {
    fn new(text: &str) -> Result<Self, Box<dyn Error>> {
        let engine = Engine::default();
        let module = Module::new(&engine, text)?;
        let mut store = Store::new(&engine, ());
        let instance = Linker::new(&engine).instantiate(&mut store, &module)?;
        let run = instance.get_typed_func::<i32, ()>(&mut store, "f")?;
        module.attach_counts()?;
        module.detach_counts();
        let counts = module.counts().ok_or("it was counted")?;
        let all = counts.functions().flat_map(|function| {
            let at = |offset| Place::before(function.index(), offset);
            function
                .instructions()
                .into_iter()
                .map(move |i| (i.mnemonic, at(i.offset)))
                .collect::<Vec<_>>()
        });
        let all: Vec<(&str, Place)> = all.collect();
        let named = |names: &[&str]| {
            all.iter()
                .filter(|(name, _)| names.contains(name))
                .map(|(_, place)| *place)
                .collect::<Vec<_>>()
        };
        let (branches, addition) =
            (named(&["br_if", "if"]), *named(&["i32.add"]).first().ok_or("it adds")?);
        let places = all.iter().map(|(_, place)| *place).collect();
        Ok(Self { store, run, probes: Probes::new(&module), places, branches, addition })
    }

    /// The median time of a turn, in nanoseconds.
    fn time(&mut self, rounds: usize) -> Result<f64, Box<dyn Error>> {
        let mut turns = Vec::new();
        for _ in 0..rounds {
            let begun = Instant::now();
            self.run.call(&mut self.store, TURNS)?;
            turns.push(begun.elapsed().as_nanos() as f64 / f64::from(TURNS));
        }
        turns.sort_by(f64::total_cmp);
        Ok(turns[turns.len() / 2])
    }

    /// The same with these probes installed, which are then removed.
    fn time_with(&mut self, rounds: usize, ids: Vec<ProbeId>) -> Result<f64, Box<dyn Error>> {
        let time = self.time(rounds);
        self.remove(ids);
        time
    }

    fn remove(&self, ids: Vec<ProbeId>) {
        for id in ids {
            self.probes.remove(id);
        }
    }

    fn insert(
        &self,
        places: &[Place],
        made: impl Fn() -> Arc<dyn Probe>,
    ) -> Result<Vec<ProbeId>, Box<dyn Error>> {
        places.iter().map(|place| Ok(self.probes.insert(*place, made())?)).collect()
    }
}

fn nothing() -> Arc<dyn Probe> {
    probe("nothing", |_| Ok(()))
}

/// A probe that counts in its own counter.
fn counts() -> Arc<dyn Probe> {
    let count = AtomicU64::new(0);
    probe("counts", move |_| {
        count.fetch_add(1, Relaxed);
        Ok(())
    })
}

/// A probe that counts the taken branches.
fn reads() -> Arc<dyn Probe> {
    let ways = [AtomicU64::new(0), AtomicU64::new(0)];
    probe("reads", move |frame: &mut Frame<'_>| {
        let way = matches!(frame.operand(0), Some(Val::I32(condition)) if condition != 0);
        ways[usize::from(way)].fetch_add(1, Relaxed);
        Ok(())
    })
}

pub(super) fn measure(quick: bool, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let rounds = if quick { 5 } else { 51 };
    for (name, text) in KERNELS {
        let mut it = Setting::new(text)?;
        let plain = it.time(rounds)?;
        // With this, functions stay inspected when other probes come and go.
        it.remove(it.insert(&it.places, nothing)?);
        let off = it.time(rounds)?;
        let counters =
            it.places.iter().map(|place| it.probes.count(*place)).collect::<Result<_, _>>()?;
        let intrinsic = it.time_with(rounds, counters)?;
        let empty = it.time_with(rounds, it.insert(&it.places, nothing)?)?;
        let local = it.time_with(rounds, it.insert(&it.places, counts)?)?;
        let global = it.time_with(rounds, vec![it.probes.insert_everywhere(counts())?])?;
        let histograms =
            it.branches.iter().map(|place| it.probes.measure(*place)).collect::<Result<_, _>>()?;
        let measured = it.time_with(rounds, histograms)?;
        let read = it.time_with(rounds, it.insert(&it.branches, reads)?)?;
        let mut row = |what: &str, value| {
            report.rows.push(Row::plain(format!("{name}/{what}"), value, "ns", rounds as u64));
        };
        row("plain", plain);
        row("code", off - plain);
        row("dispatch", empty - off);
        row("monitor", local - empty);
        row("hotness/intrinsic", intrinsic);
        row("hotness/local", local);
        row("hotness/global", global);
        row("branches/intrinsic", measured);
        row("branches/local", read);
        if name == "loop" {
            let counter = it.time_with(rounds, vec![it.probes.count(it.addition)?])?;
            let one = it.time_with(rounds, it.insert(&[it.addition], nothing)?)?;
            let everywhere = it.time_with(rounds, vec![it.probes.insert_everywhere(nothing())?])?;
            for (what, value) in
                [("off", off), ("counter", counter), ("local", one), ("global", everywhere)]
            {
                report.rows.push(Row::plain(format!("probe/{what}"), value, "ns", rounds as u64));
            }
        }
    }
    Ok(())
}
