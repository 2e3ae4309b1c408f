//! Landings: jumps at the targets of puns.
//!
//! A pun's displacement is code of the program, so it cannot be chosen: a page is mapped at its
//! target, and a jump is put there.
//!
//! ```text
//!   pun   E9 48 83 EC 18 ──────────▶ landing: jmp trampoline ──▶ island near the module
//! ```
//!
//! A process may have some tens of thousands of mappings (vm.max_map_count), and a large program
//! needs a landing on as many pages. So they are mapped in *spans* of two megabytes, in which only
//! the pages that hold a landing are ever touched; adjacent spans are one mapping to the kernel.
//! Where memory is charged before it is touched, each page is a separate mapping. The number of
//! pages is limited, too, and an existing page is preferred. All of this is private memory, of
//! which a forked child has a copy.
//!
//! # Safety
//!
//! This module exists to map pages and to write jumps that no thread executes yet.
#![allow(unsafe_code)]

use crate::x86;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use wordpatch::CodeAddr;
use wordpatch::live::{self, Width};
use wordpatch::os::OsError;
use wordpatch::os::maps::{self, Mapping};
use wordpatch::os::pages::{self, PAGE, Protection};

/// A heap grows upwards after its mapping; this much is left free for it.
const HEAP: usize = 1 << 30;
/// The same below four gigabytes, where programs that are not position-independent are loaded.
const LOW_HEAP: usize = 128 << 20;
/// Stacks grow downwards.
const STACK: usize = 256 << 20;
/// By default the kernel maps nothing below this address.
const LOWEST: usize = 0x1_0000;
const HIGHEST: usize = 0x7fff_ffff_f000;

/// The number of mappings in the process above which no more are made: half of the limit
/// (vm.max_map_count); the other half is left to the program.
const BEARABLE: usize = 1 << 15;

/// The size that one page of page tables maps.
const SPAN: usize = 2 << 20;

const JUMP: usize = x86::Form::Jump.len();

/// Why there is no landing at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoLanding {
    /// Other memory is mapped there, or the place is left free for it to grow.
    #[error("the place {0} is not free")]
    Taken(CodeAddr),
    /// The limit on pages is reached.
    #[error("there are {0} pages of landings: no more are wanted")]
    Full(usize),
    /// The landing does not reach its target.
    #[error("a jump at {0} does not reach its trampoline")]
    OutOfReach(CodeAddr),
    /// The kernel maps no page there.
    #[error(transparent)]
    Os(#[from] OsError),
}

/// The landings of a process.
#[derive(Debug)]
pub struct Landings {
    /// The pages that hold landings, by address, each with a map of its used bytes.
    pages: HashMap<usize, Box<[u64; PAGE / 64]>>,
    /// The spans mapped for landings, each from its start to its end.
    spans: BTreeMap<usize, usize>,
    /// The size that is mapped at once.
    span: usize,
    most: usize,
    /// How many more mappings may be made, by the latest survey.
    bearable: usize,
    /// Where pages may be mapped, in order.
    free: Vec<Range<usize>>,
    /// Places where no page may be mapped, even if they are free.
    clear: Vec<Range<CodeAddr>>,
}

impl Landings {
    /// No landings yet; at most `most` pages.
    pub fn new(most: usize) -> Self {
        Self {
            pages: HashMap::new(),
            spans: BTreeMap::new(),
            span: PAGE,
            most,
            bearable: 0,
            free: Vec::new(),
            clear: Vec::new(),
        }
    }

    /// Keeps a place clear for trampolines: spans would otherwise take all places near a module. A
    /// landing that is already there stays.
    pub fn keep_clear(&mut self, place: Range<CodeAddr>) {
        self.clear.push(place);
    }

    /// Undoes [`keep_clear`](Self::keep_clear): the place may be used again.
    pub fn let_go(&mut self, place: &Range<CodeAddr>) {
        self.clear.retain(|clear| clear != place);
    }

    /// Reads the current mappings. Call it before requesting landings.
    pub fn survey(&mut self) -> Result<(), OsError> {
        self.survey_of(&maps::mappings_and_heap()?);
        Ok(())
    }

