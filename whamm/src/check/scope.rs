//! Resolves names, depending on where they are used.

use super::Checker;
use super::stray::Stray;
use crate::diagnostic::Kind;
use crate::events::FORMER;
use crate::events::{Bound, Definition, Event};
use crate::hir::Var;
use crate::rule::{Match, name_of};
use crate::source::Span;
use crate::types::Ty;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::LazyLock;

/// The code that is being checked.
#[derive(Debug)]
pub(super) enum Context {
    /// Statements outside of probes.
    Start,
    /// A function, with its result type.
    Function(Ty),
    /// A probe at an event.
    Probe(Site),
    /// A body with an invalid head.
    Stray(Stray),
}

/// An event at which a probe is being checked.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) matched: Match,
    /// Type bounds, by name.
    pub(super) bounds: HashMap<String, Ty>,
    /// The values of type parameters.
    pub(super) params: HashMap<Rc<str>, Ty>,
    /// Which memories or tables have 64-bit addresses.
    pub(super) width: u8,
    /// What the body has read about the event: it is the same at every event with the same answers.
    pub(super) asked: Vec<(String, Option<Definition>)>,
    /// A name of the event that it does not have, or that needs a bound: with a glob, the event is
    /// then left out.
    pub(super) unavailable: Vec<(Span, String, String)>,
}

impl Site {
    /// The meaning of a name at the event.
    pub(super) fn answer(&self, name: &str) -> Option<Definition> {
        let mut found = self.matched.event.variable_at(name, self.matched.mode, self.width)?;
        if let Some(ty) = self.bounds.get(name) {
            found.ty = ty.clone();
        }
        Some(found)
    }
}

impl Context {
    /// The error that a variable has the name of a variable of the event.
    pub(super) fn collision(&self, name: &str) -> String {
        match self.event().map(name_of) {
            Some(event) => {
                format!("name `{name}` collides with the `{event}` probe bound variable `{name}`")
            }
            None => {
                format!("name `{name}` collides with the bound variable `{name}` of all probes")
            }
        }
    }

    fn event(&self) -> Option<Event> {
        match self {
            Self::Probe(site) => Some(site.matched.event),
            Self::Stray(stray) => stray.event(),
            _ => None,
        }
    }

    /// The values of type parameters.
    pub(super) fn params(&self) -> Option<&HashMap<Rc<str>, Ty>> {
        match self {
            Self::Probe(site) => Some(&site.params),
            Self::Stray(stray) => Some(&stray.params),
            _ => None,
        }
    }

    /// Whether the body's event is unknown, so that a name may have any of its meanings.
    pub(super) fn is_unclear(&self) -> bool {
        matches!(self, Self::Stray(stray) if stray.event().is_none())
    }
}

/// The meaning of a name.
#[derive(Clone, Debug)]
pub(super) enum Meaning {
    Var(Var, Ty),
    Event(Definition),
    Library(u32),
}

/// Variables of a body, innermost block last.
#[derive(Debug, Default)]
pub(super) struct Scopes(Vec<HashMap<String, (Var, Ty)>>);

impl Scopes {
    pub(super) fn enter(&mut self) {
        self.0.push(HashMap::new());
    }

    pub(super) fn leave(&mut self) {
        self.0.pop();
    }

    pub(super) fn insert(&mut self, name: &str, var: Var, ty: &Ty) {
        if let Some(scope) = self.0.last_mut() {
            scope.insert(name.into(), (var, ty.clone()));
        }
    }

    pub(super) fn innermost(&self, name: &str) -> bool {
        self.0.last().is_some_and(|s| s.contains_key(name))
    }

    fn find(&self, name: &str) -> Option<&(Var, Ty)> {
        self.0.iter().rev().find_map(|s| s.get(name))
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|s| s.keys()).map(String::as_str)
    }
}

/// Names that older scripts may use for variables of their own.
pub(super) fn is_new(name: &str) -> bool {
    matches!(name, "file" | "line" | "taken" | "trap") || name.starts_with("res")
}

/// Whether a name has a meaning at some event.
pub(super) fn is_of_events(name: &str) -> bool {
    static NAMES: LazyLock<HashSet<String>> =
        LazyLock::new(|| Event::all().flat_map(Event::variables).map(|v| v.0).collect());
    // Families are known by their first member.
    let family = name.trim_end_matches(|c: char| c.is_ascii_digit());
    NAMES.contains(name) || (family.len() < name.len() && NAMES.contains(&format!("{family}0")))
}

