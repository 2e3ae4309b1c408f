//! The address of the library's thread-local data, and its destructors.
//!
//! Code of a shared library calls `__tls_get_addr` for the address of its thread-local data. The
//! loader's version first updates the thread's table of modules; if the program has loaded many
//! libraries since, it allocates a larger table with the program's allocator. The version here has
//! nothing to update: a preloaded library's data lie at a fixed distance from the thread pointer.
//! So does this anchor among them, which is accessed by the initial-exec model. The argument is a
//! module, which is always this one, and an offset in its data.
//!
//! The standard library registers destructors of thread-local data with the C library, which
//! allocates memory for each. Here they are kept in a list, and the destructor of a key runs them.

use std::arch::global_asm;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

global_asm!(
    ".pushsection .tbss.fastinst_own_anchor,\"awT\",@nobits",
    ".globl fastinst_own_anchor",
    ".hidden fastinst_own_anchor",
    ".type fastinst_own_anchor,@object",
    ".balign 8",
    "fastinst_own_anchor: .zero 8",
    ".size fastinst_own_anchor, 8",
    ".popsection",
    ".pushsection .text.fastinst_own___tls_get_addr,\"ax\",@progbits",
    ".globl fastinst_own___tls_get_addr",
    ".hidden fastinst_own___tls_get_addr",
    ".type fastinst_own___tls_get_addr,@function",
    "fastinst_own___tls_get_addr:",
    "mov rax, qword ptr [rip + fastinst_own_anchor@GOTTPOFF]",
    "add rax, qword ptr fs:[0]",
    "sub rax, offset fastinst_own_anchor@DTPOFF",
    "add rax, qword ptr [rdi + 8]",
    "ret",
    ".size fastinst_own___tls_get_addr, . - fastinst_own___tls_get_addr",
    ".popsection",
);

type Destructor = unsafe extern "C" fn(*mut c_void);

/// A destructor to run when this thread ends, the latest first.
struct Duty {
    destructor: Destructor,
    data: *mut c_void,
    next: *mut Duty,
}

thread_local! {
    static DUTIES: Cell<*mut Duty> = const { Cell::new(std::ptr::null_mut()) };
}

/// The key, plus one.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Makes the key: once, and early, since setting one of the first keys needs no memory.
pub(crate) fn prepare() {
    let mut key = 0;
    // SAFETY: (1) a key to write to; (2) the destructor below; (3) no other thread has the key yet.
    unsafe {
        if KEY.load(Acquire) == 0
            && libc::pthread_key_create(&raw mut key, Some(carry_out)) == 0
            && KEY.compare_exchange(0, key + 1, AcqRel, Acquire).is_err()
        {
            libc::pthread_key_delete(key);
        }
    }
}

pub(super) unsafe extern "C" fn thread_atexit(
    destructor: Destructor,
    data: *mut c_void,
    _library: *mut c_void,
) -> c_int {
    prepare();
    let duty = Duty { destructor, data, next: DUTIES.get() };
    DUTIES.set(Box::into_raw(Box::new(duty)));
    if let Some(key) = KEY.load(Acquire).checked_sub(1) {
        // SAFETY: (1) the key was made; (2) its value only marks that there are destructors.
        unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(1)) };
    }
    0
}

/// The C library calls this at the end of a thread, and again if new destructors were registered
/// meanwhile.
unsafe extern "C" fn carry_out(_something: *mut c_void) {
    while !DUTIES.get().is_null() {
        // SAFETY: (1) made by `thread_atexit` on this thread, and taken once.
        let duty = unsafe { Box::from_raw(DUTIES.get()) };
        DUTIES.set(duty.next);
        // SAFETY: (1) by the registration of the destructor.
        unsafe { (duty.destructor)(duty.data) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    static DONE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

    unsafe extern "C" fn note(data: *mut c_void) {
        DONE.lock().unwrap().push(data.addr());
        if data.addr() == 2 {
            // SAFETY: (1) takes a number.
            unsafe {
                thread_atexit(note, std::ptr::without_provenance_mut(3), std::ptr::null_mut())
            };
        }
    }

    #[test]
    fn duties_are_carried_out_at_the_end_of_their_thread_the_latest_first() {
        let register = |number| {
            // SAFETY: (1) takes a number.
            unsafe {
                thread_atexit(note, std::ptr::without_provenance_mut(number), std::ptr::null_mut())
            };
        };
        let thread = std::thread::spawn(move || {
            register(1);
            register(2);
            assert!(DONE.lock().unwrap().is_empty());
        });
        thread.join().unwrap();
        assert_eq!(*DONE.lock().unwrap(), [2, 3, 1]);
    }
}
