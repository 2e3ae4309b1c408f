//! Programs with threads: each thread has a store of its own, and in it instances of the monitors
//! that observe the thread.
//!
//! The program is compiled once, so its code does not contain the address of such a monitor's
//! instance. A word of the program's instance holds it, which is written when the program is
//! instantiated in a store ([`InstancePointers`]). What a monitor has found out for the sites is in
//! the code, though. So the monitor's instance of a thread that joins is matched with the program
//! like the first one, and its answers have to be the same: a record that one instance has made for
//! a site lies at the same address in all others.
//!
//! Probes are switched for all threads at once. At the end each instance reports on its thread, and
//! the reports are merged ([`Observation::merged`]).

use super::binding::Binding;
use super::notification::listen;
use super::observation::{Monitor, bound_memories};
use super::{Observation, Observer, ObserverError, Program, Switches, matching};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use wasm_aot_engine::AsContextMut;
use wasm_aot_engine::Place;
use wasm_aot_engine::Store;
use wasm_aot_engine::instrument::compile::{Firing, Guest, Import, InstanceSlots, Receiver, Word};
use wasm_aot_engine::instrument::runtime::{Guests, StoreId, store_id_of};

/// Where the instances of a monitor are, and what has to be the same in all of them.
#[derive(Debug)]
pub(super) struct InstancePointers {
    /// In which word of the program's instances it is said.
    pub(super) word: Word,
    addresses: Mutex<HashMap<StoreId, usize>>,
    guest: Arc<Guest>,
    bindings: Vec<(u32, Binding)>,
}

impl InstancePointers {
    pub(super) fn new(word: Word, guest: &Arc<Guest>, bindings: &[(u32, Binding)]) -> Arc<Self> {
        Arc::new(Self {
            word,
            addresses: Mutex::default(),
            guest: Arc::clone(guest),
            bindings: bindings.to_vec(),
        })
    }

    /// In a store, the instance is there.
    pub(super) fn set(&self, store: StoreId, vmctx: usize) {
        self.addresses.lock().insert(store, vmctx);
    }
}

impl Receiver for InstancePointers {
    fn fire(&self, _: &mut Firing<'_>) {
        unreachable!("its hooks are code");
    }

    fn begin(&self, slots: InstanceSlots) {
        let instance_pointer =
            store_id_of(slots.vmctx).and_then(|store| self.addresses.lock().get(&store).copied());
        // Without one the program would not have been instantiated there.
        slots.word(self.word).store(
            instance_pointer.unwrap_or_default() as u64,
            std::sync::atomic::Ordering::Relaxed,
        );
    }
}

impl Observation {
    /// The switches of a monitor, by its name, which are those of all its instances.
    pub fn switches(&self, name: &str) -> Option<Switches> {
        let monitors = self.monitors.lock();
        monitors
            .iter()
            .find(|monitor| monitor.observer.name() == name)
            .map(|monitor| monitor.observer.switches.clone())
    }

    /// Has a thread with a store of its own execute the program, too: instances of the same modules
    /// look at it there. Those that only add to cells of their own need none. The linkers that they
    /// were made with know the [`switches`](Self::switches) of the first instances.
    pub fn join<T: 'static>(
        &self,
        store: &mut Store<T>,
        observers: Vec<Observer>,
        program: &Program,
    ) -> Result<(), ObserverError> {
        let mut given: HashMap<String, Observer> =
            observers.into_iter().map(|observer| (observer.name().to_owned(), observer)).collect();
        let mut monitors = self.monitors.lock();
        let store_id = store.as_context_mut().core().id;
        let mut own = Vec::new();
        for (number, monitor) in (0..).zip(monitors.iter()) {
            let name = monitor.observer.name();
            let Some(instance_pointers) = &monitor.instance_pointers else {
                if monitor.is_called {
                    return Err(refused(
                        name,
                        "it was given no instance for each thread before the program was compiled",
                    ));
                }
                // One that hears of the engine only is in no code.
                if let Some(observer) =
                    given.remove(name).filter(|_| monitor.observer.request.threads)
                {
                    own.push((number as usize, observer));
                }
                continue;
            };
            let Some(mut observer) = given.remove(name) else {
                return Err(refused(name, "the thread has no instance of it"));
            };
            compare(store, &mut observer, number, monitor, instance_pointers, program)?;
            instance_pointers
                .set(store_id, observer.instance().base(store.as_context_mut().core()));
            monitor.observer.join_texts(store_id, &observer);
            own.push((number as usize, observer));
        }
        bound_memories(&mut store.as_context_mut());
        for (number, observer) in own {
            listen(&mut store.as_context_mut(), &observer, &self.module);
            monitors[number].others.insert(store_id, observer);
        }
        self.module.bind_another_store(store_id);
        Ok(())
    }

    /// A thread that has [joined](Self::join) is over: its instances are forgotten, once they have
    /// reported. The store goes next.
    pub fn leave<T: 'static>(&self, store: &mut Store<T>) {
        let store = store.as_context_mut().core().id;
        for monitor in self.monitors.lock().iter_mut() {
            monitor.others.remove(&store);
            monitor.observer.buffer_memories.remove(store);
            if let Some(instance_pointers) = &monitor.instance_pointers {
                instance_pointers.addresses.lock().remove(&store);
            }
        }
        self.module.unbind(store);
    }
}

/// Compares an instance of a thread's with what the first was.
fn compare<T: 'static>(
    store: &mut Store<T>,
    observer: &mut Observer,
    number: u32,
    monitor: &Monitor,
    instance_pointers: &InstancePointers,
    program: &Program,
) -> Result<(), ObserverError> {
    let name = observer.name().to_owned();
    if !observer.switches.are(&monitor.observer.switches) {
        return Err(refused(
            &name,
            "its linker has other switches: give add_to_linker those of the observation",
        ));
    }
    let mut guests = Guests::new(instance_pointers.guest.calls, true);
    let guest = guests
        .of(store.as_context_mut().core(), &observer.instance(), number)
        .expect("an instance of this store");
    if !is_same(&guest, &instance_pointers.guest) {
        return Err(refused(
            &name,
            "its instances are of several modules, or have several libraries",
        ));
    }
    let mut bindings = super::binding::Bindings::default();
    matching::bind(store.as_context_mut(), observer, &program.bytes, &mut bindings)?;
    let found: Vec<(u32, Binding)> = bindings.take().collect();
    let differs = found
        .iter()
        .zip(&instance_pointers.bindings)
        .find(|(one, other)| one != other)
        .map(|(one, _)| one);
    let longer = || {
        found.get(instance_pointers.bindings.len()).or(instance_pointers.bindings.get(found.len()))
    };
    match differs.or_else(longer) {
        None => Ok(()),
        Some((function, binding)) => Err(ObserverError::Differs {
            monitor: name,
            export: observer.rules[usize::from(binding.rule)].export.clone(),
            place: Box::new(Place {
                function: Some((*function, Some(program.info.label(*function)))),
                offset: Some(binding.offset as usize),
            }),
        }),
    }
}

/// Whether instances are of the same modules, libraries included.
fn is_same(one: &Guest, other: &Guest) -> bool {
    let imports = |(one, other): (&Import, &Import)| match (one, other) {
        (Import::Guest(one, f), Import::Guest(other, g)) => f == g && is_same(one, other),
        (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other),
    };
    Arc::ptr_eq(&one.module, &other.module)
        && one.imports.len() == other.imports.len()
        && one.imports.iter().zip(&other.imports).all(imports)
}

fn refused(name: &str, why: &'static str) -> ObserverError {
    ObserverError::Threads { monitor: name.to_owned(), why: why.into() }
}
