//! The C interface, used from C: with the shared and with the static library.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the libraries and tells where they are: in a folder of their own, because built alone
/// they are not the library that the workspace's other crates were built with.
fn libraries() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c-interface");
    let mut build = Command::new(env!("CARGO"));
    build
        .args(["build", "--quiet", "--locked", "-p", "callpatch", "--lib", "--target-dir"])
        .arg(&folder);
    assert!(build.status().unwrap().success());
    folder.join("debug")
}

/// Whether `tool` is there.
fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        support::skip(&format!("{tool} is missing: run scripts/test, which installs it"));
    }
    found
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Compiles the C program with `link` and runs it.
fn compile_and_run(name: &str, link: &[&str]) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut compile = Command::new("cc");
    compile
        .args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(here.join("include"));
    compile
        .arg(here.join("tests/c/interface.c"))
        .arg("-o")
        .arg(&program)
        .args(link)
        .arg("-pthread");
    run(&mut compile);
    // Cargo's own path would lead to whatever library was built last.
    run(Command::new(&program).env_remove("LD_LIBRARY_PATH"));
}

#[test]
fn a_c_program_switches_its_own_calls() {
    if !has("cc") {
        return;
    }
    let libraries = libraries();
    let directory = libraries.to_str().unwrap();
    compile_and_run(
        "callpatch-shared",
        &["-L", directory, "-lcallpatch", &format!("-Wl,-rpath,{directory}")],
    );
    compile_and_run("callpatch-static", &[&format!("{directory}/libcallpatch.a"), "-ldl", "-lm"]);
}

#[test]
fn the_header_is_good_for_cxx_too() {
    if !has("c++") {
        return;
    }
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/callpatch.h");
    run(Command::new("c++")
        .args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++"])
        .arg(header));
}