impl Checker<'_> {
    /// The meaning of a name here, if it has one.
    pub(super) fn meaning(&mut self, name: &str) -> Option<Meaning> {
        if let Some((var, ty)) = self.scopes.find(name) {
            return Some(Meaning::Var(*var, ty.clone()));
        }
        let global = self.globals.get(name).cloned();
        if (global.is_none() || !is_new(name))
            && let Some(found) = self.ask(name)
        {
            return Some(Meaning::Event(found));
        }
        match global {
            Some((var, ty)) => Some(Meaning::Var(var, ty)),
            None => self.uses.get(name).map(|&n| Meaning::Library(n)),
        }
    }

    fn ask(&mut self, name: &str) -> Option<Definition> {
        match &mut self.context {
            Context::Probe(site) => {
                let found = site.answer(name);
                site.asked.push((name.into(), found.clone()));
                found
            }
            Context::Stray(stray)
                if stray.event().is_some() || !self.globals.contains_key(name) =>
            {
                stray.answer(name)
            }
            Context::Stray(_) => None,
            // Variables of the program, as opposed to a place in it, are known everywhere.
            Context::Start | Context::Function(_) => Event::Begin.variable(name),
        }
    }

    /// Variables of frames exist only where a function of the program is active.
    fn reachable(&mut self, found: Meaning, name: &str, span: Span) -> Option<Meaning> {
        let active =
            self.context.is_unclear() || self.context.event().is_some_and(Event::has_sites);
        if active || !matches!(found, Meaning::Var(Var::Frame(_), _)) {
            return Some(found);
        }
        let help =
            "use it in probes that are at places in the program, and hand its value to functions";
        self.error_help(
            span,
            format!("there is no activation here that `{name}` could belong to"),
            help,
        );
        None
    }

    /// Whether a global variable has a name that also has a meaning at the event.
    fn collides(&self, name: &str) -> bool {
        let Context::Probe(site) = &self.context else { return false };
        !is_new(name)
            && self.globals.contains_key(name)
            && self.scopes.find(name).is_none()
            && site.answer(name).is_some_and(|found| !matches!(found.bound, Bound::AppMemId))
    }

    /// Resolves a name; reports an error if it has no meaning.
    pub(super) fn resolve(&mut self, name: &str, span: Span) -> Option<Meaning> {
        if self.collides(name) {
            if self.unknown.insert(name.into()) {
                let message = self.context.collision(name);
                self.said.push_help(
                    Kind::DuplicateIdentifierError,
                    Some(span),
                    message,
                    "choose another name for the variable",
                );
            }
            return None;
        }
        if let Some(found) = self.meaning(name) {
            return self.reachable(found, name, span);
        }
        if let Some((old, new)) = FORMER.iter().find(|f| f.0 == name)
            && let Some(found) = self.meaning(new)
        {
            let message = format!("`{old}` is now called `{new}`");
            self.said.push_help(
                Kind::TypeCheckWarning,
                Some(span),
                message,
                format!("write `{new}`"),
            );
            return Some(found);
        }
        if self.unknown.contains(name) {
            return None;
        }
        let known_elsewhere = is_of_events(name);
        match &mut self.context {
            Context::Probe(site) if known_elsewhere => {
                let (message, help) = site.matched.lacks(name);
                site.unavailable.push((span, message, help));
                return None;
            }
            Context::Stray(stray) if known_elsewhere => {
                if let Some(event) = stray.event().filter(|event| event.variable(name).is_none()) {
                    let message =
                        format!("`{name}` is not a valid bound var for `{}`", name_of(event));
                    let help =
                        format!("`whamm info -v -r wasm:{}` lists what there is", event.path());
                    self.said.push_help(Kind::InstrumentationError, Some(span), message, help);
                }
                return None;
            }
            _ => {}
        }
        if self.broken.contains(name) {
            return None;
        }
        self.unknown.insert(name.into());
        let mut names: Vec<String> =
            self.scopes.names().map(String::from).chain(self.globals.keys().cloned()).collect();
        if let Some(event) = self.context.event() {
            names.extend(event.variables().into_iter().map(|v| v.0));
        }
        // Short names are similar to all others.
        let near = (!self.said.is_long())
            .then(|| crate::rule::nearest(name, names.iter().map(String::as_str)))
            .and_then(|near| {
                near.into_iter()
                    .find(|n| strsim::levenshtein(name, n) * 3 <= name.len().max(n.len()))
            });
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "declare it with `var {name}: type;`, or write it in quotes if it is a text"
            ),
        };
        self.error_help(span, format!("there is no variable `{name}` here"), help);
        None
    }
}
