//! Instructions that are executed at another address: the code at a pun's target executes the
//! instruction that the pun displaces.

use super::{Form, displacement};
use wordpatch::CodeAddr;

/// An instruction that can be moved, by the change that it needs. Calls cannot be moved: they would
/// push a return address that unwinders do not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Movable<'b> {
    /// Its bytes.
    Anywhere(&'b [u8]),
    /// An instruction with a four-byte displacement to data, at offset `at`, relative to the
    /// instruction's end.
    Relative {
        /// The instruction.
        bytes: &'b [u8],
        /// The offset of the displacement.
        at: usize,
    },
    /// A jump to `to`.
    Jump {
        /// Its target.
        to: CodeAddr,
    },
    /// A conditional jump to `to`.
    Branch {
        /// The lowest four bits of its opcode.
        condition: u8,
        /// Its target.
        to: CodeAddr,
    },
}

impl Movable<'_> {
    /// Its length after the move.
    #[allow(clippy::len_without_is_empty, reason = "an instruction is never empty")]
    pub const fn len(&self) -> usize {
        match self {
            Self::Anywhere(bytes) | Self::Relative { bytes, .. } => bytes.len(),
            Self::Jump { .. } => Form::Jump.len(),
            Self::Branch { .. } => 6,
        }
    }

    /// Appends the instruction of `from`, to be executed at `to`. Returns whether its target is
    /// within reach there.
    #[must_use]
    pub fn write(&self, from: CodeAddr, to: CodeAddr, code: &mut Vec<u8>) -> bool {
        let end = to.offset(self.len() as isize);
        let start = code.len();
        let (at, target) = match *self {
            Self::Anywhere(bytes) => {
                code.extend_from_slice(bytes);
                return true;
            }
            Self::Relative { bytes, at } => {
                let Some(field) = bytes.get(at..).and_then(<[u8]>::first_chunk) else {
                    return false;
                };
                code.extend_from_slice(bytes);
                let old = i32::from_le_bytes(*field);
                (at, from.offset(bytes.len() as isize).offset(old as isize))
            }
            Self::Jump { to } => {
                code.extend_from_slice(&Form::Jump.bytes(0));
                (Form::Jump.displacement_at(), to)
            }
            Self::Branch { condition, to } => {
                code.extend_from_slice(&[0x0f, 0x80 | (condition & 0xf), 0, 0, 0, 0]);
                (2, to)
            }
        };
        let Some(new) = displacement(end, target) else { return false };
        code[start + at..start + at + 4].copy_from_slice(&new.to_le_bytes());
        true
    }
}
