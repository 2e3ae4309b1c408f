//! Source lines, from the debug information of a module.

use super::module::ModuleInner;

/// File and line of a Wasm instruction, if the module tells them.
pub(crate) fn line(module: &ModuleInner, offset: u32) -> Option<(String, u32)> {
    let section = |id: gimli::SectionId| -> Result<gimli::EndianSlice<'_, gimli::LittleEndian>, gimli::Error> {
        let named = module.info.custom.iter().find(|(name, _)| name == id.name());
        let bytes = named.map_or(&[][..], |(_, range)| &module.bytes[range.start as usize..range.end as usize]);
        Ok(gimli::EndianSlice::new(bytes, gimli::LittleEndian))
    };
    if !module.info.custom.iter().any(|(name, _)| name == ".debug_line") {
        return None;
    }
    let dwarf = gimli::Dwarf::load(section).ok()?;
    let context = addr2line::Context::from_dwarf(dwarf).ok()?;
    // Debug information counts from the start of the code section.
    let location = context.find_location(u64::from(offset.checked_sub(module.info.code_start)?)).ok()??;
    Some((location.file?.to_owned(), location.line?))
}
