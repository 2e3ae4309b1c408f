//! The environment: every key that begins with `FASTINST_`.

use crate::arguments::Question;
use crate::discovery::points::Pair;
use crate::discovery::unmodified::Maker;
use crate::format::Format;
use crate::quantity::{duration, share};
use crate::trigger::{Trigger, TriggerError};
use profiler::Policy;
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Configuration of the preload library.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `FASTINST_POLICY`: `adaptive`, `periodic` (or `paper`), `exact` or `count`.
    pub policy: Policy,
    /// `FASTINST_OUTPUT`: where the profile is written; `%p` is the process ID, `%e` the program's
    /// name.
    pub output: PathBuf,
    /// `FASTINST_FORMAT`: the format of the output.
    pub format: Format,
    /// `FASTINST_INCLUDE`, `FASTINST_EXCLUDE`: patterns of functions, separated by commas.
    pub include: Vec<String>,
    /// See `include`.
    pub exclude: Vec<String>,
    /// `FASTINST_INTERVAL`: how often the profile is written while the program runs.
    pub interval: Option<Duration>,
    /// `FASTINST_FOLLOW`: whether the children of the program are profiled too.
    pub follow: bool,
    /// `FASTINST_SIGNAL`: the signal that requests a snapshot; 0 for none.
    pub signal: i32,
    /// `FASTINST_START` (`on`, `off`) and `FASTINST_ENABLED` (`1`, `0`): whether profiling starts
    /// with the program. If not, the library does nothing until it is attached to.
    pub enabled: bool,
    /// `FASTINST_HANDOVER`: the mapping that `fastinst run` reads the profile from. Set by that
    /// command only.
    pub handover: Option<PathBuf>,
    /// `FASTINST_WITNESS`: how CPU time is attributed.
    pub witness: WitnessChoice,
    /// `FASTINST_PROVIDER`: which functions have probes.
    pub provider: Provider,
    /// `FASTINST_PLANT`: when they get probes. By default, functions that a compiler has prepared
    /// and those that `include` names get them before the program starts, others once they were
    /// seen to run.
    pub plant: Option<InstallTime>,
    /// `FASTINST_CONTROL`: whether the process accepts requests of `fastinst ctl` and `top`.
    pub control: ControlChoice,
    /// `FASTINST_STAYS`: the attached library stays until the process ends or profiling is stopped.
    /// Set by `fastinst ctl` only.
    pub stays: bool,
    /// `FASTINST_PAIRS`: tracepoints to time as start and end, besides those whose names imply it:
    /// `app:load,app:ready`, separated by semicolons.
    pub pairs: Vec<Pair>,
    /// `FASTINST_ARGUMENTS`: arguments to read: `parse_*@arg1/s,retval`, separated by semicolons.
    pub arguments: Vec<Question>,
    /// `FASTINST_DEBUG_FILE`: files of debug information, separated by colons.
    pub debug_files: Vec<PathBuf>,
    /// `FASTINST_START_ON`, `FASTINST_STOP_ON`: events that start and stop recording, separated by
    /// commas. If there are start events, nothing is recorded until one happens.
    pub start_on: Vec<Trigger>,
    /// See `start_on`.
    pub stop_on: Vec<Trigger>,
    /// `FASTINST_UNDER`: patterns of functions; only calls inside their calls are recorded.
    pub under: Vec<String>,
    /// `FASTINST_DEPTH`: only calls down to this depth are recorded.
    pub depth: Option<u32>,
    /// `FASTINST_RUN`: the process ID of `fastinst run`. Set by that command only.
    pub run: Option<i32>,
}

/// Which functions have probes, besides those with compiled-in hooks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Provider {
    /// Functions that a compiler has prepared; if there are none, all functions of the program that
    /// `fastinst run` has started. Not those of its children, of which there may be thousands.
    Auto,
    /// Functions that a compiler has prepared in any way.
    #[default]
    Compiled,
    /// None.
    Hooks,
    /// Functions that a compiler has prepared in one way.
    Only(Maker),
    /// All functions.
    Symbols,
    /// None, but static tracepoints.
    Points,
}

