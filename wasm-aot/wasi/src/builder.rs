//! Builds a program's world.

use super::WasiCtx;
use super::beneath::Lookup;
use super::clock::{Clock, ManualClock};
use super::descriptor::{Descriptor, Directory, Entry, File, Input, Output};
use super::interruption::{Interruption, Patience};
use super::positions::Positions;
use super::random::Randomness;
use super::stream::{Sink, Source};
use super::table::Table;
use super::types::Rights;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What a program may do beneath a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Permissions {
    /// List and read.
    ReadOnly,
    /// Everything that the host itself may do there.
    #[default]
    ReadWrite,
}

/// Why a program's world cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A directory for the program cannot be opened.
    #[error("cannot open the directory {host} for the program: {source}; it must exist and be readable", host = host.display())]
    Directory {
        /// Its path on the host.
        host: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A string that must end with a zero byte contains one.
    #[error("{what} holds a zero byte, which cannot be passed to a program; leave it out")]
    Zero {
        /// Which string.
        what: String,
    },
    /// A standard stream cannot be passed on.
    #[error("cannot pass {stream} on to the program: {source}")]
    Stream {
        /// Which stream.
        stream: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// Builds a program's world.
///
/// ```
/// use wasm_aot_wasi::{Buffer, Sink, WasiCtx};
///
/// let output = Buffer::default();
/// let ctx = WasiCtx::builder().arg("greet").env("LANG", "C").stdout(Sink::Buffer(output.clone())).build()?;
/// assert!(!ctx.interrupted());
/// assert_eq!(output.contents(), b"");
/// # Ok::<(), wasm_aot_wasi::BuildError>(())
/// ```
#[derive(Debug, Default)]
pub struct WasiCtxBuilder {
    arguments: Vec<Vec<u8>>,
    environment: Vec<(Vec<u8>, Vec<u8>)>,
    stdin: Source,
    stdout: Sink,
    stderr: Sink,
    directories: Vec<(PathBuf, String, Permissions)>,
    clock: Clock,
    randomness: Randomness,
    interruption: Option<Interruption>,
    descriptors: Option<u32>,
    lookup: Option<Lookup>,
}

impl WasiCtxBuilder {
    /// Adds an argument; the first is the program's name.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().as_bytes().to_vec());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = A>) -> Self {
        arguments.into_iter().fold(self, Self::arg)
    }

    /// Sets a variable of the environment, replacing one of the same name.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        let (name, value) = (name.as_ref().as_bytes().to_vec(), value.as_ref().as_bytes().to_vec());
        match self.environment.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.environment.push((name, value)),
        }
        self
    }

    /// Passes on the host's environment.
    #[must_use]
    pub fn inherit_env(self) -> Self {
        std::env::vars_os().fold(self, |builder, (name, value)| builder.env(name, value))
    }

    /// Sets the source of standard input.
    #[must_use]
    pub fn stdin(mut self, source: Source) -> Self {
        self.stdin = source;
        self
    }

    /// Sets the destination of standard output.
    #[must_use]
    pub fn stdout(mut self, sink: Sink) -> Self {
        self.stdout = sink;
        self
    }

    /// Sets the destination of standard error.
    #[must_use]
    pub fn stderr(mut self, sink: Sink) -> Self {
        self.stderr = sink;
        self
    }

    /// Passes on the host's three standard streams.
    #[must_use]
    pub fn inherit_stdio(self) -> Self {
        self.stdin(Source::Inherit).stdout(Sink::Inherit).stderr(Sink::Inherit)
    }

    /// Gives the program the directory `host`, under the name `guest`.
    #[must_use]
    pub fn preopened_dir(
        mut self,
        host: impl AsRef<Path>,
        guest: impl Into<String>,
        permissions: Permissions,
    ) -> Self {
        self.directories.push((host.as_ref().to_owned(), guest.into(), permissions));
        self
    }

    /// Uses a clock that can be set. By default, time is the machine's.
    #[must_use]
    pub fn clock(mut self, clock: ManualClock) -> Self {
        self.clock = Clock::Manual(clock);
        self
    }

    /// Sets the source of random bytes. By default, they are the kernel's.
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = randomness;
        self
    }

    /// Sets the interruption that stops the program where it waits inside a call.
    #[must_use]
    pub fn interruption(mut self, interruption: Interruption) -> Self {
        self.interruption = Some(interruption);
        self
    }

    /// How many descriptors the program may have open at a time, beyond its streams and
    /// directories. By default, the limit is that of the host's process, which may then have no
    /// descriptors left for itself.
    #[must_use]
    pub fn max_descriptors(mut self, limit: u32) -> Self {
        self.descriptors = Some(limit);
        self
    }

    /// Looks names up in one of the two ways, whatever the kernel supports.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn lookup(mut self, lookup: Lookup) -> Self {
        self.lookup = Some(lookup);
        self
    }

    /// Builds the world.
    ///
    /// # Errors
    ///
    /// A directory cannot be opened, a string cannot be passed, or a stream cannot be shared.
    pub fn build(self) -> Result<WasiCtx, BuildError> {
        let given = 3 + self.directories.len() as u32;
        let mut table =
            Table::with_limit(self.descriptors.map(|limit| limit.saturating_add(given)));
        let mut open =
            |entry| table.insert(entry).expect("the first numbers of an empty table are free");
        open(input(self.stdin)?);
        open(output(self.stdout, "standard output", io::stdout().as_fd())?);
        open(output(self.stderr, "standard error", io::stderr().as_fd())?);
        let mut lookup = self.lookup;
        for (host, guest, permissions) in self.directories {
            let directory = directory(&host, guest, permissions)?;
            lookup.get_or_insert_with(|| Lookup::available(directory.as_fd()));
            open(Entry::new(
                Descriptor::Directory(directory),
                Rights::DIRECTORY,
                Rights::DIRECTORY.or(Rights::FILE),
            ));
        }
        Ok(WasiCtx {
            arguments: self
                .arguments
                .into_iter()
                .enumerate()
                .map(|(at, string)| argument(at, string))
                .collect::<Result<_, _>>()?,
            environment: self.environment.into_iter().map(variable).collect::<Result<_, _>>()?,
            table,
            // Without directories there is nothing to look up.
            lookup: lookup.unwrap_or(Lookup::Walk),
            clock: self.clock,
            randomness: self.randomness,
            patience: Patience::new(self.interruption),
        })
    }
}

