//! The WebAssembly half of the demo: a program that runs under a monitor, which is switched while
//! it runs.

use crate::command::{Failure, launch};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use wordpatch::os::signals;

const PROGRAM: &str = include_str!("../../../samples/primes.wat");
const MONITOR: &str = include_str!("../../../samples/ways.mm");

/// The time between two changes.
const A_WHILE: Duration = Duration::from_millis(400);
/// How long the program may take to begin.
const PATIENCE: Duration = Duration::from_secs(20);

/// Shows it, or refuses with what is missing.
pub(super) fn show(folder: &Path, out: &mut impl Write) -> Result<(), Failure> {
    let command = command(out)?;
    let (program, monitor) = (folder.join("primes.wat"), folder.join("ways.mm"));
    super::super::write_file(&program, PROGRAM.as_bytes())?;
    super::super::write_file(&monitor, MONITOR.as_bytes())?;
    let with = format!("{},toggle", monitor.display());
    let line =
        format!("wasm-aot run --monitor {with} --invoke count {} 2000000000", program.display());
    writeln!(
        out,
        "Runs a WebAssembly program under a monitor in Whamm, for as long as it takes:\n\n   \
         $ {line}\n"
    )?;
    let mut running = Command::new(&command);
    running.args(["run", "--monitor", &with, "--invoke", "count"]).arg(&program).arg("2000000000");
    running.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let asked = Asked { command, child: Some(spawn_interruptible(&mut running)?) };
    if asked.begins() {
        for request in [
            &["off", "ways"][..],
            &["attach", "hotness,top=3"],
            &["report"],
            &["detach", "hotness"],
            &["on", "ways"],
        ] {
            std::thread::sleep(A_WHILE);
            asked.request(request, out)?;
        }
        std::thread::sleep(A_WHILE);
    }
    let ended = asked.interrupt()?;
    writeln!(
        out,
        "   Interrupted, it reports how often each condition was true and false while the monitor was on:\n"
    )?;
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    for line in told.lines().skip_while(|line| !line.starts_with("== ")) {
        writeln!(out, "   {line}")?;
    }
    Ok(())
}

/// Starts a program that SIGINT ends. Shells make background commands ignore SIGINT, and their
/// children inherit that.
fn spawn_interruptible(command: &mut Command) -> io::Result<Child> {
    let is_ignored =
        signals::action(libc::SIGINT).is_ok_and(|action| action.sa_sigaction == libc::SIG_IGN);
    if !is_ignored {
        return command.spawn();
    }
    launch::set_handler(libc::SIGINT, libc::SIG_DFL);
    let child = command.spawn();
    launch::set_handler(libc::SIGINT, libc::SIG_IGN);
    child
}

/// A running program, which is always stopped in the end.
struct Asked {
    command: PathBuf,
    child: Option<Child>,
}

impl Asked {
    fn id(&self) -> String {
        self.child.as_ref().map_or_else(String::new, |child| child.id().to_string())
    }

    fn ctl(&self, request: &[&str]) -> io::Result<Output> {
        Command::new(&self.command).arg("ctl").arg(self.id()).args(request).output()
    }

    /// Waits until it answers.
    fn begins(&self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if self.ctl(&["status"]).is_ok_and(|output| output.status.success()) {
                return true;
            }
            std::thread::sleep(A_WHILE / 4);
        }
        false
    }

    fn request(&self, request: &[&str], out: &mut impl Write) -> Result<(), Failure> {
        let output = self.ctl(request)?;
        writeln!(out, "   $ wasm-aot ctl {} {}", self.id(), request.join(" "))?;
        for line in String::from_utf8_lossy(&output.stdout)
            .lines()
            .chain(String::from_utf8_lossy(&output.stderr).lines())
        {
            writeln!(out, "   {line}")?;
        }
        writeln!(out)?;
        Ok(())
    }

    /// Ends it as Ctrl-C would.
    fn interrupt(mut self) -> Result<Output, Failure> {
        let child = self
            .child
            .take()
            .ok_or_else(|| Failure::Refused("the program has ended".to_owned()))?;
        let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        Ok(child.wait_with_output()?)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The command beside this one; built first if this one was built by `cargo run`.
fn command(out: &mut impl Write) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe()?;
    let beside = own.with_file_name("wasm-aot");
    if beside.is_file() {
        return Ok(beside);
    }
    let missing = || {
        Failure::Refused(format!(
            "there is no {}: build it with cargo build --release -p wasm-aot, or install it with \
             scripts/install",
            beside.display()
        ))
    };
    let (Some(cargo), Some(package)) =
        (std::env::var_os("CARGO"), std::env::var_os("CARGO_MANIFEST_DIR"))
    else {
        return Err(missing());
    };
    let target = own.parent().and_then(Path::parent).ok_or_else(missing)?;
    writeln!(out, "Builds wasm-aot, which takes some minutes the first time …\n")?;
    out.flush()?;
    let manifest = Path::new(&package).join("../Cargo.toml");
    let is_release = own.parent().is_some_and(|folder| folder.ends_with("release"));
    let profile: &[OsString] = if is_release { &["--release".into()] } else { &[] };
    let built = Command::new(cargo)
        .args(["build", "--quiet", "-p", "wasm-aot", "--bin", "wasm-aot"])
        .args(profile)
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(target)
        .status();
    if built.is_ok_and(|status| status.success()) && beside.is_file() {
        return Ok(beside);
    }
    Err(missing())
}
