//! The plan of a site: which bytes become the switch, where they lead, and what is done elsewhere.

use super::{PUN, Reservation};
use crate::discovery::unmodified::Untimed;
use crate::discovery::unmodified::body::{Flow, Line};
use crate::discovery::unmodified::prepared::{Maker, Room};
use callpatch::x86::{Form, keeping};
use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory, OpAccess, Register};
use wordpatch::CodeAddr;

/// An instruction that is executed in a trampoline.
pub(crate) type Moved<'b> = Line<'b>;

/// The new beginning of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leap {
    /// Its first byte begins a jump, whose displacement is the other four.
    Byte([u8; PUN]),
    /// So many prefixes, and a jump: these five bytes lie behind them now.
    Prefixed(usize, [u8; PUN]),
    /// All of a jump.
    Whole([u8; PUN]),
}

impl Leap {
    /// How many bytes belong to the jump then.
    pub(super) fn len(self) -> usize {
        match self {
            Self::Byte(_) | Self::Whole(_) => PUN,
            Self::Prefixed(prefixes, _) => prefixes + PUN,
        }
    }
}

/// A pun, and what it displaces.
#[derive(Clone, Debug)]
pub(crate) struct Pun<'b> {
    pub(crate) at: CodeAddr,
    pub(crate) leap: Leap,
    pub(crate) moved: Vec<Moved<'b>>,
}

impl Pun<'_> {
    /// The address of its landing, if it needs one.
    pub(crate) fn landing(&self) -> Option<CodeAddr> {
        match self.leap {
            Leap::Byte(bytes) => Some(keeping::pun(self.at, bytes)),
            Leap::Prefixed(prefixes, bytes) => {
                Some(keeping::pun(self.at.offset(prefixes as isize), bytes))
            }
            Leap::Whole(_) => None,
        }
    }

    pub(crate) fn reservation(&self) -> Reservation {
        match self.leap {
            Leap::Byte(_) => Reservation::Pun(self.at, 1),
            Leap::Prefixed(prefixes, _) => Reservation::Pun(self.at, prefixes + 1),
            Leap::Whole(_) => Reservation::Whole(self.at),
        }
    }
}

/// A jump that leaves a function, by the last five bytes of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) at: CodeAddr,
    pub(crate) bytes: [u8; PUN],
    /// The value of the last of them when it is on.
    pub(crate) last: u8,
    /// Where it leads when it is off.
    pub(crate) to: CodeAddr,
}

impl Turn {
    /// The address of its landing.
    pub(crate) fn landing(&self) -> CodeAddr {
        let [first, a, b, c, _] = self.bytes;
        keeping::pun(self.at, [first, a, b, c, self.last])
    }
}

/// The site of an entry.
#[derive(Clone, Debug)]
pub(crate) enum Way<'b> {
    /// Any instruction.
    Pun(Pun<'b>),
    /// Room that a compiler left.
    Room(Room),
    /// A compiler's call of its profiler.
    Call(CodeAddr, Form),
    /// A jump that is all of the function.
    Turn(Turn),
    /// A call of the function's own.
    Own(Turn),
}

impl Way<'_> {
    pub(crate) fn reservation(&self) -> Reservation {
        match self {
            Self::Pun(pun) => pun.reservation(),
            Self::Room(room) => Reservation::Room(room.at, room.len),
            Self::Call(at, form) => Reservation::Call(*at, *form),
            Self::Turn(turn) | Self::Own(turn) => Reservation::Turn(turn.at),
        }
    }

    /// Whether it is a call, which has put its own return address on top.
    pub(crate) fn is_call(&self) -> bool {
        matches!(self, Self::Call(..) | Self::Own(_))
    }

    /// The compiler option that has made it.
    pub(crate) fn maker(&self) -> Option<Maker> {
        match self {
            Self::Pun(_) | Self::Turn(_) | Self::Own(_) => None,
            Self::Room(room) => Some(room.maker),
            Self::Call(..) => Some(Maker::Mcount),
        }
    }

    /// What is done elsewhere.
    pub(crate) fn moved(&self) -> &[Moved<'_>] {
        match self {
            Self::Pun(pun) => &pun.moved,
            Self::Room(_) | Self::Call(..) | Self::Turn(_) | Self::Own(_) => &[],
        }
    }

    /// The code in whose place the trampoline is while the site is on.
    pub(crate) fn displaced(&self) -> std::ops::Range<CodeAddr> {
        match self {
            Self::Pun(pun) => pun.at..pun.moved.last().map_or(pun.at, Line::end),
            Self::Room(room) => room.at..room.end(),
            Self::Call(at, form) => *at..at.offset(form.len() as isize),
            Self::Turn(turn) | Self::Own(turn) => turn.at..turn.at.offset(PUN as isize),
        }
    }
}

