//! Checks probes: one for each event and mode that a rule matches.
//!
//! A bound that cannot be satisfied at any site excludes the instruction; if none remains, a
//! warning says that the probe matches nothing. A generic probe becomes one probe for each choice
//! of types; at most one of them matches at a site.

use super::scope::{Context, Site};
use super::{Checker, callee};
use crate::diagnostic::{Diagnostics, Kind};
use crate::events::{Bound, Definition, Event};
use crate::fold;
use crate::hir::{Body, Probe};
use crate::rule::{self, Match};
use crate::source::Span;
use crate::syntax::ast::{Constraint, Param, ProbeDef, Rule};
use crate::types::Ty;
use std::collections::HashMap;
use std::rc::Rc;

/// A checked body, and the answers under which it is valid.
struct Known {
    mode: bool,
    params: HashMap<Rc<str>, Ty>,
    asked: Vec<(String, Option<Definition>)>,
    bound: Vec<(Bound, Ty)>,
    body: Rc<Body>,
}

/// Why a probe has no body at an event.
enum Unfit {
    /// The event lacks something that the body reads.
    Lacks(Vec<Complaint>),
    /// No site of the event satisfies the bounds.
    Never(Complaint),
    Wrong,
}

/// The place of an error, the message, and the remedy.
type Complaint = (Span, String, String);

/// The results of checking a probe at all of its events, for all choices of types.
#[derive(Default)]
struct Outcomes {
    found: bool,
    wrong: bool,
    lacking: Option<Vec<Complaint>>,
    never: Option<Complaint>,
}

/// Whether a rule has to be valid at each of its events: this holds without a pattern; a rule with
/// a pattern has to be valid at one of them.
fn is_exact(rule: &Rule, matches: usize) -> bool {
    let is_exact = |n: usize| rule.parts.get(n).is_none_or(|p| rule::is_exact(&p.pattern));
    matches == 1 || rule.parts.len() > 2 && is_exact(2) && is_exact(3)
}

pub(super) fn instantiations(rule: &Rule) -> Vec<HashMap<Rc<str>, Ty>> {
    let mut list = vec![HashMap::new()];
    for (name, constraint) in rule.parts.iter().flat_map(|p| &p.generics) {
        let types: &[Ty] = match constraint {
            Some(Constraint::Int) => &[Ty::I32, Ty::I64],
            Some(Constraint::Float) => &[Ty::F32, Ty::F64],
            _ => &[Ty::I32, Ty::I64, Ty::F32, Ty::F64],
        };
        let extend = |before: &HashMap<Rc<str>, Ty>| {
            let mut all = Vec::new();
            for ty in types {
                let mut one = before.clone();
                one.insert(name.text.as_str().into(), ty.clone());
                all.push(one);
            }
            all
        };
        list = list.iter().flat_map(extend).collect();
        if list.len() > 256 {
            list.truncate(256);
        }
    }
    list
}

