//! What can go wrong, with the place where it did.

use crate::Destination;
use crate::x86::{ConditionalJump, Form, Role};
use std::ops::Range;
use wordpatch::os::OsError;
use wordpatch::{BarrierError, CodeAddr, PatchError, Refusal, Word};

/// Why a site cannot be adopted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdoptError {
    /// The bytes cannot be had.
    #[error(transparent)]
    Ground(#[from] wordpatch::AdoptError),
    /// It is not a known transfer of control.
    #[error(
        "at {address} there is no call or jump that is known, but {found}: give the address where one begins"
    )]
    NoTransfer {
        /// Where.
        address: CodeAddr,
        /// What is there.
        found: Word,
    },
    /// It is a conditional jump, which no single byte switches: it stays, and its hook has to
    /// return at once.
    #[error("the conditional jump at {} to {} cannot be switched: let its hook return at once", .0.address, .0.target)]
    Conditional(ConditionalJump),
    /// A site of this form cannot have this role.
    #[error(
        "the instruction at {address} is a {form:?} and cannot be a {role:?}: give the role that it has"
    )]
    Role {
        /// Where.
        address: CodeAddr,
        /// What it is.
        form: Form,
        /// What it was said to be.
        role: Role,
    },
    /// It leads elsewhere.
    #[error(
        "the {form:?} at {address} leads to {destination}, which is no hook: it is the program's own"
    )]
    Elsewhere {
        /// Where.
        address: CodeAddr,
        /// What it is.
        form: Form,
        /// Where it leads.
        destination: Destination,
    },
    /// A site that was said to be off is not.
    #[error(
        "at {address} the byte of a site that is off should be {expected:02x} and is {found:02x}: give the form that it has"
    )]
    NotOff {
        /// The byte.
        address: CodeAddr,
        /// What it should be.
        expected: u8,
        /// What it is.
        found: u8,
    },
    /// Room is made a site in place, by several stores that must not fail between.
    #[error(
        "the room at {address} is made a site in place: choose the access `rwx` (WORDPATCH_ACCESS)"
    )]
    NotInPlace {
        /// Where.
        address: CodeAddr,
    },
    /// What is stored at once does not lie in one granule.
    #[error(
        "a boundary of the granule cuts the {len} bytes at {address}, which are to be replaced by one store: take another instruction"
    )]
    Cut {
        /// Where they begin.
        address: CodeAddr,
        /// How many.
        len: usize,
    },
    /// The literature's strategy knows calls of five bytes only, which are written in larger pieces
    /// than bytes.
    #[error(
        "the site at {address} is no call of five bytes, or is written byte by byte: use the default strategy for it"
    )]
    NotForPaper {
        /// Where.
        address: CodeAddr,
    },
    /// The literature's strategy needs a `ret` that the site's displacement reaches.
    #[error(
        "no `ret` is near the call at {address}: give the strategy one from islands of the same module"
    )]
    ReturnOutOfReach {
        /// Where.
        address: CodeAddr,
    },
}

/// Why a site was not switched. It is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetError {
    /// Other code has written there: a debugger, for instance, whose breakpoint is a byte `cc`.
    #[error(
        "the site at {address} holds {found}, not {off} or {on}: remove the breakpoint, or whatever wrote there, and try again"
    )]
    Foreign {
        /// The site.
        address: CodeAddr,
        /// What should be there when it is off.
        off: Word,
        /// What should be there when it is on.
        on: Word,
        /// What is there.
        found: Word,
    },
    /// A retarget was broken off, so that half of a displacement may be there: it can only stay
    /// off.
    #[error(
        "the site at {address} has no whole target, since a retarget was broken off: retarget it again"
    )]
    Unsettled {
        /// The site.
        address: CodeAddr,
    },
    /// The byte cannot be written any more.
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
    /// The new target is further than a displacement reaches. Nothing was changed.
    #[error("{target} is too far from the site at {address}: lead it to an island of its module")]
    OutOfReach {
        /// The site.
        address: CodeAddr,
        /// Where it should lead.
        target: CodeAddr,
    },
    /// One site is in the batch twice. Nothing was changed.
    #[error("the site at {address} is in the batch twice: give each site one target")]
    Twice {
        /// The site.
        address: CodeAddr,
    },
    /// The site is a pun: its displacement is code of the program's. Nothing was changed.
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
    /// The barrier before the first change failed. The sites are what they were.
    #[error("{0}; the sites were left as they were")]
    Barrier(BarrierError),
    /// Something failed when displacements had been written: all sites of the batch are off and
    /// stay so until they are retargeted.
    #[error(
        "the site at {address} and all of its batch stay off until they are retargeted again: {why}"
    )]
    BrokenOff {
        /// The first site of the batch.
        address: CodeAddr,
        /// What failed.
        why: Broken,
    },
}

/// What broke a retarget off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Broken {
    /// Bytes could not be written.
    #[error("{0}")]
    Refused(Refusal),
    /// A displacement that is read while the site is off could not be replaced.
    #[error(transparent)]
    Word(#[from] PatchError),
    /// The same, before it was tried.
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
    /// Nothing is free within reach.
    #[error(
        "module {:#x}-{:#x}: no {len} bytes are free between {} and {}, so that none of its sites can be led anywhere new; \
         reserve less address space around it",
        module.start.get(), module.end.get(), reach.start, reach.end
    )]
    Crowded {
        /// The module.
        module: Range<CodeAddr>,
        /// What its calls reach.
        reach: Range<CodeAddr>,
        /// How much was wanted.
        len: usize,
    },
    /// The module is too large for anything to be near all of it.
    #[error("module {:#x}-{:#x} is larger than a displacement reaches: give the part that holds its sites", .0.start.get(), .0.end.get())]
    TooLarge(Range<CodeAddr>),
    /// A stub is longer than an island.
    #[error("a stub of {len} bytes does not fit into an island of {room}")]
    StubTooLong {
        /// The stub.
        len: usize,
        /// An island.
        room: usize,
    },
    /// The kernel refused code memory.
    #[error("module {:#x}-{:#x}: {error}", module.start.get(), module.end.get())]
    Os {
        /// The module.
        module: Range<CodeAddr>,
        /// What it said.
        error: OsError,
    },
    /// Stubs cannot be used again because the barrier before that failed.
    #[error("{0}")]
    Barrier(#[from] BarrierError),
}
