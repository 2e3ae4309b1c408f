//! Names that fit into a column and stay distinct: no two functions of a table have the same name.
//!
//! A long name is shortened by its least informative parts first: its parameters, the text in angle
//! brackets, its scopes, its middle. Each name stops at the first form that fits and that no other
//! name has.

use super::human;
use crate::profile::{Label, Profile};
use std::collections::HashMap;

/// A property that may distinguish two functions with the same name.
type Step<'a> = &'a dyn Fn(&Label) -> Option<String>;

/// The names of functions in a table: if several functions have the same name, their names are
/// extended by module, line or offset.
pub(crate) fn distinct(profile: &Profile, labels: &[&Label]) -> Vec<String> {
    let mut names: Vec<String> = labels.iter().map(|label| label.name.clone()).collect();
    let module = |label: &Label| {
        let module = profile.modules.get(label.module? as usize)?;
        Some(format!(
            " [{}]",
            human::printable(module.path.rsplit('/').next().unwrap_or(&module.path))
        ))
    };
    let place = |label: &Label| line(label).map(|line| format!(" ({line})"));
    let offset = |label: &Label| Some(format!(" @{:#x}", label.offset));
    let steps: [Step<'_>; 3] = [&module, &place, &offset];
    for step in steps {
        let mut groups = HashMap::<&str, Vec<usize>>::new();
        names.iter().enumerate().for_each(|(at, name)| groups.entry(name).or_default().push(at));
        let groups: Vec<Vec<usize>> =
            groups.into_values().filter(|group| group.len() > 1).collect();
        for group in groups {
            let more: Vec<Option<String>> = group.iter().map(|&at| step(labels[at])).collect();
            if more.iter().any(|one| *one != more[0]) {
                group
                    .iter()
                    .zip(more)
                    .for_each(|(&at, more)| names[at] += &more.unwrap_or_default());
            }
        }
    }
    names
}

/// A function's file and line, without the file's folder.
pub(crate) fn line(label: &Label) -> Option<String> {
    let (file, line) = (label.file.as_ref()?, label.line?);
    Some(format!("{}:{line}", file.rsplit('/').next().unwrap_or(file)))
}

/// Each name, shortened to this many terminal columns; different names stay different.
pub(crate) fn shortened(names: &[String], room: usize) -> Vec<String> {
    let forms: Vec<[String; 4]> = names.iter().map(|name| forms(name, room)).collect();
    // The name of each form; `None` if several names have it.
    let mut owners: [HashMap<&str, Option<&str>>; 4] = Default::default();
    for (name, forms) in names.iter().zip(&forms) {
        for (owners, form) in owners.iter_mut().zip(forms) {
            let owner = owners.entry(form).or_insert(Some(name));
            *owner = owner.filter(|owner| *owner == name);
        }
    }
    let choose = |at: usize| {
        let fits = |form: &str, level: usize| {
            width(form) <= room && owners[level].get(form).is_some_and(Option::is_some)
        };
        let found = forms[at].iter().enumerate().find(|(level, form)| fits(form, *level));
        found.map_or_else(|| human::shorten(&forms[at][1], room), |(_, form)| form.clone())
    };
    let chosen = (0..names.len()).map(choose).collect();
    told_apart(names, chosen, room)
}

/// If different names have become the same, shows the part in which they differ, or a number.
fn told_apart(names: &[String], mut chosen: Vec<String>, room: usize) -> Vec<String> {
    for round in 0..3 {
        let mut groups = HashMap::<&str, Vec<usize>>::new();
        chosen.iter().enumerate().for_each(|(at, form)| groups.entry(form).or_default().push(at));
        let groups: Vec<Vec<usize>> = groups
            .into_values()
            .filter(|group| group.iter().any(|&at| names[at] != names[group[0]]))
            .collect();
        for group in groups {
            for (number, &at) in group.iter().enumerate() {
                let others =
                    group.iter().map(|&other| &names[other]).filter(|other| **other != names[at]);
                chosen[at] = if round == 0 {
                    around(
                        &names[at],
                        others.map(|other| common(&names[at], other)).max().unwrap_or(0),
                        room,
                    )
                } else {
                    let tail = format!("#{}", number + 1);
                    human::shorten(&names[at], room.saturating_sub(tail.len()).max(8)) + &tail
                };
            }
        }
    }
    chosen
}

/// The number of characters that two names have in common at the beginning.
fn common(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count()
}

/// The beginning of a name, and the part from its first difference on.
fn around(name: &str, from: usize, room: usize) -> String {
    let (head, length) = (room / 3, width(name));
    let tail = room.saturating_sub(head + 2).max(4);
    let begin = from.saturating_sub(2).min(length.saturating_sub(tail));
    if begin <= head + 1 {
        let kept: String = name.chars().take(room.saturating_sub(1)).collect();
        return format!("{kept}…");
    }
    let first: String = name.chars().take(head).collect();
    let rest: String = name.chars().skip(begin).take(tail).collect();
    let end = if begin + tail < length { "…" } else { "" };
    format!("{first}…{rest}{end}")
}

pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}

/// A name as it is; without parameters; without the text in angle brackets; without the scopes that
/// do not fit.
fn forms(name: &str, room: usize) -> [String; 4] {
    let bare = without_parameters(name);
    let plain = without_arguments(bare);
    let last = without_scopes(&plain, room);
    [name.to_owned(), bare.to_owned(), plain, last]
}

