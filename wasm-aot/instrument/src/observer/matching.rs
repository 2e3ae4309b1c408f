//! Matches a program's sites with the rules of monitors.
//!
//! A validator gives the types on the operand stack at each instruction. Predicates and other
//! functions of the monitor are called in the order of sites, once for each match; their results
//! are constants from then on.

use super::ObserverError;
use super::binding::{Argument, Binding, Bindings, BoundMode, Replacement};
use super::guest::{Known, Number, Observer, is_endless};
use super::name::{Asked, Callee, Chosen};
use super::operand_types::{self, Validator, is_natural, is_reachable, stack};
use super::replacement;
use super::rule::{Given, Helper, Rule, What};
use super::rule_lists::{List, RuleLists, Wanted};
use super::site::{self, Nesting, Site};
use super::site_facts::{Lines, SiteFacts, SitePlace, SourceLines};
use super::texts::Text;
use std::collections::HashMap;
use std::sync::Arc;
use wasm_aot_body::closings;
use wasm_aot_body::events::Mode;
use wasm_aot_body::replacement::invalid_behind;
use wasm_aot_engine::CompileError;
use wasm_aot_engine::StoreContextMut;
use wasm_aot_engine::instrument::module::{self, Body, ModuleInfo, debug_information};
use wasm_aot_engine::{Val, ValType};
use wasmparser::{FuncValidatorAllocations, Operator};

mod replacing;

/// Matches a monitor with a program.
pub(crate) fn bind<T: 'static>(
    store: StoreContextMut<'_, T>,
    observer: &mut Observer,
    bytes: &[u8],
    bindings: &mut Bindings,
) -> Result<(), ObserverError> {
    let mut bound = vec![false; observer.rules.len()];
    observer.misfits.clear();
    each_function(store, observer, bytes, None, |matcher, body, allocations| {
        let function = body.index;
        let allocations = matcher.function(body, allocations)?;
        let found = std::mem::take(&mut matcher.found);
        found.iter().for_each(|binding| bound[usize::from(binding.rule)] = true);
        bindings.insert(function, found);
        Ok(allocations)
    })?;
    // A rule that asks for something that only some places have applies to those places. A rule
    // that replaces instructions has to fit all that it names.
    let is_told = |rule: u16| {
        !bound[usize::from(rule)] || observer.rules[usize::from(rule)].mode == Mode::Alt
    };
    let told = std::mem::take(&mut observer.misfits);
    observer.misfits = told.into_iter().filter(|(rule, _)| is_told(*rule)).collect();
    Ok(())
}

/// Matches one rule of a monitor's with one instruction of a function, or with its beginning: pc 0.
/// `id` is the number of its probe.
pub(crate) fn bind_at<T: 'static>(
    store: StoreContextMut<'_, T>,
    observer: &mut Observer,
    bytes: &[u8],
    rule: Rule,
    [function, pc]: [u32; 2],
    id: u32,
) -> Result<Option<Binding>, ObserverError> {
    let before = std::mem::replace(&mut observer.rules, Arc::new([rule]));
    let misfits = std::mem::take(&mut observer.misfits);
    let mut found = Vec::new();
    let done = each_function(store, observer, bytes, Some(pc), |matcher, body, allocations| {
        if body.index != function {
            return Ok(allocations);
        }
        matcher.ids = id;
        let allocations = matcher.function(body, allocations)?;
        found.append(&mut matcher.found);
        Ok(allocations)
    });
    (observer.rules, observer.misfits) = (before, misfits);
    done.map(|()| found.into_iter().next())
}

