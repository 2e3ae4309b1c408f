//! The command: its output, its refusals, and its exit codes.

mod support;

use std::os::unix::process::ExitStatusExt;
use support::*;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_demo_shows_a_profile_and_what_to_try_next() {
    if !has("gcc") {
        return;
    }
    let output = run(fastinst().arg("demo").arg(folder("demo")));
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    for wanted in ["Its output is the same", "count_word (words.c:", "by_count", "Try next"] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
    // Without a compiler the bundled sample is profiled.
    let output = run(fastinst().arg("demo").arg(folder("demo")).env("CC", "no-such-compiler"));
    let shown = text(&output.stdout);
    assert!(output.status.success() && shown.contains("No C compiler found"), "{output:?}");
    assert!(shown.contains("count_word (sample.rs:"), "{shown}");
}

#[test]
fn the_webassembly_half_of_the_demo_switches_a_monitor_or_says_what_it_needs() {
    let mut demo = fastinst();
    // Nothing is built from here.
    demo.args(["demo", "--wasm"]).arg(folder("demo-wasm")).env_remove("CARGO");
    let output = run(&mut demo);
    let shown = text(&output.stdout);
    // It needs a command that may not be built yet.
    let beside = std::path::Path::new(env!("CARGO_BIN_EXE_fastinst")).with_file_name("wasm-aot");
    if !beside.is_file() {
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.lines().count() == 1, "{said}");
        assert!(said.contains("wasm-aot: build it with cargo build"), "{said}");
        return;
    }
    assert!(output.status.success(), "{output:?}");
    for wanted in ["ways is off", "hotness is attached", "executions of", "ways is on", "taken"] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
}

#[test]
fn run_ends_as_the_program_does_and_prints_a_table() {
    if !has("gcc") {
        return;
    }
    let to = folder("run");
    let program = compile("calls.c", &to, &["-O2", "-finstrument-functions"]);
    let output = run(fastinst().args(["run", "--policy", "exact"]).arg(&program));
    assert_eq!((output.status.code(), text(&output.stdout).lines().count()), (Some(7), 1));
    let table = text(&output.stderr);
    assert!(
        table.contains("middle") && table.contains("200k") && table.contains("policy exact"),
        "{table}"
    );
    let output = run(fastinst().args(["run", "--json"]).arg(&program));
    let told: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert!(output.status.code() == Some(7) && told["functions"].is_array(), "{told}");
    let output = run(fastinst().args(["run", "sh", "-c", "kill -TERM $$"]));
    assert_eq!(output.status.signal(), Some(libc::SIGTERM));
    // A shell is not what takes the time.
    let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    for (options, nested) in [(&[][..], true), (&[], false), (&["--provider", "symbols"], true)] {
        let script = if nested { format!("sh -c '{busy}'; true") } else { busy.to_owned() };
        let output = run(fastinst().arg("run").args(options).args(["sh", "-c", &script]));
        let told = text(&output.stderr);
        let is_told = told.contains("Note: programs that it started took");
        assert_eq!(is_told, nested && options.is_empty(), "{script} {options:?}: {told}");
    }
}

#[test]
fn profiles_are_kept_reported_and_compared() {
    if !has("gcc") {
        return;
    }
    let to = folder("reports");
    let program = compile("calls.c", &to, &["-O2", "-g", "-finstrument-functions"]);
    let kept = to.join("kept.profile");
    run(fastinst().args(["run", "--policy", "exact", "-o"]).arg(&kept).arg(&program));
    assert!(std::fs::metadata(&kept).unwrap().len() < 1_000_000);
    for (format, wanted) in [
        ("table", "leaf (calls.c:"),
        ("json", "\"name\": \"leaf\""),
        ("csv", "leaf,"),
        ("folded", "main;middle"),
        ("gprof", "Flat profile"),
    ] {
        let output = run(fastinst().args(["report", "--format", format]).arg(&kept));
        assert!(
            output.status.success() && text(&output.stdout).contains(wanted),
            "{format}: {output:?}"
        );
    }
    let pprof = run(fastinst().args(["report", "--format", "pprof"]).arg(&kept)).stdout;
    assert!(pprof.windows(4).any(|bytes| bytes == b"leaf"));
    let twice = text(&run(fastinst().args(["report", "--json"]).args([&kept, &kept])).stdout);
    let merged: serde_json::Value = serde_json::from_str(&twice).unwrap();
    assert_eq!(calls(&merged, "leaf"), 400_000.0);
    let diff = run(fastinst().arg("diff").args([&kept, &kept]));
    assert!(diff.status.success() && text(&diff.stdout).contains("leaf"));
    assert!(
        text(&diff.stdout).starts_with("0 slower, 0 faster")
            && text(&diff.stdout).contains("never significant"),
        "{diff:?}"
    );
}

