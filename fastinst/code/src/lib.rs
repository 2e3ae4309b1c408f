//! Registers machine code that a runtime generates (a just-in-time compiler, a Wasm engine) with
//! `libfastinst.so`, so that the profile of the process lists its functions beside native ones.
//!
//! The runtime switches its own probes, and calls [`Library::enter`] and [`Library::leave`] where
//! they are on. It looks for the library once; if it is not loaded, nothing is registered:
//!
//! ```
//! use fastinst_code::{Function, Library, State};
//!
//! # let (code, length) = (std::ptr::null(), 0);
//! if let Some(library) = Library::find() {
//!     let functions = [Function { name: "f", file: None, line: 0, code, length }];
//!     let switch = |which: &[u32], state: State| !which.is_empty() || state == State::Off;
//!     let registration = library.register("app.wasm", &functions, switch, None)?;
//!     println!("{:?}", registration.probe(0));
//! }
//! # Ok::<(), fastinst_code::Refused>(())
//! ```
//!
//! `fastinst.h` is the same interface for C; the types that both sides share are in [`c`].
//!
//! # Safety
//!
//! This module calls functions that the loader has found, with the memory that they expect.
#![allow(unsafe_code)]

pub mod c;

use std::ffi::{CStr, CString, c_void};
use std::sync::OnceLock;

/// The state of a function's probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    Off,
    /// Entries are reported, or counted by the runtime itself.
    Count,
    /// Entries and exits are reported.
    Time,
}

/// A function.
#[derive(Clone, Copy, Debug)]
pub struct Function<'f> {
    /// Its name, mangled or not.
    pub name: &'f str,
    /// Its source file.
    pub file: Option<&'f str>,
    /// The line there; 0 if unknown.
    pub line: u32,
    /// Where its machine code begins.
    pub code: *const u8,
    /// Its length in bytes.
    pub length: usize,
}

/// Why code was not registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

/// The library, in this process.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    register: c::Register,
    unregister: c::Unregister,
    probe: c::Probe,
    also: c::Also,
    enter: c::Event,
    leave: c::Event,
    error: c::LastError,
}

impl Library {
    /// Looks for the library, once.
    pub fn find() -> Option<&'static Self> {
        static FOUND: OnceLock<Option<Library>> = OnceLock::new();
        FOUND.get_or_init(Self::look).as_ref()
    }

    fn look() -> Option<Self> {
        // SAFETY: (1) functions of these names have these types: `fastinst.h`.
        unsafe {
            Some(Self {
                register: function(c"fastinst_register_code")?,
                unregister: function(c"fastinst_unregister_code")?,
                probe: function(c"fastinst_code_probe")?,
                also: function(c"fastinst_code_also")?,
                enter: function(c"fastinst_code_enter")?,
                leave: function(c"fastinst_code_leave")?,
                error: function(c"fastinst_last_error")?,
            })
        }
    }

    /// Registers the functions of a module. The library's own thread calls `switch` with the
    /// functions whose state changes, and the new state; it returns whether that was done. If the
    /// runtime counts itself, `counts` returns how often each function was entered in
    /// [`State::Count`] so far.
    pub fn register(
        &'static self,
        module: &str,
        functions: &[Function<'_>],
        switch: impl Fn(&[u32], State) -> bool + Send + Sync + 'static,
        counts: Option<Counts>,
    ) -> Result<Registration, Refused> {
        let text = |text: &str| CString::new(text.replace('\0', " ")).unwrap_or_default();
        let names: Vec<(CString, Option<CString>)> = functions
            .iter()
            .map(|function| (text(function.name), function.file.map(text)))
            .collect();
        let functions: Vec<c::Function> = functions
            .iter()
            .zip(&names)
            .map(|(function, (name, file))| c::Function {
                size: size_of::<c::Function>() as u32,
                name: name.as_ptr(),
                file: file.as_ref().map_or(std::ptr::null(), |file| file.as_ptr()),
                line: function.line,
                code: function.code.cast(),
                length: function.length,
            })
            .collect();
        let module = text(module);
        let runtime = Box::new(Runtime { switch: Box::new(switch), counts });
        let code = c::Code {
            size: size_of::<c::Code>() as u32,
            module: module.as_ptr(),
            functions: functions.as_ptr(),
            count: functions.len(),
            set: Some(set),
            this: std::ptr::from_ref(&*runtime).cast_mut().cast(),
            counts: runtime.counts.as_ref().map(|_| self::counts as c::Counts),
        };
        // SAFETY: (1) all that is pointed to lives until the call returns, and the runtime until it
        // is unregistered.
        let number = unsafe { (self.register)(&raw const code) };
        if number == 0 {
            return Err(self.refusal());
        }
        Ok(Registration { library: self, number, _runtime: runtime })
    }

    /// The reason of the library's latest refusal on this thread.
    fn refusal(&self) -> Refused {
        // SAFETY: (1) a text that lives until this thread's next failure.
        let why = unsafe { CStr::from_ptr((self.error)()) };
        Refused(why.to_string_lossy().into_owned())
    }

    /// Reports that a function whose probe counts or times was entered.
    ///
    /// # Safety
    /// `probe` belongs to a live [`Registration`]; `frame` is the address of the function's return
    /// address on the calling thread's stack.
    pub unsafe fn enter(&self, probe: u32, frame: *const c_void) {
        // SAFETY: (1) the caller.
        unsafe { (self.enter)(probe, frame) }
    }

    /// Reports that a function that is being timed returns.
    ///
    /// # Safety
    /// As for [`enter`](Self::enter).
    pub unsafe fn leave(&self, probe: u32, frame: *const c_void) {
        // SAFETY: (1) the caller.
        unsafe { (self.leave)(probe, frame) }
    }

    /// The addresses of both functions, for machine code that calls them.
    pub fn events(&self) -> [usize; 2] {
        [self.enter as usize, self.leave as usize]
    }
}