impl Checker<'_> {
    pub(super) fn probe(&mut self, def: &ProbeDef, number: &mut u32) {
        let matches = rule::expand(&def.rule, self.said);
        self.seen = false;
        self.warn_of_nothing(def, &matches);
        let variants = instantiations(&def.rule);
        let exact = is_exact(&def.rule, matches.len()) && variants.len() == 1;
        let constrained = def.rule.parts.iter().flat_map(|p| &p.generics).all(|g| g.1.is_some());
        let mut known = Vec::new();
        let mut outcomes = Outcomes::default();
        // Numbers are those of version 2.0.1; events that it does not have get the number of the
        // rule's first.
        let (first, counts) = (*number, matches.iter().any(|m| !m.event.is_new()));
        for matched in matches {
            let own = if matched.event.is_new() { first } else { *number };
            for params in &variants {
                // The types of a parameter without a constraint are inferred from its use.
                let before =
                    (!constrained && variants.len() > 1).then(|| Diagnostics::clone(self.said));
                let complaints = self.said.len();
                match self.bodies(def, matched, params, &mut known) {
                    Ok(bodies) => {
                        outcomes.found = true;
                        self.push(def, matched, own, bodies);
                    }
                    Err(Unfit::Lacks(why)) if exact => self.say(&why),
                    Err(Unfit::Lacks(why)) => {
                        outcomes.lacking = outcomes.lacking.or(Some(why));
                    }
                    Err(Unfit::Never(why)) => outcomes.never = outcomes.never.or(Some(why)),
                    Err(Unfit::Wrong) if constrained && outcomes.wrong => {
                        // The same error was reported for another choice of types.
                        let _ = self.said.split_off(complaints);
                    }
                    Err(Unfit::Wrong) => {
                        self.said.explain(complaints, |message| choice(params, message));
                        match before {
                            Some(before) => {
                                let why = || Some(last(self.said, &before));
                                outcomes.lacking = outcomes.lacking.or_else(why);
                                *self.said = before;
                            }
                            None => (outcomes.found, outcomes.wrong) = (true, true),
                        }
                    }
                }
            }
            *number += u32::from(!matched.event.is_new());
        }
        *number += u32::from(!counts);
        self.conclude(outcomes);
        if !self.seen {
            self.stray_probe(def);
        }
    }

    fn warn_of_nothing(&mut self, def: &ProbeDef, matches: &[Match]) {
        if def.body.is_empty()
            && !self.said.has_errors()
            && def.predicate.is_none()
            && !matches.iter().all(|m| m.mode.name().contains("alt"))
        {
            self.said.push(
                Kind::ProbeWarning,
                Some(def.rule.span),
                "this probe does nothing: its body is empty",
            );
        }
    }

    /// Adds a probe for each of these bodies; all but the first are for other widths of addresses.
    fn push(&mut self, def: &ProbeDef, matched: Match, number: u32, bodies: Vec<Rc<Body>>) {
        for (i, body) in bodies.into_iter().enumerate() {
            self.program.probes.push(Probe {
                script: self.script,
                number,
                rule: self.rule,
                matched,
                body,
                span: def.rule.span,
                alternative: i > 0,
            });
        }
    }

    /// Reports why a probe matches nothing, unless it matches.
    fn conclude(&mut self, outcomes: Outcomes) {
        match outcomes {
            Outcomes { found: false, lacking: Some(why), .. } => self.say(&why),
            Outcomes { found: false, never: Some((span, message, help)), .. } => {
                let message = format!("this probe matches nothing: {message}");
                self.said.push_help(Kind::ProbeWarning, Some(span), message, help);
            }
            _ => {}
        }
    }

    /// The bodies of a probe at an event: for 32-bit addresses, and for 64-bit ones.
    fn bodies(
        &mut self,
        def: &ProbeDef,
        matched: Match,
        params: &HashMap<Rc<str>, Ty>,
        known: &mut Vec<Known>,
    ) -> Result<Vec<Rc<Body>>, Unfit> {
        let narrow = self.probe_at(def, matched, params, 0, known);
        let widened = self.widened(def, matched, params, &narrow, known);
        match narrow {
            Ok(body) => Ok([vec![body], widened].concat()),
            Err(_) if !widened.is_empty() => Ok(widened),
            Err(unfit) => Err(unfit),
        }
    }

    /// The bodies of a probe for 64-bit addresses, if these make a difference and the body is valid
    /// for them.
    fn widened(
        &mut self,
        def: &ProbeDef,
        matched: Match,
        params: &HashMap<Rc<str>, Ty>,
        narrow: &Result<Rc<Body>, Unfit>,
        known: &mut Vec<Known>,
    ) -> Vec<Rc<Body>> {
        let bounded = def.rule.parts.iter().any(|p| !p.bounds.is_empty());
        let asked = match narrow {
            Ok(body) => known
                .iter()
                .find(|k| Rc::ptr_eq(&k.body, body))
                .map(|k| k.asked.clone())
                .unwrap_or_default(),
            Err(Unfit::Lacks(_) | Unfit::Never(_)) if bounded => vec![],
            _ => return vec![],
        };
        let mut bodies: Vec<Rc<Body>> = Vec::new();
        for width in 1..=matched.event.widths() {
            let differs = |name: &str| {
                matched.event.variable_in(name, width) != matched.event.variable_in(name, 0)
            };
            let names = def.rule.parts.iter().flat_map(|p| &p.bounds).map(|b| b.name.text.as_str());
            if !names.chain(asked.iter().map(|a| a.0.as_str())).any(differs) {
                continue;
            }
            let before = self.said.clone();
            let outcome = self.probe_at(def, matched, params, width, known);
            *self.said = before;
            match outcome {
                // Two widths that differ only in what the body does not use are one.
                Ok(body) if bodies.iter().any(|other| Rc::ptr_eq(other, &body)) => {}
                Ok(body) => bodies.push(body),
                // A rule that bounds the type has chosen the width of addresses.
                _ if bounded => {}
                _ => self.program.narrow.push(def.rule.span),
            }
        }
        bodies
    }

    fn say(&mut self, why: &[Complaint]) {
        for (span, message, help) in why {
            self.said.push_help(Kind::InstrumentationError, Some(*span), message, help);
        }
    }

    fn probe_at(
        &mut self,
        def: &ProbeDef,
        matched: Match,
        params: &HashMap<Rc<str>, Ty>,
        width: u8,
        known: &mut Vec<Known>,
    ) -> Result<Rc<Body>, Unfit> {
        let Some((bounds, bound)) = self.bounds(&def.rule, matched, params) else {
            return Err(Unfit::Wrong);
        };
        let alt = matched.mode.name().contains("alt");
        if let Some(why) = misfit(&def.rule, matched, &bounds, width) {
            let mut bounds = def.rule.parts.iter().flat_map(|p| &p.bounds);
            // A replacement of an instruction cannot refer to its results.
            return match alt && bounds.any(|b| b.name.text.starts_with("res")) {
                true => Err(Unfit::Lacks(vec![why])),
                false => Err(Unfit::Never(why)),
            };
        }
        let site = Site {
            matched,
            bounds,
            params: params.clone(),
            width,
            asked: vec![],
            unavailable: vec![],
        };
        let same = |k: &&Known| {
            k.mode == alt
                && k.params == *params
                && k.bound == bound
                && k.asked.iter().all(|(name, definition)| site.answer(name) == *definition)
        };
        if let Some(k) = known.iter().rev().take(16).find(same) {
            return Ok(k.body.clone());
        }
        self.context = Context::Probe(site);
        self.seen = true;
        let complaints = self.said.len();
        let body = self.checked_body(def, &bound);
        let Context::Probe(site) = std::mem::replace(&mut self.context, Context::Start) else {
            return Err(Unfit::Wrong);
        };
        if !site.unavailable.is_empty() {
            return Err(Unfit::Lacks(site.unavailable));
        }
        if self.said.len() > complaints && self.said.has_errors() {
            return Err(Unfit::Wrong);
        }
        let body = Rc::new(body);
        known.push(Known {
            mode: alt,
            params: params.clone(),
            asked: site.asked,
            bound,
            body: body.clone(),
        });
        Ok(body)
    }

    pub(super) fn checked_body(&mut self, def: &ProbeDef, bound: &[(Bound, Ty)]) -> Body {
        self.begin_body(Vec::new());
        self.body.bounds.extend(bound.iter().cloned());
        self.body.declared.extend(bound.iter().map(|b| b.0));
        let predicate = match &def.predicate {
            Some(e) => self.expr_of(e, &Ty::Bool),
            None => None,
        };
        let mut stmts = self.block(&def.body);
        callee::settle(&mut stmts);
        let mut body = std::mem::take(&mut self.body);
        body.predicate = predicate.map(fold::pure);
        body.stmts = stmts;
        self.divisions_of(&body);
        body
    }

    /// The type bounds of a rule at an event: by name, and by the variable that the name denotes.
    #[expect(clippy::type_complexity, reason = "two views of the same bounds")]
    fn bounds(
        &mut self,
        rule: &Rule,
        matched: Match,
        params: &HashMap<Rc<str>, Ty>,
    ) -> Option<(HashMap<String, Ty>, Vec<(Bound, Ty)>)> {
        let (mut by_name, mut list) = (HashMap::new(), Vec::new());
        for bound in rule.parts.iter().flat_map(|p| &p.bounds) {
            let name = &bound.name.text;
            let ty = self.bound_type(bound, params)?;
            match matched.event.variable(name).map(|d| d.bound) {
                Some(
                    b @ (Bound::Arg(_) | Bound::Res(_) | Bound::Local(_) | Bound::TargetFuncref),
                ) => list.push((b, ty.clone())),
                Some(Bound::Imm(_)) => {}
                Some(_) => {
                    let message = format!("`{name}` has one type only, so it is not bounded");
                    self.error_help(
                        bound.name.span,
                        message,
                        "bounds are for argN, resN, localN and immN",
                    );
                    return None;
                }
                None => {}
            }
            by_name.insert(name.clone(), ty);
        }
        list.sort();
        Some((by_name, list))
    }
}

