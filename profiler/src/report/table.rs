//! The table: for people.

use super::human;
use crate::profile::{Function, Profile};
use std::fmt::Write;

/// What a table looks like.
#[derive(Clone, Copy, Debug)]
pub struct TableOptions {
    /// How wide it may be.
    pub width: usize,
    /// What comes first.
    pub sort: Sort,
    /// How many functions it has; 0 for all.
    pub rows: usize,
    /// How people come to see all functions.
    pub all_rows: &'static str,
    /// Whether a terminal shows it that knows colours.
    pub color: bool,
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// How often it was called.
    Calls,
    /// All of its time.
    Total,
    /// Its own time.
    Own,
    /// The time of a call.
    Mean,
    /// The time that one call in a hundred exceeds.
    P99,
    /// The longest call.
    Max,
    /// Its name.
    Name,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self { width: 160, sort: Sort::Total, rows: 30, all_rows: "see --rows 0", color: false }
    }
}

impl Sort {
    /// Smaller comes first.
    fn key(self, function: &Function, profile: &Profile) -> f64 {
        let value = |figure: Option<crate::Figure>| figure.map_or(0.0, |figure| figure.value);
        -match self {
            Self::Calls => function.calls.value,
            Self::Total => value(function.total),
            Self::Own => value(function.own),
            Self::Mean => value(function.mean),
            Self::P99 => function.percentile(0.99, &profile.header).unwrap_or(0.0),
            Self::Max => function.max.unwrap_or(0.0),
            Self::Name => 0.0,
        }
    }
}

impl Profile {
    /// As a table.
    pub fn table(&self, options: &TableOptions) -> String {
        let mut rows: Vec<&Function> = self.functions.iter().collect();
        rows.sort_by(|a, b| {
            let keys = options.sort.key(a, self).total_cmp(&options.sort.key(b, self));
            keys.then_with(|| a.label.name.cmp(&b.label.name)).then(a.id.cmp(&b.id))
        });
        let shown = if options.rows == 0 { rows.len() } else { options.rows.min(rows.len()) };
        let own = rows.iter().any(|function| function.own.is_some());
        let (bold, plain) = if options.color { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        let mut text = String::new();
        let _ = write!(text, "{bold}{:>6} {:>10} {:>9} {:>9} {:>8}", "share", "calls", "total", "mean", "±");
        if own {
            let _ = write!(text, " {:>9}", "self");
        }
        let _ = writeln!(text, " {:>9} {:>9} {:>9} {:>9}  function{plain}", "p50", "p90", "p99", "max");
        let room =
            options.width.saturating_sub(text.trim_end().chars().count().saturating_sub(8 + bold.len() + plain.len())).max(20);
        let whole = self.whole();
        for function in &rows[..shown] {
            self.row(&mut text, function, own, whole, room);
        }
        if shown < rows.len() {
            let _ = writeln!(text, "… and {} more functions: {}", rows.len() - shown, options.all_rows);
        }
        self.foot(&mut text);
        text
    }

    fn row(&self, text: &mut String, function: &Function, own: bool, whole: f64, room: usize) {
        let step = self.header.step as f64 / self.header.hz * 1e9;
        let none = || "-".to_owned();
        let tilde = if function.calls.is_exact() { "" } else { "~" };
        let share = function.own.or(function.total).map(|time| 100.0 * time.value.max(0.0) / whole.max(1.0));
        let share = share.map_or_else(none, |share| format!("{share:.1}%"));
        let total = function.total.map_or_else(none, |total| human::time_by(total.value, step));
        let mean = function.mean.map_or_else(none, |mean| human::time_by(mean.value, step / function.samples.max(1) as f64));
        let spread = match function.mean {
            Some(mean) if mean.is_exact() => String::new(),
            Some(mean) if mean.value > 0.0 => format!("{:.0}%", 100.0 * mean.half_width() / mean.value),
            _ => none(),
        };
        let mean =
            if function.is_below_resolution(&self.header) { format!("<{}", human::time((step / 4.0).max(1.0))) } else { mean };
        let calls = format!("{tilde}{}", human::count(function.calls.value));
        let _ = write!(text, "{share:>6} {calls:>10} {total:>9} {mean:>9} {spread:>8}");
        if own {
            let own = function.own.map_or_else(none, |own| human::time_by(own.value.max(0.0), step));
            let _ = write!(text, " {own:>9}");
        }
        for share in [0.5, 0.9, 0.99] {
            let value = function.percentile(share, &self.header);
            let _ = write!(text, " {:>9}", value.map_or_else(none, |value| human::time_by(value, step)));
        }
        let max = function.max.map_or_else(none, |max| human::time_by(max, step));
        let place = match (&function.label.file, function.label.line) {
            (Some(file), Some(line)) => format!(" ({}:{line})", file.rsplit('/').next().unwrap_or(file)),
            _ => String::new(),
        };
        let name = human::shorten(&function.label.name, room.saturating_sub(place.len()).max(16));
        let _ = writeln!(text, " {max:>9}  {name}{place}");
    }

    /// What it all rests on.
    fn foot(&self, text: &mut String) {
        let header = &self.header;
        let exact = self.functions.iter().filter(|function| function.calls.is_exact()).count();
        let spent = &header.spent;
        let share = |seconds: f64| 100.0 * seconds / header.processor.max(1e-9);
        let _ = writeln!(
            text,
            "\n{} functions, calls of {exact} exact; {} calls timed; policy {}; watched for {}.",
            self.functions.len(),
            human::count(spent.samples as f64),
            header.policy,
            human::time(header.seconds * 1e9),
        );
        if header.processor > 0.0 {
            let _ = writeln!(
                text,
                "Switching took {:.2} % of {} of processor time ({} switches), the agent {:.2} %.",
                share(spent.switching),
                human::time(header.processor * 1e9),
                human::count(spent.toggles as f64),
                share(spent.agent),
            );
        }
        if spent.lost > 0 {
            let _ = writeln!(text, "{} timed calls never ended (longjmp, exit inside of them), or found no room.", spent.lost);
        }
        for note in &header.notes {
            let _ = writeln!(text, "Note: {note}");
        }
    }
}
