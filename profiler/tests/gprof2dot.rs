//! What is printed as gprof prints it is read by a tool that knows nothing but gprof.

mod support;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::profile;

/// gprof2dot, where it is installed, or where scripts/test installs it.
fn tool() -> Option<PathBuf> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/python/bin/gprof2dot");
    let found = [PathBuf::from("gprof2dot"), ours]
        .into_iter()
        .find(|tool| Command::new(tool).arg("--help").output().is_ok());
    if found.is_none() {
        assert!(
            std::env::var_os("FASTINST_TEST_REQUIRE").is_none(),
            "gprof2dot is missing: run scripts/test, which installs it"
        );
        println!("SKIPPED: gprof2dot is missing");
    }
    found
}

#[test]
fn gprof2dot_reads_the_call_graph_without_a_complaint() {
    let Some(tool) = tool() else { return };
    let mut command = Command::new(tool);
    command
        .args(["-f", "prof", "-n", "0", "-e", "0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(profile().gprof().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let (drawn, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.is_empty(), "{said}\n{}", profile().gprof());
    // What it adds up from self times and calls is what we print as total, self and calls; and an
    // arc with its calls.
    let (main, parse) = ("main\\n90.00%\\n(5.00%)\\n1×", "parse\\n50.00%\\n(20.00%)\\n100×");
    let (serve, walk) = ("serve(int)\\n15.00%\\n(5.00%)\\n10×", "walk\\n10.00%\\n(10.00%)\\n30×");
    for wanted in [main, parse, serve, walk, "even\\n10.00%\\n", "[system]", "\\n3000×", "\\n1000×"]
    {
        assert!(drawn.contains(wanted), "{wanted}: {drawn}");
    }
}