fn argument(at: usize, string: Vec<u8>) -> Result<Vec<u8>, BuildError> {
    if string.contains(&0) {
        Err(BuildError::Zero { what: format!("argument {at}") })
    } else {
        Ok(string)
    }
}

fn variable((name, value): (Vec<u8>, Vec<u8>)) -> Result<Vec<u8>, BuildError> {
    let joined = [name.as_slice(), b"=", &value].concat();
    if joined.contains(&0) {
        return Err(BuildError::Zero { what: format!("the variable {}", name.escape_ascii()) });
    }
    Ok(joined)
}

fn directory(
    host: &Path,
    guest: String,
    permissions: Permissions,
) -> Result<Directory, BuildError> {
    if guest.contains('\0') {
        return Err(BuildError::Zero {
            what: format!("the name of the directory {}", host.display()),
        });
    }
    let fd = rustix::fs::openat(
        CWD,
        host,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|errno| BuildError::Directory { host: host.to_owned(), source: errno.into() })?;
    Ok(Directory {
        fd,
        preopened: Some(guest),
        writable: permissions == Permissions::ReadWrite,
        positions: Positions::default(),
    })
}

fn input(source: Source) -> Result<Entry, BuildError> {
    let bytes = |bytes| {
        let rights = Rights::FD_READ.or(Rights::POLL_FD_READWRITE).or(Rights::FD_FILESTAT_GET);
        Entry::new(Descriptor::Input(Input::new(bytes)), rights, rights)
    };
    match source {
        Source::Empty => Ok(bytes(Vec::new())),
        Source::Bytes(given) => Ok(bytes(given)),
        Source::Descriptor(fd) => lent(fd, "standard input", Rights::FD_READ),
        Source::Inherit => match duplicate(io::stdin().as_fd(), "standard input")? {
            Some(fd) => lent(fd, "standard input", Rights::FD_READ),
            None => Ok(bytes(Vec::new())),
        },
    }
}

