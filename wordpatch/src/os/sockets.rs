//! Sockets that only their user can reach: they are in a private folder of the user, and the
//! listener checks the credentials of the peer process.
//!
//! A preloaded library listens, too. So a listener and its streams make direct system calls only,
//! which the program cannot interpose, and no function waits unless its documentation says so.
//!
//! # Safety
//!
//! This module exists to make sockets, and to read credentials from the kernel.
#![allow(unsafe_code)]

use super::descriptors::Own;
use super::trust::{self, user};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::time::Duration;

/// The folder for the sockets of this user's processes, whether or not it exists.
pub fn name_of_folder() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute() && path.is_dir());
    folder_in(runtime.as_deref(), user())
}

/// The same for another process, from its user's runtime folder, if that is known.
pub fn folder_in(runtime: Option<&Path>, user: u32) -> PathBuf {
    match runtime {
        Some(runtime) => runtime.join("fastinst"),
        None => PathBuf::from(format!("/tmp/fastinst-{user}")),
    }
}

/// The folder for the sockets of the user's processes, which is created if needed. A folder that
/// other users may enter, or that belongs to another user, is refused.
pub fn folder() -> io::Result<PathBuf> {
    vetted(&name_of_folder())
}

fn vetted(folder: &Path) -> io::Result<PathBuf> {
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            return Err(io::Error::new(error.kind(), format!("{}: {error}", folder.display())));
        }
        _ => {}
    }
    // No other user may be able to replace it afterwards, either.
    let folder = trust::folder(folder)?;
    let metadata = fs::symlink_metadata(&folder)?;
    match metadata.is_dir() && metadata.uid() == user() && metadata.mode() & 0o077 == 0 {
        true => Ok(folder),
        false => {
            let why = format!("{}: not a folder that is the user's alone", folder.display());
            Err(io::Error::new(ErrorKind::PermissionDenied, why))
        }
    }
}

/// A socket with a name, which is removed when this is closed or dropped.
#[derive(Debug)]
pub struct Listener {
    socket: Own,
    path: PathBuf,
    /// Another listener may have the name by then.
    is_closed: AtomicBool,
    /// The user of the process at that time; the process may have changed its user since.
    user: u32,
}

/// The length of the queue of connections.
const WAITING: usize = 8;

impl Listener {
    /// Listens under a name in the user's folder. The socket of an ended process with this name is
    /// removed.
    pub fn bind(name: &str) -> io::Result<Self> {
        Self::bind_in(&name_of_folder(), name)
    }

    /// The same in a given folder.
    pub fn bind_in(folder: &Path, name: &str) -> io::Result<Self> {
        Self::bind_while(folder, name, |_| ())
    }

    /// The same, with a hook for tests between any two calls, which gets the current descriptor:
    /// another thread of the program may close it then.
    fn bind_while(folder: &Path, name: &str, mut meanwhile: impl FnMut(i32)) -> io::Result<Self> {
        let path = vetted(folder)?.join(name);
        let address = address(&path)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        let low = call(libc::SYS_socket, [libc::AF_UNIX as usize, kind as usize, 0, 0])? as i32;
        meanwhile(low);
        let socket = own(low)?;
        meanwhile(socket.parts().0);
        // The file gets the socket's mode, so it never has another mode.
        call(libc::SYS_fchmod, [number(&socket)?, 0o600, 0, 0])?;
        meanwhile(socket.parts().0);
        let at = (&raw const address).expose_provenance();
        call(libc::SYS_bind, [number(&socket)?, at, size_of_val(&address), 0])?;
        let listener = Self { socket, path, is_closed: AtomicBool::new(false), user: user() };
        meanwhile(listener.socket.parts().0);
        call(libc::SYS_listen, [number(&listener.socket)?, WAITING, 0, 0])?;
        Ok(listener)
    }

    /// Waits for a connection from a process of the same user, for callers that own their process.
    /// Other users are refused.
    pub fn accept(&self) -> io::Result<UnixStream> {
        loop {
            let fd = number(&self.socket)?;
            let flags = libc::SOCK_CLOEXEC as usize;
            let stream = match call(libc::SYS_accept4, [fd, 0, 0, flags]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            };
            // SAFETY: (1) made by the call above, and no other code has it.
            let stream = unsafe { UnixStream::from_raw_fd(stream as i32) };
            if self.admits(&peer(&stream)?) {
                return Ok(stream);
            }
        }
    }

