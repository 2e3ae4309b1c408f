//! What happens between a program and its host.
//!
//! A run is a row of events. Control goes to and fro by four of them, which nest as calls do:
//!
//! ```text
//!     Enter ─────────────────────────────────────────▶ Leave      the host calls the program
//!            Call ─────────────────────▶ Return                   the program calls the host
//!                  Enter ────▶ Leave                              … which calls the program
//! ```
//!
//! Between them stands what the host changes: [`Event::Host`] where the host has made the change,
//! [`Event::Found`] where the program has first seen it. What the program does by itself follows
//! from the rest and is in no trace.

use crate::value::Value;

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The host calls a function of the program.
    Enter {
        /// Which one, in the module's index space.
        function: u32,
        /// How the host has come by it.
        door: Door,
        /// What it is given.
        args: Vec<Value>,
    },
    /// That call ends.
    Leave(End),
    /// The program calls a function that it imports.
    Call {
        /// Which one, in the module's index space.
        function: u32,
        /// What it is given.
        args: Vec<Value>,
    },
    /// That call ends.
    Return(End),
    /// The host changes something here.
    Host(Change),
    /// The program finds what the host has changed since control went back and forth last.
    Found(Change),
    /// Of a raw recording: the program reads this.
    Seen(Change),
    /// Of a raw recording: the program changes this.
    Own(Change),
    /// Of a raw recording: a function of the program's begins.
    Begin {
        /// Which one.
        function: u32,
    },
    /// Of a raw recording: the function that has begun last and not ended returns.
    Done,
}

/// How the host has come by a function that it calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Door {
    /// It is exported under this name.
    Export(String),
    /// It is the module's start function, which instantiation calls.
    Start,
    /// By a reference: from a table, a global, an argument or a result.
    Reference,
}

/// How a call ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// With results.
    Values(Vec<Value>),
    /// By the program's exit, which takes all calls away.
    Exit {
        /// The code that the program gave.
        code: i32,
        /// The calls that the exit takes away up to the host, of a call of the host's; otherwise
        /// none.
        frames: Vec<Frame>,
    },
    /// By a trap, of the program's or of the host's.
    Trap(String),
    /// By an exception with one of the module's tags.
    Exception {
        /// The tag, in the module's index space.
        tag: u32,
        /// What the exception carries.
        values: Vec<Value>,
    },
}

/// A call that waits: a call instruction of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// The function that the instruction is in.
    pub function: u32,
    /// Where the instruction begins: how many bytes from the module's beginning.
    pub offset: u32,
}

/// What the host changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It writes to a memory.
    Write {
        /// Which memory.
        memory: u32,
        /// From which address on.
        address: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// It grows a memory.
    Grow {
        /// Which memory.
        memory: u32,
        /// By how many pages.
        pages: u64,
    },
    /// It gives a global a value.
    Global {
        /// Which global.
        global: u32,
        /// The value.
        value: Value,
    },
    /// It gives an element of a table a value.
    Element {
        /// Which table.
        table: u32,
        /// Which element.
        index: u64,
        /// The value.
        value: Value,
    },
    /// It grows a table.
    GrowTable {
        /// Which table.
        table: u32,
        /// By how many elements.
        count: u64,
        /// What the new elements are.
        value: Value,
    },
}

impl Event {
    /// Whether control goes to the program with it: it may look at what the host has done.
    pub fn enters_program(&self) -> bool {
        matches!(self, Self::Enter { .. } | Self::Return(_))
    }

    /// Whether it follows from the program, and only a raw recording has it.
    pub fn is_raw(&self) -> bool {
        matches!(self, Self::Seen(_) | Self::Own(_) | Self::Begin { .. } | Self::Done)
    }

    /// The name of its kind, as the text form spells it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Enter { .. } => "enter",
            Self::Leave(_) => "leave",
            Self::Call { .. } => "call",
            Self::Return(_) => "return",
            Self::Host(change) | Self::Found(change) => change.kind(),
            Self::Seen(_) => "seen",
            Self::Own(_) => "own",
            Self::Begin { .. } => "begin",
            Self::Done => "done",
        }
    }
}

impl Change {
    /// The name of its kind, as the text form spells it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Write { .. } => "write",
            Self::Grow { .. } => "grow",
            Self::Global { .. } => "global",
            Self::Element { .. } => "element",
            Self::GrowTable { .. } => "grow-table",
        }
    }
}
