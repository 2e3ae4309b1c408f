//! The list of all calls, for engines to link.

use super::WasiCtx;
use super::errno::Errno;
use super::guest::Guest;
use super::outcome::Outcome;

/// The module name under which programs import the calls.
pub const MODULE: &str = "wasi_snapshot_preview1";

/// A type of a parameter or result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// 32 bits.
    I32,
    /// 64 bits.
    I64,
}

/// The uniform entry of a call: arguments are 64-bit words; arguments of 32 bits are in the lower
/// half.
type Entry = fn(&mut WasiCtx, &Guest<'_>, &[u64]) -> Outcome;

/// A call.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// The name under which it is imported.
    pub name: &'static str,
    /// Types of the parameters.
    pub params: &'static [ValueType],
    /// Types of the results: one error number, except for the call that does not return.
    pub results: &'static [ValueType],
    /// Performs it. The number of arguments must be that of the parameters; otherwise the call is
    /// invalid.
    pub call: Entry,
}

/// All calls, by name.
pub fn functions() -> &'static [Function] {
    FUNCTIONS
}

/// Conversion of an argument word, and its type.
trait Argument {
    const TYPE: ValueType;
    fn of(raw: u64) -> Self;
}

impl Argument for u32 {
    const TYPE: ValueType = ValueType::I32;
    fn of(raw: u64) -> Self {
        raw as Self
    }
}

impl Argument for u64 {
    const TYPE: ValueType = ValueType::I64;
    fn of(raw: u64) -> Self {
        raw
    }
}

impl Argument for i64 {
    const TYPE: ValueType = ValueType::I64;
    fn of(raw: u64) -> Self {
        raw as Self
    }
}

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ident)?;)*) => {
        static FUNCTIONS: &[Function] = &[$(Function {
            name: stringify!($name),
            params: &[$(<$type as Argument>::TYPE),*],
            results: &[$(ValueType::$result)?],
            call: |ctx, memory, arguments| {
                let &[$($argument),*] = arguments else { return Outcome::Errno(Errno::INVAL) };
                match ctx.$name(memory $(, <$type as Argument>::of($argument))*) {
                    Ok(()) => Outcome::SUCCESS,
                    Err(outcome) => outcome,
                }
            },
        }),*];
    };
}

functions! {
    args_get(pointers: u32, strings: u32) -> I32;
    args_sizes_get(count: u32, size: u32) -> I32;
    clock_res_get(id: u32, resolution: u32) -> I32;
    clock_time_get(id: u32, precision: u64, time: u32) -> I32;
    environ_get(pointers: u32, strings: u32) -> I32;
    environ_sizes_get(count: u32, size: u32) -> I32;
    fd_advise(fd: u32, offset: u64, len: u64, advice: u32) -> I32;
    fd_allocate(fd: u32, offset: u64, len: u64) -> I32;
    fd_close(fd: u32) -> I32;
    fd_datasync(fd: u32) -> I32;
    fd_fdstat_get(fd: u32, stat: u32) -> I32;
    fd_fdstat_set_flags(fd: u32, flags: u32) -> I32;
    fd_fdstat_set_rights(fd: u32, base: u64, inheriting: u64) -> I32;
    fd_filestat_get(fd: u32, stat: u32) -> I32;
    fd_filestat_set_size(fd: u32, size: u64) -> I32;
    fd_filestat_set_times(fd: u32, atim: u64, mtim: u64, flags: u32) -> I32;
    fd_pread(fd: u32, iovs: u32, len: u32, offset: u64, read: u32) -> I32;
    fd_prestat_dir_name(fd: u32, path: u32, len: u32) -> I32;
    fd_prestat_get(fd: u32, prestat: u32) -> I32;
    fd_pwrite(fd: u32, iovs: u32, len: u32, offset: u64, written: u32) -> I32;
    fd_read(fd: u32, iovs: u32, len: u32, read: u32) -> I32;
    fd_readdir(fd: u32, buffer: u32, len: u32, cookie: u64, used: u32) -> I32;
    fd_renumber(from: u32, to: u32) -> I32;
    fd_seek(fd: u32, offset: i64, whence: u32, position: u32) -> I32;
    fd_sync(fd: u32) -> I32;
    fd_tell(fd: u32, position: u32) -> I32;
    fd_write(fd: u32, iovs: u32, len: u32, written: u32) -> I32;
    path_create_directory(fd: u32, path: u32, len: u32) -> I32;
    path_filestat_get(fd: u32, lookup: u32, path: u32, len: u32, stat: u32) -> I32;
    path_filestat_set_times(fd: u32, lookup: u32, path: u32, len: u32, atim: u64, mtim: u64, flags: u32) -> I32;
    path_link(old_fd: u32, lookup: u32, old: u32, old_len: u32, new_fd: u32, new: u32, new_len: u32) -> I32;
    path_open(fd: u32, lookup: u32, path: u32, len: u32, oflags: u32, base: u64, inheriting: u64, flags: u32, opened: u32) -> I32;
    path_readlink(fd: u32, path: u32, len: u32, buffer: u32, buffer_len: u32, used: u32) -> I32;
    path_remove_directory(fd: u32, path: u32, len: u32) -> I32;
    path_rename(old_fd: u32, old: u32, old_len: u32, new_fd: u32, new: u32, new_len: u32) -> I32;
    path_symlink(old: u32, old_len: u32, fd: u32, new: u32, new_len: u32) -> I32;
    path_unlink_file(fd: u32, path: u32, len: u32) -> I32;
    poll_oneoff(subscriptions: u32, events: u32, len: u32, happened: u32) -> I32;
    proc_exit(code: u32);
    proc_raise(signal: u32) -> I32;
    random_get(buffer: u32, len: u32) -> I32;
    sched_yield() -> I32;
    sock_accept(fd: u32, flags: u32, accepted: u32) -> I32;
    sock_recv(fd: u32, iovs: u32, len: u32, flags: u32, read: u32, told: u32) -> I32;
    sock_send(fd: u32, iovs: u32, len: u32, flags: u32, sent: u32) -> I32;
    sock_shutdown(fd: u32, how: u32) -> I32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_whole_and_sorted() {
        assert_eq!(functions().len(), 46);
        assert!(functions().is_sorted_by_key(|function| function.name));
    }

    #[test]
    fn all_but_one_return_an_error_number() {
        for function in functions() {
            assert_eq!(
                function.results.is_empty(),
                function.name == "proc_exit",
                "{}",
                function.name
            );
        }
    }

    #[test]
    fn a_wrong_number_of_arguments_is_an_invalid_call() {
        let mut ctx = WasiCtx::builder().build().unwrap();
        let memory = Guest::exclusive(&mut []);
        for function in functions() {
            let arguments = vec![0; function.params.len() + 1];
            assert_eq!(
                (function.call)(&mut ctx, &memory, &arguments),
                Outcome::Errno(Errno::INVAL),
                "{}",
                function.name
            );
        }
    }
}