#[test]
fn what_cannot_be_profiled_is_refused_with_a_remedy() {
    if !has("gcc") {
        return;
    }
    let to = folder("refused");
    let plain = compile("calls.c", &to, &["-O2"]);
    let output = run(fastinst().args(["run", "--provider", "hooks"]).arg(&plain));
    assert!(
        output.status.code() == Some(7) && text(&output.stderr).contains("-finstrument-functions"),
        "{output:?}"
    );
    let fixed = compile("calls.c", &to, &["-O2", "-static", "-finstrument-functions"]);
    let output = run(fastinst().arg("run").arg(&fixed));
    assert!(
        output.status.code() == Some(1) && text(&output.stderr).contains("statically"),
        "{output:?}"
    );
    // A process that could not load the library would not start, or print a warning.
    let script = |name: &str, first: &str| {
        let script = to.join(name);
        std::fs::write(&script, format!("{first}echo hi\n")).unwrap();
        run(std::process::Command::new("chmod").arg("+x").arg(&script));
        script
    };
    let narrow = to.join("narrow");
    let mut header = std::fs::read(&plain).unwrap();
    header[4] = 1;
    std::fs::write(&narrow, header).unwrap();
    run(std::process::Command::new("chmod").arg("+x").arg(&narrow));
    let first = |program: &std::path::Path| format!("#!{} -x\n", program.display());
    let mut wrong = vec![
        (narrow.clone(), 1, "32-bit"),
        (script("of-narrow", &first(&narrow)), 1, "32-bit"),
        (script("of-static", &first(&fixed)), 1, "statically"),
        (script("of-none", "#! /no/such/interpreter\n"), 126, "/no/such/interpreter"),
        (script("bare", ""), 126, "#!"),
    ];
    if has("musl-gcc") {
        wrong.push((compile_with("musl-gcc", "calls.c", &folder("musl"), &["-O1"]), 1, "musl"));
    }
    for (program, code, why) in wrong {
        let output = run(fastinst().arg("run").arg(&program));
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(code), 1), "{said}");
        assert!(said.contains(why), "{said}");
    }
    let output = run(fastinst().arg("run").arg(script("good", "#!/bin/sh\n")));
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "hi\n"));
    let damaged = to.join("damaged");
    std::fs::write(&damaged, [&b"\x7fELF\x02\x01\x01"[..], &[0xff; 200]].concat()).unwrap();
    for command in ["probes", "doctor"] {
        let output = run(fastinst().arg(command).arg(&damaged));
        assert!(
            output.status.code() == Some(1) && text(&output.stderr).contains("damaged"),
            "{output:?}"
        );
    }
    let output = run(fastinst().arg("report").arg(&damaged));
    assert!(
        output.status.code() == Some(1) && text(&output.stderr).contains("not a fastinst profile"),
        "{output:?}"
    );
    for (wrong, code) in [
        (&["run", "--policy", "best", "true"][..], 2),
        (&["run", "-n", "5", "true"], 2),
        (&["run", "./no-such-program"], 127),
        (&["run", "no-such-program"], 127),
    ] {
        let output = run(fastinst().args(wrong));
        assert!(
            output.status.code() == Some(code) && text(&output.stderr).lines().count() == 1,
            "{wrong:?}: {output:?}"
        );
    }
}

