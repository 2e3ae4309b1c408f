//! Reports of several instances of a monitor, one for each thread, made one.
//!
//! Two instances that looked at different threads have seen different events. A variable that is
//! only added to says of both together what it would have said if one had seen all events; so does
//! a truth that only ever becomes true. (Where what is added depends on what a monitor has seen
//! before, as with the misses of a cache, it is the sum of what each thread's own has seen.) Of all
//! others nothing is known: what was written last, or a greatest value, has no meaning that could
//! be read off the script. A monitor says of itself which are which, in a section of its module:
//!
//! ```text
//!     sum script0 calls
//!     any script0 reached
//!     not script0 last it is given values that do not depend on the one before
//! ```

use crate::emit::report::HEADING;
use crate::hir::{Builtin, Expr, ExprKind, Place, Program, Stmt, Var, Variable};
use crate::syntax::ast::BinOp;
use crate::types::Ty;
use std::collections::BTreeMap;
use std::fmt::{self, Display};

/// The section of a monitor in which it says what its reports are made of.
pub const SECTION: &str = "whamm:report";

/// How values of a variable become one.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Merging {
    Sum,
    Any,
    /// Not at all, and why.
    Not(String),
}

/// What the reports of a monitor are made of: its variables, by their scripts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declaration(BTreeMap<(String, String), Merging>);

impl Declaration {
    /// What a program says of its variables.
    pub(crate) fn of(program: &Program) -> Self {
        let mut list = BTreeMap::new();
        let mut note = |variable: &Variable, merging: Merging| {
            let entry = list
                .entry((format!("script{}", variable.script), variable.name.to_string()))
                .or_insert(merging.clone());
            // Several rules may have variables of one name.
            if *entry != merging && !matches!(entry, Merging::Not(_)) {
                *entry = merging;
            }
        };
        let everywhere: Vec<&Stmt> = program
            .start
            .iter()
            .chain(program.functions.iter().flat_map(|f| &f.stmts))
            .chain(program.probes.iter().flat_map(|p| &p.body.stmts))
            .collect();
        let numbered = |list: &'_ [Variable], var: fn(u32) -> Var| {
            (0..).zip(list.to_vec()).map(move |(n, v)| (var(n), v)).collect::<Vec<_>>()
        };
        for (var, variable) in numbered(&program.globals, Var::Global)
            .iter()
            .chain(&numbered(&program.frames, Var::Frame))
        {
            if variable.report {
                note(variable, merging(variable, *var, &everywhere));
            }
        }
        for probe in &program.probes {
            let own: Vec<&Stmt> = probe.body.stmts.iter().collect();
            for (var, variable) in numbered(&probe.body.sites, Var::Site)
                .iter()
                .filter(|(_, variable)| variable.report)
            {
                note(variable, merging(variable, *var, &own));
            }
        }
        Self(list)
    }

    /// Whether nothing is reported.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// From what is in a module's section.
    pub fn read(section: &[u8]) -> Option<Self> {
        let line = |line: &str| {
            let mut words = line.splitn(4, ' ');
            let (how, script, name) = (words.next()?, words.next()?, words.next()?);
            let merging = match how {
                "sum" => Merging::Sum,
                "any" => Merging::Any,
                "not" => Merging::Not(words.next()?.to_owned()),
                _ => return None,
            };
            Some(((script.to_owned(), name.to_owned()), merging))
        };
        std::str::from_utf8(section).ok()?.lines().map(line).collect::<Option<_>>().map(Self)
    }

    /// The first variable that cannot be merged, and why.
    pub fn refused(&self) -> Option<String> {
        self.0.iter().find_map(|((_, name), merging)| match merging {
            Merging::Not(why) => Some(format!("{name}: {why}")),
            _ => None,
        })
    }

    /// Makes one report of several. What is not in rows is kept as it is.
    pub fn merge(&self, reports: &[&str]) -> Result<String, String> {
        let (mut others, mut order, mut values) = (String::new(), Vec::new(), BTreeMap::new());
        for line in reports.iter().flat_map(|report| {
            report.replace(HEADING, "").lines().map(str::to_owned).collect::<Vec<_>>()
        }) {
            let Some(row) = Row::read(&line) else {
                others += &line;
                others.push('\n');
                continue;
            };
            let Some(merging) = self.0.get(&(row.key[4].clone(), row.key[1].clone())) else {
                return Err(format!(
                    "{}: the monitor does not say whether it can be added up",
                    row.key[1]
                ));
            };
            match values.remove(&row.key) {
                None => {
                    order.push((row.id, row.key.clone()));
                    values.insert(row.key, row.value);
                }
                Some(before) => {
                    let value = merged(merging, &row.key[2], &before, &row.value)
                        .map_err(|why| format!("{}: {why}", row.key[1]))?;
                    values.insert(row.key, value);
                }
            }
        }
        let rows = order.iter().map(|(id, key)| {
            let [head @ .., last] = key.each_ref().map(|part| quoted(part));
            format!("{id}, {}, {last}, {}\n", head.join(", "), values[key])
        });
        Ok(others + HEADING + &rows.collect::<String>())
    }
}

