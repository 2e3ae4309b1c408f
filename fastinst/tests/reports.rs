//! Reports and comparisons of real profiles: output, refusals, and streams that are full or closed.

mod support;

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use support::*;
use test_support::OnTerminal;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The program of the tests, and a profile of it.
fn profiled() -> Option<(PathBuf, PathBuf)> {
    if !has("gcc") {
        return None;
    }
    let to = folder("profiled");
    let program = compile("calls.c", &to, &["-O2", "-g", "-finstrument-functions"]);
    let kept = to.join("kept.profile");
    let output = run(fastinst().args(["run", "--policy", "exact", "-o"]).arg(&kept).arg(&program));
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    Some((program, kept))
}

fn report(kept: &Path, options: &[&str]) -> Output {
    run(fastinst().arg("report").args(options).arg(kept).env_remove("NO_COLOR").env_remove("TERM"))
}

#[test]
fn the_table_fits_80_columns_sorts_by_every_column_and_is_coloured_on_request() {
    let Some((_, kept)) = profiled() else { return };
    for sort in ["self", "total", "wall", "calls", "mean", "p99", "max", "name"] {
        let output =
            run(fastinst().args(["report", "--sort", sort]).arg(&kept).env("COLUMNS", "80"));
        let shown = text(&output.stdout);
        assert!(
            output.status.success() && shown.trim_start().starts_with("self %  function"),
            "{sort}: {output:?}"
        );
        assert!(shown.lines().take(5).all(|line| line.chars().count() <= 80), "{shown}");
    }
    let by_calls = text(&report(&kept, &["--sort", "calls"]).stdout);
    assert!(by_calls.lines().nth(1).is_some_and(|line| line.contains("200k")), "{by_calls}");
    assert!(
        text(&report(&kept, &["--wide"]).stdout)
            .lines()
            .next()
            .is_some_and(|line| line.ends_with("file:line"))
    );
    let colored = |options: &[&str]| text(&report(&kept, options).stdout).contains('\x1b');
    assert!(colored(&["--color", "always"]) && !colored(&[]) && !colored(&["--color=never"]));
}

#[test]
fn what_is_binary_is_not_written_to_a_terminal() {
    let Some((_, kept)) = profiled() else { return };
    for (format, is_binary) in [("pprof", true), ("profile", true), ("folded", false)] {
        let mut command = fastinst();
        command.args(["report", "--format", format]).arg(&kept);
        let output = OnTerminal::start(command, (80, 24)).end();
        let told =
            if is_binary { "fastinst: this format is binary: give a file with -o\n" } else { "" };
        let code = if is_binary { 2 } else { 0 };
        assert_eq!((output.status.code(), &*text(&output.stderr)), (Some(code), told), "{format}");
        assert!(report(&kept, &["--format", format]).status.success(), "{format}");
    }
}

#[test]
fn a_report_that_is_given_as_a_profile_is_named_as_what_it_is() {
    let Some((_, kept)) = profiled() else { return };
    let file = folder("given").join("report");
    for format in [
        "table",
        "json",
        "csv",
        "folded",
        "pprof",
        "gprof",
        "html",
        "svg",
        "callgrind",
        "dot",
        "speedscope",
        "firefox",
        "trace",
    ] {
        let output =
            run(fastinst().args(["report", "--format", format, "-o"]).args([&file, &kept]));
        assert!(output.status.success(), "{output:?}");
        let output = run(fastinst().arg("report").arg(&file));
        let why = text(&output.stderr);
        assert_eq!((output.status.code(), why.lines().count()), (Some(1), 1), "{why}");
        assert!(why.contains(&format!("(--format {format})")), "{format}: {why}");
        assert!(why.contains("give a profile that `fastinst run -o`"), "{why}");
    }
}

#[test]
fn a_function_is_shown_by_its_histogram_and_near_misses_are_named() {
    let Some((_, kept)) = profiled() else { return };
    let shown = text(&report(&kept, &["--histogram", "middle"]).stdout);
    assert!(
        shown.starts_with("middle (calls.c:")
            && shown.contains("20000 calls, all timed")
            && shown.contains('█'),
        "{shown}"
    );
    let output = report(&kept, &["--histogram", "midle"]);
    assert!(
        output.status.code() == Some(1) && text(&output.stderr).contains("did you mean middle?"),
        "{output:?}"
    );
}

