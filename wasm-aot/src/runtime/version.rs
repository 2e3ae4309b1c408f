//! A second version of a module's code, which counts, and the switches that lead from one version into the other.
//!
//! Before each function there is a site: an instruction that does nothing, or, by its first byte, a jump to the same function in the other version.
//! One of the versions has its sites off, the other has them on; so a thread goes over with its next call. Every mixture that a thread
//! may meet on its way leads to one of the two, and both do the same.
//!
//! The version is made once, and kept: attaching again, and detaching, are one store for each function.
//!
//! # Safety
//!
//! This module exists to modify code that may be running (assumptions A2, A3 and A5 of `wordpatch`): a site is switched by storing its first byte, a byte is
//! never torn, and flags are dead where functions begin. Distances are stored behind a first byte that makes nothing of them, and a barrier comes before the byte
//! that does.
#![allow(unsafe_code)]

use super::code::Code;
use super::counts::Counts;
use super::module::{Module, ModuleInner};
use super::targets::Words;
use crate::compile::{self, OFF, ON, Options, Plan, Sites, Target};
use crate::error::Error;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Release};
use wordpatch::Barrier;

/// The version that counts.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) code: Code,
    counters: u32,
    calls: u32,
}

impl Module {
    /// Has everything that is executed from now on counted, in all instances, whether they are running or not: a thread begins to count with its
    /// next call of a function. May be called from any thread; the first time compiles the module once more.
    ///
    /// # Errors
    /// If the module was compiled without sites ([`Config::sites`](crate::Config::sites)), or there is no memory for code near its code.
    pub fn attach_counts(&self) -> Result<(), Error> {
        let module = &self.inner;
        if module.options.counts {
            return Ok(());
        }
        let mut attached = module.attached.lock();
        if module.version.get().is_none() {
            let version = module.make_version()?;
            // Nobody else sets it: the lock is held.
            let _ = module.version.set(version);
            Barrier::best().and_then(Barrier::pass).map_err(Error::system)?;
        }
        if !std::mem::replace(&mut *attached, true) {
            module.switch(true);
        }
        Ok(())
    }

    /// Whether what is executed is counted at the moment.
    pub fn is_counting(&self) -> bool {
        self.inner.options.counts || *self.inner.attached.lock()
    }

    /// How many places there are where something can be switched on while instances run.
    pub fn sites(&self) -> usize {
        match self.inner.options.sites {
            Sites::None => 0,
            Sites::Functions => self.inner.info.bodies.len(),
        }
    }

    /// Has nothing counted any more: a thread ceases with its next call of a function. What was counted stays.
    pub fn detach_counts(&self) {
        let mut attached = self.inner.attached.lock();
        if std::mem::replace(&mut *attached, false) {
            self.inner.switch(false);
        }
    }

    /// How often everything was executed by the module's instances while it was counted: always, if the engine's code counts
    /// ([`Config::counts`](crate::Config::counts)); otherwise while counts were [attached](Self::attach_counts). None if they never were. While
    /// instances run, what is on its way may be missing.
    pub fn counts(&self) -> Option<Counts> {
        let module = &self.inner;
        let (code, counters) = match module.version.get() {
            _ if module.options.counts => (&module.code, module.counters),
            Some(version) => (&version.code, version.counters),
            None => return None,
        };
        let sums = module.counted.sums(&module.layout, counters);
        Some(Counts::new(module, code, &sums, module.counted.targets(module)))
    }
}

impl ModuleInner {
    /// Whether this code of the module counts. Usable in a signal handler.
    pub(crate) fn counts_in(&self, code: &Code) -> bool {
        self.options.counts || !std::ptr::eq(code, &raw const self.code)
    }

    /// The words that instances count with at the moment.
    pub(super) fn words(&self) -> Words {
        match self.version.get() {
            Some(version) => Words { counters: version.counters, places: version.calls },
            None => Words { counters: self.counters, places: self.calls },
        }
    }

    /// Compiles the version that counts, and has both lead to each other as soon as they are switched.
    fn make_version(&self) -> Result<Version, Error> {
        if self.options.sites == Sites::None {
            return Err(Error::Attach("the module was compiled without sites, so that nothing can be attached".into()));
        }
        if !self.has_room_for_counters() {
            let why = "the module was compiled without reservations, so that its instances have no room for counters";
            return Err(Error::Attach(why.into()));
        }
        let target = Target::native(Options { counts: true, targets: false, ..self.options })?;
        let compilation = compile::compile(&self.bytes, &target, &Plan::default())?;
        if 8 * compilation.counters as usize > self.room_for_counters() {
            return Err(Error::Attach("instances have no room for so many counters".into()));
        }
        let code = Code::near(&self.code, compilation.text)?;
        let ours = self.code.writable()?;
        let theirs = code.writable()?;
        for (plain, counting) in self.code.tables.functions.iter().zip(code.tables.functions.iter()) {
            let (from, to) = (self.code.at(plain.start) as usize, code.at(counting.start) as usize);
            // A jump counts from its end, where the function begins.
            let distance = to.wrapping_sub(from) as u32;
            // SAFETY: (1) the four bytes before a function are its site's, in writable memory; (2) its first byte makes nothing of them.
            unsafe {
                AtomicU32::from_ptr(ours.add(plain.start as usize - 4).cast()).store(distance, Release);
                AtomicU32::from_ptr(theirs.add(counting.start as usize - 4).cast()).store(distance.wrapping_neg(), Release);
            }
        }
        Ok(Version { code, counters: compilation.counters, calls: compilation.calls })
    }

    /// Switches the sites of both versions: first off, then on.
    fn switch(&self, counting: bool) {
        let Some(version) = self.version.get() else { return };
        let (from, to) = if counting { (&self.code, &version.code) } else { (&version.code, &self.code) };
        store_all(to, OFF);
        store_all(from, ON);
    }
}

/// Stores the first byte of every site.
fn store_all(code: &Code, byte: u8) {
    let Ok(writable) = code.writable() else { return };
    for function in code.tables.functions.iter() {
        // SAFETY: (A3) one byte; (1) the site's first, in writable memory.
        unsafe { AtomicU8::from_ptr(writable.add(function.start as usize - Sites::Functions.prefix() as usize)) }
            .store(byte, Release);
    }
}
