//! The table of functions, numbered in the order in which they were found. Lookups are by address.
//!
//! A hook that receives an unknown address adds it, so the table takes no lock and never moves: its
//! address space is reserved once. No thread waits for another, either. A thread that adds a
//! function may be interrupted by a signal whose handler adds the same one, or may not exist any
//! more in a forked child. So a thread takes a number, makes the function, and publishes it in the
//! last step: one compare-and-swap of a cell of the index. A thread that comes second has made a
//! function that no lookup finds.
//!
//! Number 0 is a function of the profiler, on which costs are measured.
//!
//! # Safety
//!
//! This module hands out references into a mapping that lives as long as the process.
#![allow(unsafe_code)]

use super::layout::{EPOCH, FUNCTION, Function, RECORD};
use super::sites::SiteList;
use super::{modes, stub};
use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use wordpatch::CodeAddr;
use wordpatch::os::OsError;
use wordpatch::os::pages::{self, Place, Protection};

/// How many functions can exist. Until they do, their table takes address space only.
pub(crate) const MOST: usize = 1 << 18;

/// Cells of the index: twice as many, so that lookups are short.
const CELLS: usize = MOST * 2;

static INDEX: AtomicU64 = AtomicU64::new(0);
static COUNT: AtomicU32 = AtomicU32::new(0);
/// Functions that found no place in the table.
pub(crate) static REFUSED: AtomicU32 = AtomicU32::new(0);

/// The number of a function, from one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(pub(crate) u32);

impl Id {
    /// The offset of its record in a thread's block.
    pub(crate) fn record(self) -> u32 {
        self.0 * RECORD as u32
    }

    pub(crate) fn of_record(offset: u32) -> Self {
        Self(offset / RECORD as u32)
    }

    /// Whether it is made: the agent may see a number earlier.
    pub(crate) fn is_made(self) -> bool {
        self.address() > ABANDONED
    }

    /// Whether it was made and no lookup will ever find it.
    pub(crate) fn is_abandoned(self) -> bool {
        self.address() == ABANDONED
    }

    /// Where it begins.
    pub(crate) fn start(self) -> CodeAddr {
        CodeAddr::new(self.function().address.load(Relaxed) as usize)
    }

    fn address(self) -> u64 {
        self.function().address.load(Acquire)
    }

    pub(crate) fn function<'f>(self) -> &'f Function {
        debug_assert!(self.0 < count(), "function {}", self.0);
        let base = stub::FUNCTIONS.load(Relaxed) as usize;
        // SAFETY: (1) mapped by `prepare` for the life of the process; (2) only numbers below
        // `MOST` are handed out.
        unsafe { &*std::ptr::with_exposed_provenance(base + self.0 as usize * FUNCTION) }
    }
}

impl Function {
    /// Its sites, if it has any.
    pub(crate) fn site_list(&self) -> Option<&SiteList> {
        // SAFETY: (1) null, or a list that is never freed.
        unsafe { self.sites.load(Acquire).as_ref() }
    }

    /// Whether a call that began in this term can end now: its exits were on ever since.
    pub(crate) fn is_unbroken(&self, term: u32) -> bool {
        term ^ self.term.load(Acquire) < EPOCH
    }
}

/// Reserves the tables. Once, before the first event of a hook.
pub(crate) fn prepare() -> Result<(), OsError> {
    // SAFETY: (1) new mappings.
    let index = unsafe {
        pages::map_private(Place::Anywhere, CELLS * size_of::<AtomicU32>(), Protection::ReadWrite)?
    };
    let functions = pages::reserve(MOST * FUNCTION)?;
    stub::FUNCTIONS.store(functions.get() as u64, Release);
    USABLE.store(0, Relaxed);
    if !have_room(0) {
        return Err(OsError { call: "mprotect", errno: libc::ENOMEM });
    }
    INDEX.store(index.get() as u64, Release);
    // The function on which costs are measured: its address is one that no function has.
    add(ABANDONED);
    Ok(())
}

