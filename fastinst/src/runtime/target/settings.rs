//! The settings of the process: those of its environment, until `fastinst attach` or a request to
//! the control socket changes them.
//!
//! # Safety
//!
//! This module reads settings that are never freed.
#![allow(unsafe_code)]

use crate::config::Config;
use crate::runtime::measure::{self, Instants};
use crate::runtime::{arguments, modes, spans};
use crate::selection::Selector;
use crate::symbols::use_debug_files;
use crate::trigger::Trigger;
use profiler::Clock;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release};
use wordpatch::{Policy, os};

/// The user's settings.
pub(in crate::runtime) type Settings = (Config, Policy, Option<Selector>);

/// Settings of the process, made at the beginning.
pub(super) struct TargetSettings {
    pub(super) config: Config,
    pub(super) policy: Policy,
    pub(super) clock: Clock,
    pub(super) selector: Option<Selector>,
    /// Functions that begin recording, and those that end it.
    pub(super) starting: Option<Selector>,
    pub(super) stopping: Option<Selector>,
    /// Functions that open a scope.
    pub(super) under: Option<Selector>,
    /// The program's working directory when it was started: relative paths of output are relative
    /// to it.
    pub(super) directory: PathBuf,
    /// Where its user's sockets are: the program may change its environment later.
    pub(super) sockets: PathBuf,
}

/// Null before the beginning. Replaced each time that the profiler is attached, and never freed:
/// threads may be reading it.
static SETTINGS: AtomicPtr<TargetSettings> = AtomicPtr::new(std::ptr::null_mut());

/// The settings of the environment, `None` if the profiler is disabled; or one line that says why
/// they are invalid.
pub(super) fn settings() -> Result<Option<Settings>, String> {
    let config = Config::from_env().map_err(|error| error.to_string())?;
    if !config.enabled {
        return Ok(None);
    }
    let policy = wordpatch::Config::from_env()
        .and_then(|config| config.policy())
        .map_err(|error| error.to_string())?;
    let selector =
        Selector::of(&config.include, &config.exclude).map_err(|error| error.to_string())?;
    use_debug_files(&config.debug_files);
    Ok(Some((config, policy, selector)))
}

/// Makes these settings the current ones.
pub(in crate::runtime) fn use_settings(settings: Settings, start: Instants) -> Result<(), String> {
    let (config, policy, selector) = settings;
    if config.policy == profiler::Policy::Exact {
        modes::time_every_call();
    }
    arguments::ask(&config.arguments);
    let clock = measure::clock(start);
    let directory = std::env::current_dir().unwrap_or_default();
    let sockets = os::sockets::name_of_folder();
    TargetSettings::publish((config, policy, selector), clock, (directory, sockets))?;
    spans::apply_settings(self::config())
}

impl TargetSettings {
    /// Makes settings the current ones. `places`: the working directory, and where sockets are.
    fn publish(settings: Settings, clock: Clock, places: (PathBuf, PathBuf)) -> Result<(), String> {
        let (config, policy, selector) = settings;
        let [starting, stopping, under] = Self::special_selectors(&config)?;
        let (directory, sockets) = places;
        let settings =
            Self { config, policy, clock, selector, starting, stopping, under, directory, sockets };
        SETTINGS.store(Box::into_raw(Box::new(settings)), Release);
        Ok(())
    }

    /// Functions that begin recording, those that end it, and those that open a scope.
    fn special_selectors(config: &Config) -> Result<[Option<Selector>; 3], String> {
        let selector_of =
            |patterns: &[String]| Selector::of(patterns, &[]).map_err(|error| error.to_string());
        let functions = |triggers: &[Trigger]| {
            selector_of(&triggers.iter().filter_map(Trigger::pattern).collect::<Vec<_>>())
        };
        Ok([functions(&config.start_on)?, functions(&config.stop_on)?, selector_of(&config.under)?])
    }
}

/// Changes the current settings; or returns why not. By the agent.
pub(in crate::runtime) fn change_settings(change: impl FnOnce(&mut Config)) -> Result<(), String> {
    let before = current();
    let mut config = before.config.clone();
    change(&mut config);
    let selector =
        Selector::of(&config.include, &config.exclude).map_err(|error| error.to_string())?;
    let places = (before.directory.clone(), before.sockets.clone());
    TargetSettings::publish((config, before.policy, selector), before.clock, places)
}

pub(super) fn current() -> &'static TargetSettings {
    // SAFETY: (1) null, or made by `use_settings` and never freed.
    let settings = unsafe { SETTINGS.load(Acquire).as_ref() };
    settings.unwrap_or_else(|| unreachable!("the agent is started when this is set"))
}

pub(in crate::runtime) fn config() -> &'static Config {
    &current().config
}

pub(in crate::runtime) fn policy() -> &'static Policy {
    &current().policy
}

pub(in crate::runtime) fn clock() -> Clock {
    current().clock
}

/// Where the sockets of this user's processes are.
pub(in crate::runtime) fn folder_of_sockets() -> &'static Path {
    &current().sockets
}
