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
use crate::symbols::Symbol;
use profiler::{INLINED, Label};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
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

/// Whether a function has a probe where it begins.
fn is_entered(function: Id) -> bool {
    function.function().site_list().is_some_and(|sites| !sites.enters().is_empty())
}

/// Whether this is the symbol of a part that gcc has split off as rarely executed: jumps lead
/// there, and no calls.
fn is_rare_part(symbol: &str) -> bool {
    let part = symbol.trim_end_matches(|c: char| c == '.' || c.is_ascii_digit());
    part.strip_suffix(".cold").is_some_and(|whole| !whole.is_empty())
}

/// What compilers append to the symbol of a function for a part or a copy of it, before a number.
const SUFFIXES: &str = "isra constprop part cold lto_priv clone llvm specialized argprom argelim";

/// A symbol without the last of such suffixes; `None` if there is none. Other languages separate
/// parts of their names by dots.
fn shortened(symbol: &str) -> Option<&str> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let mut rest = symbol;
    while let Some((stem, last)) = rest.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()) {
        if SUFFIXES.split(' ').any(|suffix| suffix == last) {
            return Some(stem);
        }
        if !is_number(last) {
            break;
        }
        rest = stem;
    }
    (rest.len() < symbol.len()).then_some(rest)
}

/// A symbol without the suffixes of a copy that the compiler has made.
fn stem(symbol: &str) -> &str {
    std::iter::successors(Some(symbol), |symbol| shortened(symbol)).last().unwrap_or(symbol)
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
    /// known. A callee's module, whose number is given, may have gone since: calls from its own
    /// addresses came from itself, whatever lies there now.
    pub(crate) fn caller(
        &mut self,
        registry: &ModuleRegistry,
        (callee, home): (Id, Option<usize>),
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
        let holds = |module: &usize, address: CodeAddr| {
            registry.entries[*module].module.span.contains(&address)
        };
        let module = home
            .filter(|home| holds(home, address))
            .or_else(|| registry.entry_of(address).map(|(module, _)| module));
        let inlined = module
            .and_then(|module| self.inlined_caller(registry, callee, module, address, is_end));
        if let Some(caller) = inlined {
            return Some(self.label(registry, None, caller.start(), plain));
        }
        let around = module.and_then(|module| {
            let symbol = self.symbol(registry, module, address)?;
            self.owner(registry, module, &symbol)
        });
        // A function that only seemed to be inlined does not call itself.
        let is_itself = is_end && around == Some(callee);
        let caller = around.map_or(address, Id::start);
        // A variant's function begins in another module.
        let module = module.filter(|module| holds(module, caller));
        (!is_itself).then(|| self.label(registry, module, caller, plain))
    }

    /// The function whose probes are in the code of a symbol. A part that the compiler has split
    /// off (`f.part.0`, `f.cold`), and a copy (`f.isra.0`), have the hooks of the original, which
    /// report its address; one with a probe at its beginning is a function of its own.
    pub(crate) fn owner(
        &mut self,
        registry: &ModuleRegistry,
        module: usize,
        symbol: &Symbol,
    ) -> Option<Id> {
        let span = registry.entries.get(module)?.module.span.clone();
        let own = functions::find(symbol.start.get() as u64);
        let is_own = own.is_some_and(is_entered) && !is_rare_part(&symbol.name);
        let mut original = own.filter(|_| is_own);
        let mut shorter = symbol.name.as_str();
        while original.is_none_or(|id| !is_entered(id)) {
            let Some(stem) = shortened(shorter) else { break };
            let named = self.function_named(registry, module, stem);
            original = named.filter(|id| span.contains(&id.start())).or(original);
            shorter = stem;
        }
        original.or(own)
    }

    /// The innermost function with probes that was inlined at an address, outside of the callee if
    /// that ends there.
    fn inlined_caller(
        &mut self,
        registry: &ModuleRegistry,
        callee: Id,
        module: usize,
        address: CodeAddr,
        is_end: bool,
    ) -> Option<Id> {
        let entry = registry.entries.get(module)?;
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
                let own = callee.start();
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
            let address = id.start();
            if !is_there(address) || !target::is_selected(registry, address) {
                continue;
            }
            let Some((home, _)) = registry.entry_of(address) else { continue };
            let Some(symbol) = self.symbol(registry, home, address) else { continue };
            let name = comparable(&symbol.name);
            if is_rare_part(&name) {
                continue;
            }
            if stem(&name) != name {
                copies.push((stem(&name).to_owned(), id));
            }
            named.add(name.into_owned(), id);
        }
        // The original is what hooks report, also those in its copies.
        copies.retain(|(stem, _)| !named.functions.contains_key(stem));
        copies.into_iter().for_each(|(stem, id)| named.add(stem, id));
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_of_parts_and_copies_are_known() {
        assert_eq!(stem("_Z1fi.isra.0.cold"), "_Z1fi");
        assert_eq!(stem("f.constprop.0.part.12"), "f");
        assert_eq!(stem("f.llvm.4711"), "f");
        assert_eq!(stem("nested.0"), "nested");
        for whole in ["f", "main.init", "main.main", "os.(*File).Read", ".cold", "", "."] {
            assert_eq!(stem(whole), whole);
        }
        assert!(is_rare_part("f.cold") && is_rare_part("f.isra.0.cold.3"));
        assert!(!is_rare_part("f.isra.0") && !is_rare_part("shop.coldest"));
    }

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