impl Checker<'_> {
    /// The type of a bound.
    pub(super) fn bound_type(
        &mut self,
        bound: &Param,
        params: &HashMap<Rc<str>, Ty>,
    ) -> Option<Ty> {
        let Ty::Param(p) = &bound.ty else { return Some(bound.ty.clone()) };
        if let Some(ty) = params.get(p) {
            return Some(ty.clone());
        }
        self.undeclared(p, bound.name.span);
        None
    }

    /// Reports a type parameter that the rule does not declare.
    pub(super) fn undeclared(&mut self, name: &str, span: Span) {
        let message = format!("the type parameter `{name}` is not declared");
        self.error_help(span, message, format!("write `<{name}: numeric>` in the rule"));
    }
}

/// Why an event cannot satisfy the bounds, if it cannot.
fn misfit(
    rule: &Rule,
    matched: Match,
    bounds: &HashMap<String, Ty>,
    width: u8,
) -> Option<(Span, String, String)> {
    for bound in rule.parts.iter().flat_map(|p| &p.bounds) {
        let (name, span) = (&bound.name.text, bound.name.span);
        let event = match matched.event {
            Event::Opcode(op) => op.name.to_string(),
            other => other.path(),
        };
        let help = || format!("`whamm info -v -r {}` lists what there is", matched.rule());
        let Some(found) = matched.event.variable_at(name, matched.mode, width) else {
            let (message, help) = matched.lacks(name);
            return Some((span, message, help));
        };
        let wanted = bounds.get(name)?;
        let held = |t: &Ty| if *t == Ty::Bool { Ty::I32.slots() } else { t.slots() };
        if found.ty != Ty::Any && held(&found.ty) != held(wanted) {
            return Some((
                span,
                format!("no site of `{event}` has `{name}` of type {wanted}: it is {}", found.ty),
                help(),
            ));
        }
    }
    None
}

/// The values of those type parameters that explain a message, as its end: of parameters whose
/// type it mentions.
fn choice(params: &HashMap<Rc<str>, Ty>, message: &str) -> String {
    let words: Vec<&str> = message.split(|c: char| !c.is_alphanumeric()).collect();
    let of_these = |ty: &Ty| words.contains(&&*ty.to_string());
    let meant = params.iter().filter(|(_, ty)| of_these(ty));
    let mut all: Vec<String> = meant.map(|(name, ty)| format!("{name} is {ty}")).collect();
    all.sort();
    if all.is_empty() { String::new() } else { format!(", where {}", all.join(" and ")) }
}

/// The diagnostics that were added since.
fn last(now: &Diagnostics, before: &Diagnostics) -> Vec<(Span, String, String)> {
    let old: Vec<_> = before.iter().map(|d| (d.span, &d.message)).collect();
    let new = now.iter().filter(|d| !old.contains(&(d.span, &d.message)));
    new.filter_map(|d| Some((d.span?, d.message.clone(), d.help.clone().unwrap_or_default())))
        .collect()
}
