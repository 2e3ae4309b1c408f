//! The time, from the code that the kernel maps into the process for that (vdso(7)): without a
//! system call, which a filter might refuse.

use super::calls::{answer, raw};
use goblin::elf::{Elf, header::header64::Header};
use std::ffi::{c_int, c_void};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// The address of the kernel's function; zero if unknown.
static GIVEN: AtomicUsize = AtomicUsize::new(0);

/// Looks the function up. Called once, at the start.
pub(crate) fn prepare() {
    if let Some(at) = find() {
        GIVEN.store(at, Relaxed);
    }
}

fn find() -> Option<usize> {
    // SAFETY: (1) reads a number.
    let base = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
    if base == 0 {
        return None;
    }
    let start = std::ptr::with_exposed_provenance::<u8>(base);
    // SAFETY: (1) the kernel has mapped a whole ELF file there, for as long as the process lives;
    // (2) its table of sections ends it.
    let file = unsafe {
        let header = &*start.cast::<Header>();
        std::slice::from_raw_parts(
            start,
            header.e_shoff as usize + usize::from(header.e_shnum) * usize::from(header.e_shentsize),
        )
    };
    let elf = Elf::parse(file).ok()?;
    let found = elf
        .dynsyms
        .iter()
        .find(|symbol| elf.dynstrtab.get_at(symbol.st_name) == Some("__vdso_clock_gettime"))?;
    // Its link address is that of its first segment.
    let linked = elf
        .program_headers
        .iter()
        .find(|header| header.p_type == goblin::elf::program_header::PT_LOAD)?
        .p_vaddr;
    (found.st_value != 0).then(|| base.wrapping_add((found.st_value - linked) as usize))
}

pub(super) unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut c_void) -> c_int {
    let result = match GIVEN.load(Relaxed) {
        // SAFETY: (1) the caller.
        0 => unsafe { raw(libc::SYS_clock_gettime, [clock as usize, time.addr(), 0, 0, 0, 0]) },
        given => {
            // SAFETY: (1) the kernel's function has this type; (2) the caller.
            unsafe {
                let given: unsafe extern "C" fn(c_int, *mut c_void) -> c_int =
                    std::mem::transmute(given);
                given(clock, time) as isize
            }
        }
    };
    answer(result) as c_int
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_function_tells_the_time_that_the_kernel_tells() {
        prepare();
        assert_ne!(GIVEN.load(Relaxed), 0);
        for clock in [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME, libc::CLOCK_PROCESS_CPUTIME_ID] {
            let mut times = [libc::timespec { tv_sec: 0, tv_nsec: 0 }; 3];
            let [before, time, after] = &mut times;
            // SAFETY: (1) a buffer for each time.
            unsafe {
                libc::syscall(libc::SYS_clock_gettime, clock, std::ptr::from_mut(before));
                assert_eq!(clock_gettime(clock, std::ptr::from_mut(time).cast()), 0);
                libc::syscall(libc::SYS_clock_gettime, clock, std::ptr::from_mut(after));
            }
            let order = times.map(|time| (time.tv_sec, time.tv_nsec));
            assert!(order.is_sorted(), "{clock}: {order:?}");
        }
        // SAFETY: (1) refused before anything is written.
        assert_eq!(unsafe { clock_gettime(12345, std::ptr::null_mut()) }, -1);
        assert_eq!(wordpatch::os::errno(), libc::EINVAL);
    }
}
