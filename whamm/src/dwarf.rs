//! Debug information: source places of a program's instructions, and what becomes of it when
//! instructions move.
//!
//! Addresses count from the beginning of the code section. Lengths and offsets are converted by
//! both of their ends, because what is put between instructions stretches them.

use gimli::write::{
    Address, AttributeValue, ConvertError, ConvertLineRow, ConvertUnit, ConvertUnitEntry, Dwarf,
    EndianVec, Location, LocationList, Range, RangeList, Sections, UnitEntryId,
};
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
pub fn sections(bytes: &[u8]) -> HashMap<&str, &[u8]> {
    let custom =
        |p| if let Ok(Payload::CustomSection(c)) = p { Some((c.name(), c.data())) } else { None };
    Parser::new(0)
        .parse_all(bytes)
        .filter_map(custom)
        .filter(|c| c.0.starts_with(".debug_"))
        .collect()
}

impl Lines {
    /// Reads the line tables; what is damaged is left out.
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

/// Where a file is: in a directory, which may be in the one in which the unit was compiled. The
/// first directory is that one.
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

/// A path that begins in a directory, unless it says where it begins.
fn within(directory: &str, path: &str) -> String {
    let is_rooted = path.starts_with(['/', '\\']) || path.get(1..3) == Some(":\\");
    match directory {
        "" => path.to_owned(),
        _ if is_rooted => path.to_owned(),
        directory if directory.ends_with('/') => format!("{directory}{path}"),
        directory => format!("{directory}/{path}"),
    }
}

/// Where an address went: the first byte of an instruction, and the byte behind one.
pub trait Moves {
    /// Where what begins at an address begins now.
    fn begin(&self, address: u64) -> Option<u64>;
    /// Where what ends at an address ends now.
    fn end(&self, address: u64) -> Option<u64>;
}

/// Custom sections as they are afterwards: debug information says where instructions are now. What
/// cannot be converted is left out, so that nothing wrong is said.
///
/// Beside it is said what could not be kept true.
pub fn moved(
    customs: &[(String, Vec<u8>)],
    moves: &dyn Moves,
) -> (Vec<(String, Vec<u8>)>, Vec<String>) {
    let is_debug = |name: &str| name.starts_with(".debug_");
    let mut list: Vec<_> = customs.iter().filter(|c| !is_debug(&c.0)).cloned().collect();
    let mut lost = Vec::new();
    if customs.iter().any(|c| is_debug(&c.0)) {
        match converted(customs, moves) {
            Ok(sections) => list.extend(sections),
            Err(why) => lost.push(format!("the debug information cannot be kept: {why}")),
        }
    }
    for (section, what) in [
        ("sourceMappingURL", "source map"),
        ("external_debug_info", "debug information in another file"),
    ] {
        if list.iter().any(|c| c.0 == section) {
            lost.push(format!("the {what} speaks of the program as it was before"));
        }
    }
    (list, lost)
}

type Reader<'a> = EndianSlice<'a, LittleEndian>;

fn converted(
    customs: &[(String, Vec<u8>)],
    moves: &dyn Moves,
) -> Result<Vec<(String, Vec<u8>)>, ConvertError> {
    let load = |id: gimli::SectionId| {
        let data = customs.iter().find(|c| c.0 == id.name()).map_or(&[][..], |c| &c.1);
        Ok::<_, gimli::Error>(EndianSlice::new(data, LittleEndian))
    };
    let from = gimli::Dwarf::load(load)?;
    let mut to = Dwarf::new();
    let mut conversion = to.convert(&from)?;
    while let Some((mut unit, root)) = conversion.read_unit()? {
        lines(&mut unit, moves)?;
        attributes(&mut unit, None, &root, moves)?;
        let mut entry = root;
        while let Some(id) = unit.read_entry(&mut entry)? {
            if id.is_some() {
                let id = unit.add_entry(id, &entry);
                attributes(&mut unit, Some(id), &entry, moves)?;
            }
        }
    }
    let mut sections = Sections::new(EndianVec::new(LittleEndian));
    to.write(&mut sections).map_err(|_| ConvertError::InvalidAttributeValue)?;
    let mut list = Vec::new();
    let collected: Result<(), gimli::write::Error> = sections.for_each(|id, data| {
        if !data.slice().is_empty() {
            list.push((id.name().to_string(), data.slice().to_vec()));
        }
        Ok(())
    });
    collected.map_err(|_| ConvertError::InvalidAttributeValue)?;
    Ok(list)
}

fn lines(unit: &mut ConvertUnit<'_, Reader<'_>>, moves: &dyn Moves) -> Result<(), ConvertError> {
    let Some(mut program) = unit.read_line_program(None, None)? else { return Ok(()) };
    // Where a sequence begins, before and now, and how far it has come: addresses in a sequence
    // never go back.
    let (mut old, mut new, mut last) = (0, 0, 0);
    // What was left out by the linker keeps its impossible address, and is left out here too.
    let mut gone = false;
    while let Some(row) = program.read_row()? {
        match row {
            ConvertLineRow::SetAddress(address) => {
                let begin = moves.begin(address);
                gone = begin.is_none() || address == 0;
                (old, new, last) = (address, begin.unwrap_or(0), 0);
                if !gone {
                    program.begin_sequence(Some(Address::Constant(new)));
                }
            }
            ConvertLineRow::Row(mut row) if !gone => {
                let now = moves
                    .begin(old.saturating_add(row.address_offset))
                    .and_then(|n| n.checked_sub(new));
                if let Some(now) = now.filter(|n| *n >= last) {
                    (row.address_offset, last) = (now, now);
                    program.generate_row(row);
                }
            }
            ConvertLineRow::EndSequence(offset) if !gone => {
                let now = moves
                    .end(old.saturating_add(offset))
                    .and_then(|n| n.checked_sub(new))
                    .unwrap_or(last);
                program.end_sequence(now.max(last));
            }
            _ => {}
        }
    }
    let (program, files) = program.program();
    unit.set_line_program(program, files);
    Ok(())
}

/// The attributes of an entry, or of the root.
fn attributes<'a>(
    unit: &mut ConvertUnit<'_, Reader<'a>>,
    id: Option<UnitEntryId>,
    entry: &ConvertUnitEntry<'_, Reader<'a>>,
    moves: &dyn Moves,
) -> Result<(), ConvertError> {
    let id = id.unwrap_or_else(|| unit.unit.root());
    let low = match entry.attr_value(gimli::DW_AT_low_pc) {
        Some(gimli::AttributeValue::Addr(low)) => Some(low),
        _ => None,
    };
    let address = |n: u64| Some(Address::Constant(moves.begin(n).unwrap_or(0)));
    for attr in entry.attrs() {
        if attr.name() == gimli::DW_AT_GNU_locviews {
            continue;
        }
        let value = match (attr.name(), attr.udata_value(), low) {
            (gimli::DW_AT_high_pc, Some(len), Some(low)) => {
                let begin = moves.begin(low).unwrap_or(0);
                AttributeValue::Udata(
                    moves.end(low.saturating_add(len)).unwrap_or(begin).saturating_sub(begin),
                )
            }
            _ => match lists(unit, entry, attr, moves)? {
                Some(value) => value,
                None => unit.convert_attribute_value(entry.read_unit, attr, &address)?,
            },
        };
        unit.unit.get_mut(id).set(attr.name(), value);
    }
    Ok(())
}