/// Where a function is entered.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'b> {
    pub(crate) way: Way<'b>,
    /// The distance from the return address down to the stack pointer there.
    pub(crate) depth: u32,
    /// Nothing of the function has been executed there.
    pub(crate) is_first: bool,
    /// Otherwise, the instructions that have been.
    pub(crate) before: Vec<Line<'b>>,
}

impl Entry<'_> {
    /// Whether all registers of arguments hold them there.
    pub(crate) fn keeps_arguments(&self) -> bool {
        const ARGUMENTS: [Register; 6] = [
            Register::RDI,
            Register::RSI,
            Register::RDX,
            Register::RCX,
            Register::R8,
            Register::R9,
        ];
        let mut factory = InstructionInfoFactory::new();
        !self.before.iter().any(|line| {
            let mut decoder = Decoder::new(64, line.bytes, DecoderOptions::NONE);
            let instruction = decoder.decode();
            let used = factory.info(&instruction).used_registers();
            used.iter().any(|used| {
                !matches!(
                    used.access(),
                    OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
                ) && ARGUMENTS.contains(&used.register().full_register())
            })
        })
    }

    /// Whether what it displaces leaves the function.
    pub(crate) fn is_whole(&self) -> bool {
        let leaves = |line: &Line<'_>| line.flow == Flow::Exit;
        matches!(self.way, Way::Turn(_)) || self.way.moved().last().is_some_and(leaves)
    }
}

/// An exit of a function.
#[derive(Clone, Debug)]
pub(crate) enum Exit<'b> {
    /// A `ret` with room behind it.
    Padded(CodeAddr),
    /// Room that a compiler left before a jump that leaves the function.
    Room(Room),
    /// The last displaced instruction leaves the function.
    Pun(Pun<'b>),
    /// A jump that leaves the function, always or perhaps.
    Turn(Turn),
    /// A `ret` before another one, which is an exit's site: on, it does nothing.
    Fall(CodeAddr),
}

impl Exit<'_> {
    /// Whether it is a tail call: another function continues, and returns in its place.
    pub(crate) fn is_tail(&self) -> bool {
        match self {
            Self::Padded(_) | Self::Fall(_) => false,
            Self::Room(_) | Self::Turn(_) => true,
            Self::Pun(pun) => !pun.moved.last().is_some_and(Line::is_return),
        }
    }

    pub(crate) fn reservation(&self) -> Reservation {
        match self {
            Self::Padded(at) => Reservation::Padded(*at),
            Self::Room(room) => Reservation::Room(room.at, room.len),
            Self::Pun(pun) => pun.reservation(),
            Self::Turn(turn) => Reservation::Turn(turn.at),
            Self::Fall(at) => Reservation::Fall(*at),
        }
    }
}

/// The site of a point.
#[derive(Clone, Debug)]
pub(crate) enum Spot<'b> {
    /// Any instruction.
    Pun(Pun<'b>),
    /// A jump or a call behind the point.
    Turn(Turn),
    /// A `ret` behind it, with room.
    Padded(CodeAddr),
}

impl Spot<'_> {
    pub(crate) fn reservation(&self) -> Reservation {
        match self {
            Self::Pun(pun) => pun.reservation(),
            Self::Turn(turn) => Reservation::Turn(turn.at),
            Self::Padded(at) => Reservation::Padded(*at),
        }
    }

    /// What is done elsewhere.
    pub(crate) fn moved(&self) -> &[Moved<'_>] {
        match self {
            Self::Pun(pun) => &pun.moved,
            Self::Turn(_) | Self::Padded(_) => &[],
        }
    }
}

/// The sites of a function.
#[derive(Debug)]
pub(crate) struct Choice<'b> {
    pub(crate) entry: Entry<'b>,
    /// All of its exits, or, if it is only counted, none.
    pub(crate) exits: Vec<Exit<'b>>,
    pub(crate) untimed: Option<Untimed>,
}

impl Choice<'_> {
    /// The bytes that it reserves.
    pub(crate) fn reservations(&self) -> impl Iterator<Item = Reservation> {
        let exits = self.exits.iter().map(Exit::reservation);
        std::iter::once(self.entry.way.reservation()).chain(exits)
    }
}
