//! A monitor's report: columns and rows, and lines above and below them; printed as text, CSV or
//! JSON.

use serde_json::{Map, Value, json};
use std::fmt::{self, Write as _};
use std::sync::Arc;

/// A value in a report.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A name, an instruction.
    Text(String),
    /// A function: output for programs has its index, too.
    Function {
        /// Its name as people read it.
        name: String,
        /// Its index, among all.
        index: u32,
    },
    /// An instruction's place: output for programs has its offset in the module, too.
    Place {
        /// From the beginning of the function's body.
        offset: u32,
        /// From the beginning of the module.
        module: u32,
    },
    /// The calls that lead to a context.
    Path(CallPath),
    /// A count or an amount.
    Count(u64),
    /// A number that is not a count: it may be negative, or a fraction.
    Number(serde_json::Number),
    /// A part of a whole.
    Share(f64),
    /// Several counts.
    Counts(Vec<u64>),
}

/// The functions on the path of calls to a context. It is written when it is shown: all paths
/// together take much more memory than the contexts.
#[derive(Clone)]
pub struct CallPath {
    contexts: Arc<dyn Paths>,
    at: usize,
}

/// Contexts whose paths can be written.
pub(super) trait Paths: Send + Sync {
    /// The names on the path to a context, the outermost first.
    fn path(&self, context: usize) -> String;
}

impl CallPath {
    /// The path to the context `at`.
    pub(super) fn new(contexts: Arc<dyn Paths>, at: usize) -> Self {
        Self { contexts, at }
    }
}

impl fmt::Display for CallPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.contexts.path(self.at))
    }
}

impl fmt::Debug for CallPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl PartialEq for CallPath {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

/// A profile that is made when it is asked for.
#[derive(Clone)]
pub struct LateProfile(Arc<dyn Fn() -> profiler::Profile + Send + Sync>);

impl LateProfile {
    pub(super) fn new(make: impl Fn() -> profiler::Profile + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    /// Makes it.
    pub fn make(&self) -> profiler::Profile {
        (self.0)()
    }
}

impl fmt::Debug for LateProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateProfile").finish_non_exhaustive()
    }
}

impl PartialEq for LateProfile {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<u32> for Cell {
    fn from(count: u32) -> Self {
        Self::Count(count.into())
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Cell {
    /// A place in a function whose body begins at `start`.
    pub(super) fn place(offset: u32, start: u32) -> Self {
        Self::Place { offset, module: start + offset }
    }

    /// The part that `part` is of `whole`.
    pub fn share(part: u64, whole: u64) -> Self {
        Self::Share(if whole == 0 { 0.0 } else { part as f64 / whole as f64 })
    }

    /// The sum of its counts.
    pub(super) fn sum(&self) -> u64 {
        match self {
            Self::Count(count) => *count,
            Self::Counts(counts) => counts.iter().sum(),
            Self::Text(_)
            | Self::Function { .. }
            | Self::Place { .. }
            | Self::Path(_)
            | Self::Number(_)
            | Self::Share(_) => 0,
        }
    }

    fn is_text(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Function { .. } | Self::Place { .. } | Self::Path(_))
    }

    /// As people read it.
    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) | Self::Function { name: text, .. } => text.clone(),
            Self::Place { offset, .. } => format!("+{offset}"),
            Self::Path(path) => path.to_string(),
            Self::Count(count) => count.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Share(share) => format!("{:.1}%", share * 100.0),
            Self::Counts(counts) => {
                format!("[{}]", counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" "))
            }
        }
    }

    /// Its field, and its further fields for programs.
    fn fields(&self, column: &str) -> Vec<(String, Value)> {
        let more = match self {
            Self::Function { index, .. } => Some((format!("{column} index"), json!(index))),
            Self::Place { module, .. } => Some((format!("{column} offset"), json!(module))),
            Self::Text(_)
            | Self::Path(_)
            | Self::Count(_)
            | Self::Number(_)
            | Self::Share(_)
            | Self::Counts(_) => None,
        };
        [(column.to_owned(), self.json())].into_iter().chain(more).collect()
    }

    fn json(&self) -> Value {
        match self {
            Self::Text(text) | Self::Function { name: text, .. } => json!(text),
            Self::Place { offset, .. } => json!(offset),
            Self::Path(path) => json!(path.to_string()),
            Self::Count(count) => json!(count),
            Self::Number(number) => json!(number),
            Self::Share(share) => json!(share),
            Self::Counts(counts) => json!(counts),
        }
    }

    fn csv(&self) -> String {
        match self {
            Self::Share(share) => field(&share.to_string()),
            other => field(&other.shown()),
        }
    }
}

