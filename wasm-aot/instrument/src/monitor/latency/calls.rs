//! Calls: they are counted by machine code, which asks here at those that are timed.

use super::*;

/// The most timed calls that are open at once in an instance; calls nested deeper are not timed.
const OPEN: usize = 1024;

#[derive(Debug)]
pub(super) struct TimedInstance {
    pub(super) slots: InstanceSlots,
    /// How many calls of each function were reported to the controller.
    pub(super) told: Vec<u64>,
    /// Timed calls that have not ended.
    pub(super) open: Vec<OpenCall>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct OpenCall {
    place: usize,
    frame: usize,
    begun: u64,
    nested: u32,
    children: u64,
    /// For how long the program was not executed meanwhile.
    paused: u64,
}

impl LatencyState {
    /// Reports to the controller how often functions were called since the last time.
    pub(super) fn report_calls(&mut self, monitor: &Latency) {
        for at in 0..self.instances.len() {
            self.report_calls_of_instance(monitor, at);
        }
    }

    fn report_calls_of_instance(&mut self, monitor: &Latency, at: usize) {
        let (Some(controller), Some(words)) = (&mut self.controller, monitor.words.get()) else {
            return;
        };
        let instance = &mut self.instances[at];
        for (place, (told, part)) in instance.told.iter_mut().zip(&self.parts).enumerate() {
            let count = instance.slots.word(words.plus(2 * place as u32)).load(Relaxed);
            let calls = count - std::mem::replace(told, count);
            self.called[place] += calls;
            // Calls of functions that are off are not seen; the controller estimates them.
            if calls > 0 && part.is_wanted() {
                controller.entered(FuncId(place as u32 + 1), calls);
            }
        }
    }

    /// Decides whether a call of a function is timed: returns when it has begun, or 0.
    fn entered(&mut self, monitor: &Latency, vmctx: usize, place: usize, frame: usize) -> u64 {
        let Some(at) = self.instances.iter().position(|instance| instance.slots.vmctx == vmctx)
        else {
            return 0;
        };
        let wanted =
            matches!(self.parts[place].mode, Mode::Sample(_)) && self.parts[place].left > 0;
        let part = &mut self.parts[place];
        if wanted && part.left < u32::MAX {
            part.left -= 1;
        }
        let retires = wanted && part.left == 0;
        let armed = part.armed;
        self.limit(monitor, at, place);
        if retires {
            // The calls until now are reported, because the mode may change.
            self.parts[place].left = 1;
            self.report_calls_of_instance(monitor, at);
            self.parts[place].left = 0;
            if let Some(controller) = &mut self.controller {
                controller.retired(FuncId(place as u32 + 1), armed, now());
            }
        }
        let open = &mut self.instances[at].open;
        // Stacks grow downwards: calls that have begun here or below were left without a report.
        while let Some(gone) = open.pop_if(|open| open.frame <= frame) {
            if let Some(controller) = &mut self.controller {
                controller.lost(FuncId(gone.place as u32 + 1), 1);
            }
        }
        if !wanted || open.len() >= OPEN {
            return 0;
        }
        let begun = now().0;
        open.push(OpenCall { place, frame, begun, nested: 0, children: 0, paused: 0 });
        begun
    }

    /// Records that a timed call has ended.
    fn left(&mut self, vmctx: usize, begun: u64, frame: usize, ended: u64) {
        let Some(instance) =
            self.instances.iter_mut().find(|instance| instance.slots.vmctx == vmctx)
        else {
            return;
        };
        let Some(controller) = &mut self.controller else { return };
        // Calls that were opened later have been left by a trap.
        while let Some(open) = instance.open.pop() {
            let function = FuncId(open.place as u32 + 1);
            if (open.begun, open.frame) != (begun, frame) {
                controller.lost(function, 1);
                continue;
            }
            let ticks = ended.saturating_sub(begun).saturating_sub(open.paused);
            if let Some(outer) = instance.open.last_mut() {
                outer.nested += 1 + open.nested;
                outer.children += ticks;
            }
            self.samples += 1;
            let OpenCall { nested, children, .. } = open;
            let outermost = instance.open.iter().all(|outer| outer.place != open.place);
            let sample = Sample { function, call_site: 0, ticks, nested, children, outermost };
            controller.sample(&sample);
            return;
        }
    }
}

impl Receiver for Latency {
    fn fire(&self, firing: &mut Firing<'_>) {
        let ended = now().0;
        let (place, leaves) = ((firing.number >> 1) as usize, firing.number & 1 == 1);
        let mut state = self.state.lock();
        let [value, _] = &mut firing.values[0];
        match leaves {
            true => state.left(firing.vmctx, *value, firing.frame, ended),
            false => *value = state.entered(self, firing.vmctx, place, firing.frame),
        }
    }

    fn begin(&self, slots: InstanceSlots) {
        let mut state = self.state.lock();
        let told = vec![0; state.parts.len()];
        state.instances.push(TimedInstance { slots, told, open: Vec::new() });
        state.most = state.most.max(state.instances.len());
        let at = state.instances.len() - 1;
        (0..state.parts.len()).for_each(|place| state.limit(self, at, place));
    }

    fn paused(&self, slots: InstanceSlots, ticks: u64) {
        let mut state = self.state.lock();
        let instance = state.instances.iter_mut().find(|instance| instance.slots == slots);
        let open = instance.into_iter().flat_map(|instance| &mut instance.open);
        open.for_each(|open| open.paused += ticks);
    }

    fn end(&self, slots: InstanceSlots) {
        let mut state = self.state.lock();
        state.report_calls(self);
        state.instances.retain(|instance| instance.slots != slots);
    }
}

/// At a function's entry: counts the call, and queries whether it is timed. At its exit: reports
/// the call, if it was timed.
#[derive(Debug)]
pub(super) struct LatencyProbe {
    /// The function's count, followed by its limit.
    pub(super) count: Word,
    pub(super) call: Call,
    pub(super) begins: bool,
}

impl Inline for LatencyProbe {
    fn fingerprint(&self) -> u64 {
        fingerprint("latency", &(self.count, &self.call, self.begins))
    }

    fn emit<'a>(&'a self, at: &mut Emitter<'_, 'a>) -> Result<(), CompileError> {
        let begun = at.variable(u64::from(self.count.0) << 32 | u64::from(u32::MAX));
        let (asks, value) = match self.begins {
            true => {
                let count = at.load_word(self.count);
                let count = at.builder().ins().iadd_imm_s(count, 1);
                at.store_word(self.count, count);
                let limit = at.load_word(self.count.plus(1));
                let zero = at.builder().ins().iconst(types::I64, 0);
                at.builder().def_var(begun, zero);
                (at.builder().ins().icmp(IntCC::SignedGreaterThanOrEqual, count, limit), zero)
            }
            false => {
                let value = at.builder().use_var(begun);
                (value, value)
            }
        };
        let kept = self.begins.then_some(begun);
        ask_where(at, asks, (&self.call, value), kept);
        Ok(())
    }
}
