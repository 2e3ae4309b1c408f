//! Compiles programs for tests: in C against a crate's libraries, in Rust for WebAssembly.

use crate::folder::Folder;
use crate::process::succeed;
use crate::tool::skip;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the libraries of a crate below `folder` and returns their path. They have a separate
/// folder because, built alone, they differ from the libraries that the other crates of the
/// workspace were built with.
#[track_caller]
pub fn built_alone(package: &str, folder: &Path) -> PathBuf {
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--locked", "-p", package, "--lib", "--target-dir"]);
    succeed(build.arg(folder).current_dir(env!("CARGO_MANIFEST_DIR")));
    folder.join("debug")
}

/// Compiles a C program, all warnings being errors, with these flags, to `program`.
#[track_caller]
pub fn compile(source: &Path, program: &Path, include: &Path, flags: &[&str]) {
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]).arg(include);
    succeed(cc.arg(source).arg("-o").arg(program).args(flags));
}

/// Compiles a program in Rust for WASI with these flags; `None` and a message if the compiler has
/// no such target.
///
/// # Panics
/// If files cannot be written.
pub fn rustc_for_wasi(name: &str, source: &str, flags: &[&str]) -> Option<Vec<u8>> {
    let folder = Folder::new(name);
    let (text, output) = (folder.join(format!("{name}.rs")), folder.join("output.wasm"));
    std::fs::write(&text, source).expect("there is room");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition=2024", "--target=wasm32-wasip1"]).args(flags);
    let done = rustc.arg("-o").arg(&output).arg(&text).output().is_ok_and(|o| o.status.success());
    let bytes = std::fs::read(&output).ok().filter(|_| done);
    if bytes.is_none() {
        skip("rustc has no target wasm32-wasip1");
    }
    bytes
}
