//! Random scripts: rules for which the program has sites, all values that are available there, and
//! all kinds of variables.

use arbtest::arbitrary::{Result, Unstructured};
use std::fmt::Write;
use wasm_aot_body::events::{Bound, Event, Instruction, Mode, by_code, code_of, instructions};
use wasm_aot_body::types::Ty;

/// Patterns that match several instructions, and the modes of these.
const PATTERNS: [(&str, &[&str]); 13] = [
    ("*", &["before", "after"]),
    ("i32.*", &["before", "after"]),
    ("i64.*", &["before", "after"]),
    ("f*", &["before", "after"]),
    ("*load*", &["before", "after"]),
    ("*store*", &["before", "after"]),
    ("local.*|global.*", &["before", "after"]),
    ("br*", &["before", "after", "at_target"]),
    ("*const", &["before"]),
    ("block|loop|if", &["before", "after", "entry", "exit"]),
    ("else|end", &["before", "after"]),
    ("call*", &["before", "after"]),
    ("*.*_u", &["before", "after"]),
];
/// Types that operands and results are bounded by.
const TYPES: [(&str, Ty); 6] = [
    ("i32", Ty::I32),
    ("i64", Ty::I64),
    ("u32", Ty::U32),
    ("u64", Ty::U64),
    ("f32", Ty::F32),
    ("f64", Ty::F64),
];
/// Values that differ between the two targets by design: rewritten programs know only the table
/// entries that they have observed, and have no numbers for probes.
const APART: [&str; 4] = ["resolved_fid", "target_funcref", "probe_id", "APP_MEMID"];

/// Instructions that are not replaced: without them a program might not terminate, since they count
/// its supply of turns; or a label, a caller or a callee takes values that no replacement yields.
const KEPT: [&str; 13] = [
    "i32.eqz",
    "i32.sub",
    "i32.const",
    "global.get",
    "global.set",
    "if",
    "end",
    "unreachable",
    "br_on_null",
    "br_on_non_null",
    "return_call",
    "return_call_indirect",
    "return_call_ref",
];

/// The features of a program that scripts can use.
pub(crate) struct Present {
    instructions: Vec<&'static Instruction>,
    /// Functions of one type, so that a call of one may become a call of the other.
    alike: Vec<(u32, u32)>,
}

/// Functions of one type, which are all defined.
fn alike(types: &[u32]) -> Vec<(u32, u32)> {
    let all = || (0u32..).zip(types);
    let others = |(n, ty)| all().filter(move |(_, other)| *other == ty).map(move |(m, _)| (n, m));
    all().flat_map(others).filter(|(n, m)| n != m).collect()
}

/// Reads the features of a program that scripts can use.
pub(crate) fn present(bytes: &[u8]) -> Present {
    let mut found = vec![false; instructions().len()];
    let mut types = Vec::new();
    for payload in wasmparser::Parser::new(0).parse_all(bytes) {
        let body = match payload.expect("a module") {
            wasmparser::Payload::CodeSectionEntry(body) => body,
            wasmparser::Payload::FunctionSection(section) => {
                types.extend(section.into_iter().map(|ty| ty.expect("a type")));
                continue;
            }
            _ => continue,
        };
        let mut reader = body.get_operators_reader().expect("a body");
        while !reader.eof() {
            let at = reader.original_position() as usize;
            reader.read().expect("an instruction");
            if let Some(known) = code_of(&bytes[at..]).and_then(by_code) {
                found[known.index] = true;
            }
        }
    }
    let instructions = instructions().iter().filter(|known| found[known.index]).collect();
    Present { instructions, alike: alike(&types) }
}

/// A value of a type that a script can compute with, and its spelling.
struct Value {
    text: String,
    ty: Ty,
}

/// The values that a probe can use, and the bounds that give them types.
struct Scope {
    values: Vec<Value>,
    bounds: Vec<String>,
}

/// A script for a program with these instructions.
pub(crate) fn script(present: &Present, u: &mut Unstructured<'_>) -> Result<String> {
    let mut text = String::from(
        "report var total: u32; report var mixed: i64; report var seen: map<u32, u32>; report var pairs: map<(u32, u32), i64>;\n\
         report frame var inside: u32; report var last: i32;\n",
    );
    for number in 0..u.int_in_range(1..=4)? {
        probe(&mut text, number, &present.instructions, u)?;
    }
    if u.ratio(1, 3)? {
        replacement(&mut text, 9, present, u)?;
    }
    Ok(text)
}