#[test]
fn the_slowest_calls_are_told_with_what_was_inside_of_them() {
    if !has("gcc") {
        return;
    }
    let to = folder("slowest");
    let program = compile("slowest.c", &to, &["-O1", "-g", "-finstrument-functions"]);
    let kept = to.join("kept.profile");
    let output = run(fastinst().args(["run", "-o"]).arg(&kept).arg(&program));
    assert!(output.status.success() && output.stdout == b"1\n", "{output:?}");
    let told: serde_json::Value =
        serde_json::from_slice(&report(&kept, &["--format", "json"]).stdout).unwrap();
    let calls = function(&told, "handle")["exemplars"].as_array().unwrap();
    let time = |call: &serde_json::Value| call["time"].as_f64().unwrap();
    assert!(
        calls.len() > 1 && calls.windows(2).all(|pair| time(&pair[0]) >= time(&pair[1])),
        "{calls:?}"
    );
    let (slowest, inside) = (&calls[0], calls[0]["inside"].as_array().unwrap());
    let told: Vec<(&str, u64)> = inside
        .iter()
        .map(|inner| (inner["name"].as_str().unwrap(), inner["calls"].as_u64().unwrap()))
        .collect();
    assert_eq!(told, [("lookup", 2), ("evict_stale", 1)], "{slowest}");
    // The least time of its sleep.
    assert!(inside.iter().all(|inner| (3e7..=time(slowest)).contains(&time(inner))), "{slowest}");
    let shown = text(&report(&kept, &["--histogram", "handle"]).stdout);
    assert!(shown.contains("Slowest calls:") && shown.contains("evict_stale (1 call)"), "{shown}");
}

