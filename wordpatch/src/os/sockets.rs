//! Sockets that only their user reaches: in a folder of the user's own, and with the credentials of
//! the process on the other side compared.
//!
//! # Safety
//!
//! This module exists to ask the kernel for credentials.
#![allow(unsafe_code)]

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

/// The folder in which the user's processes have their sockets. It is made if it is not there; one
/// that others may enter, or have made, is refused.
pub fn folder() -> io::Result<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute() && path.is_dir());
    let folder = match runtime {
        Some(runtime) => runtime.join("fastinst"),
        None => PathBuf::from(format!("/tmp/fastinst-{}", user())),
    };
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // No other user may exchange it afterwards, either.
    let folder = super::trust::folder(&folder)?;
    let metadata = fs::symlink_metadata(&folder)?;
    match metadata.is_dir() && metadata.uid() == user() && metadata.mode() & 0o077 == 0 {
        true => Ok(folder),
        false => {
            let why = format!("{}: not a folder that is the user's alone", folder.display());
            Err(io::Error::new(ErrorKind::PermissionDenied, why))
        }
    }
}

fn user() -> u32 {
    // SAFETY: (1) asks for a number.
    unsafe { libc::geteuid() }
}

/// A socket with a name, which is gone when it is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Listens under a name. What an ended process has left under it is removed.
    pub fn bind(name: &str) -> io::Result<Self> {
        let path = folder()?.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(Self { socket, path })
    }

    /// Waits for a process of the same user. Others are turned away.
    pub fn accept(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.socket.accept()?;
            if peer(&stream)? == user() {
                return Ok(stream);
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Connects to a process of the same user that listens under a name.
pub fn connect(name: &str) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(folder()?.join(name))?;
    match peer(&stream)? == user() {
        true => Ok(stream),
        false => Err(io::Error::new(ErrorKind::PermissionDenied, "somebody else listens there")),
    }
}

/// Whose process is on the other side.
fn peer(stream: &UnixStream) -> io::Result<u32> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: (1) both places are valid for as long as the call takes, and large enough.
    let done = unsafe {
        let place = (&raw mut credentials).cast();
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            place,
            &raw mut len,
        )
    };
    if done == 0 { Ok(credentials.uid) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};

    #[test]
    fn processes_of_one_user_reach_each_other_by_name() {
        let name = format!("test-{}.sock", std::process::id());
        let listener = Listener::bind(&name).expect("a socket");
        assert_eq!(fs::metadata(listener.path()).expect("there").mode() & 0o777, 0o600);
        let client = std::thread::spawn({
            let name = name.clone();
            move || {
                connect(&name)
                    .and_then(|mut stream| stream.write_all(b"hello"))
                    .expect("connected");
            }
        });
        let mut text = String::new();
        listener
            .accept()
            .and_then(|mut stream| stream.read_to_string(&mut text))
            .expect("accepted");
        client.join().expect("no panic");
        assert_eq!(text, "hello");
        // A second process of that number takes the place of one that has ended.
        let second = Listener::bind(&name).expect("a socket");
        drop(second);
        assert!(connect(&name).is_err());
    }
}