impl Provider {
    const NAMES: [(&str, Self); 8] = [
        ("auto", Self::Auto),
        ("compiled", Self::Compiled),
        ("hooks", Self::Hooks),
        ("patchable", Self::Only(Maker::Patchable)),
        ("xray", Self::Only(Maker::Xray)),
        ("mcount", Self::Only(Maker::Mcount)),
        ("symbols", Self::Symbols),
        ("usdt", Self::Points),
    ];
    const EXPECTED: &str = "auto, compiled, hooks, patchable, xray, mcount, symbols or usdt";

    /// Whether functions get probes that a compiler has prepared so.
    pub(crate) fn takes(self, maker: Maker) -> bool {
        match self {
            Self::Auto | Self::Compiled | Self::Symbols => true,
            Self::Hooks | Self::Points => false,
            Self::Only(only) => only == maker,
        }
    }
}

impl Config {
    /// Whether functions get their probes before the program begins, that a compiler has prepared
    /// so, or not at all. Functions that were asked for by name are few, and may never be seen.
    pub(crate) fn installs_before_run(&self, maker: Option<Maker>) -> bool {
        match self.plant {
            Some(InstallTime::All) => true,
            Some(InstallTime::Seen) => false,
            None => maker.is_some() || !self.include.is_empty(),
        }
    }

    /// Whether functions get probes that no compiler has prepared, in a child of `parent` in which
    /// others have some, or none has.
    pub(crate) fn takes_any(&self, has_others: bool, parent: i32) -> bool {
        match self.provider {
            Provider::Compiled | Provider::Hooks | Provider::Only(_) | Provider::Points => false,
            Provider::Auto => !has_others && self.run.is_none_or(|run| run == parent),
            Provider::Symbols => true,
        }
    }
}

impl FromStr for Provider {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let named = Self::NAMES.into_iter().find(|(name, _)| *name == text);
        named.map(|(_, provider)| provider).ok_or(())
    }
}

/// When functions without compiled-in hooks get probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstallTime {
    /// Once they were seen to run.
    Seen,
    /// Before the program starts.
    All,
}

impl FromStr for InstallTime {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "seen" => Ok(Self::Seen),
            "all" => Ok(Self::All),
            _ => Err(()),
        }
    }
}

/// Whether there is a control socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControlChoice {
    /// If possible; not under a system-call filter that was installed before the program started.
    #[default]
    Auto,
    /// Even under such a filter; one line gives the reason if there is none.
    On,
    /// No.
    Off,
}

impl FromStr for ControlChoice {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "auto" => Ok(Self::Auto),
            "on" => Ok(Self::On),
            "off" => Ok(Self::Off),
            _ => Err(()),
        }
    }
}

/// How CPU time is attributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WitnessChoice {
    /// The kernel's clock, or the calls being timed where it is refused.
    #[default]
    Auto,
    /// The kernel's clock, or nothing.
    Kernel,
    /// The calls being timed, as the agent sees them.
    Frames,
    /// Nothing.
    None,
}

impl FromStr for WitnessChoice {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "auto" => Ok(Self::Auto),
            "kernel" => Ok(Self::Kernel),
            "frames" => Ok(Self::Frames),
            "none" => Ok(Self::None),
            _ => Err(()),
        }
    }
}

/// An error in the environment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// An unknown key.
    #[error("unknown key {key}{}: the keys are {}", crate::spelling::question(.key, KEYS), KEYS.join(", "))]
    UnknownKey {
        /// The key.
        key: String,
    },
    /// No trigger.
    #[error("{key}={value}: {error}")]
    Trigger {
        /// The key.
        key: &'static str,
        /// What it was given.
        value: String,
        /// What is wrong with it.
        error: TriggerError,
    },
    /// An invalid value.
    #[error("{key}={value} is not {expected}")]
    Value {
        /// The key.
        key: String,
        /// What it was given.
        value: String,
        /// What it takes.
        expected: &'static str,
    },
}

