//! Threads that wait for a word of shared memory, and those that wake them.
//!
//! Whoever waits compares the word while it holds the lock of the address's queue, and whoever wakes takes the same lock: so no waker comes
//! between the comparison and the wait.

use super::interruption::Interruption;
use crate::trap::Trap;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// One that waits.
#[derive(Default)]
struct Waiter {
    woken: Mutex<bool>,
    wake: Condvar,
}

/// Who waits at which address, first come first.
static QUEUES: LazyLock<Mutex<HashMap<usize, Vec<Arc<Waiter>>>>> = LazyLock::new(Mutex::default);
/// How long it is waited at a time, before looking whether to stop altogether.
const LOOK: Duration = Duration::from_millis(20);

/// Waits at an address while `unchanged`: 0 if somebody woke us, 1 if it has changed already, 2 if the time is over.
pub(crate) fn wait(
    address: usize,
    unchanged: impl Fn() -> bool,
    nanoseconds: i64,
    interruption: &Interruption,
) -> Result<i32, Trap> {
    let me = Arc::new(Waiter::default());
    {
        let mut queues = QUEUES.lock();
        if !unchanged() {
            return Ok(1);
        }
        queues.entry(address).or_default().push(Arc::clone(&me));
    }
    let until = u64::try_from(nanoseconds).ok().and_then(|time| Instant::now().checked_add(Duration::from_nanos(time)));
    let mut woken = me.woken.lock();
    loop {
        if *woken {
            return Ok(0);
        }
        let now = Instant::now();
        let is_over = until.is_some_and(|until| until <= now);
        let stop = interruption.is_requested();
        if is_over || stop {
            drop(woken);
            // Somebody may have woken us just now, and counts on it.
            if !leave(address, &me) && !stop {
                return Ok(0);
            }
            return if stop && interruption.take() { Err(Trap::Interrupted) } else { Ok(2) };
        }
        me.wake.wait_until(&mut woken, until.unwrap_or(now + LOOK).min(now + LOOK));
    }
}

/// Leaves the queue; tells whether we were still in it.
fn leave(address: usize, me: &Arc<Waiter>) -> bool {
    let mut queues = QUEUES.lock();
    let Some(queue) = queues.get_mut(&address) else { return false };
    let before = queue.len();
    queue.retain(|waiter| !Arc::ptr_eq(waiter, me));
    let was_there = queue.len() < before;
    if queue.is_empty() {
        queues.remove(&address);
    }
    was_there
}

/// Wakes up to `count` that wait at an address, and tells how many.
pub(crate) fn notify(address: usize, count: u32) -> i32 {
    let mut queues = QUEUES.lock();
    let Some(queue) = queues.get_mut(&address) else { return 0 };
    let count = queue.len().min(count as usize);
    for waiter in queue.drain(..count) {
        *waiter.woken.lock() = true;
        waiter.wake.notify_one();
    }
    if queue.is_empty() {
        queues.remove(&address);
    }
    count as i32
}
