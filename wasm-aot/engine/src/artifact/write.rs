//! Writes files of machine code: sections, symbols, and the header.

use super::digest::Digest;
use super::header::{AT, FileSection, Header, MAGIC, PREFIX, ROOM, VERSION};
use super::lines;
use crate::array::bytes_of;
use crate::compile::{Compilation, Target, TrampolineKind};
use object::elf;
use object::write::StringId;
use object::write::elf::{FileHeader, ProgramHeader, SectionHeader, SectionIndex, Sym, Writer};

/// Code begins on a page of its own.
const PAGE: u64 = 4096;

/// A section: its name, contents, and where it goes.
struct Section {
    name: String,
    contents: Vec<u8>,
    offset: u64,
    index: SectionIndex,
    id: Option<StringId>,
}

/// A compiled module as a file, with what is to look at it.
pub(crate) fn write(
    compilation: &Compilation,
    target: &Target,
    module: &[u8],
    monitors: &[u8],
) -> Vec<u8> {
    let text = &compilation.text;
    let contents = |part: FileSection| match part {
        FileSection::Text => text.code.clone(),
        FileSection::Info => {
            postcard::to_stdvec(&compilation.info).expect("declarations can be written")
        }
        FileSection::Functions => bytes_of(&text.functions).to_vec(),
        FileSection::Trampolines => {
            postcard::to_stdvec(&text.trampolines).expect("a list can be written")
        }
        FileSection::Traps => bytes_of(&text.traps.blocks).to_vec(),
        FileSection::TrapSteps => text.traps.steps.to_vec(),
        FileSection::Addresses => bytes_of(&text.addresses.blocks).to_vec(),
        FileSection::AddressSteps => text.addresses.steps.to_vec(),
        FileSection::Handlers => bytes_of(&text.handlers).to_vec(),
        FileSection::OsrExits => bytes_of(&text.osr_exits).to_vec(),
        FileSection::PatchableSites => bytes_of(&text.patchable_sites).to_vec(),
        FileSection::Monitors => monitors.to_vec(),
        FileSection::Module => module.to_vec(),
    };
    let section = |name: &str, contents| Section {
        name: name.into(),
        contents,
        offset: 0,
        index: SectionIndex(0),
        id: None,
    };
    let mut sections: Vec<Section> =
        FileSection::ALL.iter().map(|part| section(part.section(), contents(*part))).collect();
    let base = (AT + ROOM) as u64;
    sections.extend(
        lines::sections(compilation, module, base)
            .into_iter()
            .map(|(name, contents)| section(name, contents)),
    );
    let mut file = Vec::new();
    assemble(&mut file, &mut sections, &symbols(compilation));
    let parts = std::array::from_fn(|i| (sections[i].offset, sections[i].contents.len() as u64));
    let header = Header {
        version: VERSION.into(),
        features: target.features(),
        options: target.options,
        counters: compilation.counters,
        calls: compilation.calls,
        loops: compilation.loops,
        parts,
    };
    stamp(&mut file, &header);
    file
}

/// Names of functions and trampolines, where they begin, and how long they are.
fn symbols(compilation: &Compilation) -> Vec<(String, u64, u64)> {
    let (info, text) = (&compilation.info, &compilation.text);
    let functions = text.functions.iter().enumerate().map(|(defined, span)| {
        let index = info.imported.functions + defined as u32;
        let name = info
            .function_name(index)
            .map_or_else(|| format!("wasm-function[{index}]"), str::to_owned);
        (name, u64::from(span.start), u64::from(span.end - span.start))
    });
    let trampolines = text.trampolines.iter().map(|(kind, span)| {
        let name = match kind {
            TrampolineKind::Enter(ty) => format!("wasm-enter[{ty}]"),
            TrampolineKind::Leave(ty) => format!("wasm-leave[{ty}]"),
            TrampolineKind::Throw => "wasm-throw".to_owned(),
        };
        (name, u64::from(span.start), u64::from(span.end - span.start))
    });
    // A name with a zero in it would end there for every reader.
    functions
        .chain(trampolines)
        .map(|(name, start, len)| (name.replace('\0', "?"), start, len))
        .collect()
}

