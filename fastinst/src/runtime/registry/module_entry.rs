//! An entry of the registry: one module, its installed sites, and the numbers that it keeps so that
//! it can be unloaded and loaded again.

use crate::discovery::Module;
use crate::runtime::functions::{self, Id};
use crate::runtime::{sites, threads};
use callpatch::Islands;
use std::collections::BTreeSet;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use wordpatch::CodeAddr;
use wordpatch::os::clocks;

/// One module, and its sites.
#[derive(Debug)]
pub(crate) struct ModuleEntry {
    pub(crate) module: Module,
    /// The path that the kernel has for its file: the loader knows libraries by links to it.
    pub(crate) mapped_as: PathBuf,
    /// Its sites: from the first number to the one after the last.
    pub(crate) sites: Range<u32>,
    /// Its trampolines. Threads may be in one for as long as the module is loaded.
    pub(in crate::runtime) islands: Option<Islands>,
    /// Whether a compiler may have prepared its functions by other means than hooks.
    pub(in crate::runtime) may_be_prepared: bool,
    /// Whether probes may be installed in its functions as they are.
    pub(in crate::runtime) is_open: bool,
    /// Whether it was loaded since modules were last opened.
    pub(in crate::runtime) is_new: bool,
    /// If it may be unloaded: its sites in code that no compiler has prepared, including those that
    /// it had when it was loaded before.
    pub(in crate::runtime) puns: BTreeSet<u32>,
    /// Whether it may be unloaded.
    pub(crate) transient: bool,
    pub(crate) gone: bool,
    /// From when on it lies where it lies, and until when, in nanoseconds of the monotonic clock.
    /// Others may lie there before and after.
    pub(in crate::runtime) lifetime: Range<u64>,
    /// The file, as long as it is unchanged: when it is loaded again, its functions and sites have
    /// the numbers that they had.
    pub(in crate::runtime) identity: Option<FileIdentity>,
    /// The numbers of its sites in the order in which they are found; [`sites::UNKNOWN`] for a site
    /// that was refused.
    pub(in crate::runtime) numbers: Vec<u32>,
    /// The functions into which others with hooks were inlined, by their addresses.
    pub(crate) containers: BTreeSet<CodeAddr>,
    /// The functions that were found with it have this number, or higher ones.
    pub(in crate::runtime) first: Id,
    /// The functions that it had when it was unloaded.
    pub(in crate::runtime) functions: Vec<Id>,
}

/// What distinguishes a file from any other, and from what it was before it was written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::runtime) struct FileIdentity {
    path: PathBuf,
    file: (u64, u64, u64),
    changed: (i64, i64),
}

pub(in crate::runtime) fn mapped_as(module: &Module) -> PathBuf {
    std::fs::canonicalize(&module.path).unwrap_or_else(|_| module.path.clone())
}

impl FileIdentity {
    pub(in crate::runtime) fn of(module: &Module) -> Option<Self> {
        let data = std::fs::metadata(&module.path).ok()?;
        let (file, changed) =
            ((data.dev(), data.ino(), data.len()), (data.ctime(), data.ctime_nsec()));
        Some(Self { path: module.path.clone(), file, changed })
    }
}

impl ModuleEntry {
    /// The numbers of all of its sites.
    pub(in crate::runtime) fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        self.sites.clone().chain(self.puns.clone())
    }

    /// Whether it has probes, or may have some.
    pub(crate) fn has_probes(&self) -> bool {
        !self.sites.is_empty() || self.is_open || !self.has_file()
    }

    /// Whether it has probes, or had some when it was loaded.
    pub(crate) fn had_probes(&self) -> bool {
        self.has_probes() || !self.puns.is_empty()
    }

    /// Whether it is a program or a library, not code that a runtime has made.
    pub(crate) fn has_file(&self) -> bool {
        self.module.registered.is_none()
    }

    /// Whether the loader has it: it is not gone, and not code that a runtime has made.
    pub(in crate::runtime) fn is_loaded(&self) -> bool {
        !self.gone && self.has_file()
    }

    /// Code that a runtime has made. Its functions have that number, or higher ones.
    pub(in crate::runtime) fn of_registered(module: Module, first: Id) -> Self {
        Self {
            mapped_as: module.path.clone(),
            module,
            sites: sites::count()..sites::count(),
            islands: None,
            may_be_prepared: false,
            is_open: false,
            is_new: false,
            puns: BTreeSet::new(),
            transient: false,
            gone: false,
            lifetime: clocks::monotonic()..u64::MAX,
            identity: None,
            numbers: Vec::new(),
            containers: BTreeSet::new(),
            first,
            functions: Vec::new(),
        }
    }

    /// Marks the code of a runtime as gone.
    pub(in crate::runtime) fn mark_registered_unloaded(&mut self) {
        self.end();
        self.functions = functions::forget(&self.module.span, self.first);
    }

    /// Whether it is code of the registration of that number.
    pub(in crate::runtime) fn is_of_registration(&self, number: u64) -> bool {
        self.module.registered.as_ref().is_some_and(|registered| registered.number == number)
    }

    /// The same module, loaded anew: its functions can be found again, and have the numbers that
    /// they had.
    pub(in crate::runtime) fn moved_to(&self, module: Module, lifetime: Range<u64>) -> Self {
        for &id in &self.functions {
            let address = id.function().address.load(Relaxed) as usize;
            let address = address.wrapping_sub(self.module.bias).wrapping_add(module.bias) as u64;
            if functions::revive(id, address) && module.bias != self.module.bias {
                threads::forget_address(id.record());
            }
        }
        let (sites, identity, numbers) =
            (self.sites.clone(), self.identity.clone(), self.numbers.clone());
        let (first, functions) = (self.first, Vec::new());
        Self {
            mapped_as: mapped_as(&module),
            module,
            sites,
            islands: None,
            may_be_prepared: self.may_be_prepared,
            is_open: false,
            is_new: true,
            puns: self.puns.clone(),
            transient: true,
            gone: false,
            lifetime,
            identity,
            numbers,
            containers: BTreeSet::new(),
            first,
            functions,
        }
    }
}
