//! SIGTRAP is shared with the program. Each scenario runs in its own process, since the signal may
//! kill it.
#![allow(unsafe_code)]

mod support;

use std::arch::asm;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};
use support::{End, Function, OTHER, StopWhenDropped, in_child, patch, start};
use wordpatch::{
    AdoptError, Barrier, CodeMemory, Layout, PatchError, PatchSite, Phase, Policy, TrapError, Word,
};

/// The calls of the program's own handlers.
static CALLS: AtomicU32 = AtomicU32::new(0);
static CODE: AtomicI32 = AtomicI32::new(0);
static ADDRESS: AtomicUsize = AtomicUsize::new(0);
static BLOCKED: AtomicU32 = AtomicU32::new(0);

fn handle(handler: usize, flags: i32, also_block: &[i32]) {
    // SAFETY: (1) the handlers of this file store numbers only, and have the signature of their
    // flags.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        also_block
            .iter()
            .for_each(|&signal| assert_eq!(libc::sigaddset(&mut action.sa_mask, signal), 0));
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()), 0);
    }
}

extern "C" fn told(_: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    CALLS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: (1) the kernel's structures, passed on unchanged.
    unsafe {
        CODE.store((*info).si_code, Ordering::Relaxed);
        let registers = (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        ADDRESS.store(registers[libc::REG_RIP as usize] as usize, Ordering::Relaxed);
        let mut mask = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), &mut mask);
        let blocked =
            [libc::SIGUSR1, libc::SIGUSR2].map(|signal| libc::sigismember(&mask, signal) as u32);
        BLOCKED.store(blocked[0] | blocked[1] << 1, Ordering::Relaxed);
    }
}

extern "C" fn plain(_: i32) {
    CALLS.fetch_add(1, Ordering::Relaxed);
}

/// Executes a trap of the program's own; returns the address after it.
#[inline(never)]
fn breakpoint() -> usize {
    let behind: usize;
    // SAFETY: (1) an INT3, after which a handler lets the thread continue.
    unsafe { asm!("lea {0}, [rip + 2f]", "int3", "2:", out(reg) behind) };
    behind
}

/// Installs the crate's handler over the current one, and checks that it handles a trap of the
/// crate.
fn ours_in_front() {
    let function = Function::new();
    let site = function.adopt(&Policy::new().unwrap());
    let pending = start(&site, OTHER).unwrap();
    assert_eq!((pending.phase(), function.call()), (Phase::Trapped, 1));
    pending.finish().unwrap();
    assert_eq!(function.call(), OTHER);
}

#[test]
fn without_a_handler_a_trap_of_the_programs_own_kills_it() {
    let end = in_child(|| {
        ours_in_front();
        breakpoint();
        0
    });
    assert_eq!(end, End::Signal(libc::SIGTRAP));
}

#[test]
fn a_trap_cannot_be_ignored_but_a_signal_can() {
    let sent = in_child(|| {
        handle(libc::SIG_IGN, 0, &[]);
        ours_in_front();
        // SAFETY: (1) sends a signal to this process.
        unsafe { libc::raise(libc::SIGTRAP) };
        7
    });
    assert_eq!(sent, End::Exit(7));
    let trapped = in_child(|| {
        handle(libc::SIG_IGN, 0, &[]);
        ours_in_front();
        breakpoint();
        7
    });
    assert_eq!(trapped, End::Signal(libc::SIGTRAP));
}

