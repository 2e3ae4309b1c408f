//! Similar names: suggestions for unknown names.

/// Names that are less alike are other names.
const ALIKE: f64 = 0.75;

/// The known names that are most like this one, the most alike first.
pub fn nearest<'n>(
    name: &str,
    known: impl IntoIterator<Item = &'n str>,
    most: usize,
) -> Vec<&'n str> {
    let alike = |other: &'n str| {
        (strsim::normalized_damerau_levenshtein(name, other).max(begins(name, other)), other)
    };
    let mut found: Vec<(f64, &str)> =
        known.into_iter().map(alike).filter(|(likeness, _)| *likeness >= ALIKE).collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    found.dedup_by(|a, b| a.1 == b.1);
    found.into_iter().map(|(_, name)| name).take(most).collect()
}

/// A name that was cut short, or has a part too many.
fn begins(name: &str, other: &str) -> f64 {
    let (short, long) = if name.len() < other.len() { (name, other) } else { (other, name) };
    if short.len() >= 4 && long.contains(short) {
        0.5 + short.len() as f64 / long.len() as f64 / 2.0
    } else {
        0.0
    }
}

/// `; did you mean NAME?`, where there is one to be meant.
pub fn question(name: &str, known: &[&str]) -> String {
    let nearest = nearest(name, known.iter().copied(), 1);
    nearest.first().map_or_else(String::new, |nearest| format!("; did you mean {nearest}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nearly_so_is_found_and_what_is_not_is_not() {
        let known = ["parse_line", "parse_word", "count_word", "main"];
        assert_eq!(nearest("parse_lime", known, 1), ["parse_line"]);
        assert_eq!(nearest("count_wrod", known, 3), ["count_word"]);
        assert_eq!(nearest("parse_lin", known, 1), ["parse_line"]);
        assert_eq!(nearest("zlib", known, 3), [""; 0]);
        assert_eq!(
            (question("--polcy", &["--policy", "--budget"]), question("-x", &["--policy"])),
            ("; did you mean --policy?".into(), String::new())
        );
    }
}
