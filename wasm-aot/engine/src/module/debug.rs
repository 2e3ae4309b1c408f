//! Finds a module's debug information in its bytes.

use super::ModuleInfo;
use gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};

/// The debug information of a module, if it has any.
pub fn debug_information<'a>(
    info: &ModuleInfo,
    bytes: &'a [u8],
) -> Option<Dwarf<EndianSlice<'a, LittleEndian>>> {
    let section = |id: SectionId| -> Result<EndianSlice<'a, LittleEndian>, gimli::Error> {
        let contents = info.custom_section(bytes, id.name()).unwrap_or_default();
        Ok(EndianSlice::new(contents, LittleEndian))
    };
    info.custom
        .iter()
        .any(|(name, _)| name == SectionId::DebugLine.name())
        .then(|| Dwarf::load(section).ok())?
}
