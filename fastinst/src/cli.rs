//! The command line, defined once: help, manual pages and completions all come from here.

use crate::command::{demo, diff, report, run};
use clap::{Parser, Subcommand};

/// Profiles programs whose probes switch themselves off
///
/// Programs are compiled with -finstrument-functions, and tell at their end, or at any moment, how often each function ran and how
/// long it took. The cost is one that can be left on: probes are switched on and off in place, in running code.
#[derive(Debug, Parser)]
#[command(name = "fastinst", version, after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  fastinst demo                                   see it work, in a few seconds
  fastinst cc -O2 app.c -o app                    compile with probes
  fastinst run ./app                              profile it, print a table when it ends
  fastinst run -o app.profile ./app               keep the profile
  fastinst report --sort mean app.profile         look at it again
  fastinst diff before.profile after.profile      what has changed
  fastinst doctor ./app                           what could be better, and how

Without this command: LD_PRELOAD=libfastinst.so ./app writes fastinst.PID; every option of `run` is a variable FASTINST_….
Exit status: 0 done, 1 not done, 2 wrong option; `run` exits as the program does.";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program and profile it
    Run(run::Args),
    /// Print profiles that were kept
    Report(report::Args),
    /// Compare two profiles
    Diff(diff::Args),
    /// List the probes of a program, a library or a process
    Probes(crate::command::probes::Args),
    /// Say what this machine and a program allow, and what to do about it
    Doctor(crate::command::doctor::Args),
    /// Compile C with probes: gcc or clang, with the flags that keep inlining
    #[command(disable_help_flag = true)]
    Cc(crate::command::cc::Args),
    /// Compile C++ with probes
    #[command(name = "c++", disable_help_flag = true)]
    Cxx(crate::command::cc::Args),
    /// Measure this machine, once after installing
    Calibrate(tmax::Args),
    /// Compile a sample program, profile it and say what to try next
    Demo(demo::Args),
    /// The demo's sample, where there is no C compiler
    #[command(hide = true)]
    Sample,
    /// Print manual pages, or completions for a shell
    Manual(::manual::Manual),
}