#[test]
fn the_handler_before_ours_is_told_everything() {
    let end = in_child(|| {
        handle(told as *const () as usize, libc::SA_SIGINFO, &[libc::SIGUSR1]);
        ours_in_front();
        let behind = breakpoint();
        assert_eq!(CALLS.load(Ordering::Relaxed), 1, "traps of ours are none of its business");
        assert_eq!(
            (CODE.load(Ordering::Relaxed), ADDRESS.load(Ordering::Relaxed)),
            (libc::SI_KERNEL, behind)
        );
        assert_eq!(BLOCKED.load(Ordering::Relaxed), 1, "its mask is what it asked for");
        breakpoint();
        i32::from(CALLS.load(Ordering::Relaxed) != 2)
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn a_handler_that_wants_one_call_gets_one() {
    let end = in_child(|| {
        handle(plain as *const () as usize, libc::SA_RESETHAND, &[]);
        ours_in_front();
        breakpoint();
        assert_eq!(CALLS.load(Ordering::Relaxed), 1);
        breakpoint();
        0
    });
    assert_eq!(end, End::Signal(libc::SIGTRAP));
}

#[test]
fn a_replaced_handler_is_noticed_and_put_behind_ours_again() {
    let end = in_child(|| {
        let function = Function::new();
        let site = function.adopt(&Policy::new().unwrap());
        // Shortly before, patching works.
        patch(&site, OTHER).unwrap();
        patch(&site, 1).unwrap();
        handle(plain as *const () as usize, 0, &[]);
        let refused = patch(&site, OTHER);
        assert!(
            matches!(refused, Err(PatchError::Trap { why: TrapError::HandlerReplaced, .. })),
            "{refused:?}"
        );
        assert_eq!(function.call(), 1);
        wordpatch::install_trap_handler().unwrap();
        patch(&site, OTHER).unwrap();
        breakpoint();
        assert_eq!((function.call(), CALLS.load(Ordering::Relaxed)), (OTHER, 1));
        0
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn traps_are_served_on_an_alternate_stack_and_inside_a_handler() {
    static FUNCTION: AtomicUsize = AtomicUsize::new(0);
    static RETURNED: AtomicU32 = AtomicU32::new(0);
    extern "C" fn calls(_: i32) {
        // SAFETY: (1) the address of the function below.
        let function: extern "C" fn() -> u32 =
            unsafe { std::mem::transmute(FUNCTION.load(Ordering::Relaxed)) };
        RETURNED.store(function(), Ordering::Relaxed);
    }
    let end = in_child(|| {
        let function = Function::new();
        let site = function.adopt(&Policy::new().unwrap());
        FUNCTION.store(function.address().get(), Ordering::Relaxed);
        let mut stack = vec![0u8; 64 << 10];
        // SAFETY: (1) the stack outlives its use; (2) the handler calls a function that touches no
        // data.
        unsafe {
            let alternate = libc::stack_t {
                ss_sp: stack.as_mut_ptr().cast(),
                ss_flags: 0,
                ss_size: stack.len(),
            };
            assert_eq!(libc::sigaltstack(&alternate, std::ptr::null_mut()), 0);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = calls as *const () as usize;
            action.sa_flags = libc::SA_ONSTACK;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut()), 0);
        }
        let pending = start(&site, OTHER).unwrap();
        // SAFETY: (1) the handler above.
        unsafe { libc::raise(libc::SIGUSR2) };
        assert_eq!((RETURNED.load(Ordering::Relaxed), function.call()), (1, 1));
        pending.finish().unwrap();
        0
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn a_trap_leaves_errno_alone() {
    let end = in_child(|| {
        let function = Function::new();
        let site = function.adopt(&Policy::new().unwrap());
        let pending = start(&site, OTHER).unwrap();
        wordpatch::os::set_errno(1234);
        function.call();
        assert_eq!(wordpatch::os::errno(), 1234);
        pending.finish().unwrap();
        0
    });
    assert_eq!(end, End::Exit(0));
}

/// Tries to adopt a straddler, which must be refused; returns the reason.
fn refused() -> TrapError {
    let function = Function::new();
    // SAFETY: (1) to (4): no thread executes it.
    match unsafe { PatchSite::adopt(function.address(), 5, Layout::One, &Policy::new().unwrap()) } {
        Err(AdoptError::Trap { why, address }) if address == function.address() => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_thread_that_blocks_sigtrap_is_named() {
    let end = in_child(|| {
        // SAFETY: (1) a valid set.
        unsafe {
            let mut mask = std::mem::zeroed();
            libc::sigaddset(&mut mask, libc::SIGTRAP);
            libc::pthread_sigmask(libc::SIG_BLOCK, &mask, std::ptr::null_mut());
        }
        assert_eq!(refused(), TrapError::Blocked { thread: wordpatch::os::threads::current() });
        0
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn a_handler_that_blocks_sigtrap_is_named() {
    let end = in_child(|| {
        // SAFETY: (1) a handler that stores a number.
        let install = |mask: libc::sigset_t| unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = plain as *const () as usize;
            action.sa_mask = mask;
            assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
        };
        // SAFETY: (1) sets to write.
        let (all, none) = unsafe {
            let (mut all, mut none) = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::sigemptyset(&mut none);
            (all, none)
        };
        install(all);
        let why = refused();
        assert_eq!(why, TrapError::BlockedInHandler { signal: libc::SIGUSR1 });
        assert!(why.to_string().contains("SIGUSR1"), "{why}");
        install(none);
        let function = Function::new();
        let site = function.adopt(&Policy::new().unwrap());
        patch(&site, OTHER).unwrap();
        // A later patch detects a handler that was installed later.
        install(all);
        let mut number = OTHER;
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let late = loop {
            number ^= 0x0101_0101;
            match patch(&site, number) {
                Ok(()) => assert!(std::time::Instant::now() < deadline, "it is not seen"),
                Err(error) => break error,
            }
        };
        assert!(
            matches!(late, PatchError::Trap { why: TrapError::BlockedInHandler { .. }, .. }),
            "{late}"
        );
        0
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn a_traced_process_is_refused_with_its_tracer() {
    // SAFETY: (1) as in `in_child`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: (1) numbers only.
        unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
        // The tracer is the parent's thread, whose id is not the process's.
        let code = i32::from(!matches!(refused(), TrapError::Traced { tracer } if tracer > 0));
        // SAFETY: (1) ends the process.
        unsafe { libc::_exit(code) };
    }
    assert_eq!(support::await_end(child), End::Exit(0));
}

/// A signal stack of the least size, below which nothing is mapped.
fn least_signal_stack() -> libc::stack_t {
    const LEAST: usize = 8192;
    // SAFETY: (1) fresh memory, the lower half of which no code may touch.
    unsafe {
        let (none, all) = (libc::PROT_NONE, libc::PROT_READ | libc::PROT_WRITE);
        let at = libc::mmap(
            std::ptr::null_mut(),
            2 * LEAST,
            all,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(at, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(at, LEAST, none), 0);
        libc::stack_t { ss_sp: at.byte_add(LEAST), ss_flags: 0, ss_size: LEAST }
    }
}

/// The number of its bytes that were ever written to.
fn used(stack: &libc::stack_t) -> usize {
    // SAFETY: (1) memory as above, which no handler uses any more.
    let bytes = unsafe { std::slice::from_raw_parts(stack.ss_sp.cast::<u8>(), stack.ss_size) };
    bytes.iter().position(|&byte| byte != 0).map_or(0, |lowest| stack.ss_size - lowest)
}

/// The most that the kernel needs for one signal.
fn one_frame() -> usize {
    // SAFETY: (1) a number.
    unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) as usize }
}

#[test]
fn threads_with_the_least_signal_stack_wait_for_a_patch_and_answer_others() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let end = in_child(|| {
        Barrier::Signal.prepare().unwrap();
        let policy = Policy { barrier: Barrier::Signal, ..Policy::new().unwrap() };
        // A multiplication, which the handler cannot emulate: a thread that hits the trap waits, or
        // finishes the patch itself.
        let product = |factor: u32| [&[0x69, 0xc7][..], &factor.to_le_bytes()].concat();
        let functions: Vec<CodeMemory> = (0..2)
            .map(|_| {
                let mut memory = CodeMemory::new(4096).unwrap();
                memory.write(61, &[&product(1)[..], &[0xc3]].concat());
                memory
            })
            .collect();
        std::thread::scope(|scope| {
            let _stop = StopWhenDropped(&STOP);
            for _ in 0..3 {
                scope.spawn(|| {
                    let stack = least_signal_stack();
                    // SAFETY: (1) a stack that stays mapped.
                    assert_eq!(unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) }, 0);
                    let mut sum = 0u64;
                    while !STOP.load(Ordering::Relaxed) {
                        for memory in &functions {
                            // SAFETY: (1) `imul eax, edi, imm32; ret`, in every state.
                            let multiply: extern "C" fn(u32) -> u32 =
                                unsafe { std::mem::transmute(memory.base().offset(61).as_ptr()) };
                            assert!([1, OTHER].contains(&multiply(1)), "torn");
                            sum += 1;
                        }
                    }
                    assert!(sum > 0);
                    assert!(
                        used(&stack) <= one_frame() + 2048,
                        "{} of {}",
                        used(&stack),
                        stack.ss_size
                    );
                });
            }
            let patchers: Vec<_> = functions
                .iter()
                .map(|memory| {
                    // SAFETY: (1) the memory outlives the site; (2) to (4): one instruction, which
                    // only this test writes.
                    let site = unsafe {
                        PatchSite::adopt(memory.base().offset(61), 6, Layout::One, &policy)
                    }
                    .unwrap();
                    scope.spawn(move || {
                        for round in 0..2000 {
                            let factor = [OTHER, 1][round % 2];
                            // SAFETY: (1) the same with another factor.
                            unsafe { site.patch(Word::new(&product(factor)).unwrap()) }.unwrap();
                        }
                    })
                })
                .collect();
            patchers.into_iter().for_each(|patcher| patcher.join().unwrap());
        });
        0
    });
    assert_eq!(end, End::Exit(0));
}

/// How far below the kernel's frame bytes were written while `act` ran on a painted signal stack.
fn below_the_frame(act: impl FnOnce()) -> usize {
    static FRAME: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn note(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // After the return address of a handler comes the context.
        FRAME.store(context.addr() - 8, Ordering::Relaxed);
    }
    const PAINT: u8 = 0xa5;
    let mut stack = vec![PAINT; one_frame() + (64 << 10)];
    let alternate =
        libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
    // SAFETY: (1) the stack is no longer used when it is dropped; (2) the handler stores a number.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK | libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
        assert_eq!(libc::sigaltstack(&alternate, std::ptr::null_mut()), 0);
        libc::raise(libc::SIGUSR1);
        stack.fill(PAINT);
        act();
        let none =
            libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        assert_eq!(libc::sigaltstack(&none, std::ptr::null_mut()), 0);
    }
    let lowest = stack.iter().position(|&byte| byte != PAINT).expect("the act took a signal");
    FRAME.load(Ordering::Relaxed) - (stack.as_ptr().addr() + lowest)
}

/// The most that a handler of the crate may use of a signal stack beyond the kernel's frame.
const LITTLE: usize = 256;

#[test]
fn traps_take_hardly_more_of_a_signal_stack_than_the_kernel() {
    let end = in_child(|| {
        let function = Function::new();
        let site = function.adopt(&Policy::new().unwrap());
        let pending = start(&site, OTHER).unwrap();
        let carried_out = below_the_frame(|| assert_eq!(function.call(), 1));
        pending.finish().unwrap();
        let mut memory = CodeMemory::new(4096).unwrap();
        memory.write(61, &[0x69, 0xc7, 1, 0, 0, 0, 0xc3]);
        // SAFETY: (1) the memory outlives the site; (2) to (4): one instruction, `imul eax, edi,
        // imm32`, which only this test writes, and which stays the same with another factor.
        let finished = unsafe {
            let site =
                PatchSite::adopt(memory.base().offset(61), 6, Layout::One, &Policy::new().unwrap())
                    .unwrap();
            let pending = site.start(Word::new(&[0x69, 0xc7, 5, 5, 5, 5]).unwrap()).unwrap();
            let multiply: extern "C" fn(u32) -> u32 =
                std::mem::transmute(memory.base().offset(61).as_ptr());
            let finished = below_the_frame(|| assert_eq!(multiply(1), OTHER));
            pending.finish().unwrap();
            finished
        };
        assert!(carried_out <= LITTLE && finished <= LITTLE, "{carried_out} and {finished} bytes");
        0
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn answers_to_the_signal_barrier_take_hardly_more_of_a_signal_stack_than_the_kernel() {
    let end = in_child(|| {
        Barrier::Signal.prepare().unwrap();
        let (ready, done) = (&AtomicBool::new(false), &AtomicBool::new(false));
        let taken = std::thread::scope(|scope| {
            let called = scope.spawn(|| {
                below_the_frame(|| {
                    ready.store(true, Ordering::Release);
                    while !done.load(Ordering::Acquire) {
                        std::hint::spin_loop();
                    }
                })
            });
            while !ready.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            Barrier::Signal.pass().unwrap();
            done.store(true, Ordering::Release);
            called.join().unwrap()
        });
        assert!(taken <= LITTLE, "{taken} bytes");
        0
    });
    assert_eq!(end, End::Exit(0));
}