/// All keys that users may set.
const KEYS: &[&str] = &[
    "FASTINST_POLICY",
    "FASTINST_BUDGET",
    "FASTINST_SAMPLES",
    "FASTINST_EPOCH",
    "FASTINST_OUTPUT",
    "FASTINST_FORMAT",
    "FASTINST_INCLUDE",
    "FASTINST_EXCLUDE",
    "FASTINST_INTERVAL",
    "FASTINST_FOLLOW",
    "FASTINST_SIGNAL",
    "FASTINST_ENABLED",
    "FASTINST_START",
    "FASTINST_WITNESS",
    "FASTINST_PROVIDER",
    "FASTINST_PLANT",
    "FASTINST_CONTROL",
    "FASTINST_PAIRS",
    "FASTINST_ARGUMENTS",
    "FASTINST_DEBUG_FILE",
    "FASTINST_START_ON",
    "FASTINST_STOP_ON",
    "FASTINST_UNDER",
    "FASTINST_DEPTH",
];

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            output: PathBuf::from("fastinst.%p"),
            format: Format::Profile,
            include: Vec::new(),
            exclude: Vec::new(),
            interval: None,
            follow: true,
            signal: libc::SIGUSR2,
            enabled: true,
            handover: None,
            witness: WitnessChoice::Auto,
            provider: Provider::Compiled,
            plant: None,
            control: ControlChoice::Auto,
            stays: false,
            pairs: Vec::new(),
            arguments: Vec::new(),
            debug_files: Vec::new(),
            start_on: Vec::new(),
            stop_on: Vec::new(),
            under: Vec::new(),
            depth: None,
            run: None,
        }
    }
}

impl Config {
    /// From the environment. A privileged process (setuid) ignores it: it gets the defaults,
    /// switched off.
    pub fn from_env() -> Result<Self, ConfigError> {
        if wordpatch::os::is_privileged() {
            return Ok(Self { enabled: false, ..Self::default() });
        }
        Self::from_vars(std::env::vars_os())
    }

    /// From these variables; variables without our prefix are ignored.
    pub fn from_vars(
        vars: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        let mut tuning = Tuning::default();
        for (key, value) in vars {
            let Some(key) = key.to_str().filter(|key| key.starts_with("FASTINST_")) else {
                continue;
            };
            config.take(key, &value.to_string_lossy(), &mut tuning)?;
        }
        config.policy = tuning.apply(config.policy)?;
        if config.triggers().any(|trigger| *trigger == Trigger::Signal(config.signal)) {
            config.signal = 0;
        }
        Ok(config)
    }

    /// What begins recording, and what ends it.
    pub fn triggers(&self) -> impl Iterator<Item = &Trigger> {
        self.start_on.iter().chain(&self.stop_on)
    }

