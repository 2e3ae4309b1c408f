//! Hooks that have nothing more to tell are taken out of code that is executed often.
//!
//! A thread looks now and then where the program is, and has hooks that are spent left out of a
//! function once they have cost about as much there as compiling the function does; so all of it
//! never costs more than twice what would have been best. At first functions are compiled from
//! their beginnings alone, for those that are called; entries into loops follow for activations
//! that go on for long in the code from before. The thread takes a small part of a processor's
//! time: it rests for longer than its work takes, and for longer still where there is nothing to
//! do.

use super::module::{Module, ModuleInner};
use super::version::{Origin, When};
use crate::compile::HookId;
use crate::error::Error;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Whose hooks may have nothing more to tell.
pub trait Spent: Send + Sync {
    /// Hooks of a function that have nothing more to tell, now and ever after.
    fn spent(&self, function: u32) -> Vec<HookId>;
}

/// How long the thread rests at least, and at most.
const SHORTEST: Duration = Duration::from_millis(4);
const LONGEST: Duration = Duration::from_millis(250);
/// How many times as long as its work.
const REST: u32 = 4;
/// How often it looks at a time, and how long it waits in between.
const LOOKS: u32 = 4;
const BETWEEN: Duration = Duration::from_micros(500);
/// What compiling a byte of Wasm takes, and how much of a function's time its hooks take, about.
const BYTE: Duration = Duration::from_nanos(1_300);
const SHARE: u32 = 32;

impl Module {
    /// Has hooks of a plan left out once they are spent, for as long as the module and whoever
    /// knows are there.
    pub fn retire(&self, origin: Origin, whose: Weak<dyn Spent>) -> Result<(), Error> {
        let module = Arc::downgrade(&self.inner);
        let work = move || {
            let (mut pause, mut seen) = (SHORTEST, Seen::default());
            loop {
                std::thread::sleep(pause);
                let Some(taken) = attend(&module, origin, &whose, pause, &mut seen) else { break };
                let rest = taken.map_or(pause * 2, |time| REST * time);
                pause = rest.clamp(SHORTEST, LONGEST);
            }
        };
        let started =
            std::thread::Builder::new().name("wasm-retire".into()).stack_size(1 << 20).spawn(work);
        started.map(drop).map_err(Error::system)
    }
}

/// How long threads have been in functions with spent hooks since these were compiled: what that
/// has cost pays for compiling them again.
#[derive(Default)]
struct Seen(HashMap<usize, Duration>);

impl Seen {
    /// Adds to a function's time; tells whether it is enough for compiling so many bytes.
    fn is_enough(&mut self, function: usize, time: Duration, bytes: u32) -> bool {
        let seen = self.0.entry(function).or_default();
        *seen += time;
        let is_enough = *seen >= SHARE * BYTE * bytes;
        if is_enough {
            *seen = Duration::ZERO;
        }
        is_enough
    }
}

/// Has spent hooks left out where the program is; tells how long that took, if there were any. None
/// once there will never be.
fn attend(
    module: &Weak<ModuleInner>,
    origin: Origin,
    whose: &Weak<dyn Spent>,
    since: Duration,
    seen: &mut Seen,
) -> Option<Option<Duration>> {
    let (module, whose) = (Module { inner: module.upgrade()? }, whose.upgrade()?);
    let first = module.inner.info.imported.functions;
    let (mut hooks, mut behind) = (Vec::new(), Vec::new());
    for look in 0..LOOKS {
        if look > 0 {
            std::thread::sleep(BETWEEN);
        }
        for (function, code) in module.inner.innermost() {
            let (index, body) = (first + function as u32, &module.inner.info.bodies[function]);
            let spent = module.inner.still_there(origin, function, whose.spent(index));
            let is_behind = spent.is_empty() && module.inner.is_behind(function, code);
            // Entries are the function's code again for each loop.
            let bytes = (body.end - body.start)
                * if is_behind { 1 + module.inner.loops_of(function) } else { 1 };
            if (spent.is_empty() && !is_behind) || !seen.is_enough(function, since / LOOKS, bytes) {
                continue;
            }
            match is_behind {
                true => behind.push(function),
                false => hooks.extend(spent.into_iter().map(|hook| (index, hook))),
            }
        }
    }
    if hooks.is_empty() && behind.is_empty() {
        return Some(None);
    }
    let begun = Instant::now();
    // Where nothing can be changed, nothing ever will be.
    module.leave_out(origin, &hooks, true, When::NextCall).ok()?;
    module.hurry(&behind).ok()?;
    Some(Some(begun.elapsed()))
}
