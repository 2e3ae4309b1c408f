//! The time to bind a monitor: to match all places of a large program with it.
//!
//! One monitor is called once for each of 10,000 places. Another has an export for each
//! instruction, like modules of the existing compiler, and is called for each instruction of a
//! megabyte of code, with names.

use crate::report::{Report, Row};
use crate::sample::Blocks;
use std::error::Error;
use std::fmt::Write as _;
use std::time::Instant;
use wasm_aot::observer::{Observation, Observer, Program, Switches, add_to_linker};
use wasm_aot::wasi::{self, WasiCtx};
use wasm_aot::{AsContextMut, Engine, Linker, Module, Store};

/// The number of functions, and of places in each.
const FUNCTIONS: usize = 100;
const PLACES: usize = 100;
const PLACES_OF_A_MEGABYTE: usize = 1250;

/// A monitor that is called once for each place.
const MONITOR: &str = r#"(module (global $next (mut i32) (i32.const 0))
    (func (export "$record") (param i32 i32) (result i32)
        (global.set $next (i32.add (global.get $next) (i32.const 8))) (global.get $next))
    (func (export "wasm:opcode:i32.mul ($record(fid, pc), arg0)") (param i32 i32)))"#;

/// A monitor that counts at all instructions but one, so that each has its own export.
const EXPORTS: &str = "wasm:opcode:[!n]*|n[!o]*:before { report var count: u32; count++; }";

/// Adds the rows.
pub(super) fn rows(quick: bool, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let rounds = if quick { 5 } else { 31 };
    let mut add = |name: String, places: usize, monitor: &[u8]| -> Result<(), Box<dyn Error>> {
        let times = times(rounds, &program(places), monitor)?;
        report.rows.push(Row::plain(name, Blocks::of(times).median(0.0) / 1e3, "us", rounds));
        Ok(())
    };
    add(format!("bind/{}", FUNCTIONS * PLACES), PLACES, MONITOR.as_bytes())?;
    add("bind/megabyte".into(), PLACES_OF_A_MEGABYTE, &exports()?)
}

/// The monitor with an export for each instruction.
fn exports() -> Result<Vec<u8>, Box<dyn Error>> {
    let options =
        whamm::Options { destination: whamm::Destination::Console, ..whamm::Options::default() };
    Ok(whamm::compile_monitor(&[whamm::Source::new("exports.mm", EXPORTS)], &[], &options)?.module)
}

/// A program whose functions have this many places each.
fn program(places: usize) -> String {
    let mut text = String::from("(module\n");
    for _ in 0..FUNCTIONS {
        let steps = "(local.set 0 (i32.mul (local.get 0) (i32.const 300)))\n".repeat(places);
        let _ = writeln!(text, "(func (param i32) {steps})");
    }
    text.push(')');
    text
}

/// The times to match a monitor with a program, in nanoseconds.
fn times(rounds: u64, text: &str, monitor: &[u8]) -> Result<Vec<u64>, Box<dyn Error>> {
    let engine = Engine::default();
    let program = Program::new(&engine, text.as_bytes())?;
    let monitor = Module::new(&engine, monitor)?;
    let mut times = Vec::new();
    for _ in 0..rounds {
        // The program's code is not used, and one observation is for one store.
        let observation = Observation::of(&Module::new(&engine, "(module)")?);
        let mut store = Store::new(&engine, WasiCtx::builder().build()?);
        let (mut linker, switches) = (Linker::new(&engine), Switches::default());
        wasi::add_to_linker(&mut linker, |world| world)?;
        add_to_linker(&mut linker, &program, &switches)?;
        let observer = Observer::new(&mut store, &linker, "monitor", &monitor, &switches)?;
        let begun = Instant::now();
        let matched = observation.compare(store.as_context_mut(), observer, &program)?;
        times.push(begun.elapsed().as_nanos() as u64);
        drop(std::hint::black_box(matched));
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_compared_with_both_monitors_again_and_again() {
        for monitor in [MONITOR.as_bytes(), &exports().expect("a monitor")] {
            assert_eq!(times(2, &program(3), monitor).expect("measured").len(), 2);
        }
    }
}
