//! A module's debug information, where it lies in the module.

use super::ModuleInfo;
use gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};

/// The debug information of a module, if it has any.
pub fn debug_information<'a>(
    info: &ModuleInfo,
    bytes: &'a [u8],
) -> Option<Dwarf<EndianSlice<'a, LittleEndian>>> {
    let section = |id: SectionId| -> Result<EndianSlice<'a, LittleEndian>, gimli::Error> {
        let named = info.custom.iter().find(|(name, _)| name == id.name());
        let contents = named
            .and_then(|(_, range)| bytes.get(range.start as usize..range.end as usize))
            .unwrap_or_default();
        Ok(EndianSlice::new(contents, LittleEndian))
    };
    info.custom
        .iter()
        .any(|(name, _)| name == SectionId::DebugLine.name())
        .then(|| Dwarf::load(section).ok())?
}
