//! Source lines, from the debug information of a module.

use super::module::ModuleInner;
use crate::module::ModuleInfo;
use gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};

/// File and line of a Wasm instruction, if the module tells them.
pub(crate) fn line(module: &ModuleInner, offset: u32) -> Option<(String, u32)> {
    let dwarf = debug_information(&module.info, &module.bytes)?;
    let context = addr2line::Context::from_dwarf(dwarf).ok()?;
    // Debug information counts from the start of the code section.
    let location = context.find_location(u64::from(offset.checked_sub(module.info.code_start)?)).ok()??;
    Some((location.file?.to_owned(), location.line?))
}

/// The debug information of a module, if it has any.
pub(crate) fn debug_information<'a>(info: &ModuleInfo, bytes: &'a [u8]) -> Option<Dwarf<EndianSlice<'a, LittleEndian>>> {
    let section = |id: SectionId| -> Result<EndianSlice<'a, LittleEndian>, gimli::Error> {
        let named = info.custom.iter().find(|(name, _)| name == id.name());
        let contents = named.and_then(|(_, range)| bytes.get(range.start as usize..range.end as usize)).unwrap_or_default();
        Ok(EndianSlice::new(contents, LittleEndian))
    };
    info.custom.iter().any(|(name, _)| name == SectionId::DebugLine.name()).then(|| Dwarf::load(section).ok())?
}