/// How many bytes of the table have memory. These are always enough for some more functions than
/// exist: a thread that reads a number may read its function.
static USABLE: AtomicUsize = AtomicUsize::new(0);
/// As many functions as threads can be adding at the same moment.
const AHEAD: usize = 1 << 12;

/// Gets memory for so many functions, and some more. Returns whether it exists. Usable in a signal
/// handler.
fn have_room(functions: usize) -> bool {
    let (usable, wanted) = (USABLE.load(Acquire), (functions + AHEAD).min(MOST) * FUNCTION);
    if wanted <= usable {
        return true;
    }
    let upto = wanted.next_multiple_of(AHEAD * FUNCTION).min(MOST * FUNCTION);
    let base = CodeAddr::new(stub::FUNCTIONS.load(Relaxed) as usize);
    // SAFETY: (1) a part of the table; what already has memory keeps its contents.
    let made = unsafe {
        pages::protect(base.offset(usable as isize), upto - usable, Protection::ReadWrite)
    };
    if made.is_ok() {
        USABLE.fetch_max(upto, AcqRel);
    }
    made.is_ok()
}

/// Prepares for so many new functions: maps their pages at once, which is faster than one by one.
pub(crate) fn expect(more: usize) {
    let (first, more) = (count() as usize, more.min(MOST - count() as usize));
    let base = CodeAddr::new(stub::FUNCTIONS.load(Relaxed) as usize);
    if more > 0 && have_room(first + more) {
        pages::populate(base.offset((first * FUNCTION) as isize), more * FUNCTION);
    }
}

/// The number of functions, number 0 included.
pub(crate) fn count() -> u32 {
    COUNT.load(Acquire).min(MOST as u32)
}

/// All functions, except for number 0 and those that are not made yet.
pub(crate) fn all() -> impl Iterator<Item = Id> {
    (1..count()).map(Id).filter(|id| id.is_made())
}

/// The address of functions that were made and that no lookup finds.
const ABANDONED: u64 = 1;

/// A cell of the index.
///
/// | value | meaning | changed by |
/// |---|---|---|
/// | 0 | free | a thread that adds a function |
/// | the number of a function, plus one | it can be found | the thread that unloads its module |
/// | the same and [`UNLOADED`] | unloaded, may come back; lookups pass it | a thread reloading it |
fn cell<'c>(at: usize) -> &'c AtomicU32 {
    let base = INDEX.load(Relaxed) as usize;
    // SAFETY: (1) as for functions; (2) `at` is below `CELLS`.
    unsafe { &*std::ptr::with_exposed_provenance(base + (at % CELLS) * size_of::<AtomicU32>()) }
}

const UNLOADED: u32 = 1 << 31;

/// The longest probe sequence: after so many cells without a free one, the index is taken to be
/// full.
const FARTHEST: usize = 1 << 8;
/// Neighbouring cells in a probe sequence, before it continues by strides.
const NEAR: usize = 8;

/// The probe sequence of `address`: the cells in which its function is searched. Functions that lie
/// near each other have cells near each other, so that few pages are touched. Where a large
/// program's functions lie so densely that all of these cells are taken, the sequence leaves the
/// neighbourhood (double hashing; Knuth, volume 3, 6.4).
fn way<'c>(address: u64) -> impl Iterator<Item = &'c AtomicU32> {
    let near = (address >> 5) as usize;
    let mixed = address.wrapping_mul(stub::MULTIPLIER);
    // The stride is odd, and so prime to the number of cells.
    let (far, leap) = ((mixed >> 45) as usize, (mixed >> 26) as usize | 1);
    (near..near + NEAR)
        .chain((0..FARTHEST - NEAR).map(move |turn| far.wrapping_add(turn.wrapping_mul(leap))))
        .map(cell)
}

/// The function at `address`; or the first free cell of its probe sequence, if it has one.
fn seek<'c>(address: u64) -> Result<Id, Option<&'c AtomicU32>> {
    for cell in way(address) {
        match cell.load(Acquire) {
            0 => return Err(Some(cell)),
            found if found & UNLOADED != 0 => {}
            found => {
                let id = Id(found - 1);
                if id.address() == address {
                    return Ok(id);
                }
            }
        }
    }
    Err(None)
}

