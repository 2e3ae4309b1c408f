//! Generates a script that repeats a run in node and in browsers: the unchanged program, and a
//! player of the trace as its host.
//!
//! It can repeat runs that a module without imports cannot: it continues after traps, and it has
//! host values to refer to. Vectors are refused, because JavaScript cannot pass them.

use crate::binary;
use crate::conformance::Conformance;
use crate::declared::Declared;
use crate::error::Error;
use crate::event::{Change, Door, End, Event};
use crate::generate::Generation;
use crate::placement::Placed;
use crate::value::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{ExportKind, ExportSection, Module, RawSection, SectionId};
use wasmparser::{ExternalKind, Parser, Payload, RefType, TypeRef, ValType};

/// Generates a script that repeats a run of `module`.
pub fn javascript(
    module: &[u8],
    events: impl Iterator<Item = Result<Event, Error>>,
    generation: Generation,
) -> Result<String, Error> {
    let declared = Declared::read(module)?;
    if let Some(what) = declared.refusal() {
        return Err(Error::event(0, format!("the program uses {what}: no replay can be made")));
    }
    let mut conformance = Conformance::new(&declared);
    let (mut bytes, mut functions) = (Vec::new(), BTreeSet::new());
    for event in Placed::new(events) {
        let event = event?;
        let number = conformance.events();
        conformance.check(&event)?;
        if has_vector(&event) {
            return Err(Error::event(number, "a vector, which JavaScript cannot pass"));
        }
        named(&event, &mut functions);
        binary::put(&mut bytes, &event);
    }
    let opened = opened(module, &declared, &functions)?;
    let open = Declared::read(&opened)?;
    let mut out = String::from("'use strict';\n");
    let _ = writeln!(out, "const PROGRAM = \"{}\";", base64(&opened));
    let _ = writeln!(out, "const EVENTS = \"{}\";", base64(&bytes));
    let _ = writeln!(out, "const IMPORTS = {};", imports(module, &declared)?);
    let _ = writeln!(out, "const EXPORTS = {};", exports(&open));
    let _ = writeln!(out, "const FUNCTIONS = {};", declared.functions());
    let _ = writeln!(out, "const CHECKED = {};", generation.is_checked);
    out += include_str!("javascript/player.js");
    Ok(out)
}

fn has_vector(event: &Event) -> bool {
    let any = |values: &[Value]| values.iter().any(|value| matches!(value, Value::V128(_)));
    match event {
        Event::Enter { args, .. } | Event::Call { args, .. } => any(args),
        Event::Leave(End::Values(values) | End::Exception { values, .. })
        | Event::Return(End::Values(values) | End::Exception { values, .. }) => any(values),
        Event::Host(Change::Global { value, .. }) => any(&[*value]),
        Event::Function(signature) => {
            let ty = signature.ty();
            ty.params().iter().chain(ty.results()).any(|ty| *ty == ValType::V128)
        }
        _ => false,
    }
}

/// The functions that an event refers to without their names.
fn named(event: &Event, functions: &mut BTreeSet<u32>) {
    let mut all = |values: &[Value]| {
        functions.extend(values.iter().filter_map(|value| match value {
            Value::Func(index) => *index,
            _ => None,
        }));
    };
    match event {
        Event::Enter { args, .. } | Event::Call { args, .. } => all(args),
        Event::Leave(End::Values(values) | End::Exception { values, .. })
        | Event::Return(End::Values(values) | End::Exception { values, .. }) => all(values),
        Event::Host(
            Change::Global { value, .. }
            | Change::Element { value, .. }
            | Change::GrowTable { value, .. },
        ) => all(&[*value]),
        _ => {}
    }
    if let Event::Enter { function, door: Door::Reference | Door::Start, .. } = event {
        functions.insert(*function);
    }
}

/// The program with exports of all items that the host has used: JavaScript accesses a program's
/// items by their exports. The player calls the start function, because it needs the instance for
/// that.
fn opened(module: &[u8], declared: &Declared, functions: &BTreeSet<u32>) -> Result<Vec<u8>, Error> {
    let mut exports = ExportSection::new();
    for (name, kind, index) in &declared.exports {
        exports.export(name, RoundtripReencoder.export_kind(*kind)?, *index);
    }
    let mut add = |kind, what: &str, index: u32| {
        exports.export(&format!("replay:{what}:{index}"), kind, index);
    };
    let own = functions.range(..declared.functions());
    own.for_each(|index| add(ExportKind::Func, "function", *index));
    (0..declared.memories.len() as u32).for_each(|at| add(ExportKind::Memory, "memory", at));
    (0..declared.tables.len() as u32).for_each(|at| add(ExportKind::Table, "table", at));
    (0..declared.globals.len() as u32).for_each(|at| add(ExportKind::Global, "global", at));
    (0..)
        .map_while(|at| declared.tag(at).map(|_| at))
        .for_each(|at| add(ExportKind::Tag, "tag", at));
    let (mut out, mut is_pending) = (Module::new(), true);
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload?;
        let Some((id, range)) = payload.as_section() else { continue };
        // After globals and before the start, element and code sections.
        if is_pending && matches!(id, 7..=12) {
            out.section(&exports);
            is_pending = false;
        }
        if id != SectionId::Export as u8 && id != SectionId::Start as u8 {
            out.section(&RawSection {
                id,
                data: &module[range.start as usize..range.end as usize],
            });
        }
    }
    if is_pending {
        out.section(&exports);
    }
    Ok(out.finish())
}

