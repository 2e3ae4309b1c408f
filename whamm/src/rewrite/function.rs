//! Rewrites one function.
//!
//! The code of a probe is inserted before or after an instruction. Probes before an `end` or a
//! `loop` are inserted after it: a branch to a block lands on its end, a branch to a loop on the
//! loop, and the probe has to run for it. At one place, the order is: beginnings of functions,
//! beginnings of blocks, ends of blocks, instructions, ends of functions. If branches leave the
//! function's body, the rewriter wraps it in a block, so that they land on its last end too.

mod access;
mod asked;
mod batch;
mod frames;
mod labels;
mod matching;
mod operands;
mod operator;
mod origins;
mod outline;
mod replacement;
mod scheduled;
mod shadowing;
mod sums;
mod traps;

pub(crate) use asked::asked_for;
use asked::{argument, asked, asked_results};
use operator::{bulk, ends_function, is_branch, never_traps, table_of};
pub(crate) use outline::is_shared;
pub(crate) use traps::Segment;

use super::hot::Heat;
use super::known::Site;
use super::region::{self, Part, Region};
use super::rows::Source;
use super::walk::{self, Nesting, Op};
use super::{Rewriter, frames_of};
use crate::emit::code::{Emitter, Scope};
use crate::emit::locals::Locals;
use crate::emit::memories::{Bulk, Immediate};
use crate::emit::replacement::Replacement;
use crate::emit::storage::Storage;
use crate::emit::support::{Support, val};
use crate::events::{Bound, Event, Mode};
use crate::fold::{self, Known};
use crate::hir::{Expr, ExprKind, Place, Probe, Var};
use crate::types::Ty;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use wasm_encoder::{BlockType, Catch, InstructionSink, ValType};
use wasmparser::{
    FuncToValidate, FuncValidator, FuncValidatorAllocations, FunctionBody, Operator as O,
    ValType as W, ValidatorResources,
};
use whamm_rewrite::BodyPlan;

/// A probe that matched a site.
#[derive(Clone)]
struct Action<'p> {
    probe: &'p Probe,
    sites: Vec<Storage>,
    predicate: Option<Expr>,
    /// The statements left to do at the site, if the others are counted for the region or are among
    /// the increments.
    rest: Option<Vec<crate::hir::Stmt>>,
    /// Amounts added to sums each time, outside of the region's sums.
    increments: region::Increments,
}

type Validator = FuncValidator<ValidatorResources>;

/// The state of a function's rewriting.
struct Walker<'r, 'a> {
    r: &'r mut Rewriter<'a>,
    fid: u32,
    ops: Vec<Op<'a>>,
    validator: Validator,
    locals: Locals,
    /// The plan of the new body.
    plan: BodyPlan,
    regions: sums::Regions,
    /// The current instruction.
    here: usize,
    heat: Heat,
    /// Whether references to certain types occur.
    typed: bool,
    batch: batch::Batch,
    origins: origins::Origins,
    /// What is known of the entry that the previous instruction read from a table, in a local.
    got: Option<(usize, u32)>,
    /// Whether control continues after an instruction that never falls through by itself.
    falls_through: bool,
    scheduled: scheduled::Scheduled<'a>,
    frames: frames::Frames,
    /// Blocks that are being written in arms, the outermost first.
    arms: Vec<labels::Arm>,
}

/// Why a function cannot be rewritten.
pub(crate) struct Unplanned {
    /// Whether its own code is valid, but not the continuation after a replaced instruction.
    pub(super) falls_through: bool,
    pub(super) error: wasmparser::Error,
}

impl From<wasmparser::Error> for Unplanned {
    fn from(error: wasmparser::Error) -> Self {
        Self { falls_through: false, error }
    }
}

