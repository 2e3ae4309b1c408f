//! Running processes are profiled, and left unchanged.

mod support;

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use support::{Victim, clean, compile_with, fastinst, folder, function, has, profile, run};
use test_support::{eventually, send};

fn attach(options: &[&str], process: u32) -> Output {
    run(fastinst().arg("attach").args(options).arg(process.to_string()))
}

/// The command after it has attached to a process, and its further error output.
fn attached(process: u32) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut command = fastinst();
    command.arg("attach").arg(process.to_string()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains("attached to") {
        // On a busy machine it reports that it waits.
        assert!(stderr.read_line(&mut text).unwrap() > 0, "{text}");
    }
    (child, stderr)
}

/// The one line with the reason for a refusal; the process is not touched.
fn refusal(options: &[&str], process: u32) -> String {
    let output = attach(options, process);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.lines().count() == 1, "{text}");
    text
}

/// The number of code bytes that differ from the mapped files, and of writable mappings of code;
/// without the library's.
fn changed(process: u32) -> (usize, usize) {
    let memory = std::fs::File::open(format!("/proc/{process}/mem")).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let (mut differ, mut writable) = (0, 0);
    for line in maps.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let Some(path) = fields.get(5).filter(|path| path.starts_with("/")) else { continue };
        let is_ours =
            ["libfastinst", "/memfd:", "/dev/zero"].iter().any(|ours| path.contains(ours));
        if !fields[1].contains('x') || is_ours {
            continue;
        }
        writable += usize::from(fields[1].contains('w'));
        let (start, end) = fields[0].split_once('-').unwrap();
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let (start, end, offset) = (number(start), number(end), number(fields[2]));
        let mut loaded = vec![0; (end - start) as usize];
        memory.read_exact_at(&mut loaded, start).unwrap();
        let mut file = std::fs::read(path).unwrap().split_off(offset as usize);
        file.resize(file.len().max(loaded.len()), 0);
        differ += loaded.iter().zip(&file).filter(|(a, b)| a != b).count();
    }
    (differ, writable)
}

fn program(flavour: &str, flags: &[&str]) -> PathBuf {
    let to = folder(&format!("attach-{flavour}"));
    let flags: Vec<&str> = ["-O2", "-g"].iter().chain(flags).copied().collect();
    compile_with("gcc", "running.c", &to, &flags)
}

const HOOKS: &[&str] = &["-finstrument-functions"];

#[test]
fn threads_that_allocate_are_profiled_again_and_again_and_left_as_they_were() {
    for (flavour, flags) in [("plain", &[][..]), ("hooks", HOOKS)] {
        let program = program(&format!("threads-{flavour}"), flags);
        let victim = Victim::start(clean(Command::new(&program)).args(["allocate", "4"]));
        let file = program.with_file_name("profile.json");
        let (mut called, mut last) = (0.0, serde_json::Value::Null);
        for _ in 0..4 {
            let to = file.to_str().unwrap();
            let options = ["--for", "150ms", "--format", "json", "-o", to];
            let output = attach(&options, victim.number());
            assert!(output.status.success(), "{output:?}");
            last = profile(&file);
            let rows = last["functions"].as_array().unwrap();
            let allocate = rows.iter().find(|row| row["name"] == "allocate");
            called += allocate.and_then(|row| row["calls"]["value"].as_f64()).unwrap_or(0.0);
            assert_eq!(changed(victim.number()), (0, 0), "{flavour}");
            eventually("the agent's thread is gone", || victim.threads() == 4);
        }
        // On a busy machine one attachment may have too few samples to find the function.
        assert!(called > 0.0, "{last}");
        victim.end();
    }
}

#[test]
fn libraries_that_come_and_go_meanwhile_are_left_alone() {
    let to = folder("attach-reloads");
    let make = |name: &str, flags: &[&str]| {
        let made = compile_with("gcc", "reloads.c", &to, &[&["-O1"], flags].concat());
        std::fs::rename(&made, to.join(name)).unwrap();
        to.join(name)
    };
    let library = ["-shared", "-fPIC"];
    let code = make("code.so", &[&library[..], HOOKS, &["-DCODE"]].concat());
    let data = make("data.so", &[&library[..], &["-DDATA"]].concat());
    let victim = Victim::start(clean(Command::new(make("program", HOOKS))).arg(code).arg(data));
    for round in 0..12 {
        let policy = ["adaptive", "exact", "count"][round % 3];
        let output = attach(&["--for", "50ms", "--policy", policy], victim.number());
        assert!(output.status.success(), "round {round}: {output:?}");
    }
    victim.end();
}

