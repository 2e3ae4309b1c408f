//! Programs with very many functions: all of them are in the profile.

mod support;

use profiler::Profile;
use std::collections::BTreeMap;
use std::path::Path;
use support::{compile, fastinst, folder, has, preloaded};

/// Checks that a profile contains this many functions, each with the right number of calls.
fn assert_is_whole(path: &Path, functions: usize) {
    let bytes = std::fs::read(path).unwrap();
    let profile = Profile::from_file(&bytes).unwrap();
    assert_eq!(profile.header.notes, <[String; 0]>::default());
    let calls: BTreeMap<&str, f64> = profile
        .functions
        .iter()
        .map(|function| (&*function.label.name, function.calls.value))
        .collect();
    for number in 0..functions {
        assert_eq!(calls.get(&*format!("f{number}")), Some(&5.0), "f{number}");
    }
    assert_eq!(calls.len(), functions + 1, "and main");
    assert!(bytes.len() <= 64 * calls.len(), "{} bytes", bytes.len());
}

#[test]
fn every_function_of_a_large_program_is_in_its_profile() {
    const FUNCTIONS: usize = 100_001;
    if !has("gcc") {
        return;
    }
    let to = folder("many");
    let count = format!("-DFUNCTIONS={FUNCTIONS}");
    let program = compile("many.c", &to, &["-O1", "-finstrument-functions", &count]);
    let kept = to.join("kept.profile");
    for policy in ["count", "exact", "adaptive"] {
        let output = fastinst()
            .args(["run", "--policy", policy, "-o"])
            .arg(&kept)
            .arg(&program)
            .output()
            .unwrap();
        assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"done\n"[..]));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{policy}");
        assert_is_whole(&kept, FUNCTIONS);
    }
    let alone = to.join("alone.profile");
    let output =
        preloaded(&program, "adaptive", &alone).env("FASTINST_FORMAT", "profile").output().unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"done\n"[..]));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_is_whole(&alone, FUNCTIONS);
}