/// The program's imports, in order: kind, module, name, type.
fn imports(module: &[u8], declared: &Declared) -> Result<String, Error> {
    let (mut list, mut tags) = (Vec::new(), 0);
    for payload in Parser::new(0).parse_all(module) {
        let Payload::ImportSection(section) = payload? else { continue };
        for import in section.into_imports() {
            let import = import?;
            let limits = |initial: u64, maximum: Option<u64>, is_wide: bool| {
                let number =
                    |value: u64| if is_wide { format!("{value}n") } else { value.to_string() };
                let most = maximum.map(|most| format!(", maximum: {}", number(most)));
                let wide = if is_wide { ", address: \"i64\"" } else { "" };
                format!("initial: {}{}{wide}", number(initial), most.unwrap_or_default())
            };
            let (kind, ty) = match import.ty {
                TypeRef::Func(_) | TypeRef::FuncExact(_) => ("function", "{}".to_owned()),
                TypeRef::Memory(ty) => {
                    ("memory", format!("{{{}}}", limits(ty.initial, ty.maximum, ty.memory64)))
                }
                TypeRef::Table(ty) => {
                    let element =
                        if ty.element_type.is_extern_ref() { "externref" } else { "anyfunc" };
                    let limits = limits(ty.initial, ty.maximum, ty.table64);
                    ("table", format!("{{element: \"{element}\", {limits}}}"))
                }
                TypeRef::Global(ty) => {
                    let value = spelled(ty.content_type);
                    ("global", format!("{{value: \"{value}\", mutable: {}}}", ty.mutable))
                }
                TypeRef::Tag(_) => {
                    let params = declared.tag(tags).expect("a valid module").params();
                    tags += 1;
                    let params: Vec<String> =
                        params.iter().map(|ty| format!("\"{}\"", spelled(*ty))).collect();
                    ("tag", format!("{{parameters: [{}]}}", params.join(", ")))
                }
            };
            list.push(format!(
                "[\"{kind}\", {}, {}, {ty}]",
                quoted(import.module),
                quoted(import.name)
            ));
        }
    }
    Ok(format!("[{}]", list.join(", ")))
}

fn spelled(ty: ValType) -> String {
    match ty {
        ValType::Ref(RefType::FUNCREF) => "anyfunc".into(),
        ValType::Ref(RefType::EXTERNREF) => "externref".into(),
        ty => ty.to_string(),
    }
}

/// The program's exports: by kind, pairs of index and name.
fn exports(declared: &Declared) -> String {
    let of = |kinds: &[ExternalKind]| {
        let own = declared.exports.iter().filter(|(_, kind, _)| kinds.contains(kind));
        let pairs: Vec<String> =
            own.map(|(name, _, index)| format!("[{index}, {}]", quoted(name))).collect();
        pairs.join(", ")
    };
    format!(
        "{{function: [{}], memory: [{}], table: [{}], global: [{}], tag: [{}]}}",
        of(&[ExternalKind::Func, ExternalKind::FuncExact]),
        of(&[ExternalKind::Memory]),
        of(&[ExternalKind::Table]),
        of(&[ExternalKind::Global]),
        of(&[ExternalKind::Tag]),
    )
}

/// A text as a JavaScript literal.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for unit in text.encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte @ b' '..=b'~') if !matches!(byte, b'"' | b'\\' | b'<') => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out + "\""
}

/// Bytes in base 64 (RFC 4648).
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut word = [0; 3];
        word[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, word[0], word[1], word[2]]);
        for digit in 0..4 {
            out.push(match digit <= chunk.len() {
                true => char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63]),
                false => '=',
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn bytes_and_names_are_spelled_as_scripts_need_them() {
        let spelled = [b"".as_slice(), b"f", b"fo", b"foo", b"\xff\x00\x3e\x3f"].map(super::base64);
        assert_eq!(spelled, ["", "Zg==", "Zm8=", "Zm9v", "/wA+Pw=="]);
        assert_eq!(super::quoted("a\"</\n\u{1f600}"), r#""a\u0022\u003c/\u000a\ud83d\ude00""#);
    }
}
