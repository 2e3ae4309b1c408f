//! Programs that are observed from outside while they run.

#[path = "command/place.rs"]
#[allow(dead_code, reason = "not every test needs all of it")]
mod place;

use place::{Place, errors};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use test_support::{OnTerminal, eventually};

/// Calls a function for ever.
const PROGRAM: &str = r#"(module
    (func $work (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
    (func (export "_start") (local i32) (loop $l (local.set 0 (call $work (local.get 0))) (br $l))))"#;

/// A running program, with its own folder for sockets; it is stopped at the end of the test.
struct Running<'a> {
    place: &'a Place,
    child: Child,
}

impl<'a> Running<'a> {
    fn start(place: &'a Place, options: &[&str]) -> Self {
        Self::start_program(place, PROGRAM, options)
    }

    fn start_program(place: &'a Place, program: &str, options: &[&str]) -> Self {
        let program = place.file("spin.wat", program);
        let mut command = place.command();
        command.env("XDG_RUNTIME_DIR", &place.0).arg("run").args(options).arg(program);
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the command starts");
        let running = Self { place, child };
        if !options.contains(&"--no-control") {
            running.await_answer();
        }
        running
    }

    fn await_answer(&self) {
        eventually("the program answers", || self.ask(&["status"]).0);
    }

    /// Sends a request; returns whether it succeeded, and the answer.
    fn ask(&self, request: &[&str]) -> (bool, String) {
        let pid = self.child.id().to_string();
        ask(self.place, &[&[&*pid], request].concat())
    }

    fn good(&self, request: &[&str]) -> String {
        let (went_well, text) = self.ask(request);
        assert!(went_well, "{request:?}: {text}");
        text
    }

    /// The calls of the function, from the monitor of instructions.
    fn calls(&self) -> u64 {
        let report = self.good(&["report", "--csv", "icount"]);
        let row = report.lines().find_map(|line| line.strip_prefix("icount,work,")).unwrap_or("0,");
        row.split(',').next().and_then(|calls| calls.parse().ok()).expect("a number")
    }

    fn socket(&self) -> std::path::PathBuf {
        self.place.0.join("fastinst").join(format!("wasm-aot-{}.sock", self.child.id()))
    }
}

