//! The programs in Rust: one package with a program for each file, built by cargo for
//! `wasm32-wasip1`.

use super::tools;
use crate::corpus::CorpusError;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The exact versions, since other sources yield other figures.
const MANIFEST: &str = r#"
[package]
name = "programs"
version = "0.0.0"
edition = "2024"
[workspace]
[[bin]]
name = "patterns"
path = "patterns.rs"
[[bin]]
name = "scripts"
path = "scripts.rs"
[[bin]]
name = "syntax"
path = "syntax.rs"
[dependencies]
prettyplease = "=0.3.0"
regex = "=1.13.1"
rhai = "=1.27.0"
syn = { version = "=3.0.9", features = ["full"] }
[profile.release]
strip = "debuginfo"
"#;

macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../../corpus/rust/", $name)))
    };
}

const FILES: [(&str, &str); 5] = [
    ("Cargo.toml", MANIFEST),
    file!("patterns.rs"),
    file!("scripts.rs"),
    file!("syntax.rs"),
    file!("work.rs"),
];

const TARGET: &str = "wasm32-wasip1";

/// The modules, by name, in a folder where they are built if needed.
#[derive(Debug)]
pub(super) struct Package {
    modules: PathBuf,
}

impl Package {
    pub(super) fn build(folder: &Path) -> Result<Self, CorpusError> {
        let folder = folder.join("rust");
        std::fs::create_dir_all(&folder).map_err(CorpusError::io(folder.display().to_string()))?;
        for (name, text) in FILES {
            tools::write(&folder.join(name), text)?;
        }
        let output = cargo(&folder).output().map_err(CorpusError::io("cargo"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said
                .lines()
                .find(|line| line.starts_with("error"))
                .unwrap_or("it said nothing")
                .to_owned();
            let what =
                format!("building programs in Rust for {TARGET} (rustup target add {TARGET})");
            return Err(CorpusError::Failed { what, said });
        }
        Ok(Self { modules: folder.join("target").join(TARGET).join("release") })
    }

    pub(super) fn module(&self, name: &str) -> PathBuf {
        self.modules.join(name).with_extension("wasm")
    }
}

fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Other flags would yield other figures.
    for flags in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"] {
        command.env_remove(flags);
    }
    command.current_dir(folder).args([
        "build",
        "--release",
        "--target",
        TARGET,
        "--target-dir",
        "target",
    ]);
    command
}