    fn take(&mut self, key: &str, value: &str, tuning: &mut Tuning) -> Result<(), ConfigError> {
        let given = Given { key, value };
        match key {
            "FASTINST_POLICY" => {
                self.policy = given.parsed("adaptive, periodic, exact or count")?;
            }
            "FASTINST_BUDGET" => {
                tuning.budget = Some(given.read(share(value), "a share such as 1% or 0.01")?);
            }
            "FASTINST_SAMPLES" => tuning.samples = Some(given.positive()?),
            "FASTINST_EPOCH" => {
                let epoch = duration(value).filter(|epoch| !epoch.is_zero());
                tuning.epoch = Some(given.read(epoch, "a time such as 10ms")?);
            }
            "FASTINST_OUTPUT" => {
                let path = (!value.is_empty()).then(|| PathBuf::from(value));
                self.output = given.read(path, "a path")?;
            }
            "FASTINST_FORMAT" => {
                self.format = given.parsed("profile, table, json, csv, folded, pprof or gprof")?;
            }
            "FASTINST_INCLUDE" => self.include = list(value),
            "FASTINST_EXCLUDE" => self.exclude = list(value),
            "FASTINST_INTERVAL" => {
                let interval = duration(value).filter(|time| *time >= Duration::from_millis(10));
                self.interval = Some(given.read(interval, "a time of 10ms or more")?);
            }
            "FASTINST_FOLLOW" => {
                self.follow = given.either("children", "none", "children or none")?;
            }
            "FASTINST_SIGNAL" => {
                self.signal = given.read(signal(value), "a signal's name or number, or 0")?;
            }
            "FASTINST_ENABLED" => self.enabled &= given.either("1", "0", "0 or 1")?,
            "FASTINST_START" => self.enabled &= given.either("on", "off", "on or off")?,
            "FASTINST_HANDOVER" => self.handover = Some(PathBuf::from(value)),
            "FASTINST_WITNESS" => self.witness = given.parsed("auto, kernel, frames or none")?,
            "FASTINST_PROVIDER" => self.provider = given.parsed(Provider::EXPECTED)?,
            "FASTINST_PLANT" => self.plant = Some(given.parsed("seen or all")?),
            "FASTINST_CONTROL" => self.control = given.parsed("auto, on or off")?,
            "FASTINST_STAYS" => self.stays = true,
            "FASTINST_PAIRS" => {
                let pairs = value.split(';').map(str::parse).collect::<Result<_, _>>();
                let expected = "two points such as app:load,app:ready; more behind ;";
                self.pairs = given.read(pairs.ok(), expected)?;
            }
            "FASTINST_ARGUMENTS" => {
                let questions = Question::several(value).ok();
                let expected = "of the form 'parse_*@arg1/s,retval;other@arg2'";
                self.arguments = given.read(questions, expected)?;
            }
            "FASTINST_DEBUG_FILE" => self.debug_files = std::env::split_paths(value).collect(),
            "FASTINST_START_ON" => self.start_on = triggers("FASTINST_START_ON", value)?,
            "FASTINST_STOP_ON" => self.stop_on = triggers("FASTINST_STOP_ON", value)?,
            "FASTINST_UNDER" => self.under = list(value),
            "FASTINST_DEPTH" => self.depth = Some(given.positive()?),
            "FASTINST_RUN" => self.run = Some(given.parsed("a process")?),
            // The compiler wrappers' own.
            "FASTINST_CC" | "FASTINST_CXX" => {}
            _ => return Err(ConfigError::UnknownKey { key: key.to_owned() }),
        }
        Ok(())
    }
}

/// A variable of the environment.
#[derive(Clone, Copy)]
struct Given<'a> {
    key: &'a str,
    value: &'a str,
}

impl Given<'_> {
    /// What was read from the value, if that was what is expected.
    fn read<T>(self, read: Option<T>, expected: &'static str) -> Result<T, ConfigError> {
        read.ok_or_else(|| ConfigError::Value {
            key: self.key.to_owned(),
            value: self.value.to_owned(),
            expected,
        })
    }

    fn parsed<T: FromStr>(self, expected: &'static str) -> Result<T, ConfigError> {
        self.read(self.value.parse().ok(), expected)
    }

    fn positive(self) -> Result<u32, ConfigError> {
        self.read(self.value.parse().ok().filter(|&number| number > 0), "a number above 0")
    }

    fn either(self, yes: &str, no: &str, expected: &'static str) -> Result<bool, ConfigError> {
        let said = match self.value {
            value if value == yes => Some(true),
            value if value == no => Some(false),
            _ => None,
        };
        self.read(said, expected)
    }
}

/// Parameters of a policy, which come before or after its name.
#[derive(Default)]
struct Tuning {
    budget: Option<f64>,
    samples: Option<u32>,
    epoch: Option<Duration>,
}

