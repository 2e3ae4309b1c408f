//! Arguments of functions: calls are counted by their values, and the program behaves as before.

mod support;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use support::{calls, clean, compile, compile_with, fastinst, folder, has, profile, run};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a program under the profiler; returns its profile.
fn observed(program: &Path, arguments: &[&str], to: &Path, options: &[&str]) -> Output {
    let plain = run(clean(Command::new(program)).args(arguments).current_dir(to.parent().unwrap()));
    let mut command = fastinst();
    command.args(["run", "--follow", "none", "--format", "json", "-o"]);
    command.arg(to).args(options).arg(program).args(arguments);
    let output = run(command.current_dir(to.parent().unwrap()));
    assert_eq!(output.stdout, plain.stdout, "{}", text(&output.stderr));
    assert_eq!(output.status.code(), plain.status.code());
    output
}

/// The values of a function with the calls of each, the most frequent first.
fn values(profile: &Value, function: &str, what: &str) -> Vec<(String, u64)> {
    let tables = profile["header"]["arguments"].as_array().cloned().unwrap_or_default();
    let table = tables
        .iter()
        .find(|table| table["function"] == function && table["what"] == what)
        .unwrap_or_else(|| panic!("{what} of {function} is not in {}", profile["header"]));
    let value = |value: &Value| {
        let values: Vec<&str> =
            value["values"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
        (values.join(", "), value["calls"].as_u64().unwrap())
    };
    table["values"].as_array().unwrap().iter().map(value).collect()
}

fn table<'p>(profile: &'p Value, function: &str) -> &'p Value {
    let mut tables = profile["header"]["arguments"].as_array().unwrap().iter();
    tables.find(|table| table["function"] == function).unwrap()
}

const FLAVOURS: [(&str, &str, &[&str]); 4] = [
    ("patchable", "gcc", &["-O2", "-fpatchable-function-entry=5"]),
    ("mcount", "gcc", &["-O2", "-pg", "-mfentry"]),
    ("symbols", "gcc", &["-O2"]),
    ("symbols", "clang", &["-O1", "-fcf-protection=full"]),
];

#[test]
fn calls_are_counted_by_what_they_are_called_with() {
    let to = folder("arguments-values");
    let mut read = 0;
    for (turn, (provider, compiler, flags)) in FLAVOURS.iter().enumerate() {
        if !has(compiler) {
            continue;
        }
        let place = to.join(turn.to_string());
        std::fs::create_dir_all(&place).unwrap();
        let program = compile_with(compiler, "arguments.c", &place, flags);
        for policy in ["count", "exact", "adaptive"] {
            let file = place.join(policy);
            let asked = ["-A", "parse@arg1/s,arg2/i32,arg3/c,retval/i", "-A", "deep@arg1/u8"];
            let options = ["--provider", provider, "--policy", policy];
            observed(&program, &[], &file, &[&options[..], &asked[..]].concat());
            let profile = profile(&file);
            if profile["header"]["arguments"].as_array().is_none_or(|all| all.len() < 3) {
                // If the place of a landing is taken, a function has no probe, or gets one too
                // late.
                assert_eq!(*provider, "symbols", "{}", profile["header"]);
                continue;
            }
            read += 1;
            let expected = [
                ("\"alpha\", -1, 'a'", 30),
                ("\"beta\", 7, 'b'", 20),
                ("0x8 (unreadable), 0, '\\n'", 3),
                ("NULL, 0, '\\x00'", 2),
            ];
            let found = values(&profile, "parse", "arg1/s, arg2/i32, arg3/c");
            let expected = expected.map(|(text, calls)| (text.to_owned(), calls));
            assert_eq!(found, expected, "{provider} {compiler} {policy}");
            assert_eq!(calls(&profile, "parse"), 55.0, "{provider} {compiler} {policy}");
            let found = values(&profile, "deep", "arg1/u8");
            assert!(found.len() == 10 && found.iter().all(|(_, calls)| *calls == 1), "{found:?}");
            let parse = table(&profile, "parse");
            if parse["values"][0]["max"].is_number() {
                let returned = values(&profile, "parse", "retval/i");
                let expected = [("-2", 30), ("14", 20), ("0", 5)];
                assert_eq!(returned, expected.map(|(text, calls)| (text.to_owned(), calls)));
                for value in table(&profile, "deep")["values"].as_array().unwrap() {
                    assert!(value["max"].as_f64().unwrap() > 0.0, "{value}");
                }
            }
        }
    }
    assert!(read >= 6, "arguments were read in {read} runs");
}

/// A function, the values that are read, and their numbers of calls.
type Expected = (&'static str, &'static str, &'static [(&'static str, u64)]);

const TYPED: [Expected; 7] = [
    (
        "parse",
        "arg1/s, arg2/i32, arg3/u8, arg4/b, arg5/enum, arg6/u16",
        &[("\"alpha\", -1, 200, true, GREEN, 80", 30), ("NULL, 7, 0, false, NONE, 65535", 20)],
    ),
    ("parse", "retval/i", &[("-2", 30), ("14", 20)]),
    ("name_of", "arg1/enum", &[("RED", 3), ("7", 2)]),
    ("name_of", "retval/s", &[("\"red\"", 3), ("NULL", 2)]),
    ("make", "arg2/i16", &[("-3", 4)]),
    ("behind", "arg1/c", &[("'x'", 5)]),
    ("behind", "retval/c", &[("'\\x88'", 5)]),
];

