//! Processes without descriptors or /proc.
#![allow(unsafe_code)]

#[path = "../../wordpatch/tests/support/mod.rs"]
mod support;

use std::ffi::CString;
use std::time::Duration;
use support::{End, Function, OTHER, in_child, patch};
use wordpatch::{AdoptError, Barrier, CodeMemory, Layout, PatchSite, Phase, Policy};

/// Waits until the check of tracer and handler, which stays valid for some milliseconds, is
/// outdated.
fn look_anew() {
    std::thread::sleep(Duration::from_millis(100));
}

#[test]
fn without_descriptors_a_patch_says_so_and_changes_nothing() {
    for barrier in [Barrier::Membarrier, Barrier::Signal] {
        let end = in_child(|| {
            let function = Function::new();
            barrier.prepare().unwrap();
            let site = function.adopt(&Policy { barrier, ..Policy::new().unwrap() });
            let limit = |soft| {
                // SAFETY: (1) valid structures.
                unsafe {
                    let mut now: libc::rlimit = std::mem::zeroed();
                    assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut now), 0);
                    let limit = libc::rlimit { rlim_cur: soft, ..now };
                    assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
                }
            };
            look_anew();
            limit(0);
            let refused = patch(&site, OTHER).unwrap_err().to_string();
            assert_eq!((function.call(), site.phase()), (1, Phase::Idle));
            // Code memory needs no descriptor.
            CodeMemory::new(4096).unwrap();
            limit(64);
            assert!(refused.contains("open") && !refused.contains('\n'), "{refused}");
            patch(&site, OTHER).unwrap();
            i32::from(function.call() != OTHER)
        });
        assert_eq!(end, End::Exit(0), "{barrier}");
    }
}

#[test]
fn without_proc_adoption_is_refused_with_the_remedy() {
    let empty = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-proc");
    std::fs::create_dir_all(&empty).unwrap();
    let root = CString::new(empty.to_str().unwrap()).unwrap();
    let end = in_child(|| {
        let function = Function::new();
        let policy = Policy::new().unwrap();
        // SAFETY: (1) a C string; the child exits without using any path.
        if unsafe { libc::chroot(root.as_ptr()) } != 0 {
            return 42;
        }
        // SAFETY: (1) to (4): it is refused.
        let refused =
            unsafe { PatchSite::adopt(function.address(), 5, Layout::One, &policy) }.unwrap_err();
        assert!(matches!(refused, AdoptError::Maps(_)), "{refused:?}");
        let message = refused.to_string();
        assert!(message.contains("mount /proc") && !message.contains('\n'), "{message}");
        i32::from(function.call() != 1)
    });
    if end == End::Exit(42) {
        println!("SKIPPED: only a privileged process may chroot");
        return;
    }
    assert_eq!(end, End::Exit(0));
}
