//! Marks: signs that show the certainty of a printed figure.
//!
//! ```text
//!   1.23 ms     everything was seen
//!   ~1.23 ms    an estimate, whose interval is narrower than the value
//!   ?1.23 ms    an estimate, whose interval is wider than the value: not ranked by the value, but by the interval's lower end
//!   ≤4.00 ms    nothing was seen; it is at most so much
//!   ≥2.50 ms    at least so much: a sum of what was seen, the longest of the calls that were timed
//!   <15.0 ns    too short to measure
//!   ~<15.0 ns   the calls that were timed were too short to measure
//!   -           nothing is known
//! ```

use crate::figure::{Figure, Mark};

/// The text for an unknown figure.
pub(crate) const NOTHING: &str = "-";

/// The mark in front of the number.
pub(crate) const fn sign(mark: Mark) -> &'static str {
    match mark {
        Mark::Exact => "",
        Mark::About => "~",
        Mark::Unsure => "?",
        Mark::AtMost => "≤",
        Mark::AtLeast => "≥",
    }
}

/// A figure in a notation, with its mark.
pub(crate) fn marked(figure: Option<Figure>, write: impl Fn(f64) -> String) -> String {
    let Some(figure) = figure.filter(Figure::is_sound) else { return NOTHING.to_owned() };
    let mark = figure.mark();
    let shown = if mark == Mark::AtMost { figure.interval().1 } else { figure.value };
    let text = write(shown.max(0.0));
    if !text.starts_with('<') {
        return format!("{}{text}", sign(mark));
    }
    // It is below the resolution only if its interval is, too.
    let most = write(figure.interval().1);
    if most.starts_with('<') { text } else { format!("{}{most}", sign(Mark::AtMost)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(value: f64, lo: f64, hi: f64) -> Figure {
        Figure { value, how: crate::How::Estimated { lo, hi } }
    }

    #[test]
    fn a_figure_says_how_much_of_it_is_known() {
        let write = |value: f64| format!("{value}");
        assert_eq!(marked(None, write), "-");
        assert_eq!(marked(Some(Figure::exact(5.0)), write), "5");
        assert_eq!(marked(Some(figure(5.0, 4.0, 6.0)), write), "~5");
        assert_eq!(marked(Some(figure(5.0, 1.0, 9.0)), write), "?5");
        assert_eq!(marked(Some(figure(0.0, 0.0, 4.0)), write), "≤4");
        assert_eq!(marked(Some(figure(5.0, 5.0, 90.0)), write), "≥5");
        assert_eq!(marked(Some(figure(f64::NAN, 0.0, 4.0)), write), "-");
        let write = |value: f64| if value < 15.0 { "<15".to_owned() } else { value.to_string() };
        assert_eq!(marked(Some(figure(5.0, 1.0, 9.0)), write), "<15");
        assert_eq!(marked(Some(figure(5.0, 1.0, 40.0)), write), "≤40");
    }

    #[test]
    fn a_negative_value_is_never_printed() {
        assert_eq!(marked(Some(Figure::exact(-5.0)), |value| format!("{value}")), "0");
    }
}
