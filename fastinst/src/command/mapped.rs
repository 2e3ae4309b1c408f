//! The files whose code a process has mapped.

use std::io;
use wordpatch::os::OsError;
use wordpatch::os::maps::{self, Mapping};

/// Their paths as the kernel shows them to this command, each once, in the order of addresses: that
/// of a file that was deleted or replaced ends with ` (deleted)`.
pub(super) fn code_files(process: i32) -> io::Result<Vec<String>> {
    let is_file = |mapping: &Mapping| mapping.execute && mapping.path.starts_with('/');
    let mappings = mappings(process)?.into_iter().filter(is_file);
    let mut paths: Vec<String> = mappings.map(|mapping| mapping.path).collect();
    paths.dedup();
    Ok(paths)
}

/// Those of any of its threads: one that has ended, such as the first, has none.
fn mappings(process: i32) -> io::Result<Vec<Mapping>> {
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let Some(thread) = thread?.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let of_thread = maps::mappings_of(process, thread)
            .map_err(|OsError { errno, .. }| io::Error::from_raw_os_error(errno))?;
        if !of_thread.is_empty() {
            return Ok(of_thread);
        }
    }
    Ok(Vec::new())
}
