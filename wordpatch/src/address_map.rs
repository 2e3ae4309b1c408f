//! Address maps: lock-free maps from addresses. Entries are only ever added; any thread reads them,
//! also in a signal handler.
//!
//! ```text
//!   segment 0   [ entry | entry | · | entry | … ]     an address has a few places in each segment, tried in order;
//!   segment 1   [ · | entry | … ]                     each segment is twice as long as the one before
//! ```
//!
//! A thread takes an entry by storing the key into the first free one of the key's places. Keys are
//! never removed, and the places of a key are always tried in the same order. So a free place ends
//! the search, and two threads that enter one key find the same entry.
//!
//! Every thread that needs a segment makes one, and the first thread publishes its own. So no
//! thread waits for another to make it; the child of a fork may lack that thread.

use crate::sync::{AtomicUsize, Ordering};
use std::marker::PhantomData;
use std::sync::atomic::AtomicPtr;

/// The number of places of a key in each segment.
const PLACES: usize = 16;

/// Entries of the first segment.
const FIRST: usize = 256;

/// An entry of an address map.
pub(crate) trait Entry {
    /// An entry that no thread has taken.
    fn vacant() -> Self;

    /// Its key; zero while it is vacant. Set once, by the address map.
    fn key(&self) -> &AtomicUsize;
}

/// A map from keys, which are not zero, to entries.
#[derive(Debug)]
pub(crate) struct AddressMap<E> {
    /// The first entries of the segments; null where there is none yet. Set once.
    segments: [AtomicPtr<E>; SEGMENTS],
    entries: PhantomData<E>,
}

/// The largest number of segments.
const SEGMENTS: usize = 24;

impl<E: Entry + 'static> AddressMap<E> {
    pub(crate) const fn new() -> Self {
        Self {
            segments: [const { AtomicPtr::new(std::ptr::null_mut()) }; SEGMENTS],
            entries: PhantomData,
        }
    }

    /// The entry of `key`, if it was entered. Usable in a signal handler.
    pub(crate) fn find(&self, key: usize) -> Option<&E> {
        for segment in self.segments() {
            if let Search::Ended(entry) = find(segment, key) {
                return entry;
            }
        }
        None
    }

    /// The entry of `key`, which is entered if it is new.
    pub(crate) fn enter(&self, key: usize) -> &E {
        let segments = (0..SEGMENTS).map(|n| self.segment(n).unwrap_or_else(|| self.make(n)));
        let mut entries = segments.map(|segment| enter(segment, key));
        // Twenty-four segments hold four thousand million keys, more than there is executable
        // memory in any process.
        entries.find_map(|entry| entry).expect("a segment with room")
    }

    /// All entries, vacant ones too.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &E> {
        self.segments().flatten()
    }

    fn segments(&self) -> impl Iterator<Item = &[E]> {
        (0..SEGMENTS).map_while(|n| self.segment(n))
    }

    /// Segment number `n`, if there is one.
    #[allow(unsafe_code)]
    fn segment(&self, n: usize) -> Option<&[E]> {
        // Acquire pairs with the exchange in `make`.
        let first = self.segments[n].load(Ordering::Acquire);
        // SAFETY: (1) null or the first of as many entries, which `make` leaked.
        (!first.is_null()).then(|| unsafe { std::slice::from_raw_parts(first, FIRST << n) })
    }

    /// Segment number `n`, made here unless another thread makes it first.
    #[allow(unsafe_code)]
    fn make(&self, n: usize) -> &[E] {
        let made: &mut [E] =
            Box::leak(std::iter::repeat_with(E::vacant).take(FIRST << n).collect());
        let null = std::ptr::null_mut();
        if self.segments[n]
            .compare_exchange(null, made.as_mut_ptr(), Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            // SAFETY: (1) leaked above, and no other thread has its address.
            drop(unsafe { Box::from_raw(made) });
        }
        self.segment(n).expect("this thread or another has just made it")
    }
}

/// The result of searching one segment.
enum Search<'a, E> {
    /// The entry, or `None` if no segment has one.
    Ended(Option<&'a E>),
    /// Other keys take all places: the next segment has to be searched.
    Full,
}

fn find<E: Entry>(segment: &[E], key: usize) -> Search<'_, E> {
    for entry in places(segment, key) {
        // Acquire pairs with the exchange in `enter`.
        match entry.key().load(Ordering::Acquire) {
            0 => return Search::Ended(None),
            found if found == key => return Search::Ended(Some(entry)),
            _ => {}
        }
    }
    Search::Full
}

/// The entry of `key` in one segment, taken if it is new; `None` if other keys take all its places.
pub(crate) fn enter<E: Entry>(segment: &[E], key: usize) -> Option<&E> {
    places(segment, key).find(|entry| {
        match entry.key().compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(found) => found == key,
        }
    })
}

fn places<E>(segment: &[E], key: usize) -> impl Iterator<Item = &E> {
    let spread = (key >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let places = PLACES.min(segment.len());
    (0..places).map(move |i| &segment[(spread + i) & (segment.len() - 1)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    impl Entry for AtomicUsize {
        fn vacant() -> Self {
            Self::new(0)
        }

        fn key(&self) -> &AtomicUsize {
            self
        }
    }

    #[test]
    fn every_key_that_was_entered_is_found_and_no_other() {
        let address_map: AddressMap<AtomicUsize> = AddressMap::new();
        let keys = |n: usize| n * 8 + 0x7f00_0000_0000;
        for n in 0..20_000 {
            assert!(std::ptr::eq(address_map.enter(keys(n)), address_map.enter(keys(n))));
        }
        assert!((0..20_000).all(|n| address_map.find(keys(n)).is_some()));
        assert!((20_000..40_000).all(|n| address_map.find(keys(n)).is_none()));
    }

    #[test]
    fn threads_that_enter_the_same_keys_meet_at_the_same_entries() {
        let address_map: &AddressMap<AtomicUsize> = &AddressMap::new();
        let places = std::thread::scope(|scope| {
            let enter_all = || {
                (1..3000)
                    .map(|n| std::ptr::from_ref(address_map.enter(n * 8)) as usize)
                    .collect::<Vec<_>>()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(enter_all)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<HashSet<_>>()
        });
        assert_eq!(places.len(), 1);
        assert_eq!(
            address_map.iter().filter(|entry| entry.load(Ordering::Relaxed) != 0).count(),
            2999
        );
    }
}
