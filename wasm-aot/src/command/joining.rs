//! Monitors whose functions are called, in programs that start threads: each thread has instances
//! of them in its own store, and their reports are merged into one at the end.
//!
//! The functions of a monitor that only adds are not called: its counts include all threads. Such a
//! monitor has one instance, in the store of the program's own thread.

use super::modules::{self, Compiled, World};
use super::prof::Prof;
use super::{Failure, complain};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use wasm_aot::observer::{Needs, Observation, Program, Switches, printed_during};
use wasm_aot::wasi::WasiCtx;
use wasm_aot::{AsContextMut, Engine, Error, Limits, Store};

/// The data from which threads get their instances, and the reports of these.
#[derive(Debug)]
pub(crate) struct Joining {
    pub(crate) engine: Engine,
    pub(crate) observation: Arc<Observation>,
    pub(crate) program: Arc<Program>,
    /// Monitors of which each thread has an instance.
    pub(crate) monitors: Vec<Compiled>,
    /// The limits of instances of monitors.
    pub(crate) limits: Limits,
    pub(crate) patience: Duration,
    /// The reports of threads that have ended, by the names of monitors.
    pub(crate) reports: Mutex<BTreeMap<String, String>>,
}

/// Whether a monitor has to have an instance in each thread's store, because the program calls its
/// functions. This is found out in a temporary store. The error names a monitor that cannot have
/// several instances.
pub(crate) fn is_needed(
    compiled: &Compiled,
    engine: &Engine,
    program: &Arc<Program>,
    (limits, patience): (Limits, Duration),
) -> Result<bool, Failure> {
    let world = || WasiCtx::builder().build().map_err(Failure::new);
    let mut store = Store::new(
        engine,
        World { program: world()?, monitors: world()?, threads: None, prof: Prof::default() },
    );
    store.set_limits(limits);
    let switches = Switches::default();
    let how = (patience, &switches);
    let (observer, _) =
        printed_during(|| compiled.instantiate(store.as_context_mut(), engine, program, how));
    let observer = observer?;
    let alone = observer.needs_one_instance();
    // Errors at the program's places are reported when the monitor is matched with it.
    if observer.needs(&mut store, program).unwrap_or(Needs::Calls) != Needs::Calls {
        return Ok(false);
    }
    if let Some(why) = alone.as_ref().filter(|_| !compiled.has_toggle()) {
        complain(format!(
            "monitor {}: note: the program ends when it starts a thread: {why}",
            compiled.name()
        ));
    }
    Ok(alone.is_none())
}

impl Joining {
    /// Makes the monitors observe the thread that owns the store, before the program has an
    /// instance there.
    pub(crate) fn join(&self, store: &mut Store<World>) -> Result<(), Failure> {
        store.set_limits(self.limits);
        let mut observers = Vec::new();
        for compiled in &self.monitors {
            // A monitor that was detached or refused has no switches, and needs no instance.
            let Some(switches) = self.observation.switches(&compiled.name()) else { continue };
            let how = (self.patience, &switches);
            observers.push(compiled.instantiate(
                store.as_context_mut(),
                &self.engine,
                &self.program,
                how,
            )?);
        }
        self.observation.join(store, observers, &self.program).map_err(modules::refused)?;
        self.observation.begin(store).into_iter().for_each(complain);
        Ok(())
    }

    /// Ends a thread's instances, which report first. The thread may have ended by an error.
    pub(crate) fn leave(&self, store: &mut Store<World>, why: Option<&Error>) {
        store.set_limits(self.limits);
        store.set_deadline(Some(self.patience));
        self.observation.end(store, why).into_iter().for_each(complain);
        for (name, number) in self.observation.present() {
            if !self.has(&name) {
                continue;
            }
            let context = store.as_context_mut();
            match modules::said(context, &self.observation, number, self.patience) {
                Ok(text) => self.add(&name, &text),
                Err(why) => complain(why),
            }
        }
        self.observation.leave(store);
    }

    /// The report of a monitor over all threads; the program's own thread is the last.
    pub(crate) fn whole(&self, name: &str, own: &str) -> String {
        self.add(name, own);
        self.reports.lock().remove(name).unwrap_or_default()
    }

    /// Whether each thread has an instance of the monitor of that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.monitors.iter().any(|compiled| compiled.name() == name)
    }

    /// Adds an instance's report to those of others.
    fn add(&self, name: &str, text: &str) {
        let mut reports = self.reports.lock();
        let sum = match reports.get(name) {
            _ if text.is_empty() => return,
            None => text.to_owned(),
            Some(before) => match self.observation.merged(name, &[before, text]) {
                Ok(sum) => sum,
                Err(why) => return complain(why),
            },
        };
        reports.insert(name.to_owned(), sum);
    }
}
