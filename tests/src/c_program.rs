//! C programs that use the built libraries.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use test_support::{built_alone, compile, is_there, succeed};

/// The way in which a C program is linked with `wordpatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linked {
    /// The archive is linked into it.
    Statically,
    /// The loader finds the shared library.
    Dynamically,
    /// Not linked: it opens the shared library, whose path is its first argument.
    Later,
}

/// A program that was compiled from `c/NAME.c`.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    library: PathBuf,
}

impl Program {
    /// Compiles it into `directory`; without a compiler, `None` and a message.
    pub fn compile(name: &str, linked: Linked, directory: &str) -> Option<Self> {
        if !is_there("cc") {
            return None;
        }
        let libraries = built_alone("wordpatch", &Path::new(directory).join("c-programs"));
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        // Two tests may compile one program at the same time.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let path = Path::new(directory)
            .join(format!("{name}-{linked:?}-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        let folder = libraries.display();
        let flags = match linked {
            Linked::Statically => {
                vec![format!("{folder}/libwordpatch.a"), "-ldl".into(), "-lm".into()]
            }
            Linked::Dynamically => {
                vec![format!("-L{folder}"), "-lwordpatch".into(), format!("-Wl,-rpath,{folder}")]
            }
            Linked::Later => vec!["-ldl".into()],
        };
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let source = here.join("c").join(name).with_extension("c");
        compile(&source, &path, &here.join("../wordpatch/include"), &flags);
        Some(Self { path, library: libraries.join("libwordpatch.so") })
    }

    /// Runs it with these variables in its environment and the library's path as its first
    /// argument; its stderr is the reason for a failure.
    pub fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) {
        let mut program = Command::new(&self.path);
        // Cargo makes the loader search cargo's folders first, which may contain another build of
        // the library.
        program.env_remove("LD_LIBRARY_PATH").envs(variables.iter().copied());
        succeed(program.arg(&self.library).args(arguments));
    }
}
