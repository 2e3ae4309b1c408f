//! Injecting the library into a process: the contents of a mapping are prepared, one thread is
//! stopped for two system calls, and the command then waits for the answer to its request.
//!
//! ```text
//!   look ─▶ prepare ─▶ stop ─▶ mmap ─▶ fill ─▶ clone ─▶ registers back, detached ─▶ answer, acknowledged
//!                      └──── what the program waits for ───┘
//! ```
//!
//! If the command is killed meanwhile, the stopped thread goes on by itself: `way_back.rs`.

use super::bootstrap;
use super::gap::{Gap, Gaps};
use super::loaded::{self, Loaded, Vector};
use super::safe_point;
use super::target::Target;
use super::thread_data::{Placed, ThreadData, left_behind};
use super::way_back;
use crate::command::Failure;
use fastinst::attachment::{
    self as wire, ENTRY, Functions, LOADED, LOADING, NEW, NO_ENTRY, NO_THREAD, NOT_LOADED, REFUSED,
    Request, STARTED, VERSION,
};
use std::mem::offset_of;
use std::path::Path;
use std::time::{Duration, Instant};
use wordpatch::os::maps;
use wordpatch::os::threads::Tid;
use wordpatch::os::tracing::{Memory, RemoteCall, Stopped, TraceError};

const PAGE: u64 = 4096;
/// The stack of the bootstrap thread: `pthread_create` may have to look up symbols.
const STACK: u64 = 128 << 10;
/// The stack of the profiler's own thread.
const AGENT_STACK: u64 = 1 << 20;
/// How long a thread may take to stop, unless it is in an uninterruptible sleep.
const STOPPING: Duration = Duration::from_secs(2);
/// How long the loader may take: the program may hold its lock.
const LOADING_TIME: Duration = Duration::from_secs(20);
/// How long a thread is held until the library is loaded.
const HOLDING: Duration = Duration::from_secs(1);

/// A profiler that now runs in a process.
#[derive(Debug)]
pub(super) struct Injected {
    /// How long a thread of the program was stopped.
    pub(super) stopped: Duration,
    /// From the beginning to the profiler's answer.
    pub(super) took: Duration,
    /// The descriptor of its profile, in the process.
    pub(super) handover: i32,
    request: u64,
}

/// Why nothing was injected.
#[derive(Debug)]
pub(super) enum Refused {
    /// The process executes another program than before, or its loader is not far enough: it may be
    /// inspected again.
    Unready(String),
    Failed(Failure),
}

impl Refused {
    pub(super) fn is_unready(&self) -> bool {
        matches!(self, Self::Unready(_))
    }

    pub(super) fn into_failure(self) -> Failure {
        match self {
            Self::Unready(why) => Failure::Refused(why),
            Self::Failed(failure) => failure,
        }
    }
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self::Failed(Failure::Refused(why))
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// The data about the process that are collected before it is stopped.
struct Prepared {
    vector: Vector,
    data: ThreadData,
    /// The thread data that an earlier bootstrap thread left.
    left: Option<Placed>,
    /// Where the first system call can be made.
    gaps: Gaps,
    request: Box<Request>,
    /// Where thread data begin in the mapping, which stay, and what lies before ends.
    data_at: u64,
    len: u64,
    modules: Vec<Loaded>,
}

const REQUEST_AT: u64 = PAGE;

impl Prepared {
    fn of(target: &Target, library: &Path, settings: &[String]) -> Result<Self, Refused> {
        let memory = &target.memory;
        // Memory that was opened before another program was executed can no longer be read.
        let text = |error: std::io::Error| {
            Refused::Unready(format!(
                "process {}: its memory cannot be read ({error})",
                target.process
            ))
        };
        let vector = Vector::of(target.process, target.living).map_err(text)?;
        if vector.loader == 0 {
            return Err(format!(
                "process {} is statically linked: no library can be loaded into it",
                target.process
            )
            .into());
        }
        let modules = loaded::all(memory, &vector).map_err(text)?;
        let has =
            |name: &'static str| move |module: &&Loaded| module.symbol(memory, name).is_some();
        let Some(libc) = modules.iter().skip(1).find(has("gnu_get_libc_version")) else {
            let why = format!(
                "process {} does not use glibc: the profiler needs glibc 2.34 or later",
                target.process
            );
            // Or its loader has not loaded it yet.
            return Err(Refused::Unready(why));
        };
        let functions = functions(memory, libc).ok_or_else(|| {
            format!(
                "process {} uses a glibc older than 2.34: the profiler needs 2.34 or later",
                target.process
            )
        })?;
        let loader = Loaded::at(memory, vector.loader).map_err(text)?;
        let data = ThreadData::of(memory, &modules, libc, &loader).map_err(text)?;
        let mappings =
            maps::mappings_of(target.process, target.living).map_err(|error| error.to_string())?;
        let kernel = Loaded::at(memory, vector.vdso).map_err(text)?;
        let gaps = Gaps::of(&mappings, &[&kernel, libc, &loader, &modules[0]]);
        let mut request = request(functions, library, settings)?;
        request.is_single = target.is_single().into();
        let left = left_behind(memory, &modules);
        let data_at = (REQUEST_AT + size_of::<Request>() as u64 + STACK).next_multiple_of(PAGE);
        let stays = if left.is_some() { 0 } else { data.len() as u64 };
        let len = (data_at + stays).next_multiple_of(PAGE);
        Ok(Self { vector, data, left, gaps, request, data_at, len, modules })
    }

