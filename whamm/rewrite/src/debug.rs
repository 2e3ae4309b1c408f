//! Debug information of a program whose instructions move.
//!
//! Addresses count from the beginning of the code section. Lengths and offsets are converted by
//! both of their ends, because code inserted between instructions extends them.

use crate::moves::Moves;
use gimli::write::{
    Address, AttributeValue, ConvertError, ConvertLineRow, ConvertUnit, ConvertUnitEntry, Dwarf,
    EndianVec, Location, LocationList, Range, RangeList, Sections, UnitEntryId,
};
use gimli::{EndianSlice, LittleEndian};

/// Converts custom sections: debug information refers to the new places of instructions. Entries
/// that cannot be converted are left out, so that no entry is wrong.
///
/// Also reports which information could not be kept correct.
pub(crate) fn moved(
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
        (crate::source_map::SECTION, "source map"),
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
    // The beginning of a sequence, before and now, and the last offset in it: addresses in a
    // sequence never decrease.
    let (mut old, mut new, mut last) = (0, 0, 0);
    // Code that the linker removed keeps its impossible address, and is left out here too.
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

/// Lists of ranges and of locations: written again, with both ends of each part counted from zero.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses that decrease, as the row at the very end of a function does when code is inserted
    /// after it.
    struct Stretched;

    impl Moves for Stretched {
        fn begin(&self, address: u64) -> Option<u64> {
            Some(if address >= 8 { 100 } else { address })
        }

        fn end(&self, address: u64) -> Option<u64> {
            Some(address.min(20))
        }
    }

    #[test]
    fn a_sequence_whose_end_lies_before_its_last_row_is_kept_in_order() {
        let mut program = gimli::write::LineProgram::new(
            gimli::Encoding { format: gimli::Format::Dwarf32, version: 4, address_size: 4 },
            gimli::LineEncoding::default(),
            gimli::write::LineString::String(b"/".to_vec()),
            None,
            gimli::write::LineString::String(b"x.c".to_vec()),
            None,
        );
        let folder = program.default_directory();
        let file =
            program.add_file(gimli::write::LineString::String(b"x.c".to_vec()), folder, None);
        program.begin_sequence(Some(Address::Constant(2)));
        for offset in [0, 4, 10] {
            program.row().address_offset = offset;
            program.row().file = file;
            program.row().line = offset + 1;
            program.generate_row();
        }
        program.end_sequence(10);
        let mut dwarf = Dwarf::new();
        let encoding = program.encoding();
        let mut unit = gimli::write::Unit::new(encoding, program);
        let root = unit.root();
        for (name, text) in [(gimli::DW_AT_name, "x.c"), (gimli::DW_AT_comp_dir, "/")] {
            unit.get_mut(root).set(name, AttributeValue::String(text.into()));
        }
        dwarf.units.add(unit);
        let mut sections = Sections::new(EndianVec::new(LittleEndian));
        dwarf.write(&mut sections).expect("it can be written");
        let mut customs = Vec::new();
        sections
            .for_each(|id, data| {
                customs.push((id.name().to_string(), data.slice().to_vec()));
                Ok::<(), gimli::Error>(())
            })
            .expect("nothing fails");
        let (moved, lost) = moved(&customs, &Stretched);
        assert!(lost.is_empty(), "{lost:?}");
        assert!(moved.iter().any(|s| s.0 == ".debug_line"), "lines are kept");
    }
}
