//! Differences of two profiles: what has changed, and whether that may be chance.

use crate::figure::Figure;
use crate::profile::{Function, Profile};
use crate::report::{TableOptions, human};
use serde::Serialize;
use std::collections::BTreeMap;

/// What has changed from one profile to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// Function by function, those first whose total has changed most.
    pub functions: Vec<Change>,
}

/// What has changed in a function. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Its name.
    pub name: String,
    /// How often it was called before, and after.
    pub calls: [Option<Figure>; 2],
    /// The time of a call.
    pub mean: [Option<Figure>; 2],
    /// All calls together.
    pub total: [Option<Figure>; 2],
    /// The mean after, in units of the mean before.
    pub ratio: Option<Figure>,
    /// Whether the intervals of the means do not meet, or only one has the function.
    pub significant: bool,
}

impl Profile {
    /// What has changed from `before` to `after`. Functions are the same that have the same name.
    pub fn diff(before: &Self, after: &Self) -> Diff {
        let mut pairs = BTreeMap::<&str, [Option<&Function>; 2]>::new();
        for (at, profile) in [before, after].into_iter().enumerate() {
            for function in &profile.functions {
                pairs.entry(&function.label.name).or_default()[at] = Some(function);
            }
        }
        let mut functions: Vec<Change> = pairs.into_iter().map(|(name, pair)| Change::of(name, pair)).collect();
        functions.sort_by(|a, b| b.weight().total_cmp(&a.weight()).then(a.name.cmp(&b.name)));
        Diff { functions }
    }
}

impl Change {
    fn of(name: &str, pair: [Option<&Function>; 2]) -> Self {
        let mean = pair.map(|function| function.and_then(|function| function.mean));
        let ratio = match mean {
            [Some(before), Some(after)] if before.value > 0.0 => Some(ratio(&before, &after)),
            _ => None,
        };
        let significant = match mean {
            [Some(before), Some(after)] => {
                let (before, after) = (before.interval(), after.interval());
                before.1 < after.0 || after.1 < before.0
            }
            _ => pair[0].is_some() != pair[1].is_some(),
        };
        let calls = pair.map(|function| function.map(|function| function.calls));
        let total = pair.map(|function| function.and_then(|function| function.total));
        Self { name: name.to_owned(), calls, mean, total, ratio, significant }
    }

    /// By how much its total has changed.
    fn weight(&self) -> f64 {
        let [before, after] = self.total.map(|total| total.map_or(0.0, |total| total.value));
        (after - before).abs()
    }
}

fn ratio(before: &Figure, after: &Figure) -> Figure {
    let value = after.value / before.value;
    if before.is_exact() && after.is_exact() {
        return Figure::exact(value);
    }
    let relative = |figure: &Figure| if figure.value == 0.0 { 0.0 } else { figure.half_width() / figure.value.abs() };
    Figure::estimated(value, value.abs() * relative(before).hypot(relative(after)), 0.0)
}

impl Diff {
    /// As a table: what may be chance is in brackets.
    pub fn table(&self, options: &TableOptions) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        let _ = writeln!(text, "{:>22}  {:>22}  {:>16}  function", "total before → after", "mean before → after", "mean, times");
        let rows = if options.rows == 0 { usize::MAX } else { options.rows };
        for change in self.functions.iter().take(rows) {
            let shown = |pair: &[Option<Figure>; 2]| {
                let [before, after] =
                    pair.map(|figure| figure.map_or_else(|| "-".to_owned(), |figure| human::time(figure.value)));
                format!("{before} → {after}")
            };
            let ratio =
                change.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{:.2} ±{:.2}", ratio.value, ratio.half_width()));
            let ratio = if change.significant { ratio } else { format!("({ratio})") };
            let room = options.width.saturating_sub(22 + 22 + 16 + 6).max(16);
            let name = human::shorten(&change.name, room);
            let _ = writeln!(text, "{:>22}  {:>22}  {ratio:>16}  {name}", shown(&change.total), shown(&change.mean));
        }
        if self.functions.len() > rows {
            let _ = writeln!(text, "… and {} more: see --rows 0", self.functions.len() - rows);
        }
        text.push_str("In brackets: the intervals of the two means meet, so it may be chance.\n");
        text
    }

    /// As JSON.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}
