//! An ELF file, as far as discovery needs it. A damaged or hostile file is an error, or yields
//! less.

use goblin::container::{Container, Ctx};
use goblin::elf::dynamic::Dynamic;
use goblin::elf::program_header::{PF_X, PT_INTERP, PT_LOAD, PT_NOTE};
use goblin::elf::reloc::{R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT, R_X86_64_RELATIVE, RelocSection};
use goblin::elf::section_header::{SHF_COMPRESSED, SHT_NOBITS, SHT_SYMTAB};
use goblin::elf::sym::{STT_FUNC, Symtab};
use goblin::elf::{Header, ProgramHeader, SectionHeader};

/// Why a file is not an image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// Not ELF, or damaged.
    #[error("not an ELF file, or damaged: {0}")]
    Damaged(String),
    /// For another machine.
    #[error("it is not for x86-64")]
    Machine,
}

/// No table of a sensible file has more entries.
const MOST: usize = 1 << 24;

/// An ELF file.
#[derive(Debug)]
pub(crate) struct Image<'b> {
    bytes: &'b [u8],
    pub(crate) header: Header,
    pub(crate) segments: Vec<ProgramHeader>,
    pub(crate) sections: Vec<SectionHeader>,
    section_names: Strings<'b>,
    dynamic: Option<Tables<'b>>,
}

/// What the dynamic section leads to.
#[derive(Debug)]
struct Tables<'b> {
    /// Where the symbols lie in the file.
    symbols_at: usize,
    symbols: Symtab<'b>,
    names: Strings<'b>,
    relocations: Vec<RelocSection<'b>>,
}

/// Code of a file, and where it is loaded from the module's bias on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code<'b> {
    pub(crate) address: u64,
    pub(crate) bytes: &'b [u8],
}

impl Code<'_> {
    /// Behind its last byte.
    pub(crate) fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes.len() as u64)
    }
}

/// A relocation by the name of a symbol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'b> {
    pub(crate) slot: u64,
    pub(crate) name: &'b str,
}

impl<'b> Image<'b> {
    pub(crate) fn parse(bytes: &'b [u8]) -> Result<Self, ImageError> {
        let damaged = |error: goblin::error::Error| ImageError::Damaged(error.to_string());
        let header = goblin::elf::Elf::parse_header(bytes).map_err(damaged)?;
        if header.e_machine != goblin::elf::header::EM_X86_64
            || header.container().ok() != Some(Container::Big)
        {
            return Err(ImageError::Machine);
        }
        let ctx = Ctx::new(Container::Big, goblin::container::Endian::Little);
        let fits = |offset: u64, count: u16, size: usize| {
            (offset as usize)
                .checked_add(usize::from(count) * size)
                .is_some_and(|end| end <= bytes.len())
        };
        let segments = if fits(header.e_phoff, header.e_phnum, 56) {
            ProgramHeader::parse(bytes, header.e_phoff as usize, header.e_phnum.into(), ctx)
                .map_err(damaged)?
        } else {
            return Err(ImageError::Damaged("its program headers lie outside of it".to_owned()));
        };
        let sections = if header.e_shoff != 0 && fits(header.e_shoff, header.e_shnum, 64) {
            SectionHeader::parse(bytes, header.e_shoff as usize, header.e_shnum.into(), ctx)
                .unwrap_or_default()
        } else {
            Vec::new()
        };
        let section_names = sections
            .get(usize::from(header.e_shstrndx))
            .and_then(|section| table(bytes, section))
            .unwrap_or_default();
        let mut image = Self { bytes, header, segments, sections, section_names, dynamic: None };
        image.dynamic = image.tables(ctx);
        Ok(image)
    }