impl Display for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|((script, name), merging)| match merging {
            Merging::Sum => writeln!(f, "sum {script} {name}"),
            Merging::Any => writeln!(f, "any {script} {name}"),
            Merging::Not(why) => writeln!(f, "not {script} {name} {why}"),
        })
    }
}

/// How a variable becomes one, from everything that is done to it.
fn merging(variable: &Variable, var: Var, stmts: &[&Stmt]) -> Merging {
    let value = if let Ty::Map(kv) = &variable.ty { kv.1.clone() } else { variable.ty.clone() };
    let begins = match variable.init.as_ref().map(|init| &init.kind) {
        None | Some(ExprKind::Int(0) | ExprKind::Bool(false)) => true,
        Some(ExprKind::Float(x)) => *x == 0.0,
        _ => false,
    };
    let how = match value {
        Ty::Bool => Merging::Any,
        ref ty if ty.is_numeric() => Merging::Sum,
        ref other => return Merging::Not(format!("values of type {other} are not added up")),
    };
    if !begins {
        return Merging::Not("it begins with something else than nothing".into());
    }
    let mut why = None;
    for stmt in stmts {
        stmt.visit(&mut |stmt| why = why.take().or_else(|| objection(stmt, var, &how)));
        stmt.walk(&mut |e| {
            if let ExprKind::Builtin(Builtin::MapDelete, args) = &e.kind
                && is(&args[0], var)
            {
                why.get_or_insert_with(|| "keys are taken out of it".into());
            }
            if let ExprKind::Call(_, args) | ExprKind::Library(_, args) = &e.kind
                && args.iter().any(|arg| is(arg, var) && matches!(arg.ty, Ty::Map(_)))
            {
                why.get_or_insert_with(|| "it is handed on to others".into());
            }
        });
    }
    why.map_or(how, Merging::Not)
}

/// Why a statement keeps a variable from being merged.
fn objection(stmt: &Stmt, var: Var, how: &Merging) -> Option<String> {
    let replaced = || Some("it is given values that do not depend on the one before".to_owned());
    match (stmt, how) {
        (Stmt::Update(place, BinOp::Add | BinOp::Sub, _), Merging::Sum) if root(place, var) => None,
        (Stmt::Update(place, BinOp::Or | BinOp::BitOr, _), Merging::Any) if root(place, var) => {
            None
        }
        (Stmt::Assign(place, value), Merging::Any)
            if root(place, var) && value.kind == ExprKind::Bool(true) =>
        {
            None
        }
        (Stmt::Update(place, ..) | Stmt::Assign(place, _), _) if root(place, var) => replaced(),
        (Stmt::Assign(_, value) | Stmt::Declare(_, Some(value)) | Stmt::Return(Some(value)), _)
            if is(value, var) && matches!(value.ty, Ty::Map(_)) =>
        {
            Some("it is handed on to others".into())
        }
        _ => None,
    }
}