#[test]
fn what_cannot_be_meant_is_refused_before_the_program_starts() {
    if !has("gcc") {
        return;
    }
    let to = folder("meant");
    let program = compile("calls.c", &to, &["-O1", "-finstrument-functions"]);
    let refused = |args: &[&str], key: Option<&str>| {
        let mut command = fastinst();
        command.arg("run").args(args).arg(&program).current_dir(&to);
        command.envs(key.map(|key| (key, "1")));
        let output = run(&mut command);
        assert_eq!(
            (text(&output.stdout).as_str(), text(&output.stderr).lines().count()),
            ("", 1),
            "{args:?}: {output:?}"
        );
        (output.status.code(), text(&output.stderr))
    };
    for (args, key, code, says) in [
        (&["--polcy", "exact"][..], None, 2, "unknown option --polcy; did you mean --policy?"),
        (&["-F", "leef"], None, 1, "matches 'leef'; did you mean leaf?"),
        (&["-A", "leef@arg1"], None, 1, "matches 'leef'; did you mean leaf?"),
        (&["-F", "/[/"], None, 2, "invalid pattern '/[/'"),
        (&["-N", "["], None, 2, "invalid pattern '['"),
        (&["-F", "@libz*"], None, 1, "no function with probes matches '@libz*'"),
        (&["-N", "*"], None, 1, "the filters leave no function of"),
        (&["-F", "leaf", "-N", "le*"], None, 1, "the filters leave no function of"),
        (
            &[],
            Some("FASTINST_POLCY"),
            1,
            "unknown key FASTINST_POLCY; did you mean FASTINST_POLICY?",
        ),
        (&["--interval", "5"], None, 2, "--interval 5"),
        (&["--interval", "1s"], None, 2, "--interval replaces a file: name one with -o FILE"),
        (&["--interval", "1s", "-o", "/dev/stdout"], None, 2, "and /dev/stdout is none"),
        (
            &["--policy", "periodic", "-e", "-1ms"],
            None,
            2,
            "'-1ms' for '--epoch <TIME>': give a time",
        ),
        (&["--budget", "2"], None, 2, "(see fastinst run --help)"),
        (&[""], None, 127, "the program's name is empty"),
        (&["."], None, 126, ". is a directory"),
        (&["./no-such-program"], None, 127, "No such file: ./no-such-program"),
        (&["./calls.txt"], None, 126, "is not executable"),
        (&["./app.wasm"], None, 126, "app.wasm is a WebAssembly module: run it with wasm-aot run"),
    ] {
        std::fs::write(to.join("calls.txt"), "").unwrap();
        std::fs::write(to.join("app.wasm"), "\0asm\x01\0\0\0").unwrap();
        let (status, line) = refused(args, key);
        assert!(status == Some(code) && line.contains(says), "{args:?}: {status:?} {line}");
    }
    // The environment is reported once for the library, and not again in a nested run.
    for (others, says) in [(&[][..], 1), (&[("FASTINST_RUN", "1")], 0)] {
        let mut command = fastinst();
        command.args(["run", "--policy", "count"]).arg(&program).env("FASTINST_DEPTH", "no");
        let output = run(command.envs(others.iter().copied()));
        let line = "note: FASTINST_DEPTH ignored: use options";
        assert_eq!(text(&output.stderr).matches(line).count(), says, "{output:?}");
        assert_eq!(output.status.code(), Some(7));
    }
    // A filter that matches causes no message; one that excludes nothing is reported.
    let output = run(fastinst()
        .args(["run", "--policy", "periodic", "-F", "lea*", "-N", "mian"])
        .arg(&program));
    assert_eq!(output.status.code(), Some(7));
    assert!(text(&output.stderr).contains("did you mean main?"), "{output:?}");
}

#[test]
fn two_programs_are_looked_for_before_one_has_run() {
    let compared = |old, new| {
        let output = run(fastinst().args(["compare", "--", old, "--", new]));
        (output.status.code(), text(&output.stderr))
    };
    for (old, new) in [("/bin/true", "./no-such-program"), ("./no-such-program", "/bin/true")] {
        let missing = "fastinst: No such file: ./no-such-program\n".to_owned();
        assert_eq!(compared(old, new), (Some(127), missing));
    }
}

#[test]
fn what_means_nothing_to_a_command_is_a_wrong_command_line() {
    let to = folder("nothing");
    for (args, says) in [
        (&["attach", "-F", "/[/", "4000000"][..], "invalid pattern '/[/'"),
        (&["cc", "--with=tcc", "a.c"], "--with=tcc: unknown compiler; use gcc or clang"),
        (
            &["export", "--format", "openmetrics", "--listen", "here", "no.profile"],
            "give an address such as 127.0.0.1:9464",
        ),
        (&["ctl", "4000000", "budget", "much"], "budget much: give a share"),
    ] {
        let output = run(fastinst().args(args));
        let said = text(&output.stderr);
        assert!(said.contains(says) && said.lines().count() == 1, "{args:?}: {said}");
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    }
    // Without a reachable program, a request fails.
    let output = run(fastinst().args(["ctl", "status"]).env("XDG_RUNTIME_DIR", &to));
    let said = "fastinst: no program is being profiled, or none can be controlled\n".to_owned();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), said));
    assert!(run(fastinst().arg("ctl").env("XDG_RUNTIME_DIR", &to)).status.success());
}