    fn tables(&self, ctx: Ctx) -> Option<Tables<'b>> {
        let dynamic = Dynamic::parse(self.bytes, &self.segments, ctx).ok()??;
        let info = &dynamic.info;
        let names = Strings::at(self.bytes, info.strtab, info.strsz)?;
        let rest = self.bytes.len().checked_sub(info.symtab)?;
        // The number of symbols is recorded nowhere: the table extends up to the table of names, or
        // has as many symbols as relocations refer to.
        let count =
            if info.strtab > info.symtab { (info.strtab - info.symtab) / 24 } else { rest / 24 };
        let symbols =
            Symtab::parse(self.bytes, info.symtab, count.min(rest / 24).min(MOST), ctx).ok()?;
        let section = |at: usize, len: usize, rela| {
            let end = at.checked_add(len)?;
            (len > 0 && end <= self.bytes.len())
                .then(|| RelocSection::parse(self.bytes, at, len, rela, ctx).ok())?
        };
        let is_rela = info.pltrel == goblin::elf::dynamic::DT_RELA;
        let relocations =
            [section(info.rela, info.relasz, true), section(info.jmprel, info.pltrelsz, is_rela)];
        Some(Tables {
            symbols_at: info.symtab,
            symbols,
            names,
            relocations: relocations.into_iter().flatten().collect(),
        })
    }

    /// Slots that the loader fills with the address of a function, by name.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Named<'b>> + '_ {
        let tables = self.dynamic.iter();
        tables.flat_map(|tables| {
            let all = tables.relocations.iter().flat_map(RelocSection::iter);
            let of_functions = all.filter(|relocation| {
                matches!(relocation.r_type, R_X86_64_JUMP_SLOT | R_X86_64_GLOB_DAT)
            });
            of_functions.filter_map(|relocation| {
                let symbol = tables.symbols.get(relocation.r_sym)?;
                Some(Named { slot: relocation.r_offset, name: tables.names.get(symbol.st_name)? })
            })
        })
    }

    /// Functions: name, address, size. From the full table of symbols if there is one.
    pub(crate) fn functions(&self) -> Vec<(&'b str, u64, u64)> {
        let mut functions = Vec::new();
        for table in self.function_tables() {
            let named = table
                .functions()
                .filter_map(|f| Some((table.names.get(f.name as usize)?, f.address, f.size)));
            functions.extend(named);
        }
        functions
    }

    /// The symbol tables that may contain functions.
    pub(crate) fn function_tables(&self) -> Vec<FunctionTable<'b>> {
        let full = self.sections.iter().filter(|section| section.sh_type == SHT_SYMTAB).filter_map(
            |section| {
                let symbols = self.bytes.get(self.range(section)?)?;
                Some(FunctionTable {
                    symbols,
                    names: table(self.bytes, self.sections.get(section.sh_link as usize)?)?,
                })
            },
        );
        let dynamic = self.dynamic.iter().filter_map(|tables| {
            let end = tables.symbols_at.checked_add(tables.symbols.len() * SYMBOL)?;
            Some(FunctionTable {
                symbols: self.bytes.get(tables.symbols_at..end)?,
                names: tables.names,
            })
        });
        full.chain(dynamic).collect()
    }

    /// The starts of functions, sorted: from symbols or, in a stripped file, from the tables of
    /// exception handling.
    pub(crate) fn starts(&self) -> Vec<u64> {
        let tables = self.function_tables();
        let mut starts: Vec<u64> = tables
            .iter()
            .flat_map(FunctionTable::functions)
            .map(|function| function.address)
            .collect();
        starts.extend(self.unwind_starts());
        starts.extend(
            self.sections
                .iter()
                .filter(|section| section.is_executable())
                .map(|section| section.sh_addr),
        );
        starts.sort_unstable();
        starts.dedup();
        starts
    }

    /// Beginnings of functions by the sorted table of `.eh_frame_hdr` (Linux Standard Base,
    /// "Exception Frame Header"), in the one form that linkers write.
    pub(crate) fn unwind_starts(&self) -> Vec<u64> {
        const FORM: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
        let header = self
            .segments
            .iter()
            .find(|segment| segment.p_type == goblin::elf::program_header::PT_GNU_EH_FRAME);
        let Some(header) = header else { return Vec::new() };
        let start = header.p_offset as usize;
        let Some(bytes) =
            start.checked_add(header.p_filesz as usize).and_then(|end| self.bytes.get(start..end))
        else {
            return Vec::new();
        };
        if !bytes.starts_with(&FORM) || bytes.len() < 12 {
            return Vec::new();
        }
        let entries = bytes[12..].chunks_exact(8);
        let first = |entry: &[u8]| entry.first_chunk().map(|offset| i32::from_le_bytes(*offset));
        entries
            .filter_map(|entry| Some(header.p_vaddr.wrapping_add_signed(first(entry)?.into())))
            .collect()
    }

    /// The loaded bytes from an address to the end of its segment.
    pub(crate) fn from(&self, address: u64) -> Option<&'b [u8]> {
        let holds = |segment: &&ProgramHeader| {
            segment.p_type == PT_LOAD
                && (segment.p_vaddr..segment.p_vaddr.saturating_add(segment.p_filesz))
                    .contains(&address)
        };
        let segment = self.segments.iter().find(holds)?;
        let start = segment.p_offset.checked_add(address - segment.p_vaddr)? as usize;
        let end = segment.p_offset.checked_add(segment.p_filesz)? as usize;
        self.bytes.get(start..end)
    }

    /// Code that is executed.
    pub(crate) fn code(&self) -> Vec<Code<'b>> {
        let executable = self
            .segments
            .iter()
            .filter(|segment| segment.p_type == PT_LOAD && segment.p_flags & PF_X != 0);
        executable
            .filter_map(|segment| {
                let start = segment.p_offset as usize;
                let bytes = self.bytes.get(start..start.checked_add(segment.p_filesz as usize)?)?;
                Some(Code { address: segment.p_vaddr, bytes })
            })
            .collect()
    }

    /// The linkage tables; all code, where the file does not say which parts they are.
    pub(crate) fn linkage(&self) -> Vec<Code<'b>> {
        let is_table = |section: &&SectionHeader| {
            self.section_names.get(section.sh_name).is_some_and(|name| name.starts_with(".plt"))
        };
        let tables = self.sections.iter().filter(is_table);
        let tables: Vec<Code<'b>> = tables
            .filter_map(|section| {
                Some(Code {
                    address: section.sh_addr,
                    bytes: self.bytes.get(self.range(section)?)?,
                })
            })
            .collect();
        if self.sections.is_empty() { self.code() } else { tables }
    }

    /// Code outside functions: linkage tables, and the sections that run at the start and the end.
    pub(crate) fn no_functions(&self) -> Vec<std::ops::Range<u64>> {
        let is_other = |section: &&SectionHeader| {
            self.section_names
                .get(section.sh_name)
                .is_some_and(|name| name.starts_with(".plt") || matches!(name, ".init" | ".fini"))
        };
        let others = self.sections.iter().filter(is_other);
        let range = |section: &SectionHeader| {
            section.sh_addr..section.sh_addr.saturating_add(section.sh_size)
        };
        let entry = self.header.e_entry;
        others.map(range).chain(std::iter::once(entry..entry + 1)).collect()
    }

    /// From the first address that is loaded to behind the last.
    pub(crate) fn span(&self) -> Option<std::ops::Range<u64>> {
        let loaded = || self.segments.iter().filter(|segment| segment.p_type == PT_LOAD);
        let start = loaded().map(|segment| segment.p_vaddr).min()?;
        let end =
            loaded().filter_map(|segment| segment.p_vaddr.checked_add(segment.p_memsz)).max()?;
        (start < end).then_some(start..end)
    }

    pub(crate) fn is_static(&self) -> bool {
        !self.segments.iter().any(|segment| segment.p_type == PT_INTERP)
            && self.header.e_type != goblin::elf::header::ET_DYN
            || (self.header.e_type == goblin::elf::header::ET_DYN
                && !self.has_interpreter()
                && !self.needs_libraries()
                && self.header.e_entry != 0)
    }

    fn has_interpreter(&self) -> bool {
        self.segments.iter().any(|segment| segment.p_type == PT_INTERP)
    }

    /// Its table for the loader.
    fn dynamic(&self) -> Option<Dynamic> {
        let ctx = Ctx::new(Container::Big, goblin::container::Endian::Little);
        Dynamic::parse(self.bytes, &self.segments, ctx).ok().flatten()
    }

    /// Whether the loader applies relocations to its code.
    pub(crate) fn relocates_text(&self) -> bool {
        self.dynamic().is_some_and(|dynamic| {
            let info = &dynamic.info;
            info.textrel || info.flags & goblin::elf::dynamic::DF_TEXTREL != 0
        })
    }

    /// The loader that it names.
    pub(crate) fn interpreter(&self) -> Option<&'b str> {
        let segment = self.segments.iter().find(|segment| segment.p_type == PT_INTERP)?;
        let text = self.bytes.get(segment.file_range())?;
        std::str::from_utf8(text.split(|&byte| byte == 0).next()?).ok()
    }

    /// The libraries that it names.
    pub(crate) fn libraries(&self) -> Vec<&'b str> {
        let (Some(dynamic), Some(tables)) = (self.dynamic(), &self.dynamic) else {
            return Vec::new();
        };
        let needed =
            dynamic.dyns.iter().filter(|entry| entry.d_tag == goblin::elf::dynamic::DT_NEEDED);
        needed.filter_map(|entry| tables.names.get(entry.d_val as usize)).collect()
    }

    /// Whether it names libraries: one that does is loaded by the loader.
    fn needs_libraries(&self) -> bool {
        self.dynamic().is_some_and(|dynamic| {
            dynamic.dyns.iter().any(|entry| entry.d_tag == goblin::elf::dynamic::DT_NEEDED)
        })
    }

    /// The contents of a section, if the file has it and has not compressed it.
    pub(crate) fn section(&self, name: &str) -> Option<&'b [u8]> {
        let section = self
            .sections
            .iter()
            .find(|section| self.section_names.get(section.sh_name) == Some(name))?;
        let is_whole = section.sh_flags & u64::from(SHF_COMPRESSED) == 0;
        self.bytes.get(self.range(section)?).filter(|_| is_whole)
    }

    /// A section with the address that it is loaded at.
    pub(crate) fn placed(&self, name: &str) -> Option<Code<'b>> {
        let section = self
            .sections
            .iter()
            .find(|section| self.section_names.get(section.sh_name) == Some(name))?;
        Some(Code { address: section.sh_addr, bytes: self.bytes.get(self.range(section)?)? })
    }

    /// What a section of addresses holds when it is loaded, in addresses of the file.
    pub(crate) fn addresses(&self, name: &str) -> Vec<u64> {
        let (_, bytes) = self.relocated(name).unwrap_or_default();
        bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
    }

    /// What a section holds when it is loaded, in addresses of the file, and where it lies: the
    /// loader puts addends there, or, where relocations are packed, adds to what the file has.
    pub(crate) fn relocated(&self, name: &str) -> Option<(u64, Vec<u8>)> {
        let section = self.placed(name)?;
        let mut bytes = section.bytes.to_vec();
        let tables = self.dynamic.iter().flat_map(|tables| &tables.relocations);
        for relocation in tables.flat_map(RelocSection::iter) {
            if relocation.r_type == R_X86_64_RELATIVE
                && let Some(at) = relocation.r_offset.checked_sub(section.address)
                && let Some(end) = (at as usize).checked_add(8)
                && let Some(word) = bytes.get_mut(at as usize..end)
                && let Some(addend) = relocation.r_addend
            {
                word.copy_from_slice(&addend.to_le_bytes());
            }
        }
        Some((section.address, bytes))
    }

    fn range(&self, section: &SectionHeader) -> Option<std::ops::Range<usize>> {
        let start = section.sh_offset as usize;
        let end = start.checked_add(section.sh_size as usize)?;
        (section.sh_type != SHT_NOBITS && end <= self.bytes.len()).then_some(start..end)
    }

    /// Its build id (`.note.gnu.build-id`).
    pub(crate) fn build_id(&self) -> Option<Vec<u8>> {
        let notes = self.segments.iter().filter(|segment| segment.p_type == PT_NOTE);
        let bytes = |segment: &ProgramHeader| {
            let start = segment.p_offset as usize;
            self.bytes.get(start..start.checked_add(segment.p_filesz as usize)?)
        };
        notes.filter_map(bytes).find_map(build_id_in).map(<[u8]>::to_vec)
    }
}

