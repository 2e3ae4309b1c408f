//! Source lines of a program's instructions, read from its debug information.

use gimli::{EndianSlice, LittleEndian};
use std::collections::HashMap;
use wasmparser::{Parser, Payload};

/// Rows of the line tables, by address.
#[derive(Debug, Default)]
pub struct Lines {
    rows: Vec<(u64, u32, u32)>,
    files: Vec<String>,
}

/// The sections with debug information, by name.
fn sections(bytes: &[u8]) -> HashMap<&str, &[u8]> {
    let custom =
        |p| if let Ok(Payload::CustomSection(c)) = p { Some((c.name(), c.data())) } else { None };
    Parser::new(0)
        .parse_all(bytes)
        .filter_map(custom)
        .filter(|c| c.0.starts_with(".debug_"))
        .collect()
}

impl Lines {
    /// Reads the line tables; damaged ones are left out.
    pub fn read(bytes: &[u8]) -> Self {
        let sections = sections(bytes);
        let load = |id: gimli::SectionId| {
            let data = sections.get(id.name()).copied().unwrap_or(&[]);
            Ok::<_, gimli::Error>(EndianSlice::new(data, LittleEndian))
        };
        let mut lines = Self::default();
        if let Ok(dwarf) = gimli::Dwarf::load(load) {
            let _ = lines.units(&dwarf);
        }
        lines.rows.sort_by_key(|r| r.0);
        lines
    }

    fn units(
        &mut self,
        dwarf: &gimli::Dwarf<EndianSlice<'_, LittleEndian>>,
    ) -> Result<(), gimli::Error> {
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            let Ok(unit) = dwarf.unit(header) else { continue };
            let Some(program) = unit.line_program.clone() else { continue };
            let mut known = HashMap::new();
            let mut rows = program.rows();
            while let Ok(Some((header, row))) = rows.next_row() {
                let number = row.file_index();
                let file = *known.entry(number).or_insert_with(|| {
                    let path = header.file(number).map(|file| path(dwarf, &unit, header, file));
                    self.files.push(path.unwrap_or_default());
                    u32::try_from(self.files.len() - 1).unwrap_or(0)
                });
                let line = if row.end_sequence() {
                    0
                } else {
                    row.line().map_or(0, |l| u32::try_from(l.get()).unwrap_or(0))
                };
                self.rows.push((row.address(), file, line));
            }
        }
        Ok(())
    }

    /// File and line of the instruction at an address, counted from the beginning of the code
    /// section.
    pub fn find(&self, address: u64) -> Option<(&str, u32)> {
        let at = self.rows.partition_point(|r| r.0 <= address).checked_sub(1)?;
        let (_, file, line) = self.rows[at];
        (line != 0).then(|| (self.files[file as usize].as_str(), line))
    }
}

/// The path of a file: in a directory, which may be relative to the unit's compilation directory.
/// The first directory is the compilation directory.
fn path<'a>(
    dwarf: &gimli::Dwarf<EndianSlice<'a, LittleEndian>>,
    unit: &gimli::Unit<EndianSlice<'a, LittleEndian>>,
    header: &gimli::LineProgramHeader<EndianSlice<'a, LittleEndian>>,
    file: &gimli::FileEntry<EndianSlice<'a, LittleEndian>>,
) -> String {
    let text = |value| dwarf.attr_string(unit, value).ok();
    let directory = file.directory(header).filter(|_| file.directory_index() != 0).and_then(text);
    let parts = unit.comp_dir.into_iter().chain(directory).chain(text(file.path_name()));
    parts.fold(String::new(), |path, part| within(&path, &part.to_string_lossy()))
}

/// A path relative to a directory, unless it is absolute.
fn within(directory: &str, path: &str) -> String {
    let is_rooted = path.starts_with(['/', '\\']) || path.get(1..3) == Some(":\\");
    match directory {
        "" => path.to_owned(),
        _ if is_rooted => path.to_owned(),
        directory if directory.ends_with('/') => format!("{directory}{path}"),
        directory => format!("{directory}/{path}"),
    }
}
