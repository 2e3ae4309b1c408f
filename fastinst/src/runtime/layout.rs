//! The memory that the stubs' assembly and Rust agree on.
//!
//! ```text
//!   a thread's block, one mapping:
//!   ┌────────┬──────────────────┬───────────────────────────────────────────┬───────────────────┬───────────────────────────┐
//!   │ header │ ring: those done │ records: one for each function, by number │ sums: pointers │ frames: calls being timed │
//!   └────────┴──────────────────┴───────────────────────────────────────────┴───────────────────┴───────────────────────────┘
//!   0        RING               RECORDS                                     RECORDS + reserved  behind a pointer a record
//! ```
//!
//! Records and sums have memory for as many functions as [`Header::capacity`] says. Where
//! functions are found while threads run, address space for more follows each: see
//! [`room`](super::threads::room).
//!
//! A block is written by its thread, without locked instructions. The agent reads counts and the
//! ring. Both take entries out of the ring, as [`drain`](super::drain) says: its tail is the only
//! word that both write. Frames are address space for a recursion as deep as stacks are; their
//! pages are made by the first call that is so deep. Signal handlers interrupt the thread anywhere
//! and return: so every place is taken by one instruction (`add`, `xadd`) before it is filled.
//!
//! A thread's *own clock* is the time stamp counter less [`Header::hidden`], the time that
//! measuring has taken. It stands still while a call is being accounted for, so hooks take no time
//! of the calls that they lie in. All durations are by this clock.

use std::mem::offset_of;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

/// A call that is being timed, or whose exit has to be distinguished from that of one that is.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Frame {
    /// The stack pointer of the enter hook.
    pub(crate) sp: AtomicU64,
    /// When the call was entered, by the thread's own clock; zero if it is not timed.
    pub(crate) time: AtomicU64,
    /// Its function, as the offset of its record.
    pub(crate) record: AtomicU32,
    /// The term of its function that it was entered in.
    pub(crate) term: AtomicU32,
    /// What the timed calls directly inside of it took, without the time that is measured for a
    /// call that does nothing.
    pub(crate) children: AtomicU64,
}

/// An open call of a function that a [scope](super::scope) follows.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Followed {
    /// The stack pointer of the enter hook.
    pub(crate) sp: AtomicU64,
    /// Its function, as the offset of its record.
    pub(crate) record: AtomicU32,
    pub(crate) unused: AtomicU32,
}

/// A timed call that is done.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Entry {
    /// Stored last: the offset of its function's record, a multiple of 32; in the lowest five bits
    /// the lap of the ring that the entry belongs to; in the highest whether no other call of the
    /// function was open around it.
    pub(crate) ready: AtomicU32,
    pub(crate) unused: AtomicU32,
    /// How long it took, with the time that is measured for a call that does nothing. Never less
    /// than that and the calls inside.
    pub(crate) ticks: AtomicU64,
    /// What the timed calls directly inside took.
    pub(crate) children: AtomicU64,
    /// Where it was called: a return address.
    pub(crate) call_site: AtomicU64,
}

/// What a thread knows about a function.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Record {
    /// The function's address; zero before the thread's first call. Stubs compare it with the
    /// address that the hook receives.
    pub(crate) address: AtomicU64,
    /// Entries, counted by every stub.
    pub(crate) count: AtomicU64,
    /// Calls to leave out before the next that is timed.
    pub(crate) skip: AtomicI32,
    /// Calls to time before the function retires.
    pub(crate) left: AtomicI32,
    /// The term that `skip`, `left` and `open` belong to.
    pub(crate) term: AtomicU32,
    /// Its frames on this thread.
    pub(crate) open: AtomicU32,
}

/// What all threads know about a function.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) address: AtomicU64,
    /// The current term, or the last one. It grows by [`EPOCH`] where its exits are switched off.
    pub(crate) term: AtomicU32,
    /// Calls to time in a term, on each thread.
    pub(crate) quota: AtomicI32,
    /// How many calls are left out between two that are timed: 256 equally likely numbers.
    pub(crate) skips: AtomicPtr<super::skip::Table>,
    /// Entries that found no record: on a thread that is ending, or in a hook that interrupted
    /// another.
    pub(crate) late: AtomicU64,
    /// Which party switches its sites.
    pub(crate) ownership: callpatch::Ownership,
    /// What its enter sites do when it is retired: see [`Rest`](profiler::Rest).
    pub(crate) rest: AtomicU32,
    /// When it retired.
    pub(crate) retired_at: AtomicU64,
    /// When its sites were switched on for the term.
    pub(crate) armed_at: AtomicU64,
    pub(crate) sites: AtomicPtr<super::sites::SiteList>,
}

