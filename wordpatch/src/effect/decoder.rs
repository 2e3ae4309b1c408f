//! Decodes bytes into effects.
//!
//! ```text
//!   66 67 F2 F3 2E 3E …   40..4F    op | 0F op    ModRM SIB   displacement   immediate
//!   └── any order ────┘   └ last ┘  └ the row ┘   └───── what the row reads ─────────┘
//! ```
//!
//! [`row`] is the table: for each opcode the prefixes that may precede it and the function that
//! reads the rest. A prefix that a row does not list makes the instruction unknown, even where the
//! processor would ignore it. A prefix that no row lists (LOCK, ES, SS, FS, GS) is not parsed as
//! one, but as an opcode without a row.

use super::machine::{Part, Register, truncate};
use super::{Condition, Effect, Instruction, Operand, Target};
use crate::addr::CodeAddr;
use crate::live::Width;

/// The size of the longest instruction (Intel SDM volume 2, section 2.3.11; AMD64 APM volume 3,
/// section 1.1).
pub(crate) const LONGEST: usize = 15;

/// A set of prefixes.
type Prefixes = u8;

const NONE: Prefixes = 0;
/// 66: operands of 16 bits.
const SIZE: Prefixes = 1 << 0;
/// 67: addresses of 32 bits. No effect where there is no address.
const ADDRESS: Prefixes = 1 << 1;
/// F2: on a branch, keep the bounds registers; no effect on processors and kernels without MPX.
const BOUND: Prefixes = 1 << 2;
/// F3: part of the opcode of PAUSE and ENDBR, and without effect before a return.
const REPEAT: Prefixes = 1 << 3;
/// 2E: on a conditional branch a hint; otherwise a segment that 64-bit mode ignores.
const CS: Prefixes = 1 << 4;
/// 3E: on an indirect branch NOTRACK, on a conditional one a hint; otherwise a segment that 64-bit
/// mode ignores.
const DS: Prefixes = 1 << 5;
/// 40..4F. It does not change a near branch, whose operand always has 64 bits.
const REX: Prefixes = 1 << 6;

/// The prefixes that may precede a near branch.
const BRANCH: Prefixes = BOUND | CS | DS | REX;
/// The prefixes that may precede an instruction on registers.
const OPERAND: Prefixes = SIZE | REX;
/// The prefixes that may precede a nop, to make it longer.
const PADDING: Prefixes = SIZE | ADDRESS | CS | DS | REX;

/// The prefixes that may precede an opcode, and the function that reads the rest of the
/// instruction.
type Row = (Prefixes, fn(&mut Code, u8) -> Option<Effect>);

/// The table of all known instructions; `0x0f00` and above are the opcodes of two bytes.
fn row(opcode: u16) -> Option<Row> {
    Some(match opcode {
        0x70..=0x7f => (BRANCH, |code, opcode| branch(code, opcode, Width::One)),
        0x0f80..=0x0f8f => (BRANCH, |code, opcode| branch(code, opcode, Width::Four)),
        0xe3 => (NONE, |code, _| {
            Some(Effect::Branch(Condition::CounterIsZero, code.relative(Width::One)?))
        }),
        0xe8 => (BRANCH | ADDRESS, |code, _| {
            Some(Effect::Call(Target::Code(code.relative(Width::Four)?)))
        }),
        0xe9 => (BRANCH | ADDRESS, |code, _| {
            Some(Effect::Jump(Target::Code(code.relative(Width::Four)?)))
        }),
        0xeb => (BRANCH, |code, _| Some(Effect::Jump(Target::Code(code.relative(Width::One)?)))),
        0xff => (BRANCH, indirect_branch),
        0xc2 => (BOUND | REX, |code, _| {
            Some(Effect::Return { release: code.signed(Width::Two)? as u16 })
        }),
        0xc3 => (BOUND | REPEAT | REX, |_, _| Some(Effect::Return { release: 0 })),
        0x84 | 0x85 => (OPERAND, test_register),
        0xa8 | 0xa9 => (OPERAND, test_accumulator),
        0xf6 | 0xf7 => (OPERAND, test_constant),
        0xb0..=0xbf => (OPERAND, move_short),
        0xc6 | 0xc7 => (OPERAND, move_long),
        0x90 => (PADDING | REPEAT, nop),
        0x0f1e => (REPEAT, end_branch),
        0x0f1f => (PADDING, long_nop),
        _ => return None,
    })
}

