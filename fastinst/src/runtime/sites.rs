//! The table of sites: the calls and jumps that were redirected to trampolines of their own.
//!
//! The agent fills it, under one lock; hooks only read. A site's function is the one that its hook
//! receives. Discovery's guess is the first answer; where a hook receives another function, the
//! agent learns that from [`lessons`].
//!
//! # Safety
//!
//! This module hands out references into mappings that live as long as the process.
#![allow(unsafe_code)]

use super::functions::Id;
use super::registered::{self, Registration};
use super::stub::Stub;
use crate::probe::{Kind, ProbeId};
use callpatch::{CallSite, Gate, Slot, SlotPair, Switch};
use std::cell::UnsafeCell;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};
use wordpatch::CodeAddr;
use wordpatch::os::OsError;
use wordpatch::os::pages::{self, Place, Protection};

/// Sites are allocated in chunks, so that a program with few takes little address space.
const CHUNK: usize = 1 << 10;
const CHUNKS: usize = 1 << 9;
/// How many sites can exist.
pub(crate) const MOST: usize = CHUNK * CHUNKS;

/// The function of a site whose function is unknown.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// How a site is installed: where it is, and what it leads to.
#[derive(Debug)]
pub(crate) struct InstalledSite {
    pub(crate) call: CallSite,
    /// The jump past the counter that an entry site's trampoline begins with; while it is off,
    /// entries are counted there.
    pub(crate) gate: Option<Gate>,
    /// Where its trampoline leads, and the offset of its function's record.
    pub(crate) slots: SlotPair,
    pub(crate) trampoline: CodeAddr,
    /// Where the instruction led before, or its padding would.
    pub(crate) home: CodeAddr,
    /// Whether it lies in code that no compiler has prepared: its stubs preserve all registers.
    pub(crate) is_pun: bool,
    /// Whether it is a point: passes of a pair begin there, and no call.
    pub(crate) is_point: bool,
}

impl InstalledSite {
    /// A site in code that no compiler has prepared, which is no point and counts nothing in line.
    pub(crate) fn in_unmodified(call: CallSite, slots: SlotPair, trampoline: CodeAddr) -> Self {
        let home = call.destination().address();
        Self { call, gate: None, slots, trampoline, home, is_pun: true, is_point: false }
    }
}

/// One site.
#[derive(Debug)]
pub(crate) struct Site {
    /// Replaced when its module is loaded again: see [`Site::reinstall`].
    installed: UnsafeCell<InstalledSite>,
    pub(crate) kind: Kind,
    pub(crate) module: u32,
    /// The number of its function, or [`UNKNOWN`].
    pub(crate) function: AtomicU32,
    /// Whether its hook has received the function that the site is believed to have.
    ///
    /// Until then the site stays on, and every event says which function it belongs to: switched
    /// off with the wrong function, the site would hide calls of the right one.
    pub(crate) verified: AtomicBool,
    /// Whether the counter in line counts for its function.
    pub(crate) inline: AtomicBool,
    /// Whether its hook has once received another function than discovery believed.
    pub(crate) moved: AtomicBool,
    /// Whether its code was unloaded.
    pub(crate) gone: AtomicBool,
    /// Whether the user has attached a function to it.
    pub(crate) attached: AtomicBool,
    /// Whether listeners were notified of it.
    pub(crate) is_told: AtomicBool,
    /// Whether its function's arguments are read.
    pub(crate) captures: AtomicBool,
    /// Whether several functions share it: see [`sharing`](super::sharing).
    pub(crate) shared: AtomicBool,
    /// What its cell holds if they do; zero if it has no owners.
    owners: AtomicU32,
}

// SAFETY: (1) `installed` is replaced only while the site is gone, by the holder of the registry,
// and other threads read it only while the site is not gone.
unsafe impl Sync for Site {}

/// The sites of one function. Replaced as a whole, and never freed: hooks may be reading it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SiteList {
    /// Its sites, the entries first.
    numbers: &'static [u32],
    enters: u32,
    /// If its runtime switches it itself: its registration, and its place there.
    registered: Option<(&'static Registration, u32)>,
}

impl SiteList {
    pub(crate) const fn new(numbers: &'static [u32], enters: usize) -> Self {
        Self { numbers, enters: enters as u32, registered: None }
    }

    pub(crate) const fn registered(registration: &'static Registration, place: u32) -> Self {
        Self { numbers: &[], enters: 0, registered: Some((registration, place)) }
    }

