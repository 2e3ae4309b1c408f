//! `run --monitor FILE`: modules and scripts, as users use them.

#[path = "modules/artifacts.rs"]
mod artifacts;
#[path = "modules/events.rs"]
mod events;
#[path = "modules/existing.rs"]
mod existing;
#[path = "modules/libraries.rs"]
mod libraries;
#[path = "command/place.rs"]
#[allow(dead_code, reason = "not every test needs all of it")]
mod place;
#[path = "modules/program_memories.rs"]
mod program_memories;
#[path = "modules/refusals.rs"]
mod refusals;
#[path = "modules/replaced_programs.rs"]
mod replaced_programs;
#[path = "modules/replacement.rs"]
mod replacement;
#[path = "modules/reports.rs"]
mod reports;
#[path = "modules/running.rs"]
mod running;
#[path = "modules/switching.rs"]
mod switching;
#[path = "modules/texts.rs"]
mod texts;

use place::Place;
use std::process::Output;

/// Counts instructions, and prints their number.
const COUNTING: &str = r#"(module (import "wizeng" "puti" (func $print (param i32))) (global $n (mut i32) (i32.const 0))
    (func (export "wasm:opcode:*") (global.set $n (i32.add (global.get $n) (i32.const 1))))
    (func (export "wasm:exit") (call $print (global.get $n))))"#;

const NOTHING: &str = r#"(module (func (export "_start") nop))"#;

fn run(place: &Place, arguments: &[&str], monitors: &[&str], program: &str) -> Output {
    let mut command = place.command();
    command.arg("run");
    for monitor in monitors {
        command.arg("--monitor").arg(monitor);
    }
    command.args(arguments).arg(program).output().expect("the command starts")
}

fn output_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn whamm(path: &str) -> String {
    format!("{}/../whamm/{path}", env!("CARGO_MANIFEST_DIR"))
}
