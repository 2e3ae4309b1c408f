//! Which bytes of a module are reserved: those that sites switch or change, and those that they
//! read.
//!
//! A byte that is switched must not be read as another site's displacement.

use super::PUN;
use callpatch::x86::Form;
use std::collections::HashSet;
use wordpatch::CodeAddr;

/// The bytes of a module that are switched or written, and those that are read as displacements.
#[derive(Debug, Default)]
pub(crate) struct ByteReservations {
    changed: HashSet<usize>,
    fixed: HashSet<usize>,
}

impl ByteReservations {
    pub(super) fn allows(&self, reservation: Reservation) -> bool {
        !reservation
            .changes()
            .any(|byte| self.changed.contains(&byte) || self.fixed.contains(&byte))
            && !reservation.fixes().any(|byte| self.changed.contains(&byte))
    }

    /// A site is there from now on.
    pub(crate) fn reserve(&mut self, reservation: Reservation) {
        self.changed.extend(reservation.changes());
        self.fixed.extend(reservation.fixes());
    }

    /// Whether a byte may differ from the file's.
    pub(crate) fn is_changed(&self, at: usize) -> bool {
        self.changed.contains(&at)
    }
}

/// The bytes of one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reservation {
    /// So many are switched, the four after them are read.
    Pun(CodeAddr, usize),
    /// Five are switched.
    Whole(CodeAddr),
    /// One is switched, four are written.
    Padded(CodeAddr),
    /// A compiler left them for that: all were written when the module was opened.
    Room(CodeAddr, usize),
    /// A jump: its last byte is switched, of the others four are read.
    Turn(CodeAddr),
    /// The compiler's call of its profiler: one byte is switched, its displacement is written.
    Call(CodeAddr, Form),
    /// A `ret` before another one: it is switched.
    Fall(CodeAddr),
}

impl Reservation {
    /// The byte that is switched.
    pub(crate) fn site(self) -> CodeAddr {
        CodeAddr::new(self.changes().start)
    }

    fn changes(self) -> std::ops::Range<usize> {
        match self {
            Self::Pun(at, changes) => at.get()..at.get() + changes,
            Self::Padded(at) | Self::Whole(at) => at.get()..at.get() + PUN,
            Self::Turn(at) => at.get() + PUN - 1..at.get() + PUN,
            Self::Room(at, len) => at.get()..at.get() + len,
            Self::Call(at, form) => at.get()..at.get() + form.len(),
            Self::Fall(at) => at.get()..at.get() + 1,
        }
    }

    fn fixes(self) -> std::ops::Range<usize> {
        match self {
            Self::Pun(at, changes) => at.get() + changes..at.get() + changes + PUN - 1,
            Self::Turn(at) => at.get()..at.get() + PUN - 1,
            Self::Padded(at)
            | Self::Whole(at)
            | Self::Room(at, _)
            | Self::Call(at, _)
            | Self::Fall(at) => at.get()..at.get(),
        }
    }

    pub(in crate::discovery::unmodified) fn agrees(self, other: Self) -> bool {
        let apart = |a: std::ops::Range<usize>, b: std::ops::Range<usize>| {
            a.end <= b.start || b.end <= a.start || a.is_empty() || b.is_empty()
        };
        apart(self.changes(), other.changes())
            && apart(self.changes(), other.fixes())
            && apart(self.fixes(), other.changes())
    }
}
