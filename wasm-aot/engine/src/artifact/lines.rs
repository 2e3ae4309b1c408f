//! Source lines for debuggers and profilers: the module's debug information, with the addresses of
//! machine code.

use crate::compile::Compilation;
use gimli::write::{
    Address, AttributeValue, DwarfUnit, EndianVec, LineProgram, LineString, Sections,
};
use gimli::{Encoding, Format, LineEncoding, LittleEndian};
use std::collections::HashMap;

/// The sections, by name; none if the module has no debug information, or none that can be read.
pub(super) fn sections(
    compilation: &Compilation,
    module: &[u8],
    base: u64,
) -> Vec<(&'static str, Vec<u8>)> {
    carry_over(compilation, module, base).unwrap_or_default()
}

fn carry_over(
    compilation: &Compilation,
    module: &[u8],
    base: u64,
) -> Option<Vec<(&'static str, Vec<u8>)>> {
    let dwarf = crate::module::debug_information(&compilation.info, module)?;
    let source = addr2line::Context::from_dwarf(dwarf).ok()?;
    let encoding = Encoding { format: Format::Dwarf32, version: 4, address_size: 8 };
    let directory = LineString::String(b"/".to_vec());
    let name = text(compilation.info.name.as_deref().unwrap_or_default(), "module.wasm");
    let mut program = LineProgram::new(
        encoding,
        LineEncoding::default(),
        directory.clone(),
        None,
        LineString::String(name.clone()),
        None,
    );
    let mut files = HashMap::new();
    for span in &*compilation.text.functions {
        function(compilation, span.start..span.end, base, &source, &mut program, &mut files);
    }
    let mut unit = DwarfUnit::new(encoding);
    unit.unit.line_program = program;
    let root = unit.unit.root();
    let root = unit.unit.get_mut(root);
    root.set(gimli::DW_AT_name, AttributeValue::String(name));
    root.set(gimli::DW_AT_low_pc, AttributeValue::Address(Address::Constant(base)));
    root.set(gimli::DW_AT_high_pc, AttributeValue::Udata(compilation.text.code.len() as u64));
    root.set(gimli::DW_AT_stmt_list, AttributeValue::LineProgramRef);
    let mut sections = Sections::new(EndianVec::new(LittleEndian));
    unit.write(&mut sections).ok()?;
    let mut written = Vec::new();
    sections
        .for_each(|id, contents| -> Result<(), ()> {
            if !contents.slice().is_empty() {
                written.push((id.name(), contents.slice().to_vec()));
            }
            Ok(())
        })
        .ok()?;
    Some(written)
}

/// A name as debug information can hold it: it ends at a zero, and is not empty.
fn text(name: &str, otherwise: &str) -> Vec<u8> {
    let name = name.split('\0').next().filter(|name| !name.is_empty());
    name.unwrap_or(otherwise).as_bytes().to_vec()
}

type Source<'a> = addr2line::Context<gimli::EndianSlice<'a, LittleEndian>>;

/// The lines of one function.
fn function(
    compilation: &Compilation,
    span: std::ops::Range<u32>,
    base: u64,
    source: &Source<'_>,
    program: &mut LineProgram,
    files: &mut HashMap<String, gimli::write::FileId>,
) {
    let mut begun = false;
    let mut last = None;
    for entry in
        compilation.text.addresses.from(span.start).take_while(|entry| entry.offset < span.end)
    {
        let Some(wasm) = entry.number.checked_sub(compilation.info.code_start) else { continue };
        let Ok(Some(location)) = source.find_location(u64::from(wasm)) else { continue };
        let (Some(file), Some(line)) = (location.file, location.line) else { continue };
        if last == Some((file.to_owned(), line)) {
            continue;
        }
        let id = *files.entry(file.to_owned()).or_insert_with(|| {
            let directory = program.default_directory();
            program.add_file(LineString::String(text(file, "unknown")), directory, None)
        });
        if !begun {
            program.begin_sequence(Some(Address::Constant(base + u64::from(span.start))));
            begun = true;
        }
        let row = program.row();
        row.address_offset = u64::from(entry.offset - span.start);
        (row.file, row.line) = (id, u64::from(line));
        program.generate_row();
        last = Some((file.to_owned(), line));
    }
    if begun {
        program.end_sequence(u64::from(span.end - span.start));
    }
}
