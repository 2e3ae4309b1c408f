//! A program's own text, made writable by each policy, and the permissions of its pages.
#![allow(unsafe_code)]

mod support;

use std::arch::global_asm;
use support::{End, OTHER, in_child, patch, start};
use wordpatch::os::maps::{mapping_at, mappings};
use wordpatch::{
    Access, AdoptError, Batch, CodeAddr, CodeMemory, Layout, PatchError, PatchSite, Policy,
};

// A page of text with one function, whose instruction crosses a line.
global_asm!(
    ".pushsection .text.specimen, \"ax\"",
    ".p2align 12",
    ".skip 62, 0x90",
    // Visible in all codegen units of the test.
    ".globl specimen",
    "specimen: .byte 0xb8, 1, 0, 0, 0, 0xc3",
    ".p2align 12",
    ".popsection",
);

unsafe extern "C" {
    fn specimen() -> u32;
}

fn call() -> u32 {
    // SAFETY: (1) `mov eax, imm32; ret` in every state that the tests put it into.
    unsafe { specimen() }
}

fn address() -> CodeAddr {
    CodeAddr::new(specimen as *const () as usize)
}

fn policy(access: Access) -> Policy {
    Policy { access, ..Policy::new().unwrap() }
}

fn adopt(access: Access, layout: Layout) -> Result<PatchSite, AdoptError> {
    // SAFETY: (1) to (4): text of the test's own, one instruction.
    unsafe { PatchSite::adopt(address(), 5, layout, &policy(access)) }
}

/// The kernel's permissions of the page.
fn page() -> String {
    mapping_at(address()).unwrap().unwrap().permissions()
}

/// Adopts, patches and patches back, starts and finishes; checks the page's permissions after
/// adoption and after a patch.
fn walk_through(access: Access, adopted: &'static str, patched: &'static str) {
    let end = in_child(|| {
        assert_eq!(page(), "r-x");
        let site = adopt(access, Layout::One).unwrap();
        assert_eq!(page(), adopted);
        for number in [OTHER, 1, OTHER, 0x0605, 1] {
            patch(&site, number).unwrap();
            assert_eq!((call(), page().as_str()), (number, patched));
        }
        let pending = start(&site, OTHER).unwrap();
        assert_eq!((call(), page().as_str()), (1, patched));
        pending.finish().unwrap();
        let mut batch = Batch::new();
        // SAFETY: (1) the instruction with another number.
        unsafe { batch.push(&site, support::returning(7)) };
        batch.commit().unwrap();
        assert_eq!((call(), page().as_str()), (7, patched));
        0
    });
    assert_eq!(end, End::Exit(0), "{access}");
}

#[test]
fn rwx_opens_the_page_at_adoption_and_leaves_it_open() {
    walk_through(Access::Rwx, "rwx", "rwx");
}

#[test]
fn rwx_lazy_opens_it_at_the_first_patch() {
    walk_through(Access::RwxLazy, "r-x", "rwx");
}

#[test]
fn batch_opens_it_for_the_stores_only() {
    walk_through(Access::Batch, "r-x", "r-x");
}

#[test]
fn procmem_never_opens_it() {
    walk_through(Access::ProcMem, "r-x", "r-x");
}

#[test]
fn procmem_refuses_several_instructions() {
    let end = in_child(|| {
        i32::from(
            adopt(Access::ProcMem, Layout::Any).unwrap_err()
                != AdoptError::SeveralInstructions { address: address() },
        )
    });
    assert_eq!(end, End::Exit(0));
}

/// Makes mprotect fail with EACCES for this process if the pages would be writable and executable.
fn forbid_writable_code() {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let wx = (libc::PROT_WRITE | libc::PROT_EXEC) as u32;
    let [load, equal, and, ret] = [
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_ALU | libc::BPF_AND | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    ];
    // In seccomp_data the call's number is at offset 0, and the low half of its third argument at
    // 32 (seccomp(2)).
    let filter = [
        step(load, 0, 0, 0),
        step(equal, 0, 4, libc::SYS_mprotect as u32),
        step(load, 0, 0, 32),
        step(and, 0, 0, wx),
        step(equal, 0, 1, wx),
        step(ret, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EACCES as u32),
        step(ret, 0, 0, libc::SECCOMP_RET_ALLOW),
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
fn a_kernel_that_allows_no_writable_code_is_told_of_with_the_page_and_the_remedy() {
    let end = in_child(|| {
        forbid_writable_code();
        let page = address().align_down(4096).to_string();
        let complains = |message: String| {
            let told =
                message.contains(&page) && message.contains("procmem") && !message.contains('\n');
            assert!(told, "{message}");
        };
        complains(adopt(Access::Rwx, Layout::One).unwrap_err().to_string());
        for access in [Access::RwxLazy, Access::Batch] {
            let site = adopt(access, Layout::One).unwrap();
            let refused = patch(&site, OTHER).unwrap_err();
            assert!(matches!(refused, PatchError::Refused(_)), "{refused}");
            complains(refused.to_string());
            assert_eq!((call(), site.phase()), (1, wordpatch::Phase::Idle));
        }
        patch(&adopt(Access::ProcMem, Layout::One).unwrap(), OTHER).unwrap();
        i32::from(call() != OTHER)
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn a_kernel_that_keeps_its_memory_files_shut_is_told_of_too() {
    let end = in_child(|| {
        let site = adopt(Access::ProcMem, Layout::One).unwrap();
        // The same effect on /proc/self/mem as an unmounted /proc, or a sandbox. SAFETY: (1)
        // numbers only: no file may be opened any more.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 }) };
        let refused = patch(&site, OTHER).unwrap_err().to_string();
        let page = address().align_down(4096).to_string();
        assert!(refused.contains(&page) && refused.contains("choose access rwx"), "{refused}");
        i32::from(call() != 1)
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn code_memory_is_never_writable_and_executable_at_once() {
    let end = in_child(|| {
        let memory = CodeMemory::new(8192).unwrap();
        let found = mapping_at(memory.base()).unwrap().unwrap().permissions();
        assert_eq!(found, "r-x");
        assert_eq!(mapping_at(memory.writable(0)).unwrap().unwrap().permissions(), "rw-");
        i32::from(mappings().unwrap().iter().any(|m| m.write && m.execute))
    });
    assert_eq!(end, End::Exit(0));
}
