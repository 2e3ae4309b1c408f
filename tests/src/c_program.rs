//! C programs that use the built libraries.

use crate::tool;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// How a C program gets `wordpatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linked {
    /// The archive is part of it.
    Statically,
    /// The loader finds the shared library.
    Dynamically,
    /// Not at all: it opens the shared library, whose path is its first argument.
    Later,
}

/// A program that was compiled from `c/NAME.c`.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    library: PathBuf,
}

impl Program {
    /// Compiles it into `directory`; nothing, said aloud, where there is no compiler.
    pub fn compile(name: &str, linked: Linked, directory: &str) -> Option<Self> {
        if !tool::is_there("cc") {
            return None;
        }
        let libraries = built_libraries(&Path::new(directory).join("c-programs"));
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        // Two tests may compile one program at the same time.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let path = Path::new(directory)
            .join(format!("{name}-{linked:?}-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]);
        cc.arg("-I").arg(here.join("../wordpatch/include"));
        cc.arg(here.join("c").join(name).with_extension("c")).arg("-o").arg(&path);
        match linked {
            Linked::Statically => cc.arg(libraries.join("libwordpatch.a")).args(["-ldl", "-lm"]),
            Linked::Dynamically => cc
                .arg("-L")
                .arg(&libraries)
                .arg("-lwordpatch")
                .arg(format!("-Wl,-rpath,{}", libraries.display())),
            Linked::Later => cc.arg("-ldl"),
        };
        succeed(&mut cc);
        Some(Self { path, library: libraries.join("libwordpatch.so") })
    }

    /// Runs it with these variables in its environment and the library's path as its first
    /// argument; what it says on stderr is why it failed.
    pub fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) {
        let mut program = Command::new(&self.path);
        // Cargo lets the loader look in folders of its own first, where another build of the
        // library may lie.
        program.env_remove("LD_LIBRARY_PATH").envs(variables.iter().copied());
        succeed(program.arg(&self.library).args(arguments));
    }
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Builds the libraries and says where they are: in a folder of their own, because built alone they
/// are not the library that the other crates of the workspace were built with.
fn built_libraries(folder: &Path) -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build
        .args(["build", "--quiet", "--locked", "-p", "wordpatch", "--lib", "--target-dir"])
        .arg(folder);
    succeed(build.current_dir(env!("CARGO_MANIFEST_DIR")));
    folder.join("debug")
}
