//! The destination of a site.

use crate::x86::Form;
use std::fmt;
use wordpatch::CodeAddr;

/// The destination of a displacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Destination {
    /// Code.
    Code(CodeAddr),
    /// A slot that holds the address of code, as the linker's global offset table does.
    Slot(CodeAddr),
}

impl Destination {
    /// The destination of `displacement` in an instruction of this form.
    pub fn of(form: Form, at: CodeAddr, displacement: i32) -> Self {
        let to = form.destination(at, displacement);
        if form.is_through_memory() { Self::Slot(to) } else { Self::Code(to) }
    }

    /// The address of the code or the slot.
    pub fn address(self) -> CodeAddr {
        match self {
            Self::Code(address) | Self::Slot(address) => address,
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(address) => address.fmt(f),
            Self::Slot(address) => write!(f, "slot {address}"),
        }
    }
}