/// Sends a request with these arguments; returns whether it succeeded, and the answer.
fn ask(place: &Place, arguments: &[&str]) -> (bool, String) {
    let mut command = place.command();
    let output = command
        .env("XDG_RUNTIME_DIR", &place.0)
        .arg("ctl")
        .args(arguments)
        .output()
        .expect("it starts");
    match output.status.success() {
        true => (true, String::from_utf8(output.stdout).expect("text")),
        false => (false, errors(&output)),
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn monitors_come_and_go_while_the_program_runs() {
    let place = Place::new("control-attach");
    let running = Running::start(&place, &[]);
    assert!(running.good(&["status"]).contains("observing off"));
    assert_eq!(running.good(&["sites"]), "functions 2 sites, off\nloops 1 sites, off\n");
    running.good(&["attach", "icount"]);
    eventually("calls are counted", || running.calls() > 0);
    let first = running.calls();
    eventually("more calls are counted", || running.calls() > first);
    // Earlier observations stay while the monitor is off.
    running.good(&["off"]);
    let mut off = running.calls();
    eventually("two looks agree", || std::mem::replace(&mut off, running.calls()) == off);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(running.calls(), off);
    running.good(&["on"]);
    eventually("calls are counted again", || running.calls() > off);
    running.good(&["detach", "icount"]);
    assert!(!running.ask(&["report"]).0);
}

#[test]
fn a_monitor_that_was_attached_reports_at_the_end_of_the_program() {
    let place = Place::new("control-end");
    let program = place.file("spin.wat", PROGRAM);
    let mut command = place.command();
    command.env("XDG_RUNTIME_DIR", &place.0).args(["run", &program]);
    let child = command.stderr(Stdio::piped()).spawn().expect("the command starts");
    let pid = child.id().to_string();
    eventually("the program answers", || ask(&place, &[&pid, "status"]).0);
    assert!(ask(&place, &[&pid, "attach", "icount"]).0);
    assert!(ask(&place, &[&pid, "attach", "loops"]).0 && ask(&place, &[&pid, "detach", "loops"]).0);
    test_support::send(child.id(), 2);
    let said = errors(&child.wait_with_output().expect("it ends"));
    assert!(said.contains("== icount ==") && !said.contains("== loops =="), "{said}");
}

#[test]
fn what_is_done_is_said_and_one_monitor_is_switched_by_its_name() {
    let place = Place::new("control-said");
    let running = Running::start(&place, &["--monitor", "functions"]);
    assert!(running.good(&["attach", "icount,top=3"]).starts_with("icount is attached: "));
    assert_eq!(running.good(&["attach", "icount,top=3"]), "icount,top=3 is already attached\n");
    let replaced = running.good(&["attach", "icount,top=4"]);
    assert!(
        replaced.starts_with("icount,top=4 is attached in place of icount,top=3: "),
        "{replaced}"
    );
    running.good(&["attach", "loops"]);
    assert_eq!(running.good(&["off", "icount"]), "icount is off and keeps its results\n");
    let status = running.good(&["status"]);
    assert!(
        status
            .lines()
            .any(|line| line.starts_with("attached  icount,top=4 for ") && line.ends_with(", off")),
        "{status}"
    );
    assert!(
        status
            .lines()
            .any(|line| line.starts_with("attached  loops for ") && !line.contains(", off")),
        "{status}"
    );
    assert_eq!(running.good(&["on", "icount"]), "icount is on\n");
    assert!(!running.good(&["status"]).contains(", off"));
    let (went_well, said) = running.ask(&["off", "functions"]);
    assert!(!went_well && said.contains("functions is compiled in"), "{said}");
    let (went_well, said) = running.ask(&["attach", "trace"]);
    assert!(!went_well && said.contains("trace,file=FILE"), "{said}");
    // What can be switched is named, be it a module or not.
    let (went_well, said) = running.ask(&["off", "branches"]);
    assert!(!went_well && said.ends_with("no such monitor; there are icount, loops\n"), "{said}");
    let (went_well, said) = running.ask(&["off", "icount:opcode:call"]);
    assert!(!went_well && said.contains("icount is built in"), "{said}");
    for request in [
        &["off"][..],
        &["on"],
        &["burst", "10ms", "90ms"],
        &["burst", "none"],
        &["detach", "loops"],
        &["detach", "all"],
    ] {
        assert!(!running.good(request).is_empty(), "{request:?}");
    }
}

#[test]
fn what_is_compiled_in_reports_while_the_program_runs_beside_what_is_attached() {
    let place = Place::new("control-compiled");
    let running = Running::start(&place, &["--monitor", "functions"]);
    let status = running.good(&["status"]);
    assert!(
        status.contains("observing on\n")
            && status.contains("compiled  functions from the beginning"),
        "{status}"
    );
    let calls = || {
        let report = running.good(&["report", "--csv", "functions"]);
        let row =
            report.lines().find_map(|line| line.strip_prefix("functions,work,")).unwrap_or("0,");
        row.split(',').next().and_then(|calls| calls.parse::<u64>().ok()).expect("a number")
    };
    let first = calls();
    eventually("more calls are counted", || calls() > first);
    running.good(&["attach", "icount"]);
    let both = running.good(&["report"]);
    assert!(both.contains("== functions ==") && both.contains("== icount =="), "{both}");
    assert!(!running.ask(&["detach", "functions"]).0);
}

#[test]
fn the_only_program_that_runs_need_not_be_named() {
    let place = Place::new("control-only");
    let (went_well, said) = ask(&place, &["report"]);
    assert!(!went_well && said.contains("no running program"), "{said}");
    let first = Running::start(&place, &[]);
    let (went_well, said) = ask(&place, &["status"]);
    assert!(went_well && said.contains("spin.wat"), "{said}");
    let second = Running::start(&place, &[]);
    let (went_well, said) = ask(&place, &["status"]);
    let both = [&first, &second].map(|running| format!("{} (", running.child.id()));
    assert!(!went_well && both.iter().all(|pid| said.contains(pid)), "{said}");
}

#[test]
fn reports_of_a_running_program_go_to_files_and_have_colours_on_terminals() {
    let place = Place::new("control-report");
    let running = Running::start(&place, &[]);
    running.good(&["attach", "icount"]);
    eventually("calls are counted", || running.calls() > 0);
    let file = place.0.join("now-%p.csv").display().to_string();
    let written = file.replace("%p", &running.child.id().to_string());
    let told = running.good(&["report", "icount", "--csv", "--report", &file]);
    assert_eq!(told, format!("written to {written}\n"));
    let text = std::fs::read_to_string(&written).expect("a report");
    assert!(text.starts_with("monitor,function,") && text.contains("icount,work,"), "{text}");
    let (went_well, why) = running.ask(&["report", "--report", "/dev/full"]);
    assert!(!went_well && why.contains("--report /dev/full: No space left on device"), "{why}");
    assert_eq!(running.good(&["report"]).lines().next(), Some("== icount =="));
    let coloured = running.good(&["report", "--color", "always"]);
    assert!(coloured.starts_with("\x1b[1m== icount ==\x1b[0m\n"), "{coloured}");
    for (value, title) in [("", "\x1b[1m== icount =="), ("1", "== icount ==\r\n")] {
        let mut command = place.command();
        command.env("XDG_RUNTIME_DIR", &place.0).env("NO_COLOR", value).env("TERM", "xterm");
        command.args(["ctl", &running.child.id().to_string(), "report"]);
        let terminal = OnTerminal::start(command, (80, 24));
        terminal.shows(title);
        assert!(terminal.end().status.success());
    }
}

#[test]
fn blocks_are_covered_although_what_they_lead_to_calls_for_ever() {
    let place = Place::new("control-coverage");
    let program = r#"(module
        (func $spin (loop $l (br $l)))
        (func $begin (export "_start") (local i32)
            (local.set 0 (i32.const 5))
            (if (i32.eqz (local.get 0)) (then (nop)) (else (call $spin) (nop)))))"#;
    let running = Running::start_program(&place, program, &["--monitor", "coverage"]);
    let report = running.good(&["report", "--csv"]);
    // Everything before the choice. The executed part of the block with the call is reported after
    // the call has returned.
    assert!(report.contains("coverage,begin,11,5,"), "{report}");
}

#[test]
fn bursts_count_a_part_of_the_time_until_they_are_ended() {
    let place = Place::new("control-burst");
    let running = Running::start(&place, &[]);
    running.good(&["attach", "icount"]);
    running.good(&["burst", "5ms", "5ms"]);
    assert!(running.good(&["status"]).contains("in bursts"));
    let before = running.calls();
    eventually("bursts count", || running.calls() > before);
    running.good(&["burst", "none"]);
    assert!(running.good(&["status"]).contains("observing on\n"));
}

#[test]
fn a_burst_of_so_many_events_is_over_when_they_were_seen() {
    for monitor in ["icount", "functions"] {
        let place = Place::new(&format!("control-events-{monitor}"));
        let running = Running::start(&place, &[]);
        running.good(&["attach", monitor]);
        running.good(&["burst", "1000"]);
        eventually("the burst ends", || running.good(&["status"]).contains("observing off\n"));
        let seen = running.good(&["report", monitor]);
        std::thread::sleep(Duration::from_millis(50));
        // The functions and their calls; times are left out, since the frequency of the clock
        // becomes more precise over time.
        let rows = |text: &str| -> Vec<Vec<String>> {
            let rows = text.lines().filter(|line| line.starts_with("work"));
            rows.map(|line| line.split_whitespace().take(2).map(str::to_owned).collect()).collect()
        };
        assert!(!rows(&seen).is_empty(), "{seen}");
        assert_eq!(rows(&running.good(&["report", monitor])), rows(&seen), "{monitor} rests");
    }
}

#[test]
fn wrong_requests_are_told_why_and_change_nothing() {
    let place = Place::new("control-wrong");
    let running = Running::start(&place, &[]);
    for (request, wanted) in [
        (&["attach", "hottness"][..], "did you mean hotness?"),
        (&["attach", "hotness,deep"], "no option deep"),
        (&["detach", "loops"], "loops is not attached"),
        (&["on"], "nothing is attached"),
        (&["off"], "nothing is attached"),
        (&["report"], "nothing is attached"),
        (&["burst", "1ms", "1ms"], "nothing is attached"),
        (&["burst", "1000"], "nothing is attached"),
    ] {
        let (went_well, text) = running.ask(request);
        assert!(!went_well && text.contains(wanted), "{request:?}: {text}");
    }
    running.good(&["attach", "loops"]);
    assert!(running.ask(&["burst", "soon", "1ms"]).1.contains("as 10ms or 1s"));
    assert!(running.ask(&["burst", "0s", "1ms"]).1.contains("longer than zero"));
    assert!(running.ask(&["report", "icount"]).1.contains("icount is not attached"));
    // This process, since another one may have left a socket.
    let own = std::process::id().to_string();
    let output = place.run(&["ctl", &own, "status"]);
    let text = errors(&output);
    let wanted = format!("process {own} is not a program of `wasm-aot run`");
    assert!(!output.status.success() && text.contains(&wanted), "{text}");
}

#[test]
fn rubbish_and_silence_harm_nobody() {
    let place = Place::new("control-rubbish");
    let running = Running::start(&place, &[]);
    assert_eq!(std::fs::metadata(running.socket()).expect("a socket").mode() & 0o777, 0o600);
    for rubbish in [&b"\xff\xfe\n"[..], b"\n", b"attach\n", &[b'x'; 100_000]] {
        let mut stream = UnixStream::connect(running.socket()).expect("it listens");
        let _ = stream.write_all(rubbish);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"error\n"), "{answer:?}");
    }
    // A client that sends nothing is dropped after some seconds, and others are answered then.
    let silent = UnixStream::connect(running.socket()).expect("it listens");
    assert!(running.good(&["status"]).contains("running"));
    drop(silent);
}

