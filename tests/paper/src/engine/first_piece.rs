//! `fd_write` as in the Python package: of several buffers, only the first non-empty one is
//! written.
//!
//! Both are correct. But a program continues differently after a partial write than after a
//! complete one. If two engines must yield the same counts, they must return the same results.

use rustix::fd::BorrowedFd;
use wasm_aot::wasi::WasiCtx;
use wasm_aot::{Caller, Error, Linker};

const SUCCESS: u32 = 0;
const BADF: u32 = 8;
const IO: u32 = 29;

/// Replaces the function that writes all buffers.
pub(super) fn define(linker: &mut Linker<WasiCtx>) -> Result<(), Error> {
    linker.allow_shadowing(true);
    linker.func_wrap("wasi_snapshot_preview1", "fd_write", write)?;
    Ok(())
}

fn write(
    mut caller: Caller<'_, WasiCtx>,
    fd: u32,
    pieces: u32,
    count: u32,
    done: u32,
) -> Result<u32, Error> {
    let Some(memory) = caller.get_export("memory").and_then(wasm_aot::Extern::into_memory) else {
        return Ok(BADF);
    };
    let mut bytes = Vec::new();
    for piece in (0..count).map(|n| pieces as usize + 8 * n as usize) {
        let mut pair = [0; 8];
        memory.read(&mut caller, piece, &mut pair)?;
        let [at, len] = [0, 4].map(|half| {
            u32::from_le_bytes([pair[half], pair[half + 1], pair[half + 2], pair[half + 3]])
        });
        if len > 0 {
            bytes.resize(len as usize, 0);
            memory.read(&mut caller, at as usize, &mut bytes)?;
            break;
        }
    }
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    let to: BorrowedFd<'_> = match fd {
        1 => std::os::fd::AsFd::as_fd(&stdout),
        2 => std::os::fd::AsFd::as_fd(&stderr),
        _ => return Ok(BADF),
    };
    let Ok(written) = rustix::io::write(to, &bytes) else { return Ok(IO) };
    memory.write(&mut caller, done as usize, &(written as u32).to_le_bytes())?;
    Ok(SUCCESS)
}
