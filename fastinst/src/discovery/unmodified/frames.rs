//! Where functions begin and end, by `.eh_frame` and its sorted index (Linux Standard Base,
//! "Exception Frames").

use crate::discovery::Image;
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, ParsedEhFrameHdr,
    UnwindContext, UnwindSection, X86_64,
};
use goblin::elf::program_header::PT_GNU_EH_FRAME;
use std::ops::Range;

type Bytes<'b> = EndianSlice<'b, LittleEndian>;

/// The unwind information of a file, in addresses of the file.
#[derive(Debug)]
pub(crate) struct Frames<'b> {
    index: ParsedEhFrameHdr<Bytes<'b>>,
    frames: EhFrame<Bytes<'b>>,
    bases: BaseAddresses,
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
        Some(Self { index, frames, bases: bases.set_eh_frame(at) })
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

    /// Whether only a return address lies on the stack there: so at the entry of a function, and not
    /// at that of a part which was split off; and where a jump leaves the function.
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
