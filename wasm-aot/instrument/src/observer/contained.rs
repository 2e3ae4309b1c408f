//! Contains failures of monitors (`on-trap=off`): a trap, or a call that does not end, switches the
//! monitor off, and the program continues.
//!
//! The functions of such a monitor are called through the host, in activations of their own, so a
//! failure ends there. That takes time. All other monitors are called by the program's code, and
//! their failure ends the program.
//!
//! A watchdog interrupts a call that does not end. It and the calling thread agree, under a lock,
//! on whether the call is still running, so the program is never interrupted for a monitor that has
//! just returned.

use super::guest::{Listener, Observer};
use super::switches::Switches;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use wasm_aot_engine::Error;
use wasm_aot_engine::Func;
use wasm_aot_engine::Trap;
use wasm_aot_engine::Val;
use wasm_aot_engine::ValType;
use wasm_aot_engine::instrument::Printable;
use wasm_aot_engine::instrument::compile::{self, Capture, Firing, Receiver};
use wasm_aot_engine::instrument::runtime::{Interruption, with_store_of};

/// The interval at which the watchdog checks.
const LOOK: Duration = Duration::from_millis(20);

/// A monitor that is called through the host.
#[derive(Debug)]
pub(crate) struct Contained {
    name: String,
    /// By rules: the export, its function, and what that takes.
    exports: Vec<(String, Func, Vec<ValType>)>,
    switches: Switches,
    listener: Listener,
    interruption: Arc<Interruption>,
    patience: Duration,
    call: Mutex<PendingCall>,
}

/// The call in progress.
#[derive(Debug, Default)]
struct PendingCall {
    since: Option<Instant>,
    /// Whether the watchdog has asked it to end.
    is_over: bool,
}

impl Contained {
    /// A monitor with a time limit for its calls.
    pub(super) fn new(
        observer: &Observer,
        interruption: &Arc<Interruption>,
        patience: Duration,
    ) -> Option<Arc<Self>> {
        let each = observer.rules.iter().map(|rule| {
            let types = rule.params.iter().map(|given| given.ty).collect();
            Some((rule.export.clone(), observer.function(rule.function)?, types))
        });
        let this = Arc::new(Self {
            name: observer.name.clone(),
            exports: each.collect::<Option<_>>()?,
            switches: observer.switches.clone(),
            listener: observer.listener.clone(),
            interruption: Arc::clone(interruption),
            patience,
            call: Mutex::default(),
        });
        let who = Arc::downgrade(&this);
        // If the thread cannot be started, a call that does not end blocks the program.
        let _ = std::thread::Builder::new()
            .name("wasm-patience".into())
            .stack_size(1 << 20)
            .spawn(move || watch(&who));
        Some(this)
    }

    /// A call of the function of a rule, for an instruction, with this number of values.
    pub(super) fn call(self: &Arc<Self>, rule: u16, offset: u32, values: usize) -> compile::Call {
        let receiver: Arc<dyn Receiver> = Arc::<Self>::clone(self);
        let number = u64::from(rule) << 32 | u64::from(offset);
        // The hook's code passes values itself.
        compile::Call {
            receiver,
            number,
            captures: vec![Capture::Local(u32::MAX); values],
            writes: false,
        }
    }

    /// Calls a function; returns its error, if the function itself has failed.
    fn called(&self, vmctx: usize, function: Func, values: &[Val]) -> Option<Error> {
        let interlude = self.interruption.begin_interlude();
        self.call.lock().since = Some(Instant::now());
        let done = with_store_of(vmctx, |store| function.call(store, values));
        let is_over = {
            let mut call = self.call.lock();
            call.since = None;
            std::mem::take(&mut call.is_over)
        };
        self.interruption.end_interlude(interlude);
        // Any other interruption is meant for the program, which is interrupted now.
        done.err().filter(|error| is_over || error.trap() != Some(Trap::Interrupted))
    }
}

fn watch(who: &Weak<Contained>) {
    loop {
        std::thread::sleep(LOOK);
        let Some(who) = who.upgrade() else { return };
        let mut call = who.call.lock();
        if !call.is_over && call.since.is_some_and(|since| since.elapsed() > who.patience) {
            call.is_over = true;
            who.interruption.insist();
        }
    }
}

impl Receiver for Contained {
    fn fire(&self, firing: &mut Firing<'_>) {
        let (rule, offset) = ((firing.number >> 32) as usize, firing.number as u32);
        let (export, function, types) = &self.exports[rule];
        let value = |(ty, [low, high]): (&ValType, &[u64; 2])| match ty {
            ValType::I64 => Val::I64(*low as i64),
            ValType::F32 => Val::F32(*low as u32),
            ValType::F64 => Val::F64(*low),
            ValType::V128 => Val::V128(u128::from(*high) << 64 | u128::from(*low)),
            ValType::Ref(_) => Val::ExternRef(None),
            ValType::I32 => Val::I32(*low as i32),
        };
        let values: Vec<Val> = types.iter().zip(firing.values.iter()).map(value).collect();
        let Some(error) = self.called(firing.vmctx, *function, &values) else { return };
        self.switches.switch_all(false);
        let why = match error.trap() {
            Some(Trap::Interrupted) => {
                format!("it does not end within {}", humantime::format_duration(self.patience))
            }
            Some(trap) => trap.to_string(),
            None => error.to_string(),
        };
        let (name, export) = (Printable(&self.name), Printable(export));
        let what = format!(
            "monitor {name}: {export}, at offset {offset:#x}: {why}; it is switched off, and the program goes on"
        );
        self.listener.complain(&what);
    }
}
