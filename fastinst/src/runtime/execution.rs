//! Programs that this process executes and that cannot load the library: musl's loader refuses to
//! start them, and that of 32-bit programs prints an error. They are executed with an environment
//! that does not name the library.
//!
//! The functions that execute programs are [interposed](super::interposed). An interposed function
//! continues to the function here whose name ends in `_without_library` if the program is such a
//! one and the environment names the library; otherwise, to the C library's.
//!
//! A child of `vfork` may call these functions: they use memory of their own stack alone. An
//! environment or an argument list for which that is too small is passed on as it is.
//!
//! # Safety
//!
//! This module reads arguments of the program's calls, and makes such calls.
#![allow(unsafe_code)]

use super::interposed::{self, PassedRegisters};
use super::target;
use std::arch::naked_asm;
use std::ffi::{CStr, c_char, c_int};
use std::io::{Cursor, Write};
use std::sync::atomic::Ordering::Relaxed;
use wordpatch::os::files;

/// A list of texts that ends with null.
type List = *const *const c_char;

const PRELOAD: &[u8] = b"LD_PRELOAD=";
/// The most entries of an environment or of a list of arguments.
const ENTRIES: usize = 512;
/// The longest path, and the longest value of the variable.
const PATH: usize = 1 << 10;
/// How much of a file is read: the program headers, and the loader's name behind them. A script's
/// first line is shorter.
const START: usize = 1 << 11;
/// The most interpreters of interpreters that the kernel follows (execve(2)).
const SCRIPTS: usize = 4;
/// The longest first line of a script.
const SCRIPT: usize = 256;

unsafe extern "C" {
    static environ: List;
}

/// Where an interposed function continues instead of in the C library's, if the program cannot load
/// the library.
pub(super) fn instead(name: &CStr, given: &PassedRegisters) -> Option<usize> {
    if !target::is_running() && !target::DORMANT.load(Relaxed) {
        return None;
    }
    // SAFETY: (1) the arguments of that function, which the program passes; (2) the pointer to the
    // environment is the C library's.
    unsafe {
        let path = given.rdi as *const c_char;
        let spawned = given.rsi as *const c_char;
        let own = environ;
        let (is_searched, path, list, instead) = match name.to_bytes() {
            b"execve" => (false, path, given.rdx as List, execve_without_library as *const ()),
            b"execv" => (false, path, own, execv_without_library as *const ()),
            b"execvp" => (true, path, own, execvp_without_library as *const ()),
            b"execvpe" => (true, path, given.rdx as List, execvpe_without_library as *const ()),
            b"execl" => {
                (false, path, given.list().map(|_| own)?, execl_without_library as *const ())
            }
            b"execlp" => {
                (true, path, given.list().map(|_| own)?, execlp_without_library as *const ())
            }
            b"execle" => (false, path, given.list()? as List, execle_without_library as *const ()),
            b"posix_spawn" => {
                (false, spawned, given.r9 as List, spawn_without_library as *const ())
            }
            b"posix_spawnp" => {
                (true, spawned, given.r9 as List, spawnp_without_library as *const ())
            }
            b"fexecve" => {
                let mut text = [0u8; 32];
                let written =
                    write!(Cursor::new(&mut text[..]), "/proc/self/fd/{}", given.rdi as c_int);
                let path = CStr::from_bytes_until_nul(&text).ok().filter(|_| written.is_ok())?;
                let is_so = names_library(given.rdx as List) && cannot_load_library(path);
                return is_so.then_some(fexecve_without_library as *const () as usize);
            }
            _ => return None,
        };
        let is_so =
            !path.is_null() && names_library(list) && is_unfit(CStr::from_ptr(path), is_searched);
        is_so.then_some(instead as usize)
    }
}

impl PassedRegisters {
    /// What follows a list of arguments that begins with the second one, unless it is too long.
    ///
    /// # Safety
    /// There is such a list, and something follows it.
    unsafe fn list(&self) -> Option<usize> {
        let registers = [self.rsi, self.rdx, self.rcx, self.r8, self.r9];
        // SAFETY: (1) the caller, see # Safety.
        let argument = |at| unsafe { argument(&registers, self.stack(), at) };
        let end = (0..ENTRIES).find(|at| argument(*at) == 0)?;
        Some(argument(end + 1))
    }
}

/// The argument at a place of a list, of which some are in registers and the others on the stack.
///
/// # Safety
/// The list has as many, or this is the one that follows it.
unsafe fn argument(registers: &[usize; 5], stack: *const usize, at: usize) -> usize {
    match registers.get(at) {
        Some(register) => *register,
        // SAFETY: (1) the caller, see # Safety.
        None => unsafe { *stack.add(at - registers.len()) },
    }
}

