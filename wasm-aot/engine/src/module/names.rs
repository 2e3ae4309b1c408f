//! The names of a module's functions, parsed on demand, since most runs need none.

use crate::array::Array;
use std::sync::OnceLock;
use wasmparser::{BinaryReader, Name, NameSectionReader};

/// Names of functions.
#[derive(Debug)]
pub(crate) struct Names {
    /// The contents of the name section.
    section: Array<u8>,
    /// The ranges of the names in it, by function; computed on first use.
    functions: OnceLock<Vec<Naming>>,
}

/// The range of a function's name.
#[derive(Clone, Copy, Debug)]
struct Naming {
    function: u32,
    start: u32,
    end: u32,
}

impl Default for Names {
    fn default() -> Self {
        Self::new(Array::Owned(Vec::new()))
    }
}

impl Names {
    pub(crate) fn new(section: Array<u8>) -> Self {
        Self { section, functions: OnceLock::new() }
    }

    /// The name of a function, if there is one.
    pub(crate) fn function(&self, index: u32) -> Option<&str> {
        let known = self.functions.get_or_init(|| functions(&self.section));
        let at = known.binary_search_by_key(&index, |naming| naming.function).ok()?;
        std::str::from_utf8(self.section.get(known[at].start as usize..known[at].end as usize)?)
            .ok()
    }
}

/// The ranges of names, by function: the first for each. Reading ends at the first malformed entry.
fn functions(section: &[u8]) -> Vec<Naming> {
    let mut functions = Vec::new();
    for subsection in NameSectionReader::new(BinaryReader::new(section, 0)) {
        match subsection {
            Ok(Name::Function(map)) => {
                functions.extend(map.into_iter().map_while(Result::ok).map(|naming| {
                    let start = (naming.name.as_ptr() as usize - section.as_ptr() as usize) as u32;
                    Naming { function: naming.index, start, end: start + naming.name.len() as u32 }
                }));
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    functions.sort_by_key(|naming| naming.function);
    functions.dedup_by_key(|naming| naming.function);
    functions
}
