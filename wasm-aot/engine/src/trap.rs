//! The reasons of traps, with the numbers that machine code's tables and the runtime use.

use cranelift_codegen::ir::TrapCode;
use std::fmt;

macro_rules! traps {
    ($( $name:ident = $code:expr, $doc:literal; )*) => {
        /// Why a program was stopped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Trap { $( #[doc = $doc] $name ),* }

        impl Trap {
            /// Its code in machine code's tables.
            pub(crate) const fn code(self) -> TrapCode {
                match self { $( Self::$name => $code ),* }
            }

            /// Its number, in the order in which they are listed.
            pub fn number(self) -> u32 {
                self as u32
            }

            /// The trap with that number in machine code's tables.
            pub fn from_raw(raw: u8) -> Option<Self> {
                $( if raw == $code.as_raw().get() { return Some(Self::$name); } )*
                Access::from_raw(raw).map(|_| Self::MemoryOutOfBounds)
            }
        }

        impl fmt::Display for Trap {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $( Self::$name => $doc ),* })
            }
        }
    };
}

traps! {
    StackOverflow = TrapCode::STACK_OVERFLOW, "call stack exhausted";
    MemoryOutOfBounds = TrapCode::HEAP_OUT_OF_BOUNDS, "out of bounds memory access";
    UnalignedAtomic = TrapCode::unwrap_user(1), "unaligned atomic";
    TableOutOfBounds = TrapCode::unwrap_user(2), "out of bounds table access";
    UndefinedElement = TrapCode::unwrap_user(3), "undefined element";
    UninitializedElement = TrapCode::unwrap_user(4), "uninitialized element";
    IndirectCallType = TrapCode::unwrap_user(5), "indirect call type mismatch";
    IntegerOverflow = TrapCode::INTEGER_OVERFLOW, "integer overflow";
    IntegerDivideByZero = TrapCode::INTEGER_DIVISION_BY_ZERO, "integer divide by zero";
    InvalidConversion = TrapCode::BAD_CONVERSION_TO_INTEGER, "invalid conversion to integer";
    Unreachable = TrapCode::unwrap_user(6), "unreachable";
    NullReference = TrapCode::unwrap_user(7), "null reference";
    NullFunctionReference = TrapCode::unwrap_user(8), "null function reference";
    NullExceptionReference = TrapCode::unwrap_user(9), "null exception reference";
    SharedMemoryExpected = TrapCode::unwrap_user(10), "expected shared memory";
    Interrupted = TrapCode::unwrap_user(11), "interrupted";
    OutOfMemory = TrapCode::unwrap_user(12), "the host is out of memory";
    Probe = TrapCode::unwrap_user(13), "a probe has ended the program";
    CastFailure = TrapCode::unwrap_user(14), "cast failure";
    Budget = TrapCode::unwrap_user(15), "the budget of instructions is used up";
}

impl std::error::Error for Trap {}

/// Identifies the memory access that traps, where that matters: a load may be made by the machine
/// instruction of another Wasm instruction, which uses its value. The number in the table of traps
/// encodes the access's place modulo `PLACES`, and whether it is a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access(u8);

impl Access {
    /// Places are distinguished up to this distance.
    const PLACES: u32 = 95;
    const FIRST: u8 = 60;

    /// The access at a place in the module. A load and a store never have equal numbers, so that
    /// the compiler does not combine the two.
    pub(crate) fn at(place: usize, stores: bool) -> Self {
        Self(2 * (place as u32 % Self::PLACES) as u8 + u8::from(stores))
    }

    pub(crate) fn code(self) -> TrapCode {
        TrapCode::unwrap_user(Self::FIRST + self.0)
    }

    pub(crate) fn from_raw(raw: u8) -> Option<Self> {
        let access = raw.checked_sub(Self::FIRST)?;
        (u32::from(access) < 2 * Self::PLACES).then_some(Self(access))
    }

    /// Whether it may be the access at a place.
    pub(crate) fn may_be_at(self, place: u32) -> bool {
        place % Self::PLACES == u32::from(self.0 / 2)
    }
}
