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
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use wordpatch::CodeAddr;

/// What is known of a module whose functions were inlined.
#[derive(Debug, Default)]
pub(super) struct Inlining {
    /// The functions that call sites are in, innermost first.
    frames: HashMap<CodeAddr, Arc<[String]>>,
    named: Named,
}

/// Functions with probes by their symbols.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// How many functions there were when they were last collected.
    count: u32,
    /// `None` where several have the same symbol.
    functions: HashMap<String, Option<Id>>,
}

impl Named {
    fn add(&mut self, symbol: String, id: Id) {
        let entry = self.functions.entry(symbol).or_insert(Some(id));
        *entry = entry.filter(|known| *known == id);
    }

    fn get(&self, symbol: &str) -> Option<Option<Id>> {
        self.functions.get(symbol).copied()
    }
}

fn is_at(function: Id, address: CodeAddr) -> bool {
    function.function().address.load(Relaxed) == address.get() as u64
}

/// A symbol without the suffix of a copy that the compiler has made.
fn stem(symbol: &str) -> &str {
    symbol.split_once('.').map_or(symbol, |(stem, _)| stem)
}

/// A symbol as it is compared. A constructor or destructor of C++ has several: those of whole
/// objects and of bases, and one in debug information that stands for all of them.
fn comparable(symbol: &str) -> Cow<'_, str> {
    let is_variant = |at: usize| {
        let [kind, digit, next] = symbol.as_bytes()[at..at + 3] else { return false };
        matches!(kind, b'C' | b'D') && digit.is_ascii_digit() && matches!(next, b'E' | b'I')
    };
    let mut variants = (0..symbol.len().saturating_sub(2)).filter(|&at| is_variant(at)).peekable();
    if !symbol.starts_with("_Z") || variants.peek().is_none() {
        return Cow::Borrowed(symbol);
    }
    let mut bytes = symbol.as_bytes().to_vec();
    variants.for_each(|at| bytes[at + 1] = b'4');
    String::from_utf8(bytes).map_or(Cow::Borrowed(symbol), Cow::Owned)
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
        if let Some(caller) = inlined {
            let start = CodeAddr::new(caller.function().address.load(Relaxed) as usize);
            return Some(self.label(registry, None, start, plain));
        }
        // A function that only seemed to be inlined does not call itself.
        let is_itself = is_end
            && registry.entry_of(address).is_some_and(|(module, _)| {
                let around = self.start(registry, module, address);
                around.is_some_and(|start| is_at(callee, start))
            });
        (!is_itself).then(|| self.label(registry, None, address, plain))
    }

    /// The innermost function with probes that was inlined at an address, outside of the callee if
    /// that ends there.
    fn inlined_caller(
        &mut self,
        registry: &ModuleRegistry,
        callee: Id,
        address: CodeAddr,
        is_end: bool,
    ) -> Option<Id> {
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
                let (home, _) = registry.entry_of(own)?;
                let own = self.symbol(registry, home, own)?.name;
                let own = comparable(stem(&own));
                let at = inlined.iter().position(|frame| comparable(stem(frame)) == own)?;
                &inlined[at + 1..]
            }
            false => inlined,
        };
        outside.iter().find_map(|frame| self.function_named(registry, module, frame))
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
    /// have. Those of the module come first: the linker may have chosen another module's copy of an
    /// inline function of C++.
    pub(crate) fn function_named(
        &mut self,
        registry: &ModuleRegistry,
        module: usize,
        symbol: &str,
    ) -> Option<Id> {
        let count = functions::count();
        if self.known(registry, module)?.inlining.named.count != count {
            let span = registry.entries[module].module.span.clone();
            let named = self.collect(registry, |address| span.contains(&address));
            self.known(registry, module)?.inlining.named = named;
        }
        let symbol = comparable(symbol);
        if let Some(found) = self.known(registry, module)?.inlining.named.get(&symbol) {
            return found;
        }
        if self.named.count != count {
            self.named = self.collect(registry, |_| true);
        }
        self.named.get(&symbol).flatten()
    }

    /// The functions that begin at such addresses.
    fn collect(&mut self, registry: &ModuleRegistry, is_there: impl Fn(CodeAddr) -> bool) -> Named {
        let mut named = Named { count: functions::count(), ..Named::default() };
        let mut copies = Vec::new();
        for id in functions::all() {
            let address = CodeAddr::new(id.function().address.load(Relaxed) as usize);
            if !is_there(address) || !target::is_selected(registry, address) {
                continue;
            }
            let Some((home, _)) = registry.entry_of(address) else { continue };
            let Some(symbol) = self.symbol(registry, home, address) else { continue };
            let name = comparable(&symbol.name);
            if stem(&name) != name {
                copies.push((stem(&name).to_owned(), id));
            }
            named.add(name.into_owned(), id);
        }
        copies.into_iter().for_each(|(stem, id)| named.add(stem, id));
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constructors_are_compared_without_their_variant() {
        let same = |one, other| comparable(one) == comparable(other);
        assert!(same("_ZN6VectorIiEC1Ev", "_ZN6VectorIiEC4Ev"));
        assert!(same("_ZN3BoxD0Ev", "_ZN3BoxD2Ev"));
        assert!(same("_ZN3BoxC2IiEET_", "_ZN3BoxC4IiEET_"));
        assert!(!same("_ZN3BoxC1Ev", "_ZN3BoxC1Ei") && !same("_ZN3BoxC1Ev", "_ZN3BoxD1Ev"));
        assert!(!same("C1E", "C2E") && same("", "") && !same("_ZN", "_Z"));
    }
}
