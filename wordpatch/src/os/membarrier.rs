//! membarrier(2) with SYNC_CORE: every running thread of the process executes a serialising
//! instruction before it returns to user code. Kernel 4.16 or newer. Usable in a signal handler.

use super::{OsError, check};

fn membarrier(command: libc::c_int) -> Result<libc::c_long, OsError> {
    // SAFETY: (1) the call reads its three numbers and touches no memory of the process.
    check("membarrier", unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) })
}

/// Whether this kernel offers the command.
pub fn offered() -> Result<bool, OsError> {
    let wanted = libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE;
    Ok(membarrier(libc::MEMBARRIER_CMD_QUERY)? & libc::c_long::from(wanted) != 0)
}

/// Registers this process for it; needed once for each address space.
pub fn register() -> Result<(), OsError> {
    membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE).map(drop)
}

/// After it returns, no thread of this process runs on bytes it fetched before. Registers first if
/// needed, as after `exec`.
pub fn sync_core() -> Result<(), OsError> {
    let command = libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE;
    match membarrier(command) {
        Ok(_) => Ok(()),
        Err(error) if error.errno == libc::EPERM => {
            register()?;
            membarrier(command).map(drop)
        }
        Err(error) => Err(error),
    }
}