/// The function at `address`, if it is known.
pub(crate) fn find(address: u64) -> Option<Id> {
    seek(address).ok()
}

/// The function at `address`, added if it is new; `None` if the table is full. Usable in a signal
/// handler.
pub(crate) fn add(address: u64) -> Option<Id> {
    let mut made = None;
    loop {
        let free = match seek(address) {
            Ok(known) => {
                if let Some(Id(unused)) = made {
                    Id(unused).function().address.store(ABANDONED, Release);
                }
                return Some(known);
            }
            Err(Some(free)) => free,
            Err(None) => {
                REFUSED.fetch_add(1, Relaxed);
                return None;
            }
        };
        let id = match made {
            Some(id) => id,
            None => *made.insert(new_function(address)?),
        };
        if free.compare_exchange(0, id.0 + 1, AcqRel, Acquire).is_ok() {
            return Some(id);
        }
    }
}

/// A function that no lookup finds yet.
fn new_function(address: u64) -> Option<Id> {
    let number = COUNT.load(Relaxed);
    if address == 0 || number >= MOST as u32 || !have_room(number as usize) {
        REFUSED.fetch_add(1, Relaxed);
        return None;
    }
    let id = Id(COUNT.fetch_add(1, AcqRel));
    if id.0 >= MOST as u32 {
        REFUSED.fetch_add(1, Relaxed);
        return None;
    }
    modes::init_function(id, address);
    Some(id)
}

/// The first cell of a function on the probe sequence of `address`, or the first free cell. A
/// function that has lain at several addresses has several cells, of which at most one is not
/// unloaded.
fn cell_of<'c>(id: Id, address: u64) -> Option<&'c AtomicU32> {
    way(address).find(|cell| {
        let found = cell.load(Acquire);
        found == 0 || found & !UNLOADED == id.0 + 1
    })
}

/// Removes the functions in `span` from the index, `first` and those with higher numbers: others
/// may be mapped there later. Their numbers stay valid. Returns them.
pub(crate) fn forget(span: &Range<CodeAddr>, first: Id) -> Vec<Id> {
    let mark_unloaded = |id: &Id| {
        let cell = cell_of(*id, id.address()).filter(|cell| cell.load(Relaxed) == id.0 + 1);
        cell.map(|cell| cell.store((id.0 + 1) | UNLOADED, Release)).is_some()
    };
    let within = (first.0..count())
        .map(Id)
        .filter(|id| span.contains(&CodeAddr::new(id.address() as usize)));
    within.filter(mark_unloaded).collect()
}

/// A function that was forgotten was loaded again, and lies at `address` now. Lookups do not find
/// it if another function has got a number there meanwhile, or the index is full. By the holder of
/// the registry, as forgetting.
pub(crate) fn revive(id: Id, address: u64) -> bool {
    if find(address).is_some() {
        // Its name is found by its address.
        id.function().address.store(address, Release);
        return false;
    }
    // Another thread that adds functions may take a free cell.
    let cell = std::iter::repeat_with(|| cell_of(id, address)).take(FARTHEST).find_map(|found| {
        let cell = found?;
        let held = cell.load(Relaxed);
        let is_own =
            held != 0 || cell.compare_exchange(0, (id.0 + 1) | UNLOADED, AcqRel, Acquire).is_ok();
        is_own.then_some(cell)
    });
    id.function().address.store(address, Release);
    if let Some(cell) = cell {
        cell.store(id.0 + 1, Release);
    }
    cell.is_some()
}

