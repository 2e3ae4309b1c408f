//! Pairs: two points between which time passes.
//!
//! Points have no ends. Their names do: `gc__start` and `gc__done` of one provider are the two ends
//! of a pass, and so are `function__entry` and `function__return`. Others are named by the user.

use super::Point;
use std::collections::{BTreeMap, BTreeSet};

/// Last words of names: of a beginning, and of its end. The first pair that is there counts.
const WORDS: [(&str, &str); 10] = [
    ("entry", "return"),
    ("entry", "exit"),
    ("enter", "exit"),
    ("enter", "leave"),
    ("begin", "end"),
    ("begin", "done"),
    ("start", "done"),
    ("start", "end"),
    ("start", "stop"),
    ("start", "complete"),
];

/// Two points, by their titles.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// Where time begins to pass.
    pub begin: String,
    /// Where it ends.
    pub end: String,
}

/// Why text names no pair.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a pair of tracepoints; give two names separated by a comma, such as 'app:load,app:ready'"
)]
pub struct PairError(String);

impl std::str::FromStr for Pair {
    type Err = PairError;

    /// `provider:name,provider:name`; the second's provider may be left out.
    fn from_str(text: &str) -> Result<Self, PairError> {
        let wrong = || PairError(text.to_owned());
        let (begin, end) = text.split_once(',').ok_or_else(wrong)?;
        let (provider, name) = begin.split_once(':').ok_or_else(wrong)?;
        let end = match end.split_once(':') {
            Some(_) => end.to_owned(),
            None => format!("{provider}:{end}"),
        };
        let is_title = |title: &str| {
            let parts = title.split_once(':');
            parts.is_some_and(|(provider, name)| {
                !provider.is_empty() && !name.is_empty() && !name.contains([',', ';', ':'])
            })
        };
        let is_pair = !name.is_empty() && is_title(begin) && is_title(&end) && begin != end;
        is_pair.then(|| Self { begin: begin.to_owned(), end }).ok_or_else(wrong)
    }
}

impl std::fmt::Display for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{},{}", self.begin, self.end)
    }
}

/// The pairs among points: those that were `named`, and then those whose names say so. A point is
/// in one pair at most.
pub fn pairs<'p>(points: impl Iterator<Item = &'p Point>, named: &[Pair]) -> Vec<Pair> {
    let mut titles: BTreeMap<(String, String, String), String> = BTreeMap::new();
    for point in points {
        let (stem, word) = parts(&point.name);
        titles.insert((point.provider.clone(), stem, word), point.title());
    }
    let there: BTreeSet<&String> = titles.values().collect();
    let mut taken = BTreeSet::new();
    let mut pairs = Vec::new();
    let by_words = WORDS.iter().flat_map(|(begin, end)| {
        titles.iter().filter(move |((_, _, word), _)| word == begin).filter_map(|(key, title)| {
            let (provider, stem, _) = key;
            let end = titles.get(&(provider.clone(), stem.clone(), (*end).to_owned()))?;
            Some(Pair { begin: title.clone(), end: end.clone() })
        })
    });
    for pair in named.iter().cloned().chain(by_words) {
        let is_there = there.contains(&pair.begin) && there.contains(&pair.end);
        if is_there && !taken.contains(&pair.begin) && !taken.contains(&pair.end) {
            taken.extend([pair.begin.clone(), pair.end.clone()]);
            pairs.push(pair);
        }
    }
    pairs
}

/// A name without its last word, and that. Two underscores are what a hyphen is in C.
fn parts(name: &str) -> (String, String) {
    let name = name.to_lowercase().replace("__", "-");
    let split = name.rsplit_once('-').or_else(|| name.rsplit_once('_'));
    match split {
        Some((stem, word)) => (stem.to_owned(), word.to_owned()),
        None => (String::new(), name),
    }
}

#[cfg(test)]
mod tests {
    use super::super::PointTable;
    use super::*;
    use wordpatch::CodeAddr;

    fn named(titles: &[&str], pairs_named: &[&str]) -> Vec<String> {
        let point = |title: &&str| {
            let (provider, name) = title.split_once(':').unwrap();
            Point {
                at: CodeAddr::new(1),
                semaphore: None,
                provider: provider.to_owned(),
                name: name.to_owned(),
                arguments: String::new(),
                table: PointTable::Notes,
            }
        };
        let points: Vec<Point> = titles.iter().map(point).collect();
        let wanted: Vec<Pair> = pairs_named.iter().map(|text| text.parse().unwrap()).collect();
        pairs(points.iter(), &wanted).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_of_one_provider_that_differ_in_their_last_word_are_pairs() {
        let titles = [
            "python:function__entry",
            "python:function__return",
            "python:line",
            "python:gc__start",
            "python:gc__done",
            "pg:query-start",
            "pg:query-done",
            "other:query__done",
            "io:begin",
            "io:end",
            "rtld:map_start",
            "rtld:map_complete",
            "x:lone__start",
        ];
        assert_eq!(
            named(&titles, &[]),
            [
                "python:function__entry,python:function__return",
                "io:begin,io:end",
                "pg:query-start,pg:query-done",
                "python:gc__start,python:gc__done",
                "rtld:map_start,rtld:map_complete",
            ]
        );
    }

    #[test]
    fn a_pair_that_was_named_comes_first_and_a_point_is_in_one() {
        let titles = ["a:x__start", "a:x__done", "a:x__end", "a:go", "b:went"];
        assert_eq!(named(&titles, &[]), ["a:x__start,a:x__done"]);
        assert_eq!(named(&titles, &["a:x__start,x__end"]), ["a:x__start,a:x__end"]);
        assert_eq!(
            named(&titles, &["a:go,b:went", "a:x__done,a:go", "a:nosuch,a:go"]),
            ["a:go,b:went", "a:x__start,a:x__done"]
        );
    }

    #[test]
    fn a_pair_is_two_titles() {
        for wrong in ["", "a:b", "b,c", "a:b,", "a:,b", ":b,c", "a:b,a:b", "a:b,c,d"] {
            let error = wrong.parse::<Pair>().unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains("two names"), "{error}");
        }
        let pair: Pair = "a:b,c".parse().unwrap();
        assert_eq!(pair.to_string(), "a:b,a:c");
    }
}
