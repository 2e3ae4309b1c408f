//! The path of a patch that needs no trap: it makes no allocation and no system call.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout as Block, System};
use std::cell::Cell;
use wordpatch::{CodeMemory, Layout, PatchSite, Policy, Word};

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: (1) every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, block: Block) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: (1) the caller.
        unsafe { System.alloc(block) }
    }

    unsafe fn dealloc(&self, at: *mut u8, block: Block) {
        // SAFETY: (1) the caller.
        unsafe { System.dealloc(at, block) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Sites of every length inside one quadword, and two words for each.
fn sites(memory: &CodeMemory) -> Vec<(PatchSite, [Word; 2])> {
    let policy = Policy::new().unwrap();
    let lengths = (1..=8).map(|len| {
        let at = memory.base().offset(64 * len as isize);
        // SAFETY: (1) to (4): no thread executes this memory, and the test owns it.
        let site = unsafe { PatchSite::adopt(at, len, Layout::One, &policy) }.unwrap();
        (site, [0x11, 0x22].map(|byte| Word::new(&vec![byte; len]).unwrap()))
    });
    lengths.collect()
}

fn patch_all(sites: &[(PatchSite, [Word; 2])]) -> bool {
    (0..1000).all(|round| {
        sites.iter().all(|(site, words)| {
            let word = words[round % 2];
            // SAFETY: (1) no thread executes the bytes.
            unsafe { site.patch(word) }.is_ok() && site.read() == word
        })
    })
}

#[test]
fn a_patch_inside_a_granule_allocates_nothing() {
    let memory = CodeMemory::new(1024).unwrap();
    let sites = sites(&memory);
    let before = ALLOCATIONS.with(Cell::get);
    assert!(patch_all(&sites));
    assert_eq!(ALLOCATIONS.with(Cell::get), before);
}

#[test]
fn a_patch_inside_a_granule_makes_no_system_call() {
    let memory = CodeMemory::new(1024).unwrap();
    let sites = sites(&memory);
    // SAFETY: (1) the child needs no lock that other threads may hold: it patches and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // In strict mode every system call but read, write, exit and sigreturn kills (seccomp(2)).
        // SAFETY: (1) both calls take numbers only.
        unsafe {
            if libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) != 0 {
                libc::_exit(2);
            }
            let code = libc::c_long::from(!patch_all(&sites));
            libc::syscall(libc::SYS_exit, code);
        }
        unreachable!("exit does not return");
    }
    let mut status = 0;
    // SAFETY: (1) `status` is written by the call.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(
        libc::WIFEXITED(status),
        "killed by signal {}: a system call was made",
        libc::WTERMSIG(status)
    );
    assert_eq!(libc::WEXITSTATUS(status), 0);
}