    /// The registration of its code, and its place there, if a runtime switches it.
    pub(crate) fn registration(&self) -> Option<(&'static Registration, u32)> {
        self.registered
    }

    /// How many places in the code are switched; for registered code, the entry and the exits.
    pub(crate) fn probes(&self) -> u32 {
        if self.registered.is_some() { registered::PROBES } else { self.numbers.len() as u32 }
    }

    pub(crate) fn enters(&self) -> &'static [u32] {
        &self.numbers[..self.enters as usize]
    }

    pub(crate) fn exits(&self) -> &'static [u32] {
        &self.numbers[self.enters as usize..]
    }

    pub(crate) fn all(&self) -> &'static [u32] {
        self.numbers
    }
}

static TABLE: [AtomicPtr<Site>; CHUNKS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS];
static COUNT: AtomicU32 = AtomicU32::new(0);
/// The functions that users have attached, by site; read by the stub.
pub(crate) static CALLBACKS: AtomicU64 = AtomicU64::new(0);

/// By site, the number of a function that its hook has received and that is not the site's; or 0.
static LESSONS: AtomicU64 = AtomicU64::new(0);

/// Reserves the tables of callbacks and lessons. Once.
pub(crate) fn prepare() -> Result<(), OsError> {
    let callbacks = pages::reserve(MOST * 8)?;
    CALLBACKS.store(callbacks.get() as u64, Release);
    let lessons = pages::reserve(MOST * 4)?;
    LESSONS.store(lessons.get() as u64, Release);
    Ok(())
}

/// The number of sites.
pub(crate) fn count() -> u32 {
    COUNT.load(Acquire)
}

fn place(number: u32) -> *mut Site {
    let chunk = TABLE[number as usize / CHUNK].load(Acquire);
    chunk.wrapping_add(number as usize % CHUNK)
}

/// The site of that number.
pub(crate) fn get<'s>(number: u32) -> Option<&'s Site> {
    // SAFETY: (1) below the count every place was written by `push`, and is never dropped or moved.
    (number < count()).then(|| unsafe { &*place(number) })
}

/// All sites.
pub(crate) fn all<'s>() -> impl Iterator<Item = (ProbeId, &'s Site)> {
    (0..count()).filter_map(|number| Some((ProbeId(number), get(number)?)))
}

/// The number that the next site will have; `None` if the table is full. By one thread at a time,
/// as `push`.
pub(crate) fn next() -> Option<u32> {
    let count = count();
    let chunk = TABLE.get(count as usize / CHUNK)?;
    if chunk.load(Relaxed).is_null() {
        // SAFETY: (1) a new mapping.
        let room = unsafe {
            pages::map_private(Place::Anywhere, CHUNK * size_of::<Site>(), Protection::ReadWrite)
                .ok()?
        };
        pages::populate(room, CHUNK * size_of::<Site>());
        let first = count as usize / CHUNK * CHUNK;
        for (table, size) in [(&CALLBACKS, 8), (&LESSONS, 4)] {
            let base = CodeAddr::new(table.load(Relaxed) as usize);
            // SAFETY: (1) an unused part of the table.
            unsafe {
                pages::protect(
                    base.offset((first * size) as isize),
                    CHUNK * size,
                    Protection::ReadWrite,
                )
                .ok()?;
            };
        }
        chunk.store(std::ptr::with_exposed_provenance_mut(room.get()), Release);
    }
    Some(count)
}

/// Adds a site. By one thread at a time: the holder of the [registry](super::registry).
pub(crate) fn push(site: Site) {
    let number = count();
    assert!(number < MOST as u32, "`next` was asked");
    // SAFETY: (1) no process reads the place before the count says so; (2) one thread at a time.
    unsafe { place(number).write(site) };
    COUNT.store(number + 1, Release);
}

/// The user's function of a site.
pub(crate) fn set_callback(number: u32, function: usize) {
    let base = CALLBACKS.load(Relaxed) as usize;
    // SAFETY: (1) mapped for the life of the process; (2) `number` is below the count.
    let cell: &AtomicU64 =
        unsafe { &*std::ptr::with_exposed_provenance(base + number as usize * 8) };
    cell.store(function as u64, Release);
}

fn lesson<'s>(number: u32) -> &'s AtomicU32 {
    let base = LESSONS.load(Relaxed) as usize;
    // SAFETY: (1) mapped for the life of the process; (2) `number` is below the count.
    unsafe { &*std::ptr::with_exposed_provenance(base + number as usize * 4) }
}