impl Tuning {
    fn apply(self, policy: Policy) -> Result<Policy, ConfigError> {
        let only = |key: &str, value: String, expected| {
            Err(ConfigError::Value { key: key.to_owned(), value, expected })
        };
        match policy {
            Policy::Adaptive { budget } => match (self.samples, self.epoch) {
                (Some(n), _) => {
                    only("FASTINST_SAMPLES", n.to_string(), "for this policy: it belongs to paper")
                }
                (_, Some(epoch)) => only(
                    "FASTINST_EPOCH",
                    format!("{epoch:?}"),
                    "for this policy: it belongs to paper",
                ),
                (None, None) => Ok(Policy::Adaptive { budget: self.budget.unwrap_or(budget) }),
            },
            Policy::Paper { samples, epoch_ms } => Ok(Policy::Paper {
                samples: self.samples.unwrap_or(samples),
                epoch_ms: self.epoch.map_or(epoch_ms, |epoch| epoch.as_secs_f64() * 1e3),
            }),
            other => Ok(other),
        }
    }
}

/// Patterns that commas separate. Those within a regular expression belong to it.
fn list(text: &str) -> Vec<String> {
    let mut patterns: Vec<String> = Vec::new();
    for part in text.split(',') {
        match patterns.last_mut().filter(|last| is_open(last)) {
            Some(last) => *last = format!("{last},{part}"),
            None if part.is_empty() => {}
            None => patterns.push(part.to_owned()),
        }
    }
    patterns
}

/// Triggers, likewise.
fn triggers(key: &'static str, text: &str) -> Result<Vec<Trigger>, ConfigError> {
    let wrong = |error| ConfigError::Trigger { key, value: text.to_owned(), error };
    list(text).iter().map(|one| one.parse().map_err(wrong)).collect()
}

/// Whether a pattern is the beginning of a regular expression.
fn is_open(pattern: &str) -> bool {
    pattern.starts_with('/') && (pattern.len() == 1 || !pattern.ends_with('/'))
}

