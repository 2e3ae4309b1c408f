//! The hooks that are worth their cost: which functions are compiled with them, and when, and which
//! lose them again.

use super::*;

/// Compiling a function with its hooks takes as long as compiling this many more bytes, however
/// small it is: the hooks themselves are code.
const FUNCTION: u64 = 350;
/// How many bytes of Wasm are compiled whatever the budget is: enough that small programs are
/// observed as a whole.
const ALLOWANCE: f64 = 8192.0;
/// The interval at which the program's place is sampled while functions wait for their turn, in
/// seconds.
const LOOK: f64 = 0.005;
impl Latency {
    /// Whether leaving hooks out of a function requires no compilation.
    pub(super) fn leaves_out_for_free(&self) -> bool {
        let Some((module, origin)) = self.code.get() else { return false };
        module.upgrade().is_some_and(|inner| Module::of(inner).is_attached_alone(*origin))
    }

    /// The functions whose hooks are to be put back, and those whose hooks are to be left out. If
    /// leaving out requires compilation, it is done for the first time when counting has cost as
    /// much as compiling will.
    pub(super) fn changes(&self, state: &LatencyState, is_free: bool) -> [Vec<usize>; 2] {
        let Some((functions, _)) = self.functions.get() else { return Default::default() };
        let is_paid = |place: usize| {
            is_free
                || state.called[place] as f64 * COUNT >= f64::from(functions[place].bytes) * BYTE
        };
        let changed = |out: bool| {
            let parts = state
                .parts
                .iter()
                .enumerate()
                .filter(|(_, part)| part.is_out != out && part.is_wanted() != out)
                .filter(|(_, part)| part.waits.is_none());
            parts
                .map(|(place, _)| place)
                .filter(|place| state.parts[*place].was_out || is_paid(*place))
                .collect()
        };
        [changed(false), changed(true)]
    }

    /// Leaves out or puts back the hooks of functions, by their places. Threads that are in one of
    /// them finish their call.
    pub(super) fn leave_out(&self, changes: [Vec<usize>; 2]) {
        let (Some((functions, _)), Some((module, origin))) =
            (self.functions.get(), self.code.get())
        else {
            return;
        };
        let Some(module) = module.upgrade().map(Module::of) else { return };
        for (places, out) in changes.into_iter().zip([false, true]) {
            let hooks = places.iter().flat_map(|place| {
                let TimedFunction { index, hooks, .. } = &functions[*place];
                hooks.iter().map(|hook| (*index, *hook))
            });
            let hooks: Vec<_> = hooks.collect();
            // If code cannot be changed, functions are set to time no calls, as before.
            if !hooks.is_empty()
                && module.leave_out(*origin, &hooks, out, TakesEffect::NextCall).is_ok()
            {
                let mut state = self.state.lock();
                for place in places {
                    let part = &mut state.parts[place];
                    (part.is_out, part.was_out) = (out, part.was_out || out);
                    if part.waits.take().is_some() {
                        part.late = Some(now());
                    }
                }
            }
        }
    }
}

impl Due for Latency {
    fn is_due(&self, function: u32) -> bool {
        let Some((functions, _)) = self.functions.get() else { return true };
        let Ok(place) = functions.binary_search_by_key(&function, |one| one.index) else {
            return true;
        };
        let mut state = self.state.lock();
        let is_due = state.pays_for(self, functions[place].bytes);
        if !is_due {
            let part = &mut state.parts[place];
            (part.is_out, part.waits) = (true, Some(0));
        }
        is_due
    }
}

impl Latency {
    /// The functions that are being executed, by their places, if any have to wait for their hooks
    /// and a sample is due.
    pub(super) fn seen(&self) -> Vec<usize> {
        let (Some((functions, _)), Some((module, _))) = (self.functions.get(), self.code.get())
        else {
            return Vec::new();
        };
        let mut state = self.state.lock();
        let pause = (LOOK * self.speed.hz()) as u64;
        if now().since(state.looked).0 < pause
            || state.parts.iter().all(|part| part.waits.is_none())
        {
            return Vec::new();
        }
        state.looked = now();
        drop(state);
        let seen = module.upgrade().map(|inner| Module::of(inner).innermost_functions());
        let place = |function: u32| functions.binary_search_by_key(&function, |one| one.index).ok();
        seen.into_iter().flatten().filter_map(place).collect()
    }
}

impl LatencyState {
    /// Whether a function of this many bytes can be compiled within the budget; charges its cost if
    /// so.
    fn pays_for(&mut self, monitor: &Latency, bytes: u32) -> bool {
        let Policy::Adaptive { budget } = monitor.policy else { return true };
        let elapsed = now().since(self.began).0 as f64;
        let after = self.compiled + u64::from(bytes) + FUNCTION;
        let is_paid = after as f64 <= ALLOWANCE + budget * elapsed / BYTE;
        if is_paid {
            self.compiled = after;
        }
        is_paid
    }

    /// The functions that get their hooks now, after some were seen: those that are executed most
    /// for their size, as far as the budget allows.
    pub(super) fn due(&mut self, monitor: &Latency, seen: &[usize]) -> Vec<usize> {
        for place in seen {
            self.parts[*place].waits.iter_mut().for_each(|times| *times += 1);
        }
        let Some((functions, _)) = monitor.functions.get() else { return Vec::new() };
        let worth = |(place, part): (usize, &Activity)| {
            let times = part.waits.filter(|times| *times > 0)?;
            Some((f64::from(times) / f64::from(functions[place].bytes), place))
        };
        let mut waiting: Vec<(f64, usize)> =
            self.parts.iter().enumerate().filter_map(worth).collect();
        waiting.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        let places = waiting.into_iter().map(|(_, place)| place);
        places.take_while(|place| self.pays_for(monitor, functions[*place].bytes)).collect()
    }
}