/// The functions of a site that several share: the stub finds the function of an exit by the
/// address that the hook receives.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Owners([Owner; Owners::MOST]);

#[repr(C)]
#[derive(Debug)]
struct Owner {
    /// The function's address, stored last; zero in a free entry.
    address: AtomicU64,
    /// The offset of its record.
    record: AtomicU64,
}

pub(crate) const OWNERS: usize = size_of::<Owners>();
/// How many sites can have owners. Other sites are switched with the function that ends there
/// first, or, if they are seen to be shared, stay on the slow path.
pub(crate) const SHARED_SITES: usize = 1 << 13;
/// What the cell of a shared site holds instead of the offset of a record, which no record has:
/// this, and the offset of its owners.
pub(crate) const SHARED_CELL: u32 = 1 << 31;

/// The owners of shared sites, as the stub reads them.
pub(crate) static SHARED: [Owners; SHARED_SITES] = [const {
    Owners(
        [const { Owner { address: AtomicU64::new(0), record: AtomicU64::new(0) } }; Owners::MOST],
    )
}; SHARED_SITES];
static SHARED_COUNT: AtomicU32 = AtomicU32::new(0);

impl Owners {
    /// Hooks that receive another function than these take the slow path.
    const MOST: usize = 4;

    /// Allocates owners, and returns what their site's cell is to hold. By the agent.
    pub(crate) fn new() -> Option<(&'static Self, u32)> {
        let number = SHARED_COUNT.load(Relaxed);
        let owners = SHARED.get(number as usize)?;
        SHARED_COUNT.store(number + 1, Relaxed);
        Some((owners, SHARED_CELL + number * OWNERS as u32))
    }

    /// The owners of the site whose cell holds this.
    pub(crate) fn of_cell(cell: usize) -> Option<&'static Self> {
        SHARED.get(Self::number_of_cell(cell)?)
    }

    /// Their number.
    pub(crate) fn number_of_cell(cell: usize) -> Option<usize> {
        let offset = u32::try_from(cell).ok()?.checked_sub(SHARED_CELL)?;
        Some(offset as usize / OWNERS)
    }

    /// Removes all of them: the site was unloaded.
    pub(crate) fn clear(&self) {
        self.0.iter().for_each(|owner| owner.address.store(0, Relaxed));
    }

    /// Adds a function, if it is not among them and there is room. By the agent.
    pub(crate) fn add(&self, id: Id) {
        let address = id.function().address.load(Relaxed);
        let free = self.0.iter().find(|owner| [0, address].contains(&owner.address.load(Relaxed)));
        if let Some(owner) = free {
            owner.record.store(u64::from(id.record()), Relaxed);
            owner.address.store(address, Release);
        }
    }

    /// Whether this function is among them.
    pub(crate) fn has(&self, address: u64) -> bool {
        self.0.iter().any(|owner| owner.address.load(Relaxed) == address)
    }

    /// Whether one more can be added.
    pub(crate) fn has_room(&self) -> bool {
        self.has(0)
    }
}

/// Records that a site's hook has received `function`. Returns whether that is new. Usable in a
/// signal handler.
pub(crate) fn teach(number: u32, function: Id) -> bool {
    lesson(number).swap(function.0, Relaxed) != function.0
}

/// Takes what hooks have recorded since: sites, and their functions.
pub(crate) fn lessons<'s>() -> impl Iterator<Item = (ProbeId, &'s Site, Id)> {
    let taught = (0..count()).filter(|&number| lesson(number).load(Relaxed) != 0);
    let all = taught.filter_map(|number| {
        Some((ProbeId(number), get(number)?, Id(lesson(number).swap(0, Relaxed))))
    });
    all.filter(|(_, site, _)| !site.gone.load(Acquire))
}

impl Site {
    /// A new site: on, until its first event says which function it belongs to.
    pub(crate) fn new(
        installed: InstalledSite,
        kind: Kind,
        module: u32,
        function: u32,
        shared: Option<u32>,
    ) -> Self {
        let is_pun = installed.is_pun;
        Self {
            inline: AtomicBool::new(installed.gate.is_some()),
            installed: UnsafeCell::new(installed),
            kind,
            module,
            function: AtomicU32::new(function),
            // The hook of a pun never receives another function.
            verified: AtomicBool::new(shared.is_some() || is_pun),
            moved: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            attached: AtomicBool::new(false),
            is_told: AtomicBool::new(false),
            captures: AtomicBool::new(false),
            shared: AtomicBool::new(shared.is_some()),
            owners: AtomicU32::new(shared.unwrap_or(0)),
        }
    }