/// Lists of ranges and of locations: written anew, with both ends of each part counted from zero.
fn lists<'a>(
    unit: &mut ConvertUnit<'_, Reader<'a>>,
    entry: &ConvertUnitEntry<'_, Reader<'a>>,
    attr: &gimli::Attribute<Reader<'a>>,
    moves: &dyn Moves,
) -> Result<Option<AttributeValue>, ConvertError> {
    let from = entry.read_unit;
    let ends = |begin: u64, end: u64| {
        Some((moves.begin(begin)?, moves.end(end)?)).filter(|(begin, end)| begin < end)
    };
    if attr.name() == gimli::DW_AT_ranges {
        let Some(mut ranges) = from.attr_ranges(attr.value())? else { return Ok(None) };
        let mut list = vec![Range::BaseAddress { address: Address::Constant(0) }];
        while let Some(range) = ranges.next()? {
            if let Some((begin, end)) = ends(range.begin, range.end) {
                list.push(Range::OffsetPair { begin, end });
            }
        }
        return Ok(Some(AttributeValue::RangeListRef(unit.unit.ranges.add(RangeList(list)))));
    }
    let Some(mut locations) = from.attr_locations(attr.value())? else { return Ok(None) };
    let mut list = vec![Location::BaseAddress { address: Address::Constant(0) }];
    let address = |n: u64| Some(Address::Constant(moves.begin(n).unwrap_or(0)));
    while let Some(location) = locations.next()? {
        if let Some((begin, end)) = ends(location.range.begin, location.range.end) {
            let data = unit.convert_expression(from, location.data, &address)?;
            list.push(Location::OffsetPair { begin, end, data });
        }
    }
    Ok(Some(AttributeValue::LocationListRef(unit.unit.locations.add(LocationList(list)))))
}
