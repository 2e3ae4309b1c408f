//! Forks at all critical times.
#![allow(unsafe_code)]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use support::{End, Function, OTHER, StopWhenDropped, await_end, in_child, patch, start};
use wordpatch::os::pages::{self, PAGE, Place, Protection};
use wordpatch::{CodeMemory, PatchError, Phase, Policy};

#[test]
fn parent_and_child_patch_each_for_itself() {
    let function = Function::new();
    let site = function.adopt(&Policy::new().unwrap());
    let end = in_child(|| {
        patch(&site, OTHER).unwrap();
        i32::from(function.call() != OTHER)
    });
    assert_eq!((end, function.call()), (End::Exit(0), 1));
    patch(&site, OTHER).unwrap();
    assert_eq!(function.call(), OTHER);
}

/// Lowers a limit of the calling process.
fn limit(resource: libc::__rlimit_resource_t, to: u64) {
    let limit = libc::rlimit { rlim_cur: to, rlim_max: to };
    // SAFETY: (1) a valid structure.
    assert_eq!(unsafe { libc::setrlimit(resource, &raw const limit) }, 0);
}

#[test]
fn code_memory_and_children_of_their_own_need_no_file() {
    let end = in_child(|| {
        limit(libc::RLIMIT_FSIZE, 0);
        let function = Function::new();
        let policy = Policy::new().unwrap();
        let site = function.adopt(&policy);
        limit(libc::RLIMIT_NOFILE, 0);
        let end = in_child(|| {
            assert!(wordpatch::owns_code());
            // SAFETY: (1) `mov eax, imm32` in place of the same with another number.
            unsafe { site.patch(support::returning(0x101)) }.unwrap();
            drop(CodeMemory::new(4096).unwrap());
            i32::from(function.call() != 0x101)
        });
        assert_eq!((end, function.call()), (End::Exit(0), 1));
        0
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn a_parent_goes_on_while_its_child_is_stopped() {
    use std::sync::atomic::AtomicI32;
    static WAITS: AtomicI32 = AtomicI32::new(-1);
    /// A fork handler that runs in the child before the crate's: it waits for a byte that the
    /// parent writes after its fork has returned.
    extern "C" fn wait() {
        let from = WAITS.load(Ordering::Relaxed);
        let mut poll = libc::pollfd { fd: from, events: libc::POLLIN, revents: 0 };
        // SAFETY: (1) one structure.
        if from != -1 && unsafe { libc::poll(&raw mut poll, 1, 8_000) } != 1 {
            // SAFETY: (1) ends the process.
            unsafe { libc::_exit(50) };
        }
    }
    let end = in_child(|| {
        let mut ends = [-1; 2];
        // SAFETY: (1) two numbers to write; (2) handlers that live as long as the process.
        unsafe {
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            assert_eq!(libc::pthread_atfork(None, None, Some(wait)), 0);
        }
        // This is the first registered handler: the process is new, and nothing was patched in it.
        let function = Function::new();
        WAITS.store(ends[0], Ordering::Relaxed);
        // SAFETY: (1) the child makes one call.
        match unsafe { libc::fork() } {
            // SAFETY: (1) ends the process.
            0 => unsafe { libc::_exit(i32::from(function.call() != 1)) },
            child => {
                // SAFETY: (1) a byte.
                assert_eq!(unsafe { libc::write(ends[1], b"!".as_ptr().cast(), 1) }, 1);
                i32::from(await_end(child) != End::Exit(0))
            }
        }
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn a_child_for_which_there_is_no_memory_lives_and_patches_nothing() {
    let end = in_child(|| {
        let function = Function::new();
        let site = function.adopt(&Policy::new().unwrap());
        // No further page can be mapped.
        limit(libc::RLIMIT_AS, 0);
        let end = in_child(|| {
            assert_eq!(function.call(), 1);
            let refused = patch(&site, OTHER).unwrap_err();
            assert!(
                matches!(refused, PatchError::Overlap { .. } | PatchError::Contended { .. }),
                "{refused}"
            );
            i32::from(function.call() != 1 || wordpatch::owns_code())
        });
        assert_eq!((end, function.call()), (End::Exit(0), 1));
        patch(&site, OTHER).unwrap();
        i32::from(function.call() != OTHER)
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn a_patch_that_is_pending_is_finished_in_the_child_and_pending_in_the_parent() {
    let function = Function::new();
    let site = function.adopt(&Policy::new().unwrap());
    let pending = start(&site, OTHER).unwrap();
    let end = in_child(|| {
        assert_eq!((site.phase(), function.call()), (Phase::Idle, OTHER));
        patch(&site, 1).unwrap();
        i32::from(function.call() != 1)
    });
    assert_eq!((end, pending.phase(), function.call()), (End::Exit(0), Phase::Trapped, 1));
    pending.finish().unwrap();
    assert_eq!(function.call(), OTHER);
}

#[test]
fn children_of_a_process_that_never_stops_patching_patch_too() {
    let function = &Function::new();
    let policy = Policy::new().unwrap();
    let (site, second) = (&function.adopt(&policy), Function::new());
    let own = second.adopt(&policy);
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopWhenDropped(stop);
        scope.spawn(move || {
            let mut number = OTHER;
            while !stop.load(Ordering::Relaxed) {
                patch(site, number).unwrap();
                number = if number == OTHER { 1 } else { OTHER };
            }
        });
        for _ in 0..100 {
            let end = in_child(|| {
                assert!([1, OTHER].contains(&function.call()), "torn");
                // Whatever the parent's patching thread was doing, both sites are free in the
                // child.
                patch(site, 1).unwrap();
                patch(&own, OTHER).unwrap();
                start(site, OTHER).unwrap().finish_in_background();
                while site.phase() != Phase::Idle {
                    std::thread::yield_now();
                }
                i32::from(function.call() != OTHER || second.call() != OTHER)
            });
            assert_eq!(end, End::Exit(0));
        }
    });
}

#[test]
fn commands_are_started_while_patching_goes_on() {
    let function = Function::new();
    let site = function.adopt(&Policy::new().unwrap());
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopWhenDropped(stop);
        scope.spawn(|| {
            let mut patches = 0u32;
            while !stop.load(Ordering::Relaxed) {
                patch(&site, [OTHER, 1][patches as usize % 2]).unwrap();
                patches += 1;
            }
        });
        for _ in 0..20 {
            assert!(std::process::Command::new("true").status().unwrap().success());
        }
    });
}

#[test]
fn code_memory_takes_the_place_of_code_that_is_mapped_and_is_a_childs_own_too() {
    // SAFETY: (1) new memory, which the code memory will own.
    let at = unsafe { pages::map_private(Place::Anywhere, PAGE, Protection::ReadWrite) }.unwrap();
    // SAFETY: (1) six bytes of it: `mov eax, 1; ret`; (2) as above.
    unsafe {
        (at.get() as *mut [u8; 6]).write([0xb8, 1, 0, 0, 0, 0xc3]);
        pages::protect(at, PAGE, Protection::ReadExecute).unwrap();
    }
    // SAFETY: (1) one function, which lives as long as the memory.
    let call =
        || unsafe { std::mem::transmute::<*const u8, extern "C" fn() -> u32>(at.as_ptr())() };
    assert_eq!(call(), 1);
    // SAFETY: (1) a whole page of the test's own.
    let mut memory = unsafe { CodeMemory::over(at, PAGE) }.unwrap();
    assert_eq!((memory.base(), call()), (at, 1));
    let end = in_child(|| {
        memory.write(1, &OTHER.to_le_bytes());
        i32::from(call() != OTHER)
    });
    assert_eq!((end, call()), (End::Exit(0), 1));
}
