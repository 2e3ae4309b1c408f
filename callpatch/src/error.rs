//! Errors, each with its address.

use crate::Destination;
use crate::x86::{ConditionalJump, Form, Role};
use std::ops::Range;
use wordpatch::os::OsError;
use wordpatch::{BarrierError, CodeAddr, PatchError, Refusal, Word};

/// Why a site cannot be adopted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdoptError {
    /// The bytes cannot be read or written.
    #[error(transparent)]
    PatchRegion(#[from] wordpatch::AdoptError),
    /// The instruction is not a known transfer of control.
    #[error(
        "at {address} there is no call or jump that is known, but {found}: give the address where one begins"
    )]
    NoTransfer {
        /// The address.
        address: CodeAddr,
        /// The bytes found.
        found: Word,
    },
    /// It is a conditional jump, which no single byte switches. It stays as it is, and its hook has
    /// to return at once.
    #[error("the conditional jump at {} to {} cannot be switched: let its hook return at once", .0.address, .0.target)]
    Conditional(ConditionalJump),
    /// A site of this form cannot have this role.
    #[error(
        "the instruction at {address} is a {form:?} and cannot be a {role:?}: give the role that it has"
    )]
    Role {
        /// The address.
        address: CodeAddr,
        /// The form of the instruction.
        form: Form,
        /// The role that the caller gave.
        role: Role,
    },
    /// The site leads to another destination.
    #[error(
        "the {form:?} at {address} leads to {destination}, which is no hook: it is the program's own"
    )]
    Elsewhere {
        /// The address.
        address: CodeAddr,
        /// The form of the instruction.
        form: Form,
        /// Its destination.
        destination: Destination,
    },
    /// A site that the caller declared off is not off.
    #[error(
        "at {address} the byte of a site that is off should be {expected:02x} and is {found:02x}: give the form that it has"
    )]
    NotOff {
        /// The address of the byte.
        address: CodeAddr,
        /// The expected value.
        expected: u8,
        /// The value found.
        found: u8,
    },
    /// A site is made in reserved bytes in place, by several stores, none of which may fail after
    /// the first.
    #[error(
        "the room at {address} is made a site in place: choose the access `rwx` (WORDPATCH_ACCESS)"
    )]
    NotInPlace {
        /// The address.
        address: CodeAddr,
    },
    /// Bytes that one store must replace do not lie in one granule.
    #[error(
        "a boundary of the granule cuts the {len} bytes at {address}, which are to be replaced by one store: take another instruction"
    )]
    Cut {
        /// The address of the first.
        address: CodeAddr,
        /// Their number.
        len: usize,
    },
    /// The literature's strategy toggles calls of five bytes only, and needs stores wider than a
    /// byte.
    #[error(
        "the site at {address} is no call of five bytes, or is written byte by byte: use the default strategy for it"
    )]
    NotForPaper {
        /// The address.
        address: CodeAddr,
    },
    /// The literature's strategy needs a `ret` that the site's displacement reaches.
    #[error(
        "no `ret` is near the call at {address}: give the strategy one from islands of the same module"
    )]
    ReturnOutOfReach {
        /// The address.
        address: CodeAddr,
    },
}

/// Why a site was not switched. The site is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetError {
    /// Other code has written there: a debugger, for instance, sets a breakpoint with the byte
    /// `cc`.
    #[error(
        "the site at {address} holds {found}, not {off} or {on}: remove the breakpoint, or whatever wrote there, and try again"
    )]
    Foreign {
        /// The site.
        address: CodeAddr,
        /// The bytes of the site when it is off.
        off: Word,
        /// The bytes of the site when it is on.
        on: Word,
        /// The bytes found.
        found: Word,
    },
    /// A retarget failed part-way, so that the displacement may be half written: the site must stay
    /// off.
    #[error(
        "the site at {address} has no whole target, since a retarget was broken off: retarget it again"
    )]
    Unsettled {
        /// The site.
        address: CodeAddr,
    },
    /// The byte can no longer be written.
    #[error("{0}")]
    Refused(Refusal),
    /// A word of the literature's strategy could not be replaced.
    #[error(transparent)]
    Word(#[from] PatchError),
}