#[test]
fn programs_that_do_not_answer_have_no_socket() {
    let place = Place::new("control-none");
    let running = Running::start(&place, &["--no-control"]);
    std::thread::sleep(Duration::from_millis(200));
    assert!(!running.socket().exists());
    assert!(running.ask(&["status"]).1.contains("--no-control"));
}

#[test]
fn the_socket_goes_with_the_program_and_what_was_killed_is_cleared_away() {
    let place = Place::new("control-end");
    let socket = {
        let running = Running::start(&place, &[]);
        let list = |place: &Place| {
            let output = place
                .command()
                .env("XDG_RUNTIME_DIR", &place.0)
                .arg("ctl")
                .output()
                .expect("it starts");
            String::from_utf8(output.stdout).expect("text")
        };
        assert!(list(&place).contains(&running.child.id().to_string()));
        running.socket()
    };
    // The process was killed, and could not remove its socket.
    assert!(socket.exists());
    let output =
        place.command().env("XDG_RUNTIME_DIR", &place.0).arg("ctl").output().expect("it starts");
    assert!(output.status.success() && output.stdout.is_empty() && !socket.exists());
    // A process that ends by itself removes it.
    let program = place.file("end.wat", "(module (func (export \"_start\")))");
    let output = place
        .command()
        .env("XDG_RUNTIME_DIR", &place.0)
        .args(["run", &program])
        .output()
        .expect("it starts");
    assert!(output.status.success());
    assert_eq!(std::fs::read_dir(place.0.join("fastinst")).expect("a folder").count(), 0);
}