    /// The same, from [mappings](maps::mappings_and_heap) that the caller has just read.
    pub fn survey_of(&mut self, mappings: &[Mapping]) {
        self.bearable = BEARABLE.saturating_sub(mappings.len());
        self.span = if pages::untouched_is_free() { SPAN } else { PAGE };
        // A span that the program has mapped over now belongs to the program.
        self.spans.retain(|start, end| is_still_ours(mappings, *start..*end));
        let mut free = Vec::with_capacity(mappings.len() + 1);
        let mut start = LOWEST;
        for mapping in mappings {
            let margin = if mapping.path.starts_with("[stack") { STACK } else { 0 };
            // The kernel lists a page of its own at the upper end.
            let end = mapping.start.get().saturating_sub(margin).min(HIGHEST);
            if start < end {
                free.push(start..end);
            }
            let heap = if mapping.start.get() >> 32 == 0 { LOW_HEAP } else { HEAP };
            let margin = if mapping.path.starts_with("[heap") { heap } else { 0 };
            start = start.max(mapping.end.get().saturating_add(margin));
        }
        if start < HIGHEST {
            free.push(start..HIGHEST);
        }
        for clear in &self.clear {
            let cut = |gap: Range<usize>| {
                let [start, end] = [clear.start.get(), clear.end.get()];
                let parts = [gap.start..gap.end.min(start), gap.start.max(end)..gap.end];
                parts.into_iter().filter(|part| part.start < part.end)
            };
            free = free.into_iter().flat_map(cut).collect();
        }
        self.free = free;
    }

    /// The number of pages that hold landings.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// The number of new pages that a landing at `at` needs.
    pub fn price(&self, at: CodeAddr) -> Result<usize, NoLanding> {
        if (at.get()..at.get() + JUMP).any(|byte| self.is_used(byte)) {
            return Err(NoLanding::Taken(at));
        }
        let new = || pages_of(at).filter(|page| !self.pages.contains_key(page));
        let unmapped = || pages_of(at).filter(|page| !self.is_mapped(*page));
        let count = new().count();
        if !unmapped().all(|page| self.is_free(page)) {
            Err(NoLanding::Taken(at))
        } else if unmapped().count() > self.bearable
            || (count > 0 && self.pages.len() + count > self.most)
        {
            Err(NoLanding::Full(self.pages.len()))
        } else {
            Ok(count)
        }
    }

