//! Finds the events that a rule matches.
//!
//! A part of a rule is a list of patterns separated by `|`; each may use `*`, `?` and `[...]`.
//! Parts are matched from left to right. A failure is reported at the most specific level, with the
//! nearest names.

use crate::diagnostic::{Diagnostics, Kind};
use crate::events::{Event, Mode};
use crate::syntax::ast::{Part, Rule};

/// One event in one mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Match {
    /// The event.
    pub event: Event,
    /// The mode.
    pub mode: Mode,
}

impl Match {
    /// `wasm:package:event:mode`, as a report shows it.
    pub(crate) fn path(self) -> String {
        match self.event {
            Event::Opcode(_)
            | Event::FuncEntry
            | Event::FuncExit
            | Event::FuncUnwind
            | Event::BlockStart
            | Event::BlockEnd => {
                format!("wasm:{}:{}", self.event.path(), self.event.mode_name(self.mode))
            }
            _ => format!("{}:{}", self.event.provider(), self.event.path()),
        }
    }

    /// The rule that matches only this, for commands in messages.
    pub(crate) fn rule(self) -> String {
        match self.mode {
            Mode::None => format!("{}:{}", self.event.provider(), self.event.path()),
            _ => self.path(),
        }
    }

    /// Why a name that exists elsewhere does not exist here, and the remedy.
    pub(crate) fn lacks(self, name: &str) -> (String, String) {
        let event = name_of(self.event);
        if self.event.variable(name).is_some() {
            let message = format!("`{name}` is known only behind the instruction");
            return (message, format!("write `wasm:{}:after`", self.event.path()));
        }
        let help = format!("`whamm info -v -r {}` lists what there is", self.rule());
        (format!("`{name}` is not a valid bound var for `{event}`"), help)
    }
}

/// An event's name in messages: the last part of its path, as in `call`, `entry` and `report`.
pub(crate) fn name_of(event: Event) -> &'static str {
    match event.names() {
        (package, "") => package,
        (_, name) => name,
    }
}

/// Whether a name matches one pattern, ignoring case.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    // The position of the last `*`, and how much it has matched so far: enough for backtracking.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some(b'[') => {
                if let Some(next) = class(&pattern[p..], name[n]) {
                    p += next;
                    n += 1;
                    continue;
                }
            }
            Some(&c) if c == b'?' || c.eq_ignore_ascii_case(&name[n]) => {
                p += 1;
                n += 1;
                continue;
            }
            _ => {}
        }
        let Some((at, swallowed)) = star else { return false };
        star = Some((at, swallowed + 1));
        (p, n) = (at + 1, swallowed + 1);
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

/// The length of the class at the beginning of a pattern, if it contains a character.
fn class(pattern: &[u8], c: u8) -> Option<usize> {
    let end = pattern.iter().skip(2).position(|&b| b == b']')? + 2;
    let (negated, inner) = match pattern[1] {
        b'!' => (true, &pattern[2..end]),
        _ => (false, &pattern[1..end]),
    };
    let mut found = false;
    let mut i = 0;
    while i < inner.len() {
        let range = inner.get(i + 1) == Some(&b'-') && i + 2 < inner.len();
        let (low, high) = (inner[i], if range { inner[i + 2] } else { inner[i] });
        found |= [c.to_ascii_lowercase(), c.to_ascii_uppercase()]
            .iter()
            .any(|c| (low..=high).contains(c));
        i += if range { 3 } else { 1 };
    }
    (found != negated).then_some(end + 1)
}

/// Whether a name matches a part of a rule.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    pattern.is_empty() || pattern.split('|').any(|p| glob(p.as_bytes(), name.as_bytes()))
}

/// Whether a part matches one name only.
pub(crate) fn is_exact(pattern: &str) -> bool {
    !pattern.is_empty() && !pattern.contains(['*', '?', '[', '|'])
}

/// The names with the spelling nearest to a pattern.
pub(crate) fn nearest<'a>(pattern: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let plain: String = pattern.chars().filter(|c| !"*?[]|!".contains(*c)).take(64).collect();
    let mut scored: Vec<_> = names
        .map(|n| {
            (
                if !plain.is_empty() && n.contains(&plain) {
                    0
                } else {
                    strsim::levenshtein(&plain, n)
                },
                n,
            )
        })
        .collect();
    scored.sort();
    scored.dedup();
    let most = plain.len() / 2 + 1;
    scored.into_iter().filter(|s| s.0 <= most).map(|s| s.1).take(3).collect()
}

fn unmatched(said: &mut Diagnostics, level: &str, part: &Part, names: &[&str]) {
    let near =
        if said.is_long() { Vec::new() } else { nearest(&part.pattern, names.iter().copied()) };
    let message = format!("no {level} matches `{}`", part.pattern);
    let within =
        names.iter().filter(|n| !part.pattern.is_empty() && n.contains(&*part.pattern)).count();
    let help = match &near[..] {
        [] if names.len() == 1 => format!("the only one is `{}`", names[0]),
        [] => {
            format!("there are {}", names.iter().take(12).copied().collect::<Vec<_>>().join(", "))
        }
        [one] => format!("did you mean `{one}`?"),
        _ if within > 1 => format!(
            "near are {}; `*{}*` matches all that contain it",
            near.join(", "),
            part.pattern
        ),
        _ => format!("near are {}", near.join(", ")),
    };
    said.push_help(Kind::ParsingError, Some(part.span), message, help);
}

/// The packages of events.
const PACKAGES: [&str; 6] = ["opcode", "func", "block", "report", "begin", "end"];