/// A monitor module that observes calls, and reports a line.
const MODULE: &str = r#"(module (import "wizeng" "puti" (func $print (param i32))) (global $n (mut i32) (i32.const 0))
    (func (export "wasm:opcode:call") (global.set $n (i32.add (global.get $n) (i32.const 1))))
    (func (export "wasm:exit") (call $print (i32.const 77))))"#;

#[test]
fn all_that_is_attached_is_detached_whatever_it_is() {
    let place = Place::new("control-detach");
    let running = Running::start(&place, &[]);
    let module = place.file("looks.wat", MODULE);
    running.good(&["attach", "icount"]);
    running.good(&["attach", &module]);
    running.good(&["detach", "all"]);
    let status = running.good(&["status"]);
    assert!(!status.contains("icount") && !status.contains("looks"), "{status}");
    let (went_well, said) = running.ask(&["report"]);
    assert!(!went_well && said.contains("nothing is attached"), "{said}");
    assert!(!running.ask(&["detach", "looks"]).0);
}

#[test]
fn a_module_and_a_monitor_of_the_same_name_both_report() {
    let place = Place::new("control-names");
    let running = Running::start(&place, &[]);
    let module = place.file("icount.wat", MODULE);
    running.good(&["attach", "icount"]);
    running.good(&["attach", &module]);
    let report = running.good(&["report", "--json"]);
    assert!(
        report.contains("\"icount\":{") && report.contains("\"icount (module)\":\"77\""),
        "{report}"
    );
}

