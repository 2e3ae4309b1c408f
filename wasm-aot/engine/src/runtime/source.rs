//! Source lines, from a module's debug information.

use super::module::ModuleInner;
use crate::module::debug_information;
use gimli::{EndianSlice, LittleEndian};

/// The debug information of modules, read once for each.
#[derive(Default)]
pub(crate) struct Sources<'a>(
    Vec<(*const ModuleInner, Option<addr2line::Context<EndianSlice<'a, LittleEndian>>>)>,
);

impl<'a> Sources<'a> {
    /// File and line of a Wasm instruction, if the module has them.
    pub(crate) fn line(&mut self, module: &'a ModuleInner, offset: u32) -> Option<(String, u32)> {
        let known = self.0.iter().position(|(of, _)| std::ptr::eq(*of, module));
        let at = known.unwrap_or_else(|| {
            let dwarf = debug_information(&module.info, &module.bytes);
            self.0
                .push((module, dwarf.and_then(|dwarf| addr2line::Context::from_dwarf(dwarf).ok())));
            self.0.len() - 1
        });
        // Debug information counts from the start of the code section.
        let offset = u64::from(offset.checked_sub(module.info.code_start)?);
        let location = self.0[at].1.as_ref()?.find_location(offset).ok()??;
        Some((location.file?.to_owned(), location.line?))
    }
}
