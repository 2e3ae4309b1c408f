//! CSV, for spreadsheets (RFC 4180). Times are in nanoseconds; an unknown figure is an empty cell.

use super::share::Shares;
use crate::profile::Profile;
use std::fmt::Write;

impl Profile {
    /// The profile as CSV.
    pub fn csv(&self) -> String {
        let mut text = "function,module,calls,calls_exact,calls_low,calls_high,samples,min,mean,mean_low,mean_high,p50,p90,p99,max,total,total_low,total_high,self,self_low,self_high,wall,wall_low,wall_high,p999,share\r\n".to_owned();
        let shares = Shares::of(self);
        for function in &self.functions {
            let module = function.label.module.and_then(|module| self.modules.get(module as usize));
            let cell =
                |value: Option<f64>| value.map(|value| format!("{value:.1}")).unwrap_or_default();
            let three = |figure: Option<crate::Figure>| {
                let interval = figure.map(|figure| figure.interval());
                [
                    figure.map(|figure| figure.value),
                    interval.map(|of| of.0),
                    interval.map(|of| of.1),
                ]
                .map(cell)
                .join(",")
            };
            let (low, high) = function.calls.interval();
            let _ = write!(
                text,
                "{},{}",
                quoted(&function.label.name),
                quoted(module.map_or("", |module| &module.path))
            );
            let _ = write!(
                text,
                ",{:.0},{},{low:.0},{high:.0},{}",
                function.calls.value,
                function.calls.is_exact(),
                function.samples
            );
            let percentiles =
                [0.5, 0.9, 0.99].map(|share| cell(function.latency(share, &self.header))).join(",");
            let share = shares
                .and_then(|shares| shares.share(function))
                .map(|share| format!("{:.6}", share.value));
            let (min, max) = (cell(function.min), cell(function.max));
            let [mean, total, own, wall] =
                [function.mean, function.total, function.own, function.wall].map(three);
            let (p999, share) =
                (cell(function.latency(0.999, &self.header)), share.unwrap_or_default());
            let _ = write!(
                text,
                ",{min},{mean},{percentiles},{max},{total},{own},{wall},{p999},{share}\r\n"
            );
        }
        text
    }
}

/// Quotes a field that contains a comma, a quote or a newline.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use crate::report::made_up::program;

    #[test]
    fn every_line_has_a_cell_for_every_column() {
        let mut profile = program();
        profile.functions[0].label.name = "f(int, \"x\")".to_owned();
        profile.functions[1].total = None;
        let text = profile.csv();
        let lines: Vec<&str> = text.split_terminator("\r\n").collect();
        let columns = lines[0].split(',').count();
        assert!(lines[1].starts_with("\"f(int, \"\"x\"\")\","), "{}", lines[1]);
        assert_eq!(lines.len(), 5);
        assert!(lines[2..].iter().all(|line| line.split(',').count() == columns), "{text}");
        assert!(lines[4].ends_with(",0.400000"), "{}", lines[4]);
    }
}
