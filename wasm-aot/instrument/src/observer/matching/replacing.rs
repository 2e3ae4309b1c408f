//! Matches rules that replace instructions and blocks: one at a place, whose function gives what
//! the place gives.

use super::super::ObserverError;
use super::super::binding::{BoundMode, Replacement};
use super::super::name::{Callee, Chosen, Leaves};
use super::super::operand_types::Validator;
use super::super::replacement;
use super::super::rule::Helper;
use super::super::site_facts::SitePlace;
use super::Matcher;
use std::sync::Arc;
use wasm_aot_body::events::Mode;
use wasm_aot_body::replacement::{Replaced, never_falls_through, passing};
use wasm_aot_engine::instrument::module;
use wasm_aot_engine::{Val, ValType};
use wasmparser::{BlockType, Operator};

impl<T: 'static> Matcher<'_, T> {
    /// Matches the rules that replace an instruction that never falls through by itself. If one
    /// does, control continues after it, and so does the validator.
    pub(super) fn falls_through(
        &mut self,
        place: &SitePlace<'_, '_>,
        validator: &mut Validator,
    ) -> Result<bool, ObserverError> {
        let rules = self.ordered.of_site(place.site, Mode::Alt);
        if rules.is_empty() || !never_falls_through(&place.site.operator) {
            return Ok(false);
        }
        let Some(operands) = place.operands.iter().rev().copied().collect::<Option<Vec<_>>>()
        else {
            return Ok(false);
        };
        let passing = passing(&place.site.operator, operands.len());
        let kept = self.found.len();
        let replaced = Replaced { operands, passing, results: None };
        self.stand_in(place, &rules, &replaced, validator)?;
        let left =
            self.found[kept..].iter().find_map(|found| found.replacement.fall_through.as_ref());
        let Some(left) = left else { return Ok(false) };
        // If that is not valid, the compiler reports it.
        Ok(left.validate(validator, u64::from(place.site.offset)).is_ok())
    }

    /// Binds the rules that replace an instruction: they leave the operands and results that the
    /// instruction would.
    pub(super) fn instead(
        &mut self,
        place: &SitePlace<'_, '_>,
        validator: &Validator,
    ) -> Result<(), ObserverError> {
        let rules = self.ordered.of_site(place.site, Mode::Alt);
        if rules.is_empty() || never_falls_through(&place.site.operator) {
            return Ok(());
        }
        let given = place
            .site
            .operator
            .operator_arity(validator)
            .map_or(0, |(_, results)| results as usize);
        let given = &place.results[..given.min(place.results.len())];
        let from_below = |types: &[Option<ValType>]| -> Option<Vec<ValType>> {
            types.iter().rev().copied().collect()
        };
        // In unreachable code, nothing is replaced.
        let (Some(operands), Some(results)) = (from_below(&place.operands), from_below(given))
        else {
            return Ok(());
        };
        let passing = passing(&place.site.operator, operands.len());
        let replaced = Replaced { operands, passing, results: Some(results) };
        self.stand_in(place, &rules, &replaced, validator)
    }

    /// The same for a block that has just been opened, or the second arm of an `if`.
    pub(super) fn instead_of_block(
        &mut self,
        place: &SitePlace<'_, '_>,
        validator: &Validator,
    ) -> Result<(), ObserverError> {
        let rules = self.ordered.of_site(place.site, Mode::Alt);
        if rules.is_empty() {
            return Ok(());
        }
        let Some(block) = validator.get_control_frame(0).map(|frame| frame.block_type) else {
            return Ok(());
        };
        let (mut operands, results) = match block {
            BlockType::Empty => Default::default(),
            BlockType::Type(ty) => (vec![], vec![module::operand_type(ty)]),
            BlockType::FuncType(index) => {
                let ty = self.info.declared_type(index);
                (ty.params().to_vec(), ty.results().to_vec())
            }
        };
        if matches!(place.site.operator, Operator::If { .. }) {
            operands.push(ValType::I32);
        }
        let known = operands.iter().rev().map(|ty| Some(*ty)).collect();
        let place = &SitePlace { operands: known, results: vec![], ..*place };
        let replaced = Replaced { operands, passing: 0, results: Some(results) };
        self.stand_in(place, &rules, &replaced, validator)
    }

