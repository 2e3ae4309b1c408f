//! The mapping that `fastinst attach` makes in a process and reads there. It is unmapped when the
//! profiler has started.
//!
//! ```text
//!   code, read and executed │ request │ stack of the bootstrap thread ┃ its thread data
//! ```
//!
//! Its thread data stay mapped, and are used again by the next attachment to the process:
//! allocators keep lists of their threads, whose links are in the threads' data.
//!
//! The command fills it through /proc/PID/mem; the bootstrap thread makes everything after the code
//! writable, and no page is ever both written by the process and executed.
//!
//! | state | meaning | stored by |
//! |---|---|---|
//! | [`NEW`] | a thread of the C library is about to be created | the command |
//! | [`LOADING`] | that thread is in `dlopen` | the injected code |
//! | [`LOADED`] | the library is there | the injected code |
//! | [`STARTED`] | the profiler runs, and `handover` is where its profile lies | the library |
//! | [`NO_THREAD`], [`NOT_LOADED`], [`NO_ENTRY`] | why not: a number, the loader's text | the injected code |
//! | [`REFUSED`] | why not: the library's text | the library |

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// See the module.
pub const NEW: u32 = 0;
/// See the module.
pub const LOADING: u32 = 1;
/// See the module.
pub const LOADED: u32 = 2;
/// See the module.
pub const STARTED: u32 = 3;
/// See the module.
pub const NO_THREAD: u32 = 16;
/// See the module.
pub const NOT_LOADED: u32 = 17;
/// See the module.
pub const NO_ENTRY: u32 = 18;
/// See the module.
pub const REFUSED: u32 = 19;

/// The library's symbol of a [`ThreadData`], which is zero until the library has been attached.
pub const THREAD_DATA: &str = "fastinst_bootstrap_data";

/// Thread data of the bootstrap thread, as they were left.
#[repr(C)]
#[derive(Debug, Default)]
pub struct ThreadData {
    /// The thread pointer.
    pub pointer: AtomicU64,
    /// The address of the thread's ID.
    pub number: AtomicU64,
}

/// The name of the entry point.
pub const ENTRY: &[u8] = b"fastinst_attached\0";

/// Which layout this is: a library of another version refuses.
pub const VERSION: u64 = 1;

/// Functions of the C library, in the process.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Functions {
    /// `pthread_attr_init`.
    pub attr_init: u64,
    /// `pthread_attr_setstacksize`.
    pub attr_setstacksize: u64,
    /// `pthread_attr_setdetachstate`.
    pub attr_setdetachstate: u64,
    /// `pthread_create`.
    pub create: u64,
    /// `dlopen`.
    pub dlopen: u64,
    /// `dlsym`.
    pub dlsym: u64,
    /// `dlerror`.
    pub dlerror: u64,
    /// `munmap`.
    pub munmap: u64,
}

/// The request, and the answer.
#[repr(C)]
#[derive(Debug)]
pub struct Request {
    /// [`VERSION`].
    pub version: u64,
    /// What the injected code calls.
    pub functions: Functions,
    /// The mapping: its address, and how much of it is to be unmapped.
    pub mapping: u64,
    /// See `mapping`.
    pub len: u64,
    /// Its length from the request on.
    pub written: u64,
    /// The address of the bootstrap thread's ID, which is zero when the thread has ended.
    pub bootstrap: u64,
    /// Its thread pointer.
    pub pointer: u64,
    /// The size of the stack of the profiler's thread.
    pub stack: u64,
    /// The state of the request.
    pub state: AtomicU32,
    /// The C library's error number if there is no thread.
    pub error: AtomicU32,
    /// Not zero when the command has taken what it needs.
    pub acknowledged: AtomicU32,
    /// The descriptor of the profile's memory, until that is acknowledged.
    pub handover: AtomicI32,
    /// `pthread_attr_t`.
    pub attributes: [u64; 8],
    /// `pthread_t`.
    pub thread: u64,
    /// [`ENTRY`].
    pub entry: [u8; 32],
    /// The path of the library, as the process finds it.
    pub library: [u8; 4096],
    /// `KEY=VALUE`, each ended by a zero, as the environment has them.
    pub settings: [u8; 12288],
    /// The text of the answer.
    pub answer: [u8; 4096],
    /// Whether the process had one thread, which waits until the library is loaded.
    pub is_single: u64,
}

/// Puts a text into a field, followed by a zero; false if it does not fit.
pub fn put(field: &mut [u8], text: &[u8]) -> bool {
    let fits = text.len() < field.len();
    if fits {
        field[..text.len()].copy_from_slice(text);
        field[text.len()] = 0;
    }
    fits
}

/// The text in a field, up to its zero.
pub fn text(field: &[u8]) -> String {
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}