#[test]
fn doctor_says_whether_a_calibration_would_be_taken() {
    let to = folder("calibration");
    std::fs::create_dir(to.join("fastinst")).unwrap();
    let doctor = || text(&run(fastinst().arg("doctor").env("XDG_CONFIG_HOME", &to)).stdout);
    assert!(doctor().contains("calibration: none for this machine"));
    std::fs::write(to.join("fastinst/tmax.toml"), "nothing of the kind").unwrap();
    let said = doctor();
    assert!(said.contains("calibration: refused: ") && said.contains("tmax.toml"), "{said}");
}

#[test]
fn probes_and_doctor_say_what_a_program_has() {
    if !has("gcc") {
        return;
    }
    let to = folder("listed");
    let program = compile("calls.c", &to, &["-O2", "-g", "-finstrument-functions"]);
    let listed = text(&run(fastinst().arg("probes").arg(&program)).stdout);
    assert!(
        listed.contains("leaf") && listed.contains("calls.c:") && listed.contains("tail jumps"),
        "{listed}"
    );
    let output = run(fastinst().args(["probes", "--json", "-F", "leaf"]).arg(&program));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["probes"].as_array().unwrap().iter().all(|probe| probe["function"] == "leaf"));
    for (pattern, says) in [("leef", "'leef'; did you mean leaf?"), ("nothing", "'nothing'")] {
        let output = run(fastinst().args(["probes", "-F", pattern]).arg(&program));
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert_eq!(said, format!("fastinst: no function matches {says}\n"));
    }
    let doctor = text(&run(fastinst().arg("doctor").arg(&program)).stdout);
    assert!(doctor.contains("all can be switched") && doctor.contains("processor:"), "{doctor}");
    // The size of a signal frame depends on the machine; the doctor reports the size that each
    // signal stack of a program needs.
    let stacks = compile("smallstacks.c", &to, &["-O2", "-finstrument-functions"]);
    let asks = text(&run(fastinst().arg("doctor").arg(&stacks)).stdout);
    let needed = wordpatch::os::stacks::largest_frame() + wordpatch::os::spare_stacks::MOST;
    assert!(asks.contains(&format!("each of which needs {needed} bytes here")), "{asks}");
    assert!(
        doctor.contains("signal stacks:") && !doctor.contains("each of which needs"),
        "{doctor}"
    );
}

#[test]
fn the_compiler_wrapper_compiles_with_probes() {
    if !has("gcc") {
        return;
    }
    let to = folder("wrapped");
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/calls.c");
    let program = to.join("wrapped");
    let output =
        run(fastinst().args(["cc", "--with=gcc", "-O2"]).arg(&source).arg("-o").arg(&program));
    assert!(output.status.success(), "{output:?}");
    assert!(run(fastinst().arg("probes").arg(&program)).status.success());
    let shown = text(
        &run(fastinst().args(["c++", "--with=gcc", "--print-command", "-c", "a b.cc"])).stdout,
    );
    assert!(
        shown.contains("-finstrument-functions-exclude-function-list=std::")
            && shown.contains("'a b.cc'"),
        "{shown}"
    );
    // The compiler's own exit codes are passed on.
    assert_eq!(run(fastinst().args(["cc", "--with=gcc", "no-such-file.c"])).status.code(), Some(1));
}

#[test]
fn doctor_does_not_advise_what_was_done() {
    if !has("g++") || !has("clang++") {
        return;
    }
    let to = folder("advice");
    let source = to.join("words.cc");
    std::fs::write(
        &source,
        "#include <map>\n#include <string>\nint main(int argc, char **argv) { std::map<std::string, int> all;\n\
         for (int at = 0; at < argc; at++) all[argv[at]]++; return (int)all.size() - argc; }\n",
    )
    .unwrap();
    let doctor =
        |program: &std::path::Path| text(&run(fastinst().arg("doctor").arg(program)).stdout);
    let program = to.join("plain");
    let compile = ["-O0", "-finstrument-functions", "-o"];
    let plain = run(std::process::Command::new("g++").args(compile).arg(&program).arg(&source));
    assert!(plain.status.success(), "{plain:?}");
    let told = doctor(&program);
    assert!(told.contains("no longer inlined") && told.contains("exclude-function-list"), "{told}");
    for compiler in ["--with=gcc", "--with=clang"] {
        let program = to.join(compiler);
        let output =
            run(fastinst().args(["c++", compiler, "-O1", "-o"]).arg(&program).arg(&source));
        assert!(output.status.success(), "{output:?}");
        let told = doctor(&program);
        assert!(told.contains("system headers") || told.contains("probes in"), "{told}");
        assert!(!told.contains("no longer inlined") && !told.contains("compile with"), "{told}");
    }
    // Other ways of preparing code are as good.
    for option in ["-fpatchable-function-entry=5", "-pg"] {
        let program = to.join(option);
        let compile = ["-O1", option, "-o"];
        let output =
            run(std::process::Command::new("g++").args(compile).arg(&program).arg(&source));
        assert!(output.status.success(), "{output:?}");
        let told = doctor(&program);
        assert!(told.contains(&format!("functions are prepared by {option}")), "{told}");
        assert!(!told.contains("compile it with"), "{told}");
    }
}

