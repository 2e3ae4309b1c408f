//! The interface, used from C, with callbacks of the program's own.

mod support;

use support::*;

#[test]
fn a_c_program_attaches_its_own_callbacks() {
    if !has("gcc") {
        return;
    }
    let to = folder("interface");
    let include = format!("-I{}/include", env!("CARGO_MANIFEST_DIR"));
    let directory = library().parent().unwrap().display().to_string();
    let flags = [
        "-std=c11",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-finstrument-functions",
        &include,
        &format!("-L{directory}"),
        "-lfastinst",
        &format!("-Wl,-rpath,{directory}"),
    ];
    let program = compile("callbacks.c", &to, &flags);
    let output = run(&mut clean(std::process::Command::new(&program)));
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn the_header_is_good_for_cxx_too() {
    if !has("g++") {
        return;
    }
    let header = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("include/fastinst.h");
    let flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++"];
    let output = run(std::process::Command::new("g++").args(flags).arg(header));
    assert!(output.status.success(), "{output:?}");
}
