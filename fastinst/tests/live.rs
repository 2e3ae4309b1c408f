//! Programs that are inspected and controlled while they run: `fastinst ctl`.

mod support;

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use support::{Victim, calls, clean, compile, fastinst, folder, has, library, profile, run};
use test_support::{OnTerminal, eventually, send};

/// A program that can be asked.
struct Running(Victim);

impl Running {
    /// Starts one under the preload library, in a folder of its own.
    fn preloaded(what: &str, prepare: impl FnOnce(&mut Command)) -> Option<Self> {
        Self::compiled(&["-O2", "-finstrument-functions"], what, prepare)
    }

    /// The same for a program that is compiled with these options.
    fn compiled(options: &[&str], what: &str, prepare: impl FnOnce(&mut Command)) -> Option<Self> {
        if !has("gcc") {
            return None;
        }
        let place = folder("live");
        let program = compile("running.c", &place, options);
        let mut command = clean(Command::new(program));
        command.args([what, "2"]).current_dir(&place).env("LD_PRELOAD", library());
        command.env_remove("XDG_RUNTIME_DIR").stderr(Stdio::piped());
        prepare(&mut command);
        Some(Self(Victim::start(&mut command)))
    }

    fn number(&self) -> u32 {
        self.0.number()
    }

    fn socket(&self) -> PathBuf {
        socket_of(self.number())
    }