/// A probe that replaces an instruction or calls.
fn replacement(
    text: &mut String,
    number: u32,
    present: &Present,
    u: &mut Unstructured<'_>,
) -> Result<()> {
    let mut scope = Scope { values: Vec::new(), bounds: Vec::new() };
    let among = |known: &&&Instruction| !KEPT.contains(&known.name);
    let some: Vec<&Instruction> = present.instructions.iter().filter(among).copied().collect();
    let (rule, predicate, end) = match u.choose_iter(some.iter()) {
        _ if !present.alike.is_empty() && u.ratio(1, 3)? => {
            let (called, instead) = *u.choose(&present.alike)?;
            let predicate = format!(" / imm0 == {called} /");
            // The same function: as a constant, or as computed at the site.
            let which = match u.int_in_range(0..=2)? {
                0 => instead.to_string(),
                1 if instead >= called => format!("imm0 + {}", instead - called),
                1 => format!("imm0 - {}", called - instead),
                _ => format!("imm0 == {called} ? {instead} : imm0"),
            };
            ("wasm:opcode:call:alt".to_owned(), predicate, format!("alt_call_by_id({which});"))
        }
        Err(_) => return Ok(()),
        Ok(known) => {
            let event = Event::Opcode(known);
            let Some((_, mode)) =
                event.modes().iter().find(|mode| matches!(mode.1, Mode::Alt | Mode::BlockAlt))
            else {
                return Ok(());
            };
            scope.ask(event, *mode, u)?;
            let end = match event.variable("res0").map(|found| found.ty) {
                None if ["br_if", "br_table"].contains(&known.name) => "drop_args();".to_owned(),
                // A block may have a result, or not.
                None if mode == &Mode::BlockAlt && u.ratio(1, 2)? => {
                    format!("return {};", u.int_in_range(0..=9)?)
                }
                None => String::new(),
                Some(Ty::F32 | Ty::F64) => "return 1.5;".to_owned(),
                Some(Ty::I64) => format!("return {};", scope.number("i64", u)?),
                Some(Ty::I32) => format!("return {};", scope.number("i32", u)?),
                Some(_) => format!("return {};", u.int_in_range(0..=9)?),
            };
            let bounds = scope.bounds.join(", ");
            let bounds = if bounds.is_empty() { bounds } else { format!("({bounds})") };
            let predicate = match u.ratio(1, 2)? {
                true => format!(" / {} /", scope.condition(u)?),
                false => String::new(),
            };
            (format!("wasm:opcode:{}{bounds}:alt", event.names().1), predicate, end)
        }
    };
    let _ = writeln!(text, "{rule}{predicate} {{");
    let _ = writeln!(
        text,
        "    report var n{number}: u32; report var s{number}: i64; report var m{number}: map<u32, u32>;"
    );
    let line = scope.statement(number, u)?;
    let _ = writeln!(text, "    {line} {end}\n}}");
    Ok(())
}

