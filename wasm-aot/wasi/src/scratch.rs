//! A guest for tests: a memory, a world, and a directory that is removed with it.

use super::beneath::Lookup;
use super::errno::Errno;
use super::guest::Guest;
use super::outcome::Outcome;
use super::{Permissions, WasiCtx, WasiCtxBuilder, functions};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The descriptor of the preopened directory, in worlds that have one.
pub(crate) const ROOT: u64 = 3;

/// Addresses of the data that tests pass to calls: paths, a second path, buffers, results.
pub(crate) const NAME: u64 = 0x100;
pub(crate) const OTHER: u64 = 0x1200;
pub(crate) const LIST: u64 = 0x3000;
pub(crate) const BUFFER: u64 = 0x4000;
pub(crate) const RESULT: u64 = 0x8;

pub(crate) const FOLLOW: u64 = 1;
pub(crate) const CREAT: u64 = 1;
pub(crate) const DIRECTORY: u64 = 2;
pub(crate) const EXCL: u64 = 4;
pub(crate) const TRUNC: u64 = 8;
pub(crate) const READ: u64 = 1 << 1;
pub(crate) const WRITE: u64 = 1 << 6;

/// A directory of the host for one test.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "wasm-aot-wasi-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(path.join("granted")).unwrap();
        Self(path)
    }

    /// The guest's directory.
    pub(crate) fn root(&self) -> PathBuf {
        self.0.join("granted")
    }

    /// The directory around it.
    pub(crate) fn outside(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A guest: its world, its memory, and its directory on the host.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) ctx: WasiCtx,
    memory: Vec<u8>,
    pub(crate) scratch: Option<Scratch>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|builder| builder)
    }

    pub(crate) fn with(furnish: impl FnOnce(WasiCtxBuilder) -> WasiCtxBuilder) -> Self {
        let ctx = furnish(WasiCtx::builder()).build().unwrap();
        Self { ctx, memory: vec![0; 65536], scratch: None }
    }

    /// Creates a guest with a preopened directory `/`.
    pub(crate) fn rooted(lookup: Lookup) -> Self {
        Self::rooted_with(lookup, Permissions::ReadWrite, |builder| builder)
    }

    pub(crate) fn rooted_with(
        lookup: Lookup,
        permissions: Permissions,
        furnish: impl FnOnce(WasiCtxBuilder) -> WasiCtxBuilder,
    ) -> Self {
        let scratch = Scratch::new();
        let root = scratch.root();
        let world = Self::with(|builder| {
            furnish(builder.lookup(lookup).preopened_dir(root, "/", permissions))
        });
        Self { scratch: Some(scratch), ..world }
    }

    /// The directory on the host.
    pub(crate) fn root(&self) -> PathBuf {
        self.scratch.as_ref().unwrap().root()
    }

    pub(crate) fn outcome(&mut self, name: &str, arguments: &[u64]) -> Outcome {
        let function = functions().iter().find(|function| function.name == name).unwrap();
        (function.call)(&mut self.ctx, &Guest::exclusive(&mut self.memory), arguments)
    }

    /// Performs a call that returns.
    pub(crate) fn call(&mut self, name: &str, arguments: &[u64]) -> Result<(), Errno> {
        match self.outcome(name, arguments) {
            Outcome::Errno(Errno::SUCCESS) => Ok(()),
            Outcome::Errno(errno) => Err(errno),
            other => panic!("{name} does not return: {other:?}"),
        }
    }

    pub(crate) fn put(&mut self, address: u64, bytes: &[u8]) {
        self.memory[address as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn bytes(&self, address: u64, len: usize) -> &[u8] {
        &self.memory[address as usize..][..len]
    }

    pub(crate) fn u32(&self, address: u64) -> u32 {
        u32::from_le_bytes(self.bytes(address, 4).try_into().unwrap())
    }

    pub(crate) fn u64(&self, address: u64) -> u64 {
        u64::from_le_bytes(self.bytes(address, 8).try_into().unwrap())
    }

    pub(crate) fn size(&self) -> u64 {
        self.memory.len() as u64
    }

    /// Opens beneath the root, to read and write, without following the last name.
    pub(crate) fn open(&mut self, path: &str, oflags: u64) -> Result<u64, Errno> {
        self.open_as(ROOT, 0, path, oflags, READ | WRITE, 0)
    }

    pub(crate) fn open_as(
        &mut self,
        fd: u64,
        lookup: u64,
        path: &str,
        oflags: u64,
        base: u64,
        flags: u64,
    ) -> Result<u64, Errno> {
        self.put(NAME, path.as_bytes());
        self.call(
            "path_open",
            &[fd, lookup, NAME, path.len() as u64, oflags, base, base, flags, RESULT],
        )?;
        Ok(self.u32(RESULT).into())
    }

    /// Performs a call that takes a descriptor and a path.
    pub(crate) fn on_path(&mut self, name: &str, path: &str) -> Result<(), Errno> {
        self.put(NAME, path.as_bytes());
        self.call(name, &[ROOT, NAME, path.len() as u64])
    }

    pub(crate) fn symlink(&mut self, target: &str, path: &str) -> Result<(), Errno> {
        self.put(OTHER, target.as_bytes());
        self.put(NAME, path.as_bytes());
        self.call("path_symlink", &[OTHER, target.len() as u64, ROOT, NAME, path.len() as u64])
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str) -> Result<(), Errno> {
        self.put(OTHER, from.as_bytes());
        self.put(NAME, to.as_bytes());
        self.call("path_rename", &[ROOT, OTHER, from.len() as u64, ROOT, NAME, to.len() as u64])
    }

    pub(crate) fn link(&mut self, from: &str, to: &str, lookup: u64) -> Result<(), Errno> {
        self.put(OTHER, from.as_bytes());
        self.put(NAME, to.as_bytes());
        self.call(
            "path_link",
            &[ROOT, lookup, OTHER, from.len() as u64, ROOT, NAME, to.len() as u64],
        )
    }

    pub(crate) fn readlink(&mut self, path: &str) -> Result<Vec<u8>, Errno> {
        self.put(NAME, path.as_bytes());
        self.call("path_readlink", &[ROOT, NAME, path.len() as u64, BUFFER, 4096, RESULT])?;
        Ok(self.bytes(BUFFER, self.u32(RESULT) as usize).to_vec())
    }

    /// Returns the attributes of a path.
    pub(crate) fn stat(&mut self, path: &str, lookup: u64) -> Result<Stat, Errno> {
        self.put(NAME, path.as_bytes());
        self.call("path_filestat_get", &[ROOT, lookup, NAME, path.len() as u64, RESULT])?;
        Ok(self.stat_read())
    }

    pub(crate) fn fstat(&mut self, fd: u64) -> Result<Stat, Errno> {
        self.call("fd_filestat_get", &[fd, RESULT])?;
        Ok(self.stat_read())
    }

    fn stat_read(&self) -> Stat {
        let at = |offset| self.u64(RESULT + offset);
        Stat {
            ino: at(8),
            filetype: self.bytes(RESULT + 16, 1)[0],
            nlink: at(24),
            size: at(32),
            atim: at(40),
            mtim: at(48),
        }
    }

    /// Returns the flags, and both sets of rights.
    pub(crate) fn fdstat(&mut self, fd: u64) -> Result<Fdstat, Errno> {
        self.call("fd_fdstat_get", &[fd, RESULT])?;
        let flags = u16::from_le_bytes(self.bytes(RESULT + 2, 2).try_into().unwrap());
        Ok(Fdstat {
            filetype: self.bytes(RESULT, 1)[0],
            flags: flags.into(),
            base: self.u64(RESULT + 8),
            inheriting: self.u64(RESULT + 16),
        })
    }

    fn span(&mut self, len: usize) {
        self.put(LIST, &(BUFFER as u32).to_le_bytes());
        self.put(LIST + 4, &(len as u32).to_le_bytes());
    }

    pub(crate) fn write(&mut self, fd: u64, bytes: &[u8]) -> Result<usize, Errno> {
        self.put(BUFFER, bytes);
        self.span(bytes.len());
        self.call("fd_write", &[fd, LIST, 1, RESULT])?;
        Ok(self.u32(RESULT) as usize)
    }

    pub(crate) fn write_at(&mut self, fd: u64, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        self.put(BUFFER, bytes);
        self.span(bytes.len());
        self.call("fd_pwrite", &[fd, LIST, 1, offset, RESULT])?;
        Ok(self.u32(RESULT) as usize)
    }

    pub(crate) fn read(&mut self, fd: u64, len: usize) -> Result<Vec<u8>, Errno> {
        self.span(len);
        self.call("fd_read", &[fd, LIST, 1, RESULT])?;
        Ok(self.bytes(BUFFER, self.u32(RESULT) as usize).to_vec())
    }

    pub(crate) fn read_at(&mut self, fd: u64, len: usize, offset: u64) -> Result<Vec<u8>, Errno> {
        self.span(len);
        self.call("fd_pread", &[fd, LIST, 1, offset, RESULT])?;
        Ok(self.bytes(BUFFER, self.u32(RESULT) as usize).to_vec())
    }

    pub(crate) fn seek(&mut self, fd: u64, offset: i64, whence: u64) -> Result<u64, Errno> {
        self.call("fd_seek", &[fd, offset as u64, whence, RESULT])?;
        Ok(self.u64(RESULT))
    }

    pub(crate) fn close(&mut self, fd: u64) -> Result<(), Errno> {
        self.call("fd_close", &[fd])
    }
}

/// Attributes of a file, as the guest gets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) ino: u64,
    pub(crate) filetype: u8,
    pub(crate) nlink: u64,
    pub(crate) size: u64,
    pub(crate) atim: u64,
    pub(crate) mtim: u64,
}

/// Attributes of a descriptor, as the guest gets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fdstat {
    pub(crate) filetype: u8,
    pub(crate) flags: u64,
    pub(crate) base: u64,
    pub(crate) inheriting: u64,
}

/// Runs a test with both ways of looking names up.
pub(crate) fn both_ways(test: impl Fn(World)) {
    for lookup in [Lookup::Kernel, Lookup::Walk] {
        test(World::rooted(lookup));
    }
}