/// Decodes the instruction that begins with the first of `bytes` and lies at `at`.
///
/// `bytes` are the readable bytes, up to fifteen; none beyond them are read.
pub(crate) fn decode(at: CodeAddr, bytes: &[u8]) -> Option<Instruction> {
    let rest = bytes.get(..LONGEST).unwrap_or(bytes);
    let mut code = Code { rest, end: at, prefixes: NONE, rex: 0 };
    code.read_prefixes()?;
    let first = code.byte()?;
    let (page, opcode) = if first == 0x0f { (0x0f00, code.byte()?) } else { (0, first) };
    let (allowed, read) = row(page | u16::from(opcode))?;
    if code.prefixes & !allowed != 0 {
        return None;
    }
    let effect = read(&mut code, opcode)?;
    Some(Instruction { len: code.end.distance_from(at) as u8, effect })
}

fn branch(code: &mut Code, opcode: u8, width: Width) -> Option<Effect> {
    Some(Effect::Branch(Condition::Flags(opcode & 15), code.relative(width)?))
}

fn indirect_branch(code: &mut Code, _: u8) -> Option<Effect> {
    let modrm = code.modrm()?;
    let target = match code.place(modrm)? {
        Place::Register(number) => Target::Register(Register::numbered(number)),
        Place::Memory(address) => Target::Memory(address),
    };
    match modrm.extension {
        2 => Some(Effect::Call(target)),
        4 => Some(Effect::Jump(target)),
        _ => None,
    }
}

fn test_register(code: &mut Code, opcode: u8) -> Option<Effect> {
    let width = code.width(opcode & 1 != 0);
    let modrm = code.modrm()?;
    let left = match code.place(modrm)? {
        Place::Register(number) => Operand::Part(code.part(number, width)),
        Place::Memory(address) => Operand::Memory(address),
    };
    let right = Operand::Part(code.part(modrm.register, width));
    Some(Effect::Test { width, left, right })
}

fn test_accumulator(code: &mut Code, opcode: u8) -> Option<Effect> {
    let width = code.width(opcode & 1 != 0);
    let left = Operand::Part(Part::Low(Register::Rax, width));
    Some(Effect::Test { width, left, right: Operand::Constant(code.constant(width)?) })
}

fn test_constant(code: &mut Code, opcode: u8) -> Option<Effect> {
    let (to, width) = register_of_extension_zero(code, opcode)?;
    Some(Effect::Test {
        width,
        left: Operand::Part(to),
        right: Operand::Constant(code.constant(width)?),
    })
}

/// B0..BF, the only instruction with a constant of eight bytes.
fn move_short(code: &mut Code, opcode: u8) -> Option<Effect> {
    let width = code.width(opcode & 8 != 0);
    let to = code.part(code.extended(opcode & 7, REX_B), width);
    Some(Effect::Move { to, value: truncate(code.signed(width)? as u64, width) })
}

fn move_long(code: &mut Code, opcode: u8) -> Option<Effect> {
    let (to, width) = register_of_extension_zero(code, opcode)?;
    Some(Effect::Move { to, value: code.constant(width)? })
}

fn register_of_extension_zero(code: &mut Code, opcode: u8) -> Option<(Part, Width)> {
    let width = code.width(opcode & 1 != 0);
    let modrm = code.modrm()?;
    match (modrm.extension, code.place(modrm)?) {
        (0, Place::Register(number)) => Some((code.part(number, width), width)),
        _ => None,
    }
}

/// 90 exchanges RAX with itself, which has no effect, unless REX.B turns one of them into R8.
fn nop(code: &mut Code, _: u8) -> Option<Effect> {
    let pause = code.prefixes == REPEAT;
    let plain = code.prefixes & REPEAT == 0 && code.rex & REX_B == 0;
    (pause || plain).then_some(Effect::Skip)
}

/// No effect on processors that do not track indirect branches, or where the kernel has not enabled
/// that.
fn end_branch(code: &mut Code, _: u8) -> Option<Effect> {
    let ends = code.prefixes == REPEAT && matches!(code.byte()?, 0xfa | 0xfb);
    ends.then_some(Effect::Skip)
}

fn long_nop(code: &mut Code, _: u8) -> Option<Effect> {
    let modrm = code.modrm()?;
    code.skip_operand(modrm)?;
    (modrm.extension == 0).then_some(Effect::Skip)
}

/// REX.W: operands of 64 bits.
const REX_W: u8 = 8;
/// REX.R: the fourth bit of the register in ModRM.
const REX_R: u8 = 4;
/// REX.B: the fourth bit of the register in ModRM that may also be memory, or in the opcode.
const REX_B: u8 = 1;

