//! Peers: the cost of the same operations in other tools, measured on the same machine in the same
//! run.
//!
//! | peer | what it does |
//! |---|---|
//! | `xray` | clang's XRay: sleds that are patched |
//! | `uprobe` | the kernel's probes of programs |
//! | `uftrace` | records every call of a program built with `-pg` |
//! | `jvm` | a mutable call site of the JVM, recompiled when it changes |
//! | `frida` | rewrites a function's beginning at run time |
//!
//! A missing peer is reported as skipped; `--peers` installs the packaged ones, by name.

use crate::corpus;
use crate::probes::{self, Probes};
use crate::report::{Report, Row};
use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

type Measured = Result<Vec<(String, f64, &'static str)>, Box<dyn Error>>;

/// A peer: its name, its requirements, and the function that measures it.
struct Peer {
    name: &'static str,
    tools: &'static [&'static str],
    packages: &'static [&'static str],
    measure: fn(&Probes, bool) -> Measured,
}

const PEERS: [Peer; 5] = [
    Peer {
        name: "xray",
        tools: &["clang++"],
        packages: &["clang", "libclang-rt-dev"],
        measure: xray,
    },
    Peer { name: "uprobe", tools: &[], packages: &[], measure: uprobe },
    Peer { name: "uftrace", tools: &["uftrace"], packages: &["uftrace"], measure: uftrace },
    Peer { name: "jvm", tools: &["java"], packages: &["default-jdk-headless"], measure: jvm },
    Peer { name: "frida", tools: &["python3"], packages: &["python3-venv"], measure: frida },
];

pub(crate) fn measure(
    probes: &Probes,
    quick: bool,
    install: bool,
    report: &mut Report,
) -> Result<(), Box<dyn Error>> {
    for peer in &PEERS {
        let missing = || peer.tools.iter().find(|tool| !corpus::is_there(tool));
        if install && missing().is_some() {
            eprintln!("table2: installing {}", peer.packages.join(", "));
            let _ =
                Command::new("apt-get").args(["install", "-y", "-qq"]).args(peer.packages).output();
        }
        let measured = match missing() {
            Some(tool) => Err(format!("{tool} is missing: --peers installs it").into()),
            None => (peer.measure)(probes, install || quick),
        };
        match measured {
            Ok(rows) => report.rows.extend(rows.into_iter().map(|(row, value, unit)| {
                Row::plain(format!("peer/{}/{row}", peer.name), value, unit, 1)
            })),
            Err(why) => {
                report.notes.push(format!(
                    "peer/{} skipped: {}",
                    peer.name,
                    why.to_string().lines().next().unwrap_or("")
                ));
            }
        }
    }
    Ok(())
}

/// Parses lines "row value unit" of a program's output.
fn answers(command: &mut Command) -> Measured {
    let outcome = probes::run(command)?;
    let text = String::from_utf8_lossy(&outcome.stdout);
    let row = |line: &str| -> Option<(String, f64, &'static str)> {
        let mut words = line.split(' ');
        let (row, value) = (words.next()?, words.next()?.parse().ok()?);
        Some((row.to_owned(), value, if words.next() == Some("us") { "us" } else { "ns" }))
    };
    let rows: Vec<_> = text.lines().filter_map(row).collect();
    if rows.is_empty() {
        Err(format!("it said nothing: {}", outcome.said()).into())
    } else {
        Ok(rows)
    }
}

fn xray(probes: &Probes, _quick: bool) -> Measured {
    let flags = ["-std=c++17", "-fxray-instrument", "-fxray-instruction-threshold=1", "-pthread"];
    let program =
        probes.corpus().compile("xray.cc", include_str!("../corpus/xray.cc"), "clang++", &flags)?;
    answers(&mut Command::new(program))
}

/// The nanoseconds of a call of a build's target, as reported by the program: the median of the
/// rounds.
fn call(command: &mut Command, calls: &str) -> Result<f64, Box<dyn Error>> {
    let outcome = probes::run(command.args(["invoke", calls]))?;
    let text = String::from_utf8(outcome.stdout)?;
    let mut rounds: Vec<f64> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
    rounds.sort_by(f64::total_cmp);
    let median = rounds.get(rounds.len() / 2).copied().ok_or("it printed no rounds")?;
    Ok(median / crate::table2::ticks_per_ns())
}

