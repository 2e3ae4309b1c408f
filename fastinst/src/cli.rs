//! The command line, defined once: help, manual pages and completions all come from here.

use crate::command::{attach, compare, ctl, demo, diff, export, merge, report, run};
use clap::{Parser, Subcommand};

/// Low-overhead function profiler with self-disabling probes
///
/// Programs are compiled with -finstrument-functions, and report call counts and latencies on exit
/// or on demand. The cost is low enough to leave it on: probes are switched on and off in place, in
/// running code.
#[derive(Debug, Parser)]
#[command(name = "fastinst", version, after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  fastinst demo                         see it work, in a few seconds
  fastinst cc -O2 app.c -o app          compile with probes
  fastinst run ./app                    profile it, print a table when it ends
  fastinst run -o app.profile ./app     keep the profile
  fastinst attach --for 10s 4711        profile what runs already
  fastinst top 4711                     watch a program that is being profiled
  fastinst ctl 4711 only 'parse_*'      steer a program that is being profiled
  fastinst report --sort mean app.profile            look at it again
  fastinst report --histogram parse app.profile      one function
  fastinst diff base*.profile -- new*.profile        what has changed
  fastinst compare -- ./old -- ./new    run both ten times, print what differs
  fastinst doctor ./app                 what could be better, and how

Without this command: LD_PRELOAD=libfastinst.so ./app writes fastinst.PID; every
option of `run` is a variable FASTINST_….
Exit status: 0 done, 1 not done, 2 wrong option; `run` exits as the program does
(126: it cannot be executed, 127: there is none).";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program and profile it
    Run(run::Args),
    /// Profile a process that runs already
    Attach(attach::Args),
    /// Watch a program in the terminal, as a table that changes
    #[cfg(feature = "top")]
    Top(crate::command::top::Args),
    /// Ask or steer a program that is being profiled; alone: list them
    Ctl(ctl::Args),
    /// Print saved profiles
    Report(report::Args),
    /// Add saved profiles up, of several processes or machines
    Merge(merge::Args),
    /// Write or send saved profiles for fleets: Parquet, OpenMetrics, OTLP, Pyroscope, Parca
    Export(export::Args),
    /// Compare saved profiles: of two runs, or of several runs each of two programs
    Diff(diff::Args),
    /// Run two programs in turn and compare them
    Compare(compare::Args),
    /// List the probes of a program, a library or a process
    Probes(crate::command::probes::Args),
    /// Check this machine and binary for problems
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
    /// Print manual pages, or completions for a shell
    Manual(::manual::Manual),
}
