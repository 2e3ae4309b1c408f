//! Reports of scripts as tables: one row a key, with the names of functions, the largest first.
//!
//! The monitor prints rows of variables ([`wasm_aot_body::report`]). Here they are put under each
//! other, so that variables of one place share a row:
//!
//! ```text
//!     == ways ==
//!     function  pc   probe              taken  not_taken
//!     is_prime  +21  opcode:if:before     168       2802
//! ```
//!
//! Programs read one row for each variable and key, with types and numbers as they were.

use super::Observation;
use super::merging::declaration;
use crate::monitor::{Cell, field, table};
use serde_json::{Map, Number, Value as Json, json};
use std::collections::HashMap;
use std::fmt::Write as _;
use wasm_aot_body::report::{Declaration, Document, Row, Value};
use wasm_aot_engine::Module;
use wasm_aot_engine::instrument::Printable;

/// The names of keys that are functions' numbers.
const FUNCTIONS: [&str; 3] = ["fid", "callee", "resolved_fid"];

/// What the variables of a script are at a moment.
#[derive(Clone, Debug)]
pub struct Variables {
    monitor: String,
    /// How many rows of each table are shown to people.
    top: Option<usize>,
    printed: String,
    lines: Vec<Line>,
}

/// A variable, or an element of a map.
#[derive(Clone, Debug)]
struct Line {
    script: u16,
    variable: String,
    ty: String,
    place: Option<RuleSite>,
    /// The parts of a map's key with their names, if it is an element of one.
    key: Option<Vec<KeyPart>>,
    value: Value,
}

/// Where a variable of a place belongs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RuleSite {
    name: String,
    function: u32,
    /// Its offset in the function, and in the module; variables of activations have none.
    at: Option<(u32, u32)>,
    probe: String,
}

#[derive(Clone, Debug)]
struct KeyPart {
    name: String,
    value: Value,
    /// The function's name, if it is a function's number.
    function: Option<String>,
}

/// A table, with what its rows are ordered by.
struct Grid {
    columns: Vec<String>,
    rows: Vec<(f64, Vec<Cell>)>,
}

impl Observation {
    /// Whether the monitor of that number says what its reports are made of, as scripts do: what it
    /// prints can be read with [`variables`](Self::variables).
    pub fn declares_variables(&self, number: usize) -> bool {
        self.declaration(number).is_some()
    }

    /// Reads what the monitor of that number has printed; so many rows of each table are shown to
    /// people.
    pub fn variables(&self, number: usize, printed: &str, top: Option<usize>) -> Option<Variables> {
        let declared = self.declaration(number)?;
        let monitor = self.monitors.lock().get(number)?.observer.name().to_owned();
        let document = Document::read(printed);
        let lines = document.rows.iter().flat_map(|row| lines(row, &declared, self.module()));
        let lines = lines.collect();
        Some(Variables { monitor, top, printed: document.printed, lines })
    }

    fn declaration(&self, number: usize) -> Option<Declaration> {
        declaration(self.monitors.lock().get(number)?.observer.module.inner())
    }
}

fn lines(row: &Row, declared: &Declaration, module: &Module) -> Vec<Line> {
    let info = &module.inner().info;
    let site = row.fid.parse().ok().map(|function: u32| {
        let body = function
            .checked_sub(info.imported.functions)
            .and_then(|at| info.bodies.get(usize::try_from(at).ok()?));
        let start = body.map_or(0, |body| body.start);
        let at = row.pc.parse().ok().map(|pc: u32| (pc, start.saturating_add(pc)));
        RuleSite { name: module.inner().label(function), function, at, probe: row.probe.clone() }
    });
    let line = |key: Option<Vec<KeyPart>>, value: &Value| Line {
        script: row.script.trim_start_matches("script").parse().unwrap_or_default(),
        variable: row.name.clone(),
        ty: row.ty.clone(),
        place: site.clone(),
        key,
        value: value.clone(),
    };
    let Value::Map(elements) = &row.value else { return vec![line(None, &row.value)] };
    let names = declared.keys(&row.script, &row.name);
    let each = elements.iter().map(|(key, value)| {
        let parts = if let Value::Tuple(parts) = key { parts } else { std::slice::from_ref(key) };
        let parts = parts.iter().enumerate().map(|(number, part)| {
            let name = match names.and_then(|names| names.get(number)) {
                Some(name) => name.clone(),
                None if parts.len() == 1 => "key".to_owned(),
                None => format!("key {}", number + 1),
            };
            let index = match part {
                Value::Scalar(text) if FUNCTIONS.contains(&&*name) => text.parse().ok(),
                _ => None,
            };
            let function = index.map(|index: u32| module.inner().label(index));
            KeyPart { name, value: part.clone(), function }
        });
        line(Some(parts.collect()), value)
    });
    each.collect()
}

