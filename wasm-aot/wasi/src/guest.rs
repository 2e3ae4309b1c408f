//! The guest's memory, as calls see it.
//!
//! A guest passes 32-bit addresses and lengths that may be arbitrary, and its other threads may
//! write to the same memory while a call reads it. So this module creates no references: every
//! access is checked against the length, then copied by raw pointer. A value that was checked is
//! never read from the guest again.
//!
//! # Safety
//!
//! Raw copies between guest and host need unsafe code. The caller of [`Guest::new`] guarantees the
//! range; [`Guest::span`] is the only place where an address of the guest becomes a pointer, and it
//! checks the whole span.
#![allow(unsafe_code)]

use super::errno::Errno;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

/// A linear memory: where it begins and how long it is.
#[derive(Debug)]
pub struct Guest<'a> {
    base: *mut u8,
    len: usize,
    /// The embedder's flag that makes the program stop, if there is one.
    stop: Option<&'a AtomicBool>,
    /// The record of the bytes that calls write, if the embedder wants one.
    written: Option<&'a Written>,
    memory: PhantomData<&'a ()>,
}

/// The bytes that calls have written to a guest's memory: addresses and lengths, in order.
#[derive(Debug, Default)]
pub struct Written(RefCell<Vec<(u64, u64)>>);

impl Written {
    /// Returns all entries, and empties the record.
    pub fn take(&self) -> Vec<(u64, u64)> {
        self.0.take()
    }
}

impl<'a> Guest<'a> {
    /// Creates the memory of `len` bytes from `base`.
    ///
    /// # Safety
    ///
    /// All `len` bytes are mapped, readable and writable for as long as `'a`, and no code holds a
    /// Rust reference into them while a call runs. Other threads may read and write them, as
    /// threads of the guest do.
    pub unsafe fn new(base: *mut u8, len: usize) -> Self {
        Self { base, len, stop: None, written: None, memory: PhantomData }
    }

    /// Creates a memory that no other code uses.
    pub fn exclusive(bytes: &'a mut [u8]) -> Self {
        let (base, len) = (bytes.as_mut_ptr(), bytes.len());
        Self { base, len, stop: None, written: None, memory: PhantomData }
    }

    /// The same, of a program whose host raises `stop` to make it stop: calls that move gigabytes
    /// check the flag, and end early. The host handles the flag when the call has returned.
    #[must_use]
    pub fn stopped_by(self, stop: &'a AtomicBool) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// The same, of a program whose host records the bytes that calls write.
    #[must_use]
    pub fn noted_in(self, written: &'a Written) -> Self {
        Self { written: Some(written), ..self }
    }

    /// Records that bytes were written at a host address.
    pub(crate) fn note(&self, place: *const u8, len: usize) {
        if let Some(Written(spans)) = self.written.filter(|_| len > 0) {
            let address = place as usize - self.base as usize;
            spans.borrow_mut().push((address as u64, len as u64));
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::SeqCst))
    }

    /// Returns the host address of a span of the guest, if all of it is memory.
    pub(crate) fn span(&self, address: u32, len: u32) -> Result<*mut u8, Errno> {
        // Addresses have 32 bits even if a memory is larger; the rest of it is then inaccessible.
        let end = u64::from(address) + u64::from(len);
        if end > self.len.min(1 << 32) as u64 {
            return Err(Errno::FAULT);
        }
        // SAFETY: address + len <= self.len, and base..base + self.len is one mapping (`new`).
        Ok(unsafe { self.base.add(address as usize) })
    }

