//! Parses what users write after `--monitor`: a name, and options.

use super::kept::{ObservedSpan, ProfileFile};
use super::{KINDS, MonitorKind, output};
use globset::{Glob, GlobMatcher};
use std::fs::File;
use std::sync::Arc;
use thiserror::Error;
use wasm_aot_engine::instrument::runtime::Module;

/// How many rows are shown to people by default.
pub const TOP: usize = 40;

/// Errors in choices of monitors.
#[derive(Debug, Error)]
pub enum MonitorError {
    /// There is no such monitor.
    #[error("no monitor is called {}{}; there are {}", quoted(.name), monitor_hint(.name), names())]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The program has no such function.
    #[error("{option}={pattern}: no function is called {pattern}{hint}")]
    NoFunction {
        /// The option that names it.
        option: &'static str,
        /// What was asked for.
        pattern: String,
        /// The name that may be meant, as a question.
        hint: String,
    },
    /// All functions that would be observed are excluded.
    #[error("exclude={0}: no function is left")]
    NoneLeft(String),
    /// The monitor has no such option.
    #[error("{monitor} has no option {}{}; it has {known}", quoted(.option), hint(.option, .known.split(", ")))]
    Option {
        /// The monitor.
        monitor: &'static str,
        /// What was asked for.
        option: String,
        /// The options that it has.
        known: String,
    },
    /// A monitor stands where options do.
    #[error(
        "{option} is a monitor, and no option of {monitor}: choose several with \
         --monitor {monitor} --monitor {option}, or attach one after the other"
    )]
    Several {
        /// The monitor.
        monitor: &'static str,
        /// The other one.
        option: &'static str,
    },
    /// An option has no such value.
    #[error("{option}={value}: {why}")]
    Value {
        /// The option.
        option: String,
        /// What was given.
        value: String,
        /// Why not.
        why: String,
    },
    /// The same monitor is chosen twice.
    #[error("{0} is chosen twice")]
    Twice(&'static str),
}

fn names() -> String {
    KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ")
}

/// A name that people can see in a sentence, also if it is empty.
fn quoted(name: &str) -> &str {
    if name.is_empty() { "\"\"" } else { name }
}

/// Names of monitors in other tools.
const ALIASES: [(&str, &str); 9] = [
    ("imix", "opcodes"),
    ("control", "control-flow"),
    ("cfg", "control-flow"),
    ("fprofile", "functions"),
    ("memstats", "memory"),
    ("mem", "memory"),
    ("call-graph", "calls"),
    ("calltree", "profile"),
    ("flamegraph", "profile,svg"),
];

fn monitor_hint(name: &str) -> String {
    match ALIASES.iter().find(|(alias, _)| *alias == name) {
        Some((_, known)) => format!(" (did you mean {known}?)"),
        None => hint(name, KINDS.iter().map(|kind| kind.name)),
    }
}

/// The known name that looks like `name`, as a question.
fn hint<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let near = known
        .map(|known| (strsim::levenshtein(name, known), known))
        .min()
        .filter(|(distance, known)| *distance <= 1 + known.len() / 3);
    near.map_or_else(String::new, |(_, known)| format!(" (did you mean {known}?)"))
}

/// The first pattern of functions that matches none of these names.
fn unmatched<'a>(globs: &'a [GlobMatcher], labels: &[String]) -> Option<&'a str> {
    let is_unmatched = |glob: &&GlobMatcher| !labels.iter().any(|label| glob.is_match(label));
    globs.iter().find(is_unmatched).map(|glob| glob.glob().glob())
}

/// A monitor that was chosen, with its options.
#[derive(Clone, Debug)]
pub struct Choice {
    pub(super) kind: &'static MonitorKind,
    /// How it was written.
    text: String,
    /// The patterns of the chosen functions, all if there are none; and those of excluded ones.
    functions: Vec<GlobMatcher>,
    excluded: Vec<GlobMatcher>,
    top: Option<usize>,
    options: Vec<(&'static str, String)>,
    /// The program's name, if it was given.
    program: Option<Arc<str>>,
    /// The file of a profile that is made of counts.
    profile: Option<ProfileFile>,
}

impl std::str::FromStr for Choice {
    type Err = MonitorError;

