//! `whamm profile`: a program that keeps its own profile.

use super::{map, write};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use whamm::{Diagnostics, Kind};
use whamm_profile::{Clock, Glob, Options};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  whamm profile app.wasm -o p.wasm               p.wasm prints it when it ends
  whamm profile app.wasm -o p.wasm --to app.profile    for `fastinst report`
  whamm profile app.wasm -o p.wasm --exclude 'std::*'  count these, no time")]
pub(super) struct Profile {
    /// The program, in binary or text format.
    app: PathBuf,
    /// Output file.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Write the profile to this file when the program ends, instead of printing it: a path as the
    /// program sees it, in a folder that it may write to.
    #[arg(long, value_name = "FILE", value_parser = NonEmptyStringValueParser::new())]
    to: Option<String>,
    /// Report whenever a function that the host called returns, not only at the end.
    #[arg(long)]
    force_print: bool,
    /// Time source: WASI's clock, the host's `prof.getTime`, or none (counts only). Default: WASI's
    /// clock, if the program uses WASI.
    #[arg(long, value_enum, value_name = "CLOCK")]
    clock: Option<ClockName>,
    /// Report the profile to the host through functions imported from the module `prof`, arc by
    /// arc, whenever a function that the host called returns. `prof.getTime` is then the time
    /// source.
    #[arg(long, value_enum, value_name = "API", conflicts_with = "to")]
    host_api: Option<HostApi>,
    /// Write a script for browsers and node that provides these functions and prints the profile.
    #[arg(long, value_name = "FILE", requires = "host_api")]
    glue: Option<PathBuf>,
    /// Time short calls, too. By default, a call whose timing would take more than a fiftieth of
    /// its time is only counted, and its time is part of its caller's self time.
    #[arg(long)]
    time_all: bool,
    /// Count, but do not time, functions of fewer instructions.
    #[arg(long, value_name = "N")]
    min_size: Option<u32>,
    /// Count, but do not time, functions whose names match (may be repeated).
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Number of functions to print.
    #[arg(long, value_name = "N", default_value_t = 40)]
    top: u32,
    /// Memory limit of the profile. Beyond it, calls in new contexts are counted without their
    /// context.
    #[arg(long, value_name = "MEGABYTES", default_value_t = 256,
        value_parser = clap::value_parser!(u32).range(1..=2048))]
    memory: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ClockName {
    Wasi,
    Prof,
    None,
}

/// How a host has the profile.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum HostApi {
    /// WasmProf's functions: `prof.getTime`, `clearResults`, `addArcData`, `setArcData`,
    /// `printResults`.
    Prof,
}

fn wrong(kind: Kind, what: &dyn std::fmt::Display) -> Diagnostics {
    Diagnostics::general(kind, what.to_string())
}

impl Profile {
    pub(super) fn run(&self) -> Result<Diagnostics, Diagnostics> {
        let module = super::module(&self.app)?;
        let name = self.app.display().to_string();
        let exclude = self.exclude.iter().map(|glob| glob.parse::<Glob>());
        let exclude =
            exclude.collect::<Result<_, _>>().map_err(|e| wrong(Kind::GeneralError, &e))?;
        let options = Options {
            name: name.clone(),
            clock: self.clock.map(|clock| match clock {
                ClockName::Wasi => Clock::Wasi,
                ClockName::Prof => Clock::Prof,
                ClockName::None => Clock::None,
            }),
            file: self.to.clone(),
            force_print: self.force_print,
            host_api: self.host_api.is_some(),
            time_all: self.time_all,
            min_size: self.min_size,
            exclude,
            source_map: map::beside(&self.app, &module, &self.output),
            top: self.top,
            memory: self.memory,
        };
        let profiled = whamm_profile::profile(&module, &options)
            .map_err(|error| wrong(Kind::GeneralError, &format!("{name}: {error}")))?;
        write(&self.output, &profiled.module)?;
        map::put(&self.output, profiled.source_map.as_ref())?;
        if let Some(glue) = &self.glue {
            write(glue, whamm_profile::GLUE.as_bytes())?;
        }
        for note in profiled.notes {
            super::note(format_args!("{name}: {note}"));
        }
        Ok(Diagnostics::default())
    }
}
