//! Events between a program and its host.
//!
//! A run is a sequence of events. Four of them transfer control, and nest as calls do:
//!
//! ```text
//!     Enter ─────────────────────────────────────────▶ Leave      the host calls the program
//!            Call ─────────────────────▶ Return                   the program calls the host
//!                  Enter ────▶ Leave                              … which calls the program
//! ```
//!
//! Between them are the host's changes: [`Event::Host`] where the host has made the change,
//! [`Event::Found`] where the program has first seen it. The program's own actions are determined
//! by these events and are not in a trace.

use crate::value::{Signature, Value};

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The host calls a function of the program.
    Enter {
        /// Which one, in the module's index space.
        function: u32,
        /// How the host has obtained it.
        door: Door,
        /// Its arguments.
        args: Vec<Value>,
    },
    /// That call ends.
    Leave(End),
    /// The program calls a function of the host: one that it imports, or has a reference to.
    Call {
        /// Which one, in the module's index space.
        function: u32,
        /// Its arguments.
        args: Vec<Value>,
    },
    /// That call ends.
    Return(End),
    /// The host has a function of its own to which the program gets a reference. It gets the next
    /// index; the first one follows the module's functions.
    Function(Signature),
    /// The host changes something at this point.
    Host(Change),
    /// The program finds a change that the host has made since the last transfer of control.
    Found(Change),
    /// In a raw recording: the program reads this.
    Seen(Change),
    /// In a raw recording: the program changes this.
    Own(Change),
    /// In a raw recording: a function of the program begins.
    Begin {
        /// Which one.
        function: u32,
    },
    /// In a raw recording: the innermost function that has not ended returns.
    Done,
}

/// How the host has obtained a function that it calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Door {
    /// It is exported under this name.
    Export(String),
    /// It is the module's start function, which instantiation calls.
    Start,
    /// It was obtained by reference: from a table, a global, an argument or a result.
    Reference,
}

/// How a call ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// With results.
    Values(Vec<Value>),
    /// By the program's exit, which unwinds all calls.
    Exit {
        /// The exit code.
        code: i32,
        /// For a call to the host: the calls between the exit and the host that the exit unwinds;
        /// otherwise empty.
        frames: Vec<Frame>,
    },
    /// By a trap, of the program or of the host.
    Trap(String),
    /// By an exception with one of the module's tags.
    Exception {
        /// The tag, in the module's index space.
        tag: u32,
        /// The values of the exception.
        values: Vec<Value>,
    },
}

/// A pending call: a call instruction of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// The function that the instruction is in.
    pub function: u32,
    /// The offset of the instruction from the module's beginning, in bytes.
    pub offset: u32,
}

/// A change by the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It writes to a memory.
    Write {
        /// Which memory.
        memory: u32,
        /// The first address.
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
    /// It sets a global.
    Global {
        /// Which global.
        global: u32,
        /// The value.
        value: Value,
    },
    /// It sets an element of a table.
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
        /// The value of the new elements.
        value: Value,
    },
}

impl Event {
    /// Whether it transfers control to the program: the program may then read the host's changes.
    pub fn enters_program(&self) -> bool {
        matches!(self, Self::Enter { .. } | Self::Return(_))
    }

    /// Whether it is determined by the program, and only in raw recordings.
    pub fn is_raw(&self) -> bool {
        matches!(self, Self::Seen(_) | Self::Own(_) | Self::Begin { .. } | Self::Done)
    }

    /// The name of its kind, in the spelling of the text form.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Enter { .. } => "enter",
            Self::Leave(_) => "leave",
            Self::Call { .. } => "call",
            Self::Return(_) => "return",
            Self::Function(_) => "function",
            Self::Host(change) | Self::Found(change) => change.kind(),
            Self::Seen(_) => "seen",
            Self::Own(_) => "own",
            Self::Begin { .. } => "begin",
            Self::Done => "done",
        }
    }
}

impl Change {
    /// The name of its kind, in the spelling of the text form.
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
