//! The layout of a vmctx, computed from declarations alone, so that compiler and runtime agree.

use crate::module::ModuleInfo;
use crate::vm::{FuncImport, FuncRef, Memory, Table};

/// The offsets of a module's vmctx.
#[derive(Clone, Debug)]
pub struct Layout {
    imported_tables: u32,
    memory_places: Vec<MemoryAt>,
    imported_globals: u32,
    tags: u32,
    types: u32,
    tables: u32,
    globals: u32,
    references: u32,
    counters: u32,
    size: u32,
    counts: crate::module::Imported,
}

/// The place of the [`Memory`] of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryAt {
    /// In the vmctx, at that offset.
    Inline(u32),
    /// Elsewhere: its address is at that offset.
    Pointer(u32),
}

/// The offset of the first imported function.
const FUNCTIONS: u32 = 48;

impl Layout {
    /// The layout of instances of a module with that many counters.
    pub(crate) fn new(info: &ModuleInfo, counters: u32) -> Self {
        let counts = info.imported;
        let imported_tables = FUNCTIONS + counts.functions * size_of::<FuncImport>() as u32;
        let mut next = imported_tables + counts.tables * 8;
        let is_pointer =
            |index: usize| index < counts.memories as usize || info.memories[index].shared;
        let mut memory_places = vec![MemoryAt::Inline(0); info.memories.len()];
        for index in (0..info.memories.len()).filter(|index| is_pointer(*index)) {
            memory_places[index] = MemoryAt::Pointer(take(&mut next, 8));
        }
        let imported_globals = take(&mut next, counts.globals * 8);
        let tags = take(&mut next, info.tags.len() as u32 * 8);
        let types = take(&mut next, (info.types.len() as u32).next_multiple_of(2) * 4);
        let tables =
            take(&mut next, (info.tables.len() as u32 - counts.tables) * size_of::<Table>() as u32);
        for index in (0..info.memories.len()).filter(|index| !is_pointer(*index)) {
            memory_places[index] = MemoryAt::Inline(take(&mut next, size_of::<Memory>() as u32));
        }
        next = next.next_multiple_of(16);
        let globals = take(&mut next, (info.globals.len() as u32 - counts.globals) * 16);
        let references =
            take(&mut next, info.referenced.len() as u32 * size_of::<FuncRef>() as u32);
        let counters = take(&mut next, counters * 8);
        Self {
            imported_tables,
            memory_places,
            imported_globals,
            tags,
            types,
            tables,
            globals,
            references,
            counters,
            size: next,
            counts,
        }
    }

    /// The size of the vmctx.
    pub(crate) fn size(&self) -> usize {
        self.size as usize
    }

    /// The [`FuncImport`] of imported function `index`.
    pub(crate) fn function(&self, index: u32) -> i32 {
        (FUNCTIONS + index * size_of::<FuncImport>() as u32) as i32
    }

    /// The offset of the table, and whether its address is there instead.
    pub(crate) fn table(&self, index: u32) -> (i32, bool) {
        match index.checked_sub(self.counts.tables) {
            None => ((self.imported_tables + index * 8) as i32, true),
            Some(defined) => ((self.tables + defined * size_of::<Table>() as u32) as i32, false),
        }
    }

    pub(crate) fn memory(&self, index: u32) -> MemoryAt {
        self.memory_places[index as usize]
    }

    /// The offset of the global, and whether its address is there instead.
    pub(crate) fn global(&self, index: u32) -> (i32, bool) {
        match index.checked_sub(self.counts.globals) {
            None => ((self.imported_globals + index * 8) as i32, true),
            Some(defined) => ((self.globals + defined * 16) as i32, false),
        }
    }

    /// The address of the [`Tag`](crate::vm::Tag).
    pub(crate) fn tag(&self, index: u32) -> i32 {
        (self.tags + index * 8) as i32
    }

    /// The number of a type.
    pub(crate) fn type_number(&self, index: u32) -> i32 {
        (self.types + index * 4) as i32
    }

    /// The [`FuncRef`] of that position among the functions that can be referred to.
    pub(crate) fn reference(&self, place: usize) -> i32 {
        (self.references as usize + place * size_of::<FuncRef>()) as i32
    }

