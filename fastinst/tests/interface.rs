//! The interface, used from C, with the program's own callbacks.

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
fn a_listener_hears_of_libraries_that_are_loaded_later() {
    if !has("gcc") {
        return;
    }
    let to = folder("interface-later");
    let include = format!("-I{}/include", env!("CARGO_MANIFEST_DIR"));
    let directory = library().parent().unwrap().display().to_string();
    let (search, run_path) = (format!("-L{directory}"), format!("-Wl,-rpath,{directory}"));
    let plugin = ["-O1", "-finstrument-functions", "-shared", "-fPIC"];
    let plugin = compile("plugin.c", &to, &plugin);
    // A host with probes of its own, and one without.
    for own in [&["-finstrument-functions"][..], &[]] {
        let flags = [&["-O1", &include, &search, "-lfastinst", &run_path], own].concat();
        let program = compile("later.c", &to, &flags);
        let output = run(clean(std::process::Command::new(&program)).arg(&plugin));
        assert!(output.status.success(), "{own:?}: {output:?}");
    }
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
