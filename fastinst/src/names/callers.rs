//! Callers: which function a timed call came from.
//!
//! A hook receives the return address of the code that it lies in. Where functions were inlined,
//! that is not the source's caller:
//!
//! ```text
//!   source: read_text() ──► count_word() ──► find()       code: read_text ──call──► find
//!                 count_word() is inlined into read_text()
//!
//!   call of find:        the return address lies in read_text, and there in count_word
//!   call of count_word:  the return address is read_text's, and lies in main
//! ```
//!
//! So an inlined function's exits report their own address, marked as [`INLINED`], and debug
//! information shows which functions an address is in. Without it the caller is the function whose
//! code it is.

use super::Names;
use crate::runtime::functions::{self, Id};
use crate::runtime::registry::ModuleRegistry;
use crate::runtime::target;
use profiler::{INLINED, Label};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use wordpatch::CodeAddr;

/// What is known of a module whose functions were inlined.
#[derive(Debug, Default)]
pub(super) struct Inlining {
    /// The functions that call sites are in, innermost first.
    frames: HashMap<CodeAddr, Arc<[String]>>,
    /// How many functions there were when names were last collected.
    functions: u32,
    /// Functions with probes by their symbols; `None` where several have the same.
    named: HashMap<String, Option<Id>>,
}

/// A symbol without the suffix of a copy that the compiler has made.
fn stem(symbol: &str) -> &str {
    symbol.split_once('.').map_or(symbol, |(stem, _)| stem)
}

impl Names {
    /// The caller of a function, from the call site that its hook has reported; `None` if it is not
    /// known.
    pub(crate) fn caller(
        &mut self,
        registry: &ModuleRegistry,
        callee: Id,
        site: u64,
        plain: bool,
    ) -> Option<Label> {
        let address = CodeAddr::new((site & !INLINED) as usize);
        // A return address is after the call: the byte before it belongs to the caller.
        let (is_end, address) = match site & INLINED {
            0 if address.get() == 0 => return None,
            0 => (false, address.offset(-1)),
            _ => (true, address),
        };
        let inlined = self.inlined_caller(registry, callee, address, is_end);
        if let Some((module, caller)) = inlined {
            let start = CodeAddr::new(caller.function().address.load(Relaxed) as usize);
            return Some(self.label(registry, Some(module), start, plain));
        }
        let caller = self.label(registry, None, address, plain);
        // A function that only seemed to be inlined does not call itself.
        let start = CodeAddr::new(callee.function().address.load(Relaxed) as usize);
        let is_itself = is_end && caller == self.label(registry, None, start, plain);
        (!is_itself).then_some(caller)
    }

    /// The innermost function with probes that was inlined at an address, outside of the callee if
    /// that ends there, and the module.
    fn inlined_caller(
        &mut self,
        registry: &ModuleRegistry,
        callee: Id,
        address: CodeAddr,
        is_end: bool,
    ) -> Option<(usize, Id)> {
        let (module, entry) = registry.entry_of(address)?;
        if entry.containers.is_empty() {
            return None;
        }
        let start = self.start(registry, module, address)?;
        if !entry.containers.contains(&start) {
            return None;
        }
        let frames = self.frames(registry, module, address)?;
        let inlined = &frames[..frames.len().saturating_sub(1)];
        let outside = match is_end {
            true => {
                let own = CodeAddr::new(callee.function().address.load(Relaxed) as usize);
                let own = self.symbol(registry, module, own)?.name;
                let at = inlined.iter().position(|frame| stem(frame) == stem(&own))?;
                &inlined[at + 1..]
            }
            false => inlined,
        };
        outside
            .iter()
            .find_map(|frame| Some((module, self.function_named(registry, module, frame)?)))
    }

    /// The functions that an address is in by debug information, looked up once.
    fn frames(
        &mut self,
        registry: &ModuleRegistry,
        module: usize,
        address: CodeAddr,
    ) -> Option<Arc<[String]>> {
        if let Some(frames) = self.known(registry, module)?.inlining.frames.get(&address) {
            return Some(frames.clone());
        }
        let frames: Arc<[String]> = self.inlined_at(registry, module, address).into();
        self.known(registry, module)?.inlining.frames.insert(address, frames.clone());
        Some(frames)
    }

    /// The function with probes that has this symbol, or one of its copies has; `None` if several
    /// have.
    pub(crate) fn function_named(
        &mut self,
        registry: &ModuleRegistry,
        module: usize,
        symbol: &str,
    ) -> Option<Id> {
        let inlining = &self.known(registry, module)?.inlining;
        if inlining.functions != functions::count() {
            self.collect_names(registry, module);
        }
        *self.known(registry, module)?.inlining.named.get(symbol)?
    }

    fn collect_names(&mut self, registry: &ModuleRegistry, module: usize) {
        let count = functions::count();
        let mut named = HashMap::<String, Option<Id>>::new();
        let mut copies = Vec::new();
        let span = registry.entries[module].module.span.clone();
        for id in functions::all() {
            let address = CodeAddr::new(id.function().address.load(Relaxed) as usize);
            if !span.contains(&address) || !target::is_selected(registry, address) {
                continue;
            }
            let Some(symbol) = self.symbol(registry, module, address) else { continue };
            if stem(&symbol.name) != symbol.name {
                copies.push((stem(&symbol.name).to_owned(), id));
            }
            let entry = named.entry(symbol.name).or_insert(Some(id));
            *entry = entry.filter(|known| *known == id);
        }
        for (stem, id) in copies {
            let entry = named.entry(stem).or_insert(Some(id));
            *entry = entry.filter(|known| *known == id);
        }
        if let Some(known) = self.known(registry, module) {
            known.inlining.functions = count;
            known.inlining.named = named;
        }
    }
}
