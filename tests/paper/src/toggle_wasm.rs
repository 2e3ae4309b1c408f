//! What switching costs while WebAssembly runs (`toggle-wasm`).
//!
//! | row | what it is |
//! |---|---|
//! | `toggle/batch100k` | switching the sites of a hundred thousand functions, all of them: nanoseconds for each site and each way |
//! | `toggle/small` | the same of a module of two functions, of which one runs on another thread |
//! | `attach/first_event` | from asking for counts the first time, in a module of a megabyte that runs, to the first count: milliseconds |
//! | `attach/again` | the same when the module was counted before |
//! | `throughput/off`, `throughput/switched` | calls a second of a loop that is left alone, and of one that is switched all the time |

use crate::report::{Report, Row};
use std::error::Error;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wasm_aot::{Engine, Linker, Module, Store};

/// A loop that calls the last of `functions` functions until somebody ends it, and counts its turns in a global that is exported.
fn program(functions: usize, statements: usize) -> String {
    let mut text = String::from("(module (global $turns (export \"turns\") (mut i64) (i64.const 0))\n");
    for function in 0..functions {
        let _ = write!(text, "(func $f{function} (param i32) (result i32) (local.get 0)");
        for statement in 0..statements {
            let _ = write!(text, " (i32.const {}) (i32.mul) (local.get 0) (i32.xor)", function + statement);
        }
        text.push_str(")\n");
    }
    let last = functions - 1;
    let _ = write!(
        text,
        "(func (export \"run\") (param i64) (local i32) (loop $l
            (local.set 1 (call $f{last} (local.get 1)))
            (global.set $turns (i64.add (global.get $turns) (i64.const 1)))
            (br_if $l (i64.lt_u (global.get $turns) (local.get 0))))))"
    );
    text
}

/// Runs a program on a thread of its own while `act` does something; gives the calls a second that it made.
fn running<R>(module: &Module, act: impl FnOnce() -> R) -> Result<(R, f64), Box<dyn Error>> {
    let engine = Engine::default();
    let mut store = Store::new(&engine, ());
    let instance = Linker::new(&engine).instantiate(&mut store, module)?;
    let run = instance.get_typed_func::<i64, ()>(&mut store, "run")?;
    let turns = instance.get_global(&mut store, "turns").ok_or("the program has a global")?;
    let stop = store.interrupt_handle();
    let (started, begun) = (AtomicBool::new(false), Instant::now());
    let done = std::thread::scope(|scope| {
        let runner = scope.spawn(|| {
            started.store(true, Relaxed);
            // It is ended by the interruption.
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
    let wasm_aot::Val::I64(turns) = turns.get(&mut store)? else { return Err("turns are a number".into()) };
    Ok((done, turns as f64 / seconds))
}

/// Nanoseconds for each site and each way of switching a module on and off.
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

/// Milliseconds from asking for counts to the first one.
fn first_event(module: &Module) -> Result<f64, wasm_aot::Error> {
    let calls =
        |module: &Module| module.counts().map_or(0, |counts| counts.functions().map(|function| function.calls()).sum::<u64>());
    let before = calls(module);
    let begun = Instant::now();
    module.attach_counts()?;
    while calls(module) == before {
        std::hint::spin_loop();
    }
    let waited = begun.elapsed().as_secs_f64() * 1e3;
    module.detach_counts();
    Ok(waited)
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
    let (mut batch, mut single, mut first, mut again, mut off, mut switched) = (vec![], vec![], vec![], vec![], vec![], vec![]);
    for round in 0..rounds {
        batch.push(running(&wide, || toggle(&wide, 20))?.0?);
        single.push(running(&small, || toggle(&small, 100_000))?.0?);
        // A module of its own in each round: nothing of it was compiled to count before.
        let large = Module::new(&engine, program(4000 + round, 40))?;
        first.push(running(&large, || first_event(&large))?.0?);
        again.push(running(&large, || first_event(&large))?.0?);
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
    row("toggle/small", single, "ns");
    row("attach/first_event", first, "ms");
    row("attach/again", again, "ms");
    row("throughput/off", off, "1/s");
    row("throughput/switched", switched, "1/s");
    report.notes.push("attach/… includes solving the counts of all functions, which is how the first one is seen.".into());
    Ok(report)
}
