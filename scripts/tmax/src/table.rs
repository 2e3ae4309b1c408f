//! Tables for the terminal: the first column is left-aligned, the others right-aligned.

use std::fmt;

/// A table with a title, which `{:#}` shows in bold type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    title: String,
    words_last: bool,
    lines: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        Self {
            title: title.into(),
            words_last: false,
            lines: vec![columns.iter().map(|&column| column.to_owned()).collect()],
        }
    }

    /// Makes the last column one of text, which is left-aligned.
    #[must_use]
    pub fn words_last(self) -> Self {
        Self { words_last: true, ..self }
    }

    /// Adds a line.
    pub fn line(&mut self, cells: impl IntoIterator<Item = String>) {
        self.lines.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", manual::bold(&self.title, f.alternate()))?;
        let columns = self.lines.iter().map(Vec::len).max().unwrap_or(0);
        let width = |i: usize| {
            self.lines
                .iter()
                .filter_map(|line| line.get(i))
                .map(|cell: &String| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for line in &self.lines {
            f.write_str("  ")?;
            for (i, (cell, width)) in line.iter().zip(&widths).enumerate() {
                match i {
                    0 => write!(f, "{cell:<width$}")?,
                    _ if self.words_last && i + 1 == columns => write!(f, "  {cell}")?,
                    _ => write!(f, "  {cell:>width$}")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// A number of ticks, or a dash.
pub fn ticks(value: f64) -> String {
    if value.is_finite() { format!("{value:.0}") } else { "-".to_owned() }
}

/// A span in ticks, followed by nanoseconds; or a dash.
pub fn span(value: f64, ticks_per_ns: f64) -> String {
    let ns = value / ticks_per_ns;
    if ns.is_finite() { format!("{value:.0} ({ns:.0} ns)") } else { ticks(value) }
}

/// A count in groups of three.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        // Digits are ASCII.
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(" ")
}

/// A number out of another.
pub fn of(torn: u64, n: u64) -> String {
    format!("{} / {}", count(torn), count(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new("title", &["name", "ticks"]);
        table.line(["a longer name".to_owned(), count(1_234_567)]);
        assert_eq!(
            table.to_string(),
            "title\n  name               ticks\n  a longer name  1 234 567\n"
        );
        assert!(format!("{table:#}").starts_with("\x1b[1mtitle\x1b[0m\n  name "));
    }

    #[test]
    fn words_in_the_last_column_begin_below_each_other() {
        let mut table = Table::new("title", &["name", "n", "verdict"]).words_last();
        table.line(["a".to_owned(), "10".to_owned(), "whole".to_owned()]);
        assert_eq!(table.to_string(), "title\n  name   n  verdict\n  a     10  whole\n");
    }

    #[test]
    fn counts_are_grouped_from_the_right() {
        assert_eq!(
            [0, 12, 999, 1000, 1_000_000].map(count),
            ["0", "12", "999", "1 000", "1 000 000"]
        );
        assert_eq!(ticks(f64::NAN), "-");
        assert_eq!(
            (span(260.0, 2.6), span(f64::NAN, 2.6)),
            ("260 (100 ns)".to_owned(), "-".to_owned())
        );
    }
}
