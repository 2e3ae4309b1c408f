//! The cost of switching while WebAssembly runs (`toggle-wasm`).
//!
//! | row | what it is |
//! |---|---|
//! | `toggle/batch100k` | switching the sites of a hundred thousand functions, all of them: nanoseconds per site and direction |
//! | `toggle/single` | switching a module of two functions, of which one runs on another thread: per site and direction |
//! | `toggle/bare` | switching a counter at a single instruction |
//! | `attach/first_event` | from the first request for counts, in a running module of a megabyte, to the first count: milliseconds |
//! | `attach/all_live` | to the time from which every function counts |
//! | `attach/again` | the same when the module was counted before |
//! | `attach/longest_turn` | the longest that a thousand turns of the running program's loop take meanwhile, and before; with fewer processors than compiling threads it includes the scheduler's delays |
//! | `throughput/off`, `throughput/switched` | calls per second of a loop without switching, and of one that is switched all the time |

use crate::report::{Report, Row};
use std::error::Error;
use std::fmt::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wasm_aot::probe::{Place, Probes};
use wasm_aot::{Config, Engine, Linker, Module, Sites, Store};

/// A loop that calls the last of `functions` functions until it is stopped, and counts its turns in
/// an exported global.
fn program(functions: usize, statements: usize) -> String {
    let mut text = String::from(
        "(module (import \"host\" \"tick\" (func $tick)) (global $turns (export \"turns\") (mut i64) (i64.const 0))\n",
    );
    for function in 0..functions {
        let _ = write!(text, "(func $f{function} (param i32) (result i32) (local.get 0)");
        for statement in 0..statements {
            let _ = write!(
                text,
                " (i32.const {}) (i32.mul) (local.get 0) (i32.xor)",
                function + statement
            );
        }
        text.push_str(")\n");
    }
    let last = functions - 1;
    let _ = write!(
        text,
        "(func (export \"run\") (param i64) (local i32) (loop $l
            (local.set 1 (call $f{last} (local.get 1)))
            (global.set $turns (i64.add (global.get $turns) (i64.const 1)))
            (if (i64.eqz (i64.rem_u (global.get $turns) (i64.const 1000))) (then (call $tick)))
            (br_if $l (i64.lt_u (global.get $turns) (local.get 0))))))"
    );
    text
}

/// Runs a program on its own thread while `act` runs; returns the result of `act` and the calls per
/// second of the program.
fn running<R>(module: &Module, act: impl FnOnce() -> R) -> Result<(R, f64), Box<dyn Error>> {
    let engine = Engine::default();
    let mut store = Store::new(&engine, ());
    let mut linker = Linker::new(&engine);
    let last = std::sync::Mutex::new(None::<Instant>);
    let longest = LONGEST.get_or_init(AtomicU64::default);
    linker.func_wrap("host", "tick", move || {
        let now = Instant::now();
        if let Some(before) = last.lock().expect("nobody panics").replace(now) {
            longest.fetch_max(now.duration_since(before).as_nanos() as u64, Relaxed);
        }
    })?;
    let instance = linker.instantiate(&mut store, module)?;
    let run = instance.get_typed_func::<i64, ()>(&mut store, "run")?;
    let turns = instance.get_global(&mut store, "turns").ok_or("the program has a global")?;
    let stop = store.interrupt_handle();
    let (started, begun) = (AtomicBool::new(false), Instant::now());
    let done = std::thread::scope(|scope| {
        let runner = scope.spawn(|| {
            started.store(true, Relaxed);
            // The interruption ends it.
            let _ = run.call(&mut store, i64::MAX);
        });
        while !started.load(Relaxed) {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(20));
        let done = act();
        stop.interrupt();
        runner.join().expect("the program does not panic");
        done
    });
    let seconds = begun.elapsed().as_secs_f64();
    let wasm_aot::Val::I64(turns) = turns.get(&mut store)? else {
        return Err("turns are a number".into());
    };
    Ok((done, turns as f64 / seconds))
}

/// The nanoseconds per site and direction of switching a module on and off.
fn toggle(module: &Module, times: u32) -> Result<f64, wasm_aot::Error> {
    module.attach_counts()?;
    let begun = Instant::now();
    for _ in 0..times {
        module.detach_counts();
        module.attach_counts()?;
    }
    let each = begun.elapsed().as_nanos() as f64 / f64::from(times) / 2.0 / module.sites() as f64;
    module.detach_counts();
    Ok(each)
}

/// The longest time of a thousand turns since it was last read, in nanoseconds.
static LONGEST: OnceLock<AtomicU64> = OnceLock::new();