/// Every event and mode that a rule matches, in the order of the table. Empty if an error was
/// reported.
pub(crate) fn expand(rule: &Rule, said: &mut Diagnostics) -> Vec<Match> {
    let part = |n: usize| rule.parts.get(n);
    let [provider, package] = [&rule.parts[0], &rule.parts[1]];
    if PACKAGES.contains(&&*provider.pattern) {
        let message = format!("no provider matches `{}`", provider.pattern);
        let help = format!("a rule begins with its provider: `wasm:{}:...`", provider.pattern);
        said.push_help(Kind::ParsingError, Some(provider.span), message, help);
        return Vec::new();
    }
    if provider.pattern.eq_ignore_ascii_case("engine") {
        return of_engines(rule, said);
    }
    if !matches(&provider.pattern, "wasm") {
        unmatched(said, "provider", provider, &["wasm", "engine"]);
        return Vec::new();
    }
    let is_meant = |name: &str| {
        let spelled_out = name == "func"
            && package.pattern.split('|').any(|p| p.eq_ignore_ascii_case("function"));
        spelled_out || matches(&package.pattern, name)
    };
    let packages: Vec<Event> = Event::all().filter(|e| is_meant(e.names().0)).collect();
    if packages.is_empty() {
        unmatched(said, "package", package, &PACKAGES);
        return Vec::new();
    }
    let depth = rule.parts.len();
    let events: Vec<Event> =
        packages.iter().copied().filter(|e| e.names().1.is_empty() == (depth == 2)).collect();
    let events: Vec<Event> = events
        .into_iter()
        .filter(|e| part(2).is_none_or(|p| matches(&p.pattern, e.names().1)))
        .collect();
    if events.is_empty() {
        no_event(rule, &packages, said);
        return Vec::new();
    }
    modes(rule, &events, said)
}

/// Reports that a rule matches none of the events of its packages.
fn no_event(rule: &Rule, packages: &[Event], said: &mut Diagnostics) {
    let names: Vec<&str> = packages.iter().map(|e| e.names().1).filter(|n| !n.is_empty()).collect();
    let (message, help) = match rule.parts.get(2) {
        Some(part) if !names.is_empty() => return unmatched(said, "event", part, &names),
        Some(_) => ("this event has no more parts", format!("write `wasm:{}`", packages[0].path())),
        None => {
            let package = packages[0].names().0;
            ("this rule names no event", format!("for example `wasm:{package}:{}`", names[0]))
        }
    };
    said.push_help(Kind::ParsingError, Some(rule.span), message, help);
}

/// Events of engines, which have neither packages nor modes.
fn of_engines(rule: &Rule, said: &mut Diagnostics) -> Vec<Match> {
    let found =
        Event::of_engines().filter(|event| matches(&rule.parts[1].pattern, event.names().0));
    let list: Vec<Match> = found.map(|event| Match { event, mode: Mode::None }).collect();
    if list.is_empty() {
        let names: Vec<&str> = Event::of_engines().map(|event| event.names().0).collect();
        unmatched(said, "event", &rule.parts[1], &names);
    } else if let Some(more) = rule.parts.get(2) {
        said.push_help(
            Kind::ParsingError,
            Some(more.span),
            "an event of the engine has no more parts",
            "as in `engine:trap`",
        );
        return Vec::new();
    }
    list
}

fn modes(rule: &Rule, events: &[Event], said: &mut Diagnostics) -> Vec<Match> {
    let mut list = Vec::new();
    for &event in events {
        match rule.parts.get(3) {
            None if event.modes().is_empty() => list.push(Match { event, mode: Mode::None }),
            None => {}
            Some(p) => {
                // A name of a mode in reports of version 2.0.1 is accepted here, too.
                let is_called = |mode: Mode| {
                    p.pattern.split('|').any(|name| name.eq_ignore_ascii_case(mode.name()))
                };
                let meant =
                    event.modes().iter().filter(|m| matches(&p.pattern, m.0) || is_called(m.1));
                list.extend(meant.map(|m| Match { event, mode: m.1 }));
            }
        }
    }
    if list.is_empty() {
        let mut names: Vec<_> = events.iter().flat_map(|e| e.modes()).map(|m| m.0).collect();
        names.sort_unstable();
        names.dedup();
        match rule.parts.get(3) {
            Some(p) if names.is_empty() => {
                said.push_help(
                    Kind::ParsingError,
                    Some(p.span),
                    "this event has no modes",
                    "leave the fourth part out, as in `wasm:func:entry`",
                );
            }
            Some(p) => unmatched(said, "mode", p, &names),
            None => said.push_help(
                Kind::ParsingError,
                Some(rule.span),
                "this rule needs a mode",
                format!("add one of {}", names.join(", ")),
            ),
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_globs_do() {
        assert!(matches("*load*", "i32.load8_s") && matches("*", "x") && matches("", "x"));
        assert!(matches("br|br_if", "br_if") && !matches("br|br_if", "br_table"));
        assert!(
            matches("i[36][24].add", "i64.add")
                && !matches("i[!36]*", "i64.add")
                && matches("[a-z]32.*", "f32.add")
        );
        assert!(
            matches("CALL", "call")
                && matches("i??.eq*", "i32.eqz")
                && !matches("call", "call_ref")
        );
        assert!(
            matches("*a*b*c", "xxaxxbxxbxc")
                && !matches("*a*b*c", "xxaxxbxxbx")
                && !matches("[", "x")
        );
    }
}
