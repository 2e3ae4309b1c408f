//! Hooks that have nothing more to tell are taken out of code that is executed often.
//!
//! A thread looks now and then where the program is, and has hooks that are spent left out of the functions that it finds there. What is executed
//! rarely is not worth it. The thread takes a small part of a processor's time: it rests for many times as long as its work takes, and for longer where there
//! is nothing to do.

use super::module::{Module, ModuleInner};
use super::version::Origin;
use crate::compile::HookId;
use crate::error::Error;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Whose hooks may have nothing more to tell.
pub(crate) trait Spent: Send + Sync {
    /// Hooks of a function that have nothing more to tell, now and ever after.
    fn spent(&self, function: u32) -> Vec<HookId>;
}

/// How long the thread rests at least, and at most.
const SHORTEST: Duration = Duration::from_millis(4);
const LONGEST: Duration = Duration::from_millis(250);
/// How many times as long as its work.
const REST: u32 = 40;

impl Module {
    /// Has hooks of a plan left out once they are spent, for as long as the module and whoever knows are there.
    pub(crate) fn retire(&self, origin: Origin, whose: Weak<dyn Spent>) -> Result<(), Error> {
        let module = Arc::downgrade(&self.inner);
        let work = move || {
            let mut pause = SHORTEST;
            loop {
                std::thread::sleep(pause);
                let begun = Instant::now();
                let Some(found) = look(&module, origin, &whose) else { break };
                let rest = if found { SHORTEST } else { pause * 2 };
                pause = rest.max(REST * begun.elapsed()).clamp(SHORTEST, LONGEST);
            }
        };
        let started = std::thread::Builder::new().name("wasm-retire".into()).stack_size(1 << 20).spawn(work);
        started.map(drop).map_err(Error::system)
    }
}

/// Has spent hooks left out where the program is; tells whether there were any. None once there will never be.
fn look(module: &Weak<ModuleInner>, origin: Origin, whose: &Weak<dyn Spent>) -> Option<bool> {
    let (module, whose) = (Module { inner: module.upgrade()? }, whose.upgrade()?);
    let first = module.inner.info.imported.functions;
    let mut hooks = Vec::new();
    for function in module.inner.running() {
        let function = first + function as u32;
        hooks.extend(whose.spent(function).into_iter().map(|hook| (function, hook)));
    }
    if hooks.is_empty() {
        return Some(false);
    }
    // Where nothing can be changed, nothing ever will be.
    module.leave_out(origin, &hooks, true).ok()
}
