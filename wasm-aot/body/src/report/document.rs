//! A report as a document: printed text, and rows with typed values.
//!
//! A value is read by the type that its row names. Texts in maps are quoted if they are empty or
//! contain a comma, a quote, the end of a line or separators. Other texts have no quotes, as the
//! value is the row's last field: it ends where the next row begins. The existing compiler never
//! has quotes:
//!
//! ```text
//!     0, map_id, m, map<(str,u32),u64>, i32, script0, , , , , ("a->b",2)->3;("c, d",4)->5
//! ```

use super::HEADING;
use crate::types::Ty;
use std::fmt::{self, Display};

/// The text in place of the elements of an empty map.
const EMPTY_MAP: &str = "empty map";

/// A value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number or a Boolean, as it was written.
    Scalar(String),
    /// A text.
    Text(String),
    /// Several values.
    Tuple(Vec<Value>),
    /// Values by their keys.
    Map(Vec<(Value, Value)>),
}

/// A row of a report: a variable, its place, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its number in the report.
    pub id: String,
    /// The meaning of the number.
    pub id_type: String,
    /// The variable's name.
    pub name: String,
    /// Its type in the script.
    pub ty: String,
    /// Its type in Wasm.
    pub wasm_type: String,
    /// Its script: `script0`.
    pub script: String,
    /// The name of the function that it belongs to, if it belongs to a place.
    pub fname: String,
    /// The number of that function.
    pub fid: String,
    /// The offset of the instruction in that function.
    pub pc: String,
    /// The probe.
    pub probe: String,
    /// Its value.
    pub value: Value,
}

/// A report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// Other printed text, unchanged.
    pub printed: String,
    /// The rows.
    pub rows: Vec<Row>,
}

impl Document {
    /// Reads the printed output of a monitor.
    pub fn read(text: &str) -> Self {
        let text = text.replace(HEADING, "");
        let (mut document, mut rest) = (Self::default(), &*text);
        while !rest.is_empty() {
            if let Some((row, behind)) = Row::read(rest) {
                document.rows.push(row);
                rest = behind;
                continue;
            }
            let (line, behind) = rest.split_at(rest.find('\n').map_or(rest.len(), |at| at + 1));
            document.printed += line;
            rest = behind;
        }
        document
    }
}

impl Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.printed)?;
        if !self.printed.is_empty() && !self.printed.ends_with('\n') {
            f.write_str("\n")?;
        }
        f.write_str(HEADING)?;
        self.rows.iter().try_for_each(|row| writeln!(f, "{row}"))
    }
}

impl Row {
    /// Its identity: all fields except for its number and its value.
    pub(super) fn key(&self) -> [&str; 9] {
        [
            &self.id_type,
            &self.name,
            &self.ty,
            &self.wasm_type,
            &self.script,
            &self.fname,
            &self.fid,
            &self.pc,
            &self.probe,
        ]
    }

    /// Reads the row at the beginning of a text; also returns the rest.
    fn read(text: &str) -> Option<(Self, &str)> {
        let mut reader = Reader(text);
        let mut next = || reader.field();
        let (id, id_type, name, ty) = (next()?, next()?, next()?, next()?);
        let (wasm_type, script, fname, fid) = (next()?, next()?, next()?, next()?);
        let (pc, probe) = (next()?, next()?);
        script.strip_prefix("script")?.parse::<u16>().ok()?;
        let value = reader.value(&Ty::parse(&ty)?, Ends::Row)?;
        let rest = match reader.0 {
            "" => "",
            rest => rest.strip_prefix('\n')?,
        };
        let row = Self { id, id_type, name, ty, wasm_type, script, fname, fid, pc, probe, value };
        Some((row, rest))
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, ", self.id)?;
        let types = [&*self.ty, &self.wasm_type];
        for part in self.key() {
            // The name of a type never has quotes, although that of a map's type has a comma.
            match types.contains(&part) {
                true => write!(f, "{part}, ")?,
                false => write!(f, "{}, ", field(part))?,
            }
        }
        self.value.write(f, "; ", false)
    }
}