    /// Several functions share it: its cell refers to them.
    pub(crate) fn share(&self, cell: u32) {
        self.owners.store(cell, Relaxed);
        self.cell().hold(cell.into());
    }

    /// What its cell holds, or held before its module was unloaded, if several functions share it.
    pub(crate) fn shared_cell(&self) -> Option<u32> {
        Some(self.owners.load(Relaxed)).filter(|&cell| cell != 0)
    }

    /// Its module was loaded again: the site lies where it was in it, and belongs to the same
    /// function, or is shared by the same ones. In code that no compiler has prepared, it may be
    /// another site of that function. By the holder of the registry.
    pub(crate) fn reinstall(&self, installed: InstalledSite, shared: Option<u32>) {
        assert!(self.gone.load(Acquire), "a site that is there is not installed again");
        self.verified.store(shared.is_some() || installed.is_pun, Relaxed);
        self.shared.store(shared.is_some(), Relaxed);
        self.owners.store(shared.unwrap_or(0), Relaxed);
        self.inline.store(installed.gate.is_some(), Relaxed);
        for flag in [&self.moved, &self.attached, &self.is_told, &self.captures] {
            flag.store(false, Relaxed);
        }
        // SAFETY: (1) the site is gone, so no other thread reads it; (2) one thread at a time holds
        // the registry.
        unsafe { *self.installed.get() = installed };
        self.gone.store(false, Release);
    }

    fn installed(&self) -> &InstalledSite {
        // SAFETY: (1) replaced only while the site is gone: see `Sync`.
        unsafe { &*self.installed.get() }
    }

    /// The instruction.
    pub(crate) fn call(&self) -> &CallSite {
        &self.installed().call
    }

    pub(crate) fn gate(&self) -> Option<Gate> {
        self.installed().gate
    }

    pub(crate) fn trampoline(&self) -> CodeAddr {
        self.installed().trampoline
    }

    /// Whether it lies in code that no compiler has prepared.
    pub(crate) fn is_pun(&self) -> bool {
        self.installed().is_pun
    }

    /// Whether it is a point, and not the entry of a function.
    pub(crate) fn is_point(&self) -> bool {
        self.installed().is_point
    }

    /// Where the instruction led before it was redirected to the trampoline.
    pub(crate) fn home(&self) -> CodeAddr {
        self.installed().home
    }

    /// Redirects it to a stub.
    pub(crate) fn lead_to(&self, stub: Stub) {
        let installed = self.installed();
        let stub = match stub {
            Stub::TimeEnter if installed.is_point => Stub::BeginPoint,
            Stub::Count | Stub::TimeEnter if self.captures.load(Acquire) => Stub::EnterCapture,
            Stub::TimeExit if self.captures.load(Acquire) => Stub::ExitCapture,
            stub => stub,
        };
        let (stub, slot) = (stub.address(installed.is_pun), installed.slots.first());
        if slot.target() != stub {
            slot.lead_to(stub);
        }
    }

    /// Redirects it past the counter in line, or to the counter.
    pub(crate) fn pass_counter(&self, past: bool) {
        if let Some(gate) = self.gate() {
            gate.set(if past { Switch::On } else { Switch::Off });
        }
    }

    /// Holds the offset of its function's record.
    pub(crate) fn cell(&self) -> Slot {
        self.installed().slots.second()
    }

    /// Whether several functions end there, which the stub distinguishes.
    pub(crate) fn is_shared_exit(&self) -> bool {
        self.kind == Kind::Exit && !self.gone.load(Relaxed) && self.shared_cell().is_some()
    }

    /// Its function, if it is known.
    pub(crate) fn owner(&self) -> Option<Id> {
        match self.function.load(Relaxed) {
            UNKNOWN => None,
            number => Some(Id(number)),
        }
    }

    /// Whether the profiler may switch it for one function. Two loads are sequentially consistent:
    /// they pair with the stores of the threads that verify the site and that unload its module.
    pub(crate) fn is_ours(&self) -> bool {
        self.is_switchable() && !self.shared.load(Relaxed)
    }

    /// Whether the profiler may switch it.
    pub(crate) fn is_switchable(&self) -> bool {
        self.verified.load(SeqCst)
            && !self.gone.load(Relaxed)
            && !self.attached.load(Relaxed)
            && !super::unloading::is_barred(self)
    }
}
