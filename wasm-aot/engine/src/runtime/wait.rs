//! Waiting for words of shared memories, and waking the threads that wait.
//!
//! A thread that waits compares the word while it holds the lock of the address's queue, and one
//! that wakes takes the same lock: so no waker comes between the comparison and the wait.

use super::interruption::Interruption;
use crate::trap::Trap;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// A waiting thread.
#[derive(Default)]
struct Waiter {
    woken: Mutex<bool>,
    wake: Condvar,
}

/// The threads that wait at each address, in the order in which they came.
static QUEUES: LazyLock<Mutex<HashMap<usize, Vec<Arc<Waiter>>>>> = LazyLock::new(Mutex::default);
/// How long a thread waits at a time before it checks whether to stop.
const LOOK: Duration = Duration::from_millis(20);

/// Waits at an address while `unchanged`: returns 0 if another thread woke this one, 1 if the word
/// has changed already, 2 if the time is over.
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
    let until = u64::try_from(nanoseconds)
        .ok()
        .and_then(|time| Instant::now().checked_add(Duration::from_nanos(time)));
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
            // Another thread may have woken this one just now, and counts on it.
            if !leave(address, &me) && !stop {
                return Ok(0);
            }
            return if stop && interruption.take() { Err(Trap::Interrupted) } else { Ok(2) };
        }
        me.wake.wait_until(&mut woken, until.unwrap_or(now + LOOK).min(now + LOOK));
    }
}

/// Leaves the queue; returns whether this thread was still in it.
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

/// Wakes up to `count` threads that wait at an address, and returns how many.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const FOREVER: i64 = -1;

    /// How many threads wait at an address.
    fn waiting(address: usize) -> usize {
        QUEUES.lock().get(&address).map_or(0, Vec::len)
    }

    fn until(condition: impl Fn() -> bool) {
        while !condition() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_has_changed_is_not_waited_for() {
        let interruption = Arc::default();
        assert_eq!(wait(0x10, || false, FOREVER, &interruption), Ok(1));
        assert_eq!(waiting(0x10), 0);
    }

    #[test]
    fn who_is_not_woken_waits_for_as_long_as_was_said() {
        let (interruption, begin) = (Arc::default(), Instant::now());
        assert_eq!(wait(0x20, || true, 30_000_000, &interruption), Ok(2));
        assert!(begin.elapsed() >= Duration::from_millis(30));
        assert_eq!((waiting(0x20), notify(0x20, u32::MAX)), (0, 0));
    }

    #[test]
    fn those_who_came_first_are_woken_first_and_no_more_than_were_asked_for() {
        let (tell, hear) = mpsc::channel();
        std::thread::scope(|scope| {
            for number in 0..4 {
                let tell = tell.clone();
                scope.spawn(move || {
                    assert_eq!(wait(0x30, || true, FOREVER, &Arc::default()), Ok(0));
                    tell.send(number).expect("somebody listens");
                });
                until(|| waiting(0x30) == number + 1);
            }
            assert_eq!(notify(0x38, 9), 0);
            assert_eq!(notify(0x30, 1), 1);
            assert_eq!(hear.recv(), Ok(0));
            assert_eq!(notify(0x30, 2), 2);
            let mut next = [hear.recv().expect("told"), hear.recv().expect("told")];
            next.sort_unstable();
            assert_eq!((next, notify(0x30, 9)), ([1, 2], 1));
            assert_eq!(hear.recv(), Ok(3));
        });
        assert_eq!(waiting(0x30), 0);
    }

    #[test]
    fn a_request_to_stop_ends_a_wait() {
        let interruption: Arc<Interruption> = Arc::default();
        let handle = interruption.handle();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(wait(0x40, || true, FOREVER, &interruption), Err(Trap::Interrupted));
            });
            until(|| waiting(0x40) == 1);
            handle.interrupt();
        });
        assert_eq!(waiting(0x40), 0);
    }
}