#[test]
fn counts_of_an_attachment_are_its_own() {
    let program = program("counts", HOOKS);
    let victim = Victim::start(clean(Command::new(&program)).args(["work", "2"]));
    let file = program.with_file_name("profile.json");
    let mut all = 0.0;
    for _ in 0..3 {
        let to = file.to_str().unwrap();
        let options = ["--for", "100ms", "--policy", "count", "--format", "json", "-o", to];
        let output = attach(&options, victim.number());
        assert!(output.status.success(), "{output:?}");
        let profile = profile(&file);
        let calls = function(&profile, "work")["calls"]["value"].as_f64().unwrap();
        assert!(calls > 0.0);
        all += calls;
    }
    let turns = victim.end();
    // All threads have as many turns as calls, including those outside of any attachment.
    let turns: f64 = turns.trim().trim_end_matches(" turns").parse().unwrap();
    assert!(all < turns + 2.0, "{all} of {turns}");
}

/// The profile of a program in phases, from an attachment with these options, which leaves the
/// program unchanged.
fn in_phases(victim: &Victim, file: &Path, options: &[&str]) -> serde_json::Value {
    // The signals with handlers, without the two of libc's threads.
    let caught = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", victim.number())).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).unwrap();
        u64::from_str_radix(mask, 16).unwrap() & !(0b11 << 31)
    };
    let before = caught();
    let to = ["--for", "200ms", "--format", "json", "-o", file.to_str().unwrap()];
    let output = attach(&[options, &to].concat(), victim.number());
    assert!(output.status.success(), "{output:?}");
    assert_eq!((changed(victim.number()), caught()), ((0, 0), before), "{options:?}");
    profile(file)
}

#[test]
fn spans_and_scopes_hold_while_attached_and_leave_nothing() {
    for (flavour, flags) in [("plain", &[][..]), ("hooks", HOOKS)] {
        let to = folder(&format!("attach-phases-{flavour}"));
        let program = compile_with("gcc", "phases.c", &to, &[&["-O2"], flags].concat());
        let victim = Victim::start(&mut clean(Command::new(&program)));
        let file = program.with_file_name("profile.json");
        let options = ["--policy", "count", "--plant", "all"];
        let of = |more: &[&str]| in_phases(&victim, &file, &[&options, more].concat());
        // At the program's address, no landing may be free for a function's probes.
        let lacks_a_probe = |profile: &serde_json::Value| {
            let mut notes = profile["header"]["notes"].as_array().unwrap().iter();
            notes.any(|note| note.as_str().unwrap().contains("names has a probe"))
        };
        let calls = |profile: &serde_json::Value, name: &str| {
            let functions = profile["functions"].as_array().unwrap();
            let row = functions.iter().find(|row| row["name"] == name);
            row.map_or(0.0, |row| row["calls"]["value"].as_f64().unwrap())
        };
        // Samples from before the recording are not part of the profile.
        let profile = of(&["--start-on", "1h"]);
        assert_eq!(profile["functions"].as_array().unwrap().len(), 0, "{profile}");
        let spans_of =
            |profile: &serde_json::Value| profile["header"]["recorded"]["spans"].as_f64().unwrap();
        for _ in 0..2 {
            let recorded = || of(&["--start-on", "opens", "--stop-on", "closes"]);
            // A program that waits for a processor most of the time has few spans.
            let mut profiles = (0..20).map(|_| recorded());
            let profile =
                profiles.find(|profile| lacks_a_probe(profile) || spans_of(profile) > 5.0);
            let profile = profile.expect("the program runs");
            if lacks_a_probe(&profile) {
                continue;
            }
            let (spans, work) = (spans_of(&profile), calls(&profile, "work"));
            // The spans in which the profiler attaches and detaches are not complete: a few.
            let incomplete = 5.0 + spans / 500.0;
            assert!((work / 10.0 - spans).abs() < incomplete, "{work} in {spans}");
            assert_eq!(calls(&profile, "others"), 0.0, "{profile}");
        }
        let profile = of(&["--under", "others"]);
        if lacks_a_probe(&profile) {
            continue;
        }
        let (others, work) = (calls(&profile, "others"), calls(&profile, "work"));
        assert!(others > 0.0 && (work - 2.0 * others).abs() <= 2.0, "{profile}");
        victim.end();
    }
}