/// The build id among some notes.
pub(crate) fn build_id_in(mut notes: &[u8]) -> Option<&[u8]> {
    const GNU_BUILD_ID: u32 = 3;
    while notes.len() >= 12 {
        let word = |at: usize| notes[at..at + 4].try_into().map_or(0, u32::from_le_bytes) as usize;
        let (name, len, kind) = (word(0), word(4), word(8));
        let at = 12usize.checked_add(name.checked_next_multiple_of(4)?)?;
        let end = at.checked_add(len)?;
        if kind == GNU_BUILD_ID as usize && notes.get(12..16) == Some(b"GNU\0") {
            return notes.get(at..end);
        }
        notes = notes.get(end.checked_next_multiple_of(4)?..).unwrap_or(&[]);
    }
    None
}

/// The size of a symbol (`Elf64_Sym`, elf(5)).
const SYMBOL: usize = 24;

/// A symbol table, which is searched for functions. Libraries have tens of thousands of symbols, so
/// each is read in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FunctionTable<'b> {
    symbols: &'b [u8],
    names: Strings<'b>,
}

/// A function, as recorded in a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    /// Where its name lies in the table's text.
    pub(crate) name: u32,
    pub(crate) address: u64,
    pub(crate) size: u64,
}

impl<'b> FunctionTable<'b> {
    /// Those that are defined.
    pub(crate) fn functions(&self) -> impl Iterator<Item = Function> + use<'b> {
        self.all().filter_map(|(section, function)| (section != 0).then_some(function))
    }

    /// These, and the functions of libraries that have an address in the program's linkage table:
    /// where code is at a fixed place, that entry is what the whole process takes for the function
    /// (System V ABI, AMD64 supplement, 5.2 "Function Addresses").
    pub(crate) fn named(&self) -> impl Iterator<Item = Function> + use<'b> {
        const ENTRY: u64 = 16;
        self.all().map(
            |(section, function)| {
                if section == 0 { Function { size: ENTRY, ..function } } else { function }
            },
        )
    }

    /// All that have an address, with the number of the section that each is defined in, or zero.
    fn all(&self) -> impl Iterator<Item = (u16, Function)> + use<'b> {
        let (symbols, _) = self.symbols.as_chunks::<SYMBOL>();
        symbols.iter().take(MOST).filter_map(|symbol| {
            let [name @ .., info, _, section_low, section_high] = first_of(symbol, 0);
            let address = u64::from_le_bytes(first_of(symbol, 8));
            let is_function = info & 0xf == STT_FUNC && address != 0;
            is_function.then(|| {
                let size = u64::from_le_bytes(first_of(symbol, 16));
                let name = u32::from_le_bytes(name);
                let section = u16::from_le_bytes([section_low, section_high]);
                (section, Function { name, address, size })
            })
        })
    }

    /// The text that names lie in, each with a zero behind it.
    pub(crate) fn text(&self) -> &'b [u8] {
        self.names.0
    }
}

/// Eight bytes of a symbol, from one on.
fn first_of(symbol: &[u8; SYMBOL], at: usize) -> [u8; 8] {
    *symbol[at..].first_chunk().expect("a symbol has three times eight bytes")
}

/// A table of names. Each name is read on demand: a table may hold tens of thousands.
#[derive(Clone, Copy, Debug, Default)]
struct Strings<'b>(&'b [u8]);

impl<'b> Strings<'b> {
    fn at(bytes: &'b [u8], start: usize, len: usize) -> Option<Self> {
        bytes.get(start..start.checked_add(len)?).map(Self)
    }

    fn get(self, at: usize) -> Option<&'b str> {
        std::ffi::CStr::from_bytes_until_nul(self.0.get(at..)?).ok()?.to_str().ok()
    }
}

fn table<'b>(bytes: &'b [u8], section: &SectionHeader) -> Option<Strings<'b>> {
    Strings::at(bytes, section.sh_offset as usize, section.sh_size as usize)
}