    /// Reads `NAME[,OPTION[=VALUE]]…`.
    fn from_str(text: &str) -> Result<Self, MonitorError> {
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or_default().trim();
        let Some(kind) = KINDS.iter().find(|kind| kind.name == name) else {
            return Err(MonitorError::Unknown { name: name.into() });
        };
        let mut choice = Self {
            kind,
            text: text.to_owned(),
            functions: Vec::new(),
            excluded: Vec::new(),
            top: Some(TOP),
            options: Vec::new(),
            program: None,
            profile: None,
        };
        parts.try_for_each(|part| choice.option(part.trim()))?;
        Ok(choice)
    }
}

impl Choice {
    fn option(&mut self, text: &str) -> Result<(), MonitorError> {
        let (option, value) = text.split_once('=').unwrap_or((text, ""));
        let refused =
            |why: String| MonitorError::Value { option: option.into(), value: value.into(), why };
        match option {
            "function" | "exclude" => {
                let glob = Glob::new(value).map_err(|error| refused(error.to_string()))?;
                let list =
                    if option == "function" { &mut self.functions } else { &mut self.excluded };
                list.push(glob.compile_matcher());
            }
            "top" if value == "all" => self.top = None,
            "top" => {
                self.top =
                    Some(value.parse().map_err(|_| refused("expected a number, or all".into()))?);
            }
            _ => {
                let known = self.kind.options.iter().find(|(known, _)| bare(known) == option);
                let Some((known, _)) = known else { return Err(self.unknown(option)) };
                check(known, value).map_err(|why| refused(why.into()))?;
                self.options.push((bare(known), value.to_owned()));
            }
        }
        Ok(())
    }

    fn unknown(&self, option: &str) -> MonitorError {
        if let Some(other) = KINDS.iter().find(|kind| kind.name == option) {
            return MonitorError::Several { monitor: self.kind.name, option: other.name };
        }
        let own = self.kind.options.iter().map(|(option, _)| bare(option));
        let known = own.chain(["function", "exclude", "top"]).collect::<Vec<_>>().join(", ");
        MonitorError::Option { monitor: self.kind.name, option: option.into(), known }
    }

    /// Refuses patterns of functions if the module has none of them.
    pub(super) fn fits(&self, module: &Module) -> Result<(), MonitorError> {
        let labels = labels_of(module);
        for (option, globs) in [("function", &self.functions), ("exclude", &self.excluded)] {
            if let Some(pattern) = unmatched(globs, &labels) {
                let plain = pattern.replace(['*', '?'], "");
                return Err(MonitorError::NoFunction {
                    option,
                    pattern: pattern.to_owned(),
                    hint: hint(&plain, labels.iter().map(String::as_str)),
                });
            }
        }
        match self.excluded.is_empty() || labels.iter().any(|label| self.wants(label)) {
            true => Ok(()),
            false => {
                let globs = self.excluded.iter().map(|glob| glob.glob().glob());
                Err(MonitorError::NoneLeft(globs.collect::<Vec<_>>().join(", exclude=")))
            }
        }
    }

    /// The message, if functions were chosen of which the module has none.
    pub(super) fn nobody(&self, module: &Module) -> Option<String> {
        if self.functions.is_empty() {
            return None;
        }
        let pattern = unmatched(&self.functions, &labels_of(module))?;
        Some(format!("no function is called {pattern}"))
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.kind.name
    }

    /// How it was written: its name, with options.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether an option was given.
    pub(super) fn has(&self, option: &str) -> bool {
        self.options.iter().any(|(given, _)| *given == option)
    }

    /// The value of an option that was given with one.
    pub(super) fn value(&self, option: &str) -> Option<&str> {
        let given = self.options.iter().rev().find(|(given, _)| *given == option)?;
        (!given.1.is_empty()).then_some(given.1.as_str())
    }

    /// The value of an option that is a number.
    pub(super) fn number(&self, option: &str) -> Option<u64> {
        self.value(option)?.parse().ok()
    }

    /// A file that an option names, to be written anew.
    pub(super) fn file(&self, option: &'static str) -> Result<Option<File>, MonitorError> {
        let Some(path) = self.value(option) else { return Ok(None) };
        let path = path.replace("%p", &std::process::id().to_string());
        let failed = |error: std::io::Error| MonitorError::Value {
            option: option.into(),
            value: path.clone(),
            why: error.to_string(),
        };
        output::open(&path).map(Some).map_err(failed)
    }

    /// The file that its option `file` names, to be written anew.
    pub(super) fn profile_file(&self) -> Result<Option<ProfileFile>, MonitorError> {
        Ok(self.file("file")?.map(|file| ProfileFile::new(file, self.observed_span())))
    }

    /// The observed program, from now on.
    pub(super) fn observed_span(&self) -> ObservedSpan {
        ObservedSpan::begin(self.program.clone())
    }

    /// Opens the file of a profile that is made of counts.
    pub(super) fn open_profile(&mut self) -> Result<(), MonitorError> {
        self.profile = self.profile_file()?;
        Ok(())
    }

    /// The file of a profile that is made of counts, once it is open.
    pub(super) fn profile(&self) -> Option<&ProfileFile> {
        self.profile.as_ref()
    }

    /// The program's name, if it was given.
    pub(super) fn program(&self) -> Option<&str> {
        self.program.as_deref()
    }

