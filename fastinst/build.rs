//! Has the linker bind names of the C library to our own definitions, inside of the preload library
//! only: see `src/clib.rs`.

/// As in `src/clib.rs`.
const OWN: &[&str] = &[
    "__cxa_thread_atexit_impl",
    "__tls_get_addr",
    "__xpg_strerror_r",
    "_dl_find_object",
    "calloc",
    "clock_gettime",
    "clock_nanosleep",
    "close",
    "closedir",
    "dirfd",
    "exp",
    "exp2",
    "expm1",
    "fcntl",
    "fcntl64",
    "free",
    "fstat",
    "fstat64",
    "fsync",
    "ftruncate",
    "getcwd",
    "getenv",
    "getpid",
    "getppid",
    "getrandom",
    "getrlimit",
    "gettid",
    "getuid",
    "ioctl",
    "kill",
    "log",
    "log10",
    "log1p",
    "log2",
    "lseek64",
    "lstat64",
    "madvise",
    "malloc",
    "memcmp",
    "memfd_create",
    "memmove",
    "memset",
    "mkdir",
    "mmap",
    "mmap64",
    "mremap",
    "munlock",
    "munmap",
    "nanosleep",
    "open",
    "open64",
    "openat64",
    "opendir",
    "pause",
    "poll",
    "posix_memalign",
    "pow",
    "pthread_mutex_lock",
    "pthread_once",
    "pthread_setname_np",
    "pthread_sigmask",
    "pwrite",
    "read",
    "readdir64",
    "readlink",
    "realloc",
    "realpath",
    "rename",
    "sched_getaffinity",
    "sched_yield",
    "sigaction",
    "sigaddset",
    "sigdelset",
    "sigemptyset",
    "sigfillset",
    "stat64",
    "statx",
    "strlen",
    "sysconf",
    "unlink",
    "write",
    "writev",
];

/// The library also defines functions of these names, for the program: what we call by them is our
/// own all the same.
const INTERPOSED: &[&str] = &["mprotect", "prctl", "sigaltstack", "syscall"];

/// Where the standard library asks for `libgcc_s`, the linker finds the same unwinder as an
/// archive: in the shared library only, so that programs in any container can be attached to.
fn link_unwinder() -> std::io::Result<()> {
    let folder = std::env::var("OUT_DIR").unwrap_or_default();
    std::fs::write(format!("{folder}/libgcc_s.so"), "INPUT(-lgcc_eh)\n")?;
    println!("cargo:rustc-cdylib-link-arg=-L{folder}");
    Ok(())
}

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    link_unwinder()?;
    for name in INTERPOSED {
        println!(
            "cargo:rustc-cdylib-link-arg=-Wl,--wrap={name},--defsym=__wrap_{name}=fastinst_own_{name}"
        );
    }
    // Threads may be in it at any time, and the C library is registered to call its functions.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    let own = OWN.iter().map(|name| (*name, format!("fastinst_own_{name}")));
    let same = [
        ("memcpy", "fastinst_own_memmove"),
        ("bcmp", "fastinst_own_memcmp"),
        ("pthread_mutex_unlock", "fastinst_own_pthread_mutex_lock"),
        // The unwinder only tests whether it is defined: if so, the process may have threads.
        ("__pthread_key_create", "fastinst_own_pthread_once"),
    ]
    .map(|(name, to)| (name, to.to_owned()));
    for (name, to) in own.chain(same) {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--defsym={name}={to}");
    }
    Ok(())
}
