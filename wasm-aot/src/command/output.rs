//! Output files: an earlier file stays until its replacement is complete.
//!
//! A program that cannot start must not destroy the trace of yesterday's run, and a full disk must
//! not destroy an earlier module.

use super::Failure;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use wasm_aot::trace::Sink;
pub(super) use wordpatch::os::replace::is_same;
use wordpatch::os::replace::{Replacement, empty, overwrite};

/// A file's name for a process: `%p` in it is the process ID.
pub(super) fn of_process(path: &Path, pid: u32) -> PathBuf {
    match path.to_str() {
        Some(name) => name.replace("%p", &pid.to_string()).into(),
        None => path.to_owned(),
    }
}

/// Writes all of a file, or nothing.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match draft(path)? {
        Output::Draft(draft) => draft.finish(bytes),
        Output::Stream(stream) => overwrite(&stream, bytes),
    }
}

/// The same for an executable file: a process that executes it meanwhile keeps the old one.
pub(super) fn write_executable(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match draft(path)? {
        Output::Draft(draft) => draft.executable()?.finish(bytes),
        Output::Stream(stream) => overwrite(&stream, bytes),
    }
}

/// A file that is written when a program has ended, and known to be writable before it starts.
#[derive(Debug)]
pub(super) enum Later {
    /// A file; until then its old contents stay, and no draft lies beside it.
    File(PathBuf),
    /// Something else: the reader of a pipe waits for one that is open.
    Stream(File),
}

impl Later {
    /// Returns an error if the file cannot be written.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        Ok(match draft(path)? {
            Output::Draft(_) => Self::File(path.to_owned()),
            Output::Stream(stream) => Self::Stream(stream),
        })
    }

    /// Writes all of it, or nothing.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::File(path) => write(path, bytes),
            Self::Stream(stream) => overwrite(stream, bytes),
        }
    }
}

#[derive(Debug)]
enum Output {
    /// Written next to a file that it will replace.
    Draft(Replacement),
    /// Written to: something other than a file, such as /dev/stdout, or a file that cannot be
    /// replaced.
    Stream(File),
}

fn draft(path: &Path) -> io::Result<Output> {
    if path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
        return File::options().write(true).open(path).map(Output::Stream);
    }
    // The target of a link is replaced.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match Replacement::begin(&path) {
        // No draft can be created in a folder of another user.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && path.is_file() => {
            File::options().write(true).open(&path).map(Output::Stream)
        }
        Err(error) => Err(error),
        Ok(mut draft) => {
            // The permissions of an earlier file are kept.
            if let Ok(before) = path.metadata() {
                draft.file().set_permissions(before.permissions())?;
            }
            Ok(Output::Draft(draft))
        }
    }
}

/// The file of a trace that is written incrementally.
#[derive(Debug)]
pub(super) struct TraceFile {
    output: Output,
    path: PathBuf,
    /// Whether the trace replaces an earlier one with its first events: a run may end by SIGKILL.
    grows: bool,
    /// Whether its header is written, which names the program and has no events.
    has_begun: bool,
}

impl TraceFile {
    /// Creates a trace that replaces an earlier one with its first events.
    pub(super) fn growing(path: &Path) -> Result<Self, Failure> {
        Self::create(path, true)
    }

    /// Creates a trace that replaces an earlier one when it is complete.
    pub(super) fn whole(path: &Path) -> Result<Self, Failure> {
        Self::create(path, false)
    }

    fn create(path: &Path, grows: bool) -> Result<Self, Failure> {
        let output = draft(path).map_err(|error| {
            Failure::new(format!("{}: {error}: name a writable file with -o", path.display()))
        })?;
        if let Output::Stream(stream) = &output {
            empty(stream).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        }
        Ok(Self { output, path: path.to_owned(), grows, has_begun: false })
    }

    fn file(&mut self) -> &mut File {
        match &mut self.output {
            Output::Draft(draft) => draft.file(),
            Output::Stream(stream) => stream,
        }
    }

    /// Replaces an earlier trace by this one.
    pub(super) fn place(&mut self) -> Result<(), Failure> {
        self.put_in_place()
            .map_err(|error| Failure::new(format!("{}: {error}", self.path.display())))
    }

    fn put_in_place(&mut self) -> io::Result<()> {
        match &mut self.output {
            Output::Draft(draft) => draft.place(),
            Output::Stream(_) => Ok(()),
        }
    }
}

impl Sink for TraceFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file().append(bytes)?;
        if self.grows && self.has_begun {
            self.put_in_place()?;
        }
        self.has_begun = true;
        Ok(())
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.file().cut(len)
    }
}
