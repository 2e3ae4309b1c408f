//! Retargets: of one site, of many, and refused ones.
#![allow(unsafe_code)]

mod support;

use callpatch::{
    Broken, CallSite, Form, Retarget, RetargetError, Role, SetError, Strategy, Survey, Switch,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::{Function, OFF, kinds};
use wordpatch::{Barrier, BarrierError, FetchOrder, Policy};

fn policy() -> Policy {
    Policy::new().unwrap()
}

/// Retargets the sites of `functions` to their hook number `n`.
fn retarget(
    functions: &[Function],
    sites: &mut [CallSite],
    n: usize,
    policy: Policy,
) -> Result<callpatch::Retargeted, RetargetError> {
    let mut batch = Retarget::new(policy);
    for (function, site) in functions.iter().zip(sites) {
        // SAFETY: (1) a hook of the function; (2) mapped as long as the function lives.
        unsafe { batch.push(site, function.target(n))? };
    }
    batch.commit()
}

/// One test at a time: one of them needs a thread that blocks SIGTRAP, which makes the others fail.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_site_of_every_form_is_led_elsewhere_and_keeps_its_state() {
    let _alone = alone();
    let mut survey = Survey::new(policy()).unwrap();
    for order in [FetchOrder::Upwards, FetchOrder::Any] {
        let policy = Policy { order, ..policy() };
        for (form, role) in kinds() {
            for at in 512..528 {
                let function = Function::new(form, role, at);
                let mut site = function.adopt_by(&mut survey);
                // SAFETY: (1) and (2): as above.
                unsafe { site.retarget(function.target(1), &policy) }.unwrap();
                assert_eq!(
                    (function.call(), site.destination()),
                    (3, function.leads_to(1)),
                    "{form:?} {role:?} {at}"
                );
                site.set(Switch::Off).unwrap();
                // SAFETY: (1) and (2): as above.
                unsafe { site.retarget(function.target(0), &policy) }.unwrap();
                assert_eq!((function.call(), site.state()), (OFF, Some(Switch::Off)));
                site.set(Switch::On).unwrap();
                assert_eq!(function.call(), 2, "{form:?} {role:?} {at}");
            }
        }
    }
}

#[test]
fn a_thousand_sites_pass_one_barrier() {
    let _alone = alone();
    for (order, barriers) in [(FetchOrder::Upwards, 1), (FetchOrder::Any, 2)] {
        let policy = Policy { order, ..policy() };
        let mut survey = Survey::new(policy).unwrap();
        let functions: Vec<Function> =
            (0..1000).map(|i| Function::new(Form::Call, Role::Call, 512 + i % 64)).collect();
        let mut sites: Vec<CallSite> =
            functions.iter().map(|function| function.adopt_by(&mut survey)).collect();
        let done = retarget(&functions, &mut sites, 1, policy).unwrap();
        assert_eq!((done.sites, done.barriers), (1000, barriers));
        assert!(functions.iter().all(|function| function.call() == 3));
    }
}

#[test]
fn nothing_is_an_easy_batch() {
    let _alone = alone();
    let batch = Retarget::new(policy());
    assert!(batch.is_empty());
    assert_eq!(batch.commit().unwrap().barriers, 0);
}

#[test]
fn a_target_out_of_reach_is_refused_by_name() {
    let _alone = alone();
    let function = Function::new(Form::Call, Role::Call, 512);
    let mut site = function.adopt(&policy());
    let far = site.address().offset(1 << 32);
    // SAFETY: (1) and (2): refused.
    let refused = unsafe { site.retarget(far, &policy()) };
    assert_eq!(refused, Err(RetargetError::OutOfReach { address: site.address(), target: far }));
    assert_eq!(function.call(), 2);
}

#[test]
fn one_site_twice_in_a_batch_is_refused() {
    let _alone = alone();
    let function = Function::new(Form::Call, Role::Call, 512);
    let site = function.adopt(&policy());
    let mut batch = Retarget::new(policy());
    // SAFETY: (1) to (3): the test's own function, and refused.
    unsafe {
        batch.push_shared(&site, function.target(1)).unwrap();
        batch.push_shared(&site, function.target(0)).unwrap();
    }
    assert_eq!(batch.commit(), Err(RetargetError::Twice { address: site.address() }));
    assert_eq!(function.call(), 2);
}

#[test]
fn a_batch_with_a_foreign_byte_in_it_changes_nothing() {
    let _alone = alone();
    let mut functions: Vec<Function> =
        (0..3).map(|_| Function::new(Form::Call, Role::Call, 512)).collect();
    let mut sites: Vec<CallSite> =
        functions.iter().map(|function| function.adopt(&policy())).collect();
    functions[2].write(0, &[0xcc]);
    let refused = retarget(&functions, &mut sites, 1, policy());
    assert!(
        matches!(refused, Err(RetargetError::Off(SetError::Foreign { address, .. })) if address == sites[2].address())
    );
    assert_eq!((functions[0].call(), functions[1].call(), functions[2].byte(0)), (2, 2, 0xcc));
}

