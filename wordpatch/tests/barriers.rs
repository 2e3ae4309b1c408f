//! Barriers if the kernel, a sandbox or the program's threads prevent them.
#![allow(unsafe_code)]

mod support;

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;
use support::{End, Function, OTHER, StopWhenDropped, in_child, patch};
use wordpatch::os::threads;
use wordpatch::{Barrier, BarrierError, PatchError, Policy};

fn with_signals() -> Policy {
    Barrier::Signal.prepare().unwrap();
    Policy { barrier: Barrier::Signal, ..Policy::new().unwrap() }
}

#[test]
fn the_signal_barrier_reaches_sleepers_and_spinners() {
    let end = in_child(|| {
        static STOP: AtomicBool = AtomicBool::new(false);
        let function = Function::new();
        let site = function.adopt(&with_signals());
        std::thread::scope(|scope| {
            let _stop = StopWhenDropped(&STOP);
            for _ in 0..8 {
                scope.spawn(|| {
                    while !STOP.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(50));
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    while !STOP.load(Ordering::Relaxed) {
                        assert!([1, OTHER].contains(&function.call()), "torn");
                    }
                });
            }
            for round in 0..50 {
                patch(&site, [OTHER, 1][round % 2]).unwrap();
            }
        });
        0
    });
    assert_eq!(end, End::Exit(0));
}