/// Otherwise the time of an earlier attachment would be reported as overhead of every later one.
#[test]
fn the_time_that_the_profiler_takes_is_that_of_one_attachment() {
    let program = program("agents", HOOKS);
    let victim = Victim::start(clean(Command::new(&program)).args(["work", "2"]));
    let file = program.with_file_name("profile.json");
    let spent = |options: [&str; 4]| {
        let kept = ["--format", "json", "-o", file.to_str().unwrap()];
        let output = attach(&[&options[..], &kept].concat(), victim.number());
        assert!(output.status.success(), "{output:?}");
        profile(&file)["header"]["spent"]["agent"].as_f64().unwrap()
    };
    // A hundred times as long, and all calls are timed.
    let much = spent(["--for", "1s", "--policy", "exact"]);
    let little = spent(["--for", "10ms", "--policy", "count"]);
    assert!(little < much, "{little} s, after {much} s");
    victim.end();
}

/// A system call that the stop has interrupted, and that the kernel would end with EINTR,
/// continues; this program ends on EINTR.
#[test]
fn an_event_loop_is_not_interrupted() {
    let program = program("events", &[]);
    for events in ["0", "1"] {
        let victim = Victim::start(clean(Command::new(&program)).args(["wait", events]));
        for _ in 0..10 {
            attach(&["--for", "10ms"], victim.number());
            assert!(Path::new(&format!("/proc/{}/fd/0", victim.number())).exists());
        }
        let status = std::fs::read_to_string(format!("/proc/{}/status", victim.number())).unwrap();
        assert!(!status.contains("zombie"), "{status}");
        assert_eq!(changed(victim.number()), (0, 0));
    }
}

/// In a single-threaded program the C library takes no locks: the thread is stopped outside of its
/// allocator, and held until the library is loaded.
#[test]
fn a_program_of_one_thread_is_attached_to_at_a_safe_point() {
    for (flavour, flags) in [("one", &[][..]), ("own", &["-DOWN_ALLOCATOR", "-fno-builtin"][..])] {
        let program = program(flavour, flags);
        for _ in 0..6 {
            let mut command = clean(Command::new(&program));
            let victim =
                Victim::start(command.args(["allocate", "1"]).env("MALLOC_ARENA_MAX", "1"));
            let output = attach(&["--for", "20ms"], victim.number());
            assert!(output.status.success(), "{flavour} {output:?}");
            victim.end();
        }
    }
}

/// A shell that starts a program in the background knows its process ID before the child executes
/// the program.
#[test]
fn a_process_that_begins_other_programs_is_attached_to_when_it_has_begun_its_last() {
    let program = compile_with("gcc", "begins.c", &folder("attach-begins"), &["-O1"]);
    for times in ["20", "20", "20", "20", "20", "1000"] {
        let mut command = clean(Command::new(&program));
        command.arg(times).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = attach(&["--for", "100ms"], child.id());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        drop(child.stdin.take());
        let mut printed = String::new();
        child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        assert!(child.wait().unwrap().success() && printed == "done\n", "{printed} {text}");
        assert!(output.status.success() && text.contains("attached to"), "{text}");
    }
}

#[test]
fn a_process_that_begins_others_all_the_time_is_attached_to_between_two() {
    let program = compile_with("gcc", "parent.c", &folder("attach-parent"), &["-O1"]);
    let victim = Victim::start(&mut clean(Command::new(&program)));
    for _ in 0..5 {
        let output = attach(&["--for", "50ms"], victim.number());
        assert!(output.status.success(), "{output:?}");
    }
    victim.end();
}

#[test]
fn a_command_that_is_killed_leaves_the_process_as_it_was() {
    let program = program("killed", HOOKS);
    let place = program.parent().unwrap();
    let victim =
        Victim::start(clean(Command::new(&program)).args(["work", "3"]).current_dir(place));
    let (mut command, _stderr) = attached(victim.number());
    assert!(changed(victim.number()).0 > 0);
    command.kill().unwrap();
    command.wait().unwrap();
    eventually("code is as it was", || changed(victim.number()) == (0, 0));
    assert!(!place.join(format!("fastinst.{}", victim.number())).exists());
    // The profiler can attach again.
    let output = attach(&["--for", "20ms"], victim.number());
    assert!(output.status.success(), "{output:?}");
    victim.end();
}