/// Plans a function's new body; returns the validator's allocations for reuse.
pub(crate) fn plan<'a>(
    r: &mut Rewriter<'a>,
    fid: u32,
    to_validate: FuncToValidate<ValidatorResources>,
    body: &FunctionBody<'a>,
    allocations: FuncValidatorAllocations,
) -> Result<(BodyPlan, FuncValidatorAllocations), Unplanned> {
    let mut validator = to_validate.into_validator(allocations);
    let mut reader = body.get_binary_reader();
    validator.read_locals(&mut reader)?;
    let declared = body.get_locals_reader()?.into_iter().collect::<Result<Vec<_>, _>>()?;
    let ops = walk::sites(r.app.bytes, body)?;
    let typed = r.app.typed_references
        || declared.iter().any(|(_, ty)| crate::app::is_typed(ty))
        || ops.iter().any(|op| walk::is_typed(&op.operator));
    let base = validator.len_locals();
    for event in ops.iter().filter_map(|op| op.event) {
        *r.findings.present.entry(event.index).or_default() += 1;
    }
    let sites = ops.iter().filter(|op| op.event.is_some_and(|e| r.probes.ask_operands(e))).count();
    let all = r.hot.get(&fid).is_some_and(|&most| sites <= most);
    let heat = Heat::of(&ops, all);
    let mut walker = Walker {
        fid,
        ops,
        validator,
        locals: Locals::new(base),
        plan: BodyPlan::default(),
        regions: sums::Regions::default(),
        here: 0,
        heat,
        typed,
        batch: batch::Batch::default(),
        origins: origins::Origins::of(&r.program.probes),
        got: None,
        falls_through: false,
        scheduled: scheduled::Scheduled::default(),
        frames: frames::Frames::of(r.program),
        arms: vec![],
        r,
    };
    if let Err(error) = walker.function() {
        return Err(Unplanned { falls_through: walker.falls_through, error });
    }
    let mut locals: Vec<(u32, ValType)> = declared.into_iter().map(|(n, t)| (n, val(t))).collect();
    locals.extend(walker.locals.types().iter().map(|&t| (1, t)));
    walker.plan.locals = locals;
    Ok((walker.plan, walker.validator.into_allocations()))
}

/// Locals in which operands are kept.
type Saved = Vec<(u32, ValType)>;

