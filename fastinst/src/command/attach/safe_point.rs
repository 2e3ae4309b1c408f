//! Safe points: where a single-threaded program can be stopped while another thread loads a
//! library.
//!
//! As long as a process has one thread, the C library takes no locks: malloc changes its lists as
//! if no other code could run. So the thread must not be stopped inside malloc. It is also held
//! until the library is loaded, since it may still act on what it has read before ("there is one
//! thread"). Its calls are found by unwind information: words of the stack that look like return
//! addresses may be stale.

use super::injection::{Refused, explain};
use super::loaded::Loaded;
use super::target::Target;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder};
use std::ops::Range;
use std::time::{Duration, Instant};
use wordpatch::os::threads::Tid;
use wordpatch::os::tracing::{Memory, Registers, Stopped};

/// Functions of allocators, in any module that defines them.
const ALLOCATORS: [&str; 14] = [
    "malloc",
    "free",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "malloc_trim",
    "malloc_usable_size",
    "mallinfo2",
    "cfree",
];
/// The most calls of a stack.
const FRAMES: usize = 1024;
/// How long a safe point is searched for, and how long the program runs between two attempts.
const LOOKING: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_micros(200);

/// Ranges of code in which a single-threaded program is not held.
struct Places {
    /// The allocators, and all of the loader.
    forbidden: Vec<Range<u64>>,
    /// The C library: it is interrupted in system calls only.
    libraries: Vec<Range<u64>>,
}

impl Places {
    fn of(memory: &Memory, modules: &[Loaded]) -> Self {
        let allocators = modules
            .iter()
            .flat_map(|module| ALLOCATORS.iter().filter_map(|name| module.function(memory, name)));
        let is = |name: &'static str| move |module: &&Loaded| module.symbol(memory, name).is_some();
        let loaders = modules.iter().filter(is("_r_debug")).map(Loaded::span);
        let forbidden = allocators.chain(loaders).collect();
        let libraries = modules.iter().skip(1).filter(is("malloc")).map(Loaded::span).collect();
        Self { forbidden, libraries }
    }

    /// Whether a thread may be held here. `is_in_call`: it is just after a `syscall` instruction.
    fn allow(&self, frames: &[u64], is_in_call: bool) -> bool {
        let within =
            |ranges: &[Range<u64>], at: u64| ranges.iter().any(|range| range.contains(&at));
        let first = frames.first().copied().unwrap_or(0);
        (is_in_call || !within(&self.libraries, first))
            && frames.iter().all(|&at| !within(&self.forbidden, at))
    }
}

/// Stops the only thread of a process where it may be held, as long as the process executes the
/// `same` program as when its modules were read.
pub(super) fn stop(
    target: &Target,
    modules: &[Loaded],
    patience: Duration,
    same: impl Fn() -> Result<(), Refused>,
) -> Result<Stopped, Refused> {
    let process = target.process;
    let places = Places::of(&target.memory, modules);
    let mut unwinding = Unwinding::of(&target.memory, modules);
    let end = Instant::now() + LOOKING;
    loop {
        let stopped = Stopped::stop(Tid(target.candidate()), patience)
            .map_err(|why| explain(process, why))?;
        if let Some((frames, is_in_call)) = unwinding.walk(stopped.registers())
            && places.allow(&frames, is_in_call)
        {
            return Ok(stopped);
        }
        drop(stopped);
        same()?;
        if Instant::now() > end {
            return Err(format!(
                "process {process} has one thread, which was in its allocator, in the loader or in code without unwind information at every attempt: try again, or start it with fastinst run"
            )
            .into());
        }
        std::thread::sleep(PAUSE);
    }
}

struct Unwinding<'m> {
    memory: &'m Memory,
    unwinder: UnwinderX86_64<Vec<u8>>,
    cache: Box<CacheX86_64>,
}

impl<'m> Unwinding<'m> {
    fn of(memory: &'m Memory, modules: &[Loaded]) -> Self {
        let mut unwinder = UnwinderX86_64::new();
        for module in modules {
            if let Some(module) = described(memory, module) {
                unwinder.add_module(module);
            }
        }
        Self { memory, unwinder, cache: Box::default() }
    }

    /// The addresses of a thread's calls, innermost first, and whether the innermost is a system
    /// call; `None` if the stack cannot be unwound to its end.
    fn walk(&mut self, start: &Registers) -> Option<(Vec<u64>, bool)> {
        const SYSCALL: [u8; 2] = [0x0f, 0x05];
        let (ip, sp, bp) = (start.instruction(), start.stack(), start.frame());
        let mut code = [0; 2];
        let is_in_call = self.memory.read(ip.wrapping_sub(2), &mut code).is_ok() && code == SYSCALL;
        let memory = self.memory;
        let mut read = |at: u64| memory.word(at).map_err(drop);
        let registers = UnwindRegsX86_64::new(ip, sp, bp);
        let mut frames = Vec::new();
        let mut calls = self.unwinder.iter_frames(ip, registers, &mut self.cache, &mut read);
        loop {
            match calls.next() {
                Ok(Some(frame)) if frames.len() < FRAMES => {
                    frames.push(frame.address_for_lookup());
                }
                Ok(None) => return Some((frames, is_in_call)),
                _ => return None,
            }
        }
    }
}

/// A module's unwind information, from memory: the index, and the frames that it points to up to
/// the end of its segment.
fn described(memory: &Memory, module: &Loaded) -> Option<Module<Vec<u8>>> {
    let (index, segment) = module.unwind_index()?;
    let read = |range: &Range<u64>| {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        memory.read(range.start, &mut bytes).ok().map(|()| bytes)
    };
    let index_bytes = read(&index)?;
    // The index begins with the encodings of its pointers; the first pointer is to the information
    // (Linux Standard Base, 10.6.2). 0x1b: four bytes, relative to their own address.
    const FROM_HERE: u8 = 0x1b;
    if index_bytes.get(1) != Some(&FROM_HERE) {
        return None;
    }
    let distance = i32::from_le_bytes(index_bytes.get(4..8)?.try_into().ok()?);
    let frames_at = (index.start + 4).wrapping_add_signed(distance.into());
    if !segment.contains(&frames_at) {
        return None;
    }
    let frames = frames_at..segment.end;
    let svma = |range: &Range<u64>| {
        range.start.wrapping_sub(module.bias)..range.end.wrapping_sub(module.bias)
    };
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0,
        eh_frame_svma: Some(svma(&frames)),
        eh_frame: Some(read(&frames)?),
        eh_frame_hdr_svma: Some(svma(&index)),
        eh_frame_hdr: Some(index_bytes),
        ..ExplicitModuleSectionInfo::default()
    };
    Some(Module::new(String::new(), module.span(), module.bias, sections))
}
