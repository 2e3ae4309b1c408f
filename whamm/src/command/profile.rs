//! `whamm profile`: a program that keeps its own profile.

use super::{map, write};
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
    /// The program, in binary or text.
    app: PathBuf,
    /// Where the output goes.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Write the profile to this file when the program ends, instead of printing it: a path as the
    /// program sees it, in a folder that the engine lets it write to.
    #[arg(long, value_name = "FILE")]
    to: Option<String>,
    /// Report whenever a function returns that the host has called, not only at the end.
    #[arg(long)]
    force_print: bool,
    /// Where time comes from: WASI's clock, the host's `prof.getTime`, or nowhere (counts only). By
    /// default WASI's, if the program uses WASI.
    #[arg(long, value_enum, value_name = "CLOCK")]
    clock: Option<ClockName>,
    /// Hand the profile to the host, arc by arc, by functions that it offers as the module `prof`,
    /// whenever a function returns that it has called: `prof`. Time is `prof.getTime`'s then.
    #[arg(long, value_enum, value_name = "API", conflicts_with = "to")]
    host_api: Option<HostApi>,
    /// Write a script for browsers and node that offers them, and prints what it was told.
    #[arg(long, value_name = "FILE", requires = "host_api")]
    glue: Option<PathBuf>,
    /// Time short functions, too. By default calls of which timing would be more than a fiftieth
    /// are counted, and their time is their caller's.
    #[arg(long)]
    time_all: bool,
    /// Count functions of fewer instructions, and do not time them.
    #[arg(long, value_name = "N")]
    min_size: Option<u32>,
    /// Count functions whose names match, and do not time them; may be given several times.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// How many functions are printed.
    #[arg(long, value_name = "N", default_value_t = 40)]
    top: u32,
    /// How much memory the profile may take. Where there is no room for further contexts, calls are
    /// counted without these.
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
    /// The functions `prof.getTime`, `clearResults`, `addArcData`, `setArcData`, `printResults`.
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