/// A thread's block begins with this.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Header {
    /// The end of the topmost frame.
    pub(crate) top: AtomicPtr<Frame>,
    /// Where frames end.
    pub(crate) limit: AtomicPtr<Frame>,
    /// The time that measuring has taken on this thread: how far its own clock is behind the
    /// counter.
    pub(crate) hidden: AtomicU64,
    /// The part of it in which the thread did not run, but waited for a CPU in the middle of an
    /// event.
    pub(crate) waited: AtomicU64,
    /// Entries taken in the ring. It begins with one lap, so that memory of zeros belongs to no lap
    /// in use.
    pub(crate) head: AtomicU64,
    /// Calls that the timing stub has left out: their cost is not the program's time.
    pub(crate) skipped: AtomicU64,
    /// A multiplicative random generator.
    pub(crate) random: AtomicU64,
    /// How many bytes of its records have memory. It only grows.
    pub(crate) capacity: AtomicU64,
    /// How many bytes of its records have address space.
    pub(crate) reserved: AtomicU64,
    /// The stack pointer of the event that it is in the middle of, on the slow path; zero if it is
    /// in none.
    pub(crate) busy: AtomicU64,
    /// The frame of the event of registered code that it is in the middle of; zero if it is in
    /// none.
    pub(crate) in_code: AtomicU64,
    /// | value | meaning | changed by |
    /// |---|---|---|
    /// | 0 free | no thread's | the agent, from ended, when it has taken the contents |
    /// | 1 live | its thread writes | a thread that takes it, from free |
    /// | 2 ended | its thread has ended | its thread, at its end |
    pub(crate) state: AtomicU32,
    /// Timed calls that never ended, or for which there was no memory.
    pub(crate) lost: AtomicU32,
    pub(crate) next: AtomicPtr<Header>,
    pub(crate) mapped: AtomicU64,
    /// How many of its bytes have memory.
    pub(crate) usable: AtomicU64,
    /// Rounds of thread-specific destructors that it has seen.
    pub(crate) farewells: AtomicU32,
    /// The CPU time of its thread, and of those that had it before.
    pub(crate) clock: super::clock::ThreadClock,
    /// Where its sums get their memory.
    pub(crate) slab: AtomicPtr<super::thread_sums::Slab>,
    /// Foldings of entries into sums that were begun, and that are over.
    pub(crate) begun: AtomicU64,
    /// See `begun`.
    pub(crate) done: AtomicU64,
    /// How many of them the agent has taken. By the agent.
    pub(crate) looked: AtomicU64,
    /// The open passes of pairs of points, and their number.
    pub(crate) open_passes: AtomicU32,
    pub(crate) passes: [Pass; PASSES],
    /// Calls that are followed: their first entry, where the next one is put, and where the room
    /// ends. Null if no scope is used.
    pub(crate) scope_base: AtomicPtr<Followed>,
    /// See `scope_base`.
    pub(crate) scope_top: AtomicPtr<Followed>,
    /// See `scope_base`.
    pub(crate) scope_limit: AtomicPtr<Followed>,
    /// The term of its thread's [signal stack](super::signal_stack), in the upper bits.
    pub(crate) stack_term: AtomicU64,
    /// Pages that are known not to be part of that stack.
    pub(crate) clear: [Clear; CLEARS],
    /// On cache lines of its own: the first line holds what its thread writes all the time.
    pub(crate) drained: Drained,
}

/// A page that is no part of its thread's [signal stack](super::signal_stack).
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Clear {
    /// The page's number, and the term in which this holds.
    pub(crate) key: AtomicU64,
    /// The stack, as the kernel has reported it: a `stack_t`.
    pub(crate) start: AtomicUsize,
    pub(crate) flags: AtomicU32,
    pub(crate) size: AtomicUsize,
}

/// How many pages are known, each in the entry that its number selects.
pub(crate) const CLEARS: usize = 8;

/// A pass of a pair of points that has begun, or a call whose arguments are read.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Pass {
    /// When, by the thread's own clock.
    pub(crate) time: AtomicU64,
    /// The row of the point where it began, as the offset of its record.
    pub(crate) record: AtomicU32,
    /// The term of that row.
    pub(crate) term: AtomicU32,
    /// For a call whose arguments are read: where its return address lies; otherwise zero.
    pub(crate) frame: AtomicU64,
    /// The cell of its arguments.
    pub(crate) cell: AtomicU32,
    /// The term of the function when it began: if its epoch is over, the end was missed.
    pub(crate) began_in: AtomicU32,
}

/// How many passes of a thread may be open.
pub(crate) const PASSES: usize = 64;