#[test]
fn the_profile_of_a_process_that_ends_meanwhile_is_kept() {
    let program = program("ending", HOOKS);
    let victim = Victim::start(clean(Command::new(&program)).args(["work", "2"]));
    let (mut command, mut stderr) = attached(victim.number());
    let mut text = String::new();
    victim.end();
    stderr.read_to_string(&mut text).unwrap();
    // The function that was called last.
    assert!(command.wait().unwrap().success() && text.contains("end (running.c"), "{text}");
}

/// The most that the library's thread-local data takes of the loader's reserve for late libraries;
/// doc/attach.md states it, too.
const THREAD_DATA: usize = 256;

#[test]
fn the_library_is_loaded_where_others_have_left_the_room_that_it_says_it_needs() {
    use goblin::elf::{Elf, program_header::PT_TLS};
    let bytes = std::fs::read(support::library()).unwrap();
    let elf = Elf::parse(&bytes).unwrap();
    let own = elf.program_headers.iter().filter(|header| header.p_type == PT_TLS);
    let own: Vec<_> = own.map(|header| (header.p_memsz, header.p_align)).collect();
    let fits = |&(size, align): &(u64, u64)| size <= THREAD_DATA as u64 && align <= 16;
    assert!(own.len() == 1 && own.iter().all(fits), "{own:?}");

    let to = folder("attach-surplus");
    let program = compile_with("gcc", "surplus.c", &to, &["-O1", "-ldl"]);
    let one = compile_with("gcc", "late.c", &to, &["-O1", "-shared", "-fPIC"]);
    // The loader identifies a library by its file.
    for n in 0..64 {
        std::fs::copy(&one, to.join(format!("late{n}.so"))).unwrap();
    }
    let late = |count: usize| {
        let mut command = clean(Command::new(&program));
        command.arg(&to).arg(count.to_string());
        command
    };
    let all = run(late(64).arg("count")).stdout;
    let all: usize = String::from_utf8(all).unwrap().trim().parse().unwrap();
    assert!((THREAD_DATA / 64..64).contains(&all), "the loader keeps room for {all} of them");
    // A preloaded library has static thread-local data, so the reserve stays the program's.
    let mut preloaded = late(64);
    preloaded.arg("count").env("LD_PRELOAD", support::library());
    preloaded.env("FASTINST_OUTPUT", to.join("surplus.profile"));
    let preloaded = run(&mut preloaded).stdout;
    assert_eq!(String::from_utf8(preloaded).unwrap().trim(), all.to_string());
    let victim = Victim::start(&mut late(all - THREAD_DATA / 64));
    let output = attach(&["--for", "50ms"], victim.number());
    assert!(output.status.success(), "{output:?}");
    victim.end();
    let victim = Victim::start(&mut late(all));
    let why = refusal(&["--for", "50ms"], victim.number());
    assert!(why.contains("static TLS") && why.contains("optional_static_tls=2048"), "{why}");
    victim.end();
}

#[test]
fn a_process_that_only_waits_has_an_empty_table_and_a_hint_for_one_that_runs() {
    let script = "echo ready; exec sleep 1000";
    let victim = Victim::start(clean(Command::new("sh")).args(["-c", script]));
    let comm = format!("/proc/{}/comm", victim.number());
    eventually("it sleeps", || std::fs::read_to_string(&comm).is_ok_and(|name| name == "sleep\n"));
    let output = attach(&["--for", "100ms"], victim.number());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && text.contains("0 functions"), "{text}");
    assert!(text.contains("use --plant all, which gives all functions probes at once"), "{text}");
    assert!(!text.contains("sorted by"), "{text}");
}

