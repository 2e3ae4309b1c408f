//! How a run ends: exit codes, core dumps, and the program's own profile.

use crate::command::Failure;
use crate::command::modules::World;
use std::path::Path;
use wasm_aot::observer::Observation;
use wasm_aot::{Error, Func, Store, Trap, UnknownImport};

/// Writes the state of a program after a trap, if that is requested. A dump that cannot be written
/// does not change how the program ended.
pub(crate) fn dump(store: &mut Store<World>, error: &Error, file: Option<&Path>, program: &Path) {
    let is_trap = match error {
        Error::Trap(_) | Error::Probe(_) => true,
        Error::Host(failure) => failure.is::<UnknownImport>(),
        _ => false,
    };
    let Some(file) = file.filter(|_| is_trap) else { return };
    let Some(dump) = store.core_dump(&program.display().to_string()) else { return };
    if let Err(error) = crate::command::output::write(file, &dump) {
        crate::command::complain(unwritten(file, &error));
    }
}

/// The export of a program with its own profile, which is called after a trap.
pub(super) const END: &str = "fastinst:end";

/// Makes a program with its own profile report it, if a trap has ended the program.
pub(super) fn end_profile(store: &mut Store<World>, end: Option<Func>, error: &Error) {
    let is_trap = matches!(error, Error::Trap(_)) && error.trap() != Some(Trap::Interrupted);
    if let Some(end) = end.filter(|_| is_trap)
        && let Err(error) = end.call(&mut *store, &[])
    {
        crate::command::complain(format!("the program's own profile is not written: {error}"));
    }
}

/// Why a dump is not written, and how to fix it.
fn unwritten(file: &Path, error: &std::io::Error) -> String {
    use std::io::ErrorKind as Kind;
    let help = match error.kind() {
        Kind::NotFound | Kind::NotADirectory => "name a file in a folder that exists",
        Kind::PermissionDenied | Kind::ReadOnlyFilesystem => "name a writable file",
        Kind::IsADirectory => "name a file in it",
        Kind::StorageFull | Kind::QuotaExceeded => "name a file on a disk with free space",
        _ => "name another file",
    };
    format!("--dump {}: {error}: {help}", file.display())
}

/// Refuses a dump that could not be written, before the program runs. An existing file is not
/// changed.
pub(super) fn is_writable(file: &Path) -> Result<(), Failure> {
    // Opening a pipe would wait for its reader.
    if file.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        return Ok(());
    }
    let was_there = file.exists();
    let opened = std::fs::OpenOptions::new().append(true).create(true).open(file);
    opened.map_err(|error| Failure::usage(unwritten(file, &error)))?;
    if !was_there {
        let _ = std::fs::remove_file(file);
    }
    Ok(())
}

/// Converts the program's end to the command's.
pub(crate) fn ended(path: &Path, error: &Error) -> Result<(), Failure> {
    let path = path.display();
    match error {
        Error::Exit(0) => Ok(()),
        Error::Exit(code) => Err(Failure::silent(low_byte(*code))),
        error if error.trap() == Some(Trap::Interrupted) => {
            match crate::command::signal::received() {
                Some(signal) => Err(Failure::with_code(format!("{path}: {error}"), 128 + signal)),
                None => Err(Failure::with_code(format!("{path}: its time is over: {error}"), 134)),
            }
        }
        Error::Trap(report) if report.trap == Trap::StackOverflow => {
            let (trap, backtrace) = (report.trap, &report.backtrace);
            let why = format!("{path}: wasm trap: {trap} (--max-stack allows more){backtrace}");
            Err(Failure::with_code(why, 134))
        }
        Error::Trap(report) => Err(Failure::with_code(format!("{path}: {report}"), 134)),
        Error::Exception(report) => {
            Err(Failure::with_code(format!("{path}: uncaught exception{report}"), 134))
        }
        other => Err(Failure::new(format!("{path}: {other}"))),
    }
}

/// The code that a parent is told when a program exits with an error: its lowest eight bits, as
/// Linux has it for native programs, except that it is never that of success.
fn low_byte(code: i32) -> u8 {
    (code as u8).max(1)
}

/// The same if monitors may have ended the program.
pub(super) fn ended_observed(
    path: &Path,
    error: &Error,
    observed: &Observation,
    store: &Store<World>,
) -> Result<(), Failure> {
    match (observed.blame(error), error) {
        (Some(blame), error) if error.trap() == Some(Trap::Interrupted) => {
            crate::command::complain(blame);
            ended(path, error)
        }
        (Some(blame), _) => {
            Err(Failure::with_code(format!("{blame}; the program was stopped"), 134))
        }
        (None, Error::Host(failure)) => {
            let code = if failure.is::<UnknownImport>() { 134 } else { 1 };
            let why = format!("{}: {error}{}", path.display(), store.host_failure());
            Err(Failure::with_code(why, code))
        }
        (None, error) => ended(path, error),
    }
}
