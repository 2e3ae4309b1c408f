//! A library that no compiler has prepared, all of whose sites are switched while threads are in it.
#![allow(unsafe_code)]

use super::*;
use crate::config::Provider;
use crate::runtime::sites::{self, Site};
use crate::runtime::{stub, target};
use callpatch::Switch;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use test_support::Folder;

/// What is called: a sum over functions of every kind, which is the same each time.
type Run = extern "C" fn(i32) -> i64;

const SOURCE: &str = r#"
#define HERE __attribute__((noinline, noclone))
typedef double pair __attribute__((vector_size(16)));
HERE int tiny(int a) { return a + 1; }
HERE int branch(int a) { if (a % 3 == 0) return a / 3; if (a % 5 == 1) return a - 7; return -a; }
HERE int choose(int a) {
    switch (a & 7) { case 0: return tiny(a); case 1: return a * 7; case 2: return branch(a) + 1;
                     case 3: return a ^ 0x55; case 4: return a + tiny(2); case 5: return 11; default: return branch(a); }
}
HERE long fib(int n) { if (n < 2) return n; long a = fib(n - 1), b = fib(n - 2); return a > b ? a - b : b + 1; }
HERE pair scale(pair a, pair b, double c) { pair d = {c, -c}; return a * b + d; }
HERE long many(long a, long b, long c, long d, long e, long f, long g, long h) { return a+2*b+3*c+5*d+7*e+11*f+13*g+17*h; }
static HERE long low(long a) { return a ^ (a >> 3); }
HERE long around(long a, long b, long c, long d) { long r = low(a); return r + b * 3 + c * 5 + d * 7 + low(b) + a; }
/* Far from what jumps to it: displacements have four bytes. */
#define FAR __attribute__((section(".text.far"), visibility("hidden")))
FAR HERE int far(int a) { return a * 11 + 3; }
FAR HERE int farther(int a) { return a < 0 ? a / 2 : a * 5; }
int thunk(int a);
int perhaps(int a);
__asm__(".text\n.globl thunk\n.type thunk,@function\nthunk:\n.cfi_startproc\njmp far\n.cfi_endproc\n.size thunk,.-thunk\n"
        ".globl perhaps\n.type perhaps,@function\nperhaps:\n.cfi_startproc\nmov %edi,%eax\nadd %eax,%eax\ntest %edi,%edi\n"
        "js farther\nadd $7,%edi\ncmp $30,%edi\njg far\nret\nint3\nint3\nint3\nint3\n.cfi_endproc\n.size perhaps,.-perhaps\n");
long run(int n) {
    long sum = 0;
    for (int i = 0; i < n; i++) {
        pair p = scale((pair){i, 2}, (pair){3, i}, 0.5);
        sum += thunk(i) + perhaps(i - 20) + choose(i) + fib(i & 7) + (long)(p[0] - p[1]) + many(i, 2, 3, 4, 5, 6, 7, i) + around(i, i + 1, i + 2, i + 3);
    }
    return sum;
}
"#;

/// Compiles it into a folder and loads it, for good. Nothing where there is no compiler.
fn load(name: &str, flags: &[&str]) -> Option<(Folder, PathBuf, Run)> {
    if !test_support::is_there("cc") {
        return None;
    }
    let folder = Folder::new(name);
    let (source, library) = (folder.join("library.c"), folder.join(format!("{name}.so")));
    std::fs::write(&source, SOURCE).unwrap();
    let mut cc = std::process::Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).args(flags);
    test_support::succeed(&mut cc);
    let path = CString::new(library.to_str().unwrap()).unwrap();
    // SAFETY: (1) a library of our own; (2) its function has that type.
    let run = unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        let run = libc::dlsym(handle, c"run".as_ptr());
        assert!(!run.is_null());
        std::mem::transmute::<*mut libc::c_void, Run>(run)
    };
    Some((folder, library, run))
}

