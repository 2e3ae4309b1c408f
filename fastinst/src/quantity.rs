//! Quantities, as users write them.

use std::time::Duration;

/// A share: `1%`, `0.01`.
pub fn share(text: &str) -> Option<f64> {
    let value = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok()? / 100.0,
        None => text.parse().ok()?,
    };
    (value > 0.0 && value <= 1.0).then_some(value)
}

/// A time: `10ms`, `1s`, `2m`, `500us`.
pub fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let unit = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(digits.parse::<f64>().ok()? * unit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_shares_are_read_as_people_write_them() {
        assert_eq!(duration("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(duration("500us"), Some(Duration::from_micros(500)));
        assert_eq!((duration("5"), duration("5 parsecs"), duration("")), (None, None, None));
        assert_eq!(
            (share("1%"), share("0.5"), share("0"), share("x")),
            (Some(0.01), Some(0.5), None, None)
        );
    }
}