/// An instruction, decoded in part.
struct Code<'a> {
    /// Not yet read.
    rest: &'a [u8],
    /// The address of the first byte not yet read.
    end: CodeAddr,
    prefixes: Prefixes,
    /// The REX prefix, or zero.
    rex: u8,
}

/// The byte that encodes operands.
#[derive(Clone, Copy)]
struct ModRm {
    mode: u8,
    /// The middle field, where it is part of the opcode.
    extension: u8,
    /// The middle field with REX.R, where it is a register.
    register: u8,
    /// The low field.
    low: u8,
}

/// The operand that a ModRM byte encodes by its mode and its low field.
enum Place {
    /// The register with this number.
    Register(u8),
    /// Memory at this address.
    Memory(u64),
}

impl Code<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        self.end = self.end.offset(1);
        Some(byte)
    }

    /// A signed number of this width.
    fn signed(&mut self, width: Width) -> Option<i64> {
        let mut value = 0;
        for i in 0..width.bytes() {
            value |= u64::from(self.byte()?) << (8 * i);
        }
        let unused = 64 - 8 * width.bytes();
        Some((value << unused) as i64 >> unused)
    }

    /// A constant for an operand of this width: at most four bytes, sign-extended.
    fn constant(&mut self, width: Width) -> Option<u64> {
        let value = self.signed(width.min(Width::Four))?;
        Some(truncate(value as u64, width))
    }

    /// The address at this distance from the end of the instruction, whose last field is the
    /// distance.
    fn relative(&mut self, width: Width) -> Option<CodeAddr> {
        let distance = self.signed(width)?;
        Some(self.end.offset(distance as isize))
    }

    /// Reads the prefixes. F2 and F3 together have no reliable meaning.
    fn read_prefixes(&mut self) -> Option<()> {
        while let Some(&byte) = self.rest.first() {
            let prefix = match byte {
                0x66 => SIZE,
                0x67 => ADDRESS,
                0xf2 => BOUND,
                0xf3 => REPEAT,
                0x2e => CS,
                0x3e => DS,
                0x40..=0x4f => REX,
                _ => break,
            };
            self.prefixes |= prefix;
            self.byte()?;
            if prefix == REX {
                self.rex = byte;
                break;
            }
        }
        (self.prefixes & (BOUND | REPEAT) != BOUND | REPEAT).then_some(())
    }

    fn modrm(&mut self) -> Option<ModRm> {
        let byte = self.byte()?;
        let middle = byte >> 3 & 7;
        Some(ModRm {
            mode: byte >> 6,
            extension: middle,
            register: self.extended(middle, REX_R),
            low: byte & 7,
        })
    }

    /// The operand, if it is a register or memory relative to the instruction pointer; then no
    /// bytes may follow the displacement.
    fn place(&mut self, modrm: ModRm) -> Option<Place> {
        match (modrm.mode, modrm.low) {
            (3, low) => Some(Place::Register(self.extended(low, REX_B))),
            (0, 5) => Some(Place::Memory(self.relative(Width::Four)?.get() as u64)),
            _ => None,
        }
    }

    /// Skips an operand of any kind (Intel SDM volume 2, tables 2-2 and 2-3). REX does not change
    /// its length.
    fn skip_operand(&mut self, modrm: ModRm) -> Option<()> {
        let base = match (modrm.mode, modrm.low) {
            (3, _) => return Some(()),
            (_, 4) => self.byte()? & 7,
            (_, low) => low,
        };
        match (modrm.mode, base) {
            (1, _) => self.signed(Width::One)?,
            (0, 5) | (2, _) => self.signed(Width::Four)?,
            _ => 0,
        };
        Some(())
    }

    /// The width of an operand whose opcode does not make it a byte. REX.W overrides 66.
    fn width(&self, wide: bool) -> Width {
        match (wide, self.rex & REX_W != 0, self.prefixes & SIZE != 0) {
            (false, ..) => Width::One,
            (true, true, _) => Width::Eight,
            (true, false, true) => Width::Two,
            (true, false, false) => Width::Four,
        }
    }

    /// The number of a register: three bits, and a fourth from this bit of REX.
    fn extended(&self, low: u8, bit: u8) -> u8 {
        if self.rex & bit != 0 { low | 8 } else { low }
    }

    /// The register with this number. The byte registers 4 to 7 are AH to BH without REX, and SPL
    /// to DIL with it.
    fn part(&self, number: u8, width: Width) -> Part {
        match (width, self.rex, number) {
            (Width::One, 0, 4..=7) => Part::High(Register::numbered(number - 4)),
            _ => Part::Low(Register::numbered(number), width),
        }
    }
}
