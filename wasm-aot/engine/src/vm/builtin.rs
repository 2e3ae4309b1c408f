//! The table of runtime functions that machine code calls, with their signatures.

use cranelift_codegen::ir::{Type, types};
use cranelift_codegen::isa::CallConv;

/// An address, or an index or a size that has been widened to 64 bits.
const W: Type = types::I64;
const I32: Type = types::I32;

/// How an operation on many bytes or elements has ended. It works in chunks, and checks between
/// them and at its end whether the program has to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Bulk {
    /// It is out of bounds, and has had no effect.
    Outside = 0,
    /// It is complete.
    Done = 1,
    /// The program has to stop.
    Interrupted = 2,
}

/// The result of growing, instead of a size, if the program has to stop.
pub(crate) const GROWTH_INTERRUPTED: i64 = -2;

macro_rules! builtins {
    ($( $(#[$doc:meta])* $name:ident ( $($param:ident),* ) $(-> $result:ident)? ; )*) => {
        /// A built-in function.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Builtin { $( $(#[$doc])* $name ),* }

        impl Builtin {
            /// All built-in functions, in the order of their numbers.
            pub(crate) const ALL: &[Self] = &[ $( Self::$name ),* ];

            /// The types of its parameters, after the vmctx if it takes one.
            pub(crate) fn params(self) -> &'static [Type] {
                match self { $( Self::$name => &[ $($param),* ] ),* }
            }

            /// The types of its results.
            pub(crate) fn results(self) -> &'static [Type] {
                match self { $( Self::$name => &[ $($result)? ] ),* }
            }
        }
    };
}

builtins! {
    /// Memory, pages: the size before, or -1, or `GROWTH_INTERRUPTED`.
    MemoryGrow(I32, W) -> W;
    /// Address, byte, count: fills bytes that were checked against the bounds.
    Fill(W, I32, W) -> I32;
    /// Destination, source, count: copies bytes that were checked against the bounds.
    Copy(W, W, W) -> I32;
    /// Memory, segment, place, place in the segment, count: a `Bulk`.
    MemoryInit(I32, I32, W, W, W) -> I32;
    /// Segment.
    DataDrop(I32);
    /// Table, count, element: the size before, or -1, or `GROWTH_INTERRUPTED`.
    TableGrow(I32, W, W) -> W;
    /// Table, place, element, count: a `Bulk`.
    TableFill(I32, W, W, W) -> I32;
    /// Destination, its place, source, its place, count: a `Bulk`.
    TableCopy(I32, W, I32, W, W) -> I32;
    /// Table, segment, place, place in the segment, count: a `Bulk`.
    TableInit(I32, I32, W, W, W) -> I32;
    /// Segment.
    ElementDrop(I32);
    /// Memory, address, expected, nanoseconds: 0 to 2, or a negative trap code.
    Wait32(I32, W, I32, W) -> I32;
    /// Memory, address, expected, nanoseconds: 0 to 2, or a negative trap code.
    Wait64(I32, W, W, W) -> I32;
    /// Memory, address, count: how many were woken, or a negative trap code.
    Notify(I32, W, I32) -> I32;
    /// Address of the tag, number of values: a new exception.
    ExceptionNew(W, I32) -> W;
    /// The place of a call, a reference to its present callee, which differs from the last one.
    CallTarget(I32, W);
    /// Table, place in it; or no table, and a reference to a function: the function's index, or -1.
    Resolve(I32, W) -> I32;
    /// Call, frame, captured values: a hook has fired. Nonzero if the program has to stop.
    Hook(W, W, W) -> I32;
    /// A clock, another account: adds the time since the clock was read to the one that is charged,
    /// and charges the other from then on. Changes no register.
    Charge(W, W);
    /// A clock, a function's number (the lowest bit is set if it is only counted, and not entered),
    /// a call, the instance: enters the function's context among the callees of the present one. If
    /// that context does not exist yet, the call's receiver is called to create it. Changes no
    /// register, and nothing else if none is created.
    EnterContext(W, W, W, W);
    /// A clock, the context that the present one was entered from, or 0 if none was entered:
    /// returns to that context. Changes no register.
    LeaveContext(W, W);
    /// Exception, frame, return address of that frame's call: jumps to the handler that catches it.
    Throw(W, W, W);
}

impl Builtin {
    /// Whether it takes the instance.
    pub(crate) fn takes_vmctx(self) -> bool {
        self.convention() != CallConv::PreserveAll
    }

    /// Its calling convention.
    pub(crate) fn convention(self) -> CallConv {
        match self {
            Self::Charge | Self::EnterContext | Self::LeaveContext => CallConv::PreserveAll,
            _ => CallConv::SystemV,
        }
    }

    /// The offset of its address in the table.
    pub(crate) fn offset(self) -> i32 {
        self as i32 * 8
    }
}
