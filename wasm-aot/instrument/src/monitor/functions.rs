//! `functions`: how often each function was called, and how much time it has taken itself.
//!
//! Every function has an account, also those that are imported and called directly. From its entry
//! on, time is charged to a function; from its exit on, by whichever way, to the function that was
//! charged before. Time in functions that are not observed is charged to their callers.

use super::hooked::{HookedMonitor, fingerprint};
use super::kept::{self, ProfileFile};
use super::meter::{Meter, Span, Speed, put_spans, shown};
use super::outline::Outline;
use super::sums::InstanceSums;
use super::{Cell, Choice, MonitorError, Report};
use cranelift_codegen::ir::InstBuilder;
use parking_lot::Mutex;
use profiler::{Figure, FuncId, Function, Header, Policy, Profile, Spent, Timed};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use wasm_aot_body::report::several;
use wasm_aot_engine::CompileError;
use wasm_aot_engine::instrument::compile::{
    Action, Carried, Draft, Emitter, Firing, Inline, InstanceSlots, Receiver, Sequence, Word,
};
use wasm_aot_engine::instrument::runtime::{Module, Places};

/// The monitor.
#[derive(Debug)]
pub(super) struct Functions {
    choice: Choice,
    speed: Speed,
    plan: OnceLock<Planned>,
    /// Ticks and calls of each account.
    sums: Mutex<InstanceSums<Vec<[u64; 2]>>>,
    /// The file of its profile.
    file: Option<ProfileFile>,
}

/// The accounts: one for no function, then one for each function of the module.
#[derive(Debug)]
struct Planned {
    meter: Meter,
    accounts: Word,
    count: u32,
}

/// Makes the monitor.
pub(super) fn functions_monitor(choice: &Choice) -> Result<Arc<dyn HookedMonitor>, MonitorError> {
    let (plan, sums) = Default::default();
    let (choice, file) = (choice.clone(), choice.profile_file()?);
    Ok(Arc::new(Functions { choice, speed: Speed::since_now(), plan, sums, file }))
}

impl HookedMonitor for Functions {
    fn plan(self: Arc<Self>, outline: &Outline<'_>, draft: &mut Draft) {
        let meter = Meter::new(draft);
        let count = outline.info.functions.len() as u32;
        let accounts = draft.words(2 * (count + 1));
        draft.add_receiver(Arc::<Self>::clone(&self));
        for function in outline.chosen(&self.choice) {
            put_spans(draft, outline, function, |span| match span {
                Span::Begin(function) => Action::Inline(Sequence(Arc::new(OpenAccount {
                    meter,
                    account: accounts.plus(2 * (function + 1)),
                }))),
                Span::End => Action::Inline(Sequence(Arc::new(CloseAccount(meter)))),
            });
        }
        // Planned once.
        let _ = self.plan.set(Planned { meter, accounts, count });
    }

    fn observes(&self, on: bool) {
        let Some(planned) = self.plan.get() else { return };
        self.sums.lock().each(|slots| {
            if on {
                return planned.meter.resume(slots);
            }
            planned.charge_due(slots);
            planned.meter.rest(slots);
        });
    }

