//! The shapes of code that is toggled. Every mixture of the bytes of their two faces has a distinct
//! result.
//!
//! A tear with a correct result would go unnoticed, so the words are chosen for the effects of
//! their mixtures. The lead-in presets all four registers; their values afterwards show, byte by
//! byte, which face was executed:
//!
//! ```text
//!  Move       B8 10 11 12 13   mov eax, …        B9 e0 e1 e2 e3   mov ecx, …
//!             the register that changed tells byte 0, its value the other four
//!  Call       E8 10 18 10 00   call …            E8 90 80 20 01   call …
//!             sixteen landing pads, one at each mixture of the displacement; each returns its own number
//!  Pair       B8 10 11 12 13 83 C2 05            B9 e0 e1 e2 e3 83 C6 47      mov + add, in two pairs of registers
//!  Immediate  48 B8 [ 10 … 17 ]                  48 B8 [ e0 … e7 ]            the eight bytes of a mov rax, …
//! ```
//!
//! There is no unsafe code here.

use super::execution::Registers;
use wordpatch::{Word, protocol::Layout};

/// One of the two contents of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Face {
    /// The initial content.
    Old,
    /// The content that it is toggled to.
    New,
}

impl Face {
    /// The other face.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Old => Self::New,
            Self::New => Self::Old,
        }
    }
}

/// The outcome of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The old face, whole.
    Old,
    /// The new face, whole.
    New,
    /// Neither: a call that is switched off, by a nop or a `test eax, imm32`. Only [`Shape::Call`]
    /// has it.
    Off,
    /// One face up to an instruction's end and the other face from there: correct for a thread that
    /// was between the two instructions when they were replaced. Only [`Shape::Pair`] has it.
    Between,
    /// An instruction that was never written: these bytes (bit 0 is the first) came from the new
    /// face, the rest from the old one.
    Torn {
        /// One bit for each byte that differs between the faces.
        from_new: u8,
    },
    /// A fault, or a result that no mixture explains.
    Stray,
}

/// The shape of the toggled word. See the picture above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// Five bytes, one instruction; the opcode changes, too.
    Move,
    /// A call of five bytes, whose displacement changes.
    Call,
    /// Eight bytes, two instructions.
    Pair,
    /// Eight bytes inside one instruction, two bytes after its beginning.
    Immediate,
}

/// The initial value of eax and ecx, which no mixture yields.
pub(super) const PRESET: u64 = 0x5a5a_5a5a;

/// The result of landing pad 0; pad n returns n more.
pub(super) const PAD: u32 = 0x7700;

const MOVE: [[u8; 5]; 2] = [[0xb8, 0x10, 0x11, 0x12, 0x13], [0xb9, 0xe0, 0xe1, 0xe2, 0xe3]];
const CALL: [[u8; 5]; 2] = [[0xe8, 0x10, 0x18, 0x10, 0x00], [0xe8, 0x90, 0x80, 0x20, 0x01]];
const PAIR: [[u8; 8]; 2] = [
    [0xb8, 0x10, 0x11, 0x12, 0x13, 0x83, 0xc2, 0x05],
    [0xb9, 0xe0, 0xe1, 0xe2, 0xe3, 0x83, 0xc6, 0x47],
];
const IMMEDIATE: [[u8; 8]; 2] = [
    [0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17],
    [0xe0, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7],
];

/// The second instruction of [`PAIR`], as a mask.
const PAIR_SECOND: u8 = 0b1110_0000;

impl Shape {
    /// All shapes.
    pub const ALL: [Self; 4] = [Self::Move, Self::Call, Self::Pair, Self::Immediate];

    /// The bytes of both faces.
    const fn faces(self) -> [&'static [u8]; 2] {
        match self {
            Self::Move => [&MOVE[0], &MOVE[1]],
            Self::Call => [&CALL[0], &CALL[1]],
            Self::Pair => [&PAIR[0], &PAIR[1]],
            Self::Immediate => [&IMMEDIATE[0], &IMMEDIATE[1]],
        }
    }