    /// Checks that the process executes the same program as when it was inspected. While a thread
    /// is stopped, no other program is executed.
    fn require_same(&self, target: &Target) -> Result<(), Refused> {
        match Vector::of(target.process, target.living) {
            Ok(vector) if vector == self.vector => Ok(()),
            _ => Err(Refused::Unready(format!(
                "process {} has begun another program while being attached",
                target.process
            ))),
        }
    }

    /// Takes the thread data that an earlier bootstrap thread left.
    fn take_left_data(&self, target: &Target) -> Result<(), Refused> {
        match self.left.as_ref().map(|left| left.take(&target.memory)) {
            None | Some(Ok(true)) => Ok(()),
            _ => Err(Refused::Unready(format!(
                "process {} is still being attached to by a command that was killed: try again",
                target.process
            ))),
        }
    }

    /// Fills the mapping, for a thread that is stopped. Returns the call that begins it.
    fn fill(&mut self, memory: &Memory, at: u64, thread: &Stopped) -> std::io::Result<RemoteCall> {
        let pattern = thread.registers().thread_pointer();
        let data = match self.left.take() {
            Some(left) => left,
            None => self.data.placed(memory, at + self.data_at, pattern)?,
        };
        let code = [bootstrap::code(), &way_back::after_call(thread)].concat();
        let request = &mut *self.request;
        (request.mapping, request.len) = (at, self.data_at);
        request.written = self.len - REQUEST_AT;
        (request.bootstrap, request.pointer) = (data.number, data.pointer);
        // SAFETY: (1) a mapping that was made for this.
        #[allow(unsafe_code)]
        unsafe {
            memory.write(at, &code)?;
            memory.write(at + REQUEST_AT, bytes_of(request))?;
            memory.write(at + self.data_at, &data.bytes)?;
        }
        const FLAGS: libc::c_int = libc::CLONE_VM
            | libc::CLONE_FS
            | libc::CLONE_FILES
            | libc::CLONE_SIGHAND
            | libc::CLONE_THREAD
            | libc::CLONE_SYSVSEM
            | libc::CLONE_SETTLS
            | libc::CLONE_CHILD_CLEARTID;
        let stack = at + self.data_at;
        Ok(RemoteCall {
            number: libc::SYS_clone,
            arguments: [FLAGS as u64, stack, 0, data.number, data.pointer, 0],
            instruction: at,
            beside: at + REQUEST_AT,
        })
    }
}

fn bytes_of(request: &Request) -> &[u8] {
    // SAFETY: (1) a record of numbers without gaps; (2) no other thread has it.
    #[allow(unsafe_code)]
    unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(request).cast(), size_of::<Request>())
    }
}

fn functions(memory: &Memory, libc: &Loaded) -> Option<Functions> {
    let of = |name| libc.symbol(memory, name);
    // From glibc 2.34 on, the functions of threads and of the loader are in the C library itself.
    Some(Functions {
        attr_init: of("pthread_attr_init")?,
        attr_setstacksize: of("pthread_attr_setstacksize")?,
        attr_setdetachstate: of("pthread_attr_setdetachstate")?,
        create: of("pthread_create")?,
        dlopen: of("dlopen")?,
        dlsym: of("dlsym")?,
        dlerror: of("dlerror")?,
        munmap: of("munmap")?,
    })
}

fn request(
    functions: Functions,
    library: &Path,
    settings: &[String],
) -> Result<Box<Request>, String> {
    // SAFETY: (1) zeroes are a request.
    #[allow(unsafe_code)]
    let mut request: Box<Request> = unsafe { Box::new(std::mem::zeroed()) };
    (request.version, request.functions, request.stack) = (VERSION, functions, AGENT_STACK);
    request.state = NEW.into();
    request.entry[..ENTRY.len()].copy_from_slice(ENTRY);
    use std::os::unix::ffi::OsStrExt;
    if !wire::put(&mut request.library, library.as_os_str().as_bytes()) {
        return Err(format!("the path of the library is too long: {}", library.display()));
    }
    if !wire::put(&mut request.settings, settings.join("\0").as_bytes()) {
        return Err("too many patterns: give fewer or shorter ones".to_owned());
    }
    Ok(request)
}

