//! Thread data for a thread that the C library has not created: as much of it as `pthread_create`
//! reads.
//!
//! ```text
//!   … │ data of the modules, at their distances │ struct pthread, zeroes │ table of the modules' data
//!                                               ▲ thread pointer
//! ```
//!
//! - its own thread ID, which the loader's locks store as their owner (0 would be a free lock);
//! - the stack and pointer guards, which are the same in all threads of the process;
//! - the initial contents of all modules' thread data: the C library's own (its locale is a pointer
//!   there), and those of an allocator that `pthread_create` may call;
//! - a table of modules' data that is large enough never to be enlarged, which would be `realloc`;
//! - a CPU number that means "unknown", for allocators that use it (rseq).
//!
//! The offsets of all of this in glibc are published for its debugger library by symbols
//! (`_thread_db_…`).

use super::loaded::{Loaded, word};
use fastinst::attachment::THREAD_DATA;
use std::io;
use wordpatch::os::tracing::Memory;

/// Slots of the table of modules' data.
const SLOTS: usize = 1024;
/// Thread data of libraries that are loaded later (1,664 bytes unless a tunable says more).
const SURPLUS: u64 = 4096;
/// How much the data of all modules may take.
const MOST: u64 = 1 << 24;
/// At offsets from the thread pointer: to itself, the table, itself again, whether there are
/// several threads, the guards (sysdeps/x86_64/nptl/tls.h).
const TCB: usize = 0;
const TABLE: usize = 8;
const ITSELF: usize = 0x10;
const SEVERAL: usize = 0x18;
const GUARD: usize = 0x28;
const POINTER_GUARD: usize = 0x30;

/// The layout and contents of a thread's data.
#[derive(Debug)]
pub(super) struct ThreadData {
    /// Bytes below the thread pointer.
    below: u64,
    /// Bytes of `struct pthread`.
    record: u64,
    /// The offset of its thread ID in that.
    number_at: u64,
    /// Where the kernel stores its CPU number, relative to the thread pointer.
    processor_at: Option<i64>,
    /// The modules' initial contents, by their distance below the thread pointer; with the modules'
    /// numbers.
    parts: Vec<(u64, u64, Vec<u8>)>,
}

/// Thread data at an address.
#[derive(Debug)]
pub(super) struct Placed {
    /// Empty if they are there already.
    pub(super) bytes: Vec<u8>,
    pub(super) pointer: u64,
    pub(super) number: u64,
}

/// Thread data that an earlier bootstrap thread has left. Allocators keep lists of their threads:
/// they take the new thread for that one.
pub(super) fn left_behind(memory: &Memory, modules: &[Loaded]) -> Option<Placed> {
    let at = modules.iter().find_map(|module| module.symbol(memory, THREAD_DATA))?;
    let [pointer, number] = [0, 8].map(|offset| memory.word(at + offset).unwrap_or(0));
    let left = Placed { bytes: Vec::new(), pointer, number };
    (pointer != 0 && number != 0 && left.are_free(memory).unwrap_or(false)).then_some(left)
}

impl Placed {
    /// Whether no thread has them: its ID is zero there before it is created, and after it has
    /// ended.
    fn are_free(&self, memory: &Memory) -> io::Result<bool> {
        let mut number = [0; 4];
        memory.read(self.number, &mut number)?;
        Ok(number == [0; 4])
    }

    /// Takes them for a thread that is to be created, unless another one has them: that of a
    /// command that was killed, and which may begin at any time. If no thread is created after all,
    /// they stay taken, and the next one has data of its own.
    pub(super) fn take(&self, memory: &Memory) -> io::Result<bool> {
        // The thread replaces it by its own ID.
        const TAKEN: u32 = 1;
        let are_free = self.are_free(memory)?;
        if are_free {
            // SAFETY: (1) the ID of a thread that does not exist yet.
            #[allow(unsafe_code)]
            unsafe {
                memory.write(self.number, &TAKEN.to_le_bytes())?;
            };
        }
        Ok(are_free)
    }
}