#[test]
fn what_others_have_counted_is_not_reported() {
    let place = Place::new("control-baseline");
    let running = Running::start(&place, &[]);
    running.good(&["attach", "icount"]);
    let deadline = Instant::now() + Duration::from_secs(30);
    while running.calls() == 0 {
        assert!(Instant::now() < deadline, "something is counted");
    }
    // Counting has stopped before the other monitor is attached.
    running.good(&["off"]);
    running.good(&["attach", "hotness"]);
    let report = running.good(&["report", "hotness"]);
    assert!(report.contains("0 executions of 0 instructions"), "{report}");
    assert!(running.calls() > 0);
}

/// A module whose report cannot be computed from counts.
const LAST: &str = r#"(module (global $last (mut i32) (i32.const 0))
    (func (export "wasm:opcode:call (pc)") (param i32)
        (global.set $last (i32.mul (global.get $last) (local.get 0)))))"#;

#[test]
fn two_of_one_name_have_names_of_their_own() {
    let place = Place::new("control-two");
    let running = Running::start(&place, &["--monitor", "icount"]);
    let module = place.file("icount.wat", MODULE);
    running.good(&["attach", "icount,top=3"]);
    running.good(&["attach", &module]);
    let status = running.good(&["status"]);
    assert!(status.contains("module    icount (module): 1 of 1 probes are called"), "{status}");
    assert_eq!(
        running.good(&["off", "icount (module)"]),
        "icount (module) is off: 0 of 1 probes are called\n"
    );
    assert_eq!(running.good(&["off", "icount"]), "icount is off and keeps its results\n");
    let report = running.good(&["report", "--json"]);
    for name in ["\"icount\":{", "\"icount (attached)\":{", "\"icount (module)\":\"77\""] {
        assert!(report.contains(name), "{name}: {report}");
    }
    assert_eq!(running.good(&["detach", "icount"]), "icount is detached\n");
    let status = running.good(&["status"]);
    assert!(!status.contains("attached  icount"), "{status}");
    assert!(running.ask(&["detach", "icount"]).1.contains("icount is compiled in"));
    running.good(&["detach", "icount (module)"]);
    assert!(!running.good(&["status"]).contains("module"));
}

#[test]
fn a_module_with_other_options_takes_the_place_of_the_one_before() {
    let place = Place::new("control-again");
    let running = Running::start(&place, &[]);
    let module = place.file("looks.wat", MODULE);
    running.good(&["attach", &module]);
    let (went_well, said) = running.ask(&["attach", &module]);
    assert!(!went_well && said.contains("looks at the program already"), "{said}");
    let said = running.good(&["attach", &format!("{module},off")]);
    assert!(said.contains("looks.wat,off is attached in place of "), "{said}");
    let status = running.good(&["status"]);
    assert!(status.contains("module    looks: 0 of 1 probes are called"), "{status}");
    assert_eq!(status.matches("module ").count(), 1, "{status}");
}

#[test]
fn a_program_inside_of_its_start_is_not_recorded_from_there() {
    let place = Place::new("control-record");
    let running = Running::start(&place, &[]);
    let (went_well, said) = running.ask(&["record", "-o", "run.r3"]);
    assert!(!went_well && said.contains("is inside of `_start`"), "{said}");
    assert!(
        said.contains("by `wasm-aot record ") && said.trim_end().lines().count() == 1,
        "{said}"
    );
    assert!(!place.0.join("run.r3").exists());
}

#[test]
fn what_became_of_each_monitor_is_explained() {
    let place = Place::new("control-explain");
    let running = Running::start(&place, &["--monitor", "functions"]);
    for monitor in [
        "icount".to_owned(),
        "coverage".into(),
        place.file("looks.wat", MODULE),
        place.file("last.wat", LAST),
        format!("{},calls=5", place.file("few.wat", MODULE)),
    ] {
        running.good(&["attach", &monitor]);
    }
    let explained = running.good(&["explain"]);
    let apart = "in variants of functions, which are patched in and out\n";
    for line in [
        format!("functions: probes of its own; {apart}"),
        format!("icount: edge counters, from which its effects are computed; {apart}"),
        format!("coverage: one-shot probes, which patch themselves out; {apart}"),
        format!("looks: edge counters, from which its effects are computed; {apart}"),
        "last: its functions, inlined where they are small, each switched by a word".into(),
        "    probes: 1 inlined\n    not computed from counts: wasm:opcode:call (pc) does more".into(),
        "few: its functions, inlined where they are small, each switched by a word that is its budget"
            .into(),
        "    not computed from counts: calls=N ends its probes one by one\n".into(),
    ] {
        assert!(explained.contains(&line), "{line}{explained}");
    }
    assert!(explained.contains(" one-shot\n"), "{explained}");
}

