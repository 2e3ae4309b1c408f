//! Monitors that are WebAssembly modules themselves.
//!
//! The names of such a module's exports say when its functions are to be called (`name`). Each is
//! compared with every `site` of a program (`matching`). Values that are known when a site is
//! matched become constants; the module is called for them if need be (`guest`). The result says
//! which function is called where with which arguments (`binding`), and is compiled into the
//! program.
//!
//! Monitor and program are instances of one store, each with a memory of its own.

mod binding;
mod composition;
mod contained;
mod counting;
mod effects;
mod event;
mod guest;
mod host;
mod insertion;
mod installed;
mod matching;
mod merging;
mod name;
mod notification;
mod observation;
mod operand_types;
mod program_memory;
mod reflection;
mod replacement;
mod rule;
mod rule_lists;
mod selection;
mod sequence;
mod site;
mod site_facts;
mod strategy;
mod switches;
mod texts;
mod threads;
mod variables;
mod virtual_probes;

pub use guest::Observer;
pub use host::{Program, add_to_linker, printed_during};
pub use observation::{Matched, Needs, Observation, ProbeCalls, Switched};
pub use selection::{Selection, SelectionError};
pub use switches::Switches;
pub use variables::Variables;

use std::fmt::Write as _;
use wasm_aot_engine::instrument::Printable;
use wasm_aot_engine::{Error, Place};

/// Why a module cannot be a monitor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObserverError {
    /// It is not instantiated.
    #[error("monitor {}: {error}", Printable(.monitor))]
    Instance {
        /// Its name.
        monitor: String,
        /// Why not.
        error: Box<Error>,
    },
    /// It throws exceptions, which the program might catch.
    #[error("monitor {}: it declares exceptions, and the program must not catch those of a monitor", Printable(.0))]
    Exceptions(String),
    /// Names of exports are not understood, or ask for other arguments than their functions take.
    #[error("monitor {}: exports that cannot be called\n{}", Printable(.monitor), list(.wrong))]
    Names {
        /// Its name.
        monitor: String,
        /// What is wrong with which.
        wrong: Vec<String>,
    },
    /// A function that was to be called when a site is matched has failed.
    #[error("monitor {}: {}, called for {} at {place}: {error}", Printable(.monitor), Printable(.helper), Printable(.export))]
    Match {
        /// Its name.
        monitor: String,
        /// For which of its exports.
        export: String,
        /// The function.
        helper: String,
        /// Where in the program.
        place: Box<Place>,
        /// Why.
        error: Box<Error>,
    },
    /// A function that was to be called when a site is matched does not end.
    #[error("monitor {}: {}, called for {} at {place}, does not end", Printable(.monitor), Printable(.helper), Printable(.export))]
    Endless {
        /// Its name.
        monitor: String,
        /// For which of its exports.
        export: String,
        /// The function.
        helper: String,
        /// Where in the program.
        place: Box<Place>,
    },
    /// It has inserted a probe at a place that does not have what the probe asks for.
    #[error("monitor {}: a probe that it inserts in function {function} at {pc}: what it asks for is not there", Printable(.monitor))]
    Inserted {
        /// Its name.
        monitor: String,
        /// The function.
        function: u32,
        /// The instruction.
        pc: u32,
    },
    /// It cannot observe several threads.
    #[error("monitor {}: several threads: {why}", Printable(.monitor))]
    Threads {
        /// Its name.
        monitor: String,
        /// Why not.
        why: String,
    },
    /// Its instance for another thread gives other results about the program.
    #[error("monitor {}: {}: at {place} the instances of several threads find different things", Printable(.monitor), Printable(.export))]
    Differs {
        /// Its name.
        monitor: String,
        /// For which of its exports.
        export: String,
        /// Where in the program.
        place: Box<Place>,
    },
    /// Its failures cannot be kept from the program.
    #[error("monitor {}: it keeps variables of activations, so that its failures cannot be its own: leave on-trap=off out", Printable(.0))]
    Contained(String),
    /// Its failures would leave an instruction without results.
    #[error("monitor {}: it stands in place of instructions, so that its failures cannot be its own: leave on-trap=off out", Printable(.0))]
    Replacing(String),
    /// One of its functions that are not called by probes has failed.
    #[error("monitor {}: {}: {error}", Printable(.monitor), Printable(.export))]
    Export {
        /// Its name.
        monitor: String,
        /// The function's export.
        export: String,
        /// Why.
        error: Box<Error>,
    },
    /// Its report does not end.
    #[error("monitor {}: {}: it does not end", Printable(.monitor), Printable(.export))]
    EndlessReport {
        /// Its name.
        monitor: String,
        /// The function's export.
        export: String,
    },
    /// Two functions would replace one instruction.
    #[error("monitor {}: {}: at {place} {} stands in place of the instruction already", Printable(.monitor), Printable(.export), Printable(.other))]
    Conflict {
        /// Its name.
        monitor: String,
        /// Its export.
        export: String,
        /// The one that was there before.
        other: String,
        /// Where in the program.
        place: Box<Place>,
    },
    /// The program cannot be observed.
    #[error(transparent)]
    Program(Box<Error>),
}

impl ObserverError {
    fn program(error: impl Into<Error>) -> Self {
        Self::Program(Box::new(error.into()))
    }
}

fn list(wrong: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut text = wrong.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("\n");
    if wrong.len() > SHOWN {
        let _ = write!(text, "\nand {} more", wrong.len() - SHOWN);
    }
    text
}
