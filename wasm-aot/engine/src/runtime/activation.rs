//! Enters machine code from the host, and leaves it in all ways.
//!
//! An *activation* is one entry from the host. It remembers the host's stack pointer; code that has
//! to leave early, be it a trap in a signal handler or a host function that failed, restores that
//! stack pointer and continues after the entry, as if the code had returned with another status.
//! Frames of machine code in between own nothing and need no clean-up; frames of the host have
//! returned already.
//!
//! # Safety
//!
//! This module exists to set stack pointers by hand. No frame of the host lies between an entry and
//! the code that leaves it.
#![allow(unsafe_code)]

use super::pending_event::Pending;
use super::store::StoreCore;
use crate::error::Error;
use crate::trap::Trap;
use crate::vm::StoreCell;
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;

/// How machine code was left.
const RETURNED: usize = 0;
const TRAPPED: usize = 1;
const FAILED: usize = 2;

/// One entry from the host.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Activation {
    /// The stack pointer with which the host continues.
    stack: usize,
    /// The store whose code is executed.
    pub(crate) store: *const StoreCore,
    /// The entry that this one is nested in.
    pub(crate) outer: *const Activation,
    /// The frame and address at which the store's code had called the host when this entry was
    /// made.
    pub(crate) outer_exit: (usize, usize),
    /// The trap, if one has ended it.
    pub(crate) fault: Option<Fault>,
    /// The frames that were unwound, if a receiver has to be notified.
    taken_away: Vec<usize>,
    /// The failure of the host, if one has ended it.
    failure: Option<Failure>,
}

/// A trap, as the signal handler sees it.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) trap: Trap,
    /// Return addresses, from the trapping instruction outwards; room is made before.
    pub(crate) frames: Vec<usize>,
    /// The values that the frames have kept, as far as they can be read.
    pub(crate) kept: Vec<Option<super::dump::Kept>>,
}

/// A failure of the host.
#[derive(Debug)]
pub(crate) enum Failure {
    Error(Error),
    /// An exception that is not caught in this activation.
    Exception(usize),
    Panic(Box<dyn std::any::Any + Send>),
}

thread_local! {
    /// The innermost activation of this thread.
    static CURRENT: Cell<*mut Activation> = const { Cell::new(std::ptr::null_mut()) };
}

std::arch::global_asm!(
    ".globl fastinst_wasm_enter",
    ".globl fastinst_wasm_leave",
    ".globl fastinst_wasm_leave_event",
    ".globl fastinst_wasm_resume",
    ".type fastinst_wasm_enter,@function",
    // rdi: where to put the stack pointer, rsi: trampoline, rdx: vmctx, rcx: code, r8: values
    "fastinst_wasm_enter:",
    "push rbp",
    "mov rbp, rsp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "sub rsp, 8",
    "mov [rdi], rsp",
    "mov rax, rsi",
    "mov rdi, rdx",
    "mov rsi, rcx",
    "mov rdx, r8",
    "call rax",
    "xor eax, eax",
    "2:",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
    // rdi: the stack pointer, rsi: status
    "fastinst_wasm_leave:",
    "mov rsp, rdi",
    "mov rax, rsi",
    "cld",
    "jmp 2b",
    // The same, from the middle of an event.
    "fastinst_wasm_leave_event:",
    "mov rbx, rdi",
    "mov r12, rsi",
    "and rsp, -16",
    "cld",
    "call {complete}",
    "mov rdi, rbx",
    "mov rsi, r12",
    "jmp fastinst_wasm_leave",
    // rdi: code, rsi: frame pointer, rdx: stack pointer, rcx: exception
    "fastinst_wasm_resume:",
    "mov rax, rcx",
    "mov rbp, rsi",
    "mov rsp, rdx",
    "jmp rdi",
    complete = sym complete_event,
);

unsafe extern "C" {
    fn fastinst_wasm_enter(
        stack: *mut usize,
        trampoline: *const u8,
        vmctx: *mut u8,
        code: *const u8,
        values: *mut u128,
    ) -> usize;
    fn fastinst_wasm_leave(stack: usize, status: usize) -> !;
    fn fastinst_wasm_leave_event(stack: usize, status: usize) -> !;
    fn fastinst_wasm_resume(code: usize, frame: usize, stack: usize, exception: usize) -> !;
}