fn uftrace(probes: &Probes, _quick: bool) -> Measured {
    let program = probes.corpus().compile(
        "probes.c",
        include_str!("../corpus/probes.c"),
        "gcc",
        &["-pg", "-pthread"],
    )?;
    let data = probes.corpus().folder().join("uftrace.data");
    let bare = call(&mut Command::new(&probes.floor), "20000")?;
    let mut rows = Vec::new();
    for (row, option) in [("pair", None), ("off", Some("--trace=off"))] {
        let _ = std::fs::remove_dir_all(&data);
        let mut command = Command::new("uftrace");
        command
            .args(["record", "--no-pager", "--no-libcall", "--no-event", "-d"])
            .arg(&data)
            .args(option)
            .arg(&program);
        rows.push((row.to_owned(), call(&mut command, "20000")? - bare, "ns"));
    }
    let _ = std::fs::remove_dir_all(&data);
    Ok(rows)
}

/// Removes the kernel's probe on drop.
struct Uprobe(PathBuf);

impl Drop for Uprobe {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("events/fastinst_paper/enable"), "0");
        let _ = append(&self.0.join("uprobe_events"), "-:fastinst_paper/target");
    }
}

fn append(path: &std::path::Path, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    std::fs::OpenOptions::new().append(true).open(path)?.write_all(text.as_bytes())
}

fn uprobe(probes: &Probes, _quick: bool) -> Measured {
    let folders = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from);
    let tracing = folders.into_iter().find(|folder| folder.join("uprobe_events").exists());
    let tracing = tracing.ok_or("tracefs is not mounted, or the kernel has no uprobes")?;
    let bytes = std::fs::read(&probes.floor)?;
    let elf = goblin::elf::Elf::parse(&bytes)?;
    let symbol = elf
        .syms
        .iter()
        .find(|symbol| elf.strtab.get_at(symbol.st_name) == Some("target"))
        .ok_or("no symbol `target`")?;
    let segment = elf
        .program_headers
        .iter()
        .find(|header| header.vm_range().contains(&(symbol.st_value as usize)));
    let segment = segment.ok_or("`target` lies in no segment")?;
    let offset = symbol.st_value - segment.p_vaddr + segment.p_offset;
    let bare = call(&mut Command::new(&probes.floor), "20000")?;
    append(
        &tracing.join("uprobe_events"),
        &format!("p:fastinst_paper/target {}:{offset:#x}", probes.floor.display()),
    )?;
    let guard = Uprobe(tracing.clone());
    let enable = tracing.join("events/fastinst_paper/enable");
    let mut executer = Command::new(&probes.floor)
        .args(["invoke", "100000000"])
        .stdout(std::process::Stdio::null())
        .spawn()?;
    let mut took = [Vec::new(), Vec::new()];
    for _ in 0..20 {
        for (on, took) in ["0", "1"].iter().zip(&mut took).rev() {
            let start = std::time::Instant::now();
            std::fs::write(&enable, on)?;
            took.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    executer.kill()?;
    executer.wait()?;
    std::fs::write(&enable, "1")?;
    let probed = call(&mut Command::new(&probes.floor), "20000");
    drop(guard);
    let mut median = |at: usize| {
        took[at].sort_by(f64::total_cmp);
        took[at][took[at].len() / 2]
    };
    Ok(vec![
        ("activate".into(), median(1), "us"),
        ("deactivate".into(), median(0), "us"),
        ("invoke".into(), probed? - bare, "ns"),
    ])
}

fn jvm(probes: &Probes, _quick: bool) -> Measured {
    let source = probes.corpus().folder().join("Sites.java");
    std::fs::write(&source, include_str!("../corpus/Sites.java"))?;
    answers(Command::new("java").arg(source))
}

fn frida(probes: &Probes, install: bool) -> Measured {
    let place = probes.corpus().folder().join("frida");
    let python = place.join("bin/python3");
    let has_frida = |python: &PathBuf| {
        Command::new(python).args(["-c", "import frida"]).output().is_ok_and(|o| o.status.success())
    };
    if !has_frida(&python) && install {
        let _ = Command::new("python3").args(["-m", "venv"]).arg(&place).output();
        let _ = Command::new(place.join("bin/pip")).args(["install", "-q", "frida"]).output();
    }
    if !has_frida(&python) {
        return Err("the Python package frida is missing: --peers installs it".into());
    }
    let script = probes.corpus().folder().join("frida_peer.py");
    std::fs::write(&script, include_str!("../corpus/frida_peer.py"))?;
    answers(Command::new(python).arg(script).arg(&probes.floor))
}