impl Value {
    /// Its number, if it is one.
    pub fn number(&self) -> Option<f64> {
        let Self::Scalar(text) = self else { return None };
        match &**text {
            "true" => Some(1.0),
            "false" => Some(0.0),
            text => text.parse().ok(),
        }
    }

    /// The rank by which keys of a map are ordered: numbers in their order, and texts in theirs.
    pub(super) fn rank(&self) -> (Vec<i128>, String) {
        let parts = if let Self::Tuple(parts) = self { parts } else { std::slice::from_ref(self) };
        let number =
            |part: &Self| if let Self::Scalar(text) = part { text.parse().ok() } else { None };
        let numbers = parts.iter().map(number).collect::<Option<Vec<i128>>>();
        (numbers.unwrap_or_default(), self.to_string())
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, comma: &str, is_within: bool) -> fmt::Result {
        match self {
            Self::Scalar(text) => f.write_str(text),
            Self::Text(text) if is_within => f.write_str(&quoted(text)),
            Self::Text(text) => f.write_str(text),
            Self::Tuple(parts) => {
                f.write_str("(")?;
                for (number, part) in parts.iter().enumerate() {
                    f.write_str(if number == 0 { "" } else { comma })?;
                    part.write(f, comma, is_within)?;
                }
                f.write_str(")")
            }
            Self::Map(elements) if elements.is_empty() => f.write_str(EMPTY_MAP),
            Self::Map(elements) => {
                for (number, (key, value)) in elements.iter().enumerate() {
                    f.write_str(if number == 0 { "" } else { ";" })?;
                    // Inside maps, the parts of tuples are separated without spaces.
                    key.write(f, ",", true)?;
                    f.write_str("->")?;
                    value.write(f, ",", true)?;
                }
                Ok(())
            }
        }
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "; ", false)
    }
}

/// A field that is not the last one: in quotes if it contains a comma, a quote or the end of a
/// line.
fn field(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into(),
    }
}

/// A text in a map: in quotes also if elements could not be told apart without them.
fn quoted(text: &str) -> String {
    match text.is_empty() || text.contains(';') || text.contains("->") {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => field(text),
    }
}

/// What has to follow a text without quotes, which determines its end.
#[derive(Clone, Copy)]
enum Ends<'a> {
    /// The end of the row.
    Row,
    /// The arrow after a key, and a value of that type.
    Key(&'a Ty),
    /// The end of the row, or another element.
    Element,
    /// The separator of the parts of a tuple.
    Part(&'a str),
    /// The end of a tuple, and what has to follow that.
    Tuple(&'a Ends<'a>),
}

/// Whether a text begins with a row: with a number, or several, and with the meaning of it.
fn is_row(text: &str) -> bool {
    let line = text.lines().next().unwrap_or_default();
    let mut fields = line.split(", ");
    let id = fields.next().unwrap_or_default();
    let kind = fields.next().unwrap_or_default().trim_start_matches('(');
    id.contains(|c: char| c.is_ascii_digit())
        && id.chars().all(|c| c.is_ascii_digit() || "(; )".contains(c))
        && ["memaddr", "global_id", "map_id", "frame"].iter().any(|known| kind.starts_with(known))
}

impl Ends<'_> {
    /// Whether this ends a part of an element of a map.
    fn is_within(&self) -> bool {
        match self {
            Self::Row => false,
            Self::Part(comma) => *comma == ",",
            Self::Tuple(outer) => outer.is_within(),
            Self::Key(_) | Self::Element => true,
        }
    }

    fn begin(&self, rest: &str) -> bool {
        let is_over = |rest: &str| rest.is_empty() || rest.starts_with('\n');
        let is_element = |rest: &str| {
            let more = rest.strip_prefix(';').and_then(|rest| rest.lines().next());
            is_over(rest) || more.is_some_and(|more| more.contains("->"))
        };
        match self {
            Self::Row => match rest.strip_prefix('\n') {
                Some(behind) => behind.is_empty() || is_row(behind),
                None => rest.is_empty(),
            },
            Self::Element => is_element(rest),
            Self::Part(comma) => rest.starts_with(comma),
            Self::Tuple(outer) => rest.strip_prefix(')').is_some_and(|rest| outer.begin(rest)),
            Self::Key(ty) => rest.strip_prefix("->").is_some_and(|rest| {
                let mut reader = Reader(rest);
                reader.value(ty, Ends::Element).is_some() && is_element(reader.0)
            }),
        }
    }
}

