//! Sums: additions of probes to a counter at the sites of a region are counted once, for the
//! region.
//!
//! If an addition depends on whether a branch is taken, the counter is placed after the branch and
//! counts fall-throughs: the rest of the runs took the branch.

use super::*;
use crate::emit::cells::rise;
use crate::hir::{Body, Stmt};
use crate::rewrite::region::{Constant, Summed};
use crate::syntax::ast::BinOp;
use crate::types::Ty;

/// An addition to a place: an amount each time, and another each time that control falls through
/// the branch.
pub(super) struct Increment<'p> {
    addend: Addend<'p>,
    always: i64,
    through: i64,
}

/// The place of an addition.
enum Addend<'p> {
    /// A variable of the site.
    Site(u32, &'p Ty),
    /// A global variable.
    Global(u32, &'p Ty),
    /// An element of a global map with a known key.
    Element { number: u32, constants: Vec<Constant>, map: &'p Expr, key: Expr, ty: Ty },
}

/// How statements differ from the usual ones.
enum Instead<'p> {
    /// Not at all.
    Nothing,
    /// They only add other amounts to global variables.
    Sums(&'p [Stmt], region::Increments),
    /// The one or the other, by a condition.
    Choice(&'p Expr, Box<[Self; 2]>),
    /// Entirely: all of these statements have to be executed.
    All(&'p [Stmt]),
}

impl Addend<'_> {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Site(a, _), Self::Site(b, _)) | (Self::Global(a, _), Self::Global(b, _)) => {
                a == b
            }
            (
                Self::Element { number: a, constants: k, .. },
                Self::Element { number: b, constants: l, .. },
            ) => (a, k) == (b, l),
            _ => false,
        }
    }
}

/// Whether a condition tests that the operand of a branch, or of an `if`, is not zero; or that it
/// is.
fn of_operand(cond: &Expr) -> Option<bool> {
    let ExprKind::Binary(op, a, b) = &cond.kind else { return None };
    let sides = [&a.kind, &b.kind];
    let zero = matches!(
        sides,
        [ExprKind::Bound(Bound::Arg(0)), ExprKind::Int(0)]
            | [ExprKind::Int(0), ExprKind::Bound(Bound::Arg(0))]
    );
    match op {
        BinOp::Ne if zero => Some(true),
        BinOp::Eq if zero => Some(false),
        _ => None,
    }
}

/// Straight-line regions at the current instruction.
#[derive(Default)]
pub(super) struct Regions {
    /// The current region.
    open: Option<Region>,
    /// Whether the program is likely to spend its time in it.
    is_hot: bool,
    /// Counters of fall-throughs of the current branch, by whether they are i64.
    behind_branch: BTreeMap<bool, u32>,
    /// Whether probes that match now add nothing to a region, because they are written twice.
    pub(super) are_off: bool,
}