/// A character of a name.
#[derive(Clone, Copy, Debug)]
struct Letter {
    at: usize,
    letter: char,
    /// The number of open brackets around it; a bracket itself is outside of its contents.
    depth: usize,
    /// Whether it is a bracket, and not a sign of an operator such as `operator<`.
    bracket: bool,
}

fn letters(name: &str) -> Vec<Letter> {
    // `operator<<<int>` is `operator<<` of `<int>`; `operator()(int)` is `operator()` of `(int)`.
    const SIGNS: [&str; 11] = ["<=>", "<<=", ">>=", "->*", "<<", ">>", "->", "<=", ">=", "()", "<"];
    let (mut depth, mut out, mut operator) = (0usize, Vec::with_capacity(name.len()), 0..0);
    for (at, letter) in name.char_indices() {
        if let Some(rest) = name[at..].strip_prefix("operator") {
            let signs = SIGNS
                .iter()
                .chain(&[">"])
                .find(|signs| rest.starts_with(**signs))
                .map_or(0, |signs| signs.len());
            operator = at..at + 8 + signs;
        }
        let arrow = letter == '>' && name[..at].ends_with('-');
        let bracket = !operator.contains(&at) && !arrow && "<>()[]".contains(letter);
        if bracket && ">)]".contains(letter) {
            depth = depth.saturating_sub(1);
        }
        out.push(Letter { at, letter, depth, bracket });
        if bracket && "<([".contains(letter) {
            depth += 1;
        }
    }
    out
}

/// A name without the list of parameters at its end.
fn without_parameters(name: &str) -> &str {
    let open = letters(name)
        .into_iter()
        .rev()
        .find(|one| one.bracket && one.letter == '(' && one.depth == 0);
    let Some(Letter { at, .. }) = open else { return name };
    let named = at > 0 && !name[..at].ends_with([' ', ':']);
    let last = matches!(name.rsplit(')').next(), Some("" | " const" | " const&" | " &" | " &&"));
    if named && last { &name[..at] } else { name }
}

/// A name without the text in angle brackets.
fn without_arguments(name: &str) -> String {
    let mut out = String::new();
    for one in letters(name).iter().filter(|one| one.depth == 0) {
        out.push(one.letter);
        if one.bracket && one.letter == '<' {
            out.push('…');
        }
    }
    out
}

/// A name without outermost scopes: as many are removed as needed to make it fit.
fn without_scopes(name: &str, room: usize) -> String {
    let letters = letters(name);
    let scope = |pair: &&[Letter]| pair.iter().all(|one| one.letter == ':' && one.depth == 0);
    let starts = letters.windows(2).filter(scope).map(|pair| pair[0].at);
    let shorter = starts.map(|at| format!("…{}", &name[at..])).find(|form| width(form) <= room);
    shorter.unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(names: &[&str], room: usize) -> Vec<String> {
        shortened(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), room)
    }

    #[test]
    fn a_name_gives_up_what_says_least_first() {
        let long = "app::store::Cache<std::string, int>::find(std::string const&) const";
        assert_eq!(short(&[long], 80), [long]);
        assert_eq!(short(&[long], 45), ["app::store::Cache<std::string, int>::find"]);
        assert_eq!(short(&[long], 30), ["app::store::Cache<…>::find"]);
        assert_eq!(short(&[long], 20), ["…::Cache<…>::find"]);
        assert_eq!(short(&["operator<<<int, char>(std::ostream&)"], 14), ["operator<<<…>"]);
        assert_eq!(short(&["Functor::operator()(int) const"], 20), ["Functor::operator()"]);
        assert_eq!(short(&["<alloc::vec::Vec<T> as core::fmt::Debug>::fmt"], 12), ["<…>::fmt"]);
    }

    #[test]
    fn overloads_keep_what_tells_them_apart() {
        let names =
            ["Matrix::multiply(Matrix const&, int)", "Matrix::multiply(Vector const&, int)"];
        let shown = short(&names, 26);
        assert_ne!(shown[0], shown[1]);
        assert!(shown[0].contains("Matr") && shown[1].contains("Vec"), "{shown:?}");
    }

    #[test]
    fn no_two_names_become_the_same_and_none_is_wider_than_its_room() {
        arbtest::arbtest(|u| {
            let parts = [
                "std::",
                "map<int, ",
                "vector<",
                "char>",
                "::insert",
                "(int)",
                "(long)",
                "operator<",
                "x",
                "yy",
                "é",
            ];
            let mut names = std::collections::BTreeSet::new();
            for _ in 0..u.int_in_range(1..=40)? {
                let count = u.int_in_range(1..=12)?;
                names.insert(
                    (0..count).map(|_| u.choose(&parts).copied()).collect::<Result<String, _>>()?,
                );
            }
            let names: Vec<String> = names.into_iter().collect();
            let room = u.int_in_range(16..=60)?;
            let shown = shortened(&names, room);
            let different: std::collections::HashSet<_> = shown.iter().collect();
            assert_eq!(different.len(), names.len(), "{names:?} {shown:?}");
            assert!(shown.iter().all(|name| width(name) <= room), "{room} {shown:?}");
            Ok(())
        });
    }
}
