//! Reach: the addresses that every call of a module can lead to, and the free places among them.
//!
//! ```text
//!        end − 2 GiB                    start    end                     start + 2 GiB
//!   ─────────[──────────────────────────│ module │──────────────────────────]─────────
//!            ↑ below: the last free bytes first            above: the first free bytes first ↑
//! ```
//!
//! Space is left for two neighbours: the heap, which grows upwards, and stacks, which grow
//! downwards. A gap beside one of them is used from its far end.
//!
//! There is no unsafe code here, and nothing is mapped: the results are candidates, nearest first.

use std::ops::Range;
use wordpatch::CodeAddr;
use wordpatch::os::maps::Mapping;
use wordpatch::os::pages::PAGE;

/// The reach of a displacement in either direction, less one page for the instruction's own length.
const FAR: usize = (1 << 31) - PAGE;

/// The bounds of user space: by default the kernel maps nothing below them
/// (/proc/sys/vm/mmap_min_addr), and it never maps anything above them.
const USER: Range<usize> = 0x1_0000..0x7fff_ffff_f000;

/// The addresses that every byte of a module can reach, and that can reach every byte of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    module: Range<CodeAddr>,
    whole: Range<CodeAddr>,
}

impl Reach {
    /// The reach of a module; `None` if the module is larger than a displacement's reach.
    pub fn of(module: Range<CodeAddr>) -> Option<Self> {
        let start = module.end.get().saturating_sub(FAR).max(USER.start);
        let end = module.start.get().saturating_add(FAR).min(USER.end);
        let (start, end) = (start.next_multiple_of(PAGE), end & !(PAGE - 1));
        let larger = module.is_empty() || module.end.distance_from(module.start) as usize > FAR;
        (!larger && start < end)
            .then(|| Self { whole: CodeAddr::new(start)..CodeAddr::new(end), module })
    }

    /// All addresses within reach.
    pub fn range(&self) -> Range<CodeAddr> {
        self.whole.clone()
    }

    /// The free places for `len` bytes (whole pages), nearest first. `mappings` are those of the
    /// process [with its heap](wordpatch::os::maps::mappings_and_heap), in order; nor is a place
    /// used that is `kept` for others.
    pub fn free_places(
        &self,
        len: usize,
        grid: Grid,
        mappings: &[Mapping],
        kept: &[Range<CodeAddr>],
    ) -> Vec<CodeAddr> {
        let mut gaps: Vec<Gap> = gaps(mappings).collect();
        for kept in kept {
            gaps = gaps.into_iter().flat_map(|gap| gap.without(kept)).collect();
        }
        let mut places: Vec<CodeAddr> =
            gaps.iter().filter_map(|gap| self.place_in(gap, len, grid)).collect();
        places.sort_by_key(|place| self.distance(*place, len));
        places
    }

    /// The place in a gap.
    fn place_in(&self, gap: &Gap, len: usize, grid: Grid) -> Option<CodeAddr> {
        let start = grid.up(gap.free.start.max(self.whole.start.get()));
        let end = gap.free.end.min(self.whole.end.get());
        let last = grid.down(end.checked_sub(len)?);
        if last < start {
            return None;
        }
        let below = end <= self.module.start.get();
        let at = match (gap.behind_heap, gap.before_stack) {
            (true, false) => last,
            (false, true) => start,
            (true, true) => grid.down(start + (last - start) / 2),
            (false, false) if below => last,
            (false, false) => start,
        };
        Some(CodeAddr::new(at))
    }

    fn distance(&self, place: CodeAddr, len: usize) -> usize {
        if place < self.module.start {
            self.module.start.get() - (place.get() + len)
        } else {
            place.get() - self.module.end.get().min(place.get())
        }
    }
}

/// The addresses at which places may begin: they differ from `origin` by multiples of a power of
/// two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// An address on the grid.
    pub origin: CodeAddr,
    /// The distance of neighbours, a power of two.
    pub step: usize,
}

impl Grid {
    /// The beginning of any page.
    pub const PAGES: Self = Self { origin: CodeAddr::new(0), step: PAGE };

    fn down(self, address: usize) -> usize {
        address.saturating_sub(address.wrapping_sub(self.origin.get()) & (self.step - 1))
    }

    fn up(self, address: usize) -> usize {
        address.saturating_add(self.origin.get().wrapping_sub(address) & (self.step - 1))
    }
}

/// A range in which nothing is mapped.
struct Gap {
    free: Range<usize>,
    behind_heap: bool,
    before_stack: bool,
}

impl Gap {
    /// The parts of it before and after a range.
    fn without(self, kept: &Range<CodeAddr>) -> impl Iterator<Item = Self> {
        let Range { start, end } = self.free;
        let before = start..end.min(kept.start.get());
        let after = start.max(kept.end.get())..end;
        let before =
            Self { before_stack: self.before_stack && before.end == end, free: before, ..self };
        let after =
            Self { behind_heap: self.behind_heap && after.start == start, free: after, ..self };
        [before, after].into_iter().filter(|gap| gap.free.start < gap.free.end)
    }
}

