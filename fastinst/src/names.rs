//! Names of addresses in this process, by the modules of the registry.

mod callers;

use crate::runtime::registry::ModuleRegistry;
use crate::symbols::{Symbol, Symbols, demangled};
use callers::{Inlining, Named};
use profiler::Label;
use std::collections::HashMap;
use wordpatch::CodeAddr;

/// A name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// As people write it; the module and an offset where there is none.
    pub(crate) shown: String,
    /// As the table of symbols has it.
    pub(crate) symbol: String,
    /// Where the function begins.
    pub(crate) start: CodeAddr,
    /// How long it is, if that is known.
    pub(crate) size: Option<usize>,
}

/// The symbols of modules, read on demand.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// By the numbers of modules.
    modules: Vec<Known>,
    /// The functions of all modules.
    named: Named,
}

/// What is known of one module.
#[derive(Debug, Default)]
struct Known {
    /// Its symbols, if they were read; or that they cannot be.
    symbols: Option<Option<Symbols>>,
    /// Its load bias when it was queried: an unloaded module may be loaded again at another
    /// address.
    bias: usize,
    /// The results of queries before its symbols were read.
    looked_up: HashMap<CodeAddr, Option<Symbol>>,
    inlining: Inlining,
}

/// How many addresses of a module are looked up one by one before its symbols are read: a look-up
/// takes a tenth of the time of reading.
const LOOKS: usize = 8;

impl Names {
    /// The function of a module that an address lies in. A library that only calls functions with
    /// probes is queried for one or two addresses.
    fn at(
        &mut self,
        registry: &ModuleRegistry,
        number: usize,
        address: CodeAddr,
    ) -> Option<Symbol> {
        let module = registry.entries.get(number)?;
        let known = self.known(registry, number)?;
        // An unloaded module no longer has probes, and its points have their names.
        let is_read = known.symbols.is_some() || module.module.points.is_some();
        if is_read || module.has_probes() {
            return self.symbols(registry, number)?.name_at(address);
        }
        if let Some(symbol) = known.looked_up.get(&address) {
            return symbol.clone();
        }
        if known.looked_up.len() >= LOOKS {
            return self.symbols(registry, number)?.name_at(address);
        }
        let symbol = Symbols::look_up_in_own_file(&module.module, address).ok().flatten();
        known.looked_up.insert(address, symbol.clone());
        symbol
    }

    /// The symbols of a module; `None` if it is loaded at another address now.
    fn known(&mut self, registry: &ModuleRegistry, number: usize) -> Option<&mut Known> {
        let bias = registry.entries.get(number)?.module.bias;
        if self.modules.len() <= number {
            self.modules.resize_with(number + 1, Known::default);
        }
        let known = &mut self.modules[number];
        if known.bias != bias {
            *known = Known { bias, ..Known::default() };
        }
        Some(known)
    }

    fn symbols(&mut self, registry: &ModuleRegistry, number: usize) -> Option<&mut Symbols> {
        let module = &registry.entries.get(number)?.module;
        let load = || Symbols::load(module).ok();
        let symbols = self.known(registry, number)?.symbols.get_or_insert_with(load).as_mut()?;
        symbols.learn_points(module);
        Some(symbols)
    }

    /// The function that an address lies in.
    pub(crate) fn of(&mut self, registry: &ModuleRegistry, address: CodeAddr) -> Name {
        match registry.entry_of(address) {
            Some((number, _)) => self.in_module(registry, number, address),
            None => Name {
                shown: format!("{address}"),
                symbol: String::new(),
                start: address,
                size: None,
            },
        }
    }

    /// The same, in a module that may be gone.
    pub(crate) fn in_module(
        &mut self,
        registry: &ModuleRegistry,
        number: usize,
        address: CodeAddr,
    ) -> Name {
        let symbol = self.at(registry, number, address);
        if let Some(symbol) = symbol {
            return Name {
                shown: demangled(&symbol.name),
                start: symbol.start,
                size: symbol.known_size(),
                symbol: symbol.name,
            };
        }
        let module = registry.entries.get(number).map(|entry| &entry.module);
        let offset = address.get().wrapping_sub(module.map_or(0, |module| module.bias));
        let name = module.map_or("?", |module| &module.name);
        Name {
            shown: format!("{name}+{offset:#x}"),
            symbol: String::new(),
            start: address,
            size: None,
        }
    }

    /// The symbol of the function that an address lies in, in a module that may be gone.
    pub(crate) fn symbol(
        &mut self,
        registry: &ModuleRegistry,
        number: usize,
        address: CodeAddr,
    ) -> Option<Symbol> {
        self.at(registry, number, address)
    }

    /// Where the function begins that an address lies in, of a module whose symbols are read.
    pub(crate) fn start(
        &mut self,
        registry: &ModuleRegistry,
        number: usize,
        address: CodeAddr,
    ) -> Option<CodeAddr> {
        self.symbols(registry, number)?.start_of(address)
    }

    /// The functions that an address is in by debug information, innermost first.
    pub(crate) fn inlined_at(
        &mut self,
        registry: &ModuleRegistry,
        number: usize,
        address: CodeAddr,
    ) -> Vec<String> {
        self.symbols(registry, number)
            .map(|symbols| symbols.inlined_at(address))
            .unwrap_or_default()
    }

    /// The source line of an address.
    pub(crate) fn line_of(
        &mut self,
        registry: &ModuleRegistry,
        address: CodeAddr,
    ) -> Option<(String, u32)> {
        let (number, _) = registry.entry_of(address)?;
        self.symbols(registry, number)?.line_of(address)
    }

    /// A function's label in a profile: its name, plain or as in the symbol table, and its place in
    /// a module of that number.
    pub(crate) fn label(
        &mut self,
        registry: &ModuleRegistry,
        number: Option<usize>,
        address: CodeAddr,
        plain: bool,
    ) -> Label {
        let Some(of) = number.or_else(|| registry.entry_of(address).map(|(number, _)| number))
        else {
            return Label {
                name: format!("{address}"),
                offset: address.get() as u64,
                ..Label::default()
            };
        };
        let symbol = self.at(registry, of, address);
        // A variant is shown as the function.
        let registered =
            registry.entries.get(of).and_then(|entry| entry.module.registered.as_ref());
        let number = registered.and_then(|registered| registered.home).unwrap_or(of);
        let name = match symbol.filter(|_| !plain) {
            Some(symbol) => {
                Name { shown: symbol.name, symbol: String::new(), start: symbol.start, size: None }
            }
            None => self.in_module(registry, of, address),
        };
        let module = registry.entries.get(number).map(|entry| &entry.module);
        let offset = name.start.get().wrapping_sub(module.map_or(0, |module| module.bias)) as u64;
        // Lines of files are looked up by the reader of a profile.
        let registered = module.and_then(|module| module.registered.as_ref()?.at(name.start));
        let (file, line) =
            registered.map_or((None, None), |function| (function.file, function.line));
        Label { name: name.shown, module: Some(number as u32), offset, file, line }
    }
}
