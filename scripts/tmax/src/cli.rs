//! The command line, defined once: its help, manual page and completions all come from here.

use crate::plan::Plan;
use clap::Parser;
use manual::Colors;
use std::path::PathBuf;
use std::time::Duration;

/// Calibrates this machine for patching of running code
///
/// Measures how many aligned bytes instruction fetch sees whole (the granule), how often the
/// literature's protocol of breakpoint and wait is torn for each wait (T_max), and what patching
/// costs. --save or -o writes a calibration, which wordpatch uses on request, and only on the
/// machine on which it was made.
#[derive(Clone, Debug, Parser)]
#[command(name = "tmax", version, after_help = EXAMPLES)]
pub struct Args {
    /// Run for about twenty seconds: few waits, few toggles (the default)
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,

    /// Run for about twenty minutes: every wait, three numbers of executing threads
    #[arg(long)]
    pub full: bool,

    /// Run for about this many seconds instead
    #[arg(long, value_name = "N", value_parser = seconds)]
    pub seconds: Option<Duration>,

    /// Save the calibration where wordpatch looks for it: fastinst/tmax.toml in $XDG_CONFIG_HOME or
    /// ~/.config
    #[arg(long, conflicts_with = "output")]
    pub save: bool,

    /// Write the calibration to this file; without this and --save no file is written
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,

    /// When there are colours.
    #[command(flatten)]
    pub colors: Colors,

    /// Plot tear rate by wait as SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tmax                            measure this machine
  tmax --save                     calibrate it, once after installation
  tmax --full --svg waits.svg     look for rare failures and plot them
  tmax --json -o cal.toml | jq .granule
  tmax manual | man -l -

Run it on an idle machine with at least two processors. On a busy machine it
takes the same time and observes less; results with too few observations are
marked. No calibration is written if the granule was not observed.
Exit status: 0 success, 1 failure, 2 wrong option, 130 interrupted (nothing is
written).";

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "give a number".to_owned())?;
    // A shorter time leaves cells without a toggle; a longer one is a typing error.
    if !(0.5..=864_000.0).contains(&seconds) {
        return Err("give between 0.5 and 864000 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

impl Args {
    /// The requested plan.
    pub fn plan(&self) -> Plan {
        match (self.full, self.seconds) {
            (true, seconds) => Plan::full(seconds.unwrap_or(Duration::from_secs(20 * 60))),
            (false, seconds) => Plan::quick(seconds.unwrap_or(Duration::from_secs(20))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn what_is_asked_for_is_planned() {
        let plan = |args: &[&str]| {
            Args::try_parse_from([&["tmax"], args].concat()).map(|args| args.plan()).ok()
        };
        assert_eq!(plan(&[]), plan(&["--quick"]));
        assert_eq!(plan(&["--full"]).unwrap().total().as_secs(), 1200);
        assert_eq!(plan(&["--seconds", "2"]).unwrap().total().as_secs_f64().round(), 2.0);
        for wrong in
            [&["--quick", "--full"][..], &["--seconds", "0"], &["--seconds", "nan"], &["extra"]]
        {
            assert_eq!(plan(wrong), None, "{wrong:?}");
        }
    }
}
