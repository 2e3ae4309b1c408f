//! A separate stack for a signal handler that needs more space.
//!
//! A handler runs on the stack that its thread set aside for signals, and many threads set aside
//! the eight kilobytes that `SIGSTKSZ` names. With large register sets, one frame takes nearly half
//! of it. Code that reads a file of /proc needs a page, and a second signal needs another frame. So
//! a handler that has to wait uses another stack:
//!
//! ```text
//!   the thread's signal stack      ... | frame of the signal | handler | ← at most this much is needed of it
//!   ours, while `act` runs         for signals that come meanwhile | act ... |
//! ```

use super::pages::{self, PAGE, Place, Protection};
use std::arch::asm;
use std::mem::MaybeUninit;

/// The space for `act`.
const ROOM: usize = 16 * PAGE;

/// The space for signals that arrive meanwhile: several frames, also on processors that save tile
/// registers.
const FOR_SIGNALS: usize = 16 * PAGE;

/// The most that the kernel uses of a signal stack for one signal. If the kernel does not report
/// it, the largest size of processors without tile registers.
pub fn largest_frame() -> usize {
    const BEFORE_TILES: usize = 3632;
    // SAFETY: (1) reads a number.
    let reported = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    if reported == 0 { BEFORE_TILES } else { reported }
}

/// Calls `act` on a fresh stack, or on the current one if there is no memory. Usable in a signal
/// handler. `act` must not panic.
pub fn with_room(act: impl FnOnce()) {
    // SAFETY: (1) a fresh mapping touches nothing that exists.
    let Ok(stack) =
        (unsafe { pages::map_private(Place::Anywhere, FOR_SIGNALS + ROOM, Protection::ReadWrite) })
    else {
        return act();
    };
    let signals = libc::stack_t {
        ss_sp: stack.get() as *mut libc::c_void,
        ss_flags: 0,
        ss_size: FOR_SIGNALS,
    };
    call_on(stack.get() + FOR_SIGNALS + ROOM, &mut Elsewhere { act: Some(act), signals });
    // SAFETY: (1) mapped above; (2) no thread is on it any more. If the kernel does not unmap it,
    // the memory is leaked.
    let _ = unsafe { pages::unmap(stack, FOR_SIGNALS + ROOM) };
}

/// The function to run there, and the signal stack meanwhile.
struct Elsewhere<F> {
    act: Option<F>,
    signals: libc::stack_t,
}

/// Calls `run` with the stack pointer at `top`, which is the end of a page.
fn call_on<F: FnOnce()>(top: usize, elsewhere: &mut Elsewhere<F>) {
    // SAFETY: (1) `top` ends fresh memory that is writable and large enough; (2) r12 survives the
    // call by the calling convention, and restores the stack pointer; (3) `run` has this signature,
    // and aborts where it would unwind.
    unsafe {
        asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {run}",
            "mov rsp, r12",
            top = in(reg) top,
            run = sym run::<F>,
            in("rdi") std::ptr::from_mut(elsewhere),
            out("r12") _,
            clobber_abi("sysv64"),
        );
    }
}

/// The kernel lets a thread that is not on its signal stack change it. So a signal that arrives now
/// does not start at the top of the old one, where the interrupted handler's frames are.
extern "sysv64" fn run<F: FnOnce()>(elsewhere: &mut Elsewhere<F>) {
    let mut before = MaybeUninit::zeroed();
    // SAFETY: (1) a stack to read, which lives until `act` has returned, and one to write; (2) all
    // zeroes are a valid stack_t.
    let (changed, before) = unsafe {
        (
            libc::sigaltstack(&raw const elsewhere.signals, before.as_mut_ptr()) == 0,
            before.assume_init(),
        )
    };
    elsewhere.act.take().into_iter().for_each(|act| act());
    if changed {
        // SAFETY: (1) the value that the kernel returned above.
        unsafe { libc::sigaltstack(&raw const before, std::ptr::null_mut()) };
    }
}
