//! The delivery of traps while the program changes its handlers and its tracers.
#![allow(unsafe_code)]

#[path = "../../wordpatch/tests/support/mod.rs"]
mod support;

use std::arch::asm;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;
use support::{End, Function, OTHER, await_end, in_child, patch, start};
use wordpatch::{PatchError, Policy, TrapError};

/// How often each of the program's handlers was called.
static CALLS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

fn calls() -> [u32; 2] {
    CALLS.each_ref().map(|calls| calls.load(Ordering::Relaxed))
}

extern "C" fn first(_: i32) {
    CALLS[0].fetch_add(1, Ordering::Relaxed);
}

/// The action to which `second` passes its signals on.
static mut BEFORE_SECOND: std::mem::MaybeUninit<libc::sigaction> = std::mem::MaybeUninit::uninit();

extern "C" fn second(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    CALLS[1].fetch_add(1, Ordering::Relaxed);
    // SAFETY: (1) written before this handler was installed; (2) a handler with SA_SIGINFO, as the
    // crate's is.
    unsafe {
        let handler = (&raw const BEFORE_SECOND).read().assume_init().sa_sigaction;
        std::mem::transmute::<usize, extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void)>(
            handler,
        )(signal, info, context);
    }
}

fn install_first() {
    // SAFETY: (1) the handler counts.
    unsafe { libc::signal(libc::SIGTRAP, first as *const () as usize) };
}

/// Installs `second` over the current handler, to which it passes signals on.
fn install_second() {
    // SAFETY: (1) the handler is of the form that its flags say; (2) no trap comes meanwhile.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = second as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, (&raw mut BEFORE_SECOND).cast()), 0);
    }
}

/// Executes a trap of the program's own.
fn breakpoint() {
    // SAFETY: (1) a handler lets the thread continue after it.
    unsafe { asm!("int3") };
}

/// Checks that a trap of the crate is handled, however it is delivered.
fn trap_once(function: &Function, site: &wordpatch::PatchSite) {
    let pending = start(site, OTHER).unwrap();
    assert_eq!(function.call(), 1);
    pending.finish().unwrap();
    patch(site, 1).unwrap();
}

#[test]
fn a_handler_in_front_of_ours_passes_our_traps_on_to_us() {
    let end = in_child(|| {
        let function = Function::new();
        let site = function.adopt(&Policy::new().unwrap());
        install_first();
        wordpatch::install_trap_handler().unwrap();
        install_second();
        // The check of the handler stays valid for some milliseconds; a trap may occur in that
        // time.
        if let Ok(pending) = start(&site, OTHER) {
            assert_eq!((function.call(), calls()), (1, [0, 1]));
            pending.finish().unwrap();
        }
        breakpoint();
        i32::from(calls()[0] != 1)
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn handlers_on_both_sides_of_ours_each_get_the_programs_traps_once() {
    let end = in_child(|| {
        let function = Function::new();
        install_first();
        let site = function.adopt(&Policy::new().unwrap());
        install_second();
        wordpatch::install_trap_handler().unwrap();
        for round in 1..=3 {
            breakpoint();
            assert_eq!(calls(), [round, round]);
            trap_once(&function, &site);
            assert_eq!(calls(), [round, round], "a trap of ours is none of their business");
        }
        0
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn a_trap_that_no_handler_wants_kills_although_it_came_back_to_us() {
    let end = in_child(|| {
        let function = Function::new();
        let site = function.adopt(&Policy::new().unwrap());
        install_second();
        wordpatch::install_trap_handler().unwrap();
        trap_once(&function, &site);
        breakpoint();
        0
    });
    assert_eq!(end, End::Signal(libc::SIGTRAP));
}

#[test]
fn a_tracer_that_comes_later_is_named_and_forgotten_when_it_has_gone() {
    let end = in_child(|| {
        // Permits the child of this process to trace it (Yama allows it on request). SAFETY: (1)
        // the call takes numbers only; without Yama it fails, which does no harm.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
        let function = Function::new();
        let site = function.adopt(&Policy::new().unwrap());
        let shared = shared_number();
        let this = wordpatch::os::threads::process();
        // SAFETY: (1) the child makes system calls only.
        let tracer = unsafe { libc::fork() };
        if tracer == 0 {
            trace(this, shared);
        }
        while shared.load(Ordering::Acquire) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        if shared.load(Ordering::Acquire) < 0 {
            return 42;
        }
        std::thread::sleep(Duration::from_millis(100));
        let refused = patch(&site, OTHER);
        assert_eq!(
            refused,
            Err(PatchError::Trap { address: site.address(), why: TrapError::Traced { tracer } })
        );
        assert!(refused.unwrap_err().to_string().contains(&tracer.to_string()));
        assert_eq!(function.call(), 1);
        shared.store(2, Ordering::Release);
        assert_eq!(await_end(tracer), End::Exit(0));
        patch(&site, OTHER).unwrap();
        i32::from(function.call() != OTHER)
    });
    if end == End::Exit(42) {
        println!("SKIPPED: a process may not trace its parent here");
        return;
    }
    assert_eq!(end, End::Exit(0));
}

/// A number that this process and its children share.
fn shared_number() -> &'static AtomicI32 {
    let (read_write, shared) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: (1) a new mapping, zeroed and never unmapped.
    unsafe {
        &*libc::mmap(std::ptr::null_mut(), 4096, read_write, shared, -1, 0).cast::<AtomicI32>()
    }
}

/// Traces `process` until it must end. `shared` is 1 while it traces, -1 if it is not permitted to,
/// and 2 to make it end.
fn trace(process: i32, shared: &AtomicI32) -> ! {
    let nothing = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: (1) system calls on a process that waits for this one. Seizing does not stop it.
    unsafe {
        if libc::ptrace(libc::PTRACE_SEIZE, process, nothing, nothing) != 0 {
            shared.store(-1, Ordering::Release);
            libc::_exit(1);
        }
        shared.store(1, Ordering::Release);
        while shared.load(Ordering::Acquire) != 2 {
            libc::usleep(1000);
        }
        // When a tracer ends, its tracees continue.
        libc::_exit(0);
    }
}