    /// The counter with that number.
    pub(crate) fn counter(&self, number: u32) -> i32 {
        (self.counters + number * 8) as i32
    }
}

fn take(next: &mut u32, bytes: u32) -> u32 {
    let at = *next;
    *next += bytes;
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::Features;
    use crate::vm::Tag;

    /// Two of everything, imported and defined.
    const ALL: &str = r#"(module
        (import "a" "f" (func)) (import "a" "f2" (func (param i32)))
        (import "a" "t" (table 1 funcref)) (import "a" "m" (memory 1)) (import "a" "g" (global i32)) (import "a" "e" (tag))
        (import "a" "g2" (global (mut v128)))
        (type $odd (func (result i64)))
        (table 2 externref) (table 3 funcref) (memory 1) (memory 1 2 shared) (memory i64 1)
        (global (mut v128) (v128.const i64x2 0 0)) (global i32 (i32.const 1)) (tag) (tag (param i64))
        (func (export "x")) (func (export "y")) (func))"#;

    fn info(text: &str) -> ModuleInfo {
        crate::module::read(&wat::parse_str(text).expect("a module"), Features::default())
            .expect("valid")
            .info
    }

    /// The offset, the size and the alignment of everything.
    fn places(info: &ModuleInfo) -> Vec<(usize, usize, usize)> {
        let layout = Layout::new(info, 3);
        let mut places = vec![(0, FUNCTIONS as usize, 8)];
        let all = |count: usize| 0..count as u32;
        places.extend(
            all(info.imported.functions as usize)
                .map(|i| (layout.function(i) as usize, size_of::<FuncImport>(), 8)),
        );
        places.extend(all(info.tables.len()).map(|i| match layout.table(i) {
            (offset, true) => (offset as usize, 8, 8),
            (offset, false) => (offset as usize, size_of::<Table>(), 8),
        }));
        places.extend(all(info.memories.len()).map(|i| match layout.memory(i) {
            MemoryAt::Pointer(offset) => (offset as usize, 8, 8),
            MemoryAt::Inline(offset) => (offset as usize, size_of::<Memory>(), 8),
        }));
        places.extend(all(info.globals.len()).map(|i| match layout.global(i) {
            (offset, true) => (offset as usize, 8, 8),
            (offset, false) => (offset as usize, 16, 16),
        }));
        places.extend(
            all(info.tags.len()).map(|i| (layout.tag(i) as usize, size_of::<*const Tag>(), 8)),
        );
        places.extend(all(info.types.len()).map(|i| (layout.type_number(i) as usize, 4, 4)));
        places.extend(
            (0..info.referenced.len())
                .map(|i| (layout.reference(i) as usize, size_of::<FuncRef>(), 8)),
        );
        places.extend((0..3).map(|i| (layout.counter(i) as usize, 8, 8)));
        places.sort_unstable();
        places
    }

    #[test]
    fn nothing_overlaps_and_everything_is_aligned_and_inside() {
        for text in [
            ALL,
            "(module)",
            "(module (type (func)) (memory 1) (global v128 (v128.const i64x2 0 0)))",
        ] {
            let info = info(text);
            let places = places(&info);
            for pair in places.windows(2) {
                assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?} in {text}");
            }
            assert!(
                places.iter().all(|(offset, _, alignment)| offset % alignment == 0),
                "{places:?}"
            );
            let (offset, len, _) = places.last().expect("the head at least");
            assert!(offset + len <= Layout::new(&info, 3).size());
        }
    }

    #[test]
    fn what_is_imported_or_shared_is_reached_through_its_address() {
        let info = info(ALL);
        let layout = Layout::new(&info, 3);
        assert!(layout.table(0).1 && !layout.table(1).1);
        assert!(layout.global(0).1 && layout.global(1).1 && !layout.global(2).1);
        let is_pointer = |index| matches!(layout.memory(index), MemoryAt::Pointer(_));
        assert_eq!([0, 1, 2, 3].map(is_pointer), [true, false, true, false]);
    }
}