fn is(e: &Expr, var: Var) -> bool {
    matches!(&e.kind, ExprKind::Var(other) if *other == var)
}

/// Whether a place is of a variable.
fn root(place: &Place, var: Var) -> bool {
    match place {
        Place::Var(other, _) => *other == var,
        Place::Element(map, _) => is(map, var),
        Place::Field(place, _) => root(place, var),
        Place::Bound(..) => false,
    }
}

/// A row of a report.
struct Row {
    id: String,
    /// What it is of: everything between its id and its value. The name is the second, the type the
    /// third, the script the fifth.
    key: [String; 9],
    value: String,
}

impl Row {
    fn read(line: &str) -> Option<Self> {
        let mut rest = line;
        let mut next = || {
            let (field, behind) = field(rest)?;
            rest = behind;
            Some(field)
        };
        let id = next()?;
        let mut key: [String; 9] = Default::default();
        for part in &mut key {
            *part = next()?;
        }
        let is_ours =
            key[4].strip_prefix("script").is_some_and(|number| number.parse::<u16>().is_ok());
        is_ours.then(|| Self { id, key, value: rest.to_owned() })
    }
}

/// The first field of a row that has more, and what is behind it.
fn field(text: &str) -> Option<(String, &str)> {
    let Some(inner) = text.strip_prefix('"') else {
        return text.split_once(", ").map(|(field, rest)| (field.to_owned(), rest));
    };
    let (mut field, mut rest) = (String::new(), inner);
    loop {
        let (before, behind) = rest.split_once('"')?;
        field += before;
        match behind.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                rest = more;
            }
            None => return behind.strip_prefix(", ").map(|rest| (field, rest)),
        }
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) && text.contains([' ', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}

/// Two values of a variable of a type, as they are written in reports.
fn merged(how: &Merging, ty: &str, one: &str, other: &str) -> Result<String, String> {
    let named =
        |ty: &str| Ty::named(ty).ok_or_else(|| format!("values of type {ty} are not added up"));
    let Some(inner) = ty.strip_prefix("map<").and_then(|inner| inner.strip_suffix('>')) else {
        return added(how, &named(ty)?, one, other);
    };
    let value = named(inner.rsplit(',').next().unwrap_or_default())?;
    let mut all: BTreeMap<Key, String> = BTreeMap::new();
    for element in [one, other]
        .into_iter()
        .flat_map(|map| map.split(';'))
        .filter(|element| !element.is_empty())
    {
        let (key, text) =
            element.rsplit_once("->").ok_or_else(|| format!("{element}: no element of a map"))?;
        let text = match all.remove(&Key::of(key)) {
            None => text.to_owned(),
            Some(before) => added(how, &value, &before, text)?,
        };
        all.insert(Key::of(key), text);
    }
    Ok(all
        .into_iter()
        .map(|(key, value)| format!("{}->{value}", key.text))
        .collect::<Vec<_>>()
        .join(";"))
}

/// A key of a map: numbers come in their order, and texts in theirs.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    numbers: Vec<i128>,
    text: String,
}

impl Key {
    fn of(text: &str) -> Self {
        let inner =
            text.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')).unwrap_or(text);
        let numbers =
            inner.split(',').map(|part| part.trim().parse().ok()).collect::<Option<Vec<i128>>>();
        Self { numbers: numbers.unwrap_or_default(), text: text.to_owned() }
    }
}

