//! Linear memories: reserved address space, and how much of it is accessible.
//!
//! # Safety
//!
//! This module exists to own address space. Everything is bounds-checked here before it is touched.
#![allow(unsafe_code)]

use super::definition::define;
use super::store::{Demand, Demanded};
use crate::error::Error;
use crate::types::MemoryType;
use crate::vm::{self, RESERVATION, reservations_are_possible};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use wordpatch::CodeAddr;
use wordpatch::os::pages::{self, PAGE, Place, Protection};

/// A page of linear memory.
pub(crate) const WASM_PAGE: u64 = 65536;
/// How much a bounds-checked memory without a maximum reserves.
const HEADROOM: usize = 1 << 30;

/// Address space of a memory.
#[derive(Debug)]
struct Space {
    base: CodeAddr,
    reserved: usize,
    usable: usize,
}

impl Space {
    fn new(reserved: usize, usable: usize) -> Result<Self, Error> {
        let reserved = pages::round_up(reserved.max(usable).max(PAGE));
        // SAFETY: (1) a mapping at a place that the kernel chooses overlaps nothing.
        let base = unsafe { pages::map_private(Place::Anywhere, reserved, Protection::None) };
        let base = base.map_err(|error| {
            Error::Resource(format!(
                "no address space for a linear memory of {reserved} bytes: {error}"
            ))
        })?;
        let mut space = Self { base, reserved, usable: 0 };
        space.extend(usable)?;
        Ok(space)
    }

    /// Makes more of it usable. It has to be reserved.
    fn extend(&mut self, usable: usize) -> Result<(), Error> {
        if usable > self.usable {
            let at = self.base.offset(self.usable as isize);
            // SAFETY: (1) the range is reserved for this memory and not in use yet.
            unsafe {
                pages::protect(at, usable - self.usable, Protection::ReadWrite)
                    .map_err(Error::system)?;
            };
            self.usable = usable;
        }
        Ok(())
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        // SAFETY: (1) mapped in `new`; (2) the code that could use it has been freed, see the
        // owners.
        let _ = unsafe { pages::unmap(self.base, self.reserved) };
    }
}

// SAFETY: (1) address space belongs to the process, not to a thread; (2) changes need `&mut` or a
// lock.
unsafe impl Send for Space {}

/// A linear memory, and where machine code finds it.
#[derive(Debug)]
pub struct Linear {
    pub(crate) ty: MemoryType,
    /// The definition that machine code reads: in the vmctx of the instance that defines it, in a
    /// box, or in a shared memory.
    pub(crate) definition: *mut vm::Memory,
    /// How many bytes it may have at most, whatever the store allows.
    pub ceiling: usize,
    backing: Backing,
}

#[derive(Debug)]
enum Backing {
    Own { space: Space, _definition: Option<Box<vm::Memory>> },
    Shared(SharedMemory),
}

/// How a memory is laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// Whether machine code relies on reservations.
    pub(crate) reservations: bool,
    /// The most bytes that the store allows.
    pub(crate) limit: usize,
}

impl Style {
    fn space(self, ty: &MemoryType) -> Result<Space, Error> {
        let minimum = bytes(ty.minimum).filter(|bytes| *bytes <= self.limit);
        let Some(minimum) = minimum else {
            return Err(Error::Resource(format!(
                "a memory of {} pages is more than the limit of {} bytes",
                ty.minimum, self.limit
            )));
        };
        let reserved = match (ty.wide, self.reservations) {
            (false, true) => RESERVATION,
            // Every memory is followed by a page that is never usable.
            (_, _) if ty.shared => ty
                .maximum
                .and_then(bytes)
                .unwrap_or(usize::MAX)
                .min(self.limit)
                .saturating_add(PAGE),
            (_, true) => ty
                .maximum
                .and_then(bytes)
                .unwrap_or(usize::MAX)
                .min(HEADROOM)
                .max(minimum)
                .saturating_add(PAGE),
            (_, false) => minimum.saturating_add(PAGE),
        };
        Space::new(reserved, minimum)
    }
}

/// A number of pages in bytes, if that can be represented.
fn bytes(pages: u64) -> Option<usize> {
    pages
        .checked_mul(WASM_PAGE)
        .and_then(|bytes| usize::try_from(bytes).ok())
        .filter(|bytes| *bytes < 1 << 47)
}

impl Linear {
    /// A memory that is not shared. Machine code finds it in `place`, or in a box.
    ///
    /// # Safety
    /// `place` is valid for as long as the memory is.
    pub(crate) unsafe fn new(
        ty: MemoryType,
        style: Style,
        place: Option<*mut vm::Memory>,
    ) -> Result<Self, Error> {
        if ty.shared {
            return Ok(Self::of_shared(&SharedMemory::with_style(ty, style)?));
        }
        let space = style.space(&ty)?;
        let value =
            vm::Memory { base: space.base.get() as *mut u8, len: AtomicUsize::new(space.usable) };
        // SAFETY: (1) the caller, see # Safety.
        let (definition, kept) = unsafe { define(value, place) };
        Ok(Self {
            ty,
            definition,
            ceiling: usize::MAX,
            backing: Backing::Own { space, _definition: kept },
        })
    }