    /// Sends a request; the result is the answer on standard output.
    fn told(&self, words: &[&str]) -> String {
        let mut output = ctl(self.number(), words);
        // The agent creates its socket while the program starts.
        eventually("there is a socket", || {
            let waits = String::from_utf8_lossy(&output.stderr).contains("has no control socket");
            if waits {
                output = ctl(self.number(), words);
            }
            !waits
        });
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The one line with the reason for a refusal.
    fn refused(&self, words: &[&str]) -> String {
        refusal(ctl(self.number(), words))
    }

    fn snapshot(&self) -> serde_json::Value {
        let file = folder("live-snapshots").join("profile.json");
        let path = file.to_str().unwrap();
        let told = self.told(&["snapshot", "--format", "json", "-o", path]);
        assert_eq!(told, format!("written to {path}\n"));
        profile(&file)
    }

    /// Ends the program, which must succeed; returns its standard error.
    fn end(self) -> String {
        self.0.end_with_errors()
    }
}

/// Without the preload library.
fn alone(command: &mut Command) {
    command.env_remove("LD_PRELOAD");
}

/// The path of a test process's socket; test processes have no runtime folder of their user.
fn socket_of(process: u32) -> PathBuf {
    // SAFETY: (1) reads a number.
    #[allow(unsafe_code)]
    let user = unsafe { libc::geteuid() };
    PathBuf::from(format!("/tmp/fastinst-{user}/fastinst-{process}.sock"))
}

fn ctl(process: u32, words: &[&str]) -> Output {
    run(fastinst().arg("ctl").arg(process.to_string()).args(words))
}

fn refusal(output: Output) -> String {
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && output.stdout.is_empty(), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

/// The low descriptor numbers that are open in a program.
fn low_descriptors(process: u32) -> Vec<u32> {
    let entries = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut low: Vec<u32> = numbers.filter(|number| *number < 256).collect();
    low.sort_unstable();
    low
}

#[test]
fn a_program_is_asked_and_steered_while_it_runs() {
    let lines = |command: &mut Command| {
        command.arg("two\nlines");
    };
    let Some(program) = Running::preloaded("work", lines) else { return };
    eventually("it counts", || program.told(&[]).contains("measuring on"));
    let socket = std::fs::symlink_metadata(program.socket()).unwrap();
    assert!(socket.file_type().is_socket() && socket.permissions().mode() & 0o777 == 0o600);
    let listed = String::from_utf8(run(fastinst().arg("ctl")).stdout).unwrap();
    assert!(listed.contains(&format!("{}  ", program.number())), "{listed}");

    let probes = program.told(&["probes"]);
    assert!(probes.lines().any(|line| line.ends_with("allocate (running)")), "{probes}");
    assert!(program.told(&["budget", "5%"]).contains("5 %"));
    let status = program.told(&["status"]);
    assert!(status.contains("adaptive, 5 % of CPU time"), "{status}");
    assert!(status.lines().next().unwrap().ends_with("work 2 two lines"), "{status}");

    assert!(program.told(&["only", "work"]).starts_with("1 of 6 functions"));
    assert!(program.told(&["status"]).contains("only      work"));
    let left_out = |name: &str| {
        let probes = program.told(&["probes"]);
        let line = probes.lines().find(|line| line.contains(&format!("{name} ("))).unwrap();
        line.contains("left out")
    };
    assert!(left_out("thread") && !left_out("work"));
    eventually("its function is seen", || calls(&program.snapshot(), "work") > 0.0);
    // A request that changes nothing removes no figure.
    for words in [["only", "work"], ["exclude", "nosuch_*"]] {
        assert!(program.told(&words).contains("1 of 6 functions with probes: the same as before"));
        assert!(calls(&program.snapshot(), "work") > 0.0);
    }
    assert!(program.told(&["only"]).starts_with("6 of 6"));
    assert!(program.told(&["exclude", "work", "th*"]).starts_with("4 of 6"));
    assert!(left_out("work") && left_out("thread") && !left_out("allocate"));
    program.told(&["exclude"]);
    let table = program.told(&["snapshot"]);
    assert!(table.contains("self %") && table.contains("Overhead"), "{table}");

    for (words, why) in [
        (&["only", "nosuch_*"][..], "no function with a probe would be left by only nosuch_*"),
        (&["exclude", "*"], "would be left by exclude *"),
        (&["budget", "much"], "give a share"),
        (&["only", "/[/"], "/[/"),
    ] {
        let text = program.refused(words);
        assert!(text.contains(why), "{words:?}: {text}");
    }
    assert!(program.told(&["status"]).lines().all(|line| !line.starts_with("only")));
    assert_eq!(program.end(), "");
}

/// A report after `off` covers the time before it, and one after `on` or `reset` the time since.
#[test]
fn a_profile_is_of_one_interval() {
    let Some(program) = Running::preloaded("work", |command| {
        command.env("FASTINST_POLICY", "count");
    }) else {
        return;
    };
    eventually("it counts", || program.told(&["probes"]).contains("counted"));
    let count = || calls(&program.snapshot(), "work");
    eventually("it is called", || count() > 1000.0);
    assert!(program.told(&["off"]).starts_with("off: "));
    assert!(program.told(&["off"]).starts_with("off already"));
    assert!(program.told(&["probes"]).lines().skip(1).all(|line| line.contains(" off ")));
    let before = count();
    assert_eq!((before > 1000.0, count()), (true, before));
    assert!(program.told(&["status"]).contains("measuring off, after"));
    assert!(program.told(&["on"]).contains("new profile"));
    assert!(program.told(&["on"]).contains("already"));
    eventually("it counts again", || count() > 0.0);
    let seconds = || program.snapshot()["header"]["seconds"].as_f64().unwrap();
    eventually("time goes on", || seconds() > 0.3);
    program.told(&["reset"]);
    assert!(seconds() < 0.3, "the time since");
    assert!(program.refused(&["budget", "1%"]).contains("the policy count has no budget"));
    program.end();
}

#[test]
fn a_program_that_was_told_to_stop_runs_on_alone_and_has_left_its_profile() {
    let Some(program) = Running::preloaded("work", |command| {
        command.env("FASTINST_FORMAT", "json").env("FASTINST_OUTPUT", "p.%p");
    }) else {
        return;
    };
    eventually("it is called", || program.told(&["status"]).contains("called"));
    eventually("it is seen", || calls(&program.snapshot(), "work") > 0.0);
    let number = program.number();
    let place = std::fs::read_link(format!("/proc/{number}/cwd")).unwrap();
    assert!(program.told(&["stop"]).contains("ended"));
    let threads = || std::fs::read_dir(format!("/proc/{number}/task")).unwrap().count();
    eventually("the agent has left", || threads() == 2);
    assert!(!program.socket().exists());
    let file = place.join(format!("p.{number}"));
    let written = std::fs::metadata(&file).unwrap().modified().unwrap();
    let text = program.refused(&["status"]);
    assert!(text.contains("has no control socket"), "{text}");
    assert!(program.refused(&["on"]).contains("profiling was stopped"));
    assert_eq!(program.end(), "");
    assert_eq!(std::fs::metadata(&file).unwrap().modified().unwrap(), written);
    assert!(calls(&profile(&file), "work") > 0.0);
}

#[test]
fn the_program_has_no_low_descriptor_of_ours_and_no_socket_is_left() {
    let Some(plain) = Running::preloaded("work", alone) else { return };
    let Some(program) = Running::preloaded("work", |_| ()) else { return };
    program.told(&["status"]);
    eventually("clients are gone", || {
        low_descriptors(program.number()) == low_descriptors(plain.number())
    });
    let socket = program.socket();
    program.end();
    assert!(!socket.exists());
    // A killed process leaves its socket, which the next command removes.
    let Some(killed) = Running::preloaded("work", |_| ()) else { return };
    killed.told(&["status"]);
    let socket = killed.socket();
    drop(killed);
    run(fastinst().arg("ctl"));
    assert!(!socket.exists());
}

/// The program may close the profiler's descriptors at any time: at its start, and while it is
/// asked.
#[test]
fn a_program_that_closes_all_descriptors_again_and_again_goes_on() {
    for waits in [false, true] {
        let Some(program) = Running::preloaded("closing", |command| {
            command.env("FASTINST_START", if waits { "off" } else { "on" });
        }) else {
            return;
        };
        for words in [["on"], ["status"], ["snapshot"], ["probes"], ["reset"]] {
            let output = ctl(program.number(), &words);
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() || text.lines().count() == 1, "{words:?}: {text}");
        }
        program.end();
    }
}

/// A fork's child is a program of its own.
#[test]
fn a_child_has_a_socket_of_its_own() {
    let Some(program) = Running::preloaded("wait", |_| ()) else { return };
    program.told(&["status"]);
    let children = format!("/proc/{0}/task/{0}/children", program.number());
    let mut child = 0;
    eventually("it has a child", || {
        let text = std::fs::read_to_string(&children).unwrap();
        child = text.trim().parse().unwrap_or(0);
        child != 0
    });
    eventually("the child answers", || ctl(child, &["status"]).status.success());
    let told = String::from_utf8(ctl(child, &["status"]).stdout).unwrap();
    assert!(told.contains(&format!("process   {child}")), "{told}");
    assert!(ctl(child, &["off"]).status.success());
    assert!(program.told(&["status"]).contains("measuring on"));
}

#[test]
fn clients_that_are_slow_or_talk_rubbish_do_no_harm() {
    let Some(program) = Running::preloaded("work", |_| ()) else { return };
    program.told(&["status"]);
    let connect = || UnixStream::connect(program.socket()).unwrap();
    let silent: Vec<UnixStream> = (0..3).map(|_| connect()).collect();
    let mut deaf = connect();
    deaf.write_all(b"probes\n").unwrap();
    let mut rude = connect();
    let _ = rude.write_all(&[0xff; 1 << 20]);
    drop(rude);
    for line in ["", "stattus", "on on", "only a b", "\u{1}\u{2}"] {
        let mut stream = connect();
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("error\n"), "{line}: {text}");
    }
    assert!(program.told(&["status"]).contains("measuring on"));
    drop((silent, deaf));
    assert_eq!(program.end(), "");
}

