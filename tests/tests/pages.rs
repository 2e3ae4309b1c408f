//! Pages that several sites with different accesses share, and pages that cannot be written.
#![allow(unsafe_code)]

#[path = "../../wordpatch/tests/support/mod.rs"]
mod support;

use std::arch::global_asm;
use std::os::fd::AsRawFd;
use support::{End, Function, OTHER, in_child, patch, returning};
use wordpatch::os::maps::mapping_at;
use wordpatch::{Access, Batch, CodeAddr, Layout, PatchError, PatchSite, Policy};

// Three functions on one page of text, whose first instructions cross lines, and one whose
// instruction crosses pages.
global_asm!(
    ".pushsection .text.shared_page, \"ax\"",
    ".p2align 12",
    // Visible in all codegen units of the test.
    ".globl shared_page",
    "shared_page: .skip 62, 0x90",
    ".byte 0xb8, 1, 0, 0, 0, 0xc3",
    ".skip 60, 0x90",
    ".byte 0xb8, 1, 0, 0, 0, 0xc3",
    ".skip 60, 0x90",
    ".byte 0xb8, 1, 0, 0, 0, 0xc3",
    ".skip 4093 - 200, 0x90",
    ".byte 0xb8, 1, 0, 0, 0, 0xc3",
    ".p2align 12",
    ".popsection",
);

unsafe extern "C" {
    static shared_page: u8;
}

/// The offsets of the functions on their page.
const PLACES: [isize; 3] = [62, 62 + 66, 62 + 66 + 66];
const ACROSS: isize = 4093;

fn address(place: isize) -> CodeAddr {
    CodeAddr::from_ptr(&raw const shared_page).offset(place)
}

fn call(place: isize) -> u32 {
    // SAFETY: (1) `mov eax, imm32; ret` in every state that the tests put it into.
    unsafe { std::mem::transmute::<*const u8, extern "C" fn() -> u32>(address(place).as_ptr())() }
}

fn adopt(place: isize, access: Access) -> PatchSite {
    let policy = Policy { access, ..Policy::new().unwrap() };
    // SAFETY: (1) to (4): text of the test's own, one instruction.
    unsafe { PatchSite::adopt(address(place), 5, Layout::One, &policy) }.unwrap()
}

#[test]
fn sites_on_one_page_keep_out_of_each_others_way_whatever_their_access() {
    use Access::{Batch, ProcMem, Rwx, RwxLazy};
    // The order matters: a page that is writable already is used as it is.
    for accesses in [
        [Batch, Rwx, ProcMem],
        [RwxLazy, Batch, ProcMem],
        [Batch, RwxLazy, Rwx],
        [ProcMem, Batch, Rwx],
    ] {
        let end = in_child(|| {
            let sites = [0, 1, 2].map(|i| adopt(PLACES[i], accesses[i]));
            for number in [OTHER, 1, OTHER] {
                for site in &sites {
                    patch(site, number).unwrap();
                }
                for site in sites.iter().rev() {
                    patch(site, number ^ OTHER ^ 1).unwrap();
                }
                assert_eq!(PLACES.map(call), [number ^ OTHER ^ 1; 3]);
            }
            0
        });
        assert_eq!(end, End::Exit(0), "{accesses:?}");
    }
}

#[test]
fn a_batch_may_mix_accesses_and_pages() {
    let end = in_child(|| {
        let own = Function::new();
        let sites = [
            adopt(PLACES[0], Access::Batch),
            adopt(PLACES[1], Access::ProcMem),
            adopt(ACROSS, Access::Batch),
            own.adopt(&Policy::new().unwrap()),
        ];
        for number in [OTHER, 1, OTHER] {
            let mut batch = Batch::new();
            // SAFETY: (1) the instruction with another number.
            sites.iter().for_each(|site| unsafe { batch.push(site, returning(number)) });
            assert_eq!(batch.commit().unwrap().behind_traps, 4);
            assert_eq!([call(PLACES[0]), call(PLACES[1]), call(ACROSS), own.call()], [number; 4]);
            for page in [address(0), address(4096)] {
                assert_eq!(mapping_at(page).unwrap().unwrap().permissions(), "r-x");
            }
        }
        0
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn threads_that_open_one_page_at_a_time_do_not_close_it_for_each_other() {
    let end = in_child(|| {
        let sites = &[
            adopt(PLACES[0], Access::Batch),
            adopt(PLACES[1], Access::Batch),
            adopt(ACROSS, Access::Batch),
        ];
        std::thread::scope(|scope| {
            for site in sites {
                scope.spawn(|| {
                    (0..300).for_each(|round| patch(site, [OTHER, 1][round % 2]).unwrap());
                });
            }
        });
        assert_eq!([call(PLACES[0]), call(PLACES[1]), call(ACROSS)], [1; 3]);
        i32::from(mapping_at(address(0)).unwrap().unwrap().permissions() != "r-x")
    });
    assert_eq!(end, End::Exit(0));
}

/// Code in a file that this process may read and execute and not write to, mapped shared.
fn read_only_file() -> CodeAddr {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("read-only-{}", std::process::id()));
    let mut page = vec![0x90; 4096];
    page[62..68].copy_from_slice(&[0xb8, 1, 0, 0, 0, 0xc3]);
    std::fs::write(&path, page).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    // SAFETY: (1) a new mapping.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_EXEC,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    assert_ne!(at, libc::MAP_FAILED);
    CodeAddr::new(at as usize)
}

#[test]
fn code_that_may_not_be_changed_is_refused_with_page_and_remedy_and_stays_as_it_is() {
    let end = in_child(|| {
        let page = read_only_file();
        let code = page.offset(62);
        let policy = |access| Policy { access, ..Policy::new().unwrap() };
        // SAFETY: (1) to (4): no other code uses the mapping.
        let adopt = |access| unsafe { PatchSite::adopt(code, 5, Layout::One, &policy(access)) };
        let refused = adopt(Access::Rwx).unwrap_err().to_string();
        assert!(refused.contains(&page.to_string()) && refused.contains("mprotect"), "{refused}");
        for access in [Access::RwxLazy, Access::Batch, Access::ProcMem] {
            let site = adopt(access).unwrap();
            let refused = patch(&site, OTHER).unwrap_err();
            assert!(
                matches!(refused, PatchError::Refused(refusal) if refusal.page == page),
                "{refused:?}"
            );
            assert!(!refused.to_string().contains('\n'));
            assert_eq!(
                (site.read(), site.phase()),
                (returning(1), wordpatch::Phase::Idle),
                "{access}"
            );
        }
        0
    });
    assert_eq!(end, End::Exit(0));
}
