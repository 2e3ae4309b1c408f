//! The description of a program's module for monitors: how many of each item there are, and the
//! bytes of each declaration.
//!
//! The caller says where to write and how much fits; the result is the full length.

use super::host::{Program, text_memory};
use std::ops::Range;
use std::sync::Arc;
use wasm_aot_engine::AsContextMut;
use wasm_aot_engine::Caller;
use wasm_aot_engine::Error;
use wasm_aot_engine::Linker;
use wasm_aot_engine::Trap;
use wasm_aot_engine::instrument::module::{ModuleInfo, Space};
use wasmparser::{Parser, Payload, SectionLimited};

const MODULE: &str = "whamm:reflect";

/// Where the items of sections are, by the numbers of sections.
#[derive(Debug, Default)]
struct BodyOutline {
    sections: [Vec<Range<usize>>; 14],
    whole: [Range<usize>; 14],
    customs: Vec<Range<usize>>,
    bodies: Vec<Range<usize>>,
    /// Of the spaces into which something can be imported, by the numbers of their sections: which
    /// imports fill them.
    imported: [Vec<u32>; 14],
}

const TYPES: usize = 1;
const IMPORTS: usize = 2;
const FUNCTIONS: usize = 3;
const TABLES: usize = 4;
const MEMORIES: usize = 5;
const GLOBALS: usize = 6;
const EXPORTS: usize = 7;
const ELEMENTS: usize = 9;
const DATA: usize = 11;
const TAGS: usize = 13;

impl BodyOutline {
    fn of(bytes: &[u8], info: &ModuleInfo) -> Self {
        let mut outline = Self::default();
        for (number, import) in (0..).zip(&info.imports) {
            outline.imported[section_of(import.space)].push(number);
        }
        for payload in Parser::new(0).parse_all(bytes).flatten() {
            // Custom sections have numbers of their own.
            if let Some((number @ 1.., range)) = payload.as_section()
                && let Some(whole) = outline.whole.get_mut(usize::from(number))
            {
                *whole = range.start as usize..range.end as usize;
            }
            match payload {
                Payload::TypeSection(s) => outline.section(TYPES, s),
                Payload::ImportSection(s) => outline.section(IMPORTS, s),
                Payload::FunctionSection(s) => outline.section(FUNCTIONS, s),
                Payload::TableSection(s) => outline.section(TABLES, s),
                Payload::MemorySection(s) => outline.section(MEMORIES, s),
                Payload::GlobalSection(s) => outline.section(GLOBALS, s),
                Payload::ExportSection(s) => outline.section(EXPORTS, s),
                Payload::ElementSection(s) => outline.section(ELEMENTS, s),
                Payload::DataSection(s) => outline.section(DATA, s),
                Payload::TagSection(s) => outline.section(TAGS, s),
                Payload::CustomSection(s) => {
                    outline
                        .customs
                        .push(s.range().end as usize - s.data().len()..s.range().end as usize);
                }
                Payload::CodeSectionEntry(body) => {
                    outline.bodies.push(body.range().start as usize..body.range().end as usize);
                }
                _ => {}
            }
        }
        // What is imported comes first in its space, and has no definition of its own.
        for (imported, defined) in outline.imported.iter().zip(&mut outline.sections) {
            defined.splice(0..0, std::iter::repeat_n(0..0, imported.len()));
        }
        let functions = outline.imported[FUNCTIONS].len();
        outline.bodies.splice(0..0, std::iter::repeat_n(0..0, functions));
        outline
    }

    fn section<'a, T: wasmparser::FromReader<'a>>(
        &mut self,
        number: usize,
        section: SectionLimited<'a, T>,
    ) {
        let range = section.range();
        let starts: Vec<usize> =
            section.into_iter_with_offsets().flatten().map(|(offset, _)| offset as usize).collect();
        let ends = starts.iter().copied().skip(1).chain([range.end as usize]);
        self.sections[number] =
            starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect();
    }
}

