//! The program that is to be profiled: where it is, and whether it can be.

use super::Failure;
use fastinst::discovery::Module;
use fastinst::discovery::unmodified::{self, Maker};
use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

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
        Ok(data) if data.permissions().mode() & 0o111 == 0 => refused(format!(
            "{name} is not executable: chmod +x {name}, or name the interpreter that runs it"
        )),
        Ok(_) => Ok(()),
    }
}

/// Refuses what cannot be preloaded; notes what would explain an empty profile.
pub(super) fn examine(program: &Path, provider: &str) -> Result<Option<String>, Failure> {
    let refused = |why: &str| Err(Failure::Refused(format!("{}: {why}", program.display())));
    match Module::of_file(program) {
        Ok(module) if module.is_static => refused(
            "a statically linked program loads no preload library, so it cannot be profiled: link it dynamically",
        ),
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
        // A script, for instance: what it starts may have probes.
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
