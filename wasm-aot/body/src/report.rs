//! The rows of monitors' reports, and the merging of reports of several instances, one for each
//! thread.
//!
//! Two instances that observed different threads have seen different events. The sum of a variable
//! that is only added to is the value that a single instance would have computed from all events;
//! the same holds for a Boolean that only ever becomes true. A monitor declares the kind of each of
//! its variables in a section of its module. The compiler of scripts writes that section, and an
//! engine reads it:
//!
//! ```text
//!     sum script0 calls
//!     any script0 reached
//!     not script0 last it is given values that do not depend on the one before
//!     key script0 calls fid<tab>arg0
//! ```
//!
//! The last line lists the expressions that the keys of a map consist of, as in the script.

mod document;

pub use document::{Document, Row, Value};

/// `1 call`, `2 calls`.
pub fn several(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

use crate::types::Ty;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::{self, Display};
use std::str::FromStr;

/// The heading of the CSV.
pub const HEADING: &str = "\n================================= REPORT CSV FLUSH ====================================\n\
id, id_type, name, whamm_type, wasm_type, script_id, fname, fid, pc, probe_id, value(s)\n";

/// The section in which a monitor declares the parts of its reports.
pub const SECTION: &str = "whamm:report";

/// How the values of a variable in several reports are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merging {
    /// Their sum.
    Sum,
    /// True if any is.
    Any,
    /// Not at all, and why.
    Not(String),
}

/// The parts of a monitor's reports: its variables, by their scripts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declaration {
    merging: BTreeMap<(String, String), Merging>,
    keys: BTreeMap<(String, String), Vec<String>>,
}

impl Declaration {
    /// Declares how the values of a script's variable are merged. Several rules may have variables
    /// of one name: if these differ, the latest counts, but a variable that cannot be merged stays
    /// so.
    pub fn declare(&mut self, script: u16, name: &str, merging: Merging) {
        let key = (format!("script{script}"), name.to_owned());
        let entry = self.merging.entry(key).or_insert_with(|| merging.clone());
        if *entry != merging && !matches!(entry, Merging::Not(_)) {
            *entry = merging;
        }
    }

    /// Whether nothing is reported.
    pub fn is_empty(&self) -> bool {
        self.merging.is_empty()
    }

    /// Reads the contents of a module's section.
    pub fn read(section: &[u8]) -> Option<Self> {
        let mut read = Self::default();
        for line in std::str::from_utf8(section).ok()?.lines() {
            let mut words = line.splitn(4, ' ');
            let (how, script, name) = (words.next()?, words.next()?, words.next()?);
            let variable = (script.to_owned(), name.to_owned());
            let merging = match how {
                "sum" => Merging::Sum,
                "any" => Merging::Any,
                "not" => Merging::Not(words.next()?.to_owned()),
                "key" => {
                    let parts = words.next()?.split('\t').map(str::to_owned).collect();
                    read.keys.insert(variable, parts);
                    continue;
                }
                _ => return None,
            };
            read.merging.insert(variable, merging);
        }
        Some(read)
    }

    /// The first variable that cannot be merged, and why.
    pub fn refused(&self) -> Option<String> {
        self.merging.iter().find_map(|((_, name), merging)| match merging {
            Merging::Not(why) => Some(format!("{name}: {why}")),
            _ => None,
        })
    }

    /// Declares the variables that a map's keys consist of.
    pub fn declare_keys(&mut self, script: u16, name: &str, parts: &[String]) {
        self.keys.insert((format!("script{script}"), name.to_owned()), parts.to_vec());
    }

    /// The variables that a map's keys consist of, if known.
    pub fn keys(&self, script: &str, name: &str) -> Option<&[String]> {
        self.keys.get(&(script.to_owned(), name.to_owned())).map(Vec::as_slice)
    }

    /// Merges several reports into one. Text outside of rows is kept unchanged.
    pub fn merge(&self, reports: &[&str]) -> Result<String, String> {
        let mut whole = Document::default();
        let mut places: BTreeMap<[String; 9], usize> = BTreeMap::new();
        for report in reports {
            let document = Document::read(report);
            whole.printed += &document.printed;
            for row in document.rows {
                let key = (row.script.clone(), row.name.clone());
                let Some(merging) = self.merging.get(&key) else {
                    return Err(format!(
                        "{}: the monitor does not say whether it can be added up",
                        row.name
                    ));
                };
                match places.entry(row.key().map(str::to_owned)) {
                    Entry::Vacant(place) => {
                        place.insert(whole.rows.len());
                        whole.rows.push(row);
                    }
                    Entry::Occupied(place) => {
                        let before = &mut whole.rows[*place.get()].value;
                        *before = merged(merging, &row.ty, before, &row.value)
                            .map_err(|why| format!("{}: {why}", row.name))?;
                    }
                }
            }
        }
        Ok(whole.to_string())
    }
}

impl Display for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.merging.iter().try_for_each(|((script, name), merging)| match merging {
            Merging::Sum => writeln!(f, "sum {script} {name}"),
            Merging::Any => writeln!(f, "any {script} {name}"),
            Merging::Not(why) => writeln!(f, "not {script} {name} {why}"),
        })?;
        self.keys.iter().try_for_each(|((script, name), parts)| {
            writeln!(f, "key {script} {name} {}", parts.join("\t"))
        })
    }
}

/// Merges two values of a variable of a type.
fn merged(how: &Merging, ty: &str, one: &Value, other: &Value) -> Result<Value, String> {
    let unknown = || format!("values of type {ty} are not added up");
    let ty = Ty::parse(ty).ok_or_else(unknown)?;
    let (Ty::Map(types), Value::Map(one), Value::Map(other)) = (&ty, one, other) else {
        return added(how, &ty, one, other);
    };
    let mut all = BTreeMap::new();
    for (key, value) in one.iter().chain(other) {
        match all.entry(key.rank()) {
            Entry::Vacant(place) => {
                place.insert((key.clone(), value.clone()));
            }
            Entry::Occupied(mut place) => {
                let before = &mut place.get_mut().1;
                *before = added(how, &types.1, before, value)?;
            }
        }
    }
    Ok(Value::Map(all.into_values().collect()))
}

fn added(how: &Merging, ty: &Ty, one: &Value, other: &Value) -> Result<Value, String> {
    let (Value::Scalar(one), Value::Scalar(other)) = (one, other) else {
        return Err(format!("values of type {ty} are not added up"));
    };
    let sum = match (how, ty) {
        (Merging::Not(why), _) => return Err(why.clone()),
        (Merging::Any, _) => Some(if one == "true" { one } else { other }.clone()),
        (Merging::Sum, Ty::F32) => {
            both::<f32>(one, other).map(|(one, other)| format!("{:+e}", one + other))
        }
        (Merging::Sum, Ty::F64) => {
            both::<f64>(one, other).map(|(one, other)| format!("{:+e}", one + other))
        }
        (Merging::Sum, _) => {
            both::<i128>(one, other).map(|(one, other)| ty.wrap(one + other).to_string())
        }
    };
    sum.map(Value::Scalar).ok_or_else(|| format!("{one} and {other} are not both of type {ty}"))
}

fn both<T: FromStr>(one: &str, other: &str) -> Option<(T, T)> {
    one.parse().ok().zip(other.parse().ok())
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
