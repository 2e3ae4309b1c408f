//! The end of the process, or of the program in it: the profile is written before.

#![allow(unsafe_code, reason = "a link section of its own")]

use super::{
    ASIDE, RUNNING, deactivate_hooks, give_up, is_observed, is_own_process, is_running, start_agent,
};
use crate::runtime::{agent, modes};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

#[used]
#[unsafe(link_section = ".fini_array")]
static LEAVE: extern "C" fn() = leave;

/// How long the end of a program waits for its profile to be written.
const LAST_WORDS: Duration = Duration::from_secs(20);
/// How long an exec or an `_exit` waits, which may happen in a signal handler.
const HASTY_WORDS: Duration = Duration::from_secs(2);
/// Whether a child of `vfork` has ended by `exit`, and so used up what its parent would have called
/// at the end.
static END_LOST: AtomicBool = AtomicBool::new(false);

/// Whether the end of the process will not be reported: then the profile is written now and then.
pub(in crate::runtime) fn end_is_lost() -> bool {
    END_LOST.load(Relaxed)
}

/// Called by the loader at the end of the process.
extern "C" fn leave() {
    if !is_running() {
        return;
    }
    if !is_own_process() {
        // The memory is the parent's, in which the agent is.
        END_LOST.store(true, Relaxed);
        agent::write_now(LAST_WORDS);
        return;
    }
    // The agent may have ended because its thread was the only one left, and that thread makes this
    // call.
    if !ASIDE.load(Acquire).is_null() {
        let _ = start_agent();
    }
    agent::write_now(LAST_WORDS);
    agent::control::remove();
    RUNNING.store(false, Release);
}

/// Before `exit`, which runs functions of the program first. Their end is waited for, unless the
/// loader does not call `leave` after them.
pub(in crate::runtime) fn before_exit() {
    if end_is_lost() {
        before_exec();
    }
}

/// Before the process image is replaced or ends: by `_exit`, or by exec, which may fail.
pub(in crate::runtime) fn before_exec() {
    if is_observed() {
        agent::write_now(HASTY_WORDS);
    }
}

/// Before the process ends by `_exit`.
pub(in crate::runtime) fn before_end() {
    before_exec();
    if is_observed() {
        agent::control::remove();
    }
}

/// The program is about to forbid itself what the profiler needs: the profile is written as it is,
/// and from here on the profiler makes no system call.
pub(in crate::runtime) fn stand_down(why: &str) {
    if !is_observed() {
        return;
    }
    agent::write_now(LAST_WORDS);
    agent::dismiss(LAST_WORDS);
    modes::silence_all();
    wordpatch::leave_forks_alone();
    give_up(why);
}

/// The user has stopped the profiler: from here on hooks do nothing, and nothing is written at the
/// end.
pub(in crate::runtime) fn end_for_good() {
    deactivate_hooks();
}