/// The gaps between mappings, and those before the first and after the last.
fn gaps(mappings: &[Mapping]) -> impl Iterator<Item = Gap> {
    let is = |place: Option<&Mapping>, name: &str| {
        place.is_some_and(|mapping| mapping.path.starts_with(name))
    };
    (0..=mappings.len()).filter_map(move |i| {
        let before = i.checked_sub(1).map(|i| &mappings[i]);
        let after = mappings.get(i);
        let start = before.map_or(USER.start, |mapping| mapping.end.get()).max(USER.start);
        let end = after.map_or(USER.end, |mapping| mapping.start.get()).min(USER.end);
        let gap = Gap {
            free: start..end,
            behind_heap: is(before, "[heap]"),
            before_stack: is(after, "[stack"),
        };
        (start < end).then_some(gap)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: usize = 1 << 30;

    fn mapping(range: Range<usize>, path: &str) -> Mapping {
        let [start, end] = [range.start, range.end].map(CodeAddr::new);
        Mapping {
            start,
            end,
            read: true,
            write: false,
            execute: true,
            offset: 0,
            path: path.to_owned(),
        }
    }

    fn reach(module: Range<usize>) -> Reach {
        Reach::of(CodeAddr::new(module.start)..CodeAddr::new(module.end)).unwrap()
    }

    #[test]
    fn every_place_is_free_and_reaches_every_byte_of_the_module() {
        arbtest::arbtest(|u| {
            let mut at = USER.start;
            let mut mappings = Vec::new();
            while mappings.len() < 12 {
                at += u.int_in_range(0..=GIB / PAGE)? * PAGE;
                let end = at + u.int_in_range(1..=GIB / PAGE)? * PAGE;
                mappings.push(mapping(at..end, u.choose(&["", "[heap]", "[stack]", "/lib/x.so"])?));
                at = end;
            }
            let module = u.choose(&mappings)?.clone();
            let reach = reach(module.start.get()..module.end.get());
            let len = u.int_in_range(1..=64)? * PAGE;
            let step = PAGE << u.int_in_range(0..=5)?;
            let grid = Grid { origin: CodeAddr::new(u.int_in_range(0..=64)? * PAGE), step };
            let places = reach.free_places(len, grid, &mappings, &[]);
            for place in &places {
                assert_eq!(place.get().wrapping_sub(grid.origin.get()) % step, 0, "{place}");
                let end = place.offset(len as isize);
                assert!(
                    mappings.iter().all(|m| end <= m.start || m.end <= *place),
                    "{place} is taken"
                );
                for (from, to) in [
                    (module.start, end),
                    (module.end, *place),
                    (*place, module.end),
                    (end, module.start),
                ] {
                    assert!(
                        i32::try_from(to.distance_from(from)).is_ok(),
                        "{from} does not reach {to}"
                    );
                }
            }
            let distances: Vec<usize> =
                places.iter().map(|&place| reach.distance(place, len)).collect();
            assert!(distances.is_sorted());
            Ok(())
        });
    }

    #[test]
    fn the_heap_and_the_stack_keep_room_to_grow() {
        let module = 4 * GIB..4 * GIB + PAGE;
        let heap = 4 * GIB + 16 * PAGE..4 * GIB + 32 * PAGE;
        let mappings = [
            mapping(module.clone(), "/bin/x"),
            mapping(heap.clone(), "[heap]"),
            mapping(5 * GIB..6 * GIB, "[stack]"),
        ];
        let places = reach(module.clone()).free_places(PAGE, Grid::PAGES, &mappings, &[]);
        assert_eq!(places[0].get(), module.start - PAGE);
        let behind_heap = places.iter().find(|place| place.get() > heap.end).unwrap();
        assert!(behind_heap.get() > heap.end + GIB / 4, "{behind_heap}");
    }

    #[test]
    fn a_module_without_a_gap_in_reach_has_no_place() {
        let module = 8 * GIB..8 * GIB + PAGE;
        let around = [
            mapping(5 * GIB..module.start, ""),
            mapping(module.clone(), ""),
            mapping(module.end..12 * GIB, ""),
        ];
        assert_eq!(reach(module.clone()).free_places(PAGE, Grid::PAGES, &around, &[]), []);
        let hole = [
            mapping(5 * GIB..7 * GIB, ""),
            mapping(7 * GIB + 2 * PAGE..module.start, ""),
            around[1].clone(),
            around[2].clone(),
        ];
        let one = reach(module.clone()).free_places(2 * PAGE, Grid::PAGES, &hole, &[]);
        assert_eq!(one, [CodeAddr::new(7 * GIB)]);
        assert_eq!(reach(module).free_places(3 * PAGE, Grid::PAGES, &hole, &[]), []);
    }

    #[test]
    fn a_module_that_is_larger_than_a_displacement_has_no_reach() {
        assert_eq!(Reach::of(CodeAddr::new(GIB)..CodeAddr::new(4 * GIB)), None);
        assert_eq!(Reach::of(CodeAddr::new(GIB)..CodeAddr::new(GIB)), None);
        assert!(Reach::of(CodeAddr::new(0x40_0000)..CodeAddr::new(0x50_0000)).is_some());
    }
}