/// Fields that the agent writes, too.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Drained {
    /// Entries that were taken out of the ring.
    pub(crate) tail: AtomicU64,
}

pub(crate) const FREE: u32 = 0;
pub(crate) const LIVE: u32 = 1;
pub(crate) const ENDED: u32 = 2;

pub(crate) const FRAME: usize = size_of::<Frame>();
pub(crate) const FOLLOWED: usize = size_of::<Followed>();
/// The lowest frame is a wall: its stack pointer lies above all others. A frame of a program that
/// has probes takes 32 bytes of its stack at least, and stacks have eight megabytes.
pub(crate) const FRAME_COUNT: usize = 1 << 18;
/// The number of frames where address space for so many is not available.
pub(crate) const FEW_FRAMES: usize = 1 << 10;
pub(crate) const RING: usize = 4096;
pub(crate) const ENTRY: usize = size_of::<Entry>();
pub(crate) const RING_COUNT: usize = 1024;
/// The highest bit of [`Entry::ready`].
pub(crate) const OUTERMOST: u32 = 1 << 31;
/// Its lowest bits.
pub(crate) const LAPS: u32 = RECORD as u32 - 1;
/// When so many entries are taken, the ring is treated as full. A signal handler may run between
/// checking and taking, and take the last one itself; so some are left for as many handlers as
/// interrupt each other.
pub(crate) const RING_ROOM: usize = RING_COUNT - 32;
pub(crate) const RECORDS: usize = RING + ENTRY * RING_COUNT;
pub(crate) const RECORD: usize = size_of::<Record>();
pub(crate) const FUNCTION: usize = size_of::<Function>();
/// The distance of terms between which exits were off. A frame of an earlier epoch has missed its
/// exit. If a function is armed so often without being off, a call that is open then is lost.
pub(crate) const EPOCH: u32 = 1 << 12;

// What the assembly assumes.
const _: () = assert!(size_of::<Clear>() == 1 << 5 && CLEARS.is_power_of_two());
const _: () = assert!(
    offset_of!(Clear, flags) - offset_of!(Clear, start) == offset_of!(libc::stack_t, ss_flags)
        && offset_of!(Clear, size) - offset_of!(Clear, start) == offset_of!(libc::stack_t, ss_size)
);
const _: () = assert!(FRAME == 32 && ENTRY == 32 && RECORD == 32 && FUNCTION == 64);
const _: () = assert!(RING_COUNT.is_power_of_two() && size_of::<Header>() <= RING);

/// The size of what lies before the frames, for records of that size.
pub(crate) const fn before_frames(records: usize) -> usize {
    RECORDS + records + records / RECORD * size_of::<usize>()
}

/// The lowest bits of [`Entry::ready`] in the lap of that entry.
pub(crate) const fn lap(number: u64) -> u32 {
    (number / RING_COUNT as u64) as u32 & LAPS
}

impl Header {
    fn at<'b, T>(&self, offset: usize) -> &'b T {
        let place = std::ptr::from_ref(self).addr() + offset;
        // SAFETY: (1) every block is mapped up to the end of its records and never unmapped; (2)
        // all fields are atomics; (3) the callers below stay inside and aligned.
        #[allow(unsafe_code)]
        unsafe {
            &*std::ptr::with_exposed_provenance(place)
        }
    }

    /// The record of that offset; `None` if the block is too small for it.
    pub(crate) fn record<'b>(&self, offset: u32) -> Option<&'b Record> {
        use std::sync::atomic::Ordering::Relaxed;
        (u64::from(offset) < self.capacity.load(Relaxed))
            .then(|| self.at(RECORDS + offset as usize))
    }

    pub(crate) fn entry<'b>(&self, number: u64) -> &'b Entry {
        self.at(RING + (number as usize % RING_COUNT) * ENTRY)
    }

    /// The pointer to the sums of the function whose record lies at that offset; `None` as for
    /// [`Self::record`].
    pub(crate) fn sums<'b>(
        &self,
        offset: u32,
    ) -> Option<&'b AtomicPtr<super::thread_sums::FunctionSums>> {
        use std::sync::atomic::Ordering::Relaxed;
        let reserved = self.reserved.load(Relaxed) as usize;
        let place = RECORDS + reserved + offset as usize / RECORD * size_of::<usize>();
        (u64::from(offset) < self.capacity.load(Relaxed)).then(|| self.at(place))
    }

    pub(crate) fn frame<'b>(&self, index: usize) -> &'b Frame {
        debug_assert!(index < FRAME_COUNT, "frame {index}");
        self.at(before_frames(self.reserved.load(std::sync::atomic::Ordering::Relaxed) as usize)
            + index * FRAME)
    }
}
