//! Checks bodies with invalid heads: an unknown event, bounds that cannot be satisfied, a rule or a
//! signature that cannot be parsed.
//!
//! One run reports all errors of a script, so these are checked as far as possible. A name has the
//! meaning that it has at all events that the head may refer to; if these differ, nothing is
//! reported about it. No code is emitted for such a body.

use super::Checker;
use super::probe::instantiations;
use super::scope::Context;
use crate::events::{Bound, Definition, Event};
use crate::rule;
use crate::syntax::ast::{ProbeDef, Rule, StrayBlock};
use crate::types::Ty;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The events that a head may refer to, and the meanings of names there.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    events: Vec<Event>,
    answers: RefCell<HashMap<String, Option<Definition>>>,
}

impl Candidates {
    fn of(events: Vec<Event>) -> Rc<Self> {
        Rc::new(Self { events, ..Self::default() })
    }

    /// The meaning of a name at the events that have it, if it is the same.
    fn answer(&self, name: &str) -> Option<Definition> {
        let find = || {
            let mut all = self.events.iter().filter_map(|event| event.variable(name));
            let mut found = all.next()?;
            // Formulas may differ.
            if matches!(found.bound, Bound::Formula(_)) && self.events.len() > 1 {
                found.bound = Bound::MemoryBytes;
            }
            if !all.all(|other| {
                other.ty == found.ty && other.bound.is_static() == found.bound.is_static()
            }) {
                found.ty = Ty::Any;
            }
            Some(found)
        };
        self.answers.borrow_mut().entry(name.into()).or_insert_with(find).clone()
    }
}

/// What is known of a body's event.
#[derive(Debug)]
pub(super) struct Stray {
    candidates: Rc<Candidates>,
    /// Type bounds, by name.
    bounds: HashMap<String, Ty>,
    /// The values of type parameters.
    pub(super) params: HashMap<Rc<str>, Ty>,
    /// Whether it is a function's.
    pub(super) function: bool,
}

impl Stray {
    /// The event, if it is known and the error is elsewhere.
    pub(super) fn event(&self) -> Option<Event> {
        if let [one] = self.candidates.events[..] { Some(one) } else { None }
    }

    /// The meaning of a name at the events that have it.
    pub(super) fn answer(&self, name: &str) -> Option<Definition> {
        let bound = self.bounds.get(name);
        // A name that the event does not have has the type that the rule declares.
        let own = || bound.map(|ty| Definition { bound: Bound::MemoryBytes, ty: ty.clone() });
        let mut found = self.candidates.answer(name).or_else(own)?;
        if let Some(ty) = bound {
            found.ty = ty.clone();
        }
        (!found.ty.is_open()).then_some(found)
    }
}

/// The events that an unmatched rule may refer to: those that match as many of its parts as
/// possible.
fn candidates(rule: &Rule) -> Vec<Event> {
    let fits = |n: usize, name: &str| {
        rule.parts.get(n).is_none_or(|part| rule::matches(&part.pattern, name))
    };
    let mut all: Vec<Event> = Event::all().collect();
    for part in 1..3 {
        let name = |event: &Event| if part == 1 { event.names().0 } else { event.names().1 };
        let fewer: Vec<Event> =
            all.iter().copied().filter(|event| fits(part, name(event))).collect();
        if fewer.is_empty() {
            break;
        }
        all = fewer;
    }
    all
}

impl Checker<'_> {
    /// Checks the body of a probe that could not be checked at any event.
    pub(super) fn stray_probe(&mut self, def: &ProbeDef) {
        let (before, mut first) = (self.said.len(), None);
        let key = [1, 2]
            .map(|n| def.rule.parts.get(n).map(|part| part.pattern.clone()).unwrap_or_default());
        let candidates =
            self.strays.entry(key).or_insert_with(|| Candidates::of(candidates(&def.rule))).clone();
        // A body of a generic probe is valid if it is valid for some types.
        for params in instantiations(&def.rule) {
            let bounds = def.rule.parts.iter().flat_map(|p| &p.bounds);
            let bounds = bounds
                .filter_map(|b| Some((b.name.text.clone(), self.bound_type(b, &params)?)))
                .collect();
            self.context = Context::Stray(Stray {
                candidates: candidates.clone(),
                bounds,
                params,
                function: false,
            });
            self.checked_body(def, &[]);
            self.context = Context::Start;
            let said = self.said.split_off(before);
            if said.is_empty() {
                return;
            }
            first.get_or_insert(said);
        }
        if let Some(first) = first {
            self.said.append(first);
        }
    }

    /// Checks a block without a head.
    pub(super) fn stray_block(&mut self, block: &StrayBlock) {
        let candidates =
            Candidates::of(if block.function { vec![] } else { Event::all().collect() });
        let stray = Stray {
            candidates,
            bounds: HashMap::new(),
            params: HashMap::new(),
            function: block.function,
        };
        self.context = Context::Stray(stray);
        self.begin_body(Vec::new());
        self.block(&block.body);
        self.context = Context::Start;
    }
}
