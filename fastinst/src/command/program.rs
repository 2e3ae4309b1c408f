//! The program that is to be profiled: where it is, and whether it can be.

use super::Failure;
use fastinst::discovery::unmodified::{self, Maker};
use fastinst::discovery::{DiscoveryError, ImageError, Module};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use wordpatch::os::replace::is_same;

/// Finds the program as a shell does.
pub(super) fn find(program: &OsStr) -> Result<PathBuf, Failure> {
    let path = Path::new(program);
    if program.as_encoded_bytes().contains(&b'/') || program.is_empty() || path.is_dir() {
        return can_be_executed(path).map(|()| path.to_owned());
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = std::env::split_paths(&paths).map(|folder| folder.join(path));
    let found = candidates.find(|candidate| can_be_executed(candidate).is_ok());
    found.ok_or_else(|| {
        let here = if path.is_file() {
            format!("; to run the one in this folder, use ./{}", path.display())
        } else {
            String::new()
        };
        Failure::NoProgram(format!("No such program in PATH: {}{here}", path.display()))
    })
}

/// Whether there is a file that the kernel would execute; otherwise why not.
fn can_be_executed(path: &Path) -> Result<(), Failure> {
    let refused = |why: String| Err(Failure::NotExecutable(why));
    let name = path.display();
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Failure::NoProgram(match path.as_os_str().is_empty() {
                true => "the program's name is empty".to_owned(),
                false => format!("No such file: {name}"),
            }))
        }
        Err(error) => refused(format!("{name}: {error}")),
        Ok(data) if data.is_dir() => {
            refused(format!("{name} is a directory: name a program in it"))
        }
        Ok(_) if is_wasm(path) => refused(format!(
            "{name} is a WebAssembly module: run it with wasm-aot run, or its engine with fastinst run"
        )),
        Ok(data) if data.permissions().mode() & 0o111 == 0 => refused(format!(
            "{name} is not executable: chmod +x {name}, or name the interpreter that runs it"
        )),
        Ok(_) => Ok(()),
    }
}

/// Whether a file is a WebAssembly module, binary or text. Where the kernel is told which engine
/// runs modules (binfmt_misc), they are executable, and this is not asked.
fn is_wasm(path: &Path) -> bool {
    let is_executable =
        std::fs::metadata(path).is_ok_and(|data| data.permissions().mode() & 0o111 != 0);
    let mut first = Vec::new();
    let read = File::open(path).and_then(|file| file.take(7).read_to_end(&mut first));
    !is_executable && read.is_ok() && (first.starts_with(b"\0asm") || first == b"(module")
}

/// The most interpreters of interpreters that the kernel follows (execve(2)).
const SCRIPTS: usize = 4;

/// The interpreter that a script names, if it is one: of 256 bytes at most (execve(2)).
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut line = Vec::new();
    File::open(script).ok()?.take(256).read_to_end(&mut line).ok()?;
    let line = line.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
    words.find(|word| !word.is_empty()).map(|word| OsStr::from_bytes(word).into())
}

/// What the kernel executes for it: itself, or the last of its interpreters.
fn executed(program: &Path) -> Result<PathBuf, Failure> {
    let mut file = program.to_owned();
    for _ in 0..SCRIPTS {
        let Some(next) = interpreter(&file) else { break };
        if !next.exists() {
            return Err(Failure::NotExecutable(format!(
                "cannot run {}: there is no interpreter {}, which its first line names",
                file.display(),
                next.display()
            )));
        }
        file = next;
    }
    Ok(file)
}

/// Refuses an output file that is the program: the profile would replace it.
pub(super) fn keep_from_program(program: &OsStr, output: &Path) -> Result<(), Failure> {
    match find(program).is_ok_and(|program| is_same(&program, output)) {
        true => Err(Failure::Usage(format!(
            "-o {}: that is the program, which the profile would replace: name another file",
            output.display()
        ))),
        false => Ok(()),
    }
}

/// Refuses programs that cannot be preloaded; returns a note that would explain an empty profile.
pub(super) fn examine(program: &Path, provider: &str) -> Result<Option<String>, Failure> {
    let program = &executed(program)?;
    let refused = |why: &str| Err(Failure::Refused(format!("{}: {why}", program.display())));
    match Module::of_file(program) {
        Ok(module) if module.is_static => refused(
            "a statically linked program loads no preload library, so it cannot be profiled: link it dynamically",
        ),
        Ok(module) if module.interpreter().is_some_and(|loader| loader.contains("ld-musl")) => {
            refused("it runs on musl, and the library needs glibc 2.34 or later: build it against glibc")
        }
        Ok(_) if is_setuid(program) => refused(
            "a setuid program ignores LD_PRELOAD: run a copy without that bit, or run it as its owner",
        ),
        Ok(module) if provider == "hooks" && !module.has_hooks() => Ok(Some(format!(
            "{} has no probes: compile it with -finstrument-functions, or with fastinst cc, or leave out --provider hooks",
            program.display()
        ))),
        Ok(module) => Ok(missing(&module, provider).map(|maker| {
            format!(
                "{} has no functions prepared for --provider {maker}: compile it with {}, or leave out --provider",
                program.display(),
                maker.option()
            )
        })),
        Err(DiscoveryError::Image { error: ImageError::Machine, .. }) => {
            refused("it is a 32-bit program, or for another machine: only x86-64 is supported")
        }
        // What the kernel has others execute for it: what they start may have probes.
        Err(_) => Ok(None),
    }
}

/// What a provider needs and the program does not have.
fn missing(module: &Module, provider: &str) -> Option<Maker> {
    let maker = Maker::ALL.into_iter().find(|maker| maker.to_string() == provider)?;
    let is_there = unmodified::makers(module).is_ok_and(|makers| makers.contains(&maker));
    (!is_there).then_some(maker)
}

fn is_setuid(program: &Path) -> bool {
    std::fs::metadata(program).is_ok_and(|data| data.mode() & 0o6000 != 0)
}