/// If a filter may kill the process for a socket call, no socket is created.
#[test]
fn there_is_no_socket_under_a_filter_of_system_calls() {
    let Some(program) = Running::preloaded("sandbox", |_| ()) else { return };
    eventually("it is gone", || !program.socket().exists());
    let text = program.refused(&["status"]);
    assert!(text.contains("no control socket") || text.contains("filter"), "{text}");
    assert_eq!(program.end(), "");
}

#[test]
fn a_program_without_a_place_for_sockets_goes_on_and_says_so_only_if_asked() {
    for (choice, says) in [(None, false), (Some("on"), true), (Some("off"), false)] {
        let Some(program) = Running::preloaded("work", |command| {
            command.env("XDG_RUNTIME_DIR", "/proc");
            choice.map(|choice| command.env("FASTINST_CONTROL", choice));
        }) else {
            return;
        };
        let text = program.refused(&["status"]);
        assert!(text.contains("could make none (FASTINST_CONTROL=on"), "{text}");
        let stderr = program.end();
        assert_eq!(stderr.contains("there is no control socket: /proc/fastinst"), says, "{stderr}");
        assert_eq!(stderr.lines().count(), usize::from(says), "{stderr}");
    }
}

#[test]
fn a_process_that_was_attached_to_is_asked_and_told_to_let_go() {
    let Some(program) = Running::preloaded("work", alone) else { return };
    let text = program.refused(&["status"]);
    assert!(text.contains(&format!("fastinst attach {}", program.number())), "{text}");
    let mut command = fastinst();
    command.arg("attach").arg(program.number().to_string()).stderr(Stdio::piped());
    let attached = command.spawn().unwrap();
    eventually("it answers", || ctl(program.number(), &["status"]).status.success());
    assert!(program.told(&["status"]).contains("to fastinst attach"));
    eventually("it is seen", || calls(&program.snapshot(), "work") > 0.0);
    assert!(program.told(&["stop"]).contains("ended"));
    let output = attached.wait_with_output().unwrap();
    let table = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && table.contains("work"), "{table}");
    assert!(!program.socket().exists());
    program.end();
}