#[test]
fn what_becomes_of_each_monitor_is_explained_before_a_run() {
    let place = Place::new("control-run-explain");
    let program = place.file("end.wat", r#"(module (func (export "_start")))"#);
    let looks = format!("{},toggle", place.file("last.wat", LAST));
    let run = ["run", "--explain", "--monitor", "icount", "--monitor", &looks, &program];
    let said = errors(&place.run(&run));
    assert!(
        said.contains("icount: edge counters, from which its effects are computed; compiled into")
            && said.contains("last: nothing, since no place matches\n"),
        "{said}"
    );
    let said = errors(&place.run(&["run", "--explain", &program]));
    assert!(said.contains("--explain belong to --monitor"), "{said}");
}

#[test]
fn the_environment_says_how_cores_come_to_see_a_switch() {
    let place = Place::new("control-barrier");
    let start = |barrier: &str| {
        let program = place.file("spin.wat", PROGRAM);
        let mut command = place.command();
        command.env("XDG_RUNTIME_DIR", &place.0).env("WORDPATCH_BARRIER", barrier);
        let child = command.args(["run", &program]).stderr(Stdio::null()).spawn();
        let running = Running { place: &place, child: child.expect("the command starts") };
        running.await_answer();
        running
    };
    let signalled = start("signal");
    assert!(signalled.good(&["attach", "icount"]).starts_with("icount is attached"));
    eventually("something is counted", || signalled.calls() > 0);
    let (went_well, said) = start("never").ask(&["attach", "icount"]);
    assert!(!went_well && said.contains("WORDPATCH_BARRIER"), "{said}");
}

/// Calls a function that takes a while, and one that takes longer.
const BUSY: &str = r#"(module
    (func $short (result i32) (local i32)
        (loop $l (local.set 0 (i32.add (local.get 0) (i32.const 1)))
            (br_if $l (i32.lt_u (local.get 0) (i32.const 2000)))) (local.get 0))
    (func $long (result i32) (local i32)
        (loop $l (local.set 0 (i32.add (local.get 0) (i32.const 1)))
            (br_if $l (i32.lt_u (local.get 0) (i32.const 20000)))) (call $short))
    (func (export "_start")
        (loop $l (drop (call $short)) (drop (call $long)) (br $l))))"#;