fn output(sink: Sink, stream: &'static str, own: BorrowedFd<'_>) -> Result<Entry, BuildError> {
    let kept = |output| {
        let rights = Rights::FD_WRITE.or(Rights::POLL_FD_READWRITE).or(Rights::FD_FILESTAT_GET);
        Entry::new(Descriptor::Output(output), rights, rights)
    };
    match sink {
        Sink::Discard => Ok(kept(Output::Discard)),
        Sink::Buffer(buffer) => Ok(kept(Output::Buffer(buffer))),
        Sink::Descriptor(fd) => lent(fd, stream, Rights::FD_WRITE),
        Sink::Inherit => match duplicate(own, stream)? {
            Some(fd) => lent(fd, stream, Rights::FD_WRITE),
            None => Ok(kept(Output::Discard)),
        },
    }
}

/// Duplicates a stream of the host for the guest, so that closing one leaves the other open. If the
/// host's stream is closed, there is none to pass on; the number must be used all the same, or the
/// program's first file would become its output.
fn duplicate(own: BorrowedFd<'_>, stream: &'static str) -> Result<Option<OwnedFd>, BuildError> {
    match rustix::io::fcntl_dupfd_cloexec(own, 3) {
        Ok(fd) => Ok(Some(fd)),
        Err(rustix::io::Errno::BADF) => Ok(None),
        Err(errno) => Err(BuildError::Stream { stream, source: errno.into() }),
    }
}

fn lent(fd: OwnedFd, stream: &'static str, direction: Rights) -> Result<Entry, BuildError> {
    let unfit = |errno: super::errno::Errno| BuildError::Stream {
        stream,
        source: io::Error::other(errno.to_string()),
    };
    let file = File::lent(fd).map_err(unfit)?;
    let rights = file.lent_rights(direction);
    Ok(Entry::new(Descriptor::File(file), rights, rights))
}

#[cfg(test)]
mod tests {
    use super::super::scratch::World;
    use super::*;

    #[test]
    fn a_missing_directory_is_named() {
        let error = WasiCtx::builder()
            .preopened_dir("/nowhere/at/all", "/", Permissions::ReadWrite)
            .build()
            .unwrap_err();
        assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    }

    #[test]
    fn zeros_within_strings_are_refused() {
        let error = WasiCtx::builder().arg("a").arg("b\0c").build().unwrap_err();
        assert!(error.to_string().starts_with("argument 1 "), "{error}");
        let error = WasiCtx::builder().env("NAME", "\0").build().unwrap_err();
        assert!(error.to_string().contains("NAME"), "{error}");
        let error =
            WasiCtx::builder().preopened_dir("/", "\0", Permissions::ReadOnly).build().unwrap_err();
        assert!(matches!(error, BuildError::Zero { .. }), "{error}");
    }

    #[test]
    fn the_last_value_of_a_variable_holds() {
        let mut world = World::with(|builder| builder.env("A", "1").env("B", "2").env("A", "3"));
        world.call("environ_sizes_get", &[0, 4]).unwrap();
        assert_eq!((world.u32(0), world.u32(4)), (2, 8));
        world.call("environ_get", &[0, 100]).unwrap();
        assert_eq!(world.bytes(100, 8), b"A=3\0B=2\0");
    }

    #[test]
    fn the_hosts_environment_is_passed_on() {
        let mut world = World::with(WasiCtxBuilder::inherit_env);
        world.call("environ_sizes_get", &[0, 4]).unwrap();
        assert_eq!(world.u32(0) as usize, std::env::vars_os().count());
    }

    #[test]
    fn a_world_can_be_moved_to_another_thread() {
        fn is_send<T: Send>(_: &T) {}
        is_send(&World::new().ctx);
    }
}
