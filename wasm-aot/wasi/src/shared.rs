//! One world for all threads of a program.
//!
//! Calls are made one at a time, under a lock. A call that would have to wait releases the lock: it
//! returns the events that it waits for, with duplicates of their descriptors, and is repeated when
//! one of them has happened, with the same end of its time-out. So a thread that sleeps, or reads
//! from a terminal, does not make others wait, and may find that another thread has closed the
//! descriptor that it has waited for.

use super::WasiCtx;
use super::function::Function;
use super::guest::Guest;
use super::interruption::Interruption;
use super::outcome::Outcome;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;

/// The world of a program with threads. Clones share the world, for other threads.
#[derive(Clone, Debug)]
pub struct Shared {
    ctx: Arc<Mutex<WasiCtx>>,
    /// The interruption that ends the waiting of this thread.
    interruption: Option<Interruption>,
}

impl Shared {
    /// Shares a world. The thread that owns this handle is stopped by the world's interruption.
    pub fn new(mut ctx: WasiCtx) -> Self {
        let interruption = ctx.patience.wait_outside();
        Self { ctx: Arc::new(Mutex::new(ctx)), interruption }
    }

    /// The same world for a thread that has its own interruption.
    #[must_use]
    pub fn for_thread(&self, interruption: Interruption) -> Self {
        Self { ctx: Arc::clone(&self.ctx), interruption: Some(interruption) }
    }

    /// Performs a call. `until` is the end of the waiting of a call that has ended for a wake-up
    /// and is repeated.
    pub(super) fn call(
        &self,
        function: &Function,
        memory: &Guest<'_>,
        arguments: &[u64],
        until: &mut Option<Instant>,
    ) -> Outcome {
        loop {
            let (outcome, waits) = {
                let mut ctx = self.ctx.lock();
                ctx.patience.go_on(until.take());
                let outcome = (function.call)(&mut ctx, memory, arguments);
                (outcome, ctx.patience.waits())
            };
            let Some(waits) = waits.filter(|_| outcome == Outcome::Knocked) else { return outcome };
            *until = waits.until();
            match waits.happen(self.interruption.as_ref()) {
                Ok(()) => {}
                Err(outcome) => return outcome,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::function::functions;
    use super::super::{Source, WasiCtx};
    use super::*;
    use std::io::Write as _;
    use std::time::Duration;

    fn call(shared: &Shared, name: &str, memory: &mut [u8], arguments: &[u64]) -> Outcome {
        let function =
            functions().iter().find(|function| function.name == name).expect("there is one");
        shared.call(function, &Guest::exclusive(memory), arguments, &mut None)
    }

    /// A subscription to the monotonic clock, of this number of nanoseconds.
    fn sleep(memory: &mut [u8], nanoseconds: u64) {
        memory[16..20].copy_from_slice(&1u32.to_le_bytes());
        memory[24..32].copy_from_slice(&nanoseconds.to_le_bytes());
    }

    #[test]
    fn who_waits_keeps_nobody_waiting_and_goes_on_when_it_has_happened() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let shared = Shared::new(
            WasiCtx::builder().stdin(Source::Descriptor(reader.into())).build().expect("a world"),
        );
        let own = shared.for_thread(Interruption::new().expect("a descriptor"));
        let reading = std::thread::spawn(move || {
            let mut memory = vec![0; 256];
            memory[..8].copy_from_slice(&[64u32.to_le_bytes(), 4u32.to_le_bytes()].concat());
            assert_eq!(call(&own, "fd_read", &mut memory, &[0, 0, 1, 16]), Outcome::SUCCESS);
            memory[64..68].to_vec()
        });
        let mut memory = vec![0; 256];
        sleep(&mut memory, 30_000_000);
        let begun = Instant::now();
        assert_eq!(call(&shared, "poll_oneoff", &mut memory, &[0, 64, 1, 128]), Outcome::SUCCESS);
        assert!(begun.elapsed() >= Duration::from_millis(30) && memory[128] == 1);
        writer.write_all(b"four").expect("somebody reads");
        assert_eq!(reading.join().expect("it ends"), b"four");
    }

    #[test]
    fn a_thread_that_sleeps_is_stopped_by_its_own_interruption() {
        let shared = Shared::new(WasiCtx::builder().build().expect("a world"));
        let interruption = Interruption::new().expect("a descriptor");
        let own = shared.for_thread(interruption.clone());
        let sleeping = std::thread::spawn(move || {
            let mut memory = vec![0; 256];
            sleep(&mut memory, u64::MAX >> 2);
            call(&own, "poll_oneoff", &mut memory, &[0, 64, 1, 128])
        });
        interruption.raise();
        assert_eq!(sleeping.join().expect("it ends"), Outcome::Interrupted);
    }
}