fn added(how: &Merging, ty: &Ty, one: &str, other: &str) -> Result<String, String> {
    let no_number = || format!("{one} and {other} are not both of type {ty}");
    let both = |ok: Option<String>| ok.ok_or_else(no_number);
    match (how, ty) {
        (Merging::Not(why), _) => Err(why.clone()),
        (Merging::Any, _) => Ok(if one == "true" { one } else { other }.to_owned()),
        (Merging::Sum, Ty::F32) => both(
            one.parse::<f32>()
                .ok()
                .zip(other.parse::<f32>().ok())
                .map(|(one, other)| format!("{:+e}", one + other)),
        ),
        (Merging::Sum, Ty::F64) => both(
            one.parse::<f64>()
                .ok()
                .zip(other.parse::<f64>().ok())
                .map(|(one, other)| format!("{:+e}", one + other)),
        ),
        (Merging::Sum, _) => both(
            one.parse::<i128>()
                .ok()
                .zip(other.parse::<i128>().ok())
                .map(|(one, other)| ty.wrap(one + other).to_string()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(script: &str) -> Declaration {
        let sources = [crate::Source::new("test.mm", script)];
        let module = crate::compile_monitor(&sources, &[], &crate::Options::default())
            .unwrap_or_else(|e| panic!("{e}"))
            .module;
        let sections = wasmparser::Parser::new(0).parse_all(&module);
        let own = |payload| match payload {
            Ok(wasmparser::Payload::CustomSection(section)) if section.name() == SECTION => {
                Some(section.data().to_vec())
            }
            _ => None,
        };
        sections
            .into_iter()
            .find_map(own)
            .and_then(|section| Declaration::read(&section))
            .expect("it is declared")
    }

    #[test]
    fn what_is_only_added_to_is_a_sum_and_all_else_is_refused_with_its_name() {
        for (script, said) in [
            ("report var n: u64; wasm:opcode:call:before { n += 2; n--; }", None),
            ("report var m: map<u32, u32>; wasm:opcode:call:before { m[pc]++; }", None),
            ("wasm:opcode:call:before { report var seen: bool; seen = true; }", None),
            ("wasm:opcode:call:before { report unshared var f: f64; f += 0.5; }", None),
            (
                "report var n: u64; wasm:opcode:call:before { n = 7; }",
                Some("n: it is given values"),
            ),
            (
                "report var n: u64 = 3; wasm:opcode:call:before { n++; }",
                Some("n: it begins with something"),
            ),
            (
                "report var m: map<u32, u32>; wasm:opcode:call:before { m[pc] = 1; }",
                Some("m: it is given values"),
            ),
            (
                "report var s: str; wasm:opcode:call:before { s = \"x\"; }",
                Some("s: values of type str"),
            ),
            (
                "wasm:opcode:call:before { report unshared var seen: bool; seen = pc == 3; }",
                Some("seen: it is given"),
            ),
        ] {
            let refused = declared(script).refused();
            match said {
                None => assert_eq!(refused, None, "{script}"),
                Some(said) => assert!(
                    refused.as_ref().is_some_and(|why| why.starts_with(said)),
                    "{script}: {refused:?}"
                ),
            }
        }
    }

    #[test]
    fn rows_of_several_reports_become_sums() {
        let declaration = Declaration::read(
            b"sum script0 n\nsum script0 m\nany script0 b\nsum script0 f\nsum script0 small",
        )
        .expect("read");
        let report = |n: &str, m: &str, b: &str, f: &str, small: &str| {
            format!(
                "hello\n{HEADING}0, global_id, n, u64, i64, script0, , , , , {n}\n\
                 1, map_id, m, map<(u32,u32),u64>, i32, script0, , , , , {m}\n\
                 8, memaddr, b, bool, i32, script0, \"a, b\", 3, 4, 0_wasm:opcode:call, {b}\n\
                 2, global_id, f, f64, f64, script0, , , , , {f}\n3, global_id, small, u8, i32, script0, , , , , {small}\n"
            )
        };
        let (one, other) = (
            report("5", "(1,2)->3;(10,0)->1", "false", "+1.5e0", "200"),
            report("7", "(1,2)->4;(9,9)->2", "true", "+2e0", "100"),
        );
        let merged = declaration.merge(&[&one, &other]).expect("merged");
        let wanted = report("12", "(1,2)->7;(9,9)->2;(10,0)->1", "true", "+3.5e0", "44");
        assert_eq!(merged, wanted.replace("hello\n", "hello\nhello\n"));
        let error = Declaration::default().merge(&[&one, &other]).expect_err("not declared");
        assert!(error.starts_with("n: the monitor does not say"), "{error}");
    }
}