fn section_of(space: Space) -> usize {
    match space {
        Space::Func => FUNCTIONS,
        Space::Table => TABLES,
        Space::Memory => MEMORIES,
        Space::Global => GLOBALS,
        Space::Tag => TAGS,
    }
}

/// Copies what fits of a text into the caller's memory; gives how long it is.
fn copy_text<T>(caller: &mut Caller<'_, T>, text: &str, at: i32, room: i32) -> Result<i32, Error> {
    let memory = text_memory(caller)?;
    let fits = &text.as_bytes()[..text.len().min(room.cast_unsigned() as usize)];
    memory.write(caller.as_context_mut(), at.cast_unsigned() as usize, fits)?;
    Ok(text.len() as i32)
}

/// Copies what fits of a range of the program's bytes into the caller's memory; gives how much
/// there is.
fn copy<T>(
    caller: &mut Caller<'_, T>,
    program: &Program,
    range: Option<&Range<usize>>,
    at: i32,
    room: i32,
) -> Result<i32, Error> {
    let range = range.ok_or(Trap::TableOutOfBounds)?.clone();
    let bytes = program.bytes.get(range).unwrap_or_default();
    let memory = text_memory(caller)?;
    let fits = &bytes[..bytes.len().min(room.cast_unsigned() as usize)];
    memory.write(caller.as_context_mut(), at.cast_unsigned() as usize, fits)?;
    Ok(bytes.len() as i32)
}

/// Gives a linker what can be asked of the program's module.
pub(super) fn add_to_linker<T: 'static>(
    linker: &mut Linker<T>,
    program: &Arc<Program>,
) -> Result<(), Error> {
    let outline = Arc::new(BodyOutline::of(&program.bytes, &program.info));
    for (number, count, read) in [
        (TYPES, "get_num_types", "read_type_def"),
        (IMPORTS, "get_num_imports", "read_import_def"),
        (FUNCTIONS, "get_num_functions", "read_function_def"),
        (TABLES, "get_num_tables", "read_table_def"),
        (MEMORIES, "get_num_memories", "read_memory_def"),
        (GLOBALS, "get_num_globals", "read_global_def"),
        (EXPORTS, "get_num_exports", "read_export_def"),
        (ELEMENTS, "get_num_elements", "read_element_def"),
        (DATA, "get_num_data", "read_data_def"),
        (TAGS, "get_num_tags", "read_tag_def"),
    ] {
        let len = outline.sections[number].len() as i32;
        linker.func_wrap(MODULE, count, move || len)?;
        let (outline, program) = (Arc::clone(&outline), Arc::clone(program));
        linker.func_wrap(
            MODULE,
            read,
            move |mut caller: Caller<'_, T>, index: i32, at: i32, room: i32| {
                copy(
                    &mut caller,
                    &program,
                    outline.sections[number].get(index.cast_unsigned() as usize),
                    at,
                    room,
                )
            },
        )?;
    }
    let (customs, len) = (outline.customs.len() as i32, program.bytes.len() as i32);
    linker.func_wrap(MODULE, "get_num_custom_sections", move || customs)?;
    linker.func_wrap(MODULE, "get_module_size", move || len)?;
    let own = Arc::clone(program);
    linker.func_wrap(MODULE, "is_imported", move |section: i32, index: i32| {
        imported(&own.info, section, index)
    })?;
    let spaces = Arc::clone(&outline);
    linker.func_wrap(MODULE, "get_import_index", move |section: i32, index: i32| {
        import_index(&spaces, section, index)
    })?;
    let own = Arc::clone(program);
    linker.func_wrap(
        MODULE,
        "read_module_path",
        move |mut caller: Caller<'_, T>, at: i32, room: i32| {
            copy_text(&mut caller, &own.path, at, room)
        },
    )?;
    let own = Arc::clone(program);
    linker.func_wrap(
        MODULE,
        "read_module_name",
        move |mut caller: Caller<'_, T>, at: i32, room: i32| {
            copy_text(&mut caller, own.info.name.as_deref().unwrap_or_default(), at, room)
        },
    )?;
    bytes(linker, program, &outline)
}