fn probe(
    text: &mut String,
    number: u32,
    present: &[&'static Instruction],
    u: &mut Unstructured<'_>,
) -> Result<()> {
    let structural =
        ["func:entry", "func:exit", "block:start", "block:end", "func:entry|exit", "block:*"];
    let mut scope = Scope { values: Vec::new(), bounds: Vec::new() };
    let rule = match u.int_in_range(0..=9)? {
        0 | 1 => {
            let rule = *u.choose(&structural)?;
            let event = if rule == "block:end" { Event::BlockEnd } else { Event::FuncEntry };
            scope.ask(event, Mode::None, u)?;
            // Bounds would select places by types, which these rules do not allow.
            scope.values.retain(|value| !value.text.starts_with("local"));
            format!("wasm:{rule}")
        }
        2..=4 => {
            scope.values.extend(
                ["pc", "fid", "opidx", "category_id"]
                    .map(|name| Value { text: name.into(), ty: Ty::U32 }),
            );
            let (pattern, modes) = u.choose(&PATTERNS)?;
            format!("wasm:opcode:{pattern}:{}", u.choose(modes)?)
        }
        _ if present.is_empty() => "wasm:func:exit".into(),
        _ => {
            let event = Event::Opcode(*u.choose(present)?);
            let modes: Vec<_> = event
                .modes()
                .iter()
                .filter(|mode| !matches!(mode.1, Mode::Alt | Mode::BlockAlt))
                .collect();
            let (name, mode) = **u.choose(&modes)?;
            scope.ask(event, mode, u)?;
            let bounds = scope.bounds.join(", ");
            let bounds = if bounds.is_empty() { bounds } else { format!("({bounds})") };
            format!("wasm:opcode:{}{bounds}:{name}", event.names().1)
        }
    };
    let predicate =
        if u.ratio(1, 3)? { format!(" / {} /", scope.condition(u)?) } else { String::new() };
    let _ = writeln!(text, "{rule}{predicate} {{");
    let kept = *u.choose(&["report", "report shared", "report"])?;
    let _ = writeln!(
        text,
        "    {kept} var n{number}: u32; {kept} var s{number}: i64; {kept} var m{number}: map<u32, u32>;"
    );
    for _ in 0..u.int_in_range(1..=3)? {
        let line = scope.statement(number, u)?;
        let _ = writeln!(text, "    {line}");
    }
    text.push_str("}\n");
    Ok(())
}

impl Scope {
    /// Chooses some of the values that are available at an event.
    fn ask(&mut self, event: Event, mode: Mode, u: &mut Unstructured<'_>) -> Result<()> {
        for (name, definition) in event.variables() {
            if APART.contains(&name.as_str())
                || event.variable_at(&name, mode, 0).is_none()
                || !u.ratio(1, 3)?
            {
                continue;
            }
            if name == "targets" {
                // There may be fewer; missing ones are 0.
                let which = *u.choose(&["0", "1", "2", "arg0"])?;
                if which != "arg0" || event.variable_at("arg0", mode, 0).is_some() {
                    self.values.push(Value { text: format!("targets[{which}]"), ty: Ty::U32 });
                }
                continue;
            }
            let ty = match (definition.bound, definition.ty) {
                (Bound::Arg(_) | Bound::Res(_) | Bound::Local(_), Ty::Any) => {
                    let (spelled, ty) = u.choose(&TYPES)?;
                    self.bounds.push(format!("{name}: {spelled}"));
                    ty.clone()
                }
                (_, ty) => ty,
            };
            if matches!(
                ty,
                Ty::Bool | Ty::U16 | Ty::U32 | Ty::I32 | Ty::U64 | Ty::I64 | Ty::F32 | Ty::F64
            ) {
                self.values.push(Value { text: name, ty });
            }
        }
        Ok(())
    }

    /// An integer as a type.
    fn number(&self, ty: &str, u: &mut Unstructured<'_>) -> Result<String> {
        let whole: Vec<&Value> = self
            .values
            .iter()
            .filter(|value| !matches!(value.ty, Ty::F32 | Ty::F64 | Ty::Bool))
            .collect();
        if whole.is_empty() || u.ratio(1, 6)? {
            return Ok(format!("({} as {ty})", u.int_in_range(0..=9)?));
        }
        Ok(format!("({} as {ty})", u.choose(&whole)?.text))
    }

    fn condition(&self, u: &mut Unstructured<'_>) -> Result<String> {
        let simple = |u: &mut Unstructured<'_>| -> Result<String> {
            let values: Vec<&Value> = self.values.iter().collect();
            if values.is_empty() {
                return Ok("fid > 0".into());
            }
            let value = *u.choose(&values)?;
            let name = &value.text;
            Ok(match value.ty {
                Ty::Bool => (*u.choose(&[name.clone(), format!("!{name}")])?).clone(),
                Ty::F32 | Ty::F64 => format!("{name} {} 1.5", u.choose(&["<", ">=", "!="])?),
                _ => {
                    let operator = u.choose(&["==", "!=", "<", ">", "<=", ">="])?;
                    match u.int_in_range(0..=2)? {
                        0 => format!("{name} {operator} {}", u.int_in_range(0..=40)?),
                        1 => format!("({name} & 3) {operator} {}", u.int_in_range(0..=3)?),
                        _ => format!("{name} % 5 {operator} {}", u.int_in_range(0..=4)?),
                    }
                }
            })
        };
        let first = simple(u)?;
        match u.int_in_range(0..=3)? {
            0 => Ok(format!("({first}) && ({})", simple(u)?)),
            1 => Ok(format!("({first}) || ({})", simple(u)?)),
            _ => Ok(first),
        }
    }

    fn statement(&self, number: u32, u: &mut Unstructured<'_>) -> Result<String> {
        let own = format!("n{number}");
        Ok(match u.int_in_range(0..=12)? {
            0..=2 => format!("{own}++;"),
            3 => format!("{own} += {};", self.number("u32", u)?),
            4 => format!("s{number} += {};", self.number("i64", u)?),
            5 => format!("m{number}[{} & 7]++;", self.number("u32", u)?),
            6 => "total++;".into(),
            7 => format!("mixed = mixed * 3 + {};", self.number("i64", u)?),
            8 => format!("seen[{} % 11] += 2;", self.number("u32", u)?),
            9 => format!(
                "pairs[(fid, {} & 15)] += {};",
                self.number("u32", u)?,
                self.number("i64", u)?
            ),
            10 => format!("inside += {};", u.int_in_range(1..=3)?),
            11 => format!("last = {};", self.number("i32", u)?),
            _ => {
                let (condition, yes, no) =
                    (self.condition(u)?, self.statement(number, u)?, self.statement(number, u)?);
                match u.ratio(1, 2)? {
                    true => format!("if ({condition}) {{ {yes} }} else {{ {no} }}"),
                    false => format!("if ({condition}) {{ {yes} }}"),
                }
            }
        })
    }
}
