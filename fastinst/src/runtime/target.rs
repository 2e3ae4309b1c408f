//! The target process: how the preload library enters a program, lives through its forks, and
//! leaves.
//!
//! Nothing here may make the program fail. The first error is reported in one line on standard
//! error, and switches the profiler off.
//!
//! # Safety
//!
//! This module keeps the agent while no thread runs it.
#![allow(unsafe_code)]

use super::agent::{self, Agent};
pub(super) use super::complaint::complain;
use super::{functions, sites};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};
use wordpatch::os;

mod end;
mod fork;
mod probes;
mod profile_path;
mod running;
mod selected;
mod settings;
mod signal;
mod start;

pub(super) use end::{before_end, before_exec, before_exit, end_for_good, end_is_lost, stand_down};
use fork::UNBEGUN;
pub(crate) use fork::begin_in_child;
pub(super) use probes::{
    install_initial_probes, install_late, installs_when_sampled, reinstall_initial_probes,
};
pub(super) use profile_path::{orphans_path, output_path};
#[cfg(test)]
pub(super) use running::activate_hooks_in_test;
pub(super) use running::is_own_process;
pub(crate) use running::is_running;
pub(super) use running::{
    DORMANT, RUNNING, activate_hooks, deactivate_hooks, give_up, is_known_process, is_observed,
};
pub(crate) use selected::is_selected;
pub(super) use selected::{is_named, is_selected_in, opens_scope, role_of, wants};
use settings::current;
pub(super) use settings::{
    Settings, change_settings, clock, config, folder_of_sockets, policy, use_settings,
};
pub(super) use signal::{block_signals, has_signal_handler, install_signal_handler};
pub(crate) use start::prepare_tables;
pub(super) use start::{
    enter_from_hook, install_loaded, is_prepared, prepare_clocks, prepare_for_good,
};

static MODULES_AT_START: AtomicUsize = AtomicUsize::new(0);
static LESSONS: AtomicBool = AtomicBool::new(false);
static NEW_FUNCTIONS: AtomicBool = AtomicBool::new(false);
/// The agent while no thread runs it.
static ASIDE: AtomicPtr<Agent> = AtomicPtr::new(std::ptr::null_mut());

/// Starts the agent, if none is running and it is needed. Not in a signal handler.
pub(super) fn start_agent() -> Result<(), String> {
    if !is_running() || agent::is_there() || !is_own_process() || UNBEGUN.load(Acquire) {
        return Ok(());
    }
    let aside = ASIDE.swap(std::ptr::null_mut(), AcqRel);
    let agent = if aside.is_null() {
        Agent::new(clock(), u64::from(os::threads::process() as u32))
    } else {
        // SAFETY: (1) made by `agent_leaves`, and taken once.
        *unsafe { Box::from_raw(aside) }
    };
    agent::start(agent).map_err(|error| format!("cannot start a thread: {error}"))
}

/// The agent's thread ends, and leaves the agent to the next thread.
pub(super) fn agent_leaves(agent: Agent) {
    ASIDE.store(Box::into_raw(Box::new(agent)), Release);
}

/// How many modules were loaded at the beginning: they are never unloaded.
pub(super) fn modules_at_start() -> usize {
    MODULES_AT_START.load(Relaxed)
}

/// Whether the process has any probes or functions.
pub(super) fn has_probes() -> bool {
    sites::count() > 0 || functions::count() > 1
}

pub(super) fn saw_new_function() {
    if !NEW_FUNCTIONS.swap(true, Release) {
        agent::call();
    }
}

/// A hook has received another function than its site is believed to have.
pub(super) fn saw_lesson() {
    if !LESSONS.swap(true, Release) {
        agent::call();
    }
}

/// What hooks have recorded is to be read again, at the next tick.
pub(super) fn keep_lessons() {
    LESSONS.store(true, Release);
}

pub(super) fn take_lessons() -> bool {
    LESSONS.swap(false, Acquire)
}

pub(super) fn take_new_functions() -> bool {
    NEW_FUNCTIONS.swap(false, Acquire)
}