/// A thread that blocks all signals that can be blocked, except SIGTRAP, until the end of the test.
fn deaf_thread(stop: &'static AtomicBool) -> (threads::Tid, std::thread::JoinHandle<()>) {
    static TID: AtomicI32 = AtomicI32::new(0);
    let thread = std::thread::spawn(|| {
        // SAFETY: (1) a valid set.
        unsafe {
            let mut mask = std::mem::zeroed();
            libc::sigfillset(&mut mask);
            libc::sigdelset(&mut mask, libc::SIGTRAP);
            libc::pthread_sigmask(libc::SIG_BLOCK, &mask, std::ptr::null_mut());
        }
        TID.store(threads::current().0, Ordering::Release);
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    while TID.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    (threads::Tid(TID.load(Ordering::Acquire)), thread)
}

#[test]
fn a_thread_that_cannot_answer_is_named_and_the_patch_taken_back() {
    let end = in_child(|| {
        static STOP: AtomicBool = AtomicBool::new(false);
        let function = Function::new();
        let site = function.adopt(&with_signals());
        let (tid, thread) = deaf_thread(&STOP);
        match patch(&site, OTHER) {
            Err(PatchError::Barrier(BarrierError::Silent(silent))) => {
                assert_eq!((silent.count(), silent.threads()), (1, &[tid][..]));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!((function.call(), site.phase()), (1, wordpatch::Phase::Idle));
        STOP.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        patch(&site, OTHER).unwrap();
        i32::from(function.call() != OTHER)
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn a_thread_that_never_answers_is_sent_one_signal_and_answers_when_it_can() {
    static GO: AtomicBool = AtomicBool::new(false);
    let end = in_child(|| {
        Barrier::Signal.prepare().unwrap();
        let ready = &AtomicBool::new(false);
        let pending = std::thread::scope(|scope| {
            let _go = StopWhenDropped(&GO);
            let deaf = scope.spawn(move || {
                // SAFETY: (1) valid sets; (2) a signal that is accepted instead of handled is only
                // counted.
                unsafe {
                    let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
                    libc::sigfillset(&mut all);
                    libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before);
                    ready.store(true, Ordering::Release);
                    while !GO.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    let (mut taken, mut info, at_once) =
                        (0, std::mem::zeroed(), std::mem::zeroed());
                    while libc::sigtimedwait(&all, &mut info, &at_once) > 0 {
                        taken += 1;
                    }
                    libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
                    taken
                }
            });
            while !ready.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            for _ in 0..2 {
                assert!(matches!(Barrier::Signal.pass(), Err(BarrierError::Silent(_))));
            }
            GO.store(true, Ordering::Release);
            deaf.join().unwrap()
        });
        assert_eq!(pending, 1, "signals");
        Barrier::Signal.pass().unwrap();
        0
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn a_late_answer_is_good_for_the_call_that_is_under_way() {
    static GO: AtomicBool = AtomicBool::new(false);
    let end = in_child(|| {
        Barrier::Signal.prepare().unwrap();
        let ready = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _go = StopWhenDropped(&GO);
            scope.spawn(move || {
                // SAFETY: (1) valid sets.
                unsafe {
                    let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
                    libc::sigfillset(&mut all);
                    libc::pthread_sigmask(libc::SIG_BLOCK, &all, &mut before);
                    ready.store(true, Ordering::Release);
                    while !GO.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    // Another call is about to begin, or has begun.
                    (0..100).for_each(|_| std::thread::yield_now());
                    libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
                }
            });
            while !ready.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            assert!(matches!(Barrier::Signal.pass(), Err(BarrierError::Silent(_))));
            GO.store(true, Ordering::Release);
            Barrier::Signal.pass().unwrap();
        });
        0
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn a_child_of_vfork_makes_the_signal_barrier_refuse() {
    let end = in_child(|| {
        let function = Function::new();
        let site = function.adopt(&with_signals());
        // The thread that calls vfork waits until its child, `sleep`, has begun; a child from a
        // bare clone stays for a short time.
        let parent = std::thread::spawn(|| {
            extern "C" fn sleeps(_: *mut libc::c_void) -> i32 {
                std::thread::sleep(Duration::from_millis(300));
                0
            }
            let mut stack = vec![0u8; 64 << 10];
            // SAFETY: (1) the stack outlives the child, for whose end CLONE_VFORK waits; (2) it
            // only sleeps.
            unsafe {
                let top = stack.as_mut_ptr().add(stack.len() & !15);
                let child = libc::clone(
                    sleeps,
                    top.cast(),
                    libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
                    std::ptr::null_mut(),
                );
                assert!(child > 0);
                libc::waitpid(child, std::ptr::null_mut(), 0);
            }
        });
        while threads::vfork_child().unwrap().is_none() {
            std::thread::yield_now();
        }
        let refused = patch(&site, OTHER);
        assert!(
            matches!(refused, Err(PatchError::Barrier(BarrierError::VforkChild { .. }))),
            "{refused:?}"
        );
        parent.join().unwrap();
        patch(&site, OTHER).unwrap();
        i32::from(function.call() != OTHER)
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn a_program_that_handles_every_real_time_signal_leaves_none() {
    let end = in_child(|| {
        extern "C" fn nothing(_: i32) {}
        for signal in libc::SIGRTMIN()..=libc::SIGRTMAX() {
            // SAFETY: (1) the handler does nothing.
            unsafe { libc::signal(signal, nothing as *const () as usize) };
        }
        i32::from(Barrier::Signal.prepare() != Err(BarrierError::NoSignalFree))
    });
    assert_eq!(end, End::Exit(0));
}

/// Makes `number`, for this thread and those it starts, fail with `errno`.
fn forbid(number: libc::c_long, errno: i32) {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: (1) the program is valid and lives across the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
            0
        );
    }
}

#[test]
fn without_membarrier_the_signal_barrier_takes_over() {
    for errno in [libc::ENOSYS, libc::EPERM] {
        let end = in_child(|| {
            forbid(libc::SYS_membarrier, errno);
            let explicit = Barrier::Membarrier.prepare();
            assert!(matches!(explicit, Err(BarrierError::Membarrier(_))), "{explicit:?}");
            let policy = Policy::new().unwrap();
            assert_eq!(policy.barrier, Barrier::Signal);
            let function = Function::new();
            patch(&function.adopt(&policy), OTHER).unwrap();
            i32::from(function.call() != OTHER)
        });
        assert_eq!(end, End::Exit(0), "errno {errno}");
    }
}

#[test]
fn a_forked_child_needs_no_registration_of_its_own() {
    let function = Function::new();
    let site = function.adopt(&Policy::new().unwrap());
    patch(&site, OTHER).unwrap();
    let end = in_child(|| {
        patch(&site, 1).unwrap();
        i32::from(function.call() != 1)
    });
    assert_eq!(end, End::Exit(0));
    assert_eq!(function.call(), OTHER, "the child's code memory is its own");
}
