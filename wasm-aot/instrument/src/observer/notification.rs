//! Calls the exports of monitors that listen to events of the engine.
//!
//! Each thread's instances are called for their own thread. For the program itself, which is
//! compiled once, the instances that were matched with it first are called.

use super::{Observation, Observer, ObserverError};
use std::sync::{Arc, Weak};
use wasm_aot_body::events::Occurrence;
use wasm_aot_engine::AsContextMut;
use wasm_aot_engine::Error;
use wasm_aot_engine::Instance;
use wasm_aot_engine::Module;
use wasm_aot_engine::Store;
use wasm_aot_engine::StoreContextMut;
use wasm_aot_engine::instrument::runtime::{
    Beginning, CompileEvents, Growth, ModuleInner, StoreId,
};

impl Observation {
    /// The number of the thread that has a store: that of the first is 0.
    fn thread(&self, store: StoreId) -> i64 {
        let mut threads = self.threads.lock();
        let known = threads.iter().position(|other| *other == store);
        known.unwrap_or_else(|| {
            threads.push(store);
            threads.len() - 1
        }) as i64
    }

    /// Notifies monitors that the store's thread begins to execute the program; returns the errors.
    pub fn begin<T: 'static>(&self, store: &mut Store<T>) -> Vec<ObserverError> {
        let number = self.thread(store.as_context_mut().core().id);
        self.call_listeners(store.as_context_mut(), Occurrence::ThreadStart, &[number])
    }

    /// Notifies monitors that the store's thread has ended, and how; returns the errors.
    /// [`report`](Self::report) comes after it.
    pub fn end<T: 'static>(&self, store: &mut Store<T>, why: Option<&Error>) -> Vec<ObserverError> {
        let mut wrong = self.report_compiled(&mut store.as_context_mut());
        if let Some(Error::Trap(report)) = why {
            let frame = report.backtrace.frames.first();
            let function = frame.map_or(-1, |frame| i64::from(frame.function));
            let start = |function: u32| {
                let info = &self.module.inner().info;
                function
                    .checked_sub(info.imported.functions)
                    .and_then(|at| info.bodies.get(at as usize))
                    .map(|body| body.start)
            };
            let pc = frame
                .and_then(|frame| frame.offset?.checked_sub(start(frame.function)?))
                .map_or(-1, i64::from);
            let told = [i64::from(report.trap.number()), function, pc];
            wrong.extend(self.call_listeners(store.as_context_mut(), Occurrence::Trap, &told));
        }
        let number = self.thread(store.as_context_mut().core().id);
        wrong.extend(self.call_listeners(store.as_context_mut(), Occurrence::ThreadEnd, &[number]));
        wrong
    }

    /// Notifies monitors of functions that were compiled again, in other variants, since the last
    /// notification.
    pub(super) fn report_compiled<T: 'static>(
        &self,
        store: &mut StoreContextMut<'_, T>,
    ) -> Vec<ObserverError> {
        let mut wrong = Vec::new();
        let id = store.core().id;
        for monitor in self
            .monitors
            .lock()
            .iter()
            .filter(|monitor| !monitor.is_gone && monitor.observer.is_in(id))
        {
            for (function, bytes) in
                monitor.compile_events.as_ref().map(CompileEvents::take).unwrap_or_default()
            {
                let told = [i64::from(function), i64::from(bytes)];
                wrong.extend(
                    monitor.observer.react(&mut *store, Occurrence::FunctionCompiled, &told).err(),
                );
            }
        }
        wrong
    }

    fn call_listeners<T: 'static>(
        &self,
        mut store: StoreContextMut<'_, T>,
        event: Occurrence,
        told: &[i64],
    ) -> Vec<ObserverError> {
        let monitors = self.monitors.lock();
        let own = monitors.iter().filter(|monitor| !monitor.is_gone);
        let id = store.core().id;
        own.filter_map(|monitor| monitor.of(id)?.react(&mut store, event, told).err()).collect()
    }
}

/// Notifies a monitor of the program that it observes and of the program's functions, and registers
/// it for instances and the growth of memories in the store. If the program runs already, its
/// instance is there.
pub(super) fn loaded<T: 'static>(
    mut store: StoreContextMut<'_, T>,
    observer: &Observer,
    module: &Module,
) -> Result<(), ObserverError> {
    let (info, functions) = (&module.inner().info, &module.inner().code.tables.functions);
    let told = [info.bodies.len() as i64, module.inner().bytes.len() as i64];
    observer.react(&mut store, Occurrence::ModuleLoaded, &told)?;
    for (function, span) in (i64::from(info.imported.functions)..).zip(functions.iter()) {
        let told = [function, i64::from(span.end - span.start)];
        observer.react(&mut store, Occurrence::FunctionCompiled, &told)?;
    }
    listen(&mut store, observer, module);
    match Instance::all_of(store.core(), module.inner()).is_empty() {
        true => Ok(()),
        false => observer.react(&mut store, Occurrence::Instantiated, &[]),
    }
}

/// The events of functions that are compiled later, if a monitor listens to them.
pub(super) fn compile_events(observer: &Observer, module: &Module) -> Option<CompileEvents> {
    observer.reactions_to(Occurrence::FunctionCompiled).next().map(|_| module.compile_events())
}

/// Has a monitor notified of instances of the program and of memories that grow in the store, if it
/// listens to that.
pub(super) fn listen<T>(store: &mut StoreContextMut<'_, T>, observer: &Observer, module: &Module) {
    if observer.reactions_to(Occurrence::Instantiated).next().is_some() {
        let program = Arc::downgrade(module.inner());
        store.core().beginnings.push(Arc::new(Instantiated(observer.clone(), program)));
    }
    if observer.reactions_to(Occurrence::MemoryGrown).next().is_some() {
        store.core().growth.push(Arc::new(Growing(observer.clone())));
    }
}

/// A monitor that listens to instances of the program.
#[derive(Debug)]
struct Instantiated(Observer, Weak<ModuleInner>);

impl Beginning for Instantiated {
    fn begun(&self, store: StoreContextMut<'_, ()>, module: &ModuleInner) -> Result<(), Error> {
        if !std::ptr::eq(self.1.as_ptr(), module) {
            return Ok(());
        }
        match self.0.react(store, Occurrence::Instantiated, &[]) {
            // Its failures are its own.
            Err(error) if self.0.request.contained.is_some() => {
                self.0.switches.switch_all(false);
                let what = format!("{error}; it is switched off, and the program goes on");
                self.0.listener.complain(&what);
                Ok(())
            }
            done => done.map_err(Error::host),
        }
    }
}

/// A monitor that listens to memories that grow.
#[derive(Debug)]
struct Growing(Observer);

impl Growth for Growing {
    fn grown(&self, mut store: StoreContextMut<'_, ()>, told: [i64; 3]) {
        let interlude = store.core().interruption().begin_interlude();
        let done = self.0.react(&mut store, Occurrence::MemoryGrown, &told);
        store.core().interruption().end_interlude(interlude);
        if let Err(error) = done {
            self.0.listener.complain(&format!("{error}; the program goes on"));
        }
    }
}
