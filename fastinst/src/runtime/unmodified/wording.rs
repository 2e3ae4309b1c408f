//! How a profile says which functions got probes, and when.

use super::*;

/// How many functions got probes, and when.
pub(super) fn installation(
    maker: Option<&impl std::fmt::Display>,
    count: usize,
    when: When,
) -> String {
    let (functions, probes, late) = match count {
        1 => ("1 function".to_owned(), "a probe", "it was seen to run: its count begins there"),
        _ => (
            format!("{count} functions"),
            "probes",
            "they were seen to run: their counts begin there",
        ),
    };
    let when = match when {
        When::Beginning => beginning().to_owned(),
        When::Late => LATER.to_owned(),
        When::Seen => format!("when {late}"),
    };
    match maker {
        Some(maker) => {
            format!("{functions} got {probes} that a compiler has prepared ({maker}) {when}")
        }
        None => format!("{functions} that no compiler has prepared got {probes} {when}"),
    }
}