#[test]
fn a_process_without_probes_to_list_is_named_with_what_helps() {
    let told = |process: u32| {
        let output = run(fastinst().args(["probes", &process.to_string()]));
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        text(&output.stderr)
    };
    assert_eq!(told(4_000_000_000), "fastinst: there is no process 4000000000\n");
    // Of a process that may not be inspected the kernel refuses the list of its files.
    if std::fs::read_to_string("/proc/1/maps").is_err() {
        assert!(told(1).contains("may not be inspected: run this as its user or as root"));
    }
}

#[test]
fn calibrate_complains_under_the_name_that_was_called() {
    let output = run(fastinst().args(["calibrate", "-o", "/nowhere/cal.toml"]));
    let line = text(&output.stderr);
    assert!(line.starts_with("fastinst: cannot write /nowhere/cal.toml"), "{line}");
    assert_eq!((output.status.code(), line.lines().count()), (Some(1), 1), "{line}");
}

#[test]
fn what_is_proposed_is_what_the_help_lists() {
    let output = run(fastinst().arg("sampl"));
    assert!(
        output.status.code() == Some(2) && !text(&output.stderr).contains("'sample'"),
        "{output:?}"
    );
    let output = run(fastinst().arg("reprot"));
    assert!(
        output.status.code() == Some(2) && text(&output.stderr).contains("'report'"),
        "{output:?}"
    );
}

#[test]
fn manual_pages_and_completions_come_from_the_command_line() {
    let page = text(&run(fastinst().args(["manual", "run"])).stdout);
    assert!(page.contains(".TH") && page.contains("policy"));
    assert!(
        text(&run(fastinst().args(["manual", "--completions", "bash"])).stdout)
            .contains("fastinst")
    );
}

#[test]
fn the_compiler_gets_its_arguments_as_they_are_and_no_shell_reads_them() {
    let odd = [
        "-c",
        "a;touch made.c",
        "$(touch made.c)",
        "`touch made.c`",
        "with two  spaces",
        "*",
        ">made.c",
        "it's",
    ];
    let place = folder("unread");
    let output =
        run(fastinst().arg("cc").args(odd).env("FASTINST_CC", "printf %s\\n").current_dir(&place));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // The command's own flags come before them.
    let passed: Vec<&str> = text.lines().skip_while(|line| *line != odd[0]).collect();
    assert_eq!(passed, odd);
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0);
}

#[test]
fn the_command_line_follows_the_rules_of_all_commands() {
    test_support::follows_the_rules(
        std::path::Path::new(env!("CARGO_BIN_EXE_fastinst")),
        &["cc", "c++"],
    );
}

#[test]
fn standard_descriptors_that_are_closed_stay_closed_in_the_program() {
    let to = folder("closed");
    // The agent's files have the lowest free numbers for some microseconds: a descriptor is open if
    // it is there at every look.
    let program = "open=
        for n in 0 1 2; do
            is=$n
            for look in 1 2 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$n ] || is=; done
            open=$open$is
        done
        echo $open >\"$0\"; exit 4";
    for (closing, open) in [("<&- >&- 2>&-", ""), ("<&-", "12"), (">&-", "02"), ("", "012")] {
        let told = to.join("told");
        let shell = format!("\"$@\" {closing}");
        let mut command = clean(std::process::Command::new("sh"));
        command.args(["-c", &shell, "sh", env!("CARGO_BIN_EXE_fastinst"), "run", "-o"]);
        command.arg(to.join("profile")).args(["sh", "-c", program]).arg(&told);
        let output = run(&mut command);
        assert_eq!(output.status.code(), Some(4), "{closing}: {output:?}");
        assert_eq!(std::fs::read_to_string(&told).unwrap().trim(), open, "{closing}");
    }
}
