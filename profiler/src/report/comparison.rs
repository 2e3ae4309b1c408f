//! A comparison as a table: the changes, their significance, and the figures before and after.

use super::table::TableOptions;
use super::{human, mark, name};
use crate::compare::{Change, Compared, Comparison, Verdict};
use crate::figure::Figure;
use std::fmt::Write;

impl Comparison {
    /// `2 slower, 1 faster, 27 unchanged`.
    pub fn summary(&self) -> String {
        let mut parts = vec![format!("{} slower", self.slower), format!("{} faster", self.faster)];
        let [new, gone] = self.new_and_gone();
        let single = self.runs.iter().any(|&runs| runs < 2);
        if !single || self.unchanged > 0 {
            parts.push(format!("{} unchanged", self.unchanged));
        }
        let why = if single {
            " (one run on a side is never significant: compare several of each)"
        } else {
            ""
        };
        let more = [
            (new, "new"),
            (gone, "gone"),
            (self.calls_changed, "with other call counts"),
            (self.untested, "not tested"),
        ];
        parts.extend(
            more.iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, what)| format!("{count} {what}")),
        );
        parts.join(", ") + why
    }

    /// The comparison as a table.
    pub fn table(&self, options: &TableOptions) -> String {
        let mut text = self.summary() + "\n";
        if let [Some(before), Some(after)] = self.processor.filter_known() {
            let sure = self.processor_p.is_some_and(|p| p < 0.05);
            let change = format!("{:+.1}%", 100.0 * (after.value / before.value - 1.0));
            let change = if sure { change } else { format!("({change})") };
            let _ = writeln!(
                text,
                "{} time of a run: {} → {} {change}",
                if self.wall { "Wall" } else { "CPU" },
                human::time(before.value),
                human::time(after.value)
            );
        }
        let rows = if options.rows == 0 { usize::MAX } else { options.rows };
        let shown: Vec<&Change> = self.functions.iter().take(rows).collect();
        let names: Vec<String> = shown.iter().map(|change| change.name.clone()).collect();
        let what = match self.compared {
            Compared::Own => "self before → after",
            Compared::Total => "total before → after",
        };
        let room = options.width.saturating_sub(18 + 21 + 18 + 6).max(16);
        let (begin, end) = if options.color { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        let names = name::shortened(&names, room);
        let longest = names.iter().map(|name| name::width(name)).max().unwrap_or(0).max(8);
        let _ = writeln!(
            text,
            "\n{begin}{:>18}  {:<longest$}  {what:>21}  {:>18}{end}",
            "change", "function", "calls"
        );
        for (change, name) in shown.iter().zip(names) {
            change.line(&mut text, &name, longest, self.compared, options.color);
        }
        if self.functions.len() > rows {
            let _ = writeln!(text, "… and {} more: see --rows 0", self.functions.len() - rows);
        }
        text + "(parenthesised: not statistically significant)\n"
    }

    /// The comparison as JSON.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

trait Known {
    fn filter_known(&self) -> Self;
}

impl Known for [Option<Figure>; 2] {
    /// A CPU time of zero is unknown.
    fn filter_known(&self) -> Self {
        self.map(|figure| figure.filter(|figure| figure.value > 0.0))
    }
}

impl Change {
    fn line(&self, text: &mut String, name: &str, longest: usize, compared: Compared, color: bool) {
        let change = match (self.verdict, self.ratio) {
            (Verdict::New, _) => "new".to_owned(),
            (Verdict::Gone, _) => "gone".to_owned(),
            (_, Some(ratio)) if ratio.is_sound() => percent(&ratio, self.p.is_some()),
            _ => mark::NOTHING.to_owned(),
        };
        let settled = self.significant || matches!(self.verdict, Verdict::New | Verdict::Gone);
        let change =
            if settled || change == mark::NOTHING { change } else { format!("({change})") };
        let (begin, end) = match self.verdict {
            Verdict::Slower if color => ("\x1b[31m", "\x1b[0m"),
            Verdict::Faster if color => ("\x1b[32m", "\x1b[0m"),
            _ => ("", ""),
        };
        let arrow = |pair: [Option<Figure>; 2], write: fn(f64) -> String| {
            let [before, after] = pair.map(|figure| {
                figure
                    .map_or_else(|| mark::NOTHING.to_owned(), |figure| write(figure.value.max(0.0)))
            });
            if before == after { before } else { format!("{before} → {after}") }
        };
        let times = arrow(self.time(compared), human::time);
        let calls = arrow(self.calls, human::count);
        let calls =
            if self.calls_changed || !calls.contains('→') { calls } else { format!("({calls})") };
        let blank = " ".repeat(18usize.saturating_sub(name::width(&change)));
        let _ = writeln!(
            text,
            "{blank}{begin}{change}{end}  {name:<longest$}  {times:>21}  {calls:>18}"
        );
    }
}

/// A ratio as a change: `+21.3% ±4.0`; large ones as a multiple.
fn percent(ratio: &Figure, tested: bool) -> String {
    let spread = 100.0 * ratio.half_width();
    match ratio.value {
        value if value >= 10.0 => format!("x{value:.0}"),
        value if tested && spread < 100.0 => format!("{:+.1}% ±{spread:.1}", 100.0 * (value - 1.0)),
        value => format!("{:+.1}%", 100.0 * (value - 1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use crate::report::made_up::{function, profile};

    /// Runs of two functions with these self times, in milliseconds.
    fn runs(times: &[[f64; 2]]) -> Vec<Profile> {
        let run = |[slow, same]: &[f64; 2]| {
            profile(
                1.0,
                vec![
                    function("slow", 10, 500, *slow, *slow),
                    function("same", 7, 500, *same, *same),
                ],
            )
        };
        times.iter().map(run).collect()
    }

    #[test]
    fn the_first_line_says_how_many_are_slower_faster_and_unchanged() {
        let before = runs(&[[100.0, 50.0], [101.0, 52.0], [99.0, 51.0], [100.5, 49.0]]);
        let after = runs(&[[130.0, 51.0], [131.0, 50.0], [129.0, 52.0], [130.5, 50.0]]);
        let shown = Profile::compare(&before, &after)
            .table(&TableOptions { width: 80, ..TableOptions::default() });
        assert_eq!(shown.lines().next(), Some("1 slower, 0 faster, 1 unchanged"), "{shown}");
        let line = |name: &str| shown.lines().find(|line| line.contains(name)).unwrap();
        assert!(
            line("slow ").trim_start().starts_with("+30.0% ±")
                && line("slow ").contains("100 ms → 130 ms"),
            "{shown}"
        );
        assert!(
            line("same").trim_start().starts_with("(+0.5% ±") && line("same").ends_with(" 7"),
            "{shown}"
        );
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        let backwards = Profile::compare(&after, &before);
        assert!(
            backwards.summary().starts_with("0 slower, 1 faster")
                && backwards.json().contains("\"verdict\": \"faster\"")
        );
    }

    #[test]
    fn one_run_a_side_says_that_it_is_never_significant() {
        let comparison = Profile::compare(&runs(&[[100.0, 50.0]]), &runs(&[[1000.0, 50.0]]));
        let shown = comparison.table(&TableOptions::default());
        assert!(
            shown.starts_with(
                "0 slower, 0 faster, 2 not tested (one run on a side is never significant"
            ),
            "{shown}"
        );
        assert!(shown.contains("(x10)") && shown.contains("(+0.0%)"), "{shown}");
    }
}