/// Ranges of a program's bytes that a monitor reads by their numbers.
type RangesOf = fn(&BodyOutline) -> &[Range<usize>];

/// What is read by other numbers than those of a section's items.
fn bytes<T: 'static>(
    linker: &mut Linker<T>,
    program: &Arc<Program>,
    outline: &Arc<BodyOutline>,
) -> Result<(), Error> {
    let own = Arc::clone(program);
    linker.func_wrap(
        MODULE,
        "read_module_def",
        move |mut caller: Caller<'_, T>, at: i32, room: i32| {
            copy(&mut caller, &own, Some(&(0..own.bytes.len())), at, room)
        },
    )?;
    let all: [(&str, RangesOf); 3] = [
        ("read_section", |outline| &outline.whole),
        ("read_custom_section", |outline| &outline.customs),
        ("read_function_body", |outline| &outline.bodies),
    ];
    for (name, ranges) in all {
        let (own, parts) = (Arc::clone(program), Arc::clone(outline));
        let read = move |mut caller: Caller<'_, T>, number: i32, at: i32, room: i32| {
            let range = ranges(&parts).get(number.cast_unsigned() as usize);
            copy(&mut caller, &own, range, at, room)
        };
        linker.func_wrap(MODULE, name, read)?;
    }
    // The interface was published with one number more, which means nothing.
    let (own, parts) = (Arc::clone(program), Arc::clone(outline));
    linker.func_wrap_too(
        MODULE,
        "read_section",
        move |mut caller: Caller<'_, T>, section: i32, at: i32, room: i32, _: i32| {
            copy(&mut caller, &own, parts.whole.get(section.cast_unsigned() as usize), at, room)
        },
    );
    let own = Arc::clone(program);
    linker.func_wrap(
        MODULE,
        "read_function_name",
        move |mut caller: Caller<'_, T>, index: i32, at: i32, room: i32| {
            if index.cast_unsigned() as usize >= own.info.functions.len() {
                return Err(Trap::TableOutOfBounds.into());
            }
            copy_text(
                &mut caller,
                own.info.function_name(index.cast_unsigned()).unwrap_or_default(),
                at,
                room,
            )
        },
    )?;
    Ok(())
}

/// Which import fills a place of a space, or -1.
fn import_index(outline: &BodyOutline, section: i32, index: i32) -> Result<i32, Error> {
    let (section, index) = (section.cast_unsigned() as usize, index.cast_unsigned() as usize);
    let is_space = [FUNCTIONS, TABLES, MEMORIES, GLOBALS, TAGS].contains(&section);
    if !is_space || index >= outline.sections[section].len() {
        return Err(Trap::TableOutOfBounds.into());
    }
    Ok(outline.imported[section].get(index).map_or(-1, |import| import.cast_signed()))
}

/// Whether an item is imported; items are counted with those that are.
fn imported(info: &ModuleInfo, section: i32, index: i32) -> Result<i32, Error> {
    let (space, len) = match section.cast_unsigned() as usize {
        FUNCTIONS => (Space::Func, info.functions.len()),
        TABLES => (Space::Table, info.tables.len()),
        MEMORIES => (Space::Memory, info.memories.len()),
        GLOBALS => (Space::Global, info.globals.len()),
        TAGS => (Space::Tag, info.tags.len()),
        _ => return Err(Trap::TableOutOfBounds.into()),
    };
    let index = index.cast_unsigned();
    if index as usize >= len {
        return Err(Trap::TableOutOfBounds.into());
    }
    Ok(i32::from(info.imports.iter().any(|import| import.space == space && import.index == index)))
}
