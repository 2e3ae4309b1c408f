//! Small functions with a site in them, for the tests: old and new instruction give different
//! results.
#![allow(unsafe_code)]

use crate::addr::CodeAddr;
use crate::code_memory::CodeMemory;
use crate::granule::Granule;
use crate::policy::Policy;
use crate::protocol::Layout;
use crate::site::PatchSite;
use crate::vendor::FetchOrder;
use crate::word::Word;

/// An instruction and its replacement, with the code before and after it, and the results of the
/// function.
#[derive(Clone, Debug)]
pub(crate) struct Specimen {
    pub(crate) name: &'static str,
    before: Vec<u8>,
    old: Code,
    new: Code,
    behind: Vec<u8>,
    pub(crate) returns: [u64; 2],
}

/// An instruction: bytes, and perhaps a displacement to one of the pads, which is filled in later.
#[derive(Clone, Debug)]
struct Code {
    bytes: Vec<u8>,
    pad: Option<usize>,
}

/// The offsets of the site's boundary, of the pads, and of the slots that hold the pads' addresses.
const BOUNDARY: usize = 128;
const PADS: [usize; 2] = [512, 768];
const SLOTS: [usize; 2] = [1024, 1032];

const SET_7: [u8; 5] = [0xb8, 7, 0, 0, 0];
const SET_3_AND_RETURN: [u8; 6] = [0xb8, 3, 0, 0, 0, 0xc3];
const RETURN: [u8; 1] = [0xc3];

fn plain(bytes: &[u8]) -> Code {
    Code { bytes: bytes.to_vec(), pad: None }
}

fn to(opcode: &[u8], place: usize) -> Code {
    Code { bytes: [opcode, &[0; 4]].concat(), pad: Some(place) }
}

impl Specimen {
    fn new(
        name: &'static str,
        before: &[u8],
        [old, new]: [Code; 2],
        behind: &[u8],
        returns: [u64; 2],
    ) -> Self {
        Self { name, before: before.to_vec(), old, new, behind: behind.to_vec(), returns }
    }

    /// One of each kind of instruction that the trap handler emulates. Pad 0 returns 1 and pad 1
    /// returns 2.
    pub(crate) fn all() -> Vec<Self> {
        let nop = [0x0f, 0x1f, 0x44, 0, 0];
        let compare_equal = [0x31, 0xc0];
        let set_if_zero = [0x0f, 0x94, 0xc0, 0x0f, 0xb6, 0xc0, 0xc3];
        let [a, b] = PADS;
        let [slot_a, slot_b] = SLOTS;
        vec![
            Self::new(
                "mov",
                &[],
                [plain(&[0xb8, 1, 2, 3, 4]), plain(&[0xb8, 5, 6, 7, 8])],
                &RETURN,
                [0x0403_0201, 0x0807_0605],
            ),
            Self::new("call", &[], [to(&[0xe8], a), to(&[0xe8], b)], &RETURN, [1, 2]),
            Self::new("jmp", &[], [to(&[0xe9], a), to(&[0xe9], b)], &[], [1, 2]),
            Self::new(
                "jcc taken",
                &compare_equal,
                [to(&[0x0f, 0x84], a), to(&[0x0f, 0x84], b)],
                &[],
                [1, 2],
            ),
            Self::new(
                "jcc not taken",
                &compare_equal,
                [to(&[0x0f, 0x85], a), to(&[0x0f, 0x84], b)],
                &SET_3_AND_RETURN,
                [3, 2],
            ),
            Self::new("nop", &SET_7, [plain(&nop), to(&[0xe8], a)], &RETURN, [7, 1]),
            Self::new(
                "ret",
                &SET_7,
                [plain(&[0xc2, 0, 0]), plain(&[0x0f, 0x1f, 0])],
                &SET_3_AND_RETURN,
                [7, 3],
            ),
            Self::new(
                "test",
                &SET_7,
                [plain(&[0xa9, 7, 0, 0, 0]), plain(&[0xa9, 8, 1, 2, 3])],
                &set_if_zero,
                [0, 1],
            ),
            Self::new(
                "call through memory",
                &[],
                [to(&[0xff, 0x15], slot_a), to(&[0xff, 0x15], slot_b)],
                &RETURN,
                [1, 2],
            ),
            Self::new(
                "jmp through memory",
                &[],
                [to(&[0xff, 0x25], slot_a), to(&[0xff, 0x25], slot_b)],
                &[],
                [1, 2],
            ),
        ]
    }