impl<'a> Walker<'_, 'a> {
    /// The additions of a body, if it does nothing else.
    pub(super) fn sums(
        &self,
        body: &'a Body,
        site: &Site<'_>,
        values: &[Option<Expr>],
    ) -> Option<Vec<Increment<'a>>> {
        if body.stmts.is_empty() || !body.locals.is_empty() || !body.inits.is_empty() {
            return None;
        }
        let begin = |v: &Option<Expr>| v.as_ref().is_none_or(|v| v.kind == ExprKind::Int(0));
        if !values.iter().all(begin) {
            return None;
        }
        let mut list = Vec::new();
        self.increments(&body.stmts, site, (1, 0), &mut list)?;
        list.sort_by_key(
            |increment| if let Addend::Site(n, _) = increment.addend { n } else { u32::MAX },
        );
        let all_used = (0..body.sites.len()).all(|n| {
            list.iter().any(|l| matches!(l.addend, Addend::Site(m, _) if m as usize == n))
        });
        all_used.then_some(list)
    }

    /// The additions of statements that are run (always, through) times.
    fn increments(
        &self,
        stmts: &'a [Stmt],
        site: &Site<'_>,
        times: (i64, i64),
        list: &mut Vec<Increment<'a>>,
    ) -> Option<()> {
        for stmt in stmts {
            if let Stmt::If(cond, yes, no) = stmt {
                let cond = fold::fold(cond.clone(), site);
                match cond.kind {
                    ExprKind::Bool(true) => self.increments(yes, site, times, list)?,
                    ExprKind::Bool(false) => self.increments(no, site, times, list)?,
                    _ => {
                        let [set, unset] = self.split(site, times)?;
                        let [yes_times, no_times] =
                            if of_operand(&cond)? { [set, unset] } else { [unset, set] };
                        self.increments(yes, site, yes_times, list)?;
                        self.increments(no, site, no_times, list)?;
                    }
                }
                continue;
            }
            let (place, amount) = region::addition(stmt)?;
            let addend = self.addend(place, site)?;
            // An addition creates the element, whatever its value becomes: sums of elements must
            // not decrease.
            if let (Addend::Element { .. }, Stmt::Update(_, op, value)) = (&addend, stmt) {
                rise(*op, value)?;
            }
            let increment = Increment {
                addend,
                always: amount.wrapping_mul(times.0),
                through: amount.wrapping_mul(times.1),
            };
            match list.iter_mut().find(|l| l.addend.is(&increment.addend)) {
                Some(known) => {
                    known.always = known.always.wrapping_add(increment.always);
                    known.through = known.through.wrapping_add(increment.through);
                }
                None => list.push(increment),
            }
        }
        Some(())
    }

    /// How often the operand of a branch is not zero, and how often it is zero; if the instruction
    /// is a branch, and the statements are not themselves part of such a choice.
    fn split(&self, site: &Site<'_>, times: (i64, i64)) -> Option<[(i64, i64); 2]> {
        let op = site.op.filter(|_| times == (1, 0))?;
        // The replacement of the branch need not branch.
        if !self.probes(site.index as usize, &[Mode::Alt, Mode::BlockAlt]).is_empty() {
            return None;
        }
        match op.operator {
            O::BrIf { .. } => Some([(1, -1), (0, 1)]),
            O::If { .. } => Some([(0, 1), (1, -1)]),
            _ => None,
        }
    }

    fn addend(&self, place: &'a Place, site: &Site<'_>) -> Option<Addend<'a>> {
        match place {
            Place::Var(Var::Site(n), ty) => Some(Addend::Site(*n, ty)),
            Place::Var(Var::Global(n), ty) if self.r.ledger.added_only.contains(n) => {
                Some(Addend::Global(*n, ty))
            }
            Place::Element(map, key) => {
                let ExprKind::Var(Var::Global(n)) = map.kind else { return None };
                let key = fold::fold((**key).clone(), site);
                let constants =
                    region::constants(&key).filter(|_| self.r.ledger.added_only.contains(&n))?;
                Some(Addend::Element { number: n, constants, map, key, ty: place.ty() })
            }
            _ => None,
        }
    }

    /// Handles a choice that only the site can make, and that usually only adds: the region adds
    /// the usual amount, and the site undoes it on the other arm. A script's first arm is taken to
    /// be the usual one. Where the program is not likely to spend its time and sites share an
    /// outlined body, the body adds it: that is smaller.
    pub(super) fn usual(
        &mut self,
        body: &'a Body,
        (pc, number, last): (u32, u32, bool),
        index: usize,
    ) -> Option<(Vec<Stmt>, region::Increments)> {
        let [Stmt::If(cond, yes, no)] = &body.stmts[..] else { return None };
        let plain = body.locals.is_empty() && body.inits.is_empty() && body.sites.is_empty();
        if !plain || yes.is_empty() || no.is_empty() {
            return None;
        }
        let at = Site {
            facts: &self.r.facts,
            fid: self.fid,
            op: Some(&self.ops[index]),
            pc,
            index: number,
            last,
        };
        if let ExprKind::Bool(_) = fold::fold(cond.clone(), &at).kind {
            return None;
        }
        let usual = self.sum_of(yes, &at)?;
        let otherwise = self.instead(no, &at, &usual);
        let own = if !self.is_hot(index) && is_shared(body) { usual.clone() } else { vec![] };
        if own.is_empty() {
            usual.iter().for_each(|&(sum, amount)| self.add(sum, amount, 0));
        }
        let otherwise = self.written_out(otherwise, &usual, cond.span);
        Some((vec![Stmt::If(cond.clone(), vec![], otherwise)], own))
    }

    /// The amounts that statements add to global variables, if they do nothing else.
    fn sum_of(&self, stmts: &'a [Stmt], site: &Site<'_>) -> Option<region::Increments> {
        let mut increments = Vec::new();
        self.increments(stmts, site, (1, 0), &mut increments)?;
        self.globals(&increments)
    }

    /// How statements differ from those that are taken to be usual.
    fn instead(
        &self,
        stmts: &'a [Stmt],
        site: &Site<'_>,
        usual: &region::Increments,
    ) -> Instead<'a> {
        match (self.sum_of(stmts, site), stmts) {
            (Some(sums), _) if sums == *usual => Instead::Nothing,
            (Some(sums), _) => Instead::Sums(stmts, sums),
            (None, [Stmt::If(cond, yes, no)]) => {
                Instead::Choice(cond, [yes, no].map(|side| self.instead(side, site, usual)).into())
            }
            (None, _) => Instead::All(stmts),
        }
    }

    /// The statements that undo the usual increments and then run the others.
    fn written_out(
        &mut self,
        instead: Instead<'a>,
        usual: &region::Increments,
        span: crate::source::Span,
    ) -> Vec<Stmt> {
        let (stmts, sums) = match instead {
            Instead::Nothing => return vec![],
            Instead::Choice(cond, sides) => {
                let [yes, no] = (*sides).map(|side| self.written_out(side, usual, span));
                return vec![Stmt::If(cond.clone(), yes, no)];
            }
            Instead::Sums(stmts, sums) => (stmts, Some(sums)),
            Instead::All(stmts) => (stmts, None),
        };
        let other = sums.clone().unwrap_or_default();
        let wide = usual.iter().chain(&other).any(|increment| increment.0.1);
        let counter = self.otherwise(wide, usual, &other);
        let ty = if wide { Ty::U64 } else { Ty::U32 };
        let one = Expr { kind: ExprKind::Int(1), ty: ty.clone(), span };
        let count = Stmt::Update(Place::Var(Var::Global(counter), ty), BinOp::Add, one);
        let rest = if sums.is_some() { &[][..] } else { stmts };
        std::iter::once(count).chain(rest.iter().cloned()).collect()
    }

    /// The sums of increments, if all of them are of global variables.
    fn globals(&self, increments: &[Increment<'a>]) -> Option<region::Increments> {
        let of = |increment: &Increment<'a>| match (&increment.addend, increment.through) {
            (Addend::Global(n, ty), 0) => match self.r.globals[*n as usize] {
                Storage::Globals(global) => Some(((global, region::is_wide(ty)), increment.always)),
                _ => None,
            },
            _ => None,
        };
        increments.iter().map(of).collect()
    }

    /// A counter, as a global variable of its own, of how often this happens instead of the usual
    /// case.
    fn otherwise(
        &mut self,
        wide: bool,
        usual: &region::Increments,
        other: &region::Increments,
    ) -> u32 {
        let key = [usual.clone(), other.clone()];
        if let Some(&known) = self.r.ledger.otherwise.get(&key) {
            return known;
        }
        let global = self.r.support.counter(if wide { ValType::I64 } else { ValType::I32 });
        let undone = usual.iter().map(|&(sum, amount)| (sum, amount.wrapping_neg()));
        for (sum, amount) in undone.chain(other.iter().copied()) {
            self.r.ledger.parts.entry(sum).or_default().push(Part { runs: (global, wide), amount });
        }
        let variable = u32::try_from(self.r.globals.len()).unwrap_or(u32::MAX);
        self.r.globals.push(Storage::Globals(global));
        self.r.ledger.otherwise.insert(key, variable);
        variable
    }

    /// Adds to the current region, and to the one after the branch.
    pub(super) fn sum_up(&mut self, probe: &Probe, pc: u32, sums: Vec<Increment<'a>>) {
        for Increment { addend, always, through } in sums {
            match addend {
                Addend::Site(n, ty) => {
                    let slot = ty.slots()[0];
                    let source = self.count(always, through, slot);
                    let variable = &probe.body.sites[n as usize];
                    if variable.report {
                        self.r.ledger.rows.add(
                            &mut self.r.support,
                            variable,
                            Some(probe),
                            (self.fid, pc),
                            &[source],
                        );
                    }
                }
                Addend::Global(n, ty) => {
                    if let Storage::Globals(global) = self.r.globals[n as usize] {
                        self.add((global, region::is_wide(ty)), always, through);
                    }
                }
                Addend::Element { number, constants, map, key, ty } => {
                    let (slot, support) = (ty.slots()[0], &mut self.r.support);
                    let summed = || Summed {
                        map: map.clone(),
                        key,
                        sum: (support.counter(slot), slot == ValType::I64),
                    };
                    let sum = self
                        .r
                        .ledger
                        .elements
                        .entry((number, constants))
                        .or_insert_with(summed)
                        .sum;
                    self.add(sum, always, through);
                }
            }
        }
    }

    /// A value that grows by an amount each time, and by another each time that control falls
    /// through the branch.
    fn count(&mut self, always: i64, through: i64, slot: ValType) -> Source {
        let wide = slot == ValType::I64;
        match (always, through) {
            (_, 0) => Source::Counter(self.counter(always, wide), slot),
            (0, 1) => Source::Counter(self.passages(wide), slot),
            (always, through) => {
                let passages = Part { runs: (self.passages(wide), wide), amount: through };
                let runs = (always != 0)
                    .then(|| Part { runs: (self.counter(1, wide), wide), amount: always });
                Source::Parts(runs.into_iter().chain([passages]).collect(), wide)
            }
        }
    }

    fn add(&mut self, sum: region::Sum, always: i64, through: i64) {
        if always != 0 {
            self.present_region().add(sum, always);
        }
        if through != 0 {
            let runs = (self.passages(sum.1), sum.1);
            self.r.ledger.parts.entry(sum).or_default().push(Part { runs, amount: through });
        }
    }

    /// A counter of the current region.
    fn counter(&mut self, amount: i64, wide: bool) -> u32 {
        self.present_region();
        let support = &mut self.r.support;
        let slot = if wide { ValType::I64 } else { ValType::I32 };
        let at = self.plan.here();
        self.regions
            .open
            .get_or_insert_with(|| Region::new(at))
            .counter(amount, wide, || support.counter(slot))
    }

    /// The current region, or a new one.
    fn present_region(&mut self) -> &mut Region {
        if self.regions.open.is_none() {
            self.regions.is_hot = self.is_hot(self.here);
        }
        let at = self.plan.here();
        self.regions.open.get_or_insert_with(|| Region::new(at))
    }

    /// A counter of the region that begins after the branch.
    fn passages(&mut self, wide: bool) -> u32 {
        let support = &mut self.r.support;
        let slot = if wide { ValType::I64 } else { ValType::I32 };
        *self.regions.behind_branch.entry(wide).or_insert_with(|| support.counter(slot))
    }

    /// Begins a region after a branch whose fall-throughs are counted.
    pub(super) fn begin_region(&mut self) {
        let counters = std::mem::take(&mut self.regions.behind_branch);
        if !counters.is_empty() {
            let mut region = Region::new(self.plan.here());
            for (wide, global) in counters {
                region.counter(1, wide, || global);
            }
            self.regions.open = Some(region);
            self.regions.is_hot = self.is_hot(self.here);
        }
    }

    /// Ends a region: adds the code that counts its runs, and records for the report what they add.
    pub(super) fn end_region(&mut self) {
        let Some(mut region) = self.regions.open.take() else { return };
        let sums = std::mem::take(&mut region.sums);
        if let (true, Some((&sum, &amount))) =
            (!self.regions.is_hot && sums.len() == 1 && region.is_plain(), sums.first_key_value())
        {
            self.plan.insert(region.at, region::increase(sum, amount, self.r.support.reach()));
            return;
        }
        if !sums.is_empty() {
            let wide = sums.keys().any(|s| s.1);
            let slot = if wide { ValType::I64 } else { ValType::I32 };
            let runs = (region.counter(1, wide, || self.r.support.counter(slot)), wide);
            for (sum, amount) in sums {
                self.r.ledger.parts.entry(sum).or_default().push(Part { runs, amount });
            }
        }
        self.plan.insert(region.at, region.code(self.r.support.reach()));
    }
}
