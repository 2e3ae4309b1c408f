//! A cache of compiled modules: a folder of files, each named for the hash of everything that its
//! code depends on.
//!
//! A file is renamed into place, so that other processes see all of it or nothing. A file that
//! cannot be loaded is compiled again and replaced. When the folder exceeds its limit, the least
//! recently used files are removed.

use crate::engine::Engine;
use crate::error::Error;
use crate::runtime::{Module, binary};
use crate::{artifact, compile};
use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use wordpatch::os::trust;

/// A folder of compiled modules.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
    limit: u64,
}

impl Cache {
    /// The folder of this user: `$XDG_CACHE_HOME/fastinst/wasm-aot` or
    /// `~/.cache/fastinst/wasm-aot`, which may hold a gigabyte. `None` if the environment names
    /// neither.
    pub fn of_user() -> Option<Self> {
        let absolute = |name: &str| {
            std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
        };
        let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
        Some(Self::at(base.join("fastinst/wasm-aot"), 1 << 30))
    }

    /// A folder that may hold `limit` bytes. It is created when the first file is stored.
    pub fn at(folder: impl Into<PathBuf>, limit: u64) -> Self {
        Self { folder: folder.into(), limit }
    }

    /// Returns the module, compiled now or before. A folder that cannot be used is not an error.
    pub fn module(&self, engine: &Engine, bytes: &[u8]) -> Result<Module, Error> {
        if !self.is_trusted() || engine.target().options.frames {
            return Module::new(engine, bytes);
        }
        let path = self.folder.join(key(engine, bytes));
        if let Ok(module) = Module::from_file(engine, &path) {
            let now = fs::FileTimes::new().set_modified(SystemTime::now());
            let _ =
                fs::File::options().append(true).open(&path).and_then(|file| file.set_times(now));
            return Ok(module);
        }
        let bytes = binary(bytes)?;
        let compilation = compile::compile(&bytes, engine.target(), &compile::Plan::default())?;
        let kept = self.keep(&path, &artifact::write(&compilation, engine.target(), &bytes, &[]));
        if let Ok(module) =
            kept.map_err(Error::system).and_then(|()| Module::from_file(engine, &path))
        {
            return Ok(module);
        }
        Module::compiled(engine, compilation, bytes.into_owned())
    }

    /// Whether only this user can put files into the folder, or replace the folder: files in it are
    /// executed. A folder that does not exist yet is trusted if this process may create it.
    fn is_trusted(&self) -> bool {
        let is_own = match fs::metadata(&self.folder) {
            Ok(metadata) => {
                metadata.uid() == rustix::process::geteuid().as_raw()
                    && metadata.mode() & 0o022 == 0
            }
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        is_own && trust::folder_to_be(&self.folder).is_ok()
    }

    fn keep(&self, path: &Path, compiled: &[u8]) -> std::io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mut draft = tempfile::Builder::new();
        let draft = draft.prefix(".draft").make_in(&self.folder, |path| {
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
        })?;
        std::io::Write::write_all(&mut draft.as_file(), compiled)?;
        draft.persist(path).map_err(|error| error.error)?;
        self.shrink()
    }

    /// Removes the least recently used files until the folder is within its limit. Other processes
    /// may do the same meanwhile.
    fn shrink(&self) -> std::io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            // Another process may have removed it.
            let Ok(metadata) = entry.metadata() else { continue };
            files.push((metadata.modified()?, metadata.len(), entry.path()));
        }
        files.sort();
        let mut total: u64 = files.iter().map(|(_, len, _)| len).sum();
        for (_, len, path) in files {
            if total <= self.limit {
                break;
            }
            let _ = fs::remove_file(path);
            total -= len;
        }
        Ok(())
    }
}

/// The name of a module's file: a hash of the module and of everything else that its code depends
/// on.
fn key(engine: &Engine, bytes: &[u8]) -> String {
    let target = engine.target();
    let mut hasher = blake3::Hasher::new();
    hasher.update(artifact::VERSION.as_bytes());
    hasher.update(target.features().as_bytes());
    hasher.update(format!("{:?}", target.options).as_bytes());
    hasher.update(bytes);
    format!("{}.aot", hasher.finalize().to_hex())
}
