//! Source maps, which are files beside programs and are updated with them.

use super::write;
use std::path::{Path, PathBuf};
use whamm::{Diagnostics, SourceMap};

/// The source map that a program refers to, if the file exists.
pub(super) fn beside(app: &Path, module: &[u8], output: &Path) -> Option<SourceMap> {
    let map = app.with_file_name(SourceMap::address_in(module)?);
    let text = std::fs::read_to_string(map).ok()?;
    let address = file(output).file_name()?.to_str()?.to_owned();
    Some(SourceMap { text, address })
}

/// Writes a map beside the output.
pub(super) fn put(output: &Path, map: Option<&String>) -> Result<(), Diagnostics> {
    map.map_or(Ok(()), |text| write(&file(output), text.as_bytes()))
}

fn file(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".map");
    name.into()
}
