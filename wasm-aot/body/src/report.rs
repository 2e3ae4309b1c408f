//! Reports of monitors, in rows; those of several instances, one for each thread, made one.
//!
//! Two instances that looked at different threads have seen different events. A variable that is
//! only added to says of both together what it would have said if one had seen all events; so does
//! a truth that only ever becomes true. A monitor says of its own variables which are which, in a
//! section of its module. The compiler of scripts writes that section, and an engine reads it:
//!
//! ```text
//!     sum script0 calls
//!     any script0 reached
//!     not script0 last it is given values that do not depend on the one before
//! ```

use crate::types::Ty;
use std::collections::BTreeMap;
use std::fmt::{self, Display};

/// What stands for the elements of a map that has none.
const EMPTY_MAP: &str = "empty map";

/// What the CSV begins with.
pub const HEADING: &str = "\n================================= REPORT CSV FLUSH ====================================\n\
id, id_type, name, whamm_type, wasm_type, script_id, fname, fid, pc, probe_id, value(s)\n";

/// The section of a monitor in which it says what its reports are made of.
pub const SECTION: &str = "whamm:report";

/// How the values that a variable has in several reports become one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merging {
    /// Their sum.
    Sum,
    /// True if any is.
    Any,
    /// Not at all, and why.
    Not(String),
}

/// What the reports of a monitor are made of: its variables, by their scripts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declaration(BTreeMap<(String, String), Merging>);

impl Declaration {
    /// Says of a variable of a script how its values become one. Several rules may have variables
    /// of one name: if these differ, the latest counts, but what cannot be merged stays so.
    pub fn declare(&mut self, script: u16, name: &str, merging: Merging) {
        let key = (format!("script{script}"), name.to_owned());
        let entry = self.0.entry(key).or_insert_with(|| merging.clone());
        if *entry != merging && !matches!(entry, Merging::Not(_)) {
            *entry = merging;
        }
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
    let maps = [one, other].into_iter().filter(|map| *map != EMPTY_MAP);
    for element in maps.flat_map(|map| map.split(';')).filter(|element| !element.is_empty()) {
        let (key, text) =
            element.rsplit_once("->").ok_or_else(|| format!("{element}: no element of a map"))?;
        let text = match all.remove(&Key::of(key)) {
            None => text.to_owned(),
            Some(before) => added(how, &value, &before, text)?,
        };
        all.insert(Key::of(key), text);
    }
    if all.is_empty() {
        return Ok(EMPTY_MAP.into());
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
        let empty = report("1", "empty map", "false", "+1e0", "1");
        let merged = declaration.merge(&[&empty, &one, &empty]).expect("merged");
        assert!(merged.contains(", (1,2)->3;(10,0)->1\n"), "{merged}");
        let merged = declaration.merge(&[&empty, &empty]).expect("merged");
        assert!(merged.contains(", empty map\n"), "{merged}");
        let error = Declaration::default().merge(&[&one, &other]).expect_err("not declared");
        assert!(error.starts_with("n: the monitor does not say"), "{error}");
    }
}