#[test]
fn what_cannot_be_attached_to_is_refused_in_one_line() {
    let missing = refusal(&[], 4_000_000);
    assert!(missing.contains("no process 4000000"), "{missing}");
    let kernel = (2..100).find(|process| {
        std::fs::read_to_string(format!("/proc/{process}/status"))
            .is_ok_and(|status| status.contains("Kthread:\t1"))
    });
    if let Some(kernel) = kernel {
        assert!(refusal(&[], kernel).contains("kernel thread"));
    }
    let program_file = program("refused", &[]);
    let victim = Victim::start(clean(Command::new(&program_file)).args(["work", "2"]));
    let threads = std::fs::read_dir(format!("/proc/{}/task", victim.number())).unwrap();
    let threads = threads.map(|thread| thread.unwrap().file_name().into_string().unwrap());
    let other: u32 = threads.map(|thread| thread.parse().unwrap()).max().unwrap();
    assert!(refusal(&[], other).contains("is a thread of process"));
    send(victim.number(), libc::SIGSTOP);
    eventually("stopped", || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", victim.number())).unwrap();
        status.contains("T (stopped)")
    });
    assert!(refusal(&[], victim.number()).contains("kill -CONT"));
    send(victim.number(), libc::SIGCONT);
    let (mut first, _stderr) = attached(victim.number());
    assert!(refusal(&[], victim.number()).contains("another fastinst attach"));
    send(first.id(), libc::SIGTERM);
    assert!(first.wait().unwrap().success());
    victim.end();

    let is_static = program("static", &["-static"]);
    let victim = Victim::start(clean(Command::new(&is_static)).args(["work", "1"]));
    assert!(refusal(&[], victim.number()).contains("statically linked"));
    victim.end();
    if let Some(narrow) = narrow_program() {
        let victim = Victim::start(&mut clean(Command::new(&narrow)));
        assert!(refusal(&[], victim.number()).contains("32-bit"));
    }
    let sandboxed = Victim::start(clean(Command::new(&program_file)).args(["sandbox", "1"]));
    assert!(refusal(&[], sandboxed.number()).contains("seccomp"));
    let output = attach(&["--force", "--for", "20ms"], sandboxed.number());
    assert!(output.status.success(), "{output:?}");
    sandboxed.end();
    if has("musl-gcc") {
        let to = folder("attach-musl");
        let program = compile_with("musl-gcc", "running.c", &to, &["-O2"]);
        let victim = Victim::start(clean(Command::new(&program)).args(["work", "1"]));
        assert!(refusal(&[], victim.number()).contains("musl"));
    }
}

/// A 32-bit program that needs no library; `None` if the kernel does not run one.
fn narrow_program() -> Option<PathBuf> {
    let program = folder("attach-narrow").join("narrow");
    let mut command = Command::new("gcc");
    command.args(["-m32", "-O1", "-nostdlib", "-static", "-ffreestanding", "-no-pie"]);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/narrow.c"));
    let output = run(command.arg("-o").arg(&program));
    assert!(output.status.success(), "{output:?}");
    let may = match Command::new(&program).stdout(Stdio::null()).spawn() {
        Ok(mut child) => {
            child.kill().unwrap();
            child.wait().unwrap();
            true
        }
        Err(_) => false,
    };
    test_support::require(may, "a kernel that runs 32-bit programs").then_some(program)
}

/// A program that works for two seconds in namespaces of its own, and its process ID outside of
/// them; `None` where the kernel does not allow such namespaces.
fn in_namespaces(program: &[&OsStr]) -> Option<(Victim, u32)> {
    let mut command = clean(Command::new("unshare"));
    command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]);
    command.args(["--mount", "--mount-proc"]).args(program).args(["work", "2"]);
    let may = run(Command::new("unshare").args(["--user", "true"])).status.success();
    if !test_support::require(may, "the right to make namespaces") {
        return None;
    }
    let victim = Victim::start(&mut command);
    let children = format!("/proc/{0}/task/{0}/children", victim.number());
    let inner = std::fs::read_to_string(children).unwrap().trim().parse().unwrap();
    Some((victim, inner))
}

/// In its namespaces it has another process ID, does not see the command, and sees other files.
#[test]
fn a_process_in_namespaces_of_its_own_is_attached_to() {
    let program = program("namespaces", HOOKS);
    let Some((_victim, inner)) = in_namespaces(&[program.as_os_str()]) else { return };
    for _ in 0..2 {
        let output = attach(&["--for", "100ms"], inner);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && text.contains("work (running.c"), "{text}");
        assert_eq!(changed(inner), (0, 0));
    }
}