impl ThreadData {
    /// Reads them from a process. `libc` and `loader` are modules of it.
    pub(super) fn of(
        memory: &Memory,
        modules: &[Loaded],
        libc: &Loaded,
        loader: &Loaded,
    ) -> io::Result<Self> {
        let missing = |name: &str| io::Error::other(format!("its C library has no {name}"));
        let descriptor = |name: &str| {
            let at = libc.symbol(memory, name).ok_or_else(|| missing(name))?;
            memory.word(at + 8).map(|word| word & 0xffff_ffff)
        };
        let record = libc.symbol(memory, "_thread_db_sizeof_pthread");
        let record = record.ok_or_else(|| missing("_thread_db_sizeof_pthread"))?;
        let record = (memory.word(record)? & 0xffff_ffff).next_multiple_of(64);
        let number_at = descriptor("_thread_db_pthread_tid")?;
        let distance_at = descriptor("_thread_db_link_map_l_tls_offset")?;
        let module_at = descriptor("_thread_db_link_map_l_tls_modid")?;
        let processor_at = loader
            .symbol(memory, "__rseq_offset")
            .map(|at| memory.word(at))
            .transpose()?
            .map(|offset| offset as i64);
        let mut parts = Vec::new();
        for module in modules {
            let Some(image) = module.image else { continue };
            let distance = memory.word(module.record + distance_at)?;
            let number = memory.word(module.record + module_at)?;
            // Zero: it has none yet. All ones: it is reached only by the table, when a thread uses
            // it.
            if distance == 0 || distance > MOST || image.len > MOST || number == 0 {
                continue;
            }
            let mut bytes = vec![0; image.len as usize];
            let filled = image.filled.min(image.len) as usize;
            memory.read(image.at, &mut bytes[..filled])?;
            parts.push((number, distance, bytes));
        }
        let below = parts.iter().map(|(_, distance, _)| *distance).max().unwrap_or(0);
        // Libraries that are loaded later get their thread data there, too.
        let below = below.next_multiple_of(64) + SURPLUS;
        if record > 1 << 16 || number_at + 4 > record {
            return Err(io::Error::other("its C library is none that is known"));
        }
        Ok(Self { below, record, number_at, processor_at, parts })
    }

    /// How many bytes they take.
    pub(super) fn len(&self) -> usize {
        (self.below + self.record) as usize + (SLOTS + 2) * 16
    }

    /// Makes them, for an address that is a multiple of 64. `pattern` is the thread pointer of a
    /// thread of the process.
    pub(super) fn placed(&self, memory: &Memory, at: u64, pattern: u64) -> io::Result<Placed> {
        let mut bytes = vec![0; self.len()];
        let pointer = at + self.below;
        let tcb = self.below as usize;
        for (_, distance, part) in &self.parts {
            let from = tcb - *distance as usize;
            let end = (from + part.len()).min(tcb);
            bytes[from..end].copy_from_slice(&part[..end - from]);
        }
        let table = tcb + self.record as usize + 16;
        let mut set = |offset: usize, value: u64| {
            bytes[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
        };
        set(tcb + TCB, pointer);
        set(tcb + TABLE, at + table as u64);
        set(tcb + ITSELF, pointer);
        set(tcb + SEVERAL, 1);
        let mut head = [0; 0x38];
        memory.read(pattern, &mut head)?;
        for guard in [GUARD, POINTER_GUARD] {
            set(tcb + guard, word(&head, guard).unwrap_or(0));
        }
        // The table: how many slots, its generation, and where each module's data lie.
        set(table - 16, SLOTS as u64);
        set(table, memory.word(word(&head, TABLE).unwrap_or(0)).unwrap_or(0));
        for slot in 1..=SLOTS {
            set(table + slot * 16, !0);
        }
        for (number, distance, _) in &self.parts {
            if *number <= SLOTS as u64 {
                set(table + *number as usize * 16, pointer - distance);
            }
        }
        if let Some(offset) = self.processor_at {
            let cpu = tcb as i64 + offset + 4;
            if let Some(field) =
                usize::try_from(cpu).ok().and_then(|cpu| bytes.get_mut(cpu..cpu + 4))
            {
                field.copy_from_slice(&(-1i32).to_le_bytes());
            }
        }
        Ok(Placed { bytes, pointer, number: pointer + self.number_at })
    }
}