    fn report(&self, module: &Module) -> Report {
        let mut report = Report::new(
            "functions",
            &["function", "calls", "nanoseconds", "share", "mean", "source"],
        );
        let Some(planned) = self.plan.get() else { return report };
        let (hz, places) = (self.speed.hz(), Places::of(module));
        let sums = self.sums.lock().so_far(|slots, sums| planned.add(slots, sums));
        let mut each: Vec<(u32, [u64; 2])> =
            (0..).zip(sums.into_iter().skip(1)).filter(|(_, sum)| sum[1] > 0).collect();
        each.sort_by_key(|(function, [ticks, _])| (std::cmp::Reverse(*ticks), *function));
        let total: u64 = each.iter().map(|(_, [ticks, _])| ticks).sum();
        let nanoseconds = |ticks: u64| (ticks as f64 / hz * 1e9).round() as u64;
        for (function, [ticks, calls]) in &each {
            let label = Cell::Function { name: module.inner().label(*function), index: *function };
            let mean = shown(*ticks as f64 / hz / *calls as f64);
            let source = places.of_function(*function);
            report.row([
                label,
                (*calls).into(),
                nanoseconds(*ticks).into(),
                Cell::share(*ticks, total),
                mean.into(),
                source.into(),
            ]);
        }
        let calls: u64 = each.iter().map(|(_, [_, calls])| calls).sum();
        report.notes.push(format!("{} in {}", several(calls, "call"), shown(total as f64 / hz)));
        report.total_of(["calls", "nanoseconds"]);
        if let Some(file) = &self.file {
            let function = |(index, [ticks, calls]): &(u32, [u64; 2])| {
                let own = Some(Figure::exact(*ticks as f64 / hz * 1e9));
                let source = places.of_function(*index);
                let label = kept::label_of(module.inner().label(*index), *index, &source);
                let timed = Timed { own, ..Timed::default() };
                Function { own, timed, ..Function::counted(FuncId(index + 1), label, *calls) }
            };
            let header = Header {
                policy: Policy::Exact.to_string(),
                hz,
                step: 1,
                spent: Spent { samples: calls, ..Spent::default() },
                ..Header::default()
            };
            let functions = each.iter().map(function).collect();
            let profile = Profile { header, modules: Vec::new(), functions, stacks: Vec::new() };
            if let Err(error) = file.write(module.name(), profile) {
                report.remark(format!("file: {error}"));
            }
        }
        report
    }
}

impl Planned {
    /// Charges an instance's account with what is due.
    fn charge_due(&self, slots: InstanceSlots) {
        let (account, ticks) = self.meter.due(slots);
        if let Some(account) = self.account_at(slots, account) {
            slots.word(account).fetch_add(ticks, Relaxed);
            self.meter.charged(slots);
        }
    }

    /// Adds the accounts of an instance, in order.
    fn add(&self, slots: InstanceSlots, sums: &mut Vec<[u64; 2]>) {
        sums.resize(self.count as usize + 1, [0; 2]);
        for (i, sum) in sums.iter_mut().enumerate() {
            let account = self.accounts.plus(2 * i as u32);
            sum[0] += slots.word(account).load(Relaxed);
            sum[1] += slots.word(account.plus(1)).load(Relaxed);
        }
    }

    /// The account at an address.
    fn account_at(&self, slots: InstanceSlots, address: usize) -> Option<Word> {
        let first = slots.address(self.accounts);
        let number = address.checked_sub(first)? as u32 / 16;
        (number <= self.count).then(|| self.accounts.plus(2 * number))
    }
}

impl Receiver for Functions {
    fn fire(&self, _: &mut Firing<'_>) {}

    fn begin(&self, slots: InstanceSlots) {
        let Some(planned) = self.plan.get() else { return };
        planned.meter.begin(slots, slots.address(planned.accounts), 0);
        self.sums.lock().begin(slots);
    }

    fn paused(&self, slots: InstanceSlots, ticks: u64) {
        if let Some(planned) = self.plan.get() {
            planned.meter.paused(slots, ticks);
        }
    }

    fn cut_off(&self, slots: InstanceSlots) {
        if let Some(planned) = self.plan.get() {
            planned.charge_due(slots);
        }
    }

    fn end(&self, slots: InstanceSlots) {
        let Some(planned) = self.plan.get() else { return };
        self.sums.lock().end(slots, |slots, sums| planned.add(slots, sums));
    }
}

/// The account of a function is opened.
#[derive(Debug, Hash)]
struct OpenAccount {
    meter: Meter,
    account: Word,
}

impl Inline for OpenAccount {
    fn fingerprint(&self) -> u64 {
        fingerprint("functions: enter", self)
    }

    fn emit<'a>(&'a self, at: &mut Emitter<'_, 'a>) -> Result<(), CompileError> {
        let (vmctx, offset) = (at.vmctx(), at.word(self.account));
        let account = at.builder().ins().iadd_imm_s(vmctx, i64::from(offset));
        let before = self.meter.current(at);
        self.meter.open(at, account, before);
        Ok(())
    }
}

/// The account is closed.
#[derive(Debug, Hash)]
struct CloseAccount(Meter);

impl Inline for CloseAccount {
    fn fingerprint(&self) -> u64 {
        fingerprint("functions: leave", self)
    }

    fn emit<'a>(&'a self, at: &mut Emitter<'_, 'a>) -> Result<(), CompileError> {
        self.0.close(at);
        Ok(())
    }

    fn carried(&self) -> Option<Carried> {
        Some(self.0.carried())
    }
}