    pub(crate) fn of_shared(memory: &SharedMemory) -> Self {
        let definition = (&raw const memory.inner.definition).cast_mut();
        Self {
            ty: memory.inner.ty,
            definition,
            ceiling: usize::MAX,
            backing: Backing::Shared(memory.clone()),
        }
    }

    pub(crate) fn shared(&self) -> Option<&SharedMemory> {
        match &self.backing {
            Backing::Shared(memory) => Some(memory),
            Backing::Own { .. } => None,
        }
    }

    /// Its first byte, and its length.
    pub(crate) fn extent(&self) -> (*mut u8, usize) {
        // SAFETY: (1) the definition lives as long as the memory.
        unsafe { ((*self.definition).base, (*self.definition).len.load(Relaxed)) }
    }

    /// Whether it has the reservation that code without bounds checks relies on.
    pub(crate) fn is_reserved(&self) -> bool {
        let reserved = match &self.backing {
            Backing::Own { space, .. } => space.reserved,
            Backing::Shared(memory) => memory.inner.space.lock().reserved,
        };
        reserved >= RESERVATION
    }

    /// How many pages it has.
    pub(crate) fn pages(&self) -> u64 {
        self.extent().1 as u64 / WASM_PAGE
    }

    /// The demand for a growth.
    pub(crate) fn demand(&self, more: u64) -> Demand {
        let current = self.pages();
        Demand {
            of: Demanded::Pages,
            current,
            wanted: current.saturating_add(more),
            maximum: self.ty.maximum,
        }
    }

    /// Grows it, and returns how many pages it had; `None` if it cannot grow by that much.
    pub(crate) fn grow(&mut self, more: u64, limit: usize) -> Option<u64> {
        let limit = limit.min(self.ceiling);
        let Backing::Own { space, .. } = &mut self.backing else {
            return self.shared().and_then(|memory| memory.grow(more, limit));
        };
        // SAFETY: (1) the definition lives as long as the memory.
        let definition = unsafe { &mut *self.definition };
        let before = definition.len.load(Relaxed) as u64 / WASM_PAGE;
        let len = allowed(&self.ty, before, more, limit)?;
        if len > space.usable {
            if len + PAGE > space.reserved {
                let room = (len + len / 2).min(limit).max(len);
                *space = moved(space, room + PAGE, len)?;
                definition.base = space.base.get() as *mut u8;
            }
            space.extend(len).ok()?;
        }
        definition.len.store(len, Relaxed);
        Some(before)
    }
}

/// How many bytes a memory has after growing, if it may.
fn allowed(ty: &MemoryType, before: u64, more: u64, limit: usize) -> Option<usize> {
    let most = ty.maximum.unwrap_or(u64::MAX).min(if ty.wide { 1 << 48 } else { 1 << 16 });
    let pages = before.checked_add(more).filter(|pages| *pages <= most)?;
    bytes(pages).filter(|bytes| *bytes <= limit)
}

/// The contents of `space` in a larger one. Only memories that are bounds-checked move.
fn moved(space: &Space, reserved: usize, usable: usize) -> Option<Space> {
    let larger = Space::new(reserved, usable).ok()?;
    // SAFETY: (1) both are usable for that many bytes; (2) they are different mappings.
    unsafe {
        std::ptr::copy_nonoverlapping(
            space.base.get() as *const u8,
            larger.base.get() as *mut u8,
            space.usable,
        );
    };
    Some(larger)
}

/// A memory that threads share.
#[derive(Clone, Debug)]
pub struct SharedMemory {
    inner: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    ty: MemoryType,
    definition: vm::Memory,
    space: parking_lot::Mutex<Space>,
}

