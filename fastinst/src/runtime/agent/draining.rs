//! Draining: what threads have recorded is handed to the controller.

use super::{Agent, BUSY_FOR, LATEST, NEAR, NEARLY_HALF, SOONEST, refill};
use crate::runtime::drain::{self, Done};
use crate::runtime::functions::{self, Id};
use crate::runtime::layout::{ENDED, FREE, Header, RECORD, RING_COUNT};
use crate::runtime::{clock, registered, spans, stub, target, thread_sums, threads};
use profiler::{Sample, Slow};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Instant;

impl Agent {
    /// Takes samples, repeatedly as long as they arrive faster than one by one, for a limited time.
    /// Returns whether they still do.
    pub(super) fn drain_while_busy(&mut self) -> bool {
        let end = Instant::now() + BUSY_FOR;
        loop {
            let busy = self.drain();
            if !busy || self.is_exact || Instant::now() > end {
                return busy;
            }
        }
    }

    /// Takes all samples. Returns whether some ring was more than a quarter full.
    pub(super) fn drain(&mut self) -> bool {
        let mut most = 0;
        for block in threads::all() {
            let ended = block.state.load(Acquire) == ENDED;
            most = self.drain_ring(block).max(most);
            self.take_sums(block);
            let lost = if block.lost.load(Relaxed) > 0 { block.lost.swap(0, Relaxed) } else { 0 };
            if lost > 0 {
                self.controller.lost(profiler::FuncId(0), lost.into());
            }
            if ended {
                // It may have been the only thread that called some function, and may have ended
                // before the agent was notified of that function.
                self.make_accounts();
                self.take_records(block);
                self.nestings.remove(&std::ptr::from_ref(block).addr());
                block.state.store(FREE, Release);
            }
        }
        let since = std::mem::replace(&mut self.drained, Instant::now()).elapsed();
        let filling = since.mul_f64(NEARLY_HALF as f64 / most.max(1) as f64);
        // Threads pause: a thread that recorded nothing now may record again later.
        self.filling = filling.min(self.filling.mul_f32(1.25)).clamp(SOONEST, LATEST);
        most > RING_COUNT / 4
    }

    /// Takes what is in a thread's ring. Returns how much.
    pub(super) fn drain_ring(&mut self, block: &Header) -> usize {
        let (mut batch, mut all) = ([Done::default(); drain::BATCH], 0);
        // If the thread is faster than the agent, it has to drain its ring itself.
        while all < RING_COUNT {
            let taken = drain::take_entries(block, &mut batch);
            self.take_calls(block, &batch[..taken]);
            all += taken;
            if taken == 0 {
                break;
            }
        }
        self.samples += all as u64;
        all
    }

    /// Calls of a thread, in the order in which they have ended.
    fn take_calls(&mut self, block: &Header, calls: &[Done]) {
        let Self { controller, nestings, started, .. } = self;
        let nesting = nestings.entry(std::ptr::from_ref(block).addr()).or_default();
        let bias = stub::BIAS.load(Relaxed);
        for done in calls {
            let function = profiler::FuncId(Id::of_record(done.record).0);
            if done.is_null() {
                controller.null(function, done.ticks);
                nesting.pass(done.ticks.saturating_sub(bias));
                continue;
            }
            let (ticks, children) = (done.ticks, done.children);
            controller.sample(&Sample {
                function,
                call_site: done.call_site,
                ticks,
                nested: 0,
                children,
                outermost: done.outermost,
            });
            let inside = nesting.end(function, ticks.saturating_sub(bias), children);
            if controller.is_slow(function, ticks) {
                let at = target::clock().ticks(started.elapsed().as_secs_f64());
                controller.keep(
                    function,
                    Slow { ticks, thread: block.clock.thread(), at, inside: inside.to_vec() },
                );
            }
        }
    }

    /// Takes what a thread has summed up itself.
    fn take_sums(&mut self, block: &Header) {
        let Some(news) = thread_sums::news(block) else { return };
        for number in 1..threads::records_of(block).min(functions::count()) {
            if thread_sums::take_sums(block, Id(number), news, &mut self.summed) {
                self.controller.add_summed(&self.summed);
                self.samples += self.summed.calls;
            }
        }
    }

    /// The counts of a thread that has ended; its records are zero afterwards.
    fn take_records(&mut self, block: &Header) {
        for number in 1..threads::records_of(block).min(self.functions.len() as u32) {
            if let Some(record) = block.record(number * RECORD as u32)
                && record.address.load(Relaxed) != 0
            {
                self.functions[number as usize].ended += record.count.swap(0, Relaxed);
                record.address.store(0, Relaxed);
                record.open.store(0, Relaxed);
            }
        }
    }

    /// Sums up the entries of all threads, at an instant of the program's clock. Repeats that if
    /// the agent had to wait for a CPU meanwhile, as windows end with what was counted. The clock
    /// stands still outside of spans: a few short spans show such a wait as well.
    pub(super) fn count_by_the_clock(&mut self) -> profiler::Ticks {
        const TRIES: usize = 4;
        // The beginning and the end of a span.
        const SPAN: u32 = 2;
        let near = target::clock().ticks(NEAR);
        let (mut before, mut switches) = (clock::work(), spans::switches());
        for _ in 0..TRIES {
            self.count();
            self.recorded = spans::recorded();
            let (now, busy) = clock::publish_work();
            let switched = spans::switches().wrapping_sub(switches);
            self.busy = busy;
            if now.since(before) <= near && switched <= SPAN {
                break;
            }
            (before, switches) = (now, switches.wrapping_add(switched));
        }
        before
    }

    /// Sums up the entries of all threads, and reports new ones to the controller.
    pub(super) fn count(&mut self) {
        let counted = registered::take_counts();
        // The agent may not have looked for new functions since they were called: not while a
        // library is unloaded.
        self.make_accounts();
        for (id, new) in counted {
            // As for threads that have ended: no record has them.
            self.functions[id.0 as usize].ended += new;
        }
        let sums = self.sums(|number, record| {
            if let Some(quota) = self.functions[number as usize].refill {
                refill(record, Id(number).function(), quota);
            }
        });
        for (number, sum) in sums.into_iter().enumerate().skip(1) {
            let id = Id(number as u32);
            let account = &mut self.functions[number];
            let new = sum.saturating_sub(account.told);
            if new > 0 {
                account.told = sum;
                self.controller.entered(profiler::FuncId(id.0), new);
            }
        }
    }
}
