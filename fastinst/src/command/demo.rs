//! `fastinst demo`: a sample program, compiled with probes, run without and with the profiler, and
//! what to try next; with `--wasm` a WebAssembly program under a monitor that is switched while it
//! runs.
//!
//! They are two commands since the engine takes minutes to build, and a first look takes seconds.

mod wasm;

use super::Failure;
use super::launch::library;
use super::report::{Shape, read, show};
use fastinst::format::Format;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::time::{Duration, Instant};
use wordpatch::os::trust;

const SAMPLE: &str = include_str!("../../samples/words.c");

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run a WebAssembly program under a monitor instead; builds wasm-aot first if it is missing
    #[arg(long)]
    wasm: bool,

    #[command(flatten)]
    colors: manual::Colors,

    /// Folder for the sample, the program and its profile [default: fastinst-demo in the current
    /// folder, or a temporary folder if that cannot be written]
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let folder = folder(args.folder.as_deref())?;
    if args.wasm {
        wasm::show(&folder, &mut io::stdout().lock())?;
    } else {
        native(&folder, args.colors)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn native(folder: &Path, colors: manual::Colors) -> Result<(), Failure> {
    let library = library()?;
    let source = folder.join("words.c");
    super::write_file(&source, SAMPLE.as_bytes())?;
    let mut out = io::stdout().lock();
    let program = match compile(&source, &folder.join("words")) {
        Ok((program, line)) => {
            writeln!(out, "1. Compiled a sample with probes:\n\n   $ {line}\n")?;
            vec![program.into_os_string()]
        }
        Err(why) => {
            writeln!(out, "1. {why}\n   The same sample, bundled in Rust, is profiled instead.\n")?;
            vec![std::env::current_exe()?.into_os_string(), super::sample::NAME.into()]
        }
    };
    let shown = program.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let profile = folder.join("words.profile");
    let (before, without) = timed(&mut sample(&program))?;
    let (after, with) =
        timed(sample(&program).env("LD_PRELOAD", &library).env("FASTINST_OUTPUT", &profile))?;
    out.write_all(&after.stderr)?;
    writeln!(
        out,
        "2. Ran it with the preload library:\n\n   $ LD_PRELOAD={} FASTINST_OUTPUT={} {shown}",
        library.display(),
        profile.display()
    )?;
    writeln!(out, "   {}", String::from_utf8_lossy(&after.stdout).trim_end())?;
    if before.stdout != after.stdout || before.status != after.status {
        return Err(Failure::Refused(
            "the sample's output was different under the profiler: please report this".to_owned(),
        ));
    }
    writeln!(
        out,
        "\n   Its output is the same as without. It took {:.2} s; {:.2} s without.\n",
        with.as_secs_f64(),
        without.as_secs_f64()
    )?;
    let terminal = io::stdout().is_terminal();
    let (width, color) = (manual::columns(terminal), colors.are_on(terminal));
    let shape = Shape { width, color, ..Shape::default() };
    writeln!(out, "3. The profile:\n")?;
    out.write_all(&show(&read(&profile)?, Format::Table, &shape)?)?;
    writeln!(out, "{}", next_steps(folder))?;
    Ok(())
}

fn next_steps(folder: &Path) -> String {
    let folder = folder.display();
    let command = std::env::current_exe()
        .map_or_else(|_| "fastinst".to_owned(), |path| path.display().to_string());
    format!(
        "
Figures without a mark are exact; the others are estimated from random samples, with 95 % intervals.

Try next:

   $ {command} report --sort p99 {folder}/words.profile     the slowest calls
   $ {command} report --format gprof {folder}/words.profile who calls whom
   $ {command} run --policy exact {folder}/words            every single call
   $ {command} cc -O2 your.c -o your && {command} run ./your
   $ {command} doctor ./your
   $ {command} demo --wasm                                  a WebAssembly program under a monitor
   $ {command} --help"
    )
}

/// The folder that was named, or one that can be written.
fn folder(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let make = |path: &Path| std::fs::create_dir_all(path).and_then(|()| path.canonicalize());
    if let Some(path) = named {
        return make(path).map_err(|error| Failure::Write { path: path.to_owned(), error });
    }
    let path =
        PathBuf::from(if Path::new("target").is_dir() { "target/demo" } else { "fastinst-demo" });
    let in_temporary =
        |_| trust::temporary_folder("fastinst-demo").and_then(|path| path.canonicalize());
    make(&path)
        .or_else(in_temporary)
        .map_err(|error| Failure::Write { path: std::env::temp_dir(), error })
}

/// Compiles with the system's C compiler; returns the program and the line that made it.
fn compile(source: &Path, program: &Path) -> Result<(PathBuf, String), String> {
    let compiler = std::env::var("CC")
        .ok()
        .filter(|compiler| !compiler.is_empty())
        .unwrap_or_else(|| "cc".to_owned());
    let mut words = compiler.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("cc"));
    command
        .args(words)
        .args(["-O2", "-g", "-finstrument-functions"])
        .arg(source)
        .arg("-o")
        .arg(program);
    let line = format!(
        "{compiler} -O2 -g -finstrument-functions {} -o {}",
        source.display(),
        program.display()
    );
    let output = command.output().map_err(|error| {
        format!("No C compiler found ({compiler}: {error}). Install gcc or clang to profile programs of your own.")
    })?;
    if output.status.success() {
        return Ok((program.to_owned(), line));
    }
    let first =
        String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned();
    Err(format!("The C compiler has failed ({line}: {first}). Set CC to one that works."))
}

/// The sample, with nothing in its environment that would change what it shows.
fn sample(program: &[OsString]) -> Command {
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).env_remove("LD_PRELOAD");
    for (key, _) in
        std::env::vars_os().filter(|(key, _)| key.to_string_lossy().starts_with("FASTINST_"))
    {
        command.env_remove(key);
    }
    command
}

fn timed(command: &mut Command) -> Result<(Output, Duration), Failure> {
    let start = Instant::now();
    let output = command
        .output()
        .map_err(|error| Failure::Refused(format!("cannot run {command:?}: {error}")))?;
    Ok((output, start.elapsed()))
}