fn each_function<T: 'static>(
    mut store: StoreContextMut<'_, T>,
    observer: &mut Observer,
    bytes: &[u8],
    only: Option<u32>,
    mut each: impl FnMut(
        &mut Matcher<'_, T>,
        Body<'_>,
        FuncValidatorAllocations,
    ) -> Result<FuncValidatorAllocations, ObserverError>,
) -> Result<(), ObserverError> {
    let module::Reading { info, bodies } =
        module::read(bytes, store.core().engine.target().options.features)
            .map_err(ObserverError::program)?;
    let rules = Arc::clone(&observer.rules);
    let (ordered, wanted) = (RuleLists::of(&rules), Wanted::by(&rules));
    let mut matcher = Matcher {
        store,
        observer,
        rules: Arc::clone(&rules),
        ordered,
        wanted,
        info: &info,
        bytes,
        lines: wanted
            .lines
            .then(|| debug_information(&info, bytes))
            .flatten()
            .and_then(|dwarf| addr2line::Context::from_dwarf(dwarf).ok()),
        only,
        named: match rules.iter().any(calls_by_name) {
            true => replacement::named(&info),
            false => HashMap::new(),
        },
        ids: 0,
        found: Vec::new(),
        fid: 0,
    };
    let mut allocations = FuncValidatorAllocations::default();
    for body in bodies {
        allocations = each(&mut matcher, body, allocations)?;
    }
    matcher.observer.rest(&mut matcher.store);
    Ok(())
}

/// The only result of a function of the monitor, as a number.
fn first_number(results: Option<Vec<Val>>) -> Option<Number> {
    results?.first().and_then(Number::of)
}

fn calls_by_name(rule: &Rule) -> bool {
    let is_named = |callee: &Chosen<Helper>| !matches!(callee, Chosen::Fixed(Callee::Index(_)));
    rule.leaves.as_ref().is_some_and(|leaves| leaves.calls.iter().any(is_named))
}

struct Matcher<'m, T: 'static> {
    store: StoreContextMut<'m, T>,
    observer: &'m mut Observer,
    rules: Arc<[Rule]>,
    ordered: RuleLists,
    wanted: Wanted,
    info: &'m ModuleInfo,
    bytes: &'m [u8],
    lines: Option<Lines<'m>>,
    /// The only instruction that is matched, if there is one; 0 for the function's beginning.
    only: Option<u32>,
    /// The functions of the program by their names, if rules call functions by name instead of
    /// instructions.
    named: HashMap<String, u32>,
    ids: u32,
    found: Vec<Binding>,
    fid: u32,
}

impl<T: 'static> Matcher<'_, T> {
    fn function(
        &mut self,
        body: Body<'_>,
        allocations: FuncValidatorAllocations,
    ) -> Result<FuncValidatorAllocations, ObserverError> {
        let (index, name) = (body.index, self.info.function_name(body.index));
        let invalid = |error: wasmparser::BinaryReaderError| {
            ObserverError::program(CompileError::from(error).within(index, name))
        };
        let mut falls_through = false;
        let mut validator = body.validate.into_validator(allocations);
        validator.read_locals(&mut body.body.get_binary_reader()).map_err(invalid)?;
        let sites = site::sites(self.bytes, &body.body).map_err(invalid)?;
        self.fid = body.index;
        // Bindings that wait for the end of a block, by the instruction that opened it.
        let mut waiting: HashMap<usize, Vec<Binding>> = HashMap::new();
        // Bindings that wait for control to fall out of a block, by the last instruction in it.
        let mut leaving: HashMap<usize, Vec<Binding>> = HashMap::new();
        for (index, site) in sites.iter().enumerate() {
            let last = index + 1 == sites.len();
            let reachable = is_reachable(&validator);
            let mut place =
                SitePlace { index, site, last, at_entry: false, operands: vec![], results: vec![] };
            if index == 0 {
                place.at_entry = true;
                self.bind_event(|rules| &rules.entry, &place, BoundMode::ENTRY, &validator)?;
                place.at_entry = false;
            }
            let behind = site.is_behind();
            if !behind {
                self.before(&mut place, reachable, &validator)?;
            }
            if reachable && self.falls_through(&place, &mut validator)? {
                falls_through = true;
            } else {
                let valid = validator.op(u64::from(site.offset), &site.operator);
                valid.map_err(|error| match falls_through {
                    true => {
                        let place = wasm_aot_engine::Place {
                            function: None,
                            offset: Some(site.offset as usize),
                        };
                        let error = CompileError::unsupported(invalid_behind(&error), place);
                        ObserverError::program(error.within(body.index, name))
                    }
                    false => invalid(error),
                })?;
            }
            if behind {
                self.at_end(&mut place, reachable, &validator)?;
            }
            self.behind(&place, &mut waiting, &validator)?;
            self.exits(&place, &sites, &mut leaving, &validator)?;
        }
        Ok(validator.into_allocations())
    }