#[test]
fn types_are_those_of_debug_information() {
    let to = folder("arguments-types");
    for (compiler, flags) in
        [("gcc", ["-O2", "-g"]), ("gcc", ["-O0", "-gdwarf-4"]), ("clang", ["-O1", "-g"])]
    {
        if !has(compiler) {
            continue;
        }
        let place = to.join(format!("{compiler}{}", flags[0]));
        std::fs::create_dir_all(&place).unwrap();
        let prepared = "-fpatchable-function-entry=5";
        let program = compile_with(compiler, "typed.c", &place, &[flags[0], flags[1], prepared]);
        let file = place.join("profile");
        let asked = ["parse", "name_of@arg1,retval", "make", "behind", "quiet"];
        let asked = asked.into_iter().flat_map(|what| ["-A", what]);
        let options: Vec<&str> =
            ["--provider", "patchable", "--policy", "count"].into_iter().chain(asked).collect();
        observed(&program, &[], &file, &options);
        let profile = profile(&file);
        for (function, what, expected) in TYPED {
            let is_returned = what.starts_with("retval");
            if is_returned && !table(&profile, function)["values"][0]["max"].is_number() {
                // One of its exits has no probe.
                continue;
            }
            let expected: Vec<_> =
                expected.iter().map(|(text, calls)| ((*text).to_owned(), *calls)).collect();
            assert_eq!(
                values(&profile, function, what),
                expected,
                "{compiler} {flags:?} {function}"
            );
        }
        let notes = profile["header"]["notes"].to_string();
        assert!(notes.contains("arguments of quiet are not read: it has none"), "{notes}");
    }
    // A value with a given form is read, even without debug information.
    let program = compile("typed.c", &to, &["-O2", "-fpatchable-function-entry=5"]);
    let file = to.join("profile");
    let options = ["--provider", "patchable", "-A", "parse", "-A", "name_of@arg1/u8"];
    observed(&program, &[], &file, &options);
    let profile = profile(&file);
    assert_eq!(values(&profile, "name_of", "arg1/u8"), [("0".to_owned(), 3), ("7".to_owned(), 2)]);
    let notes = profile["header"]["notes"].to_string();
    assert!(notes.contains("arguments of parse are not read: no debug information"), "{notes}");
}

#[test]
fn what_is_too_much_is_told_and_costs_no_more() {
    let to = folder("arguments-bounds");
    let program = compile("arguments.c", &to, &["-O2", "-fpatchable-function-entry=5"]);
    let file = to.join("profile");
    let asked = ["--provider", "patchable", "--policy", "count", "-A", "many@arg1/x"];
    let options = [&asked[..], &["-A", "hot@arg1/i32,retval", "-A", "tail@retval"]].concat();
    observed(&program, &["500000"], &file, &options);
    let profile = profile(&file);
    let many = table(&profile, "many");
    assert_eq!((many["values"].as_array().unwrap().len(), &many["other"]), (64, &136.into()));
    // Counting continues when reading has stopped.
    assert_eq!(calls(&profile, "hot"), 500_005.0);
    let hot = table(&profile, "hot");
    assert_eq!(hot["stopped"], 5_000);
    let read: u64 = hot["values"]
        .as_array()
        .unwrap()
        .iter()
        .map(|value| value["calls"].as_u64().unwrap())
        .sum();
    let read = read + hot["other"].as_u64().unwrap();
    assert!((5_000..10_010).contains(&read), "{read}");
    // The result of a tail-called function is unknown.
    let tail = table(&profile, "tail");
    assert_eq!(tail["values"].as_array().unwrap().len(), 0, "{tail}");

    let kept = to.join("kept");
    let mut command = fastinst();
    command.args(["run", "-o"]).arg(&kept).args(&options).arg(&program).current_dir(&to);
    run(&mut command);
    let report = |options: &[&str]| run(fastinst().arg("report").args(options).arg(&kept));
    let table = text(&report(&[]).stdout);
    assert!(
        table.contains("arg1/x of many: 200 calls") && table.contains("(other values)"),
        "{table}"
    );
    let one = text(&report(&["--arguments", "ma*"]).stdout);
    assert!(one.lines().count() > 64 && !one.contains("of hot"), "{one}");
    let none = report(&["--arguments", "nosuch"]);
    let why = text(&none.stderr);
    assert!(!none.status.success() && why.contains("arguments were read for "), "{why}");
}

#[test]
fn what_cannot_be_read_is_refused_with_the_remedy() {
    let to = folder("arguments-refused");
    let program = compile("arguments.c", &to, &["-O2", "-finstrument-functions"]);
    let file = to.join("profile");
    observed(&program, &[], &file, &["--policy", "count", "-A", "parse@arg1/s"]);
    let notes = profile(&file)["header"]["notes"].to_string();
    assert!(notes.contains("arguments of parse are not read"), "{notes}");
    assert!(notes.contains("without -finstrument-functions"), "{notes}");

    for (options, why) in [
        (&["-A", "@arg1"][..], "FUNCTION is missing before the values"),
        (&["-A", "parse@arg9"], "arg9 is not in a register; only arg1 to arg6 are"),
        (&["-A", "parse@arg1/z"], "'/z' is not a format"),
        (&["-A", "/[/@arg1"], "invalid pattern"),
        (&["-A", "parse@arg1", "--provider", "hooks"], "use --provider symbols"),
        (&["-A", "parse@arg1", "--provider", "usdt"], "use --provider symbols"),
    ] {
        let output = run(fastinst().arg("run").args(options).arg(&program));
        let told = text(&output.stderr);
        assert!(!output.status.success() && told.contains(why), "{options:?}: {told}");
        assert!(output.stdout.is_empty(), "{options:?}");
    }
}
