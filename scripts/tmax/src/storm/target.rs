//! Targets: a word of known shape at a known distance from a boundary, with the code around it that
//! runs it.
//!
//! ```text
//!    entry                           word                back line
//!    mov eax, PRESET …  xor esi, esi │ b8 10 11 12 13 │ ret  …  neighbour …
//!                                        ↑ boundary: 8, 16, 32, 64 bytes or a page
//! ```
//!
//! # Safety
//!
//! This module exists because a target's bytes are changed while they are executed: it passes
//! ranges of its own memory to [`wordpatch::live`], and is the only module that runs it.
#![allow(unsafe_code)]

use super::execution::{self, Registers};
use super::shape::{Face, Outcome, PAD, PRESET, Shape};
use wordpatch::live::{self, Width};
use wordpatch::os::{OsError, pages::PAGE};
use wordpatch::{CodeAddr, CodeMemory};

/// The position of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Placement {
    /// Across a boundary of `boundary` bytes, and no larger one.
    Astride {
        /// 8, 16, 32, 64 or 4096.
        boundary: usize,
        /// The number of the word's bytes before it.
        before: usize,
    },
    /// At this offset in a line of 64 bytes.
    InLine(usize),
}

impl Placement {
    /// The word's distance from the beginning of its memory: on the first page, or across its end.
    fn offset(self) -> usize {
        const MIDDLE: usize = PAGE / 2;
        match self {
            Self::Astride { boundary: PAGE, before } => PAGE - before,
            Self::Astride { boundary, before } => MIDDLE + boundary - before,
            Self::InLine(offset) => MIDDLE + offset % 64,
        }
    }
}

/// Code that is toggled, and everything around it.
#[derive(Debug)]
pub struct Target {
    shape: Shape,
    placement: Placement,
    memory: CodeMemory,
    offset: usize,
    /// The writable address of the word.
    writable: CodeAddr,
    entry: CodeAddr,
    /// The registers after each of its faces.
    whole: [Registers; 2],
}

const RET: u8 = 0xc3;

impl Target {
    /// Builds a target with its old face.
    pub fn new(shape: Shape, placement: Placement) -> Result<Self, OsError> {
        execution::prepare()?;
        let offset = placement.offset();
        let end = offset + shape.len();
        let pads = shape.pads();
        let last_pad = pads.iter().map(|&(place, _)| place).max().unwrap_or(0);
        let mut memory = CodeMemory::new(end + last_pad + PAGE)?;

        let mut code = lead_in();
        code.extend(shape.stem());
        let entry = offset - code.len();
        code.extend(shape.bytes(Face::Old));
        code.push(RET);
        memory.write(entry, &code);
        for (place, mask) in pads {
            let [a, b, c, d] = (PAD + u32::from(mask)).to_le_bytes();
            memory.write(end + place, &[0xb8, a, b, c, d, RET]);
        }
        let entry = memory.base().offset(entry as isize);
        let writable = memory.writable(offset);
        Ok(Self {
            shape,
            placement,
            memory,
            offset,
            writable,
            entry,
            whole: [shape.registers(Face::Old), shape.registers(Face::New)],
        })
    }

    /// Its shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Its placement.
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// The address at which the word is executed.
    pub fn word_at(&self) -> CodeAddr {
        self.memory.base().offset(self.offset as isize)
    }

    /// The number of the word's bytes before the boundary that cuts it; all of them if none cuts
    /// it.
    pub fn front(&self) -> usize {
        match self.placement {
            Placement::Astride { before, .. } => before.min(self.shape.len()),
            Placement::InLine(_) => (64 - self.word_at().within(64)).min(self.shape.len()),
        }
    }

    /// The first byte of the line that holds the word's last byte.
    fn back_line(&self) -> CodeAddr {
        self.word_at().offset(self.shape.len() as isize - 1).align_down(64)
    }

    /// Stores the low `width` bytes of `value` at `at` bytes from the word's first, with one
    /// instruction. For a protocol under test, which is responsible for the resulting word.
    ///
    /// # Panics
    /// If that is outside of the word and of the eight bytes after it, which belong to the target.
    #[inline]
    pub fn store(&self, at: usize, width: Width, value: u64) {
        assert!(
            at + width.bytes() <= self.shape.len() + 8,
            "a store of {width:?} at {at} leaves the target"
        );
        // SAFETY: (1) the word and the eight bytes after it lie inside the writable mapping: `new`
        // reserved a page after the word; (2) they belong to this target; (3) threads run any
        // mixture of bytes through `execute`, which recovers.
        unsafe { live::store(self.writable.offset(at as isize), width, value) };
    }

    /// The eight bytes at offset `at` from the word's first, with the face `face`.
    pub fn image(&self, face: Face, at: usize) -> u64 {
        let bytes = self.shape.bytes(face);
        let byte = |i: usize| match i.checked_sub(bytes.len()) {
            None => bytes[i],
            Some(0) => RET,
            Some(_) => 0,
        };
        u64::from_le_bytes(std::array::from_fn(|i| byte(at + i)))
    }