#[test]
fn a_profile_that_is_replaced_is_printed_again() {
    let Some((_, kept)) = profiled() else { return };
    let live = kept.with_file_name("live.profile");
    let mut command = fastinst();
    command
        .args(["report", "--follow", "--for", "60s"])
        .arg(&live)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    for _ in 0..3 {
        let next = kept.with_file_name("next.profile");
        std::fs::copy(&kept, &next).unwrap();
        std::fs::rename(&next, &live).unwrap();
        // The whole table is printed each time.
        let mut shown = lines.by_ref().map(Result::unwrap);
        assert!(
            shown.any(|line| line.trim_start().starts_with("self %"))
                && shown.any(|line| line.contains("functions ("))
        );
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let ended = run(fastinst().args(["report", "--follow", "--for", "10ms"]).arg(&live));
    assert!(ended.status.success() && text(&ended.stdout).contains("leaf"), "{ended:?}");
}

#[test]
fn streams_that_are_full_or_closed_end_a_report_without_a_panic() {
    let Some((_, kept)) = profiled() else { return };
    let pair = [kept.as_os_str(), kept.as_os_str()];
    for command in ["report", "diff"] {
        let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
        let arguments = if command == "diff" { &pair[..] } else { &pair[..1] };
        let output = fastinst()
            .arg(command)
            .args(arguments)
            .stdout(full())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert!(
            output.status.code() == Some(1)
                && text(&output.stderr).starts_with("fastinst: cannot write to stdout"),
            "{output:?}"
        );
        let status =
            fastinst().arg(command).args(arguments).stdout(full()).stderr(full()).status().unwrap();
        assert_eq!(status.code(), Some(1), "{command}");
        // A reader that has closed the pipe.
        let mut child = fastinst()
            .arg(command)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        let closed =
            format!("exec {} {command} {} >&- 2>&-", env!("CARGO_BIN_EXE_fastinst"), "\"$@\"");
        let status = clean(std::process::Command::new("sh"))
            .args(["-c", &closed, "sh"])
            .args(arguments)
            .status()
            .unwrap();
        assert!(status.code().is_some_and(|code| code < 2), "{command}: {status}");
    }
}

#[test]
fn pictures_are_written_whole_or_not_at_all() {
    let Some((_, kept)) = profiled() else { return };
    let [page, drawing] = ["app.html", "app.svg"].map(|name| kept.with_file_name(name));
    let output = run(fastinst()
        .arg("report")
        .arg("--html")
        .arg(&page)
        .arg("--svg")
        .arg(&drawing)
        .arg(&kept));
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let written = |path: &Path| std::fs::read_to_string(path).unwrap();
    assert!(written(&page).ends_with("</html>\n") && written(&drawing).ends_with("</svg>\n"));
    assert_eq!(text(&report(&kept, &["--format", "html"]).stdout), written(&page));
    let refused = |options: &[&str], file: &Path| {
        let output = report(file, options);
        assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{output:?}");
        let line = text(&output.stderr);
        assert_eq!(line.lines().count(), 1, "{line}");
        line
    };
    assert!(
        refused(&["--html", "/nowhere/app.html"], &kept).contains("cannot write /nowhere/app.html")
    );
    assert!(refused(&["--html", "/dev/full"], &kept).contains("cannot write /dev/full: No space"));
    // What is no file is written to, and stays what it is.
    let through = report(&kept, &["--format", "html", "-o", "/dev/stdout"]);
    assert_eq!(text(&through.stdout), written(&page));
    let appended = kept.with_file_name("appended");
    std::fs::write(&appended, "before\n").unwrap();
    let mut command = fastinst();
    command.args(["report", "--format", "folded", "-o", "/dev/stdout"]).arg(&kept);
    let file = std::fs::File::options().append(true).open(&appended).unwrap();
    assert!(command.stdout(file).status().unwrap().success());
    assert!(written(&appended).starts_with("before\n") && written(&appended).contains(';'));
    let damaged = kept.with_file_name("damaged.profile");
    let bytes = std::fs::read(&kept).unwrap();
    std::fs::write(&damaged, &bytes[..bytes.len() / 2]).unwrap();
    let new = kept.with_file_name("new.html");
    assert!(refused(&["--html", new.to_str().unwrap()], &damaged).contains("cannot read"));
    assert!(
        refused(&["--html", new.to_str().unwrap()], &kept.with_file_name("none"))
            .contains("cannot read")
    );
    assert!(!new.exists());
}

#[test]
fn profiles_are_added_up_and_written_for_fleets() {
    let Some((_, kept)) = profiled() else { return };
    let sum = kept.with_file_name("sum.profile");
    let output = run(fastinst().args(["merge", "-o"]).arg(&sum).args([&kept, &kept, &kept]));
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let json: serde_json::Value =
        serde_json::from_slice(&report(&sum, &["--json"]).stdout).unwrap();
    assert_eq!((calls(&json, "leaf"), &json["header"]["processes"]), (600_000.0, &3.into()));
    // Sums of sums, through a pipe.
    let piped = run(fastinst().arg("merge").args([&sum, &kept]));
    std::fs::write(&sum, &piped.stdout).unwrap();
    let json: serde_json::Value =
        serde_json::from_slice(&report(&sum, &["--json"]).stdout).unwrap();
    assert_eq!(calls(&json, "leaf"), 800_000.0);
    let export = |options: &[&str]| run(fastinst().arg("export").args(options).arg(&kept));
    let metrics = text(&export(&["--format", "openmetrics", "--host", "h1"]).stdout);
    assert!(metrics.contains("function=\"leaf\"") && metrics.contains("} 200000\n"), "{metrics}");
    assert!(metrics.contains("host=\"h1\"") && metrics.ends_with("# EOF\n"), "{metrics}");
    let table = kept.with_file_name("app.parquet");
    let output = export(&["--format", "parquet", "-o", table.to_str().unwrap()]);
    assert!(
        output.status.success() && std::fs::read(&table).unwrap().starts_with(b"PAR1"),
        "{output:?}"
    );
    for command in
        [&["merge", "/none.profile"][..], &["export", "--format", "parquet", "/none.profile"]]
    {
        let output = run(fastinst().args(command));
        assert!(
            output.status.code() == Some(1)
                && text(&output.stderr).contains("cannot read /none.profile"),
            "{output:?}"
        );
    }
}

#[test]
fn metrics_are_scraped_from_a_port() {
    let Some((_, kept)) = profiled() else { return };
    let live = kept.with_file_name("live.profile");
    std::fs::copy(&kept, &live).unwrap();
    let mut command = fastinst();
    command.args(["export", "--format", "openmetrics", "--listen", "127.0.0.1:0"]).arg(&live);
    let mut server = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(server.stderr.take().unwrap()));
    let line = lines.next().unwrap().unwrap();
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    let asked = |request: &str| {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let scraped = asked("GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    assert!(
        scraped.starts_with("HTTP/1.1 200 OK\r\n") && scraped.ends_with("# EOF\n"),
        "{scraped}"
    );
    assert!(scraped.contains("openmetrics-text") && scraped.contains("} 200000\n"), "{scraped}");
    // A scraper that disconnects, and one that requests another path, do not affect others.
    drop(std::net::TcpStream::connect(&address).unwrap());
    assert!(asked("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(asked("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    // The profile is read again each time.
    let sum = run(fastinst().args(["merge"]).args([&kept, &kept]));
    std::fs::write(&live, &sum.stdout).unwrap();
    assert!(asked("GET /metrics HTTP/1.1\r\n\r\n").contains("} 400000\n"));
    std::fs::remove_file(&live).unwrap();
    assert!(asked("GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503 "));
    let taken = run(fastinst()
        .args(["export", "--format", "openmetrics", "--listen", &address])
        .arg(&kept));
    assert!(
        taken.status.code() == Some(1)
            && text(&taken.stderr).contains("cannot listen on 127.0.0.1"),
        "{taken:?}"
    );
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn two_programs_are_run_in_turn_and_compared() {
    let Some((program, kept)) = profiled() else { return };
    let runs = kept.with_file_name("runs");
    let mut command = fastinst();
    command
        .args(["compare", "-n", "3", "--policy", "exact", "--keep"])
        .arg(&runs)
        .arg("--")
        .arg(&program)
        .arg("--")
        .arg(&program);
    let output = run(&mut command);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(
        shown
            .lines()
            .next()
            .is_some_and(|line| line.contains(" slower, ") && line.contains(" unchanged")),
        "{shown}"
    );
    // Every call was counted, so these figures do not vary.
    assert!(!shown.contains("other call counts") && shown.contains("200k"), "{shown}");
    let paths = |side: &str| {
        (1..=3).map(|round| runs.join(format!("{side}.{round}.profile"))).collect::<Vec<_>>()
    };
    let again =
        run(fastinst().args(["diff", "--json"]).args(paths("old")).arg("--").args(paths("new")));
    let json: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!((json["runs"][0].as_u64(), json["calls_changed"].as_u64()), (Some(3), Some(0)));
    let leaf = json["functions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|function| function["name"] == "leaf")
        .unwrap();
    assert_eq!(leaf["calls"][1], serde_json::json!({ "value": 200_000.0, "how": "exact" }));
}

#[test]
fn programs_that_end_differently_or_leave_no_profile_are_not_compared() {
    let Some((program, kept)) = profiled() else { return };
    let other = compile("threads.c", kept.parent().unwrap(), &["-O2", "-finstrument-functions"]);
    let compare = |old: &Path, new: &Path| {
        run(fastinst().args(["compare", "-n", "2", "--"]).arg(old).arg("--").arg(new))
    };
    let output = compare(&program, &other);
    assert!(
        output.status.code() == Some(1) && text(&output.stderr).contains("exit status: 7"),
        "{output:?}"
    );
    let plain = compile("calls.c", &folder("plain"), &["-O2"]);
    let output = compare(&program, &plain);
    assert!(
        output.status.code() == Some(1) && text(&output.stderr).contains("no profile of"),
        "{output:?}"
    );
    let output = run(fastinst().args(["compare", "--"]).arg(&program));
    assert!(
        output.status.code() == Some(2) && text(&output.stderr).contains("two programs"),
        "{output:?}"
    );
    for wrong in [&["a"][..], &["a", "b", "c"]] {
        let output = run(fastinst().arg("diff").args(wrong));
        assert!(
            output.status.code() == Some(2) && text(&output.stderr).contains("on each side of --"),
            "{output:?}"
        );
    }
}

#[test]
fn options_of_the_table_are_refused_where_none_is_printed() {
    let kept = folder("report-options").join("none.profile");
    for option in [&["--sort", "total"][..], &["--rows", "3"], &["--wide"]] {
        for other in
            [&["--format", "csv"][..], &["--json"], &["--histogram", "leaf"], &["--svg", "x"]]
        {
            let output = report(&kept, &[option, other].concat());
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{said}");
            let both = [option[0], other[0]].map(|name| said.contains(name));
            assert!(said.lines().count() == 1 && both == [true; 2], "{said}");
        }
    }
}