/// The function of a name.
///
/// # Safety
/// `F` is its type, one of functions.
unsafe fn function<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: (1) a name.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: (1) the caller; (2) both are addresses.
    (!found.is_null()).then(|| unsafe { std::mem::transmute_copy(&found) })
}

/// Returns how often each of some functions was entered, in their order.
pub type Counts = Box<dyn Fn(&[u32], &mut [u64]) + Send + Sync>;

type Switch = Box<dyn Fn(&[u32], State) -> bool + Send + Sync>;

/// What a runtime is called by.
struct Runtime {
    switch: Switch,
    counts: Option<Counts>,
}

/// Registered code; dropping this unregisters it.
pub struct Registration {
    library: &'static Library,
    number: u64,
    /// The library has its address.
    _runtime: Box<Runtime>,
}

impl std::fmt::Debug for Registration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registration").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Registration {
    /// The number of a function's probe; `None` if it has none.
    pub fn probe(&self, function: u32) -> Option<u32> {
        // SAFETY: (1) numbers only.
        let probe = unsafe { (self.library.probe)(self.number, function) };
        (probe != u32::MAX).then_some(probe)
    }

    /// Adds a range of code to a function: another tier, or another variant of it.
    pub fn also(&self, function: u32, code: *const u8, length: usize) -> Result<(), Refused> {
        // SAFETY: (1) numbers and a place, which the library does not access.
        let is_taken = unsafe { (self.library.also)(self.number, function, code.cast(), length) };
        if is_taken { Ok(()) } else { Err(self.library.refusal()) }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: (1) a number only.
        unsafe { (self.library.unregister)(self.number) };
    }
}

/// Called by the library.
unsafe extern "C" fn set(this: *mut c_void, which: *const u32, count: usize, state: i32) -> bool {
    let state = match state {
        0 => State::Off,
        1 => State::Count,
        2 => State::Time,
        _ => return false,
    };
    // SAFETY: (1) what `register` has given it, which lives; (2) so many numbers.
    let (runtime, which) =
        unsafe { (&*this.cast::<Runtime>(), std::slice::from_raw_parts(which, count)) };
    let switch = || (runtime.switch)(which, state);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(switch)).unwrap_or(false)
}

/// Called by the library.
unsafe extern "C" fn counts(this: *mut c_void, which: *const u32, count: usize, told: *mut u64) {
    // SAFETY: (1) what `register` has given it, which lives; (2) so many numbers, and room for as
    // many.
    let (runtime, which, told) = unsafe {
        let told = std::slice::from_raw_parts_mut(told, count);
        (&*this.cast::<Runtime>(), std::slice::from_raw_parts(which, count), told)
    };
    let counts = || runtime.counts.iter().for_each(|counts| counts(which, told));
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(counts));
}
