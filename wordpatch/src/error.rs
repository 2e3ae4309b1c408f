//! Errors, each with its address.

use crate::access::Refusal;
use crate::addr::CodeAddr;
use crate::barrier::BarrierError;
use crate::os::{OsError, signals, threads::Tid};
use crate::word::Word;

/// Why a site cannot be adopted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdoptError {
    /// The pointer is null.
    #[error("address 0 is the null pointer: give the address of an instruction")]
    Null,
    /// A word has one to eight bytes.
    #[error("a word at {address} of {len} bytes: words have one to eight")]
    Length {
        /// The address.
        address: CodeAddr,
        /// The length.
        len: usize,
    },
    /// No memory is mapped there.
    #[error("address {address} is not mapped: give the address of code that is loaded")]
    Unmapped {
        /// The first byte of the word that is not mapped.
        address: CodeAddr,
    },
    /// The memory there is not code.
    #[error(
        "address {address} is mapped {permissions} from {path:?}, not as code that can be read and executed"
    )]
    NotCode {
        /// The address.
        address: CodeAddr,
        /// The permissions there, in the kernel's notation.
        permissions: String,
        /// The file that is mapped.
        path: String,
    },
    /// Byte-wise access cannot replace several instructions.
    #[error(
        "the word at {address} may hold several instructions, which access procmem cannot replace: promise Layout::One or choose another access"
    )]
    SeveralInstructions {
        /// The address.
        address: CodeAddr,
    },
    /// A page cannot be made writable.
    #[error("{0}")]
    Refused(Refusal),
    /// The word needs traps, and they are not available.
    #[error("the word at {address} crosses a granule and needs a trap: {why}")]
    Trap {
        /// The address.
        address: CodeAddr,
        /// The reason.
        why: TrapError,
    },
    /// The barrier does not work here.
    #[error("{0}")]
    Barrier(#[from] BarrierError),
    /// The kernel's table of mappings could not be read.
    #[error("the mappings of this process cannot be read ({0}): mount /proc")]
    Maps(OsError),
}

/// Why traps cannot be used in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrapError {
    /// A debugger would receive them.
    #[error(
        "process {tracer} traces this one and would get the trap: detach it (TracerPid in /proc/self/status)"
    )]
    Traced {
        /// The debugger's process.
        tracer: i32,
    },
    /// A trap kills a thread that blocks its signal.
    #[error(
        "thread {thread} blocks SIGTRAP and would be killed by the trap: unblock the signal there"
    )]
    Blocked {
        /// The first such thread.
        thread: Tid,
    },
    /// A trap kills a thread that is in a handler which blocks its signal.
    #[error(
        "the handler of {} blocks SIGTRAP (sa_mask) and would be killed by the trap: take SIGTRAP out of the mask",
        signals::name(*signal)
    )]
    BlockedInHandler {
        /// The signal of that handler.
        signal: i32,
    },
    /// Other code replaced the crate's handler.
    #[error(
        "the program replaced the SIGTRAP handler: call wordpatch::install_trap_handler() again"
    )]
    HandlerReplaced,
    /// The handler could not be installed, or the process could not be inspected.
    #[error("{0}")]
    Os(#[from] OsError),
}

/// Why a word was not replaced. Unless stated otherwise, the old word is in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// Another patch of this site is in progress.
    #[error("site {address} is being patched already: finish that patch first")]
    Contended {
        /// The site.
        address: CodeAddr,
    },
    /// A patch of other bytes that overlap these is in progress, or a batch with this site.
    #[error(
        "the {len} bytes at {address} overlap a site that is being patched: sites must be disjoint"
    )]
    Overlap {
        /// The site.
        address: CodeAddr,
        /// Its length.
        len: usize,
    },
    /// The word is not as long as the site.
    #[error("a word of {found} bytes for site {address} of {expected}")]
    Length {
        /// The site.
        address: CodeAddr,
        /// Its length.
        expected: usize,
        /// The length of the word.
        found: usize,
    },
    /// The bytes cannot be written with the site's access.
    #[error("{0}")]
    Refused(Refusal),
    /// Traps can no longer be planted.
    #[error("site {address} crosses a granule and needs a trap: {why}")]
    Trap {
        /// The site.
        address: CodeAddr,
        /// The reason.
        why: TrapError,
    },
    /// The barrier failed. The patch was rolled back, unless its back was already written. Then it
    /// stays pending: the trap handler emulates the old instruction for executing threads, and the
    /// completion thread tries again.
    #[error("{0}")]
    Barrier(#[from] BarrierError),
    /// Other code wrote into the site while it was being patched; those bytes were left as they
    /// are.
    #[error(
        "another writer changed site {address} while it was patched: expected {expected}, \
         found {found}"
    )]
    Foreign {
        /// The site.
        address: CodeAddr,
        /// The expected bytes.
        expected: Word,
        /// The bytes found.
        found: Word,
    },
    /// The patch was rolled back in the background.
    #[error("the patch of site {address} was taken back in the background: its barrier failed")]
    TakenBack {
        /// The site.
        address: CodeAddr,
    },
    /// No patch of this site is pending.
    #[error("no patch of site {address} is pending")]
    NotPending {
        /// The site.
        address: CodeAddr,
    },
}