impl Variables {
    /// What the monitor has printed besides.
    pub fn printed(&self) -> &str {
        &self.printed
    }

    /// For people: a table of variables of the program, and one for each map and each kind of
    /// place.
    pub fn text(&self) -> String {
        let mut out = format!("== {} ==\n", self.monitor);
        for (number, grid) in self.grids().into_iter().enumerate() {
            if number > 0 {
                out.push('\n');
            }
            let columns: Vec<&str> = grid.columns.iter().map(String::as_str).collect();
            let rows: Vec<Vec<Cell>> = grid.rows.into_iter().map(|(_, row)| row).collect();
            out += &table(&columns, &rows, self.top);
        }
        out
    }

    fn grids(&self) -> Vec<Grid> {
        let mut grids: Vec<(String, Grid)> = Vec::new();
        let mut places: Vec<(u16, &RuleSite, Vec<&Line>)> = Vec::new();
        // Where they are that are of the same script and site.
        let mut known: HashMap<(u16, &RuleSite), Vec<usize>> = HashMap::new();
        for line in &self.lines {
            match (&line.key, &line.place) {
                (None, Some(site)) => {
                    let known = known.entry((line.script, site)).or_default();
                    let lacks_it = |place: &&usize| {
                        let (_, _, own) = &places[**place];
                        own.iter().all(|other| other.variable != line.variable)
                    };
                    match known.iter().rev().find(lacks_it) {
                        Some(place) => places[*place].2.push(line),
                        None => {
                            known.push(places.len());
                            places.push((line.script, site, vec![line]));
                        }
                    }
                }
                (None, None) => {
                    let columns = vec!["variable".to_owned(), "value".to_owned()];
                    let row = vec![Cell::from(&*line.variable), cell(&line.value)];
                    // Few, and in the order of the report: by name.
                    add(&mut grids, String::new(), columns, (0.0, row));
                }
                (Some(key), site) => {
                    let mut columns: Vec<String> =
                        site.iter().flat_map(|_| place_columns()).collect();
                    columns.extend(key.iter().map(|part| match &*part.name {
                        "fid" => "function".to_owned(),
                        name => name.to_owned(),
                    }));
                    columns.push(line.variable.clone());
                    let mut row: Vec<Cell> = site.iter().flat_map(RuleSite::cells).collect();
                    row.extend(key.iter().map(KeyPart::cell));
                    row.push(cell(&line.value));
                    let name = format!("{} {}", line.script, line.variable);
                    add(&mut grids, name, columns, (weight([&line.value]), row));
                }
            }
        }
        for (script, site, lines) in places {
            let names: Vec<String> = lines.iter().map(|line| line.variable.clone()).collect();
            let columns: Vec<String> = place_columns().into_iter().chain(names).collect();
            let row = site.cells().into_iter().chain(lines.iter().map(|line| cell(&line.value)));
            let row = (weight(lines.iter().map(|line| &line.value)), row.collect());
            add(&mut grids, format!("{script} {}", columns.join(" ")), columns, row);
        }
        let sorted = grids.into_iter().map(|(_, mut grid)| {
            grid.rows.sort_by(|(one, _), (other, _)| other.total_cmp(one));
            grid
        });
        sorted.collect()
    }

    /// For programs: a line of names, then a line for each row.
    pub fn csv(&self) -> String {
        let mut out = "monitor,script,variable,type,function,fid,pc,probe,key,value\n".to_owned();
        for line in &self.lines {
            let site = line.place.as_ref();
            let of_site = |text: fn(&RuleSite) -> String| site.map_or_else(String::new, text);
            let key = line.key.iter().flatten().map(|part| plain(&part.value));
            let fields = [
                self.monitor.clone(),
                line.script.to_string(),
                line.variable.clone(),
                line.ty.clone(),
                of_site(|site| site.name.clone()),
                of_site(|site| site.function.to_string()),
                of_site(|site| site.at.map_or_else(String::new, |(pc, _)| pc.to_string())),
                of_site(|site| site.probe.clone()),
                key.collect::<Vec<_>>().join(" "),
                plain(&line.value),
            ];
            let _ = writeln!(out, "{}", fields.map(|text| field(&text)).join(","));
        }
        out
    }

