//! The sampling clock, in programs that spend their CPU time in known parts. If the kernel refuses
//! it, the profile must report that.

mod support;

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use support::*;

const FLAGS: [&str; 2] = ["-finstrument-functions", "-O2"];

/// The profile of one run.
fn run_of(flags: &[&str], part: &str, prepare: impl FnOnce(&mut Command)) -> Value {
    told_by(flags, part, prepare).0
}

/// The profile of one run, and the program's standard error.
fn told_by(flags: &[&str], part: &str, prepare: impl FnOnce(&mut Command)) -> (Value, String) {
    let to = folder("witness");
    let program = compile("shares.c", &to, &[&FLAGS, flags].concat());
    let path = to.join("profile.json");
    let mut command = preloaded(&program, "adaptive", &path);
    command.arg(part);
    prepare(&mut command);
    let output = run(&mut command);
    assert!(output.status.success() && output.stdout == b"1\n", "{output:?}");
    (profile(&path), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The same if the kernel's clock is available; otherwise `None`, and the profile gives the reason.
fn kernels(flags: &[&str], part: &str) -> Option<Value> {
    kernels_beside(flags, part).map(|(profile, _)| profile)
}

/// The profile, and the share of `one` that the program has measured itself.
fn kernels_beside_truth(part: &str) -> Option<(Value, f64)> {
    let (profile, told) = kernels_beside(&[], part)?;
    let truth = told.lines().find_map(|line| line.strip_prefix("one: ")?.parse().ok());
    Some((profile, truth.unwrap_or_else(|| panic!("no share of one in {told}"))))
}

fn kernels_beside(flags: &[&str], part: &str) -> Option<(Value, String)> {
    let (profile, told) = told_by(flags, part, |_| ());
    if profile["header"]["clock"]["clock"] == "kernel" {
        return Some((profile, told));
    }
    assert!(!profile["header"]["clock"]["why"].as_str().unwrap().is_empty(), "{profile}");
    println!("SKIPPED: {}", profile["header"]["clock"]);
    None
}

/// A function's share of the CPU time.
fn share(profile: &Value, name: &str) -> f64 {
    own(profile, name) / 1e9 / profile["header"]["processor"].as_f64().unwrap()
}

fn own(profile: &Value, name: &str) -> f64 {
    function(profile, name)["self"]["value"].as_f64().unwrap_or(0.0)
}

/// Within four standard deviations for this number of samples, and 0.05 for the time between the
/// parts. A fast machine takes fewer samples of the same program.
#[track_caller]
fn is_about(profile: &Value, share: f64, expected: f64) {
    let samples = profile["header"]["clock_samples"].as_f64().unwrap();
    let deviation = (expected * (1.0 - expected) / samples).sqrt();
    let error = (share - expected).abs();
    assert!(samples >= 50.0, "{samples} samples only");
    assert!(error < 0.05 + 4.0 * deviation, "{share:.3} for {expected}, of {samples} samples");
}

#[test]
fn shares_are_told_as_they_are() {
    let Some(profile) = kernels(&[], "split") else { return };
    is_about(&profile, share(&profile, "three"), 0.75);
    is_about(&profile, share(&profile, "one"), 0.25);
}

#[test]
fn threads_share_alike() {
    let Some(profile) = kernels(&[], "threads") else { return };
    is_about(&profile, share(&profile, "three"), 0.75);
    is_about(&profile, share(&profile, "one"), 0.25);
}

#[test]
fn time_in_the_c_library_belongs_to_its_caller() {
    let Some((profile, one)) = kernels_beside_truth("library") else { return };
    is_about(&profile, share(&profile, "one"), one);
    is_about(&profile, share(&profile, "fills"), 1.0 - one);
}

#[test]
fn inlined_functions_are_found_by_debug_information() {
    let Some(profile) = kernels(&["-g"], "inlined") else { return };
    is_about(&profile, share(&profile, "inlined_three"), 0.75);
    is_about(&profile, share(&profile, "inlined_one"), 0.25);
}

#[test]
fn time_in_a_part_that_was_split_off_belongs_to_the_whole_function() {
    for (source, slow) in [("rarely.cc", "deep"), ("cold.cc", "divided")] {
        let to = folder("witness-cold");
        let program = compile(source, &to, &FLAGS);
        let path = to.join("profile.json");
        let output = run(&mut preloaded(&program, "count", &path));
        assert!(output.status.success(), "{output:?}");
        let profile = profile(&path);
        let rows = profile["functions"].as_array().unwrap();
        assert!(rows.iter().all(|row| row["calls"]["how"] == "exact"), "{profile}");
        assert!(rows.iter().all(|row| row["calls"]["value"].as_f64() > Some(0.0)), "{profile}");
        if profile["header"]["clock"]["clock"] == "kernel" {
            assert!(share(&profile, slow) > 0.5, "{profile}");
        }
    }
}

#[test]
fn time_in_the_kernel_is_its_callers_or_a_row_of_its_own() {
    let Some((profile, one)) = kernels_beside_truth("read") else { return };
    let header = &profile["header"];
    let system = header["system"].as_f64().unwrap() / header["processor"].as_f64().unwrap();
    // The kernel's time: the times that the calls have measured themselves, less the entry and exit
    // with interrupts off.
    if header["clock"]["kernel"] == true {
        is_about(&profile, share(&profile, "reads"), 1.0 - one);
    } else {
        is_about(&profile, system + share(&profile, "reads"), 1.0 - one);
    }
    is_about(&profile, share(&profile, "one"), one);
}

#[test]
fn two_thousand_threads_are_no_reason_to_refuse() {
    let Some(profile) = kernels(&[], "many") else { return };
    assert_eq!(calls(&profile, "worker"), 2000.0);
}

/// A thread that ends before the clock has sampled it once: with probes that were compiled in, and
/// without, where a function gets a probe once it was seen to run.
#[test]
fn threads_that_are_briefer_than_the_clocks_period_are_sampled_in_bursts() {
    let to = folder("witness-brief");
    for flags in [&["-O2", "-finstrument-functions"][..], &["-O2"]] {
        let program = compile("shares.c", &to, flags);
        let path = to.join("profile.json");
        let output = run(preloaded(&program, "adaptive", &path).arg("brief"));
        assert!(output.status.success() && output.stdout == b"1\n", "{output:?}");
        let profile = profile(&path);
        if profile["header"]["clock"]["clock"] != "kernel" {
            println!("SKIPPED: {}", profile["header"]["clock"]);
            return;
        }
        let [one, three] = ["one", "three"].map(|name| share(&profile, name));
        // The others are the kernel's for starting and ending threads.
        assert!(one + three > 0.3, "{one} and {three} of {}", profile["header"]);
        is_about(&profile, three / (one + three), 0.75);
    }
}

#[test]
fn a_clock_that_is_not_wanted_is_not_there_and_one_that_is_unknown_is_refused() {
    let profile = run_of(&["-DTURNS=1000000"], "split", |command| {
        command.env("FASTINST_WITNESS", "none");
    });
    assert_eq!(profile["header"]["clock"]["clock"], "none");
    assert!(calls(&profile, "one") > 0.0);
}

#[test]
fn without_the_kernels_clock_the_agent_sees_calls_that_are_timed() {
    let profile = run_of(&[], "split", |command| {
        command.env("FASTINST_WITNESS", "frames");
    });
    let header = &profile["header"];
    assert_eq!(header["clock"]["clock"], "frames");
    assert!(header["clock_samples"].as_f64().unwrap() > 20.0, "{header}");
    let sum: f64 =
        ["one", "three", "worker", "main"].map(|name| share(&profile, name)).iter().sum();
    assert!(sum <= 1.001, "{sum} in {profile}");
}

/// A parent that forbids perf_event_open and runs the program under its filter.
#[test]
fn a_filter_that_forbids_the_clock_harms_nothing() {
    let to = folder("witness");
    let program = compile("shares.c", &to, &[&FLAGS[..], &["-DTURNS=1000000"]].concat());
    let sandbox = compile("sandbox.c", &to, &["-O2"]);
    let path = to.join("profile.json");
    let mut command = preloaded(Path::new(&sandbox), "adaptive", &path);
    command.args(["clock"]).arg(&program).arg("split");
    let output = run(&mut command);
    assert!(output.status.success() && output.stdout == b"1\n", "{output:?}");
    let profile = profile(&path);
    let clock = &profile["header"]["clock"];
    assert_ne!(clock["clock"], "kernel", "{clock}");
    assert!(clock["why"].as_str().unwrap().contains("perf_event_open"), "{clock}");
    assert_eq!(calls(&profile, "three"), 20.0);
}

#[test]
fn time_in_a_library_that_is_known_by_a_link_is_its_own() {
    if !has("gcc") {
        return;
    }
    let to = folder("witness-link");
    let source = |name: &str, text: &str| {
        let path = to.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let library = source(
        "work.c",
        "double work(long n) { volatile double sum = 0; while (n--) sum += n; return sum; }",
    );
    let program =
        source("main.c", "double work(long); int main(void) { return work(200000000) < 0; }");
    let gcc = |arguments: &[&str]| {
        let mut command = Command::new("gcc");
        let output = run(command.args(arguments).arg("-finstrument-functions").current_dir(&to));
        assert!(output.status.success(), "{output:?}");
    };
    let library = library.to_str().unwrap();
    gcc(&["-shared", "-fPIC", "-O1", "-Wl,-soname,libwork.so.1", library, "-o", "libwork.so.1.2"]);
    for link in ["libwork.so.1", "libwork.so"] {
        std::os::unix::fs::symlink("libwork.so.1.2", to.join(link)).unwrap();
    }
    gcc(&["-O1", program.to_str().unwrap(), "-L.", "-lwork", "-Wl,-rpath,$ORIGIN", "-o", "main"]);
    let path = to.join("profile.json");
    assert!(run(&mut preloaded(&to.join("main"), "adaptive", &path)).status.success());
    let profile = profile(&path);
    if profile["header"]["clock"]["clock"] != "kernel" {
        println!("SKIPPED: {}", profile["header"]["clock"]);
        return;
    }
    let share = &function(&profile, "work")["share"];
    assert!(share["value"].as_f64().is_some_and(|share| share > 0.5), "{profile}");
}

/// With hooks, and in code that no compiler has prepared; also if it is there only briefly.
#[test]
fn time_in_a_library_that_was_unloaded_stays_its_own() {
    if !has("gcc") {
        return;
    }
    let to = folder("witness-unloaded");
    let hooks = ("-finstrument-functions", "seen");
    for ((flag, plant), calls) in [
        (hooks, 4000),
        (hooks, 800),
        (("-fno-lto", "all"), 4000),
        (("-fno-lto", "seen"), 4000),
        (("-fno-lto", "seen"), 800),
    ] {
        let calls = format!("-DCALLS={calls}");
        let flags = ["-O2", &calls, flag];
        let library = [&flags[..], &["-DLIBRARY", "-shared", "-fPIC"]].concat();
        let guest = to.join("libguest.so");
        std::fs::rename(compile("guest.c", &to, &library), &guest).unwrap();
        let program = compile("guest.c", &to, &flags);
        let path = to.join("profile.json");
        let mut command = fastinst();
        command.args(["run", "--plant", plant, "--format", "json", "-o"]).arg(&path);
        assert!(run(command.arg(&program).arg(&guest)).status.success());
        let profile = profile(&path);
        if profile["header"]["clock"]["clock"] != "kernel" {
            println!("SKIPPED: {}", profile["header"]["clock"]);
            return;
        }
        // In the last moment before it is unloaded, the agent may not have read all samples.
        let guest = share(&profile, "guest");
        assert!((0.6..=1.0).contains(&guest), "{guest} {plant} {flags:?}: {}", profile["header"]);
    }
}