/// Landings of a process are kept account of in one place, so that tests share it.
fn unmodified() -> MutexGuard<'static, Unmodified> {
    static UNMODIFIED: LazyLock<Mutex<Unmodified>> =
        LazyLock::new(|| Mutex::new(Unmodified::new(true)));
    UNMODIFIED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs probes in all functions of a library.
fn install(unmodified: &mut Unmodified, library: &Path) -> Vec<&'static Site> {
    target::prepare_tables().unwrap();
    let module = Module::loaded().into_iter().find(|module| module.path == library).unwrap();
    let policy = Policy::new().unwrap();
    unmodified.open(OpenModule::new(&module, 0, Provider::Symbols).unwrap(), &policy).unwrap();
    let all = unmodified.all(|_| true);
    let numbers = unmodified.install(&all, &policy, |_, _| true).unwrap();
    numbers.into_iter().filter_map(sites::get).collect()
}

/// How many are made: more where a storm is asked for.
fn toggles(short: u64) -> u64 {
    let long = std::env::var("FASTINST_STORM_TOGGLES").ok();
    long.map_or(short, |text| text.parse().expect("a number of toggles"))
}

/// Switches arbitrary sites while two threads do something.
fn storm(sites: &[&Site], toggles: u64, act: impl Fn() + Sync) {
    let mut random = 7u64;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    act();
                }
            });
        }
        for _ in 0..toggles {
            random = random.wrapping_mul(stub::MULTIPLIER).wrapping_add(1);
            let site = sites[(random >> 40) as usize % sites.len()];
            let to = if random >> 39 & 1 == 0 { Switch::Off } else { Switch::On };
            site.call().set(to).unwrap();
        }
        is_over.store(true, Relaxed);
    });
}

#[test]
fn threads_see_no_third_thing_while_all_sites_are_switched() {
    let mut unmodified = unmodified();
    for (name, flags) in [("storm-o2", ["-O2"]), ("storm-o0", ["-O0"]), ("storm-os", ["-Os"])] {
        let Some((_folder, library, run)) = load(name, &flags) else { return };
        let expected = run(100);
        let before = unmodified.installed.get(&(None, When::Seen)).copied().unwrap_or(0);
        let sites = install(&mut unmodified, &library);
        let installed = unmodified.installed[&(None, When::Seen)] - before;
        assert!(installed >= 7 && sites.len() >= 10, "{unmodified:?}");
        assert!(!unmodified.counted_only.contains_key(&Untimed::ConditionalExit), "{unmodified:?}");
        storm(&sites, toggles(200_000), || assert_eq!(run(100), expected));
        for site in sites {
            site.call().set(Switch::Off).unwrap();
        }
        assert_eq!(run(100), expected);
    }
}

/// What a database answers, and how.
mod database {
    use std::ffi::{CStr, CString, c_char, c_int, c_void};
    use std::path::PathBuf;

