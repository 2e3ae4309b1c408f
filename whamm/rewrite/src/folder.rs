//! Folders that a program was given: finds the one that a path names.
//!
//! WASI opens files below a folder, by a relative path. A program's own C library resolves a path
//! that begins at the root by the folders' names; linked modules that write a file do the same.

use wasm_encoder::ValType;

type Import = (&'static str, &'static [ValType]);

const FUNCTIONS: [Import; 2] =
    [("fd_prestat_get", &[ValType::I32; 2]), ("fd_prestat_dir_name", &[ValType::I32; 3])];

/// The functions of WASI that [`below_for`] calls, with their parameters; each returns a word.
pub fn imports(path: &str) -> &'static [Import] {
    if path.starts_with('/') { &FUNCTIONS } else { &[] }
}

/// A function for a module in text: `$below_{memory}`, of a folder's descriptor and of the address
/// and size of a buffer in `memory`, which is the memory that WASI uses. It returns the length of
/// the part of the path that is the folder's name, or -1 if the path is not in that folder.
///
/// The path is at the global `$path` of the memory `$own`, with the length `$path_len`.
pub fn below(memory: &str) -> String {
    include_str!("folder.wat").replace("{memory}", memory)
}

/// The same function for a path that is known: one that is relative is tried below every folder.
pub fn below_for(path: &str, memory: &str) -> String {
    match imports(path) {
        [] => {
            format!("(func $below_{memory} (param i32 i32 i32) (result i32) (i32.const 0))\n")
        }
        _ => below(memory),
    }
}
