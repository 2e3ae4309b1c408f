//! Islands: code memory within reach of a module, with stubs that lead to any address.
//!
//! A call reaches at most two gigabytes, and a module's hooks are in another module, or in the
//! crate's own memory. So each module gets nearby islands when they are needed. Stubs are allocated
//! on an island one after the other; each is written before a thread is led to it. This needs no
//! barrier: the store that leads there is the last one (AMD64 APM volume 2, section 7.6.1).
//!
//! **When a stub's place can be reused.** Only its owner can guarantee that no site leads to a stub
//! and that no thread is inside; releasing the stub is that guarantee. Cores may still hold its
//! bytes. So released places are kept apart until [`reclaim`](Islands::reclaim) has passed a
//! barrier, one for all of them. Then they serve stubs of the same size.
//!
//! # Safety
//!
//! Other code executes the memory to which this module writes; it never writes to a stub that was
//! handed out and not reclaimed.
#![allow(unsafe_code)]

use crate::error::IslandError;
use crate::gate::Gate;
use crate::lanes::Lanes;
use crate::reach::{Grid, Reach};
use crate::site::CallSite;
use crate::x86::{self, Role};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use wordpatch::os::pages::{PAGE, round_up};
use wordpatch::{Barrier, CodeAddr, CodeMemory};

/// The size of one island, if no size was announced.
const ISLAND: usize = 16 * PAGE;
/// The largest size of an island for announced stubs.
const LARGEST: usize = 4 << 20;

/// Stubs begin at multiples of this: small ones do not cross a core's fetch unit.
const ALIGN: usize = 16;

/// The islands of one module.
#[derive(Debug)]
pub struct Islands {
    reach: Reach,
    module: Range<CodeAddr>,
    islands: Vec<Island>,
    lanes: Option<Lanes>,
    /// Released, and not yet reclaimed.
    given_back: Vec<Stub>,
    free: Vec<Stub>,
    ret: Option<CodeAddr>,
    slots: Option<Slots>,
    /// How many announced bytes of stubs and slots are still to be requested.
    expected: usize,
    /// Whether there was no place for an island since the latest announcement. To find that takes
    /// the kernel's list of all mappings.
    is_crowded: bool,
}

/// A page that has free slots: its free part, and its distance to its writable mapping.
#[derive(Debug)]
struct Slots {
    next: CodeAddr,
    end: CodeAddr,
    alias: isize,
}

/// Eight bytes within reach of a module that hold the address of code, for jumps and calls through
/// memory.
///
/// Slots are on separate pages: a store next to code is handled as self-modifying code by every
/// core that executes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    address: CodeAddr,
    alias: isize,
}

/// The size of a slot.
const SLOT: isize = 8;

/// Two slots side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPair(Slot);

impl SlotPair {
    /// The lower one.
    #[inline]
    pub fn first(self) -> Slot {
        self.0
    }

    /// The upper one.
    #[inline]
    pub fn second(self) -> Slot {
        Slot { address: self.0.address.offset(SLOT), ..self.0 }
    }
}

impl Slot {
    /// The address that instructions use.
    pub fn address(self) -> CodeAddr {
        self.address
    }

    fn cell<'s>(self) -> &'s AtomicU64 {
        let cell = self.address.offset(self.alias).get() as *const AtomicU64;
        // SAFETY: (1) an aligned cell in an island's writable mapping, by construction in
        // `Islands::slot`; (2) the owner of a slot keeps its islands.
        unsafe { &*cell }
    }

    /// Redirects every thread that reads it. One store of an aligned word: no thread sees half of
    /// one.
    #[inline]
    pub fn lead_to(self, code: CodeAddr) {
        self.cell().store(code.get() as u64, Ordering::Release);
    }

    /// Stores a number instead, for stubs that load one.
    #[inline]
    pub fn hold(self, number: u64) {
        self.cell().store(number, Ordering::Release);
    }