/// Loads the library and starts the profiler.
pub(super) fn inject(
    target: &Target,
    library: &Path,
    settings: &[String],
) -> Result<Injected, Refused> {
    let begun = Instant::now();
    let mut prepared = Prepared::of(target, library, settings)?;
    // A signal that ended this command would leave instructions in the process.
    let undisturbed = wordpatch::os::signals::Blocked::all();
    prepared.gaps.clear_left(&target.memory, target.process);
    // The kernel ties a traced thread to the thread that traces it: tracing ends with this thread.
    let (at, stopped) = std::thread::scope(|scope| {
        let tracing = scope.spawn(|| clone_into(target, &mut prepared));
        tracing.join().unwrap_or_else(|_| Err("the tracing thread has panicked".to_owned().into()))
    })?;
    drop(undisturbed);
    let request = at + REQUEST_AT;
    let handover = follow(target, request).inspect_err(|_| acknowledge(target, request))?;
    Ok(Injected { stopped, took: begun.elapsed(), handover, request })
}

impl Injected {
    /// The answer was used: the request's mapping can be removed.
    pub(super) fn acknowledge(&self, target: &Target) {
        acknowledge(target, self.request);
    }
}

fn acknowledge(target: &Target, request: u64) {
    let at = request + offset_of!(Request, acknowledged) as u64;
    // SAFETY: (1) a word of the request, which its reader waits for.
    #[allow(unsafe_code)]
    let _ = unsafe { target.memory.write(at, &1u32.to_le_bytes()) };
}

/// Stops a thread, and makes it create the mapping and the bootstrap thread. Returns the address of
/// the mapping, and for how long the thread was stopped.
fn clone_into(target: &Target, prepared: &mut Prepared) -> Result<(u64, Duration), Refused> {
    let process = target.process;
    let mut thread = if target.is_single() {
        safe_point::stop(target, &prepared.modules, STOPPING, || prepared.require_same(target))?
    } else {
        Stopped::stop(Tid(target.candidate()), STOPPING).map_err(|why| explain(process, why))?
    };
    prepared.require_same(target)?;
    let memory = &target.memory;
    prepared.take_left_data(target)?;
    thread.abort_sequence(memory).map_err(|why| explain(process, why))?;
    let gap = prepared.gaps.fill(memory, &thread);
    let gap = gap.map_err(|why| format!("process {process}: {why}"))?;
    let made = begin_threads(target, prepared, &mut thread, gap);
    // The thread does not return to the gap.
    let restored = thread.restore().map_err(|why| explain(process, why));
    gap.clear(memory);
    let (at, stopped) = (made?, thread.elapsed());
    restored?;
    Ok((at, stopped))
}