    /// The word in one of its faces.
    pub fn word(self, face: Face) -> Word {
        // Every face is of one to eight bytes.
        Word::new(self.bytes(face)).unwrap_or_else(|| unreachable!("a face of {self:?} is no word"))
    }

    /// The bytes of one face.
    pub const fn bytes(self, face: Face) -> &'static [u8] {
        self.faces()[face as usize]
    }

    /// The number of toggled bytes.
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub const fn len(self) -> usize {
        self.bytes(Face::Old).len()
    }

    /// The bytes of its first instruction that lie before the word and stay as they are.
    pub const fn stem(self) -> &'static [u8] {
        match self {
            Self::Immediate => &[0x48, 0xb8],
            Self::Move | Self::Call | Self::Pair => &[],
        }
    }

    /// The layout that wordpatch may assume for it.
    pub const fn layout(self) -> Layout {
        match self {
            Self::Move | Self::Call | Self::Immediate => Layout::One,
            Self::Pair => Layout::Any,
        }
    }

    /// A bit for each byte that differs between the faces.
    pub fn differing(self) -> u8 {
        let [old, new] = self.faces();
        (0..self.len()).filter(|&i| old[i] != new[i]).map(|i| 1 << i).sum()
    }

    /// The word with the bytes of `from_new` taken from the new face and the rest from the old one.
    pub fn mixture(self, from_new: u8) -> Vec<u8> {
        let [old, new] = self.faces();
        (0..self.len()).map(|i| if from_new >> i & 1 == 1 { new[i] } else { old[i] }).collect()
    }

    /// The landing pads of a call: the distance of each from the end of the word, and the bytes of
    /// the displacement (as in [`Outcome::Torn`]) that lead there.
    pub(super) fn pads(self) -> Vec<(usize, u8)> {
        if self != Self::Call {
            return Vec::new();
        }
        let displacement = |mask: u8| {
            let bytes = self.mixture(mask);
            u32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]) as usize
        };
        (0..16u8).map(|n| n << 1).map(|mask| (displacement(mask), mask)).collect()
    }

    /// The outcome of a `mask` of bytes from the new face.
    pub fn outcome(self, mask: u8) -> Outcome {
        let differing = self.differing();
        match mask & differing {
            0 => Outcome::Old,
            mask if mask == differing => Outcome::New,
            mask if self == Self::Pair && mask == differing & PAIR_SECOND => Outcome::Between,
            mask if self == Self::Pair && mask == differing & !PAIR_SECOND => Outcome::Between,
            from_new => Outcome::Torn { from_new },
        }
    }

    /// The outcome that explains these registers.
    pub fn decode(self, registers: &Registers) -> Outcome {
        let [old, new] = self.faces();
        let mask = match self {
            Self::Move => moved(registers).filter(|_| registers.rdx == 0 && registers.rsi == 0),
            Self::Pair => moved(registers).and_then(|mask| Some(mask | added(registers)?)),
            Self::Immediate => (registers.rcx == PRESET)
                .then(|| origin(&registers.rax.to_le_bytes(), old, new))
                .flatten(),
            Self::Call if registers.rax == PRESET && registers.rcx == PRESET => {
                return Outcome::Off;
            }
            Self::Call => match (registers.rax as u32).wrapping_sub(PAD) {
                mask @ 0..32 if registers.rax >> 32 == 0 && mask & 1 == 0 => Some(mask as u8),
                _ => None,
            },
        };
        mask.map_or(Outcome::Stray, |mask| self.outcome(mask))
    }

    /// The registers after a face.
    pub fn registers(self, face: Face) -> Registers {
        let idle = Registers { rax: PRESET, rcx: PRESET, rdx: 0, rsi: 0 };
        let immediate =
            |bytes: &[u8]| u64::from(u32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]));
        match (self, face) {
            (Self::Move, Face::Old) => Registers { rax: immediate(&MOVE[0]), ..idle },
            (Self::Move, Face::New) => Registers { rcx: immediate(&MOVE[1]), ..idle },
            (Self::Call, Face::Old) => Registers { rax: PAD.into(), ..idle },
            (Self::Call, Face::New) => {
                Registers { rax: (PAD + u32::from(self.differing())).into(), ..idle }
            }
            (Self::Pair, Face::Old) => {
                Registers { rax: immediate(&PAIR[0]), rdx: PAIR[0][7].into(), ..idle }
            }
            (Self::Pair, Face::New) => {
                Registers { rcx: immediate(&PAIR[1]), rsi: PAIR[1][7].into(), ..idle }
            }
            (Self::Immediate, face) => {
                Registers { rax: u64::from_le_bytes(IMMEDIATE[face as usize]), ..idle }
            }
        }
    }
}

