//! Unloading: while a thread unloads modules, no code switches sites that might be unloaded with
//! them.
//!
//! A thread announces that it unloads before it checks which functions are being switched; a thread
//! that switches checks for that announcement after it has taken ownership.

use super::layout::Function;
use super::registry::{LockedRegistry, lock_registry};
use super::sites::Site;
use super::{agent, modes, target};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use std::sync::atomic::{AtomicI32, AtomicU32};
use std::time::{Duration, Instant};
use wordpatch::os;

/// How many threads are unloading modules.
static UNLOADING: AtomicU32 = AtomicU32::new(0);
/// Those threads, as far as there is room; zero in free entries.
static UNLOADERS: [AtomicI32; 32] = [const { AtomicI32::new(0) }; 32];

/// Exchanges one number for another in the list of threads that unload.
fn exchange_unloader(from: i32, to: i32) {
    let _ = UNLOADERS.iter().find(|cell| cell.compare_exchange(from, to, AcqRel, Relaxed).is_ok());
}

/// Whether the calling thread is unloading a module: nothing is installed until it is done. Usable
/// in a signal handler.
pub(super) fn is_by_caller() -> bool {
    let this = os::threads::current().0;
    is_going_on() && UNLOADERS.iter().any(|cell| cell.load(Relaxed) == this)
}

/// Whether any thread is unloading a module.
pub(super) fn is_going_on() -> bool {
    UNLOADING.load(Acquire) > 0
}

/// In a forked child: of the threads that were unloading, only the one that has forked exists, if
/// it was one. Returns whether others were.
pub(super) fn inherit(unloads: bool) -> bool {
    let others = UNLOADING.swap(u32::from(unloads), SeqCst) > u32::from(unloads);
    UNLOADERS.iter().for_each(|cell| cell.store(0, Relaxed));
    if unloads {
        exchange_unloader(0, os::threads::current().0);
    }
    others
}

/// Whether the sites of a module that may be unloaded have to be left alone: a thread is unloading.
pub(super) fn is_barred(site: &Site) -> bool {
    UNLOADING.load(SeqCst) > 0 && site.module as usize >= target::modules_at_start()
}

/// Unloads by `unload`, which is the program's own call: meanwhile no code switches sites that
/// might be unloaded.
pub(super) fn during<T>(unload: impl FnOnce() -> T) -> T {
    begin_unloading();
    let result = unload();
    end_unloading();
    result
}

/// The calling thread is about to unload modules.
pub(super) fn begin_unloading() {
    begin_unloading_if(|| true);
}

/// The same, if the condition holds while the registry is locked. Returns whether it did.
pub(super) fn begin_unloading_if(condition: impl FnOnce() -> bool) -> bool {
    let registry = lock_registry();
    if !condition() {
        return false;
    }
    UNLOADING.fetch_add(1, SeqCst);
    exchange_unloader(0, os::threads::current().0);
    // Threads that began to switch earlier are done in a moment.
    for id in registry.transient_functions() {
        wait_for(id.function());
    }
    true
}

/// The calling thread is done with that.
pub(super) fn end_unloading() {
    let mut registry = lock_registry();
    registry.mark_unloaded();
    exchange_unloader(os::threads::current().0, 0);
    UNLOADING.fetch_sub(1, SeqCst);
    // A thread that wanted to switch them meanwhile was refused.
    // While the profiler is detached its sites are the program's own calls.
    if registry.withdrawn.is_empty() {
        registry.transient_functions().into_iter().for_each(modes::renew);
    }
    drop(registry);
    // A thread that waits for a module was not answered meanwhile.
    agent::call();
}

/// How long one waits for threads that are unloading: the loader runs no code of the program then.
const PATIENCE: Duration = Duration::from_secs(10);

/// Locks the registry while no thread is unloading modules, so that none begins. Refuses if one
/// does not come back.
pub(super) fn lock_registry_between() -> Result<LockedRegistry, &'static str> {
    let end = Instant::now() + PATIENCE;
    loop {
        let registry = lock_registry();
        if !is_going_on() {
            return Ok(registry);
        }
        drop(registry);
        if Instant::now() > end {
            return Err("a thread of the program does not finish unloading a library");
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn wait_for(function: &Function) {
    for _ in 0..10_000 {
        if !function.ownership.is_owned() {
            break;
        }
        os::threads::give_way();
    }
}
