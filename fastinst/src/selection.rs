//! Selection: which functions the user wants probed.

use crate::discovery::Module;
use crate::symbols::{Pattern, PatternError, Subject, Symbol, Symbols, demangled};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use wordpatch::CodeAddr;

/// A module: its file, its number if it was registered, and where it lies.
type Place = (PathBuf, Option<u64>, usize);

/// Which functions are wanted: all that an included pattern names, or simply all, without those
/// that an excluded one names.
pub(crate) struct Selector {
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
    symbols: Mutex<HashMap<Place, Option<Symbols>>>,
}

impl std::fmt::Debug for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Selector")
            .field("include", &self.include)
            .field("exclude", &self.exclude)
            .finish_non_exhaustive()
    }
}

impl Selector {
    /// From patterns; `None` if there are none.
    pub(crate) fn of(include: &[String], exclude: &[String]) -> Result<Option<Self>, PatternError> {
        if include.is_empty() && exclude.is_empty() {
            return Ok(None);
        }
        let parse = |patterns: &[String]| {
            patterns.iter().map(|pattern| Pattern::parse(pattern)).collect::<Result<Vec<_>, _>>()
        };
        Ok(Some(Self {
            include: parse(include)?,
            exclude: parse(exclude)?,
            symbols: Mutex::default(),
        }))
    }

    /// Whether the function at an address of a module is wanted. One without a name is wanted if
    /// nothing has to be included.
    pub(crate) fn accepts(&self, module: &Module, address: CodeAddr) -> bool {
        let mut known = self.symbols.lock().unwrap_or_else(PoisonError::into_inner);
        let registration = module.registered.as_ref().map(|registered| registered.number);
        let symbols = known
            .entry((module.path.clone(), registration, module.bias))
            .or_insert_with(|| Symbols::load(module).ok());
        let symbol = symbols.as_ref().and_then(|symbols| symbols.name_at(address));
        let size = symbol.as_ref().and_then(Symbol::known_size);
        let name = symbol.map(|symbol| demangled(&symbol.name)).unwrap_or_default();
        let needs_file = self.include.iter().chain(&self.exclude).any(Pattern::needs_file);
        let file = symbols
            .as_mut()
            .filter(|_| needs_file)
            .and_then(|symbols| symbols.line_of(address))
            .map(|(file, _)| file);
        self.names(&Subject { name: &name, module: &module.name, file: file.as_deref(), size })
    }

    /// Whether a function is wanted that is described so.
    pub(crate) fn names(&self, subject: &Subject<'_>) -> bool {
        let named = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(subject));
        (self.include.is_empty() || named(&self.include)) && !named(&self.exclude)
    }
}
