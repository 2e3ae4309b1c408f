//! What is printed as gprof prints it is read by a tool that knows nothing but gprof.

use profiler::{Arc, Figure, Function, Header, Label, Profile};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

fn function(
    number: u32,
    name: &str,
    calls: f64,
    own: f64,
    total: f64,
    callers: &[(&str, u32, u64, f64)],
) -> Function {
    let label = |name: &str, number: u32| Label {
        name: name.to_owned(),
        offset: u64::from(number),
        ..Label::default()
    };
    let arc = |&(name, number, samples, share): &(&str, u32, u64, f64)| Arc {
        site: u64::from(number),
        samples,
        share,
        caller: Some(label(name, number)),
    };
    let told = serde_json::json!({
        "id": number,
        "label": label(name, number),
        "calls": Figure::exact(calls),
        "samples": calls as u64,
        "total": Figure::exact(total * 1e6),
        "self": Figure::exact(own * 1e6),
        "lost": 0,
        "histogram": [],
        "arcs": callers.iter().map(arc).collect::<Vec<_>>(),
    });
    serde_json::from_value(told).unwrap()
}

/// `main` calls `parse` and `std::vector<int, 3>::serve(int)`, which call `hash`; `odd` and `even`
/// call each other; `walk` calls itself.
fn profile() -> Profile {
    let serve = "std::vector<int, 3>::serve(int)";
    let functions = vec![
        function(1, "main", 1.0, 50.0, 900.0, &[]),
        function(2, "parse", 100.0, 200.0, 500.0, &[("main", 1, 100, 1.0)]),
        function(3, serve, 10.0, 50.0, 150.0, &[("main", 1, 10, 1.0)]),
        function(
            4,
            "hash",
            4000.0,
            400.0,
            400.0,
            &[("parse", 2, 3000, 0.75), (serve, 3, 1000, 0.25)],
        ),
        function(5, "even", 60.0, 60.0, 100.0, &[("main", 1, 10, 0.5), ("odd", 6, 50, 0.5)]),
        function(6, "odd", 50.0, 40.0, 90.0, &[("even", 5, 50, 1.0)]),
        function(7, "walk", 30.0, 100.0, 100.0, &[("main", 1, 10, 1.0), ("walk", 7, 20, 0.0)]),
    ];
    let header = Header {
        processes: 1,
        seconds: 1.5,
        processor: 1.0,
        system: 0.05,
        hz: 1e9,
        step: 1,
        ..Header::default()
    };
    Profile { header, modules: Vec::new(), functions, stacks: Vec::new() }
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
