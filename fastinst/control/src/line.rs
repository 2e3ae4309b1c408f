//! Requests as lines: a word, and what it applies to.
//!
//! Patterns are separated by tabs, since names of C++ and Rust have blanks in them. Programs of one
//! kind have further words of their own.

use std::fmt;

/// A request to a program of either kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// How it is.
    Status,
    /// Go on measuring.
    On,
    /// Measure nothing until `on`, and keep what is known.
    Off,
    /// Measure the functions that these patterns name, and no others; all if there are none.
    Only(Vec<String>),
    /// Leave the functions out that these patterns name; none if there are none.
    Exclude(Vec<String>),
    /// The share of the program's CPU time that measuring may take.
    Budget(f64),
    /// The profile so far, as a file has it.
    Snapshot,
    /// Begin anew.
    Reset,
    /// Which functions can be measured, and how that is done.
    Probes,
    /// End for good.
    Stop,
}

/// A line that is not a known request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotARequest(String);

impl fmt::Display for NotARequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotARequest {}

/// All words, for messages.
const WORDS: &str = "status, on, off, only, exclude, budget, snapshot, reset, probes or stop";

impl Request {
    /// The request of a line.
    pub fn parse(line: &str) -> Result<Self, NotARequest> {
        let line = line.trim();
        let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        let rest = rest.trim();
        let alone = |request| match rest {
            "" => Ok(request),
            _ => Err(NotARequest(format!("{word} takes nothing: {rest}"))),
        };
        match word {
            "status" => alone(Self::Status),
            "on" => alone(Self::On),
            "off" => alone(Self::Off),
            "only" => patterns(rest).map(Self::Only),
            "exclude" => patterns(rest).map(Self::Exclude),
            "budget" => budget(rest).map(Self::Budget).ok_or_else(|| {
                NotARequest(format!("budget {rest}: give a share such as 1% or 0.01"))
            }),
            "snapshot" => alone(Self::Snapshot),
            "reset" => alone(Self::Reset),
            "probes" => alone(Self::Probes),
            "stop" => alone(Self::Stop),
            _ => Err(NotARequest(format!("unknown request {word}: expected {WORDS}"))),
        }
    }

    /// As a line, without its end.
    pub fn line(&self) -> String {
        let of = |word: &str, patterns: &[String]| format!("{word} {}", patterns.join("\t"));
        match self {
            Self::Status => "status".to_owned(),
            Self::On => "on".to_owned(),
            Self::Off => "off".to_owned(),
            Self::Only(patterns) => of("only", patterns),
            Self::Exclude(patterns) => of("exclude", patterns),
            Self::Budget(share) => format!("budget {share}"),
            Self::Snapshot => "snapshot".to_owned(),
            Self::Reset => "reset".to_owned(),
            Self::Probes => "probes".to_owned(),
            Self::Stop => "stop".to_owned(),
        }
    }
}

/// Patterns that tabs separate. A pattern of a regular expression or of a signature may hold
/// blanks; one that has the form of several globs was meant to be several.
fn patterns(text: &str) -> Result<Vec<String>, NotARequest> {
    let each: Vec<String> = text
        .split('\t')
        .map(str::trim)
        .filter(|pattern| !pattern.is_empty())
        .map(str::to_owned)
        .collect();
    let looks_like_several = |pattern: &&String| {
        pattern.contains(' ') && !pattern.starts_with('/') && !pattern.contains(['(', '<'])
    };
    match each.iter().find(looks_like_several) {
        Some(pattern) => {
            Err(NotARequest(format!("{pattern}: patterns of a line are separated by a tab")))
        }
        None => Ok(each),
    }
}

/// A share: `1%`, `0.01`.
fn budget(text: &str) -> Option<f64> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok()? / 100.0,
        None => text.parse().ok()?,
    };
    (share > 0.0 && share <= 1.0).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_read_as_it_is_written() {
        let some = || vec!["parse_*".to_owned(), "/a b/".to_owned(), "f(int, char)".to_owned()];
        for request in [
            Request::Status,
            Request::On,
            Request::Off,
            Request::Only(some()),
            Request::Only(Vec::new()),
            Request::Exclude(some()),
            Request::Budget(0.025),
            Request::Snapshot,
            Request::Reset,
            Request::Probes,
            Request::Stop,
        ] {
            assert_eq!(Request::parse(&request.line()), Ok(request.clone()), "{request:?}");
            let word = request.line();
            let word = word.split(' ').next().unwrap();
            assert!(WORDS.contains(word), "{word}");
        }
        assert_eq!(Request::parse("  budget 2 %"), Ok(Request::Budget(0.02)));
    }

    #[test]
    fn what_is_no_request_is_told_what_would_be_one() {
        let wrong = |line: &str| Request::parse(line).unwrap_err().to_string();
        assert!(wrong("stattus").starts_with("unknown request stattus: expected status, on"));
        assert!(wrong("").contains("expected status"));
        assert!(wrong("on hotness").contains("on takes nothing"));
        for share in ["", "0", "150%", "much", "-1", "NaN"] {
            assert!(wrong(&format!("budget {share}")).contains("a share such as"), "{share}");
        }
    }
}