    /// Its target.
    #[inline]
    pub fn target(self) -> CodeAddr {
        CodeAddr::new(self.cell().load(Ordering::Relaxed) as usize)
    }
}

/// Code memory, filled from its beginning.
#[derive(Debug)]
struct Island {
    memory: CodeMemory,
    used: usize,
}

/// The place of a stub, needed to release it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
#[must_use = "a stub whose place is forgotten is there for good"]
pub struct Stub {
    address: CodeAddr,
    room: usize,
}

impl Stub {
    /// Where it begins.
    pub fn address(&self) -> CodeAddr {
        self.address
    }
}

impl Islands {
    /// Islands for the module at these addresses. Nothing is mapped before the first stub.
    pub fn near(module: Range<CodeAddr>) -> Result<Self, IslandError> {
        let reach =
            Reach::of(module.clone()).ok_or_else(|| IslandError::TooLarge(module.clone()))?;
        Ok(Self {
            reach,
            module,
            islands: Vec::new(),
            lanes: None,
            given_back: Vec::new(),
            free: Vec::new(),
            ret: None,
            slots: None,
            expected: 0,
            is_crowded: false,
        })
    }

    /// Announces the number of bytes of stubs and slots that will be requested: reserving them at
    /// once is faster. If there was no place near the module, one is searched again.
    pub fn expect(&mut self, bytes: usize) {
        (self.expected, self.is_crowded) = (bytes, false);
    }

    /// The place that stubs and slots of that many bytes would get: the nearest free one that is
    /// not `kept` for other modules, if there is one.
    pub fn room_for(
        &self,
        bytes: usize,
        kept: &[Range<CodeAddr>],
    ) -> Result<Option<Range<CodeAddr>>, IslandError> {
        let mappings = wordpatch::os::maps::mappings_and_heap();
        let mappings =
            mappings.map_err(|error| IslandError::Os { module: self.module.clone(), error })?;
        let len = round_up(bytes.max(ISLAND));
        let place = self.reach.free_places(len, Grid::PAGES, &mappings, kept).into_iter().next();
        Ok(place.map(|start| start..start.offset(len as isize)))
    }

    /// Announces that stubs of the calls in that range, of that many bytes in all, will be
    /// [requested](Self::stub_of_call) in the order of the calls.
    pub fn expect_calls(&mut self, calls: Range<CodeAddr>, bytes: usize) {
        self.lanes = Some(Lanes::of(calls, bytes));
    }

    /// A stub of at most `len` bytes for a site, at a place that makes the site a nop when it is
    /// off, if there is one. It stays as long as the islands do.
    pub fn stub_of_call<C: AsRef<[u8]>>(
        &mut self,
        site: &CallSite,
        len: usize,
        code: impl FnOnce(CodeAddr) -> C,
    ) -> Result<CodeAddr, IslandError> {
        let can_be = site.role() == Role::Call && !site.form().is_through_memory();
        if let Some(lanes) = self.lanes.as_mut().filter(|_| can_be)
            && let Some(place) = lanes.place(&self.reach, (site.address(), site.form()), len)?
        {
            let code = code(place);
            lanes.write(place, len, code.as_ref());
            return Ok(place);
        }
        // Never released, as lanes are not.
        Ok(self.stub(len, code)?.address)
    }

    /// A stub of at most `len` bytes; `code` makes its bytes from its address.
    pub fn stub<C: AsRef<[u8]>>(
        &mut self,
        len: usize,
        code: impl FnOnce(CodeAddr) -> C,
    ) -> Result<Stub, IslandError> {
        let room = len.max(1).next_multiple_of(ALIGN);
        let stub = self.place(room)?;
        let code = code(stub.address);
        let code = code.as_ref();
        assert!(code.len() <= room, "a stub of {} bytes in the room of {len}", code.len());
        let island = self.islands.iter_mut().rev().find(|island| island.holds(stub.address));
        let Some(island) = island else { unreachable!("stubs lie on islands") };
        let offset = stub.address.distance_from(island.memory.base()) as usize;
        // No site leads there yet, or any more.
        island.memory.write(offset, code);
        Ok(stub)
    }