    /// Stores the whole word at once: correct within a granule, and the unprotected store across a
    /// boundary.
    #[inline]
    pub fn store_whole(&self, face: Face) {
        self.store(0, Width::Eight, self.image(face, 0));
    }

    /// Writes a byte of the back line that is no code.
    pub(super) fn dirty_back_line(&self, value: u8) {
        let last = self.word_at().offset(self.shape.len() as isize - 1).within(64);
        let free = if last < 48 { 60 } else { 0 };
        let neighbour = self.back_line().offset(free).distance_from(self.memory.base()) as usize;
        // SAFETY: (1) inside the writable mapping, since the page of the back line is; (2) and (3)
        // a word that ends before byte 48 has its `ret` and its eight bytes before byte 60, and one
        // that ends later begins, with its lead-in, after byte 0.
        unsafe { live::store(self.memory.writable(neighbour), Width::One, value.into()) };
    }

    /// Makes the line of the word's last byte cold.
    pub(super) fn flush_back_line(&self) {
        // SAFETY: (1) executable memory is readable; (2) adversaries that flush are refused without
        // CLFLUSHOPT.
        unsafe { live::flush_line(self.back_line()) };
    }

    /// Makes the line of the word's first byte cold.
    pub(super) fn flush_front_line(&self) {
        // SAFETY: as above.
        unsafe { live::flush_line(self.word_at()) };
    }

    /// Runs it once, inside [`execution::recoverable`].
    #[inline]
    pub(crate) fn execute(&self) -> Registers {
        // SAFETY: (1) `new` has prepared; (2) `entry` begins code that only touches four
        // caller-saved registers and returns, and by the choice of the shapes so does every mixture
        // of its bytes.
        unsafe { execution::execute(self.entry) }
    }

    /// Runs it once and returns the outcome. Not for threads that measure: it prepares the recovery
    /// each time.
    pub fn try_out(&self) -> Outcome {
        let over = std::sync::atomic::AtomicBool::new(true);
        self.outcome(&execution::recoverable(&over, execution::OnTrap::Retry, || self.execute()))
    }

    /// The outcome of an execution.
    #[inline]
    pub(super) fn outcome(&self, registers: &Registers) -> Outcome {
        match registers {
            own if *own == self.whole[0] => Outcome::Old,
            own if *own == self.whole[1] => Outcome::New,
            other => self.shape.decode(other),
        }
    }
}

/// The code that presets the registers.
fn lead_in() -> Vec<u8> {
    let [a, b, c, d] = (PRESET as u32).to_le_bytes();
    let mov_eax = [0xb8, a, b, c, d];
    let mov_ecx = [0xb9, a, b, c, d];
    let xor_edx_esi = [0x31, 0xd2, 0x31, 0xf6];
    [&mov_eax[..], &mov_ecx, &xor_edx_esi].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn astride() -> impl Iterator<Item = Placement> {
        [8, 16, 32, 64, PAGE]
            .into_iter()
            .flat_map(|boundary| (1..8).map(move |before| Placement::Astride { boundary, before }))
    }

    #[test]
    fn every_mixture_of_bytes_comes_out_as_itself() {
        for shape in Shape::ALL {
            let target =
                Target::new(shape, Placement::Astride { boundary: 64, before: 3 }).unwrap();
            for mask in (0..=255u8).filter(|mask| mask & !shape.differing() == 0) {
                for (i, byte) in shape.mixture(mask).into_iter().enumerate() {
                    target.store(i, Width::One, byte.into());
                }
                assert_eq!(target.try_out(), shape.outcome(mask), "{shape:?} {mask:#010b}");
            }
        }
    }

    #[test]
    fn a_word_lies_astride_its_boundary_and_of_no_larger_one() {
        for placement in astride() {
            let Placement::Astride { boundary, before } = placement else { unreachable!() };
            let target = Target::new(Shape::Pair, placement).unwrap();
            let edge = target.word_at().offset(before as isize);
            assert_eq!(edge.within(boundary), 0);
            assert!(boundary == PAGE || edge.within(2 * boundary) != 0);
            assert_eq!(target.front(), before);
        }
    }

    #[test]
    fn whole_stores_toggle_a_target_and_leave_its_neighbours_alone() {
        for shape in Shape::ALL {
            for placement in astride().chain((0..64).map(Placement::InLine)) {
                let target = Target::new(shape, placement).unwrap();
                target.dirty_back_line(0xcc);
                for face in [Face::New, Face::Old, Face::New] {
                    target.store_whole(face);
                    assert_eq!(
                        target.outcome(&target.shape.registers(face)),
                        target.try_out(),
                        "{shape:?} {placement:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_illegal_instruction_is_survived() {
        let target = Target::new(Shape::Move, Placement::InLine(0)).unwrap();
        target.store(0, Width::Two, 0x0b0f);
        assert_eq!(target.try_out(), Outcome::Stray);
        target.store(0, Width::Four, 0x25_04_8b_48); // a load from an absolute address: nothing is mapped there
        assert_eq!(target.try_out(), Outcome::Stray);
    }
}