fn assemble(file: &mut Vec<u8>, sections: &mut [Section], symbols: &[(String, u64, u64)]) {
    let names: Vec<String> = sections.iter().map(|section| section.name.clone()).collect();
    let mut writer = Writer::new(object::Endianness::Little, true, file);
    writer.reserve_file_header();
    writer.reserve_program_headers(2);
    writer.reserve_null_section_index();
    for (section, name) in sections.iter_mut().zip(&names) {
        section.id = Some(writer.add_section_name(name.as_bytes()));
        section.index = writer.reserve_section_index();
    }
    writer.reserve_null_symbol_index();
    let mut ids = Vec::with_capacity(symbols.len());
    for (name, ..) in symbols {
        ids.push(writer.add_string(name.as_bytes()));
        writer.reserve_symbol_index(Some(sections[0].index));
    }
    writer.reserve_symtab_section_index();
    writer.reserve_strtab_section_index();
    writer.reserve_shstrtab_section_index();
    writer.reserve((AT + ROOM) as u64 - writer.reserved_len(), 1);
    for (i, section) in sections.iter_mut().enumerate() {
        section.offset =
            writer.reserve(section.contents.len() as u64, if i <= 1 { PAGE } else { 16 });
    }
    writer.reserve_symtab();
    writer.reserve_strtab().expect("fewer than 4 GB of names");
    writer.reserve_shstrtab().expect("few sections");
    writer.reserve_section_headers();

    write_headers(&mut writer, &sections[0]);
    for section in &*sections {
        writer.pad_until(section.offset);
        writer.write(&section.contents);
    }
    writer.write_null_symbol();
    for (id, (_, start, len)) in ids.into_iter().zip(symbols) {
        writer.write_symbol(&Sym {
            st_name: writer.string_offset(Some(id)),
            section: Some(sections[0].index.0),
            st_info: elf::SymbolInfo::new(elf::STB_GLOBAL, elf::STT_FUNC),
            st_other: elf::SymbolOther(0),
            st_shndx: elf::SymbolSection(0),
            st_value: sections[0].offset + start,
            st_size: *len,
        });
    }
    writer.write_strtab();
    writer.write_shstrtab();
    writer.write_null_section_header();
    for (i, section) in sections.iter().enumerate() {
        let (flags, address) = match i {
            0 => (elf::SHF_ALLOC | elf::SHF_EXECINSTR, section.offset),
            _ => (elf::SectionFlags(0), 0),
        };
        writer.write_section_header(&SectionHeader {
            sh_name: writer.section_name_offset(section.id),
            sh_type: elf::SHT_PROGBITS,
            sh_flags: flags,
            sh_addr: address,
            sh_offset: section.offset,
            sh_size: section.contents.len() as u64,
            sh_link: 0,
            sh_info: 0,
            sh_addralign: if i == 0 { PAGE } else { 1 },
            sh_entsize: 0,
        });
    }
    writer.write_symtab_section_header(1);
    writer.write_strtab_section_header();
    writer.write_shstrtab_section_header();
}

/// The file header, and two segments: our header, and the code.
fn write_headers(writer: &mut Writer<'_>, text: &Section) {
    let header = FileHeader {
        os_abi: elf::ELFOSABI_NONE,
        abi_version: 0,
        e_type: elf::ET_DYN,
        e_machine: elf::EM_X86_64,
        e_entry: 0,
        e_flags: elf::FileFlags(0),
    };
    writer.write_file_header(&header).expect("room for the header");
    writer.write_align_program_headers();
    let load = |flags, offset: u64, len: u64| ProgramHeader {
        p_type: elf::PT_LOAD,
        p_flags: flags,
        p_offset: offset,
        p_vaddr: offset,
        p_paddr: offset,
        p_filesz: len,
        p_memsz: len,
        p_align: PAGE,
    };
    writer.write_program_header(&load(elf::PF_R, 0, (AT + ROOM) as u64));
    writer.write_program_header(&load(
        elf::PF_R | elf::PF_X,
        text.offset,
        text.contents.len() as u64,
    ));
}

/// Puts our header where it belongs.
fn stamp(file: &mut [u8], header: &Header) {
    let encoded = postcard::to_stdvec(header).expect("a header can be written");
    assert!(PREFIX + encoded.len() <= ROOM, "the header has room for its texts");
    let place = &mut file[AT..AT + ROOM];
    place[..16].copy_from_slice(&MAGIC);
    place[16..24].copy_from_slice(&(encoded.len() as u64).to_le_bytes());
    place[PREFIX..PREFIX + encoded.len()].copy_from_slice(&encoded);
    let mut digest = Digest::new(&encoded);
    digest.write(&file[AT + ROOM..header.end()]);
    file[AT + 24..AT + PREFIX].copy_from_slice(&digest.finish());
}