// SAFETY: (1) `base` never changes, and `len` is atomic; (2) the bytes are only touched by raw and
// atomic accesses.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl SharedMemory {
    /// A new memory that threads can share.
    pub fn new(ty: MemoryType) -> Result<Self, Error> {
        Self::with_style(ty, Style { reservations: reservations_are_possible(), limit: 1 << 46 })
    }

    fn with_style(ty: MemoryType, style: Style) -> Result<Self, Error> {
        if !ty.shared || ty.maximum.is_none() {
            return Err(Error::Type("a shared memory says so, and how large it may get".into()));
        }
        let space = style.space(&ty)?;
        let definition =
            vm::Memory { base: space.base.get() as *mut u8, len: AtomicUsize::new(space.usable) };
        Ok(Self {
            inner: Arc::new(Shared { ty, definition, space: parking_lot::Mutex::new(space) }),
        })
    }

    /// Its type.
    pub fn ty(&self) -> MemoryType {
        self.inner.ty
    }

    /// How many pages it has.
    pub fn size(&self) -> u64 {
        self.inner.definition.len.load(Relaxed) as u64 / WASM_PAGE
    }

    fn grow(&self, more: u64, limit: usize) -> Option<u64> {
        let mut space = self.inner.space.lock();
        let before = self.size();
        let len = allowed(&self.inner.ty, before, more, limit)?;
        if len > space.reserved {
            return None;
        }
        space.extend(len).ok()?;
        // Other threads may see the length late, and then trap although they need not; growing
        // without synchronisation implies that.
        self.inner.definition.len.store(len, std::sync::atomic::Ordering::SeqCst);
        Some(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: MemoryType = MemoryType { minimum: 1, maximum: None, wide: false, shared: false };

    fn memory(ty: MemoryType, reservations: bool, limit: usize) -> Result<Linear, Error> {
        // SAFETY: (1) no place is given.
        unsafe { Linear::new(ty, Style { reservations, limit }, None) }
    }

    fn bytes_of(memory: &mut Linear) -> &mut [u8] {
        let (base, len) = memory.extent();
        // SAFETY: (1) the memory's bytes, which no other code looks at in a test.
        unsafe { std::slice::from_raw_parts_mut(base, len) }
    }

    #[test]
    fn growing_keeps_what_was_there_and_adds_zeroes() {
        for (reservations, wide) in [(true, false), (false, false), (true, true), (false, true)] {
            let mut memory = memory(MemoryType { wide, ..MEMORY }, reservations, usize::MAX >> 1)
                .expect("a memory");
            for before in [1, 3, 5, 20, 300] {
                bytes_of(&mut memory).fill(7);
                let more = [(1, 2), (3, 2), (5, 15), (20, 280), (300, 1)]
                    .iter()
                    .find(|(at, _)| *at == before)
                    .expect("listed")
                    .1;
                assert_eq!(memory.grow(more, usize::MAX >> 1), Some(before));
                let (old, new) = bytes_of(&mut memory).split_at((before * WASM_PAGE) as usize);
                assert!(
                    old.iter().all(|byte| *byte == 7) && new.iter().all(|byte| *byte == 0),
                    "{before}"
                );
            }
        }
    }

    #[test]
    fn a_memory_with_a_reservation_never_moves() {
        let mut memory = memory(MEMORY, true, usize::MAX >> 1).expect("a memory");
        assert!(memory.is_reserved());
        let (base, _) = memory.extent();
        assert_eq!(memory.grow(999, usize::MAX >> 1), Some(1));
        assert_eq!(memory.extent(), (base, 1000 * WASM_PAGE as usize));
    }

    #[test]
    fn growth_ends_at_the_type_s_maximum_at_the_limit_and_where_addresses_end() {
        let mut most = memory(MemoryType { maximum: Some(3), ..MEMORY }, false, usize::MAX >> 1)
            .expect("a memory");
        assert_eq!(
            (
                most.grow(3, usize::MAX >> 1),
                most.grow(2, usize::MAX >> 1),
                most.grow(1, usize::MAX >> 1)
            ),
            (None, Some(1), None)
        );
        let mut limited = memory(MEMORY, true, 1 << 20).expect("a memory");
        assert_eq!(
            (limited.grow(16, 1 << 20), limited.grow(15, 1 << 20), limited.pages()),
            (None, Some(1), 16)
        );
        let mut narrow = memory(MEMORY, true, usize::MAX >> 1).expect("a memory");
        assert_eq!(
            (narrow.grow(65536, usize::MAX >> 1), narrow.grow(u64::MAX, usize::MAX >> 1)),
            (None, None)
        );
        let mut wide =
            memory(MemoryType { wide: true, ..MEMORY }, true, usize::MAX >> 1).expect("a memory");
        assert_eq!(
            (wide.grow(1 << 48, usize::MAX >> 1), wide.grow(0, usize::MAX >> 1)),
            (None, Some(1))
        );
    }

    #[test]
    fn what_is_larger_than_the_limit_is_not_made() {
        assert!(memory(MemoryType { minimum: 17, ..MEMORY }, false, 1 << 20).is_err());
        assert!(
            memory(MemoryType { minimum: 1 << 48, wide: true, ..MEMORY }, false, usize::MAX >> 1)
                .is_err()
        );
    }

    #[test]
    fn whoever_shares_a_memory_sees_it_grow() {
        let ty = MemoryType { maximum: Some(4), shared: true, ..MEMORY };
        let shared = SharedMemory::new(ty).expect("a memory");
        let (mut one, other) = (Linear::of_shared(&shared), Linear::of_shared(&shared));
        assert_eq!((one.grow(2, usize::MAX), one.grow(2, usize::MAX)), (Some(1), None));
        assert_eq!((other.pages(), shared.size()), (3, 3));
        assert_eq!(one.extent(), other.extent());
        assert!(
            SharedMemory::new(MemoryType { maximum: None, ..ty }).is_err()
                && SharedMemory::new(MEMORY).is_err()
        );
    }
}