/// The text that is left to be read.
struct Reader<'a>(&'a str);

impl Reader<'_> {
    fn eat(&mut self, token: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(token)?;
        Some(())
    }

    /// Reads up to the first place at which the predicate holds for the rest.
    fn until(&mut self, is_end: impl Fn(&str) -> bool) -> Option<String> {
        let mut places = self.0.char_indices().map(|(at, _)| at).chain([self.0.len()]);
        let (text, rest) = self.0.split_at(places.find(|at| is_end(&self.0[*at..]))?);
        self.0 = rest;
        Some(text.to_owned())
    }

    /// Reads a field that is not the last one.
    fn field(&mut self) -> Option<String> {
        let field = match self.0.starts_with('"') {
            true => self.quoted()?,
            false => self.until(|rest| rest.starts_with(", ") || rest.starts_with('\n'))?,
        };
        self.eat(", ").map(|()| field)
    }

    fn quoted(&mut self) -> Option<String> {
        self.eat("\"")?;
        let mut text = String::new();
        loop {
            let (before, behind) = self.0.split_once('"')?;
            text += before;
            self.0 = behind;
            if self.eat("\"").is_none() {
                return Some(text);
            }
            text.push('"');
        }
    }

    fn value(&mut self, ty: &Ty, ends: Ends<'_>) -> Option<Value> {
        match ty {
            Ty::Str if ends.is_within() && self.0.starts_with('"') => {
                self.quoted().map(Value::Text)
            }
            Ty::Str => self.until(|rest| ends.begin(rest)).map(Value::Text),
            Ty::Tuple(parts) => {
                let comma = if ends.is_within() { "," } else { "; " };
                self.eat("(")?;
                let mut values = Vec::new();
                for (number, part) in parts.iter().enumerate() {
                    if number > 0 {
                        self.eat(comma)?;
                    }
                    let is_last = number + 1 == parts.len();
                    let ends = if is_last { Ends::Tuple(&ends) } else { Ends::Part(comma) };
                    values.push(self.value(part, ends)?);
                }
                self.eat(")")?;
                Some(Value::Tuple(values))
            }
            Ty::Map(types) => self.map(&types.0, &types.1),
            _ => {
                let ends = |rest: &str| {
                    rest.is_empty()
                        || rest.starts_with("->")
                        || rest.starts_with(['\n', ';', ')', ','])
                };
                let text = self.until(ends)?;
                (!text.is_empty()).then_some(Value::Scalar(text))
            }
        }
    }

    fn map(&mut self, key: &Ty, value: &Ty) -> Option<Value> {
        let mut elements = Vec::new();
        if self.eat(EMPTY_MAP).is_some() {
            return Some(Value::Map(elements));
        }
        loop {
            let key = self.value(key, Ends::Key(value))?;
            self.eat("->")?;
            elements.push((key, self.value(value, Ends::Element)?));
            if self.eat(";").is_none() {
                return Some(Value::Map(elements));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ty: &str, value: &str) -> Row {
        let text = format!("0, map_id, m, {ty}, i32, script0, , , , , {value}\n");
        let (row, rest) = Row::read(&text).unwrap_or_else(|| panic!("no row: {text}"));
        assert_eq!((rest, &*format!("{row}\n")), ("", &*text));
        row
    }

    /// Reads the value of a row of the existing compiler, which has no quotes.
    fn unquoted(ty: &str, value: &str) -> Value {
        let text = format!("0, map_id, m, {ty}, i32, script0, , , , , {value}\n");
        Row::read(&text).unwrap_or_else(|| panic!("no row: {text}")).0.value
    }

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    fn scalar(text: &str) -> Value {
        Value::Scalar(text.into())
    }

    #[test]
    fn texts_end_where_their_types_say() {
        let map = unquoted("map<str,u32>", "<[u8; 4] as Fn(a)->b>::f->3;g->4");
        let elements =
            vec![(text("<[u8; 4] as Fn(a)->b>::f"), scalar("3")), (text("g"), scalar("4"))];
        assert_eq!(map, Value::Map(elements));
        let map = unquoted("map<(u32,str),i64>", "(1,f(x)->y)->-3;(2,\"a, \"\"b\"\"\")->4");
        let key = |number: &str, name: &str| Value::Tuple(vec![scalar(number), text(name)]);
        let elements =
            vec![(key("1", "f(x)->y"), scalar("-3")), (key("2", "a, \"b\""), scalar("4"))];
        assert_eq!(map, Value::Map(elements));
        let map = unquoted("map<u8,str>", "1->a;2->b->c;3->\"x;y,\"");
        let elements = [("1", "a"), ("2", "b->c"), ("3", "x;y,")];
        let elements = elements.map(|(key, value)| (scalar(key), text(value)));
        assert_eq!(map, Value::Map(elements.to_vec()));
        assert_eq!(row("map<u8,str>", "empty map").value, Value::Map(Vec::new()));
        assert_eq!(row("str", "a; b) -> c").value, text("a; b) -> c"));
        let pair = row("(str,f64)", "(a; +1.5e0)").value;
        assert_eq!(pair, Value::Tuple(vec![text("a"), scalar("+1.5e0")]));
        assert_eq!(pair, row("(str,f64)", "(a; +1.5e0)").value);
        assert_eq!(
            scalar("+1.5e0").number().into_iter().chain(scalar("true").number()).sum::<f64>(),
            2.5
        );
    }

    #[test]
    fn texts_in_maps_are_in_quotes_where_elements_could_not_be_told_apart() {
        let map = row("map<str,u32>", "\"\"->1;\"->\"->2;\"a->1;b\"->3; c ->4");
        let elements = [("", "1"), ("->", "2"), ("a->1;b", "3"), (" c ", "4")];
        let elements = elements.map(|(key, value)| (text(key), scalar(value)));
        assert_eq!(map.value, Value::Map(elements.to_vec()));
        let map = row("map<str,str>", "\"a->b\"->\"c;d\";e->\"\"");
        let elements = [("a->b", "c;d"), ("e", "")].map(|(key, value)| (text(key), text(value)));
        assert_eq!(map.value, Value::Map(elements.to_vec()));
        // An empty text outside of maps is written as nothing.
        assert_eq!(row("str", "").value, text(""));
    }

    #[test]
    fn a_text_that_is_a_value_is_written_as_it_is() {
        for value in ["a, b", "two\nlines\n", "\"said\"", "\n"] {
            assert_eq!(row("str", value).value, text(value));
        }
        let nested = row("(str,(u8,str))", "(a, b; (2; \"c\n))").value;
        let inner = Value::Tuple(vec![scalar("2"), text("\"c\n")]);
        assert_eq!(nested, Value::Tuple(vec![text("a, b"), inner]));
        let next = "(8; 9), (global_id; global_id), s, str, (i32; i32), script0, , , , , a\n\n";
        let rows = format!("4, memaddr, t, str, (i32; i32), script0, main, 5, 4, p, b\n\n{next}");
        let values: Vec<_> = Document::read(&rows).rows.into_iter().map(|row| row.value).collect();
        assert_eq!(values, [text("b\n"), text("a\n")]);
    }

    #[test]
    fn what_is_no_row_was_printed() {
        let rows = "8, memaddr, b, bool, i32, script0, \"a, b\", 3, 4, 0_wasm:opcode:call, false\n";
        let document = Document::read(&format!("hello, you\n{HEADING}{rows}bye"));
        assert_eq!((document.printed.as_str(), document.rows.len()), ("hello, you\nbye", 1));
        assert_eq!(document.rows[0].fname, "a, b");
        assert_eq!(document.to_string(), format!("hello, you\nbye\n{HEADING}{rows}"));
        let odd = "0, global_id, n, what, i32, script0, , , , , 1\n";
        assert_eq!(Document::read(odd), Document { printed: odd.into(), rows: Vec::new() });
    }
}
