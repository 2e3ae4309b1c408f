//! Static tracepoints (USDT) of programs and libraries: each pass is counted, and the program
//! behaves as before.

mod support;

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use support::{calls, clean, compile, compile_with, fastinst, folder, function, has, profile, run};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a program under `--provider usdt`; returns its profile.
fn observed(program: &Path, arguments: &[&str], to: &Path, options: &[&str]) -> Output {
    let mut command = fastinst();
    command.args(["run", "--provider", "usdt", "--follow", "none", "--format", "json", "-o"]);
    let output = run(command.arg(to).args(options).arg(program).args(arguments));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    output
}

/// The counts that the program prints.
fn told(output: &Output) -> Vec<(String, f64)> {
    let stdout = text(&output.stdout);
    let line = |line: &str| {
        let (name, count) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), count.parse().unwrap())
    };
    stdout.lines().skip(1).map(line).collect()
}

/// The notes of the profile.
fn notes(profile: &serde_json::Value) -> String {
    profile["header"]["notes"].to_string()
}

const FLAVOURS: [(&str, &[&str]); 4] = [
    ("gcc", &["-O2"]),
    ("gcc", &["-O0"]),
    ("gcc", &["-Os", "-no-pie", "-fno-pie"]),
    ("clang", &["-O2", "-fcf-protection=full"]),
];

#[test]
fn every_pass_of_a_point_is_counted_on_all_threads() {
    let to = folder("points-counts");
    for (turn, (compiler, flags)) in FLAVOURS.iter().enumerate() {
        if !has(compiler) {
            continue;
        }
        let place = to.join(turn.to_string());
        std::fs::create_dir_all(&place).unwrap();
        let program = compile_with(compiler, "points.c", &place, flags);
        let plain = run(clean(Command::new(&program)).arg("50"));
        assert!(text(&plain.stdout).starts_with("semaphores 0 0 0\napp:work__begin 200\n"));
        for policy in ["count", "exact", "adaptive"] {
            let file = place.join(policy);
            let output = observed(&program, &["50"], &file, &["--policy", policy]);
            let profile = profile(&file);
            // One for each semaphore, whatever the number of places of its point.
            if !notes(&profile).contains("refused") {
                assert!(text(&output.stdout).starts_with("semaphores 1 1 1\n"), "{policy}");
            }
            // If a pun leads to memory that the program uses, its point is refused, and reported by
            // name.
            let (refused, counted): (Vec<_>, Vec<_>) =
                told(&output).into_iter().partition(|(name, _)| notes(&profile).contains(name));
            assert!(refused.len() <= 3, "{flags:?} {}", notes(&profile));
            for (name, expected) in counted {
                assert_eq!(calls(&profile, &name), expected, "{flags:?} {policy} {name}");
                let row = function(&profile, &name);
                assert_eq!(row["calls"]["how"], "exact", "{flags:?} {policy} {name}");
                // A point has no duration, so there is no bound of it, either.
                assert!(policy == "exact" || row["self"].is_null(), "{flags:?} {policy} {row}");
            }
        }
    }
}

#[test]
fn a_pair_is_timed_from_its_beginning_to_its_end() {
    let to = folder("points-pairs");
    let program = compile("points.c", &to, &["-O2"]);
    let file = to.join("profile");
    let options = ["--policy", "exact", "--pair", "app:load,app:ready"];
    let output = observed(&program, &["50"], &file, &options);
    let profile = profile(&file);
    for begin in ["app:work__begin", "app:load"] {
        let row = function(&profile, begin);
        assert_eq!(row["samples"], row["calls"]["value"].as_f64().unwrap() as u64, "{row}");
        assert!(row["p50"].as_f64().unwrap() > 0.0, "{row}");
    }
    // From load to ready the program works once.
    let p50 = |name: &str| function(&profile, name)["p50"].as_f64().unwrap();
    assert!(p50("app:load") >= 0.5 * p50("app:work__begin"));
    for other in ["app:work__end", "app:item", "app:last"] {
        assert!(function(&profile, other)["p50"].is_null(), "{other}");
    }
    assert!(text(&output.stderr).is_empty(), "{}", text(&output.stderr));
}

