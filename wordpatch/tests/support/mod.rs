//! Shared code of the process tests: children that run one scenario, and a function with a site
//! across a boundary.
#![allow(unsafe_code, dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wordpatch::{CodeAddr, CodeMemory, Layout, PatchSite, Policy, Word};

/// Stops the threads that poll the flag, even if the test fails: their scope waits for them.
pub struct StopWhenDropped<'a>(pub &'a AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exit(i32),
    Signal(i32),
    /// It did not end within the time limit.
    Hung,
}

/// The time after which a child counts as hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `scenario` in a forked child and returns how the child ended. A panic is exit status 101.
pub fn in_child(scenario: impl FnOnce() -> i32) -> End {
    // SAFETY: (1) the child runs one scenario on one thread and exits without running the parent's
    // code.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(scenario));
        // SAFETY: (1) ends the process.
        unsafe { libc::_exit(outcome.unwrap_or(101)) };
    }
    await_end(child)
}

pub fn await_end(child: i32) -> End {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut status = 0;
        // SAFETY: (1) `status` is written by the call.
        match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } {
            0 if Instant::now() > deadline => {
                // SAFETY: (1) both calls take numbers only.
                unsafe {
                    libc::kill(child, libc::SIGKILL);
                    libc::waitpid(child, &mut status, 0);
                }
                return End::Hung;
            }
            0 => std::thread::sleep(Duration::from_millis(2)),
            _ if libc::WIFEXITED(status) => return End::Exit(libc::WEXITSTATUS(status)),
            _ => return End::Signal(libc::WTERMSIG(status)),
        }
    }
}

/// A function that returns a number; its first instruction crosses a line.
pub struct Function {
    memory: CodeMemory,
    at: isize,
}

impl Function {
    pub fn new() -> Self {
        let mut memory = CodeMemory::new(4096).unwrap();
        memory.write(62, &[0xb8, 1, 0, 0, 0, 0xc3]);
        Self { memory, at: 62 }
    }

    pub fn address(&self) -> CodeAddr {
        self.memory.base().offset(self.at)
    }

    pub fn call(&self) -> u32 {
        // SAFETY: (1) the bytes are `mov eax, imm32; ret`, in every state that the tests put them
        // into.
        unsafe {
            std::mem::transmute::<*const u8, extern "C" fn() -> u32>(self.address().as_ptr())()
        }
    }

    pub fn adopt(&self, policy: &Policy) -> PatchSite {
        // SAFETY: (1) the memory outlives the site in every test; (2) to (4): one instruction,
        // which only the test writes.
        unsafe { PatchSite::adopt(self.address(), 5, Layout::One, policy) }.unwrap()
    }
}

/// `mov eax, number`; one byte of the number lies before the line's end.
pub fn returning(number: u32) -> Word {
    let [a, b, c, d] = number.to_le_bytes();
    Word::new(&[0xb8, a, b, c, d]).unwrap()
}

/// A number whose bytes all differ from those of 1, so that replacing one by the other needs a
/// trap.
pub const OTHER: u32 = 0x0505_0505;

/// Replaces the number that the function returns.
pub fn patch(site: &PatchSite, number: u32) -> Result<(), wordpatch::PatchError> {
    // SAFETY: (1) `mov eax, imm32` replaces the same with another number.
    unsafe { site.patch(returning(number)) }
}

pub fn start(
    site: &PatchSite,
    number: u32,
) -> Result<wordpatch::Pending<'_>, wordpatch::PatchError> {
    // SAFETY: as in `patch`.
    unsafe { site.start(returning(number)) }
}