    /// An instruction that the trap handler cannot emulate: `add eax, 1` and `add eax, 0x01010101`.
    pub(crate) fn obscure() -> Self {
        let words = [plain(&[0x05, 1, 0, 0, 0]), plain(&[0x05, 1, 1, 1, 1])];
        Self::new("add", &SET_7, words, &RETURN, [8, 0x0101_0108])
    }

    /// Four instructions in one word of eight bytes.
    pub(crate) fn several() -> Self {
        let old = plain(&[0xb0, 1, 0xb4, 2, 0x90, 0x0f, 0x1f, 0]);
        let new = plain(&[0xb4, 4, 0xb0, 3, 0xf8, 0x66, 0x66, 0x90]);
        Self::new("several", &[0x31, 0xc0], [old, new], &RETURN, [0x0201, 0x0403])
    }

    pub(crate) fn len(&self) -> usize {
        self.old.bytes.len()
    }

    /// Lays the function out so that `front` bytes of the site lie before the boundary.
    pub(crate) fn lay_out(&self, front: usize) -> Laid {
        let mut memory = CodeMemory::new(4096).unwrap();
        let base = memory.base();
        for (n, (pad, slot)) in PADS.into_iter().zip(SLOTS).enumerate() {
            memory.write(pad, &[0xb8, n as u8 + 1, 0, 0, 0, 0xc3]);
            memory.write(slot, &base.offset(pad as isize).get().to_le_bytes());
        }
        let site = BOUNDARY - front;
        let entry = site - self.before.len();
        memory.write(entry, &self.before);
        let [old, new] = [&self.old, &self.new].map(|code| code.at(site));
        memory.write(site, old.bytes());
        memory.write(site + self.len(), &self.behind);
        Laid {
            entry: base.offset(entry as isize),
            site: base.offset(site as isize),
            old,
            new,
            _memory: memory,
        }
    }
}

impl Code {
    fn at(&self, site: usize) -> Word {
        let mut bytes = self.bytes.clone();
        if let Some(pad) = self.pad {
            let displacement = pad as i32 - (site + bytes.len()) as i32;
            let place = bytes.len() - 4;
            bytes[place..].copy_from_slice(&displacement.to_le_bytes());
        }
        Word::new(&bytes).unwrap()
    }
}

/// A specimen in code memory.
#[derive(Debug)]
pub(crate) struct Laid {
    entry: CodeAddr,
    pub(crate) site: CodeAddr,
    pub(crate) old: Word,
    pub(crate) new: Word,
    _memory: CodeMemory,
}

impl Laid {
    pub(crate) fn run(&self) -> u64 {
        // SAFETY: (1) `Specimen` has laid the function out as one that takes no arguments and
        // returns a number in RAX.
        unsafe { std::mem::transmute::<*const u8, extern "C" fn() -> u64>(self.entry.as_ptr())() }
    }

    pub(crate) fn adopt(&self, layout: Layout, policy: &Policy) -> PatchSite {
        // SAFETY: (1) to (4): the test owns the memory, and words are specimens.
        unsafe { PatchSite::adopt(self.site, self.old.len(), layout, policy) }.unwrap()
    }
}

/// Both orders of fetch, so that every processor also tests the longer protocol.
pub(crate) fn policies() -> [Policy; 2] {
    let policy = Policy { granule: Granule::QUADWORD, ..Policy::new().unwrap() };
    [Policy { order: FetchOrder::Upwards, ..policy }, Policy { order: FetchOrder::Any, ..policy }]
}
