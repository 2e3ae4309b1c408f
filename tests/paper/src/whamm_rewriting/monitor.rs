//! The monitors of the compiler's library, and the library that one of them calls.

use crate::corpus::{CorpusError, finish};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Monitor {
    Hotness,
    Branches,
    Imix,
    CacheSim,
}

macro_rules! monitor {
    ($file:literal) => {
        include_str!(concat!("../../../../whamm/monitors/", $file))
    };
}

impl Monitor {
    pub(super) const ALL: [Self; 4] = [Self::Hotness, Self::Branches, Self::Imix, Self::CacheSim];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hotness => "hotness",
            Self::Branches => "branches",
            Self::Imix => "imix",
            Self::CacheSim => "cache_sim",
        }
    }

    pub(super) fn script(self) -> &'static str {
        match self {
            Self::Hotness => monitor!("hotness.mm"),
            Self::Branches => monitor!("branches.mm"),
            Self::Imix => monitor!("imix.mm"),
            Self::CacheSim => monitor!("cache_sim.mm"),
        }
    }

    /// Whether it calls the library.
    pub(super) fn needs_cache(self) -> bool {
        self == Self::CacheSim
    }
}

/// The library `cache`, compiled from its source.
#[derive(Debug)]
pub(super) struct Cache {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
}

impl Cache {
    pub(super) fn build(folder: &Path) -> Result<Self, CorpusError> {
        let [source, unfinished, path] =
            ["cache.rs", "cache.new", "cache.wasm"].map(|name| folder.join(name));
        std::fs::write(&source, monitor!("cache.rs"))
            .map_err(CorpusError::io(source.display().to_string()))?;
        let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        command.args([
            "--edition=2024",
            "--target=wasm32-wasip1",
            "--crate-type=cdylib",
            "-Copt-level=2",
            "-Cstrip=debuginfo",
        ]);
        finish(
            command.arg(source).arg("-o").arg(&unfinished),
            "cache.rs for wasm32-wasip1 (rustup target add wasm32-wasip1)",
            &unfinished,
            &path,
        )?;
        let bytes = std::fs::read(&path).map_err(CorpusError::io(path.display().to_string()))?;
        Ok(Self { path, bytes })
    }
}