/// The same commands work for programs of both kinds.
#[test]
fn the_words_of_native_programs_are_taken() {
    let place = Place::new("control-words");
    let running = Running::start_program(&place, BUSY, &[]);
    let file = place.0.join("now.profile");
    let snapshot = ["snapshot", "-o", file.to_str().expect("a path")];
    let refused = |request: &[&str], why: &str| {
        let (went_well, text) = running.ask(request);
        assert!(!went_well && text.contains(why), "{request:?}: {text}");
        assert_eq!(text.trim_end().lines().count(), 1, "{request:?}: {text}");
    };
    refused(&snapshot, "no monitor that measures times is attached");
    refused(&["reset"], "no built-in monitor is attached");
    refused(&["budget", "1%"], "no built-in monitor is attached");
    running.good(&["attach", "latency"]);
    let functions = || {
        running.good(&snapshot);
        let bytes = std::fs::read(&file).expect("written");
        let profile = profiler::Profile::from_file(&bytes).expect("a profile");
        assert!(profile.header.command[0].contains("spin"), "{:?}", profile.header);
        let called = profile.functions.into_iter().filter(|function| function.calls.value > 0.0);
        called.map(|function| (function.label.name, function.samples)).collect::<Vec<_>>()
    };
    let sees =
        |name: &str| functions().iter().any(|(other, samples)| other == name && *samples > 0);
    eventually("both are timed", || sees("short") && sees("long"));
    assert_eq!(running.good(&["only", "sh*"]), "latency,function=sh* is restarted\n");
    eventually("it is timed", || sees("short"));
    assert!(!sees("long"));
    assert_eq!(running.good(&["exclude"]), "latency,function=sh* is restarted\n");
    refused(&["exclude", "s*"], "exclude=s*: no function is left");
    refused(&["only", "long", "nosuch"], "function=nosuch: no function is called nosuch");
    refused(&["only", "/sh.*/"], "selected by globs");
    assert!(running.good(&["status"]).contains("latency,function=sh* for"));
    assert_eq!(running.good(&["budget", "50%"]), "latency,function=sh*,budget=50 is restarted\n");
    refused(&["budget", "much"], "a share such as");
    assert_eq!(running.good(&["only"]), "latency,budget=50 is restarted\n");
    assert_eq!(
        running.good(&["exclude", "short"]),
        "latency,budget=50,exclude=short is restarted\n"
    );
    eventually("the other one is timed", || sees("long") && !sees("short"));
    assert!(running.good(&["off"]).contains("off"));
    let before = functions();
    // One thread: the call that was in progress when the monitor was switched off is reported when
    // it ends.
    let told = |functions: &[(String, u64)]| functions.iter().map(|it| it.1).sum::<u64>();
    for _ in 0..10 {
        let after = functions();
        let ended = told(&after) - told(&before);
        assert!(ended <= 1, "it rests: {before:?}, then {after:?}");
    }
    assert_eq!(running.good(&["reset"]), "latency,budget=50,exclude=short is restarted\n");
    assert_eq!(functions(), [], "it rests, and begins anew");
    assert!(running.good(&["on"]).contains("are on"));
    eventually("it is timed again", || sees("long"));
    assert!(running.good(&["snapshot", "--rows", "1"]).contains("long"), "a table");
    let json: serde_json::Value =
        serde_json::from_str(&running.good(&["snapshot", "--json"])).expect("an object");
    assert!(json["functions"].is_array(), "{json}");
    assert!(running.good(&["probes"]).contains("functions "));
    assert!(running.good(&["stop"]).contains("detached"));
    refused(&snapshot, "no monitor that measures times is attached");
}

/// The other command, which is built with the tests of the workspace.
fn fastinst() -> Option<std::process::Command> {
    let beside = std::path::Path::new(env!("CARGO_BIN_EXE_wasm-aot")).with_file_name("fastinst");
    if !beside.is_file() {
        test_support::skip("fastinst is not built: cargo build -p fastinst");
        return None;
    }
    Some(std::process::Command::new(beside))
}

#[test]
fn fastinst_asks_and_shows_programs_of_webassembly() {
    let Some(mut top) = fastinst() else { return };
    let place = Place::new("control-fastinst");
    let running = Running::start_program(&place, BUSY, &[]);
    let pid = running.child.id().to_string();
    let ctl = |words: &[&str]| {
        let mut command = fastinst()?;
        let output = command.arg("ctl").arg(&pid).args(words).output().expect("it starts");
        let all = [output.stdout, output.stderr].concat();
        Some((output.status.success(), String::from_utf8(all).expect("text")))
    };
    let (went_well, status) = ctl(&["status"]).expect("it is there");
    assert!(went_well && status.contains("spin.wat"), "{status}");
    let (went_well, why) = ctl(&["snapshot"]).expect("it is there");
    assert!(!went_well && why.contains("attach latency or profile"), "{why}");

    top.args(["top", "--interval", "100ms", &pid]).env("TERM", "xterm");
    let mut top = OnTerminal::start(top, (80, 24));
    for what in ["function", "calls/s", "long", "short", "quit"] {
        top.shows(what);
    }
    let (_, status) = ctl(&["status"]).expect("it is there");
    assert!(status.contains("attached  latency for "), "{status}");
    let (went_well, table) = ctl(&["snapshot"]).expect("it is there");
    assert!(went_well && table.contains("long"), "{table}");
    top.press("/long\r");
    top.shows("/long");
    top.press("\r");
    top.shows("timed;");
    // Not before: a monitor that has just been restarted has no functions yet.
    let (went_well, told) = ctl(&["exclude", "short"]).expect("it is there");
    assert!(went_well && told == "latency,exclude=short is restarted\n", "{told}");
    top.press("qq");
    let output = top.end();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(!running.good(&["status"]).contains("latency"), "it has gone with the table");
}
