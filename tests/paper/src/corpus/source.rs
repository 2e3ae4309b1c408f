//! Sources of packages, fetched by name with the ordinary client.

use super::CorpusError;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The exact versions, since other sources yield other figures.
const MANIFEST: &str = r#"
[package]
name = "corpus"
version = "0.0.0"
edition = "2024"
[lib]
path = "nothing.rs"
[workspace]
[dependencies]
bzip2-sys = "=0.1.13"
libsqlite3-sys = { version = "=0.39.1", features = ["bundled"] }
libz-sys = { version = "=1.1.31", features = ["static"] }
lua-src = "=551.1.0"
lz4-sys = "=1.11.1"
meshopt = "=0.7.0"
rquickjs-sys = "=0.14.0"
tree-sitter = "=0.27.1"
tree-sitter-json = "=0.24.8"
zstd-sys = "=2.1.2"
"#;

/// The folder of each package.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    packages: BTreeMap<String, PathBuf>,
}

impl Sources {
    pub(crate) fn fetch(folder: &Path) -> Result<Self, CorpusError> {
        std::fs::create_dir_all(folder).map_err(CorpusError::io(folder.display().to_string()))?;
        for (file, text) in [("Cargo.toml", MANIFEST), ("nothing.rs", "")] {
            std::fs::write(folder.join(file), text).map_err(CorpusError::io(file))?;
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["metadata", "--format-version", "1", "--manifest-path"])
            .arg(folder.join("Cargo.toml"))
            .output()
            .map_err(CorpusError::io("cargo"))?;
        let failed =
            |said: String| CorpusError::Failed { what: "fetching sources with cargo".into(), said };
        if !output.status.success() {
            return Err(failed(
                String::from_utf8_lossy(&output.stderr)
                    .lines()
                    .take(3)
                    .collect::<Vec<_>>()
                    .join("; "),
            ));
        }
        let answer: serde_json::Value =
            serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))?;
        let packages = answer["packages"].as_array().into_iter().flatten().filter_map(|package| {
            let folder = Path::new(package["manifest_path"].as_str()?).parent()?;
            Some((package["name"].as_str()?.to_owned(), folder.to_owned()))
        });
        Ok(Self { packages: packages.collect() })
    }

    /// A file or folder of a package; `../NAME/…` is one of another package.
    pub(crate) fn path(&self, package: &str, path: &str) -> Result<PathBuf, CorpusError> {
        let (package, path) = match path.strip_prefix("../").and_then(|other| other.split_once('/'))
        {
            Some(other) => other,
            None => (package, path),
        };
        let folder = self
            .packages
            .get(package)
            .ok_or_else(|| CorpusError::Missing(format!("package {package}")))?;
        Ok(folder.join(path))
    }

    /// The C files of one folder.
    pub(crate) fn files(
        &self,
        package: &str,
        folder: &str,
        names: &[&str],
    ) -> Result<Vec<PathBuf>, CorpusError> {
        let folder = self.path(package, folder)?;
        if names != ["*"] {
            return Ok(names.iter().map(|name| folder.join(name)).collect());
        }
        let entries =
            std::fs::read_dir(&folder).map_err(CorpusError::io(folder.display().to_string()))?;
        let mut files: Vec<PathBuf> =
            entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        // The library's own commands have a `main`, too.
        let commands = ["lua.c", "luac.c"];
        files.retain(|file| {
            file.extension().is_some_and(|ending| ending == "c")
                && !commands.iter().any(|name| file.ends_with(name))
        });
        files.sort();
        Ok(files)
    }
}
