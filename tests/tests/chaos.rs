//! Everything at once: threads that patch the same sites in every way, threads that execute them,
//! signals, threads that start and end, forks. A thread that executes a function sees one of its
//! numbers and no mixture, and at the end every site can be patched.
#![allow(unsafe_code)]

#[path = "../../wordpatch/tests/support/mod.rs"]
mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::{End, Function, StopWhenDropped, in_child, returning, start};
use wordpatch::{Barrier, Batch, FetchOrder, PatchError, PatchSite, Phase, Policy};

const SITES: usize = 6;

/// The duration of each scenario.
const LASTING: Duration = Duration::from_secs(2);

/// The numbers that functions return: all four bytes are the same, so that every mixture shows.
fn number(n: usize) -> u32 {
    u32::from_ne_bytes([(n % 7 + 1) as u8; 4])
}

fn is_whole(number: u32) -> bool {
    let bytes = number.to_ne_bytes();
    bytes == [bytes[0]; 4] || number == 1
}

/// The functions with the sites.
struct Stage {
    functions: Vec<Function>,
    sites: Vec<PatchSite>,
    stop: AtomicBool,
    calls: AtomicU64,
}

impl Stage {
    fn new(policy: &Policy) -> Self {
        let functions: Vec<Function> = (0..SITES).map(|_| Function::new()).collect();
        let sites = functions.iter().map(|function| function.adopt(policy)).collect();
        Self { functions, sites, stop: AtomicBool::new(false), calls: AtomicU64::new(0) }
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn execute(&self) {
        while self.goes_on() {
            for function in &self.functions {
                let returned = function.call();
                assert!(is_whole(returned), "torn: {returned:#x}");
            }
            self.calls.fetch_add(SITES as u64, Ordering::Relaxed);
        }
    }

    /// Patches one site in a random way, which another patching thread may prevent.
    fn patch(&self, n: usize) -> Result<(), PatchError> {
        let site = &self.sites[n % SITES];
        match n / SITES % 7 {
            0 => support::patch(site, number(n)),
            1 => start(site, number(n))?.finish(),
            2 => {
                start(site, number(n))?.finish_in_background();
                Ok(())
            }
            3 => {
                let mut pending = start(site, number(n))?;
                while pending.poll()? != Phase::Idle {}
                Ok(())
            }
            4 => {
                let mut batch = Batch::new();
                // SAFETY: (1) the instruction with another number.
                self.sites
                    .iter()
                    .for_each(|site| unsafe { batch.push(site, returning(number(n))) });
                batch.commit().map(drop)
            }
            5 => {
                // Left pending, for another thread to continue.
                std::mem::forget(start(site, number(n))?);
                Ok(())
            }
            _ => site.resume().map_or(Ok(()), wordpatch::Pending::finish),
        }
    }

    fn patch_on(&self, seed: usize) {
        let mut done = 0;
        for n in (seed..).step_by(5).take_while(|_| self.goes_on()) {
            match self.patch(n) {
                Ok(()) => done += 1,
                Err(PatchError::Contended { .. } | PatchError::Overlap { .. }) => self.take_up(n),
                Err(error) => panic!("{error}"),
            }
        }
        assert!(done > 0, "not one patch succeeded");
    }

    /// Finishes pending patches, so that those that were left do not block all threads.
    fn take_up(&self, n: usize) {
        if let Some(pending) = self.sites[n % SITES].resume() {
            pending.finish().unwrap();
        }
    }

    /// Whether every site can be patched, when no other thread does.
    fn can_be_patched(&self) -> bool {
        (0..SITES).all(|n| {
            self.take_up(n);
            support::patch(&self.sites[n], number(n)).unwrap();
            self.functions[n].call() == number(n)
        })
    }

    /// Runs `act` beside two patching and two executing threads.
    fn play(&self, act: impl FnOnce(&Self)) {
        std::thread::scope(|scope| {
            let _stop = StopWhenDropped(&self.stop);
            for seed in 0..2 {
                scope.spawn(move || self.execute());
                scope.spawn(move || self.patch_on(seed));
            }
            act(self);
        });
        assert!(self.can_be_patched());
        assert!(self.calls.load(Ordering::Relaxed) > 0);
    }
}

fn until_it_is_over() -> impl Iterator<Item = usize> {
    let end = Instant::now() + LASTING;
    (0..).take_while(move |_| Instant::now() < end)
}

/// The policies: each real barrier, under both orders of fetch.
fn policies() -> impl Iterator<Item = Policy> {
    let policy = Policy::new().unwrap();
    [Barrier::Membarrier, Barrier::Signal].into_iter().flat_map(move |barrier| {
        barrier.prepare().unwrap();
        [FetchOrder::Any, FetchOrder::Upwards].map(|order| Policy { barrier, order, ..policy })
    })
}

#[test]
fn threads_that_come_and_go_see_whole_words() {
    for policy in policies() {
        let end = in_child(|| {
            Stage::new(&policy).play(|stage| {
                for _ in until_it_is_over().step_by(4) {
                    let calls_once =
                        || stage.functions.iter().all(|function| is_whole(function.call()));
                    std::thread::scope(|scope| {
                        (0..4).for_each(|_| drop(scope.spawn(move || assert!(calls_once()))));
                    });
                }
            });
            0
        });
        assert_eq!(end, End::Exit(0), "{policy:?}");
    }
}

#[test]
fn handlers_that_execute_and_threads_that_are_interrupted_see_whole_words() {
    static STAGE: AtomicUsize = AtomicUsize::new(0);
    static TORN: AtomicU64 = AtomicU64::new(0);
    extern "C" fn executes(_: i32) {
        // SAFETY: (1) the stage outlives the signals.
        let stage = unsafe { &*(STAGE.load(Ordering::Acquire) as *const Stage) };
        for function in &stage.functions {
            TORN.fetch_add(u64::from(!is_whole(function.call())), Ordering::Relaxed);
        }
    }
    for policy in policies() {
        let end = in_child(|| {
            let stage = Stage::new(&policy);
            STAGE.store(&raw const stage as usize, Ordering::Release);
            // SAFETY: (1) the handler executes functions that touch no data.
            unsafe { libc::signal(libc::SIGUSR1, executes as *const () as usize) };
            stage.play(|_| {
                for _ in until_it_is_over() {
                    // SAFETY: (1) a signal to this process, with the handler above.
                    unsafe { libc::kill(libc::getpid(), libc::SIGUSR1) };
                    std::thread::sleep(Duration::from_micros(200));
                }
            });
            i32::from(TORN.load(Ordering::Relaxed) != 0)
        });
        assert_eq!(end, End::Exit(0), "{policy:?}");
    }
}

#[test]
fn children_of_a_fork_in_the_middle_of_it_all_see_whole_words_and_can_patch() {
    for policy in policies() {
        let end = in_child(|| {
            Stage::new(&policy).play(|stage| {
                for _ in until_it_is_over() {
                    let end = in_child(|| {
                        let whole =
                            stage.functions.iter().all(|function| is_whole(function.call()));
                        i32::from(!whole || !stage.can_be_patched())
                    });
                    assert_eq!(end, End::Exit(0));
                }
            });
            0
        });
        assert_eq!(end, End::Exit(0), "{policy:?}");
    }
}
