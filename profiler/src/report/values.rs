//! Values of arguments, as tables.

use super::human;
use crate::{Arguments, Profile};
use std::fmt::Write;

impl Arguments {
    /// The values as a table with this many rows. Times below `floor`, in nanoseconds, are mostly
    /// the cost of measuring.
    pub(crate) fn table(&self, rows: usize, floor: f64) -> String {
        let calls = self.calls();
        let mut text =
            format!("{} of {}: {} calls", self.what, self.function, human::grouped(calls));
        if let Some(rate) = self.stopped {
            let _ = write!(
                text,
                ", then no more: there were over {} calls a second",
                human::grouped(rate)
            );
        }
        text.push('\n');
        let _ = writeln!(text, "{:>12} {:>7} {:>9} {:>9}  value", "calls", "share", "p50", "max");
        let share = |count: u64| human::percent(count as f64 / calls.max(1) as f64);
        let time = |time: Option<f64>, sign: &str| match time {
            None => "-".to_owned(),
            Some(time) if time < floor => format!("~{}", human::below(floor)),
            Some(time) => format!("{sign}{}", human::time(time)),
        };
        let shown = if rows == 0 { self.values.len() } else { rows };
        for value in self.values.iter().take(shown) {
            let p50 = time(value.p50(), "~");
            let _ = writeln!(
                text,
                "{:>12} {:>7} {p50:>9} {:>9}  {}",
                human::grouped(value.calls),
                share(value.calls),
                time(value.max, ""),
                value.values.join(", ")
            );
        }
        let hidden: u64 = self.values.iter().skip(shown).map(|value| value.calls).sum();
        for (count, what) in [(hidden + self.other, "other values"), (self.unknown, "not known")] {
            if count > 0 {
                let (grouped, share) = (human::grouped(count), share(count));
                let _ = writeln!(text, "{grouped:>12} {share:>7} {:>9} {:>9}  ({what})", "-", "-");
            }
        }
        text
    }
}

impl Profile {
    /// The argument values of functions with matching names, as tables; empty if there are none.
    pub fn argument_tables(&self, named: impl Fn(&str) -> bool, rows: usize) -> String {
        let tables = self.header.arguments.iter().filter(|table| named(&table.function));
        let floor = self.header.floor.max(self.header.pair_time());
        tables.map(|table| table.table(rows, floor)).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArgumentValue;

    #[test]
    fn values_without_room_are_told_together() {
        let value = |text: &str, calls| ArgumentValue {
            values: vec![text.to_owned()],
            calls,
            ..ArgumentValue::default()
        };
        let mut one = Arguments {
            function: "parse".to_owned(),
            what: "arg1/s".to_owned(),
            other: 3,
            stopped: Some(10_000),
            values: vec![value("\"b\"", 5), value("\"a\"", 2), value("\"c\"", 1)],
            ..Arguments::default()
        };

        one.values[0].max = Some(90.0);
        assert!(one.table(2, 100.0).contains(" ~<100 ns  \"b\""), "{}", one.table(2, 100.0));
        let table = one.table(2, 0.0);
        assert!(table.contains(" 90.0 ns  \"b\""), "{table}");
        assert!(
            table.starts_with("arg1/s of parse: 11 calls, then no more: there were over 10 000")
        );
        assert!(table.contains("(other values)") && !table.contains("\"c\""), "{table}");
    }
}