    /// Binds the rules whose functions replace something.
    pub(super) fn stand_in(
        &mut self,
        place: &SitePlace<'_, '_>,
        rules: &[u16],
        replaced: &Replaced<ValType>,
        validator: &Validator,
    ) -> Result<(), ObserverError> {
        // Of exports that differ only in their types, one has to fit.
        let all = Arc::clone(&self.rules);
        let alike = |a: &u16, b: &u16| all[usize::from(*a)].is_variant_of(&all[usize::from(*b)]);
        for family in rules.chunk_by(alike) {
            let (mut fits, mut wrong) = (false, None);
            for &rule in family {
                let leaves = match &all[usize::from(rule)].leaves {
                    Some(leaves) => match self.chosen(rule, leaves, place)? {
                        None => continue,
                        leaves => leaves,
                    },
                    None => None,
                };
                match self.replacement(rule, leaves.as_ref(), replaced) {
                    Ok(replacement) => {
                        fits = true;
                        let kept = self.found.len();
                        self.bind_all(&[rule], place, BoundMode::ALT, validator)?;
                        self.found[kept..]
                            .iter_mut()
                            .for_each(|found| found.replacement = replacement.clone());
                    }
                    Err(why) => wrong = wrong.or(Some(why)),
                }
            }
            if let (false, Some(why)) = (fits, wrong)
                && self.is_meant(family[0], place)?
            {
                self.misfit(family[0], place, || {
                    let given: Vec<String> =
                        replaced.results.iter().flatten().map(ToString::to_string).collect();
                    format!("it gives [{}], and its function does not fit: {why}", given.join(" "))
                });
            }
        }
        Ok(())
    }

    /// What a rule leaves at a place, with the functions of the program that it may have called
    /// there; nothing if these depend on the place, and the rule does not hold there.
    pub(super) fn chosen(
        &mut self,
        rule: u16,
        leaves: &Leaves<Chosen<Helper>>,
        place: &SitePlace<'_, '_>,
    ) -> Result<Option<Leaves<Callee>>, ObserverError> {
        let depends = leaves.calls.iter().any(|callee| matches!(callee, Chosen::AtMatch(_)));
        if depends && !self.is_meant(rule, place)? {
            return Ok(None);
        }
        let rules = Arc::clone(&self.rules);
        let export = &rules[usize::from(rule)].export;
        let mut calls = Vec::with_capacity(leaves.calls.len());
        for callee in &leaves.calls {
            let callee = match callee {
                Chosen::Fixed(callee) => Some(callee.clone()),
                Chosen::AtMatch(helper) => self.callee(helper, place, export)?,
            };
            let Some(callee) = callee else { return Ok(None) };
            calls.push(callee);
        }
        Ok(Some(leaves.with(calls)))
    }

    /// The function of the program that a function of the monitor chooses at a place.
    pub(super) fn callee(
        &mut self,
        helper: &Helper,
        place: &SitePlace<'_, '_>,
        export: &str,
    ) -> Result<Option<Callee>, ObserverError> {
        match self.ask(helper, place, export, &mut 0, self.ids)?.as_deref() {
            Some([Val::I32(index)]) => Ok(Some(Callee::Index(index.cast_unsigned()))),
            Some([Val::I32(address), Val::I32(len)]) => {
                let text = self.observer.text(&mut self.store, [*address, *len]);
                let named = text.map(|text| Some(Callee::Name(text)));
                named.map_err(|error| self.unmatched(export, helper, place, error))
            }
            _ => Ok(None),
        }
    }

    /// What a rule leaves in place of an instruction, or why it does not fit.
    pub(super) fn replacement(
        &self,
        rule: u16,
        leaves: Option<&Leaves<Callee>>,
        replaced: &Replaced<ValType>,
    ) -> Result<Replacement, String> {
        let function = self.rules[usize::from(rule)].function;
        let place = replacement::ReplacedPlace {
            replaced: replaced.clone(),
            results: self.observer.module.inner().info.function_type(function).results(),
            leaves,
        };
        place.replacement(|callee| {
            let index = match callee {
                Callee::Index(index) => *index,
                Callee::Name(name) => *self.named.get(name)?,
            };
            let exists = (index as usize) < self.info.functions.len();
            exists.then(|| (index, self.info.function_type(index)))
        })
    }

    /// The types of the function's results, from the top.
    pub(super) fn returned(&self) -> Vec<Option<ValType>> {
        self.info.function_type(self.fid).results().iter().rev().map(|ty| Some(*ty)).collect()
    }
}