    /// A waiting connection from a process of the same user, if there is one. Other users are
    /// refused.
    pub fn accept_now(&self) -> io::Result<Option<Visitor>> {
        let fd = number(&self.socket)?;
        let mut waiting = libc::pollfd { fd: fd as i32, events: libc::POLLIN, revents: 0 };
        let arguments = [(&raw mut waiting).expose_provenance(), 1, 0, 0];
        if call(libc::SYS_poll, arguments)? == 0 {
            return Ok(None);
        }
        let flags = (libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as usize;
        // No other thread accepts, so the connection that was found is still there.
        let low = call(libc::SYS_accept4, [number(&self.socket)?, 0, 0, flags])?;
        let stream = own(low as i32)?;
        let is_admitted = self.admits(&peer_of(number(&stream)?)?);
        Ok(is_admitted.then_some(Visitor(stream)))
    }

    /// The super-user is admitted like the user.
    fn admits(&self, peer: &Peer) -> bool {
        [self.user, user(), 0].contains(&peer.user)
    }

    /// Ends the wait of threads that accept connections: they get an error, now and later. The
    /// socket is closed for forked processes, too.
    pub fn close(&self) {
        if !self.is_closed.swap(true, AcqRel) {
            let _ = fs::remove_file(&self.path);
            // The program may have closed the descriptor: then no thread waits.
            if let Ok(fd) = number(&self.socket) {
                let _ = call(libc::SYS_shutdown, [fd, libc::SHUT_RDWR as usize, 0, 0]);
            }
        }
    }

    /// Its descriptor.
    pub fn descriptor(&self) -> &Own {
        &self.socket
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if !self.is_closed.load(Acquire) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Connects to a process of the same user that listens under a name.
pub fn connect(name: &str) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(folder()?.join(name))?;
    match peer(&stream)?.user == user() {
        true => Ok(stream),
        false => {
            let why = "a process of another user listens there";
            Err(io::Error::new(ErrorKind::PermissionDenied, why))
        }
    }
}

/// Connects to a socket. Waits for a free entry in its queue, for `patience` at most.
pub fn connect_within(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let address = address(path)?;
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    let socket = call(libc::SYS_socket, [libc::AF_UNIX as usize, kind as usize, 0, 0])?;
    // SAFETY: (1) made by the call above, and no other code has it.
    let stream = unsafe { UnixStream::from_raw_fd(socket as i32) };
    stream.set_write_timeout(Some(patience))?;
    let at = (&raw const address).expose_provenance();
    call(libc::SYS_connect, [socket, at, size_of_val(&address), 0])?;
    Ok(stream)
}

/// A connected process, for a thread that must not wait for it.
#[derive(Debug)]
pub struct Visitor(Own);

impl Visitor {
    /// Receives bytes: 0 at the end, `WouldBlock` if there are none yet.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let arguments =
            [number(&self.0)?, buffer.as_mut_ptr().expose_provenance(), buffer.len(), 0];
        call(libc::SYS_read, arguments)
    }

    /// Ends the stream: the other side sees the end, even if another process has a copy of the
    /// descriptor.
    pub fn end(&self) {
        if let Ok(number) = number(&self.0) {
            let _ = call(libc::SYS_shutdown, [number, libc::SHUT_RDWR as usize, 0, 0]);
        }
    }

    /// Sends as much as fits into the socket's buffer. Raises no signal if the other side has
    /// closed.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = (libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) as usize;
        let arguments = [number(&self.0)?, bytes.as_ptr().expose_provenance(), bytes.len(), flags];
        call(libc::SYS_sendto, arguments)
    }
}

/// Takes a descriptor that a call has just returned.
fn own(low: i32) -> io::Result<Own> {
    Own::take_socket(low).map_err(|error| io::Error::from_raw_os_error(error.errno))
}

/// The number of a descriptor, if it still refers to the file that was opened.
fn number(own: &Own) -> io::Result<usize> {
    let closed = || io::Error::new(ErrorKind::NotConnected, "the program has closed it");
    own.number().map(|number| number as usize).ok_or_else(closed)
}

/// A system call of four arguments, or five of which the last is zero.
fn call(number: libc::c_long, arguments: [usize; 4]) -> io::Result<usize> {
    let [a, b, c, d] = arguments;
    // SAFETY: (1) callers pass buffers that live across the call, and their lengths.
    let answer = unsafe { libc::syscall(number, a, b, c, d, 0, 0) };
    usize::try_from(answer).map_err(|_| io::Error::last_os_error())
}

/// A path as a socket address.
fn address(path: &Path) -> io::Result<libc::sockaddr_un> {
    // SAFETY: (1) numbers, for which zero is valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() >= address.sun_path.len() {
        let why = format!("{}: too long for a socket's name", path.display());
        return Err(io::Error::new(ErrorKind::InvalidInput, why));
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(address)
}

/// The peer process; for a listener, the one that called listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its process ID; 0 if it is not visible in this PID namespace.
    pub process: i32,
    /// Its user.
    pub user: u32,
}

/// The process on the other side of a stream.
pub fn peer(stream: &impl AsRawFd) -> io::Result<Peer> {
    peer_of(stream.as_raw_fd() as usize)
}

