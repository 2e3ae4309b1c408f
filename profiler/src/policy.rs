//! Policies: which calls are timed, as values.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The choice of the calls that are timed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Policy {
    /// As many as a budget allows: rare functions always, frequent ones in windows of a few calls;
    /// the most frequent ones are also counted in windows only.
    Adaptive {
        /// The share of the program's CPU time that measuring may take.
        budget: f64,
    },
    /// As published in 2016: the first calls after the start of an epoch, which is common to all
    /// functions.
    Paper {
        /// The number of calls.
        samples: u32,
        /// The length of an epoch, in milliseconds.
        epoch_ms: f64,
    },
    /// All calls.
    Exact,
    /// No calls: entries are counted.
    Count,
}

impl Default for Policy {
    fn default() -> Self {
        Self::Adaptive { budget: 0.01 }
    }
}

/// An unknown policy name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a policy: use adaptive, periodic, exact or count")]
pub struct NoPolicy(pub String);

impl FromStr for Policy {
    type Err = NoPolicy;

    fn from_str(name: &str) -> Result<Self, NoPolicy> {
        Ok(match name {
            "adaptive" => Self::default(),
            "periodic" | "paper" => Self::Paper { samples: 10, epoch_ms: 10.0 },
            "exact" => Self::Exact,
            "count" => Self::Count,
            _ => return Err(NoPolicy(name.to_owned())),
        })
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Adaptive { budget } => {
                write!(f, "adaptive, {} % of CPU time", budget * 100.0)
            }
            Self::Paper { samples, epoch_ms } => {
                write!(f, "periodic, {samples} calls in {epoch_ms} ms")
            }
            Self::Exact => f.write_str("exact"),
            Self::Count => f.write_str("count"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_shown_by_the_name_that_sets_it() {
        for name in ["adaptive", "periodic", "exact", "count"] {
            let policy: Policy = name.parse().unwrap();
            assert!(policy.to_string().starts_with(name), "{policy}");
        }
        assert_eq!("paper".parse(), Ok::<_, NoPolicy>("periodic".parse::<Policy>().unwrap()));
    }
}