    type Row = extern "C" fn(*mut c_void, c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;

    type Open = extern "C" fn(*const c_char, *mut *mut c_void) -> c_int;
    type Exec =
        extern "C" fn(*mut c_void, *const c_char, Row, *mut c_void, *mut *mut c_char) -> c_int;
    type Close = extern "C" fn(*mut c_void) -> c_int;

    pub(super) struct Library {
        open: Open,
        exec: Exec,
        close: Close,
        pub(super) path: PathBuf,
    }

    const WORK: &str = "create table t(a integer primary key, b text); \
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 300) \
        insert into t select i, 'x' || (i * 7919 % 1007) from n; create index tb on t(b); \
        select b, count(*), sum(a) from t group by b order by 2 desc, 1 limit 20; \
        update t set b = b || 'y' where a % 3 = 0; delete from t where b like '%7_'; \
        select count(*), max(b), avg(a), hex(group_concat(b)) from t where b > 'x2'";

    extern "C" fn row(
        to: *mut c_void,
        count: c_int,
        values: *mut *mut c_char,
        _: *mut *mut c_char,
    ) -> c_int {
        for i in 0..count as usize {
            // SAFETY: (1) the text that `answer` has given; (2) so many texts, or null.
            unsafe {
                let value = *values.add(i);
                let text = if value.is_null() { c"null" } else { CStr::from_ptr(value) };
                (*to.cast::<Vec<u8>>()).extend(text.to_bytes_with_nul());
            }
        }
        0
    }

    impl Library {
        /// As it is installed, for good.
        pub(super) fn load() -> Option<Self> {
            // SAFETY: (1) an installed library; (2) its functions have these types (sqlite3.h).
            unsafe {
                let handle = libc::dlopen(c"libsqlite3.so.0".as_ptr(), libc::RTLD_NOW);
                let find = |name: &CStr| libc::dlsym(handle, name.as_ptr());
                let open = find(c"sqlite3_open");
                if handle.is_null() || open.is_null() {
                    return None;
                }
                let mut info: libc::Dl_info = std::mem::zeroed();
                libc::dladdr(open, &mut info);
                let path = CStr::from_ptr(info.dli_fname).to_str().ok()?;
                Some(Self {
                    open: std::mem::transmute::<*mut c_void, Open>(open),
                    exec: std::mem::transmute::<*mut c_void, Exec>(find(c"sqlite3_exec")),
                    close: std::mem::transmute::<*mut c_void, Close>(find(c"sqlite3_close")),
                    path: path.into(),
                })
            }
        }

        pub(super) fn answer(&self) -> Vec<u8> {
            let mut answer = Vec::new();
            let mut base = std::ptr::null_mut();
            assert_eq!((self.open)(c":memory:".as_ptr(), &mut base), 0);
            let (work, to) = (CString::new(WORK).unwrap(), (&raw mut answer).cast());
            let done = (self.exec)(base, work.as_ptr(), row, to, std::ptr::null_mut());
            assert_eq!((done, (self.close)(base)), (0, 0));
            answer
        }
    }
}

/// A thousand million with `FASTINST_STORM_TOGGLES`: minutes.
#[test]
fn an_installed_library_answers_the_same_while_all_its_sites_are_switched() {
    let library = database::Library::load();
    if !test_support::require(library.is_some(), "libsqlite3.so.0") {
        return;
    }
    let library = library.unwrap();
    let expected = library.answer();
    assert!(expected.len() > 1000);
    let mut unmodified = unmodified();
    let sites = install(&mut unmodified, &library.path);
    assert!(sites.len() > 5000, "{unmodified:?}");
    storm(&sites, toggles(1_000_000), || assert_eq!(library.answer(), expected));
    for site in sites {
        site.call().set(Switch::Off).unwrap();
    }
    assert_eq!(library.answer(), expected);
}

#[test]
fn a_function_that_was_changed_in_memory_is_refused() {
    let Some((_folder, library, run)) = load("changed", &["-O2"]) else { return };
    let at = CodeAddr::new(run as usize);
    // SAFETY: our own function, which no thread is in; put back below.
    let old = unsafe {
        let page = at.align_down(PAGE);
        let len = 2 * PAGE;
        let protection = pages::Protection::ReadWriteExecute;
        pages::protect(page, len, protection).unwrap();
        let code: *mut u8 = std::ptr::with_exposed_provenance_mut(at.get() + 6);
        (code, code.read())
    };
    // SAFETY: as above.
    unsafe { old.0.write(old.1 ^ 1) };
    let mut unmodified = unmodified();
    install(&mut unmodified, &library);
    assert_eq!(unmodified.refused.get(&Refusal::Changed), Some(&1), "{unmodified:?}");
    // SAFETY: as above.
    unsafe { old.0.write(old.1) };
}

#[test]
fn one_function_is_told_as_one() {
    let none = None::<&String>;
    assert_eq!(
        installation(none, 1, When::Seen),
        "1 function that no compiler has prepared got a probe when it was seen to run: its count begins there"
    );
    assert_eq!(
        installation(Some(&"xray"), 2, When::Beginning),
        "2 functions got probes that a compiler has prepared (xray) before the program began"
    );
}
