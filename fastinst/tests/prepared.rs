//! Programs that a compiler has prepared for other tools, without the library's compiled-in hooks:
//! they behave as before, and every call is counted.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::{calls, clean, compile_with, fastinst, folder, has, library, profile, run};

/// Compilers, and options by which they prepare code.
const FLAVOURS: [(&str, &str, &[&str]); 12] = [
    ("patchable", "gcc", &["-O2", "-fpatchable-function-entry=5"]),
    ("patchable", "gcc", &["-O2", "-fpatchable-function-entry=16,11", "-fcf-protection=full"]),
    ("patchable", "gcc", &["-O0", "-fpatchable-function-entry=8", "-no-pie", "-fno-pie"]),
    ("patchable", "clang", &["-O2", "-fpatchable-function-entry=5"]),
    ("patchable", "clang", &["-O1", "-fpatchable-function-entry=14", "-fcf-protection=full"]),
    ("mcount", "gcc", &["-O2", "-pg"]),
    ("mcount", "gcc", &["-O2", "-pg", "-mfentry"]),
    ("mcount", "gcc", &["-O1", "-pg", "-mfentry", "-no-pie", "-fno-pie"]),
    (
        "mcount",
        "gcc",
        &["-O2", "-pg", "-mfentry", "-mnop-mcount", "-mrecord-mcount", "-no-pie", "-fno-pie"],
    ),
    ("mcount", "clang", &["-O2", "-pg"]),
    // That library starts the C library's profiler before functions get probes: its timer ticks.
    ("mcount", "gcc", &["-O2", "-pg", "-Wl,--no-as-needed", "-lstdc++"]),
    ("xray", "clang", &["-O2", "-fxray-instrument", "-fxray-instruction-threshold=1"]),
];

/// With XRay's code, and without the runtime that the linker would add.
fn compiled(maker: &str, compiler: &str, flags: &[&str], to: &Path) -> PathBuf {
    if maker != "xray" {
        return compile_with(compiler, "unmodified.c", to, flags);
    }
    let object = to.join("unmodified.o");
    let mut command = Command::new(compiler);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/unmodified.c");
    test_support::succeed(command.arg("-c").arg(source).arg("-o").arg(&object).args(flags));
    let program = to.join("unmodified");
    let mut link = Command::new("gcc");
    test_support::succeed(link.arg(object).arg("-o").arg(&program).args(["-pthread", "-ldl"]));
    program
}

/// The counts that the program prints.
fn told(stdout: &[u8]) -> Vec<(String, f64)> {
    let stdout = String::from_utf8_lossy(stdout);
    let line = |line: &str| {
        let (name, count) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), count.parse().unwrap())
    };
    stdout.lines().skip(1).map(line).collect()
}

#[test]
fn every_call_is_counted_that_a_compiler_has_prepared() {
    let to = folder("prepared-counts");
    for (turn, (maker, compiler, flags)) in FLAVOURS.into_iter().enumerate() {
        if !has(compiler) {
            continue;
        }
        let place = to.join(turn.to_string());
        std::fs::create_dir_all(&place).unwrap();
        let program = compiled(maker, compiler, flags, &place);
        // In another folder gprof's file would be written.
        let plain = run(clean(Command::new(&program)).arg("500").current_dir(&place));
        for policy in ["count", "exact", "adaptive"] {
            let file = place.join(policy);
            let mut command = fastinst();
            command.args(["run", "--provider", maker, "--follow", "none", "--format", "json"]);
            command.args(["--policy", policy, "-o"]).arg(&file).arg(&program).arg("500");
            let observed = run(command.current_dir(&place));
            assert_eq!(observed.stdout, plain.stdout, "{compiler} {flags:?} {policy}");
            assert_eq!(observed.status.code(), plain.status.code());
            let profile = profile(&file);
            let functions = profile["functions"].as_array().unwrap();
            for (name, expected) in told(&observed.stdout) {
                let is_there = |function: &serde_json::Value| function["name"] == name.as_str();
                assert!(functions.iter().any(is_there), "{compiler} {flags:?} {policy}: {name}");
                if policy != "adaptive" {
                    assert_eq!(calls(&profile, &name), expected, "{compiler} {flags:?} {name}");
                }
            }
        }
    }
}

#[test]
fn prepared_code_needs_no_command_and_is_listed() {
    let to = folder("prepared-alone");
    for (maker, compiler, flags) in [FLAVOURS[0], FLAVOURS[6], FLAVOURS[11]] {
        if !has(compiler) {
            continue;
        }
        let place = to.join(maker);
        std::fs::create_dir_all(&place).unwrap();
        let program = compiled(maker, compiler, flags, &place);
        let file = place.join("profile");
        let mut command = clean(Command::new(&program));
        command.arg("100").current_dir(&place).env("LD_PRELOAD", library());
        command.env("FASTINST_OUTPUT", &file).env("FASTINST_FORMAT", "json");
        let output = run(command.env("FASTINST_POLICY", "count"));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        let profile = profile(&file);
        let (name, expected) = told(&output.stdout).remove(0);
        assert_eq!(calls(&profile, &name), expected, "{maker} {name}");

        let listed = run(fastinst().args(["probes", "-F", "leaf"]).arg(&program));
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(listed.contains(maker) && listed.contains("  leaf"), "{listed}");
        // The other provider is not available: a line reports that, and the program continues.
        let other = if maker == "xray" { "mcount" } else { "xray" };
        let mut command = fastinst();
        command.args(["run", "--provider", other]).arg(&program).arg("10");
        let output = run(command.current_dir(&place));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(&format!("prepared for --provider {other}")), "{text}");
    }
}
