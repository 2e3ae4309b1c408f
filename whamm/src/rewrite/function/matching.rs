//! Matches probes with the sites of a function: which actions run at an instruction.

use super::*;
use crate::hir::{Stmt, Translate};

impl<'a> Walker<'_, 'a> {
    /// Matches probes whose event is not an instruction.
    pub(super) fn structural(
        &mut self,
        probes: &[&'a Probe],
        index: usize,
        at_entry: bool,
    ) -> Vec<Action<'a>> {
        probes.iter().filter_map(|p| self.matched(p, index, at_entry, &[], &[])).collect()
    }

    /// Matches a probe with a site; if it matches, allocates its variables for the site.
    pub(super) fn matched(
        &mut self,
        probe: &'a Probe,
        index: usize,
        at_entry: bool,
        args: &[W],
        results: &[W],
    ) -> Option<Action<'a>> {
        if !self.has_operands(probe, index, args, results) {
            return None;
        }
        let body = &probe.body;
        let (pc, number, last) = self.site(index, at_entry);
        let op = (!at_entry).then(|| &self.ops[index]);
        let site = Site { facts: &self.r.facts, fid: self.fid, op, pc, index: number, last };
        let predicate = body.predicate.as_ref().map(|p| fold::fold(p.clone(), &site));
        if let Some(ExprKind::Bool(false)) = predicate.as_ref().map(|p| &p.kind) {
            return None;
        }
        let predicate = predicate.filter(|p| p.kind != ExprKind::Bool(true));
        let inits: Vec<Expr> = body.inits.iter().map(|e| fold::fold(e.clone(), &site)).collect();
        let values: Vec<Option<Expr>> = body
            .sites
            .iter()
            .map(|v| v.init.as_ref().map(|e| fold::fold(e.clone(), &site)))
            .collect();
        // Libraries are called once for each site, even where its code is never executed.
        let asked = (!self.r.libraries.is_empty() && asks_libraries(&body.stmts))
            .then(|| fold::Folded(&site).stmts(&body.stmts));
        let sums = if predicate.is_none() && asked.is_none() {
            self.sums(body, &site, &values)
        } else {
            None
        };
        self.r.findings.matched.insert(probe.rule);
        self.r.ledger.first.extend(inits.into_iter().map(|e| (None, e)));
        let inline = matches!(probe.matched.mode, Mode::Before | Mode::None)
            && matches!(probe.matched.event, Event::Opcode(_) | Event::BlockStart)
            && !self.regions.are_off
            && self.reachable();
        let is_plain = asked.is_none();
        let (mut rest, mut increments) = (asked, vec![]);
        match sums.filter(|_| inline) {
            Some(sums) => {
                self.sum_up(probe, pc, sums);
                return None;
            }
            None if inline && is_plain && predicate.is_none() => {
                if let Some((left, own)) = self.usual(body, (pc, number, last), index) {
                    (rest, increments) = (Some(left), own);
                }
            }
            None => {}
        }
        let sites: Vec<Storage> = body
            .sites
            .iter()
            .zip(values)
            .map(|(variable, value)| self.variable(variable, value, probe, index))
            .collect();
        for (n, (storage, variable)) in (0..).zip(sites.iter().zip(&body.sites)) {
            if let (Storage::Constant(map), true) = (storage, region::is_added_only(body, n)) {
                self.r.support.defer(*map, &variable.ty);
            }
        }
        Some(Action { probe, sites, predicate, rest, increments })
    }

    /// Whether a site has the operands that a probe requires by their types.
    pub(super) fn has_operands(
        &mut self,
        probe: &Probe,
        index: usize,
        args: &[W],
        results: &[W],
    ) -> bool {
        let body = &probe.body;
        let at_instruction = match probe.matched.mode {
            Mode::Before | Mode::After => true,
            Mode::SemanticAfter if is_branch(&self.ops[index].operator) => true,
            mode => probe.matched.event.has_kept_operands(mode),
        };
        for (bound, ty) in &body.bounds {
            let wasm = match bound {
                Bound::Arg(n) if args.is_empty() && at_instruction && !self.reachable() => {
                    match self.dead_operand(index, *n) {
                        Some(None) => continue,
                        found => found.flatten(),
                    }
                }
                Bound::Arg(n) => args.get(usize::from(*n)).copied(),
                Bound::Res(n) => results.get(usize::from(*n)).copied(),
                Bound::Local(n) => self.validator.get_local_type(u32::from(*n)),
                _ => continue,
            };
            // A variable that the body reads only at other events may be missing; but types also
            // distinguish programs with 64-bit addresses.
            let event = fold::OfEvent(probe.matched.event);
            let is_missed = || {
                body.declared.contains(bound)
                    || probe.alternative
                    || self.r.app.is_wide()
                    || fold::asks(body, event, *bound)
            };
            if !wasm.is_some_and(|w| ty.accepts(w)) && is_missed() {
                return false;
            }
        }
        true
    }

    /// Allocates a variable of a site. At a function's beginning the report row shows the offset of
    /// its first instruction, where the probe's code is inserted.
    pub(super) fn variable(
        &mut self,
        variable: &crate::hir::Variable,
        value: Option<Expr>,
        probe: &Probe,
        index: usize,
    ) -> Storage {
        let pc = self.ops[index].pc;
        let mut own = variable.clone();
        own.init = value;
        let constant = own.init.as_ref().is_none_or(fold::is_constant);
        let late = if constant { None } else { own.init.take() };
        let storage = crate::emit::report::place(&mut self.r.support, &own, Support::counters);
        if let Some(e) = late {
            self.r.ledger.first.push((Some((storage, own.ty.clone())), e));
        }
        if variable.report {
            let words: Vec<Source> = match storage {
                Storage::Constant(handle) => vec![Source::Constant(handle)],
                Storage::Globals(first) => {
                    (first..).zip(own.ty.slots()).map(|(g, s)| Source::Counter(g, s)).collect()
                }
                _ => vec![],
            };
            self.r.ledger.rows.add(
                &mut self.r.support,
                variable,
                Some(probe),
                (self.fid, pc),
                &words,
            );
        }
        storage
    }

    /// Probes of an instruction in some modes.
    pub(super) fn probes(&self, index: usize, modes: &[Mode]) -> Vec<&'a Probe> {
        let Some(event) = self.ops[index].event else { return Vec::new() };
        self.r
            .probes
            .at(event)
            .iter()
            .copied()
            .filter(|p| modes.contains(&p.matched.mode))
            .collect()
    }

    /// Whether a probe of an instruction may read its operands.
    pub(super) fn asks_operands(&self, i: usize) -> bool {
        self.ops[i].event.is_some_and(|e| self.r.probes.ask_operands(e))
    }

    pub(super) fn match_all(
        &mut self,
        probes: &[&'a Probe],
        index: usize,
        args: &[W],
        results: &[W],
    ) -> Vec<Action<'a>> {
        probes.iter().filter_map(|p| self.matched(p, index, false, args, results)).collect()
    }

    /// Matches probes of the beginning and end of a basic block.
    pub(super) fn blocks(&mut self, i: usize, reachable: bool) -> Vec<Action<'a>> {
        let mut list = Vec::new();
        if self.ops[i].leads {
            list.extend(self.structural(&self.r.probes.of_event(Event::BlockStart), i, false));
        }
        if self.ops[i].closes && (reachable || self.ops[i].leads) {
            list.extend(self.structural(&self.r.probes.of_event(Event::BlockEnd), i, false));
        }
        list
    }

    /// Matches the probes that run first at an instruction.
    pub(super) fn first(&mut self, i: usize, args: &[W], reachable: bool) -> Vec<Action<'a>> {
        let mut first = self.blocks(i, reachable);
        first.extend(self.match_all(&self.probes(i, &[Mode::Before]), i, args, &[]));
        first
    }

    /// The same for a loop that may be replaced. They are written twice, so that no region counts
    /// what they add.
    pub(super) fn first_of_loop(&mut self, i: usize, args: &[W]) -> Vec<Action<'a>> {
        self.regions.are_off = true;
        let first = self.first(i, args, true);
        self.regions.are_off = false;
        first
    }

    pub(super) fn at_target(&self, i: usize) -> Vec<&'a Probe> {
        if is_branch(&self.ops[i].operator) {
            self.probes(i, &[Mode::SemanticAfter])
        } else {
            Vec::new()
        }
    }

    /// Matches probes whose code is placed after the instruction. Probes that read results are
    /// matched once these are known.
    pub(super) fn later(&mut self, i: usize, args: &[W]) -> Vec<Action<'a>> {
        let opens = !matches!(self.ops[i].nesting, Nesting::Plain | Nesting::End);
        let modes: &[Mode] =
            if opens { &[Mode::Exit, Mode::SemanticAfter] } else { &[Mode::After] };
        let probes = self.probes(i, modes);
        if probes.is_empty() {
            return Vec::new();
        }
        let results = self.result_types(i);
        self.match_all(&probes, i, args, &results)
    }
}

/// Whether statements call libraries while they are compiled.
fn asks_libraries(stmts: &[Stmt]) -> bool {
    let mut asks = false;
    for stmt in stmts {
        stmt.walk(&mut |e| asks |= matches!(&e.kind, ExprKind::Library(call, _) if call.at_match));
    }
    asks
}