/// As in a container that has a program in it, and what its loader asks for.
#[test]
fn a_process_that_sees_no_library_but_the_c_library_is_attached_to() {
    let root = folder("attach-alone");
    std::fs::copy(program("alone-outside", HOOKS), root.join("program")).unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let c_library = maps.split_whitespace().find(|word| word.ends_with("/libc.so.6")).unwrap();
    for file in ["/lib64/ld-linux-x86-64.so.2", c_library] {
        let inside = root.join(&file[1..]);
        std::fs::create_dir_all(inside.parent().unwrap()).unwrap();
        std::fs::copy(file, inside).unwrap();
    }
    for name in ["proc", "tmp"] {
        std::fs::create_dir(root.join(name)).unwrap();
    }
    let start = ["--root".as_ref(), root.as_os_str(), "/program".as_ref()];
    let Some((_victim, inner)) = in_namespaces(&start) else { return };
    let output = attach(&["--for", "100ms"], inner);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && text.contains("work"), "{text}");
    assert_eq!(changed(inner), (0, 0));
}

/// Functions that the first attachment did not select.
#[test]
fn more_functions_get_probes_when_the_profiler_comes_again() {
    let program = program("again", &[]);
    let place = program.parent().unwrap();
    let victim = Victim::start(clean(Command::new(&program)).args(["work", "2"]));
    let planted = |options: &[&str]| {
        let file = place.join("profile.json");
        let kept = ["--for", "100ms", "--format", "json", "-o", file.to_str().unwrap()];
        let output = attach(&[&kept, options].concat(), victim.number());
        assert!(output.status.success(), "{output:?}");
        assert_eq!(changed(victim.number()), (0, 0));
        let note = profile(&file).to_string();
        let came = note
            .split(" functions that no compiler has prepared got probes when the profiler came");
        let came = came.collect::<Vec<_>>();
        let count = came[0].rsplit(|letter: char| !letter.is_ascii_digit()).next();
        if came.len() > 1 { count.unwrap().parse::<usize>().unwrap() } else { 0 }
    };
    assert_eq!(planted(&["--plant", "seen"]), 0);
    let all = planted(&["--plant", "all"]);
    assert!(all > 3, "{all}");
    victim.end();
}

/// It has no thread and no probe before the attachment, and none afterwards.
#[test]
fn a_library_that_waits_is_woken_and_put_to_sleep() {
    let program = program("dormant", HOOKS);
    let place = program.parent().unwrap();
    let mut command = clean(Command::new(&program));
    command.args(["work", "2"]).current_dir(place);
    command.env("LD_PRELOAD", support::library()).env("FASTINST_START", "off");
    let victim = Victim::start(&mut command);
    assert_eq!((victim.threads(), changed(victim.number())), (2, (0, 0)));
    let file = place.join("profile.json");
    for _ in 0..2 {
        let options = ["--for", "100ms", "--format", "json", "-o", file.to_str().unwrap()];
        let output = attach(&options, victim.number());
        assert!(output.status.success(), "{output:?}");
        assert!(support::calls(&profile(&file), "work") > 0.0);
        assert_eq!(changed(victim.number()), (0, 0));
        eventually("the agent's thread is gone", || victim.threads() == 2);
    }
    let number = victim.number();
    victim.end();
    assert!(!place.join(format!("fastinst.{number}")).exists(), "it was not asked for");
}

#[test]
fn a_program_that_was_started_with_the_profiler_has_one_already() {
    let program = program("preloaded", HOOKS);
    let mut command = clean(Command::new(&program));
    command.args(["work", "2"]).env("LD_PRELOAD", support::library());
    command.current_dir(program.parent().unwrap());
    let victim = Victim::start(&mut command);
    let text = refusal(&[], victim.number());
    assert!(text.contains("already being profiled"), "{text}");
    victim.end();
}

#[test]
fn a_filter_that_matches_nothing_is_refused_before_the_process_is_touched() {
    for (flavour, flags) in [("filter", &[][..]), ("filter-hooks", HOOKS)] {
        let program = program(flavour, flags);
        let victim = Victim::start(clean(Command::new(&program)).args(["allocate", "2"]));
        for options in [["-F", "alocate"], ["--under", "alocate"], ["-A", "alocate@arg1"]] {
            let text = refusal(&options, victim.number());
            assert!(text.contains("'alocate'"), "{text}");
            assert!(text.contains("did you mean allocate"), "{text}");
        }
        // A filter that excludes nothing is only reported.
        let output = attach(&["--for", "50ms", "-N", "alocate"], victim.number());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("matches 'alocate'"), "{text}");
        // One that matches in a library only.
        let output = attach(&["--for", "50ms", "-F", "@libc*"], victim.number());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!text.contains("matches '@libc"), "{text}");
        victim.end();
    }
}
