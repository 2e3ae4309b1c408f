//! Room for data segments in modules that have nearly as many as a module may have.
//!
//! Engines accept 100,000 data segments (*WebAssembly JavaScript Interface*,
//! implementation-defined limits). Some linkers use them all: Go's begins a segment wherever its
//! data has a few zeroes, until there are as many. A tool that adds a segment has to join others.

use crate::segments::constant_offset;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use wasm_encoder::{ConstExpr, DataSection, Section};
use wasmparser::{Data, DataKind, DataSectionReader, Parser, Payload, TypeRef};

/// The most data segments that a module may have.
pub const MOST: usize = 100_000;
/// A module begins with its name and version, then sections follow.
const HEADER: usize = 8;

/// Why a module has no room for further data segments.
#[derive(Clone, Debug)]
pub enum NoRoom {
    /// It is not a module.
    Malformed(wasmparser::Error),
    /// Its segments cannot be joined.
    Full,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => error.fmt(f),
            Self::Full => write!(
                f,
                "the program has {MOST} data segments, as many as a module may have, and they \
                 cannot be joined"
            ),
        }
    }
}

impl std::error::Error for NoRoom {}

impl From<wasmparser::Error> for NoRoom {
    fn from(error: wasmparser::Error) -> Self {
        Self::Malformed(error)
    }
}

/// The same module with fewer data segments, where it has no room for `more` of them; `None` where
/// it has.
///
/// Segments are joined that follow each other in the module and in a memory that it defines, with
/// the zeroes between them, which no earlier segment has overwritten. A module with instructions
/// that refer to segments by number has a data count section, and its segments stay as they are.
pub fn with_room_for_data(module: &[u8], more: usize) -> Result<Option<Vec<u8>>, NoRoom> {
    if more == 0 {
        return Ok(None);
    }
    let (mut imported_memories, mut sections, mut joined) = (0, Vec::new(), None);
    let mut is_counted = false;
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload?;
        sections.extend(payload.as_section());
        match payload {
            Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    imported_memories += u32::from(matches!(import?.ty, TypeRef::Memory(_)));
                }
            }
            Payload::DataCountSection { .. } => is_counted = true,
            Payload::DataSection(data) => {
                let excess = (data.count() as usize + more).saturating_sub(MOST);
                if excess > 0 {
                    if is_counted {
                        return Err(NoRoom::Full);
                    }
                    joined = Some(join(module, &data, imported_memories, excess)?);
                }
            }
            _ => {}
        }
    }
    Ok(joined.map(|data| with_data(module, &sections, &data)))
}

/// The module with another data section. What is before it stays where it was, in particular the
/// code: traces and debug information refer to places in the module.
fn with_data(module: &[u8], sections: &[(u8, Range<u64>)], data: &DataSection) -> Vec<u8> {
    let at = sections.iter().position(|(id, _)| *id == data.id()).unwrap_or(sections.len());
    let before = at.checked_sub(1).map_or(HEADER, |at| sections[at].1.end as usize);
    let behind = sections.get(at).map_or(before, |(_, range)| range.end as usize);
    let mut output = module[..before].to_vec();
    data.append_to(&mut output);
    output.extend(&module[behind..]);
    output
}

/// A data segment whose place is known.
struct Placed<'a> {
    memory: u32,
    offset: wasmparser::ConstExpr<'a>,
    range: Range<u64>,
    bytes: &'a [u8],
}

impl<'a> Placed<'a> {
    fn of(data: &Data<'a>) -> Result<Option<Self>, NoRoom> {
        let DataKind::Active { memory_index: memory, offset_expr } = &data.kind else {
            return Ok(None);
        };
        let Some(start) = constant_offset(offset_expr)? else { return Ok(None) };
        let start = start.cast_unsigned();
        let range = start..start.saturating_add(data.data.len() as u64);
        Ok(Some(Self { memory: *memory, offset: offset_expr.clone(), range, bytes: data.data }))
    }
}

/// The segments, `excess` of which are joined with the one before.
fn join(
    module: &[u8],
    data: &DataSectionReader<'_>,
    imported_memories: u32,
    excess: usize,
) -> Result<DataSection, NoRoom> {
    let all = data.clone().into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut placed = Vec::with_capacity(all.len());
    for segment in &all {
        placed.push(Placed::of(segment)?);
    }
    let is_joined = closest(&placed, imported_memories, excess).ok_or(NoRoom::Full)?;
    let mut output = DataSection::new();
    let mut at = 0;
    while at < all.len() {
        let end = (at + 1..all.len()).find(|next| !is_joined[*next]).unwrap_or(all.len());
        match (&placed[at], end - at) {
            (Some(first), 2..) => {
                let mut bytes = Vec::new();
                for part in placed[at..end].iter().flatten() {
                    bytes.resize((part.range.start - first.range.start) as usize, 0);
                    bytes.extend(part.bytes);
                }
                let offset = first.offset.get_binary_reader().range();
                // Its end is not a part of what is written.
                let offset = &module[offset.start as usize..offset.end as usize - 1];
                let offset = ConstExpr::raw(offset.iter().copied());
                output.active(first.memory, &offset, bytes);
            }
            _ => {
                let range = all[at].range.clone();
                output.raw(&module[range.start as usize..range.end as usize]);
            }
        }
        at = end;
    }
    Ok(output)
}