#[test]
fn a_library_that_waits_begins_when_it_is_told_to_and_again() {
    let Some(program) = Running::preloaded("work", |command| {
        command.env("FASTINST_START", "off").env("FASTINST_OUTPUT", "p.%p");
    }) else {
        return;
    };
    let number = program.number();
    let place = std::fs::read_link(format!("/proc/{number}/cwd")).unwrap();
    let threads = || std::fs::read_dir(format!("/proc/{number}/task")).unwrap().count();
    for _ in 0..2 {
        assert_eq!((threads(), program.socket().exists()), (2, false));
        assert!(program.refused(&["status"]).contains("begins a library that waits"));
        assert!(program.told(&["on"]).contains("the library was waiting"));
        eventually("it is seen", || calls(&program.snapshot(), "work") > 0.0);
        program.told(&["stop"]);
        eventually("the agent has left", || threads() == 2);
    }
    program.told(&["on"]);
    program.end();
    assert!(place.join(format!("p.{number}")).exists(), "as the environment has it");
}

#[test]
fn a_library_that_waits_measures_functions_that_no_compiler_has_prepared() {
    let waits = |provider: Option<&'static str>| {
        move |command: &mut Command| {
            command.env("FASTINST_START", "off").env("FASTINST_OUTPUT", "p.%p");
            provider.map(|provider| command.env("FASTINST_PROVIDER", provider));
        }
    };
    let Some(program) = Running::compiled(&["-O2"], "work", waits(None)) else { return };
    assert!(program.told(&["on"]).contains("the library was waiting"));
    let seen = || program.snapshot()["functions"].as_array().map_or(0, Vec::len);
    eventually("functions are seen", || seen() > 0);
    program.end();
    // A setting of the program's environment counts, and the refusal names it.
    let program = Running::compiled(&["-O2"], "work", waits(Some("hooks"))).unwrap();
    let text = program.refused(&["on"]);
    assert!(text.contains("FASTINST_PROVIDER=auto"), "{text}");
}