/// In a forked child: functions that other threads were making are never finished.
pub(crate) fn inherit() {
    for id in (1..count()).map(Id).filter(|id| id.address() == 0) {
        id.function().address.store(ABANDONED, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::target;
    use std::collections::BTreeSet;

    /// Addresses that no other test has.
    const FIRST: u64 = 0x5000_0000_0000;

    #[test]
    fn threads_that_add_the_same_functions_at_once_agree_about_their_numbers() {
        target::prepare_tables().unwrap();
        let addresses: Vec<u64> = (0..2000).map(|number| FIRST + number * 4).collect();
        let add_all =
            || addresses.iter().map(|&address| add(address).unwrap()).collect::<Vec<Id>>();
        let found: Vec<Vec<Id>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(add_all)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(found.windows(2).all(|pair| pair[0] == pair[1]));
        assert_eq!(found[0].iter().collect::<BTreeSet<_>>().len(), addresses.len());
        for (&id, &address) in found[0].iter().zip(&addresses) {
            assert_eq!((find(address), id.address()), (Some(id), address));
        }
    }

    #[test]
    fn a_function_that_was_never_finished_can_be_added_again() {
        target::prepare_tables().unwrap();
        let address = FIRST + 0x10_0000;
        // Interrupted, or in a parent, before it was made known.
        let unfinished = new_function(address).unwrap();
        let id = add(address).unwrap();
        assert_ne!(id, unfinished);
        assert_eq!(find(address), Some(id));
    }

    #[test]
    fn an_address_that_is_unknown_among_many_is_so_after_a_few_looks() {
        target::prepare_tables().unwrap();
        // As densely as a program's functions can lie.
        let dense = |number: u64| FIRST + 0x1000_0000 + number * 16;
        (0..20_000).for_each(|number| assert!(add(dense(number)).is_some()));
        for number in 0..20_000 {
            let looks = way(dense(number) + 8).position(|cell| cell.load(Acquire) == 0);
            assert!(looks.is_some_and(|looks| looks < 64), "{looks:?}");
            assert_eq!(find(dense(number) + 8), None);
        }
    }

    #[test]
    fn what_is_forgotten_leaves_the_way_to_others_open() {
        target::prepare_tables().unwrap();
        // Neighbours in the index.
        let addresses: Vec<u64> = (0..8).map(|number| FIRST + 0x20_0000 + number).collect();
        let ids: Vec<Id> = addresses.iter().map(|&address| add(address).unwrap()).collect();
        let [gone, end] = [2, 5].map(|at| CodeAddr::new(addresses[at] as usize));
        assert_eq!(forget(&(gone..end), ids[0]), ids[2..5]);
        let found: Vec<Option<Id>> = addresses.iter().map(|&address| find(address)).collect();
        let expected = |(at, &id)| (!(2..5).contains(&at)).then_some(id);
        assert_eq!(found, ids.iter().enumerate().map(expected).collect::<Vec<_>>());
        // One comes back where it was, one elsewhere, and one where another is.
        let elsewhere = addresses[3] + 0x1000;
        assert!(
            revive(ids[2], addresses[2])
                && revive(ids[3], elsewhere)
                && !revive(ids[4], addresses[5])
        );
        ids[4].function().address.store(addresses[4], Relaxed);
        let found = [addresses[2], addresses[3], elsewhere, addresses[4], addresses[5]].map(find);
        assert_eq!(found, [Some(ids[2]), None, Some(ids[3]), None, Some(ids[5])]);
        // Again and again: nothing is used up. Other tests add functions meanwhile.
        let cells_of = |id: Id| {
            (0..CELLS).filter(|&at| cell(at).load(Relaxed) & !UNLOADED == id.0 + 1).count()
        };
        let before = cells_of(ids[2]);
        for _ in 0..10_000 {
            assert_eq!(forget(&(gone..end), ids[0]), [ids[2]]);
            assert!(revive(ids[2], addresses[2]) && find(addresses[2]) == Some(ids[2]));
        }
        assert_eq!(cells_of(ids[2]), before);
        // Between two places, too: each has one cell for it.
        for _ in 0..100 {
            for address in [addresses[2], addresses[2] + 0x4000] {
                let here = CodeAddr::new(ids[2].address() as usize);
                assert_eq!(forget(&(here..here.offset(1)), ids[0]), [ids[2]]);
                assert!(revive(ids[2], address) && find(address) == Some(ids[2]));
            }
        }
        assert_eq!((find(addresses[2]), cells_of(ids[2])), (None, 2));
    }
}
