//! `wasm-aot reduce`

use super::output::TraceFile;
use super::replay::recorded_module;
use super::traces::Events;
use super::{Failure, print};
use clap::Args;
use std::path::PathBuf;
use wasm_aot::trace::{Effect, Reduced, Writer};

/// Remove redundant events from a raw recording
///
/// `whamm record --raw` records every access and every function entry. This command keeps only what
/// the host has done, which is the trace that is written without --raw. It reports the effect for
/// each kind of event.
#[derive(Debug, Args)]
pub(crate) struct Reduce {
    /// Output file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The recording
    trace: PathBuf,
    /// The recorded module, if the recording does not contain it
    module: Option<PathBuf>,
}

impl Reduce {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let events = Events::open(&self.trace)?;
        let program = events.program().clone();
        let module = recorded_module(&program, &self.trace, self.module.as_deref())?;
        let failed = |error: &dyn std::fmt::Display| {
            Failure::new(format!("{}: {error}", self.trace.display()))
        };
        let mut reduced = Reduced::new(&module, events).map_err(|error| failed(&error))?;
        let file = TraceFile::whole(&self.output)?;
        let mut writer = Writer::new(file, &program)
            .map_err(|error| Failure::new(format!("{}: {error}", self.output.display())))?;
        for event in &mut reduced {
            writer.push(&event.map_err(|error| failed(&error))?);
        }
        let (events, effect) = reduced.into_inner();
        writer.flush();
        let mut failed = writer.failure().map(ToString::to_string);
        if let Some(ending) = events.ending() {
            // If the recording was cut off, the end of the reduced one says so, too.
            writer.stop(ending);
        }
        let (_, mut file, incomplete) = writer.finish();
        if events.ending().is_none() {
            failed = failed.or(incomplete.map(|error| error.to_string()));
        }
        match failed {
            Some(why) => return Err(Failure::new(format!("{}: {why}", self.output.display()))),
            None => file.place()?,
        }
        print(told(&effect))
    }
}

/// Formats a line for each kind of event.
fn told(effect: &Effect) -> String {
    let mut lines = format!("{:>14}  {:>14}  {:>8}\n", "events", "kept", "removed");
    let mut line = |name: &str, (before, after): (u64, u64)| {
        let left = if before == 0 { 1.0 } else { after as f64 / before as f64 };
        let removed = (1.0 - left) * 100.0;
        lines += &format!("{before:>14}  {after:>14}  {removed:>7.3}%  {name}\n");
    };
    effect.iter().for_each(|(name, counts)| line(name, *counts));
    let sum = |(a, b): (u64, u64), (c, d): &(u64, u64)| (a + c, b + d);
    line("all", effect.values().fold((0, 0), sum));
    lines
}