    /// Puts a landing at `at`, which leads to `to`.
    pub fn put(&mut self, at: CodeAddr, to: CodeAddr) -> Result<(), NoLanding> {
        self.price(at)?;
        let jump = x86::jump(at, to).ok_or(NoLanding::OutOfReach(at))?;
        for page in pages_of(at) {
            if !self.is_mapped(page) {
                self.map(page)?;
            }
            self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE / 64]));
        }
        for (byte, value) in (at.get()..).zip(jump) {
            // SAFETY: (1) pages of this table, which stay mapped; (2) no landing is there, so no
            // thread executes these bytes.
            unsafe { live::store(CodeAddr::new(byte), Width::One, value.into()) };
            self.mark(byte, true);
        }
        Ok(())
    }

    /// Removes landings, and reads the current mappings. A page without landings is returned to the
    /// kernel, and a span with its last page.
    ///
    /// # Safety
    /// No thread is inside any of them, and none will reach them.
    pub unsafe fn take_away(
        &mut self,
        landings: impl Iterator<Item = CodeAddr>,
    ) -> Result<(), OsError> {
        self.survey()?;
        let mut emptied = BTreeSet::new();
        for at in landings {
            (at.get()..at.get() + JUMP).for_each(|byte| self.mark(byte, false));
            emptied.extend(pages_of(at));
        }
        emptied
            .retain(|page| self.pages.get(page).is_some_and(|used| used.iter().all(|&u| u == 0)));
        for page in emptied {
            self.pages.remove(&page);
            // A span that the program has mapped over belongs to the program.
            let span = self.spans.range(..=page).next_back().filter(|(_, end)| page < **end);
            let Some((start, end)) = span.map(|(start, end)| (*start, *end)) else { continue };
            if (start..end).step_by(PAGE).any(|page| self.pages.contains_key(&page)) {
                // SAFETY: (1) a page of this table; (2) no landing is on it, and no thread executes
                // it.
                unsafe { pages::discard(CodeAddr::new(page), PAGE)? };
            } else {
                // SAFETY: (1) mapped by `map`; (2) the caller: no thread executes it.
                unsafe { pages::unmap(CodeAddr::new(start), end - start)? };
                self.spans.remove(&start);
            }
        }
        self.survey()
    }

    /// Returns up to `len` bytes of spans within a range to the kernel, in pieces of at least
    /// `least` bytes that hold no landing: spans may have taken all places near a module that comes
    /// later. Reads the current mappings. Returns the pieces, which are
    /// [kept clear](Self::keep_clear) from now on.
    pub fn cede(
        &mut self,
        within: &Range<CodeAddr>,
        len: usize,
        least: usize,
    ) -> Result<Vec<Range<CodeAddr>>, OsError> {
        // A span that the program has mapped over belongs to the program.
        self.survey()?;
        let (mut ceded, mut left) = (Vec::new(), len);
        for piece in self.unused(within, least) {
            if left == 0 {
                break;
            }
            let piece = piece.start..piece.end.min(piece.start + left.max(least));
            left = left.saturating_sub(piece.len());
            self.split_off(&piece)?;
            ceded.push(CodeAddr::new(piece.start)..CodeAddr::new(piece.end));
        }
        ceded.iter().for_each(|piece| self.keep_clear(piece.clone()));
        Ok(ceded)
    }

    /// The pieces of spans within a range that hold no landing, of at least `least` bytes.
    fn unused(&self, within: &Range<CodeAddr>, least: usize) -> Vec<Range<usize>> {
        let Range { start: from, end: to } = within;
        let mut pieces: Vec<Range<usize>> = Vec::new();
        for (&start, &end) in &self.spans {
            for page in (start.max(from.get())..end.min(to.get())).step_by(PAGE) {
                match pieces.last_mut() {
                    _ if self.pages.contains_key(&page) => {}
                    Some(piece) if piece.end == page && page > start => piece.end += PAGE,
                    _ => pieces.push(page..page + PAGE),
                }
            }
        }
        pieces.retain(|piece| piece.len() >= least);
        pieces
    }

    /// Unmaps a piece of a span that holds no landing.
    fn split_off(&mut self, piece: &Range<usize>) -> Result<(), OsError> {
        let span = self.spans.range(..=piece.start).next_back().map(|(start, end)| (*start, *end));
        let Some((start, end)) = span else { return Ok(()) };
        // SAFETY: (1) part of a span, which `map` has mapped; (2) no landing is there, so no thread
        // executes it.
        unsafe { pages::unmap(CodeAddr::new(piece.start), piece.len())? };
        self.spans.remove(&start);
        for part in [start..piece.start, piece.end..end] {
            if part.start < part.end {
                self.spans.insert(part.start, part.end);
            }
        }
        Ok(())
    }

    /// Maps a page, and around it as much of its span as is free.
    fn map(&mut self, page: usize) -> Result<(), OsError> {
        let gap = self.gap(page).unwrap_or(page..page + PAGE);
        let start = (page - page % self.span).max(gap.start);
        let end = (page - page % self.span + self.span).min(gap.end);
        let map = |range: &Range<usize>| {
            let at = CodeAddr::new(range.start);
            pages::map_sparse(at, range.len(), Protection::ReadWriteExecute)
        };
        // Another thread may have mapped memory there since the survey.
        let alone = page..page + PAGE;
        let mapped = match map(&(start..end)) {
            Ok(()) => start..end,
            Err(_) => map(&alone).map(|()| alone)?,
        };
        self.spans.insert(mapped.start, mapped.end);
        self.bearable = self.bearable.saturating_sub(1);
        Ok(())
    }

    /// Whether a page is part of a span.
    fn is_mapped(&self, page: usize) -> bool {
        self.spans.range(..=page).next_back().is_some_and(|(_, end)| page < *end)
    }

    fn is_free(&self, page: usize) -> bool {
        self.gap(page).is_some()
    }

    /// The free range around a page, by the latest survey.
    fn gap(&self, page: usize) -> Option<Range<usize>> {
        let next = self.free.partition_point(|gap| gap.end < page + PAGE);
        self.free.get(next).filter(|gap| gap.start <= page).cloned()
    }

    fn is_used(&self, byte: usize) -> bool {
        let offset = byte % PAGE;
        let used = self.pages.get(&(byte - offset));
        used.is_some_and(|used| used[offset / 64] & (1 << (offset % 64)) != 0)
    }

    fn mark(&mut self, byte: usize, is_used: bool) {
        let offset = byte % PAGE;
        if let Some(used) = self.pages.get_mut(&(byte - offset)) {
            let bit = 1 << (offset % 64);
            let word = &mut used[offset / 64];
            *word = if is_used { *word | bit } else { *word & !bit };
        }
    }
}