/// A field of CSV.
pub(crate) fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// Aligned columns, for people, with at most this many rows.
pub(crate) fn table(columns: &[&str], rows: &[Vec<Cell>], most: Option<usize>) -> String {
    let all = rows.len();
    let rows = &rows[..most.unwrap_or(usize::MAX).min(all)];
    let shown: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(Cell::shown).collect()).collect();
    let width = |column: usize| {
        let cells = shown.iter().map(|row| row[column].chars().count());
        cells.chain([columns[column].chars().count()]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let is_text = |column: usize| rows.first().is_some_and(|row| row[column].is_text());
    let mut out = String::new();
    let mut line = |cells: &[&str]| {
        let mut text = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let (gap, width) = (if column == 0 { "" } else { "  " }, widths[column]);
            let _ = if is_text(column) {
                write!(text, "{gap}{cell:<width$}")
            } else {
                write!(text, "{gap}{cell:>width$}")
            };
        }
        out.push_str(text.trim_end());
        out.push('\n');
    };
    if !rows.is_empty() {
        line(columns);
    }
    shown.iter().for_each(|row| line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    if rows.len() < all {
        let _ = writeln!(out, "… and {} more (top=all shows them)", all - rows.len());
    }
    out
}

/// A monitor's report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Which monitor.
    pub monitor: &'static str,
    /// The columns of each row.
    pub columns: Vec<&'static str>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
    /// How many rows are shown to people; output for programs has all.
    pub shown: Option<usize>,
    /// Lines about the whole.
    pub notes: Vec<String>,
    /// Sums over all rows, and over data without a row, for programs.
    pub totals: Vec<(&'static str, u64)>,
    /// A drawing, or text that is not a table, which is shown to people instead of the rows.
    pub drawing: Option<String>,
    /// The profile that it shows, if it has times.
    pub profile: Option<LateProfile>,
}

impl Report {
    /// An empty report.
    pub fn new(monitor: &'static str, columns: &[&'static str]) -> Self {
        Self { monitor, columns: columns.to_vec(), ..Self::default() }
    }

    /// Adds a line below, also below what is drawn instead of rows if that is for people.
    pub(super) fn remark(&mut self, note: String) {
        if let Some(drawing) = self.drawing.as_mut().filter(|drawing| drawing.starts_with("== ")) {
            drawing.push_str(&note);
            drawing.push('\n');
        }
        self.notes.push(note);
    }

    /// Adds sums for programs.
    pub(super) fn total(&mut self, totals: impl IntoIterator<Item = (&'static str, u64)>) {
        self.totals.extend(totals);
    }

    /// Adds the sums of these columns for programs, once all rows are there.
    pub(super) fn total_of<const N: usize>(&mut self, columns: [&'static str; N]) {
        for column in columns {
            let at = self.columns.iter().position(|known| *known == column);
            let sum = at.map_or(0, |at| self.rows.iter().map(|row| row[at].sum()).sum());
            self.total([(column, sum)]);
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// For people: columns under each other, or the drawing.
    pub fn text(&self) -> String {
        if let Some(drawing) = &self.drawing {
            return drawing.clone();
        }
        let mut out = format!("== {} ==\n", self.monitor);
        out += &table(&self.columns, &self.rows, self.shown);
        for note in &self.notes {
            let _ = writeln!(out, "{note}");
        }
        out
    }

    /// For programs: a line of names, then a line for each row, each with the monitor's name in
    /// front.
    pub fn csv(&self) -> String {
        let mut out = format!("monitor,{}\n", self.columns.join(","));
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(Cell::csv).collect();
            let _ = writeln!(out, "{},{}", self.monitor, cells.join(","));
        }
        out
    }

    /// For programs: an object with a list of objects.
    pub fn json(&self) -> Value {
        let row = |row: &Vec<Cell>| {
            let fields =
                self.columns.iter().zip(row).flat_map(|(column, cell)| cell.fields(column));
            Value::Object(fields.collect::<Map<_, _>>())
        };
        let totals: Map<_, _> =
            self.totals.iter().map(|(name, total)| ((*name).to_owned(), json!(total))).collect();
        let rows: Vec<_> = self.rows.iter().map(row).collect();
        json!({ "monitor": self.monitor, "rows": rows, "totals": totals, "notes": self.notes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::new("calls", &["function", "calls", "share", "ways"]);
        report.row([
            "say \"hi\", twice".into(),
            12u64.into(),
            Cell::share(1, 4),
            Cell::Counts(vec![1, 2]),
        ]);
        report.row(["f".into(), 3u64.into(), Cell::share(0, 0), Cell::Counts(vec![])]);
        report.notes.push("15 calls".into());
        report
    }

    #[test]
    fn columns_stand_under_each_other() {
        let expected = "== calls ==\nfunction         calls  share   ways\nsay \"hi\", twice     12  25.0%  [1 2]\nf                    3   0.0%     []\n15 calls\n";
        assert_eq!(report().text(), expected);
        let short = Report { shown: Some(1), ..report() }.text();
        assert!(short.contains("… and 1 more"), "{short}");
    }

    #[test]
    fn programs_can_read_every_row() {
        let csv = "monitor,function,calls,share,ways\ncalls,\"say \"\"hi\"\", twice\",12,0.25,[1 2]\ncalls,f,3,0,[]\n";
        assert_eq!(report().csv(), csv);
        let json = report().json();
        assert_eq!(json["rows"][0]["ways"], json!([1, 2]));
        assert_eq!(json["rows"][1]["function"], "f");
    }

    #[test]
    fn programs_are_told_numbers_and_where_places_are_in_the_module() {
        let mut report = Report::new("loops", &["function", "pc"]);
        report.row([Cell::Function { name: "f".into(), index: 3 }, Cell::place(7, 40)]);
        report.total([("loops", 1)]);
        assert_eq!(
            (report.text().as_str(), report.csv().as_str()),
            ("== loops ==\nfunction  pc\nf         +7\n", "monitor,function,pc\nloops,f,+7\n")
        );
        let row = json!({"function": "f", "function index": 3, "pc": 7, "pc offset": 47});
        assert_eq!(
            report.json(),
            json!({"monitor": "loops", "rows": [row], "totals": {"loops": 1}, "notes": []})
        );
    }
}