/// Which segments to join with the one before: those with the fewest zeroes between.
fn closest(
    placed: &[Option<Placed<'_>>],
    imported_memories: u32,
    excess: usize,
) -> Option<Vec<bool>> {
    let mut gaps = Vec::new();
    // For each memory, what lies behind the last byte that was written so far.
    let mut written: HashMap<u32, u64> = HashMap::new();
    for (at, next) in placed.iter().enumerate() {
        // It may be written anywhere.
        let Some(next) = next else { break };
        let end = written.entry(next.memory).or_default();
        let before = at.checked_sub(1).and_then(|at| placed[at].as_ref());
        let follows = |before: &Placed<'_>| {
            before.memory == next.memory && before.range.end == *end && next.range.start >= *end
        };
        if next.memory >= imported_memories && before.is_some_and(follows) {
            gaps.push((next.range.start - *end, at));
        }
        *end = next.range.end.max(*end);
    }
    if gaps.len() < excess {
        return None;
    }
    gaps.sort_unstable();
    let mut is_joined = vec![false; placed.len()];
    gaps[..excess].iter().for_each(|(_, at)| is_joined[*at] = true);
    Some(is_joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(memory: &str, segments: impl Iterator<Item = String>) -> Vec<u8> {
        let segments: String = segments.collect();
        wat::parse_str(format!("(module {memory} {segments})")).unwrap()
    }

    /// What is in memory 0 after instantiation.
    fn contents(module: &[u8]) -> (usize, Vec<u8>) {
        let (mut count, mut bytes) = (0, vec![0; 1 << 20]);
        for payload in Parser::new(0).parse_all(module) {
            if let Payload::DataSection(data) = payload.unwrap() {
                for segment in data {
                    let segment = segment.unwrap();
                    count += 1;
                    if let Some(placed) = Placed::of(&segment).unwrap() {
                        let at = placed.range.start as usize;
                        bytes[at..at + placed.bytes.len()].copy_from_slice(placed.bytes);
                    }
                }
            }
        }
        (count, bytes)
    }

    fn segment(at: usize, text: &str) -> String {
        format!("(data (i32.const {at}) \"{text}\")")
    }

    #[test]
    fn a_full_module_gets_room_and_the_same_contents() {
        let memory = "(memory 16)";
        let spread = (0..MOST).map(|at| segment(10 * at + at % 7, "ab"));
        let full = module(memory, spread);
        for more in [1, 2, 1_000] {
            let roomy = with_room_for_data(&full, more).unwrap().unwrap();
            wasmparser::Validator::new().validate_all(&roomy).unwrap();
            let (count, bytes) = contents(&roomy);
            assert_eq!(count, MOST - more);
            assert!(bytes == contents(&full).1);
        }
        let fewer = module(memory, (1..MOST).map(|at| segment(10 * at, "ab")));
        assert!(with_room_for_data(&fewer, 1).unwrap().is_none());
    }

    #[test]
    fn the_code_stays_where_it_was() {
        let segments = (0..MOST).map(|at| segment(10 * at, "ab"));
        let text = module("(memory 16) (func (export \"f\") nop)", segments);
        // Some linkers write the sizes of sections with five bytes.
        let mut full = text[..HEADER].to_vec();
        for payload in Parser::new(0).parse_all(&text) {
            let Some((id, range)) = payload.unwrap().as_section() else { continue };
            let size = (range.end - range.start) as u32;
            full.push(id);
            full.extend((0..5).map(|at| {
                let more = if at < 4 { 0x80 } else { 0 };
                (size >> (7 * at)) as u8 & 0x7f | more
            }));
            full.extend(&text[range.start as usize..range.end as usize]);
        }
        let code = |module: &[u8]| {
            let mut payloads = Parser::new(0).parse_all(module).map(Result::unwrap);
            payloads.find_map(|payload| match payload {
                Payload::CodeSectionEntry(body) => Some(body.range()),
                _ => None,
            })
        };
        let roomy = with_room_for_data(&full, 1).unwrap().unwrap();
        wasmparser::Validator::new().validate_all(&roomy).unwrap();
        assert_eq!(code(&roomy), code(&full));
        assert_eq!(contents(&roomy), (MOST - 1, contents(&full).1));
    }

    #[test]
    fn bytes_between_segments_that_were_written_before_are_kept() {
        // Each pair lies over an earlier segment, except for one.
        let over = (0..MOST).map(|at| match at {
            0 => segment(0, &"z".repeat(900_000)),
            1 => segment(900_000, "a"),
            2 => segment(900_003, "b"),
            at => segment(at * 8 % 800_000, "c"),
        });
        let full = module("(memory 16)", over);
        let roomy = with_room_for_data(&full, 2).unwrap().unwrap();
        assert!(contents(&roomy) == (MOST - 2, contents(&full).1));
        assert!(matches!(with_room_for_data(&full, 3), Err(NoRoom::Full)));
    }

    #[test]
    fn segments_of_the_hosts_memory_and_numbered_ones_are_not_joined() {
        let spread = || (0..MOST).map(|at| segment(10 * at, "ab"));
        let imported = module("(import \"a\" \"b\" (memory 16))", spread());
        let drops = "(memory 16) (func (data.drop 3))";
        for full in [imported, module(drops, spread())] {
            let refused = with_room_for_data(&full, 1).unwrap_err();
            assert!(refused.to_string().contains("100000 data segments"), "{refused}");
        }
    }
}
