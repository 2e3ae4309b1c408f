//! The C interface, used from C: with the shared and with the static library.

use std::path::Path;
use std::process::Command;
use test_support::{built_alone, compile, is_there, succeed};

#[test]
fn a_c_program_patches_itself() {
    if !is_there("cc") {
        return;
    }
    let (here, to) =
        (Path::new(env!("CARGO_MANIFEST_DIR")), Path::new(env!("CARGO_TARGET_TMPDIR")));
    let libraries = built_alone("wordpatch", &to.join("c-interface"));
    let folder = libraries.to_str().unwrap();
    let loaded = ["-L", folder, "-lwordpatch", &format!("-Wl,-rpath,{folder}")];
    let contained = [&*format!("{folder}/libwordpatch.a"), "-ldl", "-lm"];
    for (name, flags) in [("shared", &loaded[..]), ("static", &contained[..])] {
        let program = to.join(name);
        compile(&here.join("tests/c/interface.c"), &program, &here.join("include"), flags);
        // Cargo's library path would lead to another build of the library.
        succeed(Command::new(&program).env_remove("LD_LIBRARY_PATH"));
    }
}

#[test]
fn the_header_is_good_for_cxx_too() {
    if !is_there("c++") {
        return;
    }
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/wordpatch.h");
    let mut check = Command::new("c++");
    check.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++"]);
    succeed(check.arg(header));
}
