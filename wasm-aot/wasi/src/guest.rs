//! The guest's memory, as calls see it.
//!
//! A guest passes 32-bit addresses and lengths that it may have made up, and other threads of it
//! may write to the same memory while a call reads it. So nothing here is a reference: every access
//! is checked against the length, then copied by raw pointer. What was read once is never read
//! again to be trusted a second time.
//!
//! # Safety
//!
//! Raw copies between guest and host need unsafe code. [`Guest::new`] is where a caller vouches for
//! the range; [`Guest::span`] is the only place where an address of the guest becomes a pointer,
//! and it checks the whole span.
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
    /// Whether the program is to stop, if an embedder says so.
    stop: Option<&'a AtomicBool>,
    /// Where it is noted what calls write, if an embedder wants to know.
    written: Option<&'a Written>,
    memory: PhantomData<&'a ()>,
}

/// What calls have written to a guest's memory: addresses and lengths, in order.
#[derive(Debug, Default)]
pub struct Written(RefCell<Vec<(u64, u64)>>);

impl Written {
    /// All of it; from then on it is empty.
    pub fn take(&self) -> Vec<(u64, u64)> {
        self.0.take()
    }
}

impl<'a> Guest<'a> {
    /// The memory of `len` bytes from `base`.
    ///
    /// # Safety
    ///
    /// All `len` bytes are mapped, readable and writable for as long as `'a`, and no code holds a
    /// Rust reference into them while a call runs. Other threads may read and write them, as
    /// threads of the guest do.
    pub unsafe fn new(base: *mut u8, len: usize) -> Self {
        Self { base, len, stop: None, written: None, memory: PhantomData }
    }

    /// A memory that no other code uses.
    pub fn exclusive(bytes: &'a mut [u8]) -> Self {
        let (base, len) = (bytes.as_mut_ptr(), bytes.len());
        Self { base, len, stop: None, written: None, memory: PhantomData }
    }

    /// The same, of a program whose host raises `stop` when it is to stop: calls that move
    /// gigabytes look at it, and end early. The host knows that it is raised, and deals with that
    /// when the call has returned.
    #[must_use]
    pub fn stopped_by(self, stop: &'a AtomicBool) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// The same, of a program whose host wants to know what calls write.
    #[must_use]
    pub fn noted_in(self, written: &'a Written) -> Self {
        Self { written: Some(written), ..self }
    }

    /// Notes that bytes were written that begin at a place in the host.
    pub(crate) fn note(&self, place: *const u8, len: usize) {
        if let Some(Written(spans)) = self.written.filter(|_| len > 0) {
            let address = place as usize - self.base as usize;
            spans.borrow_mut().push((address as u64, len as u64));
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::SeqCst))
    }

    /// Where a span of the guest lies in the host, if all of it is memory.
    pub(crate) fn span(&self, address: u32, len: u32) -> Result<*mut u8, Errno> {
        // Addresses have 32 bits, also where a memory is larger: then the rest of it is out of
        // reach.
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

    /// A copy of a span; nothing is allocated before the span is known to exist.
    pub(crate) fn bytes(&self, address: u32, len: u32) -> Result<Vec<u8>, Errno> {
        self.span(address, len)?;
        let mut bytes = vec![0; len as usize];
        self.read(address, &mut bytes)?;
        Ok(bytes)
    }

    /// A copy of so many bytes.
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

    /// Refuses places of results that are no memory, before anything is done whose result would be
    /// lost.
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