/// Makes a stopped thread create the mapping and the bootstrap thread, with the instructions that
/// are in the gap. Returns the address of the mapping.
fn begin_threads(
    target: &Target,
    prepared: &mut Prepared,
    thread: &mut Stopped,
    gap: Gap,
) -> Result<u64, Refused> {
    let process = target.process;
    let map = RemoteCall {
        number: libc::SYS_mmap,
        arguments: [
            0,
            prepared.len,
            (libc::PROT_READ | libc::PROT_EXEC) as u64,
            (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64,
            !0,
            0,
        ],
        instruction: gap.at,
        beside: 0,
    };
    // SAFETY: (1) a new mapping, which no code of the process knows; (2) the way back follows.
    #[allow(unsafe_code)]
    let at = unsafe { thread.call(&map) }.map_err(|why| explain(process, why))?;
    let at = kernel_s_answer(process, "mmap", at)?;
    let call = RemoteCall {
        number: libc::SYS_munmap,
        arguments: [at, prepared.len, 0, 0, 0, 0],
        instruction: gap.at,
        beside: 0,
    };
    let unmap = |thread: &mut Stopped| {
        // SAFETY: (1) the mapping that was made above; (2) the way back follows.
        #[allow(unsafe_code)]
        let _ = unsafe { thread.call(&call) };
    };
    let clone = match prepared.fill(&target.memory, at, thread) {
        Ok(clone) => clone,
        Err(error) => {
            unmap(thread);
            let why = format!("process {process}: its memory cannot be written ({error})");
            return Err(why.into());
        }
    };
    // SAFETY: (1) a thread of ours, on a stack and thread data of its own; (2) the way back follows
    // for the one that makes the call.
    #[allow(unsafe_code)]
    let made = unsafe { thread.call(&clone) }.map_err(|why| explain(process, why))?;
    if let Err(why) = kernel_s_answer(process, "clone", made) {
        unmap(thread);
        return Err(why.into());
    }
    if target.is_single() {
        hold(target, at + REQUEST_AT);
    }
    Ok(at)
}

/// Waits until the library is loaded, or loading it has failed.
fn hold(target: &Target, request: u64) {
    let end = Instant::now() + HOLDING;
    while Instant::now() < end {
        match state(target, request) {
            Some(NEW | LOADING) => std::thread::sleep(Duration::from_micros(20)),
            _ => return,
        }
    }
}

fn kernel_s_answer(process: i32, call: &str, answer: i64) -> Result<u64, String> {
    const ERRORS: i64 = -4096;
    if !(ERRORS..0).contains(&answer) {
        return Ok(answer as u64);
    }
    let error = std::io::Error::from_raw_os_error(-answer as i32);
    let limit = match (call, -answer as i32) {
        ("mmap", libc::ENOMEM) => ": its address space is limited (ulimit -v)",
        ("clone", libc::EAGAIN) => {
            ": its number of threads is limited (ulimit -u, or a control group)"
        }
        _ => "",
    };
    Err(format!("process {process}: {call}: {error}{limit}"))
}

pub(super) fn explain(process: i32, why: TraceError) -> String {
    match why {
        TraceError::Ended => format!("process {process} ended while being attached"),
        TraceError::Halted => {
            format!("process {process} is stopped: continue it (kill -CONT {process})")
        }
        TraceError::Sleeps => {
            format!(
                "process {process} does not stop, because it is in an uninterruptible sleep; try again"
            )
        }
        TraceError::Narrow => {
            format!("process {process} executes 32-bit code: only x86-64 is supported")
        }
        other => format!("process {process} cannot be traced: {other}"),
    }
}

fn state(target: &Target, request: u64) -> Option<u32> {
    number(target, request, offset_of!(Request, state))
}

fn number(target: &Target, request: u64, field: usize) -> Option<u32> {
    let mut bytes = [0; 4];
    target.memory.read(request + field as u64, &mut bytes).ok()?;
    Some(u32::from_le_bytes(bytes))
}

/// Waits for the answer: the descriptor of the profile, or why there is none.
fn follow(target: &Target, request: u64) -> Result<i32, String> {
    let process = target.process;
    let ended = || format!("process {process} ended while being attached");
    let begun = Instant::now();
    let mut is_told = false;
    loop {
        let state = state(target, request).ok_or_else(ended)?;
        match state {
            NEW | LOADING | LOADED => {}
            STARTED => {
                let field = offset_of!(Request, handover);
                return number(target, request, field).map(|fd| fd as i32).ok_or_else(ended);
            }
            NO_THREAD => {
                let code = number(target, request, offset_of!(Request, error)).unwrap_or(0);
                let error = std::io::Error::from_raw_os_error(code as i32);
                return Err(format!("process {process} cannot create a thread: {error}"));
            }
            NOT_LOADED | NO_ENTRY => {
                let why = answer(target, request);
                return Err(why_not_loaded(process, &why));
            }
            REFUSED => return Err(format!("process {process}: {}", answer(target, request))),
            _ => return Err(format!("process {process} gave an unknown answer")),
        }
        if begun.elapsed() > LOADING_TIME {
            return Err(format!(
                "process {process} has not loaded the library in {} s: it is loading one itself, or gets no CPU time; it will be profiled once the library is loaded",
                LOADING_TIME.as_secs()
            ));
        }
        if !is_told && begun.elapsed() > Duration::from_secs(2) {
            is_told = true;
            crate::command::say(&format!("waiting for the loader of process {process}"));
        }
        std::thread::sleep(Duration::from_micros(if begun.elapsed().as_millis() < 20 {
            50
        } else {
            1000
        }));
    }
}

fn answer(target: &Target, request: u64) -> String {
    let at = request + offset_of!(Request, answer) as u64;
    let text = target.memory.text(at, 4096).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// The loader's error message, and what to do about it.
fn why_not_loaded(process: i32, why: &str) -> String {
    let remedy = if why.contains("static TLS") {
        ": other libraries have used up the loader's static TLS space; start the program with GLIBC_TUNABLES=glibc.rtld.optional_static_tls=2048, or with fastinst run"
    } else if why.contains("version `GLIBC_") {
        ": its C library is older than the one that the profiler was built for"
    } else if why.contains("failed to map segment") {
        ": the folder is mounted noexec; name another with --place FOLDER"
    } else if why.is_empty() {
        "the loader gave no reason"
    } else {
        ""
    };
    format!("process {process} cannot load the library: {why}{remedy}")
}