/// The mask of the first five bytes of [`Shape::Move`] and [`Shape::Pair`].
fn moved(registers: &Registers) -> Option<u8> {
    let (opcode, value) = match (registers.rax == PRESET, registers.rcx == PRESET) {
        (false, true) => (0, registers.rax),
        (true, false) => (1, registers.rcx),
        _ => return None,
    };
    let value = u32::try_from(value).ok()?.to_le_bytes();
    Some(opcode | origin(&value, &MOVE[0][1..], &MOVE[1][1..])? << 1)
}

/// The mask of the last three bytes of [`Shape::Pair`].
fn added(registers: &Registers) -> Option<u8> {
    let (register, value) = match (registers.rdx, registers.rsi) {
        (value, 0) => (0, value),
        (0, value) => (1 << 6, value),
        _ => return None,
    };
    let value = origin(&[u8::try_from(value).ok()?], &PAIR[0][7..], &PAIR[1][7..])?;
    Some(register | value << 7)
}

/// A bit for each byte of `seen` that is the new one; `None` if a byte is neither.
fn origin(seen: &[u8], old: &[u8], new: &[u8]) -> Option<u8> {
    seen.iter().zip(old.iter().zip(new)).enumerate().try_fold(0, |mask, (i, (seen, (old, new)))| {
        match seen {
            seen if seen == old => Some(mask),
            seen if seen == new => Some(mask | 1 << i),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Mnemonic};

    #[test]
    fn both_faces_leave_what_they_are_said_to_leave() {
        for shape in Shape::ALL {
            assert_eq!(shape.decode(&shape.registers(Face::Old)), Outcome::Old);
            assert_eq!(shape.decode(&shape.registers(Face::New)), Outcome::New);
        }
    }

    #[test]
    fn every_mixture_decodes_to_whole_instructions_of_the_word() {
        for shape in Shape::ALL {
            for mask in 0..=255u8 {
                let mut code = shape.stem().to_vec();
                code.extend(shape.mixture(mask));
                let mut decoder = Decoder::new(64, &code, DecoderOptions::NONE);
                let instructions: Vec<Mnemonic> = decoder.iter().map(|i| i.mnemonic()).collect();
                let expected: &[Mnemonic] = match shape {
                    Shape::Move | Shape::Immediate => &[Mnemonic::Mov],
                    Shape::Call => &[Mnemonic::Call],
                    Shape::Pair => &[Mnemonic::Mov, Mnemonic::Add],
                };
                assert_eq!(instructions, expected, "{shape:?} {mask:#b}");
            }
        }
    }

    #[test]
    fn no_two_landing_pads_overlap() {
        let mut places: Vec<usize> =
            Shape::Call.pads().into_iter().map(|(place, _)| place).collect();
        places.sort_unstable();
        assert_eq!(places.len(), 16);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 6), "{places:x?}");
        assert!(places[0] >= 64, "the first pad must lie behind the site's own line");
    }

    #[test]
    fn a_result_that_no_mixture_explains_is_stray() {
        let junk = Registers { rax: 0xdead_beef_dead_beef, rcx: 3, rdx: 9, rsi: 9 };
        for shape in Shape::ALL {
            assert_eq!(shape.decode(&junk), Outcome::Stray);
        }
        let trap = Registers { rax: 0x1312_cc10, ..Shape::Move.registers(Face::Old) };
        assert_eq!(Shape::Move.decode(&trap), Outcome::Stray);
    }
}
