//! The pruner: removes dead probes from code that is executed often.
//!
//! A probe is dead if it has fired and needs to fire no more, or if it has switched itself off. One
//! thread for each module samples which functions are running. It leaves the dead probes out of a
//! function once they have cost about as much as compiling the function does, so all of it never
//! costs more than twice the optimum (ski rental). At first functions are compiled without OSR
//! entries, for threads that call them; the entries follow for activations that stay long in the
//! older code. The thread takes a small part of one CPU's time: it pauses for longer than its work
//! takes, and longer still when there is nothing to do.

use super::module::{Module, ModuleInner};
use crate::error::Error;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// An owner of probes that may become dead.
pub trait Prunes: std::fmt::Debug + Send + Sync {
    /// Whether a function's code has dead probes.
    fn has_dead(&self, function: u32) -> bool;

    /// Leaves the dead probes out of functions' code, from their next call on.
    fn prune(&self, functions: &[u32]) -> Result<(), Error>;
}

/// How long the thread pauses at least, and at most.
const SHORTEST: Duration = Duration::from_millis(4);
const LONGEST: Duration = Duration::from_millis(250);
/// How many times as long as its work the thread pauses.
const REST: u32 = 4;
/// How many samples it takes in a row, and how long it waits between them.
const LOOKS: u32 = 4;
const BETWEEN: Duration = Duration::from_micros(500);
/// What compiling a byte of Wasm takes, and how much of a function's time its probes take, about.
const BYTE: Duration = Duration::from_nanos(1_300);
const SHARE: u32 = 32;

/// The clients whose probes are pruned, and whether the thread exists.
#[derive(Debug, Default)]
pub(crate) struct Pruner(Mutex<PrunerState>);

#[derive(Debug, Default)]
struct PrunerState {
    clients: Vec<Weak<dyn Prunes>>,
    is_running: bool,
}

impl Pruner {
    /// The clients that still exist; without any, the thread ends.
    fn clients(&self) -> Option<Vec<Arc<dyn Prunes>>> {
        let mut state = self.0.lock();
        state.clients.retain(|client| client.strong_count() > 0);
        let clients: Vec<_> = state.clients.iter().filter_map(Weak::upgrade).collect();
        state.is_running = !clients.is_empty();
        state.is_running.then_some(clients)
    }

    /// Removes a client whose probes cannot be left out.
    fn forget(&self, client: &Arc<dyn Prunes>) {
        let is_other =
            |other: &Weak<dyn Prunes>| !std::ptr::addr_eq(other.as_ptr(), Arc::as_ptr(client));
        self.0.lock().clients.retain(is_other);
    }
}

impl Module {
    /// Has dead probes pruned, for as long as the module and `client` exist. If the thread cannot
    /// be started, the probes stay, which costs only time.
    pub fn prune(&self, client: Weak<dyn Prunes>) {
        let mut state = self.inner.pruner.0.lock();
        state.clients.push(client);
        if state.is_running {
            return;
        }
        let module = Arc::downgrade(&self.inner);
        let work = move || {
            let (mut pause, mut seen) = (SHORTEST, Seen::default());
            loop {
                std::thread::sleep(pause);
                let Some(taken) = attend(&module, pause, &mut seen) else { break };
                let rest = taken.map_or(pause * 2, |time| REST * time);
                pause = rest.clamp(SHORTEST, LONGEST);
            }
        };
        let builder = std::thread::Builder::new().name("wasm-pruner".into()).stack_size(4 << 20);
        state.is_running = builder.spawn(work).is_ok();
    }
}

/// How long threads have been in functions with dead probes since these were compiled: what that
/// has cost pays for compiling them again.
#[derive(Default)]
struct Seen(HashMap<usize, Duration>);

impl Seen {
    /// Adds to a function's time; returns whether it pays for compiling that many bytes.
    fn is_enough(&mut self, function: usize, time: Duration, bytes: u32) -> bool {
        let seen = self.0.entry(function).or_default();
        *seen += time;
        let is_enough = *seen >= SHARE * BYTE * bytes;
        if is_enough {
            *seen = Duration::ZERO;
        }
        is_enough
    }
}

/// Prunes dead probes of functions that are running; returns how long that took, if there were any.
/// `None` if there will never be any.
fn attend(
    module: &Weak<ModuleInner>,
    since: Duration,
    seen: &mut Seen,
) -> Option<Option<Duration>> {
    let module = Module { inner: module.upgrade()? };
    let clients = module.inner.pruner.clients()?;
    let first = module.inner.info.imported.functions;
    let (mut dead, mut behind) = (Vec::new(), Vec::new());
    for look in 0..LOOKS {
        if look > 0 {
            std::thread::sleep(BETWEEN);
        }
        for (function, code) in module.inner.innermost() {
            let (index, body) = (first + function as u32, &module.inner.info.bodies[function]);
            let has_dead = clients.iter().any(|client| client.has_dead(index));
            let is_behind = !has_dead && module.inner.is_behind(function, code);
            // Each OSR entry contains the function's code once more.
            let bytes = (body.end - body.start)
                * if is_behind { 1 + module.inner.loops_of(function) } else { 1 };
            if (!has_dead && !is_behind) || !seen.is_enough(function, since / LOOKS, bytes) {
                continue;
            }
            match is_behind {
                true => behind.push(function),
                false => dead.push(index),
            }
        }
    }
    if dead.is_empty() && behind.is_empty() {
        return Some(None);
    }
    let begun = Instant::now();
    dead.sort_unstable();
    dead.dedup();
    for client in &clients {
        // If the code cannot be changed now, it never can be.
        if client.prune(&dead).is_err() {
            module.inner.pruner.forget(client);
        }
    }
    if module.hurry(&behind).is_err() {
        clients.iter().for_each(|client| module.inner.pruner.forget(client));
    }
    Some(Some(begun.elapsed()))
}
