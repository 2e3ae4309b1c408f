//! Data structures that machine code and the runtime share, and their layouts.
//!
//! Every function's first argument is the address of its instance's *vmctx*, a block of memory that
//! begins with a fixed head, followed by what the module's declarations require:
//!
//! ```text
//!   0  magic      8  store cell     16  built-in functions     24  the runtime's instance
//!  32  where values are while a thread goes from one variant of a function into another     40  the entries of loops
//!  48  imported functions   16 bytes each: code, vmctx
//!      imported tables       8 bytes each: address of a [`Table`]
//!      memories              8 bytes each: address of a [`Memory`]       (imported or shared)
//!      imported globals      8 bytes each: address of the value
//!      tags                  8 bytes each: address of a [`Tag`]
//!      type numbers          4 bytes each
//!      defined tables       16 bytes each: a [`Table`]
//!      defined memories     16 bytes each: a [`Memory`]                  (not shared)
//!      defined globals      16 bytes each
//!      references           24 bytes each: a [`FuncRef`]
//! ```

mod builtin;
mod cell;
pub mod context;
mod layout;
mod reservation;

pub use builtin::Builtin;
pub(crate) use builtin::{Bulk, GROWTH_INTERRUPTED};
pub use cell::Cell;
pub(crate) use layout::{Layout, MemoryAt};
pub(crate) use reservation::{RESERVATION, reservations_are_possible};

use std::sync::atomic::{AtomicI64, AtomicUsize};

/// The first word of every vmctx of an instance.
pub(crate) const INSTANCE_MAGIC: u64 = u64::from_le_bytes(*b"instance");
/// The first word of the vmctx of a host function.
pub(crate) const HOST_MAGIC: u64 = u64::from_le_bytes(*b"hostfunc");

/// A function that can be called from anywhere.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct FuncRef {
    /// Its code, with the calling convention of Wasm code.
    pub(crate) code: *const u8,
    /// Its first argument.
    pub(crate) vmctx: *mut u8,
    /// The number of its type.
    pub(crate) ty: u32,
}

/// A function as an instance imports it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct FuncImport {
    /// Its code.
    pub(crate) code: *const u8,
    /// Its first argument.
    pub(crate) vmctx: *mut u8,
}

/// A table: addresses of functions, exceptions or host values; null is 0.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Table {
    /// The address of its first element.
    pub(crate) base: *mut usize,
    /// How many elements it has.
    pub(crate) len: usize,
}

/// A linear memory.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Memory {
    /// The address of its first byte.
    pub(crate) base: *mut u8,
    /// How many bytes it has. Grows only; shared memories grow while other threads read this.
    pub(crate) len: AtomicUsize,
}

/// A tag: its address is its identity.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Tag {
    /// The number of its type.
    pub(crate) ty: u32,
}

/// An exception that was thrown.
#[derive(Debug)]
#[repr(C, align(16))]
pub(crate) struct Exception {
    /// Its tag.
    pub(crate) tag: *const Tag,
    /// How many values follow, 16 bytes each.
    pub(crate) values: u32,
    /// For the collector of exceptions that are no longer referenced.
    pub(crate) marked: u32,
}

/// The data that a store and the machine code that runs in it exchange, in both directions.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct StoreCell {
    /// The lowest address that frames may use.
    pub(crate) stack_limit: AtomicUsize,
    /// The frame that called the host last; the other field is where in its code.
    pub(crate) exit_frame: AtomicUsize,
    /// See [`exit_frame`](Self::exit_frame).
    pub(crate) exit_pc: AtomicUsize,
    /// How many more instructions may be executed: negative if code has stopped because it could
    /// not pay.
    pub(crate) budget: AtomicI64,
    /// The hook whose code is executed, if it can trap and others of its event come after it; and
    /// where their values are.
    pub(crate) pending_hook: AtomicUsize,
    /// See [`pending_hook`](Self::pending_hook).
    pub(crate) pending_values: AtomicUsize,
}

impl StoreCell {
    /// The cell of a store whose code is not limited.
    pub(crate) fn unlimited() -> Self {
        Self { budget: AtomicI64::new(i64::MAX), ..Self::default() }
    }
}

/// Offsets of fields, for machine code.
pub(crate) mod at {
    use super::{Exception, FuncRef, Memory, StoreCell, Table};
    use std::mem::offset_of;

    pub(crate) const STORE: i32 = 8;
    pub(crate) const BUILTINS: i32 = 16;
    pub(crate) const INSTANCE: usize = 24;
    pub(crate) const BUFFER: i32 = 32;
    pub(crate) const ENTRIES: i32 = 40;
    pub(crate) const FUNC_CODE: i32 = offset_of!(FuncRef, code) as i32;
    pub(crate) const FUNC_VMCTX: i32 = offset_of!(FuncRef, vmctx) as i32;
    pub(crate) const FUNC_TYPE: i32 = offset_of!(FuncRef, ty) as i32;
    pub(crate) const TABLE_BASE: i32 = offset_of!(Table, base) as i32;
    pub(crate) const TABLE_LEN: i32 = offset_of!(Table, len) as i32;
    pub(crate) const MEMORY_BASE: i32 = offset_of!(Memory, base) as i32;
    pub(crate) const MEMORY_LEN: i32 = offset_of!(Memory, len) as i32;
    pub(crate) const STACK_LIMIT: i32 = offset_of!(StoreCell, stack_limit) as i32;
    pub(crate) const EXIT_FRAME: i32 = offset_of!(StoreCell, exit_frame) as i32;
    pub(crate) const EXIT_PC: i32 = offset_of!(StoreCell, exit_pc) as i32;
    pub(crate) const BUDGET: i32 = offset_of!(StoreCell, budget) as i32;
    pub(crate) const PENDING_HOOK: i32 = offset_of!(StoreCell, pending_hook) as i32;
    pub(crate) const PENDING_VALUES: i32 = offset_of!(StoreCell, pending_values) as i32;
    pub(crate) const EXCEPTION_TAG: i32 = offset_of!(Exception, tag) as i32;
    pub(crate) const EXCEPTION_VALUES: i32 = size_of::<Exception>() as i32;
    /// In the vmctx of a host function: the function to call.
    pub(crate) const HOST_CALL: i32 = 16;
    /// In the vmctx of a host function: the code that raises a failure.
    pub(crate) const HOST_RAISE: i32 = 24;
}
