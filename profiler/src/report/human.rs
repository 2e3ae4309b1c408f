//! Numbers for people: three digits and a unit.

use std::borrow::Cow;

/// A time in nanoseconds.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        ns if ns < 1e3 => (1.0, "ns"),
        ns if ns < 1e6 => (1e3, "us"),
        ns if ns < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{} {unit}", digits(ns / value))
}

/// A time in nanoseconds, without digits that are smaller than `step`.
pub(crate) fn time_by(ns: f64, step: f64) -> String {
    if ns.abs() >= 100.0 * step || step <= 0.0 {
        return time(ns);
    }
    if ns < step { below(step) } else { time((ns / step).round() * step) }
}

/// An upper bound: less than this time.
pub(crate) fn below(ns: f64) -> String {
    format!("<{}", time(ns.ceil()))
}

/// A text without control characters: a terminal would obey them, and readers of formats with a
/// line for each name would take a line break for its end.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.contains(char::is_control) {
        Cow::Owned(text.replace(char::is_control, " "))
    } else {
        Cow::Borrowed(text)
    }
}

/// A share.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// A number of things: `1 call`, `2 000 calls`.
pub fn several(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// A count with all digits, in groups of three.
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A count.
pub fn count(value: f64) -> String {
    let (by, unit) = match value {
        value if value < 1e5 => return format!("{value:.0}"),
        value if value < 1e6 => (1e3, "k"),
        value if value < 1e9 => (1e6, "M"),
        _ => (1e9, "G"),
    };
    format!("{}{unit}", digits(value / by))
}

/// A number with three digits.
fn digits(value: f64) -> String {
    let places = match value.abs() {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.places$}")
}

/// A name that fits: the middle of a long one is left out.
pub(crate) fn shorten(name: &str, room: usize) -> String {
    let length = name.chars().count();
    if length <= room || room < 8 {
        return name.to_owned();
    }
    let (head, tail) = (room * 2 / 3, room - room * 2 / 3 - 1);
    let first: String = name.chars().take(head).collect();
    let last: String = name.chars().skip(length - tail).collect();
    format!("{first}…{last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!(
            (time(1.234).as_str(), time(45_678.0).as_str(), time(2.5e9).as_str()),
            ("1.23 ns", "45.7 us", "2.50 s")
        );
        assert_eq!(
            (count(1234.0).as_str(), count(123_456.0).as_str(), count(5e7).as_str()),
            ("1234", "123k", "50.0M")
        );
    }

    #[test]
    fn all_digits_come_in_groups() {
        assert_eq!([0, 999, 7514, 1_234_567].map(grouped), ["0", "999", "7 514", "1 234 567"]);
        assert_eq!(percent(0.4128), "41.3%");
    }

    #[test]
    fn no_digit_lies_below_the_clocks_step() {
        assert_eq!(
            (time_by(3.0, 10.0).as_str(), time_by(47.0, 10.0).as_str()),
            ("<10.0 ns", "50.0 ns")
        );
        assert_eq!(time_by(4712.0, 10.0), "4.71 us");
    }

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(shorten("std::vector<int>::push_back", 12), "std::vec…ack");
        assert_eq!(shorten("short", 12), "short");
    }
}