/// The code of a function, ready to be entered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeEntry {
    pub(crate) trampoline: *const u8,
    pub(crate) code: *const u8,
    pub(crate) vmctx: *mut u8,
}

/// The depth of backtraces.
const DEPTH: usize = 128;

/// Calls machine code.
///
/// # Safety
/// `entry` is of the type that `values` are of, there is room for its results, and the store is
/// this thread's.
pub(crate) unsafe fn enter(
    store: &StoreCore,
    entry: CodeEntry,
    values: *mut u128,
) -> Result<(), Failure> {
    let cell: &StoreCell = store.cell();
    let outer = CURRENT.get();
    // The store's outermost activation: where this thread's stack ends is not known yet.
    let outermost = cell.stack_limit.load(Relaxed) == 0;
    if outermost {
        super::signals::prepare_thread().map_err(Failure::Error)?;
        cell.stack_limit.store(crate::stack::limit(store.limits().stack), Relaxed);
    }
    let outer_exit = (cell.exit_frame.load(Relaxed), cell.exit_pc.load(Relaxed));
    let mut activation = Activation {
        stack: 0,
        store,
        outer,
        outer_exit,
        fault: None,
        taken_away: Vec::new(),
        failure: None,
    };
    let activation = &raw mut activation;
    store.interruption().enter();
    if store.interruption().is_requested() && store.interruption().take() {
        leave(store, outermost);
        return Err(Failure::Error(Trap::Interrupted.into()));
    }
    let kept = store.keep_words();
    let pending = Pending::take(cell);
    CURRENT.set(activation);
    // SAFETY: (1) the caller, see # Safety; (2) the activation lives until the call has returned,
    // by whichever way.
    let status = unsafe {
        fastinst_wasm_enter(
            &raw mut (*activation).stack,
            entry.trampoline,
            entry.vmctx,
            entry.code,
            values,
        )
    };
    CURRENT.set(outer);
    pending.give_back(cell);
    leave(store, outermost);
    cell.exit_frame.store(outer_exit.0, Relaxed);
    cell.exit_pc.store(outer_exit.1, Relaxed);
    // SAFETY: (1) `activation` is a local of this function.
    let activation = unsafe { &mut *activation };
    if status != RETURNED {
        if !kept.is_empty() {
            store.tell_cut_off();
        }
        super::hooks::restore(&kept);
        super::identity::forget_below(activation.stack);
        store.tell_trapped(&activation.taken_away);
    }
    match status {
        RETURNED => Ok(()),
        TRAPPED => {
            let fault = activation.fault.take().expect("a trap says why");
            Err(Failure::Error(super::backtrace::report(store, &fault)))
        }
        _ => Err(activation.failure.take().expect("a failure says why")),
    }
}

/// Undoes what the store's outermost activation has set up.
fn leave(store: &StoreCore, outermost: bool) {
    if outermost {
        store.interruption().leave();
        store.cell().stack_limit.store(0, Relaxed);
    }
}

/// The innermost activation of this thread. Usable in a signal handler.
pub(crate) fn current() -> *mut Activation {
    CURRENT.get()
}

/// Whether this thread executes machine code, or has left it for the host.
pub(crate) fn is_within() -> bool {
    !current().is_null()
}

impl Activation {
    /// Where a signal handler continues execution, with the stack pointer as it was, so that the
    /// trap in [`fault`](Self::fault) ends the activation. An event in which a hook has trapped is
    /// completed before; not if it was interrupted.
    pub(crate) fn landing(&self) -> Landing {
        // SAFETY: (1) the store outlives its activations.
        let cell = unsafe { &*self.store }.cell();
        let is_pending = Pending::is_in(cell)
            && self.fault.as_ref().is_some_and(|fault| fault.trap != Trap::Interrupted);
        let leave = match is_pending {
            true => fastinst_wasm_leave_event as *const (),
            false => fastinst_wasm_leave as *const (),
        };
        Landing { pc: leave as usize, stack: self.stack, status: TRAPPED }
    }

