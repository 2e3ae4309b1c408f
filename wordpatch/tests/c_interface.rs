//! The C interface, used from C: with the shared and with the static library.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where cargo has put the library's files for this very build.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors()
        .find(|dir| dir.join("libwordpatch.so").exists())
        .unwrap_or_else(|| panic!("no library above {}", test.display()))
        .into()
}

fn build_libraries() {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "-p", "wordpatch", "--lib"]);
    // The profile of this very build: its folder is where the program is linked from.
    build.args((!cfg!(debug_assertions)).then_some("--release"));
    assert!(build.status().unwrap().success());
}

/// Whether `tool` is there. Where all tools are required, a missing one is a failure.
fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        assert!(std::env::var_os("FASTINST_TEST_REQUIRE").is_none(), "{tool} is missing: run scripts/test, which installs it");
        println!("SKIPPED: {tool} is missing");
    }
    found
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
}

/// Compiles the C program with `link` and runs it.
fn compile_and_run(name: &str, link: &[&str]) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-I"]).arg(here.join("include"));
    compile.arg(here.join("tests/c/interface.c")).arg("-o").arg(&program).args(link).arg("-pthread");
    run(&mut compile);
    run(&mut Command::new(&program));
}

#[test]
fn a_c_program_patches_itself() {
    if !has("cc") {
        return;
    }
    build_libraries();
    let libraries = libraries();
    let directory = libraries.to_str().unwrap();
    compile_and_run("shared", &["-L", directory, "-lwordpatch", &format!("-Wl,-rpath,{directory}")]);
    compile_and_run("static", &[&format!("{directory}/libwordpatch.a"), "-ldl", "-lm"]);
}

#[test]
fn the_header_is_good_for_cxx_too() {
    if !has("c++") {
        return;
    }
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/wordpatch.h");
    run(Command::new("c++").args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++"]).arg(header));
}