    /// A stub that puts `number` into r11 and jumps to `to`, which may be at any distance.
    pub fn numbered(&mut self, number: u32, to: CodeAddr) -> Result<Stub, IslandError> {
        const LONGEST: usize = 6 + 14;
        self.stub(LONGEST, |at| {
            let mov = x86::mov_r11d(number);
            match x86::jump(at.offset(mov.len() as isize), to) {
                Some(near) => [&mov[..], &near].concat(),
                None => [&mov[..], &x86::far_jump(to)].concat(),
            }
        })
    }

    /// The jump at the beginning of a stub, as a switch: when it is off, execution continues after
    /// it. `None` if the stub begins with another instruction.
    ///
    /// # Safety
    /// The islands outlive it, both paths are valid whenever it is switched, and flags are dead at
    /// the stub's beginning.
    pub unsafe fn gate(&self, stub: CodeAddr) -> Option<Gate> {
        let of_islands =
            || self.islands.iter().rev().find(|island| island.holds(stub)).map(|it| &it.memory);
        let of_lanes = self.lanes.as_ref().and_then(|lanes| lanes.memory_of(stub));
        let memory = of_lanes.or_else(of_islands)?;
        let offset = stub.distance_from(memory.base()) as usize;
        let alias = memory.writable(offset).distance_from(stub);
        // SAFETY: (1) both lie on the island, which was written there; (2) the caller; (3) islands
        // write to no stub that was handed out.
        unsafe { Gate::at(stub, alias) }
    }

    /// A new slot, which leads to `code`. It stays as long as the islands do.
    pub fn slot(&mut self, code: CodeAddr) -> Result<Slot, IslandError> {
        let slot = self.slots_in_a_row(1)?;
        slot.lead_to(code);
        Ok(slot)
    }

    /// Two new slots side by side: the first leads to `code`, the second holds `number`. They stay
    /// as long as the islands do.
    pub fn slot_pair(&mut self, code: CodeAddr, number: u64) -> Result<SlotPair, IslandError> {
        let pair = SlotPair(self.slots_in_a_row(2)?);
        pair.first().lead_to(code);
        pair.second().hold(number);
        Ok(pair)
    }

    /// The first of `count` adjacent slots.
    fn slots_in_a_row(&mut self, count: isize) -> Result<Slot, IslandError> {
        if self
            .slots
            .as_ref()
            .is_none_or(|slots| slots.end.distance_from(slots.next) < count * SLOT)
        {
            let (start, alias) = self.page()?;
            self.slots = Some(Slots { next: start, end: start.offset(PAGE as isize), alias });
        }
        let Some(slots) = &mut self.slots else { unreachable!("made above") };
        let first = Slot { address: slots.next, alias: slots.alias };
        slots.next = slots.next.offset(count * SLOT);
        Ok(first)
    }

    /// A page of zeroes on an island, and its distance to its writable mapping.
    fn page(&mut self) -> Result<(CodeAddr, isize), IslandError> {
        let pad = |used: usize| used.next_multiple_of(PAGE) - used;
        if let Some(island) = self.islands.last_mut() {
            // Skipped bytes are lost: less than a page for every page of slots.
            let _ = island.cut_off(pad(island.used));
        }
        let start = self.place(PAGE)?.address;
        let island = self.islands.iter_mut().find(|island| island.holds(start));
        let Some(island) = island else { unreachable!("places lie on islands") };
        let offset = start.distance_from(island.memory.base()) as usize;
        // Written at once, so that a forked child gets the page.
        island.memory.write(offset, &[0; PAGE]);
        Ok((start, island.memory.writable(offset).distance_from(start)))
    }

