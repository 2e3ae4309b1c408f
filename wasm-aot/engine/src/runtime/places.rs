//! Formats places of a module: function, offset, source line.

use super::module::{Module, ModuleInner};
use super::source::Sources;
use std::cell::RefCell;

/// Names functions and lines of a module.
pub struct Places<'a> {
    module: &'a ModuleInner,
    sources: RefCell<Sources<'a>>,
}

impl std::fmt::Debug for Places<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Places").finish_non_exhaustive()
    }
}

impl<'a> Places<'a> {
    /// Of a module.
    pub fn of(module: &'a Module) -> Self {
        Self { module: &module.inner, sources: RefCell::default() }
    }

    /// A function, and where in it; the place is that in the module.
    pub fn place(&self, function: u32, at: u32) -> String {
        let start = self.module.info.body(function).start;
        format!("{}+{}", self.module.label(function), at.saturating_sub(start))
    }

    /// File and line of a function that the module defines, if the module has them; nothing
    /// otherwise.
    pub fn of_function(&self, function: u32) -> String {
        let defined = function.checked_sub(self.module.info.imported.functions);
        defined.and_then(|_| self.source(self.module.info.body(function).start)).unwrap_or_default()
    }

    /// File and line of a place in the module, if the module has them.
    pub fn source(&self, at: u32) -> Option<String> {
        let (file, line) = self.sources.borrow_mut().line(self.module, at)?;
        Some(format!("{file}:{line}"))
    }
}