    /// For programs: an object with a list of objects, and what was printed besides.
    pub fn json(&self) -> Json {
        let rows: Vec<Json> = self.lines.iter().map(Line::json).collect();
        let notes: Vec<&str> = self.printed.lines().collect();
        json!({ "monitor": self.monitor, "rows": rows, "totals": {}, "notes": notes })
    }
}

/// Adds a row to the table of that name.
fn add(grids: &mut Vec<(String, Grid)>, name: String, columns: Vec<String>, row: (f64, Vec<Cell>)) {
    match grids.iter_mut().find(|(other, _)| *other == name) {
        Some((_, grid)) => grid.rows.push(row),
        None => grids.push((name, Grid { columns, rows: vec![row] })),
    }
}

/// The sum of what is a number.
fn weight<'a>(values: impl IntoIterator<Item = &'a Value>) -> f64 {
    values.into_iter().filter_map(Value::number).sum()
}

fn place_columns() -> Vec<String> {
    ["function", "pc", "probe"].map(str::to_owned).to_vec()
}

impl RuleSite {
    fn cells(&self) -> Vec<Cell> {
        let place = self
            .at
            .map_or_else(|| Cell::from(""), |(offset, module)| Cell::Place { offset, module });
        // The number in front is the monitor's own.
        let rule = self.probe.split_once("_wasm:").map_or(&*self.probe, |(_, rule)| rule);
        vec![
            Cell::Function { name: self.name.clone(), index: self.function },
            place,
            Cell::from(rule),
        ]
    }
}

impl KeyPart {
    fn cell(&self) -> Cell {
        match (&self.function, &self.value, &*self.name) {
            (Some(name), _, _) => Cell::from(&**name),
            (None, Value::Scalar(text), "pc") => Cell::Text(format!("+{text}")),
            (None, value, _) => cell(value),
        }
    }
}

impl Line {
    fn json(&self) -> Json {
        let mut row = Map::new();
        let mut set = |name: &str, value: Json| row.insert(name.to_owned(), value);
        set("variable", json!(self.variable));
        set("script", json!(self.script));
        set("type", json!(self.ty));
        if let Some(site) = &self.place {
            set("function", json!(site.name));
            set("function index", json!(site.function));
            if let Some((pc, module)) = site.at {
                set("pc", json!(pc));
                set("pc offset", json!(module));
            }
            set("probe", json!(site.probe));
        }
        if let Some(key) = &self.key {
            let parts: Vec<Json> = key.iter().map(|part| json_of(&part.value)).collect();
            set("key", json!(parts));
            let names: Vec<&str> = key.iter().map(|part| &*part.name).collect();
            set("key names", json!(names));
            let functions = key
                .iter()
                .filter_map(|part| Some((part.name.clone(), json!(part.function.as_ref()?))));
            let functions: Map<String, Json> = functions.collect();
            if !functions.is_empty() {
                set("key functions", Json::Object(functions));
            }
        }
        set("value", json_of(&self.value));
        Json::Object(row)
    }
}

/// A number, if it is one that JSON knows.
fn number(text: &str) -> Option<Number> {
    let whole = text.parse::<i64>().map(Number::from).ok();
    let large = || text.parse::<u64>().map(Number::from).ok();
    whole.or_else(large).or_else(|| Number::from_f64(text.parse().ok()?))
}

/// As people are shown it.
fn cell(value: &Value) -> Cell {
    let printed = |text: &str| Cell::Text(Printable(text).to_string());
    match value {
        Value::Scalar(text) => number(text).map_or_else(|| Cell::Text(text.clone()), Cell::Number),
        Value::Text(text) => printed(text),
        Value::Tuple(_) | Value::Map(_) => printed(&value.to_string()),
    }
}

/// As it is, without quotes.
fn plain(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        other => other.to_string(),
    }
}

fn json_of(value: &Value) -> Json {
    match value {
        Value::Scalar(text) if text == "true" || text == "false" => json!(text == "true"),
        Value::Scalar(text) => number(text).map_or_else(|| json!(text), Json::Number),
        Value::Text(text) => json!(text),
        Value::Tuple(parts) => parts.iter().map(json_of).collect(),
        Value::Map(elements) => {
            elements.iter().map(|(key, value)| json!([json_of(key), json_of(value)])).collect()
        }
    }
}