    /// A `ret` that is shared by all stubs that need one.
    pub fn ret(&mut self) -> Result<CodeAddr, IslandError> {
        if let Some(ret) = self.ret {
            return Ok(ret);
        }
        // Never released: it is shared.
        let stub = self.stub(1, |_| vec![x86::RET])?;
        self.ret = Some(stub.address);
        Ok(stub.address)
    }

    /// Releases a stub. Its place is reused only after [`reclaim`](Self::reclaim).
    ///
    /// # Safety
    /// No site leads to it any more and none will, and no thread is inside it or will come back to
    /// it: a thread that was called through a site before that led elsewhere may be there for as
    /// long as it likes.
    pub unsafe fn give_back(&mut self, stub: Stub) {
        self.given_back.push(stub);
    }

    /// Makes released places available, after one barrier. Returns their number.
    pub fn reclaim(&mut self, barrier: Barrier) -> Result<usize, IslandError> {
        if !self.given_back.is_empty() {
            barrier.pass()?;
        }
        let reclaimed = self.given_back.len();
        self.free.append(&mut self.given_back);
        Ok(reclaimed)
    }

    /// The total size of its code memory, in bytes.
    pub fn len(&self) -> usize {
        self.islands.iter().map(|island| island.memory.len()).sum::<usize>()
            + self.lanes.as_ref().map_or(0, Lanes::len)
    }

    /// Whether there is no island yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The addresses within reach of the module's sites.
    pub fn reach(&self) -> Range<CodeAddr> {
        self.reach.range()
    }

    /// A free place: one that was reclaimed, or the next of the latest island, or the first of a
    /// new one.
    fn place(&mut self, room: usize) -> Result<Stub, IslandError> {
        if let Some(known) = self.free.iter().position(|stub| stub.room == room) {
            return Ok(self.free.swap_remove(known));
        }
        if room > ISLAND {
            return Err(IslandError::StubTooLong { len: room, room: ISLAND });
        }
        if let Some(place) = self.islands.last_mut().and_then(|island| island.cut_off(room)) {
            return Ok(place);
        }
        let mut island = self.raise()?;
        let place = island.cut_off(room);
        self.islands.push(island);
        place.ok_or(IslandError::StubTooLong { len: room, room: ISLAND })
    }

    /// A new island at the nearest free place.
    fn raise(&mut self) -> Result<Island, IslandError> {
        if self.is_crowded {
            return Err(self.crowded(ISLAND));
        }
        let wanted = round_up(self.expected).clamp(ISLAND, LARGEST);
        let island = self.raise_of(wanted).or_else(|error| match wanted {
            // There may be a gap for a small one.
            ISLAND => Err(error),
            _ => self.raise_of(ISLAND),
        });
        self.is_crowded = matches!(island, Err(IslandError::Crowded { .. }));
        let island = island?;
        if self.expected > 0 {
            island.memory.populate(self.expected.min(island.memory.len()));
        }
        self.expected = self.expected.saturating_sub(island.memory.len());
        Ok(island)
    }

    fn raise_of(&self, len: usize) -> Result<Island, IslandError> {
        match self.reach.map(len) {
            Ok(Some(memory)) => Ok(Island { memory, used: 0 }),
            Ok(None) => Err(self.crowded(len)),
            Err(error) => Err(IslandError::Os { module: self.module.clone(), error }),
        }
    }

    fn crowded(&self, len: usize) -> IslandError {
        IslandError::Crowded { module: self.module.clone(), reach: self.reach.range(), len }
    }
}

impl Island {
    fn holds(&self, address: CodeAddr) -> bool {
        let offset = address.distance_from(self.memory.base());
        (0..self.memory.len() as isize).contains(&offset)
    }

    fn cut_off(&mut self, room: usize) -> Option<Stub> {
        let end = self.used.checked_add(room).filter(|&end| end <= self.memory.len())?;
        let address = self.memory.base().offset(self.used as isize);
        self.used = end;
        Some(Stub { address, room })
    }
}