fn peer_of(stream: usize) -> io::Result<Peer> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: (1) both buffers live across the call, and are large enough.
    let done = unsafe {
        libc::syscall(
            libc::SYS_getsockopt,
            stream,
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            &raw mut credentials,
            &raw mut len,
        )
    };
    match done {
        0 => Ok(Peer { process: credentials.pid, user: credentials.uid }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    fn connect(listener: &Listener) -> UnixStream {
        UnixStream::connect(listener.path()).expect("a listener")
    }

    #[test]
    fn processes_of_one_user_reach_each_other_by_name() {
        let name = format!("test-{}.sock", std::process::id());
        let listener = Listener::bind(&name).expect("a socket");
        assert_eq!(fs::metadata(listener.path()).expect("there").mode() & 0o777, 0o600);
        assert_eq!(listener.path(), name_of_folder().join(&name));
        let mut client = connect(&listener);
        let own = Peer { process: std::process::id() as i32, user: user() };
        assert_eq!(peer(&client).expect("credentials"), own);
        client.write_all(b"hello").expect("written");
        drop(client);
        let mut text = String::new();
        listener
            .accept()
            .and_then(|mut stream| stream.read_to_string(&mut text))
            .expect("accepted");
        assert_eq!(text, "hello");
        // A second process with that name replaces one that has ended.
        let second = Listener::bind(&name).expect("a socket");
        let path = second.path().to_owned();
        drop(second);
        assert!(UnixStream::connect(path).is_err());
    }

    #[test]
    fn a_listener_that_is_closed_ends_its_wait_and_keeps_no_name() {
        let name = format!("test-closed-{}.sock", std::process::id());
        let first = std::sync::Arc::new(Listener::bind(&name).unwrap());
        let waiting = std::sync::Arc::clone(&first);
        let thread = std::thread::spawn(move || waiting.accept().map(drop));
        first.close();
        assert!(thread.join().unwrap().is_err());
        let second = Listener::bind(&name).unwrap();
        drop(first);
        connect(&second);
    }

    #[test]
    fn a_thread_that_waits_for_none_takes_what_is_there() {
        let listener = Listener::bind(&format!("test-now-{}.sock", std::process::id())).unwrap();
        assert!(listener.accept_now().unwrap().is_none());
        let mut client = connect(&listener);
        let visitor = listener.accept_now().unwrap().expect("a client");
        let mut buffer = [0; 16];
        let nothing = visitor.receive(&mut buffer).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        client.write_all(b"asked\n").unwrap();
        assert_eq!(visitor.receive(&mut buffer).unwrap(), 6);
        // The agent does not wait for a peer that does not read.
        let mut sent = 0;
        let full = loop {
            match visitor.send(&[1; 4096]) {
                Ok(len) => sent += len,
                Err(error) => break error,
            }
        };
        assert!(full.kind() == ErrorKind::WouldBlock && sent > 0);
        drop(client);
        assert_eq!(visitor.send(b"more").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    /// A program that closes all descriptors may do so between any two calls, and may reuse their
    /// numbers for files of its own.
    #[test]
    fn a_descriptor_that_the_program_closes_meanwhile_is_none_of_ours() {
        let folder = trust::temporary_folder("wordpatch-closed").unwrap();
        let file = fs::File::open("/dev/null").unwrap();
        for at in 0.. {
            let (mut calls, mut taken) = (0, None);
            let bound = Listener::bind_while(&folder, "a.sock", |number| {
                if calls == at {
                    // SAFETY: (1) the file is duplicated over the socket's number.
                    assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), number) }, number);
                    taken = Some(number);
                }
                calls += 1;
            });
            let Some(number) = taken else { break };
            assert!(bound.is_err(), "call {at}");
            // SAFETY: (1) the copy made above.
            let copy = unsafe { fs::File::from_raw_fd(number) };
            assert!(copy.metadata().is_ok(), "call {at}: the program's file is open");
        }
        let listener = Listener::bind_in(&folder, "a.sock").unwrap();
        let client = connect(&listener);
        let visitor = listener.accept_now().unwrap().unwrap();
        for own in [&visitor.0, &listener.socket] {
            // SAFETY: (1) as a program that closes an unknown descriptor.
            unsafe { libc::close(own.parts().0) };
        }
        assert!(visitor.send(b"answer").is_err() && visitor.receive(&mut [0]).is_err());
        assert!(listener.accept_now().is_err());
        drop((visitor, listener, client));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_folder_that_others_may_enter_is_refused() {
        let above = trust::temporary_folder("wordpatch-sockets").unwrap();
        let folder = above.join("fastinst");
        fs::DirBuilder::new().mode(0o755).create(&folder).unwrap();
        let error = Listener::bind_in(&folder, "a.sock").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        let long = Listener::bind_in(&above, &"a".repeat(200)).unwrap_err();
        assert_eq!(long.kind(), ErrorKind::InvalidInput);
        fs::remove_dir_all(above).unwrap();
    }
}