    /// Copies out of the guest.
    pub(crate) fn read(&self, address: u32, to: &mut [u8]) -> Result<(), Errno> {
        let from = self.span(address, length(to)?)?;
        // SAFETY: `span` checked the source; the destination is the host's own and cannot overlap
        // guest memory, into which there are no references (`new`).
        unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Copies into the guest.
    pub(crate) fn write(&self, address: u32, from: &[u8]) -> Result<(), Errno> {
        let to = self.span(address, length(from)?)?;
        // SAFETY: as in `read`, the other way round.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        self.note(to, from.len());
        Ok(())
    }

    /// Returns a copy of a span; memory is allocated only after the span was checked.
    pub(crate) fn bytes(&self, address: u32, len: u32) -> Result<Vec<u8>, Errno> {
        self.span(address, len)?;
        let mut bytes = vec![0; len as usize];
        self.read(address, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns a copy of `N` bytes.
    pub(crate) fn array<const N: usize>(&self, address: u32) -> Result<[u8; N], Errno> {
        let mut bytes = [0; N];
        self.read(address, &mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn write_u32(&self, address: u32, value: u32) -> Result<(), Errno> {
        self.write(address, &value.to_le_bytes())
    }

    pub(crate) fn write_u64(&self, address: u32, value: u64) -> Result<(), Errno> {
        self.write(address, &value.to_le_bytes())
    }

    /// Refuses addresses of results that are outside of the memory, before a call has effects whose
    /// result would be lost.
    pub(crate) fn expect(&self, address: u32, len: u32) -> Result<(), Errno> {
        self.span(address, len).map(|_| ())
    }
}

fn length(bytes: &[u8]) -> Result<u32, Errno> {
    u32::try_from(bytes.len()).map_err(|_| Errno::FAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_end_where_memory_ends() {
        let mut bytes = [7; 16];
        let guest = Guest::exclusive(&mut bytes);
        assert!(guest.span(0, 16).is_ok());
        assert!(guest.span(16, 0).is_ok());
        assert_eq!(guest.span(15, 2), Err(Errno::FAULT));
        assert_eq!(guest.span(17, 0), Err(Errno::FAULT));
    }

    #[test]
    fn lengths_that_wrap_around_are_refused() {
        let mut bytes = [7; 16];
        let guest = Guest::exclusive(&mut bytes);
        assert_eq!(guest.span(8, u32::MAX), Err(Errno::FAULT));
        assert_eq!(guest.span(u32::MAX, 1), Err(Errno::FAULT));
        assert_eq!(guest.bytes(1, u32::MAX), Err(Errno::FAULT));
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = [0; 16];
        let guest = Guest::exclusive(&mut bytes);
        guest.write_u64(3, 0x1122_3344_5566_7788).unwrap();
        assert_eq!(guest.array(3), Ok(0x1122_3344_5566_7788u64.to_le_bytes()));
        assert_eq!(guest.write_u64(9, 1), Err(Errno::FAULT));
    }

    #[test]
    fn what_is_written_is_noted_and_what_is_refused_or_read_is_not() {
        let mut bytes = [0; 16];
        let written = Written::default();
        let guest = Guest::exclusive(&mut bytes).noted_in(&written);
        guest.write_u32(4, 1).unwrap();
        guest.write(8, &[]).unwrap();
        guest.write_u64(9, 1).unwrap_err();
        guest.array::<4>(0).unwrap();
        guest.write(15, &[1]).unwrap();
        assert_eq!(written.take(), [(4, 4), (15, 1)]);
        assert_eq!(written.take(), []);
    }

    #[test]
    fn the_last_of_four_gigabytes_is_in_reach_and_what_follows_is_not() {
        let len = (1 << 32) + 65536;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, known to no other code, unmapped below.
        let base = unsafe {
            libc::mmap(ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if base == libc::MAP_FAILED {
            println!("SKIPPED: no room for four gigabytes");
            return;
        }
        // SAFETY: the mapping is `len` bytes long and lives until it is unmapped below.
        let guest = unsafe { Guest::new(base.cast(), len) };
        guest.write(u32::MAX, &[7]).unwrap();
        assert_eq!(guest.array(u32::MAX - 1), Ok([0, 7]));
        assert_eq!(guest.write(u32::MAX, &[7, 7]), Err(Errno::FAULT));
        assert_eq!(guest.span(u32::MAX, u32::MAX), Err(Errno::FAULT));
        // SAFETY: as mapped above; `guest` is not used any more.
        unsafe { libc::munmap(base, len) };
    }

    #[test]
    fn an_empty_memory_holds_nothing() {
        let guest = Guest::exclusive(&mut []);
        assert!(guest.expect(0, 0).is_ok());
        assert_eq!(guest.array::<1>(0), Err(Errno::FAULT));
    }
}
