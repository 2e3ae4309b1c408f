//! The C interface: `include/fastinst.h`, one to one.
//!
//! # Safety
//!
//! This module exists because C has no lifetimes. Every function is safe if its caller keeps what
//! the header requires.
#![allow(unsafe_code)]

use crate::api::{Batch, Callback, Error, Probe, Session};
use crate::probe::{Kind, ProbeId};
use crate::runtime::{event, registered, sites};
use fastinst_code::c;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use wordpatch::CodeAddr;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// As the header says.
#[repr(C)]
#[derive(Debug)]
pub struct Info {
    probe: ProbeNumber,
    is_exit: bool,
    address: *const c_void,
    function_address: *const c_void,
    function: *const c_char,
    symbol: *const c_char,
    module: *const c_char,
    file: *const c_char,
    line: u32,
}

type ProbeNumber = u32;

/// As the header says.
pub type Discovery = unsafe extern "C" fn(*const Info, *mut c_void);

/// The data that is passed back to a listener, on any thread that calls it.
struct Data(*mut c_void);

// SAFETY: (1) only handed back to the C program, which says that its function can be called from
// any thread.
unsafe impl Send for Data {}
// SAFETY: as above.
unsafe impl Sync for Data {}

/// Finds the probes of everything that is loaded.
#[unsafe(no_mangle)]
pub extern "C" fn fastinst_start() -> bool {
    answer(|| Session::start().map(drop))
}

/// Searches for libraries that were loaded since.
#[unsafe(no_mangle)]
pub extern "C" fn fastinst_scan() -> bool {
    answer(|| Session::start().map(Session::scan))
}

/// Calls `discovery` for every probe that is known, and for every one that is found later.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastinst_register_callback(
    discovery: Discovery,
    data: *mut c_void,
) -> bool {
    let data = Data(data);
    answer(|| {
        Session::start()?.on_discovery(move |probe| {
            let data = &data;
            // SAFETY: (1) the caller.
            with_info(probe, |info| unsafe { discovery(info, data.0) });
        });
        Ok(())
    })
}

/// The number of probes.
#[unsafe(no_mangle)]
pub extern "C" fn fastinst_count() -> u32 {
    sites::count()
}

/// Switches a probe on.
#[unsafe(no_mangle)]
pub extern "C" fn fastinst_activate(probe: ProbeNumber, callback: Callback) -> bool {
    answer(|| Session::start()?.activate(ProbeId(probe), callback))
}

/// Switches a probe off.
#[unsafe(no_mangle)]
pub extern "C" fn fastinst_deactivate(probe: ProbeNumber) -> bool {
    answer(|| Session::start()?.deactivate(ProbeId(probe)))
}

/// Whether a probe is on.
#[unsafe(no_mangle)]
pub extern "C" fn fastinst_is_active(probe: ProbeNumber) -> bool {
    let mut active = false;
    answer(|| Session::start()?.is_active(ProbeId(probe)).map(|is| active = is)) && active
}

/// Activates the entry of a function and all of its exits.
#[unsafe(no_mangle)]
pub extern "C" fn fastinst_enable_function(
    function: *const c_void,
    enter: Callback,
    exit: Callback,
) -> bool {
    answer(|| {
        some(Session::start()?.enable_function(
            CodeAddr::from_ptr(function.cast_mut()),
            enter,
            exit,
        )?)
    })
}

/// Switches all probes of a function off.
#[unsafe(no_mangle)]
pub extern "C" fn fastinst_disable_function(function: *const c_void) -> bool {
    answer(|| some(Session::start()?.disable_function(CodeAddr::from_ptr(function.cast_mut()))?))
}

/// A function without probes is an error of the caller's.
fn some(probes: usize) -> Result<(), Error> {
    if probes == 0 {
        Err(Error::Setup(
            "the function has no probes: build it with -finstrument-functions".to_owned(),
        ))
    } else {
        Ok(())
    }
}

/// The probes of functions that match a pattern.
///
/// # Safety
/// `pattern` is a C string, and `probes` has room for `room` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastinst_select(
    pattern: *const c_char,
    probes: *mut ProbeNumber,
    room: usize,
) -> i64 {
    let mut count = -1;
    answer(|| {
        // SAFETY: (1) the caller.
        let pattern = unsafe { CStr::from_ptr(pattern) }.to_string_lossy();
        let selected = Session::start()?.select(&pattern)?;
        for (at, probe) in selected.iter().enumerate().take(room) {
            // SAFETY: (1) the caller; (2) `at` is below `room`.
            unsafe { probes.add(at).write(probe.0) };
        }
        count = selected.len() as i64;
        Ok(())
    });
    count
}