/// Runs `body` beside a thread that answers no signal.
fn beside_a_silent_thread(body: impl FnOnce()) {
    let (over, silent) = (&AtomicBool::new(false), &AtomicBool::new(false));
    std::thread::scope(|scope| {
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _over = Over(over);
        scope.spawn(|| {
            let mut all = std::mem::MaybeUninit::uninit();
            // SAFETY: (1) the set is filled before it is read.
            unsafe {
                libc::sigfillset(all.as_mut_ptr());
                libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
            }
            silent.store(true, Ordering::Relaxed);
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        while !silent.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        body();
    });
}

#[test]
fn without_a_barrier_the_sites_are_left_as_they_were() {
    let _alone = alone();
    let policy = Policy { barrier: Barrier::Signal, ..policy() };
    policy.barrier.prepare().unwrap();
    let functions = [
        Function::new(Form::Call, Role::Call, 512),
        Function::new(Form::Jump, Role::TailJump, 512),
    ];
    let mut sites: Vec<CallSite> =
        functions.iter().map(|function| function.adopt(&policy)).collect();
    sites[1].set(Switch::Off).unwrap();
    beside_a_silent_thread(|| {
        let refused = retarget(&functions, &mut sites, 1, policy);
        assert!(
            matches!(refused, Err(RetargetError::Barrier(BarrierError::Silent(_)))),
            "{refused:?}"
        );
    });
    assert_eq!((functions[0].call(), functions[1].call()), (2, OFF));
    assert!(sites.iter().all(CallSite::is_settled));
}

#[test]
fn a_retarget_that_was_broken_off_leaves_sites_off_until_the_next() {
    let _alone = alone();
    // A call through a slot that a boundary cuts needs a trap, whose barrier fails although the
    // batch's own passed.
    let function = Function::new(Form::CallMemory, Role::Call, 515);
    let mut site = function.adopt(&policy());
    let mut batch = Retarget::new(policy());
    // SAFETY: (1) and (2): the test's own function.
    unsafe { batch.push(&mut site, function.target(1)) }.unwrap();
    let blocked = block_traps(|| batch.commit());
    let Err(RetargetError::BrokenOff { address, why }) = blocked else { panic!("{blocked:?}") };
    assert!(
        matches!(why, Broken::Adopt(_) | Broken::Word(_)) && address == site.address(),
        "{why}"
    );
    assert_eq!((function.call(), site.is_settled()), (OFF, false));
    assert_eq!(site.set(Switch::On), Err(SetError::Unsettled { address: site.address() }));
    // SAFETY: (1) and (2): as above.
    unsafe { site.retarget(function.target(1), &policy()) }.unwrap();
    assert!(site.is_settled());
    site.set(Switch::On).unwrap();
    assert_eq!(function.call(), 3);
}

#[test]
fn where_no_thread_comes_by_no_displacement_needs_a_trap() {
    let _alone = alone();
    let function = Function::new(Form::CallMemory, Role::Call, 515);
    let mut site = function.adopt(&policy());
    let mut batch = Retarget::new(policy());
    // SAFETY: (1) and (2): the test's own function.
    unsafe { batch.push(&mut site, function.target(1)) }.unwrap();
    // SAFETY: (1) and (2): no other thread and no handler calls the function.
    block_traps(|| unsafe { batch.commit_alone() }).unwrap();
    assert!(site.is_settled());
    assert_eq!(function.call(), 3);
    site.set(Switch::Off).unwrap();
    assert_eq!(function.call(), OFF);
}

/// Runs `body` on a thread that a trap would kill.
fn block_traps<T>(body: impl FnOnce() -> T) -> T {
    let change = |how| {
        let mut trap = std::mem::MaybeUninit::uninit();
        // SAFETY: (1) the set is made before it is read.
        unsafe {
            libc::sigemptyset(trap.as_mut_ptr());
            libc::sigaddset(trap.as_mut_ptr(), libc::SIGTRAP);
            libc::pthread_sigmask(how, trap.as_ptr(), std::ptr::null_mut());
        }
    };
    change(libc::SIG_BLOCK);
    let result = body();
    change(libc::SIG_UNBLOCK);
    result
}

#[test]
fn a_site_of_the_literatures_keeps_its_target() {
    let _alone = alone();
    let function = Function::new(Form::Call, Role::Call, 512);
    // SAFETY: (1) to (5): the test's own function; (6) a hook begins with an instruction, and is
    // not called here.
    let site = Survey::new(policy())
        .unwrap()
        .with_strategy(Strategy::Paper { ret: function.target(0).offset(5) });
    let mut site = function.adopt_by(&mut { site });
    // SAFETY: refused.
    let refused = unsafe { site.retarget(function.target(1), &policy()) };
    assert_eq!(refused, Err(RetargetError::Strategy { address: site.address() }));
}