#[test]
fn what_cannot_be_asked_is_told_in_one_line() {
    let none = refusal(ctl(0x3f_ffff, &["status"]));
    assert!(none.contains("there is no process"), "{none}");
    let Some(program) = Running::preloaded("work", |_| ()) else { return };
    program.told(&["status"]);
    // A socket under the name of a process that belongs to another user.
    let Some(other) = Running::preloaded("work", alone) else { return };
    let squatter = UnixListener::bind(other.socket()).unwrap();
    let text = other.refused(&["status"]);
    assert!(text.contains(&format!("process {} of user", std::process::id())), "{text}");
    drop(squatter);
    std::fs::remove_file(other.socket()).unwrap();
    // A stopped process gives no answer, and the message names one that has ended meanwhile.
    let number = program.number();
    send(number, libc::SIGSTOP);
    let state = || std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap();
    eventually("it is stopped", || state().contains(") T "));
    let text = program.refused(&["status"]);
    assert!(text.contains(&format!("is stopped: continue it (kill -CONT {number})")), "{text}");
    send(number, libc::SIGCONT);
    program.told(&["status"]);
    program.end();
    assert!(refusal(ctl(number, &["status"])).contains("there is no process"));
    let usage = run(fastinst().args(["ctl", "1", "stattus"]));
    assert_eq!(usage.status.code(), Some(2));
}

#[test]
fn another_user_s_process_is_named_and_not_asked() {
    // SAFETY: (1) reads a number.
    #[allow(unsafe_code)]
    if unsafe { libc::geteuid() } != 0 {
        return test_support::skip("only root can be another user");
    }
    const NOBODY: u32 = 65534;
    let Some(program) = Running::preloaded("work", |_| ()) else { return };
    program.told(&["status"]);
    // The command as that user: a copy that the user may read.
    let open = std::fs::Permissions::from_mode(0o755);
    let command = PathBuf::from(format!("/tmp/fastinst-live-{}", std::process::id()));
    std::fs::copy(env!("CARGO_BIN_EXE_fastinst"), &command).unwrap();
    std::fs::set_permissions(&command, open).unwrap();
    let mut other = clean(Command::new(&command));
    other.args(["ctl", &program.number().to_string()]).uid(NOBODY).gid(NOBODY);
    let text = refusal(run(other.current_dir("/").env_remove("XDG_RUNTIME_DIR")));
    std::fs::remove_file(command).unwrap();
    assert!(text.contains("belongs to root"), "{text}");
    program.end();
}

/// `fastinst top` on a terminal.
fn top(process: u32, size: (u16, u16)) -> OnTerminal {
    let mut command = fastinst();
    command.args(["top", "--interval", "100ms", &process.to_string()]).env("TERM", "xterm");
    OnTerminal::start(command, size)
}

#[test]
fn a_table_that_changes_is_driven_by_keys() {
    let Some(program) = Running::preloaded("work", |_| ()) else { return };
    program.told(&["status"]);
    let mut shown = top(program.number(), (80, 24));
    for what in ["running", "function", "calls/s", "work", "quit"] {
        shown.shows(what);
    }
    shown.press("/work\r");
    shown.shows("/work");
    shown.press("\r");
    shown.shows("timed;");
    shown.press("\x1b");
    shown.shows("choose");
    shown.press("?");
    shown.shows("quit");
    shown.press("qq");
    let output = shown.end();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    // When a program ends, the table stays; the end is reported when the user leaves the table.
    let mut shown = top(program.number(), (40, 10));
    shown.shows("function");
    program.end();
    shown.shows("has ended");
    shown.press("q");
    let output = shown.end();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("has ended") && text.lines().count() == 1, "{text}");
}

#[test]
fn a_terminal_that_is_too_small_or_none_is_named_in_one_line() {
    let Some(program) = Running::preloaded("work", |_| ()) else { return };
    program.told(&["status"]);
    let none = refusal(run(fastinst().args(["top", &program.number().to_string()])));
    let once = "`fastinst ctl PID snapshot` prints the table once";
    assert!(none.contains("there is no terminal") && none.contains(once), "{none}");
    let output = top(program.number(), (20, 24)).end();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains("20 columns"), "{text}");
    assert!(text.contains(once), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(refusal(run(fastinst().args(["top", "4194303"]))).contains("there is no process"));
}
