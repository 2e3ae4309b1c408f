//! The command line, defined once: help, manual pages and completions all come from here.

use crate::command::{attach, compare, ctl, demo, diff, export, merge, report, run};
use clap::{Parser, Subcommand};

/// Low-overhead function profiler with self-disabling probes
///
/// Reports call counts and latency percentiles of every function, on exit or on demand. Programs
/// need not be rebuilt; probes can also be compiled in. Probes are switched on and off in place, in
/// running code, so the cost is low enough to leave profiling on.
#[derive(Debug, Parser)]
#[command(name = "fastinst", version, after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  fastinst demo                         profile a sample, in a few seconds
  fastinst cc -O2 app.c -o app          compile with probes
  fastinst run ./app                    run and profile, print a table at the end
  fastinst run -o app.profile ./app     save the profile
  fastinst attach --for 10s 4711        profile a running process
  fastinst top 4711                     watch a program that is being profiled
  fastinst ctl 4711 only 'parse_*'      control a program that is being profiled
  fastinst report --sort mean app.profile            print a saved profile
  fastinst report --histogram parse app.profile      one function
  fastinst diff base*.profile -- new*.profile        compare saved profiles
  fastinst compare -- ./old -- ./new    run both ten times, compare them
  fastinst doctor ./app                 check this machine and a program

Without this command, LD_PRELOAD=libfastinst.so ./app writes fastinst.PID; each
option of `run` has a variable FASTINST_….
Exit status: 0 success, 1 failure, 2 wrong option; `run` exits with the
program's status (126: it cannot be executed, 127: it does not exist).";

/// `fastinst calibrate` is the command `tmax`, whose own examples would name that.
const CALIBRATION: &str = "\
Examples:
  fastinst calibrate                  measure this machine
  fastinst calibrate --quick --save   calibrate it, once after installing
  fastinst calibrate --full --svg waits.svg     look for rare failures, plot them
  fastinst calibrate --json -o cal.toml | jq .granule

Run it on an idle machine with at least two processors. On a busy machine it
takes the same time and observes less; results with too few observations are
marked. No calibration is written if the granule was not observed.
Exit status: 0 success, 1 failure, 2 wrong option, 130 interrupted (nothing is
written).";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program and profile it
    Run(run::Args),
    /// Profile a running process
    Attach(attach::Args),
    /// Show a live table of a program that is being profiled
    #[cfg(feature = "top")]
    Top(crate::command::top::Args),
    /// Query or control programs that are being profiled; without arguments, list them
    Ctl(ctl::Args),
    /// Print saved profiles
    Report(report::Args),
    /// Add up saved profiles of several processes or machines
    Merge(merge::Args),
    /// Export saved profiles for fleets: Parquet, OpenMetrics, OTLP, Pyroscope, Parca
    Export(export::Args),
    /// Compare saved profiles of two runs, or of several runs of two programs
    Diff(diff::Args),
    /// Run two programs in turn and compare them
    Compare(compare::Args),
    /// List the probes of a program, a library or a process
    Probes(crate::command::probes::Args),
    /// Check this machine and binary for problems
    Doctor(crate::command::doctor::Args),
    /// Compile C with probes, with flags that keep inlining
    #[command(disable_help_flag = true)]
    Cc(crate::command::cc::Args),
    /// Compile C++ with probes
    #[command(name = "c++", disable_help_flag = true)]
    Cxx(crate::command::cc::Args),
    /// Calibrate this machine, once after installing
    #[command(after_help = CALIBRATION, disable_version_flag = true)]
    Calibrate(tmax::Args),
    /// Compile and profile a sample program, and suggest next steps
    Demo(demo::Args),
    /// Print manual pages or shell completions
    Manual(::manual::Manual),
}