/// A batch of edits; null if probes cannot be set up here.
#[unsafe(no_mangle)]
pub extern "C" fn fastinst_batch_new() -> *mut Batch<'static> {
    let mut batch = std::ptr::null_mut();
    answer(|| Session::start().map(|session| batch = Box::into_raw(Box::new(session.batch()))));
    batch
}

/// Adds an activation.
///
/// # Safety
/// `batch` is one that was not committed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastinst_batch_activate(
    batch: *mut Batch<'static>,
    probe: ProbeNumber,
    callback: Callback,
) {
    // SAFETY: (1) the caller.
    if let Some(batch) = unsafe { batch.as_mut() } {
        batch.activate(ProbeId(probe), callback);
    }
}

/// Adds a deactivation.
///
/// # Safety
/// `batch` is one that was not committed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastinst_batch_deactivate(batch: *mut Batch<'static>, probe: ProbeNumber) {
    // SAFETY: (1) the caller.
    if let Some(batch) = unsafe { batch.as_mut() } {
        batch.deactivate(ProbeId(probe));
    }
}

/// Makes all edits, and frees the batch.
///
/// # Safety
/// `batch` is one that was not committed; it is none afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastinst_commit(batch: *mut Batch<'static>) -> bool {
    if batch.is_null() {
        return false;
    }
    // SAFETY: (1) made by `fastinst_batch_new`, and the caller.
    let batch = unsafe { Box::from_raw(batch) };
    answer(|| batch.commit().map(drop))
}

/// Registers code that a runtime has generated. Returns its number; 0 if it was refused.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fastinst_register_code(code: *const c::Code) -> u64 {
    let mut number = 0;
    answer(|| {
        // SAFETY: (1) the caller.
        number = unsafe { registered::register(code) }.map_err(Error::Code)?;
        Ok(())
    });
    number
}

/// Takes it back.
#[unsafe(no_mangle)]
pub extern "C" fn fastinst_unregister_code(number: u64) -> bool {
    answer(|| registered::unregister(number).map_err(Error::Code))
}

/// The number of a function's probe; `UINT32_MAX` if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn fastinst_code_probe(number: u64, function: u32) -> ProbeNumber {
    registered::probe(number, function).unwrap_or(ProbeNumber::MAX)
}

/// Says that a function's code also lies there.
#[unsafe(no_mangle)]
pub extern "C" fn fastinst_code_also(
    number: u64,
    function: u32,
    code: *const c_void,
    length: usize,
) -> bool {
    answer(|| registered::also(number, function, code.addr(), length).map_err(Error::Code))
}

/// A function was entered, whose probe counts or times.
#[unsafe(no_mangle)]
pub extern "C" fn fastinst_code_enter(probe: ProbeNumber, frame: *const c_void) {
    if let Some(id) = registered::of_probe(probe) {
        event::enter_code(id, frame.addr() as u64);
    }
}

/// A function whose probe times returns.
#[unsafe(no_mangle)]
pub extern "C" fn fastinst_code_leave(probe: ProbeNumber, frame: *const c_void) {
    if let Some(id) = registered::of_probe(probe) {
        event::leave_code(id, frame.addr() as u64);
    }
}

/// What the latest function that failed on this thread says.
#[unsafe(no_mangle)]
pub extern "C" fn fastinst_last_error() -> *const c_char {
    // After the thread's data has been destroyed there is no error to report.
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Runs `act`, keeps its failure for [`fastinst_last_error`], and never unwinds into C.
fn answer(act: impl FnOnce() -> Result<(), Error>) -> bool {
    // Only a bool leaves the block. A result that is copied is written in pieces and read as a
    // whole, which takes until all stores before are through: that to the site, too.
    let done = catch_unwind(AssertUnwindSafe(|| match act() {
        Ok(()) => true,
        Err(failure) => remember(&failure.to_string()),
    }));
    done.unwrap_or_else(|_| {
        remember("internal error: a fastinst invariant is broken; please report this")
    })
}

#[cold]
fn remember(failure: &str) -> bool {
    let _ = LAST.try_with(|last| *last.borrow_mut() = c_string(failure));
    false
}

fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// Calls `act` with the C description of a probe.
fn with_info(probe: &Probe, act: impl FnOnce(&Info)) {
    let [function, symbol] = [&probe.function, &probe.symbol].map(|text| c_string(text));
    let module = c_string(&probe.module.to_string_lossy());
    let file = probe.file.as_deref().map(c_string);
    act(&Info {
        probe: probe.id.0,
        is_exit: probe.kind == Kind::Exit,
        address: probe.address.as_ptr().cast(),
        function_address: probe
            .function_address
            .map_or(std::ptr::null(), |address| address.as_ptr().cast()),
        function: function.as_ptr(),
        symbol: symbol.as_ptr(),
        module: module.as_ptr(),
        file: file.as_ref().map_or(std::ptr::null(), |file| file.as_ptr()),
        line: probe.line.unwrap_or(0),
    });
}