    /// Binds the rules before an instruction.
    fn before(
        &mut self,
        place: &mut SitePlace<'_, '_>,
        reachable: bool,
        validator: &Validator,
    ) -> Result<(), ObserverError> {
        let (site, mode) = (place.site, BoundMode::BEFORE);
        if self.wanted.operands {
            place.operands = operand_types::operands(validator, site);
        }
        self.blocks(place, reachable, mode, validator)?;
        self.bind_mode(Mode::Before, place, mode, validator)?;
        // A replaced instruction neither leaves the function nor branches.
        let mode = match self.ordered.of_site(site, Mode::Alt).is_empty() {
            true => mode,
            false => BoundMode::ITSELF,
        };
        if site::is_branch(&site.operator) {
            // An unconditional branch is always taken.
            let is_conditional = matches!(site.operator, Operator::BrIf { .. });
            let taken = if is_conditional { BoundMode::TAKEN } else { mode };
            self.bind_mode(Mode::SemanticAfter, place, taken, validator)?;
        }
        if site::ends_function(&site.operator) {
            self.bind_event(|rules| &rules.exit, place, mode, validator)?;
        }
        if matches!(site.operator, Operator::Unreachable) {
            self.bind_event(|rules| &rules.unwind, place, mode, validator)?;
        }
        Ok(())
    }

    /// Binds the rules at the end of a block, which the validator has passed. Control comes there
    /// from inside, or by a branch.
    fn at_end(
        &mut self,
        place: &mut SitePlace<'_, '_>,
        reachable: bool,
        validator: &Validator,
    ) -> Result<(), ObserverError> {
        let (last, mode) = (place.last, BoundMode::BEFORE);
        if self.wanted.operands {
            place.operands = if last { self.returned() } else { stack(validator, 16) };
        }
        let comes = if last { reachable || place.site.targeted } else { is_reachable(validator) };
        self.blocks(place, comes, mode, validator)?;
        self.bind_mode(Mode::Before, place, mode, validator)?;
        if !last {
            return Ok(());
        }
        // Control leaves the function after the last instruction: the instruction's own rules come
        // before those of the exit.
        self.after(place, mode, validator)?;
        self.bind_event(|rules| &rules.exit, place, mode, validator)?;
        if self.info.tags.is_empty() {
            return Ok(());
        }
        let nothing = SitePlace { operands: vec![], results: vec![], ..*place };
        self.bind_event(|rules| &rules.unwind, &nothing, BoundMode::UNWIND, validator)
    }

    /// Binds the rules after an instruction: its own, and those of the block that it closes.
    fn behind(
        &mut self,
        place: &SitePlace<'_, '_>,
        waiting: &mut HashMap<usize, Vec<Binding>>,
        validator: &Validator,
    ) -> Result<(), ObserverError> {
        let site = place.site;
        let opens = !matches!(site.nesting, Nesting::Plain | Nesting::End);
        if opens {
            self.instead_of_block(place, validator)?;
            let inside = SitePlace { operands: stack(validator, 8), results: vec![], ..*place };
            self.bind_mode(Mode::Entry, &inside, BoundMode::INSIDE, validator)?;
        }
        if site.nesting == Nesting::End {
            for mut binding in waiting.remove(&place.index).unwrap_or_default() {
                binding.offset = site.offset;
                self.found.push(binding);
            }
        }
        if opens {
            let place = &SitePlace { operands: vec![], results: vec![], ..*place };
            let kept = self.found.len();
            self.bind_mode(Mode::SemanticAfter, place, BoundMode::AFTER, validator)?;
            waiting.entry(site.end).or_default().extend(self.found.drain(kept..));
            return Ok(());
        }
        if place.last { Ok(()) } else { self.after(place, BoundMode::AFTER, validator) }
    }

