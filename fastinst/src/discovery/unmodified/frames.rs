//! Where functions begin and end, by `.eh_frame` and its sorted index (Linux Standard Base,
//! "Exception Frames").

use crate::discovery::Image;
use crate::discovery::image::FunctionTable;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, ParsedEhFrameHdr,
    UnwindContext, UnwindSection, X86_64,
};
use goblin::elf::program_header::PT_GNU_EH_FRAME;
use std::cell::OnceCell;
use std::collections::HashSet;
use std::ops::Range;

type Bytes<'b> = EndianSlice<'b, LittleEndian>;

/// The unwind information of a file, in addresses of the file.
#[derive(Debug)]
pub(crate) struct Frames<'b> {
    index: ParsedEhFrameHdr<Bytes<'b>>,
    frames: EhFrame<Bytes<'b>>,
    bases: BaseAddresses,
    symbols: Vec<FunctionTable<'b>>,
    /// Where parts begin that have a name as such.
    parts: OnceCell<HashSet<u64>>,
}

impl<'b> Frames<'b> {
    /// Of a file; `None` if it has no index.
    pub(crate) fn of(image: &Image<'b>) -> Option<Self> {
        let header = image.segments.iter().find(|header| header.p_type == PT_GNU_EH_FRAME)?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(header.p_vaddr);
        let index = EhFrameHdr::new(image.from(header.p_vaddr)?, LittleEndian);
        let index = index.parse(&bases, 8).ok()?;
        index.table()?;
        let gimli::Pointer::Direct(at) = index.eh_frame_ptr() else { return None };
        let frames = EhFrame::new(image.from(at)?, LittleEndian);
        let (symbols, parts) = (image.function_tables(), OnceCell::new());
        Some(Self { index, frames, bases: bases.set_eh_frame(at), symbols, parts })
    }

    /// The range that holds an address.
    pub(crate) fn range_of(&self, address: u64) -> Option<Range<u64>> {
        let table = self.index.table()?;
        let entry = table
            .fde_for_address(&self.frames, &self.bases, address, EhFrame::cie_from_offset)
            .ok()?;
        let range = entry.initial_address()..entry.end_address();
        range.contains(&address).then_some(range)
    }

    /// Whether a function begins there, and no part of one: a part has more than a return address on
    /// the stack, or, where the function pushes nothing, a name that says so.
    pub(crate) fn is_entry(&self, address: u64) -> bool {
        self.is_bare(address) && !self.parts.get_or_init(|| self.parts()).contains(&address)
    }

    /// Where parts begin by their names, which a file has unless it was stripped.
    fn parts(&self) -> HashSet<u64> {
        let of = |table: &FunctionTable<'b>| {
            let (text, functions) = (table.text(), table.functions());
            let is_part = move |name: u32| text.get(name as usize..).is_some_and(names_part);
            functions.filter(move |one| is_part(one.name)).map(|one| one.address)
        };
        self.symbols.iter().flat_map(of).collect()
    }

    /// Whether only a return address lies on the stack there: so where a function begins, and where
    /// a jump leaves it.
    pub(crate) fn is_bare(&self, address: u64) -> bool {
        let mut context = UnwindContext::new();
        let row = self.index.table().and_then(|table| {
            let (frames, bases) = (&self.frames, &self.bases);
            table
                .unwind_info_for_address(
                    frames,
                    bases,
                    &mut context,
                    address,
                    EhFrame::cie_from_offset,
                )
                .ok()
        });
        row.is_some_and(|row| {
            matches!(row.cfa(), CfaRule::RegisterAndOffset { register, offset: 8 } if *register == X86_64::RSP)
        })
    }
}

/// Whether the name that begins this text is that of a part which a compiler split off, of code that
/// is rarely executed: `f.cold`, and with a number behind it where there are several.
fn names_part(text: &[u8]) -> bool {
    const SUFFIX: &[u8] = b".cold";
    let name = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let number = name.len() - name.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let base = &name[..number];
    name.ends_with(SUFFIX) || base.strip_suffix(b".").is_some_and(|base| base.ends_with(SUFFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_known_by_their_names() {
        for part in ["f.cold", "f.cold.12", "f.constprop.0.cold"] {
            assert!(names_part(&[part.as_bytes(), b"\0next"].concat()), "{part}");
        }
        for function in ["f", "cold", "f.cold.x", "f.colder", "f.part.0", "f.12", ""] {
            assert!(!names_part(&[function.as_bytes(), b"\0f.cold\0"].concat()), "{function}");
        }
    }
}