/// That time, in milliseconds; resets it.
fn longest() -> f64 {
    LONGEST.get_or_init(AtomicU64::default).swap(0, Relaxed) as f64 / 1e6
}

/// The times of attaching to a program, in milliseconds.
struct Attached {
    first: f64,
    live: f64,
    longest: [f64; 2],
}

/// Requests counts, and polls for the first one from another thread.
fn attach(module: &Module) -> Result<Attached, wasm_aot::Error> {
    longest();
    std::thread::sleep(Duration::from_millis(100));
    let before = longest();
    let begun = Instant::now();
    let milliseconds = || begun.elapsed().as_secs_f64() * 1e3;
    let (first, live) = std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            while module.counted_events() == 0 {
                std::thread::sleep(Duration::from_micros(100));
            }
            milliseconds()
        });
        let live = module.attach_counts().map(|()| milliseconds());
        (watching.join().expect("it does not panic"), live)
    });
    let attached = Attached { first, live: live?, longest: [before, longest()] };
    module.detach_counts();
    Ok(attached)
}

/// The milliseconds until everything is counted again.
fn again(module: &Module) -> Result<f64, wasm_aot::Error> {
    let begun = Instant::now();
    module.attach_counts()?;
    let waited = begun.elapsed().as_secs_f64() * 1e3;
    module.detach_counts();
    Ok(waited)
}

/// The nanoseconds of switching a counter at the first instruction of the module's last function.
fn bare(module: &Module, times: u32) -> Result<f64, Box<dyn Error>> {
    let probes = Probes::new(module);
    let last = module.imports().count() as u32 + module.sites() as u32
        - module.loop_sites() as u32
        - module.patchable_sites() as u32
        - 1;
    let mut offset = 0;
    let id = loop {
        match probes.count(Place::before(last, offset)) {
            Ok(id) => break id,
            Err(_) if offset < 16 => offset += 1,
            Err(error) => return Err(error.into()),
        }
    };
    let begun = Instant::now();
    for _ in 0..times {
        probes.switch(&[id], false);
        probes.switch(&[id], true);
    }
    Ok(begun.elapsed().as_nanos() as f64 / f64::from(times) / 2.0)
}

pub(crate) fn measure(quick: bool) -> Result<Report, Box<dyn Error>> {
    let rounds = if quick { 5 } else { 31 };
    let engine = Engine::default();
    let mut report = Report::new("toggle-wasm");
    let mut row = |name: &str, mut values: Vec<f64>, unit: &'static str| {
        values.sort_by(f64::total_cmp);
        report.rows.push(Row::plain(name, values[values.len() / 2], unit, values.len() as u64));
    };
    let small = Module::new(&engine, program(1, 3))?;
    let wide = Module::new(&engine, program(100_000, 1))?;
    let everywhere = Engine::new(Config::new().sites(Sites::ALL))?;
    let dotted = Module::new(&everywhere, program(1, 3))?;
    let [mut batch, mut single, mut dots, mut first, mut live, mut known, mut off, mut switched] =
        [const { Vec::new() }; 8];
    let mut longest = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        batch.push(running(&wide, || toggle(&wide, 20))?.0?);
        single.push(running(&small, || toggle(&small, 100_000))?.0?);
        // A new module in each round, so that none of its functions was compiled for counting
        // before.
        let large = Module::new(&engine, program(4000 + round, 40))?;
        let attached = running(&large, || attach(&large))?.0?;
        first.push(attached.first);
        live.push(attached.live);
        longest.iter_mut().zip(attached.longest).for_each(|(all, one)| all.push(one));
        known.push(running(&large, || again(&large))?.0?);
        dots.push(
            running(&dotted, || bare(&dotted, 100_000).map_err(|error| error.to_string()))?.0?,
        );
        off.push(running(&small, || std::thread::sleep(Duration::from_millis(200)))?.1);
        let switching = || {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(200) {
                let _ = toggle(&small, 100);
            }
        };
        switched.push(running(&small, switching)?.1);
        eprintln!("toggle-wasm: round {} of {rounds}", round + 1);
    }
    row("toggle/batch100k", batch, "ns");
    row("toggle/single", single, "ns");
    row("toggle/bare", dots, "ns");
    row("attach/first_event", first, "ms");
    row("attach/all_live", live, "ms");
    row("attach/again", known, "ms");
    let [before, meanwhile] = longest;
    row("attach/longest_turn/before", before, "ms");
    row("attach/longest_turn", meanwhile, "ms");
    row("throughput/off", off, "1/s");
    row("throughput/switched", switched, "1/s");
    Ok(report)
}
