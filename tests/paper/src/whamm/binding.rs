//! How long it takes to bind a monitor: all places of a large program are compared with it.

use crate::report::{Report, Row};
use crate::sample::Blocks;
use std::error::Error;
use std::fmt::Write as _;
use std::time::Instant;
use wasm_aot::observer::{Observation, Observer, Program, Switches, add_to_linker};
use wasm_aot::{AsContextMut, Engine, Linker, Module, Store};

/// How many functions there are, and how many places each has.
const FUNCTIONS: usize = 100;
const PLACES: usize = 100;

/// Asks once for each place.
const MONITOR: &str = r#"(module (global $next (mut i32) (i32.const 0))
    (func (export "$record") (param i32 i32) (result i32)
        (global.set $next (i32.add (global.get $next) (i32.const 8))) (global.get $next))
    (func (export "wasm:opcode:i32.mul ($record(fid, pc), arg0)") (param i32 i32)))"#;

/// Adds the row.
pub(super) fn rows(quick: bool, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let mut text = String::from("(module\n");
    for _ in 0..FUNCTIONS {
        let steps = "(local.set 0 (i32.mul (local.get 0) (i32.const 3)))\n".repeat(PLACES);
        let _ = writeln!(text, "(func (param i32) {steps})");
    }
    text.push(')');
    let engine = Engine::default();
    let program = Program::new(&engine, text.as_bytes())?;
    let monitor = Module::new(&engine, MONITOR)?;
    let rounds = if quick { 5 } else { 31 };
    let mut times = Vec::new();
    for _ in 0..rounds {
        // Code is for one store.
        let observation = Observation::of(&Module::new(&engine, &text)?);
        let mut store = Store::new(&engine, ());
        let (mut linker, switches) = (Linker::new(&engine), Switches::default());
        add_to_linker(&mut linker, &program, &switches)?;
        let observer = Observer::new(&mut store, &linker, "monitor", &monitor, &switches)?;
        let begun = Instant::now();
        let matched = observation.compare(store.as_context_mut(), observer, &program)?;
        times.push(begun.elapsed().as_nanos() as u64);
        drop(std::hint::black_box(matched));
    }
    let name = format!("bind/{}", FUNCTIONS * PLACES);
    report.rows.push(Row::plain(name, Blocks::of(times).median(0.0) / 1e3, "us", rounds));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_places_are_bound_again_and_again() {
        let mut report = Report::new("whamm");
        rows(true, &mut report).expect("measured");
        assert_eq!((report.rows[0].name.as_str(), report.rows[0].n), ("bind/10000", 5));
    }
}