/// A signal that may be taken for the report, by name or number.
fn signal(text: &str) -> Option<i32> {
    let known = [
        ("HUP", libc::SIGHUP),
        ("USR1", libc::SIGUSR1),
        ("USR2", libc::SIGUSR2),
        ("QUIT", libc::SIGQUIT),
    ];
    let name = text.strip_prefix("SIG").unwrap_or(text);
    let by_name = known.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    let number = by_name.or_else(|| text.parse().ok())?;
    let usable = number == 0
        || (number > 0
            && number <= 64
            && ![libc::SIGKILL, libc::SIGSTOP, libc::SIGTRAP].contains(&number));
    usable.then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(vars: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::from_vars(
            vars.iter().map(|(key, value)| (OsString::from(key), OsString::from(value))),
        )
    }

    #[test]
    fn signals_have_names_and_numbers() {
        assert_eq!(
            (signal("SIGUSR1"), signal("12"), signal("0")),
            (Some(libc::SIGUSR1), Some(12), Some(0))
        );
    }

    #[test]
    fn other_peoples_variables_are_passed_over() {
        assert_eq!(
            from(&[("PATH", "/bin"), ("FAST", "1"), ("FASTINST_CC", "gcc")]),
            Ok(Config::default())
        );
    }

    #[test]
    fn a_policy_and_its_parameters_come_in_any_order() {
        let paper = Policy::Paper { samples: 5, epoch_ms: 20.0 };
        let keys =
            [("FASTINST_EPOCH", "20ms"), ("FASTINST_POLICY", "paper"), ("FASTINST_SAMPLES", "5")];
        assert_eq!(from(&keys).unwrap().policy, paper);
        assert_eq!(
            from(&[("FASTINST_BUDGET", "2%")]).unwrap().policy,
            Policy::Adaptive { budget: 0.02 }
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_right() {
        let wrong = |key, value| from(&[(key, value)]).unwrap_err().to_string();
        assert!(
            wrong("FASTINST_POLCY", "x")
                .starts_with("unknown key FASTINST_POLCY; did you mean FASTINST_POLICY?: the keys are FASTINST_POLICY,")
        );
        assert_eq!(wrong("FASTINST_FOLLOW", "all"), "FASTINST_FOLLOW=all is not children or none");
        for (key, value) in [
            ("FASTINST_BUDGET", "200%"),
            ("FASTINST_INTERVAL", "5"),
            ("FASTINST_INTERVAL", "1ms"),
            ("FASTINST_SIGNAL", "KILL"),
            ("FASTINST_SIGNAL", "9"),
            ("FASTINST_EPOCH", "-1ms"),
            ("FASTINST_SAMPLES", "0"),
            ("FASTINST_OUTPUT", ""),
            ("FASTINST_ENABLED", "yes"),
            ("FASTINST_START", "later"),
            ("FASTINST_POLICY", "best"),
            ("FASTINST_FORMAT", "xml"),
            ("FASTINST_WITNESS", "timer"),
            ("FASTINST_PROVIDER", "all"),
            ("FASTINST_PLANT", "now"),
            ("FASTINST_CONTROL", "yes"),
            ("FASTINST_START_ON", "SIGKILL"),
            ("FASTINST_STOP_ON", "5"),
            ("FASTINST_DEPTH", "0"),
        ] {
            assert!(wrong(key, value).contains(key), "{key}={value}");
        }
    }

    #[test]
    fn unmodified_code_gets_probes_where_it_was_asked_for() {
        let taken = |provider, has_others, parent| {
            let config = from(&[("FASTINST_PROVIDER", provider), ("FASTINST_RUN", "7")]).unwrap();
            config.takes_any(has_others, parent)
        };
        assert!(taken("auto", false, 7) && !taken("auto", true, 7) && !taken("auto", false, 8));
        assert!(taken("symbols", true, 8) && !taken("hooks", false, 7));
        assert!(!taken("compiled", false, 7) && !taken("xray", false, 7));
        assert!(!Config::default().takes_any(false, 1), "preloaded alone");
        let makers = |provider: Provider| {
            [Maker::Patchable, Maker::Xray, Maker::Mcount].map(|maker| provider.takes(maker))
        };
        assert_eq!(makers(Config::default().provider), [true; 3]);
        assert_eq!(makers("auto".parse().unwrap()), [true; 3]);
        assert_eq!(makers("xray".parse().unwrap()), [false, true, false]);
        assert_eq!(makers("hooks".parse().unwrap()), [false; 3]);
        assert!(Provider::NAMES.iter().all(|(name, _)| Provider::EXPECTED.contains(name)));
    }

    #[test]
    fn a_signal_that_switches_recording_asks_for_no_profile() {
        let config = from(&[("FASTINST_START_ON", "parse_*,2s"), ("FASTINST_STOP_ON", "SIGUSR2")]);
        let config = config.unwrap();
        assert_eq!(config.start_on.len(), 2);
        assert_eq!((config.stop_on, config.signal), (vec![Trigger::Signal(libc::SIGUSR2)], 0));
        assert_eq!(from(&[("FASTINST_STOP_ON", "SIGUSR1")]).unwrap().signal, libc::SIGUSR2);
    }

    #[test]
    fn what_was_asked_for_by_name_gets_its_probes_before_the_program_begins() {
        let before = |keys: &[(&'static str, &str)]| {
            let config = from(keys).unwrap();
            [None, Some(Maker::Xray)].map(|maker| config.installs_before_run(maker))
        };
        assert_eq!(before(&[]), [false, true]);
        assert_eq!(before(&[("FASTINST_INCLUDE", "main")]), [true, true]);
        assert_eq!(before(&[("FASTINST_PLANT", "all")]), [true, true]);
        let seen = [("FASTINST_PLANT", "seen"), ("FASTINST_INCLUDE", "main")];
        assert_eq!(before(&seen), [false, false]);
    }

    #[test]
    fn commas_separate_patterns_but_not_within_an_expression() {
        assert_eq!(list("a*,,/x{1,2}/,@lib"), ["a*", "/x{1,2}/", "@lib"]);
        assert_eq!(list("/open,end"), ["/open,end"]);
        assert!(list("").is_empty());
    }
}