    /// Records a trap. Usable in a signal handler, for an activation that no trap has ended.
    pub(crate) fn trap(&mut self, trap: Trap, pc: usize, frame: usize) {
        // The allocator cannot have been interrupted, because no code of the host runs while
        // machine code does.
        let mut frames = Vec::with_capacity(DEPTH);
        frames.push(pc);
        // SAFETY: (1) the store outlives its activations.
        let store = unsafe { &*self.store };
        // However deep a monitor's own calls are, the frames include the place in the program that
        // called it.
        let mut sought =
            store.instances.iter().any(|instance| instance.looks_on.get()) && !store.is_aside(pc);
        let reads = store.reads_frames;
        let mut kept = Vec::with_capacity(if reads { DEPTH } else { 0 });
        // SAFETY: (1) `frame` is the frame pointer of machine code that was at `pc`.
        reads.then(|| kept.push(unsafe { super::dump::read(store, pc, frame) }));
        let visit = |pc: usize, frame: usize| {
            let is_sought = sought && store.is_aside(pc - 1);
            sought &= !is_sought;
            if frames.len() < DEPTH || is_sought {
                frames.push(pc);
                // SAFETY: (1) a frame of machine code that waits for what it has called.
                reads.then(|| kept.push(unsafe { super::dump::read(store, pc - 1, frame) }));
            }
            frames.len() < DEPTH || sought
        };
        // SAFETY: (1) `frame` is the frame pointer of machine code, whose frames are chained up to
        // the entry; (2) the walk ends where return addresses are no longer machine code's.
        unsafe { super::backtrace::walk_frames(store, frame, visit) };
        // A function that finds no stack for itself has executed nothing so far.
        let begun = (!store.code_at(pc).is_some_and(|(code, offset)| code.has_not_begun(offset)))
            .then_some(pc);
        // The program's `unreachable` ends its block; a monitor's may be in the middle of one.
        let ends_block = trap == Trap::Unreachable && !store.is_aside(pc);
        // SAFETY: (1) as above.
        unsafe { store.exit_all(begun.filter(|_| !ends_block), frame) };
        // SAFETY: (1) as above.
        self.taken_away = unsafe { store.taken_away(begun, frame) };
        self.fault = Some(Fault { trap, frames, kept });
    }
}

/// Registers with which machine code is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Landing {
    pub(crate) pc: usize,
    pub(crate) stack: usize,
    pub(crate) status: usize,
}

/// Completes the event in which a hook has trapped, before the current activation ends.
extern "C" fn complete_event() {
    // SAFETY: (1) the activation is this thread's and lives, and its store outlives it; (2) the
    // stack pointer is below the frame that has trapped.
    unsafe { super::pending_event::complete(&*(*CURRENT.get()).store) };
}

/// Leaves machine code with a failure of the host. Code that throws an exception has recorded the
/// frames that it unwinds.
///
/// # Safety
/// Called from a function that machine code has called and that owns nothing.
pub(crate) unsafe fn fail(failure: Failure) -> ! {
    let activation = CURRENT.get();
    // SAFETY: (1) machine code runs inside of an activation; (2) the caller, see # Safety.
    unsafe {
        if !matches!(failure, Failure::Exception(_)) {
            let store = &*(*activation).store;
            let (frame, pc) = store.exit();
            super::pending_event::complete(store);
            if pc != 0 {
                store.exit_all(Some(pc - 1), frame);
                (*activation).taken_away = store.taken_away(Some(pc - 1), frame);
            }
        }
        (*activation).failure = Some(failure);
        fastinst_wasm_leave((*activation).stack, FAILED)
    }
}

/// Continues in a landing pad of machine code.
///
/// # Safety
/// The frame has that landing, and everything below it owns nothing.
pub(crate) unsafe fn resume(code: usize, frame: usize, stack: usize, exception: usize) -> ! {
    // SAFETY: (1) the caller, see # Safety.
    unsafe { fastinst_wasm_resume(code, frame, stack, exception) }
}
