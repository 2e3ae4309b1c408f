//! A thread that `fastinst attach` has stopped continues as if nothing had happened, whatever
//! happens to the command.

mod support;

use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::{Victim, clean, compile_with, fastinst, folder, run};
use test_support::{PATIENCE, eventually, within};

/// The command, as it attaches to a process.
fn attaching(process: u32) -> Child {
    let mut command = fastinst();
    command.args(["attach", "--for", "100ms"]).arg(process.to_string());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// A field of each thread's status, without the profiler's.
fn of_threads(process: u32, field: &str) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let texts = threads.flat_map(|thread| std::fs::read_to_string(thread.path().join("status")));
    let own = texts.filter(|text| !text.starts_with("Name:\tfastinst\n"));
    own.map(|text| text.split(field).nth(1).unwrap().lines().next().unwrap().to_owned()).collect()
}

/// Waits until a thread of a process is traced; returns whether that was seen before the command
/// has ended.
fn is_traced(process: u32, command: &mut Child) -> bool {
    loop {
        if of_threads(process, "TracerPid:\t").iter().any(|tracer| tracer != "0") {
            return true;
        }
        if command.try_wait().unwrap().is_some() {
            return false;
        }
    }
}

#[test]
fn a_command_that_is_killed_while_a_thread_is_stopped_harms_no_process() {
    const ROUNDS: u64 = 24;
    let to = folder("stopped-killed");
    let program = compile_with("gcc", "running.c", &to, &["-O2", "-g"]);
    let mut killed = 0;
    for how in [["work", "1"], ["sleep", "1"], ["allocate", "4"]] {
        let victim = Victim::start(clean(Command::new(&program)).args(how).current_dir(&to));
        for round in 0..ROUNDS {
            let mut command = attaching(victim.number());
            if is_traced(victim.number(), &mut command) {
                // At another moment each time.
                std::thread::sleep(Duration::from_micros(
                    [0, 30, 100, 300, 1000, 3000][round as usize % 6],
                ));
                command.kill().unwrap();
                killed += 1;
            }
            command.wait().unwrap();
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", victim.number())).unwrap();
            assert!(!stat.contains(") Z"), "{how:?}, round {round}: {stat}");
        }
        eventually("the profiler can attach, and no thread blocks a signal", || {
            let blocked = of_threads(victim.number(), "SigBlk:\t");
            let free = blocked.iter().all(|mask| mask.bytes().all(|digit| digit == b'0'));
            attaching(victim.number()).wait().unwrap().success() && free
        });
        victim.end();
    }
    assert!(killed > 10, "the command was killed {killed} times");
}

#[test]
fn a_restartable_sequence_in_which_a_thread_was_stopped_is_still_restarted() {
    let to = folder("stopped-sequence");
    let program = compile_with("gcc", "sequence.c", &to, &["-O1", "-g"]);
    let count = to.join("aborts");
    let mut command = clean(Command::new(&program));
    let victim = Victim::start(command.arg(a_processor().to_string()).arg(&count));
    let aborts = || {
        let bytes = std::fs::read(&count).unwrap();
        u64::from_le_bytes(bytes[..8].try_into().unwrap())
    };
    let is_aborted = || {
        let (before, processor) = (aborts(), a_processor());
        // Another thread needs the processor now and then.
        let mut other = Command::new("taskset");
        let script = "while :; do :; done";
        let mut other = other.args(["-c", &processor.to_string(), "sh", "-c", script]).spawn();
        let other = other.as_mut().unwrap();
        let is_aborted = within(PATIENCE, || aborts() > before);
        other.kill().unwrap();
        other.wait().unwrap();
        is_aborted
    };
    assert!(is_aborted(), "the kernel aborts no sequences");
    let output = run(fastinst().args(["attach", "--for", "50ms", &victim.number().to_string()]));
    assert!(output.status.success(), "{output:?}");
    assert!(is_aborted(), "the kernel has forgotten the sequence");
}

/// The first processor on which this process may run.
fn a_processor() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.split("Cpus_allowed_list:\t").nth(1).unwrap();
    let digits = list.find(|letter: char| !letter.is_ascii_digit()).unwrap();
    list[..digits].parse().unwrap()
}
