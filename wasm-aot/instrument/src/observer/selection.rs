//! Parses selections of a monitor's probes: `NAME[:RULE][@FUNCTION][+OFFSET]`.
//!
//! ```text
//!     ways                            all probes of the monitor ways
//!     ways:opcode:br_if               those of the export wasm:opcode:br_if…
//!     ways:opcode:br*@parse_*         in functions of such names
//!     ways@7+23                       in function 7, at offset 23 of its body
//! ```

use globset::{Glob, GlobMatcher};
use std::fmt;

/// Which probes are meant.
#[derive(Clone, Debug)]
pub struct Selection {
    pub(super) monitor: String,
    rule: Option<GlobMatcher>,
    function: Option<(String, GlobMatcher)>,
    offset: Option<u32>,
    text: String,
}

/// Why nothing was switched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SelectionError {
    /// A part of it is no pattern.
    #[error("{text}: {why}")]
    Pattern {
        /// What was given.
        text: String,
        /// Why not.
        why: String,
    },
    /// There is no such monitor.
    #[error("{monitor}: no such monitor{}", listed(.known))]
    NoMonitor {
        /// What was asked for.
        monitor: String,
        /// Those that can be switched.
        known: Vec<String>,
    },
    /// The monitor is compiled in for ever.
    #[error("{monitor} cannot be switched: run it with --monitor FILE,toggle")]
    Fixed {
        /// The monitor.
        monitor: String,
    },
    /// No probe is like that.
    #[error("{which}: no probe is there")]
    Nothing {
        /// What was asked for.
        which: String,
    },
    /// The code cannot be changed.
    #[error(transparent)]
    Engine(Box<wasm_aot_engine::Error>),
}

fn listed(known: &[String]) -> String {
    match known {
        [] => "; none can be switched: run one with --monitor FILE,toggle, or attach one".into(),
        known => format!("; there are {}", known.join(", ")),
    }
}

impl std::str::FromStr for Selection {
    type Err = SelectionError;

    fn from_str(text: &str) -> Result<Self, SelectionError> {
        let wrong = |why: &dyn fmt::Display| SelectionError::Pattern {
            text: text.into(),
            why: why.to_string(),
        };
        let matcher = |glob: &str| {
            Glob::new(glob).map(|glob| glob.compile_matcher()).map_err(|error| wrong(&error))
        };
        let (rest, offset) = match text.rsplit_once('+') {
            Some((rest, digits))
                if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                (rest, Some(digits.parse().map_err(|error| wrong(&error))?))
            }
            _ => (text, None),
        };
        let (rest, function) = match rest.split_once('@') {
            Some((_, "")) => {
                return Err(wrong(
                    &"a function's name, a pattern or a number is expected behind @",
                ));
            }
            Some((rest, function)) => (rest, Some((function.to_owned(), matcher(function)?))),
            None => (rest, None),
        };
        let (monitor, rule) = match rest.split_once(':') {
            Some((_, "")) => {
                return Err(wrong(&"a rule is expected behind :, as opcode:call or func:*"));
            }
            Some((monitor, rule)) => (monitor, Some(matcher(rule)?)),
            None => (rest, None),
        };
        Ok(Self { monitor: monitor.to_owned(), rule, function, offset, text: text.to_owned() })
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Selection {
    /// Of which monitor they are.
    pub fn monitor(&self) -> &str {
        &self.monitor
    }

    /// All probes of a monitor.
    pub fn whole(monitor: &str) -> Self {
        Self {
            monitor: monitor.into(),
            rule: None,
            function: None,
            offset: None,
            text: monitor.into(),
        }
    }

    /// Whether it means a probe: of this export, in this function, so far from the beginning of its
    /// body.
    pub(super) fn means(&self, export: &str, function: u32, names: &[String], offset: u32) -> bool {
        let event = export.strip_prefix("wasm:").unwrap_or(export);
        let event = event.split([' ', '/', '(']).next().unwrap_or(event);
        self.rule.as_ref().is_none_or(|rule| rule.is_match(event))
            && self.offset.is_none_or(|at| at == offset)
            && self.function.as_ref().is_none_or(|(text, glob)| {
                names.iter().any(|name| glob.is_match(name))
                    || text.parse().is_ok_and(|index: u32| index == function)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Selection {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_selection_is_a_monitor_a_rule_functions_and_a_place() {
        let named =
            |selection: &Selection, export: &str, function: u32, name: &str, offset: u32| {
                selection.means(export, function, &[name.to_owned()], offset)
            };
        let all = read("ways");
        assert!(all.monitor == "ways" && named(&all, "wasm:func:entry", 0, "f", 0));
        let some = read("ways:opcode:br*@parse_*+7");
        let export = "wasm:opcode:br_if  ($1(fname), arg0)";
        assert!(named(&some, export, 3, "parse_line", 7));
        assert!(!named(&some, export, 3, "parse_line", 8) && !named(&some, export, 3, "main", 7));
        assert!(!named(&some, "wasm:opcode:call (pc)", 3, "parse_line", 7));
        assert!(
            named(&read("m@12"), export, 12, "anything", 1)
                && !named(&read("m@12"), export, 2, "anything", 1)
        );
        assert!(named(&read("m:opcode:call:after"), "wasm:opcode:call:after (res0)", 0, "f", 0));
        assert!(named(&read("m@operator+"), export, 0, "operator+", 0));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for (text, said) in [
            ("m@", "behind @"),
            ("m:", "behind :"),
            ("m@[", "m@[: "),
            ("m+99999999999", "too large"),
        ] {
            let error = text.parse::<Selection>().expect_err("refused").to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
