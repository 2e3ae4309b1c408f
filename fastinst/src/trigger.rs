//! Triggers: events that start or stop recording, as users write them.
//!
//! | text | recording is switched |
//! |---|---|
//! | `2s`, `500ms` | when so much time has passed since the program started |
//! | `SIGUSR1` | when the signal arrives |
//! | any [pattern](crate::symbols::Pattern) | when a matching function is entered |

use crate::quantity::duration;
use crate::symbols::{Pattern, PatternError};
use std::str::FromStr;
use std::time::Duration;

/// An event that switches recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A function that matches this pattern is entered.
    Function(String),
    /// A signal arrives.
    Signal(i32),
    /// So much time has passed since the program began.
    After(Duration),
}

impl Trigger {
    /// The pattern of functions, if it is one.
    pub fn pattern(&self) -> Option<String> {
        match self {
            Self::Function(pattern) => Some(pattern.clone()),
            Self::Signal(_) | Self::After(_) => None,
        }
    }
}

/// An error in a trigger.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TriggerError {
    /// No pattern of functions.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A signal that does not exist, or is of no use.
    #[error(
        "signal {0} cannot switch recording: use SIGUSR1, SIGUSR2, SIGHUP, SIGQUIT or SIGRTMIN+N"
    )]
    Signal(String),
    /// A number without a unit.
    #[error("{0} is not a time: give it a unit, such as {0}s or {0}ms")]
    Unit(String),
}

impl FromStr for Trigger {
    type Err = TriggerError;

    fn from_str(text: &str) -> Result<Self, TriggerError> {
        if let Some(time) = duration(text) {
            return Ok(Self::After(time));
        }
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return Err(TriggerError::Unit(text.to_owned()));
        }
        if let Some(name) = text.strip_prefix("SIG").filter(|name| is_name_of_signal(name)) {
            return signal(name)
                .map(Self::Signal)
                .ok_or_else(|| TriggerError::Signal(text.to_owned()));
        }
        Pattern::parse(text)?;
        Ok(Self::Function(text.to_owned()))
    }
}

/// Names of functions have other characters, too.
fn is_name_of_signal(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| {
            byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'+' | b'-')
        })
}

/// Of the signals without a meaning, the first that the C library leaves to programs, and the last
/// that there is (signal(7)).
const FIRST_OF_REAL_TIME: i32 = 34;
const LAST: i32 = 64;

/// A signal that programs may have left to others.
fn signal(name: &str) -> Option<i32> {
    if let Some(rest) = name.strip_prefix("RTMIN") {
        let above: i32 = match rest.strip_prefix('+') {
            Some(number) => number.parse().ok()?,
            None if rest.is_empty() => 0,
            None => return None,
        };
        return (0..=LAST - FIRST_OF_REAL_TIME)
            .contains(&above)
            .then_some(FIRST_OF_REAL_TIME + above);
    }
    match name {
        "USR1" => Some(libc::SIGUSR1),
        "USR2" => Some(libc::SIGUSR2),
        "HUP" => Some(libc::SIGHUP),
        "QUIT" => Some(libc::SIGQUIT),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_signals_and_functions_are_told_apart() {
        let read = |text: &str| text.parse::<Trigger>();
        assert_eq!(read("2s"), Ok(Trigger::After(Duration::from_secs(2))));
        assert_eq!(read("1.5ms"), Ok(Trigger::After(Duration::from_micros(1500))));
        assert_eq!(read("SIGUSR1"), Ok(Trigger::Signal(libc::SIGUSR1)));
        assert_eq!(read("SIGRTMIN+2"), Ok(Trigger::Signal(36)));
        for name in ["parse_*", "/^std::/", "main.c:", "s", "10_s", "SIGNAL_handler", "on_2s"] {
            assert_eq!(read(name), Ok(Trigger::Function(name.to_owned())));
        }
    }

    #[test]
    fn what_is_no_trigger_says_what_to_write() {
        let wrong = |text: &str| text.parse::<Trigger>().unwrap_err().to_string();
        assert!(wrong("5").contains("5s") && wrong("0.5").contains("0.5s"));
        for name in ["SIGKILL", "SIGSEGV", "SIGNOSUCH", "SIGRTMIN+99", "SIGRTMIN-1"] {
            assert!(wrong(name).contains(name) && wrong(name).contains("SIGUSR1"), "{name}");
        }
        assert!(wrong("").contains("invalid pattern") && wrong("/(/").contains("invalid"));
    }
}