#[test]
fn points_are_chosen_by_their_names() {
    let to = folder("points-names");
    let program = compile("points.c", &to, &["-O2"]);
    let file = to.join("profile");
    let output = observed(&program, &["10"], &file, &["-F", "app:l*", "--policy", "count"]);
    // Semaphores of points without a probe are off.
    assert!(text(&output.stdout).starts_with("semaphores 0 0 1\n"));
    let names: Vec<String> = profile(&file)["functions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap().to_owned())
        .collect();
    assert!(names.contains(&"app:load".to_owned()) && names.contains(&"app:last".to_owned()));
    assert_eq!(names.len(), 2, "{names:?}");

    for (arguments, why) in [
        (&["-F", "app:lost"][..], "no tracepoint matches 'app:lost'; did you mean app:last"),
        (&["--pair", "app:load,app:red"], "no tracepoint matches 'app:red'"),
        (&["--pair", "app:load"], "'app:load' is not a pair of tracepoints"),
    ] {
        let mut command = fastinst();
        command.args(["run", "--provider", "usdt"]).args(arguments).arg(&program);
        let output = run(&mut command);
        assert!(!output.status.success() && text(&output.stderr).contains(why), "{output:?}");
        assert!(output.stdout.is_empty());
    }
    let output = run(fastinst().args(["run", "--pair", "app:load,app:ready"]).arg(&program));
    assert!(text(&output.stderr).contains("--pair belongs to --provider usdt"), "{output:?}");
}

#[test]
fn points_are_listed_with_their_pairs_and_arguments() {
    let to = folder("points-listed");
    let program = compile("points.c", &to, &["-O2"]);
    let listed = text(&run(fastinst().arg("probes").arg(&program)).stdout);
    assert!(
        listed.contains("app:work__begin") && listed.contains("up to app:work__end"),
        "{listed}"
    );
    assert!(listed.contains("7 points (--provider usdt), 1 begin pairs"), "{listed}");
    let json = run(fastinst().args(["probes", "--json", "-F", "app:item"]).arg(&program)).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let point = &json["points"][0];
    assert_eq!(point["point"], "app:item", "{json}");
    assert!(point["semaphore"].is_u64() && point["arguments"].as_str().unwrap().contains('@'));
}

/// The places of a notify table are points, too.
#[test]
fn a_notify_table_is_played() {
    let to = folder("points-notify");
    for (turn, flags) in [&["-no-pie"][..], &["-pie"]].into_iter().enumerate() {
        let place = to.join(turn.to_string());
        std::fs::create_dir_all(&place).unwrap();
        let program = compile("notify.s", &place, flags);
        let file = place.join("profile");
        observed(&program, &[], &file, &["--policy", "count"]);
        let profile = profile(&file);
        assert_eq!(calls(&profile, "notify:loop"), 300.0);
        // Six nops are a displacement far down, to addresses that a program at a fixed address
        // cannot use; the first instruction of several bytes is one upwards.
        assert_eq!(calls(&profile, "notify:odd numbers"), 100.0);
    }
}

/// The installed C++ library has points where exceptions are thrown and caught.
#[test]
fn a_library_as_it_is_installed_has_points() {
    let to = folder("points-throws");
    let program = compile("throws.cc", &to, &["-O2"]);
    let file = to.join("profile");
    let plain = run(clean(Command::new(&program)).arg("600"));
    let output = observed(&program, &["600"], &file, &["--policy", "exact"]);
    assert_eq!(output.stdout, plain.stdout);
    let profile = profile(&file);
    // Of 600 numbers 200 are divisible by 3, and 100 of these by 6.
    assert_eq!(calls(&profile, "libstdcxx:throw"), 200.0);
    assert_eq!(calls(&profile, "libstdcxx:rethrow"), 100.0);
    assert_eq!(calls(&profile, "libstdcxx:catch"), 300.0);
}

/// Each time a library is loaded, its semaphores show that a tool is attached.
#[test]
fn points_of_libraries_that_are_loaded_later_are_counted_from_the_first_pass_on() {
    let to = folder("points-later");
    let plugin = compile("plugin.c", &to, &["-O2", "-shared", "-fPIC", "-DPOINTS"]);
    let host = compile("host.c", &to, &["-O2"]);
    for policy in ["exact", "count"] {
        let file = to.join(policy);
        let arguments = [plugin.to_str().unwrap()];
        let output = observed(&host, &arguments, &file, &["--policy", policy]);
        assert_eq!(text(&output.stdout), "15015000\n", "{}", text(&output.stderr));
        let profile = profile(&file);
        for name in ["plug:begin", "plug:end"] {
            if !notes(&profile).contains(name) {
                assert_eq!(calls(&profile, name), 30.0, "{policy}");
            }
        }
        assert!(notes(&profile).contains("when their library was loaded"), "{}", notes(&profile));
    }
    // No probe is left behind, whatever the library's next address is.
    let host = compile("churn.c", &to, &["-O2"]);
    for place in ["here", "elsewhere"] {
        let arguments = [plugin.to_str().unwrap(), "1000", place];
        let mut command = fastinst();
        command.args(["run", "--provider", "usdt", "--format", "json", "-o"]);
        let output = run(command.arg(to.join(place)).arg(&host).args(arguments));
        assert_eq!(text(&output.stdout), "6000 flat flat\n", "{}", text(&output.stderr));
    }
}

/// A tool that detaches is not at a point any more.
#[test]
fn a_semaphore_is_what_it_was_when_the_profiler_has_left() {
    let to = folder("points-attached");
    let program = compile("passing.c", &to, &["-O2"]);
    let mut child = clean(Command::new(&program)).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::with_capacity(1, child.stdout.take().unwrap());
    let mut said = String::new();
    stdout.read_line(&mut said).unwrap();
    let file = to.join("profile");
    for _ in 0..2 {
        let mut command = fastinst();
        command.args(["attach", "--provider", "usdt", "--for", "300ms", "--format", "json", "-o"]);
        let output = run(command.arg(&file).arg(child.id().to_string()));
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(calls(&profile(&file), "app:tick") > 0.0);
    }
    test_support::send(child.id(), libc::SIGTERM);
    stdout.read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(said, "ready\nmost 1 now 0\n");
}