/// Whether an environment has the library preloaded.
///
/// # Safety
/// As for [`variable`].
unsafe fn names_library(list: List) -> bool {
    // SAFETY: (1) the caller, see # Safety.
    unsafe { variable(list, PRELOAD) }.is_some_and(|(_, value)| paths(value).any(is_ours))
}

/// Where a variable is in an environment, and its value. `key` ends with the equals sign.
///
/// # Safety
/// An environment, or null, that nothing changes meanwhile.
unsafe fn variable<'a>(list: List, key: &[u8]) -> Option<(usize, &'a [u8])> {
    if list.is_null() {
        return None;
    }
    for at in 0.. {
        // SAFETY: (1) a list that ends with null, which was not passed yet.
        let entry = unsafe { *list.add(at) };
        if entry.is_null() {
            return None;
        }
        // SAFETY: (1) a text that ends with zero.
        if let Some(value) = unsafe { CStr::from_ptr(entry) }.to_bytes().strip_prefix(key) {
            return Some((at, value));
        }
    }
    None
}

/// The paths in such a value.
pub(super) fn paths(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| matches!(byte, b':' | b' ')).filter(|path| !path.is_empty())
}

/// Whether a path is the library's.
pub(super) fn is_ours(path: &[u8]) -> bool {
    path.ends_with(b"libfastinst.so")
}

/// Whether the program that is found under a name cannot load the library.
fn is_unfit(name: &CStr, is_searched: bool) -> bool {
    if !is_searched || name.to_bytes().contains(&b'/') {
        return cannot_load_library(name);
    }
    // SAFETY: (1) the process's environment.
    let places = unsafe { variable(environ, b"PATH=") };
    let places = places.map_or(&b"/bin:/usr/bin"[..], |(_, value)| value);
    let mut room = [0u8; PATH];
    for place in places.split(|byte| *byte == b':') {
        let place: &[u8] = if place.is_empty() { b"." } else { place };
        let parts: [&[u8]; 4] = [place, b"/", name.to_bytes(), b"\0"];
        let mut path = Cursor::new(&mut room[..]);
        if parts.iter().all(|part| path.write_all(part).is_ok())
            && let Ok(path) = CStr::from_bytes_until_nul(&room)
            && files::open(path).is_ok()
        {
            return cannot_load_library(path);
        }
    }
    false
}

/// Whether a file, or the interpreter that it names, is a program that cannot load the library.
fn cannot_load_library(path: &CStr) -> bool {
    let (mut room, mut interpreter) = ([0u8; START], [0u8; SCRIPT]);
    for script in 0..=SCRIPTS {
        let path = match script {
            0 => Ok(path),
            _ => CStr::from_bytes_until_nul(&interpreter),
        };
        let Ok(Ok(start)) = path.map(|path| files::read_start(path, &mut room)) else {
            return false;
        };
        let Some(line) = start.strip_prefix(b"#!") else { return is_foreign(start) };
        let mut words = line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
        let Some(word) = words.find(|word| !word.is_empty()) else { return false };
        let Some(copy) = interpreter.get_mut(..=word.len()) else { return false };
        copy[..word.len()].copy_from_slice(word);
        copy[word.len()] = 0;
    }
    false
}

