//! A stack of its own for a signal handler that has much to do.
//!
//! A handler runs on the stack that its thread set aside for signals, and many threads set aside
//! the eight kilobytes that `SIGSTKSZ` names. One frame of a processor with large registers takes
//! nearly half of it; what reads a file of /proc wants a page, and a second signal wants another
//! frame. So a handler that has to wait does so elsewhere:
//!
//! ```text
//!   the thread's signal stack      ... | frame of the signal | handler | ← at most this much is needed of it
//!   ours, while `act` runs         for signals that come meanwhile | act ... |
//! ```

use super::pages::{self, PAGE, Place, Protection};
use std::arch::asm;
use std::mem::MaybeUninit;

/// For `act`.
const ROOM: usize = 16 * PAGE;

/// For signals that come while it runs: several frames, also of processors that save tile
/// registers.
const FOR_SIGNALS: usize = 16 * PAGE;

/// How much of a signal stack the kernel takes for one signal, at most; a guess from before
/// processors had tile registers, if it does not say.
pub fn largest_frame() -> usize {
    const BEFORE_TILES: usize = 3632;
    // SAFETY: (1) asks for a number.
    let reported = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) } as usize;
    if reported == 0 { BEFORE_TILES } else { reported }
}

/// Calls `act` on a fresh stack, and here if there is no memory for one. Usable in a signal
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
    // SAFETY: (1) mapped above; (2) no thread is on it any more. A mapping that the kernel does not
    // take back is lost, no more.
    let _ = unsafe { pages::unmap(stack, FOR_SIGNALS + ROOM) };
}

/// What to do there, and where signals go meanwhile.
struct Elsewhere<F> {
    act: Option<F>,
    signals: libc::stack_t,
}

/// Calls `run` with the stack pointer at `top`, which is the end of a page.
fn call_on<F: FnOnce()>(top: usize, elsewhere: &mut Elsewhere<F>) {
    // SAFETY: (1) `top` ends fresh memory that is writable and large enough; (2) r12 survives the
    // call, as the calling convention says, and gives the stack pointer back; (3) `run` has this
    // signature, and ends the process where it would unwind.
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

/// The kernel lets a thread that is not on its signal stack have another one, and so a signal that
/// comes now does not begin at the top of the stack where the interrupted handler's frames are.
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
        // SAFETY: (1) what the kernel answered above.
        unsafe { libc::sigaltstack(&raw const before, std::ptr::null_mut()) };
    }
}
