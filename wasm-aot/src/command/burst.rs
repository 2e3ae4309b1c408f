//! Bursts: attached monitors observe for a while, or until they have seen a number of events, rest,
//! and observe again.

use std::time::Duration;

/// How long monitors observe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// For this time.
    Time(Duration),
    /// Until they have seen this number of events.
    Events(u64),
}

/// How long attached monitors observe, and how long they rest then; for good without a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Burst {
    pub(crate) on: Until,
    pub(crate) off: Option<Duration>,
}

impl Burst {
    /// Parses the arguments of the command: `10ms 990ms`, `100000 1s`, `100000`.
    pub(crate) fn parse(on: &str, off: Option<&str>) -> Result<Self, String> {
        let wrong = |text: &str, why: &dyn std::fmt::Display| {
            format!(
                "{text}: {why}; expected a time such as 10ms or 1s, or a number of events such as 100000"
            )
        };
        let time = |text: &str| match humantime::parse_duration(text) {
            Ok(time) if time.is_zero() => Err(wrong(text, &"times must be longer than zero")),
            Ok(time) => Ok(time),
            Err(error) => Err(wrong(text, &error)),
        };
        let until = match on.parse::<u64>() {
            Ok(0) => return Err(wrong(on, &"it would never be on")),
            Ok(events) => Until::Events(events),
            Err(_) => Until::Time(time(on)?),
        };
        let off = off.map(time).transpose()?;
        match (until, off) {
            (Until::Time(_), None) => Err(format!("{on}: the time off is missing, such as 990ms")),
            (on, off) => Ok(Self { on, off }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_events_are_told_apart() {
        let milliseconds = Duration::from_millis;
        let burst = |on, off| Ok(Burst { on, off });
        assert_eq!(
            Burst::parse("5ms", Some("1s")),
            burst(Until::Time(milliseconds(5)), Some(milliseconds(1000)))
        );
        assert_eq!(
            Burst::parse("5000", Some("1s")),
            burst(Until::Events(5000), Some(milliseconds(1000)))
        );
        assert_eq!(Burst::parse("5000", None), burst(Until::Events(5000), None));
        for (on, off, why) in [
            ("soon", Some("1ms"), "as 10ms or 1s"),
            ("0s", Some("1ms"), "longer than zero"),
            ("5ms", Some("0s"), "longer than zero"),
            ("5ms", None, "is missing"),
            ("0", None, "never be on"),
        ] {
            assert!(Burst::parse(on, off).is_err_and(|error| error.contains(why)), "{on} {off:?}");
        }
    }
}