    /// Binds an instruction's own rules after it, and those that replace it.
    fn after(
        &mut self,
        place: &SitePlace<'_, '_>,
        bound_mode: BoundMode,
        validator: &Validator,
    ) -> Result<(), ObserverError> {
        let results = match (self.wanted.results, place.last) {
            (false, _) => vec![],
            (true, true) => self.returned(),
            (true, false) => operand_types::results(validator, place.site),
        };
        let place = SitePlace { results, operands: place.operands.clone(), ..*place };
        self.instead(&place, validator)?;
        self.bind_mode(Mode::After, &place, bound_mode, validator)
    }

    /// A block is left after the last instruction in it, where control falls through; the first arm
    /// of an `if` where the other begins, and a `try` also where its clauses begin.
    fn exits(
        &mut self,
        place: &SitePlace<'_, '_>,
        sites: &[Site<'_>],
        leaving: &mut HashMap<usize, Vec<Binding>>,
        validator: &Validator,
    ) -> Result<(), ObserverError> {
        let site = place.site;
        let rules = self.ordered.of_site(site, Mode::Exit);
        if !rules.is_empty() && !matches!(site.nesting, Nesting::Plain | Nesting::End) {
            let kept = self.found.len();
            let opening = SitePlace { operands: vec![], results: vec![], ..*place };
            self.bind_all(&rules, &opening, BoundMode::FALLS, validator)?;
            let found: Vec<Binding> = self.found.drain(kept..).collect();
            for closing in closings(sites, place.index) {
                leaving.entry(closing - 1).or_default().extend(found.iter().cloned());
            }
        }
        for mut binding in leaving.remove(&place.index).unwrap_or_default() {
            binding.offset = site.offset;
            self.found.push(binding);
        }
        Ok(())
    }

    /// Whether a rule's predicate holds at a place.
    fn is_meant(&mut self, rule: u16, place: &SitePlace<'_, '_>) -> Result<bool, ObserverError> {
        if self.only.is_some_and(|only| only != place.site.pc) {
            return Ok(false);
        }
        let rules = Arc::clone(&self.rules);
        let Rule { predicate, export, .. } = &rules[usize::from(rule)];
        let Some(predicate) = predicate else { return Ok(true) };
        let answer = first_number(self.ask(predicate, place, export, &mut 0, self.ids)?);
        Ok(!matches!(answer, Some(Number::I32(0)) | None))
    }

    /// Records that a rule does not fit a place that its name matches. The first such place is
    /// reported if the rule fits nowhere.
    fn misfit(&mut self, rule: u16, place: &SitePlace<'_, '_>, why: impl FnOnce() -> String) {
        let place = || wasm_aot_engine::Place {
            function: Some((self.fid, self.info.function_name(self.fid).map(str::to_owned))),
            offset: Some(place.site.offset as usize),
        };
        let export = &self.rules[usize::from(rule)].export;
        let told = || {
            format!("{}: at {} {}", wasm_aot_engine::instrument::Printable(export), place(), why())
        };
        self.observer.misfits.entry(rule).or_insert_with(told);
    }

    /// The beginning and the end of a basic block.
    fn blocks(
        &mut self,
        place: &SitePlace<'_, '_>,
        reachable: bool,
        bound_mode: BoundMode,
        validator: &Validator,
    ) -> Result<(), ObserverError> {
        if place.site.leads {
            self.bind_event(|rules| &rules.start, place, bound_mode, validator)?;
        }
        if place.site.closes && (reachable || place.site.leads) {
            self.bind_event(|rules| &rules.end, place, bound_mode, validator)?;
        }
        Ok(())
    }

    /// Binds the rules of an instruction that ask for a mode.
    fn bind_mode(
        &mut self,
        mode: Mode,
        place: &SitePlace<'_, '_>,
        bound_mode: BoundMode,
        validator: &Validator,
    ) -> Result<(), ObserverError> {
        self.bind_all(&self.ordered.of_site(place.site, mode), place, bound_mode, validator)
    }

    /// Binds the rules that ask for an event that is not an instruction.
    fn bind_event(
        &mut self,
        list: fn(&RuleLists) -> &List,
        place: &SitePlace<'_, '_>,
        bound_mode: BoundMode,
        validator: &Validator,
    ) -> Result<(), ObserverError> {
        self.bind_all(&Arc::clone(list(&self.ordered)), place, bound_mode, validator)
    }

    fn bind_all(
        &mut self,
        rules: &[u16],
        place: &SitePlace<'_, '_>,
        bound_mode: BoundMode,
        validator: &Validator,
    ) -> Result<(), ObserverError> {
        let pc = if bound_mode == BoundMode::ENTRY { 0 } else { place.site.pc };
        if self.only.is_some_and(|only| only != pc) {
            return Ok(());
        }
        for rule in rules {
            if let Some(binding) = self.bind_one(*rule, place, bound_mode, validator)? {
                self.found.push(binding);
            }
        }
        Ok(())
    }

    /// Binds a rule at a place: first the types are checked, then the predicate is called, then the
    /// other functions, from the first to the last.
    fn bind_one(
        &mut self,
        number: u16,
        place: &SitePlace<'_, '_>,
        bound_mode: BoundMode,
        validator: &Validator,
    ) -> Result<Option<Binding>, ObserverError> {
        let rules = Arc::clone(&self.rules);
        let rule = &rules[usize::from(number)];
        let id = self.ids;
        let mut arguments = Vec::with_capacity(rule.params.len());
        for given in &rule.params {
            match &given.what {
                What::Called(_) | What::Text(_) | What::Length => arguments.push(Argument::Null),
                What::Plain(asked) => match self.argument(asked, given, place, validator, id) {
                    Some(argument) => arguments.push(argument),
                    None => {
                        self.misfit(number, place, || {
                            format!("there is no {asked} of type {}", given.ty)
                        });
                        return Ok(None);
                    }
                },
            }
        }
        let mut cursor = 0;
        if let Some(predicate) = &rule.predicate {
            match first_number(self.ask(predicate, place, &rule.export, &mut cursor, id)?) {
                Some(Number::I32(0)) | None => return Ok(None),
                Some(_) => {}
            }
        }
        // These are written when the probe is called: they may lie where those of matching do.
        let (mut texts, mut behind) = (Vec::new(), 0);
        for (at, given) in rule.params.iter().enumerate() {
            let What::Text(asked) = &given.what else { continue };
            let Some(Known::Text(text)) = self.facts(place, id).known(asked, given.ty) else {
                return Ok(None);
            };
            let text = self.given_text(&text, &rule.export, &mut behind)?;
            let [address, len] = text.numbers();
            (arguments[at], arguments[at + 1]) = (Argument::I32(address), Argument::I32(len));
            texts.push(text);
        }
        for (given, argument) in rule.params.iter().zip(&mut arguments) {
            let What::Called(helper) = &given.what else { continue };
            let value = first_number(self.ask(helper, place, &rule.export, &mut cursor, id)?);
            let Some(value) = value else { return Ok(None) };
            *argument = constant(value);
        }
        self.ids += 1;
        Ok(Some(Binding {
            rule: number,
            function: rule.function,
            arguments,
            texts,
            bound_mode,
            offset: place.site.offset,
            id,
            replacement: Replacement::default(),
        }))
    }

    /// The results of a function of the monitor that is called for a place.
    fn ask(
        &mut self,
        helper: &Helper,
        place: &SitePlace<'_, '_>,
        export: &str,
        cursor: &mut u32,
        id: u32,
    ) -> Result<Option<Vec<Val>>, ObserverError> {
        let facts = SiteFacts {
            info: self.info,
            fid: self.fid,
            place,
            id,
            foreign: self.observer.is_foreign,
            lines: self.lines.as_ref().map(|lines| lines as &dyn SourceLines),
        };
        let answer = self
            .observer
            .ask(&mut self.store, helper, cursor, &mut |asked, ty| facts.known(asked, ty));
        answer.map_err(|error| self.unmatched(export, helper, place, error))
    }

    /// The failure of a function of the monitor that was called for a place.
    fn unmatched(
        &self,
        export: &str,
        helper: &Helper,
        place: &SitePlace<'_, '_>,
        error: wasm_aot_engine::Error,
    ) -> ObserverError {
        let (monitor, helper) = (self.observer.name.clone(), helper.name.clone());
        let place = Box::new(wasm_aot_engine::Place {
            function: Some((self.fid, self.info.function_name(self.fid).map(str::to_owned))),
            offset: Some(place.site.offset as usize),
        });
        let export = export.to_owned();
        match is_endless(&error) {
            true => ObserverError::Endless { monitor, export, helper, place },
            false => {
                ObserverError::Match { monitor, export, helper, place, error: Box::new(error) }
            }
        }
    }

    fn given_text(
        &mut self,
        text: &str,
        export: &str,
        cursor: &mut u32,
    ) -> Result<Text, ObserverError> {
        let found = self.observer.given_text(&mut self.store, text, cursor);
        found.map_err(|error| ObserverError::Export {
            monitor: self.observer.name.clone(),
            export: export.to_owned(),
            error: Box::new(error),
        })
    }

    fn facts<'p, 's, 'a>(&'p self, place: &'p SitePlace<'s, 'a>, id: u32) -> SiteFacts<'p, 's, 'a> {
        SiteFacts {
            info: self.info,
            fid: self.fid,
            place,
            id,
            foreign: self.observer.is_foreign,
            lines: self.lines.as_ref().map(|lines| lines as &dyn SourceLines),
        }
    }

    /// The argument for a parameter; nothing if the site does not have what the parameter asks for.
    fn argument(
        &self,
        asked: &Asked,
        given: &Given,
        place: &SitePlace<'_, '_>,
        validator: &Validator,
        id: u32,
    ) -> Option<Argument> {
        let fits = |ty: Option<&Option<ValType>>| match ty {
            Some(Some(ty)) => ty.matches(given.ty),
            Some(None) => place.site.event.is_some_and(|event| is_natural(event, asked)),
            None => false,
        };
        Some(match asked {
            Asked::Arg(n) => {
                fits(place.operands.get(*n as usize)).then_some(Argument::Operand(*n))?
            }
            Asked::Res(n) => {
                fits(place.results.get(*n as usize)).then_some(Argument::Result(*n))?
            }
            Asked::Local(n) => {
                let ty = validator.get_local_type(*n).map(module::operand_type)?;
                ty.matches(given.ty).then_some(Argument::Local(*n))?
            }
            Asked::Frame => Argument::Null,
            Asked::MemoryBytes => Argument::MemoryBytes(place.site.access()?.memory),
            Asked::RefTaken => match place.site.operator {
                Operator::BrOnNull { .. } => Argument::IsNull(true),
                Operator::BrOnNonNull { .. } => Argument::IsNull(false),
                Operator::BrOnCast { to_ref_type, .. } => Argument::IsOf(to_ref_type, true),
                Operator::BrOnCastFail { to_ref_type, .. } => Argument::IsOf(to_ref_type, false),
                _ => return None,
            },
            Asked::ResolvedFid => match place.site.operator {
                Operator::CallIndirect { table_index: table, .. }
                | Operator::ReturnCallIndirect { table_index: table, .. }
                | Operator::TableGet { table } => Argument::Entry(table),
                Operator::CallRef { .. }
                | Operator::ReturnCallRef { .. }
                | Operator::TableSet { .. } => Argument::Reference(0),
                _ => return None,
            },
            _ => {
                let facts = self.facts(place, id);
                match facts.known(asked, given.ty)? {
                    Known::Value(value) => constant(value),
                    Known::Text(_) => return None,
                }
            }
        })
    }
}

fn constant(value: Number) -> Argument {
    match value {
        Number::I32(value) => Argument::I32(value),
        Number::I64(value) => Argument::I64(value),
        Number::F32(bits) => Argument::F32(bits),
        Number::F64(bits) => Argument::F64(bits),
        Number::V128(bits) => Argument::V128(bits),
    }
}