/// Whether an ELF file of which this is the start has 32 bits, or names musl's loader.
fn is_foreign(start: &[u8]) -> bool {
    const NARROW: u8 = 1;
    const LOADER: u32 = 3;
    let number = |at: usize, len: usize| -> Option<u64> {
        let bytes = start.get(at..at.checked_add(len)?)?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    };
    if !start.starts_with(b"\x7fELF") {
        return false;
    }
    if start.get(4) == Some(&NARROW) {
        return true;
    }
    let loader = || {
        let (headers, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        let header = (0..count).map(|at| (headers + at * size) as usize);
        let found = header.into_iter().find(|at| number(*at, 4) == Some(u64::from(LOADER)))?;
        let (from, len) = (number(found + 8, 8)? as usize, number(found + 32, 8)? as usize);
        start.get(from..from.checked_add(len)?)
    };
    loader().is_some_and(|name| name.windows(7).any(|part| part == b"ld-musl"))
}

/// Calls a function with an environment that does not name the library, or with the environment as
/// it is, if there is no room for another one.
///
/// # Safety
/// As for [`variable`].
unsafe fn without_library(list: List, call: impl FnOnce(List) -> c_int) -> c_int {
    let (mut entries, mut text) = ([std::ptr::null(); ENTRIES], [0u8; PATH]);
    // SAFETY: (1) the caller passes an environment.
    match unsafe { changed(list, &mut entries, &mut text) } {
        Some(()) => call(entries.as_ptr()),
        None => call(list),
    }
}

/// Makes such an environment; returns nothing if it does not fit, or is the same.
///
/// # Safety
/// As for [`variable`].
unsafe fn changed(list: List, entries: &mut [*const c_char], text: &mut [u8]) -> Option<()> {
    // SAFETY: (1) the caller passes an environment.
    let (place, value) = unsafe { variable(list, PRELOAD) }?;
    let mut others = Cursor::new(&mut *text);
    others.write_all(PRELOAD).ok()?;
    for (at, path) in paths(value).filter(|path| !is_ours(path)).enumerate() {
        others
            .write_all(if at == 0 { b"" } else { b":" })
            .and_then(|()| others.write_all(path))
            .ok()?;
    }
    others.write_all(&[0]).ok()?;
    let (mut from, mut to) = (0, 0);
    loop {
        // SAFETY: (1) the list ends with null, which was not passed yet.
        let entry = unsafe { *list.add(from) };
        let kept = if from == place { text.as_ptr().cast() } else { entry };
        // A variable without a value is left out.
        if from != place || text[PRELOAD.len()] != 0 {
            *entries.get_mut(to)? = kept;
            to += 1;
        }
        if entry.is_null() {
            return Some(());
        }
        from += 1;
    }
}

/// Copies a list of arguments, with the null at its end; returns what follows it, unless the list
/// is too long.
///
/// # Safety
/// As for [`PassedRegisters::list`].
unsafe fn listed(
    registers: &[usize; 5],
    stack: *const usize,
    entries: &mut [*const c_char],
) -> Option<usize> {
    for (at, entry) in entries.iter_mut().enumerate() {
        // SAFETY: (1) the caller passes a list, which has not ended yet.
        *entry = unsafe { argument(registers, stack, at) } as *const c_char;
        if entry.is_null() {
            // SAFETY: (1) what follows the list.
            return Some(unsafe { argument(registers, stack, at + 1) });
        }
    }
    None
}

type Execve = unsafe extern "C" fn(*const c_char, List, List) -> c_int;
type Spawn = unsafe extern "C" fn(*mut i32, *const c_char, usize, usize, List, List) -> c_int;

/// The C library's functions.
fn execve() -> Execve {
    // SAFETY: (1) the function of that name has this type.
    unsafe { std::mem::transmute(interposed::next_of(c"execve")) }
}

fn execvpe() -> Execve {
    // SAFETY: as above.
    unsafe { std::mem::transmute(interposed::next_of(c"execvpe")) }
}

unsafe extern "C" fn execve_without_library(path: *const c_char, args: List, list: List) -> c_int {
    // SAFETY: (1) the caller's arguments.
    unsafe { without_library(list, |list| execve()(path, args, list)) }
}

unsafe extern "C" fn execv_without_library(path: *const c_char, args: List) -> c_int {
    // SAFETY: as above.
    unsafe { execve_without_library(path, args, environ) }
}

unsafe extern "C" fn execvpe_without_library(file: *const c_char, args: List, list: List) -> c_int {
    // SAFETY: as above.
    unsafe { without_library(list, |list| execvpe()(file, args, list)) }
}

unsafe extern "C" fn execvp_without_library(file: *const c_char, args: List) -> c_int {
    // SAFETY: as above.
    unsafe { execvpe_without_library(file, args, environ) }
}

unsafe extern "C" fn fexecve_without_library(file: c_int, args: List, list: List) -> c_int {
    // SAFETY: (1) the function of that name has this type; (2) the caller's arguments.
    unsafe {
        let fexecve: unsafe extern "C" fn(c_int, List, List) -> c_int =
            std::mem::transmute(interposed::next_of(c"fexecve"));
        without_library(list, |list| fexecve(file, args, list))
    }
}

macro_rules! spawns {
    ($($name:ident $next:literal;)*) => {
        $(
            unsafe extern "C" fn $name(
                child: *mut i32,
                path: *const c_char,
                actions: usize,
                attributes: usize,
                args: List,
                list: List,
            ) -> c_int {
                // SAFETY: (1) the function of that name has this type; (2) the caller's arguments.
                unsafe {
                    let next: Spawn = std::mem::transmute(interposed::next_of($next));
                    without_library(list, |list| next(child, path, actions, attributes, args, list))
                }
            }
        )*
    };
}

spawns! {
    spawn_without_library c"posix_spawn";
    spawnp_without_library c"posix_spawnp";
}

/// Functions whose arguments are no list: each passes them on as one, which is known to fit.
macro_rules! listing {
    ($($name:ident $listed:ident |$path:ident, $args:ident, $rest:pat_param| $call:expr;)*) => {
        $(
            /// Calls the other function with the path, the registers that begin the list, and where
            /// it continues.
            #[unsafe(naked)]
            unsafe extern "C" fn $name() {
                naked_asm!(
                    "endbr64",
                    "push r9",
                    "push r8",
                    "push rcx",
                    "push rdx",
                    "push rsi",
                    "mov rsi, rsp",
                    "lea rdx, [rsp + 48]",
                    "call {listed}",
                    "add rsp, 40",
                    "ret",
                    listed = sym $listed,
                )
            }

            unsafe extern "C" fn $listed(
                $path: *const c_char,
                registers: &[usize; 5],
                stack: *const usize,
            ) -> c_int {
                let mut args = [std::ptr::null(); ENTRIES];
                // SAFETY: (1) the arguments of the program's call.
                unsafe {
                    match listed(registers, stack, &mut args) {
                        Some(behind) => {
                            let ($args, $rest) = (args.as_ptr(), behind as List);
                            $call
                        }
                        None => {
                            wordpatch::os::set_errno(libc::E2BIG);
                            -1
                        }
                    }
                }
            }
        )*
    };
}

listing! {
    execl_without_library execl_listed |path, args, _| execv_without_library(path, args);
    execlp_without_library execlp_listed |path, args, _| execvp_without_library(path, args);
    execle_without_library execle_listed |path, args, list| execve_without_library(path, args, list);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The start of an ELF file whose loader has this name.
    fn program(class: u8, loader: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 64 + 2 * 56];
        file[..5].copy_from_slice(&[0x7f, b'E', b'L', b'F', class]);
        file[32] = 64;
        (file[54], file[56]) = (56, 2);
        // The second program header is the loader's.
        let header = 64 + 56;
        (file[header], file[header + 8], file[header + 32]) =
            (3, file.len() as u8, loader.len() as u8);
        file.extend(loader);
        file
    }

    #[test]
    fn musl_and_32_bits_are_foreign() {
        assert!(!is_foreign(&program(2, b"/lib64/ld-linux-x86-64.so.2\0")));
        assert!(is_foreign(&program(2, b"/lib/ld-musl-x86_64.so.1\0")));
        assert!(is_foreign(&program(1, b"/lib/ld-linux.so.2\0")));
        assert!(!is_foreign(b"no program"));
        let cut = program(2, b"/lib/ld-musl-x86_64.so.1\0");
        (0..cut.len()).for_each(|len| assert!(!is_foreign(&cut[..len])));
    }

    #[test]
    fn the_library_is_taken_out_of_an_environment_that_fits() {
        let changed = |list: &[&CStr]| {
            let list: Vec<*const c_char> =
                list.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
            let (mut entries, mut text) = ([std::ptr::null(); 4], [0u8; 32]);
            // SAFETY: (1) a list as environments are; what it becomes is one, too.
            unsafe {
                changed(list.as_ptr(), &mut entries, &mut text)?;
                let texts = entries.iter().take_while(|entry| !entry.is_null());
                Some(texts.map(|entry| CStr::from_ptr(*entry).to_owned()).collect::<Vec<_>>())
            }
        };
        let only = changed(&[c"A=1", c"LD_PRELOAD=/x/libfastinst.so", c"B=2"]);
        assert_eq!(only.expect("it fits"), [c"A=1", c"B=2"]);
        let first = changed(&[c"LD_PRELOAD=a.so:/x/libfastinst.so b.so", c"B=2"]);
        assert_eq!(first.expect("it fits"), [c"LD_PRELOAD=a.so:b.so", c"B=2"]);
        assert_eq!(changed(&[c"A=1"]), None, "it names nothing");
        let ours = c"LD_PRELOAD=/x/libfastinst.so";
        assert_eq!(changed(&[ours, c"A", c"B", c"C", c"D"]), None, "too many");
        let long = c"LD_PRELOAD=/a/path/that/is/very/long.so:/x/libfastinst.so";
        assert_eq!(changed(&[long]), None, "too long");
    }
}