    /// The same for a program with that name.
    #[must_use]
    pub(super) fn of_program(mut self, program: Option<Arc<str>>) -> Self {
        self.program = program;
        self
    }

    pub(super) fn top(&self) -> Option<usize> {
        self.top
    }

    /// Whether functions were chosen by name.
    pub(super) fn names(&self) -> bool {
        !self.functions.is_empty()
    }

    /// Whether a function is to be observed.
    pub(super) fn wants(&self, function: &str) -> bool {
        let is_one_of = |globs: &[GlobMatcher]| globs.iter().any(|glob| glob.is_match(function));
        (self.functions.is_empty() || is_one_of(&self.functions)) && !is_one_of(&self.excluded)
    }
}

/// The names of the module's functions.
fn labels_of(module: &Module) -> Vec<String> {
    let info = &module.inner().info;
    let all = 0..info.imported.functions + info.bodies.len() as u32;
    all.map(|function| module.inner().label(function)).collect()
}

/// An option without the name of its value.
fn bare(option: &'static str) -> &'static str {
    option.split(['=', '[']).next().unwrap_or(option)
}

/// Whether an option has such a value.
fn check(option: &str, value: &str) -> Result<(), &'static str> {
    match (option.contains('='), option.contains('['), value.is_empty()) {
        (false, _, false) => Err("the option takes no value"),
        (true, false, true) => Err("the option needs a value"),
        _ if option.ends_with("=N") && !value.parse::<u32>().is_ok_and(|number| number > 0) => {
            Err("expected a number from 1 on")
        }
        _ => Ok(()),
    }
}

/// All monitors that were chosen.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    all: Vec<Choice>,
    program: Option<Arc<str>>,
}

impl Choices {
    /// Reads each of them; none may occur twice.
    pub fn new<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, MonitorError> {
        let mut choices = Self::default();
        for text in texts {
            let choice: Choice = text.parse()?;
            if choices.all.iter().any(|other| other.name() == choice.name()) {
                return Err(MonitorError::Twice(choice.name()));
            }
            choices.all.push(choice);
        }
        Ok(choices)
    }

    /// The same for a program with that name: profiles and drawings contain it.
    #[must_use]
    pub fn of_program(mut self, name: &str) -> Self {
        let program: Arc<str> = name.into();
        self.all =
            self.all.into_iter().map(|choice| choice.of_program(Some(program.clone()))).collect();
        self.program = Some(program);
        self
    }

    /// The program's name, if it was given.
    pub(super) fn program(&self) -> Option<Arc<str>> {
        self.program.clone()
    }

    /// Whether none was chosen.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn into_iter(self) -> impl Iterator<Item = Choice> {
        self.all.into_iter()
    }

    /// Each of them, in the order in which they were chosen.
    pub fn iter(&self) -> impl Iterator<Item = &Choice> {
        self.all.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_has_a_name_and_options() {
        let choice: Choice = "hotness,function=parse*,top=7,code".parse().expect("a choice");
        assert_eq!((choice.name(), choice.top(), choice.has("code")), ("hotness", Some(7), true));
        assert!(choice.wants("parse_line") && !choice.wants("main"));
        let several: Choice =
            "hotness,function=parse*,function=main,exclude=*_slow".parse().expect("a choice");
        let wanted = ["parse_line", "parse_slow", "main", "other"].map(|name| several.wants(name));
        assert_eq!(wanted, [true, false, true, false]);
        assert_eq!("hotness,top=all".parse::<Choice>().expect("a choice").top(), None);
    }

    #[test]
    fn what_is_not_known_is_named_with_what_is_near() {
        let error = |text: &str| text.parse::<Choice>().expect_err("refused").to_string();
        assert!(error("hottness").contains("did you mean hotness?"), "{}", error("hottness"));
        assert!(
            error("zzz").starts_with("no monitor is called zzz; there are alloc"),
            "{}",
            error("zzz")
        );
        assert!(
            error("branches,zeros").contains("did you mean zero?"),
            "{}",
            error("branches,zeros")
        );
        assert!(
            error("branches,top=x").contains("expected a number"),
            "{}",
            error("branches,top=x")
        );
        assert!(
            error("branches,zero=1").contains("takes no value"),
            "{}",
            error("branches,zero=1")
        );
        assert!(
            error("branches,function=[").starts_with("function=[: "),
            "{}",
            error("branches,function=[")
        );
        assert!(error("branches,exclude=[").starts_with("exclude=[: "));
        let several = "choose several with --monitor hotness --monitor branches, or attach one \
                       after the other";
        assert!(error("hotness,branches").ends_with(several), "{}", error("hotness,branches"));
        assert!(Choices::new(["loops", "loops,top=1"]).is_err());
    }
}