/// Why sites were not retargeted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RetargetError {
    /// The new target is out of a displacement's reach. Nothing was changed.
    #[error("{target} is too far from the site at {address}: lead it to an island of its module")]
    OutOfReach {
        /// The site.
        address: CodeAddr,
        /// The new target.
        target: CodeAddr,
    },
    /// A site is in the batch twice. Nothing was changed.
    #[error("the site at {address} is in the batch twice: give each site one target")]
    Twice {
        /// The site.
        address: CodeAddr,
    },
    /// The site is a pun: its displacement is the program's code. Nothing was changed.
    #[error(
        "the displacement of the pun at {address} is the program's own code: it leads where it leads"
    )]
    Pun {
        /// The site.
        address: CodeAddr,
    },
    /// The site is toggled by the literature's strategy, under which its target is fixed. Nothing
    /// was changed.
    #[error(
        "the site at {address} is toggled as in the literature, where its target is fixed: adopt it with the default strategy"
    )]
    Strategy {
        /// The site.
        address: CodeAddr,
    },
    /// A site could not be switched off. Those that were are on again.
    #[error(transparent)]
    Off(SetError),
    /// The barrier before the first change failed. The sites are unchanged.
    #[error("{0}; the sites were left as they were")]
    Barrier(BarrierError),
    /// A step failed after displacements had been written: all sites of the batch are off, and stay
    /// off until they are retargeted.
    #[error(
        "the site at {address} and all of its batch stay off until they are retargeted again: {why}"
    )]
    BrokenOff {
        /// The first site of the batch.
        address: CodeAddr,
        /// The error.
        why: Broken,
    },
}

/// The error that stopped a retarget.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Broken {
    /// Bytes could not be written.
    #[error("{0}")]
    Refused(Refusal),
    /// A displacement that the site's off state reads could not be replaced.
    #[error(transparent)]
    Word(#[from] PatchError),
    /// Such a displacement could not be adopted for replacement.
    #[error(transparent)]
    Adopt(#[from] wordpatch::AdoptError),
    /// The second barrier failed.
    #[error("{0}")]
    Barrier(#[from] BarrierError),
    /// A site could not be switched on again.
    #[error(transparent)]
    On(#[from] SetError),
}

/// Why a module has no islands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IslandError {
    /// No free memory is within reach.
    #[error(
        "module {:#x}-{:#x}: no {len} bytes are free between {} and {}, so that none of its sites can be led anywhere new; \
         reserve less address space around it",
        module.start.get(), module.end.get(), reach.start, reach.end
    )]
    Crowded {
        /// The module.
        module: Range<CodeAddr>,
        /// The addresses within reach of its calls.
        reach: Range<CodeAddr>,
        /// The size that was needed.
        len: usize,
    },
    /// The module is too large: no place is near all of it.
    #[error("module {:#x}-{:#x} is larger than a displacement reaches: give the part that holds its sites", .0.start.get(), .0.end.get())]
    TooLarge(Range<CodeAddr>),
    /// A stub is longer than an island.
    #[error("a stub of {len} bytes does not fit into an island of {room}")]
    StubTooLong {
        /// The size of the stub.
        len: usize,
        /// The size of an island.
        room: usize,
    },
    /// The kernel refused code memory.
    #[error("module {:#x}-{:#x}: {error}", module.start.get(), module.end.get())]
    Os {
        /// The module.
        module: Range<CodeAddr>,
        /// The kernel's error.
        error: OsError,
    },
    /// Released stubs cannot be reused because the barrier failed.
    #[error("{0}")]
    Barrier(#[from] BarrierError),
}
