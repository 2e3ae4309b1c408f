//! The types of the C interface, as `fastinst.h` has them.

use std::ffi::{c_char, c_int, c_void};

/// `fastinst_code_function`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// The size of this structure, which identifies its version.
    pub size: u32,
    /// Its name.
    pub name: *const c_char,
    /// Its source file, or null.
    pub file: *const c_char,
    /// Its line; 0 if it is not known.
    pub line: u32,
    /// Where its machine code begins.
    pub code: *const c_void,
    /// How many bytes it has.
    pub length: usize,
}

/// `fastinst_code`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// The size of this structure.
    pub size: u32,
    /// What the module is called.
    pub module: *const c_char,
    /// Its functions.
    pub functions: *const Function,
    /// How many there are.
    pub count: usize,
    /// Switches probes.
    pub set: Option<Set>,
    /// The first argument of `set` and `counts`.
    pub this: *mut c_void,
    /// Returns the runtime's own counts; null if it calls `fastinst_code_enter` instead.
    pub counts: Option<Counts>,
}

/// Switches the probes of the `count` functions `which` to a state: 0 off, 1 count, 2 time.
pub type Set =
    unsafe extern "C" fn(this: *mut c_void, which: *const u32, count: usize, state: c_int) -> bool;
/// Stores how often each of the `count` functions `which` was entered in state 1.
pub type Counts =
    unsafe extern "C" fn(this: *mut c_void, which: *const u32, count: usize, entries: *mut u64);
/// `fastinst_register_code`.
pub type Register = unsafe extern "C" fn(*const Code) -> u64;
/// `fastinst_unregister_code`.
pub type Unregister = unsafe extern "C" fn(u64) -> bool;
/// `fastinst_code_probe`.
pub type Probe = unsafe extern "C" fn(u64, u32) -> u32;
/// `fastinst_code_also`.
pub type Also = unsafe extern "C" fn(u64, u32, *const c_void, usize) -> bool;
/// `fastinst_code_enter` and `fastinst_code_leave`.
pub type Event = unsafe extern "C" fn(u32, *const c_void);
/// `fastinst_last_error`.
pub type LastError = unsafe extern "C" fn() -> *const c_char;