/// Whether a span is still mapped as it was.
fn is_still_ours(mappings: &[Mapping], span: Range<usize>) -> bool {
    let first = mappings.partition_point(|mapping| mapping.end.get() <= span.start);
    let mut at = span.start;
    for mapping in &mappings[first..] {
        let is_ours = mapping.read && mapping.write && mapping.execute && mapping.path.is_empty();
        if !is_ours || mapping.start.get() > at {
            return false;
        }
        at = mapping.end.get();
        if at >= span.end {
            return true;
        }
    }
    false
}

fn pages_of(at: CodeAddr) -> impl Iterator<Item = usize> {
    let first = at.get() & !(PAGE - 1);
    let last = (at.get() + JUMP - 1) & !(PAGE - 1);
    (first..=last).step_by(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use wordpatch::CodeMemory;

    /// The tests use the same places, so they run one at a time.
    fn alone() -> MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn landings_share_pages_and_never_bytes() {
        let _alone = alone();
        let mut memory = CodeMemory::new(PAGE).unwrap();
        memory.write(0, &[0xb8, 7, 0, 0, 0, 0xc3]);
        let mut landings = Landings::new(3);
        landings.survey().unwrap();
        // In the middle of a gap from whose ends other threads take memory.
        let far = CodeAddr::new((memory.base().get() - (1 << 30)) & !(PAGE - 1));
        let base = (0..1 << 10).map(|i| far.offset(i * 64 * PAGE as isize));
        let is_free = |at: &CodeAddr| (0..4).all(|i| landings.is_free(at.get() + i * PAGE));
        let base = base.clone().find(is_free).expect("a gap");
        let at = |offset| base.offset(offset);
        assert_eq!(landings.price(at(8)), Ok(1));
        landings.put(at(8), memory.base()).unwrap();
        assert_eq!(landings.price(at(100)), Ok(0));
        assert_eq!(landings.price(at(12)), Err(NoLanding::Taken(at(12))));
        // Across the end of a page.
        landings.put(at(2 * PAGE as isize - 2), memory.base()).unwrap();
        assert_eq!(landings.pages(), 3);
        assert_eq!(landings.price(at(3 * PAGE as isize + 8)), Err(NoLanding::Full(3)));
        assert_eq!(landings.price(memory.base()), Err(NoLanding::Taken(memory.base())));
        for landing in [at(8), at(2 * PAGE as isize - 2)] {
            // SAFETY: a jump to a function of that type.
            let function: extern "C" fn() -> u32 = unsafe { std::mem::transmute(landing.as_ptr()) };
            assert_eq!(function(), 7);
        }
    }

    /// A page in the middle of a free range as large as a span.
    fn far_away(landings: &Landings, memory: &CodeMemory) -> usize {
        let from = (memory.base().get() - (1 << 30)) & !(SPAN - 1);
        let is_free = |at: &usize| (0..SPAN).step_by(PAGE).all(|by| landings.is_free(at + by));
        (0..256).map(|i| from - i * SPAN).find(is_free).expect("a gap") + SPAN / 2
    }

    fn mapping_at(address: usize) -> Mapping {
        maps::mapping_at(CodeAddr::new(address)).unwrap().unwrap()
    }

    #[test]
    fn many_pages_are_one_mapping_and_what_maps_over_them_has_taken_them() {
        let _alone = alone();
        let memory = CodeMemory::new(PAGE).unwrap();
        let mut landings = Landings::new(3);
        landings.survey().unwrap();
        let middle = far_away(&landings, &memory);
        let at = |offset: isize| CodeAddr::new(middle).offset(offset);
        for page in [0, -40, 50] {
            landings.put(at(page * PAGE as isize + 8), memory.base()).unwrap();
        }
        let whole = mapping_at(middle);
        assert!(whole.start <= at(-40 * PAGE as isize) && whole.end > at(50 * PAGE as isize));
        assert_eq!(landings.pages(), 3);
        // Another survey recognises the landings' own pages, and that they are full.
        landings.survey().unwrap();
        assert_eq!(landings.price(at(100)), Ok(0));
        assert_eq!(landings.price(at(PAGE as isize)), Err(NoLanding::Full(3)));
        // SAFETY: a page of the table, which no thread executes.
        unsafe { pages::map_private(pages::Place::Over(at(0)), PAGE, Protection::ReadWrite) }
            .unwrap();
        landings.survey().unwrap();
        assert_eq!(landings.price(at(100)), Err(NoLanding::Taken(at(100))));
    }

    #[test]
    fn what_is_taken_away_leaves_no_page_and_no_mapping() {
        let _alone = alone();
        let memory = CodeMemory::new(PAGE).unwrap();
        let mut landings = Landings::new(3);
        landings.survey().unwrap();
        let middle = far_away(&landings, &memory);
        let at = |offset: isize| CodeAddr::new(middle).offset(offset);
        let all = [at(8), at(100), at(3 * PAGE as isize - 2)];
        for _ in 0..1000 {
            all.iter().for_each(|at| landings.put(*at, memory.base()).unwrap());
            assert_eq!(landings.pages(), 3);
            // SAFETY: no thread executes them.
            unsafe { landings.take_away(all[..1].iter().copied()) }.unwrap();
            assert_eq!((landings.pages(), landings.price(at(8))), (3, Ok(0)));
            // SAFETY: as above.
            unsafe { landings.take_away(all[2..].iter().copied()) }.unwrap();
            assert_eq!((landings.pages(), landings.price(all[2])), (1, Ok(2)));
            // SAFETY: as above.
            unsafe { landings.take_away(all[1..2].iter().copied()) }.unwrap();
            assert!(maps::mapping_at(at(0)).unwrap().is_none());
        }
        // Memory that the program has mapped over a landing stays the program's.
        landings.put(at(8), memory.base()).unwrap();
        let over = pages::Place::Over(at(0));
        // SAFETY: a page of the table, which no thread executes.
        unsafe { pages::map_private(over, PAGE, Protection::ReadWrite) }.unwrap();
        // SAFETY: as above.
        unsafe { landings.take_away([at(8)].into_iter()) }.unwrap();
        assert!(!mapping_at(middle).execute);
    }

    #[test]
    fn parts_of_spans_without_landings_are_ceded_and_stay_clear() {
        let _alone = alone();
        let memory = CodeMemory::new(PAGE).unwrap();
        let mut landings = Landings::new(8);
        landings.survey().unwrap();
        let middle = far_away(&landings, &memory);
        let at = |pages: isize| CodeAddr::new(middle).offset(pages * PAGE as isize);
        for page in [0, 3, 100] {
            landings.put(at(page).offset(8), memory.base()).unwrap();
        }
        // Two pages between landings are too few; 96 are there between the later ones.
        let ceded = landings.cede(&(at(0)..at(101)), 20 * PAGE, 16 * PAGE).unwrap();
        assert_eq!(ceded, [at(4)..at(24)]);
        assert!(maps::mapping_at(at(4)).unwrap().is_none());
        assert!(maps::mapping_at(at(23)).unwrap().is_none());
        assert!(mapping_at(middle + 24 * PAGE).execute && mapping_at(middle + 3 * PAGE).execute);
        landings.survey().unwrap();
        assert_eq!(landings.price(at(5)), Err(NoLanding::Taken(at(5))));
        for page in [0, 3, 100] {
            let landing = at(page).offset(8);
            assert_eq!(landings.price(landing), Err(NoLanding::Taken(landing)));
            assert_eq!(landings.price(landing.offset(64)), Ok(0));
        }
        assert_eq!(landings.cede(&(at(0)..at(3)), 64 * PAGE, 16 * PAGE).unwrap(), []);
        // Memory that the program has mapped over a span is not given away.
        let over = pages::Place::Over(at(60));
        // SAFETY: a page of the table, which no thread executes.
        unsafe { pages::map_private(over, PAGE, Protection::ReadWrite) }.unwrap();
        landings.cede(&(at(24)..at(100)), 64 * PAGE, 16 * PAGE).unwrap();
        assert!(!mapping_at(middle + 60 * PAGE).execute);
    }

    #[test]
    fn what_is_kept_clear_is_neither_a_landing_s_nor_a_span_s() {
        let _alone = alone();
        let memory = CodeMemory::new(PAGE).unwrap();
        let mut landings = Landings::new(3);
        landings.survey().unwrap();
        let middle = far_away(&landings, &memory);
        let at = |pages: isize| CodeAddr::new(middle).offset(pages * PAGE as isize);
        let clear = at(1)..at(3);
        landings.keep_clear(clear.clone());
        landings.survey().unwrap();
        assert_eq!(landings.price(at(1)), Err(NoLanding::Taken(at(1))));
        assert_eq!(landings.price(at(2)), Err(NoLanding::Taken(at(2))));
        for page in [0, 3] {
            landings.put(at(page).offset(8), memory.base()).unwrap();
        }
        assert!(maps::mapping_at(at(1)).unwrap().is_none());
        assert!(maps::mapping_at(at(2)).unwrap().is_none());
        landings.let_go(&clear);
        landings.survey().unwrap();
        assert_eq!(landings.price(at(1)), Ok(1));
    }

    #[test]
    fn where_memory_is_charged_before_it_is_touched_each_page_is_by_itself() {
        let _alone = alone();
        let memory = CodeMemory::new(PAGE).unwrap();
        let mut landings = Landings::new(3);
        landings.survey().unwrap();
        landings.span = PAGE;
        let middle = far_away(&landings, &memory);
        landings.put(CodeAddr::new(middle + 8), memory.base()).unwrap();
        let mapping = mapping_at(middle);
        assert_eq!((mapping.start.get(), mapping.end.get()), (middle, middle + PAGE));
    }

    #[test]
    fn no_landing_is_where_the_kernel_s_addresses_are() {
        let _alone = alone();
        let mut landings = Landings::new(usize::MAX);
        landings.survey().unwrap();
        for at in [HIGHEST, 1 << 47, 0x8000_0000_0000_1000, 0x18usize.wrapping_neg() << 28] {
            let at = CodeAddr::new(at);
            assert_eq!(landings.price(at), Err(NoLanding::Taken(at)));
        }
    }

    #[test]
    fn heaps_and_stacks_have_room_to_grow() {
        let _alone = alone();
        let mut landings = Landings::new(usize::MAX);
        landings.survey().unwrap();
        let mappings = maps::mappings().unwrap();
        let of = |name: &str| mappings.iter().find(|mapping| mapping.path.starts_with(name));
        if let Some(heap) = of("[heap]") {
            let behind = heap.end.offset(PAGE as isize);
            assert_eq!(landings.price(behind), Err(NoLanding::Taken(behind)));
        }
        let stack = of("[stack").expect("a thread has a stack");
        let below = stack.start.offset(-(PAGE as isize));
        assert_eq!(landings.price(below), Err(NoLanding::Taken(below)));
    }
}