impl<'a> Walker<'_, 'a> {
    fn put(&mut self) -> InstructionSink<'_> {
        self.plan.put()
    }

    /// A type on the operand stack, for a local that holds such a value.
    fn val(&self, ty: W) -> ValType {
        self.r.app.val(ty, self.typed)
    }

    fn reachable(&self) -> bool {
        self.validator.get_control_frame(0).is_some_and(|f| !f.unreachable)
    }

    fn is_hot(&self, index: usize) -> bool {
        self.heat.hot[index]
    }

    fn site(&self, index: usize, at_entry: bool) -> (u32, u32, bool) {
        let op = &self.ops[index];
        (
            if at_entry { 0 } else { op.pc },
            u32::try_from(index).unwrap_or(0),
            index + 1 == self.ops.len(),
        )
    }

    fn function(&mut self) -> Result<(), wasmparser::Error> {
        self.begin_frames();
        let unwinds = self.r.probes.of_event(Event::FuncUnwind);
        // Exceptions leave an activation, too: its variables are added to the sums then.
        let catches =
            self.r.app.exceptions && !(unwinds.is_empty() && self.frames.reported.is_empty());
        let results = self.results_type();
        let entries = self.structural(&self.r.probes.of_event(Event::FuncEntry), 0, true);
        self.emit(&entries, 0, &[], &[], false);
        if catches && self.r.app.legacy {
            self.put().try_(results);
        } else if catches {
            let handler = self.handler_type();
            self.put().block(handler).try_table(results, [Catch::AllRef { label: 0 }]);
        }
        let wrapped = self.ops.last().is_some_and(|op| op.targeted);
        if wrapped {
            self.put().block(results);
        }
        let mut i = 0;
        while i + 1 < self.ops.len() {
            i = self.instruction(i)?;
        }
        self.last(wrapped)?;
        if catches {
            match self.r.app.legacy {
                true => self.put().catch_all(),
                false => self.put().end().return_().end(),
            };
            let actions = self.structural(&unwinds, self.ops.len() - 1, false);
            self.emit(&actions, self.ops.len() - 1, &[], &[], false);
            self.end_frames();
            // Engines refuse modules that contain both encodings.
            match self.r.app.legacy {
                true => self.put().rethrow(0).end(),
                false => self.put().throw_ref(),
            };
        }
        self.put().end();
        Ok(())
    }

    /// Rewrites an instruction, or a block that is replaced: returns the number of the next
    /// instruction.
    fn instruction(&mut self, i: usize) -> Result<usize, wasmparser::Error> {
        let nesting = self.ops[i].nesting;
        self.here = i;
        self.before(i);
        if self.ops[i].is_label() {
            self.end_region();
        }
        let mark = self.locals.mark();
        let reachable = self.reachable();
        let behind = matches!(nesting, Nesting::End | Nesting::Loop);
        for (action, opener) in self.scheduled.leaving.remove(&i).unwrap_or_default() {
            if reachable {
                let given = self.given(opener);
                self.action(&action, opener, &given, &[], false, None);
            }
        }
        let mut alt = self.block_replacement(i);
        if let Some(always) = alt.take_if(|alt| alt.predicate.is_none()) {
            return self.replaced_block(i, &always, reachable, mark);
        }
        let args =
            if reachable && self.asks_operands(i) { self.stack(self.takes(i)) } else { vec![] };
        let (mut saved, mut later) = (Vec::new(), Vec::new());
        if !behind {
            let is_replaced;
            (saved, later, is_replaced) = self.in_front(i, &args, reachable)?;
            if is_replaced {
                self.after(i, later, &saved, reachable);
                self.locals.release(mark);
                return Ok(i + 1);
            }
        }
        if nesting == Nesting::Loop {
            later = self.later(i, &args);
            let wants: Vec<&Action<'_>> = later.iter().collect();
            if reachable && asked(&wants, argument, 1).0.is_some() {
                self.make_calls();
                saved = self.save(&wants, i, &args, false);
                self.restore(&wants, &saved, true);
                self.give(i, later.iter(), &saved);
            }
        }
        let mut matched = None;
        if let (Some(alt), false) = (&alt, nesting == Nesting::Else) {
            if nesting == Nesting::Loop {
                matched = Some(self.first_of_loop(i, &args));
            }
            self.replace_block_if(i, alt, matched.as_deref().unwrap_or_default());
        }
        self.write_op(i);
        self.validated(i)?;
        if let (Some(alt), Nesting::Else) = (&alt, nesting) {
            self.replace_arm_if(i, alt);
        }
        if behind {
            self.behind(i, matched);
        }
        self.after(i, later, &saved, reachable);
        self.leave_arms(i);
        self.locals.release(mark);
        Ok(i + 1)
    }

    /// Writes the code before an instruction, or in its place. Returns where its operands are
    /// saved, the actions after it, and whether it was replaced.
    fn in_front(
        &mut self,
        i: usize,
        args: &[W],
        reachable: bool,
    ) -> Result<(Saved, Vec<Action<'a>>, bool), wasmparser::Error> {
        let mut first = self.first(i, args, reachable);
        let nesting = self.ops[i].nesting;
        let (alts, targets) = (self.probes(i, &[Mode::Alt]), self.at_target(i));
        let alts = self.match_all(&alts, i, args, &[]);
        let targets = self.match_all(&targets, i, args, &[]);
        let later = self.later(i, args);
        let (mut saved, mut entering) = (Vec::new(), vec![]);
        if nesting == Nesting::If {
            entering = self.match_all(&self.probes(i, &[Mode::Entry]), i, args, &[]);
        }
        let mut exits = vec![];
        if ends_function(&self.ops[i].operator) {
            exits = self.structural(&self.r.probes.of_event(Event::FuncExit), i, false);
        }
        if alts.is_empty() {
            first.append(&mut exits);
        }
        if reachable {
            let wants: Vec<&Action<'_>> =
                first.iter().chain(&targets).chain(&entering).chain(&later).collect();
            let only = if let ([_], [action], true) = (&wants[..], &first[..], alts.is_empty()) {
                Some(action)
            } else {
                None
            };
            let postponed = only.is_some_and(|action| self.postpone(action, i, args));
            if !(postponed || wants.is_empty() && alts.is_empty()) {
                self.make_calls();
            }
            if !(postponed || only.is_some_and(|action| self.pass(action, i, args))) {
                saved = self.save(&wants, i, args, !alts.is_empty());
                self.emit(&first, i, &saved, &[], false);
            }
            if alts.is_empty() {
                self.emit_targets(&targets, i, &saved);
            }
            self.restore(&wants, &saved, alts.is_empty());
            self.give(i, entering.iter().chain(&later), &saved);
            if !alts.is_empty() {
                self.replace(i, &alts, &saved, [&exits, &targets])?;
                return Ok((saved, later, true));
            }
            self.leave(i);
        }
        self.scheduled.entering = entering;
        Ok((saved, later, false))
    }

    /// Writes the code for an instruction that ends its function or the program.
    fn leave(&mut self, i: usize) {
        if ends_function(&self.ops[i].operator) {
            self.end_frames();
        }
        if let (O::Unreachable, Some(flush)) = (&self.ops[i].operator, self.r.flush) {
            self.unwinding(i);
            self.put().call(flush);
        }
    }

    /// Writes the code of unwinding probes at `unreachable`, an exit that no wrapper sees.
    fn unwinding(&mut self, i: usize) {
        let unwinds = self.r.probes.of_event(Event::FuncUnwind);
        let actions = self.structural(&unwinds, i, false);
        self.emit(&actions, i, &[], &[], false);
    }

    /// Writes the code of probes before an `end` or a `loop`, which is placed after it.
    fn behind(&mut self, i: usize, matched: Option<Vec<Action<'a>>>) {
        let reachable = self.reachable();
        let args = if self.asks_operands(i) { self.stack(16) } else { vec![] };
        let actions = matched.unwrap_or_else(|| self.first(i, &args, reachable));
        if reachable {
            let saved = self.save(&actions.iter().collect::<Vec<_>>(), i, &args, false);
            self.emit(&actions, i, &saved, &[], false);
            self.restore(&actions.iter().collect::<Vec<_>>(), &saved, true);
        }
    }

    /// Writes the code of probes.
    fn emit(
        &mut self,
        actions: &[Action<'a>],
        i: usize,
        args: &[(u32, ValType)],
        results: &[(u32, ValType)],
        alt: bool,
    ) {
        for action in actions {
            self.action(action, i, args, results, alt, None);
        }
    }

    /// Before a branch, under the condition that it is taken.
    fn emit_targets(&mut self, actions: &[Action<'a>], i: usize, saved: &[(u32, ValType)]) {
        if actions.is_empty() {
            return;
        }
        let conditional = matches!(self.ops[i].operator, O::BrIf { .. });
        if conditional {
            let held = saved.first().map_or_else(|| self.locals.take(ValType::I32), |s| s.0);
            if saved.is_empty() {
                self.put().local_tee(held);
            }
            self.put().local_get(held).if_(BlockType::Empty);
        }
        self.emit(actions, i, saved, &[], false);
        if conditional {
            self.put().end();
        }
    }

    /// Writes the code after the instruction: beginnings of blocks, actions scheduled for this end,
    /// and probes after the instruction.
    fn after(
        &mut self,
        i: usize,
        later: Vec<Action<'a>>,
        saved: &[(u32, ValType)],
        was_reachable: bool,
    ) {
        self.entries(i);
        let reachable = self.reachable();
        if self.ops[i].nesting == Nesting::End && reachable {
            for (action, opener) in self.scheduled.behind.remove(&i).unwrap_or_default() {
                let given = self.given(opener);
                self.action(&action, opener, &given, &[], false, None);
            }
        }
        let opens = !matches!(self.ops[i].nesting, Nesting::Plain | Nesting::End);
        if opens {
            let (exits, behind): (Vec<_>, Vec<_>) =
                later.into_iter().partition(|a| a.probe.matched.mode == Mode::Exit);
            self.wait_for_end(i, behind);
            if !exits.is_empty() {
                for closing in walk::closings(&self.ops, i) {
                    self.scheduled
                        .leaving
                        .entry(closing)
                        .or_default()
                        .extend(exits.iter().cloned().map(|a| (a, i)));
                }
            }
        } else {
            let mut later = later;
            if self.ops[i].nesting == Nesting::End {
                later = self.later(i, &[]);
            }
            // Control may reach an end from elsewhere, and a clause only from elsewhere.
            let from_elsewhere = self.ops[i].nesting == Nesting::End || self.ops[i].is_clause();
            if !later.is_empty() && reachable && (was_reachable || from_elsewhere) {
                let results = self.stack(8);
                let refs: Vec<&Action<'_>> = later.iter().collect();
                let (most, changed) = asked_results(&refs);
                let held = self.hold_results(most, &results, changed);
                self.emit(&later, i, saved, &held, false);
                if changed {
                    for &(local, _) in held.iter().rev() {
                        self.put().local_get(local);
                    }
                }
            }
        }
        let op = &self.ops[i];
        let trapping = self.r.options.exact_traps && op.event.is_some_and(|e| !never_traps(e));
        if walk::interrupts(&op.operator) || trapping {
            self.end_region();
            self.begin_region();
        }
    }

    /// Rewrites the last end of the function.
    fn last(&mut self, wrapped: bool) -> Result<(), wasmparser::Error> {
        let i = self.ops.len() - 1;
        self.make_calls();
        if self.ops[i].is_label() {
            self.end_region();
        }
        self.plan.leave_out(self.ops[i].place());
        if wrapped {
            self.put().end();
        }
        let reachable = wrapped || self.reachable();
        let results: Vec<W> = self.r.app.shape(self.fid).1.iter().rev().copied().collect();
        let mut actions = self.first(i, &results, reachable);
        let after = self.probes(i, &[Mode::After]);
        actions.extend(self.match_all(&after, i, &results, &[]));
        actions.extend(self.structural(&self.r.probes.of_event(Event::FuncExit), i, false));
        if reachable {
            let refs: Vec<&Action<'_>> = actions.iter().collect();
            let saved = self.save(&refs, i, &results, false);
            self.emit(&actions, i, &saved, &[], false);
            let refs: Vec<&Action<'_>> = actions.iter().collect();
            self.restore(&refs, &saved, true);
            self.end_frames();
        }
        // Functions whose end is unreachable have rows, too.
        for n in self.frames.reported.clone() {
            self.sum_of_frames(n);
        }
        self.end_region();
        self.validated(i)
    }

    fn action(
        &mut self,
        action: &Action<'a>,
        i: usize,
        args: &[(u32, ValType)],
        results: &[(u32, ValType)],
        alt: bool,
        replacing: Option<Replacement>,
    ) {
        self.make_calls();
        let mark = self.locals.mark();
        let at_entry = action.probe.matched.event == Event::FuncEntry;
        if !alt && replacing.is_none() && self.call_body(action, i, args, at_entry) {
            return;
        }
        for &(sum, amount) in &action.increments {
            self.plan.code.extend(region::increase(sum, amount, self.r.support.reach()));
        }
        let (pc, index, last) = self.site(i, at_entry);
        let mut scope = self.scope(action, i, args, results);
        scope.operands = args.iter().rev().copied().collect();
        scope.bulk = bulk(&self.ops[i].operator).map(|b| self.moved_bulk(b));
        scope.replacement = replacing;
        let site = Site {
            facts: &self.r.facts,
            fid: self.fid,
            op: (!at_entry).then(|| &self.ops[i]),
            pc,
            index,
            last,
        };
        let body = &action.probe.body;
        let mut emitter = Emitter::new(
            &mut self.r.support,
            &mut self.locals,
            &scope,
            &site as &dyn Known,
            self.r.program,
            self.r.libraries,
        );
        emitter.enter(&body.locals);
        let predicate = if alt { None } else { action.predicate.as_ref() };
        emitter.body(predicate, action.rest.as_ref().unwrap_or(&body.stmts));
        let code = std::mem::take(&mut emitter.out);
        self.plan.code.extend(code);
        self.locals.release(mark);
    }

    fn moved_bulk(&self, bulk: Bulk) -> Bulk {
        match bulk {
            Bulk::Copy(Immediate::Known(memory)) => {
                Bulk::Copy(Immediate::Known(self.r.indices.memory(memory)))
            }
            other => other,
        }
    }
}
