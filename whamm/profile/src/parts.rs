//! Parts of the run-time support that only some programs need.
//!
//! ```text
//! {if tails}        a line of its own: what follows is kept if the condition holds
//! {else}            or otherwise
//! {end}
//! {reading}         the text of this name
//! ```
//!
//! An engine compiles the run-time support with every program, so it has what the program needs.

use crate::Error;

/// Replaces names by their texts, in which names are replaced, too, and leaves out what is not
/// needed.
pub(crate) fn chosen(
    part: &str,
    holds: &dyn Fn(&str) -> Option<bool>,
    text: &dyn Fn(&str) -> Option<&'static str>,
) -> Result<String, Error> {
    let (mut out, mut kept) = (String::new(), Vec::new());
    for line in part.lines() {
        let marker = line.strip_prefix('{').and_then(|line| line.strip_suffix('}'));
        let unknown = || Error::Runtime(format!("`{line}` in its text"));
        match marker {
            Some("else") => {
                let last: &mut bool = kept.last_mut().ok_or_else(unknown)?;
                *last = !*last;
            }
            Some("end") => {
                kept.pop().ok_or_else(unknown)?;
            }
            Some(marker) => match marker.strip_prefix("if ") {
                Some(condition) => kept.push(holds(condition).ok_or_else(unknown)?),
                None if kept.contains(&false) => {}
                None => out += &chosen(text(marker).ok_or_else(unknown)?, holds, text)?,
            },
            None if kept.contains(&false) => {}
            None => {
                out += line;
                out.push('\n');
            }
        }
    }
    match kept.is_empty() {
        true => Ok(out),
        false => Err(Error::Runtime("a condition without an end in its text".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::chosen;

    fn of(part: &str) -> Option<String> {
        let holds = |condition: &str| match condition {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        };
        let text = |name: &str| (name == "text").then_some("{if true}\nthe text\n{end}");
        chosen(part, &holds, &text).ok()
    }

    #[test]
    fn what_holds_is_kept() {
        let part =
            "a\n{if true}\nb\n{if false}\nc\n{else}\n{text}\n{end}\n{else}\nd\n{text}\n{end}\ne";
        assert_eq!(of(part).as_deref(), Some("a\nb\nthe text\ne\n"));
    }

    #[test]
    fn an_unknown_marker_is_an_error() {
        for part in ["{if maybe}\n{end}", "{other}", "{else}", "{end}", "{if true}"] {
            assert_eq!(of(part), None, "{part}");
        }
    }
}
