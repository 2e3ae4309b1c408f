//! The name section: names of the program, with indices that moved, and names of added functions.

use crate::indices::Indices;
use crate::plan::Plan;
use wasm_encoder::{IndirectNameMap, NameMap, NameSection};
use wasmparser::{BinaryReader, Name, NameSectionReader};

/// Writes the section; `old` is the contents of the program's.
pub(crate) fn section(plan: &Plan, old: Option<&[u8]>) -> NameSection {
    let parts: Vec<Name<'_>> = old
        .map(|old| NameSectionReader::new(BinaryReader::new(old, 0)).flatten().collect())
        .unwrap_or_default();
    let functions = functions(plan, &parts);
    let mut names = NameSection::new();
    let mut done = false;
    for part in parts {
        if !done && !matches!(part, Name::Module { .. }) {
            names.functions(&functions);
            done = true;
        }
        others(&plan.indices, &mut names, part);
    }
    if !done {
        names.functions(&functions);
    }
    names
}

fn functions(plan: &Plan, parts: &[Name<'_>]) -> NameMap {
    let mut all: Vec<(u32, String)> = Vec::new();
    for part in parts {
        if let Name::Function(map) = part {
            let named = map.clone().flatten();
            all.extend(named.map(|own| (plan.indices.original(own.index), own.name.to_owned())));
        }
    }
    all.extend(plan.names.iter().cloned());
    let (first, imported) = plan.indices.imported();
    all.extend((first..).zip(imported).map(|(index, (_, name))| (index, name.clone())));
    all.sort();
    all.dedup_by_key(|named| named.0);
    let mut functions = NameMap::new();
    for (index, name) in &all {
        functions.append(*index, name);
    }
    functions
}

/// Copies names of other items than functions.
fn others(indices: &Indices, names: &mut NameSection, part: Name<'_>) {
    let plain = |map: wasmparser::NameMap<'_>, index: &dyn Fn(u32) -> u32| {
        let mut all = NameMap::new();
        for naming in map.into_iter().flatten() {
            all.append(index(naming.index), naming.name);
        }
        all
    };
    let same = |n: u32| n;
    match part {
        Name::Module { name, .. } => names.module(name),
        Name::Local(map) => {
            let mut all = IndirectNameMap::new();
            for function in map.into_iter().flatten() {
                all.append(indices.original(function.index), &plain(function.names, &same));
            }
            names.locals(&all);
        }
        Name::Type(map) => names.types(&plain(map, &same)),
        Name::Table(map) => names.tables(&plain(map, &same)),
        Name::Memory(map) => names.memories(&plain(map, &|n| indices.memory(n))),
        Name::Global(map) => names.globals(&plain(map, &same)),
        Name::Element(map) => names.elements(&plain(map, &same)),
        Name::Data(map) => names.data(&plain(map, &same)),
        Name::Tag(map) => names.tag(&plain(map, &same)),
        _ => {}
    }
}
